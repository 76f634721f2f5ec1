//! Preparation of a parallel block: cuts the source, reads build sides, computes constant subqueries and rows before
//! the split.
//!
//! All of it runs on the statement's own thread, before the first task.
//! Neighbours: `parallel` says what is wanted; `task` gets all of it; `estimate` asks how a table would be cut.
//! **Invariant**: if the block must run serially after all, the memory that was charged is given back.

use esker_engine::Tree;
use esker_engine::scan::{KeySpan, TASKS_PER_THREAD};
use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::codec::KeyRange;
use esker_sql_catalog::exec_error::{ExecResult, engine_error};
use esker_sql_plan::bind::JoinType;
use esker_sql_plan::expr::Expr;
use esker_sql_plan::plan::strategy::{ProbePipeline, SinkKind, Stage, parallel_safe};
use esker_sql_plan::plan::{
    Access, AccessKind, JoinMethod, JoinPlan, Node, Source, SplitPoint, rows_out,
};
use esker_types::Value;

use super::super::ExecCtx;
use super::super::join::{Gathered, Kept, gather};
use super::super::memory::{Purpose, charge, refund, row_bytes};
use super::super::node::NodeState;
use super::super::subquery::Constant;
use super::runtime_filter::RuntimeFilter;
use super::sink::Wanted;
use super::task::{Consumer, Input, ResultMemory, SharedInputs, TableTask};
use super::{Candidate, block_filter, key_lookup, several_threads, slots_of};
use crate::ExecEnv;

/// Of the memory that a statement may still use, this part is for partial results.
const MEMORY_PART: u64 = 2;

/// What of which tree is read.
pub(super) struct Target<'p> {
    def: &'p TableDef,
    access: &'p Access,
    pub tree: &'p Tree,
    /// The index that is read: the plan's, or the clustered one.
    index: usize,
    pub spans: Vec<KeySpan>,
}

/// What the transaction may read of the table that is read first, if all of it is to be had in one way.
pub(super) fn target<'p>(
    probe: &ProbePipeline<'p>,
    exec: &ExecCtx<'_>,
    env: &ExecEnv<'_>,
) -> ExecResult<Option<Target<'p>>> {
    let Source::Base { def, access, .. } = &probe.source.source else {
        return Ok(None);
    };
    def.check_visible(&def.indexes[access.index], exec.txn().snapshot())?;
    // The transaction's own changes build on the newest rows, so an entry of its snapshot may lead to a row that it has
    // moved elsewhere in the index.
    let stale = access.index != 0 && exec.txn().has_writes_to(def.primary().id);
    // Joined rows may have to come in the order of the index.
    if stale && (!matches!(access.kind, AccessKind::Full) || !probe.stages.is_empty()) {
        return Ok(None);
    }
    let index = if stale { 0 } else { access.index };
    let ranges = match &access.kind {
        AccessKind::Ranges(spec) => spec.build(&def.indexes[index].codec, &[], env)?,
        AccessKind::Match(_) | AccessKind::Elements(_) | AccessKind::Union(_) => return Ok(None),
        AccessKind::Skip(_) => return Ok(None),
        AccessKind::Full | AccessKind::Point(_) | AccessKind::Ref(_) => vec![KeyRange::ALL],
    };
    let spans = ranges
        .iter()
        .map(|range| KeySpan::new(range.lower(), range.upper()))
        .collect();
    Ok(Some(Target {
        def,
        access,
        tree: &def.indexes[index].tree,
        index,
        spans,
    }))
}

/// Tasks that are asked for.
pub(super) fn wanted_tasks(exec: &ExecCtx<'_>) -> usize {
    exec.limits.read_threads as usize * TASKS_PER_THREAD
}

/// Do tasks that evaluate `exprs` look up single rows or run queries?
pub(super) fn needs_reader(exprs: &[&Expr], candidate: &Candidate<'_>) -> bool {
    exprs.iter().any(|e| parallel_safe::has_queries(e)) || candidate.probe.looks_up(candidate.split)
}

