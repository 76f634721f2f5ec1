//! Which transactions may be applied side by side: those that changed no key in common.
//!
//! A replica starts a transaction when everything up to its `last_committed` is committed. Here that is the last one
//! that changed one of its keys, as far back as the history goes. Neighbours: `sql` hashes keys with [`key_hash`];
//! `derive` numbers transactions. **Invariants**: a transaction depends on every earlier one of the same file that
//! changed one of its keys; equal keys have equal hashes, so a collision only makes replicas wait.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Most keys of which the last change is remembered: MySQL's `binlog_transaction_dependency_history_size`.
pub const HISTORY_KEYS: usize = 25_000;

/// An odd number without a pattern: 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a transaction changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteSet {
    /// Not known, or not by key: everything before must be committed first.
    Everything,
    /// Hashes of keys.
    Keys(Vec<u64>),
}

/// The hash of a key of an index.
pub fn key_hash(index: u64, key: &[u8]) -> u64 {
    // Multiply and rotate, eight bytes at a time; a 64 bit hash of keys that nobody chooses to collide.
    let step = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    let mut hash = step(key.len() as u64, index);
    let mut chunks = key.chunks_exact(8);
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        hash = step(hash, u64::from_le_bytes(word));
    }
    let mut word = [0; 8];
    word[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    hash = step(hash, u64::from_le_bytes(word));
    hash ^ hash >> 32
}

/// Hashes the hashes of keys once more, with a secret: nobody can choose keys that all share a place of the map.
#[derive(Debug, Clone)]
struct Secret(u64);

impl Default for Secret {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Secret {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded(self.0)
    }
}

/// A product of 128 bits, folded.
#[derive(Debug)]
struct Folded(u64);

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(FACTOR);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        self.write_u64(key_hash(0, bytes));
    }
}

/// Who changed which key last.
#[derive(Debug, Default)]
pub struct History {
    changed: HashMap<u64, i64, Secret>,
    /// Every transaction depends on this one.
    floor: i64,
}

impl History {
    /// The `last_committed` of the transaction `sequence`, which follows all others.
    pub fn commit(&mut self, sequence: i64, writes: &WriteSet) -> i64 {
        debug_assert!(sequence > self.floor);
        let keys = match writes {
            WriteSet::Keys(keys) if keys.len() <= HISTORY_KEYS => keys,
            _ => {
                self.changed.clear();
                self.floor = sequence;
                return sequence - 1;
            }
        };
        let mut last = self.floor;
        for key in keys {
            if let Some(earlier) = self.changed.insert(*key, sequence)
                && earlier != sequence
            {
                last = last.max(earlier);
            }
        }
        if self.changed.len() > HISTORY_KEYS {
            self.changed.clear();
            self.floor = sequence;
        }
        last
    }

    /// Forgets all: a file has been begun, or `sequence` was given before a restart.
    pub fn restart(&mut self, sequence: i64) {
        self.changed.clear();
        self.floor = sequence;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(keys: &[u64]) -> WriteSet {
        WriteSet::Keys(keys.to_vec())
    }

    #[test]
    fn only_common_keys_make_transactions_wait() {
        let mut history = History::default();
        assert_eq!(history.commit(1, &keys(&[1, 1])), 0);
        assert_eq!(history.commit(2, &keys(&[2])), 0);
        assert_eq!(history.commit(3, &keys(&[2, 1])), 2);
        assert_eq!(history.commit(4, &keys(&[3])), 0);
    }

    #[test]
    fn a_statement_waits_for_all_and_all_wait_for_it() {
        let mut history = History::default();
        history.commit(1, &keys(&[1]));
        assert_eq!(history.commit(2, &WriteSet::Everything), 1);
        assert_eq!(history.commit(3, &keys(&[9])), 2);
        history.restart(7);
        assert_eq!(history.commit(8, &keys(&[1])), 7);
    }

    #[test]
    fn history_is_bounded() {
        let mut history = History::default();
        for sequence in 1..=HISTORY_KEYS as i64 + 1 {
            history.commit(sequence, &keys(&[sequence as u64]));
        }
        assert!(history.changed.is_empty());
        let floor = HISTORY_KEYS as i64 + 1;
        assert_eq!(history.commit(floor + 1, &keys(&[1])), floor);
    }

    #[test]
    fn hashes_tell_indexes_and_lengths_apart() {
        let hashes = [
            key_hash(1, b""),
            key_hash(1, b"\0"),
            key_hash(2, b""),
            key_hash(1, b"12345678"),
            key_hash(1, b"12345678\0"),
        ];
        for (at, hash) in hashes.iter().enumerate() {
            assert!(!hashes[at + 1..].contains(hash), "{at}");
        }
    }
}
