//! Spilling beside the transaction: a thread that sorts and writes what has become too much for memory.
//!
//! Neighbours: `write_set` hands over a full table, goes on with an empty one, and takes what was made of it; `spill`
//! writes it; the environment of transactions has the thread.
//!
//! Protocol: a job waits, is done, and has ended. The thread takes jobs as they come. Whoever needs the result of a job
//! that nobody has begun does it himself, so nobody waits for the jobs of others, and where there is no thread or its
//! queue is full everything goes on as it would without.
//!
//! **Invariants**
//! - A job is done by one at a time, and what it has made is taken once.
//! - Nothing is written to the table of a job. Readers may look at it until the end of the job is seen, and after.
//! - An error is told to the transaction of the job; the job is then as if nobody had begun it. What was rolled back
//!   after an error is left out when it is tried again: a full disk may be full of just that.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};

use super::own_table::OwnTable;
use super::spill::Spill;
use super::write_set::DeadRanges;
use crate::Result;
use crate::extent::Store;
use crate::tree::Tree;

/// Most jobs that wait for the thread; each is of another tree of a transaction, and small beside its memory.
const MAX_QUEUED: usize = 16;

/// A table on its way to extents.
pub(super) struct SpillJob {
    pub(super) table: Arc<OwnTable>,
    tree: Tree,
    store: Arc<Store>,
    /// What was rolled back before it was begun, and is left out.
    dead: Mutex<DeadRanges>,
    state: Mutex<State>,
    ended: Condvar,
}

enum State {
    Waiting,
    Running,
    Ended(Result<Option<Arc<Spill>>>),
    Panicked,
    /// What it has made was taken, or is not wanted.
    Over,
}

impl SpillJob {
    pub(super) fn new(
        store: &Arc<Store>,
        tree: &Tree,
        table: &Arc<OwnTable>,
        dead: &DeadRanges,
    ) -> Arc<Self> {
        Arc::new(SpillJob {
            table: Arc::clone(table),
            tree: tree.clone(),
            store: Arc::clone(store),
            dead: Mutex::new(Arc::clone(dead)),
            state: Mutex::new(State::Waiting),
            ended: Condvar::new(),
        })
    }

    fn begin(&self) -> bool {
        let mut state = self.state.lock();
        let is_waiting = matches!(*state, State::Waiting);
        if is_waiting {
            *state = State::Running;
        }
        is_waiting
    }

    /// Does the job, unless somebody has begun it.
    fn run(&self) {
        if !self.begin() {
            return;
        }
        let dead = Arc::clone(&self.dead.lock());
        let write = || Spill::write(&self.store, &self.tree, &self.table, &dead);
        // Nothing is left of a spill that has panicked; whoever takes it panics, too.
        let ended = match catch_unwind(AssertUnwindSafe(write)) {
            Ok(made) => State::Ended(made.map(|spill| spill.map(Arc::new))),
            Err(_) => State::Panicked,
        };
        let before = std::mem::replace(&mut *self.state.lock(), ended);
        debug_assert!(matches!(before, State::Running), "one does it at a time");
        self.ended.notify_all();
    }

    /// Whether what it has made can be taken at once.
    pub(super) fn has_ended(&self) -> bool {
        matches!(*self.state.lock(), State::Ended(_) | State::Panicked)
    }

    /// Takes what it has made: does it now if nobody has begun it or it has failed, waits if somebody has. `dead` is
    /// what is rolled back by now. `None` if nothing in the table was live.
    pub(super) fn take(&self, dead: &DeadRanges) -> Result<Option<Arc<Spill>>> {
        self.begin_anew(dead);
        self.run();
        let mut state = self.state.lock();
        while matches!(*state, State::Running) {
            self.ended.wait(&mut state);
        }
        match std::mem::replace(&mut *state, State::Over) {
            State::Ended(Ok(spill)) => Ok(spill),
            State::Ended(Err(error)) => {
                *state = State::Waiting;
                Err(error)
            }
            State::Panicked => panic!("a spill has panicked"),
            State::Waiting | State::Running | State::Over => {
                unreachable!("it has ended, and is taken once")
            }
        }
    }

    /// What waits or has failed leaves out what is rolled back by now.
    fn begin_anew(&self, dead: &DeadRanges) {
        let mut state = self.state.lock();
        if matches!(*state, State::Waiting | State::Ended(Err(_))) {
            *self.dead.lock() = Arc::clone(dead);
            *state = State::Waiting;
        }
    }

    /// Nobody wants it any more.
    pub(super) fn cancel(&self) {
        let mut state = self.state.lock();
        if matches!(*state, State::Waiting) {
            *state = State::Over;
        }
    }
}

/// The thread for the spills of all transactions. It starts when it is first needed.
pub(crate) struct Spiller {
    shared: Arc<Shared>,
    has_thread: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// There is a job, or the end.
    called: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Arc<SpillJob>>,
    thread: Option<JoinHandle<()>>,
    is_closed: bool,
}

impl Spiller {
    /// Without a thread transactions spill by themselves.
    pub(crate) fn new(has_thread: bool) -> Self {
        Spiller {
            shared: Arc::default(),
            has_thread,
        }
    }

    /// Into how many parts the memory of a transaction is divided: one that is filled, and one that is written beside.
    pub(super) fn parts(&self) -> u64 {
        1 + u64::from(self.has_thread)
    }

    /// Offers a job to the thread; false if it will not do it.
    pub(super) fn offer(&self, job: &Arc<SpillJob>) -> bool {
        if !self.has_thread {
            return false;
        }
        let mut queue = self.shared.queue.lock();
        if queue.jobs.len() == MAX_QUEUED {
            return false;
        }
        if queue.thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let builder = thread::Builder::new().name("esker-spill".into());
            match builder.spawn(move || shared.work()) {
                Ok(thread) => queue.thread = Some(thread),
                Err(error) => {
                    tracing::warn!(%error, "a transaction spills without a thread for it");
                    return false;
                }
            }
        }
        queue.jobs.push_back(Arc::clone(job));
        debug_assert!(queue.jobs.len() <= MAX_QUEUED);
        drop(queue);
        self.shared.called.notify_one();
        true
    }
}

impl Shared {
    /// The life of the thread.
    fn work(&self) {
        let mut queue = self.queue.lock();
        while !queue.is_closed {
            match queue.jobs.pop_front() {
                Some(job) => {
                    drop(queue);
                    job.run();
                    // What the job holds goes before the queue is locked.
                    drop(job);
                    queue = self.queue.lock();
                }
                None => self.called.wait(&mut queue),
            }
        }
    }
}

impl Drop for Spiller {
    fn drop(&mut self) {
        let thread = {
            let mut queue = self.shared.queue.lock();
            queue.is_closed = true;
            queue.jobs.clear();
            queue.thread.take()
        };
        self.shared.called.notify_all();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread for spills panicked");
        }
    }
}
