//! BACKUP SERVER: a backup of the running server into a directory of its machine.
//!
//! Neighbours: `esker_engine::Backup` copies; `utility` calls this; `esker backup` sends the statement and restores.
//!
//! **Invariants**
//! - BACKUP_ADMIN is needed, and where `secure_file_priv` names a directory, backups are made and read in it only.
//! - The position in the binary log is that of the moment the backup is of.
//! - A statement that is killed leaves no backup.
//! - Where others need the processors, copying works a share of the time only (`throttle`). It is no faster than
//!   `esker_backup_rate_limit`, which may change meanwhile, but for the log, which is kept until it is copied.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use esker_engine::{Backup, CancelReason, Copied, EngineError};
use esker_sql_catalog::exec_error::{ExecError, engine_error};
use esker_sql_syntax::ast::BackupServer;
use esker_types::{SqlResult, Value, errors};
use esker_vfs::{OpenMode, OutsideFile};

use super::SessionContext;
use super::rows::RowSource;
use super::run::Done;
use crate::binlog::Position;
use crate::instance::Instance;
use crate::show::{Table, t};
use crate::textfile::Places;
use crate::throttle::Throttle;

/// Files of the data directory that belong to a backup, beside those of the engine. They are replaced whole, so one
/// that is read is whole.
const FILES: [&str; 2] = ["accounts", "mysqld-auto.cnf"];
/// Longest of these files.
const MAX_FILE: u64 = 64 << 20;
/// How long a change of `esker_backup_rate_limit` may go unnoticed.
const LOOK_AT_LIMIT: Duration = Duration::from_millis(500);

/// How far the backup that is being taken is, and when the last one was taken.
#[derive(Debug, Default)]
pub(crate) struct BackupFigures {
    done: AtomicU64,
    total: AtomicU64,
    taken: AtomicU64,
    last_lsn: AtomicU64,
    last_micros: AtomicU64,
}

impl BackupFigures {
    /// Status variables.
    pub(crate) fn status(&self) -> [(&'static str, String); 5] {
        let read = |figure: &AtomicU64| figure.load(Ordering::Relaxed).to_string();
        [
            ("Esker_backup_bytes_done", read(&self.done)),
            ("Esker_backup_bytes_total", read(&self.total)),
            ("Esker_backups", read(&self.taken)),
            ("Esker_backup_last_lsn", read(&self.last_lsn)),
            ("Esker_backup_last_unix_micros", read(&self.last_micros)),
        ]
    }

    fn show(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }
}

impl SessionContext {
    /// BACKUP SERVER TO … [BASE …].
    pub(super) fn back_up_server(&mut self, backup: &BackupServer) -> Result<Done, ExecError> {
        self.require("BACKUP_ADMIN")?;
        let to = self.backup_directory(&backup.to)?;
        let base = backup.base.as_deref();
        let base = base.map(|base| self.backup_directory(base)).transpose()?;
        let instance = self.instance.clone();
        self.process.show_state("Backing up");
        let taken = self.take_backup(&instance, &to, base.as_deref());
        instance.backups.show(0, 0);
        self.process.show_state("");
        let table = taken?;
        let rows = table.rows.into_iter();
        Ok(Done::Rows(Box::new(RowSource::Table(table.columns, rows))))
    }

    /// Where a backup may be.
    fn backup_directory(&self, name: &[u8]) -> SqlResult<PathBuf> {
        let name = std::str::from_utf8(name).unwrap_or_default();
        let path = Path::new(name);
        let refused = |what: &str| {
            let text = format!("The directory '{name}' cannot hold a backup: {what}");
            Err(errors::unknown_error(text))
        };
        if !path.is_absolute() || name.contains('\n') {
            return refused("give an absolute path");
        }
        let Ok(real) = OutsideFile::real_path(path) else {
            return refused("its parent directory is not there");
        };
        let places = Places::of(&self.instance.globals);
        if places.allowed.as_deref().is_some_and(|dir| !dir.is_empty()) {
            places.check(&real)?;
        }
        if OutsideFile::real_path(&places.base).is_ok_and(|data| real.starts_with(data)) {
            return refused("it is in the data directory");
        }
        Ok(real)
    }

