//! Bound expressions: what the binder makes of the syntax tree, and how it is evaluated.
//!
//! In flow order: `env` (what evaluation may reach besides the row), `eval` (values), `boolean`
//! (conditions), `walk` (visiting and rewriting), `fold` (constant folding), `rowkey` (bytes that order and hash
//! values).
//! Neighbours: `bind` builds expressions, `plan` analyses them, `exec` and `dml` evaluate them; every
//! operator and function lives in `esker-types`.
//!
//! **Invariants**: names are resolved, comparison kinds and result types are decided; columns are
//! slots of the current row ([`ExprKind::Column`]) or of an enclosing query's row
//! ([`ExprKind::Outer`]); a tree is immutable and `Send + Sync`, running state lives in
//! the executor, and for calls in [`env::CallStates`].

pub mod boolean;
pub mod env;
pub mod eval;
pub mod fold;
pub mod rowkey;
pub mod walk;

use std::collections::HashSet;
use std::sync::Arc;

use esker_sql_catalog::catalog::{RoutineDef, TableDef};
use esker_types::arith::{BinOp, UnOp};
use esker_types::cast::TextNumber;
use esker_types::cmp::CmpKind;
use esker_types::collation::{Coercibility, Collation};
use esker_types::fulltext::MatchMode;
use esker_types::func::{FuncDef, Signature};
use esker_types::{SqlType, TypeKind, Value};

pub use env::{CallStates, EvalEnv, FoundKeys, NoVars, OuterRow, Queries, TURN_BYTES, UserVars};

use crate::plan::QueryPlan;

/// A bound expression.
#[derive(Debug, Clone)]
pub struct Expr {
    /// What it computes.
    pub kind: ExprKind,
    /// Static type of the result.
    pub ty: SqlType,
    /// How strongly the result insists on its collation.
    pub coer: Coercibility,
}

/// Comparison operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CmpOp {
    /// `=`
    Eq,
    /// `<=>`
    NullSafeEq,
    /// `<>`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

impl CmpOp {
    /// Does it ask which of the two comes first?
    pub fn is_order(self) -> bool {
        matches!(self, Self::Lt | Self::Le | Self::Gt | Self::Ge)
    }

    /// The operator with its operands exchanged.
    pub fn flip(self) -> Self {
        match self {
            Self::Lt => Self::Gt,
            Self::Le => Self::Ge,
            Self::Gt => Self::Lt,
            Self::Ge => Self::Le,
            other => other,
        }
    }

    /// The operator of the negated comparison; `<=>` has none.
    pub fn negate(self) -> Option<Self> {
        Some(match self {
            Self::Eq => Self::Ne,
            Self::Ne => Self::Eq,
            Self::Lt => Self::Ge,
            Self::Le => Self::Gt,
            Self::Gt => Self::Le,
            Self::Ge => Self::Lt,
            Self::NullSafeEq => return None,
        })
    }

    /// Does an ordering of two non-null operands satisfy it?
    pub fn holds(self, ord: std::cmp::Ordering) -> bool {
        match self {
            Self::Eq | Self::NullSafeEq => ord.is_eq(),
            Self::Ne => ord.is_ne(),
            Self::Lt => ord.is_lt(),
            Self::Le => ord.is_le(),
            Self::Gt => ord.is_gt(),
            Self::Ge => ord.is_ge(),
        }
    }

    /// As MySQL prints it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Eq => "=",
            Self::NullSafeEq => "<=>",
            Self::Ne => "<>",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
        }
    }
}

/// What IS tests for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// IS NULL, IS UNKNOWN.
    Null,
    /// IS TRUE.
    True,
    /// IS FALSE.
    False,
}

