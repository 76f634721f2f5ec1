//! CAST(x AS type) and CONVERT(x, type).
//!
//! Neighbours: the binder makes the target type; `number` and `temporal` do the reading.
//! **Invariants**: the result has the target type's kind, scale and digits; what cannot be
//! converted is NULL for dates and times, else the nearest value, with a warning.

use std::fmt::Display;

use super::number::{datetime_number, time_number};
use super::temporal::{date_flags, first_day_of_year, raise_overflow, today, truncates};
use super::text::{to_str, write_f64};
use super::{
    IntStatus, parse_int, quoted, quoted_bytes, round_f64, to_date, to_datetime, to_decimal,
    to_f64, to_i64, to_time, truncated,
};
use crate::collation::{char_count, char_offset};
use crate::ctx::{EvalCtx, Work};
use crate::decimal::Decimal;
use crate::error::{Level, SqlError, SqlResult};
use crate::errors;
use crate::json::{self, JsonRef};
use crate::sqltype::{SqlType, TypeKind};
use crate::temporal::Date;
use crate::value::{Value, ValueRef};

/// Converts a value of type `from` as CAST(.. AS `ty`) does. `text` is the expression as messages
/// show it.
pub fn cast(
    ctx: &EvalCtx,
    v: &Value,
    from: &SqlType,
    ty: &SqlType,
    text: &dyn Display,
) -> SqlResult<Value> {
    if v.is_null() {
        return Ok(Value::Null);
    }
    if let Value::Json(doc) = v
        && !ty.is_string()
    {
        return cast_json(ctx, JsonRef::new(doc), ty, text);
    }
    let year = match ty.is_temporal() && ty.kind != TypeKind::Year {
        true => first_day_of_year(v, from).map(Value::DateTime),
        false => None,
    };
    let v = year.as_ref().unwrap_or(v);
    match &ty.kind {
        TypeKind::TinyInt
        | TypeKind::SmallInt
        | TypeKind::MediumInt
        | TypeKind::Int
        | TypeKind::BigInt => cast_integer(ctx, v.as_ref(), ty.unsigned),
        TypeKind::Decimal => cast_decimal(ctx, v, ty, text),
        TypeKind::Double => Ok(Value::Double(to_f64(ctx, v)?)),
        TypeKind::Float => {
            let d = to_f64(ctx, v)? as f32;
            if d.is_infinite() {
                return Err(out_of_range("DOUBLE", text));
            }
            Ok(Value::Double(d.into()))
        }
        TypeKind::Date => Ok(to_date(ctx, v, date_flags(ctx))?.map_or(Value::Null, Value::Date)),
        TypeKind::Time => cast_time(ctx, v, ty),
        TypeKind::DateTime | TypeKind::Timestamp => cast_datetime(ctx, v, ty),
        TypeKind::Year => cast_year(ctx, v.as_ref()),
        TypeKind::Char
        | TypeKind::VarChar
        | TypeKind::TinyText
        | TypeKind::Text
        | TypeKind::MediumText
        | TypeKind::LongText => cast_string(ctx, v, from, ty),
        TypeKind::Json => to_json(ctx, v, from),
        TypeKind::Bit
        | TypeKind::Enum(_)
        | TypeKind::Set(_)
        | TypeKind::Geometry(_)
        | TypeKind::Null => Err(SqlError::not_supported("CAST to this type")),
    }
}

fn cast_time(ctx: &EvalCtx, v: &Value, ty: &SqlType) -> SqlResult<Value> {
    let Some(t) = to_time(ctx, v)? else {
        return Ok(Value::Null);
    };
    let (rounded, over) = t.round(ty.decimals, truncates(ctx));
    if over {
        truncated(ctx, "time", t.to_string().as_bytes())?;
    }
    Ok(Value::Time(rounded))
}

fn cast_datetime(ctx: &EvalCtx, v: &Value, ty: &SqlType) -> SqlResult<Value> {
    let Some(d) = to_datetime(ctx, v, date_flags(ctx))? else {
        return Ok(Value::Null);
    };
    match d.round(ty.decimals, truncates(ctx)) {
        Ok(rounded) => Ok(Value::DateTime(rounded)),
        Err(warn) => {
            raise_overflow(ctx, warn)?;
            Ok(Value::Null)
        }
    }
}

/// CAST(.. AS JSON): a text is parsed, everything else becomes a scalar.
fn to_json(ctx: &EvalCtx, v: &Value, from: &SqlType) -> SqlResult<Value> {
    let doc = match v {
        Value::Str(text) if !(from.is_string() && from.collation.is_binary()) => {
            json::parse(text, ctx.session).map_err(|e| e.in_argument(1, "cast_as_json"))?
        }
        v => json::from_value(v.as_ref(), from),
    };
    json::encode_watched(&doc, &mut Work::new(ctx.session)).map(Value::Json)
}

