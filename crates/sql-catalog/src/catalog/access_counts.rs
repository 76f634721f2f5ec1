//! Rows that statements read and change, by table and index: striped counters.
//!
//! Neighbours: scans, short statements, parallel tasks and writers count;
//! `performance_schema.table_io_waits_summary_by_…` shows; `handler_calls` is told what that is in MySQL's calls.
//! **Invariants**: counting takes no lock, and threads that count at once mostly touch different cache lines; a scan
//! counts what it has read in one addition.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::handler_calls::{HandlerCall, Walk, Walked, note_call, note_walk};

/// Counters side by side: more threads share them.
const STRIPES: usize = 8;

/// What happened to rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowEvent {
    /// Read, whether or not it was there or met the conditions.
    Fetch,
    /// Written as a new row.
    Insert,
    /// Changed.
    Update,
    /// Deleted.
    Delete,
}

/// How often each of them happened, in the order of [`RowEvent`].
pub type RowEvents = [u64; 4];

#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe([AtomicU64; 4]);

/// Counters of one index, or of what is done to a table without one.
#[derive(Debug, Default)]
pub struct AccessCounts([Stripe; STRIPES]);

impl AccessCounts {
    /// So many more.
    #[inline]
    pub fn note(&self, event: RowEvent, rows: u64) {
        match event {
            RowEvent::Fetch => {}
            RowEvent::Insert => note_call(HandlerCall::Write, rows),
            RowEvent::Update => note_call(HandlerCall::Update, rows),
            RowEvent::Delete => note_call(HandlerCall::Delete, rows),
        }
        self.0[own_stripe()].0[event as usize].fetch_add(rows, Ordering::Relaxed);
    }

    /// All that was counted.
    pub fn events(&self) -> RowEvents {
        let mut sums = RowEvents::default();
        for stripe in &self.0 {
            for (sum, count) in sums.iter_mut().zip(&stripe.0) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
        sums
    }

    /// Begins anew.
    pub fn reset(&self) {
        for count in self.0.iter().flat_map(|stripe| &stripe.0) {
            count.store(0, Ordering::Relaxed);
        }
    }
}

/// The stripe of this thread.
fn own_stripe() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES;
    }
    OWN.with(|own| *own)
}

/// Rows that a scan has read and not counted yet: they are when it turns elsewhere or ends.
#[derive(Debug, Default)]
pub struct ReadCount {
    rows: u64,
    of: Option<Arc<AccessCounts>>,
    walk: Walk,
    /// Scans that began, those that ended, and the keys that they looked for.
    scans: u64,
    ended: u64,
    keys: u64,
}

impl ReadCount {
    /// A scan begins that looks for so many keys; from here on rows are counted there.
    pub fn aim(&mut self, counts: &Arc<AccessCounts>, walk: Walk, keys: u64) {
        let is_same = self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, counts));
        if !is_same || self.walk != walk {
            self.settle();
            self.of = Some(Arc::clone(counts));
            self.walk = walk;
        }
        self.scans += 1;
        self.keys += keys;
    }

    /// One more row.
    #[inline]
    pub fn add(&mut self) {
        self.rows += 1;
    }

    /// The scan has found that there are no more rows, behind each of so many keys.
    #[inline]
    pub fn end(&mut self, keys: u64) {
        self.ended += keys;
    }

    /// The scan has come to its end behind all of its keys.
    #[inline]
    pub fn end_all(&mut self) {
        self.ended = self.keys.max(self.scans);
    }

    /// Counts what was read.
    pub fn settle(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        if let Some(of) = self.of.as_ref().filter(|_| rows > 0) {
            of.note(RowEvent::Fetch, rows);
        }
        let walked = Walked {
            scans: std::mem::take(&mut self.scans),
            ended: std::mem::take(&mut self.ended),
            keys: std::mem::take(&mut self.keys),
            rows,
        };
        if walked.scans > 0 {
            note_walk(self.walk, walked);
        }
    }
}

impl Drop for ReadCount {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_is_counted() {
        let counts = Arc::new(AccessCounts::default());
        std::thread::scope(|scope| {
            for _ in 0..2 * STRIPES {
                scope.spawn(|| {
                    counts.note(RowEvent::Insert, 2);
                    let mut reads = ReadCount::default();
                    reads.aim(&counts, Walk::Table, 0);
                    reads.add();
                });
            }
        });
        let all = 2 * STRIPES as u64;
        assert_eq!(counts.events(), [all, 2 * all, 0, 0]);
        counts.reset();
        assert_eq!(counts.events(), [0; 4]);
    }

    #[test]
    fn rows_belong_to_where_they_were_read() {
        let (one, other) = (Arc::default(), Arc::default());
        let mut reads = ReadCount::default();
        reads.aim(&one, Walk::Table, 0);
        reads.add();
        reads.aim(&one, Walk::Table, 0);
        reads.add();
        assert_eq!(one.events()[0], 0, "not yet");
        reads.aim(&other, Walk::Table, 0);
        reads.add();
        assert_eq!(one.events()[0], 2);
        reads.settle();
        reads.settle();
        assert_eq!(other.events()[0], 1);
    }
}
