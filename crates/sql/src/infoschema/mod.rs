//! The system schemas: what they hold and where their rows come from.
//!
//! Neighbours: `bind` resolves their tables, `exec` scans them, `session` answers most SHOW statements from the same
//! row sources. `system_schemas` declares the tables. Parts: `source` (rows to columns) · of INFORMATION_SCHEMA:
//! `objects` (rows about schemas, tables, keys), `columns`, `view_columns` (what those of views stand for),
//! `view_usage` (what views name), `system_objects` (the same about the system schemas), `partitions`,
//! `partition_rows` (their sizes), `histogram` (statistics of columns), `foreign` (foreign keys), `server` (rows about
//! the server: variables, sessions, character sets), `roles`, `routines` (stored routines), `events`, `triggers`,
//! `dictionary` (InnoDB's dictionary, keywords, extension tables), `tablespaces`, `locks` (locks held and waited for),
//! `deadlocks` (the last ones), `transactions` (open ones), `metrics` (INNODB_METRICS), `log` (rows about the log),
//! `recovery` (progress of the replay of the log), `storage` (trees, extents, memory, write stalls), `disk` (what files
//! take), `folders` (of the data directory), `profiling` (stages of a session's statements), `traces` (what the planner
//! considered) · `mysql` (accounts, time zones) · `performance` (PERFORMANCE_SCHEMA) · `sys` (its views).
//! **Invariants**: a table's rows have exactly its columns; rows are made for one statement from the catalog snapshot
//! of that moment, and only about what the account may see.

mod columns;
mod deadlocks;
mod dictionary;
mod disk;
mod events;
mod folders;
mod foreign;
mod histogram;
mod locks;
mod log;
pub(crate) mod metrics;
mod mysql;
mod objects;
mod partition_rows;
mod partitions;
mod performance;
mod profiling;
pub mod recovery;
mod roles;
pub(crate) mod routines;
mod server;
mod source;
mod storage;
pub(crate) mod sys;
mod system_objects;
mod tablespaces;
#[cfg(test)]
mod tests;
mod traces;
mod transactions;
mod triggers;
mod view_columns;
mod view_usage;

use std::sync::Arc;

use esker_types::ctx::SessionInfo;
use esker_types::{SqlResult, Value, errors};

pub(crate) use columns::{column_default, column_extra, column_key};
pub(crate) use deadlocks::{Deadlocks, latest_deadlock};
pub(crate) use locks::transactions_text;
pub(crate) use log::status as log_status;
use performance::LOG_STATUS;
pub use performance::measured_files;
pub(crate) use performance::{instruments_at_start, is_collected, is_open_table};
pub(crate) use recovery::status as recovery_status;
pub(crate) use source::{SessionState, fit_value, truncate, wants_session};
pub(crate) use system_objects::create_table;
pub(crate) use triggers::trigger_created;
pub(crate) use view_columns::{ShownColumn, of_view as shown_columns};

use crate::instance::Instance;
pub use crate::system_schemas::{ColumnSpec, KeySpec, SpecKind, TableSpec};
pub(crate) use crate::system_schemas::{SCHEMAS, SystemSchema, schema, unknown_table};
use esker_sql_catalog::accounts::{Access, Privileges};
use esker_sql_catalog::catalog::TableDef;
use esker_sql_plan::bind::virt::{Pushed, VirtualColumn, VirtualTable};
use esker_sql_plan::expr::EvalEnv;

/// Rows of STATISTICS about a table of a system schema.
pub(crate) fn system_index_rows(spec: &'static TableSpec) -> Vec<Vec<Value>> {
    of_statistics(system_objects::index_rows(spec))
}

/// Rows of STATISTICS about one table, which may be a temporary one.
pub(crate) fn index_rows(viewer: &Viewer, table: &TableDef) -> Vec<Vec<Value>> {
    of_statistics(objects::index_rows(viewer, table))
}

fn of_statistics(mut rows: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    if let Some(statistics) = find("STATISTICS") {
        rows.iter_mut().for_each(|row| source::fit(row, statistics));
    }
    rows
}

