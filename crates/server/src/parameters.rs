//! Binary parameters between COM_STMT_PREPARE and COM_STMT_EXECUTE: wire types that a client sends
//! once, and long data it sends ahead.
//!
//! Neighbours: `dispatch` decodes executions through here; `esker_wire::params` knows the layout.
//! **Invariants**: long data of a connection is bounded by max_allowed_packet in total, is taken only
//! for parameters that exist, and is used by exactly one execution; what was too long is reported by
//! that execution (error 1153), and so is what there was no memory for (error 1041).

use std::borrow::Cow;
use std::collections::HashMap;

use esker_sql::Session;
use esker_types::{SqlResult, Value, errors};
use esker_wire::attributes::Attribute;
use esker_wire::command::Execute;
use esker_wire::params::{self, ParamType};

use crate::connection::received::{Received, Sent, grow};

#[derive(Default)]
struct Bound {
    types: Vec<ParamType>,
    long: Vec<Option<Vec<u8>>>,
    long_bytes: usize,
    /// There was too much long data.
    too_long: bool,
    /// There was no memory for more long data.
    no_memory: bool,
    /// There was long data for a parameter that the statement has not.
    no_such_param: bool,
}

impl Bound {
    /// Forgets long data and returns how much there was.
    fn drop_long_data(&mut self) -> usize {
        self.long = Vec::new();
        self.too_long = false;
        self.no_memory = false;
        self.no_such_param = false;
        std::mem::take(&mut self.long_bytes)
    }
}

/// Per statement id.
#[derive(Default)]
pub(crate) struct Parameters {
    statements: HashMap<u32, Bound>,
    /// Long data of all statements, bytes.
    long_bytes: usize,
    /// Memory of it, and of packets: of all that the client has sent.
    pub(crate) room: Received,
}

impl Parameters {
    /// COM_STMT_SEND_LONG_DATA. It has no answer, so trouble is remembered for the execution; a
    /// statement that does not exist will have none.
    pub(crate) fn append(&mut self, session: &Session, id: u32, param: u16, data: &[u8]) {
        let Ok(count) = session.param_count(id) else {
            return;
        };
        let bound = self.statements.entry(id).or_default();
        let param = usize::from(param);
        if self.long_bytes + data.len() > session.max_allowed_packet() {
            bound.too_long = true;
            return;
        }
        if param >= count {
            bound.no_such_param = true;
            return;
        }
        if bound.long.len() <= param {
            bound.long.resize(param + 1, None);
        }
        let value = bound.long[param].get_or_insert_default();
        let sum = self.long_bytes + data.len();
        let held = self.room.hold(Sent::LongData, sum, session.memory());
        if held.and_then(|()| grow(value, data.len())).is_err() {
            bound.no_memory = true;
            return;
        }
        value.extend_from_slice(data);
        bound.long_bytes += data.len();
        self.long_bytes = sum;
    }

    /// The values of one execution, and its attributes.
    ///
    /// # Errors
    /// 1243 for unknown statements, 1210 for malformed parameters, 1153 for too much long data, 1041 where there was no
    /// memory for it.
    pub(crate) fn decode(
        &mut self,
        session: &Session,
        execute: &Execute<'_>,
        capabilities: u32,
    ) -> SqlResult<(Vec<Value>, Vec<Attribute>)> {
        let count = session.param_count(execute.statement)?;
        let bound = self.statements.entry(execute.statement).or_default();
        let wrong = || errors::wrong_arguments("mysqld_stmt_execute");
        let decoded = if bound.too_long {
            Err(errors::packet_too_large())
        } else if bound.no_memory {
            Err(errors::out_of_memory("long data need more than there is"))
        } else if bound.no_such_param {
            Err(wrong())
        } else {
            params::decode(execute, count, capabilities, &mut bound.types, &bound.long)
                .map_err(|_| wrong())
        };
        let dropped = bound.drop_long_data();
        self.give_back(dropped);
        let (mut values, attributes) = decoded?;
        for value in &mut values {
            // Byte strings, too: a column of bytes gets back what was sent, for a parameter has the client's character
            // set.
            if let Value::Str(text) = value
                && let Cow::Owned(utf8) = session.to_utf8(text)
            {
                *text = utf8;
            }
        }
        Ok((values, attributes))
    }

    /// COM_STMT_RESET.
    pub(crate) fn drop_long_data(&mut self, id: u32) {
        if let Some(bound) = self.statements.get_mut(&id) {
            let dropped = bound.drop_long_data();
            self.give_back(dropped);
        }
    }

    /// COM_STMT_CLOSE.
    pub(crate) fn forget(&mut self, id: u32) {
        if let Some(mut bound) = self.statements.remove(&id) {
            let dropped = bound.drop_long_data();
            self.give_back(dropped);
        }
    }

    /// COM_RESET_CONNECTION, COM_CHANGE_USER.
    pub(crate) fn clear(&mut self) {
        self.statements.clear();
        self.give_back(self.long_bytes);
    }

    fn give_back(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.long_bytes);
        self.long_bytes -= bytes;
        self.room.keep(Sent::LongData, self.long_bytes);
    }
}
