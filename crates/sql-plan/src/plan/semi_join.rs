//! Semi-joins and anti-joins: conditions `IN (SELECT …)`, `EXISTS (SELECT …)` and `NOT EXISTS (SELECT …)` as joins with
//! the distinct rows of their query.
//!
//! As a condition a subquery is asked for every row: a subquery of constants by a look into its rows, a correlated one
//! by running it. That is good for few rows, and while an index finds what is asked for. As a join its rows may come
//! first and find the block's by an index, or fill a hash table once (MySQL's strategy "materialization").
//!
//! Neighbours: `block` plans a block as it is, asks here for the other form, and takes the cheaper one; `apart` takes a
//! query out of its row.
//! **Invariants**
//! - Only conjuncts of WHERE are joined, where NULL is as good as FALSE.
//! - Slots of the block keep their numbers, because plans of other subqueries refer to them.

use std::rc::Rc;

use super::apart::{Apart, Key, block_reads_outside};
use super::conds::split;
use super::effort::effort;
use super::merge::MOST_TABLES;
use super::{AccessKind, Node, Root, ScanPlan, Source};
use crate::bind::{BindEnv, Block, Body, JoinNode, JoinType, ScopeColumn, ScopeTable, TableKind};
use crate::expr::{Cmp, CmpOp, Expr, ExprKind, SubqueryForm};

/// By what factor joining has to be cheaper: a scan that asks may be parallel, and estimates of joins are rougher.
pub(super) const GAIN: f64 = 1.5;

/// The alias of a joined subquery is this, its number, and `>`.
const ALIAS: &str = "<subquery";

/// Is it the scan of a joined subquery?
pub(super) fn is_joined(scan: &ScanPlan) -> bool {
    scan.alias.starts_with(ALIAS)
}

/// A subquery that is joined.
struct Joined {
    query: Apart,
    /// NOT EXISTS.
    is_anti: bool,
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

impl Joined {
    fn of(env: &BindEnv<'_>, cond: &Expr) -> Option<Self> {
        let (subquery, is_anti) = match &cond.kind {
            ExprKind::Subquery(subquery) => (subquery, false),
            ExprKind::Not(arg) => match &arg.kind {
                // NULL counts where IN is denied.
                ExprKind::Subquery(subquery) if matches!(subquery.form, SubqueryForm::Exists) => {
                    (subquery, true)
                }
                _ => return None,
            },
            _ => return None,
        };
        let query = Apart::of(env, subquery)?;
        Some(Self { query, is_anti })
    }

    /// Adds the join to a block, and what remains to be asked to its conditions.
    fn join(self, block: &mut Block, conds: &mut Vec<Expr>) {
        let Self { query, is_anti } = self;
        let Body::Block(inner) = &query.rows.body else {
            unreachable!("made of a block");
        };
        let (at, first) = (block.tables.len(), block.width);
        let columns = query.rows.columns.iter().map(|column| ScopeColumn {
            name: column.name.clone(),
            ty: column
                .ty
                .clone()
                .with_nullable(column.ty.nullable || is_anti),
            meta: column.clone(),
            invisible: true,
        });
        let alias = format!("{ALIAS}{}>", inner.id).into();
        let kind = TableKind::Derived(Rc::clone(&query.rows));
        let table = ScopeTable::with_columns("".into(), alias, kind, columns.collect());
        let slots = (first..).take(query.keys.len());
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
        let on: Vec<Expr> = query
            .keys
            .iter()
            .enumerate()
            .map(equal)
            .chain(query.further)
            .collect();
        if is_anti {
            // The keys of a row that is found are not NULL.
            conds.push(Expr::is_null(column(0), false));
        }
        block.join = block.join.take().map(|left| JoinNode::Join {
            left: Box::new(left),
            right: Box::new(JoinNode::Table(at)),
            kind: match is_anti {
                true => JoinType::Left,
                false => JoinType::Inner,
            },
            on: Some(Expr::all_of(on)),
        });
        block.width += query.keys.len() as u32;
        block.locks.push(None);
        block.tables.push(table);
    }
}
