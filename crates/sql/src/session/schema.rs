//! Statements that change the schema, and CREATE TABLE … SELECT, which fills what it makes.
//!
//! Neighbours: `ddl` does the work with the [`DdlCtx`] that is made here; `utility` and `views` come here.
//! **Invariants**: what is open is committed first; warnings of a schema statement are in the diagnostics area
//! whether it succeeds or not.

use std::sync::Arc;

use esker_binlog::attachment::is_mariadb;
use esker_engine::Seq;
use esker_sql_catalog::catalog::ColumnDef;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::{ColumnMeta, Mode, OkInfo};
use esker_sql_plan::bind::{LockReason, Params};
use esker_sql_plan::plan::{QueryPlan, plan_query};
use esker_sql_syntax::ast::{CreateTable, Query, Statement};
use esker_types::collation::Collation;
use esker_types::fulltext::{MAX_WORD_CHARS, Stopwords, WordRules};
use esker_types::{EvalCtx, SqlResult, SqlType, Value};

use super::names::Purpose;
use super::run::{Done, ok};
use super::stopwords;
use super::{Session, SessionContext};
use crate::capture::LoggedStatement;
use crate::ddl::create_select::{self, NewTable};
use crate::ddl::implied::{self, Implied};
use crate::ddl::{self, DdlCtx, DdlDone, EnginePolicy, PublishWait, TableName};
use crate::dml::{Compiled, CompiledInsert, DmlDone};
use crate::instance::Instance;
use crate::throttle::Throttle;

/// From this version on, MariaDB's included, REFERENCES of a column is a foreign key.
const INLINE_KEYS_SINCE: u32 = 9_00_00;

