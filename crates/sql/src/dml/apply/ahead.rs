//! Looking ahead: the rows of many changes of a table without a usable key, found in one pass over it.
//!
//! A hash join of what the events have (build) with the table (probe). Neighbours: `find` asks for what was found, and
//! says when a search has become long; the statement hands in what comes. **Invariants**
//! - What was found is a candidate: it is read again under its lock, and compared as a whole.
//! - A change for which nothing was found is searched for, since one before it in the statement may have made its row.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::ops::Bound;

use esker_engine::{Direction, View};
use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::exec_error::ExecError;
use esker_types::SqlResult;

use super::columns::{Columns, OwnImage};
use super::find::note_fetched;
use crate::dml::DmlEnv;

/// Changes of one pass: what is found takes some hundred bytes each at most.
pub(super) const MOST_AHEAD: usize = 1 << 16;
/// Rows between two looks whether the session was killed.
const CHECK_EVERY: u64 = 1024;

/// What comes, and what was found for it.
#[derive(Default)]
pub(super) struct Ahead {
    /// Changes that were announced and have not come.
    expected: usize,
    /// The columns that their images have.
    has: Vec<bool>,
    /// By the digest of an image how many rows are wanted.
    wanted: HashMap<u64, usize>,
    /// And their keys, those that are taken first at the end.
    found: HashMap<u64, Vec<Vec<u8>>>,
}

impl Ahead {
    /// Have all come that were announced?
    pub(super) fn is_over(&self) -> bool {
        self.expected == 0
    }

    /// A change of this image comes. False: its image has other columns than those before, so the pass ends here.
    pub(super) fn expect(
        &mut self,
        table: &TableDef,
        columns: &Columns,
        image: &OwnImage,
    ) -> SqlResult<bool> {
        let has: Vec<bool> = image.iter().map(Option::is_some).collect();
        if self.expected == 0 {
            self.has = has;
        } else if self.has != has {
            return Ok(false);
        }
        let digest = digest_of_image(table, columns, image);
        *self.wanted.entry(digest).or_default() += 1;
        self.expected += 1;
        Ok(true)
    }

    /// Looks for the rows of everything that is expected.
    pub(super) fn pass(
        &mut self,
        env: &DmlEnv<'_>,
        table: &TableDef,
        columns: &Columns,
    ) -> Result<(), ExecError> {
        let mut left: usize = self.wanted.values().sum();
        let (all, forward) = (Bound::Unbounded, Direction::Forward);
        let tree = &table.primary().tree;
        let mut cursor = env.txn.scan(tree, all, all, forward, View::Latest)?;
        let mut nth = 0u64;
        while left > 0
            && let Some((key, row)) = cursor.next()?
        {
            nth += 1;
            if nth.is_multiple_of(CHECK_EVERY) {
                (env.check_killed)()?;
            }
            let mut digest = DefaultHasher::new();
            columns.digest_stored(table, &self.has, row, &mut digest)?;
            let digest = digest.finish();
            let Some(wanted) = self.wanted.get_mut(&digest).filter(|n| **n > 0) else {
                continue;
            };
            *wanted -= 1;
            left -= 1;
            self.found.entry(digest).or_default().push(key.to_vec());
        }
        note_fetched(table, (table.primary(), true), nth);
        self.found.values_mut().for_each(|keys| keys.reverse());
        self.wanted.clear();
        Ok(())
    }

    /// A change that was announced comes: keys of rows that may be its own, one after the other.
    pub(super) fn comes(&mut self, table: &TableDef, columns: &Columns, image: &OwnImage) -> u64 {
        self.expected = self.expected.saturating_sub(1);
        digest_of_image(table, columns, image)
    }

    /// The next of them.
    pub(super) fn candidate(&mut self, digest: u64) -> Option<Vec<u8>> {
        self.found.get_mut(&digest)?.pop()
    }
}

fn digest_of_image(table: &TableDef, columns: &Columns, image: &OwnImage) -> u64 {
    let mut digest = DefaultHasher::new();
    columns.digest_image(table, image, &mut digest);
    digest.finish()
}
