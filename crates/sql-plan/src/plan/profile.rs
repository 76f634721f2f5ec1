//! Runtime statistics of operators: rows, runs and time, for EXPLAIN ANALYZE.
//!
//! Neighbours: `node` and `root` report what they do when a statement is measured; `plan::explain` prints
//! it beside the plan. An operator may add what it alone knows, see [`Profile::note`].
//! **Invariants**: an operator is known by the address of its plan, which does not move while the
//! statement runs, and by its stage, because a block has several; times include what is below.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use esker_sql_catalog::exec_error::ExecResult;

/// Which work of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// A scan, a join, a filter.
    Node,
    /// Rows that a scan looked at, before its conditions.
    Read,
    /// Grouping.
    Group,
    /// HAVING.
    Having,
    /// Window functions.
    Window,
    /// DISTINCT.
    Distinct,
    /// ORDER BY.
    Sort,
    /// The whole query: DISTINCT and LIMIT are over.
    Root,
}

/// What one operator did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measured {
    /// Times it was started.
    pub loops: u64,
    /// Rows it gave, all loops together.
    pub rows: u64,
    /// Time until the first row (or the end), all loops together.
    pub first: Duration,
    /// Time until the last row, all loops together.
    pub total: Duration,
    /// The loop now running has given a row or ended.
    begun: bool,
    /// Time of the loop now running.
    now: Duration,
}

/// Operators by the address of their plan.
#[derive(Debug, Default)]
pub struct Profile {
    measured: RefCell<HashMap<(usize, Stage), Measured>>,
    notes: RefCell<HashMap<usize, String>>,
}

fn address<T>(plan: &T) -> usize {
    std::ptr::from_ref(plan) as usize
}

impl Profile {
    /// Runs `open`, which starts the operator anew.
    pub fn open<T, R>(&self, plan: &T, stage: Stage, open: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = open();
        self.begin(plan, stage, start.elapsed());
        result
    }

    /// Starts an operator anew; what lies below it has already taken so long for it.
    pub fn begin<T>(&self, plan: &T, stage: Stage, took: Duration) {
        let mut all = self.measured.borrow_mut();
        let m = all.entry((address(plan), stage)).or_default();
        m.loops += 1;
        m.total += took;
        (m.begun, m.now) = (false, took);
    }

    /// Runs a part of an operator's work in the loop now running.
    pub fn work<T, R>(&self, plan: &T, stage: Stage, work: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = work();
        let took = start.elapsed();
        let mut all = self.measured.borrow_mut();
        let m = all.entry((address(plan), stage)).or_default();
        debug_assert!(m.loops > 0, "the operator was started");
        m.total += took;
        m.now += took;
        result
    }

    /// Runs `next`, which gives a row if `is_row` says so of what it returns.
    pub fn next<T, R>(
        &self,
        plan: &T,
        stage: Stage,
        is_row: impl FnOnce(&R) -> bool,
        next: impl FnOnce() -> ExecResult<R>,
    ) -> ExecResult<R> {
        let start = Instant::now();
        let result = next();
        let took = start.elapsed();
        let mut all = self.measured.borrow_mut();
        let m = all.entry((address(plan), stage)).or_default();
        m.loops = m.loops.max(1);
        m.total += took;
        m.now += took;
        if !std::mem::replace(&mut m.begun, true) {
            m.first += m.now;
        }
        m.rows += u64::from(result.as_ref().is_ok_and(is_row));
        result
    }

    /// Counts a row that a scan looks at.
    pub fn count_read<T>(&self, plan: &T) {
        self.add_rows(plan, Stage::Read, 1);
    }

    /// Adds rows that an operator gave in the loop now running.
    pub fn add_rows<T>(&self, plan: &T, stage: Stage, rows: u64) {
        let mut all = self.measured.borrow_mut();
        all.entry((address(plan), stage)).or_default().rows += rows;
    }

    /// Enters a loop of an operator that was done as a whole, somewhere else.
    pub fn add<T>(&self, plan: &T, stage: Stage, rows: u64, took: Duration) {
        let mut all = self.measured.borrow_mut();
        let m = all.entry((address(plan), stage)).or_default();
        m.loops += 1;
        m.rows += rows;
        m.first += took;
        m.total += took;
        m.begun = true;
    }

    /// Enters what another profile has measured of the same plan.
    pub fn take_in(&self, other: &Profile) {
        let mut all = self.measured.borrow_mut();
        for (operator, more) in other.measured.borrow().iter() {
            let m = all.entry(*operator).or_default();
            m.loops += more.loops;
            m.rows += more.rows;
            m.first += more.first;
            m.total += more.total;
        }
    }

    /// Sets what is printed below an operator: what only it knows of its work, as `tasks=4 threads=2`.
    pub fn note<T>(&self, plan: &T, text: String) {
        self.notes.borrow_mut().insert(address(plan), text);
    }

    /// What an operator did; `None` when it never ran.
    pub fn of<T>(&self, plan: &T, stage: Stage) -> Option<Measured> {
        let all = self.measured.borrow();
        all.get(&(address(plan), stage)).copied()
    }

    /// What [`Profile::note`] set.
    pub fn note_of<T>(&self, plan: &T) -> Option<String> {
        self.notes.borrow().get(&address(plan)).cloned()
    }
}
