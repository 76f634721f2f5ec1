//! What a client asks: one command per packet.
//!
//! Neighbours: `server` dispatches; `params` decodes COM_STMT_EXECUTE's values, for which the
//! statement's parameter count must be known.
//! **Invariant**: an unknown command byte is [`Command::Unknown`] (error 1047), never an OK.

use crate::WireError;
use crate::attributes::{self, Attribute};
use crate::codec::Reader;
use crate::constants::cap;

/// A parsed command, borrowing from the packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command<'a> {
    /// COM_QUIT.
    Quit,
    /// COM_INIT_DB with the schema's name.
    InitDb(&'a [u8]),
    /// COM_QUERY with its text and what the client says of it.
    Query(&'a [u8], Vec<Attribute>),
    /// COM_FIELD_LIST: table and column wildcard.
    FieldList(&'a [u8], &'a [u8]),
    /// COM_REFRESH: what to flush, as bits of [`refresh`].
    Refresh(u8),
    /// COM_SHUTDOWN.
    Shutdown,
    /// COM_STATISTICS.
    Statistics,
    /// COM_PROCESS_KILL with a connection id.
    ProcessKill(u32),
    /// COM_DEBUG.
    Debug,
    /// COM_PING.
    Ping,
    /// COM_CHANGE_USER; see [`crate::handshake::parse_change_user`].
    ChangeUser(&'a [u8]),
    /// COM_STMT_PREPARE with its text.
    StmtPrepare(&'a [u8]),
    /// COM_STMT_EXECUTE.
    StmtExecute(Execute<'a>),
    /// COM_STMT_SEND_LONG_DATA: statement, parameter, bytes to append.
    StmtSendLongData(u32, u16, &'a [u8]),
    /// COM_STMT_CLOSE.
    StmtClose(u32),
    /// COM_STMT_RESET.
    StmtReset(u32),
    /// COM_STMT_FETCH: statement and number of rows.
    StmtFetch(u32, u32),
    /// COM_SET_OPTION: multi-statements on (0) or off (1).
    SetOption(u16),
    /// COM_RESET_CONNECTION.
    ResetConnection,
    /// COM_REGISTER_SLAVE.
    RegisterReplica(RegisterReplica<'a>),
    /// COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID.
    Dump(Dump<'a>),
    /// Anything else.
    Unknown(u8),
}

/// What a replica says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisterReplica<'a> {
    /// Its server_id.
    pub server_id: u32,
    /// Its report_host.
    pub host: &'a [u8],
    /// Its report_port.
    pub port: u16,
}

/// A request for the binary log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dump<'a> {
    /// Bits of [`dump`].
    pub flags: u16,
    /// server_id of the replica.
    pub server_id: u32,
    /// File to begin with.
    pub file: &'a [u8],
    /// Where to begin in it.
    pub position: u64,
    /// COM_BINLOG_DUMP_GTID: what the replica has, encoded.
    pub gtids: Option<&'a [u8]>,
}

/// COM_QUIT.
pub const QUIT: u8 = 1;
/// COM_BINLOG_DUMP.
const DUMP: u8 = 0x12;
/// COM_BINLOG_DUMP_GTID.
const DUMP_GTID: u8 = 0x1e;
/// Longest host, user and password of a replica, in bytes.
const MAX_HOST: u8 = 250;
const MAX_USER: u8 = 96;
const MAX_PASSWORD: u8 = 32;
/// What an acknowledgement of a replica begins with.
const ACKNOWLEDGEMENT: u8 = 0xef;

/// What a replica acknowledges: everything before a position of a file. `None`: the packet is something else.
pub fn parse_acknowledgement(packet: &[u8]) -> Option<(u64, &[u8])> {
    let mut r = Reader::new(packet.strip_prefix(&[ACKNOWLEDGEMENT])?);
    let position = r.u64("position").ok()?;
    Some((position, until_nul(r.rest())))
}

/// Flags of a request for the binary log.
pub mod dump {
    /// The stream ends where the log ends.
    pub const NON_BLOCK: u16 = 1;
    /// Heartbeats may be of the second kind. MariaDB's clients ask for something else with it.
    pub const HEARTBEAT_V2: u16 = 2;
}

/// Bits of COM_REFRESH.
pub mod refresh {
    /// FLUSH PRIVILEGES.
    pub const GRANT: u8 = 1;
    /// FLUSH LOGS.
    pub const LOG: u8 = 2;
    /// FLUSH TABLES.
    pub const TABLES: u8 = 4;
    /// FLUSH HOSTS.
    pub const HOSTS: u8 = 8;
    /// FLUSH STATUS.
    pub const STATUS: u8 = 16;
    /// The cache of threads, of which there is none.
    pub const THREADS: u8 = 32;
}

/// The fixed part of COM_STMT_EXECUTE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Execute<'a> {
    /// Statement id.
    pub statement: u32,
    /// 0 none, 1 read-only cursor; 8 = parameter count follows.
    pub flags: u8,
    /// Null bitmap, types and values.
    pub rest: &'a [u8],
}

/// Cursor bits of [`Execute::flags`].
pub const CURSOR_READ_ONLY: u8 = 1;
/// The client sends the parameter count (query attributes).
pub const PARAMETER_COUNT_AVAILABLE: u8 = 8;

/// Parses a command packet.
///
/// # Errors
/// An empty packet or one shorter than its command needs.
pub fn parse(payload: &[u8], capabilities: u32) -> Result<Command<'_>, WireError> {
    let mut r = Reader::new(payload);
    Ok(match r.u8("command")? {
        QUIT => Command::Quit,
        0x02 => Command::InitDb(r.rest()),
        0x03 => {
            let attributes = query_attributes(&mut r, capabilities)?;
            Command::Query(r.rest(), attributes)
        }
        0x04 => Command::FieldList(r.nul_bytes("table name")?, r.rest()),
        0x07 => Command::Refresh(r.u8("what to flush")?),
        0x08 => Command::Shutdown,
        0x09 => Command::Statistics,
        0x0c => Command::ProcessKill(r.u32("connection id")?),
        0x0d => Command::Debug,
        0x0e => Command::Ping,
        0x11 => Command::ChangeUser(r.rest()),
        DUMP => Command::Dump(parse_dump(r)?),
        0x15 => Command::RegisterReplica(parse_register(r)?),
        0x16 => Command::StmtPrepare(r.rest()),
        0x17 => Command::StmtExecute(parse_execute(r)?),
        0x18 => Command::StmtSendLongData(r.u32("statement id")?, r.u16("parameter")?, r.rest()),
        0x19 => Command::StmtClose(r.u32("statement id")?),
        0x1a => Command::StmtReset(r.u32("statement id")?),
        0x1b => Command::SetOption(r.u16("option")?),
        0x1c => Command::StmtFetch(r.u32("statement id")?, r.u32("row count")?),
        DUMP_GTID => Command::Dump(parse_dump_gtid(r)?),
        0x1f => Command::ResetConnection,
        other => Command::Unknown(other),
    })
}

fn parse_execute(mut r: Reader<'_>) -> Result<Execute<'_>, WireError> {
    let statement = r.u32("statement id")?;
    let flags = r.u8("cursor flags")?;
    r.u32("iteration count")?;
    Ok(Execute {
        statement,
        flags,
        rest: r.rest(),
    })
}

/// Server id, host, user and password behind their lengths, port, rank, id of the source; the last two say nothing.
fn parse_register(mut r: Reader<'_>) -> Result<RegisterReplica<'_>, WireError> {
    let server_id = r.u32("server id")?;
    let host = "Failed to register replica: too long 'report-host'";
    let host = short_text(&mut r, MAX_HOST, host)?;
    let user = "Failed to register replica: too long 'report-user'";
    short_text(&mut r, MAX_USER, user)?;
    let password = "Failed to register replica; too long 'report-password'";
    short_text(&mut r, MAX_PASSWORD, password)?;
    let wrong = || WireError::NotRegistered("Wrong parameters when registering replica");
    let port = r.u16("port").map_err(|_| wrong())?;
    r.u64("rank and source").map_err(|_| wrong())?;
    Ok(RegisterReplica {
        server_id,
        host,
        port,
    })
}

/// A text of at most `most` bytes; `too_long` says what is wrong with a longer one, or one that the packet cuts.
fn short_text<'a>(
    r: &mut Reader<'a>,
    most: u8,
    too_long: &'static str,
) -> Result<&'a [u8], WireError> {
    let length = r.u8("length of a text")?;
    let text = (length <= most).then(|| r.take(length.into(), "text").ok());
    text.flatten().ok_or(WireError::NotRegistered(too_long))
}

/// Does the packet ask for a stream of the binary log? The connection ends with it, whatever comes of it.
pub fn asks_for_stream(payload: &[u8]) -> bool {
    matches!(payload.first(), Some(&(DUMP | DUMP_GTID)))
}

fn parse_dump(mut r: Reader<'_>) -> Result<Dump<'_>, WireError> {
    Ok(Dump {
        position: r.u32("position")?.into(),
        flags: r.u16("flags")?,
        server_id: r.u32("server id")?,
        file: until_nul(r.rest()),
        gtids: None,
    })
}

fn parse_dump_gtid(mut r: Reader<'_>) -> Result<Dump<'_>, WireError> {
    let (flags, server_id) = (r.u16("flags")?, r.u32("server id")?);
    let length = r.u32("length of the file's name")?;
    let file = until_nul(r.take(length as usize, "file")?);
    let position = r.u64("position")?;
    let length = r.u32("length of the GTIDs")?;
    Ok(Dump {
        flags,
        server_id,
        file,
        position,
        gtids: Some(r.take(length as usize, "GTIDs")?),
    })
}

/// Some clients end a name with a zero.
fn until_nul(name: &[u8]) -> &[u8] {
    name.split(|b| *b == 0).next().unwrap_or_default()
}

/// COM_QUERY's attributes, which stand before the text.
fn query_attributes(r: &mut Reader<'_>, capabilities: u32) -> Result<Vec<Attribute>, WireError> {
    if capabilities & cap::QUERY_ATTRIBUTES == 0 {
        return Ok(Vec::new());
    }
    let count = r.lenenc("attribute count")?;
    r.lenenc("attribute set count")?;
    if count == 0 {
        return Ok(Vec::new());
    }
    let count = usize::try_from(count).map_err(|_| WireError::Bad("attribute count"))?;
    attributes::read(r, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn commands_parse() {
        let plain = || Ok(Command::Query(b"select 1", Vec::new()));
        assert_eq!(parse(b"\x03select 1", 0), plain());
        assert_eq!(
            parse(b"\x03\x00\x01select 1", cap::QUERY_ATTRIBUTES),
            plain()
        );
        assert_eq!(parse(b"\x0e", 0), Ok(Command::Ping));
        assert_eq!(parse(b"\x13", 0), Ok(Command::Unknown(0x13)));
        assert_eq!(
            parse(b"\x17\x01\0\0\0\x01\x01\0\0\0xyz", 0),
            Ok(Command::StmtExecute(Execute {
                statement: 1,
                flags: 1,
                rest: b"xyz"
            }))
        );
        assert!(parse(b"", 0).is_err());
        assert!(parse(b"\x17\x01", 0).is_err());
    }

    #[test]
    fn query_attributes_stand_before_the_text() {
        // One attribute named "a" of type LONGLONG (8) with value 7.
        let mut p = vec![3, 1, 1, 0, 1, 8, 0, 1, b'a'];
        p.extend_from_slice(&7_u64.to_le_bytes());
        p.extend_from_slice(b"select 2");
        let seven = Attribute {
            name: b"a".to_vec(),
            value: Some(b"7".to_vec()),
        };
        assert_eq!(
            parse(&p, cap::QUERY_ATTRIBUTES),
            Ok(Command::Query(b"select 2", vec![seven]))
        );
    }

    #[test]
    fn requests_of_replicas_parse() {
        let register = b"\x15\x07\0\0\0\x02db\x01u\x01p\xea\x0c\0\0\0\0\0\0\0\0";
        let replica = RegisterReplica {
            server_id: 7,
            host: b"db",
            port: 3306,
        };
        assert_eq!(parse(register, 0), Ok(Command::RegisterReplica(replica)));
        let by_position = Dump {
            flags: dump::NON_BLOCK,
            server_id: 7,
            file: b"binlog.000001",
            position: 4,
            gtids: None,
        };
        let bytes = b"\x12\x04\0\0\0\x01\0\x07\0\0\0binlog.000001";
        assert_eq!(parse(bytes, 0), Ok(Command::Dump(by_position)));
        let by_gtids = Dump {
            file: b"",
            gtids: Some(b"set"),
            ..by_position
        };
        let bytes = b"\x1e\x01\0\x07\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x03\0\0\0set";
        assert_eq!(parse(bytes, 0), Ok(Command::Dump(by_gtids)));
        let acknowledged = parse_acknowledgement(b"\xef\x04\0\0\0\0\0\0\0binlog.000001");
        assert_eq!(acknowledged, Some((4, &b"binlog.000001"[..])));
        assert_eq!(parse_acknowledgement(b"\xef\x04"), None);
        for end in 1..bytes.len() {
            assert!(parse(&bytes[..end], 0).is_err(), "{end}");
        }
    }

    #[test]
    fn replicas_that_say_too_much_or_too_little_are_not_registered() {
        let refusal = |rest: &[u8]| {
            let packet = [&b"\x15\x07\0\0\0"[..], rest].concat();
            parse(&packet, 0).expect_err("not registered")
        };
        let long = |length: u8| [vec![length], vec![b'x'; length.into()]].concat();
        let end = [0; 10];
        let text = |what: &str| match refusal(what.as_bytes()) {
            WireError::NotRegistered(text) => text,
            other => panic!("{other}"),
        };
        assert_eq!(text("\0\0\0"), "Wrong parameters when registering replica");
        assert_eq!(
            text("\0\0\0\x01\0\0\0"),
            "Wrong parameters when registering replica"
        );
        // The packet ends in the middle of a text.
        assert_eq!(
            text("\x05h"),
            "Failed to register replica: too long 'report-host'"
        );
        assert!(matches!(refusal(b"\0\0"), WireError::Truncated(_)));
        let user = [&b"\0"[..], &long(MAX_USER + 1), b"\0", &end].concat();
        assert_eq!(
            refusal(&user),
            WireError::NotRegistered("Failed to register replica: too long 'report-user'")
        );
        let password = [&b"\0\0"[..], &long(MAX_PASSWORD + 1), &end].concat();
        assert_eq!(
            refusal(&password),
            WireError::NotRegistered("Failed to register replica; too long 'report-password'")
        );
        let longest = [
            &b"\x15\x07\0\0\0"[..],
            &long(MAX_HOST),
            &long(MAX_USER),
            &long(MAX_PASSWORD),
            &end,
        ];
        assert!(parse(&longest.concat(), 0).is_ok());
    }

    proptest! {
        #[test]
        fn random_packets_never_panic(p: Vec<u8>) {
            let _ = parse(&p, cap::QUERY_ATTRIBUTES);
            let _ = parse(&p, 0);
        }
    }
}
