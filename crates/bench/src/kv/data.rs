//! Keys and values of `esker bench kv`, made as RocksDB's `db_bench` makes its own.
//!
//! Neighbours: the steps of `run` draw from them.
//!
//! **Invariants**
//! - A key is its number, big-endian, filled up with the digit zero: the order of keys is the order of numbers.
//! - The bytes of values depend on nothing but the seed.

use esker_vfs::sim::SimRng;

/// Bytes of the number in a key.
const NUMBER_BYTES: usize = 8;
/// Values are cut from this many bytes.
const POOL_BYTES: usize = 1 << 20;
/// The pool consists of pieces that are compressible each by itself.
const PIECE_BYTES: usize = 100;

/// Shortest key.
pub(crate) const MIN_KEY_BYTES: u64 = NUMBER_BYTES as u64;
/// Longest value.
pub(crate) const MAX_VALUE_BYTES: u64 = POOL_BYTES as u64;

/// A buffer for one key at a time.
pub(crate) struct Key(Vec<u8>);

impl Key {
    pub(crate) fn new(bytes: usize) -> Self {
        assert!(bytes >= NUMBER_BYTES, "the number fits into the key");
        Key(vec![b'0'; bytes])
    }

    /// The key of this number.
    #[inline]
    pub(crate) fn of(&mut self, number: u64) -> &[u8] {
        self.0[..NUMBER_BYTES].copy_from_slice(&number.to_be_bytes());
        &self.0
    }

    /// A key right behind that of this number, which nobody ever writes.
    #[inline]
    pub(crate) fn missing(&mut self, number: u64) -> &[u8] {
        self.of(number);
        if let Some(last) = self.0.last_mut() {
            *last = b'1';
        }
        &self.0
    }
}

/// Values that a compressor makes about half as large.
pub(crate) struct Values {
    pool: Vec<u8>,
    bytes: usize,
    at: usize,
}

impl Values {
    pub(crate) fn new(bytes: usize, seed: u64) -> Self {
        let mut rng = SimRng::new(seed);
        let mut pool = Vec::with_capacity(POOL_BYTES + bytes + PIECE_BYTES);
        while pool.len() < POOL_BYTES + bytes {
            let half: Vec<u8> = (0..PIECE_BYTES / 2)
                .map(|_| b' ' + rng.below(95) as u8)
                .collect();
            pool.extend_from_slice(&half);
            pool.extend_from_slice(&half);
        }
        Values { pool, bytes, at: 0 }
    }

    /// The next value.
    #[inline]
    pub(crate) fn next(&mut self) -> &[u8] {
        if self.at >= POOL_BYTES {
            self.at = 0;
        }
        let value = &self.pool[self.at..self.at + self.bytes];
        self.at += self.bytes.max(1);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_their_numbers_and_missing_ones_lie_between() {
        let mut key = Key::new(16);
        let mut all = Vec::new();
        for number in [0, 1, 255, 256, 70_000] {
            all.push(key.of(number).to_vec());
            all.push(key.missing(number).to_vec());
            key = Key::new(16);
        }
        assert!(all.is_sorted_by(|a, b| a < b), "{all:?}");
        assert!(all.iter().all(|key| key.len() == 16));
    }

    #[test]
    fn values_have_their_size_and_repeat_themselves_inside() {
        let mut values = Values::new(100, 1);
        let first = values.next().to_vec();
        assert_eq!(first[..50], first[50..]);
        for _ in 0..20_000 {
            assert_eq!(values.next().len(), 100);
        }
        assert_eq!(Values::new(100, 1).next(), first);
        assert_ne!(Values::new(100, 2).next(), first);
    }
}
