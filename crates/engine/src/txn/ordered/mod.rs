//! Ordered commit: a two-phase commit with a second log that decides, in groups, in three stages that overlap.
//!
//! ```text
//! prepare ─► queue ─► FLUSH                     ─► queue ─► SYNC              ─► queue ─► COMMIT
//!  (record,            one harden of this log               the second log        decisions in the
//!   locks stay)        for the group, then its               is durable            same order, locks go
//!                      attachments to the second log
//! ```
//! It is the classic way to keep a log with a format of its own beside the engine's: a transaction is prepared, its
//! attachment stands in the second log, it commits. A crash in between leaves it prepared, and the second log says what
//! becomes of it ([`decide`]). Neighbours: [`Txn::commit`] comes in where such a log is set; [`DecidingLog`] is
//! implemented above; `prepared` has both phases; `stage` is a queue with its leader; `name` says what is prepared for
//! which number, also a step of a client's transaction (X/Open XA); `docs/decisions/binlog-commit.md` compares this
//! with attachments in the engine's own log.
//!
//! **Invariants**
//! - Numbers of transactions ascend without a gap in the order of the second log, which is that of decisions.
//! - Nothing is written to the second log before its prepare record is durable, nothing decided before that log is.
//! - What the second log refuses is rolled back, and its numbers are given again: to nobody else meanwhile.
//! - A transaction that the second log has is committed, or the engine ends.

mod name;
mod stage;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::prepared::{self, Told};
use super::{Commit, Home, Isolation, Txn, TxnEnv};
use crate::commit::env::{Background, Ingest};
use crate::commit::id::{Namespace, PreparedId};
use crate::{EngineError, Result, Seq};
use name::{Branch, Name, Step};
use stage::{Done, Stage};

/// What the second log gets of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct DecidedEntry<'a> {
    /// Its number: the one of the entry before and one more.
    pub number: u64,
    /// Opaque here.
    pub attachment: &'a [u8],
}

/// A log beside the engine's, which decides about transactions. The calls of a kind come one after the other, and those
/// of different kinds overlap.
pub trait DecidingLog: Send + Sync {
    /// Appends a group, in this order.
    ///
    /// # Errors
    /// Nothing of the group stands there then.
    fn write(&self, group: &[DecidedEntry<'_>]) -> Result<()>;

    /// How long the next sync waits for more to be written.
    fn gathers(&self) -> Gathering {
        Gathering::default()
    }

    /// Makes durable what was written before.
    ///
    /// # Errors
    /// Nobody knows what is durable: the engine must not go on.
    fn sync(&self) -> Result<()>;

    /// The engine has committed what was written, up to and including these: their sequences, in order; `None` where
    /// nothing was changed.
    fn committed(&self, commits: &[Option<Seq>]);

    /// Does it wait for a moment in which nothing is under way?
    fn wants_pause(&self) -> bool;

    /// Nothing is under way, and all decisions, up to `visible`, are durable.
    fn pause(&self, visible: Seq);

    /// The engine cannot do what this log has decided, or nobody knows what it has: the process ends, and the next
    /// start finds out. If it returns, the sessions get the error.
    fn fail(&self, error: &EngineError);
}

/// What a sync waits for, so that it serves more transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gathering {
    /// So long at most, ...
    pub at_most: Duration,
    /// ... and only until so many transactions have come; 0: however many they are.
    pub transactions: usize,
}

/// How often the engine's log is hardened for what is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harden {
    /// By each session for its own transaction: what groups save is measured against that.
    PerTransaction,
    /// Once for a group, by its leader.
    PerGroup,
}

/// Stages, for a simulation that goes through them by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitStage {
    /// The group is hardened, and written to the second log.
    Flush,
    /// What is written is synced.
    Sync,
    /// What is synced is decided.
    Commit,
}

/// A transaction on its way.
struct Member {
    name: Name,
    /// `None`: nothing but the attachment.
    prepare: Option<Seq>,
    attachment: Vec<u8>,
    done: Arc<Done>,
}

/// A commit that is on its way; its result comes with the last stage.
pub struct PendingCommit {
    done: Arc<Done>,
    leads: bool,
    prepare: Option<Seq>,
}

impl PendingCommit {
    /// What has become of it; `None` as long as it is under way.
    pub fn result(&self) -> Option<Result<Commit>> {
        self.done.result_if_done()
    }
}

/// The three stages.
pub(crate) struct Ordered {
    log: Arc<dyn DecidingLog>,
    harden: Harden,
    /// Number of the next transaction; changed while the first queue is shut.
    next: AtomicU64,
    flush: Stage<Member>,
    sync: Stage<Vec<Member>>,
    commit: Stage<Vec<Member>>,
    /// Groups behind the first queue that are not committed yet.
    under_way: Mutex<usize>,
    are_done: Condvar,
}

