//! Who may get the next place: the order of places, and how far they may reach.
//!
//! Two halves. Appenders hold the gate and move `end`, as long as it stays below two limits. The
//! flush and the preparer of segments hold the mutex of `room`, and set the limits from what the
//! ring and the disk have room for. So a reservation is: take the gate, compare, add, free the
//! gate, and nothing in it depends on how the room is counted.
//!
//! **Invariants**
//! - Places are given in one order without gaps, by the holder of the gate.
//! - Everything below `taken` has left the ring and is charged to `segment_room`; `[taken, end)` is
//!   admitted.
//! - `sizes.room_for(end - taken) <= room` at every admission: what was admitted can be written.
//! - A limit is lowered only by a holder of the gate, so that no reservation in progress goes by an
//!   older, higher one. The order of the locks is room, then gate; a holder of the gate never waits
//!   for room.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::gate::{Gate, Held};
use super::sync::{AtomicBool, AtomicU64, Condvar, Mutex};
use crate::config::Sizes;
use crate::error::WalError;
use crate::lsn::Lsn;

/// Called by every holder of the gate while it reserves; see `MemoryLog::with_pause`.
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
    /// Room in the ring: the flush must take something.
    Ring,
    /// Room in files: this many bytes must be available.
    Disk { needed: u64 },
}

/// What appenders write, in one cache line (two, for processors that fetch lines in pairs).
#[repr(align(128))]
struct Front {
    gate: Gate,
    /// The next place to be given. Written by the holder of the gate.
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

struct Room {
    /// Everything below was taken out of the ring.
    taken: u64,
    /// Usable bytes left in the current segment.
    segment_room: u64,
    /// Prepared segments in waiting.
    spares: u64,
    failed: Option<WalError>,
    /// Counts every event that may unblock somebody.
    changes: u64,
    /// Counts the times that no space could be found.
    refusals: u64,
}

impl Room {
    fn on_disk(&self, sizes: &Sizes) -> u64 {
        self.segment_room + self.spares * sizes.usable_spare()
    }

    /// Where the places must end that the disk has room for.
    fn disk_limit(&self, sizes: &Sizes) -> u64 {
        match self.failed {
            Some(_) => 0,
            None => self.taken + sizes.most_for(self.on_disk(sizes)),
        }
    }
}

pub(crate) struct Admission {
    front: Front,
    limits: Limits,
    sizes: Sizes,
    room: Mutex<Room>,
    changed: Condvar,
    pause: Option<Pause>,
}

impl Admission {
    pub(super) fn new(
        sizes: Sizes,
        start: Lsn,
        segment_room: u64,
        spares: u64,
        pause: Option<Pause>,
    ) -> Self {
        let admission = Self {
            front: Front {
                gate: Gate::default(),
                end: AtomicU64::new(start.0),
            },
            limits: Limits {
                whole: AtomicU64::new(0),
                streamed: AtomicU64::new(0),
                failed: AtomicBool::new(false),
            },
            sizes,
            room: Mutex::new(Room {
                taken: start.0,
                segment_room,
                spares,
                failed: None,
                changes: 0,
                refusals: 0,
            }),
            changed: Condvar::default(),
            pause,
        };
        admission.change(|_| {});
        admission
    }

    #[inline]
    pub(super) fn gate(&self) -> &Gate {
        &self.front.gate
    }

    /// The next place to be given.
    pub(super) fn end(&self) -> Lsn {
        Lsn(self.front.end.load(Acquire))
    }

    /// Gives the next place of `bytes` bytes, a multiple of the record alignment, if there is room
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
        let start = self.front.end.load(Relaxed);
        if start + bytes > limit {
            return None;
        }
        self.front.end.store(start + bytes, Release);
        Some(Lsn(start))
    }

