//! Query blocks whose table is read by several threads.
//!
//! In flow order: this file (which blocks qualify, running them), `fit` (which expressions other threads may evaluate), `task` (what
//! a thread does with its share of the rows), `groups` (partial groups and how they become one).
//! Neighbours: `root` asks here before it reads a table by itself; the engine's `scan` cuts the table and has the threads;
//! rows are decoded and judged as in `scan`.
//! **Invariants**: the rows that come out are those of the serial way, in its order, but for rows that DISTINCT or LIMIT
//! would drop anyway; sums of DOUBLE may differ in their last digits; a statement that would need too much memory this way
//! goes the serial way from the beginning.

mod fit;
mod groups;
mod task;

use std::sync::{Arc, OnceLock};
use std::thread;

use esker_engine::scan::{KeySpan, Outcome, ScanWork, TASKS_PER_THREAD};
use esker_engine::{EngineError, View};
use esker_types::{SqlResult, Value};

use super::memory::{Purpose, charge, refund};
use super::root::limit_values;
use super::{ExecCtx, Limits};
use crate::exec_error::engine_error;
use crate::expr::EvalEnv;
use crate::plan::{Access, AccessKind, BlockPlan, Node, QueryPlan, Root, ScanPlan, Source};
use crate::result::Mode;
use groups::GroupTable;
use task::{Duty, Part, Room, TableTask};

/// Of the memory that a statement may still use, this part is for partial results.
const MEMORY_PART: u64 = 2;

/// Rows of a block that was read in parallel.
pub(crate) struct ParallelRows {
    rows: Rows,
    /// Bytes charged for them.
    bytes: u64,
}

enum Rows {
    /// Rows of the table that are still wanted, by the slots they fill.
    Plain(Vec<u32>, std::vec::IntoIter<Box<[Value]>>),
    Groups(Box<GroupTable>),
}

/// The table of a block that could be read in parallel.
struct Candidate<'p> {
    scan: &'p ScanPlan,
    duty: Duty,
}

/// The threads that read a table together when `wanted` are asked for: no more than there are processors.
pub(crate) fn usable_threads(wanted: u32) -> u32 {
    static PROCESSORS: OnceLock<u32> = OnceLock::new();
    let count = || thread::available_parallelism().map_or(1, |n| n.get() as u32);
    wanted.min(*PROCESSORS.get_or_init(count))
}

/// The threads that would read the table of a query's outermost block, if it qualifies; for EXPLAIN.
pub(crate) fn threads_for(plan: &QueryPlan, limits: &Limits) -> Option<u32> {
    let Root::Block(block) = &plan.root else {
        return None;
    };
    candidate(block, limits).map(|_| limits.read_threads)
}

/// What of the block other threads may do, if it is worth it.
fn candidate<'p>(block: &'p BlockPlan, limits: &Limits) -> Option<Candidate<'p>> {
    let Node::Scan(scan) = &block.source else {
        return None;
    };
    let Source::Base { access, .. } = &scan.source else {
        return None;
    };
    let reads_in_full = matches!(access.kind, AccessKind::Full | AccessKind::Ranges(_))
        && (access.index == 0 || access.covering);
    let plain = scan.lock.is_none()
        && !scan.first_only
        && !scan.lateral
        && scan.key_slot.is_none()
        && scan.row_slot.is_none();
    if !reads_in_full || !plain || scan.rows_in < limits.parallel_rows as f64 {
        return None;
    }
    let duty = duty(block, access)?;
    let fits = scan.conds.iter().all(fit::fits)
        && match duty {
            Duty::Count => true,
            Duty::Group => block.group.as_ref().is_some_and(fit::group_fits),
            Duty::Distinct => block.output.iter().all(fit::fits),
            Duty::Top => block.order.iter().all(|key| fit::fits(&key.expr)),
        };
    fits.then_some(Candidate { scan, duty })
}

