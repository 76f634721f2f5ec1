//! Counter changes that are met in any order.
//!
//! Neighbours: `collect` notes what it meets, task by task; `collection` adds everything up and applies it.
//!
//! **Invariants**
//! - The result is that of the changes in the order of the log: the last set, and the largest raise behind it.

use std::collections::BTreeMap;

use crate::commit::counters::Counters;
use crate::commit::record::CounterChange;
use crate::{Seq, TreeId};

/// Changes of one counter that follow each other: at most one set, and the largest raise behind it.
#[derive(Clone, Copy, Debug, Default)]
struct Change {
    set: Option<(Seq, u64)>,
    /// Largest raised value, and the sequence of the last raise.
    raise: Option<(Seq, u64)>,
}

impl Change {
    fn seq(&self) -> Seq {
        let seq = |change: Option<(Seq, u64)>| change.map_or(0, |(seq, _)| seq);
        seq(self.set).max(seq(self.raise))
    }

    fn add(&mut self, how: CounterChange, value: u64, seq: Seq) {
        match how {
            CounterChange::Set => {
                *self = Change {
                    set: Some((seq, value)),
                    raise: None,
                }
            }
            CounterChange::Raise => {
                let largest = self.raise.map_or(value, |(_, raised)| raised.max(value));
                self.raise = Some((seq, largest));
            }
        }
    }
}

/// Counter changes, by tree.
#[derive(Default)]
pub(super) struct CounterChanges {
    /// Of one task, by tree.
    open: BTreeMap<TreeId, Change>,
    closed: Vec<(TreeId, Change)>,
}

impl CounterChanges {
    /// Notes a change. Within a task, sequences ascend.
    pub(super) fn add(&mut self, how: CounterChange, tree: TreeId, value: u64, seq: Seq) {
        let change = self.open.entry(tree).or_default();
        debug_assert!(change.seq() <= seq);
        change.add(how, value, seq);
    }

    /// What follows belongs to another task: others may have changes between.
    pub(super) fn end_task(&mut self) {
        self.closed.extend(std::mem::take(&mut self.open));
    }

    /// Applies the changes of everybody.
    pub(super) fn apply(all: Vec<CounterChanges>, counters: &Counters) {
        let mut changes: Vec<(TreeId, Change)> = all
            .into_iter()
            .flat_map(|part| part.closed.into_iter().chain(part.open))
            .collect();
        // Tasks are ranges of the log, so the changes of two tasks do not overlap.
        changes.sort_unstable_by_key(|(tree, change)| (*tree, change.seq()));
        for (tree, change) in changes {
            if let Some((seq, value)) = change.set {
                counters.apply(CounterChange::Set, tree, value, seq);
            }
            if let Some((seq, value)) = change.raise {
                counters.apply(CounterChange::Raise, tree, value, seq);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn order_of_the_tasks_does_not_matter(
            tasks in prop::collection::vec(
                prop::collection::vec((any::<bool>(), 1..3u32, 0..20u64), 0..6), 0..8),
            readers in prop::collection::vec(0..3usize, 8),
        ) {
            let (expected, counters) = (Counters::default(), Counters::default());
            let mut parts: Vec<CounterChanges> = (0..3).map(|_| CounterChanges::default()).collect();
            let mut seq = 0;
            for (task, reader) in tasks.iter().zip(readers) {
                for (is_set, tree, value) in task {
                    seq += 8;
                    let how = if *is_set { CounterChange::Set } else { CounterChange::Raise };
                    expected.apply(how, TreeId(*tree), *value, seq);
                    parts[reader].add(how, TreeId(*tree), *value, seq);
                }
                parts[reader].end_task();
            }
            CounterChanges::apply(parts, &counters);
            prop_assert_eq!(counters.all(), expected.all());
        }
    }
}
