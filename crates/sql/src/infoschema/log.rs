//! Rows about the log: groups, space, histograms, and who waited for what.
//!
//! Neighbours: `infoschema` asks by table name; SHOW STATUS gets its `Esker_log_…` values here, so that
//! both show the same figures.
//! **Invariants**: a table known here has the columns of `tables`; like InnoDB's tables, they show
//! rows only to who has the PROCESS privilege.

use esker_engine::{EngineStats, Histogram, WaitCause};
use esker_types::Value;

use super::{Viewer, text};

/// Percentiles of times in SHOW STATUS.
const PERCENTILES: [u64; 3] = [50, 95, 99];

/// The rows of a table about the log; None when it is not one.
pub(super) fn rows(table: &str, viewer: &Viewer) -> Option<Vec<Vec<Value>>> {
    if table == "ESKER_BINLOG" {
        return Some(match viewer.may("PROCESS") {
            true => viewer.instance.binlog_rows(),
            false => Vec::new(),
        });
    }
    let make = match table {
        "ESKER_LOG" => log,
        "ESKER_LOG_HISTOGRAMS" => histograms,
        "ESKER_LOG_WAITS" => waits,
        _ => return None,
    };
    if !viewer.may("PROCESS") {
        return Some(Vec::new());
    }
    let engine = viewer.instance.engine();
    Some(make(&engine.stats(), engine.durable_seq()))
}

fn log(stats: &EngineStats, durable: u64) -> Vec<Vec<Value>> {
    let (log, space) = (&stats.log, &stats.log_space);
    let row = [
        durable,
        stats.log_end,
        stats.log_needed_from,
        space.first.0,
        space.segments,
        space.spares,
        space.segment_bytes,
        log.flushes,
        log.overlapped,
        log.records,
        log.bytes,
        log.disk_bytes,
        log.segments,
        log.woken,
    ];
    vec![row.map(Value::UInt).to_vec()]
}

fn histograms(stats: &EngineStats, _durable: u64) -> Vec<Vec<Value>> {
    let log = &stats.log;
    let named: [(&str, &Histogram); 4] = [
        ("commit wait, nanoseconds", &log.durable_nanos),
        ("flush, nanoseconds", &log.flush_nanos),
        ("flush, records", &log.group_records),
        ("flush, bytes", &log.group_bytes),
    ];
    let rows = named.into_iter().flat_map(|(name, histogram)| {
        histogram.buckets().map(move |(from, to, count)| {
            let numbers = [from, to, count].map(Value::UInt);
            std::iter::once(text(name)).chain(numbers).collect()
        })
    });
    rows.collect()
}

fn waits(stats: &EngineStats, _durable: u64) -> Vec<Vec<Value>> {
    let row = |cause: WaitCause| {
        let waits = stats.log.waits(cause);
        vec![
            text(cause.letter().to_string()),
            text(describe(cause)),
            Value::UInt(waits.count),
            Value::UInt(waits.nanos),
        ]
    };
    WaitCause::ALL.map(row).to_vec()
}

fn describe(cause: WaitCause) -> &'static str {
    match cause {
        WaitCause::Durable => "commit waits for the device",
        WaitCause::Lock => "row lock held during a flush",
        WaitCause::Switch => "thread blocks for a flush",
        WaitCause::BufferBusy => "log buffer locked",
        WaitCause::BufferFull => "log buffer full",
        WaitCause::NoSegment => "no segment prepared",
    }
}

/// The `Esker_log_…` values of SHOW STATUS. Times are microseconds.
pub(crate) fn status(stats: &EngineStats) -> Vec<(&'static str, String)> {
    const COMMIT_WAIT: [&str; 3] = [
        "Esker_log_commit_wait_p50",
        "Esker_log_commit_wait_p95",
        "Esker_log_commit_wait_p99",
    ];
    const FLUSH: [&str; 3] = [
        "Esker_log_flush_p50",
        "Esker_log_flush_p95",
        "Esker_log_flush_p99",
    ];
    let log = &stats.log;
    let live_bytes = stats.log_end.saturating_sub(stats.log_needed_from);
    let mut rows: Vec<(&'static str, String)> = [
        ("Esker_log_bytes", log.bytes),
        ("Esker_log_disk_bytes", log.disk_bytes),
        ("Esker_log_flushes", log.flushes),
        ("Esker_log_flushes_overlapped", log.overlapped),
        ("Esker_log_live_bytes", live_bytes),
        ("Esker_log_pinned_bytes", stats.log_space.pinned_bytes),
        ("Esker_log_records", log.records),
        ("Esker_log_segments", stats.log_space.segments),
        ("Esker_log_spare_segments", stats.log_space.spares),
    ]
    .map(|(name, value)| (name, value.to_string()))
    .to_vec();
    let pinned_by = stats.log_space.pin.map_or("", |pin| pin.name);
    rows.push(("Esker_log_pinned_by", pinned_by.to_owned()));
    rows.push(("Esker_log_bytes_per_flush", ratio(log.bytes, log.flushes)));
    rows.push((
        "Esker_log_records_per_flush",
        ratio(log.records, log.flushes),
    ));
    for (names, histogram) in [(COMMIT_WAIT, &log.durable_nanos), (FLUSH, &log.flush_nanos)] {
        for (name, percent) in names.into_iter().zip(PERCENTILES) {
            rows.push((name, (histogram.percentile(percent) / 1000).to_string()));
        }
    }
    for cause in WaitCause::ALL {
        let waits = log.waits(cause);
        let (count, time) = wait_names(cause);
        rows.push((count, waits.count.to_string()));
        rows.extend(time.map(|name| (name, (waits.nanos / 1000).to_string())));
    }
    rows
}

/// Names of the number and of the time of the waits for a cause.
fn wait_names(cause: WaitCause) -> (&'static str, Option<&'static str>) {
    match cause {
        WaitCause::Durable => ("Esker_log_waits_a_device", Some("Esker_log_wait_a_device")),
        WaitCause::Lock => ("Esker_log_waits_b_locks", Some("Esker_log_wait_b_locks")),
        WaitCause::Switch => ("Esker_log_waits_c_switches", None),
        WaitCause::BufferBusy => (
            "Esker_log_waits_d_buffer_busy",
            Some("Esker_log_wait_d_buffer_busy"),
        ),
        WaitCause::BufferFull => (
            "Esker_log_waits_d_buffer_full",
            Some("Esker_log_wait_d_buffer_full"),
        ),
        WaitCause::NoSegment => (
            "Esker_log_waits_d_no_segment",
            Some("Esker_log_wait_d_no_segment"),
        ),
    }
}

/// With one digit behind the point; 0 of nothing.
fn ratio(total: u64, of: u64) -> String {
    match of {
        0 => "0.0".to_owned(),
        _ => format!("{:.1}", total as f64 / of as f64),
    }
}
