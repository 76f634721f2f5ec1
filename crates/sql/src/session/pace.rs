//! How long a statement may go on: until it is killed, until its time is over, and on a worker that other sessions
//! share for [`STAY`].
//!
//! Neighbours: `step` and `run` say where a statement begins; operators and functions ask through
//! [`SessionContext::go_on`](super::SessionContext) (rows by `ExecCtx::tick`, large values by `SessionInfo::go_on`);
//! the server knows how a worker is left ([`ClientInfo::leave_worker`](super::ClientInfo)); `turns` has the processors.
//!
//! **Invariants**
//! - Whatever a plan's estimate said, a statement that runs inline leaves its worker to the other sessions when it is
//!   asked after its stay is over. It goes on where it was, on the thread it was on, which serves nobody else from then
//!   on.
//! - A statement that has had a processor for longer than a stay, on whatever thread, runs in turns with the others
//!   that have: no more of them at a time than there are processors. One that only had to wait for a processor is not
//!   long.
//! - A statement that nothing is asked of for longer than a moment is a mistake of an operator or a function: all loops
//!   ask.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use esker_sql_catalog::result::Mode;
use esker_types::{SqlError, SqlResult, errors};
use esker_vfs::threads;

use super::registry::Process;
use super::turns::{Turn, Turns};

/// How long a statement stays on a worker that other sessions share. A point statement takes a hundredth of it.
const STAY: Duration = Duration::from_millis(4);
/// Work on so many bytes of values is longer than a stay.
const LONG_BYTES: usize = 1 << 20;
/// Work on bytes is looked at each time it has become so much.
const LOOK_BYTES: usize = 64 * 1024;

/// The time of the current statement.
pub(crate) struct Pace {
    deadline: Cell<Option<Instant>>,
    /// On a shared worker?
    shared: Cell<bool>,
    /// When the stay is over; None: nobody has asked yet.
    leave_at: Cell<Option<Instant>>,
    /// The next stay. It grows, because the thread may be a worker still: leaving one is an offer to the runtime.
    stay: Cell<Duration>,
    has_left: Cell<bool>,
    /// Processor time of the thread when the first stay was over.
    used: Cell<Option<Duration>>,
    /// It has had a processor for longer than a stay.
    is_long: Cell<bool>,
    turn: Cell<Option<Turn>>,
    turns: Arc<Turns>,
    bytes: Cell<usize>,
    /// An error met where none can be returned.
    failed: Cell<Option<SqlError>>,
    leave: Box<dyn Fn() + Send + Sync>,
}

impl Pace {
    /// `leave` leaves the worker that the thread is.
    pub(super) fn new(leave: Box<dyn Fn() + Send + Sync>, turns: Arc<Turns>) -> Self {
        Self {
            deadline: Cell::new(None),
            shared: Cell::new(false),
            leave_at: Cell::new(None),
            stay: Cell::new(STAY),
            has_left: Cell::new(false),
            used: Cell::new(None),
            is_long: Cell::new(false),
            turn: Cell::new(None),
            turns,
            bytes: Cell::new(0),
            failed: Cell::new(None),
            leave,
        }
    }

    /// A step of a statement begins.
    pub(super) fn enter(&self, mode: Mode) {
        self.shared.set(mode == Mode::Inline);
        self.has_left.set(false);
        self.bytes.set(0);
        self.failed.set(None);
        self.resume();
    }

    /// The statement goes on, perhaps on another thread.
    pub(super) fn resume(&self) {
        self.leave_at.set(None);
        self.stay.set(STAY);
        self.used.set(None);
        self.is_long.set(false);
    }

    /// The statement ends or waits.
    pub(super) fn rest(&self) {
        if let Some(turn) = self.turn.take() {
            self.turns.end(turn);
        }
    }

    /// Has the statement left a worker?
    pub(super) fn has_left(&self) -> bool {
        self.has_left.get()
    }

    /// The statement ends with this error, soon.
    pub(super) fn fail(&self, e: SqlError) {
        self.failed.set(Some(e));
    }

    /// The error that the statement ends with though its rows are there.
    pub(super) fn failure(&self) -> SqlResult<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// max_execution_time.
    pub(super) fn set_deadline(&self, deadline: Option<Instant>) {
        self.deadline.set(deadline);
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline.get()
    }

    /// Is max_execution_time over?
    pub(super) fn is_late(&self) -> bool {
        self.deadline.get().is_some_and(|d| Instant::now() >= d)
    }

