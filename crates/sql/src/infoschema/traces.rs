//! OPTIMIZER_TRACE: what the planner considered for the last statements of the session that looks.
//!
//! Neighbours: `session::traces` keeps them; `source` asks by table name.
//! **Invariant**: a session sees its own statements only.

use esker_types::Value;

use super::source::Source;
use super::{Viewer, text};

pub(super) static SOURCES: &[Source] = &[Source::new(
    "OPTIMIZER_TRACE",
    &[
        "QUERY",
        "TRACE",
        "MISSING_BYTES_BEYOND_MAX_MEM_SIZE",
        "INSUFFICIENT_PRIVILEGES",
    ],
    traces,
)];

fn traces(viewer: &Viewer) -> Vec<Vec<Value>> {
    let traces = viewer.session.iter().flat_map(|session| &session.traces);
    let row = |trace: &crate::session::Trace| {
        vec![
            text(&trace.query),
            text(&trace.trace),
            Value::UInt(trace.missing),
            Value::UInt(trace.is_hidden.into()),
        ]
    };
    traces.map(row).collect()
}
