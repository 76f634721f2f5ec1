//! What running a statement can end with besides success: an error for the client, or a wait.
//!
//! Neighbours: `exec`, `dml`, `ddl` and `mdl` return it; `session` turns waits into steps.
//! **Invariant**: [`ExecError::Wait`] is only returned in inline mode; whoever returns it has kept
//! nothing that would make running the statement again wrong.

use esker_engine::{CancelReason, EngineError, Ticket};
use esker_types::SqlError;

/// Why a statement stopped.
pub enum ExecError {
    /// It failed.
    Sql(SqlError),
    /// It must wait for a lock and then run again.
    Wait(Ticket),
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

/// The engine's errors as MySQL's.
pub fn engine_error(e: &EngineError) -> SqlError {
    let (code, state) = match e {
        EngineError::LockWaitTimeout => {
            let text = "Lock wait timeout exceeded; try restarting transaction";
            return SqlError::new(1205, "HY000", text);
        }
        EngineError::Deadlock => {
            let text = "Deadlock found when trying to get lock; try restarting transaction";
            return SqlError::new(1213, "40001", text);
        }
        EngineError::LockNotAvailable => {
            let text = "Statement aborted because lock(s) could not be acquired immediately and \
                        NOWAIT is set.";
            return SqlError::new(3572, "HY000", text);
        }
        EngineError::Cancelled(reason) => {
            return match reason {
                CancelReason::StatementTimeout => SqlError::new(
                    3024,
                    "HY000",
                    "Query execution was interrupted, maximum statement execution time exceeded",
                ),
                CancelReason::Shutdown => {
                    SqlError::new(1053, "08S01", "Server shutdown in progress")
                }
                _ => crate::session::registry::interrupted(),
            };
        }
        EngineError::TxnTooLarge { limit_bytes } => {
            let text = format!(
                "Multi-statement transaction required more than {limit_bytes} bytes of storage; \
                 increase esker_max_transaction_size and try again"
            );
            return SqlError::new(1197, "HY000", text);
        }
        EngineError::OutOfMemory { limit_bytes, .. } => {
            let text = format!(
                "Out of memory; transactions and statements together need more than the {limit_bytes} bytes \
                 that esker_memory_limit leaves them"
            );
            return SqlError::new(1041, "HY000", text);
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
