//! Query blocks and what ends every query: from joined rows to result rows.
//!
//! Neighbours: `set_ops` combines queries, `node` gives joined rows, `group`, `sort` and the distinct set work on them;
//! streams, subqueries and derived tables pull from here. **Invariants**: the order of work is grouping, HAVING,
//! windows, select list, DISTINCT, ORDER BY, LIMIT; `reset` starts over and gives memory back. A select list that is
//! stored strictly is computed after ORDER BY and LIMIT, for the rows that are given.

use std::sync::Arc;
use std::time::{Duration, Instant};

use esker_sql_catalog::catalog::note_sorted;
use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_catalog::result::ColumnMeta;
use esker_sql_plan::bind::{LimitSpec, OrderKey};
use esker_sql_plan::expr::Expr;
use esker_sql_plan::expr::eval::convert;
use esker_sql_plan::expr::rowkey;
use esker_sql_plan::plan::profile::{Profile, Stage};
use esker_sql_plan::plan::{BlockPlan, QueryPlan, Root, ValuesPlan};
use esker_types::{Value, errors};

use super::group::Groups;
use super::node::NodeState;
use super::parallel::{self, ParallelRows};
use super::recursive::RecursiveState;
use super::set_ops::SetOpsState;
use super::sort::{SortedRows, Sorter, order_key};
use super::spill::{DistinctRows, First};
use super::window::WindowRows;
use crate::ExecEnv;

/// State of a query expression.
pub(crate) struct RootExec {
    state: State,
    out: Vec<Value>,
    tail: Tail,
    /// Bad values in the select list are errors.
    stores: bool,
}

enum State {
    Block(Box<BlockState>),
    SetOps(Box<SetOpsState>),
    Recursive(Box<RecursiveState>),
    /// Next row of VALUES.
    Values(usize),
}

/// ORDER BY and LIMIT at the end of everything.
#[derive(Default)]
struct Tail {
    opened: bool,
    skip: u64,
    left: u64,
    /// Rows there are without LIMIT, as far as known.
    found: u64,
    given: u64,
    sorted: Option<SortedRows>,
}

struct BlockState {
    node: NodeState,
    /// Instead of the node's rows and the groups.
    parallel: Option<ParallelRows>,
    row: Vec<Value>,
    groups: Option<Groups>,
    grouped: bool,
    /// Of rows that are grouped as they come: the first of the next group.
    ahead: Option<Vec<Value>>,
    windows: Option<WindowRows>,
    /// DISTINCT, and what of it had to wait for the end.
    seen: DistinctRows,
    later: Option<SortedRows>,
    key: Vec<u8>,
}

impl RootExec {
    pub fn new(plan: &QueryPlan) -> Self {
        let state = match &plan.root {
            Root::Block(block) => State::Block(Box::new(BlockState::new(block))),
            Root::SetOps(ops) => State::SetOps(Box::new(SetOpsState::new(ops))),
            Root::Recursive(plan) => State::Recursive(Box::new(RecursiveState::new(plan))),
            Root::Values(_) => State::Values(0),
        };
        Self {
            state,
            out: Vec::new(),
            tail: Tail::default(),
            stores: false,
        }
    }

    /// Its rows are stored: bad values in the select list are errors, as where rows are changed.
    pub fn store_strictly(&mut self) {
        self.stores = true;
    }

    /// Starts over.
    pub fn reset(&mut self, env: &ExecEnv<'_>) {
        match &mut self.state {
            State::Block(block) => block.reset(env),
            State::SetOps(ops) => ops.reset(env),
            State::Recursive(state) => state.reset(env),
            State::Values(at) => *at = 0,
        }
        if let Some(sorted) = std::mem::take(&mut self.tail).sorted {
            sorted.close(env);
        }
    }

    /// See [`RowStream::found_rows`](super::RowStream::found_rows).
    pub fn found_rows(&self) -> u64 {
        self.tail.found
    }

