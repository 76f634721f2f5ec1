//! Status variables: SHOW STATUS and COM_STATISTICS.
//!
//! Neighbours: counters of the instance, the sessions and the engine.
//! **Invariants**: names are MySQL's where MySQL has the counter, `Esker_…` where it has none; every
//! value is counted, none is made up; rows are sorted by name.

use std::sync::atomic::{AtomicU64, Ordering};

use esker_types::Value;

use super::t;
use crate::session::Session;
use crate::session::counts::{Counter, Counts, NAMES};

/// Names and values, sorted. `session`: this session's own values where there are some.
pub(crate) fn rows(of: &Session, session: bool) -> Vec<Vec<Value>> {
    let instance = &of.context.instance;
    let counters = &instance.counters;
    let read = |c: &AtomicU64| c.load(Ordering::Relaxed).to_string();
    let connected = instance.registry.count();
    let uptime = instance.uptime_secs().to_string();
    let tables = instance.table_count().to_string();
    let mut rows: Vec<(&str, String)> = vec![
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
        ("Max_used_connections", read(&counters.max_used_connections)),
        ("Open_tables", tables),
        (
            "Esker_prepared_xa_transactions",
            instance.engine.prepared_count().to_string(),
        ),
        ("Prepared_stmt_count", read(&instance.prepared_count)),
        ("Threads_cached", "0".into()),
        ("Threads_connected", connected.to_string()),
        ("Threads_created", read(&counters.connections)),
        ("Threads_running", running(of).to_string()),
        ("Uptime", uptime.clone()),
        ("Uptime_since_flush_status", uptime),
    ];
    let tls = if session { of.client.tls.clone() } else { None };
    let (cipher, version) = tls.unwrap_or_default();
    rows.push(("Ssl_cipher", cipher));
    rows.push(("Ssl_version", version));
    let compression = of.client.compression.filter(|_| session);
    let (algorithm, level) = compression.unwrap_or_default();
    let is_on = if compression.is_some() { "ON" } else { "OFF" };
    rows.push(("Compression", is_on.to_owned()));
    rows.push(("Compression_algorithm", algorithm.to_owned()));
    rows.push(("Compression_level", level.to_string()));
    let counts = if session {
        let mut own = Counts::zeros();
        of.context.process.counts.add_to(&mut own);
        own
    } else {
        instance.registry.sums()
    };
    rows.extend(NAMES.iter().zip(counts).map(|(n, v)| (*n, v.to_string())));
    rows.extend(instance.engine_status());
    rows.sort_by(|a, b| a.0.cmp(b.0));
    rows.into_iter()
        .map(|(name, value)| vec![t(name), t(value)])
        .collect()
}

/// Sessions that do something now.
fn running(of: &Session) -> usize {
    let all = of.context.instance.registry.list();
    all.iter().filter(|p| !p.is_idle()).count()
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
