//! PARTITIONS: a line for each partition or subpartition; a table without partitions is shown as one.
//!
//! Neighbours: `objects` has the tables and views that the account may see.
//! **Invariant**: rows of all partitions are in the same tree, so bytes of one are its share of the rows.

use esker_sql_catalog::catalog::{
    PartitionBound, PartitionDef, PartitionItem, PartitionMethod, PartitionSizes, Partitioning,
    TableDef, ViewDef, partition_description, quoted,
};
use esker_types::ctx::SessionInfo;
use esker_types::{SqlResult, Value};

use super::objects::{created, view_created, visible_tables, visible_views};
use super::{Viewer, Wanted, partition_rows, text};

/// Columns about a partition itself.
const NAMED: usize = 12;

/// All lines.
///
/// # Errors
/// The statement of this session is killed or out of time.
pub(super) fn rows(
    viewer: &Viewer,
    wanted: &Wanted,
    session: &dyn SessionInfo,
) -> SqlResult<Vec<Vec<Value>>> {
    let mut rows = Vec::new();
    for table in visible_tables(viewer, wanted) {
        let sizes = partition_rows::sizes(&viewer.instance, &table, session)?;
        of_table(viewer, &table, sizes.as_deref(), &mut rows);
    }
    let views = visible_views(viewer, wanted);
    rows.extend(views.iter().map(|view| of_view(viewer, view)));
    Ok(rows)
}

/// A view's line.
fn of_view(viewer: &Viewer, view: &ViewDef) -> Vec<Value> {
    let mut row = vec![text("def"), text(&view.schema), text(&view.name)];
    row.resize(NAMED, Value::Null);
    row.extend([const { Value::UInt(0) }; 6]);
    row.push(view_created(viewer, view));
    row.resize(22, Value::Null);
    row.extend([text(""), text(""), Value::Null]);
    row
}

/// A table's lines.
fn of_table(
    viewer: &Viewer,
    table: &TableDef,
    sizes: Option<&PartitionSizes>,
    out: &mut Vec<Vec<Value>>,
) {
    let Some(partitioning) = &table.partitioning else {
        let mut row = vec![text("def"), text(&table.schema), text(&table.name)];
        row.resize(NAMED, Value::Null);
        out.push(measured(viewer, table, row, (1.0, ""), ""));
        return;
    };
    let counts = sizes.map_or(&[][..], |sizes| &sizes.counts);
    let all = counts.iter().sum::<u64>().max(1);
    let share = |at: usize| counts.get(at).map_or(0.0, |n| *n as f64 / all as f64);
    for (nth, partition) in partitioning.partitions.iter().enumerate() {
        let line = |sub: Option<(usize, &PartitionItem)>| {
            let row = named(table, partitioning, (nth, partition), sub);
            let item = sub.map_or(&partition.item, |(_, item)| item);
            let subs = partition.subpartitions.len().max(1);
            let at = nth * subs + sub.map_or(0, |(nth, _)| nth);
            measured(viewer, table, row, (share(at), &item.comment), "default")
        };
        match partition.subpartitions.is_empty() {
            true => out.push(line(None)),
            false => {
                let subs = partition.subpartitions.iter().enumerate();
                out.extend(subs.map(|sub| line(Some(sub))));
            }
        }
    }
}

/// What a line says of the partition.
fn named(
    table: &TableDef,
    partitioning: &Partitioning,
    (nth, partition): (usize, &PartitionDef),
    sub: Option<(usize, &PartitionItem)>,
) -> Vec<Value> {
    let number = |n: usize| Value::UInt(n as u64 + 1);
    let method = |m: &PartitionMethod| text(m.name());
    let or_null = |value: Option<Value>| value.unwrap_or(Value::Null);
    let sub_method = partitioning.sub.as_ref();
    vec![
        text("def"),
        text(&table.schema),
        text(&table.name),
        text(&partition.item.name),
        or_null(sub.map(|(_, item)| text(&item.name))),
        number(nth),
        or_null(sub.map(|(nth, _)| number(nth))),
        method(&partitioning.method),
        or_null(sub_method.map(method)),
        expression(&partitioning.method),
        or_null(sub_method.map(expression)),
        match &partition.bound {
            PartitionBound::None => Value::Null,
            bound => text(partition_description(bound)),
        },
    ]
}

fn expression(method: &PartitionMethod) -> Value {
    if method.by_primary {
        return Value::Null;
    }
    if method.columns.is_empty() {
        return text(&method.expr);
    }
    let columns: Vec<String> = method.columns.iter().map(|c| quoted(c)).collect();
    text(columns.join(","))
}

/// Adds rows and bytes: a `share` of the table's.
fn measured(
    viewer: &Viewer,
    table: &TableDef,
    mut row: Vec<Value>,
    (share, comment): (f64, &str),
    nodegroup: &str,
) -> Vec<Value> {
    let stats = viewer.instance.table_stats(table);
    let part = |whole: u64| Value::UInt((whole as f64 * share).round() as u64);
    row.extend([
        part(stats.rows),
        Value::UInt(stats.data_bytes.checked_div(stats.rows).unwrap_or(0)),
        part(stats.data_bytes),
        Value::UInt(0),
        part(stats.index_bytes),
        Value::UInt(0),
        created(viewer, table.create_time_micros),
        Value::Null,
        Value::Null,
        Value::Null,
        text(comment),
        text(nodegroup),
        Value::Null,
    ]);
    row
}
