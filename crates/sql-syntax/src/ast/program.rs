//! Bodies of stored programs (SQL/PSM), SIGNAL and GET DIAGNOSTICS.
//!
//! Neighbours: the parser's `program` builds these; the interpreter compiles a [`Body`] into instructions.
//! **Invariants**: a name of a local variable is resolved while it is read, as in MySQL, so it wins over every column:
//! it is a parameter of its statement or expression, and parameter n stands for `places[n]`. Labels are numbers that
//! are unique in a body; a LEAVE or ITERATE names one that encloses it.

use std::sync::Arc;

pub use esker_types::condition::ConditionItem;
use esker_types::condition::SqlState;
pub use esker_types::program::{DataAccess, RoutineKind};
use esker_types::{SqlError, errors};

use super::{Account, DataType, Expr, ObjectName, Statement};

/// What a parameter of a statement inside of a body stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A variable, by its slot in the frame.
    Local(u32),
    /// A column of the row as it will be.
    New(Box<str>),
    /// A column of the row as it was.
    Old(Box<str>),
}

/// Where a value goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `@name`, lower-cased.
    User(Box<str>),
    /// A variable, by its slot in the frame.
    Local(u32),
    /// A column of the row as it will be.
    New(Box<str>),
}

/// An expression of a body.
#[derive(Debug, Clone, PartialEq)]
pub struct Formula {
    /// The expression.
    pub expr: Expr,
    /// What its parameters are.
    pub places: Vec<Place>,
}

/// A variable of a body, or a parameter of its routine.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// Name.
    pub name: Box<str>,
    /// Type; `None` keeps what a simple CASE compares, as it is.
    pub ty: Option<DataType>,
}

/// A cursor.
#[derive(Debug, Clone, PartialEq)]
pub struct CursorQuery {
    /// Name.
    pub name: Box<str>,
    /// Its SELECT.
    pub query: SqlStep,
}

/// An SQL statement of a body.
#[derive(Debug, Clone, PartialEq)]
pub struct SqlStep {
    /// The statement.
    pub statement: Arc<Statement>,
    /// What its parameters are.
    pub places: Vec<Place>,
    /// Its text.
    pub text: Box<str>,
}

/// The body of a stored program.
#[derive(Debug, Clone, PartialEq)]
pub struct Body {
    /// What it does.
    pub root: Step,
    /// The frame: parameters first, in their order.
    pub slots: Vec<Variable>,
    /// Cursors of all its blocks.
    pub cursors: Vec<CursorQuery>,
    /// Its text.
    pub text: Box<str>,
    /// What it must not do where it is called from.
    pub traits: BodyTraits,
}

/// What a body has that a function or a trigger must not have, not even in a procedure that it calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BodyTraits {
    /// RETURN.
    pub returns: bool,
    /// A statement with a result set.
    pub result_sets: bool,
    /// PREPARE, EXECUTE.
    pub dynamic_sql: bool,
    /// Statements that commit, or may: what refuses them.
    pub commits: Option<Commits>,
}

/// How a statement of a body takes part in the end of a transaction. Of several, the greatest tells why the body is
/// refused in a function or a trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Commits {
    /// FLUSH.
    Flush,
    /// RESET of something.
    Reset,
    /// Explicitly, or before it does something else.
    AtOnce,
    /// SET of autocommit, or, as in MySQL, of a password.
    BySet,
}

impl Commits {
    /// What a function or a trigger is refused with.
    pub fn refusal(self) -> SqlError {
        match self {
            Self::Flush => errors::not_in_function("FLUSH"),
            Self::Reset => errors::not_in_function("RESET"),
            Self::AtOnce => errors::commit_in_function(),
            Self::BySet => errors::no_autocommit_in_function(),
        }
    }
}

/// A statement of a body.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// BEGIN … END.
    Block(Box<Block>),
    /// SET of a variable or of a column of NEW.
    Assign {
        /// What is set.
        target: Target,
        /// To what.
        value: Formula,
    },
    /// One after the other: SET of several variables.
    Sequence(Vec<Step>),
    /// An SQL statement.
    Sql(Box<SqlStep>),
    /// IF, and CASE without an operand.
    If {
        /// Conditions and what follows from them.
        arms: Vec<(Formula, Vec<Step>)>,
        /// ELSE; `None`: a CASE that needs an arm (1339).
        otherwise: Option<Vec<Step>>,
    },
    /// CASE with an operand: it is kept in a slot, and each arm compares with it.
    Case {
        /// Slot of the operand.
        slot: u32,
        /// The operand.
        operand: Formula,
        /// The arms.
        arms: Vec<(Formula, Vec<Step>)>,
        /// ELSE; `None`: there must be an arm (1339).
        otherwise: Option<Vec<Step>>,
    },
    /// LOOP, WHILE, REPEAT.
    Loop {
        /// Label.
        label: Option<u32>,
        /// WHILE: looked at before each turn.
        until_not: Option<Formula>,
        /// The turn.
        body: Vec<Step>,
        /// REPEAT: looked at after each turn.
        until: Option<Formula>,
    },
    /// LEAVE.
    Leave(u32),
    /// ITERATE.
    Iterate(u32),
    /// RETURN.
    Return(Formula),
    /// OPEN.
    Open(u32),
    /// FETCH.
    Fetch {
        /// Cursor.
        cursor: u32,
        /// Where the values go.
        into: Vec<Target>,
    },
    /// CLOSE.
    Close(u32),
}

