//! The degree of parallelism a block would get, for EXPLAIN: threads, tasks, rows counted from metadata.
//!
//! Neighbours: `plan::strategy` has decided, `parallel` executes, nothing is read here; `plan::explain` prints it.

use esker_sql_catalog::exec_error::{ExecResult, engine_error};
use esker_sql_plan::plan::explain::{ParallelEstimate, Shared};
use esker_sql_plan::plan::strategy::{Evaluation, ProbePipeline, SinkKind};
use esker_sql_plan::plan::{BlockPlan, SplitPoint, Strategy};

use super::prepare::{needs_reader, target, wanted_tasks};
use super::{Candidate, block_exprs, several_threads};
use crate::{ExecCtx, ExecEnv};

/// How the block's rows would be read and joined now.
///
/// # Errors
/// As for reading them.
pub fn estimate(block: &BlockPlan, env: &ExecEnv<'_>) -> ExecResult<Option<ParallelEstimate>> {
    let (Some(exec), Some(probe)) = (several_threads(env), ProbePipeline::of(&block.source)) else {
        return Ok(None);
    };
    if block.strategy == Strategy::CountFromMetadata {
        return count(&probe, exec, env);
    }
    let Some(candidate) = Candidate::of(block.strategy, probe) else {
        return Ok(None);
    };
    let needs_reader = needs_reader(&block_exprs(block, &candidate), &candidate);
    if needs_reader && exec.txn().has_writes() {
        return Ok(None);
    }
    let wanted = wanted_tasks(exec);
    let (shared, tasks) = match candidate.split {
        SplitPoint::Rows(passed) => {
            let rows = candidate.probe.rows_behind(passed) as u64;
            (Shared::Join, rows.min(wanted as u64))
        }
        SplitPoint::Table => {
            let Some(target) = target(&candidate.probe, exec, env)? else {
                return Ok(None);
            };
            let scan = exec.txn().parallel_scan(target.tree, target.spans, wanted);
            (
                Shared::Scan,
                scan.map_err(|e| engine_error(&e))?.tasks() as u64,
            )
        }
    };
    Ok(Some(ParallelEstimate {
        shared,
        threads: threads_for(tasks, exec),
        tasks,
        from_metadata: 0,
        evaluation: candidate.evaluation,
        is_streaming: candidate.sink == SinkKind::StreamingGroup,
    }))
}

/// How the rows of a table would be counted now.
fn count(
    probe: &ProbePipeline<'_>,
    exec: &ExecCtx<'_>,
    env: &ExecEnv<'_>,
) -> ExecResult<Option<ParallelEstimate>> {
    let Some(target) = target(probe, exec, env)? else {
        return Ok(None);
    };
    let wanted = wanted_tasks(exec);
    let count = exec.txn().parallel_count(target.tree, target.spans, wanted);
    let count = count.map_err(|e| engine_error(&e))?;
    let tasks = count.tasks() as u64;
    Ok(Some(ParallelEstimate {
        shared: Shared::Scan,
        threads: threads_for(tasks, exec),
        tasks,
        from_metadata: count.counted(),
        evaluation: Evaluation::RowAtATime,
        is_streaming: false,
    }))
}

fn threads_for(tasks: u64, exec: &ExecCtx<'_>) -> u32 {
    exec.limits.read_threads.min(tasks as u32).max(1)
}
