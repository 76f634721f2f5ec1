//! Commits in the order of the source: whose turn it is, who rests until then, and who must make way (wound-wait).
//!
//! A transaction that has run before its turn rests here with its locks, and its thread goes on with the next one. Who
//! ends a transaction gets the one behind it if that rests, and commits it, too: flat combining, so that no thread
//! sleeps and wakes for a turn. Hendler et al., *Flat Combining and the Synchronization-Parallelism Tradeoff*, 2010.
//! Rosenkrantz et al., *System Level Concurrency Control for Distributed Database Systems*, 1978: where an earlier
//! transaction waits for a lock of a later one, the later one is undone, and done again in its turn.
//!
//! Neighbours: workers begin, run and end transactions; who begins to wait for a row looks who is in its way, and the
//! channel's thread looks again; the engine knows who waits for whom. **Invariants**
//! - A transaction commits when all before it have ended. The one whose turn it is does not rest: a thread has it, or
//!   it has not begun.
//! - Whatever was wrong with a transaction before its turn may have been so because it ran too early; what is wrong in
//!   its turn is wrong.
//! - What rests is undone under the lock: nobody sees a transaction that is neither here nor with a thread.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::hands::HandLocks;

/// Who waits for others to be undone wounds them again this often.
const LOOK: Duration = Duration::from_millis(2);

/// What knows of a transaction's locks.
pub(super) trait Locks: Send + Sync {
    /// Does it wait for a lock of the other one?
    fn waits_for(&self, other: &Self) -> bool;
    /// Which of the others must end before it can go on, if it waits behind sessions that are none of the channel's.
    fn waits_behind_strangers_for<'a>(
        &self,
        others: impl Iterator<Item = (u64, &'a Self)>,
    ) -> Vec<u64>
    where
        Self: 'a;
    /// Does another channel wait for its GTID?
    fn is_wanted(&self) -> bool;
    /// Ends its wait, if it is in one.
    fn cancel(&self);
}

/// A transaction that runs, or that rests with its locks.
pub(super) struct Runner<L = HandLocks> {
    locks: L,
    is_wounded: AtomicBool,
}

impl<L: Locks> Runner<L> {
    pub(super) fn new(locks: L) -> Arc<Self> {
        Arc::new(Self {
            locks,
            is_wounded: AtomicBool::new(false),
        })
    }

    /// Was it in the way of an earlier one? Asked once.
    pub(super) fn take_wound(&self) -> bool {
        self.is_wounded.swap(false, Ordering::AcqRel)
    }

    fn wound(&self) {
        self.is_wounded.store(true, Ordering::Release);
        self.locks.cancel();
    }
}

/// What rests.
pub(super) trait Undo {
    /// Undoes what it has done, and frees its locks.
    fn undo(&mut self);
}

/// A transaction that is not to be committed now, or is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival<T> {
    /// Everything before has ended. True: it has run, and nothing is left but to commit it.
    Mine(T, bool),
    /// Whoever ends the one before takes it.
    Rests,
    /// The channel has stopped with an earlier one.
    Stopped(T),
}

struct Rest<T> {
    job: T,
    /// It has run, and has its locks.
    is_ready: bool,
}

struct Inner<T, L> {
    next: u64,
    /// What has ended, or need not be done, behind a gap.
    ended: BTreeSet<u64>,
    /// Those that have begun and not ended.
    running: BTreeMap<u64, Arc<Runner<L>>>,
    /// Those of them that no thread has.
    resting: BTreeMap<u64, Rest<T>>,
    /// Nothing behind this one begins before it has ended.
    cleared: Option<u64>,
    /// Those whose end threads wait for, once for each: other ends wake nobody.
    awaited: Vec<u64>,
    /// Nothing behind this one is applied any more.
    stopped_at: Option<u64>,
}

/// The order of a channel.
pub(super) struct CommitOrder<T, L = HandLocks> {
    inner: Mutex<Inner<T, L>>,
    changed: Condvar,
}

