//! A bench for tests of `ddl` and `dml`: statements as text on a simulated disk, tables read back
//! straight from their trees.
//!
//! Neighbours: the tests of `ddl` and `dml`; the session does the same for real clients.
//! **Invariant**: [`Bench::check`] holds after every statement: each index has exactly the entries
//! that the rows ask for.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use esker_engine::{Direction, Engine, EngineConfig, Isolation, Txn, View};
use esker_sql_catalog::catalog::{AutoStep, Catalog, TableDef};
use esker_sql_catalog::codec::{RowReader, UTC};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::LockSet;
use esker_sql_catalog::result::Mode;
use esker_sql_exec::Limits;
use esker_sql_plan::bind::{BindEnv, Names, Need, Params, TableSource};
use esker_sql_plan::expr::NoVars;
use esker_sql_syntax::{self as parse, ParseOptions, ast};
use esker_types::cast::write_text;
use esker_types::collation::Collation;
use esker_types::fulltext::{MAX_WORD_CHARS, Stopwords, WordRules};
use esker_types::{
    EvalCtx, EvalSettings, SessionInfo, SqlError, SqlMode, SqlResult, SqlType, Value, Warning,
};
use jiff::tz::TimeZone;

use super::{DmlDone, DmlEnv, Log, Scratch, compile};
use crate::ddl::implied::{self, Implied};
use crate::ddl::{DdlCtx, EnginePolicy, is_ddl};

/// The statement time of every test: 2026-01-02 03:04:05.678901 UTC.
pub(crate) const NOW_MICROS: i64 = 1_767_323_045_678_901;

/// A session with a default database.
pub(crate) struct SessionContext;

impl SessionInfo for SessionContext {
    fn wall_micros(&self) -> i64 {
        NOW_MICROS
    }
    fn database(&self) -> Option<&str> {
        Some("d")
    }
    fn current_user(&self) -> String {
        "u@%".into()
    }
    fn random(&self) -> u64 {
        4
    }
}

/// The settings of a session by default, at the statement time of every test.
pub(crate) fn eval_settings(sql_mode: SqlMode, time_zone: &TimeZone) -> EvalSettings {
    EvalSettings {
        sql_mode,
        time_zone: time_zone.clone(),
        now_micros: NOW_MICROS,
        ..EvalSettings::default()
    }
}

struct CatalogNames<'a>(&'a Catalog);

impl Names for CatalogNames<'_> {
    fn table(&self, _need: Need, schema: Option<&str>, name: &str) -> SqlResult<TableSource> {
        self.0
            .table_or_error(schema.unwrap_or("d"), name)
            .map(TableSource::Base)
    }

    fn related(&self, schema: &str, table: &str) -> Option<Arc<TableDef>> {
        self.0.resolve(schema, table)
    }

    fn system_variable(&self, var: &ast::SysVar) -> SqlResult<(Value, SqlType)> {
        Err(SqlError::new(
            1193,
            "HY000",
            format!("Unknown system variable '{}'", var.name),
        ))
    }
}

/// What a statement did.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    pub(crate) affected: u64,
    pub(crate) insert_id: u64,
    pub(crate) generated: Option<u64>,
    pub(crate) info: String,
    pub(crate) warnings: Vec<Warning>,
}

impl Ran {
    /// Codes of the warnings.
    pub(crate) fn codes(&self) -> Vec<u16> {
        self.warnings.iter().map(|w| w.code).collect()
    }
}

/// A session without a server.
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    pub(crate) catalog: Catalog,
    pub(crate) locks: LockSet,
    pub(crate) txn: Txn,
    pub(crate) sql_mode: SqlMode,
    pub(crate) zone: TimeZone,
    pub(crate) auto_step: AutoStep,
    pub(crate) found_rows: bool,
    /// False: statements stay in the open transaction.
    pub(crate) autocommit: bool,
    pub(crate) mode: Mode,
    pub(crate) foreign_key_checks: bool,
    scratch: Scratch,
}

impl Bench {
    /// A new server with the database `d`.
    pub(crate) fn new() -> Self {
        Self::new_on(&esker_vfs::sim::SimEnv::new(11))
    }

    /// A new server on this machine.
    pub(crate) fn new_on(machine: &esker_vfs::sim::SimEnv) -> Self {
        let mut bench = Self::restart(machine);
        bench.ok("CREATE DATABASE d");
        bench
    }

