//! Error 1062.
//!
//! Neighbours: `insert`, `update` and the index fill of `ddl`.
//! **Invariant**: the text names the key as `table.index` and its values joined by `-`, as MySQL does.

use std::fmt::Write;

use esker_sql_catalog::catalog::{IndexDef, TableDef};
use esker_sql_catalog::codec::RowReader;
use esker_types::cast::write_text;
use esker_types::collation::char_offset;
use esker_types::json::{JsonRef, elements_text};
use esker_types::{SqlError, ValueRef};

/// 1062 for the row that could not be stored; `row` reads in the session's zone.
pub(crate) fn duplicate_entry(table: &TableDef, index: &IndexDef, row: &RowReader<'_>) -> SqlError {
    let mut entry = String::new();
    for (at, part) in index.codec.parts().iter().enumerate() {
        if at > 0 {
            entry.push('-');
        }
        match row.field(part.col) {
            ValueRef::Json(document) if index.is_multi_valued() => {
                entry.push_str(&elements_text(JsonRef::new(document)));
            }
            value => push_value(&mut entry, value, part),
        }
    }
    duplicate(format!(
        "Duplicate entry '{entry}' for key '{}.{}'",
        table.name, index.name
    ))
}

/// The same, where rows of ALTER TABLE were given numbers.
pub(crate) fn duplicate_number(duplicate_entry: &SqlError) -> SqlError {
    let entry = duplicate_entry.message.replacen('D', "d", 1);
    duplicate(format!(
        "ALTER TABLE causes auto_increment resequencing, resulting in {entry}"
    ))
}

fn duplicate(text: String) -> SqlError {
    SqlError::new(1062, "23000", text)
}

fn push_value(out: &mut String, value: ValueRef<'_>, part: &esker_sql_catalog::codec::KeyPart) {
    let value = match (value, part.prefix_len) {
        (ValueRef::Str(s), Some(len)) if part.ty.collation.is_binary() => {
            ValueRef::Str(&s[..s.len().min(len as usize)])
        }
        (ValueRef::Str(s), Some(len)) => ValueRef::Str(&s[..char_offset(s, len as usize)]),
        (value, _) => value,
    };
    match value {
        ValueRef::Null => out.push_str("NULL"),
        ValueRef::Str(s) if part.ty.collation.is_binary() => push_bytes(out, s),
        value => {
            let mut text = Vec::new();
            write_text(value, &part.ty, &mut text);
            out.push_str(&String::from_utf8_lossy(&text));
        }
    }
}

/// Bytes that are not ASCII text are shown as `\xNN`.
fn push_bytes(out: &mut String, bytes: &[u8]) {
    for &b in bytes {
        if (0x20..0x7F).contains(&b) {
            out.push(char::from(b));
        } else {
            let _ = write!(out, "\\x{b:02X}");
        }
    }
}
