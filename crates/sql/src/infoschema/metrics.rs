//! INNODB_METRICS: all names that MySQL has, and figures of those that Esker counts.
//!
//! Neighbours: `show::status` has the figures; `session::set` and the start hand over what `innodb_monitor_enable` and
//! its kin are set to; `session::refused` asks which names there are.
//! **Invariants**: a metric without a status variable behind it is disabled and 0, whoever enables it. What a metric
//! shows while it is off is what it showed last; what is counted meanwhile is left out of it for ever.

use std::sync::LazyLock;

use esker_sql_catalog::catalog::PAGE_BYTES;
use esker_types::collation::Collation;
use esker_types::ctx::NoSession;
use esker_types::{SessionInfo, SqlResult, Value};
use parking_lot::Mutex;

use super::source::Source;
use super::{Viewer, objects, text};
use crate::instance::Instance;
use crate::show::status::{self, Status};

pub(super) static SOURCES: &[Source] = &[Source::new(
    "INNODB_METRICS",
    &[
        "NAME",
        "SUBSYSTEM",
        "COUNT",
        "MAX_COUNT",
        "AVG_COUNT",
        "COUNT_RESET",
        "MAX_COUNT_RESET",
        "AVG_COUNT_RESET",
        "TIME_ENABLED",
        "TIME_DISABLED",
        "TIME_ELAPSED",
        "TIME_RESET",
        "STATUS",
        "TYPE",
        "COMMENT",
    ],
    rows,
)];

/// The variables that switch metrics.
pub(crate) const SWITCHES: [&str; 4] = [
    "innodb_monitor_enable",
    "innodb_monitor_disable",
    "innodb_monitor_reset",
    "innodb_monitor_reset_all",
];

/// Groups of metrics (`module_NAME`), and what the column SUBSYSTEM calls them.
const MODULES: [(&str, &str); 21] = [
    ("adaptive_hash", "adaptive_hash_index"),
    ("buffer", "buffer"),
    ("buffer_page", "buffer_page_io"),
    ("compress", "compression"),
    ("cpu", "cpu"),
    ("dblwr", "dblwr"),
    ("ddl", "ddl"),
    ("dml", "dml"),
    ("file", "file_system"),
    ("ibuf_system", "change_buffer"),
    ("icp", "icp"),
    ("index", "index"),
    ("lock", "lock"),
    ("log", "log"),
    ("metadata", "metadata"),
    ("os", "os"),
    ("page_track", "page_track"),
    ("purge", "purge"),
    ("sampling", "sampling"),
    ("trx", "transaction"),
    ("undo", "undo"),
];
/// What stands for all of them.
const ALL: &str = "all";
/// A name that is taken and means nothing.
const LATCH: &str = "latch";
/// Between names in an option file.
const SEPARATORS: [char; 4] = [';', ',', ':', ' '];
/// The one that is told in bytes; its status variable has pages.
const POOL_SIZE: &str = "buffer_pool_size";

const SECOND: i64 = 1_000_000;

/// A metric.
struct Metric {
    name: &'static str,
    subsystem: &'static str,
    kind: &'static str,
    /// Is it on from the start, if it is counted?
    is_on: bool,
    /// The status variable that has its figure; None: it is not counted.
    variable: Option<&'static str>,
    comment: &'static str,
}

/// All of them, in MySQL's order: a line of the file is `NAME|SUBSYSTEM|TYPE|on or off|status variable|COMMENT`.
static METRICS: LazyLock<Vec<Metric>> = LazyLock::new(|| {
    let lines = include_str!("innodb_metrics.txt").lines();
    lines.map(Metric::of_line).collect()
});

impl Metric {
    fn of_line(line: &'static str) -> Self {
        let mut parts = line.split('|');
        let mut next = || parts.next().expect("a line has six parts");
        Metric {
            name: next(),
            subsystem: next(),
            kind: next(),
            is_on: next() == "on",
            variable: Some(next()).filter(|variable| !variable.is_empty()),
            comment: next(),
        }
    }

    /// Does it tell how much there is, rather than count what happens?
    fn is_value(&self) -> bool {
        self.kind == "value"
    }

    /// Its figure; 0 where nothing counts it.
    fn figure(&self, status: &[Status]) -> i64 {
        let found = self.variable.and_then(|variable| {
            let nth = status.binary_search_by_key(&variable, |(name, _)| name);
            status[nth.ok()?].1.parse::<i64>().ok()
        });
        let figure = found.unwrap_or(0);
        match self.name {
            POOL_SIZE => figure.saturating_mul(PAGE_BYTES as i64),
            _ => figure,
        }
    }
}

