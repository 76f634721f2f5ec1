//! What histograms say, against the rows they were made of.

use std::ops::Bound;

use esker_types::collation::Collation;
use esker_types::{SqlType, TypeKind, Value};

use super::*;

fn column(ty: SqlType) -> ColumnDef {
    ColumnDef::plain(7, ty)
}

fn made(column: &ColumnDef, values: &[Value], buckets: u32, sampling_rate: f64) -> Histogram {
    let mut collector = Collector::new(column);
    for value in values {
        collector.add(value.as_ref()).expect("of the column's type");
    }
    let wanted = Wanted {
        buckets,
        sampling_rate,
        now_micros: 1,
        auto_update: false,
    };
    collector.finish(column, wanted).expect("encodes")
}

fn key(histogram: &Histogram, value: &Value) -> Vec<u8> {
    let mut key = Vec::new();
    let encoded = histogram
        .codec()
        .encode_part(0, value.as_ref(), &UTC, &mut key);
    encoded.expect("encodes");
    key
}

/// Share of the rows that equal a value.
fn equal(histogram: &Histogram, value: &Value) -> f64 {
    histogram.share(&[KeyRange::prefix(key(histogram, value))])
}

/// Share of the rows from one value on and before another.
fn between(histogram: &Histogram, low: i64, high: i64) -> f64 {
    let [low, high] = [low, high].map(|v| key(histogram, &Value::Int(v)));
    histogram.share(&[KeyRange {
        lower: Bound::Included(low),
        upper: Bound::Excluded(high),
    }])
}

fn nullable_int() -> ColumnDef {
    column(SqlType::new(TypeKind::Int).with_nullable(true))
}

/// 100 rows: a quarter NULL, a quarter 1, half 2.
fn few() -> Vec<Value> {
    let value = |n| match n % 4 {
        0 => Value::Null,
        1 => Value::Int(1),
        _ => Value::Int(2),
    };
    (0..100).map(value).collect()
}

#[test]
fn few_values_have_a_bucket_each() {
    let h = made(&nullable_int(), &few(), 10, 1.0);
    assert!(h.about.singleton);
    assert_eq!(h.buckets.len(), 2);
    assert_eq!((h.about.nulls, h.not_null()), (0.25, 0.75));
    assert_eq!(equal(&h, &Value::Int(1)), 0.25);
    assert_eq!(equal(&h, &Value::Int(2)), 0.5);
    assert_eq!(equal(&h, &Value::Int(3)), 0.0);
    assert_eq!(equal(&h, &Value::Null), 0.25);
    assert_eq!(between(&h, 2, 100), 0.5);
    assert_eq!(between(&h, -5, 2), 0.25);
    assert_eq!(h.share(&[KeyRange::ALL]), 1.0);
    assert_eq!(h.share_of_any(), 0.375);
}

#[test]
fn many_values_share_buckets_and_frequent_ones_have_their_own() {
    // 1,000 different values, and 1,000 times the same one.
    let once = (0..1000).map(Value::Int);
    let often = (0..1000).map(|_| Value::Int(500));
    let values: Vec<Value> = once.chain(often).collect();
    let h = made(&nullable_int(), &values, 20, 1.0);
    assert!(!h.about.singleton);
    assert!((10..=20).contains(&h.buckets.len()), "{}", h.buckets.len());
    assert!((equal(&h, &Value::Int(500)) - 0.5).abs() < 0.01);
    assert!((equal(&h, &Value::Int(100)) - 0.0005).abs() < 0.0001);
    assert!((between(&h, 0, 250) - 0.125).abs() < 0.01);
    assert!((between(&h, 600, 700) - 0.05).abs() < 0.01);
    assert_eq!(between(&h, 5000, 6000), 0.0);
    assert!((h.distinct() - 1000.0).abs() < 1.0);
    assert_eq!(h.not_null(), 1.0);
}

#[test]
fn a_sample_stands_for_values_that_it_does_not_have() {
    let values: Vec<Value> = (0..1000).map(|n| Value::Int(n * 100)).collect();
    let h = made(&nullable_int(), &values, 10, 0.01);
    assert!(h.distinct() > 9_000.0, "{}", h.distinct());
    // Values that come again and again were all met.
    let values: Vec<Value> = (0..1000).map(|n| Value::Int(n % 50)).collect();
    let h = made(&nullable_int(), &values, 10, 0.01);
    assert!((h.distinct() - 50.0).abs() < 1.0, "{}", h.distinct());
}

#[test]
fn texts_count_by_their_beginning_and_in_their_collation() {
    let column = column(SqlType::varchar(200, Collation::UTF8MB4_0900_AI_CI));
    let long = |end: &str| Value::str("x".repeat(60) + end);
    let values = [Value::str("a"), Value::str("A"), long("1"), long("2")];
    let h = made(&column, &values, 10, 1.0);
    assert_eq!(h.buckets.len(), 2);
    assert_eq!(equal(&h, &Value::str("a")), 0.5);
    assert!(matches!(&h.buckets[1].upper, Value::Str(s) if s.len() == 42));
}

#[test]
fn nothing_is_nothing() {
    let h = made(&nullable_int(), &[], 10, 1.0);
    assert!(h.buckets.is_empty());
    assert_eq!(equal(&h, &Value::Int(1)), 0.0);
    assert_eq!(h.share_of_any(), 0.0);
    let h = made(&nullable_int(), &[Value::Null], 10, 1.0);
    assert_eq!(h.share(&[KeyRange::ALL]), 1.0);
}

#[test]
fn bytes_come_back_and_damage_is_an_error() {
    let columns = [
        nullable_int(),
        column(SqlType::varchar(9, Collation::UTF8MB4_BIN)),
    ];
    let texts: Vec<Value> = (0..50).map(|n| Value::str(format!("t{n}"))).collect();
    for (column, values) in columns.iter().zip([few(), texts]) {
        let h = made(column, &values, 8, 0.5);
        let bytes = write_histogram(&h);
        let back = read_histogram(&bytes, column).expect("reads");
        assert_eq!(format!("{:?}", back.buckets), format!("{:?}", h.buckets));
        assert_eq!(back.about, h.about);
        assert!(back.is_of(column));
        for length in 0..bytes.len() {
            assert!(read_histogram(&bytes[..length], column).is_err());
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x41;
            // Some changes make another histogram; none is a panic.
            let _ = read_histogram(&bytes, column);
        }
    }
    let h = made(&columns[0], &few(), 8, 1.0);
    let other = read_histogram(&write_histogram(&h), &columns[1]);
    assert!(other.is_err() || !h.is_of(&columns[1]));
}
