//! What can go wrong with the log.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::lsn::Lsn;

/// What a damaged log has behind the damage, as far as it can still be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// The log is whole up to here.
    pub from: Lsn,
    /// The last LSN that any header speaks of, or that may have been in a segment whose header is damaged.
    pub to: Lsn,
    /// Records (and parts of large ones) in blocks whose headers can be read.
    pub records: u64,
    /// Bytes of those records.
    pub bytes: u64,
    /// Segments that are lost whole or in part.
    pub segments: u64,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.records == 0 {
            let most = match self.to > self.from {
                true => format!(", to LSN {} at least; how many cannot be told", self.to),
                false => "; how many there were, if any, cannot be told".to_owned(),
            };
            return write!(f, "all commits behind LSN {}{most}", self.from);
        }
        write!(
            f,
            "about {} records ({} bytes, LSN {} to {}) in {} segments",
            self.records, self.bytes, self.from, self.to, self.segments
        )
    }
}

fn would_be_lost(loss: &Option<Loss>) -> String {
    loss.map_or(String::new(), |loss| {
        format!("; without what is damaged and all behind it, {loss} would be lost")
    })
}

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
    #[error("the log is damaged: {} at offset {offset}: {what}{}", file.display(), would_be_lost(loss))]
    Corruption {
        /// The damaged file.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        what: String,
        /// The log is whole up to here.
        whole: Lsn,
        /// What would be lost by going on without what is behind; `None` if that is not known.
        loss: Option<Loss>,
    },
    /// Log files that are needed do not exist.
    #[error(
        "the log in {} {}, but records from LSN {needed} on are needed: segments are missing, or the manifest is an older one",
        dir.display(),
        begins.map_or("has no segment".to_owned(), |begins| format!("begins at LSN {begins}"))
    )]
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

    /// Damage; the log is whole up to this LSN.
    pub(crate) fn corruption(
        file: &Path,
        offset: u64,
        whole: Lsn,
        what: impl Into<String>,
    ) -> Self {
        WalError::Corruption {
            file: file.to_path_buf(),
            offset,
            what: what.into(),
            whole,
            loss: None,
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
