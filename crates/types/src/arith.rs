//! Arithmetic and bit operators.
//!
//! Neighbours: the binder asks [`result_type`] (or [`unary_type`]) once, the executor calls
//! [`eval`] (or [`eval_unary`]) per row; `cast` converts operands, `decimal` calculates.
//! **Invariants**: the result has the domain of the result type: BIGINT (signed or not), DECIMAL
//! with exactly the type's scale, DOUBLE (finite), or bytes for bit operators on binary strings;
//! NULL operands and divisions by zero give NULL; whatever does not fit is error 1690 with the
//! expression's text, which is only made then.

use std::fmt::Display;

use crate::cast::{to_decimal, to_f64, to_int, to_u64, truncated};
use crate::collation::Collation;
use crate::ctx::{EvalCtx, SqlMode};
use crate::decimal::{Decimal, DecimalOverflow, MAX_DIGITS, MAX_PRECISION, MAX_SCALE};
use crate::error::{SqlError, SqlResult};
use crate::sqltype::{NOT_FIXED_DECIMALS, SqlType, TypeKind};
use crate::value::Value;

/// Operators with two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BinOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `DIV`
    IntDiv,
    /// `%`, `MOD`
    Mod,
    /// `&`
    BitAnd,
    /// `|`
    BitOr,
    /// `^`
    BitXor,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
}

impl BinOp {
    /// The operator as MySQL prints it in messages.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::IntDiv => "DIV",
            Self::Mod => "%",
            Self::BitAnd => "&",
            Self::BitOr => "|",
            Self::BitXor => "^",
            Self::ShiftLeft => "<<",
            Self::ShiftRight => ">>",
        }
    }

    fn is_bitwise(self) -> bool {
        matches!(
            self,
            Self::BitAnd | Self::BitOr | Self::BitXor | Self::ShiftLeft | Self::ShiftRight
        )
    }
}

/// Operators with one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnOp {
    /// `-`
    Neg,
    /// `~`
    BitNot,
}

/// What result types depend on besides the operands.
#[derive(Debug, Clone, Copy)]
pub struct ArithFacts {
    /// div_precision_increment
    pub div_precision_increment: u8,
    /// SQL mode NO_UNSIGNED_SUBTRACTION
    pub no_unsigned_subtraction: bool,
}

impl ArithFacts {
    /// From the evaluation context.
    pub fn of(ctx: &EvalCtx) -> Self {
        Self {
            div_precision_increment: ctx.div_precision_increment,
            no_unsigned_subtraction: ctx.sql_mode.has(SqlMode::NO_UNSIGNED_SUBTRACTION),
        }
    }
}

/// Domain of a calculation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Domain {
    Int,
    Decimal,
    Double,
}

/// The domain an operand asks for.
fn domain(ty: &SqlType) -> Domain {
    match ty.kind {
        TypeKind::Bit => Domain::Int,
        _ if ty.is_integer() => Domain::Int,
        TypeKind::Decimal => Domain::Decimal,
        TypeKind::Time | TypeKind::DateTime | TypeKind::Timestamp if ty.decimals > 0 => {
            Domain::Decimal
        }
        _ if ty.is_temporal() => Domain::Int,
        _ => Domain::Double,
    }
}

/// Digits of an operand in decimal arithmetic.
fn precision(ty: &SqlType) -> u32 {
    let fraction = u32::from(ty.decimals);
    let most = most_digits(scale(ty));
    let digits = match ty.kind {
        TypeKind::Date => 8,
        TypeKind::Time => 7 + fraction,
        TypeKind::DateTime | TypeKind::Timestamp => 14 + fraction,
        _ if domain(ty) == Domain::Int && !ty.is_unsigned() => ty.length.saturating_sub(1),
        _ => ty.length,
    };
    digits.clamp(1, most)
}

/// A literal with more decimals than a column has, and what is computed from it, may have more digits as well.
fn most_digits(scale: u8) -> u32 {
    match scale > MAX_SCALE {
        true => MAX_DIGITS,
        false => MAX_PRECISION,
    }
}

/// Decimals of an operand in decimal arithmetic; those of a literal may be more than a column has, and more than
/// [`MAX_PRECISION`].
fn scale(ty: &SqlType) -> u8 {
    /// Where MySQL cuts literals.
    const MAX_DECIMALS: u8 = 72;
    if domain(ty) == Domain::Decimal {
        ty.decimals.min(MAX_DECIMALS)
    } else {
        0
    }
}

