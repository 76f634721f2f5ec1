//! GROUP BY, aggregates, WITH ROLLUP.
//!
//! Neighbours: `root` feeds rows and reads grouped rows; the aggregate functions are `esker-types`'.
//! **Invariants**: groups come in the order of their first row (with rollup: by key, each total after
//! its details); DISTINCT arguments reach an aggregate once per group; one group comes out for no
//! rows only without GROUP BY.

use std::collections::{HashMap, HashSet};

use esker_types::func::aggregate::AggState;
use esker_types::{SqlResult, Value};
use smallvec::SmallVec;

use super::memory::{Purpose, charge, refund, row_bytes};
use super::rowkey;
use super::sort::{Sorter, order_key};
use crate::bind::AggCall;
use crate::expr::EvalEnv;
use crate::expr::eval::Val;
use crate::plan::GroupPlan;

/// Keys of a row that need no memory of their own.
const INLINE_KEYS: usize = 4;
/// Rough bytes of an aggregate's state.
const STATE_BYTES: u64 = 64;
/// Stands for a rolled-up key when groups are ordered: after every value.
const ROLLED_UP: u8 = 0xFF;

/// All groups of one block.
#[derive(Default)]
pub(crate) struct Groups {
    by_key: HashMap<Box<[u8]>, u32>,
    groups: Vec<Group>,
    /// Order in which groups are given, and how far it has come.
    sequence: Vec<u32>,
    given: usize,
    key: Vec<u8>,
    args: Vec<Value>,
    bytes: u64,
}

struct Group {
    /// Values of the kept slots of the first row.
    kept: Box<[Value]>,
    keys: Box<[Value]>,
    /// Leading keys that are not rolled up.
    level: usize,
    accs: Vec<Acc>,
}

/// One aggregate of one group.
enum Acc {
    /// COUNT(*).
    Rows(u64),
    Plain(Box<dyn AggState>),
    Distinct(Box<dyn AggState>, HashSet<Box<[u8]>>),
    /// GROUP_CONCAT with ORDER BY: arguments wait until all are there.
    Ordered {
        state: Box<dyn AggState>,
        sorter: Box<Sorter>,
        seen: Option<HashSet<Box<[u8]>>>,
    },
}

impl Acc {
    fn new(call: &AggCall) -> Self {
        if call.args.is_empty() {
            return Self::Rows(0);
        }
        let state = call.def.state(&call.types);
        if !call.order.is_empty() {
            let seen = call.distinct.then(HashSet::new);
            return Self::Ordered {
                state,
                sorter: Box::new(Sorter::new(None)),
                seen,
            };
        }
        match call.distinct {
            true => Self::Distinct(state, HashSet::new()),
            false => Self::Plain(state),
        }
    }

    fn update(
        &mut self,
        call: &AggCall,
        args: &mut Vec<Value>,
        row: &[Value],
        env: &EvalEnv<'_>,
    ) -> SqlResult<u64> {
        if let Self::Rows(n) = self {
            *n += 1;
            return Ok(0);
        }
        args.clear();
        for arg in &call.args {
            args.push(arg.eval(row, env)?);
        }
        match self {
            Self::Rows(_) => Ok(0),
            Self::Plain(state) => state.update(env.ctx, args).map(|()| 0),
            Self::Distinct(state, seen) => match first_time(seen, call, args) {
                0 => Ok(0),
                bytes => state.update(env.ctx, args).map(|()| bytes),
            },
            Self::Ordered { sorter, seen, .. } => {
                if seen
                    .as_mut()
                    .is_some_and(|s| first_time(s, call, args) == 0)
                {
                    return Ok(0);
                }
                let mut key = Vec::new();
                order_key(&call.order, row, env, &mut key)?;
                sorter.push(&key, args.clone(), env).map(|()| 0)
            }
        }
    }

    fn finish(&mut self, env: &EvalEnv<'_>) -> SqlResult<Value> {
        match self {
            Self::Rows(n) => Ok(Value::Int(*n as i64)),
            Self::Plain(state) | Self::Distinct(state, _) => state.finish(env.ctx),
            Self::Ordered { state, sorter, .. } => {
                let (rows, bytes) = sorter.finish();
                for args in rows {
                    state.update(env.ctx, &args)?;
                }
                refund(env, bytes);
                state.finish(env.ctx)
            }
        }
    }
}

/// Notes the arguments in `seen`: the bytes that takes, 0 when they were there.
fn first_time(seen: &mut HashSet<Box<[u8]>>, call: &AggCall, args: &[Value]) -> u64 {
    let mut key = Vec::new();
    rowkey::encode_row(args.iter().zip(call.args.iter().map(|a| &a.ty)), &mut key);
    let bytes = key.len() as u64 + 32;
    if seen.insert(key.into()) { bytes } else { 0 }
}

