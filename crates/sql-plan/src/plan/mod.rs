//! The planner: a cost-based optimizer from bound blocks to operators, and EXPLAIN.
//!
//! In flow order: `merge` (derived tables become part of the query), `pushdown` (conditions move into those that stay),
//! `apart` (subqueries taken out of their row), `semi_join` (those of WHERE as joins), `looked_up` (EXISTS by a hash
//! table), `conds` (splitting and placing conditions), `known_columns` (constant propagation), `equalities` and
//! `implied_ranges` (their transitive closure), `edge`, `edge_plain`, `ranges`, `range_build`, `runs`, `exact`
//! (conditions to key ranges), `stats` and `estimate` (selectivity, cardinality), `cost` (the cost model), `effort`
//! (what a finished plan costs), `access` (access paths), `join_units`, `join_order`, `join_hints`, `join_search` and
//! `join_greedy` (join enumeration), `join_scan` (the tables of a join), `anti_join` (outer joins that want no match),
//! `ordered` (ORDER BY by an index), `grouped` (streaming aggregation), `loose` (loose index scan), `extremes` (MIN and
//! MAX from an index), `group_keys` (functional dependencies in GROUP BY), `window` (shared sorts), `needed`
//! (projection pushdown), `block` (a whole block), `strategy` (serial or parallel), `explain`, `profile` (what
//! operators did, for EXPLAIN ANALYZE), `column_ranges` (what a scan says of columns), `counted` (what status variables
//! count), `trace` (what was considered, for OPTIMIZER_TRACE), `keyed` (plans that are good for other values, too).
//! Statements that need no planning at all are `esker_sql_exec::short`'s. Neighbours: `bind` below in the flow, `exec`
//! runs the plans.
//!
//! **Invariants**: a plan is immutable, `Send + Sync` and independent of the session that made it;
//! every condition of a block is evaluated at the first operator where its columns are there, also
//! when an access path already implies it, unless the path is exact.

mod access;
mod anti_join;
mod apart;
mod block;
mod column_ranges;
mod conds;
mod cost;
mod counted;
pub(crate) mod edge;
mod edge_plain;
mod effort;
mod equalities;
mod estimate;
mod exact;
pub mod explain;
mod extremes;
mod group_keys;
mod grouped;
mod implied_ranges;
mod join_greedy;
mod join_hints;
mod join_order;
mod join_scan;
mod join_search;
mod join_units;
mod keyed;
mod known_columns;
mod looked_up;
mod loose;
mod merge;
mod needed;
mod ordered;
pub mod profile;
mod pushdown;
mod range_build;
pub mod ranges;
mod runs;
mod semi_join;
mod stats;
pub mod strategy;
mod trace;
mod window;

use std::rc::Rc;
use std::sync::Arc;

use esker_sql_catalog::catalog::{IndexDef, TableDef, TableId};
use esker_sql_catalog::result::ColumnMeta;
use esker_sql_syntax::ast;
use esker_types::SqlResult;
use esker_types::cmp::CmpKind;

use crate::bind::virt::{Pushed, VirtualTable};
use crate::bind::{
    AggCall, BindEnv, JoinType, LimitSpec, LockSpec, OrderKey, Volatility, bind_query,
};
use crate::bind::{Elements, JsonTable};
use crate::expr::{CmpOp, Expr, ExprKind, Match, SubqueryForm};

pub use block::plan_bound;
pub use conds::is_cheap;
pub use counted::Counted;
pub use edge::Edge;
pub use edge_plain::locate_plain;
pub use effort::{rows_looked_at, rows_out};
pub use stats::{fixed_bytes, table_rows, tree_entries};
pub use strategy::{ParallelBuild, SplitPoint, Strategy};
pub use trace::{PlanTrace, TraceFeatures};
pub use window::{CallPlan, SortPlan, WindowPlan, WindowRun};

/// A planned query expression.
#[derive(Debug)]
pub struct QueryPlan {
    /// Result columns.
    pub columns: Arc<[ColumnMeta]>,
    /// Takes row locks (FOR UPDATE, FOR SHARE): it writes nothing but needs a transaction.
    pub locking: bool,
    /// Estimated rows that have to be looked at: whether a shared worker may run it inline.
    pub cost_rows: f64,
    /// Estimated rows of the result.
    pub rows: f64,
    /// Calls functions that wait (SLEEP, GET_LOCK).
    pub blocks: bool,
    /// Calls stored functions: the tables that the statement reads, which these must not change.
    pub calls: Option<Box<[TableId]>>,
    /// What produces the rows.
    pub root: Root,
    /// Levels of enclosing queries it refers to (0 = none).
    pub reach: u16,
    /// How long a result holds.
    pub volatility: Volatility,
}

