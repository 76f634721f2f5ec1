//! Sort avoidance: ORDER BY by a table that is read in the order of an index, alone or first in a join.
//!
//! With LIMIT reading ends at the last row that is wanted, so an order that costs more as a whole may cost less: of
//! 150,000 orders with their customers the newest 20 take 20 steps back in the index of their dates and 20 lookups,
//! where the cheapest join reads and sorts all. The price is that of the whole, in proportion to the rows that are
//! wanted.
//!
//! Neighbours: `block` asks; `access::order` knows the order of a path, `join_order` plans joins that begin with a
//! table.
//! **Invariant**: rows that are joined one by one come in the order of the first table's rows.

use esker_types::SqlResult;

use super::access::{Path, Target};
use super::block::limit_value;
use super::join_order::{Joiner, Planned};
use super::{AccessKind, Node, ScanPlan, Source};
use crate::bind::{Block, OrderKey};
use crate::expr::Expr;

/// Rows assumed wanted when LIMIT is not known yet.
const UNKNOWN_LIMIT: f64 = 100.0;
/// The least share of a path's rows that is thought to meet conditions.
const LEAST_SHARE: f64 = 1e-6;
/// By what factor an ordered join has to be cheaper: rows that are wanted may all come late.
const GAIN: f64 = 2.0;

/// A path that makes the sort unnecessary and is worth it.
pub(super) fn ordered_path(
    joiner: &Joiner<'_>,
    target: &Target<'_>,
    order: &[OrderKey],
    conds: &[Expr],
) -> Option<Path> {
    let known = |e: &Expr| joiner.is_known(e, 0);
    let chosen = target.best(joiner.env, conds, &known);
    // With LIMIT an ordered path stops early, if the conditions let enough rows through.
    let sorted_cost = chosen.cost + sort_cost(chosen.rows);
    let mut priced: Vec<(f64, Path)> = target
        .ordered_paths(joiner.env, order, conds, &known)
        .into_iter()
        .map(|path| {
            // No more rows meet the conditions than the cheapest path reads.
            let most = (chosen.rows / path.rows.max(1.0)).max(LEAST_SHARE);
            let share = share_kept(joiner, target, conds, &path).min(most);
            let needed = rows_wanted(joiner, path.rows * share) / share;
            let part = (needed / path.rows.max(1.0)).min(1.0);
            (path.cost * part, path)
        })
        .collect();
    // What is sorted is locked as a whole, so nobody else would find a row in a queue; how many rows LIMIT wants is not
    // known of a plan that is kept.
    let is_whole = |path: &Path| matches!(path.access.kind, AccessKind::Full);
    let is_bounded = |path: &Path| !is_whole(path) || (is_whole(&chosen) && target.is_small());
    let ends_early = target.locks_rows() && rows_wanted(joiner, chosen.rows).is_finite();
    let is_preferred = ends_early && priced.iter().any(|(_, path)| is_bounded(path));
    if is_preferred {
        priced.retain(|(_, path)| is_bounded(path));
    }
    let (cost, path) = priced.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    (is_preferred || cost <= sorted_cost).then_some(path)
}

/// The share of a path's rows that is thought to meet the conditions.
pub(super) fn share_kept(
    joiner: &Joiner<'_>,
    target: &Target<'_>,
    conds: &[Expr],
    path: &Path,
) -> f64 {
    let known = |e: &Expr| joiner.is_known(e, 0);
    let by_form = &super::stats::selectivity;
    let selective = target.filtered(joiner.env, conds.iter().collect(), &known, by_form);
    let kept = match path.access.kind {
        AccessKind::Full => selective,
        _ => selective.max(0.1).sqrt(),
    };
    kept.max(LEAST_SHARE)
}

