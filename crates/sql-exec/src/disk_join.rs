//! Grace hash join: a build side that does not fit in memory; both sides are partitioned by key and joined part by
//! part.
//!
//! ```text
//! right   length of the key (4) | key | row
//! left    ordinal (8, big endian) | length of the key (4) | key | row
//! result  length (4) | ordinal | row of both
//! ```
//! Neighbours: `join` begins in memory and hands over when its budget is spent; `spill` has the
//! partitions and merges the results.
//! **Invariants**: rows come as from the join in memory: in the order of the left rows, for each in the
//! order of the right ones; so each part's results are a run sorted by the left row's ordinal, and the
//! runs of later pieces of one part come after those of earlier ones.

use std::collections::HashMap;

use esker_sql_catalog::codec::damaged;
use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::bind::JoinType;
use esker_sql_plan::plan::{JoinMethod, JoinPlan};
use esker_types::Value;

use super::join::hash_key;
use super::memory::{Budget, Purpose, charge, may_keep, refund, row_bytes};
use super::node::{NodeState, all_true};
use super::spill::{
    MAX_LEVEL, Merge, Partitions, Run, RunReader, RunWriter, SpillFile, TempFiles, block_bytes,
    narrow_runs, read_row, write_key, write_row,
};
use crate::ExecEnv;

/// Rough bytes of a hash table's entry beyond its key and its row.
const ENTRY_BYTES: u64 = 48;

/// The results of a join that went to disk.
pub(super) struct DiskJoin {
    results: Merge,
    values: Vec<Value>,
}

/// One side of a part.
type Side<'s> = (&'s SpillFile, &'s Run);

impl DiskJoin {
    /// Joins everything. The right side is in `right` by key; the current row has the first left row,
    /// the others come from `left`.
    pub fn run(
        plan: &JoinPlan,
        right: Partitions,
        left: &mut NodeState,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<Self> {
        let (
            JoinMethod::Hash {
                left: exprs, by, ..
            },
            Some((temp, budget)),
        ) = (&plan.method, Budget::Join.on_disk(env))
        else {
            unreachable!("only hash joins with a disk are handed over");
        };
        let mut joiner = Joiner::new(plan, temp, budget)?;
        let mut probe = Partitions::new(temp, 0, budget)?;
        let mut alone = joiner.writer();
        let (mut key, mut ordinal) = (Vec::new(), 0_u64);
        loop {
            if hash_key(exprs, by, row, env, &mut key)? {
                let values = plan.left_slots.iter().map(|s| &row[*s as usize]);
                probe.push(&key, |out| {
                    out.extend_from_slice(&ordinal.to_be_bytes());
                    write_key(&key, out);
                    write_row(values, out);
                })?;
            } else if plan.kind == JoinType::Left {
                joiner.give_alone(&mut alone, ordinal, row)?;
            }
            ordinal += 1;
            if !left.next(&plan.left, row, env)? {
                break;
            }
        }
        joiner.end(alone)?;
        let (left_file, left_runs) = probe.finish()?;
        let (right_file, right_runs) = right.finish()?;
        for (left, right) in left_runs.iter().zip(&right_runs) {
            joiner.part((&left_file, left), (&right_file, right), 0, row, env)?;
        }
        drop((left_file, right_file));
        let Joiner { file, runs, .. } = joiner;
        let (file, runs) = narrow_runs(temp, file, runs, budget, u64::MAX, env)?;
        Ok(Self {
            results: Merge::open(&file, &runs)?,
            values: Vec::new(),
        })
    }

    /// Fills the slots of both sides; false at the end.
    pub fn next(
        &mut self,
        plan: &JoinPlan,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        let Some((_, mut payload)) = self.results.next(env)? else {
            return Ok(false);
        };
        read_row(&mut payload, &mut self.values)?;
        let slots = plan.left_slots.iter().chain(&plan.right_slots);
        fill(slots, &mut self.values, row);
        Ok(true)
    }
}

/// Moves values into slots.
fn fill<'s>(slots: impl Iterator<Item = &'s u32>, values: &mut [Value], row: &mut [Value]) {
    for (slot, value) in slots.zip(values) {
        row[*slot as usize] = std::mem::take(value);
    }
}

