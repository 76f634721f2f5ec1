//! Join order and join methods.
//!
//! Neighbours: `block` hands over the join tree and WHERE, which `join_units` takes apart; `join_search` prices orders;
//! `join_scan` plans the reading of one table.
//! **Invariants**: an outer join's inner tables come after every table its ON may read; a condition
//! is evaluated exactly once, at the first operator that has its columns, and never inside an outer
//! join's inner side unless it belongs to its ON; with STRAIGHT_JOIN the written order stands.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use esker_types::SqlResult;

use super::access::{Ascending, CountedRanges, Path};
use super::conds::{SlotMap, TableSet};
use super::equalities::Equalities;
use super::implied_ranges::{ImpliedRanges, Placed};
use super::join_search::{JoinEstimate, Search, estimate_of};
use super::{HashBy, JoinMethod, JoinPlan, Node, QueryPlan};
use crate::bind::{BindEnv, Block, JoinType};
use crate::expr::rowkey;
use crate::expr::{CmpOp, Expr, ExprKind, fold};

/// Units ordered by trying every subset; more are the matter of `join_greedy`.
const MAX_EXHAUSTIVE: usize = 8;

/// What is ordered: tables, and outer joins as wholes.
pub(super) struct Unit {
    pub kind: UnitKind,
    /// Tables in it.
    pub tables: TableSet,
    /// Tables that must come before.
    pub deps: TableSet,
}

pub(super) enum UnitKind {
    Table(usize),
    /// An outer join's inner side, with its ON.
    Left {
        inner: Group,
        on: Vec<Expr>,
    },
}

/// Units joined by inner joins, and the conditions on them.
#[derive(Default)]
pub(super) struct Group {
    pub units: Vec<Unit>,
    pub conds: Vec<Expr>,
    /// What of them follows from what.
    pub equalities: Equalities,
}

/// Plans the joins of a block.
pub(super) struct Joiner<'a> {
    pub env: &'a BindEnv<'a>,
    pub block: &'a Block,
    pub map: SlotMap,
    /// Conjuncts of WHERE, and conditions of an enclosing block that were pushed down.
    pub filter: Vec<Expr>,
    /// Plans of derived tables, by table.
    pub derived: Vec<Option<Arc<QueryPlan>>>,
    /// A better path for a table, when the block wants an order from it.
    pub pinned: HashMap<usize, Path>,
    /// Every row is joined on its own, so that rows come in the order of the first table and reading may end early.
    pub row_by_row: bool,
    pub counted_ranges: CountedRanges,
    /// Ranges of columns that are equal to others.
    pub implied: RefCell<ImpliedRanges>,
}

/// A planned part of a join.
pub(super) struct Planned {
    pub node: Node,
    pub tables: TableSet,
    pub rows: f64,
    pub cost: f64,
    /// The slot by which its rows come in ascending order.
    pub ascending: Option<u32>,
}

impl Planned {
    /// One row without columns, in place of these tables.
    pub fn one_row(tables: TableSet) -> Self {
        Self {
            node: Node::Once,
            tables,
            rows: 1.0,
            cost: 0.0,
            ascending: None,
        }
    }
}

/// What a unit is read by in a join, and the conditions that stand with it.
struct RightSide {
    node: Node,
    kind: JoinType,
    /// Only rows that find none are wanted.
    is_anti: bool,
    /// Conditions of the join.
    on: Vec<Expr>,
    /// Conditions on its rows.
    after: Vec<Expr>,
}

/// How the next unit joins what is there.
pub(super) struct Step {
    pub rows: f64,
    pub cost: f64,
    pub method: Method,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Nested,
    Buffered,
    Hash,
}

