//! Persistent counters, one per tree id: numbers that were given are never given again.
//!
//! Neighbours: `commit` changes them after the record is in the log; checkpoints store them in the manifest; `recovery`
//! repeats the changes of the log.
//!
//! A raise, which every commit does that has given numbers, takes no lock but to find the counter: the map is locked
//! for reading, and the value is an atomic. Only a set, and the first change of a counter, excludes others.
//!
//! **Invariants**
//! - A raise never lowers a counter; only a set does.
//! - A raise whose record precedes the last set in the log has no effect after it, in whatever order they are applied.
//! - Whoever sets a counter keeps others from raising it until the set is applied: a raise that follows in the log
//!   comes after it here, too.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::record::CounterChange;
use crate::{Seq, TreeId};

#[derive(Default)]
struct Counter {
    value: AtomicU64,
    /// Sequence of the last set. Changed only while nobody else has the map.
    set_at: Seq,
}

/// The counters of all trees.
#[derive(Default)]
pub(crate) struct Counters {
    map: RwLock<HashMap<TreeId, Counter>>,
}

impl Counters {
    pub(crate) fn get(&self, tree: TreeId) -> u64 {
        let map = self.map.read();
        map.get(&tree)
            .map_or(0, |counter| counter.value.load(Ordering::Relaxed))
    }

    /// Applies the change of the record with sequence `seq`.
    pub(crate) fn apply(&self, how: CounterChange, tree: TreeId, value: u64, seq: Seq) {
        if how == CounterChange::Raise
            && let Some(counter) = self.map.read().get(&tree)
        {
            // The map is locked, so no set comes between.
            if seq >= counter.set_at {
                counter.value.fetch_max(value, Ordering::Relaxed);
                debug_assert!(counter.value.load(Ordering::Relaxed) >= value);
            }
            return;
        }
        self.apply_alone(how, tree, value, seq);
    }

    #[cold]
    fn apply_alone(&self, how: CounterChange, tree: TreeId, value: u64, seq: Seq) {
        let mut map = self.map.write();
        let counter = map.entry(tree).or_default();
        if seq < counter.set_at {
            return;
        }
        let now = counter.value.get_mut();
        match how {
            CounterChange::Raise => *now = value.max(*now),
            CounterChange::Set => {
                *now = value;
                counter.set_at = seq;
            }
        }
    }

    pub(crate) fn remove(&self, tree: TreeId) {
        self.map.write().remove(&tree);
    }

    /// All counters, ascending by tree.
    pub(crate) fn all(&self) -> Vec<(TreeId, u64)> {
        let map = self.map.read();
        let mut all: Vec<_> = map
            .iter()
            .map(|(tree, counter)| (*tree, counter.value.load(Ordering::Relaxed)))
            .collect();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: TreeId = TreeId(7);

    #[test]
    fn raise_never_lowers_and_set_does() {
        let counters = Counters::default();
        counters.apply(CounterChange::Raise, TREE, 10, 1);
        counters.apply(CounterChange::Raise, TREE, 5, 2);
        assert_eq!(counters.get(TREE), 10);
        counters.apply(CounterChange::Set, TREE, 3, 4);
        assert_eq!(counters.get(TREE), 3);
        // A raise from before the set that is applied late.
        counters.apply(CounterChange::Raise, TREE, 9, 3);
        assert_eq!(counters.get(TREE), 3);
        counters.apply(CounterChange::Raise, TREE, 6, 5);
        assert_eq!(counters.all(), vec![(TREE, 6)]);
        counters.remove(TREE);
        assert_eq!(counters.get(TREE), 0);
    }

    /// Four threads raise the counter with the records from `first` to `last`, each to the value of its record.
    fn raise(counters: &Counters, first: Seq, last: Seq, value: fn(Seq) -> u64) {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for seq in (first + thread..last).step_by(4) {
                        counters.apply(CounterChange::Raise, TREE, value(seq), seq);
                    }
                });
            }
        });
    }

    #[test]
    fn raises_of_many_threads_and_a_set_between_agree_with_the_log() {
        const SET: Seq = 4000;
        let counters = Counters::default();
        std::thread::scope(|scope| {
            scope.spawn(|| raise(&counters, 0, SET, |seq| 5000 + seq));
            scope.spawn(|| counters.apply(CounterChange::Set, TREE, 7, SET));
        });
        assert_eq!(counters.get(TREE), 7);
        raise(&counters, SET + 1, 2 * SET, |seq| 100 + seq / 4);
        assert_eq!(counters.get(TREE), 100 + (2 * SET - 1) / 4);
    }
}
