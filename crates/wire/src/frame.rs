//! Packets: 3 bytes of length, 1 byte of sequence number, up to 16 MiB - 1 of payload; a payload
//! of exactly that size continues in the next packet.
//!
//! Neighbours: `server` feeds [`FrameReader`] what the socket gave and sends what [`FrameWriter`]
//! holds.
//! **Invariants**: the reader never buffers more than one command of at most `limit` bytes plus
//! what arrived with it; sequence numbers are checked on everything that comes in, in the compressed protocol those of
//! the outer packets (clients number what is inside as they like).

use std::ops::Range;

use crate::WireError;

/// Largest payload of one packet; longer payloads are split.
pub const MAX_PACKET: usize = 0xff_ffff;
/// Bytes before each payload.
pub const HEADER: usize = 4;

/// Assembles packets from a byte stream.
#[derive(Debug, Default)]
pub struct FrameReader {
    buf: Vec<u8>,
    /// Start of unread bytes in `buf`.
    pos: usize,
    /// Sequence numbers are as they come.
    any_order: bool,
}

impl FrameReader {
    /// The buffer to append received bytes to.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        if self.pos == self.buf.len() {
            self.buf.clear();
            self.pos = 0;
        } else if self.pos > 64 * 1024 {
            self.buf.drain(..self.pos);
            self.pos = 0;
        }
        &mut self.buf
    }

    /// From here on packets come out of compressed ones, whose numbers are checked.
    pub fn ignore_order(&mut self) {
        self.any_order = true;
    }

    /// Are there bytes that no packet has consumed?
    pub fn has_pending(&self) -> bool {
        self.pos < self.buf.len()
    }

    /// Bytes that the buffer can hold without more memory.
    pub fn capacity(&self) -> usize {
        self.buf.capacity()
    }

    /// Gives memory back when a large command has passed and nothing is pending.
    pub fn shrink(&mut self, keep: usize) {
        if !self.has_pending() && self.buf.capacity() > keep {
            self.buf = Vec::new();
            self.pos = 0;
        }
    }

    /// The next complete payload and the sequence number that the answer starts with.
    /// `expected` is the sequence number of the first packet. None: more bytes are needed.
    ///
    /// # Errors
    /// A payload above `limit` bytes, or a wrong sequence number. The connection is unusable then.
    pub fn next(&mut self, expected: u8, limit: usize) -> Result<Option<(&[u8], u8)>, WireError> {
        let found = self.find(expected, limit)?;
        Ok(found.map(|(payload, seq)| (&self.buf[payload], seq)))
    }

    fn find(
        &mut self,
        expected: u8,
        limit: usize,
    ) -> Result<Option<(Range<usize>, u8)>, WireError> {
        let mut at = self.pos;
        let mut seq = expected;
        let mut parts = 0;
        let mut total = 0;
        loop {
            let Some(header) = self.buf.get(at..at + HEADER) else {
                return Ok(None);
            };
            let len =
                usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16;
            if self.any_order {
                seq = header[3];
            } else if header[3] != seq {
                return Err(WireError::OutOfOrder {
                    expected: seq,
                    got: header[3],
                });
            }
            total += len;
            if total > limit {
                let (got, seq) = (total, Some(seq.wrapping_add(1)));
                return Err(WireError::TooLarge { got, limit, seq });
            }
            seq = seq.wrapping_add(1);
            let start = at + HEADER;
            if self.buf.len() < start + len {
                return Ok(None);
            }
            parts += 1;
            at = start + len;
            if len < MAX_PACKET {
                let payload = if parts == 1 { start..at } else { self.join(at) };
                debug_assert_eq!(payload.len(), total);
                self.pos = at;
                return Ok(Some((payload, seq)));
            }
        }
    }

    /// Joins the parts between `pos` and `end` where they lie: a long payload is there once.
    fn join(&mut self, end: usize) -> Range<usize> {
        let start = self.pos + HEADER;
        let (mut at, mut to) = (self.pos, start);
        while at < end {
            let h = &self.buf[at..at + HEADER];
            let len = usize::from(h[0]) | usize::from(h[1]) << 8 | usize::from(h[2]) << 16;
            let part = at + HEADER..at + HEADER + len;
            at = part.end;
            self.buf.copy_within(part, to);
            to += len;
        }
        start..to
    }
}

/// Collects outgoing packets.
#[derive(Debug, Default)]
pub struct FrameWriter {
    out: Vec<u8>,
    seq: u8,
    /// Start of the open packet's header.
    open: Option<usize>,
    /// What is missing of a payload of [`FrameWriter::begin_sized`], and of it what goes into the current packet.
    missing: usize,
    missing_here: usize,
    /// The current packet is as long as one can be, so another one follows it.
    is_full: bool,
}

impl FrameWriter {
    /// The next packet will carry this sequence number.
    pub fn set_seq(&mut self, seq: u8) {
        self.seq = seq;
    }

    /// Sequence number of the next packet.
    pub fn seq(&self) -> u8 {
        self.seq
    }

