//! When a request that waits may hold newcomers back: the door of a table, which closes in short, growing windows.
//!
//! A statement that wants a table for itself must wait for those that use it. If it let newcomers pass, it might wait
//! forever (starvation); if it stopped them, one idle transaction would stop everybody (avalanche). So it does each
//! for a time. One number, the *window* `W` (`esker_ddl_window`), is both promises:
//!
//! ```text
//! closed W/64, open W/64, closed W/32, open W/32, … closed W/2, open W/2, closed W, open 9 W, closed W, open 9 W, …
//! ```
//! - No request waits longer than `W` at a time for a request that waits itself.
//! - If every transaction takes less than `W`, the request is granted within `3 W`: by then the door has been closed
//!   once for all of `W`, and during that window everybody who was inside has left.
//!
//! The door of a scope (FLUSH TABLES WITH READ LOCK) begins with a whole window, and that of `SET GLOBAL read_only`
//! stays closed: to stop writers is what it is for.
//!
//! After the first whole window there is a transaction that takes longer. Then the door is closed a tenth of the time.
//!
//! Neighbours: `object` asks whether the door is closed and keeps one per waiting request; the session whose request it
//! is turns it when its time has come ([`super::LockSet::turn`]).
//! **Invariant**: pure, but for the instants that it is given; a door that is closed knows when it opens.

use std::time::{Duration, Instant};

/// The first window is the whole one divided by two to the power of this.
const DOUBLINGS: u32 = 6;
/// After a whole window the door stays open for this many windows.
const REST: u32 = 9;

/// Windows one after the other: how long each is, and the pause behind it.
#[derive(Debug, Clone, Copy)]
pub struct Windows {
    whole: Duration,
    /// How many there have been, as far as that matters.
    before: u32,
}

impl Windows {
    /// Windows that grow to `whole`.
    pub fn new(whole: Duration) -> Self {
        Self { whole, before: 0 }
    }

    /// The next window.
    pub fn closed(&mut self) -> Duration {
        let closed = self.length(self.before);
        self.before = (self.before + 1).min(DOUBLINGS + 2);
        closed
    }

    /// The pause behind the last window.
    pub fn open(&self) -> Duration {
        match self.before > DOUBLINGS {
            true => self.whole * REST,
            false => self.length(self.before.saturating_sub(1)),
        }
    }

    fn length(&self, before: u32) -> Duration {
        self.whole / (1 << DOUBLINGS.saturating_sub(before))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It has not begun, and lets everybody pass.
    Idle,
    Closed {
        until: Instant,
    },
    Open {
        until: Instant,
    },
}

/// The door of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Door {
    windows: Windows,
    state: State,
    /// It does not open before its request is granted or given up.
    is_firm: bool,
}

impl Door {
    /// A door that has not begun to close. With a window of zero it never does.
    pub(super) fn new(window: Duration) -> Self {
        Self {
            windows: Windows::new(window),
            state: State::Idle,
            is_firm: false,
        }
    }

    /// A door whose first window is a whole one: who is in the way of a lock on everything is a statement, not a
    /// transaction, and most statements are over by the end of it.
    pub(super) fn of_scope(window: Duration) -> Self {
        let mut windows = Windows::new(window);
        windows.before = DOUBLINGS;
        Self {
            windows,
            state: State::Idle,
            is_firm: false,
        }
    }

    /// A door that is closed from now on until `at_most` has passed, when its request is given up to be made again.
    pub(super) fn shut(now: Instant, at_most: Duration) -> Self {
        Self {
            windows: Windows::new(Duration::ZERO),
            state: State::Closed {
                until: now + at_most,
            },
            is_firm: false,
        }
    }

    /// The same for a request that waits to the end: who waits at the door waits for the request.
    pub(super) fn firm(now: Instant, at_most: Duration) -> Self {
        Self {
            is_firm: true,
            ..Self::shut(now, at_most)
        }
    }

    /// Does it never close?
    pub(super) fn stays_open(&self) -> bool {
        self.windows.whole.is_zero() && self.state == State::Idle
    }

    /// Does it stop newcomers for as long as its request waits?
    pub(super) fn is_firm(&self) -> bool {
        self.is_firm && self.is_closed()
    }

    /// Does it stop newcomers?
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { .. })
    }

    /// Closes or opens it if its time has come. `may_close`: no other request for the object has a door that may close,
    /// and it would help. True if it has opened: somebody may pass now.
    pub(super) fn turn(&mut self, now: Instant, may_close: bool) -> bool {
        match self.state {
            State::Idle if may_close && !self.windows.whole.is_zero() => self.close(now),
            State::Open { until } if now >= until && may_close => self.close(now),
            State::Closed { until } if now >= until => {
                let until = now + self.windows.open();
                self.state = State::Open { until };
                return true;
            }
            _ => {}
        }
        false
    }

    /// When to turn it again; None: it never closes.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        if self.windows.whole.is_zero() {
            return None;
        }
        match self.state {
            State::Closed { until } => Some(until),
            State::Open { until } if until > now => Some(until),
            State::Open { .. } | State::Idle => Some(now + self.windows.length(0)),
        }
    }

    fn close(&mut self, now: Instant) {
        let until = now + self.windows.closed();
        self.state = State::Closed { until };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(640);

    /// Turns the door at the moments it asks for; (closed?, from, to) in milliseconds.
    fn schedule(mut door: Door, turns: usize) -> Vec<(bool, u128, u128)> {
        let start = Instant::now();
        let mut now = start;
        let mut out = Vec::new();
        for _ in 0..turns {
            door.turn(now, true);
            let next = door.next(now).expect("it closes");
            let since = |at: Instant| at.duration_since(start).as_millis();
            out.push((door.is_closed(), since(now), since(next)));
            now = next;
        }
        out
    }

    #[test]
    fn windows_double_up_to_the_whole_one_and_then_are_rare() {
        let turns = schedule(Door::new(WINDOW), 17);
        let lengths: Vec<_> = turns.iter().map(|t| (t.0, t.2 - t.1)).collect();
        let doubling = [10, 20, 40, 80, 160, 320].map(|ms| [(true, ms), (false, ms)]);
        assert_eq!(lengths[..12], doubling.concat());
        let whole = [(true, 640), (false, 5760)];
        assert_eq!(
            lengths[12..],
            [whole, whole, [(true, 640); 2]].concat()[..5]
        );
        // The first whole window is over within three.
        assert!(turns[12].2 <= 3 * 640, "{turns:?}");
    }

    #[test]
    fn a_door_without_a_window_stays_open() {
        let mut door = Door::new(Duration::ZERO);
        let now = Instant::now();
        assert!(!door.turn(now, true) && !door.is_closed());
        assert_eq!(door.next(now), None);
    }

    #[test]
    fn a_door_behind_another_waits_for_its_turn() {
        let mut door = Door::new(WINDOW);
        let now = Instant::now();
        door.turn(now, false);
        assert!(!door.is_closed());
        let later = door.next(now).expect("it asks again");
        door.turn(later, true);
        assert!(door.is_closed());
    }
}
