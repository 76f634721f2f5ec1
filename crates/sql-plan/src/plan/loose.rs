//! What a loose index scan has to tell apart: DISTINCT and GROUP BY over few columns, which do not change when equal
//! rows come once instead of many times.
//!
//! LIMIT ends it with the last group that is wanted, where ORDER BY asks for no other order than that of the index.
//!
//! Neighbours: `block` asks; `access` finds the index and prices it. **Invariant**: a block is answered from one row of
//! every combination of the told columns, or two: it reads no other column but the one whose MIN and MAX it wants, and
//! every aggregate gives the same for one row as for many equal ones.

use esker_types::{SqlType, TypeKind};

use super::access::{LooseScan, Path, Target, cheapest};
use super::grouped::FirstGroups;
use super::join_order::Joiner;
use super::merge::is_repeatable;
use super::ordered::{limit_wanted, share_kept};
use crate::bind::{AggCall, Block, OrderKey};
use crate::expr::Expr;

/// Rows below which a table is read whole.
const LEAST_ROWS: f64 = 1000.0;
/// By what factor it has to be cheaper: rows that are read one after the other may be read by several threads.
const GAIN: f64 = 2.0;

/// What tells rows apart, beside all columns that are read.
pub(super) struct Told {
    /// The column whose MIN or MAX is wanted; it does not tell apart.
    pub extreme: Option<Extreme>,
}

/// A column and which of its ends is wanted.
#[derive(Clone, Copy)]
pub(super) struct Extreme {
    pub slot: u32,
    pub least: bool,
    pub greatest: bool,
    pub nullable: bool,
}

/// The loose index scan of a block, and what it costs up to the last group that is wanted.
pub(super) struct LoosePath {
    pub scan: LooseScan,
    pub cost: f64,
}

/// The loose index scan of a block, if it can have one and that is worth it. `groups` are those that LIMIT wants.
pub(super) fn loose_path(
    joiner: &Joiner<'_>,
    target: &Target<'_>,
    groups: Option<&FirstGroups>,
    (order, conds): (&[OrderKey], &[Expr]),
) -> Option<LoosePath> {
    let block = joiner.block;
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
    let is_distinct = block.group.is_none() && limit_wanted(block).is_finite();
    let in_order = |path: &Path| match groups {
        Some(groups) => groups.direction(target, path, conds),
        None if is_distinct => {
            let reverse = target.order_of(path, order, conds)?;
            Some((!order.is_empty()).then_some(reverse))
        }
        None => None,
    };
    let scan = target.loose_scan(joiner.env, &told, conds, (&known, &in_order))?;
    let path = &scan.path;
    let found = path.rows * share_kept(joiner, target, conds, path);
    let cost = match groups {
        _ if !scan.is_ordered => path.cost,
        Some(groups) => groups.part(path.cost, found),
        None => path.cost * (limit_wanted(block) / found.max(1.0)).min(1.0),
    };
    (cost * GAIN < whole).then_some(LoosePath { scan, cost })
}

/// What the block tells rows apart by; `None` where their number counts.
fn told(block: &Block, conds: &[Expr]) -> Option<Told> {
    let table = &block.tables[0];
    let is_read = table.key_slot.is_none() && table.row_slot.is_none();
    let is_plain = is_read && block.windows.calls.is_empty() && conds.iter().all(is_repeatable);
    let is_told = |e: &Expr| is_repeatable(e) && tells_as_index(e);
    let Some(group) = block.group.as_ref().filter(|_| is_plain) else {
        let is_distinct = block.group.is_none() && block.distinct && block.beside == 0;
        let told = Told { extreme: None };
        return (is_plain && is_distinct && block.output.iter().all(is_told)).then_some(told);
    };
    if group.rollup.is_some() || !group.keys.iter().all(is_told) {
        return None;
    }
    let told = Told {
        extreme: extreme(&group.aggs)?,
    };
    let reads_it = |e: &Expr| {
        let mut reads = false;
        e.slots(&mut |slot| reads |= told.extreme.is_some_and(|e| e.slot == slot));
        reads
    };
    let after = block.output.iter().chain(&block.having);
    let after = after.chain(block.order.iter().map(|key| &key.expr));
    let others = group.keys.iter().chain(conds).chain(after);
    (!others.into_iter().any(reads_it)).then_some(told)
}

/// Does the expression tell rows apart by nothing that entries with the same key may differ in? A column alone is
/// compared as its key is; of texts that are equal in their collation, and of zeros, there are several.
fn tells_as_index(e: &Expr) -> bool {
    if e.as_column().is_some() {
        return true;
    }
    let mut is_so = true;
    e.visit(&mut |part| {
        let is_inexact = |ty: &SqlType| match ty.kind {
            TypeKind::Float | TypeKind::Double => true,
            _ => ty.is_string() && !ty.collation.is_binary(),
        };
        is_so &= part.as_column().is_none() || !is_inexact(&part.ty);
    });
    is_so
}

/// The column whose MIN and MAX are all that the aggregates want of the rows of a group, `Some(None)` if they want
/// none; `None` if they want more.
fn extreme(aggs: &[AggCall]) -> Option<Option<Extreme>> {
    let mut found: Option<Extreme> = None;
    for agg in aggs {
        if !agg.args.iter().all(is_repeatable) {
            return None;
        }
        if agg.distinct && !agg.args.is_empty() {
            if !agg.args.iter().all(tells_as_index) {
                return None;
            }
            continue;
        }
        let is_max = match agg.def.name {
            "min" => false,
            "max" => true,
            _ => return None,
        };
        let [arg] = &agg.args[..] else { return None };
        // Texts are equal in more ways than one, labels are not compared by their numbers, and local time repeats an
        // hour when clocks go back.
        let is_ordered = arg.ty.is_numeric() || arg.ty.is_temporal();
        let is_local = arg.ty.kind == TypeKind::Timestamp;
        if !is_ordered || is_local {
            return None;
        }
        let slot = arg.as_column()?;
        let extreme = found.get_or_insert(Extreme {
            slot,
            least: false,
            greatest: false,
            nullable: arg.ty.nullable,
        });
        if extreme.slot != slot {
            return None;
        }
        extreme.least |= !is_max;
        extreme.greatest |= is_max;
    }
    // What a distinct aggregate reads has to come with all of its values.
    let distinct = aggs.iter().filter(|agg| agg.distinct);
    let mut is_told = false;
    distinct.flat_map(|agg| &agg.args).for_each(|arg| {
        arg.slots(&mut |slot| is_told |= found.is_some_and(|own| own.slot == slot));
    });
    (!is_told).then_some(found)
}
