//! Who may get the next place: the order of places, and how far they may reach.
//!
//! Two halves. Appenders move `end`, as long as it stays below two limits. The flush and the preparer
//! of segments hold the mutex of `room`, and set the limits from what the ring and the disk have
//! free space for. So a reservation is a comparison and an addition, whatever it takes to count the free space.
//!
//! There are two ways to do it, one per log: with the latch held ([`Admission::reserve`]), as the
//! paper has it, or with one compare-and-swap and no lock ([`Admission::reserve_freely`]).
//!
//! **Invariants**
//! - Places are given in one order without gaps.
//! - Everything below `consumed` has left the ring and is charged to `segment_room`; `[consumed, end)` is
//!   admitted.
//! - `sizes.room_for(end - consumed) <= free` at every admission: what was admitted can be written.
//! - A part of the free space is held back for records that make free space on a full disk, and lent only while one of
//!   these is admitted.
//! - No reservation goes by a limit that has been lowered since. Whoever lowers one holds the latch, and
//!   changes the version that is in one word with `end`, so that a compare-and-swap in progress
//!   fails. The order of the locks is free space, then latch; a holder of the latch never waits for free space.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::Beginning;
use super::latch::{Held, Latch};
use super::sync::{AtomicBool, AtomicU64, Condvar, Mutex};
use crate::config::Sizes;
use crate::error::WalError;
use crate::format::RECORD_ALIGN;
use crate::lsn::Lsn;
use crate::stats::Contention;

/// Called in the midst of every reservation; see `MemoryLog::with_pause`.
pub(crate) type Pause = Box<dyn Fn() + Send + Sync>;

/// Why an appender has to wait, and what it saw, so that it can wait for a change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Blocked {
    changes: u64,
    refusals: u64,
    pub(crate) why: Refused,
}

/// What is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Free space in the ring: the flush must take something.
    Ring,
    /// Free space in files: this many bytes must be available.
    Disk { needed: u64 },
}

/// Bits of the version beside `end` in a word. They leave 60 bits for the LSN, which is a multiple
/// of 8: more than a thousand petabytes of log. Versions come round again after 128 lowered limits;
/// a compare-and-swap would have to sleep through exactly so many, each a group written, without
/// any place being given in between.
const VERSION_BITS: u32 = 7;
const VERSIONS: u64 = 1 << VERSION_BITS;

/// A log that is opened must end before: half of what the word has free space for, so that it can grow.
pub(crate) const MAX_LSN: Lsn = Lsn(1 << 59);

/// A position and a version in one word.
#[derive(Clone, Copy, PartialEq, Eq)]
struct End(u64);

impl End {
    fn new(lsn: Lsn) -> Self {
        assert!(lsn < MAX_LSN && lsn.0.is_multiple_of(RECORD_ALIGN));
        End(lsn.0 / RECORD_ALIGN * VERSIONS)
    }

    #[inline]
    fn lsn(self) -> Lsn {
        Lsn(self.0 / VERSIONS * RECORD_ALIGN)
    }

    #[inline]
    fn plus(self, bytes: u64) -> End {
        End(self.0 + bytes / RECORD_ALIGN * VERSIONS)
    }

    fn next_version(self) -> End {
        End(self.0 / VERSIONS * VERSIONS + (self.0 + 1) % VERSIONS)
    }
}

/// What came of an attempt to reserve without the latch.
pub(super) enum Attempt {
    Given(Lsn),
    /// There is no free space.
    Full,
    /// Somebody else was faster.
    Contended,
}

/// What appenders write, in one cache line (two, for processors that fetch lines in pairs).
#[repr(align(128))]
struct Front {
    latch: Latch,
    /// The next place to be given: an [`End`].
    end: AtomicU64,
}

/// What appenders only read.
#[repr(align(128))]
struct Limits {
    /// Where places must end that have to be in the ring as a whole. Zero after a failure.
    whole: AtomicU64,
    /// Where streamed places must end. Zero after a failure.
    streamed: AtomicU64,
    failed: AtomicBool,
}

