//! Half-open key ranges, for scans, their tasks, and range locks.
//!
//! Neighbours: `scan` splits its work into spans; `lock::range` keeps a [`Spans`] per transaction and tree.
//!
//! **Invariants**
//! - `lower` is inside, `upper` is not. The smallest key behind `k` is `k` with a zero byte added, so every bound can
//!   be expressed like this.
//! - The spans of a [`Spans`] ascend, are not empty, and do not touch.

use std::ops::Bound;

/// The keys from `lower` on and before `upper`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeySpan {
    /// The smallest key.
    pub lower: Vec<u8>,
    /// The first key behind; `None`: no end.
    pub upper: Option<Vec<u8>>,
}

impl KeySpan {
    /// The keys between two bounds.
    pub fn new(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> KeySpan {
        KeySpan {
            lower: match lower {
                Bound::Included(key) => key.to_vec(),
                Bound::Excluded(key) => following(key),
                Bound::Unbounded => Vec::new(),
            },
            upper: match upper {
                Bound::Included(key) => Some(following(key)),
                Bound::Excluded(key) => Some(key.to_vec()),
                Bound::Unbounded => None,
            },
        }
    }

    /// All keys.
    pub fn all() -> KeySpan {
        KeySpan::default()
    }

    /// One key.
    pub fn of_key(key: &[u8]) -> KeySpan {
        KeySpan {
            lower: key.to_vec(),
            upper: Some(following(key)),
        }
    }

    /// Whether there can be no key in it.
    pub fn is_empty(&self) -> bool {
        self.upper
            .as_ref()
            .is_some_and(|upper| *upper <= self.lower)
    }

    /// Whether the key is in it.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.lower.as_slice() && self.is_before_end(key)
    }

    pub(crate) fn is_before_end(&self, key: &[u8]) -> bool {
        self.upper
            .as_ref()
            .is_none_or(|upper| key < upper.as_slice())
    }
}

/// The smallest key behind `key`.
pub(crate) fn following(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// Is `key`, as a number in big endian, one more than `last`, and as long? Then no key of rows lies between them.
pub fn is_successor(last: &[u8], key: &[u8]) -> bool {
    let Some(at) = key.iter().rposition(|byte| *byte != 0) else {
        return false;
    };
    last.len() == key.len()
        && last[..at] == key[..at]
        && last[at] == key[at] - 1
        && last[at + 1..].iter().all(|byte| *byte == u8::MAX)
}

/// A set of keys made of spans. Bounded: when there would be more than [`Spans::LIMIT`], it becomes the one span around
/// them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans {
    spans: Vec<KeySpan>,
}

impl Spans {
    /// Spans of a set.
    pub(crate) const LIMIT: usize = 256;

    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, KeySpan> {
        self.spans.iter()
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.around(key).is_some()
    }

    /// The span that has a key.
    pub(crate) fn around(&self, key: &[u8]) -> Option<&KeySpan> {
        let behind = self
            .spans
            .partition_point(|span| span.lower.as_slice() <= key);
        let last = self.spans[..behind].last();
        last.filter(|span| span.is_before_end(key))
    }

    /// Whether `span` could be added without making the set coarser.
    pub(crate) fn has_room_for(&self, span: &KeySpan) -> bool {
        self.spans.len() < Self::LIMIT || !self.touched(span).is_empty()
    }

    /// Sorted spans that lie apart from each other, as a set; `None` if they are too many for one.
    pub(crate) fn of(spans: Vec<KeySpan>) -> Option<Spans> {
        if spans.len() > Self::LIMIT {
            return None;
        }
        let set = Spans { spans };
        set.validate();
        Some(set)
    }

    /// The places of the spans that overlap `span` or touch it.
    fn touched(&self, span: &KeySpan) -> std::ops::Range<usize> {
        let first = self
            .spans
            .partition_point(|other| other.upper.as_ref().is_some_and(|end| *end < span.lower));
        let end = match &span.upper {
            None => self.spans.len(),
            Some(upper) => self.spans.partition_point(|other| other.lower <= *upper),
        };
        first..end.max(first)
    }

