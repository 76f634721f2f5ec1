//! Merging of derived tables (view merging): they become part of the query that names them.
//!
//! A derived table (a view, a common table expression that is named once) whose query only joins, filters and computes
//! is not filled first: its tables take its place in FROM, its WHERE joins the outer one, and its columns are replaced
//! by what they stand for. Its ORDER BY becomes that of a query which reads nothing else and has none. Then the tables
//! are joined in the best order of all, and read in parallel where the whole block may be.
//!
//! Neighbours: `block` asks before it plans; what is not merged may still be given conditions by `pushdown`.
//! **Invariants**: a merged table gives the same rows as a filled one; slots of the outer block keep their numbers,
//! because plans of subqueries refer to them. Statements that change rows are left as they are: a derived table is
//! filled before the first change.

use std::cell::RefCell;
use std::collections::HashMap;

use super::pushdown::contains;
use crate::bind::{
    BindEnv, Block, Body, BoundQuery, GroupBy, JoinNode, JoinType, OrderKey, ScopeTable, TableKind,
    Volatility, Windows,
};
use crate::expr::{Expr, ExprKind, fold};

/// Most tables of a block; more are not joined by merging.
pub(super) const MOST_TABLES: usize = 61;
/// Most operators of a block's expressions; merging `a + a` of `a + a` of … would double them each time.
const MOST_OPERATORS: usize = 10_000;

/// The block and further conditions on its rows, with every derived table merged that can be; `None` if none can.
pub(super) fn merged(
    env: &BindEnv<'_>,
    block: &Block,
    further: &[Expr],
) -> Option<(Block, Vec<Expr>)> {
    if env.changes_rows.get() || !takes_others(block) {
        return None;
    }
    let mut done: Option<(Block, Vec<Expr>)> = None;
    loop {
        let (outer, conds) = match &done {
            Some((block, conds)) => (block, &conds[..]),
            None => (block, further),
        };
        let candidates = 0..outer.tables.len();
        match candidates.filter_map(|nth| Merge::of(outer, nth)).next() {
            Some(merge) => done = Some(merge.apply(outer, conds)),
            None => return done,
        }
    }
}

/// May tables of another block join this one's?
fn takes_others(block: &Block) -> bool {
    !block.straight_join
        && block.windows.calls.is_empty()
        && !block
            .tables
            .iter()
            .any(|table| table.lateral || matches!(table.kind, TableKind::Json(_)))
}

/// Do the block's rows come in the order of its only table, if that has one, and may they be computed before they are
/// in that order? `@n := @n + 1` numbers them.
fn keeps_order(block: &Block) -> bool {
    block.tables.len() == 1
        && exprs(block).all(is_repeatable)
        && block.group.is_none()
        && block.having.is_none()
        && !block.distinct
        && block.order.is_empty()
}

/// Does the query nothing but joining, filtering and computing what it shows, and ordering it where that `may_order`?
fn is_plain(query: &BoundQuery, may_order: bool) -> Option<&Block> {
    let Body::Block(block) = &query.body else {
        return None;
    };
    let is_plain = query.volatility == Volatility::Stable
        && query.reach == 0
        && super::block::is_shared(query).is_none()
        && takes_others(block)
        && block.join.is_some()
        && block.group.is_none()
        && block.having.is_none()
        && !block.distinct
        && (may_order || block.order.is_empty())
        && block.limit.is_none()
        && !block.calc_found_rows;
    let are_read = |table: &ScopeTable| {
        !matches!(table.kind, TableKind::Recursive(_) | TableKind::Row)
            && table.key_slot.is_none()
            && table.row_slot.is_none()
    };
    (is_plain && block.tables.iter().all(are_read)).then_some(block)
}

