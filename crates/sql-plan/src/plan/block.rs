//! Planning a whole query expression.
//!
//! Neighbours: `join_order` plans FROM and WHERE; `access` gives orders; the executor runs the rest
//! as the block says.
//! **Invariants**: a sort is left out only when the rows come in exactly that order; MIN and MAX are
//! read from the end of an index only when nothing else decides which row it is.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use esker_types::{SqlResult, TypeKind, Value};

use super::access::{CountedRanges, Path, Target};
use super::conds::{SlotMap, split};
use super::effort::{rows_asked, rows_looked_at, rows_of_subqueries};
use super::grouped::{FirstGroups, is_streaming};
use super::join_order::Joiner;
use super::loose::{LoosePath, loose_path};
use super::ordered::{comes_ordered, ordered_join, ordered_path};
use super::{
    BlockPlan, GroupPlan, Node, QueryPlan, RecursivePlan, Root, SetOpsPlan, StageRows, Strategy,
    ValuesPlan, extremes, group_keys, looked_up, merge, needed, pushdown, semi_join, strategy,
    window,
};
use crate::bind::{
    BindEnv, Block, Body, BoundQuery, OrderKey, RecursiveBody, ScopeTable, TableKind,
};
use crate::expr::{Expr, ExprKind};

/// Groups assumed of a row.
const GROUPED: f64 = 0.3;
/// Rounds assumed of a recursive query.
const ASSUMED_ROUNDS: f64 = 10.0;

/// Rows that a block with subqueries has to look at before it is tried to join these: less is not worth a second plan.
const WORTH_JOINING: f64 = 1000.0;

/// What a query costs and gives.
struct Estimate {
    /// Rows looked at.
    looked_at: f64,
    /// Rows of the result.
    rows: f64,
}

/// Plans a bound query.
///
/// # Errors
/// Errors of planning subqueries.
pub fn plan_bound(env: &BindEnv<'_>, query: &Rc<BoundQuery>) -> SqlResult<Arc<QueryPlan>> {
    let mark = env.ctx.diagnostics.mark();
    let plan = plan_filtered(env, query, Vec::new());
    // What a constant loses on its way to an index is no news: the comparison says it when rows are read.
    env.ctx.diagnostics.undo_to(mark);
    plan
}

/// Plans a query, of whose rows only those are wanted for which conditions over its columns hold; they are evaluated
/// again.
fn plan_filtered(
    env: &BindEnv<'_>,
    query: &Rc<BoundQuery>,
    further: Vec<Expr>,
) -> SqlResult<Arc<QueryPlan>> {
    let (root, locking, cost) = match &query.body {
        Body::Block(block) => plan_block(env, block, pushdown::into_block(&further, block))?,
        Body::SetOps {
            first,
            rest,
            order,
            limit,
            calc_found_rows,
        } => {
            let merges = rest.iter().any(|step| !step.all);
            let further = if limit.is_none() { further } else { Vec::new() };
            let plan_member = |member: &Rc<BoundQuery>| {
                let columns = (&*query.columns, &*member.columns);
                let pushed = pushdown::into_member(&further, columns, merges);
                plan_filtered(env, member, pushed)
            };
            let first = plan_member(first)?;
            let mut steps = Vec::with_capacity(rest.len());
            for step in rest {
                steps.push((step.op, step.all, plan_member(&step.right)?));
            }
            let all = || std::iter::once(&first).chain(steps.iter().map(|(_, _, q)| q));
            let locking = all().any(|q| q.locking);
            let cost = Estimate {
                looked_at: all().map(|q| q.cost_rows).sum(),
                rows: all().map(|q| q.rows).sum(),
            };
            let (order, limit) = (order.clone(), limit.clone());
            let calc_found_rows = *calc_found_rows;
            let plan = SetOpsPlan {
                first,
                steps,
                order,
                limit,
                calc_found_rows,
            };
            (Root::SetOps(Box::new(plan)), locking, cost)
        }
        Body::Recursive(body) => plan_recursive(env, body)?,
        Body::Values { rows, order, limit } => {
            let n = rows.len() as f64;
            let (rows, order, limit) = (rows.clone(), order.clone(), limit.clone());
            (
                Root::Values(Box::new(ValuesPlan { rows, order, limit })),
                false,
                Estimate {
                    looked_at: n,
                    rows: n,
                },
            )
        }
    };
    Ok(Arc::new(QueryPlan {
        columns: query.columns.clone(),
        locking,
        cost_rows: cost.looked_at,
        rows: cost.rows,
        blocks: env.blocks.get(),
        calls: env.calls.get().then(|| env.tables_read().into()),
        root,
        reach: query.reach,
        volatility: query.volatility,
    }))
}

