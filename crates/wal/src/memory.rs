//! A log that only has a buffer: what is appended is thrown away.
//!
//! For measuring the log buffer by itself. Everything up to the consumer is the code of the real
//! log; the consumer is whoever meets a full ring, and empties it.
//!
//! **Invariants**
//! - One consumer at a time; it discards only what is filled, in order.

use esker_vfs::Env;

use crate::append::{Draft, Host, append};
use crate::buffer::sync::{Mutex, yield_now};
use crate::buffer::{Beginning, Blocked, LogBuffer, LogBufferKind, Pause};
use crate::config::Sizes;
use crate::error::WalError;
use crate::format::RecordKind;
use crate::lsn::Lsn;
use crate::stats::Contention;

/// Discarded before the room is given back: others go on meanwhile.
const DISCARD_BYTES: u64 = 64 * 1024;

/// Disk room of a log that has no disk: enough for centuries, and no sum with it overflows.
const ENDLESS_ROOM: u64 = 1 << 62;
const _: () = assert!(ENDLESS_ROOM <= u64::MAX / 3);

/// A log in memory for benches and tests; see the module.
pub struct MemoryLog {
    sizes: Sizes,
    buffer: LogBuffer,
    /// Everything below was discarded.
    discarded: Mutex<Lsn>,
}

impl MemoryLog {
    /// A log with a buffer of this size, for which the rules of `WalConfig::buffer_bytes` hold.
    ///
    /// # Panics
    /// If they do not.
    pub fn new(kind: LogBufferKind, buffer_bytes: usize) -> Self {
        Self::build(kind, buffer_bytes, None)
    }

    /// As [`MemoryLog::new`]; `pause` is called in the midst of every reservation of a place (for
    /// one record or for a group): in variants that lock, while the lock is held; in CD, between
    /// load and compare-and-swap. A bench can sleep there, to act a thread that was preempted. It
    /// must not call the log.
    ///
    /// # Panics
    /// As [`MemoryLog::new`].
    pub fn with_pause(
        kind: LogBufferKind,
        buffer_bytes: usize,
        pause: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self::build(kind, buffer_bytes, Some(pause))
    }

    fn build(kind: LogBufferKind, buffer_bytes: usize, pause: Option<Pause>) -> Self {
        let sizes = Sizes::in_memory(buffer_bytes).expect("a valid size of the buffer");
        let contention = Contention::new(Env::os().clock);
        let beginning = Beginning {
            start: Lsn::FIRST,
            segment_room: ENDLESS_ROOM,
            spares: 0,
            spare_room: 0,
        };
        Self {
            sizes,
            buffer: LogBuffer::new(kind, sizes, &beginning, contention, pause),
            discarded: Mutex::new(Lsn::FIRST),
        }
    }

    /// Inserts a record with this payload.
    ///
    /// # Panics
    /// If it is larger than [`crate::MAX_RECORD_BYTES`].
    #[inline]
    pub fn insert(&self, payload: &[u8]) {
        let pieces = [payload];
        let draft = Draft::new(RecordKind::Noop, &[], &pieces);
        append(self, &draft).expect("a log in memory takes every record");
    }

    /// Bytes of all records so far, with their heads and padding.
    pub fn bytes(&self) -> u64 {
        self.buffer.end().0 - Lsn::FIRST.0
    }

    /// How many insertions were made in groups of more than one, in variants that make groups.
    pub fn grouped(&self) -> u64 {
        self.buffer.grouped()
    }

    /// Discards what is filled, and returns the number of bytes discarded since the beginning.
    pub fn discard(&self) -> u64 {
        let mut discarded = self.discarded.lock();
        while self.discard_some(&mut discarded) {}
        discarded.0 - Lsn::FIRST.0
    }

    /// Discards a little; false if there was nothing.
    fn discard_some(&self, discarded: &mut Lsn) -> bool {
        let start = *discarded;
        let mut end = start;
        while end.0 - start.0 < DISCARD_BYTES
            && let Some(len) = self.buffer.filled(end)
        {
            end = end.plus(len);
        }
        if end == start {
            return false;
        }
        // SAFETY: the lock on `discarded` makes this thread the only consumer, and it has just seen
        // every record in the range.
        unsafe {
            self.buffer.ring.discard(start, (end.0 - start.0) as usize);
        }
        *discarded = end;
        self.buffer.release(end, 0);
        true
    }
}

impl Host for MemoryLog {
    fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    fn buffer(&self) -> &LogBuffer {
        &self.buffer
    }

    fn wait_for_room(&self, _blocked: Blocked) -> Result<bool, WalError> {
        // Whoever has the lock makes room for all. If it is taken, or nothing is filled, others must
        // run.
        let done = self.discarded.try_lock().is_some_and(|mut discarded| {
            let some = self.discard_some(&mut discarded);
            while self.discard_some(&mut discarded) {}
            some
        });
        if !done {
            yield_now();
        }
        Ok(false)
    }

    fn no_space(&self) -> WalError {
        unreachable!("the room of a log in memory is endless")
    }
}
