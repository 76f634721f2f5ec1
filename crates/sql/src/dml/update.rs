//! UPDATE of one table or of several joined ones.
//!
//! Neighbours: `exec::target` finds and locks the rows, `change` computes and writes them.
//! **Invariants**: all rows are found and locked before the first is written, so a row that moves
//! within an index is not met twice; of a row that a join gives several times the first counts.

use std::sync::Arc;

use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::codec::RowReader;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::InfoText;
use esker_sql_exec::SubqueryStates;
use esker_sql_exec::{TargetClauses, TargetScope};
use esker_sql_plan::bind::{BindEnv, ColumnAt, LockReason, Need};
use esker_sql_plan::plan::QueryPlan;
use esker_sql_syntax::ast::{TableRef, Update};
use esker_types::{Level, SqlResult, Value, errors};

use super::change::{Assignment, Changed, RowChanger};
use super::duplicate::duplicate_entry;
use super::exprs::TableExprs;
use super::foreign::{ForeignKeyPlan, RowEffects, is_ignorable};
use super::insert::compile_cell;
use super::target::{Search, not_updatable};
use super::through_view::{self, Assigned, is_failed_check};
use super::{DmlDone, DmlEnv, strict_writes};

/// A compiled UPDATE.
pub struct CompiledUpdate {
    search: Search,
    /// One per target of the search, in the same order.
    changers: Vec<RowChanger>,
    tables: Vec<Arc<TableDef>>,
    ignore: bool,
    foreign: ForeignKeyPlan,
}

impl CompiledUpdate {
    /// Compiles.
    pub(super) fn compile(env: &BindEnv<'_>, update: &Update) -> SqlResult<Self> {
        let need = match update.tables.as_slice() {
            [TableRef::Table(_)] => Need::Update,
            _ => Need::UpdateOrRead,
        };
        let mut target = TargetScope::bind(
            env,
            need,
            update.with.as_ref(),
            &update.tables,
            update.hints.as_deref(),
        )?;
        let several = target.scope.joined_tables() > 1;
        if several && !update.order_by.is_empty() {
            return Err(errors::wrong_usage("UPDATE and ORDER BY"));
        }
        if several && update.limit.is_some() {
            return Err(errors::wrong_usage("UPDATE and LIMIT"));
        }
        let columns = update.assignments.iter().map(|a| &a.column);
        let assigned = through_view::assigned(&target.scope, columns)?;
        for Assigned { at, view } in &assigned {
            let tables = &target.scope.tables;
            if let Some(def) = tables[at.table].base_def() {
                match view {
                    Some(place) => env.note_target_of_view(def, &tables[*place].alias, "UPDATE"),
                    None => env.note_target(def, &tables[at.table].alias, false),
                }
            }
        }
        // By table of the scope: its assignments.
        let mut by_table: Vec<(usize, Vec<Assignment>)> = Vec::new();
        for (assignment, Assigned { at, view }) in update.assignments.iter().zip(assigned) {
            let found = target.add_target(at.table).map(|t| t.def.clone());
            let scope = &target.scope;
            let alias = &scope.tables[view.unwrap_or(at.table)].alias;
            let def = found.ok_or_else(|| not_updatable(alias, "UPDATE"))?;
            let seen = view.and_then(|place| scope.seen_through(place, at.table));
            let def = seen.unwrap_or(def);
            env.names.check_columns(need, &def, &[at.column], true)?;
            scope.admit_inside(env, Need::Update, at.table, &[at.column])?;
            let cell = compile_cell(env, &target.scope, &def, at.column, &assignment.value)?;
            let one = Assignment {
                col: at.column,
                cell,
            };
            match by_table.iter_mut().find(|(table, _)| *table == at.table) {
                Some((_, all)) => all.push(one),
                None => by_table.push((at.table, vec![one])),
            }
        }
        let mut changers = Vec::with_capacity(by_table.len());
        for (table, assignments) in by_table {
            let target_table = target.add_target(table).map(|t| t.def.clone());
            let def = target_table.ok_or_else(|| not_updatable("", "UPDATE"))?;
            let exprs = TableExprs::compile(env.ctx, &def)?;
            let slot_of = |column| target.scope.slot_of(ColumnAt { table, column });
            let check = through_view::check_of(&target.scope, table).map(Arc::new);
            changers.push(RowChanger::new(def, exprs, assignments, slot_of).checked_by(check));
        }
        let clauses = TargetClauses {
            reason: match target.scope.joined_tables() {
                1 => LockReason::Updated,
                _ => LockReason::Asked,
            },
            filter: update.filter.as_ref(),
            order_by: &update.order_by,
            limit: update.limit.as_ref(),
        };
        let search = Search::new(target.plan(env, &clauses)?, several);
        let tables = changers.iter().map(|c| c.table().clone()).collect();
        let effects = |c: &RowChanger| RowEffects {
            updates: c.touched_columns(),
            ..RowEffects::default()
        };
        let targets = changers.iter().map(|c| (c.table().clone(), effects(c)));
        let lookup = |schema: &str, name: &str| env.names.related(schema, name);
        Ok(Self {
            foreign: ForeignKeyPlan::new(&lookup, targets.collect()),
            search,
            changers,
            tables,
            ignore: update.ignore,
        })
    }

