//! Row events, version 2: rows that were inserted, updated or deleted in one table by one statement.
//!
//! ```text
//! table id 6 | flags u16 | 2 u16 | number of columns | columns that images have (two sets for updates)
//! each row: NULL bits of the columns in the image | their values | for updates: the same again, after the change
//! ```
//! Neighbours: `image` writes and reads values; `table_map` must have been read before. **Invariants**: an event is
//! built by [`begin`], one or two [`write_image`] for each row, and [`end_statement`] on the statement's last event.

use esker_types::{Value, ValueRef};

use super::EventType;
use super::table_map::TableMap;
use crate::bytes::{Put, Reader};
use crate::image::{NotInImage, Shape};
use crate::{Result, damaged};

/// The statement's last event.
const STATEMENT_END: u16 = 1;
/// `foreign_key_checks = 0`.
const NO_FOREIGN_KEY_CHECKS: u16 = 2;
/// `unique_checks = 0`.
const RELAXED_UNIQUE_CHECKS: u16 = 4;
/// Where the flags stand in the body.
const FLAGS_AT: usize = 6;
/// Length of nothing, itself included.
const NO_EXTRA: u16 = 2;

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

/// One row of an event, by column; `None` where the image has no value of the column.
pub type Image = Vec<Option<Value>>;

/// A row that was changed.
#[derive(Debug, Clone)]
pub enum RowChange {
    /// It is new.
    Insert(Image),
    /// What it was, and what it is.
    Update(Image, Image),
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
    /// Reads the body of types 30, 31 and 32.
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
            EventType::UpdateRows => Some(Bitmap::parse(&mut r, columns)?),
            _ => None,
        };
        Ok(Self {
            table_id,
            ends_statement: flags & STATEMENT_END != 0,
            flags: RowFlags {
                no_foreign_key_checks: flags & NO_FOREIGN_KEY_CHECKS != 0,
                relaxed_unique_checks: flags & RELAXED_UNIQUE_CHECKS != 0,
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
        while !r.is_empty() {
            let left = r.len();
            let first = read_image(&mut r, map, &self.before)?;
            rows.push(match (self.kind, &self.after) {
                (EventType::WriteRows, _) => RowChange::Insert(first),
                (_, Some(after)) => RowChange::Update(first, read_image(&mut r, map, after)?),
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
            for columns in sets.into_iter().flatten() {
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

fn read_image(r: &mut Reader<'_>, map: &TableMap, columns: &Bitmap) -> Result<Image> {
    let nulls = Bitmap::parse(r, columns.count())?;
    let mut image = vec![None; map.columns.len()];
    for (nth, col) in columns.iter().enumerate() {
        image[col] = Some(match nulls.has(nth) {
            true => Value::Null,
            false => map.columns[col].form.read(r)?,
        });
    }
    Ok(image)
}
