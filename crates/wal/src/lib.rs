//! The log: one total order of opaque records, hardened in groups.
//!
//! A record's place in the log is fixed when it is appended; the end of its place is its commit
//! sequence. A flush daemon writes what is filled as checksummed blocks into preallocated segments,
//! syncs once per group and resolves the futures of who waited. The format is
//! `docs/formats/wal.md`.
//!
//! In reading order: [`Wal`] (the face), `append` (a record gets its place and its bytes), `buffer` (the ring between
//! appenders and flush; `memory` is a log of nothing else), `policy` (when to flush), `daemon` and `signals` (who is
//! woken for it), `flush` and `flights` (hardening), `waiters` and `future` (who is told), `files` and `live`
//! (segments), `tail` (following the log while it is written), `recover` (reading it all back), `format` (the bytes),
//! `stats` and `histogram`; `lsn` (positions), `config` (settings), `shared` (state of all threads), `error`.
//!
//! **Invariants**
//! - LSN order is commit order is visibility order.
//! - Durable means synced: nothing is reported durable that a crash could take back.
//! - A failed write or sync ends the log. It is never tried again.
//! - Whoever follows the log never sees what is not durable.
//! - Payloads are opaque: nothing here knows rows, keys or SQL.

mod append;
mod buffer;
mod config;
mod daemon;
mod error;
mod files;
mod flights;
mod flush;
mod format;
mod future;
mod histogram;
mod live;
mod lsn;
mod memory;
mod policy;
mod recover;
mod shared;
mod signals;
mod stats;
mod tail;
mod waiters;
mod wal;

pub use append::{Draft, MAX_RECORD_BYTES};
pub use buffer::LogBufferKind;
pub use config::{
    FlushMode, MAX_BUFFER_BYTES, MIN_BUFFER_BYTES, MIN_SEGMENT_BYTES, OnFatal, Reading, WalConfig,
};
pub use error::{Loss, WalError};
pub use files::LogSpace;
pub use format::RecordKind;
pub use future::DurableFuture;
pub use histogram::{HISTOGRAM_BUCKETS, Histogram};
pub use live::LogPin;
pub use lsn::{Lsn, LsnRange};
pub use memory::MemoryLog;
pub use policy::{FlushPolicy, MAX_FLUSH_INTERVAL, MAX_IN_FLIGHT};
pub use recover::{
    BlockSummary, BlockView, DamageView, LogBytes, LogReader, LogView, Lost, Needs, PartView,
    Record, Recovered, Replay, SegmentView, Task, TaskCounts, Visitor, Wanted, WantsBlock,
};
pub use shared::{Driven, Turn};
pub use stats::{WaitCause, Waits, WalStats};
pub use tail::{Progress, SegmentCopy, Tail};
pub use wal::Wal;
