//! What a client gets besides rows: OK, ERR, EOF, column definitions, prepare answers.
//!
//! Neighbours: `server` fills these from the `sql` crate's outcomes; `row` encodes the rows.
//! **Invariants**: every text of an error is at most [`MAX_MESSAGE`] bytes; an OK packet that
//! stands for EOF starts with 0xfe and is shorter than 16 MiB.

use std::borrow::Cow;

use esker_types::collation::{Charset, Collation};
use esker_types::{SqlError, SqlType, TypeKind};

use crate::codec::{put_lenenc, put_lenenc_bytes};
use crate::constants::{cap, colflag, coltype, status};

/// Longest error text sent (MySQL: MYSQL_ERRMSG_SIZE).
pub const MAX_MESSAGE: usize = 512;

/// Decimals sent for values that have no fixed number of them.
const DECIMALS_NOT_FIXED: u8 = 31;

/// Contents of an OK packet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OkPacket<'a> {
    /// Rows affected.
    pub affected_rows: u64,
    /// First generated AUTO_INCREMENT value, else 0.
    pub last_insert_id: u64,
    /// Status bits.
    pub status: u16,
    /// Warnings of the statement.
    pub warnings: u16,
    /// Human readable text.
    pub info: &'a str,
    /// Changes of the session's state, as [`put_variable`] and its like append them; only for clients with
    /// SESSION_TRACK.
    pub state: &'a [u8],
}

/// Types of entries about the session's state (`SESSION_TRACK_*`).
mod track {
    pub(super) const SYSTEM_VARIABLES: u8 = 0;
    pub(super) const SCHEMA: u8 = 1;
    pub(super) const STATE_CHANGE: u8 = 2;
    pub(super) const GTIDS: u8 = 3;
}

fn put_state(kind: u8, texts: &[&str], out: &mut Vec<u8>) {
    let mut data = Vec::new();
    for text in texts {
        put_lenenc_bytes(&mut data, text.as_bytes());
    }
    out.push(kind);
    put_lenenc_bytes(out, &data);
}

/// Appends that a system variable was set.
pub fn put_variable(name: &str, value: &str, out: &mut Vec<u8>) {
    put_state(track::SYSTEM_VARIABLES, &[name, value], out);
}

/// Appends which schema is the current one now; empty if none is.
pub fn put_schema(name: &str, out: &mut Vec<u8>) {
    put_state(track::SCHEMA, &[name], out);
}

/// Appends that something has changed.
pub fn put_state_changed(out: &mut Vec<u8>) {
    out.push(track::STATE_CHANGE);
    put_lenenc_bytes(out, b"1");
}

/// Appends GTIDs of transactions that were committed.
pub fn put_gtids(set: &str, out: &mut Vec<u8>) {
    // How they are written: as text.
    let mut data = vec![0];
    put_lenenc_bytes(&mut data, set.as_bytes());
    out.push(track::GTIDS);
    put_lenenc_bytes(out, &data);
}

impl OkPacket<'_> {
    /// Appends the payload. `eof`: ends a result set for clients with DEPRECATE_EOF.
    pub fn write(&self, eof: bool, out: &mut Vec<u8>) {
        out.push(if eof { 0xfe } else { 0 });
        put_lenenc(out, self.affected_rows);
        put_lenenc(out, self.last_insert_id);
        let state_changed = match self.state {
            [] => 0,
            _ => status::SESSION_STATE_CHANGED,
        };
        out.extend_from_slice(&(self.status | state_changed).to_le_bytes());
        out.extend_from_slice(&self.warnings.to_le_bytes());
        if !self.info.is_empty() || state_changed != 0 {
            // Documented as plain text for clients without SESSION_TRACK; MySQL sends a length to all,
            // and drivers read it.
            put_lenenc_bytes(out, self.info.as_bytes());
        }
        if state_changed != 0 {
            put_lenenc_bytes(out, self.state);
        }
    }
}

