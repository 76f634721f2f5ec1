//! What InnoDB's dictionary, the keywords and the extension tables of INFORMATION_SCHEMA show.
//!
//! Neighbours: the catalog has the tables, the trees their sizes, the parser the keywords; `status` has the counters.
//! **Invariants**: a table is named by the id of its catalog entry, an index by its tree; both are shown like InnoDB's
//! to those only that have the PROCESS privilege.

use std::sync::Arc;

use esker_sql_catalog::catalog::{PAGE_BYTES, SYSTEM_TABLESPACE, ShownOption, TableDef};
use esker_sql_syntax::keyword::words;
use esker_types::Value;

use super::objects::visible_views;
use super::source::Source;
use super::system_objects;
use super::{Viewer, Wanted, text};

pub(super) static SOURCES: &[Source] = &[
    Source::new("KEYWORDS", &["WORD", "RESERVED"], keywords),
    Source::new(
        "RESOURCE_GROUPS",
        &[
            "RESOURCE_GROUP_NAME",
            "RESOURCE_GROUP_TYPE",
            "RESOURCE_GROUP_ENABLED",
            "VCPU_IDS",
            "THREAD_PRIORITY",
        ],
        resource_groups,
    ),
    Source::new(
        "TABLES_EXTENSIONS",
        &["TABLE_CATALOG", "TABLE_SCHEMA", "TABLE_NAME"],
        |viewer| {
            let mut rows = each(viewer, |t, rows| rows.push(named(&t.schema, &t.name)));
            let views = visible_views(viewer, &Wanted::default());
            rows.extend(views.iter().map(|v| named(&v.schema, &v.name)));
            rows
        },
    ),
    Source::new(
        "COLUMNS_EXTENSIONS",
        &["TABLE_CATALOG", "TABLE_SCHEMA", "TABLE_NAME", "COLUMN_NAME"],
        columns_extensions,
    ),
    Source::new(
        "TABLE_CONSTRAINTS_EXTENSIONS",
        &[
            "CONSTRAINT_CATALOG",
            "CONSTRAINT_SCHEMA",
            "CONSTRAINT_NAME",
            "TABLE_NAME",
        ],
        |viewer| {
            each(viewer, |t, rows| {
                let indexes = t.shown_indexes(viewer.generated_keys).into_iter();
                for index in indexes.filter(|i| i.unique) {
                    let cells = ["def", &*t.schema, &*index.name, &*t.name];
                    rows.push(cells.map(text).to_vec());
                }
            })
        },
    ),
    Source::new(
        "SCHEMATA_EXTENSIONS",
        &["CATALOG_NAME", "SCHEMA_NAME", "OPTIONS"],
        schemata,
    ),
    Source::new(
        "INNODB_TABLES",
        &[
            "TABLE_ID",
            "NAME",
            "N_COLS",
            "SPACE",
            "ROW_FORMAT",
            "SPACE_TYPE",
        ],
        |viewer| each_of_innodb(viewer, table),
    ),
    Source::new(
        "INNODB_TABLESTATS",
        &[
            "TABLE_ID",
            "NAME",
            "STATS_INITIALIZED",
            "NUM_ROWS",
            "CLUST_INDEX_SIZE",
            "OTHER_INDEX_SIZE",
            "AUTOINC",
            "REF_COUNT",
        ],
        |viewer| each_of_innodb(viewer, table_stats),
    ),
    Source::new(
        "INNODB_INDEXES",
        &[
            "INDEX_ID",
            "NAME",
            "TABLE_ID",
            "TYPE",
            "N_FIELDS",
            "SPACE",
            "MERGE_THRESHOLD",
        ],
        |viewer| each_of_innodb(viewer, indexes),
    ),
    Source::new("INNODB_FIELDS", &["INDEX_ID", "NAME", "POS"], |viewer| {
        each_of_innodb(viewer, fields)
    }),
    Source::new(
        "INNODB_COLUMNS",
        &["TABLE_ID", "NAME", "POS", "LEN"],
        |viewer| each_of_innodb(viewer, columns),
    ),
];

/// MERGE_THRESHOLD without a comment that asks for another; the largest as well.
const USUAL_MERGE_THRESHOLD: i64 = 50;

