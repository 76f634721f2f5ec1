//! Persistent counters, one per tree id: numbers that were given are never given again.
//!
//! Neighbours: `commit` changes them after the record is in the log; checkpoints store them in the manifest; `recovery`
//! repeats the changes of the log.
//!
//! **Invariants**
//! - A raise never lowers a counter; only a set does.
//! - A raise whose record precedes the last set in the log has no effect after it, in whatever order they are applied.

use std::collections::HashMap;

use parking_lot::RwLock;

use super::record::CounterChange;
use crate::{Seq, TreeId};

#[derive(Clone, Copy, Default)]
struct Counter {
    value: u64,
    /// Sequence of the last set.
    set_at: Seq,
}

/// The counters of all trees.
#[derive(Default)]
pub(crate) struct Counters {
    map: RwLock<HashMap<TreeId, Counter>>,
}

impl Counters {
    pub(crate) fn get(&self, tree: TreeId) -> u64 {
        self.map
            .read()
            .get(&tree)
            .map_or(0, |counter| counter.value)
    }

    /// Applies the change of the record with sequence `seq`.
    pub(crate) fn apply(&self, how: CounterChange, tree: TreeId, value: u64, seq: Seq) {
        let mut map = self.map.write();
        let counter = map.entry(tree).or_default();
        if seq < counter.set_at {
            return;
        }
        match how {
            CounterChange::Raise => counter.value = counter.value.max(value),
            CounterChange::Set => *counter = Counter { value, set_at: seq },
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
            .map(|(tree, counter)| (*tree, counter.value))
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
}
