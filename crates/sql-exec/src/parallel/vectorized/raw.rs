//! Memoisation by stored bytes: equal bytes are equal values, so a result found for one holds for all.
//!
//! Neighbours: `nodes` keeps results of what is evaluated row at a time, `fold` numbers of groups. **Invariants**: a
//! key says of each field whether it is NULL or missing, and its bytes, so two rows with different fields never share
//! one; at most [`MOST_KEYS`] of at most [`MOST_KEY_BYTES`] together are kept. When no more are, and less than half
//! of what was looked up was there, nothing is looked up any more: long texts and documents soon come to that.

use esker_sql_catalog::codec::Raw;

use crate::join_table::KeyMap;

/// Keys that a map keeps.
const MOST_KEYS: usize = 8192;
/// Bytes of these keys.
const MOST_KEY_BYTES: usize = 128 << 10;
/// Rough bytes of an entry, beside its key.
const ENTRY_BYTES: u64 = 64;
/// Short keys that are found without the map.
const NEAR: usize = 256;
/// Bytes of a short key: its length goes with it.
const SHORT_BYTES: usize = 15;
const _: () = assert!(NEAR.is_power_of_two() && SHORT_BYTES < size_of::<u128>());
/// First bytes of a field in a key; longer fields have their length in four bytes.
const NULL: u8 = 0;
const MISSING: u8 = 1;
const LONG: u8 = u8::MAX;
const FIRST_LENGTH: usize = 2;

/// Appends a field to a key.
#[inline]
pub(super) fn push(field: Raw<'_>, key: &mut Vec<u8>) {
    match field {
        Raw::Null => key.push(NULL),
        Raw::Missing => key.push(MISSING),
        Raw::Bytes(bytes) => {
            let len = bytes.len() + FIRST_LENGTH;
            debug_assert!(u32::try_from(bytes.len()).is_ok());
            if len < usize::from(LONG) {
                key.push(len as u8);
            } else {
                key.push(LONG);
                key.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            }
            key.extend_from_slice(bytes);
        }
    }
}

/// Appends a number, or NULL, to a key of numbers.
#[inline]
pub(super) fn push_number(number: Option<i64>, key: &mut Vec<u8>) {
    key.push(number.is_some().into());
    key.extend_from_slice(&number.unwrap_or(0).to_le_bytes());
}

/// What is known by key.
pub(super) struct RawMap<T> {
    /// Some short keys, each at the one place where it can be; none is 0.
    near: Box<[(u128, T); NEAR]>,
    all: KeyMap<T>,
    key_bytes: usize,
    hits: u64,
    misses: u64,
    /// Looking is not worth it.
    is_off: bool,
}

impl<T: Copy + Default> Default for RawMap<T> {
    fn default() -> Self {
        Self {
            near: Box::new([(0, T::default()); NEAR]),
            all: KeyMap::default(),
            key_bytes: 0,
            hits: 0,
            misses: 0,
            is_off: false,
        }
    }
}

/// A short key as a number that is not 0.
#[inline]
fn short(key: &[u8]) -> Option<u128> {
    if key.len() > SHORT_BYTES {
        return None;
    }
    let mut bytes = [0; size_of::<u128>()];
    bytes[..key.len()].copy_from_slice(key);
    bytes[SHORT_BYTES] = key.len() as u8 + 1;
    Some(u128::from_le_bytes(bytes))
}

#[inline]
fn near_at(short: u128) -> usize {
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    let folded = (short >> 64) as u64 ^ (short as u64).wrapping_mul(SPREAD);
    (folded.wrapping_mul(SPREAD) >> 56) as usize % NEAR
}

impl<T: Copy> RawMap<T> {
    /// Whether keys need not be made.
    pub(super) fn is_off(&self) -> bool {
        self.is_off
    }

    #[inline]
    pub(super) fn get(&mut self, key: &[u8]) -> Option<T> {
        if self.is_off {
            return None;
        }
        let short = short(key);
        if let Some(short) = short {
            let (known, value) = self.near[near_at(short)];
            if known == short {
                self.hits += 1;
                return Some(value);
            }
        }
        let Some(value) = self.all.get(key).copied() else {
            self.misses += 1;
            return None;
        };
        self.hits += 1;
        if let Some(short) = short {
            self.near[near_at(short)] = (short, value);
        }
        Some(value)
    }

    /// Enters what [`Self::get`] did not find; gives the bytes that took.
    pub(super) fn insert(&mut self, key: &[u8], value: T) -> u64 {
        let has_room = self.key_bytes + key.len() <= MOST_KEY_BYTES;
        if has_room && self.all.len() < MOST_KEYS {
            self.all.insert(key.into(), value);
            self.key_bytes += key.len();
            return key.len() as u64 + ENTRY_BYTES;
        }
        let is_full = self.all.len() >= MOST_KEYS || self.key_bytes >= MOST_KEY_BYTES / 2;
        self.is_off |= is_full && self.misses > self.hits;
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(fields: &[Raw<'_>]) -> Vec<u8> {
        let mut key = Vec::new();
        fields.iter().for_each(|field| push(*field, &mut key));
        key
    }

    #[test]
    fn different_fields_have_different_keys() {
        let long = [0; 300];
        let rows: [&[Raw<'_>]; 10] = [
            &[Raw::Null, Raw::Null],
            &[Raw::Null, Raw::Missing],
            &[Raw::Null, Raw::Bytes(b"")],
            &[Raw::Bytes(b""), Raw::Null],
            &[Raw::Bytes(b"a"), Raw::Bytes(b"b")],
            &[Raw::Bytes(b"ab"), Raw::Bytes(b"")],
            &[Raw::Bytes(b""), Raw::Bytes(b"ab")],
            &[Raw::Bytes(&long[..252]), Raw::Null],
            &[Raw::Bytes(&long[..253]), Raw::Null],
            &[Raw::Bytes(&long), Raw::Null],
        ];
        for (nth, a) in rows.iter().enumerate() {
            for b in &rows[..nth] {
                assert_ne!(key(a), key(b));
            }
        }
    }

    #[test]
    fn everything_is_found_again_as_long_as_it_is_worth_it() {
        let mut map = RawMap::default();
        let key = |n: u32| key(&[Raw::Bytes(&n.to_le_bytes()), Raw::Bytes(&[7; 4])]);
        for n in 0..1000 {
            assert_eq!(map.get(&key(n)), None);
            assert!(map.insert(&key(n), n) > 0);
        }
        for n in 0..1000 {
            assert_eq!(map.get(&key(n)), Some(n));
            assert_eq!(map.get(&key(n)), Some(n), "and at once");
        }
        for n in 1000..2 * MOST_KEYS as u32 {
            assert_eq!(map.get(&key(n)), None);
            map.insert(&key(n), n);
        }
        assert_eq!(map.get(&key(5)), None, "too many are new");
    }

    #[test]
    fn long_keys_are_soon_given_up() {
        let mut map = RawMap::default();
        let key = |n: u32| key(&[Raw::Bytes(&n.to_le_bytes()), Raw::Bytes(&[7; 1000])]);
        let mut taken = 0;
        for n in 0..200 {
            assert_eq!(map.get(&key(n)), None);
            taken += map.insert(&key(n), n);
        }
        assert!(map.is_off());
        assert!(taken < 2 * MOST_KEY_BYTES as u64);
    }
}
