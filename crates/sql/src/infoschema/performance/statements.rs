//! Statements: by digest, by command, and the last ones of every session.
//!
//! Neighbours: `statements` adds up; sessions keep their own history in the registry.
//! **Invariants**: a command's event is `statement/sql/` and the name of its status variable; columns of what Esker
//! does not count (rows examined, memory, CPU) are 0.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker_types::{SqlMode, Value};

use super::super::source::Source;
use super::super::{Viewer, optional, text};
use super::{moment, pico, since_start};
use crate::counts::Counter;
use crate::instance::Instance;
use crate::instruments::{CURRENT, INSTRUMENTED};
use crate::querylog::without_secrets;
use crate::session::registry::Process;
use crate::show::status;
use crate::statements::{
    self, BUCKETS, ByCommand, Digest, Measured, Past, Sums, bucket_ends, quantile,
};

/// Columns that every summary has, in the order of [`sums`].
macro_rules! summary {
    ($($first:literal),* ; $($last:literal),*) => {
        &[
            $($first,)*
            "COUNT_STAR",
            "SUM_TIMER_WAIT",
            "MIN_TIMER_WAIT",
            "AVG_TIMER_WAIT",
            "MAX_TIMER_WAIT",
            "SUM_LOCK_TIME",
            "SUM_ERRORS",
            "SUM_WARNINGS",
            "SUM_ROWS_AFFECTED",
            "SUM_ROWS_SENT",
            "SUM_ROWS_EXAMINED",
            "SUM_CREATED_TMP_DISK_TABLES",
            "SUM_CREATED_TMP_TABLES",
            "SUM_SORT_MERGE_PASSES",
            "SUM_NO_INDEX_USED",
            "SUM_SELECT_SCAN",
            $($last,)*
        ]
    };
}

pub(super) static SOURCES: &[Source] = &[
    Source::new(
        "events_statements_summary_by_digest",
        summary!("SCHEMA_NAME", "DIGEST", "DIGEST_TEXT"; "FIRST_SEEN", "LAST_SEEN", "QUANTILE_95", "QUANTILE_99",
            "QUANTILE_999", "QUERY_SAMPLE_TEXT", "QUERY_SAMPLE_SEEN", "QUERY_SAMPLE_TIMER_WAIT"),
        by_digest,
    )
    .emptied_by(forget_digests),
    Source::new(
        "events_statements_histogram_by_digest",
        &[
            "SCHEMA_NAME",
            "DIGEST",
            "BUCKET_NUMBER",
            "BUCKET_TIMER_LOW",
            "BUCKET_TIMER_HIGH",
            "COUNT_BUCKET",
            "COUNT_BUCKET_AND_LOWER",
            "BUCKET_QUANTILE",
        ],
        histogram_by_digest,
    )
    .emptied_by(forget_digests),
    Source::new(
        "events_statements_histogram_global",
        &[
            "BUCKET_NUMBER",
            "BUCKET_TIMER_LOW",
            "BUCKET_TIMER_HIGH",
            "COUNT_BUCKET",
            "COUNT_BUCKET_AND_LOWER",
            "BUCKET_QUANTILE",
        ],
        histogram_global,
    )
    .emptied_by(forget_digests),
    Source::new(
        "events_statements_summary_global_by_event_name",
        summary!("EVENT_NAME";),
        by_event,
    )
    .emptied_by(forget_sums),
    Source::new(
        "events_statements_summary_by_thread_by_event_name",
        summary!("THREAD_ID", "EVENT_NAME";),
        by_thread,
    )
    .emptied_by(forget_sums),
    Source::new(
        "events_statements_summary_by_account_by_event_name",
        summary!("USER", "HOST", "EVENT_NAME";),
        by_account,
    )
    .emptied_by(forget_sums),
    Source::new(
        "events_statements_summary_by_user_by_event_name",
        summary!("USER", "EVENT_NAME";),
        by_user,
    )
    .emptied_by(forget_sums),
    Source::new(
        "events_statements_summary_by_host_by_event_name",
        summary!("HOST", "EVENT_NAME";),
        by_host,
    )
    .emptied_by(forget_sums),
    Source::new("events_statements_current", EVENTS, current).of_the_moment(),
    Source::new("events_statements_history", EVENTS, history).emptied_by(forget_history),
];

fn forget_digests(instance: &Instance) {
    instance.digests.clear();
}

fn forget_sums(instance: &Instance) {
    instance.registry.forget_sums();
}

fn forget_history(instance: &Instance) {
    for process in instance.registry.list() {
        process.history().lock().forget_last();
    }
}

