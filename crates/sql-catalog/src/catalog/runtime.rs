//! What of a table lives in memory and outlives its definitions: AUTO_INCREMENT, hidden row ids, samples of
//! its indexes.
//!
//! Neighbours: `dml` draws numbers, `ddl` sets the counter, the engine persists it.
//!
//! **Invariants** (A1, A2)
//! - The next number is larger than `last`, which is not smaller than any number ever given or stored. It only grows,
//!   but for ALTER TABLE. As in InnoDB it lies before the next number of the sequence of whoever drew or stored last:
//!   another `auto_increment_increment` goes on from there.
//! - A number given in an autocommit statement travels in the commit record of its row
//!   (`Txn::bump_counter`): until that is durable no client has seen it.
//! - A number given inside an open transaction is seen before the commit, so it lies below
//!   `reserved`, a mark that is in the log; the reply waits for `reserved_seq`.
//! - Without persistence (`esker_auto_increment_persistent` off) numbers are not logged. So the first number after a
//!   start is drawn behind the largest one stored, too, whatever the setting is by then.
//! - Hidden row ids are never shown to anybody: after a restart they go on behind the last row.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use esker_engine::{Direction, Engine, Isolation, Seq, Tree, TreeId, View};
use esker_types::{SqlResult, SqlType, TypeKind, ValueRef};
use parking_lot::Mutex;

use super::access_counts::AccessCounts;
use super::def::TableDef;
use super::partitioning::Partitioning;
use super::sample::Samples;
use crate::codec::{RowReader, UTC, damaged};
use crate::exec_error::engine_error;

/// `auto_increment_increment` and `auto_increment_offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoStep {
    /// Distance of generated values.
    pub increment: u64,
    /// First value; ignored when larger than the increment, as in MySQL.
    pub offset: u64,
}

impl AutoStep {
    /// 1, 2, 3, …
    pub const ONE: AutoStep = AutoStep {
        increment: 1,
        offset: 1,
    };

    /// The smallest value of the sequence that is larger than `last`.
    pub fn after(self, last: u64) -> u64 {
        let increment = self.increment.max(1);
        let offset = if self.offset > increment {
            1
        } else {
            self.offset.max(1)
        };
        if last < offset {
            return offset;
        }
        let rounds = (last - offset) / increment + 1;
        rounds.saturating_mul(increment).saturating_add(offset)
    }

    /// The numbers of a column that InnoDB adds in place, from AUTO_INCREMENT = `start` on (0: not given): their steps,
    /// and the counter before the first one. An offset beyond the increment counts as none, and, but with steps of 1
    /// from 1 on, the first number is behind the start and behind the offset, too.
    pub fn added_in_place(self, start: u64) -> (AutoStep, u64) {
        let increment = self.increment.max(1);
        if increment == 1 && self.offset <= 1 {
            return (AutoStep::ONE, start.saturating_sub(1));
        }
        let offset = match self.offset > increment {
            true => 0,
            false => self.offset.max(1),
        };
        let rounds = start.abs_diff(offset) / increment + 1;
        let first = rounds.saturating_mul(increment).saturating_add(offset);
        let step = AutoStep {
            increment,
            offset: if offset == 0 { increment } else { offset },
        };
        debug_assert_eq!(step.after(first - 1), first);
        (step, first - 1)
    }

    /// The largest value of the sequence up to `max`; `max` where there is none.
    pub fn last_to(self, max: u64) -> u64 {
        let (increment, first) = (self.increment.max(1), self.after(0));
        match max.checked_sub(first) {
            Some(span) => first + span / increment * increment,
            None => max,
        }
    }

    /// The counter behind `value`: just before the next number.
    fn counter_behind(self, value: u64, max: u64) -> u64 {
        (self.after(value) - 1).clamp(value.min(max), max)
    }
}

/// Largest AUTO_INCREMENT value of a column.
pub fn max_auto(ty: &SqlType) -> u64 {
    let bits = match ty.kind {
        TypeKind::TinyInt => 8,
        TypeKind::SmallInt => 16,
        TypeKind::MediumInt => 24,
        TypeKind::Int => 32,
        _ => 64,
    };
    u64::MAX >> (64 - bits + u32::from(!ty.unsigned))
}

/// Numbers drawn: `first`, `first + step`, …
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoRange {
    /// First number.
    pub first: u64,
    /// Distance.
    pub step: u64,
    /// How many.
    pub count: u64,
    /// The counter before they were drawn.
    pub before: u64,
    /// The counter after they were drawn.
    pub after: u64,
}