impl Ordered {
    pub(crate) fn new(log: Arc<dyn DecidingLog>, next: u64, harden: Harden) -> Self {
        Ordered {
            log,
            harden,
            next: AtomicU64::new(next),
            flush: Stage::default(),
            sync: Stage::default(),
            commit: Stage::default(),
            under_way: Mutex::new(0),
            are_done: Condvar::new(),
        }
    }

    /// The place of a member is fixed: `prepare` logs it under its number, and for the step of a client's transaction.
    fn enter(
        &self,
        attachment: Vec<u8>,
        branch: Option<Branch>,
        prepare: impl FnOnce(&Name) -> Result<Option<Seq>>,
    ) -> Result<PendingCommit> {
        let done = Arc::new(Done::default());
        let mut prepared_at = None;
        let leads = self.flush.enroll_with(|| {
            let number = self.next.load(Ordering::Relaxed);
            let name = Name { number, branch };
            prepared_at = prepare(&name)?;
            self.next.store(number + 1, Ordering::Relaxed);
            Ok(Member {
                name,
                prepare: prepared_at,
                attachment,
                done: Arc::clone(&done),
            })
        })?;
        Ok(PendingCommit {
            done,
            leads,
            prepare: prepared_at,
        })
    }

    /// Goes on with a commit until it is done: as a leader as far as it leads, then as a follower.
    fn finish(
        &self,
        env: &TxnEnv,
        background: &dyn Background,
        pending: &PendingCommit,
    ) -> Result<Commit> {
        if let (Harden::PerTransaction, Some(prepare)) = (self.harden, pending.prepare) {
            // An error comes back to the leader.
            let _ = env.commit.log.harden(prepare);
        }
        if pending.leads {
            let stages = [CommitStage::Flush, CommitStage::Sync, CommitStage::Commit];
            let led = stages
                .into_iter()
                .all(|stage| self.run(env, background, stage));
            if led
                && self.log.wants_pause()
                && let Err(error) =
                    self.pause(env, || self.log.pause(env.commit.watermark.visible()))
            {
                self.log.fail(&error);
            }
        }
        pending.done.wait()
    }

    /// Runs a stage for what stands in its queue. True if whoever calls leads the next one, too.
    pub(crate) fn run(
        &self,
        env: &TxnEnv,
        background: &dyn Background,
        stage: CommitStage,
    ) -> bool {
        match stage {
            CommitStage::Flush => self.run_flush(env),
            CommitStage::Sync => self.run_sync(),
            CommitStage::Commit => self.run_commit(env, background),
        }
    }

    fn run_flush(&self, env: &TxnEnv) -> bool {
        let _turn = self.flush.turn();
        let group = self.flush.take();
        if group.is_empty() {
            // A write that failed has told everybody.
            return false;
        }
        let entries: Vec<_> = group.iter().map(Member::entry).collect();
        debug_assert!(entries.is_sorted_by(|a, b| a.number + 1 == b.number));
        let written = self
            .harden(env, &group)
            .and_then(|()| self.log.write(&entries));
        if let Err(error) = written {
            self.take_back(env, group, &error);
            return false;
        }
        *self.under_way.lock() += 1;
        self.sync.enroll(group)
    }

    /// Makes the prepare records of a group durable.
    fn harden(&self, env: &TxnEnv, group: &[Member]) -> Result<()> {
        let log = &env.commit.log;
        let mut prepares = group.iter().filter_map(|member| member.prepare);
        match self.harden {
            Harden::PerGroup => prepares.next_back().map_or(Ok(()), |last| log.harden(last)),
            Harden::PerTransaction => prepares.try_for_each(|prepare| log.harden(prepare)),
        }
    }

    /// The second log has not taken this group. Whoever stands behind it has later numbers and fails, too, so that its
    /// numbers can be given again.
    fn take_back(&self, env: &TxnEnv, mut failed: Vec<Member>, error: &EngineError) {
        let first = failed[0].name.number;
        self.flush.take_shut(|behind| {
            failed.extend(behind);
            debug_assert!(failed.is_sorted_by(|a, b| a.name.number + 1 == b.name.number));
            for member in failed.iter().filter(|member| member.prepare.is_some()) {
                if let Err(e) = member.name.roll_back(env) {
                    self.log.fail(&e);
                }
            }
            self.next.store(first, Ordering::Relaxed);
        });
        for member in failed {
            member.done.tell(Err(error.clone()));
        }
    }

