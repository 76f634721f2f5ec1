//! An INSERT into a table with triggers, in steps: between two of them triggers run.
//!
//! Neighbours: `session::firing` goes from step to step; `run` and `conflict` do in each what they do for tables
//! without triggers, too.
//! **Invariants**
//! - What one step leaves in the scratch, the next one does not find there: triggers have used it.
//! - BEFORE triggers see 0 where a number is to be generated, and NULL wherever nothing was given; what is still NULL
//!   when they have run is told of then.

use esker_sql_catalog::exec_error::ExecError;
use esker_sql_exec::{RowStream, SubqueryStates, TakenRows};
use esker_types::trigger::TriggerEvent;
use esker_types::{Level, Value};

use super::numbers::Numbers;
use super::run::{Attempt, Counts, Run, auto_value, decode_row};
use super::{CompiledInsert, OnConflict, Rows};
use crate::dml::change_fired::{ChangedRow, accepted, is_null_refused};
use crate::dml::logged::Replaced;
use crate::dml::values::{null_for, unset_value};
use crate::dml::write::{Conflict, KeyRun};
use crate::dml::{DmlDone, DmlEnv, strict_writes};

/// The statement between two steps.
#[derive(Default)]
pub(crate) struct InsertSteps {
    parked: Parked,
    /// The row that is being stored, from 1 on, and how many rows may still want a number.
    row_number: u64,
    expected: u64,
    /// The query that brings the rows, those that it has brought, and whether there may be more.
    stream: Option<RowStream>,
    gathered: TakenRows,
    /// The row in the way, of which triggers are told.
    other: Option<Other>,
}

/// What a [`Run`] keeps from step to step.
#[derive(Default)]
struct Parked {
    states: SubqueryStates,
    row: Vec<Value>,
    source: Vec<Value>,
    counts: Counts,
    auto: Numbers,
    replaced: Option<Replaced>,
    key_run: KeyRun,
    lenient: bool,
}

/// A row whose unique key the new one wants.
struct Other {
    conflict: Conflict,
    /// As it is stored.
    stored: Vec<u8>,
    /// The statement's row, for ON DUPLICATE KEY UPDATE.
    row: Vec<Value>,
}

/// What comes next for a row that was to be stored.
pub(crate) enum StoreStep {
    /// It is stored: AFTER INSERT triggers see this.
    Stored(Vec<Value>),
    /// Nothing.
    Done,
    /// This one is deleted for it; then it is tried again.
    Delete(Vec<Value>),
    /// This one is updated instead.
    Update(ChangedRow),
}

impl CompiledInsert {
    /// Begins.
    pub(crate) fn begin(&self, env: &DmlEnv<'_>) -> InsertSteps {
        self.tell_of_delayed(env.ctx);
        self.begin_with(env, self.is_lenient(env.ctx))
    }

    /// The same, for rows that come from elsewhere.
    pub(super) fn begin_with(&self, env: &DmlEnv<'_>, lenient: bool) -> InsertSteps {
        InsertSteps {
            parked: Parked {
                lenient,
                auto: Numbers::new(env.auto_first),
                ..Parked::default()
            },
            stream: match &self.rows {
                Rows::Query(plan, _) => Some(RowStream::open(plan.clone())),
                Rows::Values(_) | Rows::File => None,
            },
            ..InsertSteps::default()
        }
    }

