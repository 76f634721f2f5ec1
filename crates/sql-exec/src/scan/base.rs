//! Rows of a base table: opening the access that the plan chose, and going on to the next row that it finds.
//!
//! Neighbours: `scan` has the state; `judge`, `cover` and `locked` say whether a row that was found is taken;
//! `lookups`, `walk` and `union` know where entries come from.
//! **Invariant**: a row is read by the snapshot of the statement, or, where the scan locks, as it is now.

use std::sync::Arc;

use esker_engine::View;
use esker_sql_catalog::catalog::{AccessCounts, IndexDef, TableDef, Walk};
use esker_sql_catalog::codec::{KeyRange, RowReader};
use esker_sql_catalog::exec_error::{ExecResult, engine_error};
use esker_sql_plan::bind::LockSpec;
use esker_sql_plan::plan::{Access, AccessKind, KeyOperand, ScanPlan, ranges};
use esker_types::Value;

use super::judge::{Verdict, count_read, judge, judge_filtered};
use super::locked::{deciding, is_semi_consistent, lock_of};
use super::skip;
use super::union::{self, LockingUnion};
use super::walk::RangeWalk;
use super::{Input, ScanState, set};
use crate::ctx::ExecCtx;
use crate::locking::LockingScan;
use crate::{ExecEnv, elements, fulltext};

/// A base table, and how it is read.
#[derive(Clone, Copy)]
pub(super) struct Base<'p> {
    pub plan: &'p ScanPlan,
    pub def: &'p TableDef,
    pub access: &'p Access,
}

impl<'p> Base<'p> {
    pub fn index(self) -> &'p IndexDef {
        &self.def.indexes[self.access.index]
    }

    /// Are the entries of the index the rows?
    fn is_clustered(self) -> bool {
        self.access.index == 0
    }
}

/// Which state of its rows a scan looks at.
#[derive(Clone, Copy)]
struct Reading {
    lock: Option<LockSpec>,
    view: View,
}

impl Reading {
    #[inline]
    fn of(plan: &ScanPlan, exec: &ExecCtx<'_>) -> Self {
        let lock = lock_of(plan, exec);
        let view = match lock {
            Some(_) => View::Latest,
            None => exec.view,
        };
        Self { lock, view }
    }

    /// May an entry of a secondary index not be that of its row? The transaction's own changes build on the newest
    /// rows, so an entry of its snapshot may lead to a row that it has meanwhile moved elsewhere in the index: then the
    /// row decides.
    #[inline]
    fn entries_may_be_stale(self, def: &TableDef, exec: &ExecCtx<'_>) -> bool {
        self.view == View::Latest || exec.txn().has_writes_to(def.primary().id)
    }
}

/// Computes keys. What those of a table whose rows are changed are made of is evaluated again for each row that they
/// find: until then bad values are warnings, as in MySQL.
fn keys_of<R>(plan: &ScanPlan, env: &ExecEnv<'_>, compute: impl FnOnce() -> R) -> R {
    if plan.key_slot.is_none() {
        return compute();
    }
    let strict = env.ctx.diagnostics.strict_write.replace(false);
    let computed = compute();
    env.ctx.diagnostics.strict_write.set(strict);
    computed
}

