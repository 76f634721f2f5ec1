//! ANALYZE, CHECK, CHECKSUM, OPTIMIZE and REPAIR TABLE, and ALTER TABLE … ANALYZE PARTITION and its kin.
//!
//! Neighbours: `utility` hands them over; `histogram` makes histograms, `checksum` checksums; `check_table` checks a
//! table; `system_tables` answers for those of system schemas.
//!
//! **Invariant**: a table that cannot be worked on is a line of the answer, not an error of the statement; a
//! missing right is an error.

use esker_sql_catalog::catalog::{StorageEngine, TableDef};
use esker_sql_catalog::exec_error::{ExecError, engine_error};
use esker_sql_plan::plan::tree_entries;
use esker_sql_syntax::ast::{
    Ident, Maintain, MaintainKind, ObjectName, PartitionNames, Query, QueryBody,
};
use esker_types::{SqlError, SqlResult, errors};

use super::check_table::Finding;
use super::rows::RowSource;
use super::run::Done;
use super::{Session, SessionContext};
use crate::ddl::lock_tables::{admit_beside_backup, announce_change};
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
        self.context.log_alone(logged)?;
        let rows = table.rows.into_iter();
        Ok(Done::Rows(Box::new(RowSource::Table(table.columns, rows))))
    }

    /// ANALYZE, CHECK, OPTIMIZE, REPAIR.
    fn look_after(&mut self, m: &Maintain) -> Result<show::Table, ExecError> {
        let word = word(m.kind);
        for name in m.tables.iter().filter(|n| !self.context.is_temporary(n)) {
            self.context.admit_maintenance(m.kind, name)?;
            match m.kind {
                MaintainKind::Check => {
                    let (schema, table) = self.context.full_name(name)?;
                    self.context.require_description(schema, table)?;
                }
                _ => self.context.require_named(&["SELECT", "INSERT"], name)?,
            }
        }
        self.commit_transaction()?;
        let mut rows = Vec::new();
        for name in &m.tables {
            let (shown, found) = match self.context.maintained_system_table(m, name)? {
                Some(answer) => answer,
                None => (self.context.shown(name), self.maintained(m, name)?),
            };
            for (kind, text) in found {
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
    fn maintained(&mut self, m: &Maintain, name: &ObjectName) -> Result<Vec<Finding>, ExecError> {
        let corrupt = |e: SqlError| Ok(vec![("Error", e.message), corrupt()]);
        // What is said of a table that is not there is logged, too.
        if !self.context.is_temporary(name) {
            match self.announce_maintenance(m.kind) {
                Err(ExecError::Sql(e)) if self.locks.has_global() => return corrupt(e),
                announced => announced?,
            }
        }
        if self.context.find_view(name)?.is_some() {
            if m.kind != MaintainKind::Check || m.partitions.is_some() {
                let (schema, view) = self.context.full_name(name)?;
                return Ok(failed(errors::wrong_object(schema, view, "BASE TABLE")));
            }
            return match self.check_view(name) {
                Ok(()) => Ok(vec![ok()]),
                Err(e) => corrupt(e),
            };
        }
        let table = match self.context.find_table(name) {
            Ok(table) => table,
            Err(e) if e.code == NO_SCHEMA => return corrupt(e),
            Err(e) => return Ok(failed(e)),
        };
        let is_partitioned = m.partitions.is_some();
        if let Some(names) = &m.partitions
            && let Err(e) = check_partitions(&table, names, &self.context.shown(name))
        {
            return Ok(failed(e));
        }
        match m.kind {
            // Every row is in the partition that it belongs to.
            MaintainKind::Repair if is_partitioned => Ok(vec![ok()]),
            MaintainKind::Repair => Ok(unsupported(m.kind)),
            MaintainKind::Optimize if table.engine == StorageEngine::Memory => {
                Ok(unsupported(m.kind))
            }
            MaintainKind::Optimize => {
                self.optimized(name)?;
                let note = "Table does not support optimize on partitions. All partitions will be rebuilt and analyzed.";
                Ok(match is_partitioned {
                    true => vec![("note", note.to_owned()), ok()],
                    false => recreated(),
                })
            }
            // What the statement learns is not kept.
            MaintainKind::Analyze if self.is_read_only_session() => Ok(unkept()),
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
                    false => found.push(self::corrupt()),
                }
                Ok(found)
            }
        }
    }

    /// Waits while another session keeps tables as they are; what only looks at tables waits for LOCK INSTANCE FOR
    /// BACKUP alone, as in MySQL.
    ///
    /// # Errors
    /// 1223 while the session holds the global read lock; 1290 for OPTIMIZE if the server is read-only.
    fn announce_maintenance(&mut self, kind: MaintainKind) -> Result<(), ExecError> {
        let catalog = self.context.instance.catalog.clone();
        match kind {
            MaintainKind::Optimize => self.announce_change(),
            MaintainKind::Repair => announce_change(&catalog, &mut self.locks),
            _ => admit_beside_backup(&catalog, &mut self.locks),
        }
    }

    /// Can the view of this name be read? Nothing if it is none.
    ///
    /// # Errors
    /// 1356: what it names is gone.
    pub(crate) fn check_view(&mut self, name: &ObjectName) -> SqlResult<()> {
        const INVALID_VIEW: u16 = 1356;
        if self.context.find_view(name)?.is_none() {
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
        let table = self.context.find_table(name)?;
        let engine = &self.context.instance.engine;
        table.runtime.resample(engine, &table, tree_entries);
        // A temporary table has none.
        let renewed = match table.temporary {
            true => Ok(()),
            false => self.context.refresh_histograms(&table),
        };
        self.end_statement(renewed.is_ok())?;
        Ok(renewed?)
    }

    /// OPTIMIZE TABLE brings everything to the last level, gives free space back, and takes samples anew.
    fn optimized(&mut self, name: &ObjectName) -> Result<(), ExecError> {
        // Planning takes the lock: the table is not dropped meanwhile.
        self.plan(&whole_table(name.clone()), &[])?;
        let table = self.context.find_table(name)?;
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
        let table = self.context.find_table(name)?;
        let findings = self.context.check_table(&table, quick);
        self.end_statement(findings.is_ok())?;
        Ok(findings?)
    }
}

impl SessionContext {
    /// The name as the answer shows it.
    pub(super) fn shown(&self, name: &ObjectName) -> String {
        match (&name.schema, &self.database) {
            (Some(s), _) => format!("{s}.{}", name.name),
            (None, Some(d)) => format!("{d}.{}", name.name),
            (None, None) => name.name.to_string(),
        }
    }
}

/// The statement's word in answers.
fn word(kind: MaintainKind) -> &'static str {
    match kind {
        MaintainKind::Analyze => "analyze",
        MaintainKind::Optimize => "optimize",
        MaintainKind::Repair => "repair",
        MaintainKind::Check | MaintainKind::Checksum => "check",
    }
}

/// All is well.
pub(super) fn ok() -> Finding {
    ("status", "OK".to_owned())
}

fn corrupt() -> Finding {
    ("error", "Corrupt".to_owned())
}

/// The table cannot be worked on.
pub(super) fn failed(e: SqlError) -> Vec<Finding> {
    vec![
        ("Error", e.message),
        ("status", "Operation failed".to_owned()),
    ]
}

/// ANALYZE in a session whose transactions are READ ONLY.
fn unkept() -> Vec<Finding> {
    vec![
        ("Error", super::read_only::read_only_transaction().message),
        (
            "Error",
            "Unable to store dynamic table statistics into data dictionary.".to_owned(),
        ),
        (
            "status",
            "Unable to write table statistics to DD tables".to_owned(),
        ),
    ]
}

/// Nothing is done for tables of this kind.
pub(super) fn unsupported(kind: MaintainKind) -> Vec<Finding> {
    let word = word(kind);
    let text = format!("The storage engine for the table doesn't support {word}");
    vec![("note", text)]
}

/// OPTIMIZE of a whole table.
pub(super) fn recreated() -> Vec<Finding> {
    let note = "Table does not support optimize, doing recreate + analyze instead";
    vec![("note", note.to_owned()), ok()]
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