/// CAST of a JSON value to what is neither JSON's text nor bytes.
fn cast_json(
    ctx: &EvalCtx,
    doc: JsonRef<'_>,
    ty: &SqlType,
    text: &dyn Display,
) -> SqlResult<Value> {
    let what = text.to_string();
    let plain = match &ty.kind {
        TypeKind::Json => return Ok(Value::Json(doc.to_document())),
        TypeKind::Decimal => Value::Decimal(json::convert::to_decimal(ctx, doc, &what)?),
        TypeKind::Double | TypeKind::Float => {
            Value::Double(json::convert::to_f64(ctx, doc, &what)?)
        }
        TypeKind::Date => json::convert::to_date(ctx, doc, date_flags(ctx), &what)?
            .map_or(Value::Null, Value::Date),
        TypeKind::Time => json::convert::to_time(ctx, doc, &what)?.map_or(Value::Null, Value::Time),
        TypeKind::DateTime | TypeKind::Timestamp => {
            json::convert::to_datetime(ctx, doc, date_flags(ctx), &what)?
                .map_or(Value::Null, Value::DateTime)
        }
        _ => {
            let n = json::convert::to_int(ctx, doc, &what)?;
            match u64::try_from(n) {
                Ok(n) if n > i64::MAX as u64 => Value::UInt(n),
                _ => Value::Int(n as i64),
            }
        }
    };
    cast(ctx, &plain, &SqlType::new(TypeKind::Null), ty, text)
}

/// 1690
pub(crate) fn out_of_range(kind: &str, text: &dyn Display) -> SqlError {
    errors::out_of_range(kind, text)
}

fn cast_integer(ctx: &EvalCtx, v: ValueRef<'_>, unsigned: bool) -> SqlResult<Value> {
    let bits = match v {
        ValueRef::Int(n) => n as u64,
        ValueRef::UInt(n) | ValueRef::Bit(n, _) | ValueRef::Label(n, _) => n,
        ValueRef::Double(d) => {
            let (n, clamped) = round_f64(d);
            if clamped {
                let mut text = Vec::new();
                write_f64(d, &mut text);
                truncated(ctx, "INTEGER", &text)?;
            }
            n as u64
        }
        ValueRef::Decimal(d) => {
            let ((n, clamped), bits) = if unsigned && !d.is_negative() {
                (d.to_u64(), 0)
            } else {
                let (n, clamped) = d.to_i64();
                ((0, clamped), n as u64)
            };
            if clamped {
                truncated(ctx, "DECIMAL", d.to_string().as_bytes())?;
            }
            n | bits
        }
        ValueRef::Str(s) => integer_from_text(ctx, s, unsigned)?,
        ValueRef::Date(d) => d.to_number() as u64,
        ValueRef::Time(t) => time_number(t) as u64,
        ValueRef::DateTime(d) => datetime_number(d) as u64,
        ValueRef::Null | ValueRef::Json(_) => 0,
    };
    Ok(if unsigned {
        Value::UInt(bits)
    } else {
        Value::Int(bits as i64)
    })
}

fn integer_from_text(ctx: &EvalCtx, s: &[u8], unsigned: bool) -> SqlResult<u64> {
    let (n, status) = parse_int(s);
    if status != IntStatus::Exact {
        truncated(ctx, "INTEGER", s)?;
    }
    if status == IntStatus::Overflow {
        return Ok(n as u64);
    }
    if unsigned && n < 0 {
        let text = "Cast to unsigned converted negative integer to its positive complement";
        ctx.warn(Level::Warning, 1105, text);
    } else if !unsigned && n > i64::MAX.into() {
        let text =
            "Cast to signed converted positive out-of-range integer to its negative complement";
        ctx.warn(Level::Warning, 1105, text);
    }
    Ok(n as u64)
}

fn cast_decimal(ctx: &EvalCtx, v: &Value, ty: &SqlType, text: &dyn Display) -> SqlResult<Value> {
    // A double beyond DECIMAL's range is reported once, below.
    let d = match v {
        Value::Double(d) => Decimal::from_f64(*d).0,
        v => to_decimal(ctx, v)?,
    };
    match d.round(ty.decimals) {
        Ok(r) if r.fits(ty.length, ty.decimals) => Ok(Value::Decimal(r)),
        _ => {
            let message = format!("Out of range value for column '{text}' at row 1");
            ctx.raise(1264, "22003", message)?;
            Ok(Value::Decimal(Decimal::max_for(
                ty.length,
                ty.decimals,
                d.is_negative(),
            )))
        }
    }
}

