//! Rows about schemas, tables, columns, indexes and constraints.
//!
//! Neighbours: `infoschema` asks by table name; the catalog snapshot has the objects.
//! **Invariant**: only objects that the account may see appear; what Esker does not have (partitions)
//! gives no rows.

use std::sync::Arc;

use esker_sql_catalog::accounts::Privileges;
use esker_sql_catalog::catalog::{
    ColumnDef, DefaultDef, IndexDef, ShownOption, StorageEngine, TableDef, ViewColumn, ViewDef,
};
use esker_types::collation::Charset;
use esker_types::geometry::srs;
use esker_types::sqltype::NOT_FIXED_DECIMALS;
use esker_types::{DateTime, SqlType, TypeKind, Value};

use crate::printer::{dictionary_text, view_definition};

use super::view_columns::{self, ShownColumn};
use super::{Viewer, Wanted, foreign, histogram, optional, system_objects, text, triggers, yes_no};

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
            .map(|v| view_in_tables(v)),
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
fn view_in_tables(view: &ViewDef) -> Vec<Value> {
    let mut row = vec![
        text("def"),
        text(&view.schema),
        text(&view.name),
        text("VIEW"),
    ];
    row.resize(20, Value::Null);
    row.push(text("VIEW"));
    row
}

/// `PRI`, `UNI`, `MUL` or nothing.
pub(crate) fn column_key(table: &TableDef, column: usize) -> &'static str {
    let leads = |i: &IndexDef| i.parts.first().is_some_and(|p| p.col == column);
    let visible = table.visible_indexes();
    let primary = table.shown_primary();
    if primary.is_some_and(|i| i.parts.iter().any(|p| p.col == column)) {
        "PRI"
    } else if visible
        .iter()
        .any(|i| i.unique && i.parts.len() == 1 && leads(i))
    {
        "UNI"
    } else if visible.iter().any(leads) {
        "MUL"
    } else {
        ""
    }
}

/// The EXTRA column of SHOW COLUMNS.
pub(crate) fn column_extra(column: &ColumnDef) -> String {
    let mut words = Vec::new();
    if let Some(generated) = &column.generated {
        let kind = if generated.stored {
            "STORED"
        } else {
            "VIRTUAL"
        };
        words.push(format!("{kind} GENERATED"));
    }
    if column.auto_increment {
        words.push("auto_increment".to_owned());
    }
    words.extend(default_words(column));
    if column.invisible {
        words.push("INVISIBLE".to_owned());
    }
    words.join(" ")
}

/// What the EXTRA column says of the default.
pub(super) fn default_extra(column: &ColumnDef) -> String {
    default_words(column).join(" ")
}

fn default_words(column: &ColumnDef) -> Vec<String> {
    let mut words = Vec::new();
    if matches!(column.default, DefaultDef::Now | DefaultDef::Expr(_)) {
        words.push("DEFAULT_GENERATED".to_owned());
    }
    if column.on_update_now {
        let fsp = column.ty.decimals;
        let digits = if fsp > 0 {
            format!("({fsp})")
        } else {
            String::new()
        };
        words.push(format!("on update CURRENT_TIMESTAMP{digits}"));
    }
    words
}

/// GENERATION_EXPRESSION.
fn generation_text(column: &ColumnDef) -> String {
    let text = column.generated.as_ref().map(|g| dictionary_text(&g.text));
    text.unwrap_or_default()
}

/// DEFAULT as SHOW COLUMNS prints it.
pub(crate) fn column_default(viewer: &Viewer, column: &ColumnDef) -> Value {
    match &column.default {
        DefaultDef::None | DefaultDef::Value(Value::Null) => Value::Null,
        DefaultDef::Now => {
            let fsp = column.ty.decimals;
            let digits = if fsp > 0 {
                format!("({fsp})")
            } else {
                String::new()
            };
            text(format!("CURRENT_TIMESTAMP{digits}"))
        }
        DefaultDef::Expr(e) => text(dictionary_text(e)),
        DefaultDef::Value(v) => {
            let shown = match (&column.ty.kind, v) {
                (TypeKind::Timestamp, Value::DateTime(t)) => t
                    .micros_as_utc()
                    .and_then(|m| DateTime::from_utc(m, &viewer.instance.system_zone))
                    .map_or_else(|| v.clone(), Value::DateTime),
                (TypeKind::Bit, Value::Bit(bits, _)) => return text(format!("b'{bits:b}'")),
                _ => v.clone(),
            };
            let mut out = Vec::new();
            match shown.as_ref() {
                esker_types::ValueRef::Str(s) | esker_types::ValueRef::Label(_, s) => {
                    out.extend_from_slice(s);
                }
                other => esker_types::cast::write_text(other, &column.ty, &mut out),
            }
            Value::Str(out)
        }
    }
}

/// Characters, bytes.
fn text_lengths(ty: &SqlType) -> Option<(u64, u64)> {
    let width = ty.collation.charset().max_len() as u64;
    let length = u64::from(ty.length);
    match &ty.kind {
        TypeKind::Char | TypeKind::VarChar => Some((length, length * width)),
        TypeKind::TinyText | TypeKind::Text | TypeKind::MediumText | TypeKind::LongText => {
            let least = ty.collation.charset().min_len() as u64;
            Some((length / least, length))
        }
        TypeKind::Enum(labels) => {
            let n = labels.iter().map(|l| l.chars().count()).max().unwrap_or(0) as u64;
            Some((n, n * width))
        }
        TypeKind::Set(labels) => {
            let n: usize = labels.iter().map(|l| l.chars().count() + 1).sum();
            let n = n.saturating_sub(1) as u64;
            Some((n, n * width))
        }
        _ => None,
    }
}

