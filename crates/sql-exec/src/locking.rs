//! Locking scans: ranges of an index read row by row, each row locked before it is looked at.
//!
//! Neighbours: `scan` judges the rows; the engine's range locks keep others from inserting behind our back.
//!
//! A range is read in rounds. A round locks the gap ahead (from REPEATABLE READ on), asks for the uncommitted rows of
//! others, and then walks both these and the newest committed entries in key order. A row that somebody else has locked
//! ends the round: the gap is settled to what was read, the row is waited for, and a new round begins there, because by
//! now others may have committed what the old one could not see.
//!
//! **Invariants**
//! - While it waits, a scan holds no gap ahead of what it has read: whoever inserts there does not wait for it.
//! - When it ends, early or not, the gap is locked exactly as far as it has read.
//! - An entry of a unique secondary index that has a key of its own is locked before its row, so that a duplicate check
//!   waits for whoever has read the key with a lock, as in InnoDB. Writers lock it only when they change it.
//! - Rows that are left out, because they are in partitions that nobody asked for, are in no cover; the gap reaches
//!   over them.
//! - Of the clustered index, rows are locked by a cover, which needs no memory for each. SKIP LOCKED and NOWAIT, and
//!   READ COMMITTED, where rows that do not match are given back, take locks of single rows.

use std::collections::btree_map;
use std::iter::Peekable;

use esker_engine::scan::KeySpan;
use esker_engine::{Cursor, Direction, LockOutcome, ScanGap, Tree, TreeId, View, WaitPolicy};
use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::codec::KeyRange;
use esker_sql_catalog::exec_error::{ExecResult, engine_error};
use esker_sql_plan::bind::LockSpec;

use super::ctx::{ExecCtx, RowLock};

/// Uncommitted entries of others, in the direction of the scan.
enum Others {
    Forward(Peekable<btree_map::IntoIter<Vec<u8>, Vec<u8>>>),
    Backward(Peekable<std::iter::Rev<btree_map::IntoIter<Vec<u8>, Vec<u8>>>>),
}

impl Others {
    fn peek(&mut self) -> Option<&(Vec<u8>, Vec<u8>)> {
        match self {
            Self::Forward(entries) => entries.peek(),
            Self::Backward(entries) => entries.peek(),
        }
    }

    fn next(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        match self {
            Self::Forward(entries) => entries.next(),
            Self::Backward(entries) => entries.next(),
        }
    }
}

/// What is read without letting go of the gap.
struct Round {
    gap: Option<ScanGap>,
    cursor: Box<Cursor>,
    others: Others,
    /// The next committed entry, where it had to be looked at before its turn.
    committed: Option<(Vec<u8>, Vec<u8>)>,
    is_cursor_done: bool,
    /// Where the round ends, because there may be more uncommitted entries from here on.
    upto: Option<Vec<u8>>,
    /// The entry it stands on is what another transaction has written and not committed.
    is_other: bool,
}

/// A range under way.
struct Range {
    /// All of it.
    span: KeySpan,
    /// What of it is not read yet.
    rest: KeySpan,
    round: Option<Round>,
    /// Where its cover begins; none: where the range does.
    covered_from: CoveredFrom,
}

/// Where the cover of a range begins.
#[derive(Default)]
enum CoveredFrom {
    #[default]
    Begin,
    /// At the next row that is locked: the one before was left out.
    Next,
    /// At this key, as the end of a span that lies there.
    Key(Vec<u8>),
}

