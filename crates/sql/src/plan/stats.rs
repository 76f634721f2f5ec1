//! Estimates: how many rows, how selective.
//!
//! Neighbours: `access` and `join_order` weigh paths with them; EXPLAIN shows them.
//! **Invariants**: an estimate never decides correctness; it is finite and at least 0.

use esker_engine::Tree;

use crate::catalog::TableDef;
use crate::expr::{CmpOp, Expr, ExprKind, Test};

/// Rows assumed for a computed table.
pub(super) const VIRTUAL_ROWS: f64 = 1000.0;

/// Entries of a tree, roughly: versions that are no tombstones.
pub(crate) fn tree_entries(tree: &Tree) -> f64 {
    let state = tree.superversion();
    let tables = std::iter::once(&state.active).chain(&state.immutables);
    let (mut entries, mut deletes) = (0u64, 0u64);
    for table in tables {
        entries += table.entries();
        deletes += table.deletes();
    }
    let totals = state.version.totals();
    entries += totals.entries;
    deletes += totals.deletes;
    entries.saturating_sub(deletes.saturating_mul(2)) as f64
}

/// Rows of a table.
pub(crate) fn table_rows(def: &TableDef) -> f64 {
    tree_entries(&def.primary().tree)
}

/// Fraction of rows for which a condition is true, by its form, as MySQL assumes without statistics.
pub(super) fn selectivity(cond: &Expr) -> f64 {
    match &cond.kind {
        ExprKind::Const(_) => match crate::expr::fold::constant_truth(cond) {
            Some(false) => 0.0,
            _ => 1.0,
        },
        ExprKind::Cmp(cmp) => match cmp.op {
            CmpOp::Eq | CmpOp::NullSafeEq => 0.1,
            CmpOp::Ne => 0.9,
            _ => 1.0 / 3.0,
        },
        ExprKind::Between(b) => {
            if b.negated {
                8.0 / 9.0
            } else {
                1.0 / 9.0
            }
        }
        ExprKind::InList(list) => {
            let found = (0.1 * list.list.len() as f64).min(0.5);
            if list.negated { 1.0 - found } else { found }
        }
        ExprKind::Like(like) => {
            if like.negated {
                8.0 / 9.0
            } else {
                1.0 / 9.0
            }
        }
        ExprKind::Is {
            test: Test::Null,
            negated,
            ..
        } => {
            if *negated {
                0.9
            } else {
                0.1
            }
        }
        ExprKind::And(conds) => conds.iter().map(selectivity).product(),
        ExprKind::Or(conds) => 1.0 - conds.iter().map(|c| 1.0 - selectivity(c)).product::<f64>(),
        ExprKind::Not(cond) => 1.0 - selectivity(cond),
        _ => 0.5,
    }
}

/// Rows that match equality with `matched` of an index's `parts` leading parts.
pub(super) fn rows_per_key(rows: f64, matched: usize, parts: usize) -> f64 {
    // Every further part divides by the same factor; all parts of a non-unique key leave a few.
    let exponent = 0.9 * matched as f64 / parts.max(1) as f64;
    (rows / rows.max(1.0).powf(exponent)).max(1.0)
}