/// Appends an ERR payload with the message in `charset`. Only a client that has said that it speaks the protocol of 4.1
/// gets the SQLSTATE: one that is refused before it is greeted has not.
pub fn write_err(error: &SqlError, charset: Charset, capabilities: u32, out: &mut Vec<u8>) {
    out.push(0xff);
    out.extend_from_slice(&error.code.to_le_bytes());
    if capabilities & cap::PROTOCOL_41 != 0 {
        out.push(b'#');
        out.extend_from_slice(error.sqlstate().as_bytes());
    }
    let mut end = error.message.len().min(MAX_MESSAGE);
    while !error.message.is_char_boundary(end) {
        end -= 1;
    }
    put_message(&error.message[..end], charset, out);
}

/// Appends a message; characters that the character set lacks are written as their code, `\4E2D`.
fn put_message(message: &str, charset: Charset, out: &mut Vec<u8>) {
    if let Ok(encoded) = charset.encode(message.as_bytes()) {
        out.extend_from_slice(&encoded);
        return;
    }
    for c in message.chars() {
        let utf8 = c.encode_utf8(&mut [0; 4]).as_bytes().to_vec();
        match charset.encode(&utf8) {
            Ok(encoded) => out.extend_from_slice(&encoded),
            Err(_) => {
                let code = format!("\\{:04X}", u32::from(c));
                out.extend_from_slice(&charset.encode_lossy(code.as_bytes()));
            }
        }
    }
}

/// Appends an old-style EOF payload.
pub fn write_eof(warnings: u16, status: u16, out: &mut Vec<u8>) {
    out.push(0xfe);
    out.extend_from_slice(&warnings.to_le_bytes());
    out.extend_from_slice(&status.to_le_bytes());
}

/// Appends COM_STMT_PREPARE's first answer.
pub fn write_prepare_ok(id: u32, columns: u16, params: u16, warnings: u16, out: &mut Vec<u8>) {
    out.push(0);
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&columns.to_le_bytes());
    out.extend_from_slice(&params.to_le_bytes());
    out.push(0);
    out.extend_from_slice(&warnings.to_le_bytes());
}

/// A column of a result set.
#[derive(Debug, Clone, Copy)]
pub struct Column<'a> {
    /// Schema.
    pub schema: &'a str,
    /// Table alias.
    pub table: &'a str,
    /// Table.
    pub org_table: &'a str,
    /// Column alias.
    pub name: &'a str,
    /// Column.
    pub org_name: &'a str,
    /// Static type.
    pub ty: &'a SqlType,
    /// Key and default flags of [`colflag`]; those that follow from the type are added here.
    pub flags: u16,
}

