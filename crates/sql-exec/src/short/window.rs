//! Which rows of a short SELECT are wanted: LIMIT and OFFSET, and how many rows are gathered for them.
//!
//! Neighbours: `select` sends the rows, or sorts them first.
//! **Invariant**: what is gathered before anything is sent is bounded.

use esker_types::Value;

use super::{Limit, place};

/// Rows that an execution gathers before it sends any. More is for the general path, which has threads for them,
/// answers for the memory and can be killed.
pub(super) const MOST_GATHERED_ROWS: usize = 10_000;
/// Rows that are sorted for each one that LIMIT wants, and beside that.
const SORTED_PER_WANTED: u64 = 8;
const ALWAYS_SORTED: u64 = 64;

/// Which of the rows that are met are wanted: what is left of OFFSET and LIMIT.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub skip: u64,
    pub take: u64,
}

impl Window {
    /// Which rows are wanted; `None` if that is no number, or skips many: they are read by a thread that may take long.
    pub fn of(limit: Option<&Limit>, params: &[Value]) -> Option<Self> {
        let Some(limit) = limit else {
            return Some(Self::default());
        };
        let skip = match &limit.offset {
            None => 0,
            Some(offset) => place::count(offset, params)?,
        };
        let take = place::count(&limit.count, params)?;
        (skip <= MOST_GATHERED_ROWS as u64).then_some(Self { skip, take })
    }

    /// Most rows that are sorted for it. Of more, few are wanted: an index in their order may give them sooner, which a
    /// plan weighs.
    pub fn most_sorted(&self) -> usize {
        let wanted = self.skip.saturating_add(self.take);
        let most = wanted
            .saturating_mul(SORTED_PER_WANTED)
            .saturating_add(ALWAYS_SORTED);
        most.min(MOST_GATHERED_ROWS as u64) as usize
    }

    /// Leaves of rows that are all there those that are wanted.
    pub fn cut<T>(self, rows: &mut Vec<T>) {
        let skip = self.skip.min(rows.len() as u64) as usize;
        rows.drain(..skip);
        rows.truncate(usize::try_from(self.take).unwrap_or(usize::MAX));
    }
}

impl Default for Window {
    fn default() -> Self {
        Window {
            skip: 0,
            take: u64::MAX,
        }
    }
}
