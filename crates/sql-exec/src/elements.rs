//! Rows that have one of some elements in an array: found in a multi-valued index.
//!
//! Neighbours: `plan` chooses the elements; scans come here for the keys, and read the rows by them; the states of
//! calls keep the keys.
//! **Invariants**: the keys are those of all rows that have one of the elements, each once and in order; the condition
//! is evaluated again for each row; what is kept is charged to the statement.

use std::sync::Arc;

use esker_engine::{Direction, View};
use esker_sql_catalog::catalog::{IndexDef, TableDef};
use esker_sql_catalog::exec_error::{ExecResult, engine_error};
use esker_sql_plan::expr::FoundKeys;
use esker_sql_plan::plan::ElementSearch;

use super::memory::{Purpose, charge};
use crate::{ExecCtx, ExecEnv};

/// What a kept key takes beyond its bytes.
const KEY_BYTES: u64 = 32;
/// Kept keys are charged in portions of so many bytes.
const CHARGED_BYTES: u64 = 64 * 1024;

/// Clustered keys of the rows that have one of the elements, in their order.
pub(crate) fn rows_with(
    search: &ElementSearch,
    (def, index): (&TableDef, &IndexDef),
    view: View,
    (exec, env): (&ExecCtx<'_>, &ExecEnv<'_>),
) -> ExecResult<FoundKeys> {
    if let Some(keys) = env.calls.found(search.id) {
        return Ok(keys);
    }
    if view == View::Snapshot {
        def.check_visible(index, exec.txn().snapshot())?;
    }
    let codec = index.elements.as_ref();
    let codec = codec.expect("elements are looked for in multi-valued indexes");
    let mut keys: Vec<Box<[u8]>> = Vec::new();
    let mut held = 0;
    for element in &search.elements {
        let range = codec.element_range(element);
        let (lower, upper) = (range.lower(), range.upper());
        let txn = exec.txn();
        let entries = txn.scan(&index.tree, lower, upper, Direction::Forward, view);
        let mut entries = entries.map_err(|e| engine_error(&e))?;
        while let Some((key, value)) = entries.next().map_err(|e| engine_error(&e))? {
            exec.tick()?;
            let key = codec.clustered_of(key, value)?;
            held += key.len() as u64 + KEY_BYTES;
            if held >= CHARGED_BYTES {
                charge(env, std::mem::take(&mut held), Purpose::Hash)?;
            }
            keys.push(key.into());
        }
    }
    charge(env, held, Purpose::Hash)?;
    keys.sort_unstable();
    keys.dedup();
    let keys = Arc::new(keys);
    env.calls.put_found(search.id, keys.clone());
    Ok(keys)
}
