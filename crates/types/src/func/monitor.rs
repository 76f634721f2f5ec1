//! Functions for those who watch a server: sizes and times to be read, threads, digests, and the functions of `sys`.
//!
//! Neighbours: [`crate::ctx::SessionInfo`] knows threads and digests; the binder looks `sys.name(…)` up as one name.
//! **Invariant**: a name with `sys.` is a function of the schema `sys`, and cannot be called without the schema.

use sha2::{Digest as _, Sha256};

use super::call::{Call, string};
use super::ret::{session_text, system_text, text, uint, uint_null};
use super::{FuncDef, PURE, SESSION, def};
use crate::error::{SqlError, SqlResult};
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
        uint::<21>,
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
    def("sys.format_bytes", 1, 1, PURE, text::<20>, format_bytes),
    def("sys.format_path", 1, 1, PURE, text::<512>, format_path),
    def(
        "sys.format_statement",
        1,
        1,
        PURE,
        text::<65_535>,
        format_statement,
    ),
    def("sys.format_time", 1, 1, PURE, text::<20>, format_time),
    def("sys.list_add", 2, 2, PURE, text::<65_535>, list_add),
    def("sys.list_drop", 2, 2, PURE, text::<65_535>, list_drop),
    def(
        "sys.ps_thread_id",
        1,
        1,
        SESSION,
        uint_null::<21>,
        thread_or_own,
    ),
    def(
        "sys.quote_identifier",
        1,
        1,
        PURE,
        text::<65_535>,
        quote_identifier,
    ),
    def("sys.version_major", 0, 0, SESSION, uint::<3>, |c| {
        version_part(c, 0)
    }),
    def("sys.version_minor", 0, 0, SESSION, uint::<3>, |c| {
        version_part(c, 1)
    }),
    def("sys.version_patch", 0, 0, SESSION, uint::<3>, |c| {
        version_part(c, 2)
    }),
];

/// A number in the largest unit that it reaches.
fn in_unit(value: f64, units: &[(f64, &'static str)]) -> Option<(f64, &'static str)> {
    let reached = |(size, _): &&(f64, &'static str)| value.abs() >= *size;
    units
        .iter()
        .find(reached)
        .map(|(size, unit)| (value / size, *unit))
}

/// `1.50 KiB`; below 1 KiB whole bytes in four places.
fn format_bytes(c: &Call) -> SqlResult<Value> {
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

/// `sys.format_time`: with weeks, and no more digits than there are.
fn format_time(c: &Call) -> SqlResult<Value> {
    const UNITS: [(f64, &str); 8] = [
        (604_800e12, "w"),
        (86_400e12, "d"),
        (3_600e12, "h"),
        (60e12, "m"),
        (1e12, "s"),
        (1e9, "ms"),
        (1e6, "us"),
        (1e3, "ns"),
    ];
    let value = c.real(0)?;
    let (n, unit) = in_unit(value, &UNITS).unwrap_or((value, "ps"));
    let digits = format!("{n:.2}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    string(format!("{digits} {unit}"))
}

fn icu_version(_: &Call) -> SqlResult<Value> {
    // Regular expressions are of another make; this is the version whose syntax they follow.
    string("73.1")
}

fn current_thread(c: &Call) -> SqlResult<Value> {
    Ok(Value::UInt(c.ctx.session.connection_id()))
}

fn thread_of(c: &Call) -> SqlResult<Value> {
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

/// `sys.ps_thread_id(NULL)` is the own thread.
fn thread_or_own(c: &Call) -> SqlResult<Value> {
    match c.null(0) {
        true => current_thread(c),
        false => thread_of(c),
    }
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
        let hash = Sha256::digest(text.as_bytes());
        Value::str(hash.iter().map(|b| format!("{b:02x}")).collect::<String>())
    }))
}

fn statement_digest_text(c: &Call) -> SqlResult<Value> {
    Ok(digest_of(c)?.map_or(Value::Null, Value::str))
}

/// Paths are shown as they are: no variable of a folder stands for their beginning.
fn format_path(c: &Call) -> SqlResult<Value> {
    string(c.text(0).into_owned())
}

/// A statement in 64 characters: its beginning and its end.
fn format_statement(c: &Call) -> SqlResult<Value> {
    /// `statement_truncate_len`.
    const MOST: usize = 64;
    let text = String::from_utf8_lossy(&c.text(0)).replace('\n', " ");
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= MOST {
        return string(text);
    }
    let half = MOST / 2 - 2;
    let begin: String = chars[..half].iter().collect();
    let end: String = chars[chars.len() - half..].iter().collect();
    string(format!("{begin} ... {end}"))
}

fn quote_identifier(c: &Call) -> SqlResult<Value> {
    let name = String::from_utf8_lossy(&c.text(0)).replace('`', "``");
    string(format!("`{name}`"))
}

/// The words of a list with commas.
fn words(c: &Call) -> Vec<String> {
    let list = String::from_utf8_lossy(&c.text(0)).into_owned();
    let words = list.split(',').map(|word| word.trim().to_owned());
    words.filter(|word| !word.is_empty()).collect()
}

fn list_add(c: &Call) -> SqlResult<Value> {
    let mut words = words(c);
    let added = String::from_utf8_lossy(&c.text(1)).trim().to_owned();
    if !words.contains(&added) {
        words.push(added);
    }
    string(words.join(","))
}

fn list_drop(c: &Call) -> SqlResult<Value> {
    let dropped = String::from_utf8_lossy(&c.text(1)).trim().to_owned();
    let mut words = words(c);
    words.retain(|word| *word != dropped);
    string(words.join(","))
}

/// A part of the version `8.4.3-name`.
fn version_part(c: &Call, nth: usize) -> SqlResult<Value> {
    let version = c.ctx.session.version();
    let numbers = version.split(['.', '-']);
    let part = numbers.map(str::parse).nth(nth);
    Ok(match part {
        Some(Ok(number)) => Value::UInt(number),
        _ => Value::Null,
    })
}
