//! Statements of dumps and of mysqlcheck about tables of system schemas: LOCK TABLES, those that recreate them, CHECK
//! TABLE and its kin.
//!
//! Neighbours: `utility`, `schema` and `maintain` ask before they run such a statement; `infoschema` knows the tables.
//! **Invariants**: the tables of `mysql` and `sys` are computed, so nothing here changes one; a dump of all databases,
//! which recreates them, can be restored. Tables of other names are not made there.

use esker_sql_syntax::ast::{LockTable, Maintain, MaintainKind, ObjectName, Statement};
use esker_types::{Level, SqlResult, errors};

use super::check_table::Finding;
use super::histogram::VIEW_HISTOGRAM;
use super::{Session, SessionContext, maintain};
use crate::infoschema::{self, SpecKind, TableSpec};

/// The system schemas that dumps contain.
const DUMPED: [&str; 2] = ["mysql", "sys"];

impl SessionContext {
    /// The table of a system schema that has the name; None for names in other schemas.
    ///
    /// # Errors
    /// 1046; 1109, 1146 and 3554: the schema has no such table.
    pub(super) fn system_table(&self, name: &ObjectName) -> SqlResult<Option<&'static TableSpec>> {
        let (schema, table) = self.full_name(name)?;
        let Some(schema) = infoschema::schema(schema) else {
            return Ok(None);
        };
        let absent = || infoschema::unknown_table(schema.name, table);
        schema.table(table).map(Some).ok_or_else(absent)
    }

    /// Is ANALYZE, CHECK, OPTIMIZE or REPAIR of the table an error of the whole statement, because it is in a system
    /// schema?
    ///
    /// # Errors
    /// 1044, 1109, 1142, 3554.
    pub(super) fn admit_maintenance(&self, kind: MaintainKind, name: &ObjectName) -> SqlResult<()> {
        const NO_SUCH_TABLE: u16 = 1146;
        let checks = kind == MaintainKind::Check;
        let (schema, _) = self.full_name(name)?;
        if schema == "information_schema" && !checks {
            return Err(self.no_schema(&self.access.host, schema));
        }
        match self.system_table(name) {
            Ok(Some(spec)) if spec.schema == "performance_schema" && !checks => {
                Err(self.denied("SELECT, INSERT", spec.name))
            }
            Err(e) if e.code != NO_SUCH_TABLE => Err(e),
            _ => Ok(()),
        }
    }

    /// What ANALYZE, CHECK, OPTIMIZE and REPAIR answer of a table of a system schema, whose rows are computed: what
    /// MySQL says where all is well. The name is as the answer shows it. None: it is in none.
    pub(super) fn maintained_system_table(
        &self,
        m: &Maintain,
        name: &ObjectName,
    ) -> SqlResult<Option<(String, Vec<Finding>)>> {
        let (schema, table) = self.full_name(name)?;
        let spec = match self.system_table(name) {
            Ok(Some(spec)) => spec,
            Ok(None) => return Ok(None),
            Err(e) => return Ok(Some((format!("{schema}.{table}"), maintain::failed(e)))),
        };
        let shown = format!("{}.{}", spec.schema, spec.name);
        let found = match m.kind {
            MaintainKind::Check | MaintainKind::Checksum => match spec.schema {
                "mysql" | "sys"
                    if m.options.iter().any(|o| &**o == "FOR UPGRADE")
                        && spec.kind == SpecKind::Table =>
                {
                    vec![("status", "Table is already up to date".to_owned())]
                }
                "mysql" | "sys" => vec![maintain::ok()],
                _ if spec.is_view() => vec![maintain::ok()],
                _ => maintain::unsupported(m.kind),
            },
            _ if spec.kind != SpecKind::Table => {
                maintain::failed(errors::wrong_object(spec.schema, spec.name, "BASE TABLE"))
            }
            MaintainKind::Repair if spec.engine == "CSV" => vec![maintain::ok()],
            MaintainKind::Optimize | MaintainKind::Analyze if spec.engine == "CSV" => {
                maintain::unsupported(m.kind)
            }
            MaintainKind::Analyze => vec![maintain::ok()],
            MaintainKind::Optimize => maintain::recreated(),
            MaintainKind::Repair => maintain::unsupported(m.kind),
        };
        Ok(Some((shown, found)))
    }

    /// Why there can be no histograms of a table of a system schema; None: it is in none.
    pub(super) fn no_system_histogram(&self, name: &ObjectName) -> SqlResult<Option<String>> {
        Ok(match self.system_table(name) {
            Ok(None) => None,
            Ok(Some(spec)) if spec.kind != SpecKind::Table => Some(VIEW_HISTOGRAM.to_owned()),
            Ok(Some(_)) => {
                Some("Histograms are not supported on the MySQL system schema.".to_owned())
            }
            Err(e) => Some(e.message),
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
            if !self.is_temporary(&table.name) && self.system_table(&table.name)?.is_none() {
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
                && self.context.system_table(name).is_ok_and(|t| t.is_some())
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
