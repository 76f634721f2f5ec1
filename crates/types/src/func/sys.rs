//! The functions of the schema `sys`: sizes, times, lists, names of files, and what `performance_schema` collects.
//!
//! Neighbours: `monitor` has the native functions of the same kind; [`crate::ctx::SessionInfo`] knows threads and
//! consumers; the binder looks `sys.name(…)` up as one name.
//! **Invariants**: a name with `sys.` cannot be called without the schema; as bodies of stored functions would, none
//! warns of its arguments.

use std::borrow::Cow;

use super::call::{Call, string};
use super::monitor::{current_thread, format_bytes, in_unit, thread_of};
use super::ret::{text, uint, uint_null};
use super::{FuncDef, PURE, SESSION, TOTAL, def};
use crate::error::{SqlError, SqlResult};
use crate::errors;
use crate::value::Value;

/// What `sys.sys_config` says: variables and their values.
pub const CONFIG: [(&str, Option<&str>); 6] = [
    ("diagnostics.allow_i_s_tables", Some("OFF")),
    ("diagnostics.include_raw", Some("OFF")),
    ("ps_thread_trx_info.max_length", Some("65535")),
    ("statement_performance_analyzer.limit", Some("100")),
    ("statement_performance_analyzer.view", None),
    ("statement_truncate_len", Some("64")),
];

#[rustfmt::skip] // one line each, to be read as a table
pub(super) const DEFS: &[FuncDef] = &[
    def("sys.extract_schema_from_file_name", 1, 1, PURE, text::<64>, schema_of_file),
    def("sys.extract_table_from_file_name", 1, 1, PURE, text::<64>, table_of_file),
    def("sys.format_bytes", 1, 1, PURE, text::<20>, format_bytes),
    def("sys.format_path", 1, 1, PURE, text::<512>, format_path),
    def("sys.format_statement", 1, 1, PURE, text::<65_535>, format_statement),
    def("sys.format_time", 1, 1, PURE, text::<65_535>, format_time),
    def("sys.list_add", 2, 2, TOTAL, text::<65_535>, list_add),
    def("sys.list_drop", 2, 2, TOTAL, text::<65_535>, list_drop),
    def("sys.ps_is_account_enabled", 2, 2, TOTAL, text::<3>, |_| string("YES")),
    def("sys.ps_is_consumer_enabled", 1, 1, SESSION, text::<3>, consumer_enabled),
    def("sys.ps_is_instrument_default_enabled", 1, 1, TOTAL, text::<3>, enabled_by_default),
    def("sys.ps_is_instrument_default_timed", 1, 1, TOTAL, text::<3>, timed_by_default),
    def("sys.ps_is_thread_instrumented", 1, 1, SESSION, text::<7>, thread_instrumented),
    def("sys.ps_thread_account", 1, 1, SESSION, text::<65_535>, thread_account),
    def("sys.ps_thread_id", 1, 1, SESSION, uint_null::<21>, thread_or_own),
    def("sys.quote_identifier", 1, 1, PURE, text::<65_535>, quote_identifier),
    def("sys.sys_get_config", 2, 2, TOTAL, text::<128>, config),
    def("sys.version_major", 0, 0, SESSION, uint::<3>, |c| version_part(c, 0)),
    def("sys.version_minor", 0, 0, SESSION, uint::<3>, |c| version_part(c, 1)),
    def("sys.version_patch", 0, 0, SESSION, uint::<3>, |c| version_part(c, 2)),
];

