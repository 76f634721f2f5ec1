//! Form of the lines of the server's log: text, or an object of JSON each with the names that MySQL gives its fields.
//!
//! Neighbours: `serve` chooses the form, `log` has the place. **Invariant**: a line of JSON is one object, whatever the
//! message has in it.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use esker_sql::LogForm;
use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::show::json_text;

/// Lines are JSON.
static JSON: AtomicBool = AtomicBool::new(false);
/// Warnings are written.
static WARNINGS: AtomicBool = AtomicBool::new(true);

/// Name of the field that has the text.
pub(crate) const MESSAGE: &str = "message";

/// Lines are of this form from now on.
pub(crate) fn use_form(form: LogForm) {
    JSON.store(form.json, Ordering::Relaxed);
    WARNINGS.store(form.warnings, Ordering::Relaxed);
}

/// Are lines of this level written?
pub(crate) fn is_written(level: Level) -> bool {
    level != Level::WARN || WARNINGS.load(Ordering::Relaxed)
}

/// Writes lines in the form that is in use.
pub(crate) struct Lines(Format<Full>);

impl Lines {
    pub(crate) fn new() -> Self {
        Self(tracing_subscriber::fmt::format().with_target(false))
    }
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if !is_written(*event.metadata().level()) {
            return Ok(());
        }
        if !JSON.load(Ordering::Relaxed) {
            return self.0.format_event(context, writer, event);
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = *event.metadata().level();
        writeln!(writer, "{}", line(Timestamp::now(), level, &fields))
    }
}

/// What an event says.
#[derive(Default)]
struct Fields {
    message: String,
    /// Members of the object, each with a comma before it.
    others: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field.name(), &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.number(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.number(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.number(field.name(), value);
    }
}

impl Fields {
    fn add(&mut self, name: &str, text: &str) {
        if name == MESSAGE {
            text.clone_into(&mut self.message);
            return;
        }
        // Writing into a string cannot fail.
        let _ = write!(self.others, ",{}:{}", json_text(name), json_text(text));
    }

    /// A value that needs no quotes.
    fn number(&mut self, name: &str, number: impl fmt::Display) {
        let _ = write!(self.others, ",{}:{number}", json_text(name));
    }
}

fn line(now: Timestamp, level: Level, fields: &Fields) -> String {
    let (prio, label) = match level {
        Level::ERROR => (1, "Error"),
        Level::WARN => (2, "Warning"),
        _ => (3, "Note"),
    };
    format!(
        "{{\"prio\":{prio},\"label\":\"{label}\",\"subsystem\":\"Server\",\"time\":\"{now:.6}\",\"ts\":{},\"msg\":{}{}}}",
        now.as_millisecond(),
        json_text(&fields.message),
        fields.others
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_object() {
        let mut fields = Fields::default();
        fields.add(MESSAGE, "say \"a\"\nand b\\");
        fields.add("error", "x");
        fields.number("rows", 5);
        let now = Timestamp::from_microsecond(1_795_525_140_500_000).expect("a time");
        assert_eq!(
            line(now, Level::WARN, &fields),
            "{\"prio\":2,\"label\":\"Warning\",\"subsystem\":\"Server\",\"time\":\"2026-11-24T12:59:00.500000Z\",\
             \"ts\":1795525140500,\"msg\":\"say \\\"a\\\"\\u000aand b\\\\\",\"error\":\"x\",\"rows\":5}"
        );
    }
}
