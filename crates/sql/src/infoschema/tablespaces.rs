//! What INFORMATION_SCHEMA shows of tablespaces: those that CREATE TABLESPACE makes, and one for every other table.
//!
//! Neighbours: the catalog has tablespaces and tables, `dictionary` the other tables about InnoDB; `source` asks by
//! table name.
//! **Invariants**: there is no such file, its size is that of the rows; a tablespace has the number under which
//! `INNODB_TABLES` knows its tables; rows are shown to those only that have the PROCESS privilege.

use esker_sql_catalog::catalog::{
    FILE_PER_TABLE, PAGE_BYTES, ShownOption, TableDef, TablespaceDef,
};
use esker_types::Value;

use super::source::Source;
use super::{Viewer, optional, text};

pub(super) static SOURCES: &[Source] = &[
    Source::new(
        "FILES",
        &[
            "FILE_ID",
            "FILE_NAME",
            "FILE_TYPE",
            "TABLESPACE_NAME",
            "ENGINE",
            "FREE_EXTENTS",
            "TOTAL_EXTENTS",
            "EXTENT_SIZE",
            "INITIAL_SIZE",
            "AUTOEXTEND_SIZE",
            "DATA_FREE",
            "STATUS",
        ],
        |viewer| each(viewer, file),
    ),
    Source::new("INNODB_DATAFILES", &["SPACE", "PATH"], |viewer| {
        each(viewer, |space| vec![space.number(), text(&space.path)])
    }),
    Source::new(
        "INNODB_TABLESPACES",
        &[
            "SPACE",
            "NAME",
            "FLAG",
            "ROW_FORMAT",
            "PAGE_SIZE",
            "ZIP_PAGE_SIZE",
            "SPACE_TYPE",
            "FS_BLOCK_SIZE",
            "FILE_SIZE",
            "ALLOCATED_SIZE",
            "AUTOEXTEND_SIZE",
            "SERVER_VERSION",
            "SPACE_VERSION",
            "ENCRYPTION",
            "STATE",
        ],
        |viewer| each(viewer, whole),
    ),
    Source::new(
        "INNODB_TABLESPACES_BRIEF",
        &["SPACE", "NAME", "PATH", "FLAG", "SPACE_TYPE"],
        |viewer| {
            each(viewer, |space| {
                vec![
                    space.number(),
                    text(&space.name),
                    text(&space.path),
                    Value::UInt(space.flags()),
                    text(space.kind()),
                ]
            })
        },
    ),
    Source::new(
        "TABLESPACES_EXTENSIONS",
        &["TABLESPACE_NAME", "ENGINE_ATTRIBUTE"],
        |viewer| {
            let attribute = |space: &Space| space.general.as_ref()?.attribute.clone();
            let row = |space: &Space| vec![text(&space.name), optional(attribute(space))];
            spaces(viewer).iter().map(row).collect()
        },
    ),
];

/// Bytes of InnoDB's extents, by which a file grows.
const EXTENT_BYTES: u64 = 1 << 20;
/// What InnoDB's file systems have.
const FS_BLOCK_BYTES: u64 = 4 << 10;

/// A tablespace as InnoDB would have it.
struct Space {
    id: u32,
    name: String,
    path: String,
    bytes: u64,
    autoextend_size: u64,
    /// That of the server.
    version: String,
    /// One of CREATE TABLESPACE.
    general: Option<TablespaceDef>,
}

impl Space {
    fn general(viewer: &Viewer, def: &TablespaceDef) -> Self {
        let schemas = viewer.instance.schemas();
        let tables = schemas
            .iter()
            .flat_map(|schema| viewer.instance.tables_of(&schema.name));
        let inside =
            tables.filter(|t| t.shown_options.get(ShownOption::Tablespace) == Some(&*def.name));
        Self {
            id: def.id,
            name: def.name.to_string(),
            path: def.file.to_string(),
            bytes: inside.map(|table| bytes_of(viewer, &table)).sum(),
            autoextend_size: def.autoextend_size,
            version: viewer.instance.version().to_owned(),
            general: Some(def.clone()),
        }
    }

