//! Row events, version 2: rows that were inserted, updated or deleted in one table by one statement.
//!
//! ```text
//! table id 6 | flags u16 | 2 u16 | number of columns | columns that images have (two sets for updates)
//! each row: NULL bits of the columns in the image | their values | for updates: the same again, after the change
//! type 39, after the change: options (1: edits) | with edits a bit for each JSON column of the table | then as above,
//!   where a column whose bit is set has edits instead of its document: length u32 | edits
//! edit: 0 replace, 1 insert, 2 remove | length, path | but for remove: length, document
//! ```
//! Neighbours: `image` writes and reads values; `table_map` must have been read before. **Invariants**: an event is
//! built by [`begin`], one or two [`write_image`] for each row, and [`end_statement`] on the statement's last event.

use esker_types::json::{self, JsonRef, Step};
use esker_types::{Value, ValueRef};

use super::EventType;
use super::table_map::TableMap;
use crate::bytes::{Put, Reader};
use crate::image::{Form, NotInImage, Shape};
use crate::{Result, damaged};

/// The statement's last event.
const STATEMENT_END: u16 = 1;
/// `foreign_key_checks = 0`.
const NO_FOREIGN_KEY_CHECKS: u16 = 2;
/// `unique_checks = 0`.
const RELAXED_UNIQUE_CHECKS: u16 = 4;
/// The session's SQL layer has done what foreign keys demand (MySQL from 9.6 on).
const SQL_FOREIGN_KEYS: u16 = 16;
/// Where the flags stand in the body.
const FLAGS_AT: usize = 6;
/// Length of nothing, itself included.
const NO_EXTRA: u16 = 2;
/// In the options of type 39: documents may have edits.
const HAS_EDITS: u64 = 1;
/// Kinds of edits.
const REPLACE: u8 = 0;
const INSERT: u8 = 1;
const REMOVE: u8 = 2;

/// A set of columns, lowest bit first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bitmap {
    bits: usize,
    bytes: Vec<u8>,
}

impl Bitmap {
    /// All of `count` columns. The bits that no column has are set, too, as MySQL writes them.
    pub fn all(count: usize) -> Self {
        Self {
            bits: count,
            bytes: vec![0xff; count.div_ceil(8)],
        }
    }

    /// One bit for each column.
    pub fn from_bits(bits: impl Iterator<Item = bool>) -> Self {
        let mut map = Self {
            bits: 0,
            bytes: Vec::new(),
        };
        for bit in bits {
            if map.bits.is_multiple_of(8) {
                map.bytes.push(0);
            }
            map.bytes[map.bits / 8] |= u8::from(bit) << (map.bits % 8);
            map.bits += 1;
        }
        map
    }

    pub(crate) fn parse(r: &mut Reader<'_>, bits: usize) -> Result<Self> {
        let bytes = r.take(bits.div_ceil(8))?.to_vec();
        Ok(Self { bits, bytes })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Is this column in it?
    pub fn has(&self, at: usize) -> bool {
        debug_assert!(at < self.bits);
        self.bytes[at / 8] >> (at % 8) & 1 == 1
    }

    /// The columns in it.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        (0..self.bits).filter(|at| self.has(*at))
    }

    /// How many are in it.
    pub fn count(&self) -> usize {
        self.iter().count()
    }
}

/// What row events say of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowFlags {
    /// `foreign_key_checks = 0`.
    pub no_foreign_key_checks: bool,
    /// `unique_checks = 0`.
    pub relaxed_unique_checks: bool,
    /// Foreign keys were checked, and what they change in other tables is in events of its own.
    pub sql_foreign_keys: bool,
}

