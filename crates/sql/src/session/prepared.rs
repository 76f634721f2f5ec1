//! Commands about prepared statements: COM_STMT_*, PREPARE, EXECUTE, DEALLOCATE.
//!
//! Neighbours: the server decodes binary parameters and keeps their wire types; `statements` keeps the statements;
//! `run` executes.
//! **Invariants**: a statement that is closed has no plan any more; one that cannot be prepared leaves nothing
//! behind.

use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::{ColumnMeta, Mode};
use esker_sql_syntax::ast::{MaintainKind, PrepareSource, Replication, ShowWhat, Statement};
use esker_sql_syntax::{self as parse, ParseOptions};
use esker_types::{SqlError, SqlResult, Value, errors};

use super::Session;
use super::plans::PlanKey;
use super::run::Done;
use super::statements::Execution;

/// What COM_STMT_PREPARE answers.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Statement id.
    pub id: u32,
    /// Parameters.
    pub params: Vec<ColumnMeta>,
    /// Result columns; empty for statements without rows.
    pub columns: Vec<ColumnMeta>,
}

/// Most parameters of a statement: the protocol counts them in 16 bits.
const MAX_PARAMS: u32 = 65_535;

impl Session {
    /// COM_STMT_PREPARE.
    ///
    /// # Errors
    /// Syntax and name errors, 1295 for statements that cannot be prepared, 1461 for too many, 1041 without memory.
    pub fn prepare(&mut self, sql: &[u8]) -> SqlResult<Prepared> {
        self.begin_command("Prepare", &self.to_utf8(sql));
        self.diagnostics.clear();
        self.context.pace.enter(Mode::Inline);
        self.context.pace.set_deadline(None);
        let result = self
            .survive(|session| {
                let text = session.statement_to_utf8(sql, false).0.into_owned();
                session.prepare_text(text)
            })
            .and_then(|prepared| prepared);
        self.context.pace.rest();
        if let Err(e) = &result {
            self.audit_command("stmt_prepare", &self.to_utf8(sql), e);
            self.diagnostics.record(&self.vars, e);
        }
        self.end_command();
        result
    }

    /// `text` is UTF-8: what is read in the client's character set a second time may be another statement.
    fn prepare_text(&mut self, text: Vec<u8>) -> SqlResult<Prepared> {
        self.context.check_password_is_fresh()?;
        let options = ParseOptions {
            params: true,
            ..self.parse_options()
        };
        let parsed = parse::parse(&text, options)?;
        self.diagnostics.warn_of(&self.vars, &parsed.deprecations);
        if !is_prepared(&parsed.stmt) || super::run::asks_for_counts(&parsed.stmt) {
            return Err(SqlError::new(
                1295,
                "HY000",
                "This command is not supported in the prepared statement protocol yet",
            ));
        }
        if let Statement::Call { name, args } = &parsed.stmt {
            self.check_call(name, args.len())?;
        }
        if parsed.params > MAX_PARAMS {
            let text = "Prepared statement contains too many placeholders";
            return Err(SqlError::new(1390, "HY000", text));
        }
        let is_event = matches!(
            parsed.stmt,
            Statement::CreateEvent(_) | Statement::AlterEvent(_)
        );
        if is_event && parsed.params > 0 {
            let text = "Dynamic parameters can only be used in DML statements.";
            return Err(SqlError::new(6413, "HY000", text));
        }
        let description = self.describe(&parsed.stmt, parsed.params as usize)?;
        let instance = &self.context.instance;
        let id = self
            .prepared
            .add(instance, text, parsed, description.columns.len())?;
        Ok(Prepared {
            id,
            params: description.params,
            columns: description.columns,
        })
    }

    /// Number of parameters of a prepared statement.
    ///
    /// # Errors
    /// 1243.
    pub fn param_count(&self, id: u32) -> SqlResult<usize> {
        let prepared = self.prepared.find(id)?;
        Ok(prepared.params)
    }

    /// COM_STMT_CLOSE; unknown ids are ignored.
    pub fn close_statement(&mut self, id: u32) {
        if self.prepared.close(&self.context.instance, id) {
            self.plans.forget(PlanKey::Prepared(id));
        }
    }

    /// COM_STMT_RESET: closes the cursor.
    ///
    /// # Errors
    /// 1243.
    pub fn reset_statement(&mut self, id: u32) -> SqlResult<()> {
        let prepared = self.prepared.find_mut(id)?;
        prepared.cursor = None;
        Ok(())
    }

    /// Forgets every prepared statement.
    pub(crate) fn close_all_statements(&mut self) {
        let ids = self.prepared.ids();
        ids.into_iter().for_each(|id| self.close_statement(id));
        self.prepared.forget_names();
    }

