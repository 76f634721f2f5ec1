//! The threads of the log: those that flush, and one that prepares segments ahead of need.
//!
//! Of the flush threads one is on watch: it decides when a group begins, and flushes it. Where
//! another group may begin meanwhile it leaves the watch to the next thread before it writes; where
//! not (a fast device, usually) it stays, and the others sleep on.
//!
//! Neighbours: `policy` decides, `signals` wake the watch, `flush` does the work.
//!
//! **Invariants**
//! - An idle log costs one wake-up per [`LAZY_FLUSH`] and nothing else.
//! - By default no commit waits for a timer: a request wakes the watch, or finds it working, and
//!   then the next group begins as soon as the device is free.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::WalError;
use crate::flush::{Flushed, Lane};
use crate::policy::{Decision, MAX_IN_FLIGHT};
use crate::shared::Shared;
use crate::signals::{Sleep, Watch};

/// How long a record that nobody waits for may stay in memory.
const LAZY_FLUSH: Duration = Duration::from_secs(1);

/// The threads, to be joined.
pub(crate) struct Threads(Vec<JoinHandle<()>>);

impl Threads {
    pub(crate) fn start(shared: &Arc<Shared>) -> std::io::Result<Self> {
        let mut threads = Threads(Vec::new());
        let all = (0..MAX_IN_FLIGHT)
            .try_for_each(|index| {
                threads.spawn(shared, &format!("wal-flush-{index}"), move |shared| {
                    flush_loop(shared, index);
                })
            })
            .and_then(|()| threads.spawn(shared, "wal-segments", prepare_loop));
        if let Err(error) = all {
            shared.daemon.stop();
            threads.join();
            return Err(error);
        }
        debug_assert_eq!(threads.0.len(), MAX_IN_FLIGHT + 1);
        Ok(threads)
    }

    fn spawn(
        &mut self,
        shared: &Arc<Shared>,
        name: &str,
        run: impl FnOnce(&Shared) + Send + 'static,
    ) -> std::io::Result<()> {
        let shared = shared.clone();
        let builder = std::thread::Builder::new().name(name.to_owned());
        self.0.push(builder.spawn(move || {
            let _guard = DeathGuard(&shared);
            run(&shared);
        })?);
        Ok(())
    }

    /// Waits for the threads, unless one of them is calling (it dropped the last handle of the
    /// log).
    pub(crate) fn join(self) {
        for thread in self.0 {
            if thread.thread().id() != std::thread::current().id() {
                // A panic of the thread was reported where it happened.
                let _ = thread.join();
            }
        }
    }
}

/// Nobody may wait for a thread that has panicked.
struct DeathGuard<'a>(&'a Shared);

impl Drop for DeathGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(&WalError::ThreadDied);
        }
    }
}

fn flush_loop(shared: &Shared, index: usize) {
    // Set before anybody can find this thread asleep.
    shared.daemon.introduce(index);
    let mut lane = Lane::default();
    loop {
        let mut watch = Some(shared.daemon.go_on_watch(index));
        // Dropped before the watch: who gets it from a dead thread finds a dead log.
        let _guard = DeathGuard(shared);
        while let Some(held) = &watch {
            if shared.daemon.stopping() || shared.waiters.failure().is_some() {
                return;
            }
            if await_group(shared, held) && flush_on_watch(shared, &mut lane, &mut watch).is_err() {
                return;
            }
        }
    }
}

/// Waits for the moment to begin a group. False if there is reason to look again.
fn await_group(shared: &Shared, watch: &Watch<'_>) -> bool {
    let (sleep, at_most) = match shared.decide() {
        Decision::Now => return true,
        Decision::Land => {
            shared.flights.await_landing();
            return false;
        }
        Decision::Rest => (Sleep::Resting, LAZY_FLUSH),
        Decision::After(pause) => (Sleep::Filling, pause),
    };
    let is_due = || {
        let decision = shared.decide();
        shared.daemon.stopping()
            || match sleep {
                Sleep::Resting => decision != Decision::Rest,
                Sleep::Filling => !matches!(decision, Decision::After(_)),
            }
    };
    // When the time is over a group begins, whatever the clock says.
    !shared.daemon.sleep(watch, sleep, at_most, is_due)
}

/// Flushes a group, and leaves the watch to another thread meanwhile if another group may begin.
fn flush_on_watch(
    shared: &Shared,
    lane: &mut Lane,
    watch: &mut Option<Watch<'_>>,
) -> Result<(), WalError> {
    let flushed = shared.flush(lane, || {
        if shared.may_overlap() {
            *watch = None;
        }
    })?;
    match flushed {
        Flushed::Something => {}
        Flushed::Later => shared.flights.await_landing(),
        Flushed::Nothing => {
            let taken = shared.daemon.consumed();
            if shared.daemon.wanted() > taken {
                // Somebody waits for a place that is given but not filled.
                shared.await_fill(taken);
            }
        }
    }
    Ok(())
}

fn prepare_loop(shared: &Shared) {
    while let Some(needed) = shared.preparer.await_request() {
        if shared.prepare_spares(needed).is_err() {
            return;
        }
    }
}