impl<T: Undo, L: Locks> CommitOrder<T, L> {
    /// How many transactions something is kept of.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        let inner = self.inner.lock();
        inner.ended.len() + inner.running.len()
    }

    /// `next` is the first that has not ended; of those behind it, `ended` have.
    pub(super) fn new(next: u64, ended: BTreeSet<u64>) -> Self {
        let inner = Inner {
            next,
            ended,
            running: BTreeMap::new(),
            resting: BTreeMap::new(),
            cleared: None,
            awaited: Vec::new(),
            stopped_at: None,
        };
        Self {
            inner: Mutex::new(inner),
            changed: Condvar::new(),
        }
    }

    /// A transaction begins to run. True: everything before it has ended. `None`: it is not applied any more.
    pub(super) fn begin(&self, ordinal: u64, runner: Arc<Runner<L>>) -> Option<bool> {
        let mut inner = self.inner.lock();
        while let Some(cleared) = inner.must_keep_clear(ordinal) {
            self.await_end(&mut inner, cleared);
        }
        if inner.is_stopped(ordinal) {
            return None;
        }
        inner.running.insert(ordinal, runner);
        Some(inner.next == ordinal)
    }

    /// It has run before its turn, or was undone, or has not begun: then it is not ready, and has nothing locked.
    pub(super) fn arrive(&self, ordinal: u64, mut job: T, mut is_ready: bool) -> Arrival<T> {
        let mut inner = self.inner.lock();
        debug_assert!(inner.next <= ordinal);
        let is_wounded = |runner: &Arc<Runner<L>>| runner.is_wounded.load(Ordering::Acquire);
        if inner.stopped_at.is_some_and(|at| at < ordinal) {
            return Arrival::Stopped(job);
        }
        if inner.next == ordinal {
            return Arrival::Mine(job, is_ready);
        }
        if is_ready && inner.running.get(&ordinal).is_some_and(is_wounded) {
            job.undo();
            is_ready = false;
        }
        if !is_ready && inner.running.contains_key(&ordinal) {
            // Who clears its way waits for that.
            self.changed.notify_all();
        }
        inner.resting.insert(ordinal, Rest { job, is_ready });
        Arrival::Rests
    }

    /// It has committed. What comes is the one behind it, if it rests, and whether it has run.
    pub(super) fn end(&self, ordinal: u64) -> Option<(T, bool)> {
        let mut inner = self.inner.lock();
        debug_assert!(ordinal >= inner.next, "a transaction ends once");
        inner.running.remove(&ordinal);
        if inner.next == ordinal {
            inner.next += 1;
        } else {
            inner.ended.insert(ordinal);
        }
        while !inner.ended.is_empty() {
            let next = inner.next;
            if !inner.ended.remove(&next) {
                break;
            }
            inner.next += 1;
        }
        let next = inner.next;
        let due = inner.resting.remove(&next);
        let is_awaited = inner.awaited.iter().any(|other| inner.has_ended(*other));
        drop(inner);
        if is_awaited {
            self.changed.notify_all();
        }
        due.map(|rest| (rest.job, rest.is_ready))
    }

    /// It will not commit.
    pub(super) fn leave(&self, ordinal: u64) {
        self.inner.lock().running.remove(&ordinal);
        self.changed.notify_all();
    }

    /// What is behind this one is not applied any more. What comes are those of them that rested, undone.
    pub(super) fn stop_behind(&self, last: u64) -> Vec<T> {
        let mut inner = self.inner.lock();
        inner.stopped_at = Some(inner.stopped_at.map_or(last, |at| at.min(last)));
        let behind = inner.resting.split_off(&(last + 1));
        let undone = behind.into_iter().map(|(ordinal, mut rest)| {
            rest.job.undo();
            inner.running.remove(&ordinal);
            rest.job
        });
        let undone = undone.collect();
        drop(inner);
        self.changed.notify_all();
        undone
    }

    /// Is it not to be applied any more?
    pub(super) fn is_stopped(&self, ordinal: u64) -> bool {
        self.inner.lock().is_stopped(ordinal)
    }

    /// Has it ended?
    pub(super) fn has_ended(&self, ordinal: u64) -> bool {
        self.inner.lock().has_ended(ordinal)
    }

    /// Waits until one that this one depends on has ended; false: the channel has stopped before that.
    pub(super) fn outwait(&self, depends_on: u64, ordinal: u64) -> bool {
        let mut inner = self.inner.lock();
        while !inner.has_ended(depends_on) {
            if inner.is_stopped(ordinal) {
                return false;
            }
            self.await_end(&mut inner, depends_on);
        }
        !inner.is_stopped(ordinal)
    }

    /// Waits until one has ended, or something else has happened.
    fn await_end(&self, inner: &mut MutexGuard<'_, Inner<T, L>>, ordinal: u64) {
        inner.awaited.push(ordinal);
        self.changed.wait(inner);
        let at = inner.awaited.iter().position(|awaited| *awaited == ordinal);
        inner.awaited.swap_remove(at.expect("it was pushed"));
    }

    /// Undoes what runs or rests behind this one, and waits until it is undone. It runs again in its turn, and what has
    /// not begun waits for the end of this one: those behind would come to the same locks again and again.
    pub(super) fn clear_way(&self, ordinal: u64) {
        let mut inner = self.inner.lock();
        debug_assert_eq!(inner.next, ordinal, "it is its turn");
        inner.cleared = Some(ordinal);
        inner.undo_resting(|other| other > ordinal);
        let later = inner.running.range(ordinal + 1..);
        let mut later: Vec<u64> = later.map(|(ordinal, _)| *ordinal).collect();
        loop {
            later.retain(|other| {
                let runner = inner.running.get(other);
                runner
                    .filter(|_| !inner.resting.contains_key(other))
                    .is_some_and(|runner| {
                        runner.wound();
                        true
                    })
            });
            if later.is_empty() {
                return;
            }
            self.changed.wait_for(&mut inner, LOOK);
        }
    }

    #[cfg(test)]
    fn has_resting(&self) -> bool {
        self.inner.lock().has_resting()
    }

    /// A transaction begins to wait for a row: those behind it that it waits for make way now.
    pub(super) fn look_for(&self, waiter: &Arc<Runner<L>>) {
        let mut inner = self.inner.lock();
        let mut running = inner.running.iter();
        let Some((&ordinal, _)) = running.find(|(_, runner)| Arc::ptr_eq(runner, waiter)) else {
            return;
        };
        let mut wounded = BTreeSet::new();
        inner.wound_behind(ordinal, &mut wounded);
        inner.undo_resting(|ordinal| wounded.contains(&ordinal));
    }

    /// Wounds every transaction that an earlier one waits for, and undoes those of them that rest; wounds what is not
    /// applied any more. One that runs is wounded, too: it may wait for others itself. Of those that wait behind other
    /// sessions only the one whose turn it is counts: the rest of them go on when it has ended. What rests with a GTID
    /// that another channel waits for is undone: that one's turn may have come, and this one's not come before it.
    pub(super) fn look(&self) {
        let mut inner = self.inner.lock();
        inner.wound_stopped();
        let mut wounded = inner.wound_wanted();
        for ordinal in inner.running.keys() {
            if !inner.resting.contains_key(ordinal) {
                inner.wound_behind(*ordinal, &mut wounded);
            }
        }
        if wounded.is_empty() {
            wounded.extend(inner.wound_before_first());
        }
        inner.undo_resting(|ordinal| wounded.contains(&ordinal));
    }
}

