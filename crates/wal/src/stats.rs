//! Counters of the log.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets of a histogram: bucket `i` counts values in `[2^(i-1), 2^i)`, bucket 0 zeros.
pub const HISTOGRAM_BUCKETS: usize = 40;

/// A histogram with powers of two as borders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// Counts; see [`HISTOGRAM_BUCKETS`].
    pub buckets: [u64; HISTOGRAM_BUCKETS],
}

impl Histogram {
    /// Number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// An upper bound of the smallest value that `percent` of all values do not exceed.
    pub fn percentile(&self, percent: u64) -> u64 {
        let wanted = (self.count() * percent).div_ceil(100);
        let mut seen = 0;
        for (i, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return (1_u64 << i) - 1;
            }
        }
        u64::MAX
    }
}

/// What the log has done since it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalStats {
    /// Groups hardened, one sync each.
    pub flushes: u64,
    /// Records (parts of chained ones count one each) in them.
    pub records: u64,
    /// Bytes of the record stream in them.
    pub bytes: u64,
    /// Bytes written for them, headers and padding included.
    pub disk_bytes: u64,
    /// Waiters woken by them.
    pub woken: u64,
    /// Segments begun.
    pub segments: u64,
    /// Times that an append had to wait for the flush or for a segment.
    pub append_waits: u64,
    /// Records per group.
    pub group_records: Histogram,
    /// Nanoseconds to write and sync a group.
    pub flush_nanos: Histogram,
}

#[derive(Default)]
pub(crate) struct Counters {
    flushes: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
    disk_bytes: AtomicU64,
    woken: AtomicU64,
    segments: AtomicU64,
    append_waits: AtomicU64,
    group_records: AtomicHistogram,
    flush_nanos: AtomicHistogram,
}

struct AtomicHistogram([AtomicU64; HISTOGRAM_BUCKETS]);

impl Default for AtomicHistogram {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; HISTOGRAM_BUCKETS])
    }
}

impl AtomicHistogram {
    fn add(&self, value: u64) {
        let bucket = (u64::BITS - value.leading_zeros()) as usize;
        self.0[bucket.min(HISTOGRAM_BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> Histogram {
        Histogram {
            buckets: std::array::from_fn(|i| self.0[i].load(Ordering::Relaxed)),
        }
    }
}

/// One hardened group.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Group {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) nanos: u64,
}

impl Counters {
    pub(crate) fn flushed(&self, group: Group) {
        let add = |counter: &AtomicU64, n| counter.fetch_add(n, Ordering::Relaxed);
        add(&self.flushes, 1);
        add(&self.records, group.records);
        add(&self.bytes, group.bytes);
        add(&self.disk_bytes, group.disk_bytes);
        self.group_records.add(group.records);
        self.flush_nanos.add(group.nanos);
    }

    pub(crate) fn woken(&self, waiters: u64) {
        self.woken.fetch_add(waiters, Ordering::Relaxed);
    }

    pub(crate) fn segment_begun(&self) {
        self.segments.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn append_waited(&self) {
        self.append_waits.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> WalStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WalStats {
            flushes: get(&self.flushes),
            records: get(&self.records),
            bytes: get(&self.bytes),
            disk_bytes: get(&self.disk_bytes),
            woken: get(&self.woken),
            segments: get(&self.segments),
            append_waits: get(&self.append_waits),
            group_records: self.group_records.get(),
            flush_nanos: self.flush_nanos.get(),
        }
    }
}
