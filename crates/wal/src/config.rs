//! Settings of the log and the sizes derived from them.
//!
//! **Invariants** (checked by `Sizes::new`)
//! - a part of a record fits in a block, a block in a segment, several blocks in the buffer.

use std::path::PathBuf;

use crate::buffer::LogBufferKind;
use crate::error::WalError;
use crate::format::{BLOCK_HEADER_BYTES, MAX_PAYLOAD_BYTES, PAGE_BYTES};
use crate::policy::FlushPolicy;
use crate::recover::Needs;

/// Smallest segment that is accepted; tests use it to see many segments.
pub const MIN_SEGMENT_BYTES: u64 = 64 * 1024;

/// Smallest log buffer that is accepted.
pub const MIN_BUFFER_BYTES: usize = 64 * 1024;

/// Largest log buffer that is accepted.
pub const MAX_BUFFER_BYTES: usize = 1 << 30;

/// Most payload that is put in one block: the grain of parallel parsing.
const BLOCK_PAYLOAD_BYTES: u64 = 256 * 1024;

/// What a block that is the last of a group may cost beyond its payload.
const GROUP_OVERHEAD: u64 = BLOCK_HEADER_BYTES as u64 + PAGE_BYTES;

/// Kept free at the end of a segment: for the block that closes it, or for the seal of a clean shutdown, which that
/// replaces.
pub(crate) const TRAILER_BYTES: u64 = PAGE_BYTES;

/// Shortest file that becomes a segment where there is no room for a whole one, if segments are longer.
const LEAST_SEGMENT_BYTES: u64 = 1 << 20;

/// One part in so many of a segment's length is held back for records that make room, ...
const HELD_BACK_SHARE: u64 = 16;

/// ... where segments are so long that it is worth anything.
const HOLDS_BACK_FROM: u64 = 1 << 20;

/// Small groups that may be written before the flush notices that room is short.
const FEW_GROUPS: u64 = 8;

/// Who flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushMode {
    /// A thread of the log's own.
    Daemon,
    /// Whoever calls [`crate::Wal::flush_now`]; nothing happens by itself (simulation).
    Manual,
}

/// What is called, with a message, when the log can no longer keep its promises. It must not call
/// the log.
pub type OnFatal = Box<dyn Fn(&str) + Send + Sync>;

/// How the log is read when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Payload bytes from which on a task is large enough. Smaller tasks spread better over threads, larger ones cost
    /// less.
    pub task_bytes: u64,
    /// Most that is read at a time, in bytes; a block is always read whole.
    pub read_bytes: u64,
    /// How far ahead the system is asked to read, in bytes of the files; 0: not at all, so that readers wait for the
    /// device each time.
    pub read_ahead_bytes: u64,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            task_bytes: 4 << 20,
            read_bytes: 1 << 20,
            read_ahead_bytes: 32 << 20,
        }
    }
}

/// Settings of the log.
pub struct WalConfig {
    /// Directory of the segments; created if missing.
    pub dir: PathBuf,
    /// Length of a segment file.
    pub segment_bytes: u64,
    /// Size of the log buffer; a power of two.
    pub buffer_bytes: usize,
    /// How appenders share the log buffer.
    pub log_buffer: LogBufferKind,
    /// Who flushes.
    pub mode: FlushMode,
    /// When the daemon flushes; can be changed later.
    pub flush_policy: FlushPolicy,
    /// Identity of the data directory; a log of another one is refused.
    pub cluster: [u8; 16],
    /// Whether an empty directory becomes a new log; otherwise it is an error.
    pub create: bool,
    /// How what is there is read.
    pub reading: Reading,
    /// What is known about the log from elsewhere.
    pub needs: Needs,
    /// Whether the log ends before damage instead of being refused.
    pub point_in_time: bool,
    /// Names that pin the log from its beginning until they are moved or taken away ([`crate::Wal::pin`]): for those
    /// who follow it, and have not said yet from where on.
    pub pins: Vec<&'static str>,
    /// Called once after a failed write or sync. The default aborts the process: restart and
    /// recovery are the only way back.
    pub on_fatal: OnFatal,
}

impl WalConfig {
    /// The usual settings.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            segment_bytes: 64 << 20,
            buffer_bytes: 16 << 20,
            log_buffer: LogBufferKind::default(),
            mode: FlushMode::Daemon,
            flush_policy: FlushPolicy::default(),
            cluster: [0; 16],
            create: true,
            reading: Reading::default(),
            needs: Needs::default(),
            point_in_time: false,
            pins: Vec::new(),
            on_fatal: Box::new(|message| {
                tracing::error!("fatal: {message}");
                std::process::abort();
            }),
        }
    }
}

