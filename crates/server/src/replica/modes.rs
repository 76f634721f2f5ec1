//! Do the transactions of a source fit to this server's `gtid_mode`?
//!
//! Neighbours: `source` asks once it is logged in, the parent for each transaction that comes; the applier asks again,
//! for what is in the relay log. **Invariants**: what MySQL's receiver refuses is refused, with its numbers;
//! transactions of MariaDB, which have no GTIDs of MySQL's, are not asked about.

use esker_binlog::event::EventType;
use esker_sql::applier::Anonymous;
use esker_sql::replica::Reception;

use super::source::UNKNOWN_VARIABLE;
use super::{Ended, FATAL, RELAY_WRITE};
use crate::client::{Client, ClientError};

/// The mode of a source that does not know of GTIDs.
const OFF: &str = "OFF";

/// May this replica follow a source of its `gtid_mode`?
pub(super) fn check_source(client: &mut Client, reception: &Reception) -> Result<(), Ended> {
    let theirs = match client.value("SELECT @@GLOBAL.gtid_mode") {
        Ok(mode) => mode.unwrap_or_default(),
        Err(ClientError::Server(e)) if e.code == UNKNOWN_VARIABLE => OFF.to_owned(),
        Err(e) => return Err(e.into()),
    };
    let ours = reception.instance().variable_text("gtid_mode");
    let settings = &reception.settings;
    if settings.auto_position && theirs != "ON" {
        let text = format!(
            "The replication receiver thread cannot start in AUTO_POSITION mode: the source has GTID_MODE = {theirs} \
             instead of ON."
        );
        return Err(Ended::Fatal(FATAL, text));
    }
    let gives_some = matches!(theirs.as_str(), "ON" | "ON_PERMISSIVE");
    let fit = match ours.as_str() {
        "OFF" => !gives_some,
        "ON" => gives_some || settings.anonymous != Anonymous::Off,
        _ => true,
    };
    match fit {
        true => Ok(()),
        false => {
            let text = format!(
                "The replication receiver thread cannot start because the source has GTID_MODE = {theirs} and this \
                 server has GTID_MODE = {ours}."
            );
            Err(Ended::Fatal(FATAL, text))
        }
    }
}

/// May a transaction come that begins with this event?
pub(super) fn check_transaction(reception: &Reception, kind: EventType) -> Result<(), Ended> {
    let settings = &reception.settings;
    let mode = reception.instance().variable_text("gtid_mode");
    let why = match (kind == EventType::AnonymousGtid, mode.as_str()) {
        (true, _) if settings.auto_position => {
            "Cannot replicate anonymous transaction when AUTO_POSITION = 1"
        }
        (true, "ON") if settings.anonymous == Anonymous::Off => {
            "Cannot replicate anonymous transaction when @@GLOBAL.GTID_MODE = ON"
        }
        (false, OFF) => "Cannot replicate GTID-transaction when @@GLOBAL.GTID_MODE = OFF",
        _ => return Ok(()),
    };
    let (file, position) = reception.relay.source();
    tracing::error!(
        "replication channel '{}': {why}, at file {file}, position {position}.",
        reception.channel()
    );
    let text = "Relay log write failure: could not queue event from source";
    Err(Ended::Fatal(RELAY_WRITE, text.to_owned()))
}
