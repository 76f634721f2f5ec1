//! Prepared statements of one session: COM_STMT_*, PREPARE, EXECUTE, DEALLOCATE.
//!
//! Neighbours: the server decodes binary parameters and keeps their wire types; `run` executes.
//! **Invariants**: ids are never 0 and not reused within a session; the server-wide number of
//! statements is bounded by max_prepared_stmt_count; their texts and trees count against the memory of all statements.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use esker_engine::MemoryBudget;
use esker_sql_catalog::exec_error::{ExecError, engine_error};
use esker_sql_catalog::result::{ColumnMeta, Mode};
use esker_sql_exec::Reserved;
use esker_sql_syntax::ast::{MaintainKind, PrepareSource, Replication, ShowWhat, Statement};
use esker_sql_syntax::{self as parse, ParseOptions};
use esker_types::cast::parse_int;
use esker_types::{SqlError, SqlResult, Value, errors};

use super::Session;
use super::cursor::Cursor;
use super::plans::PlanKey;
use super::run::Done;

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

/// A prepared statement.
pub(crate) struct PreparedStatement {
    /// Text.
    pub(crate) sql: Arc<[u8]>,
    /// Tree.
    pub(crate) statement: Arc<Statement>,
    /// Number of parameters.
    pub(crate) params: usize,
    /// Those that are numbers of LIMIT.
    limits: Vec<u32>,
    /// Rows behind an open cursor.
    pub(crate) cursor: Option<Cursor>,
    /// Bytes of the text and the tree.
    bytes: u64,
}

/// What the prepared statements of a session take.
#[derive(Default)]
pub(super) struct PreparedMemory {
    bytes: u64,
    reserved: Reserved,
}

impl PreparedMemory {
    /// One more.
    fn add(&mut self, bytes: u64, budget: &Arc<MemoryBudget>) -> SqlResult<()> {
        let sum = self.bytes + bytes;
        let reserved = self.reserved.raise(sum, budget);
        reserved.map_err(|e| engine_error(&e))?;
        self.bytes = sum;
        Ok(())
    }

    fn remove(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.bytes, "what is gone was there");
        self.bytes = self.bytes.saturating_sub(bytes);
        self.reserved.lower(self.bytes);
    }
}

/// Rough bytes of a prepared statement beyond its text and its tree.
const STATEMENT_BYTES: u64 = 512;

/// 1243.
fn unknown_statement(id: &str, command: &str) -> SqlError {
    let text = format!("Unknown prepared statement handler ({id}) given to {command}");
    SqlError::new(1243, "HY000", text)
}

/// How a prepared statement gets its parameters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Execution {
    /// EXECUTE … USING.
    Named,
    /// COM_STMT_EXECUTE.
    Protocol,
}

impl PreparedStatement {
    /// Parameters of LIMIT as numbers of rows: 1690 for negative ones, 1210 for what is no integer. What the protocol
    /// brings as a text is the integer at its beginning, as strtoull reads it.
    pub(super) fn settle_limits(&self, params: &mut [Value], how: Execution) -> SqlResult<()> {
        let (kind, command) = match how {
            Execution::Named => ("unsigned integer", "EXECUTE"),
            Execution::Protocol => ("SIGNED INTEGER", "mysqld_stmt_execute"),
        };
        for &nth in &self.limits {
            let Some(param) = params.get_mut(nth as usize) else {
                return Err(errors::wrong_arguments(command));
            };
            match param {
                Value::Null | Value::UInt(_) => {}
                Value::Int(n) if *n >= 0 => {}
                Value::Int(_) => return Err(errors::out_of_range(kind, command)),
                Value::Str(text) if how == Execution::Protocol => {
                    *param = Value::UInt(parse_int(text).0 as u64);
                }
                _ => return Err(errors::wrong_arguments(command)),
            }
        }
        Ok(())
    }
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
        self.clear_warnings();
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
            self.record_error(e);
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
        self.warn_of(&parsed.deprecations);
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
        let bytes = STATEMENT_BYTES + text.len() as u64 + parsed.tree_bytes;
        let instance = &self.context.instance;
        self.prepared_memory.add(bytes, instance.engine.memory())?;
        if let Err(e) = instance.count_prepared() {
            self.prepared_memory.remove(bytes);
            return Err(e);
        }
        self.next_statement_id = self.next_statement_id.wrapping_add(1).max(1);
        let id = self.next_statement_id;
        let count = parsed.params as usize;
        self.prepared.insert(
            id,
            PreparedStatement {
                sql: Arc::from(text),
                statement: Arc::new(parsed.stmt),
                params: count,
                limits: parsed.limits,
                cursor: None,
                bytes,
            },
        );
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
        self.prepared_statement(id, "mysqld_stmt_execute")
            .map(|p| p.params)
    }

    pub(crate) fn prepared_statement(
        &self,
        id: u32,
        command: &str,
    ) -> SqlResult<&PreparedStatement> {
        self.prepared
            .get(&id)
            .ok_or_else(|| unknown_statement(&id.to_string(), command))
    }

    pub(crate) fn prepared_mut(
        &mut self,
        id: u32,
        command: &str,
    ) -> SqlResult<&mut PreparedStatement> {
        self.prepared
            .get_mut(&id)
            .ok_or_else(|| unknown_statement(&id.to_string(), command))
    }

    /// COM_STMT_CLOSE; unknown ids are ignored.
    pub fn close_statement(&mut self, id: u32) {
        if let Some(gone) = self.prepared.remove(&id) {
            self.prepared_memory.remove(gone.bytes);
            self.plans.forget(PlanKey::Prepared(id));
            self.context
                .instance
                .prepared_count
                .fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// COM_STMT_RESET: closes the cursor.
    ///
    /// # Errors
    /// 1243.
    pub fn reset_statement(&mut self, id: u32) -> SqlResult<()> {
        self.prepared_mut(id, "mysqld_stmt_reset")?.cursor = None;
        Ok(())
    }

    /// Forgets every prepared statement.
    pub(crate) fn close_all_statements(&mut self) {
        let ids: Vec<u32> = self.prepared.keys().copied().collect();
        ids.into_iter().for_each(|id| self.close_statement(id));
        self.named.clear();
    }

    /// PREPARE name FROM.
    pub(crate) fn prepare_named(&mut self, name: &str, source: &PrepareSource) -> SqlResult<()> {
        let name: Box<str> = name.to_lowercase().into();
        if let Some(old) = self.named.remove(&name) {
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
        self.mark_any();
        let prepared = self.prepare_text(text)?;
        self.named.insert(name, prepared.id);
        Ok(())
    }

    /// The id behind EXECUTE's name.
    pub(crate) fn named_statement(&self, name: &str, command: &str) -> SqlResult<u32> {
        self.named
            .get(name.to_lowercase().as_str())
            .copied()
            .ok_or_else(|| unknown_statement(name, command))
    }

    /// EXECUTE: runs the prepared statement with user variables.
    pub(super) fn execute_named(
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
        }
        Ok(done)
    }

    /// DEALLOCATE PREPARE.
    pub(crate) fn deallocate(&mut self, name: &str) -> SqlResult<()> {
        let id = self.named_statement(name, "DEALLOCATE PREPARE")?;
        self.mark_any();
        self.named.remove(name.to_lowercase().as_str());
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