    /// A server on a machine that may have data.
    pub(crate) fn restart(machine: &esker_vfs::sim::SimEnv) -> Self {
        let mut config = EngineConfig::new("/db");
        (config.log_segment_bytes, config.log_buffer_bytes) = (2 << 20, 1 << 20);
        let engine = Engine::open(machine.env(), config).expect("opens");
        let catalog = Catalog::open(&engine).expect("opens");
        Self::on(&engine, &catalog)
    }

    /// Another session.
    pub(crate) fn on(engine: &Engine, catalog: &Catalog) -> Self {
        Self {
            locks: LockSet::new(catalog.locks()),
            txn: engine.begin(Isolation::RepeatableRead),
            engine: engine.clone(),
            catalog: catalog.clone(),
            sql_mode: SqlMode::DEFAULT,
            zone: TimeZone::UTC,
            auto_step: AutoStep::ONE,
            found_rows: false,
            autocommit: true,
            mode: Mode::Thread,
            foreign_key_checks: true,
            scratch: Scratch::default(),
        }
    }

    /// A second session of the same server.
    pub(crate) fn other(&self) -> Self {
        Self::on(&self.engine, &self.catalog)
    }

    /// Runs a statement.
    pub(crate) fn attempt(&mut self, sql: &str) -> Result<Ran, ExecError> {
        let options = ParseOptions {
            sql_mode: self.sql_mode,
            ..ParseOptions::default()
        };
        let stmt = parse::parse(sql.as_bytes(), options)?.stmt;
        let settings = eval_settings(self.sql_mode, &self.zone);
        let ctx = EvalCtx::new(settings, &SessionContext);
        let mut ran = if is_ddl(&stmt) {
            self.run_ddl(&ctx, &stmt)?
        } else {
            self.run_dml(&ctx, &stmt)?
        };
        ran.warnings = ctx.diagnostics.take().kept;
        Ok(ran)
    }

    fn run_ddl(&mut self, ctx: &EvalCtx<'_>, stmt: &ast::Statement) -> Result<Ran, ExecError> {
        self.txn.commit().map(|_| ())?;
        self.locks.release_transaction();
        let pauses = crate::throttle::Pauses::default();
        let mut ddl = DdlCtx {
            logged: None,
            engines: EnginePolicy {
                default: "InnoDB".to_owned(),
                default_temporary: "InnoDB".to_owned(),
                substitutes: false,
                strict: true,
            },
            catalog: &self.catalog,
            txn: &mut self.txn,
            temporary: &RefCell::default(),
            locks: &mut self.locks,
            eval: ctx,
            database: Some("d"),
            user: "u@h",
            server_collation: Collation::UTF8MB4_0900_AI_CI,
            foreign_key_checks: self.foreign_key_checks,
            standard_parent_keys: true,
            word_rules: WordRules {
                min_chars: 3,
                max_chars: MAX_WORD_CHARS,
                ngram: Some(2),
                stopwords: Stopwords::None,
            },
            stopwords: &|| Ok(Stopwords::Default),
            auto_step: self.auto_step,
            generates_primary_key: false,
            require_primary_key: false,
            applies: false,
            fails_fast: false,
            publish_wait: crate::ddl::PublishWait {
                window: std::time::Duration::from_secs(1),
                limit: std::time::Duration::from_secs(10),
            },
            check_killed: &|| Ok(()),
            check_frozen: &|| Ok(()),
            progress: &crate::ddl::Progress::default(),
            throttle: &crate::throttle::Throttle::new(100, &pauses),
        };
        let written = implied::written_out(stmt, Implied::USUAL);
        let done = crate::ddl::run(&mut ddl, written.as_ref().unwrap_or(stmt))?;
        Ok(Ran {
            affected: done.affected_rows,
            info: done.info.to_string(),
            ..Ran::default()
        })
    }

