//! The relay log: what a replica has received, in plain binary log files, until it is applied.
//!
//! In flow order: a receiver appends checked events to a [`RelayLog`] (`log`), `track` knows where the last whole
//! transaction ends, and a [`Reader`] (`reader`) follows the end for the applier. Neighbours: the receiver has the
//! socket; `apply` reads. Reasons: `docs/decisions/replica.md`.
//!
//! ```text
//! file  magic | own format description | ROTATE: the source's file and offset | the source's format description | …
//! ```
//! Events keep the source's header, end position included; only their checksum is always CRC-32.
//!
//! **Invariants**
//! - A file ends and the next begins between two transactions of the source.
//! - What is torn at a start is cut behind the last whole transaction; everything before stays.
//! - The relay log is never the truth about what was applied.

mod log;
mod reader;
#[cfg(test)]
mod tests;
mod track;

pub use log::{RelayConfig, RelayLog};
pub use reader::Reader;
pub use track::{Queued, Received};

use crate::event::control::Rotate;
use crate::event::{
    Checksum, EventType, FLAG_ARTIFICIAL, FLAG_IN_USE, Header, Stamp, event_bytes, frame,
    frame_number,
};

/// The last byte of a format description: what stands behind every body.
const CRC32_NAME: u8 = 1;

/// Appends an event of the source as it stands in a relay file: with CRC-32, and with the source's end position.
fn put_event(header: &Header, body: &[u8], out: &mut Vec<u8>) {
    let mut stamp = header.stamp;
    let renamed;
    let body = match header.event_type() {
        Some(EventType::FormatDescription) => {
            stamp.flags &= !FLAG_IN_USE;
            renamed = with_crc32(body);
            &renamed
        }
        _ => body,
    };
    let length = event_bytes(body.len(), Checksum::Crc32);
    // The position is chosen so that the end comes out as the source said it.
    let position = header.end.wrapping_sub(length as u32).into();
    frame_number(header.kind, stamp, position, body, Checksum::Crc32, out);
}

/// A format description that says that checksums follow.
fn with_crc32(body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    if let Some(name) = body.last_mut() {
        *name = CRC32_NAME;
    }
    body
}

/// Appends the ROTATE that says in which file of the source the events behind it were.
fn put_rotate(server_id: u32, file: &str, position: u64, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    let file = file.as_bytes();
    Rotate { position, file }.write(&mut body);
    let stamp = Stamp {
        timestamp: 0,
        server_id,
        flags: FLAG_ARTIFICIAL,
    };
    frame(EventType::Rotate, stamp, 0, &body, Checksum::Crc32, out);
}
