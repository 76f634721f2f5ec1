//! Scans that lock: which lock, and whether a row is locked before or after it is looked at.
//!
//! Neighbours: `scan` reads; `locking` walks and locks ranges; `judge` judges what was read under the lock.
//! **Invariants**: the values of a row that is given are those read while its lock was held. At READ COMMITTED a row
//! that is not wanted is unlocked, above it stays locked, as in InnoDB.

use esker_engine::View;
use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::bind::{LockReason, LockSpec};
use esker_sql_plan::plan::{Access, ScanPlan};
use esker_types::Value;

use super::judge::{Verdict, judge};
use super::{Input, ScanState, read_row, set};
use crate::ExecEnv;
use crate::ctx::{ExecCtx, RowLock};
use crate::locking::{Candidate, lock_point};

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
        index: usize,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<Option<Verdict>> {
        let exec = env.exec.expect("checked by the caller");
        let Input::Locking(scan) = &mut self.input else {
            return Ok(None);
        };
        if !scan.advance(def, exec)? {
            self.input = Input::Done;
            return Ok(None);
        }
        let clustered = match index {
            0 => &scan.key,
            _ => def.indexes[index]
                .codec
                .clustered_of(&scan.key, &scan.value)?,
        };
        set(&mut self.key, clustered);
        let Candidate::Locked(new) = scan.lock(def, &self.key, exec)? else {
            return Ok(Some(Verdict::Drop));
        };
        let entry = (index > 0).then(|| (index, scan.key.clone()));
        let mut verdict = Verdict::Drop;
        if self.read(def, View::Latest, exec)? {
            verdict = self.take_copied(plan, def, entry, row, env)?;
        }
        if let (Input::Locking(scan), true) = (&self.input, is_released(&verdict, exec)) {
            scan.release(def, &self.key, new, exec);
        }
        Ok(Some(verdict))
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
        let judged = judge(plan, def, &self.key, &self.stored, row, env)?;
        if matches!(judged, Verdict::Drop) {
            return Ok(Verdict::Drop);
        }
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

/// Does it look at committed rows first, and lock only those that meet the conditions?
pub(super) fn is_semi_consistent(lock: LockSpec, access: &Access, exec: &ExecCtx<'_>) -> bool {
    lock.reason == LockReason::Updated && access.index == 0 && !exec.txn().locks_gaps()
}
