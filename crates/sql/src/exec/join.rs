//! Joining two inputs: nested loops, buffered nested loops, hash join.
//!
//! Neighbours: `node` dispatches here; the planner decided the method.
//! **Invariants**: for every left row the right rows come in the right input's order; a left join
//! gives a left row exactly once with nulls when nothing on the right meets `on`; NULL keys never
//! match in a hash join unless compared with `<=>`.

use std::collections::HashMap;

use esker_types::{SqlResult, Value};

use super::memory::{Purpose, charge, refund, row_bytes};
use super::node::{NodeState, all_true};
use super::rowkey;
use crate::bind::JoinType;
use crate::expr::{EvalEnv, Expr};
use crate::plan::{HashBy, JoinMethod, JoinPlan};

/// State of a join.
pub(crate) struct JoinState {
    left: NodeState,
    right: NodeState,
    /// A left row is current.
    have_left: bool,
    /// The current left row has met a right row.
    matched: bool,
    kept: Kept,
}

/// Right rows kept in memory.
#[derive(Default)]
struct Kept {
    /// Values of the right slots, in order of arrival.
    rows: Vec<Box<[Value]>>,
    /// Rows by key, chained: head by key, next by row.
    heads: HashMap<Box<[u8]>, u32>,
    chain: Vec<u32>,
    bytes: u64,
    /// Built since the join was opened.
    ready: bool,
    /// Where the search for the current left row continues.
    at: u32,
    key: Vec<u8>,
}

/// No further row.
const END: u32 = u32::MAX;

impl JoinState {
    pub fn new(plan: &JoinPlan) -> Self {
        Self {
            left: NodeState::new(&plan.left),
            right: NodeState::new(&plan.right),
            have_left: false,
            matched: false,
            kept: Kept::default(),
        }
    }

    pub fn open(&mut self, plan: &JoinPlan, row: &mut [Value], env: &EvalEnv<'_>) -> SqlResult<()> {
        self.have_left = false;
        refund(env, self.kept.bytes);
        self.kept = Kept::default();
        self.left.open(&plan.left, row, env)
    }

    pub fn next(
        &mut self,
        plan: &JoinPlan,
        row: &mut [Value],
        env: &EvalEnv<'_>,
    ) -> SqlResult<bool> {
        loop {
            if !self.have_left {
                if !self.left.next(&plan.left, row, env)? {
                    return Ok(false);
                }
                self.have_left = true;
                self.matched = false;
                self.search(plan, row, env)?;
            }
            while self.next_right(plan, row, env)? {
                if all_true(&plan.on, row, env)? {
                    self.matched = true;
                    return Ok(true);
                }
            }
            self.have_left = false;
            if plan.kind == JoinType::Left && !self.matched {
                for &slot in &plan.right_slots {
                    row[slot as usize] = Value::Null;
                }
                return Ok(true);
            }
        }
    }

    /// Begins the search for right rows of a new left row.
    fn search(&mut self, plan: &JoinPlan, row: &mut [Value], env: &EvalEnv<'_>) -> SqlResult<()> {
        match &plan.method {
            JoinMethod::Nested => self.right.open(&plan.right, row, env),
            JoinMethod::Buffered => {
                if !self.kept.ready {
                    self.keep(plan, None, row, env)?;
                }
                self.kept.at = 0;
                Ok(())
            }
            JoinMethod::Hash { left, right, by } => {
                if !self.kept.ready {
                    self.keep(plan, Some((right, by)), row, env)?;
                }
                let found = hash_key(left, by, row, env, &mut self.kept.key)?;
                self.kept.at = match found {
                    true => self.kept.heads.get(&*self.kept.key).copied().unwrap_or(END),
                    false => END,
                };
                Ok(())
            }
        }
    }

    fn next_right(
        &mut self,
        plan: &JoinPlan,
        row: &mut [Value],
        env: &EvalEnv<'_>,
    ) -> SqlResult<bool> {
        if matches!(plan.method, JoinMethod::Nested) {
            return self.right.next(&plan.right, row, env);
        }
        let kept = &mut self.kept;
        let Some(found) = kept.rows.get(kept.at as usize) else {
            return Ok(false);
        };
        for (&slot, value) in plan.right_slots.iter().zip(found.iter()) {
            row[slot as usize].clone_from(value);
        }
        kept.at = match plan.method {
            JoinMethod::Buffered => kept.at + 1,
            _ => kept.chain[kept.at as usize],
        };
        if let Some(exec) = env.exec {
            exec.tick()?;
        }
        Ok(true)
    }

    /// Reads the right input into memory. The current left row is preserved: inputs have their own
    /// slots.
    fn keep(
        &mut self,
        plan: &JoinPlan,
        keys: Option<(&[Expr], &[HashBy])>,
        row: &mut [Value],
        env: &EvalEnv<'_>,
    ) -> SqlResult<()> {
        let kept = &mut self.kept;
        self.right.open(&plan.right, row, env)?;
        // The last row of each key, so that chains keep the order of arrival.
        let mut tails: HashMap<u32, u32> = HashMap::new();
        while self.right.next(&plan.right, row, env)? {
            let mut bytes = 0;
            if let Some((exprs, by)) = keys {
                if !hash_key(exprs, by, row, env, &mut kept.key)? {
                    continue;
                }
                let this = kept.rows.len() as u32;
                match kept.heads.get(&*kept.key) {
                    None => {
                        bytes += kept.key.len() as u64 + 48;
                        kept.heads.insert(kept.key.as_slice().into(), this);
                    }
                    Some(&head) => {
                        let tail = tails.insert(head, this).unwrap_or(head);
                        kept.chain[tail as usize] = this;
                    }
                }
                kept.chain.push(END);
            }
            let values: Box<[Value]> = plan
                .right_slots
                .iter()
                .map(|s| row[*s as usize].clone())
                .collect();
            bytes += row_bytes(&values);
            charge(env, bytes, Purpose::Hash)?;
            kept.bytes += bytes;
            kept.rows.push(values);
        }
        kept.ready = true;
        Ok(())
    }
}

/// Encodes the key of a row; false when a NULL makes it match nothing.
fn hash_key(
    exprs: &[Expr],
    by: &[HashBy],
    row: &[Value],
    env: &EvalEnv<'_>,
    out: &mut Vec<u8>,
) -> SqlResult<bool> {
    out.clear();
    for (expr, by) in exprs.iter().zip(by) {
        let value = expr.eval_ref(row, env)?;
        if value.is_null() && !by.null_safe {
            return Ok(false);
        }
        rowkey::encode_for(&value, by.kind, out);
    }
    Ok(true)
}
