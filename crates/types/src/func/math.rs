//! Numeric functions.
//!
//! Neighbours: `decimal` rounds exact numbers, `arith` has the operators, `number_format` FORMAT().
//! **Invariant**: exact arguments give exact results; a double result is never infinite: it is
//! error 1690 instead, or NULL where MySQL says so.

use super::call::{Call, int, is_int};
use super::ret::{any_nullable, const_int, double, double_like, double_null, int as ret_int};
use super::{ArgType, CALCULATION, FuncDef, FuncFlags, PURE, RetCtx, SESSION, Signature, def};
use crate::arith::{self, ArithFacts, BinOp};
use crate::decimal::Decimal;
use crate::error::{SqlError, SqlResult};
use crate::errors;
use crate::sqltype::{NOT_FIXED_DECIMALS, SqlType, TypeKind};
use crate::value::Value;

/// A function of a number and of what it gave before.
const SEEDED: FuncFlags = SESSION.with(FuncFlags::COMPUTES);

pub(super) const DEFS: &[FuncDef] = &[
    def("abs", 1, 1, CALCULATION, ret_same_number, abs),
    def("ceil", 1, 1, CALCULATION, ret_whole, ceil),
    def("ceiling", 1, 1, CALCULATION, ret_whole, ceil),
    def("floor", 1, 1, CALCULATION, ret_whole, floor),
    def("round", 1, 2, CALCULATION, ret_round, round),
    def("truncate", 2, 2, CALCULATION, ret_truncate, truncate),
    def("sign", 1, 1, CALCULATION, ret_int::<21>, sign),
    def("mod", 2, 2, CALCULATION, ret_mod, modulo),
    def("pi", 0, 0, PURE, ret_pi, pi),
    def("pow", 2, 2, CALCULATION, double_null, pow),
    def("power", 2, 2, CALCULATION, double_null, pow),
    def("sqrt", 1, 1, CALCULATION, double_null, sqrt),
    def("exp", 1, 1, CALCULATION, double_null, exp),
    def("ln", 1, 1, CALCULATION, double_null, ln),
    def("log", 1, 2, CALCULATION, double_null, log),
    def("log2", 1, 1, CALCULATION, double_null, log2),
    def("log10", 1, 1, CALCULATION, double_null, log10),
    def("sin", 1, 1, CALCULATION, double_null, sin),
    def("cos", 1, 1, CALCULATION, double_null, cos),
    def("tan", 1, 1, CALCULATION, double_null, tan),
    def("cot", 1, 1, CALCULATION, double_null, cot),
    def("asin", 1, 1, CALCULATION, double_null, asin),
    def("acos", 1, 1, CALCULATION, double_null, acos),
    def("atan", 1, 2, CALCULATION, double_null, atan),
    def("atan2", 1, 2, CALCULATION, double_null, atan),
    def("degrees", 1, 1, CALCULATION, double, degrees),
    def("radians", 1, 1, CALCULATION, double, radians),
    def("rand", 0, 1, SEEDED, ret_rand, rand),
    def("bit_count", 1, 1, PURE, ret_int::<21>, bit_count),
];

/// What kind of number an argument is taken as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Number {
    Int,
    Decimal,
    Double,
}

fn number_of(ty: &SqlType) -> Number {
    match ty.kind {
        _ if is_int(ty) => Number::Int,
        TypeKind::Decimal => Number::Decimal,
        _ => Number::Double,
    }
}

fn out_of_range(c: &Call, what: &str, name: &str) -> SqlError {
    let text = |i: usize| String::from_utf8_lossy(&c.text(i)).into_owned();
    let args: Vec<String> = (0..c.argc()).map(text).collect();
    errors::out_of_range(what, format!("{name}({})", args.join(",")))
}

/// A double result, which must be finite.
fn finite(c: &Call, v: f64, name: &str) -> SqlResult<Value> {
    if v.is_finite() {
        Ok(Value::Double(v))
    } else {
        Err(out_of_range(c, "DOUBLE", name))
    }
}

fn overflow(c: &Call, name: &str) -> SqlError {
    out_of_range(c, "DECIMAL", name)
}

fn ret_same_number(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let ty = &args[0].ty;
    let ret = match number_of(ty) {
        Number::Int => SqlType {
            length: ty.length,
            ..SqlType::bigint(ty.is_unsigned())
        },
        Number::Decimal => ty.clone(),
        Number::Double => double_like(ty, 0),
    };
    Ok(Signature::plain(ret.with_nullable(ty.nullable)))
}

