//! ANALYZE, CHECK, CHECKSUM, OPTIMIZE and REPAIR TABLE, and ALTER TABLE … ANALYZE PARTITION and its kin.
//!
//! Neighbours: `utility` hands them over; `histogram` makes histograms, `checksum` checksums; `check_table` checks a
//! table. **Invariant**: a table that cannot be worked on is a line of the answer, not an error of the statement; a
//! missing right is an error.

use esker_sql_catalog::catalog::{StorageEngine, TableDef};
use esker_sql_catalog::exec_error::{ExecError, engine_error};
use esker_sql_plan::plan::tree_entries;
use esker_sql_syntax::ast::{
    Ident, Maintain, MaintainKind, ObjectName, PartitionNames, Query, QueryBody,
};
use esker_types::{SqlResult, errors};

use super::Session;
use super::check_table::Finding;
use super::run::{Done, RowSource};
use crate::show;

/// 1049.
const NO_SCHEMA: u16 = 1049;

impl Session {
    pub(super) fn maintain(&mut self, m: &Maintain) -> Result<Done, ExecError> {
        let table = match m.kind {
            MaintainKind::Checksum => self.checksums(m)?,
            _ => match &m.histogram {
                Some(asked) => self.histograms(m, asked)?,
                None => self.look_after(m)?,
            },
        };
        let logged = self.logged_maintenance(m);
        self.log_alone(logged)?;
        let rows = table.rows.into_iter();
        Ok(Done::Rows(Box::new(RowSource::Table(table.columns, rows))))
    }

    /// The name as the answer shows it.
    pub(super) fn shown(&self, name: &ObjectName) -> String {
        match (&name.schema, &self.context.database) {
            (Some(s), _) => format!("{s}.{}", name.name),
            (None, Some(d)) => format!("{d}.{}", name.name),
            (None, None) => name.name.to_string(),
        }
    }

    /// ANALYZE, CHECK, OPTIMIZE, REPAIR.
    fn look_after(&mut self, m: &Maintain) -> Result<show::Table, ExecError> {
        let (word, privileges): (_, &[&str]) = match m.kind {
            MaintainKind::Analyze => ("analyze", &["SELECT", "INSERT"]),
            MaintainKind::Optimize => ("optimize", &["SELECT", "INSERT"]),
            MaintainKind::Repair => ("repair", &["SELECT", "INSERT"]),
            MaintainKind::Check | MaintainKind::Checksum => ("check", &["SELECT"]),
        };
        for name in m.tables.iter().filter(|n| !self.context.is_temporary(n)) {
            match m.kind {
                MaintainKind::Check => {
                    let (schema, table) = self.context.full_name(name)?;
                    self.context.require_description(schema, table)?;
                }
                _ => self.context.require_named(privileges, name)?,
            }
        }
        self.commit_transaction()?;
        let mut rows = Vec::new();
        for name in &m.tables {
            let shown = self.shown(name);
            for (kind, text) in self.maintained(m, name, word)? {
                rows.push(vec![
                    show::t(&shown),
                    show::t(word),
                    show::t(kind),
                    show::t(&text),
                ]);
            }
        }
        let names = ["Table", "Op", "Msg_type", "Msg_text"];
        Ok(show::Table::texts(&names, rows))
    }

    /// Does it for one table: types and texts of the messages.
    fn maintained(
        &mut self,
        m: &Maintain,
        name: &ObjectName,
        word: &str,
    ) -> Result<Vec<Finding>, ExecError> {
        const FAILED: (&str, &str) = ("status", "Operation failed");
        const CORRUPT: (&str, &str) = ("error", "Corrupt");
        let ends = |first: String, (kind, text): (&'static str, &str)| {
            Ok(vec![("Error", first), (kind, text.to_owned())])
        };
        let ok = || ("status", "OK".to_owned());
        if self.find_view(name)?.is_some() {
            if m.kind != MaintainKind::Check || m.partitions.is_some() {
                let (schema, view) = self.context.full_name(name)?;
                let e = errors::wrong_object(schema, view, "BASE TABLE");
                return ends(e.message, FAILED);
            }
            return match self.check_view(name) {
                Ok(()) => Ok(vec![ok()]),
                Err(e) => ends(e.message, CORRUPT),
            };
        }
        let table = match self.find_table(name) {
            Ok(table) => table,
            Err(e) if e.code == NO_SCHEMA => return ends(e.message, CORRUPT),
            Err(e) => return ends(e.message, FAILED),
        };
        let is_partitioned = m.partitions.is_some();
        if let Some(names) = &m.partitions
            && let Err(e) = check_partitions(&table, names, &self.shown(name))
        {
            return ends(e.message, FAILED);
        }
        let unsupported = || {
            let text = format!("The storage engine for the table doesn't support {word}");
            Ok(vec![("note", text)])
        };
        match m.kind {
            // Every row is in the partition that it belongs to.
            MaintainKind::Repair if is_partitioned => Ok(vec![ok()]),
            MaintainKind::Repair => unsupported(),
            MaintainKind::Optimize if table.engine == StorageEngine::Memory => unsupported(),
            MaintainKind::Optimize => {
                self.optimized(name)?;
                let note = match is_partitioned {
                    true => {
                        "Table does not support optimize on partitions. All partitions will be rebuilt and analyzed."
                    }
                    false => "Table does not support optimize, doing recreate + analyze instead",
                };
                Ok(vec![("note", note.to_owned()), ok()])
            }
            MaintainKind::Analyze => {
                self.analyzed(name)?;
                Ok(vec![ok()])
            }
            MaintainKind::Check | MaintainKind::Checksum => {
                let has = |option: &str| m.options.iter().any(|o| &**o == option);
                // FOR UPGRADE asks for the format only, of which there is one.
                let mut found = match has("FOR UPGRADE") {
                    true => Vec::new(),
                    false => self.checked(name, has("QUICK"))?,
                };
                match found.is_empty() {
                    true => found.push(ok()),
                    false => found.push((CORRUPT.0, CORRUPT.1.to_owned())),
                }
                Ok(found)
            }
        }
    }

