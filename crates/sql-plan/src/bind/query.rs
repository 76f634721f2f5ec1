//! Query expressions: WITH, set operations, VALUES, TABLE, parentheses.
//!
//! Neighbours: `select` binds query blocks; `from` and `subquery` bind queries inside queries.
//! **Invariants**: the result's column names are the first operand's; its types hold the values of
//! every operand; ORDER BY and LIMIT of a parenthesised operand stay with it.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::Arc;

use esker_sql_catalog::result::{ColumnMeta, StoredAs};
use esker_sql_syntax::ast;
use esker_types::collation::{Coercibility, Collation};
use esker_types::func::merge::merge_types;
use esker_types::func::{ArgType, RetCtx, check_constant};
use esker_types::{SqlError, SqlResult, SqlType, TypeKind};

use super::block::{Body, BoundQuery, SetStep, Shared, Volatility};
use super::expr::bind_expr;
use super::from::check_distinct;
use super::order::bind_result_order;
use super::recursive::{bind_recursive, is_recursive, unreadable};
use super::scope::{BoundCte, CteEntry, CteTable, DefinedCte, Scope};
use super::select::{Around, bind_limit, bind_select, stored_as};
use super::{BindEnv, Purpose, QueryPlace, call, errors};
use crate::expr::Expr;

/// Binds a query expression.
pub fn bind_query(
    env: &BindEnv<'_>,
    query: &ast::Query,
    parent: Option<&Scope<'_>>,
    ctes: Option<&Rc<CteEntry>>,
) -> SqlResult<BoundQuery> {
    let _level = env.enter_query()?;
    match &query.with {
        None => bind_body(env, query, parent, ctes),
        Some(with) => bind_with(env, with, query, parent, ctes),
    }
}

/// Binds the body with the common table expressions in reach.
fn bind_with(
    env: &BindEnv<'_>,
    with: &ast::With,
    query: &ast::Query,
    parent: Option<&Scope<'_>>,
    ctes: Option<&Rc<CteEntry>>,
) -> SqlResult<BoundQuery> {
    let ctes = define_ctes(with, parent, ctes)?;
    bind_body(env, query, parent, ctes.as_ref())
}

/// Common table expressions that can be named; each sees those before it.
pub fn define_ctes(
    with: &ast::With,
    parent: Option<&Scope<'_>>,
    ctes: Option<&Rc<CteEntry>>,
) -> SqlResult<Option<Rc<CteEntry>>> {
    let mut reachable = ctes.cloned();
    for (nth, cte) in with.ctes.iter().enumerate() {
        let name = &cte.name.text;
        if with.ctes[..nth].iter().any(|c| c.name.text == *name) {
            return Err(errors::not_unique_table(name));
        }
        let defined = DefinedCte {
            cte: cte.clone(),
            recursive: with.recursive,
            level: level(parent),
            ctes: reachable.clone(),
            bound: OnceCell::new(),
        };
        reachable = Some(Rc::new(CteEntry {
            name: name.clone(),
            table: CteTable::Defined(Box::new(defined)),
            up: reachable,
        }));
    }
    Ok(reachable)
}

/// What a common table expression stands for that is named in a block inside `parent`.
pub(super) fn bind_named<'c>(
    env: &BindEnv<'_>,
    defined: &'c DefinedCte,
    parent: Option<&Scope<'_>>,
) -> SqlResult<&'c BoundCte> {
    if let Some(bound) = defined.bound.get() {
        return Ok(bound);
    }
    let (outside, _) = outside(defined, parent);
    let (query, measured) = env.measure(|| bind_below(env, defined, outside, 0))?;
    let query = (query.reach == 0).then(|| {
        let shared = Some(Shared {
            id: env.subquery_id(),
            uses: Cell::new(0),
        });
        Rc::new(BoundQuery { shared, ..query })
    });
    Ok(defined.bound.get_or_init(|| BoundCte { query, measured }))
}

