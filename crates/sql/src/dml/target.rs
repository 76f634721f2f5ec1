//! Which tables a statement changes, and collecting the rows it is about.
//!
//! Neighbours: `insert`, `update`, `delete` compile with it; `exec::target` finds and locks the rows.
//! **Invariants**: only stored tables are changed; [`Search::each`] has read every row under its lock before the first
//! is written, and keeps them in memory as far as they fit; a stored row that a join gives several times is a target
//! once, in the first row that has it, and rows of the join without a target are not kept.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_exec::SubqueryStates;
use esker_sql_exec::{Budget, Purpose, RowBuffer, TakenRows, TargetPlan, charge};
use esker_sql_plan::plan::QueryPlan;
use esker_sql_syntax::ast::ColumnRef;
use esker_types::{SqlError, SqlResult, Value, errors};

use super::DmlEnv;
use super::write::Scratch;

/// 1288.
pub(super) fn not_updatable(table: &str, statement: &str) -> SqlError {
    let text = format!("The target table {table} of the {statement} is not updatable");
    SqlError::new(1288, "HY000", text)
}

/// 1054 for a column that is assigned to.
pub(super) fn unknown_column(column: &ColumnRef) -> SqlError {
    let mut full = String::new();
    for part in [&column.schema, &column.table].into_iter().flatten() {
        full.push_str(&part.text);
        full.push('.');
    }
    full.push_str(&column.name.text);
    errors::unknown_column(&full, "field list")
}

/// Ordinal of a column that is assigned to in a statement about one table.
pub(super) fn assigned_column(
    table: &TableDef,
    column: &ColumnRef,
    alias: &str,
) -> SqlResult<usize> {
    let named = column.table.as_ref().is_none_or(|t| &*t.text == alias);
    let schema = column
        .schema
        .as_ref()
        .is_none_or(|s| *s.text == *table.schema);
    let found = if named && schema {
        table.column_index(&column.name.text)
    } else {
        None
    };
    found.ok_or_else(|| unknown_column(column))
}

/// Bytes that a met row takes besides its key.
const MET_BYTES: u64 = 48;

/// Of a stored row with more bytes a statement that need not see it keeps the key alone: to read it again costs less
/// than its removal, and to keep it may take room on a disk that has none.
const LARGE_ROW: usize = 1024;

/// A planned search for the rows of a statement.
pub(super) struct Search {
    plan: TargetPlan,
    /// Of a join, where a target's row may come more than once: by target the first one that shares its rows, or
    /// itself.
    sharing: Option<Vec<usize>>,
    /// Of large rows of its one target, only the keys are kept.
    by_key: bool,
}

impl Search {
    pub(super) fn new(plan: TargetPlan, sharing: Option<Vec<usize>>) -> Self {
        debug_assert!(
            sharing
                .as_ref()
                .is_none_or(|sharing| sharing.len() == plan.targets.len()
                    && sharing.iter().enumerate().all(|(nth, first)| *first <= nth))
        );
        Self {
            plan,
            sharing,
            by_key: false,
        }
    }

    /// Keeps only the keys of large rows, if there is one target: [`Self::take`] reads them again.
    pub(super) fn keeping_keys(self) -> Self {
        let by_key = self.sharing.is_none();
        debug_assert!(!by_key || self.plan.targets.len() == 1);
        Self { by_key, ..self }
    }

    pub(super) fn query(&self) -> &Arc<QueryPlan> {
        self.plan.query()
    }

    /// Does it join several tables?
    pub(super) fn joins(&self) -> bool {
        self.sharing.is_some()
    }

    pub(super) fn cost_rows(&self) -> f64 {
        self.plan.cost_rows()
    }

    /// Calls `f` with every row, numbered from 0; all are found and locked before the first call.
    pub(super) fn each<'e>(
        &self,
        env: &mut DmlEnv<'e>,
        states: &SubqueryStates,
        mut f: impl FnMut(&mut DmlEnv<'e>, &mut [Value], usize) -> Result<(), ExecError>,
    ) -> Result<(), ExecError> {
        if self.plan.finds_one() {
            let mut found = std::mem::take(&mut env.scratch.found);
            let result = match env.evaluating(states, |env| self.plan.find_one(&mut found, env)) {
                Ok(true) => f(env, &mut found.row, 0),
                other => other.map(drop),
            };
            env.scratch.found = found;
            return result;
        }
        let mut found = self.collect(env, states)?.into_rows();
        let (mut row, mut at) = (Vec::new(), 0);
        while found.next(&mut row)? {
            (env.check_killed)()?;
            f(env, &mut row, at)?;
            at += 1;
        }
        Ok(())
    }

    /// All rows, found and locked.
    pub(super) fn all(
        &self,
        env: &mut DmlEnv<'_>,
        states: &SubqueryStates,
    ) -> Result<TakenRows, ExecError> {
        if !self.plan.finds_one() {
            return Ok(self.collect(env, states)?.into_rows());
        }
        let mut one = None;
        self.each(env, states, |_, row, _| {
            one = Some(row.to_vec());
            Ok(())
        })?;
        Ok(TakenRows::of(one))
    }

