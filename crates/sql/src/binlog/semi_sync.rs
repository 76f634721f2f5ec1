//! Semi-synchronous replication: nobody is told of a transaction that no replica has.
//!
//! Neighbours: streams of replicas that ask for it join, and hand in what they acknowledge; the writer looks at the
//! clock; the engine's gate holds back replies and the snapshots of other sessions.
//!
//! ```text
//!      enabled, or as many replicas as are needed have everything
//! OFF -----------------------------------------------------------> ON
//!     <-----------------------------------------------------------
//!      a transaction waits for the timeout, or replicas are lacking and not waited for
//! ```
//!
//! **Invariants**
//! - While it is on, what is told was acknowledged by as many replicas as are needed; what no event stands for (changes
//!   that are not logged) counts as acknowledged with what was logged before it.
//! - Only a transaction that is not acknowledged lets time run: neither silence nor a lack of replicas does.
//! - Every transaction since it was enabled is counted once, as acknowledged or as not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use esker_binlog::files::{Covered, FileInfo, Published};
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

/// What a replica has acknowledged.
#[derive(Debug, Clone, Copy)]
struct Acknowledged {
    server_id: u32,
    /// How often the files had begun anew: their numbers begin anew as well.
    resets: u64,
    place: FileInfo,
}

/// What SHOW STATUS shows.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    acknowledged: u64,
    unacknowledged: u64,
    switched_off: u64,
    /// Events that replicas were asked to acknowledge.
    asked: u64,
    /// How often what waited was acknowledged, and how long it had waited, all together.
    waits: u64,
    waited: Duration,
}

#[derive(Debug)]
struct State {
    wanted: Wanted,
    is_on: bool,
    /// What each replica has acknowledged, by connection.
    replicas: BTreeMap<u64, Acknowledged>,
    /// A replica has left since the last look.
    has_lost: bool,
    /// While it is on: everything below is acknowledged, or needs not be.
    told: u64,
    /// Since when a transaction waits.
    waiting_since: Option<Instant>,
    /// Transactions that wait.
    waiting: u64,
    /// Transactions that are counted.
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
        let mut state = self.semi.0.lock();
        state.replicas.remove(&self.connection);
        state.has_lost = true;
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
            has_lost: false,
            told: 0,
            waiting_since: None,
            waiting: 0,
            seen: 0,
            counted: Counted::default(),
        }))
    }
}

impl SemiSync {
    /// Takes the variables over, where the files have so many transactions.
    pub(super) fn configure(&self, globals: &Globals, engine: &Engine, transactions: u64) {
        let number = |name| globals.named(name).as_u64();
        let wanted = Wanted {
            // Either name does in an option file.
            is_enabled: twins::is_either_on(globals, "rpl_semi_sync_source_enabled"),
            timeout: Duration::from_millis(number("rpl_semi_sync_source_timeout")),
            replicas: number("rpl_semi_sync_source_wait_for_replica_count") as usize,
            waits_for_replicas: globals
                .named("rpl_semi_sync_source_wait_no_replica")
                .is_on(),
        };
        let mut state = self.0.lock();
        match state.want(wanted, transactions) {
            Some(true) => state.switch_on(engine),
            Some(false) => state.switch_off(engine, transactions),
            None => {}
        }
    }

    /// A replica that wants to acknowledge.
    pub(super) fn join(self: &Arc<Self>, connection: u64, server_id: u32) -> Member {
        let nothing = Acknowledged {
            server_id,
            resets: 0,
            place: FileInfo::default(),
        };
        self.0.lock().replicas.insert(connection, nothing);
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
        let resets = published.look(|view| view.resets).0;
        let covered = published.covered(state.acknowledged(resets), state.told);
        match state.is_on {
            true => state.go_on(engine, &covered),
            false => state.stay_off(engine, &covered),
        }
    }

    /// The server stops: nobody waits any more.
    pub(super) fn stop(&self, engine: &Engine) {
        let mut state = self.0.lock();
        if !std::mem::take(&mut state.wanted.is_enabled) {
            return;
        }
        if state.waiting > 0 {
            tracing::warn!("the server stops: some transactions may be on no replica");
        }
        state.switch_off(engine, 0);
    }

