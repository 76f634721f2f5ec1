//! WEIGHT_STRING: the bytes by which a value is sorted.
//!
//! Neighbours: `collation` has the weights of texts; the parser gives `AS CHAR(n)`, `AS BINARY(n)` and the form with
//! numbers names of their own.
//! **Invariants**: of two texts of one PAD SPACE collation that are cut to one length, the smaller has the smaller
//! weight string; DECIMAL, DOUBLE and FLOAT values have none.

use super::call::{Call, string};
use super::ret::{const_int, string_type, text_chars};
use super::{ArgType, FuncDef, PURE, RetCtx, Signature, def};
use crate::collation::{Collation, char_count, char_offset};
use crate::ctx::Work;
use crate::error::SqlResult;
use crate::sqltype::TypeKind;
use crate::temporal::Time;
use crate::value::Value;

pub(super) const DEFS: &[FuncDef] = &[
    def("weight_string", 1, 1, PURE, ret_weights, weight_string),
    def("weight_string_char", 2, 2, PURE, ret_cut, of_chars),
    def("weight_string_binary", 2, 2, PURE, ret_cut, of_bytes),
    def("weight_string_sized", 4, 4, PURE, ret_sized, sized),
];

/// A flag of the form with numbers: the weights are padded to so many bytes.
const PAD_TO_LENGTH: i128 = 0x80;

/// Most bytes of weights that a character has.
const BYTES_PER_CHAR: u64 = 64;
/// Bytes of a number's weight.
const NUMBER: u64 = 8;

fn ret_weights(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let bytes = match args[0].ty.is_string() {
        true => u64::from(text_chars(&args[0].ty)) * BYTES_PER_CHAR,
        false => NUMBER,
    };
    Ok(Signature::plain(string_type(bytes, Collation::BINARY)))
}

fn ret_cut(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let length = const_int(args.get(1)).unwrap_or(0).unsigned_abs();
    let bytes = length.saturating_mul(BYTES_PER_CHAR).max(NUMBER);
    Ok(Signature::plain(string_type(bytes, Collation::BINARY)))
}

fn ret_sized(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let bytes = const_int(args.get(1)).unwrap_or(0).unsigned_abs();
    match bytes {
        0 => ret_weights(&args[..1], ctx),
        bytes => {
            let ret = string_type(bytes.max(NUMBER), Collation::BINARY);
            Ok(Signature::plain(ret))
        }
    }
}

/// The weight of what is no text; `None`: it has none, or is a text.
fn of_number(c: &Call) -> Option<Value> {
    let signed = |v: i64| (v as u64 ^ 1 << 63).to_be_bytes();
    let packed = |v: u64| (v | 1 << 63).to_be_bytes();
    let weight = match (c.args[0], c.ty(0).kind.clone()) {
        (Value::Int(v), TypeKind::Year) => (*v as u64).to_be_bytes(),
        (Value::Int(v), _) => signed(*v),
        (Value::UInt(v) | Value::Bit(v, _), _) => v.to_be_bytes(),
        (Value::Label(v, _), _) => packed(*v),
        (Value::Date(d), _) => packed(u64::from(d.packed())),
        (Value::DateTime(d), _) => packed(d.packed()),
        (Value::Time(t), _) => signed(time_bits(*t)),
        (Value::Double(_) | Value::Decimal(_), _) => return Some(Value::Null),
        (Value::Null | Value::Str(_) | Value::Json(_), _) => return None,
    };
    Some(Value::Str(weight.to_vec()))
}

/// What MySQL adds to a TIME, so that it is never below zero.
const TIME_OFFSET: i64 = 0x80_0000 << 24;

/// Hours, minutes, seconds and microseconds side by side, as MySQL has them.
fn time_bits(t: Time) -> i64 {
    let seconds = t.hour() << 12 | t.minute() << 6 | t.second();
    let bits = i64::from(seconds) << 24 | i64::from(t.microsecond());
    TIME_OFFSET + if t.is_negative() { -bits } else { bits }
}

/// A text as warnings show it, whose characters beyond ASCII are bytes.
fn shown(text: &[u8]) -> String {
    let mut out = String::new();
    for byte in text {
        match byte {
            0x20..0x7F => out.push(char::from(*byte)),
            _ => out.push_str(&format!("\\x{byte:02X}")),
        }
    }
    out
}

/// Documents are sorted by their text here, as in MySQL.
fn collation(c: &Call) -> Collation {
    match c.ty(0).kind {
        TypeKind::Json => Collation::UTF8MB4_BIN,
        _ => c.ty(0).collation,
    }
}

fn text(c: &Call) -> Vec<u8> {
    crate::cast::to_str(c.args[0], c.ty(0)).into_owned()
}

fn weight_string(c: &Call) -> SqlResult<Value> {
    match of_number(c) {
        Some(weight) => Ok(weight),
        None => {
            let mut work = Work::new(c.ctx.session);
            string(collation(c).weight_string(&text(c), None, &mut work)?)
        }
    }
}

/// AS CHAR(n): of so many characters, with spaces behind a text that has fewer.
fn of_chars(c: &Call) -> SqlResult<Value> {
    if let Some(weight) = of_number(c) {
        return Ok(weight);
    }
    let (mut text, chars, collation) = (text(c), c.count(1)?, collation(c));
    let cut = match collation.is_binary() {
        true => chars.min(text.len()),
        false => char_offset(&text, chars),
    };
    text.truncate(cut);
    let missing = chars - char_count(&text).min(chars);
    if c.too_large("weight_string", chars as u128 * u128::from(BYTES_PER_CHAR))? {
        return Ok(Value::Null);
    }
    let mut work = Work::new(c.ctx.session);
    string(collation.weight_string(&text, Some(missing), &mut work)?)
}

/// So many bytes of the weights of so many characters, of all where a number is 0.
fn sized(c: &Call) -> SqlResult<Value> {
    if let Some(weight) = of_number(c) {
        return Ok(weight);
    }
    let (bytes, chars, flags) = (c.count(1)?, c.count(2)?, c.integer(3)?);
    let (mut text, collation) = (text(c), collation(c));
    if c.too_large("weight_string", bytes as u128)? {
        return Ok(Value::Null);
    }
    if chars > 0 {
        text.truncate(match collation.is_binary() {
            true => chars.min(text.len()),
            false => char_offset(&text, chars),
        });
    }
    let pads = flags & PAD_TO_LENGTH != 0;
    let mut work = Work::new(c.ctx.session);
    let padding = pads.then_some(bytes);
    let mut weights = collation.weight_string(&text, padding, &mut work)?;
    if bytes > 0 {
        weights.truncate(bytes);
        if pads {
            weights.resize(bytes, 0);
        }
    }
    string(weights)
}

/// AS BINARY(n): the bytes, so many, with zeros behind.
fn of_bytes(c: &Call) -> SqlResult<Value> {
    let (mut bytes, wanted) = (c.bytes(0).into_owned(), c.count(1)?);
    if c.too_large("weight_string", wanted as u128)? {
        return Ok(Value::Null);
    }
    if bytes.len() > wanted {
        let shown = shown(&bytes);
        c.warn(
            1292,
            format!("Truncated incorrect BINARY({wanted}) value: '{shown}'"),
        );
    }
    bytes.resize(wanted, 0);
    string(bytes)
}
