//! Rows of `mysql.general_log` and `mysql.slow_log`.
//!
//! Neighbours: `querylog` writes what these show, while `log_output` names TABLE; TRUNCATE empties them.
//! **Invariants**: a row whose fields are not those of its table is passed over; moments are shown in the system's
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

fn count(field: &[u8]) -> Option<Value> {
    parsed(field).map(|rows: i32| Value::Int(rows.into()))
}

fn time(field: &[u8]) -> Option<Value> {
    Time::from_micros(parsed(field)?).map(Value::Time)
}

fn moment(viewer: &Viewer, field: &[u8]) -> Option<Value> {
    let at: civil::DateTime = parsed(field)?;
    let micros = at.in_tz("UTC").ok()?.timestamp().as_microsecond();
    DateTime::from_utc(micros, &viewer.instance.system_zone).map(Value::DateTime)
}