impl QueryPlan {
    /// Does one query block read several tables?
    pub fn is_join(&self) -> bool {
        fn joins(node: &Node) -> bool {
            match node {
                Node::Join(_) => true,
                Node::Filter(input, _) => joins(input),
                Node::Once | Node::Nothing(_) | Node::Scan(_) => false,
            }
        }
        matches!(&self.root, Root::Block(block) if joins(&block.source))
    }

    /// Is a stored table of the outermost block read from one end to the other, and not through a secondary index
    /// (SERVER_QUERY_NO_INDEX_USED)?
    pub fn scans_a_table(&self) -> bool {
        fn scans(node: &Node) -> bool {
            match node {
                Node::Once | Node::Nothing(_) => false,
                Node::Filter(input, _) => scans(input),
                Node::Join(join) => scans(&join.left) || scans(&join.right),
                Node::Scan(scan) => matches!(
                    &scan.source,
                    Source::Base { access, .. }
                        if matches!(access.kind, AccessKind::Full) && access.index == 0
                ),
            }
        }
        matches!(&self.root, Root::Block(block) if scans(&block.source))
    }

    /// Does a table whose rows are to be changed have to be read from one end to the other, because no condition uses a
    /// key (sql_safe_updates)? A small table may be read whole all the same.
    pub fn reads_without_key(&self) -> bool {
        fn whole(node: &Node) -> bool {
            match node {
                Node::Once | Node::Nothing(_) => false,
                Node::Filter(input, _) => whole(input),
                Node::Join(join) => whole(&join.left) || whole(&join.right),
                Node::Scan(scan) => scan.key_slot.is_some() && scan.is_without_key(),
            }
        }
        matches!(&self.root, Root::Block(block) if whole(&block.source))
    }

    /// Reads only what is in the statement: no table.
    pub fn is_tableless(&self) -> bool {
        match &self.root {
            Root::Block(b) => matches!(b.source, Node::Once | Node::Nothing(_)),
            Root::SetOps(s) => {
                s.first.is_tableless() && s.steps.iter().all(|(_, _, q)| q.is_tableless())
            }
            Root::Recursive(_) => false,
            Root::Values(_) => true,
        }
    }
}

impl QueryPlan {
    /// Calls `f` with every slot of the row `depth` levels up that running the plan may read.
    pub fn outer_slots(&self, depth: u16, f: &mut dyn FnMut(u32)) {
        match &self.root {
            Root::Block(block) => block.outer_slots(depth, f),
            Root::SetOps(ops) => {
                ops.first.outer_slots(depth, f);
                for (_, _, query) in &ops.steps {
                    query.outer_slots(depth, f);
                }
                for key in &ops.order {
                    key.expr.outer_slots(depth, f);
                }
            }
            Root::Recursive(recursive) => {
                for query in std::iter::once(&recursive.seed).chain(&recursive.members) {
                    query.outer_slots(depth, f);
                }
            }
            Root::Values(values) => {
                let keys = values.order.iter().map(|key| &key.expr);
                for expr in values.rows.iter().flatten().chain(keys) {
                    expr.outer_slots(depth, f);
                }
            }
        }
    }
}

impl BlockPlan {
    /// Is its select list computed for the rows that are given, and not for rows that are put aside before?
    pub fn gives_directly(&self) -> bool {
        !self.distinct && self.windows.is_none()
    }

    /// The values that tell rows apart for DISTINCT.
    pub fn compared(&self) -> &[Expr] {
        &self.output[..self.output.len() - self.beside]
    }

