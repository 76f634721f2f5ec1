//! What executing a statement may reach: the transaction, limits, kill flag, and what to do when a row
//! is locked.
//!
//! Neighbours: `session` and `dml` build one per statement step; every operator of `exec` gets it
//! through [`ExecEnv`](crate::ExecEnv).
//! **Invariants**: rows are read through [`ExecCtx::view`]; only in inline mode a lock conflict unwinds, as
//! [`ExecError::Wait`] with its ticket.

use std::cell::{Cell, Ref, RefCell};
use std::ops::Deref;
use std::time::{Duration, Instant};

use esker_engine::{LockMode, LockOutcome, TreeId, Txn, View, WaitPolicy};
use esker_sql_catalog::exec_error::{ExecError, ExecResult, engine_error};
use esker_sql_catalog::result::Mode;
use esker_sql_plan::expr::StoredCall;
use esker_types::{SqlResult, Value, errors};

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

/// Runs stored functions, implemented by the session.
pub trait StoredFunctions {
    /// The result of a call. `txn` is the statement's transaction; the function runs in it, and may write.
    ///
    /// # Errors
    /// What the function runs into and does not handle.
    fn call(&self, call: &StoredCall, args: Vec<Value>, txn: &mut Txn) -> ExecResult<Value>;
}

/// A transaction that operators and the functions that they call have in turns.
pub struct LentTxn<'a> {
    txn: RefCell<&'a mut Txn>,
    functions: &'a dyn StoredFunctions,
}

impl<'a> LentTxn<'a> {
    /// Lends a transaction.
    pub fn new(txn: &'a mut Txn, functions: &'a dyn StoredFunctions) -> Self {
        Self {
            txn: RefCell::new(txn),
            functions,
        }
    }
}

/// [`LentTxn`] without its lifetimes, which must be exact there.
trait TxnLender {
    fn txn(&self) -> Ref<'_, Txn>;
    fn call(&self, call: &StoredCall, args: Vec<Value>) -> ExecResult<Value>;
}

impl TxnLender for LentTxn<'_> {
    fn txn(&self) -> Ref<'_, Txn> {
        Ref::map(self.txn.borrow(), |txn| &**txn)
    }

    fn call(&self, call: &StoredCall, args: Vec<Value>) -> ExecResult<Value> {
        let mut txn = self
            .txn
            .try_borrow_mut()
            .map_err(|_| errors::internal("a stored function in the middle of a read"))?;
        self.functions.call(call, args, &mut txn)
    }
}

/// The transaction of a statement: for its operators, or for them and the functions that it calls.
enum TxnAccess<'a> {
    Shared(&'a Txn),
    Lent(&'a dyn TxnLender),
}

/// The transaction, for one use of it.
pub enum TxnRef<'r> {
    /// Nobody else wants it.
    Shared(&'r Txn),
    /// A function may have it next.
    Lent(Ref<'r, Txn>),
}

impl Deref for TxnRef<'_> {
    type Target = Txn;

    #[inline]
    fn deref(&self) -> &Txn {
        match self {
            Self::Shared(txn) => txn,
            Self::Lent(txn) => txn,
        }
    }
}

/// Execution context of one statement step.
pub struct ExecCtx<'a> {
    /// The transaction rows are read and locked in.
    txn: TxnAccess<'a>,
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
        Self::over(TxnAccess::Shared(txn), (view, mode, limits), check_killed)
    }

    /// A context of a statement that calls stored functions, which run in its transaction, too.
    pub fn calling(
        txn: &'a LentTxn<'a>,
        view: View,
        limits: Limits,
        check_killed: &'a dyn Fn() -> SqlResult<()>,
    ) -> Self {
        Self::over(
            TxnAccess::Lent(txn),
            (view, Mode::Thread, limits),
            check_killed,
        )
    }

    fn over(
        txn: TxnAccess<'a>,
        (view, mode, limits): (View, Mode, Limits),
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

    /// The transaction. It is given back before any expression is evaluated: a function may need it.
    #[inline]
    pub fn txn(&self) -> TxnRef<'_> {
        match &self.txn {
            TxnAccess::Shared(txn) => TxnRef::Shared(txn),
            TxnAccess::Lent(lender) => TxnRef::Lent(lender.txn()),
        }
    }

    /// May expressions call stored functions?
    #[inline]
    pub fn calls_functions(&self) -> bool {
        matches!(self.txn, TxnAccess::Lent(..))
    }

    /// Calls a stored function.
    pub(crate) fn call_stored(&self, call: &StoredCall, args: Vec<Value>) -> ExecResult<Value> {
        match &self.txn {
            TxnAccess::Lent(lender) => lender.call(call, args),
            TxnAccess::Shared(_) => {
                Err(errors::internal("a stored function where none is expected").into())
            }
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
    pub(crate) fn look(&self) -> SqlResult<()> {
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
            let outcome = self.txn().lock(tree, key, mode, policy);
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
            let waited = self.txn().await_lock(ticket, self.limits.lock_wait);
            waited.map_err(|e| engine_error(&e))?;
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
