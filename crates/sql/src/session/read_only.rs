//! READ ONLY: what a session's transactions may not do, and nobody while `read_only` or `super_read_only` is set.
//!
//! Neighbours: `utility` asks [`Session::refuse_read_only`] and [`Session::check_frozen`] before it runs anything,
//! `change` and `load` before rows change, `names` when a table is named that a statement writes to or locks rows of,
//! `transaction` before it commits, `set` before it sets one of the two.
//! **Invariants**
//! - A statement that commits what is open is refused by the session's default, whatever the transaction was; it
//!   commits all the same. One that the server's settings refuse does not.
//! - When `SET GLOBAL read_only = ON` or `super_read_only = ON` has answered, nothing that they refuse is committed any
//!   more: statements and commits that ran have ended, and whoever had passed the check before is asked again, by
//!   [`Session::check_commit`] or behind the lock that announces a change.

use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::MdlDuration;
use esker_sql_syntax::ast::{
    AlterInstance, Expr, FlushWhat, Literal, LockTable, Maintain, MaintainKind, ObjectName,
    SetItem, Statement, VarScope,
};
use esker_types::{SqlError, SqlResult, errors};

use super::utility::commits_implicitly;
use super::{Session, SessionContext};
use crate::ddl::lock_tables::{announce_write, await_writers};

impl Session {
    /// 1792 when the open transaction may not write.
    pub(super) fn check_read_write(&self) -> SqlResult<()> {
        match self.is_read_only() {
            true => Err(read_only_transaction()),
            false => Ok(()),
        }
    }

    /// Is the transaction READ ONLY that is open, or the next one?
    fn is_read_only(&self) -> bool {
        match self.state.explicit || self.state.active {
            true => self.state.read_only,
            false => self.state.next_read_only.unwrap_or(self.vars.read_only),
        }
    }

    /// May statements name no table that they change, or lock rows of?
    pub(super) fn only_reads(&self) -> bool {
        self.is_read_only() && !self.is_applying()
    }

    /// 1792, or 1290 when the server is read-only.
    pub(crate) fn check_writable(&self) -> SqlResult<()> {
        if self.is_applying() {
            return Ok(());
        }
        self.check_read_write()?;
        self.check_server_writable()
    }

    /// 1290 when the server is read-only.
    pub(super) fn check_server_writable(&self) -> SqlResult<()> {
        self.context.check_server_writable(self.is_applying())
    }

    /// A statement that changes what the server holds is refused when that is read-only, before it commits what is
    /// open: 1290. Those that change rows are asked when their tables are known.
    pub(super) fn check_frozen(&self, statement: &Statement) -> SqlResult<()> {
        if !self.context.instance.globals.is_read_only() || !self.changes_server(statement) {
            return Ok(());
        }
        self.check_server_writable()
    }

    /// Does it change anything but temporary tables, rows, and what is no part of the data: settings, replicas, files?
    fn changes_server(&self, statement: &Statement) -> bool {
        let is_stored = |name: &ObjectName| !self.context.is_temporary(name);
        match statement {
            Statement::Begin(begin) => begin.read_only == Some(false),
            Statement::CreateTable(create) => !create.temporary,
            Statement::DropTable(drop) => !drop.temporary && drop.names.iter().any(is_stored),
            Statement::AlterTable(alter) => is_stored(&alter.name),
            Statement::CreateIndex(create) => is_stored(&create.table),
            Statement::DropIndex(drop) => is_stored(&drop.table),
            Statement::Truncate { name, .. } => is_stored(name),
            Statement::LockTables { tables, .. } => {
                tables.iter().any(|t| t.write && is_stored(&t.name))
            }
            Statement::Maintain(maintain) => {
                let changes = matches!(
                    maintain.kind,
                    MaintainKind::Analyze | MaintainKind::Optimize
                );
                changes && maintain.histogram.is_none() && maintain.tables.iter().any(is_stored)
            }
            Statement::SetRole(set) => set.default_for.is_some(),
            Statement::AlterInstance(what) => matches!(what, AlterInstance::RotateKey { .. }),
            Statement::Commit(_)
            | Statement::Set(_)
            | Statement::Xa(_)
            | Statement::Flush { .. }
            | Statement::Replication(_) => false,
            other => commits_implicitly(other),
        }
    }

    /// May the statement lock rows exclusively? Where that has to wait, or is refused, binding says so.
    pub(super) fn may_lock_rows(&mut self) -> bool {
        let catalog = self.context.instance.catalog.clone();
        !self.only_reads()
            && self.check_server_writable().is_ok()
            && announce_write(&catalog, &mut self.locks, MdlDuration::Statement).is_ok()
    }

    /// A transaction that has changed tables is rolled back when the server has become read-only meanwhile: 1290.
    pub(super) fn check_commit(&mut self) -> SqlResult<()> {
        if !self.has_changed_tables() {
            return Ok(());
        }
        self.check_server_writable()
            .inspect_err(|_| self.rollback_transaction())
    }

    /// Has the transaction changed tables that are not temporary?
    pub(super) fn has_changed_tables(&self) -> bool {
        self.txn.has_writes() && self.locks.has_written_tables()
    }

