//! Metadata locks: what keeps a table from changing its shape under a running transaction (D1).
//!
//! In flow order: `mode` (what conflicts with what) · `door` (when a waiting request stops newcomers) · `object` (one
//! lockable name: an atomic word for the modes of ordinary statements, a queue for the rest) · `owner` (what a session
//! holds, for others to see) · `manager` (names to objects, deadlocks between waiters, who blocks whom) · [`LockSet`]
//! (what one session holds, and its own way to it).
//! Neighbours: `session` takes locks before it binds a statement and releases them when the
//! transaction ends; `ddl` takes the exclusive ones; `catalog` hangs each table's object on its
//! definition, so that a statement finds it without a look-up.
//!
//! **Invariants**
//! - A request waits only for holders it conflicts with, for requests of slow modes that came before it if its own mode
//!   is one, and for the first of those if their door is closed at the moment. A session that already holds the object
//!   is not held up by the queue, for those ahead wait for it.
//! - A request that waits is in the manager's graph with everything its session holds. The last one of a cycle gets
//!   error 1213; if that is a schema change that may stop others, a statement on rows in it does. A closed door
//!   is no edge of the graph if it opens again while its request waits. Nor is what a schema change has got of several
//!   locks for its end, since it gives them back when it does not get the others soon. Cycles that lead through row
//!   locks are found by `session::lock_waits`, which knows both.
//! - After a ticket resolved with success the session owns the lock; asking again takes it over.

mod door;
mod manager;
mod mode;
mod object;
mod owner;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use esker_types::{SqlError, errors};

pub use door::Windows;
pub use manager::{MdlKey, MetadataLocks};
pub use mode::{MdlDuration, MdlMode};
pub use object::MdlObject;
pub use owner::MdlInfo;

use crate::exec_error::ExecError;
use door::Door;
use manager::Pending;
use object::Granted;
use owner::{Held, Owner};

/// The metadata locks of one session.
pub struct LockSet {
    manager: MetadataLocks,
    owner: Arc<Owner>,
    pending: Option<Pending>,
    /// How long at a time a request of this session may stop others while it waits itself; zero: not at all.
    window: Duration,
    /// Who was in the way of [`Self::acquire_within`] when it gave up.
    blocked_by: (Vec<u64>, usize),
    /// See [`Self::pass_explicit`].
    passes_explicit: bool,
    /// The buffer of [`Self::release_where`].
    gone: Vec<Held>,
}

impl LockSet {
    /// An empty set.
    pub fn new(manager: &MetadataLocks) -> Self {
        Self {
            manager: manager.clone(),
            owner: manager.new_owner(),
            pending: None,
            window: Duration::ZERO,
            blocked_by: Default::default(),
            passes_explicit: false,
            gone: Vec::new(),
        }
    }

    /// Says whose set it is.
    pub fn belongs_to(&mut self, connection: u64) {
        self.owner.set_connection(connection);
    }

    /// How long at a time a request of this session may stop others while it waits itself; zero: not at all.
    pub fn set_window(&mut self, window: Duration) {
        self.window = window;
    }

    /// Takes a lock, or answers [`ExecError::Wait`] with the ticket to wait for; then ask again.
    #[inline]
    pub fn acquire(
        &mut self,
        object: &Arc<MdlObject>,
        mode: MdlMode,
        duration: MdlDuration,
    ) -> Result<(), ExecError> {
        if self.pending.is_some() {
            self.settle();
        }
        let mut held = self.owner.held();
        let own = |h: &&Held| Arc::ptr_eq(&h.object, object);
        let covers = |h: &Held| h.mode.covers(mode) && h.duration >= duration;
        if held.iter().filter(own).any(covers) {
            return Ok(());
        }
        // The fast modes do not conflict, so it does not matter which of them the session holds.
        if object.acquire_fast(mode) {
            held.push(Held {
                object: object.clone(),
                mode,
                duration,
            });
            return Ok(());
        }
        drop(held);
        let door = match mode {
            MdlMode::ScopeShared => Door::of_scope(self.window),
            _ => Door::new(self.window),
        };
        self.acquire_slow(object, (mode, duration), door, &[])
    }

