//! What is left of a damaged log, as far as block headers tell.
//!
//! Neighbours: `reader` and `tail` find damage; here it is estimated what would be lost by going on without.
//!
//! **Invariants**
//! - It is an estimate: what cannot be read is not counted, and nothing here fails.

use std::path::PathBuf;
use std::sync::Arc;

use esker_vfs::Fs;

use super::segment::FIRST_BLOCK;
use super::window::Window;
use crate::config::Sizes;
use crate::error::{Loss, WalError};
use crate::files::SegmentFiles;
use crate::format::{BLOCK_HEADER_BYTES, BlockHeader, PAGE_BYTES, SegmentHeader};
use crate::lsn::Lsn;

/// The segments that were there when the log was opened.
pub(super) struct Survey {
    fs: Arc<dyn Fs>,
    /// By start.
    segments: Vec<(Lsn, PathBuf)>,
}

impl Survey {
    pub(super) fn new(files: &SegmentFiles) -> Self {
        let live = files.live();
        let place = |segment: crate::live::LiveSegment| (segment.start, segment.path);
        Self {
            fs: Arc::clone(files.fs()),
            segments: live.into_iter().map(place).collect(),
        }
    }

    pub(super) fn none(fs: &Arc<dyn Fs>) -> Self {
        Self {
            fs: Arc::clone(fs),
            segments: Vec::new(),
        }
    }

    /// Tells in an error about damage what is behind it.
    pub(super) fn with_loss(&self, mut error: WalError) -> WalError {
        if let WalError::Corruption { whole, loss, .. } = &mut error {
            *loss = Some(self.behind(*whole));
        }
        error
    }

    /// What the log has behind `whole`.
    pub(super) fn behind(&self, whole: Lsn) -> Loss {
        let mut loss = Loss {
            from: whole,
            to: whole,
            records: 0,
            bytes: 0,
            segments: 0,
        };
        for (i, (start, path)) in self.segments.iter().enumerate() {
            let next = self
                .segments
                .get(i + 1)
                .map_or(Lsn(u64::MAX), |next| next.0);
            if next <= whole {
                continue;
            }
            loss.to = loss.to.max(*start);
            let bytes = loss.bytes;
            if let Ok(window) = Window::open(&*self.fs, path) {
                count(window, *start, next, &mut loss);
            }
            loss.segments += u64::from(loss.bytes > bytes || *start > whole);
        }
        debug_assert!(loss.from <= loss.to);
        loss
    }
}

/// Adds the blocks of one segment that lie behind `loss.from`.
fn count(mut window: Window, start: Lsn, next: Lsn, loss: &mut Loss) {
    let header = window.read(0, SegmentHeader::BYTES).ok();
    let header = header
        .and_then(|bytes| bytes.first_chunk())
        .and_then(|bytes| SegmentHeader::decode(bytes).ok());
    if header.is_none() {
        // Anything up to here may have been in it.
        let most = Lsn(start.0.saturating_add(window.len()));
        loss.to = loss.to.max(most.min(next));
    }
    let id = header.map(|header| header.id);
    let mut offset = FIRST_BLOCK;
    while offset < window.len() {
        let Ok(bytes) = window.read(offset, BLOCK_HEADER_BYTES) else {
            offset += PAGE_BYTES;
            continue;
        };
        let is_ours = |block: &BlockHeader| {
            id.is_none_or(|id| id == block.segment_id) && (start..next).contains(&block.first)
        };
        let Some(block) = BlockHeader::decode(bytes).filter(is_ours) else {
            offset += PAGE_BYTES;
            continue;
        };
        loss.to = loss.to.max(block.durable);
        if block.first >= loss.from {
            loss.records += u64::from(block.summary.records);
            loss.bytes += u64::from(block.payload_bytes);
            loss.to = loss.to.max(block.end());
        }
        offset += Sizes::block_on_disk(u64::from(block.payload_bytes));
    }
}