fn sums(sums: &Sums) -> [Value; 16] {
    [
        Value::UInt(sums.count),
        pico(sums.micros),
        pico(sums.min()),
        pico(sums.mean()),
        pico(sums.max),
        pico(sums.lock_micros),
        Value::UInt(sums.errors),
        Value::UInt(sums.warnings),
        Value::UInt(sums.affected),
        Value::UInt(sums.sent),
        Value::UInt(sums.examined),
        Value::UInt(sums.disk_tables),
        Value::UInt(sums.disk_tables),
        Value::UInt(sums.merge_passes),
        Value::UInt(sums.no_index_used),
        Value::UInt(sums.no_index_used),
    ]
}

fn schema_of(digest: &Digest) -> Value {
    optional(digest.schema.as_deref())
}

fn by_digest(viewer: &Viewer) -> Vec<Vec<Value>> {
    let all = viewer.instance.digests.all().into_iter();
    all.map(|(digest, row)| {
        let mut cells = vec![
            schema_of(&digest),
            optional(digest.hash()),
            optional(digest.text.as_deref()),
        ];
        cells.extend(sums(&row.sums));
        cells.extend([
            moment(viewer, row.first_seen),
            moment(viewer, row.last_seen),
        ]);
        let quantiles = [0.95, 0.99, 0.999].map(|share| quantile(&row.buckets, share));
        cells.extend(quantiles.map(Value::UInt));
        cells.extend([
            text(&row.sample.text),
            moment(viewer, row.sample.began),
            pico(row.sample.micros),
        ]);
        cells
    })
    .collect()
}

/// Which buckets have rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    All,
    /// Thousands of digests have millions of buckets, of which all but a few are empty.
    Filled,
}

/// A row for each bucket, behind what `place` says.
fn bucket_rows(place: &[Value], buckets: &[u64], shown: Shown) -> Vec<Vec<Value>> {
    let total: u64 = buckets.iter().sum();
    let mut below = 0;
    let row = |(nth, count): (usize, &u64)| {
        if *count == 0 && shown == Shown::Filled {
            return None;
        }
        below += count;
        let (low, high) = bucket_ends(nth);
        let mut row = place.to_vec();
        row.extend([nth as u64, low, high, *count, below].map(Value::UInt));
        row.push(Value::Double(match total {
            0 => 0.0,
            total => below as f64 / total as f64,
        }));
        Some(row)
    };
    buckets.iter().enumerate().filter_map(row).collect()
}

fn histogram_by_digest(viewer: &Viewer) -> Vec<Vec<Value>> {
    let all = viewer.instance.digests.all().into_iter();
    all.flat_map(|(digest, row)| {
        let place = [schema_of(&digest), optional(digest.hash())];
        bucket_rows(&place, &row.buckets, Shown::Filled)
    })
    .collect()
}

fn histogram_global(viewer: &Viewer) -> Vec<Vec<Value>> {
    let mut buckets = vec![0; BUCKETS];
    for (_, row) in viewer.instance.digests.all() {
        for (sum, count) in buckets.iter_mut().zip(&row.buckets) {
            *sum += count;
        }
    }
    bucket_rows(&[], &buckets, Shown::All)
}

/// The event that a command is.
fn event_name(command: Counter) -> String {
    let name = status::counter_names()[command as usize];
    let name = name.rsplit_once("om_").map_or(name, |(_, name)| name);
    format!("statement/sql/{name}")
}

/// Sums by command, as rows behind what `place` says.
fn summary_rows(place: &[Value], by_command: &[(Counter, Sums)]) -> Vec<Vec<Value>> {
    let row = |(command, one): &(Counter, Sums)| {
        let mut row = place.to_vec();
        row.push(text(event_name(*command)));
        row.extend(sums(one));
        row
    };
    by_command.iter().map(row).collect()
}

/// Sums by command of all sessions, by what `key` makes of user and host.
fn grouped<K: Ord>(viewer: &Viewer, key: impl Fn(&str, &str) -> K) -> BTreeMap<K, ByCommand> {
    let mut groups: BTreeMap<K, ByCommand> = BTreeMap::new();
    for ((user, host), more) in viewer.instance.registry.sums_by_account() {
        statements::merge(groups.entry(key(&user, &host)).or_default(), &more);
    }
    groups
}

fn by_event(viewer: &Viewer) -> Vec<Vec<Value>> {
    let all = grouped(viewer, |_, _| ()).into_iter();
    all.flat_map(|((), sums)| summary_rows(&[], &sums))
        .collect()
}

fn by_account(viewer: &Viewer) -> Vec<Vec<Value>> {
    let all = grouped(viewer, |user, host| (user.to_owned(), host.to_owned()));
    let all = all.into_iter();
    all.flat_map(|((user, host), sums)| summary_rows(&[text(user), text(host)], &sums))
        .collect()
}