    /// The next result row.
    pub fn next_of(&mut self, plan: &QueryPlan, env: &ExecEnv<'_>) -> ExecResult<Option<&[Value]>> {
        let Some(profile) = &env.states.profile else {
            return self.next_unmeasured(plan, env);
        };
        if !self.tail.opened {
            profile.open(plan, Stage::Root, || ());
        }
        // What is given borrows from `self`, so it is looked up again.
        let next = || self.next_unmeasured(plan, env).map(|row| row.is_some());
        let found = profile.next(plan, Stage::Root, |found| *found, next)?;
        Ok(found.then_some(&self.out[..]))
    }

    fn next_unmeasured(
        &mut self,
        plan: &QueryPlan,
        env: &ExecEnv<'_>,
    ) -> ExecResult<Option<&[Value]>> {
        let (order, limit, count_all) = match &plan.root {
            Root::Block(b) => (&b.order, &b.limit, b.calc_found_rows),
            Root::SetOps(s) => (&s.order, &s.limit, s.calc_found_rows),
            Root::Values(v) => (&v.order, &v.limit, false),
            Root::Recursive(r) => (&Vec::new(), &r.limit, false),
        };
        if !self.tail.opened {
            self.tail.open(limit.as_ref(), env)?;
            if let (State::Block(state), Root::Block(block)) = (&mut self.state, &plan.root) {
                let start = env.states.profile.is_some().then(Instant::now);
                state.open(block, env)?;
                if let (Some(profile), Some(start)) = (&env.states.profile, start) {
                    begin_stages(profile, plan, block, start.elapsed());
                }
            } else if let (Some(profile), false) = (&env.states.profile, order.is_empty()) {
                profile.begin(plan, Stage::Sort, Duration::ZERO);
            }
            if !order.is_empty() && (self.tail.left > 0 || count_all) {
                let mut sort = || self.sort(plan, order, limit.is_some(), env);
                match &env.states.profile {
                    None => sort()?,
                    Some(profile) => profile.work(plan, Stage::Sort, sort)?,
                }
            }
        }
        if self.tail.sorted.is_some() {
            let Some(profile) = &env.states.profile else {
                return self.next_sorted(plan, env);
            };
            let next = || self.next_sorted(plan, env).map(|row| row.is_some());
            let found = profile.next(plan, Stage::Sort, |found| *found, next)?;
            return Ok(found.then_some(&self.out[..]));
        }
        while self.tail.left > 0 || count_all {
            let is_given = self.tail.skip == 0 && self.tail.left > 0;
            if !self.produce(plan, is_given, env)? {
                break;
            }
            self.tail.found += 1;
            if is_given {
                self.tail.left -= 1;
                self.tail.given += 1;
                return Ok(Some(&self.out));
            }
            // Not before a row that is given: the row of a SLEEP that KILL ends is the statement's answer.
            env.tick()?;
            self.tail.skip = self.tail.skip.saturating_sub(1);
        }
        self.tail.left = 0;
        debug_assert!(self.tail.given <= self.tail.found);
        if !count_all {
            self.tail.found = self.tail.given;
        }
        Ok(None)
    }

    fn next_sorted(&mut self, plan: &QueryPlan, env: &ExecEnv<'_>) -> ExecResult<Option<&[Value]>> {
        let tail = &mut self.tail;
        let rows = tail.sorted.as_mut().expect("checked by the caller");
        while tail.skip > 0 {
            if rows.next(env)?.is_none() {
                return Ok(None);
            }
            tail.skip -= 1;
        }
        if tail.left == 0 {
            return Ok(None);
        }
        tail.left -= 1;
        let Some(row) = rows.next(env)? else {
            return Ok(None);
        };
        tail.given += 1;
        match (&mut self.state, &plan.root) {
            (State::Block(state), Root::Block(block)) if self.stores && block.gives_directly() => {
                debug_assert_eq!(
                    row.len(),
                    block.width as usize,
                    "what the select list reads"
                );
                state.row = row;
                strictly(true, env, || state.project(block, &mut self.out, env))?;
            }
            _ => self.out = row,
        }
        Ok(Some(&self.out))
    }

