//! What running a statement can end with besides success: an error for the client, or a wait.
//!
//! Neighbours: expressions, operators, `dml`, `ddl` and `mdl` return it; `session` turns waits into steps.
//! **Invariant**: [`ExecError::Wait`] is only returned in inline mode; whoever returns it has kept
//! nothing that would make running the statement again wrong.

use std::fmt;

use esker_engine::{CancelReason, EngineError, Ticket};
use esker_types::{SqlError, errors};

/// Why a statement stopped.
pub enum ExecError {
    /// It failed.
    Sql(SqlError),
    /// It must wait for a lock and then run again.
    Wait(Ticket),
}

/// Result of what may meet a lock that is not free: of expressions, whose subqueries may lock rows, and of operators.
pub type ExecResult<T> = Result<T, ExecError>;

impl ExecError {
    /// The error of what asks for no lock.
    ///
    /// # Panics
    /// If it was a wait: whoever calls this has said that there is none.
    pub fn without_wait(self) -> SqlError {
        match self {
            Self::Sql(e) => e,
            Self::Wait(_) => unreachable!("nothing here asks for a lock"),
        }
    }
}

impl fmt::Debug for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sql(e) => e.fmt(f),
            Self::Wait(_) => f.write_str("a wait for a lock"),
        }
    }
}

impl From<SqlError> for ExecError {
    fn from(e: SqlError) -> Self {
        Self::Sql(e)
    }
}

impl From<EngineError> for ExecError {
    fn from(e: EngineError) -> Self {
        Self::Sql(engine_error(&e))
    }
}

/// Numbers with which an operating system says that the process (EMFILE) or the machine (ENFILE) has no more file
/// descriptors.
const NO_DESCRIPTORS: [i32; 2] = [24, 23];

/// Error 23, if the system has no file descriptor for this file; else `None`.
pub fn out_of_descriptors(file: &str, e: &std::io::Error) -> Option<SqlError> {
    let number = e.raw_os_error()?;
    let is_out = NO_DESCRIPTORS.contains(&number);
    let text = format!(
        "Out of resources when opening file '{file}' ({})",
        os_text(e)
    );
    is_out.then(|| SqlError::new(23, "HY000", text))
}

/// An error of the system as MySQL writes it: `OS errno 24 - Too many open files`.
pub fn os_text(e: &std::io::Error) -> String {
    let text = e.to_string();
    // The number stands before.
    let text = text.split(" (os error").next().unwrap_or_default();
    format!("OS errno {} - {text}", e.raw_os_error().unwrap_or(0))
}

/// The code of [`interrupted`].
pub const INTERRUPTED: u16 = 1317;

/// 1317.
pub fn interrupted() -> SqlError {
    SqlError::new(INTERRUPTED, "70100", "Query execution was interrupted")
}

/// The engine's errors as MySQL's.
pub fn engine_error(e: &EngineError) -> SqlError {
    if let EngineError::Io { context, source } = e
        && let Some(out) = out_of_descriptors(context, source)
    {
        return out;
    }
    let (code, state) = match e {
        EngineError::LockWaitTimeout => {
            return errors::lock_wait_timeout();
        }
        EngineError::Deadlock => {
            return errors::deadlock();
        }
        EngineError::LockNotAvailable => {
            let text = "Statement aborted because lock(s) could not be acquired immediately and \
                        NOWAIT is set.";
            return SqlError::new(3572, "HY000", text);
        }
        EngineError::Cancelled(reason) => {
            return match reason {
                CancelReason::StatementTimeout => errors::statement_timeout(),
                CancelReason::Shutdown => errors::shutdown_in_progress(),
                _ => interrupted(),
            };
        }
        EngineError::TxnTooLarge { limit_bytes } => {
            return errors::transaction_too_large(limit_bytes, "esker_max_transaction_size");
        }
        EngineError::OutOfMemory { limit_bytes, .. } => {
            return errors::out_of_memory(format!(
                "transactions and statements together need more than the {limit_bytes} bytes that esker_memory_limit leaves them"
            ));
        }
        EngineError::NoSystemMemory { .. } => return errors::out_of_memory(e),
        EngineError::SecondLog(what) => {
            return errors::binlog_failed(what);
        }
        EngineError::KeyTooLong { .. } => (1071, "42000"),
        EngineError::ValueTooLong { .. } => (1118, "42000"),
        EngineError::DiskFull(_) => (1021, "HY000"),
        EngineError::Corruption { .. } => (1034, "HY000"),
        EngineError::Stopped(_) => (1053, "08S01"),
        _ => (1030, "HY000"),
    };
    SqlError::new(code, state, e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_without_a_file_descriptor_says_so() {
        let source = std::io::Error::from_raw_os_error(24);
        let error = engine_error(&EngineError::io("opening extents/1", source));
        assert_eq!((error.code, error.state), (23, "HY000"));
        assert!(
            error
                .message
                .starts_with("Out of resources when opening file")
        );
        let source = std::io::Error::from_raw_os_error(5);
        assert_eq!(
            engine_error(&EngineError::io("opening extents/1", source)).code,
            1030
        );
    }
}
