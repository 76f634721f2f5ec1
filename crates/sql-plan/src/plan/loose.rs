//! What a loose index scan has to tell apart: DISTINCT and GROUP BY over few columns, which do not change when equal
//! rows come once instead of many times.
//!
//! Neighbours: `block` asks; `access` finds the index and prices it.
//! **Invariant**: a block is answered from one row of every combination of the told columns: it reads no other column
//! but the one whose MIN or MAX it wants, and every aggregate gives the same for one row as for many equal ones.

use esker_types::TypeKind;

use super::access::{Path, Target, cheapest};
use super::join_order::Joiner;
use super::merge::is_repeatable;
use crate::bind::{AggCall, Block};
use crate::expr::Expr;

/// Rows below which a table is read whole.
const LEAST_ROWS: f64 = 1000.0;
/// By what factor it has to be cheaper: rows that are read one after the other may be read by several threads.
const GAIN: f64 = 2.0;

/// What tells rows apart, beside all columns that are read.
pub(super) struct Told {
    /// The column whose MIN, or MAX (`true`), is wanted; it does not tell apart.
    pub extreme: Option<(u32, bool)>,
}

/// The loose index scan of a block, if it can have one and that is worth it.
pub(super) fn loose_path(
    block: &Block,
    joiner: &Joiner<'_>,
    target: &Target<'_>,
    conds: &[Expr],
) -> Option<(Path, usize)> {
    if target.rows < LEAST_ROWS || block.locks[0].is_some() {
        return None;
    }
    let told = told(block, conds)?;
    let known = |e: &Expr| joiner.is_known(e, 0);
    let paths = target.paths(joiner.env, conds, &known);
    let whole = cheapest(&paths).cost.min(match conds.is_empty() {
        true => target.smallest_covering().cost,
        false => f64::INFINITY,
    });
    let (path, parts) = target.loose_path(joiner.env, &told, conds, &known)?;
    (path.cost * GAIN < whole).then_some((path, parts))
}

/// What the block tells rows apart by; `None` where their number counts.
fn told(block: &Block, conds: &[Expr]) -> Option<Told> {
    let table = &block.tables[0];
    let is_read = table.key_slot.is_none() && table.row_slot.is_none();
    let is_plain = is_read && block.windows.calls.is_empty() && conds.iter().all(is_repeatable);
    let Some(group) = block.group.as_ref().filter(|_| is_plain) else {
        let is_distinct = block.group.is_none() && block.distinct && block.beside == 0;
        let told = Told { extreme: None };
        return (is_plain && is_distinct && block.output.iter().all(is_repeatable)).then_some(told);
    };
    if group.rollup.is_some() || !group.keys.iter().all(is_repeatable) {
        return None;
    }
    let told = Told {
        extreme: extreme(&group.aggs)?,
    };
    let reads_it = |e: &Expr| {
        let mut reads = false;
        e.slots(&mut |slot| reads |= told.extreme.is_some_and(|(own, _)| own == slot));
        reads
    };
    let after = block.output.iter().chain(&block.having);
    let after = after.chain(block.order.iter().map(|key| &key.expr));
    let others = group.keys.iter().chain(conds).chain(after);
    (!others.into_iter().any(reads_it)).then_some(told)
}

/// The column whose MIN or MAX is all that the aggregates want of the rows of a group, `Some(None)` if they want none;
/// `None` if they want more.
fn extreme(aggs: &[AggCall]) -> Option<Option<(u32, bool)>> {
    let mut found = None;
    for agg in aggs {
        if !agg.args.iter().all(is_repeatable) {
            return None;
        }
        if agg.distinct && !agg.args.is_empty() {
            continue;
        }
        let is_max = match agg.def.name {
            "min" => false,
            "max" => true,
            _ => return None,
        };
        let [arg] = &agg.args[..] else { return None };
        // Texts are equal in more ways than one, labels are not compared by their numbers, local time repeats an hour
        // when clocks go back, and NULLs come first.
        let is_ordered = arg.ty.is_numeric() || arg.ty.is_temporal();
        let is_local = arg.ty.kind == TypeKind::Timestamp;
        if !is_ordered || is_local || (arg.ty.nullable && !is_max) {
            return None;
        }
        let this = (arg.as_column()?, is_max);
        if *found.get_or_insert(this) != this {
            return None;
        }
    }
    // What a distinct aggregate reads has to come with all of its values.
    let distinct = aggs.iter().filter(|agg| agg.distinct);
    let mut is_told = false;
    distinct.flat_map(|agg| &agg.args).for_each(|arg| {
        arg.slots(&mut |slot| is_told |= found.is_some_and(|(own, _)| own == slot));
    });
    (!is_told).then_some(found)
}