/// Begins the body of an event; `after` is there for updates only.
pub fn begin(
    table_id: u64,
    flags: RowFlags,
    before: &Bitmap,
    after: Option<&Bitmap>,
    out: &mut Vec<u8>,
) {
    out.uint(table_id, 6);
    let mut bits = 0;
    if flags.no_foreign_key_checks {
        bits |= NO_FOREIGN_KEY_CHECKS;
    }
    if flags.relaxed_unique_checks {
        bits |= RELAXED_UNIQUE_CHECKS;
    }
    if flags.sql_foreign_keys {
        bits |= SQL_FOREIGN_KEYS;
    }
    out.u16(bits);
    out.u16(NO_EXTRA);
    out.packed(before.bits as u64);
    out.bytes(before.bytes());
    if let Some(after) = after {
        debug_assert_eq!(before.bits, after.bits);
        out.bytes(after.bytes());
    }
}

/// Marks the event in `body` as the statement's last.
pub fn end_statement(body: &mut [u8]) {
    body[FLAGS_AT] |= STATEMENT_END as u8;
}

/// Appends one image with the values of `columns`; TIMESTAMPs in UTC.
pub fn write_image<'v>(
    shape: &Shape,
    columns: &Bitmap,
    value: impl Fn(usize) -> ValueRef<'v>,
    out: &mut Vec<u8>,
) -> std::result::Result<(), NotInImage> {
    debug_assert_eq!(columns.bits, shape.columns.len());
    let nulls_at = out.len();
    out.resize(nulls_at + columns.count().div_ceil(8), 0);
    for (nth, col) in columns.iter().enumerate() {
        match value(col) {
            ValueRef::Null => out[nulls_at + nth / 8] |= 1 << (nth % 8),
            value => shape.columns[col].write(value, out)?,
        }
    }
    Ok(())
}

/// The edits that make `new` of `old`, as they lie in an image, if they are shorter than the document.
fn edits_between(old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let mut edits = Vec::new();
    let is_whole = json::differ(JsonRef::new(old), JsonRef::new(new), &mut |path, step| {
        let (kind, value) = match step {
            Step::Replace(value) => (REPLACE, Some(value)),
            Step::Insert(value) => (INSERT, Some(value)),
            Step::Remove => (REMOVE, None),
        };
        edits.u8(kind);
        edits.packed_bytes(path);
        if let Some(value) = value {
            edits.packed_bytes(&value.to_document());
        }
        edits.len() < new.len()
    });
    is_whole.then_some(edits)
}

/// Appends the second image of an update of type 39: documents of which less has changed than is left have edits, if
/// their column is `editable`.
pub fn write_edited_image<'v>(
    shape: &Shape,
    (columns, editable): (&Bitmap, &Bitmap),
    (old, new): (
        impl Fn(usize) -> ValueRef<'v>,
        impl Fn(usize) -> ValueRef<'v>,
    ),
    out: &mut Vec<u8>,
) -> std::result::Result<(), NotInImage> {
    let documents = (0..columns.bits).filter(|col| shape.columns[*col].form == Form::Json);
    let edits: Vec<(usize, Option<Vec<u8>>)> = documents
        .map(|col| match (old(col), new(col)) {
            (ValueRef::Json(old), ValueRef::Json(new)) if columns.has(col) && editable.has(col) => {
                (col, edits_between(old, new))
            }
            _ => (col, None),
        })
        .collect();
    if edits.iter().all(|(_, edits)| edits.is_none()) {
        out.packed(0);
        return write_image(shape, columns, new, out);
    }
    out.packed(HAS_EDITS);
    let bits = edits.iter().map(|(_, edits)| edits.is_some());
    out.bytes(Bitmap::from_bits(bits).bytes());
    let nulls_at = out.len();
    out.resize(nulls_at + columns.count().div_ceil(8), 0);
    for (nth, col) in columns.iter().enumerate() {
        let edited = edits.iter().find(|(at, _)| *at == col);
        match (edited.and_then(|(_, edits)| edits.as_ref()), new(col)) {
            (Some(edits), _) => {
                out.u32(edits.len() as u32);
                out.bytes(edits);
            }
            (None, ValueRef::Null) => out[nulls_at + nth / 8] |= 1 << (nth % 8),
            (None, value) => shape.columns[col].write(value, out)?,
        }
    }
    Ok(())
}