fn plan_recursive(env: &BindEnv<'_>, body: &RecursiveBody) -> SqlResult<(Root, bool, Estimate)> {
    let seed = plan_bound(env, &body.seed)?;
    let members = body.members.iter().map(|m| plan_bound(env, m));
    let members = members.collect::<SqlResult<Vec<_>>>()?;
    let locking = seed.locking || members.iter().any(|m| m.locking);
    let rounds = |first: f64, each: fn(&QueryPlan) -> f64| {
        first + ASSUMED_ROUNDS * members.iter().map(|m| each(m)).sum::<f64>()
    };
    let cost = Estimate {
        looked_at: rounds(seed.cost_rows, |m| m.cost_rows),
        rows: rounds(seed.rows, |m| m.rows),
    };
    let plan = RecursivePlan {
        id: body.id,
        seed,
        members,
        distinct: body.distinct,
        limit: body.limit.clone(),
    };
    Ok((Root::Recursive(Box::new(plan)), locking, cost))
}

/// Plans a block, with its subqueries as they are, joined or looked up, whatever is cheaper.
fn plan_block(
    env: &BindEnv<'_>,
    block: &Block,
    further: Vec<Expr>,
) -> SqlResult<(Root, bool, Estimate)> {
    let asking = plan_as_written(env, block, further.clone())?;
    if asking.2.looked_at < WORTH_JOINING {
        return Ok(asking);
    }
    if let Some(joined) = semi_join::joined(env, block)
        && env.may_plan_again()
    {
        let joining = plan_as_written(env, &joined, further.clone())?;
        if semi_join::is_better(&joining.0, &asking.0) {
            return Ok(joining);
        }
    }
    let Root::Block(plan) = &asking.0 else {
        return Ok(asking);
    };
    match looked_up::looked_up(env, block, rows_asked(plan))? {
        Some(looked_up) => plan_as_written(env, &looked_up, further),
        None => Ok(asking),
    }
}

