//! Statements of dumps about tables of system schemas: LOCK TABLES, and those that recreate them.
//!
//! Neighbours: `utility` and `schema` ask before they run such a statement; `infoschema` knows the tables.
//! **Invariants**: the tables of `mysql` and `sys` are computed, so nothing here changes one; a dump of all databases,
//! which recreates them, can be restored. Tables of other names are not made there.

use esker_sql_syntax::ast::{LockTable, ObjectName, Statement};
use esker_types::{Level, SqlResult, errors};

use super::{Session, SessionContext};
use crate::infoschema;

/// The system schemas that dumps contain.
const DUMPED: [&str; 2] = ["mysql", "sys"];

impl SessionContext {
    /// Is it a table of a system schema?
    fn is_system_table(&self, name: &ObjectName) -> bool {
        self.full_name(name).is_ok_and(|(schema, table)| {
            infoschema::schema(schema).is_some_and(|s| s.table(table).is_some())
        })
    }

    /// The tables of a LOCK TABLES that there is something to lock of: those of system schemas are computed, and
    /// temporary ones are nobody else's.
    ///
    /// # Errors
    /// 1044 for INFORMATION_SCHEMA.
    pub(super) fn lockable(&self, tables: &[LockTable]) -> SqlResult<Vec<LockTable>> {
        let mut stored = Vec::new();
        for table in tables {
            if let Ok((schema, _)) = self.full_name(&table.name)
                && schema.eq_ignore_ascii_case("information_schema")
            {
                let account = format!("'{}'@'{}'", self.access.user, self.access.host);
                return Err(errors::database_denied(account, "information_schema"));
            }
            if !self.is_temporary(&table.name) && !self.is_system_table(&table.name) {
                stored.push(table.clone());
            }
        }
        Ok(stored)
    }
}

impl Session {
    /// Answers what dumps say of tables and views of `mysql` and `sys` with notes, and nothing else. `false`: the
    /// statement says something else.
    pub(super) fn spare_system_tables(&mut self, statement: &Statement) -> bool {
        let (names, code) = match statement {
            Statement::CreateTable(create) if !create.temporary => {
                (std::slice::from_ref(&create.name), 1050)
            }
            Statement::CreateView(create) if !create.alter => {
                (std::slice::from_ref(&create.name), 1050)
            }
            Statement::DropTable(drop) if drop.if_exists && !drop.temporary => {
                (drop.names.as_slice(), 1051)
            }
            Statement::DropView(drop) if drop.if_exists => (drop.names.as_slice(), 1051),
            _ => return false,
        };
        let is_spared = |name: &ObjectName| {
            let schema = self.context.full_name(name).map(|(schema, _)| schema);
            schema.is_ok_and(|schema| DUMPED.contains(&schema))
                && self.context.is_system_table(name)
        };
        if names.is_empty() || !names.iter().all(is_spared) {
            return false;
        }
        for name in names {
            let table = &name.name.text;
            let text = match code {
                1050 => errors::table_exists(table).message,
                _ => errors::unknown_table(table).message,
            };
            self.warn(Level::Note, code, text);
        }
        true
    }
}
