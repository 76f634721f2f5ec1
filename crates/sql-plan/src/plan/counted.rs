//! What status variables of MySQL count when a plan is run: `Select_scan` and its kin, sorts, temporary tables.
//!
//! Neighbours: the session adds them up where it runs a query; `explain` shows the same of each table.
//! **Invariant**: every table of a block is counted once, as the first one or as one that is joined; points and
//! look-ups of equal keys are not counted, as in MySQL.

use std::collections::HashSet;

use super::{AccessKind, BlockPlan, GroupPlan, Node, QueryPlan, Root, Source};
use crate::expr::ExprKind;

/// How many there are in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// First tables of which everything is read.
    pub select_scan: u64,
    /// First tables of which ranges are read.
    pub select_range: u64,
    /// Joined tables of which everything is read.
    pub select_full_join: u64,
    /// Joined tables of which ranges are read.
    pub select_full_range_join: u64,
    /// Sorts of what is read as a whole.
    pub sort_scan: u64,
    /// Sorts of what ranges give.
    pub sort_range: u64,
    /// Results that are kept: groups, distinct rows, windows, derived tables, set operations.
    pub created_tmp_tables: u64,
}

impl Counted {
    /// Of a plan, with those of its subqueries.
    pub fn of(plan: &QueryPlan) -> Self {
        let mut counting = Counting::default();
        counting.add_query(plan);
        counting.counted
    }
}

/// A walk through a plan.
#[derive(Default)]
struct Counting {
    counted: Counted,
    /// Results that several places read: they are made once.
    shared: HashSet<u32>,
}

impl Counting {
    fn add_query(&mut self, plan: &QueryPlan) {
        match &plan.root {
            Root::Block(block) => self.add_block(block),
            Root::SetOps(ops) => {
                self.add_query(&ops.first);
                ops.steps
                    .iter()
                    .for_each(|(_, _, query)| self.add_query(query));
                let is_kept = !ops.order.is_empty() || ops.steps.iter().any(|(_, all, _)| !all);
                self.counted.created_tmp_tables += u64::from(is_kept);
                self.counted.sort_scan += u64::from(!ops.order.is_empty());
            }
            Root::Recursive(recursive) => {
                self.counted.created_tmp_tables += 1;
                self.add_query(&recursive.seed);
                recursive
                    .members
                    .iter()
                    .for_each(|member| self.add_query(member));
            }
            Root::Values(values) => self.counted.sort_scan += u64::from(!values.order.is_empty()),
        }
    }

    fn add_block(&mut self, block: &BlockPlan) {
        let ranges_before = self.counted.select_range;
        self.add_tables(&block.source, true);
        let windows = block.windows.iter().flat_map(|windows| &windows.sorts);
        let sorted_windows = windows.filter(|sort| !sort.keys.is_empty()).count() as u64;
        let sorts = sorted_windows + u64::from(!block.order.is_empty());
        match self.counted.select_range > ranges_before {
            true => self.counted.sort_range += sorts,
            false => self.counted.sort_scan += sorts,
        }
        let is_kept = |group: &GroupPlan| !group.implicit && !group.is_streaming;
        let kept = [
            block.windows.is_some(),
            block.group.as_ref().is_some_and(is_kept),
            block.distinct,
        ];
        self.counted.created_tmp_tables += kept.into_iter().map(u64::from).sum::<u64>();
        block.each_expr(&mut |expr| {
            expr.visit(&mut |e| {
                if let ExprKind::Subquery(subquery) = &e.kind {
                    self.add_query(&subquery.plan);
                }
            });
        });
    }

    /// Adds the tables of a tree of joins; `is_first`: nothing is joined with its first one.
    fn add_tables(&mut self, node: &Node, is_first: bool) {
        match node {
            Node::Once | Node::Nothing(_) => {}
            Node::Filter(input, _) => self.add_tables(input, is_first),
            Node::Join(join) => {
                self.add_tables(&join.left, is_first);
                self.add_tables(&join.right, false);
            }
            Node::Scan(scan) => self.add_table(&scan.source, is_first),
        }
    }

    fn add_kept(&mut self, plan: &QueryPlan) {
        self.counted.created_tmp_tables += 1;
        self.add_query(plan);
    }

    fn add_table(&mut self, source: &Source, is_first: bool) {
        match source {
            Source::Derived(plan) => self.add_kept(plan),
            Source::Shared(id, plan) if self.shared.insert(*id) => self.add_kept(plan),
            _ => {}
        }
        let is_range = match source {
            Source::Base { access, .. } => match access.kind {
                AccessKind::Point(_) | AccessKind::Ref(_) => return,
                AccessKind::Match(_) | AccessKind::Elements(_) => return,
                AccessKind::Ranges(_) | AccessKind::Skip(_) | AccessKind::Union(_) => true,
                AccessKind::Full => false,
            },
            _ => false,
        };
        let count = match (is_range, is_first) {
            (false, true) => &mut self.counted.select_scan,
            (false, false) => &mut self.counted.select_full_join,
            (true, true) => &mut self.counted.select_range,
            (true, false) => &mut self.counted.select_full_range_join,
        };
        *count += 1;
    }
}