/// Kinds of bound expression.
#[derive(Debug, Clone)]
pub enum ExprKind {
    /// A constant.
    Const(Value),
    /// A slot of the current row.
    Column(u32),
    /// A slot of the row of an enclosing query, `depth` levels up (1 = the next one).
    Outer {
        /// Levels up.
        depth: u16,
        /// Slot there.
        slot: u32,
    },
    /// A statement parameter read at run time.
    Param(u32),
    /// `@name`.
    UserVar(Box<str>),
    /// `@name := value`.
    Assign(Box<str>, Box<Expr>),
    /// Comparison of two scalars.
    Cmp(Box<Cmp>),
    /// Conjunction, flat.
    And(Vec<Expr>),
    /// Disjunction, flat.
    Or(Vec<Expr>),
    /// Exclusive or.
    Xor(Box<[Expr; 2]>),
    /// Negation.
    Not(Box<Expr>),
    /// `IS [NOT] …`.
    Is {
        /// Operand.
        arg: Box<Expr>,
        /// What for.
        test: Test,
        /// NOT given.
        negated: bool,
    },
    /// `[NOT] BETWEEN`.
    Between(Box<Between>),
    /// `[NOT] IN (list)`.
    InList(Box<InList>),
    /// `[NOT] LIKE`.
    Like(Box<Like>),
    /// Arithmetic and bit operators.
    Arith(Box<Arith>),
    /// Unary minus and bit complement.
    Unary(Box<Unary>),
    /// A function of the registry; all arguments are evaluated.
    Func(Box<FuncCall>),
    /// A stored function.
    Stored(Box<StoredCall>),
    /// `IF`, and CASE with conditions: the first true condition's value, converted to the result type.
    Case(Box<Case>),
    /// COALESCE and IFNULL: the first non-null, converted to the result type.
    Coalesce(Vec<Expr>),
    /// NULLIF(a, b): NULL when the comparison holds, else a.
    NullIf(Box<Cmp>),
    /// Explicit cast to the expression's type; what messages call a JSON operand.
    Cast(Box<Expr>, Box<str>),
    /// Implicit conversion to the expression's type (result of CASE, UNION columns, …).
    Convert(Box<Expr>),
    /// The number of the expression's type, a DOUBLE, BIGINT or DECIMAL, that an operand stands for.
    Number(Box<Expr>, TextNumber),
    /// RAND(seed) with a constant seed: the call's number and the seed; one sequence per statement.
    SeededRand(u32, Box<Expr>),
    /// The volatile operand of a CASE, which is computed once for all of its WHENs.
    Kept(Box<Kept>),
    /// The value unchanged, with another collation (`COLLATE`, `BINARY`).
    Recollate(Box<Expr>),
    /// An aggregate, by its number in the query block; replaced by a column before execution.
    Aggregate(u32),
    /// A window function, by its number in the query block; replaced by a column before execution.
    Window(u32),
    /// A key of GROUP BY … WITH ROLLUP that a name stands for, by its position; replaced by a column before execution.
    Key(u32),
    /// `GROUPING(a, …)`: bits for rolled-up keys; the slots hold 0 or 1.
    Grouping(Vec<Expr>),
    /// `MATCH (…) AGAINST (…)`: the relevance of the row.
    Match(Box<Match>),
    /// A subquery.
    Subquery(Box<Subquery>),
    /// A row of operands; only as left side of a subquery and inside the binder.
    Row(Vec<Expr>),
}

/// A full-text search.
#[derive(Debug, Clone)]
pub struct Match {
    /// Number in the statement: of what is counted for it.
    pub id: u32,
    /// Whose index it asks.
    pub def: Arc<TableDef>,
    /// Position of the index.
    pub index: usize,
    /// How the text is read.
    pub mode: MatchMode,
    /// The index's columns.
    pub columns: Vec<Expr>,
    /// What is searched for; the same for all rows.
    pub against: Expr,
}

/// An infix arithmetic or bit operator.
#[derive(Debug, Clone)]
pub struct Arith {
    /// Operator.
    pub op: BinOp,
    /// Operands.
    pub args: [Expr; 2],
    /// The expression as errors show it.
    pub text: Box<str>,
}

impl Arith {
    /// Is the right operand not evaluated where the left one is NULL? So MySQL does with decimals; else it evaluates
    /// both, and warns of what is wrong with either.
    pub(super) fn leaves_out_right(&self, ty: &SqlType) -> bool {
        match self.op {
            BinOp::IntDiv => !self.args.iter().all(|arg| arg.ty.is_integer()),
            _ => ty.kind == TypeKind::Decimal,
        }
    }
}

/// A prefix arithmetic or bit operator.
#[derive(Debug, Clone)]
pub struct Unary {
    /// Operator.
    pub op: UnOp,
    /// Operand.
    pub arg: Expr,
    /// The expression as errors show it.
    pub text: Box<str>,
}

