//! K-way merge: sorted runs as one.
//!
//! ```text
//! record  length of the key (4, little endian) | key | payload
//! ```
//! Neighbours: `sort` writes the runs; the joins that went to disk merge their results by the order of
//! their left rows.
//! **Invariant**: of equal keys, the records of an earlier run come first, those of one run in its
//! order: what was sorted stably stays so.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use esker_engine::Charge;
use esker_sql_catalog::codec::damaged;
use esker_types::SqlResult;

use super::file::{Run, RunReader, RunWriter, SpillFile, block_bytes};
use super::space::TempFiles;
use crate::ExecEnv;

/// Fewest and most runs that are merged at a time.
const WAYS: std::ops::RangeInclusive<u64> = 4..=256;
const KEY_LEN_BYTES: usize = 4;

/// Appends the key of a record.
pub(crate) fn write_key(key: &[u8], out: &mut Vec<u8>) {
    debug_assert!(u32::try_from(key.len()).is_ok());
    out.extend_from_slice(&(key.len() as u32).to_le_bytes());
    out.extend_from_slice(key);
}

/// The next record of a run.
struct Head {
    record: Vec<u8>,
    key_end: usize,
    run: usize,
    charge: Charge,
}

impl Head {
    fn key(&self) -> &[u8] {
        debug_assert!((KEY_LEN_BYTES..=self.record.len()).contains(&self.key_end));
        &self.record[KEY_LEN_BYTES..self.key_end]
    }

    fn fill(&mut self, reader: &mut RunReader) -> SqlResult<bool> {
        let Some(record) = reader.next()? else {
            return Ok(false);
        };
        self.record.clear();
        self.record.extend_from_slice(record);
        self.charge.raise_to(self.record.capacity());
        let len = record.first_chunk::<KEY_LEN_BYTES>();
        let end = len.map(|len| KEY_LEN_BYTES + u32::from_le_bytes(*len) as usize);
        self.key_end = end
            .filter(|end| *end <= record.len())
            .ok_or_else(|| damaged("temporary record"))?;
        Ok(true)
    }
}

// The smallest on top of the heap.
impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .key()
            .cmp(self.key())
            .then_with(|| other.run.cmp(&self.run))
    }
}
impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Head {}

/// Records of several runs in order.
pub(crate) struct Merge {
    readers: Vec<RunReader>,
    heads: BinaryHeap<Head>,
    /// The record on top was given and is to be replaced.
    given: bool,
}

impl Merge {
    /// Opens the runs.
    pub fn open(file: &SpillFile, runs: &[Run]) -> SqlResult<Self> {
        let mut readers: Vec<RunReader> = runs.iter().map(|r| file.read(r)).collect();
        let mut heads = BinaryHeap::with_capacity(runs.len());
        for (run, reader) in readers.iter_mut().enumerate() {
            let mut head = Head {
                record: Vec::new(),
                key_end: 0,
                run,
                charge: file.buffer_charge(),
            };
            if head.fill(reader)? {
                heads.push(head);
            }
        }
        debug_assert!(heads.len() <= readers.len());
        Ok(Self {
            readers,
            heads,
            given: false,
        })
    }

    /// Key and payload of the next record.
    pub fn next(&mut self, env: &ExecEnv<'_>) -> SqlResult<Option<(&[u8], &[u8])>> {
        env.tick()?;
        if std::mem::take(&mut self.given)
            && let Some(mut top) = self.heads.peek_mut()
        {
            let run = top.run;
            if !top.fill(&mut self.readers[run])? {
                PeekMut::pop(top);
            }
        }
        self.given = true;
        let top = self.heads.peek();
        Ok(top.map(|head| (head.key(), &head.record[head.key_end..])))
    }
}

/// How many runs are merged at a time: as many as have their buffers, a block and a record each, within the budget, and
/// within half of what the server has left.
fn ways(runs: &[Run], block: usize, budget: u64, env: &ExecEnv<'_>) -> usize {
    let room = env
        .exec
        .map_or(u64::MAX, |exec| exec.txn().memory().room() as u64);
    let longest = runs.iter().map(|run| run.longest).max().unwrap_or(0);
    let each = match longest > 2 * block {
        true => 2 * longest,
        false => block,
    };
    (budget.min(room / 2) / each as u64).clamp(*WAYS.start(), *WAYS.end()) as usize
}

/// Merges runs until they can be merged in one go; `keep`: records beyond it are dropped.
pub(crate) fn narrow_runs(
    temp: &TempFiles,
    mut file: SpillFile,
    mut runs: Vec<Run>,
    budget: u64,
    keep: u64,
    env: &ExecEnv<'_>,
) -> SqlResult<(SpillFile, Vec<Run>)> {
    let block = block_bytes(budget);
    while runs.len() > ways(&runs, block, budget, env) {
        let ways = ways(&runs, block, budget, env);
        temp.count_merge();
        let mut target = temp.create()?;
        let mut merged = Vec::with_capacity(runs.len().div_ceil(ways));
        for group in runs.chunks(ways) {
            let mut merge = Merge::open(&file, group)?;
            let mut writer = RunWriter::new(block);
            let mut left = keep;
            while left > 0
                && let Some((key, payload)) = merge.next(env)?
            {
                left -= 1;
                writer.push(&mut target, |out| {
                    write_key(key, out);
                    out.extend_from_slice(payload);
                })?;
            }
            merged.push(writer.finish(&mut target)?);
        }
        debug_assert!(merged.len() < runs.len(), "merging makes fewer runs");
        (file, runs) = (target, merged);
    }
    temp.count_merge();
    Ok((file, runs))
}
