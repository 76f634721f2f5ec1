//! Operators as EXPLAIN shows them: lines of indented text, or a document of `explain_json_format_version` = 2.
//!
//! Neighbours: `tree` makes the lines; `document` writes JSON.
//! **Invariants**: an operator's inputs follow it, one level deeper; both forms say the same of an operator; actual
//! times are milliseconds, include what is below, and are averages over the loops, like rows.

use std::fmt::Write as _;

use super::document::{self, Json, Members};
use crate::plan::profile::Measured;

/// One operator.
pub(super) struct Line {
    pub depth: usize,
    pub text: String,
    /// What the text says, as members of a document.
    pub details: Members,
    /// Estimated cost and rows.
    pub estimate: Option<(f64, f64)>,
    pub actual: Actual,
}

/// What an operator did.
pub(super) enum Actual {
    /// The statement did not run, or the operator has no figures of its own.
    Unmeasured,
    /// It was never started.
    Never,
    Ran(Measured),
}

/// Averages over the loops.
struct Averages {
    first: f64,
    last: f64,
    rows: f64,
}

impl Averages {
    fn of(m: &Measured) -> Self {
        let loops = m.loops.max(1) as f64;
        let millis = |d: std::time::Duration| d.as_secs_f64() * 1000.0 / loops;
        Self {
            first: millis(m.first),
            last: millis(m.total),
            rows: m.rows as f64 / loops,
        }
    }
}

/// The lines as text.
pub(super) fn text(lines: &[Line]) -> String {
    let mut out = String::new();
    for line in lines {
        let indent = line.depth * 4;
        // Writing to a String cannot fail.
        let _ = write!(out, "{:indent$}-> {}", "", line.text);
        if let Some((cost, rows)) = line.estimate {
            let rows = rows.max(0.0).round();
            let _ = write!(out, "  (cost={} rows={})", readable(cost), readable(rows));
        }
        match &line.actual {
            Actual::Unmeasured => {}
            Actual::Never => out.push_str(" (never executed)"),
            Actual::Ran(m) => {
                let averages = Averages::of(m);
                let (first, last) = (readable(averages.first), readable(averages.last));
                let rows = match m.rows % m.loops.max(1) {
                    0 => format!("{}", averages.rows),
                    _ => format!("{:.2}", averages.rows),
                };
                let _ = write!(
                    out,
                    " (actual time={first}..{last} rows={rows} loops={})",
                    m.loops
                );
            }
        }
        out.push('\n');
    }
    out
}

/// A number with three significant digits, or all that stand before the point; beyond that with a power of 1000.
fn readable(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".into();
    }
    if size < 0.001 {
        return format!("{}e-6", digits(value * 1e6));
    }
    if size < 999_999.5 {
        return digits(value);
    }
    let mut power = 6;
    while size >= 999.5 * 10f64.powi(power) {
        power += 3;
    }
    format!("{}e+{power}", digits(value / 10f64.powi(power)))
}

fn digits(value: f64) -> String {
    let before = value.abs().log10().floor().clamp(-3.0, 6.0) as i32 + 1;
    let places = (3 - before).max(0) as usize;
    let text = format!("{value:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// The lines as a document for a statement of this kind.
pub(super) fn json(lines: &[Line], query_type: &'static str) -> String {
    let mut at = 0;
    let mut plans = inputs(lines, &mut at, 0);
    debug_assert_eq!(at, lines.len(), "every line is below the first");
    let plan = match plans.len() {
        1 => plans.remove(0),
        _ => Json::List(plans),
    };
    let members = vec![
        ("query_plan", plan),
        ("query_type", document::text(query_type)),
        ("json_schema_version", document::text("2.0")),
    ];
    document::print(&Json::Object(members))
}

/// The operators from `at` on that are at `depth`, with what is below them.
fn inputs(lines: &[Line], at: &mut usize, depth: usize) -> Vec<Json> {
    let mut found = Vec::new();
    while let Some(line) = lines.get(*at).filter(|line| line.depth >= depth) {
        *at += 1;
        let below = inputs(lines, at, line.depth + 1);
        found.push(object(line, below));
    }
    found
}

fn object(line: &Line, below: Vec<Json>) -> Json {
    let mut members: Members = line.details.clone();
    members.push(("operation", document::text(line.text.clone())));
    if !below.is_empty() {
        members.push(("inputs", Json::List(below)));
    }
    if let Some((cost, rows)) = line.estimate {
        members.push(("estimated_rows", Json::Float(rows.max(0.0))));
        members.push(("estimated_total_cost", Json::Float(cost)));
    }
    match &line.actual {
        Actual::Unmeasured => {}
        Actual::Never => members.push(("actual_loops", Json::Number(0))),
        Actual::Ran(m) => {
            let averages = Averages::of(m);
            members.push(("actual_rows", Json::Float(averages.rows)));
            members.push(("actual_loops", Json::Number(m.loops)));
            members.push(("actual_first_row_ms", Json::Float(averages.first)));
            members.push(("actual_last_row_ms", Json::Float(averages.last)));
        }
    }
    // The order of members in MySQL's JSON values.
    members.sort_by_key(|(name, _)| (name.len(), *name));
    Json::Object(members)
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn numbers_have_three_digits() {
        let shown = [
            (0.0, "0"),
            (0.000_427, "427e-6"),
            (0.0123, "0.0123"),
            (0.55, "0.55"),
            (1.6, "1.6"),
            (15.64, "15.6"),
            (999.6, "1000"),
            (2617.4, "2617"),
            (999_999.0, "999999"),
            (1_234_567.0, "1.23e+6"),
            (1_234_567_890.0, "1.23e+9"),
        ];
        for (value, text) in shown {
            assert_eq!(readable(value), text);
        }
    }
}
