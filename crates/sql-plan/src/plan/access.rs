//! Access paths: the ways to read one table, with their cardinality and cost.
//!
//! A path is a full scan, a key range scan, a lookup by a prefix of a key (`ref`) or by a whole unique key (`point`),
//! of the clustered index or of a secondary one, covering or not. Cardinalities come from histograms, index samples and
//! index dives; costs from [`cost`].
//!
//! Neighbours: `join_order` asks for the cheapest path given the tables that are bound before; `block` asks which path
//! delivers rows in the order of ORDER BY; `ranges` makes key ranges.
//! **Invariants**: a path never decides which rows are true, the scan evaluates every condition
//! again; values of a path's operands are known when the scan opens. Parts: `rows` (cardinalities), `order` (of what a
//! path gives), `union` (several indexes for one disjunction), `loose` (the first entries of groups), `skip` (ranges of
//! second parts), `entries` (index condition pushdown).

mod entries;
mod loose;
mod order;
mod rows;
mod skip;
mod union;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use esker_sql_catalog::catalog::{IndexDef, TableDef};
use esker_sql_syntax::ast::{IndexHintKind, IndexHintScope};
use esker_types::SqlType;

pub(super) use self::loose::LooseScan;

use super::edge::{always_located, usable};
use super::exact::are_one_range;
use super::ranges::RangeSpec;
use super::{Access, AccessKind, ElementSearch, KeyOperand, cost, stats};
use crate::bind::array::{Elements, Membership, indexed_array};
use crate::bind::fulltext::wanted_match;
use crate::bind::{BindEnv, Block, ScopeTable};
use crate::expr::{CmpOp, Expr, ExprKind, Test};

/// A stored table as the planner sees it.
pub(super) struct Target<'a> {
    pub def: &'a Arc<TableDef>,
    /// Slots by column.
    pub slots: Vec<Option<u32>>,
    pub types: Vec<SqlType>,
    table: &'a ScopeTable,
    /// Rows must come from the clustered index: they are locked, or their bytes are wanted.
    whole_rows: bool,
    /// Rows are locked.
    locked: bool,
    /// No other table is in the block.
    alone: bool,
    /// Nothing is wanted but the number of rows.
    counted: bool,
    /// The order of the rows for which it is opened one by one.
    order: Option<Ascending>,
    /// What its constant ranges were counted to, and its number there.
    counted_ranges: Option<(&'a CountedRanges, usize)>,
    pub rows: f64,
}

/// Rows in ranges of constants, by table, index and number of tests: long lists are made into ranges, and these looked
/// up, once for all join orders.
#[derive(Default)]
pub(super) struct CountedRanges(RefCell<HashMap<(usize, usize, usize), f64>>);

impl CountedRanges {
    fn get(&self, key: (usize, usize, usize)) -> Option<f64> {
        self.0.borrow().get(&key).copied()
    }

    fn insert(&self, key: (usize, usize, usize), rows: f64) {
        self.0.borrow_mut().insert(key, rows);
    }
}

/// Rows that come in ascending order of a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ascending {
    pub slot: u32,
    pub rows: f64,
}

/// A way to read a table.
#[derive(Debug, Clone)]
pub(super) struct Path {
    pub access: Access,
    /// Rows read per opening.
    pub rows: f64,
    /// Cost per opening.
    pub cost: f64,
    /// The key was pinned by a hint.
    forced: bool,
}

fn only_counts(block: &Block) -> bool {
    block.group.as_ref().is_some_and(|group| {
        group.keys.is_empty()
            && group
                .aggs
                .iter()
                .all(|agg| agg.def.name == "count" && agg.args.is_empty())
    })
}

/// The cheapest of a table's paths.
pub(super) fn cheapest(paths: &[Path]) -> &Path {
    let cheapest = paths.iter().min_by(|a, b| a.cost.total_cmp(&b.cost));
    cheapest.expect("the whole table is always a path")
}