/// Precision and scale.
fn numeric(ty: &SqlType) -> (Value, Value) {
    let digits = match ty.kind {
        TypeKind::TinyInt => 3,
        TypeKind::SmallInt => 5,
        TypeKind::MediumInt => 7,
        TypeKind::Int => 10,
        TypeKind::BigInt => {
            if ty.unsigned {
                20
            } else {
                19
            }
        }
        TypeKind::Decimal => {
            return (
                Value::UInt(ty.length.into()),
                Value::UInt(ty.decimals.into()),
            );
        }
        TypeKind::Float | TypeKind::Double if ty.decimals != NOT_FIXED_DECIMALS => {
            return (
                Value::UInt(ty.length.into()),
                Value::UInt(ty.decimals.into()),
            );
        }
        TypeKind::Float => return (Value::UInt(12), Value::Null),
        TypeKind::Double => return (Value::UInt(22), Value::Null),
        TypeKind::Bit => return (Value::UInt(ty.length.into()), Value::Null),
        _ => return (Value::Null, Value::Null),
    };
    (Value::UInt(digits), Value::UInt(0))
}

fn columns(viewer: &Viewer, table: &TableDef, out: &mut Vec<Vec<Value>>) {
    for (i, column) in table.shown_columns(viewer.generated_keys) {
        let access = &viewer.access;
        let privileges = access.shown_on_column(&table.schema, &table.name, &column.name);
        if privileges.is_empty() {
            continue;
        }
        let mut row = vec![
            text("def"),
            text(&table.schema),
            text(&table.name),
            text(&column.name),
            Value::UInt(ordinal(table, i)),
            column_default(viewer, column),
        ];
        row.extend(type_cells(&column.ty));
        row.extend([
            text(column_key(table, i)),
            text(column_extra(column)),
            text(privileges),
            text(&column.comment),
            text(generation_text(column)),
            srs_id(&column.ty),
        ]);
        out.push(row);
    }
}

/// ORDINAL_POSITION: columns of functional key parts do not count.
fn ordinal(table: &TableDef, column: usize) -> u64 {
    let before = &table.columns[..=column];
    before.iter().filter(|c| !c.is_hidden()).count() as u64
}

/// SRS_ID.
fn srs_id(ty: &SqlType) -> Value {
    match ty.kind {
        TypeKind::Geometry(geometry) => optional_number(geometry.srid),
        _ => Value::Null,
    }
}

fn optional_number(n: Option<u32>) -> Value {
    n.map_or(Value::Null, |n| Value::UInt(n.into()))
}

/// ST_GEOMETRY_COLUMNS.
fn geometry_columns(viewer: &Viewer, table: &TableDef, out: &mut Vec<Vec<Value>>) {
    for (_, column) in table.shown_columns(viewer.generated_keys) {
        let access = &viewer.access;
        let privileges = access.shown_on_column(&table.schema, &table.name, &column.name);
        let TypeKind::Geometry(geometry) = column.ty.kind else {
            continue;
        };
        if privileges.is_empty() {
            continue;
        }
        let srs = geometry.srid.and_then(srs::find);
        out.push(vec![
            text("def"),
            text(&table.schema),
            text(&table.name),
            text(&column.name),
            optional(srs.map(|srs| srs.name)),
            optional_number(geometry.srid),
            text(geometry.shape.name()),
        ]);
    }
}

/// ST_SPATIAL_REFERENCE_SYSTEMS.
fn reference_systems() -> Vec<Vec<Value>> {
    let row = |srs: &srs::Srs| {
        let epsg = (srs.srid != 0).then_some(srs.srid);
        vec![
            text(srs.name),
            Value::UInt(srs.srid.into()),
            optional(epsg.map(|_| "EPSG")),
            optional_number(epsg),
            text(srs.definition),
            Value::Null,
        ]
    };
    srs::KNOWN.iter().map(row).collect()
}

fn view_column(
    view: &ViewDef,
    nth: usize,
    (column, shown): (&ViewColumn, ShownColumn),
    privileges: &str,
) -> Vec<Value> {
    let mut row = vec![
        text("def"),
        text(&view.schema),
        text(&view.name),
        text(&column.name),
        Value::UInt(nth as u64 + 1),
        shown.default,
    ];
    row.extend(type_cells(&column.ty));
    row.extend(["", shown.extra.as_str(), privileges, &*shown.comment, ""].map(text));
    row.push(srs_id(&column.ty));
    row
}

/// IS_NULLABLE to COLUMN_TYPE.
pub(super) fn type_cells(ty: &SqlType) -> [Value; 10] {
    let lengths = text_lengths(ty);
    let (precision, scale) = numeric(ty);
    let has_text = lengths.is_some() && ty.collation.charset() != Charset::Binary;
    let temporal = matches!(
        ty.kind,
        TypeKind::Time | TypeKind::DateTime | TypeKind::Timestamp
    );
    let number = |n: Option<u64>| n.map_or(Value::Null, |n| Value::Int(n as i64));
    [
        yes_no(ty.nullable),
        text(crate::schema::type_word(ty)),
        number(lengths.map(|l| l.0)),
        number(lengths.map(|l| l.1)),
        precision,
        scale,
        if temporal {
            Value::UInt(ty.decimals.into())
        } else {
            Value::Null
        },
        optional(has_text.then(|| ty.collation.charset().name())),
        optional(has_text.then(|| ty.collation.name())),
        text(esker_sql_catalog::catalog::type_text(ty)),
    ]
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
