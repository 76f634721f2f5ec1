//! Which SELECTs are short.
//!
//! Neighbours: the parser's tree and the catalog come in, a [`ShortSelect`] goes out, or nothing.
//! **Invariant**: when in doubt, nothing: the long way is always right.

use std::sync::Arc;

use esker_sql_catalog::catalog::{IndexDef, TableDef, same_name};
use esker_sql_catalog::result::ColumnMeta;
use esker_sql_plan::bind::column_flags;
use esker_sql_syntax::ast::{
    BinaryOp, Call, ColumnRef, Expr, Literal, NamedTable, Query, QueryBody, Select, SelectItem,
    TableRef,
};
use esker_types::collation::Coercibility;
use esker_types::{SqlType, TypeKind, Value};

use super::{AggKind, Operand, Output, RangeSpec, ShortSelect};

/// Most ranges of one statement; longer IN lists go the long way.
const MAX_RANGES: usize = 256;

/// The single table of a query that may be short; the caller resolves it.
pub fn candidate(query: &Query) -> Option<&NamedTable> {
    let select = short_select(query)?;
    match select.from.as_slice() {
        [TableRef::Table(t)] if t.hints.is_empty() && t.partitions.is_empty() => Some(t),
        _ => None,
    }
}

fn short_select(query: &Query) -> Option<&Select> {
    let plain = query.with.is_none()
        && query.limit.is_none()
        && query.locking.is_empty()
        && query.into.is_none();
    match &query.body {
        QueryBody::Select(s)
            if plain
                && s.group_by.is_empty()
                && s.having.is_none()
                && s.windows.is_empty()
                && !s.options.calc_found_rows =>
        {
            Some(s)
        }
        _ => None,
    }
}

/// Compiles a query over `table`, which [`candidate`] named. `params` is the statement's number of
/// parameters.
pub fn compile(query: &Query, table: &Arc<TableDef>, params: usize) -> Option<ShortSelect> {
    let select = short_select(query)?;
    let named = candidate(query)?;
    let names = Names {
        table,
        alias: named.alias.as_ref().map(|a| &*a.text),
    };
    let (index, ranges) = access(&names, select.filter.as_ref()?)?;
    let (output, columns) = output(&names, query, select)?;
    let def = &table.indexes[index];
    let unique = def.unique && matches!(ranges.as_slice(), [r] if r.equal.len() == def.parts.len());
    let index_only = !def.primary && !def.hidden && {
        let codec = &def.codec;
        let in_key = |col: usize| {
            let at = def.parts.iter().position(|p| p.col == col);
            at.is_some_and(|nth| codec.is_reversible(nth))
        };
        output.columns().all(in_key)
    };
    Some(ShortSelect {
        table: table.clone(),
        columns: columns.into(),
        params,
        index,
        ranges,
        unique,
        index_only,
        output,
    })
}

impl Output {
    fn columns(&self) -> Box<dyn Iterator<Item = usize> + '_> {
        match self {
            Self::Columns(c) | Self::Sorted { columns: c, .. } => Box::new(c.iter().copied()),
            Self::Aggregates(a) => Box::new(
                a.iter()
                    .filter(|(kind, _)| *kind != AggKind::CountStar)
                    .map(|(_, col)| *col),
            ),
        }
    }
}

struct Names<'a> {
    table: &'a TableDef,
    alias: Option<&'a str>,
}

impl Names<'_> {
    fn column(&self, c: &ColumnRef) -> Option<usize> {
        if let Some(t) = &c.table {
            let name = self.alias.unwrap_or(&self.table.name);
            if *t.text != *name {
                return None;
            }
        }
        if c.schema
            .as_ref()
            .is_some_and(|s| *s.text != *self.table.schema)
        {
            return None;
        }
        self.table.column_index(&c.name.text)
    }

    fn of(&self, e: &Expr) -> Option<usize> {
        match e {
            Expr::Column(c) => self.column(c),
            _ => None,
        }
    }
}

