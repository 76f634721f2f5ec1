//! The environment of the commit pipeline: everything that a commit touches, and nothing of the engine around it.
//!
//! Neighbours: the engine owns one and its transactions share it; `commit` works on it; its tests make one of a log on
//! a simulated disk and a [`Background`] of their own.
//!
//! **Invariants**
//! - The pipeline knows what is above it only as [`Background`].
//! - Whoever is told that a sequence is durable finds the locks up to it free.

use std::sync::Arc;

use esker_vfs::Clock;
use esker_wal::{Driven, Turn, Wal};

use super::assured::Assured;
use super::counters::Counters;
use super::gate::Gate;
use super::held::HeldLocks;
use super::log::{Durable, Log};
use super::switches::Switches;
use super::watermark::Watermark;
use crate::batch::WriteSet;
use crate::budget::MemoryBudget;
use crate::lock::LockManager;
use crate::tree::{IngestId, Tree};
use crate::{Result, Seq};

/// What committing needs of background work.
pub(crate) trait Background {
    /// Whether statements may run: the log is replayed, and well.
    fn ready(&self) -> Result<()>;

    /// Holds a writer back while background work is too far behind, and slows it down before that.
    fn admit_writer(&self, writes: &WriteSet) -> Result<()>;

    /// A memtable has grown to this size.
    fn memtable_has(&self, tree: &Tree, bytes: usize);

    /// Stages what a write set has in extents; `None` if nothing of it is live. `go_on` is asked now and then whether
    /// the commit is still wanted.
    fn stage<'a>(
        &'a self,
        writes: &mut WriteSet,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Option<Box<dyn Ingest + 'a>>>;
}

/// Extents that are staged, to become part of their trees with a commit. Dropping it forgets them.
pub(crate) trait Ingest {
    fn id(&self) -> IngestId;

    /// The trees they are for.
    fn trees(&self) -> &[u32];

    /// Makes the extents part of their trees. Their commit record has this sequence.
    fn ingest(self: Box<Self>, seq: Seq);

    /// A prepare record names them: they stay until it is decided about.
    fn prepared(self: Box<Self>);
}

/// The environment.
pub(crate) struct CommitEnv {
    pub(crate) log: Log,
    pub(crate) watermark: Arc<Watermark>,
    pub(crate) gate: Gate,
    pub(crate) assured: Assured,
    pub(crate) counters: Counters,
    pub(crate) locks: Arc<LockManager>,
    pub(crate) held: Arc<HeldLocks>,
    pub(crate) switches: Switches,
    pub(crate) budget: Arc<MemoryBudget>,
}

impl CommitEnv {
    /// For a log that ends where it begins now.
    pub(crate) fn new(
        wal: Wal,
        locks: Arc<LockManager>,
        counters: Counters,
        budget: Arc<MemoryBudget>,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let log = Log::new(wal);
        let watermark = Watermark::new(log.end());
        Arc::new(CommitEnv {
            log,
            gate: Gate::new(&watermark),
            assured: Assured::default(),
            watermark,
            counters,
            held: HeldLocks::new(&locks, clock),
            locks,
            switches: Switches::default(),
            budget,
        })
    }

    /// Everything up to here survives a crash.
    #[inline]
    pub(crate) fn durable_seq(&self) -> Seq {
        let durable = self.log.durable();
        self.held.release_up_to(durable);
        durable
    }

    /// Everything up to here may be told, however commits are acknowledged: what a snapshot leaves out behind it has
    /// not happened for anybody. Never falls.
    #[inline]
    pub(crate) fn stable(&self) -> Seq {
        self.gate
            .told_up_to(Some(self.survives(self.log.durable())))
    }

    /// The same of what no crash gives another place in the log: new trees begin here.
    pub(crate) fn settled(&self) -> Seq {
        self.gate.told_up_to(Some(self.log.durable()))
    }

    /// Everything up to here survives a crash, where the log is durable up to `durable`: a second log makes up for the
    /// rest.
    #[inline]
    fn survives(&self, durable: Seq) -> Seq {
        durable.max(self.assured.up_to(durable))
    }

    /// The newest sequence that may be told.
    #[inline]
    pub(crate) fn tellable(&self) -> Seq {
        if self.switches.async_commit() {
            return self.gate.told_up_to(None);
        }
        self.gate
            .told_up_to(Some(self.survives(self.durable_seq())))
    }

    /// Whether a reply that depends on `seq` may be given.
    #[inline]
    pub(crate) fn may_be_told(&self, seq: Seq) -> bool {
        seq <= self.tellable()
    }

    /// Resolves when it may be.
    pub(crate) fn wait_durable(&self, seq: Seq) -> Durable {
        let log = (!self.switches.async_commit()).then(|| self.log.wait_durable(seq));
        Durable::new(log, &self.watermark, &self.gate, &self.held, seq)
    }

    /// See `esker_wal::Wal::drive`.
    pub(crate) fn drive(&self, seq: Seq, turn: Turn) -> Result<Driven> {
        self.log.drive(seq, turn)
    }
}
