//! Prices of joins, and the search for the cheapest order.
//!
//! Neighbours: `join_order` carries out what is found here; `access` prices tables.
//! **Invariants**: an order found respects every unit's dependencies; prices are finite except for what
//! must not be done.

use esker_types::{SqlResult, SqlType};

use super::access::{Ascending, Path, Target};
use super::conds::TableSet;
use super::join_order::{Group, Joiner, Method, Planned, Step, Unit, UnitKind};
use super::stats;
use crate::bind::{TableKind, equated_slots};
use crate::expr::Expr;

/// Cost of putting a row into a hash table, of probing it, of looking at a buffered row.
const BUILD: f64 = 1.5;
const PROBE: f64 = 0.6;
const LOOK: f64 = 0.2;

/// What reading a table costs more that no row before says anything of: one thread reads it, and only the rest is shared out.
const ALONE: f64 = 2.0;

/// Fewest rows that an estimate says.
const LEAST_ROWS: f64 = 0.01;

/// Rows and cost of a part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub rows: f64,
    pub cost: f64,
    /// The slot by which the rows come in ascending order.
    pub ascending: Option<u32>,
}

impl Facts {
    /// No table yet.
    pub const START: Self = Self {
        rows: 1.0,
        cost: 0.0,
        ascending: None,
    };

    /// What it means for keys that are looked up for each row.
    pub fn order(&self) -> Option<Ascending> {
        let rows = self.rows;
        self.ascending.map(|slot| Ascending { slot, rows })
    }
}

/// An order of some units, as far as it was found.
#[derive(Clone)]
struct Candidate {
    facts: Facts,
    order: Vec<usize>,
    /// The order of its rows is one for a later table.
    is_useful: bool,
}

impl Candidate {
    /// Is the other one at least as good?
    fn yields_to(&self, other: &Self) -> bool {
        other.facts.cost <= self.facts.cost && (other.is_useful || !self.is_useful)
    }

    /// Takes its place among the best orders of the same units, unless others are better.
    fn compete(self, best: &mut Vec<Self>) {
        if !best.iter().any(|other| self.yields_to(other)) {
            best.retain(|other| !other.yields_to(&self));
            best.push(self);
        }
    }
}

pub(super) fn before_facts(p: &Planned) -> Facts {
    Facts {
        rows: p.rows,
        cost: p.cost,
        ascending: p.ascending,
    }
}

