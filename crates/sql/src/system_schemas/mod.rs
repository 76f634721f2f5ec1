//! The tables of the system schemas: names, columns with types and defaults, indexes.
//!
//! Neighbours: `infoschema` finds them here and has the rows from its sources; SHOW prints them. The files beside this
//! one are MySQL's tables as `tools/system-tables.py` wrote them down; `own` has those that only Esker has. `types`
//! reads the type of a column, `absent` has names that no statement reaches.
//! **Invariants**: the tables of a schema are sorted by name, so that a look-up is a binary search; the files are part
//! of the program and whole (a test reads all of them).

mod absent;
mod own;
mod types;

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use esker_types::SqlType;
use esker_types::collation::Collation;

pub(crate) use absent::{rejects_changes, unknown_table};

/// A system schema.
pub(crate) struct SystemSchema {
    /// Name.
    pub(crate) name: &'static str,
    /// Names of it and of its tables are the same in any case.
    any_case: bool,
    tables: LazyLock<Vec<TableSpec>>,
}

impl SystemSchema {
    /// Its tables and views, sorted by name.
    pub(crate) fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    fn is_called(&self, name: &str) -> bool {
        match self.any_case {
            true => self.name.eq_ignore_ascii_case(name),
            false => self.name == name,
        }
    }

    /// A table by name.
    pub(crate) fn table(&self, name: &str) -> Option<&TableSpec> {
        if self.any_case {
            return self
                .tables
                .iter()
                .find(|t| t.name.eq_ignore_ascii_case(name));
        }
        let place = self.tables.binary_search_by(|t| t.name.cmp(name));
        place.ok().map(|i| &self.tables[i])
    }
}

/// What a table of a system schema is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecKind {
    /// BASE TABLE.
    Table,
    /// SYSTEM VIEW: a table of INFORMATION_SCHEMA.
    SystemView,
    /// VIEW.
    View,
}

impl SpecKind {
    /// `TABLE_TYPE`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Table => "BASE TABLE",
            Self::SystemView => "SYSTEM VIEW",
            Self::View => "VIEW",
        }
    }
}

/// A table of a system schema.
#[derive(Debug)]
pub struct TableSpec {
    /// The schema it is in.
    pub schema: &'static str,
    /// Name.
    pub name: &'static str,
    /// What it is.
    pub kind: SpecKind,
    /// ENGINE; empty for none.
    pub engine: &'static str,
    /// Default collation.
    pub collation: Option<Collation>,
    /// Comment.
    pub comment: &'static str,
    /// Columns.
    pub columns: Vec<ColumnSpec>,
    /// Indexes.
    pub keys: Vec<KeySpec>,
}

/// A column of a table of a system schema.
#[derive(Debug, Clone)]
pub struct ColumnSpec {
    /// Name.
    pub name: Arc<str>,
    /// Type as SHOW prints it.
    pub type_text: Cow<'static, str>,
    /// Type of its values.
    pub ty: SqlType,
    /// DEFAULT as SHOW COLUMNS prints it.
    pub default: Option<&'static str>,
    /// EXTRA.
    pub extra: &'static str,
}

/// An index of a table of a system schema.
#[derive(Debug)]
pub struct KeySpec {
    /// Name.
    pub name: &'static str,
    /// No two rows have the same values.
    pub unique: bool,
    /// Ordinals of its columns.
    pub columns: Vec<usize>,
}

/// Tables of INFORMATION_SCHEMA that are no views over the dictionary in MySQL.
const NO_VIEWS: [&str; 15] = [
    "COLLATIONS",
    "COLUMN_PRIVILEGES",
    "ENABLED_ROLES",
    "APPLICABLE_ROLES",
    "ENGINES",
    "OPTIMIZER_TRACE",
    "PLUGINS",
    "PROCESSLIST",
    "PROFILING",
    "SCHEMA_PRIVILEGES",
    "TABLE_PRIVILEGES",
    "USER_PRIVILEGES",
    "ROLE_COLUMN_GRANTS",
    "ROLE_ROUTINE_GRANTS",
    "ROLE_TABLE_GRANTS",
];
/// InnoDB's tables there that are such views.
const INNODB_VIEWS: [&str; 4] = [
    "INNODB_DATAFILES",
    "INNODB_FOREIGN_COLS",
    "INNODB_FIELDS",
    "INNODB_TABLESPACES_BRIEF",
];

impl TableSpec {
    /// Is it a view in MySQL, whose columns are called what the view calls them?
    pub fn is_view(&self) -> bool {
        match self.kind {
            SpecKind::Table => false,
            SpecKind::View => true,
            SpecKind::SystemView if self.name.starts_with("INNODB_") => {
                INNODB_VIEWS.contains(&self.name)
            }
            SpecKind::SystemView => !NO_VIEWS.contains(&self.name),
        }
    }

    /// The ordinal of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        let is_it = |c: &ColumnSpec| c.name.eq_ignore_ascii_case(name);
        self.columns.iter().position(is_it)
    }

    /// `PRI`, `UNI`, `MUL` or nothing, for a column.
    pub fn column_key(&self, column: usize) -> &'static str {
        let leads = |k: &&KeySpec| k.columns.first() == Some(&column);
        let mut keys = self.keys.iter();
        if keys.any(|k| k.name == "PRIMARY" && k.columns.contains(&column)) {
            return "PRI";
        }
        let single = |k: &KeySpec| k.unique && k.columns == [column];
        match self.keys.iter().find(leads) {
            Some(_) if self.keys.iter().any(single) => "UNI",
            Some(_) => "MUL",
            None => "",
        }
    }
}

