//! The memory of the log buffer: a ring addressed by LSN.
//!
//! A record is published by storing its length word last. Unpublished places read as zero, because
//! the consumer clears what it took before the place can be given again. So appenders never wait
//! for each other to release in order (Aether's release queue is not needed), and the consumer sees
//! exactly the filled prefix.
//!
//! **Invariants**
//! - A place is written by the one appender it was given to, between its reservation and its
//!   publication; read and cleared by the one consumer, between publication and release.
//! - Reservation and release are handed over through the latch and the limits of `admission`,
//!   publication through the length word: no byte is ever accessed by two threads at once.
//! - Records are 8-byte aligned, so that a length word is never split.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::format::RECORD_ALIGN;
use crate::lsn::Lsn;

pub(crate) struct Ring {
    /// `AtomicU64` for the alignment and because threads share it; bytes are accessed by pointer.
    words: Box<[AtomicU64]>,
    mask: u64,
}

impl Ring {
    pub(crate) fn new(bytes: u64) -> Self {
        assert!(
            bytes.is_power_of_two() && bytes >= RECORD_ALIGN,
            "positions are masked"
        );
        let words = (0..bytes / 8).map(|_| AtomicU64::new(0)).collect();
        Self {
            words,
            mask: bytes - 1,
        }
    }

    fn bytes(&self) -> u64 {
        self.mask + 1
    }

    fn at(&self, lsn: Lsn) -> *mut u8 {
        let offset = (lsn.0 & self.mask) as usize;
        // SAFETY: the mask keeps the offset inside the allocation of `mask + 1` bytes. Writing
        // through a shared reference is allowed because the memory is made of atomics.
        unsafe { self.words.as_ptr().cast::<u8>().cast_mut().add(offset) }
    }

    /// Splits a range at the end of the memory: lengths before and after the wrap.
    fn split(&self, lsn: Lsn, len: usize) -> (usize, usize) {
        assert!(len as u64 <= self.bytes(), "a place fits in the ring");
        let before = ((self.bytes() - (lsn.0 & self.mask)) as usize).min(len);
        (before, len - before)
    }

    fn length_word(&self, lsn: Lsn) -> &AtomicU32 {
        debug_assert!(lsn.0.is_multiple_of(RECORD_ALIGN));
        // SAFETY: `at` is inside the allocation; the LSN of a record is a multiple of 8, so the
        // word is aligned and whole. It is accessed atomically by appender and consumer while it is
        // shared; plain accesses (`clear`, `copy_out`) happen only while the consumer owns the
        // place.
        unsafe { AtomicU32::from_ptr(self.at(lsn).cast::<u32>()) }
    }

