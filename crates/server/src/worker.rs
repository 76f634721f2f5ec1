//! Leaving a worker thread of the runtime in the middle of a statement.
//!
//! Neighbours: `connection` gives it to its session, which calls it where a step takes longer than it should
//! (`esker_sql::ClientInfo::leave_worker`).
//!
//! The statement goes on on its thread, whose place among the workers a fresh thread takes, with everything that waited
//! there: that is what [`tokio::task::block_in_place`] does when it is entered. It takes the place back when it is
//! left, unless the fresh thread has taken it; so it is left only after the fresh thread has had the time for that.
//!
//! **Invariants**
//! - Off the runtime, or on a thread that is no worker any more, nothing happens.
//! - It may come to nothing (no thread is to be had; the fresh thread was slower than the one that waits for it). The
//!   session asks again later.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::watch::Watching;

/// Longest wait for a fresh thread.
const FRESH_THREAD: Duration = Duration::from_millis(20);
/// From when the fresh thread runs to when it has taken the place: a few instructions.
const TAKES_OVER: Duration = Duration::from_micros(50);

/// What watches the client while its statement has a worker's thread for itself.
#[derive(Clone, Default)]
pub(crate) struct Watcher(Arc<Mutex<Option<Watching>>>);

impl Watcher {
    /// Watches, if nobody does.
    pub(crate) fn begin(&self, watch: impl FnOnce() -> Option<Watching>) {
        let mut watching = self.0.lock();
        if watching.is_none() {
            *watching = watch();
        }
    }

    /// The statement is over or has come to a wait.
    pub(crate) fn end(&self) {
        *self.0.lock() = None;
    }
}

/// Leaves the place of this thread among the workers.
pub(crate) fn leave() {
    if Handle::try_current().is_err() {
        return;
    }
    tokio::task::block_in_place(|| {
        // Jobs are begun in order: when this one runs, the one that takes the place has been begun.
        let (sender, begun) = sync_channel(1);
        tokio::task::spawn_blocking(move || sender.send(()));
        if begun.recv_timeout(FRESH_THREAD).is_ok() {
            std::thread::sleep(TAKES_OVER);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn others_go_on_while_a_task_that_has_left_does_not_yield() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let seen = done.clone();
        let busy = runtime.spawn(async move {
            // It may come to nothing once or twice, never for ever.
            while !seen.load(Ordering::Relaxed) {
                leave();
            }
        });
        let other = runtime.spawn(async move { done.store(true, Ordering::Relaxed) });
        runtime
            .block_on(async { busy.await.and(other.await) })
            .unwrap();
        leave();
    }
}
