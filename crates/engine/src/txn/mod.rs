//! Transactions: snapshots, reads that see what is committed and what was written, row and range locks, savepoints.
//!
//! Neighbours: `batch` for what is written, `lock` for rows and ranges, `commit` for the end, `tree` and `memtable` for
//! what is read.
//!
//! Parts: `attachment` (opaque bytes for the log) · `env` (what all share) · `snapshots` (which versions must live) ·
//! `tombstones` (passed by scans) → `visible` → `cursor` → `read` (lookups and scans) · `ranges` (range locks and what
//! others have not committed) · [`Txn`], `canceller` (its lock waits from outside) · `prepared` (two-phase commit) →
//! `ordered` (the same in groups, with a second log).
//!
//! **Invariants**
//! - A read looks at the transaction's own writes first, then at committed versions from the newest tier to the oldest.
//! - A superversion is loaded after the snapshot is announced, so no version the snapshot needs can be missing from it.
//! - A transaction that has ended (committed or rolled back) is as new: no snapshot, no locks, no writes.

mod attachment;
#[cfg(test)]
mod attachment_tests;
mod canceller;
mod cursor;
pub(crate) mod env;
pub(crate) mod ordered;
pub(crate) mod prepared;
mod ranges;
#[cfg(test)]
mod ranges_tests;
mod read;
mod snapshots;
#[cfg(test)]
mod tests;
mod tombstones;
#[cfg(test)]
mod tombstones_tests;
mod visible;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use smallvec::SmallVec;

use attachment::Attachment;
pub use canceller::WaitCanceller;
pub use cursor::{Cursor, Near};
pub(crate) use env::{Home, TxnEnv, TxnLimits};
pub use ordered::{CommitStage, DecidedEntry, DecidingLog, Gathering, Harden, PendingCommit};
pub(crate) use read::rows_between;
pub(crate) use snapshots::SnapshotSlot;

use crate::batch::{WRITE_OVERHEAD_BYTES, WriteSet};
use crate::budget::MemoryBudget;
use crate::commit::entry::EntryBuffers;
use crate::commit::env::CommitEnv;
use crate::commit::id::PreparedId;
use crate::commit::{self, Batch};
use crate::lock::{LockMode, LockOutcome, LockOwner, WaitPolicy};
use crate::tree::Tree;
use crate::{EngineError, LATEST, Op, Result, Seq, TreeId};

/// What a held row lock costs in the lock table.
pub(crate) const LOCK_BYTES: u64 = 160;

/// The memory budget is asked whenever the writes of a transaction have grown by this, or ...
const ADMITTED_BYTES: u64 = 1 << 20;
/// ... it has so many locks more.
const ADMITTED_LOCKS: usize = 4096;

/// When a transaction takes its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// A fresh one for each statement.
    ReadCommitted,
    /// One for the whole transaction, at its first read.
    RepeatableRead,
    /// As `RepeatableRead`; the layer above locks what it reads.
    Serializable,
}

/// Where the snapshots of a transaction are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotAt {
    /// At everything that is committed.
    Visible,
    /// At what is durable, and at least at what the session may know of: its own commits, what it has read, and what
    /// was committed when it got its last row lock. What is left out was not acknowledged to anybody, so for its
    /// clients it has not happened yet, and what is read need not be waited for. It is for sessions whose
    /// acknowledgements wait for durability; `Switches::durable_snapshots` off turns it into `Visible`.
    Durable,
}

/// Which committed versions a read sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Those of the transaction's snapshot.
    Snapshot,
    /// The newest; the right one for a row that the transaction has locked.
    Latest,
}

/// The way a scan walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Keys ascending.
    Forward,
    /// Keys descending.
    Backward,
}

/// A place in the transaction to which it can be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavepointId {
    /// Number of the last write before it.
    writes: Seq,
    /// Length of the attachment's body.
    attachment: u64,
}

/// A transaction's place in the one order of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a commit is acknowledged only when its sequence is durable"]
pub struct Commit {
    /// The commit sequence; `None` if nothing was written or attached.
    pub seq: Option<Seq>,
}

/// Remembers that a version was read.
#[inline]
pub(crate) fn note_dependency(dependency: &AtomicU64, seq: Seq) {
    debug_assert!(seq < LATEST, "what is read has a sequence");
    if seq > dependency.load(Ordering::Relaxed) {
        dependency.fetch_max(seq, Ordering::Relaxed);
    }
}

/// Says whether what takes long is still wanted.
#[derive(Default)]
pub(crate) struct GoOn(Option<Box<dyn Fn() -> bool + Send + Sync>>);

