//! Vectorized aggregation: groups and sums of batches.
//!
//! Neighbours: `program` says how; the groups themselves are in `groups`, which also takes single rows. **Invariants**:
//! a row is aggregated only if nothing of its batch was unusual; groups begin in the order of their first row; sums
//! enter the groups at the end of the task, and no group was dropped until then.

use std::cmp::Ordering;

use esker_sql_catalog::exec_error::ExecResult;
use esker_types::Value;

use super::super::groups::Partial;
use super::super::sink::Warned;
use super::super::task::Flow;
use super::columns::{Lane, ROWS, Rows, Selection, Unusual};
use super::nodes::Arg;
use super::program::{Column, Fold, Keys, Operand, Sum, What};
use super::raw::{self, RawMap};
use crate::ExecEnv;

/// Decodes all columns of a stored row.
pub(super) type Decode<'d> = &'d dyn Fn(&[u8], &mut [Value], &ExecEnv<'_>) -> ExecResult<()>;

/// What one aggregate comes to in one group.
#[derive(Clone, Copy, Default)]
struct Cell {
    /// Rows that counted.
    rows: u64,
    /// Their sum, or the first in an order.
    number: i128,
}

/// Groups of keys of one number that were met lately, each at the one place where it can be.
struct Near(Box<[(i64, u32); NEAR_NUMBERS]>);

const NEAR_NUMBERS: usize = 1024;
const _: () = assert!(NEAR_NUMBERS.is_power_of_two());
/// No group has this number.
const NO_GROUP: u32 = u32::MAX;

impl Near {
    /// Numbers that follow each other have places that follow each other.
    #[inline(always)]
    fn place(number: i64) -> usize {
        let folded = number ^ (number >> 10) ^ (number >> 32);
        folded as usize % NEAR_NUMBERS
    }

    #[inline(always)]
    fn get(&self, number: i64) -> Option<u32> {
        let (known, group) = self.0[Self::place(number)];
        (known == number && group != NO_GROUP).then_some(group)
    }

    fn set(&mut self, number: i64, group: u32) {
        debug_assert_ne!(group, NO_GROUP);
        self.0[Self::place(number)] = (number, group);
    }
}

/// What a task has summed up.
pub(super) struct Folding<'p> {
    fold: &'p Fold,
    /// Groups by the stored bytes of the columns that decide about them.
    known: RawMap<u32>,
    near: Near,
    key: Vec<u8>,
    /// Groups of the batch's rows.
    group_of: Box<[u32; ROWS]>,
    /// By sum and group.
    cells: Vec<Vec<Cell>>,
}

impl<'p> Folding<'p> {
    pub(super) fn new(fold: &'p Fold) -> Self {
        Self {
            fold,
            known: RawMap::default(),
            near: Near(Box::new([(0, NO_GROUP); NEAR_NUMBERS])),
            key: Vec::new(),
            group_of: Box::new([0; ROWS]),
            cells: vec![Vec::new(); fold.sums.len()],
        }
    }

