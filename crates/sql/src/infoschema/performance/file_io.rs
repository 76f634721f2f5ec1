//! What was read from files and written to them, by file and by what the file is for.
//!
//! Neighbours: the server's file system counts (`esker_vfs::MeasuredFs`); `folders` knows the data directory's folders;
//! `sys` makes `io_global_by_…` of it.
//! **Invariants**: figures of an event are those of its files, of those that are gone, too. In an environment that
//! measures nothing the tables are empty.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use esker_types::Value;
use esker_vfs::{FileFigures, Fs, IoFigures, MeasuredFs};

use super::super::folders::{BINLOG_EVENT, FOLDERS, RELAY_LOG_EVENT};
use super::super::source::Source;
use super::super::{Viewer, text};
use crate::instance::Instance;

/// Columns of the figures, in the order of [`figures`].
macro_rules! columns {
    ($($name:literal),*) => {
        &[
            $($name,)*
            "COUNT_STAR", "SUM_TIMER_WAIT", "MIN_TIMER_WAIT", "AVG_TIMER_WAIT", "MAX_TIMER_WAIT",
            "COUNT_READ", "SUM_TIMER_READ", "MIN_TIMER_READ", "AVG_TIMER_READ", "MAX_TIMER_READ",
            "SUM_NUMBER_OF_BYTES_READ",
            "COUNT_WRITE", "SUM_TIMER_WRITE", "MIN_TIMER_WRITE", "AVG_TIMER_WRITE", "MAX_TIMER_WRITE",
            "SUM_NUMBER_OF_BYTES_WRITE",
            "COUNT_MISC", "SUM_TIMER_MISC", "MIN_TIMER_MISC", "AVG_TIMER_MISC", "MAX_TIMER_MISC",
        ]
    };
}

pub(super) static SOURCES: &[Source] = &[
    Source::new(
        "file_instances",
        &["FILE_NAME", "EVENT_NAME", "OPEN_COUNT"],
        instances,
    ),
    Source::new(
        "file_summary_by_event_name",
        columns!["EVENT_NAME"],
        by_event,
    )
    .emptied_by(reset),
    Source::new(
        "file_summary_by_instance",
        columns!["FILE_NAME", "EVENT_NAME", "OBJECT_INSTANCE_BEGIN"],
        by_instance,
    )
    .emptied_by(reset),
];

/// Instruments of files that are in no such folder.
const LOGS: &str = "wait/io/file/sql/query_log";
const OTHERS: &str = "wait/io/file/sql/misc";

/// Digits of a binary log's number, at least.
const LOG_DIGITS: usize = 6;

/// A log that `log_bin` or `relay_log` has put elsewhere: known by its number, and one of a relay by its name.
fn named_log(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_str()?;
    let is_number = extension.len() >= LOG_DIGITS && extension.bytes().all(|b| b.is_ascii_digit());
    let is_relay = path.file_stem()?.to_str()?.contains("relay");
    let event = if is_relay {
        RELAY_LOG_EVENT
    } else {
        BINLOG_EVENT
    };
    (is_number || extension == "index").then_some(event)
}

/// What a file is for, by the folder that it is in. A channel's relay log has a folder of its own.
fn event_of(path: &Path) -> &'static str {
    let folders = path.ancestors().skip(1).take(2).filter_map(Path::file_name);
    let mut events = folders.filter_map(|folder| {
        let known = FOLDERS.iter().find(|known| folder == known.name);
        known.map(|known| known.event)
    });
    let is_log = path.extension().is_some_and(|e| e == "log");
    let otherwise = if is_log { LOGS } else { OTHERS };
    let event = events.next().or_else(|| named_log(path));
    event.unwrap_or(otherwise)
}

/// Instruments of files, and whether they are timed.
pub(super) fn instruments() -> impl Iterator<Item = (&'static str, &'static str)> {
    let events = FOLDERS.iter().map(|folder| folder.event);
    events.chain([LOGS, OTHERS]).map(|event| (event, "YES"))
}

/// A file system that measures what is done to each file for these tables.
pub fn measured_files(fs: Arc<dyn Fs>) -> Arc<dyn Fs> {
    Arc::new(MeasuredFs::new(fs, event_of))
}

/// Nanoseconds as picoseconds.
fn pico(nanos: u64) -> Value {
    Value::UInt(nanos.saturating_mul(1000))
}

fn figures(file: &FileFigures) -> Vec<Value> {
    let mut all = IoFigures::default();
    let parts = [(&file.read, true), (&file.write, true), (&file.misc, false)];
    for (part, _) in parts {
        all.add(part);
    }
    let mut out = Vec::new();
    for (io, has_bytes) in [(&all, false)].into_iter().chain(parts) {
        out.push(Value::UInt(io.count));
        let average = io.nanos.checked_div(io.count).unwrap_or(0);
        out.extend([io.nanos, io.min_nanos, average, io.max_nanos].map(pico));
        if has_bytes {
            out.push(Value::Int(i64::try_from(io.bytes).unwrap_or(i64::MAX)));
        }
    }
    out
}

fn files(viewer: &Viewer) -> Vec<FileFigures> {
    viewer.instance.env.fs.figures()
}

fn name(path: &Path) -> Value {
    text(path.display().to_string())
}

fn instances(viewer: &Viewer) -> Vec<Vec<Value>> {
    let row = |file: FileFigures| {
        let path = file.path?;
        Some(vec![name(&path), text(file.event), Value::UInt(file.open)])
    };
    files(viewer).into_iter().filter_map(row).collect()
}

fn by_instance(viewer: &Viewer) -> Vec<Vec<Value>> {
    let files = files(viewer);
    let named = files.iter().enumerate();
    let row = |(nth, file): (usize, &FileFigures)| {
        let mut row = vec![
            name(file.path.as_deref()?),
            text(file.event),
            Value::UInt(nth as u64 + 1),
        ];
        row.extend(figures(file));
        Some(row)
    };
    named.filter_map(row).collect()
}

fn by_event(viewer: &Viewer) -> Vec<Vec<Value>> {
    let mut events: BTreeMap<&str, FileFigures> = BTreeMap::new();
    for (event, _) in instruments() {
        events.entry(event).or_default();
    }
    for file in files(viewer) {
        let sum = events.entry(file.event).or_default();
        sum.read.add(&file.read);
        sum.write.add(&file.write);
        sum.misc.add(&file.misc);
    }
    let row = |(event, sum): (&str, FileFigures)| {
        let mut row = vec![text(event)];
        row.extend(figures(&sum));
        row
    };
    events.into_iter().map(row).collect()
}

fn reset(instance: &Instance) {
    instance.env.fs.reset_figures();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_folder() {
        let event = |path: &str| event_of(Path::new(path));
        assert_eq!(event("/d/extents/0001.ext"), FOLDERS[0].event);
        assert_eq!(event("/d/wal/00.wal"), FOLDERS[1].event);
        assert_eq!(event("/d/relay/channel/relay-bin.000001"), FOLDERS[5].event);
        assert_eq!(event("/d/binlog.000001"), BINLOG_EVENT);
        assert_eq!(event("/logs/mysql-bin.index"), BINLOG_EVENT);
        assert_eq!(event("/logs/host-relay-bin.1000000"), RELAY_LOG_EVENT);
        assert_eq!(event("/d/audit.log"), LOGS);
        assert_eq!(event("/d/accounts"), OTHERS);
        assert_eq!(event("accounts"), OTHERS);
    }
}
