//! Documents as trees: what is built and changed before it is encoded.
//!
//! Neighbours: `text` and `scalar` build trees, `view` reads them from bytes, `modify` changes them, `encode` writes
//! them. **Invariant**: an object's members are sorted by length of the key, then by its bytes, each key once.

use std::cmp::Ordering;

use crate::decimal::Decimal;
use crate::temporal::{Date, DateTime, Time};

/// A document or a part of one.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// null
    Null,
    /// true, false
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer: from SQL, or one of a text that needs more than 32 bits.
    UInt(u64),
    /// Any other number of a text.
    Double(f64),
    /// A DECIMAL.
    Decimal(Decimal),
    /// Text in UTF-8.
    String(Vec<u8>),
    /// A DATE.
    Date(Date),
    /// A TIME.
    Time(Time),
    /// A DATETIME, or a TIMESTAMP if the second is true.
    DateTime(DateTime, bool),
    /// A value of another SQL type: MySQL's number of the type, and its bytes.
    Opaque(u8, Vec<u8>),
    /// [ ... ]
    Array(Vec<Json>),
    /// { ... }
    Object(Vec<(Vec<u8>, Json)>),
}

/// The order of keys: shorter ones first, then by bytes.
pub(super) fn key_order(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// An object of members in any order; of those with the same key the last one stays.
pub fn object(mut members: Vec<(Vec<u8>, Json)>) -> Json {
    // The sort is stable, so the last of equal keys is the last one that was given.
    members.sort_by(|a, b| key_order(&a.0, &b.0));
    members.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            std::mem::swap(&mut later.1, &mut kept.1);
        }
        same
    });
    Json::Object(members)
}

impl Json {
    /// A string.
    pub fn string(text: impl AsRef<[u8]>) -> Self {
        Self::String(text.as_ref().to_vec())
    }

    /// The place of a key among the members, or where it belongs.
    pub(super) fn find(members: &[(Vec<u8>, Json)], key: &[u8]) -> Result<usize, usize> {
        members.binary_search_by(|m| key_order(&m.0, key))
    }

    /// The elements, if an array; else the value alone in one.
    pub(super) fn into_elements(self) -> Vec<Json> {
        match self {
            Self::Array(items) => items,
            other => vec![other],
        }
    }
}
