//! What a schema object is: tables, columns, indexes, as every statement sees them.
//!
//! Neighbours: `catalog::store` turns these into bytes and back; `ddl` builds and replaces them;
//! `bind`, `plan`, `exec` and `dml` read them through [`Arc`]s taken from a catalog snapshot.
//! **Invariants**: a definition never changes once published, it is replaced; `indexes[0]` is always
//! the clustered index (the primary key, or a hidden row id when `hidden`); every key part names a
//! column of this table; full-text indexes are the last ones; `layout` describes exactly `columns`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker_engine::{Seq, Tree, TreeId};
use esker_types::collation::Collation;
use esker_types::{SqlResult, SqlType, TypeKind, Value, errors};

use super::access_counts::AccessCounts;
use super::foreign::{ForeignKeyDef, Referrer};
use super::histogram::Histogram;
use super::partitioning::Partitioning;
use super::runtime::{AutoStep, TableRuntime, max_auto};
use super::shown_options::ShownOptions;
use super::storage_engine::StorageEngine;
use super::trigger::TriggerDef;
use crate::codec::{ElementCodec, KeyCodec, RowFields, RowLayout, RowReader, WordCodec};
use crate::mdl::MdlObject;

/// Name of the hidden clustered index of a table without primary key, as InnoDB calls it.
pub const HIDDEN_INDEX_NAME: &str = "GEN_CLUST_INDEX";
/// Name of the column of a generated invisible primary key.
pub const ROW_ID: &str = "my_row_id";
/// Most columns of a table.
pub const MAX_COLUMNS: usize = 1017;
/// Most secondary indexes of a table.
pub const MAX_SECONDARY_INDEXES: usize = 64;
/// Most parts of an index.
pub const MAX_KEY_PARTS: usize = 16;
/// Longest index key in declared bytes.
pub const MAX_KEY_BYTES: u64 = 3072;

/// Identifies a table for ever: the id of its first clustered tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u32);

/// A database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaDef {
    /// Name.
    pub name: Arc<str>,
    /// Default collation of its tables (with the character set).
    pub collation: Collation,
    /// READ ONLY = 1: nothing in it may be changed.
    pub read_only: bool,
}

/// From which snapshot on a table's or index's trees are complete. Older snapshots would miss rows
/// that were copied into them: error 1412.
#[derive(Debug, Clone, Default)]
pub struct VisibleFrom(Arc<AtomicU64>);

impl VisibleFrom {
    /// The oldest snapshot that may read it.
    #[inline]
    pub fn get(&self) -> Seq {
        self.0.load(Ordering::Acquire)
    }

    /// Not to be read by anybody until the change that publishes it is committed.
    pub fn fresh() -> Self {
        Self(Arc::new(AtomicU64::new(Seq::MAX)))
    }

    /// May no snapshot read it yet?
    pub fn is_fresh(&self) -> bool {
        self.get() == Seq::MAX
    }

    pub(super) fn set(&self, seq: Seq) {
        self.0.store(seq, Ordering::Release);
    }
}

/// A table.
#[derive(Clone)]
pub struct TableDef {
    /// Id, kept through ALTER, TRUNCATE and RENAME.
    pub id: TableId,
    /// Database.
    pub schema: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Columns in order.
    pub columns: Vec<ColumnDef>,
    /// Indexes; the clustered one first, then the secondary ones, then the full-text ones.
    pub indexes: Vec<IndexDef>,
    /// CHECK constraints.
    pub checks: Vec<CheckDef>,
    /// FOREIGN KEY constraints.
    pub foreign_keys: Vec<ForeignKeyDef>,
    /// Tables with foreign keys to this one; itself may be among them.
    pub referenced_by: Vec<Referrer>,
    /// Triggers; those of the same timing and event in the order in which they run.
    pub triggers: Vec<Arc<TriggerDef>>,
    /// How it is partitioned.
    pub partitioning: Option<Arc<Partitioning>>,
    /// How rows are stored.
    pub layout: RowLayout,
    /// Default collation.
    pub collation: Collation,
    /// It belongs to one session, and is in no catalog.
    pub temporary: bool,
    /// What the table calls its engine.
    pub engine: StorageEngine,
    /// COMMENT.
    pub comment: Box<str>,
    /// ROW_FORMAT as given, upper case; empty when not given.
    pub row_format: Box<str>,
    /// Options that are only shown.
    pub shown_options: ShownOptions,
    /// When it was created, microseconds since the epoch.
    pub create_time_micros: i64,
    /// Ordinal of the AUTO_INCREMENT column.
    pub auto_column: Option<usize>,
    /// Histograms of its columns, for estimates; rows of their own in the catalog.
    pub histograms: Vec<Arc<Histogram>>,
    /// Next column id an ALTER may give (ids are never reused within a table).
    pub next_column_id: u32,
    /// Catalog version that published this definition.
    pub version: u64,
    /// Snapshots before this must not read the table (1412).
    pub visible_from: VisibleFrom,
    /// The metadata lock of this table's name.
    pub mdl: Arc<MdlObject>,
    /// What outlives definitions: counters in memory, statistics.
    pub runtime: Arc<TableRuntime>,
}

