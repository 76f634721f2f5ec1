//! Streaming aggregation: rows come sorted by a grouping key, so groups are complete when its value changes.
//!
//! Neighbours: `sink` gives it every row; `groups` has the groups. **Invariant**: a group is dropped only when no
//! further row can belong to it, in this task or another, and HAVING is not true for it; so the groups of a task's
//! first and last value stay, whatever HAVING says. Where the key alone identifies a group, a row's group is the last
//! one or a new one, and nothing is looked up.

use esker_sql_plan::expr::Expr;
use esker_sql_plan::expr::rowkey;
use esker_sql_plan::plan::strategy::ProbePipeline;
use esker_sql_plan::plan::strategy::parallel_safe::is_parallel_safe;
use esker_sql_plan::plan::{BlockPlan, GroupPlan, Source};
use esker_types::{SqlResult, SqlType, Value};

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
    /// Where that is possible, and HAVING may drop groups.
    pub fn of(block: &'p BlockPlan, probe: &ProbePipeline<'p>) -> Option<Self> {
        let (plan, having) = (block.group.as_ref()?, block.having.as_ref()?);
        let scan = probe.source;
        let Source::Base { def, access, .. } = &scan.source else {
            return None;
        };
        let part = def.primary().parts.first()?;
        if access.index != 0
            || access.reverse
            || part.prefix_len.is_some()
            || !is_parallel_safe(having)
        {
            return None;
        }
        let (_, slot) = *scan.columns.iter().find(|(col, _)| *col == part.col)?;
        let is_it = |key: &&Expr| key.as_column() == Some(slot);
        let key = plan.keys.iter().find(is_it)?;
        Some(Self {
            is_all: plan.telling_keys().all(|key| is_it(&key)),
            plan,
            having,
            slot,
            ty: &key.ty,
            current: Vec::new(),
            next: Vec::new(),
            start: None,
            row: vec![Value::Null; block.width as usize],
        })
    }

    /// Takes a row. Gives the bytes that took, less those of groups that are dropped.
    pub fn add(
        &mut self,
        groups: &mut GroupTable,
        row: &[Value],
        env: &ExecEnv<'_>,
    ) -> SqlResult<i64> {
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
    fn change(&mut self, groups: &mut GroupTable, env: &ExecEnv<'_>) -> SqlResult<u64> {
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