/// BEGIN … END with its declarations.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Label.
    pub label: Option<u32>,
    /// Variables.
    pub variables: Vec<Declaration>,
    /// Cursors that are closed at its end.
    pub cursors: Vec<u32>,
    /// Handlers.
    pub handlers: Vec<Handler>,
    /// Statements.
    pub body: Vec<Step>,
}

/// DECLARE of variables of one type.
#[derive(Debug, Clone, PartialEq)]
pub struct Declaration {
    /// Their slots.
    pub slots: Vec<u32>,
    /// DEFAULT.
    pub default: Option<Formula>,
}

/// DECLARE … HANDLER.
#[derive(Debug, Clone, PartialEq)]
pub struct Handler {
    /// EXIT rather than CONTINUE.
    pub exit: bool,
    /// What it is for.
    pub conditions: Vec<ConditionValue>,
    /// What it does.
    pub body: Step,
}

/// A condition that a handler is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionValue {
    /// A number of MySQL.
    Code(u16),
    /// An SQLSTATE.
    State(SqlState),
    /// SQLWARNING.
    Warning,
    /// NOT FOUND.
    NotFound,
    /// SQLEXCEPTION.
    Exception,
}

/// SIGNAL, RESIGNAL.
#[derive(Debug, Clone, PartialEq)]
pub struct Signal {
    /// RESIGNAL.
    pub resignal: bool,
    /// The SQLSTATE; RESIGNAL may have none.
    pub state: Option<SqlState>,
    /// SET.
    pub items: Vec<(ConditionItem, Expr)>,
}

/// GET DIAGNOSTICS.
#[derive(Debug, Clone, PartialEq)]
pub struct GetDiagnostics {
    /// Of the condition that the handler handles.
    pub stacked: bool,
    /// What is asked for.
    pub what: DiagnosticsItems,
}

/// What GET DIAGNOSTICS asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum DiagnosticsItems {
    /// Of the statement.
    Statement(Vec<(Target, StatementItem)>),
    /// Of a condition, by its number.
    Condition(Expr, Vec<(Target, ConditionItem)>),
}

/// What GET DIAGNOSTICS tells of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementItem {
    /// How many conditions there are.
    Number,
    /// Rows that it changed.
    RowCount,
}

/// Which way a parameter goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterMode {
    /// IN.
    In,
    /// OUT.
    Out,
    /// INOUT.
    InOut,
}

impl ParameterMode {
    /// As MySQL writes it.
    pub fn text(self) -> &'static str {
        match self {
            Self::In => "IN",
            Self::Out => "OUT",
            Self::InOut => "INOUT",
        }
    }
}

/// Characteristics, as far as they are given.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Characteristics {
    /// COMMENT.
    pub comment: Option<Box<str>>,
    /// [NOT] DETERMINISTIC.
    pub deterministic: Option<bool>,
    /// What it touches.
    pub access: Option<DataAccess>,
    /// SQL SECURITY INVOKER rather than DEFINER.
    pub invoker: Option<bool>,
}

/// CREATE PROCEDURE, CREATE FUNCTION.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateRoutine {
    /// Which of them.
    pub kind: RoutineKind,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// DEFINER.
    pub definer: Option<Account>,
    /// Name.
    pub name: ObjectName,
    /// Way of each parameter; the first slots of the body are the parameters.
    pub modes: Vec<ParameterMode>,
    /// The parameters as written.
    pub parameters: Box<str>,
    /// RETURNS, and as written.
    pub returns: Option<(DataType, Box<str>)>,
    /// Characteristics.
    pub characteristics: Characteristics,
    /// Body.
    pub body: Arc<Body>,
}

/// ALTER PROCEDURE, ALTER FUNCTION.
#[derive(Debug, Clone, PartialEq)]
pub struct AlterRoutine {
    /// Which of them.
    pub kind: RoutineKind,
    /// Name.
    pub name: ObjectName,
    /// What changes.
    pub characteristics: Characteristics,
}
