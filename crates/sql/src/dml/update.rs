//! UPDATE of one table or of several joined ones.
//!
//! Neighbours: `exec::target` finds and locks the rows, `change` computes and writes them.
//! **Invariants**: all rows are found and locked before the first is written, so a row that moves
//! within an index is not met twice; of a row that a join gives several times the first counts. A table that is
//! updated under two names keeps what both assign.

use std::collections::BTreeSet;
use std::sync::Arc;

use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::codec::RowReader;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::InfoText;
use esker_sql_exec::SubqueryStates;
use esker_sql_exec::{TakenRows, TargetClauses, TargetScope};
use esker_sql_plan::bind::{BindEnv, ColumnAt, LockReason, Need, Scope};
use esker_sql_plan::plan::QueryPlan;
use esker_sql_syntax::ast::{TableRef, Update};
use esker_types::{Level, SqlError, SqlResult, Value, errors};

use super::change::{Assignment, Changed, RowChanger};
use super::change_fired::{ChangedRow, is_null_refused};
use super::duplicate::duplicate_entry;
use super::exprs::TableExprs;
use super::foreign::{ForeignKeyPlan, RowEffects, is_ignorable};
use super::insert::compile_cell;
use super::target::{Search, not_updatable};
use super::through_view::{self, Assigned, is_failed_check};
use super::{Beside, DmlDone, DmlEnv, strict_writes};

/// A compiled UPDATE.
pub struct CompiledUpdate {
    search: Search,
    /// One per target of the search, in the same order.
    changers: Vec<RowChanger>,
    tables: Vec<Arc<TableDef>>,
    /// A table is updated under two names.
    has_twins: bool,
    pub(super) ignore: bool,
    foreign: ForeignKeyPlan,
    beside: Beside,
    pub(super) refused_limit: Option<SqlError>,
}

