//! Rows by key in one piece of memory: the right side of a hash join.
//!
//! ```text
//! record  next (4) | length of the key | key | length of the values | values
//! ```
//! Lengths and values are as `spill::codec` writes them. The records of a key are a ring in the order of their arrival; the table has the
//! last one of each, whose `next` is the first.
//! Neighbours: `join` fills and probes it; `parallel` fills parts of it on several threads; groups are found with the same hash.
//! **Invariants**: records stand in the order of their arrival; a ring has all records of one key; a table that is shared does not change.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use esker_types::{SqlResult, Value};

use super::spill::{number, put_number, read_values, write_values};
use crate::codec::damaged;

/// No record.
const END: u32 = u32::MAX;
const NEXT_BYTES: usize = 4;
/// Places of the smallest table.
const LEAST_PLACES: usize = 64;
/// Bytes of a place, and as many that are free, for a row.
pub(crate) const PLACE_BYTES: u64 = 2 * size_of::<(u32, u32)>() as u64;
/// Bytes of records that offsets reach.
const MOST_BYTES: usize = END as usize;

/// Rows by key.
#[derive(Default)]
pub(crate) struct HashRows {
    records: Vec<u8>,
    /// Half of the hash, and the last record of the key, or [`END`]. As many as a power of two.
    places: Vec<(u32, u32)>,
    keys: usize,
    hash: KeyHash,
}

/// Where a search among the rows of one key has come.
#[derive(Clone, Copy)]
pub(crate) struct Ring {
    at: u32,
    last: u32,
}

impl Default for Ring {
    fn default() -> Self {
        Self { at: END, last: END }
    }
}

/// A record's parts.
struct Record<'r> {
    key: &'r [u8],
    values: &'r [u8],
}

/// Hashes keys for a table of its own: quickly, and so that nobody outside knows which keys collide.
#[derive(Clone)]
pub(crate) struct KeyHash {
    seeds: [u64; 2],
}

impl Default for KeyHash {
    fn default() -> Self {
        let source = RandomState::new();
        Self {
            seeds: [source.hash_one(0), source.hash_one(1)],
        }
    }
}

impl KeyHash {
    /// Multiplies and folds, eight bytes at a time.
    #[inline]
    pub fn of(&self, key: &[u8]) -> u64 {
        let [seed, factor] = self.seeds;
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b ^ factor);
            (product >> 64) as u64 ^ product as u64
        };
        let (words, rest) = key.as_chunks::<8>();
        let mut state = seed ^ key.len() as u64;
        for word in words {
            state = fold(state ^ seed, u64::from_le_bytes(*word));
        }
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        fold(fold(state ^ seed, u64::from_le_bytes(word)) ^ factor, seed)
    }
}

/// A map by keys of rows.
pub(crate) type KeyMap<V> = HashMap<Box<[u8]>, V, KeyHash>;

impl BuildHasher for KeyHash {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher {
            hash: self.clone(),
            state: 0,
        }
    }
}

/// See [`KeyHash`]. For what is hashed in one piece, beside its length.
pub(crate) struct KeyHasher {
    hash: KeyHash,
    state: u64,
}

impl Hasher for KeyHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.state = self.state.rotate_left(32) ^ self.hash.of(bytes);
    }

    /// The length of the piece, which counts with its bytes.
    #[inline]
    fn write_usize(&mut self, _: usize) {}

    #[inline]
    fn finish(&self) -> u64 {
        self.state
    }
}

/// Where the search for a key with this half of the hash begins: its upper bits, so that a table that grows need not read its keys.
#[inline]
fn home(tag: u32, places: usize) -> usize {
    tag as usize >> (u32::BITS - places.trailing_zeros())
}

impl HashRows {
    /// Bytes in memory.
    pub fn bytes(&self) -> u64 {
        (self.records.len() + self.places.len() * size_of::<(u32, u32)>()) as u64
    }

    /// Bytes that a row adds, at most.
    pub fn row_bytes(key: &[u8], values: u64) -> u64 {
        // A record's follower and lengths are less than what its values take elsewhere is more.
        values + key.len() as u64 + PLACE_BYTES
    }

    /// May more rows come?
    pub fn has_room(&self) -> bool {
        self.records.len() < MOST_BYTES / 2
    }

