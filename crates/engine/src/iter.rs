//! The internal iterator of every tier (memtable, extent, sorted run), and the merging iterator over several.
//!
//! Neighbours: implemented by `memtable`, `extent` and `tree`; consumed by `txn` (cursors), `scan` and `compact`.
//!
//! **Invariants**
//! - Order: user key ascending by bytes; versions of one key from the newest to the oldest (sequence descending).
//!   `next` walks in this order, `prev` against it.
//! - [`MergingIter`] yields every (key, sequence) once: a version that recovery replayed into a memtable although
//!   an extent has it already is the same version, and the source named first wins.
//! - After an error the position is undefined; the caller seeks again or gives up.

use std::cmp::Ordering;

use crate::{Op, Result, Seq};

/// A cursor over versions in internal order, in both directions.
///
/// Created without a position: `valid()` is false until the first seek. `key`, `seq`, `op` and `value` may only be
/// called while `valid()`.
pub trait InternalIter: Send {
    /// Moves to the first entry whose user key is >= `key`.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// Moves to the first entry at or after (`key`, `seq`) in internal order: the newest version of `key` that is
    /// not newer than `seq`, or else the first entry of the following key.
    fn seek_version(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        self.seek(key)?;
        while self.valid() && self.key() == key && self.seq() > seq {
            self.next()?;
        }
        Ok(())
    }
    /// Moves to the first entry.
    fn seek_to_first(&mut self) -> Result<()>;
    /// Moves to the last entry whose user key is <= `key` (the oldest version of that key).
    fn seek_for_prev(&mut self, key: &[u8]) -> Result<()>;
    /// Moves to the last entry.
    fn seek_to_last(&mut self) -> Result<()>;
    /// Moves to the following entry.
    fn next(&mut self) -> Result<()>;
    /// Moves to the preceding entry.
    fn prev(&mut self) -> Result<()>;
    /// Whether the iterator stands on an entry.
    fn valid(&self) -> bool;
    /// The user key.
    fn key(&self) -> &[u8];
    /// The commit sequence of this version.
    fn seq(&self) -> Seq;
    /// Whether this version puts or deletes.
    fn op(&self) -> Op;
    /// The value; empty for a delete.
    fn value(&self) -> &[u8];
    /// Tells the tier that the delete the iterator stands on was of no use to who looks for rows: what costs readers
    /// much goes to where it can be dropped.
    fn step_over(&mut self) {}
}

/// Compares two versions in internal order.
#[inline]
pub fn compare_versions(a_key: &[u8], a_seq: Seq, b_key: &[u8], b_seq: Seq) -> Ordering {
    a_key.cmp(b_key).then_with(|| b_seq.cmp(&a_seq))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Forward,
    Backward,
}

/// Merges several internal iterators into one. Sources are named from the newest tier to the oldest.
///
/// Runs of entries from one source are long where the sources are few (some memtables, some runs). So the source the
/// merge stands on is kept out of the heap of the others: as long as it stays ahead a step costs one comparison, and
/// otherwise it changes places with the root, 2·log2(k) comparisons more at most. Whoever looks at one entry only, as
/// lookups do, never pays for the heap: it is made with the first step.
pub struct MergingIter {
    sources: Vec<Box<dyn InternalIter>>,
    /// The source the merge stands on.
    current: Option<usize>,
    /// The other sources that are not at their end. If `is_heap`, they are a binary heap with the next one at its root.
    others: Vec<usize>,
    is_heap: bool,
    direction: Direction,
}

impl MergingIter {
    /// Merges `sources`, newest tier first.
    pub fn new(sources: Vec<Box<dyn InternalIter>>) -> Self {
        MergingIter {
            others: Vec::with_capacity(sources.len()),
            sources,
            current: None,
            is_heap: true,
            direction: Direction::Forward,
        }
    }

    /// Whether source `a` comes before source `b` in the current direction. Both must be valid.
    /// On the same version the newer tier (the lower index) comes first, in both directions.
    #[inline]
    fn precedes(&self, a: usize, b: usize) -> bool {
        let (left, right) = (&self.sources[a], &self.sources[b]);
        let order = compare_versions(left.key(), left.seq(), right.key(), right.seq());
        let order = match self.direction {
            Direction::Forward => order,
            Direction::Backward => order.reverse(),
        };
        order.then(a.cmp(&b)) == Ordering::Less
    }

