//! Rows: one value of the clustered tree.
//!
//! ```text
//! 0   layout version (u8)
//! 1   flags (u8): bit 0 = end offsets are u32 instead of u16
//! 2   null bits, one per field, LSB first
//!     fixed fields, each at its place (zeros when NULL)
//!     end offset of each variable field, relative to the variable area
//!     variable area
//! ```
//! `docs/formats/row.md` has the details.
//!
//! Neighbours: `phys` encodes single fields. Every column is stored, also those of the primary key: a
//! reader needs nothing but the value, at the price of a few bytes.
//! **Invariants**: a layout version never changes once rows were written with it; columns added later are
//! [`Place::Missing`] in older versions and read their instant default; an integer may be narrower in older versions.

use esker_types::{SqlResult, SqlType, TypeKind, Value, ValueRef};
use jiff::tz::TimeZone;

use super::phys::Phys;
use super::temporal;
use super::{UTC, damaged};
use crate::catalog::ColumnDef;

const HEADER_BYTES: usize = 2;
const WIDE_OFFSETS: u8 = 1;
/// Layout versions a table may have before it must be rebuilt.
pub const MAX_LAYOUT_VERSIONS: usize = 256;

/// Fields of one layout version, in stored order: column id and storage kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutVersion {
    /// Fields.
    pub fields: Vec<(u32, Phys)>,
}

/// Where a column lies in a row of one version.
#[derive(Debug, Clone, Copy)]
enum Place {
    Fixed {
        phys: Phys,
        at: u32,
        len: u32,
        null_bit: u16,
    },
    Var {
        phys: Phys,
        nth: u16,
        null_bit: u16,
    },
    Missing,
}

/// One version, by column ordinal of the current definition.
#[derive(Debug, Clone)]
struct VersionMap {
    places: Vec<Place>,
    /// Column ordinals in stored order.
    order: Vec<usize>,
    null_bytes: usize,
    fixed_bytes: usize,
    vars: usize,
}

/// How rows of a table are stored: every version still on disk, the last one being written.
#[derive(Debug, Clone)]
pub struct RowLayout {
    types: Vec<SqlType>,
    missing: Vec<Value>,
    maps: Vec<VersionMap>,
    versions: Vec<LayoutVersion>,
}

impl LayoutVersion {
    /// The layout of a table with exactly these columns.
    pub fn of(columns: &[ColumnDef]) -> Self {
        Self {
            fields: columns.iter().map(|c| (c.id, Phys::of(&c.ty))).collect(),
        }
    }
}

impl RowLayout {
    /// A layout for `columns`, whose rows were written by `versions` (the last is the current one).
    ///
    /// # Panics
    /// If `versions` is empty: a table always has a current layout.
    pub fn new(columns: &[ColumnDef], versions: Vec<LayoutVersion>) -> Self {
        assert!(!versions.is_empty() && versions.len() <= MAX_LAYOUT_VERSIONS);
        let maps = versions
            .iter()
            .map(|v| VersionMap::new(columns, v))
            .collect();
        let missing = columns
            .iter()
            .map(|c| c.instant_default.clone().unwrap_or_default());
        Self {
            types: columns.iter().map(|c| c.ty.clone()).collect(),
            missing: missing.collect(),
            maps,
            versions,
        }
    }

    /// All versions, oldest first.
    pub fn versions(&self) -> &[LayoutVersion] {
        &self.versions
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.types.len()
    }

    /// Types of all columns.
    pub fn column_types(&self) -> &[SqlType] {
        &self.types
    }

    /// Type of a column.
    pub fn column_type(&self, col: usize) -> &SqlType {
        &self.types[col]
    }

    fn current(&self) -> &VersionMap {
        &self.maps[self.maps.len() - 1]
    }
}

