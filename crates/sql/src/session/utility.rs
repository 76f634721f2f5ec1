//! Statements that are neither queries nor changes of rows: transactions, locks, schema, settings,
//! accounts, SHOW, EXPLAIN, KILL, and by name what Esker does not have.
//!
//! Neighbours: `run` hands them over; each arm calls the module that does the work.
//! **Invariants**: schema statements, LOCK TABLES and account statements commit what is open before
//! they begin, as in MySQL; everything that may wait or run long is refused in inline mode.

use std::sync::atomic::Ordering;

use esker_engine::Seq;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::{Mode, OkInfo};
use esker_sql_syntax::ast::{
    Call, Expr, FlushWhat, Ident, Kill, LockTable, ObjectName, Replication, SetItem, ShowFilter,
    ShowWhat, Statement, Xa,
};
use esker_types::{SqlError, SqlResult, Value, errors};

use super::Session;
use super::run::{Done, RowSource};
use super::set::is_quick;
use crate::ddl;
use crate::show;

pub(super) fn ok(seq: Seq) -> Done {
    Done::Ok(OkInfo::default(), seq)
}

impl Session {
    pub(super) fn run_other(
        &mut self,
        statement: &Statement,
        params: &[Value],
        mode: Mode,
    ) -> Result<Done, ExecError> {
        if let Statement::Truncate { name, .. } = statement
            && let Some(spec) = self.find_system_table(name)?
        {
            self.truncate_system_table(spec)?;
            return Ok(ok(0));
        }
        let unlocks = matches!(statement, Statement::UnlockTables) && self.locks.has_explicit();
        if unlocks || commits_what_is_open(statement) {
            self.admit_commit()?;
        }
        match statement {
            Statement::Empty => Ok(ok(0)),
            Statement::ResetPersist { if_exists, name } => {
                self.reset_persist(name.as_deref(), *if_exists)?;
                Ok(ok(0))
            }
            Statement::Xa(xa) => {
                let done = self.run_xa(xa, mode)?;
                // A branch that is prepared stays open, and its session commits nothing now.
                self.locks.release_statement();
                Ok(done)
            }
            // Its position may take a moment.
            Statement::Begin(begin)
                if mode == Mode::Inline
                    && begin.snapshot
                    && self.context.instance.binlog.is_on() =>
            {
                Ok(Done::NeedThread)
            }
            Statement::Begin(begin) => Ok(ok(self.begin(begin)?)),
            Statement::Commit(_)
                if mode == Mode::Inline
                    && (self.context.instance.engine.holds_writers()
                        || self.txn.has_spilled()
                        || self.capture.has_spooled()) =>
            {
                Ok(Done::NeedThread)
            }
            Statement::Commit(how) => {
                let (info, seq) = self.complete(true, *how)?;
                Ok(Done::Ok(info, seq))
            }
            Statement::Rollback(how) => {
                let (info, seq) = self.complete(false, *how)?;
                Ok(Done::Ok(info, seq))
            }
            Statement::Savepoint(name) => {
                self.savepoint(&name.text);
                Ok(ok(0))
            }
            Statement::RollbackTo(name) => self
                .rollback_to(&name.text)
                .map(|()| ok(0))
                .map_err(Into::into),
            Statement::ReleaseSavepoint(name) => self
                .release_savepoint(&name.text)
                .map(|()| ok(0))
                .map_err(Into::into),
            Statement::Set(items)
                if is_quick(items) && (mode == Mode::Thread || !self.may_wait_for_gtid(items)) =>
            {
                self.set(items, params)?;
                Ok(ok(self.pending_commit.take()))
            }
            Statement::Set(_) if mode == Mode::Inline => Ok(Done::NeedThread),
            Statement::Set(items) => {
                // Subqueries read as those of any other statement.
                self.use_transaction();
                self.set(items, params)?;
                let seq = self.end_statement(true)?;
                Ok(ok(seq.max(self.pending_commit.take())))
            }
            Statement::SetTransaction(set) => {
                self.set_transaction(set)?;
                Ok(ok(0))
            }
            Statement::Use(name) => {
                self.use_database(&name.text)?;
                Ok(ok(0))
            }
            Statement::Do(list) => {
                if mode == Mode::Inline {
                    return Ok(Done::NeedThread);
                }
                self.use_transaction();
                for e in list {
                    self.evaluate(e, params)?;
                }
                Ok(ok(self.end_statement(true)?))
            }
            Statement::Show(show)
                if mode == Mode::Inline
                    && (matches!(show.filter, Some(ShowFilter::Where(_)))
                        || waits_for_binlog(&show.what)) =>
            {
                Ok(Done::NeedThread)
            }
            Statement::Show(show) => {
                let table = show::run(self, show)?;
                let source = RowSource::Table(table.columns, table.rows.into_iter());
                Ok(Done::Rows(Box::new(source)))
            }
            Statement::Explain(explain) => self.explain(explain, params, mode),
            Statement::Prepare { name, source } => {
                self.prepare_named(&name.text, source)?;
                Ok(ok(0))
            }
            Statement::Execute { name, vars } => self.execute_named(&name.text, vars, mode),
            Statement::Deallocate(name) => {
                self.deallocate(&name.text)?;
                Ok(ok(0))
            }
            Statement::Kill(kill) if mode == Mode::Inline && !is_plain(&kill.id) => {
                Ok(Done::NeedThread)
            }
            Statement::Kill(kill) => self.run_kill(kill, params),
            other => self.run_thread_statement(other, params, mode),
        }
    }

