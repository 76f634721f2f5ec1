//! Walking through ranges of an index, with leaps over entries that begin as the last one did.
//!
//! Neighbours: `scan` opens a walk and judges its entries; the planner says of how many leading key parts the first
//! entry is enough, or the first and the last (a loose index scan).
//! **Invariant**: a leap passes over entries alone whose leading parts are those of an entry that was taken, and over
//! NULLs behind one that was; the last one of them, where it is wanted, has been taken before.

use std::ops::Bound;

use esker_engine::{Cursor, Direction, View};
use esker_sql_catalog::codec::{KeyCodec, KeyRange, prefix_successor};
use esker_sql_catalog::exec_error::{ExecResult, engine_error};
use esker_sql_plan::plan::FirstOf;

use super::base::Base;
use crate::ctx::ExecCtx;

/// Ranges that are read one after the other.
pub(super) struct RangeWalk {
    ranges: Vec<KeyRange>,
    at: usize,
    pub cursor: Option<Box<Cursor>>,
    /// Of a loose index scan.
    pub last: LastEntry,
    /// That entry was taken.
    pub is_taken: bool,
}

/// What a loose index scan knows of the entry that it has read last.
#[derive(Default)]
pub(super) struct LastEntry {
    /// Its leading parts, and a NULL behind them that is passed over.
    leading: Vec<u8>,
    /// That NULL is there.
    is_null: bool,
    /// The entries that begin so are read from the other end.
    is_turned: bool,
}

impl LastEntry {
    /// Notes how the entry that is read begins.
    pub fn note(&mut self, first_of: FirstOf, codec: &KeyCodec, key: &[u8]) {
        let mut len = 0;
        for nth in 0..first_of.parts {
            len += codec.part_len(nth, &key[len..]).unwrap_or(key.len() - len);
        }
        debug_assert!(
            0 < len && len <= key.len(),
            "the key of an entry has all parts"
        );
        let passes_nulls = first_of.passes_nulls && !self.is_turned;
        let is_null = passes_nulls && codec.is_null(first_of.parts, &key[len..]);
        if is_null {
            len += codec.part_len(first_of.parts, &key[len..]).unwrap_or(0);
        }
        self.is_null = is_null;
        self.leading.clear();
        self.leading.extend_from_slice(&key[..len]);
    }
}

impl RangeWalk {
    pub fn new(ranges: Vec<KeyRange>) -> Self {
        Self {
            ranges,
            at: 0,
            cursor: None,
            last: LastEntry::default(),
            is_taken: false,
        }
    }

    /// Opens the next range that may have entries; there is none behind the last.
    pub fn open_next(
        &mut self,
        base: Base<'_>,
        view: View,
        exec: &ExecCtx<'_>,
    ) -> ExecResult<bool> {
        debug_assert!(self.cursor.is_none(), "one range is read after the other");
        loop {
            self.at += 1;
            let Some(range) = self.ranges.get(self.at - 1) else {
                return Ok(false);
            };
            if range.is_empty() {
                exec.tick()?;
                continue;
            }
            self.cursor = Some(open(range, base.access.reverse, base, view, exec)?);
            return Ok(true);
        }
    }

    /// Goes on behind the entry that was taken: to the last one that begins so, or to one that does not.
    pub fn go_on(
        &mut self,
        first_of: FirstOf,
        base: Base<'_>,
        view: View,
        exec: &ExecCtx<'_>,
    ) -> ExecResult<()> {
        debug_assert!(
            self.is_taken && self.at > 0,
            "an entry of a range was taken"
        );
        self.is_taken = false;
        let reverse = base.access.reverse;
        let last = &mut self.last;
        if first_of.with_last && !last.is_null && !last.is_turned {
            last.is_turned = true;
            let rest = beginning_with(&self.ranges[self.at - 1], &last.leading);
            self.cursor = Some(open(&rest, !reverse, base, view, exec)?);
        } else {
            last.is_turned = false;
            self.leap(reverse);
        }
        Ok(())
    }

    /// Ends a range, or what begins as the entry that was taken before.
    pub fn end(&mut self, reverse: bool) {
        self.cursor = None;
        if std::mem::take(&mut self.last.is_turned) {
            self.leap(reverse);
        }
    }

    /// Goes on behind the entries that begin as the one that was taken.
    fn leap(&mut self, reverse: bool) {
        debug_assert!(!self.last.leading.is_empty(), "keys have leading parts");
        self.cursor = None;
        self.at -= 1;
        let range = &mut self.ranges[self.at];
        let mut leading = std::mem::take(&mut self.last.leading);
        match reverse {
            true => range.upper = Bound::Excluded(leading),
            false if prefix_successor(&mut leading) => range.lower = Bound::Included(leading),
            // Nothing comes behind them.
            false => self.at += 1,
        }
    }
}

fn open(
    range: &KeyRange,
    reverse: bool,
    base: Base<'_>,
    view: View,
    exec: &ExecCtx<'_>,
) -> ExecResult<Box<Cursor>> {
    let direction = match reverse {
        true => Direction::Backward,
        false => Direction::Forward,
    };
    let (tree, txn) = (&base.index().tree, exec.txn());
    let opened = txn.scan(tree, range.lower(), range.upper(), direction, view);
    Ok(Box::new(opened.map_err(|e| engine_error(&e))?))
}

/// The part of a range whose keys begin so.
fn beginning_with(range: &KeyRange, leading: &[u8]) -> KeyRange {
    let KeyRange { lower, upper } = KeyRange::prefix(leading.to_vec());
    let is_inside = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Included(key) | Bound::Excluded(key) => key.starts_with(leading),
        Bound::Unbounded => false,
    };
    KeyRange {
        lower: if is_inside(&range.lower) {
            range.lower.clone()
        } else {
            lower
        },
        upper: if is_inside(&range.upper) {
            range.upper.clone()
        } else {
            upper
        },
    }
}
