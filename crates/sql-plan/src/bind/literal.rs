//! Constants, parameters and the types written in CAST.
//!
//! Neighbours: `expr` meets them in the tree; `ddl` has its own reading of column types (defaults,
//! key lengths), CAST's are fewer.
//! **Invariant**: a literal's static type is what MySQL's metadata says of `SELECT literal`.

use esker_sql_syntax::ast::{DataType, Literal, TypeName};
use esker_types::cast::{date_flags, literal_moment};
use esker_types::collation::{Charset, Coercibility, Collation, char_count};
use esker_types::sqltype::NOT_FIXED_DECIMALS;
use esker_types::temporal::{DateFlags, parse_datetime, parse_time};
use esker_types::{Date, Decimal, SqlError, SqlResult, SqlType, TypeKind, Value};

use super::{BindEnv, Params, errors};
use crate::expr::{Expr, ExprKind};

/// Longest texts that are elements of arrays, in characters; MySQL makes longer ones BLOBs.
const MAX_ELEMENT_LENGTH: u64 = 512;

/// Binds a literal.
pub(super) fn bind_literal(env: &BindEnv<'_>, literal: &Literal) -> SqlResult<Expr> {
    Ok(match literal {
        Literal::Null => Expr::null(),
        Literal::Bool(b) => integer(u64::from(*b)),
        Literal::Int(v) => integer(*v),
        Literal::Decimal(text) => decimal(text),
        Literal::Double(v) => {
            let ty = SqlType::new(TypeKind::Double).with_nullable(false);
            Expr::constant(Value::Double(*v), ty)
        }
        Literal::Str {
            bytes,
            charset: None,
        } => string(bytes, env.literal_collation()),
        Literal::Hex {
            bytes,
            charset: None,
        }
        | Literal::Bit {
            bytes,
            charset: None,
        } => string(bytes, Collation::BINARY),
        Literal::Str {
            bytes,
            charset: Some(name),
        }
        | Literal::Hex {
            bytes,
            charset: Some(name),
        }
        | Literal::Bit {
            bytes,
            charset: Some(name),
        } => introduced(bytes, charset_named(name)?)?,
        Literal::Date(text) => date_literal(env, text)?,
        Literal::Time(text) => time_literal(text)?,
        Literal::Timestamp(text) => timestamp_literal(env, text)?,
    })
}

/// `_charset'…'`: bytes of this character set.
///
/// # Errors
/// 1300 for bytes that are no text.
fn introduced(bytes: &[u8], charset: Charset) -> SqlResult<Expr> {
    let bytes = charset.whole_units(bytes);
    match charset.decode(&bytes) {
        Ok(text) => Ok(string(&text, charset.default_collation())),
        Err(bad) => Err(errors::invalid_characters(charset, &bytes[bad.0..])),
    }
}

/// A hexadecimal or bit literal as the number it is in arithmetic and numeric comparisons: bits have a sign if they fit
/// into a BIGINT.
pub(super) fn as_number(literal: &Literal) -> Option<Expr> {
    let (bytes, signed) = match literal {
        Literal::Hex {
            bytes,
            charset: None,
        } => (bytes, false),
        Literal::Bit {
            bytes,
            charset: None,
        } => (bytes, true),
        _ => return None,
    };
    let tail = &bytes[bytes.len().saturating_sub(size_of::<u64>())..];
    let v = tail.iter().fold(0u64, |v, b| v << 8 | u64::from(*b));
    let value = match i64::try_from(v) {
        Ok(v) if signed => Value::Int(v),
        _ => Value::UInt(v),
    };
    let unsigned = matches!(value, Value::UInt(_));
    // As many digits as so many bytes may have.
    let most = u64::MAX >> (u64::BITS - 8 * tail.len().max(1) as u32);
    let ty = SqlType {
        length: most.ilog10() + 1 + u32::from(!unsigned),
        ..SqlType::bigint(unsigned)
    };
    Some(Expr::constant(value, ty.with_nullable(false)))
}

