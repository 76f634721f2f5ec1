//! The last lines of the server's log, kept for `performance_schema.error_log`.
//!
//! Neighbours: `serve` puts the [`Keeper`] beside what writes the lines; the server asks for [`lines`].
//! **Invariants**: at most [`KEPT`] lines of at most [`MAX_TEXT_BYTES`] each; the newest are kept.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::{Mutex, PoisonError};

use esker_sql::{LogLine, LogPriority};
use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::log_format::{MESSAGE, is_written};

/// Lines that are kept.
const KEPT: usize = 1000;
/// What is kept of a line.
const MAX_TEXT_BYTES: usize = 4096;

static LINES: Mutex<VecDeque<LogLine>> = Mutex::new(VecDeque::new());

/// The lines, the oldest first.
pub(crate) fn lines() -> Vec<LogLine> {
    // A line is put in whole.
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    lines.iter().cloned().collect()
}

/// Keeps the lines that are written.
pub(crate) struct Keeper;

impl<S: Subscriber> Layer<S> for Keeper {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = *event.metadata().level();
        if !is_written(level) {
            return;
        }
        let mut text = Text::default();
        event.record(&mut text);
        keep(LogLine {
            micros: Timestamp::now().as_microsecond(),
            priority: priority(level),
            text: text.whole(),
        });
    }
}

fn keep(line: LogLine) {
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    if lines.len() == KEPT {
        lines.pop_front();
    }
    lines.push_back(line);
    debug_assert!(lines.len() <= KEPT);
}

fn priority(level: Level) -> LogPriority {
    match level {
        Level::ERROR => LogPriority::Error,
        Level::WARN => LogPriority::Warning,
        _ => LogPriority::Note,
    }
}

/// What an event says: its message, then its fields with their names.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Text {
    fn whole(self) -> String {
        let mut text = self.message + &self.fields;
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        text.shrink_to_fit();
        text
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing into a string cannot fail.
        let _ = match field.name() {
            MESSAGE => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_kept() {
        let note = |text: String| LogLine {
            micros: 0,
            priority: LogPriority::Note,
            text,
        };
        for n in 0..KEPT + 5 {
            keep(note(n.to_string()));
        }
        let kept = lines();
        assert_eq!(kept.len(), KEPT);
        assert_eq!(
            (kept[0].text.as_str(), kept[KEPT - 1].text.as_str()),
            ("5", "1004")
        );
    }

    #[test]
    fn a_long_line_is_cut() {
        let text = Text {
            message: "é".repeat(MAX_TEXT_BYTES),
            fields: " n=1".into(),
        };
        assert_eq!(text.whole(), "é".repeat(MAX_TEXT_BYTES / 2));
    }
}
