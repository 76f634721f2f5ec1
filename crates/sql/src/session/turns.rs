//! Turns on the processors: of the statements that take long, as many run at a time as there are processors.
//!
//! Neighbours: `pace` takes a turn for a statement that has gone on for a while, and asks for the next one when it is
//! over.
//!
//! The operating system shares the processors among threads. With a thread for each long statement, a point statement
//! would wait until all of them have had their share, and so would logins and KILL.
//!
//! **Invariants**
//! - Turns are had in the order in which they were asked for, so every statement goes on.
//! - A turn that is over by [`STALL`] counts no more: its statement waits for a lock or the disk. So nobody waits for
//!   long for one who waits in turn, whatever for.
//! - One who waits looks for KILL every [`LOOK`] at least.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use esker_types::SqlResult;
use parking_lot::{Condvar, Mutex};

/// How long a turn is.
const SLICE: Duration = Duration::from_millis(10);
/// How much later than its end a turn must be given back.
const STALL: Duration = Duration::from_millis(10);
/// Longest wait without a look around.
const LOOK: Duration = Duration::from_millis(50);

/// A turn that was taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    id: u64,
    until: Instant,
}

impl Turn {
    /// Is it over?
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }
}

/// All turns.
#[derive(Debug)]
pub(crate) struct Turns {
    /// Most at a time.
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: Vec<Turn>,
    /// With what wakes them; the first is next.
    waiting: VecDeque<(u64, Arc<Condvar>)>,
    next: u64,
}

impl State {
    fn end(&mut self, id: u64) {
        self.running.retain(|turn| turn.id != id);
        self.wake_first();
    }

    fn wake_first(&self) {
        if let Some((_, first)) = self.waiting.front() {
            first.notify_one();
        }
    }

    /// Takes a turn if there is one and it is this one's.
    fn take(&mut self, id: u64, most: usize) -> Option<Turn> {
        let now = Instant::now();
        self.running.retain(|turn| now < turn.until + STALL);
        if self.running.len() >= most || self.waiting.front().is_none_or(|first| first.0 != id) {
            return None;
        }
        self.waiting.pop_front();
        let turn = Turn {
            id,
            until: now + SLICE,
        };
        self.running.push(turn);
        self.wake_first();
        Some(turn)
    }
}

impl Default for Turns {
    fn default() -> Self {
        Self::of(std::thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Turns {
    fn of(most: usize) -> Self {
        Self {
            most,
            state: Mutex::default(),
        }
    }

    /// Gives a turn back and waits for the next one.
    ///
    /// # Errors
    /// What `go_on` says meanwhile.
    pub(super) fn next(
        &self,
        ended: Option<Turn>,
        go_on: impl Fn() -> SqlResult<()>,
    ) -> SqlResult<Turn> {
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        let woken = Arc::new(Condvar::new());
        state.waiting.push_back((id, woken.clone()));
        if let Some(turn) = ended {
            state.end(turn.id);
        }
        loop {
            if let Some(turn) = state.take(id, self.most) {
                return Ok(turn);
            }
            let is_first = state.waiting.front().is_some_and(|first| first.0 == id);
            // The first looks whether a turn has stalled.
            woken.wait_for(&mut state, if is_first { STALL } else { LOOK });
            if let Err(e) = go_on() {
                state.waiting.retain(|waiting| waiting.0 != id);
                state.wake_first();
                return Err(e);
            }
        }
    }

    /// Gives a turn back.
    pub(super) fn end(&self, turn: Turn) {
        self.state.lock().end(turn.id);
    }
}

#[cfg(test)]
mod tests {
    use esker_types::SqlError;

    use super::*;

    #[test]
    fn turns_go_round_and_nobody_runs_beside_the_most() {
        const ROUNDS: usize = 20;
        let turns = Turns::of(2);
        let had = Mutex::new(vec![0; 6]);
        std::thread::scope(|scope| {
            for number in 0..6 {
                let (turns, had) = (&turns, &had);
                scope.spawn(move || {
                    let mut turn = None;
                    for _ in 0..ROUNDS {
                        turn = Some(turns.next(turn, || Ok(())).unwrap());
                        assert!(turns.state.lock().running.len() <= 2);
                        had.lock()[number] += 1;
                    }
                    turns.end(turn.unwrap());
                });
            }
        });
        assert_eq!(*had.lock(), [ROUNDS; 6]);
        let state = turns.state.lock();
        assert!(state.running.is_empty() && state.waiting.is_empty());
    }

    #[test]
    fn a_turn_that_stalls_is_taken_away_and_a_wait_can_be_killed() {
        let turns = Turns::of(1);
        let stalled = turns.next(None, || Ok(())).unwrap();
        // Its holder never comes back.
        let second = turns.next(None, || Ok(())).unwrap();
        turns.end(stalled);
        assert_eq!(turns.state.lock().running.len(), 1, "the second has it");
        let killed = || Err(SqlError::new(1317, "70100", "killed"));
        assert_eq!(turns.next(None, killed).unwrap_err().code, 1317);
        assert!(turns.state.lock().waiting.is_empty());
        turns.end(second);
        turns.next(None, killed).unwrap();
    }
}
