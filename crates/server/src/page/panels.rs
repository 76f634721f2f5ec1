//! `/panels.json` and `/details.json`: the tables that the page shows.
//!
//! Neighbours: `index.html` draws them by their names; it asks for the former every second, for the latter every ten.
//! **Invariant**: a panel that cannot be asked for shows its error and disturbs no other.

use serde_json::{Value, json};

use super::http::Response;
use super::inside::{Refused, Viewer};

/// Name and statement.
type Panel = (&'static str, &'static str);

/// What changes from one second to the next.
const PANELS: &[Panel] = &[
    (
        "server",
        "SELECT @@hostname AS host, @@version AS version, @@version_comment AS build, USER() AS viewer, \
         IF(@@super_read_only OR @@read_only, 'read only', 'read and write') AS mode",
    ),
    ("status", "SHOW GLOBAL STATUS"),
    (
        "running",
        "SELECT id, user, host, db, command, time, state, progress, LEFT(info, 200) AS info \
         FROM (SELECT p.*, CONCAT(ROUND(100 * s.work_completed / s.work_estimated), ' %') AS progress \
               FROM information_schema.processlist AS p \
               LEFT JOIN performance_schema.events_stages_current AS s ON s.thread_id = p.id) AS p \
         WHERE id <> CONNECTION_ID() AND command <> 'Daemon' AND (command <> 'Sleep' OR time > 60) \
         ORDER BY time DESC LIMIT 30",
    ),
    ("waits", WAITS),
    (
        "stalls",
        "SELECT cause, waits_for, count, ROUND(nanoseconds / 1e9, 3) AS seconds, \
                ROUND(longest_nanoseconds / 1e6, 1) AS longest_ms, waiting \
         FROM information_schema.ESKER_STALLS WHERE count > 0 OR waiting > 0",
    ),
    (
        "statement_times",
        "SELECT bucket_timer_high / 1000 AS nanoseconds, count_bucket AS count \
         FROM performance_schema.events_statements_histogram_global WHERE count_bucket > 0 ORDER BY bucket_number",
    ),
    (
        "commit_times",
        "SELECT to_value AS nanoseconds, count FROM information_schema.ESKER_LOG_HISTOGRAMS \
         WHERE histogram = 'commit wait, nanoseconds'",
    ),
    (
        "flush_times",
        "SELECT to_value AS nanoseconds, count FROM information_schema.ESKER_LOG_HISTOGRAMS \
         WHERE histogram = 'flush, nanoseconds'",
    ),
];

/// Who waits for whom: row locks, then metadata locks.
const WAITS: &str = "\
    SELECT kind, waits, r.time AS seconds, LEFT(r.info, 80) AS statement, holds, h.user AS holder, \
           IF(h.command = 'Sleep', CONCAT('idle for ', h.time, ' s'), LEFT(h.info, 80)) AS does, \
           CONCAT('KILL ', holds) AS remedy \
    FROM (SELECT 'row' AS kind, requesting_thread_id AS waits, blocking_thread_id AS holds \
          FROM information_schema.ESKER_DATA_LOCK_WAITS \
          UNION \
          SELECT 'metadata', waiting_thread_id, blocking_thread_id \
          FROM information_schema.ESKER_METADATA_LOCK_WAITS) AS w \
    LEFT JOIN information_schema.processlist AS r ON r.id = waits \
    LEFT JOIN information_schema.processlist AS h ON h.id = holds \
    ORDER BY seconds DESC LIMIT 30";

/// What is looked at more rarely, or costs more.
const DETAILS: &[Panel] = &[
    (
        "statements",
        "SELECT LEFT(digest_text, 120) AS statement, count_star AS count, \
                ROUND(sum_timer_wait / 1e12, 3) AS seconds, ROUND(avg_timer_wait / 1e9, 3) AS avg_ms, \
                ROUND(quantile_99 / 1e9, 3) AS p99_ms, sum_rows_examined AS rows_read, sum_errors AS errors \
         FROM performance_schema.events_statements_summary_by_digest ORDER BY sum_timer_wait DESC LIMIT 12",
    ),
    (
        "memory",
        "SELECT area, bytes, peak_bytes, limit_bytes FROM information_schema.ESKER_MEMORY",
    ),
    (
        "disk",
        "SELECT area, SUM(files) AS files, SUM(bytes) AS bytes FROM information_schema.ESKER_DISK GROUP BY area",
    ),
    (
        "trees",
        "SELECT COALESCE(NULLIF(CONCAT_WS('.', table_schema, table_name, index_name), ''), 'the catalog') AS tree, \
                memtable_bytes, \
                level0_runs, level0_bytes, level1_bytes, level2_bytes, versions, deletes \
         FROM information_schema.ESKER_TREES \
         ORDER BY memtable_bytes + level0_bytes + level1_bytes + level2_bytes DESC LIMIT 12",
    ),
    (
        "compactions",
        "SELECT kind, count, extents_merged, extents_linked, extents_written, bytes_written \
         FROM information_schema.ESKER_COMPACTIONS WHERE count > 0",
    ),
    (
        "recovery",
        "SELECT phase, mode, threads, bytes_done, records, rows_replayed, until_ready AS ready_ms, elapsed AS all_ms, \
                peak_bytes FROM information_schema.ESKER_RECOVERY",
    ),
    (
        "deadlocks",
        "SELECT number, time, processlist_id AS id, user, victim, LEFT(statement, 120) AS statement, waits_for \
         FROM information_schema.ESKER_DEADLOCKS LIMIT 12",
    ),
    (
        "settings",
        "SELECT variable_name AS name, variable_value AS value, LOWER(variable_source) AS source \
         FROM performance_schema.variables_info JOIN performance_schema.global_variables USING (variable_name) \
         WHERE variable_source <> 'COMPILED' ORDER BY name",
    ),
    (
        "log",
        "SELECT logged, prio, data FROM performance_schema.error_log ORDER BY logged DESC LIMIT 50",
    ),
];

/// The former.
pub(super) fn now(viewer: &mut Viewer) -> Result<Response, Refused> {
    respond(viewer, PANELS)
}

/// The latter.
pub(super) fn details(viewer: &mut Viewer) -> Result<Response, Refused> {
    respond(viewer, DETAILS)
}

fn respond(viewer: &mut Viewer, panels: &[Panel]) -> Result<Response, Refused> {
    let panel = |(name, sql): &Panel| {
        let value = match viewer.ask(sql) {
            Ok(table) => json!({ "columns": table.columns, "rows": table.rows }),
            Err(e) => json!({ "error": e.to_string() }),
        };
        ((*name).to_owned(), value)
    };
    let panels: serde_json::Map<String, Value> = panels.iter().map(panel).collect();
    Ok(Response::json(Value::Object(panels).to_string()))
}
