//! From the join tree of a block to the units that are ordered: tables, and outer joins as wholes.
//!
//! Neighbours: `join_order` orders the units; `conds`, `known_columns`, `equalities` and `implied_ranges` say what
//! follows from their conditions.
//! **Invariant**: an outer join becomes an inner one only where a condition throws its null-complemented rows away.

use super::conds::{TableSet, implied, rejects_null, split};
use super::equalities::Equalities;
use super::implied_ranges::ImpliedRanges;
use super::join_order::{Group, Joiner, Unit, UnitKind};
use super::known_columns;
use crate::bind::{JoinNode, JoinType};
use crate::expr::{Expr, fold};

impl Joiner<'_> {
    /// What is to be ordered; `None` if a condition is never true.
    pub(super) fn top_group(&self) -> Option<Group> {
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
        known_columns::propagate(&mut group, &self.map);
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
}
