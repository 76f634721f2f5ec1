//! Runtime statistics of a parallel scan or join, for EXPLAIN ANALYZE.
//!
//! Neighbours: tasks count, the statement's thread reports to its profile; `plan::explain` prints that.
//! **Invariant**: a task adds to the counters once, so counting costs nothing measurable.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};
use std::time::Instant;

use esker_sql_plan::plan::Node;
use esker_sql_plan::plan::SplitPoint;
use esker_sql_plan::plan::profile::{Profile, Stage};
use esker_sql_plan::plan::strategy::ProbePipeline;
use parking_lot::Mutex;

/// What the tasks did.
#[derive(Debug)]
pub(super) struct RuntimeStats {
    since: Instant,
    /// Rows of the table, or that were shared out.
    read: AtomicU64,
    counted: AtomicU64,
    /// Rows that later joins would have dropped.
    filtered: AtomicU64,
    /// Rows that were judged in batches.
    batched: AtomicU64,
    /// Rows that met the table's conditions, and those that passed each stage.
    passed: Box<[AtomicU64]>,
    /// Those that have done a task: a few, so a list will do.
    threads: Mutex<Vec<ThreadId>>,
}

/// What the input of the tasks tells.
pub(super) struct InputStats {
    pub tasks: usize,
    /// Blocks that were not read because no row in them could meet the conditions.
    pub blocks_skipped: u64,
    /// Keys that were looked up in place of reading the table.
    pub keys: Option<usize>,
}

impl RuntimeStats {
    /// Nothing was done yet, and rows will pass so many stages.
    pub(super) fn new(stages: usize) -> Self {
        RuntimeStats {
            since: Instant::now(),
            read: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            filtered: AtomicU64::new(0),
            batched: AtomicU64::new(0),
            passed: (0..=stages).map(|_| AtomicU64::new(0)).collect(),
            threads: Mutex::default(),
        }
    }

    /// This thread does a task.
    pub(super) fn note_thread(&self) {
        let id = thread::current().id();
        let mut threads = self.threads.lock();
        if !threads.contains(&id) {
            threads.push(id);
        }
    }

    /// So many rows were read, or taken of those that are shared out.
    pub(super) fn note_read(&self, rows: u64) {
        self.read.fetch_add(rows, Ordering::Relaxed);
    }

    /// Rows that were read so far.
    pub(super) fn rows_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// So many rows met the table's conditions, and passed the first stages, in their order.
    pub(super) fn note_passed(&self, rows: impl IntoIterator<Item = u64>) {
        for (all, more) in self.passed.iter().zip(rows) {
            all.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// So many rows met the table's conditions and were dropped because a later join has nothing for them.
    pub(super) fn note_filtered(&self, rows: u64) {
        self.filtered.fetch_add(rows, Ordering::Relaxed);
    }

    /// So many rows were counted from metadata.
    pub(super) fn note_counted(&self, rows: u64) {
        self.counted.fetch_add(rows, Ordering::Relaxed);
    }

    /// So many rows were judged in batches.
    pub(super) fn note_batched(&self, rows: u64) {
        self.batched.fetch_add(rows, Ordering::Relaxed);
    }

    /// Tells the profile of the statement what was done, in place of the operators below `node` that it stands for.
    /// What the statement's thread has read before has told of itself.
    pub(super) fn report(&self, profile: &Profile, node: &Node, cut: SplitPoint, work: InputStats) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (took, stages) = (self.since.elapsed(), self.passed.len() - 1);
        debug_assert!(cut.passed() <= stages);
        let first = match cut {
            SplitPoint::Table => 0,
            SplitPoint::Rows(passed) => passed + 1,
        };
        for nth in first..=stages {
            let node = ProbePipeline::node_before(node, nth, stages);
            let dropped = if nth == 0 { count(&self.filtered) } else { 0 };
            profile.add(node, Stage::Node, count(&self.passed[nth]) + dropped, took);
            if let (0, Node::Scan(scan)) = (nth, node) {
                profile.add_rows(&**scan, Stage::Read, count(&self.read));
            }
        }
        let tasks = work.tasks;
        let (threads, read) = (self.threads.lock().len().max(1), count(&self.read));
        let filtered = match count(&self.filtered) {
            0 => String::new(),
            rows => format!(" rows dropped by runtime filters={rows}"),
        };
        let looked_up = match work.keys {
            None => String::new(),
            Some(keys) => format!(" keys looked up={keys}"),
        };
        let text = match cut {
            SplitPoint::Table => format!(
                "Parallel scan: threads={threads} tasks={tasks} rows read={read} rows from metadata={} blocks skipped={} rows in batches={}{filtered}{looked_up}",
                count(&self.counted),
                work.blocks_skipped,
                count(&self.batched),
            ),
            SplitPoint::Rows(_) => {
                format!("Parallel join: threads={threads} tasks={tasks} rows shared out={read}")
            }
        };
        let shared = ProbePipeline::node_before(node, cut.passed(), stages);
        profile.note(shared, text);
    }
}