fn duty(block: &BlockPlan, access: &Access) -> Option<Duty> {
    if let Some(group) = &block.group {
        let Node::Scan(scan) = &block.source else {
            return None;
        };
        return Some(
            match fit::only_counts_rows(group) && scan.conds.is_empty() {
                true => Duty::Count,
                false => Duty::Group,
            },
        );
    }
    // A walk in the order of an index ends early, or spares the sort.
    let in_order = access.for_order || access.reverse;
    if block.windows.is_some() || block.having.is_some() || block.calc_found_rows || in_order {
        return None;
    }
    match (block.distinct, block.order.is_empty(), &block.limit) {
        (true, _, None) => Some(Duty::Distinct),
        (true, false, Some(_)) => Some(Duty::Distinct),
        (false, false, Some(_)) => Some(Duty::Top),
        _ => None,
    }
}

/// Reads the block's table in parallel, if that is possible and worth it.
pub(crate) fn run(block: &Arc<BlockPlan>, env: &EvalEnv<'_>) -> SqlResult<Option<ParallelRows>> {
    let Some(exec) = env.exec else {
        return Ok(None);
    };
    // EXPLAIN ANALYZE tells what each operator of the serial way does.
    let is_profiled = env.states.profile.is_some();
    if exec.mode != Mode::Thread || exec.view != View::Snapshot || is_profiled {
        return Ok(None);
    }
    let Some(candidate) = candidate(block, &exec.limits) else {
        return Ok(None);
    };
    let Source::Base { def, access, .. } = &candidate.scan.source else {
        return Ok(None);
    };
    def.check_visible(&def.indexes[access.index], exec.txn.snapshot())?;
    // The transaction's own changes build on the newest rows, so an entry of its snapshot may lead to a row that it has
    // moved elsewhere in the index.
    let stale = access.index != 0 && exec.txn.has_writes();
    if stale && !matches!(access.kind, AccessKind::Full) {
        return Ok(None);
    }
    let index = if stale { 0 } else { access.index };
    let ranges = match &access.kind {
        AccessKind::Ranges(spec) => spec.build(&def.indexes[index].codec, &[], env)?,
        _ => vec![crate::codec::KeyRange::ALL],
    };
    let spans = ranges
        .iter()
        .map(|range| KeySpan::new(range.lower(), range.upper()))
        .collect();
    let tree = &def.indexes[index].tree;
    match candidate.duty {
        Duty::Count => {
            let rows = count(exec, tree, spans)?;
            let group = block.group.as_ref().expect("its duty says so");
            let groups = Box::new(GroupTable::counted(group, rows));
            Ok(Some(ParallelRows {
                rows: Rows::Groups(groups),
                bytes: 0,
            }))
        }
        duty => {
            let wanted = exec.limits.read_threads as usize * TASKS_PER_THREAD;
            let scan = exec.txn.parallel_scan(tree, spans, wanted);
            let scan = scan.map_err(|e| engine_error(&e))?;
            let keep = match duty {
                Duty::Top => {
                    let (skip, count) = limit_values(block.limit.as_ref(), env)?;
                    skip.saturating_add(count)
                }
                _ => u64::MAX,
            };
            let left = exec
                .limits
                .memory_bytes
                .saturating_sub(env.states.memory.get());
            // What is larger than the budget of its operator goes the serial way, which writes to disk.
            let budget = match duty {
                Duty::Top => exec.limits.sort_bytes,
                _ => exec.limits.table_bytes,
            };
            let room = Room::new(budget.min(left / MEMORY_PART), exec.txn.memory());
            let work = TableTask::new(block, scan, index, duty, keep, room, env);
            read(work, block, exec, env)
        }
    }
}

/// Asks for helpers, does the tasks, and passes what they bring to `take`, in order.
fn work<W: ScanWork>(
    exec: &ExecCtx<'_>,
    work: Arc<W>,
    tasks: usize,
    mut take: impl FnMut(W::Output) -> SqlResult<bool>,
) -> SqlResult<bool> {
    let mut killed = Ok(());
    let mut failed = Ok(());
    let helpers = exec.limits.read_threads.saturating_sub(1) as usize;
    let outcome = exec.txn.scans().run(
        work,
        tasks,
        helpers,
        &mut || {
            killed = (exec.check_killed)();
            killed.is_ok()
        },
        |_, result| match take(result) {
            Ok(goes_on) => goes_on,
            Err(e) => {
                failed = Err(e);
                false
            }
        },
    );
    killed?;
    failed?;
    Ok(outcome == Outcome::Done)
}