    /// Runs `f` with the statement as it was left.
    pub(super) fn resumed<'e, R>(
        &self,
        env: &mut DmlEnv<'e>,
        steps: &mut InsertSteps,
        f: impl FnOnce(&mut Run<'_, 'e>, &mut InsertSteps) -> Result<R, ExecError>,
    ) -> Result<R, ExecError> {
        let _strict = strict_writes(env.ctx, self.ignore);
        let parked = std::mem::take(&mut steps.parked);
        let mut run = Run {
            insert: self,
            env,
            states: parked.states,
            row: parked.row,
            source: parked.source,
            counts: parked.counts,
            auto: parked.auto,
            replaced: parked.replaced,
            key_run: parked.key_run,
            lenient: parked.lenient,
        };
        let result = f(&mut run, steps);
        steps.parked = Parked {
            states: run.states,
            row: run.row,
            source: run.source,
            counts: run.counts,
            auto: run.auto,
            replaced: run.replaced,
            key_run: run.key_run,
            lenient: run.lenient,
        };
        result
    }

    /// The next row of VALUES or of the query, as BEFORE triggers see it.
    pub(crate) fn next(
        &self,
        env: &mut DmlEnv<'_>,
        steps: &mut InsertSteps,
    ) -> Result<Option<Vec<Value>>, ExecError> {
        self.resumed(env, steps, |run, steps| {
            (run.env.check_killed)()?;
            // Only a BEFORE trigger may still give a column its value.
            if steps.row_number == 0 && self.relaxed.is_none() {
                self.check_defaults(run.env)?;
            }
            let is_there = match &self.rows {
                Rows::Values(rows) => match rows.get(steps.row_number as usize) {
                    None => false,
                    Some(cells) => {
                        run.evaluate(cells, steps.row_number + 1)?;
                        steps.expected = rows.len() as u64;
                        true
                    }
                },
                Rows::Query(plan, reads_target) => {
                    steps.expected = 1;
                    match steps.next_of_query(run, *reads_target)? {
                        None => false,
                        Some(mut values) => {
                            run.convert(&mut values, &plan.columns, steps.row_number + 1)?;
                            true
                        }
                    }
                }
                Rows::File => false,
            };
            if !is_there {
                return Ok(None);
            }
            steps.row_number += 1;
            run.proposed(steps.row_number).map(Some)
        })
    }

    /// Takes the row as BEFORE triggers have left it, checks and numbers it; false: it is left out.
    ///
    /// # Errors
    /// 1048, 1364.
    pub(crate) fn accept(
        &self,
        env: &mut DmlEnv<'_>,
        steps: &mut InsertSteps,
        new: Vec<Value>,
    ) -> Result<bool, ExecError> {
        self.resumed(env, steps, |run, steps| {
            match run.take_proposed(new) {
                Err(ExecError::Sql(e)) if self.ignore && is_null_refused(&e) => {
                    run.env.ctx.warn(Level::Warning, e.code, e.message);
                    run.counts.records += 1;
                    return Ok(false);
                }
                taken => taken?,
            }
            run.prepare(steps.row_number, steps.expected)
        })
    }

    /// Stores the row, or says what has to be done before.
    pub(crate) fn store_step(
        &self,
        env: &mut DmlEnv<'_>,
        steps: &mut InsertSteps,
    ) -> Result<StoreStep, ExecError> {
        self.resumed(env, steps, |run, steps| {
            loop {
                match run.attempt()? {
                    Attempt::Stored => {
                        run.auto.end_row();
                        return Ok(StoreStep::Stored(run.row.clone()));
                    }
                    Attempt::LeftOut => {
                        run.auto.end_row();
                        return Ok(StoreStep::Done);
                    }
                    Attempt::Conflict(conflict) => {
                        if let Some(step) = run.told_of(&conflict, steps)? {
                            return Ok(step);
                        }
                        if !run.resolve(conflict, steps.row_number)? {
                            run.auto.give_back(run.env.auto_step)?;
                            run.auto.end_row();
                            return Ok(match self.on_conflict {
                                // The same row is there already, which counts as if it came.
                                OnConflict::Replace => StoreStep::Stored(run.row.clone()),
                                _ => StoreStep::Done,
                            });
                        }
                    }
                }
            }
        })
    }

    /// Deletes the row in the way; the new one can be tried again. False: a trigger has deleted it with a parent.
    pub(crate) fn delete_other(
        &self,
        env: &mut DmlEnv<'_>,
        steps: &mut InsertSteps,
    ) -> Result<bool, ExecError> {
        let other = steps.other.take().expect("a row is in the way");
        self.resumed(env, steps, |run, _| {
            let key = &other.conflict.clustered;
            if !run.env.reread(self.table(), key)? {
                return Ok(false);
            }
            let is_gone = run.delete_other(&other.conflict)?;
            assert!(is_gone, "a row that triggers have been told of is deleted");
            Ok(true)
        })
    }

    /// Updates the row in the way: as AFTER triggers see it, unless it is gone or IGNORE leaves it alone.
    pub(crate) fn update_other(
        &self,
        env: &mut DmlEnv<'_>,
        steps: &mut InsertSteps,
        new: Vec<Value>,
    ) -> Result<Option<Vec<Value>>, ExecError> {
        let mut other = steps.other.take().expect("a row is in the way");
        self.resumed(env, steps, |run, _| {
            let changer = self.changer.as_ref().expect("the row is to be updated");
            run.env.scratch.old_row = other.stored;
            let (row, lenient) = (&mut other.row, run.is_update_lenient());
            changer.accept(run.env, &run.states, (row, new), lenient)?;
            let is_settled = run.write_update(changer, &other.conflict, row)?;
            run.auto.give_back(run.env.auto_step)?;
            run.auto.end_row();
            row.truncate(changer.table().columns.len());
            Ok(is_settled.then_some(other.row))
        })
    }

    /// Persists the numbers of rows that stay although a later one has failed.
    pub(crate) fn keep_numbers(
        &self,
        env: &mut DmlEnv<'_>,
        steps: &mut InsertSteps,
    ) -> Result<(), ExecError> {
        self.resumed(env, steps, |run, _| run.keep_numbers().map(drop))
    }

    /// Persists the numbers, and sums up; `warnings`: those of the whole statement.
    pub(crate) fn finish(
        &self,
        env: &mut DmlEnv<'_>,
        steps: &mut InsertSteps,
        warnings: u64,
    ) -> Result<DmlDone, ExecError> {
        let done = self.resumed(env, steps, |run, _| run.finish(warnings));
        env.scratch.trim();
        done
    }
}

