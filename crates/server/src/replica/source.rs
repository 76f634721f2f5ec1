//! Asking a source for its stream: who it is, which checksums it has, and COM_BINLOG_DUMP.
//!
//! Neighbours: the parent takes the events. **Invariants**: a source with this server's own number is refused; a source
//! learns that checksums are understood, so everything it sends is protected as in its files; what is acknowledged to a
//! semi-synchronous source is durable.

use esker_binlog::event::Checksum;
use esker_binlog::files::FIRST_EVENT;
use esker_binlog::relay::RelayLog;
use esker_sql::replica::{ReceiverState, Reception, StartFrom};

use super::{CANNOT_CONNECT, Ended, FATAL, modes};
use crate::client::{Client, ClientError};

const COM_BINLOG_DUMP: u8 = 0x12;
const COM_REGISTER_SLAVE: u8 = 0x15;
const COM_BINLOG_DUMP_GTID: u8 = 0x1e;
/// In front of events and acknowledgements of semi-synchronous replication.
const SEMI_SYNC: u8 = 0xef;
/// Its flag of an event that the source waits for.
const WANTS_ACK: u8 = 1;
/// The request has a set of GTIDs.
const THROUGH_GTID: u16 = 4;
const NANOS: f64 = 1e9;
/// A variable that the source does not have.
pub(super) const UNKNOWN_VARIABLE: u16 = 1193;
/// Longest host name that is told, bytes.
const MAX_HOST: usize = 60;

/// A source that sends.
pub(super) struct Source {
    pub(super) client: Client,
    /// What stands behind events, until a format description says it.
    pub(super) checksum: Checksum,
    /// It wants to hear of events that are safe here.
    is_semi_sync: bool,
    /// It waits to hear.
    pub(super) is_owed: bool,
}

impl Source {
    /// Asks, registers and requests the stream.
    pub(super) fn meet(mut client: Client, reception: &Reception) -> Result<Self, Ended> {
        reception.enter(ReceiverState::Handshake);
        let is_mariadb = client.server_version.contains("MariaDB");
        let instance = reception.instance();
        let own_id = instance.variable_u64("server_id") as u32;
        check_identity(&mut client, reception, own_id, is_mariadb)?;
        if !is_mariadb {
            modes::check_source(&mut client, reception)?;
        }
        let checksum = negotiate(&mut client, reception, is_mariadb)?;
        let is_semi_sync = reception.wants_semi_sync() && ask_to_wait(&mut client)?;
        reception.set_semi_sync(is_semi_sync);
        let host = instance.variable_text("report_host");
        let port = instance.variable_u64("report_port") as u16;
        client.acknowledged(&register(own_id, &host, port))?;
        reception.enter(ReceiverState::Registered);
        let from = reception.start_from();
        let from = from.map_err(|e| Ended::Fatal(e.code, e.message))?;
        if let StartFrom::Maria(known) = &from {
            for set in [
                format!("SET @slave_connect_state = '{known}'"),
                "SET @slave_gtid_strict_mode = 0".to_owned(),
                "SET @slave_gtid_ignore_duplicates = 0".to_owned(),
            ] {
                client.query(&set, &mut |_| {})?;
            }
        }
        client.command(&dump(own_id, &from))?;
        if is_semi_sync {
            client.take_any_order();
        }
        Ok(Self {
            client,
            checksum,
            is_semi_sync,
            is_owed: false,
        })
    }

    /// An event without what a semi-synchronous source puts in front of it.
    pub(super) fn unwrapped<'a>(&mut self, event: &'a [u8]) -> Result<&'a [u8], Ended> {
        if !self.is_semi_sync {
            return Ok(event);
        }
        let [SEMI_SYNC, flags, event @ ..] = event else {
            let text = "an event without the head of semi-synchronous replication".to_owned();
            return Err(Ended::Lost(CANNOT_CONNECT, text));
        };
        self.is_owed |= flags & WANTS_ACK != 0;
        Ok(event)
    }

    /// Tells the source that everything that has come is durable here.
    pub(super) fn acknowledge(&mut self, relay: &RelayLog) -> Result<(), Ended> {
        let (file, position) = relay.source();
        let mut out = vec![SEMI_SYNC];
        out.extend_from_slice(&position.to_le_bytes());
        out.extend_from_slice(file.as_bytes());
        self.client.command(&out)?;
        Ok(())
    }
}

