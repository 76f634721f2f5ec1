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

/// Appends the body of HEARTBEAT_V2: fields of type, length and value, then a zero.
pub fn write_heartbeat_v2(file: &[u8], position: u64, out: &mut Vec<u8>) {
    const FILE: u8 = 1;
    const POSITION: u8 = 2;
    out.u8(FILE);
    out.packed_bytes(file);
    let mut packed = Vec::new();
    packed.packed(position);
    out.u8(POSITION);
    out.packed_bytes(&packed);
    out.u8(0);
}
