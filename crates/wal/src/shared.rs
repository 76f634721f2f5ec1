//! What appenders, the flush and the threads of the log share.
//!
//! **Invariants**
//! - After the first failure nothing is admitted, written or synced any more.
//! - The flusher is locked before the state of the flights, and neither while a group is written.

use std::sync::Arc;
use std::time::Duration;

use esker_vfs::{Clock, Random};
use parking_lot::{Mutex, MutexGuard};

use crate::append::Host;
use crate::buffer::{Blocked, LogBuffer, Refused};
use crate::config::{FlushMode, OnFatal, Sizes};
use crate::error::WalError;
use crate::files::SegmentFiles;
use crate::flights::Flights;
use crate::flush::{Flushed, Flusher, Lane, flush_group, pause_for_fill};
use crate::format::SegmentHeader;
use crate::lsn::Lsn;
use crate::policy::{Decision, FlushPolicy, Load};
use crate::signals::{DaemonSignals, PreparerSignals};
use crate::stats::{Counters, WaitCause};
use crate::waiters::Waiters;

/// A flush that takes no longer than this, mostly, may be done by the thread that waits for it.
pub(crate) const QUICK_FLUSH: Duration = Duration::from_micros(250);

/// A flush that takes no longer than this, mostly, costs less than waking another thread for it.
pub(crate) const CHEAP_FLUSH: Duration = Duration::from_micros(25);

/// So many transactions of a thread are worth a cheap flush while it has others to run.
const WORTH_FLUSHING: usize = 64;

/// So many are worth waking the daemon, where the device works while the thread runs others; or half of those that the
/// thread runs in a turn, if that is more: the other half is time enough, and groups are larger.
const WORTH_WAKING: usize = 8;

/// What the thread that drives the log would do otherwise, see [`crate::Wal::drive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It has other transactions to run.
    Busy {
        /// Those it has run that wait for the log and have not been asked for.
        waiting: usize,
        /// Those it runs, these among them, before it looks who may go on.
        in_turn: usize,
    },
    /// It would sleep.
    Idle,
}

/// What [`crate::Wal::drive`] has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driven {
    /// It is durable.
    Durable,
    /// The daemon was asked for it.
    Asked,
    /// Nothing yet: more should wait first.
    NotYet,
}

pub(crate) struct Shared {
    pub(crate) mode: FlushMode,
    pub(crate) sizes: Sizes,
    pub(crate) cluster: [u8; 16],
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) on_fatal: OnFatal,
    pub(crate) files: SegmentFiles,
    pub(crate) buffer: LogBuffer,
    pub(crate) waiters: Waiters,
    pub(crate) counters: Counters,
    pub(crate) flusher: Mutex<Flusher>,
    pub(crate) flights: Flights,
    /// For who flushes without being a flush thread.
    pub(crate) own_lane: Mutex<Lane>,
    pub(crate) daemon: DaemonSignals,
    pub(crate) preparer: PreparerSignals,
}

impl Shared {
    /// Asks for everything up to `lsn` to be made durable soon.
    pub(crate) fn request_flush(&self, lsn: Lsn) {
        // What is not appended yet cannot be flushed, and the daemon must not wait for it.
        let lsn = lsn.min(self.buffer.end());
        if self.mode == FlushMode::Daemon && lsn > self.waiters.durable() {
            self.daemon.want(lsn, || self.clock.mono_nanos());
        }
    }

    /// What the daemon should do now.
    pub(crate) fn decide(&self) -> Decision {
        let policy = self.daemon.policy.effective();
        self.load(&policy).decide(&policy)
    }

    /// Whether another group may begin before the one that has just departed is durable.
    pub(crate) fn may_overlap(&self) -> bool {
        let policy = self.daemon.policy.effective();
        self.load(&policy).may_overlap(&policy)
    }