    /// Calls `f` with every expression of the block, its tables and joins.
    pub(crate) fn each_expr(&self, f: &mut dyn FnMut(&Expr)) {
        self.output.iter().chain(&self.having).for_each(&mut *f);
        self.order.iter().for_each(|key| f(&key.expr));
        if let Some(group) = &self.group {
            let args = group.aggs.iter().flat_map(|a| &a.args);
            group.keys.iter().chain(args).for_each(&mut *f);
            let orders = group.aggs.iter().flat_map(|a| &a.order);
            orders.for_each(|key| f(&key.expr));
        }
        if let Some(windows) = &self.windows {
            windows.exprs().for_each(&mut *f);
        }
        self.source.each_expr(f);
    }

    fn outer_slots(&self, depth: u16, f: &mut dyn FnMut(u32)) {
        self.each_expr(&mut |expr| expr.outer_slots(depth, f));
        self.source.tables_outer_slots(depth, f);
    }
}

impl GroupPlan {
    /// The keys that tell groups apart.
    pub fn telling_keys(&self) -> impl Iterator<Item = &Expr> {
        let keys = self.keys.iter().zip(&self.tells);
        keys.filter_map(|(key, tells)| tells.then_some(key))
    }
}

impl Node {
    /// Adds the slots that its tables fill.
    pub fn filled_slots(&self, slots: &mut Vec<u32>) {
        match self {
            Node::Once | Node::Nothing(_) => {}
            Node::Filter(input, _) => input.filled_slots(slots),
            Node::Join(join) => {
                join.left.filled_slots(slots);
                join.right.filled_slots(slots);
            }
            Node::Scan(scan) => slots.extend(scan.columns.iter().map(|(_, slot)| *slot)),
        }
    }

    /// Calls `f` with the conditions and keys of its tables and joins.
    fn each_expr(&self, f: &mut dyn FnMut(&Expr)) {
        match self {
            Node::Once | Node::Nothing(_) => {}
            Node::Filter(child, conds) => {
                conds.iter().for_each(&mut *f);
                child.each_expr(f);
            }
            Node::Join(join) => {
                join.on.iter().for_each(&mut *f);
                if let JoinMethod::Hash { left, right, .. } = &join.method {
                    left.iter().chain(right).for_each(&mut *f);
                }
                join.left.each_expr(f);
                join.right.each_expr(f);
            }
            Node::Scan(scan) => {
                scan.conds.iter().for_each(&mut *f);
                if let Source::Json(table) = &scan.source {
                    f(&table.doc);
                }
            }
        }
    }

    /// The slots that computed tables read.
    fn tables_outer_slots(&self, depth: u16, f: &mut dyn FnMut(u32)) {
        match self {
            Node::Once | Node::Nothing(_) => {}
            Node::Filter(child, _) => child.tables_outer_slots(depth, f),
            Node::Join(join) => {
                join.left.tables_outer_slots(depth, f);
                join.right.tables_outer_slots(depth, f);
            }
            Node::Scan(scan) => {
                if let Source::Derived(plan) | Source::Shared(_, plan) = &scan.source {
                    // A lateral table is one level further in.
                    plan.outer_slots(depth + u16::from(scan.lateral), f);
                }
            }
        }
    }
}

/// What produces the rows of a plan.
#[derive(Debug)]
pub enum Root {
    /// Shared with the threads that help to read its table.
    Block(Arc<BlockPlan>),
    /// UNION, INTERSECT, EXCEPT.
    SetOps(Box<SetOpsPlan>),
    /// WITH RECURSIVE.
    Recursive(Box<RecursivePlan>),
    /// VALUES.
    Values(Box<ValuesPlan>),
}

/// One query block.
#[derive(Debug)]
pub struct BlockPlan {
    /// EXPLAIN's id.
    pub id: u32,
    /// Where rows come from.
    pub source: Node,
    /// Slots of the row.
    pub width: u32,
    /// Grouping.
    pub group: Option<GroupPlan>,
    /// HAVING.
    pub having: Option<Expr>,
    /// Window functions.
    pub windows: Option<Box<WindowPlan>>,
    /// Select list.
    pub output: Vec<Expr>,
    /// DISTINCT.
    pub distinct: bool,
    /// How many values at the end of the select list DISTINCT does not compare: they are those of the first of equal
    /// rows.
    pub beside: usize,
    /// ORDER BY that is left to do.
    pub order: Vec<OrderKey>,
    /// LIMIT.
    pub limit: Option<LimitSpec>,
    /// Count rows beyond LIMIT.
    pub calc_found_rows: bool,
    /// How its rows are read and brought together.
    pub strategy: Strategy,
    /// Estimated rows behind each stage.
    pub estimates: StageRows,
}

