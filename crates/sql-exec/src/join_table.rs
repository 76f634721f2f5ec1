//! The hash table of a hash join: rows of the build side by key, in one piece of memory.
//!
//! ```text
//! record  next (4) | length of the key | key | length of the values | values
//! ```
//! Lengths and values are as `spill::codec` writes them. Keys are spread over parts by their hash. The records of a key
//! are a ring in the order of their arrival; its part has the last one of each, whose `next` is the first. Neighbours:
//! `join` fills and probes it; `parallel` makes records and puts the parts together on several threads; groups are
//! found with the same hash. **Invariants**: records of a part stand in the order of their arrival; a ring has all
//! records of one key; a table that is shared does not change.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use esker_sql_catalog::codec::damaged;
use esker_sql_catalog::exec_error::ExecResult;
use esker_sql_plan::expr::rowkey::{number, put_number};
use esker_types::Value;

use super::spill::{read_values, write_values};

/// The end of a ring: no record.
const END: u32 = u32::MAX;
const NEXT_BYTES: usize = 4;
/// Places of the smallest table.
const LEAST_PLACES: usize = 64;
/// Bytes of a place, and as many that are free, for a row.
pub(crate) const PLACE_BYTES: u64 = 2 * size_of::<(u32, u32)>() as u64;
/// Bytes of records that offsets reach.
const MOST_BYTES: usize = END as usize;

/// Parts of a table: what a part has lies close together, and each can be put together by another thread.
pub(crate) const PARTS: usize = 16;

/// Rows by key.
#[derive(Default)]
pub(crate) struct JoinTable {
    hash: KeyHash,
    parts: [HashPart; PARTS],
    /// Bytes in memory.
    bytes: u64,
}

/// The rows of a part of the keys.
#[derive(Default)]
pub(crate) struct HashPart {
    records: Vec<u8>,
    /// Half of the hash, and the last record of the key, or [`END`]. As many as a power of two.
    places: Vec<(u32, u32)>,
    keys: usize,
}

/// Where a search among the rows of one key has come.
#[derive(Clone, Copy)]
pub(crate) struct Ring {
    part: usize,
    at: u32,
    last: u32,
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            part: 0,
            at: END,
            last: END,
        }
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

/// Where the search for a key with this half of the hash begins: its upper bits, so that a table that grows need not
/// read its keys.
#[inline]
fn home(tag: u32, places: usize) -> usize {
    debug_assert!(places.is_power_of_two());
    tag as usize >> (u32::BITS - places.trailing_zeros())
}

impl JoinTable {
    /// Puts parts together whose keys were told apart by `hash`.
    pub fn from_parts(hash: KeyHash, parts: [HashPart; PARTS]) -> Self {
        let bytes = parts.iter().map(HashPart::bytes).sum();
        debug_assert!(parts.iter().all(|part| part.records.len() < MOST_BYTES));
        Self { hash, parts, bytes }
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that a row adds, at most.
    pub fn row_bytes(key: &[u8], values: u64) -> u64 {
        // A record's follower and lengths are less than what its values take elsewhere is more.
        values + key.len() as u64 + PLACE_BYTES
    }

    /// May more rows come?
    pub fn has_room(&self) -> bool {
        self.bytes < MOST_BYTES as u64 / 2
    }

    /// No row?
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Different keys.
    pub fn keys(&self) -> usize {
        self.parts.iter().map(|part| part.keys).sum()
    }

    /// Adds a row behind all others.
    pub fn push<'v>(&mut self, key: &[u8], values: impl Iterator<Item = &'v Value>) {
        let hash = self.hash.of(key);
        let part = &mut self.parts[part_of(hash)];
        let (at, before) = (part.records.len(), part.bytes());
        assert!(at < MOST_BYTES, "a part is asked whether it has room");
        append(key, values, &mut part.records);
        part.link(at, tag_of(hash));
        self.bytes += part.bytes() - before;
        debug_assert!(
            part.end_of(at) == Some(part.records.len()),
            "records stand end to end"
        );
    }

    /// The rows of a key.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Ring {
        let hash = self.hash.of(key);
        let part = part_of(hash);
        self.parts[part]
            .find(key, tag_of(hash))
            .map_or_else(Ring::default, |(at, last)| Ring { part, at, last })
    }

    /// Fills the slots of the next row of a key; false at the end.
    #[inline]
    pub fn next_of(&self, ring: &mut Ring, slots: &[u32], row: &mut [Value]) -> ExecResult<bool> {
        if ring.at == END {
            return Ok(false);
        }
        let part = &self.parts[ring.part];
        let record = part.record(ring.at);
        record
            .and_then(|r| read_values(r.values, slots, row))
            .ok_or_else(|| damaged("hash table"))?;
        ring.at = match ring.at == ring.last {
            true => END,
            false => part.next(ring.at),
        };
        Ok(true)
    }

    /// Calls `f` with the key and the values of every row; those of one key in the order of their arrival.
    pub fn each(&self, mut f: impl FnMut(&[u8], &[u8]) -> ExecResult<()>) -> ExecResult<()> {
        self.parts.iter().try_for_each(|part| part.each(&mut f))
    }
}

