//! What evaluating an expression may reach besides its row.
//!
//! Neighbours: `exec` and `dml` build an [`EvalEnv`] per statement step; the session implements
//! [`UserVars`].
//! **Invariants**: an environment is a bundle of references, cheap to copy; interior mutability is
//! only in the warnings area, the user variables and the subquery states.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use esker_types::func::SeededRand;
use esker_types::{EvalCtx, SqlType, Value};

use crate::exec::subquery::SubqueryState;
use crate::exec::{ExecCtx, Profile, SharedRows};

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

/// A row of an enclosing query, linked towards the outermost.
#[derive(Clone, Copy)]
pub struct OuterRow<'a> {
    /// Its slots.
    pub row: &'a [Value],
    /// The next enclosing query.
    pub up: Option<&'a OuterRow<'a>>,
}

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
    /// Access to tables; `None` where no subquery can occur.
    pub exec: Option<&'a ExecCtx<'a>>,
    /// Running state of the statement's subqueries.
    pub states: &'a SubqueryStates,
}

impl<'a> EvalEnv<'a> {
    /// An environment without tables, parameters or outer rows.
    pub fn scalar(
        ctx: &'a EvalCtx<'a>,
        vars: &'a dyn UserVars,
        states: &'a SubqueryStates,
    ) -> Self {
        Self {
            ctx,
            params: &[],
            vars,
            outer: None,
            exec: None,
            states,
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

    /// The row `depth` levels up (1 = the directly enclosing query).
    pub fn outer_row(&self, depth: u16) -> Option<&'a [Value]> {
        let mut at = self.outer?;
        for _ in 1..depth {
            at = at.up?;
        }
        Some(at.row)
    }
}

/// States of a statement's subqueries by number, and its memory account. Lives as long as the
/// statement runs (in the row stream, or on the stack of a DML statement).
#[derive(Default)]
pub struct SubqueryStates {
    states: RefCell<Vec<Option<Box<SubqueryState>>>>,
    /// Rows of common table expressions: computed once, or a recursive one's last round.
    tables: RefCell<HashMap<u32, SharedRows>>,
    /// Bytes held by sorts, hash tables and materialised rows.
    pub memory: Cell<u64>,
    /// Assignments of user variables so far.
    pub assignments: Cell<u64>,
    /// What operators did, when the statement is measured.
    pub profile: Option<Box<Profile>>,
    /// Generators of RAND(seed), by call.
    pub(crate) generators: RefCell<HashMap<u32, SeededRand>>,
}

impl SubqueryStates {
    /// Takes a state out for use (nested evaluation may use others meanwhile).
    pub fn take(&self, id: u32) -> Option<Box<SubqueryState>> {
        self.states
            .borrow_mut()
            .get_mut(id as usize)
            .and_then(Option::take)
    }

    /// Puts a state back.
    pub fn put(&self, id: u32, state: Box<SubqueryState>) {
        let mut all = self.states.borrow_mut();
        if all.len() <= id as usize {
            all.resize_with(id as usize + 1, || None);
        }
        all[id as usize] = Some(state);
    }

    /// Rows of a common table expression, when they are there.
    pub fn table(&self, id: u32) -> Option<SharedRows> {
        self.tables.borrow().get(&id).cloned()
    }

    /// Sets the rows of a common table expression.
    pub fn put_table(&self, id: u32, rows: SharedRows) {
        self.tables.borrow_mut().insert(id, rows);
    }

    /// Forgets everything, for another execution of the same plan.
    pub fn clear(&self) {
        self.states.borrow_mut().clear();
        self.generators.borrow_mut().clear();
        self.tables.borrow_mut().clear();
        self.memory.set(0);
    }
}