fn operand(e: &Expr) -> Option<Operand> {
    Some(match e {
        Expr::Param(n) => Operand::Param(*n),
        Expr::Literal(Literal::Int(n)) => {
            Operand::Const(i64::try_from(*n).map_or(Value::UInt(*n), Value::Int))
        }
        Expr::Literal(Literal::Str {
            bytes,
            charset: None,
        }) => Operand::Const(Value::Str(bytes.clone())),
        _ => return None,
    })
}

/// A condition on one column.
struct Cond {
    col: usize,
    test: Test,
}

enum Test {
    Eq(Operand),
    Low(Operand, bool),
    High(Operand, bool),
    Between(Operand, Operand),
    In(Vec<Operand>),
}

fn condition(names: &Names<'_>, e: &Expr) -> Option<Cond> {
    match e {
        Expr::Binary { op, left, right } => {
            let (col, value, op) = match (names.of(left), names.of(right)) {
                (Some(col), None) => (col, operand(right)?, *op),
                (None, Some(col)) => (col, operand(left)?, flipped(*op)?),
                _ => return None,
            };
            let test = match op {
                BinaryOp::Eq => Test::Eq(value),
                BinaryOp::Gt => Test::Low(value, false),
                BinaryOp::Ge => Test::Low(value, true),
                BinaryOp::Lt => Test::High(value, false),
                BinaryOp::Le => Test::High(value, true),
                _ => return None,
            };
            Some(Cond { col, test })
        }
        Expr::Between {
            expr,
            low,
            high,
            negated: false,
        } => Some(Cond {
            col: names.of(expr)?,
            test: Test::Between(operand(low)?, operand(high)?),
        }),
        Expr::InList {
            expr,
            list,
            negated: false,
        } => Some(Cond {
            col: names.of(expr)?,
            test: Test::In(list.iter().map(operand).collect::<Option<_>>()?),
        }),
        _ => None,
    }
}

fn flipped(op: BinaryOp) -> Option<BinaryOp> {
    Some(match op {
        BinaryOp::Eq => BinaryOp::Eq,
        BinaryOp::Lt => BinaryOp::Gt,
        BinaryOp::Le => BinaryOp::Ge,
        BinaryOp::Gt => BinaryOp::Lt,
        BinaryOp::Ge => BinaryOp::Le,
        _ => return None,
    })
}

/// The index and its ranges, if the whole condition is one.
fn access(names: &Names<'_>, filter: &Expr) -> Option<(usize, Vec<RangeSpec>)> {
    match filter {
        Expr::And(list) => {
            let conds = list
                .iter()
                .map(|e| condition(names, e))
                .collect::<Option<Vec<_>>>()?;
            conjunction(names.table, conds)
        }
        Expr::Or(list) => {
            let conds = list
                .iter()
                .map(|e| condition(names, e))
                .collect::<Option<Vec<_>>>()?;
            disjunction(names.table, conds)
        }
        e => conjunction(names.table, vec![condition(names, e)?]),
    }
}

/// Can this index serve, as a user would want it to?
fn usable(index: &IndexDef) -> bool {
    !index.hidden && !index.invisible && index.parts.iter().all(|p| p.prefix_len.is_none())
}

fn conjunction(table: &TableDef, conds: Vec<Cond>) -> Option<(usize, Vec<RangeSpec>)> {
    // All conditions must be consumed by one index: equalities on a prefix of its parts, then
    // possibly one range or list on the next part.
    let mut best: Option<(usize, usize)> = None;
    for (at, index) in table.indexes.iter().enumerate().filter(|(_, i)| usable(i)) {
        if covers(index, &conds) {
            let rank = usize::from(!index.primary) + usize::from(!index.unique);
            if best.is_none_or(|(_, r)| rank < r) {
                best = Some((at, rank));
            }
        }
    }
    let (at, _) = best?;
    Some((at, build(&table.indexes[at], conds)?))
}

