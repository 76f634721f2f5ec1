//! Optimizer hints, `/*+ … */`: what each query block is told, and what the statement is.
//!
//! Neighbours: the parser's `hint` reads them and finds out which contradict each other; the binder applies those of a
//! block to its tables, the session those of the statement.
//! **Invariant**: every query block of a statement with hints has a [`BlockHints`], and all of them share one list, so
//! that a hint may be about another block than the one it stands in.

use std::sync::{Arc, OnceLock};

use super::{Ident, Literal};

/// The hints that concern a query block. Shared by the blocks of a statement, and complete when it has been parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockHints {
    /// The block's place among those of the statement.
    pub block: usize,
    /// All hints of the statement.
    pub all: Arc<OnceLock<StatementHints>>,
}

impl BlockHints {
    /// Hints of the whole statement.
    pub fn statement(&self) -> Option<&StatementHints> {
        self.all.get()
    }

    /// Hints of this block.
    pub fn own(&self) -> Option<&HintsOfBlock> {
        self.statement()?.blocks.get(self.block)
    }
}

/// All hints of a statement.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StatementHints {
    /// Those of its query blocks, in the order of their first words.
    pub blocks: Vec<HintsOfBlock>,
    /// MAX_EXECUTION_TIME, milliseconds.
    pub max_execution_millis: Option<u32>,
    /// SET_VAR.
    pub variables: Vec<(Ident, Literal)>,
    /// RESOURCE_GROUP.
    pub resource_group: Option<Ident>,
}

/// Hints of a query block.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HintsOfBlock {
    /// QB_NAME, or `select#n`.
    pub name: Box<str>,
    /// Warnings about hints that stand in the block: error number and text.
    pub notes: Vec<(u16, String)>,
    /// Hints that allow or forbid something.
    pub switches: Vec<HintSwitch>,
    /// JOIN_FIXED_ORDER.
    pub fixed_order: bool,
    /// JOIN_ORDER and its kin.
    pub orders: Vec<JoinOrderHint>,
}

/// What a hint allows or forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HintKind {
    /// BKA: batched key access.
    Bka,
    /// BNL: buffered nested loops, and hash joins in their place.
    Bnl,
    /// HASH_JOIN.
    HashJoin,
    /// MERGE: a derived table becomes part of the query.
    Merge,
    /// DERIVED_CONDITION_PUSHDOWN.
    ConditionPushdown,
    /// MRR: multi-range read.
    Mrr,
    /// NO_ICP: index condition pushdown.
    ConditionInIndex,
    /// NO_RANGE_OPTIMIZATION.
    Range,
    /// INDEX_MERGE.
    IndexMerge,
    /// SKIP_SCAN.
    SkipScan,
    /// INDEX: for everything.
    Index,
    /// JOIN_INDEX: for finding rows.
    JoinIndex,
    /// GROUP_INDEX.
    GroupIndex,
    /// ORDER_INDEX.
    OrderIndex,
    /// SEMIJOIN and SUBQUERY: how subqueries are run. Indexes are strategies.
    Subquery,
}

impl HintKind {
    /// Is it about indexes of a table?
    pub fn is_of_indexes(self) -> bool {
        use HintKind as K;
        match self {
            K::Mrr | K::ConditionInIndex | K::Range => true,
            _ => self.is_compound(),
        }
    }

    /// Is it given once for all indexes of a table?
    pub fn is_compound(self) -> bool {
        use HintKind as K;
        matches!(self, K::IndexMerge | K::SkipScan) || self.is_index_use()
    }

    /// Does it say what an index may be used for?
    pub fn is_index_use(self) -> bool {
        use HintKind as K;
        matches!(
            self,
            K::Index | K::JoinIndex | K::GroupIndex | K::OrderIndex
        )
    }

    /// Do both say something of the same?
    pub fn overlaps(self, other: Self) -> bool {
        let is_all = self == HintKind::Index || other == HintKind::Index;
        self == other || (is_all && self.is_index_use() && other.is_index_use())
    }
}

/// A hint that allows or forbids something.
#[derive(Debug, Clone, PartialEq)]
pub struct HintSwitch {
    /// The hint's name.
    pub name: &'static str,
    /// What it is about.
    pub kind: HintKind,
    /// Allowed, or forbidden.
    pub on: bool,
    /// The table; `None`: all of the block.
    pub table: Option<Ident>,
    /// Indexes of the table; none: all of them.
    pub indexes: Vec<Ident>,
}

/// Which tables of a join come in a given order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinOrderKind {
    /// Those that are named, with others anywhere.
    Order,
    /// Those that are named come first.
    Prefix,
    /// Those that are named come last.
    Suffix,
}

/// JOIN_ORDER, JOIN_PREFIX, JOIN_SUFFIX.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinOrderHint {
    /// The hint's name.
    pub name: &'static str,
    /// Where the tables come.
    pub kind: JoinOrderKind,
    /// Tables, first to last.
    pub tables: Vec<Ident>,
}
