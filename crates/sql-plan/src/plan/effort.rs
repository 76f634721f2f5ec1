//! What a finished plan costs: the rows that it looks at, and its effort, by which a block with joined subqueries is
//! compared with the one that asks them.
//!
//! Neighbours: `block` keeps the rows looked at in the plan, EXPLAIN shows them; `semi_join` and `looked_up` compare
//! efforts; `cost` has the constants. **Invariant**: a nested loop opens its inner side for every row of the outer one,
//! and a correlated subquery runs for every row that asks; all else is read once.

use super::block::limit_value;
use super::cost::{KEPT_ROW, LOCKED_ROW, SEEK, SUBQUERY_RUN};
use super::{AccessKind, BlockPlan, JoinMethod, Node, QueryPlan, Root, ScanPlan, Source};
use crate::expr::{Expr, ExprKind, Subquery};

/// Rows that are asked about for each one that LIMIT wants.
const ASKED_PER_ROW: f64 = 4.0;

/// Estimated rows an execution looks at.
pub fn rows_looked_at(node: &Node) -> f64 {
    of_joins(node, rows_of_scan)
}

fn rows_of_scan(scan: &ScanPlan) -> f64 {
    match &scan.source {
        Source::Derived(plan) | Source::Shared(_, plan) => plan.cost_rows,
        _ => scan.rows_in,
    }
}

/// Estimated rows that the subqueries of a block look at: of those that depend on a row, for every row that the joins
/// give.
pub(super) fn rows_of_subqueries(block: &BlockPlan) -> f64 {
    let rows = rows_out(&block.source).max(1.0);
    of_subqueries(block, |subquery| {
        let times = if subquery.correlated { rows } else { 1.0 };
        times * subquery.plan.cost_rows
    })
}

/// What a block costs: rows that are read, locked and kept, and openings of indexes and of subqueries.
pub(super) fn effort(block: &BlockPlan) -> f64 {
    let rows = rows_asked(block);
    let subqueries = of_subqueries(block, |subquery| {
        let plan = &subquery.plan;
        match subquery.correlated {
            true => rows * (SUBQUERY_RUN + plan.cost_rows),
            false => plan.cost_rows + plan.rows * KEPT_ROW,
        }
    });
    subqueries + of_joins(&block.source, effort_of_scan)
}

fn effort_of_scan(scan: &ScanPlan) -> f64 {
    match &scan.source {
        Source::Derived(plan) | Source::Shared(_, plan) => {
            plan.cost_rows + rows_kept(plan) * KEPT_ROW
        }
        Source::Base { access, .. } => {
            let is_keyed = !matches!(access.kind, AccessKind::Full);
            let seek = if is_keyed { SEEK } else { 0.0 };
            let lock = scan.lock.map_or(0.0, |_| LOCKED_ROW);
            seek + scan.rows_in * (1.0 + lock)
        }
        _ => scan.rows_in,
    }
}

/// The cost of joins, from that of each scan.
fn of_joins(node: &Node, of_scan: fn(&ScanPlan) -> f64) -> f64 {
    match node {
        Node::Once | Node::Nothing(_) => 1.0,
        Node::Filter(input, _) => of_joins(input, of_scan),
        Node::Scan(scan) => of_scan(scan),
        Node::Join(join) => {
            let left = of_joins(&join.left, of_scan);
            let right = of_joins(&join.right, of_scan);
            match join.method {
                JoinMethod::Nested => left + rows_out(&join.left) * right,
                _ => left + right,
            }
        }
    }
}

/// The sum over the subqueries of a block.
fn of_subqueries(block: &BlockPlan, cost: impl Fn(&Subquery) -> f64) -> f64 {
    let mut sum = 0.0;
    block.each_expr(&mut |expr| {
        expr.visit(&mut |e| {
            if let ExprKind::Subquery(subquery) = &e.kind {
                sum += cost(subquery);
            }
        });
    });
    sum
}

/// Estimated rows that a node gives.
pub fn rows_out(node: &Node) -> f64 {
    match node {
        Node::Once | Node::Nothing(_) => 1.0,
        Node::Filter(child, _) => rows_out(child),
        Node::Scan(scan) => scan.rows_out,
        Node::Join(join) => join.rows,
    }
}

/// Rows of a block's joins that are asked about; a LIMIT without an order needs the first of them only.
pub(super) fn rows_asked(block: &BlockPlan) -> f64 {
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

/// Rows that a derived table is filled with, before those that are the same are left out.
pub(super) fn rows_kept(plan: &QueryPlan) -> f64 {
    match &plan.root {
        Root::Block(block) => block.estimates.kept,
        _ => plan.rows,
    }
}
