//! JSON values as SQL values.
//!
//! Neighbours: `cast` comes here for every conversion of a JSON value.
//! **Invariants**: what cannot be converted raises 3156 (3155 if it is a number out of range) and is 0, or NULL for
//! dates and times; strings are read as numbers are read from texts, but for blanks at their end; SQL integers have
//! 64 bits.

use super::view::{JsonRef, View};
use crate::cast::{IntStatus, parse_f64, parse_int, round_f64};
use crate::ctx::EvalCtx;
use crate::decimal::{Decimal, ParseStatus};
use crate::error::SqlResult;
use crate::temporal::{Date, DateFlags, DateTime, Time, parse_datetime, parse_time};

/// Raises 3156. `what` names the expression.
fn invalid(ctx: &EvalCtx, kind: &str, what: &str) -> SqlResult<()> {
    let message = format!("Invalid JSON value for CAST to {kind} from column {what} at row 1");
    ctx.raise(3156, "22018", message)
}

/// Raises 3155.
fn out_of_range(ctx: &EvalCtx, kind: &str, what: &str) -> SqlResult<()> {
    let message = format!("Out of range JSON value for CAST to {kind} from column {what} at row 1");
    ctx.raise(3155, "22003", message)
}

/// White space behind a number, which DECIMAL allows, unlike doubles and integers; before it is always allowed.
pub(super) fn has_blank_end(s: &[u8]) -> bool {
    s.last().is_some_and(u8::is_ascii_whitespace)
}

/// An integer between `i64::MIN` and `u64::MAX`.
pub fn to_int(ctx: &EvalCtx, doc: JsonRef<'_>, what: &str) -> SqlResult<i128> {
    const KIND: &str = "INTEGER";
    Ok(match doc.view() {
        View::Bool(b) => b.into(),
        View::Int(n) => n.into(),
        View::UInt(n) => n.into(),
        View::Double(d) => {
            let (n, clamped) = round_f64(d);
            if clamped {
                out_of_range(ctx, KIND, what)?;
            }
            n.into()
        }
        View::Decimal(d) => {
            let (n, clamped) = d.to_i64();
            if clamped {
                out_of_range(ctx, KIND, what)?;
            }
            n.into()
        }
        View::String(s) => {
            let (n, status) = parse_int(s);
            match status {
                IntStatus::Exact if !has_blank_end(s) => {}
                IntStatus::Overflow => out_of_range(ctx, KIND, what)?,
                IntStatus::Exact | IntStatus::Trailing | IntStatus::Bad => {
                    invalid(ctx, KIND, what)?
                }
            }
            n
        }
        _ => {
            invalid(ctx, KIND, what)?;
            0
        }
    })
}

/// A double.
pub fn to_f64(ctx: &EvalCtx, doc: JsonRef<'_>, what: &str) -> SqlResult<f64> {
    const KIND: &str = "DOUBLE";
    Ok(match doc.view() {
        View::Bool(b) => f64::from(u8::from(b)),
        View::Int(n) => n as f64,
        View::UInt(n) => n as f64,
        View::Double(d) => d,
        View::Decimal(d) => d.to_f64(),
        View::String(s) => {
            let (d, clean) = parse_f64(s);
            if d.abs() == f64::MAX {
                out_of_range(ctx, KIND, what)?;
            } else if !clean || has_blank_end(s) {
                invalid(ctx, KIND, what)?;
            }
            d
        }
        _ => {
            invalid(ctx, KIND, what)?;
            0.0
        }
    })
}

/// A decimal.
pub fn to_decimal(ctx: &EvalCtx, doc: JsonRef<'_>, what: &str) -> SqlResult<Decimal> {
    const KIND: &str = "DECIMAL";
    Ok(match doc.view() {
        View::Bool(b) => Decimal::from(i64::from(b)),
        View::Int(n) => Decimal::from(n),
        View::UInt(n) => Decimal::from(n),
        View::Double(d) => {
            let (n, clamped) = Decimal::from_f64(d);
            if clamped {
                out_of_range(ctx, KIND, what)?;
            }
            n
        }
        View::Decimal(d) => d,
        View::String(s) => {
            let (d, status) = Decimal::parse(s);
            if !matches!(status, ParseStatus::Exact | ParseStatus::Cut) {
                invalid(ctx, KIND, what)?;
            }
            d
        }
        _ => {
            invalid(ctx, KIND, what)?;
            Decimal::ZERO
        }
    })
}

/// A date; `None` was raised.
pub fn to_date(
    ctx: &EvalCtx,
    doc: JsonRef<'_>,
    flags: DateFlags,
    what: &str,
) -> SqlResult<Option<Date>> {
    match moment(doc, flags) {
        Some(d) => Ok(Some(d.date())),
        None => invalid(ctx, "DATE", what).map(|()| None),
    }
}

/// A date with its time of day; `None` was raised.
pub fn to_datetime(
    ctx: &EvalCtx,
    doc: JsonRef<'_>,
    flags: DateFlags,
    what: &str,
) -> SqlResult<Option<DateTime>> {
    match moment(doc, flags) {
        Some(d) => Ok(Some(d)),
        None => invalid(ctx, "DATETIME/TIMESTAMP", what).map(|()| None),
    }
}

fn moment(doc: JsonRef<'_>, flags: DateFlags) -> Option<DateTime> {
    match doc.view() {
        View::Date(d) => Some(d.at_midnight()),
        View::DateTime(d, _) => Some(d),
        View::String(s) => parse_datetime(s, flags).ok().map(|p| p.datetime),
        _ => None,
    }
}

/// A duration; `None` was raised.
pub fn to_time(ctx: &EvalCtx, doc: JsonRef<'_>, what: &str) -> SqlResult<Option<Time>> {
    let time = match doc.view() {
        View::Time(t) => Some(t),
        // Digits alone are no time here.
        View::String(s) if s.contains(&b':') => parse_time(s, DateFlags::NONE).ok().map(|p| p.time),
        _ => None,
    };
    if time.is_none() {
        invalid(ctx, "TIME", what)?;
    }
    Ok(time)
}
