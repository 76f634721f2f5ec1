//! The queues of workers: groups that were placed and that nobody has begun. Work stealing, where it is of use.
//!
//! Neighbours: `feed` fills and closes them; workers take from them; `order` knows what has ended. **Invariants**
//! - With commits in order a worker takes the groups of its own queue, one after the other: those behind one that waits
//!   could only rest.
//! - Otherwise whoever has nothing to do takes what is ready, from whatever queue: one that waits for a lock keeps its
//!   thread, and nobody who does not depend on it. What is not ready is left where it is.
//! - A queue is bounded by those who place groups.

use std::collections::VecDeque;

use esker_binlog::apply::Group;
use parking_lot::{Condvar, Mutex};

/// A group for a worker.
pub(super) struct Task {
    pub(super) group: Box<Group>,
    /// Those that must have ended before this one runs.
    pub(super) after: Vec<u64>,
}

#[derive(Default)]
struct Inner {
    queues: Vec<VecDeque<Task>>,
    is_closed: bool,
}

/// The queues of a channel.
pub(super) struct Queues {
    inner: Mutex<Inner>,
    /// Of each worker: there is something to do, perhaps.
    came: Vec<Condvar>,
    in_order: bool,
}

impl Queues {
    pub(super) fn new(workers: usize, in_order: bool) -> Self {
        let inner = Inner {
            queues: (0..workers).map(|_| VecDeque::new()).collect(),
            is_closed: false,
        };
        Self {
            inner: Mutex::new(inner),
            came: (0..workers).map(|_| Condvar::new()).collect(),
            in_order,
        }
    }

    pub(super) fn push(&self, worker: usize, task: Task) {
        let mut inner = self.inner.lock();
        debug_assert!(!inner.is_closed);
        inner.queues[worker].push_back(task);
        drop(inner);
        self.came[worker].notify_one();
    }

    /// What a worker does next.
    pub(super) fn take(&self, worker: usize, is_ready: impl Fn(&Task) -> bool) -> Option<Task> {
        self.next(&mut self.inner.lock(), worker, is_ready)
    }

    /// The same, which it may have to wait for; `None` when nothing is left for it and nothing comes.
    pub(super) fn await_next(
        &self,
        worker: usize,
        is_ready: impl Fn(&Task) -> bool,
    ) -> Option<Task> {
        let mut inner = self.inner.lock();
        loop {
            let task = self.next(&mut inner, worker, &is_ready);
            if task.is_some() {
                return task;
            }
            if inner.is_closed && inner.queues[worker].is_empty() {
                return None;
            }
            self.came[worker].wait(&mut inner);
        }
    }

    fn next(
        &self,
        inner: &mut Inner,
        worker: usize,
        is_ready: impl Fn(&Task) -> bool,
    ) -> Option<Task> {
        match self.in_order {
            true => inner.queues[worker].pop_front(),
            false => inner.take_ready(worker, &is_ready),
        }
    }

    /// Wakes those who have nothing to do where others have more than they can do now, or where nothing comes.
    pub(super) fn share_out(&self, is_ready: impl Fn(&Task) -> bool) {
        if self.in_order {
            return;
        }
        let inner = self.inner.lock();
        let is_due = inner.is_closed || inner.queues.iter().flatten().any(is_ready);
        drop(inner);
        if is_due {
            self.came.iter().for_each(|came| {
                came.notify_one();
            });
        }
    }

    /// Nothing comes any more.
    pub(super) fn close(&self) {
        self.inner.lock().is_closed = true;
        self.came.iter().for_each(|came| {
            came.notify_one();
        });
    }
}

impl Inner {
    /// The first that is ready of a worker's own, else of another one.
    fn take_ready(&mut self, worker: usize, is_ready: &impl Fn(&Task) -> bool) -> Option<Task> {
        let count = self.queues.len();
        (0..count).find_map(|nth| {
            let queue = &mut self.queues[(worker + nth) % count];
            let at = queue.iter().position(is_ready)?;
            queue.remove(at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::applier::tests::group;

    fn queues(in_order: bool) -> Queues {
        let queues = Queues::new(2, in_order);
        for (ordinal, after) in [(1, vec![]), (2, vec![1]), (3, vec![])] {
            queues.push(0, task(ordinal, after));
        }
        queues
    }

    fn task(ordinal: u64, after: Vec<u64>) -> Task {
        let group = Box::new(group(ordinal));
        Task { group, after }
    }

    fn taken(queues: &Queues, worker: usize, ended: &[u64]) -> Option<u64> {
        let task = queues.await_next(worker, |task| task.after.iter().all(|o| ended.contains(o)));
        task.map(|task| task.group.ordinal)
    }

    #[test]
    fn without_order_others_take_what_is_ready() {
        let queues = queues(false);
        assert_eq!(taken(&queues, 0, &[]), Some(1));
        assert_eq!(taken(&queues, 1, &[]), Some(3));
        assert_eq!(taken(&queues, 1, &[1, 3]), Some(2));
        queues.push(1, task(4, vec![]));
        assert_eq!(taken(&queues, 0, &[]), Some(4));
        queues.close();
        assert_eq!(
            (taken(&queues, 0, &[]), taken(&queues, 1, &[])),
            (None, None)
        );
    }

    #[test]
    fn in_order_everybody_has_a_queue() {
        let queues = queues(true);
        queues.close();
        assert_eq!(taken(&queues, 1, &[]), None);
        let all = std::iter::from_fn(|| taken(&queues, 0, &[]));
        assert_eq!(all.collect::<Vec<_>>(), [1, 2, 3]);
    }
}
