//! TRANSACTION_PAYLOAD: all events of a transaction but its GTID, compressed (`binlog_transaction_compression`).
//!
//! ```text
//! fields: type | length | bytes (1: size of the payload, 2: compression, 3: size without compression) | 0 | payload
//! ```
//! Neighbours: `derive` and readers of files. **Invariants**: the events inside have no checksum, and no positions; the
//! size that is said is checked before that much memory is taken.

use crate::bytes::{Put, Reader};
use crate::{Result, damaged};

const END: u64 = 0;
const SIZE: u64 = 1;
const COMPRESSION: u64 = 2;
const UNCOMPRESSED_SIZE: u64 = 3;
/// Number of zstd among the compressions; the other is none.
const ZSTD: u64 = 0;
const NOT_COMPRESSED: u64 = 255;
/// The largest payload that is read.
const MAX_UNCOMPRESSED: u64 = 1 << 30;

/// Appends the body for the events in `events`; false, with nothing appended, if compression does not make it shorter.
pub fn write(events: &[u8], level: i32, out: &mut Vec<u8>) -> Result<bool> {
    let packed = zstd::bulk::compress(events, level)?;
    if packed.len() >= events.len() {
        return Ok(false);
    }
    let mut field = |kind: u64, value: u64| {
        let mut bytes = Vec::with_capacity(9);
        bytes.packed(value);
        out.packed(kind);
        out.packed_bytes(&bytes);
    };
    field(COMPRESSION, ZSTD);
    field(UNCOMPRESSED_SIZE, events.len() as u64);
    field(SIZE, packed.len() as u64);
    out.packed(END);
    out.bytes(&packed);
    Ok(true)
}

/// What stands before the payload.
struct Fields {
    size: Option<usize>,
    compression: u64,
    uncompressed: Option<u64>,
}

impl Fields {
    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let mut fields = Self {
            size: None,
            compression: NOT_COMPRESSED,
            uncompressed: None,
        };
        loop {
            let kind = r.packed()?;
            if kind == END {
                return Ok(fields);
            }
            let mut value = Reader::new(r.packed_bytes()?);
            match kind {
                SIZE => fields.size = Some(value.packed_len()?),
                COMPRESSION => fields.compression = value.packed()?,
                UNCOMPRESSED_SIZE => fields.uncompressed = Some(value.packed()?),
                _ => {}
            }
        }
    }
}

/// How many bytes a body says that its events have without compression; `None`: they are not compressed.
///
/// # Errors
/// It is damaged.
pub fn plain_bytes(body: &[u8]) -> Result<Option<u64>> {
    let fields = Fields::read(&mut Reader::new(body))?;
    let is_compressed = fields.compression == ZSTD;
    Ok(fields.uncompressed.filter(|_| is_compressed))
}

/// The events inside a body.
pub fn parse(body: &[u8]) -> Result<Vec<u8>> {
    let mut r = Reader::new(body);
    let Fields {
        size,
        compression,
        uncompressed,
    } = Fields::read(&mut r)?;
    let payload = match size {
        Some(size) => r.take(size)?,
        None => r.rest(),
    };
    match (compression, uncompressed) {
        (NOT_COMPRESSED, _) => Ok(payload.to_vec()),
        (ZSTD, Some(bytes)) if bytes <= MAX_UNCOMPRESSED => {
            let events = zstd::bulk::decompress(payload, bytes as usize)
                .map_err(|e| damaged(format!("transaction payload: {e}")))?;
            match events.len() as u64 == bytes {
                true => Ok(events),
                false => Err(damaged("transaction payload: length")),
            }
        }
        _ => Err(damaged("transaction payload: compression")),
    }
}
