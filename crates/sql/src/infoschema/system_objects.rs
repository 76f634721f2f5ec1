//! Rows of INFORMATION_SCHEMA about the system schemas themselves, and SHOW CREATE TABLE of their tables.
//!
//! Neighbours: `objects` adds them to those about users' schemas; `declared` has what they are made of.
//! **Invariant**: only tables that the account may see appear.

use esker_types::collation::Collation;
use esker_types::{TypeKind, Value};

use super::columns::type_cells;
use super::objects::{CREATE_TIME, created};
use super::{ColumnSpec, SCHEMAS, SpecKind, TableSpec, Viewer, Wanted, optional, text, yes_no};

/// The tables and views of system schemas that match and that the account may see.
fn visible<'a>(viewer: &'a Viewer, wanted: &'a Wanted) -> impl Iterator<Item = &'static TableSpec> {
    let schemas = SCHEMAS.iter().filter(|s| wanted.schema_matches(s.name));
    let tables = schemas.flat_map(|s| s.tables());
    let is_wanted = |t: &&TableSpec| wanted.table_matches(t.name) && viewer.sees(t);
    tables.filter(is_wanted).collect::<Vec<_>>().into_iter()
}

/// Rows of SCHEMATA.
pub(super) fn schemata(viewer: &Viewer) -> Vec<Vec<Value>> {
    let is_shown = |name: &str| crate::schema::is_open_schema(name) || viewer.sees_schema(name);
    let shown = SCHEMAS.iter().filter(|s| is_shown(s.name));
    shown
        .map(|s| {
            let collation = match s.name {
                "information_schema" => Collation::UTF8MB3_GENERAL_CI,
                _ => Collation::UTF8MB4_0900_AI_CI,
            };
            vec![
                text("def"),
                text(s.name),
                text(collation.charset().name()),
                text(collation.name()),
                Value::Null,
                text("NO"),
            ]
        })
        .collect()
}

/// Rows of TABLES.
pub(super) fn tables(viewer: &Viewer, wanted: &Wanted) -> Vec<Vec<Value>> {
    // They are made at every start.
    let made = created(viewer, viewer.instance.started_micros());
    let with_time = |spec| {
        let mut row = table(spec);
        row[CREATE_TIME] = made.clone();
        row
    };
    visible(viewer, wanted).map(with_time).collect()
}

fn table(spec: &TableSpec) -> Vec<Value> {
    let mut row = vec![
        text("def"),
        text(spec.schema),
        text(spec.name),
        text(spec.kind.word()),
    ];
    if spec.kind == SpecKind::View {
        row.resize(20, Value::Null);
        row.push(text("VIEW"));
        return row;
    }
    // mysqldump leaves out the rows of what has no engine: those of these schemas are computed, and could not be
    // restored.
    let is_dumped = matches!(spec.schema, "mysql" | "sys");
    let engine = Some(spec.engine).filter(|e| !e.is_empty() && !is_dumped);
    row.push(optional(engine));
    row.push(Value::Int(10));
    if spec.kind == SpecKind::SystemView {
        row.push(Value::Null);
        row.extend([const { Value::UInt(0) }; 6]);
    } else {
        row.push(text("Dynamic"));
        row.extend([const { Value::UInt(0) }; 6]);
    }
    row.resize(17, Value::Null);
    row.push(optional(spec.collation.map(Collation::name)));
    row.extend([Value::Null, text(""), text(spec.comment)]);
    row
}

/// What the account may do with the columns of a table.
fn privileges(viewer: &Viewer, spec: &TableSpec, column: &ColumnSpec) -> String {
    match viewer
        .access
        .shown_on_column(spec.schema, spec.name, &column.name)
    {
        held if held.is_empty() || spec.schema == "information_schema" => "select".to_owned(),
        held => held,
    }
}

/// Rows of COLUMNS.
pub(super) fn columns(viewer: &Viewer, wanted: &Wanted) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for spec in visible(viewer, wanted) {
        for (nth, column) in spec.columns.iter().enumerate() {
            let mut row = vec![
                text("def"),
                text(spec.schema),
                text(spec.name),
                text(&*column.name),
                Value::UInt(nth as u64 + 1),
                optional(column.default),
            ];
            let mut cells = type_cells(&column.ty);
            cells[9] = text(&column.type_text);
            row.extend(cells);
            row.extend([
                text(spec.column_key(nth)),
                text(column.extra),
                text(privileges(viewer, spec, column)),
                text(""),
                text(""),
                Value::Null,
            ]);
            rows.push(row);
        }
    }
    rows
}

/// Rows of VIEWS: the views of `sys`.
pub(super) fn views(viewer: &Viewer, wanted: &Wanted) -> Vec<Vec<Value>> {
    let views = visible(viewer, wanted).filter(|spec| spec.kind == SpecKind::View);
    let row = |spec: &'static TableSpec| {
        let query = super::sys::query(spec).unwrap_or_default();
        let cells = [
            "def",
            spec.schema,
            spec.name,
            &query,
            "NONE",
            "NO",
            "mysql.sys@localhost",
            "INVOKER",
            "utf8mb4",
            "utf8mb4_0900_ai_ci",
        ];
        cells.map(text).to_vec()
    };
    views.map(row).collect()
}

/// Rows of STATISTICS.
pub(super) fn statistics(viewer: &Viewer, wanted: &Wanted) -> Vec<Vec<Value>> {
    visible(viewer, wanted).flat_map(index_rows).collect()
}