impl Column<'_> {
    /// Appends the payload. `results` is the collation that texts and names are converted to; None: texts are sent in
    /// the character set of the column, and names in UTF-8.
    pub fn write(&self, results: Option<Collation>, out: &mut Vec<u8>) {
        put_lenenc_bytes(out, b"def");
        let names = results.map_or(Charset::Utf8mb4, Collation::charset);
        let encoded = |text| match names {
            Charset::Utf8mb4 => Cow::Borrowed(text),
            _ => names.encode_lossy(text),
        };
        for text in [
            self.schema,
            self.table,
            self.org_table,
            self.name,
            self.org_name,
        ] {
            put_lenenc_bytes(out, &encoded(text.as_bytes()));
        }
        out.push(0x0c);
        // JSON of a table is bytes, computed it is text.
        let charset = match self.ty.kind {
            TypeKind::Json if self.is_of_table() => Collation::BINARY,
            _ => wire_collation(self.ty, results),
        };
        out.extend_from_slice(&charset.0.to_le_bytes());
        let length = display_length(self.ty, charset, results.is_some());
        out.extend_from_slice(&length.to_le_bytes());
        out.push(self.type_code());
        out.extend_from_slice(&(self.flags | self.type_flags()).to_le_bytes());
        out.push(self.decimals());
        out.extend_from_slice(&[0, 0]);
    }

    /// Does the column stand in a table, or is it the value of an expression?
    fn is_of_table(&self) -> bool {
        !self.table.is_empty() || !self.org_name.is_empty()
    }

    /// The code of the type: a computed text has one of its own for its size.
    fn type_code(&self) -> u8 {
        match self.ty.kind {
            TypeKind::MediumText if !self.is_of_table() => coltype::MEDIUM_BLOB,
            TypeKind::LongText if !self.is_of_table() => coltype::LONG_BLOB,
            _ => type_code(self.ty),
        }
    }

    fn decimals(&self) -> u8 {
        let text = self.ty.is_string() || self.ty.kind == TypeKind::Json;
        if text && !self.ty.is_geometry() && !self.is_of_table() {
            DECIMALS_NOT_FIXED
        } else {
            self.ty.decimals
        }
    }

    fn type_flags(&self) -> u16 {
        let ty = self.ty;
        let mut flags = 0;
        if !ty.nullable {
            flags |= colflag::NOT_NULL;
        }
        let year = ty.kind == TypeKind::Year;
        if ty.unsigned || year || ty.kind == TypeKind::Bit {
            flags |= colflag::UNSIGNED;
        }
        if ty.zerofill || year && self.is_of_table() {
            flags |= colflag::ZEROFILL;
        }
        flags |= match &ty.kind {
            TypeKind::TinyText | TypeKind::Text | TypeKind::MediumText | TypeKind::LongText
                if self.is_of_table() =>
            {
                colflag::BLOB
            }
            TypeKind::Json | TypeKind::Geometry(_) if self.is_of_table() => colflag::BLOB,
            TypeKind::Enum(_) => colflag::ENUM,
            TypeKind::Set(_) => colflag::SET,
            _ => 0,
        };
        let binary = if is_text(ty) {
            ty.collation.name().ends_with("bin") || ty.collation == Collation::BINARY
        } else {
            // Of numbers, only those computed count as binary.
            !self.is_of_table() || !(ty.is_numeric() || year || ty.kind == TypeKind::Bit)
        };
        if binary {
            flags |= colflag::BINARY;
        }
        flags
    }
}

fn is_text(ty: &SqlType) -> bool {
    ty.is_string()
        || matches!(
            ty.kind,
            TypeKind::Enum(_) | TypeKind::Set(_) | TypeKind::Json
        )
}

/// The collation id sent for a column: the results' for text, else its own; binary for everything
/// else.
fn wire_collation(ty: &SqlType, results: Option<Collation>) -> Collation {
    if !is_text(ty) || ty.collation == Collation::BINARY {
        return Collation::BINARY;
    }
    results.unwrap_or(ty.collation)
}

fn display_length(ty: &SqlType, sent: Collation, converted: bool) -> u32 {
    match &ty.kind {
        TypeKind::Decimal => ty.length + u32::from(ty.decimals > 0) + u32::from(!ty.unsigned),
        TypeKind::Time | TypeKind::DateTime | TypeKind::Timestamp => {
            let base = if ty.kind == TypeKind::Time { 10 } else { 19 };
            base + if ty.decimals > 0 {
                1 + u32::from(ty.decimals.min(6))
            } else {
                0
            }
        }
        TypeKind::Enum(labels) => {
            let widest = labels.iter().map(|l| l.chars().count()).max().unwrap_or(0);
            widest as u32 * sent.charset().max_len()
        }
        TypeKind::Set(labels) => {
            let all: usize = labels.iter().map(|l| l.chars().count() + 1).sum();
            all.saturating_sub(1) as u32 * sent.charset().max_len()
        }
        TypeKind::TinyText | TypeKind::Text | TypeKind::MediumText | TypeKind::LongText => {
            // Lengths of TEXT types are bytes of storage, each of which a conversion may widen.
            let widest = if converted {
                sent.charset().max_len()
            } else {
                1
            };
            ty.length.saturating_mul(widest)
        }
        // Whole characters of four bytes, as many as fit.
        TypeKind::Json if sent != Collation::BINARY => ty.length / 4 * sent.charset().max_len(),
        _ if ty.is_string() => ty.length.saturating_mul(sent.charset().max_len()),
        _ => ty.length,
    }
}

