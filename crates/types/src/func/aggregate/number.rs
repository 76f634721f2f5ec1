//! COUNT, SUM, AVG.
//!
//! Neighbours: `decimal` adds what does not fit an i128.
//! **Invariant**: sums of integers and decimals are exact, whatever the order.

use std::any::Any;

use super::{AggDef, AggState, AggTypes, same};
use crate::cast;
use crate::ctx::EvalCtx;
use crate::decimal::{Decimal, MAX_SCALE};
use crate::error::{SqlError, SqlResult};
use crate::errors;
use crate::func::ret::{double_like, exact_digits, int_never_null};
use crate::func::{ANY_ARGS, ArgType, RetCtx, Signature};
use crate::sqltype::SqlType;
use crate::value::Value;

pub(super) const DEFS: &[AggDef] = &[
    AggDef {
        name: "count",
        min_args: 0,
        max_args: ANY_ARGS,
        ret: int_never_null::<21>,
        new: count,
    },
    AggDef {
        name: "sum",
        min_args: 1,
        max_args: 1,
        ret: ret_sum,
        new: sum,
    },
    AggDef {
        name: "avg",
        min_args: 1,
        max_args: 1,
        ret: ret_avg,
        new: avg,
    },
];

struct Count(u64);

fn count(_: &AggTypes) -> Box<dyn AggState> {
    Box::new(Count(0))
}

impl AggState for Count {
    #[inline]
    fn update(&mut self, _: &EvalCtx, args: &[Value]) -> SqlResult<()> {
        self.0 += u64::from(!args.iter().any(Value::is_null));
        Ok(())
    }

    fn update_int(&mut self, _: &EvalCtx, _: i64) -> SqlResult<()> {
        self.0 += 1;
        Ok(())
    }

    fn add_rows(&mut self, rows: u64) {
        self.0 += rows;
    }

    fn remove(&mut self, _: &EvalCtx, args: &[Value]) -> SqlResult<bool> {
        self.0 -= u64::from(!args.iter().any(Value::is_null));
        Ok(true)
    }

    fn merge(&mut self, _: &EvalCtx, other: Box<dyn AggState>) -> SqlResult<()> {
        self.0 += same::<Self>(other).0;
        Ok(())
    }

    fn finish(&mut self, _: &EvalCtx) -> SqlResult<Value> {
        Ok(Value::Int(i64::try_from(self.0).unwrap_or(i64::MAX)))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Digits that a sum has beyond its terms.
const SUM_DIGITS: u32 = 22;
const MAX_DIGITS: u32 = crate::decimal::MAX_PRECISION;

fn ret_sum(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(match exact_digits(&args[0].ty) {
        Some((digits, scale)) => {
            let most = MAX_DIGITS.max(u32::from(scale));
            SqlType::decimal((digits + SUM_DIGITS).min(most), scale)
        }
        None => double_like(&args[0].ty, 0),
    }))
}

fn ret_avg(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(match exact_digits(&args[0].ty) {
        Some((digits, scale)) => {
            let more = u32::from(ctx.div_precision_increment);
            let decimals = (u32::from(scale) + more).min(u32::from(MAX_SCALE));
            SqlType::decimal((digits + more).min(MAX_DIGITS), decimals as u8)
        }
        None => double_like(&args[0].ty, ctx.div_precision_increment),
    }))
}

/// A sum that is exact as long as its terms are.
enum Total {
    /// Integers, and decimals by their digits, all with this scale.
    Small {
        sum: i128,
        scale: u8,
    },
    Exact(Decimal),
    Double(f64),
}

impl Total {
    fn new(arg: &SqlType) -> Self {
        match exact_digits(arg) {
            Some((_, scale)) if scale <= MAX_SCALE => Self::Small { sum: 0, scale },
            Some(_) => Self::Exact(Decimal::ZERO),
            None => Self::Double(0.0),
        }
    }

    #[inline]
    fn add_int(&mut self, v: i64) -> SqlResult<()> {
        match self {
            Self::Small { sum, scale: 0 } if let Some(s) = sum.checked_add(i128::from(v)) => {
                *sum = s
            }
            Self::Double(sum) => *sum += v as f64,
            _ => return self.add_decimal(&Decimal::from_i64(v)),
        }
        Ok(())
    }

    fn add(&mut self, ctx: &EvalCtx, v: &Value) -> SqlResult<()> {
        match (&mut *self, v) {
            (_, Value::Int(v)) => self.add_int(*v),
            (Self::Double(sum), v) => {
                *sum += cast::to_f64(ctx, v)?;
                Ok(())
            }
            (_, Value::Decimal(d)) => self.add_decimal(d),
            (_, v) => self.add_decimal(&cast::to_decimal(ctx, v)?),
        }
    }

