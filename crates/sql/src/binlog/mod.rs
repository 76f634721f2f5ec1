//! The binary log above the engine: what follows the log, what statements about it show.
//!
//! In flow order: `statement` (heads, and statements logged as text), `definition` (which schema statements are, and in
//! which words), `emptied` (tables that a start has emptied), `account` (statements about accounts), `owned` (GTIDs
//! that sessions have taken), `unlogged` (GTIDs of a server without binary log), `service` (the binary log of an
//! instance), `writer` (the thread that follows the durable log and writes files), `repair` (what it does with one that
//! is damaged), `two_phase` (the files as a log that decides, instead), `upkeep` (of the files, in both), `admin` (what
//! statements and variables do with it), `events` (what a file has), `figures` (what is counted), `dump` (streams to
//! consumers, which `replicas` knows), `snapshot` (positions of snapshots), `semi_sync` (what replicas acknowledge),
//! `twins` (variables with an old name). The formats are in the crate `binlog`; reasons in `docs/decisions/binlog.md`.
//! Neighbours: `capture` has what sessions change; `dml`, `session` and `ddl` hand in; the engine carries the
//! attachments.
//!
//! **Invariants**
//! - What a transaction did and what is logged of it are one record of the engine's log.
//! - Commits never wait for the writer; they are refused when the log that is kept for it may not grow further.

mod account;
mod admin;
mod definition;
mod dump;
mod emptied;
mod events;
mod figures;
mod owned;
mod repair;
mod replicas;
mod semi_sync;
mod service;
mod snapshot;
mod statement;
mod twins;
mod two_phase;
mod unlogged;
mod upkeep;
mod writer;

pub(crate) use account::AccountEvent;
pub(crate) use admin::parse_set;
pub use dump::{Dump, DumpRequest, DumpStep, PacketSink};
pub(crate) use events::{no_events, show_events};
pub(crate) use owned::{Counted, Taken};
pub(crate) use replicas::Replicas;
pub(crate) use service::{Binlog, follows};
pub(crate) use snapshot::Position;
pub(crate) use twins::adopt_names;
pub(crate) use unlogged::row as unlogged_row;
pub(crate) use writer::{FOLLOWER, StartArgs};