/// What has become of a metric; times are microseconds since the epoch.
#[derive(Debug, Clone, Default)]
struct Switch {
    is_on: bool,
    enabled: Option<i64>,
    disabled: Option<i64>,
    reset: Option<i64>,
    /// What it shows while it is off.
    stopped: i64,
    /// What was counted while it was off.
    missed: i64,
    /// What it showed at the last reset.
    base: i64,
}

impl Switch {
    fn count(&self, metric: &Metric, figure: i64) -> i64 {
        match (self.is_on, metric.is_value()) {
            (false, _) => self.stopped,
            (true, true) => figure,
            (true, false) => figure.saturating_sub(self.missed),
        }
    }

    fn apply(&mut self, variable: &str, metric: &Metric, figure: i64, now: i64) {
        let count = self.count(metric, figure);
        match (variable, self.is_on) {
            ("innodb_monitor_enable", false) => {
                self.is_on = true;
                (self.enabled, self.disabled) = (Some(now), None);
                self.missed = figure.saturating_sub(self.stopped);
            }
            ("innodb_monitor_disable", true) => {
                self.is_on = false;
                (self.disabled, self.reset) = (Some(now), None);
                self.stopped = count;
            }
            ("innodb_monitor_reset", _) => {
                (self.base, self.reset) = (count, Some(now));
            }
            // One that is on keeps what it has, as in MySQL.
            ("innodb_monitor_reset_all", false) => *self = Switch::default(),
            _ => (),
        }
    }
}

/// The switches of all metrics.
#[derive(Debug)]
pub(crate) struct Metrics(Mutex<Vec<Switch>>);

impl Metrics {
    /// As they are at a start.
    pub(crate) fn new(now: i64) -> Self {
        let switch = |metric: &Metric| {
            let is_on = metric.is_on && metric.variable.is_some();
            Switch {
                is_on,
                enabled: is_on.then_some(now),
                ..Switch::default()
            }
        };
        Self(Mutex::new(METRICS.iter().map(switch).collect()))
    }
}

/// Which metrics a text names: one, a group, all, or those that a pattern with `%` matches. None: it names nothing.
///
/// # Errors
/// What ends a long comparison.
pub(crate) fn named(text: &str, session: &dyn SessionInfo) -> SqlResult<Option<Vec<usize>>> {
    let every = || METRICS.iter().enumerate();
    let those = |is_it: &dyn Fn(&Metric) -> bool| {
        let found = every().filter(|(_, metric)| is_it(metric));
        Some(found.map(|(nth, _)| nth).collect())
    };
    if text.contains('%') {
        return matching(text, session);
    }
    if text.eq_ignore_ascii_case(ALL) {
        return Ok(those(&|_| true));
    }
    let module = text.get(..7).filter(|p| p.eq_ignore_ascii_case("module_"));
    let group = module.and_then(|_| {
        let mut all = MODULES.iter();
        all.find(|(module, _)| module.eq_ignore_ascii_case(&text[7..]))
    });
    if let Some((_, subsystem)) = group {
        return Ok(those(&|m| m.subsystem.eq_ignore_ascii_case(subsystem)));
    }
    let found = every().find(|(_, metric)| metric.name.eq_ignore_ascii_case(text));
    Ok(match found {
        Some((nth, _)) => Some(vec![nth]),
        None => text.eq_ignore_ascii_case(LATCH).then(Vec::new),
    })
}

fn matching(pattern: &str, session: &dyn SessionInfo) -> SqlResult<Option<Vec<usize>>> {
    let collation = Collation::UTF8MB4_GENERAL_CI;
    let is_met =
        |name: &str| collation.like(name.as_bytes(), pattern.as_bytes(), Some('\\'), session);
    let mut found = Vec::new();
    for (nth, metric) in METRICS.iter().enumerate() {
        if is_met(metric.name)? {
            found.push(nth);
        }
    }
    let mut is_known = !found.is_empty() || is_met(ALL)?;
    for (module, _) in MODULES.iter().filter(|_| found.is_empty()) {
        is_known |= is_met(&format!("module_{module}"))?;
    }
    Ok(is_known.then_some(found))
}

impl Instance {
    /// One of [`SWITCHES`] is set to a text.
    ///
    /// # Errors
    /// What ends a long comparison.
    pub(crate) fn switch_metrics(
        &self,
        variable: &str,
        text: &str,
        session: &dyn SessionInfo,
    ) -> SqlResult<()> {
        debug_assert!(SWITCHES.contains(&variable));
        let chosen = named(text, session)?.unwrap_or_default();
        let status = status::global(self);
        let now = self.now_micros();
        let mut switches = self.metrics.0.lock();
        for nth in chosen {
            let metric = &METRICS[nth];
            if metric.variable.is_some() {
                switches[nth].apply(variable, metric, metric.figure(&status), now);
            }
        }
        Ok(())
    }

