//! Schema statements.
//!
//! Neighbours: `expr` (types, defaults); the `ddl` module executes them.
//! **Invariants**: expressions that are stored (defaults, CHECK, generated columns, views) carry their
//! source text; what MySQL accepts and ignores (KEY_BLOCK_SIZE, TABLESPACE, …) is kept by name in
//! [`TableOption::Other`].

use super::{DataType, Expr, Ident, LockWait, ObjectName, PartitionAction, PartitionBy, Query};

/// An expression with its source text.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceExpr {
    /// Parsed.
    pub expr: Expr,
    /// As written, without surrounding parentheses.
    pub text: Box<str>,
}

/// An option of CREATE/ALTER DATABASE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseOption {
    /// CHARACTER SET; `default` is the word DEFAULT as value.
    Charset(Box<str>),
    /// COLLATE.
    Collate(Box<str>),
    /// ENCRYPTION 'Y' or 'N'.
    Encryption(Vec<u8>),
    /// READ ONLY (ALTER only): true for 1.
    ReadOnly(bool),
    /// COMMENT (MariaDB).
    Comment(Vec<u8>),
}

/// CREATE TABLE.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateTable {
    /// OR REPLACE (MariaDB).
    pub or_replace: bool,
    /// TEMPORARY.
    pub temporary: bool,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// Name.
    pub name: ObjectName,
    /// LIKE: then everything below is empty.
    pub like: Option<ObjectName>,
    /// Columns in order.
    pub columns: Vec<ColumnDef>,
    /// Indexes.
    pub indexes: Vec<IndexSpec>,
    /// Foreign keys.
    pub foreign_keys: Vec<ForeignKey>,
    /// Table-level CHECK constraints.
    pub checks: Vec<Check>,
    /// Options in order.
    pub options: Vec<TableOption>,
    /// PARTITION BY.
    pub partition_by: Option<Box<PartitionBy>>,
    /// AS SELECT.
    pub query: Option<Box<Query>>,
    /// IGNORE or REPLACE before AS SELECT.
    pub on_duplicate: OnDuplicate,
    /// START TRANSACTION: the rows come behind, in BINLOG statements.
    pub starts_transaction: bool,
}

impl CreateTable {
    /// Do the rows of the table come behind it, before anybody sees it?
    pub fn is_filled_later(&self) -> bool {
        self.starts_transaction && !self.temporary && self.query.is_none()
    }
}

/// What CREATE TABLE … SELECT does with duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDuplicate {
    /// Error.
    #[default]
    Error,
    /// IGNORE.
    Ignore,
    /// REPLACE.
    Replace,
}

/// A column definition.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnDef {
    /// Name.
    pub name: Ident,
    /// Type.
    pub ty: DataType,
    /// `Some(true)` NOT NULL, `Some(false)` NULL, `None` not given.
    pub not_null: Option<bool>,
    /// DEFAULT.
    pub default: Option<ColumnDefault>,
    /// ON UPDATE CURRENT_TIMESTAMP(fsp).
    pub on_update_now: Option<u8>,
    /// AUTO_INCREMENT.
    pub auto_increment: bool,
    /// UNIQUE [KEY].
    pub unique: bool,
    /// PRIMARY KEY, or KEY alone.
    pub primary: bool,
    /// COMMENT.
    pub comment: Option<Box<str>>,
    /// GENERATED ALWAYS AS.
    pub generated: Option<Generated>,
    /// `Some(true)` INVISIBLE, `Some(false)` VISIBLE.
    pub invisible: Option<bool>,
    /// Column-level CHECK constraints.
    pub checks: Vec<Check>,
    /// SRID n.
    pub srid: Option<u64>,
}

/// DEFAULT of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnDefault {
    /// A literal (possibly signed).
    Literal(Expr),
    /// CURRENT_TIMESTAMP(fsp) and synonyms.
    Now(u8),
    /// `(expr)`.
    Expr(SourceExpr),
}

/// A generated column's expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// Expression.
    pub expr: SourceExpr,
    /// STORED rather than VIRTUAL.
    pub stored: bool,
}

/// CHECK.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// Constraint name.
    pub name: Option<Ident>,
    /// Condition.
    pub expr: SourceExpr,
    /// Not NOT ENFORCED.
    pub enforced: bool,
    /// Where it stands in the text.
    pub at: usize,
}

/// Kind of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKind {
    /// PRIMARY KEY.
    Primary,
    /// UNIQUE.
    Unique,
    /// KEY, INDEX.
    Plain,
    /// FULLTEXT.
    FullText,
    /// SPATIAL.
    Spatial,
}

/// USING of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexAlgorithm {
    /// BTREE.
    BTree,
    /// HASH.
    Hash,
    /// RTREE.
    RTree,
}

impl IndexAlgorithm {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::BTree => "BTREE",
            Self::Hash => "HASH",
            Self::RTree => "RTREE",
        }
    }
}

