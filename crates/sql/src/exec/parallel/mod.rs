//! Query blocks, and right sides of hash joins, whose rows are read and joined by several threads.
//!
//! In flow order: this file (what qualifies, running it), `fit` (which expressions other threads may evaluate), `spine` (the way of
//! rows through joins, and where they are shared out), `filter` (which blocks of a table need not be read), `task` (what a thread does with its share of the rows), `pipeline` (joining in
//! a task), `sink` (what it keeps), `segments` and `groups` (partial groups and how they become one); for EXPLAIN, `forecast` (what
//! would be done) and `tally` (what was).
//! Neighbours: `root` asks here before it reads tables by itself, `join` before it fills a hash table; the engine's `scan` cuts the
//! table and has the threads; rows are decoded and judged as in `scan`.
//! **Invariants**: the rows that come out are those of the serial way, in its order, but for rows that DISTINCT, HAVING or LIMIT
//! would drop anyway; sums of DOUBLE may differ in their last digits; a statement that would need too much memory this way
//! goes the serial way from the beginning.

mod filter;
mod fit;
mod forecast;
mod groups;
mod pipeline;
mod segments;
mod sink;
mod spine;
mod tally;
mod task;

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use esker_engine::scan::{CountedTask, KeySpan, Outcome, ScanWork, TASKS_PER_THREAD};
use esker_engine::{EngineError, Tree, View};
use esker_types::{SqlResult, Value};

use super::hash_rows::HashRows;
use super::join::{Gathered, Kept, gather};
use super::memory::{Purpose, charge, refund, row_bytes};
use super::node::NodeState;
use super::profile::Stage as Operator;
use super::root::limit_values;
use super::subquery::Constant;
use super::{ExecCtx, Limits};
use crate::bind::JoinType;
use crate::catalog::TableDef;
use crate::codec::KeyRange;
use crate::exec_error::engine_error;
use crate::expr::{EvalEnv, Expr};
use crate::plan::{AccessKind, BlockPlan, JoinMethod, JoinPlan, Node, QueryPlan, Source};
use crate::result::Mode;
pub(crate) use forecast::{Forecast, Forecasts, Shared, forecast};
use groups::GroupTable;
use sink::{Duty, Part, Wanted};
use spine::{Cut, Spine, Stage};
use tally::Tally;
use task::{Given, Input, Owner, Room, TableTask};

/// Of the memory that a statement may still use, this part is for partial results.
const MEMORY_PART: u64 = 2;
/// Estimated rows that are kept before the first one is given, where nothing else makes it wait.
const MOST_ROWS: f64 = 100_000.0;

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
    spine: Spine<'p>,
    cut: Cut,
    duty: Duty,
}

/// The threads that read a table together when `wanted` are asked for: no more than there are processors.
pub(crate) fn usable_threads(wanted: u32) -> u32 {
    static PROCESSORS: OnceLock<u32> = OnceLock::new();
    let count = || thread::available_parallelism().map_or(1, |n| n.get() as u32);
    wanted.min(*PROCESSORS.get_or_init(count))
}

/// What of the block other threads may do, if it is worth it.
fn candidate<'p>(block: &'p BlockPlan, limits: &Limits) -> Option<Candidate<'p>> {
    let spine = Spine::of(&block.source)?;
    let duty = duty(block, &spine)?;
    let fits = match duty {
        Duty::Count | Duty::Rows | Duty::Hash => true,
        Duty::Group => block.group.as_ref().is_some_and(fit::group_fits),
        Duty::Distinct => block.output.iter().all(fit::fits),
        Duty::Top => block.order.iter().all(|key| fit::fits(&key.expr)),
    };
    let cut = spine.cut(&block.source, limits).filter(|_| fits)?;
    Some(Candidate { spine, cut, duty })
}

