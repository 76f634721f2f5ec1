//! PARTITIONS: tables have none, and are shown as one.
//!
//! Neighbours: `objects` asks for each table and view that the account may see.
//! **Invariant**: a table or view has one row.

use esker_sql_catalog::catalog::{TableDef, ViewDef};
use esker_types::Value;

use super::objects::created;
use super::{Viewer, text};

/// A view's line in PARTITIONS.
pub(super) fn of_view(view: &ViewDef) -> Vec<Value> {
    let mut row = vec![text("def"), text(&view.schema), text(&view.name)];
    row.resize(12, Value::Null);
    row.extend([const { Value::UInt(0) }; 6]);
    row.resize(22, Value::Null);
    row.extend([text(""), text(""), Value::Null]);
    row
}

/// A table's line: it is one partition.
pub(super) fn of_table(viewer: &Viewer, table: &TableDef, out: &mut Vec<Vec<Value>>) {
    let stats = viewer.instance.table_stats(table);
    let mut row = vec![text("def"), text(&table.schema), text(&table.name)];
    row.resize(12, Value::Null);
    row.extend([
        Value::UInt(stats.rows),
        Value::UInt(stats.data_bytes.checked_div(stats.rows).unwrap_or(0)),
        Value::UInt(stats.data_bytes),
        Value::UInt(0),
        Value::UInt(stats.index_bytes),
        Value::UInt(0),
        created(viewer, table.create_time_micros),
        Value::Null,
        Value::Null,
        Value::Null,
        text(""),
        text(""),
        Value::Null,
    ]);
    out.push(row);
}
