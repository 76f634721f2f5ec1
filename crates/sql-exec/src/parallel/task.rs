//! One task of a parallel block: decodes its morsel, filters, joins, and feeds the sink.
//!
//! Neighbours: `parallel` makes a [`TableTask`] for all threads; `entries` takes rows out of what is read; the engine
//! calls with rows; `vectorized` evaluates them column by column where it can; `pipeline` joins; `sink` keeps what
//! arrives; `runtime_stats` counts.
//! **Invariants**: tasks share nothing but the plan, a copy of the statement's surroundings, and the count of bytes
//! with what is reserved for them; the error of a task is that of its first row that has one.

mod entries;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker_engine::scan::{ParallelScan, Piece, ScanWork, Visit};
use esker_engine::{MemoryBudget, Txn, View};
use esker_sql_catalog::catalog::{RowEvent, TableDef, Walk, Walked, note_walk};
use esker_sql_catalog::exec_error::{ExecResult, engine_error, interrupted};
use esker_sql_catalog::result::Mode;
use esker_sql_plan::expr::{Expr, NoVars};
use esker_sql_plan::plan::SplitPoint;
use esker_sql_plan::plan::profile::Profile;
use esker_sql_plan::plan::strategy::{Evaluation, ProbePipeline};
use esker_sql_plan::plan::{Access, AccessKind, BlockPlan, HashBy, Node, ScanPlan, Source};
use esker_types::ctx::{Raised, RegexpLimits};
use esker_types::{EvalCtx, EvalSettings, SessionInfo, SqlResult, Value};
use parking_lot::Mutex;

pub(super) use entries::Entries;

use super::super::join::Kept;
use super::super::join_table::KeyHash;
use super::super::memory::refund;
use super::super::scan::Verdict;
use super::super::subquery::Constant;
use super::super::{ExecCtx, Limits};
use super::pipeline::Pipeline;
use super::runtime_filter::{RuntimeFilter, RuntimeFilters};
use super::runtime_stats::{InputStats, RuntimeStats};
use super::sink::{Part, Sink, Wanted};
use super::vectorized::{Batch, Program};
use crate::{ExecEnv, Executor, RESERVATION_STEP, Reserved, SubqueryStates};

/// What a task brings.
pub(super) struct Done {
    pub(super) part: ExecResult<Part>,
    raised: Raised,
    /// What operators did that run within the task, when the statement is measured.
    profile: Option<Box<Profile>>,
}

impl Done {
    /// Moves the task's warnings into the statement's, and what was measured into its profile.
    pub(super) fn give_to(&self, env: &ExecEnv<'_>) {
        if let (Some(all), Some(own)) = (&env.states.profile, &self.profile) {
            all.take_in(own);
        }
        env.ctx.diagnostics.add_raised(&self.raised);
    }
}

/// What evaluation needs of the statement, copied.
struct Surroundings {
    settings: EvalSettings,
    strict_write: bool,
    regexp: RegexpLimits,
    params: Vec<Value>,
}

/// Work on bytes of values is looked at each time it has become so much.
const CHECK_BYTES: usize = 64 * 1024;

/// Values of this size ask for memory.
const LARGE_BYTES: usize = 1 << 20;
/// After work on so many bytes a task asks whether there is memory to go on.
const LOOK_AT_MEMORY: usize = 4 << 20;

/// A session that only knows whether the statement may go on, and whether there is memory: functions that ask for more
/// do not come here.
struct TaskSession<'a, 'g> {
    go_on: &'a RefCell<&'g mut dyn FnMut() -> bool>,
    regexp: RegexpLimits,
    bytes: Cell<usize>,
    /// Bytes worked on since it was asked what memory there is.
    worked: Cell<usize>,
    /// It was asked.
    has_asked: Cell<bool>,
    budget: &'a MemoryBudget,
}

impl TaskSession<'_, '_> {
    fn ask_for(&self, bytes: usize) -> SqlResult<()> {
        self.has_asked.set(true);
        let admitted = self.budget.admit_values(bytes);
        admitted.map_err(|e| engine_error(&e))
    }
}

