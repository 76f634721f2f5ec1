//! Background job scheduler: which job is due, a pure function of the engine's load.
//!
//! Neighbours: `maintain` takes the picture and does the job.
//!
//! **Invariants**
//! - Deciding changes nothing; the same picture gives the same job.
//! - Every job makes progress towards a picture in which nothing is due, so the loop of jobs ends.

use crate::TreeId;
use crate::compact::tombstones_amplify_reads;

/// A tree in the picture.
#[derive(Clone, Debug)]
pub(super) struct TreeLoad {
    pub(super) id: TreeId,
    /// Bytes and start of the log of the active memtable; `u64::MAX` if it is empty.
    pub(super) active_bytes: usize,
    pub(super) active_first_lsn: u64,
    /// Versions in the active memtable, and deletes among them.
    pub(super) active_entries: u64,
    pub(super) active_deletes: u64,
    /// How often walks for rows have stepped over one of these deletes.
    pub(super) active_steps: u64,
    /// Versions on disk; may be 0 while there are few deletes.
    pub(super) stored_entries: u64,
    /// The same of the immutable ones together.
    pub(super) immutable_bytes: usize,
    pub(super) immutable_first_lsn: u64,
    /// The same of what was replayed from the log. It may stay in memory, like an active memtable.
    pub(super) replayed_bytes: usize,
    pub(super) replayed_first_lsn: u64,
    /// Versions in the oldest of it, and how often walks for rows have stepped over a delete there.
    pub(super) replayed_entries: u64,
    pub(super) replayed_steps: u64,
    /// Compaction is so far behind with it that one more layer may slow down writers.
    pub(super) has_l0_backlog: bool,
}

impl TreeLoad {
    /// Bytes that need not be flushed at once.
    fn idle_bytes(&self) -> usize {
        self.active_bytes + self.replayed_bytes
    }

    /// Where the log is needed from for them.
    fn idle_first_lsn(&self) -> u64 {
        self.active_first_lsn.min(self.replayed_first_lsn)
    }

    /// What brings them to disk: what is older goes first.
    fn flush_idle(&self) -> Job {
        debug_assert_ne!(self.idle_first_lsn(), u64::MAX, "it has something to flush");
        match self.replayed_first_lsn {
            u64::MAX => Job::Rotate(self.id, Cause::Memory),
            _ => Job::Flush(self.id),
        }
    }
}

/// A memtable with fewer deletes is not switched because of them.
pub(super) const MIN_DELETES: u64 = 32 << 10;
/// A checkpoint is worth it when it lets go of so many segments, whatever is in them.
const CHECKPOINT_SEGMENTS: u64 = 2;
/// The memtable consists of deletes if they are one in so many versions, and ...
const DELETE_SHARE: u64 = 3;
/// ... one for so many versions on disk: else compaction would rewrite much for few.
const STORED_PER_DELETE: u64 = 16;

impl TreeLoad {
    /// Whether scans are better off when the deletes go where they can be dropped with what they delete.
    fn consists_of_deletes(&self) -> bool {
        self.active_deletes >= MIN_DELETES
            && self.active_deletes >= self.active_entries / DELETE_SHARE
            && self.active_deletes >= self.stored_entries / STORED_PER_DELETE
    }

    /// What is better done for the sake of readers.
    fn tombstone_relief(&self) -> Option<Job> {
        if self.has_l0_backlog {
            return None;
        }
        if tombstones_amplify_reads(self.replayed_steps, self.replayed_entries) {
            return Some(Job::Flush(self.id));
        }
        let hinders = tombstones_amplify_reads(self.active_steps, self.active_entries);
        hinders.then_some(Job::Rotate(self.id, Cause::TombstoneSkips))
    }
}

/// The picture.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) trees: Vec<TreeLoad>,
    /// Memory of all that was replayed. Trees share some of it: it is not the sum.
    pub(super) replayed_bytes: usize,
    /// Where the log is needed from for prepared transactions.
    pub(super) prepared_first_lsn: u64,
    /// The watermark, looked at before everything else here.
    pub(super) visible: u64,
    /// The log begins here after the last checkpoint.
    pub(super) log_from: u64,
    /// Where each segment of the log begins. Every start of the server begins one, however little is in the last.
    pub(super) segments: Vec<u64>,
    pub(super) limits: Limits,
}

/// When something is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Memtables together should stay below this.
    pub(super) memory_bytes: usize,
    /// The log needed for recovery should stay below this.
    pub(super) log_bytes: u64,
    /// A checkpoint is worth it when it lets go of this much log, the length of a segment.
    pub(super) checkpoint_bytes: u64,
}

/// Why a memtable is switched before it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Memory or the log needs room.
    Memory,
    /// It consists of deletes.
    Deletes,
    /// Readers have stepped over its deletes again and again.
    TombstoneSkips,
}

/// A job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// Write the oldest replayed run or immutable memtable of the tree to extents.
    Flush(TreeId),
    /// Switch the memtable of the tree.
    Rotate(TreeId, Cause),
    /// Store the counters and the start of the log, and let go of the log before it.
    Checkpoint { log_from: u64 },
}