/// The `MYSQL_TYPE_*` code a type has on the wire.
pub fn type_code(ty: &SqlType) -> u8 {
    match &ty.kind {
        TypeKind::Null => coltype::NULL,
        TypeKind::TinyInt => coltype::TINY,
        TypeKind::SmallInt => coltype::SHORT,
        TypeKind::MediumInt => coltype::INT24,
        TypeKind::Int => coltype::LONG,
        TypeKind::BigInt => coltype::LONGLONG,
        TypeKind::Float => coltype::FLOAT,
        TypeKind::Double => coltype::DOUBLE,
        TypeKind::Decimal => coltype::NEWDECIMAL,
        TypeKind::Date => coltype::DATE,
        TypeKind::Time => coltype::TIME,
        TypeKind::DateTime => coltype::DATETIME,
        TypeKind::Timestamp => coltype::TIMESTAMP,
        TypeKind::Year => coltype::YEAR,
        TypeKind::Char | TypeKind::Enum(_) | TypeKind::Set(_) => coltype::STRING,
        TypeKind::VarChar => coltype::VAR_STRING,
        TypeKind::TinyText | TypeKind::Text | TypeKind::MediumText | TypeKind::LongText => {
            coltype::BLOB
        }
        TypeKind::Bit => coltype::BIT,
        TypeKind::Json => coltype::JSON,
        TypeKind::Geometry(_) => coltype::GEOMETRY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_ok_has_its_length() {
        let ok = OkPacket {
            affected_rows: 2,
            info: "two",
            ..OkPacket::default()
        };
        let mut out = Vec::new();
        ok.write(false, &mut out);
        assert_eq!(out, b"\x00\x02\x00\x00\x00\x00\x00\x03two");
    }

    #[test]
    fn messages_are_in_the_character_set_of_results() {
        let error = SqlError::new(1064, "42000", "near 'Мя中'");
        let message = |charset| {
            let mut out = Vec::new();
            write_err(&error, charset, cap::PROTOCOL_41, &mut out);
            assert_eq!(&out[..9], b"\xff\x28\x04#42000");
            out.split_off(9)
        };
        assert_eq!(message(Charset::Utf8mb4), "near 'Мя中'".as_bytes());
        assert_eq!(message(Charset::Koi8r), b"near '\xed\xd1\\4E2D'");
        assert_eq!(message(Charset::Latin1), b"near '\\041C\\044F\\4E2D'");
    }

    /// As MySQL 9.7 sends it.
    #[test]
    fn changes_of_the_session_s_state_follow_the_text() {
        let mut state = Vec::new();
        put_variable("autocommit", "OFF", &mut state);
        put_schema("xat", &mut state);
        put_state_changed(&mut state);
        let mut ok = OkPacket {
            state: &state,
            ..OkPacket::default()
        };
        let told = b"\x00\x0f\x0aautocommit\x03OFF\x01\x04\x03xat\x02\x011";
        let mut out = Vec::new();
        ok.write(false, &mut out);
        let begin = [0, 0, 0, 0, 0x40, 0, 0, 0, told.len() as u8];
        assert_eq!(out, [&begin[..], told].concat());
        ok.info = "text";
        out.clear();
        ok.write(true, &mut out);
        let begin = b"\xfe\x00\x00\x00\x40\x00\x00\x04text";
        assert_eq!(out, [&begin[..], &[told.len() as u8], told].concat());
    }

    fn flags(table: &str, ty: &SqlType) -> u16 {
        let column = Column {
            schema: "d",
            table,
            org_table: table,
            name: "c",
            org_name: table,
            ty,
            flags: 0,
        };
        column.type_flags()
    }

    #[test]
    fn numbers_are_binary_only_when_computed() {
        use colflag::{BINARY, UNSIGNED, ZEROFILL};
        let number = SqlType::bigint(true);
        assert_eq!(flags("t", &number), UNSIGNED);
        assert_eq!(flags("", &number), UNSIGNED | BINARY);
        let year = SqlType::new(TypeKind::Year);
        assert_eq!(flags("t", &year), UNSIGNED | ZEROFILL);
        assert_eq!(flags("", &year), UNSIGNED | BINARY);
        for table in ["", "t"] {
            assert_eq!(flags(table, &SqlType::new(TypeKind::DateTime)), BINARY);
            let text = SqlType::varchar(9, Collation::UTF8MB4_0900_AI_CI);
            assert_eq!(flags(table, &text), 0);
        }
    }
}
