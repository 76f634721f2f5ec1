//! SHOW ENGINE.
//!
//! Neighbours: `innodb_status` makes InnoDB's text; `statements` knows what it keeps.
//! **Invariant**: whoever has not the PROCESS privilege sees nothing but whether there is such an engine.

use esker_sql_catalog::catalog::{EngineChoice, engine_choice};
use esker_types::{SqlResult, Value, errors};

use super::{Table, empty, innodb_status, t};
use crate::instance::Instance;
use crate::session::Session;

/// What SHOW ENGINE calls all engines.
const ALL: &str = "all";
const PERFORMANCE_SCHEMA: &str = "performance_schema";

/// SHOW ENGINE: STATUS of InnoDB and of PERFORMANCE_SCHEMA; nothing of other engines.
///
/// # Errors
/// 1286, 1227.
pub(super) fn make(session: &Session, name: &str, what: &str) -> SqlResult<Table> {
    const COLUMNS: [&str; 3] = ["Type", "Name", "Status"];
    let is = |engine: &str| name.eq_ignore_ascii_case(engine);
    let is_known =
        is(ALL) || is(PERFORMANCE_SCHEMA) || !matches!(engine_choice(name), EngineChoice::Unknown);
    if !is_known {
        return Err(errors::unknown_engine(name));
    }
    session.context.require("PROCESS")?;
    if what != "STATUS" {
        return empty(&COLUMNS);
    }
    let instance = &session.context.instance;
    let mut rows = Vec::new();
    if is("innodb") || is(ALL) {
        rows.push(vec![t("InnoDB"), t(""), t(innodb_status::text(instance))]);
    }
    if is(PERFORMANCE_SCHEMA) || is(ALL) {
        rows.extend(kept_of_statements(instance));
    }
    Ok(Table::texts(&COLUMNS, rows))
}

/// What is kept of statements: of each buffer the size of an element, their number, and both together; the sum last.
fn kept_of_statements(instance: &Instance) -> Vec<Vec<Value>> {
    let sessions = instance.registry.list();
    let lengths = sessions
        .iter()
        .map(|session| session.history().lock().bytes());
    let history = (sessions.len(), lengths.sum());
    let buffers = [
        ("events_statements_history", history),
        (
            "events_statements_summary_by_digest",
            instance.digests.memory(),
        ),
    ];
    let row =
        |name: String, number: usize| vec![t(PERFORMANCE_SCHEMA), t(name), t(number.to_string())];
    let mut rows = Vec::new();
    for (buffer, (count, bytes)) in buffers {
        let size = bytes.checked_div(count).unwrap_or(0);
        rows.push(row(format!("{buffer}.size"), size));
        rows.push(row(format!("{buffer}.count"), count));
        rows.push(row(format!("{buffer}.memory"), bytes));
    }
    let sum = buffers.iter().map(|(_, (_, bytes))| bytes).sum();
    rows.push(row(format!("{PERFORMANCE_SCHEMA}.memory"), sum));
    rows
}
