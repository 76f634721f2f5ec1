//! The degree of parallelism a block would get, for EXPLAIN: threads, tasks, rows counted from metadata.
//!
//! Neighbours: `plan::strategy` has decided, `parallel` executes, nothing is read here; `plan::explain` prints it.

use esker_sql_catalog::exec_error::{ExecResult, engine_error};
use esker_sql_plan::plan::explain::{ParallelEstimate, Shared};
use esker_sql_plan::plan::strategy::{Evaluation, ProbePipeline, SinkKind};
use esker_sql_plan::plan::{BlockPlan, SplitPoint, Strategy};

use super::prepare::{needs_reader, target, wanted_tasks};
use super::{Candidate, block_exprs, several_threads};
use crate::ExecEnv;

/// How the block's rows would be read and joined now.
///
/// # Errors
/// As for reading them.
pub fn estimate(block: &BlockPlan, env: &ExecEnv<'_>) -> ExecResult<Option<ParallelEstimate>> {
    let (Some(exec), Some(probe)) = (several_threads(env), ProbePipeline::of(&block.source)) else {
        return Ok(None);
    };
    let wanted = wanted_tasks(exec);
    let (evaluation, is_streaming) = match block.strategy {
        Strategy::Parallel {
            evaluation, sink, ..
        } => (evaluation, sink == SinkKind::StreamingGroup),
        _ => (Evaluation::RowAtATime, false),
    };
    let cut = match block.strategy {
        Strategy::Serial => return Ok(None),
        Strategy::CountFromMetadata => {
            let Some(target) = target(&probe, exec, env)? else {
                return Ok(None);
            };
            let count = exec.txn.parallel_count(target.tree, target.spans, wanted);
            count.map(|count| (Shared::Scan, count.tasks() as u64, count.counted()))
        }
        Strategy::Parallel {
            split,
            sink,
            evaluation,
        } => {
            let candidate = Candidate {
                probe,
                split,
                sink,
                evaluation,
            };
            let needs_reader = needs_reader(&block_exprs(block, &candidate), &candidate);
            if needs_reader && exec.txn.has_writes() {
                return Ok(None);
            }
            let probe = &candidate.probe;
            match split {
                SplitPoint::Rows(passed) => {
                    let rows = probe.rows_behind(passed) as u64;
                    Ok((Shared::Join, rows.min(wanted as u64), 0))
                }
                SplitPoint::Table => {
                    let Some(target) = target(probe, exec, env)? else {
                        return Ok(None);
                    };
                    let scan = exec.txn.parallel_scan(target.tree, target.spans, wanted);
                    scan.map(|scan| (Shared::Scan, scan.tasks() as u64, 0))
                }
            }
        }
    };
    let (shared, tasks, from_metadata) = cut.map_err(|e| engine_error(&e))?;
    Ok(Some(ParallelEstimate {
        shared,
        threads: exec.limits.read_threads.min(tasks as u32).max(1),
        tasks,
        from_metadata,
        evaluation,
        is_streaming,
    }))
}
