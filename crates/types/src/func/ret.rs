//! Result types of functions: what the client reads in the column metadata.
//!
//! Neighbours: the tables of definitions in this directory name these; lengths are MySQL's.
//! **Invariant**: a string result has a character set collation or `binary`, never none.

use super::{ArgType, RetCtx, Signature};
use crate::cast::parse_int;
use crate::collation::{
    Charset, Coercibility, Collation, StringOperand, aggregate_for, aggregate_operands,
};
use crate::error::{SqlError, SqlResult};
use crate::sqltype::{NOT_FIXED_DECIMALS, SqlType, TypeKind};
use crate::value::Value;

/// Longest VARCHAR result in bytes; beyond it is a TEXT.
const MAX_VARCHAR_BYTES: u64 = 65_535;
const MAX_MEDIUM_BYTES: u64 = 16_777_215;

/// Most characters the text form of a value of this type has.
pub fn text_chars(ty: &SqlType) -> u32 {
    match ty.kind {
        TypeKind::Null => 0,
        TypeKind::Decimal => ty.length + u32::from(!ty.unsigned) + u32::from(ty.decimals > 0),
        TypeKind::Date => 10,
        TypeKind::Time => 10 + fraction_chars(ty.decimals),
        TypeKind::DateTime | TypeKind::Timestamp => 19 + fraction_chars(ty.decimals),
        TypeKind::LongText | TypeKind::Json | TypeKind::Geometry(_) => {
            ty.length.min(u32::MAX / ty.collation.charset().max_len())
        }
        _ => ty.length,
    }
}

/// What a text of type `ty` takes of the length of one in `to`: characters, or bytes.
pub fn text_units(ty: &SqlType, to: Collation) -> u64 {
    let chars = u64::from(text_chars(ty));
    let is_text = ty.is_string() || matches!(ty.kind, TypeKind::Enum(_) | TypeKind::Set(_));
    if to.is_binary() && is_text {
        chars * u64::from(ty.collation.charset().max_len())
    } else {
        chars
    }
}

fn fraction_chars(decimals: u8) -> u32 {
    if decimals == 0 {
        0
    } else {
        1 + u32::from(decimals)
    }
}

/// A string type of up to `chars` characters; that of a TEXT is its length.
pub fn string_type(chars: u64, collation: Collation) -> SqlType {
    let unit = u64::from(collation.charset().max_len());
    let bytes = chars.saturating_mul(unit);
    if bytes <= MAX_VARCHAR_BYTES {
        return SqlType::varchar(chars as u32, collation);
    }
    let kind = if bytes <= MAX_MEDIUM_BYTES {
        TypeKind::MediumText
    } else {
        TypeKind::LongText
    };
    SqlType {
        length: chars.min(u64::from(u32::MAX)) as u32,
        collation,
        ..SqlType::new(kind)
    }
}

/// Collation of the strings among `args`; numbers and dates are text in the connection's. Columns
/// that disagree give [`Coercibility::None`].
pub fn collation_of<'a, 'b: 'a>(
    args: impl IntoIterator<Item = &'a ArgType<'b>>,
    ctx: &RetCtx,
    operation: &str,
) -> SqlResult<(Collation, Coercibility)> {
    let args: Vec<_> = args
        .into_iter()
        .filter(|a| a.ty.kind != TypeKind::Null)
        .collect();
    if args.is_empty() {
        return Ok((Collation::BINARY, Coercibility::Ignorable));
    }
    let operands: Vec<_> = args.iter().map(|a| string_operand(a, ctx)).collect();
    let found = match aggregate_operands(&operands, operation)? {
        (c, Coercibility::Numeric) => (c, Coercibility::Coercible),
        found => found,
    };
    for arg in args {
        check_convertible(arg, found.0)?;
    }
    Ok(found)
}

/// The collation in which strings are compared: 1267 where columns disagree.
pub fn compared_in<'a, 'b: 'a>(
    args: impl IntoIterator<Item = &'a ArgType<'b>>,
    ctx: &RetCtx,
    operation: &str,
) -> SqlResult<Collation> {
    let args: Vec<_> = args.into_iter().collect();
    match collation_of(args.iter().copied(), ctx, operation)? {
        (_, Coercibility::None) => {
            let items: Vec<_> = args
                .iter()
                .map(|a| (a.ty.collation, a.coercibility))
                .collect();
            aggregate_for(&items, operation).map(|found| found.0)
        }
        (collation, _) => Ok(collation),
    }
}

/// [`check_constant`] of an argument.
pub(super) fn check_convertible(arg: &ArgType, to: Collation) -> SqlResult<()> {
    match arg.value {
        Some(value) => check_constant(value, &arg.ty, to),
        None => Ok(()),
    }
}