/// Binds one common table expression, its columns under the names that WITH gives.
fn bind_cte(
    env: &BindEnv<'_>,
    cte: &ast::Cte,
    recursive: bool,
    parent: Option<&Scope<'_>>,
    ctes: Option<&Rc<CteEntry>>,
) -> SqlResult<BoundQuery> {
    let name = &*cte.name.text;
    let itself = recursive && is_recursive(&cte.query, name);
    let mut bound = env.within(QueryPlace::Derived, || match recursive {
        _ if itself => bind_recursive(env, cte, parent, ctes),
        true => bind_query(env, &cte.query, parent, Some(&unreadable(env, name, ctes))),
        false => bind_query(env, &cte.query, parent, ctes),
    })?;
    if !cte.columns.is_empty() && !itself {
        if cte.columns.len() != bound.columns.len() {
            return Err(errors::view_columns_differ());
        }
        let renamed = bound.columns.iter().zip(&cte.columns);
        bound.columns = renamed
            .map(|(c, name)| ColumnMeta {
                name: name.text.clone().into(),
                ..c.clone()
            })
            .collect();
    }
    check_distinct(bound.columns.iter().map(|c| &*c.name))?;
    Ok(bound)
}

/// Query blocks from `scope` outwards, itself included.
fn level(scope: Option<&Scope<'_>>) -> usize {
    std::iter::successors(scope, |s| s.parent).count()
}

/// The block around the WITH clause, seen from a block inside `parent`, and the number of blocks between.
fn outside<'s>(
    defined: &DefinedCte,
    parent: Option<&'s Scope<'s>>,
) -> (Option<&'s Scope<'s>>, usize) {
    let between = level(parent) - defined.level;
    let outside = std::iter::successors(parent, |s| s.parent).nth(between);
    (outside, between)
}

/// Binds a common table expression that refers to enclosing queries where it is read, in a block
/// inside `parent`: its references count the levels from there.
pub(super) fn bind_correlated(
    env: &BindEnv<'_>,
    defined: &DefinedCte,
    parent: Option<&Scope<'_>>,
) -> SqlResult<BoundQuery> {
    let (outside, between) = outside(defined, parent);
    bind_below(env, defined, outside, between)
}

/// Binds it below `empty` blocks without names: those between WITH and the place of the name, which its
/// definition does not see.
fn bind_below(
    env: &BindEnv<'_>,
    defined: &DefinedCte,
    parent: Option<&Scope<'_>>,
    empty: usize,
) -> SqlResult<BoundQuery> {
    if empty > 0 {
        let block = Scope::inside(parent, None);
        return bind_below(env, defined, Some(&block), empty - 1);
    }
    let DefinedCte { cte, ctes, .. } = defined;
    bind_cte(env, cte, defined.recursive, parent, ctes.as_ref())
}

fn bind_body(
    env: &BindEnv<'_>,
    query: &ast::Query,
    parent: Option<&Scope<'_>>,
    ctes: Option<&Rc<CteEntry>>,
) -> SqlResult<BoundQuery> {
    let around = Around {
        order_by: &query.order_by,
        limit: query.limit.as_ref(),
        locking: &query.locking,
        member: false,
        purpose: env.purpose.take(),
    };
    match &query.body {
        ast::QueryBody::Select(select) => bind_select(env, select, &around, parent, ctes),
        ast::QueryBody::Table(name) => {
            let select = table_as_select(name);
            bind_select(env, &select, &around, parent, ctes)
        }
        ast::QueryBody::Values(rows) => bind_values(env, rows, &around, parent, ctes),
        ast::QueryBody::Nested(inner) if is_plain(&around) => bind_query(env, inner, parent, ctes),
        body => bind_set_ops(env, body, &around, parent, ctes),
    }
}