/// Does on the statement's thread what comes before the tasks, which evaluate `exprs`: build sides of joins, subqueries
/// that depend on no row, rows that are not shared out. Rows that do not pass `outer` need not come. `None`: it must be
/// done the serial way.
pub(super) fn prepare(
    consumer: Consumer,
    node: &Node,
    candidate: &Candidate<'_>,
    (wanted, outer): (Wanted, &[RuntimeFilter]),
    exprs: &[&Expr],
    env: &ExecEnv<'_>,
) -> ExecResult<Option<TableTask>> {
    let Some(exec) = several_threads(env) else {
        return Ok(None);
    };
    let Candidate { probe, split, .. } = candidate;
    let mut inputs = SharedInputs::default();
    if needs_reader(exprs, candidate) {
        inputs.reader = exec.txn().reader();
        if inputs.reader.is_none() {
            return Ok(None);
        }
    }
    let Some(constants) = constants_of(exprs, env) else {
        return Ok(None);
    };
    inputs.constants = constants;
    let passed = split.passed();
    let Some(BuildSides {
        kept,
        filters,
        bytes,
    }) = build_sides(probe, passed, wanted.width, env)?
    else {
        return Ok(None);
    };
    inputs.build_sides = kept;
    inputs.bytes = bytes;
    let slots: Vec<u32> = probe.source.columns.iter().map(|(_, slot)| *slot).collect();
    let all = outer.iter().cloned().chain(filters);
    inputs.later_filters = all.collect();
    let own = inputs.later_filters.iter().filter(|s| s.reads_only(&slots));
    inputs.filters = own.cloned().collect();
    let input = match split {
        _ if joins_nothing(probe, &inputs.build_sides) => Some(Input::nothing()),
        SplitPoint::Table => table_input(probe, &inputs, exec, env)?,
        SplitPoint::Rows(passed) => {
            let before = ProbePipeline::node_before(node, *passed, probe.stages.len());
            let input = rows_input(before, wanted.width, exec, env)?;
            input.map(|(input, bytes)| {
                inputs.bytes += bytes;
                input
            })
        }
    };
    let Some(input) = input else {
        inputs.give_back(env);
        return Ok(None);
    };
    let input = (input, *split, candidate.evaluation);
    let bounds = (exec.limits, result_memory(candidate.sink, exec, env));
    Ok(Some(TableTask::new(
        consumer, input, inputs, wanted, bounds, env,
    )))
}

/// Results of the subqueries of these expressions that depend on no row; `None` if one fails, which perhaps no row ever
/// asks for.
fn constants_of(exprs: &[&Expr], env: &ExecEnv<'_>) -> Option<Vec<Constant>> {
    let mut queries = Vec::new();
    for expr in exprs {
        parallel_safe::constant_subqueries(expr, &mut queries);
    }
    // One may stand in several expressions.
    queries.sort_by_key(|query| query.id);
    queries.dedup_by_key(|query| query.id);
    let constants = queries
        .into_iter()
        .map(|query| Constant::of(query, env).ok());
    constants.collect()
}

/// How much the results of all tasks may take. What is larger than the budget of its operator goes the serial way,
/// which writes to disk.
fn result_memory(sink: SinkKind, exec: &ExecCtx<'_>, env: &ExecEnv<'_>) -> ResultMemory {
    let budget = match sink {
        SinkKind::Top => exec.limits.sort_bytes,
        SinkKind::Hash => exec.limits.join_bytes,
        _ => exec.limits.table_bytes,
    };
    let used = env.states.memory.get();
    let left = exec.limits.memory_bytes.saturating_sub(used);
    ResultMemory::new(budget.min(left / MEMORY_PART), exec.txn().memory())
}

/// Build sides of joins.
struct BuildSides {
    /// Their rows, by stage.
    kept: Vec<Kept>,
    /// What finds something in them.
    filters: Vec<RuntimeFilter>,
    /// Bytes charged for that.
    bytes: u64,
}

impl BuildSides {
    fn give_back(self, env: &ExecEnv<'_>) {
        self.kept.into_iter().for_each(|side| side.give_back(env));
        refund(env, self.bytes);
    }
}

