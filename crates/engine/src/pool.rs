//! The scan thread pool: callers run their own tasks, and a few helper threads are shared by all scans.
//!
//! Neighbours: whoever has a [`ParallelScan`](crate::scan::ParallelScan) makes a [`ScanWork`] of it and calls
//! [`ScanPool::run`] on its own thread; the engine owns the pool.
//!
//! Protocol: the caller puts up to so many invitations to its scan into the queue, then does tasks itself, one after
//! the other. A helper takes the first invitation, does one task, and puts the invitation back behind all others; if no
//! task is left it drops it. So scans share the helpers by tasks, and a scan goes on although no helper is free.
//! Results reach the caller in the order of the tasks.
//!
//! **Invariants**
//! - A task is begun at most once, and never after the caller has left.
//! - The caller leaves when no helper works for it any more.
//! - Only mutexes and condition variables: a task takes milliseconds. The flag that stops helpers early is only a hint.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Most invitations that wait; a scan that finds the queue full goes on with fewer helpers.
const MAX_INVITATIONS: usize = 256;
/// How often a caller that waits for helpers asks whether to go on.
const QUESTION_INTERVAL: Duration = Duration::from_millis(10);

/// A scan whose tasks can be done by any thread.
pub trait ScanWork: Send + Sync + 'static {
    /// What a task brings.
    type Output: Send;

    /// Does a task. Asks `go_on` often (every few hundred rows), and comes back soon, with anything, after it said no.
    fn run(&self, task: usize, go_on: &mut dyn FnMut() -> bool) -> Self::Output;
}

/// How a scan has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every task was done, and its result taken.
    Done,
    /// The caller wanted no more.
    Stopped,
}

/// Shares a few threads among scans.
pub struct ScanPool {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// There is an invitation, or the pool ends or shrinks.
    called: Condvar,
    tasks: AtomicU64,
    helped: AtomicU64,
    counted: AtomicU64,
}

/// What scans have done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanStats {
    /// Tasks done.
    pub tasks: u64,
    /// Those among them that helpers did.
    pub helped: u64,
    /// Rows that were counted without reading.
    pub counted: u64,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Arc<dyn Job>>,
    /// Most helpers.
    limit: usize,
    threads: usize,
    idle: usize,
    is_closed: bool,
    handles: Vec<JoinHandle<()>>,
}

/// A scan as helpers see it.
trait Job: Send + Sync {
    /// Does a task, if one is left; false if none is left afterwards.
    fn help(&self) -> bool;
}

impl ScanPool {
    /// A pool of at most `limit` helpers. Threads start when they are first needed.
    pub fn new(limit: usize) -> ScanPool {
        let state = State {
            limit,
            ..State::default()
        };
        ScanPool {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                called: Condvar::new(),
                tasks: AtomicU64::new(0),
                helped: AtomicU64::new(0),
                counted: AtomicU64::new(0),
            }),
        }
    }

    /// Changes the number of helpers; those that are too many end after their task.
    pub fn set_limit(&self, limit: usize) {
        self.shared.state.lock().limit = limit;
        self.shared.called.notify_all();
    }

    /// Most helpers.
    pub fn limit(&self) -> usize {
        self.shared.state.lock().limit
    }

    /// What scans have done so far.
    pub fn stats(&self) -> ScanStats {
        let helped = self.shared.helped.load(Ordering::Relaxed);
        ScanStats {
            tasks: self.shared.tasks.load(Ordering::Relaxed) + helped,
            helped,
            counted: self.shared.counted.load(Ordering::Relaxed),
        }
    }

    /// So many rows were counted without reading.
    pub fn note_counted(&self, rows: u64) {
        self.shared.counted.fetch_add(rows, Ordering::Relaxed);
    }

    /// Does `tasks` tasks of `work` on this thread and up to `helpers` others. Passes the results to `take` on this
    /// thread, in the order of the tasks. Stops early if `take` or `go_on` says no; `go_on` is asked at least every 20
    /// ms.
    ///
    /// # Panics
    /// If a task has panicked.
    pub fn run<W: ScanWork>(
        &self,
        work: Arc<W>,
        tasks: usize,
        helpers: usize,
        go_on: &mut dyn FnMut() -> bool,
        mut take: impl FnMut(usize, W::Output) -> bool,
    ) -> Outcome {
        let scan = Arc::new(Scan {
            work,
            pool: Arc::clone(&self.shared),
            is_stopped: AtomicBool::new(false),
            progress: Mutex::new(Progress {
                tasks,
                next: 0,
                running: 0,
                results: (0..tasks).map(|_| None).collect(),
                has_panicked: false,
            }),
            changed: Condvar::new(),
        });
        // Whatever happens here, nobody works for a caller that is gone.
        let guard = Leaving(&scan);
        self.invite(&scan, helpers.min(tasks.saturating_sub(1)));
        let mut taken = 0;
        loop {
            let mut question = || {
                let goes_on = !scan.is_stopped.load(Ordering::Relaxed) && go_on();
                if !goes_on {
                    scan.is_stopped.store(true, Ordering::Relaxed);
                }
                goes_on
            };
            let has_worked = scan.do_task(&mut question);
            let tasks_done = u64::from(has_worked);
            self.shared.tasks.fetch_add(tasks_done, Ordering::Relaxed);
            while let Some(result) = scan.result(taken) {
                if !take(taken, result) {
                    scan.is_stopped.store(true, Ordering::Relaxed);
                    break;
                }
                taken += 1;
                debug_assert!(taken <= tasks);
            }
            if scan.is_stopped.load(Ordering::Relaxed) {
                drop(guard);
                return Outcome::Stopped;
            }
            if taken == tasks {
                return Outcome::Done;
            }
            if !has_worked {
                if !question() {
                    continue;
                }
                scan.wait_for(taken);
            }
        }
    }

    fn invite<W: ScanWork>(&self, scan: &Arc<Scan<W>>, helpers: usize) {
        if helpers == 0 {
            return;
        }
        let mut state = self.shared.state.lock();
        let helpers = helpers
            .min(state.limit)
            .min(MAX_INVITATIONS.saturating_sub(state.queue.len()));
        for _ in 0..helpers {
            state.queue.push_back(Arc::clone(scan) as Arc<dyn Job>);
        }
        let missing = state.queue.len().saturating_sub(state.idle);
        let startable = state.limit.saturating_sub(state.threads);
        for _ in 0..missing.min(startable) {
            let shared = Arc::clone(&self.shared);
            let builder = thread::Builder::new().name("esker-scan".into());
            match builder.spawn(move || shared.work()) {
                Ok(handle) => {
                    state.threads += 1;
                    state.handles.push(handle);
                }
                Err(error) => {
                    // The callers go on by themselves.
                    tracing::warn!(%error, "a scan has to do without a helper");
                    break;
                }
            }
        }
        drop(state);
        self.shared.called.notify_all();
    }
}

