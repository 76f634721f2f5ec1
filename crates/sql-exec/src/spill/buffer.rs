//! Materialized rows: kept to be read again, in memory as far as they fit.
//!
//! Neighbours: common table expressions, the right side of a buffered nested loop, and the rows that a statement
//! changes once it has found all of them.
//! **Invariants**: rows are read in the order in which they were added; the first ones are in memory,
//! the others on disk; nothing is added once it is read.

use esker_types::{SqlResult, Value};

use super::codec::{read_row, write_row};
use super::file::{Run, RunReader, RunWriter, SpillFile, block_bytes};
use crate::ExecEnv;
use crate::memory::{Budget, Purpose, charge, may_keep, refund, row_bytes};

/// Rows in order.
#[derive(Default)]
pub struct RowBuffer {
    rows: Vec<Box<[Value]>>,
    bytes: u64,
    disk: Option<Disk>,
}

enum Disk {
    Writing(SpillFile, RunWriter),
    Whole(SpillFile, Run),
}

impl RowBuffer {
    /// Adds a row.
    pub fn push<'v>(
        &mut self,
        row: impl ExactSizeIterator<Item = &'v Value> + Clone,
        budget: Budget,
        env: &ExecEnv<'_>,
    ) -> SqlResult<()> {
        if self.disk.is_none() {
            let bytes = row_bytes(row.clone());
            if may_keep(env, self.bytes, bytes, budget) {
                charge(env, bytes, Purpose::Hash)?;
                self.bytes += bytes;
                self.rows.push(row.cloned().collect());
                return Ok(());
            }
            if let Some((temp, budget)) = budget.on_disk(env) {
                temp.count_table();
                let writer = RunWriter::new(block_bytes(budget));
                self.disk = Some(Disk::Writing(temp.create()?, writer));
            }
        }
        match &mut self.disk {
            Some(Disk::Writing(file, writer)) => writer.push(file, |out| write_row(row, out)),
            _ => {
                unreachable!("rows are added before they are read, and only what has a disk spills")
            }
        }
    }

    /// Every row is there.
    pub fn finish(&mut self) -> SqlResult<()> {
        self.disk = match self.disk.take() {
            Some(Disk::Writing(mut file, writer)) => {
                let run = writer.finish(&mut file)?;
                Some(Disk::Whole(file, run))
            }
            whole => whole,
        };
        Ok(())
    }

    /// No row?
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.disk.is_none()
    }

    /// Forgets all rows and gives their memory back.
    pub fn clear(&mut self, env: &ExecEnv<'_>) {
        debug_assert!(!self.rows.is_empty() || self.bytes == 0);
        refund(env, self.bytes);
        *self = Self::default();
    }

    /// Takes the rows out, in order; they must all be there. What they are charged for is given back with the
    /// statement's memory.
    pub fn into_rows(self) -> TakenRows {
        let disk = match self.disk {
            None => None,
            Some(Disk::Whole(file, run)) => {
                let reader = file.read(&run);
                Some((file, reader))
            }
            Some(Disk::Writing(..)) => unreachable!("rows are taken out when they are all there"),
        };
        TakenRows {
            rows: self.rows.into_iter(),
            disk,
        }
    }

    /// Bytes in memory, charged.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Rows that leave a buffer one by one.
#[derive(Default)]
pub struct TakenRows {
    rows: std::vec::IntoIter<Box<[Value]>>,
    /// The file, which goes with its last row, and what is not read of it.
    disk: Option<(SpillFile, RunReader)>,
}

impl TakenRows {
    /// One row, or none.
    pub fn of(row: Option<Vec<Value>>) -> TakenRows {
        let rows: Vec<_> = row.map(Vec::into_boxed_slice).into_iter().collect();
        TakenRows {
            rows: rows.into_iter(),
            disk: None,
        }
    }

    /// Puts the next row into `row`; false if there is none.
    pub fn next(&mut self, row: &mut Vec<Value>) -> SqlResult<bool> {
        if let Some(kept) = self.rows.next() {
            *row = kept.into_vec();
            return Ok(true);
        }
        let Some((_, reader)) = &mut self.disk else {
            return Ok(false);
        };
        match reader.next()? {
            Some(mut record) => read_row(&mut record, row).map(|()| true),
            None => {
                self.disk = None;
                Ok(false)
            }
        }
    }
}

/// A place in a buffer.
#[derive(Default)]
pub(crate) struct RowCursor {
    at: usize,
    reader: Option<RunReader>,
    row: Vec<Value>,
}

impl RowCursor {
    /// The next row, lent until the next call.
    pub fn next<'a>(&'a mut self, buffer: &'a RowBuffer) -> SqlResult<Option<&'a [Value]>> {
        if let Some(row) = buffer.rows.get(self.at) {
            self.at += 1;
            return Ok(Some(row));
        }
        debug_assert!(
            !matches!(buffer.disk, Some(Disk::Writing(..))),
            "nothing is read before it is whole"
        );
        let Some(Disk::Whole(file, run)) = &buffer.disk else {
            return Ok(None);
        };
        let reader = self.reader.get_or_insert_with(|| file.read(run));
        let Some(mut record) = reader.next()? else {
            return Ok(None);
        };
        read_row(&mut record, &mut self.row)?;
        Ok(Some(&self.row))
    }
}
