//! What appenders, the flush and the threads of the log share.
//!
//! **Invariants**
//! - After the first failure nothing is admitted, written or synced any more.
//! - A request for a flush or a spare is never lost: it is stored before the sleeper is looked at,
//!   and the sleeper looks at it again after it has said that it sleeps.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::Duration;

use esker_vfs::{Clock, Random};
use parking_lot::{Condvar, Mutex};

use crate::append::Host;
use crate::buffer::{Blocked, LogBuffer, Refused};
use crate::config::{FlushMode, OnFatal, Sizes};
use crate::error::WalError;
use crate::files::SegmentFiles;
use crate::flush::{Flushed, Flusher, pause_for_fill};
use crate::format::SegmentHeader;
use crate::lsn::Lsn;
use crate::stats::Counters;
use crate::waiters::Waiters;

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
    pub(crate) daemon: DaemonSignals,
    pub(crate) preparer: PreparerSignals,
}

/// How the flush daemon is told that there is work.
#[derive(Default)]
pub(crate) struct DaemonSignals {
    /// Somebody wants everything below this to be durable.
    wanted: AtomicU64,
    asleep: AtomicBool,
    stop: AtomicBool,
    pub(crate) thread: OnceLock<Thread>,
}

impl DaemonSignals {
    fn want(&self, lsn: Lsn) {
        if self.wanted.fetch_max(lsn.0, Ordering::SeqCst) < lsn.0 {
            self.wake();
        }
    }

    pub(crate) fn wanted(&self) -> Lsn {
        Lsn(self.wanted.load(Ordering::SeqCst))
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.wake();
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn wake(&self) {
        if self.asleep.load(Ordering::SeqCst)
            && self.asleep.swap(false, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Sleeps until woken, or for `at_most`, unless there is work for who has done everything up to
    /// `done`.
    pub(crate) fn sleep(&self, done: Lsn, at_most: Duration) {
        self.asleep.store(true, Ordering::SeqCst);
        if self.wanted() <= done && !self.stopping() {
            std::thread::park_timeout(at_most);
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}

/// How the thread that prepares segments is told that there is work.
#[derive(Default)]
pub(crate) struct PreparerSignals {
    state: Mutex<PreparerState>,
    changed: Condvar,
}

#[derive(Default)]
struct PreparerState {
    requested: bool,
    /// Room that somebody waits for.
    needed: u64,
    stop: bool,
}

impl PreparerSignals {
    fn request(&self, needed: u64) {
        let mut state = self.state.lock();
        state.requested = true;
        state.needed = state.needed.max(needed);
        self.changed.notify_one();
    }

    pub(crate) fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_one();
    }

    /// Blocks until there is a request; `None` when it is time to stop.
    pub(crate) fn await_request(&self) -> Option<u64> {
        let mut state = self.state.lock();
        loop {
            if state.stop {
                return None;
            }
            if state.requested {
                state.requested = false;
                return Some(std::mem::take(&mut state.needed));
            }
            self.changed.wait(&mut state);
        }
    }

    pub(crate) fn stopping(&self) -> bool {
        self.state.lock().stop
    }
}

impl Shared {
    /// Asks for everything up to `lsn` to be made durable soon.
    pub(crate) fn request_flush(&self, lsn: Lsn) {
        // What is not appended yet cannot be flushed, and the daemon must not wait for it.
        let lsn = lsn.min(self.buffer.end());
        if self.mode == FlushMode::Daemon && lsn > self.waiters.durable() {
            self.daemon.want(lsn);
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

    /// Prepares segments until there are enough. A full disk is not an error here: who waits for
    /// room is told so.
    pub(crate) fn prepare_spares(&self, needed: u64) -> Result<(), WalError> {
        while self.buffer.wants_spare(needed) && !self.preparer.stopping() {
            match self.files.prepare_spare() {
                Ok(()) => self.buffer.spare_added(),
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

    /// Hardens one group; a failure is the end of the log.
    pub(crate) fn flush_once(&self) -> Result<Flushed, WalError> {
        let mut flusher = self.flusher.lock();
        if let Some(error) = self.waiters.failure() {
            return Err(error.clone());
        }
        flusher
            .flush_group(self)
            .inspect_err(|error| self.fail(error))
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
        for _ in 0..self.files.release_below(lsn)? {
            self.buffer.spare_added();
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
        self.buffer.fail(error);
        first
    }

    pub(crate) fn segment_header(&self, start: Lsn, after_open: bool) -> SegmentHeader {
        SegmentHeader {
            cluster: self.cluster,
            start,
            id: self.random.next_u64(),
            file_bytes: self.sizes.segment,
            after_open,
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
        self.counters.append_waited();
        match (self.mode, blocked.why) {
            (FlushMode::Daemon, Refused::Ring) => self.request_flush(self.buffer.end()),
            (FlushMode::Daemon, Refused::Disk { needed }) => self.request_spare(needed),
            (FlushMode::Manual, Refused::Ring) => {
                self.flush_once()?;
            }
            (FlushMode::Manual, Refused::Disk { needed }) => self.prepare_spares(needed)?,
        }
        Ok(self.buffer.await_change(blocked))
    }

    fn no_space(&self) -> WalError {
        WalError::NoSpace {
            dir: self.files.dir().to_path_buf(),
        }
    }
}
