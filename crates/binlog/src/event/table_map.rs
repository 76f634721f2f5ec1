//! TABLE_MAP: which table the row events behind it change, and how its columns lie in them.
//!
//! ```text
//! table id 6 | flags u16 | database | table | number of columns | type codes | metadata | NULL bits | optional metadata
//! ```
//! Optional metadata are fields of `type u8 | length | bytes`; with `binlog_row_metadata = MINIMAL` only signs,
//! character sets and types of geometries. Neighbours: `image` has the shape of a table; `rows` needs a parsed map to
//! read images. **Invariants**: fields stand in the order in which MySQL writes them.

use super::rows::Bitmap;
use crate::bytes::{Put, Reader};
use crate::image::{Form, Shape, ShapeColumn};
use crate::{Result, damaged};
use esker_types::TypeKind;

/// Most columns a map may name.
const MAX_COLUMNS: usize = 4096;
/// What MySQL sets in every map.
const FLAGS: u16 = 1;
/// The table's rows may depend on those of other databases, through foreign keys.
const RELATED: u16 = 2;
/// The first column is a generated invisible primary key.
const GENERATED_KEY: u16 = 4;

const SIGNEDNESS: u8 = 1;
const DEFAULT_CHARSET: u8 = 2;
const COLUMN_CHARSET: u8 = 3;
const COLUMN_NAME: u8 = 4;
const SET_LABELS: u8 = 5;
const ENUM_LABELS: u8 = 6;
const GEOMETRY_TYPES: u8 = 7;
const SIMPLE_PRIMARY_KEY: u8 = 8;
const PRIMARY_KEY_WITH_PREFIX: u8 = 9;
const LABELS_DEFAULT_CHARSET: u8 = 10;
const LABELS_COLUMN_CHARSET: u8 = 11;
const VISIBILITY: u8 = 12;

/// How much a map says (`binlog_row_metadata`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Detail {
    /// What a replica needs.
    Minimal,
    /// Also names, labels, the primary key and visibility.
    Full,
}

/// Appends the body of the map of a table.
pub fn write(shape: &Shape, detail: Detail, out: &mut Vec<u8>) {
    out.uint(shape.table_id, 6);
    let mut flags = FLAGS;
    for (flag, is_set) in [
        (RELATED, shape.is_related),
        (GENERATED_KEY, shape.has_generated_key),
    ] {
        flags |= if is_set { flag } else { 0 };
    }
    out.u16(flags);
    for name in [&shape.schema, &shape.table] {
        out.short_bytes(name.as_bytes());
        out.u8(0);
    }
    let columns = &shape.columns;
    out.packed(columns.len() as u64);
    columns.iter().for_each(|column| out.u8(column.form.code()));
    let mut metadata = Vec::with_capacity(columns.len() * 2);
    for column in columns {
        column.form.metadata(&mut metadata);
    }
    out.packed_bytes(&metadata);
    let nullable = columns.iter().map(|column| column.ty.nullable);
    out.bytes(Bitmap::from_bits(nullable).bytes());
    write_signs(columns, out);
    let in_text = |c: &&ShapeColumn| c.form.is_character();
    write_collations([DEFAULT_CHARSET, COLUMN_CHARSET], columns, in_text, out);
    field(GEOMETRY_TYPES, out, |out| write_shapes(columns, out));
    if detail == Detail::Full {
        write_full(shape, out);
    }
}

fn write_full(shape: &Shape, out: &mut Vec<u8>) {
    let columns = &shape.columns;
    field(COLUMN_NAME, out, |out| {
        columns
            .iter()
            .for_each(|c| out.packed_bytes(c.name.as_bytes()));
    });
    let has_labels = |c: &&ShapeColumn| c.form.has_labels();
    let types = [LABELS_DEFAULT_CHARSET, LABELS_COLUMN_CHARSET];
    write_collations(types, columns, has_labels, out);
    let is_set = |c: &ShapeColumn| matches!(c.form, Form::Set { .. });
    let is_enum = |c: &ShapeColumn| matches!(c.form, Form::Enum { .. });
    write_labels(SET_LABELS, columns, is_set, out);
    write_labels(ENUM_LABELS, columns, is_enum, out);
    write_primary_key(&shape.primary_key, out);
    field(VISIBILITY, out, |out| {
        put_bits(columns.iter().map(|c| !c.invisible), out)
    });
}

/// Appends an optional field, unless it is empty.
fn field(kind: u8, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = Vec::new();
    write(&mut bytes);
    if !bytes.is_empty() {
        out.u8(kind);
        out.packed_bytes(&bytes);
    }
}

