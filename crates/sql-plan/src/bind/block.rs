//! What the binder hands to the planner: bound query blocks.
//!
//! Neighbours: `select`, `query` and `from` build these, `plan` turns them into operators.
//! **Invariants**: expressions of a block are over its row: slots `0..width` of table columns and aggregates,
//! then group keys; `order` keys of a set operation are over the result columns.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use esker_engine::{LockMode, Txn, WaitPolicy};
use esker_sql_catalog::result::ColumnMeta;
use esker_sql_syntax::ast;
use esker_types::SqlType;
use esker_types::cmp::CmpKind;
use esker_types::func::aggregate::{AggDef, AggTypes};

use super::hint::JoinOrder;
use super::recursive::RecursiveBody;
use super::scope::{ColumnAt, ScopeTable};
use crate::expr::Expr;

/// A bound query expression.
pub struct BoundQuery {
    /// Result columns.
    pub columns: Arc<[ColumnMeta]>,
    /// What produces rows.
    pub body: Body,
    /// Levels of enclosing queries it refers to (0 = none).
    pub reach: u16,
    /// How long a result holds.
    pub volatility: Volatility,
    /// A common table expression: who names it.
    pub shared: Option<Shared>,
}

/// A common table expression that several places may name: then it is computed once.
pub struct Shared {
    /// Number of its rows in the statement.
    pub id: u32,
    /// Places that name it.
    pub uses: Cell<u32>,
}

/// How long the result of a query without outer references holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Volatility {
    /// For the statement.
    Stable,
    /// Until a user variable is assigned.
    Variables,
    /// For one use: RAND(), assignments, row locks.
    Volatile,
}

/// What produces rows.
pub enum Body {
    /// A query block.
    Block(Box<Block>),
    /// Set operations, left to right.
    SetOps {
        /// Leftmost operand.
        first: Rc<BoundQuery>,
        /// Steps.
        rest: Vec<SetStep>,
        /// ORDER BY over the result columns.
        order: Vec<OrderKey>,
        /// LIMIT.
        limit: Option<LimitSpec>,
        /// SQL_CALC_FOUND_ROWS in the first operand.
        calc_found_rows: bool,
    },
    /// A recursive common table expression.
    Recursive(Box<RecursiveBody>),
    /// VALUES ROW(…): rows of constants, with ORDER BY and LIMIT.
    Values {
        /// Rows.
        rows: Vec<Vec<Expr>>,
        /// ORDER BY over the columns.
        order: Vec<OrderKey>,
        /// LIMIT.
        limit: Option<LimitSpec>,
    },
}

/// One set operation.
pub struct SetStep {
    /// Operation.
    pub op: ast::SetOp,
    /// ALL.
    pub all: bool,
    /// Right operand.
    pub right: Rc<BoundQuery>,
}

/// A bound SELECT.
#[derive(Clone)]
pub struct Block {
    /// EXPLAIN's id.
    pub id: u32,
    /// Tables.
    pub tables: Vec<ScopeTable>,
    /// The columns that can be named without a table; empty where nothing is bound behind the block any more.
    pub names: Vec<ColumnAt>,
    /// How they are joined; `None` without FROM.
    pub join: Option<JoinNode>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// Grouping and aggregates.
    pub group: Option<GroupBy>,
    /// HAVING.
    pub having: Option<Expr>,
    /// Window functions, computed behind grouping and HAVING.
    pub windows: Windows,
    /// Select list.
    pub output: Vec<Expr>,
    /// DISTINCT.
    pub distinct: bool,
    /// How many values at the end of the select list DISTINCT does not compare: they are those of the first of equal
    /// rows.
    pub beside: usize,
    /// ORDER BY.
    pub order: Vec<OrderKey>,
    /// LIMIT.
    pub limit: Option<LimitSpec>,
    /// Row locks by table.
    pub locks: Vec<Option<LockSpec>>,
    /// Slots of the block's row.
    pub width: u32,
    /// Join tables in the written order.
    pub straight_join: bool,
    /// Hints about the order of tables.
    pub orders: Vec<JoinOrder>,
    /// SQL_CALC_FOUND_ROWS.
    pub calc_found_rows: bool,
}