/// Notes the tables that are changed, all by the name of the first, as in MySQL.
fn note_targets(env: &BindEnv<'_>, scope: &Scope<'_>, assigned: &[Assigned]) {
    for Assigned { at, .. } in assigned {
        let tables = &scope.tables;
        if let Some(def) = tables[at.table].base_def() {
            env.note_target(def, tables[0].as_target("UPDATE"));
        }
    }
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
        note_targets(env, &target.scope, &assigned);
        let limit = update.limit.as_ref();
        let refused_limit = through_view::refused_limit(&target.scope, limit, "UPDATE");
        let has_twins = check_twins(&target.scope, &assigned)?;
        if has_twins {
            // In the order of FROM: of two values for one column the later name's stays.
            let places: BTreeSet<usize> = assigned.iter().map(|a| a.at.table).collect();
            places.into_iter().for_each(|place| {
                target.add_target(place);
            });
        }
        let mut by_table = assignments_by_table(env, &mut target, need, update, assigned)?;
        if has_twins {
            by_table.sort_by_key(|(table, _)| *table);
        }
        let changers = changers_of(env, &mut target, by_table)?;
        let clauses = TargetClauses {
            reason: match target.scope.joined_tables() {
                1 => LockReason::Updated,
                _ => LockReason::Asked,
            },
            filter: update.filter.as_ref(),
            order_by: &update.order_by,
            limit,
        };
        // A table that is updated under two names keeps what both assign.
        let sharing = several.then(|| (0..changers.len()).collect());
        let search = Search::new(target.plan(env, &clauses)?, sharing);
        let tables: Vec<_> = changers.iter().map(|c| c.table().clone()).collect();
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
            beside: Beside::of(env, &tables),
            tables,
            has_twins,
            ignore: update.ignore,
            refused_limit,
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

    /// Do triggers run for the rows that it changes?
    pub(super) fn fires(&self) -> bool {
        self.changers.iter().any(RowChanger::fires)
    }

    /// What its triggers and functions have to know.
    pub(super) fn beside(&self) -> &Beside {
        &self.beside
    }

    /// The query that finds the rows.
    pub fn query(&self) -> &Arc<QueryPlan> {
        self.search.query()
    }

    /// Does it search several tables?
    pub(super) fn joins(&self) -> bool {
        self.search.joins()
    }

    /// Estimated rows to look at.
    pub fn cost_rows(&self) -> f64 {
        self.search.cost_rows()
    }

    /// Runs.
    pub(super) fn run(&self, env: &mut DmlEnv<'_>) -> Result<DmlDone, ExecError> {
        let ctx = env.ctx;
        let _strict = strict_writes(ctx, self.ignore);
        let states = SubqueryStates::default();
        let (mut matched, mut changed) = (0, 0);
        self.search.each(env, &states, |env, row, at| {
            for (nth, changer) in self.changers.iter().enumerate() {
                let Some(key) = self.search.take_stored(nth, row, env.scratch) else {
                    continue;
                };
                if self.foreign.is_still_there(env, changer.table(), &key)? {
                    if self.has_twins {
                        env.reread(changer.table(), &key)?;
                    }
                    matched += 1;
                    let place = (nth, at);
                    changed += u64::from(self.change(env, &states, place, row, &key)?);
                }
                self.search.give_back(nth, row, key);
            }
            Ok(())
        })?;
        env.scratch.trim();
        let insert_id = ctx.diagnostics.told_insert_id.get().unwrap_or(0);
        let warnings = ctx.diagnostics.count();
        Ok(summed_up(env, (matched, changed), insert_id, warnings))
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
        changer.assign_all(env, states, row, at as u64 + 1, self.is_lenient(env))?;
        self.write(env, states, (nth, row), key)
            .map(|written| written == Some(true))
    }

    /// Is NULL for a NOT NULL column a warning?
    fn is_lenient(&self, env: &DmlEnv<'_>) -> bool {
        self.ignore || !env.ctx.sql_mode.is_strict()
    }

    /// Writes a row that has its new values: whether they are others. `None`: it is gone, or under IGNORE cannot be
    /// changed.
    fn write(
        &self,
        env: &mut DmlEnv<'_>,
        states: &SubqueryStates,
        (nth, row): (usize, &mut [Value]),
        key: &[u8],
    ) -> Result<Option<bool>, ExecError> {
        let changer = &self.changers[nth];
        let place = env.txn.savepoint();
        let error = match changer.write(env, states, row, key, (&self.foreign, nth)) {
            Ok(Changed::Yes) => return Ok(Some(true)),
            Ok(Changed::No) => return Ok(Some(false)),
            Ok(Changed::Gone) => return Ok(None),
            Ok(Changed::Conflict(conflict)) => {
                let table = changer.table();
                let row = RowReader::new(&table.layout, &env.ctx.time_zone, &env.scratch.row)?;
                duplicate_entry(table, &table.indexes[conflict.index], &row)
            }
            Err(ExecError::Sql(e)) if is_failed_check(&e) || is_ignorable(&e) => e,
            Err(e) => {
                env.txn.rollback_to(place);
                return Err(e);
            }
        };
        env.txn.rollback_to(place);
        if !self.ignore {
            return Err(error.into());
        }
        env.ctx.warn(Level::Warning, error.code, error.message);
        Ok(None)
    }
}

