//! What executing a statement may reach: the transaction, limits, kill flag, and what to do when a row
//! is locked.
//!
//! Neighbours: `session` and `dml` build one per statement step; every operator of `exec` gets it
//! through [`ExecEnv`](crate::ExecEnv).
//! **Invariants**: rows are read through [`ExecCtx::view`]; only in inline mode a lock conflict unwinds, as
//! [`ExecError::Wait`] with its ticket.

use std::cell::Cell;
use std::time::{Duration, Instant};

use esker_engine::{LockMode, LockOutcome, TreeId, Txn, View, WaitPolicy};
use esker_sql_catalog::exec_error::{ExecError, ExecResult, engine_error};
use esker_sql_catalog::result::Mode;
use esker_types::SqlResult;

use super::spill::TempFiles;

/// Rows before the first look at whether the statement may go on.
const FIRST_LOOK: u32 = 16;
/// Most rows between two looks.
const MOST_ROWS: u32 = 256;
const _: () = assert!(0 < FIRST_LOOK && FIRST_LOOK <= MOST_ROWS);
/// Rows that took less than this since the last look are quick: it may be longer to the next one.
const QUICK: Duration = Duration::from_micros(100);
/// Rows that took more than this are slow: the next look comes sooner.
const SLOW: Duration = Duration::from_millis(1);

/// Bounds on what one statement may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of materialised rows, hash tables and sorts.
    pub memory_bytes: u64,
    /// Bytes one sort keeps in memory.
    pub sort_bytes: u64,
    /// Bytes one join keeps in memory.
    pub join_bytes: u64,
    /// Bytes of one set of groups, of one set of distinct rows, or of one shared table in memory.
    pub table_bytes: u64,
    /// How long to wait for a row lock.
    pub lock_wait: Duration,
    /// Rounds of a recursive common table expression.
    pub recursion_depth: u64,
    /// Threads that read a table together, the statement's own included.
    pub read_threads: u32,
    /// May blocks be split into tasks?
    pub splits: bool,
}

/// Execution context of one statement step.
pub struct ExecCtx<'a> {
    /// The transaction rows are read and locked in.
    pub txn: &'a Txn,
    /// What plain reads see; locking reads always use the latest versions.
    pub view: View,
    /// May a wait block?
    pub mode: Mode,
    /// Bounds.
    pub limits: Limits,
    /// Fails when the statement was killed or ran out of time.
    pub check_killed: &'a dyn Fn() -> SqlResult<()>,
    /// Where operators put what does not fit; `None`: nowhere.
    pub temp: Option<&'a TempFiles>,
    rows: Cell<u32>,
    rows_per_look: Cell<u32>,
    looked: Cell<Option<Instant>>,
    /// A look at every row.
    slow_rows: bool,
}

impl<'a> ExecCtx<'a> {
    /// A context.
    pub fn new(
        txn: &'a Txn,
        view: View,
        mode: Mode,
        limits: Limits,
        check_killed: &'a dyn Fn() -> SqlResult<()>,
    ) -> Self {
        Self {
            txn,
            view,
            mode,
            limits,
            check_killed,
            temp: None,
            rows: Cell::new(0),
            rows_per_look: Cell::new(FIRST_LOOK),
            looked: Cell::new(None),
            slow_rows: false,
        }
    }

    /// Lets operators put what does not fit into temporary files.
    pub fn with_temp(mut self, temp: Option<&'a TempFiles>) -> Self {
        self.temp = temp;
        self
    }

    /// Asks at every row whether the statement was killed, if `slow`: a function that waits per row
    /// returns at once when it is killed, and the statement must not go on to the next row.
    pub fn with_slow_rows(mut self, slow: bool) -> Self {
        self.slow_rows = slow;
        if slow {
            self.rows_per_look.set(1);
        }
        self
    }

    /// Counts a row that was looked at; now and then asks whether the statement may go on.
    #[inline]
    pub fn tick(&self) -> SqlResult<()> {
        let n = self.rows.get() + 1;
        if n < self.rows_per_look.get() {
            self.rows.set(n);
            return Ok(());
        }
        self.rows.set(0);
        self.look()
    }

    /// Asks, and chooses after how many rows to ask again: rows differ in what they cost by a factor of a million.
    #[cold]
    fn look(&self) -> SqlResult<()> {
        if !self.slow_rows {
            let now = Instant::now();
            let rows = self.rows_per_look.get();
            debug_assert!((1..=MOST_ROWS).contains(&rows));
            if let Some(before) = self.looked.replace(Some(now)) {
                let took = now.duration_since(before);
                if took < QUICK {
                    self.rows_per_look.set((rows * 2).min(MOST_ROWS));
                } else if took > SLOW {
                    self.rows_per_look.set((rows / 4).max(1));
                }
            }
        }
        (self.check_killed)()
    }

    /// Locks a row key. `Ok(true)`: granted (if `new`, by this call); `Ok(false)`: skipped.
    pub fn lock_row(
        &self,
        tree: TreeId,
        key: &[u8],
        mode: LockMode,
        policy: WaitPolicy,
    ) -> ExecResult<RowLock> {
        self.granted(|| {
            let outcome = self.txn.lock(tree, key, mode, policy);
            Ok(outcome.map_err(|e| engine_error(&e))?)
        })
    }

    /// Asks for a lock until it is granted or skipped; waits in between.
    pub fn granted(&self, mut ask: impl FnMut() -> ExecResult<LockOutcome>) -> ExecResult<RowLock> {
        loop {
            let ticket = match ask()? {
                LockOutcome::Granted { new } => return Ok(RowLock::Granted { new }),
                LockOutcome::Skipped => return Ok(RowLock::Skipped),
                LockOutcome::Wait(ticket) => ticket,
            };
            if self.mode == Mode::Inline {
                return Err(ExecError::Wait(ticket));
            }
            ticket
                .block(self.limits.lock_wait)
                .map_err(|e| engine_error(&e))?;
        }
    }
}

/// Answer of [`ExecCtx::lock_row`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowLock {
    /// The transaction holds the lock; `new` if this call brought it.
    Granted {
        /// Not held before.
        new: bool,
    },
    /// SKIP LOCKED met a conflict.
    Skipped,
}
