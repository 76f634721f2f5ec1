//! One-shot wait: a result that can be awaited as a future or blocked on.
//!
//! Neighbours: `lock` hands out tickets for row locks. A layer above may use
//! [`ticket`] for its own queues.
//!
//! **Invariants**
//! - A ticket is resolved once; the first result wins.
//! - A ticket that is dropped before its result was taken leaves its queue. If it had been granted by then, the grant
//!   is given back. Nobody waits behind a ticket that no longer exists.
//! - Wakers are called outside every lock of this module.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::{EngineError, Result};

enum State {
    Pending(Option<Waker>),
    Done(Result<()>),
}

struct Cell {
    state: Mutex<State>,
    done: Condvar,
}

/// The queue a ticket stands in.
pub trait WaitQueue: Send {
    /// Takes the waiter out of the queue. False if it had been resolved before.
    fn leave(&self) -> bool;
    /// Returns what was granted to a waiter who will not take it.
    fn give_back(&self);
}

/// A place in a queue. Await it, or park on it with [`Ticket::block`].
#[must_use = "dropping a ticket leaves the queue"]
pub struct Ticket {
    cell: Arc<Cell>,
    queue: Box<dyn WaitQueue>,
    taken: bool,
}

/// The other end of a [`Ticket`]: whoever serves the queue resolves it.
#[derive(Clone)]
pub struct Resolver {
    cell: Arc<Cell>,
}

/// A ticket and its resolver. `queue` is told when the ticket is given up.
pub fn ticket(make_queue: impl FnOnce(&Resolver) -> Box<dyn WaitQueue>) -> (Ticket, Resolver) {
    let cell = Arc::new(Cell {
        state: Mutex::new(State::Pending(None)),
        done: Condvar::new(),
    });
    let resolver = Resolver {
        cell: Arc::clone(&cell),
    };
    let queue = make_queue(&resolver);
    (
        Ticket {
            cell,
            queue,
            taken: false,
        },
        resolver,
    )
}

/// A waiter to be told, outside the locks of the queue.
#[must_use = "a resolved waiter sleeps until it is woken"]
pub struct Wakeup {
    cell: Arc<Cell>,
    waker: Option<Waker>,
}

impl Wakeup {
    /// Wakes the waiter, whether it is a future or a parked thread.
    pub fn wake(self) {
        self.cell.done.notify_all();
        if let Some(waker) = self.waker {
            waker.wake();
        }
    }
}

impl Resolver {
    /// Sets the result if there is none yet. The waiter notices when the returned wakeup is used.
    pub fn resolve(&self, result: Result<()>) -> Option<Wakeup> {
        let mut state = self.cell.state.lock();
        let State::Pending(waker) = &mut *state else {
            return None;
        };
        let waker = waker.take();
        *state = State::Done(result);
        Some(Wakeup {
            cell: Arc::clone(&self.cell),
            waker,
        })
    }

    /// Whether both ends belong together.
    pub fn is_same(&self, other: &Resolver) -> bool {
        Arc::ptr_eq(&self.cell, &other.cell)
    }
}

/// Time between two questions whether a waiter gives up.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

impl Ticket {
    /// Parks the thread until the ticket is resolved or `timeout` has passed; then the queue is left and the result is
    /// [`EngineError::LockWaitTimeout`]. A grant that raced with the timeout counts.
    pub fn block(self, timeout: Duration) -> Result<()> {
        self.block_unless(timeout, &|| false)
    }

    /// The same, but it ends soon after `gives_up` has become true, which is asked now and then.
    pub fn block_unless(mut self, timeout: Duration, gives_up: &dyn Fn() -> bool) -> Result<()> {
        debug_assert!(!self.taken);
        let deadline = Instant::now().checked_add(timeout);
        {
            let mut state = self.cell.state.lock();
            while let State::Pending(_) = &*state {
                let look = Instant::now() + BETWEEN_LOOKS;
                let until = deadline.map_or(look, |deadline| deadline.min(look));
                let timed_out = self.cell.done.wait_until(&mut state, until).timed_out();
                if timed_out && (deadline == Some(until) || gives_up()) {
                    break;
                }
            }
            if let State::Done(result) = &*state {
                self.taken = true;
                return result.clone();
            }
        }
        self.time_out()
    }