/// 3854 for a byte string that is none of the characters it becomes.
pub(super) fn check_bytes(bytes: &[u8], from: Collation, to: Collation) -> SqlResult<()> {
    if !from.is_binary() || to.is_binary() || to.charset().decode(bytes).is_ok() {
        return Ok(());
    }
    Err(not_convertible(bytes, from.charset(), to.charset()))
}

/// 3854 for a text that does not exist in the character set it is converted to.
pub(super) fn check_text(text: &[u8], from: Collation, to: Collation) -> SqlResult<()> {
    let (own, other) = (from.charset(), to.charset());
    if own == other {
        return Ok(());
    }
    if own == Charset::Binary {
        return check_bytes(text, from, to);
    }
    if other.encode(text).is_ok() {
        return Ok(());
    }
    Err(not_convertible(&own.encode_lossy(text), own, other))
}

/// 3854
fn not_convertible(bytes: &[u8], from: Charset, to: Charset) -> SqlError {
    let (shown, from, to) = (printable(bytes, from), from.name(), to.name());
    let message = format!("Cannot convert string '{shown}' from {from} to {to}");
    SqlError::new(3854, "HY000", message)
}

/// 3854 for a constant that does not exist in the character set of the result, or of a comparison.
pub fn check_constant(value: &Value, ty: &SqlType, to: Collation) -> SqlResult<()> {
    let (Value::Str(text), true) = (value, ty.is_string()) else {
        return Ok(());
    };
    check_text(text, ty.collation, to)
}

/// The first bytes of a text; those that are no ASCII characters of `charset` as `\xNN`.
fn printable(text: &[u8], charset: Charset) -> String {
    const MOST_BYTES: usize = 6;
    let byte = |b: &u8| match b {
        b' '..=b'~' if charset.min_len() == 1 => char::from(*b).to_string(),
        b => format!("\\x{b:02X}"),
    };
    let mut shown: String = text.iter().take(MOST_BYTES).map(byte).collect();
    if text.len() > MOST_BYTES {
        shown.push_str("...");
    }
    shown
}

fn string_operand(arg: &ArgType, ctx: &RetCtx) -> StringOperand {
    if arg.ty.kind == TypeKind::Json {
        return StringOperand {
            collation: arg.ty.collation,
            coercibility: Coercibility::Implicit,
            portable: false,
        };
    }
    // Bits are bytes, as those of a column.
    if arg.ty.kind == TypeKind::Bit {
        return StringOperand {
            collation: Collation::BINARY,
            coercibility: Coercibility::Implicit,
            portable: false,
        };
    }
    let text = matches!(arg.ty.kind, TypeKind::Enum(_) | TypeKind::Set(_));
    if !arg.ty.is_string() && !text {
        return StringOperand {
            collation: ctx.collation_connection,
            coercibility: Coercibility::Numeric,
            portable: true,
        };
    }
    let constant = matches!(arg.value, Some(Value::Str(s)) if s.is_ascii());
    let portable = constant || arg.ty.collation.charset() == Charset::Ascii;
    StringOperand {
        collation: arg.ty.collation,
        coercibility: arg.coercibility,
        portable,
    }
}

/// May any argument be NULL?
pub fn any_nullable(args: &[ArgType]) -> bool {
    args.iter().any(|a| a.ty.nullable)
}

/// The value of a constant integer argument.
pub fn const_int(arg: Option<&ArgType>) -> Option<i64> {
    match arg?.value? {
        Value::Null => Some(0),
        Value::Int(v) => Some(*v),
        Value::UInt(v) => Some(i64::try_from(*v).unwrap_or(i64::MAX)),
        Value::Decimal(d) => Some(d.to_i64().0),
        Value::Double(d) => Some(d.round() as i64),
        Value::Str(s) => {
            let (number, _) = parse_int(s);
            Some(number.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
        }
        _ => None,
    }
}

impl Signature {
    /// A signature whose operands are not compared.
    pub fn plain(ret: SqlType) -> Self {
        let coercibility = if ret.is_string() {
            Coercibility::Coercible
        } else {
            Coercibility::Numeric
        };
        let collation = ret.collation;
        Self {
            ret,
            coercibility,
            collation,
        }
    }

    /// With another nullability.
    pub fn nullable(mut self, nullable: bool) -> Self {
        self.ret.nullable = nullable;
        self
    }
}

/// A string in the collation of all arguments, with their coercibility.
pub fn like_args(
    args: &[ArgType],
    strings: &[usize],
    chars: u64,
    ctx: &RetCtx,
    name: &str,
) -> SqlResult<Signature> {
    let picked = strings.iter().filter_map(|i| args.get(*i));
    let (collation, coercibility) = collation_of(picked, ctx, name)?;
    let most = ctx.max_allowed_packet / u64::from(collation.charset().max_len());
    // What is larger than a packet is NULL, so any of these may be.
    let ret = string_type(chars.min(most), collation);
    Ok(Signature {
        ret,
        coercibility,
        collation,
    })
}

/// A string of `chars` characters in the collation of the first argument, which those at `others` are converted to
/// ([`Call::text_in`](super::Call::text_in)).
pub fn like_first(
    args: &[ArgType],
    others: &[usize],
    chars: u64,
    ctx: &RetCtx,
    name: &str,
) -> SqlResult<Signature> {
    let sig = like_args(args, &[0], chars, ctx, name)?;
    for other in others.iter().filter_map(|i| args.get(*i)) {
        check_convertible(other, sig.collation)?;
    }
    Ok(sig)
}

/// BIGINT of display width `W`; NULL only from a NULL argument.
pub fn int<const W: u32>(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let ty = SqlType {
        length: W,
        ..SqlType::bigint(false)
    };
    Ok(Signature::plain(ty.with_nullable(any_nullable(args))))
}

/// BIGINT of display width `W` that may be NULL.
pub fn int_null<const W: u32>(_: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(SqlType {
        length: W,
        ..SqlType::bigint(false)
    }))
}