/// A view.
#[derive(Debug, Clone)]
pub struct ViewDef {
    /// Database.
    pub schema: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Columns as they were when it was created.
    pub columns: Vec<ViewColumn>,
    /// The columns were named in a list of their own.
    pub named: bool,
    /// The query: every table with its database, `*` written out.
    pub text: Box<str>,
    /// ALGORITHM, upper case.
    pub algorithm: Box<str>,
    /// DEFINER: user and host.
    pub definer: (Box<str>, Box<str>),
    /// SQL SECURITY INVOKER.
    pub invoker: bool,
    /// WITH CHECK OPTION.
    pub check_option: CheckOption,
    /// Rows can be changed through it: it joins, filters and computes, and every row is one of its tables'.
    pub updatable: bool,
    /// sql_mode under which the text is read.
    pub sql_mode: Box<str>,
    /// character_set_client and collation_connection of the session that created it.
    pub charset: (Box<str>, Box<str>),
    /// When it was made as it is, microseconds since the epoch; 0: by a version that did not keep it.
    pub create_time_micros: i64,
    /// The metadata lock of its name.
    pub mdl: Arc<MdlObject>,
}

/// Which conditions rows have to meet that are stored through a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CheckOption {
    /// Those of views below that have one.
    #[default]
    None,
    /// The view's own, too.
    Local,
    /// Those of the view and of all views below.
    Cascaded,
}

impl CheckOption {
    /// As information_schema calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Local => "LOCAL",
            Self::Cascaded => "CASCADED",
        }
    }

    /// Its number in the catalog.
    pub(super) fn to_byte(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Local => 1,
            Self::Cascaded => 2,
        }
    }

    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        [Self::None, Self::Local, Self::Cascaded]
            .into_iter()
            .find(|option| option.to_byte() == byte)
    }
}

/// A column of a view.
#[derive(Debug, Clone)]
pub struct ViewColumn {
    /// Name.
    pub name: Arc<str>,
    /// Type; `nullable` tells NOT NULL.
    pub ty: SqlType,
}

/// A column.
#[derive(Debug, Clone)]
pub struct ColumnDef {
    /// Stable id within the table; the row codec keys on it.
    pub id: u32,
    /// Name as written.
    pub name: Arc<str>,
    /// Type; `nullable` tells NOT NULL.
    pub ty: SqlType,
    /// DEFAULT.
    pub default: DefaultDef,
    /// ON UPDATE CURRENT_TIMESTAMP.
    pub on_update_now: bool,
    /// AUTO_INCREMENT.
    pub auto_increment: bool,
    /// INVISIBLE.
    pub invisible: bool,
    /// COMMENT.
    pub comment: Box<str>,
    /// Value of rows older than the column (instant ADD COLUMN), as stored: TIMESTAMP in UTC.
    pub instant_default: Option<Value>,
    /// The column's collation was written out, so SHOW CREATE TABLE prints it always.
    pub explicit_collation: bool,
    /// It is computed from other columns.
    pub generated: Option<GeneratedDef>,
}

/// How a generated column is computed. Its values are stored in every row, those of a VIRTUAL one, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedDef {
    /// The expression, as source text.
    pub text: Box<str>,
    /// STORED rather than VIRTUAL.
    pub stored: bool,
    /// A functional key part: only its index shows it.
    pub hidden: bool,
}

impl ColumnDef {
    /// Is it a functional key part, which nobody sees as a column?
    pub fn is_hidden(&self) -> bool {
        self.generated.as_ref().is_some_and(|g| g.hidden)
    }

