//! The latch of the log buffer: one word that is free, held, or held with a thread asleep before it.
//!
//! Why not `parking_lot::Mutex`: variant C locks in one thread and unlocks in another (the group's
//! last member), and the word must lie in the same cache line as what it protects, so that a
//! hand-over between two processors moves one line. Why not the queue locks (MCS) of the paper:
//! they hand the lock to the next in line even if that thread is not running, and with more
//! threads than processors it mostly is not. The algorithm is the third one of Drepper, "Futexes
//! Are Tricky" (2011), with a condition variable in the place of the futex.
//!
//! **Invariants**
//! - At most one thread, or one group, holds the latch.
//! - Whoever sleeps has set the word to [`HELD_WITH_SLEEPERS`] under the mutex of the sleepers, and who
//!   frees a word of that value wakes one under the same mutex: no wake-up is lost.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::sync::{AtomicU32, Condvar, Mutex, spin, spin_briefly};

const FREE: u32 = 0;
const HELD: u32 = 1;
const HELD_WITH_SLEEPERS: u32 = 2;

#[derive(Default)]
pub(crate) struct Latch {
    word: AtomicU32,
    sleepers: Mutex<()>,
    freed: Condvar,
}

/// Proof that the latch is held; frees it when dropped.
pub(crate) struct Held<'a>(&'a Latch);

impl Latch {
    /// Waits until the latch is free, and takes it.
    #[inline]
    pub(crate) fn lock(&self) -> Held<'_> {
        match self.try_lock() {
            Some(held) => held,
            None => self.lock_slowly(),
        }
    }

    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Held<'_>> {
        self.word
            .compare_exchange(FREE, HELD, Acquire, Relaxed)
            .is_ok()
            .then(|| Held(self))
    }

    /// Takes the latch if it becomes free within the time that a running holder needs.
    #[inline]
    pub(crate) fn lock_soon(&self) -> Option<Held<'_>> {
        self.try_lock()
            .or_else(|| spin_briefly(|| self.try_if_free()))
    }

    /// Looks before it tries, because trying takes the line away from the holder.
    fn try_if_free(&self) -> Option<Held<'_>> {
        (self.word.load(Relaxed) == FREE)
            .then(|| self.try_lock())
            .flatten()
    }

    #[cold]
    fn lock_slowly(&self) -> Held<'_> {
        if let Some(held) = spin(|| self.try_if_free()) {
            return held;
        }
        let mut sleepers = self.sleepers.lock();
        // Whoever comes from here leaves this value even if it was the last sleeper: one wake-up
        // for nobody, instead of counting.
        while self.word.swap(HELD_WITH_SLEEPERS, Acquire) != FREE {
            sleepers = self.freed.wait(sleepers);
        }
        Held(self)
    }

    /// Frees what a group holds, in its last member: see [`Held::leave_to_group`].
    pub(crate) fn unlock_for_group(&self) {
        self.unlock();
    }

    #[inline]
    fn unlock(&self) {
        let before = self.word.swap(FREE, Release);
        assert!(before != FREE, "only what is held can be freed");
        if before == HELD_WITH_SLEEPERS {
            let _sleepers = self.sleepers.lock();
            self.freed.notify_one();
        }
    }
}

impl Held<'_> {
    /// Leaves the latch locked: the last member of the group frees it, once, with
    /// [`Latch::unlock_for_group`].
    pub(crate) fn leave_to_group(self) {
        std::mem::forget(self);
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.unlock();
    }
}
