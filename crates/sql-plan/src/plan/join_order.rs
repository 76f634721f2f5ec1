//! Join order and join methods.
//!
//! Neighbours: `block` hands over the join tree and WHERE; `access` prices one table.
//! **Invariants**: an outer join's inner tables come after every table its ON may read; a condition
//! is evaluated exactly once, at the first operator that has its columns, and never inside an outer
//! join's inner side unless it belongs to its ON; with STRAIGHT_JOIN the written order stands.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use esker_types::SqlResult;

use super::access::{Ascending, CountedRanges, Path, Target};
use super::block::is_shared;
use super::conds::{SlotMap, TableSet, cheap_first, implied, rejects_null, split};
use super::equalities::Equalities;
use super::implied_ranges::{ImpliedRanges, Placed};
use super::join_search::{JoinEstimate, Search, estimate_of};
use super::{HashBy, JoinMethod, JoinPlan, Node, QueryPlan, ScanPlan, Source};
use crate::bind::virt::Pushed;
use crate::bind::{BindEnv, Block, JoinNode, JoinType, TableKind};
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

    /// The same with a table first and every row joined on its own; `None`: it may not be first.
    pub fn plan_led_by(&mut self, table: usize) -> SqlResult<Option<Planned>> {
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
        let planned = self.order(group, 0);
        self.row_by_row = false;
        planned.map(Some)
    }

    /// What is to be ordered; `None` if a condition is never true.
    fn top_group(&self) -> Option<Group> {
        let mut group = Group::default();
        let join = self.block.join.as_ref().expect("a block with tables");
        self.flatten(join, 0, &mut group);
        group.conds.extend(self.filter.iter().cloned());
        for cond in &group.conds {
            if fold::constant_boolean(cond) == Some(false) {
                return None;
            }
        }
        group
            .conds
            .retain(|c| fold::constant_boolean(c) != Some(true));
        self.simplify(&mut group);
        let further: Vec<Expr> = group
            .conds
            .iter()
            .flat_map(|c| implied(c, &self.map))
            .collect();
        group.conds.extend(further);
        group.equalities = Equalities::complete(&mut group.conds);
        if group.units.len() > 1 {
            let ranges = ImpliedRanges::complete(&mut group.conds);
            self.implied.replace(ranges);
        }
        self.obey_hints(&mut group);
        self.trace_tables(&group);
        Some(group)
    }

    fn all_tables(&self, node: &JoinNode) -> TableSet {
        match node {
            JoinNode::Table(t) => 1 << t,
            JoinNode::Join { left, right, .. } => self.all_tables(left) | self.all_tables(right),
        }
    }

    /// `unseen`: tables that come later than `node` wherever they stand in the text, the inner sides of the outer joins
    /// around it.
    fn flatten(&self, node: &JoinNode, unseen: TableSet, group: &mut Group) {
        match node {
            JoinNode::Table(t) => {
                let before = match self.block.tables[*t].lateral {
                    // A lateral table needs what it reads; conservatively everything before it.
                    true => (1u64 << t) - 1,
                    false => 0,
                };
                let deps = before & self.map_all() & !unseen;
                group.units.push(Unit {
                    kind: UnitKind::Table(*t),
                    tables: 1 << t,
                    deps,
                });
            }
            JoinNode::Join {
                left,
                right,
                kind: JoinType::Left,
                on,
            } => {
                self.flatten(left, unseen | self.all_tables(right), group);
                let mut inner = Group::default();
                self.flatten(right, unseen, &mut inner);
                let mut conds = Vec::new();
                if let Some(on) = on {
                    split(on, &mut conds);
                }
                let (tables, deps) = (self.all_tables(right), self.all_tables(left));
                group.units.push(Unit {
                    kind: UnitKind::Left { inner, on: conds },
                    tables,
                    deps,
                });
            }
            JoinNode::Join {
                left,
                right,
                kind,
                on,
            } => {
                let first = group.units.len();
                self.flatten(left, unseen, group);
                let middle = group.units.len();
                self.flatten(right, unseen, group);
                if let Some(on) = on {
                    split(on, &mut group.conds);
                }
                if *kind == JoinType::Straight || self.block.straight_join {
                    let before = group.units[first..middle]
                        .iter()
                        .fold(0, |s, u| s | u.tables);
                    for unit in &mut group.units[middle..] {
                        unit.deps |= before;
                    }
                }
            }
        }
    }

    fn map_all(&self) -> TableSet {
        let n = self.block.tables.len();
        if n >= 64 { u64::MAX } else { (1 << n) - 1 }
    }

    /// Outer joins whose null-complemented rows a condition throws away become inner joins.
    fn simplify(&self, group: &mut Group) {
        loop {
            let found = group.units.iter().position(|u| {
                matches!(u.kind, UnitKind::Left { .. })
                    && group
                        .conds
                        .iter()
                        .any(|c| rejects_null(c, &self.map, u.tables))
            });
            let Some(at) = found else { break };
            let unit = group.units.remove(at);
            if let UnitKind::Left { inner, on } = unit.kind {
                group.conds.extend(on);
                group.conds.extend(inner.conds);
                for mut inner_unit in inner.units {
                    // Under STRAIGHT_JOIN the written order of an outer join stands too.
                    if self.block.straight_join {
                        inner_unit.deps |= unit.deps;
                    }
                    group.units.push(inner_unit);
                }
            }
        }
        for unit in &mut group.units {
            if let UnitKind::Left { inner, on } = &mut unit.kind {
                // ON decides for the inner side what WHERE decides for the whole.
                let own = inner.conds.len();
                inner.conds.extend(on.iter().cloned());
                self.simplify(inner);
                let known: Vec<Expr> = std::mem::take(on);
                let mut rest = Vec::new();
                for (nth, cond) in inner.conds.drain(..).enumerate() {
                    if nth < own {
                        rest.push(cond)
                    } else {
                        on.push(cond)
                    }
                }
                debug_assert!(on.len() >= known.len());
                inner.conds = rest;
            }
        }
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
                let once = Planned {
                    node: Node::Once,
                    tables: 0,
                    rows: 1.0,
                    cost: 0.0,
                    ascending: None,
                };
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
        let tables = before.tables | unit.tables;
        let left_slots = self.slots_of(before.tables);
        let right_slots = self.slots_of(unit.tables);
        let is_anti = match &unit.kind {
            UnitKind::Table(_) => false,
            UnitKind::Left { on, .. } => {
                conds.iter().any(|c| self.wants_absent(c, on, unit.tables))
            }
        };
        let (kind, right, on, after) = match unit.kind {
            UnitKind::Table(t) => {
                let (pushed, on) = match step.method {
                    Method::Nested => (self.without_spare(conds, have), Vec::new()),
                    _ => self.own_conds(conds, unit.tables | outer),
                };
                let (seen, order) = match step.method {
                    Method::Nested => (have, estimate.order()),
                    _ => (0, None),
                };
                (
                    JoinType::Inner,
                    self.scan(t, pushed, seen, order)?,
                    on,
                    Vec::new(),
                )
            }
            UnitKind::Left { mut inner, on } => {
                let seen = if step.method == Method::Nested {
                    have
                } else {
                    outer
                };
                // ON conditions that read only the inner side (and what it may see) go inside.
                let (inside, on): (Vec<Expr>, Vec<Expr>) = on.into_iter().partition(|c| {
                    let read = self.map.tables_of(c);
                    read & unit.tables != 0 && read & !(unit.tables | seen) == 0
                });
                inner.conds.extend(inside);
                (JoinType::Left, self.order(inner, seen)?, on, conds)
            }
        };
        let (method, on) = match step.method {
            Method::Nested => (JoinMethod::Nested, on),
            Method::Buffered => (JoinMethod::Buffered, on),
            Method::Hash => self.hash_method(on, unit.tables),
        };
        let join = JoinPlan {
            left: before.node,
            right: Arc::new(right.node),
            kind,
            is_anti,
            on,
            method,
            build: None,
            rows: step.rows,
            left_slots,
            right_slots,
        };
        let mut node = Node::Join(Box::new(join));
        if !after.is_empty() {
            node = Node::Filter(Box::new(node), after);
        }
        Ok(Planned {
            node,
            tables,
            rows: step.rows,
            cost: step.cost,
            ascending: estimate.ascending,
        })
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

    /// Plans the reading of one table.
    fn scan(
        &self,
        t: usize,
        conds: Vec<Expr>,
        seen: TableSet,
        order: Option<Ascending>,
    ) -> SqlResult<Planned> {
        let table = &self.block.tables[t];
        let lock = self.block.locks[t];
        let estimate = self.table_estimate(t, &conds, seen, order);
        let mut rows_in = estimate.rows;
        let source = match &table.kind {
            TableKind::Base(def) => {
                let target = Target::new(self.block, t, def).after(order);
                let target = target.remembering(t, &self.counted_ranges);
                let known = |e: &Expr| self.is_known(e, seen);
                let candidates = target
                    .paths(self.env, &conds, &known)
                    .into_iter()
                    .filter(|p| !matches!(p.access.kind, super::AccessKind::Full))
                    .flat_map(|p| p.access.indexes())
                    .collect();
                let path = self.best_path(t, &target, &conds, seen);
                rows_in = path.rows;
                Source::Base {
                    def: def.clone(),
                    access: path.access,
                    candidates,
                }
            }
            TableKind::Virtual(table) => Source::Virtual {
                table: table.clone(),
                pushed: self.pushed(t, &conds),
            },
            TableKind::Derived(query) => {
                let plan = self.derived[t].clone().expect("planned before the joins");
                match is_shared(query) {
                    Some(id) => Source::Shared(id, plan),
                    None => Source::Derived(plan),
                }
            }
            TableKind::Json(table) => Source::Json(table.clone()),
            TableKind::Recursive(table) => Source::Work(table.id),
            TableKind::Row => {
                return Ok(Planned {
                    node: Node::Once,
                    tables: 1 << t,
                    rows: 1.0,
                    cost: 0.0,
                    ascending: None,
                });
            }
        };
        let mut conds = conds;
        cheap_first(&mut conds);
        let (columns, cond_ends) = self.columns_of(t, &conds);
        let scan = ScanPlan {
            alias: table.alias.clone(),
            source,
            conds,
            columns,
            cond_columns: cond_ends.last().copied().unwrap_or(0),
            cond_ends,
            key_slot: table.key_slot,
            row_slot: table.row_slot,
            lateral: table.lateral,
            first_only: false,
            first_of: None,
            lock,
            rows_in,
            rows_out: estimate.rows.min(rows_in),
        };
        let node = Node::Scan(Box::new(scan));
        Ok(Planned {
            node,
            tables: 1 << t,
            rows: estimate.rows,
            cost: estimate.cost,
            ascending: estimate.ascending,
        })
    }

    /// Columns to decode, those that conditions read first, and how many of them each condition needs.
    fn columns_of(&self, t: usize, conds: &[Expr]) -> (Vec<(usize, u32)>, Vec<usize>) {
        let slots = self.block.tables[t].slots.borrow();
        let used = slots.iter().enumerate();
        let mut rest: Vec<(usize, u32)> = used.filter_map(|(col, s)| Some((col, (*s)?))).collect();
        let (mut columns, mut cond_ends) = (Vec::with_capacity(rest.len()), Vec::new());
        for cond in conds {
            let mut wanted = std::collections::HashSet::new();
            cond.slots(&mut |slot| {
                wanted.insert(slot);
            });
            let (own, others): (Vec<_>, Vec<_>) =
                rest.into_iter().partition(|(_, s)| wanted.contains(s));
            columns.extend(own);
            cond_ends.push(columns.len());
            rest = others;
        }
        columns.extend(rest);
        (columns, cond_ends)
    }

    /// Conditions `column = text` of a computed table.
    fn pushed(&self, t: usize, conds: &[Expr]) -> Vec<Pushed> {
        let slots = self.block.tables[t].slots.borrow();
        let column = |e: &Expr| {
            let slot = e.as_column()?;
            slots.iter().position(|s| *s == Some(slot))
        };
        let mut pushed = Vec::new();
        for cond in conds {
            let ExprKind::Cmp(cmp) = &cond.kind else {
                continue;
            };
            if cmp.op != CmpOp::Eq {
                continue;
            }
            for (arg, value) in [(&cmp.left, &cmp.right), (&cmp.right, &cmp.left)] {
                let text = match (&value.kind, self.env.describe_only) {
                    (ExprKind::Const(v), _) => Some(v.clone()),
                    (_, false) if value.is_row_independent() && !has_subquery(value) => {
                        value.eval(&[], &self.env.fold_env()).ok()
                    }
                    _ => None,
                };
                if let (Some(column), Some(esker_types::Value::Str(text))) = (column(arg), text) {
                    pushed.push(Pushed {
                        column,
                        value: text,
                    });
                }
            }
        }
        pushed
    }
}

/// Does evaluating it run a query?
fn is_costly(e: &Expr) -> bool {
    e.any(&mut |e| matches!(&e.kind, ExprKind::Subquery(q) if q.correlated))
}

fn has_subquery(e: &Expr) -> bool {
    e.any(&mut |e| matches!(e.kind, ExprKind::Subquery(_) | ExprKind::Outer { .. }))
}
