//! The log buffer: where appenders put records and the flush takes them from.
//!
//! Parts: `ring` (the memory, and the publication of records), `admission` (the order of places and
//! the room for them) behind `latch` (the lock), and the variants of Aether that share them, one file
//! each: `baseline` (B), `consolidated` (C), `decoupled` (D), `hybrid` (CD), `delegated` (CDME).
//! `slots` is the consolidation array of three of them, `release` the in-order release of the last.
//! `sync` is what all of it is made of; `kind` names the variants.
//!
//! **Invariants**
//! - Places are given in one order without gaps; a place that was given is always filled, or the
//!   log has failed.
//! - The flush takes only what is filled, in order, up to the first place that is not.
//! - Nobody waits for room while others wait for him: an insertion that finds none gives back
//!   everything it holds before it says so.

mod admission;
mod baseline;
mod consolidated;
mod decoupled;
mod delegated;
mod hybrid;
mod kind;
mod latch;
mod release;
mod ring;
mod slots;
pub(crate) mod sync;

pub(crate) use admission::{Blocked, MAX_LSN, Pause, Refused};
pub use kind::LogBufferKind;
pub(crate) use ring::{Ring, RingWriter};

use admission::Admission;
use release::{ReleaseQueue, Ticket};
use slots::Slots;

use crate::config::Sizes;
use crate::error::WalError;
use crate::lsn::Lsn;
use crate::stats::Contention;

/// A group in the consolidation array gets at most this part of the ring, or it would often find
/// less room than its members would alone.
const GROUP_SHARE: u64 = 4;

enum Variant {
    Baseline,
    Consolidated(Slots),
    Decoupled,
    Hybrid(Slots),
    Delegated(Slots, Box<ReleaseQueue>),
}

pub(crate) struct LogBuffer {
    pub(crate) ring: Ring,
    admission: Admission,
    variant: Variant,
}

/// A place that is filled part after part, outside any lock. It must be filled to its end, or the
/// log has failed.
pub(crate) struct Stream {
    pub(crate) start: Lsn,
    /// Of the variant with a release queue.
    ticket: Option<Ticket>,
}

/// What the buffer starts with.
pub(crate) struct Beginning {
    /// The first place to be given.
    pub(crate) start: Lsn,
    /// Usable bytes of the current segment.
    pub(crate) segment_room: u64,
    /// Segments in waiting.
    pub(crate) spares: u64,
    /// Usable bytes of them all.
    pub(crate) spare_room: u64,
}

/// What is held back is lent as long as this lives.
pub(crate) struct Lent<'a>(&'a LogBuffer);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.admission.take_back();
    }
}

impl LogBuffer {
    pub(crate) fn new(
        kind: LogBufferKind,
        sizes: Sizes,
        from: &Beginning,
        contention: Contention,
        pause: Option<Pause>,
    ) -> Self {
        let slots = || Slots::new(sizes.buffer / GROUP_SHARE);
        let variant = match kind {
            LogBufferKind::B => Variant::Baseline,
            LogBufferKind::C => Variant::Consolidated(slots()),
            LogBufferKind::D => Variant::Decoupled,
            LogBufferKind::Cd => Variant::Hybrid(slots()),
            LogBufferKind::Cdme => {
                Variant::Delegated(slots(), Box::new(ReleaseQueue::new(from.start)))
            }
        };
        Self {
            ring: Ring::new(sizes.buffer),
            admission: Admission::new(sizes, from, contention, pause),
            variant,
        }
    }

    /// Gets a place of `bytes` bytes, a multiple of the record alignment and not more than half the
    /// ring, and has it filled by `fill`, once. `None` if there was no room: see
    /// [`LogBuffer::blocked`].
    ///
    /// `fill` gets the start of the place, must publish records in all of it, and must not call the
    /// log: locks may be held.
    #[inline]
    pub(crate) fn insert(&self, bytes: u64, fill: &impl Fn(Lsn)) -> Option<Lsn> {
        let admission = &self.admission;
        match &self.variant {
            Variant::Baseline => baseline::insert(admission, bytes, fill),
            Variant::Consolidated(slots) => consolidated::insert(admission, slots, bytes, fill),
            Variant::Decoupled => decoupled::insert(admission, bytes, fill),
            Variant::Hybrid(slots) => hybrid::insert(admission, slots, bytes, fill),
            Variant::Delegated(slots, queue) => {
                delegated::insert(admission, slots, queue, bytes, fill)
            }
        }
    }