/// Bits as the optional metadata has them: the first is the highest of its byte.
fn put_bits(bits: impl Iterator<Item = bool>, out: &mut Vec<u8>) {
    for (at, bit) in bits.enumerate() {
        if at.is_multiple_of(8) {
            out.push(0);
        }
        if bit && let Some(last) = out.last_mut() {
            *last |= 0x80 >> (at % 8);
        }
    }
}

/// The shapes of geometry columns.
fn write_shapes(columns: &[ShapeColumn], out: &mut Vec<u8>) {
    for column in columns {
        if let TypeKind::Geometry(geometry) = &column.ty.kind {
            out.packed(geometry.shape.code().into());
        }
    }
}

fn write_signs(columns: &[ShapeColumn], out: &mut Vec<u8>) {
    let numeric = columns.iter().filter(|c| c.form.is_numeric());
    let unsigned = numeric.map(|c| c.ty.unsigned || c.form == Form::Year);
    field(SIGNEDNESS, out, |out| put_bits(unsigned, out));
}

/// Collations: the one that more than half of the columns have and the others' exceptions from it, or each column's.
fn write_collations(
    [default, each]: [u8; 2],
    columns: &[ShapeColumn],
    wanted: impl Fn(&&ShapeColumn) -> bool,
    out: &mut Vec<u8>,
) {
    let ids = columns.iter().filter(wanted).map(|c| c.ty.collation.0);
    let ids: Vec<u16> = ids.collect();
    let count = |id: u16| ids.iter().filter(|other| **other == id).count();
    match ids.iter().copied().find(|id| count(*id) * 2 > ids.len()) {
        Some(most) => field(default, out, |out| {
            out.packed(most.into());
            for (at, id) in ids.iter().enumerate().filter(|(_, id)| **id != most) {
                out.packed(at as u64);
                out.packed((*id).into());
            }
        }),
        None => field(each, out, |out| {
            ids.iter().for_each(|id| out.packed((*id).into()));
        }),
    }
}

fn write_labels(
    kind: u8,
    columns: &[ShapeColumn],
    wanted: impl Fn(&ShapeColumn) -> bool,
    out: &mut Vec<u8>,
) {
    field(kind, out, |out| {
        for column in columns.iter().filter(|c| wanted(c)) {
            let (TypeKind::Enum(labels) | TypeKind::Set(labels)) = &column.ty.kind else {
                continue;
            };
            out.packed(labels.len() as u64);
            for label in labels.iter() {
                out.packed_bytes(&column.charset.encode_lossy(label.as_bytes()));
            }
        }
    });
}

fn write_primary_key(parts: &[(usize, u32)], out: &mut Vec<u8>) {
    let has_prefix = parts.iter().any(|(_, prefix)| *prefix > 0);
    let kind = match has_prefix {
        true => PRIMARY_KEY_WITH_PREFIX,
        false => SIMPLE_PRIMARY_KEY,
    };
    field(kind, out, |out| {
        for (column, prefix) in parts {
            out.packed(*column as u64);
            if has_prefix {
                out.packed((*prefix).into());
            }
        }
    });
}

/// Does a body say that the table is related to others?
pub fn is_related(body: &[u8]) -> Result<bool> {
    let mut r = Reader::new(body);
    r.uint(6)?;
    Ok(r.u16()? & RELATED != 0)
}

/// A map that was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableMap {
    /// By which row events name it.
    pub table_id: u64,
    /// Database.
    pub schema: String,
    /// Table.
    pub table: String,
    /// Columns.
    pub columns: Vec<MapColumn>,
    /// The first column is a generated invisible primary key.
    pub has_generated_key: bool,
    /// Columns of the primary key and their prefixes; empty if the map does not say.
    pub primary_key: Vec<(usize, u32)>,
}

/// A column of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapColumn {
    /// How values lie in images.
    pub form: Form,
    /// May be NULL.
    pub nullable: bool,
    /// Collation of a text or of labels, if the map says.
    pub collation: Option<u16>,
    /// Name, if the map says.
    pub name: Option<String>,
    /// Labels of an ENUM or SET, in their character set.
    pub labels: Vec<Vec<u8>>,
    /// SELECT * does not show it.
    pub invisible: bool,
}

impl TableMap {
    /// Reads the body.
    pub fn parse(body: &[u8]) -> Result<Self> {
        let mut r = Reader::new(body);
        let table_id = r.uint(6)?;
        let flags = r.u16()?;
        let mut name = || -> Result<String> {
            let name = r.short_bytes()?;
            r.u8()?;
            Ok(String::from_utf8_lossy(name).into_owned())
        };
        let (schema, table) = (name()?, name()?);
        let count = r.packed_len()?;
        if count > MAX_COLUMNS {
            return Err(damaged("table map: too many columns"));
        }
        let codes = r.take(count)?;
        let mut metadata = Reader::new(r.packed_bytes()?);
        let nullable = Bitmap::parse(&mut r, count)?;
        let columns = codes.iter().enumerate().map(|(at, code)| {
            Ok(MapColumn {
                form: Form::parse(*code, &mut metadata)?,
                nullable: nullable.has(at),
                collation: None,
                name: None,
                labels: Vec::new(),
                invisible: false,
            })
        });
        let mut map = Self {
            table_id,
            schema,
            table,
            columns: columns.collect::<Result<_>>()?,
            has_generated_key: flags & GENERATED_KEY != 0,
            primary_key: Vec::new(),
        };
        while !r.is_empty() {
            let kind = r.u8()?;
            map.parse_field(kind, Reader::new(r.packed_bytes()?))?;
        }
        Ok(map)
    }