/// One row of an event, by column; `None` where the image has no value of the column.
pub type Image = Vec<Option<Value>>;

/// What is done at a path of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonEditKind {
    /// What is there becomes the value.
    Replace,
    /// The value is added.
    Insert,
    /// What is there goes.
    Remove,
}

/// A change of a part of a JSON document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonEdit {
    /// What is done.
    pub kind: JsonEditKind,
    /// Where.
    pub path: Vec<u8>,
    /// A document; empty if the part goes.
    pub value: Vec<u8>,
}

/// The edits of a column, which has no value in the image.
pub type ColumnEdits = (usize, Vec<JsonEdit>);

/// A row that was changed.
#[derive(Debug, Clone)]
pub enum RowChange {
    /// It is new.
    Insert(Image),
    /// What it was, and what it is; and edits of columns that the second image leaves out.
    Update(Image, Image, Vec<ColumnEdits>),
    /// It is gone.
    Delete(Image),
}

/// A row event that was read, but for its rows.
#[derive(Debug, Clone)]
pub struct Rows<'a> {
    /// The table.
    pub table_id: u64,
    /// The statement's last event.
    pub ends_statement: bool,
    /// What it says of the session that made the changes.
    pub flags: RowFlags,
    kind: EventType,
    before: Bitmap,
    after: Option<Bitmap>,
    rows: &'a [u8],
}

impl<'a> Rows<'a> {
    /// Its type, that of version 2.
    pub fn kind(&self) -> EventType {
        self.kind
    }

    /// Reads the body of types 30, 31, 32 and 39.
    pub fn parse(kind: EventType, body: &'a [u8]) -> Result<Self> {
        Self::parse_version(kind, false, body)
    }

    /// The same for types 23, 24 and 25 if `is_v1`: they have no extra data. `kind` is that of version 2.
    pub fn parse_version(kind: EventType, is_v1: bool, body: &'a [u8]) -> Result<Self> {
        let mut r = Reader::new(body);
        let table_id = r.uint(6)?;
        let flags = r.u16()?;
        if !is_v1 {
            let extra = usize::from(r.u16()?).checked_sub(NO_EXTRA.into());
            r.take(extra.ok_or_else(|| damaged("row event: extra data"))?)?;
        }
        let columns = r.packed_len()?;
        let before = Bitmap::parse(&mut r, columns)?;
        let after = match kind {
            EventType::UpdateRows | EventType::PartialUpdateRows => {
                Some(Bitmap::parse(&mut r, columns)?)
            }
            _ => None,
        };
        Ok(Self {
            table_id,
            ends_statement: flags & STATEMENT_END != 0,
            flags: RowFlags {
                no_foreign_key_checks: flags & NO_FOREIGN_KEY_CHECKS != 0,
                relaxed_unique_checks: flags & RELAXED_UNIQUE_CHECKS != 0,
                sql_foreign_keys: flags & SQL_FOREIGN_KEYS != 0,
            },
            kind,
            before,
            after,
            rows: r.rest(),
        })
    }

    /// All rows; `map` is the map of this table.
    pub fn rows(&self, map: &TableMap) -> Result<Vec<RowChange>> {
        if map.table_id != self.table_id || map.columns.len() != self.before.bits {
            return Err(damaged("row event: not of this table map"));
        }
        let mut r = Reader::new(self.rows);
        let mut rows = Vec::new();
        let none = vec![false; map.columns.len()];
        while !r.is_empty() {
            let left = r.len();
            let (first, _) = read_image(&mut r, map, &self.before, &none)?;
            rows.push(match (self.kind, &self.after) {
                (EventType::WriteRows, _) => RowChange::Insert(first),
                (_, Some(after)) => {
                    let edited = self.edited(&mut r, map)?;
                    let (second, edits) = read_image(&mut r, map, after, &edited)?;
                    RowChange::Update(first, second, edits)
                }
                (_, None) => RowChange::Delete(first),
            });
            if r.len() == left {
                return Err(damaged("row event: rows without bytes"));
            }
        }
        Ok(rows)
    }
}

