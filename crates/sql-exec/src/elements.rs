//! Rows that have one of some elements in an array: found in a multi-valued index.
//!
//! Neighbours: `plan` chooses the elements; scans come here for the keys, and read the rows by them; the states of
//! calls keep the keys.
//! **Invariants**: the keys are those of all rows that have one of the elements, each once and in order; the condition
//! is evaluated again for each row; what is kept is charged to the statement.

use std::ops::Bound;
use std::sync::Arc;

use esker_engine::{Direction, View};
use esker_sql_catalog::catalog::{IndexDef, TableDef};
use esker_sql_catalog::exec_error::{ExecResult, engine_error};
use esker_sql_plan::bind::{Elements, Wanted, wanted_by};
use esker_sql_plan::expr::FoundKeys;
use esker_sql_plan::plan::ElementSearch;
use esker_types::Value;

use super::scan::Found;
use crate::{ExecCtx, ExecEnv};

/// Where keys are looked for.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub def: &'a TableDef,
    pub index: &'a IndexDef,
    pub view: View,
}

/// Clustered keys of the rows that a search finds, in their order; `row` is what is read so far.
pub(crate) fn found_rows(
    search: &ElementSearch,
    place: Place<'_>,
    row: &[Value],
    (exec, env): (&ExecCtx<'_>, &ExecEnv<'_>),
) -> ExecResult<FoundKeys> {
    if place.view == View::Snapshot {
        place
            .def
            .check_visible(place.index, exec.txn().snapshot())?;
    }
    debug_assert!(
        place.index.elements.is_some(),
        "a multi-valued index is searched"
    );
    match &search.elements {
        Elements::Keys(elements) => {
            if let Some(keys) = env.calls.found(search.id) {
                return Ok(keys);
            }
            let found = rows_with(elements, place, (exec, env))?;
            let keys = Arc::new(found.keys);
            env.calls.put_found(search.id, keys.clone());
            Ok(keys)
        }
        Elements::Of(how, e, ty) => {
            let value = e.eval_ref(row, env)?;
            let found = match wanted_by(*how, &value, (&e.ty, *ty), env.ctx) {
                Wanted::Nothing => Found::default(),
                Wanted::Anything => all_rows(place, (exec, env))?,
                Wanted::Keys(elements) => rows_with(&elements, place, (exec, env))?,
            };
            // The next opening finds others.
            found.bytes.give_back(env);
            Ok(Arc::new(found.keys))
        }
    }
}

/// The rows that have one of the elements.
fn rows_with(
    elements: &[Vec<u8>],
    place: Place<'_>,
    (exec, env): (&ExecCtx<'_>, &ExecEnv<'_>),
) -> ExecResult<Found> {
    let codec = place.index.elements.as_ref();
    let codec = codec.expect("elements are looked for in multi-valued indexes");
    let mut found = Found::default();
    for element in elements {
        let range = codec.element_range(element);
        let (lower, upper) = (range.lower(), range.upper());
        let (txn, tree) = (exec.txn(), &place.index.tree);
        let entries = txn.scan(tree, lower, upper, Direction::Forward, place.view);
        let mut entries = entries.map_err(|e| engine_error(&e))?;
        while let Some((key, value)) = entries.next().map_err(|e| engine_error(&e))? {
            exec.tick()?;
            found.add(codec.clustered_of(key, value)?, env)?;
        }
    }
    found.finish(env)?;
    Ok(found)
}

/// All rows, where a value does not say which of them a condition can be true for.
fn all_rows(place: Place<'_>, (exec, env): (&ExecCtx<'_>, &ExecEnv<'_>)) -> ExecResult<Found> {
    let (txn, tree) = (exec.txn(), &place.def.primary().tree);
    let all = Bound::Unbounded;
    let rows = txn.scan(tree, all, all, Direction::Forward, place.view);
    let mut rows = rows.map_err(|e| engine_error(&e))?;
    let mut found = Found::default();
    while let Some((key, _)) = rows.next().map_err(|e| engine_error(&e))? {
        exec.tick()?;
        found.add(key, env)?;
    }
    found.finish(env)?;
    Ok(found)
}