    /// Statements that always want a thread of their own.
    fn run_thread_statement(
        &mut self,
        statement: &Statement,
        params: &[Value],
        mode: Mode,
    ) -> Result<Done, ExecError> {
        if mode == Mode::Inline {
            return Ok(Done::NeedThread);
        }
        if ddl::is_ddl(statement) {
            self.know_prepared_tables();
            return self.run_ddl(statement, params);
        }
        self.check_accounts_above(statement)?;
        match statement {
            Statement::CreateView(create) => {
                if self.spare_system_tables(statement) {
                    self.context.require_in("CREATE VIEW", "sys")?;
                    return Ok(ok(0));
                }
                self.know_prepared_tables();
                self.create_view(create)
            }
            Statement::LockTables { tables, .. } => {
                self.know_prepared_tables();
                self.lock_tables(tables)
            }
            Statement::UnlockTables => Ok(ok(self.unlock_tables()?)),
            Statement::LockInstance => {
                self.lock_instance()?;
                Ok(ok(0))
            }
            Statement::UnlockInstance => {
                self.unlock_instance()?;
                Ok(ok(0))
            }
            Statement::BackupServer(backup) => self.back_up_server(backup),
            Statement::Flush { local, what } => self.flush(*local, what),
            Statement::Shutdown => self.shut_down(),
            Statement::Restart => self.restart(),
            Statement::ReloadTls => self.reload_tls(),
            Statement::Maintain(m) => self.maintain(m),
            Statement::CreateUser(u) => self.account_change(|s| s.create_user(u)),
            Statement::AlterUser(u) => self.account_change(|s| s.alter_user(u)),
            Statement::DropUser { if_exists, users } => {
                self.account_change(|s| s.drop_user(*if_exists, users).map(|()| None))
            }
            Statement::RenameUser(pairs) => {
                self.account_change(|s| s.rename_user(pairs).map(|()| None))
            }
            Statement::CreateRole {
                if_not_exists,
                roles,
            } => self.account_change(|s| s.create_role(*if_not_exists, roles).map(|()| None)),
            Statement::DropRole { if_exists, roles } => {
                self.account_change(|s| s.drop_role(*if_exists, roles).map(|()| None))
            }
            Statement::SetRole(set) if set.default_for.is_none() => {
                self.set_role(set)?;
                Ok(ok(0))
            }
            Statement::SetRole(set) => self.account_change(|s| s.set_role(set).map(|()| None)),
            Statement::SetPassword(set) => self.account_change(|s| s.set_password(set)),
            Statement::Grant(g) => self.account_change(|s| s.grant(g, true).map(|()| None)),
            Statement::Revoke(g) => self.account_change(|s| s.grant(g, false).map(|()| None)),
            Statement::LoadData(load) => self.load_data(load, None),
            Statement::Replication(replication) => self.run_replication(replication),
            Statement::Call { name, .. } => Err(self.unknown_procedure(name).into()),
            other => Err(unsupported(other).into()),
        }
    }

