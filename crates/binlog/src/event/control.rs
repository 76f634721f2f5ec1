//! Small events: where a file goes on, what a statement was, that nothing happens.
//!
//! Neighbours: `files` writes ROTATE and STOP; streams send heartbeats.
//! **Invariants**: none of them belongs to a transaction but ROWS_QUERY, which stands before the rows of its statement.

use crate::Result;
use crate::bytes::{Put, Reader};

/// The file that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotate<'a> {
    /// Where to read on in it.
    pub position: u64,
    /// Its name, without folder.
    pub file: &'a [u8],
}

impl<'a> Rotate<'a> {
    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.u64(self.position);
        out.bytes(self.file);
    }

    /// Reads the body.
    pub fn parse(body: &'a [u8]) -> Result<Self> {
        let mut r = Reader::new(body);
        Ok(Self {
            position: r.u64()?,
            file: r.rest(),
        })
    }
}

/// Appends the body of ROWS_QUERY: the statement whose rows follow. MySQL leaves the byte for its length at zero;
/// readers take the rest of the event.
pub fn write_rows_query(text: &[u8], out: &mut Vec<u8>) {
    out.u8(0);
    out.bytes(text);
}

/// Reads it.
pub fn parse_rows_query(body: &[u8]) -> Result<&[u8]> {
    let mut r = Reader::new(body);
    r.u8()?;
    Ok(r.rest())
}

/// Appends the body of HEARTBEAT: the file in which the source stands still.
pub fn write_heartbeat(file: &[u8], out: &mut Vec<u8>) {
    out.bytes(file);
}

/// Fields of HEARTBEAT_V2.
const FILE: u8 = 1;
const POSITION: u8 = 2;

/// Reads HEARTBEAT_V2: the file, and where the source stands in it.
pub fn parse_heartbeat_v2(body: &[u8]) -> Result<Rotate<'_>> {
    let mut r = Reader::new(body);
    let mut place = Rotate {
        position: 0,
        file: b"",
    };
    loop {
        match r.u8()? {
            0 => return Ok(place),
            FILE => place.file = r.packed_bytes()?,
            POSITION => place.position = Reader::new(r.packed_bytes()?).packed()?,
            _ => drop(r.packed_bytes()?),
        }
    }
}

/// Appends the body of HEARTBEAT_V2: fields of type, length and value, then a zero.
pub fn write_heartbeat_v2(file: &[u8], position: u64, out: &mut Vec<u8>) {
    out.u8(FILE);
    out.packed_bytes(file);
    let mut packed = Vec::new();
    packed.packed(position);
    out.u8(POSITION);
    out.packed_bytes(&packed);
    out.u8(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_of_the_second_kind_say_where_the_source_stands() {
        let mut body = Vec::new();
        write_heartbeat_v2(b"binlog.000003", 5 << 32, &mut body);
        let place = parse_heartbeat_v2(&body).expect("a place");
        assert_eq!(place.file, b"binlog.000003");
        assert_eq!(place.position, 5 << 32);
        for cut in 0..body.len() {
            assert!(parse_heartbeat_v2(&body[..cut]).is_err(), "{cut}");
        }
    }
}
