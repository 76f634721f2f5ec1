//! Definitions as rows of the system tree.
//!
//! ```text
//! key "V"                    value: format of the catalog
//! key "S" schema             value: SchemaDef
//! key "T" table id (BE u32)  value: TableDef
//! key "W" schema 00 name     value: ViewDef
//! key "P" schema 00 kind name  value: RoutineDef
//! key "E" schema 00 name     value: EventDef
//! key "L" schema 00 name     value: when the event ran last
//! key "G" name               value: TablespaceDef
//! key "H" table id, column id (BE u32 each)  value: Histogram
//! key "R" channel 00 kind …  value: what a replication channel has applied, and its settings
//! key "A"                    value: the number of the last change of the accounts
//! ```
//! `docs/formats/catalog.md` has the details.
//!
//! Neighbours: [`super::Catalog`] reads and writes these rows in transactions; `bytes` has the pieces.
//! **Invariants**: every value begins with the version of its own format; bytes are checked when read
//! and damage is an error; what a definition derives (layout maps, key codecs, trees, locks) is not
//! stored.

use std::sync::Arc;

use esker_engine::{Engine, Tree, TreeId};
use esker_types::SqlResult;
use esker_types::collation::Collation;

use super::bytes::{Reader, Writer};
use super::def::{
    CheckDef, CheckOption, ColumnDef, DefaultDef, IndexDef, IndexPart, SchemaDef, TableDef,
    TableId, ViewColumn, ViewDef, VisibleFrom,
};
use super::event;
use super::foreign;
use super::fulltext;
use super::generated;
use super::partitioning::Partitioning;
use super::routine::{self, RoutineKey};
use super::runtime::TableRuntime;
use super::shown_options::ShownOptions;
use super::storage_engine::StorageEngine;
use super::trigger;
use crate::codec::{
    ElementCodec, KeyCodec, LayoutVersion, MAX_LAYOUT_VERSIONS, Phys, RowLayout, damaged,
};
use crate::mdl::MetadataLocks;

/// Format of the catalog as a whole.
pub(super) const CATALOG_FORMAT: u64 = 1;
const SCHEMA_FORMAT: u8 = 1;
const TABLE_FORMAT: u8 = 2;
/// Tables without extensions.
const PLAIN_TABLE_FORMAT: u8 = 1;
/// Extension: the storage engine.
const ENGINE_EXTENSION: u8 = 1;
/// Extension: foreign keys, and indexes that were made for them.
const FOREIGN_EXTENSION: u8 = 2;
/// Extension: generated columns.
const GENERATED_EXTENSION: u8 = 3;
/// Extension: full-text indexes.
const FULLTEXT_EXTENSION: u8 = 4;
/// Extension: options that are only shown.
const OPTIONS_EXTENSION: u8 = 5;
/// Extension: multi-valued indexes.
const ELEMENTS_EXTENSION: u8 = 8;
/// Extension: triggers.
const TRIGGERS_EXTENSION: u8 = 6;
/// Extension: how the table is partitioned.
const PARTITIONS_EXTENSION: u8 = 7;
const VIEW_FORMAT: u8 = 3;
/// Without WITH CHECK OPTION: nothing was changed through views.
const FIRST_VIEW_FORMAT: u8 = 1;

pub(super) const VERSION_KEY: &[u8] = b"V";
pub(super) const ACCOUNTS_KEY: &[u8] = b"A";
pub(super) const SCHEMA_PREFIX: u8 = b'S';
pub(super) const TABLE_PREFIX: u8 = b'T';
pub(super) const VIEW_PREFIX: u8 = b'W';
pub(super) const HISTOGRAM_PREFIX: u8 = b'H';
pub(super) const CHANNEL_PREFIX: u8 = b'R';
pub(super) const ROUTINE_PREFIX: u8 = b'P';
pub(super) const EVENT_PREFIX: u8 = b'E';
pub(super) const EVENT_RAN_PREFIX: u8 = b'L';
pub(super) const TABLESPACE_PREFIX: u8 = b'G';

