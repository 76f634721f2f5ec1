//! The lock table as data, for information_schema: what every transaction has locked and waits for.
//!
//! Neighbours: the layer above makes rows of it (`information_schema.ESKER_DATA_LOCKS`).
//!
//! **Invariant**: a list is bounded by its caller, so that looking at a transaction with a million locks stays cheap.

use super::owner::Place;
use super::{LockManager, LockMode, LockOwner, RangeKind, Want};
use crate::TreeId;
use crate::span::KeySpan;

/// A lock that a transaction holds or waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockInfo {
    /// The tree whose keys are locked.
    pub tree: TreeId,
    /// What is locked.
    pub what: Locked,
    /// False for the one that is waited for.
    pub is_granted: bool,
}

/// What is locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Locked {
    /// A row.
    Row(LockMode, Vec<u8>),
    /// A range of keys.
    Range(RangeKind, KeySpan),
    /// A new key, for which gaps of others have to go.
    Insert(Vec<u8>),
}

impl LockManager {
    /// What the owner waits for and then what it holds, at most `limit` locks in all.
    pub(crate) fn list(&self, owner: &LockOwner, limit: usize) -> Vec<LockInfo> {
        let mut locks: Vec<LockInfo> = self.awaited(owner).into_iter().collect();
        self.ranges.for_each(owner, |kind, tree, span| {
            if locks.len() < limit {
                locks.push(LockInfo {
                    tree,
                    what: Locked::Range(kind, span.clone()),
                    is_granted: true,
                });
            }
        });
        for lock in owner.held_up_to(limit.saturating_sub(locks.len())) {
            let shard = self.shards[lock.shard as usize].0.lock();
            if let Some((mode, tree, key)) = shard.row(lock).and_then(|row| row.held_by(owner)) {
                locks.push(LockInfo {
                    tree,
                    what: Locked::Row(mode, key.to_vec()),
                    is_granted: true,
                });
            }
        }
        debug_assert!(locks.len() <= limit.max(1));
        locks
    }

    fn awaited(&self, owner: &LockOwner) -> Option<LockInfo> {
        let (tree, what) = match owner.waiting()?.place {
            Place::Row(lock) => {
                let shard = self.shards[lock.shard as usize].0.lock();
                let (mode, tree, key) = shard.row(lock)?.awaited_by(owner)?;
                (tree, Locked::Row(mode, key.to_vec()))
            }
            Place::Range(tree, key, Want::Insert) => (tree, Locked::Insert(key.to_vec())),
            Place::Range(tree, key, Want::Row(mode)) => (tree, Locked::Row(mode, key.to_vec())),
        };
        Some(LockInfo {
            tree,
            what,
            is_granted: false,
        })
    }

    /// Whether `owner` cannot go on before `other` ends.
    pub(crate) fn waits_for(&self, owner: &LockOwner, other: &LockOwner) -> bool {
        let blockers = self.blockers(owner);
        blockers
            .iter()
            .any(|blocker| std::ptr::eq(&**blocker, other))
    }
}