    /// 1305: there are no procedures; 1046.
    fn unknown_procedure(&self, name: &ObjectName) -> SqlError {
        let schema = match &name.schema {
            Some(schema) => Ok(&*schema.text),
            None => self.context.current_schema(),
        };
        match schema {
            Ok(schema) => {
                errors::does_not_exist("PROCEDURE", format!("{schema}.{}", name.name.text))
            }
            Err(no_database) => no_database,
        }
    }

    /// Before locks that exclude writers: prepared XA transactions from before the start have theirs.
    pub(super) fn know_prepared_tables(&self) {
        self.context.instance.xids();
    }

    fn account_change(
        &mut self,
        change: impl FnOnce(&mut Self) -> SqlResult<Option<show::Table>>,
    ) -> Result<Done, ExecError> {
        let instance = self.context.instance.clone();
        ddl::lock_tables::admit_schema_change(&instance.catalog, &mut self.locks)?;
        let seq = self.commit_transaction()?;
        let table = change(self)?;
        let seq = seq.max(self.pending_commit.take());
        match table {
            None => Ok(ok(seq)),
            Some(table) => {
                // The reply has no place to say what it depends on.
                let engine = &self.context.instance.engine;
                engine.wait_durable(seq).block().map_err(ExecError::from)?;
                let source = RowSource::Table(table.columns, table.rows.into_iter());
                Ok(Done::Rows(Box::new(source)))
            }
        }
    }

    pub(super) fn lock_tables(&mut self, tables: &[LockTable]) -> Result<Done, ExecError> {
        let tables = self.context.lockable(tables)?;
        let tables = tables.as_slice();
        self.context.check_lock_rights(tables)?;
        let seq = self.commit_transaction()?;
        let instance = self.context.instance.clone();
        ddl::lock_tables::lock(
            &instance.catalog,
            &mut self.locks,
            tables,
            self.context.database.as_deref(),
        )?;
        self.txn.learn_of_commits();
        Ok(ok(seq))
    }

    fn unlock_tables(&mut self) -> SqlResult<Seq> {
        let seq = if self.locks.has_explicit() {
            self.commit_transaction()?
        } else {
            0
        };
        ddl::lock_tables::unlock(&mut self.locks);
        Ok(seq)
    }