fn plan_as_written(
    env: &BindEnv<'_>,
    block: &Block,
    further: Vec<Expr>,
) -> SqlResult<(Root, bool, Estimate)> {
    let merged = merge::merged(env, block, &further);
    let (block, further) = match merged {
        Some((ref block, further)) => (block, further),
        None => (block, further),
    };
    let plan_one = |one: &Block| Ok(plan_block(env, one, further.clone())?.0);
    if let Some(apart) = extremes::apart(env, block, &further, &plan_one)? {
        return plan_block(env, &apart, Vec::new());
    }
    if let Some(trace) = env.trace {
        trace.begin(block);
    }
    let map = SlotMap::new(&block.tables, block.width);
    let filter = conditions(block, further);
    let derived = plan_derived(env, block, &map, &filter)?;
    let locking = locks_rows(block, &derived);
    let tells = group_keys::telling(block, &filter);
    let mut order = block.order.clone();
    order.retain(|k| !matches!(k.expr.kind, ExprKind::Const(_)));
    let joiner = Joiner {
        env,
        block,
        map,
        filter,
        derived,
        pinned: HashMap::new(),
        row_by_row: false,
        counted_ranges: CountedRanges::default(),
        implied: RefCell::default(),
    };
    let (source, joined) = plan_source(joiner, &tells, &mut order)?;
    let estimates = rows_behind(block, joined);
    let limit = block.limit.as_ref().and_then(|l| limit_value(&l.count));
    let mut cost = Estimate {
        looked_at: rows_looked_at(&source),
        rows: limit.map_or(estimates.distinct, |n| estimates.distinct.min(n as f64)),
    };
    let group = plan_group(block, tells, &source);
    let is_before = window::is_ordered_before(block, &order);
    let before = is_before.then(|| std::mem::take(&mut order));
    let before = before.unwrap_or_default();
    let windows = window::plan(block, &before);
    let mut plan = BlockPlan {
        id: block.id,
        source,
        width: windows.as_ref().map_or(block.width, |w| w.width),
        group,
        having: block.having.clone(),
        windows,
        output: block.output.clone(),
        distinct: block.distinct,
        beside: block.beside,
        order,
        limit: block.limit.clone(),
        calc_found_rows: block.calc_found_rows,
        strategy: Strategy::Serial,
        estimates,
    };
    cost.looked_at += rows_of_subqueries(&plan);
    if only_reads(block) {
        needed::prune(&mut plan);
        strategy::decide(&mut plan, env.parallel_rows);
    }
    Ok((Root::Block(Arc::new(plan)), locking, cost))
}

/// Are rows only read? Those that are to be changed are wanted as they are stored, with their keys; tasks know columns
/// alone.
fn only_reads(block: &Block) -> bool {
    let mut tables = block.tables.iter();
    tables.all(|t| t.key_slot.is_none() && t.row_slot.is_none())
}

/// Does the block lock rows, or a query whose rows it reads?
fn locks_rows(block: &Block, derived: &[Option<Arc<QueryPlan>>]) -> bool {
    block.locks.iter().any(Option::is_some) || derived.iter().flatten().any(|plan| plan.locking)
}

/// The conditions on rows of the block that all have to be true.
fn conditions(block: &Block, further: Vec<Expr>) -> Vec<Expr> {
    let mut conditions = Vec::new();
    if let Some(filter) = &block.filter {
        split(filter, &mut conditions);
    }
    conditions.extend(further);
    conditions
}

/// Plans the queries whose rows are tables of the block, with what of its conditions they can do.
fn plan_derived(
    env: &BindEnv<'_>,
    block: &Block,
    map: &SlotMap,
    filter: &[Expr],
) -> SqlResult<Vec<Option<Arc<QueryPlan>>>> {
    let plan = |(nth, table): (usize, &ScopeTable)| {
        let TableKind::Derived(query) = &table.kind else {
            return Ok(None);
        };
        let pushed = match is_shared(query) {
            Some(_) => Vec::new(),
            None => pushdown::for_derived(block, map, filter, nth, query),
        };
        plan_filtered(env, query, pushed).map(Some)
    };
    block.tables.iter().enumerate().map(plan).collect()
}

fn plan_group(block: &Block, tells: Vec<bool>, source: &Node) -> Option<GroupPlan> {
    let group = block.group.as_ref()?;
    Some(GroupPlan {
        keys: group.keys.clone(),
        tells,
        key_base: group.key_base,
        aggs: group.aggs.clone(),
        rollup: group.rollup,
        implicit: group.implicit,
        is_streaming: is_streaming(source),
        kept: kept_slots(block),
    })
}

/// The number under which a query's rows are kept because several places read them.
pub(super) fn is_shared(query: &BoundQuery) -> Option<u32> {
    let shared = query.shared.as_ref()?;
    (shared.uses.get() > 1 && query.reach == 0).then_some(shared.id)
}

