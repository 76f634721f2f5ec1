//! One stage of the ordered commit: a queue, and the right to work on what stands in it.
//!
//! Neighbours: the three stages of [`super::Ordered`] are of this kind. Whoever finds the queue empty leads: it waits
//! for its turn and then works for everybody who has come meanwhile; the others follow, and only wait for their
//! results.
//!
//! **Invariants**
//! - There is one leader for whatever stands in the queue, and it has not taken the queue yet.
//! - Stages keep the order: what leaves one is put into the next by whoever still has the turn.
//! - A queue holds what sessions commit, each of them once: it is bounded by their number.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::Result;
use crate::txn::Commit;

/// The stage.
pub(super) struct Stage<T> {
    queue: Mutex<Vec<T>>,
    has_grown: Condvar,
    turn: Mutex<()>,
}

impl<T> Default for Stage<T> {
    fn default() -> Self {
        Stage {
            queue: Mutex::default(),
            has_grown: Condvar::new(),
            turn: Mutex::default(),
        }
    }
}

impl<T> Stage<T> {
    /// Puts something into the queue. True: whoever has done so leads.
    pub(super) fn enroll(&self, item: T) -> bool {
        self.enroll_with(|| Ok(item))
            .expect("there is nothing to fail")
    }

    /// The same with something that is made when its place in the queue is fixed.
    pub(super) fn enroll_with(&self, make: impl FnOnce() -> Result<T>) -> Result<bool> {
        let mut queue = self.queue.lock();
        let item = make()?;
        queue.push(item);
        self.has_grown.notify_one();
        Ok(queue.len() == 1)
    }

    /// Waits until there is enough in the queue, but not longer than that; for whoever has the turn.
    pub(super) fn wait_for(&self, at_most: Duration, is_enough: impl Fn(&[T]) -> bool) {
        let until = Instant::now() + at_most;
        let mut queue = self.queue.lock();
        while !is_enough(&queue) && !self.has_grown.wait_until(&mut queue, until).timed_out() {}
    }

    /// Waits for the turn.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// Takes what stands in the queue, for whoever has the turn.
    pub(super) fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.queue.lock())
    }

    /// Takes what stands in the queue, and keeps it shut while `f` runs.
    pub(super) fn take_shut<R>(&self, f: impl FnOnce(Vec<T>) -> R) -> R {
        let mut queue = self.queue.lock();
        f(std::mem::take(&mut *queue))
    }
}

/// What has become of a commit, for the session that waits for it.
#[derive(Default)]
pub(super) struct Done {
    result: Mutex<Option<Result<Commit>>>,
    is_there: Condvar,
}

impl Done {
    pub(super) fn tell(&self, result: Result<Commit>) {
        let before = self.result.lock().replace(result);
        assert!(before.is_none(), "a commit ends once");
        self.is_there.notify_one();
    }

    /// Waits for it.
    pub(super) fn wait(&self) -> Result<Commit> {
        let mut result = self.result.lock();
        loop {
            match result.take() {
                Some(result) => return result,
                None => self.is_there.wait(&mut result),
            }
        }
    }

    /// It, if it is there.
    pub(super) fn result_if_done(&self) -> Option<Result<Commit>> {
        self.result.lock().take()
    }
}
