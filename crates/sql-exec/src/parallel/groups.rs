//! Partial aggregation: hash groups of one task's rows, and merging the groups of all tasks.
//!
//! Neighbours: `task` adds rows, `vectorized` adds sums of many; the statement's thread merges the tables of the tasks
//! in order. Serial aggregation is `exec::group`, which also does rollups, GROUP_CONCAT and what does not fit in
//! memory. **Invariants**: groups stand in the order of their first row, also after merging tables of consecutive
//! tasks; DISTINCT arguments reach an aggregate once per group.

use std::collections::HashSet;

use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::bind::AggCall;
use esker_sql_plan::expr::{TURN_BYTES, rowkey};
use esker_sql_plan::plan::GroupPlan;
use esker_types::func::aggregate::AggState;
use esker_types::{EvalCtx, Value};

use super::super::join_table::{KeyHash, KeyMap};
use super::super::memory::row_bytes;
use super::sink::Warned;
use crate::ExecEnv;

/// Rough bytes of an aggregate's state, and of an entry of a table or a set.
const STATE_BYTES: u64 = 64;
const ENTRY_BYTES: u64 = 48;

/// Groups by their keys.
#[derive(Default)]
pub(super) struct GroupTable {
    by_key: KeyMap<u32>,
    groups: Vec<Group>,
    given: usize,
    key: Vec<u8>,
    args: Vec<Value>,
    /// A group that was dropped, for its memory.
    spare: Option<Group>,
}

struct Group {
    key: Box<[u8]>,
    /// Values of the kept slots of the first row.
    kept: Box<[Value]>,
    keys: Box<[Value]>,
    accs: Vec<Acc>,
}

impl Group {
    /// Rough bytes, but for distinct arguments.
    fn bytes(&self) -> u64 {
        row_bytes(&self.kept)
            + row_bytes(&self.keys)
            + 2 * (self.key.len() as u64 + ENTRY_BYTES)
            + STATE_BYTES * self.accs.len() as u64
            + self.accs.iter().map(Acc::grown).sum::<u64>()
    }

    /// Fills the slots of its row, and goes on.
    fn show(&mut self, plan: &GroupPlan, row: &mut [Value], ctx: &EvalCtx<'_>) -> ExecResult<()> {
        debug_assert_eq!(self.accs.len(), plan.aggs.len());
        for (slot, value) in plan.kept.iter().zip(&self.kept) {
            row[*slot as usize].clone_from(value);
        }
        for (nth, value) in self.keys.iter().enumerate() {
            if let Some(slot) = plan.keys[nth].as_column() {
                row[slot as usize].clone_from(value);
            }
            row[plan.key_base as usize + nth].clone_from(value);
        }
        for (nth, acc) in self.accs.iter_mut().enumerate() {
            row[plan.aggs[nth].slot as usize] = acc.finish(ctx)?;
        }
        debug_assert_eq!(
            (self.keys.len(), self.kept.len()),
            (plan.keys.len(), plan.kept.len())
        );
        Ok(())
    }
}

/// What an aggregate is given of many rows of a group at once.
pub(super) enum Partial {
    /// So many rows count.
    Rows(u64),
    /// The sum of so many rows, none NULL, is `digits / 10^scale`.
    Sum { rows: u64, digits: i128, scale: u8 },
    /// The smallest or largest.
    Extreme(Value),
}

/// Arguments of a row, and their key.
type Args = (Box<[u8]>, Box<[Value]>);

/// One aggregate of one group.
enum Acc {
    /// COUNT(*).
    Rows(u64),
    Plain(Box<dyn AggState>),
    /// What it keeps is counted as it grows.
    Growing(Box<dyn AggState>),
    /// COUNT(DISTINCT …): the keys of the arguments that were there.
    Distincts(HashSet<Box<[u8]>, KeyHash>),
    Distinct {
        state: Box<dyn AggState>,
        seen: HashSet<Box<[u8]>>,
        /// The arguments in the order in which they came, with their keys: what a merge goes by.
        order: Vec<Args>,
    },
}

