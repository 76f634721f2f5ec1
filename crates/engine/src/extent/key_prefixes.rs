//! Key prefixes: binary search over abbreviated keys, eight bytes of each close together.
//!
//! Neighbours: `index::Tail` finds blocks with it, `tree::levels::Run` finds extents.
//!
//! **Invariants**
//! - What is outside of [`KeyPrefixes::candidates`] compares with the key as its side says; inside nothing is known.

use std::cmp::Ordering;
use std::ops::Range;

/// The first bytes of sorted keys behind what all of them begin with.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyPrefixes {
    prefix: Box<[u8]>,
    /// Big-endian, filled up with zeros: numbers compare as keys do, but different keys may have the same.
    prefixes: Box<[u64]>,
}

#[inline]
fn prefix_word(rest: &[u8]) -> u64 {
    if let Some(bytes) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(bytes)
}

impl KeyPrefixes {
    /// For keys in ascending order; equal ones may follow each other.
    pub(crate) fn new<'a>(keys: impl DoubleEndedIterator<Item = &'a [u8]> + Clone) -> Self {
        let (Some(first), Some(last)) = (keys.clone().next(), keys.clone().next_back()) else {
            return KeyPrefixes::default();
        };
        let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        // Damaged keys may be out of order and shorter.
        let prefixes = keys.map(|key| prefix_word(key.get(common..).unwrap_or_default()));
        KeyPrefixes {
            prefix: first[..common].into(),
            prefixes: prefixes.collect(),
        }
    }

    /// Bytes in memory, besides itself.
    pub(crate) fn bytes(&self) -> usize {
        self.prefix.len() + self.prefixes.len() * size_of::<u64>()
    }

    /// The keys that may be equal to `key`: all before are smaller, all behind are larger.
    #[inline]
    pub(crate) fn candidates(&self, key: &[u8]) -> Range<usize> {
        let all = self.prefixes.len();
        let start = &key[..key.len().min(self.prefix.len())];
        match start.cmp(&self.prefix) {
            Ordering::Less => return 0..0,
            Ordering::Greater => return all..all,
            Ordering::Equal => {}
        }
        let wanted = prefix_word(&key[self.prefix.len()..]);
        let from = self.prefixes.partition_point(|hint| *hint < wanted);
        let rest = &self.prefixes[from..];
        from..from + rest.partition_point(|hint| *hint <= wanted)
    }

    /// The first of the sorted keys for which `is_before` is false; `is_before` holds for every key smaller than `key`,
    /// for no larger one, and is asked only about those that may be equal.
    #[inline]
    pub(crate) fn partition_point(
        &self,
        key: &[u8],
        mut is_before: impl FnMut(usize) -> bool,
    ) -> usize {
        let Range {
            start: mut low,
            end: mut high,
        } = self.candidates(key);
        while low < high {
            let middle = low + (high - low) / 2;
            match is_before(middle) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> impl Strategy<Value = Vec<u8>> {
        (any::<bool>(), prop::collection::vec(0..3u8, 0..12)).prop_map(|(is_prefixed, rest)| {
            match is_prefixed {
                true => [b"prefix", &rest[..]].concat(),
                false => rest,
            }
        })
    }

    proptest! {
        #[test]
        fn a_search_finds_what_comparing_all_keys_finds(
            mut keys in prop::collection::vec(key(), 0..60),
            cut in any::<bool>(),
            wanted in prop::collection::vec(key(), 40),
        ) {
            if cut {
                keys.retain(|key| key.starts_with(b"prefix"));
            }
            keys.sort();
            let prefixes = KeyPrefixes::new(keys.iter().map(Vec::as_slice));
            for wanted in wanted {
                let candidates = prefixes.candidates(&wanted);
                prop_assert!(keys[..candidates.start].iter().all(|key| *key < wanted));
                prop_assert!(keys[candidates.end..].iter().all(|key| *key > wanted));
                let found = prefixes.partition_point(&wanted, |at| keys[at] < wanted);
                prop_assert_eq!(found, keys.partition_point(|key| *key < wanted));
            }
        }
    }
}
