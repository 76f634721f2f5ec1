//! Semi-synchronous replication: nobody is told of a transaction that no replica has.
//!
//! Neighbours: streams of replicas that ask for it join, and hand in what they acknowledge; the writer looks at the
//! clock; the engine's gate holds back replies and the snapshots of other sessions.
//!
//! ```text
//! OFF (async) --every replica that is needed has everything--> ON --nobody acknowledges for the timeout--> OFF
//! ```
//!
//! **Invariants**
//! - While it is on, what is told was acknowledged by as many replicas as are needed; what no event stands for (changes
//!   that are not logged) counts as acknowledged with what was logged before it.
//! - A replica that has everything is what switches it on; lack of acknowledgements, or of replicas if they are not
//!   waited for, switches it off.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use esker_binlog::files::{FileInfo, Published};
use esker_engine::Engine;
use esker_sql_catalog::variables::Globals;
use parking_lot::Mutex;

use super::twins;

/// What the variables say.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    is_enabled: bool,
    timeout: Duration,
    replicas: usize,
    waits_for_replicas: bool,
}

/// What SHOW STATUS shows.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    acknowledged: u64,
    unacknowledged: u64,
    switched_off: u64,
}

#[derive(Debug)]
struct State {
    wanted: Wanted,
    is_on: bool,
    /// What each replica has acknowledged, by connection.
    replicas: BTreeMap<u64, FileInfo>,
    /// Everything below is acknowledged.
    told: u64,
    /// Since when something waits.
    waiting_since: Option<Instant>,
    /// Transactions that were there at the last look while it was off.
    seen: u64,
    counted: Counted,
}

/// The state of the server.
#[derive(Debug)]
pub(super) struct SemiSync(Mutex<State>);

/// A replica that acknowledges; it leaves when this is dropped.
pub(super) struct Member {
    semi: Arc<SemiSync>,
    connection: u64,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.semi.0.lock().replicas.remove(&self.connection);
    }
}

impl Default for SemiSync {
    fn default() -> Self {
        Self(Mutex::new(State {
            wanted: Wanted {
                is_enabled: false,
                timeout: Duration::ZERO,
                replicas: 1,
                waits_for_replicas: true,
            },
            is_on: false,
            replicas: BTreeMap::new(),
            told: 0,
            waiting_since: None,
            seen: 0,
            counted: Counted::default(),
        }))
    }
}

impl SemiSync {
    /// Takes the variables over.
    pub(super) fn configure(&self, globals: &Globals, engine: &Engine) {
        let number = |name| globals.named(name).as_u64();
        let mut state = self.0.lock();
        state.wanted = Wanted {
            // Either name does in an option file.
            is_enabled: twins::is_either_on(globals, "rpl_semi_sync_source_enabled"),
            timeout: Duration::from_millis(number("rpl_semi_sync_source_timeout")),
            replicas: number("rpl_semi_sync_source_wait_for_replica_count") as usize,
            waits_for_replicas: globals
                .named("rpl_semi_sync_source_wait_no_replica")
                .is_on(),
        };
        if !state.wanted.is_enabled {
            state.switch_off(engine, 0);
        }
    }

    /// A replica that wants to acknowledge.
    pub(super) fn join(self: &Arc<Self>, connection: u64) -> Member {
        self.0
            .lock()
            .replicas
            .insert(connection, FileInfo::default());
        Member {
            semi: Arc::clone(self),
            connection,
        }
    }

    /// Is it wanted?
    pub(super) fn is_enabled(&self) -> bool {
        self.0.lock().wanted.is_enabled
    }

    /// Goes on to where the replicas are, and looks at the clock.
    pub(super) fn advance(&self, engine: &Engine, published: &Published) {
        let mut state = self.0.lock();
        if !state.wanted.is_enabled {
            return;
        }
        let was_on = state.is_on;
        let (covered, end, transactions) = published.covered(state.acknowledged(), state.told);
        if covered.is_none_or(|(lsn, _)| lsn < end) {
            state.missing(engine, transactions);
        } else if !state.is_on {
            engine.require_acknowledgement();
            state.is_on = true;
        }
        let Some((lsn, newly)) = covered else {
            return;
        };
        if state.is_on {
            engine.acknowledge(lsn);
        }
        if was_on {
            state.counted.acknowledged += newly;
        }
        if lsn > state.told {
            state.told = lsn;
            state.waiting_since = None;
        }
        state.seen = transactions;
    }

