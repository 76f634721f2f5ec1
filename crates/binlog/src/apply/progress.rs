//! What a channel has applied: everything up to an ordinal, and some behind it.
//!
//! Neighbours: the applier says what has been committed; `state` is the form of it in the database.
//! **Invariants**: `low` only rises, and everything up to it is applied; what is `ahead` lies above it.

use std::collections::BTreeMap;

use super::state::{Applied, ChannelState};
use super::{Group, Id, Place};

/// What is known of a group that was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Its number.
    pub ordinal: u64,
    /// What it is called.
    pub id: Id,
    /// Where it ends.
    pub end: Place,
    /// When it was committed first, microseconds since the epoch.
    pub original_micros: u64,
}

impl From<Group> for Done {
    fn from(group: Group) -> Self {
        Self {
            ordinal: group.ordinal,
            id: group.id,
            end: group.end,
            original_micros: group.original_micros,
        }
    }
}

/// Counts what is applied.
#[derive(Debug, Clone)]
pub struct Progress {
    state: ChannelState,
    ahead: BTreeMap<u64, Applied>,
    last_micros: u64,
}

impl Progress {
    /// Goes on behind a state.
    pub fn new(mut state: ChannelState) -> Self {
        let ahead = std::mem::take(&mut state.ahead);
        let mut progress = Self {
            state,
            ahead,
            last_micros: 0,
        };
        progress.settle();
        progress
    }

    /// A group is applied.
    pub fn done(&mut self, done: Done) {
        debug_assert!(done.ordinal > self.state.low, "a group is applied once");
        self.last_micros = done.original_micros;
        let applied = Applied {
            id: done.id,
            end: done.end,
        };
        self.ahead.insert(done.ordinal, applied);
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(applied) = self.ahead.remove(&(self.state.low + 1)) {
            self.state.low += 1;
            self.state.add(&applied.id);
            self.state.end = applied.end;
        }
    }

    /// Was this group applied?
    pub fn has(&self, ordinal: u64, id: &Id) -> bool {
        ordinal <= self.state.low || self.ahead.contains_key(&ordinal) || self.state.has(id)
    }

    /// Everything up to here is applied.
    pub fn low(&self) -> u64 {
        self.state.low
    }

    /// State of all that is applied without gaps, with what is ahead of it.
    pub fn state(&self) -> ChannelState {
        ChannelState {
            ahead: self.ahead.clone(),
            ..self.state.clone()
        }
    }

    /// The same without what is ahead: what a checkpoint says.
    pub fn checkpoint(&self) -> &ChannelState {
        &self.state
    }

    /// When the last one that ended was committed first, microseconds since the epoch; 0: there was none.
    pub fn last_micros(&self) -> u64 {
        self.last_micros
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(ordinal: u64) -> Done {
        Done {
            ordinal,
            id: Id::Position,
            end: Place {
                source_pos: ordinal * 100,
                ..Place::default()
            },
            original_micros: ordinal,
        }
    }

    #[test]
    fn the_low_mark_waits_for_gaps() {
        let mut progress = Progress::new(ChannelState::default());
        progress.done(done(2));
        progress.done(done(4));
        assert_eq!(progress.low(), 0);
        assert!(progress.has(2, &Id::Position) && !progress.has(3, &Id::Position));
        progress.done(done(1));
        assert_eq!(
            (progress.low(), progress.checkpoint().end.source_pos),
            (2, 200)
        );
        let mut again = Progress::new(progress.state());
        again.done(done(3));
        assert_eq!((again.low(), again.checkpoint().end.source_pos), (4, 400));
    }
}