/// A comparison.
#[derive(Debug, Clone)]
pub struct Cmp {
    /// Operator.
    pub op: CmpOp,
    /// How the operands compare.
    pub kind: CmpKind,
    /// Left operand.
    pub left: Expr,
    /// Right operand.
    pub right: Expr,
}

/// `arg [NOT] BETWEEN low AND high`.
#[derive(Debug, Clone)]
pub struct Between {
    /// Operand.
    pub arg: Expr,
    /// Lower bound and how it compares.
    pub low: (Expr, CmpKind),
    /// Upper bound and how it compares.
    pub high: (Expr, CmpKind),
    /// NOT given.
    pub negated: bool,
}

/// `arg [NOT] IN (list)`.
#[derive(Debug, Clone)]
pub struct InList {
    /// Operand.
    pub arg: Expr,
    /// How every member compares.
    pub kinds: Vec<CmpKind>,
    /// Members.
    pub list: Vec<Expr>,
    /// When every member is a constant of one kind: their values sorted by it, NULL left out.
    pub sorted: Option<Box<SortedList>>,
    /// NOT given.
    pub negated: bool,
}

/// Constant members of an IN list, sorted for binary search.
#[derive(Debug, Clone)]
pub struct SortedList {
    /// The one kind of comparison.
    pub kind: CmpKind,
    /// The members' type.
    pub ty: SqlType,
    /// Members in order, without duplicates and NULL.
    pub values: Vec<Value>,
    /// The list had a NULL.
    pub has_null: bool,
    /// Of a long list of texts: their keys, by which a text is found without comparing it with others.
    pub keys: Option<Arc<HashSet<Box<[u8]>>>>,
}

/// `text [NOT] LIKE pattern ESCAPE c`.
#[derive(Debug, Clone)]
pub struct Like {
    /// Text.
    pub text: Expr,
    /// Pattern.
    pub pattern: Expr,
    /// Escape character; `None` while a parameter is not known.
    pub escape: Option<char>,
    /// Collation of the comparison.
    pub collation: Collation,
    /// NOT given.
    pub negated: bool,
}

/// A call of a registered function.
#[derive(Clone)]
pub struct FuncCall {
    /// Function.
    pub def: &'static FuncDef,
    /// Arguments.
    pub args: Vec<Expr>,
    /// Static types of the arguments, as the kernel wants them.
    pub arg_types: Vec<SqlType>,
    /// What type checking gave: result type and collation of comparisons.
    pub signature: Signature,
}

impl std::fmt::Debug for FuncCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FuncCall")
            .field("name", &self.def.name)
            .field("args", &self.args)
            .finish()
    }
}

/// A stored function as the binder knows it.
#[derive(Debug)]
pub struct StoredFunction {
    /// What is called.
    pub def: Arc<RoutineDef>,
    /// Types of its parameters.
    pub parameters: Vec<SqlType>,
    /// Type of its result.
    pub returns: SqlType,
}

/// A call of a stored function.
#[derive(Debug, Clone)]
pub struct StoredCall {
    /// What is called.
    pub function: Arc<StoredFunction>,
    /// It was named with its database.
    pub qualified: bool,
    /// What errors call its result.
    pub text: Arc<str>,
    /// Arguments, as many as it has parameters.
    pub args: Vec<Expr>,
}

impl StoredCall {
    /// May it give another value for the same arguments?
    pub fn is_volatile(&self) -> bool {
        !self.function.def.deterministic
    }
}

/// A value that several places of an expression have in common.
#[derive(Debug, Clone)]
pub struct Kept {
    /// Number in the statement.
    pub id: u32,
    /// What is computed.
    pub expr: Expr,
    /// Here it is computed; the other places, which come later, take what it was.
    pub computes: bool,
}

/// Conditions and values; without operand.
#[derive(Debug, Clone)]
pub struct Case {
    /// Condition and value.
    pub whens: Vec<(Expr, Expr)>,
    /// ELSE value.
    pub otherwise: Option<Expr>,
}

/// A subquery in an expression.
#[derive(Debug, Clone)]
pub struct Subquery {
    /// Number in the statement: index of its state.
    pub id: u32,
    /// How its rows become a value.
    pub form: SubqueryForm,
    /// The plan.
    pub plan: Arc<QueryPlan>,
    /// Reads columns of an enclosing query (or is not deterministic): run anew for every row.
    pub correlated: bool,
}

