//! Variant D: a mutex around the reservation only; filling goes on in parallel.
//!
//! Admission is decided in the same critical section: a place is given only if the ring has room
//! for it, the disk has room for everything admitted, and the log has not failed.
//!
//! **Invariants**
//! - Everything below `taken` has left the ring and is charged to `segment_room`; `[taken, end)` is
//!   admitted.
//! - `sizes.room_for(end - taken) <= room` at every admission: what was admitted can be written.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

use super::ring::Ring;
use crate::config::Sizes;
use crate::error::WalError;
use crate::lsn::Lsn;

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

struct Admission {
    /// The next place to be given.
    end: u64,
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

impl Admission {
    fn room(&self, sizes: &Sizes) -> u64 {
        self.segment_room + self.spares * sizes.usable_spare()
    }
}

pub(crate) struct LogBuffer {
    pub(crate) ring: Ring,
    sizes: Sizes,
    admission: Mutex<Admission>,
    changed: Condvar,
    /// Copy of `Admission::end` for readers without the lock.
    end: AtomicU64,
}

impl LogBuffer {
    pub(crate) fn new(sizes: Sizes, start: Lsn, segment_room: u64, spares: u64) -> Self {
        Self {
            ring: Ring::new(sizes.buffer),
            sizes,
            admission: Mutex::new(Admission {
                end: start.0,
                taken: start.0,
                segment_room,
                spares,
                failed: None,
                changes: 0,
                refusals: 0,
            }),
            changed: Condvar::new(),
            end: AtomicU64::new(start.0),
        }
    }

    /// The next place to be given.
    pub(crate) fn end(&self) -> Lsn {
        Lsn(self.end.load(Ordering::Acquire))
    }

    /// Gives the next place of `bytes` bytes, a multiple of the record alignment.
    ///
    /// A `streamed` place may be larger than the ring: only its beginning has to be free, and its
    /// owner waits with [`LogBuffer::await_window`] before it fills each part.
    pub(crate) fn reserve(
        &self,
        bytes: u64,
        streamed: bool,
    ) -> Result<Result<Lsn, Blocked>, WalError> {
        let mut a = self.admission.lock();
        if let Some(error) = &a.failed {
            return Err(error.clone());
        }
        let needed = self.sizes.room_for(a.end + bytes - a.taken);
        let in_ring = if streamed { 0 } else { bytes };
        let why = if needed > a.room(&self.sizes) {
            Refused::Disk { needed }
        } else if a.end + in_ring - a.taken > self.ring.bytes() {
            Refused::Ring
        } else {
            let start = Lsn(a.end);
            a.end += bytes;
            self.end.store(a.end, Ordering::Release);
            return Ok(Ok(start));
        };
        Ok(Err(Blocked {
            changes: a.changes,
            refusals: a.refusals,
            why,
        }))
    }

    /// Whether the ring has room for places below `end` now, or what to wait for.
    pub(crate) fn window(&self, end: Lsn) -> Result<Result<(), Blocked>, WalError> {
        let a = self.admission.lock();
        if let Some(error) = &a.failed {
            return Err(error.clone());
        }
        if end.0 - a.taken <= self.ring.bytes() {
            return Ok(Ok(()));
        }
        Ok(Err(Blocked {
            changes: a.changes,
            refusals: a.refusals,
            why: Refused::Ring,
        }))
    }

    /// Blocks until something has changed since `blocked` was returned. True if since then space
    /// was looked for and not found.
    pub(crate) fn await_change(&self, blocked: Blocked) -> bool {
        let mut a = self.admission.lock();
        while a.changes == blocked.changes {
            self.changed.wait(&mut a);
        }
        a.refusals != blocked.refusals
    }

    /// Whether the flush has to be sparing with disk room: it must then take everything up to the
    /// returned end before it writes, because small groups waste room.
    pub(crate) fn must_be_sparing(&self) -> Option<Lsn> {
        let a = self.admission.lock();
        let tight = self.sizes.room_for(a.end - a.taken) > a.room(&self.sizes);
        // Admission had at least this much; only group padding can have used up the slack.
        (tight && a.end > a.taken).then_some(Lsn(a.end))
    }

    /// The flush has taken everything below `taken` and will use `disk_bytes` of the segment for
    /// it.
    pub(crate) fn release(&self, taken: Lsn, disk_bytes: u64) {
        self.change(|a| {
            assert!(
                a.taken <= taken.0 && taken.0 <= a.end,
                "only given places can be taken"
            );
            a.taken = taken.0;
            a.segment_room = a.segment_room.saturating_sub(disk_bytes);
        });
    }

    /// One of the spares has become the current segment.
    pub(crate) fn segment_changed(&self) {
        self.change(|a| {
            a.spares -= 1;
            a.segment_room = self.sizes.usable_spare();
        });
    }

    /// There is one more spare.
    pub(crate) fn spare_added(&self) {
        self.change(|a| a.spares += 1);
    }

    /// Space was looked for and not found.
    pub(crate) fn no_space(&self) {
        self.change(|a| a.refusals += 1);
    }

    /// Whether another segment should be prepared: there is always a spare in waiting, and room for
    /// a full ring (or for what somebody `needed`).
    pub(crate) fn wants_spare(&self, needed: u64) -> bool {
        let a = self.admission.lock();
        let needed = needed.max(self.sizes.room_for(self.sizes.buffer));
        a.failed.is_none() && (a.spares == 0 || a.room(&self.sizes) < needed)
    }

    /// No place is given any more.
    pub(crate) fn fail(&self, error: &WalError) {
        self.change(|a| {
            a.failed.get_or_insert_with(|| error.clone());
        });
    }

    fn change(&self, f: impl FnOnce(&mut Admission)) {
        let mut a = self.admission.lock();
        f(&mut a);
        a.changes += 1;
        self.changed.notify_all();
    }
}
