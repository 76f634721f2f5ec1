//! Columns as numbers, for what blocks of rows say of their values (`esker_engine::extent::Fields`).
//!
//! Neighbours: `row` finds the fields, `key` has their order; the catalog hands [`RowFields`] to the engine with every
//! definition, `exec::parallel` asks for rows by [`field_of`].
//!
//! **Invariants**
//! - A column's numbers are in the order of its values: they are its key part, without the byte for NULL, as a
//!   big-endian number.
//! - The name of a field is made of everything that decides its numbers, so that whatever an ALTER that failed has left
//!   on disk is not mistaken for another column. How names and numbers are made is frozen: they are on disk.

use esker_engine::extent::{FieldId, FieldValue, Fields, MAX_FIELDS};
use esker_types::{SqlResult, Value};

use super::key::KeyCodec;
use super::phys::Phys;
use super::row::{Raw, RowLayout, RowReader};
use super::{UTC, damaged};
use crate::catalog::{ColumnDef, IndexPart};

/// Widest column that is a number.
const MAX_BYTES: usize = 8;

/// The columns of which blocks speak, for the rows of one definition of a table.
pub struct RowFields {
    layout: RowLayout,
    ids: Vec<FieldId>,
    columns: Vec<Column>,
}

struct Column {
    col: usize,
    /// How rows are stored that are written now; older ones may have a narrower integer.
    phys: Phys,
    is_signed: bool,
    /// Of rows that are older than the column.
    missing: FieldValue,
}

/// The columns of which blocks of a table's rows speak: numbers and dates, but not the `leading` one, by which the rows
/// are ordered anyway.
pub fn columns_with_fields(
    columns: &[ColumnDef],
    leading: Option<usize>,
) -> impl Iterator<Item = usize> {
    let numbers = columns.iter().enumerate().filter(move |(col, column)| {
        Some(*col) != leading && number_bytes(Phys::of(&column.ty)).is_some()
    });
    numbers.map(|(col, _)| col).take(MAX_FIELDS)
}

/// Bytes of a column's key part, if that is a number.
fn number_bytes(phys: Phys) -> Option<usize> {
    match phys {
        Phys::Bit { .. } | Phys::Enum | Phys::Var | Phys::Json | Phys::Set => None,
        _ => phys.fixed_len().filter(|len| *len <= MAX_BYTES),
    }
}

/// How a column's part of a key is made, if it were one.
pub fn part_of(col: usize) -> IndexPart {
    IndexPart {
        col,
        prefix_len: None,
        desc: false,
    }
}

/// The number of a value as stored in rows: TIMESTAMP in UTC.
fn number_of(columns: &[ColumnDef], col: usize, value: &Value) -> SqlResult<FieldValue> {
    if value.is_null() {
        return Ok(FieldValue::Null);
    }
    let codec = KeyCodec::new(columns, &[part_of(col)], false, false);
    let mut key = Vec::new();
    codec.encode_part(0, value.as_ref(), &UTC, &mut key)?;
    let null_bytes = usize::from(columns[col].ty.nullable);
    let number = key.get(null_bytes..).and_then(big_endian);
    number
        .map(FieldValue::Number)
        .ok_or_else(|| damaged("default of a column"))
}

fn big_endian(bytes: &[u8]) -> Option<u64> {
    let start = MAX_BYTES.checked_sub(bytes.len())?;
    let mut wide = [0; MAX_BYTES];
    wide[start..].copy_from_slice(bytes);
    Some(u64::from_be_bytes(wide))
}

fn little_endian(bytes: &[u8]) -> u64 {
    let mut wide = [0; MAX_BYTES];
    let len = bytes.len().min(MAX_BYTES);
    wide[..len].copy_from_slice(&bytes[..len]);
    u64::from_le_bytes(wide)
}

/// FNV-1a over what decides the numbers of a field.
struct Name(u64);