    /// The same, and newcomers wait for as long as this request does, or until `at_most` has passed.
    pub fn acquire_firmly(
        &mut self,
        object: &Arc<MdlObject>,
        (mode, duration): (MdlMode, MdlDuration),
        at_most: Duration,
    ) -> Result<(), ExecError> {
        self.settle();
        if self.holds(object, mode) {
            return Ok(());
        }
        let door = Door::firm(Instant::now(), at_most);
        self.acquire_slow(object, (mode, duration), door, &[])
    }

    /// Takes all of the locks or none, and parks the thread for them until `at_most` has passed; meanwhile newcomers
    /// wait. False: they were not granted.
    ///
    /// # Errors
    /// 1213.
    pub fn acquire_within(
        &mut self,
        objects: &[Arc<MdlObject>],
        (mode, duration): (MdlMode, MdlDuration),
        at_most: Duration,
        gives_up: &dyn Fn() -> bool,
    ) -> Result<bool, SqlError> {
        self.drop_pending();
        let until = Instant::now() + at_most;
        for (nth, object) in objects.iter().enumerate() {
            let (now, held) = (Instant::now(), &objects[..nth]);
            let left = until.saturating_duration_since(now);
            let door = Door::shut(now, left);
            match self.acquire_slow(object, (mode, duration), door, held) {
                Ok(()) => continue,
                Err(ExecError::Sql(e)) => return Err(e),
                Err(ExecError::Wait(ticket)) => {
                    let granted = ticket.block_unless(left, gives_up).is_ok();
                    if !granted {
                        self.blocked_by = self.blockers();
                    }
                    self.settle();
                    if !granted {
                        held.iter().for_each(|object| self.give_back(object, mode));
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Gives back one lock before the others of its duration.
    pub fn give_back(&mut self, object: &Arc<MdlObject>, mode: MdlMode) {
        let mut is_first = true;
        self.release_where(|h| {
            let goes = is_first && h.mode == mode && Arc::ptr_eq(&h.object, object);
            is_first &= !goes;
            goes
        });
    }

    /// Takes a lock if that needs no waiting.
    pub fn try_acquire(
        &mut self,
        object: &Arc<MdlObject>,
        mode: MdlMode,
        duration: MdlDuration,
    ) -> bool {
        // A ticket that is dropped leaves the queue; until then it stops nobody.
        let window = std::mem::take(&mut self.window);
        let granted = self.acquire(object, mode, duration).is_ok();
        self.drop_pending();
        self.window = window;
        granted
    }

    #[cold]
    fn acquire_slow(
        &mut self,
        object: &Arc<MdlObject>,
        (mode, duration): (MdlMode, MdlDuration),
        door: Door,
        tentative: &[Arc<MdlObject>],
    ) -> Result<(), ExecError> {
        let own: Vec<MdlMode> = {
            let held = self.owner.held();
            let here = held.iter().filter(|h| Arc::ptr_eq(&h.object, object));
            here.map(|h| h.mode).collect()
        };
        let (ticket, waiter) = match object.request(mode, &own, door, Instant::now()) {
            Granted::Now => {
                self.owner.held().push(Held {
                    object: object.clone(),
                    mode,
                    duration,
                });
                return Ok(());
            }
            Granted::Later(ticket, waiter) => (ticket, waiter),
        };
        let pending = Pending {
            owner: self.owner.clone(),
            object: object.clone(),
            mode,
            duration,
            waiter,
            tentative: tentative.into(),
        };
        // Who stops nobody makes nobody a victim either: NOWAIT, for example.
        if self.manager.begin_wait(pending.clone(), !door.stays_open()) {
            // Dropping the ticket takes the request out of its queue.
            return Err(errors::deadlock().into());
        }
        self.pending = Some(pending);
        Err(ExecError::Wait(ticket))
    }

    /// Takes over a lock that was granted while we waited. The statement that asked for it runs
    /// again and may come to it later, so it is kept whatever is asked for first.
    #[cold]
    fn settle(&mut self) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        self.manager.end_wait(self.owner.id);
        if pending.waiter.take_over() {
            self.owner.held().push(Held {
                object: pending.object,
                mode: pending.mode,
                duration: pending.duration,
            });
        }
    }

    /// Closes or opens the door of the request that waits, if its time has come. When to do it again; None: nothing
    /// waits, or its door never closes.
    pub fn turn(&mut self, now: Instant) -> Option<Instant> {
        let pending = self.pending.as_ref()?;
        pending.object.turn(&pending.waiter, now)
    }

    /// Connections that keep the last request from being granted, or would have when it was given up; and how many
    /// others without a connection do.
    pub fn blockers(&self) -> (Vec<u64>, usize) {
        match &self.pending {
            Some(pending) => self.manager.blockers(pending, true),
            None => self.blocked_by.clone(),
        }
    }

    /// Moves the locks on tables and routines that were taken for the transaction to a set of their own, for a
    /// transaction that outlives its session.
    pub fn detach(&mut self) -> LockSet {
        let detached = LockSet::new(&self.manager);
        let goes = |h: &mut Held| {
            let stays = matches!(h.object.key(), MdlKey::Table(..) | MdlKey::Routine(..));
            stays && h.duration == MdlDuration::Transaction
        };
        let moved: Vec<Held> = self.owner.held().extract_if(.., goes).collect();
        *detached.owner.held() = moved;
        detached
    }

    fn release_where(&mut self, mut which: impl FnMut(&Held) -> bool) {
        let mut gone = std::mem::take(&mut self.gone);
        let goes = |h: &mut Held| which(h);
        gone.extend(self.owner.held().extract_if(.., goes));
        for held in gone.drain(..) {
            held.object.release(held.mode);
        }
        self.gone = gone;
    }

    fn drop_pending(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.manager.end_wait(self.owner.id);
            if pending.waiter.take_over() {
                pending.object.release(pending.mode);
            } else {
                // Its ticket may be there still, and nobody would take over what it brings.
                pending.object.leave(&pending.waiter);
            }
        }
    }

    /// Does a statement run again that has waited, and asked for nothing since?
    pub fn runs_again(&self) -> bool {
        self.pending.is_some()
    }

    /// Releases what was taken for the statement only.
    pub fn release_statement(&mut self) {
        self.drop_pending();
        self.release_where(|h| h.duration == MdlDuration::Statement);
    }

    /// Releases what was taken for the transaction or the statement.
    pub fn release_transaction(&mut self) {
        if self.pending.is_some() {
            self.drop_pending();
        }
        if !self.is_empty() {
            self.release_where(|h| h.duration <= MdlDuration::Transaction);
        }
    }

    /// Releases LOCK TABLES locks on tables (not the global read lock).
    pub fn release_explicit(&mut self) {
        self.release_where(|h| h.duration == MdlDuration::Explicit);
    }

    /// Releases FLUSH TABLES WITH READ LOCK.
    pub fn release_global(&mut self) {
        self.release_where(|h| h.duration == MdlDuration::Global);
    }

    /// Releases LOCK INSTANCE FOR BACKUP.
    pub fn release_instance(&mut self) {
        self.release_where(|h| h.duration == MdlDuration::Instance);
    }

    fn holds_for(&self, duration: MdlDuration) -> bool {
        self.owner.held().iter().any(|h| h.duration == duration)
    }

    /// Has the running statement taken or asked for locks of its own yet? False when it begins, true
    /// when it runs again after a wait.
    pub fn statement_has_locks(&self) -> bool {
        self.pending.is_some() || self.holds_for(MdlDuration::Statement)
    }

    /// Keeps the statement's locks for longer.
    pub fn keep_statement_locks(&mut self, duration: MdlDuration) {
        let mut held = self.owner.held();
        let of_statement = |h: &&mut Held| h.duration == MdlDuration::Statement;
        for held in held.iter_mut().filter(of_statement) {
            held.duration = duration;
        }
    }

    /// What LOCK TABLES holds on one name it holds on another from now on, which the running statement has locked
    /// exclusively: the table has been renamed.
    pub fn move_explicit(&mut self, from: &Arc<MdlObject>, to: &Arc<MdlObject>) {
        let Some(mode) = self.explicit_mode(from) else {
            return;
        };
        debug_assert!(self.holds(to, MdlMode::Exclusive));
        let is_old = |h: &Held| h.duration == MdlDuration::Explicit && Arc::ptr_eq(&h.object, from);
        self.release_where(is_old);
        let granted = self.try_acquire(to, mode, MdlDuration::Explicit);
        assert!(granted, "nobody else is where we are alone");
    }

    /// LOCK TABLES gives up tables that are gone, and with the last of them everything.
    pub fn forget_explicit(&mut self, gone: &[Arc<MdlObject>]) {
        let is_gone = |h: &Held| gone.iter().any(|o| Arc::ptr_eq(o, &h.object));
        self.release_where(|h| h.duration == MdlDuration::Explicit && is_gone(h));
        let is_table = |h: &Held| {
            h.duration == MdlDuration::Explicit && matches!(h.object.key(), MdlKey::Table(..))
        };
        let is_over = !self.owner.held().iter().any(is_table);
        if is_over {
            self.release_explicit();
        }
    }

    /// Releases everything (the session ends or is reset).
    pub fn release_all(&mut self) {
        self.drop_pending();
        self.release_where(|_| true);
    }

    /// Is the session waiting for a metadata lock (rather than for a row)?
    pub fn is_waiting(&self) -> bool {
        self.pending.as_ref().is_some_and(|p| p.waiter.is_waiting())
    }

    /// What the session waits for, as the process list says it; None: for no metadata lock.
    pub fn waits_for(&self) -> Option<&'static str> {
        let pending = self.pending.as_ref().filter(|p| p.waiter.is_waiting())?;
        Some(pending.object.key().stage())
    }

    /// Does this session hold at least `mode` on the object?
    pub fn holds(&self, object: &Arc<MdlObject>, mode: MdlMode) -> bool {
        let held = self.owner.held();
        let mut same = held.iter().filter(|h| Arc::ptr_eq(&h.object, object));
        same.any(|h| h.mode.covers(mode))
    }

    /// Is anything held by LOCK TABLES that statements have to do with?
    pub fn has_explicit(&self) -> bool {
        !self.passes_explicit && self.holds_for(MdlDuration::Explicit)
    }

    /// While a trigger runs (`true`), the tables that it names are locked as if there were no LOCK TABLES, which does
    /// not name them. Answers what held before.
    pub fn pass_explicit(&mut self, passes: bool) -> bool {
        std::mem::replace(&mut self.passes_explicit, passes)
    }

    /// A table that LOCK TABLES holds for reading only: of several the last.
    pub fn read_locked_table(&self) -> Option<Arc<str>> {
        let held = self.owner.held();
        let is_read =
            |h: &&Held| h.duration == MdlDuration::Explicit && h.mode == MdlMode::SharedReadOnly;
        held.iter()
            .rev()
            .filter(is_read)
            .find_map(|h| match h.object.key() {
                MdlKey::Table(_, name) => Some(name.clone()),
                _ => None,
            })
    }

    /// Is the global read lock held?
    pub fn has_global(&self) -> bool {
        self.holds_for(MdlDuration::Global)
    }

    /// Is LOCK INSTANCE FOR BACKUP held?
    pub fn has_instance(&self) -> bool {
        self.holds_for(MdlDuration::Instance)
    }

    /// The mode LOCK TABLES holds on this object.
    pub fn explicit_mode(&self, object: &Arc<MdlObject>) -> Option<MdlMode> {
        let held = self.owner.held();
        let explicit = |h: &&Held| h.duration == MdlDuration::Explicit;
        let mut explicit = held.iter().filter(explicit);
        explicit
            .find(|h| Arc::ptr_eq(&h.object, object))
            .map(|h| h.mode)
    }

    /// Number of locks held.
    pub fn len(&self) -> usize {
        self.owner.held().len()
    }

    /// Is a lock on a table held that changes of its rows need?
    pub fn has_written_tables(&self) -> bool {
        let is_written = |h: &Held| {
            h.mode.covers(MdlMode::SharedWrite) && matches!(h.object.key(), MdlKey::Table(..))
        };
        self.owner.held().iter().any(is_written)
    }

    /// Is a lock on a table held?
    pub fn has_tables(&self) -> bool {
        let is_table = |h: &Held| matches!(h.object.key(), MdlKey::Table(..));
        self.owner.held().iter().any(is_table)
    }

    /// Is nothing held?
    pub fn is_empty(&self) -> bool {
        self.owner.held().is_empty()
    }
}

impl Drop for LockSet {
    fn drop(&mut self) {
        self.release_all();
        self.manager.forget_owner(self.owner.id);
    }
}
