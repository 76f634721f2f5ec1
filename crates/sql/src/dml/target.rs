//! Which tables a statement changes, and collecting the rows it is about.
//!
//! Neighbours: `insert`, `update`, `delete` compile with it; `exec::target` finds and locks the rows.
//! **Invariants**: only stored tables are changed; [`Search::each`] has read every row under its
//! lock before the first is written.

use std::collections::HashSet;
use std::sync::Arc;

use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_exec::SubqueryStates;
use esker_sql_exec::{Purpose, TargetPlan, charge, row_bytes};
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

/// A planned search for the rows of a statement.
pub(super) struct Search {
    plan: TargetPlan,
    /// Several tables: a target row may come more than once.
    joined: bool,
}

impl Search {
    pub(super) fn new(plan: TargetPlan, joined: bool) -> Self {
        Self { plan, joined }
    }

    pub(super) fn query(&self) -> &Arc<QueryPlan> {
        self.plan.query()
    }

    /// Does it join several tables?
    pub(super) fn joins(&self) -> bool {
        self.joined
    }

    pub(super) fn cost_rows(&self) -> f64 {
        self.plan.cost_rows()
    }

    /// To tell rows that were met before.
    pub(super) fn seen(&self) -> Seen {
        Seen(self.joined.then(HashSet::new))
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
        for (at, row) in self.collect(env, states)?.iter_mut().enumerate() {
            (env.check_killed)()?;
            f(env, row, at)?;
        }
        Ok(())
    }

    /// All rows, found and locked.
    pub(super) fn all(
        &self,
        env: &mut DmlEnv<'_>,
        states: &SubqueryStates,
    ) -> Result<Vec<Vec<Value>>, ExecError> {
        if !self.plan.finds_one() {
            return self.collect(env, states);
        }
        let mut rows = Vec::new();
        self.each(env, states, |_, row, _| {
            rows.push(row.to_vec());
            Ok(())
        })?;
        Ok(rows)
    }

    fn collect(
        &self,
        env: &mut DmlEnv<'_>,
        states: &SubqueryStates,
    ) -> Result<Vec<Vec<Value>>, ExecError> {
        let mut stream = self.plan.open();
        let found = env.querying(|statement| {
            let executor = statement.executor(states);
            let accounts = statement.env(&executor);
            let mut rows = Vec::new();
            while let Some(row) = stream.next(statement)? {
                charge(&accounts, row_bytes(row), Purpose::Hash)?;
                rows.push(row.to_vec());
            }
            Ok::<_, ExecError>(rows)
        })?;
        // KILL ends a SLEEP() in a condition: what it says then is no answer.
        (env.check_killed)()?;
        Ok(found)
    }

    /// Takes target `nth` out of a row: its stored bytes go to the scratch's `old_row` (whose buffer
    /// stays in the row for the next one), its clustered key is returned. `None` where an outer join
    /// found no row.
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

/// Target rows met so far, where a join may repeat them.
pub(super) struct Seen(Option<HashSet<(usize, Vec<u8>)>>);

impl Seen {
    /// Is this the first time that the row of target `nth` comes?
    pub(super) fn is_new(&mut self, nth: usize, key: &[u8]) -> bool {
        self.0
            .as_mut()
            .is_none_or(|seen| seen.insert((nth, key.to_vec())))
    }
}
