//! Automatic parameterization: which changes of rows may share a plan when only their literals differ, and which
//! queries are worth asking whether they may.
//!
//! Neighbours: `text` and `change` ask; short reads need no asking, their compiler takes parameters only where it
//! may. Of a query its plan says so: `QueryPlan::keyed_tables`.
//! **Invariants**
//! - Every parameter stands where its type decides nothing that its class (integer, decimal, string …)
//!   does not: a whole value of a row, the other side of a comparison with a column of its kind, or an
//!   operand of arithmetic with a column.
//! - When in doubt, no.

use esker_sql_catalog::catalog::TableDef;
use esker_sql_syntax::ast::{
    BinaryOp, ColumnRef, Expr, InsertSource, Join, JoinOn, Query, QueryBody, Statement, TableRef,
    UnaryOp,
};
use esker_types::{SqlType, TypeKind, Value};

/// Does the statement have every parameter in a place where it may be replaced?
pub(super) fn shares_plan(statement: &Statement, params: &[Value]) -> bool {
    let Some(places) = places(statement) else {
        return false;
    };
    let mut counted = 0;
    for place in places {
        match place {
            Place::Value(e) => counted += count_value(e, params),
            Place::Sum(e) => counted += count_sum(e, params),
            Place::Filter(e) => match count_filter(e) {
                Some(n) => counted += n,
                None => return false,
            },
        }
    }
    // A parameter in any other place was not counted.
    counted == params.len()
}

/// Do the parameters that are compared with columns have those columns' kinds?
pub(super) fn fits_columns(statement: &Statement, table: &TableDef, params: &[Value]) -> bool {
    match statement {
        Statement::Update(u) => u.filter.as_ref().is_none_or(|f| fits(f, table, params)),
        Statement::Delete(d) => d.filter.as_ref().is_none_or(|f| fits(f, table, params)),
        _ => true,
    }
}

/// Most tables of a query whose plan may be kept.
const MAX_KEYED_TABLES: usize = 4;

/// May all tables of a query be read by keys that it names? Where this is so its plan is likely one that can be kept.
pub(super) fn may_be_keyed(query: &Query) -> bool {
    let QueryBody::Select(select) = &query.body else {
        return false;
    };
    query.with.is_none()
        && query.into.is_none()
        && select.hints.is_none()
        && select.windows.is_empty()
        && !select.rollup
        && (1..=MAX_KEYED_TABLES).contains(&select.from.len())
        && select
            .from
            .iter()
            .all(|table| is_plain_table(table, MAX_KEYED_TABLES))
        && select.filter.as_ref().is_some_and(are_equalities)
}

/// A named table, or a join of such in at most `depth` steps.
fn is_plain_table(table: &TableRef, depth: usize) -> bool {
    let is_join = |join: &Join| {
        let is_keyed = match &join.on {
            Some(JoinOn::On(on)) => are_equalities(on),
            Some(JoinOn::Using(_)) | None => true,
        };
        is_keyed && is_plain_table(&join.left, depth - 1) && is_plain_table(&join.right, depth - 1)
    };
    match table {
        TableRef::Table(table) => table.partitions.is_empty(),
        TableRef::Join(join) => depth > 0 && is_join(join),
        TableRef::Derived { .. } | TableRef::Json { .. } | TableRef::List(_) => false,
    }
}

/// Nothing but columns that equal values and other columns.
fn are_equalities(filter: &Expr) -> bool {
    match filter {
        Expr::And(list) => list.iter().all(are_equalities),
        Expr::Binary {
            op: BinaryOp::Eq,
            left,
            right,
        } => {
            let is_side =
                |e: &Expr| matches!(e, Expr::Column(_) | Expr::Param(_) | Expr::Literal(_));
            is_side(left) && is_side(right)
        }
        _ => false,
    }
}