fn nullable(a: &SqlType, b: &SqlType, op: BinOp) -> bool {
    let divides = matches!(op, BinOp::Div | BinOp::IntDiv | BinOp::Mod);
    a.nullable || b.nullable || divides
}

/// BIGINT that shows `digits` digits.
fn bigint(digits: u32, unsigned: bool, nullable: bool) -> SqlType {
    SqlType {
        length: digits + u32::from(!unsigned),
        nullable,
        ..SqlType::bigint(unsigned)
    }
}

/// BIGINT UNSIGNED, the result of an operation on bits.
fn bit_string(nullable: bool) -> SqlType {
    SqlType {
        length: 21,
        nullable,
        ..SqlType::bigint(true)
    }
}

/// Are bit operations on these done byte by byte?
fn both_binary(a: &SqlType, b: &SqlType) -> bool {
    let binary = |t: &SqlType| t.is_string() && t.collation.is_binary();
    binary(a) && binary(b)
}

/// Type of `a op b`.
///
/// Hexadecimal and bit literals count as numbers: the binder passes them as BIGINT UNSIGNED unless
/// both operands of a bit operator are binary strings.
pub fn result_type(op: BinOp, a: &SqlType, b: &SqlType, facts: &ArithFacts) -> SqlType {
    let null = nullable(a, b, op);
    if op.is_bitwise() {
        let shift = matches!(op, BinOp::ShiftLeft | BinOp::ShiftRight);
        let binary = |t: &SqlType| t.is_string() && t.collation.is_binary();
        if both_binary(a, b) || (shift && binary(a)) {
            return SqlType::varchar(a.length, Collation::BINARY).with_nullable(null);
        }
        return bit_string(null);
    }
    let any_unsigned = a.is_unsigned() || b.is_unsigned();
    let (pa, pb) = (precision(a), precision(b));
    match (op, domain(a).max(domain(b))) {
        (BinOp::IntDiv, _) => bigint(quotient_digits(a, b), any_unsigned, null),
        // A remainder has the dividend's sign; an unsigned type shows one digit more.
        (BinOp::Mod, Domain::Int) => {
            let digits = pa.max(pb) + u32::from(a.is_unsigned());
            bigint(digits, a.is_unsigned(), null)
        }
        (BinOp::Sub, Domain::Int) => {
            let unsigned = any_unsigned && !facts.no_unsigned_subtraction;
            bigint(pa.max(pb) + 1, unsigned, null)
        }
        (BinOp::Add, Domain::Int) => bigint(pa.max(pb) + 1, any_unsigned, null),
        (BinOp::Mul, Domain::Int) => bigint(pa + pb, any_unsigned, null),
        (_, Domain::Double) => double_type(op, a, b, facts).with_nullable(null),
        _ => decimal_type(op, a, b, facts).with_nullable(null),
    }
}

/// Characters that show a value.
fn width(ty: &SqlType) -> u32 {
    match ty.kind {
        TypeKind::Decimal => ty.length + u32::from(ty.decimals > 0) + u32::from(!ty.unsigned),
        _ => ty.length,
    }
}

/// Digits of `a DIV b`: those before the point of `a`, and as many as `b` may take away behind it.
fn quotient_digits(a: &SqlType, b: &SqlType) -> u32 {
    const MAX_DIGITS: u32 = 21;
    let digits = match domain(a) {
        Domain::Double => width(a),
        _ => precision(a) - u32::from(scale(a)).min(precision(a)),
    };
    let more = match domain(b) {
        Domain::Double => width(b),
        _ => u32::from(scale(b)),
    };
    digits.saturating_add(more).clamp(1, MAX_DIGITS)
}

fn double_type(op: BinOp, a: &SqlType, b: &SqlType, facts: &ArithFacts) -> SqlType {
    let decimals = |t: &SqlType| match domain(t) {
        Domain::Double if t.kind == TypeKind::Double || t.kind == TypeKind::Float => t.decimals,
        Domain::Double if t.kind == TypeKind::Null => 0,
        Domain::Double => NOT_FIXED_DECIMALS,
        _ => scale(t),
    };
    let mut scale = decimals(a).max(decimals(b));
    if op == BinOp::Div && scale < NOT_FIXED_DECIMALS {
        scale = (scale + facts.div_precision_increment).min(NOT_FIXED_DECIMALS);
    }
    let unsigned = op == BinOp::Mod && a.is_unsigned();
    let whole = |t: &SqlType| width(t).saturating_sub(u32::from(decimals(t)));
    let shown = if scale < NOT_FIXED_DECIMALS {
        whole(a).max(whole(b)) + u32::from(scale)
    } else {
        SqlType::double(NOT_FIXED_DECIMALS).length
    };
    SqlType {
        length: shown,
        unsigned,
        ..SqlType::double(scale)
    }
}

