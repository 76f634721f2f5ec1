//! Probe pipelines: a block's left-deep joins as a source and the stages its rows pass, and the point where they are
//! split.
//!
//! Neighbours: the strategy says with it where rows are split among threads; `exec::parallel` pushes rows through it.
//! **Invariant**: stages stand in the order in which rows pass them; what they do to rows in this order is what the
//! plan's operators do.

use super::super::{
    AccessKind, JoinMethod, JoinPlan, Node, ScanPlan, Source, rows_looked_at, tree_entries,
};
use super::parallel_safe::{self, is_parallel_safe};
use crate::expr::Expr;

/// Fewest rows that are shared out when they were read by the statement's thread: a few for each task.
const MIN_SPLIT_ROWS: f64 = 64.0;

/// A table, and what its rows pass.
pub struct ProbePipeline<'p> {
    /// The table that is read first.
    pub source: &'p ScanPlan,
    /// What its rows pass.
    pub stages: Vec<Stage<'p>>,
}

/// What rows pass.
#[derive(Clone, Copy)]
pub enum Stage<'p> {
    /// The conditions of a filter.
    Filter(&'p [Expr]),
    /// The probe side of a join.
    Join(&'p JoinPlan),
}

/// What the threads share among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitPoint {
    /// The table that is read first.
    Table,
    /// Rows that have passed so many stages: the statement's thread reads them before.
    Rows(usize),
}

impl<'p> ProbePipeline<'p> {
    /// The way of a node's rows; `None` if they do not come from a table.
    pub fn of(node: &'p Node) -> Option<Self> {
        let (mut node, mut stages) = (node, Vec::new());
        loop {
            node = match node {
                Node::Scan(source) => {
                    stages.reverse();
                    return Some(Self { source, stages });
                }
                Node::Filter(input, conds) => {
                    stages.push(Stage::Filter(conds));
                    input
                }
                Node::Join(join) => {
                    stages.push(Stage::Join(join));
                    &join.left
                }
                Node::Once | Node::Nothing(_) => return None,
            };
        }
    }

    /// Where to split the rows of `node`, whose pipeline this is, if that is possible and worth it.
    pub(super) fn split(&self, node: &Node, parallel_rows: f64) -> Option<SplitPoint> {
        let last_unfit = self.stages.iter().rposition(|s| !s.is_parallel_safe());
        let from = last_unfit.map_or(0, |n| n + 1);
        if from == 0 && self.reads_much(parallel_rows) {
            return Some(SplitPoint::Table);
        }
        if rows_looked_at(node) < parallel_rows {
            return None;
        }
        (from..self.stages.len())
            .find(|passed| self.rows_behind(*passed) >= MIN_SPLIT_ROWS)
            .map(SplitPoint::Rows)
    }

    /// Is the first table one to cut, and large enough?
    fn reads_much(&self, parallel_rows: f64) -> bool {
        let scan = self.source;
        let Source::Base { def, access, .. } = &scan.source else {
            return false;
        };
        let rows = match &access.kind {
            AccessKind::Full => tree_entries(&def.indexes[access.index].tree),
            AccessKind::Ranges(_) => scan.rows_in,
            AccessKind::Point(_)
            | AccessKind::Ref(_)
            | AccessKind::Match(_)
            | AccessKind::Elements(_)
            | AccessKind::Skip(_)
            | AccessKind::Union(_) => return false,
        };
        rows >= parallel_rows && is_plain(scan) && scan.conds.iter().all(is_parallel_safe)
    }

    /// Estimated rows that have passed all stages.
    pub fn rows(&self) -> f64 {
        self.rows_behind(self.stages.len())
    }

    /// Estimated rows that have passed so many stages.
    pub fn rows_behind(&self, passed: usize) -> f64 {
        let stages = self.stages[..passed].iter();
        let joined = stages.rev().find_map(|stage| match stage {
            Stage::Join(join) => Some(join.rows),
            Stage::Filter(_) => None,
        });
        joined.unwrap_or(self.source.rows_out)
    }

