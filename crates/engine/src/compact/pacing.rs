//! Pacing of compactions: yields to foreground work, and ends early when the result is no longer wanted.
//!
//! Neighbours: `run` takes a step here for every entry it writes.
//!
//! **Invariants**
//! - How much of the time a job works is a pure function of how urgent it is: all of it as soon as it is more than just
//!   due, or writers are slowed down; or, if a tree is at rest, as long as nobody is at work elsewhere either.
//! - A job that is not wanted any more ends within [`STEP_BYTES`].

use std::thread;
use std::time::Duration;

use super::limits::{Limits, Pressure};
use super::pick::{Reason, Task};
use crate::extent::HasMeta;
use crate::tree::{Levels, Tree, Trees};
use crate::{EngineError, Result};

/// How much is written between two looks.
const STEP_BYTES: usize = 1 << 20;
/// The longest pause, however long a step took.
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// How a compaction is done.
#[derive(Clone, Copy)]
pub(crate) enum Effort<'a> {
    /// As quickly as possible.
    Full,
    /// With pauses, as long as nobody waits for it, for those who are at work: says whether somebody is.
    Considerate(&'a dyn Fn() -> bool),
}

/// Which part of the time a job works, in percent.
fn working_percent<E: HasMeta>(
    reason: Reason,
    levels: &Levels<E>,
    pressure: Pressure,
    limits: &Limits,
    is_in_use: &dyn Fn() -> bool,
) -> u32 {
    let is_urgent = pressure != Pressure::None || levels.l0_runs().len() > limits.l0_runs;
    match reason {
        _ if is_urgent => 100,
        Reason::Space if is_in_use() => 33,
        Reason::Space => 100,
        _ => 67,
    }
}

/// A compaction at work.
pub(super) struct Pace<'a> {
    trees: &'a Trees,
    tree: &'a Tree,
    reason: Reason,
    effort: Effort<'a>,
    /// Bytes since the last yield_to_others, and when that was.
    bytes: usize,
    since: u64,
}

impl<'a> Pace<'a> {
    pub(super) fn new(trees: &'a Trees, tree: &'a Tree, task: &Task, effort: Effort<'a>) -> Self {
        Pace {
            trees,
            tree,
            reason: task.reason,
            effort,
            bytes: 0,
            since: trees.clock().mono_nanos(),
        }
    }

    /// So much is going to be written.
    #[inline]
    pub(super) fn step(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        match self.bytes < STEP_BYTES {
            true => Ok(()),
            false => self.yield_to_others(),
        }
    }

    #[cold]
    fn yield_to_others(&mut self) -> Result<()> {
        self.bytes = 0;
        if self.tree.is_dropped() {
            return Err(EngineError::NoSuchTree(self.tree.id()));
        }
        if self.trees.is_cancelled() {
            return Err(EngineError::Stopped("shutting down".into()));
        }
        if let Effort::Considerate(is_in_use) = self.effort {
            let (flushes, compactions) = self.trees.pressure(self.tree);
            let superversion = self.tree.superversion();
            let percent = working_percent(
                self.reason,
                superversion.version.levels(),
                flushes.max(compactions),
                self.trees.limits(),
                is_in_use,
            );
            drop(superversion);
            debug_assert!((1..=100).contains(&percent));
            let worked = self.trees.clock().mono_nanos().saturating_sub(self.since);
            let pause = Duration::from_nanos(worked) * (100 - percent) / percent;
            if !pause.is_zero() {
                thread::sleep(pause.min(MAX_PAUSE));
            }
        }
        self.since = self.trees.clock().mono_nanos();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extent::ExtentMeta;
    use crate::tree::levels::tests::{paper, shape};
    use crate::tree::{RunAddress, RunId};

    #[test]
    fn a_job_takes_all_its_time_when_somebody_may_have_to_wait() {
        let limits = Limits::default();
        let levels = |l0_runs: usize| -> Levels<ExtentMeta> {
            let l0_run = |n| {
                (
                    RunAddress::l0(RunId(n as u64 + 1)),
                    paper(n as u32 + 1, "a", "z", 100),
                )
            };
            shape(&(0..l0_runs).map(l0_run).collect::<Vec<_>>())
        };
        let percent_if = |is_busy: bool, reason, l0_runs, pressure| {
            working_percent(reason, &levels(l0_runs), pressure, &limits, &|| is_busy)
        };
        let percent = |reason, l0_runs, pressure| percent_if(true, reason, l0_runs, pressure);
        for reason in [
            Reason::MergeL0,
            Reason::Size,
            Reason::Deletes,
            Reason::Space,
        ] {
            assert_eq!(percent(reason, 0, Pressure::Slow(1)), 100);
            assert_eq!(percent(reason, limits.l0_runs + 1, Pressure::None), 100);
            assert!(percent(reason, limits.l0_runs, Pressure::None) < 100);
        }
        let at_ease = |reason| percent(reason, 1, Pressure::None);
        assert!(at_ease(Reason::Space) < at_ease(Reason::MergeL0));
        // A tree that is written to has writers, even if none of them is seen at this moment.
        assert_eq!(percent_if(false, Reason::Space, 1, Pressure::None), 100);
        assert!(percent_if(false, Reason::MergeL0, 1, Pressure::None) < 100);
    }
}
