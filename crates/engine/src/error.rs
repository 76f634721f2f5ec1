//! The error type of the engine.
//!
//! Neighbours: every module of this crate returns these; the layer above maps them to its own codes.
//!
//! **Invariants**
//! - Damage read from disk is [`EngineError::Corruption`] with the file, the offset and what is wrong;
//!   it never becomes a panic.
//! - The error is cheap to clone, because one failed flush is reported to many waiters.

use std::io;
use std::sync::Arc;

use esker_wal::WalError;

use crate::TreeId;

/// What every fallible call of this crate returns.
pub type Result<T, E = EngineError> = std::result::Result<T, E>;

/// Why the wait for a row lock was ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// The statement was killed; its transaction lives on.
    StatementKilled,
    /// The session was killed.
    SessionKilled,
    /// The statement ran longer than it may.
    StatementTimeout,
    /// The transaction ended while its wait was still queued.
    TransactionEnded,
    /// The engine is shutting down.
    Shutdown,
}

/// An error of the engine.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The disk refused; `context` says what was being done, to which file.
    #[error("{context}: {source}")]
    Io {
        /// What was being done, to which file.
        context: Arc<str>,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// An extent could not be written; the same bytes may be written elsewhere. Reaches nobody outside: it is tried
    /// again, and then the engine stops.
    #[error("{context}: {source}")]
    WriteFailed {
        /// What was being done, to which file.
        context: Arc<str>,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// Bytes on disk are not what was written.
    #[error("corruption in {file} at offset {offset}: {what}")]
    Corruption {
        /// The damaged file.
        file: Arc<str>,
        /// Where in the file.
        offset: u64,
        /// What is wrong, and what is lost by it.
        what: Arc<str>,
    },
    /// The files are whole but of another version of Esker.
    #[error(
        "{file}: {part} format {found}, and this version of Esker reads {known}; {}",
        how_to_convert(*found, *known)
    )]
    OtherFormat {
        /// The file that says so.
        file: Arc<str>,
        /// What has the format.
        part: &'static str,
        /// The format that was found.
        found: u16,
        /// The one that can be read.
        known: u16,
    },
    /// The log refused a record or a wait; nothing of the record is in the log.
    #[error("log: {0}")]
    Log(Arc<str>),
    /// There is no room on the device.
    #[error("no space left on the device: {0}")]
    DiskFull(Arc<str>),
    /// The tree does not exist (any more).
    #[error("tree {0:?} does not exist")]
    NoSuchTree(TreeId),
    /// The lock is held by another transaction and the caller did not want to wait.
    #[error("the row is locked by another transaction")]
    LockNotAvailable,
    /// The waiter's time ran out before the lock was granted.
    #[error("lock wait timeout exceeded")]
    LockWaitTimeout,
    /// The transaction is the victim of a deadlock; it must be rolled back.
    #[error("deadlock found when trying to get a lock")]
    Deadlock,
    /// The wait was ended from outside.
    #[error("lock wait cancelled: {0:?}")]
    Cancelled(CancelReason),
    /// The write set grew beyond the configured limit.
    #[error("the transaction needs more than {limit_bytes} bytes of write set")]
    TxnTooLarge {
        /// The configured limit.
        limit_bytes: u64,
    },
    /// Transactions and statements together would need more memory than they may have.
    #[error(
        "{wanted_bytes} bytes more do not fit into the {limit_bytes} that transactions and statements may take"
    )]
    OutOfMemory {
        /// What was asked for.
        wanted_bytes: usize,
        /// What all of them may have together.
        limit_bytes: usize,
    },
    /// The system gives the process no more memory, or no more addresses for it.
    #[error("the system has no {wanted_bytes} bytes more for the server")]
    NoSystemMemory {
        /// What was asked for.
        wanted_bytes: usize,
    },
    /// A key is longer than the engine takes.
    #[error("a key of {key_bytes} bytes is longer than the limit of {limit_bytes}")]
    KeyTooLong {
        /// The length of the refused key.
        key_bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },
    /// A value is longer than the engine takes.
    #[error("a value of {value_bytes} bytes is longer than the limit of {limit_bytes}")]
    ValueTooLong {
        /// The length of the refused value.
        value_bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },
    /// The log that decides about transactions refused one; it is rolled back.
    #[error("{0}")]
    SecondLog(Arc<str>),
    /// A backup cannot be taken or used, and nothing is damaged.
    #[error("backup: {0}")]
    Backup(Arc<str>),
    /// Another process uses the data directory.
    #[error("the data directory {0} is in use by another process")]
    InUse(Arc<str>),
    /// No prepared transaction has this identifier.
    #[error("no prepared transaction has this identifier")]
    NoSuchPrepared,
    /// A prepared transaction has this identifier already.
    #[error("a prepared transaction has this identifier already")]
    DuplicatePrepared,
    /// The engine is shutting down or a background failure stopped it.
    #[error("the engine has stopped: {0}")]
    Stopped(Arc<str>),
}

impl EngineError {
    /// An I/O error with what was being done; a full device gets its own kind.
    pub fn io(context: impl Into<Arc<str>>, source: io::Error) -> Self {
        let context = context.into();
        if source.kind() == io::ErrorKind::StorageFull {
            return EngineError::DiskFull(context);
        }
        EngineError::Io {
            context,
            source: Arc::new(source),
        }
    }

    /// As [`EngineError::io`], of a write that may be tried elsewhere.
    pub(crate) fn write_failed(context: impl Into<Arc<str>>, source: io::Error) -> Self {
        match EngineError::io(context, source) {
            EngineError::Io { context, source } => EngineError::WriteFailed { context, source },
            other => other,
        }
    }

    /// Damage at a place of a file.
    pub fn corruption(file: impl Into<Arc<str>>, offset: u64, what: impl Into<Arc<str>>) -> Self {
        EngineError::Corruption {
            file: file.into(),
            offset,
            what: what.into(),
        }
    }
}

impl From<WalError> for EngineError {
    fn from(error: WalError) -> Self {
        match error {
            _ if error.is_no_space() => EngineError::DiskFull(error.to_string().into()),
            WalError::Io {
                action,
                file,
                error,
            } => EngineError::Io {
                context: format!("cannot {action} {}", file.display()).into(),
                source: error,
            },
            WalError::Corruption {
                file,
                offset,
                what,
                loss,
                ..
            } => EngineError::corruption(
                file.display().to_string(),
                offset,
                what + &loss.map_or_else(String::new, how_to_go_on),
            ),
            missing @ WalError::Missing { .. } => EngineError::Log(
                format!(
                    "{missing}; bring the data directory back from a copy, or `esker serve --force-recovery=point-in-time` goes on \
                     without the log: every table is as it was when it was last flushed"
                )
                .into(),
            ),
            WalError::Closed => EngineError::Stopped("the log is closed".into()),
            other => EngineError::Log(other.to_string().into()),
        }
    }
}

/// What can be done with files of another version.
fn how_to_convert(found: u16, known: u16) -> &'static str {
    match found < known {
        true => {
            "start the version that wrote it, dump the data (with mariadb-dump, for example), and load them into a new \
             data directory"
        }
        false => "it was written by a newer version",
    }
}

/// What can be done about a damaged log.
fn how_to_go_on(loss: esker_wal::Loss) -> String {
    format!(
        "; {loss} would be lost by going on without what is damaged and all behind it, which \
         `esker serve --force-recovery=point-in-time` does (nothing is deleted: it puts those files aside)"
    )
}
