//! Statements that change rows: INSERT, REPLACE, UPDATE, DELETE.
//!
//! In flow order: `exprs` (defaults and CHECK of a table, bound) · `values` (assigning values to columns) · `change`
//! (an existing row), `change_fired` (one that triggers look at) · `insert`, `update`, `delete` (statements compiled
//! once, run often) · `write` (one row and all its index entries, under locks) · `foreign` (foreign keys of that row) ·
//! `logged` (rows for the binary log) · `target` (tables and rows of UPDATE and DELETE) · `through_view` (tables that
//! views stand for) · `duplicate` (error 1062) · `apply` (row events, below SQL). Neighbours: `session` compiles a
//! statement with `bind`'s environment, keeps the [`Compiled`] in its plan cache and runs it; `exec` finds the rows of
//! UPDATE and DELETE and runs subqueries.
//!
//! **Invariants**
//! - A compiled statement belongs to no session and holds for one catalog version.
//! - Rows are found first and changed then: no statement meets its own writes.
//! - Every key that is written is locked exclusively: the row's clustered key, and the keys of unique
//!   indexes that come or go. Uniqueness is decided on the latest version under that lock.
//! - [`ExecError::Wait`] leaves writes behind; the session undoes them with its statement savepoint
//!   before it runs the statement again.

pub(crate) mod apply;
mod change;
mod change_fired;
mod delete;
mod duplicate;
mod exprs;
pub(crate) mod foreign;
mod insert;
mod logged;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod oracle_tests;
mod target;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod through_view;
mod update;
mod values;
mod write;

use std::cell::Cell;
use std::sync::Arc;

use esker_engine::{Engine, LockMode, Seq, Txn, View};
use esker_sql_catalog::catalog::{AutoStep, TableDef, TableId};
use esker_sql_catalog::exec_error::{ExecError, ExecResult};
use esker_sql_catalog::result::{InfoText, Mode};
use esker_sql_exec::{
    ExecCtx, ExecEnv, LentTxn, Limits, StatementEnv, StoredFunctions, SubqueryStates, TempFiles,
};
use esker_sql_plan::bind::{BindEnv, LockReason};
use esker_sql_plan::expr::UserVars;
use esker_sql_plan::plan::QueryPlan;
use esker_sql_plan::plan::explain::Explainee;
use esker_sql_syntax::ast::Statement;
use esker_types::{EvalCtx, SqlError, SqlResult, Value};

use foreign::ForeignKeyPlan;

pub(crate) use change_fired::ChangedRow;
pub use delete::CompiledDelete;
pub(crate) use duplicate::{duplicate_entry, duplicate_number};
pub(crate) use exprs::{
    HIDDEN_PREFIX, TableExprs, bind_stored, check_repeatable, columns_of_stored,
    defaults_of_stored, generated_value, type_of_key_part, type_of_stored, validate,
};
pub use insert::{CompiledInsert, CompiledLoad};
pub(crate) use insert::{InsertSteps, StoreStep, as_counter, auto_value};
pub use logged::Log;
pub use update::CompiledUpdate;
pub(crate) use values::{Default, assign, default_of, implicit_value};
pub(crate) use write::Scratch;
use write::Writer;

/// A compiled statement that changes rows.
pub enum Compiled {
    /// INSERT, REPLACE.
    Insert(Box<CompiledInsert>),
    /// UPDATE.
    Update(CompiledUpdate),
    /// DELETE.
    Delete(CompiledDelete),
}

/// What running a statement needs from its session.
pub struct DmlEnv<'a> {
    /// The transaction.
    pub txn: &'a mut Txn,
    /// The engine, for counters.
    pub engine: &'a Engine,
    /// Modes, zone, clock, warnings.
    pub ctx: &'a EvalCtx<'a>,
    /// Parameters.
    pub params: &'a [Value],
    /// User variables.
    pub vars: &'a dyn UserVars,
    /// May a wait block?
    pub mode: Mode,
    /// Memory and lock wait bounds.
    pub limits: Limits,
    /// Fails when the statement was killed or ran out of time.
    pub check_killed: &'a dyn Fn() -> SqlResult<()>,
    /// Where searches put what does not fit; `None`: nowhere.
    pub temp: Option<&'a TempFiles>,
    /// The statement commits at its end, so what it generates travels in its commit record.
    pub autocommit: bool,
    /// Affected rows are found rows (CLIENT_FOUND_ROWS).
    pub found_rows: bool,
    /// `auto_increment_increment` and `_offset`.
    pub auto_step: AutoStep,
    /// The first number that is generated (`insert_id`); 0: the table's next one.
    pub auto_first: u64,
    /// `foreign_key_checks`.
    pub foreign_key_checks: bool,
    /// How many AUTO_INCREMENT values an open transaction reserves at a time; 0: the counter is not logged at all.
    pub auto_interval: u64,
    /// An error leaves the rows before the one that failed.
    pub keeps_rows: bool,
    /// Buffers kept between statements.
    pub scratch: &'a mut Scratch,
    /// Takes down what is changed for the binary log, if it is logged.
    pub log: Log<'a>,
    /// The stored functions that the statement calls; `None`: it calls none.
    pub functions: Option<&'a dyn StoredFunctions>,
}