impl Groups {
    /// Takes one input row.
    pub fn add(&mut self, plan: &GroupPlan, row: &[Value], env: &EvalEnv<'_>) -> SqlResult<()> {
        let mut keys: SmallVec<[Val<'_>; INLINE_KEYS]> = SmallVec::new();
        for key in &plan.keys {
            keys.push(key.eval_ref(row, env)?);
        }
        let lowest = if plan.rollup.is_some() { 0 } else { keys.len() };
        for level in (lowest..=keys.len()).rev() {
            self.add_at(plan, &keys, level, row, env)?;
        }
        Ok(())
    }

    fn add_at(
        &mut self,
        plan: &GroupPlan,
        keys: &[Val<'_>],
        level: usize,
        row: &[Value],
        env: &EvalEnv<'_>,
    ) -> SqlResult<()> {
        self.key.clear();
        for (key, expr) in keys[..level].iter().zip(&plan.keys) {
            rowkey::encode(key, &expr.ty, false, &mut self.key);
        }
        if level < keys.len() {
            self.key.push(ROLLED_UP);
        }
        let at = match self.by_key.get(&*self.key) {
            Some(at) => *at as usize,
            None => self.start(plan, keys, level, row, env)?,
        };
        let mut bytes = 0;
        for (acc, call) in self.groups[at].accs.iter_mut().zip(&plan.aggs) {
            bytes += acc.update(call, &mut self.args, row, env)?;
        }
        if bytes > 0 {
            charge(env, bytes, Purpose::Hash)?;
            self.bytes += bytes;
        }
        Ok(())
    }

    fn start(
        &mut self,
        plan: &GroupPlan,
        keys: &[Val<'_>],
        level: usize,
        row: &[Value],
        env: &EvalEnv<'_>,
    ) -> SqlResult<usize> {
        let kept: Box<[Value]> = plan.kept.iter().map(|s| row[*s as usize].clone()).collect();
        let keys: Box<[Value]> = keys.iter().map(|k| (**k).clone()).collect();
        let bytes = row_bytes(&kept)
            + row_bytes(&keys)
            + self.key.len() as u64
            + STATE_BYTES * plan.aggs.len() as u64;
        charge(env, bytes, Purpose::Hash)?;
        self.bytes += bytes;
        let at = self.groups.len();
        self.by_key.insert(self.key.as_slice().into(), at as u32);
        let accs = plan.aggs.iter().map(Acc::new).collect();
        self.groups.push(Group {
            kept,
            keys,
            level,
            accs,
        });
        Ok(at)
    }

    /// Ends the input.
    pub fn finish(&mut self, plan: &GroupPlan) {
        // The grand total of a rollup is there for no rows, too.
        if self.groups.is_empty() && (plan.implicit || plan.rollup.is_some()) {
            let kept = plan.kept.iter().map(|_| Value::Null).collect();
            let accs = plan.aggs.iter().map(Acc::new).collect();
            self.by_key.insert([ROLLED_UP].into(), 0);
            self.groups.push(Group {
                kept,
                keys: plan.keys.iter().map(|_| Value::Null).collect(),
                level: 0,
                accs,
            });
        }
        self.sequence = (0..self.groups.len() as u32).collect();
        if plan.rollup.is_some() {
            let mut keys: Vec<(&[u8], u32)> =
                self.by_key.iter().map(|(key, at)| (&**key, *at)).collect();
            keys.sort_unstable();
            self.sequence = keys.into_iter().map(|(_, at)| at).collect();
        }
    }

    /// Fills `row` with the next group's row.
    pub fn next(
        &mut self,
        plan: &GroupPlan,
        row: &mut [Value],
        env: &EvalEnv<'_>,
    ) -> SqlResult<bool> {
        let Some(&at) = self.sequence.get(self.given) else {
            return Ok(false);
        };
        self.given += 1;
        let group = &mut self.groups[at as usize];
        for (slot, value) in plan.kept.iter().zip(&mut group.kept) {
            row[*slot as usize] = std::mem::take(value);
        }
        for (nth, key) in group.keys.iter_mut().enumerate() {
            let rolled_up = nth >= group.level;
            let value = if rolled_up {
                Value::Null
            } else {
                std::mem::take(key)
            };
            // A key that is a plain column is also read through its own slot.
            if let Some(slot) = plan.keys[nth].as_column() {
                row[slot as usize] = value.clone();
            }
            row[plan.key_base as usize + nth] = value;
            if let Some(base) = plan.rollup {
                row[base as usize + nth] = Value::Int(i64::from(rolled_up));
            }
        }
        for (nth, acc) in group.accs.iter_mut().enumerate() {
            row[plan.agg_base as usize + nth] = acc.finish(env)?;
        }
        Ok(true)
    }

    /// Forgets everything.
    pub fn reset(&mut self, env: &EvalEnv<'_>) {
        refund(env, self.bytes);
        *self = Self::default();
    }
}
