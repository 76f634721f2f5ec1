//! The common type of several expressions: CASE, IF, COALESCE, GREATEST, UNION.
//!
//! Neighbours: `control` uses it for its functions, the binder for CASE and set operations.
//! **Invariant**: every value of every argument type can be [`convert`]ed to the merged type
//! (numbers among strings become text, never the other way round).

use super::call::Call;
use super::ret::{check_bytes, collation_of, exact_digits, string_type, text_chars, text_units};
use super::{ArgType, RetCtx, Signature};
use crate::cast;
use crate::collation::{Coercibility, Collation};
use crate::ctx::EvalCtx;
use crate::error::SqlResult;
use crate::geometry::{GeometryType, Shape};
use crate::sqltype::{NOT_FIXED_DECIMALS, SqlType, TypeKind};
use crate::temporal::DateFlags;
use crate::value::Value;

/// The type that holds the values of all `args` (NULL literals do not count), nullable when any
/// is; with the collation and coercibility of a string.
pub fn merge_types(args: &[ArgType], ctx: &RetCtx, operation: &str) -> SqlResult<Signature> {
    let mut types = args
        .iter()
        .map(|a| &a.ty)
        .filter(|t| t.kind != TypeKind::Null);
    let nullable = args
        .iter()
        .any(|a| a.ty.nullable || a.ty.kind == TypeKind::Null);
    let Some(first) = types.next() else {
        let ty = SqlType::new(TypeKind::Null);
        return Ok(Signature {
            coercibility: Coercibility::Ignorable,
            ..Signature::plain(ty)
        });
    };
    let mut merged = types.fold(first.clone(), |a, b| merge(&a, b));
    if merged.is_label() {
        merged = string_type(u64::from(text_chars(&merged)), merged.collation);
    }
    // An expression's DECIMAL has a sign.
    merged.unsigned &= merged.kind != TypeKind::Decimal;
    merged.zerofill &= args.len() == 1;
    merged.nullable = nullable;
    merged.own_scale = false;
    let mut sig = Signature::plain(merged);
    if sig.ret.is_string() {
        // Byte strings that insist less are characters, if they are any: that is seen when one is chosen.
        let as_bytes = |t: &SqlType| t.is_string() && t.collation.is_binary();
        let named = args.iter().map(|a| ArgType {
            ty: a.ty.clone(),
            value: a.value.filter(|_| !as_bytes(&a.ty)),
            ..*a
        });
        (sig.collation, sig.coercibility) =
            collation_of(&named.collect::<Vec<_>>(), ctx, operation)?;
        if args.iter().any(|a| a.ty.kind == TypeKind::Bit) {
            sig.collation = Collation::BINARY;
        }
        sig.ret.collation = sig.collation;
        if sig.collation.is_binary() && matches!(sig.ret.kind, TypeKind::Char | TypeKind::VarChar) {
            let bytes = args.iter().map(|a| text_units(&a.ty, sig.collation)).max();
            sig.ret.length = u32::try_from(bytes.unwrap_or(0)).unwrap_or(u32::MAX);
        }
    }
    Ok(sig)
}