/// `TABLE t` as the SELECT it stands for.
pub(super) fn table_as_select(name: &ast::ObjectName) -> ast::Select {
    let table = ast::NamedTable {
        name: name.clone(),
        partitions: Vec::new(),
        alias: None,
        hints: Vec::new(),
    };
    ast::Select {
        items: vec![ast::SelectItem::Wildcard],
        from: vec![ast::TableRef::Table(Box::new(table))],
        ..ast::Select::default()
    }
}

fn is_plain(around: &Around<'_>) -> bool {
    around.order_by.is_empty() && around.limit.is_none() && around.locking.is_empty()
}

/// An operand of a set operation. `locking`: the clauses behind the last one, which are its own.
fn bind_operand(
    env: &BindEnv<'_>,
    body: &ast::QueryBody,
    locking: &[ast::Locking],
    parent: Option<&Scope<'_>>,
    ctes: Option<&Rc<CteEntry>>,
) -> SqlResult<BoundQuery> {
    match body {
        ast::QueryBody::Nested(query) if locking.is_empty() => bind_query(env, query, parent, ctes),
        ast::QueryBody::Nested(query) => {
            let mut query = (**query).clone();
            query.locking.extend_from_slice(locking);
            bind_query(env, &query, parent, ctes)
        }
        body => {
            let query = ast::Query {
                with: None,
                body: body.clone(),
                order_by: Vec::new(),
                limit: None,
                locking: locking.to_vec(),
                into: None,
            };
            bind_body(env, &query, parent, ctes)
        }
    }
}

fn bind_set_ops(
    env: &BindEnv<'_>,
    body: &ast::QueryBody,
    around: &Around<'_>,
    parent: Option<&Scope<'_>>,
    ctes: Option<&Rc<CteEntry>>,
) -> SqlResult<BoundQuery> {
    let none = Vec::new();
    let (first, rest) = match body {
        ast::QueryBody::SetOps { first, rest } => (&**first, rest),
        // Parentheses with something around them: a chain of one.
        one => (one, &none),
    };
    let purpose = match (around.purpose, rest.is_empty()) {
        (Purpose::InOrder, false) => Purpose::InAnyOrder,
        (purpose, _) => purpose,
    };
    let operands = std::iter::once(first).chain(rest.iter().map(|step| &step.right));
    let mut queries = Vec::with_capacity(rest.len() + 1);
    for (nth, operand) in operands.enumerate() {
        let locking = match nth == rest.len() {
            true => around.locking,
            false => &[],
        };
        env.purpose.set(purpose);
        queries.push(bind_operand(env, operand, locking, parent, ctes)?);
    }
    let columns = merged_columns(env, &queries)?;
    let (order, ordered_reach) = bind_result_order(env, around.order_by, &columns, parent)?;
    let limit = bind_limit(env, around.limit)?;
    let calc_found_rows = match &queries[0].body {
        Body::Block(block) => block.calc_found_rows,
        _ => false,
    };
    let reach = queries.iter().map(|q| q.reach).max().unwrap_or(0);
    let reach = reach.max(ordered_reach);
    let volatility = queries
        .iter()
        .map(|q| q.volatility)
        .max()
        .unwrap_or(Volatility::Stable);
    let mut queries = queries.into_iter().map(Rc::new);
    let first = queries.next().ok_or_else(errors::no_tables_used)?;
    let rest = rest
        .iter()
        .zip(queries)
        .map(|(step, right)| SetStep {
            op: step.op,
            all: step.all,
            right,
        })
        .collect();
    let body = Body::SetOps {
        first,
        rest,
        order,
        limit,
        calc_found_rows,
    };
    Ok(BoundQuery {
        columns,
        body,
        reach,
        volatility,
        shared: None,
    })
}

