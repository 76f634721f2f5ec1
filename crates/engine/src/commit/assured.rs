//! Commits that survive a crash before their own records are durable, because a second log has decided about them.
//!
//! Neighbours: `txn::ordered` assures what the second log has; every other change of such an engine is announced here;
//! the gate's question is asked through [`CommitEnv`](super::env::CommitEnv).
//!
//! A decision that a crash takes back is made again at the restart. What it depends on is older than its prepare
//! record, which is durable. So it may be told at once, but not together with a change that only this log has: that one
//! waits for the log, and everything behind it with it.
//!
//! **Invariants**
//! - A change that only this log has is announced before it gets its place, so whoever can see it finds it announced.
//! - What is assured never falls: snapshots rely on that. Without a second log it is nothing.

use std::sync::atomic::Ordering;

use crate::Seq;
use crate::sync::AtomicU64;

/// What is assured.
pub(crate) struct Assured {
    /// The last decision; 0: there is no second log.
    decided: AtomicU64,
    /// Changes that only this log has: those on the way to their place, and the last of the others.
    announced: AtomicU64,
    last_other: AtomicU64,
    /// Everything up to here survives a crash.
    level: AtomicU64,
}

impl Default for Assured {
    fn default() -> Self {
        Assured {
            decided: AtomicU64::new(0),
            announced: AtomicU64::new(0),
            last_other: AtomicU64::new(0),
            level: AtomicU64::new(0),
        }
    }
}

impl Assured {
    /// The second log has decided about everything that needs a decision up to here.
    pub(crate) fn raise(&self, seq: Seq) {
        self.decided.fetch_max(seq, Ordering::SeqCst);
    }

    /// Everything up to here survives a crash, where the log is durable up to `durable`. Never falls.
    #[inline]
    pub(crate) fn up_to(&self, durable: Seq) -> Seq {
        // Read first: what lies before this decision was announced before it was made.
        match self.decided.load(Ordering::SeqCst) {
            0 => 0,
            decided => self.raise_level(decided, durable),
        }
    }

    #[cold]
    fn raise_level(&self, decided: Seq, durable: Seq) -> Seq {
        let is_alone = self.announced.load(Ordering::SeqCst) == 0
            && self.last_other.load(Ordering::SeqCst) <= durable;
        match is_alone {
            true => self.level.fetch_max(decided, Ordering::SeqCst).max(decided),
            false => self.level.load(Ordering::SeqCst),
        }
    }

    /// A change follows that only this log has.
    pub(crate) fn announce(&self) -> Announced<'_> {
        self.announced.fetch_add(1, Ordering::SeqCst);
        Announced { assured: self }
    }
}

/// A change that only this log has, until its place is known.
pub(crate) struct Announced<'a> {
    assured: &'a Assured,
}

impl Announced<'_> {
    /// It is at `seq`.
    pub(crate) fn placed(self, seq: Seq) {
        debug_assert!(seq > 0, "a record has a length");
        self.assured.last_other.fetch_max(seq, Ordering::SeqCst);
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        let before = self.assured.announced.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "each goes once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_assured_unless_a_change_of_this_log_alone_may_be_lost() {
        let assured = Assured::default();
        assert_eq!(assured.up_to(5), 0, "nothing is decided");
        assured.raise(10);
        assert_eq!(assured.up_to(0), 10);
        let other = assured.announce();
        assured.raise(15);
        assert_eq!(assured.up_to(0), 10, "what was told stays told");
        other.placed(12);
        assured.raise(20);
        assert_eq!(assured.up_to(11), 10);
        assert_eq!(assured.up_to(12), 20, "it is durable");
        drop(assured.announce());
        assured.raise(30);
        assert_eq!(assured.up_to(12), 30, "it came to nothing");
    }
}