struct FreeSpace {
    /// Everything below was taken out of the ring.
    consumed: u64,
    /// Usable bytes left in the current segment.
    segment_room: u64,
    /// Prepared segments in waiting.
    spares: u64,
    /// Usable bytes of them all.
    spare_room: u64,
    /// Those who have been lent what is held back.
    borrowers: u64,
    failed: Option<WalError>,
    /// Counts every event that may unblock somebody.
    changes: u64,
    /// Counts the times that no space could be found.
    refusals: u64,
}

impl FreeSpace {
    fn on_disk(&self) -> u64 {
        self.segment_room + self.spare_room
    }

    /// What of it may be given.
    fn to_reserve(&self, sizes: &Sizes) -> u64 {
        match self.borrowers {
            0 => self.on_disk().saturating_sub(sizes.held_back),
            _ => self.on_disk(),
        }
    }

    /// Where the places must end that the disk has free space for.
    fn disk_limit(&self, sizes: &Sizes) -> u64 {
        match self.failed {
            Some(_) => 0,
            None => self.consumed + sizes.most_for(self.to_reserve(sizes)),
        }
    }

    fn blocked(&self, why: Refused) -> Blocked {
        Blocked {
            changes: self.changes,
            refusals: self.refusals,
            why,
        }
    }
}

pub(crate) struct Admission {
    front: Front,
    limits: Limits,
    sizes: Sizes,
    free: Mutex<FreeSpace>,
    changed: Condvar,
    pub(super) contention: Contention,
    pause: Option<Pause>,
}

impl Admission {
    pub(super) fn new(
        sizes: Sizes,
        from: &Beginning,
        contention: Contention,
        pause: Option<Pause>,
    ) -> Self {
        let admission = Self {
            front: Front {
                latch: Latch::default(),
                end: AtomicU64::new(End::new(from.start).0),
            },
            limits: Limits {
                whole: AtomicU64::new(0),
                streamed: AtomicU64::new(0),
                failed: AtomicBool::new(false),
            },
            sizes,
            free: Mutex::new(FreeSpace {
                consumed: from.start.0,
                segment_room: from.segment_room,
                spares: from.spares,
                spare_room: from.spare_room,
                borrowers: 0,
                failed: None,
                changes: 0,
                refusals: 0,
            }),
            changed: Condvar::default(),
            contention,
            pause,
        };
        admission.change(|_| {});
        admission
    }