/// May it be evaluated as often as the outer query likes?
pub(super) fn is_repeatable(e: &Expr) -> bool {
    !e.any(&mut |e| match &e.kind {
        ExprKind::Subquery(_) | ExprKind::Assign(..) | ExprKind::UserVar(_) => true,
        ExprKind::SeededRand(..) | ExprKind::Outer { .. } | ExprKind::Stored(_) => true,
        ExprKind::Func(call) => fold::is_volatile(call.def),
        _ => false,
    })
}

/// Operators of an expression.
fn size(e: &Expr) -> usize {
    let mut operators = 0;
    e.visit(&mut |_| operators += 1);
    operators
}

/// Has the expression no subquery? Those have plans, which refer to rows of their block by slots.
fn is_alone(e: &Expr) -> bool {
    !e.any(&mut |e| matches!(e.kind, ExprKind::Subquery(_)))
}

/// How one derived table is merged.
struct Merge<'b> {
    /// Its place among the outer tables.
    at: usize,
    inner: &'b Block,
    /// Slots of the outer block, by slot of the inner one.
    places: Vec<u32>,
    /// What the derived table's slots stand for, where that is no column in the same place.
    stands_for: HashMap<u32, Expr>,
    width: u32,
}

impl<'b> Merge<'b> {
    fn of(outer: &'b Block, at: usize) -> Option<Self> {
        let table = &outer.tables[at];
        let TableKind::Derived(query) = &table.kind else {
            return None;
        };
        if table.told.unmerged {
            return None;
        }
        let inner = is_plain(query, keeps_order(outer))?;
        let is_fixed = outer.join.as_ref().is_none_or(|join| is_fixed(join, at));
        let others = outer
            .tables
            .iter()
            .enumerate()
            .filter(|(nth, _)| *nth != at);
        let mut aliases = others.map(|(_, table)| &table.alias);
        let are_named_apart =
            aliases.all(|alias| inner.tables.iter().all(|table| table.alias != *alias));
        let fits = outer.tables.len() + inner.tables.len() - 1 <= MOST_TABLES;
        if is_fixed || !are_named_apart || !fits || !exprs(inner).all(is_alone) {
            return None;
        }
        let merge = Self::with_places(outer, at, inner)?;
        merge.suits(outer).then_some(merge)
    }

    /// Is it a key of WITH ROLLUP that would be an expression? The slot of a key is NULL where it is rolled up, and
    /// what an expression reads is not.
    fn is_rolled_up(&self, outer: &Block) -> bool {
        let rolled_up = outer.group.as_ref().filter(|group| group.rollup.is_some());
        let mut keys = rolled_up.iter().flat_map(|group| &group.keys);
        keys.any(|key| {
            key.as_column()
                .is_some_and(|slot| self.stands_for.contains_key(&slot))
        })
    }

    /// Can the outer block's expressions be rewritten, and stay small?
    fn suits(&self, outer: &Block) -> bool {
        if self.is_rolled_up(outer) {
            return false;
        }
        let sizes: HashMap<u32, usize> = self
            .stands_for
            .iter()
            .map(|(slot, e)| (*slot, size(e)))
            .collect();
        let (mut operators, mut are_read) = (0, false);
        for e in exprs(outer) {
            e.visit(&mut |e| match &e.kind {
                ExprKind::Column(slot) => operators += sizes.get(slot).copied().unwrap_or(1),
                // It is planned, and reads rows of the outer block where they are.
                ExprKind::Subquery(query) => {
                    let reads = &mut |slot| are_read |= sizes.contains_key(&slot);
                    query.plan.outer_slots(1, reads);
                }
                _ => operators += 1,
            });
        }
        !are_read && operators <= MOST_OPERATORS
    }

