//! Where the log ends, and making sure that it really does.
//!
//! The rules are in `docs/formats/wal.md`, "The end of the log".
//!
//! **Invariants**
//! - Damage to bytes that some header proves to have been durable is an error, never a shorter log.
//! - On return everything up to the segment's end is durable, whatever the page cache showed.

use esker_vfs::{Fs, OpenMode};

use super::segment::Segment;
use crate::error::WalError;
use crate::format::PAGE_BYTES;
use crate::lsn::Lsn;

/// Settles the end of the last segment: cuts what is torn, writes again what may not be durable.
/// True if something was cut off.
pub(super) fn settle(segment: &mut Segment, fs: &dyn Fs, from: Lsn) -> Result<bool, WalError> {
    let proof = Proof::search(segment)?;
    let torn_payload = cut_at_bad_payload(segment, proof.durable)?;
    let end = segment.end();
    if end < proof.durable || end < from {
        let needed = proof.durable.max(from);
        let what = format!(
            "no valid block with LSN {end} here, but everything up to LSN {needed} was durable{}: \
             the records between would be lost",
            proof.witness.map_or(String::new(), |offset| format!(
                " (says the block at offset {offset})"
            )),
        );
        return Err(WalError::corruption(
            &segment.path,
            segment.end_offset(),
            what,
        ));
    }
    write_again(segment, fs, proof.durable)?;
    Ok(torn_payload || proof.blocks_behind)
}

/// What the headers of a segment say about what was durable.
struct Proof {
    /// Everything below was synced.
    durable: Lsn,
    /// Where it is said, if behind the end of the run.
    witness: Option<u64>,
    /// Whether there are valid headers behind the end of the run.
    blocks_behind: bool,
}

impl Proof {
    fn search(segment: &mut Segment) -> Result<Self, WalError> {
        let in_run = segment.blocks.iter().map(|block| block.header.durable);
        let durable = in_run.fold(segment.header.start, Lsn::max);
        let mut proof = Proof {
            durable,
            witness: None,
            blocks_behind: false,
        };
        let mut offset = segment.end_offset();
        while offset < segment.file_bytes() {
            if let Some(header) = segment.header_at(offset)? {
                proof.blocks_behind = true;
                if header.durable > proof.durable {
                    proof.durable = header.durable;
                    proof.witness = Some(offset);
                }
            }
            offset += PAGE_BYTES;
        }
        Ok(proof)
    }
}

/// Cuts the run before the first block that is not proven durable and has a bad payload.
fn cut_at_bad_payload(segment: &mut Segment, durable: Lsn) -> Result<bool, WalError> {
    for index in first_unproven(segment, durable)..segment.blocks.len() {
        if segment.payload(index)?.is_none() {
            segment.blocks.truncate(index);
            return Ok(true);
        }
    }
    Ok(false)
}

fn first_unproven(segment: &Segment, durable: Lsn) -> usize {
    segment
        .blocks
        .partition_point(|block| block.header.end() <= durable)
}

/// Writes the unproven blocks again and syncs. A sync alone would not do: after a failed one the
/// cache takes its bytes for clean.
fn write_again(segment: &mut Segment, fs: &dyn Fs, durable: Lsn) -> Result<(), WalError> {
    let unproven = first_unproven(segment, durable)..segment.blocks.len();
    if unproven.is_empty() {
        return Ok(());
    }
    let path = segment.path.clone();
    let file = fs
        .open(&path, OpenMode::ReadWrite)
        .map_err(|e| WalError::io("open", &path, e))?;
    for index in unproven {
        let offset = segment.blocks[index].offset;
        file.write_all_at(segment.raw(index)?, offset)
            .map_err(|e| WalError::io("write", &path, e))?;
    }
    file.sync_data().map_err(|e| WalError::io("sync", &path, e))
}