impl VersionMap {
    fn new(columns: &[ColumnDef], version: &LayoutVersion) -> Self {
        let mut places = vec![Place::Missing; columns.len()];
        let mut order = Vec::with_capacity(columns.len());
        let (mut fixed_bytes, mut vars) = (0usize, 0u16);
        for (bit, &(id, phys)) in version.fields.iter().enumerate() {
            let null_bit = bit as u16;
            let place = match phys.fixed_len() {
                Some(len) => {
                    let at = fixed_bytes as u32;
                    fixed_bytes += len;
                    Place::Fixed {
                        phys,
                        at,
                        len: len as u32,
                        null_bit,
                    }
                }
                None => {
                    vars += 1;
                    Place::Var {
                        phys,
                        nth: vars - 1,
                        null_bit,
                    }
                }
            };
            if let Some(col) = columns.iter().position(|c| c.id == id) {
                places[col] = place;
                order.push(col);
            }
        }
        let null_bytes = version.fields.len().div_ceil(8);
        Self {
            places,
            order,
            null_bytes,
            fixed_bytes,
            vars: usize::from(vars),
        }
    }
}

/// A stored field.
#[derive(Clone, Copy)]
pub enum Raw<'a> {
    /// NULL.
    Null,
    /// Its bytes.
    Bytes(&'a [u8]),
    /// The row is older than the column.
    Missing,
}

/// Reads the fields of one row in place.
#[derive(Clone, Copy)]
pub struct RowReader<'a> {
    layout: &'a RowLayout,
    map: &'a VersionMap,
    zone: &'a TimeZone,
    nulls: &'a [u8],
    fixed: &'a [u8],
    ends: &'a [u8],
    wide: bool,
    vars: &'a [u8],
}

impl<'a> RowReader<'a> {
    /// A reader of `bytes`, a value of the table's clustered tree; TIMESTAMPs come out in `zone`.
    pub fn new(layout: &'a RowLayout, zone: &'a TimeZone, bytes: &'a [u8]) -> SqlResult<Self> {
        Self::parse(layout, zone, bytes).ok_or_else(|| damaged("row"))
    }

    #[inline]
    fn parse(layout: &'a RowLayout, zone: &'a TimeZone, bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
        let map = layout.maps.get(usize::from(header[0]))?;
        let wide = header[1] & WIDE_OFFSETS != 0;
        let (nulls, rest) = rest.split_at_checked(map.null_bytes)?;
        let (fixed, rest) = rest.split_at_checked(map.fixed_bytes)?;
        let (ends, vars) = rest.split_at_checked(map.vars * if wide { 4 } else { 2 })?;
        let row = Self {
            layout,
            map,
            zone,
            nulls,
            fixed,
            ends,
            wide,
            vars,
        };
        let mut start = 0;
        for nth in 0..map.vars {
            let end = row.end(nth);
            if end < start {
                return None;
            }
            start = end;
        }
        (start == vars.len()).then_some(row)
    }

    #[inline]
    fn end(&self, nth: usize) -> usize {
        if self.wide {
            let b = &self.ends[nth * 4..nth * 4 + 4];
            u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize
        } else {
            usize::from(u16::from_le_bytes([
                self.ends[nth * 2],
                self.ends[nth * 2 + 1],
            ]))
        }
    }

    #[inline]
    pub(super) fn raw(&self, col: usize) -> (Raw<'a>, Phys) {
        let is_null = |bit: u16| self.nulls[usize::from(bit / 8)] >> (bit % 8) & 1 == 1;
        match self.map.places[col] {
            Place::Fixed {
                phys,
                at,
                len,
                null_bit,
            } => {
                if is_null(null_bit) {
                    return (Raw::Null, phys);
                }
                (
                    Raw::Bytes(&self.fixed[at as usize..(at + len) as usize]),
                    phys,
                )
            }
            Place::Var {
                phys,
                nth,
                null_bit,
            } => {
                if is_null(null_bit) {
                    return (Raw::Null, phys);
                }
                let nth = usize::from(nth);
                let start = if nth == 0 { 0 } else { self.end(nth - 1) };
                (Raw::Bytes(&self.vars[start..self.end(nth)]), phys)
            }
            Place::Missing => (Raw::Missing, Phys::Var),
        }
    }

