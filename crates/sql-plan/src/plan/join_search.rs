//! Join enumeration: a left-deep dynamic programme over subsets of the tables.
//!
//! **What is enumerated.** A block's FROM clause is a list of *units*: a table, or the inner side of an outer join as a
//! whole (its own inner joins are ordered by the same search first). A unit may depend on others: a lateral derived
//! table on the tables that it reads, an outer join on the tables of its ON condition, STRAIGHT_JOIN on all that stand
//! before it. The search looks for a permutation of the units that respects these dependencies. Plans are left-deep:
//! the rows so far are the outer (probe) side, the next unit is the inner (build) side. Bushy trees are not enumerated;
//! a derived table that was not merged is the only one.
//!
//! **Dynamic programming.** [`Joiner::exhaustive`] visits the subsets of the units in ascending order of their bit
//! masks, so a subset is complete before any superset is visited. For each subset it keeps the Pareto-optimal
//! [`Candidate`]s of two properties: the cost, and whether the rows ascend by a column that equals a column of a unit
//! not placed yet (an *interesting order* in the sense of Selinger et al., "Access Path Selection in a Relational
//! Database Management System", 1979). The order matters because later lookups that ascend are cheaper
//! ([`cost::NEAR_SEEK`]). With `n` units that is at most `2^n` subsets of at most two candidates with `n` extensions
//! each. Of larger blocks `join_greedy` finds an order first; this search then looks for a cheaper one, drops what
//! costs more already, and gives up after a number of extensions.
//!
//! **Cost.** Costs are in rows of a clustered scan; `plan/cost.rs` has the table. [`Joiner::step`] prices the extension
//! by one unit with each join method and takes the cheapest:
//! - *index nested loop*: the unit is opened once per outer row with its keys bound;
//! - *hash join*: if an equality connects the sides, the unit is read once and hashed;
//! - *buffered nested loop*: otherwise the unit is read once and compared with every outer row.
//!
//! **Cardinality.** Rows of a join are the product of both sides and the selectivity of the conditions that become
//! evaluable with the new unit. An equality of two columns has selectivity `1 / max(distinct values)`. Equalities that
//! follow from others count once (`equalities`), as do ranges (`implied_ranges`).
//!
//! **What is pruned, and why.** An extension whose dependencies are not placed is skipped. A candidate that another one
//! of the same subset dominates (not cheaper, and not in an interesting order where the other is) is dropped: its
//! extensions cannot become better than the other's. Units that lock rows or are lateral are only joined by nested
//! loops: reading them once into memory would lock rows that match nothing, or is not possible at all. What a change
//! only reads may be read once where each opening would read, and lock, just as much. A computed table (derived,
//! virtual) is never computed again per row.
//!
//! **What is remembered.** What opening a unit costs depends on the tables before it only as far as its conditions read
//! them ([`Search`]): in a chain of joins that is a neighbour or two, so access paths, which make and count key ranges,
//! are priced some times for each unit and not for each subset.
//!
//! **Example.** `orders o JOIN customer c ON o.c_id = c.id WHERE c.city = 'Bonn'` with 1,000,000 orders (index on
//! `c_id`, 10 per customer), 100,000 customers, 50 of them in Bonn (index on `city`). Subset `{c}`: 50 rows at about 50
//! lookups; subset `{o}`: 1,000,000 rows at cost 1,000,000. From `{c}`, opening `o` by `c_id` reads 10 entries and
//! their rows per customer, so `{c, o}` costs some 50 * 10 lookups. From `{o}`, hashing the 50 customers costs 75 and
//! probing 600,000 more. The first order dominates; its rows do not ascend by a column that is still wanted, so nothing
//! else is kept.
//!
//! Neighbours: `join_order` splits a block into units and builds the plan of the order found; `join_greedy` orders
//! large blocks; `access` prices access paths. **Invariants**: an order found respects the dependencies of every unit;
//! costs are finite except for what must not be done.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use esker_types::{SqlResult, SqlType};

use super::access::{Ascending, Target, cheapest};
use super::conds::TableSet;
use super::join_order::{Group, Joiner, Method, Planned, Step, Unit, UnitKind};
use super::{cost, stats};
use crate::bind::{JoinHint, LockReason, TableKind, equated_slots};
use crate::expr::Expr;

/// Pricing an opening takes as long as work on so many bytes.
const OPENING_BYTES: usize = 32 << 10;

