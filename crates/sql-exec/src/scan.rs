//! Scan operators: reading one table into its slots.
//!
//! In flow order: this file (opening what the plan says, and going on to the next row), `base` (the same for a table
//! that is stored), `lookups` (keys one after the other), `judge` (conditions on stored rows), `cover` (index entries
//! that have all columns), `locked` (rows that are locked), `found` (keys that are gathered first), `union` (several
//! indexes), `walk` (ranges), `skip` (those of a skip scan).
//! Neighbours: `plan::access` chose the index, `plan::ranges` computes key ranges, `codec` reads rows,
//! `locking` and `ExecCtx` lock.
//! **Invariants**: a row is given only after every condition of the plan is true for the values given;
//! with a lock, those values are the latest ones read while the lock was held; an index entry read
//! without a snapshot is checked against its row, so no row comes twice because it moved.
//! A locked row that does not meet the conditions stays locked from REPEATABLE READ on, as in InnoDB; an UPDATE at READ
//! COMMITTED that scans the clustered index looks at the committed row first and locks it only if it meets them
//! (InnoDB's semi-consistent read).

mod base;
mod cover;
mod found;
mod judge;
mod locked;
mod lookups;
mod skip;
mod union;
mod walk;

use esker_engine::View;
use esker_sql_catalog::catalog::ReadCount;
use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::expr::{FoundKeys, OuterRow};
use esker_sql_plan::plan::{QueryPlan, ScanPlan, Source};
use esker_types::Value;

use super::locking::LockingScan;
use super::memory::Budget;
use super::node::all_true;
use super::parallel::StoredRowFilter;
use super::recursive::SharedRows;
use super::root::RootExec;
use super::spill::{RowBuffer, RowCursor};
use crate::ExecEnv;
use base::Base;
pub(crate) use cover::{Cover, EntryFilter};
pub(crate) use found::Found;
use judge::count_read;
pub(crate) use judge::{Verdict, assign, fill, meets};
use locked::lock_of;
use lookups::Lookups;
use union::LockingUnion;
use walk::RangeWalk;

/// State of a scan.
#[derive(Default)]
pub(crate) struct ScanState {
    input: Input,
    /// Clustered key of the current row, of a base table.
    key: Vec<u8>,
    /// Copy of the stored row where it must outlive the read.
    stored: Vec<u8>,
    cover: Cover,
    entry_filter: EntryFilter,
    lookups: Lookups,
    /// Of a locking scan that reads several indexes.
    union: Option<Box<LockingUnion>>,
    /// What stored rows have to pass.
    filters: Vec<StoredRowFilter>,
    reads: ReadCount,
}

#[derive(Default)]
enum Input {
    #[default]
    Done,
    /// One clustered key to get.
    Point,
    /// What begins with the last key of the lookups; their seeker stands before it.
    Sought,
    Ranges(RangeWalk),
    /// Clustered keys that a full-text search has found, and the place of the next one.
    Found(FoundKeys, usize),
    /// Ranges whose rows are locked before they are looked at.
    Locking(Box<LockingScan>),
    Rows(std::vec::IntoIter<Vec<Value>>),
    Derived(Box<RootExec>),
    /// Rows that others read too, and a place in them.
    Shared(SharedRows, RowCursor),
}

impl ScanState {
    pub fn new(plan: &ScanPlan) -> Self {
        let mut state = Self::default();
        state.adopt(plan);
        state
    }

    /// Makes this the state of another plan, keeping its buffers.
    pub fn adopt(&mut self, plan: &ScanPlan) {
        self.close();
        self.cover = match &plan.source {
            Source::Base { def, access, .. } if access.covering => Cover::new(def, access, plan),
            _ => Cover::default(),
        };
        self.entry_filter = match &plan.source {
            Source::Base { def, access, .. } if !plan.entry_conds.is_empty() => {
                EntryFilter::new(def, access, plan)
            }
            _ => EntryFilter::default(),
        };
    }

    /// Drops rows that do not pass.
    pub fn filter_by(&mut self, filters: Vec<StoredRowFilter>) {
        self.filters = filters;
    }

    /// Gives back buffers of more than `kept` bytes.
    pub fn trim(&mut self, kept: usize) {
        if self.stored.capacity() > kept {
            self.stored = Vec::new();
        }
    }

