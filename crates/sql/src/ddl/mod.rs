//! Statements that change the schema.
//!
//! In flow order: `names` (which are allowed) · `implied` (what settings add to words), `maria_collations` (those of
//! MariaDB alone) · `kept` (expressions as written), `columns` (definitions as written) · `draft` (a table being drawn
//! up), `draft_keys` (its foreign keys), `key_length` (how long those may be), `draft_finish` (checking it as a whole),
//! `generated_key` (invisible primary keys), `innodb_names` (what InnoDB keeps to itself) · `checks` (CHECK
//! constraints: conditions, names) · `partitions` (PARTITION BY) · `foreign` (what foreign keys need of other tables) ·
//! `options` (of tables) · `schema`, `create`, `create_select`, `table`, `alter`, `exchange` (EXCHANGE PARTITION),
//! `view`, `trigger` (the statements) · `convert`, `fill` (new trees of a table's rows), `catch_up` (following their
//! changes), `progress` (how far that is), `lock_tables` (LOCK TABLES, UNLOCK TABLES, FLUSH … WITH READ LOCK) ·
//! `routine` (procedures and functions), `event`, `tablespace`, `program` (DROP of routines and events). Neighbours:
//! `session` commits what is open, runs [`run`] on a thread that may block and releases statement locks at the end;
//! `catalog` publishes the result; `throttle` paces what works beside others.
//!
//! **Invariants**
//! - Locks come first: nothing is made or changed before every lock is held, so a statement that
//!   answers [`ExecError::Wait`] can be run again from its beginning.
//! - The catalog change commits last: a crash at any moment leaves the schema as before or after.
//! - A clause that has no effect here is refused by name, unless MySQL too accepts it without effect.

mod alter;
mod catch_up;
mod checks;
mod columns;
mod convert;
mod create;
pub mod create_select;

mod draft;
mod draft_finish;
mod draft_keys;
pub mod event;
mod exchange;
mod fill;
mod foreign;
#[cfg(test)]
mod foreign_tests;
mod generated_key;
pub(crate) mod implied;
mod innodb_names;
mod kept;
mod key_length;
pub mod lock_tables;
pub(crate) mod maria_collations;
pub(crate) mod names;
mod options;
#[cfg(test)]
mod oracle_tests;
mod partitions;
mod program;
mod progress;
pub mod routine;
mod schema;
mod table;
mod tablespace;
#[cfg(test)]
mod tests;
pub mod trigger;
pub mod view;

use std::cell::RefCell;
use std::sync::Arc;

use esker_engine::{Seq, Txn};
use esker_sql_catalog::catalog::{
    AutoStep, Catalog, Change, StorageEngine, TableDef, TemporaryTables,
};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::{LockSet, MdlDuration, MdlMode};
use esker_sql_syntax::ast::{IndexKind, IndexSpec, Statement};
use esker_types::collation::Collation;
use esker_types::fulltext::{Stopwords, WordRules};
use esker_types::{EvalCtx, Level, SqlError, SqlResult};

use crate::capture::LoggedStatement;
use crate::throttle::Throttle;

use draft::Draft;
use draft_finish::Built;

pub use alter::PublishWait;
pub use names::{TableName, resolve};
pub use progress::Progress;
pub(crate) use progress::Stage;
pub use table::empty_memory_tables;