fn decimal_type(op: BinOp, a: &SqlType, b: &SqlType, facts: &ArithFacts) -> SqlType {
    let (pa, pb, sa, sb) = (precision(a), precision(b), scale(a), scale(b));
    let (digits, scale) = match op {
        BinOp::Mul => (pa + pb, (sa + sb).min(MAX_SCALE)),
        BinOp::Div => {
            let increment = facts.div_precision_increment;
            (
                pa + u32::from(sb) + u32::from(increment),
                (sa + increment).min(MAX_SCALE),
            )
        }
        BinOp::Mod => (pa.max(pb), sa.max(sb)),
        _ => {
            let int = (pa - u32::from(sa).min(pa)).max(pb - u32::from(sb).min(pb));
            (int + 1 + u32::from(sa.max(sb)), sa.max(sb))
        }
    };
    let most = most_digits(scale);
    let digits = digits.clamp(u32::from(scale).max(1), most);
    let both_unsigned = a.is_unsigned() && b.is_unsigned();
    // A remainder has the dividend's sign; an unsigned type shows one digit more.
    let (unsigned, digits) = match op {
        BinOp::Mod => (
            a.is_unsigned(),
            (digits + u32::from(a.is_unsigned())).min(most),
        ),
        // The sign takes the place of a digit.
        BinOp::Sub if both_unsigned && facts.no_unsigned_subtraction => {
            (false, (digits - 1).max(u32::from(scale).max(1)))
        }
        _ => (both_unsigned, digits),
    };
    SqlType {
        unsigned,
        ..SqlType::decimal(digits, scale)
    }
}

/// Type of `op a`; `constant` is the operand's value when constant.
pub fn unary_type(op: UnOp, a: &SqlType, constant: Option<&Value>) -> SqlType {
    match op {
        UnOp::BitNot if a.is_string() && a.collation.is_binary() => {
            SqlType::varchar(a.length, Collation::BINARY).with_nullable(a.nullable)
        }
        UnOp::BitNot => bit_string(a.nullable),
        UnOp::Neg if a.is_temporal() => SqlType::double(a.decimals).with_nullable(a.nullable),
        UnOp::Neg => match domain(a) {
            Domain::Int => {
                // A constant whose negation no BIGINT holds continues as DECIMAL.
                let beyond = match constant {
                    Some(Value::Int(v)) => *v == i64::MIN,
                    Some(Value::UInt(v)) => *v > 1 << 63,
                    _ => false,
                };
                if beyond {
                    return SqlType::decimal(precision(a).max(19), 0).with_nullable(a.nullable);
                }
                let shown = a.length + u32::from(a.is_unsigned());
                bigint(shown.saturating_sub(1), false, a.nullable)
            }
            Domain::Decimal => SqlType {
                unsigned: false,
                ..SqlType::decimal(precision(a), scale(a)).with_nullable(a.nullable)
            },
            Domain::Double => {
                let typed = matches!(a.kind, TypeKind::Double | TypeKind::Float);
                let decimals = if typed {
                    a.decimals
                } else {
                    NOT_FIXED_DECIMALS
                };
                SqlType::double(decimals).with_nullable(a.nullable)
            }
        },
    }
}

/// 1690 for a result type.
fn out_of_range(ty: &SqlType, text: &dyn Display) -> SqlError {
    let kind = match ty.kind {
        TypeKind::Decimal => "DECIMAL",
        TypeKind::Double | TypeKind::Float => "DOUBLE",
        _ if ty.unsigned => "BIGINT UNSIGNED",
        _ => "BIGINT",
    };
    crate::cast::out_of_range(kind, text)
}

/// NULL for a division by zero, with 1365 when the SQL mode asks for it.
pub fn division_by_zero(ctx: &EvalCtx) -> SqlResult<Value> {
    if ctx.sql_mode.has(SqlMode::ERROR_FOR_DIVISION_BY_ZERO) {
        ctx.raise(1365, "22012", "Division by 0")?;
    }
    Ok(Value::Null)
}