    /// Can the view of this name be read? Nothing if it is none.
    ///
    /// # Errors
    /// 1356: what it names is gone.
    pub(crate) fn check_view(&mut self, name: &ObjectName) -> SqlResult<()> {
        const INVALID_VIEW: u16 = 1356;
        if self.find_view(name)?.is_none() {
            return Ok(());
        }
        match self.plan(&whole_table(name.clone()), &[]) {
            Err(ExecError::Sql(e)) if e.code == INVALID_VIEW => Err(e),
            _ => Ok(()),
        }
    }

    /// ANALYZE TABLE takes samples and automatic histograms anew.
    fn analyzed(&mut self, name: &ObjectName) -> Result<(), ExecError> {
        // Planning takes the lock.
        self.plan(&whole_table(name.clone()), &[])?;
        let table = self.find_table(name)?;
        let engine = &self.context.instance.engine;
        table.runtime.resample(engine, &table, tree_entries);
        // A temporary table has none.
        let renewed = match table.temporary {
            true => Ok(()),
            false => self.refresh_histograms(&table),
        };
        self.end_statement(renewed.is_ok())?;
        Ok(renewed?)
    }

    /// OPTIMIZE TABLE brings everything to the last level, gives free space back, and takes samples anew.
    fn optimized(&mut self, name: &ObjectName) -> Result<(), ExecError> {
        // Planning takes the lock: the table is not dropped meanwhile.
        self.plan(&whole_table(name.clone()), &[])?;
        let table = self.find_table(name)?;
        let engine = &self.context.instance.engine;
        let mut trees = table.indexes.iter();
        let sunk = trees.try_for_each(|index| engine.sink(&index.tree));
        self.end_statement(sunk.is_ok())?;
        sunk.map_err(|e| engine_error(&e))?;
        self.analyzed(name)
    }

    /// What CHECK TABLE finds, with the table's metadata lock held meanwhile.
    fn checked(&mut self, name: &ObjectName, quick: bool) -> Result<Vec<Finding>, ExecError> {
        // Planning takes the lock.
        self.plan(&whole_table(name.clone()), &[])?;
        let table = self.find_table(name)?;
        let findings = self.check_table(&table, quick);
        self.end_statement(findings.is_ok())?;
        Ok(findings?)
    }
}

/// 1505; 1507 for partitions that the table, which is `shown` so, does not have, or that are named twice.
fn check_partitions(table: &TableDef, names: &PartitionNames, shown: &str) -> SqlResult<()> {
    let partitioning = table.partitioning.as_ref();
    let partitioning = partitioning.ok_or_else(errors::management_without_partitions)?;
    let PartitionNames::Listed(names) = names else {
        return Ok(());
    };
    let is_right = |(nth, name): (usize, &Ident)| {
        let is_new = names[..nth].iter().all(|n| !n.is(&name.text));
        is_new && partitioning.find(&name.text).is_some()
    };
    match names.iter().enumerate().all(is_right) {
        true => Ok(()),
        false => Err(errors::partitions_not_found(shown)),
    }
}

/// `TABLE name`.
pub(super) fn whole_table(name: ObjectName) -> Query {
    Query {
        with: None,
        body: QueryBody::Table(name),
        order_by: Vec::new(),
        limit: None,
        locking: Vec::new(),
        into: None,
    }
}
