//! Figures about the binary log: SHOW STATUS, and the table ESKER_BINLOG.
//!
//! Neighbours: the [`writer`](super::writer) counts; `infoschema` and SHOW STATUS ask. **Invariants**: counting costs
//! the writer a few atomic adds, and commits nothing.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use esker_binlog::files::{FileInfo, previous_gtids};
use esker_types::Value;

use crate::instance::Instance;
use crate::show::t;

/// What the writer counts.
#[derive(Default)]
pub(super) struct Figures {
    pub(super) transactions: AtomicU64,
    pub(super) syncs: AtomicU64,
    /// How often it has waited for space.
    stalls: AtomicU64,
    /// It does so now.
    stalled: AtomicBool,
    /// When the files last had everything, microseconds since the epoch.
    pub(super) caught_up: AtomicI64,
}

impl Figures {
    pub(super) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The writer waits for space. False if it did before.
    pub(super) fn begin_stall(&self) -> bool {
        let begins = !self.stalled.swap(true, Ordering::Relaxed);
        if begins {
            Self::add(&self.stalls);
        }
        begins
    }

    pub(super) fn end_stall(&self) {
        self.stalled.store(false, Ordering::Relaxed);
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }
}

impl Instance {
    /// The binary log's values of SHOW STATUS.
    pub(crate) fn binlog_status(&self) -> Vec<(&'static str, String)> {
        let figures = self.binlog.figures();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let view = self.binlog.view().unwrap_or_default();
        let behind = match self.binlog.is_on() && !self.binlog.decides() {
            true => self.engine.durable_seq().saturating_sub(view.lsn),
            false => 0,
        };
        let caught_up = figures.caught_up.load(Ordering::Relaxed);
        let late = match behind {
            0 => 0,
            _ => (self.now_micros() - caught_up).max(0) / 1000,
        };
        let bytes: u64 = view.files.iter().map(|f| f.size).sum();
        let transactions = count(&figures.transactions);
        let spilled = self
            .binlog
            .capture_settings()
            .map_or(0, |limits| limits.spilled());
        let rows = [
            ("Binlog_cache_disk_use", spilled),
            ("Binlog_cache_use", transactions),
            ("Binlog_stmt_cache_disk_use", 0),
            ("Binlog_stmt_cache_use", 0),
            ("Esker_binlog_file_bytes", bytes),
            ("Esker_binlog_lag_bytes", behind),
            ("Esker_binlog_lag_ms", late as u64),
            ("Esker_binlog_stalled", figures.is_stalled().into()),
            ("Esker_binlog_stalls", count(&figures.stalls)),
            ("Esker_binlog_syncs", count(&figures.syncs)),
            ("Esker_binlog_transactions", transactions),
        ];
        rows.map(|(name, value)| (name, value.to_string())).into()
    }

    /// The rows of ESKER_BINLOG: a file each.
    pub(crate) fn binlog_rows(&self) -> Vec<Vec<Value>> {
        let (Some(view), Some(names)) = (self.binlog.view(), self.binlog.names()) else {
            return Vec::new();
        };
        let row = |file: &FileInfo| {
            let path = names.path(file.number);
            // A file that is purged meanwhile has no list any more.
            let previous = previous_gtids(&*self.env.fs, &path, Some(file.size));
            let previous = previous.map(|gtids| gtids.to_string());
            let (begin, end) = view.covered(file.number);
            let known = |lsn: Option<u64>| lsn.map_or(Value::Null, Value::UInt);
            vec![
                t(names.name(file.number)),
                Value::UInt(file.size),
                Value::UInt(view.sendable(file.number).unwrap_or(0)),
                t(previous.unwrap_or_default()),
                known(begin),
                known(end),
            ]
        };
        view.files.iter().map(row).collect()
    }
}
