//! INNODB_TRX: the open transactions with what they have locked and written.
//!
//! Neighbours: `locks` names locks in the same way; `server` has ESKER_TRANSACTIONS, which shows prepared ones as well.
//! **Invariant**: a transaction is one that is open between statements or holds locks; its id is its session's.

use std::collections::HashSet;
use std::sync::Arc;

use esker_engine::{LockInfo, Locked, TreeId};
use esker_types::Value;

use super::locks::{MAX_LOCKS, lock_name};
use super::{Viewer, optional, text};
use crate::session::registry::Process;

/// What a lock takes in the lock table, about.
const LOCK_BYTES: u64 = 160;

pub(super) fn rows(viewer: &Viewer) -> Vec<Vec<Value>> {
    let all = viewer.may("PROCESS");
    let clustered = clustered_trees(viewer);
    let sessions = viewer.instance.registry.list();
    let of_one = |process: &Arc<Process>| {
        let is_shown = all || process.is_of(&viewer.user);
        is_shown.then(|| row(viewer, process, &clustered)).flatten()
    };
    sessions.iter().filter_map(of_one).collect()
}

/// Trees that hold whole rows.
fn clustered_trees(viewer: &Viewer) -> HashSet<TreeId> {
    let schemas = viewer.instance.schemas();
    let tables = schemas
        .iter()
        .flat_map(|schema| viewer.instance.tables_of(&schema.name));
    tables.map(|table| table.primary().id).collect()
}

fn row(viewer: &Viewer, process: &Process, clustered: &HashSet<TreeId>) -> Option<Vec<Value>> {
    let detail = process.detail();
    let locks = process.locks(MAX_LOCKS);
    if detail.transaction.is_none() && locks.is_empty() {
        return None;
    }
    let terms = process.terms();
    let waits = locks.iter().position(|lock| !lock.is_granted);
    let is_row = |lock: &&LockInfo| lock.is_granted && matches!(lock.what, Locked::Row(..));
    let trees: HashSet<TreeId> = locks.iter().map(|lock| lock.tree).collect();
    let rows_locked = locks.iter().filter(is_row).count() as u64;
    let written = process.written();
    let written = written.iter().filter(|(tree, _)| clustered.contains(tree));
    let rows_modified: u64 = written.map(|(_, entries)| entries).sum();
    let count = |n: usize| Value::UInt(n as u64);
    let flag = |on: bool| Value::Int(on.into());
    let started = detail.transaction.unwrap_or_else(|| process.since_micros());
    let since = waits.map(|_| super::objects::created(viewer, process.since_micros()));
    Some(vec![
        Value::UInt(process.id),
        text(match waits {
            Some(_) => "LOCK WAIT",
            None => "RUNNING",
        }),
        super::objects::created(viewer, started),
        optional(waits.map(|nth| lock_name(process.id, nth, &locks[nth]))),
        since.unwrap_or(Value::Null),
        Value::UInt(locks.len() as u64 + rows_modified),
        Value::UInt(process.id),
        optional(detail.info.as_ref().filter(|info| !info.is_empty())),
        optional(Some(detail.state).filter(|state| !state.is_empty())),
        Value::UInt(0),
        count(trees.intersection(clustered).count()),
        count(locks.len()),
        Value::UInt(locks.len() as u64 * LOCK_BYTES),
        Value::UInt(rows_locked),
        Value::UInt(rows_modified),
        Value::UInt(0),
        text(terms.isolation.name()),
        flag(terms.unique_checks),
        flag(terms.foreign_key_checks),
        Value::Null,
        Value::Int(0),
        Value::UInt(0),
        flag(terms.read_only),
        Value::Int(0),
        Value::Null,
    ])
}
