//! Binary parameters between COM_STMT_PREPARE and COM_STMT_EXECUTE: wire types that a client sends
//! once, and long data it sends ahead.
//!
//! Neighbours: `dispatch` decodes executions through here; `esker_wire::params` knows the layout.
//! **Invariants**: long data of a statement is bounded by max_allowed_packet in total and used by
//! exactly one execution; what was too long is reported by that execution (error 1153).

use std::collections::HashMap;

use esker_sql::Session;
use esker_types::{SqlError, SqlResult, Value};
use esker_wire::command::Execute;
use esker_wire::params::{self, ParamType};

/// Most parameters of a statement (the protocol counts them in 16 bits).
const MAX_PARAMS: usize = 65_535;

#[derive(Default)]
struct Bound {
    types: Vec<ParamType>,
    long: Vec<Option<Vec<u8>>>,
    long_bytes: usize,
    too_long: bool,
}

/// Per statement id.
#[derive(Default)]
pub(crate) struct Parameters {
    statements: HashMap<u32, Bound>,
}

impl Parameters {
    /// COM_STMT_SEND_LONG_DATA. It has no answer, so trouble is remembered for the execution.
    pub(crate) fn append(&mut self, id: u32, param: u16, data: &[u8], limit: usize) {
        let bound = self.statements.entry(id).or_default();
        let param = usize::from(param);
        if bound.long_bytes + data.len() > limit || param >= MAX_PARAMS {
            bound.too_long = true;
            return;
        }
        if bound.long.len() <= param {
            bound.long.resize(param + 1, None);
        }
        bound.long_bytes += data.len();
        bound.long[param]
            .get_or_insert_default()
            .extend_from_slice(data);
    }

    /// The values of one execution.
    ///
    /// # Errors
    /// 1243 for unknown statements, 1210 for malformed parameters, 1153 for too much long data.
    pub(crate) fn decode(
        &mut self,
        session: &Session,
        execute: &Execute<'_>,
        capabilities: u32,
    ) -> SqlResult<Vec<Value>> {
        let count = session.param_count(execute.statement)?;
        let bound = self.statements.entry(execute.statement).or_default();
        if std::mem::take(&mut bound.too_long) {
            bound.long.clear();
            bound.long_bytes = 0;
            let text = "Got a packet bigger than 'max_allowed_packet' bytes";
            return Err(SqlError::new(1153, "08S01", text));
        }
        let decoded = params::decode(execute, count, capabilities, &mut bound.types, &bound.long);
        if !bound.long.is_empty() {
            bound.long = Vec::new();
            bound.long_bytes = 0;
        }
        decoded
            .map_err(|_| SqlError::new(1210, "HY000", "Incorrect arguments to mysqld_stmt_execute"))
    }

    /// COM_STMT_RESET.
    pub(crate) fn drop_long_data(&mut self, id: u32) {
        if let Some(bound) = self.statements.get_mut(&id) {
            bound.long = Vec::new();
            bound.long_bytes = 0;
            bound.too_long = false;
        }
    }

    /// COM_STMT_CLOSE.
    pub(crate) fn forget(&mut self, id: u32) {
        self.statements.remove(&id);
    }

    /// COM_RESET_CONNECTION, COM_CHANGE_USER.
    pub(crate) fn clear(&mut self) {
        self.statements.clear();
    }
}