    fn run_dml(&mut self, ctx: &EvalCtx<'_>, stmt: &ast::Statement) -> Result<Ran, ExecError> {
        let names = CatalogNames(&self.catalog);
        let bind = BindEnv::new(ctx, &NoVars, &names, Params::Values(&[]));
        let compiled = compile(&bind, stmt)?;
        let savepoint = self.txn.savepoint();
        self.txn.new_statement();
        let mut env = DmlEnv {
            log: Log::Off,
            functions: None,
            txn: &mut self.txn,
            engine: &self.engine,
            ctx,
            params: &[],
            vars: &NoVars,
            mode: self.mode,
            limits: Limits {
                memory_bytes: 64 << 20,
                sort_bytes: u64::MAX,
                join_bytes: u64::MAX,
                table_bytes: u64::MAX,
                lock_wait: Duration::from_millis(50),
                recursion_depth: 1000,
                read_threads: 1,
                splits: false,
            },
            check_killed: &|| Ok(()),
            temp: None,
            autocommit: self.autocommit,
            found_rows: self.found_rows,
            auto_step: self.auto_step,
            auto_first: 0,
            auto_interval: 8,
            keeps_rows: false,
            foreign_key_checks: self.foreign_key_checks,
            scratch: &mut self.scratch,
        };
        let result = compiled.run(&mut env);
        match result {
            Err(e) => {
                self.txn.rollback_to(savepoint);
                // While it waits a transaction stays open, or it would lose its place.
                if self.autocommit && matches!(e, ExecError::Sql(_)) {
                    self.txn.rollback();
                }
                Err(e)
            }
            Ok(done) => {
                if self.autocommit {
                    self.txn.commit().map(|_| ())?;
                }
                let DmlDone {
                    affected_rows,
                    insert_id,
                    generated,
                    info,
                    ..
                } = done;
                Ok(Ran {
                    affected: affected_rows,
                    insert_id,
                    generated,
                    info: info.to_string(),
                    ..Ran::default()
                })
            }
        }
    }

    /// Runs a statement that goes well.
    pub(crate) fn ok(&mut self, sql: &str) -> Ran {
        match self.attempt(sql) {
            Ok(ran) => ran,
            Err(ExecError::Sql(e)) => panic!("{sql}: {e}"),
            Err(ExecError::Wait(_)) => panic!("{sql}: has to wait"),
        }
    }

    /// Runs a statement that fails; its number and text.
    pub(crate) fn error(&mut self, sql: &str) -> (u16, String) {
        match self.attempt(sql) {
            Ok(_) => panic!("{sql}: went well"),
            Err(ExecError::Sql(e)) => (e.code, e.message),
            Err(ExecError::Wait(_)) => panic!("{sql}: has to wait"),
        }
    }

    /// The number of the error of a statement that fails.
    pub(crate) fn code(&mut self, sql: &str) -> u16 {
        self.error(sql).0
    }

    /// Commits the open transaction.
    pub(crate) fn commit(&mut self) {
        self.txn.commit().map(|_| ()).expect("commits");
        self.locks.release_transaction();
    }

    /// A table of `d`.
    pub(crate) fn table(&self, name: &str) -> Arc<TableDef> {
        self.catalog.table_or_error("d", name).expect("is there")
    }

    /// SHOW CREATE TABLE.
    pub(crate) fn shown(&self, name: &str) -> String {
        esker_sql_catalog::catalog::show_create_table(&self.table(name), &self.zone)
    }

    /// The latest rows as this transaction sees them, in key order: values joined by `|`.
    pub(crate) fn rows(&self, name: &str) -> Vec<String> {
        let table = self.table(name);
        let mut out = Vec::new();
        self.each(&table, 0, |_, value| {
            let row = RowReader::new(&table.layout, &self.zone, value).expect("reads");
            let field = |c: usize| {
                let mut text = Vec::new();
                match row.field(c) {
                    esker_types::ValueRef::Null => text.extend_from_slice(b"NULL"),
                    value => write_text(value, &table.columns[c].ty, &mut text),
                }
                String::from_utf8_lossy(&text).into_owned()
            };
            let fields: Vec<String> = (0..table.columns.len()).map(field).collect();
            out.push(fields.join("|"));
        });
        self.check(name);
        out
    }

    fn each(&self, table: &TableDef, index: usize, mut f: impl FnMut(&[u8], &[u8])) {
        let all = Bound::Unbounded;
        let tree = &table.indexes[index].tree;
        let mut cursor = self
            .txn
            .scan(tree, all, all, Direction::Forward, View::Latest)
            .expect("scans");
        while let Some((key, value)) = cursor.next().expect("reads") {
            f(key, value);
        }
    }

    /// Asserts that every index has exactly the entries of the rows.
    pub(crate) fn check(&self, name: &str) {
        let table = self.table(name);
        for at in 1..table.indexes.len() {
            let index = &table.indexes[at];
            let mut wanted = BTreeSet::new();
            self.each(&table, 0, |clustered, value| {
                let row = RowReader::new(&table.layout, &UTC, value).expect("reads");
                let mut key = Vec::new();
                let entries = index.entries(&row, clustered, &mut key, |key, value| {
                    assert!(wanted.insert((key.to_vec(), value.to_vec())));
                    Ok(())
                });
                entries.expect("entries");
            });
            let mut found = BTreeSet::new();
            self.each(&table, at, |key, value| {
                found.insert((key.to_vec(), value.to_vec()));
            });
            assert_eq!(found, wanted, "index {} of {name}", table.indexes[at].name);
        }
    }
}