impl SessionInfo for TaskSession<'_, '_> {
    fn go_on(&self, bytes: usize) -> SqlResult<()> {
        let sum = self.bytes.get().saturating_add(bytes);
        if sum < CHECK_BYTES {
            self.bytes.set(sum);
            return Ok(());
        }
        self.bytes.set(0);
        if !(self.go_on.borrow_mut())() {
            return Err(interrupted());
        }
        let worked = self.worked.get().saturating_add(sum);
        let is_due = worked >= LOOK_AT_MEMORY;
        self.worked.set(if is_due { 0 } else { worked });
        if is_due { self.ask_for(0) } else { Ok(()) }
    }
    fn may_make(&self, bytes: usize) -> SqlResult<()> {
        match bytes < LARGE_BYTES {
            true => Ok(()),
            false => self.ask_for(bytes),
        }
    }
    fn regexp_limits(&self) -> RegexpLimits {
        self.regexp
    }
}

/// Whose rows are wanted.
pub(super) enum Consumer {
    /// Rows of a block's joins.
    Block(Arc<BlockPlan>),
    /// Rows of the right side of a hash join, their keys, and how they compare and are spread over parts.
    Right {
        node: Arc<Node>,
        keys: Vec<Expr>,
        by: Vec<HashBy>,
        hash: KeyHash,
    },
}

/// What the tasks share among them.
pub(super) enum Input {
    /// A table, by an index.
    Table {
        rows: ParallelScan,
        index: usize,
        /// If only few keys can be wanted: how many.
        keys: Option<usize>,
    },
    /// Rows that were read before, with the slots they fill.
    Rows {
        rows: Vec<Box<[Value]>>,
        slots: Vec<u32>,
        per_task: usize,
    },
}

/// What the tasks have from the statement's thread.
#[derive(Default)]
pub(super) struct SharedInputs {
    /// Right rows of the joins, by stage.
    pub build_sides: Vec<Kept>,
    /// What of the rows of the table finds something in later joins.
    pub filters: Vec<RuntimeFilter>,
    /// Those of all joins behind the rows that are shared out.
    pub later_filters: Vec<RuntimeFilter>,
    /// Results of subqueries that depend on no row.
    pub constants: Vec<Constant>,
    /// What sees the statement's snapshot, where single rows are looked up.
    pub reader: Option<Txn>,
    /// Bytes charged for the rows that are shared out, and for filters.
    pub bytes: u64,
}

impl Input {
    /// No row.
    pub(super) fn nothing() -> Self {
        Self::Rows {
            rows: Vec::new(),
            slots: Vec::new(),
            per_task: 1,
        }
    }
}

impl SharedInputs {
    /// Gives the memory back that was charged for it.
    pub(super) fn give_back(&self, env: &ExecEnv<'_>) {
        self.build_sides
            .iter()
            .for_each(|s| s.clone().give_back(env));
        refund(env, self.bytes);
    }
}

/// Reading and joining, for any thread.
pub(super) struct TableTask {
    consumer: Consumer,
    input: Input,
    cut: SplitPoint,
    given: SharedInputs,
    wanted: Wanted,
    surroundings: Surroundings,
    limits: Limits,
    room: ResultMemory,
    /// How to judge the rows of a table by columns.
    program: Option<Program>,
    /// Whether operators that run within a task are measured.
    is_measured: bool,
    stats: RuntimeStats,
}

/// Memory for the results of all tasks.
pub(super) struct ResultMemory {
    bytes: AtomicU64,
    limit_bytes: u64,
    budget: Arc<MemoryBudget>,
    reserved: Mutex<Reserved>,
}

impl ResultMemory {
    pub(super) fn new(limit_bytes: u64, budget: &Arc<MemoryBudget>) -> Self {
        ResultMemory {
            bytes: AtomicU64::new(0),
            limit_bytes,
            budget: Arc::clone(budget),
            reserved: Mutex::default(),
        }
    }

    /// Notes bytes of results, or of results that are gone if negative; false if they are too many, for the statement
    /// or for the server.
    fn take(&self, bytes: i64) -> bool {
        let Ok(bytes) = u64::try_from(bytes) else {
            self.bytes
                .fetch_sub(bytes.unsigned_abs(), Ordering::Relaxed);
            return true;
        };
        if bytes == 0 {
            return true;
        }
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let all = before + bytes;
        let is_in_step = before / RESERVATION_STEP == all / RESERVATION_STEP;
        all <= self.limit_bytes
            && (is_in_step || self.reserved.lock().raise(all, &self.budget).is_ok())
    }

    /// Bytes of all results. From here on the statement itself answers for them.
    fn hand_over(&self) -> u64 {
        self.reserved.lock().lower(0);
        self.bytes.load(Ordering::Relaxed)
    }
}

