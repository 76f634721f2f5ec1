//! Multi-get: point lookups of many keys in one extent, with group prefetching.
//!
//! Neighbours: `reader` looks for one key; `scan::below` has many.
//!
//! A search for one key in a large tree waits for memory again and again: for the filter, the block, its restarts, the
//! entries behind one. Here every step is done for all keys before the next, and what the next will look at is asked
//! for meanwhile (group prefetching: Chen, Ailamaki, Gibbons, Mowry, "Improving Hash Join Performance through
//! Prefetching", ICDE 2004, section 4).

use std::sync::Arc;

use smallvec::SmallVec;

use super::block::Block;
use super::filter::KeyHash;
use super::iter::ReadMode;
use super::reader::Extent;
use crate::{LATEST, Op, Result};

/// Most keys of a group: enough to have all that the processor can ask for on its way, and so few that what has come is
/// still there when it is needed.
pub(crate) const MOST_KEYS: usize = 64;

/// A key that the filter let pass.
struct Wanted {
    key: usize,
    /// Its block in the list of blocks.
    block: usize,
    /// Where the walk to it begins.
    at: usize,
}

impl Extent {
    /// Says of every key, at its place in `is_row`, whether its newest version in this extent is there and a put. The
    /// keys ascend, and are [`MOST_KEYS`] at most.
    pub(crate) fn find_rows(&self, keys: &[&[u8]], is_row: &mut [bool]) -> Result<()> {
        debug_assert!(keys.len() <= MOST_KEYS && keys.is_sorted() && keys.len() == is_row.len());
        is_row.fill(false);
        let tail = self.tail(ReadMode::Cached)?;
        let hashes: SmallVec<[KeyHash; MOST_KEYS]> =
            keys.iter().map(|key| KeyHash::of(key)).collect();
        for hash in &hashes {
            tail.filter.prefetch(*hash);
        }
        let sight = self.meta().stored_sight(LATEST);
        let damaged = |number: usize, what| self.corruption(tail.place(number).offset, what);
        let mut blocks: SmallVec<[(usize, Arc<Block>); MOST_KEYS]> = SmallVec::new();
        let mut wanted: SmallVec<[Wanted; MOST_KEYS]> = SmallVec::new();
        for (key, hash) in hashes.iter().enumerate() {
            if !tail.filter.may_contain(*hash) {
                continue;
            }
            let number = tail.find(keys[key], sight);
            if number == tail.blocks() {
                continue;
            }
            if blocks.last().is_none_or(|(last, _)| *last != number) {
                blocks.push((number, self.block(&tail, number)?));
            }
            let (block, at) = (blocks.len() - 1, 0);
            wanted.push(Wanted { key, block, at });
        }
        // Not as they come: asking the cache makes the processor wait for all that it was asked before.
        for (_, block) in &blocks {
            block.prefetch_restarts();
        }
        for Wanted { key, block, at } in &mut wanted {
            let (number, block) = &blocks[*block];
            *at = block
                .start_for(keys[*key], sight)
                .map_err(|what| damaged(*number, what))?;
            block.prefetch_entries(*at);
        }
        for Wanted { key, block, at } in wanted {
            let (number, block) = &blocks[block];
            let found = block
                .get_from(at, keys[key], sight)
                .map_err(|what| damaged(*number, what))?;
            is_row[key] = found.is_some_and(|found| found.op == Op::Put);
        }
        Ok(())
    }
}
