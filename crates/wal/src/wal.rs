//! The log as its users see it.
//!
//! Neighbours: `recover` reads what is there and finds the end, `append` writes records, `flush`
//! hardens them, `future` tells when.
//!
//! **Invariants**
//! - Records are contiguous; LSN order is the order of the appends.
//! - What `durable` covers is read back after any crash.

use std::path::Path;
use std::sync::Arc;
use std::task::Waker;

use esker_vfs::Env;
use parking_lot::Mutex;

use crate::append::{Draft, append};
use crate::buffer::{Beginning, LogBuffer, MAX_LSN};
use crate::config::{FlushMode, Sizes, WalConfig};
use crate::daemon::Threads;
use crate::error::WalError;
use crate::files::{LogSpace, SegmentFiles, Unclosed};
use crate::flights::Flights;
use crate::flush::{Flushed, Flusher};
use crate::format::RECORD_ALIGN;
use crate::future::DurableFuture;
use crate::lsn::{Lsn, LsnRange};
use crate::policy::{FlushPolicy, PolicyCell};
use crate::recover::{self, Found, LogReader, Wanted};
use crate::shared::{Driven, Shared, Turn};
use crate::signals::{DaemonSignals, PreparerSignals};
use crate::stats::{Contention, Counters, WalStats};
use crate::tail::{SegmentCopy, Tail, copy_log};
use crate::waiters::Waiters;

/// The log. Clones are handles of the same log; when the last one is dropped, its threads end
/// without flushing (use [`Wal::shutdown`] to flush).
#[derive(Clone)]
pub struct Wal {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
    threads: Mutex<Option<Threads>>,
}

/// What a new segment comes after.
struct After {
    end: Lsn,
    gap: Option<Lsn>,
    last: Option<Unclosed>,
}

impl Wal {
    /// Opens the log, which continues behind the last record that is found: it takes records at once. What it has
    /// above `from` is still to be read, with the reader. Segments wholly below are recycled or removed.
    ///
    /// The tail that a crash may have left unsynced is durable on return, so nothing can be read that is not.
    ///
    /// # Errors
    /// Records above `from` are missing at the end of the log, or a segment header is damaged; then what comes before
    /// was read, so that the first damage is named. Damage elsewhere is found by reading, unless
    /// [`WalConfig::point_in_time`] is set: then all of it is found now, and the log ends before it.
    pub fn create_or_open(
        env: &Env,
        mut config: WalConfig,
        from: Lsn,
    ) -> Result<(Wal, LogReader), WalError> {
        let sizes = Sizes::new(&config)?;
        let files = SegmentFiles::open(env, &config, &sizes)?;
        let Found {
            reader,
            gap,
            dead,
            last,
        } = recover::open(&files, &mut config, from)?;
        let after = After {
            end: reader.end(),
            gap,
            last,
        };
        let shared = Self::begin(env, config, sizes, files, after)?;
        for dead in &dead {
            shared.files.put_aside(dead)?;
        }
        if let Some(lost) = reader.lost() {
            tracing::warn!("{lost}");
        }
        shared.release_below(from)?;
        Ok((Self::start(shared)?, reader))
    }

    /// A fresh segment at the end that was found, and everything around it.
    fn begin(
        env: &Env,
        config: WalConfig,
        sizes: Sizes,
        files: SegmentFiles,
        after: After,
    ) -> Result<Arc<Shared>, WalError> {
        let After { end, gap, last } = after;
        if end >= MAX_LSN || !end.0.is_multiple_of(RECORD_ALIGN) {
            let what = format!("the log ends at {end}, where no record can end");
            return Err(WalError::corruption(files.dir(), 0, end, what));
        }
        let header = crate::format::SegmentHeader {
            cluster: config.cluster,
            start: end,
            id: env.random.next_u64(),
            file_bytes: sizes.segment,
            after_open: true,
            gap,
        };
        let mut takes_records = true;
        if files.spare_count() == 0 {
            match files.prepare_spare(false) {
                Err(WalError::NoSpace { .. }) => takes_records = files.make_do(end)?,
                prepared => drop(prepared?),
            }
        }
        let current = files.begin_segment(header, last)?;
        let room = match takes_records {
            true => sizes.usable(current.file_bytes - current.offset),
            false => 0,
        };
        let contention = Contention::new(env.clock.clone());
        let spares = files.spare_lengths();
        let beginning = Beginning {
            start: end,
            segment_room: room,
            spares: files.spare_count(),
            spare_room: spares
                .into_iter()
                .map(|bytes| sizes.usable_segment(bytes))
                .sum(),
        };
        let buffer = LogBuffer::new(config.log_buffer, sizes, &beginning, contention, None);
        let policy = PolicyCell::new(&config.flush_policy, sizes.buffer);
        Ok(Arc::new(Shared {
            mode: config.mode,
            sizes,
            cluster: config.cluster,
            clock: env.clock.clone(),
            random: env.random.clone(),
            on_fatal: config.on_fatal,
            files,
            buffer,
            waiters: Waiters::new(end),
            counters: Counters::default(),
            flusher: Mutex::new(Flusher::new(current, end)),
            flights: Flights::default(),
            own_lane: Mutex::default(),
            daemon: DaemonSignals::new(policy, end),
            preparer: PreparerSignals::default(),
        }))
    }

