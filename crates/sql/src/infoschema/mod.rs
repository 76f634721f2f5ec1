//! INFORMATION_SCHEMA: what it holds and where its rows come from.
//!
//! Neighbours: `bind` resolves its tables, `exec` scans them, `session` answers most SHOW statements from the same row
//! sources. Parts: `tables` (columns of every table) · `objects` (rows about schemas, tables, columns, keys) ·
//! `histogram` (statistics of columns) · `foreign` (foreign keys) · `server` (rows about the server: variables,
//! sessions, character sets) · `locks` (locks held and waited for) · `log` (rows about the log) · `recovery` (progress
//! of the replay of the log) · `storage` (trees, extents, memory, write stalls). **Invariants**: a table's rows have
//! exactly its columns; rows are made for one statement from the catalog snapshot of that moment, and only about what
//! the account may see.

mod foreign;
mod histogram;
mod locks;
mod log;
mod objects;
pub mod recovery;
mod server;
mod storage;
pub mod tables;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use esker_types::{SqlResult, SqlType, TypeKind, Value};

pub(crate) use locks::innodb_status;
pub(crate) use log::status as log_status;
pub(crate) use objects::{column_default, column_extra, column_key, index_rows};
pub(crate) use recovery::status as recovery_status;
pub use tables::{TABLES, TableSpec, find};

use crate::instance::Instance;
use esker_sql_catalog::accounts::{Access, Privileges};
use esker_sql_plan::bind::virt::{Pushed, VirtualColumn, VirtualTable};
use esker_sql_plan::expr::EvalEnv;

/// A column of an INFORMATION_SCHEMA table.
#[derive(Debug, Clone, Copy)]
pub struct ColumnSpec {
    /// Name.
    pub name: &'static str,
    /// Type.
    pub ty: ColumnType,
}

/// Types that INFORMATION_SCHEMA columns have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// VARCHAR(n) in utf8mb3_general_ci, as MySQL's data dictionary has it.
    Text(u32),
    /// LONGTEXT.
    LongText,
    /// JSON.
    Json,
    /// BIGINT UNSIGNED.
    UInt,
    /// BIGINT.
    Int,
    /// DATETIME.
    DateTime,
}

impl ColumnType {
    /// The static type of values.
    pub fn sql_type(self) -> SqlType {
        let collation = esker_types::collation::Collation::UTF8MB3_GENERAL_CI;
        match self {
            Self::Text(n) => SqlType::varchar(n, collation),
            Self::LongText => SqlType {
                collation,
                ..SqlType::new(TypeKind::LongText)
            },
            Self::Json => SqlType::new(TypeKind::Json),
            Self::UInt => SqlType::bigint(true),
            Self::Int => SqlType::bigint(false),
            Self::DateTime => SqlType::new(TypeKind::DateTime),
        }
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
}

impl Viewer {
    /// Has the account this global privilege?
    fn may(&self, privilege: &str) -> bool {
        self.access.global().contains(Privileges::of(&[privilege]))
    }
}

/// An INFORMATION_SCHEMA table as a statement sees it.
pub struct SystemTable {
    spec: &'static TableSpec,
    columns: Vec<VirtualColumn>,
    viewer: Viewer,
}

impl SystemTable {
    /// The table for one session.
    pub fn new(spec: &'static TableSpec, viewer: Viewer) -> Self {
        let column = |c: &ColumnSpec| VirtualColumn {
            name: Arc::from(c.name),
            ty: c.ty.sql_type(),
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
        "information_schema"
    }
    fn name(&self) -> &str {
        self.spec.name
    }
    fn columns(&self) -> &[VirtualColumn] {
        &self.columns
    }
    fn rows(&self, _env: &EvalEnv<'_>, pushed: &[Pushed]) -> SqlResult<Vec<Vec<Value>>> {
        let mut wanted = Wanted::default();
        for p in pushed {
            let text = Some(String::from_utf8_lossy(&p.value).into_owned());
            match self.spec.columns[p.column].name {
                "TABLE_SCHEMA" | "SCHEMA_NAME" | "CONSTRAINT_SCHEMA" => wanted.schema = text,
                "TABLE_NAME" => wanted.table = text,
                _ => (),
            }
        }
        Ok(rows(self.spec, &self.viewer, &wanted))
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

/// The rows of a table.
pub fn rows(spec: &TableSpec, viewer: &Viewer, wanted: &Wanted) -> Vec<Vec<Value>> {
    let rows = objects::rows(spec.name, viewer, wanted)
        .or_else(|| server::rows(spec.name, viewer))
        .or_else(|| locks::rows(spec.name, viewer))
        .or_else(|| log::rows(spec.name, viewer))
        .or_else(|| recovery::rows(spec.name, viewer))
        .or_else(|| storage::rows(spec.name, viewer))
        .unwrap_or_default();
    debug_assert!(
        rows.iter().all(|r| r.len() == spec.columns.len()),
        "{}",
        spec.name
    );
    rows
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
