//! What can go wrong with the log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::lsn::Lsn;

/// An error of the log. Cheap to clone, because one failure is told to every waiter.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WalError {
    /// The operating system refused something; if it was a write or a sync, the log is dead.
    #[error("cannot {action} {}: {error}", file.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or directory.
        file: PathBuf,
        /// The system's answer.
        error: Arc<io::Error>,
    },
    /// The disk has no room for more log. Nothing that was acknowledged is lost; appends work again
    /// when there is space.
    #[error("no space left on device for the log in {}", dir.display())]
    NoSpace {
        /// The log directory.
        dir: PathBuf,
    },
    /// Bytes that were durable are not what was written.
    #[error("the log is damaged: {} at offset {offset}: {what}", file.display())]
    Corruption {
        /// The damaged file.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong and what would be lost.
        what: String,
    },
    /// Log files that are needed do not exist.
    #[error("the log in {} begins at {begins:?}, but records from {needed} on are needed", dir.display())]
    Missing {
        /// The log directory.
        dir: PathBuf,
        /// Start of the oldest segment, if there is one.
        begins: Option<Lsn>,
        /// Where reading had to begin.
        needed: Lsn,
    },
    /// The files belong to another data directory.
    #[error("{} belongs to another cluster", file.display())]
    WrongCluster {
        /// The foreign segment.
        file: PathBuf,
    },
    /// A record is larger than the log takes.
    #[error("a log record of {bytes} bytes is larger than the limit of {limit} bytes")]
    RecordTooLarge {
        /// Its size.
        bytes: u64,
        /// The most that is possible.
        limit: u64,
    },
    /// The settings contradict each other.
    #[error("bad log configuration: {0}")]
    Config(String),
    /// A thread of the log panicked; the panic itself was reported where it happened.
    #[error("a thread of the log has died")]
    ThreadDied,
    /// The log was shut down.
    #[error("the log is closed")]
    Closed,
}

impl WalError {
    pub(crate) fn io(action: &'static str, file: &Path, error: io::Error) -> Self {
        WalError::Io {
            action,
            file: file.to_path_buf(),
            error: Arc::new(error),
        }
    }

    pub(crate) fn corruption(file: &Path, offset: u64, what: impl Into<String>) -> Self {
        WalError::Corruption {
            file: file.to_path_buf(),
            offset,
            what: what.into(),
        }
    }

    /// Whether the disk was full.
    pub fn is_no_space(&self) -> bool {
        match self {
            WalError::NoSpace { .. } => true,
            WalError::Io { error, .. } => error.kind() == io::ErrorKind::StorageFull,
            _ => false,
        }
    }
}
