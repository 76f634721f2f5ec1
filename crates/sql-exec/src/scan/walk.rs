//! Walking through ranges of an index, with leaps over entries that begin as the last one did.
//!
//! Neighbours: `scan` opens a walk and judges its entries; the planner says of how many leading key parts the first
//! entry is enough (a loose index scan).
//! **Invariant**: a leap passes over entries alone whose leading parts are those of an entry that was taken.

use std::ops::Bound;

use esker_engine::{Cursor, Direction, View};
use esker_sql_catalog::codec::{KeyCodec, KeyRange, prefix_successor};
use esker_sql_catalog::exec_error::{ExecResult, engine_error};

use super::base::Base;
use crate::ctx::ExecCtx;

/// Ranges that are read one after the other.
pub(super) struct RangeWalk {
    ranges: Vec<KeyRange>,
    at: usize,
    pub cursor: Option<Box<Cursor>>,
    /// The leading parts of the last entry, of a loose index scan.
    pub leading: Vec<u8>,
    /// That entry was taken.
    pub is_taken: bool,
}

impl RangeWalk {
    pub fn new(ranges: Vec<KeyRange>) -> Self {
        Self {
            ranges,
            at: 0,
            cursor: None,
            leading: Vec::new(),
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
        let direction = match base.access.reverse {
            true => Direction::Backward,
            false => Direction::Forward,
        };
        loop {
            self.at += 1;
            let Some(range) = self.ranges.get(self.at - 1) else {
                return Ok(false);
            };
            if range.is_empty() {
                exec.tick()?;
                continue;
            }
            let (tree, txn) = (&base.index().tree, exec.txn());
            let opened = txn.scan(tree, range.lower(), range.upper(), direction, view);
            self.cursor = Some(Box::new(opened.map_err(|e| engine_error(&e))?));
            return Ok(true);
        }
    }

    /// Goes on behind the entries that begin as the one that was taken.
    pub fn leap(&mut self, reverse: bool) {
        debug_assert!(
            self.is_taken && self.at > 0,
            "an entry of a range was taken"
        );
        debug_assert!(!self.leading.is_empty(), "keys have leading parts");
        self.is_taken = false;
        self.cursor = None;
        self.at -= 1;
        let range = &mut self.ranges[self.at];
        let mut leading = std::mem::take(&mut self.leading);
        match reverse {
            true => range.upper = Bound::Excluded(leading),
            false if prefix_successor(&mut leading) => range.lower = Bound::Included(leading),
            // Nothing comes behind them.
            false => self.at += 1,
        }
    }
}

/// Puts the first `parts` parts of a key into `leading`.
pub(super) fn set_leading(leading: &mut Vec<u8>, codec: &KeyCodec, parts: usize, key: &[u8]) {
    let mut len = 0;
    for nth in 0..parts {
        len += codec.part_len(nth, &key[len..]).unwrap_or(key.len() - len);
    }
    debug_assert!(
        0 < len && len <= key.len(),
        "the key of an entry has all parts"
    );
    leading.clear();
    leading.extend_from_slice(&key[..len]);
}
