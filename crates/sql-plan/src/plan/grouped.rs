//! Streaming aggregation for LIMIT: rows that come in the order of the grouping keys are grouped as they come, and
//! reading ends with the last group that is wanted.
//!
//! Neighbours: `block` asks; `access` gives paths in an order; `exec::root` groups what is next to each other.
//! **Invariant**: rows with equal keys follow each other in the order of the path.

use super::access::{Path, Target, cheapest};
use super::join_order::Joiner;
use super::ordered::{rows_wanted, share_kept};
use super::{Node, Source};
use crate::bind::{Block, GroupBy, OrderKey};
use crate::expr::Expr;

/// Groups that are read for one that meets HAVING.
const GROUPS_PER_HAVING: f64 = 10.0;
/// By what factor it has to be cheaper than reading all: that is shared among threads.
const GAIN: f64 = 2.0;

/// The path that gives equal keys together, if reading until LIMIT is met is worth it.
pub(super) fn grouped_path(
    block: &Block,
    joiner: &Joiner<'_>,
    target: &Target<'_>,
    (order, conds): (&[OrderKey], &[Expr]),
) -> Option<Path> {
    let group = block.group.as_ref()?;
    let mut wanted = rows_wanted(block);
    let is_plain = !group.keys.is_empty() && group.rollup.is_none() && wanted.is_finite();
    if !is_plain || !block.windows.calls.is_empty() {
        return None;
    }
    if block.having.is_some() {
        wanted *= GROUPS_PER_HAVING;
    }
    let leading = in_keys(group, order)?;
    let known = |e: &Expr| joiner.is_known(e, 0);
    let whole = cheapest(&target.paths(joiner.env, conds, &known)).cost;
    let paths = target.grouping_paths(joiner.env, (&leading, &group.keys), conds, &known);
    let priced = paths.into_iter().map(|(path, rows_per_group)| {
        let needed = wanted * rows_per_group / share_kept(joiner, target, conds, &path);
        let part = (needed / path.rows.max(1.0)).min(1.0);
        (path.cost * part, path)
    });
    let (cost, path) = priced.min_by(|a, b| a.0.total_cmp(&b.0))?;
    (cost * GAIN < whole).then_some(path)
}

/// ORDER BY over the keys as the rows have them; `None` if it is over something else.
fn in_keys(group: &GroupBy, order: &[OrderKey]) -> Option<Vec<OrderKey>> {
    let key_of = |key: &OrderKey| {
        let slot = key.expr.as_column()?;
        let is_it = |(nth, own): &(u32, &Expr)| {
            slot == group.key_base + nth || own.as_column() == Some(slot)
        };
        let (_, expr) = (0..).zip(&group.keys).find(is_it)?;
        let (expr, desc) = (expr.clone(), key.desc);
        Some(OrderKey { expr, desc })
    };
    order.iter().map(key_of).collect()
}

/// Do the rows of a block that is grouped come with equal keys together? So they do where its path was chosen for that.
pub(super) fn is_streaming(source: &Node) -> bool {
    match source {
        Node::Scan(scan) => {
            matches!(&scan.source, Source::Base { access, .. } if access.for_order)
                && !scan.first_only
        }
        _ => false,
    }
}