#[derive(Debug, Default)]
struct AutoState {
    last: u64,
    reserved: u64,
    reserved_seq: Seq,
}

/// How rows are spread over partitions.
#[derive(Debug)]
pub struct PartitionSizes {
    /// The partitions.
    pub by: Arc<Partitioning>,
    /// What the table's tree was like: entries and bytes.
    pub stamp: (u64, u64),
    /// Rows in each partition, of those that were looked at.
    pub counts: Vec<u64>,
}

/// Memory of a table.
#[derive(Debug)]
pub struct TableRuntime {
    auto: Mutex<AutoState>,
    /// The counter is behind no value that is stored.
    knows_stored: AtomicBool,
    /// Next hidden row id; `None` until first needed.
    next_row_id: Mutex<Option<u64>>,
    /// What is done to rows without an index, and rows that are made and changed.
    pub accesses: Arc<AccessCounts>,
    pub(super) samples: Samples,
    partition_sizes: Mutex<Option<Arc<PartitionSizes>>>,
}

impl TableRuntime {
    /// Starts from the persistent counter.
    pub fn new(counter: u64) -> Self {
        let auto = AutoState {
            last: counter,
            reserved: counter,
            reserved_seq: 0,
        };
        Self {
            auto: Mutex::new(auto),
            knows_stored: AtomicBool::new(false),
            next_row_id: Mutex::new(None),
            accesses: Arc::default(),
            samples: Samples::default(),
            partition_sizes: Mutex::default(),
        }
    }

    /// How rows are spread over these partitions, if that was looked at when the tree was like `stamp`.
    pub fn partition_sizes(
        &self,
        by: &Partitioning,
        stamp: (u64, u64),
    ) -> Option<Arc<PartitionSizes>> {
        let known = self.partition_sizes.lock().clone();
        known.filter(|sizes| sizes.stamp == stamp && *sizes.by == *by)
    }

    /// Keeps what was found.
    pub fn keep_partition_sizes(&self, sizes: Arc<PartitionSizes>) {
        *self.partition_sizes.lock() = Some(sizes);
    }

    /// The largest AUTO_INCREMENT value given or stored.
    pub fn last_auto(&self) -> u64 {
        self.auto.lock().last
    }