    /// Is it the array of a multi-valued index? No other functional key part is JSON.
    pub fn is_array(&self) -> bool {
        self.ty.kind == TypeKind::Json && self.is_hidden()
    }

    /// Is it defined as the column of a generated invisible primary key is?
    pub fn is_row_id(&self) -> bool {
        same_name(&self.name, ROW_ID)
            && (self.auto_increment, self.invisible) == (true, true)
            && (self.ty.kind == TypeKind::BigInt, self.ty.unsigned) == (true, true)
            && !self.ty.nullable
    }
}

#[cfg(test)]
impl ColumnDef {
    /// A column with nothing special about it, for tests.
    pub(crate) fn plain(id: u32, ty: SqlType) -> Self {
        Self {
            id,
            name: format!("c{id}").into(),
            ty,
            default: DefaultDef::None,
            on_update_now: false,
            auto_increment: false,
            invisible: false,
            comment: Box::default(),
            instant_default: None,
            explicit_collation: false,
            generated: None,
        }
    }
}

/// DEFAULT of a column.
#[derive(Debug, Clone)]
pub enum DefaultDef {
    /// NOT NULL without DEFAULT, or what DROP DEFAULT leaves (error 1364).
    None,
    /// A constant of the column's type; NULL included. TIMESTAMP constants are in UTC.
    Value(Value),
    /// CURRENT_TIMESTAMP with the column's fractional digits.
    Now,
    /// `(expression)`: source text, bound when a statement that needs it is compiled.
    Expr(Box<str>),
}

impl DefaultDef {
    /// Is it the same default?
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) | (Self::Now, Self::Now) => true,
            (Self::Value(a), Self::Value(b)) => a.as_ref() == b.as_ref(),
            (Self::Expr(a), Self::Expr(b)) => a == b,
            _ => false,
        }
    }
}

/// An index.
#[derive(Clone)]
pub struct IndexDef {
    /// Id: the tree's.
    pub id: TreeId,
    /// Name; `PRIMARY` for the primary key.
    pub name: Arc<str>,
    /// UNIQUE (also the primary key).
    pub unique: bool,
    /// This is the clustered index.
    pub primary: bool,
    /// Clustered by a hidden row id; not an index users see.
    pub hidden: bool,
    /// INVISIBLE.
    pub invisible: bool,
    /// Made for a foreign key; goes when another index can do its work.
    pub generated: bool,
    /// Key parts; empty when `hidden`.
    pub parts: Vec<IndexPart>,
    /// COMMENT.
    pub comment: Box<str>,
    /// USING as written (`BTREE` or `HASH`), for SHOW CREATE TABLE.
    pub using: Option<Box<str>>,
    /// How keys are built; of no use where `words` or `elements` is set.
    pub codec: KeyCodec,
    /// How entries are made of words: it is a full-text index, and orders nothing.
    pub words: Option<WordCodec>,
    /// How entries are made of an array's elements: it is a multi-valued index, and orders nothing.
    pub elements: Option<ElementCodec>,
    /// Snapshots before this must not read the index (1412).
    pub visible_from: VisibleFrom,
    /// What is done by this index.
    pub accesses: Arc<AccessCounts>,
    /// Where entries live.
    pub tree: Tree,
}

/// A key part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexPart {
    /// Column ordinal.
    pub col: usize,
    /// Prefix length in characters (bytes for binary columns); `None` is the whole column.
    pub prefix_len: Option<u32>,
    /// DESC.
    pub desc: bool,
}

/// A CHECK constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckDef {
    /// Name, unique in the schema.
    pub name: Box<str>,
    /// Condition, as source text.
    pub text: Box<str>,
    /// ENFORCED.
    pub enforced: bool,
    /// Written with a column, so it is dropped with the column.
    pub column: Option<u32>,
}

/// Are two column or index names the same name?
pub fn same_name(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
        || (!(a.is_ascii() && b.is_ascii()) && a.to_lowercase() == b.to_lowercase())
}