impl<'a> Target<'a> {
    pub fn new(block: &'a Block, nth: usize, def: &'a Arc<TableDef>) -> Self {
        let table = &block.tables[nth];
        let locked = block.locks[nth].is_some();
        Self {
            def,
            slots: table.slots.borrow().clone(),
            types: def.columns.iter().map(|c| c.ty.clone()).collect(),
            table,
            locked,
            alone: block.tables.len() == 1,
            counted: block.tables.len() == 1 && only_counts(block),
            order: None,
            counted_ranges: None,
            whole_rows: locked || table.key_slot.is_some() || table.row_slot.is_some(),
            rows: stats::table_rows(def).max(1.0),
        }
    }

    /// The same, opened for one row after the other in this order.
    pub fn after(self, order: Option<Ascending>) -> Self {
        Self { order, ..self }
    }

    /// The same, as table `nth` of a search that prices its paths again and again.
    pub fn remembering(self, nth: usize, counted: &'a CountedRanges) -> Self {
        let counted_ranges = Some((counted, nth));
        Self {
            counted_ranges,
            ..self
        }
    }

    /// The slot by which the rows of a path ascend.
    pub fn ascending(&self, path: &Path) -> Option<u32> {
        let is_walk = matches!(path.access.kind, AccessKind::Full | AccessKind::Ranges(_));
        let part = self.def.indexes[path.access.index].parts.first()?;
        let goes_up = is_walk && !path.access.reverse && !part.desc && part.prefix_len.is_none();
        self.slots[part.col].filter(|_| goes_up)
    }

    /// Does an entry of the index have every column that is used?
    fn covers(&self, index: usize) -> bool {
        if index == 0 || self.whole_rows {
            return index == 0;
        }
        let used = self.slots.iter().enumerate().filter(|(_, s)| s.is_some());
        let mut cols = used.map(|(col, _)| col);
        cols.all(|col| self.has_entry(index, col))
    }

    /// Does an entry of a secondary index have the column's value?
    fn has_entry(&self, index: usize, col: usize) -> bool {
        let in_index = |i: &IndexDef| {
            let at = i.parts.iter().position(|p| p.col == col);
            at.is_some_and(|n| i.codec.is_reversible(n))
        };
        in_index(&self.def.indexes[index]) || in_index(self.def.primary())
    }

    /// Indexes that may be used for finding rows, with whether a hint asks for them.
    fn candidates(&self, scope: IndexHintScope) -> Vec<(usize, bool)> {
        let indexes = self.def.ordered().iter().enumerate();
        let usable = indexes.filter(|(_, index)| !index.hidden);
        usable
            .filter_map(|(nth, index)| Some((nth, self.table.allowed(index, scope)?)))
            .collect()
    }

    /// Cost of reading, and locking, so many rows by an index.
    fn index_cost(&self, index: usize, rows: f64) -> f64 {
        let read = if index == 0 {
            cost::CLUSTERED_ROW
        } else if self.covers(index) {
            // Narrow entries are read faster than wide ones.
            let def = &self.def.indexes[index];
            let width = stats::key_len(self.def, def, def.parts.len()).min(cost::WIDE_ENTRY_BYTES);
            cost::COVERING_ENTRY
                - cost::NARROW_ENTRY_DISCOUNT * f64::from(cost::WIDE_ENTRY_BYTES - width)
                    / f64::from(cost::WIDE_ENTRY_BYTES)
        } else {
            cost::COVERING_ENTRY + cost::LOOKUPS_PER_ENTRY * self.seek()
        };
        let locked = if self.locked { cost::LOCKED_ROW } else { 0.0 };
        rows * (read + locked)
    }

    /// Cost of finding a key of this table.
    fn seek(&self) -> f64 {
        cost::SEEK
            * (1.0
                + (cost::CACHE_MISS_FACTOR - 1.0) * (self.rows / cost::LARGE_TABLE_ROWS).min(1.0))
    }

