//! PARTITION BY and what ALTER TABLE does with partitions.
//!
//! Neighbours: `ddl` has the statements around them; the `ddl` module checks and stores the partitioning.
//! **Invariant**: what the clause leaves to the table (the columns of `KEY ()`, the number of partitions) is left open
//! here, too.

use super::{Expr, Ident, ObjectName, SourceExpr};

/// PARTITION BY.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionBy {
    /// RANGE, LIST, HASH, KEY.
    pub method: PartitionMethod,
    /// SUBPARTITION BY: HASH or KEY.
    pub sub: Option<PartitionMethod>,
    /// PARTITIONS.
    pub count: Option<u64>,
    /// SUBPARTITIONS.
    pub sub_count: Option<u64>,
    /// The partitions, if they are listed.
    pub partitions: Vec<PartitionSpec>,
}

/// How rows find their partition.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionMethod {
    /// RANGE, LIST, HASH, KEY.
    pub kind: PartitionKind,
    /// LINEAR.
    pub linear: bool,
    /// ALGORITHM of KEY.
    pub algorithm: Option<u8>,
    /// What it depends on.
    pub on: PartitionOn,
}

/// Kinds of partitioning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the SQL word of that name")]
pub enum PartitionKind {
    Range,
    List,
    Hash,
    Key,
}

/// What partitions depend on.
#[derive(Debug, Clone, PartialEq)]
pub enum PartitionOn {
    /// An integer expression.
    Expr(SourceExpr),
    /// Columns: RANGE COLUMNS, LIST COLUMNS, KEY.
    Columns(Vec<Ident>),
}

/// A partition as written.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionSpec {
    /// Name.
    pub name: Ident,
    /// VALUES.
    pub values: PartitionValues,
    /// Its options.
    pub options: PartitionOptions,
    /// Its subpartitions, if they are listed.
    pub subpartitions: Vec<(Ident, PartitionOptions)>,
}

/// VALUES of a partition.
#[derive(Debug, Clone, PartialEq)]
pub enum PartitionValues {
    /// Not given.
    None,
    /// LESS THAN: a value a column.
    LessThan(Vec<PartitionValue>),
    /// IN: rows of values.
    In(Vec<Vec<PartitionValue>>),
}

/// A value of a partition.
#[derive(Debug, Clone, PartialEq)]
pub enum PartitionValue {
    /// MAXVALUE.
    Max,
    /// A constant.
    Constant(Expr),
}

/// Options of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartitionOptions {
    /// ENGINE.
    pub engine: Option<Box<str>>,
    /// COMMENT.
    pub comment: Option<Box<str>>,
    /// DATA DIRECTORY.
    pub data_directory: Option<Box<str>>,
    /// INDEX DIRECTORY.
    pub index_directory: Option<Box<str>>,
    /// TABLESPACE.
    pub tablespace: Option<Box<str>>,
    /// MAX_ROWS.
    pub max_rows: u64,
    /// MIN_ROWS.
    pub min_rows: u64,
}

/// Partitions that an action is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionNames {
    /// ALL.
    All,
    /// By name.
    Listed(Vec<Ident>),
}

/// What ALTER TABLE does with partitions.
#[derive(Debug, Clone, PartialEq)]
pub enum PartitionAction {
    /// PARTITION BY.
    By(Box<PartitionBy>),
    /// REMOVE PARTITIONING.
    Remove,
    /// ADD PARTITION (…) or PARTITIONS n.
    Add(Vec<PartitionSpec>, Option<u64>),
    /// DROP PARTITION.
    Drop(Vec<Ident>),
    /// COALESCE PARTITION n.
    Coalesce(u64),
    /// REORGANIZE PARTITION … INTO; without a list it distributes rows anew.
    Reorganize(Option<(Vec<Ident>, Vec<PartitionSpec>)>),
    /// TRUNCATE PARTITION.
    Truncate(PartitionNames),
    /// REBUILD PARTITION.
    Rebuild(PartitionNames),
    /// EXCHANGE PARTITION … WITH TABLE; whether rows are held against the partition.
    Exchange(Ident, ObjectName, bool),
    /// DISCARD or IMPORT PARTITION … TABLESPACE: the verb in lower case.
    Tablespace(PartitionNames, &'static str),
    /// SECONDARY_LOAD, SECONDARY_UNLOAD: the words.
    Other(&'static str),
}

impl PartitionAction {
    /// May nothing else follow in the statement?
    pub fn stands_alone(&self) -> bool {
        !matches!(self, Self::By(_) | Self::Remove)
    }
}
