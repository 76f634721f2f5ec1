//! INSERT and REPLACE.
//!
//! In flow order: `compile` (names and expressions) and `source` (those of a query's tables) · `run` (rows: values,
//! defaults, CHECK) · `numbers` (AUTO_INCREMENT) · `conflict` (what happens when a unique key is taken) · `load`
//! and `load_rows` (LOAD DATA and LOAD XML: rows from a file) · `steps` (all of it in pieces, between which
//! triggers run). Neighbours: `write` puts the row, `exec` runs the query of INSERT … SELECT.
//!
//! **Invariants**
//! - Assignments of a row happen from left to right, defaults last; a column that an expression reads
//!   before it was assigned has its default.
//! - A generated AUTO_INCREMENT value that a client may see is in the log before the reply: in the
//!   commit record of the statement, or in a reservation that the reply waits for.

mod compile;
mod conflict;
mod load;
mod load_rows;
mod numbers;
mod run;
mod source;
mod steps;

use esker_engine::LockMode;
use esker_sql_catalog::catalog::{ColumnDef, TableDef};
use esker_sql_plan::expr::Expr;
use esker_sql_plan::plan::QueryPlan;
use std::sync::Arc;

use esker_types::trigger::{TriggerEvent, TriggerTiming};

use super::Beside;
use super::change::RowChanger;
use super::exprs::TableExprs;
use super::foreign::ForeignKeyPlan;
use super::through_view::InsertedView;
use super::values::relaxed_columns;

pub(super) use compile::compile_cell;
pub use load::CompiledLoad;
pub(super) use run::decode_row;
pub(crate) use run::{as_counter, auto_value};
pub(crate) use steps::{InsertSteps, StoreStep};

/// What a statement does with a row whose unique key is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnConflict {
    /// Error 1062.
    Fail,
    /// IGNORE: a warning, and the row is left out.
    Skip,
    /// REPLACE: the rows in the way are deleted.
    Replace,
    /// ON DUPLICATE KEY UPDATE.
    Update,
}

impl OnConflict {
    /// Does the new row give way?
    fn refuses(self) -> bool {
        matches!(self, Self::Fail | Self::Skip)
    }

    /// How the key in the way stays locked.
    fn lock(self) -> LockMode {
        match self {
            Self::Fail | Self::Skip => LockMode::Shared,
            Self::Replace | Self::Update => LockMode::Exclusive,
        }
    }
}

/// A value of a VALUES row, or of an assignment.
#[derive(Debug)]
pub(super) enum Cell {
    /// DEFAULT.
    Default,
    /// An expression.
    Expr(Expr),
}

/// Where rows come from.
#[derive(Debug)]
enum Rows {
    Values(Vec<Vec<Cell>>),
    /// Those of a query. Whether it reads the target table: then it has to end before the first row is written.
    Query(Arc<QueryPlan>, bool),
    /// Those of a text file.
    File,
}

/// A compiled INSERT or REPLACE.
#[derive(Debug)]
pub struct CompiledInsert {
    /// One table; a slice for the caller.
    table: [Arc<TableDef>; 1],
    /// The view by which the statement names it.
    view: Option<InsertedView>,
    on_conflict: OnConflict,
    pub(super) ignore: bool,
    /// DELAYED was written: it has no effect but warning 3005.
    delayed: bool,
    /// Target columns, in the order of the values.
    columns: Vec<usize>,
    /// All others.
    unassigned: Vec<usize>,
    rows: Rows,
    /// A value refers to a column of the row being made.
    reads_row: bool,
    exprs: TableExprs,
    /// ON DUPLICATE KEY UPDATE: over the existing row, behind it the new one, and behind that what it reads of
    /// the query's tables.
    changer: Option<RowChanger>,
    /// Of that: place in the query's row, and slot behind the new row.
    source_slots: Vec<(usize, usize)>,
    foreign: ForeignKeyPlan,
    /// BEFORE triggers see rows before they are stored, and may change every column: the columns as these see them.
    relaxed: Option<Vec<ColumnDef>>,
    beside: Beside,
}

/// The columns of a table as assignments see them where rows come that BEFORE triggers may change.
fn relaxed(table: &TableDef) -> Option<Vec<ColumnDef>> {
    let mut before = table.triggers_of(TriggerTiming::Before, TriggerEvent::Insert);
    before.next().map(|_| relaxed_columns(table))
}

impl CompiledInsert {
    fn table(&self) -> &Arc<TableDef> {
        &self.table[0]
    }

    /// A column as assignments see it.
    fn column(&self, col: usize) -> &ColumnDef {
        let columns = self.relaxed.as_deref().unwrap_or(&self.table().columns);
        &columns[col]
    }

    /// Do triggers run for anything that it does to rows?
    pub(crate) fn fires(&self) -> bool {
        let has = |event| self.table().has_triggers_for(event);
        has(TriggerEvent::Insert)
            || (self.replaces() && has(TriggerEvent::Delete))
            || (self.changer.is_some() && has(TriggerEvent::Update))
    }

    /// What its triggers and functions have to know.
    pub(crate) fn beside(&self) -> &Beside {
        &self.beside
    }

    /// May a row be its own parent?
    fn refers_to_itself(&self) -> bool {
        let table = self.table();
        table.foreign_keys.iter().any(|key| key.refers_to(table))
    }

    /// The table it changes.
    pub fn targets(&self) -> &[Arc<TableDef>] {
        &self.table
    }

    /// The foreign keys it has to keep.
    pub(crate) fn foreign_keys(&self) -> &ForeignKeyPlan {
        &self.foreign
    }

    /// The query of INSERT … SELECT.
    pub fn query(&self) -> Option<&Arc<QueryPlan>> {
        match &self.rows {
            Rows::Values(_) | Rows::File => None,
            Rows::Query(plan, _) => Some(plan),
        }
    }

    /// Is it a REPLACE?
    pub(crate) fn replaces(&self) -> bool {
        matches!(self.on_conflict, OnConflict::Replace)
    }

    /// Estimated rows to read and write.
    pub fn cost_rows(&self) -> f64 {
        match &self.rows {
            Rows::Values(rows) => rows.len() as f64,
            Rows::Query(plan, _) => plan.cost_rows.max(1.0),
            Rows::File => f64::INFINITY,
        }
    }
}