fn by_user(viewer: &Viewer) -> Vec<Vec<Value>> {
    let all = grouped(viewer, |user, _| user.to_owned()).into_iter();
    all.flat_map(|(user, sums)| summary_rows(&[text(user)], &sums))
        .collect()
}

fn by_host(viewer: &Viewer) -> Vec<Vec<Value>> {
    let all = grouped(viewer, |_, host| host.to_owned()).into_iter();
    all.flat_map(|(host, sums)| summary_rows(&[text(host)], &sums))
        .collect()
}

fn by_thread(viewer: &Viewer) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for process in viewer.instance.registry.list() {
        let history = process.history().lock();
        rows.extend(summary_rows(&[Value::UInt(process.id)], history.sums()));
    }
    rows
}

const EVENTS: &[&str] = &[
    "THREAD_ID",
    "EVENT_ID",
    "END_EVENT_ID",
    "EVENT_NAME",
    "TIMER_START",
    "TIMER_END",
    "TIMER_WAIT",
    "LOCK_TIME",
    "SQL_TEXT",
    "DIGEST",
    "DIGEST_TEXT",
    "CURRENT_SCHEMA",
    "MYSQL_ERRNO",
    "MESSAGE_TEXT",
    "ERRORS",
    "WARNINGS",
    "ROWS_AFFECTED",
    "ROWS_SENT",
    "ROWS_EXAMINED",
    "CREATED_TMP_DISK_TABLES",
    "CREATED_TMP_TABLES",
    "SORT_MERGE_PASSES",
    "NO_INDEX_USED",
    "SELECT_SCAN",
    "STATEMENT_ID",
    "EXECUTION_ENGINE",
];

/// A statement as a row. Timers count from the start of the server.
fn event(viewer: &Viewer, process: &Process, past: &Past, is_running: bool) -> Vec<Value> {
    let measured: &Measured = &past.measured;
    let start = since_start(viewer, measured.began);
    let digest = past.digest.as_deref();
    vec![
        Value::UInt(process.id),
        Value::UInt(past.event),
        match is_running {
            true => Value::Null,
            false => Value::UInt(past.event),
        },
        text(event_name(measured.command)),
        pico(start),
        pico(start + measured.micros),
        pico(measured.micros),
        pico(measured.lock_micros),
        text(&past.text),
        optional(digest.and_then(Digest::hash)),
        optional(digest.and_then(|d| d.text.as_deref())),
        optional(past.schema.as_deref()),
        Value::Int(measured.error.into()),
        optional(past.message.as_deref()),
        Value::UInt(u64::from(measured.error != 0)),
        Value::UInt(measured.warnings),
        Value::UInt(measured.affected),
        Value::UInt(measured.sent),
        Value::UInt(measured.examined),
        Value::UInt(measured.disk_tables),
        Value::UInt(measured.disk_tables),
        Value::UInt(measured.merge_passes),
        Value::UInt(measured.no_index_used.into()),
        Value::UInt(measured.no_index_used.into()),
        Value::UInt(past.event),
        text("PRIMARY"),
    ]
}

fn history(viewer: &Viewer) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for process in viewer.instance.registry.list() {
        let last = process.history().lock().last();
        rows.extend(last.iter().map(|past| event(viewer, &process, past, false)));
    }
    rows
}

/// The statement that runs, or the last one.
fn current(viewer: &Viewer) -> Vec<Vec<Value>> {
    if viewer.instance.instruments.flags() & CURRENT == 0 {
        return Vec::new();
    }
    let row = |process: &Arc<Process>| {
        if process.measured() & INSTRUMENTED == 0 {
            return None;
        }
        let detail = process.detail();
        let last = process.history().lock().last().pop();
        if detail.command == "Sleep" {
            return last.map(|past| event(viewer, process, &past, false));
        }
        let began = process.since_micros();
        let micros = viewer.instance.now_micros().saturating_sub(began).max(0) as u64;
        let running = Past {
            event: last.map_or(1, |past| past.event + 1),
            measured: Measured {
                command: Counter::EskerComOther,
                began,
                micros,
                lock_micros: 0,
                error: 0,
                warnings: 0,
                affected: 0,
                sent: 0,
                examined: 0,
                disk_tables: 0,
                merge_passes: 0,
                no_index_used: false,
            },
            text: without_secrets(
                statements::beginning(detail.info.as_deref().unwrap_or_default()),
                SqlMode::default(),
            ),
            schema: detail.database.as_deref().map(Arc::from),
            message: None,
            digest: None,
        };
        Some(event(viewer, process, &running, true))
    };
    viewer
        .instance
        .registry
        .list()
        .iter()
        .filter_map(row)
        .collect()
}