impl InsertSteps {
    /// A row that was brought from elsewhere; it may be the last that wants a number.
    pub(super) fn comes(&mut self, row_number: u64) {
        (self.row_number, self.expected) = (row_number, 1);
    }

    fn next_of_query(
        &mut self,
        run: &mut Run<'_, '_>,
        reads_target: bool,
    ) -> Result<Option<Vec<Value>>, ExecError> {
        let mut row = Vec::new();
        if self.gathered.next(&mut row)? {
            return Ok(Some(row));
        }
        let Some(stream) = &mut self.stream else {
            return Ok(None);
        };
        let (rows, more) = run.query_rows(stream, reads_target)?;
        if !more {
            self.stream = None;
        }
        self.gathered = rows;
        Ok(self.gathered.next(&mut row)?.then_some(row))
    }
}

impl Run<'_, '_> {
    /// The row that was made, as BEFORE triggers see it.
    pub(super) fn proposed(&mut self, row_number: u64) -> Result<Vec<Value>, ExecError> {
        self.generate(row_number)?;
        let mut new = self.row.clone();
        if let Some(col) = self.table().auto_column
            && new[col].is_null()
        {
            new[col] = auto_value(&self.table().columns[col].ty, 0);
        }
        Ok(new)
    }

    fn take_proposed(&mut self, new: Vec<Value>) -> Result<(), ExecError> {
        assert_eq!(new.len(), self.row.len(), "a trigger keeps the columns");
        let insert = self.insert;
        for (col, value) in new.into_iter().enumerate() {
            let column = &insert.table().columns[col];
            let is_zero = matches!(value, Value::Int(0) | Value::UInt(0));
            let stays = column.auto_increment && self.row[col].is_null() && is_zero;
            if stays || column.generated.is_some() {
                continue;
            }
            self.row[col] = match value {
                Value::Null if column.auto_increment || column.ty.nullable => Value::Null,
                Value::Null if insert.unassigned.contains(&col) && self.row[col].is_null() => {
                    if insert.wants_value(col) {
                        insert.no_default(self.env.ctx, col)?;
                    }
                    unset_value(&column.ty)
                }
                Value::Null if insert.ignore && matches!(insert.rows, Rows::Query(..)) => {
                    null_for(self.env.ctx, column, true)?
                }
                value => accepted(self.env.ctx, (column, value), &self.row[col], self.lenient)?,
            };
        }
        Ok(())
    }

    /// What triggers have to be told before the row in the way goes or changes, if they are.
    fn told_of(
        &mut self,
        conflict: &Conflict,
        steps: &mut InsertSteps,
    ) -> Result<Option<StoreStep>, ExecError> {
        let insert = self.insert;
        let table = insert.table();
        let (step, row) = match insert.on_conflict {
            OnConflict::Replace if table.has_triggers_for(TriggerEvent::Delete) => {
                self.begin_replace(conflict)?;
                let mut old = vec![Value::Null; table.columns.len()];
                let zone = &self.env.ctx.time_zone;
                decode_row(table, zone, &self.env.scratch.old_row, &mut old)?;
                (StoreStep::Delete(old), Vec::new())
            }
            OnConflict::Update if insert.changer.as_ref().is_some_and(|c| c.fires()) => {
                let (changer, mut row) = self.begin_update(conflict)?;
                let old = row[..table.columns.len()].to_vec();
                let at = (&mut *row, steps.row_number);
                let lenient = self.is_update_lenient();
                let new = changer.propose(self.env, &self.states, at, lenient)?;
                (StoreStep::Update(ChangedRow { old, new }), row)
            }
            _ => return Ok(None),
        };
        steps.other = Some(Other {
            conflict: Conflict {
                index: conflict.index,
                clustered: conflict.clustered.clone(),
            },
            stored: self.env.scratch.old_row.clone(),
            row,
        });
        Ok(Some(step))
    }
}
