//! Keys of a tree in order, in one buffer: what lock escalation looks at.
//!
//! Neighbours: `coarse` fills a list with the keys of row locks, `merge` makes covers of them. Escalation runs where
//! memory is short, so a key costs its bytes and its place here, less than its lock does.
//!
//! **Invariant:** the keys of a [`SortedKeys`] ascend.

use std::ops::Range;

/// Keys in the order they came in.
#[derive(Debug, Default)]
pub(super) struct KeyList {
    bytes: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl KeyList {
    /// A list with room for so many keys.
    pub(super) fn with_capacity(keys: usize) -> KeyList {
        KeyList {
            bytes: Vec::new(),
            places: Vec::with_capacity(keys),
        }
    }

    pub(super) fn push(&mut self, key: &[u8]) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.places.push(begin..self.bytes.len());
    }

    pub(super) fn sorted(self) -> SortedKeys {
        let KeyList { bytes, mut places } = self;
        places.sort_unstable_by(|a, b| bytes[a.clone()].cmp(&bytes[b.clone()]));
        SortedKeys { bytes, places }
    }
}

/// Keys in their order.
#[derive(Debug, Default)]
pub(super) struct SortedKeys {
    bytes: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl SortedKeys {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|place| &self.bytes[place.clone()])
    }

    /// The first key that is not before `key`.
    pub(super) fn first_from(&self, key: &[u8]) -> Option<&[u8]> {
        let before = |place: &Range<usize>| &self.bytes[place.clone()] < key;
        let at = self.places.partition_point(before);
        self.places.get(at).map(|place| &self.bytes[place.clone()])
    }
}

#[cfg(test)]
impl<K: AsRef<[u8]>> FromIterator<K> for SortedKeys {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let mut list = KeyList::default();
        keys.into_iter().for_each(|key| list.push(key.as_ref()));
        list.sorted()
    }
}