/// Rows of STATISTICS about one table.
pub(super) fn index_rows(spec: &'static TableSpec) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for key in &spec.keys {
        for (nth, &column) in key.columns.iter().enumerate() {
            let column = &spec.columns[column];
            rows.push(vec![
                text("def"),
                text(spec.schema),
                text(spec.name),
                Value::Int(i64::from(!key.unique)),
                text(spec.schema),
                text(key.name),
                Value::UInt(nth as u64 + 1),
                text(&*column.name),
                match spec.engine {
                    "PERFORMANCE_SCHEMA" => Value::Null,
                    _ => text("A"),
                },
                Value::Null,
                Value::Null,
                Value::Null,
                text(if column.ty.nullable { "YES" } else { "" }),
                text(match spec.engine {
                    "PERFORMANCE_SCHEMA" => "HASH",
                    _ => "BTREE",
                }),
                text(""),
                text(""),
                yes_no(true),
                Value::Null,
            ]);
        }
    }
    rows
}

/// Rows of TABLE_CONSTRAINTS.
pub(super) fn constraints(viewer: &Viewer, wanted: &Wanted) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for spec in visible(viewer, wanted) {
        for key in spec.keys.iter().filter(|k| k.unique) {
            let kind = match key.name {
                "PRIMARY" => "PRIMARY KEY",
                _ => "UNIQUE",
            };
            let cells = [
                "def",
                spec.schema,
                key.name,
                spec.schema,
                spec.name,
                kind,
                "YES",
            ];
            rows.push(cells.map(text).to_vec());
        }
    }
    rows
}

/// Rows of KEY_COLUMN_USAGE.
pub(super) fn key_columns(viewer: &Viewer, wanted: &Wanted) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for spec in visible(viewer, wanted) {
        for key in spec.keys.iter().filter(|k| k.unique) {
            for (nth, &column) in key.columns.iter().enumerate() {
                let name = &*spec.columns[column].name;
                let cells = [
                    "def",
                    spec.schema,
                    key.name,
                    "def",
                    spec.schema,
                    spec.name,
                    name,
                ];
                let mut row = cells.map(text).to_vec();
                row.push(Value::UInt(nth as u64 + 1));
                row.resize(12, Value::Null);
                rows.push(row);
            }
        }
    }
    rows
}

/// The text of SHOW CREATE TABLE. A table of INFORMATION_SCHEMA is shown the way MySQL 5.7 did: it is no view with a
/// text here.
pub(crate) fn create_table(spec: &TableSpec) -> String {
    if spec.kind == SpecKind::SystemView {
        let column = |c: &ColumnSpec| format!("  `{}` {}", c.name, c.type_text);
        let columns: Vec<String> = spec.columns.iter().map(column).collect();
        let columns = columns.join(",\n");
        let name = spec.name;
        return format!("CREATE TEMPORARY TABLE `{name}` (\n{columns}\n) DEFAULT CHARSET=utf8mb3");
    }
    let mut lines: Vec<String> = spec.columns.iter().map(|c| column_line(spec, c)).collect();
    for key in &spec.keys {
        let name = |c: &usize| format!("`{}`", spec.columns[*c].name);
        let columns = key.columns.iter().map(name).collect::<Vec<_>>().join(",");
        let word = match (key.name, key.unique) {
            ("PRIMARY", _) => "PRIMARY KEY".to_owned(),
            (name, true) => format!("UNIQUE KEY `{name}`"),
            (name, false) => format!("KEY `{name}`"),
        };
        lines.push(format!("  {word} ({columns})"));
    }
    let mut text = format!("CREATE TABLE `{}` (\n{}\n)", spec.name, lines.join(",\n"));
    if !spec.engine.is_empty() {
        text.push_str(&format!(" ENGINE={}", spec.engine));
    }
    if let Some(collation) = spec.collation {
        text.push_str(&format!(" DEFAULT CHARSET={}", collation.charset().name()));
        if collation != Collation::UTF8MB3_GENERAL_CI {
            text.push_str(&format!(" COLLATE={}", collation.name()));
        }
    }
    if !spec.comment.is_empty() {
        text.push_str(&format!(" COMMENT='{}'", spec.comment));
    }
    text
}

fn column_line(spec: &TableSpec, column: &ColumnSpec) -> String {
    let mut line = format!("  `{}` {}", column.name, column.type_text);
    let ty = &column.ty;
    let has_text = ty.is_string() || matches!(ty.kind, TypeKind::Enum(_) | TypeKind::Set(_));
    if has_text && ty.collation != Collation::BINARY {
        let charset = ty.collation.charset();
        let is_other = Some(ty.collation) != spec.collation;
        if is_other {
            line.push_str(&format!(" CHARACTER SET {}", charset.name()));
        }
        if is_other || ty.collation != Collation::default_of(charset) {
            line.push_str(&format!(" COLLATE {}", ty.collation.name()));
        }
    }
    if !ty.nullable {
        line.push_str(" NOT NULL");
    } else if ty.kind == TypeKind::Timestamp {
        line.push_str(" NULL");
    }
    match column.default {
        Some(now) if now.starts_with("CURRENT_TIMESTAMP") => {
            line.push_str(&format!(" DEFAULT {now}"));
        }
        Some(default) => line.push_str(&format!(" DEFAULT '{default}'")),
        None if ty.nullable && !matches!(ty.kind, TypeKind::Text | TypeKind::LongText) => {
            line.push_str(" DEFAULT NULL");
        }
        None => (),
    }
    if column.extra.contains("auto_increment") {
        line.push_str(" AUTO_INCREMENT");
    }
    if let Some((_, update)) = column.extra.split_once("on update ") {
        line.push_str(&format!(" ON UPDATE {update}"));
    }
    line
}