/// BIGINT of display width `W` that is never NULL.
pub fn int_never_null<const W: u32>(_: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let ty = SqlType {
        length: W,
        ..SqlType::bigint(false)
    };
    Ok(Signature::plain(ty.with_nullable(false)))
}

/// BIGINT UNSIGNED of display width `W`; NULL only from a NULL argument.
pub fn uint<const W: u32>(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let ty = SqlType {
        length: W,
        ..SqlType::bigint(true)
    };
    Ok(Signature::plain(ty.with_nullable(any_nullable(args))))
}

/// BIGINT UNSIGNED of display width `W` that may be NULL.
pub fn uint_null<const W: u32>(_: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(SqlType {
        length: W,
        ..SqlType::bigint(true)
    }))
}

/// DOUBLE that shows the decimals of a floating argument and `more`, if it shows a fixed number of them.
pub fn double_like(arg: &SqlType, more: u8) -> SqlType {
    let is_real = matches!(arg.kind, TypeKind::Float | TypeKind::Double);
    if !is_real && !arg.is_temporal() || arg.decimals >= NOT_FIXED_DECIMALS {
        return SqlType::double(NOT_FIXED_DECIMALS);
    }
    SqlType::double(arg.decimals.saturating_add(more).min(NOT_FIXED_DECIMALS))
}

/// DOUBLE; NULL only from a NULL argument.
pub fn double(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(
        SqlType::double(NOT_FIXED_DECIMALS).with_nullable(any_nullable(args)),
    ))
}

/// DOUBLE that may be NULL.
pub fn double_null(_: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(SqlType::double(NOT_FIXED_DECIMALS)))
}

/// A string of at most `N` characters in the connection's collation that may be NULL.
pub fn text<const N: u64>(_: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(string_type(N, ctx.collation_connection)))
}

/// A name or a figure of the system: at most `N` characters of ASCII in the system's character set.
pub fn system_text<const N: u64>(_: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(string_type(
        N,
        Collation::UTF8MB3_GENERAL_CI,
    )))
}

/// Bytes, at most `N`, that may be NULL.
pub fn binary<const N: u64>(_: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(string_type(N, Collation::BINARY)))
}

/// A session fact: at most `N` characters in the system's character set.
pub fn session_text<const N: u64>(_: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let mut sig = Signature::plain(string_type(N, Collation::UTF8MB3_GENERAL_CI));
    sig.coercibility = Coercibility::SysConst;
    Ok(sig)
}

/// The type of the first argument as a string, in its collation.
pub fn same_text(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    like_args(
        args,
        &[0],
        u64::from(text_chars(&args[0].ty)),
        ctx,
        "function",
    )
}

/// Digits and scale of a type whose values are exact numbers (dates too: 20200101); `None` for
/// doubles and strings.
pub fn exact_digits(ty: &SqlType) -> Option<(u32, u8)> {
    let digits = match ty.kind {
        TypeKind::Null => 1,
        TypeKind::Decimal => return Some((ty.length, ty.decimals)),
        TypeKind::Bit => ty.length,
        TypeKind::Date => 8,
        TypeKind::Time => 7,
        TypeKind::DateTime | TypeKind::Timestamp => 14,
        _ if ty.is_integer() && (ty.unsigned || ty.kind == TypeKind::Year) => ty.length,
        _ if ty.is_integer() => ty.length.saturating_sub(1),
        _ => return None,
    };
    let scale = if ty.is_temporal() { ty.decimals } else { 0 };
    Some((digits.max(1) + u32::from(scale), scale))
}
