//! Temporary tables of a session: where names find them, and when they go.
//!
//! Neighbours: `catalog::temporary` has the definitions; `names` and `lookup` resolve here; `ddl` makes and drops them.
//! **Invariants**
//! - A temporary table hides a stored table or view of its name from this session, and from nobody else.
//! - Privileges on stored tables say nothing about it: who made it may do everything with it.
//! - Its trees are dropped when no transaction of the session can write to them, on a thread that may block.

use std::sync::Arc;

use esker_sql_catalog::catalog::{TableDef, TemporaryTables, drop_temporary_trees};
use esker_sql_syntax::ast::{ObjectName, Statement};
use esker_types::{Level, SqlError, SqlResult};

use super::{Session, SessionContext};

impl SessionContext {
    /// The temporary table of this name.
    pub(crate) fn temporary_table(&self, schema: &str, name: &str) -> Option<Arc<TableDef>> {
        self.temporary.borrow().get(schema, name).cloned()
    }

    /// Does the name mean a temporary table?
    pub(crate) fn is_temporary(&self, name: &ObjectName) -> bool {
        if self.temporary.borrow().is_empty() {
            return false;
        }
        self.full_name(name)
            .is_ok_and(|(schema, table)| self.temporary_table(schema, table).is_some())
    }

    /// The table that a name means, temporary or stored.
    pub(crate) fn resolve(&self, schema: &str, name: &str) -> Option<Arc<TableDef>> {
        self.temporary_table(schema, name)
            .or_else(|| self.instance.catalog.resolve(schema, name))
    }

    /// Temporary tables cannot be used in XA transactions, which outlive sessions.
    ///
    /// # Errors
    /// 4091.
    pub(super) fn admit_temporary(&self) -> SqlResult<()> {
        if self.xa.is_none() {
            return Ok(());
        }
        let text = "XA: Temporary tables cannot be accessed inside XA transactions when xa_detach_on_prepare=ON";
        Err(SqlError::new(4091, "HY000", text))
    }

    /// May the session change `binlog_format`?
    ///
    /// # Errors
    /// 3745: it has temporary tables.
    pub(super) fn admit_binlog_format(&self) -> SqlResult<()> {
        if self.temporary.borrow().is_empty() {
            return Ok(());
        }
        let text = "Changing @@session.binlog_format is disallowed when the session has open temporary table(s). You \
                    could wait until these temporary table(s) are dropped and try again.";
        Err(SqlError::new(3745, "HY000", text))
    }
}

impl Session {
    /// Is a statement that changes these tables allowed? Temporary tables are changed in READ ONLY transactions, too.
    ///
    /// # Errors
    /// 1792, 1290.
    pub(super) fn check_writable_tables(&self, tables: &[Arc<TableDef>]) -> SqlResult<()> {
        match tables.iter().all(|t| t.temporary) {
            true => Ok(()),
            false => self.check_writable(),
        }
    }

    /// Remembers what a rollback will not undo.
    pub(super) fn note_temporary(&mut self, statement: &Statement) {
        match statement {
            Statement::CreateTable(_) => self.state.made_temporary = true,
            _ => self.state.dropped_temporary = true,
        }
    }

    /// Warns of what a rollback does not undo: 1751 and 1752.
    pub(super) fn warn_of_temporary(&mut self) {
        if self.state.made_temporary {
            let text = "The creation of some temporary tables could not be rolled back.";
            self.warn(Level::Warning, 1751, text.to_owned());
        }
        if self.state.dropped_temporary {
            let text = "Some temporary tables were dropped, but these operations could not be rolled back.";
            self.warn(Level::Warning, 1752, text.to_owned());
        }
    }

    /// After a statement on a thread that may block: drops the trees of tables that are gone.
    pub(super) fn drop_doomed_trees(&mut self) {
        if self.txn.has_writes() {
            return;
        }
        let doomed = self.context.temporary.get_mut().take_doomed();
        drop_temporary_trees(&self.context.instance.engine, doomed);
    }

    /// Has it temporary tables?
    pub(crate) fn has_temporary(&self) -> bool {
        !self.context.temporary.borrow().is_empty()
    }

    /// Has these from now on; gives those that it had. Nothing is open.
    pub(crate) fn exchange_temporary(&mut self, tables: TemporaryTables) -> TemporaryTables {
        debug_assert!(!self.txn.has_writes());
        let had = std::mem::replace(self.context.temporary.get_mut(), tables);
        self.context.rebind();
        had
    }

    /// Drops every temporary table, on a thread of its own: this may be a worker that others share. Nothing is open.
    pub(super) fn drop_temporary_tables(&mut self) {
        debug_assert!(!self.txn.has_writes());
        let tables: &mut TemporaryTables = self.context.temporary.get_mut();
        tables.clear();
        let doomed = tables.take_doomed();
        if doomed.is_empty() {
            return;
        }
        let engine = self.context.instance.engine.clone();
        let drop_them = move || drop_temporary_trees(&engine, doomed);
        let thread = std::thread::Builder::new().name("esker-temporary".to_owned());
        if let Err(e) = thread.spawn(drop_them) {
            tracing::warn!("trees of temporary tables stay until restart: {e}");
        }
    }
}