pub(super) fn schema_key(name: &str) -> Vec<u8> {
    [&[SCHEMA_PREFIX], name.as_bytes()].concat()
}

pub(super) fn table_key(id: TableId) -> Vec<u8> {
    [&[TABLE_PREFIX][..], &id.0.to_be_bytes()].concat()
}

/// The key of a column's histogram.
pub(super) fn histogram_key(table: TableId, column: u32) -> Vec<u8> {
    let (table, column) = (table.0.to_be_bytes(), column.to_be_bytes());
    [&[HISTOGRAM_PREFIX][..], &table, &column].concat()
}

/// The key of a channel's row; channels have no zero byte in their names.
pub(super) fn channel_key(channel: &str, kind: &[u8]) -> Vec<u8> {
    [&[CHANNEL_PREFIX], channel.as_bytes(), &[0], kind].concat()
}

/// Names have no zero byte.
pub(super) fn view_key(schema: &str, name: &str) -> Vec<u8> {
    [&[VIEW_PREFIX], schema.as_bytes(), &[0], name.as_bytes()].concat()
}

/// The key of a routine.
pub(super) fn routine_key(schema: &str, key: &RoutineKey) -> Vec<u8> {
    [&[ROUTINE_PREFIX][..], &routine::key_bytes(schema, key)].concat()
}

/// The key of an event.
pub(super) fn event_row_key(schema: &str, name: &str) -> Vec<u8> {
    [&[EVENT_PREFIX][..], &event::key_bytes(schema, name)].concat()
}

/// The key of the row that says when an event ran last.
pub(super) fn event_ran_key(schema: &str, name: &str) -> Vec<u8> {
    [&[EVENT_RAN_PREFIX][..], &event::key_bytes(schema, name)].concat()
}

/// The key of a tablespace.
pub(super) fn tablespace_key(name: &str) -> Vec<u8> {
    [&[TABLESPACE_PREFIX], name.as_bytes()].concat()
}

pub(super) fn view_value(def: &ViewDef) -> Vec<u8> {
    let mut w = Writer::default();
    w.byte(VIEW_FORMAT);
    w.text(&def.schema);
    w.text(&def.name);
    w.int(def.columns.len() as u64);
    for column in &def.columns {
        w.text(&column.name);
        w.sql_type(&column.ty);
    }
    w.flag(def.named);
    w.text(&def.text);
    w.text(&def.algorithm);
    w.text(&def.definer.0);
    w.text(&def.definer.1);
    w.flag(def.invoker);
    w.text(&def.sql_mode);
    w.text(&def.charset.0);
    w.text(&def.charset.1);
    w.byte(def.check_option.to_byte());
    w.flag(def.updatable);
    w.int(def.create_time_micros as u64);
    w.out
}

pub(super) fn read_view(bytes: &[u8], locks: &MetadataLocks) -> SqlResult<ViewDef> {
    let mut r = Reader::new(bytes);
    let format = r.byte()?;
    if !(FIRST_VIEW_FORMAT..=VIEW_FORMAT).contains(&format) {
        return Err(damaged("view"));
    }
    let is_first = format == FIRST_VIEW_FORMAT;
    let schema: Arc<str> = r.text()?.into();
    let name: Arc<str> = r.text()?.into();
    let columns = r.list(|r| {
        Ok(ViewColumn {
            name: r.text()?.into(),
            ty: r.sql_type()?,
        })
    })?;
    let def = ViewDef {
        mdl: locks.table(&schema, &name),
        schema,
        name,
        columns,
        named: r.flag()?,
        text: r.text()?.into(),
        algorithm: r.text()?.into(),
        definer: (r.text()?.into(), r.text()?.into()),
        invoker: r.flag()?,
        sql_mode: r.text()?.into(),
        charset: (r.text()?.into(), r.text()?.into()),
        check_option: match is_first {
            true => CheckOption::None,
            false => CheckOption::from_byte(r.byte()?).ok_or_else(|| damaged("view"))?,
        },
        updatable: !is_first && r.flag()?,
        create_time_micros: match format {
            VIEW_FORMAT => r.int()? as i64,
            _ => 0,
        },
    };
    r.end()?;
    Ok(def)
}