impl<T: Undo, L: Locks> Inner<T, L> {
    /// Wounds those behind one that it waits for.
    fn wound_behind(&self, ordinal: u64, wounded: &mut BTreeSet<u64>) {
        let earlier = &self.running[&ordinal].locks;
        for (other, later) in self.running.range(ordinal + 1..) {
            if earlier.waits_for(&later.locks) {
                later.wound();
                wounded.insert(*other);
            }
        }
    }

    /// Wounds those that rest with what others want.
    fn wound_wanted(&self) -> BTreeSet<u64> {
        let with_locks = self.resting.iter().filter(|(_, rest)| rest.is_ready);
        let runners = with_locks.filter_map(|(ordinal, _)| self.running.get_key_value(ordinal));
        let wanted = runners.filter(|(_, runner)| runner.locks.is_wanted());
        let wound = |(ordinal, runner): (&u64, &Arc<Runner<L>>)| {
            runner.wound();
            *ordinal
        };
        wanted.map(wound).collect()
    }

    /// Wounds those that the one whose turn it is waits for behind sessions of others.
    fn wound_before_first(&self) -> Vec<u64> {
        let Some(first) = self.running.get(&self.next) else {
            return Vec::new();
        };
        let later = self.running.range(self.next + 1..);
        if later.clone().next().is_none() {
            return Vec::new();
        }
        let others = later.map(|(ordinal, runner)| (*ordinal, &runner.locks));
        let wounded = first.locks.waits_behind_strangers_for(others);
        for ordinal in &wounded {
            self.running[ordinal].wound();
        }
        wounded
    }

    fn has_ended(&self, ordinal: u64) -> bool {
        self.next > ordinal || self.ended.contains(&ordinal)
    }

    /// Wounds those that run and are not applied any more: what they wait for may be long in coming. The one whose turn
    /// it is has to say itself what has become of it.
    fn wound_stopped(&self) {
        let Some(last) = self.stopped_at else { return };
        for (ordinal, runner) in self.running.range(last + 1..) {
            if *ordinal != self.next && !self.resting.contains_key(ordinal) {
                runner.wound();
            }
        }
    }

    fn is_stopped(&self, ordinal: u64) -> bool {
        self.stopped_at.is_some_and(|at| at < ordinal)
    }

    /// Must it not begin yet? Then it waits for the end of this one.
    fn must_keep_clear(&self, ordinal: u64) -> Option<u64> {
        let is_behind = |at: &u64| *at < ordinal && self.next <= *at;
        let is_wanted = |_: &u64| !self.is_stopped(ordinal);
        self.cleared.filter(is_behind).filter(is_wanted)
    }

    /// Does anything rest with its locks?
    #[cfg(test)]
    fn has_resting(&self) -> bool {
        self.resting.values().any(|rest| rest.is_ready)
    }

    /// Undoes those that rest with their locks.
    fn undo_resting(&mut self, which: impl Fn(u64) -> bool) {
        for (ordinal, rest) in &mut self.resting {
            if rest.is_ready && which(*ordinal) {
                rest.job.undo();
                rest.is_ready = false;
            }
        }
    }
}

#[cfg(test)]
mod tests;