/// The year a text names, two digits or four; `None` was raised.
fn year_from_text(ctx: &EvalCtx, s: &[u8]) -> SqlResult<Option<i64>> {
    let (n, status) = parse_int(s);
    if n < 0 || matches!(status, IntStatus::Bad | IntStatus::Overflow) {
        ctx.raise(
            1525,
            "HY000",
            format!("Incorrect YEAR value: '{}'", quoted(s)),
        )?;
        return Ok(None);
    }
    if !s.iter().all(u8::is_ascii_digit) {
        truncated(ctx, "YEAR", s)?;
    }
    // The text '0' is 2000, the number 0 is 0000.
    Ok(Some(if n == 0 { 2000 } else { n as i64 }))
}

/// The year of a date, which is no number of two digits.
fn year_of(ctx: &EvalCtx, date: Date) -> SqlResult<Value> {
    match date.year() {
        year @ (0 | 1901..=2155) => Ok(Value::Int(year.into())),
        year => {
            truncated(ctx, "YEAR", year.to_string().as_bytes())?;
            Ok(Value::Null)
        }
    }
}

/// CAST(.. AS YEAR).
fn cast_year(ctx: &EvalCtx, v: ValueRef<'_>) -> SqlResult<Value> {
    let n = match v {
        ValueRef::Date(d) => return year_of(ctx, d),
        ValueRef::DateTime(d) => return year_of(ctx, d.date()),
        ValueRef::Time(_) => return year_of(ctx, today(ctx)),
        ValueRef::Str(s) => match year_from_text(ctx, s)? {
            Some(n) => n,
            None => return Ok(Value::Null),
        },
        ValueRef::Decimal(d) => d.to_i64().0,
        ValueRef::Double(d) => round_f64(d).0,
        v => to_i64(ctx, v)?,
    };
    Ok(Value::Int(match n {
        0 => 0,
        1..70 => 2000 + n,
        70..=99 => 1900 + n,
        1901..=2155 => n,
        _ => {
            truncated(ctx, "YEAR", n.to_string().as_bytes())?;
            return Ok(Value::Null);
        }
    }))
}

/// CAST(.. AS CHAR(n)) and AS BINARY(n). But for CHAR, a length of `u32::MAX` means no length was given.
fn cast_string(ctx: &EvalCtx, v: &Value, from: &SqlType, ty: &SqlType) -> SqlResult<Value> {
    let binary = ty.collation.is_binary();
    let is_limited = ty.length != u32::MAX || ty.kind == TypeKind::Char;
    if is_limited && u64::from(ty.length) > ctx.max_allowed_packet {
        let cast = if binary {
            "cast_as_binary"
        } else {
            "cast_as_char"
        };
        let too_large = errors::larger_than_packet(cast, ctx.max_allowed_packet);
        ctx.raise(too_large.code, too_large.state, too_large.message)?;
        return Ok(Value::Null);
    }
    let mut text = to_str(v, from).into_owned();
    let from_bytes = matches!(v, Value::Bit(..))
        || (matches!(v, Value::Str(_)) && from.collation.is_binary() && from.is_string());
    if from_bytes && !binary {
        let charset = ty.collation.charset();
        text = charset.whole_units(&text).into_owned();
        match charset.decode(&text) {
            Ok(decoded) => text = decoded.into_owned(),
            Err(bad) => {
                let e = errors::invalid_characters(charset, &text[bad.0..]);
                ctx.raise(e.code, e.state, e.message)?;
                return Ok(Value::Null);
            }
        }
    } else if binary {
        text = from
            .collation
            .recode(text.into(), ty.collation)
            .into_owned();
    } else {
        // What the character set cannot hold is gone, though inside the value stays UTF-8.
        text = ty.collation.charset().fit(text);
    }
    let limit = ty.length as usize;
    let length = if binary {
        text.len()
    } else {
        char_count(&text)
    };
    if length > limit {
        let kind = if binary { "BINARY" } else { "CHAR" };
        let shown = if binary {
            quoted_bytes(&text)
        } else {
            quoted(&text)
        };
        let message = format!("Truncated incorrect {kind}({limit}) value: '{shown}'");
        ctx.raise(1292, "22007", message)?;
        text.truncate(if binary {
            limit
        } else {
            char_offset(&text, limit)
        });
    } else if binary && ty.kind == TypeKind::Char && length < limit {
        text.resize(limit, 0);
    }
    Ok(Value::Str(text))
}