    /// The node whose rows have passed `stages` stages, below `node`.
    pub fn node_before(node: &Node, stages: usize, all: usize) -> &Node {
        let mut node = node;
        for _ in stages..all {
            node = match node {
                Node::Filter(input, _) => input,
                Node::Join(join) => &join.left,
                _ => unreachable!("there are as many stages"),
            };
        }
        node
    }

    /// Conditions and keys that tasks evaluate.
    pub fn exprs(&self, cut: SplitPoint) -> Vec<&'p Expr> {
        let (mut exprs, passed) = (Vec::new(), cut.passed());
        if cut == SplitPoint::Table {
            exprs.extend(&self.source.conds);
        }
        for stage in &self.stages[passed..] {
            match stage {
                Stage::Filter(conds) => exprs.extend(conds.iter()),
                Stage::Join(join) => {
                    exprs.extend(&join.on);
                    match &join.method {
                        JoinMethod::Nested => conds_below(&join.right, &mut exprs),
                        JoinMethod::Buffered => {}
                        JoinMethod::Hash { left, .. } => exprs.extend(left),
                    }
                }
            }
        }
        exprs
    }

    /// Do tasks look up single rows?
    pub fn looks_up(&self, cut: SplitPoint) -> bool {
        let nested = |stage: &Stage<'_>| matches!(stage, Stage::Join(join) if matches!(join.method, JoinMethod::Nested));
        let by_entries = match &self.source.source {
            Source::Base { access, .. } => access.index != 0 && !access.covering,
            _ => false,
        };
        (cut == SplitPoint::Table && by_entries) || self.stages[cut.passed()..].iter().any(nested)
    }
}

impl SplitPoint {
    /// Stages that the statement's thread does.
    pub fn passed(self) -> usize {
        match self {
            Self::Table => 0,
            Self::Rows(passed) => passed,
        }
    }
}

/// Conditions of a node's tables and joins.
fn conds_below<'p>(node: &'p Node, exprs: &mut Vec<&'p Expr>) {
    match node {
        Node::Once | Node::Nothing(_) => {}
        Node::Filter(input, conds) => {
            exprs.extend(conds);
            conds_below(input, exprs);
        }
        Node::Join(join) => {
            exprs.extend(&join.on);
            conds_below(&join.left, exprs);
            conds_below(&join.right, exprs);
        }
        Node::Scan(scan) => exprs.extend(&scan.conds),
    }
}

impl Stage<'_> {
    /// May any thread do its part?
    fn is_parallel_safe(&self) -> bool {
        match self {
            Self::Filter(conds) => conds.iter().all(is_parallel_safe),
            Self::Join(join) => {
                join.on.iter().all(is_parallel_safe)
                    && match &join.method {
                        JoinMethod::Nested => can_be_searched(&join.right),
                        JoinMethod::Buffered => true,
                        JoinMethod::Hash { left, .. } => left.iter().all(is_parallel_safe),
                    }
            }
        }
    }
}

/// May any thread open the node again for every row?
fn can_be_searched(node: &Node) -> bool {
    match node {
        Node::Once | Node::Nothing(_) => true,
        Node::Filter(input, conds) => conds.iter().all(is_parallel_safe) && can_be_searched(input),
        Node::Join(join) => {
            matches!(join.method, JoinMethod::Nested)
                && join.on.iter().all(is_parallel_safe)
                && can_be_searched(&join.left)
                && can_be_searched(&join.right)
        }
        Node::Scan(scan) => {
            parallel_safe::is_stored(scan)
                && is_plain(scan)
                && scan.conds.iter().all(is_parallel_safe)
        }
    }
}

/// Does the scan take no locks, and give nothing but columns?
fn is_plain(scan: &ScanPlan) -> bool {
    scan.lock.is_none()
        && !scan.first_only
        && scan.first_of.is_none()
        && !scan.lateral
        && scan.key_slot.is_none()
        && scan.row_slot.is_none()
}