    /// Finds the groups of the rows that are left, and begins those that are new. Adds the bytes that took to `bytes`.
    pub(super) fn place(
        &mut self,
        (rows, selection): (Rows<'_>, &Selection),
        columns: &[Column],
        lanes: &[Lane],
        decode: Decode<'_>,
        flow: &mut Flow<'_>,
        bytes: &mut u64,
    ) -> Result<(), Unusual> {
        let Some(keys) = &self.fold.keys else {
            return match selection.len() {
                0 => Ok(()),
                _ => begin(rows.get(selection.row(0)), decode, flow, bytes).map(|_| ()),
            };
        };
        let single = match keys {
            Keys::Numbers(keys) if keys.len() == 1 => Arg::of(keys[0], lanes),
            _ => Arg::Null,
        };
        selection.try_each(|row| {
            let number = single.get(row);
            if let Some(group) = number.and_then(|number| self.near.get(number)) {
                self.group_of[row] = group;
                return Ok(());
            }
            let stored = rows.get(row);
            self.key.clear();
            match keys {
                Keys::Columns(keys) => {
                    for column in keys {
                        raw::push(columns[*column].places.find(stored)?, &mut self.key);
                    }
                }
                Keys::Numbers(keys) => {
                    for operand in keys {
                        raw::push_number(Arg::of(*operand, lanes).get(row), &mut self.key);
                    }
                }
            }
            let group = match self.known.get(&self.key) {
                Some(group) => group,
                None => {
                    let group = begin(stored, decode, flow, bytes)?;
                    *bytes += self.known.insert(&self.key, group);
                    group
                }
            };
            self.group_of[row] = group;
            if let Some(number) = number {
                self.near.set(number, group);
            }
            Ok(())
        })
    }

    /// Sums up the rows that are left, of which there are some; gives the bytes that took.
    pub(super) fn add(
        &mut self,
        selection: &Selection,
        lanes: &[Lane],
        flow: &mut Flow<'_>,
    ) -> u64 {
        let groups = flow.sink.groups().1.len();
        let before = self.cells.first().map_or(groups, Vec::len);
        let group_of = self.fold.keys.as_ref().map(|_| &*self.group_of);
        for (sum, cells) in self.fold.sums.iter().zip(&mut self.cells) {
            cells.resize(groups, Cell::default());
            match *sum {
                Sum::Rows => each_cell(selection, group_of, cells, |cell, _| cell.rows += 1),
                Sum::NotNull(operand) => {
                    let arg = Arg::of(operand, lanes);
                    each_cell(selection, group_of, cells, |cell, row| {
                        cell.rows += u64::from(arg.get(row).is_some());
                    });
                }
                Sum::Total(Operand::Node(at)) if !lanes[at].has_nulls() => {
                    let numbers = &lanes[at].numbers;
                    each_cell(selection, group_of, cells, |cell, row| {
                        cell.rows += 1;
                        cell.number += i128::from(numbers[row]);
                    });
                }
                Sum::Total(operand) => {
                    let arg = Arg::of(operand, lanes);
                    each_cell(selection, group_of, cells, |cell, row| {
                        if let Some(n) = arg.get(row) {
                            cell.rows += 1;
                            cell.number += i128::from(n);
                        }
                    });
                }
                Sum::Extreme(operand, wanted) => {
                    let arg = Arg::of(operand, lanes);
                    each_cell(selection, group_of, cells, |cell, row| {
                        if let Some(n) = arg.get(row) {
                            cell.prefer(n, wanted);
                        }
                    });
                }
            }
        }
        debug_assert!(groups >= before, "a batch drops no group");
        ((groups - before) * self.cells.len() * size_of::<Cell>()) as u64
    }

    /// Gives the groups what was summed up of them.
    pub(super) fn finish(self, flow: &mut Flow<'_>) -> ExecResult<()> {
        let env = flow.env;
        let (_, groups) = flow.sink.groups();
        for (nth, agg) in self.fold.aggs.iter().enumerate() {
            debug_assert!(self.cells[agg.sum].len() <= groups.len());
            for (group, cell) in self.cells[agg.sum].iter().enumerate() {
                if cell.rows == 0 {
                    continue;
                }
                let partial = match agg.what {
                    What::Count => Partial::Rows(cell.rows),
                    What::Sum { scale } => Partial::Sum {
                        rows: cell.rows,
                        digits: cell.number,
                        scale,
                    },
                    What::Extreme(kind) => Partial::Extreme(kind.value(cell.number as i64)),
                };
                groups.deposit((group, nth), partial, env.ctx)?;
            }
        }
        Ok(())
    }
}

impl Cell {
    fn prefer(&mut self, number: i64, wanted: Ordering) {
        let number = i128::from(number);
        if self.rows == 0 || number.cmp(&self.number) == wanted {
            self.number = number;
        }
        self.rows += 1;
    }
}

/// Calls `f` with the cell of each row that is left.
#[inline(always)]
fn each_cell(
    selection: &Selection,
    group_of: Option<&[u32; ROWS]>,
    cells: &mut [Cell],
    mut f: impl FnMut(&mut Cell, usize),
) {
    match group_of {
        None => {
            debug_assert_eq!(cells.len(), 1, "without keys all rows are one group");
            let mut cell = cells[0];
            selection.each(|row| f(&mut cell, row));
            cells[0] = cell;
        }
        Some(group_of) => selection.each(|row| f(&mut cells[group_of[row] as usize], row)),
    }
}

/// The group of a row, found a row at a time.
fn begin(
    stored: &[u8],
    decode: Decode<'_>,
    flow: &mut Flow<'_>,
    bytes: &mut u64,
) -> Result<u32, Unusual> {
    let env = flow.env;
    decode(stored, &mut flow.row, env).map_err(|_| Unusual)?;
    let warned = Warned::of(env.ctx);
    let (plan, groups) = flow.sink.groups();
    let placed = groups.place(plan, &flow.row, env);
    if warned.forget_later() {
        return Err(Unusual);
    }
    let (group, new) = placed.map_err(|_| Unusual)?;
    *bytes += new;
    u32::try_from(group).map_err(|_| Unusual)
}
