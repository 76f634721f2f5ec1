//! Expressions that a stored table computes already: conditions and ORDER BY read the generated column instead, so
//! that its index serves them.
//!
//! Neighbours: `select` and the search of UPDATE and DELETE come here when a block's clauses are bound; `group` asks
//! what generated columns are determined by.
//! **Invariants**
//! - Only columns that an index has are put in: otherwise nothing would be won.
//! - The column's type compares as the expression's does: the way two operands compare was decided before.

use std::cell::RefCell;
use std::sync::Arc;

use esker_sql_catalog::catalog::TableDef;
use esker_sql_syntax::{ast, parse_expression};
use esker_types::{SqlResult, SqlType};

use super::scope::{ColumnAt, Scope, ScopeTable};
use super::{BindEnv, JoinNode, JoinType, OrderKey, bind_expr};
use crate::expr::walk::same;
use crate::expr::{Expr, ExprKind};

/// Slots of columns that the block does not read, in expressions to be compared with those of the block.
const UNREAD: u32 = u32::MAX / 2;

/// A column that is computed from others, and how.
struct ComputedColumn {
    at: ColumnAt,
    expr: Expr,
}

/// Lets conditions and keys of ORDER BY read the indexed generated columns of a block's tables that compute the same.
///
/// # Errors
/// Of a stored expression that cannot be read.
pub fn read_computed_columns(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    join: Option<&JoinNode>,
    filter: &mut Option<Expr>,
    order: &mut [OrderKey],
) -> SqlResult<()> {
    for computed in computed_columns(env, scope, join)? {
        filter.iter_mut().for_each(|f| computed.put_in(scope, f));
        for key in &mut *order {
            computed.replace(scope, &mut key.expr);
        }
    }
    Ok(())
}

/// The indexed generated columns of a block's tables; none for most.
fn computed_columns(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    join: Option<&JoinNode>,
) -> SqlResult<Vec<ComputedColumn>> {
    let mut found = Vec::new();
    for (nth, table) in scope.tables.iter().enumerate() {
        let Some(def) = table.base_def() else {
            continue;
        };
        let indexed = (0..def.columns.len()).filter(|&col| is_indexed(def, col));
        for col in indexed {
            if join.is_some_and(|join| is_complemented(join, nth, false)) {
                continue;
            }
            let Some(generated) = &def.columns[col].generated else {
                continue;
            };
            let expr = bind_alone(env, table, def, &parse_expression(&generated.text)?)?;
            // A column is read itself, as in MySQL: a copy may be shorter outside of strict mode.
            let is_copy = expr.as_column().is_some();
            if !is_copy && fits(&expr.ty, &def.columns[col].ty) {
                let at = ColumnAt {
                    table: nth,
                    column: col,
                };
                found.push(ComputedColumn { at, expr });
            }
        }
    }
    Ok(found)
}

/// May an outer join give the table a row of NULL? In that the column is NULL, whatever its expression is.
fn is_complemented(join: &JoinNode, table: usize, below: bool) -> bool {
    match join {
        JoinNode::Table(at) => below && *at == table,
        JoinNode::Join {
            left, right, kind, ..
        } => {
            let outer = *kind == JoinType::Left;
            is_complemented(left, table, below) || is_complemented(right, table, below || outer)
        }
    }
}

fn is_indexed(def: &TableDef, col: usize) -> bool {
    let has = |parts: &[esker_sql_catalog::catalog::IndexPart]| parts.iter().any(|p| p.col == col);
    def.columns[col].generated.is_some() && def.ordered().iter().any(|i| has(&i.parts))
}

/// Binds an expression over one table of a block, with the block's slots.
pub(super) fn bind_alone(
    env: &BindEnv<'_>,
    table: &ScopeTable,
    def: &Arc<TableDef>,
    expr: &ast::Expr,
) -> SqlResult<Expr> {
    let mut alone = Scope::new();
    let mut own = ScopeTable::base(def.clone(), Some(&table.alias));
    let read = table.slots.borrow().clone();
    let slots = read
        .iter()
        .zip(UNREAD..)
        .map(|(slot, unread)| Some(slot.unwrap_or(unread)));
    own.slots = RefCell::new(slots.collect());
    alone.add_table(own);
    bind_expr(env, &alone, expr)
}

/// A generated column that a block reads, and the columns that determine it.
pub(super) struct Computation {
    /// Its table.
    pub table: usize,
    /// Its slot.
    pub slot: u32,
    /// Slots of the columns that it is computed from.
    pub from: Vec<u32>,
}

/// The generated columns among those that the block reads, where it reads what they are computed from, too.
///
/// # Errors
/// Of a stored expression that cannot be read.
pub(super) fn computations(
    env: &BindEnv<'_>,
    tables: &[ScopeTable],
) -> SqlResult<Vec<Computation>> {
    let mut found = Vec::new();
    for (nth, table) in tables.iter().enumerate() {
        let Some(def) = table.base_def() else {
            continue;
        };
        let slots = table.slots.borrow().clone();
        for (col, slot) in slots.iter().enumerate() {
            let mut from = Vec::new();
            if let Some(slot) = slot
                && def.columns[col].generated.is_some()
                && collect_read(env, table, def, col, &mut from)?
            {
                found.push(Computation {
                    table: nth,
                    slot: *slot,
                    from,
                });
            }
        }
    }
    Ok(found)
}

/// Collects the slots that a generated column is computed from; false where the block does not read one.
fn collect_read(
    env: &BindEnv<'_>,
    table: &ScopeTable,
    def: &Arc<TableDef>,
    col: usize,
    from: &mut Vec<u32>,
) -> SqlResult<bool> {
    let Some(generated) = &def.columns[col].generated else {
        return Ok(false);
    };
    let expr = bind_alone(env, table, def, &parse_expression(&generated.text)?)?;
    let mut read = Vec::new();
    expr.slots(&mut |slot| read.push(slot));
    for slot in read {
        match slot.checked_sub(UNREAD) {
            None => from.push(slot),
            // Columns that it is computed from were defined before it, so this ends.
            Some(unread) if !collect_read(env, table, def, unread as usize, from)? => {
                return Ok(false);
            }
            Some(_) => {}
        }
    }
    Ok(true)
}

/// Do values of the two types compare alike with whatever they meet?
fn fits(expr: &SqlType, column: &SqlType) -> bool {
    if expr.is_integer() && column.is_integer() {
        return expr.unsigned == column.unsigned;
    }
    if expr.is_string() && column.is_string() {
        return expr.collation == column.collation;
    }
    expr.kind == column.kind && expr.decimals == column.decimals
}

impl ComputedColumn {
    /// Puts the column in for its expression where an index can serve that: as an operand of a comparison.
    pub fn put_in(&self, scope: &Scope<'_>, condition: &mut Expr) {
        let operands: Vec<&mut Expr> = match &mut condition.kind {
            ExprKind::Cmp(cmp) => vec![&mut cmp.left, &mut cmp.right],
            ExprKind::Between(between) => vec![&mut between.arg],
            ExprKind::InList(list) => vec![&mut list.arg],
            ExprKind::Is { .. } => condition.children_mut(),
            ExprKind::And(_) | ExprKind::Or(_) => {
                for part in condition.children_mut() {
                    self.put_in(scope, part);
                }
                return;
            }
            _ => return,
        };
        for operand in operands {
            self.replace(scope, operand);
        }
    }

    /// Puts the column in for the expression as a whole.
    pub fn replace(&self, scope: &Scope<'_>, expr: &mut Expr) {
        if same(expr, &self.expr) {
            *expr = scope.column_expr(self.at);
        }
    }
}
