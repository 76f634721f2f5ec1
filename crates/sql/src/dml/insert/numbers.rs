//! AUTO_INCREMENT numbers of one statement.
//!
//! Neighbours: `run` asks for a number for each row that has none, and says what became of the row; the table's
//! counter is in `catalog::runtime`.
//! **Invariants**: numbers of a statement grow: one that is generated behind a larger one that was written is
//! larger than that. They are drawn as InnoDB does with `innodb_autoinc_lock_mode` 2: for VALUES as many at once
//! as there are rows left, for a query or a file 1, 2, 4, …; what is left over is lost. Nobody else gets a number
//! that was drawn.

use esker_sql_catalog::catalog::{AutoStep, TableDef};
use esker_types::{SqlResult, errors};

/// Most numbers that are drawn at once for a query's rows.
const MAX_DRAWN: u64 = 65_535;

/// What a row gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Given {
    /// Its number.
    Number(u64),
    /// The column cannot hold the next number; this is the last one of the sequence that it can.
    BeyondThe(u64),
}

/// The statement's numbers.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// The next number to be given; 0 before the first draw.
    next: u64,
    /// Behind the last number that was drawn.
    end: u64,
    /// Draws so far.
    draws: u32,
    /// The first number was given from outside (`insert_id`): none is drawn.
    is_forced: bool,
    /// Rows for which numbers were drawn and that have not come yet.
    rows_left: u64,
    /// `next` before the current row, until the row is stored.
    before: Option<u64>,
    /// Number of the current row, if it was generated.
    current: Option<u64>,
    /// What an existing row has got instead of the current one being inserted.
    updated: Option<u64>,
    /// The counter before the first draw and after the last one.
    span: Option<(u64, u64)>,
    /// First generated number of a row that was inserted.
    pub first: Option<u64>,
    /// Value of the last row that was inserted or updated.
    pub last: u64,
    /// Largest generated number of an inserted row.
    pub largest_generated: u64,
    /// Largest value stored explicitly.
    pub largest_explicit: u64,
}

impl Numbers {
    /// Numbers from `first` on, if it is not 0; else the table's.
    pub fn new(first: u64) -> Self {
        Self {
            next: first,
            end: if first > 0 { u64::MAX } else { 0 },
            is_forced: first > 0,
            ..Self::default()
        }
    }

    /// Are the numbers none that the table's counter knows of?
    pub fn is_forced(&self) -> bool {
        self.is_forced
    }

    /// A row comes that has a value of its own: later numbers are larger.
    pub fn pass(&mut self, value: u64, step: AutoStep) {
        self.before = Some(self.next);
        if self.next > 0 && value >= self.next {
            self.next = step.after(value);
        }
    }

    /// The number of a row that comes without one. `expected`: rows the statement may still number, this one included.
    ///
    /// # Errors
    /// 1467: there is no further number.
    pub fn give(
        &mut self,
        table: &TableDef,
        expected: u64,
        step: AutoStep,
        max: u64,
    ) -> SqlResult<Given> {
        let mut is_first = self.is_forced;
        self.before = Some(self.next);
        if self.next >= self.end {
            // A statement that has come to the end of the type draws no further.
            if self.next > max && self.draws > 0 {
                return Err(errors::no_auto_increment_value());
            }
            if self.rows_left == 0 {
                self.rows_left = match self.draws {
                    0 => expected.max(1),
                    n => (1 << n.min(16)).min(MAX_DRAWN),
                };
            }
            let range = table.runtime.draw(self.rows_left, step, max);
            let range = range.ok_or_else(errors::no_auto_increment_value)?;
            is_first = true;
            let before = self.span.map_or(range.before, |(before, _)| before);
            self.span = Some((before, range.after));
            self.draws += 1;
            self.next = range.first;
            self.end = range
                .first
                .saturating_add(range.step.saturating_mul(range.count));
        }
        let given = match self.next {
            u64::MAX => return Err(errors::no_auto_increment_value()),
            number if number <= max => Given::Number(number),
            _ if is_first => Given::BeyondThe(step.last_to(max)),
            _ => return Err(errors::no_auto_increment_value()),
        };
        let (Given::Number(number) | Given::BeyondThe(number)) = given;
        self.next = step.after(number);
        self.current = Some(number);
        Ok(given)
    }

    /// Was the current row's number generated?
    pub fn is_generated(&self) -> bool {
        self.current.is_some()
    }

    /// A row begins.
    pub fn begin_row(&mut self) {
        (self.before, self.current, self.updated) = (None, None, None);
    }

    /// The row in the way has `value` now.
    pub fn updated(&mut self, value: u64) {
        self.updated = Some(value);
    }

    /// The row was not inserted: the next one may have its number, unless the row in the way has it now.
    ///
    /// # Errors
    /// 1869: the row in the way has one of the numbers that rows behind may get.
    pub fn give_back(&mut self, step: AutoStep) -> SqlResult<()> {
        let current = self.current.take();
        if let Some(before) = self.before.take() {
            self.next = match before {
                0 => current.unwrap_or(0),
                before => before,
            };
        }
        match self.updated.take() {
            Some(value) if self.next > 0 && value == self.next => self.next = step.after(value),
            Some(value) if value > self.next && value < self.end && !self.is_forced => {
                return Err(errors::auto_increment_conflict());
            }
            _ => {}
        }
        Ok(())
    }

    /// The row is done, whatever became of it.
    pub fn end_row(&mut self) {
        self.rows_left = self.rows_left.saturating_sub(1);
    }

    /// The row was inserted; true if its number was generated.
    pub fn inserted(&mut self) -> bool {
        let Some(number) = self.current else {
            return false;
        };
        self.first.get_or_insert(number);
        self.largest_generated = self.largest_generated.max(number);
        true
    }

    /// The statement waits and will run again: its numbers go back if nobody drew behind it.
    pub fn undraw(&self, table: &TableDef) {
        if let Some((before, after)) = self.span {
            table.runtime.undraw(before, after);
        }
    }
}
