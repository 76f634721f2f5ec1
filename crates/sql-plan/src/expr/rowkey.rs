//! Normalized keys: bytes that stand for values when rows are sorted, grouped, made distinct or hashed.
//!
//! ```text
//! value   0 = NULL | 1 followed by:
//!   integers   0 (negative) or 1, then 8 bytes big endian
//!   doubles    8 bytes, order-preserving
//!   decimals   sign, exponent, digits
//!   temporals  8 bytes; BIT, ENUM, SET: 8 bytes
//!   JSON       its own sort key
//!   strings    sort key of the collation, 00 escaped as 00 FF, ended by 00 01
//! DESC inverts every byte
//! ```
//! Neighbours: `exec`'s sorts, groups, joins and sets, and `dml` for duplicate target rows; `plan` asks which types
//! share a representation. Index keys are `codec`'s affair; these bytes never reach a disk.
//! **Invariants**: memcmp order of the bytes is the values' order with NULL first (last for DESC);
//! equal bytes mean equal values; values of one column share one representation.

use esker_types::cmp::{self, CmpKind};
use esker_types::collation::Collation;
use esker_types::json::{self, JsonRef};
use esker_types::{Decimal, EvalCtx, SqlResult, SqlType, TypeKind, Value, cast};

const NULL: u8 = 0;
const NOT_NULL: u8 = 1;
/// An integer below zero, where keys have no order.
const BELOW_ZERO: u8 = 2;

/// Appends a number in as few bytes as it needs.
#[inline]
pub fn put_number(mut v: u64, out: &mut Vec<u8>) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

/// Reads what [`put_number`] wrote.
#[inline]
pub fn number(bytes: &mut &[u8]) -> Option<u64> {
    let (mut v, mut shift) = (0, 0);
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        v |= u64::from(byte & 0x7F).checked_shl(shift)?;
        if *byte < 0x80 {
            return Some(v);
        }
        shift += 7;
    }
}

/// Appends the key of one value.
pub fn encode(value: &Value, ty: &SqlType, desc: bool, out: &mut Vec<u8>) {
    let start = out.len();
    encode_asc(value, ty.collation, out);
    if desc {
        for b in &mut out[start..] {
            *b = !*b;
        }
    }
}

fn encode_asc(value: &Value, collation: Collation, out: &mut Vec<u8>) {
    if value.is_null() {
        out.push(NULL);
        return;
    }
    out.push(NOT_NULL);
    match value {
        Value::Null => unreachable!("handled above"),
        Value::Int(v) => {
            out.push(u8::from(*v >= 0));
            out.extend_from_slice(&v.to_be_bytes());
        }
        Value::UInt(v) => {
            out.push(1);
            out.extend_from_slice(&v.to_be_bytes());
        }
        Value::Double(v) => out.extend_from_slice(&double_key(*v).to_be_bytes()),
        Value::Decimal(d) => decimal_key(d, out),
        Value::Str(s) => text_key(s, collation, out),
        Value::Json(doc) => json::sort_key(JsonRef::new(doc), out),
        Value::Date(d) => out.extend_from_slice(&u64::from(d.packed()).to_be_bytes()),
        Value::Time(t) => out.extend_from_slice(&t.packed().to_be_bytes()),
        Value::DateTime(d) => out.extend_from_slice(&d.packed().to_be_bytes()),
        Value::Bit(v, _) | Value::Label(v, _) => out.extend_from_slice(&v.to_be_bytes()),
    }
}

fn text_key(text: &[u8], collation: Collation, out: &mut Vec<u8>) {
    if collation.is_binary() {
        escape(text, out);
    } else {
        let start = out.len();
        collation.sort_key(text, out);
        escape_in_place(start, out);
    }
}

/// May two columns be compared through [`encode_compared`]: do equal values of both have equal bytes?
pub fn same_representation(a: &SqlType, b: &SqlType, kind: CmpKind) -> bool {
    let both = |f: fn(&SqlType) -> bool| f(a) && f(b);
    let is_exact = |t: &SqlType| t.is_integer() || t.kind == TypeKind::Decimal;
    match kind {
        CmpKind::Int => both(SqlType::is_integer),
        CmpKind::Decimal => is_exact(a) && is_exact(b),
        CmpKind::Double => {
            let is_double = |t: &SqlType| matches!(t.kind, TypeKind::Double | TypeKind::Float);
            let sides = [a, b];
            let has_text = sides.iter().any(|t| t.is_string());
            sides
                .iter()
                .all(|t| is_double(t) || has_text && (t.is_string() || is_exact(t)))
                || sides
                    .iter()
                    .all(|t| is_exact(t) || t.kind == TypeKind::Double)
        }
        CmpKind::Str(_) => {
            both(|t| t.is_string() || t.is_label()) && a.collation.same_bytes(b.collation)
        }
        CmpKind::Json => both(|t| t.kind == TypeKind::Json),
        CmpKind::Time => both(|t| t.kind == TypeKind::Time),
        CmpKind::DateTime => both(|t| t.is_string() || t.is_temporal() && t.kind != TypeKind::Time),
    }
}

