//! What is asked of the rows, and what they must answer.
//!
//! Value: `class u32 | amount u64 | number of the row, repeated`; little-endian.
//!
//! **Invariants**
//! - A row's value follows from its number, so the right answer is known without reading.

use std::sync::Arc;

use esker_engine::scan::{KeySpan, ParallelCount, ParallelScan, ScanWork};
use esker_engine::{EngineError, Tree, Txn};

use super::Query;
use crate::Result;

/// Bytes of the fields.
pub(super) const MIN_VALUE_BYTES: u64 = 12;
/// Classes of rows; the filter takes the lower half.
const CLASSES: u32 = 1000;

fn class(row: u64) -> u32 {
    (row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as u32 % CLASSES
}

fn amount(row: u64) -> u64 {
    row % 977
}

pub(super) fn make_value(row: u64, value: &mut [u8]) {
    value[..4].copy_from_slice(&class(row).to_le_bytes());
    value[4..12].copy_from_slice(&amount(row).to_le_bytes());
    for (place, byte) in value[12..].iter_mut().enumerate() {
        *byte = (row >> (place % 8 * 8)) as u8;
    }
}

/// The answer to a query over this many rows.
pub(super) fn expected(query: Query, rows: u64) -> u64 {
    match query {
        Query::Count | Query::Rows => rows,
        Query::Sum => (0..rows).map(amount).sum(),
        Query::Filter => (0..rows)
            .filter(|row| class(*row) < CLASSES / 2)
            .map(amount)
            .sum(),
    }
}

/// What a run has brought.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Answer {
    pub(super) result: u64,
    pub(super) tasks: usize,
    /// Rows that were not read.
    pub(super) counted: u64,
}

/// Reads rows.
struct Read {
    scan: ParallelScan,
    query: Query,
}

impl ScanWork for Read {
    type Output = Result<u64, EngineError>;

    fn run(&self, task: usize, go_on: &mut dyn FnMut() -> bool) -> Self::Output {
        let mut result = 0;
        // A loop of its own for each query, as a compiled one would be.
        match self.query {
            Query::Count | Query::Rows => {
                let mut row = |_: &[u8], _: &[u8]| {
                    result += 1;
                    true
                };
                self.scan.read(task, &mut row, go_on)?;
            }
            Query::Sum => {
                let mut row = |_: &[u8], value: &[u8]| {
                    result += amount_in(value);
                    true
                };
                self.scan.read(task, &mut row, go_on)?;
            }
            Query::Filter => {
                let mut row = |_: &[u8], value: &[u8]| {
                    if class_in(value) < CLASSES / 2 {
                        result += amount_in(value);
                    }
                    true
                };
                self.scan.read(task, &mut row, go_on)?;
            }
        }
        Ok(result)
    }
}

fn class_in(value: &[u8]) -> u32 {
    value.first_chunk().map_or(0, |b| u32::from_le_bytes(*b))
}

fn amount_in(value: &[u8]) -> u64 {
    let field = value.get(4..).and_then(|rest| rest.first_chunk());
    field.map_or(0, |b| u64::from_le_bytes(*b))
}

/// Counts rows.
struct Count(ParallelCount);

impl ScanWork for Count {
    type Output = Result<u64, EngineError>;

    fn run(&self, task: usize, go_on: &mut dyn FnMut() -> bool) -> Self::Output {
        Ok(self.0.count(task, go_on)?.map_or(0, |task| task.rows))
    }
}

pub(super) fn run(
    txn: &Txn,
    tree: &Tree,
    query: Query,
    tasks: usize,
    helpers: usize,
) -> Result<Answer> {
    let all = vec![KeySpan::all()];
    if query == Query::Rows {
        let count = txn.parallel_count(tree, all, tasks)?;
        let (tasks, counted) = (count.tasks(), count.counted());
        let result = counted + add_up(txn, Count(count), tasks, helpers)?;
        return Ok(Answer {
            result,
            tasks,
            counted,
        });
    }
    let scan = txn.parallel_scan(tree, all, tasks)?;
    let tasks = scan.tasks();
    Ok(Answer {
        result: add_up(txn, Read { scan, query }, tasks, helpers)?,
        tasks,
        counted: 0,
    })
}

fn add_up<W: ScanWork<Output = Result<u64, EngineError>>>(
    txn: &Txn,
    work: W,
    tasks: usize,
    helpers: usize,
) -> Result<u64> {
    let mut sum = Ok(0);
    txn.scans()
        .run(Arc::new(work), tasks, helpers, &mut || true, |_, part| {
            match (&mut sum, part) {
                (Ok(sum), Ok(part)) => *sum += part,
                (Ok(_), Err(error)) => sum = Err(error),
                (Err(_), _) => {}
            }
            sum.is_ok()
        });
    Ok(sum?)
}
