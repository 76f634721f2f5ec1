//! Intra-query parallelism: morsels of a table, or of rows read before, run through a probe pipeline on several
//! threads.
//!
//! In flow order: this file (running what the plan has decided), `prepare` (what comes before the tasks: build sides,
//! constant subqueries, cutting the source), `block_filter` (conditions for block skipping), `key_lookup` (lookups in
//! place of a scan where only few keys qualify), `task` (one morsel), `vectorized` (conditions and aggregates column by
//! column), `runtime_filter` (Bloom filters of later joins), `pipeline` (joining in a task), `sink` (what a task
//! keeps), `streaming_groups` and `groups` (partial aggregates and how they are merged); for EXPLAIN, `estimate` (how
//! it would be cut now) and `runtime_stats` (what was done). Neighbours: `plan::strategy` decides what is done in
//! parallel; `root` comes here before it reads tables by itself, `join` before it fills a hash table; the engine's
//! `scan` cuts the table and has the threads; rows are decoded and filtered as in `scan`. **Invariants**: the rows that
//! come out are those of the serial way, in its order, but for rows that DISTINCT, HAVING or LIMIT would drop anyway;
//! sums of DOUBLE may differ in their last digits; a statement that would need too much memory this way goes the serial
//! way from the beginning.

mod block_filter;
mod estimate;
mod groups;
mod key_lookup;
mod pipeline;
mod prepare;
mod runtime_filter;
mod runtime_stats;
mod sink;
mod streaming_groups;
mod task;
mod vectorized;

use std::sync::{Arc, OnceLock};
use std::thread;

use esker_engine::scan::{CountedTask, Outcome, ScanWork};
use esker_engine::{EngineError, View};
use esker_sql_catalog::catalog::{Walk, Walked, note_walk};
use esker_sql_catalog::exec_error::{ExecResult, engine_error};
use esker_sql_catalog::result::Mode;
use esker_sql_plan::expr::Expr;
use esker_sql_plan::plan::strategy::{Evaluation, ProbePipeline, SinkKind};
use esker_sql_plan::plan::{BlockPlan, JoinMethod, JoinPlan, Node, SplitPoint, Strategy};
use esker_types::Value;
use parking_lot::Mutex;

use super::ExecCtx;
use super::join_table::{HashPart, JoinTable, KeyHash, PARTS};
use super::memory::{Purpose, charge, refund};
use super::root::limit_values;
use crate::ExecEnv;
pub use estimate::estimate;
use groups::GroupTable;
use prepare::{prepare, target, wanted_tasks};
pub(super) use runtime_filter::{RuntimeFilter, StoredRowFilter};
use runtime_stats::RuntimeStats;
use sink::{Part, Wanted};
use task::{Consumer, TableTask};

/// Bytes of a hash table from which on several threads put it together.
const SHARED_LINK_BYTES: u64 = 256 << 10;

/// Rows of a block that was read in parallel.
pub(crate) struct ParallelRows {
    rows: Rows,
    /// Bytes charged for them.
    bytes: u64,
}

enum Rows {
    /// Joined rows that are still wanted, by the slots they fill.
    Plain(Vec<u32>, std::vec::IntoIter<Box<[Value]>>),
    Groups(Box<GroupTable>),
}

/// What of a node's rows threads share.
struct Candidate<'p> {
    probe: ProbePipeline<'p>,
    split: SplitPoint,
    sink: SinkKind,
    evaluation: Evaluation,
}

impl<'p> Candidate<'p> {
    /// What the plan has decided for the rows of a block; `None`: threads do not share them.
    fn of(strategy: Strategy, probe: ProbePipeline<'p>) -> Option<Self> {
        let Strategy::Parallel {
            split,
            sink,
            evaluation,
        } = strategy
        else {
            return None;
        };
        Some(Candidate {
            probe,
            split,
            sink,
            evaluation,
        })
    }
}

