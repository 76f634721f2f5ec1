//! What the variables say about applying, read when a channel starts.
//!
//! Neighbours: `feed` and `worker` obey. **Invariant**: a channel that runs keeps the rules it has started
//! with, but for `mode`, `conversions` and `retries`, which are asked each time.

use std::collections::BTreeSet;

use esker_binlog::apply::coordinator::Mode;

use crate::dml::apply::{ApplyMode, Conversions};
use crate::instance::Instance;

/// Errors of `replica_skip_errors = ddl_exist_errors`, as MySQL lists them.
const DDL_EXIST_ERRORS: [u16; 12] = [
    1007, 1008, 1050, 1051, 1054, 1060, 1061, 1068, 1091, 1094, 1146, 1304,
];

/// The variables of the applier.
pub(super) struct Rules {
    /// `replica_preserve_commit_order`; what is applied optimistically needs it, and one after the other is in order.
    pub(super) in_order: bool,
    /// `log_replica_updates`.
    pub(super) logs: bool,
    /// `esker_replica_parallel_mode`.
    pub(super) parallel: Mode,
    /// `replica_parallel_workers`.
    pub(super) workers: usize,
    /// `replica_pending_jobs_size_max`.
    pub(super) pending_bytes: usize,
    /// `esker_max_transaction_size`.
    pub(super) max_bytes: usize,
    /// `server_id`: what has come from here is not applied.
    pub(super) own_id: u32,
    skipped: Skipped,
}

/// `replica_skip_errors`.
enum Skipped {
    All,
    Some(BTreeSet<u16>),
}

impl Rules {
    pub(super) fn read(instance: &Instance) -> Self {
        let globals = &instance.globals;
        let number = |name| instance.variable_u64(name);
        let size = |name| usize::try_from(number(name)).unwrap_or(usize::MAX);
        let parallel = match globals.named("esker_replica_parallel_mode").as_text() {
            "SERIAL" => Mode::Serial,
            "DATABASE" => Mode::Database,
            "COMMIT-GROUP" => Mode::CommitGroup,
            "OPTIMISTIC" => Mode::Optimistic,
            _ => Mode::WriteSet,
        };
        let in_order = instance.variable_is_on("replica_preserve_commit_order");
        Self {
            in_order: in_order || matches!(parallel, Mode::Optimistic | Mode::Serial),
            logs: instance.variable_is_on("log_replica_updates"),
            parallel,
            workers: size("replica_parallel_workers"),
            pending_bytes: size("replica_pending_jobs_size_max"),
            max_bytes: size("esker_max_transaction_size"),
            own_id: number("server_id") as u32,
            skipped: Skipped::read(globals.named("replica_skip_errors").as_text()),
        }
    }

    /// `replica_exec_mode`: a channel that runs follows it.
    pub(super) fn mode(instance: &Instance) -> ApplyMode {
        match instance.globals.named("replica_exec_mode").as_text() {
            "IDEMPOTENT" => ApplyMode::Idempotent,
            _ => ApplyMode::Strict,
        }
    }

    /// `replica_type_conversions`, likewise.
    pub(super) fn conversions(instance: &Instance) -> Conversions {
        Conversions::of(instance.globals.named("replica_type_conversions").as_text())
    }

    /// `replica_transaction_retries`, likewise.
    pub(super) fn retries(instance: &Instance) -> u64 {
        instance.variable_u64("replica_transaction_retries")
    }

    /// Does an error of this number count for nothing?
    pub(super) fn skips(&self, code: u16) -> bool {
        match &self.skipped {
            Skipped::All => true,
            Skipped::Some(codes) => codes.contains(&code),
        }
    }
}

impl Skipped {
    fn read(text: &str) -> Self {
        if text.eq_ignore_ascii_case("all") {
            return Self::All;
        }
        let mut codes = BTreeSet::new();
        for word in text.split(',').map(str::trim) {
            match word.parse() {
                Ok(code) => {
                    codes.insert(code);
                }
                Err(_) if word.eq_ignore_ascii_case("ddl_exist_errors") => {
                    codes.extend(DDL_EXIST_ERRORS);
                }
                Err(_) => {}
            }
        }
        Self::Some(codes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_to_skip_are_numbers_or_words() {
        let skips = |text: &str, code| match Skipped::read(text) {
            Skipped::All => true,
            Skipped::Some(codes) => codes.contains(&code),
        };
        assert!(skips("all", 1032) && !skips("OFF", 1032));
        assert!(skips("1062, 1032", 1032) && !skips("1062", 1032));
        assert!(skips("ddl_exist_errors,1032", 1050));
    }
}
