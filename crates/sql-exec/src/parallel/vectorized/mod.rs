//! Vectorized execution: conditions and aggregates of a scan, column by column over batches of some hundred rows.
//!
//! In flow order: `compile` and `conditions` make a `program` of a statement's conditions, keys and aggregates; this
//! file takes the rows of a task; `stored` locates columns in stored rows, `columns` has the memory of a batch; `nodes`
//! computes; `raw` memoises results by stored bytes; `fold` groups and aggregates. Reasons:
//! `docs/decisions/vectorized-execution.md`. Neighbours: `task` gives stored rows, and goes on with those that qualify
//! if they are not aggregated here; `scan::judge` is the row-at-a-time path. **Invariants**: rows are processed in the
//! order in which they come; a batch with an unusual value (overflow, truncation, a warning) has had no effect but that
//! groups have begun, and all its rows are evaluated row at a time.

mod columns;
mod compile;
mod conditions;
mod fold;
mod nodes;
mod program;
mod raw;
mod stored;

use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::plan::ScanPlan;

use super::sink::Warned;
use super::task::{Entries, Flow};
use crate::scan::assign;
use columns::{Copies, Lane, Rows, Selection, Unusual};
use fold::Folding;
use nodes::Arg;
pub(super) use program::Program;
use program::{Node, Step};
use raw::RawMap;

/// Longer rows are not worth copying.
const MOST_ROW_BYTES: usize = 4096;
/// So few rows at once are copied and wait for more: a batch has costs of its own.
const FEW_PIECES: usize = 32;
/// Batches with something unusual that a task has before it gives up, if they are half of all.
const MOST_UNUSUAL: u32 = 4;

/// A task's rows on their way.
pub(super) struct Batch<'p> {
    program: &'p Program,
    scan: &'p ScanPlan,
    def: &'p TableDef,
    entries: &'p Entries,
    /// Where a stored row is put together.
    piece: Vec<u8>,
    /// Those that came one by one and were not dealt with yet.
    copies: Copies,
    selection: Selection,
    /// By node.
    lanes: Vec<Lane>,
    /// What was evaluated a row at a time.
    known: Vec<RawMap<Option<i64>>>,
    key: Vec<u8>,
    folding: Option<Folding<'p>>,
    /// Bytes that are not charged yet.
    bytes: u64,
    batches: u32,
    unusual: u32,
}

impl<'p> Batch<'p> {
    pub(super) fn new(
        program: &'p Program,
        (scan, def): (&'p ScanPlan, &'p TableDef),
        entries: &'p Entries,
    ) -> Self {
        Self {
            program,
            scan,
            def,
            entries,
            piece: Vec::new(),
            copies: Copies::default(),
            selection: Selection::default(),
            lanes: program.nodes.iter().map(|_| Lane::default()).collect(),
            known: program.by_row.iter().map(|_| RawMap::default()).collect(),
            key: Vec::new(),
            folding: program.fold.as_ref().map(Folding::new),
            bytes: 0,
            batches: 0,
            unusual: 0,
        }
    }

    /// Takes a stored row, and copies it; false if no more are wanted.
    pub(super) fn add(&mut self, entry: (&[u8], &[u8]), flow: &mut Flow<'_>) -> ExecResult<bool> {
        let form = &self.program.form;
        let gives_up = self.gives_up();
        let piece = form.piece(entry, &mut self.piece);
        if gives_up || piece.len() > MOST_ROW_BYTES || !form.is_parallel_safe(piece) {
            return Ok(self.work_off(flow)? && self.by_row(entry, flow)?);
        }
        self.copies.push(piece);
        Ok(!self.copies.is_full() || self.work_off(flow)?)
    }