/// How tables are joined.
#[derive(Debug, Clone)]
pub enum JoinNode {
    /// A table.
    Table(usize),
    /// Two operands.
    Join {
        /// Left.
        left: Box<JoinNode>,
        /// Right; the side that may be null-complemented in a left join.
        right: Box<JoinNode>,
        /// Kind.
        kind: JoinType,
        /// ON, and USING as equalities.
        on: Option<Expr>,
    },
}

impl JoinNode {
    /// The same joins with tables of other numbers and other conditions.
    pub fn map(&self, number: &dyn Fn(usize) -> usize, expr: &dyn Fn(&Expr) -> Expr) -> Self {
        match self {
            Self::Table(nth) => Self::Table(number(*nth)),
            Self::Join {
                left,
                right,
                kind,
                on,
            } => Self::Join {
                left: Box::new(left.map(number, expr)),
                right: Box::new(right.map(number, expr)),
                kind: *kind,
                on: on.as_ref().map(expr),
            },
        }
    }

    /// Are there only inner joins?
    pub(super) fn is_inner(&self) -> bool {
        match self {
            Self::Table(_) => true,
            Self::Join {
                left, right, kind, ..
            } => *kind != JoinType::Left && left.is_inner() && right.is_inner(),
        }
    }

    /// Every ON.
    pub fn conditions<'n>(&'n self, out: &mut Vec<&'n Expr>) {
        if let Self::Join {
            left, right, on, ..
        } = self
        {
            left.conditions(out);
            right.conditions(out);
            out.extend(on);
        }
    }
}

/// Kinds of join after RIGHT is turned around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinType {
    /// Inner or cross.
    Inner,
    /// Inner, left first.
    Straight,
    /// Left outer.
    Left,
}

/// Grouping.
#[derive(Clone)]
pub struct GroupBy {
    /// Keys, over table columns; empty for one group of everything.
    pub keys: Vec<Expr>,
    /// Slot of the first key in the grouped row.
    pub key_base: u32,
    /// Aggregates, over table columns.
    pub aggs: Vec<AggCall>,
    /// WITH ROLLUP: slot of the first of the keys' "rolled up" flags.
    pub rollup: Option<u32>,
    /// No GROUP BY: one row even without input.
    pub implicit: bool,
}

/// The aggregate that is the value for a group's first row.
pub(super) const ANY_VALUE: &str = "any_value";

/// An aggregate call.
#[derive(Debug, Clone)]
pub struct AggCall {
    /// Function.
    pub def: &'static AggDef,
    /// Static types and parameters.
    pub types: AggTypes,
    /// Arguments; empty for COUNT(*).
    pub args: Vec<Expr>,
    /// DISTINCT.
    pub distinct: bool,
    /// GROUP_CONCAT's ORDER BY.
    pub order: Vec<OrderKey>,
    /// Slot of its result in the grouped row, where subqueries may read it too.
    pub slot: u32,
}

impl AggCall {
    /// ANY_VALUE: in MySQL no aggregate, but a mark that a column may be any of the group's.
    pub(super) fn is_any_value(&self) -> bool {
        self.def.name == ANY_VALUE
    }
}

/// The window functions of a block.
#[derive(Clone, Default)]
pub struct Windows {
    /// Windows, each once.
    pub specs: Vec<Window>,
    /// Calls over them.
    pub calls: Vec<WindowCall>,
    /// Slot of the first call's result.
    pub base: u32,
}

/// A window.
#[derive(Debug, Clone)]
pub struct Window {
    /// Name, as errors say it.
    pub name: Box<str>,
    /// PARTITION BY.
    pub partition: Vec<Expr>,
    /// ORDER BY.
    pub order: Vec<OrderKey>,
    /// Rows that a function of a frame sees.
    pub frame: Frame,
}

