//! The visible watermark: up to where every record of the log has been applied.
//!
//! Neighbours: `commit` completes each record after inserting its versions; snapshots are taken at the watermark;
//! `level` has those who wait for it.
//!
//! **Invariants**
//! - `visible` is the end of the longest prefix of the log without a gap among the completed records. It never falls.
//! - Whoever appends a record completes exactly its range, also when applying failed or there was nothing to apply:
//!   a record that is never completed would stop the world's view of time.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::level::{Level, Reached};
use crate::Seq;
use crate::sync::Mutex;

/// The watermark.
pub(crate) struct Watermark {
    visible: Arc<Level>,
    /// Completed ranges beyond the watermark: start → end. At most one per committing thread.
    ahead: Mutex<BTreeMap<u64, u64>>,
}

impl Watermark {
    pub(crate) fn new(start: Seq) -> Arc<Self> {
        Arc::new(Watermark {
            visible: Level::new(start),
            ahead: Mutex::new(BTreeMap::new()),
        })
    }

    /// Everything up to here is applied.
    #[inline]
    pub(crate) fn visible(&self) -> Seq {
        self.visible.get()
    }

    /// Marks the record [`start`, `end`) as applied.
    pub(crate) fn complete(&self, start: u64, end: u64) {
        assert!(start < end, "a record has a length");
        let visible = {
            let mut ahead = self.ahead.lock();
            // It moves under this lock only.
            let visible = self.visible.get();
            assert!(start >= visible, "a record is completed once");
            if start != visible {
                let earlier = ahead.insert(start, end);
                assert!(earlier.is_none(), "a record is completed once");
                return;
            }
            let mut visible = end;
            while let Some(end) = ahead.remove(&visible) {
                visible = end;
            }
            debug_assert!(
                ahead.keys().all(|start| *start > visible),
                "what is ahead has a gap before it"
            );
            self.visible.set(visible);
            visible
        };
        debug_assert!(self.visible() >= visible, "it never falls");
        self.visible.wake_reached();
    }

    /// Parks until `seq` is visible. Only for a sequence that was given to a record.
    pub(crate) fn block_until(&self, seq: Seq) {
        self.visible.block_until(seq);
    }

    /// Resolves when `seq` is visible.
    pub(crate) fn reached(&self, seq: Seq) -> Reached {
        Reached::new(&self.visible, seq)
    }
}
