//! What a client asks: one command per packet.
//!
//! Neighbours: `server` dispatches; `params` decodes COM_STMT_EXECUTE's values, for which the
//! statement's parameter count must be known.
//! **Invariant**: an unknown command byte is [`Command::Unknown`] (error 1047), never an OK.

use crate::WireError;
use crate::codec::Reader;
use crate::constants::cap;

/// A parsed command, borrowing from the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// COM_QUIT.
    Quit,
    /// COM_INIT_DB with the schema's name.
    InitDb(&'a [u8]),
    /// COM_QUERY with its text.
    Query(&'a [u8]),
    /// COM_FIELD_LIST: table and column wildcard.
    FieldList(&'a [u8], &'a [u8]),
    /// COM_REFRESH: what to flush, as bits of [`refresh`].
    Refresh(u8),
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
    /// Anything else.
    Unknown(u8),
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
        0x01 => Command::Quit,
        0x02 => Command::InitDb(r.rest()),
        0x03 => Command::Query(query_text(r, capabilities)?),
        0x04 => Command::FieldList(r.nul_bytes("table name")?, r.rest()),
        0x07 => Command::Refresh(r.u8("what to flush")?),
        0x09 => Command::Statistics,
        0x0c => Command::ProcessKill(r.u32("connection id")?),
        0x0d => Command::Debug,
        0x0e => Command::Ping,
        0x11 => Command::ChangeUser(r.rest()),
        0x16 => Command::StmtPrepare(r.rest()),
        0x17 => Command::StmtExecute(parse_execute(r)?),
        0x18 => Command::StmtSendLongData(r.u32("statement id")?, r.u16("parameter")?, r.rest()),
        0x19 => Command::StmtClose(r.u32("statement id")?),
        0x1a => Command::StmtReset(r.u32("statement id")?),
        0x1b => Command::SetOption(r.u16("option")?),
        0x1c => Command::StmtFetch(r.u32("statement id")?, r.u32("row count")?),
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

/// Skips COM_QUERY's query attributes.
fn query_text(mut r: Reader<'_>, capabilities: u32) -> Result<&[u8], WireError> {
    if capabilities & cap::QUERY_ATTRIBUTES == 0 {
        return Ok(r.rest());
    }
    let count = r.lenenc("attribute count")?;
    r.lenenc("attribute set count")?;
    if count > 0 {
        let count = usize::try_from(count).map_err(|_| WireError::Bad("attribute count"))?;
        crate::params::skip(&mut r, count)?;
    }
    Ok(r.rest())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn commands_parse() {
        assert_eq!(parse(b"\x03select 1", 0), Ok(Command::Query(b"select 1")));
        assert_eq!(
            parse(b"\x03\x00\x01select 1", cap::QUERY_ATTRIBUTES),
            Ok(Command::Query(b"select 1"))
        );
        assert_eq!(parse(b"\x0e", 0), Ok(Command::Ping));
        assert_eq!(parse(b"\x12", 0), Ok(Command::Unknown(0x12)));
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
    fn query_attributes_are_skipped() {
        // One attribute named "a" of type LONGLONG (8) with value 7.
        let mut p = vec![3, 1, 1, 0, 1, 8, 0, 1, b'a'];
        p.extend_from_slice(&7_u64.to_le_bytes());
        p.extend_from_slice(b"select 2");
        assert_eq!(
            parse(&p, cap::QUERY_ATTRIBUTES),
            Ok(Command::Query(b"select 2"))
        );
    }

    proptest! {
        #[test]
        fn random_packets_never_panic(p: Vec<u8>) {
            let _ = parse(&p, cap::QUERY_ATTRIBUTES);
            let _ = parse(&p, 0);
        }
    }
}
