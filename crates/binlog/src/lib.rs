//! MySQL's binary log: its events, its GTIDs, its row images and its files.
//!
//! In flow order: a session hands each changed row to [`image`] and gathers the events of its transaction in an
//! [`Attachment`], opaque bytes that travel in the record of the commit, or, where they are too many, in a file of
//! their own ([`spool`]); [`derive`] makes complete events of it, with GTID, dependencies (`writeset`) and positions;
//! [`files`] keeps them in files that MySQL's own tools read; [`stream`] sends them to consumers; [`relay`] keeps
//! what another server sends, and [`apply`] makes transactions of it. [`event`] has the encoder and decoder of every
//! event, [`gtid`] the algebra of GTID sets, [`tally`] counts what transactions take.
//! Formats: `docs/formats/binlog.md` and `docs/formats/binlog-attachment.md`; reasons: `docs/decisions/binlog.md`.
//! Neighbours: `sql` captures rows and statements and feeds attachments back from the durable log.
//!
//! **Invariants**
//! - The bytes of a file are a function of the attachments in log order: derivation can be repeated after a crash and
//!   gives the same offsets.
//! - Bytes from disk or network are checked; what is wrong with them is an [`Error`], never a panic.

pub mod apply;
pub mod attachment;
mod bytes;
pub mod derive;
pub mod event;
pub mod files;
pub mod gtid;
pub mod image;
pub mod relay;
pub mod spool;
pub mod stream;
pub mod tally;
pub mod writeset;

pub use attachment::{Attachment, Origin, What};
pub use gtid::{Gtid, GtidSet};

/// Why the binary log could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Bytes that no writer of this format has written.
    #[error("damaged {0}")]
    Damaged(String),
    /// The same, in a file.
    #[error("binary log file '{file}' is damaged at offset {offset}: {what}")]
    DamagedFile {
        /// Name.
        file: String,
        /// Where the first bad event starts.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
    /// Events that are as they should be, but not for this server: number and text of the error.
    #[error("{1}")]
    Refused(u16, String),
    /// A sync failed: what it was to make durable may be lost, also if the next one goes well.
    #[error("sync failed: {0}")]
    Sync(#[source] std::io::Error),
    /// The disk.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Error {
    /// Is there no space on the disk, and nothing lost by it?
    pub fn is_full_disk(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::Io(e) if matches!(e.kind(), StorageFull | QuotaExceeded))
    }
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

fn synced(result: std::io::Result<()>) -> Result<()> {
    result.map_err(Error::Sync)
}

fn damaged(what: impl Into<String>) -> Error {
    Error::Damaged(what.into())
}