/// The part of a key with this hash.
#[inline]
pub(crate) fn part_of(hash: u64) -> usize {
    hash as usize % PARTS
}

/// The half of a hash that a part goes by.
#[inline]
fn tag_of(hash: u64) -> u32 {
    (hash >> 32) as u32
}

impl HashPart {
    /// Bytes in memory.
    pub fn bytes(&self) -> u64 {
        (self.records.len() + self.places.len() * size_of::<(u32, u32)>()) as u64
    }

    /// May more rows come?
    pub fn has_room(&self) -> bool {
        self.records.len() < MOST_BYTES / 2
    }

    /// Takes records that [`append`] made, in their order. They are found after [`HashPart::link_all`].
    pub fn take(&mut self, records: &[u8]) {
        self.records.extend_from_slice(records);
    }

    /// Enters all records, of which none is yet.
    pub fn link_all(&mut self, hash: &KeyHash) -> ExecResult<()> {
        let mut at = 0;
        while at < self.records.len() {
            let end = self.end_of(at).ok_or_else(|| damaged("hash table"))?;
            debug_assert!(end > at + NEXT_BYTES);
            let key = self.record(at as u32).map_or(&[][..], |r| r.key);
            let tag = tag_of(hash.of(key));
            self.link(at, tag);
            at = end;
        }
        Ok(())
    }

    /// Enters the record at `at` into the ring of its key.
    fn link(&mut self, at: usize, tag: u32) {
        if (self.keys + 1) * 4 > self.places.len() * 3 {
            self.grow();
        }
        let key = self.record(at as u32).map_or(&[][..], |r| r.key);
        let place = self.place(key, tag);
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
        debug_assert!(
            self.keys < self.places.len(),
            "a search ends at a free place"
        );
    }

    /// Where a key is, or would be.
    fn place(&self, key: &[u8], tag: u32) -> usize {
        debug_assert!(self.places.len().is_power_of_two());
        let mask = self.places.len() - 1;
        let mut place = home(tag, self.places.len());
        loop {
            let (other, last) = self.places[place];
            let is_free = last == END;
            if is_free || (other == tag && self.record(last).is_some_and(|r| r.key == key)) {
                return place;
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
        debug_assert!(self.keys < self.places.len());
    }

    /// The first and the last row of a key.
    #[inline]
    fn find(&self, key: &[u8], tag: u32) -> Option<(u32, u32)> {
        if self.places.is_empty() {
            return None;
        }
        let last = self.places[self.place(key, tag)].1;
        (last != END).then(|| (self.next(last), last))
    }

    fn each(&self, f: &mut impl FnMut(&[u8], &[u8]) -> ExecResult<()>) -> ExecResult<()> {
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

    fn rows_of(table: &JoinTable, key: &[u8]) -> Vec<Vec<Value>> {
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
        let mut one = JoinTable::default();
        let hash = KeyHash::default();
        let mut apart: [HashPart; PARTS] = Default::default();
        for start in [0, 1500, 3000] {
            let mut records = vec![Vec::new(); PARTS];
            for n in start..start + 1500 {
                one.push(&key(n), row(n).iter());
                let part = part_of(hash.of(&key(n)));
                append(&key(n), row(n).iter(), &mut records[part]);
            }
            for (part, records) in apart.iter_mut().zip(records) {
                part.take(&records);
            }
        }
        apart.iter_mut().for_each(|p| p.link_all(&hash).unwrap());
        let parts = JoinTable::from_parts(hash, apart);
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
        assert!(rows_of(&JoinTable::default(), b"").is_empty());
        for table in [&one, &parts] {
            let mut times = HashMap::<Vec<u8>, usize>::new();
            let count = |key: &[u8], _: &[u8]| {
                *times.entry(key.to_vec()).or_default() += 1;
                Ok(())
            };
            table.each(count).unwrap();
            let seen = |n: i64| times[key(n).as_slice()];
            assert_eq!((times.len(), seen(0), seen(699)), (700, 7, 6));
            assert_eq!(table.keys(), 700);
        }
    }
}
