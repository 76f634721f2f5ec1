//! Errors about the binary log, GTIDs and replication channels.
//!
//! Neighbours: `binlog`, `replica` and `applier` of the SQL crate, the server's streams. **Invariant**: as in the
//! parent, in the order of the numbers.

use std::fmt::Display;

use crate::error::SqlError;

/// 1201: a replication channel cannot begin.
pub fn channel_failed(why: impl Display) -> SqlError {
    SqlError::new(1201, "HY000", why.to_string())
}

/// 1220: `command` is SHOW BINLOG EVENTS or SHOW RELAYLOG EVENTS.
pub fn show_events_failed(command: &str, why: impl Display) -> SqlError {
    let text = format!("Error when executing command {command}: {why}");
    SqlError::new(1220, "HY000", text)
}

/// 1598
pub fn binlog_failed(why: impl Display) -> SqlError {
    let text = format!("Binary logging not possible. Message: {why}");
    SqlError::new(1598, "HY000", text)
}

/// 1610
pub fn corrupt_event(why: impl Display) -> SqlError {
    let text = format!("Corrupted replication event was detected: {why}");
    SqlError::new(1610, "HY000", text)
}

/// 1772
pub fn malformed_gtid_set(text: impl Display) -> SqlError {
    let text = format!("Malformed GTID set specification '{text}'.");
    SqlError::new(1772, "HY000", text)
}

/// 1872: what a replication channel keeps is damaged.
pub fn channel_damaged(why: impl Display) -> SqlError {
    SqlError::new(1872, "HY000", why.to_string())
}

/// 1941: of MariaDB, whose `gtid_slave_pos` this is about.
pub fn malformed_gtid_list() -> SqlError {
    SqlError::new(1941, "HY000", "Could not parse GTID list")
}

/// 1943: of MariaDB, two GTIDs of one domain.
pub fn gtids_of_one_domain(one: impl Display, other: impl Display, domain: u32) -> SqlError {
    let text = format!("GTID {one} and {other} conflict (duplicate domain id {domain})");
    SqlError::new(1943, "HY000", text)
}

/// 3067: a rule of CHANGE REPLICATION FILTER.
pub fn filter_pattern() -> SqlError {
    let text = "Supplied filter list contains a value which is not in the required format 'db_pattern.table_pattern'";
    SqlError::new(3067, "HY000", text)
}

/// 3139: `what` is not done on a channel of this name.
pub fn channel_refuses(what: impl Display, channel: impl Display) -> SqlError {
    let text = format!("{what} cannot be performed on channel '{channel}'.");
    SqlError::new(3139, "HY000", text)
}

/// 3092
pub fn no_group_member() -> SqlError {
    let text = "The server is not configured properly to be an active member of the group. Please see more details on \
                error log.";
    SqlError::new(3092, "HY000", text)
}

/// 3747
pub fn applier_keeps_binlog_format() -> SqlError {
    let text = "Changing @@global.binlog_format or @@persist.binlog_format is disallowed when any replication channel \
                applier thread is running. You could execute STOP REPLICA SQL_THREAD and try again.";
    SqlError::new(3747, "HY000", text)
}

/// 3805
pub fn no_binlog_encryption() -> SqlError {
    let text = "Cannot rotate binary log master key when 'binlog-encryption' is off.";
    SqlError::new(3805, "HY000", text)
}

/// 4085
pub fn purge_beside_backup() -> SqlError {
    let text = "Could not purge binary logs since another session is executing LOCK INSTANCE FOR BACKUP. Wait for that \
                session to release the lock.";
    SqlError::new(4085, "HY000", text)
}
