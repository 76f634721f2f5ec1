//! What the binder hands to the planner: bound query blocks.
//!
//! Neighbours: `select`, `query` and `from` build these, `plan` turns them into operators.
//! **Invariants**: expressions of a block are over its row: slots `0..width` of table columns, then
//! group keys and aggregates; `order` keys of a set operation are over the result columns.

use std::rc::Rc;
use std::sync::Arc;

use esker_engine::{LockMode, WaitPolicy};
use esker_types::func::aggregate::{AggDef, AggTypes};

use super::scope::ScopeTable;
use crate::expr::Expr;
use crate::parse::ast;
use crate::result::ColumnMeta;

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
pub struct Block {
    /// EXPLAIN's id.
    pub id: u32,
    /// Tables.
    pub tables: Vec<ScopeTable>,
    /// How they are joined; `None` without FROM.
    pub join: Option<JoinNode>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// Grouping and aggregates.
    pub group: Option<GroupBy>,
    /// HAVING.
    pub having: Option<Expr>,
    /// Select list.
    pub output: Vec<Expr>,
    /// DISTINCT.
    pub distinct: bool,
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
pub struct GroupBy {
    /// Keys, over table columns; empty for one group of everything.
    pub keys: Vec<Expr>,
    /// Slot of the first key in the grouped row.
    pub key_base: u32,
    /// Aggregates, over table columns.
    pub aggs: Vec<AggCall>,
    /// Slot of the first aggregate in the grouped row.
    pub agg_base: u32,
    /// WITH ROLLUP: slot of the first of the keys' "rolled up" flags.
    pub rollup: Option<u32>,
    /// No GROUP BY: one row even without input.
    pub implicit: bool,
}

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
}

impl std::fmt::Debug for BoundQuery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BoundQuery")
            .field("columns", &self.columns.len())
            .finish_non_exhaustive()
    }
}
