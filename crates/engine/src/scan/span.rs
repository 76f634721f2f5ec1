//! Ranges of keys, half open: what scans and their tasks are confined to.
//!
//! **Invariants**
//! - `lower` is inside, `upper` is not. The smallest key behind `k` is `k` with a zero byte added, so every bound can be said
//!   like this.

use std::ops::Bound;

/// The keys from `lower` on and before `upper`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

    pub(super) fn is_before_end(&self, key: &[u8]) -> bool {
        self.upper
            .as_ref()
            .is_none_or(|upper| key < upper.as_slice())
    }
}

/// The smallest key behind `key`.
pub(super) fn following(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}