    fn flush(&mut self, local: bool, what: &[FlushWhat]) -> Result<Done, ExecError> {
        for item in what {
            self.context.require_any(flush_rights(item))?;
        }
        let instance = self.context.instance.clone();
        let counters = &instance.counters;
        counters.flushes.fetch_add(1, Ordering::Relaxed);
        let mut seq = 0;
        for item in what {
            match item {
                FlushWhat::Tables {
                    names,
                    read_lock: true,
                    ..
                } if names.is_empty() => {
                    seq = self.commit_transaction()?;
                    ddl::lock_tables::lock_globally(&instance.catalog, &mut self.locks)?;
                    self.txn.learn_of_commits();
                }
                FlushWhat::Tables {
                    names,
                    read_lock,
                    for_export,
                } if *read_lock || *for_export => {
                    seq = self.flush_and_lock(names, *for_export)?;
                }
                FlushWhat::Logs("") => {
                    let engine = &self.context.instance.engine;
                    engine.flush_all().map_err(ExecError::from)?;
                    self.rotate_binlog()?;
                    self.reopen_query_logs();
                    self.reopen_logs()?;
                }
                FlushWhat::Logs("ERROR") => self.reopen_logs()?,
                FlushWhat::Logs("SLOW" | "GENERAL") => self.reopen_query_logs(),
                FlushWhat::Logs("ENGINE") | FlushWhat::Tables { .. } => {
                    let engine = &self.context.instance.engine;
                    engine.flush_all().map_err(ExecError::from)?;
                }
                FlushWhat::Status => {
                    let registry = &self.context.instance.registry;
                    registry.flush_counts(&self.context.process);
                }
                FlushWhat::Hosts => {
                    counters.host_flushes.fetch_add(1, Ordering::Relaxed);
                }
                FlushWhat::UserResources => {
                    let usages = &self.context.instance.accounts().usages;
                    usages.flush(self.now_seconds());
                }
                FlushWhat::Privileges => {
                    let usages = &self.context.instance.accounts().usages;
                    usages.flush(self.now_seconds());
                    usages.unlock(None);
                }
                FlushWhat::Logs("BINARY") => self.rotate_binlog()?,
                // Nothing is cached that these would have to drop.
                FlushWhat::OptimizerCosts | FlushWhat::Logs(_) => (),
            }
        }
        let logged = self.logged_flush(local, what);
        Ok(ok(seq.max(self.log_alone(logged)?)))
    }

    fn run_replication(&mut self, replication: &Replication) -> Result<Done, ExecError> {
        match replication {
            Replication::PurgeTo(file) => {
                self.context.require_any(&["SUPER", "BINLOG_ADMIN"])?;
                self.purge_binlog_to(file)?;
            }
            Replication::PurgeBefore(before) => {
                self.context.require_any(&["SUPER", "BINLOG_ADMIN"])?;
                let before = self.seconds_of(before)?;
                self.purge_binlog_before(before)?;
            }
            Replication::Binlog(coded) => return self.replay(coded),
            Replication::ResetBinlog { to: None } => {
                self.context.require("RELOAD")?;
                self.reset_binlog()?;
            }
            _ if self.run_channel_statement(replication)? => {}
            _ => return Err(unsupported_replication(replication).into()),
        }
        Ok(ok(0))
    }

    /// A moment in the session's time zone, in seconds since the epoch.
    fn seconds_of(&mut self, moment: &Expr) -> Result<u32, ExecError> {
        let call = Expr::Call(Box::new(Call::plain(
            Ident::new("unix_timestamp"),
            vec![moment.clone()],
        )));
        let (value, _) = self.evaluate(&call, &[])?;
        let seconds = match value {
            Value::Int(v) => v,
            Value::UInt(v) => v as i64,
            Value::Decimal(v) => v.to_i64().0,
            _ => {
                return Err(errors::wrong_arguments("PURGE LOGS BEFORE").into());
            }
        };
        Ok(u32::try_from(seconds).unwrap_or(0))
    }

    fn run_kill(&mut self, kill: &Kill, params: &[Value]) -> Result<Done, ExecError> {
        let (value, _) = self.evaluate(&kill.id, params)?;
        let id = match value {
            Value::Int(i) if i >= 0 => i as u64,
            Value::UInt(u) => u,
            // A text that is no number names thread 0, which there never is.
            Value::Str(text) => {
                let text = String::from_utf8_lossy(&text);
                text.trim().parse().unwrap_or(0)
            }
            _ => 0,
        };
        self.kill_session(id, !kill.query)?;
        match self.context.process.kill_error() {
            Some(e) => Err(e.into()),
            None => Ok(ok(0)),
        }
    }