    fn add_decimal(&mut self, d: &Decimal) -> SqlResult<()> {
        if let Self::Small { sum, scale } = self {
            let term = d.unscaled_i128().filter(|_| d.scale() == *scale);
            if let Some(s) = term.and_then(|t| sum.checked_add(t)) {
                *sum = s;
                return Ok(());
            }
        }
        let sum = self.decimal().add(d).map_err(|_| out_of_range())?;
        *self = Self::Exact(sum);
        Ok(())
    }

    /// Takes a term back; false where that is not exact.
    fn sub(&mut self, ctx: &EvalCtx, v: &Value) -> SqlResult<bool> {
        if matches!(self, Self::Double(_)) {
            return Ok(false);
        }
        match v {
            Value::Int(v) if let Some(negative) = v.checked_neg() => self.add_int(negative)?,
            v => self.add_decimal(&cast::to_decimal(ctx, v)?.negate())?,
        }
        Ok(true)
    }

    fn decimal(&self) -> Decimal {
        match self {
            Self::Small { sum, scale } => Decimal::from_i128(*sum, *scale),
            Self::Exact(d) => *d,
            Self::Double(v) => Decimal::from_f64(*v).0,
        }
    }

    fn merge(&mut self, other: &Self) -> SqlResult<()> {
        match (&mut *self, other) {
            (Self::Double(a), Self::Double(b)) => {
                *a += b;
                Ok(())
            }
            (_, other) => self.add_decimal(&other.decimal()),
        }
    }
}

fn out_of_range() -> SqlError {
    errors::out_of_range("DECIMAL", "sum")
}

/// SUM, and AVG before its division.
struct Sum {
    total: Total,
    rows: u64,
    ret: SqlType,
    average: bool,
}

fn sum(types: &AggTypes) -> Box<dyn AggState> {
    Box::new(Sum::new(types, false))
}

fn avg(types: &AggTypes) -> Box<dyn AggState> {
    Box::new(Sum::new(types, true))
}

impl Sum {
    fn new(types: &AggTypes, average: bool) -> Self {
        Self {
            total: Total::new(&types.args[0]),
            rows: 0,
            ret: types.ret.clone(),
            average,
        }
    }

    fn divided(&self, ctx: &EvalCtx) -> SqlResult<Value> {
        if let Total::Double(sum) = self.total {
            return Ok(Value::Double(sum / self.rows as f64));
        }
        let rows = Decimal::from_u64(self.rows);
        let quotient = self.total.decimal().div(&rows, ctx.div_precision_increment);
        let quotient = quotient
            .map_err(|_| out_of_range())?
            .unwrap_or(Decimal::ZERO);
        let rounded = quotient
            .round(self.ret.decimals)
            .map_err(|_| out_of_range())?;
        Ok(Value::Decimal(rounded))
    }
}

impl AggState for Sum {
    #[inline]
    fn update(&mut self, ctx: &EvalCtx, args: &[Value]) -> SqlResult<()> {
        if args[0].is_null() {
            return Ok(());
        }
        self.rows += 1;
        self.total.add(ctx, &args[0])
    }

    #[inline]
    fn update_int(&mut self, _: &EvalCtx, v: i64) -> SqlResult<()> {
        self.rows += 1;
        self.total.add_int(v)
    }

    fn add_sum(&mut self, rows: u64, digits: i128, scale: u8) -> SqlResult<()> {
        self.rows += rows;
        self.total.add_decimal(&Decimal::from_i128(digits, scale))
    }

    fn remove(&mut self, ctx: &EvalCtx, args: &[Value]) -> SqlResult<bool> {
        if args[0].is_null() {
            return Ok(true);
        }
        let exact = self.total.sub(ctx, &args[0])?;
        self.rows -= u64::from(exact);
        Ok(exact)
    }

    fn merge(&mut self, _: &EvalCtx, other: Box<dyn AggState>) -> SqlResult<()> {
        let other = same::<Self>(other);
        self.rows += other.rows;
        self.total.merge(&other.total)
    }

    fn finish(&mut self, ctx: &EvalCtx) -> SqlResult<Value> {
        if self.rows == 0 {
            return Ok(Value::Null);
        }
        if self.average {
            return self.divided(ctx);
        }
        match self.total {
            Total::Double(sum) if sum.is_finite() => Ok(Value::Double(sum)),
            Total::Double(_) => Err(errors::out_of_range("DOUBLE", "sum")),
            _ => Ok(Value::Decimal(self.total.decimal())),
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
