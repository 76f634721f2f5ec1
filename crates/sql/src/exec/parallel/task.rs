//! What a thread does with its share of a table: decode, filter, and keep what the block still needs of it.
//!
//! Neighbours: `parallel::run` makes a [`TableTask`] for all threads; `groups` holds what is aggregated; the engine calls
//! with rows.
//! **Invariants**: nothing is shared between tasks but the plan, a copy of the statement's surroundings, and the count of bytes
//! with what is reserved for them;
//! the error of a task is that of its first row that has one.

use std::collections::{BinaryHeap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker_engine::MemoryBudget;
use esker_engine::scan::{ParallelScan, ScanWork};
use esker_types::collation::Collation;
use esker_types::ctx::MAX_WARNINGS;
use esker_types::{EvalCtx, SessionInfo, SqlMode, SqlResult, Value, Warning};
use jiff::tz::TimeZone;
use parking_lot::Mutex;

use super::super::memory::row_bytes;
use super::super::rowkey;
use super::super::scan::{Cover, Verdict, judge};
use super::super::sort::order_key;
use super::groups::GroupTable;
use crate::catalog::TableDef;
use crate::exec_error::engine_error;
use crate::expr::{EvalEnv, NoVars, RESERVATION_STEP, Reserved, SubqueryStates};
use crate::plan::{Access, BlockPlan, Node, ScanPlan, Source};

/// What is done with the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// Their number is all that is wanted.
    Count,
    /// They are grouped, or aggregated as one group.
    Group,
    /// Of rows with the same select list the first is kept.
    Distinct,
    /// The first n of an order are kept.
    Top,
}

/// What a task brings.
pub(super) struct Done {
    pub(super) part: SqlResult<Part>,
    warnings: Vec<Warning>,
    warning_count: u64,
}

/// The result of a share of the rows.
pub(super) enum Part {
    Groups(Box<GroupTable>),
    Rows(Vec<Box<[Value]>>),
    /// All tasks together need too much memory.
    TooLarge,
}

impl Done {
    /// Moves the task's warnings into the statement's.
    pub(super) fn give_warnings(&self, ctx: &EvalCtx<'_>) {
        ctx.warning_count
            .set(ctx.warning_count.get() + self.warning_count);
        let mut kept = ctx.warnings.borrow_mut();
        let room = MAX_WARNINGS.saturating_sub(kept.len());
        kept.extend(self.warnings.iter().take(room).cloned());
    }
}

/// What evaluation needs of the statement, copied.
struct Surroundings {
    sql_mode: SqlMode,
    time_zone: TimeZone,
    now_micros: i64,
    div_precision_increment: u8,
    max_allowed_packet: u64,
    group_concat_max_len: u64,
    collation_connection: Collation,
    strict_write: bool,
    params: Vec<Value>,
}

/// A session of which nothing is asked: functions that would ask do not come here.
struct NoSession;

impl SessionInfo for NoSession {
    fn connection_id(&self) -> u64 {
        0
    }
    fn database(&self) -> Option<&str> {
        None
    }
    fn user(&self) -> String {
        String::new()
    }
    fn current_user(&self) -> String {
        String::new()
    }
    fn version(&self) -> &str {
        ""
    }
    fn last_insert_id(&self) -> u64 {
        0
    }
    fn set_last_insert_id(&self, _id: u64) {}
    fn row_count(&self) -> i64 {
        0
    }
    fn found_rows(&self) -> u64 {
        0
    }
    fn random(&self) -> u64 {
        0
    }
    fn killed(&self) -> bool {
        false
    }
    fn get_lock(&self, _name: &str, _timeout_secs: f64) -> Option<bool> {
        None
    }
    fn release_lock(&self, _name: &str) -> Option<bool> {
        None
    }
    fn lock_holder(&self, _name: &str) -> Option<u64> {
        None
    }
}

/// The reading of a table, for any thread.
pub(super) struct TableTask {
    block: Arc<BlockPlan>,
    rows: ParallelScan,
    /// The index that is read: the plan's, or the clustered one.
    index: usize,
    duty: Duty,
    /// Rows that are kept of an order.
    keep: usize,
    surroundings: Surroundings,
    room: Room,
}

/// Memory for the results of all tasks.
pub(super) struct Room {
    bytes: AtomicU64,
    limit_bytes: u64,
    budget: Arc<MemoryBudget>,
    reserved: Mutex<Reserved>,
}

