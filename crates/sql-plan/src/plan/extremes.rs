//! Several MIN and MAX of one table, each from an end of an index.
//!
//! `block` reads one MIN or MAX from the end of an index. Several of them become a query without FROM, whose
//! expressions have a scalar subquery for each. MySQL knows this as "Select tables optimized away".
//!
//! **Invariant**: all of them must come from an end of an index: otherwise the table is read once for all, as ever.

use std::sync::Arc;

use esker_sql_catalog::result::ColumnMeta;
use esker_types::SqlResult;

use super::merge::{is_repeatable, with_slots};
use super::{BlockPlan, Node, QueryPlan, Root};
use crate::bind::{AggCall, BindEnv, Block, GroupBy, Volatility, Windows};
use crate::expr::{Expr, ExprKind, Subquery, SubqueryForm};

/// How a block with one MIN or MAX is planned.
type PlanOne<'a> = &'a dyn Fn(&Block) -> SqlResult<Root>;

/// The same block without FROM, if all it wants are ends of indexes. `further` are conditions on its rows beside WHERE.
pub(super) fn apart(
    env: &BindEnv<'_>,
    block: &Block,
    further: &[Expr],
    plan: PlanOne<'_>,
) -> SqlResult<Option<Block>> {
    // One query level further in, nothing may refer to rows of enclosing queries.
    let is_free = block.filter.iter().chain(further).all(is_repeatable);
    let group = block.group.as_ref();
    let Some(group) = group.filter(|group| is_free && asks_for_several(block, group)) else {
        return Ok(None);
    };
    if env.changes_rows.get() {
        return Ok(None);
    }
    let mut planned = Vec::with_capacity(group.aggs.len());
    for agg in &group.aggs {
        match plan(&with_one(block, group, agg))? {
            Root::Block(one) if is_end(&one) => planned.push(one),
            _ => return Ok(None),
        }
    }
    let ends = planned.into_iter().zip(&group.aggs);
    let ends: Vec<(u32, ExprKind)> = ends
        .map(|(one, agg)| (agg.slot, subquery(env, one, &agg.args[0])))
        .collect();
    let mut output = block.output.clone();
    for e in &mut output {
        put_ends(e, &ends);
    }
    Ok(Some(Block {
        output,
        limit: block.limit.clone(),
        calc_found_rows: block.calc_found_rows,
        ..without_tables(block)
    }))
}

fn is_end(plan: &BlockPlan) -> bool {
    matches!(&plan.source, Node::Scan(scan) if scan.first_only)
}

/// Several aggregates of one stored table, all of them MIN or MAX of a column, and nothing else of its rows?
fn asks_for_several(block: &Block, group: &GroupBy) -> bool {
    let [table] = &block.tables[..] else {
        return false;
    };
    let is_extreme = |agg: &AggCall| {
        matches!(agg.def.name, "min" | "max")
            && matches!(&agg.args[..], [arg] if arg.as_column().is_some())
    };
    let columns = table.used_slots();
    let reads_more = |e: &Expr| {
        e.any(&mut |e| match &e.kind {
            ExprKind::Column(slot) => columns.contains(slot),
            ExprKind::Subquery(_) => true,
            _ => false,
        })
    };
    table.base_def().is_some()
        && group.implicit
        && group.aggs.len() > 1
        && group.rollup.is_none()
        && group.aggs.iter().all(is_extreme)
        && block.having.is_none()
        && block.windows.calls.is_empty()
        && block.locks.iter().all(Option::is_none)
        && !block.output.iter().any(reads_more)
}

/// The block with only one of its aggregates.
fn with_one(block: &Block, group: &GroupBy, agg: &AggCall) -> Block {
    let output = Expr {
        kind: ExprKind::Column(agg.slot),
        ..agg.args[0].clone()
    };
    Block {
        tables: block
            .tables
            .iter()
            .map(|table| with_slots(table, |slot| slot))
            .collect(),
        join: block.join.clone(),
        filter: block.filter.clone(),
        group: Some(GroupBy {
            keys: Vec::new(),
            aggs: vec![agg.clone()],
            ..*group
        }),
        output: vec![output],
        locks: vec![None],
        ..without_tables(block)
    }
}

fn without_tables(block: &Block) -> Block {
    Block {
        id: block.id,
        tables: Vec::new(),
        names: Vec::new(),
        join: None,
        filter: None,
        group: None,
        having: None,
        windows: Windows {
            base: block.width,
            ..Windows::default()
        },
        output: Vec::new(),
        distinct: false,
        beside: 0,
        order: Vec::new(),
        limit: None,
        locks: Vec::new(),
        width: block.width,
        straight_join: false,
        orders: Vec::new(),
        calc_found_rows: false,
    }
}

fn subquery(env: &BindEnv<'_>, mut one: Arc<BlockPlan>, arg: &Expr) -> ExprKind {
    if let Some(one) = Arc::get_mut(&mut one) {
        one.id = env.select_id();
    }
    let column = ColumnMeta::computed("", arg.ty.clone());
    let plan = QueryPlan {
        columns: Arc::from([column]),
        locking: false,
        cost_rows: 1.0,
        rows: 1.0,
        blocks: false,
        calls: None,
        root: Root::Block(one),
        reach: 0,
        volatility: Volatility::Stable,
    };
    ExprKind::Subquery(Box::new(Subquery {
        id: env.subquery_id(),
        form: SubqueryForm::Scalar { column: 0 },
        plan: Arc::new(plan),
        correlated: false,
    }))
}

/// Puts the ends in place of the aggregates' slots.
fn put_ends(e: &mut Expr, ends: &[(u32, ExprKind)]) {
    if let ExprKind::Column(slot) = e.kind {
        if let Some((_, end)) = ends.iter().find(|(agg, _)| *agg == slot) {
            e.kind = end.clone();
        }
        return;
    }
    for child in e.children_mut() {
        put_ends(child, ends);
    }
}