impl Drop for ScanPool {
    fn drop(&mut self) {
        let handles = {
            let mut state = self.shared.state.lock();
            state.is_closed = true;
            state.queue.clear();
            std::mem::take(&mut state.handles)
        };
        self.shared.called.notify_all();
        for handle in handles {
            // A helper may hold the last handle to what owns the pool; nobody joins itself.
            if handle.thread().id() != thread::current().id() && handle.join().is_err() {
                tracing::error!("a helper of scans panicked");
            }
        }
    }
}

impl Shared {
    /// The life of a helper.
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if state.is_closed || state.threads > state.limit {
                debug_assert!(state.threads > 0);
                state.threads -= 1;
                return;
            }
            let Some(job) = state.queue.pop_front() else {
                state.idle += 1;
                debug_assert!(state.idle <= state.threads);
                self.called.wait(&mut state);
                debug_assert!(state.idle > 0);
                state.idle -= 1;
                continue;
            };
            drop(state);
            let has_more = job.help();
            state = self.state.lock();
            if has_more && !state.is_closed {
                // There is room: this invitation was one of those that were counted.
                state.queue.push_back(job);
            }
        }
    }
}

/// A scan that is being done.
struct Scan<W: ScanWork> {
    work: Arc<W>,
    pool: Arc<Shared>,
    /// Helpers look at it while they work.
    is_stopped: AtomicBool,
    progress: Mutex<Progress<W::Output>>,
    /// A helper has ended a task.
    changed: Condvar,
}

struct Progress<T> {
    tasks: usize,
    /// The next task nobody has begun.
    next: usize,
    /// Tasks that helpers work at.
    running: usize,
    results: Vec<Option<T>>,
    has_panicked: bool,
}

impl<W: ScanWork> Scan<W> {
    /// A task to do, of those nobody has begun.
    fn begin(&self, progress: &mut Progress<W::Output>) -> Option<usize> {
        if progress.next == progress.tasks || self.is_stopped.load(Ordering::Relaxed) {
            return None;
        }
        debug_assert!(progress.next < progress.tasks);
        progress.next += 1;
        Some(progress.next - 1)
    }

    /// Does a task on the caller's thread; false if none was left.
    fn do_task(&self, go_on: &mut dyn FnMut() -> bool) -> bool {
        let Some(task) = self.begin(&mut self.progress.lock()) else {
            return false;
        };
        let result = self.work.run(task, go_on);
        let before = self.progress.lock().results[task].replace(result);
        debug_assert!(before.is_none(), "a task is done once");
        true
    }

    /// The result of a task, if it is there.
    fn result(&self, task: usize) -> Option<W::Output> {
        let mut progress = self.progress.lock();
        assert!(!progress.has_panicked, "a task of a scan has panicked");
        progress.results.get_mut(task)?.take()
    }

    /// Waits a little for the result of a task that a helper has begun.
    fn wait_for(&self, task: usize) {
        let mut progress = self.progress.lock();
        if progress.results[task].is_none() && !progress.has_panicked {
            self.changed.wait_for(&mut progress, QUESTION_INTERVAL);
        }
    }
}

impl<W: ScanWork> Job for Scan<W> {
    fn help(&self) -> bool {
        let task = {
            let mut progress = self.progress.lock();
            let Some(task) = self.begin(&mut progress) else {
                return false;
            };
            progress.running += 1;
            task
        };
        let mut go_on = || !self.is_stopped.load(Ordering::Relaxed);
        // Nothing of a task that has panicked is looked at again: the caller panics, too.
        let result = catch_unwind(AssertUnwindSafe(|| self.work.run(task, &mut go_on)));
        self.pool.helped.fetch_add(1, Ordering::Relaxed);
        let mut progress = self.progress.lock();
        debug_assert!(progress.running > 0 && progress.results[task].is_none());
        progress.running -= 1;
        match result {
            Ok(result) => progress.results[task] = Some(result),
            Err(_) => progress.has_panicked = true,
        }
        let has_more = progress.next < progress.tasks;
        self.changed.notify_all();
        has_more
    }
}

/// Stops a scan and waits for its helpers when the caller leaves.
struct Leaving<'a, W: ScanWork>(&'a Scan<W>);

impl<W: ScanWork> Drop for Leaving<'_, W> {
    fn drop(&mut self) {
        self.0.is_stopped.store(true, Ordering::Relaxed);
        let mut progress = self.0.progress.lock();
        progress.next = progress.tasks;
        while progress.running > 0 {
            self.0.changed.wait(&mut progress);
        }
    }
}
