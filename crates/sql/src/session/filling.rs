//! CREATE TABLE … START TRANSACTION: what a binary log has of CREATE TABLE … SELECT. The rows come behind, in BINLOG
//! statements or by an applier, and the end of the transaction is that of both.
//!
//! Neighbours: `schema` comes here, and does the same for CREATE TABLE … SELECT itself; `replay` and `apply` write the
//! rows; `transaction` commits; `ddl::create_select` makes the table. **Invariants**: nobody sees the table before its
//! rows; what ends the transaction otherwise takes its trees away.

use std::sync::Arc;

use esker_engine::Seq;
use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::OkInfo;
use esker_sql_syntax::ast::{CreateTable, Replication, Statement};
use esker_types::{SqlError, SqlResult, errors};

use super::Session;
use super::run::Done;
use crate::ddl::create_select::{self, NewTable};

impl Session {
    /// CREATE TABLE … START TRANSACTION. The transaction may be one that has begun and has done nothing yet. A table
    /// that is there already, where the statement allows that, gets the rows.
    pub(super) fn create_to_fill(&mut self, create: &CreateTable) -> Result<Done, ExecError> {
        let mut committed = 0;
        if self.txn.has_writes() {
            if self.context.gtid_next.owned().is_some() {
                return Err(errors::commits_implicitly().into());
            }
            self.admit_commit()?;
            committed = self.commit_transaction()?;
        }
        self.context.know_prepared_tables();
        let name = self.with_ddl(|ctx| create_select::claim(ctx, create))?;
        self.state.explicit = true;
        self.use_transaction();
        if let Some(name) = name {
            let begun = self
                .with_ddl(|ctx| create_select::define(ctx, create, &name, &[], &[]))
                .map_err(ExecError::from)
                .and_then(|table| self.begin_to_fill(table));
            if let Err(e) = begun {
                self.rollback_transaction();
                return Err(e);
            }
        }
        self.locks.release_statement();
        Ok(Done::Ok(OkInfo::default(), committed))
    }

    fn begin_to_fill(&mut self, table: NewTable) -> Result<(), ExecError> {
        self.begin_filling(&table.def);
        self.capture.end_statement(&mut self.txn)?;
        self.filling = Some(table);
        Ok(())
    }

    /// While a table is filled there is nothing else to do.
    ///
    /// # Errors
    /// 3977.
    pub(super) fn admit_while_filling(&self, statement: &Statement) -> SqlResult<()> {
        let belongs = match statement {
            Statement::Commit(_) | Statement::Rollback(_) => true,
            Statement::Replication(replication) => matches!(**replication, Replication::Binlog(_)),
            _ => false,
        };
        if self.filling.is_none() || belongs {
            return Ok(());
        }
        let text = "Only BINLOG INSERT, COMMIT and ROLLBACK statements are allowed after CREATE TABLE with START \
                    TRANSACTION statement.";
        Err(SqlError::new(3977, "HY000", text))
    }

    /// The table of this name that the transaction fills, if it is that one.
    pub(super) fn filled(&self, schema: &str, name: &str) -> Option<Arc<TableDef>> {
        let def = &self.filling.as_ref()?.def;
        ((&*def.schema, &*def.name) == (schema, name)).then(|| def.clone())
    }

    /// Commits the transaction with the table that it has filled.
    ///
    /// # Errors
    /// Of the engine: neither table nor rows are there then.
    pub(super) fn commit_filled(&mut self, table: NewTable) -> SqlResult<Seq> {
        let sealed = self.seal_filled();
        let published =
            sealed.and_then(|()| self.with_ddl(|ctx| create_select::publish(ctx, table)));
        match published {
            Ok(seq) => {
                self.tracker.mark_end(&self.vars);
                self.end_transaction();
                self.tracker
                    .mark_logged(self.context.gtid_next.take_numbered(), seq);
                Ok(seq)
            }
            Err(e) => {
                self.rollback_transaction();
                Err(e)
            }
        }
    }
}