    /// Reads everything and sorts it.
    fn sort(
        &mut self,
        plan: &QueryPlan,
        order: &[OrderKey],
        limited: bool,
        env: &ExecEnv<'_>,
    ) -> ExecResult<()> {
        debug_assert!(self.tail.sorted.is_none(), "a query is sorted once");
        let keep = self.tail.skip.saturating_add(self.tail.left);
        let mut sorter = Sorter::new(limited.then_some(keep));
        let mut key = Vec::new();
        if let (State::Block(state), Root::Block(block)) = (&mut self.state, &plan.root) {
            let late = self.stores && block.gives_directly();
            // The select list of a row that is not kept is computed only for DISTINCT.
            while match block.distinct {
                true => state.next_new(plan, block, order, &mut self.out, env)?,
                false => state.next_row(plan, block, env)?,
            } {
                env.tick()?;
                self.tail.found += 1;
                order_key(order, &state.row, env, &mut key)?;
                if sorter.wants(&key) {
                    if late {
                        self.out.clone_from(&state.row);
                    } else if !block.distinct {
                        state.project(block, &mut self.out, env)?;
                    }
                    sorter.push(&key, std::mem::take(&mut self.out), env)?;
                }
            }
            // Rows that DISTINCT put off bring their sort keys along.
            if let Some(mut later) = state.seen.drain(env)? {
                while let Some(mut row) = later.next(env)? {
                    self.tail.found += 1;
                    if let Some(profile) = &env.states.profile {
                        profile.add_rows(plan, Stage::Distinct, 1);
                    }
                    if let Some(Value::Str(key)) = row.pop()
                        && sorter.wants(&key)
                    {
                        sorter.push(&key, row, env)?;
                    }
                }
                later.close(env);
            }
        } else {
            while self.produce(plan, true, env)? {
                env.tick()?;
                self.tail.found += 1;
                order_key(order, &self.out, env, &mut key)?;
                if sorter.wants(&key) {
                    sorter.push(&key, std::mem::take(&mut self.out), env)?;
                }
            }
        }
        note_sorted(sorter.kept());
        self.tail.sorted = Some(sorter.finish(env)?);
        Ok(())
    }

    /// Goes to the next row before ORDER BY and LIMIT, and puts it into `out` if it `is_given`: OFFSET passes over rows
    /// whose select list nobody reads.
    fn produce(&mut self, plan: &QueryPlan, is_given: bool, env: &ExecEnv<'_>) -> ExecResult<bool> {
        match (&mut self.state, &plan.root) {
            (State::Block(state), Root::Block(block)) => {
                if state.later.is_none() {
                    if block.distinct {
                        if state.next_new(plan, block, &[], &mut self.out, env)? {
                            return Ok(true);
                        }
                    } else if state.next_row(plan, block, env)? {
                        if is_given {
                            let is_strict = self.stores && block.gives_directly();
                            strictly(is_strict, env, || state.project(block, &mut self.out, env))?;
                        }
                        return Ok(true);
                    }
                    state.later = state.seen.drain(env)?;
                }
                let mut next = || next_later(&mut state.later, &mut self.out, env);
                match &env.states.profile {
                    Some(profile) if block.distinct => {
                        profile.next(plan, Stage::Distinct, |found| *found, next)
                    }
                    _ => next(),
                }
            }
            (State::SetOps(state), Root::SetOps(ops)) => {
                state.next(ops, &plan.columns, &mut self.out, env)
            }
            (State::Recursive(state), Root::Recursive(recursive)) => {
                state.next(recursive, &plan.columns, &mut self.out, env)
            }
            (State::Values(at), Root::Values(values)) => {
                let mut row = || values_row(values, at, &plan.columns, &mut self.out, env);
                strictly(self.stores, env, &mut row)
            }
            _ => unreachable!("a state mirrors its plan"),
        }
    }
}

/// Computes values that are stored, if so: bad ones are errors then.
fn strictly<T>(
    stores: bool,
    env: &ExecEnv<'_>,
    compute: impl FnOnce() -> ExecResult<T>,
) -> ExecResult<T> {
    if !stores {
        return compute();
    }
    let strict_write = &env.ctx.diagnostics.strict_write;
    let before = strict_write.replace(true);
    let computed = compute();
    strict_write.set(before);
    computed
}