    /// FLUSH STATUS begins these anew, as in MySQL.
    pub(super) fn flush_status(&self) {
        let counted = &mut self.0.lock().counted;
        *counted = Counted {
            asked: counted.asked,
            waits: counted.waits,
            waited: counted.waited,
            ..Counted::default()
        };
    }

    /// Figures for SHOW STATUS, under both names.
    pub(super) fn status(&self) -> Vec<(&'static str, String)> {
        let state = self.0.lock();
        let counted = &state.counted;
        let waited = u64::try_from(counted.waited.as_micros()).unwrap_or(u64::MAX);
        let figures = [
            state.replicas.len() as u64,
            // The time on the way is not known to anybody, nor to MySQL.
            0,
            0,
            counted.asked,
            counted.switched_off,
            counted.unacknowledged,
            0,
            waited.checked_div(counted.waits).unwrap_or(0),
            waited,
            counted.waits,
            0,
            state.waiting,
            counted.acknowledged,
        ];
        let figures = figures.map(|figure| figure.to_string());
        let on = if state.is_on { "ON" } else { "OFF" };
        let named = |names: [&'static str; 13]| names.into_iter().zip(figures.clone());
        let mut rows: Vec<_> = named(SOURCE).chain(named(MASTER)).collect();
        rows.push(("Rpl_semi_sync_source_status", on.to_owned()));
        rows.push(("Rpl_semi_sync_master_status", on.to_owned()));
        rows
    }
}

const SOURCE: [&str; 13] = [
    "Rpl_semi_sync_source_clients",
    "Rpl_semi_sync_source_net_avg_wait_time",
    "Rpl_semi_sync_source_net_wait_time",
    "Rpl_semi_sync_source_net_waits",
    "Rpl_semi_sync_source_no_times",
    "Rpl_semi_sync_source_no_tx",
    "Rpl_semi_sync_source_timefunc_failures",
    "Rpl_semi_sync_source_tx_avg_wait_time",
    "Rpl_semi_sync_source_tx_wait_time",
    "Rpl_semi_sync_source_tx_waits",
    "Rpl_semi_sync_source_wait_pos_backtraverse",
    "Rpl_semi_sync_source_wait_sessions",
    "Rpl_semi_sync_source_yes_tx",
];

const MASTER: [&str; 13] = [
    "Rpl_semi_sync_master_clients",
    "Rpl_semi_sync_master_net_avg_wait_time",
    "Rpl_semi_sync_master_net_wait_time",
    "Rpl_semi_sync_master_net_waits",
    "Rpl_semi_sync_master_no_times",
    "Rpl_semi_sync_master_no_tx",
    "Rpl_semi_sync_master_timefunc_failures",
    "Rpl_semi_sync_master_tx_avg_wait_time",
    "Rpl_semi_sync_master_tx_wait_time",
    "Rpl_semi_sync_master_tx_waits",
    "Rpl_semi_sync_master_wait_pos_backtraverse",
    "Rpl_semi_sync_master_wait_sessions",
    "Rpl_semi_sync_master_yes_tx",
];

impl State {
    /// How far as many replicas are as are needed, in the files since so many resets; `None`: there are fewer. Two
    /// connections of one server are one replica.
    fn acknowledged(&self, resets: u64) -> Option<FileInfo> {
        let mut by_server = BTreeMap::<u32, FileInfo>::new();
        for replica in self.replicas.values() {
            let place = match replica.resets == resets {
                true => replica.place,
                false => FileInfo::default(),
            };
            let known = by_server.entry(replica.server_id).or_default();
            *known = place.max(*known);
        }
        let mut all: Vec<FileInfo> = by_server.into_values().collect();
        all.sort_unstable();
        let at = all.len().checked_sub(self.wanted.replicas.max(1))?;
        Some(all[at])
    }