pub(super) fn version_value() -> Vec<u8> {
    let mut w = Writer::default();
    w.int(CATALOG_FORMAT);
    w.out
}

pub(super) fn accounts_value(change: u32) -> Vec<u8> {
    let mut w = Writer::default();
    w.int(u64::from(change));
    w.out
}

pub(super) fn read_accounts(bytes: &[u8]) -> SqlResult<u32> {
    Reader::new(bytes).int32()
}

pub(super) fn check_version(bytes: &[u8]) -> SqlResult<()> {
    let version = Reader::new(bytes).int()?;
    if version == CATALOG_FORMAT {
        return Ok(());
    }
    Err(damaged(&format!(
        "catalog: format {version}, this version reads {CATALOG_FORMAT}"
    )))
}

pub(super) fn schema_value(def: &SchemaDef) -> Vec<u8> {
    let mut w = Writer::default();
    w.byte(SCHEMA_FORMAT);
    w.int(u64::from(def.collation.0));
    if def.read_only {
        w.flag(true);
    }
    w.out
}

pub(super) fn read_schema(name: &[u8], bytes: &[u8]) -> SqlResult<SchemaDef> {
    let name = std::str::from_utf8(name).map_err(|_| damaged("catalog row: schema name"))?;
    let mut r = Reader::new(bytes);
    expect_format(&mut r, SCHEMA_FORMAT)?;
    let collation = read_collation(&mut r)?;
    // Only what is read only says so.
    let read_only = r.end().is_err() && r.flag()?;
    r.end()?;
    Ok(SchemaDef {
        name: name.into(),
        collation,
        read_only,
    })
}

fn expect_format(r: &mut Reader<'_>, format: u8) -> SqlResult<()> {
    if r.byte()? == format {
        Ok(())
    } else {
        Err(damaged("catalog row: unknown format"))
    }
}

fn read_collation(r: &mut Reader<'_>) -> SqlResult<Collation> {
    let id = u16::try_from(r.int()?).ok();
    id.and_then(Collation::by_id)
        .ok_or_else(|| damaged("catalog row: collation"))
}

pub(super) fn table_value(def: &TableDef) -> Vec<u8> {
    let mut w = Writer::default();
    w.byte(TABLE_FORMAT);
    w.text(&def.schema);
    w.text(&def.name);
    w.int(u64::from(def.collation.0));
    w.text(&def.comment);
    w.text(&def.row_format);
    w.int(def.create_time_micros as u64);
    w.int(u64::from(def.next_column_id));
    w.int(def.columns.len() as u64);
    def.columns.iter().for_each(|c| write_column(&mut w, c));
    w.int(def.indexes.len() as u64);
    def.indexes.iter().for_each(|i| write_index(&mut w, i));
    w.int(def.layout.versions().len() as u64);
    def.layout
        .versions()
        .iter()
        .for_each(|v| write_layout(&mut w, v));
    w.int(def.checks.len() as u64);
    for check in &def.checks {
        w.text(&check.name);
        w.text(&check.text);
        w.flag(check.enforced);
        w.option(check.column, |w, id| w.int(u64::from(id)));
    }
    let extensions = extensions_of(def);
    w.int(extensions.len() as u64);
    for (kind, content) in &extensions {
        w.byte(*kind);
        w.bytes(content);
    }
    w.out
}