/// Asks for semi-synchronous replication; false: the source does not have it.
fn ask_to_wait(client: &mut Client) -> Result<bool, Ended> {
    for name in [
        "rpl_semi_sync_source_enabled",
        "rpl_semi_sync_master_enabled",
    ] {
        match client.value(&format!("SELECT @@GLOBAL.{name}")) {
            Ok(_) => {
                let set = "SET @rpl_semi_sync_replica = 1, @rpl_semi_sync_slave = 1";
                client.query(set, &mut |_| {})?;
                return Ok(true);
            }
            Err(ClientError::Server(e)) if e.code == UNKNOWN_VARIABLE => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(false)
}

fn check_identity(
    client: &mut Client,
    reception: &Reception,
    own_id: u32,
    is_mariadb: bool,
) -> Result<(), Ended> {
    let id = client.value("SELECT @@GLOBAL.server_id")?;
    let id = id.and_then(|id| id.parse().ok()).unwrap_or(0);
    let uuid = match is_mariadb {
        true => None,
        false => client.value("SELECT @@GLOBAL.server_uuid")?,
    };
    let uuid = uuid.unwrap_or_default();
    reception.met(id, &uuid);
    let equal = |what: &str, but: &str| {
        let text = format!(
            "Fatal error: The replica I/O thread stops because source and replica have equal MySQL server {what}; \
             these {what} must be different for replication to work{but}."
        );
        Err(Ended::Fatal(FATAL, text))
    };
    if id == own_id {
        const UNLESS: &str = " (or the --replicate-same-server-id option must be used on replica but this does not \
                              always make sense; please check the manual before using it)";
        return equal("ids", UNLESS);
    }
    if !uuid.is_empty() && uuid == reception.instance().variable_text("server_uuid") {
        return equal("UUIDs", "");
    }
    Ok(())
}

/// Says what this replica understands, and asks which checksums the source has.
fn negotiate(
    client: &mut Client,
    reception: &Reception,
    is_mariadb: bool,
) -> Result<Checksum, Ended> {
    let instance = reception.instance();
    let timeout = instance.variable_u64("replica_net_timeout");
    let seconds = reception.settings.heartbeat.unwrap_or(timeout as f64 / 2.0);
    let period = (seconds * NANOS) as u64;
    let uuid = instance.variable_text("server_uuid");
    let mut sets = vec![
        format!("SET @master_heartbeat_period = {period}, @source_heartbeat_period = {period}"),
        "SET @master_binlog_checksum = @@global.binlog_checksum, \
         @source_binlog_checksum = @@global.binlog_checksum"
            .to_owned(),
        format!("SET @slave_uuid = '{uuid}', @replica_uuid = '{uuid}'"),
    ];
    if is_mariadb {
        sets.push("SET @mariadb_slave_capability = 4".to_owned());
    }
    for set in sets {
        client.query(&set, &mut |_| {})?;
    }
    let checksum = client.value("SELECT @source_binlog_checksum")?;
    match checksum.as_deref() {
        Some("CRC32") => Ok(Checksum::Crc32),
        _ => Ok(Checksum::None),
    }
}

/// COM_REGISTER_SLAVE.
fn register(own_id: u32, host: &str, port: u16) -> Vec<u8> {
    let host = &host.as_bytes()[..host.len().min(MAX_HOST)];
    let mut out = vec![COM_REGISTER_SLAVE];
    out.extend_from_slice(&own_id.to_le_bytes());
    out.push(host.len() as u8);
    out.extend_from_slice(host);
    // User and password are not told.
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&port.to_le_bytes());
    // Rank, and the number of the source, which it knows.
    out.extend_from_slice(&[0; 8]);
    out
}

/// The command that begins the stream.
fn dump(own_id: u32, from: &StartFrom) -> Vec<u8> {
    let (file, position, known) = match from {
        StartFrom::Position(file, position) => (file.as_str(), *position, None),
        StartFrom::Maria(_) => ("", FIRST_EVENT, None),
        StartFrom::Gtids(known) => ("", FIRST_EVENT, Some(known)),
    };
    let Some(known) = known else {
        let mut out = vec![COM_BINLOG_DUMP];
        // The field has 32 bits, here as in MySQL.
        out.extend_from_slice(&(position as u32).to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&own_id.to_le_bytes());
        out.extend_from_slice(file.as_bytes());
        return out;
    };
    let mut set = Vec::new();
    known.encode(&mut set);
    let mut out = vec![COM_BINLOG_DUMP_GTID];
    out.extend_from_slice(&THROUGH_GTID.to_le_bytes());
    out.extend_from_slice(&own_id.to_le_bytes());
    out.extend_from_slice(&(file.len() as u32).to_le_bytes());
    out.extend_from_slice(file.as_bytes());
    out.extend_from_slice(&position.to_le_bytes());
    out.extend_from_slice(&(set.len() as u32).to_le_bytes());
    out.extend_from_slice(&set);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_mysqls_form() {
        let at = StartFrom::Position("b.000002".to_owned(), 157);
        let bytes = dump(7, &at);
        assert_eq!(bytes[..11], [0x12, 157, 0, 0, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(&bytes[11..], b"b.000002");
        let none = dump(7, &StartFrom::Gtids(esker_binlog::GtidSet::default()));
        assert_eq!(none[..11], [0x1e, 4, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(none[11..19], 4u64.to_le_bytes());
        assert_eq!(none[19..23], 8u32.to_le_bytes());
        assert_eq!(register(7, "h", 258).len(), 1 + 4 + 2 + 2 + 2 + 8);
    }
}