impl Name {
    fn add(&mut self, number: u64) {
        for byte in number.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
}

/// The name of a column's field.
pub fn field_of(columns: &[ColumnDef], col: usize) -> FieldId {
    let column = &columns[col];
    let mut name = Name(0xCBF2_9CE4_8422_2325);
    let (kind, detail) = match Phys::of(&column.ty) {
        Phys::Int { bytes, .. } => (1, u64::from(bytes)),
        Phys::Float => (2, 0),
        Phys::Double => (3, 0),
        Phys::Decimal { precision, scale } => (4, u64::from(precision) << 8 | u64::from(scale)),
        Phys::Date => (5, 0),
        Phys::Time => (6, 0),
        Phys::DateTime => (7, 0),
        Phys::Timestamp => (8, 0),
        Phys::Bit { .. } | Phys::Enum | Phys::Var | Phys::Json | Phys::Set => (0, 0),
    };
    for number in [
        column.id.into(),
        kind,
        detail,
        u64::from(column.ty.unsigned),
    ] {
        name.add(number);
    }
    if let Some(value) = &column.instant_default {
        match number_of(columns, col, value) {
            Ok(FieldValue::Number(number)) => {
                name.add(1);
                name.add(number);
            }
            _ => name.add(0),
        }
    }
    FieldId(name.0)
}

impl RowFields {
    /// The fields of rows with these columns in this layout; `leading`: the column by which they are ordered.
    pub(crate) fn new(columns: &[ColumnDef], layout: &RowLayout, leading: Option<usize>) -> Self {
        let (mut ids, mut fields) = (Vec::new(), Vec::new());
        for col in columns_with_fields(columns, leading) {
            let missing = match &columns[col].instant_default {
                Some(value) => number_of(columns, col, value).unwrap_or(FieldValue::Unknown),
                None => FieldValue::Null,
            };
            ids.push(field_of(columns, col));
            fields.push(Column {
                col,
                phys: Phys::of(&columns[col].ty),
                is_signed: !columns[col].ty.unsigned,
                missing,
            });
        }
        RowFields {
            layout: layout.clone(),
            ids,
            columns: fields,
        }
    }
}

impl Fields for RowFields {
    fn ids(&self) -> &[FieldId] {
        &self.ids
    }

