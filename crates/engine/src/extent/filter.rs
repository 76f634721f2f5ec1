//! Blocked Bloom filter over user keys: one cache line per probe.
//!
//! Neighbours: `writer` builds it, `index::Tail` keeps it, `reader` asks it. The bits are described in
//! `docs/formats/extent.md`.
//!
//! **Invariants**
//! - Never says no for a key that was added. The hash is part of the disk format and never changes.

use esker_vfs::pages::prefetch;

use crate::codec::Malformed;
use crate::hash::{fold, fold_bytes};

const LINE_BYTES: usize = 64;
/// More probes would not fit the distribution of the multiplier.
const MAX_PROBES: u8 = 16;
const _: () = assert!(
    LINE_BYTES * 8 == 1 << 9,
    "nine bits of a product name a bit of a line"
);

/// Hash of a user key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash(u64);

impl KeyHash {
    #[inline]
    pub(crate) fn of(key: &[u8]) -> Self {
        let begin = 0x517C_C1B7_2722_0A95 ^ (key.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let hash = fold_bytes(begin, key, 0xA076_1D64_78BD_642F);
        KeyHash(fold(hash, 0xE703_7ED1_A0B4_28DB))
    }

    /// True for one key in 32.
    #[inline]
    pub(crate) fn is_sample(self) -> bool {
        self.0 & 31 == 0
    }

    #[inline]
    fn line(self, lines: usize) -> usize {
        (((self.0 >> 32) * lines as u64) >> 32) as usize
    }

    #[inline]
    fn bits(self, probes: u8) -> impl Iterator<Item = usize> {
        let mut x = self.0 as u32;
        (0..probes).map(move |_| {
            x = x.wrapping_mul(0x9E37_79B9);
            (x >> 23) as usize
        })
    }
}

/// Bytes of the filter for so many keys.
pub(super) fn filter_bytes(keys: usize, bits_per_key: usize) -> usize {
    1 + (keys * bits_per_key).div_ceil(LINE_BYTES * 8).max(1) * LINE_BYTES
}

/// Encodes the filter for these keys.
pub(super) fn build(hashes: &[KeyHash], bits_per_key: usize, out: &mut Vec<u8>) {
    out.clear();
    // The best number of probes is bits_per_key * ln 2, a little less as all of them are in one line.
    let probes = ((bits_per_key * 6).div_ceil(10) as u8).clamp(1, MAX_PROBES);
    out.resize(filter_bytes(hashes.len(), bits_per_key), 0);
    out[0] = probes;
    let (lines, _) = out[1..].as_chunks_mut::<LINE_BYTES>();
    debug_assert!(bits_per_key > 0 && !lines.is_empty());
    let count = lines.len();
    for hash in hashes {
        let line = &mut lines[hash.line(count)];
        for bit in hash.bits(probes) {
            line[bit / 8] |= 1 << (bit % 8);
        }
    }
}

/// A filter in memory.
pub(crate) struct Filter {
    bytes: Box<[u8]>,
}

impl Filter {
    pub(super) fn new(bytes: Box<[u8]>) -> Result<Self, Malformed> {
        let lines = bytes.len().saturating_sub(1);
        if lines == 0 || !lines.is_multiple_of(LINE_BYTES) || bytes[0] == 0 || bytes[0] > MAX_PROBES
        {
            return Err("the filter is malformed");
        }
        Ok(Filter { bytes })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    fn line_of(&self, hash: KeyHash) -> &[u8; LINE_BYTES] {
        let (lines, _) = self.bytes[1..].as_chunks();
        &lines[hash.line(lines.len())]
    }

    /// The answer for this hash will be wanted soon.
    pub(super) fn prefetch(&self, hash: KeyHash) {
        prefetch(self.line_of(hash));
    }

    /// False if no version of the key is in the extent.
    #[inline]
    pub(crate) fn may_contain(&self, hash: KeyHash) -> bool {
        let line = self.line_of(hash);
        hash.bits(self.bytes[0])
            .all(|bit| line[bit / 8] & (1 << (bit % 8)) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> Vec<u8> {
        format!("user/{n:08}").into_bytes()
    }

    #[test]
    fn no_key_is_missed_and_few_strangers_pass() {
        let mut bytes = Vec::new();
        for keys in [1, 10, 1000, 20_000] {
            let hashes: Vec<KeyHash> = (0..keys).map(|n| KeyHash::of(&key(n))).collect();
            build(&hashes, 10, &mut bytes);
            assert_eq!(bytes.len(), filter_bytes(keys as usize, 10));
            let filter = Filter::new(bytes.clone().into()).unwrap();
            assert!((0..keys).all(|n| filter.may_contain(KeyHash::of(&key(n)))));
            let strangers = 20_000;
            let passed = (keys..keys + strangers)
                .filter(|n| filter.may_contain(KeyHash::of(&key(*n))))
                .count();
            assert!(
                passed < strangers as usize / 40,
                "{passed} of {strangers} pass at {keys} keys"
            );
        }
    }

    #[test]
    fn the_hash_is_frozen() {
        // Filters on disk were built with these values.
        assert_eq!(KeyHash::of(b"").0, 0x6E72_B65D_F644_9FFF);
        assert_eq!(KeyHash::of(b"esker").0, 0xBF05_7741_64EE_50D1);
        assert_eq!(KeyHash::of(b"0123456789abcdef!").0, 0x8A43_AC05_6833_026B);
    }

    #[test]
    fn malformed_filters_are_refused() {
        for bytes in [vec![], vec![6], vec![0; 65], vec![6; 64], vec![17; 65]] {
            assert!(Filter::new(bytes.into()).is_err());
        }
    }
}
