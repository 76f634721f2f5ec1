//! READ ONLY: what a session's transactions, or those of all clients, may not do.
//!
//! Neighbours: `utility` asks [`Session::refuse_read_only`] before it runs anything, `change` and `load` before rows
//! change, `names` when a table is named that a statement writes to or locks rows of.
//! **Invariant**: a statement that commits what is open is refused by the session's default, whatever the transaction
//! was; it commits all the same.

use esker_sql_catalog::exec_error::ExecError;
use esker_sql_syntax::ast::{FlushWhat, LockTable, Maintain, MaintainKind, Statement};
use esker_types::{SqlError, SqlResult, errors};

use super::Session;
use super::utility::commits_implicitly;

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
    pub(crate) fn check_server_writable(&self) -> SqlResult<()> {
        let globals = &self.context.instance.globals;
        let frozen = globals.is_super_read_only()
            || (globals.is_read_only()
                && self
                    .context
                    .require_any(&["SUPER", "CONNECTION_ADMIN"])
                    .is_err());
        if frozen && !self.is_applying() {
            return Err(errors::option_prevents("read-only"));
        }
        Ok(())
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

/// 1792.
pub(super) fn read_only_transaction() -> SqlError {
    let text = "Cannot execute statement in a READ ONLY transaction.";
    SqlError::new(1792, "25006", text)
}
