//! The prepared statements that a session has, by id and by name.
//!
//! Neighbours: `prepared` prepares, runs and closes them; `program` takes numbers here for the plans of its statements;
//! `cursor` keeps rows beside them.
//! **Invariants**
//! - Ids are never 0 and not reused within a session.
//! - Each counts against `max_prepared_stmt_count` of the server, its text and tree against the memory of all
//!   statements, from when it is added until it is closed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use esker_engine::MemoryBudget;
use esker_sql_catalog::exec_error::engine_error;
use esker_sql_exec::Reserved;
use esker_sql_syntax::Parsed;
use esker_sql_syntax::ast::Statement;
use esker_types::cast::parse_int;
use esker_types::{SqlError, SqlResult, Value, errors};

use super::cursor::Cursor;
use crate::instance::Instance;

/// A prepared statement.
pub(crate) struct PreparedStatement {
    /// Text.
    pub(crate) sql: Arc<[u8]>,
    /// Tree.
    pub(crate) statement: Arc<Statement>,
    /// Number of parameters.
    pub(crate) params: usize,
    /// Number of columns that the client was told of; 0 where only the execution knows.
    pub(super) columns: usize,
    /// Those that are numbers of LIMIT.
    limits: Vec<u32>,
    /// Rows behind an open cursor.
    pub(crate) cursor: Option<Cursor>,
    /// Bytes of the text and the tree.
    bytes: u64,
}

/// What the prepared statements of a session take.
#[derive(Default)]
struct PreparedMemory {
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

/// What MySQL calls the commands of the protocol that name a statement by its id.
const COMMAND: &str = "mysql_stmt_precheck";

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

/// The prepared statements of one session.
#[derive(Default)]
pub(super) struct PreparedStatements {
    by_id: BTreeMap<u32, PreparedStatement>,
    memory: PreparedMemory,
    /// Those of PREPARE, names in lower case.
    by_name: HashMap<Box<str>, u32>,
    last_id: u32,
}

impl PreparedStatements {
    /// Adds a statement; its id.
    ///
    /// # Errors
    /// 1461 for too many, 1041 without memory.
    pub(super) fn add(
        &mut self,
        instance: &Instance,
        text: Vec<u8>,
        parsed: Parsed,
        columns: usize,
    ) -> SqlResult<u32> {
        let bytes = STATEMENT_BYTES + text.len() as u64 + parsed.tree_bytes;
        self.memory.add(bytes, instance.engine.memory())?;
        if let Err(e) = instance.count_prepared() {
            self.memory.remove(bytes);
            return Err(e);
        }
        self.last_id = self.last_id.wrapping_add(1).max(1);
        let statement = PreparedStatement {
            sql: Arc::from(text),
            statement: Arc::new(parsed.stmt),
            params: parsed.params as usize,
            columns,
            limits: parsed.limits,
            cursor: None,
            bytes,
        };
        self.by_id.insert(self.last_id, statement);
        Ok(self.last_id)
    }

    /// Takes `count` numbers that no statement gets: the first of them.
    pub(super) fn reserve_ids(&mut self, count: u32) -> u32 {
        let first = self.last_id.wrapping_add(1);
        self.last_id = self.last_id.wrapping_add(count);
        first
    }

    /// A statement by its id.
    pub(super) fn get(&self, id: u32) -> Option<&PreparedStatement> {
        self.by_id.get(&id)
    }

    /// The same for a command of the protocol.
    ///
    /// # Errors
    /// 1243.
    pub(super) fn find(&self, id: u32) -> SqlResult<&PreparedStatement> {
        let found = self.by_id.get(&id);
        found.ok_or_else(|| unknown_statement(&id.to_string(), COMMAND))
    }

    /// The same, to change it.
    ///
    /// # Errors
    /// 1243.
    pub(super) fn find_mut(&mut self, id: u32) -> SqlResult<&mut PreparedStatement> {
        let found = self.by_id.get_mut(&id);
        found.ok_or_else(|| unknown_statement(&id.to_string(), COMMAND))
    }

    /// Closes a statement; false: there is none.
    pub(super) fn close(&mut self, instance: &Instance, id: u32) -> bool {
        let Some(gone) = self.by_id.remove(&id) else {
            return false;
        };
        self.memory.remove(gone.bytes);
        instance.prepared_count.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// Ids of all.
    pub(super) fn ids(&self) -> Vec<u32> {
        self.by_id.keys().copied().collect()
    }

    /// Calls a statement `name` from now on.
    pub(super) fn set_name(&mut self, name: &str, id: u32) {
        self.by_name.insert(name.to_lowercase().into(), id);
    }

    /// The statement that is called so, and is not any more.
    pub(super) fn take_name(&mut self, name: &str) -> Option<u32> {
        self.by_name.remove(name.to_lowercase().as_str())
    }

    /// None has a name any more.
    pub(super) fn forget_names(&mut self) {
        self.by_name.clear();
    }

    /// The id behind a name, for `command`.
    ///
    /// # Errors
    /// 1243.
    pub(super) fn named(&self, name: &str, command: &str) -> SqlResult<u32> {
        let found = self.by_name.get(name.to_lowercase().as_str());
        found
            .copied()
            .ok_or_else(|| unknown_statement(name, command))
    }
}
