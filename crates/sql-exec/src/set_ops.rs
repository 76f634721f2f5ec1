//! UNION, INTERSECT and EXCEPT.
//!
//! Neighbours: `root` pulls rows and sorts and cuts them; `spill` has the duplicates that do not fit.
//! **Invariants**: a chain of UNIONs streams, operand by operand; of equal rows the first one is given;
//! INTERSECT and EXCEPT hold their operands in memory.

use std::collections::{HashMap, HashSet};

use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_catalog::result::ColumnMeta;
use esker_sql_plan::expr::eval::convert;
use esker_sql_plan::expr::rowkey;
use esker_sql_plan::plan::SetOpsPlan;
use esker_sql_syntax::ast::SetOp;
use esker_types::{TypeKind, Value, cast};

use super::memory::{Purpose, charge, refund, row_bytes};
use super::root::{RootExec, next_later};
use super::sort::SortedRows;
use super::spill::{DistinctRows, First};
use crate::ExecEnv;

/// Rough bytes of a kept key beyond its own.
const KEY_BYTES: u64 = 32;

/// State of a chain of set operations.
pub(super) struct SetOpsState {
    operands: Vec<RootExec>,
    /// Only UNION: rows stream, operand by operand.
    streaming: bool,
    /// Operands up to the last UNION DISTINCT: their rows lose duplicates.
    distinct_upto: usize,
    at: usize,
    /// UNION DISTINCT, and what of it had to wait for the end.
    seen: DistinctRows,
    later: Option<SortedRows>,
    done: Option<std::vec::IntoIter<Vec<Value>>>,
    bytes: u64,
}

impl SetOpsState {
    pub fn new(plan: &SetOpsPlan) -> Self {
        let operands: Vec<RootExec> = std::iter::once(&plan.first)
            .chain(plan.steps.iter().map(|(_, _, q)| q))
            .map(|q| RootExec::new(q))
            .collect();
        let streaming = plan.steps.iter().all(|(op, ..)| *op == SetOp::Union);
        debug_assert_eq!(plan.steps.len() + 1, operands.len());
        Self {
            operands,
            streaming,
            distinct_upto: plan
                .steps
                .iter()
                .rposition(|(_, all, _)| !all)
                .map_or(0, |i| i + 2),
            at: 0,
            seen: DistinctRows::default(),
            later: None,
            done: None,
            bytes: 0,
        }
    }

    pub fn reset(&mut self, env: &ExecEnv<'_>) {
        for operand in &mut self.operands {
            operand.reset(env);
        }
        self.at = 0;
        self.seen.reset(env);
        if let Some(later) = self.later.take() {
            later.close(env);
        }
        self.done = None;
        refund(env, std::mem::take(&mut self.bytes));
    }