/// The assignments, by table of the scope.
fn assignments_by_table(
    env: &BindEnv<'_>,
    target: &mut TargetScope<'_>,
    need: Need,
    update: &Update,
    assigned: Vec<Assigned>,
) -> SqlResult<Vec<(usize, Vec<Assignment>)>> {
    let mut by_table: Vec<(usize, Vec<Assignment>)> = Vec::new();
    for (assignment, Assigned { at, view }) in update.assignments.iter().zip(assigned) {
        let found = target.add_target(at.table).map(|t| t.def.clone());
        let scope = &target.scope;
        let alias = &scope.tables[view.unwrap_or(at.table)].alias;
        let refused = || not_updatable(alias, "UPDATE");
        let def = found.ok_or_else(refused)?;
        let through = view.and_then(|place| scope.tables[place].merged.as_ref());
        if through.is_some_and(|view| view.rereads_itself(def.id)) {
            return Err(refused());
        }
        let seen = view.and_then(|place| scope.seen_through(place, at.table));
        let def = seen.unwrap_or(def);
        env.names.check_columns(need, &def, &[at.column], true)?;
        scope.admit_inside(env, Need::Update, at.table, &[at.column])?;
        let cell = compile_cell(env, scope, &def, at.column, &assignment.value)?;
        let one = Assignment {
            col: at.column,
            cell,
        };
        match by_table.iter_mut().find(|(table, _)| *table == at.table) {
            Some((_, all)) => all.push(one),
            None => by_table.push((at.table, vec![one])),
        }
    }
    Ok(by_table)
}

/// What changes the rows of each table.
fn changers_of(
    env: &BindEnv<'_>,
    target: &mut TargetScope<'_>,
    by_table: Vec<(usize, Vec<Assignment>)>,
) -> SqlResult<Vec<RowChanger>> {
    let changers = by_table.into_iter().map(|(table, assignments)| {
        let target_table = target.add_target(table).map(|t| t.def.clone());
        let def = target_table.ok_or_else(|| not_updatable("", "UPDATE"))?;
        let exprs = TableExprs::compile(env.ctx, &def)?;
        let partitions = &target.scope.tables[table].partitions;
        let exprs = exprs.within(env.ctx, &def, partitions)?;
        let slot_of = |column| target.scope.slot_of(ColumnAt { table, column });
        let check = through_view::check_of(&target.scope, table).map(Arc::new);
        Ok(RowChanger::new(def, exprs, assignments, slot_of).checked_by(check))
    });
    changers.collect()
}

/// What an UPDATE has done.
fn summed_up(
    env: &DmlEnv<'_>,
    (matched, changed): (u64, u64),
    insert_id: u64,
    warnings: u64,
) -> DmlDone {
    DmlDone {
        affected_rows: if env.found_rows { matched } else { changed },
        insert_id,
        info: InfoText::counts(&[
            ("Rows matched: ", matched),
            ("  Changed: ", changed),
            ("  Warnings: ", warnings),
        ]),
        ..DmlDone::default()
    }
}

/// Is a table assigned to under two names?
///
/// # Errors
/// 1706: and its primary key or what decides the partition is, under one of them.
fn check_twins(scope: &Scope<'_>, assigned: &[Assigned]) -> SqlResult<bool> {
    let id_of = |place: usize| scope.tables[place].base_def().map(|def| def.primary().id);
    let places: BTreeSet<usize> = assigned.iter().map(|a| a.at.table).collect();
    let mut has_twins = false;
    for &one in &places {
        for &other in places.range(one + 1..) {
            if id_of(one).is_none() || id_of(one) != id_of(other) {
                continue;
            }
            has_twins = true;
            let moves = |a: &Assigned| {
                let def = scope.tables[a.at.table].base_def();
                let moves = def.is_some_and(|def| {
                    let column = &def.columns[a.at.column].name;
                    let partitioning = def.partitioning.as_ref();
                    def.primary().parts.iter().any(|p| p.col == a.at.column)
                        || partitioning.is_some_and(|by| by.decides(column))
                });
                moves && [one, other].contains(&a.at.table)
            };
            if assigned.iter().any(moves) {
                let alias_of = |place: usize| {
                    let by = assigned.iter().find(|a| a.at.table == place);
                    &scope.tables[by.and_then(|a| a.view).unwrap_or(place)].alias
                };
                return Err(errors::key_updated_twice(alias_of(one), alias_of(other)));
            }
        }
    }
    Ok(has_twins)
}