    /// Gets a place that may be larger than the ring, for a record of several parts. `None` if there
    /// was no room.
    pub(crate) fn begin_stream(&self, bytes: u64) -> Option<Stream> {
        let admission = &self.admission;
        if let Variant::Delegated(_, queue) = &self.variant {
            let (start, ticket) = delegated::begin_stream(admission, queue, bytes)?;
            let ticket = Some(ticket);
            return Some(Stream { start, ticket });
        }
        let start = if let Variant::Hybrid(_) = &self.variant {
            admission.reserve_streamed_freely(bytes)?
        } else {
            let held = admission.lock();
            admission.reserve_streamed(&held, bytes)?
        };
        let ticket = None;
        Some(Stream { start, ticket })
    }

    /// Whether the part of a stream that ends at `end` may be filled now, or what to wait for.
    pub(crate) fn window(&self, stream: &Stream, end: Lsn) -> Result<Option<Blocked>, WalError> {
        if let (Variant::Delegated(_, queue), Some(ticket)) = (&self.variant, stream.ticket) {
            // What is before must be released by others before any of this can be.
            queue.await_turn(ticket, || self.admission.has_failed());
        }
        debug_assert!(end >= stream.start);
        self.admission.window(end)
    }

    /// The stream has been filled and published up to `end`.
    pub(crate) fn part_filled(&self, stream: &Stream, end: Lsn) {
        debug_assert!(end >= stream.start);
        if let (Variant::Delegated(_, queue), Some(ticket)) = (&self.variant, stream.ticket) {
            queue.release_part(ticket, end);
        }
    }

    /// The stream has been filled to its end.
    pub(crate) fn end_stream(&self, stream: Stream) {
        if let (Variant::Delegated(_, queue), Some(ticket)) = (&self.variant, stream.ticket) {
            queue.leave(ticket, || self.admission.has_failed());
        }
    }

    /// Length with padding of the record at `at`, if it is filled and the consumer may take it.
    pub(crate) fn filled(&self, at: Lsn) -> Option<u64> {
        if let Variant::Delegated(_, queue) = &self.variant
            && at >= queue.released()
        {
            return None;
        }
        self.ring.published(at)
    }

    /// How many insertions were made in groups of more than one.
    pub(crate) fn grouped(&self) -> u64 {
        match &self.variant {
            Variant::Baseline | Variant::Decoupled => 0,
            Variant::Consolidated(slots)
            | Variant::Hybrid(slots)
            | Variant::Delegated(slots, _) => slots.grouped(),
        }
    }

    /// The waits of appends for each other.
    pub(crate) fn contention(&self) -> &Contention {
        &self.admission.contention
    }

    /// The next place to be given.
    pub(crate) fn end(&self) -> Lsn {
        self.admission.end()
    }

    /// Why there was no room for this, or `None` if there is now.
    pub(crate) fn blocked(&self, bytes: u64, streamed: bool) -> Result<Option<Blocked>, WalError> {
        self.admission.blocked(bytes, streamed)
    }

    /// Blocks until something has changed since `blocked` was returned. True if since then space
    /// was looked for and not found.
    pub(crate) fn await_change(&self, blocked: Blocked) -> bool {
        self.admission.await_change(blocked)
    }

    /// Whether the flush has to be sparing with disk room: it must then take everything up to the
    /// returned end before it writes, because small groups waste room.
    pub(crate) fn must_be_sparing(&self) -> Option<Lsn> {
        self.admission.must_be_sparing()
    }

    /// The flush has taken everything below `taken` and will use `disk_bytes` of the segment for
    /// it.
    pub(crate) fn release(&self, taken: Lsn, disk_bytes: u64) {
        self.admission.release(taken, disk_bytes);
    }

    /// One of the spares, of this length, has become the current segment.
    pub(crate) fn segment_changed(&self, file_bytes: u64) {
        self.admission.segment_changed(file_bytes);
    }

    /// There is one more spare, of this length.
    pub(crate) fn spare_added(&self, file_bytes: u64) {
        self.admission.spare_added(file_bytes);
    }

    /// Lends what is held back. Others who look for room at the same moment may get some of it.
    pub(crate) fn lend(&self) -> Lent<'_> {
        self.admission.lend();
        Lent(self)
    }

    /// Space was looked for and not found.
    pub(crate) fn no_space(&self) {
        self.admission.no_space();
    }

    /// Whether another segment should be prepared: there is always a spare in waiting, and room for
    /// a full ring (or for what somebody `needed`).
    pub(crate) fn wants_spare(&self, needed: u64) -> bool {
        self.admission.wants_spare(needed)
    }

    /// No place is given any more.
    pub(crate) fn fail(&self, error: &WalError) {
        self.admission.fail(error);
    }
}

#[cfg(test)]
mod tests;