/// What a schema statement may reach.
pub struct DdlCtx<'a> {
    /// The catalog.
    pub catalog: &'a Catalog,
    /// The session's transaction: it has committed what was open, and may have written rows of a table that is being
    /// made.
    pub txn: &'a mut Txn,
    /// The session's metadata locks.
    pub locks: &'a mut LockSet,
    /// The session's temporary tables.
    pub temporary: &'a RefCell<TemporaryTables>,
    /// Modes, zone, clock, warnings.
    pub eval: &'a EvalCtx<'a>,
    /// The current database.
    pub database: Option<&'a str>,
    /// `user@host`, for error 1044.
    pub user: &'a str,
    /// collation_server.
    pub server_collation: Collation,
    /// foreign_key_checks.
    pub foreign_key_checks: bool,
    /// restrict_fk_on_non_standard_key: foreign keys refer to whole unique keys only.
    pub standard_parent_keys: bool,
    /// Lengths of the words and n-grams of new full-text indexes.
    pub word_rules: WordRules,
    /// What they leave out.
    pub stopwords: &'a dyn Fn() -> SqlResult<Stopwords>,
    /// auto_increment_increment and auto_increment_offset.
    pub auto_step: AutoStep,
    /// sql_generate_invisible_primary_key.
    pub generates_primary_key: bool,
    /// sql_require_primary_key.
    pub require_primary_key: bool,
    /// Which engine tables get.
    pub engines: EnginePolicy,
    /// A clause limits the wait for locks: the statement does not begin what it may not be able to end.
    pub fails_fast: bool,
    /// How the lock at the end of an online change is waited for.
    pub publish_wait: PublishWait,
    /// The statement for the binary log; taken by the change that it makes.
    pub logged: Option<LoggedStatement>,
    /// The statement comes from a source: databases that are read only here are changed, too.
    pub applies: bool,
    /// Fails when the statement was killed.
    pub check_killed: &'a dyn Fn() -> esker_types::SqlResult<()>,
    /// Fails when the server has become read-only.
    pub check_frozen: &'a dyn Fn() -> esker_types::SqlResult<()>,
    /// How far it is, for others to see.
    pub progress: &'a Progress,
    /// Gives way to others while trees are filled beside them.
    pub throttle: &'a Throttle<'a>,
}

/// Which engine a table gets.
#[derive(Debug, Clone)]
pub struct EnginePolicy {
    /// default_storage_engine: of a table without ENGINE.
    pub default: String,
    /// default_tmp_storage_engine: of a temporary one.
    pub default_temporary: String,
    /// esker_substitute_engines: InnoDB stands in for whatever does not exist.
    pub substitutes: bool,
    /// innodb_strict_mode: options that InnoDB cannot have are errors.
    pub strict: bool,
}

/// What a schema statement did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DdlDone {
    /// Rows (of databases: tables) affected.
    pub affected_rows: u64,
    /// Text of the OK packet.
    pub info: String,
    /// The reply waits for this.
    pub seq: Seq,
    /// What was to be made is there already, and IF NOT EXISTS says that this will do.
    pub was_there: bool,
}

/// Is this a statement for [`run`]?
pub fn is_ddl(stmt: &Statement) -> bool {
    matches!(
        stmt,
        Statement::CreateDatabase { .. }
            | Statement::AlterDatabase { .. }
            | Statement::DropDatabase { .. }
            | Statement::CreateTable(_)
            | Statement::AlterTable(_)
            | Statement::DropTable(_)
            | Statement::Truncate { .. }
            | Statement::RenameTable(_)
            | Statement::CreateIndex(_)
            | Statement::DropIndex(_)
            | Statement::DropView(_)
            | Statement::DropProgram(_)
            | Statement::Tablespace(_)
    )
}

/// Does the statement commit what is open? Those about temporary tables do not, as far as nothing of what the
/// transaction has written is rewritten.
pub fn commits(stmt: &Statement) -> bool {
    match stmt {
        Statement::CreateTable(create) => !create.temporary && !create.is_filled_later(),
        Statement::DropTable(drop) => !drop.temporary,
        other => is_ddl(other),
    }
}

/// Runs a schema statement. The caller has committed the open transaction.
pub fn run(ctx: &mut DdlCtx<'_>, stmt: &Statement) -> Result<DdlDone, ExecError> {
    let result = dispatch(ctx, stmt);
    released(ctx, result)
}

/// Releases the locks of a statement that has ended; one that waits runs again and keeps them. What has changed nothing
/// is logged before: behind that, another session may make what the statement has not found.
fn released(
    ctx: &mut DdlCtx<'_>,
    result: Result<DdlDone, ExecError>,
) -> Result<DdlDone, ExecError> {
    let result = result.and_then(|mut done| {
        if let Some(logged) = ctx.logged.take() {
            done.seq = done.seq.max(logged.commit_alone(ctx.catalog)?);
        }
        Ok(done)
    });
    if !matches!(result, Err(ExecError::Wait(_))) {
        ctx.locks.release_statement();
    }
    result
}

