//! A histogram that many threads add to: four buckets for every power of two.
//!
//! Neighbours: `stats` has one for each figure whose spread matters.
//!
//! **Invariants**
//! - A value lies in exactly one bucket; a bucket is at most a quarter as wide as its values, so a
//!   percentile is at most 25 % too high.
//! - Adding is one relaxed increment: it orders nothing and is cheap enough for every commit.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets for every power of two, from 4 on.
const PER_OCTAVE_LOG2: u32 = 2;

/// Values below this have a bucket each.
const SMALL: u64 = 1 << PER_OCTAVE_LOG2;

/// Buckets of a histogram: up to 2^40 (18 minutes in nanoseconds); the last one takes all above.
pub const HISTOGRAM_BUCKETS: usize = (40 - 1) << PER_OCTAVE_LOG2;
const _: () = assert!(HISTOGRAM_BUCKETS > SMALL as usize);

/// The bucket of a value.
fn bucket_of(value: u64) -> usize {
    if value < SMALL {
        return value as usize;
    }
    let octave = value.ilog2() - PER_OCTAVE_LOG2;
    let within = (value >> octave) - SMALL;
    let bucket = (u64::from(octave + 1) << PER_OCTAVE_LOG2) + within;
    let bucket = (bucket as usize).min(HISTOGRAM_BUCKETS - 1);
    debug_assert!(first_of(bucket) <= value && value <= last_of(bucket));
    bucket
}

/// The largest value of a bucket.
fn last_of(bucket: usize) -> u64 {
    debug_assert!(bucket < HISTOGRAM_BUCKETS);
    if bucket == HISTOGRAM_BUCKETS - 1 {
        return u64::MAX;
    }
    first_of(bucket + 1) - 1
}

fn first_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SMALL {
        return bucket;
    }
    let octave = (bucket >> PER_OCTAVE_LOG2) - 1;
    (SMALL + bucket % SMALL) << octave
}

/// The counts of a histogram at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; HISTOGRAM_BUCKETS],
}

impl Histogram {
    /// Number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// An upper bound of the smallest value that `percent` of all values do not exceed, at most
    /// 25 % above it; 0 if there are no values.
    pub fn percentile(&self, percent: u64) -> u64 {
        debug_assert!(percent <= 100);
        let wanted = (self.count() * percent).div_ceil(100);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return last_of(bucket);
            }
        }
        0
    }

    /// The buckets that have values: smallest and largest value, and how many, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let all = self.counts.iter().enumerate();
        all.filter(|(_, count)| **count > 0)
            .map(|(bucket, count)| (first_of(bucket), last_of(bucket), *count))
    }
}

pub(crate) struct AtomicHistogram([AtomicU64; HISTOGRAM_BUCKETS]);

impl Default for AtomicHistogram {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; HISTOGRAM_BUCKETS])
    }
}

impl AtomicHistogram {
    pub(crate) fn add(&self, value: u64) {
        self.0[bucket_of(value)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Histogram {
        Histogram {
            counts: std::array::from_fn(|i| self.0[i].load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gaps_and_are_narrow() {
        assert_eq!(first_of(0), 0);
        for bucket in 0..HISTOGRAM_BUCKETS - 1 {
            let (first, last) = (first_of(bucket), last_of(bucket));
            assert_eq!(last + 1, first_of(bucket + 1));
            assert_eq!((bucket_of(first), bucket_of(last)), (bucket, bucket));
            assert!(last - first <= first / 4, "{first}..={last}");
        }
        assert_eq!(bucket_of(u64::MAX), HISTOGRAM_BUCKETS - 1);
        assert!(first_of(HISTOGRAM_BUCKETS - 1) > 1 << 39);
    }

    #[test]
    fn percentiles_are_bounds_from_above_by_a_quarter_at_most() {
        let histogram = AtomicHistogram::default();
        assert_eq!(histogram.get().percentile(50), 0);
        (1..=1000).for_each(|value| histogram.add(value));
        let histogram = histogram.get();
        assert_eq!(histogram.count(), 1000);
        for percent in [1, 50, 90, 99, 100] {
            let (exact, bound) = (percent * 10, histogram.percentile(percent));
            assert!(exact <= bound && bound <= exact + exact / 4, "{bound}");
        }
        assert_eq!(histogram.buckets().map(|(_, _, n)| n).sum::<u64>(), 1000);
    }
}