fn covers(index: &IndexDef, conds: &[Cond]) -> bool {
    let equal = |col| {
        conds
            .iter()
            .filter(|c| c.col == col && matches!(c.test, Test::Eq(_)))
            .count()
    };
    let mut used = 0;
    for part in &index.parts {
        match equal(part.col) {
            1 => used += 1,
            0 => {
                let rest: Vec<_> = conds.iter().filter(|c| c.col == part.col).collect();
                let fits = match rest.as_slice() {
                    [_] => true,
                    [a, b] => matches!(
                        (&a.test, &b.test),
                        (Test::Low(..), Test::High(..)) | (Test::High(..), Test::Low(..))
                    ),
                    _ => false,
                };
                if fits && !part.desc {
                    used += rest.len();
                }
                break;
            }
            _ => return false,
        }
    }
    used > 0 && used == conds.len()
}

fn build(index: &IndexDef, conds: Vec<Cond>) -> Option<Vec<RangeSpec>> {
    let mut range = RangeSpec::default();
    let mut list = None;
    let mut conds: Vec<Option<Cond>> = conds.into_iter().map(Some).collect();
    for part in &index.parts {
        for slot in &mut conds {
            if slot.as_ref().is_none_or(|c| c.col != part.col) {
                continue;
            }
            match slot.take()?.test {
                Test::Eq(v) => range.equal.push(v),
                Test::Low(v, inclusive) => range.low = Some((v, inclusive)),
                Test::High(v, inclusive) => range.high = Some((v, inclusive)),
                Test::Between(low, high) => {
                    range.low = Some((low, true));
                    range.high = Some((high, true));
                }
                Test::In(values) => list = Some(values),
            }
        }
    }
    Some(match list {
        None => vec![range],
        Some(values) if values.len() <= MAX_RANGES => values
            .into_iter()
            .map(|v| {
                let mut one = range.clone();
                one.equal.push(v);
                one
            })
            .collect(),
        Some(_) => return None,
    })
}

/// ORed ranges of the first part of one index.
fn disjunction(table: &TableDef, conds: Vec<Cond>) -> Option<(usize, Vec<RangeSpec>)> {
    let col = conds.first()?.col;
    if conds.iter().any(|c| c.col != col) || conds.len() > MAX_RANGES {
        return None;
    }
    let first = |i: &&IndexDef| usable(i) && i.parts[0].col == col && !i.parts[0].desc;
    let at = table.indexes.iter().position(|i| first(&i))?;
    let mut ranges = Vec::new();
    for cond in conds {
        ranges.extend(build(&table.indexes[at], vec![cond])?);
    }
    (ranges.len() <= MAX_RANGES).then_some((at, ranges))
}

fn meta(names: &Names<'_>, col: usize, title: &str) -> ColumnMeta {
    let table = names.table;
    let def = &table.columns[col];
    ColumnMeta {
        schema: table.schema.clone(),
        table: names.alias.map_or_else(|| table.name.clone(), Arc::from),
        org_table: table.name.clone(),
        name: Arc::from(title),
        org_name: def.name.clone(),
        ty: def.ty.clone(),
        flags: column_flags(table, col),
        coercibility: Coercibility::of_column(&def.ty),
    }
}