struct Joiner<'p> {
    plan: &'p JoinPlan,
    temp: &'p TempFiles,
    budget: u64,
    /// Results.
    file: SpillFile,
    runs: Vec<Run>,
}

/// Right rows of one piece by key.
#[derive(Default)]
struct Table {
    rows: HashMap<Box<[u8]>, Vec<Vec<Value>>>,
    bytes: u64,
}

impl<'p> Joiner<'p> {
    fn new(plan: &'p JoinPlan, temp: &'p TempFiles, budget: u64) -> ExecResult<Self> {
        Ok(Self {
            plan,
            temp,
            budget,
            file: temp.create()?,
            runs: Vec::new(),
        })
    }

    fn writer(&self) -> RunWriter {
        RunWriter::new(block_bytes(self.budget))
    }

    fn end(&mut self, writer: RunWriter) -> ExecResult<()> {
        let run = writer.finish(&mut self.file)?;
        if run.records > 0 {
            self.runs.push(run);
        }
        Ok(())
    }

    /// Writes a result: the left and right slots of the row.
    fn give(&mut self, writer: &mut RunWriter, ordinal: u64, row: &[Value]) -> ExecResult<()> {
        let slots = [&self.plan.left_slots[..], &self.plan.right_slots[..]].concat();
        let values: Vec<&Value> = slots.iter().map(|s| &row[*s as usize]).collect();
        Ok(writer.push(&mut self.file, |out| {
            write_key(&ordinal.to_be_bytes(), out);
            write_row(values.into_iter(), out);
        })?)
    }

    /// Writes a left row without a match.
    fn give_alone(
        &mut self,
        writer: &mut RunWriter,
        ordinal: u64,
        row: &mut [Value],
    ) -> ExecResult<()> {
        for slot in &self.plan.right_slots {
            row[*slot as usize] = Value::Null;
        }
        self.give(writer, ordinal, row)
    }

    /// Rough bytes of a part's right side in memory.
    fn table_bytes(&self, run: &Run) -> u64 {
        let values = (self.plan.right_slots.len() * size_of::<Value>()) as u64;
        run.bytes + run.records * (values + ENTRY_BYTES)
    }

