//! What a file begins with: the format description and the GTIDs of earlier files.
//!
//! Neighbours: `files` writes both at the head of a file; every reader learns the checksum from here.
//! **Invariants**: the list of header lengths is MySQL 8.4's, so that readers accept events of all types they know.

use super::{CHECKSUM_BYTES, Checksum, EventType, FLAG_IN_USE, HEADER_BYTES, Stamp};
use crate::bytes::{Put, Reader};
use crate::{Result, damaged};

/// Version of the format.
const BINLOG_VERSION: u16 = 4;
/// Bytes of the server version, padded with zeros.
const VERSION_BYTES: usize = 50;
/// Bytes of the fixed part of each event type, from 1.
const POST_HEADER_BYTES: [u8; 42] = [
    0, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 99, 0, 4, 26, 8, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 10,
    10, 10, 42, 42, 0, 18, 52, 0, 10, 40, 0, 0,
];

/// The format description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatDescription {
    /// Version of the server that wrote the file.
    pub server_version: String,
    /// When the server started, seconds since the epoch; 0 in a file that follows another of the same run. Readers end
    /// transactions that the file before left open when they see one.
    pub created: u32,
    /// What stands behind every other body.
    pub checksum: Checksum,
}

/// Bytes of the body that say when the server has started.
pub(crate) const CREATED: std::ops::Range<usize> = 52..56;

impl FormatDescription {
    /// Appends the whole event, at offset 4 of its file.
    pub fn write(&self, stamp: Stamp, position: u64, out: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(VERSION_BYTES + POST_HEADER_BYTES.len() + 8);
        body.u16(BINLOG_VERSION);
        let mut version = [0; VERSION_BYTES];
        let text = self.server_version.as_bytes();
        let len = text.len().min(VERSION_BYTES - 1);
        version[..len].copy_from_slice(&text[..len]);
        body.bytes(&version);
        body.u32(self.created);
        body.u8(HEADER_BYTES as u8);
        body.bytes(&POST_HEADER_BYTES);
        body.u8(u8::from(self.checksum == Checksum::Crc32));
        let in_use = stamp.flags & FLAG_IN_USE != 0;
        let closed = Stamp {
            flags: stamp.flags & !FLAG_IN_USE,
            ..stamp
        };
        let start = out.len();
        let kind = EventType::FormatDescription;
        super::frame(kind, closed, position, &body, Checksum::Crc32, out);
        if in_use {
            out[start + HEADER_BYTES - 2] |= FLAG_IN_USE as u8;
        }
    }

    /// Reads the body.
    pub fn parse(body: &[u8]) -> Result<Self> {
        let mut r = Reader::new(body);
        if r.u16()? != BINLOG_VERSION {
            return Err(damaged("format description: unknown version"));
        }
        let version = r.take(VERSION_BYTES)?;
        let version = version.split(|b| *b == 0).next().unwrap_or_default();
        let created = r.u32()?;
        if usize::from(r.u8()?) != HEADER_BYTES {
            return Err(damaged("format description: header length"));
        }
        let lengths = r.rest();
        let checksum = match lengths.last() {
            Some(0) => Checksum::None,
            Some(1) => Checksum::Crc32,
            _ => return Err(damaged("format description: unknown checksum")),
        };
        Ok(Self {
            server_version: String::from_utf8_lossy(version).into_owned(),
            created,
            checksum,
        })
    }

    /// Bytes of the body before the lengths of headers.
    pub const FIXED_BYTES: usize = 2 + VERSION_BYTES + 4 + 1;

    /// Bytes of the whole event.
    pub const BYTES: usize =
        HEADER_BYTES + 2 + VERSION_BYTES + 4 + 1 + POST_HEADER_BYTES.len() + 1 + CHECKSUM_BYTES;
}