/// An UPDATE of tables with triggers, between two of its steps.
pub(crate) struct UpdateSteps {
    states: SubqueryStates,
    rows: TakenRows,
    /// The statement's row, its number, and the target in it that comes next.
    row: Vec<Value>,
    number: u64,
    next: usize,
    /// The row that is being changed: its key, and as it is stored.
    key: Vec<u8>,
    stored: Vec<u8>,
    matched: u64,
    changed: u64,
}

impl UpdateSteps {
    /// The number of the target whose row is being changed.
    pub(crate) fn target(&self) -> usize {
        assert!(self.next > 0, "no row has come");
        self.next - 1
    }
}

impl CompiledUpdate {
    /// Finds and locks the rows.
    pub(crate) fn begin(&self, env: &mut DmlEnv<'_>) -> Result<UpdateSteps, ExecError> {
        let states = SubqueryStates::default();
        let rows = self.search.all(env, &states)?;
        Ok(UpdateSteps {
            rows,
            states,
            row: Vec::new(),
            number: 0,
            next: self.changers.len(),
            key: Vec::new(),
            stored: Vec::new(),
            matched: 0,
            changed: 0,
        })
    }

    /// The next row to change, as BEFORE triggers see it.
    pub(crate) fn next(
        &self,
        env: &mut DmlEnv<'_>,
        steps: &mut UpdateSteps,
    ) -> Result<Option<ChangedRow>, ExecError> {
        let _strict = strict_writes(env.ctx, self.ignore);
        loop {
            (env.check_killed)()?;
            if steps.next == self.changers.len() {
                if !steps.rows.next(&mut steps.row)? {
                    return Ok(None);
                }
                steps.next = 0;
                steps.number += 1;
            }
            let nth = steps.next;
            steps.next += 1;
            let row = &mut steps.row;
            let Some(key) = self.search.take_stored(nth, row, env.scratch) else {
                continue;
            };
            let changer = &self.changers[nth];
            if !env.reread(changer.table(), &key)? {
                continue;
            }
            steps.matched += 1;
            let old = changer.load(env, row)?;
            let lenient = self.is_lenient(env);
            let new = changer.propose(env, &steps.states, (row, steps.number), lenient)?;
            steps.key = key;
            steps.stored.clone_from(&env.scratch.old_row);
            return Ok(Some(ChangedRow { old, new }));
        }
    }

    /// Writes the row that came last as BEFORE triggers have left it: as AFTER triggers see it, unless it is gone or
    /// IGNORE has left it alone.
    pub(crate) fn write_proposed(
        &self,
        env: &mut DmlEnv<'_>,
        steps: &mut UpdateSteps,
        new: Vec<Value>,
    ) -> Result<Option<Vec<Value>>, ExecError> {
        let _strict = strict_writes(env.ctx, self.ignore);
        let (nth, row) = (steps.target(), &mut steps.row);
        let changer = &self.changers[nth];
        env.scratch.old_row.clone_from(&steps.stored);
        let lenient = self.is_lenient(env);
        match changer.accept(env, &steps.states, (row, new), lenient) {
            Err(ExecError::Sql(e)) if self.ignore && is_null_refused(&e) => {
                env.ctx.warn(Level::Warning, e.code, e.message);
                return Ok(None);
            }
            accepted => accepted?,
        }
        let Some(is_other) = self.write(env, &steps.states, (nth, row), &steps.key)? else {
            return Ok(None);
        };
        steps.changed += u64::from(is_other);
        let written = changer.whole_row(env.ctx, &steps.stored, row)?;
        Ok(Some(written))
    }

    /// Sums up; `warnings`: those of the whole statement.
    pub(crate) fn finish(
        &self,
        env: &mut DmlEnv<'_>,
        steps: &UpdateSteps,
        warnings: u64,
    ) -> DmlDone {
        env.scratch.trim();
        let insert_id = env.ctx.diagnostics.told_insert_id.get().unwrap_or(0);
        summed_up(env, (steps.matched, steps.changed), insert_id, warnings)
    }
}
