//! Admission control of writers: pass, throttled, or stalled, by how far background work is behind.
//!
//! Neighbours: `commit` asks before it takes a place in the log; `compact::Pressure` is the measure, a pure function of
//! how much there is to do; `throttle` is the line; `stalls` counts.
//!
//! **Invariants**
//! - Latency rises before anybody has to wait: every quantity that stops writers slows them first.
//! - A writer that waits is told when what it waits for will not come.
//! - Readers are never held.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::stalls::StallCause;
use super::{Core, Mode};
use crate::batch::WriteSet;
use crate::compact::{Effort, Pressure};
use crate::tree::Tree;
use crate::{EngineError, Result};

/// How long a writer is held at a time before it looks again.
const STALL_RECHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Memtables slow writers down when all but one in so many parts of their memory is used.
const SPARE_PART: usize = 8;

/// How far memtables are on the way to their limit.
fn memory_pressure(bytes: usize, limit: usize) -> Pressure {
    let slow = limit - limit / SPARE_PART;
    debug_assert!(slow <= limit);
    // At the limit they still fit.
    Pressure::of(bytes as u64, slow as u64, limit as u64 + 1)
}

impl Core {
    /// Holds a writer back while memtables need more memory than they may have, or background work is too far behind
    /// with a tree it writes to; slows it down before that.
    #[inline]
    pub(super) fn admit(&self, writes: &WriteSet) -> Result<()> {
        match self.pressure(writes) {
            (Pressure::None, _) => Ok(()),
            (pressure, cause) => self.hold_writer(writes, pressure, cause),
        }
    }

    /// How far memtables are on the way to what the budget leaves them.
    #[inline]
    fn memory_pressure(&self) -> Pressure {
        memory_pressure(
            self.env.commit.budget.unflushed(),
            self.env.commit.budget.memtables_hard(),
        )
    }

    /// The largest pressure, and what makes it.
    #[inline]
    fn pressure(&self, writes: &WriteSet) -> (Pressure, StallCause) {
        let memory = self.memory_pressure();
        let mut worst = (memory, StallCause::of_memory(memory));
        for writes in writes.trees() {
            let (memtables, l0_runs) = self.env.trees.pressure(&writes.tree);
            if memtables > worst.0 {
                worst = (memtables, StallCause::of_memtables(memtables));
            }
            if l0_runs > worst.0 {
                worst = (l0_runs, StallCause::of_l0_runs(l0_runs));
            }
        }
        worst
    }

    /// Whether a commit may block its thread, for up to a second or longer, because background work is behind.
    pub(crate) fn holds_writers(&self) -> bool {
        self.maintenance.holds_writers.load(Ordering::Relaxed)
    }

    /// Takes note if nobody has to be slowed down any more.
    pub(super) fn note_relief(&self, trees: &[Tree]) {
        if !self.holds_writers() {
            return;
        }
        let memory = self.memory_pressure();
        let no_pressure = (Pressure::None, Pressure::None);
        let mut trees = trees.iter().map(|tree| self.env.trees.pressure(tree));
        if memory == Pressure::None && trees.all(|pressure| pressure == no_pressure) {
            self.maintenance
                .holds_writers
                .store(false, Ordering::Relaxed);
        }
    }

    fn must_wait(&self, writes: &WriteSet) -> bool {
        self.pressure(writes).0 == Pressure::Stop
    }

    #[cold]
    fn hold_writer(&self, writes: &WriteSet, pressure: Pressure, cause: StallCause) -> Result<()> {
        self.maintenance
            .holds_writers
            .store(true, Ordering::Relaxed);
        self.maintenance.ask_for_flush();
        self.maintenance.ask_for_compaction();
        let clock = &self.maintenance.clock;
        let since = clock.mono_nanos();
        let Some(rate) = pressure.rate() else {
            let _waiting = self.maintenance.stalls.begin(cause, &**clock);
            return self.hold_until_relieved(writes);
        };
        if self.config.mode == Mode::Manual {
            return Ok(());
        }
        let throttle = &self.maintenance.throttle;
        let delay = throttle.reserve(since, writes.bytes(), rate);
        if !delay.is_zero() {
            let _waiting = self.maintenance.stalls.begin(cause, &**clock);
            thread::sleep(delay);
        }
        Ok(())
    }

    fn hold_until_relieved(&self, writes: &WriteSet) -> Result<()> {
        if self.config.mode == Mode::Manual {
            while self.must_wait(writes) {
                if !self.flush_step()? && !self.compact_step(Effort::Full)? {
                    return self.stuck(writes).map_or(Ok(()), Err);
                }
            }
            return Ok(());
        }
        while self.must_wait(writes) {
            self.env.trees.check_health()?;
            if let Some(error) = self.stuck(writes) {
                return Err(error);
            }
            let mut signal = self.maintenance.signal.lock();
            if signal.stop {
                return Err(EngineError::Stopped("shutting down".into()));
            }
            self.maintenance
                .freed
                .wait_for(&mut signal, STALL_RECHECK_INTERVAL);
        }
        Ok(())
    }

    /// Why it makes no sense that a writer waits for background work; `None` if it does.
    fn stuck(&self, writes: &WriteSet) -> Option<EngineError> {
        let maintenance = &self.maintenance;
        if maintenance.flush_finds_no_space.load(Ordering::Relaxed) > 0 {
            let what = "memory is full and cannot be flushed";
            return Some(EngineError::DiskFull(what.into()));
        }
        if self.memory_pressure() == Pressure::Stop {
            return None;
        }
        let mut trees = writes.trees().iter().map(|writes| &writes.tree);
        let finds_no_space = &maintenance.compaction_finds_no_space;
        if finds_no_space.load(Ordering::Relaxed) > 0
            && trees
                .clone()
                .any(|tree| self.env.trees.waits_for_compaction(tree))
        {
            let what = "level 0 is full and cannot be compacted";
            return Some(EngineError::DiskFull(what.into()));
        }
        trees.find_map(|tree| self.env.trees.blocked_compaction(tree))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_slows_writers_before_it_stops_them() {
        const LIMIT: usize = 1 << 30;
        let pressure = |bytes| memory_pressure(bytes, LIMIT);
        // Memtables are switched at three quarters; that alone slows nobody.
        assert_eq!(pressure(LIMIT / 4 * 3), Pressure::None);
        assert_eq!(pressure(LIMIT / 8 * 7 - 1), Pressure::None);
        assert_eq!(pressure(LIMIT / 8 * 7), Pressure::Slow(0));
        assert_eq!(pressure(LIMIT / 16 * 15), Pressure::Slow(500));
        assert!(matches!(pressure(LIMIT), Pressure::Slow(999..)));
        assert_eq!(pressure(LIMIT + 1), Pressure::Stop);
    }
}
