//! How the threads of the log are told that there is work.
//!
//! Neighbours: `shared` asks on behalf of appenders and waiters, `daemon` sleeps here.
//!
//! **Invariants**
//! - A request is never lost: it is stored before the sleeper is looked at, and the sleeper looks at
//!   it again after it has said that it sleeps.
//! - At most one flush thread is on watch, and only who is on watch sleeps in
//!   [`DaemonSignals::sleep`].

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::lsn::Lsn;
use crate::policy::{FlushPolicy, MAX_IN_FLIGHT, PolicyCell};

/// The watch works.
const AWAKE: u8 = 0;
/// The watch sleeps until somebody asks.
const RESTING: u8 = 1;
/// The watch lets a group fill; only a full one wakes it.
const FILLING: u8 = 2;

/// What the watch sleeps for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// Until somebody asks.
    Resting,
    /// Until the group is full.
    Filling,
}

/// How the flush threads are told that there is work.
pub(crate) struct DaemonSignals {
    pub(crate) policy: PolicyCell,
    /// Somebody wants everything below this to be durable.
    wanted: AtomicU64,
    /// Everything below this is on its way or durable.
    consumed: AtomicU64,
    /// Requests so far, and as of the last group. Kept only if the policy lets commits wait.
    asked: AtomicU64,
    asked_before: AtomicU64,
    /// Clock when the first asked for what is not on its way, nanoseconds. Kept as the requests are.
    first_asked: AtomicU64,
    /// Somebody waits for room in the buffer.
    hurry: AtomicBool,
    sleeping: AtomicU8,
    stop: AtomicBool,
    /// Held by the thread that decides about the next group.
    watch: Mutex<()>,
    /// Index in `threads` of who is on watch.
    watcher: AtomicUsize,
    threads: [OnceLock<Thread>; MAX_IN_FLIGHT],
}

/// The right to decide about the next group.
pub(crate) type Watch<'a> = MutexGuard<'a, ()>;

impl DaemonSignals {
    pub(crate) fn new(policy: PolicyCell, start: Lsn) -> Self {
        Self {
            policy,
            wanted: AtomicU64::new(start.0),
            consumed: AtomicU64::new(start.0),
            asked: AtomicU64::new(0),
            asked_before: AtomicU64::new(0),
            first_asked: AtomicU64::new(0),
            hurry: AtomicBool::new(false),
            sleeping: AtomicU8::new(AWAKE),
            stop: AtomicBool::new(false),
            watch: Mutex::new(()),
            watcher: AtomicUsize::new(0),
            threads: [const { OnceLock::new() }; MAX_IN_FLIGHT],
        }
    }

    /// Says which thread flushes under this index.
    pub(crate) fn introduce(&self, index: usize) {
        assert!(index < self.threads.len(), "flush threads are bounded");
        let _ = self.threads[index].set(std::thread::current());
    }

