//! What is instrumented.
//!
//! Neighbours: [`crate::instruments`] keeps the rows of what can be switched, `session::instruments` changes them.
//! **Invariant**: at the start a consumer or instrument is enabled only if its events are collected.

use esker_types::Value;

use super::super::source::Source;
use super::super::{Viewer, text, yes_no};
use super::file_io;
use crate::ddl::Stage;
use crate::instance::Instance;
use crate::instruments::{ACTORS, CONSUMERS, INSTRUMENTS, NUMBER, OBJECTS, Row, THREADS};

pub(super) static SOURCES: &[Source] = &[
    Source::new(
        "setup_actors",
        &["HOST", "USER", "ROLE", "ENABLED", "HISTORY"],
        |viewer| rows(viewer, ACTORS),
    )
    .emptied_by(|instance| {
        instance.instruments.remove(ACTORS, None);
    }),
    Source::new("setup_consumers", &["NAME", "ENABLED"], |viewer| {
        rows(viewer, CONSUMERS)
    }),
    Source::new(
        "setup_instruments",
        &["NAME", "ENABLED", "TIMED"],
        |viewer| rows(viewer, INSTRUMENTS),
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
        |viewer| rows(viewer, OBJECTS),
    )
    .emptied_by(|instance| {
        instance.instruments.remove(OBJECTS, None);
    }),
    Source::new("setup_threads", &["NAME", "ENABLED", "HISTORY"], |viewer| {
        rows(viewer, THREADS)
    }),
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
const CONSUMERS_AT_START: [(&str, bool); 16] = [
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

/// The rows of a table with switches.
fn rows(viewer: &Viewer, table: usize) -> Vec<Vec<Value>> {
    let rows = viewer.instance.instruments.rows(table).into_iter();
    let mut rows: Vec<Vec<Value>> = rows.map(|row| row.iter().map(text).collect()).collect();
    // Without measurements there are no statements to consume.
    if table == CONSUMERS && !is_measuring(&viewer.instance) {
        for (row, (name, _)) in rows.iter_mut().zip(CONSUMERS_AT_START) {
            if name.contains("statements") {
                row[1] = yes_no(false);
            }
        }
    }
    rows
}

/// Do the variables let statements be measured?
fn is_measuring(instance: &Instance) -> bool {
    ["performance_schema", "esker_statement_statistics"]
        .iter()
        .all(|name| instance.variable_is_on(name))
}

/// Are the events of a consumer collected? None: there is none of this name.
pub(crate) fn is_collected(instance: &Instance, consumer: &str) -> Option<bool> {
    let is_on = instance.instruments.is_on(CONSUMERS, consumer)?;
    let is_measured =
        !consumer.to_ascii_lowercase().contains("statements") || is_measuring(instance);
    Some(is_on && is_measured)
}

/// The rows of all tables with switches at the start.
pub(crate) fn at_start() -> [Vec<Row>; NUMBER] {
    let mut tables: [Vec<Row>; NUMBER] = Default::default();
    let row = |cells: &[&str]| -> Row { cells.iter().map(|cell| (*cell).to_owned()).collect() };
    let word = |on: bool| if on { "YES" } else { "NO" };
    tables[ACTORS] = vec![row(&["%", "%", "%", "YES", "YES"])];
    tables[CONSUMERS] = CONSUMERS_AT_START
        .map(|(name, on)| row(&[name, word(on)]))
        .to_vec();
    const NAMES: [(&str, &str); 5] = [
        ("memory/esker/all", "NO"),
        ("statement/sql/all", "YES"),
        ("transaction", "YES"),
        ("wait/io/table/sql/handler", "NO"),
        ("wait/lock/metadata/sql/mdl", "YES"),
    ];
    let stages = Stage::ALL.map(|stage| (stage.event(), "YES"));
    let named = NAMES
        .into_iter()
        .chain(file_io::instruments())
        .chain(stages);
    tables[INSTRUMENTS] = named
        .map(|(name, timed)| row(&[name, "YES", timed]))
        .collect();
    for kind in ["EVENT", "FUNCTION", "PROCEDURE", "TABLE", "TRIGGER"] {
        for (schema, on) in [
            ("mysql", false),
            ("performance_schema", false),
            ("information_schema", false),
            ("%", true),
        ] {
            tables[OBJECTS].push(row(&[kind, schema, "%", word(on), word(on)]));
        }
    }
    let threads = [
        "one_connection",
        "replica_io",
        "replica_sql",
        "replica_worker",
    ];
    tables[THREADS] = threads
        .map(|name| row(&[&*format!("thread/sql/{name}"), "YES", "YES"]))
        .to_vec();
    tables
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
