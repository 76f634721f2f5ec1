//! Rows about columns: COLUMNS, the geometry columns, and the cells that describe a type.
//!
//! Neighbours: `objects` asks for the columns of each table that the account may see, `view_columns` for those that
//! views stand for, `routines` for the types of parameters.
//! **Invariant**: a column is described as SHOW COLUMNS describes it: both use what is here.

use esker_sql_catalog::catalog::{ColumnDef, DefaultDef, IndexDef, TableDef, ViewColumn, ViewDef};
use esker_types::collation::Charset;
use esker_types::geometry::srs;
use esker_types::hex::upper_hex;
use esker_types::sqltype::NOT_FIXED_DECIMALS;
use esker_types::{DateTime, SqlType, TypeKind, Value};

use crate::printer::dictionary_text;

use super::view_columns::ShownColumn;
use super::{Viewer, optional, text, yes_no};

/// `PRI`, `UNI`, `MUL` or nothing. Of several indexes that begin with the column the first one counts.
pub(crate) fn column_key(table: &TableDef, column: usize) -> &'static str {
    let leads = |i: &IndexDef| i.parts.first().is_some_and(|p| p.col == column);
    let visible = table.visible_indexes();
    let primary = table.shown_primary();
    if primary.is_some_and(|i| i.parts.iter().any(|p| p.col == column)) {
        return "PRI";
    }
    match visible.iter().find(|i| leads(i)) {
        Some(index) if index.unique && index.parts.len() == 1 => "UNI",
        Some(_) => "MUL",
        None => "",
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
pub(super) fn generation_text(column: &ColumnDef) -> String {
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
                // Bytes up to the first zero, as MySQL shows them.
                (_, Value::Str(bytes)) if column.ty.collation.is_binary() && !bytes.is_empty() => {
                    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
                    return text(format!("0x{}", upper_hex(&bytes[..end])));
                }
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

pub(super) fn columns(viewer: &Viewer, table: &TableDef, out: &mut Vec<Vec<Value>>) {
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
pub(super) fn geometry_columns(viewer: &Viewer, table: &TableDef, out: &mut Vec<Vec<Value>>) {
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
pub(super) fn reference_systems() -> Vec<Vec<Value>> {
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

pub(super) fn view_column(
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
    row.extend(type_cells(&shown.ty));
    row.extend(["", shown.extra.as_str(), privileges, &*shown.comment, ""].map(text));
    row.push(srs_id(&shown.ty));
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
