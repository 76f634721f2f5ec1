//! Duplicate elimination: first occurrences of keys, by a hash table that spills.
//!
//! Neighbours: DISTINCT, UNION and aggregates over distinct arguments.
//! **Invariants**: while the keys fit, every row is judged at once; a key that does not fit any more is
//! judged at the end, with all later rows of its kind, and the rows that are first come in the order in
//! which they were added. So the order of all rows that are given is that of their first occurrence.

use std::collections::HashSet;

use esker_sql_catalog::codec::damaged;
use esker_sql_catalog::exec_error::ExecResult;
use esker_types::Value;

use super::codec::{read_row, write_row};
use super::file::{Run, SpillFile};
use super::merge::write_key;
use super::partition::{MAX_LEVEL, Partitions};
use crate::ExecEnv;
use crate::memory::{Budget, Purpose, charge, may_keep, refund};
use crate::sort::{SortedRows, Sorter};

/// Rough bytes of a kept key beyond its own.
const KEY_BYTES: u64 = 32;

/// What a row turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    /// The first of its key.
    New,
    /// Not the first.
    Seen,
    /// Not known before the end: the row is kept.
    Later,
}

/// Keys seen so far.
#[derive(Default)]
pub(crate) struct DistinctRows {
    seen: HashSet<Box<[u8]>>,
    bytes: u64,
    /// Rows put off, and how many.
    later: Option<Partitions>,
    put_off: u64,
}

impl DistinctRows {
    /// Takes a row's key; `row` makes what [`DistinctRows::drain`] gives back if the row is put off.
    pub fn add(
        &mut self,
        key: &[u8],
        row: impl FnOnce() -> ExecResult<Vec<Value>>,
        env: &ExecEnv<'_>,
    ) -> ExecResult<First> {
        if self.seen.contains(key) {
            return Ok(First::Seen);
        }
        let bytes = key.len() as u64 + KEY_BYTES;
        debug_assert!(self.later.is_some() || self.put_off == 0);
        if self.later.is_none() {
            if may_keep(env, self.bytes, bytes, Budget::Table) {
                charge(env, bytes, Purpose::Hash)?;
                self.bytes += bytes;
                self.seen.insert(key.into());
                return Ok(First::New);
            }
            if let Some((temp, budget)) = Budget::Table.on_disk(env) {
                temp.count_table();
                self.later = Some(Partitions::new(temp, 0, budget)?);
            }
        }
        let Some(later) = &mut self.later else {
            unreachable!("memory is short only where there is a disk");
        };
        let ordinal = self.put_off;
        self.put_off += 1;
        let row = row()?;
        later.push(key, |out| {
            out.extend_from_slice(&ordinal.to_be_bytes());
            write_key(key, out);
            write_row(row.iter(), out);
        })?;
        Ok(First::Later)
    }

    /// Ends the input: the rows put off that were first. `None` when none was put off.
    pub fn drain(&mut self, env: &ExecEnv<'_>) -> ExecResult<Option<SortedRows>> {
        let Some(later) = self.later.take() else {
            return Ok(None);
        };
        self.seen = HashSet::new();
        refund(env, std::mem::take(&mut self.bytes));
        let mut sorter = Sorter::new(None);
        let (file, runs) = later.finish()?;
        for run in &runs {
            part(&file, run, 0, &mut sorter, env)?;
        }
        sorter.finish(env).map(Some)
    }

    /// Forgets everything.
    pub fn reset(&mut self, env: &ExecEnv<'_>) {
        refund(env, self.bytes);
        *self = Self::default();
    }
}

/// Splits a record into its ordinal, its key and the rest.
fn parts(record: &[u8]) -> Option<([u8; 8], &[u8], &[u8])> {
    let (ordinal, rest) = record.split_first_chunk::<8>()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    Some((*ordinal, key, rest))
}

/// Gives the first occurrences of one partition to the sorter.
fn part(
    file: &SpillFile,
    run: &Run,
    level: u32,
    sorter: &mut Sorter,
    env: &ExecEnv<'_>,
) -> ExecResult<()> {
    let mut reader = file.read(run);
    let mut seen: HashSet<Box<[u8]>> = HashSet::new();
    let (mut bytes, mut later) = (0, None);
    while let Some(record) = reader.next()? {
        env.tick()?;
        let (ordinal, key, mut rest) = parts(record).ok_or_else(|| damaged("temporary record"))?;
        if seen.contains(key) {
            continue;
        }
        let more = key.len() as u64 + KEY_BYTES;
        if later.is_none()
            && level < MAX_LEVEL
            && !may_keep(env, bytes, more, Budget::Table)
            && let Some((temp, budget)) = Budget::Table.on_disk(env)
        {
            later = Some(Partitions::new(temp, level + 1, budget)?);
        }
        if let Some(later) = &mut later {
            later.push(key, |out| out.extend_from_slice(record))?;
            continue;
        }
        charge(env, more, Purpose::Hash)?;
        bytes += more;
        seen.insert(key.into());
        let mut row = Vec::new();
        read_row(&mut rest, &mut row)?;
        sorter.push(&ordinal, row, env)?;
    }
    debug_assert!(later.is_none() || level < MAX_LEVEL);
    refund(env, bytes);
    drop(seen);
    if let Some(later) = later {
        let (file, runs) = later.finish()?;
        for run in &runs {
            part(&file, run, level + 1, sorter, env)?;
        }
    }
    Ok(())
}
