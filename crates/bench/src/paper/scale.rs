//! How much of the series is run.
//!
//! Neighbours: `series` goes through these lists.
//!
//! **Invariants**
//! - The quick form has the same comparisons with fewer points; its figures prove nothing.

use std::time::Duration;

use crate::logbuf::Sizes;

/// Commits, one after the other, that a run is long enough for.
const FEWEST_COMMITS: u32 = 100;

/// The points of all series.
pub(super) struct Scale {
    /// How long each run of transactions is measured, or longer: see [`Scale::time_for`].
    pub(super) commit_time: Duration,
    /// How often; the run in the middle counts. An odd number.
    pub(super) repeats: usize,
    /// How long each variant of the log buffer is measured, in all turns.
    pub(super) log_time: Duration,
    pub(super) log_threads: Vec<u64>,
    pub(super) log_sizes: Vec<Sizes>,
    /// A holder of the lock is preempted in one of so many critical sections.
    pub(super) preempted_one_in: Vec<u64>,
    pub(super) skews: Vec<f64>,
    pub(super) latencies: Vec<Duration>,
    /// Sessions of the comparison of early lock release.
    pub(super) elr_sessions: u64,
    pub(super) sessions: Vec<u64>,
    pub(super) ablation_sessions: Vec<u64>,
    /// Extra latencies of the comparison of pipelining and of the ablation.
    pub(super) devices: Vec<Duration>,
    pub(super) branches: u64,
    pub(super) accounts: u64,
    pub(super) subscribers: u64,
}

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

impl Scale {
    /// Enough for conclusions on a quiet machine, in some eight minutes.
    pub(super) fn full() -> Scale {
        use Sizes::{Fixed, Mixed, Skewed};
        Scale {
            commit_time: Duration::from_millis(500),
            repeats: 3,
            log_time: Duration::from_millis(600),
            log_threads: vec![1, 2, 8, 64],
            log_sizes: vec![
                Fixed(48),
                Fixed(480),
                Fixed(1920),
                Fixed(12_288),
                Mixed,
                Skewed,
            ],
            preempted_one_in: vec![1, 4, 16, 256],
            skews: vec![0.0, 0.5, 0.85, 1.25, 2.0, 5.0],
            latencies: vec![us(0), us(100), us(1000), us(10_000)],
            elr_sessions: 128,
            sessions: vec![16, 64, 256, 1024],
            ablation_sessions: vec![64, 256],
            devices: vec![us(0), us(100), us(1000)],
            branches: 100,
            accounts: 1000,
            subscribers: 20_000,
        }
    }

    /// Some two minutes.
    pub(super) fn quick() -> Scale {
        Scale {
            commit_time: Duration::from_millis(300),
            repeats: 1,
            log_time: Duration::from_millis(150),
            log_threads: vec![1, 2, 64],
            log_sizes: vec![Sizes::Fixed(48), Sizes::Fixed(12_288), Sizes::Mixed],
            preempted_one_in: vec![1, 16, 256],
            skews: vec![0.0, 1.0, 2.0, 5.0],
            latencies: vec![us(0), us(1000), us(10_000)],
            devices: vec![us(0), us(1000)],
            sessions: vec![16, 256],
            subscribers: 10_000,
            ..Scale::full()
        }
    }

    /// How long a run on a device of this latency is measured: at least so long that a hundred commits, one after the
    /// other, fit.
    pub(super) fn time_for(&self, latency: Duration) -> Duration {
        self.commit_time.max(latency * FEWEST_COMMITS)
    }

    /// As little as shows that it works.
    #[cfg(test)]
    pub(super) fn tiny() -> Scale {
        Scale {
            commit_time: Duration::from_millis(30),
            repeats: 1,
            log_time: Duration::from_millis(9),
            log_threads: vec![1, 2],
            log_sizes: vec![Sizes::Fixed(48), Sizes::Mixed],
            preempted_one_in: vec![1, 16],
            skews: vec![0.0, 2.0],
            latencies: vec![us(1000)],
            elr_sessions: 8,
            sessions: vec![4, 8],
            ablation_sessions: vec![4],
            devices: vec![us(0)],
            branches: 4,
            accounts: 20,
            subscribers: 50,
        }
    }
}
