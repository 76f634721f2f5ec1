//! Reading one table into its slots.
//!
//! In flow order: this file (opening what the plan says, and going on to the next row), `lookups` (keys one after the
//! other), `judge` (conditions on stored rows), `cover` (index entries that have all columns), `locked` (rows that are
//! locked), `found` (keys that are gathered first), `union` (several indexes), `walk` (ranges).
//! Neighbours: `plan::access` chose the index, `plan::ranges` computes key ranges, `codec` reads rows,
//! `locking` and `ExecCtx` lock.
//! **Invariants**: a row is given only after every condition of the plan is true for the values given;
//! with a lock, those values are the latest ones read while the lock was held; an index entry read
//! without a snapshot is checked against its row, so no row comes twice because it moved.
//! A locked row that does not meet the conditions stays locked from REPEATABLE READ on, as in InnoDB; an UPDATE at READ
//! COMMITTED that scans the clustered index looks at the committed row first and locks it only if it meets them
//! (InnoDB's semi-consistent read).

mod cover;
mod found;
mod judge;
mod locked;
mod lookups;
mod union;
mod walk;

use std::sync::Arc;

use esker_engine::{Direction, View};
use esker_sql_catalog::catalog::{AccessCounts, IndexDef, ReadCount, TableDef, Walk};
use esker_sql_catalog::codec::{KeyRange, RowReader};
use esker_sql_catalog::exec_error::{ExecResult, engine_error};
use esker_sql_plan::expr::{FoundKeys, OuterRow};
use esker_sql_plan::plan::{Access, AccessKind, QueryPlan, ScanPlan, Source, ranges};
use esker_types::Value;

use super::ctx::ExecCtx;
use super::locking::LockingScan;
use super::memory::Budget;
use super::node::all_true;
use super::parallel::StoredRowFilter;
use super::recursive::SharedRows;
use super::root::RootExec;
use super::spill::{RowBuffer, RowCursor};
use super::{elements, fulltext};
use crate::ExecEnv;
pub(crate) use cover::Cover;
pub(crate) use found::Found;
pub(crate) use judge::{Verdict, assign, fill, meets};
use judge::{count_read, judge, judge_filtered};
use locked::{deciding, is_semi_consistent, lock_of};
use lookups::Lookups;
use union::LockingUnion;
use walk::{RangeWalk, set_leading};

/// State of a scan.
#[derive(Default)]
pub(crate) struct ScanState {
    input: Input,
    /// Clustered key of the current row, of a base table.
    key: Vec<u8>,
    /// Copy of the stored row where it must outlive the read.
    stored: Vec<u8>,
    cover: Cover,
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
                self.open_base(plan, def, access, row, env)
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

