//! What a replica makes of another server's events: transactions, each with its place in the source's order, and who
//! may run beside whom.
//!
//! In flow order: an [`EventSource`] yields checked events, [`assemble`] gathers them into [`Group`]s (`boundary` says
//! what delimits them, `mariadb` reads what only MariaDB writes, `compressed` what it compresses, `load` what LOAD DATA
//! is as a statement), [`filter`] says which of them concern this replica,
//! [`coordinator`] decides which worker gets a group and when, [`progress`] knows what has been applied, [`state`] is
//! its form in the database, [`slave_pos`] what is kept of MariaDB's GTIDs when a channel forgets them. Neighbours:
//! `sql`'s applier runs groups in sessions and commits a channel's state in the record of each transaction; the relay
//! log implements [`EventSource`]. Reasons: `docs/decisions/applier.md`.
//!
//! **Invariants**
//! - Groups have ordinals without gaps, in the order of the source; the same events behind the same place give the same
//!   groups again.
//! - Everything here is data in, data out: threads, clocks and the database are elsewhere.

pub mod assemble;
pub(crate) mod boundary;
mod compressed;
pub mod coordinator;
pub mod filter;
mod load;
pub(crate) mod mariadb;
pub mod progress;
pub mod slave_pos;
pub mod state;

use std::ops::Range;
use std::time::Duration;

use crate::event::Header;
use crate::gtid::Gtid;
pub use mariadb::{MariaGtid, MariaGtidSet};

/// Where an event ends in the relay log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct RelayPlace {
    /// Number of the file.
    pub file: u64,
    /// Byte offset in it.
    pub offset: u64,
}

/// A place between two transactions of a source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The source's file; empty if it is not known yet.
    pub source_file: String,
    /// Offset in it.
    pub source_pos: u64,
    /// The same place in the relay log.
    pub relay: RelayPlace,
}

/// An event of the relay log that was checked.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// Its header.
    pub header: Header,
    /// Its body, without checksum.
    pub body: Vec<u8>,
    /// Where it ends.
    pub relay: RelayPlace,
}

/// Where events come from.
pub trait EventSource: Send {
    /// The next event; `None` if none came within `wait`.
    ///
    /// # Errors
    /// The relay log cannot be read.
    fn next(&mut self, wait: Duration) -> crate::Result<Option<Incoming>>;
}

/// What a transaction is called where it was committed first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Id {
    /// MySQL's GTID.
    Gtid(Gtid),
    /// MariaDB's.
    Maria(MariaGtid),
    /// Nothing but its place.
    Position,
}

/// What the source says of who may run beside whom: a transaction may begin when all up to `last_committed` have
/// ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// Sequence number of the last transaction that must have ended.
    pub last_committed: i64,
    /// Its own number in the source's file.
    pub sequence: i64,
}

/// What an event of a group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// The table that row events speak of.
    TableMap,
    /// Rows; the kind is that of version 2.
    Rows {
        /// What was done.
        change: RowKind,
        /// Version 1 has no room for extra data.
        is_v1: bool,
    },
    /// A statement.
    Query,
    /// LAST_INSERT_ID or an AUTO_INCREMENT value for the next statement.
    IntVar,
    /// Seeds of RAND() for it.
    Rand,
    /// A user variable of it.
    UserVar,
    /// A piece of the file that the next statement, a LOAD DATA, reads; behind the file's number.
    FileBlock {
        /// The first one.
        begins: bool,
    },
    /// An event that cannot be applied; its body says why. It counts only if the group is wanted and new here.
    Refused,
}

/// What a row event does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKind {
    /// Inserts.
    Write,
    /// Updates.
    Update,
    /// Deletes.
    Delete,
    /// Updates with edits of JSON documents.
    PartialUpdate,
}

/// An event of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub kind: PartKind,
    /// When its statement began, seconds since the epoch.
    pub time: u32,
    /// Where it ends in the source's file.
    pub end: u32,
    /// Its body in [`Group::data`].
    pub body: Range<usize>,
}

/// How a group is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Its parts are one transaction.
    Transaction,
    /// One statement that commits itself.
    Statement,
    /// A CREATE TABLE that commits itself, then its rows as a transaction.
    CreateAndFill,
    /// XA START to XA PREPARE.
    Xa,
    /// Nothing is to be done.
    Empty,
}

/// A transaction of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its number in the channel.
    pub ordinal: u64,
    /// What it is called.
    pub id: Id,
    /// What the source says of its dependencies.
    pub clock: Option<Clock>,
    /// The server on which it was executed first.
    pub server_id: u32,
    /// When it was committed first, microseconds since the epoch.
    pub original_micros: u64,
    /// When its source committed it, microseconds since the epoch.
    pub commit_micros: u64,
    /// Version of the server that committed it first: `80400` is 8.4.0.
    pub original_version: u32,
    /// `sql_mode` of the session that began it, as its BEGIN says: what generated columns are computed with.
    pub sql_mode: Option<u64>,
    /// How it is run.
    pub shape: Shape,
    /// Its events, in order.
    pub parts: Vec<Part>,
    /// Their bodies, one behind the other.
    pub data: Vec<u8>,
    /// Where the next one begins.
    pub end: Place,
}

impl Group {
    /// The body of one of its parts.
    pub fn body(&self, part: &Part) -> &[u8] {
        &self.data[part.body.clone()]
    }

    /// Memory it takes.
    pub fn bytes(&self) -> usize {
        self.data.len() + self.parts.len() * size_of::<Part>() + size_of::<Self>()
    }

    /// Events that it had in the source's file, those around its parts included.
    pub fn events(&self) -> u64 {
        let around = match self.shape {
            Shape::Transaction | Shape::CreateAndFill => 3,
            Shape::Empty | Shape::Statement | Shape::Xa => 1,
        };
        self.parts.len() as u64 + around
    }

    /// Nothing is to be done for it, but to say that it was done.
    pub fn skip(&mut self) {
        self.shape = Shape::Empty;
        self.parts = Vec::new();
        self.data = Vec::new();
    }
}