/// A moment as the server's own zone has it.
pub(crate) fn shown_time(micros: i64) -> String {
    let moment = jiff::Timestamp::from_microsecond(micros).unwrap_or_default();
    let local = moment.to_zoned(jiff::tz::TimeZone::system());
    local.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// A table of INFORMATION_SCHEMA; names are case-insensitive.
pub fn find(name: &str) -> Option<&'static TableSpec> {
    schema("information_schema").and_then(|s| s.table(name))
}

/// A table of INFORMATION_SCHEMA that SHOW has its columns from.
///
/// # Errors
/// 1049: there is none of the name.
pub(crate) fn shown(name: &str) -> SqlResult<&'static TableSpec> {
    find(name).ok_or_else(|| errors::unknown_database("information_schema"))
}

/// Tables of INFORMATION_SCHEMA that are views of MySQL's on what is for administrators: naming them wants PROCESS.
const FOR_ADMINISTRATORS: [&str; 6] = [
    "FILES",
    "INNODB_DATAFILES",
    "INNODB_FIELDS",
    "INNODB_FOREIGN",
    "INNODB_FOREIGN_COLS",
    "INNODB_TABLESPACES_BRIEF",
];

/// Is the table named by those only who have the PROCESS privilege?
pub(crate) fn opens_with_process(spec: &TableSpec) -> bool {
    spec.schema == "information_schema" && FOR_ADMINISTRATORS.contains(&spec.name)
}

/// The privilege that whoever reads the rows of the table must have.
fn reading_right(spec: &TableSpec) -> Option<&'static str> {
    let of_innodb = spec.name.starts_with("INNODB_") && spec.name != "INNODB_FT_DEFAULT_STOPWORD";
    match spec.schema {
        "information_schema" if of_innodb => Some("PROCESS"),
        "performance_schema" if spec.name == LOG_STATUS => Some("BACKUP_ADMIN"),
        _ => None,
    }
}

/// Who looks: decides what is shown.
#[derive(Clone)]
pub struct Viewer {
    /// The database.
    pub instance: Arc<Instance>,
    /// What the account may do.
    pub access: Arc<Access>,
    /// User name as the client gave it.
    pub user: String,
    /// Id of its connection.
    pub connection: u64,
    /// Generated invisible primary keys are shown.
    pub(crate) generated_keys: bool,
    /// What tables about the session itself show; None for all others.
    pub(crate) session: Option<Arc<SessionState>>,
}

impl Viewer {
    /// Has the account this global privilege?
    fn may(&self, privilege: &str) -> bool {
        self.access.global().contains(Privileges::of(&[privilege]))
    }

    /// May it see that there is a database?
    fn sees_schema(&self, name: &str) -> bool {
        self.may("SHOW DATABASES") || self.access.sees_schema(name)
    }

    /// May it see anything of a system schema's table?
    pub(crate) fn sees(&self, spec: &TableSpec) -> bool {
        spec.schema == "information_schema"
            || is_open_table(spec)
            || self.access.sees_table(spec.schema, spec.name)
    }
}

/// A table of a system schema as a statement sees it.
pub struct SystemTable {
    spec: &'static TableSpec,
    columns: Vec<VirtualColumn>,
    viewer: Viewer,
}

impl SystemTable {
    /// The table for one session.
    pub fn new(spec: &'static TableSpec, viewer: Viewer) -> Self {
        let column = |c: &ColumnSpec| VirtualColumn {
            name: c.name.clone(),
            ty: c.ty.clone(),
        };
        Self {
            spec,
            columns: spec.columns.iter().map(column).collect(),
            viewer,
        }
    }
}