fn values_row(
    values: &ValuesPlan,
    at: &mut usize,
    columns: &[ColumnMeta],
    out: &mut Vec<Value>,
    env: &ExecEnv<'_>,
) -> ExecResult<bool> {
    let Some(exprs) = values.rows.get(*at) else {
        return Ok(false);
    };
    *at += 1;
    debug_assert_eq!(exprs.len(), columns.len());
    out.clear();
    for (expr, column) in exprs.iter().zip(columns) {
        let value = expr.eval(&[], env)?;
        out.push(convert(env.ctx, value, &expr.ty, &column.ty)?);
    }
    Ok(true)
}

/// The stages above the joins of a block begin: opening those has taken so long.
fn begin_stages(profile: &Profile, plan: &QueryPlan, block: &BlockPlan, took: Duration) {
    let stages = [
        (block.group.is_some(), Stage::Group),
        (block.having.is_some(), Stage::Having),
        (block.windows.is_some(), Stage::Window),
        (block.distinct, Stage::Distinct),
        (!block.order.is_empty(), Stage::Sort),
    ];
    for (_, stage) in stages.into_iter().filter(|(is_there, _)| *is_there) {
        profile.begin(plan, stage, took);
    }
}

impl Tail {
    fn open(&mut self, limit: Option<&LimitSpec>, env: &ExecEnv<'_>) -> ExecResult<()> {
        debug_assert!(!self.opened, "it is reset before it is opened again");
        (self.skip, self.left) = limit_values(limit, env)?;
        self.opened = true;
        Ok(())
    }
}

/// Offset and count of a LIMIT clause.
pub(crate) fn limit_values(limit: Option<&LimitSpec>, env: &ExecEnv<'_>) -> ExecResult<(u64, u64)> {
    let Some(limit) = limit else {
        return Ok((0, u64::MAX));
    };
    let number = |e: &Expr| -> ExecResult<u64> {
        let number = match e.eval(&[], env)? {
            Value::Int(v) => u64::try_from(v).ok(),
            Value::UInt(v) => Some(v),
            Value::Null => Some(0),
            _ => None,
        };
        Ok(number.ok_or_else(|| errors::wrong_arguments("LIMIT"))?)
    };
    let skip = limit.offset.as_ref().map_or(Ok(0), number)?;
    Ok((skip, number(&limit.count)?))
}

impl BlockState {
    fn new(plan: &BlockPlan) -> Self {
        Self {
            node: NodeState::new(&plan.source),
            parallel: None,
            row: vec![Value::Null; plan.width as usize],
            groups: plan.group.as_ref().map(|_| Groups::default()),
            grouped: false,
            ahead: None,
            windows: plan.windows.as_ref().map(|_| WindowRows::default()),
            seen: DistinctRows::default(),
            later: None,
            key: Vec::new(),
        }
    }

    fn open(&mut self, plan: &Arc<BlockPlan>, env: &ExecEnv<'_>) -> ExecResult<()> {
        debug_assert_eq!(self.row.len(), plan.width as usize);
        self.parallel = parallel::run(plan, env)?;
        match self.parallel {
            Some(_) => Ok(()),
            None => self.node.open(&plan.source, &mut self.row, env),
        }
    }

    fn reset(&mut self, env: &ExecEnv<'_>) {
        if let Some(rows) = self.parallel.take() {
            rows.give_back(env);
        }
        if let Some(groups) = &mut self.groups {
            groups.reset(env);
        }
        self.grouped = false;
        self.ahead = None;
        if let Some(windows) = &mut self.windows {
            windows.reset(env);
        }
        self.seen.reset(env);
        if let Some(later) = self.later.take() {
            later.close(env);
        }
    }

    /// Fills the row that the select list reads.
    fn next_row(
        &mut self,
        whole: &QueryPlan,
        plan: &BlockPlan,
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        match &env.states.profile {
            Some(profile) if plan.windows.is_some() => {
                let next = || self.next_windowed(whole, plan, env);
                profile.next(whole, Stage::Window, |found| *found, next)
            }
            _ => self.next_windowed(whole, plan, env),
        }
    }

    fn next_windowed(
        &mut self,
        whole: &QueryPlan,
        plan: &BlockPlan,
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        let Some(windows) = &plan.windows else {
            return self.next_having(whole, plan, env);
        };
        let Some(mut rows) = self.windows.take() else {
            return Ok(false);
        };
        if !rows.is_complete() {
            while self.next_having(whole, plan, env)? {
                rows.add(windows, &mut self.row, env)?;
            }
            rows.compute(windows, env)?;
        }
        let found = rows.next(windows, &mut self.row, env)?;
        self.windows = Some(rows);
        Ok(found)
    }