    /// Before the first number since the start is drawn: the counter may be behind what is stored.
    pub fn learn_stored(&self, engine: &Engine, table: &TableDef) -> SqlResult<()> {
        if !self.knows_stored.load(Ordering::Acquire) {
            let largest = largest_stored(engine, table)?;
            let mut auto = self.auto.lock();
            auto.last = auto.last.max(largest);
            drop(auto);
            self.knows_stored.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// The next number, as SHOW prints it for a column that holds numbers up to `max`.
    pub fn next_auto(&self, max: u64) -> u64 {
        let last = self.last_auto();
        match last > max {
            true => last.saturating_add(1),
            false => last.saturating_add(1).min(max),
        }
    }

    /// Draws `count` numbers that nobody else gets; they may be larger than `max`, the largest that the column holds.
    /// Behind `max` itself comes `max` again, which the unique key refuses. `None`: the counter was set beyond it, or
    /// is at the end of all numbers.
    pub fn draw(&self, count: u64, step: AutoStep, max: u64) -> Option<AutoRange> {
        let mut auto = self.auto.lock();
        let before = auto.last;
        let behind_all = before.saturating_add(1) == u64::MAX;
        if before > max || behind_all {
            return None;
        }
        let first = step.after(before.min(max - 1));
        let distance = step.increment.max(1);
        let end = first.saturating_add(distance.saturating_mul(count.saturating_sub(1)));
        auto.last = step.counter_behind(end, max).max(before);
        Some(AutoRange {
            first,
            step: distance,
            count,
            before,
            after: auto.last,
        })
    }

    /// Gives numbers back that nobody has seen, unless the counter has moved on since.
    pub fn undraw(&self, before: u64, after: u64) {
        let mut auto = self.auto.lock();
        if auto.last == after {
            auto.last = before;
        }
    }

    /// A value was stored that was not drawn, in a column that holds numbers up to `max`.
    pub fn note(&self, value: u64, step: AutoStep, max: u64) {
        if value == 0 {
            return;
        }
        let mut auto = self.auto.lock();
        // A value that is behind the counter already says nothing about whose sequence goes on.
        if value > auto.last {
            auto.last = step.counter_behind(value, max);
        }
    }

    /// Makes sure that numbers up to `value` survive a crash, `interval` more at a time; the reply
    /// that shows one waits for the sequence returned.
    pub fn reserve(
        &self,
        engine: &Engine,
        tree: TreeId,
        value: u64,
        interval: u64,
    ) -> SqlResult<Seq> {
        let mut auto = self.auto.lock();
        if value > auto.reserved {
            let up_to = value.saturating_add(interval.saturating_sub(1));
            let seq = engine
                .reserve_counter(tree, up_to)
                .map_err(|e| engine_error(&e))?;
            auto.reserved = up_to;
            auto.reserved_seq = seq;
        }
        Ok(auto.reserved_seq)
    }

    /// ALTER TABLE … AUTO_INCREMENT: the next value is larger than `last`, which is persisted.
    pub fn reset(&self, last: u64) {
        *self.auto.lock() = AutoState {
            last,
            reserved: last,
            reserved_seq: 0,
        };
    }

    /// At shutdown: the exact counter, if an interval was reserved beyond it.
    pub(super) fn unused_reservation(&self) -> Option<u64> {
        let auto = self.auto.lock();
        (auto.reserved > auto.last).then_some(auto.last)
    }

    /// A row id no row of `tree` has or had since the start.
    pub fn next_row_id(&self, engine: &Engine, tree: &Tree) -> SqlResult<u64> {
        let mut next = self.next_row_id.lock();
        let id = match *next {
            Some(id) => id,
            None => last_row_id(engine, tree)? + 1,
        };
        *next = Some(id + 1);
        Ok(id)
    }
}

/// The largest value of the AUTO_INCREMENT column, from the end of the index that it leads; 0 if there is none.
pub fn largest_stored(engine: &Engine, table: &TableDef) -> SqlResult<u64> {
    let leads = |parts: &[super::IndexPart]| parts.first().map(|p| p.col) == table.auto_column;
    let mut indexes = table.ordered().iter().filter(|i| !i.parts.is_empty());
    let Some(index) = indexes.find(|i| leads(&i.parts) && i.codec.is_reversible(0)) else {
        return largest_of_all(engine, table);
    };
    let direction = match index.parts[0].desc {
        true => Direction::Forward,
        false => Direction::Backward,
    };
    let txn = engine.begin(Isolation::ReadCommitted);
    let all = Bound::Unbounded;
    let entries = txn.scan(&index.tree, all, all, direction, View::Latest);
    let mut entries = entries.map_err(|e| engine_error(&e))?;
    let Some((key, _)) = entries.next().map_err(|e| engine_error(&e))? else {
        return Ok(0);
    };
    let first = index.codec.decode_part(0, key, &UTC);
    Ok(first.map_or(0, |(value, _)| as_number(value)))
}

/// The same, where only a multi-valued index has the column first, which has nothing in the column's order.
fn largest_of_all(engine: &Engine, table: &TableDef) -> SqlResult<u64> {
    let Some(auto) = table.auto_column else {
        return Ok(0);
    };
    let txn = engine.begin(Isolation::ReadCommitted);
    let (all, tree) = (Bound::Unbounded, &table.primary().tree);
    let rows = txn.scan(tree, all, all, Direction::Forward, View::Latest);
    let mut rows = rows.map_err(|e| engine_error(&e))?;
    let mut largest = 0;
    while let Some((_, row)) = rows.next().map_err(|e| engine_error(&e))? {
        let row = RowReader::new(&table.layout, &UTC, row)?;
        largest = largest.max(as_number(row.field(auto)));
    }
    Ok(largest)
}

fn as_number(value: ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Int(v) => u64::try_from(v).unwrap_or(0),
        ValueRef::UInt(v) => v,
        _ => 0,
    }
}

fn last_row_id(engine: &Engine, tree: &Tree) -> SqlResult<u64> {
    let txn = engine.begin(Isolation::ReadCommitted);
    let (all, back) = (Bound::Unbounded, Direction::Backward);
    let mut rows = txn
        .scan(tree, all, all, back, View::Latest)
        .map_err(|e| engine_error(&e))?;
    match rows.next().map_err(|e| engine_error(&e))? {
        None => Ok(0),
        Some((key, _)) => {
            let key = key.try_into().map_err(|_| damaged("row id"))?;
            Ok(u64::from_be_bytes(key))
        }
    }
}
