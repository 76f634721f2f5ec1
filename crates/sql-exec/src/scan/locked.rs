//! Scans that lock: which lock, and whether a row is locked before or after it is looked at.
//!
//! Neighbours: `scan` reads; `locking` walks and locks ranges; `judge` judges what was read under the lock.
//! **Invariants**: the values of a row that is given are those read while its lock was held. At READ COMMITTED a row
//! that is not wanted is unlocked, above it stays locked, as in InnoDB. Rows of partitions that nobody asked for are
//! not locked at any level.

use esker_engine::View;
use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::codec::RowReader;
use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::bind::{LockReason, LockSpec};
use esker_sql_plan::expr::{Expr, ExprKind};
use esker_sql_plan::plan::{Access, ScanPlan};
use esker_types::Value;

use super::base::read_row;
use super::judge::{Verdict, count_read, fill, judge};
use super::{Input, ScanState, set};
use crate::ExecEnv;
use crate::ctx::{ExecCtx, RowLock};
use crate::locking::{Candidate, Deciding, lock_point};

impl ScanState {
    /// Locks the row of `self.key`, a whole key of the clustered index, and judges it.
    pub(super) fn take_point(
        &mut self,
        plan: &ScanPlan,
        def: &TableDef,
        lock: LockSpec,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<Verdict> {
        let exec = env.exec.expect("checked by the caller");
        let key = std::mem::take(&mut self.key);
        let stored = &mut self.stored;
        let locked = lock_point(lock, &def.primary().tree, &key, exec, || {
            read_row(def, &key, View::Latest, stored, exec)
        });
        self.key = key;
        match locked? {
            Some(RowLock::Granted { new }) => {
                let verdict = judge(plan, def, &self.key, &self.stored, row, env)?;
                self.keep_or_release(def, new, &verdict, exec);
                Ok(verdict)
            }
            Some(RowLock::Skipped) | None => Ok(Verdict::Drop),
        }
    }

    /// Locks and judges the row of the next entry of a locking scan; `None` at the end.
    pub(super) fn take_next_locked(
        &mut self,
        plan: &ScanPlan,
        def: &TableDef,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<Option<Verdict>> {
        let exec = env.exec.expect("checked by the caller");
        while let Input::Locking(scan) = &mut self.input
            && !scan.advance(def, exec)?
        {
            let next = self.union.as_mut().and_then(|union| union.next_scan());
            self.input = next.map_or(Input::Done, |scan| Input::Locking(Box::new(scan)));
        }
        let Input::Locking(scan) = &mut self.input else {
            self.reads.end_all();
            return Ok(None);
        };
        let index = scan.index;
        let clustered = match index {
            0 => &scan.key,
            _ => def.indexes[index]
                .codec
                .clustered_of(&scan.key, &scan.value)?,
        };
        set(&mut self.key, clustered);
        if self.is_left_out(plan, def, row, env)? {
            return Ok(Some(Verdict::Drop));
        }
        let Input::Locking(scan) = &mut self.input else {
            return Ok(None);
        };
        let Candidate::Locked(new) = scan.lock(def, &self.key, exec)? else {
            return Ok(Some(Verdict::Drop));
        };
        let entry = (index > 0).then(|| (index, scan.key.clone()));
        let mut verdict = Verdict::Drop;
        if self.read(def, View::Latest, exec)? {
            verdict = self.take_copied(plan, def, entry, row, env)?;
        }
        if let (Some(union), Verdict::Take) = (&mut self.union, &verdict)
            && !union.is_new(&self.key, env)?
        {
            return Ok(Some(Verdict::Drop));
        }
        if let (Input::Locking(scan), true) = (&self.input, is_released(&verdict, exec)) {
            scan.release(def, &self.key, new, exec);
        }
        Ok(Some(verdict))
    }

    /// Goes past the entry of the scan without a lock if its row is in a partition that is not asked for.
    fn is_left_out(
        &mut self,
        plan: &ScanPlan,
        def: &TableDef,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        let Input::Locking(scan) = &mut self.input else {
            return Ok(false);
        };
        let Some(last) = scan
            .deciding
            .conds
            .last()
            .filter(|_| scan.knows_partition())
        else {
            return Ok(false);
        };
        let reader = RowReader::new(&def.layout, &env.ctx.time_zone, &scan.value)?;
        fill(&plan.columns[..plan.cond_ends[*last]], &reader, row);
        let mark = env.ctx.diagnostics.mark();
        for cond in &scan.deciding.conds {
            if !plan.conds[*cond].is_true(row, env)? {
                count_read(plan, env);
                scan.leave_out();
                return Ok(true);
            }
        }
        // They are asked again under the lock.
        env.ctx.diagnostics.undo_to(mark);
        Ok(false)
    }

    /// Judges the copied row, locks it if it meets the conditions, and judges what it is then: a semi-consistent read.
    pub(super) fn take_matching(
        &mut self,
        plan: &ScanPlan,
        def: &TableDef,
        lock: LockSpec,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<Verdict> {
        let mark = env.ctx.diagnostics.mark();
        let judged = judge(plan, def, &self.key, &self.stored, row, env)?;
        if matches!(judged, Verdict::Drop) {
            return Ok(Verdict::Drop);
        }
        // What the conditions warn of is told once: under the lock.
        env.ctx.diagnostics.undo_to(mark);
        let exec = env.exec.expect("checked by the caller");
        let new = match exec.lock_row(def.primary().id, &self.key, lock.mode, lock.policy)? {
            RowLock::Skipped => return Ok(Verdict::Drop),
            RowLock::Granted { new } => new,
        };
        // What was read before the lock may be gone or changed.
        let mut verdict = Verdict::Drop;
        if self.read(def, View::Latest, exec)? {
            verdict = judge(plan, def, &self.key, &self.stored, row, env)?;
        }
        self.keep_or_release(def, new, &verdict, exec);
        Ok(verdict)
    }

    fn keep_or_release(&self, def: &TableDef, new: bool, verdict: &Verdict, exec: &ExecCtx<'_>) {
        if new && is_released(verdict, exec) {
            exec.txn().release(def.primary().id, &self.key);
        }
    }
}

/// A row that is not wanted is unlocked at READ COMMITTED, and stays locked above.
fn is_released(verdict: &Verdict, exec: &ExecCtx<'_>) -> bool {
    matches!(verdict, Verdict::Drop) && !exec.txn().locks_gaps()
}

/// The lock that the scan takes at the transaction's isolation level.
pub(super) fn lock_of(plan: &ScanPlan, exec: &ExecCtx<'_>) -> Option<LockSpec> {
    plan.lock.filter(|lock| lock.is_taken(&exec.txn()))
}

/// Which rows are in no partition that is asked for: those that do not meet conditions that read nothing but columns
/// that decide. Such a row cannot come to meet them but by a change that looks for gaps. Only the clustered index has
/// what they read.
pub(super) fn deciding(plan: &ScanPlan, def: &TableDef, access: &Access) -> Deciding {
    let Some(partitioning) = def.partitioning.as_deref().filter(|_| access.index == 0) else {
        return Deciding::default();
    };
    let column_of = |slot: u32| {
        let mut columns = plan.columns[..plan.cond_columns].iter();
        let found = columns.find(|(_, s)| *s == slot);
        found.map(|(col, _)| &def.columns[*col])
    };
    let decides = |slot| column_of(slot).is_some_and(|c| partitioning.decides(&c.name));
    let is_deciding = |cond: &Expr| {
        let mut reads = (false, true);
        cond.slots(&mut |slot| reads = (true, reads.1 && decides(slot)));
        let is_other = |e: &Expr| {
            matches!(
                e.kind,
                ExprKind::Subquery(_) | ExprKind::UserVar(_) | ExprKind::Stored(_)
            )
        };
        reads == (true, true) && !cond.is_volatile() && !cond.any(&mut |e| is_other(e))
    };
    let all = plan.conds.iter().enumerate();
    let conds: Vec<usize> = all
        .filter(|(_, cond)| is_deciding(cond))
        .map(|(at, _)| at)
        .collect();
    // Texts that differ may be the same key.
    let mut by_key = !def.primary().hidden;
    let is_text = |slot| column_of(slot).is_none_or(|c| c.ty.is_string());
    conds
        .iter()
        .for_each(|at| plan.conds[*at].slots(&mut |slot| by_key &= !is_text(slot)));
    Deciding { conds, by_key }
}

/// Does it look at committed rows first, and lock only those that meet the conditions?
pub(super) fn is_semi_consistent(lock: LockSpec, access: &Access, exec: &ExecCtx<'_>) -> bool {
    lock.reason == LockReason::Updated && access.index == 0 && !exec.txn().locks_gaps()
}