fn duty(block: &BlockPlan, spine: &Spine<'_>) -> Option<Duty> {
    let scan = spine.driver;
    if let Some(group) = &block.group {
        let counts = fit::only_counts_rows(group) && scan.conds.is_empty();
        return Some(
            match counts && spine.stages.is_empty() && fit::is_stored(scan) {
                true => Duty::Count,
                false => Duty::Group,
            },
        );
    }
    // A walk in the order of an index ends early, or spares the sort.
    let in_order = match &scan.source {
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
        (true, _, None) => Some(Duty::Distinct),
        (true, false, Some(_)) => Some(Duty::Distinct),
        (false, false, Some(_)) => Some(Duty::Top),
        (false, _, None) if spine.rows() <= MOST_ROWS && !is_whole(spine) => Some(Duty::Rows),
        _ => None,
    }
}

/// Are all rows of a table wanted as they are?
fn is_whole(spine: &Spine<'_>) -> bool {
    spine.stages.is_empty() && spine.driver.conds.is_empty()
}

/// The context of a statement that may use several threads now.
fn several_threads<'e>(env: &EvalEnv<'e>) -> Option<&'e ExecCtx<'e>> {
    env.exec
        .filter(|exec| exec.mode == Mode::Thread && exec.view == View::Snapshot)
}

/// Reads the block's rows in parallel, if that is possible and worth it. `whole` is the query of the block.
pub(crate) fn run(
    whole: &QueryPlan,
    block: &Arc<BlockPlan>,
    env: &EvalEnv<'_>,
) -> SqlResult<Option<ParallelRows>> {
    let Some(exec) = several_threads(env) else {
        return Ok(None);
    };
    let Some(candidate) = candidate(block, &exec.limits) else {
        return Ok(None);
    };
    let start = Instant::now();
    let rows = match candidate.duty {
        Duty::Count if candidate.cut == Cut::Table => count(block, &candidate, exec, env)?,
        _ => {
            let Some(task) = block_task(block, &candidate, env)? else {
                return Ok(None);
            };
            read(task, block, exec, env)?
        }
    };
    if let (Some(profile), Some(_), Some(_)) = (&env.states.profile, &rows, &block.group) {
        profile.add(whole, Operator::Group, 0, start.elapsed());
    }
    Ok(rows)
}

/// What the tasks of a block are made of.
fn block_task(
    block: &Arc<BlockPlan>,
    candidate: &Candidate<'_>,
    env: &EvalEnv<'_>,
) -> SqlResult<Option<TableTask>> {
    let keep = match candidate.duty {
        Duty::Top => {
            let (skip, count) = limit_values(block.limit.as_ref(), env)?;
            skip.saturating_add(count)
        }
        _ => u64::MAX,
    };
    let wanted = Wanted {
        duty: candidate.duty,
        keep,
        slots: slots_of(&block.source),
        width: block.width as usize,
    };
    let exprs = block_exprs(block, candidate);
    let owner = Owner::Block(Arc::clone(block));
    prepare(owner, &block.source, candidate, wanted, &exprs, env)
}

/// What the tasks of a block evaluate, and who merges what they bring.
fn block_exprs<'p>(block: &'p BlockPlan, candidate: &Candidate<'p>) -> Vec<&'p Expr> {
    let mut exprs = candidate.spine.exprs(candidate.cut);
    if let Some(group) = &block.group {
        exprs.extend(&group.keys);
        exprs.extend(group.aggs.iter().flat_map(|agg| &agg.args));
    }
    exprs.extend(block.order.iter().map(|key| &key.expr));
    exprs.extend(block.having.iter().chain(&block.output));
    exprs
}

