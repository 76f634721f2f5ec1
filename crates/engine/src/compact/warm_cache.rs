//! Cache warming after a compaction: blocks that were replaced leave the block cache, and their successors enter it as
//! far as the old ones were in use.
//!
//! Neighbours: `run` calls it when its result is installed; `extent` and `cache` have the blocks.
//!
//! The weight of an old block is divided among the new blocks whose keys it spans. A new block is worth reading if at
//! least half of the weight that came to it was cached. So a cached block of a sparse run, which spans half of the
//! tree, warms nothing by itself.
//!
//! **Invariants**
//! - No more is read into the cache than was removed from it: what others have in use stays.
//! - Nothing here can fail a compaction: what cannot be read is not cached.

use std::sync::Arc;

use crate::Result;
use crate::extent::{CacheRange, Extent};

/// Takes the blocks of `old` (parts of runs, keys ascending in each) out of the cache and reads those of `new` that
/// replace them.
pub(super) fn refresh(old: &[Vec<Arc<Extent>>], new: &[Arc<Extent>]) {
    let mut ranges = Vec::new();
    for extent in old.iter().flatten() {
        extent.uncache(&mut ranges);
    }
    let cached = ranges.iter().filter(|range| range.is_cached);
    let room: u64 = cached.map(|range| range.bytes).sum();
    if room == 0 || new.is_empty() {
        return;
    }
    if let Err(error) = read(&ranges, new, room) {
        tracing::debug!(%error, "the cache is not refreshed");
    }
}

fn read(old: &[CacheRange], new: &[Arc<Extent>], mut room: u64) -> Result<()> {
    let mut blocks = Vec::new();
    for (number, extent) in new.iter().enumerate() {
        let ranges = extent.ranges()?.into_iter().enumerate();
        blocks.extend(ranges.map(|(block, range)| (number, block, range)));
    }
    let lasts: Vec<&[u8]> = blocks.iter().map(|(_, _, range)| &*range.last).collect();
    for index in choose(old, &lasts) {
        let (extent, block, range) = &blocks[index];
        let Some(left) = room.checked_sub(range.bytes) else {
            break;
        };
        room = left;
        new[*extent].cache_block(*block)?;
    }
    Ok(())
}

/// Which of the new blocks, by the last key of each, take the place of blocks that were cached.
fn choose(old: &[CacheRange], lasts: &[&[u8]]) -> Vec<usize> {
    // What came to each new block: from cached blocks, and from all.
    let mut weights = vec![(0.0, 0.0); lasts.len()];
    for range in old {
        // It begins behind the last key of the range before, and ends with its own last.
        let to = lasts.partition_point(|last| *last < &*range.last) + 1;
        let from = lasts.partition_point(|last| *last <= &*range.first);
        let spanned = &mut weights[from.min(to - 1)..to.min(lasts.len())];
        let share = range.bytes as f64 / spanned.len().max(1) as f64;
        for (cached, all) in spanned {
            *all += share;
            if range.is_cached {
                *cached += share;
            }
        }
    }
    let chosen = weights
        .iter()
        .map(|(cached, all)| *cached > 0.0 && cached * 2.0 >= *all);
    let chosen = chosen.enumerate().filter(|(_, chosen)| *chosen);
    chosen.map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: &str, last: &str, bytes: u64, is_cached: bool) -> CacheRange {
        CacheRange {
            first: first.as_bytes().into(),
            last: last.as_bytes().into(),
            bytes,
            is_cached,
        }
    }

    fn chosen(old: &[CacheRange], lasts: &[&str]) -> Vec<usize> {
        let lasts: Vec<&[u8]> = lasts.iter().map(|last| last.as_bytes()).collect();
        choose(old, &lasts)
    }

    #[test]
    fn what_replaces_a_cached_block_is_chosen() {
        let old = [
            range("a", "c", 100, false),
            range("d", "f", 100, true),
            range("g", "i", 100, false),
        ];
        assert_eq!(chosen(&old, &["c", "f", "i"]), [1]);
        // Shifted borders: the middle of two has half of it.
        assert_eq!(chosen(&old, &["b", "e", "h", "z"]), [1, 2]);
        assert_eq!(chosen(&[], &["c"]), [0; 0]);
        assert_eq!(chosen(&old, &[]), [0; 0]);
    }

    #[test]
    fn a_wide_block_of_a_sparse_layer_warms_nothing_by_itself() {
        let below: Vec<CacheRange> = ["a", "b", "c", "d"]
            .map(|key| range(key, key, 100, false))
            .into();
        let mut old = vec![range("a", "d", 100, true)];
        old.extend(below);
        assert_eq!(chosen(&old, &["a", "b", "c", "d"]), [0; 0]);
        // Together with what lies below it, it does.
        old[3].is_cached = true;
        assert_eq!(chosen(&old, &["a", "b", "c", "d"]), [2]);
    }
}