    fn collect(
        &self,
        env: &mut DmlEnv<'_>,
        states: &SubqueryStates,
    ) -> Result<RowBuffer, ExecError> {
        let mut stream = self.plan.open();
        let found = env.querying(|statement| {
            let executor = statement.executor(states);
            let accounts = statement.env(&executor);
            let mut rows = RowBuffer::default();
            let mut met = Met::default();
            while let Some(row) = stream.next(statement)? {
                if let Some(row) = self.key_alone(row) {
                    rows.push(row.iter(), Budget::Targets, &accounts)?;
                    continue;
                }
                let Some(row) = self.first_met(row, &mut met) else {
                    continue;
                };
                let met_bytes = std::mem::take(&mut met.bytes);
                if met_bytes > 0 {
                    charge(&accounts, met_bytes, Purpose::Hash)?;
                }
                rows.push(row.iter(), Budget::Targets, &accounts)?;
            }
            rows.finish()?;
            Ok::<_, ExecError>(rows)
        })?;
        // KILL ends a SLEEP() in a condition: what it says then is no answer.
        (env.check_killed)()?;
        Ok(found)
    }

    /// Of a large row the key alone.
    fn key_alone(&self, row: &[Value]) -> Option<Vec<Value>> {
        let target = self.plan.targets.first().filter(|_| self.by_key)?;
        let slot = target.row_slot as usize;
        let Value::Str(stored) = &row[slot] else {
            return None;
        };
        (stored.len() > LARGE_ROW).then(|| {
            let mut kept = vec![Value::Null; row.len()];
            let key = target.key_slot as usize;
            kept[key] = row[key].clone();
            kept
        })
    }

    /// The row with those targets alone that were not met before, or nothing if there is none.
    fn first_met<'r>(&self, row: &'r [Value], met: &mut Met) -> Option<Cow<'r, [Value]>> {
        let Some(sharing) = &self.sharing else {
            return Some(Cow::Borrowed(row));
        };
        let mut fresh = 0u64;
        for (nth, target) in self.plan.targets.iter().enumerate() {
            if let Value::Str(key) = &row[target.key_slot as usize] {
                fresh |= u64::from(met.is_new(sharing[nth], key)) << nth;
            }
        }
        (fresh != 0).then(|| {
            let mut kept = row.to_vec();
            for (nth, target) in self.plan.targets.iter().enumerate() {
                if fresh >> nth & 1 == 0 {
                    kept[target.key_slot as usize] = Value::Null;
                    kept[target.row_slot as usize] = Value::Null;
                }
            }
            Cow::Owned(kept)
        })
    }

    /// As [`Self::take_stored`], of a search that may have kept the key alone; `None` also where the row has gone
    /// since.
    pub(super) fn take(
        &self,
        (nth, table): (usize, &TableDef),
        row: &mut [Value],
        env: &mut DmlEnv<'_>,
    ) -> Result<Option<Vec<u8>>, ExecError> {
        let target = &self.plan.targets[nth];
        if !self.by_key || !row[target.row_slot as usize].is_null() {
            return Ok(self.take_stored(nth, row, env.scratch));
        }
        let Value::Str(key) = std::mem::take(&mut row[target.key_slot as usize]) else {
            return Ok(None);
        };
        Ok(env.reread(table, &key)?.then_some(key))
    }

    /// Takes target `nth` out of a row: its stored bytes go to the scratch's `old_row` (whose buffer
    /// stays in the row for the next one), its clustered key is returned. `None` where an outer join
    /// found no row, or its row was met before.
    pub(super) fn take_stored(
        &self,
        nth: usize,
        row: &mut [Value],
        scratch: &mut Scratch,
    ) -> Option<Vec<u8>> {
        let target = &self.plan.targets[nth];
        let Value::Str(stored) = &mut row[target.row_slot as usize] else {
            return None;
        };
        std::mem::swap(stored, &mut scratch.old_row);
        let Value::Str(key) = std::mem::take(&mut row[target.key_slot as usize]) else {
            return None;
        };
        Some(key)
    }

    /// Puts the key of [`Self::take_stored`] back: its buffer is for the next row.
    pub(super) fn give_back(&self, nth: usize, row: &mut [Value], key: Vec<u8>) {
        row[self.plan.targets[nth].key_slot as usize] = Value::Str(key);
    }
}

/// Target rows that a join has given so far.
#[derive(Default)]
struct Met {
    /// Clustered keys by the target that they were met for.
    keys: Vec<HashSet<Box<[u8]>>>,
    /// What the keys take that is not charged yet.
    bytes: u64,
}

impl Met {
    /// Is this the first time that the row comes?
    fn is_new(&mut self, target: usize, key: &[u8]) -> bool {
        if self.keys.len() <= target {
            self.keys.resize_with(target + 1, HashSet::new);
        }
        let keys = &mut self.keys[target];
        let is_new = !keys.contains(key) && keys.insert(key.into());
        if is_new {
            self.bytes += key.len() as u64 + MET_BYTES;
        }
        is_new
    }
}
