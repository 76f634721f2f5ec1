//! Scheduling of long statements: as many run at a time as there are processors, in turns. Round-robin, with the
//! threads of statements that wait for something else left out.
//!
//! Neighbours: `pace` takes a turn for a statement that has gone on for a while, and asks for the next one when it is
//! over; `esker_vfs::threads` knows which threads wait.
//!
//! The operating system shares the processors among threads. With a thread for each long statement, a point statement
//! would wait until all of them have had their share, and so would logins and KILL.
//!
//! **Invariants**
//! - Turns are had in the order in which they were asked for, so every statement goes on.
//! - The turn of a thread that waits (for a lock, the disk, other threads) counts no more: nobody waits for long for
//!   one who waits in turn, whatever for. One that has no processor keeps its turn, or a busy machine would let all
//!   run.
//! - One who waits is woken by KILL and by the end of its time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use esker_types::SqlResult;
use esker_vfs::threads::ThreadId;
use parking_lot::{Condvar, Mutex};

use super::registry::Process;

/// How long a turn is.
const SLICE: Duration = Duration::from_millis(10);
/// How often the first in line looks whether those wait who have turns.
const LOOK: Duration = Duration::from_millis(5);
/// Longest wait of the others. What they wait for wakes them: this is for the unforeseen.
const LONGEST: Duration = Duration::from_secs(1);

/// A turn that was taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    id: u64,
    until: Instant,
    thread: ThreadId,
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

    fn is_first(&self, id: u64) -> bool {
        self.waiting.front().is_some_and(|first| first.0 == id)
    }

    /// Takes a turn if there is one and it is this one's.
    fn take(&mut self, id: u64, most: usize) -> Option<Turn> {
        if self.running.len() >= most || !self.is_first(id) {
            return None;
        }
        self.waiting.pop_front();
        let turn = Turn {
            id,
            until: Instant::now() + SLICE,
            thread: ThreadId::current(),
        };
        self.running.push(turn);
        assert!(self.running.len() <= most, "more turns than processors");
        self.wake_first();
        Some(turn)
    }

    fn leave_line(&mut self, id: u64) {
        self.waiting.retain(|waiting| waiting.0 != id);
        self.wake_first();
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

    /// Gives a turn back and waits for the next one, until `deadline` at most.
    ///
    /// # Errors
    /// What `go_on` says meanwhile; it is asked after `process` was killed and after the deadline.
    pub(super) fn next(
        self: &Arc<Self>,
        ended: Option<Turn>,
        process: &Process,
        deadline: Option<Instant>,
        go_on: impl Fn() -> SqlResult<()>,
    ) -> SqlResult<Turn> {
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        if let Some(turn) = ended {
            state.end(turn.id);
        }
        if state.waiting.is_empty() && state.running.len() < self.most {
            state.waiting.push_back((id, Arc::default()));
            return Ok(state.take(id, self.most).expect("the first of the line"));
        }
        let woken = Arc::new(Condvar::new());
        state.waiting.push_back((id, woken.clone()));
        // A KILL takes the lock before it wakes: it comes before the flag is looked at, or finds the thread waiting.
        process.wake_on_kill(&Waker::from(Arc::new(Knock {
            turns: self.clone(),
            waiting: woken.clone(),
        })));
        loop {
            if let Err(e) = go_on() {
                state.leave_line(id);
                return Err(e);
            }
            if let Some(turn) = state.take(id, self.most) {
                return Ok(turn);
            }
            let first = state.is_first(id);
            let look = Instant::now() + if first { LOOK } else { LONGEST };
            let until = deadline.map_or(look, |d| d.min(look));
            let waited = woken.wait_until(&mut state, until);
            if first && waited.timed_out() {
                state.running.retain(|turn| !turn.thread.is_waiting());
            }
        }
    }

    /// How many have a turn.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.state.lock().running.len()
    }

    /// Gives a turn back.
    pub(super) fn end(&self, turn: Turn) {
        self.state.lock().end(turn.id);
    }
}

/// Wakes one who waits for its turn.
struct Knock {
    turns: Arc<Turns>,
    waiting: Arc<Condvar>,
}

impl Wake for Knock {
    fn wake(self: Arc<Self>) {
        let _state = self.turns.state.lock();
        self.waiting.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;

    use super::super::registry::{Connection, Registry};
    use super::*;

    fn process() -> Arc<Process> {
        let on_kill = Box::new(|| ());
        Registry::default().add(1, "u", "h".into(), Connection::default(), 0, on_kill)
    }

    #[test]
    fn turns_go_round_and_nobody_runs_beside_the_most() {
        const ROUNDS: usize = 20;
        let turns = Arc::new(Turns::of(2));
        let had = Mutex::new(vec![0; 6]);
        std::thread::scope(|scope| {
            for number in 0..6 {
                let (turns, had) = (&turns, &had);
                scope.spawn(move || {
                    let process = process();
                    let mut turn = None;
                    for _ in 0..ROUNDS {
                        turn = Some(turns.next(turn, &process, None, || Ok(())).unwrap());
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
    fn who_waits_loses_its_turn_and_who_has_no_processor_keeps_it() {
        let turns = Arc::new(Turns::of(1));
        let met = Barrier::new(2);
        std::thread::scope(|scope| {
            let holder = scope.spawn(|| {
                let turn = turns.next(None, &process(), None, || Ok(())).unwrap();
                met.wait();
                // It never comes back while the other one waits.
                met.wait();
                turn
            });
            met.wait();
            let second = turns.next(None, &process(), None, || Ok(())).unwrap();
            met.wait();
            turns.end(holder.join().unwrap());
            assert_eq!(turns.state.lock().running.len(), 1, "the second has it");
            turns.end(second);
        });
        // This thread has the turn and runs: whatever the time, it is not taken away.
        let held = turns.next(None, &process(), None, || Ok(())).unwrap();
        let (tell, told) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let turn = turns.next(None, &process(), None, || Ok(())).unwrap();
                tell.send(()).unwrap();
                turns.end(turn);
            });
            let long_after = Instant::now() + LOOK * 4;
            while Instant::now() < long_after {
                assert!(told.try_recv().is_err());
            }
            turns.end(held);
        });
        told.recv().unwrap();
    }

    #[test]
    fn a_wait_for_a_turn_ends_with_a_kill_and_at_its_deadline() {
        let turns = Arc::new(Turns::of(1));
        let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let killed = process();
        std::thread::scope(|scope| {
            // It has the turn and never waits.
            scope.spawn(|| {
                let held = turns.next(None, &process(), None, || Ok(())).unwrap();
                begun.store(true, Ordering::Release);
                while !over.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                turns.end(held);
            });
            while !begun.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            let waits = scope.spawn(|| {
                let go_on = || killed.kill_error().map_or(Ok(()), Err);
                turns.next(None, &killed, None, go_on).unwrap_err().code
            });
            while turns.state.lock().waiting.is_empty() {}
            killed.kill(false);
            assert_eq!(waits.join().unwrap(), 1317);
            assert!(turns.state.lock().waiting.is_empty());
            let late = || Err(esker_types::errors::statement_timeout());
            let ended = turns.next(None, &process(), Some(Instant::now()), late);
            assert_eq!(ended.unwrap_err().code, 3024);
            over.store(true, Ordering::Release);
        });
    }
}