    /// Spans lie apart from each other, in the order of their keys.
    fn validate(&self) {
        debug_assert!(self.spans.len() <= Self::LIMIT);
        debug_assert!(!self.spans.iter().any(KeySpan::is_empty));
        let are_apart = |pair: &[KeySpan]| {
            let end = pair[0].upper.as_ref();
            end.is_some_and(|end| *end < pair[1].lower)
        };
        debug_assert!(self.spans.windows(2).all(are_apart));
    }

    /// Adds the keys of `span`. When there are too many spans, the whole set becomes the one span around it.
    pub(crate) fn add(&mut self, mut span: KeySpan) {
        if span.is_empty() {
            return;
        }
        let touched = self.touched(&span);
        if let Some(first) = self.spans[touched.clone()].first_mut() {
            if first.lower < span.lower {
                span.lower = std::mem::take(&mut first.lower);
            }
            let last = &mut self.spans[touched.end - 1];
            span.upper = match (span.upper, last.upper.take()) {
                (Some(a), Some(b)) => Some(a.max(b)),
                _ => None,
            };
        }
        self.spans.splice(touched, [span]);
        if self.spans.len() > Self::LIMIT {
            let upper = self.spans.pop().and_then(|last| last.upper);
            let lower = std::mem::take(&mut self.spans[0].lower);
            self.spans.clear();
            self.spans.push(KeySpan { lower, upper });
        }
        self.validate();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(lower: u8, upper: Option<u8>) -> KeySpan {
        KeySpan {
            lower: vec![lower],
            upper: upper.map(|key| vec![key]),
        }
    }

    proptest! {
        #[test]
        fn a_set_has_the_keys_of_its_spans(added in prop::collection::vec((any::<u8>(), any::<Option<u8>>()), 0..20)) {
            let mut spans = Spans::default();
            for (lower, upper) in &added {
                spans.add(span(*lower, *upper));
            }
            for key in 0..=255u8 {
                let expected = added.iter().any(|(lower, upper)| span(*lower, *upper).contains(&[key]));
                prop_assert_eq!(spans.contains(&[key]), expected);
            }
            for pair in spans.spans.windows(2) {
                prop_assert!(pair[0].upper.as_ref().is_some_and(|upper| *upper < pair[1].lower));
            }
        }
    }

    #[test]
    fn the_successor_of_a_key_is_the_next_number_of_its_length() {
        for n in (0..70_000u32).chain([u32::MAX - 1]) {
            let key = (n + 1).to_be_bytes();
            assert!(is_successor(&n.to_be_bytes(), &key), "{n}");
            assert!(!is_successor(&(n + 1).to_be_bytes(), &key), "{n}");
            assert!(!is_successor(&n.wrapping_sub(1).to_be_bytes(), &key), "{n}");
            assert!(!is_successor(&n.to_be_bytes()[1..], &key), "{n}");
        }
        assert!(!is_successor(&u32::MAX.to_be_bytes(), &[0; 4]));
        assert!(!is_successor(&[], &[]));
    }

    #[test]
    fn too_many_spans_become_the_one_around_them() {
        let mut spans = Spans::default();
        let key = |n: usize| (n as u32).to_be_bytes().to_vec();
        for n in 0..Spans::LIMIT {
            spans.add(KeySpan::of_key(&key(2 * n)));
        }
        assert_eq!(spans.len(), Spans::LIMIT);
        assert!(!spans.contains(&key(1)));
        assert!(!spans.has_room_for(&KeySpan::of_key(&key(2 * Spans::LIMIT))));
        spans.add(KeySpan::of_key(&key(2 * Spans::LIMIT)));
        assert_eq!(spans.len(), 1);
        assert!(spans.contains(&key(1)) && !spans.contains(&key(2 * Spans::LIMIT + 1)));
    }
}
