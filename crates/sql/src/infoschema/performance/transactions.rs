//! The transactions that are open.
//!
//! Neighbours: INNODB_TRX has the same ones, where they hold locks.
//! **Invariants**: the event of a transaction has its session's id; one that is over leaves no row.

use std::sync::Arc;

use esker_types::Value;

use super::super::source::Source;
use super::super::{Viewer, text, yes_no};
use super::{is_collected, pico, since_start};
use crate::instruments::INSTRUMENTS;
use crate::session::registry::Process;

pub(super) static SOURCES: &[Source] = &[Source::new(
    "events_transactions_current",
    &[
        "THREAD_ID",
        "EVENT_ID",
        "EVENT_NAME",
        "STATE",
        "GTID",
        "TIMER_START",
        "TIMER_END",
        "TIMER_WAIT",
        "ACCESS_MODE",
        "ISOLATION_LEVEL",
        "AUTOCOMMIT",
    ],
    current,
)
.of_the_moment()];

fn current(viewer: &Viewer) -> Vec<Vec<Value>> {
    let instruments = &viewer.instance.instruments;
    let is_on = instruments.is_on(INSTRUMENTS, "transaction") == Some(true);
    if !is_on || is_collected(&viewer.instance, "events_transactions_current") != Some(true) {
        return Vec::new();
    }
    let sessions = viewer.instance.registry.list();
    let of_one = |process: &Arc<Process>| row(viewer, process);
    sessions.iter().filter_map(of_one).collect()
}

fn row(viewer: &Viewer, process: &Process) -> Option<Vec<Value>> {
    let began = process.detail().transaction?;
    let terms = process.terms();
    let micros = viewer.instance.now_micros().saturating_sub(began).max(0) as u64;
    let start = since_start(viewer, began);
    Some(vec![
        Value::UInt(process.id),
        Value::UInt(process.id),
        text("transaction"),
        text("ACTIVE"),
        text("AUTOMATIC"),
        pico(start),
        pico(start + micros),
        pico(micros),
        text(match terms.read_only {
            true => "READ ONLY",
            false => "READ WRITE",
        }),
        text(terms.isolation.name()),
        yes_no(false),
    ])
}
