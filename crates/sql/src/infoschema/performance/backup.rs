//! What a backup tool has to know of the logs.
//!
//! Neighbours: `binlog` knows the position. **Invariant**: the position is one that the binary log had at one moment,
//! with exactly the GTIDs before it.

use esker_types::ctx::NoSession;
use esker_types::{Value, json};

use super::super::source::Source;
use super::super::{Viewer, text};
use crate::replica::Channel;

/// The table waits until the files have everything that is committed.
pub(in super::super) const LOG_STATUS: &str = "log_status";

pub(super) static SOURCES: &[Source] = &[Source::new(
    LOG_STATUS,
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
    let channels: Vec<String> = instance.channels.all().iter().map(|c| channel(c)).collect();
    let lsn = instance.engine().durable_seq();
    let engines = format!(r#"{{"InnoDB": {{"LSN": {lsn}, "LSN_checkpoint": {lsn}}}}}"#);
    vec![vec![
        text(instance.variable_text("server_uuid")),
        document(&local),
        document(&format!(r#"{{"channels": [{}]}}"#, channels.join(", "))),
        document(&engines),
    ]]
}

/// The end of a channel's relay log.
fn channel(channel: &Channel) -> String {
    let relay = channel.relay();
    let end = relay.received().end.relay;
    format!(
        r#"{{"channel_name": {}, "relay_log_file": {}, "relay_log_position": {}}}"#,
        quoted(channel.name()),
        quoted(&relay.name_of(end)),
        end.offset
    )
}

fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    json::quote(text.as_bytes(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn document(text: &str) -> Value {
    let encoded = json::parse(text.as_bytes(), &NoSession)
        .ok()
        .map(|json| json::encode(&json));
    encoded
        .and_then(Result::ok)
        .map_or(Value::Null, Value::Json)
}
