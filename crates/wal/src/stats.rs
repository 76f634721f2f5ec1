//! Counters of the log: groups, and who waited for what.
//!
//! Neighbours: `flush` counts groups, `future` waits of commits, `shared` and `buffer` waits of
//! appends; the layers above show them.
//!
//! **Invariants**
//! - Counters only grow. They are read one by one, so a picture taken while the log works may have
//!   one event in one of them and not yet in the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker_vfs::Clock;

use crate::histogram::{AtomicHistogram, Histogram};

/// What somebody can wait for because there is a log: the four delays of Johnson et al., "Aether:
/// A Scalable Approach to Logging" (2010), the last one told apart by its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitCause {
    /// A: a commit, or a reader of what is not durable yet, waits for the device. The time is from
    /// the first look that found it not durable.
    Durable,
    /// B: a transaction waits for a row lock whose holder waits for the device. Counted by who has the
    /// locks, see [`WalStats::set_waits`].
    Lock,
    /// C: a thread gives its processor away to wait for the device. The time is that of (A), so
    /// only the number is counted.
    Switch,
    /// D: an append finds the lock of the log buffer held by another one.
    BufferBusy,
    /// D: an append finds the log buffer full.
    BufferFull,
    /// D: an append finds no room in the segments that are prepared.
    NoSegment,
}

impl WaitCause {
    /// All causes, in the order of the paper.
    pub const ALL: [WaitCause; 6] = [
        WaitCause::Durable,
        WaitCause::Lock,
        WaitCause::Switch,
        WaitCause::BufferBusy,
        WaitCause::BufferFull,
        WaitCause::NoSegment,
    ];

    /// The letter that the paper gives to the delay.
    pub fn letter(self) -> char {
        match self {
            WaitCause::Durable => 'A',
            WaitCause::Lock => 'B',
            WaitCause::Switch => 'C',
            WaitCause::BufferBusy | WaitCause::BufferFull | WaitCause::NoSegment => 'D',
        }
    }
}

/// How often and how long was waited for one cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    /// Number of waits.
    pub count: u64,
    /// Nanoseconds of all waits together.
    pub nanos: u64,
}

/// What the log has done since it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalStats {
    /// Groups hardened, one sync each.
    pub flushes: u64,
    /// Groups whose write began while another one was being written or synced.
    pub overlapped: u64,
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
    /// Records per group.
    pub group_records: Histogram,
    /// Bytes of the record stream per group.
    pub group_bytes: Histogram,
    /// Nanoseconds to write and sync a group.
    pub flush_nanos: Histogram,
    /// Nanoseconds that each wait of [`WaitCause::Durable`] took.
    pub durable_nanos: Histogram,
    waits: [Waits; WaitCause::ALL.len()],
}

impl WalStats {
    /// The waits for this cause.
    pub fn waits(&self, cause: WaitCause) -> Waits {
        self.waits[cause as usize]
    }

    /// Puts in what was counted above the log: it has no locks ([`WaitCause::Lock`]).
    pub fn set_waits(&mut self, cause: WaitCause, waits: Waits) {
        self.waits[cause as usize] = waits;
    }
}

#[derive(Default)]
struct WaitCounter {
    count: AtomicU64,
    nanos: AtomicU64,
}

impl WaitCounter {
    fn add(&self, nanos: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    fn get(&self) -> Waits {
        Waits {
            count: self.count.load(Ordering::Relaxed),
            nanos: self.nanos.load(Ordering::Relaxed),
        }
    }
}

/// Counts the waits of appends for the lock of the log buffer.
pub(crate) struct Contention {
    clock: Arc<dyn Clock>,
    busy: WaitCounter,
}

impl Contention {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            busy: WaitCounter::default(),
        }
    }

    /// Runs `wait`, which takes a lock that was found busy.
    #[cold]
    pub(crate) fn while_busy<T>(&self, wait: impl FnOnce() -> T) -> T {
        let begun = self.clock.mono_nanos();
        let result = wait();
        self.busy.add(self.clock.mono_nanos().saturating_sub(begun));
        result
    }
}

#[derive(Default)]
pub(crate) struct Counters {
    flushes: AtomicU64,
    overlapped: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
    disk_bytes: AtomicU64,
    woken: AtomicU64,
    segments: AtomicU64,
    group_records: AtomicHistogram,
    group_bytes: AtomicHistogram,
    flush_nanos: AtomicHistogram,
    durable_nanos: AtomicHistogram,
    waits: [WaitCounter; WaitCause::ALL.len()],
}

/// One hardened group.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Group {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) nanos: u64,
    /// Others were on their way when it began.
    pub(crate) overlapped: bool,
}

impl Counters {
    pub(crate) fn flushed(&self, group: Group) {
        debug_assert!(group.records > 0 && group.bytes <= group.disk_bytes);
        let add = |counter: &AtomicU64, n| counter.fetch_add(n, Ordering::Relaxed);
        add(&self.flushes, 1);
        add(&self.overlapped, u64::from(group.overlapped));
        add(&self.records, group.records);
        add(&self.bytes, group.bytes);
        add(&self.disk_bytes, group.disk_bytes);
        self.group_records.add(group.records);
        self.group_bytes.add(group.bytes);
        self.flush_nanos.add(group.nanos);
    }

    pub(crate) fn woken(&self, waiters: u64) {
        self.woken.fetch_add(waiters, Ordering::Relaxed);
    }

    pub(crate) fn segment_begun(&self) {
        self.segments.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn waited(&self, cause: WaitCause, nanos: u64) {
        self.waits[cause as usize].add(nanos);
        if cause == WaitCause::Durable {
            self.durable_nanos.add(nanos);
        }
    }

    pub(crate) fn get(&self, contention: &Contention) -> WalStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut waits: [Waits; WaitCause::ALL.len()] = std::array::from_fn(|i| self.waits[i].get());
        waits[WaitCause::BufferBusy as usize] = contention.busy.get();
        WalStats {
            flushes: get(&self.flushes),
            overlapped: get(&self.overlapped),
            records: get(&self.records),
            bytes: get(&self.bytes),
            disk_bytes: get(&self.disk_bytes),
            woken: get(&self.woken),
            segments: get(&self.segments),
            group_records: self.group_records.get(),
            group_bytes: self.group_bytes.get(),
            flush_nanos: self.flush_nanos.get(),
            durable_nanos: self.durable_nanos.get(),
            waits,
        }
    }
}
