//! User-level locks: GET_LOCK and its kin.
//!
//! Role: locks by name that sessions hold until they release them or end; a graph of who waits for whom finds
//! deadlocks (cycle detection in a wait-for graph). Neighbours: `context` calls this for the functions, [`Registry`]
//! frees what a session holds when it ends.
//! **Invariants**: a session waits for one lock at most, so a path through the graph is a list; a wait that would close
//! a cycle is refused, so there is never one.
//!
//! [`Registry`]: super::registry::Registry

use std::collections::HashMap;
use std::time::{Duration, Instant};

use esker_types::{SqlResult, errors};
use parking_lot::{Condvar, Mutex};

/// How often a waiting GET_LOCK looks whether it was killed.
const POLL: Duration = Duration::from_millis(100);
/// Longest wait that can be asked for; about three years.
const MAX_WAIT_SECONDS: f64 = 1e8;

/// All user-level locks. Their names do not distinguish case.
#[derive(Default)]
pub(crate) struct UserLocks {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    held: HashMap<String, Held>,
    /// The lock that each waiting session waits for.
    awaited: HashMap<u64, String>,
}

/// A lock; the same session may take it again.
struct Held {
    by: u64,
    depth: u64,
}

impl State {
    /// Takes the lock if nobody else has it.
    fn take(&mut self, session: u64, key: &str) -> bool {
        match self.held.get_mut(key) {
            Some(held) if held.by != session => false,
            Some(held) => {
                held.depth += 1;
                true
            }
            None => {
                let held = Held {
                    by: session,
                    depth: 1,
                };
                self.held.insert(key.to_owned(), held);
                true
            }
        }
    }

    /// Would a wait of the session for this lock be one for itself?
    fn closes_cycle(&self, session: u64, key: &str) -> bool {
        let mut next = Some(key);
        while let Some(held) = next.and_then(|key| self.held.get(key)) {
            if held.by == session {
                return true;
            }
            next = self.awaited.get(&held.by).map(String::as_str);
        }
        false
    }
}

impl UserLocks {
    /// GET_LOCK: true when acquired, false after the time (negative: no limit). A wait asks `go_on` now and then;
    /// `shows` hears that one begins, and that it is over.
    ///
    /// # Errors
    /// 3058; those of `go_on`.
    pub(crate) fn get(
        &self,
        session: u64,
        name: &str,
        seconds: f64,
        go_on: impl Fn() -> SqlResult<()>,
        shows: impl Fn(bool),
    ) -> SqlResult<bool> {
        let limit = Duration::from_secs_f64(seconds.clamp(0.0, MAX_WAIT_SECONDS));
        let deadline = (seconds >= 0.0).then(|| Instant::now() + limit);
        let key = name.to_lowercase();
        let mut state = self.state.lock();
        loop {
            if state.take(session, &key) {
                return Ok(true);
            }
            if state.closes_cycle(session, &key) {
                return Err(errors::user_lock_deadlock());
            }
            go_on()?;
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(false);
            }
            let until = deadline.map_or(now + POLL, |deadline| deadline.min(now + POLL));
            state.awaited.insert(session, key.clone());
            shows(true);
            self.freed.wait_until(&mut state, until);
            shows(false);
            state.awaited.remove(&session);
        }
    }

    /// RELEASE_LOCK: released, not the holder, or no such lock.
    pub(crate) fn release(&self, session: u64, name: &str) -> Option<bool> {
        let key = name.to_lowercase();
        let mut state = self.state.lock();
        let held = state.held.get_mut(&key)?;
        if held.by != session {
            return Some(false);
        }
        held.depth -= 1;
        if held.depth == 0 {
            state.held.remove(&key);
            self.freed.notify_all();
        }
        Some(true)
    }

    /// Every lock, with who holds it or waits for it: name, session, whether it has it.
    pub(crate) fn list(&self) -> Vec<(String, u64, bool)> {
        let state = self.state.lock();
        let held = state
            .held
            .iter()
            .map(|(key, held)| (key.clone(), held.by, true));
        let awaited = state.awaited.iter();
        let awaited = awaited.map(|(session, key)| (key.clone(), *session, false));
        let mut all: Vec<_> = held.chain(awaited).collect();
        all.sort_unstable();
        all
    }

    /// Who holds a lock.
    pub(crate) fn holder(&self, name: &str) -> Option<u64> {
        let state = self.state.lock();
        state.held.get(&name.to_lowercase()).map(|held| held.by)
    }

    /// Releases every lock of a session. Returns how often they were taken.
    pub(crate) fn release_all(&self, session: u64) -> u64 {
        let mut state = self.state.lock();
        let freed = state.held.extract_if(|_, held| held.by == session);
        let taken: Vec<u64> = freed.map(|(_, held)| held.depth).collect();
        if !taken.is_empty() {
            self.freed.notify_all();
        }
        taken.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(locks: &UserLocks, session: u64, name: &str) -> SqlResult<bool> {
        locks.get(session, name, 0.0, || Ok(()), |_| ())
    }

    #[test]
    fn locks_are_reentrant_and_end_with_the_session() {
        let locks = UserLocks::default();
        assert!(get(&locks, 1, "L").unwrap());
        assert!(get(&locks, 1, "l").unwrap());
        assert!(!get(&locks, 2, "l").unwrap());
        assert_eq!(locks.release(2, "l"), Some(false));
        assert_eq!(locks.release(1, "l"), Some(true));
        assert_eq!(locks.holder("L"), Some(1));
        assert_eq!(locks.release_all(1), 1);
        assert_eq!(locks.holder("L"), None);
        assert!(get(&locks, 2, "l").unwrap());
        assert_eq!(locks.release(2, "nope"), None);
    }

    #[test]
    fn a_wait_that_closes_a_cycle_is_refused() {
        let locks = UserLocks::default();
        for session in 1..=3 {
            assert!(get(&locks, session, &format!("own {session}")).unwrap());
        }
        let wait = |session: u64| {
            locks.get(
                session,
                &format!("own {}", session + 1),
                60.0,
                || Ok(()),
                |_| (),
            )
        };
        std::thread::scope(|scope| {
            let first = scope.spawn(|| wait(1));
            let second = scope.spawn(|| wait(2));
            while locks.state.lock().awaited.len() < 2 {
                std::thread::yield_now();
            }
            assert_eq!(get(&locks, 3, "own 1").unwrap_err().code, 3058);
            locks.release_all(3);
            assert!(second.join().unwrap().unwrap());
            locks.release_all(2);
            assert!(first.join().unwrap().unwrap());
        });
    }

    #[test]
    fn a_wait_ends_with_the_error_of_who_waits() {
        let locks = UserLocks::default();
        assert!(get(&locks, 1, "l").unwrap());
        let late = || Err(errors::statement_timeout());
        assert_eq!(
            locks.get(2, "l", -1.0, late, |_| ()).unwrap_err().code,
            3024
        );
        assert!(locks.state.lock().awaited.is_empty());
    }
}