impl Room {
    pub(super) fn new(limit_bytes: u64, budget: &Arc<MemoryBudget>) -> Self {
        Room {
            bytes: AtomicU64::new(0),
            limit_bytes,
            budget: Arc::clone(budget),
            reserved: Mutex::default(),
        }
    }

    /// Notes bytes of results; false if they are too many, for the statement or for the server.
    fn take(&self, bytes: u64) -> bool {
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
        block: &Arc<BlockPlan>,
        rows: ParallelScan,
        index: usize,
        duty: Duty,
        keep: u64,
        room: Room,
        env: &EvalEnv<'_>,
    ) -> Self {
        let ctx = env.ctx;
        TableTask {
            block: Arc::clone(block),
            rows,
            index,
            duty,
            keep: usize::try_from(keep).unwrap_or(usize::MAX),
            surroundings: Surroundings {
                sql_mode: ctx.sql_mode,
                time_zone: ctx.time_zone.clone(),
                now_micros: ctx.now_micros,
                div_precision_increment: ctx.div_precision_increment,
                max_allowed_packet: ctx.max_allowed_packet,
                group_concat_max_len: ctx.group_concat_max_len,
                collation_connection: ctx.collation_connection,
                strict_write: ctx.strict_write.get(),
                params: env.params.to_vec(),
            },
            room,
        }
    }

    pub(super) fn tasks(&self) -> usize {
        self.rows.tasks()
    }

    /// Bytes of the results of all tasks; the caller charges them.
    pub(super) fn hand_over(&self) -> u64 {
        self.room.hand_over()
    }

    /// Slots that the kept rows fill.
    pub(super) fn slots(&self) -> Vec<u32> {
        self.plan()
            .0
            .columns
            .iter()
            .map(|(_, slot)| *slot)
            .collect()
    }

    fn plan(&self) -> (&ScanPlan, &TableDef, &Access) {
        match &self.block.source {
            Node::Scan(scan) => match &scan.source {
                Source::Base { def, access, .. } => (scan, def, access),
                _ => unreachable!("only stored tables are read in parallel"),
            },
            _ => unreachable!("only single tables are read in parallel"),
        }
    }

    fn do_task(
        &self,
        task: usize,
        ctx: &EvalCtx<'_>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> SqlResult<Part> {
        let states = SubqueryStates::default();
        let env = EvalEnv {
            ctx,
            params: &self.surroundings.params,
            vars: &NoVars,
            outer: None,
            exec: None,
            states: &states,
        };
        let (scan, def, access) = self.plan();
        let covered = (self.index != 0).then(|| Cover::new(def, access, scan));
        let mut row = vec![Value::Null; self.block.width as usize];
        let mut kept = Kept::new(self, scan);
        let mut failed = Ok(());
        let mut is_too_large = false;
        let ended = self.rows.read(
            task,
            |key, value| {
                let taken = match &covered {
                    None => judge(scan, def, key, value, &mut row, &env),
                    Some(cover) => cover.judge(scan, def, self.index, key, value, &mut row, &env),
                };
                let added = match taken {
                    Ok(Verdict::Drop) => return true,
                    Ok(Verdict::Take) => kept.add(&row, &env),
                    Err(e) => Err(e),
                };
                match added {
                    Ok(bytes) => {
                        is_too_large = !self.room.take(bytes);
                        !is_too_large
                    }
                    Err(e) => {
                        failed = Err(e);
                        false
                    }
                }
            },
            go_on,
        );
        failed?;
        ended.map_err(|e| engine_error(&e))?;
        Ok(match is_too_large {
            true => Part::TooLarge,
            false => kept.finish(),
        })
    }
}

impl ScanWork for TableTask {
    type Output = Done;

    fn run(&self, task: usize, go_on: &mut dyn FnMut() -> bool) -> Done {
        let around = &self.surroundings;
        let ctx = EvalCtx {
            sql_mode: around.sql_mode,
            time_zone: &around.time_zone,
            now_micros: around.now_micros,
            // Functions that ask for it are volatile and do not come here.
            wall_micros: &|| around.now_micros,
            div_precision_increment: around.div_precision_increment,
            max_allowed_packet: around.max_allowed_packet,
            group_concat_max_len: around.group_concat_max_len,
            collation_connection: around.collation_connection,
            session: &NoSession,
            strict_write: around.strict_write.into(),
            warnings: Vec::new().into(),
            warning_count: 0.into(),
        };
        let part = self.do_task(task, &ctx, go_on);
        Done {
            part,
            warnings: ctx.warnings.take(),
            warning_count: ctx.warning_count.get(),
        }
    }
}