    /// The server stops: nobody waits any more.
    pub(super) fn stop(&self, engine: &Engine) {
        let mut state = self.0.lock();
        state.wanted.is_enabled = false;
        state.switch_off(engine, 0);
    }

    /// Figures for SHOW STATUS, under both names.
    pub(super) fn status(&self) -> Vec<(&'static str, String)> {
        let state = self.0.lock();
        let on = if state.is_on { "ON" } else { "OFF" };
        let figures = [
            on.to_owned(),
            state.replicas.len().to_string(),
            state.counted.acknowledged.to_string(),
            state.counted.unacknowledged.to_string(),
            state.counted.switched_off.to_string(),
        ];
        const SOURCE: [&str; 5] = [
            "Rpl_semi_sync_source_status",
            "Rpl_semi_sync_source_clients",
            "Rpl_semi_sync_source_yes_tx",
            "Rpl_semi_sync_source_no_tx",
            "Rpl_semi_sync_source_no_times",
        ];
        const MASTER: [&str; 5] = [
            "Rpl_semi_sync_master_status",
            "Rpl_semi_sync_master_clients",
            "Rpl_semi_sync_master_yes_tx",
            "Rpl_semi_sync_master_no_tx",
            "Rpl_semi_sync_master_no_times",
        ];
        let names = SOURCE.into_iter().chain(MASTER);
        names.zip(figures.iter().cycle().cloned()).collect()
    }
}

impl State {
    /// How far as many replicas are as are needed; `None`: there are fewer.
    fn acknowledged(&self) -> Option<FileInfo> {
        let mut all: Vec<FileInfo> = self.replicas.values().copied().collect();
        all.sort_unstable();
        let at = all.len().checked_sub(self.wanted.replicas.max(1))?;
        Some(all[at])
    }

    /// Something is not acknowledged: how long already?
    fn missing(&mut self, engine: &Engine, transactions: u64) {
        if !self.is_on {
            self.counted.unacknowledged += transactions.saturating_sub(self.seen);
            self.seen = transactions;
            return;
        }
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let are_gone = self.replicas.len() < self.wanted.replicas;
        let gives_up = are_gone && !self.wanted.waits_for_replicas;
        if gives_up || since.elapsed() >= self.wanted.timeout {
            self.switch_off(engine, transactions);
        }
    }

    fn switch_off(&mut self, engine: &Engine, transactions: u64) {
        self.waiting_since = None;
        if std::mem::take(&mut self.is_on) {
            self.counted.switched_off += 1;
            self.counted.unacknowledged += transactions.saturating_sub(self.seen);
            self.seen = self.seen.max(transactions);
            engine.stop_requiring_acknowledgement();
        }
    }
}

impl Member {
    /// The replica has everything up to here.
    pub(super) fn acknowledge(&self, engine: &Engine, published: &Published, place: FileInfo) {
        {
            let mut state = self.semi.0.lock();
            if let Some(known) = state.replicas.get_mut(&self.connection) {
                *known = place.max(*known);
            }
        }
        self.semi.advance(engine, published);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_replicas_count_as_are_needed() {
        let semi = SemiSync::default();
        let mut state = semi.0.lock();
        let at = |size| FileInfo {
            size,
            ..FileInfo::default()
        };
        assert_eq!(state.acknowledged(), None);
        state.replicas = BTreeMap::from([(1, at(10)), (2, at(30)), (3, at(20))]);
        assert_eq!(state.acknowledged(), Some(at(30)));
        state.wanted.replicas = 2;
        assert_eq!(state.acknowledged(), Some(at(20)));
        state.wanted.replicas = 4;
        assert_eq!(state.acknowledged(), None);
    }
}
