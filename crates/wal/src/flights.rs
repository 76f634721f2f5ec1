//! The groups that are on their way to the device, and their acknowledgement in LSN order.
//!
//! Neighbours: `flush` lets groups depart and land; `waiters` hear of what is durable.
//!
//! **Invariants**
//! - Groups depart in LSN order (the caller holds the flusher), and may land in any.
//! - Nothing is acknowledged before everything below it has landed. A group that fails never lands,
//!   so nothing behind it is acknowledged.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::lsn::Lsn;

/// The expected time of a group goes this part of the way to the newest one.
const EXPECTED_OVER: u64 = 8;

/// A group on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    number: u64,
    /// Clock at departure, nanoseconds.
    departed: u64,
    /// Others were on their way.
    pub(crate) overlapped: bool,
}

struct Flight {
    end: Lsn,
    landed: bool,
}

#[derive(Default)]
struct State {
    /// In LSN order; the first one has the number `first`.
    flights: VecDeque<Flight>,
    first: u64,
    /// Nobody should wait here any more.
    over: bool,
}

/// The groups on their way.
#[derive(Default)]
pub(crate) struct Flights {
    state: Mutex<State>,
    changed: Condvar,
    /// Those that have not landed.
    airborne: AtomicUsize,
    last_departed: AtomicU64,
    expected_nanos: AtomicU64,
}

impl Flights {
    /// Groups that have not landed.
    pub(crate) fn airborne(&self) -> usize {
        self.airborne.load(Ordering::SeqCst)
    }

    /// Clock at the last departure, nanoseconds.
    pub(crate) fn last_departed(&self) -> u64 {
        self.last_departed.load(Ordering::Relaxed)
    }

    /// How long a group takes as a rule, the newest ones counting most.
    pub(crate) fn expected(&self) -> Duration {
        Duration::from_nanos(self.expected_nanos.load(Ordering::Relaxed))
    }

    /// A group that ends at `end` begins, behind all others.
    pub(crate) fn depart(&self, end: Lsn, now_nanos: u64) -> Ticket {
        let mut state = self.state.lock();
        assert!(
            state.flights.back().is_none_or(|last| last.end < end),
            "groups depart in LSN order"
        );
        state.flights.push_back(Flight { end, landed: false });
        self.last_departed.store(now_nanos, Ordering::Relaxed);
        Ticket {
            number: state.first + state.flights.len() as u64 - 1,
            departed: now_nanos,
            overlapped: self.airborne.fetch_add(1, Ordering::SeqCst) > 0,
        }
    }

    /// The group has been written and synced. Returns up to where everything has been, if that is
    /// further than before, and the nanoseconds that the group took.
    pub(crate) fn land(&self, ticket: Ticket, now_nanos: u64) -> (Option<Lsn>, u64) {
        let nanos = now_nanos.saturating_sub(ticket.departed);
        self.learn(nanos);
        let mut state = self.state.lock();
        let at = (ticket.number - state.first) as usize;
        debug_assert!(ticket.number >= state.first && !state.flights[at].landed);
        state.flights[at].landed = true;
        let mut durable = None;
        while let Some(flight) = state.flights.pop_front_if(|flight| flight.landed) {
            state.first += 1;
            durable = Some(flight.end);
        }
        debug_assert!(self.airborne() > 0);
        self.airborne.fetch_sub(1, Ordering::SeqCst);
        self.changed.notify_all();
        (durable, nanos)
    }

    /// Upwards only by steps: a flush during which the scheduler took the processor away says nothing of the device.
    fn learn(&self, nanos: u64) {
        let old = self.expected_nanos.load(Ordering::Relaxed);
        let new = match old {
            0 => nanos,
            _ if nanos > old => old + (nanos - old).min(old).div_ceil(EXPECTED_OVER),
            _ => old - (old - nanos) / EXPECTED_OVER,
        };
        // Two that land at once may overwrite each other: an average gets over that.
        debug_assert!(old == 0 || new <= 2 * old);
        self.expected_nanos.store(new, Ordering::Relaxed);
    }

    /// Waits until one of the groups on their way has landed, if there are any.
    pub(crate) fn await_landing(&self) {
        let mut state = self.state.lock();
        let before = self.airborne();
        while !state.over && self.airborne() > 0 && self.airborne() >= before {
            self.changed.wait(&mut state);
        }
    }

    /// Waits until all groups have landed. False if that may never happen, because the log has
    /// ended.
    pub(crate) fn await_all(&self) -> bool {
        let mut state = self.state.lock();
        while !state.over && self.airborne() > 0 {
            self.changed.wait(&mut state);
        }
        !state.over
    }

    /// The log has ended: nobody waits here any more.
    pub(crate) fn end(&self) {
        self.state.lock().over = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgement_follows_the_order_of_departure() {
        let flights = Flights::default();
        let tickets: Vec<_> = [16, 24, 32, 40]
            .map(|end| flights.depart(Lsn(end), 0))
            .into();
        assert!(!tickets[0].overlapped && tickets[1].overlapped);
        assert_eq!(flights.land(tickets[2], 0).0, None);
        assert_eq!(flights.land(tickets[1], 0).0, None);
        assert_eq!(flights.airborne(), 2);
        assert_eq!(flights.land(tickets[0], 0).0, Some(Lsn(32)));
        let late = flights.depart(Lsn(48), 0);
        assert_eq!(flights.land(late, 0).0, None, "40 has not landed");
        assert_eq!(flights.land(tickets[3], 0).0, Some(Lsn(48)));
        assert!(flights.await_all());
    }

    #[test]
    fn the_expected_time_follows_what_is_seen() {
        let flights = Flights::default();
        let fly = |nanos| {
            let end = Lsn(flights.state.lock().first + 1);
            let ticket = flights.depart(end, 0);
            assert_eq!(flights.land(ticket, nanos).1, nanos);
        };
        fly(1000);
        assert_eq!(flights.expected().as_nanos(), 1000);
        (0..100).for_each(|_| fly(100_000));
        assert!((90_000..=100_000).contains(&flights.expected().as_nanos()));
        fly(50_000_000);
        assert!(flights.expected().as_nanos() <= 113_000, "one is no rule");
        (0..100).for_each(|_| fly(1000));
        assert!((1000..=1100).contains(&flights.expected().as_nanos()));
    }

    #[test]
    fn who_waits_for_a_landing_is_released_when_the_log_ends() {
        let flights = Flights::default();
        flights.depart(Lsn(16), 0);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| flights.await_all());
            let waits_for_one = scope.spawn(|| flights.await_landing());
            flights.end();
            assert!(!waits.join().expect("it returns"));
            waits_for_one.join().expect("it returns");
        });
    }
}
