//! Rows read and changed, by table and by index.
//!
//! Neighbours: scans and writers count in `catalog::AccessCounts`; `sys` makes `schema_table_statistics`,
//! `schema_unused_indexes` and others of it.
//! **Invariants**: as in MySQL, rows that are made, and those of a scan of the whole table, are counted without an
//! index. Nothing is timed: times are 0, and `setup_instruments` says so. Counters begin when a table is opened or an
//! index is made, and TRUNCATE sets all of them to 0.

use std::sync::Arc;

use esker_sql_catalog::catalog::{AccessCounts, RowEvents, TableDef};
use esker_types::Value;

use super::super::source::Source;
use super::super::{Viewer, text};
use crate::instance::Instance;
use crate::instruments::INSTRUMENTS;

pub(super) static SOURCES: &[Source] = &[
    Source::new(
        "table_io_waits_summary_by_index_usage",
        &[
            "OBJECT_TYPE",
            "OBJECT_SCHEMA",
            "OBJECT_NAME",
            "INDEX_NAME",
            "COUNT_STAR",
            "COUNT_READ",
            "COUNT_WRITE",
            "COUNT_FETCH",
            "COUNT_INSERT",
            "COUNT_UPDATE",
            "COUNT_DELETE",
        ],
        by_index,
    )
    .emptied_by(reset),
    Source::new(
        "table_io_waits_summary_by_table",
        &[
            "OBJECT_TYPE",
            "OBJECT_SCHEMA",
            "OBJECT_NAME",
            "COUNT_STAR",
            "COUNT_READ",
            "COUNT_WRITE",
            "COUNT_FETCH",
            "COUNT_INSERT",
            "COUNT_UPDATE",
            "COUNT_DELETE",
        ],
        by_table,
    )
    .emptied_by(reset),
];

/// The tables of users.
fn tables(instance: &Instance) -> Vec<Arc<TableDef>> {
    instance.catalog.snapshot().tables().cloned().collect()
}

/// Those whose accesses are wanted.
fn counted_tables(viewer: &Viewer) -> Vec<Arc<TableDef>> {
    let instruments = &viewer.instance.instruments;
    let mut tables = tables(&viewer.instance);
    let is_on = instruments.is_on(INSTRUMENTS, "wait/io/table/sql/handler") == Some(true);
    tables.retain(|table| is_on && instruments.counts_table(&table.schema, &table.name));
    tables
}

fn object(table: &TableDef) -> Vec<Value> {
    vec![text("TABLE"), text(&*table.schema), text(&*table.name)]
}

/// The counters and their sums.
fn figures([fetched, inserted, updated, deleted]: RowEvents) -> impl Iterator<Item = Value> {
    let written = inserted + updated + deleted;
    let figures = [
        fetched + written,
        fetched,
        written,
        fetched,
        inserted,
        updated,
        deleted,
    ];
    figures.into_iter().map(Value::UInt)
}

fn by_index(viewer: &Viewer) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in counted_tables(viewer) {
        let indexes = table.visible_indexes().iter();
        let named = indexes.map(|index| (text(&*index.name), index.accesses.events()));
        let without = (Value::Null, table.runtime.accesses.events());
        // MySQL has the row of no index only where there is something to count.
        let without = Some(without).filter(|(_, events)| events.iter().any(|n| *n > 0));
        for (name, events) in named.chain(without) {
            let mut row = object(&table);
            row.push(name);
            row.extend(figures(events));
            rows.push(row);
        }
    }
    rows
}

/// All counters of a table.
fn counters(table: &TableDef) -> impl Iterator<Item = &AccessCounts> {
    let indexes = table.indexes.iter().map(|index| &*index.accesses);
    indexes.chain([&*table.runtime.accesses])
}

fn by_table(viewer: &Viewer) -> Vec<Vec<Value>> {
    let tables = counted_tables(viewer).into_iter();
    tables
        .map(|table| {
            let mut sums = RowEvents::default();
            for counts in counters(&table) {
                for (sum, count) in sums.iter_mut().zip(counts.events()) {
                    *sum += count;
                }
            }
            let mut row = object(&table);
            row.extend(figures(sums));
            row
        })
        .collect()
}

fn reset(instance: &Instance) {
    for table in tables(instance) {
        counters(&table).for_each(AccessCounts::reset);
    }
}
