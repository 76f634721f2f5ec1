//! FLUSH: what each of its targets does, and which privilege lets an account ask for it.
//!
//! Neighbours: `utility` calls this; `backup` has FLUSH TABLES … WITH READ LOCK of named tables, `process` the logs,
//! `binlog` rotates its file.
//! **Invariant**: all privileges are checked before anything is flushed.

use std::sync::atomic::Ordering;

use esker_engine::Seq;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::{MdlDuration, MdlMode};
use esker_sql_syntax::ast::{FlushWhat, ObjectName};
use esker_types::{SqlResult, errors};

use super::Session;
use super::run::{Done, ok};
use crate::ddl;

impl Session {
    pub(super) fn flush(&mut self, local: bool, what: &[FlushWhat]) -> Result<Done, ExecError> {
        for item in what {
            self.context.require_any(flush_rights(item))?;
        }
        let mut seq = 0;
        for item in what {
            seq = seq.max(self.flush_item(item)?);
        }
        let counters = &self.context.instance.counters;
        counters.flushes.fetch_add(1, Ordering::Relaxed);
        let logged = self.logged_flush(local, what);
        Ok(ok(seq.max(self.context.log_alone(logged)?)))
    }

    /// Flushes one thing; the sequence that the answer waits for.
    fn flush_item(&mut self, item: &FlushWhat) -> Result<Seq, ExecError> {
        match item {
            FlushWhat::Tables {
                names,
                read_lock: true,
                ..
            } if names.is_empty() => {
                ddl::lock_tables::lock_globally(&self.context.instance.catalog, &mut self.locks)?;
                self.txn.learn_of_commits();
            }
            FlushWhat::Tables {
                names,
                read_lock,
                for_export,
            } if *read_lock || *for_export => {
                return self.flush_and_lock(names, *for_export);
            }
            FlushWhat::Logs("") => {
                let engine = &self.context.instance.engine;
                engine.flush_all().map_err(ExecError::from)?;
                self.context.rotate_binlog()?;
                self.context.reopen_query_logs();
                self.context.reopen_logs()?;
                self.context.rotate_relay_logs(None)?;
            }
            FlushWhat::Logs("ERROR") => self.context.reopen_logs()?,
            FlushWhat::Logs("SLOW" | "GENERAL") => self.context.reopen_query_logs(),
            FlushWhat::Logs("ENGINE") | FlushWhat::Tables { .. } => {
                if let FlushWhat::Tables { names, .. } = item {
                    self.check_may_flush(names)?;
                    // Under LOCK TABLES only the session's own tables are flushed.
                    if !self.locks.has_explicit() {
                        self.await_locked_tables(names)?;
                    }
                }
                let engine = &self.context.instance.engine;
                engine.flush_all().map_err(ExecError::from)?;
            }
            FlushWhat::Status => {
                let registry = &self.context.instance.registry;
                registry.flush_counts(&self.context.process);
                self.context.instance.flush_status();
            }
            FlushWhat::Hosts => {
                let counters = &self.context.instance.counters;
                counters.host_flushes.fetch_add(1, Ordering::Relaxed);
            }
            FlushWhat::UserResources => {
                let usages = &self.context.instance.accounts().usages;
                usages.flush(self.context.now_seconds());
            }
            FlushWhat::Privileges => {
                let usages = &self.context.instance.accounts().usages;
                usages.flush(self.context.now_seconds());
                usages.unlock(None);
            }
            FlushWhat::Logs("BINARY") => self.context.rotate_binlog()?,
            FlushWhat::RelayLogs(channel) => self.context.rotate_relay_logs(channel.as_deref())?,
            // Nothing is cached that these would have to drop.
            FlushWhat::OptimizerCosts | FlushWhat::Logs(_) => (),
        }
        Ok(0)
    }

    /// Waits until no other session has these tables, or any if none is named, locked by LOCK TABLES, and holds up
    /// nobody afterwards.
    fn await_locked_tables(&mut self, names: &[ObjectName]) -> Result<(), ExecError> {
        let manager = self.context.instance.catalog.locks().clone();
        let named = names.iter().map(|name| {
            let (schema, table) = self.context.full_name(name)?;
            Ok(manager.table(schema, table))
        });
        let objects = match names.is_empty() {
            true => manager.locked_tables(),
            false => named.collect::<SqlResult<_>>()?,
        };
        for object in &objects {
            self.locks
                .acquire(object, MdlMode::Flush, MdlDuration::Statement)?;
        }
        self.locks.release_statement();
        Ok(())
    }

    /// Under LOCK TABLES only what is locked for writing may be flushed: 1099, 1100.
    fn check_may_flush(&self, names: &[ObjectName]) -> SqlResult<()> {
        if !self.locks.has_explicit() {
            return Ok(());
        }
        if names.is_empty() {
            let read_locked = self.locks.read_locked_table();
            return read_locked.map_or(Ok(()), |name| Err(errors::table_read_locked(name)));
        }
        for name in names {
            let (schema, table) = self.context.full_name(name)?;
            let object = self.context.instance.catalog.locks().table(schema, table);
            ddl::lock_tables::check_locked(&self.locks, &object, table, true)?;
        }
        Ok(())
    }
}

/// One of these lets an account FLUSH this.
fn flush_rights(what: &FlushWhat) -> &'static [&'static str] {
    match what {
        FlushWhat::Tables { .. } => &["RELOAD", "FLUSH_TABLES"],
        FlushWhat::Privileges => &["RELOAD", "FLUSH_PRIVILEGES"],
        FlushWhat::Status => &["RELOAD", "FLUSH_STATUS"],
        FlushWhat::UserResources => &["RELOAD", "FLUSH_USER_RESOURCES"],
        FlushWhat::OptimizerCosts => &["RELOAD", "FLUSH_OPTIMIZER_COSTS"],
        FlushWhat::Logs(_) | FlushWhat::RelayLogs(_) | FlushWhat::Hosts => &["RELOAD"],
    }
}