    /// Why there was no room for this, or `None` if there is now.
    pub(super) fn blocked(&self, bytes: u64, streamed: bool) -> Result<Option<Blocked>, WalError> {
        let room = self.room.lock();
        if let Some(error) = &room.failed {
            return Err(error.clone());
        }
        let end = self.end().0;
        let needed = self.sizes.room_for(end + bytes - room.taken);
        let in_ring = if streamed { 0 } else { bytes };
        let why = if needed > room.on_disk(&self.sizes) {
            Refused::Disk { needed }
        } else if end + in_ring - room.taken > self.sizes.buffer {
            Refused::Ring
        } else {
            return Ok(None);
        };
        Ok(Some(room.blocked(why)))
    }

    /// Whether the ring has room for places below `end` now, or what to wait for.
    pub(super) fn window(&self, end: Lsn) -> Result<Option<Blocked>, WalError> {
        let room = self.room.lock();
        if let Some(error) = &room.failed {
            return Err(error.clone());
        }
        Ok((end.0 - room.taken > self.sizes.buffer).then(|| room.blocked(Refused::Ring)))
    }

    /// Blocks until something has changed since `blocked` was returned. True if since then space
    /// was looked for and not found.
    pub(super) fn await_change(&self, blocked: Blocked) -> bool {
        let mut room = self.room.lock();
        while room.changes == blocked.changes {
            room = self.changed.wait(room);
        }
        room.refusals != blocked.refusals
    }

    /// Whether the flush has to be sparing with disk room: it must then take everything up to the
    /// returned end before it writes, because small groups waste room.
    pub(super) fn must_be_sparing(&self) -> Option<Lsn> {
        let room = self.room.lock();
        let end = self.end();
        let tight = self.sizes.room_for(end.0 - room.taken) > room.on_disk(&self.sizes);
        // Admission had at least this much; only group padding can have used up the slack.
        (tight && end.0 > room.taken).then_some(end)
    }

    /// The flush has taken everything below `taken` and will use `disk_bytes` of the segment for
    /// it.
    pub(super) fn release(&self, taken: Lsn, disk_bytes: u64) {
        let end = self.end();
        self.change(|room| {
            assert!(
                room.taken <= taken.0 && taken <= end,
                "only given places can be taken"
            );
            room.taken = taken.0;
            room.segment_room = room.segment_room.saturating_sub(disk_bytes);
        });
    }

    /// One of the spares has become the current segment.
    pub(super) fn segment_changed(&self) {
        self.change(|room| {
            room.spares -= 1;
            room.segment_room = self.sizes.usable_spare();
        });
    }

    /// There is one more spare.
    pub(super) fn spare_added(&self) {
        self.change(|room| room.spares += 1);
    }

    /// Space was looked for and not found.
    pub(super) fn no_space(&self) {
        self.change(|room| room.refusals += 1);
    }

    /// Whether another segment should be prepared: there is always a spare in waiting, and room for
    /// a full ring (or for what somebody `needed`).
    pub(super) fn wants_spare(&self, needed: u64) -> bool {
        let room = self.room.lock();
        let needed = needed.max(self.sizes.room_for(self.sizes.buffer));
        room.failed.is_none() && (room.spares == 0 || room.on_disk(&self.sizes) < needed)
    }

    /// No place is given any more.
    pub(super) fn fail(&self, error: &WalError) {
        self.change(|room| {
            room.failed.get_or_insert_with(|| error.clone());
            self.limits.failed.store(true, Release);
        });
    }

    pub(super) fn has_failed(&self) -> bool {
        self.limits.failed.load(Acquire)
    }

    fn change(&self, f: impl FnOnce(&mut Room)) {
        let mut room = self.room.lock();
        f(&mut room);
        let streamed = room.disk_limit(&self.sizes);
        let whole = streamed.min(room.taken + self.sizes.buffer);
        let lowers = streamed < self.limits.streamed.load(Relaxed)
            || whole < self.limits.whole.load(Relaxed);
        let held = lowers.then(|| self.gate().lock());
        // The places below a higher limit were cleared before: who reads it may write there.
        self.limits.streamed.store(streamed, Release);
        self.limits.whole.store(whole, Release);
        drop(held);
        room.changes += 1;
        self.changed.notify_all();
    }
}

impl Room {
    fn blocked(&self, why: Refused) -> Blocked {
        Blocked {
            changes: self.changes,
            refusals: self.refusals,
            why,
        }
    }
}