/// Sizes in bytes that follow from the settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) segment: u64,
    pub(crate) buffer: u64,
    /// Most payload in one block.
    pub(crate) block_payload: u64,
    /// Longest record part, header and padding included.
    pub(crate) part: u64,
    /// Room that only records that make room may use.
    pub(crate) held_back: u64,
}

impl Sizes {
    pub(crate) fn new(config: &WalConfig) -> Result<Self, WalError> {
        let segment = config.segment_bytes;
        if segment < MIN_SEGMENT_BYTES || !segment.is_multiple_of(PAGE_BYTES) {
            return Err(WalError::Config(format!(
                "segment size {segment} is not a multiple of {PAGE_BYTES} from {MIN_SEGMENT_BYTES} on"
            )));
        }
        let mut sizes = Self::derive(segment, config.buffer_bytes)?;
        if segment >= HOLDS_BACK_FROM {
            sizes.held_back = segment / HELD_BACK_SHARE;
        }
        assert!(sizes.block_payload <= MAX_PAYLOAD_BYTES as u64);
        assert!(sizes.segment >= PAGE_BYTES + 2 * sizes.max_block_on_disk() + TRAILER_BYTES);
        Ok(sizes)
    }

    /// The sizes of a log that has only a buffer.
    pub(crate) fn in_memory(buffer: usize) -> Result<Self, WalError> {
        Self::derive(u64::MAX, buffer)
    }

    fn derive(segment: u64, buffer: usize) -> Result<Self, WalError> {
        if !(MIN_BUFFER_BYTES..=MAX_BUFFER_BYTES).contains(&buffer) || !buffer.is_power_of_two() {
            return Err(WalError::Config(format!(
                "buffer size {buffer} is not a power of two between {MIN_BUFFER_BYTES} and {MAX_BUFFER_BYTES}"
            )));
        }
        let buffer = buffer as u64;
        let block_payload = BLOCK_PAYLOAD_BYTES.min(segment / 4).min(buffer / 4) / 16 * 16;
        Ok(Self {
            segment,
            buffer,
            block_payload,
            part: block_payload / 2,
            held_back: 0,
        })
    }

    /// Bytes in the file for a block of this payload.
    pub(crate) fn block_on_disk(payload: u64) -> u64 {
        (BLOCK_HEADER_BYTES as u64 + payload).next_multiple_of(PAGE_BYTES)
    }

    fn max_block_on_disk(&self) -> u64 {
        Self::block_on_disk(self.block_payload)
    }

    /// Bytes that can surely be used of this much file: a block is not split over segments.
    pub(crate) fn usable(&self, file_bytes: u64) -> u64 {
        file_bytes.saturating_sub(self.max_block_on_disk() + TRAILER_BYTES)
    }

    /// Bytes that can surely be used of an empty segment of this length.
    pub(crate) fn usable_segment(&self, file_bytes: u64) -> u64 {
        self.usable(file_bytes - PAGE_BYTES)
    }

    /// Length of the shortest file that is made a segment.
    pub(crate) fn least_segment(&self) -> u64 {
        let least = PAGE_BYTES + 2 * self.max_block_on_disk() + TRAILER_BYTES;
        least.max(LEAST_SEGMENT_BYTES).min(self.segment)
    }

    /// Segments that are kept in waiting: enough for a full buffer, and one to begin meanwhile.
    pub(crate) fn spares_kept(&self) -> u64 {
        self.room_for(self.buffer)
            .div_ceil(self.usable_segment(self.segment))
            + 1
    }

    /// The most that `bytes` of records need in the file if they are flushed together, plus what a
    /// few small groups before them may waste. Blocks that are not the last of a group are at least
    /// half full, because a part is at most half a block.
    pub(crate) fn room_for(&self, bytes: u64) -> u64 {
        bytes + (2 * (bytes / self.part) + FEW_GROUPS) * GROUP_OVERHEAD
    }

    /// The most bytes for which [`Sizes::room_for`] is not more than `room`.
    pub(crate) fn most_for(&self, room: u64) -> u64 {
        let Some(room) = room.checked_sub(FEW_GROUPS * GROUP_OVERHEAD) else {
            return 0;
        };
        let parts = room / (self.part + 2 * GROUP_OVERHEAD);
        let last = self.part - 1;
        (room - parts * 2 * GROUP_OVERHEAD).min(parts * self.part + last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn most_for_is_the_inverse_of_room_for(room in 0_u64..1 << 40, buffer_log2 in 16..=30_u32) {
            let sizes = Sizes::in_memory(1 << buffer_log2).unwrap();
            let most = sizes.most_for(room);
            prop_assert!(most == 0 || sizes.room_for(most) <= room);
            prop_assert!(sizes.room_for(most + 1) > room);
        }
    }
}