/// Estimated rows behind the stages of a block, before LIMIT cuts.
#[derive(Debug, Clone, Copy)]
pub struct StageRows {
    /// Behind grouping; of joins where nothing is grouped.
    pub grouped: f64,
    /// Behind HAVING and window functions.
    pub kept: f64,
    /// Behind DISTINCT.
    pub distinct: f64,
}

/// Grouping and aggregates.
#[derive(Debug)]
pub struct GroupPlan {
    /// GROUP BY.
    pub keys: Vec<Expr>,
    /// Which of the keys tell groups apart; the others follow from them.
    pub tells: Vec<bool>,
    /// First slot of their values.
    pub key_base: u32,
    /// Aggregate functions.
    pub aggs: Vec<AggCall>,
    /// WITH ROLLUP: slot of the first of the keys' "rolled up" flags.
    pub rollup: Option<u32>,
    /// No GROUP BY: one row even without input.
    pub implicit: bool,
    /// Rows with equal keys follow each other: a group is given when the next one begins.
    pub is_streaming: bool,
    /// Slots of the first row of a group that are read after grouping.
    pub kept: Vec<u32>,
}

/// Set operations.
#[derive(Debug)]
pub struct SetOpsPlan {
    /// The leftmost query.
    pub first: Arc<QueryPlan>,
    /// What follows from left to right: the operation, whether it is ALL, the query.
    pub steps: Vec<(ast::SetOp, bool, Arc<QueryPlan>)>,
    /// ORDER BY.
    pub order: Vec<OrderKey>,
    /// LIMIT.
    pub limit: Option<LimitSpec>,
    /// Count rows beyond LIMIT.
    pub calc_found_rows: bool,
}

/// A recursive common table expression.
#[derive(Debug)]
pub struct RecursivePlan {
    /// Number of its working table.
    pub id: u32,
    /// The members that do not read it: its first round.
    pub seed: Arc<QueryPlan>,
    /// The members that read the round before.
    pub members: Vec<Arc<QueryPlan>>,
    /// UNION DISTINCT: only rows that are new go into a round.
    pub distinct: bool,
    /// LIMIT.
    pub limit: Option<LimitSpec>,
}

/// VALUES ROW(…).
#[derive(Debug)]
pub struct ValuesPlan {
    /// The rows.
    pub rows: Vec<Vec<Expr>>,
    /// ORDER BY.
    pub order: Vec<OrderKey>,
    /// LIMIT.
    pub limit: Option<LimitSpec>,
}

