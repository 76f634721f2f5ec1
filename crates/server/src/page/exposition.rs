//! The exposition formats of Prometheus: its text format 0.0.4, and OpenMetrics 1.0.
//!
//! Neighbours: `metrics` collects what is told.
//! **Invariant**: the samples of a family stand together, behind its one TYPE and HELP.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    OpenMetrics,
}

impl Format {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What the samples of a family are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only goes up; its name ends with `_total`.
    Counter,
    Gauge,
    /// One of both.
    Untyped,
}

struct Family {
    kind: Kind,
    /// Labels as they are written, and the value.
    samples: Vec<(String, String)>,
}

/// Families by name.
#[derive(Default)]
pub(super) struct Exposition(BTreeMap<String, Family>);

impl Exposition {
    /// Adds a sample; `value` is a number.
    pub(super) fn add(&mut self, family: &str, kind: Kind, labels: &[(&str, &str)], value: &str) {
        debug_assert!(kind != Kind::Counter || family.ends_with("_total"));
        let mut written = String::new();
        for (nth, (name, text)) in labels.iter().enumerate() {
            let separator = if nth == 0 { "" } else { "," };
            let _ = write!(written, "{separator}{name}=\"{}\"", escaped(text));
        }
        if !labels.is_empty() {
            written = format!("{{{written}}}");
        }
        let samples = Vec::new();
        let family = self
            .0
            .entry(family.to_owned())
            .or_insert(Family { kind, samples });
        debug_assert_eq!(family.kind, kind, "a family is of one kind");
        family.samples.push((written, value.to_owned()));
    }

    pub(super) fn text(&self, format: Format) -> String {
        let mut out = String::new();
        for (name, family) in &self.0 {
            let kind = match (family.kind, format) {
                (Kind::Counter, _) => "counter",
                (Kind::Gauge, _) => "gauge",
                (Kind::Untyped, Format::Text) => "untyped",
                (Kind::Untyped, Format::OpenMetrics) => "unknown",
            };
            // In OpenMetrics the suffix belongs to the sample.
            let declared = match (family.kind, format) {
                (Kind::Counter, Format::OpenMetrics) => name.trim_end_matches("_total"),
                _ => name,
            };
            let _ = writeln!(out, "# HELP {declared} {}", help(name));
            let _ = writeln!(out, "# TYPE {declared} {kind}");
            for (labels, value) in &family.samples {
                let _ = writeln!(out, "{name}{labels} {value}");
            }
        }
        if format == Format::OpenMetrics {
            out.push_str("# EOF\n");
        }
        out
    }
}

/// Where a family comes from.
fn help(name: &str) -> &'static str {
    match name {
        "mysql_up" => "Whether the server answers.",
        "mysql_version_info" => "Versions as labels.",
        name if name.starts_with("mysql_global_variables_") => "From SHOW GLOBAL VARIABLES.",
        name if name.starts_with("mysql_slave_status_") => "From SHOW REPLICA STATUS.",
        _ => "From SHOW GLOBAL STATUS.",
    }
}

/// A label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> Exposition {
        let mut told = Exposition::default();
        told.add("b_total", Kind::Counter, &[("c", "x\\y\n")], "1");
        told.add("a", Kind::Untyped, &[], "2.5");
        told.add("b_total", Kind::Counter, &[("c", "z"), ("d", "")], "3");
        told
    }

    #[test]
    fn samples_stand_with_their_family() {
        let expected = "# HELP a From SHOW GLOBAL STATUS.\n# TYPE a untyped\na 2.5\n\
                        # HELP b_total From SHOW GLOBAL STATUS.\n# TYPE b_total counter\n\
                        b_total{c=\"x\\\\y\\n\"} 1\nb_total{c=\"z\",d=\"\"} 3\n";
        assert_eq!(told().text(Format::Text), expected);
    }

    #[test]
    fn openmetrics_names_counters_without_their_suffix_and_has_an_end() {
        let expected = "# HELP a From SHOW GLOBAL STATUS.\n# TYPE a unknown\na 2.5\n\
                        # HELP b From SHOW GLOBAL STATUS.\n# TYPE b counter\n\
                        b_total{c=\"x\\\\y\\n\"} 1\nb_total{c=\"z\",d=\"\"} 3\n# EOF\n";
        assert_eq!(told().text(Format::OpenMetrics), expected);
    }
}