    /// Takes over what is wanted now. Is it to be switched on, or off?
    fn want(&mut self, wanted: Wanted, transactions: u64) -> Option<bool> {
        let before = std::mem::replace(&mut self.wanted, wanted);
        if !before.is_enabled {
            self.seen = transactions;
        }
        let is_possible = wanted.waits_for_replicas || !self.lacks_replicas();
        let may_wait_now = wanted.waits_for_replicas && !before.waits_for_replicas;
        match (before.is_enabled, wanted.is_enabled) {
            (true, false) => Some(false),
            (false, true) => is_possible.then_some(true),
            (true, true) if self.is_on => {
                (before.waits_for_replicas && !is_possible).then_some(false)
            }
            (true, true) => may_wait_now.then_some(true),
            (false, false) => None,
        }
    }

    fn lacks_replicas(&self) -> bool {
        self.replicas.len() < self.wanted.replicas
    }

    /// It is on: tells what is acknowledged, and looks how long the rest waits.
    fn go_on(&mut self, engine: &Engine, covered: &Covered) {
        let has_lost = std::mem::take(&mut self.has_lost);
        if has_lost && self.lacks_replicas() && !self.wanted.waits_for_replicas {
            return self.switch_off(engine, covered.transactions);
        }
        // What no event stands for needs no acknowledgement.
        let told = covered.place.unwrap_or(0).max(covered.nothing);
        engine.acknowledge(told);
        self.told = self.told.max(told);
        if covered.newly > 0 {
            self.counted.acknowledged += covered.newly;
            self.seen += covered.newly;
            if let Some(since) = self.waiting_since.take() {
                self.counted.waits += 1;
                self.counted.waited += since.elapsed();
            }
        }
        if self.told >= covered.end {
            self.waiting_since = None;
            self.waiting = 0;
            return;
        }
        self.waiting = covered.transactions.saturating_sub(self.seen);
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.wanted.timeout {
            self.switch_off(engine, covered.transactions);
        }
    }

    /// It is off until as many replicas as are needed have everything.
    fn stay_off(&mut self, engine: &Engine, covered: &Covered) {
        self.count_unacknowledged(covered.transactions);
        if covered.place.is_some_and(|lsn| lsn >= covered.end) {
            self.switch_on(engine);
        }
    }

    fn switch_on(&mut self, engine: &Engine) {
        debug_assert!(self.wanted.is_enabled && self.waiting_since.is_none());
        self.told = engine.require_acknowledgement();
        self.is_on = true;
    }

    fn switch_off(&mut self, engine: &Engine, transactions: u64) {
        self.waiting_since = None;
        self.waiting = 0;
        self.counted.switched_off += 1;
        self.count_unacknowledged(transactions);
        if std::mem::take(&mut self.is_on) {
            engine.stop_requiring_acknowledgement();
        }
    }

    fn count_unacknowledged(&mut self, transactions: u64) {
        self.counted.unacknowledged += transactions.saturating_sub(self.seen);
        self.seen = self.seen.max(transactions);
    }
}

impl Member {
    /// It was asked so often to acknowledge.
    pub(super) fn note_asked(&self, times: u64) {
        if times > 0 {
            self.semi.0.lock().counted.asked += times;
        }
    }

    /// The replica has everything up to here, in the files since so many resets.
    pub(super) fn acknowledge(
        &self,
        engine: &Engine,
        published: &Published,
        (resets, place): (u64, FileInfo),
    ) {
        {
            let mut state = self.semi.0.lock();
            if let Some(known) = state.replicas.get_mut(&self.connection)
                && (resets, place) > (known.resets, known.place)
            {
                (known.resets, known.place) = (resets, place);
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
        let has = |server_id, size| Acknowledged {
            server_id,
            resets: 1,
            place: at(size),
        };
        assert_eq!(state.acknowledged(1), None);
        state.replicas = BTreeMap::from([(1, has(11, 10)), (2, has(12, 30)), (3, has(13, 20))]);
        assert_eq!(state.acknowledged(1), Some(at(30)));
        state.wanted.replicas = 2;
        assert_eq!(state.acknowledged(1), Some(at(20)));
        // Another connection of the second one is no other replica.
        state.replicas.insert(4, has(12, 25));
        assert_eq!(state.acknowledged(1), Some(at(20)));
        state.wanted.replicas = 4;
        assert_eq!(state.acknowledged(1), None);
        // What they had of the files before says nothing of those that have begun anew.
        state.wanted.replicas = 1;
        assert_eq!(state.acknowledged(2), Some(FileInfo::default()));
    }
}
