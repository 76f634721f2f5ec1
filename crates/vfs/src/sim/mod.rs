//! A simulated machine: a disk in memory that loses what was not synced, a clock that stands still
//! and seeded dice.
//!
//! Parts, from the outside in: `fs` (the [`Fs`](crate::Fs) face, handles, latency), `disk` (the
//! state under one lock, capacity, crashes), `names` (directories), `inode` (bytes of a file),
//! `space` (what is allocated), `fault` (what fails when), `rng`, `clock`.
//!
//! **Invariants**
//! - What a successful sync covered survives every crash; anything else may or may not.
//! - A crash gives a new, independent disk. Threads that still use the old one harm nobody.
//! - One thread, one seed, one plan: the same run, bit for bit.

mod clock;
mod disk;
mod fault;
mod fs;
mod inode;
mod names;
mod rng;
mod space;

use std::sync::Arc;

pub use clock::SimClock;
pub use fault::{Fault, Op};
pub use fs::SimFs;
pub use rng::{SimRandom, SimRng};

use crate::env::{Env, Heap};

/// Bytes that the simulated device writes as a unit (and may still tear).
pub const SECTOR_BYTES: usize = 512;

/// 2026-01-01T00:00:00Z, where simulated wall clocks start.
const SIM_EPOCH_MICROS: i64 = 1_767_225_600_000_000;

/// What a power loss leaves of the unsynced changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashImage {
    /// Nothing that was not synced.
    DropUnsynced,
    /// Everything, as if the device had been quick.
    KeepUnsynced,
    /// A seeded mixture: sectors kept, dropped or torn, names vanished or reverted.
    Random(u64),
}

/// A decided [`CrashImage`].
#[derive(Debug, Clone, Copy)]
enum Keep {
    Nothing,
    Everything,
    /// Each change by its own dice.
    Some {
        percent: u64,
        torn_percent: u64,
    },
    /// The order of writes is kept; the write at the cut is half there.
    Before {
        seq: u64,
        torn_percent: u64,
    },
}

impl Keep {
    fn decide(image: CrashImage, next_seq: u64, rng: &mut SimRng) -> Self {
        let CrashImage::Random(_) = image else {
            return match image {
                CrashImage::DropUnsynced => Keep::Nothing,
                _ => Keep::Everything,
            };
        };
        let torn_percent = [0, 2, 30][rng.below(3) as usize];
        if rng.chance(30) {
            // Near the end, where the unsynced writes are.
            let seq = next_seq.saturating_sub(rng.below(20));
            return Keep::Before { seq, torn_percent };
        }
        let percent = [5, 50, 80, 95, 99][rng.below(5) as usize];
        Keep::Some {
            percent,
            torn_percent,
        }
    }

    /// Which of the unsynced versions (oldest first, by their stamps) is on the platter; `None` for
    /// the durable one.
    fn choose(&self, seqs: impl Iterator<Item = u64>, rng: &mut SimRng) -> Option<usize> {
        match *self {
            Keep::Nothing => None,
            Keep::Everything => seqs.count().checked_sub(1),
            Keep::Some { percent, .. } => {
                let count = seqs.count() as u64;
                if count == 0 || !rng.chance(percent) {
                    None
                } else if rng.chance(70) {
                    Some(count as usize - 1)
                } else {
                    Some(rng.below(count) as usize)
                }
            }
            Keep::Before { seq: cut, .. } => {
                let kept = seqs
                    .filter(|&seq| seq < cut || (seq == cut && rng.chance(50)))
                    .count();
                kept.checked_sub(1)
            }
        }
    }

    fn tears(&self, rng: &mut SimRng) -> bool {
        match *self {
            Keep::Nothing | Keep::Everything => false,
            Keep::Some { torn_percent, .. } | Keep::Before { torn_percent, .. } => {
                rng.chance(torn_percent)
            }
        }
    }
}

/// A simulated machine; [`SimEnv::env`] is what the engine gets of it.
#[derive(Clone)]
pub struct SimEnv {
    /// The disk, with its controls.
    pub fs: SimFs,
    /// The clock, with its hands.
    pub clock: Arc<SimClock>,
    /// The dice.
    pub random: Arc<SimRandom>,
}

impl SimEnv {
    /// An empty machine.
    pub fn new(seed: u64) -> Self {
        Self::with_fs(SimFs::new(), seed)
    }

    /// A machine that starts with this disk, for instance one that a crash has left.
    pub fn with_fs(fs: SimFs, seed: u64) -> Self {
        Self {
            fs,
            clock: Arc::new(SimClock::new(SIM_EPOCH_MICROS)),
            random: Arc::new(SimRandom::new(seed)),
        }
    }

    /// The machine as everybody else sees it.
    pub fn env(&self) -> Env {
        Env {
            fs: Arc::new(self.fs.clone()),
            clock: self.clock.clone(),
            random: self.random.clone(),
            resident: || None,
            heap: Heap::UNKNOWN,
        }
    }

    /// Loses power and starts again on what is left, with new dice of the same seed.
    pub fn crash(&self, seed: u64) -> Self {
        let mut next = Self::with_fs(self.fs.crash(seed), seed);
        next.clock = self.clock.clone();
        next
    }
}
