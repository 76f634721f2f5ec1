//! Between the manifest and the first greeting: connections wait while the log is read.
//!
//! Neighbours: `listener` has bound the port and goes on with what comes out of here.
//!
//! A client that connects early gets no error and no greeting; it waits as for a slow server, and is greeted when
//! statements may run. A greeting before would be a promise that damage in the log may break.
//! **Invariants**: as many connections wait as may log in later, one more is told error 1040; whoever hangs up
//! makes room; a signal ends the wait, and the replay with it.

use esker_types::collation::Charset;
use esker_types::errors;
use std::sync::Arc;
use std::time::Duration;

use esker_engine::{Engine, ReplayPhase, ReplayProgress};
use esker_sql::infoschema::recovery::{left, rate};
use esker_sql::{Instance, Starting};
use esker_wire::frame::FrameWriter;
use esker_wire::response::write_err;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::doors::Doors;
use crate::listener::{ACCEPT_PAUSE, StartError};
use crate::notify;
use crate::socket::{Peer, Socket};

/// Time between two looks at the progress, for a bar on a terminal.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two lines of it in the log.
const LOG: Duration = Duration::from_secs(5);
/// A service manager waits for so many lines that do not come.
const PATIENCE: u64 = 12;

/// The callback for the progress of the replay.
pub(crate) type OnProgress = Box<dyn FnMut(&ReplayProgress) + Send>;

/// What came out of a start.
pub(crate) struct Started {
    pub(crate) instance: Arc<Instance>,
    /// Clients that have waited.
    pub(crate) guests: Vec<(Socket, Peer)>,
}

/// Lets connections wait until the log is read. None: a signal came first.
pub(crate) async fn wait(
    starting: Starting,
    doors: &Doors,
    stop: impl Future<Output = ()>,
    report: &mut Report,
) -> Result<Option<Started>, StartError> {
    let engine = starting.engine().clone();
    let mut room = Room::new(starting.variable_u64("max_connections") as usize + 1);
    let mut opening = tokio::task::spawn_blocking(|| starting.finish());
    let mut looks = interval(LOOK);
    let mut stop = std::pin::pin!(stop);
    looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let instance = loop {
        tokio::select! {
            biased;
            () = &mut stop => {
                tracing::info!("stopped while the log was read");
                // The replay ends at its next step, and `finish` with it. Whatever it says does not matter now.
                let _ = engine.shutdown();
                let _ = opening.await;
                return Ok(None);
            }
            opened = &mut opening => break opened.map_err(std::io::Error::other)??,
            accepted = doors.accept() => match accepted {
                Ok((socket, peer)) => room.enter(socket, peer),
                Err(e) => {
                    tracing::warn!("accept failed: {e}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            _ = looks.tick() => report.look(&engine),
        }
    };
    for _ in 0..room.refused {
        instance.count_refused_connection();
    }
    Ok(Some(Started {
        instance,
        guests: room.guests,
    }))
}

/// The connections that wait.
struct Room {
    limit: usize,
    guests: Vec<(Socket, Peer)>,
    refused: u64,
}

impl Room {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            guests: Vec::new(),
            refused: 0,
        }
    }

    fn enter(&mut self, socket: Socket, peer: Peer) {
        if self.guests.len() >= self.limit {
            self.guests.retain(|(socket, _)| !socket.has_hung_up());
        }
        if self.guests.len() < self.limit {
            return self.guests.push((socket, peer));
        }
        self.refused += 1;
        let mut frames = FrameWriter::default();
        let error = errors::too_many_connections();
        write_err(&error, Charset::Utf8mb4, 0, frames.begin());
        frames.end();
        // It fits into an empty socket; whoever does not take it is sent away all the same.
        let _ = socket.try_write(frames.bytes());
    }
}

/// Tells how far the replay is: the log of the server now and then, and whoever looks all the time.
pub(crate) struct Report {
    watcher: OnProgress,
    next_line: Instant,
    phase: ReplayPhase,
}

impl Report {
    pub(crate) fn new(watcher: OnProgress) -> Self {
        Self {
            watcher,
            next_line: Instant::now() + LOG,
            phase: ReplayPhase::Reading,
        }
    }

    /// Looks once.
    pub(crate) fn look(&mut self, engine: &Engine) {
        let progress = engine.replay();
        (self.watcher)(&progress);
        let moved = progress.phase != self.phase;
        self.phase = progress.phase;
        if moved || Instant::now() >= self.next_line {
            self.next_line = Instant::now() + LOG;
            let line = line(&progress);
            tracing::info!("{line}");
            if progress.phase == ReplayPhase::Reading {
                notify::recovering(&line, LOG.as_secs() * PATIENCE);
            }
        }
    }

    /// Looks until nothing is left to do; for a task of its own.
    pub(crate) async fn keep_looking(mut self, engine: Engine) {
        let mut looks = interval(LOOK);
        while matches!(self.phase, ReplayPhase::Reading | ReplayPhase::Sorting) {
            looks.tick().await;
            self.look(&engine);
        }
    }
}

/// A line of the server's log.
fn line(progress: &ReplayProgress) -> String {
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let (seconds, left) = (progress.elapsed.as_secs_f64(), left(progress).as_secs_f64());
    match progress.phase {
        ReplayPhase::Reading => format!(
            "recovery: read {:.1} of {:.1} MB of the log, {:.1} MB/s, {left:.1} s left",
            mb(progress.bytes_done),
            mb(progress.bytes_total),
            mb(rate(progress)),
        ),
        ReplayPhase::Sorting => format!(
            "recovery: statements run; built {} of {} shards, {left:.1} s left",
            progress.shards_built, progress.shards_total,
        ),
        ReplayPhase::Done => format!(
            "recovery: {} rows of {:.1} MB of the log in {seconds:.3} s, statements after {:.3} s, {} flushes",
            progress.rows,
            mb(progress.bytes_total),
            progress.until_ready.as_secs_f64(),
            progress.flushes,
        ),
        ReplayPhase::Failed => format!("recovery: failed after {seconds:.3} s"),
    }
}

#[cfg(test)]
mod tests;
