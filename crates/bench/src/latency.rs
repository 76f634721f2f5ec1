//! A histogram of latencies with a bounded relative error.
//!
//! Neighbours: every session has one; the runner merges them.
//!
//! **Invariants**
//! - A value falls into a bucket no wider than a sixteenth of it; values below 32 have one each.

/// Buckets per power of two.
const STEPS: u64 = 16;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Buckets for values up to 2^40 ns, some 18 minutes; what is longer counts as that.
const BUCKETS: usize = ((40 - STEP_BITS as usize) + 1) * STEPS as usize;

/// Counts of values by size.
#[derive(Debug, Clone)]
pub struct Latencies {
    buckets: Box<[u64]>,
    count: u64,
    sum: u64,
    max: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            buckets: vec![0; BUCKETS].into(),
            count: 0,
            sum: 0,
            max: 0,
        }
    }
}

fn bucket_of(nanos: u64) -> usize {
    if nanos < STEPS {
        return nanos as usize;
    }
    let power = nanos.ilog2();
    let within = (nanos >> (power - STEP_BITS)) - STEPS;
    let bucket = u64::from(power - STEP_BITS + 1) * STEPS + within;
    (bucket as usize).min(BUCKETS - 1)
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let (power, within) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    match power {
        0 => within,
        _ => ((STEPS + within + 1) << (power - 1)) - 1,
    }
}

impl Latencies {
    /// Counts a value.
    pub fn add(&mut self, nanos: u64) {
        self.buckets[bucket_of(nanos)] += 1;
        self.count += 1;
        self.sum += nanos;
        self.max = self.max.max(nanos);
    }

    /// Counts what `other` has counted.
    pub fn merge(&mut self, other: &Latencies) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Values counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean in nanoseconds; 0 without values.
    pub fn mean_nanos(&self) -> u64 {
        self.sum / self.count.max(1)
    }

    /// The largest in nanoseconds; 0 without values.
    pub fn max_nanos(&self) -> u64 {
        self.max
    }

    /// An upper bound of the smallest value that `percent` of all values do not exceed, at most a sixteenth
    /// too large; 0 without values.
    pub fn percentile_nanos(&self, percent: f64) -> u64 {
        let wanted = ((self.count as f64 * percent / 100.0).ceil() as u64).clamp(1, u64::MAX);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper(bucket);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_without_gaps() {
        let mut last = None;
        for bucket in 0..BUCKETS {
            let top = upper(bucket);
            assert_eq!(bucket_of(top), bucket);
            let bottom = last.map_or(0, |l: u64| l + 1);
            assert_eq!(bucket_of(bottom), bucket);
            assert!((top - bottom) * STEPS <= bottom, "{bottom}..={top}");
            last = Some(top);
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_close() {
        let mut all = Latencies::default();
        for part in 0..4 {
            let mut some = Latencies::default();
            (0..2500).for_each(|i| some.add((part + 4 * i) * 1000));
            all.merge(&some);
        }
        assert_eq!(all.count(), 10_000);
        for (percent, exact) in [(50.0, 5_000_000), (95.0, 9_500_000), (99.9, 9_990_000)] {
            let found = all.percentile_nanos(percent);
            assert!(found >= exact - 2000 && found <= exact + exact / STEPS);
        }
        assert_eq!(all.mean_nanos(), 4_999_500);
        assert_eq!(all.max_nanos(), 9_999_000);
        assert_eq!(Latencies::default().percentile_nanos(99.0), 0);
    }
}
