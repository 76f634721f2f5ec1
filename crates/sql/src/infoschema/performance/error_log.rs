//! The last lines of the server's error log.
//!
//! Neighbours: the process around the server keeps them ([`Host::recent_log`](crate::Host::recent_log)).
//! **Invariants**: no two rows have the same moment, which is the key; lines have no numbers of errors and come from no
//! session.

use esker_types::Value;

use super::super::source::Source;
use super::super::{Viewer, text};
use super::moment;
use crate::host::{LogLine, LogPriority};

pub(super) static SOURCES: &[Source] = &[Source::new(
    "error_log",
    &["LOGGED", "THREAD_ID", "PRIO", "SUBSYSTEM", "DATA"],
    rows,
)];

fn rows(viewer: &Viewer) -> Vec<Vec<Value>> {
    let lines = viewer.instance.host().map(|host| host.recent_log());
    let mut last = i64::MIN;
    let row = |line: LogLine| {
        last = line.micros.max(last.saturating_add(1));
        vec![
            moment(viewer, last),
            Value::UInt(0),
            text(match line.priority {
                LogPriority::Error => "Error",
                LogPriority::Warning => "Warning",
                LogPriority::Note => "Note",
            }),
            text("Server"),
            text(line.text),
        ]
    };
    lines.unwrap_or_default().into_iter().map(row).collect()
}
