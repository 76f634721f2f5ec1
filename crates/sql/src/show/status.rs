//! Status variables: SHOW STATUS and COM_STATISTICS.
//!
//! Neighbours: counters of the instance, the sessions and the engine.
//! **Invariants**: names are MySQL's where MySQL has the counter, `Esker_…` where it has none; what
//! Esker does not count is 0 and listed in `uncounted`; rows are sorted by name.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker_types::Value;

use super::t;
use crate::counts::{Counter, Counts, NAMES};
use crate::host::Host;
use crate::infoschema;
use crate::instance::Instance;
use crate::session::Session;
use crate::session::registry::{Connection, Process};

/// A status variable: its name and value.
pub(crate) type Status = (&'static str, String);

/// SHOW STATUS: the session's own values where there are some, or the server's.
pub(crate) fn rows(of: &Session, session: bool) -> Vec<Vec<Value>> {
    let instance = &of.context.instance;
    let rows = match session {
        true => of_session(instance, &of.context.process),
        false => global(instance),
    };
    let row = |(name, value)| vec![t(name), t(value)];
    rows.into_iter().map(row).collect()
}

/// Every status variable of the server, sorted.
pub(crate) fn global(instance: &Instance) -> Vec<Status> {
    let counts = NAMES.iter().copied().zip(instance.registry.sums());
    let mut rows = of_server(instance);
    rows.extend(counts.map(|(name, n)| (name, n.to_string())));
    rows.extend(of_connection(&Connection::default()));
    rows.extend(instance.present_position().status());
    with_uncounted(rows)
}

/// Every status variable, with the session's own values where it has some; sorted.
pub(crate) fn of_session(instance: &Instance, process: &Process) -> Vec<Status> {
    let mut rows = of_server(instance);
    rows.extend(own_of_session(process));
    let position = process.snapshot();
    rows.extend(
        position
            .unwrap_or_else(|| instance.present_position())
            .status(),
    );
    with_uncounted(rows)
}

/// Adds the names that are not counted, and sorts.
fn with_uncounted(mut rows: Vec<Status>) -> Vec<Status> {
    rows.extend(super::uncounted::all());
    // The sort is stable: what is counted comes before the same name without a count.
    rows.sort_by_key(|(name, _)| *name);
    rows.dedup_by_key(|(name, _)| *name);
    rows
}

/// The status variables that a session has for itself.
pub(crate) fn own_of_session(process: &Process) -> Vec<Status> {
    let mut own = Counts::zeros();
    process.counts.add_to(&mut own);
    let counts = NAMES.iter().copied().zip(own);
    let mut rows: Vec<Status> = counts.map(|(name, n)| (name, n.to_string())).collect();
    rows.extend(of_connection(process.connection()));
    rows.push(("Last_query_cost", format!("{:.6}", process.last_cost())));
    rows
}

/// Names of what is counted by session.
pub(crate) fn counter_names() -> &'static [&'static str] {
    NAMES
}

/// Room for the sums of what is counted by session.
pub(crate) fn zeros() -> Vec<u64> {
    Counts::zeros()
}

/// What is known of a session's connection; of none for the server as a whole.
fn of_connection(connection: &Connection) -> Vec<Status> {
    let (cipher, version) = connection.tls.clone().unwrap_or_default();
    let (algorithm, level) = connection.compression.unwrap_or_default();
    let is_on = match connection.compression {
        Some(_) => "ON",
        None => "OFF",
    };
    vec![
        ("Ssl_cipher", cipher),
        ("Ssl_version", version),
        ("Compression", is_on.to_owned()),
        ("Compression_algorithm", algorithm.to_owned()),
        ("Compression_level", level.to_string()),
    ]
}

/// What the server counts as a whole.
fn of_server(instance: &Instance) -> Vec<Status> {
    let counters = &instance.counters;
    let read = |c: &AtomicU64| c.load(Ordering::Relaxed).to_string();
    let uptime = instance.uptime_secs();
    let since = instance.since_flush();
    let since_flush = since.flushed_micros.map_or(uptime, |flushed| {
        ((instance.now_micros() - flushed).max(0) / 1_000_000) as u64
    });
    let mut rows: Vec<Status> = vec![
        ("Aborted_clients", read(&counters.aborted_clients)),
        ("Aborted_connects", read(&counters.aborted_connects)),
        (
            "Connection_errors_max_connections",
            read(&counters.refused_connections),
        ),
        (
            "Connection_control_delay_generated",
            read(&counters.login_delays),
        ),
        ("Connections", read(&counters.connections)),
        ("Flush_commands", read(&counters.flushes)),
        ("Max_used_connections", since.most_sessions.to_string()),
        (
            "Max_used_connections_time",
            infoschema::shown_time(since.most_micros),
        ),
        ("Open_tables", instance.table_count().to_string()),
        ("Esker_ddl_pauses", counters.ddl_pauses.count().to_string()),
        (
            "Esker_ddl_pause_milliseconds",
            counters.ddl_pauses.millis().to_string(),
        ),
        (
            "Esker_backup_pauses",
            counters.backup_pauses.count().to_string(),
        ),
        (
            "Esker_backup_pause_milliseconds",
            counters.backup_pauses.millis().to_string(),
        ),
        (
            "Esker_prepared_xa_transactions",
            instance.engine.prepared_count().to_string(),
        ),
        ("Prepared_stmt_count", read(&instance.prepared_count)),
        ("Threads_cached", "0".into()),
        ("Threads_connected", instance.registry.clients().to_string()),
        ("Threads_created", read(&counters.connections)),
        ("Threads_running", running(instance).to_string()),
        ("Uptime", uptime.to_string()),
        ("Uptime_since_flush_status", since_flush.to_string()),
    ];
    rows.extend(instance.engine_status());
    rows.extend(instance.backups.status());
    rows.extend(instance.binlog.semi_sync_status());
    rows.extend(instance.replica_counters());
    rows.extend(super::innodb::values(instance));
    rows.extend(instance.host().into_iter().flat_map(Host::tls_status));
    rows
}

/// Sessions of clients that do something now.
fn running(instance: &Instance) -> usize {
    let all = instance.registry.list();
    let running = |p: &&Arc<Process>| !p.connection().inside && !p.is_idle();
    all.iter().filter(running).count()
}

/// The line of COM_STATISTICS.
pub(crate) fn line(session: &Session) -> String {
    let instance = &session.context.instance;
    let uptime = instance.uptime_secs();
    let sums = instance.registry.sums();
    let questions = sums[Counter::Questions as usize];
    let slow = sums[Counter::SlowQueries as usize];
    let average = questions as f64 / (uptime.max(1)) as f64;
    let tables = instance.table_count();
    format!(
        "Uptime: {uptime}  Threads: {}  Questions: {questions}  Slow queries: {slow}  \
         Opens: {tables}  Flush tables: {}  Open tables: {tables}  \
         Queries per second avg: {average:.3}",
        instance.registry.count(),
        instance.counters.flushes.load(Ordering::Relaxed),
    )
}