    /// Waits until this thread is on watch.
    pub(crate) fn go_on_watch(&self, index: usize) -> Watch<'_> {
        debug_assert!(
            self.threads[index].get().is_some(),
            "introduced before its watch"
        );
        let watch = self.watch.lock();
        self.watcher.store(index, Ordering::SeqCst);
        watch
    }

    /// Everything up to `lsn` should become durable.
    pub(crate) fn want(&self, lsn: Lsn, now_nanos: impl Fn() -> u64) {
        let taken = self.consumed();
        if lsn <= taken {
            return;
        }
        let is_patient = !self.policy.interval().is_zero();
        if is_patient {
            self.asked.fetch_add(1, Ordering::SeqCst);
        }
        let before = self.wanted.fetch_max(lsn.0, Ordering::SeqCst);
        if is_patient && before <= taken.0 {
            self.first_asked.store(now_nanos(), Ordering::SeqCst);
        }
        match self.sleeping.load(Ordering::SeqCst) {
            RESTING if before < lsn.0 => self.wake(),
            FILLING if self.is_full(lsn) => self.wake(),
            _ => {}
        }
    }

    fn is_full(&self, end: Lsn) -> bool {
        let policy = self.policy.effective();
        end.0.saturating_sub(self.consumed().0) >= policy.bytes
            || self.transactions() >= policy.transactions
    }

    /// Room must be made in the buffer, whatever the policy is.
    pub(crate) fn hurry(&self) {
        self.hurry.store(true, Ordering::SeqCst);
        self.wake();
    }

    pub(crate) fn hurried(&self) -> bool {
        self.hurry.load(Ordering::SeqCst)
    }

    pub(crate) fn wanted(&self) -> Lsn {
        Lsn(self.wanted.load(Ordering::SeqCst))
    }

    /// Everything below is on its way or durable.
    pub(crate) fn consumed(&self) -> Lsn {
        Lsn(self.consumed.load(Ordering::SeqCst))
    }

    /// Transactions that have asked since the last group began.
    pub(crate) fn transactions(&self) -> u64 {
        let before = self.asked_before.load(Ordering::SeqCst);
        self.asked.load(Ordering::SeqCst).saturating_sub(before)
    }

    /// Clock when the first of them asked, nanoseconds.
    pub(crate) fn first_asked(&self) -> u64 {
        self.first_asked.load(Ordering::SeqCst)
    }

    /// A group is about to be taken out of the buffer: who asks from now on is one for the next,
    /// if this one does not happen to cover it.
    pub(crate) fn begin_group(&self) {
        self.hurry.store(false, Ordering::SeqCst);
        let asked = self.asked.load(Ordering::SeqCst);
        let before = self.asked_before.swap(asked, Ordering::SeqCst);
        debug_assert!(before <= asked, "requests are only counted up");
    }

    /// Everything below `consumed` is on its way.
    pub(crate) fn set_consumed(&self, consumed: Lsn) {
        let before = self.consumed.swap(consumed.0, Ordering::SeqCst);
        debug_assert!(
            before <= consumed.0,
            "groups are taken in the order of the log"
        );
    }

    pub(crate) fn set_policy(&self, policy: &FlushPolicy) {
        self.policy.set(policy);
        self.wake();
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.wake();
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Wakes the watch if it sleeps.
    pub(crate) fn wake(&self) {
        if self.sleeping.load(Ordering::SeqCst) == AWAKE
            || self.sleeping.swap(AWAKE, Ordering::SeqCst) == AWAKE
        {
            return;
        }
        // If another thread has gone on watch since, the one that slept has woken by itself, and
        // the other one looks at what there is before it sleeps.
        if let Some(thread) = self.threads[self.watcher.load(Ordering::SeqCst)].get() {
            thread.unpark();
        }
    }

    /// Sleeps for `at_most`, or until woken, unless `is_due` by now. False if the time has passed
    /// and nobody has woken the sleeper. For the thread on watch.
    pub(crate) fn sleep(
        &self,
        _watch: &Watch<'_>,
        sleep: Sleep,
        at_most: Duration,
        is_due: impl Fn() -> bool,
    ) -> bool {
        let state = match sleep {
            Sleep::Resting => RESTING,
            Sleep::Filling => FILLING,
        };
        let before = self.sleeping.swap(state, Ordering::SeqCst);
        debug_assert_eq!(before, AWAKE, "one sleeps at a time");
        if !is_due() {
            std::thread::park_timeout(at_most);
        } else {
            self.sleeping.store(AWAKE, Ordering::SeqCst);
            return true;
        }
        self.sleeping.swap(AWAKE, Ordering::SeqCst) == AWAKE
    }
}

/// How the thread that prepares segments is told that there is work.
#[derive(Default)]
pub(crate) struct PreparerSignals {
    state: Mutex<PreparerState>,
    changed: Condvar,
}

#[derive(Default)]
struct PreparerState {
    requested: bool,
    /// Room that somebody waits for.
    needed: u64,
    stop: bool,
}

impl PreparerSignals {
    pub(crate) fn request(&self, needed: u64) {
        let mut state = self.state.lock();
        state.requested = true;
        state.needed = state.needed.max(needed);
        self.changed.notify_one();
    }

    pub(crate) fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_one();
    }

    /// Blocks until there is a request; `None` when it is time to stop.
    pub(crate) fn await_request(&self) -> Option<u64> {
        let mut state = self.state.lock();
        loop {
            if state.stop {
                return None;
            }
            if state.requested {
                state.requested = false;
                return Some(std::mem::take(&mut state.needed));
            }
            self.changed.wait(&mut state);
        }
    }

    pub(crate) fn stopping(&self) -> bool {
        self.state.lock().stop
    }
}
