//! Stored programs in a session: CALL, and the statements about conditions.
//!
//! Neighbours: `crate::program` has the instructions; `step` keeps the machine of a CALL between its result sets, and
//! comes back here for the next one. Parts: `machine` (the interpreter), `statement` (SQL statements of a body),
//! `values` (variables), `call` (arguments, and which routine), `environment` (whose privileges and settings a body
//! has), `condition` (SIGNAL, RESIGNAL, GET DIAGNOSTICS), `trigger` (programs inside of a statement), `function` (calls
//! of functions there) with `lender` (what such a statement sees of its session), `routine` (CREATE, ALTER and DROP),
//! `event` (the body of an event).
//!
//! **Invariants**
//! - A program runs on a thread of its own. Between two of its result sets its machine waits in the request; a
//!   statement of it that has to wait for a lock is run again, not what was before it.
//! - Whatever becomes of a program, the session has its own account, database and settings back behind it.
//! - Every turn of a loop asks whether the statement may go on.

mod call;
mod condition;
mod environment;
mod event;
mod function;
mod lender;
mod machine;
mod routine;
mod statement;
mod trigger;
mod values;

use std::collections::HashMap;
use std::sync::Arc;

use esker_sql_catalog::catalog::{RoutineDef, RoutineKey, TableId};
use esker_sql_catalog::variables::{VarId, VarValue};
use esker_types::{SqlType, Value, Warning};

use crate::program::Program;

use environment::Environment;
pub(super) use machine::{Machine, Progress, TriggerRow};
pub(super) use trigger::TriggerProgram;

/// Most programs that a session keeps compiled.
const MAX_LOADED: usize = 256;

/// What a session knows of the programs that it runs.
#[derive(Default)]
pub(super) struct ProgramState {
    /// What to go back to, the innermost program last.
    outer: Vec<Environment>,
    /// Types of the parameters of the statement that runs, if they are variables.
    pub(super) types: Option<Arc<[SqlType]>>,
    /// Bad values in the expression that is evaluated are errors.
    pub(super) strict: bool,
    /// They are in the rows that the statement changes.
    pub(super) changes_strictly: bool,
    /// The rows of the query that runs go to variables, in strict mode.
    pub(super) stores: bool,
    /// They are in the statement around the functions and triggers that run, and so, as in MySQL, in all that these
    /// evaluate.
    pub(super) strict_around: bool,
    /// They are in the value around them that a variable is set to: then conditions of queries are strict, too.
    pub(super) queries_strictly: bool,
    /// Where GET DIAGNOSTICS leaves its values for a program.
    pub(super) into: Option<Vec<(Value, SqlType)>>,
    /// What the handler that runs handles.
    handled: Option<Arc<Handled>>,
    loaded: HashMap<(Arc<str>, RoutineKey), Loaded>,
    /// Programs inside of statements that run, the innermost last.
    inside: Vec<Inside>,
    /// What options that the innermost of these has set were outside, the last one first to go back.
    options: Vec<(VarId, VarValue)>,
    /// The change that runs calls stored functions: the tables that it uses.
    pub(super) calling: Option<Vec<TableId>>,
    /// The result set that follows has the OUT parameters of a prepared CALL.
    pub(super) gives_out_params: bool,
}

impl ProgramState {
    /// Does a statement of a program run?
    pub(super) fn is_running(&self) -> bool {
        !self.outer.is_empty()
    }

    /// A variable was set: the hot copies of what is outside have to be derived anew.
    pub(super) fn forget_outer_vars(&mut self) {
        for environment in &mut self.outer {
            environment.forget_vars();
        }
    }

    /// EXECUTE of this prepared CALL has entered the innermost program.
    pub(super) fn is_executed_by(&mut self, prepared: u32) {
        if let Some(environment) = self.outer.last_mut() {
            environment.note_prepared(prepared);
        }
    }

    /// Does the prepared statement run?
    pub(super) fn executes(&self, prepared: u32) -> bool {
        let mut entered = self.outer.iter().map(Environment::prepared);
        entered.any(|id| id == Some(prepared))
    }

    /// Is what runs a part of a statement, with whose end it will be committed?
    pub(super) fn is_nested(&self) -> bool {
        !self.inside.is_empty()
    }
}

/// A program inside of a statement.
enum Inside {
    Trigger,
    Function(Arc<RoutineDef>),
}

/// The diagnostics area as it was when a handler began.
struct Handled {
    /// What `max_error_count` has room for.
    conditions: Vec<Warning>,
    /// What is handled, if it is not among them either.
    raised: Warning,
}

/// A routine, compiled.
#[derive(Clone)]
struct Loaded {
    def: Arc<RoutineDef>,
    program: Arc<Program>,
    /// Plans of its statements are kept under this number and those behind it.
    first_plan: u32,
    /// The binding inside that belongs to one outside.
    binding: Option<(u64, u64)>,
}
