//! Threads as the operating system's scheduler sees them: processor time, time in the run queue, and whether one waits.
//!
//! Neighbours: who divides the processors among statements asks (`session/turns.rs` and
//! `ddl/throttle.rs` of the `sql` crate).
//!
//! **Invariants**
//! - Nothing here blocks or fails: what the system does not tell is taken for a thread that waits.

use std::fs;
use std::time::Duration;

use rustix::thread::Pid;
use rustix::time::{ClockId, clock_gettime};

/// A thread of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadId(Pid);

impl ThreadId {
    /// The calling thread.
    pub fn current() -> Self {
        Self(rustix::thread::gettid())
    }

    /// Does it wait for something else than a processor? One that has ended does, too.
    pub fn is_waiting(self) -> bool {
        let path = format!("/proc/self/task/{}/stat", self.0.as_raw_nonzero());
        !fs::read_to_string(path).is_ok_and(|stat| state(&stat) == Some('R'))
    }
}

/// The state in a line of `/proc/…/stat`: it follows the thread's name in parentheses, which may hold any character.
fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Processor time that the calling thread has used so far.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// How long the calling thread was ready to run and had no processor; `None` where the system does not tell.
pub fn queued_time() -> Option<Duration> {
    let account = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    queued(&account)
}

/// The second field of a line of `/proc/…/schedstat`, in nanoseconds.
fn queued(account: &str) -> Option<Duration> {
    let nanos = account.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    #[test]
    fn the_state_is_behind_the_name() {
        assert_eq!(state("17 (a) b (c) R 1 2"), Some('R'));
        assert_eq!(state("17 (x) S 1"), Some('S'));
        assert_eq!(state("17"), None);
    }

    #[test]
    fn the_queue_is_the_second_field() {
        assert_eq!(queued("621188 2300 1\n"), Some(Duration::from_nanos(2300)));
        assert_eq!(queued("17"), None);
        assert_eq!(queued("17 x 1"), None);
        let before = queued_time();
        assert!(queued_time() >= before);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_that_runs_does_not_wait_and_one_that_receives_does() {
        assert!(!ThreadId::current().is_waiting());
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        let other = std::thread::spawn(move || {
            tell.send(ThreadId::current()).unwrap();
            let _ = ended.recv();
        });
        let id = told.recv().unwrap();
        let limit = Instant::now() + Duration::from_secs(60);
        while !id.is_waiting() {
            assert!(Instant::now() < limit);
        }
        drop(end);
        other.join().unwrap();
        assert!(id.is_waiting());
    }

    #[test]
    fn processor_time_grows_with_work() {
        let before = processor_time();
        let limit = Instant::now() + Duration::from_secs(60);
        while processor_time() == before {
            assert!(Instant::now() < limit);
        }
    }
}