    fn take_backup(
        &mut self,
        instance: &Instance,
        to: &Path,
        base: Option<&Path>,
    ) -> SqlResult<Table> {
        let mut backup = instance
            .engine
            .begin_backup(to, base)
            .map_err(|e| engine_error(&e))?;
        let (id, lsn) = (backup.id(), backup.lsn());
        let position = instance.describe_backup(&mut backup)?;
        let process = &self.process;
        let limit = || instance.variable_u64("esker_backup_rate_limit");
        let mut pace = Pace::new(Instant::now(), 0, limit());
        let share = instance.variable_u64("esker_backup_least_share");
        let throttle = Throttle::new(share as u32, &instance.counters.backup_pauses);
        let copied = backup.copy(&mut |progress| {
            instance.backups.show(progress.done, progress.total);
            throttle.look(|| instance.engine.holds_writers());
            if progress.holds_log {
                // Segments are kept until they are copied: a limit that is low would fill the disk with them.
                pace = Pace::new(Instant::now(), progress.done, limit());
            }
            while let Some(due) = pace.due(progress.done, limit(), Instant::now()) {
                if process.sleep_until(due.min(Instant::now() + LOOK_AT_LIMIT)) {
                    break;
                }
            }
            match process.is_killed() {
                true => Err(EngineError::Cancelled(CancelReason::StatementKilled)),
                false => Ok(()),
            }
        });
        let copied = copied.map_err(|e| {
            let killed = process.kill_error();
            killed.unwrap_or_else(|| engine_error(&e))
        })?;
        let figures = &instance.backups;
        let now = instance.env.clock.wall_micros();
        figures.taken.fetch_add(1, Ordering::Relaxed);
        figures.last_lsn.store(lsn, Ordering::Relaxed);
        figures
            .last_micros
            .store(now.unsigned_abs(), Ordering::Relaxed);
        tracing::info!("backup {id} of LSN {lsn} is in {}", to.display());
        Ok(answer(&id.to_string(), lsn, &copied, &position))
    }
}

impl Instance {
    /// Adds what the engine does not know: accounts, kept settings, the position in the binary log.
    fn describe_backup(&self, backup: &mut Backup) -> SqlResult<Position> {
        // A change that the backup's log decides is in the file, too.
        let _changes = self.accounts().changes();
        for name in FILES {
            if let Some(bytes) = self.read_own_file(name)? {
                backup
                    .add_file(name, &bytes)
                    .map_err(|e| engine_error(&e))?;
            }
        }
        let mut position = Position::default();
        if self.binlog.is_on() {
            position = self.position_of(backup.lsn())?.ok_or_else(|| {
                errors::unknown_error(
                    "the position in the binary log is not known any more; try again",
                )
            })?;
            backup.note("binlog", &format!("{} {}", position.offset, position.file));
            backup.note("gtid", &position.executed);
        }
        backup.note("server", self.version());
        Ok(position)
    }

    fn read_own_file(&self, name: &str) -> SqlResult<Option<Vec<u8>>> {
        let path = self.data_dir().join(name);
        let read = || {
            if !self.env.fs.exists(&path)? {
                return Ok(None);
            }
            let file = self.env.fs.open(&path, OpenMode::Read)?;
            let mut bytes = vec![0; file.len()?.min(MAX_FILE) as usize];
            file.read_exact_at(&mut bytes, 0)?;
            Ok(Some(bytes))
        };
        read().map_err(|e| engine_error(&EngineError::io(format!("reading {}", path.display()), e)))
    }
}

/// Copying no faster than so many bytes a second.
struct Pace {
    /// When the limit began to hold, and what was done then.
    since: Instant,
    done: u64,
    limit: u64,
}

impl Pace {
    fn new(now: Instant, done: u64, limit: u64) -> Self {
        Self {
            since: now,
            done,
            limit,
        }
    }

    /// With so many bytes done: when to go on. A limit of 0 is none, one that has changed holds from here on, and time
    /// in which the disk was slower than the limit is not made up for.
    fn due(&mut self, done: u64, limit: u64, now: Instant) -> Option<Instant> {
        debug_assert!(done >= self.done, "bytes are done once");
        let nanos = |bytes: u64| u128::from(bytes) * 1_000_000_000 / u128::from(limit.max(1));
        let wait = Duration::from_nanos(u64::try_from(nanos(done - self.done)).unwrap_or(u64::MAX));
        let due = self.since.checked_add(wait).filter(|due| *due > now);
        let goes_on = limit == self.limit && limit > 0;
        if !goes_on || due.is_none() {
            *self = Self::new(now, done, limit);
        }
        due.filter(|_| goes_on)
    }
}

/// The answer: one row.
fn answer(id: &str, lsn: u64, copied: &Copied, position: &Position) -> Table {
    let names = [
        "Backup_id",
        "Lsn",
        "Copied_bytes",
        "Shared_bytes",
        "Extents",
        "Extent_bytes",
        "Binlog_file",
        "Binlog_position",
        "Gtid_executed",
    ];
    let numbers = [
        "Lsn",
        "Copied_bytes",
        "Shared_bytes",
        "Extents",
        "Extent_bytes",
        "Binlog_position",
    ];
    let row = vec![
        t(id),
        Value::UInt(lsn),
        Value::UInt(copied.bytes),
        Value::UInt(copied.shared_bytes),
        Value::UInt(copied.extents),
        Value::UInt(copied.extent_bytes),
        t(&position.file),
        Value::UInt(position.offset),
        t(&position.executed),
    ];
    Table::mixed(&names, &numbers, vec![row])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_from_where_it_began_to_hold() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let mut pace = Pace::new(start, 0, 0);
        assert_eq!(pace.due(5_000, 0, at(1)), None, "without a limit");
        assert_eq!(pace.due(6_000, 1_000, at(10)), None, "from here on");
        assert_eq!(pace.due(6_500, 1_000, at(11)), Some(at(510)));
        assert_eq!(pace.due(7_000, 1_000, at(510)), Some(at(1_010)));
        // A slow disk is no reason to hurry afterwards.
        assert_eq!(pace.due(7_100, 1_000, at(5_000)), None);
        assert_eq!(pace.due(7_200, 1_000, at(5_001)), Some(at(5_100)));
        assert_eq!(pace.due(7_300, 2_000, at(5_100)), None, "another limit");
        assert_eq!(pace.due(7_400, 2_000, at(5_101)), Some(at(5_150)));
        assert_eq!(pace.due(7_500, 0, at(5_102)), None);
        assert_eq!(pace.due(u64::MAX, 1, at(5_103)), None);
    }
}