/// A field of an image as its bytes: the image has none, NULL, or the value.
pub type RawField<'a> = Option<Option<&'a [u8]>>;

impl<'a> Rows<'a> {
    /// Which columns of the image that follows, the second one of an update, have edits.
    fn edited(&self, r: &mut Reader<'_>, map: &TableMap) -> Result<Vec<bool>> {
        let mut edited = vec![false; map.columns.len()];
        if self.kind != EventType::PartialUpdateRows || r.packed()? & HAS_EDITS == 0 {
            return Ok(edited);
        }
        let documents = map.columns.iter().enumerate();
        let documents = documents.filter(|(_, column)| column.form == Form::Json);
        let documents: Vec<usize> = documents.map(|(at, _)| at).collect();
        // Documents that the image leaves out have a bit, too.
        let bits = Bitmap::parse(r, documents.len())?;
        for (nth, at) in documents.into_iter().enumerate() {
            edited[at] = bits.has(nth);
        }
        Ok(edited)
    }

    /// Hands over every image, the one before an update and the one behind it included, without reading its values.
    pub fn each_raw(&self, map: &TableMap, each: &mut dyn FnMut(&[RawField<'a>])) -> Result<()> {
        if map.table_id != self.table_id || map.columns.len() != self.before.bits {
            return Err(damaged("row event: not of this table map"));
        }
        let mut r = Reader::new(self.rows);
        let mut fields: Vec<RawField<'a>> = vec![None; map.columns.len()];
        let sets = [Some(&self.before), self.after.as_ref()];
        while !r.is_empty() {
            let left = r.len();
            for (second, columns) in sets.into_iter().flatten().enumerate() {
                if second == 1 {
                    // Edits lie like documents, and keys have none of them.
                    self.edited(&mut r, map)?;
                }
                let nulls = Bitmap::parse(&mut r, columns.count())?;
                fields.fill(None);
                for (nth, col) in columns.iter().enumerate() {
                    fields[col] = Some(match nulls.has(nth) {
                        true => None,
                        false => Some(map.columns[col].form.raw(&mut r)?),
                    });
                }
                each(&fields);
            }
            if r.len() == left {
                return Err(damaged("row event: rows without bytes"));
            }
        }
        Ok(())
    }
}

fn read_image(
    r: &mut Reader<'_>,
    map: &TableMap,
    columns: &Bitmap,
    edited: &[bool],
) -> Result<(Image, Vec<ColumnEdits>)> {
    debug_assert_eq!(edited.len(), map.columns.len());
    let nulls = Bitmap::parse(r, columns.count())?;
    let mut image = vec![None; map.columns.len()];
    let mut edits = Vec::new();
    for (nth, col) in columns.iter().enumerate() {
        if edited[col] && !nulls.has(nth) {
            let length = r.u32()? as usize;
            edits.push((col, read_edits(r.take(length)?)?));
            continue;
        }
        image[col] = Some(match nulls.has(nth) {
            true => Value::Null,
            false => map.columns[col].form.read(r)?,
        });
    }
    Ok((image, edits))
}

fn read_edits(bytes: &[u8]) -> Result<Vec<JsonEdit>> {
    let mut r = Reader::new(bytes);
    let mut edits = Vec::new();
    while !r.is_empty() {
        let kind = match r.u8()? {
            REPLACE => JsonEditKind::Replace,
            INSERT => JsonEditKind::Insert,
            REMOVE => JsonEditKind::Remove,
            _ => return Err(damaged("row event: unknown edit of a document")),
        };
        let path = r.packed_bytes()?.to_vec();
        let value = match kind {
            JsonEditKind::Remove => Vec::new(),
            _ => r.packed_bytes()?.to_vec(),
        };
        edits.push(JsonEdit { kind, path, value });
    }
    Ok(edits)
}