/// Appends the key under which a value is found that is compared in the given domain; see [`same_representation`]. A
/// text beside numbers or dates is taken for one.
///
/// # Errors
/// 1292 in a change of rows: the text is none.
pub fn encode_compared(
    ctx: &EvalCtx<'_>,
    value: &Value,
    kind: CmpKind,
    out: &mut Vec<u8>,
) -> SqlResult<()> {
    match (value, kind) {
        (Value::Str(_), CmpKind::Double) => {
            encode_for(&Value::Double(cast::to_f64(ctx, value)?), kind, out);
        }
        (Value::Str(_), CmpKind::DateTime) => {
            encode_for(&Value::DateTime(cmp::moment_of(ctx, value)?), kind, out);
        }
        _ => encode_for(value, kind, out),
    }
    Ok(())
}

/// Appends the key under which a value is found in the given domain; see [`same_representation`]. It says what is
/// equal, not what is less: integers, as most keys of joins are, take no more bytes than they need.
pub fn encode_for(value: &Value, kind: CmpKind, out: &mut Vec<u8>) {
    match (value, kind) {
        (Value::Int(_) | Value::UInt(_) | Value::Decimal(_), CmpKind::Double) => {
            encode_asc(&Value::Double(double_of(value)), Collation::BINARY, out);
        }
        (Value::Int(v), CmpKind::Decimal) => {
            out.push(NOT_NULL);
            decimal_key(&Decimal::from_i128((*v).into(), 0), out);
        }
        (Value::UInt(v), CmpKind::Decimal) => {
            out.push(NOT_NULL);
            decimal_key(&Decimal::from_i128((*v).into(), 0), out);
        }
        (Value::Int(v), _) if *v < 0 => {
            out.push(BELOW_ZERO);
            put_number(!*v as u64, out);
        }
        (Value::Int(v), _) => {
            out.push(NOT_NULL);
            put_number(*v as u64, out);
        }
        (Value::UInt(v), _) => {
            out.push(NOT_NULL);
            put_number(*v, out);
        }
        (Value::Date(d), CmpKind::DateTime) => {
            encode_asc(&Value::DateTime(d.at_midnight()), Collation::BINARY, out);
        }
        (Value::Label(_, text), CmpKind::Str(collation)) => {
            out.push(NOT_NULL);
            text_key(text, collation, out);
        }
        (_, CmpKind::Str(collation)) => encode_asc(value, collation, out),
        _ => encode_asc(value, Collation::BINARY, out),
    }
}

/// A number as doubles compare it.
fn double_of(value: &Value) -> f64 {
    match value {
        Value::Int(v) => *v as f64,
        Value::UInt(v) => *v as f64,
        Value::Decimal(d) => d.to_f64(),
        _ => unreachable!("a number that is no double"),
    }
}

/// The integer whose key from [`encode_for`] this is, if it is that of an integer of 64 bits with a sign. Keys of other
/// domains may look like one.
#[inline]
pub fn integer_of(key: &[u8]) -> Option<i64> {
    let (sign, mut rest) = key.split_first()?;
    let digits = i64::try_from(number(&mut rest)?).ok()?;
    match (*sign, rest) {
        (NOT_NULL, []) => Some(digits),
        (BELOW_ZERO, []) => Some(!digits),
        _ => None,
    }
}

/// Appends the keys of a row.
pub fn encode_row<'a>(
    values: impl IntoIterator<Item = (&'a Value, &'a SqlType)>,
    out: &mut Vec<u8>,
) {
    for (value, ty) in values {
        encode(value, ty, false, out);
    }
}

/// Order-preserving bits; -0 and 0 are one value.
fn double_key(v: f64) -> u64 {
    let bits = if v == 0.0 { 0 } else { v.to_bits() };
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    }
}

/// Sign, exponent (digits before the point, biased), significant digits, end; inverted below zero.
fn decimal_key(d: &Decimal, out: &mut Vec<u8>) {
    let text = d.to_string();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.as_str()),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let significant = |s: &str| s.bytes().filter(|b| *b != b'0').count() > 0;
    if !significant(whole) && !significant(fraction) {
        out.push(1);
        return;
    }
    out.push(if negative { 0 } else { 2 });
    let start = out.len();
    let whole = whole.trim_start_matches('0');
    let leading = fraction.len() - fraction.trim_start_matches('0').len();
    let exponent = if whole.is_empty() {
        128 - leading as i32
    } else {
        128 + whole.len() as i32
    };
    out.push(u8::try_from(exponent).expect("at most 65 digits on either side of the point"));
    let first = if whole.is_empty() { leading } else { 0 };
    let all = whole.bytes().chain(fraction.bytes().skip(first));
    out.extend(all.map(|b| b - b'0' + 1));
    while out.last() == Some(&1) {
        out.pop();
    }
    out.push(0);
    if negative {
        for b in &mut out[start..] {
            *b = !*b;
        }
    }
}

