//! DELETE from one table or from several joined ones.
//!
//! Neighbours: `exec::target` finds and locks the rows, `write` removes them with their entries.
//! **Invariant**: all rows are found and locked before the first is removed; a row that a join gives
//! several times is removed once.

use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_exec::SubqueryStates;
use esker_sql_exec::{TakenRows, TargetClauses, TargetScope};
use esker_sql_plan::bind::{BindEnv, LockReason, Need, ScopeTable};
use esker_sql_plan::plan::QueryPlan;
use esker_sql_syntax::ast::{Delete, ObjectName, TableRef};
use std::sync::Arc;

use esker_types::trigger::TriggerEvent;
use esker_types::{Level, SqlError, SqlResult, Value, errors};

use super::foreign::{Enforcer, ForeignKeyPlan, RowAt, RowEffects, is_ignorable};
use super::insert::decode_row;
use super::target::{Search, not_updatable};
use super::through_view;
use super::{Beside, DmlDone, DmlEnv, strict_writes};

/// A compiled DELETE.
pub struct CompiledDelete {
    search: Search,
    pub(super) ignore: bool,
    tables: Vec<Arc<TableDef>>,
    foreign: ForeignKeyPlan,
    beside: Beside,
    pub(super) refused_limit: Option<SqlError>,
}

/// Is this name of a table given to it by the statement?
fn is_alias(tables: &[TableRef], name: &str) -> bool {
    tables.iter().any(|table| match table {
        TableRef::Table(table) => table.alias.as_ref().is_some_and(|a| *a.text == *name),
        TableRef::Derived { alias, .. } | TableRef::Json { alias, .. } => *alias.text == *name,
        TableRef::Join(join) => {
            is_alias(std::slice::from_ref(&join.left), name)
                || is_alias(std::slice::from_ref(&join.right), name)
        }
        TableRef::List(tables) => is_alias(tables, name),
    })
}

/// The table of the scope that a multi-table DELETE names: 1109. An alias stands alone, whatever the table's database;
/// a table without one is meant with its database, or the current one.
fn find_target(
    target: &TargetScope<'_>,
    from: &[TableRef],
    name: &ObjectName,
    database: Option<&str>,
) -> SqlResult<usize> {
    let is_alias = is_alias(from, &name.name.text);
    let schema = name.schema.as_ref().map(|s| &*s.text);
    let is_it = |t: &ScopeTable| {
        let is_meant = match is_alias {
            true => schema.is_none(),
            // A common table expression has no database.
            false if t.schema.is_empty() => schema.is_none(),
            false => schema.or(database) == Some(&*t.schema),
        };
        is_meant && t.views.is_empty() && *t.alias == *name.name.text
    };
    let mut places = (0..target.scope.tables.len()).filter(|at| is_it(&target.scope.tables[*at]));
    match (places.next(), places.next()) {
        (Some(_), Some(_)) => Err(errors::not_unique_table(&name.name.text)),
        (Some(place), None) => Ok(place),
        (None, _) => Err(errors::unknown_table_in(&name.name, "MULTI DELETE")),
    }
}

/// By table: the place of the first one that is the same, maybe under another name.
fn first_of_each(tables: &[Arc<TableDef>]) -> Vec<usize> {
    let first = |table: &Arc<TableDef>| tables.iter().position(|t| t.id == table.id);
    tables.iter().map_while(first).collect()
}

fn check(delete: &Delete, database: Option<&str>) -> SqlResult<()> {
    if !delete.returning.is_empty() {
        return Err(SqlError::not_supported("RETURNING"));
    }
    // An alias needs one as well.
    if database.is_none() && delete.targets.iter().any(|t| t.schema.is_none()) {
        return Err(errors::no_database());
    }
    Ok(())
}

