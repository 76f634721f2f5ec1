//! `/panels.json`: the tables that the page shows.
//!
//! Neighbours: `index.html` draws them by their names.
//! **Invariant**: a panel that cannot be asked for shows its error and disturbs no other.

use serde_json::{Value, json};

use super::http::Response;
use super::inside::{Refused, Viewer};

/// Name and statement of every panel.
const PANELS: &[(&str, &str)] = &[
    (
        "server",
        "SELECT @@version AS version, @@hostname AS host, @@datadir AS datadir, USER() AS viewer",
    ),
    ("status", "SHOW GLOBAL STATUS"),
    (
        "sessions",
        "SELECT id, user, host, db, command, time, state, LEFT(info, 200) AS info \
         FROM information_schema.processlist WHERE command <> 'Sleep' OR time > 60 ORDER BY time DESC LIMIT 30",
    ),
    (
        "waits",
        "SELECT requesting_thread_id AS waits, blocking_thread_id AS holds, \
                CONCAT('KILL ', blocking_thread_id) AS remedy \
         FROM information_schema.ESKER_DATA_LOCK_WAITS LIMIT 30",
    ),
    (
        "statements",
        "SELECT LEFT(digest_text, 120) AS statement, count_star AS count, \
                ROUND(sum_timer_wait / 1e12, 3) AS seconds, ROUND(avg_timer_wait / 1e9, 3) AS avg_ms, \
                sum_rows_examined AS rows_read, sum_errors AS errors \
         FROM performance_schema.events_statements_summary_by_digest ORDER BY sum_timer_wait DESC LIMIT 12",
    ),
    (
        "memory",
        "SELECT area, bytes, limit_bytes FROM information_schema.ESKER_MEMORY",
    ),
    ("stalls", "SELECT * FROM information_schema.ESKER_STALLS"),
    (
        "trees",
        "SELECT CONCAT_WS('.', table_schema, table_name, index_name) AS tree, memtable_bytes, \
                level0_runs, level0_bytes, level1_bytes, level2_bytes \
         FROM information_schema.ESKER_TREES \
         ORDER BY memtable_bytes + level0_bytes + level1_bytes + level2_bytes DESC LIMIT 12",
    ),
];

pub(super) fn respond(viewer: &mut Viewer) -> Result<Response, Refused> {
    let panel = |(name, sql): &(&str, &str)| {
        let value = match viewer.ask(sql) {
            Ok(table) => json!({ "columns": table.columns, "rows": table.rows }),
            Err(e) => json!({ "error": e.to_string() }),
        };
        ((*name).to_owned(), value)
    };
    let panels: serde_json::Map<String, Value> = PANELS.iter().map(panel).collect();
    Ok(Response::json(Value::Object(panels).to_string()))
}