    /// Chooses the best source among all.
    fn choose(&mut self) {
        self.others.clear();
        let mut best: Option<usize> = None;
        for index in 0..self.sources.len() {
            if !self.sources[index].valid() {
                continue;
            }
            match best {
                Some(b) if !self.precedes(index, b) => self.others.push(index),
                _ => {
                    self.others.extend(best);
                    best = Some(index);
                }
            }
        }
        self.current = best;
        self.is_heap = self.others.len() < 2;
        debug_assert!(best.is_none_or(|best| !self.others.contains(&best)));
    }

    /// The source that comes next if `current` falls behind.
    #[inline]
    fn runner_up(&mut self) -> Option<usize> {
        if !self.is_heap {
            self.make_heap();
        }
        self.others.first().copied()
    }

    fn make_heap(&mut self) {
        for at in (0..self.others.len() / 2).rev() {
            self.sift_down(at);
        }
        self.is_heap = true;
        debug_assert!(
            (1..self.others.len())
                .all(|at| self.precedes(self.others[(at - 1) / 2], self.others[at])),
            "every source precedes those below it"
        );
    }

    /// Moves the source at a place of the heap down to where it belongs.
    fn sift_down(&mut self, at: usize) {
        debug_assert!(at < self.others.len(), "it is in the heap");
        let mut at = at;
        let moved = self.others[at];
        loop {
            let mut child = 2 * at + 1;
            if child >= self.others.len() {
                break;
            }
            let right = child + 1;
            if right < self.others.len() && self.precedes(self.others[right], self.others[child]) {
                child = right;
            }
            if self.precedes(moved, self.others[child]) {
                break;
            }
            self.others[at] = self.others[child];
            at = child;
        }
        self.others[at] = moved;
    }

    /// The root of the heap is another source, has moved on, or is at its end.
    fn settle_root(&mut self) {
        debug_assert!(self.is_heap && !self.others.is_empty(), "there is a root");
        if !self.sources[self.others[0]].valid() {
            self.others.swap_remove(0);
        }
        if self.others.len() > 1 {
            self.sift_down(0);
        }
    }

    fn seek_all(
        &mut self,
        direction: Direction,
        seek: impl Fn(&mut dyn InternalIter) -> Result<()>,
    ) -> Result<()> {
        self.current = None;
        self.direction = direction;
        for source in &mut self.sources {
            seek(source.as_mut())?;
        }
        self.choose();
        Ok(())
    }

    /// One step in the current direction.
    fn step(&mut self) -> Result<()> {
        let Some(current) = self.current else {
            return Ok(());
        };
        self.skip_duplicates(current)?;
        self.advance(current)?;
        let is_valid = self.sources[current].valid();
        match self.runner_up() {
            None => self.current = is_valid.then_some(current),
            Some(second) if is_valid && self.precedes(current, second) => {}
            Some(second) => {
                self.others[0] = current;
                self.current = Some(second);
                self.settle_root();
            }
        }
        Ok(())
    }

    #[inline]
    fn advance(&mut self, index: usize) -> Result<()> {
        match self.direction {
            Direction::Forward => self.sources[index].next(),
            Direction::Backward => self.sources[index].prev(),
        }
    }

    /// Steps every other source that stands on the very version of `current` past it.
    fn skip_duplicates(&mut self, current: usize) -> Result<()> {
        while let Some(second) = self.runner_up() {
            let same = {
                let (a, b) = (&self.sources[current], &self.sources[second]);
                a.seq() == b.seq() && a.key() == b.key()
            };
            if !same {
                break;
            }
            self.advance(second)?;
            self.settle_root();
        }
        Ok(())
    }

