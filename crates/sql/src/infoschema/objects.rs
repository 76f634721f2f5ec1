//! Rows about schemas, tables, indexes and constraints.
//!
//! Neighbours: `infoschema` asks by table name; `columns` has the rows about columns; the catalog snapshot has the
//! objects.
//! **Invariant**: only objects that the account may see appear; what Esker does not have (partitions)
//! gives no rows.

use std::sync::Arc;

use esker_sql_catalog::accounts::Privileges;
use esker_sql_catalog::catalog::{ShownOption, StorageEngine, TableDef, ViewDef};
use esker_types::{DateTime, Value};

use crate::printer::{dictionary_text, view_definition};

use super::columns::{columns, generation_text, geometry_columns, reference_systems, view_column};
use super::view_columns;
use super::{Viewer, Wanted, foreign, histogram, system_objects, text, triggers, yes_no};

/// The rows of a table about schema objects; None when it is not one.
pub(super) fn rows(table: &str, viewer: &Viewer, wanted: &Wanted) -> Option<Vec<Vec<Value>>> {
    Some(match table {
        "SCHEMATA" => schemata(viewer, wanted),
        "TABLES" => tables(viewer, wanted),
        "COLUMNS" => {
            let mut rows = with_system(
                system_objects::columns(viewer, wanted),
                each_table(viewer, wanted, columns),
            );
            for view in visible_views(viewer, wanted) {
                let shown = view_columns::of_view(viewer, &view);
                for (nth, (column, shown)) in view.columns.iter().zip(shown).enumerate() {
                    let access = &viewer.access;
                    let privileges = access.shown_on_column(&view.schema, &view.name, &column.name);
                    if !privileges.is_empty() {
                        rows.push(view_column(&view, nth, (column, shown), &privileges));
                    }
                }
            }
            rows
        }
        "COLUMN_STATISTICS" => each_table(viewer, wanted, |_, table, out| {
            histogram::rows(table, out);
        }),
        "ST_GEOMETRY_COLUMNS" => each_table(viewer, wanted, geometry_columns),
        "ST_SPATIAL_REFERENCE_SYSTEMS" => reference_systems(),
        "STATISTICS" => with_system(
            system_objects::statistics(viewer, wanted),
            each_table(viewer, wanted, statistics),
        ),
        "KEY_COLUMN_USAGE" => with_system(
            system_objects::key_columns(viewer, wanted),
            each_table(viewer, wanted, key_columns),
        ),
        "TABLE_CONSTRAINTS" => with_system(
            system_objects::constraints(viewer, wanted),
            each_table(viewer, wanted, table_constraints),
        ),
        "REFERENTIAL_CONSTRAINTS" => each_table(viewer, wanted, foreign::constraints),
        "TRIGGERS" => each_table(viewer, wanted, triggers::rows),
        "INNODB_FOREIGN" => each_table(viewer, wanted, foreign::keys),
        "INNODB_FOREIGN_COLS" => each_table(viewer, wanted, foreign::key_columns),
        "CHECK_CONSTRAINTS" => each_table(viewer, wanted, check_constraints),
        "VIEWS" => {
            let views = visible_views(viewer, wanted);
            with_system(
                system_objects::views(viewer, wanted),
                views.iter().map(|v| view(viewer, v)).collect(),
            )
        }
        _ => return None,
    })
}

fn schemata(viewer: &Viewer, wanted: &Wanted) -> Vec<Vec<Value>> {
    let mut rows = system_objects::schemata(viewer);
    for schema in viewer.instance.schemas() {
        if viewer.sees_schema(&schema.name) {
            rows.push(vec![
                text("def"),
                text(&schema.name),
                text(schema.collation.charset().name()),
                text(schema.collation.name()),
                Value::Null,
                text("NO"),
            ]);
        }
    }
    rows.retain(|r| {
        matches!(&r[1], Value::Str(s)
        if wanted.schema_matches(&String::from_utf8_lossy(s)))
    });
    rows
}

/// The tables that match and that the account may see, in order of names.
pub(super) fn visible_tables(viewer: &Viewer, wanted: &Wanted) -> Vec<Arc<TableDef>> {
    let mut found = Vec::new();
    for schema in viewer.instance.schemas() {
        if !wanted.schema_matches(&schema.name) {
            continue;
        }
        let seen = |t: &Arc<TableDef>| {
            wanted.table_matches(&t.name) && viewer.access.sees_table(&t.schema, &t.name)
        };
        found.extend(
            viewer
                .instance
                .tables_of(&schema.name)
                .into_iter()
                .filter(seen),
        );
    }
    found
}

