//! The clock: NOW and its kin.
//!
//! Neighbours: the statement's time is in the context; SYSDATE asks the wall clock.
//! **Invariant**: every call in a statement but SYSDATE gives the same moment.

use super::temporal;
use crate::error::SqlResult;
use crate::errors;
use crate::func::call::Call;
use crate::func::ret::const_int;
use crate::func::{ArgType, FuncDef, RetCtx, SESSION, Signature, def};
use crate::sqltype::{SqlType, TypeKind};
use crate::temporal::{DateTime, MAX_FSP};
use crate::value::Value;

pub(in crate::func) const DEFS: &[FuncDef] = &[
    def("now", 0, 1, SESSION, ret_datetime, now),
    def("current_timestamp", 0, 1, SESSION, ret_datetime, now),
    def("localtime", 0, 1, SESSION, ret_datetime, now),
    def("localtimestamp", 0, 1, SESSION, ret_datetime, now),
    def("sysdate", 0, 1, SESSION, ret_datetime, sysdate),
    def("utc_timestamp", 0, 1, SESSION, ret_datetime, utc_timestamp),
    def("curdate", 0, 0, SESSION, ret_date, curdate),
    def("current_date", 0, 0, SESSION, ret_date, curdate),
    def("utc_date", 0, 0, SESSION, ret_date, utc_date),
    def("curtime", 0, 1, SESSION, ret_time, curtime),
    def("current_time", 0, 1, SESSION, ret_time, curtime),
    def("utc_time", 0, 1, SESSION, ret_time, utc_time),
];

/// The precision argument.
fn precision(args: &[ArgType], name: &str) -> SqlResult<u8> {
    if args.is_empty() {
        return Ok(0);
    }
    match const_int(args.first()) {
        Some(n) if (0..=i64::from(MAX_FSP)).contains(&n) => Ok(n as u8),
        n => {
            let shown = n.unwrap_or_default();
            Err(errors::precision_too_big(shown, name, "6"))
        }
    }
}

fn ret_datetime(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let ty = temporal(TypeKind::DateTime, precision(args, "now")?);
    Ok(Signature::plain(ty.with_nullable(false)))
}

fn ret_date(_: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(
        SqlType::new(TypeKind::Date).with_nullable(false),
    ))
}

fn ret_time(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    let ty = temporal(TypeKind::Time, precision(args, "curtime")?);
    Ok(Signature::plain(ty.with_nullable(false)))
}

/// Local time of a moment, cut to the result's precision.
fn local(c: &Call, micros: i64) -> DateTime {
    cut(c, DateTime::from_utc(micros, &c.ctx.time_zone))
}

fn utc(c: &Call) -> DateTime {
    cut(c, DateTime::from_utc_micros(c.ctx.now_micros))
}

fn cut(c: &Call, at: Option<DateTime>) -> DateTime {
    at.and_then(|t| t.round(c.types.ret.decimals, true).ok())
        .unwrap_or(DateTime::ZERO)
}

fn now(c: &Call) -> SqlResult<Value> {
    Ok(Value::DateTime(local(c, c.ctx.now_micros)))
}

fn sysdate(c: &Call) -> SqlResult<Value> {
    Ok(Value::DateTime(local(c, c.ctx.session.wall_micros())))
}

fn utc_timestamp(c: &Call) -> SqlResult<Value> {
    Ok(Value::DateTime(utc(c)))
}

fn curdate(c: &Call) -> SqlResult<Value> {
    Ok(Value::Date(local(c, c.ctx.now_micros).date()))
}

fn utc_date(c: &Call) -> SqlResult<Value> {
    Ok(Value::Date(utc(c).date()))
}

fn curtime(c: &Call) -> SqlResult<Value> {
    Ok(Value::Time(local(c, c.ctx.now_micros).time()))
}

fn utc_time(c: &Call) -> SqlResult<Value> {
    Ok(Value::Time(utc(c).time()))
}
