//! Version edits: what the manifest records, as data and as bytes.
//!
//! Neighbours: `manifest` frames and checks the bytes; `state` applies changes in replay; `mod` makes them.
//! The bytes are described in `docs/formats/manifest.md`.
//!
//! **Invariants**
//! - Decoding never panics, whatever the bytes; a payload is taken whole or not at all.

use super::ingest::IngestId;
use super::levels::RunAddress;
use crate::codec::{Malformed, Reader, put_varint};
use crate::extent::{ExtentId, ExtentMeta};
use crate::extent::{LEVELS, RunId};
use crate::{Seq, TreeId};

/// One change of the recorded state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    CreateTree {
        tree: TreeId,
        flushed_seq: Seq,
    },
    DropTree {
        tree: TreeId,
    },
    AddExtent {
        tree: TreeId,
        place: RunAddress,
        meta: ExtentMeta,
    },
    RemoveExtent {
        tree: TreeId,
        extent: ExtentId,
    },
    FlushedSeq {
        tree: TreeId,
        seq: Seq,
    },
    Counter {
        tree: TreeId,
        value: u64,
    },
    NextTree {
        tree: TreeId,
    },
    Log {
        from: u64,
        counters_as_of: Seq,
    },
    /// An extent of a transaction that is about to commit, for this tree.
    Stage {
        ingest: IngestId,
        tree: TreeId,
        meta: ExtentMeta,
    },
    /// Nothing is staged under this number any more.
    Unstage {
        ingest: IngestId,
    },
    /// The file of the manifest is at least this long.
    Length {
        bytes: u64,
    },
}

const CREATE_TREE: u8 = 1;
const DROP_TREE: u8 = 2;
const ADD_EXTENT: u8 = 3;
const REMOVE_EXTENT: u8 = 4;
const FLUSHED_SEQ: u8 = 5;
const COUNTER: u8 = 6;
const NEXT_TREE: u8 = 7;
const LOG: u8 = 8;
const STAGE: u8 = 9;
const UNSTAGE: u8 = 10;
const LENGTH: u8 = 11;

/// Where an extent hangs is the lower half of a byte, for which level it was compressed the upper half; the highest bit
/// says that it was ingested.
const LEVEL_MASK: u8 = 0x0F;
const PACKED_MASK: u8 = 0x07;
const PACKED_SHIFT: u32 = 4;
const INGESTED: u8 = 0x80;

