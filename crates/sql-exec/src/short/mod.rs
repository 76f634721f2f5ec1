//! The fast path: reads shaped like a key look-up, compiled once and run without planning.
//!
//! Neighbours: `session` caches a [`ShortSelect`] per statement and asks it first; whatever it does not
//! take goes the general path through `bind`, `plan` and `exec`, with the same answer.
//! Parts: `compile` (which statements are short) · `access` (which index they read) · `place` (how their parameters
//! reach the keys) · `select` (running one) · `window` (LIMIT).
//! **Invariants**
//! - A short plan filters by its key ranges alone: every condition of the statement is in them.
//! - Row bytes go to the sink without intermediate values; the only allocations are the session's
//!   reused buffers.
//! - A parameter whose type does not fit the column's key exactly makes the execution not short.

mod access;
mod compile;
mod place;
mod select;
mod window;

use std::sync::Arc;

use access::KeyPart;
use esker_engine::Direction;
use esker_types::Value;

use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::result::ColumnMeta;

pub use compile::{candidate, compile};
pub use select::Scratch;

/// Where a key part's value comes from.
#[derive(Debug, Clone)]
enum Operand {
    Param(u32),
    Const(Value),
    /// What `IS NULL` looks for; a parameter or a constant that is NULL is equal to nothing.
    Null,
}

/// One range of an index: parts equal to `equal`, the next part between the ends (value, inclusive).
#[derive(Debug, Clone, Default)]
struct RangeSpec {
    equal: Vec<Operand>,
    low: Option<(Operand, bool)>,
    high: Option<(Operand, bool)>,
}

impl RangeSpec {
    /// Does it look for NULL, of which a unique index may have several?
    fn has_null(&self) -> bool {
        let mut equal = self.equal.iter();
        equal.any(|operand| matches!(operand, Operand::Null))
    }
}

/// LIMIT and OFFSET.
#[derive(Debug, Clone)]
struct Limit {
    count: Operand,
    offset: Option<Operand>,
}

/// Aggregate functions of the short path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AggKind {
    CountStar,
    Count,
    Sum,
    Min,
    Max,
}

/// What becomes of the rows.
#[derive(Debug, Clone)]
enum Output {
    /// These columns, in the order of the index.
    Columns(Vec<usize>),
    /// These columns, sorted by one of them (position in the list), perhaps without duplicates.
    Sorted {
        columns: Vec<usize>,
        by: usize,
        desc: bool,
        distinct: bool,
    },
    /// Integer aggregates over all rows.
    Aggregates(Vec<(AggKind, usize)>),
}

/// Why a SELECT takes the general path, which plans it each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeneralPath {
    /// Several tables, groups, windows, locks, or a clause that only planning understands.
    Shape,
    /// It has expressions of its rows, not only columns.
    Columns,
    /// No index has exactly the rows that its conditions want.
    Conditions,
    /// No index has its order.
    Order,
    /// These values, or what the transaction has done.
    Values,
}

/// A compiled short SELECT.
#[derive(Debug)]
pub struct ShortSelect {
    /// The table as it was when this was compiled; another definition makes the plan void.
    pub table: Arc<TableDef>,
    /// Result columns.
    pub columns: Arc<[ColumnMeta]>,
    /// Number of parameters.
    pub params: usize,
    /// Position of the index in the table.
    index: usize,
    ranges: Vec<RangeSpec>,
    direction: Direction,
    /// At most one row can match.
    unique: bool,
    /// Everything that is read lies in the key parts of the index or in the clustered key: where, by column.
    index_only: Option<Box<[Option<KeyPart>]>>,
    output: Output,
    /// The first row has the result of the only aggregate.
    first_only: bool,
    limit: Option<Limit>,
}

impl ShortSelect {
    /// Does it read the clustered index, not a secondary one?
    pub fn is_by_primary(&self) -> bool {
        self.table.indexes[self.index].primary
    }
}
