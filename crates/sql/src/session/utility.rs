//! Utility statements, which are neither queries nor changes of rows: which module runs each of them, and by name those
//! that Esker does not have.
//!
//! Neighbours: `run` hands them over; each arm calls the module that does the work.
//! **Invariants**: schema statements, LOCK TABLES and account statements commit what is open before
//! they begin, as in MySQL; everything that may wait or run long is refused in inline mode.

use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::{Mode, OkInfo};
use esker_sql_syntax::ast::{Expr, Query, SetItem, Show, ShowFilter, ShowWhat, Statement, Xa};
use esker_types::{SqlError, Value, errors};

use super::Session;
use super::read_only::freezes;
use super::rows::RowSource;
use super::run::{Done, ok};
use super::set::{is_plain, is_quick};
use crate::ddl;
use crate::show;

impl Session {
    pub(super) fn run_utility(
        &mut self,
        statement: &Statement,
        params: &[Value],
        prepared: bool,
        mode: Mode,
    ) -> Result<Done, ExecError> {
        self.check_frozen(statement)?;
        let unlocks = matches!(statement, Statement::UnlockTables) && self.locks.has_explicit();
        if unlocks || commits_implicitly(statement) {
            self.admit_commit()?;
        }
        if self.is_refused_read_only(statement) {
            if mode == Mode::Inline {
                return Ok(Done::NeedThread);
            }
            match self.refuse_read_only()? {}
        }
        if let Statement::Truncate { name, .. } = statement
            && let Some(spec) = self.context.find_system_table(name)?
        {
            if mode == Mode::Inline {
                return Ok(Done::NeedThread);
            }
            let seq = self.commit_transaction()?;
            self.truncate_system_table(spec)?;
            return Ok(ok(seq));
        }
        self.run_allowed(statement, params, prepared, mode)
    }

    /// Runs a statement that nothing forbids.
    fn run_allowed(
        &mut self,
        statement: &Statement,
        params: &[Value],
        prepared: bool,
        mode: Mode,
    ) -> Result<Done, ExecError> {
        match statement {
            Statement::Empty => Ok(ok(0)),
            Statement::ResetPersist { if_exists, name } => {
                self.reset_persist(name.as_deref(), *if_exists)?;
                Ok(ok(0))
            }
            Statement::Xa(_)
            | Statement::Begin(_)
            | Statement::Commit(_)
            | Statement::Rollback(_)
            | Statement::Savepoint(_)
            | Statement::RollbackTo(_)
            | Statement::ReleaseSavepoint(_)
            | Statement::SetTransaction(_) => self.run_transaction_statement(statement, mode),
            Statement::Set(items) => self.run_set(items, params, mode),
            Statement::Use(name) if name.text.is_empty() => Err(errors::no_database().into()),
            Statement::Use(name) => {
                self.use_database(&name.text)?;
                Ok(ok(0))
            }
            Statement::Do(_) if mode == Mode::Inline => Ok(Done::NeedThread),
            Statement::Do(list) => self.run_do(list, params),
            Statement::Show(show) if mode == Mode::Inline && may_wait(show) => Ok(Done::NeedThread),
            Statement::Show(show) => Ok(rows_of(show::run(self, show, params)?)),
            Statement::Help(_) => Ok(rows_of(show::no_help())),
            Statement::Explain(explain) => self.explain(explain, params, mode),
            Statement::Prepare { name, source } => {
                self.prepare_named(&name.text, source)?;
                let info = OkInfo {
                    info: "Statement prepared".into(),
                    ..OkInfo::default()
                };
                Ok(Done::Ok(info, 0))
            }
            Statement::Call { name, args } => self.call((name, args), params, prepared, mode),
            Statement::Signal(signal) => self.signal(signal, params),
            Statement::GetDiagnostics(get) => self.get_diagnostics(get, params),
            Statement::Execute { name, vars } => self.execute_named(&name.text, vars, mode),
            Statement::Deallocate(name) => {
                self.deallocate(&name.text)?;
                Ok(ok(0))
            }
            Statement::Kill(kill) if mode == Mode::Inline && !is_plain(&kill.id) => {
                Ok(Done::NeedThread)
            }
            Statement::Kill(kill) => self.run_kill(kill, params),
            Statement::Handler(handler) => self.run_handler(handler, mode),
            other if self.handlers.is_empty() || mode == Mode::Inline => {
                self.run_thread_statement(other, params, mode)
            }
            other => self.run_beside_handlers(other, |session| {
                session.run_thread_statement(other, params, mode)
            }),
        }
    }