/// A scan of ranges of one index that locks what it reads.
pub(super) struct LockingScan {
    lock: LockSpec,
    /// The index, by position.
    pub(super) index: usize,
    direction: Direction,
    ranges: std::vec::IntoIter<KeyRange>,
    range: Option<Range>,
    /// Rows that are left out.
    pub(super) deciding: Deciding,
    /// The entry it stands on.
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

/// Which rows of a locking scan are in no partition that is asked for.
#[derive(Default)]
pub(super) struct Deciding {
    /// Those that do not meet these conditions, by position in the plan.
    pub(super) conds: Vec<usize>,
    /// All versions of a row do or do not meet them.
    pub(super) by_key: bool,
}

/// Which locks on an entry and its row are new with the last request.
#[derive(Clone, Copy)]
pub(super) struct NewLocks {
    row: bool,
    entry: bool,
}

/// What became of the row of an entry.
pub(super) enum Candidate {
    /// It is locked.
    Locked(NewLocks),
    /// It is not to be given: SKIP LOCKED met a conflict, or it had to be waited for and comes again.
    Passed,
}

impl LockingScan {
    pub(super) fn new(
        lock: LockSpec,
        index: usize,
        ranges: Vec<KeyRange>,
        is_backward: bool,
    ) -> Self {
        Self {
            lock,
            index,
            direction: match is_backward {
                true => Direction::Backward,
                false => Direction::Forward,
            },
            ranges: ranges.into_iter(),
            range: None,
            deciding: Deciding::default(),
            key: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Goes to the next entry; false at the end.
    pub(super) fn advance(&mut self, def: &TableDef, exec: &ExecCtx<'_>) -> ExecResult<bool> {
        let tree = &def.indexes[self.index].tree;
        loop {
            let range = match &mut self.range {
                Some(range) => range,
                None => {
                    let Some(range) = self.ranges.next() else {
                        return Ok(false);
                    };
                    let span = KeySpan::new(range.lower(), range.upper());
                    if span.is_empty() {
                        continue;
                    }
                    self.range.insert(Range {
                        rest: span.clone(),
                        span,
                        round: None,
                        covered_from: CoveredFrom::Begin,
                    })
                }
            };
            if range.round.is_none() {
                range.round = Some(Round::begin(tree, &range.rest, self.direction, exec)?);
            }
            debug_assert!(!range.span.is_empty(), "empty ranges are left out");
            let round = range.round.as_mut().expect("just begun");
            if round.next(self.direction, (&mut self.key, &mut self.value))? {
                range.stand_at(&self.key, self.direction);
                return Ok(true);
            }
            match round.upto.take() {
                Some(key) => {
                    range.stand_at(&key, self.direction);
                    range.finalize(self.direction);
                }
                None => {
                    range.settle_whole();
                    self.range = None;
                }
            }
        }
    }

    /// Whether what it has of the entry that it stands on says where the row is: others may undo what they have not
    /// committed.
    pub(super) fn knows_partition(&self) -> bool {
        let round = self.range.as_ref().and_then(|range| range.round.as_ref());
        self.deciding.by_key || round.is_some_and(|round| !round.is_other)
    }

    /// Goes past the entry it stands on and locks nothing but the gap.
    pub(super) fn leave_out(&mut self) {
        self.pass();
        if let Some(range) = &mut self.range {
            range.covered_from = CoveredFrom::Next;
        }
    }

    /// Locks the entry it stands on, where that is a unique key, and its row.
    pub(super) fn lock(
        &mut self,
        def: &TableDef,
        row: &[u8],
        exec: &ExecCtx<'_>,
    ) -> ExecResult<Candidate> {
        let mut new = NewLocks {
            row: false,
            entry: false,
        };
        debug_assert!(!self.key.is_empty(), "it stands at an entry");
        let index = &def.indexes[self.index];
        // Without a value the entry has a NULL: no duplicate check looks at it.
        if self.index > 0 && index.unique && !self.value.is_empty() {
            let (tree, key) = (index.id, self.key.clone());
            let mode = self.lock.mode;
            let request = |_: &Self, policy| {
                let outcome = exec.txn().lock(tree, &key, mode, policy);
                Ok(outcome.map_err(|e| engine_error(&e))?)
            };
            match self.lock_or_wait(request, exec)? {
                Some(is_new) => new.entry = is_new,
                None => return Ok(Candidate::Passed),
            }
        }
        if let Some(range) = &mut self.range {
            range.begin_cover(row, self.direction);
        }
        let tree = def.primary().id;
        let request = |scan: &Self, policy| scan.request(tree, row, policy, exec);
        let Some(is_new) = self.lock_or_wait(request, exec)? else {
            if self.lock.policy != WaitPolicy::Wait {
                self.release_entry(def, new, exec);
            }
            return Ok(Candidate::Passed);
        };
        new.row = is_new;
        self.pass();
        Ok(Candidate::Locked(new))
    }

    /// Gives back locks on the entry it stands on and its row, which turned out not to be wanted.
    pub(super) fn release(&self, def: &TableDef, row: &[u8], new: NewLocks, exec: &ExecCtx<'_>) {
        if new.row {
            exec.txn().release(def.primary().id, row);
        }
        self.release_entry(def, new, exec);
    }

    fn release_entry(&self, def: &TableDef, new: NewLocks, exec: &ExecCtx<'_>) {
        if new.entry {
            exec.txn().release(def.indexes[self.index].id, &self.key);
        }
    }

    /// Makes a request; whether the lock is new. `None` if it is not to be had: the entry is passed over, or, after a
    /// wait, comes again.
    fn lock_or_wait(
        &mut self,
        request: impl Fn(&Self, WaitPolicy) -> ExecResult<LockOutcome>,
        exec: &ExecCtx<'_>,
    ) -> ExecResult<Option<bool>> {
        let policy = match self.lock.policy {
            WaitPolicy::Wait => WaitPolicy::Skip,
            other => other,
        };
        match request(self, policy)? {
            LockOutcome::Granted { new } => return Ok(Some(new)),
            LockOutcome::Skipped | LockOutcome::Wait(_) => {}
        }
        if self.lock.policy != WaitPolicy::Wait {
            self.pass();
            return Ok(None);
        }
        if let Some(range) = &mut self.range {
            range.finalize(self.direction);
        }
        exec.granted(|| request(self, WaitPolicy::Wait))?;
        Ok(None)
    }

    fn request(
        &self,
        tree: TreeId,
        row: &[u8],
        policy: WaitPolicy,
        exec: &ExecCtx<'_>,
    ) -> ExecResult<LockOutcome> {
        let mode = self.lock.mode;
        let is_covered =
            self.index == 0 && self.lock.policy == WaitPolicy::Wait && exec.txn().locks_gaps();
        let outcome = match &self.range {
            Some(range) if is_covered => {
                let read = range.read_to(row, self.direction);
                exec.txn().cover(tree, read, row, mode, policy)
            }
            _ => exec.txn().lock(tree, row, mode, policy),
        };
        Ok(outcome.map_err(|e| engine_error(&e))?)
    }

    /// The entry has been read.
    fn pass(&mut self) {
        if let Some(range) = &mut self.range {
            range.pass(self.direction);
        }
    }
}

impl Drop for LockingScan {
    fn drop(&mut self) {
        if let Some(range) = &mut self.range {
            range.finalize(self.direction);
        }
    }
}

impl Range {
    /// What lies before the key has been read; the key is next.
    fn stand_at(&mut self, key: &[u8], direction: Direction) {
        match direction {
            Direction::Forward => set(&mut self.rest.lower, key),
            Direction::Backward => {
                let upper = self.rest.upper.get_or_insert_default();
                set(upper, key);
                upper.push(0);
            }
        }
    }

    /// The key it stands at has been read, too.
    fn pass(&mut self, direction: Direction) {
        match direction {
            Direction::Forward => self.rest.lower.push(0),
            Direction::Backward => {
                let behind = self.rest.upper.as_mut().and_then(Vec::pop);
                debug_assert_eq!(behind, Some(0), "it stands at a key");
            }
        }
    }

    /// Behind a row that was left out, the cover begins at `row`.
    fn begin_cover(&mut self, row: &[u8], direction: Direction) {
        if !matches!(self.covered_from, CoveredFrom::Next) {
            return;
        }
        let own = KeySpan::of_key(row);
        self.covered_from = match (direction, own.upper) {
            (Direction::Backward, Some(upper)) => CoveredFrom::Key(upper),
            _ => CoveredFrom::Key(own.lower),
        };
    }

    /// What has been read, since a row was left out, when `row`, of the clustered index, has.
    fn read_to(&self, row: &[u8], direction: Direction) -> KeySpan {
        let from = match &self.covered_from {
            CoveredFrom::Key(key) => Some(key),
            CoveredFrom::Begin | CoveredFrom::Next => None,
        };
        match direction {
            Direction::Forward => KeySpan {
                lower: from.unwrap_or(&self.span.lower).clone(),
                upper: KeySpan::of_key(row).upper,
            },
            Direction::Backward => KeySpan {
                lower: row.to_vec(),
                upper: from.or(self.span.upper.as_ref()).cloned(),
            },
        }
    }

    /// Ends the round with the gap locked as far as the range has been read.
    fn finalize(&mut self, direction: Direction) {
        let read = match direction {
            Direction::Forward => KeySpan {
                lower: self.span.lower.clone(),
                upper: Some(self.rest.lower.clone()),
            },
            Direction::Backward => KeySpan {
                lower: self.rest.upper.clone().unwrap_or_default(),
                upper: self.span.upper.clone(),
            },
        };
        // Of a range that ends nowhere, nothing has been read backwards before its first entry.
        let is_unread = direction == Direction::Backward && self.rest.upper.is_none();
        if let Some(gap) = self.round.take().and_then(|round| round.gap) {
            match is_unread || read.is_empty() {
                true => drop(gap),
                false => gap.finalize(read),
            }
        }
    }

    fn settle_whole(&mut self) {
        if let Some(gap) = self.round.take().and_then(|round| round.gap) {
            gap.finalize(self.span.clone());
        }
    }
}

impl Round {
    fn begin(
        tree: &Tree,
        rest: &KeySpan,
        direction: Direction,
        exec: &ExecCtx<'_>,
    ) -> ExecResult<Self> {
        let failed = |e| engine_error(&e);
        let txn = exec.txn();
        // In this order: what comes into the range after the gap is locked waits, what came before is either
        // uncommitted or in the tree.
        let gap = match txn.locks_gaps() {
            true => Some(txn.lock_ahead(tree.id(), rest.clone()).map_err(failed)?),
            false => None,
        };
        let found = txn.uncommitted(tree.id(), rest, direction);
        let found = found.map_err(failed)?;
        let entries = found.entries.into_iter();
        let upper = rest.upper.as_ref();
        let cursor = txn.scan(
            tree,
            std::ops::Bound::Included(&*rest.lower),
            upper.map_or(std::ops::Bound::Unbounded, |key| {
                std::ops::Bound::Excluded(&**key)
            }),
            direction,
            View::Latest,
        );
        Ok(Self {
            gap,
            cursor: Box::new(cursor.map_err(failed)?),
            others: match direction {
                Direction::Forward => Others::Forward(entries.peekable()),
                Direction::Backward => Others::Backward(entries.rev().peekable()),
            },
            committed: None,
            is_cursor_done: false,
            upto: found.upto,
            is_other: false,
        })
    }

    /// The next entry of both; false at the end of the round.
    fn next(
        &mut self,
        direction: Direction,
        (key, value): (&mut Vec<u8>, &mut Vec<u8>),
    ) -> ExecResult<bool> {
        if self.committed.is_none() && !self.is_cursor_done {
            match self.cursor.next().map_err(|e| engine_error(&e))? {
                None => self.is_cursor_done = true,
                Some((k, v)) if self.others.peek().is_none() && self.upto.is_none() => {
                    self.is_other = false;
                    set(key, k);
                    set(value, v);
                    return Ok(true);
                }
                Some((k, v)) => self.committed = Some((k.to_vec(), v.to_vec())),
            }
        }
        let comes_first = |a: &[u8], b: &[u8]| match direction {
            Direction::Forward => a < b,
            Direction::Backward => a > b,
        };
        let is_other = match (self.others.peek(), &self.committed) {
            (Some((other, _)), Some((own, _))) => !comes_first(own, other),
            (other, _) => other.is_some(),
        };
        self.is_other = is_other;
        let entry = match is_other {
            true => {
                let other = self.others.next();
                // The same key in both: the row is read again under its lock, so one of them is enough.
                self.committed
                    .take_if(|(own, _)| other.as_ref().is_some_and(|(key, _)| key == own));
                other
            }
            false => {
                let is_within = |(own, _): &mut (Vec<u8>, Vec<u8>)| {
                    self.upto.as_ref().is_none_or(|upto| comes_first(own, upto))
                };
                self.committed.take_if(is_within)
            }
        };
        let Some(entry) = entry else {
            return Ok(false);
        };
        (*key, *value) = entry;
        Ok(true)
    }
}

/// Locks a whole key of the clustered index. At REPEATABLE READ a key that is not there is locked as a gap, so that
/// nobody else inserts it; several may do that. Gives what `read` gives: whether the row is there.
pub(super) fn lock_point(
    lock: LockSpec,
    tree: &Tree,
    key: &[u8],
    exec: &ExecCtx<'_>,
    mut read: impl FnMut() -> ExecResult<bool>,
) -> ExecResult<Option<RowLock>> {
    let failed = |e| engine_error(&e);
    let mut is_wanted = read()?;
    loop {
        if is_wanted {
            let locked = exec.lock_row(tree.id(), key, lock.mode, lock.policy)?;
            let RowLock::Granted { new } = locked else {
                return Ok(Some(RowLock::Skipped));
            };
            if read()? {
                return Ok(Some(locked));
            }
            if new {
                exec.txn().release(tree.id(), key);
            }
        }
        let span = KeySpan::of_key(key);
        if exec.txn().locks_gaps() {
            exec.txn()
                .lock_gap(tree.id(), span.clone())
                .map_err(failed)?;
        }
        let coming = exec.txn().uncommitted(tree.id(), &span, Direction::Forward);
        is_wanted = !coming.map_err(failed)?.entries.is_empty() || read()?;
        if !is_wanted {
            return Ok(None);
        }
    }
}

fn set(buffer: &mut Vec<u8>, bytes: &[u8]) {
    buffer.clear();
    buffer.extend_from_slice(bytes);
}