/// What a statement did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DmlDone {
    /// Rows for the OK packet.
    pub affected_rows: u64,
    /// The OK packet's insert id: the first generated value, or an explicit one.
    pub insert_id: u64,
    /// First generated value: LAST_INSERT_ID() from now on.
    pub generated: Option<u64>,
    /// Text of the OK packet.
    pub info: InfoText,
    /// The reply waits for this besides the commit: a reservation of AUTO_INCREMENT values.
    pub depends_on: Seq,
}

/// Compiles an INSERT, REPLACE, UPDATE or DELETE.
pub fn compile(env: &BindEnv<'_>, stmt: &Statement) -> SqlResult<Compiled> {
    env.changes_rows.set(true);
    env.changes_strictly
        .set(env.ctx.sql_mode.is_strict() && !is_ignoring(stmt));
    env.locks.read_for(sources_of(stmt));
    match stmt {
        Statement::Insert(insert) => {
            CompiledInsert::compile(env, insert).map(|insert| Compiled::Insert(Box::new(insert)))
        }
        Statement::Update(update) => CompiledUpdate::compile(env, update).map(Compiled::Update),
        Statement::Delete(delete) => CompiledDelete::compile(env, delete).map(Compiled::Delete),
        _ => Err(SqlError::not_supported(
            "this statement as a change of rows",
        )),
    }
}

/// Does it say IGNORE?
fn is_ignoring(stmt: &Statement) -> bool {
    match stmt {
        Statement::Insert(insert) => insert.ignore,
        Statement::Update(update) => update.ignore,
        Statement::Delete(delete) => delete.ignore,
        _ => false,
    }
}

/// What programs that a change runs have to know of it.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// The tables that it reads, which they must not change; known where there are such programs.
    pub(crate) reads: Vec<TableId>,
    /// It calls stored functions.
    pub(crate) calls: bool,
}

impl Beside {
    /// Of a statement that was bound.
    fn of(env: &BindEnv<'_>, targets: &[Arc<TableDef>]) -> Self {
        let calls = env.calls.get();
        let is_watched = calls || targets.iter().any(|table| !table.triggers.is_empty());
        Self {
            reads: match is_watched {
                true => env.tables_read(),
                false => Vec::new(),
            },
            calls,
        }
    }
}

/// How a change locks the rows it depends on, beside those it changes, as InnoDB does: what one table takes from a
/// query or from subqueries is read without locks at READ COMMITTED, where the newest committed rows will do.
fn sources_of(stmt: &Statement) -> Option<LockReason> {
    let is_one_table = match stmt {
        Statement::Insert(insert) => insert.is_from_query(),
        Statement::Update(update) => update.is_of_one_table(),
        _ => false,
    };
    Some(match is_one_table {
        true => LockReason::SourceAboveReadCommitted,
        false => LockReason::Source,
    })
}

impl Compiled {
    /// Runs it.
    pub fn run(&self, env: &mut DmlEnv<'_>) -> Result<DmlDone, ExecError> {
        match self {
            Self::Insert(insert) => insert.run(env),
            Self::Update(update) => update.run(env),
            Self::Delete(delete) => delete.run(env),
        }
    }

    /// The tables it changes.
    pub fn targets(&self) -> &[Arc<TableDef>] {
        match self {
            Self::Insert(insert) => insert.targets(),
            Self::Update(update) => update.targets(),
            Self::Delete(delete) => delete.targets(),
        }
    }

    /// IGNORE: bad values are warnings.
    pub(crate) fn ignores(&self) -> bool {
        match self {
            Self::Insert(insert) => insert.ignore,
            Self::Update(update) => update.ignore,
            Self::Delete(delete) => delete.ignore,
        }
    }

    /// Do triggers run for anything that it does to rows?
    pub(crate) fn fires(&self) -> bool {
        match self {
            Self::Insert(insert) => insert.fires(),
            Self::Update(update) => update.fires(),
            Self::Delete(delete) => delete.fires(),
        }
    }

    /// What its triggers and functions have to know.
    pub(crate) fn beside(&self) -> &Beside {
        match self {
            Self::Insert(insert) => insert.beside(),
            Self::Update(update) => update.beside(),
            Self::Delete(delete) => delete.beside(),
        }
    }

    /// What updatable_views_with_limit decides: its LIMIT picks rows that a view does not tell apart.
    pub(crate) fn refused_limit(&self) -> Option<&SqlError> {
        match self {
            Self::Insert(_) => None,
            Self::Update(update) => update.refused_limit.as_ref(),
            Self::Delete(delete) => delete.refused_limit.as_ref(),
        }
    }

    /// The foreign keys it has to keep.
    pub(crate) fn foreign_keys(&self) -> &ForeignKeyPlan {
        match self {
            Self::Insert(insert) => insert.foreign_keys(),
            Self::Update(update) => update.foreign_keys(),
            Self::Delete(delete) => delete.foreign_keys(),
        }
    }

