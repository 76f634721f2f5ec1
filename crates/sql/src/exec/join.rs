//! Joining two inputs: nested loops, buffered nested loops, hash join.
//!
//! Neighbours: `node` dispatches here; the planner decided the method; `disk_join` takes over a hash join
//! whose right side does not fit.
//! **Invariants**: for every left row the right rows come in the right input's order; a left join
//! gives a left row exactly once with nulls when nothing on the right meets `on`; NULL keys never
//! match in a hash join unless compared with `<=>`.

use std::collections::HashMap;

use esker_types::{SqlResult, Value};

use super::disk_join::DiskJoin;
use super::memory::{Budget, Purpose, charge, may_keep, refund, row_bytes};
use super::node::{NodeState, all_true};
use super::rowkey;
use super::spill::{Partitions, RowBuffer, RowCursor, TempFiles, write_key, write_row};
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
    /// Right rows of a buffered nested loop, and how far the search has come.
    buffer: RowBuffer,
    cursor: RowCursor,
    /// The results, when the right rows were too many.
    spilled: Option<Box<DiskJoin>>,
}

/// Right rows of a hash join in memory.
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

/// Rough bytes of a key beyond its own.
const KEY_BYTES: u64 = 48;
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
            buffer: RowBuffer::default(),
            cursor: RowCursor::default(),
            spilled: None,
        }
    }

    pub fn open(&mut self, plan: &JoinPlan, row: &mut [Value], env: &EvalEnv<'_>) -> SqlResult<()> {
        self.have_left = false;
        refund(env, self.kept.bytes);
        self.kept = Kept::default();
        self.buffer.clear(env);
        self.spilled = None;
        self.left.open(&plan.left, row, env)
    }

    pub fn next(
        &mut self,
        plan: &JoinPlan,
        row: &mut [Value],
        env: &EvalEnv<'_>,
    ) -> SqlResult<bool> {
        loop {
            if let Some(spilled) = &mut self.spilled {
                return spilled.next(plan, row, env);
            }
            if !self.have_left {
                if !self.left.next(&plan.left, row, env)? {
                    return Ok(false);
                }
                self.have_left = true;
                self.matched = false;
                self.search(plan, row, env)?;
                if self.spilled.is_some() {
                    continue;
                }
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
                    self.keep(plan, row, env)?;
                }
                self.cursor = RowCursor::default();
                Ok(())
            }
            JoinMethod::Hash { left, right, by } => {
                if !self.kept.ready {
                    self.keep_hashed(plan, right, by, row, env)?;
                }
                if self.spilled.is_some() {
                    return Ok(());
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
        let found = match plan.method {
            JoinMethod::Buffered => self.cursor.next(&self.buffer)?,
            _ => kept.rows.get(kept.at as usize).map(|r| &**r),
        };
        let Some(found) = found else {
            return Ok(false);
        };
        for (&slot, value) in plan.right_slots.iter().zip(found) {
            row[slot as usize].clone_from(value);
        }
        if let Some(next) = kept.chain.get(kept.at as usize) {
            kept.at = *next;
        }
        if let Some(exec) = env.exec {
            exec.tick()?;
        }
        Ok(true)
    }

    /// Reads the right input. The current left row is preserved: inputs have their own slots.
    fn keep(&mut self, plan: &JoinPlan, row: &mut [Value], env: &EvalEnv<'_>) -> SqlResult<()> {
        self.right.open(&plan.right, row, env)?;
        while self.right.next(&plan.right, row, env)? {
            let values = plan.right_slots.iter().map(|s| &row[*s as usize]);
            self.buffer.push(values, Budget::Join, env)?;
        }
        self.kept.ready = true;
        self.buffer.finish()
    }

    /// Reads the right input by key; if it does not fit, joins everything on disk.
    fn keep_hashed(
        &mut self,
        plan: &JoinPlan,
        exprs: &[Expr],
        by: &[HashBy],
        row: &mut [Value],
        env: &EvalEnv<'_>,
    ) -> SqlResult<()> {
        let kept = &mut self.kept;
        self.right.open(&plan.right, row, env)?;
        // The last row of each key, so that chains keep the order of arrival.
        let mut tails: HashMap<u32, u32> = HashMap::new();
        let mut parts: Option<Partitions> = None;
        while self.right.next(&plan.right, row, env)? {
            if !hash_key(exprs, by, row, env, &mut kept.key)? {
                continue;
            }
            let values = plan.right_slots.iter().map(|s| &row[*s as usize]);
            let bytes = row_bytes(values.clone()) + kept.key.len() as u64 + KEY_BYTES;
            if parts.is_none()
                && kept.bytes > 0
                && !may_keep(env, kept.bytes, bytes, Budget::Join)
                && let Some((temp, budget)) = Budget::Join.on_disk(env)
            {
                parts = Some(kept.spill(temp, budget, env)?);
            }
            if let Some(parts) = &mut parts {
                let key = &kept.key;
                parts.push(key, |out| {
                    write_key(key, out);
                    write_row(values, out);
                })?;
                continue;
            }
            charge(env, bytes, Purpose::Hash)?;
            kept.bytes += bytes;
            let this = kept.rows.len() as u32;
            match kept.heads.get(&*kept.key) {
                None => {
                    kept.heads.insert(kept.key.as_slice().into(), this);
                }
                Some(&head) => {
                    let tail = tails.insert(head, this).unwrap_or(head);
                    kept.chain[tail as usize] = this;
                }
            }
            kept.chain.push(END);
            kept.rows.push(values.cloned().collect());
        }
        kept.ready = true;
        if let Some(parts) = parts {
            let joined = DiskJoin::run(plan, parts, &mut self.left, row, env)?;
            self.spilled = Some(Box::new(joined));
        }
        Ok(())
    }
}

impl Kept {
    /// Moves the rows to disk, by key.
    fn spill(&mut self, temp: &TempFiles, budget: u64, env: &EvalEnv<'_>) -> SqlResult<Partitions> {
        temp.count_table();
        let mut parts = Partitions::new(temp, 0, budget)?;
        for (key, head) in std::mem::take(&mut self.heads) {
            let mut at = head;
            while let Some(values) = self.rows.get(at as usize) {
                parts.push(&key, |out| {
                    write_key(&key, out);
                    write_row(values.iter(), out);
                })?;
                at = self.chain[at as usize];
            }
        }
        (self.rows, self.chain) = (Vec::new(), Vec::new());
        refund(env, std::mem::take(&mut self.bytes));
        Ok(parts)
    }
}

/// Encodes the key of a row; false when a NULL makes it match nothing.
pub(super) fn hash_key(
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
