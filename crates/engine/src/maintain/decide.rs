//! Which background job is due: a pure function of a picture of the engine.
//!
//! Neighbours: `maintain` takes the picture and does the job.
//!
//! **Invariants**
//! - Deciding changes nothing; the same picture gives the same job.
//! - Every job makes progress towards a picture in which nothing is due, so the loop of jobs ends.

use crate::TreeId;

/// A tree in the picture.
#[derive(Clone, Debug)]
pub(super) struct TreeLoad {
    pub(super) id: TreeId,
    /// Bytes and start of the log of the active memtable; `u64::MAX` if it is empty.
    pub(super) active_bytes: usize,
    pub(super) active_first_lsn: u64,
    /// The same of the immutable ones together.
    pub(super) immutable_bytes: usize,
    pub(super) immutable_first_lsn: u64,
}

/// The picture.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) trees: Vec<TreeLoad>,
    /// Where the log is needed from for prepared transactions.
    pub(super) prepared_first_lsn: u64,
    /// The watermark, looked at before everything else here.
    pub(super) visible: u64,
    /// The log begins here after the last checkpoint.
    pub(super) log_from: u64,
    pub(super) limits: Limits,
}

/// When something is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Memtables together should stay below this.
    pub(super) memory_bytes: usize,
    /// The log needed for recovery should stay below this.
    pub(super) log_bytes: u64,
    /// A checkpoint is worth it when it lets go of this much log.
    pub(super) checkpoint_bytes: u64,
}

/// A job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// Write the oldest immutable memtable of the tree to extents.
    Flush(TreeId),
    /// Switch the memtable of the tree.
    Switch(TreeId),
    /// Store the counters and the start of the log, and let go of the log before it.
    Checkpoint { log_from: u64 },
}

impl Load {
    /// The log is needed from here on.
    pub(super) fn needed_from(&self) -> u64 {
        let trees = self.trees.iter();
        trees
            .map(|tree| tree.active_first_lsn.min(tree.immutable_first_lsn))
            .fold(self.visible.min(self.prepared_first_lsn), u64::min)
    }

    /// Bytes in memtables.
    pub(super) fn memory_bytes(&self) -> usize {
        self.trees
            .iter()
            .map(|tree| tree.active_bytes + tree.immutable_bytes)
            .sum()
    }

    /// The most urgent job: first what frees memory, then what keeps the log short.
    pub(super) fn decide(&self) -> Option<Job> {
        let immutable = self.trees.iter().filter(|tree| tree.immutable_bytes > 0);
        if let Some(tree) = immutable.max_by_key(|tree| tree.immutable_bytes) {
            return Some(Job::Flush(tree.id));
        }
        let active = || {
            self.trees
                .iter()
                .filter(|tree| tree.active_first_lsn != u64::MAX)
        };
        if self.memory_bytes() > self.limits.memory_bytes
            && let Some(tree) = active().max_by_key(|tree| tree.active_bytes)
        {
            return Some(Job::Switch(tree.id));
        }
        let needed_from = self.needed_from();
        if needed_from.saturating_sub(self.log_from) >= self.limits.checkpoint_bytes {
            return Some(Job::Checkpoint {
                log_from: needed_from,
            });
        }
        if self.visible.saturating_sub(needed_from) > self.limits.log_bytes {
            let oldest = active().min_by_key(|tree| tree.active_first_lsn);
            // Only a tree that holds the log back: a prepared transaction may do so, too, and flushing does not help.
            return oldest
                .filter(|tree| tree.active_first_lsn == needed_from)
                .map(|tree| Job::Switch(tree.id));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        memory_bytes: 1000,
        log_bytes: 5000,
        checkpoint_bytes: 100,
    };

    fn idle() -> Load {
        Load {
            trees: Vec::new(),
            prepared_first_lsn: u64::MAX,
            visible: 10_000,
            log_from: 9_990,
            limits: LIMITS,
        }
    }

    fn tree(id: u32, active: usize, active_lsn: u64, immutable: usize) -> TreeLoad {
        TreeLoad {
            id: TreeId(id),
            active_bytes: active,
            active_first_lsn: active_lsn,
            immutable_bytes: immutable,
            immutable_first_lsn: if immutable > 0 {
                active_lsn - 1
            } else {
                u64::MAX
            },
        }
    }

    #[test]
    fn nothing_is_due_in_an_idle_engine() {
        assert_eq!(idle().decide(), None);
    }

    #[test]
    fn full_memtables_go_first_the_largest_before_the_others() {
        let mut load = idle();
        load.trees = vec![
            tree(1, 5000, 9_995, 10),
            tree(2, 10, 9_996, 500),
            tree(3, 0, u64::MAX, 0),
        ];
        assert_eq!(load.decide(), Some(Job::Flush(TreeId(2))));
    }

    #[test]
    fn memory_over_the_limit_switches_the_largest() {
        let mut load = idle();
        load.trees = vec![tree(1, 400, 9_995, 0), tree(2, 500, 9_996, 0)];
        assert_eq!(load.decide(), None);
        load.trees.push(tree(3, 450, 9_997, 0));
        assert_eq!(load.decide(), Some(Job::Switch(TreeId(2))));
    }

    #[test]
    fn long_log_switches_the_tree_that_holds_it() {
        let mut load = idle();
        load.log_from = 4_000;
        load.trees = vec![tree(1, 10, 4_050, 0), tree(2, 500, 9_000, 0)];
        assert_eq!(load.decide(), Some(Job::Switch(TreeId(1))));
        // Once it is flushed, the log before the other one can go.
        load.trees.remove(0);
        assert_eq!(load.decide(), Some(Job::Checkpoint { log_from: 9_000 }));
        load.log_from = 9_000;
        assert_eq!(load.decide(), None);
    }

    #[test]
    fn prepared_transaction_keeps_the_log_and_makes_no_busy_loop() {
        let mut load = idle();
        load.prepared_first_lsn = 4_010;
        load.log_from = 4_000;
        load.trees = vec![tree(2, 500, 9_000, 0)];
        assert_eq!(load.needed_from(), 4_010);
        assert_eq!(load.decide(), None);
    }
}
