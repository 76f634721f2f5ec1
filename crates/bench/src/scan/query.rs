//! What is asked of the rows, and what they must answer.
//!
//! Value: `class u32 | amount u64 | moment u64 | number of the row, repeated`; little-endian. Moments ascend with the
//! keys, more or less, as times do where rows are numbered as they come.
//!
//! **Invariants**
//! - A row's value follows from its number, so the right answer is known without reading.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

use esker_engine::extent::{FieldId, FieldTest, FieldValue, Fields};
use esker_engine::scan::{KeySpan, ParallelCount, ParallelScan, Piece, ScanWork, Visit};
use esker_engine::{EngineError, Tree, Txn};

use super::Query;
use crate::Result;

/// Bytes of the fields.
pub(super) const MIN_VALUE_BYTES: u64 = 20;
/// Classes of rows; the filter takes the lower half.
const CLASSES: u32 = 1000;

/// Of rows, the part that is wanted by moment, and where it begins.
const RECENT_PART: u64 = 100;
/// Moments of a row, and how far they are out of the order of rows.
const MOMENTS: u64 = 10;
const DISORDER: u64 = 2000;

const CLASS: FieldId = FieldId(1);
const AMOUNT: FieldId = FieldId(2);
const MOMENT: FieldId = FieldId(3);

/// The fields of values, for statistics of blocks.
pub(super) struct RowFields;

impl Fields for RowFields {
    fn ids(&self) -> &[FieldId] {
        &[CLASS, AMOUNT, MOMENT]
    }

    fn read(&self, value: &[u8], out: &mut [FieldValue]) {
        let numbers = [class_in(value).into(), amount_in(value), moment_in(value)];
        for (out, number) in out.iter_mut().zip(numbers) {
            *out = FieldValue::Number(number);
        }
    }
}

/// What the query says of fields.
fn tests(query: Query, rows: u64) -> Vec<FieldTest> {
    let (field, numbers) = match query {
        Query::Count | Query::Rows | Query::Sum => return Vec::new(),
        Query::Filter => (CLASS, 0..=u64::from(CLASSES / 2 - 1)),
        Query::Recent => (MOMENT, recent(rows)),
    };
    vec![FieldTest {
        field,
        null: false,
        numbers: vec![numbers],
    }]
}

fn moment(row: u64) -> u64 {
    row * MOMENTS + row.wrapping_mul(0x9E37_79B9_7F4A_7C15) % DISORDER
}

/// The moments that are wanted: a part in the middle.
fn recent(rows: u64) -> RangeInclusive<u64> {
    let middle = rows / 2 * MOMENTS;
    middle..=middle + rows * MOMENTS / RECENT_PART
}