impl TableTask {
    pub(super) fn new(
        consumer: Consumer,
        (input, cut, evaluation): (Input, SplitPoint, Evaluation),
        given: SharedInputs,
        wanted: Wanted,
        (limits, room): (Limits, ResultMemory),
        env: &ExecEnv<'_>,
    ) -> Self {
        let ctx = env.ctx;
        let stages = given.build_sides.len();
        let program = match input {
            Input::Table { index, .. } => Program::of(&consumer, evaluation, index, env),
            Input::Rows { .. } => None,
        };
        debug_assert!(cut.passed() <= stages);
        TableTask {
            program,
            // Such operators have a reader. What tasks do themselves is only counted.
            is_measured: env.states.profile.is_some() && given.reader.is_some(),
            stats: RuntimeStats::new(stages),
            consumer,
            input,
            cut,
            given,
            wanted,
            surroundings: Surroundings {
                settings: ctx.settings.clone(),
                strict_write: ctx.diagnostics.strict_write.get(),
                regexp: env.ctx.session.regexp_limits(),
                params: env.params.to_vec(),
            },
            // What runs within a task is not shared out again.
            limits: Limits {
                read_threads: 1,
                splits: false,
                ..limits
            },
            room,
        }
    }

    pub(super) fn tasks(&self) -> usize {
        match &self.input {
            Input::Table { rows, .. } => rows.tasks(),
            Input::Rows { rows, per_task, .. } => rows.len().div_ceil(*per_task),
        }
    }

    /// Bytes of the results of all tasks; the caller charges them.
    pub(super) fn hand_over(&self) -> u64 {
        self.room.hand_over()
    }

    /// Slots that the kept rows fill.
    pub(super) fn slots(&self) -> &[u32] {
        &self.wanted.slots
    }

    pub(super) fn given(&self) -> &SharedInputs {
        &self.given
    }

    /// Tells the profile of a statement that is measured what all tasks did.
    pub(super) fn report(&self, env: &ExecEnv<'_>) {
        self.note_calls();
        if let Some(profile) = &env.states.profile {
            let (blocks_skipped, keys) = match &self.input {
                Input::Table { rows, keys, .. } => (rows.blocks_skipped(), *keys),
                Input::Rows { .. } => (0, None),
            };
            let work = InputStats {
                tasks: self.tasks(),
                blocks_skipped,
                keys,
            };
            self.stats.report(profile, self.node(), self.cut, work);
        }
    }

    /// What the tasks have read, as calls of the statement's thread.
    fn note_calls(&self) {
        let Input::Table { index, keys, .. } = &self.input else {
            return;
        };
        let walk = match (keys, index) {
            (Some(_), _) => Walk::Unique,
            (None, 0) => Walk::Table,
            (None, _) => Walk::Index,
        };
        let walked = Walked {
            scans: 1,
            ended: 1,
            keys: keys.unwrap_or(0) as u64,
            rows: self.stats.rows_read(),
        };
        note_walk(walk, walked);
    }

    fn node(&self) -> &Node {
        match &self.consumer {
            Consumer::Block(block) => &block.source,
            Consumer::Right { node, .. } => node,
        }
    }

