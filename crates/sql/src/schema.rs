//! What sessions, SHOW and INFORMATION_SCHEMA ask of the catalog: names, lists, statistics.
//!
//! Neighbours: `catalog` holds the definitions; the engine knows sizes.
//! **Invariant**: schema names are case-sensitive, but for information_schema and
//! performance_schema, which answer to any case, as in MySQL with lower_case_table_names = 0.

use std::sync::Arc;

use esker_engine::Tree;
use esker_sql_catalog::catalog::{SchemaDef, TableDef, ViewDef};
use esker_types::collation::Collation;
use esker_types::{SqlResult, SqlType, TypeKind, errors};

use crate::infoschema;
use crate::instance::Instance;

/// System schemas that everybody may see.
const OPEN: [&str; 2] = ["information_schema", "performance_schema"];

/// Is this a database that everybody may see?
pub(crate) fn is_open_schema(name: &str) -> bool {
    OPEN.iter().any(|s| s.eq_ignore_ascii_case(name))
}

/// Size of a table, estimated.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TableStats {
    pub(crate) rows: u64,
    pub(crate) data_bytes: u64,
    pub(crate) index_bytes: u64,
}

impl Instance {
    /// The name of an existing database.
    ///
    /// # Errors
    /// 1049.
    pub(crate) fn find_schema(&self, name: &str) -> SqlResult<Arc<str>> {
        if let Some(system) = infoschema::schema(name) {
            return Ok(Arc::from(system.name));
        }
        self.catalog
            .schema(name)
            .map(|s| s.name.clone())
            .ok_or_else(|| errors::unknown_database(name))
    }

    /// Default collation of a database.
    pub(crate) fn schema_collation(&self, name: &str) -> Collation {
        let system = match name {
            "information_schema" => Collation::UTF8MB3_GENERAL_CI,
            _ => Collation::UTF8MB4_0900_AI_CI,
        };
        self.catalog.schema(name).map_or(system, |s| s.collation)
    }

    /// Databases of the catalog, by name.
    pub(crate) fn schemas(&self) -> Vec<Arc<SchemaDef>> {
        self.catalog
            .snapshot()
            .schemas()
            .map(|s| s.def.clone())
            .collect()
    }

    /// Tables of a database, by name.
    pub(crate) fn tables_of(&self, schema: &str) -> Vec<Arc<TableDef>> {
        let snapshot = self.catalog.snapshot();
        snapshot
            .schema(schema)
            .map(|s| s.tables.values().cloned().collect())
            .unwrap_or_default()
    }

    /// Views of a schema by name.
    pub(crate) fn views_of(&self, schema: &str) -> Vec<Arc<ViewDef>> {
        let snapshot = self.catalog.snapshot();
        snapshot
            .schema(schema)
            .map(|s| s.views.values().cloned().collect())
            .unwrap_or_default()
    }

    /// Number of tables.
    pub(crate) fn table_count(&self) -> usize {
        self.catalog.snapshot().tables().count()
    }

    /// Size of a table.
    pub(crate) fn table_stats(&self, table: &TableDef) -> TableStats {
        let (rows, data_bytes) = tree_size(&table.primary().tree);
        let index_bytes = table.indexes[1..]
            .iter()
            .map(|i| tree_size(&i.tree).1)
            .sum();
        TableStats {
            rows,
            data_bytes,
            index_bytes,
        }
    }
}

/// Entries and bytes of a tree, what is in memory included; versions that nobody sees any more are counted
/// until a compaction drops them.
pub(crate) fn tree_size(tree: &Tree) -> (u64, u64) {
    let now = tree.superversion();
    let totals = now.version.totals();
    let memory = now.in_memory();
    let live = totals.entries + memory.entries;
    let dead = totals.deletes + memory.deletes;
    let bytes = now.version.bytes() + memory.bytes as u64;
    // A tombstone counts as an entry and hides another.
    (live.saturating_sub(dead.saturating_mul(2)), bytes)
}

/// The type's word: `int`, `varchar`, …
pub(crate) fn type_word(ty: &SqlType) -> &'static str {
    let binary = ty.collation == Collation::BINARY;
    match &ty.kind {
        TypeKind::Null => "null",
        TypeKind::TinyInt => "tinyint",
        TypeKind::SmallInt => "smallint",
        TypeKind::MediumInt => "mediumint",
        TypeKind::Int => "int",
        TypeKind::BigInt => "bigint",
        TypeKind::Float => "float",
        TypeKind::Double => "double",
        TypeKind::Decimal => "decimal",
        TypeKind::Date => "date",
        TypeKind::Time => "time",
        TypeKind::DateTime => "datetime",
        TypeKind::Timestamp => "timestamp",
        TypeKind::Year => "year",
        TypeKind::Char => {
            if binary {
                "binary"
            } else {
                "char"
            }
        }
        TypeKind::VarChar => {
            if binary {
                "varbinary"
            } else {
                "varchar"
            }
        }
        TypeKind::TinyText => {
            if binary {
                "tinyblob"
            } else {
                "tinytext"
            }
        }
        TypeKind::Text => {
            if binary {
                "blob"
            } else {
                "text"
            }
        }
        TypeKind::MediumText => {
            if binary {
                "mediumblob"
            } else {
                "mediumtext"
            }
        }
        TypeKind::LongText => {
            if binary {
                "longblob"
            } else {
                "longtext"
            }
        }
        TypeKind::Bit => "bit",
        TypeKind::Enum(_) => "enum",
        TypeKind::Set(_) => "set",
        TypeKind::Json => "json",
        TypeKind::Geometry(geometry) => geometry.shape.name(),
    }
}
