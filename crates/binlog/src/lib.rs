//! MySQL's binary log.
//!
//! [`event`] has the encoder and decoder of every event, [`image`] those of rows, [`gtid`] the algebra of GTID sets.
//! Neighbours: none yet; `sql` is to use it.
//!
//! **Invariants**: bytes from disk or network are checked; what is wrong with them is an [`Error`], never a panic.

mod bytes;
pub mod event;
pub mod gtid;
pub mod image;

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
    /// The disk.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

fn damaged(what: impl Into<String>) -> Error {
    Error::Damaged(what.into())
}