fn dispatch(ctx: &mut DdlCtx<'_>, stmt: &Statement) -> Result<DdlDone, ExecError> {
    match stmt {
        Statement::CreateDatabase {
            or_replace,
            if_not_exists,
            name,
            options,
        } => schema::create(ctx, name, options, *or_replace, *if_not_exists),
        Statement::AlterDatabase { name, options } => schema::alter(ctx, name.as_ref(), options),
        Statement::DropDatabase { if_exists, name } => schema::drop(ctx, name, *if_exists),
        Statement::CreateTable(create) => create::create_table(ctx, create),
        Statement::DropTable(drop) => table::drop_tables(ctx, drop),
        Statement::Truncate { name, .. } => table::truncate(ctx, name),
        Statement::RenameTable(rename) => table::rename(ctx, &rename.pairs, rename.if_exists),
        Statement::AlterTable(alter) => alter::alter_table(ctx, alter),
        Statement::CreateIndex(create) => alter::create_index(ctx, create),
        Statement::DropIndex(drop) => alter::drop_index(ctx, drop),
        Statement::DropView(drop) => view::drop_views(ctx, drop),
        Statement::DropProgram(drop) if drop.kind == "TRIGGER" => trigger::drop(ctx, drop),
        Statement::DropProgram(drop) => program::drop(ctx, drop),
        Statement::Tablespace(statement) => tablespace::run(ctx, statement),
        _ => Err(SqlError::not_supported("this statement as a schema change").into()),
    }
}

impl<'a> DdlCtx<'a> {
    /// Will the binary log have the statement's words?
    fn is_logged(&self) -> bool {
        self.logged.as_ref().is_some_and(LoggedStatement::is_logged)
    }