    /// Is asked now and then while a statement runs.
    ///
    /// # Errors
    /// 1317, 1053, 3024.
    pub(super) fn look(&self, process: &Process) -> SqlResult<()> {
        self.failure()?;
        let now = Instant::now();
        self.may_go_on(process, now)?;
        match self.leave_at.get() {
            None => self.leave_at.set(Some(now + STAY)),
            Some(at) if now >= at => self.outstay(),
            Some(_) => (),
        }
        let is_due = self.turn.get().is_none_or(|turn| turn.is_over(now));
        if self.is_long.get() && is_due {
            let go_on = || self.may_go_on(process, Instant::now());
            let ended = self.turn.take();
            let next = self
                .turns
                .next(ended, process, self.deadline.get(), go_on)?;
            self.turn.set(Some(next));
        }
        Ok(())
    }

    /// Is neither killed nor late.
    ///
    /// # Errors
    /// 1317, 1053, 3024.
    pub(super) fn may_go_on(&self, process: &Process, now: Instant) -> SqlResult<()> {
        if let Some(e) = process.kill_error() {
            return Err(e);
        }
        match self.deadline.get().is_some_and(|d| now >= d) {
            true => Err(errors::statement_timeout()),
            false => Ok(()),
        }
    }

    /// Work on so many bytes is ahead.
    ///
    /// # Errors
    /// As [`Self::look`].
    pub(super) fn look_at_bytes(&self, bytes: usize, process: &Process) -> SqlResult<()> {
        let sum = self.bytes.get().saturating_add(bytes);
        if sum < LOOK_BYTES {
            self.bytes.set(sum);
            return Ok(());
        }
        self.bytes.set(0);
        if bytes >= LONG_BYTES && !self.has_left.get() {
            self.leave();
        }
        self.look(process)
    }

    /// The stay is over. The first time it is prolonged: the thread may have been without a processor, and leaving
    /// makes a short statement wait for one again.
    fn outstay(&self) {
        let used = threads::processor_time();
        let Some(before) = self.used.get() else {
            self.used.set(Some(used));
            self.leave_at.set(Some(Instant::now() + STAY));
            return;
        };
        if used.saturating_sub(before) >= STAY / 2 {
            self.is_long.set(true);
        }
        self.leave();
        let stay = self.stay.get() * 2;
        self.stay.set(stay);
        self.leave_at.set(Some(Instant::now() + stay));
    }

    /// Leaves the worker, on a shared one.
    pub(super) fn leave(&self) {
        if self.shared.get() {
            (self.leave)();
            self.has_left.set(true);
        }
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        self.rest();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::registry::{Connection, Registry};
    use super::*;

    #[test]
    fn only_a_long_stay_on_a_shared_worker_is_ended() {
        let left = Arc::new(AtomicU32::new(0));
        let count = left.clone();
        let leave = move || {
            count.fetch_add(1, Ordering::Relaxed);
        };
        let pace = Pace::new(Box::new(leave), Arc::default());
        let process = {
            let on_kill = Box::new(|| ());
            Registry::default().add(1, "u", "h".into(), Connection::default(), 0, on_kill)
        };
        let times = || left.load(Ordering::Relaxed);
        pace.enter(Mode::Thread);
        pace.look_at_bytes(LONG_BYTES, &process).unwrap();
        assert!(pace.turn.get().is_none());
        while pace.turn.get().is_none() {
            pace.look(&process).unwrap();
        }
        assert_eq!((times(), pace.has_left()), (0, false), "turns are all");
        pace.rest();
        assert!(pace.turn.get().is_none());

        pace.enter(Mode::Inline);
        pace.look_at_bytes(LOOK_BYTES / 2, &process).unwrap();
        assert!(pace.leave_at.get().is_none(), "so little is not looked at");
        pace.look(&process).unwrap();
        assert!(!pace.has_left() && pace.turn.get().is_none());
        std::thread::sleep(STAY);
        pace.look(&process).unwrap();
        assert_eq!((times(), pace.has_left()), (0, false), "prolonged once");
        std::thread::sleep(STAY);
        pace.look(&process).unwrap();
        assert_eq!((times(), pace.has_left()), (1, true));
        // The offer is repeated, later each time.
        std::thread::sleep(STAY * 2);
        pace.look(&process).unwrap();
        assert_eq!(times(), 2);

        // A large value is not begun on a shared worker.
        pace.enter(Mode::Inline);
        pace.look_at_bytes(LONG_BYTES, &process).unwrap();
        // The look behind it may come late, and offer it once more.
        assert!(times() >= 3 && pace.has_left());

        pace.set_deadline(Some(Instant::now()));
        assert_eq!(pace.look(&process).unwrap_err().code, 3024);
        process.kill(false);
        assert_eq!(pace.look(&process).unwrap_err().code, 1317);
    }
}
