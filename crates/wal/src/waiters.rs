//! Who waits for which LSN to become durable.
//!
//! **Invariants**
//! - Waiters are kept in LSN order; hardening a group touches exactly the waiters it covers.
//! - The durable LSN is stored before the waiters are looked at, and a waiter looks at it under the
//!   lock before it is put in the queue: no wake-up is lost.
//! - A waiter costs one queue entry and no allocation of its own.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::error::WalError;
use crate::lsn::Lsn;

struct Entry {
    lsn: Lsn,
    id: u64,
    /// `None` once the waiter has gone away.
    waker: Option<Waker>,
}

#[derive(Default)]
struct Queue {
    /// Ascending by LSN, then by id.
    entries: VecDeque<Entry>,
    next_id: u64,
}

pub(crate) struct Waiters {
    durable: AtomicU64,
    failed: OnceLock<WalError>,
    queue: Mutex<Queue>,
}

impl Waiters {
    pub(crate) fn new(durable: Lsn) -> Self {
        Self {
            durable: AtomicU64::new(durable.0),
            failed: OnceLock::new(),
            queue: Mutex::new(Queue::default()),
        }
    }

    pub(crate) fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    pub(crate) fn failure(&self) -> Option<&WalError> {
        self.failed.get()
    }

    /// `Ready` without waiting, if that is possible.
    fn settled(&self, lsn: Lsn) -> Poll<Result<(), WalError>> {
        if self.durable() >= lsn {
            return Poll::Ready(Ok(()));
        }
        match self.failed.get() {
            Some(error) => Poll::Ready(Err(error.clone())),
            None => Poll::Pending,
        }
    }

    /// Answers for `lsn`, or remembers the waker. `ticket` is the waiter's place in the queue.
    pub(crate) fn poll(
        &self,
        lsn: Lsn,
        ticket: &mut Option<u64>,
        cx: &Context<'_>,
    ) -> Poll<Result<(), WalError>> {
        if let ready @ Poll::Ready(_) = self.settled(lsn) {
            return ready;
        }
        let mut queue = self.queue.lock();
        if let ready @ Poll::Ready(_) = self.settled(lsn) {
            return ready;
        }
        if let Some(id) = *ticket
            && let Ok(at) = queue.find(lsn, id)
        {
            let waker = &mut queue.entries[at].waker;
            if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
                *waker = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
        *ticket = Some(queue.push(lsn, cx.waker().clone()));
        Poll::Pending
    }

    /// Wakes `waker` once when `lsn` is durable or never will be; at once if that is known already. It
    /// cannot be taken back.
    pub(crate) fn notify(&self, lsn: Lsn, waker: Waker) {
        if self.settled(lsn).is_pending() {
            let mut queue = self.queue.lock();
            if self.settled(lsn).is_pending() {
                queue.push(lsn, waker);
                return;
            }
        }
        waker.wake();
    }

    /// The waiter with this ticket does not wait any more.
    pub(crate) fn cancel(&self, lsn: Lsn, ticket: u64) {
        let waker = {
            let mut queue = self.queue.lock();
            match queue.find(lsn, ticket) {
                Ok(at) => queue.entries[at].waker.take(),
                Err(_) => None,
            }
        };
        // Dropping a waker may run foreign code, so it happens outside the lock.
        drop(waker);
    }

    /// Everything below `durable` is safe: wakes who waited for it. Returns how many.
    pub(crate) fn advance(&self, durable: Lsn, scratch: &mut Vec<Waker>) -> usize {
        debug_assert!(scratch.is_empty());
        // Groups that are durable at the same moment may come in any order.
        self.durable.fetch_max(durable.0, Ordering::AcqRel);
        let covered = {
            let mut queue = self.queue.lock();
            let covered = queue.entries.partition_point(|e| e.lsn <= durable);
            scratch.extend(queue.entries.drain(..covered).filter_map(|e| e.waker));
            debug_assert!(queue.entries.front().is_none_or(|e| e.lsn > durable));
            covered
        };
        scratch.drain(..).for_each(Waker::wake);
        covered
    }

    /// From now on every wait for what is not durable fails. True for the first failure, which is
    /// the one that counts.
    pub(crate) fn fail(&self, error: &WalError) -> bool {
        self.failed.set(error.clone()).is_ok()
    }

    /// Wakes everybody, to see a failure.
    pub(crate) fn wake_all(&self) {
        debug_assert!(self.failed.get().is_some(), "else waits have no answer");
        let entries = std::mem::take(&mut self.queue.lock().entries);
        entries
            .into_iter()
            .filter_map(|e| e.waker)
            .for_each(Waker::wake);
    }
}

impl Queue {
    fn find(&self, lsn: Lsn, id: u64) -> Result<usize, usize> {
        self.entries
            .binary_search_by(|e| (e.lsn, e.id).cmp(&(lsn, id)))
    }