    fn open_base(
        &mut self,
        plan: &ScanPlan,
        def: &TableDef,
        access: &Access,
        row: &[Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<()> {
        let index = &def.indexes[access.index];
        let counts = counts_of(def, access);
        if !matches!(access.kind, AccessKind::Ranges(_)) {
            let (walk, keys) = walk_of(index, access);
            self.reads.aim(counts, walk, keys);
        }
        let ranges = match &access.kind {
            AccessKind::Full => vec![KeyRange::ALL],
            AccessKind::Point(operands) | AccessKind::Ref(operands) => {
                self.key.clear();
                let (codec, key) = (&index.codec, &mut self.key);
                let encode = || ranges::encode_operands(codec, operands, row, env, key);
                if !keys_of(plan, env, encode)? {
                    self.input = Input::Done;
                    return Ok(());
                }
                let is_point = access.index == 0 && matches!(access.kind, AccessKind::Point(_));
                if let Some(exec) = env.exec.filter(|e| is_steady(plan, access, e))
                    && let Some(may_be_near) = self.lookups.is_sought(&self.key, is_point)
                {
                    self.lookups.go_to(index, (&self.key, may_be_near), exec)?;
                    self.input = Input::Sought;
                    return Ok(());
                }
                if is_point {
                    self.input = Input::Point;
                    return Ok(());
                }
                vec![KeyRange::prefix(self.key.clone())]
            }
            AccessKind::Match(call) => {
                let exec = env.exec.expect("MATCH reads a table");
                let view = match lock_of(plan, exec) {
                    Some(_) => View::Latest,
                    None => exec.view,
                };
                self.input = Input::Found(fulltext::found_keys(call, view, env)?, 0);
                return Ok(());
            }
            AccessKind::Elements(search) => {
                let exec = env.exec.expect("an index is read");
                let view = match lock_of(plan, exec) {
                    Some(_) => View::Latest,
                    None => exec.view,
                };
                let place = elements::Place { def, index, view };
                let found = elements::found_rows(search, place, row, (exec, env))?;
                self.input = Input::Found(found, 0);
                return Ok(());
            }
            AccessKind::Union(union) => {
                let walks = keys_of(plan, env, || union::walks(union, def, row, env))?;
                return self.open_union(plan, def, walks, env);
            }
            AccessKind::Ranges(spec) => {
                let mut ranges = keys_of(plan, env, || spec.build(&index.codec, row, env))?;
                let (walk, keys) = walk_of_ranges(index, &ranges, access.reverse);
                self.reads.aim(counts, walk, keys);
                if access.reverse {
                    ranges.reverse();
                }
                ranges
            }
        };
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
        Ok(())
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

    pub fn next(
        &mut self,
        plan: &ScanPlan,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        match &plan.source {
            Source::Base { def, access, .. } => {
                let found = self.next_base(plan, def, access, row, env)?;
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

    fn next_base(
        &mut self,
        plan: &ScanPlan,
        def: &TableDef,
        access: &Access,
        row: &mut [Value],
        env: &ExecEnv<'_>,
    ) -> ExecResult<bool> {
        let exec = env
            .exec
            .expect("a plan with tables runs with an execution context");
        let lock = lock_of(plan, exec);
        let view = match lock {
            Some(_) => View::Latest,
            None => exec.view,
        };
        // The transaction's own changes build on the newest rows, so an entry of its snapshot may lead
        // to a row that it has meanwhile moved elsewhere in the index: then the row decides.
        let entries_may_be_stale =
            view == View::Latest || exec.txn().has_writes_to(def.primary().id);
        loop {
            exec.tick()?;
            let verdict = match &mut self.input {
                Input::Point => {
                    self.input = Input::Done;
                    match lock {
                        Some(lock) => self.take_point(plan, def, lock, row, env)?,
                        None => self.take_stored(plan, def, view, None, row, env)?,
                    }
                }
                Input::Found(keys, at) => {
                    let Some(key) = keys.get(*at) else {
                        self.reads.end(1);
                        return Ok(false);
                    };
                    *at += 1;
                    set(&mut self.key, key);
                    match lock {
                        Some(lock) => self.take_point(plan, def, lock, row, env)?,
                        None => self.take_stored(plan, def, view, None, row, env)?,
                    }
                }
                Input::Locking(_) => {
                    let Some(verdict) = self.take_next_locked(plan, def, row, env)? else {
                        self.reads.end_all();
                        return Ok(false);
                    };
                    verdict
                }
                Input::Sought => {
                    let seeker = self.lookups.seeker.as_mut().expect("it was placed");
                    let entry = seeker.next().map_err(|e| engine_error(&e))?;
                    let Some((key, value)) =
                        entry.filter(|(key, _)| key.starts_with(&self.lookups.last))
                    else {
                        self.input = Input::Done;
                        self.reads.end(1);
                        return Ok(false);
                    };
                    if access.index == 0 {
                        judge_filtered(&mut self.filters, plan, def, (key, value), row, env)?
                    } else if access.covering {
                        count_read(plan, env);
                        let index = access.index;
                        self.cover.judge(plan, def, index, key, value, row, env)?
                    } else {
                        let codec = &def.indexes[access.index].codec;
                        set(&mut self.key, codec.clustered_of(key, value)?);
                        self.take_stored(plan, def, view, None, row, env)?
                    }
                }
                Input::Ranges(walk) => {
                    if walk.is_taken {
                        walk.leap(access.reverse);
                    }
                    if walk.cursor.is_none() {
                        let Some(range) = walk.next_range() else {
                            return Ok(false);
                        };
                        let tree = &def.indexes[access.index].tree;
                        let direction = if access.reverse {
                            Direction::Backward
                        } else {
                            Direction::Forward
                        };
                        if range.is_empty() {
                            continue;
                        }
                        let (lower, upper) = (range.lower(), range.upper());
                        let opened = exec.txn().scan(tree, lower, upper, direction, view);
                        walk.cursor = Some(Box::new(opened.map_err(|e| engine_error(&e))?));
                    }
                    let entry = walk.cursor.as_mut().expect("just opened").next();
                    let Some((key, value)) = entry.map_err(|e| engine_error(&e))? else {
                        walk.cursor = None;
                        self.reads.end(1);
                        continue;
                    };
                    if let Some(parts) = plan.first_of {
                        let codec = &def.indexes[access.index].codec;
                        set_leading(&mut walk.leading, codec, parts, key);
                    }
                    if access.index == 0 {
                        set(&mut self.key, key);
                        if lock.is_none() && plan.row_slot.is_none() {
                            let entry = (&*self.key, value);
                            judge_filtered(&mut self.filters, plan, def, entry, row, env)?
                        } else {
                            set(&mut self.stored, value);
                            match lock {
                                Some(lock) => self.take_matching(plan, def, lock, row, env)?,
                                None => self.take_copied(plan, def, None, row, env)?,
                            }
                        }
                    } else if access.covering && !entries_may_be_stale {
                        if let Some(profile) = &env.states.profile {
                            profile.count_read(plan);
                        }
                        let index = access.index;
                        self.cover.judge(plan, def, index, key, value, row, env)?
                    } else {
                        let codec = &def.indexes[access.index].codec;
                        set(&mut self.key, codec.clustered_of(key, value)?);
                        let entry = entries_may_be_stale.then(|| (access.index, key.to_vec()));
                        self.take_stored(plan, def, view, entry, row, env)?
                    }
                }
                _ => return Ok(false),
            };
            self.reads.add();
            if matches!(verdict, Verdict::Take) {
                if let (Input::Ranges(walk), Some(_)) = (&mut self.input, plan.first_of) {
                    walk.is_taken = true;
                }
                return Ok(true);
            }
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
    fn read(&mut self, def: &TableDef, view: View, exec: &ExecCtx<'_>) -> ExecResult<bool> {
        read_row(def, &self.key, view, &mut self.stored, exec)
    }

    /// Judges the copied row.
    fn take_copied(
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

/// Copies a stored row; false if it is not there.
fn read_row(
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
        !matches!(access.kind, AccessKind::Ranges(_)),
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

fn set(buffer: &mut Vec<u8>, bytes: &[u8]) {
    buffer.clear();
    buffer.extend_from_slice(bytes);
}