/// The views that match and that the account may see, in order of names.
pub(super) fn visible_views(viewer: &Viewer, wanted: &Wanted) -> Vec<Arc<ViewDef>> {
    let mut found = Vec::new();
    for schema in viewer.instance.schemas() {
        if !wanted.schema_matches(&schema.name) {
            continue;
        }
        let seen = |v: &Arc<ViewDef>| {
            wanted.table_matches(&v.name) && viewer.access.sees_table(&v.schema, &v.name)
        };
        found.extend(
            viewer
                .instance
                .views_of(&schema.name)
                .into_iter()
                .filter(seen),
        );
    }
    found
}

fn view(viewer: &Viewer, view: &ViewDef) -> Vec<Value> {
    let (user, host) = &view.definer;
    let have = viewer.access.on_table(&view.schema, &view.name);
    let open =
        viewer.access.is_of(user, host) || have.contains(Privileges::of(&["SELECT", "SHOW VIEW"]));
    let definer = format!("{}@{}", view.definer.0, view.definer.1);
    let query = if open {
        view_definition(view)
    } else {
        "".into()
    };
    vec![
        text("def"),
        text(&view.schema),
        text(&view.name),
        text(&*query),
        text(view.check_option.name()),
        yes_no(view.updatable),
        text(definer),
        text(if view.invoker { "INVOKER" } else { "DEFINER" }),
        text(&view.charset.0),
        text(&view.charset.1),
    ]
}

/// Rows about the system schemas, then those about the others.
fn with_system(mut system: Vec<Vec<Value>>, others: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    system.extend(others);
    system
}

fn each_table(
    viewer: &Viewer,
    wanted: &Wanted,
    rows: fn(&Viewer, &TableDef, &mut Vec<Vec<Value>>),
) -> Vec<Vec<Value>> {
    let mut out = Vec::new();
    for table in visible_tables(viewer, wanted) {
        rows(viewer, &table, &mut out);
    }
    out
}

pub(super) fn created(viewer: &Viewer, micros: i64) -> Value {
    let local = DateTime::from_utc(micros, &viewer.instance.system_zone);
    local
        .and_then(|t| t.round(0, true).ok())
        .map_or(Value::Null, Value::DateTime)
}

/// When a view was made: since the start it is there at least.
pub(super) fn view_created(viewer: &Viewer, view: &ViewDef) -> Value {
    let known = Some(view.create_time_micros).filter(|micros| *micros != 0);
    created(
        viewer,
        known.unwrap_or_else(|| viewer.instance.started_micros()),
    )
}

/// The place of that in TABLES.
pub(super) const CREATE_TIME: usize = 14;

fn tables(viewer: &Viewer, wanted: &Wanted) -> Vec<Vec<Value>> {
    let mut out = system_objects::tables(viewer, wanted);
    for t in visible_tables(viewer, wanted) {
        let stats = viewer.instance.table_stats(&t);
        let average = stats.data_bytes.checked_div(stats.rows).unwrap_or(0);
        let auto = t
            .next_auto()
            .filter(|_| viewer.generated_keys || !t.has_generated_key());
        out.push(vec![
            text("def"),
            text(&t.schema),
            text(&t.name),
            text("BASE TABLE"),
            text(t.engine.name()),
            Value::Int(10),
            text(row_format(&t)),
            Value::UInt(stats.rows),
            Value::UInt(average),
            Value::UInt(stats.data_bytes),
            Value::UInt(0),
            Value::UInt(stats.index_bytes),
            Value::UInt(0),
            auto.map_or(Value::Null, Value::UInt),
            created(viewer, t.create_time_micros),
            Value::Null,
            Value::Null,
            text(t.collation.name()),
            Value::Null,
            text(create_options(&t)),
            text(&t.comment),
        ]);
    }
    out.extend(
        visible_views(viewer, wanted)
            .iter()
            .map(|v| view_in_tables(viewer, v)),
    );
    out
}

/// The format of rows that MySQL would use.
fn create_options(table: &TableDef) -> String {
    let mut listed = table.shown_options.listed(&table.row_format).to_string();
    if table.partitioning.is_some() {
        listed.push_str(if listed.is_empty() { "" } else { " " });
        listed.push_str("partitioned");
    }
    listed
}

fn row_format(table: &TableDef) -> &'static str {
    let has_blocks = table.shown_options.get(ShownOption::KeyBlockSize).is_some();
    match &*table.row_format {
        _ if table.engine == StorageEngine::Memory => "Fixed",
        "COMPRESSED" => "Compressed",
        "" | "DEFAULT" if has_blocks => "Compressed",
        "COMPACT" => "Compact",
        "REDUNDANT" => "Redundant",
        _ => "Dynamic",
    }
}

