//! Sinks of a probe pipeline: partial groups, distinct rows, top n, all rows, or records of a hash table.
//!
//! Neighbours: `task` gives it one row after the other; the statement's thread merges the sinks of all tasks.
//! **Invariant**: what is kept stands in the order of its arrival, or in that of ORDER BY where only the first n are
//! wanted.

use std::collections::{BinaryHeap, HashSet};

use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::expr::Expr;
use esker_sql_plan::expr::rowkey;
use esker_sql_plan::plan::strategy::{ProbePipeline, SinkKind};
use esker_sql_plan::plan::{BlockPlan, GroupPlan, HashBy};
use esker_types::ctx::Mark;
use esker_types::{EvalCtx, Value};

use super::super::join::hash_key;
use super::super::join_table::{self, KeyHash, PARTS, part_of};
use super::super::memory::row_bytes;
use super::super::sort::order_key;
use super::groups::GroupTable;
use super::streaming_groups::StreamingGroups;
use super::task::Consumer;
use crate::ExecEnv;

/// How much of what is kept, and in which slots.
pub(super) struct Wanted {
    pub sink_kind: SinkKind,
    pub keep: u64,
    pub slots: Vec<u32>,
    pub width: usize,
}

/// The result of a share of the rows.
pub(super) enum Part {
    Groups(Box<GroupTable>),
    Rows(Vec<Box<[Value]>>),
    /// Records of [`JoinTable`](super::super::join_table::JoinTable), by part.
    Records(Vec<Vec<u8>>),
    /// All tasks together need too much memory.
    TooLarge,
}

/// A row at its place in an order; the largest is the first to go.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ordered {
    key: Box<[u8]>,
    arrival: u64,
    row: Row,
}

/// A row that takes no part in the order.
pub(super) struct Row(Box<[Value]>);

impl PartialEq for Row {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Row {}
impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Row {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

/// How many warnings there were: a row that is kept is evaluated again by the statement's thread, which then warns.
pub(super) struct Warned<'c> {
    ctx: &'c EvalCtx<'c>,
    mark: Mark,
}

impl<'c> Warned<'c> {
    pub(super) fn of(ctx: &'c EvalCtx<'c>) -> Self {
        Warned {
            ctx,
            mark: ctx.diagnostics.mark(),
        }
    }