    fn read(&self, value: &[u8], out: &mut [FieldValue]) {
        // A row of a layout that is newer than this definition, or damaged: nothing is said then.
        let Ok(row) = RowReader::new(&self.layout, &UTC, value) else {
            return;
        };
        for (column, out) in self.columns.iter().zip(out) {
            *out = match row.raw(column.col) {
                (Raw::Null, _) => FieldValue::Null,
                (Raw::Missing, _) => column.missing,
                (Raw::Bytes(bytes), phys) if phys == column.phys => {
                    FieldValue::Number(number(phys, column.is_signed, bytes))
                }
                (Raw::Bytes(bytes), _) => column.widened(bytes),
            };
        }
    }
}

impl Column {
    /// The number of an integer from before the column was widened.
    fn widened(&self, bytes: &[u8]) -> FieldValue {
        let Phys::Int { bytes: to, .. } = self.phys else {
            return FieldValue::Unknown;
        };
        let is_negative = self.is_signed && bytes.last().is_some_and(|b| *b >= 0x80);
        let mut wide = [if is_negative { 0xFF } else { 0 }; MAX_BYTES];
        let Some(low) = wide.get_mut(..bytes.len()) else {
            return FieldValue::Unknown;
        };
        low.copy_from_slice(bytes);
        let whole = &wide[..usize::from(to)];
        FieldValue::Number(number(self.phys, self.is_signed, whole))
    }
}

/// A stored field as its key part's number.
fn number(phys: Phys, is_signed: bool, bytes: &[u8]) -> u64 {
    let word = little_endian(bytes);
    let sign = 1 << (8 * bytes.len().clamp(1, MAX_BYTES) - 1);
    match phys {
        Phys::Decimal { .. } => big_endian(bytes).unwrap_or_default(),
        Phys::Int { .. } if is_signed => word ^ sign,
        Phys::Time | Phys::Timestamp => word ^ sign,
        Phys::Float | Phys::Double => {
            let mask = sign | (sign - 1);
            match word {
                // Both zeros are one.
                zero if zero & !sign == 0 => sign,
                negative if negative & sign != 0 => !negative & mask,
                positive => positive | sign,
            }
        }
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{LayoutVersion, encode_row};
    use esker_types::{Date, DateTime, Decimal, SqlType, Time, TypeKind};

    fn column(id: u32, ty: SqlType) -> ColumnDef {
        ColumnDef::plain(id, ty)
    }

    fn unsigned(kind: TypeKind) -> SqlType {
        SqlType {
            unsigned: true,
            ..SqlType::new(kind)
        }
    }

    fn decimal(length: u32, decimals: u8) -> SqlType {
        SqlType {
            length,
            decimals,
            ..SqlType::new(TypeKind::Decimal)
        }
    }

    /// Values of every type that is a number, ascending.
    fn samples() -> Vec<(SqlType, Vec<Value>)> {
        let ints = |low: i64, high: i64| [low, -1, 0, 1, high].map(Value::Int).to_vec();
        let date = |y, m, d| Date::new(y, m, d).expect("a date");
        let at = |y, h| DateTime::new(date(y, 3, 4), h, 5, 6, 7).expect("a time");
        let doubles = [-1e9, -1.5, -0.0, 0.0, 0.5, 3e30];
        let decimals = ["-999.99", "-0.01", "0.00", "0.01", "999.99"];
        let decimals = decimals.map(|text| Value::Decimal(Decimal::parse(text.as_bytes()).0));
        let times = [-3_600_000_000, -1, 0, 1, 7_200_000_000];
        vec![
            (SqlType::new(TypeKind::TinyInt), ints(-128, 127)),
            (
                SqlType::new(TypeKind::MediumInt),
                ints(-8_388_608, 8_388_607),
            ),
            (
                SqlType::new(TypeKind::Int),
                ints(i32::MIN.into(), i32::MAX.into()),
            ),
            (SqlType::bigint(false), ints(i64::MIN, i64::MAX)),
            (
                unsigned(TypeKind::BigInt),
                vec![Value::UInt(0), Value::UInt(1 << 63), Value::UInt(u64::MAX)],
            ),
            (
                unsigned(TypeKind::SmallInt),
                vec![Value::UInt(0), Value::UInt(40_000), Value::UInt(65_535)],
            ),
            (
                SqlType::new(TypeKind::Double),
                doubles.map(Value::Double).to_vec(),
            ),
            (
                SqlType::new(TypeKind::Float),
                doubles.map(Value::Double).to_vec(),
            ),
            (decimal(5, 2), decimals.clone().to_vec()),
            (decimal(15, 2), decimals.to_vec()),
            (
                SqlType::new(TypeKind::Date),
                vec![Value::Date(date(1, 1, 1)), Value::Date(date(2024, 2, 29))],
            ),
            (
                SqlType::new(TypeKind::DateTime),
                vec![Value::DateTime(at(1000, 1)), Value::DateTime(at(2024, 23))],
            ),
            (
                SqlType::new(TypeKind::Timestamp),
                vec![Value::DateTime(at(1999, 1)), Value::DateTime(at(2024, 2))],
            ),
            (
                SqlType::new(TypeKind::Time),
                times
                    .map(|n| Value::Time(Time::from_micros(n).expect("a time")))
                    .to_vec(),
            ),
        ]
    }

    #[test]
    fn numbers_of_rows_are_those_of_keys_and_in_their_order() {
        for (ty, values) in samples() {
            for ty in [ty.clone().with_nullable(false), ty.with_nullable(true)] {
                let columns = [column(3, ty.clone())];
                let layout = RowLayout::new(&columns, vec![LayoutVersion::of(&columns)]);
                let fields = RowFields::new(&columns, &layout, None);
                assert_eq!(fields.ids(), [field_of(&columns, 0)], "{ty:?}");
                let mut last = 0;
                for value in &values {
                    let mut row = Vec::new();
                    encode_row(&layout, &UTC, std::slice::from_ref(value), &mut row).expect("fits");
                    let mut out = [FieldValue::Unknown];
                    fields.read(&row, &mut out);
                    let expected = number_of(&columns, 0, value).expect("fits");
                    assert_eq!(out[0], expected, "{value:?} as {ty:?}");
                    let FieldValue::Number(number) = out[0] else {
                        panic!("{value:?} is a number");
                    };
                    assert!(number >= last, "{value:?} as {ty:?}");
                    last = number;
                }
                let mut out = [FieldValue::Unknown];
                fields.read(&[77, 0, 0], &mut out);
                assert_eq!(out[0], FieldValue::Unknown, "no such layout");
            }
        }
    }

    #[test]
    fn rows_older_than_a_column_have_its_default_and_null_is_null() {
        let old = [column(1, SqlType::new(TypeKind::Int))];
        let mut columns = [old[0].clone(), column(2, SqlType::new(TypeKind::Date))];
        let default = Value::Date(Date::new(2020, 1, 1).expect("a date"));
        columns[1].instant_default = Some(default.clone());
        let versions = vec![LayoutVersion::of(&old), LayoutVersion::of(&columns)];
        let mut row = Vec::new();
        let old_layout = RowLayout::new(&old, vec![versions[0].clone()]);
        encode_row(&old_layout, &UTC, &[Value::Null], &mut row).expect("fits");
        let layout = RowLayout::new(&columns, versions);
        let mut out = [FieldValue::Unknown; 2];
        RowFields::new(&columns, &layout, None).read(&row, &mut out);
        let default = number_of(&columns, 1, &default).expect("fits");
        assert_eq!(out, [FieldValue::Null, default]);
        // What the rows are ordered by is left out.
        assert_eq!(RowFields::new(&columns, &layout, Some(0)).ids().len(), 1);
    }

    /// A block may have rows of both widths: their numbers are in one order.
    #[test]
    fn integers_from_before_a_widening_have_the_numbers_of_now() {
        for is_unsigned in [false, true] {
            let ty = |kind| SqlType {
                unsigned: is_unsigned,
                ..SqlType::new(kind)
            };
            for (narrow, wide, most) in [
                (TypeKind::TinyInt, TypeKind::SmallInt, 127),
                (TypeKind::MediumInt, TypeKind::Int, 8_388_607),
                (TypeKind::Int, TypeKind::BigInt, i64::from(i32::MAX)),
            ] {
                let (old, new) = ([column(1, ty(narrow))], [column(1, ty(wide))]);
                let versions = vec![LayoutVersion::of(&old), LayoutVersion::of(&new)];
                let old_layout = RowLayout::new(&old, vec![versions[0].clone()]);
                let layout = RowLayout::new(&new, versions);
                let least = if is_unsigned { 0 } else { -most - 1 };
                for number in [least, 0, 1, most] {
                    let value = match is_unsigned {
                        true => Value::UInt(number as u64),
                        false => Value::Int(number),
                    };
                    let mut row = Vec::new();
                    encode_row(&old_layout, &UTC, std::slice::from_ref(&value), &mut row)
                        .expect("fits");
                    let mut out = [FieldValue::Unknown];
                    RowFields::new(&new, &layout, None).read(&row, &mut out);
                    assert_eq!(
                        out[0],
                        number_of(&new, 0, &value).expect("fits"),
                        "{value:?}"
                    );
                    let read = RowReader::new(&layout, &UTC, &row).expect("reads");
                    let read = read.field(0).to_owned();
                    assert_eq!(format!("{read:?}"), format!("{value:?}"));
                }
            }
        }
    }

    #[test]
    fn names_differ_with_whatever_decides_the_numbers() {
        let int = |id| column(id, SqlType::new(TypeKind::Int));
        let with_default = |value| ColumnDef {
            instant_default: Some(value),
            ..int(1)
        };
        let columns = [
            int(1),
            int(2),
            column(1, unsigned(TypeKind::Int)),
            column(1, SqlType::new(TypeKind::Date)),
            column(1, decimal(10, 2)),
            column(1, decimal(10, 3)),
            with_default(Value::Int(5)),
            with_default(Value::Int(6)),
            with_default(Value::Null),
        ];
        let names: Vec<FieldId> = (0..columns.len())
            .map(|col| field_of(&columns, col))
            .collect();
        for (nth, name) in names.iter().enumerate() {
            assert!(!names[..nth].contains(name), "{nth}");
        }
    }
}
