//! MATCH … AGAINST: which full-text index it asks.
//!
//! Neighbours: `expr` hands the syntax over; `plan::access` may read the index for it; `exec` counts words in it and
//! evaluates. **Invariant**: the columns are all those of one full-text index, in any order, of one stored table of
//! this block; what is searched for is the same for all rows.

use std::sync::Arc;

use esker_sql_catalog::catalog::TableDef;
use esker_sql_syntax::ast;
use esker_types::collation::Coercibility;
use esker_types::errors::{no_fulltext, wrong_arguments};
use esker_types::fulltext::MatchMode;
use esker_types::{SqlError, SqlResult, SqlType, TypeKind, Value};

use super::BindEnv;
use super::block::{Body, OrderKey};
use super::expr::bind_expr;
use super::scope::{Scope, ScopeTable, TableKind};
use crate::expr::{CmpOp, Expr, ExprKind, Match};

/// Binds MATCH (columns) AGAINST (…).
///
/// # Errors
/// 1210 for columns of several tables, and for a text that depends on rows; 1214 for a table that has no full-text
/// indexes; 1191 where there is none of these columns.
pub(super) fn bind_match(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    names: &[ast::ColumnRef],
    against: &ast::Expr,
    mode: ast::MatchMode,
) -> SqlResult<Expr> {
    let mut columns = Vec::with_capacity(names.len());
    let mut table: Option<usize> = None;
    let mut found: Option<Arc<TableDef>> = None;
    let mut places = Vec::with_capacity(names.len());
    for name in names {
        let column = scope.resolve(env, name)?;
        let at = column
            .as_column()
            .and_then(|slot| scope.column_of_slot(slot));
        let at = at.filter(|at| table.is_none_or(|table| table == at.table));
        let at = at.ok_or_else(|| wrong_arguments("MATCH"))?;
        table = Some(at.table);
        let (def, place) = stored(&scope.tables[at.table], at.column).ok_or_else(no_fulltext)?;
        if found.get_or_insert_with(|| def.clone()).id != def.id {
            return Err(wrong_arguments("MATCH"));
        }
        // A column that is named twice is searched once.
        if !places.contains(&place) {
            places.push(place);
            columns.push(column);
        }
    }
    let index = found.and_then(|def| Some((index_of(&def, &places)?, def)));
    let (index, def) = index.ok_or_else(|| {
        let text = "Can't find FULLTEXT index matching the column list";
        SqlError::new(1191, "HY000", text)
    })?;
    let against = bind_expr(env, scope, against)?;
    let varies = |e: &Expr| {
        let own = matches!(e.kind, ExprKind::Column(_) | ExprKind::Outer { .. });
        own || matches!(e.kind, ExprKind::Aggregate(_) | ExprKind::Window(_))
    };
    if against.any(&mut |e| varies(e)) {
        return Err(wrong_arguments("AGAINST"));
    }
    Ok(Expr {
        kind: ExprKind::Match(Box::new(Match {
            id: env.subquery_id(),
            def,
            index,
            mode: match mode {
                ast::MatchMode::Natural => MatchMode::Natural,
                ast::MatchMode::Expansion => MatchMode::Expansion,
                ast::MatchMode::Boolean => MatchMode::Boolean,
            },
            columns,
            against,
        })),
        ty: match_type(),
        coer: Coercibility::Numeric,
    })
}

/// The stored column that a column is, also through derived tables.
fn stored(table: &ScopeTable, column: usize) -> Option<(Arc<TableDef>, usize)> {
    match &table.kind {
        TableKind::Base(def) => Some((def.clone(), column)),
        TableKind::Derived(query) => {
            let Body::Block(block) = &query.body else {
                return None;
            };
            let slot = block.output.get(column)?.as_column()?;
            block.tables.iter().find_map(|inner| {
                let slots = inner.slots.borrow();
                let at = slots.iter().position(|s| *s == Some(slot))?;
                stored(inner, at)
            })
        }
        _ => None,
    }
}

/// The full-text index of exactly these columns.
fn index_of(def: &TableDef, columns: &[usize]) -> Option<usize> {
    def.indexes.iter().position(|index| {
        let has_all = index.parts.iter().all(|part| columns.contains(&part.col));
        let is_whole = index.parts.len() == columns.len() && has_all;
        index.is_fulltext() && !index.invisible && is_whole
    })
}

/// The MATCH that a conjunct of WHERE asks to be true, or more than some relevance.
pub(crate) fn wanted_match(cond: &Expr) -> Option<&Match> {
    match &cond.kind {
        ExprKind::Match(call) => Some(call),
        ExprKind::Cmp(cmp) => {
            let (call, limit, op) = match (&cmp.left.kind, &cmp.right.kind) {
                (ExprKind::Match(call), _) => (call, &cmp.right, cmp.op),
                (_, ExprKind::Match(call)) => (call, &cmp.left, cmp.op.flip()),
                _ => return None,
            };
            let limit = limit.as_const()?;
            let limit = match limit {
                Value::Int(n) => *n as f64,
                Value::UInt(n) => *n as f64,
                Value::Double(n) => *n,
                Value::Decimal(n) => n.to_f64(),
                _ => return None,
            };
            // Rows without any word have relevance 0.
            let is_wanted = match op {
                CmpOp::Gt => limit >= 0.0,
                CmpOp::Ge | CmpOp::Eq => limit > 0.0,
                _ => false,
            };
            is_wanted.then_some(&**call)
        }
        _ => None,
    }
}

/// The order in which rows come where MATCH finds them and nothing else is asked for.
pub(super) fn by_relevance(filter: &Expr) -> Option<OrderKey> {
    let conds = match &filter.kind {
        ExprKind::And(conds) => conds.as_slice(),
        _ => std::slice::from_ref(filter),
    };
    let call = conds.iter().find_map(wanted_match)?;
    Some(OrderKey {
        expr: Expr {
            kind: ExprKind::Match(Box::new(call.clone())),
            ty: match_type(),
            coer: Coercibility::Numeric,
        },
        desc: true,
    })
}

fn match_type() -> SqlType {
    SqlType::new(TypeKind::Double).with_nullable(true)
}
