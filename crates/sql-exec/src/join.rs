//! Join operators: nested loop, buffered (block) nested loop, hash join. Left is the probe side, right the build side.
//!
//! Neighbours: `node` dispatches here; the planner decided the method; `join_table` has the build side of a hash join;
//! `disk_join` takes over one whose right side does not fit; `parallel` joins with a [`RightSide`] on several threads.
//! **Invariants**: for every left row the right rows come in the right input's order; a left join gives a left row
//! exactly once with nulls when nothing on the right meets `on`, an anti-join gives no other; NULL keys never match in
//! a hash join unless compared with `<=>`.

use std::sync::Arc;

use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::bind::JoinType;
use esker_sql_plan::expr::Expr;
use esker_sql_plan::expr::rowkey;
use esker_sql_plan::plan::{HashBy, JoinMethod, JoinPlan, Node};
use esker_types::Value;

use super::disk_join::DiskJoin;
use super::join_table::{JoinTable, Ring};
use super::memory::{Budget, Purpose, charge, may_keep, refund, row_bytes};
use super::node::{NodeState, all_true};
use super::parallel::{self, RuntimeFilter, StoredRowFilter};
use super::recursive::SharedRows;
use super::spill::{Partitions, RowBuffer, RowCursor, TempFiles, write_key, write_row};
use crate::ExecEnv;

/// State of a join.
pub(crate) struct JoinState {
    left: NodeState,
    /// A left row is current.
    have_left: bool,
    /// The current left row has met a right row.
    matched: bool,
    right: RightSide,
    /// The results, when the right rows were too many.
    spilled: Option<Box<DiskJoin>>,
}

/// The right input, and the search in it for one left row after the other.
pub(super) struct RightSide {
    input: NodeState,
    kept: Kept,
    /// Where the search has come in a buffer, or among the rows of a key.
    cursor: RowCursor,
    ring: Ring,
    key: Vec<u8>,
}

/// Right rows that are read once; shared by the threads that join with them.
#[derive(Clone, Default)]
pub(super) enum Kept {
    /// Not read yet, or not to be kept.
    #[default]
    Nothing,
    Buffer(SharedRows),
    Table(Arc<JoinTable>),
}

/// What became of the right rows.
pub(super) enum Gathered {
    Kept(Kept),
    /// They did not fit.
    Apart(Partitions),
}

impl JoinState {
    pub fn new(plan: &JoinPlan) -> Self {
        Self {
            left: NodeState::new(&plan.left),
            have_left: false,
            matched: false,
            right: RightSide::new(plan, Kept::Nothing),
            spilled: None,
        }
    }

