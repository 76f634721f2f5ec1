//! Runs the sessions of one thread: many futures, woken one by one, and a nap when none is ready.
//!
//! Neighbours: the runner gives every thread its sessions. A single session makes a thread that blocks, as in
//! a server with one thread per connection; many make one that works for whoever is ready, and lets those that
//! wait for the log wait together in the engine's `Acks` (flush pipelining). The sessions are the same code in both.
//!
//! **Invariants**
//! - A future is polled only after a wake; it stands in the queue at most once.
//! - Waking a thread that is awake costs no system call.
//! - The thread naps only when the engine has said that it may.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use esker_engine::Acks;
use parking_lot::Mutex;

/// The sessions of a thread that can go on.
struct Ready {
    queue: Mutex<Vec<usize>>,
    thread: Thread,
}

struct Entry {
    ready: Arc<Ready>,
    index: usize,
    queued: AtomicBool,
}

impl Wake for Entry {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut queue = self.ready.queue.lock();
        let was_empty = queue.is_empty();
        queue.push(self.index);
        drop(queue);
        // Whoever made it non-empty has woken the thread already.
        if was_empty {
            self.ready.thread.unpark();
        }
    }
}

/// Wakes the thread, for nobody in particular.
impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.thread.unpark();
    }
}

/// Runs all futures on this thread and returns their results in order. `acks` is where they wait for the log, if
/// they do it together.
pub(crate) fn run_all<F: Future>(futures: Vec<F>, acks: Option<&Acks>) -> Vec<F::Output> {
    let ready = Arc::new(Ready {
        queue: Mutex::new((0..futures.len()).collect()),
        thread: thread::current(),
    });
    let entries: Vec<Arc<Entry>> = (0..futures.len())
        .map(|index| {
            Arc::new(Entry {
                ready: Arc::clone(&ready),
                index,
                queued: AtomicBool::new(true),
            })
        })
        .collect();
    let thread_waker = Waker::from(Arc::clone(&ready));
    let wakers: Vec<Waker> = entries.iter().cloned().map(Waker::from).collect();
    let mut futures: Vec<Option<Pin<Box<F>>>> =
        futures.into_iter().map(|f| Some(Box::pin(f))).collect();
    let mut results: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    let mut left = futures.len();
    let mut batch = Vec::new();
    while left > 0 {
        std::mem::swap(&mut batch, &mut *ready.queue.lock());
        if batch.is_empty() {
            if acks.is_none_or(|acks| acks.rest(&thread_waker)) {
                thread::park();
            }
            continue;
        }
        if let Some(acks) = acks {
            acks.begin_turn(batch.len());
        }
        for index in batch.drain(..) {
            // Before the poll, so that a wake during it is not lost.
            entries[index].queued.store(false, Ordering::Release);
            let Some(future) = &mut futures[index] else {
                continue;
            };
            let mut context = Context::from_waker(&wakers[index]);
            if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
                futures[index] = None;
                results[index] = Some(result);
                left -= 1;
            }
        }
    }
    results.into_iter().flatten().collect()
}

/// Lets the other sessions of the thread have their turn.
pub(crate) fn yield_now() -> impl Future<Output = ()> {
    let mut yielded = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::time::Duration;

    #[test]
    fn sessions_take_turns() {
        let log = RefCell::new(Vec::new());
        let results = run_all(
            (0..3)
                .map(|who| {
                    let log = &log;
                    async move {
                        for round in 0..2 {
                            log.borrow_mut().push((round, who));
                            yield_now().await;
                        }
                        who * 10
                    }
                })
                .collect(),
            None,
        );
        assert_eq!(results, [0, 10, 20]);
        let expected = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)];
        assert_eq!(*log.borrow(), expected);
    }

    /// Who waits, and what it waits for.
    type Waiters = Arc<Mutex<Vec<(Waker, Arc<AtomicBool>)>>>;

    #[test]
    fn wakes_from_other_threads_arrive() {
        const SESSIONS: usize = 20;
        let wakers: Waiters = Arc::default();
        let shared = Arc::clone(&wakers);
        let helper = thread::spawn(move || {
            let mut woken = 0;
            while woken < SESSIONS {
                for (waker, done) in shared.lock().drain(..) {
                    done.store(true, Ordering::Release);
                    waker.wake();
                    woken += 1;
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        let results = run_all(
            (0..SESSIONS)
                .map(|who| {
                    let wakers = &wakers;
                    let done = Arc::new(AtomicBool::new(false));
                    let mut told = false;
                    std::future::poll_fn(move |context| {
                        if !std::mem::replace(&mut told, true) {
                            let entry = (context.waker().clone(), Arc::clone(&done));
                            wakers.lock().push(entry);
                        }
                        match done.load(Ordering::Acquire) {
                            true => Poll::Ready(who),
                            false => Poll::Pending,
                        }
                    })
                })
                .collect(),
            None,
        );
        helper.join().expect("ends");
        assert_eq!(results, (0..SESSIONS).collect::<Vec<_>>());
    }
}