/// What not every table has, by kind.
fn extensions_of(def: &TableDef) -> Vec<(u8, Vec<u8>)> {
    let mut out = Vec::new();
    match def.engine {
        StorageEngine::InnoDb => {}
        StorageEngine::Memory => out.push((ENGINE_EXTENSION, vec![1])),
    }
    if let Some(content) = generated::extension_of(&def.columns) {
        out.push((GENERATED_EXTENSION, content));
    }
    if let Some(content) = foreign::extension_of(def) {
        out.push((FOREIGN_EXTENSION, content));
    }
    if let Some(content) = fulltext::extension_of(def) {
        out.push((FULLTEXT_EXTENSION, content));
    }
    let multi_valued = def.indexes.iter().filter(|i| i.is_multi_valued()).count();
    if multi_valued > 0 {
        let mut w = Writer::default();
        w.int(multi_valued as u64);
        out.push((ELEMENTS_EXTENSION, w.out));
    }
    if let Some(content) = def.shown_options.extension() {
        out.push((OPTIONS_EXTENSION, content));
    }
    if let Some(content) = trigger::extension_of(def) {
        out.push((TRIGGERS_EXTENSION, content));
    }
    if let Some(partitioning) = &def.partitioning {
        out.push((PARTITIONS_EXTENSION, partitioning.extension()));
    }
    out
}

/// What extensions say of a table.
#[derive(Default)]
struct Extensions {
    engine: StorageEngine,
    foreign: Vec<u8>,
    generated: Vec<u8>,
    fulltext: Vec<u8>,
    elements: Vec<u8>,
    options: Vec<u8>,
    triggers: Vec<u8>,
    partitioning: Option<Arc<Partitioning>>,
}

fn read_extensions(r: &mut Reader<'_>) -> SqlResult<Extensions> {
    let mut out = Extensions::default();
    for (kind, content) in r.list(|r| Ok((r.byte()?, r.bytes()?.to_vec())))? {
        match (kind, content.as_slice()) {
            (ENGINE_EXTENSION, [1]) => out.engine = StorageEngine::Memory,
            (FOREIGN_EXTENSION, [_, ..]) => out.foreign = content,
            (GENERATED_EXTENSION, [_, ..]) => out.generated = content,
            (FULLTEXT_EXTENSION, [_, ..]) => out.fulltext = content,
            (ELEMENTS_EXTENSION, [_, ..]) => out.elements = content,
            (OPTIONS_EXTENSION, [_, ..]) => out.options = content,
            (TRIGGERS_EXTENSION, [_, ..]) => out.triggers = content,
            (PARTITIONS_EXTENSION, [_, ..]) => {
                out.partitioning = Some(Arc::new(Partitioning::read_extension(&content)?));
            }
            // What it says may change what the rows mean.
            _ => return Err(damaged("catalog row: unknown extension of a table")),
        }
    }
    Ok(out)
}

/// Gives a table its multi-valued indexes: their key part says which they are, the extension how many.
fn read_elements(bytes: &[u8], def: &mut TableDef) -> SqlResult<()> {
    let wanted = match bytes {
        [] => 0,
        bytes => {
            let mut r = Reader::new(bytes);
            let wanted = r.int()?;
            r.end()?;
            wanted
        }
    };
    let mut found = 0;
    for index in &mut def.indexes {
        let has_array = index
            .parts
            .iter()
            .any(|part| def.columns[part.col].is_array());
        if has_array {
            index.elements = ElementCodec::new(&def.columns, &index.parts, index.unique);
            found += 1;
        }
    }
    match found == wanted && def.indexes.is_sorted_by_key(IndexDef::is_inverted) {
        true => Ok(()),
        false => Err(damaged("catalog row: multi-valued indexes")),
    }
}

fn write_column(w: &mut Writer, c: &ColumnDef) {
    w.int(u64::from(c.id));
    w.text(&c.name);
    w.sql_type(&c.ty);
    match &c.default {
        DefaultDef::None => w.byte(0),
        DefaultDef::Value(v) => {
            w.byte(1);
            w.value(v);
        }
        DefaultDef::Now => w.byte(2),
        DefaultDef::Expr(text) => {
            w.byte(3);
            w.text(text);
        }
    }
    w.flag(c.on_update_now);
    w.flag(c.auto_increment);
    w.flag(c.invisible);
    w.text(&c.comment);
    w.option(c.instant_default.as_ref(), Writer::value);
    w.flag(c.explicit_collation);
}