fn merge(a: &SqlType, b: &SqlType) -> SqlType {
    if a == b || (a.kind == TypeKind::Json && b.kind == TypeKind::Json) {
        return a.clone();
    }
    if a.is_geometry() && b.is_geometry() {
        if a.kind == b.kind {
            return a.clone();
        }
        return SqlType::new(TypeKind::Geometry(GeometryType::of(Shape::Geometry)));
    }
    match (class(a), class(b)) {
        (Class::Int, Class::Int) => merge_ints(a, b),
        (Class::Text, _) | (_, Class::Text) => merge_texts(a, b),
        (Class::Temporal, Class::Temporal) => merge_temporals(a, b),
        (Class::Temporal, _) | (_, Class::Temporal) => merge_texts(a, b),
        (Class::Real, _) | (_, Class::Real) => merge_reals(a, b),
        (Class::Decimal, _) | (_, Class::Decimal) => merge_decimals(a, b),
    }
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum Class {
    Int,
    Decimal,
    Real,
    Temporal,
    Text,
}

fn class(t: &SqlType) -> Class {
    match t.kind {
        _ if t.is_integer() || t.kind == TypeKind::Bit => Class::Int,
        TypeKind::Decimal => Class::Decimal,
        TypeKind::Float | TypeKind::Double => Class::Real,
        _ if t.is_temporal() => Class::Temporal,
        _ => Class::Text,
    }
}

const INTS: [TypeKind; 5] = [
    TypeKind::TinyInt,
    TypeKind::SmallInt,
    TypeKind::MediumInt,
    TypeKind::Int,
    TypeKind::BigInt,
];

/// Position in [`INTS`]; a year is a small int, bits are a big one.
fn rank(t: &SqlType) -> usize {
    match t.kind {
        TypeKind::Year => 1,
        _ => INTS
            .iter()
            .position(|k| *k == t.kind)
            .unwrap_or(INTS.len() - 1),
    }
}

fn merge_ints(a: &SqlType, b: &SqlType) -> SqlType {
    let length = a.length.max(b.length);
    match (&a.kind, &b.kind) {
        (TypeKind::Bit, TypeKind::Bit) | (TypeKind::Year, TypeKind::Year) => {
            return SqlType {
                length,
                ..a.clone()
            };
        }
        _ => {}
    }
    // A year fits in either sign; bits are unsigned.
    let unsigned = |t: &SqlType| t.unsigned || t.kind == TypeKind::Bit;
    let any_sign = |t: &SqlType| t.kind == TypeKind::Year;
    let same = unsigned(a) == unsigned(b) || any_sign(a) || any_sign(b);
    if same {
        let unsigned = if any_sign(a) {
            unsigned(b)
        } else {
            unsigned(a)
        };
        let kind = INTS[rank(a).max(rank(b))].clone();
        return SqlType {
            length,
            unsigned,
            ..SqlType::new(kind)
        };
    }
    let (signed, unsigned) = if unsigned(a) { (b, a) } else { (a, b) };
    match INTS.get(rank(signed).max(rank(unsigned) + 1)) {
        Some(kind) => SqlType {
            length,
            ..SqlType::new(kind.clone())
        },
        None => SqlType::decimal(int_digits(signed).max(int_digits(unsigned)), 0),
    }
}

/// Digits before the point.
fn int_digits(t: &SqlType) -> u32 {
    exact_digits(t)
        .map_or(0, |(digits, scale)| digits - u32::from(scale))
        .max(1)
}

fn merge_decimals(a: &SqlType, b: &SqlType) -> SqlType {
    let scale = a.decimals.max(b.decimals);
    let digits = int_digits(a).max(int_digits(b)) + u32::from(scale);
    let unsigned = a.unsigned && b.unsigned;
    SqlType {
        unsigned,
        ..SqlType::decimal(digits.min(65), scale)
    }
}

/// A scale is fixed where both have one; integers and decimals do.
fn merge_reals(a: &SqlType, b: &SqlType) -> SqlType {
    let small = |t: &SqlType| t.kind == TypeKind::Float || (t.is_integer() && rank(t) <= 2);
    // As in MySQL a FLOAT stays one before a BIGINT, but not behind it.
    let stays = a.kind == TypeKind::Float && b.kind == TypeKind::BigInt;
    let kind = if stays || (small(a) && small(b)) {
        TypeKind::Float
    } else {
        TypeKind::Double
    };
    let decimals = a.decimals.max(b.decimals);
    let whole = |t: &SqlType| t.length.saturating_sub(u32::from(t.decimals));
    let length = match (decimals < NOT_FIXED_DECIMALS, &kind) {
        (true, TypeKind::Float) => whole(a).max(whole(b)) + u32::from(decimals),
        (true, _) => SqlType::new(TypeKind::Double).length,
        (false, _) => 23,
    };
    SqlType {
        length,
        decimals,
        ..SqlType::new(kind)
    }
}

fn merge_temporals(a: &SqlType, b: &SqlType) -> SqlType {
    let kind = if a.kind == b.kind {
        a.kind.clone()
    } else {
        TypeKind::DateTime
    };
    let decimals = a.decimals.max(b.decimals);
    SqlType {
        decimals,
        ..SqlType::new(kind)
    }
}

fn merge_texts(a: &SqlType, b: &SqlType) -> SqlType {
    const TEXTS: [TypeKind; 4] = [
        TypeKind::TinyText,
        TypeKind::Text,
        TypeKind::MediumText,
        TypeKind::LongText,
    ];
    let collation = if a.is_string() {
        a.collation
    } else {
        b.collation
    };
    let size = |t: &SqlType| match t.kind {
        TypeKind::Geometry(_) => Some(TEXTS.len() - 1),
        _ => TEXTS.iter().position(|k| *k == t.kind),
    };
    if let Some(size) = size(a).max(size(b)) {
        return SqlType {
            collation,
            ..SqlType::new(TEXTS[size].clone())
        };
    }
    let chars = u64::from(text_chars(a).max(text_chars(b)));
    let merged = string_type(chars, collation);
    // CHAR stays CHAR unless it meets VARCHAR.
    let is = |kind: TypeKind| a.kind == kind || b.kind == kind;
    if is(TypeKind::Char) && !is(TypeKind::VarChar) && merged.kind == TypeKind::VarChar {
        return SqlType {
            kind: TypeKind::Char,
            ..merged
        };
    }
    merged
}

/// A value of type `from` as one of the merged type `to`.
pub fn convert(ctx: &EvalCtx, v: &Value, from: &SqlType, to: &SqlType) -> SqlResult<Value> {
    if v.is_null() {
        return Ok(Value::Null);
    }
    Ok(match &to.kind {
        TypeKind::Decimal => {
            let d = match v {
                Value::Decimal(d) => *d,
                _ => cast::to_decimal(ctx, v)?,
            };
            Value::Decimal(match to.own_scale {
                true => d,
                false => d.round(to.decimals).unwrap_or(d),
            })
        }
        TypeKind::Float | TypeKind::Double => match v {
            Value::Double(_) => v.clone(),
            _ => Value::Double(cast::to_f64(ctx, v)?),
        },
        _ if to.is_integer() => match v {
            Value::Int(i) if to.unsigned => Value::UInt(*i as u64),
            Value::UInt(u) if !to.unsigned => Value::Int(*u as i64),
            Value::Bit(b, _) => Value::UInt(*b),
            _ => v.clone(),
        },
        TypeKind::DateTime | TypeKind::Timestamp => {
            let flags = DateFlags::FUZZY.with(DateFlags::INVALID_DATES);
            cast::to_datetime(ctx, v, flags)?.map_or(Value::Null, Value::DateTime)
        }
        TypeKind::Json => return cast::cast(ctx, v, from, to, &""),
        _ if to.is_string() => {
            let text = cast::to_str(v, from);
            // Numbers and dates are written in the result's character set, whatever that is.
            let is_written = !from.is_string() && from.kind != TypeKind::Bit;
            if from.is_string() {
                check_bytes(&text, from.collation, to.collation)?;
            }
            let text = match is_written && !to.collation.is_binary() {
                true => text,
                false => from.collation.recode(text, to.collation),
            };
            Value::Str(text.into_owned())
        }
        _ => v.clone(),
    })
}

/// Argument `i` in the type of the result.
pub(super) fn argument(c: &Call, i: usize) -> SqlResult<Value> {
    convert(c.ctx, c.args[i], c.ty(i), c.types.ret)
}
