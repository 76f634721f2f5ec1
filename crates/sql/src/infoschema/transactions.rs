//! INNODB_TRX: the open transactions with what they have locked and written.
//!
//! Neighbours: `locks` names locks in the same way; `server` has ESKER_TRANSACTIONS, which shows prepared ones as well.
//! **Invariant**: a transaction is one that is open between statements, holds locks, or is prepared; its
//! id is its session's, or one of its own if it is prepared.

use std::collections::HashSet;
use std::sync::Arc;

use esker_engine::{LockInfo, Locked, TreeId};
use esker_types::Value;

use super::locks::{self, MAX_LOCKS, Prepared, lock_name};
use super::{Viewer, optional, text};
use crate::session::registry::{Detail, Process};
use crate::session::terms::Terms;

/// What a lock takes in the lock table, about.
const LOCK_BYTES: u64 = 160;

pub(super) fn rows(viewer: &Viewer) -> Vec<Vec<Value>> {
    let all = viewer.may("PROCESS");
    let clustered = clustered_trees(viewer);
    let mut rows = Vec::new();
    for process in viewer.instance.registry.list() {
        if all || process.is_of(&viewer.user) {
            rows.extend(Facts::of(&process, &clustered).map(|facts| facts.row(viewer, &clustered)));
        }
    }
    if all {
        let prepared = locks::prepared(&viewer.instance).into_iter();
        let facts = prepared.map(|prepared| Facts::of_prepared(viewer, &prepared));
        rows.extend(facts.map(|facts| facts.row(viewer, &clustered)));
    }
    rows
}

/// Trees that hold whole rows.
fn clustered_trees(viewer: &Viewer) -> HashSet<TreeId> {
    let schemas = viewer.instance.schemas();
    let tables = schemas
        .iter()
        .flat_map(|schema| viewer.instance.tables_of(&schema.name));
    tables.map(|table| table.primary().id).collect()
}

/// What is known of a transaction.
struct Facts {
    id: u64,
    /// Its session; a prepared one has none.
    session: Option<Arc<Process>>,
    detail: Detail,
    locks: Vec<LockInfo>,
    started: i64,
    rows_modified: u64,
    terms: Terms,
}

impl Facts {
    fn of(process: &Arc<Process>, clustered: &HashSet<TreeId>) -> Option<Self> {
        let detail = process.detail();
        let locks = process.locks(MAX_LOCKS);
        if detail.transaction.is_none() && locks.is_empty() {
            return None;
        }
        let written = process.written();
        let written = written.iter().filter(|(tree, _)| clustered.contains(tree));
        Some(Self {
            id: process.id,
            session: Some(Arc::clone(process)),
            locks,
            started: detail.transaction.unwrap_or_else(|| process.since_micros()),
            rows_modified: written.map(|(_, entries)| entries).sum(),
            terms: process.terms(),
            detail,
        })
    }

    fn of_prepared(viewer: &Viewer, prepared: &Prepared) -> Self {
        Self {
            id: prepared.id,
            session: None,
            detail: Detail::default(),
            locks: prepared.locks(&viewer.instance, MAX_LOCKS),
            started: prepared.since_micros,
            rows_modified: 0,
            terms: Terms::default(),
        }
    }

    fn row(&self, viewer: &Viewer, clustered: &HashSet<TreeId>) -> Vec<Value> {
        let Self {
            detail,
            locks,
            terms,
            ..
        } = self;
        let waited_for = locks.iter().find(|lock| !lock.is_granted);
        let is_row = |lock: &&LockInfo| lock.is_granted && matches!(lock.what, Locked::Row(..));
        let trees: HashSet<TreeId> = locks.iter().map(|lock| lock.tree).collect();
        let rows_locked = locks.iter().filter(is_row).count() as u64;
        let count = |n: usize| Value::UInt(n as u64);
        let flag = |on: bool| Value::Int(on.into());
        let time = |micros| super::objects::created(viewer, micros);
        let session = self.session.as_ref().filter(|_| waited_for.is_some());
        let since = session.map(|session| time(session.since_micros()));
        vec![
            Value::UInt(self.id),
            text(match waited_for {
                Some(_) => "LOCK WAIT",
                None => "RUNNING",
            }),
            time(self.started),
            optional(waited_for.map(|lock| lock_name(self.id, lock))),
            since.unwrap_or(Value::Null),
            Value::UInt(locks.len() as u64 + self.rows_modified),
            Value::UInt(self.session.as_ref().map_or(0, |session| session.id)),
            optional(detail.info.as_ref().filter(|info| !info.is_empty())),
            optional(Some(detail.state).filter(|state| !state.is_empty())),
            Value::UInt(0),
            count(trees.intersection(clustered).count()),
            count(locks.len()),
            Value::UInt(locks.len() as u64 * LOCK_BYTES),
            Value::UInt(rows_locked),
            Value::UInt(self.rows_modified),
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
        ]
    }
}