/// An operator that fills slots of the block's row.
#[derive(Debug)]
pub enum Node {
    /// One row without slots: no FROM.
    Once,
    /// No row; why, as EXPLAIN says it.
    Nothing(&'static str),
    /// Rows of one table.
    Scan(Box<ScanPlan>),
    /// Rows of two inputs.
    Join(Box<JoinPlan>),
    /// The rows for which every condition is true.
    Filter(Box<Node>, Vec<Expr>),
}

/// Reading one table.
#[derive(Debug)]
pub struct ScanPlan {
    /// Alias, for EXPLAIN.
    pub alias: Arc<str>,
    /// What is read.
    pub source: Source,
    /// Conditions on this table's row (and rows before it), evaluated as soon as it is read, one after the other.
    pub conds: Vec<Expr>,
    /// Positions of `conds` that an entry of the index decides before its row is read.
    pub entry_conds: Vec<usize>,
    /// Columns to decode, with their slots: first those that `conds` read.
    pub columns: Vec<(usize, u32)>,
    /// How many of `columns` the conditions need.
    pub cond_columns: usize,
    /// How many each condition needs, with those before it.
    pub cond_ends: Vec<usize>,
    /// Slot of the row key.
    pub key_slot: Option<u32>,
    /// Slot of the stored row.
    pub row_slot: Option<u32>,
    /// Stop after the first row: MIN or MAX read from an end of the index.
    pub first_only: bool,
    /// Loose index scan: which of the rows that are equal in leading key parts are enough.
    pub first_of: Option<FirstOf>,
    /// Row locks.
    pub lock: Option<LockSpec>,
    /// LATERAL: the derived table sees the row so far.
    pub lateral: bool,
    /// Estimated rows per opening, before and after the conditions.
    pub rows_in: f64,
    /// See `rows_in`.
    pub rows_out: f64,
}

impl ScanPlan {
    /// Is a stored table read from one end to the other, and no condition asks for values of a key?
    fn is_without_key(&self) -> bool {
        let Source::Base {
            def,
            access,
            candidates,
        } = &self.source
        else {
            return false;
        };
        let is_key = |slot: u32| {
            let at = self.columns.iter().find(|(_, known)| *known == slot);
            at.is_some_and(|(col, _)| {
                let first = |index: &IndexDef| index.parts.first().map(|part| part.col);
                def.indexes.iter().any(|index| first(index) == Some(*col))
            })
        };
        // The values of a subquery are looked up, whether it is joined or asked.
        let is_asked = |cond: &Expr| match &cond.kind {
            ExprKind::Subquery(query) => match &query.form {
                SubqueryForm::Compare { left, op, all, .. } => {
                    *op == CmpOp::Eq && !all && left.iter().filter_map(Expr::as_column).any(is_key)
                }
                _ => false,
            },
            _ => false,
        };
        let is_full = matches!(access.kind, AccessKind::Full);
        is_full && candidates.is_empty() && !self.conds.iter().any(is_asked)
    }
}

/// What a loose index scan gives of the entries that are equal in leading key parts: the first one at least.
#[derive(Debug, Clone, Copy)]
pub struct FirstOf {
    /// How many parts.
    pub parts: usize,
    /// If the next part of the first one is NULL, the first one whose is not, too.
    pub passes_nulls: bool,
    /// The last one, too.
    pub with_last: bool,
}

/// What a scan reads.
pub enum Source {
    /// A stored table.
    Base {
        /// Its definition.
        def: Arc<TableDef>,
        /// How its rows are found.
        access: Access,
        /// Positions of the indexes that could have been used, for EXPLAIN.
        candidates: Vec<usize>,
    },
    /// A computed table.
    Virtual {
        /// The table.
        table: Arc<dyn VirtualTable>,
        /// Conditions with which it may make fewer rows.
        pushed: Vec<Pushed>,
    },
    /// A subquery of FROM.
    Derived(Arc<QueryPlan>),
    /// A common table expression that several places read: computed once, kept under this number.
    Shared(u32, Arc<QueryPlan>),
    /// JSON_TABLE: its document is read from the row so far.
    Json(Arc<JsonTable>),
    /// The last round of a recursive common table expression, by its number.
    Work(u32),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Base { def, access, .. } => f
                .debug_tuple("Base")
                .field(&def.name)
                .field(access)
                .finish(),
            Self::Virtual { table, .. } => f.debug_tuple("Virtual").field(&table.name()).finish(),
            Self::Derived(plan) => f.debug_tuple("Derived").field(plan).finish(),
            Self::Shared(id, plan) => f.debug_tuple("Shared").field(id).field(plan).finish(),
            Self::Json(table) => f.debug_tuple("Json").field(&table.doc).finish(),
            Self::Work(id) => f.debug_tuple("Work").field(id).finish(),
        }
    }
}

/// How a stored table's rows are found.
#[derive(Debug, Clone)]
pub struct Access {
    /// Position in the table's `indexes`; 0 is the clustered one.
    pub index: usize,
    /// Which of its entries.
    pub kind: AccessKind,
    /// From the last entry to the first.
    pub reverse: bool,
    /// The index was chosen for the order of its entries.
    pub for_order: bool,
    /// The index entry alone has every needed column.
    pub covering: bool,
}

impl Access {
    /// The indexes that are read, by position.
    pub fn indexes(&self) -> Vec<usize> {
        match &self.kind {
            AccessKind::Union(union) => union.members.iter().map(|m| m.index).collect(),
            _ => vec![self.index],
        }
    }

    /// Is an index read from one end to the other, for its order or instead of the rows?
    fn is_index_scan(&self) -> bool {
        self.index > 0 || self.for_order
    }
}

