//! Orders of large joins: greedy, and improved by a bounded search.
//!
//! A block of many units has more subsets than a statement may wait for. So an order is built unit by unit: the next
//! one is that which adds the least cost and rows, of those that a condition ties to what is there, if there are any.
//! Everything hangs on the first unit, so several are tried, those with the fewest rows first, and the cheapest whole
//! order counts. It is a bound for `join_search`, which finds a cheaper one in blocks of moderate size.
//!
//! Neighbours: `join_order` asks for an order; `join_search` prices the steps and searches below the bound.
//! **Invariants**: an order respects the dependencies of every unit; the number of steps that are priced is at most
//! [`MAX_STARTS`] times the square of the units, and [`MAX_EXTENSIONS`] besides what lies above the bound.

use esker_types::SqlResult;

use super::conds::TableSet;
use super::join_order::{Group, Joiner};
use super::join_search::{JoinEstimate, Search};
use crate::expr::Expr;

/// Units that an order is begun with.
const MAX_STARTS: usize = 8;
/// Units up to which a cheaper order than the greedy one is searched for.
const MAX_BOUNDED: usize = 12;
/// Orders of subsets that this search keeps or drops before it gives up.
const MAX_EXTENSIONS: usize = 5_000;

impl Joiner<'_> {
    /// An order of more units than all subsets of which are looked at.
    pub(super) fn order_many(
        &self,
        group: &Group,
        conds: &[Expr],
        outer: TableSet,
    ) -> SqlResult<Vec<usize>> {
        let search = Search::new(self, group, conds, outer);
        let (order, estimate) = self.greedy(&search)?;
        let cheaper = match group.units.len() <= MAX_BOUNDED {
            true => self.exhaustive(&search, estimate.cost, MAX_EXTENSIONS)?,
            false => None,
        };
        Ok(cheaper.unwrap_or(order))
    }

    /// The cheapest of the orders that begin with different units.
    fn greedy(&self, search: &Search<'_>) -> SqlResult<(Vec<usize>, JoinEstimate)> {
        let mut starts = Vec::new();
        for unit in 0..search.group.units.len() {
            if let Some(estimate) = self.try_next(search, &[], &JoinEstimate::START, unit)? {
                starts.push((unit, estimate));
            }
        }
        starts.sort_by(|(_, a), (_, b)| a.rows.total_cmp(&b.rows));
        let mut best: Option<(Vec<usize>, JoinEstimate)> = None;
        for (unit, estimate) in starts.into_iter().take(MAX_STARTS) {
            let bound = best.as_ref().map(|(_, best)| best.cost);
            if let Some(order) = self.greedy_from(search, (unit, estimate), bound)? {
                best = Some(order);
            }
        }
        Ok(best.expect("dependencies never form a cycle"))
    }

    /// The order that begins with this unit, if it costs less than the best so far.
    fn greedy_from(
        &self,
        search: &Search<'_>,
        (first, mut estimate): (usize, JoinEstimate),
        bound: Option<f64>,
    ) -> SqlResult<Option<(Vec<usize>, JoinEstimate)>> {
        let mut order = vec![first];
        while order.len() < search.group.units.len() {
            let (next, step) = self.greedy_step(search, &order, &estimate)?;
            if bound.is_some_and(|bound| step.cost >= bound) {
                return Ok(None);
            }
            order.push(next);
            estimate = step;
        }
        Ok(Some((order, estimate)))
    }

    /// The unit to append.
    fn greedy_step(
        &self,
        search: &Search<'_>,
        order: &[usize],
        before: &JoinEstimate,
    ) -> SqlResult<(usize, JoinEstimate)> {
        let weight = |step: &JoinEstimate| step.cost + step.rows;
        let mut best: Option<(bool, usize, JoinEstimate)> = None;
        for next in (0..search.group.units.len()).filter(|u| !order.contains(u)) {
            let Some(step) = self.try_next(search, order, before, next)? else {
                continue;
            };
            let is_tied = search.is_tied(order, next);
            let is_better = best
                .as_ref()
                .is_none_or(|(tied, _, best)| (is_tied, weight(best)) > (*tied, weight(&step)));
            self.trace_extension(
                search.group,
                search.conds,
                (order, before),
                (next, &step),
                search.outer,
                is_better,
            );
            if is_better {
                best = Some((is_tied, next, step));
            }
        }
        let (_, next, step) = best.expect("dependencies never form a cycle");
        Ok((next, step))
    }
}