    fn probe(&self) -> ProbePipeline<'_> {
        ProbePipeline::of(self.node()).expect("it was cut by its stages")
    }

    fn do_task(
        &self,
        task: usize,
        ctx: &EvalCtx<'_>,
        states: &SubqueryStates,
        go_on: &mut dyn FnMut() -> bool,
    ) -> ExecResult<Part> {
        debug_assert!(task < self.tasks());
        for constant in &self.given.constants {
            constant.give_to(states);
        }
        let go_on = RefCell::new(go_on);
        let check = || match (go_on.borrow_mut())() {
            true => Ok(()),
            false => Err(interrupted()),
        };
        let exec =
            self.given.reader.as_ref().map(|reader| {
                ExecCtx::new(reader, View::Snapshot, Mode::Thread, self.limits, &check)
            });
        let executor = Executor::new(exec.as_ref(), states);
        let env = executor.env(ctx, &self.surroundings.params, &NoVars);
        let probe = self.probe();
        let passed = self.cut.passed();
        let mut flow = Flow {
            pipeline: Pipeline::new(
                &probe.stages[passed..],
                &self.given.build_sides[passed..],
                &self.given.later_filters,
            ),
            read: 0,
            batched: 0,
            row: vec![Value::Null; self.wanted.width],
            filters: RuntimeFilters::new(&self.given.filters, probe.source),
            env: &env,
            sink: Sink::new(&self.consumer, &self.wanted, &probe),
            room: &self.room,
            uncounted: 0,
            is_too_large: false,
        };
        let taken = match &self.input {
            Input::Table { rows, index, .. } => {
                self.read(rows, task, *index, probe.source, &mut flow, &mut || {
                    (go_on.borrow_mut())()
                })
            }
            Input::Rows {
                rows,
                slots,
                per_task,
            } => {
                let rows = rows.chunks(*per_task).nth(task).unwrap_or_default();
                flow.take_up(rows, slots, &check)
            }
        };
        let before = std::iter::repeat_n(0, passed);
        self.stats.note_read(flow.read);
        self.stats.note_batched(flow.batched);
        self.stats.note_filtered(flow.filters.dropped);
        self.stats
            .note_passed(before.chain(flow.pipeline.rows_passed()));
        taken?;
        flow.count_rest();
        Ok(match flow.is_too_large {
            true => Part::TooLarge,
            false => flow.sink.finish(),
        })
    }

    /// Are keys looked up in place of reading the whole table?
    fn looks_up(&self) -> bool {
        matches!(self.input, Input::Table { keys: Some(_), .. })
    }

    /// Reads a task's part of a table.
    fn read(
        &self,
        rows: &ParallelScan,
        task: usize,
        index: usize,
        scan: &ScanPlan,
        flow: &mut Flow<'_>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> ExecResult<()> {
        let (def, access) = stored(scan);
        let is_full = matches!(access.kind, AccessKind::Full) && !self.looks_up();
        let before = flow.read;
        let entries = Entries::of(def, access, index, scan);
        let program = self.program.as_ref();
        let mut reading = Reading {
            of: (scan, def),
            entries: &entries,
            batch: program.map(|program| Batch::new(program, (scan, def), &entries)),
            flow,
            failed: Ok(()),
        };
        let ended = rows.read(task, &mut reading, go_on);
        let Reading {
            batch,
            flow,
            failed,
            ..
        } = reading;
        let counts = def.accesses(index, is_full);
        counts.note(RowEvent::Fetch, flow.read - before);
        failed?;
        let is_complete = ended.map_err(|e| engine_error(&e))?;
        match batch {
            Some(batch) if is_complete => batch.finish(flow),
            _ => Ok(()),
        }
    }
}

/// Where the stored rows of a task arrive.
struct Reading<'r, 'f> {
    of: (&'r ScanPlan, &'r TableDef),
    entries: &'r Entries,
    batch: Option<Batch<'r>>,
    flow: &'r mut Flow<'f>,
    failed: ExecResult<()>,
}

impl Reading<'_, '_> {
    fn by_row(&mut self, entry: (&[u8], &[u8])) -> ExecResult<bool> {
        let ((scan, def), flow) = (self.of, &mut *self.flow);
        let verdict = self.entries.judge(scan, def, entry, 0, flow)?;
        flow.follow(verdict)
    }

    /// False if no more rows are wanted.
    fn follow(&mut self, goes_on: ExecResult<bool>) -> bool {
        goes_on.unwrap_or_else(|e| {
            self.failed = Err(e);
            false
        })
    }
}

impl Visit for Reading<'_, '_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.flow.read += 1;
        let goes_on = match &mut self.batch {
            Some(batch) => batch.add((key, value), self.flow),
            None => self.by_row((key, value)),
        };
        self.follow(goes_on)
    }

    fn piece(&self) -> Option<Piece> {
        match self.entries {
            Entries::Rows => Some(Piece::Value),
            Entries::Covering { .. } => Some(Piece::Whole),
            Entries::Leading { .. } => None,
        }
    }

    fn puts(&mut self, pieces: &[&[u8]]) -> bool {
        self.flow.read += pieces.len() as u64;
        let goes_on = match &mut self.batch {
            Some(batch) => batch.add_pieces(pieces, self.flow),
            None => pieces.iter().try_fold(true, |goes_on, piece| {
                Ok(goes_on && self.by_row(self.entries.entry_of(piece))?)
            }),
        };
        self.follow(goes_on)
    }

    fn may_leave_out(&mut self, key: &[u8], value: &[u8]) -> bool {
        let ((scan, def), flow) = (self.of, &mut *self.flow);
        let ctx = flow.env.ctx;
        let mark = ctx.diagnostics.mark();
        let verdict = self.entries.judge(scan, def, (key, value), 0, flow);
        // What fails, or warns, does not where the row is not looked at.
        ctx.diagnostics.undo_to(mark);
        !matches!(verdict, Ok(Verdict::Take))
    }
}

