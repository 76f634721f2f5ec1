//! Hash aggregation, spilling by partitions, and streaming aggregation of rows in the order of their keys: GROUP BY,
//! aggregates, WITH ROLLUP.
//!
//! Neighbours: `root` feeds rows and reads grouped rows; the aggregate functions are `esker-types`'.
//! Groups that do not fit are put off: what their rows give to aggregates goes to disk by the hash of
//! the group's key, and each part is grouped alone when the groups in memory have been given.
//! Rows whose equal keys follow each other are grouped as they come, one group at a time.
//! **Invariants**: groups come in the order of their first row (with rollup: by key, each total after
//! its details), whether they were put off or not; DISTINCT arguments reach an aggregate once per group;
//! one group comes out for no rows only without GROUP BY.

use esker_sql_catalog::codec::damaged;
use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::bind::AggCall;
use esker_sql_plan::expr::eval::Val;
use esker_sql_plan::expr::rowkey;
use esker_sql_plan::plan::GroupPlan;
use esker_types::Value;
use esker_types::func::aggregate::AggState;
use smallvec::SmallVec;

use super::join_table::KeyMap;
use super::memory::{Budget, Purpose, charge, may_keep, refund, row_bytes};
use super::sort::{SortedRows, Sorter, order_key};
use super::spill::{
    DistinctRows, First, MAX_LEVEL, Partitions, Run, SpillFile, read_row, write_key, write_row,
};
use crate::ExecEnv;

/// Keys of a row that need no memory of their own.
const INLINE_KEYS: usize = 4;
/// Rough bytes of an aggregate's state.
const STATE_BYTES: u64 = 64;
/// Stands for a rolled-up key when groups are ordered: after every value.
const ROLLED_UP: u8 = 0xFF;

/// All groups of one block, or of one part of what was put off.
#[derive(Default)]
pub(crate) struct Groups {
    by_key: KeyMap<u32>,
    groups: Vec<Group>,
    /// Order in which groups are given, and how far it has come.
    sequence: Vec<u32>,
    given: usize,
    key: Vec<u8>,
    args: Vec<Value>,
    bytes: u64,
    /// Distinct arguments by group and aggregate.
    distinct: DistinctRows,
    /// Rows of groups that did not fit, and how many.
    later: Option<Partitions>,
    put_off: u64,
    /// Partitions to which `later` goes: deeper with every round.
    level: u32,
    /// Groups that come after those in memory.
    rest: Option<SortedRows>,
}

struct Group {
    /// Values of the kept slots of the first row.
    kept: Box<[Value]>,
    keys: Box<[Value]>,
    /// Leading keys that are not rolled up.
    level: usize,
    accs: Vec<Acc>,
    /// Place of its first row among those put off.
    ordinal: u64,
}

/// One aggregate of one group.
enum Acc {
    /// COUNT(*).
    Rows(u64),
    Plain(Box<dyn AggState>),
    /// What it keeps is counted as it grows.
    Growing(Box<dyn AggState>),
    /// GROUP_CONCAT with ORDER BY: arguments wait until all are there.
    Ordered(Box<dyn AggState>, Box<Sorter>),
}

impl Acc {
    fn new(call: &AggCall) -> Self {
        if call.args.is_empty() {
            return Self::Rows(0);
        }
        let state = call.def.state(&call.types);
        match call.order.is_empty() {
            true if call.def.grows(&call.types) => Self::Growing(state),
            true => Self::Plain(state),
            false => Self::Ordered(state, Box::new(Sorter::in_memory())),
        }
    }

    /// Takes the arguments of a row, and what its ORDER BY sorts them by. Gives the bytes that took and were not
    /// charged.
    fn take(&mut self, args: &[Value], order: &[u8], env: &ExecEnv<'_>) -> ExecResult<u64> {
        match self {
            Self::Rows(n) => *n += 1,
            Self::Plain(state) => state.update(env.ctx, args)?,
            Self::Growing(state) => {
                let before = state.bytes();
                state.update(env.ctx, args)?;
                return Ok(state.bytes() - before);
            }
            Self::Ordered(_, sorter) => sorter.push(order, args.to_vec(), env)?,
        }
        Ok(0)
    }