/// Estimated cardinality, cost and order of the rows of some joined units.
#[derive(Debug, Clone, Copy)]
pub(super) struct JoinEstimate {
    pub rows: f64,
    pub cost: f64,
    /// The slot by which the rows come in ascending order.
    pub ascending: Option<u32>,
}

impl JoinEstimate {
    /// No table yet.
    pub const START: Self = Self {
        rows: 1.0,
        cost: 0.0,
        ascending: None,
    };

    /// The order in which keys are looked up for these rows.
    pub fn order(&self) -> Option<Ascending> {
        let rows = self.rows;
        self.ascending.map(|slot| Ascending { slot, rows })
    }
}

/// A left-deep order of a subset of the units.
#[derive(Clone)]
struct Candidate {
    estimate: JoinEstimate,
    order: Vec<usize>,
    /// Its rows come in an interesting order: a lookup in a later table ascends with it.
    is_useful: bool,
}

impl Candidate {
    /// Is the other one at least as good in both properties?
    fn is_dominated_by(&self, other: &Self) -> bool {
        other.estimate.cost <= self.estimate.cost && (other.is_useful || !self.is_useful)
    }

    /// Joins the Pareto-optimal candidates of the same subset unless one of them dominates it, and evicts those it
    /// dominates. Does it?
    fn keep_if_undominated(self, best: &mut Vec<Self>) -> bool {
        let is_kept = !best.iter().any(|other| self.is_dominated_by(other));
        if is_kept {
            best.retain(|other| !other.is_dominated_by(&self));
            best.push(self);
        }
        is_kept
    }
}

pub(super) fn estimate_of(p: &Planned) -> JoinEstimate {
    JoinEstimate {
        rows: p.rows,
        cost: p.cost,
        ascending: p.ascending,
    }
}

/// What opening a unit once costs and gives.
#[derive(Clone, Copy)]
struct Opening {
    /// For a row of the tables before it.
    nested: JoinEstimate,
    /// Without one.
    alone: JoinEstimate,
    /// A condition connects it with the tables before it, ...
    is_tied: bool,
    /// ... and is an equality by which it can be hashed.
    is_hashable: bool,
}

/// What an opening depends on: the unit, the tables before it that its conditions read, and the order of their rows, if
/// it may be that of lookups.
type OpeningKey = (usize, TableSet, Option<(u32, u64)>);

/// The search for an order of a group's units, and the openings of them that were priced already.
pub(super) struct Search<'s> {
    pub(super) group: &'s Group,
    pub(super) conds: &'s [Expr],
    /// Tables whose rows are there before.
    pub(super) outer: TableSet,
    /// By unit: the tables that its conditions read, ...
    tables: Vec<TableSet>,
    /// ... and the slots.
    slots: Vec<HashSet<u32>>,
    known: RefCell<HashMap<OpeningKey, Opening>>,
}

impl<'s> Search<'s> {
    pub(super) fn new(
        joiner: &Joiner<'_>,
        group: &'s Group,
        conds: &'s [Expr],
        outer: TableSet,
    ) -> Self {
        let mut slots = vec![HashSet::new(); group.units.len()];
        let mut tables = vec![0; group.units.len()];
        for (nth, unit) in group.units.iter().enumerate() {
            let is_own = |c: &&Expr| joiner.map.tables_of(c) & unit.tables != 0;
            let inside = match &unit.kind {
                UnitKind::Table(_) => None,
                UnitKind::Left { on, inner } => Some(on.iter().chain(&inner.conds)),
            };
            let own = conds.iter().filter(is_own);
            for cond in own.chain(inside.into_iter().flatten()) {
                tables[nth] |= joiner.map.tables_of(cond);
                cond.slots(&mut |slot| {
                    slots[nth].insert(slot);
                });
            }
        }
        Search {
            group,
            conds,
            outer,
            tables,
            slots,
            known: RefCell::default(),
        }
    }

    /// The tables that are there before the next unit.
    fn placed(&self, order: &[usize]) -> TableSet {
        placed(self.group, order, self.outer)
    }

    /// Does a condition of the unit read a table that is placed?
    pub(super) fn is_tied(&self, order: &[usize], next: usize) -> bool {
        self.placed(order) & self.tables[next] != 0
    }

    fn key(&self, next: usize, placed: TableSet, order: Option<Ascending>) -> OpeningKey {
        let order = order.filter(|order| self.slots[next].contains(&order.slot));
        let order = order.map(|order| (order.slot, order.rows.to_bits()));
        (next, placed & self.tables[next], order)
    }
}

