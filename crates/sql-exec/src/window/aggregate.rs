//! Aggregates over frames.
//!
//! Neighbours: `frame` gives the frames; the states are `esker_types`'.
//! **Invariants**: a state is fed in the order of the rows; rows that leave a frame are taken out of the
//! state where that is exact, and otherwise the frame is summed up anew, as MySQL does for floating
//! point; a frame that only grows is never read twice.

use std::collections::VecDeque;
use std::ops::Range;

use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::bind::WindowFunc;
use esker_sql_plan::expr::rowkey;
use esker_sql_plan::plan::CallPlan;
use esker_types::func::aggregate::{AggDef, AggState, AggTypes};
use esker_types::{TypeKind, Value};

use super::Sorted;
use super::frame::Span;
use crate::ExecEnv;

/// Computes an aggregate for the rows of a partition.
pub(super) fn run(
    sorted: &mut Sorted<'_>,
    call: &CallPlan,
    part: Range<usize>,
    frames: &[Span],
    env: &ExecEnv<'_>,
) -> ExecResult<()> {
    let WindowFunc::Aggregate { def, types } = &call.func else {
        return Ok(());
    };
    debug_assert_eq!(frames.len(), part.len());
    let moves = frames.windows(2).any(|w| w[0].0 != w[1].0);
    if moves && let Some(desc) = extreme(def, call) {
        return extremes(sorted, call, part, frames, desc, env);
    }
    let mut running = Running::new(def, types, call);
    let mut last: Option<(Span, Value)> = None;
    for (row, span) in part.zip(frames) {
        env.tick()?;
        let value = match &last {
            Some((at, value)) if at == span => value.clone(),
            _ => running.value(sorted, *span, env)?,
        };
        sorted.set(row, call.result, value.clone(), env)?;
        last = Some((*span, value));
    }
    Ok(())
}

/// A state and the rows that are in it.
struct Running<'p> {
    def: &'static AggDef,
    types: &'p AggTypes,
    call: &'p CallPlan,
    state: Box<dyn AggState>,
    held: Range<usize>,
    args: Vec<Value>,
}

impl<'p> Running<'p> {
    fn new(def: &'static AggDef, types: &'p AggTypes, call: &'p CallPlan) -> Self {
        Self {
            def,
            types,
            call,
            state: def.state(types),
            held: 0..0,
            args: Vec::new(),
        }
    }

    /// The result for a frame.
    fn value(&mut self, sorted: &Sorted<'_>, span: Span, env: &ExecEnv<'_>) -> ExecResult<Value> {
        let wanted = span.0 as usize..span.1 as usize;
        if !self.shrink(sorted, &wanted, env)? {
            self.state = self.def.state(self.types);
            self.held = wanted.start..wanted.start;
        }
        for row in self.held.end..wanted.end {
            env.tick()?;
            self.load(sorted, row);
            if self.call.args.is_empty() {
                self.state.add_rows(1);
            } else {
                self.state.update(env.ctx, &self.args)?;
            }
        }
        self.held = wanted;
        Ok(self.state.finish(env.ctx)?)
    }

    /// Takes the rows that are not wanted out of the state; false when the state is of no use.
    fn shrink(
        &mut self,
        sorted: &Sorted<'_>,
        wanted: &Range<usize>,
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        let overlaps = wanted.start < self.held.end || wanted.start == self.held.start;
        if !overlaps || wanted.start < self.held.start || wanted.end < self.held.end {
            return Ok(false);
        }
        for row in self.held.start..wanted.start {
            env.tick()?;
            self.load(sorted, row);
            let gone = match self.call.args.is_empty() {
                true => self.state.remove(env.ctx, &[Value::Int(1)])?,
                false => self.state.remove(env.ctx, &self.args)?,
            };
            if !gone {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn load(&mut self, sorted: &Sorted<'_>, row: usize) {
        self.args.clear();
        let row = &sorted.rows[row];
        self.args
            .extend(self.call.args.iter().map(|at| row[*at].clone()));
    }
}

/// MIN and MAX: is the largest wanted? Labels are compared as text, which their keys are not.
fn extreme(def: &AggDef, call: &CallPlan) -> Option<bool> {
    let plain = call
        .arg_types
        .iter()
        .all(|t| !matches!(t.kind, TypeKind::Enum(_) | TypeKind::Set(_)));
    match def.name {
        "min" if plain => Some(false),
        "max" if plain => Some(true),
        _ => None,
    }
}

/// MIN and MAX over frames whose start moves: the rows that may still become the answer, best first.
fn extremes(
    sorted: &mut Sorted<'_>,
    call: &CallPlan,
    part: Range<usize>,
    frames: &[Span],
    desc: bool,
    env: &ExecEnv<'_>,
) -> ExecResult<()> {
    let (arg, ty) = (call.args[0], &call.arg_types[0]);
    let mut best: VecDeque<(usize, Box<[u8]>)> = VecDeque::new();
    let mut next = part.start;
    let mut key = Vec::new();
    for (row, &(start, end)) in part.zip(frames) {
        env.tick()?;
        while next < end as usize {
            let value = &sorted.rows[next][arg];
            if !value.is_null() {
                key.clear();
                rowkey::encode(value, ty, desc, &mut key);
                while best.back().is_some_and(|(_, k)| **k > *key) {
                    best.pop_back();
                }
                best.push_back((next, key.as_slice().into()));
            }
            next += 1;
        }
        while best.front().is_some_and(|(at, _)| *at < start as usize) {
            best.pop_front();
        }
        let found = best.front().filter(|_| start < end);
        let value = found.map_or(Value::Null, |(at, _)| sorted.rows[*at][arg].clone());
        sorted.set(row, call.result, value, env)?;
    }
    Ok(())
}