/// Which entries of an index.
#[derive(Debug, Clone)]
pub enum AccessKind {
    /// All.
    Full,
    /// At most one: every part of a unique key equals a non-null value.
    Point(Vec<KeyOperand>),
    /// Leading parts equal values.
    Ref(Vec<KeyOperand>),
    /// Ranges from conditions, computed when the scan opens.
    Ranges(Arc<ranges::RangeSpec>),
    /// Rows that have one of the words that a full-text search looks for.
    Match(Arc<Match>),
    /// Rows that have one of some elements in the array of a multi-valued index.
    Elements(Arc<ElementSearch>),
    /// Ranges of the parts behind the first one, in the entries of each of its values: skip scan.
    Skip(Arc<SkipScan>),
    /// Rows in ranges of several indexes, of which `index` is the first: index merge union.
    Union(Arc<IndexUnion>),
}

/// What a skip scan reads of the entries with one value of the first part.
#[derive(Debug)]
pub struct SkipScan {
    /// Their ranges in the parts behind it, computed when the scan opens.
    pub ranges: ranges::RangeSpec,
}

impl SkipScan {
    /// How many leading parts of the index it speaks of.
    pub(super) fn parts(&self) -> usize {
        1 + self.ranges.leading_parts()
    }
}

/// Ranges of several indexes, whose rows are taken once each.
#[derive(Debug)]
pub struct IndexUnion {
    /// One for each index.
    pub members: Vec<UnionMember>,
    /// A member's entries do not come in the order of their clustered keys, as EXPLAIN says it.
    pub is_sorted: bool,
}

impl IndexUnion {
    /// How EXPLAIN calls it.
    pub(super) fn name(&self) -> &'static str {
        match self.is_sorted {
            true => "sort_union",
            false => "union",
        }
    }
}

/// What an index merge union reads of one index.
#[derive(Debug)]
pub struct UnionMember {
    /// Position in the table's `indexes`.
    pub index: usize,
    /// Which of its entries, computed when the scan opens.
    pub ranges: ranges::RangeSpec,
    /// Estimated entries.
    pub rows: f64,
}

/// A search in a multi-valued index.
#[derive(Debug)]
pub struct ElementSearch {
    /// Number in the statement: of the keys that are found.
    pub id: u32,
    /// What is looked for.
    pub elements: Elements,
}

/// The value a key part is compared with.
#[derive(Debug, Clone)]
pub struct KeyOperand {
    /// Value, over the row so far, enclosing rows and constants.
    pub expr: Expr,
    /// `<=>` or IS NULL: NULL is a value.
    pub null_safe: bool,
}

/// Two inputs joined.
#[derive(Debug)]
pub struct JoinPlan {
    /// The input that is read once.
    pub left: Node,
    /// Shared with the threads that help to read it.
    pub right: Arc<Node>,
    /// Inner or left outer.
    pub kind: JoinType,
    /// Anti-join: a condition above drops every left row that meets a right one, so the first one that it meets ends
    /// the search. A join on disk may still give it.
    pub is_anti: bool,
    /// Conditions of the join evaluated when both rows are there.
    pub on: Vec<Expr>,
    /// How the right input is searched.
    pub method: JoinMethod,
    /// How several threads read the right input for the hash table.
    pub build: Option<ParallelBuild>,
    /// Estimated rows.
    pub rows: f64,
    /// Slots that `left` fills and somebody reads afterwards.
    pub left_slots: Vec<u32>,
    /// The same of `right`: nulled for a left row without match.
    pub right_slots: Vec<u32>,
}

/// How the right input is searched.
#[derive(Debug)]
pub enum JoinMethod {
    /// Opened again for every left row.
    Nested,
    /// Read once into memory, looked through for every left row.
    Buffered,
    /// Read once into a hash table on `right`, probed with `left`.
    Hash {
        /// Keys of left rows.
        left: Vec<Expr>,
        /// Keys of right rows.
        right: Vec<Expr>,
        /// How each pair of them compares.
        by: Vec<HashBy>,
    },
}

/// How one pair of hash keys compares.
#[derive(Debug, Clone, Copy)]
pub struct HashBy {
    /// The domain in which both are compared.
    pub kind: CmpKind,
    /// `<=>`: NULL equals NULL.
    pub null_safe: bool,
}

/// Binds and plans a query.
///
/// # Errors
/// Everything that is wrong with the statement's names and types.
pub fn plan_query(env: &BindEnv<'_>, query: &ast::Query) -> SqlResult<Arc<QueryPlan>> {
    let bound = bind_query(env, query, None, None)?;
    plan_bound(env, &Rc::new(bound))
}