    /// PREPARE name FROM.
    pub(crate) fn prepare_named(&mut self, name: &str, source: &PrepareSource) -> SqlResult<()> {
        if let Ok(old) = self.prepared.named(name, "PREPARE") {
            self.check_is_idle(old)?;
            self.prepared.take_name(name);
            self.close_statement(old);
        }
        let text = match source {
            PrepareSource::Text(text) => text.clone(),
            PrepareSource::Var(var) => {
                let value = esker_sql_plan::expr::UserVars::get(&self.context, var);
                match value {
                    Some((Value::Str(s), _)) => s,
                    Some((other, ty)) => {
                        let mut out = Vec::new();
                        esker_types::cast::write_text(other.as_ref(), &ty, &mut out);
                        out
                    }
                    None => b"NULL".to_vec(),
                }
            }
        };
        self.tracker.mark_any(&self.values);
        let prepared = self.prepare_text(text)?;
        self.prepared.set_name(name, prepared.id);
        Ok(())
    }

    /// EXECUTE: runs the prepared statement with user variables.
    pub(super) fn execute_named(
        &mut self,
        name: &str,
        vars: &[Box<str>],
        mode: Mode,
    ) -> Result<Done, ExecError> {
        let id = self.prepared.named(name, "EXECUTE")?;
        self.check_is_idle(id)?;
        let prepared = self.prepared.find(id)?;
        if prepared.params != vars.len() {
            return Err(errors::wrong_arguments("EXECUTE").into());
        }
        let statement = prepared.statement.clone();
        let sql = prepared.sql.clone();
        let mut params: Vec<Value> = vars
            .iter()
            .map(|v| {
                esker_sql_plan::expr::UserVars::get(&self.context, v)
                    .map_or(Value::Null, |(v, _)| v)
            })
            .collect();
        let settled = prepared.settle_limits(&mut params, Execution::Named);
        self.note_text(&statement, &sql);
        settled?;
        let mut done = self.run_statement(&statement, &params, Some(id), mode)?;
        if let Done::Program(machine) = &mut done {
            machine.use_variables(vars);
            self.program.is_executed_by(id);
        }
        Ok(done)
    }

    /// A CALL that runs is neither run nor prepared anew by what it calls.
    fn check_is_idle(&self, id: u32) -> SqlResult<()> {
        let text = "The prepared statement contains a stored routine call that refers to that same statement. It's not \
                    allowed to execute a prepared statement in such a recursive manner";
        match self.program.executes(id) {
            true => Err(SqlError::new(1444, "HY000", text)),
            false => Ok(()),
        }
    }

    /// DEALLOCATE PREPARE.
    pub(crate) fn deallocate(&mut self, name: &str) -> SqlResult<()> {
        let id = self.prepared.named(name, "DEALLOCATE PREPARE")?;
        self.check_is_idle(id)?;
        self.tracker.mark_any(&self.values);
        self.prepared.take_name(name);
        self.close_statement(id);
        Ok(())
    }
}

/// Can the statement be prepared? BEGIN can, other than in MySQL: some drivers prepare whatever they send.
fn is_prepared(statement: &Statement) -> bool {
    match statement {
        Statement::Prepare { .. }
        | Statement::Execute { .. }
        | Statement::Deallocate(_)
        | Statement::Xa(_)
        | Statement::Handler(_)
        | Statement::LoadData(_)
        | Statement::LockTables { .. }
        | Statement::UnlockTables
        | Statement::LockInstance
        | Statement::UnlockInstance
        | Statement::Use(_)
        | Statement::CreateTrigger(_)
        | Statement::CreateRoutine(_)
        | Statement::AlterRoutine(_)
        | Statement::AlterDatabase { .. }
        | Statement::Signal(_)
        | Statement::GetDiagnostics(_)
        | Statement::Savepoint(_)
        | Statement::RollbackTo(_)
        | Statement::ReleaseSavepoint(_)
        | Statement::CreateRole { .. }
        | Statement::Help(_)
        | Statement::Components { .. }
        | Statement::DropServer { .. }
        | Statement::Tablespace(_)
        | Statement::Shutdown
        | Statement::Restart => false,
        Statement::DropProgram(drop) => drop.kind == "EVENT",
        Statement::CreateView(view) => !view.alter,
        Statement::Replication(replication) => !matches!(
            **replication,
            Replication::PurgeTo(_) | Replication::PurgeBefore(_) | Replication::Group { .. }
        ),
        Statement::Maintain(maintain) => {
            maintain.kind != MaintainKind::Check || maintain.partitions.is_some()
        }
        Statement::Show(show) => !matches!(
            show.what,
            ShowWhat::Warnings { .. }
                | ShowWhat::Errors { .. }
                | ShowWhat::CountWarnings
                | ShowWhat::CountErrors
        ),
        _ => true,
    }
}