    /// Before `read_only` or `super_read_only` is set: whoever writes has ended then, and nobody begins before it is
    /// set.
    ///
    /// # Errors
    /// 1192 in a transaction or under LOCK TABLES, whose end would be waited for.
    pub(super) fn await_writers(&mut self, items: &[SetItem]) -> Result<(), ExecError> {
        let rights = ["SYSTEM_VARIABLES_ADMIN", "SUPER"];
        if !items.iter().any(freezes) || self.context.require_any(&rights).is_err() {
            return Ok(());
        }
        if self.locks.has_explicit() || self.shows_transaction() {
            return Err(errors::has_locked_tables().into());
        }
        let globals = &self.context.instance.globals;
        let changes = |item: &SetItem| match item {
            SetItem::SysVar { var, value } => {
                freezes(item)
                    && !globals.named(&var.name).is_on()
                    && !value.as_ref().is_some_and(is_off)
            }
            _ => false,
        };
        if self.locks.has_global() || !items.iter().any(changes) {
            return Ok(());
        }
        let catalog = self.context.instance.catalog.clone();
        let at_most = self.vars.metadata_lock_timeout;
        await_writers(&catalog, &mut self.locks, at_most)
    }

    /// Are the session's transactions READ ONLY unless they say otherwise?
    pub(super) fn is_read_only_session(&self) -> bool {
        self.vars.read_only && !self.is_applying()
    }

    /// Is this a statement that commits what is open, and that a session whose transactions are READ ONLY may not run?
    pub(super) fn is_refused_read_only(&self, statement: &Statement) -> bool {
        if !self.is_read_only_session() {
            return false;
        }
        let writes = |t: &LockTable| t.write && !self.context.is_temporary(&t.name);
        match statement {
            Statement::LockTables { tables, .. } => tables.iter().any(writes),
            other => changes_more_than_rows(other),
        }
    }

    /// Commits what is open, and refuses the statement: 1792.
    pub(super) fn refuse_read_only(&mut self) -> Result<std::convert::Infallible, ExecError> {
        if !self.is_firing() {
            self.commit_transaction()?;
        }
        Err(read_only_transaction().into())
    }
}

impl SessionContext {
    /// 1290 when the server is read-only for the account. What comes from a source (`applies`) is written all the same.
    pub(super) fn check_server_writable(&self, applies: bool) -> SqlResult<()> {
        let globals = &self.instance.globals;
        let binds_all = globals.is_super_read_only();
        let binds_account =
            || globals.is_read_only() && self.require_any(&["SUPER", "CONNECTION_ADMIN"]).is_err();
        match !applies && (binds_all || binds_account()) {
            true if binds_all => Err(errors::option_prevents("super-read-only")),
            true => Err(errors::option_prevents("read-only")),
            false => Ok(()),
        }
    }
}

/// Does the statement commit, and change definitions, accounts or the server? Those that only look at tables, bring
/// what is in memory up to date, or are about transactions and replication, do not.
fn changes_more_than_rows(statement: &Statement) -> bool {
    match statement {
        Statement::Begin(_)
        | Statement::Commit(_)
        | Statement::Set(_)
        | Statement::Xa(_)
        | Statement::Replication(_) => false,
        Statement::CreateTable(create) => !create.temporary,
        Statement::Maintain(maintain) => rewrites(maintain),
        Statement::Flush { what, .. } => what.iter().any(locks_tables),
        Statement::SetRole(set) => set.default_for.is_some(),
        other => commits_implicitly(other),
    }
}

/// Does it rewrite tables? ALTER TABLE of partitions counts for that, whatever it does with them.
fn rewrites(maintain: &Maintain) -> bool {
    let kind = maintain.kind;
    maintain.partitions.is_some() || matches!(kind, MaintainKind::Optimize | MaintainKind::Repair)
}

/// FLUSH TABLES of tables that are named, and locked.
fn locks_tables(what: &FlushWhat) -> bool {
    match what {
        FlushWhat::Tables {
            names,
            read_lock,
            for_export,
        } => !names.is_empty() && (*read_lock || *for_export),
        _ => false,
    }
}

/// Does it set `read_only` or `super_read_only` of the running server to a value?
pub(super) fn freezes(item: &SetItem) -> bool {
    match item {
        SetItem::SysVar { var, value } => {
            let is_one = matches!(&*var.name, "read_only" | "super_read_only");
            is_one && value.is_some() && var.scope != Some(VarScope::PersistOnly)
        }
        _ => false,
    }
}

/// Is it written as OFF, FALSE or 0?
fn is_off(value: &Expr) -> bool {
    match value {
        Expr::Literal(Literal::Int(0) | Literal::Bool(false)) => true,
        Expr::Literal(Literal::Str { bytes, .. }) => bytes.eq_ignore_ascii_case(b"OFF"),
        _ => false,
    }
}

/// 1792.
pub(super) fn read_only_transaction() -> SqlError {
    let text = "Cannot execute statement in a READ ONLY transaction.";
    SqlError::new(1792, "25006", text)
}