/// A view's line in TABLES.
fn view_in_tables(viewer: &Viewer, view: &ViewDef) -> Vec<Value> {
    let mut row = vec![
        text("def"),
        text(&view.schema),
        text(&view.name),
        text("VIEW"),
    ];
    row.resize(20, Value::Null);
    row[CREATE_TIME] = view_created(viewer, view);
    row.push(text("VIEW"));
    row
}

/// Rows of STATISTICS about one table.
pub(super) fn index_rows(viewer: &Viewer, table: &TableDef) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    statistics(viewer, table, &mut rows);
    rows
}

fn statistics(viewer: &Viewer, table: &TableDef, out: &mut Vec<Vec<Value>>) {
    let rows = viewer.instance.table_stats(table).rows;
    for index in table.shown_indexes(viewer.generated_keys) {
        for (i, part) in index.parts.iter().enumerate() {
            let column = &table.columns[part.col];
            out.push(vec![
                text("def"),
                text(&table.schema),
                text(&table.name),
                Value::Int(i64::from(!index.unique)),
                text(&table.schema),
                text(&index.name),
                Value::UInt(i as u64 + 1),
                match column.is_hidden() {
                    true => Value::Null,
                    false => text(&column.name),
                },
                match index.is_fulltext() || table.shows_hash(index) {
                    true => Value::Null,
                    false => text(if part.desc { "D" } else { "A" }),
                },
                Value::Int(rows as i64),
                part.prefix_len
                    .map_or(Value::Null, |n| Value::Int(i64::from(n))),
                Value::Null,
                text(if column.ty.nullable { "YES" } else { "" }),
                text(match index.is_fulltext() {
                    true => "FULLTEXT",
                    false if table.is_spatial(index) => "SPATIAL",
                    false if table.shows_hash(index) => "HASH",
                    false => "BTREE",
                }),
                text(""),
                text(&index.comment),
                yes_no(!index.invisible),
                match column.is_hidden() {
                    true => text(generation_text(column)),
                    false => Value::Null,
                },
            ]);
        }
    }
}

/// Only columns on which the account has a privilege, unlike other tables about keys.
fn key_columns(viewer: &Viewer, table: &TableDef, out: &mut Vec<Vec<Value>>) {
    let shows = |column: &str| {
        let access = &viewer.access;
        !access
            .shown_on_column(&table.schema, &table.name, column)
            .is_empty()
    };
    let indexes = table.shown_indexes(viewer.generated_keys).into_iter();
    for index in indexes.filter(|i| i.unique) {
        let is_shown = |p: &esker_sql_catalog::catalog::IndexPart| {
            let column = &table.columns[p.col];
            !column.is_hidden() && shows(&column.name)
        };
        let parts = index.parts.iter().enumerate();
        for (i, part) in parts.filter(|(_, p)| is_shown(p)) {
            out.push(vec![
                text("def"),
                text(&table.schema),
                text(&index.name),
                text("def"),
                text(&table.schema),
                text(&table.name),
                text(&table.columns[part.col].name),
                Value::UInt(i as u64 + 1),
                Value::Null,
                Value::Null,
                Value::Null,
                Value::Null,
            ]);
        }
    }
    foreign::column_usage(table, &shows, out);
}

fn table_constraints(viewer: &Viewer, table: &TableDef, out: &mut Vec<Vec<Value>>) {
    let mut push = |name: &str, kind: &str, enforced: bool| {
        out.push(vec![
            text("def"),
            text(&table.schema),
            text(name),
            text(&table.schema),
            text(&table.name),
            text(kind),
            yes_no(enforced),
        ]);
    };
    let indexes = table.shown_indexes(viewer.generated_keys).into_iter();
    for index in indexes.filter(|i| i.unique) {
        push(
            &index.name,
            if index.primary {
                "PRIMARY KEY"
            } else {
                "UNIQUE"
            },
            true,
        );
    }
    for key in table.sorted_foreign_keys() {
        push(&key.name, "FOREIGN KEY", true);
    }
    for check in &table.checks {
        push(&check.name, "CHECK", check.enforced);
    }
}

fn check_constraints(_: &Viewer, table: &TableDef, out: &mut Vec<Vec<Value>>) {
    for check in &table.checks {
        out.push(vec![
            text("def"),
            text(&table.schema),
            text(&check.name),
            text(dictionary_text(&check.text)),
        ]);
    }
}
