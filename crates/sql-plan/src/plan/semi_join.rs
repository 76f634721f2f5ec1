//! Semi-joins and anti-joins: conditions `IN (SELECT …)`, `EXISTS (SELECT …)` and `NOT EXISTS (SELECT …)` as joins with
//! the distinct rows of their query.
//!
//! As a condition a subquery is asked for every row: a subquery of constants by a look into its rows, a correlated one
//! by running it. That is good for few rows, and while an index finds what is asked for. As a join its rows may come
//! first and find the block's by an index, or fill a hash table once. A correlated query is taken out of its row for
//! that: what it compares with the row by `=` becomes a column of its result (Kim, "On Optimizing an SQL-like Nested
//! Query", TODS 1982; MySQL's strategy "materialization").
//!
//! Neighbours: `block` plans a block as it is, asks here for the other form, and takes the cheaper one.
//! **Invariants**
//! - Only conjuncts of WHERE are joined, where NULL is as good as FALSE.
//! - Rows of the subquery are distinct in the very domain in which they are compared, so no row is joined twice.
//! - Slots of the block keep their numbers, because plans of other subqueries refer to them.

use std::rc::Rc;
use std::sync::Arc;

use esker_sql_catalog::result::ColumnMeta;
use esker_types::cmp::CmpKind;
use esker_types::{SqlType, TypeKind};

use super::block::{limit_value, rows_out};
use super::conds::split;
use super::cost::{KEPT_ROW, SEEK, SUBQUERY_RUN};
use super::merge::{MOST_TABLES, exprs, is_repeatable};
use super::{AccessKind, BlockPlan, JoinMethod, Node, QueryPlan, Root, ScanPlan, Source};
use crate::bind::{
    BindEnv, Block, Body, BoundQuery, JoinNode, JoinType, ScopeColumn, ScopeTable, TableKind,
    Volatility, move_up,
};
use crate::expr::{Cmp, CmpOp, Expr, ExprKind, Subquery, SubqueryForm, Test, rowkey};

/// By what factor joining has to be cheaper: a scan that asks may be parallel, and estimates of joins are rougher.
const GAIN: f64 = 1.5;

/// Rows that are asked about for each one that LIMIT wants.
const ASKED_PER_ROW: f64 = 4.0;
/// The alias of a joined subquery is this, its number, and `>`.
const ALIAS: &str = "<subquery";

/// Is it the scan of a joined subquery?
pub(super) fn is_joined(scan: &ScanPlan) -> bool {
    scan.alias.starts_with(ALIAS)
}

/// A subquery that is joined.
struct Joined {
    rows: Rc<BoundQuery>,
    /// What a row of the block has to be equal to, by column of `rows`.
    keys: Vec<Key>,
    /// What the subquery says of the block's row alone.
    further: Vec<Expr>,
    /// NOT EXISTS.
    is_anti: bool,
}

/// An equality of the block's row with a row of the subquery.
struct Key {
    outer: Expr,
    kind: CmpKind,
    inner: Expr,
}

/// The block with its subqueries joined; `None` if there is none that can be.
pub(super) fn joined(env: &BindEnv<'_>, block: &Block) -> Option<Block> {
    let filter = block.filter.as_ref()?;
    // What runs again for other rows would fill its joined subqueries again.
    if block.join.is_none()
        || block.straight_join
        || !block.windows.calls.is_empty()
        || block_reads_outside(block)
    {
        return None;
    }
    let mut conds = Vec::new();
    split(filter, &mut conds);
    let mut subqueries = Vec::new();
    conds.retain(|cond| {
        let fits = block.tables.len() + subqueries.len() < MOST_TABLES;
        let found = if fits { Joined::of(env, cond) } else { None };
        let is_kept = found.is_none();
        subqueries.extend(found);
        is_kept
    });
    if subqueries.is_empty() {
        return None;
    }
    // What is joined from the left of an outer join comes first.
    subqueries.sort_by_key(|subquery| subquery.is_anti);
    let mut with = block.clone();
    for subquery in subqueries {
        subquery.join(&mut with, &mut conds);
    }
    with.filter = (!conds.is_empty()).then(|| Expr::all_of(conds));
    Some(with)
}