/// Slots of a group's first row that are read after grouping.
fn kept_slots(block: &Block) -> Vec<u32> {
    if block.group.is_none() {
        return Vec::new();
    }
    let columns: HashSet<u32> = block.tables.iter().flat_map(|t| t.used_slots()).collect();
    let mut slots = HashSet::new();
    let after = block
        .output
        .iter()
        .chain(&block.having)
        .chain(block.order.iter().map(|k| &k.expr))
        .chain(block.windows.exprs());
    for expr in after {
        expr.slots(&mut |slot| {
            if columns.contains(&slot) {
                slots.insert(slot);
            }
        });
    }
    let mut slots: Vec<u32> = slots.into_iter().collect();
    slots.sort_unstable();
    slots
}

fn plan_source(
    mut joiner: Joiner<'_>,
    tells: &[bool],
    order: &mut Vec<OrderKey>,
) -> SqlResult<(Node, f64)> {
    let block = joiner.block;
    if block.join.is_none() {
        let node = match &block.filter {
            None => Node::Once,
            Some(filter) => match crate::expr::fold::constant_boolean(filter) {
                Some(true) => Node::Once,
                Some(false) => Node::Nothing("Impossible WHERE"),
                None => Node::Filter(Box::new(Node::Once), vec![filter.clone()]),
            },
        };
        return Ok((node, 1.0));
    }
    let zero_limit = block
        .limit
        .as_ref()
        .is_some_and(|l| limit_value(&l.count) == Some(0));
    if zero_limit && !block.calc_found_rows && block.group.is_none() {
        return Ok((Node::Nothing("Zero limit"), 0.0));
    }
    if let [table] = &block.tables[..]
        && let TableKind::Base(def) = &table.kind
    {
        let target = Target::new(block, 0, def);
        if let Some(node) = plan_single(&mut joiner, &target, tells, order)? {
            return Ok(node);
        }
    }
    let mut planned = joiner.plan()?;
    let one_pass = block.group.is_none() && block.windows.calls.is_empty();
    if one_pass && (!order.is_empty() || block.distinct) {
        if !order.is_empty() && comes_ordered(&joiner, &planned.node, order) {
            order.clear();
        } else if let Some(ordered) = ordered_join(&mut joiner, order, &planned)? {
            order.clear();
            planned = ordered;
        }
    } else if let Some(groups) = FirstGroups::of(block, tells, order)
        && let Some(grouped) = groups.join(&mut joiner, &planned)?
    {
        order.clear();
        planned = grouped;
    }
    Ok((planned.node, planned.rows))
}

/// One stored table: an order may come from an index, MIN and MAX from its end.
fn plan_single(
    joiner: &mut Joiner<'_>,
    target: &Target<'_>,
    tells: &[bool],
    order: &mut Vec<OrderKey>,
) -> SqlResult<Option<(Node, f64)>> {
    let block = joiner.block;
    let conds = joiner.filter.clone();
    if let Some((path, conds)) = extreme_path(block, joiner, target, conds.clone()) {
        joiner.filter = conds;
        joiner.pinned.insert(0, path);
        let mut node = joiner.plan()?.node;
        if let Node::Scan(scan) = &mut node {
            scan.first_only = true;
            (scan.rows_in, scan.rows_out) = (1.0, 1.0);
        }
        return Ok(Some((node, 1.0)));
    }
    let groups = FirstGroups::of(block, tells, order);
    let grouped = groups
        .as_ref()
        .and_then(|groups| groups.path(joiner, target, &conds));
    let loose = loose_path(joiner, target, groups.as_ref(), (order, &conds));
    let is_cheaper =
        |loose: &LoosePath| grouped.as_ref().is_none_or(|(cost, _)| loose.cost <= *cost);
    if let Some(loose) = loose.filter(is_cheaper) {
        joiner.pinned.insert(0, loose.scan.path);
        let mut planned = joiner.plan()?;
        if let Node::Scan(scan) = &mut planned.node {
            scan.first_of = Some(loose.scan.first_of);
        }
        if loose.scan.is_ordered {
            order.clear();
        }
        return Ok(Some((planned.node, planned.rows)));
    }
    if let Some((_, path)) = grouped {
        joiner.pinned.insert(0, path);
        let planned = joiner.plan()?;
        order.clear();
        return Ok(Some((planned.node, planned.rows)));
    }
    if block.group.is_some() || !block.windows.calls.is_empty() || order.is_empty() {
        if conds.is_empty() {
            joiner.pinned.insert(0, target.smallest_covering());
        }
        return Ok(None);
    }
    if let Some(path) = ordered_path(joiner, target, order, &conds) {
        joiner.pinned.insert(0, path);
        let planned = joiner.plan()?;
        order.clear();
        return Ok(Some((planned.node, planned.rows)));
    }
    Ok(None)
}

