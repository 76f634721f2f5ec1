//! The flush: takes filled records out of the buffer, cuts them into blocks, writes and syncs a
//! group.
//!
//! Two halves. Taking and cutting is done by one thread at a time, the holder of the [`Flusher`], and
//! fixes the place of the group on disk. Writing and syncing is done without a lock, so that several
//! groups can be on their way.
//!
//! Neighbours: `buffer` gives the records, `files` the segment, `flights` keep the order of the
//! groups on their way, `waiters` learn what is durable; `daemon` (or the caller of `flush_now`)
//! decides when.
//!
//! **Invariants**
//! - Groups get their places in LSN order; they may reach the disk in any.
//! - The durable LSN moves only after syncs that cover everything below it.
//! - A group lies in one segment; a new segment begins after everything before it is synced.
//! - Nothing in a segment is acknowledged before the segment in front of it says that there is another.
//! - Each group on its way has an open file of its own.
//! - After the first error no group begins, and nothing behind what failed is acknowledged; it is
//!   not tried again.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use esker_vfs::File;

use crate::config::{FlushMode, Sizes, TRAILER_BYTES};
use crate::error::WalError;
use crate::files::{CurrentSegment, Handles};
use crate::flights::Ticket;
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

/// Looks at a place that is not filled before a thread that would rather flush by itself leaves it to the daemon: a
/// microsecond or two.
const FILL_SPINS: u32 = 50;

/// What a call of [`flush_group`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Hardened a group, or made way for one; there may be more.
    Something,
    /// Found nothing that is filled.
    Nothing,
    /// Could begin no group beside those on their way.
    Later,
}

/// The one who takes records out of the buffer.
pub(crate) struct Flusher {
    current: CurrentSegment,
    /// Everything below was taken out of the buffer.
    consumed: Lsn,
    summary: Summary,
}

/// What a thread needs to flush a group.
#[derive(Default)]
pub(crate) struct Lane {
    /// The group, as it will be written. Empty before the first one.
    staging: Vec<u8>,
    staged: usize,
    group: Group,
    wakers: Vec<Waker>,
}

/// A group that has its place on disk.
struct Departure {
    ticket: Ticket,
    handles: Arc<Handles>,
    file: Arc<dyn File>,
    offset: u64,
    /// Where it ends, if it is the first of its segment.
    opens_segment: Option<Lsn>,
}

/// What there was to take.
enum Taken {
    Group(Departure),
    NewSegment,
    Nothing,
    NoHandle,
}

/// Why no more was taken.
enum Stop {
    /// The next record is not filled yet.
    NotFilled,
    /// The next record does not fit in the block.
    BlockFull,
}

/// Hardens what is filled, up to the size of a group or the end of the segment; or begins a new
/// segment. `departed` is called when the group has its place, before it is written.
pub(crate) fn flush_group(
    shared: &Shared,
    lane: &mut Lane,
    departed: impl FnOnce(),
) -> Result<Flushed, WalError> {
    let taken = {
        let mut flusher = shared.flusher.lock();
        if let Some(error) = shared.waiters.failure() {
            return Err(error.clone());
        }
        flusher.take_group(shared, lane)?
    };
    match taken {
        Taken::Group(departure) => {
            departed();
            lane.fly(shared, departure)?;
            Ok(Flushed::Something)
        }
        Taken::NewSegment => Ok(Flushed::Something),
        Taken::Nothing => Ok(Flushed::Nothing),
        Taken::NoHandle => Ok(Flushed::Later),
    }
}

impl Lane {
    /// Writes and syncs the group and wakes who waited for it.
    fn fly(&mut self, shared: &Shared, departure: Departure) -> Result<(), WalError> {
        let Departure {
            ticket,
            handles,
            file,
            offset,
            opens_segment,
        } = departure;
        debug_assert!(self.staged > 0, "an empty group is not written");
        handles.write_and_sync(file, &self.staging[..self.staged], offset)?;
        if let Some(end) = opens_segment {
            shared.files.close_predecessor(end)?;
        }
        let (durable, nanos) = shared.flights.land(ticket, shared.clock.mono_nanos());
        self.group.nanos = nanos;
        self.group.overlapped = ticket.overlapped;
        // Counted first, so that who is woken finds it counted.
        shared.counters.flushed(self.group);
        if let Some(durable) = durable {
            let woken = shared.waiters.advance(durable, &mut self.wakers);
            shared.counters.woken(woken as u64);
        }
        Ok(())
    }
}

impl Flusher {
    pub(crate) fn new(current: CurrentSegment, start: Lsn) -> Self {
        debug_assert!(current.start <= start && current.offset >= PAGE_BYTES);
        Self {
            current,
            consumed: start,
            summary: Summary::default(),
        }
    }

    /// Everything below was taken out of the buffer.
    pub(crate) fn consumed(&self) -> Lsn {
        self.consumed
    }

    /// Whether there is something to take, or will be as soon as a running appender has filled its place.
    pub(crate) fn is_filled_soon(&self, shared: &Shared) -> bool {
        (0..FILL_SPINS).any(|_| {
            std::hint::spin_loop();
            shared.buffer.filled(self.consumed).is_some()
        })
    }

