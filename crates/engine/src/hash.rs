//! The key hash: multiply and fold (wyhash style).
//!
//! Neighbours: the filters of extents (where it is part of the format), the lock table, the keys of a memtable. Each
//! has its own beginning, factor and end.
//!
//! **Invariants**
//! - What it gives never changes: filters on disk were made with it.

/// The exclusive or of the halves of the 128-bit product.
#[inline]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// Folds bytes into a state, eight at a time and little-endian; the last group is filled up with zeros. The length does
/// not count by itself.
#[inline]
pub(crate) fn fold_bytes(mut state: u64, bytes: &[u8], factor: u64) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state = fold(state ^ u64::from_le_bytes(*word), factor);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        state = fold(state ^ u64::from_le_bytes(word), factor);
    }
    state
}