fn abs(c: &Call) -> SqlResult<Value> {
    match number_of(c.ty(0)) {
        Number::Int => match (c.args[0], c.int(0)?) {
            (Value::UInt(v), _) => Ok(Value::UInt(*v)),
            (_, v) => {
                let magnitude = v
                    .checked_abs()
                    .ok_or_else(|| out_of_range(c, "BIGINT", "abs"))?;
                Ok(if c.types.ret.unsigned {
                    Value::UInt(magnitude as u64)
                } else {
                    Value::Int(magnitude)
                })
            }
        },
        Number::Decimal => Ok(Value::Decimal(c.decimal(0)?.abs())),
        Number::Double => Ok(Value::Double(c.real(0)?.abs())),
    }
}

/// Digits from which CEIL and FLOOR of a DECIMAL stay DECIMAL.
const WHOLE_AS_DECIMAL: u32 = 18;

fn ret_whole(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let ty = &args[0].ty;
    let ret = match number_of(ty) {
        Number::Int => SqlType {
            length: 21,
            ..SqlType::bigint(ty.is_unsigned())
        },
        Number::Decimal => {
            let digits = ty.length - u32::from(ty.decimals);
            if digits >= WHOLE_AS_DECIMAL {
                SqlType::decimal((digits + 1).min(65), 0)
            } else {
                SqlType {
                    length: 21,
                    ..SqlType::bigint(false)
                }
            }
        }
        Number::Double => SqlType::double(NOT_FIXED_DECIMALS),
    };
    Ok(Signature::plain(ret.with_nullable(ty.nullable)))
}

fn ceil(c: &Call) -> SqlResult<Value> {
    whole(c, "ceiling", f64::ceil, Decimal::ceil)
}

fn floor(c: &Call) -> SqlResult<Value> {
    whole(c, "floor", f64::floor, Decimal::floor)
}

fn whole(
    c: &Call,
    name: &str,
    of_double: fn(f64) -> f64,
    of_decimal: fn(&Decimal) -> Result<Decimal, crate::decimal::DecimalOverflow>,
) -> SqlResult<Value> {
    match number_of(c.ty(0)) {
        Number::Int => exact_int(c),
        Number::Decimal => {
            let rounded = of_decimal(&c.decimal(0)?).map_err(|_| overflow(c, name))?;
            Ok(if c.types.ret.kind == TypeKind::Decimal {
                Value::Decimal(rounded)
            } else {
                Value::Int(rounded.to_i64().0)
            })
        }
        Number::Double => Ok(Value::Double(of_double(c.real(0)?))),
    }
}

/// The integer argument itself.
fn exact_int(c: &Call) -> SqlResult<Value> {
    match c.args[0] {
        Value::UInt(v) => Ok(Value::UInt(*v)),
        Value::Bit(v, _) => Ok(Value::UInt(*v)),
        _ if c.types.ret.unsigned => Ok(Value::UInt(c.int(0)?.unsigned_abs())),
        _ => int(c.int(0)?),
    }
}

/// Decimals of a column at most.
const MOST_DECIMALS: u32 = 30;

fn ret_round(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    ret_rounded(args, ctx, true)
}

fn ret_truncate(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    ret_rounded(args, ctx, false)
}

fn ret_rounded(args: &[ArgType], _: &RetCtx, rounds: bool) -> SqlResult<Signature> {
    let ty = &args[0].ty;
    let ret = match number_of(ty) {
        Number::Int => SqlType {
            length: 21,
            ..SqlType::bigint(ty.is_unsigned())
        },
        Number::Double => SqlType::double(NOT_FIXED_DECIMALS),
        Number::Decimal => {
            let exact = SqlType::decimal(ty.length, ty.decimals);
            match if args.len() == 1 {
                Some(0)
            } else {
                const_int(args.get(1))
            } {
                None => exact,
                Some(wanted) => {
                    let old = u32::from(exact.decimals);
                    // A literal may have more decimals than a column.
                    let scale = wanted.clamp(0, i64::from(old.min(MOST_DECIMALS))) as u32;
                    // A number without decimals counts as cut, too.
                    let cut = scale < old || wanted <= 0;
                    let carry = u32::from(rounds && cut);
                    SqlType::decimal((exact.length + scale + carry - old).min(65), scale as u8)
                }
            }
        }
    };
    Ok(Signature::plain(ret.with_nullable(any_nullable(args))))
}

fn round(c: &Call) -> SqlResult<Value> {
    rounded(c, true)
}

fn truncate(c: &Call) -> SqlResult<Value> {
    rounded(c, false)
}

fn rounded(c: &Call, rounds: bool) -> SqlResult<Value> {
    let digits = if c.has(1) { c.integer(1)? } else { 0 };
    match number_of(c.ty(0)) {
        Number::Int if digits >= 0 => exact_int(c),
        Number::Int => round_int(c, digits, rounds),
        Number::Decimal => round_decimal(c, digits, rounds),
        Number::Double => Ok(Value::Double(round_double(c.real(0)?, digits, rounds))),
    }
}

