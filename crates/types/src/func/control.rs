//! Choosing among arguments.
//!
//! Neighbours: `merge` finds the result type; `cmp` compares. The executor evaluates the arguments
//! of IF, IFNULL and COALESCE lazily and may use [`super::merge::convert`] itself.
//! **Invariant**: the result is one of the arguments, in the common type; GREATEST and LEAST of a date among texts or
//! numbers are the text of the moment that is furthest.

use std::cmp::Ordering;

use super::call::{Call, int, is_int};
use super::merge::{argument, convert, merge_types};
use super::ret::{compared_in, int_never_null, text_chars};
use super::{ANY_ARGS, ArgType, CALCULATION, FuncDef, LAZY, RetCtx, Signature, TOTAL, def};
use crate::cast;
use crate::cmp::{self, CmpKind, Operand};
use crate::error::SqlResult;
use crate::sqltype::{SqlType, TypeKind};
use crate::temporal::{Date, DateFlags, DateTime, parse_datetime};
use crate::value::Value;

/// Most digits of a fraction of a second.
const MAX_FRACTION: u8 = 6;

pub(super) const DEFS: &[FuncDef] = &[
    def("if", 3, 3, LAZY, ret_if, if_),
    def("ifnull", 2, 2, LAZY, ret_coalesce, coalesce),
    def("coalesce", 1, ANY_ARGS, LAZY, ret_coalesce, coalesce),
    def("nullif", 2, 2, TOTAL, ret_nullif, nullif),
    def("greatest", 2, ANY_ARGS, CALCULATION, ret_greatest, greatest),
    def("least", 2, ANY_ARGS, CALCULATION, ret_least, least),
    def(
        "interval",
        2,
        ANY_ARGS,
        TOTAL,
        int_never_null::<2>,
        interval,
    ),
];

fn ret_if(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    merge_types(&args[1..], ctx, "if")
}

fn if_(c: &Call) -> SqlResult<Value> {
    let condition = cast::to_bool(c.ctx, c.args[0])?;
    argument(c, if condition { 1 } else { 2 })
}

fn ret_coalesce(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let sig = merge_types(args, ctx, "coalesce")?;
    Ok(sig.nullable(args.iter().all(|a| a.ty.nullable)))
}

fn coalesce(c: &Call) -> SqlResult<Value> {
    (0..c.argc())
        .find(|i| !c.null(*i))
        .map_or(Ok(Value::Null), |i| argument(c, i))
}

fn ret_nullif(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let compared = compared_in(args, ctx, "nullif")?;
    let sig = merge_types(&args[..1], ctx, "nullif")?.nullable(true);
    Ok(Signature {
        collation: compared,
        ..sig
    })
}

fn nullif(c: &Call) -> SqlResult<Value> {
    if c.null(0) || c.null(1) {
        return argument(c, 0);
    }
    let (a, b) = (c.ty(0), c.ty(1));
    let operand = |ty| Operand {
        ty,
        constant: false,
    };
    let kind = cmp::cmp_kind(operand(a), operand(b), c.types.collation);
    let order = cmp::compare(c.ctx, c.args[0], c.args[1], kind, (a, b))?;
    if order == Some(Ordering::Equal) {
        Ok(Value::Null)
    } else {
        argument(c, 0)
    }
}

fn ret_greatest(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    ret_extreme(args, ctx, "greatest")
}

fn ret_least(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    ret_extreme(args, ctx, "least")
}

/// A temporal value among texts and numbers may get their fraction.
fn ret_extreme(args: &[ArgType], ctx: &RetCtx, name: &str) -> SqlResult<Signature> {
    let mut sig = merge_types(args, ctx, name)?;
    if !matches!(sig.ret.kind, TypeKind::Char | TypeKind::VarChar) {
        return Ok(sig);
    }
    let fraction = args.iter().map(|a| match a.value {
        Some(Value::Str(_)) if a.ty.collation.is_binary() => 0,
        Some(Value::Str(text)) if a.ty.is_string() => {
            constant_moment(text, DateFlags::FUZZY).map_or(MAX_FRACTION, |(_, digits)| digits)
        }
        _ => fraction_of(&a.ty),
    });
    let fraction = fraction.max().unwrap_or(0);
    let with_fraction = |a: &ArgType| match a.ty.kind {
        TypeKind::Time | TypeKind::DateTime | TypeKind::Timestamp => text_chars(&SqlType {
            decimals: fraction,
            ..a.ty.clone()
        }),
        _ => 0,
    };
    let longest = args.iter().map(with_fraction).max();
    sig.ret.length = sig.ret.length.max(longest.unwrap_or(0));
    Ok(sig)
}

fn greatest(c: &Call) -> SqlResult<Value> {
    extreme(c, Ordering::Greater)
}

fn least(c: &Call) -> SqlResult<Value> {
    extreme(c, Ordering::Less)
}

/// Digits of a fraction of a second that a value of the type may have.
fn fraction_of(ty: &SqlType) -> u8 {
    match ty.is_string() {
        true => MAX_FRACTION,
        false => ty.decimals.min(MAX_FRACTION),
    }
}