fn keywords(_: &Viewer) -> Vec<Vec<Value>> {
    let row =
        |(word, reserved): (&'static str, bool)| vec![text(word), Value::Int(reserved.into())];
    let mut rows: Vec<_> = words().map(row).collect();
    rows.sort_by_cached_key(|row| match &row[0] {
        Value::Str(word) => word.clone(),
        _ => Vec::new(),
    });
    rows
}

/// The two groups that exist everywhere; there is no way to make others.
fn resource_groups(_: &Viewer) -> Vec<Vec<Value>> {
    let last = std::thread::available_parallelism().map_or(0, |n| n.get() - 1);
    let row = |(name, kind)| {
        vec![
            text(name),
            text(kind),
            Value::Int(1),
            text(format!("0-{last}")),
            Value::Int(0),
        ]
    };
    [("USR_default", "USER"), ("SYS_default", "SYSTEM")]
        .map(row)
        .to_vec()
}

type Rows = Vec<Vec<Value>>;

/// Rows of every table that the account may see.
fn each(viewer: &Viewer, rows: impl Fn(&TableDef, &mut Rows)) -> Rows {
    let mut out = Vec::new();
    for schema in viewer.instance.schemas() {
        for table in viewer.instance.tables_of(&schema.name) {
            if viewer.access.sees_table(&table.schema, &table.name) {
                rows(&table, &mut out);
            }
        }
    }
    out
}

/// Rows of every table, for those that may see processes.
fn each_of_innodb(viewer: &Viewer, rows: fn(&Viewer, &TableDef, &mut Rows)) -> Rows {
    let mut out = Vec::new();
    if !viewer.may("PROCESS") {
        return out;
    }
    for schema in viewer.instance.schemas() {
        for table in viewer.instance.tables_of(&schema.name) {
            let table: &Arc<TableDef> = &table;
            rows(viewer, table, &mut out);
        }
    }
    out
}

fn named(schema: &str, table: &str) -> Vec<Value> {
    vec![text("def"), text(schema), text(table)]
}

/// Columns on which the account has a privilege, of tables and views.
fn columns_extensions(viewer: &Viewer) -> Rows {
    let add = |schema: &str, table: &str, column: &str, rows: &mut Rows| {
        let privileges = viewer.access.shown_on_column(schema, table, column);
        if !privileges.is_empty() {
            let mut row = named(schema, table);
            row.push(text(column));
            rows.push(row);
        }
    };
    let mut rows = each(viewer, |t, rows| {
        for (_, column) in t.shown_columns(viewer.generated_keys) {
            add(&t.schema, &t.name, &column.name, rows);
        }
    });
    for view in visible_views(viewer, &Wanted::default()) {
        for column in &view.columns {
            add(&view.schema, &view.name, &column.name, &mut rows);
        }
    }
    rows
}

fn schemata(viewer: &Viewer) -> Rows {
    let schemas = viewer.instance.schemas();
    let seen = schemas.iter().filter(|s| viewer.sees_schema(&s.name));
    let options = |read_only| text(if read_only { "READ ONLY=1" } else { "" });
    let mut rows = system_objects::schemata(viewer);
    for row in &mut rows {
        row.truncate(2);
        row.push(options(false));
    }
    rows.extend(seen.map(|s| vec![text("def"), text(&s.name), options(s.read_only)]));
    rows
}

/// The id by which the dictionary names a table: that of its first tree.
fn id_of(table: &TableDef) -> Value {
    Value::UInt(table.primary().id.0.into())
}

fn full_name(table: &TableDef) -> Value {
    text(format!("{}/{}", table.schema, table.name))
}

/// The number and the kind of the tablespace that a table names, or has for itself.
fn space_of(viewer: &Viewer, table: &TableDef) -> (u32, &'static str) {
    let named = match table.shown_options.get(ShownOption::Tablespace) {
        Some(SYSTEM_TABLESPACE) => return (0, "System"),
        Some(name) => viewer.instance.catalog.tablespace(name),
        None => None,
    };
    match named {
        Some(space) => (space.id, "General"),
        None => (table.primary().id.0, "Single"),
    }
}

fn table(viewer: &Viewer, table: &TableDef, rows: &mut Rows) {
    let (space, kind) = space_of(viewer, table);
    rows.push(vec![
        id_of(table),
        full_name(table),
        // InnoDB counts three columns of its own.
        Value::Int(table.columns.len() as i64 + 3),
        Value::UInt(space.into()),
        text("Dynamic"),
        text(kind),
    ]);
}

fn table_stats(viewer: &Viewer, table: &TableDef, rows: &mut Rows) {
    let stats = viewer.instance.table_stats(table);
    let next = table.next_auto().unwrap_or(0);
    rows.push(vec![
        id_of(table),
        full_name(table),
        text("Initialized"),
        Value::UInt(stats.rows),
        Value::UInt(stats.data_bytes.div_ceil(PAGE_BYTES)),
        Value::UInt(stats.index_bytes.div_ceil(PAGE_BYTES)),
        Value::UInt(next),
        Value::Int(1),
    ]);
}

fn indexes(viewer: &Viewer, table: &TableDef, rows: &mut Rows) {
    for index in table.visible_indexes() {
        // InnoDB's flags: clustered, unique, full-text, spatial.
        let kind = match (index.primary, index.unique) {
            _ if index.is_fulltext() => 32,
            _ if table.is_spatial(index) => 64,
            (true, _) => 3,
            (false, true) => 2,
            (false, false) => 0,
        };
        rows.push(vec![
            Value::UInt(index.id.0.into()),
            text(&index.name),
            id_of(table),
            Value::Int(kind),
            Value::Int(index.parts.len() as i64),
            Value::UInt(space_of(viewer, table).0.into()),
            Value::Int(merge_threshold(&index.comment, &table.comment)),
        ]);
    }
}

/// What the comment of an index, or that of its table, asks for; pages are never merged here.
fn merge_threshold(index: &str, table: &str) -> i64 {
    let asked = |comment: &str| {
        let (_, rest) = comment.split_once("MERGE_THRESHOLD=")?;
        let end = rest.find(|c: char| !c.is_ascii_digit());
        let percent = rest[..end.unwrap_or(rest.len())].parse().ok()?;
        (1..=USUAL_MERGE_THRESHOLD)
            .contains(&percent)
            .then_some(percent)
    };
    asked(index)
        .or_else(|| asked(table))
        .unwrap_or(USUAL_MERGE_THRESHOLD)
}

fn fields(_: &Viewer, table: &TableDef, rows: &mut Rows) {
    for index in table.visible_indexes() {
        for (nth, part) in index.parts.iter().enumerate() {
            rows.push(vec![
                Value::UInt(index.id.0.into()),
                text(&table.columns[part.col].name),
                Value::UInt(nth as u64),
            ]);
        }
    }
}

fn columns(_: &Viewer, table: &TableDef, rows: &mut Rows) {
    let shown = table.columns.iter().filter(|c| !c.is_hidden());
    for (nth, column) in shown.enumerate() {
        rows.push(vec![
            id_of(table),
            text(&column.name),
            Value::UInt(nth as u64),
            Value::Int(column.ty.length.into()),
        ]);
    }
}
