//! The two threads of the log: one flushes, one prepares segments ahead of need.
//!
//! **Invariants**
//! - An idle log costs one wake-up per [`LAZY_FLUSH`] and nothing else.
//! - No commit waits for a timer: a request wakes the daemon, or finds it working, and then the
//!   next group begins as soon as the last one is durable.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::WalError;
use crate::flush::Flushed;
use crate::lsn::Lsn;
use crate::shared::Shared;

/// How long a record that nobody waits for may stay in memory.
const LAZY_FLUSH: Duration = Duration::from_secs(1);

/// The threads, to be joined.
pub(crate) struct Threads(Vec<JoinHandle<()>>);

impl Threads {
    pub(crate) fn start(shared: &Arc<Shared>) -> std::io::Result<Self> {
        let spawn = |name: &str, run: fn(&Shared)| {
            let shared = shared.clone();
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || {
                    let _guard = DeathGuard(&shared);
                    run(&shared);
                })
        };
        let mut threads = Threads(vec![spawn("wal-flush", flush_loop)?]);
        match spawn("wal-segments", prepare_loop) {
            Ok(thread) => threads.0.push(thread),
            Err(error) => {
                shared.daemon.stop();
                threads.join();
                return Err(error);
            }
        }
        Ok(threads)
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

fn flush_loop(shared: &Shared) {
    // Set before anybody can find the daemon asleep.
    let _ = shared.daemon.thread.set(std::thread::current());
    while !shared.daemon.stopping() {
        match shared.flush_once() {
            // What came meanwhile is flushed at once only if somebody waits for it.
            Ok(Flushed::Something) if shared.daemon.wanted() > shared.waiters.durable() => {}
            Ok(Flushed::Something) => rest(shared),
            Ok(Flushed::Nothing) => match unfilled(shared) {
                Some(at) => {
                    shared.await_fill(at);
                }
                None => rest(shared),
            },
            Err(_) => return,
        }
    }
}

fn rest(shared: &Shared) {
    shared.daemon.sleep(shared.waiters.durable(), LAZY_FLUSH);
}

/// The place that somebody waits for and that is given but not filled.
fn unfilled(shared: &Shared) -> Option<Lsn> {
    let durable = shared.waiters.durable();
    (shared.daemon.wanted() > durable).then_some(durable)
}

fn prepare_loop(shared: &Shared) {
    while let Some(needed) = shared.preparer.await_request() {
        if shared.prepare_spares(needed).is_err() {
            return;
        }
    }
}