    /// DO: expressions, in which as in SELECT there may be aggregates and windows.
    fn run_do(&mut self, list: &[Expr], params: &[Value]) -> Result<Done, ExecError> {
        self.use_transaction();
        for item in list {
            let item = Query::of_item(item.clone());
            self.evaluate(&Expr::Subquery(Box::new(item)), params)?;
        }
        self.forget_kill();
        Ok(ok(self.end_statement(true)?))
    }

    /// Statements that begin, end or divide a transaction.
    fn run_transaction_statement(
        &mut self,
        statement: &Statement,
        mode: Mode,
    ) -> Result<Done, ExecError> {
        if mode == Mode::Inline && self.transaction_statement_may_wait(statement) {
            return Ok(Done::NeedThread);
        }
        match statement {
            Statement::Xa(xa) => {
                let done = self.run_xa(xa, mode)?;
                // A branch that is prepared stays open, and its session commits nothing now.
                self.locks.release_statement();
                return Ok(done);
            }
            Statement::Begin(begin) => return Ok(ok(self.begin(begin)?)),
            Statement::Commit(completion) => return Ok(ok(self.commit(*completion)?)),
            Statement::Rollback(completion) => self.roll_back(*completion)?,
            Statement::Savepoint(name) => self.savepoint(&name.text)?,
            Statement::RollbackTo(name) => self.rollback_to(&name.text)?,
            Statement::ReleaseSavepoint(name) => self.release_savepoint(&name.text)?,
            Statement::SetTransaction(set) => self.set_transaction(set)?,
            other => unreachable!("{other:?} is no transaction statement"),
        }
        Ok(ok(0))
    }

    /// Would the statement hold up a worker: for the position of a snapshot, or for the space of a commit?
    fn transaction_statement_may_wait(&self, statement: &Statement) -> bool {
        match statement {
            Statement::Begin(begin) => begin.snapshot && self.context.instance.binlog.is_on(),
            Statement::Commit(_) => {
                let engine = &self.context.instance.engine;
                engine.holds_writers()
                    || engine.is_decided_elsewhere()
                    || self.txn.has_spilled()
                    || self.capture.has_spooled()
            }
            _ => false,
        }
    }