fn round_int(c: &Call, digits: i128, rounds: bool) -> SqlResult<Value> {
    let v = c.integer(0)?;
    let unit = u32::try_from(-digits)
        .ok()
        .and_then(|d| 10_i128.checked_pow(d));
    let rounded = match unit {
        Some(unit) => {
            let cut = v / unit * unit;
            let up = rounds && (v - cut).abs() * 2 >= unit;
            cut + if up { unit * v.signum() } else { 0 }
        }
        None => 0,
    };
    let result = if c.types.ret.unsigned {
        u64::try_from(rounded).map(Value::UInt).ok()
    } else {
        i64::try_from(rounded).map(Value::Int).ok()
    };
    result.ok_or_else(|| out_of_range(c, "BIGINT", if rounds { "round" } else { "truncate" }))
}

fn round_decimal(c: &Call, digits: i128, rounds: bool) -> SqlResult<Value> {
    let v = c.decimal(0)?;
    let result = if digits >= 0 {
        // A digit count that is no constant cannot change the scale of the column.
        let scale = digits.min(i128::from(c.types.ret.decimals)) as u8;
        if rounds {
            v.round(scale)
        } else {
            v.truncate(scale)
        }
    } else {
        v.round_tens(u32::try_from(-digits).unwrap_or(u32::MAX).min(81), rounds)
    };
    let result = result.and_then(|r| r.round(c.types.ret.decimals));
    result
        .map(Value::Decimal)
        .map_err(|_| overflow(c, if rounds { "round" } else { "truncate" }))
}

/// MySQL's rounding of doubles: scale, round half to even, scale back.
pub(super) fn round_double(v: f64, digits: i128, rounds: bool) -> f64 {
    let unit = 10_f64.powi(digits.unsigned_abs().min(400) as i32);
    let scaled = if digits < 0 { v / unit } else { v * unit };
    if digits < 0 && unit.is_infinite() {
        return 0.0;
    }
    if digits >= 0 && !scaled.is_finite() {
        return v;
    }
    let whole = match (rounds, v >= 0.0) {
        (true, _) => scaled.round_ties_even(),
        (false, true) => scaled.floor(),
        (false, false) => scaled.ceil(),
    };
    if digits < 0 {
        whole * unit
    } else {
        whole / unit
    }
}

fn sign(c: &Call) -> SqlResult<Value> {
    match number_of(c.ty(0)) {
        Number::Int => int(c.integer(0)?.signum() as i64),
        Number::Decimal => {
            let d = c.decimal(0)?;
            int(if d.is_zero() {
                0
            } else if d.is_negative() {
                -1
            } else {
                1
            })
        }
        Number::Double => {
            let v = c.real(0)?;
            int(if v > 0.0 {
                1
            } else if v < 0.0 {
                -1
            } else {
                0
            })
        }
    }
}

fn ret_mod(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let facts = ArithFacts {
        div_precision_increment: ctx.div_precision_increment,
        no_unsigned_subtraction: false,
    };
    Ok(Signature::plain(arith::result_type(
        BinOp::Mod,
        &args[0].ty,
        &args[1].ty,
        &facts,
    )))
}

fn modulo(c: &Call) -> SqlResult<Value> {
    arith::eval(c.ctx, BinOp::Mod, c.args[0], c.args[1], c.types.ret, &"mod")
}

fn ret_pi(_: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(
        SqlType {
            length: 8,
            decimals: 6,
            ..SqlType::double(NOT_FIXED_DECIMALS)
        }
        .with_nullable(false),
    ))
}

fn pi(_: &Call) -> SqlResult<Value> {
    Ok(Value::Double(std::f64::consts::PI))
}

fn pow(c: &Call) -> SqlResult<Value> {
    finite(c, c.real(0)?.powf(c.real(1)?), "pow")
}

fn sqrt(c: &Call) -> SqlResult<Value> {
    let v = c.real(0)?;
    Ok(if v < 0.0 {
        Value::Null
    } else {
        Value::Double(v.sqrt())
    })
}

fn exp(c: &Call) -> SqlResult<Value> {
    finite(c, c.real(0)?.exp(), "exp")
}

/// NULL with a warning when the argument of a logarithm is not positive.
fn logarithm(c: &Call, v: f64, f: impl Fn(f64) -> f64) -> SqlResult<Value> {
    if v > 0.0 {
        return Ok(Value::Double(f(v)));
    }
    c.raise(3020, "2201E", "Invalid argument for logarithm")?;
    Ok(Value::Null)
}

fn ln(c: &Call) -> SqlResult<Value> {
    logarithm(c, c.real(0)?, f64::ln)
}