    fn with_places(outer: &'b Block, at: usize, inner: &'b Block) -> Option<Self> {
        let mut places: Vec<Option<u32>> = vec![None; inner.width as usize];
        let mut computed = Vec::new();
        let table = &outer.tables[at];
        for (column, slot) in table.slots.borrow().iter().enumerate() {
            let (Some(slot), output) = (slot, &inner.output[column]) else {
                continue;
            };
            if output.ty != table.columns[column].ty || !is_repeatable(output) {
                return None;
            }
            match output.as_column().map(|from| &mut places[from as usize]) {
                Some(place @ None) => *place = Some(*slot),
                _ => computed.push((*slot, output)),
            }
        }
        let behind = |(nth, place): (usize, Option<u32>)| place.unwrap_or(outer.width + nth as u32);
        let mut merge = Self {
            at,
            inner,
            places: places.into_iter().enumerate().map(behind).collect(),
            stands_for: HashMap::new(),
            width: outer.width + inner.width,
        };
        for (slot, output) in computed {
            let moved = merge.moved(output);
            merge.stands_for.insert(slot, moved);
        }
        Some(merge)
    }

    fn apply(&self, outer: &Block, further: &[Expr]) -> (Block, Vec<Expr>) {
        let replaced = |e: &Expr| self.replaced(e);
        let count = outer.tables.len() + self.inner.tables.len() - 1;
        let (mut tables, mut locks) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for (nth, table) in outer.tables.iter().enumerate() {
            match nth == self.at {
                true => {
                    let inner = self.inner.tables.iter();
                    tables.extend(inner.map(|table| self.moved_table(table)));
                    locks.extend(&self.inner.locks);
                }
                false => {
                    tables.push(with_slots(table, |slot| slot));
                    locks.push(outer.locks[nth]);
                }
            }
        }
        let keyed = |keys: &[OrderKey]| {
            let keys = keys.iter().cloned().map(|mut key| {
                key.expr = self.replaced(&key.expr);
                key
            });
            keys.collect::<Vec<_>>()
        };
        let mut order = keyed(&outer.order);
        order.extend(self.inner_order());
        debug_assert!(self.inner.order.is_empty() || outer.order.is_empty());
        let group = outer.group.as_ref().map(|group| GroupBy {
            keys: group.keys.iter().map(replaced).collect(),
            aggs: group
                .aggs
                .iter()
                .cloned()
                .map(|mut agg| {
                    agg.args = agg.args.iter().map(replaced).collect();
                    agg.order = keyed(&agg.order);
                    agg
                })
                .collect(),
            ..*group
        });
        let wheres = outer.filter.iter().map(replaced);
        let filters: Vec<Expr> = wheres
            .chain(self.inner.filter.iter().map(|e| self.moved(e)))
            .collect();
        let block = Block {
            id: outer.id,
            locks,
            tables,
            names: Vec::new(),
            join: outer.join.as_ref().map(|join| self.join(join)),
            filter: both(filters),
            group,
            having: outer.having.as_ref().map(replaced),
            windows: Windows {
                base: self.width,
                ..Windows::default()
            },
            output: outer.output.iter().map(replaced).collect(),
            distinct: outer.distinct,
            beside: outer.beside,
            order,
            limit: outer.limit.clone(),
            width: self.width,
            straight_join: false,
            orders: [outer.orders.as_slice(), self.inner.orders.as_slice()].concat(),
            calc_found_rows: outer.calc_found_rows,
        };
        (block, further.iter().map(replaced).collect())
    }

    fn inner_order(&self) -> impl Iterator<Item = OrderKey> {
        self.inner.order.iter().cloned().map(|mut key| {
            key.expr = self.moved(&key.expr);
            key
        })
    }

    /// An expression of the outer block.
    fn replaced(&self, e: &Expr) -> Expr {
        let mut e = e.clone();
        rewrite(&mut e, &|slot| self.stands_for.get(&slot).cloned());
        e
    }

    /// An expression of the inner block.
    fn moved(&self, e: &Expr) -> Expr {
        let mut e = e.clone();
        move_slots(&mut e, &self.places);
        e
    }

    fn moved_table(&self, table: &ScopeTable) -> ScopeTable {
        with_slots(table, |slot| self.places[slot as usize])
    }