impl Load {
    /// The log is needed from here on.
    pub(super) fn needed_from(&self) -> u64 {
        let trees = self.trees.iter();
        trees
            .map(|tree| tree.idle_first_lsn().min(tree.immutable_first_lsn))
            .fold(self.visible.min(self.prepared_first_lsn), u64::min)
    }

    /// How many segments begin in this part of the log.
    fn segments_in(&self, from: u64, to: u64) -> u64 {
        let inside = |start: &&u64| (from + 1..=to).contains(*start);
        self.segments.iter().filter(inside).count() as u64
    }

    /// Bytes that the log has from here on, or that its whole segments take on disk, whichever is more.
    fn log_bytes_from(&self, needed_from: u64) -> u64 {
        let whole = self.segments_in(needed_from, u64::MAX).saturating_sub(1);
        let records = self.visible.saturating_sub(needed_from);
        records.max(whole.saturating_mul(self.limits.checkpoint_bytes))
    }

    /// Bytes in memtables.
    pub(super) fn memtable_bytes(&self) -> usize {
        let tables = self.trees.iter();
        let tables = tables.map(|tree| tree.active_bytes + tree.immutable_bytes);
        tables.sum()
    }

    /// Bytes in memtables and replayed runs.
    fn memory_bytes(&self) -> usize {
        self.replayed_bytes + self.memtable_bytes()
    }