/// Rows by their number.
struct CountTask(esker_engine::scan::ParallelCount);

impl ScanWork for CountTask {
    type Output = Result<Option<u64>, EngineError>;

    fn run(&self, task: usize, go_on: &mut dyn FnMut() -> bool) -> Self::Output {
        self.0.count(task, go_on)
    }
}

fn count(exec: &ExecCtx<'_>, tree: &esker_engine::Tree, spans: Vec<KeySpan>) -> SqlResult<u64> {
    let wanted = exec.limits.read_threads as usize * TASKS_PER_THREAD;
    let count = exec.txn.parallel_count(tree, spans, wanted);
    let count = count.map_err(|e| engine_error(&e))?;
    let (mut rows, tasks) = (count.counted(), count.tasks());
    work(exec, Arc::new(CountTask(count)), tasks, |counted| {
        rows += counted.map_err(|e| engine_error(&e))?.unwrap_or(0);
        Ok(true)
    })?;
    Ok(rows)
}

/// Does the tasks and puts together what they bring. `None` if that takes too much memory.
fn read(
    task: TableTask,
    block: &BlockPlan,
    exec: &ExecCtx<'_>,
    env: &EvalEnv<'_>,
) -> SqlResult<Option<ParallelRows>> {
    let (tasks, slots) = (task.tasks(), task.slots());
    let task = Arc::new(task);
    let mut groups = block
        .group
        .as_ref()
        .map(|_| Box::new(GroupTable::default()));
    let mut rows: Vec<Box<[Value]>> = Vec::new();
    let (warned, warnings) = (env.ctx.warning_count.get(), env.ctx.warnings.borrow().len());
    let is_complete = work(exec, Arc::clone(&task), tasks, |done| {
        done.give_warnings(env.ctx);
        match (done.part?, &mut groups) {
            (Part::TooLarge, _) => return Ok(false),
            (Part::Groups(part), Some(groups)) => groups.merge(*part, env.ctx)?,
            (Part::Rows(part), _) => rows.extend(part),
            (Part::Groups(_), None) => unreachable!("only a block with groups makes groups"),
        }
        Ok(true)
    })?;
    let bytes = task.hand_over();
    if !is_complete || charge(env, bytes, Purpose::Hash).is_err() {
        // The serial way warns of the same rows.
        env.ctx.warning_count.set(warned);
        env.ctx.warnings.borrow_mut().truncate(warnings);
        return Ok(None);
    }
    let rows = match (groups, &block.group) {
        (Some(mut groups), Some(group)) => {
            groups.finish(group);
            Rows::Groups(groups)
        }
        _ => Rows::Plain(slots, rows.into_iter()),
    };
    Ok(Some(ParallelRows { rows, bytes }))
}

impl ParallelRows {
    /// Fills the slots of the next row; false at the end.
    pub fn next(
        &mut self,
        block: &BlockPlan,
        row: &mut [Value],
        env: &EvalEnv<'_>,
    ) -> SqlResult<bool> {
        match (&mut self.rows, &block.group) {
            (Rows::Groups(groups), Some(group)) => groups.next(group, row, env.ctx),
            (Rows::Plain(slots, rows), _) => {
                let Some(values) = rows.next() else {
                    return Ok(false);
                };
                for (slot, value) in slots.iter().zip(values) {
                    row[*slot as usize] = value;
                }
                Ok(true)
            }
            (Rows::Groups(_), None) => unreachable!("only a block with groups makes groups"),
        }
    }

    /// Gives memory back.
    pub fn give_back(self, env: &EvalEnv<'_>) {
        refund(env, self.bytes);
    }
}