    /// Forgets those that came later. Were there any?
    pub(super) fn forget_later(&self) -> bool {
        let is_new = self.ctx.diagnostics.raised_since(self.mark);
        self.ctx.diagnostics.undo_to(self.mark);
        is_new
    }
}

fn pick(slots: &[u32], row: &[Value]) -> Box<[Value]> {
    slots.iter().map(|s| row[*s as usize].clone()).collect()
}

/// What a task keeps of its rows.
pub(super) enum Sink<'p> {
    Groups(Groups<'p>),
    Distinct(Distinct<'p>),
    Top(Top<'p>),
    Rows(&'p [u32], Vec<Box<[Value]>>),
    Records(Records<'p>),
}

impl<'p> Sink<'p> {
    pub(super) fn new(
        consumer: &'p Consumer,
        wanted: &'p Wanted,
        probe: &ProbePipeline<'p>,
    ) -> Self {
        let slots = &wanted.slots[..];
        let block = match consumer {
            Consumer::Block(block) => &**block,
            Consumer::Right { keys, by, hash, .. } => {
                return Self::Records(Records {
                    slots,
                    exprs: keys,
                    by,
                    hash,
                    key: Vec::new(),
                    parts: vec![Vec::new(); PARTS],
                });
            }
        };
        match wanted.sink_kind {
            kind @ (SinkKind::Group | SinkKind::StreamingGroup) => Self::Groups(Groups {
                plan: block.group.as_ref().expect("its sink_kind says so"),
                table: Box::default(),
                segments: (kind == SinkKind::StreamingGroup)
                    .then(|| Box::new(StreamingGroups::of(block, probe))),
            }),
            SinkKind::Distinct => Self::Distinct(Distinct {
                block,
                slots,
                seen: HashSet::new(),
                key: Vec::new(),
                rows: Vec::new(),
            }),
            SinkKind::Top => Self::Top(Top {
                block,
                slots,
                limit: usize::try_from(wanted.keep).unwrap_or(usize::MAX),
                rows: BinaryHeap::new(),
                arrivals: 0,
                key: Vec::new(),
            }),
            SinkKind::Rows | SinkKind::Hash => Self::Rows(slots, Vec::new()),
        }
    }

    /// Takes a row; gives the bytes that took, less those that became free.
    #[inline]
    pub(super) fn add(&mut self, row: &[Value], env: &ExecEnv<'_>) -> ExecResult<i64> {
        match self {
            Self::Groups(groups) => groups.add(row, env),
            Self::Distinct(distinct) => distinct.add(row, env),
            Self::Top(top) => top.add(row, env),
            Self::Rows(slots, rows) => {
                let values = pick(slots, row);
                let bytes = row_bytes(&values);
                rows.push(values);
                Ok(bytes as i64)
            }
            Self::Records(records) => records.add(row, env),
        }
    }

    /// The groups of a task that makes groups.
    pub(super) fn groups(&mut self) -> (&'p GroupPlan, &mut GroupTable) {
        let Self::Groups(groups) = self else {
            unreachable!("only what is grouped is summed up");
        };
        (groups.plan, &mut groups.table)
    }

    pub(super) fn finish(self) -> Part {
        match self {
            Self::Groups(groups) => Part::Groups(groups.table),
            Self::Distinct(Distinct { rows, .. }) | Self::Rows(_, rows) => Part::Rows(rows),
            Self::Records(records) => Part::Records(records.parts),
            Self::Top(top) => {
                let sorted = top.rows.into_sorted_vec().into_iter();
                Part::Rows(sorted.map(|ordered| ordered.row.0).collect())
            }
        }
    }
}

/// Partial groups.
pub(super) struct Groups<'p> {
    plan: &'p GroupPlan,
    table: Box<GroupTable>,
    /// Where rows come sorted by a key of the groups.
    segments: Option<Box<StreamingGroups<'p>>>,
}

impl Groups<'_> {
    #[inline]
    fn add(&mut self, row: &[Value], env: &ExecEnv<'_>) -> ExecResult<i64> {
        match &mut self.segments {
            Some(segments) => segments.add(&mut self.table, row, env),
            None => self
                .table
                .add(self.plan, row, env)
                .map(|bytes| bytes as i64),
        }
    }
}

/// Rows of DISTINCT, each once.
pub(super) struct Distinct<'p> {
    block: &'p BlockPlan,
    slots: &'p [u32],
    seen: HashSet<Box<[u8]>>,
    key: Vec<u8>,
    rows: Vec<Box<[Value]>>,
}

impl Distinct<'_> {
    fn add(&mut self, row: &[Value], env: &ExecEnv<'_>) -> ExecResult<i64> {
        let warned = Warned::of(env.ctx);
        let key = &mut self.key;
        key.clear();
        for expr in self.block.compared() {
            rowkey::encode(&*expr.eval_ref(row, env)?, &expr.ty, false, key);
        }
        if self.seen.contains(key.as_slice()) {
            return Ok(0);
        }
        warned.forget_later();
        self.seen.insert(key.as_slice().into());
        let values = pick(self.slots, row);
        let bytes = key.len() as u64 + 32 + row_bytes(&values);
        self.rows.push(values);
        debug_assert_eq!(self.rows.len(), self.seen.len());
        Ok(bytes as i64)
    }
}

/// The first rows of an order.
pub(super) struct Top<'p> {
    block: &'p BlockPlan,
    slots: &'p [u32],
    limit: usize,
    rows: BinaryHeap<Ordered>,
    arrivals: u64,
    key: Vec<u8>,
}

impl Top<'_> {
    fn add(&mut self, row: &[Value], env: &ExecEnv<'_>) -> ExecResult<i64> {
        let warned = Warned::of(env.ctx);
        let (key, rows) = (&mut self.key, &mut self.rows);
        order_key(&self.block.order, row, env, key)?;
        if rows.len() >= self.limit && rows.peek().is_none_or(|worst| **key >= *worst.key) {
            return Ok(0);
        }
        warned.forget_later();
        let values = pick(self.slots, row);
        let bytes = key.len() as u64 + 32 + row_bytes(&values);
        rows.push(Ordered {
            key: key.as_slice().into(),
            arrival: self.arrivals,
            row: Row(values),
        });
        self.arrivals += 1;
        debug_assert!(rows.len() <= self.limit.saturating_add(1));
        if rows.len() > self.limit {
            rows.pop();
            // What goes made room for what came.
            return Ok(0);
        }
        Ok(bytes as i64)
    }
}

/// Records of a hash table.
pub(super) struct Records<'p> {
    slots: &'p [u32],
    exprs: &'p [Expr],
    by: &'p [HashBy],
    hash: &'p KeyHash,
    key: Vec<u8>,
    parts: Vec<Vec<u8>>,
}

impl Records<'_> {
    fn add(&mut self, row: &[Value], env: &ExecEnv<'_>) -> ExecResult<i64> {
        let key = &mut self.key;
        if !hash_key(self.exprs, self.by, row, env, key)? {
            return Ok(0);
        }
        let part = &mut self.parts[part_of(self.hash.of(key))];
        let before = part.len();
        join_table::append(key, self.slots.iter().map(|s| &row[*s as usize]), part);
        debug_assert!(part.len() > before, "a record has bytes");
        Ok((part.len() - before) as i64 + join_table::PLACE_BYTES as i64)
    }
}
