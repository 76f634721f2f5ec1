//! `binary_log_transaction_compression_stats`: how much transactions take in the binary log and in relay logs.
//!
//! Neighbours: `esker_binlog` counts; relay logs of all channels are one here, as in MySQL. **Invariant**: a kind of
//! which there was no transaction has no row.

use esker_binlog::tally::{Sums, Tally, Weight};
use esker_types::Value;

use super::super::source::Source;
use super::super::{Viewer, text};
use super::moment_if;
use crate::instance::Instance;

pub(super) static SOURCES: &[Source] = &[Source::new(
    "binary_log_transaction_compression_stats",
    &[
        "LOG_TYPE",
        "COMPRESSION_TYPE",
        "TRANSACTION_COUNTER",
        "COMPRESSED_BYTES_COUNTER",
        "UNCOMPRESSED_BYTES_COUNTER",
        "COMPRESSION_PERCENTAGE",
        "FIRST_TRANSACTION_ID",
        "FIRST_TRANSACTION_COMPRESSED_BYTES",
        "FIRST_TRANSACTION_UNCOMPRESSED_BYTES",
        "FIRST_TRANSACTION_TIMESTAMP",
        "LAST_TRANSACTION_ID",
        "LAST_TRANSACTION_COMPRESSED_BYTES",
        "LAST_TRANSACTION_UNCOMPRESSED_BYTES",
        "LAST_TRANSACTION_TIMESTAMP",
    ],
    rows,
)
.emptied_by(forget)];

fn rows(viewer: &Viewer) -> Vec<Vec<Value>> {
    let instance = &viewer.instance;
    let own = instance.binlog.published().map(|log| log.tally());
    let mut relay = Tally::default();
    for channel in instance.channels.all() {
        relay.merge(channel.relay().tally());
    }
    let mut rows = Vec::new();
    for (log, tally) in [("BINARY", own.unwrap_or_default()), ("RELAY", relay)] {
        for (compression, sums) in [("ZSTD", tally.compressed), ("NONE", tally.plain)] {
            rows.extend(sums.map(|sums| row(viewer, (log, compression), &sums)));
        }
    }
    rows
}

fn row(viewer: &Viewer, (log, compression): (&str, &str), sums: &Sums) -> Vec<Value> {
    let mut row = vec![
        text(log),
        text(compression),
        Value::UInt(sums.transactions),
        Value::UInt(sums.written),
        Value::UInt(sums.plain),
        Value::Int(sums.percentage()),
    ];
    for one in [&sums.first, &sums.last] {
        row.extend(of_one(viewer, one));
    }
    row
}

fn of_one(viewer: &Viewer, one: &Weight) -> [Value; 4] {
    let name = match &one.gtid {
        Some(gtid) => gtid.to_string(),
        None => "ANONYMOUS".to_owned(),
    };
    [
        text(name),
        Value::UInt(one.written),
        Value::UInt(one.plain),
        moment_if(viewer, Some(one.micros as i64)),
    ]
}

fn forget(instance: &Instance) {
    if let Some(log) = instance.binlog.published() {
        log.forget_tally();
    }
    for channel in instance.channels.all() {
        channel.relay().forget_tally();
    }
}
