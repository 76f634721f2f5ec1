//! Parallel safety: which expressions, aggregates and queries any thread may evaluate.
//!
//! Neighbours: the strategy asks; `exec::parallel` has the tasks. **Invariant**: what is parallel safe needs nothing of
//! the session but its evaluation settings, and gives the same value on every thread and in every order.

use esker_types::func::FuncFlags;

use super::super::{BlockPlan, GroupPlan, JoinMethod, Node, QueryPlan, Root, ScanPlan, Source};
use crate::bind::Volatility;
use crate::expr::fold::is_volatile;
use crate::expr::{Expr, ExprKind, Subquery, SubqueryForm};

/// Aggregates whose partial states can be put together.
const MERGED: &[&str] = &[
    "any_value",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "count",
    "max",
    "min",
    "std",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
];

/// May any thread evaluate the expression?
pub fn is_parallel_safe(expr: &Expr) -> bool {
    is_parallel_safe_within(expr, 0)
}

/// The same for an expression of a query `levels` below the block.
fn is_parallel_safe_within(expr: &Expr, levels: u16) -> bool {
    !expr.any(&mut |e| match &e.kind {
        ExprKind::Outer { depth, .. } => *depth > levels,
        ExprKind::Subquery(query) => !is_subquery_parallel_safe(query, levels),
        ExprKind::UserVar(_)
        | ExprKind::Assign(..)
        | ExprKind::Stored(_)
        | ExprKind::SeededRand(..)
        | ExprKind::Aggregate(_)
        | ExprKind::Window(_)
        | ExprKind::Key(_)
        | ExprKind::Grouping(_)
        | ExprKind::Match(_)
        | ExprKind::Row(_) => true,
        ExprKind::Func(call) => {
            is_volatile(call.def)
                || call.def.flags.has(FuncFlags::NEEDS_SESSION)
                || call.def.flags.has(FuncFlags::BLOCKS)
        }
        _ => false,
    })
}

/// A subquery that depends on no row is computed before, by the statement's thread.
fn is_subquery_parallel_safe(query: &Subquery, levels: u16) -> bool {
    let plan = &query.plan;
    let single = matches!(query.form, SubqueryForm::Compare { single: true, .. });
    if single
        || plan.volatility != Volatility::Stable
        || plan.locking
        || plan.blocks
        || plan.calls.is_some()
    {
        return false;
    }
    !query.correlated || (plan.reach <= levels + 1 && is_query_parallel_safe(plan, levels + 1))
}

/// May any thread run the query?
fn is_query_parallel_safe(plan: &QueryPlan, levels: u16) -> bool {
    match &plan.root {
        Root::Block(block) => {
            block.windows.is_none()
                && is_node_parallel_safe(&block.source, levels)
                && block_exprs(block).all(|e| is_parallel_safe_within(e, levels))
        }
        Root::SetOps(ops) => {
            let mut others = ops.steps.iter().map(|(_, _, query)| query);
            is_query_parallel_safe(&ops.first, levels)
                && others.all(|q| is_query_parallel_safe(q, levels))
        }
        Root::Recursive(_) | Root::Values(_) => false,
    }
}

fn is_node_parallel_safe(node: &Node, levels: u16) -> bool {
    let fit = |exprs: &[Expr]| exprs.iter().all(|e| is_parallel_safe_within(e, levels));
    match node {
        Node::Once | Node::Nothing(_) => true,
        Node::Filter(input, conds) => fit(conds) && is_node_parallel_safe(input, levels),
        Node::Join(join) => {
            let keys = match &join.method {
                JoinMethod::Hash { left, right, .. } => fit(left) && fit(right),
                _ => true,
            };
            keys && fit(&join.on)
                && is_node_parallel_safe(&join.left, levels)
                && is_node_parallel_safe(&join.right, levels)
        }
        Node::Scan(scan) => {
            let source = match &scan.source {
                Source::Derived(plan) => !scan.lateral && is_query_parallel_safe(plan, levels),
                _ => is_stored(scan),
            };
            source && scan.lock.is_none() && fit(&scan.conds)
        }
    }
}