/// The threads that read a table together when `wanted` are asked for: no more than there are processors.
pub fn usable_threads(wanted: u32) -> u32 {
    static PROCESSORS: OnceLock<u32> = OnceLock::new();
    let count = || thread::available_parallelism().map_or(1, |n| n.get() as u32);
    wanted.min(*PROCESSORS.get_or_init(count))
}

/// The context of a statement that may use several threads now.
fn several_threads<'e>(env: &ExecEnv<'e>) -> Option<&'e ExecCtx<'e>> {
    env.exec.filter(|exec| {
        exec.limits.splits && exec.mode == Mode::Thread && exec.view == View::Snapshot
    })
}

/// Reads the block's rows in parallel, if that is possible and worth it.
pub(crate) fn run(block: &Arc<BlockPlan>, env: &ExecEnv<'_>) -> ExecResult<Option<ParallelRows>> {
    let (Some(exec), Some(probe)) = (several_threads(env), ProbePipeline::of(&block.source)) else {
        return Ok(None);
    };
    if block.strategy == Strategy::CountFromMetadata {
        return count(block, &probe, exec, env);
    }
    let Some(candidate) = Candidate::of(block.strategy, probe) else {
        return Ok(None);
    };
    match block_task(block, &candidate, env)? {
        Some(task) => read(task, block, exec, env),
        None => Ok(None),
    }
}

/// What the tasks of a block are made of.
fn block_task(
    block: &Arc<BlockPlan>,
    candidate: &Candidate<'_>,
    env: &ExecEnv<'_>,
) -> ExecResult<Option<TableTask>> {
    let keep = match candidate.sink {
        SinkKind::Top => {
            let (skip, count) = limit_values(block.limit.as_ref(), env)?;
            skip.saturating_add(count)
        }
        _ => u64::MAX,
    };
    let wanted = Wanted {
        sink_kind: candidate.sink,
        keep,
        slots: slots_of(&block.source),
        width: block.width as usize,
    };
    let exprs = block_exprs(block, candidate);
    let consumer = Consumer::Block(Arc::clone(block));
    prepare(
        consumer,
        &block.source,
        candidate,
        (wanted, &[]),
        &exprs,
        env,
    )
}

/// What the tasks of a block evaluate, and who merges what they bring.
fn block_exprs<'p>(block: &'p BlockPlan, candidate: &Candidate<'p>) -> Vec<&'p Expr> {
    let mut exprs = candidate.probe.exprs(candidate.split);
    if let Some(group) = &block.group {
        exprs.extend(&group.keys);
        exprs.extend(group.aggs.iter().flat_map(|agg| &agg.args));
    }
    exprs.extend(block.order.iter().map(|key| &key.expr));
    exprs.extend(block.having.iter().chain(&block.output));
    exprs
}

/// Reads the right side of a hash join in parallel, if that is possible and worth it. Rows that do not pass `filters`
/// need not come.
pub(super) fn build_join_table(
    join: &JoinPlan,
    width: usize,
    filters: &[RuntimeFilter],
    env: &ExecEnv<'_>,
) -> ExecResult<Option<JoinTable>> {
    let (Some(exec), JoinMethod::Hash { right, by, .. }) = (several_threads(env), &join.method)
    else {
        return Ok(None);
    };
    let (Some(probe), Some(build)) = (ProbePipeline::of(&join.right), join.build) else {
        return Ok(None);
    };
    let sink = SinkKind::Hash;
    let candidate = Candidate {
        probe,
        split: build.split,
        sink,
        evaluation: build.evaluation,
    };
    let wanted = Wanted {
        sink_kind: sink,
        keep: u64::MAX,
        slots: join.right_slots.clone(),
        width,
    };
    let mut exprs = candidate.probe.exprs(candidate.split);
    exprs.extend(right);
    let hash = KeyHash::default();
    let consumer = Consumer::Right {
        node: Arc::clone(&join.right),
        keys: right.clone(),
        by: by.clone(),
        hash: hash.clone(),
    };
    let wanted = (wanted, filters);
    match prepare(consumer, &join.right, &candidate, wanted, &exprs, env)? {
        Some(task) => fill_table(task, hash, exec, env),
        None => Ok(None),
    }
}

