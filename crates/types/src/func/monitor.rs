//! Functions for those who watch a server: sizes and times to be read, threads and digests.
//!
//! Neighbours: [`crate::ctx::SessionInfo`] knows threads and digests; `sys` has what the schema `sys` adds.
//! **Invariant**: nothing here changes what it looks at, but for RELEASE_ALL_LOCKS.

use sha2::{Digest as _, Sha256};

use super::call::{Call, string};
use super::ret::{session_text, system_text, text, uint, uint_null};
use super::{FuncDef, PURE, SESSION, def};
use crate::error::{SqlError, SqlResult};
use crate::hex::lower_hex;
use crate::value::Value;

pub(super) const DEFS: &[FuncDef] = &[
    def("format_bytes", 1, 1, PURE, system_text::<11>, format_bytes),
    def(
        "format_pico_time",
        1,
        1,
        PURE,
        system_text::<11>,
        format_pico_time,
    ),
    def("icu_version", 0, 0, PURE, session_text::<5>, icu_version),
    def(
        "ps_current_thread_id",
        0,
        0,
        SESSION,
        uint_null::<21>,
        current_thread,
    ),
    def("ps_thread_id", 1, 1, SESSION, uint_null::<21>, thread_of),
    def(
        "release_all_locks",
        0,
        0,
        SESSION,
        uint::<21>,
        release_all_locks,
    ),
    def(
        "statement_digest",
        1,
        1,
        SESSION,
        text::<64>,
        statement_digest,
    ),
    def(
        "statement_digest_text",
        1,
        1,
        SESSION,
        text::<65_535>,
        statement_digest_text,
    ),
];

/// A number in the largest unit that it reaches.
pub(super) fn in_unit(value: f64, units: &[(f64, &'static str)]) -> Option<(f64, &'static str)> {
    let reached = |(size, _): &&(f64, &'static str)| value.abs() >= *size;
    units
        .iter()
        .find(reached)
        .map(|(size, unit)| (value / size, *unit))
}

/// `1.50 KiB`; below 1 KiB whole bytes in four places.
pub(super) fn format_bytes(c: &Call) -> SqlResult<Value> {
    const UNITS: [(f64, &str); 6] = [
        ((1_u64 << 60) as f64, "EiB"),
        ((1_u64 << 50) as f64, "PiB"),
        ((1_u64 << 40) as f64, "TiB"),
        ((1_u64 << 30) as f64, "GiB"),
        ((1_u64 << 20) as f64, "MiB"),
        (1024.0, "KiB"),
    ];
    let value = c.real(0)?;
    string(match in_unit(value, &UNITS) {
        None => format!("{:4} bytes", value.trunc() as i64),
        Some((n, unit)) if n.abs() >= 100_000.0 => format!("{} {unit}", exponent(n)),
        Some((n, unit)) => format!("{n:.2} {unit}"),
    })
}

/// A large number as `8.67e+11`.
fn exponent(n: f64) -> String {
    let text = format!("{n:.2e}");
    match text.split_once('e') {
        Some((digits, power)) => format!("{digits}e+{:0>2}", power),
        None => text,
    }
}

/// `1.02 ns`; below a nanosecond whole picoseconds in three places.
fn format_pico_time(c: &Call) -> SqlResult<Value> {
    const UNITS: [(f64, &str); 7] = [
        (86_400e12, "d"),
        (3_600e12, "h"),
        (60e12, "min"),
        (1e12, "s"),
        (1e9, "ms"),
        (1e6, "us"),
        (1e3, "ns"),
    ];
    let value = c.real(0)?;
    string(match in_unit(value, &UNITS) {
        None => format!("{:3} ps", value.trunc() as i64),
        Some((n, unit)) if n.abs() >= 100_000.0 => format!("{} {unit}", exponent(n)),
        Some((n, unit)) => format!("{n:.2} {unit}"),
    })
}

fn icu_version(_: &Call) -> SqlResult<Value> {
    // Regular expressions are of another make; this is the version whose syntax they follow.
    string("73.1")
}

pub(super) fn current_thread(c: &Call) -> SqlResult<Value> {
    Ok(Value::UInt(c.ctx.session.connection_id()))
}

pub(super) fn thread_of(c: &Call) -> SqlResult<Value> {
    if c.null(0) {
        return Ok(Value::Null);
    }
    let id = u64::try_from(c.int(0)?).unwrap_or(0);
    let is_there = c.ctx.session.has_connection(id);
    Ok(if is_there {
        Value::UInt(id)
    } else {
        Value::Null
    })
}

fn release_all_locks(c: &Call) -> SqlResult<Value> {
    Ok(Value::UInt(c.ctx.session.release_all_locks()))
}

/// The text of a statement without its literals.
fn digest_of(c: &Call) -> SqlResult<Option<String>> {
    if c.null(0) {
        return Ok(None);
    }
    let statement = c.text(0);
    let digest = c.ctx.session.digest_text(&statement);
    digest.map(Some).map_err(|e| {
        let text = format!(
            "Could not parse argument to digest function: \"{}\".",
            e.message
        );
        SqlError::new(3676, "HY000", text)
    })
}

fn statement_digest(c: &Call) -> SqlResult<Value> {
    Ok(digest_of(c)?.map_or(Value::Null, |text| {
        Value::str(lower_hex(&Sha256::digest(text.as_bytes())))
    }))
}

fn statement_digest_text(c: &Call) -> SqlResult<Value> {
    Ok(digest_of(c)?.map_or(Value::Null, Value::str))
}