    fn finish(&mut self, env: &ExecEnv<'_>) -> ExecResult<Value> {
        match self {
            Self::Rows(n) => Ok(Value::Int(*n as i64)),
            Self::Plain(state) | Self::Growing(state) => Ok(state.finish(env.ctx)?),
            Self::Ordered(state, sorter) => {
                let mut rows = sorter.finish(env)?;
                while let Some(args) = rows.next(env)? {
                    state.update(env.ctx, &args)?;
                }
                rows.close(env);
                Ok(state.finish(env.ctx)?)
            }
        }
    }
}

/// Values that an aggregate gets from a row: its arguments, and its sort key if it has an ORDER BY.
fn width(call: &AggCall) -> usize {
    call.args.len() + usize::from(!call.order.is_empty())
}

/// Evaluates them.
fn evaluate(
    call: &AggCall,
    row: &[Value],
    env: &ExecEnv<'_>,
    out: &mut Vec<Value>,
) -> ExecResult<()> {
    for arg in &call.args {
        out.push(arg.eval(row, env)?);
    }
    if !call.order.is_empty() {
        let mut key = Vec::new();
        order_key(&call.order, row, env, &mut key)?;
        out.push(Value::Str(key));
    }
    Ok(())
}

/// Splits them again.
fn split<'v>(call: &AggCall, values: &'v [Value]) -> (&'v [Value], &'v [u8]) {
    let (args, order) = values.split_at(call.args.len());
    match order {
        [Value::Str(key)] => (args, key),
        _ => (args, &[]),
    }
}

impl Groups {
    /// Takes one input row.
    pub fn add(&mut self, plan: &GroupPlan, row: &[Value], env: &ExecEnv<'_>) -> ExecResult<()> {
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
        env: &ExecEnv<'_>,
    ) -> ExecResult<()> {
        debug_assert_eq!(plan.tells.len(), plan.keys.len());
        self.key.clear();
        for (nth, key) in keys[..level].iter().enumerate() {
            if plan.tells[nth] {
                rowkey::encode(key, &plan.keys[nth].ty, false, &mut self.key);
            }
        }
        if level < keys.len() {
            self.key.push(ROLLED_UP);
        }
        let at = match self.known() {
            Some(at) => at,
            None => {
                let mut values = keys.iter().map(|k| &**k);
                let kept = plan.kept.iter().map(|s| &row[*s as usize]);
                match self.start(plan, &mut values, kept, level, self.put_off, env)? {
                    Some(at) => at,
                    None => return self.put_off(plan, keys, level, row, env),
                }
            }
        };
        let mut args = std::mem::take(&mut self.args);
        for (nth, call) in plan.aggs.iter().enumerate() {
            args.clear();
            evaluate(call, row, env, &mut args)?;
            self.give(plan, at, nth, &args, env)?;
        }
        self.args = args;
        Ok(())
    }

    /// The group of the present key, if there is one already. Without GROUP BY all rows have the same.
    fn known(&self) -> Option<usize> {
        if self.key.is_empty() && self.groups.len() == 1 {
            debug_assert_eq!(self.by_key.get(&[][..]), Some(&0));
            return Some(0);
        }
        self.by_key.get(&*self.key).map(|at| *at as usize)
    }