    /// Turns around: places every source on its first entry strictly beyond the current version in the new direction,
    /// except the current source, which stays.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let Some(current) = self.current else {
            return Ok(());
        };
        let key = self.sources[current].key().to_vec();
        let seq = self.sources[current].seq();
        self.direction = direction;
        for index in 0..self.sources.len() {
            if index == current {
                continue;
            }
            let source = self.sources[index].as_mut();
            source.seek_version(&key, seq)?;
            match direction {
                Direction::Forward => {
                    if source.valid() && source.seq() == seq && source.key() == key {
                        source.next()?;
                    }
                }
                Direction::Backward => {
                    // The entry at or after the version is the one behind which all the wanted ones lie.
                    if source.valid() {
                        source.prev()?
                    } else {
                        source.seek_to_last()?
                    }
                    // A memtable may have got an entry in between, between the two calls.
                    while source.valid()
                        && compare_versions(source.key(), source.seq(), &key, seq).is_ge()
                    {
                        source.prev()?;
                    }
                }
            }
        }
        self.choose();
        debug_assert_eq!(self.current, Some(current));
        Ok(())
    }
}

impl InternalIter for MergingIter {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.seek_all(Direction::Forward, |source| source.seek(key))
    }

    fn seek_version(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        self.seek_all(Direction::Forward, |source| source.seek_version(key, seq))
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.seek_all(Direction::Forward, |source| source.seek_to_first())
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        self.seek_all(Direction::Backward, |source| source.seek_for_prev(key))
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.seek_all(Direction::Backward, |source| source.seek_to_last())
    }

    fn next(&mut self) -> Result<()> {
        if self.direction == Direction::Backward {
            self.turn(Direction::Forward)?;
        }
        self.step()
    }

    fn prev(&mut self) -> Result<()> {
        if self.direction == Direction::Forward {
            self.turn(Direction::Backward)?;
        }
        self.step()
    }

    fn valid(&self) -> bool {
        self.current.is_some()
    }

    fn key(&self) -> &[u8] {
        self.at().key()
    }

    fn seq(&self) -> Seq {
        self.at().seq()
    }

    fn op(&self) -> Op {
        self.at().op()
    }

    fn value(&self) -> &[u8] {
        self.at().value()
    }

    fn step_over(&mut self) {
        if let Some(current) = self.current {
            self.sources[current].step_over();
        }
    }
}