impl Joiner<'_> {
    /// Prices joining a unit to `before`.
    pub(super) fn step(
        &self,
        before: &Facts,
        unit: &Unit,
        conds: &[Expr],
        have: TableSet,
        outer: TableSet,
    ) -> SqlResult<Step> {
        let (all, outer_join) = match &unit.kind {
            UnitKind::Table(_) => (conds.to_vec(), false),
            UnitKind::Left { on, inner } => (
                on.iter().chain(&inner.conds).cloned().collect::<Vec<_>>(),
                true,
            ),
        };
        let nested = self.unit_facts(unit, &all, have, before.order())?;
        let alone = self.unit_facts(unit, &all, outer, None)?;
        let is_tied = all.iter().any(|c| {
            let read = self.map.tables_of(c);
            read & unit.tables != 0 && read & have != 0
        });
        // What nothing connects takes no rows away: it has one at least, or nothing comes of the whole.
        let least = if is_tied { 0.0 } else { 1.0 };
        let mut rows = before.rows * nested.rows.max(least);
        if outer_join {
            rows = rows.max(before.rows);
        }
        let hashable = all.iter().any(|c| self.hash_pair(c, unit.tables).is_some());
        let lateral = match unit.kind {
            UnitKind::Table(t) => self.block.tables[t].lateral,
            UnitKind::Left { .. } => unit.tables.count_ones() > 0 && self.has_lateral(unit.tables),
        };
        let locked = self.has_lock(unit.tables);
        let opened = if is_tied { 1.0 } else { ALONE };
        let mut best = Step {
            rows,
            cost: before.cost + before.rows * nested.cost * opened,
            method: Method::Nested,
        };
        // Rows read once into memory would be locked although they match nothing.
        if lateral || locked {
            return Ok(best);
        }
        // What is computed is computed once.
        let computed = match unit.kind {
            UnitKind::Table(t) => self.block.tables[t].base_def().is_none(),
            UnitKind::Left { .. } => false,
        };
        if computed {
            best.cost = f64::INFINITY;
        }
        let once = before.cost + alone.cost + alone.rows * BUILD;
        if hashable {
            let cost = once + before.rows * PROBE + rows * LOOK;
            if cost < best.cost {
                best = Step {
                    rows,
                    cost,
                    method: Method::Hash,
                };
            }
        } else {
            let cost = once + before.rows * alone.rows * LOOK;
            if cost < best.cost && (computed || before.rows > 1.0) {
                best = Step {
                    rows,
                    cost,
                    method: Method::Buffered,
                };
            }
        }
        Ok(best)
    }

    fn has_lateral(&self, tables: TableSet) -> bool {
        self.block
            .tables
            .iter()
            .enumerate()
            .any(|(t, s)| tables >> t & 1 == 1 && s.lateral)
    }

    fn has_lock(&self, tables: TableSet) -> bool {
        self.block
            .locks
            .iter()
            .enumerate()
            .any(|(t, l)| tables >> t & 1 == 1 && l.is_some())
    }

    /// Rows and cost of one opening of a unit, given the tables that are there.
    fn unit_facts(
        &self,
        unit: &Unit,
        conds: &[Expr],
        seen: TableSet,
        order: Option<Ascending>,
    ) -> SqlResult<Facts> {
        match &unit.kind {
            UnitKind::Table(t) => {
                let own: Vec<Expr> = conds
                    .iter()
                    .filter(|c| self.map.tables_of(c) & !(unit.tables | seen) == 0)
                    .cloned()
                    .collect();
                Ok(self.table_facts(*t, &own, seen, order))
            }
            UnitKind::Left { inner, .. } => {
                let mut total = Facts::START;
                let mut have = seen;
                for inner_unit in &inner.units {
                    let facts = self.unit_facts(inner_unit, conds, have, order)?;
                    total.cost += total.rows * facts.cost;
                    total.rows *= facts.rows;
                    have |= inner_unit.tables;
                }
                Ok(total)
            }
        }
    }

    pub(super) fn table_facts(
        &self,
        t: usize,
        conds: &[Expr],
        seen: TableSet,
        order: Option<Ascending>,
    ) -> Facts {
        let table = &self.block.tables[t];
        let chosen: f64 = conds.iter().map(stats::selectivity).product();
        match &table.kind {
            TableKind::Base(def) => {
                let target = Target::new(self.block, t, def).after(order);
                let path = self.best_path(t, &target, conds, seen);
                let known = |e: &Expr| self.is_known(e, seen);
                let kept = target.kept(self.env, conds, &known, &|c| self.selectivity(c));
                Facts {
                    rows: (target.rows * kept).max(LEAST_ROWS),
                    cost: path.cost,
                    ascending: target.ascending(&path),
                }
            }
            TableKind::Virtual(_) => Facts {
                rows: stats::VIRTUAL_ROWS * chosen,
                cost: stats::VIRTUAL_ROWS,
                ascending: None,
            },
            TableKind::Derived(_) => {
                let plan = self.derived[t].as_ref();
                let (rows, cost) = plan.map_or((1.0, 1.0), |p| (p.rows, p.cost_rows));
                let rows = rows.max(1.0);
                Facts {
                    rows: rows * chosen,
                    cost: cost.max(rows) * 2.0,
                    ascending: None,
                }
            }
            TableKind::Recursive(_) => Facts {
                rows: stats::WORK_ROWS * chosen,
                cost: stats::WORK_ROWS,
                ascending: None,
            },
            TableKind::Row => Facts::START,
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
    fn distinct_values(&self, slot: u32) -> Option<f64> {
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

    pub(super) fn best_path(
        &self,
        t: usize,
        target: &Target<'_>,
        conds: &[Expr],
        seen: TableSet,
    ) -> Path {
        if let Some(path) = self.pinned.get(&t) {
            return path.clone();
        }
        let known = |e: &Expr| self.is_known(e, seen);
        target.best(self.env, conds, &known)
    }

    /// Tries every order of the units, by subsets. Of each the cheapest order is gone on with, and the cheapest whose rows come in an order
    /// that makes lookups in a later table cheap.
    pub(super) fn exhaustive(
        &self,
        group: &Group,
        conds: &[Expr],
        outer: TableSet,
    ) -> SqlResult<Vec<usize>> {
        let n = group.units.len();
        let mut best: Vec<Vec<Candidate>> = vec![Vec::new(); 1 << n];
        best[0].push(Candidate {
            facts: Facts::START,
            order: Vec::new(),
            is_useful: false,
        });
        for subset in 0..1usize << n {
            for before in std::mem::take(&mut best[subset]) {
                for next in (0..n).filter(|u| subset >> u & 1 == 0) {
                    let Candidate { facts, order, .. } = &before;
                    let Some(facts) = self.try_next(group, conds, order, facts, next, outer)?
                    else {
                        continue;
                    };
                    let mut order = order.clone();
                    order.push(next);
                    let placed = order.iter().fold(outer, |s, u| s | group.units[*u].tables);
                    let is_useful = self.is_useful(facts.ascending, conds, placed);
                    let new = Candidate {
                        facts,
                        order,
                        is_useful,
                    };
                    new.compete(&mut best[subset | 1 << next]);
                }
                if subset + 1 == 1 << n {
                    return Ok(before.order);
                }
            }
        }
        unreachable!("dependencies never form a cycle")
    }

    /// Does a column of a table that is not placed equal this slot?
    fn is_useful(&self, ascending: Option<u32>, conds: &[Expr], placed: TableSet) -> bool {
        conds.iter().any(|c| {
            let slots = equated_slots(c);
            let has_it = slots.is_some_and(|(a, b)| ascending == Some(a) || ascending == Some(b));
            has_it && self.map.tables_of(c) & !placed != 0
        })
    }

    /// Always takes the unit that costs least next.
    pub(super) fn greedy(
        &self,
        group: &Group,
        conds: &[Expr],
        outer: TableSet,
    ) -> SqlResult<Vec<usize>> {
        let n = group.units.len();
        let (mut order, mut facts) = (Vec::new(), Facts::START);
        while order.len() < n {
            let mut best: Option<(usize, Facts)> = None;
            for next in (0..n).filter(|u| !order.contains(u)) {
                let Some(step) = self.try_next(group, conds, &order, &facts, next, outer)? else {
                    continue;
                };
                let weight = |f: &Facts| f.cost + f.rows;
                if best.as_ref().is_none_or(|(_, b)| weight(&step) < weight(b)) {
                    best = Some((next, step));
                }
            }
            let (next, step) = best.expect("dependencies never form a cycle");
            order.push(next);
            facts = step;
        }
        Ok(order)
    }

    /// Facts after joining `next` to `order`; `None` when something must come before it.
    pub(super) fn try_next(
        &self,
        group: &Group,
        conds: &[Expr],
        order: &[usize],
        facts: &Facts,
        next: usize,
        outer: TableSet,
    ) -> SqlResult<Option<Facts>> {
        let unit = &group.units[next];
        let placed = order.iter().fold(outer, |s, u| s | group.units[*u].tables);
        let own = group.units.iter().fold(0, |s, u| s | u.tables);
        if unit.deps & own & !placed != 0 {
            return Ok(None);
        }
        let now = placed | unit.tables;
        let ready: Vec<Expr> = conds
            .iter()
            .filter(|c| {
                let read = self.map.tables_of(c);
                read & !now == 0 && read & unit.tables != 0
            })
            .cloned()
            .collect();
        let ready = group.equalities.enough(ready, unit.tables, &self.map);
        if order.is_empty()
            && let UnitKind::Table(_) = unit.kind
        {
            let mut facts = self.unit_facts(unit, &ready, placed, None)?;
            facts.rows = facts.rows.max(1.0);
            return Ok(Some(facts));
        }
        let step = self.step(facts, unit, &ready, placed, outer)?;
        Ok(Some(Facts {
            rows: step.rows,
            cost: step.cost,
            ascending: facts.ascending,
        }))
    }
}
