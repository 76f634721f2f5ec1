//! Stages: how far the schema changes are that run now.
//!
//! Neighbours: `ddl` reports, the registry keeps what it reports.
//! **Invariants**: only stages of schema changes are events; work is rows, or trees while sorted runs are merged; a
//! session without a schema change has no row.

use std::sync::Arc;

use esker_types::Value;

use super::super::source::Source;
use super::super::{Viewer, text};
use super::{is_collected, pico, since_start};
use crate::instruments::INSTRUMENTS;
use crate::session::registry::Process;

pub(super) static SOURCES: &[Source] = &[Source::new(
    "events_stages_current",
    &[
        "THREAD_ID",
        "EVENT_ID",
        "EVENT_NAME",
        "TIMER_START",
        "TIMER_END",
        "TIMER_WAIT",
        "WORK_COMPLETED",
        "WORK_ESTIMATED",
        "NESTING_EVENT_TYPE",
    ],
    current,
)
.of_the_moment()];

fn current(viewer: &Viewer) -> Vec<Vec<Value>> {
    if is_collected(&viewer.instance, "events_stages_current") != Some(true) {
        return Vec::new();
    }
    let instruments = &viewer.instance.instruments;
    let row = |process: &Arc<Process>| {
        let shown = process.progress.shown()?;
        instruments
            .is_on(INSTRUMENTS, shown.stage.event())
            .filter(|on| *on)?;
        let micros = shown.began.elapsed().as_micros() as u64;
        let began = viewer.instance.now_micros() - micros as i64;
        let start = since_start(viewer, began);
        Some(vec![
            Value::UInt(process.id),
            Value::UInt(shown.number),
            text(shown.stage.event()),
            pico(start),
            pico(start + micros),
            pico(micros),
            Value::UInt(shown.done),
            Value::UInt(shown.estimated),
            text("STATEMENT"),
        ])
    };
    let sessions = viewer.instance.registry.list();
    sessions.iter().filter_map(row).collect()
}