    /// The statement for EXPLAIN.
    pub(crate) fn explainee(&self) -> Explainee<'_> {
        match self {
            Self::Insert(insert) => Explainee::Insert {
                query: insert.query().map(|plan| &**plan),
                table: &insert.targets()[0].name,
                replace: insert.replaces(),
            },
            Self::Update(update) => Explainee::Update(update.query()),
            Self::Delete(delete) => Explainee::Delete(delete.query()),
        }
    }

    /// The query that finds its rows; INSERT … VALUES has none.
    pub fn query(&self) -> Option<&Arc<QueryPlan>> {
        match self {
            Self::Insert(insert) => insert.query(),
            Self::Update(update) => Some(update.query()),
            Self::Delete(delete) => Some(delete.query()),
        }
    }

    /// Estimated rows that max_join_size bounds: those of a source, and of a search in several tables. As in MySQL a
    /// change of one table reads as many as it likes.
    pub fn selected_rows(&self) -> Option<f64> {
        let searches = match self {
            Self::Insert(_) => true,
            Self::Update(update) => update.joins(),
            Self::Delete(delete) => delete.joins(),
        };
        let query = self.query().filter(|_| searches);
        query.map(|query| query.cost_rows)
    }

    /// Estimated rows that have to be looked at or written: whether a shared worker may run it.
    pub fn cost_rows(&self) -> f64 {
        match self {
            Self::Insert(insert) => insert.cost_rows(),
            Self::Update(update) => update.cost_rows(),
            Self::Delete(delete) => delete.cost_rows(),
        }
    }
}

impl DmlEnv<'_> {
    /// Runs `f` where the statement's queries run: they read the snapshot.
    fn executing<R>(&mut self, f: impl FnOnce(&ExecCtx<'_>) -> R) -> R {
        let (mode, limits, killed) = (self.mode, self.limits, self.check_killed);
        match self.functions {
            None => {
                let exec = ExecCtx::new(self.txn, View::Snapshot, mode, limits, killed);
                f(&exec.with_temp(self.temp))
            }
            Some(functions) => {
                let txn = LentTxn::new(self.txn, functions);
                let exec = ExecCtx::calling(&txn, View::Snapshot, limits, killed);
                f(&exec.with_temp(self.temp))
            }
        }
    }

    /// The same with what a statement brings to the steps of a query.
    fn querying<R>(&mut self, f: impl FnOnce(&StatementEnv<'_>) -> R) -> R {
        let (ctx, params, vars) = (self.ctx, self.params, self.vars);
        self.executing(|exec| {
            f(&StatementEnv {
                ctx,
                params,
                vars,
                exec,
            })
        })
    }

    /// Does it call stored functions? These may delete or change parents of the rows that it has found.
    fn calls_functions(&self) -> bool {
        self.functions.is_some()
    }

    /// Takes a row whose key is locked as the statement has left it so far into the scratch's `old_row`; false: it is
    /// gone.
    fn reread(&mut self, table: &TableDef, key: &[u8]) -> Result<bool, ExecError> {
        let out = &mut self.scratch.old_row;
        let found = self
            .txn
            .get_with(&table.primary().tree, key, View::Latest, |row| {
                out.clear();
                out.extend_from_slice(row);
            })?;
        Ok(found.is_some())
    }

    /// Deletes the row under `clustered`, whose latest version is in the scratch's `old_row`, and logs that.
    fn delete_old_row(&mut self, table: &TableDef, clustered: &[u8]) -> Result<(), ExecError> {
        self.take_old_row(table, clustered)?;
        self.log_delete(table, clustered)
    }

    /// The same, and does not log it.
    fn take_old_row(&mut self, table: &TableDef, clustered: &[u8]) -> Result<(), ExecError> {
        let buffers = self.scratch.buffers();
        let mut entries = buffers.entries;
        let mut writer = Writer {
            txn: self.txn,
            mode: self.mode,
            limits: self.limits,
            on_duplicate: LockMode::Exclusive,
        };
        writer.delete(table, clustered, buffers.old_row, &mut entries)
    }

    /// Evaluates with access to tables. Writes of this statement that were made before are seen by
    /// subqueries only as far as they read the latest versions.
    fn evaluating<R>(
        &mut self,
        states: &SubqueryStates,
        f: impl FnOnce(&ExecEnv<'_>) -> ExecResult<R>,
    ) -> ExecResult<R> {
        self.querying(|statement| {
            let executor = statement.executor(states);
            f(&statement.env(&executor))
        })
    }
}

/// In statements that store, bad values are errors under strict mode, unless IGNORE says otherwise.
fn strict_writes<'c>(ctx: &'c EvalCtx<'_>, ignore: bool) -> StrictGuard<'c> {
    let strict = !ignore && ctx.sql_mode.is_strict();
    StrictGuard {
        cell: &ctx.diagnostics.strict_write,
        before: ctx.diagnostics.strict_write.replace(strict),
    }
}

/// Puts the strictness back when the statement ends, however it ends.
struct StrictGuard<'a> {
    cell: &'a Cell<bool>,
    before: bool,
}

impl Drop for StrictGuard<'_> {
    fn drop(&mut self) {
        self.cell.set(self.before);
    }
}
