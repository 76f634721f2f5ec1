//! Rows that a statement answers with: pulled in batches, or all at once.
//!
//! Neighbours: `run` begins the statement, the server pulls ([`Session::next_rows`]); `cursor` keeps rows in memory.
//! **Invariants**: a statement that ends while its rows are pulled ends as any other, and its warnings are kept; rows
//! that are collected are counted against the statement's memory.

use std::sync::Arc;

use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::{ColumnMeta, Mode, RowSink};
use esker_sql_exec::{RowStream, StatementEnv};
use esker_types::{SqlResult, Value, errors};

use super::cursor::{Collector, PULL};
use super::{Batch, Running, Session, Work};

/// Rows of a statement, pulled in batches.
pub(super) enum RowSource {
    /// A running query with its parameters.
    Stream(Box<RowStream>, Vec<Value>, Mode),
    /// Rows made whole.
    Table(Arc<[ColumnMeta]>, std::vec::IntoIter<Vec<Value>>),
}

impl RowSource {
    pub(super) fn columns(&self) -> Arc<[ColumnMeta]> {
        match self {
            Self::Stream(stream, ..) => stream.plan().columns.clone(),
            Self::Table(columns, _) => columns.clone(),
        }
    }
}

impl Session {
    /// All rows of a source, in memory.
    pub(super) fn collect(&mut self, source: &mut RowSource) -> Result<Vec<Vec<Value>>, ExecError> {
        let mut kept = Collector::default();
        self.not_sent(|session| {
            while session.pull(source, &mut kept, usize::MAX)? {}
            Ok(())
        })?;
        Ok(kept.rows)
    }

    /// The same, within esker_query_memory_limit.
    ///
    /// # Errors
    /// 1041.
    pub(super) fn collect_within_limit(
        &mut self,
        source: &mut RowSource,
    ) -> Result<Vec<Vec<Value>>, ExecError> {
        let mut kept = Collector::default();
        let whose = "collected";
        self.not_sent(|session| {
            while session.pull(source, &mut kept, PULL)? {
                kept.count(session, whose)?;
            }
            Ok(kept.count(session, whose)?)
        })?;
        Ok(kept.rows)
    }

    /// Pulls rows that stay here: they count as sent when they are.
    fn not_sent(
        &mut self,
        pull: impl FnOnce(&mut Self) -> Result<(), ExecError>,
    ) -> Result<(), ExecError> {
        let before = self.measure.rows_sent();
        let pulled = pull(self);
        self.measure.set_rows_sent(before);
        pulled
    }

    /// Writes rows to `sink` until it holds `limit` bytes; false at the end.
    pub(super) fn pull(
        &mut self,
        source: &mut RowSource,
        sink: &mut dyn RowSink,
        limit: usize,
    ) -> Result<bool, ExecError> {
        self.context.check()?;
        match source {
            RowSource::Table(columns, rows) => {
                while sink.bytes() < limit {
                    let Some(row) = rows.next() else {
                        return Ok(false);
                    };
                    sink.begin_row();
                    for (value, column) in row.iter().zip(columns.iter()) {
                        sink.value(value.as_ref(), &column.ty);
                    }
                    sink.end_row();
                    self.measure.sent(1);
                }
                Ok(true)
            }
            RowSource::Stream(stream, params, mode) => {
                let plan = stream.plan();
                let (blocks, reads) = (plan.blocks, !plan.is_tableless());
                let calls = plan.calls.as_ref().map(|used| used.to_vec());
                if self.program.stores {
                    stream.store_strictly();
                }
                // Inside of a change, too: conditions of a query do not store anything.
                let is_strict = self.program.strict || self.program.queries_strictly;
                let mut pull = |env: &StatementEnv<'_>| {
                    if !is_strict {
                        env.ctx.diagnostics.strict_write.set(false);
                    }
                    stream.pull(env, sink, limit)
                };
                let (mut pulled, raised) = match calls {
                    None => self.execute(*mode, blocks, params, &mut pull),
                    Some(used) => self.execute_calling(used, params, &mut pull),
                };
                if pulled.is_ok() && reads {
                    // SLEEP() ends early when it is killed; only alone is that an answer.
                    pulled = self.context.check().map_err(ExecError::Sql).and(pulled);
                } else if blocks && matches!(pulled, Ok(false)) {
                    self.forget_kill();
                }
                let failure = self.context.pace.failure().map_err(ExecError::Sql);
                let pulled = failure.and(pulled);
                let found = stream.found_rows();
                self.diagnostics.add(&self.vars, raised);
                if let Ok(false) = pulled {
                    self.measure.sent(found);
                    self.context.found_rows.set(found);
                }
                pulled
            }
        }
    }

    /// Columns of the statement that has just answered with rows.
    pub(super) fn row_columns(&self) -> SqlResult<Arc<[ColumnMeta]>> {
        match &self.running {
            Some(Running {
                work: Work::Rows(source),
                ..
            }) => Ok(source.columns()),
            Some(Running {
                work: Work::ShortRows(plan),
                ..
            }) => Ok(plan.columns.clone()),
            _ => Err(errors::out_of_sync()),
        }
    }

    /// Pulls rows of the statement that answered with rows, about `limit` bytes of them.
    ///
    /// # Errors
    /// What the query runs into; the statement is over then.
    pub fn next_rows(&mut self, sink: &mut dyn RowSink, limit: usize) -> SqlResult<Batch> {
        self.context.pace.resume();
        let Some(mut running) = self.running.take() else {
            return Err(errors::out_of_sync());
        };
        if !matches!(running.work, Work::ShortRows(_) | Work::Rows(_)) {
            self.running = Some(running);
            return Err(errors::out_of_sync());
        }
        let pulled = self
            .survive(|session| session.pull_work(&mut running.work, sink, limit))
            .unwrap_or_else(|e| Err(e.into()));
        self.context.pace.rest();
        let result = match pulled {
            Ok(true) => Ok(Batch {
                more: true,
                depends_on: self.txn.dependency(),
            }),
            Ok(false) => {
                running.work = Work::Finished;
                self.context.row_count.set(-1);
                self.end_statement(true).map(|seq| Batch {
                    more: false,
                    depends_on: seq.max(self.txn.dependency()),
                })
            }
            Err(e) => {
                running.work = Work::Finished;
                running.end();
                Err(match e {
                    ExecError::Sql(e) => e,
                    // Streams whose locks could be waited for were collected before.
                    ExecError::Wait(_) => errors::lock_wait_timeout(),
                })
            }
        };
        // The end of its scans.
        self.count_accesses();
        if let Err(e) = &result {
            let e = e.clone();
            self.fail(e);
            self.end_command();
        }
        self.running = Some(running);
        result
    }

    pub(super) fn pull_work(
        &mut self,
        work: &mut Work,
        sink: &mut dyn RowSink,
        limit: usize,
    ) -> Result<bool, ExecError> {
        match work {
            Work::ShortRows(plan) => {
                let zone = &self.vars.time_zone;
                let scratch = &mut self.plans.scratch;
                let killed = self.context.check();
                let more = killed.and_then(|()| plan.run(&self.txn, zone, scratch, sink, limit));
                if let Ok(false) = more {
                    self.measure.sent(scratch.sent());
                    self.context.found_rows.set(scratch.sent());
                }
                more.map_err(ExecError::from)
            }
            Work::Rows(source) => self.pull(source, sink, limit),
            _ => Ok(false),
        }
    }
}
