//! Known keys of an extent: whether single keys have a row in it, cached so that counts need not search its blocks
//! again.
//!
//! Neighbours: `scan::below` learns it and asks for it; `cache` keeps it among the blocks, under the place of the
//! extent's header.
//!
//! **Invariants**
//! - The keys ascend. What is known stays true: an extent does not change.

use std::sync::Arc;

use super::HEADER_BYTES;
use super::reader::Extent;
use crate::budget::{Charge, MemoryUse};

/// Where the cache has it: no block and no tail begins there.
pub(super) const PLACE: u32 = 0;
const _: () = assert!((PLACE as usize) < HEADER_BYTES);

/// Keys, and whether the newest version of each is there and a put.
#[derive(Default)]
pub(crate) struct KnownKeys {
    bytes: Vec<u8>,
    /// Where each ends in `bytes`.
    keys: Vec<(u32, bool)>,
    /// Its memory, once it is cached.
    charge: Charge,
}

impl KnownKeys {
    /// Adds a key behind all others; its number.
    pub(crate) fn push(&mut self, key: &[u8], is_row: bool) -> usize {
        self.bytes.extend_from_slice(key);
        let end = u32::try_from(self.bytes.len()).expect("who adds keys sees to their length");
        self.keys.push((end, is_row));
        self.keys.len() - 1
    }

    /// Corrects what was said of a key.
    pub(crate) fn set(&mut self, number: usize, is_row: bool) {
        self.keys[number].1 = is_row;
    }

    /// The key with this number, and whether it is a row.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<(&[u8], bool)> {
        let (end, is_row) = *self.keys.get(number)?;
        let start = number
            .checked_sub(1)
            .map_or(0, |before| self.keys[before].0);
        Some((&self.bytes[start as usize..end as usize], is_row))
    }

    /// Bytes of all keys.
    pub(crate) fn key_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.keys.clear();
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.capacity() + self.keys.capacity() * size_of::<(u32, bool)>() + size_of::<Self>()
    }
}

impl Extent {
    /// What is known of its keys, if anything is.
    pub(crate) fn known_keys(&self) -> Option<Arc<KnownKeys>> {
        self.cache().known_keys(self.meta().stamp, PLACE)
    }

    /// Keeps this in the place of what was known before, as long as the cache has room for it.
    pub(crate) fn remember_keys(&self, known_keys: &KnownKeys) {
        let mut kept = KnownKeys {
            bytes: known_keys.bytes.clone(),
            keys: known_keys.keys.clone(),
            charge: Charge::default(),
        };
        kept.charge = Charge::of(self.cache().budget(), MemoryUse::Blocks, kept.bytes());
        self.cache().remember_keys(self.meta().stamp, PLACE, kept);
    }
}
