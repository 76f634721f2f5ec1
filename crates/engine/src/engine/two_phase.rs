//! Two-phase commit: decisions about prepared transactions, by the caller or by a second log, and what is prepared.
//!
//! Neighbours: `txn::prepared` keeps them, `txn::ordered` commits in groups with the second log.
//!
//! **Invariants**
//! - What is decided here alone is announced to the second log's order, so that nothing is told before what precedes
//!   it.

use std::sync::Arc;

use super::Engine;
use crate::commit::id::PreparedId;
use crate::lock::{LockInfo, OwnerId};
use crate::txn::Commit;
use crate::txn::ordered::{self, CommitStage, DecidingLog, Harden, Ordered, PendingCommit};
use crate::txn::prepared;
use crate::{Result, Seq, TreeId};

impl Engine {
    /// Second phase of a two-phase commit: commits what was prepared under `id`. The record of the decision gets this
    /// attachment, if it has bytes; where a second log decides it goes there, and the call blocks until that log has
    /// it.
    pub fn commit_prepared(&self, id: &PreparedId, attachment: &[u8]) -> Result<Commit> {
        let (env, core) = (&self.core.env, &*self.core);
        match self.is_decided_elsewhere() && !attachment.is_empty() {
            true => ordered::decide_branch(env, &self.home(), (id, true), attachment),
            false => self.alone(|| prepared::commit_prepared(env, core, id, attachment)),
        }
    }

    /// Second phase of a two-phase commit: forgets what was prepared under `id`. For the attachment see
    /// [`Engine::commit_prepared`].
    pub fn rollback_prepared(&self, id: &PreparedId, attachment: &[u8]) -> Result<Commit> {
        let (env, core) = (&self.core.env, &*self.core);
        match self.is_decided_elsewhere() && !attachment.is_empty() {
            true => ordered::decide_branch(env, &self.home(), (id, false), attachment),
            false => self.alone(|| prepared::rollback_prepared(env, core, id, attachment)),
        }
    }

    /// Begins a decision about what was prepared under `id` for a log that decides, as [`Txn::enter_commit`].
    ///
    /// # Panics
    /// There is no such log.
    pub fn enter_decision(
        &self,
        id: &PreparedId,
        commits: bool,
        attachment: &[u8],
    ) -> Result<PendingCommit> {
        ordered::enter_decision(&self.core.env, &self.home(), (id, commits), attachment)
    }

    /// A change of this log alone; a second log knows nothing of it.
    pub(super) fn alone(&self, change: impl FnOnce() -> Result<Commit>) -> Result<Commit> {
        let announced = self.is_decided_elsewhere();
        let announced = announced.then(|| self.core.env.commit.assured.announce());
        let commit = change()?;
        if let (Some(announced), Some(seq)) = (announced, commit.seq) {
            announced.placed(seq);
        }
        Ok(commit)
    }

    /// From now on this log decides about transactions with an attachment, which are prepared first. The first one gets
    /// the number `next`.
    ///
    /// # Panics
    /// There is one already.
    pub fn decide_by(&self, log: Arc<dyn DecidingLog>, next: u64, harden: Harden) {
        let ordered = Ordered::new(log, next, harden);
        let is_first = self.core.env.ordered.set(ordered).is_ok();
        assert!(is_first, "one log decides");
    }

    /// Does a second log decide about transactions with an attachment? Their commits block then.
    #[inline]
    pub fn is_decided_elsewhere(&self) -> bool {
        self.core.env.ordered.get().is_some()
    }

    /// After a restart, before anything else: commits the transactions that a second log has, in its order, and rolls
    /// the other ones back that were prepared for it; durable on return. `last` is the number of the last one there.
    /// How many were committed, and how many were not.
    pub fn decide_prepared(&self, last: u64) -> Result<(u64, u64)> {
        self.core.recovery.ready()?;
        ordered::decide(&self.core.env, &*self.core, last)
    }

    /// Runs `f` while no commit is on its way to the second log or from there, and all decisions are durable.
    ///
    /// # Errors
    /// The log has failed.
    pub fn while_all_is_decided<R>(&self, f: impl FnOnce() -> R) -> Result<R> {
        match self.core.env.ordered.get() {
            Some(ordered) => ordered.pause(&self.core.env, f),
            None => Ok(f()),
        }
    }

    /// Returns when the second log knows of every commit that is visible by now.
    pub fn await_decisions(&self) {
        if let Some(ordered) = self.core.env.ordered.get() {
            ordered.await_decisions();
        }
    }

    /// Runs a stage of commits that were entered by hand ([`Txn::enter_commit`]); false if there is nothing to do next.
    pub fn run_commit_stage(&self, stage: CommitStage) -> bool {
        let ordered = self.core.env.ordered.get();
        ordered.is_some_and(|ordered| ordered.run(&self.core.env, &*self.core, stage))
    }

    /// Identifiers of the prepared transactions that wait for a decision, with the sequences of their prepare records.
    /// Blocks until the log is read; if that has failed, there are none.
    pub fn prepared(&self) -> Vec<(PreparedId, Seq)> {
        if self.core.recovery.ready().is_err() {
            return Vec::new();
        }
        self.core.env.prepared.list()
    }

    /// Was nobody who follows the log told of the transaction prepared under `id`, which waits for its decision? Then
    /// nobody is to be told of that either. So it is if it was prepared without an attachment.
    pub fn is_prepared_silently(&self, id: &PreparedId) -> bool {
        let _ = self.core.recovery.ready();
        self.core.env.prepared.is_silent(id)
    }

    /// Number of prepared transactions, those included about which a decision is being logged. Blocks until the log is
    /// read.
    pub fn prepared_count(&self) -> usize {
        let _ = self.core.recovery.ready();
        self.core.env.prepared.count()
    }

    /// What the transaction prepared under `id` has locked, at most `limit` locks; none if it does not wait for a
    /// decision.
    pub fn locks_of_prepared(&self, id: &PreparedId, limit: usize) -> Vec<LockInfo> {
        self.core
            .env
            .prepared
            .locks(id, &self.core.env.commit.locks, limit)
    }

    /// The transaction prepared under `id` as waits for its locks name it; none if it does not wait for a decision.
    pub fn owner_of_prepared(&self, id: &PreparedId) -> Option<OwnerId> {
        self.core.env.prepared.owner(id)
    }

    /// Trees that the transaction prepared under `id` has written to or holds locks in, ascending; none if it does not
    /// wait for a decision.
    pub fn trees_of_prepared(&self, id: &PreparedId) -> Vec<TreeId> {
        let _ = self.core.recovery.ready();
        self.core
            .env
            .prepared
            .trees(id, &self.core.env.commit.locks)
    }
}