    /// Begins the change of the catalog, which takes the statement along to the log.
    fn change(&mut self) -> SqlResult<Change<'a>> {
        let mut change = self.catalog.change();
        if let Some(logged) = self.logged.take() {
            let logged = logged.with_its_change();
            if !logged.head.is_empty() {
                change.attach(&logged.head, &logged.events)?;
            }
            if let Some(mark) = logged.mark {
                change.put_channel_row(mark.row())?;
                mark.written();
            }
        }
        Ok(change)
    }

    /// See [`lock_tables::announce_change`]. The server may have become read-only meanwhile: 1290.
    fn announce(&mut self) -> Result<(), ExecError> {
        lock_tables::announce_change(self.catalog, self.locks)?;
        Ok((self.check_frozen)()?)
    }

    /// Locks a database: for changes of what is in it, or exclusively for its own.
    ///
    /// # Errors
    /// 3989: nothing in it may be changed.
    fn lock_schema(&mut self, schema: &str, mode: MdlMode) -> Result<(), ExecError> {
        let object = self.catalog.locks().schema(schema);
        self.locks.acquire(&object, mode, MdlDuration::Statement)?;
        match mode {
            MdlMode::Exclusive => Ok(()),
            _ => Ok(self.check_writable(schema)?),
        }
    }

    /// 3989, but for what a source has done.
    fn check_writable(&self, schema: &str) -> SqlResult<()> {
        match self.applies {
            true => Ok(()),
            false => self.catalog.check_writable(schema),
        }
    }

    fn lock_table(&mut self, name: &TableName, mode: MdlMode) -> Result<(), ExecError> {
        let object = self.catalog.locks().table(&name.schema, &name.name);
        self.locks.acquire(&object, mode, MdlDuration::Statement)
    }

    fn lock_tablespace(&mut self, name: &str, mode: MdlMode) -> Result<(), ExecError> {
        let object = self.catalog.locks().tablespace(name);
        self.locks.acquire(&object, mode, MdlDuration::Statement)
    }

    /// Takes everything needed to change existing tables: the global and schema scopes and every
    /// table exclusively, in one order for all sessions. Under LOCK TABLES each must be locked for
    /// writing.
    fn lock_exclusive(&mut self, names: &[TableName]) -> Result<(), ExecError> {
        let exclusive = |name: &TableName| (name.clone(), MdlMode::Exclusive);
        self.lock_all(names, &names.iter().map(exclusive).collect())
    }

    /// The same for tables of which the statement names only some, its `own`.
    fn lock_all(&mut self, own: &[TableName], wanted: &foreign::Wanted) -> Result<(), ExecError> {
        self.announce()?;
        if self.locks.has_explicit() {
            for name in own {
                let object = self.catalog.locks().table(&name.schema, &name.name);
                lock_tables::check_locked(self.locks, &object, &name.name, true)?;
            }
        }
        for name in wanted.keys() {
            self.lock_schema(&name.schema, MdlMode::IntentionExclusive)?;
        }
        for (name, mode) in wanted {
            self.lock_table(name, *mode)?;
        }
        Ok(())
    }

    /// LOCK TABLES keeps a table that has been renamed.
    fn locks_follow(&mut self, from: &TableName, to: &TableName) {
        let object = |name: &TableName| self.catalog.locks().table(&name.schema, &name.name);
        let (from, to) = (object(from), object(to));
        self.locks.move_explicit(&from, &to);
    }

    fn note(&self, code: u16, text: String) {
        self.eval.warn(Level::Note, code, text);
    }

    /// What a table of this engine has not is left out, or an error.
    fn fit_to_engine(&self, draft: &mut Draft, engine: StorageEngine) -> SqlResult<()> {
        if engine == StorageEngine::Memory {
            draft.forget_new_keys();
            return draft.check_no_geometry();
        }
        for _ in 0..draft.drop_hash() {
            let text = "This storage engine does not support the HASH index algorithm, storage engine default was used \
                        instead.";
            self.note(3502, text.to_owned());
        }
        Ok(())
    }

    /// Which words an index has, if it is one of words.
    fn rules_of(&self, spec: &IndexSpec) -> SqlResult<Option<WordRules>> {
        if spec.kind != IndexKind::FullText {
            return Ok(None);
        }
        Ok(Some(WordRules {
            ngram: self.word_rules.ngram.filter(|_| draft::is_ngram(spec)),
            stopwords: (self.stopwords)()?,
            ..self.word_rules
        }))
    }

    /// 1831 for each new index that is like another one; 3674 for spatial ones without SRID.
    fn warn_of_order(&self, table: &TableName) {
        let name = &table.name;
        let text = format!(
            "ORDER BY ignored as there is a user-defined clustered index in the table '{name}'"
        );
        self.eval.warn(Level::Warning, 1105, text);
    }

    fn warn_of_indexes(&self, table: &TableName, built: &Built) {
        for column in &built.without_srid {
            let text = format!(
                "The spatial index on column '{column}' will not be used by the query optimizer since the column does \
                 not have an SRID attribute. Consider adding an SRID attribute to the column."
            );
            self.eval.warn(Level::Warning, 3674, text);
        }
        for index in &built.twins {
            let text = format!(
                "Duplicate index '{index}' defined on the table '{}.{}'. This is deprecated and will be disallowed in \
                 a future release.",
                table.schema, table.name
            );
            self.eval.warn(Level::Warning, 1831, text);
        }
    }

    /// The temporary table that hides any other of the name.
    fn temporary(&self, name: &TableName) -> Option<Arc<TableDef>> {
        let tables = self.temporary.borrow();
        tables.get(&name.schema, &name.name).cloned()
    }

    /// The table that a statement is about.
    fn existing(&self, name: &TableName) -> Result<Arc<TableDef>, ExecError> {
        if let Some(table) = self.temporary(name) {
            return Ok(table);
        }
        if self.catalog.view(&name.schema, &name.name).is_some() {
            return Err(view::wrong_object(name, "BASE TABLE").into());
        }
        Ok(self.catalog.table_or_error(&name.schema, &name.name)?)
    }
}