    pub fn next(
        &mut self,
        plan: &SetOpsPlan,
        columns: &[ColumnMeta],
        out: &mut Vec<Value>,
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        if self.streaming {
            return self.next_union(plan, columns, out, env);
        }
        debug_assert!(self.later.is_none(), "only unions stream");
        if self.done.is_none() {
            self.done = Some(self.combine(plan, columns, env)?.into_iter());
        }
        match self.done.as_mut().and_then(Iterator::next) {
            Some(row) => {
                *out = row;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Every operand up to the last UNION DISTINCT loses its duplicates, the others do not.
    fn next_union(
        &mut self,
        plan: &SetOpsPlan,
        columns: &[ColumnMeta],
        out: &mut Vec<Value>,
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        loop {
            if next_later(&mut self.later, out, env)? {
                return Ok(true);
            }
            if self.at >= self.operands.len() {
                return Ok(false);
            }
            if !self.operand_row(plan, self.at, columns, out, env)? {
                self.at += 1;
                if let Some(later) = self.later.take() {
                    later.close(env);
                }
                if self.at == self.distinct_upto {
                    self.later = self.seen.drain(env)?;
                }
                continue;
            }
            if self.at >= self.distinct_upto || self.first_time(columns, out, env)? {
                return Ok(true);
            }
        }
    }

    fn first_time(
        &mut self,
        columns: &[ColumnMeta],
        row: &[Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        let key = result_key(columns, row);
        let first = self.seen.add(&key, || Ok(row.to_vec()), env)?;
        Ok(first == First::New)
    }

    /// Puts an operand's next row, converted to the result's types, into `out`.
    fn operand_row(
        &mut self,
        plan: &SetOpsPlan,
        nth: usize,
        columns: &[ColumnMeta],
        out: &mut Vec<Value>,
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        let query = if nth == 0 {
            &plan.first
        } else {
            &plan.steps[nth - 1].2
        };
        let Some(row) = self.operands[nth].next_of(query, env)? else {
            return Ok(false);
        };
        debug_assert_eq!(
            row.len(),
            columns.len(),
            "operands have as many columns as the result"
        );
        out.clear();
        for ((value, from), to) in row.iter().zip(query.columns.iter()).zip(columns) {
            // The result is a table, which stores numbers in texts as columns do.
            let is_short_text = matches!(to.ty.kind, TypeKind::Char | TypeKind::VarChar);
            let digits = is_short_text.then(|| cast::stored_digits(value, to.ty.length));
            out.push(match digits.flatten() {
                Some(digits) => Value::Str(digits),
                None => convert(env.ctx, value.clone(), &from.ty, &to.ty)?,
            });
        }
        env.tick()?;
        Ok(true)
    }

    fn combine(
        &mut self,
        plan: &SetOpsPlan,
        columns: &[ColumnMeta],
        env: &ExecEnv<'_>,
    ) -> ExecResult<Vec<Vec<Value>>> {
        let mut rows = self.read(plan, 0, columns, env)?;
        for (nth, (op, all, _)) in plan.steps.iter().enumerate() {
            let right = self.read(plan, nth + 1, columns, env)?;
            match op {
                SetOp::Union => rows.extend(right),
                SetOp::Except | SetOp::Intersect => {
                    let mut counts: HashMap<Box<[u8]>, u64> = HashMap::new();
                    for row in &right {
                        let key = self.key_of(columns, row, env)?;
                        *counts.entry(key).or_default() += 1;
                    }
                    let keep_found = *op == SetOp::Intersect;
                    rows = self.retain(rows, columns, env, |key| {
                        let Some(n) = counts.get_mut(&key) else {
                            return !keep_found;
                        };
                        let found = *n > 0;
                        if *all && found {
                            *n -= 1;
                        }
                        found == keep_found
                    })?;
                }
            }
            if !all {
                let mut seen = HashSet::new();
                rows = self.retain(rows, columns, env, |key| seen.insert(key))?;
            }
        }
        Ok(rows)
    }

    /// The rows whose keys `keep` wants.
    fn retain(
        &mut self,
        rows: Vec<Vec<Value>>,
        columns: &[ColumnMeta],
        env: &ExecEnv<'_>,
        mut keep: impl FnMut(Box<[u8]>) -> bool,
    ) -> ExecResult<Vec<Vec<Value>>> {
        let mut kept = Vec::new();
        for row in rows {
            if keep(self.key_of(columns, &row, env)?) {
                kept.push(row);
            }
        }
        Ok(kept)
    }

    /// The key of a row, charged as if it were kept.
    fn key_of(
        &mut self,
        columns: &[ColumnMeta],
        row: &[Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<Box<[u8]>> {
        env.tick()?;
        let key = result_key(columns, row);
        let bytes = key.len() as u64 + KEY_BYTES;
        charge(env, bytes, Purpose::Hash)?;
        self.bytes += bytes;
        Ok(key)
    }

    fn read(
        &mut self,
        plan: &SetOpsPlan,
        nth: usize,
        columns: &[ColumnMeta],
        env: &ExecEnv<'_>,
    ) -> ExecResult<Vec<Vec<Value>>> {
        let (mut rows, mut out) = (Vec::new(), Vec::new());
        while self.operand_row(plan, nth, columns, &mut out, env)? {
            let bytes = row_bytes(&out);
            charge(env, bytes, Purpose::Hash)?;
            self.bytes += bytes;
            rows.push(std::mem::take(&mut out));
        }
        Ok(rows)
    }
}

fn result_key(columns: &[ColumnMeta], row: &[Value]) -> Box<[u8]> {
    debug_assert_eq!(row.len(), columns.len());
    let mut key = Vec::new();
    rowkey::encode_row(row.iter().zip(columns.iter().map(|c| &c.ty)), &mut key);
    key.into()
}