    fn parse_field(&mut self, kind: u8, mut r: Reader<'_>) -> Result<()> {
        let is_text = |c: &MapColumn| c.form.is_character();
        let has_labels = |c: &MapColumn| c.form.has_labels();
        let is_set = |c: &MapColumn| matches!(c.form, Form::Set { .. });
        let is_enum = |c: &MapColumn| matches!(c.form, Form::Enum { .. });
        match kind {
            SIGNEDNESS => self.parse_signs(r.rest()),
            DEFAULT_CHARSET => self.parse_default_collation(r, is_text),
            LABELS_DEFAULT_CHARSET => self.parse_default_collation(r, has_labels),
            COLUMN_CHARSET => self.parse_collations(r, is_text),
            LABELS_COLUMN_CHARSET => self.parse_collations(r, has_labels),
            SET_LABELS => self.parse_labels(r, is_set),
            ENUM_LABELS => self.parse_labels(r, is_enum),
            COLUMN_NAME => {
                for column in &mut self.columns {
                    let name = String::from_utf8_lossy(r.packed_bytes()?);
                    column.name = Some(name.into_owned());
                }
                Ok(())
            }
            SIMPLE_PRIMARY_KEY | PRIMARY_KEY_WITH_PREFIX => {
                while !r.is_empty() {
                    let column = r.packed_len()?;
                    let prefix = match kind {
                        PRIMARY_KEY_WITH_PREFIX => r.packed()? as u32,
                        _ => 0,
                    };
                    if column >= self.columns.len() {
                        return Err(damaged("table map: primary key"));
                    }
                    self.primary_key.push((column, prefix));
                }
                Ok(())
            }
            VISIBILITY => {
                let bits = r.rest();
                for (at, column) in self.columns.iter_mut().enumerate() {
                    column.invisible = !high_bit(bits, at)?;
                }
                Ok(())
            }
            // Types of geometries and vectors, and whatever later versions say.
            _ => Ok(()),
        }
    }

    fn parse_signs(&mut self, bits: &[u8]) -> Result<()> {
        let numeric = self.columns.iter_mut().filter(|c| c.form.is_numeric());
        for (at, column) in numeric.enumerate() {
            if let Form::Int { unsigned, .. } = &mut column.form {
                *unsigned = high_bit(bits, at)?;
            }
        }
        Ok(())
    }

    fn parse_default_collation(
        &mut self,
        mut r: Reader<'_>,
        wanted: impl Fn(&MapColumn) -> bool,
    ) -> Result<()> {
        let collation =
            |r: &mut Reader<'_>| -> Result<Option<u16>> { Ok(Some(r.packed()? as u16)) };
        let most = collation(&mut r)?;
        let columns = self.columns.iter_mut().filter(|c| wanted(c));
        let mut columns: Vec<_> = columns.collect();
        columns.iter_mut().for_each(|c| c.collation = most);
        while !r.is_empty() {
            let at = r.packed_len()?;
            let column = columns
                .get_mut(at)
                .ok_or_else(|| damaged("table map: collation"))?;
            column.collation = collation(&mut r)?;
        }
        Ok(())
    }

    fn parse_collations(
        &mut self,
        mut r: Reader<'_>,
        wanted: impl Fn(&MapColumn) -> bool,
    ) -> Result<()> {
        for column in self.columns.iter_mut().filter(|c| wanted(c)) {
            column.collation = Some(r.packed()? as u16);
        }
        Ok(())
    }

    fn parse_labels(
        &mut self,
        mut r: Reader<'_>,
        wanted: impl Fn(&MapColumn) -> bool,
    ) -> Result<()> {
        for column in self.columns.iter_mut().filter(|c| wanted(c)) {
            for _ in 0..r.packed_len()? {
                column.labels.push(r.packed_bytes()?.to_vec());
            }
        }
        Ok(())
    }
}

fn high_bit(bits: &[u8], at: usize) -> Result<bool> {
    let byte = bits
        .get(at / 8)
        .ok_or_else(|| damaged("table map: too few bits"))?;
    Ok(byte & (0x80 >> (at % 8)) != 0)
}
