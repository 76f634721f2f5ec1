//! Sort buffer of a bulk build: unsorted entries in memory.
//!
//! Neighbours: [`super::TreeBuilder`] fills it and writes it out.
//!
//! **Invariants**
//! - Keys and values lie one behind the other in one buffer; sorting moves only what points to them.
//! - Between equal keys the order of their coming stays.

/// What an entry takes beside its bytes.
const ENTRY_BYTES: usize = size_of::<Entry>();

#[derive(Clone, Copy)]
struct Entry {
    /// The first bytes of the key, for quick comparisons.
    prefix: u64,
    /// Where the key begins; the value follows it.
    at: usize,
    key_bytes: u32,
    value_bytes: u32,
}

/// A batch.
#[derive(Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// Keys did not come in ascending order.
    is_unsorted: bool,
}

fn prefix_of(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = key.len().min(8);
    bytes[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(bytes)
}

impl Batch {
    fn key(&self, entry: Entry) -> &[u8] {
        key_in(&self.bytes, entry)
    }

    fn value(&self, entry: Entry) -> &[u8] {
        let at = entry.at + entry.key_bytes as usize;
        &self.bytes[at..at + entry.value_bytes as usize]
    }

    /// Bytes of the batch with one more entry; 0 while it is empty, so that one entry always fits.
    pub(super) fn bytes_with(&self, key: &[u8], value: &[u8]) -> usize {
        match self.entries.len() {
            0 => 0,
            entries => self.bytes.len() + key.len() + value.len() + (entries + 1) * ENTRY_BYTES,
        }
    }

    /// Bytes in memory.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * ENTRY_BYTES
    }

    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        debug_assert!(u32::try_from(key.len().max(value.len())).is_ok());
        if let Some(last) = self.entries.last() {
            self.is_unsorted |= self.key(*last) >= key;
        }
        self.entries.push(Entry {
            prefix: prefix_of(key),
            at: self.bytes.len(),
            key_bytes: key.len() as u32,
            value_bytes: value.len() as u32,
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }

    pub(super) fn sort(&mut self) {
        if !std::mem::take(&mut self.is_unsorted) {
            return;
        }
        let bytes = &self.bytes;
        self.entries.sort_unstable_by(|a, b| {
            let keys = || key_in(bytes, *a).cmp(key_in(bytes, *b));
            a.prefix
                .cmp(&b.prefix)
                .then_with(keys)
                .then(a.at.cmp(&b.at))
        });
        let ascend = |a: &Entry, b: &Entry| key_in(bytes, *a) <= key_in(bytes, *b);
        debug_assert!(self.entries.is_sorted_by(ascend));
    }

    /// A key that came twice, with its later value. Only of a sorted batch.
    pub(super) fn duplicate(&self) -> Option<(&[u8], &[u8])> {
        debug_assert!(!self.is_unsorted);
        let pair = self.entries.windows(2).find(|pair| {
            pair[0].prefix == pair[1].prefix && self.key(pair[0]) == self.key(pair[1])
        });
        pair.map(|pair| (self.key(pair[1]), self.value(pair[1])))
    }

    /// The first and the last key of a sorted batch.
    pub(super) fn ends(&self) -> Option<(&[u8], &[u8])> {
        debug_assert!(!self.is_unsorted);
        let (first, last) = (self.entries.first()?, self.entries.last()?);
        Some((self.key(*first), self.key(*last)))
    }

    /// Calls `each` with the entries in order.
    pub(super) fn each<E>(
        &self,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.entries
            .iter()
            .try_for_each(|entry| each(self.key(*entry), self.value(*entry)))
    }

    /// Empties the batch, and gives back what only a huge entry needed.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.is_unsorted = false;
    }
}

fn key_in(bytes: &[u8], entry: Entry) -> &[u8] {
    &bytes[entry.at..entry.at + entry.key_bytes as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_by_whole_keys_and_finds_what_came_twice() {
        let mut batch = Batch::default();
        let keys: [&[u8]; 6] = [
            b"longer than a prefix b",
            b"",
            b"b",
            b"longer than a prefix a",
            b"a\0",
            b"a",
        ];
        for key in keys {
            batch.push(key, key);
        }
        batch.sort();
        let mut seen = Vec::new();
        batch
            .each(|key, value| {
                assert_eq!(key, value);
                seen.push(key.to_vec());
                Ok::<_, ()>(())
            })
            .unwrap();
        let mut sorted = keys.map(<[u8]>::to_vec);
        sorted.sort();
        assert_eq!(seen, sorted);
        assert!(batch.duplicate().is_none());
        batch.push(b"a", b"later");
        batch.sort();
        assert_eq!(batch.duplicate(), Some((&b"a"[..], &b"later"[..])));
    }
}