/// Is the plan with joined subqueries better than the one that asks them?
pub(super) fn is_better(joining: &Root, asking: &Root) -> bool {
    match (joining, asking) {
        (Root::Block(joining), Root::Block(asking)) => {
            locks_by_key(&joining.source) && effort(joining) * GAIN < effort(asking)
        }
        _ => false,
    }
}

/// Are rows that are locked found by a key? A condition that a scan evaluates decides before its row is locked for
/// good, or gives the lock back below REPEATABLE READ; a join comes later.
fn locks_by_key(node: &Node) -> bool {
    match node {
        Node::Once | Node::Nothing(_) => true,
        Node::Filter(input, _) => locks_by_key(input),
        Node::Join(join) => locks_by_key(&join.left) && locks_by_key(&join.right),
        Node::Scan(scan) => match &scan.source {
            Source::Base { access, .. } => {
                scan.lock.is_none() || !matches!(access.kind, AccessKind::Full)
            }
            _ => true,
        },
    }
}

/// Rows of a block's joins that are asked about; a LIMIT without an order needs the first of them only.
fn rows_asked(block: &BlockPlan) -> f64 {
    let rows = rows_out(&block.source).max(1.0);
    let ends_early = block.order.is_empty()
        && block.group.is_none()
        && !block.distinct
        && !block.calc_found_rows;
    let number = |e: &Expr| limit_value(e).map_or(f64::INFINITY, |n| n as f64);
    match &block.limit {
        Some(limit) if ends_early => {
            let wanted = number(&limit.count) + limit.offset.as_ref().map_or(0.0, number);
            rows.min(wanted * ASKED_PER_ROW)
        }
        _ => rows,
    }
}

/// What a block costs: rows that are read and kept, and openings of indexes and of subqueries.
fn effort(block: &BlockPlan) -> f64 {
    let rows = rows_asked(block);
    let mut subqueries = 0.0;
    block.each_expr(&mut |expr| {
        expr.visit(&mut |e| {
            if let ExprKind::Subquery(query) = &e.kind {
                let plan = &query.plan;
                subqueries += match query.correlated {
                    true => rows * (SUBQUERY_RUN + plan.cost_rows),
                    false => plan.cost_rows + plan.rows * KEPT_ROW,
                };
            }
        });
    });
    subqueries + effort_of_joins(&block.source)
}

fn effort_of_joins(node: &Node) -> f64 {
    match node {
        Node::Once | Node::Nothing(_) => 1.0,
        Node::Filter(input, _) => effort_of_joins(input),
        Node::Scan(scan) => match &scan.source {
            Source::Derived(plan) | Source::Shared(_, plan) => {
                plan.cost_rows + rows_kept(plan) * KEPT_ROW
            }
            Source::Base { access, .. } if !matches!(access.kind, AccessKind::Full) => {
                SEEK + scan.rows_in
            }
            _ => scan.rows_in,
        },
        Node::Join(join) => {
            let (left, right) = (effort_of_joins(&join.left), effort_of_joins(&join.right));
            match join.method {
                JoinMethod::Nested => left + rows_out(&join.left) * right,
                _ => left + right,
            }
        }
    }
}

/// Rows that a derived table is filled with, before those that are the same are left out.
fn rows_kept(plan: &QueryPlan) -> f64 {
    match &plan.root {
        Root::Block(block) => block.estimates.kept,
        _ => plan.rows,
    }
}

