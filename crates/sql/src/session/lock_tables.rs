//! LOCK TABLES and UNLOCK TABLES.
//!
//! Neighbours: `utility` and `backup` call this; `ddl::lock_tables` takes the metadata locks.
//! **Invariant**: the transaction that is open is committed before the first lock is taken, as in MySQL.

use esker_engine::Seq;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_syntax::ast::LockTable;
use esker_types::SqlResult;

use super::Session;
use super::run::{Done, ok};
use crate::ddl;

impl Session {
    /// Before locks that exclude writers: prepared XA transactions from before the start have theirs.
    pub(super) fn know_prepared_tables(&self) {
        self.context.instance.xids();
    }

    pub(super) fn lock_tables(&mut self, tables: &[LockTable]) -> Result<Done, ExecError> {
        let tables = self.context.lockable(tables)?;
        let tables = tables.as_slice();
        self.context.check_lock_rights(tables)?;
        let seq = self.commit_transaction()?;
        let instance = self.context.instance.clone();
        ddl::lock_tables::lock(
            &instance.catalog,
            &mut self.locks,
            tables,
            self.context.database.as_deref(),
        )?;
        self.txn.learn_of_commits();
        Ok(ok(seq))
    }

    pub(super) fn unlock_tables(&mut self) -> SqlResult<Seq> {
        let seq = if self.locks.has_explicit() {
            self.commit_transaction()?
        } else {
            0
        };
        ddl::lock_tables::unlock(&mut self.locks);
        Ok(seq)
    }
}
