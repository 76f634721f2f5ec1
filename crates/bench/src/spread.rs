//! Several measurements of the same: the one in the middle, and how far they lie apart.
//!
//! Neighbours: `logbuf` and `paper` repeat their measurements and show both.
//!
//! **Invariants**
//! - `low <= median <= high`.

/// What repeated measurements have shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The smallest.
    pub low: f64,
    /// The one in the middle; of an even number, the upper one.
    pub median: f64,
    /// The largest.
    pub high: f64,
}

impl Spread {
    /// Of at least one value.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        Spread {
            low: values[0],
            median: values[values.len() / 2],
            high: values[values.len() - 1],
        }
    }

    /// Half of the distance between the extremes, in percent of the median.
    pub(crate) fn percent(&self) -> f64 {
        50.0 * (self.high - self.low) / self.median.abs().max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_counts_and_the_extremes_are_told() {
        let spread = Spread::of([110.0, 90.0, 100.0].into_iter());
        assert_eq!(
            (spread.low, spread.median, spread.high),
            (90.0, 100.0, 110.0)
        );
        assert!((spread.percent() - 10.0).abs() < 1e-9);
        assert_eq!(Spread::of(std::iter::once(3.0)).percent(), 0.0);
    }
}