fn escape(s: &[u8], out: &mut Vec<u8>) {
    for part in s.split_inclusive(|b| *b == 0) {
        out.extend_from_slice(part);
        if part.last() == Some(&0) {
            out.push(0xFF);
        }
    }
    out.extend_from_slice(&[0, 1]);
}

/// Escapes what begins at `start` and ends it.
fn escape_in_place(start: usize, out: &mut Vec<u8>) {
    let zeros = out[start..].iter().filter(|b| **b == 0).count();
    if zeros > 0 {
        let (mut from, mut to) = (out.len(), out.len() + zeros);
        out.resize(to, 0);
        while from > start {
            from -= 1;
            to -= 1;
            if out[from] == 0 {
                out[to] = 0xFF;
                to -= 1;
            }
            out[to] = out[from];
        }
    }
    out.extend_from_slice(&[0, 1]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(v: &Value, ty: &SqlType) -> Vec<u8> {
        let mut out = Vec::new();
        encode(v, ty, false, &mut out);
        out
    }

    #[test]
    fn integers_of_both_signs_share_an_order() {
        let ty = SqlType::bigint(false);
        let values = [
            Value::Null,
            Value::Int(i64::MIN),
            Value::Int(-1),
            Value::Int(0),
            Value::Int(i64::MAX),
            Value::UInt(u64::MAX),
        ];
        assert!(values.windows(2).all(|w| key(&w[0], &ty) < key(&w[1], &ty)));
        assert_eq!(key(&Value::Int(5), &ty), key(&Value::UInt(5), &ty));
    }

    #[test]
    fn integers_are_found_whatever_their_sign_and_type() {
        let found = |v: &Value| {
            let mut out = Vec::new();
            encode_for(v, CmpKind::Int, &mut out);
            out
        };
        assert_eq!(found(&Value::Int(7)), found(&Value::UInt(7)));
        let different = [0, 1, -1, 127, 128, -128, i64::MAX, i64::MIN].map(Value::Int);
        for (nth, a) in different.iter().enumerate() {
            for b in &different[..nth] {
                assert_ne!(found(a), found(b));
            }
        }
        assert_ne!(found(&Value::Int(-1)), found(&Value::UInt(u64::MAX)));
        assert_ne!(found(&Value::Null), found(&Value::Int(0)));
        for value in &different {
            let Value::Int(v) = value else { continue };
            assert_eq!(integer_of(&found(value)), Some(*v));
        }
        assert_eq!(integer_of(&found(&Value::UInt(u64::MAX))), None);
        assert_eq!(integer_of(&found(&Value::Null)), None);
    }

    #[test]
    fn decimals_order_by_value_and_ignore_scale() {
        let ty = SqlType::decimal(20, 5);
        let d = |s: &str| Value::Decimal(Decimal::parse(s.as_bytes()).0);
        let sorted = [
            "-100.5", "-100", "-9.99", "-0.001", "0", "0.0009", "0.01", "1", "1.5", "10", "99",
        ];
        for w in sorted.windows(2) {
            assert!(
                key(&d(w[0]), &ty) < key(&d(w[1]), &ty),
                "{} < {}",
                w[0],
                w[1]
            );
        }
        assert_eq!(key(&d("1.50"), &ty), key(&d("1.5"), &ty));
        assert_eq!(key(&d("-0.00"), &ty), key(&d("0"), &ty));
        assert_eq!(key(&d("100"), &ty), key(&d("100.000"), &ty));
    }

    #[test]
    fn strings_follow_their_collation_and_do_not_run_into_each_other() {
        let bin = SqlType::varchar(10, Collation::BINARY);
        let s = |t: &[u8]| Value::Str(t.to_vec());
        let sorted: [&[u8]; 5] = [b"", b"\0", b"\0\0", b"a", b"a\0"];
        for w in sorted.windows(2) {
            assert!(key(&s(w[0]), &bin) < key(&s(w[1]), &bin));
        }
        let ci = SqlType::varchar(10, Collation::UTF8MB4_GENERAL_CI);
        assert_eq!(key(&s(b"Abc"), &ci), key(&s(b"aBC"), &ci));
        assert!(key(&s(b"abc"), &ci) < key(&s(b"B"), &ci));
    }

    #[test]
    fn descending_turns_everything_around() {
        let ty = SqlType::new(TypeKind::Double);
        let desc = |v: &Value| {
            let mut out = Vec::new();
            encode(v, &ty, true, &mut out);
            out
        };
        assert!(desc(&Value::Double(2.0)) < desc(&Value::Double(-3.5)));
        assert!(desc(&Value::Double(-3.5)) < desc(&Value::Null));
        assert_eq!(desc(&Value::Double(-0.0)), desc(&Value::Double(0.0)));
    }
}