    /// The tables it changes.
    pub fn targets(&self) -> &[Arc<TableDef>] {
        &self.tables
    }

    /// The foreign keys it has to keep.
    pub(crate) fn foreign_keys(&self) -> &ForeignKeyPlan {
        &self.foreign
    }

    /// The query that finds the rows.
    pub fn query(&self) -> &Arc<QueryPlan> {
        self.search.query()
    }

    /// Estimated rows to look at.
    pub fn cost_rows(&self) -> f64 {
        self.search.cost_rows()
    }

    /// Runs.
    pub(super) fn run(&self, env: &mut DmlEnv<'_>) -> Result<DmlDone, ExecError> {
        let ctx = env.ctx;
        let _strict = strict_writes(ctx, self.ignore);
        let last_insert_id = ctx.session.last_insert_id();
        let states = SubqueryStates::default();
        let (mut matched, mut changed) = (0, 0);
        let mut seen = self.search.seen();
        self.search.each(env, &states, |env, row, at| {
            for (nth, changer) in self.changers.iter().enumerate() {
                let Some(key) = self.search.take_stored(nth, row, env.scratch) else {
                    continue;
                };
                let is_there = seen.is_new(nth, &key)
                    && self.foreign.is_still_there(env, changer.table(), &key)?;
                if is_there {
                    matched += 1;
                    let place = (nth, at);
                    changed += u64::from(self.change(env, &states, place, row, &key)?);
                }
                self.search.give_back(nth, row, key);
            }
            Ok(())
        })?;
        env.scratch.trim();
        let id = ctx.session.last_insert_id();
        Ok(DmlDone {
            affected_rows: if env.found_rows { matched } else { changed },
            insert_id: if id == last_insert_id { 0 } else { id },
            info: InfoText::counts(&[
                ("Rows matched: ", matched),
                ("  Changed: ", changed),
                ("  Warnings: ", ctx.diagnostics.count()),
            ]),
            ..DmlDone::default()
        })
    }

    /// Changes one row; false if nothing about it changes. Under IGNORE a row that cannot be changed
    /// stays, with a warning.
    fn change(
        &self,
        env: &mut DmlEnv<'_>,
        states: &SubqueryStates,
        (nth, at): (usize, usize),
        row: &mut [Value],
        key: &[u8],
    ) -> Result<bool, ExecError> {
        let changer = &self.changers[nth];
        let lenient = self.ignore || !env.ctx.sql_mode.is_strict();
        changer.assign_all(env, states, row, at as u64 + 1, lenient)?;
        let place = env.txn.savepoint();
        let error = match changer.write(env, states, row, key, (&self.foreign, nth)) {
            Ok(Changed::Yes) => return Ok(true),
            Ok(Changed::No) => return Ok(false),
            Ok(Changed::Conflict(conflict)) => {
                let table = changer.table();
                let row = RowReader::new(&table.layout, &env.ctx.time_zone, &env.scratch.row)?;
                duplicate_entry(table, &table.indexes[conflict.index], &row)
            }
            Err(ExecError::Sql(e)) if is_failed_check(&e) || is_ignorable(&e) => e,
            Err(e) => return Err(e),
        };
        if !self.ignore {
            return Err(error.into());
        }
        env.txn.rollback_to(place);
        env.ctx.warn(Level::Warning, error.code, error.message);
        Ok(false)
    }
}
