//! Streaming aggregation for LIMIT: rows that come in the order of the grouping keys are grouped as they come, and
//! reading ends with the last group that is wanted.
//!
//! Of a join the table that is read first has the keys: `SELECT o.id, COUNT(*) FROM orders o JOIN lines l … GROUP BY
//! o.id LIMIT 10` looks up the lines of ten orders. The price is that of the whole, in proportion to the groups.
//!
//! Neighbours: `block` asks; `access` gives paths in an order, `join_order` plans joins that begin with a table;
//! `exec::root` groups what is next to each other. **Invariants**: rows with equal keys follow each other in the order
//! of the path; rows that are joined one by one come in the order of the first table's rows.

use esker_types::SqlResult;

use super::access::{Path, Target, cheapest};
use super::join_order::{Joiner, Planned};
use super::ordered::{leftmost, limit_wanted, share_kept};
use super::{Node, Source};
use crate::bind::{Block, GroupBy, OrderKey};
use crate::expr::Expr;

/// Groups that are read for one that meets HAVING.
const GROUPS_PER_HAVING: f64 = 10.0;
/// By what factor it has to be cheaper than reading all: that is shared among threads.
const GAIN: f64 = 2.0;

/// Groups of which LIMIT wants the first.
pub(super) struct FirstGroups {
    /// ORDER BY over the keys as the rows have them.
    order: Vec<OrderKey>,
    /// What tells groups apart, and what of the other keys the order has.
    keys: Vec<Expr>,
    /// How many are read.
    wanted: f64,
}

impl FirstGroups {
    /// Of a block, of whose keys some tell its groups apart; `None` where all groups have to be made.
    pub fn of(block: &Block, tells: &[bool], order: &[OrderKey]) -> Option<Self> {
        let group = block.group.as_ref()?;
        let mut wanted = limit_wanted(block);
        let is_plain = !group.keys.is_empty() && group.rollup.is_none() && wanted.is_finite();
        if !is_plain || block.distinct || !block.windows.calls.is_empty() {
            return None;
        }
        if block.having.is_some() {
            wanted *= GROUPS_PER_HAVING;
        }
        debug_assert_eq!(tells.len(), group.keys.len(), "each key tells or follows");
        let order = in_keys(group, order)?;
        let is_wanted = |key: &Expr| {
            let mut columns = order.iter().map(|key| key.expr.as_column());
            columns.any(|column| column == key.as_column())
        };
        let keys = group.keys.iter().zip(tells);
        let keys = keys.filter(|(key, tells)| **tells || is_wanted(key));
        let keys = keys.map(|(key, _)| key.clone()).collect();
        Some(Self {
            order,
            keys,
            wanted,
        })
    }

    /// What a plan that costs so much as a whole costs for the groups that are wanted of all.
    pub fn part(&self, cost: f64, groups: f64) -> f64 {
        cost * (self.wanted / groups.max(1.0)).min(1.0)
    }

    /// Does a path give equal keys together, and in the order that is wanted? In which direction, if that matters.
    pub fn direction(
        &self,
        target: &Target<'_>,
        path: &Path,
        conds: &[Expr],
    ) -> Option<Option<bool>> {
        let reverse = target.groups_together(path, (&self.order, &self.keys), conds)?;
        Some((!self.order.is_empty()).then_some(reverse))
    }

    /// The path of a single table that gives equal keys together, with its cost, if reading until LIMIT is met is worth
    /// it.
    pub fn path(
        &self,
        joiner: &Joiner<'_>,
        target: &Target<'_>,
        conds: &[Expr],
    ) -> Option<(f64, Path)> {
        let known = |e: &Expr| joiner.is_known(e, 0);
        let whole = cheapest(&target.paths(joiner.env, conds, &known)).cost;
        let keys = (&self.order[..], &self.keys[..]);
        let paths = target.grouping_paths(joiner.env, keys, conds, &known);
        let priced = paths.into_iter().map(|(path, rows_per_group)| {
            let kept = path.rows * share_kept(joiner, target, conds, &path);
            (self.part(path.cost, kept / rows_per_group), path)
        });
        let (cost, path) = priced.min_by(|a, b| a.0.total_cmp(&b.0))?;
        (cost * GAIN < whole).then_some((cost, path))
    }

    /// Joins that begin with a table that gives equal keys together, if reading until LIMIT is met is cheaper than
    /// `whole`.
    pub fn join(&self, joiner: &mut Joiner<'_>, whole: &Planned) -> SqlResult<Option<Planned>> {
        let block = joiner.block;
        if block.tables.len() < 2 {
            return Ok(None);
        }
        let mut most = whole.cost / GAIN;
        let mut best = None;
        for (nth, table) in block.tables.iter().enumerate() {
            let Some(def) = table.base_def() else {
                continue;
            };
            let target = Target::new(block, nth, def);
            let known = |e: &Expr| joiner.is_known(e, 0);
            let keys = (&self.order[..], &self.keys[..]);
            let paths = target.grouping_paths(joiner.env, keys, &joiner.filter, &known);
            let cheapest = paths
                .into_iter()
                .min_by(|(a, _), (b, _)| a.cost.total_cmp(&b.cost));
            let Some((path, rows_per_group)) = cheapest else {
                continue;
            };
            let groups = path.rows / rows_per_group;
            let Some(led) = joiner.plan_led_by(nth, path)? else {
                continue;
            };
            // A group has a row at least.
            let cost = self.part(led.cost, groups.min(led.rows).min(whole.rows));
            if cost < most && is_streaming(&led.node) {
                most = cost;
                best = Some(led);
            }
        }
        Ok(best)
    }
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

/// Do the rows of a block that is grouped come with equal keys together? So they do where the path of the table that is
/// read first was chosen for that.
pub(super) fn is_streaming(source: &Node) -> bool {
    let is_for_order = |source: &Source| match source {
        Source::Base { access, .. } => access.for_order,
        _ => false,
    };
    leftmost(source).is_some_and(|scan| is_for_order(&scan.source) && !scan.first_only)
}