    /// Opens a packet; append its payload to the returned buffer, then call [`Self::end`].
    pub fn begin(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.open.is_none(), "packet already open");
        self.open = Some(self.out.len());
        self.out.extend_from_slice(&[0; HEADER]);
        &mut self.out
    }

    /// Opens a payload of `len` bytes, which [`Self::put`] brings: what is complete may leave meanwhile.
    pub fn begin_sized(&mut self, len: usize) {
        debug_assert!(self.open.is_none() && !self.is_unfinished());
        self.missing = len;
        self.begin_part();
    }

    fn begin_part(&mut self) {
        self.missing_here = self.missing.min(MAX_PACKET);
        self.is_full = self.missing_here == MAX_PACKET;
        let at = self.out.len();
        self.out.extend_from_slice(&[0; HEADER]);
        self.put_header(at, self.missing_here);
    }

    /// Some bytes of the payload.
    pub fn put(&mut self, mut bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.missing);
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(self.missing_here));
            self.out.extend_from_slice(now);
            self.missing -= now.len();
            self.missing_here -= now.len();
            if self.missing_here == 0 && self.is_full {
                self.begin_part();
            }
            bytes = later;
        }
    }

    /// Is something missing of the payload that was begun with its size?
    pub fn is_unfinished(&self) -> bool {
        self.missing > 0
    }

    /// The payload buffer of the open packet.
    pub fn payload(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.open.is_some(), "no open packet");
        &mut self.out
    }

    /// Closes the open packet, splitting it when it is 16 MiB - 1 or longer.
    pub fn end(&mut self) {
        let Some(start) = self.open.take() else {
            return;
        };
        let len = self.out.len() - start - HEADER;
        if len < MAX_PACKET {
            self.put_header(start, len);
        } else {
            self.split(start, len);
        }
    }

    /// Drops the open packet.
    pub fn abandon(&mut self) {
        if let Some(start) = self.open.take() {
            self.out.truncate(start);
        }
    }

    fn put_header(&mut self, at: usize, len: usize) {
        self.out[at..at + 3].copy_from_slice(&(len as u32).to_le_bytes()[..3]);
        self.out[at + 3] = self.seq;
        self.seq = self.seq.wrapping_add(1);
    }

    fn split(&mut self, start: usize, len: usize) {
        let payload = self.out.split_off(start + HEADER);
        self.out.truncate(start);
        let mut sent = 0;
        loop {
            let part = (len - sent).min(MAX_PACKET);
            let at = self.out.len();
            self.out.extend_from_slice(&[0; HEADER]);
            self.put_header(at, part);
            self.out.extend_from_slice(&payload[sent..sent + part]);
            sent += part;
            if part < MAX_PACKET {
                return;
            }
        }
    }

    /// Bytes ready to be sent (complete packets only while none is open).
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Forgets what was sent; keeps at most `keep` bytes of capacity.
    pub fn clear(&mut self, keep: usize) {
        debug_assert!(self.open.is_none(), "packet still open");
        self.out.clear();
        if self.out.capacity() > keep {
            self.out = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(len: usize) {
        let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let mut w = FrameWriter::default();
        w.begin().extend_from_slice(&payload);
        w.end();
        let mut r = FrameReader::default();
        // Arrives in pieces: nothing until the last byte is there.
        let bytes = w.bytes();
        r.buffer().extend_from_slice(&bytes[..bytes.len() - 1]);
        assert_eq!(r.next(0, usize::MAX).unwrap(), None);
        r.buffer().push(bytes[bytes.len() - 1]);
        let (got, seq) = r.next(0, usize::MAX).unwrap().unwrap();
        assert_eq!(got, payload);
        assert_eq!(usize::from(seq), len / MAX_PACKET + 1);
        assert!(!r.has_pending());
    }

    #[test]
    fn packets_of_all_sizes() {
        for len in [
            0,
            1,
            250,
            MAX_PACKET - 1,
            MAX_PACKET,
            MAX_PACKET + 1,
            2 * MAX_PACKET,
        ] {
            round_trip(len);
        }
    }

    #[test]
    fn a_payload_in_pieces_is_framed_like_a_whole_one() {
        for len in [
            1,
            250,
            MAX_PACKET - 1,
            MAX_PACKET,
            MAX_PACKET + 1,
            2 * MAX_PACKET,
        ] {
            let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let mut whole = FrameWriter::default();
            whole.begin().extend_from_slice(&payload);
            whole.end();
            let mut pieces = FrameWriter::default();
            pieces.begin_sized(len);
            for piece in payload.chunks(300_007) {
                assert!(pieces.is_unfinished());
                pieces.put(piece);
            }
            assert!(!pieces.is_unfinished());
            assert!(pieces.bytes() == whole.bytes(), "{len}");
            assert_eq!(pieces.seq(), whole.seq());
        }
    }

    #[test]
    fn limit_and_order_are_checked() {
        let mut r = FrameReader::default();
        r.buffer().extend_from_slice(&[10, 0, 0, 0]);
        let (got, limit, seq) = (10, 9, Some(1));
        assert_eq!(r.next(0, 9), Err(WireError::TooLarge { got, limit, seq }));
        let mut r = FrameReader::default();
        r.buffer().extend_from_slice(&[0, 0, 0, 3]);
        assert_eq!(
            r.next(0, 9),
            Err(WireError::OutOfOrder {
                expected: 0,
                got: 3
            })
        );
    }

    #[test]
    fn pipelined_packets_come_one_by_one() {
        let mut r = FrameReader::default();
        r.buffer()
            .extend_from_slice(&[1, 0, 0, 0, b'a', 1, 0, 0, 0, b'b']);
        assert_eq!(r.next(0, 9).unwrap(), Some((&b"a"[..], 1)));
        assert!(r.has_pending());
        assert_eq!(r.next(0, 9).unwrap(), Some((&b"b"[..], 1)));
        assert!(!r.has_pending());
    }
}