impl TableDef {
    /// Ordinal of the column of this name (case-insensitive).
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|c| same_name(&c.name, name) && !c.is_hidden())
    }

    /// The column that `_rowid` stands for: the integer that alone is the primary key, or else the first unique key
    /// without NULL.
    pub fn rowid_column(&self) -> Option<usize> {
        let key = self.shown_primary()?;
        let [part] = &*key.parts else { return None };
        let ty = &self.columns[part.col].ty;
        (key.unique && !ty.nullable && ty.is_integer()).then_some(part.col)
    }

    /// The histogram of a column, if it has one.
    pub fn histogram(&self, col: usize) -> Option<&Arc<Histogram>> {
        let id = self.columns[col].id;
        self.histograms.iter().find(|h| h.column == id)
    }

    /// The clustered index: its tree holds the rows.
    pub fn primary(&self) -> &IndexDef {
        &self.indexes[0]
    }

    /// Has the table a primary key that users see?
    pub fn has_primary_key(&self) -> bool {
        !self.indexes[0].hidden
    }

    /// The indexes whose entries are in the order of their columns, the clustered one first.
    pub fn ordered(&self) -> &[IndexDef] {
        let end = self.indexes.partition_point(|i| !i.is_inverted());
        &self.indexes[..end]
    }

    /// Secondary indexes, without inverted ones.
    pub fn secondary(&self) -> &[IndexDef] {
        &self.ordered()[1..]
    }

    /// Where rows are counted that are found by an index; a scan of all rows in their own order uses none.
    pub fn accesses(&self, index: usize, is_full: bool) -> &Arc<AccessCounts> {
        let index = &self.indexes[index];
        match index.hidden || index.primary && is_full {
            true => &self.runtime.accesses,
            false => &index.accesses,
        }
    }

    /// Indexes that have several entries of a row, or none: multi-valued ones, then full-text ones.
    pub fn inverted(&self) -> &[IndexDef] {
        &self.indexes[self.ordered().len()..]
    }

    /// Full-text indexes.
    pub fn fulltext(&self) -> &[IndexDef] {
        let first = self.indexes.partition_point(|i| !i.is_fulltext());
        &self.indexes[first..]
    }

    /// Indexes as users see them: without a hidden clustered one.
    pub fn visible_indexes(&self) -> &[IndexDef] {
        if self.indexes[0].hidden {
            &self.indexes[1..]
        } else {
            &self.indexes
        }
    }

    /// Is the primary key one that `sql_generate_invisible_primary_key` makes? As in MySQL its definition says so, not
    /// how it came.
    pub fn has_generated_key(&self) -> bool {
        let primary = &self.indexes[0];
        primary.primary
            && matches!(&*primary.parts, [part] if part.col == 0)
            && self.columns[0].is_row_id()
    }

    /// Columns that may be shown to who sees a generated primary key, or does not, with their positions.
    pub fn shown_columns(&self, generated_key: bool) -> impl Iterator<Item = (usize, &ColumnDef)> {
        let skipped = usize::from(!generated_key && self.has_generated_key());
        let columns = self.columns.iter().enumerate().skip(skipped);
        columns.filter(|(_, column)| !column.is_hidden())
    }

    /// Indexes that may be shown, as [`Self::shown_columns`]: unique ones first.
    pub fn shown_indexes(&self, generated_key: bool) -> Vec<&IndexDef> {
        let shown = match !generated_key && self.has_generated_key() {
            true => &self.indexes[1..],
            false => self.visible_indexes(),
        };
        let mut shown: Vec<&IndexDef> = shown.iter().collect();
        // Multi-valued ones stand behind all that are in order.
        shown.sort_by_key(|index| !index.unique);
        shown
    }

    /// The index that clients see as the primary key: without one, the first unique index of whole columns that are
    /// NOT NULL.
    pub fn shown_primary(&self) -> Option<&IndexDef> {
        let is_key = |index: &IndexDef| {
            index.unique
                && index.parts.iter().all(|part| {
                    let column = &self.columns[part.col];
                    !column.ty.nullable && column.generated.is_none() && part.prefix_len.is_none()
                })
        };
        let indexes = self.visible_indexes();
        let primary = indexes.iter().find(|index| index.primary);
        primary.or_else(|| indexes.iter().find(|index| is_key(index)))
    }

    /// Position of the index of this name (case-insensitive; never the hidden one).
    pub fn index_position(&self, name: &str) -> Option<usize> {
        self.indexes
            .iter()
            .position(|i| !i.hidden && same_name(&i.name, name))
    }

    /// The index that a hint names: by its name, or by a beginning that no other name has.
    pub fn hinted_index(&self, name: &str) -> Option<usize> {
        let whole = self.index_position(name);
        let beginning = name.to_lowercase();
        whole.or_else(|| {
            let begins = |index: &IndexDef| index.name.to_lowercase().starts_with(&beginning);
            let indexes = self.indexes.iter().enumerate();
            let mut named = indexes.filter(|(_, index)| !index.hidden && begins(index));
            let (at, _) = named.next()?;
            (!name.is_empty() && named.next().is_none()).then_some(at)
        })
    }

    /// 1412 unless a reader at `snapshot` may use the table through this index.
    pub fn check_visible(&self, index: &IndexDef, snapshot: Seq) -> SqlResult<()> {
        if snapshot >= self.visible_from.get() && snapshot >= index.visible_from.get() {
            return Ok(());
        }
        Err(errors::definition_changed())
    }

    /// The column by which rows are ordered first; none if that is a hidden row id.
    pub fn leading_column(&self) -> Option<usize> {
        self.primary().parts.first().map(|part| part.col)
    }

    /// Tells the engine of which columns blocks of rows are to speak. Before a row of this definition is written.
    pub fn announce_fields(&self) {
        let fields = RowFields::new(&self.columns, &self.layout, self.leading_column());
        self.primary().tree.set_fields(Arc::new(fields));
    }

    /// A value of the AUTO_INCREMENT column was stored that was not drawn; `step` is that of the one who stored it.
    pub fn note_auto(&self, value: u64, step: AutoStep) {
        if let Some(auto) = self.auto_column {
            self.runtime
                .note(value, step, max_auto(&self.columns[auto].ty));
        }
    }

    /// The next AUTO_INCREMENT value, as SHOW prints it; `None` without such a column.
    pub fn next_auto(&self) -> Option<u64> {
        let auto = &self.columns[self.auto_column?];
        Some(self.runtime.next_auto(max_auto(&auto.ty)))
    }

    /// Is it a spatial index? All indexes of geometries are.
    pub fn is_spatial(&self, index: &IndexDef) -> bool {
        let first = index.parts.first();
        first.is_some_and(|part| self.columns[part.col].ty.is_geometry())
    }

    /// Is it shown as a hash index? Those of MEMORY tables are, unless something else was written.
    pub fn shows_hash(&self, index: &IndexDef) -> bool {
        self.engine == StorageEngine::Memory
            && index.using.as_deref().is_none_or(|using| using == "HASH")
    }

    /// The tree whose persistent counter is this table's AUTO_INCREMENT.
    pub fn counter_tree(&self) -> TreeId {
        self.indexes[0].id
    }
}

