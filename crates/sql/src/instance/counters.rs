//! Counters of an instance, behind SHOW STATUS.
//!
//! Neighbours: the server and sessions count; `show` shows. **Invariant**: no counter goes down but that of prepared
//! statements, which is bounded by max_prepared_stmt_count, and what FLUSH STATUS begins anew.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use esker_types::{SqlError, SqlResult};
use parking_lot::Mutex;

use super::Instance;
use crate::throttle::Pauses;

/// Counters behind SHOW STATUS that belong to no session.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that failed to log in.
    pub aborted_connects: AtomicU64,
    /// Sessions ever opened.
    pub connections: AtomicU64,
    /// Since the start, or FLUSH STATUS.
    since_flush: Mutex<SinceFlush>,
    /// Sessions that ended without COM_QUIT.
    pub aborted_clients: AtomicU64,
    /// Connections refused because there were too many.
    pub refused_connections: AtomicU64,
    /// FLUSH statements.
    pub flushes: AtomicU64,
    /// FLUSH HOSTS statements: the server forgets what it held against addresses.
    pub host_flushes: AtomicU64,
    /// Logins that had to wait because others had failed.
    pub login_delays: AtomicU64,
    /// Pauses of schema changes for others.
    pub ddl_pauses: Pauses,
    /// Pauses of backups.
    pub backup_pauses: Pauses,
    /// Waits for row locks.
    pub row_lock_waits: WaitTimes,
}

/// How long waits took that are over.
#[derive(Debug, Default)]
pub struct WaitTimes {
    count: AtomicU64,
    micros: AtomicU64,
    longest: AtomicU64,
}

impl WaitTimes {
    /// A wait has ended.
    pub(crate) fn add(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
        self.longest.fetch_max(micros, Ordering::Relaxed);
    }

    /// As status variables: all of it, the mean and the longest one, in milliseconds.
    pub(crate) fn status(&self) -> [(&'static str, u64); 3] {
        const MILLI: u64 = 1000;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (count, micros) = (read(&self.count), read(&self.micros));
        [
            ("Innodb_row_lock_time", micros / MILLI),
            ("Innodb_row_lock_time_avg", micros / count.max(1) / MILLI),
            ("Innodb_row_lock_time_max", read(&self.longest) / MILLI),
        ]
    }
}

/// What FLUSH STATUS begins anew.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SinceFlush {
    /// When it was; `None`: not since the start.
    pub flushed_micros: Option<i64>,
    /// Most sessions at one time.
    pub most_sessions: u64,
    /// When there were so many for the first time.
    pub most_micros: i64,
}

impl Instance {
    pub(crate) fn count_connection(&self) {
        self.counters.connections.fetch_add(1, Ordering::Relaxed);
        let sessions = self.registry.clients() as u64;
        let mut since = self.counters.since_flush.lock();
        if sessions > since.most_sessions {
            since.most_sessions = sessions;
            since.most_micros = self.now_micros();
        }
    }

    /// What was counted since the last FLUSH STATUS.
    pub(crate) fn since_flush(&self) -> SinceFlush {
        *self.counters.since_flush.lock()
    }

    /// FLUSH STATUS.
    pub(crate) fn flush_status(&self) {
        let now = self.now_micros();
        *self.counters.since_flush.lock() = SinceFlush {
            flushed_micros: Some(now),
            most_sessions: self.registry.clients() as u64,
            most_micros: now,
        };
        self.binlog.flush_status();
    }

    /// A login failed.
    pub fn count_aborted_connect(&self) {
        self.counters
            .aborted_connects
            .fetch_add(1, Ordering::Relaxed);
    }

    /// How many FLUSH HOSTS there were.
    pub fn host_flushes(&self) -> u64 {
        self.counters.host_flushes.load(Ordering::Relaxed)
    }

    /// A login had to wait because others had failed.
    pub fn count_login_delay(&self) {
        self.counters.login_delays.fetch_add(1, Ordering::Relaxed);
    }

    /// A session ended without COM_QUIT.
    pub fn count_aborted_client(&self) {
        self.counters
            .aborted_clients
            .fetch_add(1, Ordering::Relaxed);
    }

    /// A connection was refused because there were too many.
    pub fn count_refused_connection(&self) {
        self.counters
            .refused_connections
            .fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a prepared statement.
    ///
    /// # Errors
    /// 1461.
    pub(crate) fn count_prepared(&self) -> SqlResult<()> {
        let limit = self.globals.named("max_prepared_stmt_count").as_u64();
        if self.prepared_count.fetch_add(1, Ordering::Relaxed) >= limit {
            self.prepared_count.fetch_sub(1, Ordering::Relaxed);
            let text = format!(
                "Can't create more than max_prepared_stmt_count statements (current value: {limit})"
            );
            return Err(SqlError::new(1461, "42000", text));
        }
        Ok(())
    }
}