/// Reads the right side of a hash join in parallel, if that is possible and worth it.
pub(super) fn hash_rows(
    join: &JoinPlan,
    width: usize,
    env: &EvalEnv<'_>,
) -> SqlResult<Option<HashRows>> {
    let (Some(exec), JoinMethod::Hash { right, by, .. }) = (several_threads(env), &join.method)
    else {
        return Ok(None);
    };
    let Some(spine) = Spine::of(&join.right).filter(|_| right.iter().all(fit::fits)) else {
        return Ok(None);
    };
    let Some(cut) = spine.cut(&join.right, &exec.limits) else {
        return Ok(None);
    };
    let duty = Duty::Hash;
    let candidate = Candidate { spine, cut, duty };
    let wanted = Wanted {
        duty,
        keep: u64::MAX,
        slots: join.right_slots.clone(),
        width,
    };
    let mut exprs = candidate.spine.exprs(cut);
    exprs.extend(right);
    let owner = Owner::Right {
        node: Arc::clone(&join.right),
        keys: right.clone(),
        by: by.clone(),
    };
    match prepare(owner, &join.right, &candidate, wanted, &exprs, env)? {
        Some(task) => build(task, exec, env),
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

/// What of which tree is read.
struct Target<'p> {
    def: &'p TableDef,
    tree: &'p Tree,
    /// The index that is read: the plan's, or the clustered one.
    index: usize,
    spans: Vec<KeySpan>,
}

/// What the transaction may read of the table that is read first, if all of it is to be had in one way.
fn target<'p>(
    spine: &Spine<'p>,
    exec: &ExecCtx<'_>,
    env: &EvalEnv<'_>,
) -> SqlResult<Option<Target<'p>>> {
    let Source::Base { def, access, .. } = &spine.driver.source else {
        return Ok(None);
    };
    def.check_visible(&def.indexes[access.index], exec.txn.snapshot())?;
    // The transaction's own changes build on the newest rows, so an entry of its snapshot may lead to a row that it has
    // moved elsewhere in the index.
    let stale = access.index != 0 && exec.txn.has_writes();
    // Joined rows may have to come in the order of the index.
    if stale && (!matches!(access.kind, AccessKind::Full) || !spine.stages.is_empty()) {
        return Ok(None);
    }
    let index = if stale { 0 } else { access.index };
    let ranges = match &access.kind {
        AccessKind::Ranges(spec) => spec.build(&def.indexes[index].codec, &[], env)?,
        _ => vec![KeyRange::ALL],
    };
    let spans = ranges
        .iter()
        .map(|range| KeySpan::new(range.lower(), range.upper()))
        .collect();
    Ok(Some(Target {
        def,
        tree: &def.indexes[index].tree,
        index,
        spans,
    }))
}

/// Tasks that are asked for.
fn wanted_tasks(exec: &ExecCtx<'_>) -> usize {
    exec.limits.read_threads as usize * TASKS_PER_THREAD
}

/// Do tasks that evaluate `exprs` look up single rows or run queries?
fn needs_reader(exprs: &[&Expr], candidate: &Candidate<'_>) -> bool {
    exprs.iter().any(|e| fit::has_queries(e)) || candidate.spine.looks_up(candidate.cut)
}