impl IndexDef {
    /// Is it a full-text index, whose entries are words?
    pub fn is_fulltext(&self) -> bool {
        self.words.is_some()
    }

    /// Is it a multi-valued index, whose entries are elements of an array?
    pub fn is_multi_valued(&self) -> bool {
        self.elements.is_some()
    }

    /// Has it several entries of a row, or none?
    pub fn is_inverted(&self) -> bool {
        self.is_multi_valued() || self.is_fulltext()
    }

    /// Calls `f` with key and value of each entry that a row has in this secondary index. `row` must read in UTC;
    /// `key` is a buffer.
    pub fn entries(
        &self,
        row: &RowReader<'_>,
        clustered: &[u8],
        key: &mut Vec<u8>,
        mut f: impl FnMut(&[u8], &[u8]) -> SqlResult<()>,
    ) -> SqlResult<()> {
        if let Some(words) = &self.words {
            return words.entries(row, clustered, f);
        }
        if let Some(elements) = &self.elements {
            return elements.entries(row, clustered, f);
        }
        let in_value = self.codec.entry(row, clustered, key)?;
        f(key, if in_value { clustered } else { &[] })
    }

    /// The clustered key that an entry of this secondary index points to.
    pub fn clustered_of<'a>(&self, key: &'a [u8], value: &'a [u8]) -> SqlResult<&'a [u8]> {
        match (&self.words, &self.elements) {
            (Some(words), _) => words.clustered_of(key, value),
            (_, Some(elements)) => elements.clustered_of(key, value),
            (None, None) => self.codec.clustered_of(key, value),
        }
    }
}

impl fmt::Debug for TableDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableDef")
            .field("id", &self.id)
            .field("schema", &self.schema)
            .field("name", &self.name)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for IndexDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexDef")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("unique", &self.unique)
            .field("parts", &self.parts)
            .finish_non_exhaustive()
    }
}