fn stored(scan: &ScanPlan) -> (&TableDef, &Access) {
    match &scan.source {
        Source::Base { def, access, .. } => (def, access),
        _ => unreachable!("only stored tables are cut"),
    }
}

/// The row of a task, on its way.
pub(super) struct Flow<'f> {
    pub pipeline: Pipeline<'f>,
    /// Rows that were read, or taken of those that are shared out.
    read: u64,
    /// Rows that were judged in batches.
    pub batched: u64,
    pub row: Vec<Value>,
    filters: RuntimeFilters<'f>,
    pub env: &'f ExecEnv<'f>,
    pub sink: Sink<'f>,
    room: &'f ResultMemory,
    /// Bytes of results that were not noted yet: all threads count in one place.
    uncounted: i64,
    is_too_large: bool,
}

/// So many bytes of results are noted at once.
const COUNTED_BYTES: u64 = 16 << 10;

impl Flow<'_> {
    /// Sends the row on if it was taken; false if no more rows are wanted.
    pub fn follow(&mut self, verdict: Verdict) -> ExecResult<bool> {
        match verdict {
            Verdict::Drop => Ok(true),
            Verdict::Take => self.push(),
        }
    }

    /// Decodes a stored row of which the first `met` conditions are known to be true, and evaluates the others.
    pub fn judge(
        &mut self,
        scan: &ScanPlan,
        def: &TableDef,
        met: usize,
        stored: &[u8],
    ) -> ExecResult<Verdict> {
        self.filters
            .judge(scan, def, met, stored, &mut self.row, self.env)
    }

    /// Sends it on; false if no more rows are wanted.
    fn push(&mut self) -> ExecResult<bool> {
        let (env, sink, room) = (self.env, &mut self.sink, self.room);
        let (uncounted, is_too_large) = (&mut self.uncounted, &mut self.is_too_large);
        self.pipeline.push(&mut self.row, env, &mut |row| {
            *uncounted += sink.add(row, env)?;
            if uncounted.unsigned_abs() >= COUNTED_BYTES {
                *is_too_large |= !room.take(std::mem::take(uncounted));
            }
            Ok(!*is_too_large)
        })
    }

    /// Notes the rest of the bytes.
    fn count_rest(&mut self) {
        self.is_too_large |= !self.room.take(std::mem::take(&mut self.uncounted));
    }

    /// Notes bytes of results; false if they are too many.
    pub fn charge(&mut self, bytes: u64) -> bool {
        self.is_too_large |= !self.room.take(bytes as i64);
        !self.is_too_large
    }

    /// Sends rows on that were read before.
    fn take_up(
        &mut self,
        rows: &[Box<[Value]>],
        slots: &[u32],
        check: &dyn Fn() -> SqlResult<()>,
    ) -> ExecResult<()> {
        for values in rows {
            self.read += 1;
            debug_assert_eq!(slots.len(), values.len());
            for (slot, value) in slots.iter().zip(values) {
                self.row[*slot as usize].clone_from(value);
            }
            if !self.push()? || check().is_err() {
                break;
            }
        }
        Ok(())
    }
}

impl ScanWork for TableTask {
    type Output = Done;

    fn run(&self, task: usize, go_on: &mut dyn FnMut() -> bool) -> Done {
        self.stats.note_thread();
        let around = &self.surroundings;
        let go_on = RefCell::new(go_on);
        let session = TaskSession {
            go_on: &go_on,
            regexp: around.regexp,
            bytes: Cell::new(0),
            worked: Cell::new(0),
            has_asked: Cell::new(false),
            budget: &self.room.budget,
        };
        let ctx = EvalCtx::new(around.settings.clone(), &session);
        ctx.diagnostics.strict_write.set(around.strict_write);
        let mut states = SubqueryStates::default();
        states.profile = self.is_measured.then(Box::default);
        let part = self.do_task(task, &ctx, &states, &mut || (go_on.borrow_mut())());
        if session.has_asked.get() {
            self.room.budget.values_are_gone();
        }
        Done {
            part,
            profile: states.profile,
            raised: ctx.diagnostics.take(),
        }
    }
}
