//! Operators that fill the block's row: dispatch over the plan tree.
//!
//! Neighbours: `scan` and `join` do the work; `root` pulls.
//! **Invariants**: `open` may be called any number of times and starts over; `next` after `false` is
//! not called without `open`.

use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::expr::Expr;
use esker_sql_plan::plan::Node;
use esker_sql_plan::plan::profile::Stage;
use esker_types::Value;

use super::join::JoinState;
use super::scan::ScanState;
use crate::ExecEnv;

/// State of one operator.
pub(crate) enum NodeState {
    Once(bool),
    Nothing,
    Scan(Box<ScanState>),
    Join(Box<JoinState>),
    Filter(Box<NodeState>),
}

impl NodeState {
    /// A state for `plan`, not yet open.
    pub fn new(plan: &Node) -> Self {
        match plan {
            Node::Once => Self::Once(false),
            Node::Nothing(_) => Self::Nothing,
            Node::Scan(scan) => Self::Scan(Box::new(ScanState::new(scan))),
            Node::Join(join) => Self::Join(Box::new(JoinState::new(join))),
            Node::Filter(child, _) => Self::Filter(Box::new(Self::new(child))),
        }
    }

    /// Starts over, for the row as it is now.
    pub fn open(&mut self, plan: &Node, row: &mut [Value], env: &ExecEnv<'_>) -> ExecResult<()> {
        match &env.states.profile {
            None => self.open_unmeasured(plan, row, env),
            Some(profile) => {
                profile.open(plan, Stage::Node, || self.open_unmeasured(plan, row, env))
            }
        }
    }

    fn open_unmeasured(
        &mut self,
        plan: &Node,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<()> {
        match (self, plan) {
            (Self::Once(given), _) => *given = false,
            (Self::Scan(state), Node::Scan(scan)) => state.open(scan, row, env)?,
            (Self::Join(state), Node::Join(join)) => state.open(join, row, env)?,
            (Self::Filter(state), Node::Filter(child, _)) => state.open(child, row, env)?,
            _ => debug_assert!(matches!(plan, Node::Nothing(_)), "the state is the plan's"),
        }
        Ok(())
    }

    /// Fills the slots of the next row; false at the end.
    #[inline]
    pub fn next(&mut self, plan: &Node, row: &mut [Value], env: &ExecEnv<'_>) -> ExecResult<bool> {
        match &env.states.profile {
            None => self.next_unmeasured(plan, row, env),
            Some(profile) => {
                let next = || self.next_unmeasured(plan, row, env);
                profile.next(plan, Stage::Node, |found| *found, next)
            }
        }
    }

    #[inline]
    fn next_unmeasured(
        &mut self,
        plan: &Node,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        match (self, plan) {
            (Self::Scan(state), Node::Scan(scan)) => state.next(scan, row, env),
            (Self::Join(state), Node::Join(join)) => state.next(join, row, env),
            (Self::Filter(state), Node::Filter(child, conds)) => {
                while state.next(child, row, env)? {
                    if all_true(conds, row, env)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            (Self::Once(given), Node::Once) => Ok(!std::mem::replace(given, true)),
            _ => {
                debug_assert!(matches!(plan, Node::Nothing(_)), "the state is the plan's");
                Ok(false)
            }
        }
    }
}

/// Are all conditions true for the row?
#[inline]
pub(crate) fn all_true(conds: &[Expr], row: &[Value], env: &ExecEnv<'_>) -> ExecResult<bool> {
    for cond in conds {
        if !cond.is_true(row, env)? {
            return Ok(false);
        }
    }
    Ok(true)
}
