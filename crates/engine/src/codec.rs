//! Varints and checked reading of bytes that came from disk.
//!
//! Neighbours: whatever has a format encodes and decodes with it: log records (`commit::record`), extents, the
//! manifest; and, above the engine, the rows of the catalog.
//!
//! **Invariants**
//! - Reading never panics and never looks outside its slice, whatever the bytes.

/// Why bytes cannot be decoded.
pub(crate) type Malformed = &'static str;

/// Appends a varint: LEB128, seven bits per byte, least significant first; one to ten bytes.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a length and the bytes.
#[inline]
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Decodes the varint at `*at` and moves behind it; `None` if it is cut off or does not fit into 64 bits.
#[inline]
pub fn varint_at(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    *at += 1;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    let mut value = u64::from(first & 0x7F);
    for shift in (7..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        let bits = u64::from(byte & 0x7F);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// The little-endian u32 at `at`.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

/// The little-endian u64 at `at`.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

/// Reads fields one after the other.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0 }
    }

    /// Bytes read so far.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// What was read since that position.
    #[inline]
    pub(crate) fn since(&self, position: usize) -> &'a [u8] {
        debug_assert!(position <= self.at && self.at <= self.bytes.len());
        &self.bytes[position..self.at]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Moves on by this many bytes.
    pub(crate) fn skip(&mut self, bytes: usize) -> Result<(), Malformed> {
        match self.bytes.len() - self.at >= bytes {
            true => {
                self.at += bytes;
                Ok(())
            }
            false => Err("bytes are missing"),
        }
    }

    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        varint_at(self.bytes, &mut self.at).ok_or("a number is cut off or too long")
    }

    /// A varint that fits into 32 bits.
    pub(crate) fn varint_u32(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.varint()?).map_err(|_| "a number is too large")
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        let byte = *self.bytes.get(self.at).ok_or("a byte is missing")?;
        self.at += 1;
        Ok(byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let array = self.bytes[self.at..]
            .first_chunk::<N>()
            .ok_or("bytes are missing")?;
        self.at += N;
        Ok(*array)
    }

    /// A length and that many bytes.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.varint()?).map_err(|_| "a length is too large")?;
        let bytes = self.bytes[self.at..]
            .get(..length)
            .ok_or("bytes are missing")?;
        self.at += length;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_every_width() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                put_varint(&mut bytes, value);
                assert!(bytes.len() <= 10);
                let mut at = 0;
                assert_eq!(varint_at(&bytes, &mut at), Some(value));
                assert_eq!(at, bytes.len());
                for cut in 0..bytes.len() {
                    assert_eq!(varint_at(&bytes[..cut], &mut 0), None);
                }
            }
        }
        assert_eq!(varint_at(&[0xFF; 11], &mut 0), None);
        assert_eq!(
            varint_at(
                &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2],
                &mut 0
            ),
            None
        );
    }

    #[test]
    fn a_reader_refuses_what_is_not_there() {
        let mut reader = Reader::new(&[3, b'a', b'b']);
        assert!(reader.bytes().is_err());
        let mut reader = Reader::new(&[2, b'a', b'b', 7]);
        assert_eq!(reader.bytes(), Ok(&b"ab"[..]));
        assert!(reader.u16().is_err());
        assert_eq!(reader.u8(), Ok(7));
        assert!(reader.is_empty());
        assert!(reader.u8().is_err());
    }
}