impl Joined {
    fn of(env: &BindEnv<'_>, cond: &Expr) -> Option<Self> {
        let (subquery, is_anti) = match &cond.kind {
            ExprKind::Subquery(subquery) => (subquery, false),
            ExprKind::Not(arg) => match &arg.kind {
                ExprKind::Subquery(subquery) => (subquery, true),
                _ => return None,
            },
            _ => return None,
        };
        let query = env.subquery(subquery.id)?;
        let Body::Block(inner) = &query.body else {
            return None;
        };
        if !is_separable(subquery, &query, inner) {
            return None;
        }
        let mut keys = compared(subquery, inner, is_anti)?;
        let (mut filter, mut further) = (Vec::new(), Vec::new());
        if let Some(cond) = &inner.filter {
            split(cond, &mut filter);
        }
        let mut is_apart = true;
        filter.retain(|cond| {
            if !reads_outside(cond) {
                return true;
            }
            match (Key::of(cond), of_outside(cond)) {
                (Some(key), _) => keys.push(key),
                (None, Some(cond)) => further.push(cond),
                (None, None) => is_apart = false,
            }
            false
        });
        let apart = Block {
            filter: (!filter.is_empty()).then(|| Expr::all_of(filter)),
            output: keys.iter().map(|key| key.inner.clone()).collect(),
            distinct: true,
            beside: 0,
            order: Vec::new(),
            ..(**inner).clone()
        };
        if keys.is_empty() || !is_apart || !keys.iter().all(Key::is_distinct_as_compared) {
            return None;
        }
        let column = |(nth, key): (usize, &Key)| {
            let name = column_name(inner, &key.inner).unwrap_or_else(|| format!("key{nth}").into());
            ColumnMeta::computed(name, key.inner.ty.clone())
        };
        (!block_reads_outside(&apart)).then(|| Self {
            rows: Rc::new(BoundQuery {
                columns: keys.iter().enumerate().map(column).collect(),
                body: Body::Block(Box::new(apart)),
                reach: 0,
                volatility: query.volatility,
                shared: None,
            }),
            keys,
            further,
            is_anti,
        })
    }

    /// Adds the join to a block, and what remains to be asked to its conditions.
    fn join(self, block: &mut Block, conds: &mut Vec<Expr>) {
        let Body::Block(inner) = &self.rows.body else {
            unreachable!("made of a block");
        };
        let (at, first) = (block.tables.len(), block.width);
        let columns = self.rows.columns.iter().map(|column| ScopeColumn {
            name: column.name.clone(),
            ty: column
                .ty
                .clone()
                .with_nullable(column.ty.nullable || self.is_anti),
            meta: column.clone(),
            invisible: true,
        });
        let alias = format!("{ALIAS}{}>", inner.id).into();
        let kind = TableKind::Derived(Rc::clone(&self.rows));
        let table = ScopeTable::with_columns("".into(), alias, kind, columns.collect());
        let slots = (first..).take(self.keys.len());
        table.slots.replace(slots.map(Some).collect());
        let column = |nth: usize| Expr::column(first + nth as u32, table.columns[nth].ty.clone());
        let equal = |(nth, key): (usize, &Key)| {
            let cmp = Cmp {
                op: CmpOp::Eq,
                kind: key.kind,
                left: key.outer.clone(),
                right: column(nth),
            };
            let nullable = cmp.left.ty.nullable || cmp.right.ty.nullable;
            Expr::condition(ExprKind::Cmp(Box::new(cmp)), nullable)
        };
        let on: Vec<Expr> = self
            .keys
            .iter()
            .enumerate()
            .map(equal)
            .chain(self.further)
            .collect();
        if self.is_anti {
            // The keys of a row that is found are not NULL.
            let is_absent = ExprKind::Is {
                arg: Box::new(column(0)),
                test: Test::Null,
                negated: false,
            };
            conds.push(Expr::condition(is_absent, false));
        }
        block.join = block.join.take().map(|left| JoinNode::Join {
            left: Box::new(left),
            right: Box::new(JoinNode::Table(at)),
            kind: match self.is_anti {
                true => JoinType::Left,
                false => JoinType::Inner,
            },
            on: Some(Expr::all_of(on)),
        });
        block.width += self.keys.len() as u32;
        block.locks.push(None);
        block.tables.push(table);
    }
}

impl Key {
    /// An equality of the subquery's row with the block's.
    fn of(cond: &Expr) -> Option<Self> {
        let ExprKind::Cmp(cmp) = &cond.kind else {
            return None;
        };
        if cmp.op != CmpOp::Eq {
            return None;
        }
        let key = |inner: &Expr, outer: &Expr| {
            let is_inside = !reads_outside(inner) && is_repeatable(inner);
            Some(Self {
                outer: of_outside(outer)?,
                kind: cmp.kind,
                inner: is_inside.then(|| inner.clone())?,
            })
        };
        key(&cmp.left, &cmp.right).or_else(|| key(&cmp.right, &cmp.left))
    }