/// An expression of a statement, by what it may be.
enum Place<'a> {
    /// A value that is stored as it is.
    Value(&'a Expr),
    /// A value, or integer arithmetic on a column.
    Sum(&'a Expr),
    /// Conditions on columns.
    Filter(&'a Expr),
}

/// Where parameters may be; `None` for statements that do not share plans.
fn places(statement: &Statement) -> Option<Vec<Place<'_>>> {
    let plain = |tables: &[TableRef]| matches!(tables, [TableRef::Table(t)] if t.hints.is_empty() && t.partitions.is_empty());
    match statement {
        Statement::Insert(i)
            if i.returning.is_empty() && i.partitions.is_empty() && i.hints.is_none() =>
        {
            let InsertSource::Values(rows) = &i.source else {
                return None;
            };
            let updates = i.on_duplicate.iter().map(|a| Place::Value(&a.value));
            let values = rows.iter().flatten().map(Place::Value);
            Some(values.chain(updates).collect())
        }
        Statement::Update(u)
            if plain(&u.tables)
                && u.with.is_none()
                && u.hints.is_none()
                && u.order_by.is_empty()
                && u.limit.is_none() =>
        {
            let mut places: Vec<_> = u.assignments.iter().map(|a| Place::Sum(&a.value)).collect();
            places.push(Place::Filter(u.filter.as_ref()?));
            Some(places)
        }
        Statement::Delete(d)
            if plain(&d.from)
                && d.with.is_none()
                && d.hints.is_none()
                && d.targets.is_empty()
                && d.order_by.is_empty()
                && d.limit.is_none()
                && d.returning.is_empty() =>
        {
            Some(vec![Place::Filter(d.filter.as_ref()?)])
        }
        _ => None,
    }
}

/// 1 for a parameter, also a negated integer; 0 for anything else.
fn count_value(e: &Expr, params: &[Value]) -> usize {
    match e {
        Expr::Param(_) => 1,
        Expr::Unary {
            op: UnaryOp::Neg,
            expr,
        } => usize::from(is_integer(expr, params)),
        _ => 0,
    }
}

/// As [`count_value`], also for `column + 1` and the like: the digits of a decimal, on which the result's type depends,
/// are part of its kind.
fn count_sum(e: &Expr, params: &[Value]) -> usize {
    match e {
        Expr::Binary {
            op: BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul,
            left,
            right,
        } => match (&**left, &**right) {
            (Expr::Column(_), e) | (e, Expr::Column(_)) => usize::from(is_number(e, params)),
            _ => 0,
        },
        e => count_value(e, params),
    }
}

fn is_integer(e: &Expr, params: &[Value]) -> bool {
    matches!(e, Expr::Param(n) if matches!(params.get(*n as usize), Some(Value::Int(_))))
}

fn is_number(e: &Expr, params: &[Value]) -> bool {
    let value = match e {
        Expr::Param(n) => params.get(*n as usize),
        _ => None,
    };
    matches!(
        value,
        Some(Value::Int(_) | Value::Decimal(_) | Value::Double(_))
    )
}

/// A comparison of a column with values.
struct Comparison<'a> {
    column: &'a ColumnRef,
    values: Vec<&'a Expr>,
}

/// The comparisons of a condition; `None` if there is anything else in it.
fn comparisons(filter: &Expr) -> Option<Vec<Comparison<'_>>> {
    match filter {
        Expr::And(list) => list.iter().map(comparison).collect(),
        e => Some(vec![comparison(e)?]),
    }
}

fn comparison(e: &Expr) -> Option<Comparison<'_>> {
    let (column, values) = match e {
        Expr::Binary {
            op:
                BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge,
            left,
            right,
        } => match (&**left, &**right) {
            (Expr::Column(c), v) | (v, Expr::Column(c)) => (c, vec![v]),
            _ => return None,
        },
        Expr::Between {
            expr, low, high, ..
        } => match &**expr {
            Expr::Column(c) => (c, vec![&**low, &**high]),
            _ => return None,
        },
        Expr::InList { expr, list, .. } => match &**expr {
            Expr::Column(c) => (c, list.iter().collect()),
            _ => return None,
        },
        _ => return None,
    };
    let plain = |v: &&Expr| matches!(v, Expr::Param(_) | Expr::Literal(_));
    values
        .iter()
        .all(plain)
        .then_some(Comparison { column, values })
}

/// Parameters of a condition.
fn count_filter(filter: &Expr) -> Option<usize> {
    let all = comparisons(filter)?;
    let params = all
        .iter()
        .flat_map(|c| &c.values)
        .filter(|v| matches!(v, Expr::Param(_)));
    Some(params.count())
}

fn fits(filter: &Expr, table: &TableDef, params: &[Value]) -> bool {
    let Some(all) = comparisons(filter) else {
        return false;
    };
    all.iter().all(|c| {
        let Some(col) = table.column_index(&c.column.name.text) else {
            return false;
        };
        let ty = &table.columns[col].ty;
        c.values.iter().all(|v| match v {
            Expr::Param(n) => params.get(*n as usize).is_some_and(|v| same_kind(ty, v)),
            _ => true,
        })
    })
}

/// Compared in the column's own domain, whatever the literal's length.
fn same_kind(column: &SqlType, value: &Value) -> bool {
    match value {
        Value::Int(_) | Value::UInt(_) => column.is_integer() && column.kind != TypeKind::Year,
        Value::Str(_) => column.is_string(),
        _ => false,
    }
}