/// Result columns of a set operation.
fn merged_columns(env: &BindEnv<'_>, queries: &[BoundQuery]) -> SqlResult<Arc<[ColumnMeta]>> {
    let first = &queries[0].columns;
    if queries.iter().any(|q| q.columns.len() != first.len()) {
        return Err(errors::select_columns_differ());
    }
    let mut columns = Vec::with_capacity(first.len());
    for (nth, column) in first.iter().enumerate() {
        let args: Vec<ArgType<'_>> = queries
            .iter()
            .map(|q| &q.columns[nth])
            .map(|c| ArgType {
                ty: c.ty.clone(),
                coercibility: c.coercibility,
                value: None,
            })
            .collect();
        let mut merged = merge_types(&args, &RetCtx::of(env.ctx), "UNION")?;
        if merged.ret.is_string() && merged.coercibility == Coercibility::None {
            return Err(errors::illegal_mix("UNION"));
        }
        if merged.ret.is_string() {
            for query in queries {
                check_output(query, nth, merged.ret.collation)?;
            }
        }
        if let Some(labels) = only_labels(&args) {
            merged.ret = labels.with_nullable(true);
        }
        columns.push(match queries.len() {
            1 => column.clone(),
            // The columns of the result are those of a table without a name.
            _ => ColumnMeta {
                org_name: column.name.clone(),
                coercibility: merged.coercibility,
                stored_as: StoredAs::Rows,
                ..ColumnMeta::computed(column.name.clone(), merged.ret)
            },
        });
    }
    Ok(columns.into())
}

/// The type of labels that NULL alone stands beside.
fn only_labels(args: &[ArgType<'_>]) -> Option<SqlType> {
    let types = args.iter().map(|arg| &arg.ty);
    let mut typed = types.filter(|ty| ty.kind != TypeKind::Null);
    match (typed.next(), typed.next()) {
        (Some(ty), None) if ty.is_label() => Some(ty.clone()),
        _ => None,
    }
}

/// 3854 for a constant in the select list that does not exist in the character set of the result.
fn check_output(query: &BoundQuery, nth: usize, to: Collation) -> SqlResult<()> {
    let Body::Block(block) = &query.body else {
        return Ok(());
    };
    match block.output.get(nth).and_then(Expr::as_const) {
        Some(value) => check_constant(value, &query.columns[nth].ty, to),
        None => Ok(()),
    }
}

fn bind_values(
    env: &BindEnv<'_>,
    rows: &[Vec<ast::Expr>],
    around: &Around<'_>,
    parent: Option<&Scope<'_>>,
    ctes: Option<&Rc<CteEntry>>,
) -> SqlResult<BoundQuery> {
    let scope = Scope::inside(parent, ctes);
    let mut bound = Vec::with_capacity(rows.len());
    for (nth, row) in rows.iter().enumerate() {
        if row.is_empty() {
            let text = "Each row of a VALUES clause must have at least one column, unless when \
                        used as source in an INSERT statement.";
            return Err(SqlError::new(3942, "HY000", text));
        }
        if row.len() != rows[0].len() {
            return Err(errors::value_count(&nth + 1));
        }
        let exprs = row
            .iter()
            .map(|e| bind_expr(env, &scope, e))
            .collect::<SqlResult<Vec<_>>>()?;
        bound.push(exprs);
    }
    let mut columns = Vec::new();
    for nth in 0..rows.first().map_or(0, Vec::len) {
        let values: Vec<_> = bound.iter().map(|row| &row[nth]).collect();
        let merged = call::merged(env, &values, "VALUES")?;
        columns.push(ColumnMeta {
            coercibility: merged.coercibility,
            stored_as: match rows {
                [row] => stored_as(&row[nth]),
                _ => StoredAs::Choice,
            },
            ..ColumnMeta::computed(format!("column_{nth}"), merged.ret)
        });
    }
    let (order, ordered_reach) = bind_result_order(env, around.order_by, &columns, parent)?;
    let limit = bind_limit(env, around.limit)?;
    let body = Body::Values {
        rows: bound,
        order,
        limit,
    };
    let reach = scope.outer_reach().max(ordered_reach);
    let volatility = scope.volatility();
    Ok(BoundQuery {
        columns: columns.into(),
        body,
        reach,
        volatility,
        shared: None,
    })
}
