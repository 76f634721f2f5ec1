//! Rate limiter for throttled writers: a virtual queue in which time passes at the permitted rate.
//!
//! Neighbours: `admit` knows the rate and waits.
//!
//! **Invariants**
//! - Writers pass in the order in which they came, at the rate that was right when they came.
//! - Nobody waits longer than [`MAX_DELAY`], however large his transaction: a line that is longer is not prolonged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The longest wait.
pub(super) const MAX_DELAY: Duration = Duration::from_secs(1);
/// Shorter waits are left out: to sleep and to wake up takes as long. The line is not shorter for that, so the next
/// ones wait for those before them.
const MIN_DELAY: Duration = Duration::from_micros(500);

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// The line.
#[derive(Default)]
pub(super) struct Throttle {
    /// When it ends, in nanoseconds of the clock.
    end: AtomicU64,
}

impl Throttle {
    /// Takes a place for so many bytes; says how long to wait from `now` on.
    pub(super) fn reserve(&self, now: u64, bytes: u64, rate: u64) -> Duration {
        let nanos = u128::from(bytes) * NANOS_PER_SECOND / u128::from(rate.max(1));
        let longest = now.saturating_add(MAX_DELAY.as_nanos() as u64);
        let prolonged = |end: u64| {
            let end = u128::from(end.max(now)) + nanos;
            u64::try_from(end).unwrap_or(u64::MAX).min(longest)
        };
        let before = self
            .end
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |end| {
                Some(prolonged(end))
            })
            .unwrap_or_else(|end| end);
        let delay = Duration::from_nanos(prolonged(before).saturating_sub(now));
        debug_assert!(delay <= MAX_DELAY);
        match delay < MIN_DELAY {
            true => Duration::ZERO,
            false => delay,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 1 << 20;
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn writers_pass_at_the_rate_whatever_the_size_of_what_they_write() {
        for bytes in [100, 10_000, 500_000] {
            let throttle = Throttle::default();
            let start = 5 * SECOND;
            let (mut now, mut passed) = (start, 0);
            while now < start + 10 * SECOND {
                now += throttle.reserve(now, bytes, RATE).as_nanos() as u64;
                passed += bytes;
            }
            let rate = passed as f64 / ((now - start) as f64 / SECOND as f64);
            let ratio = rate / RATE as f64;
            assert!((0.99..1.01).contains(&ratio), "{bytes} bytes: {ratio}");
        }
    }

    #[test]
    fn a_line_is_forgotten_when_time_has_passed_and_never_too_long() {
        let throttle = Throttle::default();
        assert_eq!(
            throttle.reserve(0, RATE / 4, RATE),
            Duration::from_millis(250)
        );
        assert_eq!(
            throttle.reserve(0, RATE / 4, RATE),
            Duration::from_millis(500)
        );
        assert_eq!(throttle.reserve(0, 1 << 40, RATE), MAX_DELAY);
        assert_eq!(throttle.reserve(0, RATE, RATE), MAX_DELAY);
        assert_eq!(
            throttle.reserve(SECOND, RATE / 4, RATE),
            Duration::from_millis(250)
        );
        assert_eq!(throttle.reserve(60 * SECOND, 100, RATE), Duration::ZERO);
        assert_eq!(throttle.reserve(u64::MAX - 1, RATE, 0), Duration::ZERO);
    }
}
