//! The live snapshots: which old versions must be kept.
//!
//! Neighbours: `Txn` takes and drops snapshots; background jobs ask for the oldest one before they drop versions.
//!
//! A transaction has a slot of its own; taking a snapshot is two loads and one store there, without a lock. Slots are
//! reused, and their list is only locked when a transaction begins or ends its life.
//!
//! **Invariants**
//! - A slot holds a sequence at or below its transaction's snapshot, or [`IDLE`].
//! - No snapshot is older than what [`Snapshots::oldest`] returned before it was taken. New snapshots are at or above
//!   the *stable* sequence, up to which the log is applied and durable; it never falls. A transaction announces a first
//!   look at it, then looks again and goes by the second; the reader of the slots looks at it first. If it misses the
//!   announcement, its look came before the transaction's second look.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use parking_lot::Mutex;

use crate::Seq;

/// No snapshot is taken.
const IDLE: u64 = u64::MAX;

/// Where one transaction announces its snapshot, on cache lines of its own.
#[repr(align(128))]
struct Slot(AtomicU64);

#[derive(Default)]
struct Slots {
    all: Vec<Arc<Slot>>,
    free: Vec<Arc<Slot>>,
}

/// The registry.
#[derive(Default)]
pub(crate) struct Snapshots {
    slots: Mutex<Slots>,
}

/// A transaction's place in the registry.
pub(crate) struct SnapshotSlot {
    slot: Arc<Slot>,
    registry: Arc<Snapshots>,
}

impl Snapshots {
    pub(crate) fn slot(self: &Arc<Self>) -> SnapshotSlot {
        let mut slots = self.slots.lock();
        let slot = slots.free.pop().unwrap_or_else(|| {
            let slot = Arc::new(Slot(AtomicU64::new(IDLE)));
            slots.all.push(Arc::clone(&slot));
            slot
        });
        debug_assert_eq!(slot.0.load(Ordering::Relaxed), IDLE, "nobody had it");
        SnapshotSlot {
            slot,
            registry: Arc::clone(self),
        }
    }

    /// A sequence at or below every live snapshot and every one still to be taken.
    pub(crate) fn oldest(&self, stable: impl Fn() -> Seq) -> Seq {
        let stable = stable();
        fence(Ordering::SeqCst);
        let slots = self.slots.lock();
        slots
            .all
            .iter()
            .map(|slot| slot.0.load(Ordering::SeqCst))
            .fold(stable, Seq::min)
    }

    /// Asserts that slots are given once, and announce nothing that is not visible: for simulations and tests, while
    /// nothing else uses the engine.
    pub(crate) fn validate(&self, visible: Seq) {
        let slots = self.slots.lock();
        for (nth, slot) in slots.free.iter().enumerate() {
            assert_eq!(slot.0.load(Ordering::SeqCst), IDLE, "nobody has it");
            let mut others = slots.free[..nth].iter();
            assert!(!others.any(|other| Arc::ptr_eq(slot, other)), "free once");
            assert!(slots.all.iter().any(|known| Arc::ptr_eq(slot, known)));
        }
        let taken = slots.all.iter().map(|slot| slot.0.load(Ordering::SeqCst));
        let mut taken = taken.filter(|seq| *seq != IDLE);
        assert!(
            taken.all(|seq| seq <= visible),
            "nobody sees what is not there"
        );
    }

    /// Whether somebody has a snapshot at this moment: reads, or changes something.
    pub(crate) fn is_any_taken(&self) -> bool {
        let slots = self.slots.lock();
        let mut all = slots.all.iter();
        all.any(|slot| slot.0.load(Ordering::Relaxed) != IDLE)
    }
}

impl SnapshotSlot {
    /// Takes the snapshot that `choose` gives, which must not be below what `stable` gives when it is called.
    #[inline]
    pub(crate) fn take(&self, stable: impl Fn() -> Seq, choose: impl FnOnce() -> Seq) -> Seq {
        debug_assert_eq!(self.slot.0.load(Ordering::Relaxed), IDLE, "one at a time");
        let announced = stable();
        // The fences of both sides order this store before the second look; it needs no order of its own.
        self.slot.0.store(announced, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let chosen = choose();
        assert!(announced <= chosen, "what was announced is kept");
        chosen
    }

    /// Drops the snapshot.
    #[inline]
    pub(crate) fn clear(&self) {
        self.slot.0.store(IDLE, Ordering::Release);
    }
}

impl Drop for SnapshotSlot {
    fn drop(&mut self) {
        self.clear();
        self.registry.slots.lock().free.push(Arc::clone(&self.slot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::watermark::Watermark;

    #[test]
    fn oldest_live_snapshot_counts() {
        let watermark = Watermark::new(10);
        let snapshots = Arc::new(Snapshots::default());
        let stable = || watermark.visible();
        let take = |slot: &SnapshotSlot| slot.take(stable, stable);
        assert_eq!(snapshots.oldest(stable), 10);
        assert!(!snapshots.is_any_taken());
        let first = snapshots.slot();
        assert_eq!(take(&first), 10);
        watermark.complete(10, 20);
        let second = snapshots.slot();
        assert_eq!(take(&second), 20);
        watermark.complete(20, 30);
        assert_eq!(snapshots.oldest(stable), 10);
        first.clear();
        assert_eq!(snapshots.oldest(stable), 20);
        assert!(snapshots.is_any_taken());
        drop(second);
        assert!(!snapshots.is_any_taken());
        assert_eq!(snapshots.oldest(stable), 30);
        // The slot of the second is used again.
        let third = snapshots.slot();
        take(&third);
        assert_eq!(snapshots.slots.lock().all.len(), 2);
    }

    /// Snapshots may lag behind the watermark, down to what is stable.
    #[test]
    fn versions_are_kept_for_snapshots_that_lag() {
        let snapshots = Arc::new(Snapshots::default());
        let stable = || 10;
        let lagging = snapshots.slot();
        assert_eq!(lagging.take(stable, || 15), 15);
        assert_eq!(snapshots.oldest(stable), 10);
        assert_eq!(snapshots.oldest(|| 40), 10, "what it announced");
        lagging.clear();
        assert_eq!(snapshots.oldest(|| 40), 40);
    }

    #[test]
    fn snapshots_taken_while_the_registry_is_read_are_never_older() {
        let watermark = Watermark::new(1);
        let snapshots = Arc::new(Snapshots::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for seq in 1..20_000 {
                    watermark.complete(seq, seq + 1);
                }
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    let slot = snapshots.slot();
                    let stable = || watermark.visible();
                    while watermark.visible() < 20_000 {
                        let snapshot = slot.take(stable, stable);
                        // While the snapshot lives, nobody may be told of an older limit that is newer than it.
                        assert!(snapshots.oldest(stable) <= snapshot);
                        slot.clear();
                    }
                });
            }
        });
    }
}
