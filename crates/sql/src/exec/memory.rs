//! Accounting of what a statement keeps in memory.
//!
//! Neighbours: sorts, hash tables, buffers and groups charge what they keep.
//! **Invariant**: the sum of all charges of a statement stays within
//! [`Limits::memory_bytes`](super::Limits); beyond it the statement fails with MySQL's error instead
//! of growing (spilling to disk may come later without changing the callers).

use esker_types::{SqlError, SqlResult, Value};

use crate::expr::EvalEnv;

/// Who asks, for the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// ORDER BY.
    Sort,
    /// Hash tables, buffers, groups.
    Hash,
}

/// Rough bytes of a kept row beyond its values.
const ROW_BYTES: u64 = 32;

/// Bytes of one kept value.
pub(crate) fn value_bytes(v: &Value) -> u64 {
    size_of::<Value>() as u64
        + match v {
            Value::Str(s) => s.capacity() as u64,
            Value::Label(_, s) => s.len() as u64,
            _ => 0,
        }
}

/// Bytes of a kept row.
pub(crate) fn row_bytes(row: &[Value]) -> u64 {
    ROW_BYTES + row.iter().map(value_bytes).sum::<u64>()
}

/// Charges `bytes`.
pub(crate) fn charge(env: &EvalEnv<'_>, bytes: u64, purpose: Purpose) -> SqlResult<()> {
    let used = env.states.memory.get().saturating_add(bytes);
    let limit = env.exec.map_or(u64::MAX, |e| e.limits.memory_bytes);
    if used > limit {
        return Err(match purpose {
            Purpose::Sort => SqlError::new(
                1038,
                "HY001",
                "Out of sort memory, consider increasing server sort buffer size",
            ),
            Purpose::Hash => SqlError::new(
                1041,
                "HY000",
                "Out of memory; the statement needs more than esker_query_memory_limit allows",
            ),
        });
    }
    env.states.memory.set(used);
    Ok(())
}

/// Gives `bytes` back.
pub(crate) fn refund(env: &EvalEnv<'_>, bytes: u64) {
    env.states
        .memory
        .set(env.states.memory.get().saturating_sub(bytes));
}
