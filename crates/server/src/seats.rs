//! How many clients there may be, and who gets the last seat.
//!
//! Neighbours: `listener` says which door a client came through; `connection` takes a seat when it knows who the client
//! is. **Invariants**
//! - `max_connections` clients have seats, and one administrator more. A client that is logging in, or that is told
//!   that there is no seat, has none: it keeps no administrator out.
//! - Through the door of administrators (`admin_address`) nobody needs a seat.
//! - Clients that are logging in are bounded, too: [`Seats::enter`].

use std::sync::atomic::{AtomicUsize, Ordering};

/// Where a client came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// `port`.
    Main,
    /// `admin_port`.
    Admin,
}

/// Most clients that are logging in through the main door beyond as many as there are seats.
const SPARE_LOGINS: usize = 64;

/// The counts.
#[derive(Default)]
pub(crate) struct Seats {
    taken: AtomicUsize,
    logging_in: AtomicUsize,
}

/// One of a count, until it is dropped.
pub(crate) struct Held<'a>(&'a AtomicUsize);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn take(count: &AtomicUsize, limit: usize) -> Option<Held<'_>> {
    let more = |taken| (taken < limit).then_some(taken + 1);
    count
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
        .ok()?;
    Some(Held(count))
}

impl Seats {
    /// A client wants to log in. None: even an administrator would find no seat, or too many want to.
    pub(crate) fn enter(&self, max_connections: usize) -> Option<Held<'_>> {
        if self.taken.load(Ordering::Acquire) > max_connections {
            return None;
        }
        take(
            &self.logging_in,
            max_connections.saturating_add(SPARE_LOGINS),
        )
    }

    /// A client that has logged in wants to stay.
    pub(crate) fn take(&self, max_connections: usize, is_administrator: bool) -> Option<Held<'_>> {
        let limit = max_connections.saturating_add(usize::from(is_administrator));
        take(&self.taken, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_seat_is_for_administrators() {
        let seats = Seats::default();
        let _waiting: Vec<_> = (0..SPARE_LOGINS).map(|_| seats.enter(2).unwrap()).collect();
        let first = seats.take(2, false).unwrap();
        let _second = seats.take(2, true).unwrap();
        // Neither those who log in nor those who are refused are in an administrator's way.
        assert!(seats.take(2, false).is_none());
        let admin = seats.take(2, true).unwrap();
        assert!(seats.take(2, true).is_none());
        assert!(seats.enter(2).is_none(), "nobody would find a seat");
        drop(admin);
        assert!(seats.enter(2).is_some());
        drop(first);
        assert!(seats.take(2, false).is_some());
    }

    #[test]
    fn logins_are_bounded() {
        let seats = Seats::default();
        let waiting: Vec<_> = std::iter::from_fn(|| seats.enter(2)).collect();
        assert_eq!(waiting.len(), 2 + SPARE_LOGINS);
        drop(waiting);
        assert!(seats.enter(2).is_some());
    }
}