    fn load(&self, policy: &FlushPolicy) -> Load {
        let taken = self.daemon.consumed();
        let in_flight = self.flights.airborne();
        let now = match policy.interval.is_zero() && in_flight == 0 {
            true => 0,
            false => self.clock.mono_nanos(),
        };
        let since = |then: u64| Duration::from_nanos(now.saturating_sub(then));
        Load {
            wanted: self.daemon.wanted() > taken,
            hurry: self.daemon.hurried(),
            bytes: self.buffer.end().0.saturating_sub(taken.0),
            transactions: self.daemon.transactions(),
            age: since(self.daemon.first_asked()),
            in_flight,
            since_last: since(self.flights.last_departed()),
            expected: self.flights.expected(),
        }
    }

    /// Asks for another segment in waiting, or for as many as `needed` bytes take.
    pub(crate) fn request_spare(&self, needed: u64) {
        match self.mode {
            FlushMode::Daemon => self.preparer.request(needed),
            FlushMode::Manual => {
                // An error is told to whoever finds no room because of it.
                let _ = self.prepare_spares(needed);
            }
        }
    }

    /// Prepares the reserve, and segments until there are enough. A full disk is not an error here: who waits for room
    /// is told so. The reserve comes first: what is short must not go to records that the next opening has no room to
    /// follow.
    pub(crate) fn prepare_spares(&self, needed: u64) -> Result<(), WalError> {
        self.files
            .prepare_reserve()
            .inspect_err(|error| self.fail(error))?;
        while self.buffer.wants_spare(needed) && !self.preparer.stopping() {
            match self.files.prepare_spare(needed > 0) {
                Ok(bytes) => self.buffer.spare_added(bytes),
                Err(WalError::NoSpace { .. }) => {
                    self.buffer.no_space();
                    break;
                }
                Err(error) => {
                    self.fail(&error);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// As [`crate::Wal::harden_if_quick`].
    pub(crate) fn harden_if_quick(&self, lsn: Lsn) -> Result<bool, WalError> {
        if self.flights.airborne() > 0 || !self.flushes_within(QUICK_FLUSH) {
            return Ok(false);
        }
        match self.own_lane.try_lock() {
            Some(lane) => self.harden_here(lane, lsn),
            None => Ok(false),
        }
    }

    /// Whether a thread that waits may flush by itself, because it mostly takes no longer than this.
    fn flushes_within(&self, limit: Duration) -> bool {
        self.mode == FlushMode::Daemon
            && self.daemon.policy.interval().is_zero()
            && (Duration::from_nanos(1)..=limit).contains(&self.flights.expected())
    }

    /// Flushes on this thread until `lsn` is durable; false if that depends on another thread.
    fn harden_here(&self, mut lane: MutexGuard<'_, Lane>, lsn: Lsn) -> Result<bool, WalError> {
        if self.waiters.durable() >= lsn {
            return Ok(true);
        }
        let begun = self.clock.mono_nanos();
        while self.waiters.durable() < lsn {
            if self.daemon.consumed() >= lsn {
                // On its way, or behind a group that is: landing is left to others.
                return Ok(false);
            }
            match self.flush(&mut lane, || {})? {
                Flushed::Something => {}
                // Another thread is filling its place, mostly for less time than it takes to wake the daemon.
                Flushed::Nothing if self.flusher.lock().is_filled_soon(self) => {}
                Flushed::Nothing | Flushed::Later => return Ok(false),
            }
        }
        debug_assert!(self.waiters.durable() >= lsn);
        let nanos = self.clock.mono_nanos().saturating_sub(begun);
        self.counters.waited(WaitCause::Durable, nanos);
        self.counters.waited(WaitCause::Switch, 0);
        Ok(true)
    }

    /// As [`crate::Wal::drive`].
    pub(crate) fn drive(&self, lsn: Lsn, turn: Turn) -> Result<Driven, WalError> {
        if self.waiters.durable() >= lsn {
            return Ok(Driven::Durable);
        }
        let flushed = if self.flushes_within(CHEAP_FLUSH) {
            let lane = match turn {
                // Whoever is flushing now is done sooner than the daemon would be awake.
                Turn::Idle => Some(self.own_lane.lock()),
                Turn::Busy { waiting, .. } if waiting >= WORTH_FLUSHING => self.own_lane.try_lock(),
                Turn::Busy { .. } => None,
            };
            let Some(lane) = lane else {
                return Ok(Driven::NotYet);
            };
            self.harden_here(lane, lsn)?
        } else {
            match turn {
                Turn::Busy { waiting, in_turn } if waiting < (in_turn / 2).max(WORTH_WAKING) => {
                    return Ok(Driven::NotYet);
                }
                Turn::Busy { .. } => false,
                Turn::Idle => self.harden_if_quick(lsn)?,
            }
        };
        if flushed {
            debug_assert!(self.waiters.durable() >= lsn);
            return Ok(Driven::Durable);
        }
        self.request_flush(lsn);
        Ok(Driven::Asked)
    }

    /// Hardens one group; a failure is the end of the log.
    pub(crate) fn flush(
        &self,
        lane: &mut Lane,
        departed: impl FnOnce(),
    ) -> Result<Flushed, WalError> {
        flush_group(self, lane, departed).inspect_err(|error| self.fail(error))
    }

    /// As [`Shared::flush`], by who is not a flush thread.
    pub(crate) fn flush_once(&self) -> Result<Flushed, WalError> {
        self.flush(&mut self.own_lane.lock(), || {})
    }

    /// Hardens what is left when the daemon has gone, and seals the end.
    pub(crate) fn flush_rest(&self) -> Result<(), WalError> {
        while self.flush_once()? == Flushed::Something {}
        let mut flusher = self.flusher.lock();
        if let Some(error) = self.waiters.failure() {
            return Err(error.clone());
        }
        flusher.seal(self).inspect_err(|error| self.fail(error))
    }

    /// Recycles or removes segments that end at or below `lsn`.
    pub(crate) fn release_below(&self, lsn: Lsn) -> Result<(), WalError> {
        for bytes in self.files.release_below(lsn)? {
            self.buffer.spare_added(bytes);
        }
        Ok(())
    }

    /// Waits for an appender that is filling its place at `at`; false if that will not happen any
    /// more.
    pub(crate) fn await_fill(&self, at: Lsn) -> bool {
        pause_for_fill(self, at);
        self.waiters.failure().is_none()
    }

    /// The log is over: everybody who waits or appends gets this error.
    pub(crate) fn fail(&self, error: &WalError) {
        if self.end_with(error) {
            (self.on_fatal)(&error.to_string());
        }
        self.waiters.wake_all();
    }

    /// As [`Shared::fail`], but it is nobody's fault.
    pub(crate) fn close(&self) {
        self.end_with(&WalError::Closed);
        self.waiters.wake_all();
    }

    fn end_with(&self, error: &WalError) -> bool {
        let first = self.waiters.fail(error);
        debug_assert!(self.waiters.failure().is_some());
        self.buffer.fail(error);
        self.flights.end();
        first
    }

    pub(crate) fn segment_header(&self, start: Lsn, after_open: bool) -> SegmentHeader {
        debug_assert!(start >= Lsn::FIRST);
        SegmentHeader {
            cluster: self.cluster,
            start,
            id: self.random.next_u64(),
            file_bytes: self.sizes.segment,
            after_open,
            gap: None,
        }
    }
}

impl Host for Shared {
    fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    fn buffer(&self) -> &LogBuffer {
        &self.buffer
    }

    fn wait_for_room(&self, blocked: Blocked) -> Result<bool, WalError> {
        let begun = self.clock.mono_nanos();
        match (self.mode, blocked.why) {
            (FlushMode::Daemon, Refused::Ring) => {
                self.request_flush(self.buffer.end());
                self.daemon.hurry();
            }
            (FlushMode::Daemon, Refused::Disk { needed }) => self.request_spare(needed),
            (FlushMode::Manual, Refused::Ring) => {
                self.flush_once()?;
            }
            (FlushMode::Manual, Refused::Disk { needed }) => self.prepare_spares(needed)?,
        }
        let refused = self.buffer.await_change(blocked);
        let cause = match blocked.why {
            Refused::Ring => WaitCause::BufferFull,
            Refused::Disk { .. } => WaitCause::NoSegment,
        };
        let nanos = self.clock.mono_nanos().saturating_sub(begun);
        self.counters.waited(cause, nanos);
        Ok(refused)
    }

    fn no_space(&self) -> WalError {
        WalError::NoSpace {
            dir: self.files.dir().to_path_buf(),
        }
    }
}
