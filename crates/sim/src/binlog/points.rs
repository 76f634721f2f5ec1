//! The binary log under a crash at every disk operation of a trace: the power goes, or the process alone.
//!
//! Neighbours: `binlog` has the trace, which is the same up to the crash for the same seed, and what is checked.
//! **Invariant**: each crash is followed by a second one while the first is repaired, at an operation that the dice
//! choose, and by a start that has to give everything that was told.

use esker_binlog::files::Commits;
use esker_vfs::sim::{CrashImage, SimEnv, SimRng};

use super::{Life, Report, World};

/// How a life ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// The disk keeps what was synced, and some of the rest.
    Power,
    /// The system keeps all that was written.
    Kill,
}

/// The second crash comes within this many operations of the repair.
const REPAIR_OPS: u64 = 60;

/// What the crashes of a trace came to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Points {
    /// Operations at which the trace was broken off.
    pub crashes: u64,
    /// Transactions in the files after the last one.
    pub transactions: u64,
}

/// Breaks the trace of a seed off at every `stride`th disk operation, from the `first`th on.
///
/// # Panics
/// When a promise is broken; the message has the seed, and the operation.
pub fn run(seed: u64, (first, stride): (u64, u64), commits: Commits, death: Death) -> Points {
    assert!(first > 0 && stride > 0, "operations count from 1");
    let mut points = Points::default();
    let mut at = first;
    loop {
        let (report, was_cut) = break_off(seed, at, commits, death);
        if !was_cut {
            return points;
        }
        points.crashes += 1;
        points.transactions = report.transactions;
        at += stride;
    }
}

/// Breaks the trace off at one operation. The second value: it was not over before.
fn break_off(seed: u64, at: u64, commits: Commits, death: Death) -> (Report, bool) {
    let mut sim = SimEnv::new(seed);
    let mut world = World::new(seed, commits);
    // A place of its own in messages of those that fail.
    let context = format!("{seed}, operation {at}, {death:?}, {commits:?}");
    let mut dice = SimRng::new(seed ^ (at << 32));
    sim.fs.halt_at(sim.fs.ops() + at);
    world.live(&sim, &context);
    let was_cut = !sim.fs.has_power();
    sim = after(&sim, death, &mut dice);
    sim.fs.halt_at(sim.fs.ops() + 1 + dice.below(REPAIR_OPS));
    if let Ok(mut repaired) = Life::begin(&sim, commits) {
        let _ = repaired.sync();
    }
    sim = after(&sim, death, &mut dice);
    (world.recover(&sim, &context), was_cut)
}

/// The machine when it is up again.
fn after(sim: &SimEnv, death: Death, dice: &mut SimRng) -> SimEnv {
    let seed = dice.next_u64();
    let image = match death {
        Death::Power => CrashImage::Random(seed),
        Death::Kill => CrashImage::KeepUnsynced,
    };
    SimEnv::with_fs(sim.fs.crash_with(image), seed)
}