impl CompiledDelete {
    /// Compiles.
    pub(super) fn compile(env: &BindEnv<'_>, delete: &Delete) -> SqlResult<Self> {
        let database = env.ctx.session.database();
        check(delete, database)?;
        let need = match delete.targets.as_slice() {
            [] => Need::Delete,
            _ => Need::DeleteJoined,
        };
        let mut target = TargetScope::bind(
            env,
            need,
            delete.with.as_ref(),
            &delete.from,
            delete.hints.as_deref(),
        )?;
        let places: Vec<usize> = match delete.targets.as_slice() {
            [] => vec![0],
            names => names
                .iter()
                .map(|n| find_target(&target, &delete.from, n, database))
                .collect::<SqlResult<_>>()?,
        };
        let mut tables: Vec<Arc<TableDef>> = Vec::with_capacity(places.len());
        for (at, &place) in places.iter().enumerate() {
            if places[..at].contains(&place) {
                return Err(errors::not_unique_table(&target.scope.tables[place].alias));
            }
            let table = through_view::deleted_table(env, &target, place)?;
            let def = target.add_target(table).map(|t| t.def.clone());
            let named = &target.scope.tables[place];
            let def = def.ok_or_else(|| not_updatable(&named.alias, "DELETE"))?;
            let view = named.merged.as_ref().map(|view| &view.def);
            if need == Need::DeleteJoined {
                let (schema, name) = match view {
                    Some(view) => (&view.schema, &view.name),
                    None => (&def.schema, &def.name),
                };
                env.names.admit(Need::Delete, schema, name)?;
            }
            env.note_target(&def, named.as_target("DELETE"));
            tables.push(def);
        }
        let clauses = TargetClauses {
            reason: LockReason::Asked,
            filter: delete.filter.as_ref(),
            order_by: &delete.order_by,
            limit: delete.limit.as_ref(),
        };
        let refused_limit = through_view::refused_limit(&target.scope, clauses.limit, "DELETE");
        let joined = target.scope.joined_tables() > 1;
        let effects = || RowEffects {
            deletes: true,
            ..RowEffects::default()
        };
        let targets = tables.iter().map(|table| (table.clone(), effects()));
        let lookup = |schema: &str, name: &str| env.names.related(schema, name);
        Ok(Self {
            foreign: ForeignKeyPlan::new(&lookup, targets.collect()),
            search: Search::new(
                target.plan(env, &clauses)?,
                joined.then(|| first_of_each(&tables)),
            )
            .keeping_keys(),
            ignore: delete.ignore,
            beside: Beside::of(env, &tables),
            tables,
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

    /// Do triggers run for the rows that it deletes?
    pub(super) fn fires(&self) -> bool {
        let has = |table: &Arc<TableDef>| table.has_triggers_for(TriggerEvent::Delete);
        self.tables.iter().any(has)
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
        let mut deleted = 0;
        self.search.each(env, &states, |env, row, _| {
            for (nth, table) in self.tables.iter().enumerate() {
                let Some(key) = self.search.take((nth, table), row, env)? else {
                    continue;
                };
                if self.foreign.is_still_there(env, table, &key)? {
                    deleted += u64::from(self.delete(env, nth, &key)?);
                }
                self.search.give_back(nth, row, key);
            }
            Ok(())
        })?;
        env.scratch.trim();
        Ok(DmlDone {
            affected_rows: deleted,
            ..DmlDone::default()
        })
    }

    /// Deletes a row, whose latest version lies in the scratch's `old_row`, from target `nth`. Of a row that cannot be
    /// deleted all stays; under IGNORE one with children stays with a warning: false.
    fn delete(&self, env: &mut DmlEnv<'_>, nth: usize, key: &[u8]) -> Result<bool, ExecError> {
        let place = env.txn.savepoint();
        let deleted = self.delete_whole(env, nth, key);
        if deleted.is_err() {
            env.txn.rollback_to(place);
        }
        match deleted {
            Err(ExecError::Sql(e)) if self.ignore && is_ignorable(&e) => {
                env.ctx.warn(Level::Warning, e.code, e.message);
                Ok(false)
            }
            deleted => deleted.map(|()| true),
        }
    }

    /// Deletes a row and what its foreign keys ask for.
    fn delete_whole(&self, env: &mut DmlEnv<'_>, nth: usize, key: &[u8]) -> Result<(), ExecError> {
        if let Some((mut enforcer, scratch)) = Enforcer::new(&self.foreign, env) {
            let row = RowAt {
                node: nth,
                clustered: key,
                stored: &scratch.old_row,
            };
            enforcer.settle_children(row, None)?;
        }
        env.delete_old_row(&self.tables[nth], key)
    }
}

/// A DELETE from tables with triggers, between two of its steps.
pub(crate) struct DeleteSteps {
    rows: TakenRows,
    /// The statement's row, and the target in it that comes next.
    row: Vec<Value>,
    next: usize,
    /// The key of the row that is being deleted.
    key: Vec<u8>,
    deleted: u64,
}

impl DeleteSteps {
    /// The number of the target whose row is being deleted.
    pub(crate) fn target(&self) -> usize {
        assert!(self.next > 0, "no row has come");
        self.next - 1
    }
}

impl CompiledDelete {
    /// Finds and locks the rows.
    pub(crate) fn begin(&self, env: &mut DmlEnv<'_>) -> Result<DeleteSteps, ExecError> {
        let rows = self.search.all(env, &SubqueryStates::default())?;
        Ok(DeleteSteps {
            rows,
            row: Vec::new(),
            next: self.tables.len(),
            key: Vec::new(),
            deleted: 0,
        })
    }

    /// The next row to delete, as triggers see it.
    pub(crate) fn next(
        &self,
        env: &mut DmlEnv<'_>,
        steps: &mut DeleteSteps,
    ) -> Result<Option<Vec<Value>>, ExecError> {
        loop {
            (env.check_killed)()?;
            if steps.next == self.tables.len() {
                if !steps.rows.next(&mut steps.row)? {
                    return Ok(None);
                }
                steps.next = 0;
            }
            let nth = steps.next;
            steps.next += 1;
            let table = &self.tables[nth];
            let Some(key) = self.search.take((nth, table), &mut steps.row, env)? else {
                continue;
            };
            if !env.reread(table, &key)? {
                continue;
            }
            let mut old = vec![Value::Null; table.columns.len()];
            decode_row(table, &env.ctx.time_zone, &env.scratch.old_row, &mut old)?;
            steps.key = key;
            return Ok(Some(old));
        }
    }

    /// Deletes the row that came last; false if a trigger has deleted it with a parent, or IGNORE has left it alone.
    pub(crate) fn delete_found(
        &self,
        env: &mut DmlEnv<'_>,
        steps: &mut DeleteSteps,
    ) -> Result<bool, ExecError> {
        let _strict = strict_writes(env.ctx, self.ignore);
        let nth = steps.target();
        let is_gone =
            env.reread(&self.tables[nth], &steps.key)? && self.delete(env, nth, &steps.key)?;
        steps.deleted += u64::from(is_gone);
        Ok(is_gone)
    }

    /// Sums up.
    pub(crate) fn finish(&self, env: &mut DmlEnv<'_>, steps: &DeleteSteps) -> DmlDone {
        env.scratch.trim();
        DmlDone {
            affected_rows: steps.deleted,
            ..DmlDone::default()
        }
    }
}