    fn run_sync(&self) -> bool {
        let _turn = self.sync.turn();
        let gathering = self.log.gathers();
        if !gathering.at_most.is_zero() {
            let wanted = gathering.transactions;
            self.sync.wait_for(gathering.at_most, |groups| {
                wanted > 0 && groups.iter().map(Vec::len).sum::<usize>() >= wanted
            });
        }
        let groups = self.sync.take();
        if groups.is_empty() {
            return false;
        }
        if let Err(error) = self.log.sync() {
            self.log.fail(&error);
            let members = groups.into_iter().flatten();
            members.for_each(|member| member.done.tell(Err(error.clone())));
            return false;
        }
        let enrolled = groups.into_iter().map(|group| self.commit.enroll(group));
        // Of the groups that go on together the first may find the queue empty.
        enrolled.fold(false, |leads, first| leads | first)
    }

    fn run_commit(&self, env: &TxnEnv, background: &dyn Background) -> bool {
        let _turn = self.commit.turn();
        let groups = self.commit.take();
        if groups.is_empty() {
            return false;
        }
        let count = groups.len();
        let members: Vec<_> = groups.into_iter().flatten().collect();
        let results: Vec<_> = members
            .iter()
            .map(|member| self.decide(env, background, member))
            .collect();
        let commits: Vec<_> = results
            .iter()
            .map(|result| result.as_ref().ok().and_then(|commit| commit.seq))
            .collect();
        if let Some(last) = commits.iter().rev().find_map(|seq| *seq) {
            env.commit.assured.raise(last);
        }
        self.log.committed(&commits);
        for (member, result) in members.iter().zip(results) {
            member.done.tell(result);
        }
        let mut under_way = self.under_way.lock();
        assert!(*under_way >= count, "groups under way are counted");
        *under_way -= count;
        if *under_way == 0 {
            self.are_done.notify_all();
        }
        true
    }

    /// Commits what the second log has.
    fn decide(&self, env: &TxnEnv, background: &dyn Background, member: &Member) -> Result<Commit> {
        if member.prepare.is_none() {
            return Ok(Commit { seq: None });
        }
        let decided = member.name.commit(env, background);
        if let Err(error) = &decided {
            self.log.fail(error);
        }
        decided
    }

    /// Returns when the second log knows of every commit that is visible by now: it is told in the same turn.
    pub(crate) fn await_decisions(&self) {
        drop(self.commit.turn());
    }

    /// Lets what is under way end, and runs `f` before anything else begins: all decisions are durable then.
    pub(crate) fn pause<R>(&self, env: &TxnEnv, f: impl FnOnce() -> R) -> Result<R> {
        let _turn = self.flush.turn();
        let mut under_way = self.under_way.lock();
        while *under_way > 0 {
            self.are_done.wait(&mut under_way);
        }
        drop(under_way);
        env.commit.log.harden(env.commit.log.end())?;
        Ok(f())
    }
}

impl Member {
    fn entry(&self) -> DecidedEntry<'_> {
        DecidedEntry {
            number: self.name.number,
            attachment: &self.attachment,
        }
    }
}

fn second(env: &TxnEnv) -> &Ordered {
    env.ordered.get().expect("there is a second log")
}

/// Commits `txn` in both logs, if it has something for the second one.
pub(super) fn commit(txn: &mut Txn) -> Result<Commit> {
    let env = Arc::clone(&txn.env);
    if txn.attachment.bytes() == 0 {
        let announced = env.commit.assured.announce();
        let commit = txn.commit_alone()?;
        if let Some(seq) = commit.seq {
            announced.placed(seq);
        }
        return Ok(commit);
    }
    let pending = enter(txn)?;
    let commit = second(&env).finish(&env, &*txn.home, &pending)?;
    if let Some(seq) = commit.seq {
        assert!(txn.last_commit < seq, "the commits of a session ascend");
        txn.last_commit = seq;
    }
    Ok(commit)
}

/// Prepares `txn` and puts it into the first queue. It is as new then.
pub(super) fn enter(txn: &mut Txn) -> Result<PendingCommit> {
    let env = Arc::clone(&txn.env);
    let has_changes = txn.has_writes();
    let attachment = txn.attachment.pieces().concat();
    let home = Arc::clone(&txn.home);
    let staged = match has_changes {
        true => admit_and_stage(txn, &*home),
        false => home.ready().map(|()| None),
    };
    let entered = staged.and_then(|staged| {
        let entered = second(&env).enter(attachment, None, |name| match has_changes {
            true => prepared::prepare_admitted(txn, &name.id(), Told::OtherLog, staged.as_deref())
                .map(Some),
            false => Ok(None),
        })?;
        if let Some(staged) = staged {
            staged.prepared();
        }
        Ok(entered)
    });
    txn.end();
    entered
}

