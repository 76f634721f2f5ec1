//! Ranks, and values of other rows.
//!
//! Neighbours: `frame` gives the frames that FIRST_VALUE, LAST_VALUE and NTH_VALUE look at; the other
//! functions here look at the whole partition.
//! **Invariant**: a result has its call's type.

use std::ops::Range;

use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::bind::WindowFunc;
use esker_sql_plan::expr::eval::convert;
use esker_sql_plan::plan::{CallPlan, WindowRun};
use esker_types::errors::wrong_arguments;
use esker_types::{SqlType, Value};

use super::Sorted;
use super::frame::Span;
use crate::ExecEnv;

/// The numbers of a window's calls that have one.
///
/// # Errors
/// 1210 for what is no number of rows.
pub(super) fn numbers(window: &WindowRun, env: &ExecEnv<'_>) -> ExecResult<Vec<u64>> {
    let number = |call: &CallPlan| -> ExecResult<u64> {
        let name = match call.func {
            WindowFunc::Ntile => "ntile",
            WindowFunc::NthValue => "nth_value",
            WindowFunc::Lag => "lag",
            _ => "lead",
        };
        let Some(number) = &call.number else {
            return Ok(1);
        };
        let n = call.func.rows_of(&number.eval(&[], env)?);
        Ok(n.ok_or_else(|| wrong_arguments(name))?)
    };
    window.calls.iter().map(number).collect()
}

/// Computes a call for the rows of a partition; false for an aggregate.
pub(super) fn run(
    sorted: &mut Sorted<'_>,
    window: &WindowRun,
    call: &CallPlan,
    number: u64,
    part: Range<usize>,
    frames: &[Span],
    env: &ExecEnv<'_>,
) -> ExecResult<bool> {
    let size = part.len() as u64;
    match call.func {
        WindowFunc::RowNumber => {
            for (nth, row) in part.enumerate() {
                sorted.set(row, call.result, Value::UInt(nth as u64 + 1), env)?;
            }
        }
        WindowFunc::Ntile => {
            debug_assert!(number > 0);
            // The first buckets are larger by one.
            let (least, larger) = (size / number, size % number);
            let in_larger = larger * (least + 1);
            for (nth, row) in part.enumerate() {
                let nth = nth as u64;
                let bucket = match nth < in_larger {
                    true => nth / (least + 1),
                    false => larger + (nth - in_larger) / least,
                };
                sorted.set(row, call.result, Value::UInt(bucket + 1), env)?;
            }
        }
        WindowFunc::Rank
        | WindowFunc::DenseRank
        | WindowFunc::PercentRank
        | WindowFunc::CumeDist => ranks(sorted, window, call, part, env)?,
        WindowFunc::Lag | WindowFunc::Lead => other_row(sorted, call, number, part, env)?,
        WindowFunc::FirstValue | WindowFunc::LastValue | WindowFunc::NthValue => {
            for (row, &(start, end)) in part.zip(frames) {
                let at = match call.func {
                    WindowFunc::FirstValue => Some(start),
                    WindowFunc::LastValue => end.checked_sub(1),
                    _ => u32::try_from(number - 1)
                        .ok()
                        .and_then(|n| start.checked_add(n)),
                };
                let at = at.filter(|at| (start..end).contains(at));
                let value = at.map_or(Value::Null, |at| {
                    sorted.rows[at as usize][call.args[0]].clone()
                });
                let value = convert(env.ctx, value, &call.arg_types[0], &call.ty)?;
                sorted.set(row, call.result, value, env)?;
            }
        }
        WindowFunc::Aggregate { .. } => return Ok(false),
    }
    Ok(true)
}

fn ranks(
    sorted: &mut Sorted<'_>,
    window: &WindowRun,
    call: &CallPlan,
    part: Range<usize>,
    env: &ExecEnv<'_>,
) -> ExecResult<()> {
    let all: Vec<Range<usize>> = sorted.peers(part.clone(), window.ordered).collect();
    debug_assert_eq!(all.iter().map(Range::len).sum::<usize>(), part.len());
    let size = part.len();
    for (nth, peers) in all.into_iter().enumerate() {
        let before = peers.start - part.start;
        let value = match call.func {
            WindowFunc::Rank => Value::UInt(before as u64 + 1),
            WindowFunc::DenseRank => Value::UInt(nth as u64 + 1),
            WindowFunc::PercentRank if size == 1 => Value::Double(0.0),
            WindowFunc::PercentRank => Value::Double(before as f64 / (size - 1) as f64),
            _ => Value::Double((peers.end - part.start) as f64 / size as f64),
        };
        for row in peers {
            sorted.set(row, call.result, value.clone(), env)?;
        }
    }
    Ok(())
}

/// LAG and LEAD.
fn other_row(
    sorted: &mut Sorted<'_>,
    call: &CallPlan,
    number: u64,
    part: Range<usize>,
    env: &ExecEnv<'_>,
) -> ExecResult<()> {
    let lag = matches!(call.func, WindowFunc::Lag);
    for row in part.clone() {
        let at = match lag {
            true => (row as u64).checked_sub(number),
            false => (row as u64).checked_add(number),
        };
        let at = at.filter(|at| (part.start as u64..part.end as u64).contains(at));
        let (from, arg): (usize, Option<usize>) = match at {
            Some(at) => (at as usize, Some(0)),
            None => (row, (call.args.len() > 1).then_some(1)),
        };
        let value = match arg {
            Some(arg) => {
                let value = sorted.rows[from][call.args[arg]].clone();
                let ty: &SqlType = &call.arg_types[arg];
                convert(env.ctx, value, ty, &call.ty)?
            }
            None => Value::Null,
        };
        sorted.set(row, call.result, value, env)?;
    }
    Ok(())
}