    fn start(shared: Arc<Shared>) -> Result<Wal, WalError> {
        let threads = match shared.mode {
            FlushMode::Manual => None,
            FlushMode::Daemon => Some(
                Threads::start(&shared)
                    .map_err(|e| WalError::io("start threads for", shared.files.dir(), e))?,
            ),
        };
        shared.request_spare(0);
        Ok(Wal {
            handle: Arc::new(Handle {
                shared,
                threads: Mutex::new(threads),
            }),
        })
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// Appends a record: its place in the order is fixed, its bytes are in the buffer. It is
    /// durable later, see [`Wal::wait_durable`].
    ///
    /// Blocks only while the buffer is full or the disk room is being extended.
    pub fn append(&self, draft: &Draft<'_>) -> Result<LsnRange, WalError> {
        append(&**self.shared(), draft)
    }

    /// As [`Wal::append`], for a record that makes room when it is durable and what follows from it is done: on a full
    /// disk it may use the room that is held back from others.
    pub fn append_making_room(&self, draft: &Draft<'_>) -> Result<LsnRange, WalError> {
        match self.append(draft) {
            Err(WalError::NoSpace { .. }) => {
                let _lent = self.shared().buffer.lend();
                self.append(draft)
            }
            appended => appended,
        }
    }

    /// Everything that ends at or below this is durable.
    pub fn durable(&self) -> Lsn {
        self.shared().waiters.durable()
    }

    /// Calls `f` with the place up to which groups have begun: nothing behind it becomes durable before `f` returns.
    pub fn while_nothing_is_taken<T>(&self, f: impl FnOnce(Lsn) -> T) -> T {
        let flusher = self.shared().flusher.lock();
        debug_assert!(flusher.consumed() >= self.durable());
        f(flusher.consumed())
    }

    /// The place that the next record will get.
    pub fn end(&self) -> Lsn {
        self.shared().buffer.end()
    }

    /// Resolves when everything up to `lsn` is durable. Asks for the flush at once.
    pub fn wait_durable(&self, lsn: Lsn) -> DurableFuture {
        DurableFuture::new(self.shared().clone(), lsn)
    }

    /// Wakes `waker` once when everything up to `lsn` is durable, or the log has ended before. Asks for the flush at
    /// once. For what must happen even if nobody waits any more; the waker runs on the flushing thread.
    pub fn notify_durable(&self, lsn: Lsn, waker: Waker) {
        self.shared().request_flush(lsn);
        self.shared().waiters.notify(lsn, waker);
    }

    /// Makes everything up to `lsn` durable on this thread, if that is quicker than having it done: if
    /// the device is idle and takes no longer than a quarter of a millisecond, and the policy does not let commits
    /// wait for each other. False: it is not durable, and nothing was waited for.
    ///
    /// For who has nothing else to do meanwhile: two hand-overs between threads cost about half as
    /// much as such a flush.
    pub fn harden_if_quick(&self, lsn: Lsn) -> Result<bool, WalError> {
        self.shared().harden_if_quick(lsn)
    }

    /// Sees to it that `lsn` becomes durable, for a thread that runs many transactions and lets them wait
    /// together: called after each of them, and before the thread sleeps.
    ///
    /// Where a flush is cheaper than waking the daemon, this thread does it, when it is idle or enough
    /// transactions wait. Elsewhere the daemon is asked as soon as a few wait, so that the device works while the
    /// thread runs others. A thread that has called this with [`Turn::Idle`] can sleep on
    /// [`Wal::wait_durable`].
    ///
    /// # Errors
    /// The log has failed.
    pub fn drive(&self, lsn: Lsn, turn: Turn) -> Result<Driven, WalError> {
        self.shared().drive(lsn, turn)
    }

    /// Asks the daemon to make durable what has been appended so far.
    pub fn request_flush(&self) {
        self.shared().request_flush(self.end());
    }

    /// Makes durable what has been appended so far, and returns when it is.
    ///
    /// Without a daemon the caller does the work; records that another thread is still filling, and
    /// what is behind them, stay for the next call.
    pub fn flush_now(&self) -> Result<(), WalError> {
        match self.shared().mode {
            FlushMode::Daemon => self.wait_durable(self.end()).block(),
            FlushMode::Manual => {
                let end = self.end();
                while self.durable() < end && self.shared().flush_once()? == Flushed::Something {}
                Ok(())
            }
        }
    }

    /// Records that end at or below `lsn` are not needed any more: segments wholly below are
    /// recycled or removed, unless they are pinned.
    pub fn release_below(&self, lsn: Lsn) -> Result<(), WalError> {
        self.shared().release_below(lsn)
    }

    /// Keeps the log from `from` on, whatever is released, under this name: a pin of the same name is moved, and what
    /// it kept goes. In memory only: at the opening, [`WalConfig::pins`] pins everything.
    ///
    /// # Errors
    /// That part of the log is gone, or segments cannot be recycled.
    pub fn pin(&self, name: &'static str, from: Lsn) -> Result<(), WalError> {
        self.shared().files.pin(name, from)?;
        self.shared().release_below(Lsn(0))
    }

    /// Takes a pin away, and lets go of what it kept.
    ///
    /// # Errors
    /// Segments cannot be recycled.
    pub fn unpin(&self, name: &'static str) -> Result<(), WalError> {
        self.shared().files.unpin(name);
        self.shared().release_below(Lsn(0))
    }

    /// Follows the log from the record on that starts at `from`, while it is being written. What is still to be read
    /// must be pinned, or be in the segment that is read.
    ///
    /// # Errors
    /// That part of the log is gone, or damaged.
    pub fn tail(&self, from: Lsn, wanted: Wanted) -> Result<Tail, WalError> {
        Tail::open(Arc::clone(self.shared()), from, wanted)
    }

    /// Copies the log from `from` up to `to`, which is durable, into a directory: segments as they are, the last one up
    /// to that place. What is copied must be pinned. `each` is told how many bytes were copied, and may break off.
    ///
    /// # Errors
    /// The log is damaged, the system refuses, or `each` breaks off.
    pub fn copy<E: From<WalError>>(
        &self,
        (from, to): (Lsn, Lsn),
        into: &Path,
        each: &mut dyn FnMut(u64) -> Result<(), E>,
    ) -> Result<Vec<SegmentCopy>, E> {
        copy_log(&**self.shared(), (from, to), into, each)
    }

    /// What the log has done so far.
    pub fn stats(&self) -> WalStats {
        let shared = self.shared();
        shared.counters.get(shared.buffer.contention())
    }

    /// The segments that hold the log now, and those prepared for what is to come.
    pub fn space(&self) -> LogSpace {
        self.shared().files.space()
    }

    /// Where each of the segments that hold the log begins, oldest first.
    pub fn segment_starts(&self) -> Vec<Lsn> {
        self.shared().files.segment_starts()
    }

    /// The policy of the flush daemon.
    pub fn flush_policy(&self) -> FlushPolicy {
        self.shared().daemon.policy.get()
    }

    /// Changes the policy of the flush daemon, from the next group on. Values out of range are
    /// brought into it.
    pub fn set_flush_policy(&self, policy: &FlushPolicy) {
        self.shared().daemon.set_policy(policy);
    }

    /// The error that has ended the log, if one has.
    pub fn failure(&self) -> Option<WalError> {
        self.shared().waiters.failure().cloned()
    }

    /// Flushes everything, marks the end as clean, and closes the log: later appends fail.
    pub fn shutdown(&self) -> Result<(), WalError> {
        self.flush_now()?;
        self.handle.stop_threads();
        let shared = self.shared();
        shared.flush_rest()?;
        shared.close();
        Ok(())
    }
}

impl Handle {
    fn stop_threads(&self) {
        let threads = self.threads.lock().take();
        if let Some(threads) = threads {
            self.shared.daemon.stop();
            self.shared.preparer.stop();
            threads.join();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // First, so that an append that is still streaming and the daemon that waits for it give
        // up.
        self.shared.close();
        self.stop_threads();
    }
}