/// Does on the statement's thread what comes before the tasks, which evaluate `exprs`: right sides of joins, subqueries that depend on
/// no row, rows that are not shared out. `None`: it must be done the serial way.
fn prepare(
    owner: Owner,
    node: &Node,
    candidate: &Candidate<'_>,
    wanted: Wanted,
    exprs: &[&Expr],
    env: &EvalEnv<'_>,
) -> SqlResult<Option<TableTask>> {
    let Some(exec) = several_threads(env) else {
        return Ok(None);
    };
    let Candidate { spine, cut, duty } = candidate;
    let mut given = Given::default();
    if needs_reader(exprs, candidate) {
        given.reader = exec.txn.reader();
        if given.reader.is_none() {
            return Ok(None);
        }
    }
    let mut constants = Vec::new();
    exprs
        .iter()
        .for_each(|e| fit::constant_subqueries(e, &mut constants));
    for query in constants {
        match Constant::of(query, env) {
            Ok(constant) => given.constants.push(constant),
            // Perhaps no row ever asks for it.
            Err(_) => return Ok(None),
        }
    }
    let passed = cut.passed();
    let Some(sides) = sides(spine, passed, wanted.width, env)? else {
        return Ok(None);
    };
    given.sides = sides;
    let input = match cut {
        _ if joins_nothing(spine, &given.sides) => Some(Input::nothing()),
        Cut::Table => table_input(spine, exec, env)?,
        Cut::Rows(passed) => {
            let before = Spine::node_before(node, *passed, spine.stages.len());
            let input = rows_input(before, wanted.width, exec, env)?;
            input.map(|(input, bytes)| {
                given.bytes = bytes;
                input
            })
        }
    };
    let Some(input) = input else {
        given.give_back(env);
        return Ok(None);
    };
    let left = exec
        .limits
        .memory_bytes
        .saturating_sub(env.states.memory.get());
    // What is larger than the budget of its operator goes the serial way, which writes to disk.
    let budget = match duty {
        Duty::Top => exec.limits.sort_bytes,
        Duty::Hash => exec.limits.join_bytes,
        _ => exec.limits.table_bytes,
    };
    let room = Room::new(budget.min(left / MEMORY_PART), exec.txn.memory());
    let input = (input, *cut);
    let bounds = (exec.limits, room);
    Ok(Some(TableTask::new(
        owner, input, given, wanted, bounds, env,
    )))
}

/// Reads the right sides of the joins behind the first `passed` stages. `None` if one does not fit.
fn sides(
    spine: &Spine<'_>,
    passed: usize,
    width: usize,
    env: &EvalEnv<'_>,
) -> SqlResult<Option<Vec<Kept>>> {
    let mut row = vec![Value::Null; width];
    let mut sides = Vec::with_capacity(spine.stages.len());
    for (nth, stage) in spine.stages.iter().enumerate() {
        let side = match stage {
            Stage::Join(join) if nth >= passed && !matches!(join.method, JoinMethod::Nested) => {
                match gather(join, &mut NodeState::new(&join.right), &mut row, env)? {
                    Gathered::Kept(kept) => kept,
                    Gathered::Apart(_) => {
                        sides.into_iter().for_each(|side: Kept| side.give_back(env));
                        return Ok(None);
                    }
                }
            }
            _ => Kept::Nothing,
        };
        sides.push(side);
    }
    Ok(Some(sides))
}

/// Is it known of an inner join that its right side has no row?
fn joins_nothing(spine: &Spine<'_>, sides: &[Kept]) -> bool {
    spine.stages.iter().zip(sides).any(|(stage, side)| {
        matches!(stage, Stage::Join(join) if join.kind != JoinType::Left) && side.is_empty()
    })
}

/// The parts of a table.
fn table_input(
    spine: &Spine<'_>,
    exec: &ExecCtx<'_>,
    env: &EvalEnv<'_>,
) -> SqlResult<Option<Input>> {
    let Some(target) = target(spine, exec, env)? else {
        return Ok(None);
    };
    let index = target.index;
    let rows = exec
        .txn
        .parallel_scan(target.tree, target.spans, wanted_tasks(exec))
        .map_err(|e| engine_error(&e))?;
    // Entries of other indexes are not what blocks speak of.
    let rows = match index {
        0 => rows.with_tests(filter::tests(spine.driver, target.def, env)),
        _ => rows,
    };
    Ok(Some(Input::Table { rows, index }))
}