fn integer(v: u64) -> Expr {
    let digits = v.checked_ilog10().map_or(1, |n| n + 1);
    let (value, unsigned) = match i64::try_from(v) {
        Ok(v) => (Value::Int(v), false),
        Err(_) => (Value::UInt(v), true),
    };
    // A sign takes a place.
    let length = if unsigned { digits } else { digits + 1 };
    let ty = SqlType {
        length,
        nullable: false,
        ..SqlType::bigint(unsigned)
    };
    Expr::constant(value, ty)
}

fn decimal(text: &str) -> Expr {
    let (value, _) = Decimal::parse(text.as_bytes());
    // A zero before the point counts.
    let whole = u32::from(!text.starts_with('.'));
    let digits = value.precision().max(u32::from(value.scale()) + whole);
    let ty = SqlType::decimal(digits.max(1), value.scale()).with_nullable(false);
    Expr::constant(Value::Decimal(value), ty)
}

/// A string constant.
pub(super) fn string(bytes: &[u8], collation: Collation) -> Expr {
    let length = if collation.is_binary() {
        bytes.len()
    } else {
        char_count(bytes)
    };
    let ty = SqlType::varchar(u32::try_from(length).unwrap_or(u32::MAX), collation);
    let value = Value::Str(bytes.to_vec());
    let ty = ty.with_nullable(false);
    Expr {
        kind: ExprKind::Const(value),
        ty,
        coer: Coercibility::Coercible,
    }
}

fn wrong_literal(what: &str, text: &[u8]) -> SqlError {
    let text = String::from_utf8_lossy(text);
    errors::incorrect_value(what, &text)
}

fn date_literal(env: &BindEnv<'_>, text: &[u8]) -> SqlResult<Expr> {
    let parsed = parse_datetime(text, date_flags(env.ctx))
        .ok()
        .filter(|p| p.warn.is_none() && p.kind == esker_types::temporal::ParsedKind::Date)
        .ok_or_else(|| wrong_literal("DATE", text))?;
    let date: Date = parsed.datetime.date();
    let ty = SqlType::new(TypeKind::Date).with_nullable(false);
    Ok(Expr::constant(Value::Date(date), ty))
}

fn time_literal(text: &[u8]) -> SqlResult<Expr> {
    let parsed = parse_time(text, DateFlags::NONE)
        .ok()
        .filter(|p| p.warn.is_none())
        .ok_or_else(|| wrong_literal("TIME", text))?;
    let ty = with_fraction(SqlType::new(TypeKind::Time), parsed.digits);
    Ok(Expr::constant(Value::Time(parsed.time), ty))
}

fn timestamp_literal(env: &BindEnv<'_>, text: &[u8]) -> SqlResult<Expr> {
    let moment = literal_moment(env.ctx, text)?;
    let (moment, digits) = moment.ok_or_else(|| wrong_literal("DATETIME", text))?;
    let ty = with_fraction(SqlType::new(TypeKind::DateTime), digits);
    Ok(Expr::constant(Value::DateTime(moment), ty))
}

/// A temporal type with fractional digits, NOT NULL.
fn with_fraction(ty: SqlType, digits: u8) -> SqlType {
    let point = u32::from(digits > 0);
    SqlType {
        length: ty.length + point + u32::from(digits),
        decimals: digits,
        nullable: false,
        ..ty
    }
}

