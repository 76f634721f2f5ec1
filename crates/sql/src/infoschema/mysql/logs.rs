//! Rows of `mysql.general_log` and `mysql.slow_log`.
//!
//! Neighbours: `querylog` writes what these show, while `log_output` names TABLE; TRUNCATE empties them.
//! **Invariants**: a row whose fields are not those of its table is passed over; a number that is too large for its
//! column is the largest that fits; moments are shown in the system's
//! time zone; a table that cannot be read has no rows, and the server's log says so.

use std::str::FromStr;

use esker_types::{DateTime, Time, Value};
use jiff::civil;

use super::super::source::Source;
use super::super::{Viewer, text};
use crate::instance::Instance;
use crate::querylog::QueryLog;

pub(super) static SOURCES: &[Source] = &[
    Source::new(
        "general_log",
        &[
            "event_time",
            "user_host",
            "thread_id",
            "server_id",
            "command_type",
            "argument",
        ],
        general,
    )
    .emptied_by(|instance| empty(&instance.query_logs.general, instance)),
    Source::new(
        "slow_log",
        &[
            "start_time",
            "user_host",
            "query_time",
            "lock_time",
            "rows_sent",
            "rows_examined",
            "db",
            "server_id",
            "sql_text",
            "thread_id",
        ],
        slow,
    )
    .emptied_by(|instance| empty(&instance.query_logs.slow, instance)),
];

fn general(viewer: &Viewer) -> Vec<Vec<Value>> {
    rows(viewer, &viewer.instance.query_logs.general, |fields| {
        let [at, who, id, server, command, statement] = fields else {
            return None;
        };
        Some(vec![
            moment(viewer, at)?,
            name(who)?,
            number(id)?,
            number(server)?,
            name(command)?,
            Value::Str(statement.clone()),
        ])
    })
}

fn slow(viewer: &Viewer) -> Vec<Vec<Value>> {
    rows(viewer, &viewer.instance.query_logs.slow, |fields| {
        let [
            at,
            who,
            taken,
            locked,
            sent,
            examined,
            database,
            server,
            statement,
            id,
        ] = fields
        else {
            return None;
        };
        Some(vec![
            moment(viewer, at)?,
            name(who)?,
            time(taken)?,
            time(locked)?,
            count(sent)?,
            count(examined)?,
            name(database)?,
            number(server)?,
            Value::Str(statement.clone()),
            number(id)?,
        ])
    })
}

fn rows(
    viewer: &Viewer,
    log: &QueryLog,
    row: impl Fn(&[Vec<u8>]) -> Option<Vec<Value>>,
) -> Vec<Vec<Value>> {
    let found = log.rows(&viewer.instance.env).unwrap_or_else(|e| {
        tracing::error!("cannot read the table of a log: {e}");
        Vec::new()
    });
    found.iter().filter_map(|fields| row(fields)).collect()
}

fn empty(log: &QueryLog, instance: &Instance) {
    if let Err(e) = log.truncate(&instance.env) {
        tracing::error!("cannot empty the table of a log: {e}");
    }
}

fn parsed<T: FromStr>(field: &[u8]) -> Option<T> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

fn name(field: &[u8]) -> Option<Value> {
    std::str::from_utf8(field).ok().map(text)
}

fn number(field: &[u8]) -> Option<Value> {
    parsed(field).map(Value::UInt)
}

/// INT is too small for what a statement may count.
fn count(field: &[u8]) -> Option<Value> {
    let rows: u64 = parsed(field)?;
    Some(Value::Int(rows.min(i32::MAX as u64).cast_signed()))
}

/// TIME ends at 838:59:59, and a statement need not.
fn time(field: &[u8]) -> Option<Value> {
    let (time, _) = Time::clamped(parsed(field)?);
    Some(Value::Time(time))
}

fn moment(viewer: &Viewer, field: &[u8]) -> Option<Value> {
    let at: civil::DateTime = parsed(field)?;
    let micros = at.in_tz("UTC").ok()?.timestamp().as_microsecond();
    DateTime::from_utc(micros, &viewer.instance.system_zone).map(Value::DateTime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_times_are_as_large_as_their_columns_allow() {
        let shown = |value: Option<Value>| format!("{value:?}");
        let longest = Value::Time(Time::MAX);
        assert_eq!(shown(count(b"2147483647")), shown(count(b"2147483648")));
        assert_eq!(shown(count(b"7")), shown(Some(Value::Int(7))));
        assert_eq!(
            shown(count(b"18446744073709551615")),
            shown(Some(Value::Int(2_147_483_647)))
        );
        assert_eq!(shown(time(b"3020399000001")), shown(Some(longest)));
        assert_eq!(
            shown(time(b"1500000")),
            shown(Time::from_micros(1_500_000).map(Value::Time))
        );
        assert!(count(b"-1").is_none() && time(b"x").is_none());
    }
}