impl ScanState {
    pub(super) fn open_base(
        &mut self,
        base: Base<'_>,
        row: &[Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<()> {
        let Base { plan, def, access } = base;
        if !matches!(access.kind, AccessKind::Ranges(_) | AccessKind::Skip(_)) {
            let (walk, keys) = walk_of(base.index(), access);
            self.reads.aim(counts_of(def, access), walk, keys);
        }
        match &access.kind {
            AccessKind::Full => self.open_ranges(base, vec![KeyRange::ALL], env),
            AccessKind::Point(operands) | AccessKind::Ref(operands) => {
                return self.open_key(base, operands, row, env);
            }
            AccessKind::Ranges(spec) => {
                let build = || spec.build(&base.index().codec, row, env);
                let mut ranges = keys_of(plan, env, build)?;
                let (walk, keys) = walk_of_ranges(base.index(), &ranges, access.reverse);
                self.reads.aim(counts_of(def, access), walk, keys);
                if access.reverse {
                    ranges.reverse();
                }
                self.open_ranges(base, ranges, env);
            }
            AccessKind::Skip(skip) => {
                let exec = env.exec.expect("an index is read");
                let reading = Reading::of(plan, exec);
                // Gaps between ranges would not be locked.
                let ranges = match reading.lock {
                    Some(_) => vec![KeyRange::ALL],
                    None => skip::ranges(skip, base, reading.view, row, env)?,
                };
                let (walk, keys) = walk_of_ranges(base.index(), &ranges, false);
                self.reads.aim(counts_of(def, access), walk, keys);
                self.open_ranges(base, ranges, env);
            }
            AccessKind::Match(call) => {
                let exec = env.exec.expect("MATCH reads a table");
                let view = Reading::of(plan, exec).view;
                self.input = Input::Found(fulltext::found_keys(call, view, env)?, 0);
            }
            AccessKind::Elements(search) => {
                let exec = env.exec.expect("an index is read");
                let place = elements::Place {
                    def,
                    index: base.index(),
                    view: Reading::of(plan, exec).view,
                };
                let found = elements::found_rows(search, place, row, (exec, env))?;
                self.input = Input::Found(found, 0);
            }
            AccessKind::Union(union) => {
                let walks = keys_of(plan, env, || union::walks(union, def, row, env))?;
                return self.open_union(plan, def, walks, env);
            }
        }
        Ok(())
    }

    /// Opens what begins with one key: a row, or entries that the seeker goes to or a cursor walks through.
    fn open_key(
        &mut self,
        base: Base<'_>,
        operands: &[KeyOperand],
        row: &[Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<()> {
        let (index, key) = (base.index(), &mut self.key);
        key.clear();
        let encode = || ranges::encode_operands(&index.codec, operands, row, env, key);
        if !keys_of(base.plan, env, encode)? {
            self.input = Input::Done;
            return Ok(());
        }
        let is_row = base.is_clustered() && matches!(base.access.kind, AccessKind::Point(_));
        if let Some(exec) = env.exec.filter(|e| is_steady(base.plan, base.access, e))
            && let Some(may_be_near) = self.lookups.is_sought(&self.key, is_row)
        {
            self.lookups.go_to(index, (&self.key, may_be_near), exec)?;
            self.input = Input::Sought;
        } else if is_row {
            self.input = Input::Point;
        } else {
            let range = KeyRange::prefix(self.key.clone());
            self.open_ranges(base, vec![range], env);
        }
        Ok(())
    }

    /// Opens ranges of the index, whose rows are locked before or after they are looked at, or not at all.
    fn open_ranges(&mut self, base: Base<'_>, ranges: Vec<KeyRange>, env: &ExecEnv<'_>) {
        let Base { plan, def, access } = base;
        let lock = env.exec.and_then(|exec| {
            lock_of(plan, exec).filter(|lock| !is_semi_consistent(*lock, access, exec))
        });
        self.input = match lock {
            Some(lock) => {
                let mut scan = LockingScan::new(lock, access.index, ranges, access.reverse);
                scan.deciding = deciding(plan, def, access);
                Input::Locking(Box::new(scan))
            }
            None => Input::Ranges(RangeWalk::new(ranges)),
        };
    }

    /// Opens ranges of several indexes.
    fn open_union(
        &mut self,
        plan: &ScanPlan,
        def: &TableDef,
        walks: Vec<(usize, Vec<KeyRange>)>,
        env: &ExecEnv<'_>,
    ) -> ExecResult<()> {
        if let Some(before) = self.union.take() {
            before.give_back(env);
        }
        let exec = env.exec.expect("indexes are read");
        self.input = match lock_of(plan, exec) {
            None => Input::Found(union::found_rows(&walks, def, exec.view, (exec, env))?, 0),
            Some(lock) => {
                let union = self.union.insert(Box::new(LockingUnion::new(lock, walks)));
                union
                    .next_scan()
                    .map_or(Input::Done, |scan| Input::Locking(Box::new(scan)))
            }
        };
        Ok(())
    }

    /// Goes on to the next row that meets the conditions.
    pub(super) fn next_base(
        &mut self,
        base: Base<'_>,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        let exec = env
            .exec
            .expect("a plan with tables runs with an execution context");
        let reading = Reading::of(base.plan, exec);
        loop {
            exec.tick()?;
            let judged = match &mut self.input {
                Input::Point => {
                    self.input = Input::Done;
                    Some(self.take_row_of_key(base, reading, row, env)?)
                }
                Input::Found(..) => self.take_next_found(base, reading, row, env)?,
                Input::Locking(_) => self.take_next_locked(base.plan, base.def, row, env)?,
                Input::Sought => self.take_next_sought(base, reading, row, env)?,
                Input::Ranges(_) => self.take_next_in_ranges(base, reading, row, env)?,
                _ => None,
            };
            let Some(verdict) = judged else {
                return Ok(false);
            };
            self.reads.add();
            if matches!(verdict, Verdict::Take) {
                if let (Input::Ranges(walk), Some(_)) = (&mut self.input, base.plan.first_of) {
                    walk.is_taken = true;
                }
                return Ok(true);
            }
        }
    }

    /// Judges the row of the next key that was found before.
    #[inline]
    fn take_next_found(
        &mut self,
        base: Base<'_>,
        reading: Reading,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<Option<Verdict>> {
        let Input::Found(keys, at) = &mut self.input else {
            return Ok(None);
        };
        let Some(key) = keys.get(*at) else {
            self.reads.end(1);
            return Ok(None);
        };
        *at += 1;
        set(&mut self.key, key);
        self.take_row_of_key(base, reading, row, env).map(Some)
    }

    /// Gets and judges the row of `self.key`, a whole key of the clustered index.
    #[inline]
    fn take_row_of_key(
        &mut self,
        Base { plan, def, .. }: Base<'_>,
        reading: Reading,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<Verdict> {
        match reading.lock {
            Some(lock) => self.take_point(plan, def, lock, row, env),
            None => self.take_stored(plan, def, reading.view, None, row, env),
        }
    }

    /// Judges the next entry that begins with the key that was looked for.
    #[inline]
    fn take_next_sought(
        &mut self,
        base: Base<'_>,
        reading: Reading,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<Option<Verdict>> {
        let Base { plan, def, access } = base;
        debug_assert!(reading.lock.is_none(), "a scan that locks seeks nothing");
        let seeker = self.lookups.seeker.as_mut().expect("it was placed");
        let entry = seeker.next().map_err(|e| engine_error(&e))?;
        let begins = |key: &[u8]| key.starts_with(&self.lookups.last);
        let Some((key, value)) = entry.filter(|(key, _)| begins(key)) else {
            self.input = Input::Done;
            self.reads.end(1);
            return Ok(None);
        };
        let verdict = if base.is_clustered() {
            judge_filtered(&mut self.filters, plan, def, (key, value), row, env)
        } else if access.covering {
            count_read(plan, env);
            self.cover
                .judge(plan, def, access.index, key, value, row, env)
        } else if !self
            .entry_filter
            .lets_pass(plan, (def, access.index), (key, value), row, env)?
        {
            Ok(Verdict::Drop)
        } else {
            set(&mut self.key, base.index().codec.clustered_of(key, value)?);
            self.take_stored(plan, def, reading.view, None, row, env)
        };
        verdict.map(Some)
    }

    /// Judges the next entry of the ranges.
    #[inline]
    fn take_next_in_ranges(
        &mut self,
        base: Base<'_>,
        reading: Reading,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<Option<Verdict>> {
        let Base { plan, def, access } = base;
        let exec = env.exec.expect("checked by the caller");
        let Input::Ranges(walk) = &mut self.input else {
            return Ok(None);
        };
        loop {
            if let Some(first_of) = plan.first_of.filter(|_| walk.is_taken) {
                walk.go_on(first_of, base, reading.view, exec)?;
            }
            if walk.cursor.is_none() && !walk.open_next(base, reading.view, exec)? {
                return Ok(None);
            }
            let entry = walk.cursor.as_mut().expect("just opened").next();
            let Some((key, value)) = entry.map_err(|e| engine_error(&e))? else {
                walk.end(access.reverse);
                self.reads.end(1);
                exec.tick()?;
                continue;
            };
            let codec = &base.index().codec;
            if let Some(first_of) = plan.first_of {
                walk.last.note(first_of, codec, key);
            }
            let verdict = if base.is_clustered() {
                set(&mut self.key, key);
                if reading.lock.is_none() && plan.row_slot.is_none() {
                    judge_filtered(&mut self.filters, plan, def, (&self.key, value), row, env)
                } else {
                    set(&mut self.stored, value);
                    match reading.lock {
                        Some(lock) => self.take_matching(plan, def, lock, row, env),
                        None => self.take_copied(plan, def, None, row, env),
                    }
                }
            } else {
                let may_be_stale = reading.entries_may_be_stale(def, exec);
                if access.covering && !may_be_stale {
                    count_read(plan, env);
                    self.cover
                        .judge(plan, def, access.index, key, value, row, env)
                } else if !self.entry_filter.lets_pass(
                    plan,
                    (def, access.index),
                    (key, value),
                    row,
                    env,
                )? {
                    Ok(Verdict::Drop)
                } else {
                    set(&mut self.key, codec.clustered_of(key, value)?);
                    let entry = may_be_stale.then(|| (access.index, key.to_vec()));
                    self.take_stored(plan, def, reading.view, entry, row, env)
                }
            };
            return verdict.map(Some);
        }
    }

    /// Gets the row of `self.key` and judges it.
    fn take_stored(
        &mut self,
        plan: &ScanPlan,
        def: &TableDef,
        view: View,
        entry: Option<(usize, Vec<u8>)>,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<Verdict> {
        let exec = env.exec.expect("checked by the caller");
        let tree = &def.primary().tree;
        // Conditions on a stored row that is lent by the transaction cannot give this to a function.
        if plan.row_slot.is_none() && entry.is_none() && !exec.calls_functions() {
            let (key, filters) = (&*self.key, &mut self.filters);
            let found = exec
                .txn()
                .get_with(tree, key, view, |stored| {
                    judge_filtered(filters, plan, def, (key, stored), row, env)
                })
                .map_err(|e| engine_error(&e))?;
            return found.unwrap_or(Ok(Verdict::Drop));
        }
        match self.read(def, view, exec)? {
            true => self.take_copied(plan, def, entry, row, env),
            false => Ok(Verdict::Drop),
        }
    }

    /// Copies the stored row of `self.key` into `self.stored`.
    pub(super) fn read(
        &mut self,
        def: &TableDef,
        view: View,
        exec: &ExecCtx<'_>,
    ) -> ExecResult<bool> {
        read_row(def, &self.key, view, &mut self.stored, exec)
    }

    /// Judges the copied row.
    pub(super) fn take_copied(
        &mut self,
        plan: &ScanPlan,
        def: &TableDef,
        entry: Option<(usize, Vec<u8>)>,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<Verdict> {
        match judge(plan, def, &self.key, &self.stored, row, env)? {
            Verdict::Take => self.check_entry(def, entry, Verdict::Take),
            Verdict::Drop => Ok(Verdict::Drop),
        }
    }

    /// Does the row still have the index entry that led here?
    fn check_entry(
        &self,
        def: &TableDef,
        entry: Option<(usize, Vec<u8>)>,
        verdict: Verdict,
    ) -> ExecResult<Verdict> {
        let Some((index, expected)) = entry else {
            return Ok(verdict);
        };
        let utc = jiff::tz::TimeZone::UTC;
        let reader = RowReader::new(&def.layout, &utc, &self.stored)?;
        let mut key = Vec::with_capacity(expected.len());
        def.indexes[index]
            .codec
            .entry(&reader, &self.key, &mut key)?;
        Ok(if key == expected {
            verdict
        } else {
            Verdict::Drop
        })
    }
}

/// Copies a stored row; false if it is not there.
pub(super) fn read_row(
    def: &TableDef,
    key: &[u8],
    view: View,
    stored: &mut Vec<u8>,
    exec: &ExecCtx<'_>,
) -> ExecResult<bool> {
    let found = exec
        .txn()
        .get_with(&def.primary().tree, key, view, |bytes| set(stored, bytes));
    Ok(found.map_err(|e| engine_error(&e))?.is_some())
}

/// How an access that reads no ranges goes through its index, and how many keys it looks for.
fn walk_of(index: &IndexDef, access: &Access) -> (Walk, u64) {
    debug_assert!(
        !matches!(access.kind, AccessKind::Ranges(_) | AccessKind::Skip(_)),
        "how many ranges there are is known when they are built"
    );
    match (&access.kind, access.reverse) {
        (AccessKind::Full, true) => (Walk::IndexBack, 0),
        (AccessKind::Full, false) if index.primary => (Walk::Table, 0),
        (AccessKind::Full, false) => (Walk::Index, 0),
        (AccessKind::Point(_), _) => (Walk::Unique, 1),
        _ => (Walk::Keys, 1),
    }
}

/// The same for ranges.
fn walk_of_ranges(index: &IndexDef, ranges: &[KeyRange], reverse: bool) -> (Walk, u64) {
    let is_key = index.unique && index.parts.len() == 1;
    let walk = match reverse {
        _ if is_key && ranges.iter().all(KeyRange::has_one_prefix) => Walk::Unique,
        true => Walk::KeysBack,
        false => Walk::Keys,
    };
    (walk, ranges.len() as u64)
}

/// Where the rows of an access are counted.
fn counts_of<'d>(def: &'d TableDef, access: &Access) -> &'d Arc<AccessCounts> {
    match &access.kind {
        AccessKind::Match(call) => def.accesses(call.index, false),
        kind => def.accesses(access.index, matches!(kind, AccessKind::Full)),
    }
}

/// Does the scan see one state of the index at every opening, whatever the statement does?
fn is_steady(plan: &ScanPlan, access: &Access, exec: &ExecCtx<'_>) -> bool {
    let is_plain = lock_of(plan, exec).is_none() && plan.row_slot.is_none() && !access.reverse;
    is_plain && exec.view == View::Snapshot && !exec.txn().has_writes()
}
