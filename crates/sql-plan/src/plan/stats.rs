//! Cardinality estimation: rows of tables, and selectivities of conditions.
//!
//! Neighbours: `access` and `join_order` weigh paths with them; EXPLAIN shows them.
//! **Invariants**: an estimate never decides correctness; it is finite and at least 0.

use esker_engine::Tree;
use esker_engine::scan::KeySpan;
use esker_sql_catalog::catalog::{IndexDef, TableDef};
use esker_sql_catalog::codec::KeyRange;
use esker_types::{SqlType, TypeKind};

use crate::expr::{CmpOp, Expr, ExprKind, Test};

/// Rows assumed for a computed table.
pub(super) const VIRTUAL_ROWS: f64 = 1000.0;

/// Rows assumed of JSON_TABLE for one document.
pub(super) const JSON_ROWS: f64 = 10.0;

/// Rows assumed of one round of a recursive query.
pub(super) const WORK_ROWS: f64 = 10.0;

/// Entries of a tree, roughly: versions that are no tombstones.
pub fn tree_entries(tree: &Tree) -> f64 {
    versions_and_entries(tree).1
}

fn versions_and_entries(tree: &Tree) -> (f64, f64) {
    let state = tree.superversion();
    let memory = state.in_memory();
    let totals = state.version.totals();
    let versions = memory.entries + totals.entries;
    let deletes = memory.deletes + totals.deletes;
    let entries = versions.saturating_sub(deletes.saturating_mul(2));
    (versions as f64, entries as f64)
}

/// Entries of a tree in a range of keys, roughly. `None` when it cannot be read.
pub(super) fn entries_between(tree: &Tree, range: &KeyRange) -> Option<f64> {
    let span = KeySpan::new(range.lower(), range.upper());
    let found = tree.entries_in(&span).ok()? as f64;
    // Old versions and tombstones are taken to be spread evenly.
    let (versions, entries) = versions_and_entries(tree);
    Some(found * entries.max(1.0) / versions.max(1.0))
}

/// Rows of a table.
pub fn table_rows(def: &TableDef) -> f64 {
    tree_entries(&def.primary().tree)
}

/// Fraction of rows for which a condition is true, by its form, as MySQL assumes without statistics.
pub(super) fn selectivity(cond: &Expr) -> f64 {
    match &cond.kind {
        ExprKind::Const(_) => match crate::expr::fold::constant_boolean(cond) {
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

/// Bytes of the first `parts` key parts as MySQL counts them.
pub(super) fn key_len(def: &TableDef, index: &IndexDef, parts: usize) -> u32 {
    index
        .parts
        .iter()
        .take(parts)
        .map(|part| {
            let ty = &def.columns[part.col].ty;
            let null = u32::from(ty.nullable);
            let chars = part.prefix_len.unwrap_or(ty.length);
            null + fixed_bytes(ty).unwrap_or_else(|| match &ty.kind {
                TypeKind::Enum(labels) => {
                    if labels.len() > 255 {
                        2
                    } else {
                        1
                    }
                }
                TypeKind::Set(labels) => match (labels.len() as u32).div_ceil(8) {
                    n @ 1..=4 => n,
                    _ => 8,
                },
                TypeKind::Char => chars * ty.collation.charset().max_len(),
                _ => chars * ty.collation.charset().max_len() + 2,
            })
        })
        .sum()
}

/// Bytes of a number or a temporal value in a key as MySQL counts them; `None` for other types.
pub fn fixed_bytes(ty: &SqlType) -> Option<u32> {
    Some(match &ty.kind {
        TypeKind::TinyInt | TypeKind::Year => 1,
        TypeKind::SmallInt => 2,
        TypeKind::MediumInt | TypeKind::Date => 3,
        TypeKind::Int | TypeKind::Float => 4,
        TypeKind::BigInt | TypeKind::Double => 8,
        TypeKind::Time => 3 + u32::from(ty.decimals).div_ceil(2),
        TypeKind::DateTime => 5 + u32::from(ty.decimals).div_ceil(2),
        TypeKind::Timestamp => 4 + u32::from(ty.decimals).div_ceil(2),
        TypeKind::Decimal => decimal_bytes(ty.length, u32::from(ty.decimals)),
        TypeKind::Bit => ty.length.div_ceil(8),
        _ => return None,
    })
}

/// Bytes of MySQL's packed decimals.
fn decimal_bytes(precision: u32, scale: u32) -> u32 {
    let group = |digits: u32| digits / 9 * 4 + (digits % 9).div_ceil(2);
    group(precision - scale) + group(scale)
}
