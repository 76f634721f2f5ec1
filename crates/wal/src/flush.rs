//! The flush: takes filled records out of the buffer, cuts them into blocks, writes and syncs a
//! group.
//!
//! Neighbours: `buffer` gives the records, `files` the segment, `waiters` learn what is durable;
//! `daemon` (or the caller of `flush_now`) decides when.
//!
//! **Invariants**
//! - One flusher at a time; groups reach the disk in LSN order, and a group is synced before the
//!   next is written.
//! - The durable LSN moves only after a sync that covers everything below it.
//! - A group lies in one segment; a new segment begins after everything before it is synced.
//! - The first error is the last thing that happens: nothing is written or synced again.

use std::task::Waker;
use std::time::Duration;

use crate::config::{FlushMode, Sizes};
use crate::error::WalError;
use crate::files::CurrentSegment;
use crate::format::{BLOCK_HEADER_BYTES, BlockHeader, PAGE_BYTES, Summary, parse_part};
use crate::lsn::Lsn;
use crate::shared::Shared;
use crate::stats::Group;

/// A group is written when it has this many bytes, even if more is waiting: bounds the latency of
/// who came first, and the memory.
const GROUP_BYTES: usize = 4 << 20;

/// Times the flush gives the processor away while it waits for an appender that is filling its
/// place, before it sleeps.
const FILL_YIELDS: u32 = 100;

/// How long it sleeps then.
const FILL_SLEEP: Duration = Duration::from_micros(20);

/// What a call of [`Flusher::flush_group`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Hardened a group, or made way for one; there may be more.
    Something,
    /// Found nothing that is filled.
    Nothing,
}

pub(crate) struct Flusher {
    current: CurrentSegment,
    /// Everything below was taken out of the buffer.
    taken: Lsn,
    /// The group, as it will be written.
    staging: Vec<u8>,
    staged: usize,
    group: Group,
    summary: Summary,
    wakers: Vec<Waker>,
}

/// Why no more was taken.
enum Stop {
    /// The next record is not filled yet.
    NotFilled,
    /// The next record does not fit in the block.
    BlockFull,
}

impl Flusher {
    pub(crate) fn new(sizes: &Sizes, current: CurrentSegment, start: Lsn) -> Self {
        let staging = GROUP_BYTES.min(sizes.buffer as usize);
        let block = Sizes::block_on_disk(sizes.block_payload) as usize;
        Self {
            current,
            taken: start,
            staging: vec![0; staging + block],
            staged: 0,
            group: Group::default(),
            summary: Summary::default(),
            wakers: Vec::new(),
        }
    }

    /// Hardens what is filled, up to the size of a group or the end of the segment.
    pub(crate) fn flush_group(&mut self, shared: &Shared) -> Result<Flushed, WalError> {
        let segment_full = self.assemble(shared);
        if self.staged > 0 {
            self.harden(shared)?;
        }
        if segment_full {
            self.next_segment(shared)?;
        }
        let did_something = self.group.records > 0 || segment_full;
        Ok(if did_something {
            Flushed::Something
        } else {
            Flushed::Nothing
        })
    }

    /// Fills the staging area with blocks. True if the next record needs a new segment.
    fn assemble(&mut self, shared: &Shared) -> bool {
        // When disk room is short, small groups would waste what admitted records need. Without a
        // daemon the one who fills may be the one who flushes, and must not wait for itself.
        let fill_target = match shared.mode {
            FlushMode::Daemon => shared.buffer.must_be_sparing(),
            FlushMode::Manual => None,
        };
        self.staged = 0;
        self.group = Group::default();
        let durable = shared.waiters.durable();
        while self.staged
            < self.staging.len() - Sizes::block_on_disk(shared.sizes.block_payload) as usize
        {
            let room = self.current.file_bytes - self.current.offset - self.staged as u64;
            let most = room
                .saturating_sub(BLOCK_HEADER_BYTES as u64)
                .min(shared.sizes.block_payload);
            let (payload, stop) = self.measure_block(shared, most, fill_target);
            if payload > 0 {
                self.stage_block(shared, payload, durable);
            }
            match stop {
                Stop::NotFilled => return false,
                Stop::BlockFull if payload == 0 => return true,
                Stop::BlockFull => {}
            }
        }
        false
    }

    /// Bytes of filled records that fit in a block of at most `most` bytes of payload.
    fn measure_block(&self, shared: &Shared, most: u64, fill_target: Option<Lsn>) -> (u64, Stop) {
        let mut payload = 0;
        loop {
            let at = self.taken.plus(payload);
            let Some(len) = shared.buffer.filled(at) else {
                if fill_target.is_some_and(|target| at < target) && shared.await_fill(at) {
                    continue;
                }
                return (payload, Stop::NotFilled);
            };
            if payload + len > most {
                return (payload, Stop::BlockFull);
            }
            payload += len;
        }
    }

