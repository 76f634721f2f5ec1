//! Writer pins: who still inserts into a memtable, and which part of the log it covers.
//!
//! Neighbours: `memtable::Memtable` has one; committers hold a [`WriterPin`] while they insert.
//!
//! **Invariants**
//! - After [`Pins::seal`] no new pin is given. A table that is sealed and has no pins ([`Pins::are_quiescent`]) is
//!   complete.
//! - Before a version is inserted under a pin, `first_lsn` is at or below the start of its record and `max_seq` at or
//!   above its sequence.

use std::sync::atomic::Ordering;

use crate::Seq;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize};

pub(super) struct Pins {
    /// Committers between `pin` and the drop of their pin.
    writers: AtomicUsize,
    sealed: AtomicBool,
    /// Lowest start LSN of a record with versions in here; `u64::MAX` if there is none.
    first_lsn: AtomicU64,
    /// Highest sequence in here; 0 if empty.
    max_seq: AtomicU64,
}

impl Pins {
    pub(super) fn new() -> Self {
        Pins {
            writers: AtomicUsize::new(0),
            sealed: AtomicBool::new(false),
            first_lsn: AtomicU64::new(u64::MAX),
            max_seq: AtomicU64::new(0),
        }
    }

    pub(super) fn max_seq(&self) -> Seq {
        self.max_seq.load(Ordering::Acquire)
    }

    pub(super) fn first_lsn(&self) -> u64 {
        self.first_lsn.load(Ordering::Acquire)
    }

    /// Announces a committer that inserts versions of the log record [`start`, `seq`). `None` once sealed.
    pub(super) fn pin(&self, start: u64, seq: Seq) -> Option<WriterPin<'_>> {
        // Sequentially consistent on both sides: either this thread sees `sealed`, or whoever sealed sees this writer.
        self.writers.fetch_add(1, Ordering::SeqCst);
        let pin = WriterPin { pins: self };
        if self.sealed.load(Ordering::SeqCst) {
            return None;
        }
        self.first_lsn.fetch_min(start, Ordering::AcqRel);
        self.max_seq.fetch_max(seq, Ordering::AcqRel);
        Some(pin)
    }

    pub(super) fn seal(&self) {
        self.sealed.store(true, Ordering::SeqCst);
    }

    /// Whether no committer inserts any more, or ever will.
    pub(super) fn are_quiescent(&self) -> bool {
        self.sealed.load(Ordering::SeqCst) && self.writers.load(Ordering::SeqCst) == 0
    }
}

/// A committer's right to insert; see `Memtable::pin`.
pub struct WriterPin<'a> {
    pins: &'a Pins,
}

impl Drop for WriterPin<'_> {
    fn drop(&mut self) {
        let before = self.pins.writers.fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "a writer leaves once");
    }
}