/// An index as written.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexSpec {
    /// Kind.
    pub kind: IndexKind,
    /// Name (the constraint's name when only that was given).
    pub name: Option<Ident>,
    /// Key parts.
    pub parts: Vec<KeyPart>,
    /// USING.
    pub using: Option<IndexAlgorithm>,
    /// COMMENT.
    pub comment: Option<Box<str>>,
    /// INVISIBLE.
    pub invisible: bool,
    /// KEY_BLOCK_SIZE.
    pub key_block_size: Option<u64>,
    /// WITH PARSER.
    pub parser: Option<Ident>,
}

/// A key part.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyPart {
    /// Column or expression.
    pub what: KeyPartKind,
    /// DESC.
    pub desc: bool,
    /// ASC or DESC is written.
    pub has_order: bool,
}

/// What a key part indexes.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyPartKind {
    /// `column[(prefix length)]`.
    Column(Ident, Option<u64>),
    /// `(expression)`.
    Expr(SourceExpr),
}

/// FOREIGN KEY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignKey {
    /// Constraint name.
    pub name: Option<Ident>,
    /// Index name.
    pub index: Option<Ident>,
    /// It is the REFERENCES of a column, which MySQL 8.4 forgets.
    pub is_inline: bool,
    /// How many indexes stand before it in CREATE TABLE.
    pub follows: usize,
    /// Referencing columns, with the lengths of prefixes, which no foreign key may have.
    pub columns: Vec<(Ident, Option<u64>)>,
    /// Referenced table.
    pub table: ObjectName,
    /// Referenced columns.
    pub ref_columns: Vec<Ident>,
    /// ON DELETE.
    pub on_delete: Option<RefAction>,
    /// ON UPDATE.
    pub on_update: Option<RefAction>,
}

/// Referential actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the SQL action of that name")]
pub enum RefAction {
    Restrict,
    Cascade,
    SetNull,
    NoAction,
    SetDefault,
}

/// A table option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableOption {
    /// ENGINE.
    Engine(Box<str>),
    /// AUTO_INCREMENT.
    AutoIncrement(u64),
    /// DEFAULT CHARACTER SET.
    Charset(Box<str>),
    /// DEFAULT COLLATE.
    Collate(Box<str>),
    /// COMMENT.
    Comment(Box<str>),
    /// ROW_FORMAT, upper-cased.
    RowFormat(Box<str>),
    /// Any other option MySQL knows: name upper-cased, value as text.
    Other(Box<str>, Box<str>),
}

/// ALGORITHM, LOCK of an online DDL statement and how long it waits for the metadata lock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DdlOptions {
    /// ALGORITHM, upper-cased (DEFAULT is `None`).
    pub algorithm: Option<Box<str>>,
    /// LOCK, upper-cased (DEFAULT is `None`).
    pub lock: Option<Box<str>>,
    /// NOWAIT, WAIT n.
    pub wait: LockWait,
}

/// ALTER TABLE.
#[derive(Debug, Clone, PartialEq)]
pub struct AlterTable {
    /// IF EXISTS (MariaDB).
    pub if_exists: bool,
    /// IGNORE (MariaDB).
    pub ignore: bool,
    /// Name.
    pub name: ObjectName,
    /// Actions in order; may be empty (`ALTER TABLE t` is a no-op).
    pub actions: Vec<AlterAction>,
    /// ALGORITHM, LOCK, NOWAIT.
    pub options: DdlOptions,
    /// WITHOUT VALIDATION rather than WITH.
    pub without_validation: bool,
}

/// Where an added or moved column goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ColumnPosition {
    /// At the end, or where it is.
    #[default]
    Unchanged,
    /// FIRST.
    First,
    /// AFTER.
    After(Ident),
}

