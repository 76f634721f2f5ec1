//! Status variables: SHOW STATUS and COM_STATISTICS.
//!
//! Neighbours: counters of the instance, the session and the engine.
//! **Invariants**: names are MySQL's where MySQL has the counter, `Esker_…` where it has none; rows are
//! sorted by name.

use std::sync::atomic::Ordering;

use esker_types::Value;

use super::t;
use crate::session::Session;

/// Names and values, sorted. `session`: with this session's own values where there are some.
pub(crate) fn rows(of: &Session, session: bool) -> Vec<Vec<Value>> {
    let instance = &of.facts.instance;
    let counters = &instance.counters;
    let read = |c: &std::sync::atomic::AtomicU64| c.load(Ordering::Relaxed).to_string();
    let connected = instance.registry.count();
    let running = instance
        .registry
        .list()
        .iter()
        .filter(|p| p.detail().command != "Sleep")
        .count();
    let mut rows: Vec<(&str, String)> = vec![
        ("Aborted_clients", "0".into()),
        ("Aborted_connects", read(&counters.aborted_connects)),
        ("Connections", read(&counters.connections)),
        ("Max_used_connections", read(&counters.max_used_connections)),
        ("Prepared_stmt_count", read(&instance.prepared_count)),
        ("Queries", read(&counters.questions)),
        ("Questions", read(&counters.questions)),
        ("Threads_cached", "0".into()),
        ("Threads_connected", connected.to_string()),
        ("Threads_created", connected.to_string()),
        ("Threads_running", running.to_string()),
        ("Uptime", instance.uptime_secs().to_string()),
        (
            "Uptime_since_flush_status",
            instance.uptime_secs().to_string(),
        ),
        ("Slow_queries", "0".into()),
        ("Open_tables", instance.table_count().to_string()),
        ("Opened_tables", instance.table_count().to_string()),
        ("Open_files", "0".into()),
        ("Flush_commands", "0".into()),
        ("Compression", "OFF".into()),
    ];
    let tls = if session { of.client.tls.clone() } else { None };
    let (cipher, version) = tls.unwrap_or_default();
    rows.push(("Ssl_cipher", cipher));
    rows.push(("Ssl_version", version));
    rows.extend(instance.engine_status());
    rows.sort_by(|a, b| a.0.cmp(b.0));
    rows.into_iter()
        .map(|(name, value)| vec![t(name), t(value)])
        .collect()
}

/// The line of COM_STATISTICS.
pub(crate) fn line(session: &Session) -> String {
    let instance = &session.facts.instance;
    let uptime = instance.uptime_secs();
    let questions = instance.counters.questions.load(Ordering::Relaxed);
    let average = questions as f64 / (uptime.max(1)) as f64;
    format!(
        "Uptime: {uptime}  Threads: {}  Questions: {questions}  Slow queries: 0  Opens: {}  \
         Flush tables: 0  Open tables: {}  Queries per second avg: {average:.3}",
        instance.registry.count(),
        instance.table_count(),
        instance.table_count(),
    )
}
