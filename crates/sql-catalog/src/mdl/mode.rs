//! Lock modes and what they exclude, as MySQL's metadata locks.
//!
//! Neighbours: `object` consults these tables for holders and for its queue.
//! **Invariants**: conflict is symmetric; the modes with a [`MdlMode::fast`] class never conflict
//! with each other, which is what lets an atomic counter stand for them.

/// How long a lock is held. Ordered: a longer one also does for a shorter one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MdlDuration {
    /// Until the statement ends.
    Statement,
    /// Until the transaction ends.
    Transaction,
    /// Until UNLOCK TABLES.
    Explicit,
    /// Until UNLOCK TABLES, by FLUSH TABLES WITH READ LOCK.
    Global,
    /// Until UNLOCK INSTANCE.
    Instance,
}

/// How an object is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MdlMode {
    /// The definition only (SHOW CREATE, PREPARE).
    Shared,
    /// On the global scope or a schema: something inside will be changed.
    IntentionExclusive,
    /// Rows are read.
    SharedRead,
    /// Rows are changed.
    SharedWrite,
    /// A schema change makes ready, while others read and change rows; it will ask for [`Self::Exclusive`].
    SharedUpgradable,
    /// LOCK TABLES … READ: others may read.
    SharedReadOnly,
    /// LOCK TABLES … WRITE: others may look at the definition only.
    SharedNoReadWrite,
    /// FLUSH TABLES waits for those who have locked the table, not for transactions that use it.
    Flush,
    /// On a scope: nothing inside may be changed (FLUSH TABLES WITH READ LOCK).
    ScopeShared,
    /// Nobody else.
    Exclusive,
}

use MdlMode::*;

/// Number of modes.
pub(super) const MODES: usize = 10;
/// Classes of the atomic counter.
pub(super) const FAST_CLASSES: usize = 3;
/// A mode of each class, to test conflicts of counted holders with.
pub(super) const FAST_MODES: [MdlMode; FAST_CLASSES] = [Shared, SharedRead, SharedWrite];

impl MdlMode {
    /// Must a request of `self` wait for a holder of `other`?
    pub fn conflicts(self, other: MdlMode) -> bool {
        match (self, other) {
            (Exclusive, _) | (_, Exclusive) => true,
            (SharedNoReadWrite, o) | (o, SharedNoReadWrite) => {
                !matches!(o, Shared | IntentionExclusive)
            }
            (SharedUpgradable, SharedUpgradable) => true,
            (SharedReadOnly, o) | (o, SharedReadOnly) => matches!(o, SharedWrite | Flush),
            // The atomic counter keeps Shared (on tables) and IntentionExclusive (on scopes) in one
            // class; a scope is never locked Shared.
            (ScopeShared, o) | (o, ScopeShared) => matches!(o, IntentionExclusive | Shared),
            _ => false,
        }
    }

    /// Does holding `self` make a request of `wanted` needless?
    pub fn covers(self, wanted: MdlMode) -> bool {
        self == wanted
            || match self {
                Exclusive => true,
                SharedNoReadWrite => {
                    matches!(
                        wanted,
                        Shared | SharedRead | SharedWrite | SharedReadOnly | Flush
                    )
                }
                SharedWrite | SharedUpgradable => matches!(wanted, Shared | SharedRead),
                SharedReadOnly => matches!(wanted, Shared | SharedRead),
                SharedRead => wanted == Shared,
                Shared | IntentionExclusive | ScopeShared | Flush => false,
            }
    }

    /// Class of the atomic counter; `None` for the modes that go through the queue.
    pub(super) fn fast(self) -> Option<usize> {
        match self {
            Shared | IntentionExclusive => Some(0),
            SharedRead => Some(1),
            SharedWrite => Some(2),
            SharedUpgradable | SharedReadOnly | SharedNoReadWrite | Flush | ScopeShared
            | Exclusive => None,
        }
    }

    /// Can every fast mode be held beside it?
    pub(super) fn admits_fast(self) -> bool {
        matches!(self, SharedUpgradable | Flush) || self.fast().is_some()
    }

    /// MySQL's word for it, as a lock on a table or, if `is_scope`, on what tables are in.
    pub fn word(self, is_scope: bool) -> &'static str {
        match self {
            Shared => "SHARED",
            IntentionExclusive => "INTENTION_EXCLUSIVE",
            SharedRead => "SHARED_READ",
            SharedWrite => "SHARED_WRITE",
            SharedUpgradable => "SHARED_UPGRADABLE",
            SharedReadOnly => "SHARED_READ_ONLY",
            SharedNoReadWrite => "SHARED_NO_READ_WRITE",
            Flush => "FLUSH",
            ScopeShared if is_scope => "SHARED",
            ScopeShared => "SHARED_READ_ONLY",
            Exclusive => "EXCLUSIVE",
        }
    }

    pub(super) fn index(self) -> usize {
        self as usize
    }

    pub(super) const ALL: [MdlMode; MODES] = [
        Shared,
        IntentionExclusive,
        SharedRead,
        SharedWrite,
        SharedUpgradable,
        SharedReadOnly,
        SharedNoReadWrite,
        Flush,
        ScopeShared,
        Exclusive,
    ];
}
