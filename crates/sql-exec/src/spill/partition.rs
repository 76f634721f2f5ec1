//! Hash partitioning on disk: records by the hash of their key, so that each part can be worked on alone.
//!
//! Neighbours: `distinct`, `group` and the hash join partition what did not fit their tables.
//! **Invariants**: equal keys meet in one partition, in the order in which they came; each level hashes
//! differently, so a partition that is too large comes apart unless its keys are equal.

use std::hash::{DefaultHasher, Hash, Hasher};

use esker_types::SqlResult;

use super::file::{Run, RunWriter, SpillFile, block_bytes};
use super::space::TempFiles;

/// Partitions of one level.
const FAN_OUT: usize = 16;
/// Most levels: what is still too large then shares its key, or very nearly so.
pub(crate) const MAX_LEVEL: u32 = 4;

/// Records being partitioned.
pub(crate) struct Partitions {
    level: u32,
    file: SpillFile,
    writers: Vec<RunWriter>,
}

impl Partitions {
    /// Partitions of `level`, for an operator that may keep `budget` bytes.
    pub fn new(temp: &TempFiles, level: u32, budget: u64) -> SqlResult<Self> {
        let block = block_bytes(budget);
        assert!(
            level <= MAX_LEVEL,
            "what does not come apart is not split for ever"
        );
        Ok(Self {
            level,
            file: temp.create()?,
            writers: (0..FAN_OUT).map(|_| RunWriter::new(block)).collect(),
        })
    }

    /// Appends what `write` writes to the partition of `key`.
    pub fn push(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>)) -> SqlResult<()> {
        let mut hasher = DefaultHasher::new();
        self.level.hash(&mut hasher);
        key.hash(&mut hasher);
        let nth = (hasher.finish() >> 32) as usize % FAN_OUT;
        debug_assert_eq!(self.writers.len(), FAN_OUT);
        self.writers[nth].push(&mut self.file, write)
    }

    /// The partitions, empty ones too: those of two sides go together by position.
    pub fn finish(mut self) -> SqlResult<(SpillFile, Vec<Run>)> {
        let mut runs = Vec::with_capacity(FAN_OUT);
        for writer in self.writers {
            runs.push(writer.finish(&mut self.file)?);
        }
        debug_assert_eq!(runs.len(), FAN_OUT);
        Ok((self.file, runs))
    }
}
