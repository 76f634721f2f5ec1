//! Asking the system to read ahead, so that the device works while blocks are parsed, and on many requests at once.
//!
//! Neighbours: `reader` says where it is. Nothing here is needed for a right result.
//!
//! **Invariants**
//! - What lies behind a segment's live range is not fetched, as far as that can be guessed.
//! - Nothing is fetched while most blocks are skipped and large.

use std::sync::Arc;

use esker_vfs::Fs;

use super::segment::{FIRST_BLOCK, Segment, SegmentFile};
use super::task::Task;
use crate::lsn::Lsn;

/// Skipped blocks of this size are not fetched. The headers of smaller ones are so close to each other that a device
/// reads everything as quickly.
const SEEK_PAYS_BYTES: u64 = 128 << 10;

/// Asked for at a time, at least.
const STEP_BYTES: u64 = 1 << 20;

/// How far the system was asked to read.
#[derive(Default)]
pub(super) struct ReadAhead {
    /// Start of the segment that the following offset is in.
    segment: Lsn,
    offset: u64,
    /// The segment after the one that is being read, if reading ahead has reached it.
    next: Option<SegmentFile>,
}

impl ReadAhead {
    /// Goes on after a task was made that ends at this place: keeps `bytes` under way, here and in the next segment.
    pub(super) fn advance(
        &mut self,
        task: &Task,
        (file, offset): (&SegmentFile, u64),
        next: Option<&Arc<Segment>>,
        bytes: u64,
        fs: &dyn Fs,
    ) {
        let skips = task.skipped_bytes > task.bytes
            && task.skipped_bytes / task.skipped_blocks >= SEEK_PAYS_BYTES;
        if skips || bytes == 0 {
            return;
        }
        let live_end = live_end(file, offset, task.end);
        self.fetch(file, offset, live_end.min(offset + bytes));
        let rest = (offset + bytes).saturating_sub(live_end);
        if let (Some(next), true) = (next, rest >= STEP_BYTES) {
            let known = self.next.take_if(|file| Arc::ptr_eq(&file.segment, next));
            // If it cannot be opened, whoever has to read it is told.
            let opened = known.or_else(|| Arc::clone(next).reading(fs).ok());
            let Some(file) = opened else { return };
            // How much of it is live shows when it is read.
            let most = FIRST_BLOCK + rest.min(next.end.0 - next.start().0);
            self.fetch(&file, FIRST_BLOCK, most);
            self.next = Some(file);
        }
    }

    fn fetch(&mut self, file: &SegmentFile, from: u64, to: u64) {
        if self.segment != file.segment.start() {
            if self.segment > file.segment.start() {
                return;
            }
            self.segment = file.segment.start();
            self.offset = 0;
        }
        let from = from.max(self.offset);
        if to >= from + STEP_BYTES {
            file.will_read(from, to - from);
            self.offset = to;
        }
    }
}

/// About where the live range ends in the file, if what comes is padded like what was.
fn live_end(file: &SegmentFile, offset: u64, lsn: Lsn) -> u64 {
    let read = (lsn.0 - file.segment.start().0).max(1) as f64;
    let left = (file.segment.end.0 - lsn.0) as f64;
    let bytes = left * (offset - FIRST_BLOCK) as f64 / read;
    file.len().min(offset + bytes as u64 + STEP_BYTES)
}
