//! The applier: runs the transactions of another server, in parallel where that gives the same.
//!
//! In flow order: `feed` (a channel's thread: events to groups, filters, delay, which worker), `keys` (which keys a
//! group changes; `touched`: what statements do), `queues` (of the workers), `worker` (runs groups, and commits those
//! that rest; `hands` are its sessions, `run` is what it does in them, `context` has the settings of statements,
//! `checks` what a channel may apply, `source_tables` temporary tables of the source), `order` (commits in order; who
//! rests and who makes way), `shared` (what they know of each other), `store` (the channel's state in the database),
//! `rules` (what the variables say). Neighbours: `esker_binlog::apply` decides; the receiver fills the relay log and
//! implements [`EventSource`]; statements about replicas start, stop and ask.
//! Reasons: `docs/decisions/applier.md`.
//!
//! **Invariants**
//! - What is applied stands in the record of the transaction itself: whatever a crash leaves, every transaction is
//!   applied once.
//! - A transaction that cannot be applied stops the channel, and everything before it is committed.
//! - Queues, and the memory of what is in them, are bounded.

mod checks;
mod context;
mod feed;
mod hands;
mod keys;
mod order;
mod queues;
mod rules;
mod run;
mod shared;
mod source_tables;
mod store;
mod touched;
mod worker;

#[cfg(test)]
mod checks_tests;
#[cfg(test)]
mod defect_tests;
#[cfg(test)]
mod foreign_tests;
#[cfg(test)]
mod keyless_tests;
#[cfg(test)]
mod label_tests;
#[cfg(test)]
mod relayed_tests;
#[cfg(test)]
mod slave_pos_tests;
#[cfg(test)]
mod source_tables_tests;
#[cfg(test)]
mod stranger_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod visible_tests;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Duration;

use esker_binlog::apply::Group;
pub use esker_binlog::apply::filter::Filters;
pub use esker_binlog::apply::state::ChannelState;
pub use esker_binlog::apply::{EventSource, Id, Incoming, MariaGtidSet, Place, RelayPlace};
use esker_binlog::attachment::Numbering;
use esker_binlog::gtid::{GtidSet, Sid, Source};
use esker_types::{SqlResult, errors};
use parking_lot::Mutex;

use crate::instance::Instance;
pub(crate) use checks::checks_account;
pub use context::{KeyCheck, set_statement};
use feed::Feed;
use rules::Rules;
use shared::Shared;
pub(crate) use shared::name_of;
pub use source_tables::SourceTables;
pub use store::{channels, forget, keep_settings, load, place, settings, slave_pos};
pub(crate) use store::{keep_state, set_slave_pos, slave_pos_of};

/// Where a channel stops by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Until {
    /// Before the first transaction of these (`SQL_BEFORE_GTIDS`).
    BeforeGtids(GtidSet),
    /// When all of these are applied (`SQL_AFTER_GTIDS`).
    AfterGtids(GtidSet),
    /// When nothing is missing before what was applied (`SQL_AFTER_MTS_GAPS`).
    AfterGaps,
    /// Before the first transaction that begins at this place of the source, or behind it.
    SourcePosition(String, u64),
    /// The same in the relay log.
    RelayPosition(RelayPlace),
}

/// What becomes of transactions without GTIDs (`ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Anonymous {
    /// They stay without, and stop a channel where `gtid_mode` is ON.
    #[default]
    Off,
    /// They get GTIDs of this server.
    Local,
    /// They get GTIDs of this UUID.
    Uuid(Sid),
}

impl Anonymous {
    /// How one of them is numbered.
    fn numbering(self) -> Numbering {
        match self {
            Self::Off => Numbering::Anonymous,
            Self::Local => Numbering::default(),
            Self::Uuid(sid) => Numbering::Next(Source::untagged(sid)),
        }
    }
}

/// What a channel is told when it starts. The rest is in variables.
pub struct Settings {
    /// Which databases and tables concern it.
    pub filters: Filters,
    /// `SOURCE_DELAY`: this long behind the source's commit.
    pub delay: Duration,
    /// `START REPLICA UNTIL`.
    pub until: Option<Until>,
    /// `IGNORE_SERVER_IDS`.
    pub ignored_servers: Vec<u32>,
    /// `REQUIRE_TABLE_PRIMARY_KEY_CHECK`.
    pub key_check: KeyCheck,
    /// `REQUIRE_ROW_FORMAT`.
    pub row_format: bool,
    /// `PRIVILEGE_CHECKS_USER`: user and host.
    pub checks_user: Option<(String, String)>,
    /// `ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS`.
    pub anonymous: Anonymous,
    /// `sql_replica_skip_counter`: so many events are not applied, nor is the rest of the transaction of the last one.
    pub skips: u64,
    /// Temporary tables of the source's sessions.
    pub temporary: Arc<SourceTables>,
    /// What it passes over because of MariaDB's GTIDs.
    pub overtaken: Overtaken,
    /// Attempts that the channel has repeated since the server has started.
    pub retries: Arc<AtomicU64>,
    /// Numbers for the sessions of workers.
    pub connection_ids: Arc<dyn Fn() -> u64 + Send + Sync>,
}

