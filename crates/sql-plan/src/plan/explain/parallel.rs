//! How the rows of a block would be shared out among threads, and what else EXPLAIN has to be told.
//!
//! Neighbours: `exec::parallel` estimates it; the session passes its answers to `explain`.
//! **Invariant**: nothing is read for it.

use std::fmt;

use super::super::strategy::Evaluation;
use super::super::{BlockPlan, ScanPlan};

/// How the rows of a block would be shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParallelEstimate {
    /// What is shared out.
    pub shared: Shared,
    /// Threads, the statement's own included.
    pub threads: u32,
    /// Parts into which it is cut; an estimate where rows are shared out.
    pub tasks: u64,
    /// Rows that are counted without reading.
    pub from_metadata: u64,
    /// How the rows of the table that is read first are evaluated.
    pub evaluation: Evaluation,
    /// Are groups complete when the sort key changes?
    pub is_streaming: bool,
}

/// What is shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shared {
    /// The table that is read first.
    Scan,
    /// The joining of rows that the statement's thread has read.
    Join,
}

/// What others know of a plan.
#[derive(Clone, Copy)]
pub struct Outside<'a> {
    /// How the rows of a block would be shared out, if several threads would read or join them.
    pub parallel: &'a dyn Fn(&BlockPlan) -> Option<ParallelEstimate>,
    /// The partitions that a scan looks for, if its table has partitions.
    pub partitions: &'a dyn Fn(&ScanPlan) -> Option<Vec<String>>,
}

/// Of statements that read alone.
pub const SERIAL: Outside<'static> = Outside {
    parallel: &|_| None,
    partitions: &|_| None,
};

impl Shared {
    /// The word that EXPLAIN has for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Scan => "scan",
            Self::Join => "join",
        }
    }
}

impl fmt::Display for ParallelEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (threads, tasks) = (self.threads, self.tasks);
        write!(f, "{threads} threads, {tasks} tasks")?;
        if self.from_metadata > 0 {
            write!(f, ", {} rows from metadata", self.from_metadata)?;
        }
        if let Some(what) = self.evaluation.word() {
            write!(f, ", {what}")?;
        }
        match self.is_streaming {
            true => f.write_str(", streaming aggregation"),
            false => Ok(()),
        }
    }
}