    /// Leaves the queue because the waiter's time is over. A grant that came first counts.
    pub fn time_out(mut self) -> Result<()> {
        debug_assert!(!self.taken);
        let left = self.queue.leave();
        self.taken = true;
        match &*self.cell.state.lock() {
            State::Done(result) if !left => result.clone(),
            _ => Err(EngineError::LockWaitTimeout),
        }
    }
}

impl Future for Ticket {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let result = match &mut *self.cell.state.lock() {
            State::Done(result) => result.clone(),
            State::Pending(waker) => {
                *waker = Some(context.waker().clone());
                return Poll::Pending;
            }
        };
        self.taken = true;
        Poll::Ready(result)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.taken || self.queue.leave() {
            return;
        }
        let granted = matches!(&*self.cell.state.lock(), State::Done(Ok(())));
        if granted {
            self.queue.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    /// A queue that counts what it is told.
    #[derive(Default)]
    struct Counts {
        left: AtomicUsize,
        given_back: AtomicUsize,
    }

    struct Queue(Arc<Counts>, bool);

    impl WaitQueue for Queue {
        fn leave(&self) -> bool {
            self.0.left.fetch_add(1, Ordering::SeqCst);
            self.1
        }
        fn give_back(&self) {
            self.0.given_back.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn pair(still_queued: bool) -> (Ticket, Resolver, Arc<Counts>) {
        let counts = Arc::new(Counts::default());
        let queue = Box::new(Queue(Arc::clone(&counts), still_queued));
        let (ticket, resolver) = ticket(|_| queue);
        (ticket, resolver, counts)
    }

    #[test]
    fn block_takes_the_first_result() {
        let (ticket, resolver, counts) = pair(false);
        let other = resolver.clone();
        let thread = thread::spawn(move || {
            other.resolve(Ok(())).expect("first").wake();
            assert!(other.resolve(Err(EngineError::Deadlock)).is_none());
        });
        ticket.block(Duration::from_secs(60)).unwrap();
        thread.join().unwrap();
        assert_eq!(counts.left.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn timeout_leaves_the_queue() {
        let (ticket, _resolver, counts) = pair(true);
        let result = ticket.block(Duration::from_millis(1));
        assert!(matches!(result, Err(EngineError::LockWaitTimeout)));
        assert_eq!(counts.left.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn grant_that_raced_with_the_timeout_counts() {
        let (ticket, resolver, counts) = pair(false);
        resolver.resolve(Ok(())).expect("first").wake();
        ticket.time_out().unwrap();
        assert_eq!(counts.given_back.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn dropped_after_the_grant_gives_it_back() {
        let (ticket, resolver, counts) = pair(false);
        resolver.resolve(Ok(())).expect("first").wake();
        drop(ticket);
        assert_eq!(counts.given_back.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn dropped_after_a_failure_gives_nothing_back() {
        let (ticket, resolver, counts) = pair(false);
        resolver
            .resolve(Err(EngineError::Deadlock))
            .expect("first")
            .wake();
        drop(ticket);
        assert_eq!(counts.given_back.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn future_is_woken() {
        struct Flag(AtomicUsize);
        impl std::task::Wake for Flag {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let flag = Arc::new(Flag(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&flag));
        let mut context = Context::from_waker(&waker);
        let (mut ticket, resolver, _) = pair(false);
        assert!(Pin::new(&mut ticket).poll(&mut context).is_pending());
        resolver
            .resolve(Err(EngineError::Deadlock))
            .expect("first")
            .wake();
        assert_eq!(flag.0.load(Ordering::SeqCst), 1);
        let result = Pin::new(&mut ticket).poll(&mut context);
        assert!(matches!(result, Poll::Ready(Err(EngineError::Deadlock))));
    }
}