/// Transactions of MariaDB that a channel passes over, because another one has come further in their domains since they
/// were received. Without MASTER_USE_GTID there are none: numbers say nothing then, for a source that begins its binary
/// log anew begins its numbers anew.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overtaken {
    /// How far domains have come.
    pub gtids: MariaGtidSet,
    /// Up to where the relay log had been filled by then.
    pub until: RelayPlace,
}

impl Overtaken {
    fn has(&self, group: &Group) -> bool {
        match &group.id {
            Id::Maria(gtid) => group.end.relay <= self.until && self.gtids.contains(gtid),
            Id::Gtid(_) | Id::Position => false,
        }
    }
}

/// Why a channel has stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Number of the error.
    pub code: u16,
    /// What was done, and to what.
    pub text: String,
    /// When, microseconds since the epoch.
    pub micros: i64,
}

/// A transaction that a thread works on, or has worked on. Times are microseconds since the epoch; 0: not yet, or
/// nobody says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Handled {
    /// What it is called, for [`name_of`]; `None`: there is none.
    pub id: Option<Id>,
    /// When it was committed first.
    pub original_micros: u64,
    /// When its source committed it.
    pub commit_micros: u64,
    /// When the thread began.
    pub begun_micros: u64,
    /// When it was done.
    pub ended_micros: u64,
    /// How often it was tried again.
    pub retries: u64,
    /// Why, the last time.
    pub transient: Option<Failure>,
}

/// What a worker does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkerStatus {
    /// The last transaction that it has begun, until it is committed; without one it waits.
    pub applying: Handled,
    /// The last one that it has applied.
    pub last_applied: Handled,
    /// Transactions that it has applied.
    pub transactions: u64,
    /// Number in the channel of the last one that it has begun.
    begun: u64,
}

/// How far a channel is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Is it applying, or waiting for something to apply?
    pub is_running: bool,
    /// Why it has stopped.
    pub failure: Option<Failure>,
    /// Which of the workers has failed, if one has.
    pub failed_worker: Option<usize>,
    /// The transaction that is given to a worker.
    pub processing: Handled,
    /// The last one that was.
    pub last_processed: Handled,
    /// Everything before is applied, and a restart goes on here.
    pub applied: Place,
    /// The same or further on: nothing between the two is to be applied, such as the head of the source's next file.
    pub passed: Place,
    /// Up to here the relay log has been read.
    pub read: Place,
    /// GTIDs that are applied.
    pub gtids: GtidSet,
    /// MariaDB's, the last one of each domain before which nothing is missing.
    pub maria: MariaGtidSet,
    /// What is left of the time that `SOURCE_DELAY` makes the next transaction wait.
    pub delay_left: Option<Duration>,
    /// Transactions that were applied since the start.
    pub transactions: u64,
    /// Events that are still to be skipped.
    pub skips: u64,
    /// Transactions that are with the workers.
    pub in_flight: u64,
    /// Attempts that were repeated, by this one and those before it.
    pub retries: u64,
    /// Seconds since what is applied now was committed at its source; `None`: nothing is applied now.
    pub lag_seconds: Option<u64>,
    /// The workers.
    pub workers: Vec<WorkerStatus>,
}

/// `Replica_SQL_Running_State`.
pub(crate) fn state_of_applier(applier: &Status) -> &'static str {
    if applier.delay_left.is_some() {
        "Waiting until SOURCE_DELAY seconds after source executed event"
    } else if !applier.is_running {
        ""
    } else if applier.in_flight > 0 {
        "Applying transactions"
    } else {
        "Replica has read all relay log; waiting for more updates"
    }
}

/// A channel that applies.
pub struct Applier {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Applier {
    /// Goes on behind `state`, with the events of `source`, which begin there.
    ///
    /// # Errors
    /// There are no threads.
    pub fn start(
        instance: &Arc<Instance>,
        channel: &str,
        state: ChannelState,
        source: Box<dyn EventSource>,
        settings: Settings,
    ) -> SqlResult<Self> {
        let rules = Rules::read(instance);
        let shared = Arc::new(Shared::new(
            instance.clone(),
            channel,
            settings,
            rules,
            state,
        ));
        let feed = Feed::new(shared.clone(), source);
        let thread = std::thread::Builder::new()
            .name("replica".to_owned())
            .spawn(move || feed.run())
            .map_err(errors::no_thread)?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// It is to stop between two transactions.
    pub fn tell_to_stop(&self) {
        self.shared.stop();
    }

    /// Are its threads about to end?
    pub fn is_ending(&self) -> bool {
        self.shared.gives_up() && !self.has_ended()
    }

    /// Have its threads ended?
    pub fn has_ended(&self) -> bool {
        self.thread
            .lock()
            .as_ref()
            .is_none_or(JoinHandle::is_finished)
    }

    /// Stops between two transactions, and waits for that.
    pub fn stop(&self) {
        self.tell_to_stop();
        if let Some(thread) = self.thread.lock().take() {
            // A thread that has panicked has said so.
            let _ = thread.join();
        }
    }

    /// How far it is.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// How many transactions something is kept of.
    #[cfg(test)]
    fn kept(&self) -> usize {
        self.shared.kept()
    }
}

impl Drop for Applier {
    fn drop(&mut self) {
        self.stop();
    }
}