impl Joiner<'_> {
    /// Prices joining a unit to `before`.
    pub(super) fn step(
        &self,
        before: &JoinEstimate,
        unit: &Unit,
        conds: Vec<Expr>,
        have: TableSet,
        outer: TableSet,
    ) -> SqlResult<Step> {
        let opening = self.opening(before.order(), unit, conds, have, outer)?;
        Ok(self.price(before, unit, &opening))
    }

    /// Opens a unit after the tables `have`, with the conditions that can be evaluated then.
    fn opening(
        &self,
        order: Option<Ascending>,
        unit: &Unit,
        conds: Vec<Expr>,
        have: TableSet,
        outer: TableSet,
    ) -> SqlResult<Opening> {
        let all = match &unit.kind {
            UnitKind::Table(_) => conds,
            UnitKind::Left { on, inner } => on.iter().chain(&inner.conds).cloned().collect(),
        };
        // What follows from an equality with a row that is there takes no rows away.
        let implied = self.implied.borrow();
        let placed = self.placed_in(have);
        let telling = all.iter().filter(|c| !implied.follows(c, &all, placed));
        let telling: Vec<Expr> = telling.cloned().collect();
        Ok(Opening {
            nested: self.unit_estimate(unit, &telling, have, order)?,
            alone: self.unit_estimate(unit, &all, outer, None)?,
            is_tied: all.iter().any(|c| {
                let read = self.map.tables_of(c);
                read & unit.tables != 0 && read & have != 0
            }),
            is_hashable: all.iter().any(|c| self.hash_pair(c, unit.tables).is_some()),
        })
    }

    /// Prices joining a unit to `before` in the cheapest way.
    fn price(&self, before: &JoinEstimate, unit: &Unit, opening: &Opening) -> Step {
        let Opening {
            nested,
            alone,
            is_tied,
            is_hashable,
        } = *opening;
        // What nothing connects takes no rows away: it has one at least, or nothing comes of the whole.
        let least = if is_tied { 0.0 } else { 1.0 };
        let mut rows = before.rows * nested.rows.max(least);
        if matches!(unit.kind, UnitKind::Left { .. }) {
            rows = rows.max(before.rows);
        }
        let lateral = match unit.kind {
            UnitKind::Table(t) => self.block.tables[t].lateral,
            UnitKind::Left { .. } => unit.tables.count_ones() > 0 && self.has_lateral(unit.tables),
        };
        let locked = self.has_lock(unit.tables)
            && !(self.is_source(unit.tables) && nested.cost >= alone.cost);
        let opened = if is_tied {
            1.0
        } else {
            cost::UNCONNECTED_PENALTY
        };
        let mut best = Step {
            rows,
            cost: before.cost + before.rows * nested.cost * opened,
            method: Method::Nested,
        };
        let told = match unit.kind {
            UnitKind::Table(t) => self.block.tables[t].told.join,
            UnitKind::Left { .. } => None,
        };
        // Rows read once into memory would be locked although they match nothing.
        if lateral || locked || told == Some(JoinHint::Nested) {
            return best;
        }
        // What is computed is computed once.
        let computed = match unit.kind {
            UnitKind::Table(t) => self.block.tables[t].base_def().is_none(),
            UnitKind::Left { .. } => false,
        };
        if computed {
            best.cost = f64::INFINITY;
        }
        if self.row_by_row {
            return best;
        }
        let once = before.cost + alone.cost + alone.rows * cost::BUILD_ROW;
        if is_hashable {
            let cost = once + before.rows * cost::PROBE_ROW + rows * cost::COMPARE_BUFFERED_ROW;
            if cost < best.cost || told == Some(JoinHint::Hashed) {
                best = Step {
                    rows,
                    cost,
                    method: Method::Hash,
                };
            }
        } else {
            let cost = once + before.rows * alone.rows * cost::COMPARE_BUFFERED_ROW;
            if cost < best.cost && (computed || before.rows > 1.0) {
                best = Step {
                    rows,
                    cost,
                    method: Method::Buffered,
                };
            }
        }
        best
    }

    fn has_lateral(&self, tables: TableSet) -> bool {
        self.block
            .tables
            .iter()
            .enumerate()
            .any(|(t, s)| tables >> t & 1 == 1 && s.lateral)
    }

    /// Are rows of these tables locked because a change depends on them, and for nothing else?
    fn is_source(&self, tables: TableSet) -> bool {
        let locks = self.block.locks.iter().enumerate();
        let mut of_these = locks.filter(|(t, _)| tables >> t & 1 == 1);
        of_these.all(|(_, lock)| lock.is_none_or(|lock| lock.reason == LockReason::Source))
    }

    fn has_lock(&self, tables: TableSet) -> bool {
        self.block
            .locks
            .iter()
            .enumerate()
            .any(|(t, l)| tables >> t & 1 == 1 && l.is_some())
    }

    /// Rows and cost of one opening of a unit, given the tables that are there.
    fn unit_estimate(
        &self,
        unit: &Unit,
        conds: &[Expr],
        seen: TableSet,
        order: Option<Ascending>,
    ) -> SqlResult<JoinEstimate> {
        match &unit.kind {
            UnitKind::Table(t) => {
                let own: Vec<Expr> = conds
                    .iter()
                    .filter(|c| self.map.tables_of(c) & !(unit.tables | seen) == 0)
                    .cloned()
                    .collect();
                Ok(self.table_estimate(*t, &own, seen, order))
            }
            UnitKind::Left { inner, .. } => {
                let mut total = JoinEstimate::START;
                let mut have = seen;
                for inner_unit in &inner.units {
                    let estimate = self.unit_estimate(inner_unit, conds, have, order)?;
                    total.cost += total.rows * estimate.cost;
                    total.rows *= estimate.rows;
                    have |= inner_unit.tables;
                }
                Ok(total)
            }
        }
    }

    pub(super) fn table_estimate(
        &self,
        t: usize,
        conds: &[Expr],
        seen: TableSet,
        order: Option<Ascending>,
    ) -> JoinEstimate {
        let table = &self.block.tables[t];
        let chosen: f64 = conds.iter().map(stats::selectivity).product();
        match &table.kind {
            TableKind::Base(def) => {
                let target = Target::new(self.block, t, def).after(order);
                let target = target.remembering(t, &self.counted_ranges);
                let known = |e: &Expr| self.is_known(e, seen);
                let paths = target.paths(self.env, conds, &known);
                let path = self.pinned.get(&t).unwrap_or_else(|| cheapest(&paths));
                let (cost, ascending) = (path.cost, target.ascending(path));
                let kept = target.kept(self.env, conds, paths, &known, &|c| self.selectivity(c));
                JoinEstimate {
                    rows: (target.rows * kept).max(cost::MIN_ROWS),
                    cost,
                    ascending,
                }
            }
            TableKind::Virtual(_) => JoinEstimate {
                rows: stats::VIRTUAL_ROWS * chosen,
                cost: stats::VIRTUAL_ROWS,
                ascending: None,
            },
            TableKind::Derived(_) => {
                let plan = self.derived[t].as_ref();
                let (rows, cost) = plan.map_or((1.0, 1.0), |p| (p.rows, p.cost_rows));
                let rows = rows.max(1.0);
                JoinEstimate {
                    rows: rows * chosen,
                    cost: cost.max(rows) * 2.0,
                    ascending: None,
                }
            }
            TableKind::Json(_) => JoinEstimate {
                rows: stats::JSON_ROWS * chosen,
                cost: stats::JSON_ROWS,
                ascending: None,
            },
            TableKind::Recursive(_) => JoinEstimate {
                rows: stats::WORK_ROWS * chosen,
                cost: stats::WORK_ROWS,
                ascending: None,
            },
            TableKind::Row => JoinEstimate::START,
        }
    }

    /// Fraction of the rows (of a join's pairs) for which a condition is true.
    fn selectivity(&self, cond: &Expr) -> f64 {
        if let Some((a, b)) = equated_slots(cond) {
            let values = [a, b].into_iter().filter_map(|s| self.distinct_values(s));
            if let Some(most) = values.max_by(f64::total_cmp) {
                return 1.0 / most.max(1.0);
            }
        }
        stats::selectivity(cond)
    }

    /// Distinct values of a column, where an index tells.
    pub(super) fn distinct(&self, slot: u32) -> Option<f64> {
        self.target_of(slot)?.distinct(self.env, slot)
    }

    /// Distinct values of a column, where an index or a histogram tells.
    pub(super) fn distinct_values(&self, slot: u32) -> Option<f64> {
        self.target_of(slot)?.distinct_values(self.env, slot)
    }

    /// The stored table that fills a slot.
    fn target_of(&self, slot: u32) -> Option<Target<'_>> {
        let set = self
            .map
            .tables_of(&Expr::column(slot, SqlType::bigint(false)));
        let t = (set != 0).then(|| set.trailing_zeros() as usize)?;
        let def = self.block.tables[t].base_def()?;
        Some(Target::new(self.block, t, def))
    }

    /// Dynamic programming over subsets: the cheapest order of all units, if it costs no more than `bound`, and was
    /// found with so many extensions.
    pub(super) fn exhaustive(
        &self,
        search: &Search<'_>,
        bound: f64,
        mut extensions: usize,
    ) -> SqlResult<Option<Vec<usize>>> {
        let Search {
            group,
            conds,
            outer,
            ..
        } = *search;
        let n = group.units.len();
        let mut best: Vec<Vec<Candidate>> = vec![Vec::new(); 1 << n];
        best[0].push(Candidate {
            estimate: JoinEstimate::START,
            order: Vec::new(),
            is_useful: false,
        });
        for subset in 0..1usize << n {
            for before in std::mem::take(&mut best[subset]) {
                if subset + 1 == 1 << n {
                    return Ok(Some(before.order));
                }
                for next in (0..n).filter(|u| subset >> u & 1 == 0) {
                    let Candidate {
                        estimate, order, ..
                    } = &before;
                    let Some(priced) = self.try_next(search, order, estimate, next)? else {
                        continue;
                    };
                    // Whatever follows adds to the cost.
                    if priced.cost > bound {
                        continue;
                    }
                    if extensions == 0 {
                        return Ok(None);
                    }
                    extensions -= 1;
                    let mut longer = order.clone();
                    longer.push(next);
                    let placed = placed(group, &longer, outer);
                    let is_useful = self.is_useful(priced.ascending, conds, placed);
                    let new = Candidate {
                        estimate: priced,
                        order: longer,
                        is_useful,
                    };
                    let kept = new.keep_if_undominated(&mut best[subset | 1 << next]);
                    self.trace_extension(
                        group,
                        conds,
                        (&order[..], estimate),
                        (next, &priced),
                        outer,
                        kept,
                    );
                }
            }
        }
        Ok(None)
    }

    /// Does a column of a table that is not placed equal this slot?
    fn is_useful(&self, ascending: Option<u32>, conds: &[Expr], placed: TableSet) -> bool {
        conds.iter().any(|c| {
            let slots = equated_slots(c);
            let has_it = slots.is_some_and(|(a, b)| ascending == Some(a) || ascending == Some(b));
            has_it && self.map.tables_of(c) & !placed != 0
        })
    }

    /// JoinEstimate after joining `next` to `order`; `None` when something must come before it.
    pub(super) fn try_next(
        &self,
        search: &Search<'_>,
        order: &[usize],
        estimate: &JoinEstimate,
        next: usize,
    ) -> SqlResult<Option<JoinEstimate>> {
        let group = search.group;
        let unit = &group.units[next];
        let placed = search.placed(order);
        let own = group.units.iter().fold(0, |s, u| s | u.tables);
        if unit.deps & own & !placed != 0 {
            return Ok(None);
        }
        let key = search.key(next, placed, estimate.order());
        let known = search.known.borrow().get(&key).copied();
        let opening = match known {
            Some(opening) => opening,
            None => {
                self.env.ctx.session.go_on(OPENING_BYTES)?;
                let ready = self.ready(group, search.conds, placed, next);
                let opening = self.opening(estimate.order(), unit, ready, placed, search.outer)?;
                search.known.borrow_mut().insert(key, opening);
                opening
            }
        };
        if order.is_empty()
            && let UnitKind::Table(_) = unit.kind
        {
            let mut estimate = opening.nested;
            estimate.rows = estimate.rows.max(1.0);
            return Ok(Some(estimate));
        }
        let step = self.price(estimate, unit, &opening);
        Ok(Some(JoinEstimate {
            rows: step.rows,
            cost: step.cost,
            ascending: estimate.ascending,
        }))
    }

    /// The conditions that can be evaluated with the next unit, when these tables are there.
    pub(super) fn ready(
        &self,
        group: &Group,
        conds: &[Expr],
        placed: TableSet,
        next: usize,
    ) -> Vec<Expr> {
        let unit = &group.units[next];
        let now = placed | unit.tables;
        let ready: Vec<Expr> = conds
            .iter()
            .filter(|c| {
                let read = self.map.tables_of(c);
                read & !now == 0 && read & unit.tables != 0
            })
            .cloned()
            .collect();
        group.equalities.enough(ready, unit.tables, &self.map)
    }
}

/// The tables of the units that are placed, and those around them.
pub(super) fn placed(group: &Group, order: &[usize], outer: TableSet) -> TableSet {
    order.iter().fold(outer, |s, u| s | group.units[*u].tables)
}