/// What a task keeps of its rows.
enum Kept<'p> {
    Groups(&'p BlockPlan, Box<GroupTable>),
    Distinct {
        block: &'p BlockPlan,
        scan: &'p ScanPlan,
        seen: HashSet<Box<[u8]>>,
        key: Vec<u8>,
        rows: Vec<Box<[Value]>>,
    },
    Top {
        block: &'p BlockPlan,
        scan: &'p ScanPlan,
        limit: usize,
        top: BinaryHeap<Ordered>,
        arrivals: u64,
        key: Vec<u8>,
    },
}

/// A row at its place in an order; the largest is the first to go.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Ordered {
    key: Box<[u8]>,
    arrival: u64,
    row: Row,
}

/// A row that takes no part in the order.
struct Row(Box<[Value]>);

impl PartialEq for Row {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Row {}
impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Row {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

/// How many warnings there were: a row that is kept is evaluated again by the statement's thread, which then warns.
struct Warned<'c> {
    ctx: &'c EvalCtx<'c>,
    kept: usize,
    count: u64,
}

impl<'c> Warned<'c> {
    fn of(ctx: &'c EvalCtx<'c>) -> Self {
        Warned {
            ctx,
            kept: ctx.warnings.borrow().len(),
            count: ctx.warning_count.get(),
        }
    }

    fn forget_later(&self) {
        if self.ctx.warning_count.get() != self.count {
            self.ctx.warning_count.set(self.count);
            self.ctx.warnings.borrow_mut().truncate(self.kept);
        }
    }
}

fn pick(scan: &ScanPlan, row: &[Value]) -> Box<[Value]> {
    let slots = scan.columns.iter().map(|(_, slot)| *slot as usize);
    slots.map(|slot| row[slot].clone()).collect()
}

impl<'p> Kept<'p> {
    fn new(task: &'p TableTask, scan: &'p ScanPlan) -> Self {
        let block = &*task.block;
        match task.duty {
            Duty::Group | Duty::Count => Self::Groups(block, Box::default()),
            Duty::Distinct => Self::Distinct {
                block,
                scan,
                seen: HashSet::new(),
                key: Vec::new(),
                rows: Vec::new(),
            },
            Duty::Top => Self::Top {
                block,
                scan,
                limit: task.keep,
                top: BinaryHeap::new(),
                arrivals: 0,
                key: Vec::new(),
            },
        }
    }

    /// Takes a row; gives the bytes that took.
    fn add(&mut self, row: &[Value], env: &EvalEnv<'_>) -> SqlResult<u64> {
        match self {
            Self::Groups(block, groups) => {
                let plan = block.group.as_ref().expect("its duty says so");
                groups.add(plan, row, env)
            }
            Self::Distinct {
                block,
                scan,
                seen,
                key,
                rows,
            } => {
                let warned = Warned::of(env.ctx);
                key.clear();
                for expr in &block.output {
                    rowkey::encode(&*expr.eval_ref(row, env)?, &expr.ty, false, key);
                }
                if seen.contains(key.as_slice()) {
                    return Ok(0);
                }
                warned.forget_later();
                seen.insert(key.as_slice().into());
                let values = pick(scan, row);
                let bytes = key.len() as u64 + 32 + row_bytes(&values);
                rows.push(values);
                Ok(bytes)
            }
            Self::Top {
                block,
                scan,
                limit,
                top,
                arrivals,
                key,
            } => {
                let warned = Warned::of(env.ctx);
                order_key(&block.order, row, env, key)?;
                if top.len() >= *limit && top.peek().is_none_or(|worst| **key >= *worst.key) {
                    return Ok(0);
                }
                warned.forget_later();
                let values = pick(scan, row);
                let bytes = key.len() as u64 + 32 + row_bytes(&values);
                top.push(Ordered {
                    key: key.as_slice().into(),
                    arrival: *arrivals,
                    row: Row(values),
                });
                *arrivals += 1;
                if top.len() > *limit {
                    top.pop();
                    // What goes made room for what came.
                    return Ok(0);
                }
                Ok(bytes)
            }
        }
    }

    fn finish(self) -> Part {
        match self {
            Self::Groups(_, groups) => Part::Groups(groups),
            Self::Distinct { rows, .. } => Part::Rows(rows),
            Self::Top { top, .. } => {
                let sorted = top.into_sorted_vec().into_iter();
                Part::Rows(sorted.map(|ordered| ordered.row.0).collect())
            }
        }
    }
}