    /// Does DISTINCT take for the same what the comparison does, and is the comparison one of keys?
    fn is_distinct_as_compared(&self) -> bool {
        let is_same = |ty: &SqlType| match self.kind {
            CmpKind::Str(collation) => collation == ty.collation,
            CmpKind::Json => false,
            // Several exact numbers may be equal to one double.
            CmpKind::Double => matches!(ty.kind, TypeKind::Double | TypeKind::Float),
            _ => true,
        };
        is_same(&self.inner.ty)
            && rowkey::same_representation(&self.outer.ty, &self.inner.ty, self.kind)
    }
}

/// May the subquery run once for all rows, as far as its parts beside WHERE say?
fn is_separable(subquery: &Subquery, query: &BoundQuery, inner: &Block) -> bool {
    let plan = &subquery.plan;
    let is_plain = query.volatility == Volatility::Stable
        && query.reach <= 1
        && query.shared.is_none()
        && !plan.blocks
        && plan.calls.is_none()
        && inner.join.is_some()
        && inner.limit.is_none()
        && inner.windows.calls.is_empty()
        && !inner.calc_found_rows;
    let is_ungrouped = inner.group.is_none() && inner.having.is_none();
    is_plain && (is_ungrouped || query.reach == 0)
}

/// The equalities of IN; none of EXISTS. Nothing of what cannot be joined.
fn compared(subquery: &Subquery, inner: &Block, is_anti: bool) -> Option<Vec<Key>> {
    match &subquery.form {
        SubqueryForm::Exists => subquery.correlated.then(Vec::new),
        SubqueryForm::Compare {
            left,
            op: CmpOp::Eq,
            kinds,
            all: false,
            single: false,
        } if !is_anti => {
            let sides = left.iter().zip(&inner.output).zip(kinds);
            let keys = sides.map(|((outer, inner), kind)| {
                let is_free = is_repeatable(outer) && is_repeatable(inner);
                is_free.then(|| Key {
                    outer: outer.clone(),
                    kind: *kind,
                    inner: inner.clone(),
                })
            });
            keys.collect()
        }
        SubqueryForm::Compare { .. } | SubqueryForm::Scalar { .. } => None,
    }
}

/// Does the expression, or a subquery in it, read a row outside of its block?
fn reads_outside(e: &Expr) -> bool {
    e.any(&mut |e| match &e.kind {
        ExprKind::Outer { .. } => true,
        ExprKind::Subquery(query) => query.plan.reach > 1,
        _ => false,
    })
}

/// An expression of nothing but the row outside, as that row's block has it.
fn of_outside(e: &Expr) -> Option<Expr> {
    let is_inside = e.any(&mut |e| match e.kind {
        ExprKind::Column(_) => true,
        ExprKind::Outer { depth, .. } => depth > 1,
        _ => false,
    });
    if is_inside {
        return None;
    }
    let mut moved = e.clone();
    move_up(&mut moved, 1);
    is_repeatable(&moved).then_some(moved)
}

/// The name of a column, for EXPLAIN.
fn column_name(block: &Block, e: &Expr) -> Option<Arc<str>> {
    let slot = e.as_column()?;
    block.tables.iter().find_map(|table| {
        let slots = table.slots.borrow();
        let at = slots.iter().position(|s| *s == Some(slot))?;
        Some(table.columns[at].name.clone())
    })
}

/// Does any part of the block read a row outside?
fn block_reads_outside(block: &Block) -> bool {
    let is_open = |table: &ScopeTable| match &table.kind {
        TableKind::Derived(query) => query.reach > 0,
        TableKind::Base(_) | TableKind::Virtual(_) => false,
        TableKind::Json(_) | TableKind::Recursive(_) | TableKind::Row => true,
    };
    block.tables.iter().any(is_open) || exprs(block).any(reads_outside)
}
