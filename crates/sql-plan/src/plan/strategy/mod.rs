//! The strategy of a block: whether its rows are read by the statement's own thread, in tasks for several threads, or
//! only counted, and how tasks evaluate and aggregate them.
//!
//! In flow order: `probe` (a block's left-deep joins as a pipeline, and where its rows are split), `parallel_safe`
//! (what any thread may evaluate), `vectorize` (what is evaluated column by column). Neighbours: `block` decides last
//! of all; `exec::parallel` does what was decided, `explain` shows it. **Invariant**: the strategy follows from the
//! plan, its estimates and the session's threshold alone. What turns up only while the statement runs (its own writes,
//! too little memory) makes it run serially, never otherwise.

pub mod parallel_safe;
mod probe;
mod vectorize;

use std::sync::Arc;

pub use probe::{ProbePipeline, SplitPoint, Stage};
pub use vectorize::Evaluation;

use super::{BlockPlan, JoinMethod, JoinPlan, Node, Source};
use crate::expr::Expr;

/// Estimated rows that are kept before the first one is given, where nothing else makes it wait.
const MAX_BUFFERED_ROWS: f64 = 250_000.0;

/// How a block's rows are read and brought together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Row by row, by the statement's own thread.
    Serial,
    /// In tasks.
    Parallel {
        /// What the threads share among them.
        split: SplitPoint,
        /// What is done with the rows.
        sink: SinkKind,
        /// How the rows of the table that is read first are evaluated.
        evaluation: Evaluation,
    },
    /// Only the number of a table's rows is wanted: from metadata where nothing overlaps.
    CountFromMetadata,
}

/// What is done with the rows of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkKind {
    /// They are grouped, or aggregated as one group.
    Group,
    /// The same, of rows that come sorted by a grouping key: streaming aggregation.
    StreamingGroup,
    /// Of rows with the same select list the first is kept.
    Distinct,
    /// The first n of an order are kept.
    Top,
    /// All are kept.
    Rows,
    /// All are kept, by their keys in a hash join.
    Hash,
}

/// How the rows of a hash join's build side are read by several threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParallelBuild {
    /// What the threads share among them.
    pub split: SplitPoint,
    /// How the rows of the table that is read first are evaluated.
    pub evaluation: Evaluation,
}

/// Decides how the block and the build sides of its joins are read. `parallel_rows`: estimated rows from which on
/// several threads read.
pub(super) fn decide(block: &mut BlockPlan, parallel_rows: u64) {
    decide_builds(&mut block.source, parallel_rows as f64);
    block.strategy = of_block(block, parallel_rows as f64);
}

fn decide_builds(node: &mut Node, parallel_rows: f64) {
    match node {
        Node::Once | Node::Nothing(_) | Node::Scan(_) => {}
        Node::Filter(input, _) => decide_builds(input, parallel_rows),
        Node::Join(join) => {
            decide_builds(&mut join.left, parallel_rows);
            let right = Arc::get_mut(&mut join.right).expect("nothing runs the plan yet");
            decide_builds(right, parallel_rows);
            join.build = of_build_side(join, parallel_rows);
        }
    }
}

/// How a hash join's build side is read; `None`: serially.
fn of_build_side(join: &JoinPlan, parallel_rows: f64) -> Option<ParallelBuild> {
    let JoinMethod::Hash { right, .. } = &join.method else {
        return None;
    };
    let probe = ProbePipeline::of(&join.right)?;
    if !right.iter().all(parallel_safe::is_parallel_safe) {
        return None;
    }
    let split = probe.split(&join.right, parallel_rows)?;
    let evaluation = match split {
        SplitPoint::Table => Evaluation::of_scan(probe.source, false),
        SplitPoint::Rows(_) => Evaluation::RowAtATime,
    };
    Some(ParallelBuild { split, evaluation })
}

fn of_block(block: &BlockPlan, parallel_rows: f64) -> Strategy {
    parallel(block, parallel_rows).unwrap_or(Strategy::Serial)
}

