//! What sessions asked and heard.
//!
//! Neighbours: `load` writes it; `checker` reads it.
//!
//! **Invariants**
//! - Every number is appended at most once, whatever becomes of it.
//! - The transactions of a session are in its order.

use std::collections::BTreeMap;

/// An isolation level, as MySQL understands it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Level {
    /// As SET TRANSACTION has it.
    pub fn sql(self) -> &'static str {
        match self {
            Level::ReadCommitted => "READ COMMITTED",
            Level::RepeatableRead => "REPEATABLE READ",
            Level::Serializable => "SERIALIZABLE",
        }
    }
}

pub type Key = u32;
/// What is appended.
pub type Number = u32;

/// How a list is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// SELECT alone.
    Plain,
    /// FOR SHARE or FOR UPDATE.
    Locking,
}

/// A statement that was answered.
#[derive(Clone, Debug)]
pub enum Op {
    Append(Key, Number),
    /// Lists by their keys; one that is not there is empty.
    Read(How, Vec<(Key, Vec<Number>)>),
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Committed,
    RolledBack,
    /// Nobody answered the COMMIT.
    Unknown,
}

#[derive(Clone, Debug)]
pub struct Txn {
    pub session: u64,
    pub ops: Vec<Op>,
    pub end: End,
}

#[derive(Debug, Default)]
pub struct History {
    pub txns: Vec<Txn>,
    /// All lists in the end.
    pub last: BTreeMap<Key, Vec<Number>>,
}

impl History {
    pub fn committed(&self) -> usize {
        let is_committed = |txn: &&Txn| txn.end == End::Committed;
        self.txns.iter().filter(is_committed).count()
    }
}