    /// EXECUTE: runs the prepared statement with user variables.
    fn execute_named(
        &mut self,
        name: &str,
        vars: &[Box<str>],
        mode: Mode,
    ) -> Result<Done, ExecError> {
        let id = self.named_statement(name, "EXECUTE")?;
        let prepared = self.prepared_statement(id, "EXECUTE")?;
        if prepared.params != vars.len() {
            return Err(errors::wrong_arguments("EXECUTE").into());
        }
        let statement = prepared.statement.clone();
        let sql = prepared.sql.clone();
        self.note_text(&statement, &sql);
        let params: Vec<Value> = vars
            .iter()
            .map(|v| {
                esker_sql_plan::expr::UserVars::get(&self.context, v)
                    .map_or(Value::Null, |(v, _)| v)
            })
            .collect();
        self.run_statement(&statement, &params, Some(id), mode)
    }
}

/// A value that is there without a call or a query, either of which may take long.
pub(super) fn is_plain(value: &Expr) -> bool {
    match value {
        Expr::Unary { expr, .. } => is_plain(expr),
        Expr::Literal(_)
        | Expr::Param(_)
        | Expr::Column(_)
        | Expr::UserVar(_)
        | Expr::SysVar(_) => true,
        _ => false,
    }
}

/// Does the statement commit the transaction that is open, or may it?
fn commits_what_is_open(statement: &Statement) -> bool {
    let is_autocommit = |item: &SetItem| matches!(item, SetItem::SysVar { var, .. } if var.name.eq_ignore_ascii_case("autocommit"));
    match statement {
        Statement::Set(items) => items.iter().any(is_autocommit),
        Statement::Xa(xa) => matches!(xa, Xa::Prepare(_) | Xa::Commit { .. }),
        Statement::Flush { what, .. } => what.iter().any(|what| {
            matches!(
                what,
                FlushWhat::Tables {
                    read_lock: true,
                    ..
                } | FlushWhat::Tables {
                    for_export: true,
                    ..
                }
            )
        }),
        Statement::Begin(_)
        | Statement::Commit(_)
        | Statement::CreateView(_)
        | Statement::LockTables { .. }
        | Statement::Maintain(_)
        | Statement::CreateUser(_)
        | Statement::AlterUser(_)
        | Statement::DropUser { .. }
        | Statement::RenameUser(_)
        | Statement::SetPassword(_)
        | Statement::Grant(_)
        | Statement::Revoke(_) => true,
        other => ddl::commits(other),
    }
}

/// 1235 with the statement's name.
/// One of these lets an account FLUSH this.
fn flush_rights(what: &FlushWhat) -> &'static [&'static str] {
    match what {
        FlushWhat::Tables { .. } => &["RELOAD", "FLUSH_TABLES"],
        FlushWhat::Privileges => &["RELOAD", "FLUSH_PRIVILEGES"],
        FlushWhat::Status => &["RELOAD", "FLUSH_STATUS"],
        FlushWhat::UserResources => &["RELOAD", "FLUSH_USER_RESOURCES"],
        FlushWhat::OptimizerCosts => &["RELOAD", "FLUSH_OPTIMIZER_COSTS"],
        FlushWhat::Logs(_) | FlushWhat::Hosts => &["RELOAD"],
    }
}

fn unsupported_replication(replication: &Replication) -> SqlError {
    SqlError::not_supported(match replication {
        Replication::ResetBinlog { .. } => "RESET BINARY LOGS TO",
        _ => "replication",
    })
}

/// Does the answer show what a commit has left in the binary log?
fn waits_for_binlog(what: &ShowWhat) -> bool {
    matches!(
        what,
        ShowWhat::BinlogStatus | ShowWhat::BinaryLogs | ShowWhat::BinlogEvents { .. }
    )
}

fn unsupported(statement: &Statement) -> SqlError {
    let name = match statement {
        Statement::Unsupported(name) => name,
        Statement::Help(_) => "HELP",
        _ => "this statement",
    };
    SqlError::not_supported(name)
}