/// Reads the build sides of the joins behind the first `passed` stages, those with few rows first: what they have
/// decides which rows of others are needed. `None` if one does not fit.
fn build_sides(
    probe: &ProbePipeline<'_>,
    passed: usize,
    width: usize,
    env: &ExecEnv<'_>,
) -> ExecResult<Option<BuildSides>> {
    let mut row = vec![Value::Null; width];
    let mut build_sides = BuildSides {
        kept: vec![Kept::Nothing; probe.stages.len()],
        filters: Vec::new(),
        bytes: 0,
    };
    let stages = probe.stages.iter().enumerate().skip(passed);
    let mut joins: Vec<(usize, &JoinPlan)> = stages
        .filter_map(|(nth, stage)| match stage {
            Stage::Join(join) if !matches!(join.method, JoinMethod::Nested) => Some((nth, *join)),
            _ => None,
        })
        .collect();
    joins.sort_by(|(_, a), (_, b)| rows_out(&a.right).total_cmp(&rows_out(&b.right)));
    for (nth, join) in joins {
        let is_inner = join.kind != JoinType::Left;
        let filtered = build_sides.filters.iter().filter(|_| is_inner);
        let own: Vec<RuntimeFilter> = filtered.filter_map(|s| s.for_build_side(join)).collect();
        let mut input = NodeState::new(&join.right);
        let kept = match gather(join, &mut input, &own, &mut row, env)? {
            Gathered::Kept(kept) => kept,
            Gathered::Apart(_) => {
                build_sides.give_back(env);
                return Ok(None);
            }
        };
        if let Some((filter, bytes)) = RuntimeFilter::of(join, &kept, !own.is_empty(), env)? {
            build_sides.filters.push(filter);
            build_sides.bytes += bytes;
        }
        let ends = is_inner && kept.is_empty();
        build_sides.kept[nth] = kept;
        if ends {
            // Nothing comes out, whatever the others have.
            break;
        }
    }
    Ok(Some(build_sides))
}

/// Is it known of an inner join that its right side has no row?
fn joins_nothing(probe: &ProbePipeline<'_>, build_sides: &[Kept]) -> bool {
    probe.stages.iter().zip(build_sides).any(|(stage, side)| {
        matches!(stage, Stage::Join(join) if join.kind != JoinType::Left) && side.is_empty()
    })
}

/// The parts of a table.
fn table_input(
    probe: &ProbePipeline<'_>,
    inputs: &SharedInputs,
    exec: &ExecCtx<'_>,
    env: &ExecEnv<'_>,
) -> ExecResult<Option<Input>> {
    let Some(target) = target(probe, exec, env)? else {
        return Ok(None);
    };
    let (index, tasks) = (target.index, wanted_tasks(exec));
    let place = (target.def, target.access, index);
    let known = (&*inputs.constants, &*inputs.filters);
    let looked_up = key_lookup::spans(probe.source, place, known, env)?;
    let keys = looked_up.as_ref().map(Vec::len);
    let rows = match looked_up {
        Some(spans) => exec.txn().parallel_lookup(target.tree, spans, tasks),
        None => exec.txn().parallel_scan(target.tree, target.spans, tasks),
    };
    let rows = rows.map_err(|e| engine_error(&e))?;
    // Entries of other indexes are not what blocks speak of.
    let rows = match index {
        0 => rows.with_tests(block_filter::tests(probe.source, target.def, env)),
        _ => rows,
    };
    Ok(Some(Input::Table { rows, index, keys }))
}

/// The rows of a node, to be shared out, and the bytes they are charged with. `None` if they are too many.
fn rows_input(
    node: &Node,
    width: usize,
    exec: &ExecCtx<'_>,
    env: &ExecEnv<'_>,
) -> ExecResult<Option<(Input, u64)>> {
    let slots = slots_of(node);
    let (mut rows, mut row, mut bytes) = (Vec::new(), vec![Value::Null; width], 0);
    let mut state = NodeState::new(node);
    state.open(node, &mut row, env)?;
    while state.next(node, &mut row, env)? {
        let values: Box<[Value]> = slots.iter().map(|s| row[*s as usize].clone()).collect();
        bytes += row_bytes(&values);
        rows.push(values);
        if bytes > exec.limits.table_bytes {
            return Ok(None);
        }
    }
    if charge(env, bytes, Purpose::Hash).is_err() {
        return Ok(None);
    }
    let per_task = rows.len().div_ceil(wanted_tasks(exec)).max(1);
    let input = Input::Rows {
        rows,
        slots,
        per_task,
    };
    Ok(Some((input, bytes)))
}