/// Does the scan read a stored table?
pub fn is_stored(scan: &ScanPlan) -> bool {
    matches!(scan.source, Source::Base { .. })
}

/// Expressions of a block without windows, beside those of its tables and joins.
fn block_exprs(block: &BlockPlan) -> impl Iterator<Item = &Expr> {
    let group = block.group.iter().flat_map(|g| {
        let aggs = g.aggs.iter();
        let of_aggs = aggs.flat_map(|a| a.args.iter().chain(a.order.iter().map(|k| &k.expr)));
        g.keys.iter().chain(of_aggs)
    });
    let order = block.order.iter().map(|k| &k.expr);
    group.chain(order).chain(&block.output).chain(&block.having)
}

/// Does evaluating it run a query?
pub fn has_queries(expr: &Expr) -> bool {
    expr.any(&mut |e| matches!(e.kind, ExprKind::Subquery(_)))
}

/// Finds the subqueries in an expression that are computed once.
pub fn constant_subqueries<'p>(expr: &'p Expr, found: &mut Vec<&'p Subquery>) {
    expr.visit(&mut |e| {
        if let ExprKind::Subquery(query) = &e.kind {
            match query.correlated {
                false => found.push(query),
                true => constants_of_query(&query.plan, found),
            }
        }
    });
}

fn constants_of_query<'p>(plan: &'p QueryPlan, found: &mut Vec<&'p Subquery>) {
    match &plan.root {
        Root::Block(block) => {
            constants_of_node(&block.source, found);
            block_exprs(block).for_each(|e| constant_subqueries(e, found));
        }
        Root::SetOps(ops) => {
            constants_of_query(&ops.first, found);
            for (_, _, query) in &ops.steps {
                constants_of_query(query, found);
            }
        }
        Root::Recursive(_) | Root::Values(_) => {}
    }
}

/// The same for the conditions of a node.
fn constants_of_node<'p>(node: &'p Node, found: &mut Vec<&'p Subquery>) {
    match node {
        Node::Once | Node::Nothing(_) => {}
        Node::Filter(input, conds) => {
            conds.iter().for_each(|e| constant_subqueries(e, found));
            constants_of_node(input, found);
        }
        Node::Join(join) => {
            join.on.iter().for_each(|e| constant_subqueries(e, found));
            if let JoinMethod::Hash { left, right, .. } = &join.method {
                let keys = left.iter().chain(right);
                keys.for_each(|e| constant_subqueries(e, found));
            }
            constants_of_node(&join.left, found);
            constants_of_node(&join.right, found);
        }
        Node::Scan(scan) => {
            scan.conds
                .iter()
                .for_each(|e| constant_subqueries(e, found));
            if let Source::Derived(plan) = &scan.source {
                constants_of_query(plan, found);
            }
        }
    }
}

/// Can groups be computed in parts?
pub fn is_group_parallel_safe(group: &GroupPlan) -> bool {
    group.rollup.is_none()
        && group.keys.iter().all(is_parallel_safe)
        && group.aggs.iter().all(|agg| {
            agg.order.is_empty()
                && MERGED.contains(&agg.def.name)
                && agg.args.iter().all(is_parallel_safe)
        })
}

/// Is the only thing wanted how many rows there are?
pub fn only_counts_rows(group: &GroupPlan) -> bool {
    let counts_rows = |arg: &Expr| !arg.ty.nullable && arg.as_column().is_some();
    group.implicit
        && group.keys.is_empty()
        && group.kept.is_empty()
        && group
            .aggs
            .iter()
            .all(|agg| agg.def.name == "count" && !agg.distinct && agg.args.iter().all(counts_rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_known() {
        assert!(MERGED.is_sorted());
        for name in MERGED {
            assert!(
                esker_types::func::aggregate::lookup(name).is_some(),
                "{name}"
            );
        }
    }
}