    /// Mostly at or near the back, because LSNs are given in order.
    fn push(&mut self, lsn: Lsn, waker: Waker) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let behind = self
            .entries
            .iter()
            .rev()
            .take_while(|e| e.lsn > lsn)
            .count();
        let at = self.entries.len() - behind;
        debug_assert!(at == 0 || (self.entries[at - 1].lsn, self.entries[at - 1].id) < (lsn, id));
        debug_assert!(self.entries.get(at).is_none_or(|next| next.lsn > lsn));
        self.entries.insert(
            at,
            Entry {
                lsn,
                id,
                waker: Some(waker),
            },
        );
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn wait(waiters: &Waiters, lsn: u64) -> (Arc<Count>, Option<u64>) {
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let mut ticket = None;
        let poll = waiters.poll(Lsn(lsn), &mut ticket, &Context::from_waker(&waker));
        assert!(poll.is_pending());
        (count, ticket)
    }

    #[test]
    fn only_covered_waiters_are_woken_whatever_the_order_of_arrival() {
        let waiters = Waiters::new(Lsn(8));
        let all: Vec<_> = [40, 24, 32, 24, 16]
            .map(|lsn| (lsn, wait(&waiters, lsn)))
            .into();
        waiters.advance(Lsn(24), &mut Vec::new());
        for (lsn, (count, _)) in &all {
            assert_eq!(
                count.0.load(Ordering::SeqCst),
                usize::from(*lsn <= 24),
                "{lsn}"
            );
        }
        assert_eq!(waiters.queue.lock().entries.len(), 2);
        waiters.advance(Lsn(40), &mut Vec::new());
        assert!(
            all.iter()
                .all(|(_, (count, _))| count.0.load(Ordering::SeqCst) == 1)
        );
    }

    #[test]
    fn a_cancelled_waiter_is_not_woken_and_others_are() {
        let waiters = Waiters::new(Lsn(8));
        let (gone, ticket) = wait(&waiters, 16);
        let (stays, _) = wait(&waiters, 16);
        waiters.cancel(Lsn(16), ticket.unwrap());
        waiters.advance(Lsn(16), &mut Vec::new());
        assert_eq!(gone.0.load(Ordering::SeqCst), 0);
        assert_eq!(stays.0.load(Ordering::SeqCst), 1);
        waiters.cancel(Lsn(16), 77);
    }

    #[test]
    fn a_notice_comes_once_with_durability_or_with_the_failure() {
        let waiters = Waiters::new(Lsn(8));
        let notify = |lsn| {
            let count = Arc::new(Count::default());
            waiters.notify(Lsn(lsn), Waker::from(count.clone()));
            count
        };
        let woken = |count: &Count| count.0.load(Ordering::SeqCst);
        assert_eq!(woken(&notify(8)), 1);
        let (first, second) = (notify(16), notify(24));
        waiters.advance(Lsn(16), &mut Vec::new());
        assert_eq!((woken(&first), woken(&second)), (1, 0));
        waiters.fail(&WalError::Closed);
        waiters.wake_all();
        assert_eq!((woken(&first), woken(&second)), (1, 1));
        assert_eq!(woken(&notify(32)), 1);
    }

    #[test]
    fn polling_again_keeps_one_entry_with_the_newest_waker() {
        let waiters = Waiters::new(Lsn(8));
        let (old, mut ticket) = wait(&waiters, 16);
        let new = Arc::new(Count::default());
        let waker = Waker::from(new.clone());
        let cx = Context::from_waker(&waker);
        assert!(waiters.poll(Lsn(16), &mut ticket, &cx).is_pending());
        waiters.advance(Lsn(16), &mut Vec::new());
        assert_eq!(
            (old.0.load(Ordering::SeqCst), new.0.load(Ordering::SeqCst)),
            (0, 1)
        );
        assert!(matches!(
            waiters.poll(Lsn(16), &mut ticket, &cx),
            Poll::Ready(Ok(()))
        ));
    }

    #[test]
    fn a_failure_reaches_who_waits_but_not_what_is_durable() {
        let waiters = Waiters::new(Lsn(8));
        let (count, _) = wait(&waiters, 16);
        waiters.fail(&WalError::Closed);
        waiters.wake_all();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        let cx = Context::from_waker(Waker::noop());
        let error = waiters.poll(Lsn(16), &mut None, &cx);
        assert!(matches!(error, Poll::Ready(Err(WalError::Closed))));
        assert!(matches!(
            waiters.poll(Lsn(8), &mut None, &cx),
            Poll::Ready(Ok(()))
        ));
    }
}
