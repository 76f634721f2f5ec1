//! Accounting of what a statement keeps in memory, and where it goes to disk instead.
//!
//! Neighbours: sorts, hash tables, buffers and groups ask [`may_keep`] before they keep, and charge what
//! they keep; what may not be kept goes through `spill`.
//! **Invariants**: the sum of all charges of a statement stays within
//! [`Limits::memory_bytes`](super::Limits), and that of all statements and transactions within the
//! engine's budget; beyond it the statement fails with MySQL's error. An operator that can spill does so at
//! its own budget, or earlier when the statement as a whole, or the server, is short.

use esker_sql_catalog::exec_error::engine_error;
use esker_types::{SqlError, SqlResult, Value, errors};

use super::spill::TempFiles;
use crate::ExecEnv;

/// Who asks, for the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// ORDER BY.
    Sort,
    /// Hash tables, buffers, groups.
    Hash,
}

/// Which variable bounds an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// `sort_buffer_size`.
    Sort,
    /// `join_buffer_size`.
    Join,
    /// `tmp_table_size`.
    Table,
    /// The same for rows that will be changed, but no more than a part of what all demands have left: what is written
    /// and locked then cannot be on disk.
    Targets,
}

/// One part in so many of what demands have left is for rows that will be changed.
const TARGETS_PART: usize = 4;

/// Rough bytes of a kept row beyond its values.
const ROW_BYTES: u64 = 32;
/// An operator that keeps less than this does not spill because others have taken the memory: it would
/// write many tiny runs.
const LEAST_RUN_BYTES: u64 = 64 * 1024;

impl Budget {
    /// Where to spill, and the operator's budget in bytes; `None` where a statement cannot spill.
    pub(crate) fn on_disk<'e>(self, env: &ExecEnv<'e>) -> Option<(&'e TempFiles, u64)> {
        let exec = env.exec?;
        let bytes = match self {
            Self::Sort => exec.limits.sort_bytes,
            Self::Join => exec.limits.join_bytes,
            Self::Table => exec.limits.table_bytes,
            Self::Targets => {
                let part = exec.txn().memory().room() / TARGETS_PART;
                exec.limits.table_bytes.min(part as u64)
            }
        };
        Some((exec.temp?, bytes))
    }
}

/// May an operator that keeps `held` bytes keep `more`? If not, it spills.
pub(crate) fn may_keep(env: &ExecEnv<'_>, held: u64, more: u64, budget: Budget) -> bool {
    let Some((_, own)) = budget.on_disk(env) else {
        return true;
    };
    debug_assert!(held <= env.states.memory.get(), "what is held was charged");
    if held + more > own {
        return false;
    }
    if held < LEAST_RUN_BYTES {
        return true;
    }
    // What cannot spill needs room, too: of this statement, and of others.
    let wanted = env.states.memory.get().saturating_add(more);
    env.exec.is_none_or(|exec| {
        let all = exec.limits.memory_bytes;
        wanted <= all - all / 4 && env.states.has_room(wanted, exec.txn().memory())
    })
}

/// Bytes of one kept value.
pub(crate) fn value_bytes(v: &Value) -> u64 {
    size_of::<Value>() as u64
        + match v {
            Value::Str(s) | Value::Json(s) => s.capacity() as u64,
            Value::Label(_, s) => s.len() as u64,
            _ => 0,
        }
}

/// Bytes of a kept row.
pub(crate) fn row_bytes<'v>(row: impl IntoIterator<Item = &'v Value>) -> u64 {
    ROW_BYTES + row.into_iter().map(value_bytes).sum::<u64>()
}

/// Charges `bytes`.
pub fn charge(env: &ExecEnv<'_>, bytes: u64, purpose: Purpose) -> SqlResult<()> {
    let used = env.states.memory.get().saturating_add(bytes);
    let limit = env.exec.map_or(u64::MAX, |e| e.limits.memory_bytes);
    if used > limit {
        return Err(match purpose {
            Purpose::Sort => SqlError::new(
                1038,
                "HY001",
                "Out of sort memory, consider increasing server sort buffer size",
            ),
            Purpose::Hash => errors::out_of_memory(
                "the statement needs more than esker_query_memory_limit allows",
            ),
        });
    }
    match env.exec {
        Some(exec) => env
            .states
            .raise_memory(used, exec.txn().memory())
            .map_err(|e| engine_error(&e)),
        None => {
            env.states.memory.set(used);
            Ok(())
        }
    }
}

/// Gives `bytes` back.
pub(crate) fn refund(env: &ExecEnv<'_>, bytes: u64) {
    debug_assert!(
        bytes <= env.states.memory.get(),
        "what is given back was charged"
    );
    env.states
        .set_memory(env.states.memory.get().saturating_sub(bytes));
}
