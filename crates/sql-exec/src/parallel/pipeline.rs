//! Push-based execution of a probe pipeline within one task: filters, hash probes, nested loops.
//!
//! Neighbours: `probe` has the stages; `join` has the build sides; `task` takes the rows that arrive.
//! **Invariant**: rows arrive in the order in which the plan's operators would give them.

use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::bind::JoinType;
use esker_sql_plan::expr::Expr;
use esker_sql_plan::plan::JoinPlan;
use esker_sql_plan::plan::strategy::Stage;
use esker_types::Value;

use super::super::join::{Kept, RightSide};
use super::super::node::all_true;
use super::runtime_filter::RuntimeFilter;
use crate::ExecEnv;

/// Stages with what they keep in a task.
pub(super) struct Pipeline<'p> {
    steps: Vec<Step<'p>>,
    /// Rows that have come in.
    rows: u64,
}

struct Step<'p> {
    work: Work<'p>,
    /// Rows that have passed it.
    rows: u64,
}

enum Work<'p> {
    Filter(&'p [Expr]),
    Join(&'p JoinPlan, Box<RightSide>),
}

/// Takes a row that has passed all stages; false: no more is wanted.
pub(super) type Arrival<'a> = &'a mut dyn FnMut(&[Value]) -> ExecResult<bool>;

impl<'p> Pipeline<'p> {
    /// A way through `stages`, with the right rows that were read before, and with the filters of all inner joins.
    pub fn new(stages: &[Stage<'p>], kept: &[Kept], filters: &[RuntimeFilter]) -> Self {
        debug_assert_eq!(stages.len(), kept.len());
        let works = stages.iter().zip(kept).map(|(stage, kept)| match stage {
            Stage::Filter(conds) => Work::Filter(conds),
            Stage::Join(join) => {
                let mut right = RightSide::new(join, kept.clone());
                if join.kind != JoinType::Left {
                    right.filter_by(join, filters);
                }
                Work::Join(join, Box::new(right))
            }
        });
        let steps = works.map(|work| Step { work, rows: 0 });
        Self {
            steps: steps.collect(),
            rows: 0,
        }
    }

    /// Rows that have come in, and that have passed each stage.
    pub fn rows_passed(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.rows).chain(self.steps.iter().map(|step| step.rows))
    }

    /// Rows have come in, and nothing was in their way.
    pub fn note_rows(&mut self, rows: u64) {
        debug_assert!(self.steps.is_empty(), "they would have to be sent");
        self.rows += rows;
    }

    /// Sends a row on its way. False if no more is wanted.
    pub fn push(
        &mut self,
        row: &mut [Value],
        env: &ExecEnv<'_>,
        arrival: Arrival<'_>,
    ) -> ExecResult<bool> {
        self.rows += 1;
        push(&mut self.steps, row, env, arrival)
    }
}

fn push(
    steps: &mut [Step<'_>],
    row: &mut [Value],
    env: &ExecEnv<'_>,
    arrival: Arrival<'_>,
) -> ExecResult<bool> {
    let Some((step, rest)) = steps.split_first_mut() else {
        return arrival(row);
    };
    match &mut step.work {
        Work::Filter(conds) => match all_true(conds, row, env)? {
            true => {
                step.rows += 1;
                push(rest, row, env, arrival)
            }
            false => Ok(true),
        },
        Work::Join(join, right) => {
            let apart = right.search(join, row, env)?;
            debug_assert!(apart.is_none(), "what is kept was read before");
            let mut matched = false;
            while right.next(join, row, env)? {
                if all_true(&join.on, row, env)? {
                    if join.is_anti {
                        return Ok(true);
                    }
                    matched = true;
                    step.rows += 1;
                    if !push(rest, row, env, arrival)? {
                        return Ok(false);
                    }
                }
            }
            if matched || join.kind != JoinType::Left {
                return Ok(true);
            }
            for &slot in &join.right_slots {
                row[slot as usize] = Value::Null;
            }
            step.rows += 1;
            push(rest, row, env, arrival)
        }
    }
}