impl Acc {
    fn new(call: &AggCall) -> Self {
        if call.args.is_empty() {
            return Self::Rows(0);
        }
        if call.distinct && call.def.name == "count" {
            return Self::Distincts(HashSet::default());
        }
        let state = call.def.state(&call.types);
        match call.distinct {
            true => Self::Distinct {
                state,
                seen: HashSet::new(),
                order: Vec::new(),
            },
            false if call.def.grows(&call.types) => Self::Growing(state),
            false => Self::Plain(state),
        }
    }

    /// Bytes that its state has taken as it grew.
    fn grown(&self) -> u64 {
        match self {
            Self::Growing(state) => state.bytes(),
            _ => 0,
        }
    }

    /// Takes a row; gives the bytes that took.
    fn update(
        &mut self,
        call: &AggCall,
        args: &mut Vec<Value>,
        row: &[Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<u64> {
        match self {
            Self::Rows(n) => {
                *n += 1;
                Ok(0)
            }
            Self::Plain(state) => {
                let [arg] = &call.args[..] else {
                    evaluate(call, args, row, env)?;
                    return Ok(state.update(env.ctx, args).map(|()| 0)?);
                };
                match &*arg.eval_ref(row, env)? {
                    Value::Int(v) => state.update_int(env.ctx, *v)?,
                    value => state.update(env.ctx, std::slice::from_ref(value))?,
                }
                Ok(0)
            }
            Self::Growing(state) => {
                let before = state.bytes();
                evaluate(call, args, row, env)?;
                state.update(env.ctx, args)?;
                Ok(state.bytes() - before)
            }
            Self::Distincts(seen) => {
                evaluate(call, args, row, env)?;
                if args.iter().any(Value::is_null) {
                    return Ok(0);
                }
                let key = distinct_key(call, args);
                let bytes = key.len() as u64 + ENTRY_BYTES;
                Ok(if seen.insert(key.into()) { bytes } else { 0 })
            }
            Self::Distinct { state, seen, order } => {
                evaluate(call, args, row, env)?;
                let key = distinct_key(call, args);
                if seen.contains(&*key) {
                    return Ok(0);
                }
                let before = state.bytes();
                state.update(env.ctx, args)?;
                let bytes = 2 * (key.len() as u64 + ENTRY_BYTES) + row_bytes(args.iter());
                let bytes = bytes + state.bytes() - before;
                seen.insert(key.as_slice().into());
                order.push((key.into(), args.as_slice().into()));
                Ok(bytes)
            }
        }
    }

    fn take(&mut self, partial: Partial, ctx: &EvalCtx<'_>) -> ExecResult<()> {
        match (self, partial) {
            (Self::Rows(n), Partial::Rows(more)) => *n += more,
            (Self::Plain(state), Partial::Rows(rows)) => state.add_rows(rows),
            (
                Self::Plain(state),
                Partial::Sum {
                    rows,
                    digits,
                    scale,
                },
            ) => state.add_sum(rows, digits, scale)?,
            (Self::Plain(state) | Self::Growing(state), Partial::Extreme(value)) => {
                state.update(ctx, &[value])?;
            }
            _ => unreachable!("a batch gives what the aggregate is made for"),
        }
        Ok(())
    }

    fn merge(&mut self, other: Acc, ctx: &EvalCtx<'_>) -> ExecResult<()> {
        match (self, other) {
            (Self::Rows(n), Self::Rows(more)) => *n += more,
            (Self::Plain(state), Self::Plain(other))
            | (Self::Growing(state), Self::Growing(other)) => state.merge(ctx, other)?,
            (Self::Distincts(seen), Self::Distincts(mut other)) => {
                if seen.len() < other.len() {
                    std::mem::swap(seen, &mut other);
                }
                seen.extend(other);
            }
            (Self::Distinct { state, seen, .. }, Self::Distinct { order, .. }) => {
                for (key, args) in order {
                    if seen.insert(key) {
                        state.update(ctx, &args)?;
                    }
                }
            }
            _ => unreachable!("aggregates of one call are of one kind"),
        }
        Ok(())
    }

    fn finish(&mut self, ctx: &EvalCtx<'_>) -> ExecResult<Value> {
        match self {
            Self::Rows(n) => Ok(Value::Int(*n as i64)),
            Self::Distincts(seen) => Ok(Value::Int(seen.len() as i64)),
            Self::Plain(state) | Self::Growing(state) | Self::Distinct { state, .. } => {
                Ok(state.finish(ctx)?)
            }
        }
    }
}

/// What tells the arguments of a call with DISTINCT apart.
fn distinct_key(call: &AggCall, args: &[Value]) -> Vec<u8> {
    let mut key = Vec::new();
    rowkey::encode_row(args.iter().zip(call.args.iter().map(|a| &a.ty)), &mut key);
    key
}

fn evaluate(
    call: &AggCall,
    args: &mut Vec<Value>,
    row: &[Value],
    env: &ExecEnv<'_>,
) -> ExecResult<()> {
    args.resize(call.args.len(), Value::Null);
    for (slot, arg) in args.iter_mut().zip(&call.args) {
        arg.eval_into(row, env, slot)?;
    }
    Ok(())
}

impl GroupTable {
    /// The one group of a query that wants nothing but the number of rows.
    pub fn counted(plan: &GroupPlan, rows: u64) -> Self {
        let mut table = Self::default();
        table.groups.push(Group {
            key: Box::default(),
            kept: Box::default(),
            keys: Box::default(),
            accs: plan.aggs.iter().map(|_| Acc::Rows(rows)).collect(),
        });
        table
    }

    /// Takes a row; gives the bytes that took.
    pub fn add(&mut self, plan: &GroupPlan, row: &[Value], env: &ExecEnv<'_>) -> ExecResult<u64> {
        let (at, bytes) = self.place(plan, row, env)?;
        Ok(bytes + self.add_to(at, plan, row, env)?)
    }

    /// Takes the first row of a group with this key, which no other row has had in a while and none will be looked up
    /// by.
    pub fn add_first(
        &mut self,
        plan: &GroupPlan,
        key: &[u8],
        row: &[Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<u64> {
        self.key.clear();
        self.key.extend_from_slice(key);
        let group = self.new_group(plan, row, env)?;
        let bytes = group.bytes();
        self.groups.push(group);
        Ok(bytes + self.add_to(self.groups.len() - 1, plan, row, env)?)
    }

    /// Takes a row of a group by its number; gives the bytes that took.
    pub fn add_to(
        &mut self,
        at: usize,
        plan: &GroupPlan,
        row: &[Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<u64> {
        let mut bytes = 0;
        debug_assert_eq!(self.groups[at].accs.len(), plan.aggs.len());
        for (acc, call) in self.groups[at].accs.iter_mut().zip(&plan.aggs) {
            bytes += acc.update(call, &mut self.args, row, env)?;
        }
        Ok(bytes)
    }

    /// The number of a row's group, which begins if this is its first row; and the bytes that took.
    pub fn place(
        &mut self,
        plan: &GroupPlan,
        row: &[Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<(usize, u64)> {
        let mut bytes = 0;
        let at = if plan.keys.is_empty() {
            if self.groups.is_empty() {
                bytes += self.start(plan, row, env)?;
            }
            0
        } else {
            self.key.clear();
            for key in plan.telling_keys() {
                rowkey::encode(&*key.eval_ref(row, env)?, &key.ty, false, &mut self.key);
            }
            match self.by_key.get(&*self.key) {
                Some(at) => *at as usize,
                None => {
                    bytes += self.start(plan, row, env)?;
                    self.groups.len() - 1
                }
            }
        };
        Ok((at, bytes))
    }

    /// Gives an aggregate of a group what many rows come to.
    pub fn deposit(
        &mut self,
        (group, nth): (usize, usize),
        partial: Partial,
        ctx: &EvalCtx<'_>,
    ) -> ExecResult<()> {
        self.groups[group].accs[nth].take(partial, ctx)
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// No further row belongs to the groups so far: from `from` on keeps those that `wanted` says yes to when their row
    /// is in `row`. Gives the bytes that became free.
    pub fn complete(
        &mut self,
        plan: &GroupPlan,
        from: usize,
        row: &mut [Value],
        ctx: &EvalCtx<'_>,
        wanted: &mut dyn FnMut(&[Value]) -> ExecResult<bool>,
    ) -> ExecResult<u64> {
        if !self.by_key.is_empty() {
            self.by_key.clear();
        }
        let (mut freed, mut at) = (0, from);
        while let Some(group) = self.groups.get_mut(at) {
            group.show(plan, row, ctx)?;
            if wanted(row)? {
                at += 1;
            } else {
                let dropped = self.groups.remove(at);
                freed += dropped.bytes();
                self.spare = Some(dropped);
            }
        }
        Ok(freed)
    }

    /// Begins the group of `self.key`.
    fn start(&mut self, plan: &GroupPlan, row: &[Value], env: &ExecEnv<'_>) -> ExecResult<u64> {
        let group = self.new_group(plan, row, env)?;
        let bytes = group.bytes();
        self.enter(group);
        Ok(bytes)
    }

    /// The group of `self.key`, of which this is the first row.
    fn new_group(
        &mut self,
        plan: &GroupPlan,
        row: &[Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<Group> {
        let mut group = self.spare.take().unwrap_or_else(|| Group {
            key: Box::default(),
            kept: vec![Value::Null; plan.kept.len()].into(),
            keys: vec![Value::Null; plan.keys.len()].into(),
            accs: Vec::with_capacity(plan.aggs.len()),
        });
        match group.key.len() == self.key.len() {
            true => group.key.copy_from_slice(&self.key),
            false => group.key = self.key.as_slice().into(),
        }
        // They have warned when they were looked up.
        let warned = Warned::of(env.ctx);
        for (value, key) in group.keys.iter_mut().zip(&plan.keys) {
            key.eval_into(row, env, value)?;
        }
        warned.forget_later();
        for (value, slot) in group.kept.iter_mut().zip(&plan.kept) {
            value.clone_from(&row[*slot as usize]);
        }
        group.accs.clear();
        group.accs.extend(plan.aggs.iter().map(Acc::new));
        Ok(group)
    }

    fn enter(&mut self, group: Group) {
        debug_assert!(!self.by_key.contains_key(&group.key), "a key has one group");
        self.by_key
            .insert(group.key.clone(), self.groups.len() as u32);
        self.groups.push(group);
    }

    /// Takes over the groups of rows that come behind all of this table's.
    pub fn merge(&mut self, other: GroupTable, ctx: &EvalCtx<'_>) -> ExecResult<()> {
        for group in other.groups {
            ctx.session.go_on(TURN_BYTES)?;
            let Some(at) = self.by_key.get(&group.key) else {
                self.enter(group);
                continue;
            };
            let mine = &mut self.groups[*at as usize].accs;
            debug_assert_eq!(mine.len(), group.accs.len());
            for (acc, other) in mine.iter_mut().zip(group.accs) {
                acc.merge(other, ctx)?;
            }
        }
        Ok(())
    }

    /// Ends the input: without GROUP BY there is a group also for no rows.
    pub fn finish(&mut self, plan: &GroupPlan) {
        if self.groups.is_empty() && plan.implicit {
            self.enter(Group {
                key: Box::default(),
                kept: plan.kept.iter().map(|_| Value::Null).collect(),
                keys: plan.keys.iter().map(|_| Value::Null).collect(),
                accs: plan.aggs.iter().map(Acc::new).collect(),
            });
        }
        self.by_key = KeyMap::default();
    }

    /// Fills `row` with the next group's row; false at the end.
    pub fn next(
        &mut self,
        plan: &GroupPlan,
        row: &mut [Value],
        ctx: &EvalCtx<'_>,
    ) -> ExecResult<bool> {
        let Some(group) = self.groups.get_mut(self.given) else {
            return Ok(false);
        };
        self.given += 1;
        for (slot, value) in plan.kept.iter().zip(&mut group.kept) {
            row[*slot as usize] = std::mem::take(value);
        }
        for (nth, key) in group.keys.iter_mut().enumerate() {
            let value = std::mem::take(key);
            // A key that is a plain column is also read through its own slot.
            if let Some(slot) = plan.keys[nth].as_column() {
                row[slot as usize] = value.clone();
            }
            row[plan.key_base as usize + nth] = value;
        }
        for (nth, acc) in group.accs.iter_mut().enumerate() {
            row[plan.aggs[nth].slot as usize] = acc.finish(ctx)?;
        }
        group.accs = Vec::new();
        Ok(true)
    }
}
