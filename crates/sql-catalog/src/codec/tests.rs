//! Rows and keys there and back, and the order of keys.

use std::sync::Arc;

use esker_types::collation::Collation;
use esker_types::{Date, DateTime, Decimal, SqlType, Time, TypeKind, Value, ValueRef};
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;
use crate::catalog::{ColumnDef, IndexPart};

fn column(id: u32, ty: SqlType) -> ColumnDef {
    ColumnDef::plain(id, ty)
}

fn layout(columns: &[ColumnDef]) -> RowLayout {
    RowLayout::new(columns, vec![LayoutVersion::of(columns)])
}

fn text(v: ValueRef<'_>) -> String {
    format!("{v:?}")
}

fn at(year: u32, month: u32, day: u32, hour: u32) -> DateTime {
    DateTime::new(
        Date::new(year, month, day).expect("date"),
        hour,
        30,
        0,
        250_000,
    )
    .expect("time")
}

fn every_type() -> Vec<(SqlType, Value)> {
    let unsigned = |kind| SqlType {
        unsigned: true,
        ..SqlType::new(kind)
    };
    let labels: Arc<[Arc<str>]> = Arc::from([Arc::from("small"), Arc::from("large")]);
    vec![
        (SqlType::new(TypeKind::TinyInt), Value::Int(-128)),
        (unsigned(TypeKind::SmallInt), Value::UInt(65_535)),
        (SqlType::new(TypeKind::MediumInt), Value::Int(-8_388_608)),
        (SqlType::new(TypeKind::Int), Value::Int(i64::from(i32::MIN))),
        (SqlType::bigint(false), Value::Int(i64::MIN)),
        (SqlType::bigint(true), Value::UInt(u64::MAX)),
        (SqlType::new(TypeKind::Year), Value::Int(2026)),
        (
            SqlType::new(TypeKind::Float),
            Value::Double(f64::from(1.5f32)),
        ),
        (SqlType::new(TypeKind::Double), Value::Double(-0.1)),
        (
            SqlType::decimal(10, 2),
            Value::Decimal(Decimal::parse(b"-12345678.90").0),
        ),
        (
            SqlType::new(TypeKind::Date),
            Value::Date(Date::new(2026, 2, 28).expect("date")),
        ),
        (
            SqlType::new(TypeKind::Time),
            Value::Time(Time::from_micros(-5).expect("time")),
        ),
        (
            SqlType::new(TypeKind::DateTime),
            Value::DateTime(at(2026, 7, 1, 12)),
        ),
        (
            SqlType::new(TypeKind::Timestamp),
            Value::DateTime(at(2026, 7, 1, 12)),
        ),
        (
            SqlType::varchar(9, Collation::UTF8MB4_BIN),
            Value::str("héllo"),
        ),
        (
            SqlType::varchar(9, Collation::BINARY),
            Value::Str(vec![0, 255, 0]),
        ),
        (
            SqlType {
                length: 12,
                ..SqlType::new(TypeKind::Bit)
            },
            Value::Bit(0xABC, 12),
        ),
        (
            SqlType::new(TypeKind::Enum(labels.clone())),
            Value::Label(2, b"large"[..].into()),
        ),
        (
            SqlType::new(TypeKind::Set(labels)),
            Value::Label(3, b"small,large"[..].into()),
        ),
    ]
}

#[test]
fn every_type_survives_a_row() {
    let (types, mut values): (Vec<_>, Vec<_>) = every_type().into_iter().unzip();
    let mut columns: Vec<ColumnDef> = types
        .into_iter()
        .enumerate()
        .map(|(i, ty)| column(i as u32 + 1, ty))
        .collect();
    columns.push(column(99, SqlType::new(TypeKind::Text)));
    values.push(Value::Null);
    let layout = layout(&columns);
    let zone = TimeZone::get("Europe/Berlin").expect("zone");
    let mut bytes = Vec::new();
    encode_row(&layout, &zone, &values, &mut bytes).expect("encodes");
    let row = RowReader::new(&layout, &zone, &bytes).expect("reads");
    for (i, value) in values.iter().enumerate() {
        assert_eq!(text(row.field(i)), text(value.as_ref()), "column {i}");
        assert_eq!(row.is_null(i), value.is_null());
    }
}