    /// Takes a group out of the buffer and gives it its place, or begins a new segment.
    fn take_group(&mut self, shared: &Shared, lane: &mut Lane) -> Result<Taken, WalError> {
        let handles = self.current.handles.clone();
        let file = match handles.take(&**shared.files.fs()) {
            Ok(file) => file,
            // Too many open files, perhaps: those on their way will bring theirs back.
            Err(_) if shared.flights.airborne() > 0 => return Ok(Taken::NoHandle),
            Err(error) => return Err(error),
        };
        shared.daemon.begin_group();
        let segment_full = self.assemble(shared, lane);
        shared.daemon.set_consumed(self.consumed);
        if lane.staged == 0 {
            handles.give_back(file);
            if !segment_full {
                return Ok(Taken::Nothing);
            }
            self.next_segment(shared)?;
            return Ok(Taken::NewSegment);
        }
        let offset = self.current.offset;
        let opens_segment = (offset == PAGE_BYTES).then_some(self.consumed);
        self.current.offset += lane.staged as u64;
        assert!(
            self.current.offset + TRAILER_BYTES <= self.current.file_bytes,
            "a group lies in one segment"
        );
        let now = shared.clock.mono_nanos();
        Ok(Taken::Group(Departure {
            ticket: shared.flights.depart(self.consumed, now),
            handles,
            file,
            offset,
            opens_segment,
        }))
    }

    /// Fills the staging area with blocks. True if the next record needs a new segment.
    fn assemble(&mut self, shared: &Shared, lane: &mut Lane) -> bool {
        let block = Sizes::block_on_disk(shared.sizes.block_payload) as usize;
        if lane.staging.is_empty() {
            lane.staging = vec![0; GROUP_BYTES.min(shared.sizes.buffer as usize) + block];
        }
        // When disk room is short, small groups would waste what admitted records need. Without a
        // daemon the one who fills may be the one who flushes, and must not wait for itself.
        let fill_target = match shared.mode {
            FlushMode::Daemon => shared.buffer.must_be_sparing(),
            FlushMode::Manual => None,
        };
        lane.staged = 0;
        lane.group = Group::default();
        let durable = shared.waiters.durable();
        while lane.staged < lane.staging.len() - block {
            let used = self.current.offset + lane.staged as u64;
            let room = self.current.file_bytes.saturating_sub(used + TRAILER_BYTES);
            let most = room
                .saturating_sub(BLOCK_HEADER_BYTES as u64)
                .min(shared.sizes.block_payload);
            let (payload, stop) = self.measure_block(shared, most, fill_target);
            if payload > 0 {
                self.stage_block(shared, lane, payload, durable);
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
            let at = self.consumed.plus(payload);
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
            debug_assert!(payload <= most && len > 0);
        }
    }

    /// Moves records from the ring into a block at the end of the staging area.
    fn stage_block(&mut self, shared: &Shared, lane: &mut Lane, payload_bytes: u64, durable: Lsn) {
        let on_disk = Sizes::block_on_disk(payload_bytes) as usize;
        debug_assert!(payload_bytes <= shared.sizes.block_payload);
        debug_assert!(self.consumed.plus(payload_bytes) <= shared.buffer.end());
        debug_assert!(durable <= self.consumed, "what is not taken is not durable");
        let block = &mut lane.staging[lane.staged..lane.staged + on_disk];
        let (header, rest) = block.split_at_mut(BLOCK_HEADER_BYTES);
        let (payload, padding) = rest.split_at_mut(payload_bytes as usize);
        // SAFETY: the flusher is the only consumer (it is behind one lock), and `measure_block` has
        // seen every record in the range published.
        unsafe { shared.buffer.ring.take(self.consumed, payload) };
        padding.fill(0);
        summarize(&mut self.summary, payload, self.consumed);
        let encoded = BlockHeader {
            first: self.consumed,
            payload_bytes: payload_bytes as u32,
            payload_crc: crc32c::crc32c(payload),
            segment_id: self.current.id,
            durable,
            summary: std::mem::take(&mut self.summary),
        };
        encoded.encode_into(header);
        // Back for the next block: its list keeps its memory.
        self.summary = encoded.summary;
        lane.group.records += u64::from(self.summary.records);
        lane.group.bytes += payload_bytes;
        lane.group.disk_bytes += on_disk as u64;
        self.consumed = self.consumed.plus(payload_bytes);
        lane.staged += on_disk;
        shared.buffer.release(self.consumed, on_disk as u64);
    }

    fn next_segment(&mut self, shared: &Shared) -> Result<(), WalError> {
        // A segment is complete before the next one begins. Those on their way need no flusher to
        // land.
        if !shared.flights.await_all() {
            return Err(shared
                .waiters
                .failure()
                .cloned()
                .unwrap_or(WalError::Closed));
        }
        debug_assert_eq!(
            shared.flights.airborne(),
            0,
            "everything before it is synced"
        );
        // Admission counted a spare for what is waiting, so this loop normally does not run.
        while shared.files.spare_count() == 0 {
            let bytes = shared.files.prepare_spare(true)?;
            shared.buffer.spare_added(bytes);
        }
        let header = shared.segment_header(self.consumed, false);
        let full = self.current.unclosed(self.consumed);
        self.current = shared.files.begin_segment(header, Some(full))?;
        shared.buffer.segment_changed(self.current.file_bytes);
        shared.counters.segment_begun();
        shared.request_spare(0);
        Ok(())
    }

    /// Writes a block without payload whose durable LSN proves everything before it.
    pub(crate) fn seal(&mut self, shared: &Shared) -> Result<(), WalError> {
        assert!(
            shared.waiters.durable() == self.consumed,
            "a seal proves what is durable"
        );
        let page = BlockHeader::mark(self.consumed, self.current.id, self.consumed);
        let handles = &self.current.handles;
        let file = handles.take(&**shared.files.fs())?;
        handles.write_and_sync(file, &page, self.current.offset)?;
        self.current.offset += PAGE_BYTES;
        Ok(())
    }
}

/// Gathers what is in a payload that starts at `first`.
pub(crate) fn summarize(summary: &mut Summary, payload: &[u8], first: Lsn) {
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