/// Slots that the rows of a node fill.
fn slots_of(node: &Node) -> Vec<u32> {
    match node {
        Node::Once | Node::Nothing(_) => Vec::new(),
        Node::Filter(input, _) => slots_of(input),
        Node::Scan(scan) => scan.columns.iter().map(|(_, slot)| *slot).collect(),
        Node::Join(join) => {
            let slots = join.left_slots.iter().chain(&join.right_slots);
            slots.copied().collect()
        }
    }
}

/// Asks for helpers, does the tasks, and passes what they bring to `take`, in order.
fn work<W: ScanWork>(
    exec: &ExecCtx<'_>,
    work: Arc<W>,
    tasks: usize,
    mut take: impl FnMut(W::Output) -> ExecResult<bool>,
) -> ExecResult<bool> {
    let mut killed = Ok(());
    let mut failed = Ok(());
    let helpers = exec.limits.read_threads.saturating_sub(1) as usize;
    let outcome = exec.txn().scans().run(
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
struct CountTask(esker_engine::scan::ParallelCount, RuntimeStats);

impl ScanWork for CountTask {
    type Output = Result<Option<CountedTask>, EngineError>;

    fn run(&self, task: usize, go_on: &mut dyn FnMut() -> bool) -> Self::Output {
        self.1.note_thread();
        self.0.count(task, go_on)
    }
}

/// Counts the rows of the block's table. `None` if all of it is not to be had in one way.
fn count(
    block: &BlockPlan,
    probe: &ProbePipeline<'_>,
    exec: &ExecCtx<'_>,
    env: &ExecEnv<'_>,
) -> ExecResult<Option<ParallelRows>> {
    let Some(target) = target(probe, exec, env)? else {
        return Ok(None);
    };
    let count = exec
        .txn()
        .parallel_count(target.tree, target.spans, wanted_tasks(exec))
        .map_err(|e| engine_error(&e))?;
    let (mut rows, mut from_metadata) = (count.counted(), count.counted());
    let tasks = count.tasks();
    let task = Arc::new(CountTask(count, RuntimeStats::new(0)));
    let stats = &task.1;
    let is_complete = work(exec, Arc::clone(&task), tasks, |counted| {
        if let Some(counted) = counted.map_err(|e| engine_error(&e))? {
            rows += counted.rows;
            from_metadata += counted.from_metadata;
            stats.note_read(counted.read);
        }
        Ok(true)
    })?;
    if is_complete {
        let verified = task.0.verify(rows, &mut || (exec.check_killed)().is_ok());
        verified.map_err(|e| engine_error(&e))?;
    }
    let walked = Walked {
        scans: 1,
        ended: 1,
        keys: 0,
        rows,
    };
    note_walk(Walk::Table, walked);
    exec.txn().scans().note_counted(from_metadata);
    stats.note_counted(from_metadata);
    stats.note_passed([rows]);
    if let Some(profile) = &env.states.profile {
        let work = runtime_stats::InputStats {
            tasks,
            blocks_skipped: 0,
            keys: None,
        };
        stats.report(profile, &block.source, SplitPoint::Table, work);
    }
    let group = block.group.as_ref().expect("its strategy says so");
    Ok(Some(ParallelRows {
        rows: Rows::Groups(Box::new(GroupTable::counted(group, rows))),
        bytes: 0,
    }))
}

/// Does the tasks and puts together what they bring. `None` if that takes too much memory.
fn read(
    task: TableTask,
    block: &BlockPlan,
    exec: &ExecCtx<'_>,
    env: &ExecEnv<'_>,
) -> ExecResult<Option<ParallelRows>> {
    let (tasks, task) = (task.tasks(), Arc::new(task));
    let mut groups = block
        .group
        .as_ref()
        .map(|_| Box::new(GroupTable::default()));
    let mut rows: Vec<Box<[Value]>> = Vec::new();
    let mark = env.ctx.diagnostics.mark();
    let is_complete = work(exec, Arc::clone(&task), tasks, |done| {
        done.give_to(env);
        match (done.part?, &mut groups) {
            (Part::TooLarge, _) => return Ok(false),
            (Part::Groups(part), Some(groups)) => groups.merge(*part, env.ctx)?,
            (Part::Rows(part), _) => rows.extend(part),
            (Part::Groups(_) | Part::Records(_), _) => {
                unreachable!("a task makes what its block wants")
            }
        }
        Ok(true)
    });
    task.given().give_back(env);
    let bytes = task.hand_over();
    if !is_complete? || charge(env, bytes, Purpose::Hash).is_err() {
        env.ctx.diagnostics.undo_to(mark);
        return Ok(None);
    }
    task.report(env);
    let rows = match (groups, &block.group) {
        (Some(mut groups), Some(group)) => {
            groups.finish(group);
            Rows::Groups(groups)
        }
        _ => Rows::Plain(task.slots().to_vec(), rows.into_iter()),
    };
    Ok(Some(ParallelRows { rows, bytes }))
}

/// Does the tasks and puts the rows they bring into one table. `None` if that takes too much memory.
fn fill_table(
    task: TableTask,
    hash: KeyHash,
    exec: &ExecCtx<'_>,
    env: &ExecEnv<'_>,
) -> ExecResult<Option<JoinTable>> {
    let (tasks, task) = (task.tasks(), Arc::new(task));
    let mut parts: [HashPart; PARTS] = Default::default();
    let mark = env.ctx.diagnostics.mark();
    let is_complete = work(exec, Arc::clone(&task), tasks, |done| {
        done.give_to(env);
        match done.part? {
            Part::Records(records) if parts.iter().all(HashPart::has_room) => {
                let both = parts.iter_mut().zip(&records);
                both.for_each(|(part, records)| part.take(records));
                Ok(true)
            }
            _ => Ok(false),
        }
    });
    task.given().give_back(env);
    task.hand_over();
    let table = match is_complete? {
        true => link(parts, hash, exec)?,
        false => None,
    };
    let Some(table) = table.filter(|table| charge(env, table.bytes(), Purpose::Hash).is_ok())
    else {
        env.ctx.diagnostics.undo_to(mark);
        return Ok(None);
    };
    task.report(env);
    Ok(Some(table))
}

/// Enters the records of each part of a hash table.
struct LinkTask {
    hash: KeyHash,
    parts: [Mutex<HashPart>; PARTS],
}

impl ScanWork for LinkTask {
    type Output = ExecResult<HashPart>;

    fn run(&self, task: usize, _go_on: &mut dyn FnMut() -> bool) -> Self::Output {
        let mut part = std::mem::take(&mut *self.parts[task].lock());
        part.link_all(&self.hash)?;
        Ok(part)
    }
}

/// Makes a table of parts that have their records. `None` if that was not all done.
fn link(
    mut parts: [HashPart; PARTS],
    hash: KeyHash,
    exec: &ExecCtx<'_>,
) -> ExecResult<Option<JoinTable>> {
    if parts.iter().map(HashPart::bytes).sum::<u64>() < SHARED_LINK_BYTES {
        parts.iter_mut().try_for_each(|part| part.link_all(&hash))?;
        return Ok(Some(JoinTable::from_parts(hash, parts)));
    }
    let mut linked = Vec::with_capacity(PARTS);
    let task = Arc::new(LinkTask {
        hash: hash.clone(),
        parts: parts.map(Mutex::new),
    });
    work(exec, task, PARTS, |part| {
        linked.push(part?);
        Ok(true)
    })?;
    let parts = linked.try_into().ok();
    Ok(parts.map(|parts| JoinTable::from_parts(hash, parts)))
}

impl ParallelRows {
    /// Fills the slots of the next row; false at the end.
    pub fn next(
        &mut self,
        block: &BlockPlan,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
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
    pub fn give_back(self, env: &ExecEnv<'_>) {
        refund(env, self.bytes);
    }
}