fn read_column(r: &mut Reader<'_>) -> SqlResult<ColumnDef> {
    Ok(ColumnDef {
        id: r.int32()?,
        name: r.text()?.into(),
        ty: r.sql_type()?,
        default: match r.byte()? {
            0 => DefaultDef::None,
            1 => DefaultDef::Value(r.value()?),
            2 => DefaultDef::Now,
            3 => DefaultDef::Expr(r.text()?.into()),
            _ => return Err(damaged("catalog row: default")),
        },
        on_update_now: r.flag()?,
        auto_increment: r.flag()?,
        invisible: r.flag()?,
        comment: r.text()?.into(),
        instant_default: r.option(Reader::value)?,
        explicit_collation: r.flag()?,
        generated: None,
    })
}

fn write_index(w: &mut Writer, i: &IndexDef) {
    w.int(u64::from(i.id.0));
    w.text(&i.name);
    w.flag(i.unique);
    w.flag(i.primary);
    w.flag(i.hidden);
    w.flag(i.invisible);
    w.text(&i.comment);
    w.option(i.using.as_deref(), Writer::text);
    w.int(i.parts.len() as u64);
    for part in &i.parts {
        w.int(part.col as u64);
        w.option(part.prefix_len, |w, n| w.int(u64::from(n)));
        w.flag(part.desc);
    }
}

/// Finds the tree of an index by the id in the catalog; it may be another one that stands for it.
pub(super) type FindTree<'a> = dyn FnMut(TreeId) -> SqlResult<Tree> + 'a;

fn read_index(
    r: &mut Reader<'_>,
    columns: &[ColumnDef],
    trees: &mut FindTree<'_>,
) -> SqlResult<IndexDef> {
    let tree = trees(TreeId(r.int32()?))?;
    let id = tree.id();
    let name = r.text()?.into();
    let (unique, primary, hidden, invisible) = (r.flag()?, r.flag()?, r.flag()?, r.flag()?);
    let comment = r.text()?.into();
    let using = r.option(|r| Ok(r.text()?.into()))?;
    let parts = r.list(|r| {
        let col = r.int()? as usize;
        if col >= columns.len() {
            return Err(damaged("catalog row: key part"));
        }
        Ok(IndexPart {
            col,
            prefix_len: r.option(Reader::int32)?,
            desc: r.flag()?,
        })
    })?;
    let codec = KeyCodec::new(columns, &parts, unique, primary);
    Ok(IndexDef {
        id,
        name,
        unique,
        primary,
        hidden,
        invisible,
        generated: false,
        parts,
        comment,
        using,
        codec,
        words: None,
        elements: None,
        visible_from: VisibleFrom::default(),
        accesses: Arc::default(),
        tree,
    })
}

fn write_layout(w: &mut Writer, v: &LayoutVersion) {
    w.int(v.fields.len() as u64);
    for &(id, phys) in &v.fields {
        w.int(u64::from(id));
        match phys {
            Phys::Int { bytes, unsigned } => {
                w.byte(1);
                w.byte(bytes);
                w.flag(unsigned);
            }
            Phys::Float => w.byte(2),
            Phys::Double => w.byte(3),
            Phys::Decimal { precision, scale } => {
                w.byte(4);
                w.byte(precision);
                w.byte(scale);
            }
            Phys::Date => w.byte(5),
            Phys::Time => w.byte(6),
            Phys::DateTime => w.byte(7),
            Phys::Timestamp => w.byte(8),
            Phys::Bit { bits } => {
                w.byte(9);
                w.byte(bits);
            }
            Phys::Enum => w.byte(10),
            Phys::Var => w.byte(11),
            Phys::Json => w.byte(13),
            Phys::Set => w.byte(12),
        }
    }
}

