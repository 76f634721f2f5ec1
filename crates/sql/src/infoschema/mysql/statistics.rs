//! Rows about what the server knows of itself: sizes, costs, time zones, GTIDs.
//!
//! Neighbours: the catalog and the trees have the sizes, the binary log the GTIDs, the time zones are built in.
//! **Invariants**: sizes are in pages of InnoDB's page size, which tools multiply by; costs are MySQL's names with no
//! value of their own, for Esker's planner has other costs.

use esker_sql_catalog::catalog::{IndexDef, TableDef};
use esker_types::Value;

use super::super::objects::created;
use super::super::{Viewer, text};

/// Bytes of a page, by which sizes are told.
const PAGE_BYTES: u64 = 16 * 1024;

/// Columns of `engine_cost`.
pub(super) const ENGINE_COST: &[&str] = &[
    "engine_name",
    "device_type",
    "cost_name",
    "last_update",
    "default_value",
];

/// MySQL's constants, which Esker's planner does not use.
const ENGINE_COSTS: [(&str, f64); 2] = [
    ("io_block_read_cost", 1.0),
    ("memory_block_read_cost", 0.25),
];

/// Rows of `engine_cost`.
pub(super) fn engine_costs(viewer: &Viewer) -> Vec<Vec<Value>> {
    let row = |(name, default)| {
        vec![
            text("default"),
            Value::Int(0),
            text(name),
            started(viewer),
            Value::Double(default),
        ]
    };
    ENGINE_COSTS.map(row).to_vec()
}

/// Columns of `server_cost`.
pub(super) const SERVER_COST: &[&str] = &["cost_name", "last_update", "default_value"];

/// See [`ENGINE_COSTS`].
const SERVER_COSTS: [(&str, f64); 6] = [
    ("disk_temptable_create_cost", 20.0),
    ("disk_temptable_row_cost", 0.5),
    ("key_compare_cost", 0.05),
    ("memory_temptable_create_cost", 1.0),
    ("memory_temptable_row_cost", 0.1),
    ("row_evaluate_cost", 0.1),
];

/// Rows of `server_cost`.
pub(super) fn server_costs(viewer: &Viewer) -> Vec<Vec<Value>> {
    let row = |(name, default)| vec![text(name), started(viewer), Value::Double(default)];
    SERVER_COSTS.map(row).to_vec()
}

/// When the server started.
fn started(viewer: &Viewer) -> Value {
    let uptime = i64::try_from(viewer.instance.uptime_secs()).unwrap_or(0);
    created(viewer, viewer.instance.now_micros() - uptime * 1_000_000)
}

/// Columns of `gtid_executed`.
pub(super) const GTID_EXECUTED: &[&str] =
    &["source_uuid", "interval_start", "interval_end", "gtid_tag"];

/// Rows of `gtid_executed`: one for each interval of the set.
pub(super) fn gtids(viewer: &Viewer) -> Vec<Vec<Value>> {
    let executed = viewer.instance.gtid_executed();
    let mut rows = Vec::new();
    for (source, numbers) in executed.sources() {
        for (start, end) in numbers.intervals() {
            rows.push(vec![
                text(source.sid.to_string()),
                Value::Int(*start as i64),
                Value::Int((end - 1) as i64),
                text(source.tag.as_str()),
            ]);
        }
    }
    rows
}

/// Every table of the catalog.
fn each(viewer: &Viewer, mut rows: impl FnMut(&TableDef)) {
    for schema in viewer.instance.schemas() {
        for table in viewer.instance.tables_of(&schema.name) {
            rows(&table);
        }
    }
}

/// Columns of `innodb_table_stats`.
pub(super) const TABLE_STATS: &[&str] = &[
    "database_name",
    "table_name",
    "last_update",
    "n_rows",
    "clustered_index_size",
    "sum_of_other_index_sizes",
];

fn pages(bytes: u64) -> Value {
    Value::UInt(bytes.div_ceil(PAGE_BYTES))
}

/// Rows of `innodb_table_stats`.
pub(super) fn tables(viewer: &Viewer) -> Vec<Vec<Value>> {
    let mut out = Vec::new();
    let now = created(viewer, viewer.instance.now_micros());
    each(viewer, |table| {
        let stats = viewer.instance.table_stats(table);
        out.push(vec![
            text(&table.schema),
            text(&table.name),
            now.clone(),
            Value::UInt(stats.rows),
            pages(stats.data_bytes.max(1)),
            pages(stats.index_bytes),
        ]);
    });
    out
}

/// Columns of `innodb_index_stats`.
pub(super) const INDEX_STATS: &[&str] = &[
    "database_name",
    "table_name",
    "index_name",
    "last_update",
    "stat_name",
    "stat_value",
    "stat_description",
];

/// Rows of `innodb_index_stats`: the size of every index. How many different values its columns have is sampled when a
/// statement needs it, and is not here.
pub(super) fn indexes(viewer: &Viewer) -> Vec<Vec<Value>> {
    let mut out = Vec::new();
    let now = created(viewer, viewer.instance.now_micros());
    each(viewer, |table| {
        for index in table.visible_indexes() {
            out.push(vec![
                text(&table.schema),
                text(&table.name),
                text(&index.name),
                now.clone(),
                text("size"),
                pages(index_bytes(index).max(1)),
                text("Number of pages in the index"),
            ]);
        }
    });
    out
}

fn index_bytes(index: &IndexDef) -> u64 {
    let now = index.tree.superversion();
    now.version.bytes() + now.in_memory().bytes as u64
}

/// Columns of `time_zone`.
pub(super) const TIME_ZONE: &[&str] = &["Time_zone_id", "Use_leap_seconds"];

/// Rows of `time_zone`.
pub(super) fn zones(_: &Viewer) -> Vec<Vec<Value>> {
    let row = |(nth, _)| vec![Value::UInt(nth as u64 + 1), text("N")];
    jiff::tz::db().available().enumerate().map(row).collect()
}

/// Columns of `time_zone_name`.
pub(super) const TIME_ZONE_NAME: &[&str] = &["Name", "Time_zone_id"];

/// Rows of `time_zone_name`.
pub(super) fn zone_names(_: &Viewer) -> Vec<Vec<Value>> {
    let row = |(nth, name): (usize, jiff::tz::TimeZoneName<'_>)| {
        vec![text(name.as_str()), Value::UInt(nth as u64 + 1)]
    };
    jiff::tz::db().available().enumerate().map(row).collect()
}
