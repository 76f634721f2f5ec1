//! The lock table as data, for information_schema: what every transaction has locked and waits for.
//!
//! Neighbours: the layer above makes rows of it (`information_schema.ESKER_DATA_LOCKS`).
//!
//! **Invariant**: a list is bounded by its caller, so that looking at a transaction with a million locks stays cheap.

use std::sync::Arc;

use super::owner::Place;
use super::range::Obstacle;
use super::{LockManager, LockMode, LockOwner, LockRef, RangeKind, Want};
use crate::TreeId;
use crate::span::KeySpan;

/// A lock that a transaction holds or waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LockInfo {
    /// The tree whose keys are locked.
    pub tree: TreeId,
    /// What is locked.
    pub what: Locked,
    /// False for the one that is waited for.
    pub is_granted: bool,
}

/// What is locked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Locked {
    /// A row.
    Row(LockMode, Vec<u8>),
    /// A range of keys.
    Range(RangeKind, KeySpan),
    /// A new key, for which gaps of others have to go.
    Insert(Vec<u8>),
}

/// A transaction that holds or waits for locks: the same as long as it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnerId(usize);

impl OwnerId {
    pub(crate) fn of(owner: &Arc<LockOwner>) -> Self {
        OwnerId(Arc::as_ptr(owner).addr())
    }
}

/// A wait for a lock.
pub struct LockWait {
    /// What is waited for.
    pub wanted: LockInfo,
    /// Who must end before, and the lock that is in the way.
    pub in_the_way: Vec<(OwnerId, LockInfo)>,
}

impl LockManager {
    /// The wait that the owner is in, with at most `limit` of those in its way. However many locks those have, only
    /// the place that is waited for is looked at.
    pub(crate) fn wait_of(&self, owner: &LockOwner, limit: usize) -> Option<LockWait> {
        let wait = match owner.waiting()?.place {
            Place::Row(lock) => self.row_wait(owner, lock, limit)?,
            Place::Range(tree, key, want) => self.range_wait(owner, tree, (&key, want), limit),
        };
        debug_assert!(wait.in_the_way.len() <= limit);
        debug_assert!(!wait.wanted.is_granted);
        Some(wait)
    }

    fn row_wait(&self, owner: &LockOwner, lock: LockRef, limit: usize) -> Option<LockWait> {
        let shard = self.shards[lock.shard as usize].0.lock();
        let row = shard.row(lock)?;
        let (mode, tree, key) = row.awaited_by(owner)?;
        let wanted = awaited_at(tree, key, Want::Row(mode));
        let blockers = row.blockers(owner);
        let held = |blocker: &Arc<LockOwner>| {
            let (mode, tree, key) = row.held_by(blocker)?;
            let what = Locked::Row(mode, key.to_vec());
            let lock = LockInfo {
                tree,
                what,
                is_granted: true,
            };
            Some((OwnerId::of(blocker), lock))
        };
        Some(LockWait {
            wanted,
            in_the_way: blockers.iter().filter_map(held).take(limit).collect(),
        })
    }

    fn range_wait(
        &self,
        owner: &LockOwner,
        tree: TreeId,
        (key, want): (&[u8], Want),
        limit: usize,
    ) -> LockWait {
        let mut in_the_way = Vec::new();
        self.ranges
            .each_in_the_way(owner, tree, (key, want), |other, obstacle| {
                if in_the_way.len() < limit {
                    let lock = match obstacle {
                        Obstacle::Held(kind, span) => LockInfo {
                            tree,
                            what: Locked::Range(kind, span.clone()),
                            is_granted: true,
                        },
                        Obstacle::Awaited(want) => awaited_at(tree, key, want),
                    };
                    in_the_way.push((OwnerId::of(other), lock));
                }
            });
        LockWait {
            wanted: awaited_at(tree, key, want),
            in_the_way,
        }
    }

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
        match owner.waiting()?.place {
            Place::Row(lock) => {
                let shard = self.shards[lock.shard as usize].0.lock();
                let (mode, tree, key) = shard.row(lock)?.awaited_by(owner)?;
                Some(awaited_at(tree, key, Want::Row(mode)))
            }
            Place::Range(tree, key, want) => Some(awaited_at(tree, &key, want)),
        }
    }

    /// Whether `owner` cannot go on before `other` ends.
    pub(crate) fn waits_for(&self, owner: &LockOwner, other: &LockOwner) -> bool {
        let blockers = self.blockers(owner);
        blockers
            .iter()
            .any(|blocker| std::ptr::eq(&**blocker, other))
    }
}

/// The lock that a wait is for.
fn awaited_at(tree: TreeId, key: &[u8], want: Want) -> LockInfo {
    let what = match want {
        Want::Insert => Locked::Insert(key.to_vec()),
        Want::Row(mode) => Locked::Row(mode, key.to_vec()),
    };
    LockInfo {
        tree,
        what,
        is_granted: false,
    }
}