    /// Moves records from the ring into a block at the end of the staging area.
    fn stage_block(&mut self, shared: &Shared, payload_bytes: u64, durable: Lsn) {
        let on_disk = Sizes::block_on_disk(payload_bytes) as usize;
        let block = &mut self.staging[self.staged..self.staged + on_disk];
        let (header, rest) = block.split_at_mut(BLOCK_HEADER_BYTES);
        let (payload, padding) = rest.split_at_mut(payload_bytes as usize);
        // SAFETY: the flusher is the only consumer (it is behind one lock), and `measure_block` has
        // seen every record in the range published.
        unsafe { shared.buffer.ring.take(self.taken, payload) };
        padding.fill(0);
        summarize(&mut self.summary, payload, self.taken);
        let encoded = BlockHeader {
            first: self.taken,
            payload_bytes: payload_bytes as u32,
            payload_crc: crc32c::crc32c(payload),
            segment_id: self.current.id,
            durable,
            summary: std::mem::take(&mut self.summary),
        };
        encoded.encode_into(header);
        // Back for the next block: its list keeps its memory.
        self.summary = encoded.summary;
        self.group.records += u64::from(self.summary.records);
        self.group.bytes += payload_bytes;
        self.taken = self.taken.plus(payload_bytes);
        self.staged += on_disk;
        shared.buffer.release(self.taken, on_disk as u64);
    }

    /// Writes and syncs the staging area and wakes who waited for it.
    fn harden(&mut self, shared: &Shared) -> Result<(), WalError> {
        let begun = shared.clock.mono_nanos();
        self.write_and_sync()?;
        self.group.nanos = shared.clock.mono_nanos().saturating_sub(begun);
        self.group.disk_bytes = self.staged as u64;
        // Counted first, so that who is woken finds it counted.
        shared.counters.flushed(self.group);
        shared
            .counters
            .woken(shared.waiters.advance(self.taken, &mut self.wakers) as u64);
        Ok(())
    }

    fn write_and_sync(&mut self) -> Result<(), WalError> {
        let CurrentSegment {
            file, path, offset, ..
        } = &mut self.current;
        file.write_all_at(&self.staging[..self.staged], *offset)
            .map_err(|e| WalError::io("write", path, e))?;
        file.sync_data()
            .map_err(|e| WalError::io("sync", path, e))?;
        *offset += self.staged as u64;
        Ok(())
    }

    fn next_segment(&mut self, shared: &Shared) -> Result<(), WalError> {
        assert!(
            shared.waiters.durable() == self.taken,
            "a segment is complete before the next begins"
        );
        // Admission counted a spare for what is waiting, so this loop normally does not run.
        while shared.files.spare_count() == 0 {
            shared.files.prepare_spare()?;
            shared.buffer.spare_added();
        }
        self.current = shared
            .files
            .begin_segment(&shared.segment_header(self.taken, false))?;
        shared.buffer.segment_changed();
        shared.counters.segment_begun();
        shared.request_spare(0);
        Ok(())
    }

    /// Writes a block without payload whose durable LSN proves everything before it. Left out if
    /// the segment happens to be full.
    pub(crate) fn seal(&mut self, shared: &Shared) -> Result<(), WalError> {
        assert!(
            shared.waiters.durable() == self.taken,
            "a seal proves what is durable"
        );
        if self.current.file_bytes - self.current.offset < PAGE_BYTES {
            return Ok(());
        }
        let header = BlockHeader {
            first: self.taken,
            payload_bytes: 0,
            payload_crc: crc32c::crc32c(&[]),
            segment_id: self.current.id,
            durable: self.taken,
            summary: Summary::default(),
        };
        self.staged = PAGE_BYTES as usize;
        self.staging[..self.staged].fill(0);
        header.encode_into(&mut self.staging);
        self.write_and_sync()
    }
}

/// Gathers what is in a payload that starts at `first`.
fn summarize(summary: &mut Summary, payload: &[u8], first: Lsn) {
    summary.clear();
    let mut at = 0;
    while at < payload.len() {
        let part = parse_part(&payload[at..]).expect("appenders write well-formed records");
        at += part.padded as usize;
        summary.add(&part, first.plus(at as u64));
    }
}

/// Waits a little for the place at `at` to be filled: first by giving the processor away.
pub(crate) fn pause_for_fill(shared: &Shared, at: Lsn) {
    for _ in 0..FILL_YIELDS {
        if shared.buffer.filled(at).is_some() {
            return;
        }
        std::thread::yield_now();
    }
    std::thread::sleep(FILL_SLEEP);
}