    /// Copies bytes into a place.
    ///
    /// # Safety The range belongs to the caller's reservation, is not published, and the length
    /// words of records in it are not touched.
    #[inline]
    unsafe fn put(&self, lsn: Lsn, bytes: &[u8]) {
        let (before, after) = self.split(lsn, bytes.len());
        if after == 0 {
            // SAFETY: as below. Nearly always so, and then one copy, of a length that is known to
            // the compiler where the caller knows it.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(lsn), bytes.len()) };
            return;
        }
        // SAFETY: both pieces are inside the allocation (`split`), nobody else accesses them
        // (caller), and `bytes` cannot overlap memory that only this type hands out by pointer.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(lsn), before);
            let wrapped = self.at(lsn.plus(before as u64));
            std::ptr::copy_nonoverlapping(bytes.as_ptr().add(before), wrapped, after);
        }
    }

    /// Makes the record at `lsn` visible to the consumer.
    fn publish(&self, lsn: Lsn, len: u32) {
        assert!(len > 0, "zero means not published");
        self.length_word(lsn).store(len, Ordering::Release);
    }

    /// Length with padding of the record at `lsn`, or `None` if it is not published yet.
    pub(crate) fn published(&self, lsn: Lsn) -> Option<u64> {
        match self.length_word(lsn).load(Ordering::Acquire) {
            0 => None,
            len => Some(u64::from(len).next_multiple_of(RECORD_ALIGN)),
        }
    }

    /// Copies published records out and clears their place.
    ///
    /// # Safety
    /// The caller is the only consumer, and saw every record in the range published.
    pub(crate) unsafe fn take(&self, lsn: Lsn, out: &mut [u8]) {
        let (before, after) = self.split(lsn, out.len());
        // SAFETY: both pieces are inside the allocation (`split`); their appenders finished before
        // they published, which the caller saw; nobody gets these places again before the consumer
        // releases them. `out` is exclusive and not in the ring.
        unsafe {
            let wrapped = self.at(lsn.plus(before as u64));
            std::ptr::copy_nonoverlapping(self.at(lsn), out.as_mut_ptr(), before);
            std::ptr::copy_nonoverlapping(wrapped, out.as_mut_ptr().add(before), after);
            self.discard(lsn, out.len());
        }
    }

    /// Clears the place of published records.
    ///
    /// # Safety
    /// As for [`Ring::take`].
    pub(crate) unsafe fn discard(&self, lsn: Lsn, len: usize) {
        let (before, after) = self.split(lsn, len);
        // SAFETY: as in `take`.
        unsafe {
            std::ptr::write_bytes(self.at(lsn), 0, before);
            std::ptr::write_bytes(self.at(lsn.plus(before as u64)), 0, after);
        }
    }
}

/// Fills one reserved record: everything behind the length word, then the length word.
pub(crate) struct RingWriter<'a> {
    ring: &'a Ring,
    start: Lsn,
    len: u32,
    written: u32,
}

impl<'a> RingWriter<'a> {
    /// A writer for the record of `len` bytes at `start`.
    ///
    /// # Safety `[start, start + len)`, with padding, is a reservation of the caller that is inside
    /// the ring's window, was not filled before, and has no other writer.
    pub(crate) unsafe fn new(ring: &'a Ring, start: Lsn, len: u32) -> Self {
        Self {
            ring,
            start,
            len,
            written: 4,
        }
    }

    /// Appends bytes behind what was put before.
    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        let room = (self.len - self.written) as usize;
        assert!(bytes.len() <= room, "a record is filled exactly");
        // SAFETY: inside the caller's reservation by the assertion and the contract of `new`;
        // starts behind the length word; not published, because that consumes the writer.
        unsafe {
            self.ring
                .put(self.start.plus(u64::from(self.written)), bytes)
        };
        self.written += bytes.len() as u32;
    }

    /// Publishes the record.
    #[inline]
    pub(crate) fn finish(self) {
        assert_eq!(self.written, self.len, "a record is filled exactly");
        self.ring.publish(self.start, self.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(ring: &Ring, at: u64, bytes: &[u8]) {
        // SAFETY: single thread, each place written once between takes.
        let mut writer = unsafe { RingWriter::new(ring, Lsn(at), bytes.len() as u32 + 4) };
        let (a, b) = bytes.split_at(bytes.len() / 2);
        writer.put(a);
        writer.put(b);
        assert_eq!(ring.published(Lsn(at)), None);
        writer.finish();
    }

    #[test]
    fn records_wrap_and_leave_clean_places() {
        let ring = Ring::new(64);
        let mut at = 8;
        for round in 0..40_u8 {
            let bytes = vec![round; 1 + usize::from(round) % 50];
            write(&ring, at, &bytes);
            let padded = ring.published(Lsn(at)).unwrap();
            assert_eq!(padded, (bytes.len() as u64 + 4).next_multiple_of(8));
            let mut out = vec![0; padded as usize];
            // SAFETY: single thread, just published.
            unsafe { ring.take(Lsn(at), &mut out) };
            assert_eq!(&out[4..4 + bytes.len()], &bytes);
            for word in &ring.words {
                assert_eq!(word.load(Ordering::Relaxed), 0);
            }
            at += padded;
        }
    }
}