/// Binds a parameter.
pub(super) fn bind_param(env: &BindEnv<'_>, nth: u32) -> Expr {
    match env.params {
        Params::Values(values) => {
            let value = values.get(nth as usize).cloned().unwrap_or_default();
            let mut bound = value_expr(env, value);
            // The next execution may give it NULL: results say so, and have room for every number.
            bound.ty.nullable = true;
            match bound.ty.kind {
                TypeKind::BigInt => bound.ty.length = 21,
                TypeKind::Double => bound.ty.length = 23,
                _ => {}
            }
            bound
        }
        Params::Typed(values, types) => {
            let nth = nth as usize;
            let value = values.get(nth).cloned().unwrap_or_default();
            match (types.get(nth), value) {
                // Where a number is wanted it is that of the label.
                (Some(ty), label @ Value::Label(..)) if ty.is_label() => Expr {
                    kind: ExprKind::Const(label),
                    ty: ty.clone().with_nullable(true),
                    coer: Coercibility::of_column(ty),
                },
                (ty, value) => typed(value_expr(env, value), ty),
            }
        }
        Params::Types(types) => {
            let any = || SqlType::varchar(21_845, env.ctx.collation_connection);
            let ty = types.get(nth as usize).cloned().unwrap_or_else(any);
            let coer = match ty.is_string() {
                _ if env.of_program => Coercibility::of_column(&ty),
                true => Coercibility::Coercible,
                false => Coercibility::Numeric,
            };
            Expr {
                kind: ExprKind::Param(nth),
                ty,
                coer,
            }
        }
    }
}

/// A constant with the type of the variable that it is the value of.
fn typed(bound: Expr, ty: Option<&SqlType>) -> Expr {
    match ty {
        // A variable's collation counts for as much as a column's.
        Some(ty) => Expr {
            coer: Coercibility::of_column(ty),
            ty: ty.clone().with_nullable(true),
            ..bound
        },
        None => bound,
    }
}

/// A constant with the type its value suggests.
pub(super) fn value_expr(env: &BindEnv<'_>, value: Value) -> Expr {
    let ty = match &value {
        Value::Null => return Expr::null(),
        Value::Int(_) => SqlType::bigint(false),
        Value::UInt(_) => SqlType::bigint(true),
        Value::Double(_) => SqlType::new(TypeKind::Double),
        Value::Decimal(d) => SqlType::decimal(d.precision().max(1), d.scale()),
        Value::Str(s) => return string(s, env.ctx.collation_connection),
        Value::Label(_, s) => return string(s, env.ctx.collation_connection),
        Value::Json(_) => SqlType::new(TypeKind::Json),
        Value::Date(_) => SqlType::new(TypeKind::Date),
        Value::Time(t) => {
            let digits = if t.micros() % 1_000_000 == 0 { 0 } else { 6 };
            with_fraction(SqlType::new(TypeKind::Time), digits)
        }
        Value::DateTime(t) => {
            let digits = if t.microsecond() == 0 { 0 } else { 6 };
            with_fraction(SqlType::new(TypeKind::DateTime), digits)
        }
        Value::Bit(_, n) => SqlType {
            length: u32::from(*n),
            ..SqlType::new(TypeKind::Bit)
        },
    };
    Expr::constant(value, ty.with_nullable(false))
}

/// A character set by name.
///
/// # Errors
/// 1115.
pub(super) fn charset_named(name: &str) -> SqlResult<Charset> {
    Charset::by_name(name).ok_or_else(|| errors::unknown_charset(name))
}

/// Checks the type of `CAST(… AS type ARRAY)`.
///
/// # Errors
/// 1235 for types that an array's elements cannot have.
pub fn check_array_type(ty: &DataType) -> SqlResult<()> {
    let kind = match ty.name {
        TypeName::Char | TypeName::Binary => {
            let is_short = ty.length.is_some_and(|length| length <= MAX_ELEMENT_LENGTH);
            return match (&ty.charset, is_short) {
                (Some(_), _) => Err(SqlError::not_supported(
                    "specifying charset for multi-valued index",
                )),
                (None, true) => Ok(()),
                (None, false) => Err(SqlError::not_supported(
                    "CAST-ing data to array of char/binary BLOBs",
                )),
            };
        }
        TypeName::Year => "YEAR",
        TypeName::Json => "JSON",
        TypeName::Float => "FLOAT",
        TypeName::Double => "DOUBLE",
        TypeName::Geometry(_) => "GEOMETRY",
        _ => return Ok(()),
    };
    Err(SqlError::not_supported(format_args!(
        "CAST-ing data to array of {kind}"
    )))
}