    /// What the server's settings say at the start: names with commas or the like between them.
    pub(crate) fn switch_metrics_at_start(&self) {
        for variable in SWITCHES {
            let list = self.variable_text(variable);
            for name in list.split(SEPARATORS).filter(|name| !name.is_empty()) {
                if self.switch_metrics(variable, name, &NoSession).is_err() {
                    tracing::warn!("{variable}: {name:?} takes too long to look for");
                }
            }
        }
    }
}

fn rows(viewer: &Viewer) -> Vec<Vec<Value>> {
    if !viewer.may("PROCESS") {
        return Vec::new();
    }
    let status = status::global(&viewer.instance);
    let switches = viewer.instance.metrics.0.lock().clone();
    debug_assert_eq!(switches.len(), METRICS.len());
    let row = |(metric, switch)| row(viewer, metric, switch, &status);
    METRICS.iter().zip(&switches).map(row).collect()
}

fn row(viewer: &Viewer, metric: &Metric, switch: &Switch, status: &[Status]) -> Vec<Value> {
    let now = viewer.instance.now_micros();
    let count = switch.count(metric, metric.figure(status));
    let since_reset = count.saturating_sub(switch.base);
    let counts = !metric.is_value() && switch.enabled.is_some();
    let most = |count: i64| match counts && count > 0 {
        true => Value::Int(count),
        false => Value::Null,
    };
    let until = switch.disabled.unwrap_or(now);
    let per_second = |count: i64, since: Option<i64>| match since.filter(|_| counts) {
        None => Value::Null,
        Some(since) => {
            let micros = (until - since).max(1);
            Value::Double(count as f64 * SECOND as f64 / micros as f64)
        }
    };
    let time = |micros: Option<i64>| micros.map_or(Value::Null, |m| objects::created(viewer, m));
    let elapsed = switch
        .enabled
        .map(|since| (until - since).max(0) / SECOND)
        .map_or(Value::Null, Value::Int);
    vec![
        text(metric.name),
        text(metric.subsystem),
        Value::Int(count),
        most(count),
        per_second(count, switch.enabled),
        Value::Int(since_reset),
        most(since_reset),
        per_second(since_reset, switch.reset),
        time(switch.enabled),
        time(switch.disabled),
        elapsed,
        time(switch.reset),
        text(match switch.is_on {
            true => "enabled",
            false => "disabled",
        }),
        text(metric.kind),
        text(metric.comment),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_mysql_finds_them() {
        let count = |text: &str| {
            let found = named(text, &NoSession).expect("nothing ends it");
            found.map(|all| all.len())
        };
        // Ways to match it that cannot be counted.
        let many = format!("{}z", "%e".repeat(1000));
        for (text, expected) in [
            ("all", Some(314)),
            ("ALL", Some(314)),
            ("dml_reads", Some(1)),
            ("module_dml", Some(8)),
            ("Module_Buffer_Page", Some(37)),
            ("dml%", Some(8)),
            ("DML%", Some(8)),
            ("%", Some(314)),
            ("all%", Some(0)),
            ("latch", Some(0)),
            ("zzz%", None),
            (&*many, None),
            ("module_srv", None),
            ("foo", None),
            ("", None),
            ("módulo_", None),
        ] {
            assert_eq!(count(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_counted_while_a_metric_is_off_is_left_out() {
        let metric = METRICS.iter().find(|m| m.name == "dml_inserts");
        let metric = metric.expect("it is one");
        let mut switch = Switch {
            is_on: true,
            ..Switch::default()
        };
        switch.apply("innodb_monitor_reset", metric, 4, 1);
        switch.apply("innodb_monitor_disable", metric, 5, 2);
        assert_eq!(switch.count(metric, 9), 5);
        switch.apply("innodb_monitor_enable", metric, 9, 3);
        assert_eq!(switch.count(metric, 10), 6);
        assert_eq!(switch.count(metric, 10) - switch.base, 2);
        switch.apply("innodb_monitor_reset_all", metric, 10, 4);
        assert_eq!(switch.count(metric, 10), 6, "it is on");
        switch.apply("innodb_monitor_disable", metric, 10, 5);
        switch.apply("innodb_monitor_reset_all", metric, 10, 6);
        assert_eq!((switch.count(metric, 10), switch.base), (0, 0));
    }

    #[test]
    fn what_is_not_counted_is_off() {
        let switches = Metrics::new(1);
        let switches = switches.0.lock();
        assert_eq!(METRICS.len(), 314);
        for (metric, switch) in METRICS.iter().zip(&*switches) {
            assert!(
                !switch.is_on || metric.variable.is_some(),
                "{}",
                metric.name
            );
        }
        assert_eq!(switches.iter().filter(|switch| switch.is_on).count(), 26);
    }
}
