//! What a backup tool has to know of the logs.
//!
//! Neighbours: `binlog` knows the position. **Invariant**: the position is one that the binary log had at one moment,
//! with exactly the GTIDs before it.

use esker_types::ctx::NoSession;
use esker_types::{Value, json};

use super::super::source::Source;
use super::super::{Viewer, text};

pub(super) static SOURCES: &[Source] = &[Source::new(
    "log_status",
    &["SERVER_UUID", "LOCAL", "REPLICATION", "STORAGE_ENGINES"],
    log_status,
)];

fn log_status(viewer: &Viewer) -> Vec<Vec<Value>> {
    let instance = &viewer.instance;
    let position = instance.present_position();
    let local = format!(
        r#"{{"gtid_executed": "{}", "binary_log_file": "{}", "binary_log_position": {}}}"#,
        position.executed.replace('\n', "\\n"),
        position.file,
        position.offset
    );
    let lsn = instance.engine().durable_seq();
    let engines = format!(r#"{{"InnoDB": {{"LSN": {lsn}, "LSN_checkpoint": {lsn}}}}}"#);
    vec![vec![
        text(instance.variable_text("server_uuid")),
        document(&local),
        document(r#"{"channels": []}"#),
        document(&engines),
    ]]
}

fn document(text: &str) -> Value {
    let encoded = json::parse(text.as_bytes(), &NoSession)
        .ok()
        .map(|json| json::encode(&json));
    encoded
        .and_then(Result::ok)
        .map_or(Value::Null, Value::Json)
}
