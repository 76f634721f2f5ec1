//! Reading and writing the integers and strings of the binary log.
//!
//! Neighbours: every encoder and decoder of this crate.
//! **Invariants**: a [`Reader`] never reads beyond its bytes; what is missing is an error.

use crate::{Result, damaged};

/// A cursor over bytes that may be damaged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let (head, tail) = self
            .rest
            .split_at_checked(n)
            .ok_or_else(|| damaged("event: it ends too early"))?;
        self.rest = tail;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A little-endian integer of `n` bytes.
    pub(crate) fn uint(&mut self, n: usize) -> Result<u64> {
        debug_assert!(n <= 8);
        let mut word = [0; 8];
        word[..n].copy_from_slice(self.take(n)?);
        Ok(u64::from_le_bytes(word))
    }

    /// A big-endian integer of `n` bytes.
    pub(crate) fn uint_be(&mut self, n: usize) -> Result<u64> {
        debug_assert!(n <= 8);
        Ok(self
            .take(n)?
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// MySQL's length-encoded integer.
    pub(crate) fn packed(&mut self) -> Result<u64> {
        match self.u8()? {
            n @ 0..=250 => Ok(n.into()),
            252 => self.uint(2),
            253 => self.uint(3),
            254 => self.uint(8),
            _ => Err(damaged("event: bad length-encoded integer")),
        }
    }

    /// A length-encoded integer that counts bytes or things in this event.
    pub(crate) fn packed_len(&mut self) -> Result<usize> {
        usize::try_from(self.packed()?).map_err(|_| damaged("event: bad length"))
    }

    /// Bytes behind their length-encoded length.
    pub(crate) fn packed_bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.packed_len()?;
        self.take(len)
    }

    /// Bytes behind a length of one byte.
    pub(crate) fn short_bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.u8()?;
        self.take(len.into())
    }

    /// An integer of [`Put::varint`].
    pub(crate) fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(damaged("integer"))
    }

    /// Bytes behind their [`Put::varint`] length.
    pub(crate) fn var_bytes(&mut self) -> Result<&'a [u8]> {
        let len = usize::try_from(self.varint()?).map_err(|_| damaged("length"))?;
        self.take(len)
    }
}

/// Writing the same.
pub(crate) trait Put {
    fn bytes(&mut self, bytes: &[u8]);

    fn u8(&mut self, v: u8) {
        self.bytes(&[v]);
    }

    fn u16(&mut self, v: u16) {
        self.bytes(&v.to_le_bytes());
    }

    fn u32(&mut self, v: u32) {
        self.bytes(&v.to_le_bytes());
    }

    fn u64(&mut self, v: u64) {
        self.bytes(&v.to_le_bytes());
    }

    /// The lowest `n` bytes, little-endian.
    fn uint(&mut self, v: u64, n: usize) {
        self.bytes(&v.to_le_bytes()[..n]);
    }

    /// The lowest `n` bytes, big-endian.
    fn uint_be(&mut self, v: u64, n: usize) {
        self.bytes(&v.to_be_bytes()[8 - n..]);
    }

    /// MySQL's length-encoded integer.
    fn packed(&mut self, v: u64) {
        match v {
            0..=250 => self.uint(v, 1),
            251..=0xffff => {
                self.u8(252);
                self.uint(v, 2);
            }
            0x1_0000..=0xff_ffff => {
                self.u8(253);
                self.uint(v, 3);
            }
            _ => {
                self.u8(254);
                self.u64(v);
            }
        }
    }

    /// Bytes behind their length-encoded length.
    fn packed_bytes(&mut self, bytes: &[u8]) {
        self.packed(bytes.len() as u64);
        self.bytes(bytes);
    }

    /// Bytes behind a length of one byte; at most 255 of them.
    fn short_bytes(&mut self, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(255)];
        self.u8(bytes.len() as u8);
        self.bytes(bytes);
    }

    /// Seven bits to a byte, the lowest first.
    fn varint(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.u8(v as u8 | 0x80);
            v >>= 7;
        }
        self.u8(v as u8);
    }

    /// Bytes behind their [`Put::varint`] length.
    fn var_bytes(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.bytes(bytes);
    }
}

impl Put for Vec<u8> {
    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