/// `a op b`, of the type that [`result_type`] gave. `text` is the expression as MySQL prints it.
#[inline]
pub fn eval(
    ctx: &EvalCtx,
    op: BinOp,
    a: &Value,
    b: &Value,
    ty: &SqlType,
    text: &dyn Display,
) -> SqlResult<Value> {
    if let (Value::Int(x), Value::Int(y), TypeKind::BigInt, false) = (a, b, &ty.kind, ty.unsigned) {
        let fast = match op {
            BinOp::Add => x.checked_add(*y),
            BinOp::Sub => x.checked_sub(*y),
            BinOp::Mul => x.checked_mul(*y),
            _ => None,
        };
        if let Some(v) = fast {
            return Ok(Value::Int(v));
        }
    }
    if a.is_null() || b.is_null() {
        return Ok(Value::Null);
    }
    if op.is_bitwise() {
        return bitwise(ctx, op, a, b, ty);
    }
    match ty.kind {
        TypeKind::Decimal => decimal_op(ctx, op, a, b, ty, text),
        TypeKind::Double | TypeKind::Float => double_op(ctx, op, a, b, ty, text),
        _ => integer_op(ctx, op, a, b, ty, text),
    }
}

/// Puts a wide integer into the result type.
fn integer(n: Option<i128>, ty: &SqlType, text: &dyn Display) -> SqlResult<Value> {
    let value = n.and_then(|n| {
        if ty.unsigned {
            u64::try_from(n).ok().map(Value::UInt)
        } else {
            i64::try_from(n).ok().map(Value::Int)
        }
    });
    value.ok_or_else(|| out_of_range(ty, text))
}

fn integer_op(
    ctx: &EvalCtx,
    op: BinOp,
    a: &Value,
    b: &Value,
    ty: &SqlType,
    text: &dyn Display,
) -> SqlResult<Value> {
    if op == BinOp::IntDiv && !(is_whole(a) && is_whole(b)) {
        return decimal_int_div(ctx, a, b, ty, text);
    }
    let (x, y) = (to_int(ctx, a)?, to_int(ctx, b)?);
    let result = match op {
        BinOp::Add => x.checked_add(y),
        BinOp::Sub => x.checked_sub(y),
        BinOp::Mul => x.checked_mul(y),
        BinOp::IntDiv | BinOp::Mod | BinOp::Div if y == 0 => return division_by_zero(ctx),
        BinOp::Mod => x.checked_rem(y),
        _ => x.checked_div(y),
    };
    integer(result, ty, text)
}

/// Is the value an integer to DIV?
fn is_whole(v: &Value) -> bool {
    match v {
        Value::Double(_) | Value::Decimal(_) | Value::Str(_) => false,
        Value::Time(t) => t.microsecond() == 0,
        Value::DateTime(d) => d.microsecond() == 0,
        _ => true,
    }
}

/// DIV of anything but integers: the decimal quotient without its fraction.
fn decimal_int_div(
    ctx: &EvalCtx,
    a: &Value,
    b: &Value,
    ty: &SqlType,
    text: &dyn Display,
) -> SqlResult<Value> {
    let (x, y) = (to_decimal(ctx, a)?, to_decimal(ctx, b)?);
    match x.div_int(&y) {
        Ok(None) => division_by_zero(ctx),
        Ok(Some(q)) => {
            let fits = if ty.unsigned {
                !q.to_u64().1
            } else {
                !q.to_i64().1
            };
            if !fits {
                truncated(ctx, "DECIMAL", q.to_string().as_bytes())?;
            }
            integer(q.unscaled_i128(), ty, text)
        }
        Err(DecimalOverflow) => Err(out_of_range(ty, text)),
    }
}

fn decimal_op(
    ctx: &EvalCtx,
    op: BinOp,
    a: &Value,
    b: &Value,
    ty: &SqlType,
    text: &dyn Display,
) -> SqlResult<Value> {
    let (x, y) = (to_decimal(ctx, a)?, to_decimal(ctx, b)?);
    let result = match op {
        BinOp::Add => x.add(&y).map(Some),
        BinOp::Sub => x.sub(&y).map(Some),
        BinOp::Mul => x.mul(&y).map(Some),
        BinOp::Mod => x.rem(&y),
        _ => x.div(&y, ctx.div_precision_increment),
    };
    match result {
        Ok(None) => division_by_zero(ctx),
        Ok(Some(d)) if op == BinOp::Sub && ty.unsigned && d.is_negative() => {
            Err(out_of_range(ty, text))
        }
        Ok(Some(d)) => Ok(Value::Decimal(within_scale(d, ty.decimals))),
        Err(DecimalOverflow) => Err(out_of_range(ty, text)),
    }
}

/// The number without the digits that the type's scale has no room for. Zeros that it may have are not the value's: a
/// column of texts stores it without, as in MySQL.
fn within_scale(d: Decimal, scale: u8) -> Decimal {
    if d.scale() <= scale {
        d
    } else {
        d.round(scale).unwrap_or(d)
    }
}