/// Admits `txn`, and stages what it has in extents.
fn admit_and_stage<'a>(txn: &mut Txn, home: &'a dyn Home) -> Result<Option<Box<dyn Ingest + 'a>>> {
    prepared::admit(txn)?;
    match txn.writes.has_spilled() {
        true => home.stage(&mut txn.writes, &|| txn.go_on.says()),
        false => Ok(None),
    }
}

/// Prepares `txn` for its client in both logs.
pub(super) fn prepare(txn: &mut Txn, id: &PreparedId) -> Result<Seq> {
    let env = Arc::clone(&txn.env);
    let pending = enter_prepare(txn, id)?;
    let prepared = second(&env).finish(&env, &*txn.home, &pending)?;
    Ok(prepared.seq.expect("its number was prepared"))
}

/// Prepares `txn` for its client, and puts that into the first queue. It is as new then.
pub(super) fn enter_prepare(txn: &mut Txn, id: &PreparedId) -> Result<PendingCommit> {
    let env = Arc::clone(&txn.env);
    let attachment = txn.attachment.pieces().concat();
    let branch = Branch {
        step: Step::Prepare,
        id: id.clone(),
    };
    let entered = prepared::admit_whole(txn).and_then(|()| {
        second(&env).enter(attachment, Some(branch), |name| {
            prepare_number(&env, &txn.home, name)?;
            let prepared = prepared::prepare_admitted(txn, id, Told::OtherLog, None);
            if prepared.is_err()
                && let Err(e) = prepared::roll_back_decided(&env, &name.id())
            {
                second(&env).log.fail(&e);
            }
            prepared.map(Some)
        })
    });
    txn.end();
    entered
}

/// The number of a step is prepared, with nothing.
fn prepare_number(env: &Arc<TxnEnv>, home: &Arc<dyn Home>, name: &Name) -> Result<Seq> {
    let mut nothing = Txn::new(env, home, Isolation::ReadCommitted);
    prepared::prepare_admitted(&mut nothing, &name.id(), Told::OtherLog, None)
}

/// Commits or rolls back, in both logs, what its client has had prepared under `id`.
pub(crate) fn decide_branch(
    env: &Arc<TxnEnv>,
    home: &Arc<dyn Home>,
    (id, commits): (&PreparedId, bool),
    attachment: &[u8],
) -> Result<Commit> {
    let pending = enter_decision(env, home, (id, commits), attachment)?;
    second(env).finish(env, &**home, &pending)
}

/// Puts the client's decision about what is prepared under `id` into the first queue.
///
/// # Errors
/// There is no such transaction, or the log does not take it: it stays prepared.
pub(crate) fn enter_decision(
    env: &Arc<TxnEnv>,
    home: &Arc<dyn Home>,
    (id, commits): (&PreparedId, bool),
    attachment: &[u8],
) -> Result<PendingCommit> {
    home.ready()?;
    let step = match commits {
        true => Step::Commit,
        false => Step::RollBack,
    };
    let branch = Branch {
        step,
        id: id.clone(),
    };
    second(env).enter(attachment.to_vec(), Some(branch), |name| {
        match env.prepared.waits(id) {
            true => prepare_number(env, home, name).map(Some),
            false => Err(EngineError::NoSuchPrepared),
        }
    })
}

/// Has the second log take an attachment that belongs to no transaction.
pub(crate) fn note(env: &TxnEnv, home: &dyn Home, attachment: &[u8]) -> Result<()> {
    let pending = second(env).enter(attachment.to_vec(), None, |_| Ok(None))?;
    second(env).finish(env, home, &pending).map(drop)
}

/// After a restart: commits what the second log has, whose last transaction has the number `last`, in its order, and
/// rolls the others back. How many were committed, and how many were not.
pub(crate) fn decide(env: &TxnEnv, background: &dyn Background, last: u64) -> Result<(u64, u64)> {
    let (mut committed, mut rolled_back) = (0, 0);
    for (id, _) in env.prepared.list() {
        if id.namespace() != Namespace::Internal {
            continue;
        }
        let name = Name::read(&id)?;
        match name.number <= last {
            true => {
                let _durable_soon = name.commit(env, background)?;
                committed += 1;
            }
            false => {
                let _durable_soon = name.roll_back(env)?;
                rolled_back += 1;
            }
        }
    }
    env.commit.log.harden(env.commit.log.end())?;
    Ok((committed, rolled_back))
}