    /// Gives a row's values to an aggregate of a group.
    fn give(
        &mut self,
        plan: &GroupPlan,
        at: usize,
        nth: usize,
        values: &[Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<()> {
        let call = &plan.aggs[nth];
        debug_assert_eq!(values.len(), width(call));
        let (args, order) = split(call, values);
        if call.distinct && !args.is_empty() {
            let mut key = Vec::with_capacity(16);
            key.extend_from_slice(&(at as u32).to_be_bytes());
            key.extend_from_slice(&(nth as u32).to_be_bytes());
            rowkey::encode_row(args.iter().zip(call.args.iter().map(|a| &a.ty)), &mut key);
            let row = || {
                let place = [Value::UInt(at as u64), Value::UInt(nth as u64)];
                Ok(place.into_iter().chain(values.iter().cloned()).collect())
            };
            if self.distinct.add(&key, row, env)? != First::New {
                return Ok(());
            }
        }
        self.take((at, nth), args, order, env)
    }

    /// Gives arguments to an aggregate of a group, and charges what it keeps of them.
    fn take(
        &mut self,
        (at, nth): (usize, usize),
        args: &[Value],
        order: &[u8],
        env: &ExecEnv<'_>,
    ) -> ExecResult<()> {
        let bytes = self.groups[at].accs[nth].take(args, order, env)?;
        if bytes > 0 {
            charge(env, bytes, Purpose::Hash)?;
            self.bytes += bytes;
        }
        Ok(())
    }

    /// Starts a group with the key in `self.key`; `None` when it does not fit.
    fn start<'v>(
        &mut self,
        plan: &GroupPlan,
        keys: &mut dyn Iterator<Item = &'v Value>,
        kept: impl Iterator<Item = &'v Value>,
        level: usize,
        ordinal: u64,
        env: &ExecEnv<'_>,
    ) -> ExecResult<Option<usize>> {
        if self.later.is_some() {
            return Ok(None);
        }
        let kept: Box<[Value]> = kept.cloned().collect();
        let keys: Box<[Value]> = keys.cloned().collect();
        let bytes = row_bytes(&kept)
            + row_bytes(&keys)
            + self.key.len() as u64
            + STATE_BYTES * plan.aggs.len() as u64;
        if self.level <= MAX_LEVEL
            && !self.groups.is_empty()
            && !may_keep(env, self.bytes, bytes, Budget::Table)
            && let Some((temp, budget)) = Budget::Table.on_disk(env)
        {
            if self.level == 0 {
                temp.count_table();
            }
            self.later = Some(Partitions::new(temp, self.level, budget)?);
            return Ok(None);
        }
        charge(env, bytes, Purpose::Hash)?;
        self.bytes += bytes;
        let at = self.groups.len();
        debug_assert_eq!(self.by_key.len(), at, "every group has its key");
        self.by_key.insert(self.key.as_slice().into(), at as u32);
        let accs = plan.aggs.iter().map(Acc::new).collect();
        self.groups.push(Group {
            kept,
            keys,
            level,
            accs,
            ordinal,
        });
        Ok(Some(at))
    }

    /// Writes what a row gives to a group that did not fit.
    fn put_off(
        &mut self,
        plan: &GroupPlan,
        keys: &[Val<'_>],
        level: usize,
        row: &[Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<()> {
        let mut values: Vec<Value> = keys.iter().map(|k| (**k).clone()).collect();
        values.extend(plan.kept.iter().map(|s| row[*s as usize].clone()));
        for call in &plan.aggs {
            evaluate(call, row, env, &mut values)?;
        }
        let ordinal = self.put_off;
        self.put_off += 1;
        debug_assert_eq!(self.level, 0, "rows are put off once");
        let Some(later) = &mut self.later else {
            unreachable!("a group is refused when there is a place for its rows");
        };
        let key = &self.key;
        Ok(later.push(key, |out| {
            out.extend_from_slice(&ordinal.to_be_bytes());
            out.extend_from_slice(&(level as u32).to_be_bytes());
            write_key(key, out);
            write_row(values.iter(), out);
        })?)
    }

    /// Takes a row that was put off.
    fn add_stored(
        &mut self,
        plan: &GroupPlan,
        record: &[u8],
        values: &mut Vec<Value>,
        env: &ExecEnv<'_>,
    ) -> ExecResult<()> {
        let stored = Stored::of(record).ok_or_else(|| damaged("temporary record"))?;
        self.key.clear();
        self.key.extend_from_slice(stored.key);
        let known = self.by_key.get(stored.key).map(|at| *at as usize);
        if known.is_none()
            && let Some(later) = &mut self.later
        {
            return Ok(later.push(stored.key, |out| out.extend_from_slice(record))?);
        }
        let mut row = stored.row;
        read_row(&mut row, values)?;
        let all = plan.keys.len() + plan.kept.len() + plan.aggs.iter().map(width).sum::<usize>();
        if values.len() != all {
            return Err(damaged("temporary record").into());
        }
        let (keys, rest) = values.split_at(plan.keys.len());
        let (kept, mut rest) = rest.split_at(plan.kept.len());
        let at = match known {
            Some(at) => at,
            None => {
                let (level, ordinal) = (stored.level, stored.ordinal);
                match self.start(plan, &mut keys.iter(), kept.iter(), level, ordinal, env)? {
                    Some(at) => at,
                    None => return self.add_stored(plan, record, &mut Vec::new(), env),
                }
            }
        };
        for (nth, call) in plan.aggs.iter().enumerate() {
            let (own, others) = rest.split_at(width(call));
            self.give(plan, at, nth, own, env)?;
            rest = others;
        }
        debug_assert!(rest.is_empty());
        Ok(())
    }

    /// Gives aggregates the distinct arguments that had to wait for the end.
    fn settle(&mut self, plan: &GroupPlan, env: &ExecEnv<'_>) -> ExecResult<()> {
        let Some(mut later) = self.distinct.drain(env)? else {
            return Ok(());
        };
        while let Some(row) = later.next(env)? {
            let [Value::UInt(at), Value::UInt(nth), values @ ..] = &row[..] else {
                return Err(damaged("temporary record").into());
            };
            let (at, nth) = (*at as usize, *nth as usize);
            let (args, order) = split(&plan.aggs[nth], values);
            self.take((at, nth), args, order, env)?;
        }
        later.close(env);
        Ok(())
    }

    /// Gives the finished groups to a sorter that puts them in their order.
    fn hand_over(
        &mut self,
        plan: &GroupPlan,
        sorter: &mut Sorter,
        env: &ExecEnv<'_>,
    ) -> ExecResult<()> {
        self.settle(plan, env)?;
        debug_assert_eq!(self.given, 0, "nothing was given before");
        let mut keys: Vec<&[u8]> = Vec::new();
        if plan.rollup.is_some() {
            keys.resize(self.groups.len(), &[]);
            for (key, at) in &self.by_key {
                keys[*at as usize] = key;
            }
        }
        for (at, group) in self.groups.iter_mut().enumerate() {
            env.tick()?;
            let mut row = Vec::with_capacity(1 + group.keys.len() + group.kept.len());
            row.push(Value::UInt(group.level as u64));
            row.extend(std::mem::take(&mut group.keys));
            row.extend(std::mem::take(&mut group.kept));
            for acc in &mut group.accs {
                row.push(acc.finish(env)?);
            }
            match keys.get(at) {
                Some(key) => sorter.push(key, row, env)?,
                None => sorter.push(&group.ordinal.to_be_bytes(), row, env)?,
            }
        }
        Ok(())
    }

    /// Groups what was put off, part by part, when the groups in memory are not needed any more.
    fn work_off(&mut self, plan: &GroupPlan, env: &ExecEnv<'_>) -> ExecResult<()> {
        let Some(later) = self.later.take() else {
            return Ok(());
        };
        let mut sorter = Sorter::new(None);
        if plan.rollup.is_some() {
            self.hand_over(plan, &mut sorter, env)?;
        }
        self.reset(env);
        let (file, runs) = later.finish()?;
        for run in &runs {
            part(plan, &file, run, 1, &mut sorter, env)?;
        }
        self.rest = Some(sorter.finish(env)?);
        Ok(())
    }

    /// Ends the input.
    pub fn finish(&mut self, plan: &GroupPlan, env: &ExecEnv<'_>) -> ExecResult<()> {
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
                ordinal: 0,
            });
        }
        if self.later.is_some() && plan.rollup.is_some() {
            return self.work_off(plan, env);
        }
        self.settle(plan, env)?;
        debug_assert_eq!(self.by_key.len(), self.groups.len());
        self.sequence = (0..self.groups.len() as u32).collect();
        if plan.rollup.is_some() {
            let mut keys: Vec<(&[u8], u32)> =
                self.by_key.iter().map(|(key, at)| (&**key, *at)).collect();
            keys.sort_unstable();
            self.sequence = keys.into_iter().map(|(_, at)| at).collect();
        }
        Ok(())
    }

    /// Fills `row` with the next group's row.
    pub fn next(
        &mut self,
        plan: &GroupPlan,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        let Some(&at) = self.sequence.get(self.given) else {
            return self.next_put_off(plan, row, env);
        };
        self.given += 1;
        let group = &mut self.groups[at as usize];
        debug_assert_eq!(group.accs.len(), plan.aggs.len());
        fill(plan, row, group.level, &mut group.keys, &mut group.kept);
        for (nth, acc) in group.accs.iter_mut().enumerate() {
            row[plan.aggs[nth].slot as usize] = acc.finish(env)?;
        }
        Ok(true)
    }

    /// Streaming aggregation: fills `row` with the group of the rows that `input` gives next, whose equal keys follow
    /// each other. `ahead` is the row with which a group begins that was read with the one before.
    pub fn next_streamed(
        &mut self,
        plan: &GroupPlan,
        row: &mut [Value],
        ahead: &mut Option<Vec<Value>>,
        input: &mut dyn FnMut(&mut [Value]) -> ExecResult<bool>,
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        debug_assert!(plan.rollup.is_none(), "a total is of several groups");
        self.reset(env);
        match ahead.take() {
            Some(first) => row.clone_from_slice(&first),
            None if !input(row)? => return Ok(false),
            None => {}
        }
        self.add(plan, row, env)?;
        let own = self.key.clone();
        while input(row)? {
            self.set_key(plan, row, env)?;
            if self.key != own {
                *ahead = Some(row.to_vec());
                break;
            }
            self.add(plan, row, env)?;
        }
        debug_assert_eq!(self.groups.len(), 1, "the rows of one group were taken");
        self.finish(plan, env)?;
        self.next(plan, row, env)
    }

    /// Makes the key of a row's group.
    fn set_key(&mut self, plan: &GroupPlan, row: &[Value], env: &ExecEnv<'_>) -> ExecResult<()> {
        self.key.clear();
        for key in plan.telling_keys() {
            let value = key.eval_ref(row, env)?;
            rowkey::encode(&value, &key.ty, false, &mut self.key);
        }
        Ok(())
    }

    fn next_put_off(
        &mut self,
        plan: &GroupPlan,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        self.work_off(plan, env)?;
        let Some(rest) = &mut self.rest else {
            return Ok(false);
        };
        let Some(mut values) = rest.next(env)? else {
            return Ok(false);
        };
        let [Value::UInt(level), values @ ..] = &mut values[..] else {
            return Err(damaged("temporary record").into());
        };
        let (keys, values) = values.split_at_mut(plan.keys.len());
        let (kept, results) = values.split_at_mut(plan.kept.len());
        fill(plan, row, *level as usize, keys, kept);
        for (nth, result) in results.iter_mut().enumerate() {
            row[plan.aggs[nth].slot as usize] = std::mem::take(result);
        }
        Ok(true)
    }

    /// Forgets everything.
    pub fn reset(&mut self, env: &ExecEnv<'_>) {
        refund(env, self.bytes);
        self.distinct.reset(env);
        if let Some(rest) = self.rest.take() {
            rest.close(env);
        }
        *self = Self::default();
    }
}

/// Fills the slots of a group's keys and kept columns, taking the values.
fn fill(plan: &GroupPlan, row: &mut [Value], level: usize, keys: &mut [Value], kept: &mut [Value]) {
    for (slot, value) in plan.kept.iter().zip(kept) {
        row[*slot as usize] = std::mem::take(value);
    }
    for (nth, key) in keys.iter_mut().enumerate() {
        let rolled_up = nth >= level;
        let value = if rolled_up {
            Value::Null
        } else {
            std::mem::take(key)
        };
        // A key that is a plain column is also read through its own slot: as the first key that it is, where a
        // rollup has it several times.
        if let Some(slot) = plan.keys[nth].as_column() {
            let before = &plan.keys[..nth];
            if !rolled_up || before.iter().all(|k| k.as_column() != Some(slot)) {
                row[slot as usize] = value.clone();
            }
        }
        row[plan.key_base as usize + nth] = value;
        if let Some(base) = plan.rollup {
            row[base as usize + nth] = Value::Int(i64::from(rolled_up));
        }
    }
}

/// A row that was put off: `ordinal (8) | level (4) | length of the key (4) | key | row`.
struct Stored<'r> {
    ordinal: u64,
    level: usize,
    key: &'r [u8],
    row: &'r [u8],
}

impl<'r> Stored<'r> {
    fn of(record: &'r [u8]) -> Option<Self> {
        let (ordinal, rest) = record.split_first_chunk::<8>()?;
        let (level, rest) = rest.split_first_chunk::<4>()?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let (key, row) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        Some(Self {
            ordinal: u64::from_be_bytes(*ordinal),
            level: u32::from_be_bytes(*level) as usize,
            key,
            row,
        })
    }
}

/// Groups one part of what was put off.
fn part(
    plan: &GroupPlan,
    file: &SpillFile,
    run: &Run,
    level: u32,
    sorter: &mut Sorter,
    env: &ExecEnv<'_>,
) -> ExecResult<()> {
    let mut groups = Groups {
        level,
        ..Groups::default()
    };
    let (mut reader, mut values) = (file.read(run), Vec::new());
    while let Some(record) = reader.next()? {
        env.tick()?;
        groups.add_stored(plan, record, &mut values, env)?;
    }
    groups.hand_over(plan, sorter, env)?;
    let later = groups.later.take();
    groups.reset(env);
    if let Some(later) = later {
        let (file, runs) = later.finish()?;
        for run in &runs {
            part(plan, &file, run, level + 1, sorter, env)?;
        }
    }
    Ok(())
}
