//! Which byte ranges of a file have disk space behind them.
//!
//! **Invariants**
//! - Ranges are disjoint, not empty, not adjacent, and sector-aligned.

use std::collections::BTreeMap;

use super::SECTOR_BYTES;

/// A set of byte ranges, rounded outwards to whole sectors.
#[derive(Debug, Clone, Default)]
pub(super) struct Space {
    /// start -> end
    ranges: BTreeMap<u64, u64>,
}

/// Rounds a range outwards to sectors.
fn aligned(start: u64, end: u64) -> (u64, u64) {
    let sector = SECTOR_BYTES as u64;
    (start / sector * sector, end.div_ceil(sector) * sector)
}

impl Space {
    /// Bytes of `[start, end)`, rounded outwards, that are not in the set yet.
    pub(super) fn missing(&self, start: u64, end: u64) -> u64 {
        let (start, end) = aligned(start, end);
        if start >= end {
            return 0;
        }
        let mut held = 0;
        for (&from, &to) in self.ranges.range(..end).rev() {
            if to <= start {
                break;
            }
            held += to.min(end) - from.max(start);
        }
        end - start - held
    }

    /// Adds a range, rounded outwards.
    pub(super) fn add(&mut self, start: u64, end: u64) {
        let (mut start, mut end) = aligned(start, end);
        if start >= end {
            return;
        }
        while let Some((&from, &to)) = self.ranges.range(..=end).next_back() {
            if to < start {
                break;
            }
            start = start.min(from);
            end = end.max(to);
            self.ranges.remove(&from);
        }
        self.ranges.insert(start, end);
    }

    /// Gives back everything that lies wholly at or after `len`; returns how many bytes.
    pub(super) fn truncate(&mut self, len: u64) -> u64 {
        let (_, len) = aligned(0, len);
        let before = self.total();
        self.ranges.split_off(&len);
        if let Some(mut last) = self.ranges.last_entry()
            && *last.get() > len
        {
            last.insert(len);
        }
        before - self.total()
    }

    /// Gives back a range of whole sectors; returns how many bytes of it were in the set.
    pub(super) fn remove(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let before = self.total();
        let meets: Vec<(u64, u64)> = self.ranges.range(..end).map(|(&s, &e)| (s, e)).collect();
        for (from, to) in meets.into_iter().filter(|&(_, to)| to > start) {
            self.ranges.remove(&from);
            if from < start {
                self.ranges.insert(from, start);
            }
            if to > end {
                self.ranges.insert(end, to);
            }
        }
        before - self.total()
    }

    /// Bytes in the set.
    pub(super) fn total(&self) -> u64 {
        self.ranges.iter().map(|(from, to)| to - from).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimRng;

    /// Against a plain bitmap.
    #[test]
    fn agrees_with_a_bitmap() {
        let mut rng = SimRng::new(7);
        for _ in 0..200 {
            let mut space = Space::default();
            let mut bitmap = [false; 40];
            for _ in 0..30 {
                let from = rng.below(40) as usize;
                let to = from + rng.below(41 - from as u64) as usize;
                let bytes = |sector: usize| (sector * SECTOR_BYTES) as u64;
                if rng.chance(15) {
                    let freed = bitmap[from..to].iter().filter(|b| **b).count();
                    bitmap[from..to].fill(false);
                    assert_eq!(space.remove(bytes(from), bytes(to)), bytes(freed));
                } else if rng.chance(15) {
                    let freed = bitmap[from..].iter().filter(|b| **b).count();
                    bitmap[from..].fill(false);
                    assert_eq!(space.truncate(bytes(from)), bytes(freed));
                } else {
                    let missing = bitmap[from..to].iter().filter(|b| !**b).count();
                    assert_eq!(space.missing(bytes(from), bytes(to)), bytes(missing));
                    bitmap[from..to].fill(true);
                    space.add(bytes(from), bytes(to));
                }
                assert_eq!(space.total(), bytes(bitmap.iter().filter(|b| **b).count()));
            }
        }
    }
}