/// A frame.
#[derive(Debug, Clone)]
pub struct Frame {
    /// RANGE: rows of equal order keys belong together.
    pub range: bool,
    /// First row.
    pub start: Bound,
    /// Last row.
    pub end: Bound,
}

/// One end of a frame.
#[derive(Debug, Clone)]
pub enum Bound {
    /// UNBOUNDED PRECEDING as a start, UNBOUNDED FOLLOWING as an end.
    Unbounded,
    /// CURRENT ROW.
    Current,
    /// PRECEDING.
    Preceding(Box<Offset>),
    /// FOLLOWING.
    Following(Box<Offset>),
}

/// How far a bound is away.
#[derive(Debug, Clone)]
pub struct Offset {
    /// Rows, or a distance in order keys; the same for all rows.
    pub amount: Expr,
    /// RANGE: the order key at that distance, over a row of the current row's key and the amount, and
    /// how it compares with a key.
    pub shifted: Option<(Expr, CmpKind)>,
}

/// Window functions.
#[derive(Debug, Clone)]
pub enum WindowFunc {
    /// ROW_NUMBER.
    RowNumber,
    /// RANK.
    Rank,
    /// DENSE_RANK.
    DenseRank,
    /// PERCENT_RANK.
    PercentRank,
    /// CUME_DIST.
    CumeDist,
    /// NTILE(n).
    Ntile,
    /// LAG(value[, n[, default]]).
    Lag,
    /// LEAD(value[, n[, default]]).
    Lead,
    /// FIRST_VALUE(value).
    FirstValue,
    /// LAST_VALUE(value).
    LastValue,
    /// NTH_VALUE(value, n).
    NthValue,
    /// An aggregate.
    Aggregate {
        /// Function.
        def: &'static AggDef,
        /// Static types and parameters.
        types: AggTypes,
    },
}

/// A call of a window function.
#[derive(Debug, Clone)]
pub struct WindowCall {
    /// Function.
    pub func: WindowFunc,
    /// Values per row.
    pub args: Vec<Expr>,
    /// NTILE, NTH_VALUE, LAG, LEAD: the number, the same for all rows.
    pub number: Option<Expr>,
    /// Position in [`Windows::specs`].
    pub window: usize,
    /// Type of the result.
    pub ty: SqlType,
}

/// A sort key.
#[derive(Debug, Clone)]
pub struct OrderKey {
    /// Key.
    pub expr: Expr,
    /// DESC.
    pub desc: bool,
}

/// LIMIT.
#[derive(Debug, Clone)]
pub struct LimitSpec {
    /// Rows.
    pub count: Expr,
    /// Rows to skip.
    pub offset: Option<Expr>,
}

/// How rows of a table are locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockSpec {
    /// Shared or exclusive.
    pub mode: LockMode,
    /// What to do on conflict.
    pub policy: WaitPolicy,
    /// Why, which decides at which isolation levels.
    pub reason: LockReason,
}

/// Why rows of a table are locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockReason {
    /// A clause of the query, or a DELETE or an UPDATE of several tables.
    Asked,
    /// An UPDATE of one table: it may be semi-consistent.
    Updated,
    /// A change, or a transaction at SERIALIZABLE, depends on what is read.
    Source,
    /// A change depends on what is read, but at READ COMMITTED it takes the newest committed rows.
    SourceAboveReadCommitted,
}

impl LockSpec {
    /// The lock on rows that a change depends on.
    pub fn of_source(reason: LockReason) -> Self {
        Self {
            mode: LockMode::Shared,
            policy: WaitPolicy::Wait,
            reason,
        }
    }

    /// Whether the transaction takes it at its isolation level.
    pub fn is_taken(&self, txn: &Txn) -> bool {
        self.reason != LockReason::SourceAboveReadCommitted || txn.locks_gaps()
    }
}

impl std::fmt::Debug for BoundQuery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BoundQuery")
            .field("columns", &self.columns.len())
            .finish_non_exhaustive()
    }
}