/// How a subquery's rows become a value.
#[derive(Debug, Clone)]
pub enum SubqueryForm {
    /// A value of the single row, NULL when there is none; error 1242 for more. The columns of a row
    /// subquery are such expressions with one id.
    Scalar {
        /// Which of its columns.
        column: usize,
    },
    /// Is there a row?
    Exists,
    /// `left IN (…)`, `left op ANY (…)`, `left op ALL (…)`.
    Compare {
        /// Left operands, one per column.
        left: Vec<Expr>,
        /// Operator (IN is Eq ANY, NOT IN is Ne ALL).
        op: CmpOp,
        /// How each column compares.
        kinds: Vec<CmpKind>,
        /// ALL rather than ANY.
        all: bool,
        /// A row comparison with at most one row (error 1242 for more, NULL for none).
        single: bool,
    },
}

impl SubqueryForm {
    /// Which of the values of its row it is.
    pub const fn column(&self) -> usize {
        match self {
            Self::Scalar { column } => *column,
            Self::Exists | Self::Compare { .. } => 0,
        }
    }
}

impl Expr {
    /// A row of values, which only comparisons take.
    pub fn row(members: Vec<Self>) -> Self {
        Self {
            kind: ExprKind::Row(members),
            ty: SqlType::new(TypeKind::Null),
            coer: Coercibility::None,
        }
    }

    /// A constant of the given type.
    pub fn constant(value: Value, ty: SqlType) -> Self {
        let coer = if value.is_null() {
            Coercibility::Ignorable
        } else if ty.is_string() {
            Coercibility::Coercible
        } else {
            Coercibility::Numeric
        };
        Self {
            kind: ExprKind::Const(value),
            ty,
            coer,
        }
    }

    /// The NULL constant.
    pub fn null() -> Self {
        Self::constant(Value::Null, SqlType::new(TypeKind::Null))
    }

    /// TRUE or FALSE.
    pub fn boolean(b: bool) -> Self {
        Self::constant(Value::bool(b), bool_type(false))
    }

    /// A condition node.
    pub fn condition(kind: ExprKind, nullable: bool) -> Self {
        Self {
            kind,
            ty: bool_type(nullable),
            coer: Coercibility::Numeric,
        }
    }

    /// IS NULL, or IS NOT NULL.
    pub(crate) fn is_null(arg: Expr, negated: bool) -> Self {
        let test = ExprKind::Is {
            arg: Box::new(arg),
            test: Test::Null,
            negated,
        };
        Self::condition(test, false)
    }

    /// A column of the current row.
    pub fn column(slot: u32, ty: SqlType) -> Self {
        Self {
            kind: ExprKind::Column(slot),
            coer: Coercibility::of_column(&ty),
            ty,
        }
    }

    /// The constant's value.
    pub fn as_const(&self) -> Option<&Value> {
        match &self.kind {
            ExprKind::Const(v) => Some(v),
            _ => None,
        }
    }

    /// The slot, when this is a column of the current row.
    pub fn as_column(&self) -> Option<u32> {
        match self.kind {
            ExprKind::Column(slot) => Some(slot),
            _ => None,
        }
    }

    /// Conjunction of conditions; TRUE when there is none.
    pub fn all_of(mut conds: Vec<Expr>) -> Self {
        match conds.len() {
            0 => Self::boolean(true),
            1 => conds.remove(0),
            _ => {
                let nullable = conds.iter().any(|c| c.ty.nullable);
                Self::condition(ExprKind::And(conds), nullable)
            }
        }
    }

    /// Disjunction of conditions, of which there is one.
    pub(crate) fn any_of(mut conds: Vec<Expr>) -> Self {
        debug_assert!(!conds.is_empty(), "a disjunction has branches");
        if conds.len() == 1 {
            return conds.remove(0);
        }
        let nullable = conds.iter().any(|c| c.ty.nullable);
        Self::condition(ExprKind::Or(conds), nullable)
    }
}

/// The type of conditions: MySQL's INT(1).
pub fn bool_type(nullable: bool) -> SqlType {
    SqlType {
        length: 1,
        nullable,
        ..SqlType::bigint(false)
    }
}