    /// No row?
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Different keys.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// Adds a row behind all others.
    pub fn push<'v>(&mut self, key: &[u8], values: impl Iterator<Item = &'v Value>) {
        let at = self.records.len();
        append(key, values, &mut self.records);
        self.link(at);
    }

    /// Adds records that [`append`] made, in their order.
    pub fn take(&mut self, part: &[u8]) -> SqlResult<()> {
        let mut at = self.records.len();
        self.records.extend_from_slice(part);
        while at < self.records.len() {
            let end = self.end_of(at).ok_or_else(|| damaged("hash table"))?;
            self.link(at);
            at = end;
        }
        Ok(())
    }

    /// Enters the record at `at` into the ring of its key.
    fn link(&mut self, at: usize) {
        if (self.keys + 1) * 4 > self.places.len() * 3 {
            self.grow();
        }
        let key = self.record(at as u32).map_or(&[][..], |r| r.key);
        let (place, tag) = self.place(key);
        let last = self.places[place].1;
        let first = match last {
            END => {
                self.keys += 1;
                at as u32
            }
            last => self.next(last),
        };
        self.set_next(at as u32, first);
        if last != END {
            self.set_next(last, at as u32);
        }
        self.places[place] = (tag, at as u32);
    }

    /// Where a key is, or would be, and its half of the hash.
    fn place(&self, key: &[u8]) -> (usize, u32) {
        let tag = (self.hash.of(key) >> 32) as u32;
        let mask = self.places.len() - 1;
        let mut place = home(tag, self.places.len());
        loop {
            let (other, last) = self.places[place];
            let is_free = last == END;
            if is_free || (other == tag && self.record(last).is_some_and(|r| r.key == key)) {
                return (place, tag);
            }
            place = (place + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let places = (self.places.len() * 2).max(LEAST_PLACES);
        let old = std::mem::replace(&mut self.places, vec![(0, END); places]);
        for (tag, last) in old.into_iter().filter(|(_, last)| *last != END) {
            let mut place = home(tag, places);
            while self.places[place].1 != END {
                place = (place + 1) & (places - 1);
            }
            self.places[place] = (tag, last);
        }
    }

    /// The rows of a key.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Ring {
        if self.places.is_empty() {
            return Ring::default();
        }
        let last = self.places[self.place(key).0].1;
        match last {
            END => Ring::default(),
            last => Ring {
                at: self.next(last),
                last,
            },
        }
    }

    /// Fills the slots of the next row of a key; false at the end.
    #[inline]
    pub fn next_of(&self, ring: &mut Ring, slots: &[u32], row: &mut [Value]) -> SqlResult<bool> {
        if ring.at == END {
            return Ok(false);
        }
        let record = self.record(ring.at);
        record
            .and_then(|r| read_values(r.values, slots, row))
            .ok_or_else(|| damaged("hash table"))?;
        ring.at = match ring.at == ring.last {
            true => END,
            false => self.next(ring.at),
        };
        Ok(true)
    }

    /// Calls `f` with the key and the values of every row, in the order of their arrival.
    pub fn each(&self, mut f: impl FnMut(&[u8], &[u8]) -> SqlResult<()>) -> SqlResult<()> {
        let mut at = 0;
        while at < self.records.len() {
            let record = self.record(at as u32);
            let (record, end) = record
                .zip(self.end_of(at))
                .ok_or_else(|| damaged("hash table"))?;
            f(record.key, record.values)?;
            at = end;
        }
        Ok(())
    }

    #[inline]
    fn record(&self, at: u32) -> Option<Record<'_>> {
        let mut rest = self.records.get(at as usize + NEXT_BYTES..)?;
        let len = number(&mut rest)? as usize;
        let (key, mut rest) = rest.split_at_checked(len)?;
        let len = number(&mut rest)? as usize;
        let values = rest.get(..len)?;
        Some(Record { key, values })
    }

    fn end_of(&self, at: usize) -> Option<usize> {
        let values = self.record(at as u32)?.values;
        let start = self.records.as_ptr() as usize;
        Some(values.as_ptr() as usize - start + values.len())
    }

    #[inline]
    fn next(&self, at: u32) -> u32 {
        let (next, _) = self.records[at as usize..]
            .split_first_chunk::<NEXT_BYTES>()
            .expect("a record begins with its follower");
        u32::from_le_bytes(*next)
    }

    fn set_next(&mut self, at: u32, next: u32) {
        let at = at as usize;
        self.records[at..at + NEXT_BYTES].copy_from_slice(&next.to_le_bytes());
    }
}

/// Appends the record of a row that is not yet in a table.
pub(crate) fn append<'v>(key: &[u8], values: impl Iterator<Item = &'v Value>, out: &mut Vec<u8>) {
    out.extend_from_slice(&END.to_le_bytes());
    put_number(key.len() as u64, out);
    out.extend_from_slice(key);
    // Most rows have fewer than 128 bytes: one byte tells their length.
    let at = out.len();
    out.push(0);
    write_values(values, out);
    let len = out.len() - at - 1;
    if len < 0x80 {
        out[at] = len as u8;
        return;
    }
    let mut prefix = Vec::with_capacity(4);
    put_number(len as u64, &mut prefix);
    out.splice(at..=at, prefix);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of(table: &HashRows, key: &[u8]) -> Vec<Vec<Value>> {
        let (mut ring, mut row, mut found) = (table.find(key), vec![Value::Null; 2], Vec::new());
        while table.next_of(&mut ring, &[0, 1], &mut row).unwrap() {
            found.push(row.clone());
        }
        found
    }

    #[test]
    fn rows_of_a_key_come_in_their_order_however_they_came() {
        let row = |n: i64| [Value::Int(n), Value::Str(vec![b'x'; (n % 200) as usize])];
        let key = |n: i64| (n % 700).to_be_bytes();
        let (mut one, mut parts) = (HashRows::default(), HashRows::default());
        for start in [0, 1500, 3000] {
            let mut part = Vec::new();
            for n in start..start + 1500 {
                one.push(&key(n), row(n).iter());
                append(&key(n), row(n).iter(), &mut part);
            }
            parts.take(&part).unwrap();
        }
        for n in 0..700 {
            let expected: Vec<Vec<Value>> = (0..7)
                .map(|times| n + times * 700)
                .filter(|n| *n < 4500)
                .map(|n| row(n).to_vec())
                .collect();
            for table in [&one, &parts] {
                let found = rows_of(table, &key(n));
                assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{n}");
            }
        }
        assert!(rows_of(&one, b"none").is_empty());
        assert!(rows_of(&HashRows::default(), b"").is_empty());
        let mut all = 0;
        one.each(|key, _| {
            assert_eq!(key, &(all % 700_i64).to_be_bytes());
            all += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(all, 4500);
    }
}