    /// The most urgent job: first what frees memory, then what keeps scans and the log short.
    pub(super) fn decide(&self) -> Option<Job> {
        let immutable = self.trees.iter().filter(|tree| tree.immutable_bytes > 0);
        if let Some(tree) = immutable.max_by_key(|tree| tree.immutable_bytes) {
            return Some(Job::Flush(tree.id));
        }
        let resting = || {
            self.trees
                .iter()
                .filter(|tree| tree.idle_first_lsn() != u64::MAX)
        };
        if self.memory_bytes() > self.limits.memory_bytes
            && let Some(tree) = resting().max_by_key(|tree| tree.idle_bytes())
        {
            return Some(tree.flush_idle());
        }
        if let Some(job) = self.trees.iter().find_map(TreeLoad::tombstone_relief) {
            return Some(job);
        }
        let mut trees = self.trees.iter();
        if let Some(tree) = trees.find(|tree| tree.consists_of_deletes()) {
            return Some(Job::Rotate(tree.id, Cause::Deletes));
        }
        let needed_from = self.needed_from();
        debug_assert!(needed_from <= self.visible);
        if needed_from.saturating_sub(self.log_from) >= self.limits.checkpoint_bytes
            || self.segments_in(self.log_from, needed_from) >= CHECKPOINT_SEGMENTS
        {
            return Some(Job::Checkpoint {
                log_from: needed_from,
            });
        }
        if self.log_bytes_from(needed_from) > self.limits.log_bytes {
            let oldest = resting().min_by_key(|tree| tree.idle_first_lsn());
            // Only a tree that holds the log back: a prepared transaction may do so, too, and flushing does not help.
            return oldest
                .filter(|tree| tree.idle_first_lsn() == needed_from)
                .map(TreeLoad::flush_idle);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::{FREE_TOMBSTONE_SKIPS, SKIPS_PER_ENTRY};

    const LIMITS: Limits = Limits {
        memory_bytes: 1000,
        log_bytes: 5000,
        checkpoint_bytes: 100,
    };

    fn idle() -> Load {
        Load {
            trees: Vec::new(),
            replayed_bytes: 0,
            prepared_first_lsn: u64::MAX,
            visible: 10_000,
            log_from: 9_990,
            segments: vec![9_900],
            limits: LIMITS,
        }
    }

    fn tree(id: u32, active: usize, active_lsn: u64, immutable: usize) -> TreeLoad {
        TreeLoad {
            id: TreeId(id),
            active_bytes: active,
            active_first_lsn: active_lsn,
            active_entries: 0,
            active_deletes: 0,
            active_steps: 0,
            stored_entries: 0,
            immutable_bytes: immutable,
            immutable_first_lsn: if immutable > 0 {
                active_lsn - 1
            } else {
                u64::MAX
            },
            replayed_bytes: 0,
            replayed_first_lsn: u64::MAX,
            replayed_entries: 0,
            replayed_steps: 0,
            has_l0_backlog: false,
        }
    }

    /// A tree that was replayed from this place of the log.
    fn replayed(id: u32, bytes: usize, lsn: u64) -> TreeLoad {
        TreeLoad {
            replayed_bytes: bytes,
            replayed_first_lsn: lsn,
            ..tree(id, 0, u64::MAX, 0)
        }
    }

    #[test]
    fn segments_with_little_in_them_count_by_what_they_take() {
        let mut load = idle();
        load.trees = vec![tree(1, 10, 9_991, 0)];
        load.segments = (0..51).map(|n| 9_940 + n).collect();
        assert_eq!(load.decide(), None, "they are not needed any more");
        load.segments = (0..51).map(|n| 9_992 + n).collect();
        assert_eq!(
            load.decide(),
            None,
            "50 of 100 bytes, and one that is begun"
        );
        load.segments.push(9_999);
        let flushed = Job::Rotate(TreeId(1), Cause::Memory);
        assert_eq!(load.decide(), Some(flushed));
        // What is not needed goes.
        load.trees.clear();
        load.segments = vec![9_989, 9_995];
        assert_eq!(load.decide(), None);
        load.segments.push(9_999);
        let checkpoint = Job::Checkpoint { log_from: 10_000 };
        assert_eq!(load.decide(), Some(checkpoint));
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
        assert_eq!(load.decide(), Some(Job::Rotate(TreeId(2), Cause::Memory)));
    }

    #[test]
    fn many_deletes_switch_a_memtable_unless_there_is_much_more_on_disk() {
        let switched = |entries, deletes, stored| {
            let mut load = idle();
            load.trees = vec![tree(1, 400, 9_995, 0)];
            load.trees[0].active_entries = entries;
            load.trees[0].active_deletes = deletes;
            load.trees[0].stored_entries = stored;
            load.decide() == Some(Job::Rotate(TreeId(1), Cause::Deletes))
        };
        assert!(switched(2 * MIN_DELETES, MIN_DELETES, 0));
        assert!(switched(MIN_DELETES, MIN_DELETES, 16 * MIN_DELETES));
        assert!(!switched(MIN_DELETES, MIN_DELETES - 1, 0));
        assert!(!switched(4 * MIN_DELETES, MIN_DELETES, 0));
        assert!(!switched(MIN_DELETES, MIN_DELETES, 17 * MIN_DELETES));
    }

    #[test]
    fn readers_who_step_over_deletes_have_them_flushed_when_it_would_have_been_cheaper() {
        let switched = |entries, tombstone_skips| {
            let mut load = idle();
            load.trees = vec![tree(1, 400, 9_995, 0)];
            load.trees[0].active_entries = entries;
            load.trees[0].active_steps = tombstone_skips;
            load.decide() == Some(Job::Rotate(TreeId(1), Cause::TombstoneSkips))
        };
        assert!(switched(2, FREE_TOMBSTONE_SKIPS));
        assert!(
            !switched(2, FREE_TOMBSTONE_SKIPS - 1),
            "a flush is not for nothing"
        );
        assert!(switched(
            FREE_TOMBSTONE_SKIPS,
            SKIPS_PER_ENTRY * FREE_TOMBSTONE_SKIPS
        ));
        assert!(!switched(
            FREE_TOMBSTONE_SKIPS + 1,
            SKIPS_PER_ENTRY * FREE_TOMBSTONE_SKIPS
        ));
        // Writers come first.
        let mut load = idle();
        load.trees = vec![tree(1, 400, 9_995, 0)];
        load.trees[0].active_steps = FREE_TOMBSTONE_SKIPS;
        load.trees[0].has_l0_backlog = true;
        assert_eq!(load.decide(), None);
        // What was replayed is in front of the memtable.
        let mut load = idle();
        load.trees = vec![replayed(1, 400, 9_995)];
        (load.trees[0].replayed_entries, load.trees[0].replayed_steps) = (2, FREE_TOMBSTONE_SKIPS);
        assert_eq!(load.decide(), Some(Job::Flush(TreeId(1))));
    }

    #[test]
    fn long_log_switches_the_tree_that_holds_it() {
        let mut load = idle();
        load.log_from = 4_000;
        load.trees = vec![tree(1, 10, 4_050, 0), tree(2, 500, 9_000, 0)];
        assert_eq!(load.decide(), Some(Job::Rotate(TreeId(1), Cause::Memory)));
        // Once it is flushed, the log before the other one can go.
        load.trees.remove(0);
        assert_eq!(load.decide(), Some(Job::Checkpoint { log_from: 9_000 }));
        load.log_from = 9_000;
        assert_eq!(load.decide(), None);
    }

    #[test]
    fn what_was_replayed_stays_until_memory_or_log_need_it_to_go() {
        let mut load = idle();
        load.trees = vec![replayed(1, 400, 9_995), replayed(2, 300, 9_996)];
        load.replayed_bytes = 900;
        assert_eq!(load.decide(), None);
        load.trees.push(tree(3, 200, 9_999, 0));
        assert_eq!(load.decide(), Some(Job::Flush(TreeId(1))));
        // The buffers that the trees share are still there.
        load.trees.remove(0);
        assert_eq!(load.decide(), Some(Job::Flush(TreeId(2))));
        load.replayed_bytes = 0;
        assert_eq!(load.decide(), None);

        let mut load = idle();
        load.log_from = 4_000;
        load.trees = vec![tree(1, 10, 9_000, 0), replayed(2, 10, 4_050)];
        assert_eq!(load.needed_from(), 4_050);
        assert_eq!(load.decide(), Some(Job::Flush(TreeId(2))));
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
