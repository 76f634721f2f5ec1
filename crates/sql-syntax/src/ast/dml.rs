//! INSERT, REPLACE, UPDATE, DELETE, LOAD DATA.
//!
//! Neighbours: `query`, `expr`; the `dml` module executes them.
//! **Invariants**: `INSERT … SET a=1` is already a column list with one row.

use super::{
    BlockHints, ColumnRef, Expr, FileFormat, Ident, Limit, ObjectName, OrderItem, Query,
    SelectItem, TableRef, With,
};

/// `column = value`; `DEFAULT` is [`Expr::Default`]`(None)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// Target.
    pub column: ColumnRef,
    /// Value.
    pub value: Expr,
}

/// INSERT and REPLACE.
#[derive(Debug, Clone, PartialEq)]
pub struct Insert {
    /// REPLACE rather than INSERT.
    pub replace: bool,
    /// IGNORE.
    pub ignore: bool,
    /// LOW_PRIORITY, HIGH_PRIORITY or DELAYED.
    pub priority: Option<Priority>,
    /// Target.
    pub table: ObjectName,
    /// PARTITION (…).
    pub partitions: Vec<Ident>,
    /// Column list; empty when not given or given as `()`, which is the same.
    pub columns: Vec<ColumnRef>,
    /// A column list was written, possibly `()`.
    pub columns_given: bool,
    /// Rows.
    pub source: InsertSource,
    /// `AS new(a, b)` after VALUES.
    pub row_alias: Option<RowAlias>,
    /// ON DUPLICATE KEY UPDATE.
    pub on_duplicate: Vec<Assignment>,
    /// RETURNING (MariaDB).
    pub returning: Vec<SelectItem>,
    /// Optimizer hints behind the verb.
    pub hints: Option<Box<BlockHints>>,
}

impl Insert {
    /// Do its rows come from a query?
    pub fn is_from_query(&self) -> bool {
        self.query().is_some()
    }

    /// The query that its rows come from.
    pub fn query(&self) -> Option<&Query> {
        match &self.source {
            InsertSource::Query(query) => Some(query),
            InsertSource::Values(_) => None,
        }
    }
}

/// Where inserted rows come from.
#[derive(Debug, Clone, PartialEq)]
pub enum InsertSource {
    /// VALUES; a row may be empty (`VALUES ()`).
    Values(Vec<Vec<Expr>>),
    /// SELECT, TABLE, VALUES ROW, WITH.
    Query(Box<Query>),
}

/// `AS name [(columns)]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowAlias {
    /// Row name.
    pub name: Ident,
    /// Column names.
    pub columns: Vec<Ident>,
}

/// Write priority words, accepted and without effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// LOW_PRIORITY.
    Low,
    /// HIGH_PRIORITY.
    High,
    /// DELAYED (converted to a plain INSERT with warning 3005).
    Delayed,
}

/// UPDATE.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// WITH.
    pub with: Option<With>,
    /// LOW_PRIORITY.
    pub low_priority: bool,
    /// IGNORE.
    pub ignore: bool,
    /// Tables; more than one entry or a join makes it a multi-table update.
    pub tables: Vec<TableRef>,
    /// SET, at least one.
    pub assignments: Vec<Assignment>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// ORDER BY.
    pub order_by: Vec<OrderItem>,
    /// LIMIT.
    pub limit: Option<Limit>,
    /// Optimizer hints, if the statement has any.
    pub hints: Option<Box<BlockHints>>,
}

impl Update {
    /// Does it name one table, and no join?
    pub fn is_of_one_table(&self) -> bool {
        matches!(self.tables.as_slice(), [TableRef::Table(_)])
    }
}

/// DELETE.
#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    /// WITH.
    pub with: Option<With>,
    /// LOW_PRIORITY.
    pub low_priority: bool,
    /// QUICK.
    pub quick: bool,
    /// IGNORE.
    pub ignore: bool,
    /// Tables to delete from in a multi-table delete (names or aliases); empty for one table.
    pub targets: Vec<ObjectName>,
    /// One table, or the FROM/USING list of a multi-table delete.
    pub from: Vec<TableRef>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// ORDER BY (one table only).
    pub order_by: Vec<OrderItem>,
    /// LIMIT (one table only).
    pub limit: Option<Limit>,
    /// RETURNING (MariaDB).
    pub returning: Vec<SelectItem>,
    /// Optimizer hints, if the statement has any.
    pub hints: Option<Box<BlockHints>>,
}

/// LOAD DATA and LOAD XML.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadData {
    /// LOCAL.
    pub local: bool,
    /// LOW_PRIORITY or CONCURRENT.
    pub priority: Option<Priority>,
    /// File name.
    pub path: Vec<u8>,
    /// REPLACE.
    pub replace: bool,
    /// IGNORE.
    pub ignore: bool,
    /// Target.
    pub table: ObjectName,
    /// PARTITION (…).
    pub partitions: Vec<Ident>,
    /// CHARACTER SET.
    pub charset: Option<Box<str>>,
    /// LOAD XML: the tag of a row, `<row>` if nothing else is given.
    pub row_tag: Option<Vec<u8>>,
    /// FIELDS and LINES.
    pub format: FileFormat,
    /// IGNORE n LINES.
    pub skip_lines: u64,
    /// Targets of the fields; empty is all columns.
    pub columns: Vec<LoadTarget>,
    /// SET.
    pub assignments: Vec<Assignment>,
}

/// Where a field goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadTarget {
    /// Column.
    Column(Ident),
    /// User variable, lower-cased.
    Var(Box<str>),
}
