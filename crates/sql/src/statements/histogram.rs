//! Latencies by bucket, as MySQL divides them: 50 buckets for a factor of ten, the first below 10 microseconds.
//!
//! Neighbours: `digests` keeps one per text and shard; PERFORMANCE_SCHEMA shows all buckets.
//! **Invariants**
//! - A histogram holds buckets up to its slowest statement only.
//! - Counting a statement takes no logarithm: [`BEGINS`] has been computed before.

use std::sync::LazyLock;

/// How many buckets there are.
pub(crate) const BUCKETS: usize = 450;

/// Buckets for a factor of ten.
const PER_DECADE: f64 = 50.0;

/// Where the second bucket begins, microseconds.
const FIRST_END: f64 = 10.0;

/// Where each bucket but the first begins, in microseconds. A statement that takes whole microseconds is in the last
/// bucket that does not begin behind it.
static BEGINS: LazyLock<[u64; BUCKETS - 1]> =
    LazyLock::new(|| std::array::from_fn(|nth| begin_of(nth + 1).ceil() as u64));

/// Where a bucket behind the first begins, microseconds.
fn begin_of(bucket: usize) -> f64 {
    FIRST_END * 10_f64.powf((bucket - 1) as f64 / PER_DECADE)
}

/// The bucket of a latency.
fn bucket_of(micros: u64) -> usize {
    BEGINS.partition_point(|&begin| begin <= micros)
}

/// Picoseconds at which a bucket begins and ends.
pub(crate) fn bucket_ends(bucket: usize) -> (u64, u64) {
    const PICOSECONDS: f64 = 1_000_000.0;
    let begin = |nth: usize| match nth {
        0 => 0,
        BUCKETS => u64::MAX,
        nth => (PICOSECONDS * begin_of(nth)) as u64,
    };
    (begin(bucket), begin(bucket + 1))
}

/// How many statements took how long.
#[derive(Debug, Clone, Default)]
pub(crate) struct Histogram {
    counts: Vec<u32>,
}

impl Histogram {
    /// Counts a statement.
    pub(crate) fn add(&mut self, micros: u64) {
        let bucket = bucket_of(micros);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] = self.counts[bucket].saturating_add(1);
    }

    /// Adds the counts to `all`, which has a place for each bucket.
    pub(crate) fn add_to(&self, all: &mut [u64]) {
        for (sum, count) in all.iter_mut().zip(&self.counts) {
            *sum += u64::from(*count);
        }
    }
}

/// The end of the bucket, in picoseconds, below which this share of the statements lies.
pub(crate) fn quantile(counts: &[u64], share: f64) -> u64 {
    let total: u64 = counts.iter().sum();
    let wanted = (total as f64 * share).ceil() as u64;
    let mut below = 0;
    for (bucket, count) in counts.iter().enumerate() {
        below += count;
        if total > 0 && below >= wanted {
            return bucket_ends(bucket).1;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_those_of_mysql() {
        assert_eq!(bucket_ends(0), (0, 10_000_000));
        assert_eq!(bucket_ends(1), (10_000_000, 10_471_285));
        assert_eq!(bucket_ends(100).0, 954_992_586);
        assert_eq!(bucket_ends(449).1, u64::MAX);
        for (micros, bucket) in [(0, 0), (9, 0), (10, 1), (100, 51), (1_000, 101), (999, 100)] {
            assert_eq!(bucket_of(micros), bucket, "{micros}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_ends_of_buckets() {
        let mut histogram = Histogram::default();
        for micros in 1..=100 {
            histogram.add(micros);
        }
        let mut counts = vec![0; BUCKETS];
        histogram.add_to(&mut counts);
        assert_eq!(counts.iter().sum::<u64>(), 100);
        let p95 = quantile(&counts, 0.95);
        assert!((95_000_000..100_000_000).contains(&p95), "{p95}");
        assert_eq!(quantile(&[0; BUCKETS], 0.5), 0);
    }
}
