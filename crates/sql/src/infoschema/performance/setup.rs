//! What is instrumented.
//!
//! Neighbours: none; statements are the one thing that is switched.
//! **Invariant**: a consumer or instrument is shown as enabled only if its events are collected.

use esker_types::Value;

use super::super::source::Source;
use super::super::{Viewer, text, yes_no};
use super::file_io;
use crate::ddl::Stage;
use crate::instance::Instance;

pub(super) static SOURCES: &[Source] = &[
    Source::new(
        "setup_actors",
        &["HOST", "USER", "ROLE", "ENABLED", "HISTORY"],
        |_| vec![["%", "%", "%", "YES", "YES"].map(text).to_vec()],
    ),
    Source::new("setup_consumers", &["NAME", "ENABLED"], consumers),
    Source::new(
        "setup_instruments",
        &["NAME", "ENABLED", "TIMED", "PROPERTIES"],
        instruments,
    ),
    Source::new(
        "setup_objects",
        &[
            "OBJECT_TYPE",
            "OBJECT_SCHEMA",
            "OBJECT_NAME",
            "ENABLED",
            "TIMED",
        ],
        objects,
    ),
    Source::new(
        "setup_threads",
        &["NAME", "ENABLED", "HISTORY", "PROPERTIES"],
        |_| {
            let threads = [
                "one_connection",
                "replica_io",
                "replica_sql",
                "replica_worker",
            ];
            let row = |name| {
                let name = format!("thread/sql/{name}");
                [&*name, "YES", "YES", "user"].map(text).to_vec()
            };
            threads.into_iter().map(row).collect()
        },
    ),
    Source::new(
        "performance_timers",
        &[
            "TIMER_NAME",
            "TIMER_FREQUENCY",
            "TIMER_RESOLUTION",
            "TIMER_OVERHEAD",
        ],
        timers,
    ),
];

/// Every consumer and whether its events are collected while statements are measured.
const CONSUMERS: [(&str, bool); 16] = [
    ("events_stages_current", true),
    ("events_stages_history", false),
    ("events_stages_history_long", false),
    ("events_statements_cpu", false),
    ("events_statements_current", true),
    ("events_statements_history", true),
    ("events_statements_history_long", false),
    ("events_transactions_current", true),
    ("events_transactions_history", false),
    ("events_transactions_history_long", false),
    ("events_waits_current", false),
    ("events_waits_history", false),
    ("events_waits_history_long", false),
    ("global_instrumentation", true),
    ("thread_instrumentation", true),
    ("statements_digest", true),
];

fn consumers(viewer: &Viewer) -> Vec<Vec<Value>> {
    let is_on = |name| is_collected(&viewer.instance, name).unwrap_or_default();
    let row = |(name, _)| vec![text(name), yes_no(is_on(name))];
    CONSUMERS.map(row).to_vec()
}

/// Are the events of a consumer collected? None: there is none of this name.
pub(crate) fn is_collected(instance: &Instance, consumer: &str) -> Option<bool> {
    let mut known = CONSUMERS.iter();
    let (name, on) = known.find(|(name, _)| name.eq_ignore_ascii_case(consumer))?;
    let is_measured = !name.contains("statements") || instance.digests.is_on();
    Some(*on && is_measured)
}

fn instruments(_: &Viewer) -> Vec<Vec<Value>> {
    const NAMES: [(&str, &str); 5] = [
        ("memory/esker/all", "NO"),
        ("statement/sql/all", "YES"),
        ("transaction", "YES"),
        ("wait/io/table/sql/handler", "NO"),
        ("wait/lock/metadata/sql/mdl", "YES"),
    ];
    let stages = Stage::ALL.map(|stage| (stage.event(), "YES"));
    let row = |(name, timed)| vec![text(name), text("YES"), text(timed), text("")];
    let files = file_io::instruments();
    NAMES
        .into_iter()
        .chain(files)
        .chain(stages)
        .map(row)
        .collect()
}

fn objects(_: &Viewer) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for kind in ["EVENT", "FUNCTION", "PROCEDURE", "TABLE", "TRIGGER"] {
        for (schema, on) in [
            ("mysql", false),
            ("performance_schema", false),
            ("information_schema", false),
            ("%", true),
        ] {
            rows.push(vec![
                text(kind),
                text(schema),
                text("%"),
                yes_no(on),
                yes_no(on),
            ]);
        }
    }
    rows
}

/// Clocks and their ticks a second; one is read per statement.
fn timers(_: &Viewer) -> Vec<Vec<Value>> {
    let row = |(name, frequency)| {
        vec![
            text(name),
            Value::Int(frequency),
            Value::Int(1),
            Value::Int(25),
        ]
    };
    [
        ("NANOSECOND", 1_000_000_000),
        ("MICROSECOND", 1_000_000),
        ("MILLISECOND", 1_000),
    ]
    .map(row)
    .to_vec()
}