#[test]
fn a_timestamp_is_an_instant_whatever_the_zone() {
    let columns = [column(1, SqlType::new(TypeKind::Timestamp))];
    let layout = layout(&columns);
    let berlin = TimeZone::get("Europe/Berlin").expect("zone");
    let mut bytes = Vec::new();
    encode_row(
        &layout,
        &berlin,
        &[Value::DateTime(at(2026, 7, 1, 12))],
        &mut bytes,
    )
    .expect("ok");
    let row = RowReader::new(&layout, &berlin, &bytes).expect("reads");
    let utc = row.in_zone(&UTC).field(0);
    assert_eq!(text(utc), text(ValueRef::DateTime(at(2026, 7, 1, 10))));
}

#[test]
fn long_values_use_wide_offsets() {
    let columns = [
        column(1, SqlType::new(TypeKind::LongText)),
        column(2, SqlType::new(TypeKind::Int)),
        column(3, SqlType::new(TypeKind::Text)),
    ];
    let layout = layout(&columns);
    let values = [
        Value::Str(vec![b'x'; 70_000]),
        Value::Int(7),
        Value::str("tail"),
    ];
    let mut bytes = Vec::new();
    encode_row(&layout, &UTC, &values, &mut bytes).expect("encodes");
    let row = RowReader::new(&layout, &UTC, &bytes).expect("reads");
    for (i, value) in values.iter().enumerate() {
        assert_eq!(text(row.field(i)), text(value.as_ref()));
    }
}

#[test]
fn patching_changes_only_what_it_is_told() {
    let columns = [
        column(1, SqlType::new(TypeKind::Int)),
        column(2, SqlType::varchar(10, Collation::UTF8MB4_BIN)),
        column(3, SqlType::new(TypeKind::Double)),
    ];
    let layout = layout(&columns);
    let zone = &UTC;
    let mut old = Vec::new();
    let values = [Value::Int(1), Value::str("abc"), Value::Null];
    encode_row(&layout, zone, &values, &mut old).expect("encodes");
    let row = RowReader::new(&layout, zone, &old).expect("reads");
    let change = Value::str("longer");
    let mut new = Vec::new();
    patch_row(
        &layout,
        zone,
        &row,
        |c| (c == 1).then_some(&change),
        &mut new,
    )
    .expect("patches");
    let mut expected = Vec::new();
    let values = [Value::Int(1), Value::str("longer"), Value::Null];
    encode_row(&layout, zone, &values, &mut expected).expect("encodes");
    assert_eq!(new, expected);
}

#[test]
fn older_rows_read_added_columns_and_skip_dropped_ones() {
    let first = [
        column(1, SqlType::new(TypeKind::Int)),
        column(2, SqlType::varchar(10, Collation::UTF8MB4_BIN)),
        column(3, SqlType::new(TypeKind::Int)),
    ];
    let old_layout = layout(&first);
    let zone = &UTC;
    let mut bytes = Vec::new();
    let values = [Value::Int(1), Value::str("gone"), Value::Int(3)];
    encode_row(&old_layout, zone, &values, &mut bytes).expect("encodes");

    // Column 2 is dropped, column 4 comes first and has a default.
    let mut added = column(4, SqlType::new(TypeKind::Timestamp));
    added.instant_default = Some(Value::DateTime(at(2026, 1, 1, 10)));
    let now = [added, first[0].clone(), first[2].clone()];
    let versions = vec![LayoutVersion::of(&first), LayoutVersion::of(&now)];
    let new_layout = RowLayout::new(&now, versions);
    let berlin = TimeZone::get("Europe/Berlin").expect("zone");
    let row = RowReader::new(&new_layout, &berlin, &bytes).expect("reads");
    assert!(!row.is_current());
    assert_eq!(
        text(row.field(0)),
        text(ValueRef::DateTime(at(2026, 1, 1, 11)))
    );
    assert_eq!(text(row.field(1)), "Int(1)");
    assert_eq!(text(row.field(2)), "Int(3)");

    let mut patched = Vec::new();
    let change = Value::Int(9);
    patch_row(
        &new_layout,
        &berlin,
        &row,
        |c| (c == 1).then_some(&change),
        &mut patched,
    )
    .expect("patches");
    let row = RowReader::new(&new_layout, &berlin, &patched).expect("reads");
    assert!(row.is_current());
    assert_eq!(
        text(row.field(0)),
        text(ValueRef::DateTime(at(2026, 1, 1, 11)))
    );
    assert_eq!(text(row.field(1)), "Int(9)");
    assert_eq!(text(row.field(2)), "Int(3)");
}

