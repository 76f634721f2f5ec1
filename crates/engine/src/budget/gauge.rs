//! Counts of bytes that remember their high-water mark.
//!
//! Neighbours: [`super`] has one for each cause, and marks for what is computed from several.
//! **Invariant**: a mark only rises, and a [`Gauge`]'s is never below what it counted at any moment.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of an area of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BytesUsed {
    /// As of now.
    pub now: u64,
    /// The most since the database was opened.
    pub peak: u64,
}

/// The most that something was.
#[derive(Default)]
pub(super) struct Mark(AtomicUsize);

impl Mark {
    /// It is this much now.
    pub(super) fn note(&self, bytes: usize) {
        // Most of the time it is no more than it was: a load of what nobody writes.
        if self.0.load(Ordering::Relaxed) < bytes {
            self.0.fetch_max(bytes, Ordering::Relaxed);
        }
    }

    /// With what it is now.
    pub(super) fn beside(&self, now: usize) -> BytesUsed {
        self.note(now);
        BytesUsed {
            now: now as u64,
            peak: self.0.load(Ordering::Relaxed) as u64,
        }
    }
}

/// A sum over all threads.
#[derive(Default)]
pub(super) struct Gauge {
    bytes: AtomicUsize,
    mark: Mark,
}

impl Gauge {
    pub(super) fn now(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn used(&self) -> BytesUsed {
        self.mark.beside(self.now())
    }

    /// Counts more; what there was before.
    pub(super) fn add(&self, bytes: usize) -> usize {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.mark.note(before.saturating_add(bytes));
        before
    }

    /// Counts less; what there was before.
    pub(super) fn subtract(&self, bytes: usize) -> usize {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed)
    }

    pub(super) fn set(&self, bytes: usize) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.mark.note(bytes);
    }
}