impl GoOn {
    pub(crate) fn says(&self) -> bool {
        self.0.as_ref().is_none_or(|go_on| go_on())
    }
}

/// Is told that a wait begins.
#[derive(Default)]
struct AtWait(Option<Box<dyn Fn() + Send + Sync>>);

/// A transaction. One session uses it, for one transaction after the other.
pub struct Txn {
    pub(crate) env: Arc<TxnEnv>,
    pub(crate) home: Arc<dyn Home>,
    isolation: Isolation,
    slot: SnapshotSlot,
    /// The snapshot, or [`LATEST`] if none is taken.
    snapshot: AtomicU64,
    pub(crate) writes: WriteSet,
    may_spill: bool,
    /// Whether its session still wants what takes long.
    go_on: GoOn,
    at_wait: AtWait,
    /// What is committed makes room on the disk.
    makes_room: bool,
    pub(crate) counters: SmallVec<[(TreeId, u64); 1]>,
    pub(crate) attachment: Attachment,
    pub(crate) owner: Arc<LockOwner>,
    /// The same for those who cancel waits from outside, once there are any.
    shared_owner: OnceLock<Arc<Mutex<Arc<LockOwner>>>>,
    pub(crate) dependency: Arc<AtomicU64>,
    snapshot_at: SnapshotAt,
    /// What later snapshots must see of others, beside `dependency`.
    known: AtomicU64,
    /// The last commit of this session: its later snapshots must see it.
    last_commit: Seq,
    /// Why nothing can be done: the log could not be replayed.
    refused: Option<Box<EngineError>>,
    /// In which the commit record is made.
    pub(crate) buffers: EntryBuffers,
}

impl Txn {
    pub(crate) fn new(env: &Arc<TxnEnv>, home: &Arc<dyn Home>, isolation: Isolation) -> Self {
        Txn {
            env: Arc::clone(env),
            home: Arc::clone(home),
            isolation,
            slot: env.snapshots.slot(),
            snapshot: AtomicU64::new(LATEST),
            writes: WriteSet::default(),
            may_spill: true,
            go_on: GoOn::default(),
            at_wait: AtWait::default(),
            makes_room: false,
            counters: SmallVec::new(),
            attachment: Attachment::default(),
            owner: env.commit.locks.new_owner(),
            shared_owner: OnceLock::new(),
            dependency: Arc::new(AtomicU64::new(0)),
            snapshot_at: SnapshotAt::Visible,
            known: AtomicU64::new(0),
            last_commit: 0,
            refused: home.ready().err().map(Box::new),
            buffers: EntryBuffers::default(),
        }
    }