    /// The value of a column.
    #[inline]
    pub fn field(&self, col: usize) -> ValueRef<'a> {
        match self.raw(col) {
            (Raw::Null, _) => ValueRef::Null,
            (Raw::Bytes(bytes), phys) => phys.decode(bytes, &self.layout.types[col], self.zone),
            (Raw::Missing, _) => self.missing(col),
        }
    }

    #[cold]
    fn missing(&self, col: usize) -> ValueRef<'a> {
        match (&self.layout.missing[col], &self.layout.types[col].kind) {
            (Value::DateTime(utc), TypeKind::Timestamp) => {
                ValueRef::DateTime(temporal::utc_to_zone(*utc, self.zone))
            }
            (value, _) => value.as_ref(),
        }
    }

    /// Is a column NULL?
    #[inline]
    pub fn is_null(&self, col: usize) -> bool {
        match self.raw(col).0 {
            Raw::Null => true,
            Raw::Bytes(_) => false,
            Raw::Missing => self.layout.missing[col].is_null(),
        }
    }

    /// The same row with TIMESTAMPs in another zone.
    pub fn in_zone(self, zone: &'a TimeZone) -> Self {
        Self { zone, ..self }
    }

    /// Was the row written with the current layout?
    pub fn is_current(&self) -> bool {
        std::ptr::eq(self.map, self.layout.current())
    }
}

/// Where the rows of every layout version have one column.
#[derive(Debug, Clone)]
pub struct FieldPlaces {
    /// How its bytes are read.
    pub phys: Phys,
    by_version: Vec<FieldPlace>,
}

/// The same for one version, from the start of the row.
#[derive(Debug, Clone, Copy)]
pub enum FieldPlace {
    Fixed {
        null: NullBit,
        from: usize,
        to: usize,
    },
    Var {
        null: NullBit,
        nth: usize,
        ends_at: usize,
        vars: usize,
    },
    Missing,
}

#[derive(Debug, Clone, Copy)]
pub struct NullBit {
    at: usize,
    mask: u8,
}

impl NullBit {
    fn new(bit: u16) -> Self {
        Self {
            at: HEADER_BYTES + usize::from(bit / 8),
            mask: 1 << (bit % 8),
        }
    }

    #[inline(always)]
    fn is_set(self, row: &[u8]) -> Option<bool> {
        Some(row.get(self.at)? & self.mask != 0)
    }
}

impl RowLayout {
    /// Where rows have a column. `None` if some version stores it in another way than the current one.
    pub fn field_places(&self, col: usize) -> Option<FieldPlaces> {
        let current = Phys::of(&self.types[col]);
        let place = |map: &VersionMap| {
            let fixed_at = HEADER_BYTES + map.null_bytes;
            match map.places[col] {
                Place::Fixed { phys, .. } | Place::Var { phys, .. } if phys != current => None,
                Place::Fixed {
                    at, len, null_bit, ..
                } => Some(FieldPlace::Fixed {
                    null: NullBit::new(null_bit),
                    from: fixed_at + at as usize,
                    to: fixed_at + (at + len) as usize,
                }),
                Place::Var { nth, null_bit, .. } => Some(FieldPlace::Var {
                    null: NullBit::new(null_bit),
                    nth: usize::from(nth),
                    ends_at: fixed_at + map.fixed_bytes,
                    vars: map.vars,
                }),
                Place::Missing => Some(FieldPlace::Missing),
            }
        };
        Some(FieldPlaces {
            phys: current,
            by_version: self.maps.iter().map(place).collect::<Option<_>>()?,
        })
    }

    /// What older rows have of a column that was added later; TIMESTAMP in UTC.
    pub fn missing(&self, col: usize) -> &Value {
        &self.missing[col]
    }
}