impl MergingIter {
    #[inline]
    fn at(&self) -> &dyn InternalIter {
        let current = self.current.expect("the merge stands on an entry");
        self.sources[current].as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::memtable::Memtable;

    /// A move of the iterator.
    #[derive(Clone, Debug)]
    enum Move {
        Seek(u8),
        SeekVersion(u8, Seq),
        SeekForPrev(u8),
        First,
        Last,
        Next,
        Prev,
    }

    fn moves() -> impl Strategy<Value = Move> {
        prop_oneof![
            1 => any::<u8>().prop_map(|k| Move::Seek(k % 20)),
            1 => (any::<u8>(), 0..8u64).prop_map(|(k, s)| Move::SeekVersion(k % 20, s)),
            1 => any::<u8>().prop_map(|k| Move::SeekForPrev(k % 20)),
            1 => Just(Move::First),
            1 => Just(Move::Last),
            4 => Just(Move::Next),
            4 => Just(Move::Prev),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn merge_is_one_sorted_list_without_duplicates(
            sources in prop::collection::vec(prop::collection::vec((0..20u8, 1..8u64), 0..15), 0..12),
            walk in prop::collection::vec(moves(), 1..60),
        ) {
            let mut all = BTreeSet::new();
            let mut iters: Vec<Box<dyn InternalIter>> = Vec::new();
            for versions in &sources {
                let table = Arc::new(Memtable::new());
                for (key, seq) in versions {
                    table.insert(&[*key], *seq, Op::Put, &[]);
                    all.insert((*key, std::cmp::Reverse(*seq)));
                }
                iters.push(Box::new(table.iter()));
            }
            let all: Vec<(u8, Seq)> = all.into_iter().map(|(k, s)| (k, s.0)).collect();
            let mut merge = MergingIter::new(iters);
            let mut at: Option<usize> = None;
            for step in walk {
                match step {
                    Move::Seek(key) => {
                        merge.seek(&[key]).unwrap();
                        at = all.iter().position(|e| e.0 >= key);
                    }
                    Move::SeekVersion(key, seq) => {
                        merge.seek_version(&[key], seq).unwrap();
                        at = all.iter().position(|e| e.0 > key || (e.0 == key && e.1 <= seq));
                    }
                    Move::SeekForPrev(key) => {
                        merge.seek_for_prev(&[key]).unwrap();
                        at = all.iter().rposition(|e| e.0 <= key);
                    }
                    Move::First => {
                        merge.seek_to_first().unwrap();
                        at = (!all.is_empty()).then_some(0);
                    }
                    Move::Last => {
                        merge.seek_to_last().unwrap();
                        at = all.len().checked_sub(1);
                    }
                    Move::Next if at.is_some() => {
                        merge.next().unwrap();
                        at = at.map(|i| i + 1).filter(|i| *i < all.len());
                    }
                    Move::Prev if at.is_some() => {
                        merge.prev().unwrap();
                        at = at.and_then(|i| i.checked_sub(1));
                    }
                    Move::Next | Move::Prev => {}
                }
                let found = merge.valid().then(|| (merge.key()[0], merge.seq()));
                prop_assert_eq!(found, at.map(|i| all[i]));
            }
        }
    }

    /// A memtable into which somebody inserts at the worst moment: before the next `prev`.
    struct Meddled {
        table: Arc<Memtable>,
        iter: crate::memtable::MemIter,
        inserted_before_prev: Option<u8>,
    }

    impl InternalIter for Meddled {
        fn seek(&mut self, key: &[u8]) -> Result<()> {
            self.iter.seek(key)
        }
        fn seek_version(&mut self, key: &[u8], seq: Seq) -> Result<()> {
            self.iter.seek_version(key, seq)
        }
        fn seek_to_first(&mut self) -> Result<()> {
            self.iter.seek_to_first()
        }
        fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
            self.iter.seek_for_prev(key)
        }
        fn seek_to_last(&mut self) -> Result<()> {
            self.iter.seek_to_last()
        }
        fn next(&mut self) -> Result<()> {
            self.iter.next()
        }
        fn prev(&mut self) -> Result<()> {
            if let Some(key) = self.inserted_before_prev.take() {
                self.table.insert(&[key], 9, Op::Put, b"");
            }
            self.iter.prev()
        }
        fn valid(&self) -> bool {
            self.iter.valid()
        }
        fn key(&self) -> &[u8] {
            self.iter.key()
        }
        fn seq(&self) -> Seq {
            self.iter.seq()
        }
        fn op(&self) -> Op {
            self.iter.op()
        }
        fn value(&self) -> &[u8] {
            self.iter.value()
        }
    }

    #[test]
    fn an_insert_while_turning_around_does_not_lead_the_wrong_way() {
        let quiet = Arc::new(Memtable::new());
        quiet.insert(&[10], 1, Op::Put, b"");
        let table = Arc::new(Memtable::new());
        table.insert(&[5], 1, Op::Put, b"");
        table.insert(&[20], 1, Op::Put, b"");
        let meddled = Meddled {
            iter: table.iter(),
            table,
            inserted_before_prev: Some(15),
        };
        let mut merge = MergingIter::new(vec![Box::new(quiet.iter()), Box::new(meddled)]);
        merge.seek(&[10]).unwrap();
        assert_eq!(merge.key(), [10]);
        merge.prev().unwrap();
        assert_eq!(merge.key(), [5]);
        merge.prev().unwrap();
        assert!(!merge.valid());
    }

    #[test]
    fn the_newer_tier_wins_a_version_that_is_there_twice() {
        let newer = Arc::new(Memtable::new());
        let older = Arc::new(Memtable::new());
        newer.insert(b"k", 3, Op::Put, b"newer");
        older.insert(b"k", 3, Op::Put, b"older");
        older.insert(b"k", 2, Op::Put, b"first");
        let mut merge = MergingIter::new(vec![Box::new(newer.iter()), Box::new(older.iter())]);
        merge.seek_to_first().unwrap();
        assert_eq!((merge.seq(), merge.value()), (3, &b"newer"[..]));
        merge.next().unwrap();
        assert_eq!(merge.seq(), 2);
        merge.next().unwrap();
        assert!(!merge.valid());
    }
}
