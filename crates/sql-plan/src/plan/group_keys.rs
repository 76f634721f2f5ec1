//! Reduction of grouping keys by functional dependencies: others follow from them, as all columns of a row follow from
//! its primary key.
//!
//! Neighbours: `block` asks; `exec::group` and `exec::parallel` hash and compare only those keys. **Invariant**: rows
//! that are equal in the keys that tell are equal in all. Only integers imply others: what is equal of them is the same
//! value.

use std::collections::HashSet;

use esker_types::SqlType;

use super::conds::split;
use crate::bind::{Block, JoinNode, JoinType, equated_slots};
use crate::expr::{Expr, ExprKind};

/// For each key whether it tells groups apart. `filter` are the conjuncts that hold for every row.
pub(super) fn telling(block: &Block, filter: &[Expr]) -> Vec<bool> {
    let Some(group) = &block.group else {
        return Vec::new();
    };
    let mut tells = vec![true; group.keys.len()];
    if group.rollup.is_some() || group.keys.len() < 2 {
        return tells;
    }
    let mut conds = filter.to_vec();
    if let Some(join) = &block.join {
        conds_of_all(join, &mut conds);
    }
    let equal: Vec<(u32, u32)> = conds.iter().filter_map(equal_integers).collect();
    // What costs more to compare goes first, if it can.
    let mut order: Vec<usize> = (0..group.keys.len()).collect();
    order.sort_by_key(|nth| group.keys[*nth].ty.is_integer());
    for nth in order {
        let Some(slot) = group.keys[nth].as_column() else {
            continue;
        };
        let others = group.keys.iter().enumerate();
        let others = others.filter(|(other, _)| *other != nth && tells[*other]);
        let known = others.filter_map(|(_, key)| key.as_column()).collect();
        tells[nth] = !implied(block, &equal, known).contains(&slot);
    }
    tells
}

/// Conditions of joins that hold for every row.
fn conds_of_all(node: &JoinNode, conds: &mut Vec<Expr>) {
    let JoinNode::Join {
        left,
        right,
        kind,
        on,
    } = node
    else {
        return;
    };
    conds_of_all(left, conds);
    if *kind != JoinType::Left {
        conds_of_all(right, conds);
        if let Some(on) = on {
            split(on, conds);
        }
    }
}

fn equal_integers(cond: &Expr) -> Option<(u32, u32)> {
    let ExprKind::Cmp(cmp) = &cond.kind else {
        return None;
    };
    let are_integers = cmp.left.ty.is_integer() && cmp.right.ty.is_integer();
    equated_slots(cond).filter(|_| are_integers)
}

/// All slots that are the same in two rows that are the same in `known`.
fn implied(block: &Block, equal: &[(u32, u32)], mut known: HashSet<u32>) -> HashSet<u32> {
    loop {
        let before = known.len();
        for (a, b) in equal {
            if known.contains(a) || known.contains(b) {
                known.extend([*a, *b]);
            }
        }
        for table in &block.tables {
            let Some(def) = table.base_def() else {
                continue;
            };
            let (primary, slots) = (def.primary(), table.slots.borrow());
            let is_known = |col: usize| {
                let ty: &SqlType = &def.columns[col].ty;
                ty.is_integer() && slots[col].is_some_and(|slot| known.contains(&slot))
            };
            let is_found = !primary.hidden && primary.parts.iter().all(|part| is_known(part.col));
            if is_found {
                known.extend(slots.iter().flatten());
            }
        }
        if known.len() == before {
            return known;
        }
    }
}
