//! LOCK TABLES and UNLOCK TABLES.
//!
//! Neighbours: `utility` and `backup` call this; `ddl::lock_tables` takes the metadata locks.
//! **Invariant**: the transaction that is open is committed before the first lock is taken, as in MySQL.

use esker_engine::Seq;
use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::MdlDuration;
use esker_sql_plan::bind::{Params, bind_query};
use esker_sql_syntax::ast::{Expr, Literal, LockTable, Query, QueryBody};
use esker_types::{SqlResult, errors};

use super::names::Purpose;
use super::run::{Done, ok};
use super::{Session, SessionContext};
use crate::ddl;
use crate::ddl::names::TableName;

/// How often views are locked anew because one of them was changed before it was locked.
const MAX_LISTINGS: u32 = 16;

impl Session {
    pub(super) fn lock_tables(&mut self, tables: &[LockTable]) -> Result<Done, ExecError> {
        let seq = self.commit_transaction()?;
        let tables = self.context.lockable(tables)?;
        let tables = tables.as_slice();
        self.context.check_lock_rights(tables)?;
        self.lock_with_views(tables)?;
        self.locks.keep_statement_locks(MdlDuration::Explicit);
        self.txn.learn_of_commits();
        Ok(ok(seq))
    }

    /// Locks the tables and what is below the views among them.
    ///
    /// # Errors
    /// Those of the locks; 1412 if the views are changed over and over.
    fn lock_with_views(&mut self, tables: &[LockTable]) -> Result<(), ExecError> {
        let instance = self.context.instance.clone();
        for _ in 0..MAX_LISTINGS {
            let below = self.below_views(tables)?;
            ddl::lock_tables::lock(
                &instance.catalog,
                &mut self.locks,
                tables,
                &below,
                self.context.database.as_deref(),
            )?;
            // A view may have been changed before it was locked.
            let now = self.below_views(tables);
            if now.as_ref().is_ok_and(|now| *now == below) {
                return Ok(());
            }
            self.locks.release_statement();
            now?;
            self.context.check()?;
        }
        Err(errors::definition_changed().into())
    }

    /// The tables and views below the views that are to be locked, and whether for writing: those of a view that rows
    /// are changed through.
    fn below_views(&mut self, tables: &[LockTable]) -> Result<Vec<(TableName, bool)>, ExecError> {
        let mut below = Vec::new();
        for table in tables {
            let (schema, name) = self.context.full_name(&table.name)?;
            let Some(view) = self.context.instance.catalog.view(schema, name) else {
                continue;
            };
            let writes = table.write && view.updatable;
            let query = Query {
                body: QueryBody::Table(table.name.clone()),
                ..Query::of_item(Expr::Literal(Literal::Null))
            };
            let listed = self.bind_quietly(Purpose::ListTables, |scope| {
                bind_query(&scope.env(Params::Values(&[])), &query, None, None)?;
                Ok(scope.names.listed.take())
            })?;
            below.extend(listed.into_iter().map(|name| (name, writes)));
        }
        Ok(below)
    }

    /// 1100 for a table that LOCK TABLES does not name.
    pub(crate) fn require_locked(&self, table: &TableDef) -> SqlResult<()> {
        if table.temporary || !self.locks.has_explicit() {
            return Ok(());
        }
        ddl::lock_tables::check_locked(&self.locks, &table.mdl, &table.name, false)
    }

    /// Announces a change of what there is, until the statement ends.
    ///
    /// # Errors
    /// 1223 while the session holds the global read lock; 1290 if the server is read-only.
    pub(super) fn announce_change(&mut self) -> Result<(), ExecError> {
        let catalog = self.context.instance.catalog.clone();
        ddl::lock_tables::announce_change(&catalog, &mut self.locks)?;
        Ok(self.check_server_writable()?)
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

impl SessionContext {
    /// Before locks that exclude writers: prepared XA transactions from before the start have theirs.
    pub(super) fn know_prepared_tables(&self) {
        self.instance.xids();
    }
}