/// LOG(x), LOG(base, x).
fn log(c: &Call) -> SqlResult<Value> {
    let first = c.real(0)?;
    if !c.has(1) {
        return logarithm(c, first, f64::ln);
    }
    let v = c.real(1)?;
    let base = if first == 1.0 { 0.0 } else { first };
    if v <= 0.0 {
        logarithm(c, v, f64::ln)
    } else {
        logarithm(c, base, |b| v.ln() / b.ln())
    }
}

fn log2(c: &Call) -> SqlResult<Value> {
    logarithm(c, c.real(0)?, f64::log2)
}

fn log10(c: &Call) -> SqlResult<Value> {
    logarithm(c, c.real(0)?, f64::log10)
}

fn sin(c: &Call) -> SqlResult<Value> {
    Ok(Value::Double(c.real(0)?.sin()))
}

fn cos(c: &Call) -> SqlResult<Value> {
    Ok(Value::Double(c.real(0)?.cos()))
}

fn tan(c: &Call) -> SqlResult<Value> {
    finite(c, c.real(0)?.tan(), "tan")
}

fn cot(c: &Call) -> SqlResult<Value> {
    finite(c, 1.0 / c.real(0)?.tan(), "cot")
}

/// NULL outside -1 to 1.
fn arc(c: &Call, f: fn(f64) -> f64) -> SqlResult<Value> {
    let v = c.real(0)?;
    Ok(if (-1.0..=1.0).contains(&v) {
        Value::Double(f(v))
    } else {
        Value::Null
    })
}

fn asin(c: &Call) -> SqlResult<Value> {
    arc(c, f64::asin)
}

fn acos(c: &Call) -> SqlResult<Value> {
    arc(c, f64::acos)
}

fn atan(c: &Call) -> SqlResult<Value> {
    let y = c.real(0)?;
    Ok(Value::Double(if c.has(1) {
        y.atan2(c.real(1)?)
    } else {
        y.atan()
    }))
}

fn degrees(c: &Call) -> SqlResult<Value> {
    finite(c, c.real(0)? * (180.0 / std::f64::consts::PI), "degrees")
}

fn radians(c: &Call) -> SqlResult<Value> {
    finite(c, c.real(0)? * (std::f64::consts::PI / 180.0), "radians")
}

fn ret_rand(_: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(
        SqlType::double(NOT_FIXED_DECIMALS).with_nullable(false),
    ))
}

/// MySQL's generator behind RAND(seed). For a constant seed the executor keeps one for each call
/// in the statement and draws from it row by row; otherwise every row starts anew.
#[derive(Debug, Clone)]
pub struct SeededRand {
    seed1: u64,
    seed2: u64,
}

impl SeededRand {
    const MODULUS: u64 = 0x3FFF_FFFF;

    /// RAND(`seed`)'s generator.
    pub fn new(seed: i64) -> Self {
        let seed = u64::from(seed as u32);
        let part = |factor: u64, plus: u64| {
            u64::from((seed.wrapping_mul(factor).wrapping_add(plus)) as u32) % Self::MODULUS
        };
        Self {
            seed1: part(0x1_0001, 55_555_555),
            seed2: part(0x1000_0001, 0),
        }
    }

    /// The session's generator, from `rand_seed1` and `rand_seed2` on.
    pub fn resume((seed1, seed2): (u64, u64)) -> Self {
        Self {
            seed1: seed1 % Self::MODULUS,
            seed2: seed2 % Self::MODULUS,
        }
    }

    /// Where it goes on.
    pub fn seeds(&self) -> (u64, u64) {
        (self.seed1, self.seed2)
    }

    /// The next number in 0..1.
    pub fn draw(&mut self) -> f64 {
        self.seed1 = (self.seed1 * 3 + self.seed2) % Self::MODULUS;
        self.seed2 = (self.seed1 + self.seed2 + 33) % Self::MODULUS;
        self.seed1 as f64 / Self::MODULUS as f64
    }
}

fn rand(c: &Call) -> SqlResult<Value> {
    if c.has(0) {
        let seed = if c.null(0) { 0 } else { c.int(0)? };
        return Ok(Value::Double(SeededRand::new(seed).draw()));
    }
    if let Some(drawn) = c.ctx.session.seeded() {
        return Ok(Value::Double(drawn));
    }
    Ok(Value::Double(
        (c.ctx.session.random() >> 11) as f64 / (1_u64 << 53) as f64,
    ))
}

fn bit_count(c: &Call) -> SqlResult<Value> {
    if c.is_binary(0) {
        return int(c.text(0).iter().map(|b| i64::from(b.count_ones())).sum());
    }
    int(i64::from(c.int(0)?.count_ones()))
}