    /// Fills the row that windows and the select list read: joined and grouped, HAVING met.
    fn next_having(
        &mut self,
        whole: &QueryPlan,
        plan: &BlockPlan,
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        let Some(having) = &plan.having else {
            return self.next_grouped(whole, plan, env);
        };
        let mut next = || {
            while self.next_grouped(whole, plan, env)? {
                if having.is_true(&self.row, env)? {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        match &env.states.profile {
            None => next(),
            Some(profile) => profile.next(whole, Stage::Having, |found| *found, next),
        }
    }

    /// Fills the row that HAVING reads.
    fn next_grouped(
        &mut self,
        whole: &QueryPlan,
        plan: &BlockPlan,
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        if let Some(rows) = &mut self.parallel {
            let mut next = || rows.next(plan, &mut self.row, env);
            return match &env.states.profile {
                Some(profile) if plan.group.is_some() => {
                    profile.next(whole, Stage::Group, |found| *found, next)
                }
                _ => next(),
            };
        }
        let (Some(groups), Some(group)) = (&mut self.groups, &plan.group) else {
            return self.node.next(&plan.source, &mut self.row, env);
        };
        let (node, row, grouped) = (&mut self.node, &mut self.row, &mut self.grouped);
        let ahead = &mut self.ahead;
        let mut next = || {
            if group.is_streaming {
                let mut input = |row: &mut [Value]| node.next(&plan.source, row, env);
                return groups.next_streamed(group, row, ahead, &mut input, env);
            }
            if !*grouped {
                while node.next(&plan.source, row, env)? {
                    groups.add(group, row, env)?;
                }
                groups.finish(group, env)?;
                *grouped = true;
            }
            groups.next(group, row, env)
        };
        match &env.states.profile {
            None => next(),
            Some(profile) => profile.next(whole, Stage::Group, |found| *found, next),
        }
    }

    fn project(&self, plan: &BlockPlan, out: &mut Vec<Value>, env: &ExecEnv<'_>) -> ExecResult<()> {
        out.resize(plan.output.len(), Value::Null);
        for (slot, expr) in out.iter_mut().zip(&plan.output) {
            expr.eval_into(&self.row, env, slot)?;
        }
        Ok(())
    }

    /// The next row that DISTINCT has not seen, projected, until those that have to wait for the end.
    fn next_new(
        &mut self,
        whole: &QueryPlan,
        plan: &BlockPlan,
        order: &[OrderKey],
        out: &mut Vec<Value>,
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        let mut next = || {
            while self.next_row(whole, plan, env)? {
                if self.project_new(plan, order, out, env)? == First::New {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        match &env.states.profile {
            None => next(),
            Some(profile) => profile.next(whole, Stage::Distinct, |found| *found, next),
        }
    }

    /// Projects, and asks whether DISTINCT has seen the row. A row that is put off takes its key of
    /// `order` along, as its last value, if there is an order.
    fn project_new(
        &mut self,
        plan: &BlockPlan,
        order: &[OrderKey],
        out: &mut Vec<Value>,
        env: &ExecEnv<'_>,
    ) -> ExecResult<First> {
        self.project(plan, out, env)?;
        self.key.clear();
        rowkey::encode_row(
            out.iter().zip(plan.compared().iter().map(|e| &e.ty)),
            &mut self.key,
        );
        let row = || {
            let mut row = out.clone();
            if !order.is_empty() {
                let mut key = Vec::new();
                order_key(order, &self.row, env, &mut key)?;
                row.push(Value::Str(key));
            }
            Ok(row)
        };
        self.seen.add(&self.key, row, env)
    }
}

/// The next of the rows that DISTINCT put off.
pub(super) fn next_later(
    later: &mut Option<SortedRows>,
    out: &mut Vec<Value>,
    env: &ExecEnv<'_>,
) -> ExecResult<bool> {
    let Some(rows) = later else {
        return Ok(false);
    };
    match rows.next(env)? {
        Some(row) => {
            *out = row;
            Ok(true)
        }
        None => Ok(false),
    }
}
