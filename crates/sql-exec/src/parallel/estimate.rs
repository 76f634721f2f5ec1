//! The degree of parallelism a block would get, for EXPLAIN: threads, tasks, rows counted from metadata.
//!
//! Neighbours: `parallel` decides and executes, nothing is read here; `plan::explain` prints it.

use esker_sql_catalog::exec_error::engine_error;
use esker_sql_plan::plan::BlockPlan;
use esker_sql_plan::plan::explain::{ParallelEstimate, Shared};
use esker_types::SqlResult;

use super::prepare::{needs_reader, target, wanted_tasks};
use super::probe::SplitPoint;
use super::sink::SinkKind;
use super::{block_exprs, candidate, several_threads};
use crate::ExecEnv;

/// How the block's rows would be read and joined now.
///
/// # Errors
/// As for reading them.
pub fn estimate(block: &BlockPlan, env: &ExecEnv<'_>) -> SqlResult<Option<ParallelEstimate>> {
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