/// The type that `CAST(… AS type)` makes.
///
/// # Errors
/// 1235 for arrays and for types Esker has not, 1425 and 1426 for impossible digits, unknown character sets.
pub fn cast_type(env: &BindEnv<'_>, ty: &DataType) -> SqlResult<SqlType> {
    if ty.array {
        check_array_type(ty)?;
        return Err(errors::cast_to_array());
    }
    let fraction = |kind| {
        let digits = ty.length.unwrap_or(0);
        let digits = u8::try_from(digits)
            .ok()
            .filter(|d| *d <= 6)
            .ok_or_else(|| errors::precision_too_big(digits, "CAST", "6"))?;
        Ok(with_fraction(SqlType::new(kind), digits).with_nullable(true))
    };
    Ok(match ty.name {
        TypeName::BigInt | TypeName::Int | TypeName::Bool => SqlType {
            length: 21,
            ..SqlType::bigint(ty.unsigned)
        },
        TypeName::Decimal => decimal_type(ty)?,
        // A FLOAT of more bits than it has is a DOUBLE; of more than that has, none.
        TypeName::Float | TypeName::Double if ty.length.is_some_and(|bits| bits > 53) => {
            let bits = ty.length.unwrap_or_default();
            return Err(errors::precision_too_big(bits, "CAST", 53));
        }
        TypeName::Float => SqlType {
            kind: TypeKind::Float,
            ..SqlType::double(NOT_FIXED_DECIMALS)
        },
        TypeName::Double => SqlType::double(NOT_FIXED_DECIMALS),
        TypeName::Date => SqlType::new(TypeKind::Date),
        TypeName::Time => fraction(TypeKind::Time)?,
        TypeName::DateTime | TypeName::Timestamp => fraction(TypeKind::DateTime)?,
        // A number, not a column's year.
        TypeName::Year => SqlType {
            unsigned: true,
            ..SqlType::new(TypeKind::Year)
        },
        TypeName::Char | TypeName::VarChar => character_type(env, ty)?,
        // BINARY(n) pads with zero bytes.
        TypeName::Binary | TypeName::VarBinary => SqlType {
            kind: match ty.length {
                Some(_) => TypeKind::Char,
                None => TypeKind::LongText,
            },
            ..sized(ty.length, Collation::BINARY)?
        },
        TypeName::Json => SqlType::new(TypeKind::Json),
        _ => return Err(SqlError::not_supported("CAST to this type")),
    })
}

fn decimal_type(ty: &DataType) -> SqlResult<SqlType> {
    let (precision, scale) = (ty.length.unwrap_or(10).max(1), ty.decimals.unwrap_or(0));
    if precision > 65 {
        return Err(errors::precision_too_big(precision, "CAST", "65"));
    }
    if scale > 30 {
        return Err(errors::scale_too_big(scale, "CAST", "30"));
    }
    if scale > precision {
        return Err(errors::scale_above_precision("CAST"));
    }
    Ok(SqlType::decimal(precision as u32, scale as u8))
}

fn character_type(env: &BindEnv<'_>, ty: &DataType) -> SqlResult<SqlType> {
    let collation = match &ty.charset {
        Some(name) => charset_named(name)?.default_collation(),
        None => env.literal_collation(),
    };
    let collation = if ty.binary {
        collation.bin_of()
    } else {
        collation
    };
    sized(ty.length, collation)
}

/// A string of at most `length` characters; without one, as long as the value.
///
/// # Errors
/// 1439 and 1690 for more characters and bytes than a text may have.
fn sized(length: Option<u64>, collation: Collation) -> SqlResult<SqlType> {
    let Some(length) = length else {
        return Ok(SqlType {
            collation,
            ..SqlType::new(TypeKind::LongText)
        });
    };
    let chars =
        u32::try_from(length).map_err(|_| errors::width_out_of_range("cast as char", u32::MAX))?;
    match chars.checked_mul(collation.charset().max_len()) {
        Some(_) => Ok(SqlType::varchar(chars, collation)),
        None => Err(errors::out_of_range("char(n)", "cast_as_char")),
    }
}
