//! Output splitting: where a run is cut although its extent has room, at gaps above which much lies below.
//!
//! Neighbours: `flush` and `run` ask before every entry they write.
//!
//! An extent that reaches over a gap is merged with all that lies below the gap, although it has nothing there. A queue
//! makes such gaps all the time: what it flushes is deletes at one end of the table and rows at the other.
//!
//! **Invariants**
//! - Never cuts between versions of a key.
//! - Between two cuts lie [`Limits::gap_bytes`](super::Limits::gap_bytes) or more below: a run is cut into no more
//!   pieces than that is in what lies below it.

use crate::extent::HasMeta;
use crate::tree::Run;

/// A walk along the runs below what is written.
pub(crate) struct Gaps<E> {
    below: Vec<Below<E>>,
    limit: u64,
}

struct Below<E> {
    run: Run<E>,
    /// The first extent that does not end before the last key.
    at: usize,
}

impl<E: HasMeta> Gaps<E> {
    /// At least `limit` bytes below are a gap.
    pub(crate) fn new(below: impl Iterator<Item = Run<E>>, limit: u64) -> Self {
        Gaps {
            below: below.map(|run| Below { run, at: 0 }).collect(),
            limit,
        }
    }

    /// Whether there is a gap between the key of the last call and this one, which is not smaller.
    pub(crate) fn is_before(&mut self, key: &[u8]) -> bool {
        let bytes: u64 = self.below.iter_mut().map(|below| below.pass(key)).sum();
        bytes >= self.limit
    }
}

impl<E: HasMeta> Below<E> {
    /// Bytes of the extents that end before `key` and begin behind the last one.
    #[inline]
    fn pass(&mut self, key: &[u8]) -> u64 {
        let extents = self.run.extents();
        let mut bytes = 0;
        // The first may have begun before the last key.
        let mut is_inside = false;
        while let Some(extent) = extents.get(self.at)
            && *extent.meta().last.key < *key
        {
            if is_inside {
                bytes += u64::from(extent.meta().stored_bytes);
            }
            is_inside = true;
            self.at += 1;
        }
        debug_assert!(self.at <= extents.len());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::RunAddress;
    use crate::tree::levels::tests::{paper, shape};

    #[test]
    fn there_is_a_gap_where_whole_extents_lie_between_two_keys() {
        let levels = shape(&[
            (RunAddress::level(1), paper(1, "b", "c", 100)),
            (RunAddress::level(1), paper(2, "d", "e", 100)),
            (RunAddress::level(1), paper(3, "f", "g", 100)),
            (RunAddress::level(2), paper(4, "c", "d", 100)),
            (RunAddress::level(2), paper(5, "e", "f", 100)),
            (RunAddress::level(2), paper(6, "m", "n", 900)),
        ]);
        let runs = || levels.runs().cloned();
        let gaps = |limit, keys: &str| -> String {
            let mut gaps = Gaps::new(runs(), limit);
            let found = |key: &char| gaps.is_before(key.to_string().as_bytes());
            keys.chars().filter(found).collect()
        };
        // Of each run the first extent that is passed may hang over the key before.
        assert_eq!(gaps(300, "bh"), "h");
        assert_eq!(gaps(301, "bh"), "");
        assert_eq!(gaps(1, "bcdefgh"), "", "no whole extent between any two");
        assert_eq!(gaps(1, "bbbb"), "");
        assert_eq!(gaps(900, "hz"), "", "there may be more behind");
    }
}
