//! Streaming aggregation: rows come sorted by a grouping key, so groups are complete when its value changes.
//!
//! Neighbours: `sink` gives it every row; `groups` has the groups. **Invariant**: a group is dropped only when no
//! further row can belong to it, in this task or another, and HAVING is not true for it; so the groups of a task's
//! first and last value stay, whatever HAVING says. Where the key alone identifies a group, a row's group is the last
//! one or a new one, and nothing is looked up.

use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::expr::Expr;
use esker_sql_plan::expr::rowkey;
use esker_sql_plan::plan::strategy::{ProbePipeline, streaming_key};
use esker_sql_plan::plan::{BlockPlan, GroupPlan};
use esker_types::{SqlType, Value};

use super::groups::GroupTable;
use crate::ExecEnv;

/// Watches the value by which rows come sorted.
pub(super) struct StreamingGroups<'p> {
    plan: &'p GroupPlan,
    having: &'p Expr,
    slot: u32,
    ty: &'p SqlType,
    /// The value now, and the one of a new row.
    current: Vec<u8>,
    next: Vec<u8>,
    /// The first of its groups; `None` with the task's first value.
    start: Option<usize>,
    /// Nothing else tells groups apart: each value has one group.
    is_all: bool,
    row: Vec<Value>,
}

impl<'p> StreamingGroups<'p> {
    /// Of a block whose plan says so.
    pub fn of(block: &'p BlockPlan, probe: &ProbePipeline<'p>) -> Self {
        let (key, slot) = streaming_key(block, probe).expect("its strategy says so");
        let plan = block.group.as_ref().expect("it has a grouping key");
        let having = block.having.as_ref().expect("it drops groups");
        let is_it = |key: &Expr| key.as_column() == Some(slot);
        Self {
            is_all: plan.telling_keys().all(is_it),
            plan,
            having,
            slot,
            ty: &key.ty,
            current: Vec::new(),
            next: Vec::new(),
            start: None,
            row: vec![Value::Null; block.width as usize],
        }
    }

    /// Takes a row. Gives the bytes that took, less those of groups that are dropped.
    pub fn add(
        &mut self,
        groups: &mut GroupTable,
        row: &[Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<i64> {
        self.next.clear();
        rowkey::encode(&row[self.slot as usize], self.ty, false, &mut self.next);
        let is_new = self.next != self.current;
        let freed = if is_new { self.change(groups, env)? } else { 0 };
        let bytes = match (self.is_all, is_new) {
            (false, _) => groups.add(self.plan, row, env)?,
            (true, true) => groups.add_first(self.plan, &self.current, row, env)?,
            (true, false) => groups.add_to(groups.len() - 1, self.plan, row, env)?,
        };
        Ok(bytes as i64 - freed as i64)
    }

    /// The rows go on with another value. Gives the bytes of groups that are dropped.
    fn change(&mut self, groups: &mut GroupTable, env: &ExecEnv<'_>) -> ExecResult<u64> {
        let is_first = self.current.is_empty();
        std::mem::swap(&mut self.current, &mut self.next);
        let mut freed = 0;
        if let Some(start) = self.start {
            let having = self.having;
            let mut wanted = |row: &[Value]| having.is_true(row, env);
            freed = groups.complete(self.plan, start, &mut self.row, env.ctx, &mut wanted)?;
        }
        if !is_first {
            self.start = Some(groups.len());
        }
        Ok(freed)
    }
}
