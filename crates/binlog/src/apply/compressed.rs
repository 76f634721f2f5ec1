//! MariaDB's compressed events (`log_bin_compress`): statements and rows as they were before.
//!
//! ```text
//! compressed: 80 | algorithm (0: zlib) << 4 | bytes of the length u8, length (big-endian), zlib stream
//! ```
//! Neighbours: `assemble` passes on what comes out. **Invariants**: the length that is said is checked before that much
//! memory is taken.

use std::io::Read;

use flate2::read::ZlibDecoder;

use crate::bytes::{Put, Reader};
use crate::{Result, damaged};

use super::RowKind;
use super::mariadb::ROWS_COMPRESSED;

/// Bytes of a statement's body before its settings.
const QUERY_FIXED_BYTES: usize = 13;
/// The largest event that comes out.
const MAX_BYTES: u64 = 1 << 30;
/// Table id and flags, in front of rows of version 1.
const ROWS_HEADER_BYTES: usize = 8;

/// Appends what the rest of `r` was before.
fn inflate(r: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<()> {
    let bad = || damaged("compressed event");
    let head = r.u8()?;
    if head & 0xf0 != 0x80 {
        return Err(damaged("compressed event: unknown algorithm"));
    }
    let length_bytes = usize::from(head & 7);
    if length_bytes == 0 || length_bytes > 4 {
        return Err(bad());
    }
    let length = r.uint_be(length_bytes)?;
    if length > MAX_BYTES {
        return Err(damaged("compressed event: too long"));
    }
    let before = out.len();
    out.reserve(length as usize);
    let stream = ZlibDecoder::new(r.rest());
    // One byte more would show that the length is wrong.
    stream
        .take(length + 1)
        .read_to_end(out)
        .map_err(|_| bad())?;
    match (out.len() - before) as u64 == length {
        true => Ok(()),
        false => Err(damaged("compressed event: length")),
    }
}

/// The body of a statement.
pub(super) fn query(body: &[u8]) -> Result<Vec<u8>> {
    let mut r = Reader::new(body);
    let fixed = r.take(QUERY_FIXED_BYTES)?;
    let schema = usize::from(fixed[8]);
    let settings = usize::from(u16::from_le_bytes([fixed[11], fixed[12]]));
    let mut out = fixed.to_vec();
    out.bytes(r.take(settings + schema + 1)?);
    inflate(&mut r, &mut out)?;
    Ok(out)
}

/// What a compressed row event is, and its body.
pub(super) fn rows(kind: u8, body: &[u8]) -> Result<(RowKind, bool, Vec<u8>)> {
    debug_assert!(ROWS_COMPRESSED.contains(&kind));
    let nth = kind - ROWS_COMPRESSED.start();
    let (change, is_v1) = (
        [RowKind::Write, RowKind::Update, RowKind::Delete][usize::from(nth % 3)],
        nth < 3,
    );
    let mut r = Reader::new(body);
    let mut out = r.take(ROWS_HEADER_BYTES)?.to_vec();
    if !is_v1 {
        let extra = r.u16()?;
        out.u16(extra);
        let more = usize::from(extra).checked_sub(2);
        out.bytes(r.take(more.ok_or_else(|| damaged("row event: extra data"))?)?);
    }
    let columns = r.packed_len()?;
    out.packed(columns as u64);
    let sets = if change == RowKind::Update { 2 } else { 1 };
    out.bytes(r.take(sets * columns.div_ceil(8))?);
    inflate(&mut r, &mut out)?;
    Ok((change, is_v1, out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn deflated(bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![0x82];
        out.uint_be(bytes.len() as u64, 2);
        let mut stream = flate2::write::ZlibEncoder::new(out, flate2::Compression::default());
        stream.write_all(bytes).expect("memory");
        stream.finish().expect("memory")
    }

    #[test]
    fn statements_and_rows_come_out_as_they_were() {
        let mut head = vec![0; QUERY_FIXED_BYTES];
        head[8] = 2;
        head[11] = 3;
        head.bytes(b"abcdb\0");
        let text = deflated(b"SELECT 1");
        let whole = query(&[&head[..], &text].concat()).expect("event");
        assert_eq!(whole, [&head[..], b"SELECT 1"].concat());
        let head = [1, 0, 0, 0, 0, 0, 1, 0, 9, 0xff, 1, 0xff, 1];
        let body = [&head[..], &deflated(b"rows")].concat();
        let (kind, is_v1, whole) = rows(167, &body).expect("event");
        assert_eq!((kind, is_v1), (RowKind::Update, true));
        assert_eq!(whole, [&head[..], b"rows"].concat());
        let (_, is_v1, _) =
            rows(169, &[&head[..8], &[2, 0, 0], &deflated(b"")].concat()).expect("event");
        assert!(!is_v1);
    }

    #[test]
    fn damage_is_an_error() {
        let good = deflated(b"SELECT 1");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x41;
            let mut out = Vec::new();
            let read = inflate(&mut Reader::new(&bad), &mut out);
            assert!(read.is_err() || out == b"SELECT 1", "{at}");
            assert!(inflate(&mut Reader::new(&good[..at]), &mut out).is_err());
        }
    }
}