    fn of_table(viewer: &Viewer, table: &TableDef) -> Self {
        let size = table.shown_options.get(ShownOption::AutoextendSize);
        Self {
            id: table.primary().id.0,
            name: format!("{}/{}", table.schema, table.name),
            path: format!("{}/{}.ibd", table.schema, table.name),
            bytes: bytes_of(viewer, table),
            autoextend_size: size.and_then(|size| size.parse().ok()).unwrap_or(0),
            version: viewer.instance.version().to_owned(),
            general: None,
        }
    }

    fn number(&self) -> Value {
        Value::UInt(self.id.into())
    }

    fn kind(&self) -> &'static str {
        match self.general {
            Some(_) => "General",
            None => "Single",
        }
    }

    /// Bytes of a compressed page, 0 if pages are not compressed.
    fn compressed_page(&self) -> u64 {
        let block = self
            .general
            .as_ref()
            .map_or(PAGE_BYTES, |def| def.block_size);
        if block < PAGE_BYTES { block } else { 0 }
    }

    /// InnoDB's flags: of what kind it is, and of pages that are compressed, of which size.
    fn flags(&self) -> u64 {
        match (&self.general, self.compressed_page()) {
            (None, _) => 16_417,
            (Some(_), 0) => 18_432,
            (Some(_), page) => 18_432 + 33 + 2 * u64::from(page.ilog2() - 9),
        }
    }
}

fn bytes_of(viewer: &Viewer, table: &TableDef) -> u64 {
    let stats = viewer.instance.table_stats(table);
    stats.data_bytes + stats.index_bytes
}

/// All tablespaces that the account may see.
fn spaces(viewer: &Viewer) -> Vec<Space> {
    let snapshot = viewer.instance.catalog.snapshot();
    let mut spaces: Vec<Space> = snapshot
        .tablespaces()
        .map(|def| Space::general(viewer, def))
        .collect();
    for schema in viewer.instance.schemas() {
        let tables = viewer.instance.tables_of(&schema.name);
        let alone = tables.iter().filter(|t| is_alone(t));
        let seen = alone.filter(|t| viewer.access.sees_table(&t.schema, &t.name));
        spaces.extend(seen.map(|t| Space::of_table(viewer, t)));
    }
    spaces
}

/// Has the table a tablespace of its own?
fn is_alone(table: &TableDef) -> bool {
    let name = table.shown_options.get(ShownOption::Tablespace);
    name.is_none_or(|name| name == FILE_PER_TABLE)
}

/// Rows of every tablespace, for those that may see processes.
fn each(viewer: &Viewer, row: fn(&Space) -> Vec<Value>) -> Vec<Vec<Value>> {
    match viewer.may("PROCESS") {
        true => spaces(viewer).iter().map(row).collect(),
        false => Vec::new(),
    }
}

fn file(space: &Space) -> Vec<Value> {
    let grows_by = match space.autoextend_size {
        0 => EXTENT_BYTES,
        bytes => bytes,
    };
    vec![
        space.number(),
        text(format!("./{}", space.path.trim_start_matches("./"))),
        text("TABLESPACE"),
        text(&space.name),
        text("InnoDB"),
        Value::UInt(0),
        Value::UInt(space.bytes / EXTENT_BYTES),
        Value::UInt(EXTENT_BYTES),
        Value::UInt(space.bytes),
        Value::UInt(grows_by),
        Value::UInt(0),
        text("NORMAL"),
    ]
}

fn whole(space: &Space) -> Vec<Value> {
    let page = space.compressed_page();
    let format = match (&space.general, page) {
        (None, _) => "Dynamic",
        (Some(_), 0) => "Any",
        (Some(_), _) => "Compressed",
    };
    vec![
        space.number(),
        text(&space.name),
        Value::UInt(space.flags()),
        text(format),
        Value::UInt(PAGE_BYTES),
        Value::UInt(page),
        text(space.kind()),
        Value::UInt(FS_BLOCK_BYTES),
        Value::UInt(space.bytes),
        Value::UInt(space.bytes),
        Value::UInt(space.autoextend_size),
        text(&space.version),
        Value::UInt(1),
        text("N"),
        text("normal"),
    ]
}