/// Joins that read a table in the order that LIMIT wants the first rows of, if that is cheaper than sorting what
/// `sorting` gives: they end early. So do joins row by row, where DISTINCT wants some rows in any order.
pub(super) fn ordered_join(
    joiner: &mut Joiner<'_>,
    order: &[OrderKey],
    sorting: &Planned,
) -> SqlResult<Option<Planned>> {
    let block = joiner.block;
    if limit_wanted(block).is_infinite() || block.tables.len() < 2 {
        return Ok(None);
    }
    let sorted = match order.is_empty() {
        true => 0.0,
        false => sort_cost(sorting.rows),
    };
    let mut most = (sorting.cost + sorted) / GAIN;
    let mut best = None;
    for (nth, table) in block.tables.iter().enumerate() {
        let Some(def) = table.base_def() else {
            continue;
        };
        let target = Target::new(block, nth, def);
        let known = |e: &Expr| joiner.is_known(e, 0);
        let paths = match order.is_empty() {
            true => target.paths(joiner.env, &joiner.filter, &known),
            false => target.ordered_paths(joiner.env, order, &joiner.filter, &known),
        };
        let Some(path) = paths.into_iter().min_by(|a, b| a.cost.total_cmp(&b.cost)) else {
            continue;
        };
        let Some(led) = joiner.plan_led_by(nth, path)? else {
            continue;
        };
        // Both give the same rows; the fewer are by what indexes say of the conditions.
        let rows = led.rows.min(sorting.rows).max(1.0);
        let cost = led.cost * (rows_wanted(joiner, rows) / rows).min(1.0);
        if cost < most && comes_ordered(joiner, &led.node, order) {
            most = cost;
            best = Some(led);
        }
    }
    Ok(best)
}

/// Rows of a block's source, which gives `rows` in all, that LIMIT needs; infinitely many where it needs all.
fn rows_wanted(joiner: &Joiner<'_>, rows: f64) -> f64 {
    let block = joiner.block;
    let wanted = limit_wanted(block);
    match (block.distinct, block.group.is_some() || block.beside > 0) {
        (false, _) => wanted,
        (true, false) => wanted * rows_per_distinct(joiner, rows),
        (true, true) => f64::INFINITY,
    }
}

/// Of `rows` rows, those that DISTINCT makes one. Columns of which nothing is known are thought to tell none apart.
fn rows_per_distinct(joiner: &Joiner<'_>, rows: f64) -> f64 {
    let columns = joiner.block.output.iter().filter_map(Expr::as_column);
    let values = columns.filter_map(|slot| joiner.distinct_values(slot));
    rows.max(1.0) / values.product::<f64>().clamp(1.0, rows.max(1.0))
}

/// Rows, or groups, that LIMIT lets through; infinitely many without it.
pub(super) fn limit_wanted(block: &Block) -> f64 {
    match &block.limit {
        Some(limit) if !block.calc_found_rows => {
            let number = |e: &Expr| limit_value(e).map_or(UNKNOWN_LIMIT, |n| n as f64);
            number(&limit.count) + limit.offset.as_ref().map_or(0.0, number)
        }
        _ => f64::INFINITY,
    }
}

/// What sorting rows costs.
fn sort_cost(rows: f64) -> f64 {
    rows * (0.5 + 0.1 * rows.max(2.0).log2())
}

/// Do the joined rows come in the order of `order`? The leftmost table's path decides.
pub(super) fn comes_ordered(joiner: &Joiner<'_>, node: &Node, order: &[OrderKey]) -> bool {
    let Some(scan) = leftmost(node) else {
        return false;
    };
    let Source::Base { access, .. } = &scan.source else {
        return false;
    };
    let tables = &joiner.block.tables;
    let Some(at) = tables.iter().position(|t| t.alias == scan.alias) else {
        return false;
    };
    let Some(def) = tables[at].base_def() else {
        return false;
    };
    let target = Target::new(joiner.block, at, def);
    let path = target.path_of(access.clone());
    // A point read gives one row, but each may meet many rows of other tables.
    if matches!(access.kind, AccessKind::Point(_)) && tables.len() > 1 {
        return false;
    }
    target.order_of(&path, order, &scan.conds) == Some(access.reverse)
}

/// The table that is read first.
pub(super) fn leftmost(node: &Node) -> Option<&ScanPlan> {
    match node {
        Node::Scan(scan) => Some(scan),
        Node::Filter(child, _) => leftmost(child),
        Node::Join(join) => leftmost(&join.left),
        Node::Once | Node::Nothing(_) => None,
    }
}
