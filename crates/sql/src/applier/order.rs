//! Commits in the order of the source: whose turn it is, and who must make way (wound-wait).
//!
//! A worker waits for its turn only to append its record; the sync is not waited for, so ordered commits cost what
//! unordered ones do. Rosenkrantz et al., *System Level Concurrency Control for Distributed Database Systems*, 1978:
//! where an earlier transaction waits for a lock of a later one, the later one is undone and done again, in its turn.
//!
//! Neighbours: workers begin, wait and end; the engine knows who waits for whom. **Invariants**
//! - A transaction commits when all before it have ended. Only those that wait for their turn look who is in the way,
//!   and only if the turn does not come at once.
//! - Whatever was wrong with a transaction before its turn may have been so because it ran too early; what is wrong in
//!   its turn is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use esker_engine::{CancelReason, WaitCanceller};
use parking_lot::{Condvar, Mutex};

/// Who waits for its turn looks this often whether it is in an earlier one's way.
const LOOK: Duration = Duration::from_millis(2);

/// A transaction that runs.
pub(super) struct Runner {
    canceller: WaitCanceller,
    is_wounded: AtomicBool,
}

impl Runner {
    pub(super) fn new(canceller: WaitCanceller) -> Arc<Self> {
        Arc::new(Self {
            canceller,
            is_wounded: AtomicBool::new(false),
        })
    }

    /// Was it in the way of an earlier one? Asked once.
    pub(super) fn take_wound(&self) -> bool {
        self.is_wounded.swap(false, Ordering::AcqRel)
    }

    fn wound(&self) {
        self.is_wounded.store(true, Ordering::Release);
        self.canceller.cancel(CancelReason::StatementKilled);
    }
}

/// How a wait for the turn has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Everything before has ended.
    Mine,
    /// It is in the way of an earlier one, and must be undone.
    Wounded,
    /// The channel has stopped with an earlier one.
    Stopped,
}

struct Inner {
    next: u64,
    /// What has ended, or need not be done, behind a gap.
    ended: BTreeSet<u64>,
    running: BTreeMap<u64, Arc<Runner>>,
    /// Those of them that have nothing locked until their turn.
    parked: BTreeSet<u64>,
    /// Nothing behind this one is applied any more.
    stopped_at: Option<u64>,
}

/// The order of a channel.
pub(super) struct CommitOrder {
    inner: Mutex<Inner>,
    changed: Condvar,
}

impl CommitOrder {
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
            parked: BTreeSet::new(),
            stopped_at: None,
        };
        Self {
            inner: Mutex::new(inner),
            changed: Condvar::new(),
        }
    }

    /// A transaction begins to run.
    pub(super) fn begin(&self, ordinal: u64, runner: Arc<Runner>) {
        self.inner.lock().running.insert(ordinal, runner);
    }

    /// It has committed.
    pub(super) fn end(&self, ordinal: u64) {
        let mut inner = self.inner.lock();
        debug_assert!(ordinal >= inner.next, "a transaction ends once");
        inner.running.remove(&ordinal);
        inner.ended.insert(ordinal);
        loop {
            let next = inner.next;
            if !inner.ended.remove(&next) {
                break;
            }
            inner.next += 1;
        }
        drop(inner);
        self.changed.notify_all();
    }

    /// It will not commit.
    pub(super) fn leave(&self, ordinal: u64) {
        self.inner.lock().running.remove(&ordinal);
    }

    /// What is behind this one is not applied any more.
    pub(super) fn stop_behind(&self, last: u64) {
        let mut inner = self.inner.lock();
        inner.stopped_at = Some(inner.stopped_at.map_or(last, |at| at.min(last)));
        drop(inner);
        self.changed.notify_all();
    }

    /// Has everything before it ended?
    pub(super) fn is_turn(&self, ordinal: u64) -> bool {
        self.inner.lock().next == ordinal
    }

    /// Is it not to be applied any more?
    pub(super) fn is_stopped(&self, ordinal: u64) -> bool {
        let at = self.inner.lock().stopped_at;
        at.is_some_and(|at| at < ordinal)
    }

    /// Undoes what runs behind this one, and waits until it is undone. It runs again in its turn.
    pub(super) fn clear_way(&self, ordinal: u64) {
        let mut inner = self.inner.lock();
        let later = inner.running.range(ordinal + 1..);
        let mut later: Vec<u64> = later.map(|(ordinal, _)| *ordinal).collect();
        loop {
            later.retain(|other| {
                let runner = inner.running.get(other);
                runner.is_some_and(|runner| {
                    runner.wound();
                    !inner.parked.contains(other)
                })
            });
            if later.is_empty() {
                return;
            }
            self.changed.wait_for(&mut inner, LOOK);
        }
    }

    /// Waits, with nothing locked, until everything before has ended; false: the channel has stopped before that.
    pub(super) fn park(&self, ordinal: u64) -> bool {
        self.inner.lock().parked.insert(ordinal);
        self.changed.notify_all();
        let turn = self.wait(ordinal, None);
        self.inner.lock().parked.remove(&ordinal);
        turn == Turn::Mine
    }

    /// Waits until everything before has ended.
    pub(super) fn wait_turn(&self, ordinal: u64, runner: &Runner) -> Turn {
        self.wait(ordinal, Some(runner))
    }

    fn wait(&self, ordinal: u64, holder: Option<&Runner>) -> Turn {
        let mut inner = self.inner.lock();
        loop {
            debug_assert!(inner.next <= ordinal);
            if inner.next == ordinal {
                return Turn::Mine;
            }
            if inner.stopped_at.is_some_and(|at| at < ordinal) {
                return Turn::Stopped;
            }
            if holder.is_some_and(|runner| runner.is_wounded.load(Ordering::Acquire)) {
                return Turn::Wounded;
            }
            if self.changed.wait_for(&mut inner, LOOK).timed_out() {
                inner.wound();
            }
        }
    }
}

impl Inner {
    /// Wounds every transaction that an earlier one waits for.
    fn wound(&self) {
        for (ordinal, earlier) in &self.running {
            for (_, later) in self.running.range(ordinal + 1..) {
                if earlier.canceller.waits_for(&later.canceller) {
                    later.wound();
                }
            }
        }
    }
}
