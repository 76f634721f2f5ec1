//! Account statements: which module runs each of them, and what they have in common.
//!
//! Neighbours: `utility` hands them over; `users`, `password`, `roles` and `grants` make the changes.
//! **Invariants**: the transaction that is open is committed before accounts change; a reply that carries generated
//! passwords leaves when the change is durable.

use esker_sql_catalog::exec_error::ExecError;
use esker_sql_syntax::ast::Statement;
use esker_types::{SqlResult, errors};

use super::Session;
use super::grants::Way;
use super::rows::RowSource;
use super::run::{Done, ok};
use crate::show;

impl Session {
    /// Runs an account statement; `None`: it is none.
    pub(super) fn run_account_statement(
        &mut self,
        statement: &Statement,
    ) -> Option<Result<Done, ExecError>> {
        Some(match statement {
            Statement::CreateUser(u) => self.account_change(|s| s.create_user(u)),
            Statement::AlterUser(u) => self.account_change(|s| s.alter_user(u)),
            Statement::DropUser { if_exists, users } => {
                self.account_change(|s| s.drop_user(*if_exists, users).map(|()| None))
            }
            Statement::RenameUser(pairs) => {
                self.account_change(|s| s.rename_user(pairs).map(|()| None))
            }
            Statement::CreateRole {
                if_not_exists,
                roles,
            } => self.account_change(|s| s.create_role(*if_not_exists, roles).map(|()| None)),
            Statement::DropRole { if_exists, roles } => {
                self.account_change(|s| s.drop_role(*if_exists, roles).map(|()| None))
            }
            Statement::SetRole(set) if set.default_for.is_none() => {
                self.set_role(set).map(|()| ok(0)).map_err(ExecError::from)
            }
            Statement::SetRole(set) => self.account_change(|s| s.set_role(set).map(|()| None)),
            Statement::SetPassword(set) => self.account_change(|s| s.set_password(set)),
            Statement::Grant(g) => self.account_change(|s| s.grant(g, Way::Grant).map(|()| None)),
            Statement::Revoke(g, lenience) => {
                self.account_change(|s| s.grant(g, Way::Revoke(*lenience)).map(|()| None))
            }
            _ => return None,
        })
    }

    fn account_change(
        &mut self,
        change: impl FnOnce(&mut Self) -> SqlResult<Option<show::Table>>,
    ) -> Result<Done, ExecError> {
        let seq = self.commit_transaction()?;
        if self.locks.has_explicit() {
            // None of the tables of accounts is locked.
            return Err(errors::table_not_locked("user").into());
        }
        self.announce_change()?;
        let table = change(self)?;
        let seq = seq.max(self.pending_commit.take());
        match table {
            None => Ok(ok(seq)),
            Some(table) => {
                // The reply has no place to say what it depends on.
                let engine = &self.context.instance.engine;
                engine.wait_durable(seq).block().map_err(ExecError::from)?;
                let source = RowSource::Table(table.columns, table.rows.into_iter());
                Ok(Done::Rows(Box::new(source)))
            }
        }
    }
}