/// All system schemas, sorted by name.
pub(crate) static SCHEMAS: [SystemSchema; 4] = [
    SystemSchema {
        name: "information_schema",
        any_case: true,
        tables: LazyLock::new(|| {
            let mut tables = read("information_schema", include_str!("information_schema.tsv"));
            tables.extend(own::tables());
            tables.sort_by_key(|t| t.name);
            tables
        }),
    },
    SystemSchema {
        name: "mysql",
        any_case: false,
        tables: LazyLock::new(|| read("mysql", include_str!("mysql.tsv"))),
    },
    SystemSchema {
        name: "performance_schema",
        any_case: true,
        tables: LazyLock::new(|| {
            read("performance_schema", include_str!("performance_schema.tsv"))
        }),
    },
    SystemSchema {
        name: "sys",
        any_case: false,
        tables: LazyLock::new(|| read("sys", include_str!("sys.tsv"))),
    },
];

/// The system schema of this name.
pub(crate) fn schema(name: &str) -> Option<&'static SystemSchema> {
    SCHEMAS.iter().find(|s| s.is_called(name))
}

/// The tables of a file.
///
/// # Panics
/// When the file, which is part of the program, is not what `tools/system-tables.py` writes.
fn read(schema: &'static str, text: &'static str) -> Vec<TableSpec> {
    let mut tables: Vec<TableSpec> = Vec::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('\t').collect();
        match *cells.as_slice() {
            [
                kind @ ("table" | "view" | "system"),
                name,
                engine,
                collation,
                comment,
            ] => {
                tables.push(TableSpec {
                    schema,
                    name,
                    kind: match kind {
                        "table" => SpecKind::Table,
                        "view" => SpecKind::View,
                        _ => SpecKind::SystemView,
                    },
                    engine: given(engine).unwrap_or_default(),
                    collation: given(collation).map(collation_of),
                    comment,
                    columns: Vec::new(),
                    keys: Vec::new(),
                });
            }
            [kind @ ("key" | "unique"), name, columns] => {
                let table = tables.last_mut().expect("an index follows its table");
                let place = |c| table.column(c).expect("an index is of columns");
                let columns = columns.split(',').map(place).collect();
                let unique = kind == "unique";
                table.keys.push(KeySpec {
                    name,
                    unique,
                    columns,
                });
            }
            [name, type_text, collation, null, default, extra] => {
                let table = tables.last_mut().expect("a column follows its table");
                let collation = given(collation).map(collation_of);
                let ty = types::read(type_text, collation.unwrap_or(Collation::BINARY));
                let ty = ty.expect("a type that is known");
                table.columns.push(ColumnSpec {
                    name: Arc::from(name),
                    type_text: Cow::Borrowed(type_text),
                    ty: ty.with_nullable(null == "NULL"),
                    default: given(default),
                    extra,
                });
            }
            _ => panic!("not a declaration: {line}"),
        }
    }
    tables.sort_by_key(|t| t.name);
    tables
}

/// A collation by name; utf8mb3_general_ci for the data dictionary's own, which no other column has.
fn collation_of(name: &str) -> Collation {
    Collation::by_name(name).unwrap_or(Collation::UTF8MB3_GENERAL_CI)
}

fn given(cell: &'static str) -> Option<&'static str> {
    (cell != r"\N").then_some(cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declaration_is_read() {
        let counts: Vec<usize> = SCHEMAS.iter().map(|s| s.tables().len()).collect();
        assert!(counts[0] > 78 && counts[1] >= 37 && counts[2] >= 110 && counts[3] >= 100);
        for schema in &SCHEMAS {
            assert!(schema.tables().windows(2).all(|w| w[0].name < w[1].name));
            for table in schema.tables() {
                assert!(!table.columns.is_empty(), "{}", table.name);
                let text = |c: &ColumnSpec| {
                    esker_sql_catalog::catalog::type_text(&c.ty).eq_ignore_ascii_case(&c.type_text)
                };
                // The odd ones are types that no column of a user's table has.
                let odd = |c: &&ColumnSpec| {
                    !text(c)
                        && !c.type_text.contains("float(12,0)")
                        && !c.type_text.contains("(905")
                };
                let odd: Vec<_> = table.columns.iter().filter(odd).collect();
                assert!(odd.is_empty(), "{}.{}: {odd:?}", schema.name, table.name);
            }
        }
    }

    #[test]
    fn names_are_found_as_mysql_finds_them() {
        let find = |s: &str, t: &str| schema(s).and_then(|s| s.table(t)).map(|t| t.name);
        assert_eq!(find("INFORMATION_SCHEMA", "tables"), Some("TABLES"));
        assert_eq!(find("Performance_Schema", "THREADS"), Some("threads"));
        assert_eq!(find("mysql", "user"), Some("user"));
        assert_eq!(find("mysql", "USER"), None);
        assert_eq!(find("SYS", "version"), None);
    }

    #[test]
    fn keys_of_columns_are_told() {
        let user = schema("mysql").unwrap().table("user").unwrap();
        assert_eq!(user.column_key(0), "PRI");
        assert_eq!(user.column_key(2), "");
        let threads = schema("performance_schema")
            .unwrap()
            .table("threads")
            .unwrap();
        let id = threads.column("PROCESSLIST_ID").unwrap();
        assert_eq!(threads.column_key(id), "MUL");
    }
}