#[test]
fn damaged_rows_are_errors() {
    let columns = [
        column(1, SqlType::new(TypeKind::Int)),
        column(2, SqlType::varchar(10, Collation::UTF8MB4_BIN)),
    ];
    let layout = layout(&columns);
    let mut bytes = Vec::new();
    encode_row(
        &layout,
        &UTC,
        &[Value::Int(1), Value::str("abc")],
        &mut bytes,
    )
    .expect("encodes");
    for len in 0..bytes.len() {
        assert!(
            RowReader::new(&layout, &UTC, &bytes[..len]).is_err(),
            "length {len}"
        );
    }
    let mut newer = bytes.clone();
    newer[0] = 1;
    assert!(RowReader::new(&layout, &UTC, &newer).is_err());
}

fn part(col: usize) -> IndexPart {
    IndexPart {
        col,
        prefix_len: None,
        desc: false,
    }
}

fn key(codec: &KeyCodec, values: &[ValueRef<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    codec
        .encode_prefix(values, &UTC, &mut out)
        .expect("encodes");
    out
}

#[test]
fn every_reversible_part_decodes_and_all_are_self_delimiting() {
    for desc in [false, true] {
        for nullable in [false, true] {
            for (ty, value) in every_type() {
                let columns = [column(1, ty.clone().with_nullable(nullable))];
                let parts = [IndexPart {
                    col: 0,
                    prefix_len: None,
                    desc,
                }];
                let codec = KeyCodec::new(&columns, &parts, false, false);
                let mut bytes = key(&codec, &[value.as_ref()]);
                let len = bytes.len();
                bytes.extend_from_slice(b"\x00\x01tail");
                assert_eq!(codec.part_len(0, &bytes), Some(len), "{ty:?}");
                let decoded = codec.decode_part(0, &bytes, &UTC);
                if codec.is_reversible(0) {
                    let (got, rest) = decoded.expect("decodes");
                    assert_eq!(text(got), text(value.as_ref()), "{ty:?}");
                    assert_eq!(rest, b"\x00\x01tail");
                } else {
                    assert!(decoded.is_none(), "{ty:?}");
                }
            }
        }
    }
}

#[test]
fn ranges_hold_exactly_the_values_between_their_bounds() {
    let ty = SqlType::new(TypeKind::Int);
    for desc in [false, true] {
        let columns = [
            column(1, SqlType::new(TypeKind::Int)),
            column(2, ty.clone()),
        ];
        let parts = [
            part(0),
            IndexPart {
                col: 1,
                prefix_len: None,
                desc,
            },
        ];
        let codec = KeyCodec::new(&columns, &parts, false, false);
        let one = ValueRef::Int(1);
        let zone = &UTC;
        let mut candidates: Vec<(Option<i64>, Vec<u8>)> = [None, Some(i64::from(i32::MAX))]
            .into_iter()
            .chain((-3..4).map(Some))
            .map(|v| {
                (
                    v,
                    key(&codec, &[one, v.map_or(ValueRef::Null, ValueRef::Int)]),
                )
            })
            .collect();
        // What follows a key in an index must not matter.
        candidates
            .iter_mut()
            .for_each(|(_, k)| k.extend_from_slice(&[0xFF; 4]));
        let outside = key(&codec, &[ValueRef::Int(2), ValueRef::Int(0)]);
        type Limit = Option<(i64, bool)>;
        let cases: [(Limit, Limit); 6] = [
            (None, None),
            (Some((0, true)), None),
            (Some((0, false)), None),
            (None, Some((2, true))),
            (None, Some((2, false))),
            (Some((-2, false)), Some((i64::from(i32::MAX), true))),
        ];
        for (low, high) in cases {
            let bound = |l: Limit| l.map(|(v, inclusive)| (ValueRef::Int(v), inclusive));
            let range = codec
                .range(&[one], bound(low), bound(high), zone)
                .expect("range");
            let holds = |k: &Vec<u8>| {
                use std::ops::RangeBounds;
                (range.lower.clone(), range.upper.clone()).contains(k)
            };
            assert!(!holds(&outside));
            for (value, k) in &candidates {
                let wanted = match (value, low, high) {
                    (None, None, None) => true,
                    (None, ..) => false,
                    (Some(v), low, high) => {
                        low.is_none_or(|(l, inc)| *v > l || (inc && *v == l))
                            && high.is_none_or(|(h, inc)| *v < h || (inc && *v == h))
                    }
                };
                assert_eq!(
                    holds(k),
                    wanted,
                    "{value:?} in {low:?}..{high:?}, desc {desc}"
                );
            }
        }
    }
}

#[test]
fn an_entry_leads_back_to_its_row() {
    let columns = [
        column(1, SqlType::new(TypeKind::Int).with_nullable(false)),
        column(2, SqlType::varchar(10, Collation::UTF8MB4_BIN)),
    ];
    let layout = layout(&columns);
    let primary = KeyCodec::new(&columns, &[part(0)], true, true);
    let unique = KeyCodec::new(&columns, &[part(1)], true, false);
    let plain = KeyCodec::new(&columns, &[part(1)], false, false);
    for name in [Value::str("a\0b"), Value::Null] {
        let mut bytes = Vec::new();
        encode_row(&layout, &UTC, &[Value::Int(7), name.clone()], &mut bytes).expect("encodes");
        let row = RowReader::new(&layout, &UTC, &bytes).expect("reads");
        let mut clustered = Vec::new();
        primary.encode_row_parts(&row, &mut clustered).expect("key");
        let mut entry = Vec::new();
        for codec in [&unique, &plain] {
            let in_value = codec.entry(&row, &clustered, &mut entry).expect("entry");
            assert_eq!(in_value, std::ptr::eq(codec, &unique) && !name.is_null());
            let value: &[u8] = if in_value { &clustered } else { &[] };
            assert_eq!(codec.clustered_of(&entry, value).expect("found"), clustered);
        }
    }
}

#[test]
fn prefix_successor_skips_over_all_ff() {
    let mut key = vec![1, 0xFF, 0xFF];
    assert!(prefix_successor(&mut key));
    assert_eq!(key, [2]);
    assert!(!prefix_successor(&mut vec![0xFF]));
    assert!(!prefix_successor(&mut Vec::new()));
}

proptest! {
    #[test]
    fn keys_order_as_values_do(
        a in (any::<Option<i32>>(), proptest::collection::vec(any::<u8>(), 0..6)),
        b in (any::<Option<i32>>(), proptest::collection::vec(any::<u8>(), 0..6)),
        desc in any::<bool>(),
    ) {
        let columns = [
            column(1, SqlType::new(TypeKind::Int)),
            column(2, SqlType::varchar(10, Collation::BINARY)),
        ];
        let parts = [IndexPart { col: 0, prefix_len: None, desc }, part(1)];
        let codec = KeyCodec::new(&columns, &parts, false, false);
        let number = |v: Option<i32>| v.map_or(ValueRef::Null, |v| ValueRef::Int(v.into()));
        let of = |v: &(Option<i32>, Vec<u8>)| key(&codec, &[number(v.0), ValueRef::Str(&v.1)]);
        let first = if desc { b.0.cmp(&a.0) } else { a.0.cmp(&b.0) };
        prop_assert_eq!(of(&a).cmp(&of(&b)), first.then(a.1.cmp(&b.1)));
    }

    #[test]
    fn doubles_order_as_numbers(a in any::<f64>(), b in any::<f64>()) {
        prop_assume!(!a.is_nan() && !b.is_nan());
        let columns = [column(1, SqlType::new(TypeKind::Double))];
        let codec = KeyCodec::new(&columns, &[part(0)], false, false);
        let order = key(&codec, &[ValueRef::Double(a)]).cmp(&key(&codec, &[ValueRef::Double(b)]));
        prop_assert_eq!(Some(order), a.partial_cmp(&b));
    }

    #[test]
    fn readers_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let (types, _): (Vec<_>, Vec<_>) = every_type().into_iter().unzip();
        let columns: Vec<ColumnDef> =
            types.into_iter().enumerate().map(|(i, ty)| column(i as u32 + 1, ty)).collect();
        let layout = layout(&columns);
        if let Ok(row) = RowReader::new(&layout, &UTC, &bytes) {
            for i in 0..columns.len() {
                let _ = row.field(i);
            }
        }
        let parts: Vec<IndexPart> = (0..columns.len()).map(part).collect();
        let codec = KeyCodec::new(&columns, &parts, false, false);
        let _ = codec.clustered_of(&bytes, &[]);
        for i in 0..columns.len() {
            let _ = codec.decode_part(i, &bytes, &UTC);
        }
    }
}