/// A constant text as the moment that GREATEST and LEAST compare, with the digits of its fraction.
pub fn constant_moment(text: &[u8], flags: DateFlags) -> Option<(DateTime, u8)> {
    let parsed = parse_datetime(text, flags).ok()?;
    parsed
        .warn
        .is_none()
        .then_some((parsed.datetime, parsed.digits))
}

/// Do GREATEST and LEAST of these arguments make the text of a date with a time?
pub fn is_text_of_datetime<'a>(args: impl IntoIterator<Item = &'a SqlType>, ret: &SqlType) -> bool {
    ret.is_string() && args.into_iter().any(has_time_of_day)
}

fn has_date(ty: &SqlType) -> bool {
    let kind = &ty.kind;
    matches!(kind, TypeKind::Date) || has_time_of_day(ty)
}

fn has_time_of_day(ty: &SqlType) -> bool {
    matches!(ty.kind, TypeKind::DateTime | TypeKind::Timestamp)
}

/// The first argument that no other one is further than, in direction `wanted`.
fn extreme(c: &Call, wanted: Ordering) -> SqlResult<Value> {
    if c.types.ret.is_string() && c.types.args.iter().any(has_date) {
        return extreme_moment(c, wanted);
    }
    let kind = extreme_kind(c);
    let mut best = 0;
    for i in 1..c.argc() {
        let types = (c.ty(i), c.ty(best));
        if cmp::compare(c.ctx, c.args[i], c.args[best], kind, types)? == Some(wanted) {
            best = i;
        }
    }
    argument(c, best)
}

/// The text of the moment that is furthest in direction `wanted`: a date if only dates are among the arguments. What is
/// no date is passed over.
fn extreme_moment(c: &Call, wanted: Ordering) -> SqlResult<Value> {
    let types = c.types.args;
    let kind = match types.iter().any(has_time_of_day) {
        true => TypeKind::DateTime,
        false => TypeKind::Date,
    };
    let mut best: Option<DateTime> = None;
    for i in 0..c.argc() {
        let moment = moment(c, i, &kind)?;
        if moment.is_some_and(|m| best.is_none_or(|b| m.cmp(&b) == wanted)) {
            best = moment;
        }
    }
    let Some(best) = best else {
        return Ok(Value::Null);
    };
    let ty = SqlType {
        decimals: types.iter().map(fraction_of).max().unwrap_or(0),
        ..SqlType::new(kind)
    };
    let value = match ty.kind {
        TypeKind::Date => Value::Date(best.date()),
        _ => Value::DateTime(best),
    };
    convert(c.ctx, &value, &ty, c.types.ret)
}

/// Argument `i` as a temporal value; None, after a warning, if it is no date.
fn moment(c: &Call, i: usize, compared: &TypeKind) -> SqlResult<Option<DateTime>> {
    let flags = cast::date_flags(c.ctx);
    let Value::Str(text) = c.args[i] else {
        if let Some(moment) = cast::first_day_of_year(c.args[i], c.ty(i)) {
            return Ok(Some(moment));
        }
        if *compared == TypeKind::Date
            && let Some(day) = day_of_2000(c.args[i])
        {
            return Ok(Some(day));
        }
        let flags = DateFlags::FUZZY.with(DateFlags::INVALID_DATES);
        return cast::to_datetime(c.ctx, c.args[i], flags);
    };
    let parsed = parse_datetime(text, flags);
    if parsed.as_ref().map_or(true, |p| !p.warn.is_none()) {
        let kind = match compared {
            TypeKind::Date => "date",
            _ => "datetime",
        };
        cast::truncated(c.ctx, kind, text)?;
    }
    Ok(parsed.ok().map(|p| p.datetime))
}

/// A number too small for a date beside dates: as in MySQL a day of the year 2000, also one that there is not.
fn day_of_2000(v: &Value) -> Option<DateTime> {
    let n = match v {
        Value::Int(n) => *n,
        Value::UInt(n) => i64::try_from(*n).ok()?,
        Value::Decimal(d) if !d.is_negative() => d.to_f64() as i64,
        Value::Double(d) if *d >= 0.0 => *d as i64,
        _ => return None,
    };
    let (month, day) = match n {
        0..=31 => (0, n as u32),
        100 => (1, 0),
        _ => return None,
    };
    Date::new(2000, month, day).map(Date::at_midnight)
}

/// How GREATEST and LEAST compare: in the result's type, but dates as dates.
fn extreme_kind(c: &Call) -> CmpKind {
    match &c.types.ret.kind {
        _ if c.types.args.iter().any(has_date) => CmpKind::DateTime,
        TypeKind::Time => CmpKind::Time,
        TypeKind::Decimal => CmpKind::Decimal,
        TypeKind::Float | TypeKind::Double => CmpKind::Double,
        _ if is_int(c.types.ret) => CmpKind::Int,
        _ => CmpKind::Str(c.types.collation),
    }
}

/// How many of the (ascending) arguments after the first are at most the first.
fn interval(c: &Call) -> SqlResult<Value> {
    if c.null(0) {
        return int(-1);
    }
    let ints = c.types.args.iter().all(is_int);
    let mut passed = 0;
    for i in 1..c.argc() {
        let beyond = !c.null(i)
            && if ints {
                c.integer(0)? < c.integer(i)?
            } else {
                c.real(0)? < c.real(i)?
            };
        if beyond {
            break;
        }
        passed = i;
    }
    int(passed as i64)
}
