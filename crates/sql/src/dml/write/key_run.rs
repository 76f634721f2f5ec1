//! Runs of successive keys, as a bulk insert into an AUTO_INCREMENT table brings them.
//!
//! Neighbours: `insert::run` follows the keys of its rows here; `write` locks a run by one range lock that grows,
//! instead of one lock for each row, which is a fifth of the work of a long INSERT.
//!
//! **Invariant**: between two keys of a run there is no key of a row: the second is the first as a number, of the same
//! length, plus one. So the range lock stands for the same rows as the locks it saves.

use std::ops::Bound;

use esker_engine::scan::{KeySpan, is_successor};

/// A statement's keys before this one of a run are locked one by one: short statements leave range locks alone, which
/// make row locks of others in the table a little dearer.
const SINGLE_KEYS: u32 = 32;

/// The keys of the rows that a statement has inserted last.
#[derive(Debug, Default)]
pub(in crate::dml) struct KeyRun {
    last: Vec<u8>,
    length: u32,
}

impl KeyRun {
    /// The next key. If the run that it continues is long, the keys behind the one before, up to this one.
    pub(in crate::dml) fn next(&mut self, key: &[u8]) -> Option<KeySpan> {
        self.length = match is_successor(&self.last, key) {
            true => self.length.saturating_add(1),
            false => 0,
        };
        let is_long = self.length >= SINGLE_KEYS;
        let span = is_long.then(|| KeySpan::new(Bound::Excluded(&self.last), Bound::Included(key)));
        self.last.clear();
        self.last.extend_from_slice(key);
        span
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_is_told_of_until_it_breaks() {
        let mut run = KeyRun::default();
        let mut told = |n: u32| run.next(&n.to_be_bytes());
        let first: Vec<_> = (0..=SINGLE_KEYS).map(&mut told).collect();
        let (last, before) = first.split_last().expect("not empty");
        assert!(before.iter().all(Option::is_none));
        let span = last.as_ref().expect("the run is long");
        let key = SINGLE_KEYS.to_be_bytes();
        assert!(span.contains(&key) && !span.contains(&(SINGLE_KEYS - 1).to_be_bytes()));
        assert!(!span.contains(&(SINGLE_KEYS + 1).to_be_bytes()));
        assert!(told(SINGLE_KEYS + 1).is_some());
        assert!(told(SINGLE_KEYS + 3).is_none());
        assert!(told(SINGLE_KEYS + 4).is_none());
    }
}