impl Joiner<'_> {
    /// Plans everything; conditions that read no table stay at the top.
    pub fn plan(&self) -> SqlResult<Planned> {
        match self.top_group() {
            Some(group) => self.order(group, 0),
            None => Ok(Planned {
                node: Node::Nothing("Impossible WHERE"),
                tables: 0,
                rows: 0.0,
                cost: 0.0,
                ascending: None,
            }),
        }
    }

    /// The same with a table first, read by this path, and every row joined on its own; `None`: it may not be first.
    pub fn plan_led_by(&mut self, table: usize, path: Path) -> SqlResult<Option<Planned>> {
        let Some(mut group) = self.top_group() else {
            return Ok(None);
        };
        let leads = |unit: &Unit| matches!(unit.kind, UnitKind::Table(t) if t == table);
        if !group.units.iter().any(|unit| leads(unit) && unit.deps == 0) {
            return Ok(None);
        }
        for unit in group.units.iter_mut().filter(|unit| !leads(unit)) {
            unit.deps |= 1 << table;
        }
        self.row_by_row = true;
        self.pinned.insert(table, path);
        let planned = self.order(group, 0);
        self.pinned.remove(&table);
        self.row_by_row = false;
        planned.map(Some)
    }

    /// Orders the units of a group; `outer` are tables whose rows are there already.
    fn order(&self, mut group: Group, outer: TableSet) -> SqlResult<Planned> {
        let conds = std::mem::take(&mut group.conds);
        let order = match group.units.len() {
            1 => vec![0],
            n if n <= MAX_EXHAUSTIVE => {
                let search = Search::new(self, &group, &conds, outer);
                let order = self.exhaustive(&search, f64::INFINITY, usize::MAX)?;
                order.expect("dependencies never form a cycle")
            }
            _ => self.order_many(&group, &conds, outer)?,
        };
        self.trace_order(&group, &order);
        let late = self.late_conds(&group, &conds, &order, outer)?;
        let equalities = group.equalities;
        let mut units: Vec<Option<Unit>> = group.units.into_iter().map(Some).collect();
        let mut left: Vec<(Expr, usize)> = conds.into_iter().zip(late).collect();
        let mut planned: Option<Planned> = None;
        for (nth, at) in order.into_iter().enumerate() {
            let unit = units[at].take().expect("every unit comes once");
            let have = outer | planned.as_ref().map_or(0, |p| p.tables);
            let now = have | unit.tables;
            let (ready, rest): (Vec<_>, Vec<_>) = left
                .into_iter()
                .partition(|(c, from)| nth >= *from && self.map.tables_of(c) & !now == 0);
            left = rest;
            // What waited for this unit without reading it is decided when its row is there.
            let (own, waited): (Vec<_>, Vec<_>) = ready
                .into_iter()
                .partition(|(_, from)| *from == 0 || nth == 0);
            let own = own.into_iter().map(|(c, _)| c).collect();
            let own = equalities.enough(own, unit.tables, &self.map);
            let mut joined = match planned {
                None => self.first(unit, own, outer)?,
                Some(before) => self.join(before, unit, own, outer)?,
            };
            if !waited.is_empty() {
                let waited = waited.into_iter().map(|(c, _)| c).collect();
                joined.node = Node::Filter(Box::new(joined.node), waited);
            }
            planned = Some(joined);
        }
        let left: Vec<Expr> = left.into_iter().map(|(c, _)| c).collect();
        let mut planned = planned.expect("a group has units");
        if !left.is_empty() {
            planned.node = Node::Filter(Box::new(planned.node), left);
        }
        Ok(planned)
    }

    /// For each condition the first place in the order where it is worth evaluating: a correlated
    /// subquery costs more than a row, so it waits for the place with the fewest rows.
    fn late_conds(
        &self,
        group: &Group,
        conds: &[Expr],
        order: &[usize],
        outer: TableSet,
    ) -> SqlResult<Vec<usize>> {
        let costly: Vec<bool> = conds
            .iter()
            .map(|c| is_costly(c) && !self.is_key(c))
            .collect();
        if order.len() < 2 || !costly.contains(&true) {
            return Ok(vec![0; conds.len()]);
        }
        let cheap: Vec<Expr> = conds
            .iter()
            .zip(&costly)
            .filter(|(_, c)| !**c)
            .map(|(c, _)| c.clone())
            .collect();
        let mut estimate = JoinEstimate::START;
        let (mut rows, mut tables) = (Vec::with_capacity(order.len()), Vec::new());
        let mut have = outer;
        let search = Search::new(self, group, &cheap, outer);
        for (nth, unit) in order.iter().enumerate() {
            let placed = &order[..nth];
            if let Some(next) = self.try_next(&search, placed, &estimate, *unit)? {
                estimate = next;
            }
            have |= group.units[*unit].tables;
            rows.push(estimate.rows);
            tables.push(have);
        }
        let place = |(cond, costly): (&Expr, &bool)| {
            if !costly {
                return 0;
            }
            let read = self.map.tables_of(cond);
            let possible = (0..order.len()).filter(|n| read & !tables[*n] == 0);
            let fewest = possible.min_by(|a, b| rows[*a].total_cmp(&rows[*b]).then(a.cmp(b)));
            fewest.unwrap_or(0)
        };
        Ok(conds.iter().zip(&costly).map(place).collect())
    }

    /// Is it an equality that an index may find rows by?
    fn is_key(&self, cond: &Expr) -> bool {
        let ExprKind::Cmp(cmp) = &cond.kind else {
            return false;
        };
        let indexed = |e: &Expr| e.as_column().is_some_and(|s| self.distinct(s).is_some());
        cmp.op == CmpOp::Eq && (indexed(&cmp.left) || indexed(&cmp.right))
    }

    /// The first unit of a group.
    fn first(&self, unit: Unit, conds: Vec<Expr>, outer: TableSet) -> SqlResult<Planned> {
        match unit.kind {
            UnitKind::Table(t) => self.scan(t, conds, outer, None),
            UnitKind::Left { inner, on } => {
                // The preserved side is among the outer tables: join with one row.
                let once = Planned::one_row(0);
                let unit = Unit {
                    kind: UnitKind::Left { inner, on },
                    tables: unit.tables,
                    deps: unit.deps,
                };
                self.join(once, unit, conds, outer)
            }
        }
    }

    /// The conditions of a unit that is looked up, less the ranges that were added and are spare there.
    fn without_spare(&self, conds: Vec<Expr>, have: TableSet) -> Vec<Expr> {
        let implied = self.implied.borrow();
        let placed = self.placed_in(have);
        let is_needed = |c: &&Expr| !implied.is_spare(c, &conds, placed);
        conds.iter().filter(is_needed).cloned().collect()
    }

    pub(super) fn placed_in(&self, tables: TableSet) -> Placed<'_> {
        let map = &self.map;
        Placed { map, tables }
    }

    /// Joins a unit to what is there, in the cheapest way.
    fn join(
        &self,
        before: Planned,
        unit: Unit,
        conds: Vec<Expr>,
        outer: TableSet,
    ) -> SqlResult<Planned> {
        let have = before.tables | outer;
        let estimate = estimate_of(&before);
        let step = self.step(&estimate, &unit, conds.clone(), have, outer)?;
        let (unit_tables, tables) = (unit.tables, before.tables | unit.tables);
        let left_slots = self.slots_of(before.tables);
        let right_slots = self.slots_of(unit.tables);
        let right = self.right_side(unit, conds, (step.method, estimate.order()), have, outer)?;
        let (method, on) = match step.method {
            Method::Nested => (JoinMethod::Nested, right.on),
            Method::Buffered => (JoinMethod::Buffered, right.on),
            Method::Hash => self.hash_method(right.on, unit_tables),
        };
        let join = JoinPlan {
            left: before.node,
            right: Arc::new(right.node),
            kind: right.kind,
            is_anti: right.is_anti,
            on,
            method,
            build: None,
            rows: step.rows,
            left_slots,
            right_slots,
        };
        let mut node = Node::Join(Box::new(join));
        if !right.after.is_empty() {
            node = Node::Filter(Box::new(node), right.after);
        }
        Ok(Planned {
            node,
            tables,
            rows: step.rows,
            cost: step.cost,
            ascending: estimate.ascending,
        })
    }

    /// Plans what a unit is read by in a join, and says which conditions stand where.
    fn right_side(
        &self,
        unit: Unit,
        conds: Vec<Expr>,
        (method, order): (Method, Option<Ascending>),
        have: TableSet,
        outer: TableSet,
    ) -> SqlResult<RightSide> {
        let is_nested = method == Method::Nested;
        match unit.kind {
            UnitKind::Table(t) => {
                let (pushed, on) = match is_nested {
                    true => (self.without_spare(conds, have), Vec::new()),
                    false => self.own_conds(conds, unit.tables | outer),
                };
                let (seen, order) = match is_nested {
                    true => (have, order),
                    false => (0, None),
                };
                Ok(RightSide {
                    node: self.scan(t, pushed, seen, order)?.node,
                    kind: JoinType::Inner,
                    is_anti: false,
                    on,
                    after: Vec::new(),
                })
            }
            UnitKind::Left { mut inner, on } => {
                let wants_absent = |c: &Expr| self.wants_absent(c, &on, unit.tables);
                let is_anti = conds.iter().any(wants_absent);
                let seen = if is_nested { have } else { outer };
                // ON conditions that read only the inner side (and what it may see) go inside.
                let (inside, on): (Vec<Expr>, Vec<Expr>) = on.into_iter().partition(|c| {
                    let read = self.map.tables_of(c);
                    read & unit.tables != 0 && read & !(unit.tables | seen) == 0
                });
                inner.conds.extend(inside);
                Ok(RightSide {
                    node: self.order(inner, seen)?.node,
                    kind: JoinType::Left,
                    is_anti,
                    on,
                    after: conds,
                })
            }
        }
    }

    /// Splits conditions into those on `tables` alone and the others.
    fn own_conds(&self, conds: Vec<Expr>, tables: TableSet) -> (Vec<Expr>, Vec<Expr>) {
        conds
            .into_iter()
            .partition(|c| self.map.tables_of(c) & !tables == 0)
    }

    /// Takes equalities between the sides out of `on` as hash keys.
    fn hash_method(&self, on: Vec<Expr>, right: TableSet) -> (JoinMethod, Vec<Expr>) {
        let (mut left_keys, mut right_keys, mut by, mut rest) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for cond in on {
            match self.hash_pair(&cond, right) {
                Some((l, r, how)) => {
                    left_keys.push(l);
                    right_keys.push(r);
                    by.push(how);
                }
                None => rest.push(cond),
            }
        }
        if by.is_empty() {
            return (JoinMethod::Buffered, rest);
        }
        (
            JoinMethod::Hash {
                left: left_keys,
                right: right_keys,
                by,
            },
            rest,
        )
    }

    /// `left = right` with each side on its own operand of the join.
    pub(super) fn hash_pair(&self, cond: &Expr, right: TableSet) -> Option<(Expr, Expr, HashBy)> {
        let ExprKind::Cmp(cmp) = &cond.kind else {
            return None;
        };
        if !matches!(cmp.op, CmpOp::Eq | CmpOp::NullSafeEq)
            || !rowkey::same_representation(&cmp.left.ty, &cmp.right.ty, cmp.kind)
        {
            return None;
        }
        let how = HashBy {
            kind: cmp.kind,
            null_safe: cmp.op == CmpOp::NullSafeEq,
        };
        let (l, r) = (
            self.map.tables_of(&cmp.left),
            self.map.tables_of(&cmp.right),
        );
        if l & right == 0 && r & right != 0 && r & !right == 0 {
            Some((cmp.left.clone(), cmp.right.clone(), how))
        } else if r & right == 0 && l & right != 0 && l & !right == 0 {
            Some((cmp.right.clone(), cmp.left.clone(), how))
        } else {
            None
        }
    }

    /// Slots that the tables fill.
    fn slots_of(&self, tables: TableSet) -> Vec<u32> {
        let tables = self
            .block
            .tables
            .iter()
            .enumerate()
            .filter(|(t, _)| tables >> t & 1 == 1);
        tables.flat_map(|(_, t)| t.used_slots()).collect()
    }

    /// Can the expression be evaluated before the table is read?
    pub fn is_known(&self, e: &Expr, seen: TableSet) -> bool {
        self.map.tables_of(e) & !seen == 0
            && !e.any(&mut |e| match &e.kind {
                ExprKind::Func(call) => fold::is_volatile(call.def),
                ExprKind::Assign(..) => true,
                ExprKind::Stored(call) => call.is_volatile(),
                // Rows of this very statement may change it.
                ExprKind::UserVar(_) => self.env.assigns(),
                _ => false,
            })
    }
}

/// Does evaluating it run a query?
fn is_costly(e: &Expr) -> bool {
    e.any(&mut |e| matches!(&e.kind, ExprKind::Subquery(q) if q.correlated))
}
