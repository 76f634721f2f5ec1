//! Numbers with Zipf's distribution: rank `k` is drawn with probability proportional to `1 / k^s`.
//!
//! Neighbours: the workloads draw the rows they touch with it.
//!
//! The method is rejection-inversion (W. Hörmann, G. Derflinger, "Rejection-inversion to generate variates
//! from monotone discrete distributions", ACM TOMACS 6(3), 1996): no tables, constant time, any exponent
//! from 0 (uniform) on.
//!
//! **Invariants**
//! - Every number is below `count`; 0 is the most frequent.

use esker_vfs::sim::SimRng;

/// A uniform number in `[0, 1)`.
pub(crate) fn unit(rng: &mut SimRng) -> f64 {
    // 53 bits are what a double can hold.
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Zipf's distribution over `0..count`.
#[derive(Debug, Clone)]
pub struct Zipf {
    count: f64,
    exponent: f64,
    /// The integral of the density up to the first and up to the last rank.
    low: f64,
    high: f64,
    /// Distance from a rank within which no rejection test is needed.
    sure: f64,
}

impl Zipf {
    /// `count` must not be 0, `exponent` not negative.
    pub fn new(count: u64, exponent: f64) -> Self {
        assert!(count > 0, "an empty range has no member");
        assert!(
            exponent >= 0.0 && exponent.is_finite(),
            "no such distribution"
        );
        let mut zipf = Self {
            count: count as f64,
            exponent,
            low: 0.0,
            high: 0.0,
            sure: 0.0,
        };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.count + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// The next number.
    pub fn sample(&self, rng: &mut SimRng) -> u64 {
        loop {
            let u = self.high + unit(rng) * (self.low - self.high);
            let x = self.inverse(u);
            let rank = (x + 0.5).floor().clamp(1.0, self.count);
            if rank - x <= self.sure || u >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        expm1_over((1.0 - self.exponent) * log) * log
    }

    fn inverse(&self, x: f64) -> f64 {
        // Rounding may push it below the pole.
        let t = (x * (1.0 - self.exponent)).max(-1.0);
        (ln1p_over(t) * x).exp()
    }
}

/// `(e^x - 1) / x`, also near 0.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.exp_m1() / x
    } else {
        1.0 + x / 2.0
    }
}

/// `ln(1 + x) / x`, also near 0.
fn ln1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.ln_1p() / x
    } else {
        1.0 - x / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Observed frequencies are those of the definition, within five standard deviations.
    #[test]
    fn frequencies_are_those_of_the_definition() {
        const DRAWS: u64 = 200_000;
        for (count, exponent) in [
            (10, 0.0),
            (10, 0.5),
            (10, 1.0),
            (1000, 0.85),
            (100, 2.0),
            (16, 5.0),
        ] {
            let zipf = Zipf::new(count, exponent);
            let mut rng = SimRng::new(7);
            let mut seen = vec![0_u64; count as usize];
            for _ in 0..DRAWS {
                seen[zipf.sample(&mut rng) as usize] += 1;
            }
            let weight = |rank: u64| (rank as f64).powf(-exponent);
            let total: f64 = (1..=count).map(weight).sum();
            for rank in 1..=count.min(20) {
                let p = weight(rank) / total;
                let expected = p * DRAWS as f64;
                let deviation = (expected * (1.0 - p)).sqrt().max(1.0);
                let difference = (seen[rank as usize - 1] as f64 - expected).abs();
                assert!(
                    difference <= 5.0 * deviation,
                    "s={exponent}, rank {rank}: {} drawn, {expected} expected",
                    seen[rank as usize - 1]
                );
            }
        }
    }

    #[test]
    fn one_member_is_always_drawn() {
        let mut rng = SimRng::new(1);
        for exponent in [0.0, 1.0, 5.0] {
            let zipf = Zipf::new(1, exponent);
            assert!((0..100).all(|_| zipf.sample(&mut rng) == 0));
        }
    }
}