impl FieldPlaces {
    /// The version of a row. `None`: it is damaged.
    #[inline]
    pub(crate) fn version_of(row: &[u8]) -> Option<u8> {
        row.first().copied()
    }

    /// Where rows of this version have it. `None`: there is no such version.
    #[inline]
    pub fn of(&self, version: u8) -> Option<FieldPlace> {
        self.by_version.get(usize::from(version)).copied()
    }

    /// The integer that a row has, of which nothing was checked. `None`: it is NULL, too large for a sign, or to be
    /// found with a [`RowReader`] only.
    #[inline]
    pub fn integer(&self, row: &[u8]) -> Option<i64> {
        let Phys::Int { unsigned, .. } = self.phys else {
            return None;
        };
        let Some(FieldPlace::Fixed { null, from, to }) =
            self.by_version.get(usize::from(*row.first()?))
        else {
            return None;
        };
        if row.get(null.at)? & null.mask != 0 {
            return None;
        }
        let stored = row.get(*from..*to)?;
        let mut word = [0; 8];
        word[8 - stored.len()..].copy_from_slice(stored);
        let shift = 64 - 8 * stored.len() as u32;
        match unsigned {
            false => Some(i64::from_le_bytes(word) >> shift),
            true => i64::try_from(u64::from_le_bytes(word) >> shift).ok(),
        }
    }

    /// The field of a row. `None`: the row is damaged.
    #[inline]
    pub fn find<'r>(&self, row: &'r [u8]) -> Option<Raw<'r>> {
        self.of(Self::version_of(row)?)?.find(row)
    }
}

impl FieldPlace {
    /// The field of a row of this version. `None`: the row is damaged where that is looked for.
    #[inline(always)]
    pub fn find(self, row: &[u8]) -> Option<Raw<'_>> {
        Some(match self {
            FieldPlace::Fixed { null, from, to } => match null.is_set(row)? {
                true => Raw::Null,
                false => Raw::Bytes(row.get(from..to)?),
            },
            FieldPlace::Var {
                null,
                nth,
                ends_at,
                vars,
            } => match null.is_set(row)? {
                true => Raw::Null,
                false => Raw::Bytes(variable(row, nth, ends_at, vars)?),
            },
            FieldPlace::Missing => Raw::Missing,
        })
    }
}

/// The `nth` of the variable fields, of which there are `vars` whose ends are at `ends_at`.
#[inline(always)]
fn variable(row: &[u8], nth: usize, ends_at: usize, vars: usize) -> Option<&[u8]> {
    let is_wide = row.get(1)? & WIDE_OFFSETS != 0;
    let width = if is_wide { 4 } else { 2 };
    let end = |nth: usize| {
        let end = row.get(ends_at + nth * width..)?;
        Some(match is_wide {
            true => u32::from_le_bytes(*end.first_chunk()?) as usize,
            false => usize::from(u16::from_le_bytes(*end.first_chunk()?)),
        })
    };
    let start = if nth == 0 { 0 } else { end(nth - 1)? };
    row.get(ends_at + vars * width..)?.get(start..end(nth)?)
}

/// What a new row takes a field from.
enum Source<'a> {
    Value(ValueRef<'a>, &'a TimeZone),
    Stored(&'a [u8]),
}

/// Appends the row of `values` (one per column, of the columns' types; TIMESTAMPs in `zone`).
pub fn encode_row(
    layout: &RowLayout,
    zone: &TimeZone,
    values: &[Value],
    out: &mut Vec<u8>,
) -> SqlResult<()> {
    assert_eq!(values.len(), layout.types.len());
    build(layout, out, |col| Source::Value(values[col].as_ref(), zone))
}