/// One action of ALTER TABLE.
#[derive(Debug, Clone, PartialEq)]
pub enum AlterAction {
    /// ADD [COLUMN].
    AddColumn {
        /// Definition.
        def: Box<ColumnDef>,
        /// Place.
        position: ColumnPosition,
    },
    /// ADD INDEX, KEY, UNIQUE, PRIMARY KEY, FULLTEXT, SPATIAL.
    AddIndex(IndexSpec),
    /// ADD FOREIGN KEY.
    AddForeignKey(ForeignKey),
    /// ADD CHECK.
    AddCheck(Check),
    /// DROP [COLUMN].
    DropColumn(Ident),
    /// DROP INDEX, KEY.
    DropIndex(Ident),
    /// DROP PRIMARY KEY.
    DropPrimaryKey,
    /// DROP FOREIGN KEY.
    DropForeignKey(Ident),
    /// DROP CHECK.
    DropCheck(Ident),
    /// DROP CONSTRAINT.
    DropConstraint(Ident),
    /// MODIFY [COLUMN].
    ModifyColumn {
        /// New definition.
        def: Box<ColumnDef>,
        /// Place.
        position: ColumnPosition,
    },
    /// CHANGE [COLUMN].
    ChangeColumn {
        /// Old name.
        old: Ident,
        /// New definition.
        def: Box<ColumnDef>,
        /// Place.
        position: ColumnPosition,
    },
    /// RENAME COLUMN.
    RenameColumn {
        /// Old name.
        old: Ident,
        /// New name.
        new: Ident,
    },
    /// RENAME INDEX, KEY.
    RenameIndex {
        /// Old name.
        old: Ident,
        /// New name.
        new: Ident,
    },
    /// RENAME [TO].
    RenameTo(ObjectName),
    /// ALTER [COLUMN] SET DEFAULT.
    SetDefault {
        /// Column.
        column: Ident,
        /// New default.
        default: ColumnDefault,
    },
    /// ALTER [COLUMN] DROP DEFAULT.
    DropDefault(Ident),
    /// ALTER [COLUMN] SET VISIBLE, INVISIBLE.
    SetColumnVisible {
        /// Column.
        column: Ident,
        /// VISIBLE.
        visible: bool,
    },
    /// ALTER INDEX VISIBLE, INVISIBLE.
    SetIndexVisible {
        /// Index.
        index: Ident,
        /// VISIBLE.
        visible: bool,
    },
    /// ALTER CHECK, CONSTRAINT [NOT] ENFORCED.
    SetEnforced {
        /// Constraint.
        name: Ident,
        /// ENFORCED.
        enforced: bool,
    },
    /// CONVERT TO CHARACTER SET.
    ConvertCharset {
        /// Character set (`default` for DEFAULT).
        charset: Box<str>,
        /// COLLATE.
        collation: Option<Box<str>>,
    },
    /// ORDER BY.
    OrderBy(Vec<Ident>),
    /// DISABLE KEYS.
    DisableKeys,
    /// ENABLE KEYS.
    EnableKeys,
    /// FORCE: rebuild.
    Force,
    /// DISCARD or IMPORT TABLESPACE: the verb in lower case.
    Tablespace(&'static str),
    /// Table option.
    Option(TableOption),
    /// Something about partitions; stands alone but for options, or last (PARTITION BY, REMOVE PARTITIONING).
    Partition(PartitionAction),
    /// IF EXISTS of what is dropped or changed, IF NOT EXISTS of what is added (MariaDB): where that does not hold the
    /// action is left out with a note.
    Conditional(Box<AlterAction>),
}

impl AlterAction {
    /// The action without its condition.
    pub fn bare(&self) -> &Self {
        match self {
            Self::Conditional(action) => action,
            action => action,
        }
    }

    /// The same, under a condition or not.
    pub fn only_if(self, is_conditional: bool) -> Self {
        match is_conditional {
            true => Self::Conditional(Box::new(self)),
            false => self,
        }
    }
}

/// CREATE INDEX.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateIndex {
    /// OR REPLACE (MariaDB).
    pub or_replace: bool,
    /// IF NOT EXISTS (MariaDB).
    pub if_not_exists: bool,
    /// Index; its name is present.
    pub index: IndexSpec,
    /// Table.
    pub table: ObjectName,
    /// ALGORITHM, LOCK, NOWAIT.
    pub options: DdlOptions,
}

/// DROP INDEX.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropIndex {
    /// IF EXISTS (MariaDB).
    pub if_exists: bool,
    /// Index.
    pub name: Ident,
    /// Table.
    pub table: ObjectName,
    /// ALGORITHM, LOCK, NOWAIT.
    pub options: DdlOptions,
}

/// DROP TABLE, DROP VIEW.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropTables {
    /// TEMPORARY.
    pub temporary: bool,
    /// IF EXISTS.
    pub if_exists: bool,
    /// Names, at least one.
    pub names: Vec<ObjectName>,
    /// NOWAIT, WAIT n.
    pub wait: LockWait,
}

/// RENAME TABLE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenameTables {
    /// Old and new names, at least one pair.
    pub pairs: Vec<(ObjectName, ObjectName)>,
    /// IF EXISTS (MariaDB).
    pub if_exists: bool,
    /// NOWAIT, WAIT n.
    pub wait: LockWait,
}

/// CREATE VIEW and ALTER VIEW.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateView {
    /// OR REPLACE.
    pub or_replace: bool,
    /// ALTER VIEW rather than CREATE VIEW.
    pub alter: bool,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// ALGORITHM, upper-cased.
    pub algorithm: Option<Box<str>>,
    /// DEFINER.
    pub definer: Option<super::Account>,
    /// SQL SECURITY INVOKER rather than DEFINER.
    pub invoker: Option<bool>,
    /// Name.
    pub name: ObjectName,
    /// Column names; empty when not given.
    pub columns: Vec<Ident>,
    /// Query.
    pub query: Box<Query>,
    /// Source text of the query.
    pub text: Box<str>,
    /// Where in the text names of tables begin that are written without a database, in order.
    pub bare_tables: Vec<usize>,
    /// Begin and end in the text of `*` and `t.*`: those of the outermost select list, if it has any.
    pub stars: Vec<(usize, usize)>,
    /// WITH [CASCADED|LOCAL] CHECK OPTION: `CASCADED` or `LOCAL`.
    pub check_option: Option<&'static str>,
}