impl Session {
    /// Runs `f` with what a schema statement may reach.
    pub(super) fn with_ddl<R>(&mut self, f: impl FnOnce(&mut DdlCtx<'_>) -> R) -> R {
        let server_collation = Collation::by_name(self.values.named("collation_server").as_text())
            .unwrap_or(Collation::UTF8MB4_0900_AI_CI);
        // What a source let pass is not refused here, as in MySQL.
        let standard_parent_keys =
            self.values.named("restrict_fk_on_non_standard_key").is_on() && !self.is_applying();
        let engines = self.engine_policy();
        let version = self.context.temporary.borrow().version();
        let fails_fast = self.statement_lock_wait.is_some();
        let publish_wait = PublishWait {
            window: self.context.ddl_window(),
            limit: self
                .statement_lock_wait
                .unwrap_or(self.vars.metadata_lock_timeout),
        };
        let eval = self.context.eval_ctx(&self.vars);
        let user = esker_types::SessionInfo::current_user(&self.context);
        let word_rules = word_rules(&self.context.instance);
        let stopwords = || stopwords::of_session(&self.context, &self.values);
        let killed = || self.context.check();
        let process = &self.context.process;
        let instance = &self.context.instance;
        let share = instance.variable_u64("esker_ddl_least_share");
        let throttle = Throttle::new(share as u32, &instance.counters.ddl_pauses);
        let require_primary_key = self.requires_primary_key();
        let applies = self.is_applying();
        let frozen = || self.context.check_server_writable(applies);
        let mut ctx = DdlCtx {
            throttle: &throttle,
            engines,
            fails_fast,
            publish_wait,
            logged: None,
            catalog: &self.context.instance.catalog,
            txn: &mut self.txn,
            temporary: &self.context.temporary,
            locks: &mut self.locks,
            eval: &eval,
            database: self.context.database.as_deref(),
            user: &user,
            server_collation,
            foreign_key_checks: self.vars.foreign_key_checks,
            standard_parent_keys,
            word_rules,
            stopwords: &stopwords,
            auto_step: self.vars.auto_step(),
            generates_primary_key: self
                .values
                .named("sql_generate_invisible_primary_key")
                .is_on(),
            require_primary_key,
            applies,
            check_killed: &killed,
            check_frozen: &frozen,
            progress: &process.progress,
        };
        let stages = process.progress.until_end();
        let result = f(&mut ctx);
        drop(stages);
        let raised = eval.diagnostics.take();
        self.diagnostics.add(&self.vars, raised);
        if self.context.temporary.borrow().version() != version {
            self.context.rebind();
        }
        result
    }

    /// The same for a statement that is logged: in the record of its change, or by itself if it has changed nothing.
    pub(super) fn with_logged_ddl(
        &mut self,
        logged: Option<LoggedStatement>,
        f: impl FnOnce(&mut DdlCtx<'_>) -> Result<DdlDone, ExecError>,
    ) -> Result<DdlDone, ExecError> {
        let (done, unused) = self.with_ddl(|ctx| {
            ctx.logged = logged;
            let done = f(ctx);
            (done, ctx.logged.take())
        });
        let mut done = done?;
        done.seq = done.seq.max(self.context.log_alone(unused)?);
        Ok(done)
    }

    /// Which storage engines tables get.
    fn engine_policy(&self) -> EnginePolicy {
        let text = |name: &str| self.values.named(name).as_text().to_owned();
        let globals = &self.context.instance.globals;
        EnginePolicy {
            default: text("default_storage_engine"),
            default_temporary: text("default_tmp_storage_engine"),
            substitutes: globals.named("esker_substitute_engines").is_on(),
            strict: self.values.named("innodb_strict_mode").is_on(),
        }
    }

    /// sql_require_primary_key.
    pub(crate) fn requires_primary_key(&self) -> bool {
        self.values.named("sql_require_primary_key").is_on()
    }

    /// Schema changes.
    pub(super) fn run_ddl(
        &mut self,
        statement: &Statement,
        params: &[Value],
    ) -> Result<Done, ExecError> {
        let done = self.change_schema(statement, params)?;
        // What is done to temporary tables is not logged, and is a transaction of its own where none is open.
        Ok(match done {
            Done::Ok(info, seq) if !ddl::commits(statement) && !self.in_transaction() => {
                Done::Ok(info, self.keep_gtid_apart(false).unwrap_or(seq).max(seq))
            }
            done => done,
        })
    }

    fn change_schema(
        &mut self,
        statement: &Statement,
        params: &[Value],
    ) -> Result<Done, ExecError> {
        let version = self.applied_origin().map(|origin| origin.server_version);
        let settings = Implied {
            utf8mb4: self.vars.log.utf8mb4_collation,
            explicit_defaults: self.vars.log.explicit_defaults,
            is_mariadbs: version.is_some_and(is_mariadb),
            has_inline_keys: version.is_some_and(|version| version >= INLINE_KEYS_SINCE),
        };
        let written_out = implied::written_out(statement, settings);
        let statement = written_out.as_ref().unwrap_or(statement);
        if let Statement::CreateTable(create) = statement
            && create.is_filled_later()
        {
            self.context.check_ddl_rights(statement)?;
            return self.create_to_fill(create);
        }
        let committed = match ddl::commits(statement) {
            // It keeps the locks that it has got, and what was open is committed.
            true if self.locks.runs_again() && !self.has_changed_tables() => {
                self.context.check_ddl_rights(statement)?;
                0
            }
            true => {
                // Also before a statement that is refused, as in MySQL.
                let committed = self.commit_transaction()?;
                self.context.check_ddl_rights(statement)?;
                committed
            }
            false => {
                self.check_read_write()?;
                self.context.check_ddl_rights(statement)?;
                self.note_temporary(statement);
                0
            }
        };
        if self.spare_system_tables(statement) {
            return Ok(ok(committed));
        }
        if let Statement::CreateTable(create) = statement
            && let Some(query) = &create.query
        {
            let done = self.create_from_query(create, query, params);
            if !matches!(done, Err(ExecError::Wait(_))) {
                self.locks.release_statement();
            }
            return done;
        }
        let logged = self.logged_definition(statement);
        let done = self.with_logged_ddl(logged, |ctx| ddl::run(ctx, statement));
        let done = done.map_err(|e| self.explained(e))?;
        self.follow_schema(statement)?;
        let info = OkInfo {
            affected_rows: done.affected_rows,
            info: done.info.as_str().into(),
            ..OkInfo::default()
        };
        Ok(Done::Ok(info, committed.max(done.seq)))
    }

    /// What else goes with a schema change that is done.
    fn follow_schema(&mut self, statement: &Statement) -> SqlResult<()> {
        self.drop_doomed_trees();
        if ends_events(statement) {
            self.context.instance.scheduler.events_changed();
        }
        if let Statement::DropProgram(drop) = statement {
            self.forget_routine_grants(drop)?;
        }
        if let Statement::DropDatabase { name, .. } = statement
            && self.context.database.as_deref() == Some(&*name.text)
        {
            self.context.database = None;
            self.context.rebind();
            self.tracker.mark_schema();
            // Without a database they are the server's.
            let server = self.values.named("collation_server");
            if let Some(collation) = Collation::by_name(server.as_text()) {
                self.set_database_collation(collation)?;
            }
        }
        Ok(())
    }

    /// CREATE TABLE … SELECT.
    fn create_from_query(
        &mut self,
        create: &CreateTable,
        query: &Query,
        params: &[Value],
    ) -> Result<Done, ExecError> {
        let Some(name) = self.with_ddl(|ctx| create_select::claim(ctx, create))? else {
            return Ok(Done::Ok(OkInfo::default(), 0));
        };
        self.use_transaction();
        let savepoint = self.txn.savepoint();
        let filled = self.fill_from_query(create, &name, query, params);
        match filled {
            Ok((done, mut seq)) => {
                match create.temporary {
                    true => seq = self.end_statement(true)?,
                    false => self.end_transaction(),
                }
                self.context.after_change(&done);
                let info = OkInfo {
                    affected_rows: done.affected_rows,
                    last_insert_id: done.insert_id,
                    info: done.info,
                };
                Ok(Done::Ok(info, seq.max(done.depends_on)))
            }
            Err(e) => {
                match (create.temporary, &e) {
                    (true, _) => self.txn.rollback_to(savepoint),
                    // It runs again, and keeps its locks.
                    (false, ExecError::Wait(_)) => self.undo_filling(),
                    (false, ExecError::Sql(_)) => self.rollback_transaction(),
                }
                Err(e)
            }
        }
    }

    fn fill_from_query(
        &mut self,
        create: &CreateTable,
        name: &TableName,
        query: &Query,
        params: &[Value],
    ) -> Result<(DmlDone, Seq), ExecError> {
        let (plan, origins) = self.plan_source(name, query, params)?;
        self.check_join_size(plan.cost_rows)?;
        let (table, insert) = self.with_ddl(|ctx| {
            let table = create_select::define(ctx, create, name, &plan.columns, &origins)?;
            let insert = insert_into(ctx.eval, &table, plan, create)?;
            SqlResult::Ok((table, insert))
        })?;
        let insert = Compiled::Insert(Box::new(insert));
        if !create.temporary {
            self.admit_filling(&table.def)?;
            self.begin_filling(&table.def);
        }
        let done = self.calling(insert.targets(), insert.beside(), |session| {
            session.execute_change(params, Mode::Thread, |env| insert.run(env))
        })?;
        self.capture.end_statement(&mut self.txn)?;
        self.seal_filled()?;
        let seq = self.with_ddl(|ctx| create_select::publish(ctx, table))?;
        Ok((done, seq))
    }

    /// Plans the query as a source of rows for a new table: its plan, and the stored columns that its columns are.
    fn plan_source(
        &mut self,
        name: &TableName,
        query: &Query,
        params: &[Value],
    ) -> Result<(Arc<QueryPlan>, Vec<Option<ColumnDef>>), ExecError> {
        // Variables of a program have types for the new table, which their values have not.
        let types = self.program.types.clone();
        let types = types.filter(|types| types.len() == params.len());
        let plan = self.bind(Purpose::Run, |scope| {
            let env = scope.env(match &types {
                Some(types) => Params::Types(types),
                None => Params::Values(params),
            });
            env.changes_rows.set(true);
            env.locks
                .read_for(Some(LockReason::SourceAboveReadCommitted));
            env.locks.fill(&name.name);
            plan_query(&env, query)
        })?;
        let origins = plan
            .columns
            .iter()
            .map(|c| self.context.origin_of(c))
            .collect();
        Ok((plan, origins))
    }
}

/// How fulltext indexes take words, but for the stopwords.
fn word_rules(instance: &Instance) -> WordRules {
    let chars = |name: &str| {
        let value = instance.variable_u64(name);
        u8::try_from(value).unwrap_or(MAX_WORD_CHARS)
    };
    WordRules {
        min_chars: chars("innodb_ft_min_token_size"),
        max_chars: chars("innodb_ft_max_token_size"),
        ngram: Some(chars("ngram_token_size")),
        stopwords: Stopwords::None,
    }
}

impl SessionContext {
    /// The stored column that a column of a result is.
    fn origin_of(&self, meta: &ColumnMeta) -> Option<ColumnDef> {
        let table = self.resolve(&meta.schema, &meta.org_table)?;
        let column = &table.columns[table.column_index(&meta.org_name)?];
        let is_same = |ty: &SqlType| ty.clone().with_nullable(meta.ty.nullable) == meta.ty;
        is_same(&column.ty).then(|| column.clone())
    }
}

/// Are there fewer events behind the statement?
fn ends_events(statement: &Statement) -> bool {
    match statement {
        Statement::DropDatabase { .. } => true,
        Statement::DropProgram(drop) => drop.kind == "EVENT",
        _ => false,
    }
}

fn insert_into(
    ctx: &EvalCtx<'_>,
    table: &NewTable,
    plan: Arc<QueryPlan>,
    create: &CreateTable,
) -> SqlResult<CompiledInsert> {
    let columns = table.columns.clone();
    CompiledInsert::into_new_table(ctx, table.def.clone(), columns, plan, create.on_duplicate)
}