/// An argument as characters.
fn chars<'a>(c: &Call<'a>, nth: usize) -> Cow<'a, str> {
    match c.text(nth) {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

fn yes_no(is: bool) -> SqlResult<Value> {
    string(if is { "YES" } else { "NO" })
}

/// With weeks, and no more digits than there are. What is below a nanosecond, negative or no number stays as it is.
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
    let given = chars(c, 0);
    let time = given.trim().parse::<f64>().ok().filter(|time| *time > 0.0);
    let Some((n, unit)) = time.and_then(|time| in_unit(time, &UNITS)) else {
        return string(format!("{given} ps"));
    };
    let digits = format!("{n:.2}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    string(format!("{digits} {unit}"))
}

/// Paths are shown as they are: no variable of a folder stands for their beginning.
fn format_path(c: &Call) -> SqlResult<Value> {
    string(c.text(0).into_owned())
}

/// A statement in 64 characters: its beginning and its end.
fn format_statement(c: &Call) -> SqlResult<Value> {
    /// `statement_truncate_len`.
    const MOST: usize = 64;
    let text = chars(c, 0).replace('\n', " ");
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
    let name = chars(c, 0).replace('`', "``");
    string(format!("`{name}`"))
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

/// Adds to a list with commas, whether the item is there or not.
fn list_add(c: &Call) -> SqlResult<Value> {
    if c.null(1) {
        return Err(errors::null_argument("list_add", "in_add_value"));
    }
    let added = chars(c, 1);
    if c.null(0) || chars(c, 0).is_empty() {
        return string(added.into_owned());
    }
    let list = chars(c, 0);
    string(format!(
        "{},{added}",
        list.trim_matches(' ').trim_matches(',')
    ))
}

/// Takes out whatever begins, behind a comma and maybe a space, with the item.
fn list_drop(c: &Call) -> SqlResult<Value> {
    if c.null(1) {
        return Err(errors::null_argument("list_drop", "in_drop_value"));
    }
    if c.null(0) {
        return Ok(Value::Null);
    }
    let (list, dropped) = (chars(c, 0), chars(c, 1));
    if list.is_empty() {
        return string(list.into_owned());
    }
    let left = format!(",{list}");
    let left = left.replace(&format!(",{dropped}"), "");
    let left = left.replace(&format!(", {dropped}"), "");
    string(left.trim_matches(','))
}

/// The first 64 characters.
fn shortened(name: &str) -> SqlResult<Value> {
    string(name.chars().take(64).collect::<String>())
}

/// The folder that a file lies in.
fn schema_of_file(c: &Call) -> SqlResult<Value> {
    let path = chars(c, 0).replace('\\', "/");
    let mut parts = path.rsplit('/');
    let file = parts.next().unwrap_or_default();
    shortened(parts.next().unwrap_or(file))
}

/// The name of a file up to its first dot.
fn table_of_file(c: &Call) -> SqlResult<Value> {
    let path = chars(c, 0).replace('\\', "/");
    let file = path.rsplit('/').next().unwrap_or_default();
    let file = file.replace("@0024", "$");
    shortened(file.split('.').next().unwrap_or_default())
}

fn consumer_enabled(c: &Call) -> SqlResult<Value> {
    if c.null(0) {
        return Ok(Value::Null);
    }
    let name = chars(c, 0);
    match c.ctx.session.collects(&name) {
        Some(is) => yes_no(is),
        None => {
            let text =
                format!("Invalid argument error: {name} in function sys.ps_is_consumer_enabled.");
            Err(SqlError::new(3047, "HY000", text))
        }
    }
}

/// Does the name of an instrument begin with one of these, in any case?
fn begins_with(c: &Call, prefixes: &[&str]) -> bool {
    let name = chars(c, 0).to_lowercase();
    !c.null(0) && prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// No stage tells of its progress without being switched on.
fn enabled_by_default(c: &Call) -> SqlResult<Value> {
    yes_no(!begins_with(
        c,
        &["stage/", "wait/synch/", "wait/io/socket/"],
    ))
}

fn timed_by_default(c: &Call) -> SqlResult<Value> {
    yes_no(!begins_with(c, &["stage/", "wait/synch/", "memory/"]))
}

/// Every thread that serves a connection is.
fn thread_instrumented(c: &Call) -> SqlResult<Value> {
    match (c.null(0), thread_of(c)?) {
        (true, _) => Ok(Value::Null),
        (_, Value::Null) => string("UNKNOWN"),
        _ => string("YES"),
    }
}

fn thread_account(c: &Call) -> SqlResult<Value> {
    if c.null(0) {
        return Ok(Value::Null);
    }
    let id = u64::try_from(c.int(0)?).unwrap_or(0);
    let account = c.ctx.session.connection_account(id);
    Ok(account.map_or(Value::Null, Value::str))
}

/// `sys.ps_thread_id(NULL)` is the own thread.
fn thread_or_own(c: &Call) -> SqlResult<Value> {
    match c.null(0) {
        true => current_thread(c),
        false => thread_of(c),
    }
}

/// A value of `sys_config`, or the other one where there is none.
fn config(c: &Call) -> SqlResult<Value> {
    let name = chars(c, 0);
    let named = |(known, _): &&(&str, _)| !c.null(0) && name.eq_ignore_ascii_case(known);
    match (CONFIG.iter().find(named), c.null(1)) {
        (Some((_, Some(value))), _) => string(*value),
        (_, true) => Ok(Value::Null),
        (_, false) => string(chars(c, 1).into_owned()),
    }
}
