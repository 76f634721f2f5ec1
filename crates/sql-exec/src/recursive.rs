//! Recursive common table expressions: round after round until a round adds no row.
//!
//! Neighbours: `root` gives the rows on; `scan` reads the working table.
//! **Invariants**: the working table of a round has the rows of the round before and nothing else; it
//! is put in place before every read of a member, so two runs of one plan do not meet; a round more
//! than `cte_max_recursion_depth` is error 3636.

use std::collections::HashSet;
use std::sync::Arc;

use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_catalog::result::ColumnMeta;
use esker_sql_plan::expr::rowkey;
use esker_sql_plan::plan::{QueryPlan, RecursivePlan};
use esker_types::cast::to_column;
use esker_types::{SqlError, Value};

use super::memory::{Budget, Purpose, charge, refund};
use super::root::RootExec;
use super::spill::RowBuffer;
use crate::ExecEnv;

/// Rows that several reads share.
pub type SharedRows = Arc<RowBuffer>;

/// State of a recursive query.
pub(crate) struct RecursiveState {
    seed: RootExec,
    members: Vec<RootExec>,
    /// `None`: the seed is being read; else the member.
    at: Option<usize>,
    /// Rounds begun.
    rounds: u64,
    /// Rows of the last round.
    work: SharedRows,
    /// Rows of this round.
    fresh: RowBuffer,
    seen: HashSet<Box<[u8]>>,
    seen_bytes: u64,
}

impl RecursiveState {
    pub fn new(plan: &RecursivePlan) -> Self {
        Self {
            seed: RootExec::new(&plan.seed),
            members: plan.members.iter().map(|m| RootExec::new(m)).collect(),
            at: None,
            rounds: 0,
            work: SharedRows::default(),
            fresh: RowBuffer::default(),
            seen: HashSet::new(),
            seen_bytes: 0,
        }
    }

    pub fn reset(&mut self, env: &ExecEnv<'_>) {
        self.seed.reset(env);
        for member in &mut self.members {
            member.reset(env);
        }
        self.at = None;
        self.rounds = 0;
        refund(env, std::mem::take(&mut self.work).bytes());
        self.fresh.clear(env);
        self.seen.clear();
        refund(env, std::mem::take(&mut self.seen_bytes));
    }

    /// Puts the next row into `out`; false at the end.
    pub fn next(
        &mut self,
        plan: &RecursivePlan,
        columns: &[ColumnMeta],
        out: &mut Vec<Value>,
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        loop {
            let found = match self.at {
                None => pull(&mut self.seed, &plan.seed, columns, out, env)?,
                Some(nth) => {
                    debug_assert!(nth < self.members.len());
                    env.states.put_table(plan.id, self.work.clone());
                    let member = &mut self.members[nth];
                    pull(member, &plan.members[nth], columns, out, env)?
                }
            };
            if found {
                if self.is_new(plan, columns, out, env)? {
                    self.remember(out, env)?;
                    return Ok(true);
                }
                continue;
            }
            let next = self.at.map_or(0, |nth| nth + 1);
            if next > 0 && next < self.members.len() {
                self.at = Some(next);
            } else if !self.next_round(env)? {
                return Ok(false);
            }
        }
    }

    /// Makes the fresh rows the working table; false when there is none.
    fn next_round(&mut self, env: &ExecEnv<'_>) -> ExecResult<bool> {
        if self.fresh.is_empty() {
            refund(env, std::mem::take(&mut self.work).bytes());
            return Ok(false);
        }
        self.rounds += 1;
        let most = env.exec.map_or(u64::MAX, |e| e.limits.recursion_depth);
        if self.rounds > most {
            let text = format!(
                "Recursive query aborted after {} iterations. Try increasing \
                 @@cte_max_recursion_depth to a larger value.",
                self.rounds
            );
            return Err(SqlError::new(3636, "HY000", text).into());
        }
        debug_assert!(!self.members.is_empty(), "a round reads the one before");
        self.fresh.finish()?;
        refund(env, self.work.bytes());
        self.work = Arc::new(std::mem::take(&mut self.fresh));
        for member in &mut self.members {
            member.reset(env);
        }
        self.at = Some(0);
        Ok(true)
    }

    fn is_new(
        &mut self,
        plan: &RecursivePlan,
        columns: &[ColumnMeta],
        row: &[Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        if !plan.distinct {
            return Ok(true);
        }
        let mut key = Vec::new();
        rowkey::encode_row(row.iter().zip(columns.iter().map(|c| &c.ty)), &mut key);
        let bytes = key.len() as u64 + 32;
        if !self.seen.insert(key.into()) {
            return Ok(false);
        }
        charge(env, bytes, Purpose::Hash)?;
        self.seen_bytes += bytes;
        Ok(true)
    }

    fn remember(&mut self, row: &[Value], env: &ExecEnv<'_>) -> ExecResult<()> {
        Ok(self.fresh.push(row.iter(), Budget::Table, env)?)
    }
}

/// Puts a part's next row into `out`, as the table's columns store it.
fn pull(
    part: &mut RootExec,
    query: &QueryPlan,
    columns: &[ColumnMeta],
    out: &mut Vec<Value>,
    env: &ExecEnv<'_>,
) -> ExecResult<bool> {
    let Some(row) = part.next_of(query, env)? else {
        return Ok(false);
    };
    let strict = env.ctx.sql_mode.is_strict();
    let before = env.ctx.diagnostics.strict_write.replace(strict);
    out.clear();
    let mut stored = Ok(());
    for ((value, from), to) in row.iter().zip(query.columns.iter()).zip(columns) {
        match to_column(env.ctx, value.clone(), &from.ty, &to.ty, &to.name, 1) {
            Ok(value) => out.push(value),
            Err(e) => {
                stored = Err(e);
                break;
            }
        }
    }
    env.ctx.diagnostics.strict_write.set(before);
    stored?;
    debug_assert_eq!(out.len(), columns.len());
    env.tick()?;
    Ok(true)
}
