//! Instructions of a compiled program.
//!
//! Neighbours: `compile` makes them, the session's interpreter runs them.
//! **Invariants**: `resume` of an instruction is where a CONTINUE handler goes on: behind it, or behind the whole IF,
//! CASE or loop whose condition it is.

use std::sync::Arc;

use esker_sql_syntax::ast::{BodyTraits, Expr, ParameterMode, Statement};
use esker_types::SqlType;

use super::handler::{HandlerDef, Scope};

/// Where a parameter of a statement comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A slot of the frame.
    Local(usize),
    /// A column of the row as it will be.
    New(usize),
    /// A column of the row as it was.
    Old(usize),
}

/// Where a value goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// A user variable.
    User(Box<str>),
    /// A slot of the frame.
    Local(usize),
    /// A column of the row as it will be.
    New(usize),
}

/// An expression with the sources of its parameters.
#[derive(Debug, Clone)]
pub(crate) struct Formula {
    pub(crate) expr: Expr,
    pub(crate) sources: Vec<Source>,
    /// Its number among the statements and expressions of the program, for what a session keeps; `None`: it reads a
    /// slot without a type, and is bound anew every time.
    pub(crate) number: Option<u32>,
}

/// An SQL statement with the sources of its parameters.
#[derive(Debug, Clone)]
pub(crate) struct Sql {
    pub(crate) statement: Arc<Statement>,
    pub(crate) sources: Vec<Source>,
    /// Where the variables go that SELECT … INTO and GET DIAGNOSTICS set.
    pub(crate) into: Vec<Destination>,
    pub(crate) text: Box<str>,
    /// Its number among the statements and expressions of the program, for the plan that a session keeps.
    pub(crate) number: u32,
}

/// What an instruction does.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// Runs a statement.
    Sql(Box<Sql>),
    /// Sets a variable.
    Assign { to: Destination, value: Formula },
    /// A declared variable without DEFAULT.
    Clear(usize),
    /// Goes on at another place unless the condition is true.
    Branch {
        condition: Formula,
        otherwise: usize,
    },
    /// Goes on at another place.
    Jump(usize),
    /// OPEN.
    Open(usize),
    /// FETCH.
    Fetch {
        cursor: usize,
        into: Vec<Destination>,
    },
    /// CLOSE.
    Close(usize),
    /// Closes what is open of these cursors: their blocks are left.
    Leave(Vec<usize>),
    /// A CASE without an arm for its value.
    CaseNotFound,
    /// RETURN.
    Return(Formula),
    /// The end of a handler: an EXIT handler goes on at a place, a CONTINUE handler where the condition came up.
    EndHandler(Option<usize>),
}

impl Op {
    /// Does it forget what was warned of before, as a statement does? SQL statements see to that themselves.
    pub(crate) fn begins_diagnostics(&self) -> bool {
        matches!(
            self,
            Self::Assign { .. } | Self::Clear(_) | Self::Branch { .. } | Self::Return(_)
        )
    }
}

/// An instruction.
#[derive(Debug, Clone)]
pub(crate) struct Instruction {
    pub(crate) op: Op,
    /// Whose handlers it has.
    pub(crate) scope: usize,
    /// Where a CONTINUE handler goes on.
    pub(crate) resume: usize,
}

/// A variable of the frame.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub(crate) name: Box<str>,
    /// None: it keeps values as they are.
    pub(crate) ty: Option<SqlType>,
}

/// A compiled program.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) code: Vec<Instruction>,
    /// The frame; parameters first.
    pub(crate) slots: Vec<Slot>,
    /// Ways of the parameters.
    pub(crate) modes: Vec<ParameterMode>,
    /// What a function returns.
    pub(crate) returns: Option<SqlType>,
    pub(crate) cursors: Vec<Sql>,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) handlers: Vec<HandlerDef>,
    /// Number of its SQL statements and expressions.
    pub(crate) plans: u32,
    pub(crate) traits: BodyTraits,
}

impl Program {
    /// Whether jumps, scopes and slots are those of this program.
    pub(super) fn validate(&self) {
        let end = self.code.len();
        for instruction in &self.code {
            assert!(instruction.scope < self.scopes.len() && instruction.resume <= end);
            match &instruction.op {
                Op::Jump(to) | Op::Branch { otherwise: to, .. } | Op::EndHandler(Some(to)) => {
                    assert!(*to <= end, "a jump leads out of the program");
                }
                Op::Open(cursor) | Op::Close(cursor) | Op::Fetch { cursor, .. } => {
                    assert!(*cursor < self.cursors.len(), "a cursor of another program");
                }
                _ => {}
            }
        }
    }
}
