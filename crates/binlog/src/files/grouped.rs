//! The files as the stages of an ordered commit share them: what is written, synced and shown at the same time.
//!
//! Neighbours: the engine's stages come in from above (`sql` and the simulation carry its calls over);
//! [`group`](super::group) does the steps on the [`FileSet`]. **Invariants**
//! - Nobody syncs while holding the set, so the next group is written meanwhile. What is said to be synced never falls.
//! - Groups are shown in the order in which they were appended; there are as many under way as stages.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::group::{Group, SyncPoint};
use super::set::FileSet;
use super::view::Published;
use crate::Result;
use crate::spool::Spools;

/// The files.
pub struct GroupedFiles {
    state: Mutex<State>,
}

struct State {
    set: FileSet,
    /// Written, and not shown.
    under_way: VecDeque<Group>,
    /// Groups that were written since the last sync.
    unsynced: u64,
    synced: Arc<SyncPoint>,
    /// It is in the position.
    is_noted: bool,
}

impl State {
    fn is_due(&self, every: u64) -> bool {
        every > 0 && self.unsynced >= every
    }
}

impl GroupedFiles {
    /// Shares a set that was opened for this.
    pub fn new(set: FileSet) -> Self {
        let synced = Arc::new(set.sync_point());
        let state = State {
            set,
            under_way: VecDeque::new(),
            unsynced: 0,
            synced,
            is_noted: true,
        };
        GroupedFiles {
            state: Mutex::new(state),
        }
    }

    /// What readers see.
    pub fn published(&self) -> Arc<Published> {
        self.state.lock().set.published()
    }

    /// Where sessions put the events of large transactions.
    pub fn spools(&self) -> Arc<Spools> {
        self.state.lock().set.spools()
    }

    /// Appends a group, whose first transaction has this number; nothing of it after an error.
    pub fn append<'a>(
        &self,
        first: u64,
        group: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<usize> {
        let mut state = self.state.lock();
        let group = state.set.append_group(first, group)?;
        let transactions = group.transactions();
        state.under_way.push_back(group);
        state.unsynced += 1;
        Ok(transactions)
    }

    /// Does the next [`GroupedFiles::sync`] with this number sync?
    pub fn is_sync_due(&self, every: u64) -> bool {
        self.state.lock().is_due(every)
    }

    /// Syncs what was appended, if that is `every` groups by now; 0: never. Whether it has.
    pub fn sync(&self, every: u64) -> Result<bool> {
        let point = {
            let mut state = self.state.lock();
            if !state.is_due(every) {
                return Ok(false);
            }
            state.unsynced = 0;
            Arc::new(state.set.sync_point())
        };
        point.sync()?;
        let mut state = self.state.lock();
        // Another one may have synced more, or begun a file.
        if point.end() > state.synced.end() {
            if state.under_way.is_empty() {
                state.set.show_synced(point.end());
            }
            (state.synced, state.is_noted) = (point, false);
        }
        Ok(true)
    }

    /// Shows the oldest groups that are under way: the engine has committed so many transactions, with these sequences.
    pub fn committed(&self, mut commits: &[Option<u64>]) {
        let mut state = self.state.lock();
        let synced = state.synced.end();
        while !commits.is_empty() {
            let group = state.under_way.pop_front().expect("what commits is there");
            let (of_group, rest) = commits.split_at(group.transactions());
            state.set.show_group(group, of_group, synced);
            commits = rest;
        }
    }

    /// Is there something to do for which nothing may be under way?
    pub fn is_full(&self) -> bool {
        self.state.lock().set.is_full()
    }

    /// Notes how far the files are synced, if that is not done.
    pub fn note(&self) -> Result<()> {
        let mut state = self.state.lock();
        if !state.is_noted {
            let point = Arc::clone(&state.synced);
            state.set.note_synced(&point)?;
            state.is_noted = true;
        }
        Ok(())
    }

    /// Does something with the files for which everything is synced and shown first, up to `lsn`. The caller sees to it
    /// that nothing is under way.
    pub fn paused<R>(&self, lsn: u64, f: impl FnOnce(&mut FileSet) -> Result<R>) -> Result<R> {
        let mut state = self.state.lock();
        assert!(state.under_way.is_empty(), "nothing is under way");
        let shown = lsn.max(state.set.lsn());
        state.set.skip_to(shown);
        state.set.sync()?;
        let done = f(&mut state.set);
        (state.unsynced, state.is_noted) = (0, true);
        state.synced = Arc::new(state.set.sync_point());
        done
    }

    /// Does something with the files that does not touch the last one.
    pub fn beside<R>(&self, f: impl FnOnce(&mut FileSet) -> R) -> R {
        f(&mut self.state.lock().set)
    }
}
