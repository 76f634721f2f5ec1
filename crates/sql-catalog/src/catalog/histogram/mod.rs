//! Histograms of columns: how often values occur, each by itself or in ranges of about the same weight.
//!
//! `build` makes them from a sample of rows, `store` turns them into catalog rows and back. Neighbours:
//! `session::histogram` runs the statements; `plan::access` weighs conditions on columns that no index begins with;
//! `infoschema::histogram` shows them as JSON.
//!
//! **Invariants**
//! - A histogram never decides what is true, only how it is found.
//! - Buckets ascend and do not overlap; their shares are cumulative, and what they and NULL lack of 1 is nothing.
//! - Values are compared by their encoding as a key of the column's type: a histogram goes when that type changes.

mod build;
mod store;
#[cfg(test)]
mod tests;

use std::ops::Bound;

use esker_types::{SqlResult, SqlType, Value};

pub use build::{Collector, Wanted};
pub(super) use store::{read_histogram, write_histogram};

use super::sample::place_between;
use super::{ColumnDef, IndexPart};
use crate::codec::{KeyCodec, KeyRange, UTC, damaged, prefix_successor};

/// Most buckets, and how many there are if nobody says.
pub const MAX_BUCKETS: u64 = 1024;
/// See [`MAX_BUCKETS`].
pub const USUAL_BUCKETS: u64 = 100;

/// Some values of a column.
#[derive(Debug, Clone)]
pub struct Bucket {
    /// Smallest value in it.
    pub lower: Value,
    /// Largest value in it.
    pub upper: Value,
    /// Share of all rows that have a value up to `upper`.
    pub cumulative: f64,
    /// Different values in it.
    pub distinct: f64,
}

/// What a histogram knows besides its buckets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct About {
    /// Every bucket has one value.
    pub singleton: bool,
    /// Share of the rows that are NULL.
    pub nulls: f64,
    /// Share of the rows that were read for it.
    pub sampling_rate: f64,
    /// Buckets that were asked for.
    pub buckets_specified: u32,
    /// When it was made, microseconds since the epoch.
    pub updated_micros: i64,
    /// ANALYZE TABLE makes it anew.
    pub auto_update: bool,
}

/// A histogram.
#[derive(Debug)]
pub struct Histogram {
    /// Id of its column.
    pub column: u32,
    /// What it knows besides its buckets.
    pub about: About,
    /// Its buckets, ascending.
    pub buckets: Vec<Bucket>,
    /// The column's type when it was made.
    ty: SqlType,
    codec: KeyCodec,
    /// Least and largest key of each bucket.
    keys: Vec<[Box<[u8]>; 2]>,
}

/// How values of a column are put in order.
fn codec_of(column: &ColumnDef) -> KeyCodec {
    let part = IndexPart {
        col: 0,
        prefix_len: None,
        desc: false,
    };
    KeyCodec::new(std::slice::from_ref(column), &[part], false, false)
}

impl Histogram {
    /// # Errors
    /// The buckets do not ascend, or are not of the column's type.
    fn new(column: &ColumnDef, about: About, buckets: Vec<Bucket>) -> SqlResult<Self> {
        let codec = codec_of(column);
        let key = |value: &Value| -> SqlResult<Box<[u8]>> {
            let mut key = Vec::new();
            codec.encode_part(0, value.as_ref(), &UTC, &mut key)?;
            Ok(key.into())
        };
        let keys = buckets.iter().map(|b| Ok([key(&b.lower)?, key(&b.upper)?]));
        let keys = keys.collect::<SqlResult<Vec<_>>>()?;
        let in_order = keys.iter().all(|[low, high]| low <= high)
            && keys.windows(2).all(|pair| pair[0][1] < pair[1][0])
            && buckets.iter().all(|b| (0.0..=1.0).contains(&b.cumulative))
            && buckets.is_sorted_by(|a, b| a.cumulative <= b.cumulative);
        if !in_order {
            return Err(damaged("histogram: buckets"));
        }
        Ok(Self {
            column: column.id,
            about,
            buckets,
            ty: column.ty.clone(),
            codec,
            keys,
        })
    }

    /// Does it speak of this column, as the column is?
    pub(super) fn is_of(&self, column: &ColumnDef) -> bool {
        self.column == column.id && self.ty == column.ty
    }

    /// How values are put in order.
    pub fn codec(&self) -> &KeyCodec {
        &self.codec
    }

    /// Share of the rows whose values lie in these ranges of keys, which do not overlap.
    pub fn share(&self, ranges: &[KeyRange]) -> f64 {
        let shares = ranges.iter().map(|range| self.share_of(range));
        shares.sum::<f64>().clamp(0.0, 1.0)
    }

    /// Share of the rows with a value.
    pub fn not_null(&self) -> f64 {
        self.buckets.last().map_or(0.0, |bucket| bucket.cumulative)
    }

    /// Number of different values.
    pub fn distinct(&self) -> f64 {
        self.buckets.iter().map(|bucket| bucket.distinct).sum()
    }

    /// Share of the rows with one value of which nothing is known.
    pub fn share_of_any(&self) -> f64 {
        self.not_null() / self.distinct().max(1.0)
    }

    fn share_of(&self, range: &KeyRange) -> f64 {
        let key = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Some(key.clone()),
            Bound::Unbounded => None,
        };
        let (lower, upper) = (key(&range.lower).unwrap_or_default(), key(&range.upper));
        // NULL comes before all values.
        let has_nulls = self.ty.nullable && lower.first().is_none_or(|b| *b == 0);
        let nulls = if has_nulls { self.about.nulls } else { 0.0 };
        let is_value = self.codec.part_len(0, &lower) == Some(lower.len());
        let mut following = lower.clone();
        if is_value && prefix_successor(&mut following) && Some(&following) == upper.as_ref() {
            return nulls + self.share_at(&lower);
        }
        let to = upper.map_or(self.not_null(), |key| self.below(&key));
        nulls + (to - self.below(&lower)).max(0.0)
    }

    /// The first bucket that ends at or behind the key, and the share of those before it.
    fn find(&self, key: &[u8]) -> (usize, f64) {
        let nth = self.keys.partition_point(|[_, high]| **high < *key);
        let before = nth.checked_sub(1).map(|at| self.buckets[at].cumulative);
        (nth, before.unwrap_or(0.0))
    }

    /// Share of the rows with exactly this value.
    fn share_at(&self, key: &[u8]) -> f64 {
        let (nth, before) = self.find(key);
        match self.keys.get(nth) {
            Some([low, _]) if **low <= *key => {
                let bucket = &self.buckets[nth];
                (bucket.cumulative - before) / bucket.distinct.max(1.0)
            }
            _ => 0.0,
        }
    }

    /// Share of the rows with a value before this key.
    fn below(&self, key: &[u8]) -> f64 {
        let (nth, before) = self.find(key);
        match self.keys.get(nth) {
            Some([low, high]) if **low < *key => {
                let weight = self.buckets[nth].cumulative - before;
                before + weight * place_between(low, high, key)
            }
            _ => before,
        }
    }
}