    /// The outer joins, with the inner ones in place of the table.
    fn join(&self, node: &JoinNode) -> JoinNode {
        match node {
            JoinNode::Table(nth) if *nth == self.at => {
                let inner = self.inner.join.as_ref().expect("a plain query has tables");
                let number = |nth: usize| self.at + nth;
                inner.map(&number, &|e| self.moved(e))
            }
            JoinNode::Table(nth) if *nth > self.at => {
                JoinNode::Table(nth + self.inner.tables.len() - 1)
            }
            JoinNode::Table(nth) => JoinNode::Table(*nth),
            JoinNode::Join {
                left,
                right,
                kind,
                on,
            } => JoinNode::Join {
                left: Box::new(self.join(left)),
                right: Box::new(self.join(right)),
                kind: *kind,
                on: on.as_ref().map(|e| self.replaced(e)),
            },
        }
    }
}

/// May an outer join null the table's columns, or is its place in the order of joins fixed?
fn is_fixed(node: &JoinNode, table: usize) -> bool {
    match node {
        JoinNode::Table(_) => false,
        JoinNode::Join {
            left, right, kind, ..
        } => {
            let here = match kind {
                JoinType::Inner => false,
                JoinType::Straight => contains(left, table) || contains(right, table),
                JoinType::Left => contains(right, table),
            };
            here || is_fixed(left, table) || is_fixed(right, table)
        }
    }
}

/// Every expression over the rows of a block.
pub(super) fn exprs(block: &Block) -> impl Iterator<Item = &Expr> {
    let mut ons = Vec::new();
    if let Some(join) = &block.join {
        join.conditions(&mut ons);
    }
    let group = block.group.iter().flat_map(|group| {
        let aggs = group.aggs.iter().flat_map(|agg| {
            let order = agg.order.iter().map(|key| &key.expr);
            agg.args.iter().chain(order)
        });
        group.keys.iter().chain(aggs)
    });
    ons.into_iter()
        .chain(&block.filter)
        .chain(group)
        .chain(&block.having)
        .chain(&block.output)
        .chain(block.order.iter().map(|key| &key.expr))
}

fn both(mut conds: Vec<Expr>) -> Option<Expr> {
    if conds.len() < 2 {
        return conds.pop();
    }
    let (ty, coer) = (conds[0].ty.clone(), conds[0].coer);
    Some(Expr {
        kind: ExprKind::And(conds),
        ty,
        coer,
    })
}

/// Replaces columns for which `by` gives something.
fn rewrite(e: &mut Expr, by: &dyn Fn(u32) -> Option<Expr>) {
    if let ExprKind::Column(slot) = e.kind {
        if let Some(other) = by(slot) {
            *e = other;
        }
        return;
    }
    for child in e.children_mut() {
        rewrite(child, by);
    }
}

fn move_slots(e: &mut Expr, places: &[u32]) {
    if let ExprKind::Column(slot) = &mut e.kind {
        *slot = places[*slot as usize];
    }
    for child in e.children_mut() {
        move_slots(child, places);
    }
}

/// The same table with its columns in other slots.
pub(super) fn with_slots(table: &ScopeTable, place: impl Fn(u32) -> u32) -> ScopeTable {
    let slots = table.slots.borrow();
    ScopeTable {
        schema: table.schema.clone(),
        alias: table.alias.clone(),
        kind: table.kind.clone(),
        columns: table.columns.clone(),
        hints: table.hints.clone(),
        partitions: table.partitions.clone(),
        told: table.told,
        slots: RefCell::new(slots.iter().map(|slot| slot.map(&place)).collect()),
        key_slot: table.key_slot.map(&place),
        row_slot: table.row_slot.map(&place),
        lateral: table.lateral,
        nulled: table.nulled,
        restricted: None,
        merged: None,
        views: Vec::new(),
    }
}
