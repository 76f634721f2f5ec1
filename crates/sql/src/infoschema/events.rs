//! Rows about events.
//!
//! Neighbours: `source` asks by table name; `show` asks for the same of one database.
//! **Invariant**: an event is shown to those who have EVENT on its database, as in MySQL.

use std::sync::Arc;

use esker_sql_catalog::accounts::Privileges;
use esker_sql_catalog::catalog::{EventDef, EventInterval, Schedule, moment_in};
use esker_types::Value;
use jiff::tz::TimeZone;

use super::objects::created;
use super::source::Source;
use super::{Viewer, optional, text};
use crate::scheduler::zone_of;

pub(super) static SOURCES: &[Source] = &[Source::new("EVENTS", EVENTS, events)];

const EVENTS: &[&str] = &[
    "EVENT_CATALOG",
    "EVENT_SCHEMA",
    "EVENT_NAME",
    "DEFINER",
    "TIME_ZONE",
    "EVENT_BODY",
    "EVENT_DEFINITION",
    "EVENT_TYPE",
    "EXECUTE_AT",
    "INTERVAL_VALUE",
    "INTERVAL_FIELD",
    "SQL_MODE",
    "STARTS",
    "ENDS",
    "STATUS",
    "ON_COMPLETION",
    "CREATED",
    "LAST_ALTERED",
    "LAST_EXECUTED",
    "EVENT_COMMENT",
    "ORIGINATOR",
    "CHARACTER_SET_CLIENT",
    "COLLATION_CONNECTION",
    "DATABASE_COLLATION",
];

/// When an event runs, as tables and SHOW have it.
struct Times {
    kind: &'static str,
    at: Value,
    amount: Option<String>,
    unit: Option<String>,
    starts: Value,
    ends: Value,
}

/// The events that the account may see.
fn visible(viewer: &Viewer) -> Vec<Arc<EventDef>> {
    const EVENT: Privileges = Privileges::of(&["EVENT"]);
    let snapshot = viewer.instance.catalog.snapshot();
    let seen = snapshot
        .events()
        .filter(|def| viewer.access.on_schema(&def.schema).contains(EVENT));
    seen.cloned().collect()
}

fn moment(seconds: i64, zone: &TimeZone) -> Value {
    moment_in(seconds, zone).map_or(Value::Null, Value::DateTime)
}

fn times(def: &EventDef, zone: &TimeZone) -> Times {
    let (at, every) = match &def.schedule {
        Schedule::At(at) => (moment(*at, zone), None),
        Schedule::Every {
            interval,
            starts,
            ends,
        } => (Value::Null, Some((*interval, *starts, *ends))),
    };
    let interval = every.map(|(interval, ..)| interval);
    Times {
        kind: match every {
            Some(_) => "RECURRING",
            None => "ONE TIME",
        },
        at,
        amount: interval.map(EventInterval::text),
        unit: interval.map(EventInterval::unit_text),
        starts: every.map_or(Value::Null, |(_, starts, _)| moment(starts, zone)),
        ends: every
            .and_then(|(_, _, ends)| ends)
            .map_or(Value::Null, |ends| moment(ends, zone)),
    }
}

fn events(viewer: &Viewer) -> Vec<Vec<Value>> {
    let all = visible(viewer);
    all.iter().map(|def| event(viewer, def)).collect()
}

fn event(viewer: &Viewer, def: &EventDef) -> Vec<Value> {
    let (user, host) = &def.settings.definer;
    let times = times(def, &zone_of(&viewer.instance, def));
    let completion = match def.preserve {
        true => "PRESERVE",
        false => "NOT PRESERVE",
    };
    vec![
        text("def"),
        text(&def.schema),
        text(&def.name),
        text(format!("{user}@{host}")),
        text(&def.time_zone),
        text("SQL"),
        text(&def.body),
        text(times.kind),
        times.at,
        optional(times.amount.as_ref()),
        optional(times.unit.as_ref()),
        text(&def.settings.sql_mode),
        times.starts,
        times.ends,
        text(def.status.text()),
        text(completion),
        created(viewer, def.created_micros),
        created(viewer, def.altered_micros),
        def.last_run()
            .map_or(Value::Null, |ran| created(viewer, ran)),
        text(&def.comment),
        Value::UInt(def.originator.into()),
        text(&def.settings.charset_client),
        text(&def.settings.collation_connection),
        text(&def.settings.database_collation),
    ]
}