fn parallel(block: &BlockPlan, parallel_rows: f64) -> Option<Strategy> {
    // Groups that come one after the other are read until LIMIT has enough.
    if block.group.as_ref().is_some_and(|group| group.is_streaming) {
        return None;
    }
    let probe = ProbePipeline::of(&block.source)?;
    let split = probe.split(&block.source, parallel_rows)?;
    if split == SplitPoint::Table && only_counts(block, &probe) {
        return Some(Strategy::CountFromMetadata);
    }
    let sink = sink_kind(block, &probe)?;
    let is_parallel_safe = match sink {
        SinkKind::Rows | SinkKind::Hash => true,
        SinkKind::Group | SinkKind::StreamingGroup => block
            .group
            .as_ref()
            .is_some_and(parallel_safe::is_group_parallel_safe),
        SinkKind::Distinct => block.output.iter().all(parallel_safe::is_parallel_safe),
        SinkKind::Top => block
            .order
            .iter()
            .all(|key| parallel_safe::is_parallel_safe(&key.expr)),
    };
    is_parallel_safe.then(|| Strategy::Parallel {
        split,
        sink,
        evaluation: match split {
            SplitPoint::Table => Evaluation::of_block(block, &probe, sink),
            SplitPoint::Rows(_) => Evaluation::RowAtATime,
        },
    })
}

/// Is the number of a table's rows all that is wanted?
fn only_counts(block: &BlockPlan, probe: &ProbePipeline<'_>) -> bool {
    let counts = block
        .group
        .as_ref()
        .is_some_and(parallel_safe::only_counts_rows);
    counts
        && probe.stages.is_empty()
        && probe.source.reads_only_what_is_true()
        && parallel_safe::is_stored(probe.source)
}

fn sink_kind(block: &BlockPlan, probe: &ProbePipeline<'_>) -> Option<SinkKind> {
    if block.group.is_some() {
        return Some(match streaming_key(block, probe) {
            Some(_) => SinkKind::StreamingGroup,
            None => SinkKind::Group,
        });
    }
    // A walk in the order of an index ends early, or spares the sort.
    let in_order = match &probe.source.source {
        Source::Base { access, .. } => access.for_order || access.reverse,
        _ => false,
    };
    if in_order {
        return None;
    }
    if block.windows.is_some() || block.having.is_some() || block.calc_found_rows {
        return None;
    }
    match (block.distinct, block.order.is_empty(), &block.limit) {
        (true, _, None) => Some(SinkKind::Distinct),
        (true, false, Some(_)) => Some(SinkKind::Distinct),
        (false, false, Some(_)) => Some(SinkKind::Top),
        (false, _, None) if probe.rows() <= MAX_BUFFERED_ROWS && !is_whole(probe) => {
            Some(SinkKind::Rows)
        }
        _ => None,
    }
}

/// The grouping key by which rows come sorted, and its slot, where HAVING may drop groups as soon as they are complete.
pub fn streaming_key<'p>(
    block: &'p BlockPlan,
    probe: &ProbePipeline<'p>,
) -> Option<(&'p Expr, u32)> {
    let (plan, having) = (block.group.as_ref()?, block.having.as_ref()?);
    let scan = probe.source;
    let Source::Base { def, access, .. } = &scan.source else {
        return None;
    };
    let part = def.primary().parts.first()?;
    let is_sorted = access.index == 0 && !access.reverse && part.prefix_len.is_none();
    if !is_sorted || !parallel_safe::is_parallel_safe(having) {
        return None;
    }
    let (_, slot) = *scan.columns.iter().find(|(col, _)| *col == part.col)?;
    let key = plan.keys.iter().find(|key| key.as_column() == Some(slot))?;
    Some((key, slot))
}

/// Are all rows of a table wanted as they are?
fn is_whole(probe: &ProbePipeline<'_>) -> bool {
    probe.stages.is_empty() && probe.source.conds.is_empty()
}