fn output(names: &Names<'_>, query: &Query, select: &Select) -> Option<(Output, Vec<ColumnMeta>)> {
    let is_aggregate = |i: &SelectItem| {
        matches!(
            i,
            SelectItem::Expr {
                expr: Expr::Call(_),
                ..
            }
        )
    };
    if select.items.iter().all(is_aggregate) {
        if select.distinct || !query.order_by.is_empty() {
            return None;
        }
        return aggregates(names, select);
    }
    let (columns, metas) = plain_columns(names, select)?;
    let sorted = match query.order_by.as_slice() {
        [] if !select.distinct => return Some((Output::Columns(columns), metas)),
        [] => None,
        [key] => {
            let col = names.of(&key.expr)?;
            Some((columns.iter().position(|c| *c == col)?, key.desc))
        }
        _ => return None,
    };
    let (by, desc) = match (sorted, select.distinct) {
        (Some(s), false) => s,
        // Without duplicates only when the one column is also the order.
        (Some(s), true) if columns.len() == 1 => s,
        _ => return None,
    };
    // Only types that compare as integers or by their collation.
    let ty = &names.table.columns[columns[by]].ty;
    if !(ty.is_integer() || ty.is_string()) {
        return None;
    }
    Some((
        Output::Sorted {
            columns,
            by,
            desc,
            distinct: select.distinct,
        },
        metas,
    ))
}

fn plain_columns(names: &Names<'_>, select: &Select) -> Option<(Vec<usize>, Vec<ColumnMeta>)> {
    let (mut columns, mut metas) = (Vec::new(), Vec::new());
    for item in &select.items {
        match item {
            SelectItem::Wildcard => {
                for (i, c) in names
                    .table
                    .columns
                    .iter()
                    .enumerate()
                    .filter(|(_, c)| !c.invisible)
                {
                    columns.push(i);
                    metas.push(meta(names, i, &c.name));
                }
            }
            SelectItem::Expr {
                expr: Expr::Column(c),
                alias,
                ..
            } => {
                let col = names.column(c)?;
                let title = alias.as_ref().map_or(&c.name.text, |a| &a.text);
                columns.push(col);
                metas.push(meta(names, col, title));
            }
            _ => return None,
        }
    }
    Some((columns, metas))
}

fn aggregates(names: &Names<'_>, select: &Select) -> Option<(Output, Vec<ColumnMeta>)> {
    let (mut list, mut metas) = (Vec::new(), Vec::new());
    for item in &select.items {
        let SelectItem::Expr {
            expr: Expr::Call(call),
            alias,
            text,
        } = item
        else {
            return None;
        };
        let (kind, col, ty) = aggregate(names, call)?;
        let title = alias.as_ref().map_or(&**text, |a| &*a.text);
        list.push((kind, col));
        metas.push(ColumnMeta::computed(title, ty));
    }
    Some((Output::Aggregates(list), metas))
}

fn aggregate(names: &Names<'_>, call: &Call) -> Option<(AggKind, usize, SqlType)> {
    if call.schema.is_some() || call.distinct || call.over.is_some() {
        return None;
    }
    let count_type = || SqlType {
        length: 21,
        nullable: false,
        ..SqlType::bigint(false)
    };
    if call.name.is("count") && call.star {
        return Some((AggKind::CountStar, 0, count_type()));
    }
    let [Expr::Column(c)] = call.args.as_slice() else {
        return None;
    };
    let col = names.column(c)?;
    let ty = &names.table.columns[col].ty;
    debug_assert!(same_name(&names.table.columns[col].name, &c.name.text));
    if call.name.is("count") {
        return Some((AggKind::Count, col, count_type()));
    }
    let digits = match ty.kind {
        TypeKind::TinyInt => 3,
        TypeKind::SmallInt => 5,
        TypeKind::MediumInt if ty.unsigned => 8,
        TypeKind::MediumInt => 7,
        TypeKind::Int => 10,
        TypeKind::BigInt if ty.unsigned => 20,
        TypeKind::BigInt => 19,
        _ => return None,
    };
    /// What SUM adds to the digits of its argument.
    const SUM_DIGITS: u32 = 22;
    if call.name.is("sum") {
        return Some((AggKind::Sum, col, SqlType::decimal(digits + SUM_DIGITS, 0)));
    }
    let ty = SqlType {
        nullable: true,
        ..ty.clone()
    };
    if call.name.is("min") {
        Some((AggKind::Min, col, ty))
    } else if call.name.is("max") {
        Some((AggKind::Max, col, ty))
    } else {
        None
    }
}