    /// Takes the latch, and counts the wait for it if it is held.
    #[inline]
    pub(super) fn lock(&self) -> Held<'_> {
        match self.latch().try_lock() {
            Some(held) => held,
            None => self.contention.while_busy(|| self.latch().lock()),
        }
    }

    #[inline]
    pub(super) fn latch(&self) -> &Latch {
        &self.front.latch
    }

    /// The next place to be given.
    pub(super) fn end(&self) -> Lsn {
        End(self.front.end.load(Acquire)).lsn()
    }

    /// Gives the next place of `bytes` bytes, a multiple of the record alignment, if there is free space
    /// for all of it in the ring and on the disk.
    #[inline]
    pub(super) fn reserve(&self, held: &Held<'_>, bytes: u64) -> Option<Lsn> {
        self.give(held, bytes, self.limits.whole.load(Acquire))
    }

    /// As [`Admission::reserve`], but the place may be larger than the ring: only its beginning has
    /// to be free, and its owner waits with [`Admission::window`] before it fills each part.
    pub(super) fn reserve_streamed(&self, held: &Held<'_>, bytes: u64) -> Option<Lsn> {
        if self.end().0 > self.limits.whole.load(Acquire) {
            return None;
        }
        self.give(held, bytes, self.limits.streamed.load(Acquire))
    }

    #[inline]
    fn give(&self, _held: &Held<'_>, bytes: u64, limit: u64) -> Option<Lsn> {
        if let Some(pause) = &self.pause {
            pause();
        }
        // Nobody else writes it: the log's variant always takes the latch, and so does who changes
        // the version.
        let end = End(self.front.end.load(Relaxed));
        if end.lsn().0 + bytes > limit {
            return None;
        }
        self.front.end.store(end.plus(bytes).0, Release);
        Some(end.lsn())
    }

    /// As [`Admission::reserve`], by a log whose variant never calls that. The first attempt of a
    /// thread may be made to pause.
    #[inline]
    pub(super) fn reserve_freely(&self, bytes: u64, first: bool) -> Attempt {
        let pause = self.pause.as_ref().filter(|_| first);
        self.give_freely(bytes, &self.limits.whole, pause)
    }

    /// As [`Admission::reserve_freely`], again and again until there is an answer.
    pub(super) fn reserve_at_last(&self, bytes: u64) -> Option<Lsn> {
        if let Some(pause) = &self.pause {
            pause();
        }
        self.until_answered(bytes, &self.limits.whole)
    }

    /// As [`Admission::reserve_streamed`], without the latch.
    pub(super) fn reserve_streamed_freely(&self, bytes: u64) -> Option<Lsn> {
        if self.end().0 > self.limits.whole.load(Acquire) {
            return None;
        }
        self.until_answered(bytes, &self.limits.streamed)
    }

    fn until_answered(&self, bytes: u64, limit: &AtomicU64) -> Option<Lsn> {
        loop {
            match self.give_freely(bytes, limit, None) {
                Attempt::Given(start) => return Some(start),
                Attempt::Full => return None,
                Attempt::Contended => {}
            }
        }
    }

    #[inline]
    fn give_freely(&self, bytes: u64, limit: &AtomicU64, pause: Option<&Pause>) -> Attempt {
        // Before the limit: if the limit is lowered behind this, the version has changed.
        let end = End(self.front.end.load(Acquire));
        if end.lsn().0 + bytes > limit.load(Acquire) {
            return Attempt::Full;
        }
        if let Some(pause) = pause {
            pause();
        }
        let reserved = self
            .front
            .end
            .compare_exchange(end.0, end.plus(bytes).0, AcqRel, Relaxed);
        match reserved {
            Ok(_) => Attempt::Given(end.lsn()),
            Err(_) => Attempt::Contended,
        }
    }

    /// Why there was no free space for this, or `None` if there is now.
    pub(super) fn blocked(&self, bytes: u64, streamed: bool) -> Result<Option<Blocked>, WalError> {
        let free = self.free.lock();
        if let Some(error) = &free.failed {
            return Err(error.clone());
        }
        let end = self.end().0;
        let needed = self.sizes.room_for(end + bytes - free.consumed);
        let in_ring = if streamed { 0 } else { bytes };
        let why = if needed > free.to_reserve(&self.sizes) {
            Refused::Disk { needed }
        } else if end + in_ring - free.consumed > self.sizes.buffer {
            Refused::Ring
        } else {
            return Ok(None);
        };
        Ok(Some(free.blocked(why)))
    }

    /// Whether the ring has free space for places below `end` now, or what to wait for.
    pub(super) fn window(&self, end: Lsn) -> Result<Option<Blocked>, WalError> {
        let free = self.free.lock();
        if let Some(error) = &free.failed {
            return Err(error.clone());
        }
        Ok((end.0 - free.consumed > self.sizes.buffer).then(|| free.blocked(Refused::Ring)))
    }

    /// Blocks until something has changed since `blocked` was returned. True if since then space
    /// was looked for and not found.
    pub(super) fn await_change(&self, blocked: Blocked) -> bool {
        let mut free = self.free.lock();
        while free.changes == blocked.changes {
            free = self.changed.wait(free);
        }
        free.refusals != blocked.refusals
    }

    /// Whether the flush has to be sparing with disk free space: it must then take everything up to the
    /// returned end before it writes, because small groups waste free space.
    pub(super) fn must_be_sparing(&self) -> Option<Lsn> {
        let free = self.free.lock();
        let end = self.end();
        let tight = self.sizes.room_for(end.0 - free.consumed) > free.on_disk();
        // Admission had at least this much; only group padding can have used up the slack.
        (tight && end.0 > free.consumed).then_some(end)
    }

    /// The flush has taken everything below `consumed` and will use `disk_bytes` of the segment for
    /// it.
    pub(super) fn release(&self, consumed: Lsn, disk_bytes: u64) {
        let end = self.end();
        self.change(|free| {
            assert!(
                free.consumed <= consumed.0 && consumed <= end,
                "only reserved places can be consumed"
            );
            free.consumed = consumed.0;
            free.segment_room = free.segment_room.saturating_sub(disk_bytes);
        });
    }

    /// One of the spares, of this length, has become the current segment.
    pub(super) fn segment_changed(&self, file_bytes: u64) {
        let usable = self.sizes.usable_segment(file_bytes);
        self.change(|free| {
            free.spares -= 1;
            free.spare_room -= usable;
            free.segment_room = usable;
        });
    }

    /// There is one more spare, of this length.
    pub(super) fn spare_added(&self, file_bytes: u64) {
        let usable = self.sizes.usable_segment(file_bytes);
        self.change(|free| {
            free.spares += 1;
            free.spare_room += usable;
        });
    }

    /// What is held back may be given, until it is taken back with [`Admission::take_back`].
    pub(super) fn lend(&self) {
        self.change(|free| free.borrowers += 1);
    }

    /// Ends what one [`Admission::lend`] began.
    pub(super) fn take_back(&self) {
        self.change(|free| free.borrowers -= 1);
    }

    /// Space was looked for and not found.
    pub(super) fn no_space(&self) {
        self.change(|free| free.refusals += 1);
    }

    /// Whether another segment should be prepared: there is always a spare in waiting, and free space for
    /// a full ring (or for what somebody `needed`).
    pub(super) fn wants_spare(&self, needed: u64) -> bool {
        let free = self.free.lock();
        let needed = needed.max(self.sizes.room_for(self.sizes.buffer));
        free.failed.is_none() && (free.spares == 0 || free.to_reserve(&self.sizes) < needed)
    }

    /// No place is given any more.
    pub(super) fn fail(&self, error: &WalError) {
        self.change(|free| {
            free.failed.get_or_insert_with(|| error.clone());
            self.limits.failed.store(true, Release);
        });
    }

    pub(super) fn has_failed(&self) -> bool {
        self.limits.failed.load(Acquire)
    }

    fn change(&self, f: impl FnOnce(&mut FreeSpace)) {
        let mut free = self.free.lock();
        f(&mut free);
        let streamed = free.disk_limit(&self.sizes);
        let whole = streamed.min(free.consumed + self.sizes.buffer);
        let lowers = streamed < self.limits.streamed.load(Relaxed)
            || whole < self.limits.whole.load(Relaxed);
        let held = lowers.then(|| self.latch().lock());
        // The places below a higher limit were cleared before: who reads it may write there.
        self.limits.streamed.store(streamed, Release);
        self.limits.whole.store(whole, Release);
        if held.is_some() {
            self.change_version();
        }
        drop(held);
        free.changes += 1;
        self.changed.notify_all();
    }

    /// Makes reservations in progress without the latch fail; they will see the new limits.
    fn change_version(&self) {
        let mut end = self.front.end.load(Relaxed);
        while let Err(now) =
            self.front
                .end
                .compare_exchange_weak(end, End(end).next_version().0, AcqRel, Relaxed)
        {
            end = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_round_and_leave_the_position_alone() {
        for lsn in [Lsn::FIRST, Lsn(MAX_LSN.0 - RECORD_ALIGN)] {
            let first = End::new(lsn);
            let mut end = first;
            for _ in 1..VERSIONS {
                end = end.next_version();
                assert!(end != first && end.lsn() == lsn);
                assert_eq!(end.plus(24).lsn(), lsn.plus(24));
            }
            assert!(end.next_version() == first);
        }
    }
}
