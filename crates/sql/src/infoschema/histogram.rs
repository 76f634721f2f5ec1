//! COLUMN_STATISTICS: histograms as the JSON that MySQL shows.
//!
//! Neighbours: `objects` has the other tables about schema objects.
//! **Invariant**: members are in MySQL's order of JSON objects: shorter names first, then by bytes.

use esker_sql_catalog::catalog::{Bucket, ColumnDef, Histogram, TableDef};
use esker_types::collation::Collation;
use esker_types::func::{WITHOUT_BREAKS, encode_base64};
use esker_types::{DateTime, SqlType, TypeKind, Value};
use jiff::tz::TimeZone;

use super::text;

/// The collation that MySQL gives numbers.
const NUMBERS: Collation = Collation(8);

/// The rows of a table's columns.
pub(super) fn rows(table: &TableDef, out: &mut Vec<Vec<Value>>) {
    for (col, column) in table.columns.iter().enumerate() {
        if let Some(histogram) = table.histogram(col) {
            let names = [&table.schema, &table.name, &column.name];
            let mut row: Vec<Value> = names.map(text).to_vec();
            row.push(Value::str(json(histogram, column)));
            out.push(row);
        }
    }
}

fn json(histogram: &Histogram, column: &ColumnDef) -> String {
    let about = &histogram.about;
    let ty = &column.ty;
    let buckets = histogram.buckets.iter();
    let buckets: Vec<String> = buckets.map(|b| bucket(b, about.singleton, ty)).collect();
    let collation = if ty.is_string() {
        ty.collation
    } else {
        NUMBERS
    };
    let updated = DateTime::from_utc(about.updated_micros, &TimeZone::UTC);
    let updated = updated.map_or_else(String::new, |t| t.format(6));
    format!(
        "{{\"buckets\": [{}], \"data-type\": \"{}\", \"auto-update\": {}, \"null-values\": {}, \
         \"collation-id\": {}, \"last-updated\": \"{updated}\", \"sampling-rate\": {}, \
         \"histogram-type\": \"{}\", \"number-of-buckets-specified\": {}}}",
        buckets.join(", "),
        data_type(ty),
        about.auto_update,
        double(about.nulls),
        collation.0,
        double(about.sampling_rate),
        if about.singleton {
            "singleton"
        } else {
            "equi-height"
        },
        about.buckets_specified,
    )
}

fn bucket(bucket: &Bucket, singleton: bool, ty: &SqlType) -> String {
    let (lower, share) = (value(&bucket.lower, ty), double(bucket.cumulative));
    if singleton {
        return format!("[{lower}, {share}]");
    }
    let upper = value(&bucket.upper, ty);
    format!("[{lower}, {upper}, {share}, {}]", bucket.distinct.round())
}

/// As JSON shows a number that is not an integer.
fn double(v: f64) -> String {
    format!("{v:?}")
}

/// What MySQL calls the kind of values.
fn data_type(ty: &SqlType) -> &'static str {
    match &ty.kind {
        TypeKind::Bit => "uint",
        _ if ty.is_integer() && ty.unsigned => "uint",
        _ if ty.is_integer() => "int",
        TypeKind::Float | TypeKind::Double => "double",
        TypeKind::Decimal => "decimal",
        TypeKind::Date => "date",
        TypeKind::Time => "time",
        TypeKind::DateTime | TypeKind::Timestamp => "datetime",
        TypeKind::Enum(_) => "enum",
        TypeKind::Set(_) => "set",
        _ => "string",
    }
}

fn value(value: &Value, ty: &SqlType) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Int(v) => v.to_string(),
        Value::UInt(v) | Value::Bit(v, _) | Value::Label(v, _) => v.to_string(),
        // A FLOAT has the digits that it can hold.
        Value::Double(v) if ty.kind == TypeKind::Float => format!("{:?}", *v as f32),
        Value::Double(v) => double(*v),
        Value::Decimal(v) => v.to_string(),
        Value::Date(v) => format!("\"{v}\""),
        Value::Time(v) => format!("\"{}\"", v.format(6)),
        Value::DateTime(v) => format!("\"{}\"", v.format(6)),
        // JSON columns have no histogram.
        Value::Str(v) | Value::Json(v) => {
            let coded = encode_base64(v, WITHOUT_BREAKS);
            format!("\"base64:type254:{}\"", String::from_utf8_lossy(&coded))
        }
    }
}
