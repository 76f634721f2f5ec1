//! Look-ups outside of statements that run: tables by name, columns of a table, columns a statement
//! will have.
//!
//! Neighbours: SHOW, COM_FIELD_LIST and COM_STMT_PREPARE ask.
//! **Invariant**: nothing here keeps a metadata lock beyond the call, except inside a transaction.

use std::cell::RefCell;
use std::sync::Arc;

use esker_types::{SqlError, SqlResult, SqlType, TypeKind};

use super::Session;
use super::names::{SessionNames, count_diagnostics};
use super::run::eval_ctx;
use crate::bind::{BindEnv, Params};
use crate::catalog::TableDef;
use crate::infoschema::{self, TableSpec};
use crate::parse::ast::{ObjectName, Query, Statement};
use crate::plan::plan_query;
use crate::result::ColumnMeta;

impl Session {
    /// A table by name.
    ///
    /// # Errors
    /// 1046, 1049, 1146, 1142.
    pub(crate) fn find_table(&self, name: &ObjectName) -> SqlResult<Arc<TableDef>> {
        let schema = match &name.schema {
            Some(s) => &*s.text,
            None => self.facts.current_schema()?,
        };
        let table = self
            .facts
            .instance
            .catalog
            .table_or_error(schema, &name.name.text)?;
        if !self.facts.account.sees_schema(schema) {
            self.facts.require_on("SELECT", schema, &name.name.text)?;
        }
        Ok(table)
    }

    /// An INFORMATION_SCHEMA table, if the name means one.
    pub(crate) fn find_system_table(
        &self,
        name: &ObjectName,
    ) -> SqlResult<Option<&'static TableSpec>> {
        let schema = match &name.schema {
            Some(s) => Some(&*s.text),
            None => self.facts.database.as_deref(),
        };
        if !schema.is_some_and(|s| s.eq_ignore_ascii_case("information_schema")) {
            return Ok(None);
        }
        let unknown = || {
            let text = format!("Unknown table '{}' in information_schema", name.name);
            SqlError::new(1109, "42S02", text)
        };
        infoschema::find(&name.name.text)
            .map(Some)
            .ok_or_else(unknown)
    }

    /// COM_FIELD_LIST.
    ///
    /// # Errors
    /// As [`Self::find_table`].
    pub fn field_list(&mut self, table: &str) -> SqlResult<Vec<ColumnMeta>> {
        let table = self.find_table(&ObjectName::bare(table))?;
        Ok(table
            .columns
            .iter()
            .map(|c| ColumnMeta {
                schema: table.schema.clone(),
                table: table.name.clone(),
                org_table: table.name.clone(),
                name: c.name.clone(),
                org_name: c.name.clone(),
                ty: c.ty.clone(),
                flags: 0,
            })
            .collect())
    }

    /// COM_STATISTICS.
    pub fn statistics(&self) -> String {
        crate::show::status::line(self)
    }

    /// The result columns a statement will have, for COM_STMT_PREPARE. Statements whose columns depend
    /// on their execution answer with none; the execution brings them.
    pub(super) fn result_columns(
        &mut self,
        statement: &Statement,
        params: usize,
    ) -> SqlResult<Vec<ColumnMeta>> {
        match statement {
            Statement::Query(query) if query.into.is_none() => self.query_columns(query, params),
            _ => Ok(Vec::new()),
        }
    }

    fn query_columns(&mut self, query: &Query, params: usize) -> SqlResult<Vec<ColumnMeta>> {
        let clock = self.facts.instance.env.clock.clone();
        let wall = move || clock.wall_micros();
        let in_transaction = self.in_transaction();
        let ctx = eval_ctx(&self.facts, &self.vars, &wall);
        let names = SessionNames {
            facts: &self.facts,
            values: &self.values,
            locks: RefCell::new(&mut self.locks),
            pending: RefCell::default(),
            diagnostics: count_diagnostics(&self.warnings, self.warning_total),
        };
        // Parameters have no type yet; text converts to everything.
        let unknown = SqlType {
            collation: self.vars.collation_connection,
            ..SqlType::new(TypeKind::VarChar)
        };
        let types = vec![unknown; params];
        let mut env = BindEnv::new(&ctx, &self.facts, &names, Params::Types(&types));
        env.describe_only = true;
        let planned = plan_query(&env, query).map(|plan| plan.columns.to_vec());
        // A table that is being changed right now: the execution will wait for it.
        let waits = names.pending.borrow_mut().take().is_some();
        if !in_transaction {
            self.locks.release_transaction();
        }
        if waits { Ok(Vec::new()) } else { planned }
    }
}