impl VirtualTable for SystemTable {
    fn schema(&self) -> &str {
        self.spec.schema
    }
    fn name(&self) -> &str {
        self.spec.name
    }
    fn is_view(&self) -> bool {
        self.spec.is_view()
    }
    fn waits(&self) -> bool {
        self.spec.schema == "performance_schema" && self.spec.name == LOG_STATUS
    }
    fn columns(&self) -> &[VirtualColumn] {
        &self.columns
    }
    fn rows(&self, env: &EvalEnv<'_>, pushed: &[Pushed]) -> SqlResult<Vec<Vec<Value>>> {
        let right = reading_right(self.spec);
        if let Some(right) = right.filter(|right| !self.viewer.may(right)) {
            return Err(errors::privilege_needed(right));
        }
        if self.waits() {
            self.viewer.instance.await_binlog();
        }
        let mut wanted = Wanted::default();
        for p in pushed {
            let text = Some(String::from_utf8_lossy(&p.value).into_owned());
            match &*self.spec.columns[p.column].name {
                "TABLE_SCHEMA"
                | "SCHEMA_NAME"
                | "CONSTRAINT_SCHEMA"
                | "TRIGGER_SCHEMA"
                | "EVENT_OBJECT_SCHEMA" => wanted.schema = text,
                "TABLE_NAME" | "EVENT_OBJECT_TABLE" => wanted.table = text,
                _ => (),
            }
        }
        rows(self.spec, &self.viewer, &wanted, env.ctx.session)
    }
}

/// Equality conditions on schema and table name, pushed down so that one table's metadata does not
/// cost a walk over all.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// `TABLE_SCHEMA = x` (or `SCHEMA_NAME`).
    pub schema: Option<String>,
    /// `TABLE_NAME = …`.
    pub table: Option<String>,
}

impl Wanted {
    /// Could an object of this schema be wanted?
    fn schema_matches(&self, name: &str) -> bool {
        self.schema
            .as_deref()
            .is_none_or(|s| s.eq_ignore_ascii_case(name))
    }

    /// Could this table be wanted?
    fn table_matches(&self, name: &str) -> bool {
        self.table
            .as_deref()
            .is_none_or(|t| t.eq_ignore_ascii_case(name))
    }
}

/// The rows of a table; none when nothing fills it.
///
/// # Errors
/// The statement of this session is killed or out of time.
pub fn rows(
    spec: &TableSpec,
    viewer: &Viewer,
    wanted: &Wanted,
    session: &dyn SessionInfo,
) -> SqlResult<Vec<Vec<Value>>> {
    let mut rows = match source::find(spec) {
        Some(source) => source.rows(spec, viewer),
        None => of_information_schema(spec, viewer, wanted, session)?,
    };
    for row in &mut rows {
        assert_eq!(row.len(), spec.columns.len(), "{}", spec.name);
        source::fit(row, spec);
    }
    Ok(rows)
}

fn of_information_schema(
    spec: &TableSpec,
    viewer: &Viewer,
    wanted: &Wanted,
    session: &dyn SessionInfo,
) -> SqlResult<Vec<Vec<Value>>> {
    match (spec.schema, spec.name) {
        ("information_schema", "PARTITIONS") => partitions::rows(viewer, wanted, session),
        ("information_schema", name) => Ok(rows_at_once(name, viewer, wanted)),
        _ => Ok(Vec::new()),
    }
}

/// The rows of a table that are made of what is in memory.
fn rows_at_once(name: &str, viewer: &Viewer, wanted: &Wanted) -> Vec<Vec<Value>> {
    objects::rows(name, viewer, wanted)
        .or_else(|| server::rows(name, viewer))
        .or_else(|| locks::rows(name, viewer))
        .or_else(|| (name == "INNODB_TRX").then(|| transactions::rows(viewer)))
        .or_else(|| log::rows(name, viewer))
        .or_else(|| recovery::rows(name, viewer))
        .or_else(|| storage::rows(name, viewer))
        .unwrap_or_default()
}

fn text(s: impl AsRef<str>) -> Value {
    Value::str(s.as_ref())
}

fn optional(s: Option<impl AsRef<str>>) -> Value {
    s.map_or(Value::Null, text)
}

fn yes_no(b: bool) -> Value {
    text(if b { "YES" } else { "NO" })
}
