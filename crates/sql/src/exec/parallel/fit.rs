//! What another thread than the statement's own may evaluate.
//!
//! Neighbours: the rest of `parallel`.
//! **Invariant**: what fits needs nothing of the session but what [`Surroundings`](super::task::Surroundings) copies, and gives the same
//! value on every thread and in every order.

use esker_types::func::FuncFlags;

use crate::expr::fold::is_volatile;
use crate::expr::{Expr, ExprKind};
use crate::plan::GroupPlan;

/// Aggregates whose partial states can be put together.
const MERGED: &[&str] = &[
    "any_value",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "count",
    "max",
    "min",
    "std",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
];

/// May any thread evaluate the expression?
pub(super) fn fits(expr: &Expr) -> bool {
    !expr.any(&mut |e| match &e.kind {
        ExprKind::Outer { .. }
        | ExprKind::UserVar(_)
        | ExprKind::Assign(..)
        | ExprKind::SeededRand(..)
        | ExprKind::Aggregate(_)
        | ExprKind::Window(_)
        | ExprKind::Grouping(_)
        | ExprKind::Subquery(_)
        | ExprKind::Row(_) => true,
        ExprKind::Func(call) => {
            is_volatile(call.def)
                || call.def.flags.has(FuncFlags::NEEDS_SESSION)
                || call.def.flags.has(FuncFlags::BLOCKS)
        }
        _ => false,
    })
}

/// Can groups be computed in parts?
pub(super) fn group_fits(group: &GroupPlan) -> bool {
    group.rollup.is_none()
        && group.keys.iter().all(fits)
        && group.aggs.iter().all(|agg| {
            agg.order.is_empty() && MERGED.contains(&agg.def.name) && agg.args.iter().all(fits)
        })
}

/// Is the only thing wanted how many rows there are?
pub(super) fn only_counts_rows(group: &GroupPlan) -> bool {
    let counts_rows = |arg: &Expr| !arg.ty.nullable && arg.as_column().is_some();
    group.implicit
        && group.keys.is_empty()
        && group.kept.is_empty()
        && group
            .aggs
            .iter()
            .all(|agg| agg.def.name == "count" && !agg.distinct && agg.args.iter().all(counts_rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_known() {
        assert!(MERGED.is_sorted());
        for name in MERGED {
            assert!(
                esker_types::func::aggregate::lookup(name).is_some(),
                "{name}"
            );
        }
    }
}
