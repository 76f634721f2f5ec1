//! Lock escalation: the row locks of a large transaction grow coarser where memory would run out otherwise.
//!
//! Neighbours: `txn` asks for it when the locks of one transaction have a large part of the memory, or when memory is
//! refused; `merge` decides which covers take the place of the row locks of a tree.
//!
//! The transaction takes the covers, looks again for what others have locked, and only then gives back the row locks.
//! What others have got in the meantime is found there, for whoever gets a row looks for covers afterwards (see
//! `range`); a cover that has met something is given up again. Nobody waits for anything here.
//!
//! **Invariants**
//! - No lock of another transaction lies in a cover when its row locks go, so nobody who waits already has to wait for
//!   anybody else than before, and no deadlock begins here.
//! - A row that somebody waits for keeps its lock: the queue is there.

use std::collections::HashMap;
use std::sync::Arc;

use super::keys::{KeyList, SortedKeys};
use super::merge::{Barriers, merged};
use super::{LockManager, LockMode, LockOwner, wake_all};
use crate::TreeId;
use crate::span::Spans;

/// Locks of a tree that are worth a cover.
const LEAST_OF_TREE: usize = 32;

impl LockManager {
    /// Makes covers of the row locks of a transaction that is not waiting, and says how many locks that saved. What is
    /// covered cannot be given back before its end.
    pub(crate) fn coarsen(&self, owner: &Arc<LockOwner>) -> usize {
        debug_assert!(owner.waiting().is_none(), "who waits asks for nothing");
        if !owner.may_merge() {
            return 0;
        }
        let mut rows: HashMap<_, usize> = HashMap::new();
        self.for_each_held(owner, |mode, tree, _| {
            *rows.entry((tree, mode)).or_default() += 1;
        });
        rows.retain(|_, count| *count >= LEAST_OF_TREE);
        let saved = rows
            .into_iter()
            .map(|((tree, mode), count)| self.merge(owner, (tree, mode), count));
        let saved = saved.sum();
        owner.merged(saved);
        if saved > 0 {
            self.shards.iter().for_each(|shard| shard.0.lock().trim());
        }
        saved
    }

    /// Makes covers of the row locks in a tree, so many.
    fn merge(
        &self,
        owner: &Arc<LockOwner>,
        (tree, mode): (TreeId, LockMode),
        count: usize,
    ) -> usize {
        let (before, barriers) = self.covers_and_barriers(owner, tree, mode);
        let keys = self.keys_held(owner, (tree, mode), count);
        let wide = merged(&keys, &before, &barriers);
        drop(keys);
        let Some(wide) = Spans::of(wide) else {
            return 0;
        };
        wake_all(self.ranges.set_covers(owner, tree, mode, wide.clone()));
        // From now on others see the covers. What they have got before is there by now.
        let (_, barriers) = self.covers_and_barriers(owner, tree, mode);
        let is_clear = !wide.iter().any(|span| barriers.meet(span));
        let clear = match is_clear {
            true => wide,
            false => {
                let clear = clear_of(&wide, before, &barriers);
                wake_all(self.ranges.set_covers(owner, tree, mode, clear.clone()));
                clear
            }
        };
        self.release_covered(owner, (tree, mode, &clear))
    }

    /// What a transaction has covered in a tree, and what others have locked there that conflicts.
    fn covers_and_barriers(
        &self,
        owner: &LockOwner,
        tree: TreeId,
        mode: LockMode,
    ) -> (Spans, Barriers) {
        let mut keys = KeyList::default();
        for shard in &self.shards {
            let shard = shard.0.lock();
            shard.for_each_foreign(owner, (tree, mode), |key| keys.push(key));
        }
        let (own, spans) = self.ranges.covers(owner, tree, mode);
        (own, Barriers::new(keys.sorted(), spans))
    }

    fn keys_held(
        &self,
        owner: &LockOwner,
        (tree, mode): (TreeId, LockMode),
        count: usize,
    ) -> SortedKeys {
        let mut keys = KeyList::with_capacity(count);
        self.for_each_held(owner, |m, t, key| {
            if (t, m) == (tree, mode) {
                keys.push(key);
            }
        });
        keys.sorted()
    }

    /// Gives back the row locks that covers stand for now.
    fn release_covered(
        &self,
        owner: &LockOwner,
        (tree, mode, covers): (TreeId, LockMode, &Spans),
    ) -> usize {
        let mut held = owner.take_held();
        let before = held.len();
        held.retain(|lock| {
            let mut shard = self.shards[lock.shard as usize].0.lock();
            !shard.release_covered(*lock, owner, (tree, mode, covers))
        });
        let saved = before - held.len();
        owner.put_held(held);
        saved
    }
}

/// Those of the new covers in which others have nothing, and all that were there before.
fn clear_of(wide: &Spans, before: Spans, barriers: &Barriers) -> Spans {
    let mut clear = before.clone();
    for span in wide.iter().filter(|span| !barriers.meet(span)) {
        if !clear.has_room_for(span) {
            return before;
        }
        clear.add(span.clone());
    }
    clear
}