fn double_op(
    ctx: &EvalCtx,
    op: BinOp,
    a: &Value,
    b: &Value,
    ty: &SqlType,
    text: &dyn Display,
) -> SqlResult<Value> {
    let (x, y) = (to_f64(ctx, a)?, to_f64(ctx, b)?);
    let result = match op {
        BinOp::Add => x + y,
        BinOp::Sub => x - y,
        BinOp::Mul => x * y,
        _ if y == 0.0 => return division_by_zero(ctx),
        BinOp::Mod => x % y,
        _ => x / y,
    };
    if result.is_finite() {
        Ok(Value::Double(result))
    } else {
        Err(out_of_range(ty, text))
    }
}

/// 3513
pub(crate) fn unequal_lengths() -> SqlError {
    let text = "Binary operands of bitwise operators must be of equal length";
    SqlError::new(3513, "HY000", text)
}

fn bitwise(ctx: &EvalCtx, op: BinOp, a: &Value, b: &Value, ty: &SqlType) -> SqlResult<Value> {
    if let (TypeKind::VarChar, Value::Str(x)) = (&ty.kind, a) {
        return match (op, b) {
            (BinOp::ShiftLeft | BinOp::ShiftRight, b) => Ok(Value::Str(shift_bytes(
                x,
                to_u64(ctx, b)?,
                op == BinOp::ShiftLeft,
            ))),
            (_, Value::Str(y)) if x.len() == y.len() => {
                let pairs = x.iter().zip(y);
                Ok(Value::Str(
                    pairs
                        .map(|(x, y)| bits(op, (*x).into(), (*y).into()) as u8)
                        .collect(),
                ))
            }
            _ => Err(unequal_lengths()),
        };
    }
    Ok(Value::UInt(bits(op, to_u64(ctx, a)?, to_u64(ctx, b)?)))
}

fn bits(op: BinOp, x: u64, y: u64) -> u64 {
    let shift = u32::try_from(y).unwrap_or(u32::MAX);
    match op {
        BinOp::BitAnd => x & y,
        BinOp::BitOr => x | y,
        BinOp::BitXor => x ^ y,
        BinOp::ShiftLeft => x.checked_shl(shift).unwrap_or(0),
        _ => x.checked_shr(shift).unwrap_or(0),
    }
}

/// Shifts a bit string, keeping its length.
fn shift_bytes(bytes: &[u8], by: u64, left: bool) -> Vec<u8> {
    let by = usize::try_from(by).unwrap_or(usize::MAX);
    let (whole, part) = (by / 8, by % 8);
    let at = |i: Option<usize>| i.and_then(|i| bytes.get(i)).copied().unwrap_or(0);
    (0..bytes.len())
        .map(|i| {
            let (near, far) = if left {
                (
                    at(i.checked_add(whole)),
                    at(i.checked_add(whole).and_then(|i| i.checked_add(1))),
                )
            } else {
                (
                    at(i.checked_sub(whole)),
                    at(i.checked_sub(whole).and_then(|i| i.checked_sub(1))),
                )
            };
            let pair = if left {
                (u16::from(near) << 8 | u16::from(far)) << part >> 8
            } else {
                (u16::from(far) << 8 | u16::from(near)) >> part
            };
            pair as u8
        })
        .collect()
}

/// `op a`, of the type that [`unary_type`] gave.
pub fn eval_unary(
    ctx: &EvalCtx,
    op: UnOp,
    a: &Value,
    ty: &SqlType,
    text: &dyn Display,
) -> SqlResult<Value> {
    match (op, a, &ty.kind) {
        (_, Value::Null, _) => Ok(Value::Null),
        (UnOp::BitNot, Value::Str(s), TypeKind::VarChar) => {
            Ok(Value::Str(s.iter().map(|b| !b).collect()))
        }
        (UnOp::BitNot, a, _) => Ok(Value::UInt(!to_u64(ctx, a)?)),
        (UnOp::Neg, a, TypeKind::Decimal) => Ok(Value::Decimal(within_scale(
            to_decimal(ctx, a)?.negate(),
            ty.decimals,
        ))),
        (UnOp::Neg, a, TypeKind::Double | TypeKind::Float) => Ok(Value::Double(-to_f64(ctx, a)?)),
        (UnOp::Neg, a, _) => integer(Some(-to_int(ctx, a)?), ty, text),
    }
}

#[cfg(test)]
mod tests;
