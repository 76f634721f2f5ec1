//! The degree of parallelism a block would get, for EXPLAIN: threads, tasks, rows counted from metadata.
//!
//! Neighbours: `parallel` decides and executes, nothing is read here; `plan::explain` prints it.

use std::fmt;

use esker_types::SqlResult;

use super::prepare::{needs_reader, target, wanted_tasks};
use super::probe::SplitPoint;
use super::sink::SinkKind;
use super::{block_exprs, candidate, several_threads};
use crate::exec_error::engine_error;
use crate::expr::EvalEnv;
use crate::plan::BlockPlan;

/// How the rows of a block would be shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ParallelEstimate {
    pub shared: Shared,
    /// Threads, the statement's own included.
    pub threads: u32,
    /// Parts into which it is cut; an estimate where rows are shared out.
    pub tasks: u64,
    /// Rows that are counted without reading.
    pub from_metadata: u64,
}

/// What is shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shared {
    /// The table that is read first.
    Scan,
    /// The joining of rows that the statement's thread has read.
    Join,
}

/// Tells how the rows of a block would be shared out, if several threads would read or join them.
pub(crate) type ParallelEstimates<'a> = &'a dyn Fn(&BlockPlan) -> Option<ParallelEstimate>;

impl Shared {
    pub fn word(self) -> &'static str {
        match self {
            Self::Scan => "scan",
            Self::Join => "join",
        }
    }
}

impl fmt::Display for ParallelEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (threads, tasks) = (self.threads, self.tasks);
        write!(f, "{threads} threads, {tasks} tasks")?;
        match self.from_metadata {
            0 => Ok(()),
            rows => write!(f, ", {rows} rows from metadata"),
        }
    }
}

/// How the block's rows would be read and joined now.
///
/// # Errors
/// As for reading them.
pub(crate) fn estimate(
    block: &BlockPlan,
    env: &EvalEnv<'_>,
) -> SqlResult<Option<ParallelEstimate>> {
    let Some(exec) = several_threads(env) else {
        return Ok(None);
    };
    let Some(candidate) = candidate(block, &exec.limits) else {
        return Ok(None);
    };
    let needs_reader = needs_reader(&block_exprs(block, &candidate), &candidate);
    if needs_reader && exec.txn.has_writes() {
        return Ok(None);
    }
    let (probe, wanted) = (&candidate.probe, wanted_tasks(exec));
    let (shared, tasks, from_metadata) = match candidate.cut {
        SplitPoint::Rows(passed) => {
            let rows = probe.rows_behind(passed) as u64;
            (Shared::Join, rows.min(wanted as u64), 0)
        }
        SplitPoint::Table => {
            let Some(target) = target(probe, exec, env)? else {
                return Ok(None);
            };
            let cut = match candidate.sink_kind {
                SinkKind::Count => exec
                    .txn
                    .parallel_count(target.tree, target.spans, wanted)
                    .map(|count| (count.tasks(), count.counted())),
                _ => exec
                    .txn
                    .parallel_scan(target.tree, target.spans, wanted)
                    .map(|scan| (scan.tasks(), 0)),
            };
            let (tasks, from_metadata) = cut.map_err(|e| engine_error(&e))?;
            (Shared::Scan, tasks as u64, from_metadata)
        }
    };
    Ok(Some(ParallelEstimate {
        shared,
        threads: exec.limits.read_threads.min(tasks as u32).max(1),
        tasks,
        from_metadata,
    }))
}