impl Change {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut begin = |code: u8, tree: TreeId| {
            out.push(code);
            put_varint(out, u64::from(tree.0));
        };
        match self {
            Change::CreateTree { tree, flushed_seq } => {
                begin(CREATE_TREE, *tree);
                put_varint(out, *flushed_seq);
            }
            Change::DropTree { tree } => begin(DROP_TREE, *tree),
            Change::AddExtent { tree, place, meta } => {
                begin(ADD_EXTENT, *tree);
                debug_assert!(place.level <= LEVEL_MASK && meta.packed_for <= PACKED_MASK);
                let ingested = if meta.is_ingested { INGESTED } else { 0 };
                out.push(place.level | meta.packed_for << PACKED_SHIFT | ingested);
                put_varint(out, place.run.0);
                meta.encode(out);
            }
            Change::RemoveExtent { tree, extent } => {
                begin(REMOVE_EXTENT, *tree);
                put_varint(out, u64::from(extent.0));
            }
            Change::FlushedSeq { tree, seq } => {
                begin(FLUSHED_SEQ, *tree);
                put_varint(out, *seq);
            }
            Change::Counter { tree, value } => {
                begin(COUNTER, *tree);
                put_varint(out, *value);
            }
            Change::NextTree { tree } => begin(NEXT_TREE, *tree),
            Change::Log {
                from,
                counters_as_of,
            } => {
                out.push(LOG);
                put_varint(out, *from);
                put_varint(out, *counters_as_of);
            }
            Change::Stage { ingest, tree, meta } => {
                debug_assert!(!meta.is_ingested, "it waits for the sequence of its commit");
                begin(STAGE, *tree);
                put_varint(out, u64::from(ingest.0));
                out.push(meta.packed_for);
                meta.encode(out);
            }
            Change::Unstage { ingest } => {
                out.push(UNSTAGE);
                put_varint(out, u64::from(ingest.0));
            }
            Change::Length { bytes } => {
                out.push(LENGTH);
                put_varint(out, *bytes);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let code = reader.u8()?;
        if code == LOG {
            return Ok(Change::Log {
                from: reader.varint()?,
                counters_as_of: reader.varint()?,
            });
        }
        if code == UNSTAGE {
            let ingest = IngestId(reader.varint_u32()?);
            return Ok(Change::Unstage { ingest });
        }
        if code == LENGTH {
            let bytes = reader.varint()?;
            return Ok(Change::Length { bytes });
        }
        let tree = TreeId(reader.varint_u32()?);
        Ok(match code {
            CREATE_TREE => Change::CreateTree {
                tree,
                flushed_seq: reader.varint()?,
            },
            DROP_TREE => Change::DropTree { tree },
            ADD_EXTENT => {
                let byte = reader.u8()?;
                let (level, packed_for) = (byte & LEVEL_MASK, byte >> PACKED_SHIFT & PACKED_MASK);
                let run = RunId(reader.varint()?);
                let are_levels = usize::from(level.max(packed_for)) < LEVELS;
                if !are_levels || (level > 0 && run != RunId(0)) {
                    return Err("there is no such level or run");
                }
                let meta = ExtentMeta::decode(reader, packed_for, byte & INGESTED != 0)?;
                Change::AddExtent {
                    tree,
                    place: RunAddress { level, run },
                    meta,
                }
            }
            REMOVE_EXTENT => Change::RemoveExtent {
                tree,
                extent: ExtentId(reader.varint_u32()?),
            },
            FLUSHED_SEQ => Change::FlushedSeq {
                tree,
                seq: reader.varint()?,
            },
            COUNTER => Change::Counter {
                tree,
                value: reader.varint()?,
            },
            NEXT_TREE => Change::NextTree { tree },
            STAGE => {
                let ingest = IngestId(reader.varint_u32()?);
                let packed_for = reader.u8()?;
                if usize::from(packed_for) >= LEVELS {
                    return Err("there is no such level");
                }
                let meta = ExtentMeta::decode(reader, packed_for, false)?;
                Change::Stage { ingest, tree, meta }
            }
            _ => return Err("unknown kind of change"),
        })
    }

    /// All changes of a payload.
    pub(crate) fn decode_all(payload: &[u8]) -> Result<Vec<Change>, Malformed> {
        let mut reader = Reader::new(payload);
        let mut changes = Vec::new();
        while !reader.is_empty() {
            changes.push(Change::decode(&mut reader)?);
        }
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::levels::tests::paper;

    #[test]
    fn changes_round_trip_and_cut_payloads_are_refused() {
        let tree = TreeId(300);
        let changes = vec![
            Change::CreateTree {
                tree,
                flushed_seq: 1 << 50,
            },
            Change::AddExtent {
                tree,
                place: RunAddress::l0(RunId(1 << 20)),
                meta: ExtentMeta {
                    packed_for: 2,
                    ..paper(7, "a", "b", 10_000)
                },
            },
            Change::RemoveExtent {
                tree,
                extent: ExtentId(7),
            },
            Change::FlushedSeq { tree, seq: 5 },
            Change::Counter {
                tree: TreeId(1),
                value: u64::MAX,
            },
            Change::NextTree { tree: TreeId(301) },
            Change::Log {
                from: 1 << 33,
                counters_as_of: 1 << 34,
            },
            Change::DropTree { tree },
            Change::Stage {
                ingest: IngestId(70_000),
                tree,
                meta: paper(9, "a", "b", 10_000),
            },
            Change::AddExtent {
                tree,
                place: RunAddress::l0(RunId(2)),
                meta: paper(9, "a", "b", 10_000).ingested(1 << 40),
            },
            Change::Unstage {
                ingest: IngestId(70_000),
            },
            Change::Length { bytes: 1 << 20 },
        ];
        let mut bytes = Vec::new();
        let mut ends = vec![0];
        for change in &changes {
            change.encode(&mut bytes);
            ends.push(bytes.len());
        }
        assert_eq!(Change::decode_all(&bytes).unwrap(), changes);
        for cut in 0..bytes.len() {
            let decoded = Change::decode_all(&bytes[..cut]);
            assert_eq!(decoded.is_ok(), ends.contains(&cut), "cut at {cut}");
        }
    }
}