    /// Cost of finding a key of an index by these operands.
    fn seek_by(&self, index: &IndexDef, operands: &[KeyOperand]) -> f64 {
        let leads = |order: &Ascending| {
            let first = operands.first().and_then(|o| o.expr.as_column());
            first == Some(order.slot) && index.parts.first().is_some_and(|p| !p.desc)
        };
        match self.order.filter(leads) {
            Some(order) => (cost::NEAR_SEEK + cost::SKIP_ENTRY * self.rows / order.rows.max(1.0))
                .min(self.seek()),
            None => self.seek(),
        }
    }

    /// All paths that may be taken.
    pub fn paths(
        &self,
        env: &BindEnv<'_>,
        conds: &[Expr],
        known: &dyn Fn(&Expr) -> bool,
    ) -> Vec<Path> {
        let mut paths = vec![self.full(0)];
        let candidates = self.candidates(IndexHintScope::Join);
        for &(nth, forced) in &candidates {
            let keyed = self.keyed(env, nth, conds, known);
            if let Some(mut path) = keyed.or_else(|| self.skipping(env, nth, conds, known)) {
                path.forced = forced;
                paths.push(path);
            }
            if nth > 0 && self.covers(nth) {
                paths.push(self.full(nth));
            }
        }
        if !self.table.told.without_union {
            let disjunctions = conds
                .iter()
                .filter(|cond| matches!(cond.kind, ExprKind::Or(_)));
            paths
                .extend(disjunctions.filter_map(|cond| self.merged(env, cond, known, &candidates)));
        }
        paths.extend(conds.iter().filter_map(|cond| self.searched(cond)));
        self.by_elements(env, conds, known, &mut paths);
        if paths.iter().any(|p| p.forced) {
            paths.retain(|p| p.forced);
        }
        // Of a single table, a whole unique key decides, however small the table is: a locking read then locks
        // that key only, also where it is absent.
        let is_point = |p: &Path| matches!(p.access.kind, AccessKind::Point(_));
        if self.alone && paths.iter().any(is_point) {
            paths.retain(is_point);
        }
        // What is read is locked, so a key that leads to few rows beats reading the table, also where that is as cheap.
        let (all, is_small) = (self.rows, self.is_small());
        let reads_few = |p: &Path| {
            let is_keyed = !matches!(p.access.kind, AccessKind::Full);
            is_keyed && (p.rows * cost::FEW_FRACTION <= all || (is_small && p.rows < all))
        };
        if self.locked && self.alone && paths.iter().any(reads_few) {
            paths.retain(reads_few);
        }
        paths
    }

    /// Are the rows that are read locked?
    pub fn locks_rows(&self) -> bool {
        self.locked
    }

    /// Has the table so few rows that any key beats reading all of it?
    pub fn is_small(&self) -> bool {
        self.rows < cost::SMALL_TABLE_ROWS
    }

    /// The cheapest path.
    pub fn best(&self, env: &BindEnv<'_>, conds: &[Expr], known: &dyn Fn(&Expr) -> bool) -> Path {
        cheapest(&self.paths(env, conds, known)).clone()
    }

    /// A path around a chosen access.
    pub fn path_of(&self, access: Access) -> Path {
        Path {
            access,
            rows: self.rows,
            cost: self.rows,
            forced: false,
        }
    }

    /// Reading everything through an index.
    pub fn full(&self, index: usize) -> Path {
        let kind = AccessKind::Full;
        let access = Access {
            index,
            kind,
            reverse: false,
            for_order: false,
            covering: index > 0 && self.covers(index),
        };
        let cost = self.index_cost(index, self.rows) + self.seek();
        Path {
            access,
            rows: self.rows,
            cost,
            forced: false,
        }
    }

