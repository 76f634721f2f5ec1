//! What backup tools say: FLUSH TABLES … WITH READ LOCK and FOR EXPORT, LOCK INSTANCE FOR BACKUP, and transactions
//! whose snapshot has a position in the binary log.
//!
//! Neighbours: `flush`, `utility` and `transaction` call this; `ddl::lock_tables` takes the locks; `binlog` knows
//! positions. **Invariants**: a position is shown as long as the transaction is open whose snapshot it belongs to;
//! outside of one the present end of the binary log is shown.

use esker_engine::{Isolation, Seq};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_syntax::ast::{LockTable, ObjectName};
use esker_types::{SqlResult, errors};

use super::Session;
use super::run::Done;
use crate::ddl::{lock_tables, names, view};

/// How often a snapshot is taken again that was too old for a position when the files had what it sees.
const ATTEMPTS: u32 = 3;

impl Session {
    /// FLUSH TABLES … WITH READ LOCK and FOR EXPORT: the tables are flushed, and locked for reading.
    pub(super) fn flush_and_lock(
        &mut self,
        tables: &[ObjectName],
        for_export: bool,
    ) -> Result<Seq, ExecError> {
        if self.locks.has_explicit() {
            return Err(errors::has_locked_tables().into());
        }
        let instance = self.context.instance.clone();
        for table in tables {
            let name = names::resolve(table, self.context.database.as_deref())?;
            if instance.catalog.view(&name.schema, &name.name).is_some() {
                return Err(view::wrong_object(&name, "BASE TABLE").into());
            }
        }
        let lock = |name: &ObjectName| LockTable {
            name: name.clone(),
            alias: None,
            write: false,
            soft: false,
        };
        let locked: Vec<LockTable> = tables.iter().map(lock).collect();
        let Done::Ok(_, seq) = self.lock_tables(&locked)? else {
            return Ok(0);
        };
        if for_export {
            instance.engine.flush_all().map_err(ExecError::from)?;
        }
        Ok(seq)
    }

    /// LOCK INSTANCE FOR BACKUP.
    pub(super) fn lock_instance(&mut self) -> Result<(), ExecError> {
        self.context.require("BACKUP_ADMIN")?;
        let instance = self.context.instance.clone();
        lock_tables::lock_instance(&instance.catalog, &mut self.locks)
    }

    /// UNLOCK INSTANCE.
    pub(super) fn unlock_instance(&mut self) -> SqlResult<()> {
        self.context.require("BACKUP_ADMIN")?;
        self.locks.release_instance();
        Ok(())
    }

    /// Takes the snapshot of START TRANSACTION WITH CONSISTENT SNAPSHOT, and finds its position.
    pub(super) fn take_positioned_snapshot(&mut self) -> SqlResult<()> {
        self.use_transaction();
        let mut snapshot = self.txn.snapshot();
        let is_kept = self.txn.isolation() != Isolation::ReadCommitted;
        let instance = self.context.instance.clone();
        if !is_kept || !instance.binlog.is_on() {
            return Ok(());
        }
        for _ in 0..ATTEMPTS {
            if let Some(position) = instance.position_of(snapshot)? {
                self.context.process.show_snapshot(Some(position));
                self.state.has_position = true;
                return Ok(());
            }
            self.txn.rollback();
            snapshot = self.txn.snapshot();
        }
        Ok(())
    }

    /// The transaction is over whose snapshot had a position.
    pub(super) fn forget_position(&mut self) {
        if std::mem::take(&mut self.state.has_position) {
            self.context.process.show_snapshot(None);
        }
    }
}