fn class(row: u64) -> u32 {
    (row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as u32 % CLASSES
}

fn amount(row: u64) -> u64 {
    row % 977
}

pub(super) fn make_value(row: u64, value: &mut [u8]) {
    value[..4].copy_from_slice(&class(row).to_le_bytes());
    value[4..12].copy_from_slice(&amount(row).to_le_bytes());
    value[12..20].copy_from_slice(&moment(row).to_le_bytes());
    for (place, byte) in value[20..].iter_mut().enumerate() {
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
        Query::Recent => (0..rows)
            .filter(|row| recent(rows).contains(&moment(*row)))
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
    /// Blocks that were not read.
    pub(super) skipped: u64,
}

/// Reads rows.
struct Read {
    scan: ParallelScan,
    query: Query,
    rows: u64,
}

impl ScanWork for Read {
    type Output = Result<u64, EngineError>;

    fn run(&self, task: usize, go_on: &mut dyn FnMut() -> bool) -> Self::Output {
        let mut result = 0;
        // A loop of its own for each query, as a compiled one would be.
        match self.query {
            Query::Count | Query::Rows => {
                let mut rows = Values(|_: &[u8]| result += 1);
                self.scan.read(task, &mut rows, go_on)?;
            }
            Query::Sum => {
                let mut rows = Values(|value: &[u8]| result += amount_in(value));
                self.scan.read(task, &mut rows, go_on)?;
            }
            Query::Filter => {
                let mut rows = Values(|value: &[u8]| {
                    if class_in(value) < CLASSES / 2 {
                        result += amount_in(value);
                    }
                });
                self.scan.read(task, &mut rows, go_on)?;
            }
            Query::Recent => {
                let wanted = recent(self.rows);
                let mut rows = Values(|value: &[u8]| {
                    if wanted.contains(&moment_in(value)) {
                        result += amount_in(value);
                    }
                });
                self.scan.read(task, &mut rows, go_on)?;
            }
        }
        Ok(result)
    }
}

/// Takes the values of rows, many at once where it can have them.
struct Values<F>(F);

impl<F: FnMut(&[u8])> Visit for Values<F> {
    fn put(&mut self, _key: &[u8], value: &[u8]) -> bool {
        (self.0)(value);
        true
    }

    fn piece(&self) -> Option<Piece> {
        Some(Piece::Value)
    }

    fn puts(&mut self, pieces: &[&[u8]]) -> bool {
        pieces.iter().for_each(|value| (self.0)(value));
        true
    }
}

fn class_in(value: &[u8]) -> u32 {
    value.first_chunk().map_or(0, |b| u32::from_le_bytes(*b))
}

fn amount_in(value: &[u8]) -> u64 {
    number_at(value, 4)
}

fn moment_in(value: &[u8]) -> u64 {
    number_at(value, 12)
}

fn number_at(value: &[u8], at: usize) -> u64 {
    let field = value.get(at..).and_then(|rest| rest.first_chunk());
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

/// Runs a query over a tree of so many rows.
pub(super) fn run(
    txn: &Txn,
    tree: &Tree,
    query: Query,
    rows: u64,
    tasks: usize,
    helpers: usize,
) -> Result<Answer> {
    let all = vec![KeySpan::all()];
    if query == Query::Rows {
        let count = txn.parallel_count(tree, all, tasks)?;
        let (tasks, counted) = (count.tasks(), count.counted());
        let (part, _) = add_up(txn, Count(count), tasks, helpers)?;
        return Ok(Answer {
            result: counted + part,
            tasks,
            counted,
            skipped: 0,
        });
    }
    let scan = txn.parallel_scan(tree, all, tasks)?;
    let scan = scan.with_tests(tests(query, rows));
    let tasks = scan.tasks();
    let (result, work) = add_up(txn, Read { scan, query, rows }, tasks, helpers)?;
    Ok(Answer {
        result,
        tasks,
        counted: 0,
        skipped: work.scan.blocks_skipped(),
    })
}

/// Seconds of this thread for each task of a query that is cut into about so many.
pub(super) fn time_tasks(
    txn: &Txn,
    tree: &Tree,
    query: Query,
    rows: u64,
    tasks: usize,
) -> Result<Vec<f64>> {
    let scan = txn.parallel_scan(tree, vec![KeySpan::all()], tasks)?;
    let tasks = scan.tasks();
    let work = Read { scan, query, rows };
    let mut seconds = Vec::with_capacity(tasks);
    for task in 0..tasks {
        let start = Instant::now();
        work.run(task, &mut || true)?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    Ok(seconds)
}

fn add_up<W: ScanWork<Output = Result<u64, EngineError>>>(
    txn: &Txn,
    work: W,
    tasks: usize,
    helpers: usize,
) -> Result<(u64, Arc<W>)> {
    let mut sum = Ok(0);
    let work = Arc::new(work);
    txn.scans().run(
        Arc::clone(&work),
        tasks,
        helpers,
        &mut || true,
        |_, part| {
            match (&mut sum, part) {
                (Ok(sum), Ok(part)) => *sum += part,
                (Ok(_), Err(error)) => sum = Err(error),
                (Err(_), _) => {}
            }
            sum.is_ok()
        },
    );
    Ok((sum?, work))
}
