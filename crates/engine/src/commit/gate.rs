//! The gate: the one decision about what may be told to a client.
//!
//! Neighbours: replies, acknowledgements in groups and durable snapshots ask here; `log` knows what is durable,
//! `watermark` what is applied; the layer above holds the gate while others have to acknowledge, too (semi-synchronous
//! replication).
//!
//! Something may be told when it is durable, visible, and acknowledged by whoever has to. Durability alone does not do:
//! a record can be durable while an earlier one is still being inserted, and a snapshot ends before that.
//!
//! **Invariants**
//! - What may be told survives a crash, and every snapshot that is taken afterwards sees it.
//! - It never falls. So the gate is looked at last, and is closed only above everything that is durable by then.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::level::{Level, Reached};
use super::watermark::Watermark;
use crate::Seq;
use crate::sync::AtomicBool;

/// Nothing is waited for beside log and watermark.
const OPEN: Seq = Seq::MAX;

/// The gate.
pub(crate) struct Gate {
    watermark: Arc<Watermark>,
    /// Others have acknowledged up to here; [`OPEN`] if nobody has to.
    acknowledged: Arc<Level>,
    is_held: AtomicBool,
}

impl Gate {
    pub(crate) fn new(watermark: &Arc<Watermark>) -> Self {
        Gate {
            watermark: Arc::clone(watermark),
            acknowledged: Level::new(OPEN),
            is_held: AtomicBool::new(false),
        }
    }

    /// Everything up to here may be told, where the log is durable up to `durable`, or is not waited for.
    #[inline]
    pub(crate) fn told_up_to(&self, durable: Option<Seq>) -> Seq {
        let visible = self.watermark.visible();
        let told = durable.map_or(visible, |durable| durable.min(visible));
        // Last: who finds the gate open has looked at the others before it was closed.
        told.min(self.acknowledged.get())
    }

    /// What `seq` waits for at the gate; `None` if it is open.
    pub(crate) fn to_await(&self, seq: Seq) -> Option<Reached> {
        (self.acknowledged.get() < seq).then(|| Reached::new(&self.acknowledged, seq))
    }

    /// Closes the gate for what is behind `durable`, above everything that is durable before this returns. `end` gives
    /// where the log ends. The gate is open up to what this returns.
    pub(crate) fn hold(&self, durable: Seq, end: impl FnOnce() -> Seq) -> Seq {
        if !self.is_held.swap(true, Ordering::SeqCst) {
            self.acknowledged.set(durable);
            // Whatever began to wait when the gate was open had its place in the log by now.
            self.acknowledged.raise_to(end());
            debug_assert!(
                self.acknowledged.get() >= durable,
                "what was told stays told"
            );
        }
        self.acknowledged.get()
    }

    /// Others have acknowledged everything up to `seq`.
    pub(crate) fn acknowledge(&self, seq: Seq) {
        debug_assert!(seq < OPEN, "release alone opens the gate");
        self.acknowledged.raise_to(seq);
    }

    /// Opens the gate: nobody has to acknowledge any more.
    pub(crate) fn release(&self) {
        self.acknowledged.raise_to(OPEN);
        self.is_held.store(false, Ordering::SeqCst);
    }
}