fn read_layout(r: &mut Reader<'_>) -> SqlResult<LayoutVersion> {
    let fields = r.list(|r| {
        let id = r.int32()?;
        let phys = match r.byte()? {
            1 => {
                let bytes = r.byte()?;
                if !(1..=8).contains(&bytes) {
                    return Err(damaged("catalog row: integer width"));
                }
                Phys::Int {
                    bytes,
                    unsigned: r.flag()?,
                }
            }
            2 => Phys::Float,
            3 => Phys::Double,
            4 => {
                let (precision, scale) = (r.byte()?, r.byte()?);
                if !(1..=65).contains(&precision) || scale > 30.min(precision) {
                    return Err(damaged("catalog row: decimal width"));
                }
                Phys::Decimal { precision, scale }
            }
            5 => Phys::Date,
            6 => Phys::Time,
            7 => Phys::DateTime,
            8 => Phys::Timestamp,
            9 => Phys::Bit { bits: r.byte()? },
            10 => Phys::Enum,
            11 => Phys::Var,
            13 => Phys::Json,
            12 => Phys::Set,
            _ => return Err(damaged("catalog row: storage kind")),
        };
        Ok((id, phys))
    })?;
    Ok(LayoutVersion { fields })
}

fn read_check(r: &mut Reader<'_>) -> SqlResult<CheckDef> {
    Ok(CheckDef {
        name: r.text()?.into(),
        text: r.text()?.into(),
        enforced: r.flag()?,
        column: r.option(Reader::int32)?,
    })
}

/// Has the table a clustered key, and its rows all columns in their newest layout?
fn is_sound(columns: &[ColumnDef], indexes: &[IndexDef], layouts: &[LayoutVersion]) -> bool {
    let Some(newest) = layouts
        .last()
        .filter(|_| layouts.len() <= MAX_LAYOUT_VERSIONS)
    else {
        return false;
    };
    let has_field = |column: &ColumnDef| newest.fields.iter().any(|f| f.0 == column.id);
    indexes.first().is_some_and(|i| i.primary) && columns.iter().all(has_field)
}

pub(super) fn read_table(
    id: TableId,
    bytes: &[u8],
    version: u64,
    engine: &Engine,
    trees: &mut FindTree<'_>,
    locks: &MetadataLocks,
) -> SqlResult<TableDef> {
    let mut r = Reader::new(bytes);
    let format = r.byte()?;
    if !matches!(format, PLAIN_TABLE_FORMAT | TABLE_FORMAT) {
        return Err(damaged("catalog row: unknown format"));
    }
    let schema: Arc<str> = r.text()?.into();
    let name: Arc<str> = r.text()?.into();
    let collation = read_collation(&mut r)?;
    let comment = r.text()?.into();
    let row_format = r.text()?.into();
    let create_time_micros = r.int()? as i64;
    let next_column_id = r.int32()?;
    let columns = r.list(read_column)?;
    let indexes = r.list(|r| read_index(r, &columns, trees))?;
    let layouts = r.list(read_layout)?;
    let checks = r.list(read_check)?;
    let extensions = match format {
        PLAIN_TABLE_FORMAT => Extensions::default(),
        _ => read_extensions(&mut r)?,
    };
    r.end()?;
    if !is_sound(&columns, &indexes, &layouts) {
        return Err(damaged("catalog row: table"));
    }
    let counter = engine.counter(indexes[0].id);
    let layout = RowLayout::new(&columns, layouts);
    let mut def = TableDef {
        id,
        mdl: locks.table(&schema, &name),
        schema,
        name,
        auto_column: columns.iter().position(|c| c.auto_increment),
        columns,
        indexes,
        checks,
        foreign_keys: Vec::new(),
        referenced_by: Vec::new(),
        triggers: trigger::read_extension(&extensions.triggers)?,
        partitioning: extensions.partitioning,
        layout,
        collation,
        temporary: false,
        engine: extensions.engine,
        comment,
        row_format,
        shown_options: ShownOptions::read_extension(&extensions.options)?,
        create_time_micros,
        histograms: Vec::new(),
        next_column_id,
        version,
        visible_from: VisibleFrom::default(),
        runtime: Arc::new(TableRuntime::new(counter)),
    };
    foreign::read_extension(&extensions.foreign, &mut def)?;
    generated::read_extension(&extensions.generated, &mut def.columns)?;
    fulltext::read_extension(&extensions.fulltext, &mut def)?;
    read_elements(&extensions.elements, &mut def)?;
    def.announce_fields();
    Ok(def)
}