    fn run_set(
        &mut self,
        items: &[SetItem],
        params: &[Value],
        mode: Mode,
    ) -> Result<Done, ExecError> {
        if is_quick(items)
            && !items.iter().any(freezes)
            && (mode == Mode::Thread || !self.context.may_wait_for_gtid(items))
        {
            self.set(items, params)?;
            return Ok(ok(self.pending_commit.take()));
        }
        if mode == Mode::Inline {
            return Ok(Done::NeedThread);
        }
        // Subqueries read as those of any other statement.
        self.use_transaction();
        self.set(items, params)?;
        let seq = self.end_statement(true)?;
        Ok(ok(seq.max(self.pending_commit.take())))
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
            self.context.know_prepared_tables();
            return self.run_ddl(statement, params);
        }
        self.context.check_accounts_above(statement)?;
        if administers(statement) {
            if self.is_firing() {
                return Err(errors::commit_in_function().into());
            }
            self.commit_transaction()?;
        }
        let done = self.run_alone(statement, params)?;
        self.locks.release_statement();
        Ok(done)
    }

    fn run_alone(&mut self, statement: &Statement, params: &[Value]) -> Result<Done, ExecError> {
        match statement {
            Statement::CreateView(create) => {
                if self.spare_system_tables(statement) {
                    self.context.require_in("CREATE VIEW", "sys")?;
                    return Ok(ok(0));
                }
                self.context.know_prepared_tables();
                self.create_view(create)
            }
            Statement::CreateTrigger(create) => {
                self.context.know_prepared_tables();
                self.create_trigger(create)
            }
            Statement::LockTables { tables, .. } => {
                self.context.know_prepared_tables();
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
            Statement::BackupServer(backup) => self.context.back_up_server(backup),
            Statement::Flush { local, what } => self.flush(*local, what),
            Statement::Shutdown => self.context.shut_down(),
            Statement::Restart => self.context.restart(),
            Statement::DropServer { if_exists, name } => self.context.drop_server(*if_exists, name),
            Statement::Components { install, urns } => self.context.components(*install, urns),
            Statement::AlterInstance(what) => self.alter_instance(*what),
            Statement::Maintain(m) => self.maintain(m),
            Statement::LoadData(load) => self.load_data(load, None),
            Statement::Replication(replication) => self.run_replication(replication),
            Statement::CreateRoutine(create) => self.create_routine(create),
            Statement::AlterRoutine(alter) => self.alter_routine(alter),
            Statement::CreateEvent(create) => self.create_event(create, params),
            Statement::AlterEvent(alter) => self.alter_event(alter, params),
            other => match self.run_account_statement(other) {
                Some(done) => done,
                None => Err(unsupported(other).into()),
            },
        }
    }
}

/// Does the statement commit the transaction that is open, or may it?
pub(super) fn commits_implicitly(statement: &Statement) -> bool {
    let is_autocommit = |item: &SetItem| matches!(item, SetItem::SysVar { var, .. } if var.name.eq_ignore_ascii_case("autocommit"));
    match statement {
        Statement::Set(items) => items.iter().any(is_autocommit),
        Statement::Xa(xa) => matches!(xa, Xa::Prepare(_) | Xa::Commit { .. }),
        other if administers(other) => true,
        Statement::Begin(_)
        | Statement::Commit(_)
        | Statement::CreateView(_)
        | Statement::CreateRoutine(_)
        | Statement::AlterRoutine(_)
        | Statement::CreateTrigger(_)
        | Statement::CreateEvent(_)
        | Statement::AlterEvent(_)
        | Statement::LockTables { .. }
        | Statement::Maintain(_)
        | Statement::CreateUser(_)
        | Statement::AlterUser(_)
        | Statement::DropUser { .. }
        | Statement::RenameUser(_)
        | Statement::CreateRole { .. }
        | Statement::DropRole { .. }
        | Statement::SetPassword(_)
        | Statement::Grant(_)
        | Statement::Revoke(..) => true,
        other => ddl::commits(other),
    }
}

/// Is it about the server rather than about rows, and commits what is open whether it succeeds or not?
fn administers(statement: &Statement) -> bool {
    match statement {
        Statement::Replication(replication) => replication.commits(),
        Statement::Flush { .. }
        | Statement::AlterInstance(_)
        | Statement::Components { .. }
        | Statement::DropServer { .. } => true,
        _ => false,
    }
}

/// The answer that is a table.
fn rows_of(table: show::Table) -> Done {
    let source = RowSource::Table(table.columns, table.rows.into_iter());
    Done::Rows(Box::new(source))
}

/// May the answer take a while: does it evaluate a condition, or wait for what a commit leaves in the binary log?
fn may_wait(show: &Show) -> bool {
    matches!(show.filter, Some(ShowFilter::Where(_))) || waits_for_binlog(show)
}

/// Does the answer show what a commit has left in the binary log?
fn waits_for_binlog(show: &Show) -> bool {
    show::asks_for_gtids(show)
        || matches!(
            show.what,
            ShowWhat::BinlogStatus | ShowWhat::BinaryLogs | ShowWhat::BinlogEvents { .. }
        )
}

/// 1235 with the statement's name.
fn unsupported(statement: &Statement) -> SqlError {
    let name = match statement {
        Statement::Unsupported(name) => name,
        _ => "this statement",
    };
    SqlError::not_supported(name)
}