    /// Reading the rows that a full-text search may find, if a condition asks for them.
    fn searched(&self, cond: &Expr) -> Option<Path> {
        let call = wanted_match(cond).filter(|call| call.def.id == self.def.id)?;
        let is_own = |e: &Expr| self.column_of(e).is_some();
        let index = &self.def.indexes[call.index];
        let mut hints = self.table.hints.iter();
        let is_ignored = hints.any(|hint| {
            let mut names = hint.indexes.iter();
            hint.kind == IndexHintKind::Ignore
                && names.any(|n| esker_sql_catalog::catalog::same_name(&n.text, &index.name))
        });
        if is_ignored || !call.columns.iter().all(is_own) {
            return None;
        }
        let rows = (self.rows * cost::SEARCHED_FRACTION).max(1.0);
        let access = Access {
            index: call.index,
            kind: AccessKind::Match(Arc::new(call.clone())),
            reverse: false,
            for_order: false,
            covering: false,
        };
        Some(Path {
            access,
            rows,
            // Whoever has a full-text index wants it to be used.
            cost: self.seek(),
            forced: false,
        })
    }

    /// Adds the paths of conditions that multi-valued indexes serve.
    fn by_elements(
        &self,
        env: &BindEnv<'_>,
        conds: &[Expr],
        known: &dyn Fn(&Expr) -> bool,
        paths: &mut Vec<Path>,
    ) {
        let first = self.def.ordered().len();
        for (nth, index) in self.def.inverted().iter().enumerate() {
            let Some(codec) = &index.elements else {
                continue;
            };
            let Some(forced) = self.table.allowed(index, IndexHintScope::Join) else {
                continue;
            };
            let array = indexed_array(env, self.table, self.def, codec.column());
            let Ok(Some(array)) = array else {
                continue;
            };
            let slot = self.slots[codec.column()];
            let wanted = |cond| array.wanted(env, cond, slot, known);
            for elements in conds.iter().filter_map(wanted) {
                let search = ElementSearch {
                    id: env.subquery_id(),
                    elements,
                };
                paths.push(self.element_path(first + nth, search, forced));
            }
        }
    }

    /// Rows that have one of the elements, and how many these are.
    fn rows_with(&self, index: usize, elements: &Elements) -> (f64, f64) {
        let keys = match elements {
            Elements::Keys(keys) => keys,
            Elements::Of(how, ..) => {
                let count = match how {
                    Membership::Member | Membership::Contains => 1.0,
                    Membership::Overlaps => cost::OVERLAPPING_ELEMENTS,
                };
                let of_one = match self.def.indexes[index].unique {
                    true => 1.0,
                    false => stats::rows_per_key(self.rows, 1, 1),
                };
                return (count * of_one, count);
            }
        };
        let codec = self.def.indexes[index].elements.as_ref();
        let rows_with = |element: &Vec<u8>| {
            codec.map_or(self.rows, |codec| {
                self.one_range_rows(index, &codec.element_range(element))
            })
        };
        // Of many elements some stand for all.
        let every = keys.len().div_ceil(cost::MAX_INDEX_DIVES).max(1);
        let looked_at = keys.iter().step_by(every);
        let rows = looked_at.map(|element| rows_with(element) * every as f64);
        (rows.sum(), keys.len() as f64)
    }

    fn element_path(&self, index: usize, search: ElementSearch, forced: bool) -> Path {
        let (rows, count) = self.rows_with(index, &search.elements);
        let rows = rows.max(1.0).min(self.rows.max(1.0));
        let row_cost = cost::COVERING_ENTRY + cost::LOOKUPS_PER_ENTRY * self.seek();
        let cost = rows * row_cost + count * self.seek();
        let access = Access {
            index,
            kind: AccessKind::Elements(Arc::new(search)),
            reverse: false,
            for_order: false,
            covering: false,
        };
        Path {
            access,
            rows,
            cost,
            forced,
        }
    }