/// The rows of a node, to be shared out, and the bytes they are charged with. `None` if they are too many.
fn rows_input(
    node: &Node,
    width: usize,
    exec: &ExecCtx<'_>,
    env: &EvalEnv<'_>,
) -> SqlResult<Option<(Input, u64)>> {
    let slots = slots_of(node);
    let (mut rows, mut row, mut bytes) = (Vec::new(), vec![Value::Null; width], 0);
    let mut state = NodeState::new(node);
    state.open(node, &mut row, env)?;
    while state.next(node, &mut row, env)? {
        let values: Box<[Value]> = slots.iter().map(|s| row[*s as usize].clone()).collect();
        bytes += row_bytes(&values);
        rows.push(values);
        if bytes > exec.limits.table_bytes {
            return Ok(None);
        }
    }
    if charge(env, bytes, Purpose::Hash).is_err() {
        return Ok(None);
    }
    let per_task = rows.len().div_ceil(wanted_tasks(exec)).max(1);
    let input = Input::Rows {
        rows,
        slots,
        per_task,
    };
    Ok(Some((input, bytes)))
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
struct CountTask(esker_engine::scan::ParallelCount, Tally);

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
    candidate: &Candidate<'_>,
    exec: &ExecCtx<'_>,
    env: &EvalEnv<'_>,
) -> SqlResult<Option<ParallelRows>> {
    let Some(target) = target(&candidate.spine, exec, env)? else {
        return Ok(None);
    };
    let count = exec
        .txn
        .parallel_count(target.tree, target.spans, wanted_tasks(exec))
        .map_err(|e| engine_error(&e))?;
    let (mut rows, mut from_metadata) = (count.counted(), count.counted());
    let tasks = count.tasks();
    let task = Arc::new(CountTask(count, Tally::new(0)));
    let tally = &task.1;
    work(exec, Arc::clone(&task), tasks, |counted| {
        if let Some(counted) = counted.map_err(|e| engine_error(&e))? {
            rows += counted.rows;
            from_metadata += counted.from_metadata;
            tally.note_read(counted.read);
        }
        Ok(true)
    })?;
    exec.txn.scans().note_counted(from_metadata);
    tally.note_counted(from_metadata);
    tally.note_passed([rows]);
    if let Some(profile) = &env.states.profile {
        let work = tally::Work {
            tasks,
            blocks_skipped: 0,
        };
        tally.report(profile, &block.source, Cut::Table, work);
    }
    let group = block.group.as_ref().expect("its duty says so");
    Ok(Some(ParallelRows {
        rows: Rows::Groups(Box::new(GroupTable::counted(group, rows))),
        bytes: 0,
    }))
}

/// How many warnings there were: the serial way warns of the same rows.
struct Warnings {
    count: u64,
    kept: usize,
}

impl Warnings {
    fn of(env: &EvalEnv<'_>) -> Self {
        Self {
            count: env.ctx.warning_count.get(),
            kept: env.ctx.warnings.borrow().len(),
        }
    }

    fn forget_later(self, env: &EvalEnv<'_>) {
        env.ctx.warning_count.set(self.count);
        env.ctx.warnings.borrow_mut().truncate(self.kept);
    }
}

/// Does the tasks and puts together what they bring. `None` if that takes too much memory.
fn read(
    task: TableTask,
    block: &BlockPlan,
    exec: &ExecCtx<'_>,
    env: &EvalEnv<'_>,
) -> SqlResult<Option<ParallelRows>> {
    let (tasks, task) = (task.tasks(), Arc::new(task));
    let mut groups = block
        .group
        .as_ref()
        .map(|_| Box::new(GroupTable::default()));
    let mut rows: Vec<Box<[Value]>> = Vec::new();
    let warnings = Warnings::of(env);
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
        warnings.forget_later(env);
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
fn build(task: TableTask, exec: &ExecCtx<'_>, env: &EvalEnv<'_>) -> SqlResult<Option<HashRows>> {
    let (tasks, task) = (task.tasks(), Arc::new(task));
    let mut table = HashRows::default();
    let warnings = Warnings::of(env);
    let is_complete = work(exec, Arc::clone(&task), tasks, |done| {
        done.give_to(env);
        match done.part? {
            Part::Records(part) if table.has_room() => table.take(&part).map(|()| true),
            _ => Ok(false),
        }
    });
    task.given().give_back(env);
    task.hand_over();
    if !is_complete? || charge(env, table.bytes(), Purpose::Hash).is_err() {
        warnings.forget_later(env);
        return Ok(None);
    }
    task.report(env);
    Ok(Some(table))
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