    /// Joins one part.
    fn part(
        &mut self,
        left: Side<'_>,
        right: Side<'_>,
        level: u32,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<()> {
        if left.1.records == 0 || (right.1.records == 0 && self.plan.kind != JoinType::Left) {
            return Ok(());
        }
        if level >= MAX_LEVEL || self.table_bytes(right.1) <= self.budget {
            return self.pieces(left, right, row, env);
        }
        let (left_file, lefts) = self.split(left, 8, level + 1, env)?;
        let (right_file, right_runs) = self.split(right, 0, level + 1, env)?;
        for (nth, run) in right_runs.iter().enumerate() {
            // What does not come apart has one key, and would not at the next level either.
            let same = run.records == right.1.records;
            let level = if same { MAX_LEVEL } else { level + 1 };
            self.part(
                (&left_file, &lefts[nth]),
                (&right_file, run),
                level,
                row,
                env,
            )?;
        }
        Ok(())
    }

    /// Partitions a side again; its key stands behind `before` bytes.
    fn split(
        &self,
        side: Side<'_>,
        before: usize,
        level: u32,
        env: &ExecEnv<'_>,
    ) -> ExecResult<(SpillFile, Vec<Run>)> {
        let mut parts = Partitions::new(self.temp, level, self.budget)?;
        let mut reader = side.0.read(side.1);
        while let Some(record) = reader.next()? {
            env.tick()?;
            let (key, _) = key_of(record.get(before..).unwrap_or_default())?;
            parts.push(key, |out| out.extend_from_slice(record))?;
        }
        Ok(parts.finish()?)
    }

    /// Joins a part whose right side is read piece by piece into memory, the left side once for each.
    fn pieces(
        &mut self,
        left: Side<'_>,
        right: Side<'_>,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<()> {
        debug_assert!(left.1.records > 0, "an empty part is done");
        let mut matched = vec![0_u64; left.1.records.div_ceil(64) as usize];
        let mut reader = right.0.read(right.1);
        let mut pending = None;
        loop {
            let mut table = Table::default();
            let more = table.load(&mut reader, &mut pending, env)?;
            let mut writer = self.writer();
            let mut lefts = left.0.read(left.1);
            let mut nth = 0;
            while let Some(record) = lefts.next()? {
                env.tick()?;
                if self.probe(&table, record, &mut writer, row, env)? {
                    matched[nth / 64] |= 1 << (nth % 64);
                }
                nth += 1;
            }
            debug_assert_eq!(nth as u64, left.1.records, "every left row is looked at");
            self.end(writer)?;
            refund(env, table.bytes);
            if !more {
                break;
            }
        }
        if self.plan.kind == JoinType::Left {
            let (mut writer, mut values) = (self.writer(), Vec::new());
            let mut lefts = left.0.read(left.1);
            let mut nth = 0;
            while let Some(record) = lefts.next()? {
                env.tick()?;
                if matched[nth / 64] >> (nth % 64) & 1 == 0 {
                    let (ordinal, _, mut stored) = left_parts(record)?;
                    read_row(&mut stored, &mut values)?;
                    fill(self.plan.left_slots.iter(), &mut values, row);
                    self.give_alone(&mut writer, ordinal, row)?;
                }
                nth += 1;
            }
            self.end(writer)?;
        }
        Ok(())
    }

    /// Writes the results of one left row; true when there is one.
    fn probe(
        &mut self,
        table: &Table,
        record: &[u8],
        writer: &mut RunWriter,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        let (ordinal, key, mut stored) = left_parts(record)?;
        let Some(found) = table.rows.get(key) else {
            return Ok(false);
        };
        let mut values = Vec::new();
        read_row(&mut stored, &mut values)?;
        fill(self.plan.left_slots.iter(), &mut values, row);
        let mut matched = false;
        for right in found {
            env.tick()?;
            for (slot, value) in self.plan.right_slots.iter().zip(right) {
                row[*slot as usize].clone_from(value);
            }
            if all_true(&self.plan.on, row, env)? {
                matched = true;
                self.give(writer, ordinal, row)?;
            }
        }
        debug_assert!(!matched || !found.is_empty());
        Ok(matched)
    }
}

impl Table {
    /// Reads right rows as far as they fit, at least one; true when there are more.
    fn load(
        &mut self,
        reader: &mut RunReader,
        pending: &mut Option<(Box<[u8]>, Vec<Value>)>,
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        loop {
            let (key, values) = match pending.take() {
                Some(entry) => entry,
                None => {
                    let Some(record) = reader.next()? else {
                        return Ok(false);
                    };
                    let (key, mut stored) = key_of(record)?;
                    let mut values = Vec::new();
                    read_row(&mut stored, &mut values)?;
                    (key.into(), values)
                }
            };
            env.tick()?;
            let bytes = row_bytes(&values) + key.len() as u64 + ENTRY_BYTES;
            if self.bytes > 0 && !may_keep(env, self.bytes, bytes, Budget::Join) {
                *pending = Some((key, values));
                return Ok(true);
            }
            charge(env, bytes, Purpose::Hash)?;
            self.bytes += bytes;
            debug_assert!(pending.is_none());
            self.rows.entry(key).or_default().push(values);
        }
    }
}

/// Splits what begins with a key into the key and the rest.
fn key_of(record: &[u8]) -> ExecResult<(&[u8], &[u8])> {
    let split = || {
        let (len, rest) = record.split_first_chunk::<4>()?;
        rest.split_at_checked(u32::from_le_bytes(*len) as usize)
    };
    Ok(split().ok_or_else(|| damaged("temporary record"))?)
}

/// Ordinal, key and row of a left record.
fn left_parts(record: &[u8]) -> ExecResult<(u64, &[u8], &[u8])> {
    let (ordinal, rest) = record
        .split_first_chunk::<8>()
        .ok_or_else(|| damaged("temporary record"))?;
    let (key, row) = key_of(rest)?;
    Ok((u64::from_be_bytes(*ordinal), key, row))
}