    /// A transaction that sees what this one sees, for reading on other threads while this one waits. What it reads
    /// counts as read by this one. `None` if this one has writes: only it sees them.
    pub fn reader(&self) -> Option<Txn> {
        if self.has_writes() {
            return None;
        }
        let snapshot = self.snapshot();
        debug_assert!(snapshot < LATEST);
        let mut reader = Txn::new(&self.env, &self.home, Isolation::RepeatableRead);
        // What is announced is kept already: the slot of this transaction holds the same sequence or an older one.
        reader.slot.take(|| snapshot, || snapshot);
        *reader.snapshot.get_mut() = snapshot;
        reader.dependency = Arc::clone(&self.dependency);
        Some(reader)
    }

    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        match &self.refused {
            None => Ok(()),
            Some(reason) => Err((**reason).clone()),
        }
    }

    /// The memory that the transaction shares with others.
    pub fn memory(&self) -> &Arc<MemoryBudget> {
        &self.env.commit.budget
    }

    /// The isolation level.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Changes the isolation level from the next snapshot on.
    pub fn set_isolation(&mut self, isolation: Isolation) {
        self.isolation = isolation;
    }

    /// Changes where snapshots are taken, from the next one on; at first it is [`SnapshotAt::Visible`].
    pub fn set_snapshot_at(&mut self, at: SnapshotAt) {
        self.snapshot_at = at;
    }

    /// Later snapshots see everything that is committed now, durable or not. For who has got a right (a lock of another
    /// kind than a row's) that others gave up when they committed.
    pub fn learn_of_commits(&self) {
        self.note_known(self.env.commit.watermark.visible());
    }

    fn note_known(&self, seq: Seq) {
        note_dependency(&self.known, seq);
    }

    /// The snapshot; taken now if there is none yet.
    #[inline]
    pub fn snapshot(&self) -> Seq {
        let snapshot = self.snapshot.load(Ordering::Relaxed);
        if snapshot != LATEST {
            return snapshot;
        }
        self.take_snapshot()
    }

    fn take_snapshot(&self) -> Seq {
        let env = &*self.env.commit;
        if env.watermark.visible() < self.last_commit {
            env.watermark.block_until(self.last_commit);
        }
        let at_durable =
            self.snapshot_at == SnapshotAt::Durable && env.switches.durable_snapshots();
        let choose = || match at_durable {
            false => env.watermark.visible(),
            true => {
                let known = self.known.load(Ordering::Relaxed).max(self.last_commit);
                let read = self.dependency.load(Ordering::Relaxed);
                let wanted = env.stable().max(known).max(read);
                wanted.min(env.watermark.visible())
            }
        };
        let snapshot = self.slot.take(|| env.stable(), choose);
        assert!(
            (self.last_commit..LATEST).contains(&snapshot),
            "a snapshot sees the session's own commits"
        );
        self.snapshot.store(snapshot, Ordering::Relaxed);
        snapshot
    }

    /// Begins a statement: under READ COMMITTED the next read takes a fresh snapshot.
    ///
    /// A snapshot keeps old versions from being removed until here, or until the end of the transaction: end also a
    /// transaction that has only read.
    #[inline]
    pub fn new_statement(&mut self) {
        if self.isolation == Isolation::ReadCommitted {
            self.drop_snapshot();
        }
    }

    fn drop_snapshot(&mut self) {
        if *self.snapshot.get_mut() != LATEST {
            *self.snapshot.get_mut() = LATEST;
            self.slot.clear();
        }
    }

    /// Bytes the block cache may use.
    pub(crate) fn cache_capacity(&self) -> u64 {
        self.env.trees.store().cache.capacity_bytes()
    }

    /// Sets the value of a key. The caller holds the row lock that covers the key.
    pub fn put(&mut self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(tree, key, Op::Put, value)
    }

    #[inline]
    fn write(&mut self, tree: &Tree, key: &[u8], op: Op, value: &[u8]) -> Result<()> {
        self.check()?;
        let env = &*self.env;
        let bytes = (key.len() + value.len()) as u64 + WRITE_OVERHEAD_BYTES;
        let memory = env.txn_memory();
        if self.may_spill && self.writes.needs_room(bytes, memory, &env.spiller) {
            let spilled = self.writes.make_room(&env.spilling());
            for writes in self.writes.trees() {
                self.owner.publish_writes(&self.writes, writes.tree.id());
            }
            spilled?;
        }
        let before = self.writes.bytes();
        if before / ADMITTED_BYTES != (before + bytes) / ADMITTED_BYTES {
            // Small transactions are not worth a question. Large ones ask for what they need next, and for the record
            // that the commit will need, so that they are refused here and not there.
            self.admit((before + bytes.max(ADMITTED_BYTES)) as usize)?;
        }
        let limit = env.limits.bytes;
        let trees = self.writes.trees().len();
        let beside = self.attachment.bytes();
        let written = self.writes.write(tree, key, op, value, limit, beside);
        if self.writes.trees().len() != trees {
            self.owner.publish_writes(&self.writes, tree.id());
        }
        written
    }

    /// Deletes a key. The caller holds the row lock that covers the key.
    pub fn delete(&mut self, tree: &Tree, key: &[u8]) -> Result<()> {
        self.write(tree, key, Op::Delete, &[])
    }

    /// Raises a counter with the commit of this transaction. It is not undone by a rollback to a savepoint: a number
    /// that was given stays given.
    pub fn bump_counter(&mut self, tree: TreeId, value: u64) {
        match self.counters.iter_mut().find(|(other, _)| *other == tree) {
            Some((_, largest)) => *largest = value.max(*largest),
            None => self.counters.push((tree, value)),
        }
    }

    /// Locks a row. See [`LockOutcome`].
    pub fn lock(
        &self,
        tree: TreeId,
        key: &[u8],
        mode: LockMode,
        wait: WaitPolicy,
    ) -> Result<LockOutcome> {
        self.check()?;
        self.admit_lock()?;
        let writes = self.writes.count();
        let locks = &self.env.commit.locks;
        let outcome = locks.lock(&self.owner, tree, key, mode, wait, writes)?;
        if let LockOutcome::Granted { .. } = outcome {
            // Who had the lock before has committed, and need not have changed this row.
            self.learn_of_commits();
        }
        Ok(outcome)
    }

    /// Whether there is memory for one lock more.
    fn admit_lock(&self) -> Result<()> {
        let limit_bytes = self.env.limits.bytes;
        let held = self.owner.held_count();
        let bytes = self.writes.total_bytes() + self.attachment.bytes();
        if bytes + held as u64 * LOCK_BYTES > limit_bytes {
            return Err(EngineError::TxnTooLarge { limit_bytes });
        }
        match held % ADMITTED_LOCKS == ADMITTED_LOCKS - 1 {
            true => self.admit_locks(),
            false => Ok(()),
        }
    }

    /// Whether there is memory for many locks more.
    fn admit_locks(&self) -> Result<()> {
        let CommitEnv { budget, locks, .. } = &*self.env.commit;
        self.home.account_locks();
        if self.owner.held_count() * LOCK_BYTES as usize > budget.locks_share() {
            self.coarsen_locks();
        }
        let new = ADMITTED_LOCKS.saturating_sub(locks.free_places());
        self.admit(new * LOCK_BYTES as usize)
    }

    /// Whether there is memory for so much more, if need be with coarser locks.
    fn admit(&self, bytes: usize) -> Result<()> {
        let budget = &self.env.commit.budget;
        match budget.admit(bytes) {
            Err(EngineError::OutOfMemory { .. }) if self.coarsen_locks() => budget.admit(bytes),
            answer => answer,
        }
    }

    /// Makes covers of row locks; false if that saved none. Others wait for rows in between, too, so it is for
    /// transactions that could not go on otherwise.
    pub(crate) fn coarsen_locks(&self) -> bool {
        let saved = self.env.commit.locks.coarsen(&self.owner);
        if saved > 0 {
            self.home.account_locks();
        }
        saved > 0
    }

    /// Gives back a lock that the last request brought (`new`), for a row that turned out not to be wanted. False if
    /// it is not held.
    pub fn release(&self, tree: TreeId, key: &[u8]) -> bool {
        self.env.commit.locks.release(&self.owner, tree, key)
    }

    /// Marks a place to roll back to.
    pub fn savepoint(&mut self) -> SavepointId {
        SavepointId {
            writes: self.writes.count(),
            attachment: self.attachment.body_bytes(),
        }
    }

    /// Undoes the writes since `savepoint`, and what was attached; row locks stay. Savepoints taken after it must not
    /// be used any more.
    pub fn rollback_to(&mut self, savepoint: SavepointId) {
        debug_assert!(savepoint.attachment <= self.attachment.body_bytes());
        self.attachment.truncate(savepoint.attachment);
        self.writes.roll_back_to(savepoint.writes);
        if !self.writes.is_untouched() {
            self.owner.publish_dead(self.writes.dead());
        }
    }

    /// Whether the transaction has written anything.
    pub fn has_writes(&self) -> bool {
        !self.writes.is_untouched() || !self.counters.is_empty()
    }

    /// Whether the transaction has written to the tree; rolled back writes count.
    pub fn has_writes_to(&self, tree: TreeId) -> bool {
        self.writes.has_tree(tree)
    }

    /// Number of writes so far.
    pub fn write_count(&self) -> u64 {
        self.writes.count()
    }

    /// Whether writes that need more than [`EngineConfig::txn_memory_bytes`](crate::EngineConfig::txn_memory_bytes)
    /// move to disk, which is so at first. A transaction that will be prepared must keep them in memory: they are part
    /// of its record.
    pub fn set_may_spill(&mut self, may_spill: bool) {
        self.may_spill = may_spill;
    }

    /// Has `go_on` asked before a wait for a lock, and now and then while the commit of a large transaction merges what
    /// has moved to disk; false ends it with [`EngineError::Cancelled`]. A commit is rolled back then.
    pub fn set_go_on(&mut self, go_on: impl Fn() -> bool + Send + Sync + 'static) {
        self.go_on = GoOn(Some(Box::new(go_on)));
    }

    /// Calls `look` when a wait for a lock begins that parks the thread ([`Self::await_lock`]): others can see the wait
    /// by then.
    pub fn set_at_wait(&mut self, look: impl Fn() + Send + Sync + 'static) {
        self.at_wait = AtWait(Some(Box::new(look)));
    }

    /// Says that the commit of this transaction makes room on the disk, because trees will be dropped then: on a full
    /// disk it may use the room in the log that is held back from others. A transaction that only deletes may anyway.
    pub fn set_makes_room(&mut self) {
        self.makes_room = true;
    }

    pub(crate) fn makes_room(&self) -> bool {
        self.makes_room || (!self.writes.has_puts() && self.counters.is_empty())
    }

    /// Whether writes have moved to disk. Then the commit waits for disk and log, and for what is flushed before it.
    pub fn has_spilled(&self) -> bool {
        self.writes.has_spilled()
    }

    /// Number of row locks held.
    pub fn lock_count(&self) -> usize {
        self.owner.held_count()
    }

    /// The locks went to somebody else, who gives them back.
    pub(crate) fn owner_changed(&self) {
        if let Some(shared) = self.shared_owner.get() {
            *shared.lock() = Arc::clone(&self.owner);
        }
    }

    /// Commits. On return the writes are visible to later snapshots and the locks are free (without early lock release:
    /// free as soon as the commit is durable), but nothing is durable yet: whoever tells the world awaits
    /// [`Engine::wait_durable`] first. On an error nothing was written, and the transaction is rolled back.
    ///
    /// With a log that decides ([`Engine::decide_by`](crate::Engine::decide_by)) a transaction with an attachment
    /// blocks until that log has it; then it may be told at once.
    pub fn commit(&mut self) -> Result<Commit> {
        match self.env.ordered.get() {
            None => self.commit_alone(),
            Some(_) => ordered::commit(self),
        }
    }

    /// Begins a commit for a log that decides; [`Engine::run_commit_stage`](crate::Engine::run_commit_stage) goes on
    /// with it. For simulations: [`Txn::commit`] does all of it.
    ///
    /// # Panics
    /// There is no such log.
    pub fn enter_commit(&mut self) -> Result<PendingCommit> {
        ordered::enter(self)
    }

    /// Begins to prepare for a log that decides, as [`Txn::enter_commit`].
    ///
    /// # Panics
    /// There is no such log.
    pub fn enter_prepare(&mut self, id: &PreparedId) -> Result<PendingCommit> {
        ordered::enter_prepare(self, id)
    }

    /// Commits in this log alone.
    fn commit_alone(&mut self) -> Result<Commit> {
        let makes_room = self.makes_room();
        let batch = Batch {
            writes: &mut self.writes,
            counters: &self.counters,
            attachment: self.attachment.pieces(),
            makes_room,
            buffers: &mut self.buffers,
            go_on: &|| self.go_on.says(),
        };
        let result = commit::commit(&self.env.commit, &*self.home, batch);
        let result = result.map(|seq| Commit { seq });
        if let Ok(Commit { seq: Some(seq) }) = result {
            assert!(self.last_commit < seq, "the commits of a session ascend");
            self.last_commit = seq;
            if commit::let_go_of_locks(&self.env.commit, &mut self.owner, seq) {
                self.owner_changed();
            }
        }
        self.end();
        result
    }

    /// First phase of a two-phase commit: logs the writes and the attachment, and hands the writes, with the row locks,
    /// to the engine under `id`. They survive a crash when the returned sequence is durable. The transaction is then as
    /// new; the decision is [`Engine::commit_prepared`] or [`Engine::rollback_prepared`]. On an error it is rolled
    /// back.
    ///
    /// With a log that decides a transaction with an attachment blocks until that log has it.
    pub fn prepare(&mut self, id: &PreparedId) -> Result<Seq> {
        let env = Arc::clone(&self.env);
        if env.ordered.get().is_some() && self.attachment.bytes() > 0 {
            return ordered::prepare(self, id);
        }
        let announced = env.ordered.get().map(|_| env.commit.assured.announce());
        let result = prepared::prepare(self, id);
        if let (Some(announced), Ok(seq)) = (announced, &result) {
            announced.placed(*seq);
        }
        self.end();
        result
    }

    /// Forgets the writes and frees the locks.
    pub fn rollback(&mut self) {
        self.end();
    }

    fn end(&mut self) {
        // First, so that others let go of the write set and its memory can be kept.
        self.env.commit.locks.release_all(&self.owner);
        self.writes.clear();
        self.counters.clear();
        self.attachment.clear();
        self.makes_room = false;
        self.drop_snapshot();
        self.buffers.shrink();
        self.validate_new();
    }

    /// In builds with debug assertions: nothing is left of what has ended.
    fn validate_new(&self) {
        debug_assert!(!self.has_writes() && self.attachment.bytes() == 0);
        debug_assert_eq!(
            self.owner.held_count(),
            0,
            "no lock outlives its transaction"
        );
        debug_assert_eq!(self.snapshot.load(Ordering::Relaxed), LATEST);
    }

    /// The largest sequence of any version this transaction's reads have met since the last call: the answer made from
    /// them may leave only when that sequence is durable.
    pub fn dependency(&self) -> Seq {
        if self.dependency.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let read = self.dependency.swap(0, Ordering::Relaxed);
        self.note_known(read);
        read
    }
}

impl Drop for Txn {
    fn drop(&mut self) {
        self.end();
    }
}