    pub fn open(
        &mut self,
        plan: &JoinPlan,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<()> {
        self.have_left = false;
        std::mem::take(&mut self.right.kept).give_back(env);
        self.spilled = None;
        self.left.open(&plan.left, row, env)
    }

    pub fn next(
        &mut self,
        plan: &JoinPlan,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        loop {
            if let Some(spilled) = &mut self.spilled {
                return spilled.next(plan, row, env);
            }
            if !self.have_left {
                if !self.left.next(&plan.left, row, env)? {
                    return Ok(false);
                }
                debug_assert!(
                    self.spilled.is_none(),
                    "a join on disk has its own left rows"
                );
                self.have_left = true;
                self.matched = false;
                if let Some(parts) = self.right.search(plan, row, env)? {
                    let joined = DiskJoin::run(plan, parts, &mut self.left, row, env)?;
                    self.spilled = Some(Box::new(joined));
                    continue;
                }
            }
            while self.right.next(plan, row, env)? {
                if all_true(&plan.on, row, env)? {
                    self.matched = true;
                    if plan.is_anti {
                        break;
                    }
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
}

impl RightSide {
    /// The right side of a join, whose rows are `kept` if they were read before.
    pub fn new(plan: &JoinPlan, kept: Kept) -> Self {
        Self {
            input: NodeState::new(&plan.right),
            kept,
            cursor: RowCursor::default(),
            ring: Ring::default(),
            key: Vec::new(),
        }
    }

    /// Rows that are looked up may be dropped if they do not pass these filters of inner joins.
    pub fn filter_by(&mut self, plan: &JoinPlan, filters: &[RuntimeFilter]) {
        if let (JoinMethod::Nested, Node::Scan(scan), NodeState::Scan(state)) =
            (&plan.method, &*plan.right, &mut self.input)
        {
            state.filter_by(StoredRowFilter::all_of(filters, scan));
        }
    }

    /// Begins the search for right rows of a new left row. Gives the right rows if there are too many to search in.
    pub fn search(
        &mut self,
        plan: &JoinPlan,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<Option<Partitions>> {
        if matches!(plan.method, JoinMethod::Nested) {
            self.input.open(&plan.right, row, env)?;
            return Ok(None);
        }
        if matches!(self.kept, Kept::Nothing) {
            match gather(plan, &mut self.input, &[], row, env)? {
                Gathered::Kept(kept) => self.kept = kept,
                Gathered::Apart(parts) => return Ok(Some(parts)),
            }
        }
        if let (Kept::Table(table), JoinMethod::Hash { left, by, .. }) = (&self.kept, &plan.method)
        {
            self.ring = match hash_key(left, by, row, env, &mut self.key)? {
                true => table.find(&self.key),
                false => Ring::default(),
            };
        } else {
            self.cursor = RowCursor::default();
        }
        Ok(None)
    }

    /// Fills the slots of the next right row; false at the end.
    pub fn next(
        &mut self,
        plan: &JoinPlan,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        let found = match &self.kept {
            Kept::Nothing => return self.input.next(&plan.right, row, env),
            Kept::Table(table) => table.next_of(&mut self.ring, &plan.right_slots, row)?,
            Kept::Buffer(rows) => match self.cursor.next(rows)? {
                Some(values) => {
                    debug_assert_eq!(values.len(), plan.right_slots.len());
                    for (&slot, value) in plan.right_slots.iter().zip(values) {
                        row[slot as usize].clone_from(value);
                    }
                    true
                }
                None => false,
            },
        };
        if found {
            env.tick()?;
        }
        Ok(found)
    }
}

impl Kept {
    /// Gives the memory back that the rows were charged with.
    pub fn give_back(self, env: &ExecEnv<'_>) {
        match self {
            Self::Nothing => {}
            Self::Buffer(rows) => refund(env, rows.bytes()),
            Self::Table(table) => refund(env, table.bytes()),
        }
    }

    /// Is it known that there is no row?
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Buffer(rows) => rows.is_empty(),
            Self::Table(table) => table.is_empty(),
        }
    }
}

/// Reads the right input of a join that keeps it, but for rows that do not pass `filters`. The current left row is
/// preserved: inputs have their own slots.
pub(super) fn gather(
    plan: &JoinPlan,
    input: &mut NodeState,
    filters: &[RuntimeFilter],
    row: &mut [Value],
    env: &ExecEnv<'_>,
) -> ExecResult<Gathered> {
    match &plan.method {
        JoinMethod::Hash { right, by, .. } => {
            gather_by_key(plan, (right, by), input, filters, row, env)
        }
        _ => {
            let mut buffer = RowBuffer::default();
            input.open(&plan.right, row, env)?;
            while input.next(&plan.right, row, env)? {
                let values = plan.right_slots.iter().map(|s| &row[*s as usize]);
                buffer.push(values, Budget::Join, env)?;
            }
            buffer.finish()?;
            Ok(Gathered::Kept(Kept::Buffer(Arc::new(buffer))))
        }
    }
}

fn gather_by_key(
    plan: &JoinPlan,
    (exprs, by): (&[Expr], &[HashBy]),
    input: &mut NodeState,
    filters: &[RuntimeFilter],
    row: &mut [Value],
    env: &ExecEnv<'_>,
) -> ExecResult<Gathered> {
    if let Some(table) = parallel::build_join_table(plan, row.len(), filters, env)? {
        return Ok(Gathered::Kept(Kept::Table(Arc::new(table))));
    }
    let (mut table, mut charged) = (JoinTable::default(), 0);
    let mut parts: Option<Partitions> = None;
    let mut key = Vec::new();
    input.open(&plan.right, row, env)?;
    'rows: while input.next(&plan.right, row, env)? {
        for filter in filters {
            if !filter.passes(row, env, &mut key)? {
                continue 'rows;
            }
        }
        if !hash_key(exprs, by, row, env, &mut key)? {
            continue;
        }
        let values = plan.right_slots.iter().map(|s| &row[*s as usize]);
        if let Some(parts) = &mut parts {
            parts.push(&key, |out| {
                write_key(&key, out);
                write_row(values, out);
            })?;
            continue;
        }
        // What a row takes is known when it is there; before that it is what its values take elsewhere.
        let more = JoinTable::row_bytes(&key, row_bytes(values.clone()));
        if !table.is_empty()
            && (!may_keep(env, table.bytes(), more, Budget::Join) || !table.has_room())
            && let Some((temp, budget)) = Budget::Join.on_disk(env)
        {
            let mut apart = spill(&table, plan, temp, budget)?;
            refund(env, charged);
            (table, charged) = (JoinTable::default(), 0);
            apart.push(&key, |out| {
                write_key(&key, out);
                write_row(values, out);
            })?;
            parts = Some(apart);
            continue;
        }
        table.push(&key, values);
        let bytes = table.bytes();
        debug_assert!(bytes > charged, "a row takes memory");
        charge(env, bytes - charged, Purpose::Hash)?;
        charged = bytes;
    }
    Ok(match parts {
        Some(parts) => Gathered::Apart(parts),
        None => Gathered::Kept(Kept::Table(Arc::new(table))),
    })
}

/// Moves the rows to disk, by key.
fn spill(
    table: &JoinTable,
    plan: &JoinPlan,
    temp: &TempFiles,
    budget: u64,
) -> ExecResult<Partitions> {
    temp.count_table();
    let mut parts = Partitions::new(temp, 0, budget)?;
    let width = plan.right_slots.len() as u32;
    table.each(|key, values| {
        Ok(parts.push(key, |out| {
            write_key(key, out);
            out.extend_from_slice(&width.to_le_bytes());
            out.extend_from_slice(values);
        })?)
    })?;
    Ok(parts)
}

/// Encodes the key of a row; false when a NULL makes it match nothing.
pub(super) fn hash_key(
    exprs: &[Expr],
    by: &[HashBy],
    row: &[Value],
    env: &ExecEnv<'_>,
    out: &mut Vec<u8>,
) -> ExecResult<bool> {
    debug_assert_eq!(
        exprs.len(),
        by.len(),
        "every part of the key compares in some domain"
    );
    out.clear();
    for (expr, by) in exprs.iter().zip(by) {
        let value = expr.eval_ref(row, env)?;
        if value.is_null() && !by.null_safe {
            return Ok(false);
        }
        rowkey::encode_compared(env.ctx, &value, by.kind, out)?;
    }
    Ok(true)
}