    /// Ends the scan: nothing of the tree is held any more.
    pub fn close(&mut self) {
        self.input = Input::Done;
        self.union = None;
        self.lookups = Lookups::default();
        self.reads.settle();
    }

    pub fn open(
        &mut self,
        plan: &ScanPlan,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<()> {
        match &plan.source {
            Source::Base { def, access, .. } => {
                if let Some(exec) = env
                    .exec
                    .filter(|e| e.view == View::Snapshot && lock_of(plan, e).is_none())
                {
                    def.check_visible(&def.indexes[access.index], exec.txn().snapshot())?;
                }
                self.open_base(Base { plan, def, access }, row, env)
            }
            Source::Virtual { table, pushed } => {
                self.input = Input::Rows(table.rows(env, pushed)?.into_iter());
                Ok(())
            }
            Source::Json(table) => {
                self.input = Input::Rows(table.rows(row, env)?.into_iter());
                Ok(())
            }
            Source::Shared(id, query) => {
                self.input = Input::Shared(shared_rows(*id, query, env)?, RowCursor::default());
                Ok(())
            }
            Source::Work(id) => {
                let rows = env.states.table(*id).unwrap_or_default();
                self.input = Input::Shared(rows, RowCursor::default());
                Ok(())
            }
            Source::Derived(query) => {
                if let Input::Derived(root) = &mut self.input {
                    root.reset(env);
                } else {
                    self.input = Input::Derived(Box::new(RootExec::new(query)));
                }
                Ok(())
            }
        }
    }

    pub fn next(
        &mut self,
        plan: &ScanPlan,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        match &plan.source {
            Source::Base { def, access, .. } => {
                let found = self.next_base(Base { plan, def, access }, row, env)?;
                if found && plan.first_only {
                    self.input = Input::Done;
                }
                Ok(found)
            }
            Source::Virtual { .. } | Source::Json(_) => self.next_virtual(plan, row, env),
            Source::Shared(..) | Source::Work(_) => self.next_shared(plan, row, env),
            Source::Derived(query) => {
                let Input::Derived(root) = &mut self.input else {
                    return Ok(false);
                };
                loop {
                    env.tick()?;
                    // A lateral table sees the row so far; others refer further out, never to it.
                    let found = if plan.lateral {
                        let copy = row.to_vec();
                        let outer = OuterRow {
                            row: &copy,
                            up: env.outer,
                        };
                        root.next_of(query, &env.nested(&outer))?
                    } else {
                        root.next_of(query, env)?
                    };
                    let Some(values) = found else {
                        return Ok(false);
                    };
                    for &(column, slot) in &plan.columns {
                        row[slot as usize].clone_from(&values[column]);
                    }
                    count_read(plan, env);
                    if all_true(&plan.conds, row, env)? {
                        return Ok(true);
                    }
                }
            }
        }
    }

    fn next_virtual(
        &mut self,
        plan: &ScanPlan,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        let Input::Rows(rows) = &mut self.input else {
            return Ok(false);
        };
        for mut values in rows {
            env.tick()?;
            for &(column, slot) in &plan.columns {
                row[slot as usize] = std::mem::take(&mut values[column]);
            }
            count_read(plan, env);
            if all_true(&plan.conds, row, env)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn next_shared(
        &mut self,
        plan: &ScanPlan,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        let Input::Shared(rows, cursor) = &mut self.input else {
            return Ok(false);
        };
        while let Some(values) = cursor.next(rows)? {
            env.tick()?;
            for &(column, slot) in &plan.columns {
                row[slot as usize].clone_from(&values[column]);
            }
            count_read(plan, env);
            if all_true(&plan.conds, row, env)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The rows of a common table expression, computed at its first use in the statement.
fn shared_rows(id: u32, query: &QueryPlan, env: &ExecEnv<'_>) -> ExecResult<SharedRows> {
    if let Some(rows) = env.states.table(id) {
        return Ok(rows);
    }
    let mut exec = RootExec::new(query);
    let mut rows = RowBuffer::default();
    while let Some(row) = exec.next_of(query, env)? {
        rows.push(row.iter(), Budget::Table, env)?;
    }
    rows.finish()?;
    exec.reset(env);
    let rows = SharedRows::new(rows);
    env.states.put_table(id, rows.clone());
    Ok(rows)
}

fn set(buffer: &mut Vec<u8>, bytes: &[u8]) {
    buffer.clear();
    buffer.extend_from_slice(bytes);
}
