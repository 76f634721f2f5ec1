//! The protocol's integers and strings.
//!
//! Neighbours: every other module reads with [`Reader`] and writes with the `put_*` functions.
//! **Invariant**: a [`Reader`] never reads past its slice; every shortage is
//! [`WireError::Truncated`] with the field's name.

use crate::WireError;

/// A cursor over one packet's payload.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of `payload`.
    pub fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Is everything read?
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], WireError> {
        let (head, tail) = self
            .rest
            .split_at_checked(n)
            .ok_or(WireError::Truncated(what))?;
        self.rest = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], WireError> {
        let (head, tail) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(WireError::Truncated(what))?;
        self.rest = tail;
        Ok(*head)
    }

    /// One byte.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, WireError> {
        Ok(self.array::<1>(what)?[0])
    }

    /// Little-endian 16 bits.
    pub fn u16(&mut self, what: &'static str) -> Result<u16, WireError> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    /// Little-endian 32 bits.
    pub fn u32(&mut self, what: &'static str) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    /// Little-endian 64 bits.
    pub fn u64(&mut self, what: &'static str) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Length-encoded integer.
    pub fn lenenc(&mut self, what: &'static str) -> Result<u64, WireError> {
        match self.u8(what)? {
            n @ 0..=0xfa => Ok(u64::from(n)),
            0xfc => Ok(u64::from(self.u16(what)?)),
            0xfd => {
                let b = self.array::<3>(what)?;
                Ok(u64::from(b[0]) | u64::from(b[1]) << 8 | u64::from(b[2]) << 16)
            }
            0xfe => self.u64(what),
            _ => Err(WireError::Bad(what)),
        }
    }

    /// Length-encoded string.
    pub fn lenenc_bytes(&mut self, what: &'static str) -> Result<&'a [u8], WireError> {
        let n = self.lenenc(what)?;
        self.take(usize::try_from(n).map_err(|_| WireError::Bad(what))?, what)
    }

    /// NUL-terminated string; the NUL is consumed.
    pub fn nul_bytes(&mut self, what: &'static str) -> Result<&'a [u8], WireError> {
        let end = self
            .rest
            .iter()
            .position(|&b| b == 0)
            .ok_or(WireError::Truncated(what))?;
        let head = self.take(end, what)?;
        self.take(1, what)?;
        Ok(head)
    }
}

/// Appends a length-encoded integer.
pub fn put_lenenc(out: &mut Vec<u8>, n: u64) {
    match n {
        0..=0xfa => out.push(n as u8),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&(n as u16).to_le_bytes());
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&n.to_le_bytes()[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&n.to_le_bytes());
        }
    }
}

/// Appends a length-encoded string.
pub fn put_lenenc_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_lenenc(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lenenc_round_trips(n: u64) {
            let mut out = Vec::new();
            put_lenenc(&mut out, n);
            let mut r = Reader::new(&out);
            prop_assert_eq!(r.lenenc("n").unwrap(), n);
            prop_assert!(r.is_empty());
        }
    }

    #[test]
    fn shortage_is_an_error() {
        assert_eq!(
            Reader::new(&[0xfc, 1]).lenenc("x"),
            Err(WireError::Truncated("x"))
        );
        assert_eq!(Reader::new(&[0xff]).lenenc("x"), Err(WireError::Bad("x")));
        assert_eq!(
            Reader::new(b"abc").nul_bytes("x"),
            Err(WireError::Truncated("x"))
        );
        assert_eq!(
            Reader::new(&[5, 1]).lenenc_bytes("x"),
            Err(WireError::Truncated("x"))
        );
    }
}
