//! Thresholds of compaction and write stalls.
//!
//! Neighbours: `pick` decides with them; whoever writes asks for the [`Pressure`], and passes at its rate or waits.
//!
//! **Invariants**
//! - Whatever shape makes writers wait also makes a compaction due: waiting ends. (Unless extents that cannot be read
//!   stand in its way; then writers are told.)

use crate::extent::HasMeta;
use crate::tree::Levels;

/// When and how much is compacted.
#[derive(Clone, Debug)]
pub struct Limits {
    /// MergeL0 in level 0 that make a merge due.
    pub l0_runs: usize,
    /// MergeL0 at which writers are to slow down.
    pub l0_slowdown_runs: usize,
    /// MergeL0 at which writers are to wait.
    pub l0_stop_runs: usize,
    /// Immutable memtables at which writers are to slow down.
    pub memtable_slowdown_count: usize,
    /// Immutable memtables at which writers are to wait.
    pub memtable_stop_count: usize,
    /// The oldest run goes to level 1 when it has this many bytes and ...
    pub l0_run_bytes: u64,
    /// ... at least one in so many bytes of level 1 (but never more than a job), so that not too much is rewritten for
    /// it.
    pub level1_per_l0_run: u64,
    /// Level 1 may always have this many bytes ...
    pub level1_bytes: u64,
    /// ... and one in so many bytes of level 2.
    pub level2_per_level1: u64,
    /// A job that moves data down reads about this many bytes.
    pub job_bytes: u64,
    /// Extents with more than this share of deletes, in percent, go down.
    pub delete_percent: u64,
    /// A run is cut where so many bytes lie below and it has nothing.
    pub gap_bytes: u64,
    /// A tree at rest sinks to level 2 if what lies above has at least this many bytes ...
    pub sink_bytes: u64,
    /// ... and this share of level 2, in percent.
    pub sink_percent: u64,
    /// Extents that came to level 2 without being rewritten are compressed as that level is, once the tree is at rest.
    pub repacks: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            l0_runs: 4,
            l0_slowdown_runs: 12,
            l0_stop_runs: 20,
            memtable_slowdown_count: 3,
            memtable_stop_count: 6,
            l0_run_bytes: 64 << 20,
            level1_per_l0_run: 4,
            level1_bytes: 256 << 20,
            level2_per_level1: 10,
            job_bytes: 256 << 20,
            delete_percent: 30,
            gap_bytes: 16 << 20,
            sink_bytes: 8 << 20,
            sink_percent: 10,
            repacks: true,
        }
    }
}

/// Steps of readers over deletes are no reason to flush as long as they are not more than this.
pub(crate) const FREE_TOMBSTONE_SKIPS: u64 = 256 << 10;
/// A version is flushed or merged in about the time of so many steps.
pub(crate) const SKIPS_PER_ENTRY: u64 = 4;

/// Whether readers have skipped the tombstones of a tier so often that it would have been better to rewrite `entries`
/// versions, so that the deletes go: whatever they do next, they and the rewrite together cost at most about twice as
/// much as with foresight.
pub(crate) fn tombstones_amplify_reads(steps: u64, entries: u64) -> bool {
    steps >= FREE_TOMBSTONE_SKIPS && steps / SKIPS_PER_ENTRY >= entries
}

/// How far background work is behind, for those who make work for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// It keeps up.
    None,
    /// Writers should slow down: how far it is on the way to [`Pressure::Stop`], in thousandths.
    Slow(u16),
    /// Writers should wait until it is less.
    Stop,
}

/// What writers may write together when the pressure begins, in bytes per second.
const FIRST_RATE: f64 = (64 << 20) as f64;
/// The same just before they must wait.
const LAST_RATE: f64 = (1 << 20) as f64;
/// All of the way.
const WHOLE: u64 = 1000;

impl Pressure {
    /// Of a quantity that slows writers from `slow` on and stops them at `stop`.
    pub fn of(quantity: u64, slow: u64, stop: u64) -> Self {
        debug_assert!(slow < stop);
        if quantity < slow {
            return Pressure::None;
        }
        if quantity >= stop {
            return Pressure::Stop;
        }
        // The first step is one already: counts of l0_runs have few.
        let steps = stop - slow + 1;
        let thousandths = u128::from(quantity - slow + 1) * u128::from(WHOLE) / u128::from(steps);
        Pressure::Slow(thousandths as u16)
    }

    /// What all writers together may write, in bytes per second: it falls by the same factor for the same part of the
    /// way, so whatever background work can do, there is a pressure at which they write just that. `None`: as they
    /// like, or nothing at all.
    pub fn rate(self) -> Option<u64> {
        let Pressure::Slow(thousandths) = self else {
            return None;
        };
        debug_assert!(u64::from(thousandths) <= WHOLE);
        let way = f64::from(thousandths) / WHOLE as f64;
        Some((FIRST_RATE * (LAST_RATE / FIRST_RATE).powf(way)) as u64)
    }
}

impl Limits {
    /// Panics if the numbers contradict each other.
    pub(crate) fn assert_sane(&self) {
        assert!(self.l0_runs >= 2, "one run cannot be merged");
        assert!(self.l0_runs < self.l0_slowdown_runs && self.l0_slowdown_runs < self.l0_stop_runs);
        assert!(self.level1_per_l0_run > 0 && self.level2_per_level1 > 0);
        assert!(
            0 < self.memtable_slowdown_count
                && self.memtable_slowdown_count < self.memtable_stop_count
        );
    }

    /// How far compaction is behind, by the l0_runs of level 0.
    pub fn pressure_of_layers<E: HasMeta>(&self, levels: &Levels<E>) -> Pressure {
        let (slow, stop) = (self.l0_slowdown_runs, self.l0_stop_runs);
        Pressure::of(levels.l0_runs().len() as u64, slow as u64, stop as u64)
    }

    /// How far flushes are behind, by the immutable memtables.
    pub fn pressure_of_immutables(&self, immutables: usize) -> Pressure {
        let (slow, stop) = (self.memtable_slowdown_count, self.memtable_stop_count);
        Pressure::of(immutables as u64, slow as u64, stop as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_slow_down_step_by_step_before_they_stop() {
        let (slow, stop) = (12, 20);
        let mut before = Pressure::None;
        let mut rate = u64::MAX;
        for quantity in 0..30 {
            let pressure = Pressure::of(quantity, slow, stop);
            assert!(before <= pressure);
            assert_eq!(pressure == Pressure::None, quantity < slow);
            assert_eq!(pressure == Pressure::Stop, quantity >= stop);
            if let Some(now) = pressure.rate() {
                // Never more than halved by one run: nobody notices where it begins.
                assert!(
                    now < rate && (rate == u64::MAX || now > rate / 2),
                    "{quantity}"
                );
                assert!((LAST_RATE as u64..FIRST_RATE as u64).contains(&now));
                rate = now;
            }
            before = pressure;
        }
        assert!(rate < 2 * LAST_RATE as u64, "slow enough to be overtaken");
    }

    #[test]
    fn large_quantities_do_not_overflow() {
        let (slow, stop) = (u64::MAX / 8 * 7, u64::MAX);
        assert_eq!(Pressure::of(slow - 1, slow, stop), Pressure::None);
        assert_eq!(Pressure::of(stop - 1, slow, stop), Pressure::Slow(999));
        assert_eq!(Pressure::of(stop, slow, stop), Pressure::Stop);
    }
}