    /// Reading part of an index.
    fn keyed(
        &self,
        env: &BindEnv<'_>,
        nth: usize,
        conds: &[Expr],
        known: &dyn Fn(&Expr) -> bool,
    ) -> Option<Path> {
        let index = &self.def.indexes[nth];
        let operands = self.operands(index, conds, known);
        let matched = operands.len();
        let seek = self.seek_by(index, &operands);
        let path = |kind, rows: f64| {
            let covering = nth > 0 && self.covers(nth);
            let access = Access {
                index: nth,
                kind,
                reverse: false,
                for_order: false,
                covering,
            };
            let rows = rows.min(self.rows).max(if rows < 1.0 { rows } else { 1.0 });
            Path {
                access,
                rows,
                cost: self.index_cost(nth, rows) + seek,
                forced: false,
            }
        };
        let whole =
            matched == index.parts.len() && index.parts.iter().all(|p| p.prefix_len.is_none());
        if index.unique && whole && operands.iter().all(|o| !o.null_safe) {
            return Some(path(AccessKind::Point(operands), 1.0));
        }
        let spec = RangeSpec::new(&index.parts, &self.types, &self.slots, conds, known);
        let further = spec.as_ref().is_some_and(|s| s.leading_parts() > matched);
        if matched > 0 && !further {
            let rows = self.matching_rows(env, nth, &operands);
            return Some(self.judged_early(path(AccessKind::Ref(operands), rows), conds));
        }
        let spec = spec?;
        let rows = self.range_rows(env, nth, &spec, conds);
        let further_seeks = spec.ranges().saturating_sub(1) as f64;
        let mut path = path(AccessKind::Ranges(Arc::new(spec)), rows);
        path.cost += further_seeks * cost::NEAR_SEEK;
        if self.counted && are_one_range(self.def, nth, |col| self.slots[col], conds) {
            // Most of it is known without reading: only the extents at its ends are not.
            path.cost = path.cost.min(cost::COUNT_RANGE_SEEKS * self.seek());
        }
        Some(self.judged_early(path, conds))
    }

    /// The column of an expression, if it is one of this table.
    fn column_of(&self, e: &Expr) -> Option<usize> {
        let slot = e.as_column()?;
        self.slots.iter().position(|s| *s == Some(slot))
    }

    /// Values that the leading parts of an index equal.
    fn operands(
        &self,
        index: &IndexDef,
        conds: &[Expr],
        known: &dyn Fn(&Expr) -> bool,
    ) -> Vec<KeyOperand> {
        let mut operands = Vec::new();
        for part in &index.parts {
            let Some(operand) = conds.iter().find_map(|c| self.operand(part.col, c, known)) else {
                break;
            };
            operands.push(operand);
        }
        operands
    }

    fn operand(
        &self,
        col: usize,
        cond: &Expr,
        known: &dyn Fn(&Expr) -> bool,
    ) -> Option<KeyOperand> {
        let ty = &self.types[col];
        match &cond.kind {
            ExprKind::Cmp(cmp) if matches!(cmp.op, CmpOp::Eq | CmpOp::NullSafeEq) => {
                for (arg, value) in [(&cmp.left, &cmp.right), (&cmp.right, &cmp.left)] {
                    let fits = self.column_of(arg) == Some(col)
                        && known(value)
                        && usable(ty, value, cmp.kind)
                        && always_located(ty, value);
                    if fits {
                        let null_safe = cmp.op == CmpOp::NullSafeEq;
                        return Some(KeyOperand {
                            expr: value.clone(),
                            null_safe,
                        });
                    }
                }
                None
            }
            ExprKind::Is {
                arg,
                test: Test::Null,
                negated: false,
            } => {
                let fits = self.column_of(arg) == Some(col);
                fits.then(|| KeyOperand {
                    expr: Expr::null(),
                    null_safe: true,
                })
            }
            _ => None,
        }
    }

    /// The smallest index that has every used column, for reading everything.
    pub fn smallest_covering(&self) -> Path {
        let mut best = self.full(0);
        for (nth, _) in self.candidates(IndexHintScope::Join) {
            if nth > 0 && self.covers(nth) {
                let path = self.full(nth);
                if path.cost < best.cost {
                    best = path;
                }
            }
        }
        best
    }
}
