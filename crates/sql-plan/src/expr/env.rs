//! What evaluating an expression may reach besides its row.
//!
//! Neighbours: `exec` and `dml` build an [`EvalEnv`] per statement step; the session implements
//! [`UserVars`], `exec` implements [`Queries`].
//! **Invariants**: an environment is a bundle of references, cheap to copy; interior mutability is
//! only in the warnings area, the user variables, the states of calls and those behind [`Queries`].

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use esker_sql_catalog::exec_error::ExecResult;
use esker_types::fulltext::Search;
use esker_types::func::SeededRand;
use esker_types::{EvalCtx, SqlResult, SqlType, Value};

use super::{Match, StoredCall, Subquery};

/// User variables (`@name`), implemented by the session.
pub trait UserVars {
    /// Value and type; `None` when it was never set. `name` is lower-case.
    fn get(&self, name: &str) -> Option<(Value, SqlType)>;
    /// Sets it.
    fn set(&self, name: &str, value: Value, ty: SqlType);
}

/// No user variables: every one reads as unset, assignments vanish.
pub struct NoVars;

impl UserVars for NoVars {
    fn get(&self, _name: &str) -> Option<(Value, SqlType)> {
        None
    }
    fn set(&self, _name: &str, _value: Value, _ty: SqlType) {}
}

/// What an expression needs of the executor, implemented by `exec`.
pub trait Queries {
    /// The value of a subquery for a row of the query around it.
    ///
    /// # Errors
    /// Those of running it.
    fn evaluate(&self, query: &Subquery, row: &[Value], env: &EvalEnv<'_>) -> ExecResult<Value>;

    /// What is needed to judge rows by a full-text search: counted once in a statement.
    ///
    /// # Errors
    /// Those of reading the index, and 1064 for the text.
    fn search(&self, call: &Match, env: &EvalEnv<'_>) -> ExecResult<Arc<Search>>;

    /// The result of a stored function.
    ///
    /// # Errors
    /// What the function runs into and does not handle.
    fn call_stored(&self, call: &StoredCall, args: Vec<Value>) -> ExecResult<Value>;

    /// Counts a turn of a loop inside an expression.
    ///
    /// # Errors
    /// The statement was killed, or has run out of time.
    fn tick(&self, ctx: &EvalCtx<'_>) -> SqlResult<()>;
}

/// What calls keep from row to row while the statement runs.
#[derive(Default)]
pub struct CallStates {
    /// Assignments of user variables so far.
    pub assignments: Cell<u64>,
    /// Generators of RAND(seed), by call.
    pub(super) generators: RefCell<HashMap<u32, SeededRand>>,
    /// Values that places of an expression have in common.
    kept: RefCell<HashMap<u32, Value>>,
    /// Full-text searches, by call.
    searches: RefCell<HashMap<u32, Arc<Search>>>,
    /// Clustered keys of the rows that searches may find, by call.
    found: RefCell<HashMap<u32, FoundKeys>>,
}

/// Clustered keys in their order.
pub type FoundKeys = Arc<Vec<Box<[u8]>>>;

impl CallStates {
    /// Forgets everything but the assignments, for another execution of the same plan.
    pub fn clear(&self) {
        self.generators.borrow_mut().clear();
        self.kept.borrow_mut().clear();
        self.searches.borrow_mut().clear();
        self.found.borrow_mut().clear();
    }

    pub(super) fn keep(&self, id: u32, value: Value) {
        self.kept.borrow_mut().insert(id, value);
    }

    /// What was computed last for this row: its first place comes before the others.
    pub(super) fn kept(&self, id: u32) -> Value {
        self.kept.borrow().get(&id).cloned().unwrap_or(Value::Null)
    }

    /// The search of a call, when it is there.
    pub fn search(&self, call: u32) -> Option<Arc<Search>> {
        self.searches.borrow().get(&call).cloned()
    }

    /// Keeps the search of a call.
    pub fn put_search(&self, call: u32, search: Arc<Search>) {
        self.searches.borrow_mut().insert(call, search);
    }

    /// What the search of a call may find, when it is there.
    pub fn found(&self, call: u32) -> Option<FoundKeys> {
        self.found.borrow().get(&call).cloned()
    }

    /// Keeps what the search of a call may find.
    pub fn put_found(&self, call: u32, keys: FoundKeys) {
        self.found.borrow_mut().insert(call, keys);
    }
}

/// A row of an enclosing query, linked towards the outermost.
#[derive(Clone, Copy)]
pub struct OuterRow<'a> {
    /// Its slots.
    pub row: &'a [Value],
    /// The next enclosing query.
    pub up: Option<&'a OuterRow<'a>>,
}

/// What a row, or a turn of a loop, counts for where no rows are counted, in bytes of values that are looked at. A
/// session asks after many of them, a thread that helps with a scan after 256.
pub const TURN_BYTES: usize = 256;

/// Everything an expression may reach besides the current row.
#[derive(Clone, Copy)]
pub struct EvalEnv<'a> {
    /// Statement context for kernels: modes, zone, clock, warnings.
    pub ctx: &'a EvalCtx<'a>,
    /// Parameters of the statement.
    pub params: &'a [Value],
    /// User variables.
    pub vars: &'a dyn UserVars,
    /// Rows of enclosing queries.
    pub outer: Option<&'a OuterRow<'a>>,
    /// Runs subqueries; `None` where none can occur.
    pub queries: Option<&'a dyn Queries>,
    /// What calls keep from row to row.
    pub calls: &'a CallStates,
}

impl<'a> EvalEnv<'a> {
    /// An environment without tables, parameters or outer rows.
    pub fn scalar(ctx: &'a EvalCtx<'a>, vars: &'a dyn UserVars, calls: &'a CallStates) -> Self {
        Self {
            ctx,
            params: &[],
            vars,
            outer: None,
            queries: None,
            calls,
        }
    }

    /// The same environment one query level further in.
    pub fn nested<'b>(&self, outer: &'b OuterRow<'b>) -> EvalEnv<'b>
    where
        'a: 'b,
    {
        EvalEnv {
            outer: Some(outer),
            ..*self
        }
    }

    /// Counts a turn of a loop.
    ///
    /// # Errors
    /// The statement was killed, or has run out of time.
    pub fn turn(&self) -> SqlResult<()> {
        match self.queries {
            Some(queries) => queries.tick(self.ctx),
            None => self.ctx.session.go_on(TURN_BYTES),
        }
    }

    /// The row `depth` levels up (1 = the directly enclosing query).
    pub fn outer_row(&self, depth: u16) -> Option<&'a [Value]> {
        let mut at = self.outer?;
        for _ in 1..depth {
            at = at.up?;
        }
        Some(at.row)
    }
}
