//! How many commands run now.
//!
//! Neighbours: `connection` says when a command begins and ends; `reply` asks whether a session is the
//! only one that has anything to do.
//!
//! **Invariants**
//! - A command is counted on the thread it begins on and taken off on the one it ends on, so a single
//!   count means nothing; their sum does. Threads share no cache line.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// Counts, a power of two: more threads share them.
const SHARDS: usize = 16;

/// A count alone in its cache line (two, for processors that fetch lines in pairs).
#[derive(Default)]
#[repr(align(128))]
struct Shard(AtomicI64);

/// The commands that run.
#[derive(Default)]
pub(crate) struct Activity {
    shards: [Shard; SHARDS],
}

/// Counts a command until dropped.
pub(crate) struct Running<'a>(&'a Activity);

impl Activity {
    /// A command begins.
    pub(crate) fn begin(&self) -> Running<'_> {
        self.add(1);
        Running(self)
    }

    /// Runs no other command than the caller's? Another one may begin at any moment.
    pub(crate) fn is_alone(&self) -> bool {
        let running: i64 = self
            .shards
            .iter()
            .map(|shard| shard.0.load(Ordering::Relaxed))
            .sum();
        running <= 1
    }

    fn add(&self, n: i64) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
        }
        let shard = &self.shards[MINE.with(|mine| *mine)];
        shard.0.fetch_add(n, Ordering::Relaxed);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_count_wherever_they_end() {
        let activity = Activity::default();
        let mine = activity.begin();
        assert!(activity.is_alone());
        let other = activity.begin();
        assert!(!activity.is_alone());
        std::thread::scope(|scope| scope.spawn(move || drop(other)).join()).expect("no panic");
        assert!(activity.is_alone());
        drop(mine);
        let third = activity.begin();
        assert!(activity.is_alone());
        drop(third);
    }
}