    /// Takes stored rows where they lie; false if no more are wanted.
    pub(super) fn add_pieces(&mut self, pieces: &[&[u8]], flow: &mut Flow<'_>) -> ExecResult<bool> {
        let form = &self.program.form;
        let are_fit = pieces.iter().all(|piece| form.is_parallel_safe(piece));
        if pieces.len() < FEW_PIECES || !are_fit || self.gives_up() {
            for piece in pieces {
                if !self.add(self.entries.entry_of(piece), flow)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        Ok(self.work_off(flow)? && self.work(Rows::new(pieces), flow)?)
    }

    /// Whether the rest is evaluated a row at a time.
    fn gives_up(&self) -> bool {
        self.unusual >= MOST_UNUSUAL && self.unusual * 2 >= self.batches
    }

    /// Deals with the rows that still wait: no more will come.
    pub(super) fn finish(mut self, flow: &mut Flow<'_>) -> ExecResult<()> {
        match (self.work_off(flow)?, self.folding) {
            (true, Some(folding)) => folding.finish(flow),
            _ => Ok(()),
        }
    }

    /// One row by itself.
    fn by_row(&self, entry: (&[u8], &[u8]), flow: &mut Flow<'_>) -> ExecResult<bool> {
        let verdict = self.entries.judge(self.scan, self.def, entry, 0, flow)?;
        flow.follow(verdict)
    }

    /// Deals with the rows that were copied; false if no more are wanted.
    fn work_off(&mut self, flow: &mut Flow<'_>) -> ExecResult<bool> {
        if self.copies.is_empty() {
            return Ok(true);
        }
        let mut copies = std::mem::take(&mut self.copies);
        let goes_on = self.work(Rows::new(&copies.pieces()), flow);
        copies.clear();
        self.copies = copies;
        goes_on
    }

    /// Deals with a batch; false if no more rows are wanted.
    fn work(&mut self, rows: Rows<'_>, flow: &mut Flow<'_>) -> ExecResult<bool> {
        self.batches += 1;
        let goes_on = match self.judge(rows, flow) {
            Ok(()) => self.send_on(rows, flow)?,
            Err(Unusual) => {
                self.unusual += 1;
                let mut goes_on = true;
                for row in 0..rows.len() {
                    let entry = self.entries.entry_of(rows.get(row));
                    goes_on = goes_on && self.by_row(entry, flow)?;
                }
                goes_on
            }
        };
        Ok(goes_on && flow.charge(std::mem::take(&mut self.bytes)))
    }

    /// Leaves the rows that meet the conditions, and finds their groups.
    fn judge(&mut self, rows: Rows<'_>, flow: &mut Flow<'_>) -> Result<(), Unusual> {
        let program = self.program;
        self.selection.take_all(rows.len());
        for step in &program.steps {
            match step {
                Step::Compute(nth) => self.compute(*nth, rows, flow)?,
                Step::Keep(boolean) => {
                    let boolean = Arg::of(*boolean, &self.lanes);
                    self.selection.keep(|row| boolean.get(row) == Some(1));
                    if self.selection.len() == 0 {
                        return Ok(());
                    }
                }
            }
        }
        match &mut self.folding {
            Some(folding) => folding.place(
                (rows, &self.selection),
                &program.columns,
                &self.lanes,
                &|piece, row, env| {
                    let (key, value) = self.entries.entry_of(piece);
                    self.entries
                        .decode(self.scan, self.def, (key, value), row, env)
                },
                flow,
                &mut self.bytes,
            ),
            None => Ok(()),
        }
    }

    fn compute(&mut self, nth: usize, rows: Rows<'_>, flow: &mut Flow<'_>) -> Result<(), Unusual> {
        let program = self.program;
        let (before, rest) = self.lanes.split_at_mut(nth);
        let out = &mut rest[0];
        let selection = &self.selection;
        let node = &program.nodes[nth];
        let &Node::ByRow(nth) = node else {
            return nodes::compute(node, &program.columns, rows, selection, before, out);
        };
        let (key, known, bytes) = (&mut self.key, &mut self.known[nth], &mut self.bytes);
        let asked = &program.by_row[nth];
        let column = &program.columns[asked.column];
        out.fill(selection, |row| {
            let stored = rows.get(row);
            if !known.is_off() {
                key.clear();
                raw::push(column.places.find(stored)?, key);
                if let Some(number) = known.get(key) {
                    return Ok(number);
                }
            }
            let env = flow.env;
            let of = (self.def, program.index, column.col);
            let value = column.places.value(of, stored, &env.ctx.time_zone)?;
            assign(&mut flow.row[column.slot as usize], value);
            let warned = Warned::of(env.ctx);
            let number = asked.evaluate(&flow.row, env);
            if warned.forget_later() {
                return Err(Unusual);
            }
            let number = number?;
            if !known.is_off() {
                *bytes += known.insert(key, number);
            }
            Ok(number)
        })
    }

    /// Sums up the rows that are left, or sends them on one by one.
    fn send_on(&mut self, rows: Rows<'_>, flow: &mut Flow<'_>) -> ExecResult<bool> {
        let read = rows.len() as u64;
        flow.batched += read;
        let left = self.selection.len();
        if left == 0 {
            return Ok(true);
        }
        if let Some(folding) = &mut self.folding {
            self.bytes += folding.add(&self.selection, &self.lanes, flow);
            flow.pipeline.note_rows(left as u64);
            return Ok(true);
        }
        let (scan, def, met) = (self.scan, self.def, self.program.met);
        for nth in 0..left {
            let piece = rows.get(self.selection.row(nth));
            let entry = self.entries.entry_of(piece);
            let verdict = self.entries.judge(scan, def, entry, met, flow)?;
            if !flow.follow(verdict)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
