//! Index merge union: rows in ranges of several indexes, each once.
//!
//! Neighbours: `plan::access` chose the indexes; `scan` reads the rows by the keys that are gathered here, or, where
//! they are locked, walks one index after the other with `locking` and asks here whether a row has been given.
//! **Invariants**: a row that several indexes lead to is given once; what is read is locked index by index, as if each
//! were scanned alone.

use std::collections::HashSet;
use std::sync::Arc;

use esker_engine::{Direction, View};
use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::codec::KeyRange;
use esker_sql_catalog::exec_error::{ExecResult, engine_error};
use esker_sql_plan::bind::LockSpec;
use esker_sql_plan::expr::FoundKeys;
use esker_sql_plan::plan::IndexUnion;
use esker_types::Value;

use super::found::{Found, KeptBytes};
use crate::locking::LockingScan;
use crate::{ExecCtx, ExecEnv};

/// Ranges of one index.
type Walk = (usize, Vec<KeyRange>);

/// A union whose rows are locked: what of it is to come, and what has been given.
pub(super) struct LockingUnion {
    lock: LockSpec,
    rest: std::vec::IntoIter<Walk>,
    given: HashSet<Box<[u8]>>,
    bytes: KeptBytes,
}

impl LockingUnion {
    pub fn new(lock: LockSpec, walks: Vec<Walk>) -> Self {
        debug_assert!(walks.len() > 1, "a union is of several indexes");
        Self {
            lock,
            rest: walks.into_iter(),
            given: HashSet::new(),
            bytes: KeptBytes::default(),
        }
    }

    /// The scan of the next index.
    pub fn next_scan(&mut self) -> Option<LockingScan> {
        let (index, ranges) = self.rest.next()?;
        Some(LockingScan::new(self.lock, index, ranges, false))
    }

    /// Is this the first time that the row is found?
    pub fn is_new(&mut self, key: &[u8], env: &ExecEnv<'_>) -> ExecResult<bool> {
        if self.given.contains(key) {
            return Ok(false);
        }
        self.bytes.add(key, env)?;
        let is_new = self.given.insert(key.into());
        debug_assert!(is_new, "it was looked for");
        Ok(is_new)
    }

    pub fn give_back(self, env: &ExecEnv<'_>) {
        self.bytes.give_back(env);
    }
}

/// The ranges of all members, for the row so far.
pub(super) fn walks(
    union: &IndexUnion,
    def: &TableDef,
    row: &[Value],
    env: &ExecEnv<'_>,
) -> ExecResult<Vec<Walk>> {
    let members = union.members.iter().map(|member| {
        let codec = &def.indexes[member.index].codec;
        Ok((member.index, member.ranges.build(codec, row, env)?))
    });
    members.collect()
}

/// Clustered keys of the rows in the ranges, in their order.
pub(super) fn found_rows(
    walks: &[Walk],
    def: &TableDef,
    view: View,
    (exec, env): (&ExecCtx<'_>, &ExecEnv<'_>),
) -> ExecResult<FoundKeys> {
    let mut found = Found::default();
    for (index, ranges) in walks {
        let index = &def.indexes[*index];
        if view == View::Snapshot {
            def.check_visible(index, exec.txn().snapshot())?;
        }
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            let (txn, forward) = (exec.txn(), Direction::Forward);
            let entries = txn.scan(&index.tree, range.lower(), range.upper(), forward, view);
            let mut entries = entries.map_err(|e| engine_error(&e))?;
            while let Some((key, value)) = entries.next().map_err(|e| engine_error(&e))? {
                exec.tick()?;
                match index.primary {
                    true => found.add(key, env)?,
                    false => found.add(index.codec.clustered_of(key, value)?, env)?,
                }
            }
        }
    }
    found.finish(env)?;
    // The next opening finds others.
    found.bytes.give_back(env);
    Ok(Arc::new(found.keys))
}
