//! Isolation levels as SQL asks for them.
//!
//! Neighbours: `hot` has the session's, sessions that of each transaction. **Invariant**: READ UNCOMMITTED is served as
//! READ COMMITTED, and shown as what was asked for.

use esker_engine::Isolation;

/// An isolation level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the level of that name")]
pub enum Level {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Level {
    /// How it is served.
    pub fn served(self) -> Isolation {
        match self {
            Self::ReadUncommitted | Self::ReadCommitted => Isolation::ReadCommitted,
            Self::RepeatableRead => Isolation::RepeatableRead,
            Self::Serializable => Isolation::Serializable,
        }
    }

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadUncommitted => "READ UNCOMMITTED",
            Self::ReadCommitted => "READ COMMITTED",
            Self::RepeatableRead => "REPEATABLE READ",
            Self::Serializable => "SERIALIZABLE",
        }
    }
}