/// Appends a copy of `old` with the columns changed for which `change` gives a value. Other fields are copied as
/// stored, so a TIMESTAMP in a repeated hour keeps its instant.
pub fn patch_row<'v>(
    layout: &RowLayout,
    zone: &TimeZone,
    old: &RowReader<'_>,
    change: impl Fn(usize) -> Option<&'v Value>,
    out: &mut Vec<u8>,
) -> SqlResult<()> {
    build(layout, out, |col| {
        if let Some(value) = change(col) {
            return Source::Value(value.as_ref(), zone);
        }
        match old.raw(col) {
            (Raw::Null, _) => Source::Value(ValueRef::Null, zone),
            (Raw::Bytes(bytes), phys) if phys == Phys::of(&layout.types[col]) => {
                Source::Stored(bytes)
            }
            // An integer from before the column was widened.
            (Raw::Bytes(_), _) => Source::Value(old.field(col), zone),
            (Raw::Missing, _) => Source::Value(layout.missing[col].as_ref(), &UTC),
        }
    })
}

fn var_len(source: &Source<'_>) -> usize {
    match source {
        Source::Stored(bytes) => bytes.len(),
        Source::Value(ValueRef::Str(bytes) | ValueRef::Json(bytes), _) => bytes.len(),
        Source::Value(ValueRef::Label(_, text), _) => 8 + text.len(),
        Source::Value(..) => 0,
    }
}

fn build<'a>(
    layout: &RowLayout,
    out: &mut Vec<u8>,
    source: impl Fn(usize) -> Source<'a>,
) -> SqlResult<()> {
    let map = layout.current();
    debug_assert_eq!(
        map.order.len(),
        layout.types.len(),
        "the current version has every column"
    );
    let is_var = |col: &&usize| matches!(map.places[**col], Place::Var { .. });
    let var_bytes: usize = map
        .order
        .iter()
        .filter(is_var)
        .map(|&col| var_len(&source(col)))
        .sum();
    let wide = var_bytes > usize::from(u16::MAX);
    let offset_bytes = if wide { 4 } else { 2 };
    let start = out.len();
    let nulls_at = start + HEADER_BYTES;
    let fixed_at = nulls_at + map.null_bytes;
    let ends_at = fixed_at + map.fixed_bytes;
    let vars_at = ends_at + map.vars * offset_bytes;
    out.reserve(vars_at - start + var_bytes);
    out.push((layout.maps.len() - 1) as u8);
    out.push(if wide { WIDE_OFFSETS } else { 0 });
    out.resize(fixed_at, 0);
    for &col in &map.order {
        let Place::Fixed {
            phys,
            at,
            len,
            null_bit,
        } = map.places[col]
        else {
            continue;
        };
        let field_at = fixed_at + at as usize;
        debug_assert_eq!(out.len(), field_at);
        if !append(&source(col), phys, out)? {
            set_null(&mut out[nulls_at..], null_bit);
        }
        out.resize(field_at + len as usize, 0);
    }
    out.resize(vars_at, 0);
    for &col in &map.order {
        let Place::Var {
            phys,
            nth,
            null_bit,
        } = map.places[col]
        else {
            continue;
        };
        if !append(&source(col), phys, out)? {
            set_null(&mut out[nulls_at..], null_bit);
        }
        let end = (out.len() - vars_at) as u32;
        let at = ends_at + usize::from(nth) * offset_bytes;
        out[at..at + offset_bytes].copy_from_slice(&end.to_le_bytes()[..offset_bytes]);
    }
    Ok(())
}

/// Appends a field; false if it is NULL.
#[inline]
fn append(source: &Source<'_>, phys: Phys, out: &mut Vec<u8>) -> SqlResult<bool> {
    match source {
        Source::Stored(bytes) => out.extend_from_slice(bytes),
        Source::Value(ValueRef::Null, _) => return Ok(false),
        Source::Value(value, zone) => phys.encode(*value, zone, out)?,
    }
    Ok(true)
}

#[inline]
fn set_null(nulls: &mut [u8], bit: u16) {
    nulls[usize::from(bit / 8)] |= 1 << (bit % 8);
}