/// `SELECT MIN(col)` or `MAX(col)` alone: the first row in the column's order, and the conditions it is the first for.
fn extreme_path(
    block: &Block,
    joiner: &Joiner<'_>,
    target: &Target<'_>,
    mut conds: Vec<Expr>,
) -> Option<(Path, Vec<Expr>)> {
    let group = block.group.as_ref().filter(|g| g.implicit)?;
    if !block.windows.calls.is_empty() {
        return None;
    }
    let [agg] = &group.aggs[..] else { return None };
    let desc = match agg.def.name {
        "min" => false,
        "max" => true,
        _ => return None,
    };
    let [arg] = &agg.args[..] else { return None };
    let slot = arg.as_column()?;
    // ENUM and SET compare by text in MIN and MAX. Of texts that are equal in more ways than one the end has one, as in
    // MySQL.
    let is_text = matches!(arg.ty.kind, TypeKind::Char | TypeKind::VarChar);
    if !(is_text || arg.ty.is_numeric() || arg.ty.is_temporal()) {
        return None;
    }
    let columns = block.tables[0].used_slots();
    let is_other = |s: u32| s != slot && columns.contains(&s);
    let reads_others = block
        .output
        .iter()
        .chain(&block.having)
        .any(|e| e.any(&mut |e| matches!(e.kind, ExprKind::Column(s) if is_other(s))));
    if reads_others {
        return None;
    }
    let order = [OrderKey {
        expr: arg.clone(),
        desc,
    }];
    let is_free = conds.is_empty();
    // The smallest value of a nullable column comes after its NULLs.
    if arg.ty.nullable && !desc {
        conds.push(Expr::is_null(arg.clone(), true));
    }
    let known = |e: &Expr| joiner.is_known(e, 0);
    let best = target.best(joiner.env, &conds, &known);
    let mut paths = target.ordered_paths(joiner.env, &order, &conds, &known);
    // Reading in order ends at the first row that meets the conditions; without an access path for
    // them that may be far, and rows of texts are looked up.
    let is_end = |p: &Path| !is_text || conds.iter().all(|cond| target.decides(p, cond));
    paths.retain(|p| is_free || (p.rows <= best.rows && is_end(p)));
    let path = paths.into_iter().min_by(|a, b| a.cost.total_cmp(&b.cost))?;
    Some((path, conds))
}

/// Estimated rows of a block whose joins give `joined`.
fn rows_behind(block: &Block, joined: f64) -> StageRows {
    let grouped = match &block.group {
        Some(group) if group.implicit => 1.0,
        Some(_) => (joined * GROUPED).max(1.0),
        None => joined,
    };
    let kept = grouped * if block.having.is_some() { 0.5 } else { 1.0 };
    let distinct = match block.distinct && block.group.is_none() {
        true => (kept * GROUPED).max(1.0),
        false => kept,
    };
    StageRows {
        grouped,
        kept,
        distinct,
    }
}

/// A LIMIT number, when it is a constant.
pub(super) fn limit_value(e: &Expr) -> Option<u64> {
    match e.as_const()? {
        Value::Int(v) => u64::try_from(*v).ok(),
        Value::UInt(v) => Some(*v),
        _ => None,
    }
}
