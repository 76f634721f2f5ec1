//! The client's end of the protocol, as far as the built-in shell needs it.
//!
//! Neighbours: the `esker sql` shell owns the socket. Replication will add its commands here.
//! **Invariant**: answers are checked like any input from the network; nothing panics.

use crate::WireError;
use crate::auth::CHALLENGE;
use crate::codec::Reader;

/// What matters of the server's greeting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerGreeting {
    /// Version text.
    pub version: String,
    /// Connection id.
    pub connection_id: u32,
    /// Challenge for the first plugin.
    pub challenge: [u8; CHALLENGE],
    /// Capabilities offered.
    pub capabilities: u32,
    /// Plugin the server starts with.
    pub plugin: String,
}

/// An error packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// MySQL error number.
    pub code: u16,
    /// SQLSTATE.
    pub state: String,
    /// Text.
    pub message: String,
}

/// The meaning of the first packet of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// OK.
    Ok {
        /// Rows affected.
        affected_rows: u64,
        /// Generated id.
        last_insert_id: u64,
        /// Status bits.
        status: u16,
        /// Warnings.
        warnings: u16,
        /// Text.
        info: String,
    },
    /// ERR.
    Err(ServerError),
    /// A result set with this many columns follows.
    Columns(u64),
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Parses the greeting.
///
/// # Errors
/// Truncated packets and other protocol versions than 10; an ERR packet instead of a greeting is
/// reported as [`WireError::Bad`] by the caller, who checks for 0xff first.
pub fn parse_greeting(payload: &[u8]) -> Result<ServerGreeting, WireError> {
    let mut r = Reader::new(payload);
    if r.u8("protocol version")? != 10 {
        return Err(WireError::Bad("protocol version"));
    }
    let version = lossy(r.nul_bytes("version")?);
    let connection_id = r.u32("connection id")?;
    let mut challenge = [0; CHALLENGE];
    challenge[..8].copy_from_slice(r.take(8, "challenge")?);
    r.take(1, "filler")?;
    let low = r.u16("capabilities")?;
    r.take(3, "collation and status")?;
    let high = r.u16("capabilities")?;
    r.take(11, "filler")?;
    challenge[8..].copy_from_slice(r.take(12, "challenge")?);
    r.take(1, "filler")?;
    let plugin = r.nul_bytes("plugin").map_or_else(|_| String::new(), lossy);
    let capabilities = u32::from(low) | u32::from(high) << 16;
    Ok(ServerGreeting {
        version,
        connection_id,
        challenge,
        capabilities,
        plugin,
    })
}

/// Parses an ERR payload (after checking that it starts with 0xff).
///
/// # Errors
/// Truncated packets.
pub fn parse_err(payload: &[u8]) -> Result<ServerError, WireError> {
    let mut r = Reader::new(payload);
    r.take(1, "error marker")?;
    let code = r.u16("error number")?;
    let state = match r.rest().first() {
        Some(b'#') => lossy(&r.take(6, "SQLSTATE")?[1..]),
        _ => "HY000".into(),
    };
    Ok(ServerError {
        code,
        state,
        message: lossy(r.rest()),
    })
}

/// Parses the first packet of an answer to COM_QUERY, or an OK that ends rows.
///
/// # Errors
/// Truncated packets and LOCAL INFILE requests, which the shell does not serve.
pub fn parse_answer(payload: &[u8]) -> Result<Answer, WireError> {
    let mut r = Reader::new(payload);
    match payload.first() {
        Some(0xff) => parse_err(payload).map(Answer::Err),
        Some(0xfb) => Err(WireError::Bad("answer: LOCAL INFILE is not served")),
        Some(0 | 0xfe) => {
            r.take(1, "OK marker")?;
            let affected_rows = r.lenenc("affected rows")?;
            let last_insert_id = r.lenenc("last insert id")?;
            let status = r.u16("status")?;
            let warnings = r.u16("warnings")?;
            let info = match r.is_empty() {
                true => String::new(),
                false => lossy(r.lenenc_bytes("OK text")?),
            };
            Ok(Answer::Ok {
                affected_rows,
                last_insert_id,
                status,
                warnings,
                info,
            })
        }
        _ => Ok(Answer::Columns(r.lenenc("column count")?)),
    }
}

/// The alias and type code of a column definition packet.
///
/// # Errors
/// Truncated packets.
pub fn parse_column(payload: &[u8]) -> Result<(String, u8), WireError> {
    let mut r = Reader::new(payload);
    for _ in 0..4 {
        r.lenenc_bytes("column definition")?;
    }
    let name = lossy(r.lenenc_bytes("column name")?);
    r.lenenc_bytes("column definition")?;
    r.take(7, "column definition")?;
    Ok((name, r.u8("column type")?))
}

/// The cells of a text row; None is NULL.
///
/// # Errors
/// Truncated packets.
pub fn parse_text_row(payload: &[u8], columns: usize) -> Result<Vec<Option<&[u8]>>, WireError> {
    let mut r = Reader::new(payload);
    (0..columns)
        .map(|_| {
            if r.rest().first() == Some(&0xfb) {
                r.take(1, "cell")?;
                return Ok(None);
            }
            r.lenenc_bytes("cell").map(Some)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::cap;
    use crate::handshake::Greeting;

    #[test]
    fn greeting_round_trips() {
        let challenge = *b"abcdefghijklmnopqrst";
        let mut out = Vec::new();
        Greeting {
            version: "8.4.3-esker",
            connection_id: 77,
            challenge: &challenge,
            capabilities: cap::SERVER,
            collation: 255,
            status: 2,
            plugin: "caching_sha2_password",
        }
        .write(&mut out);
        let got = parse_greeting(&out).unwrap();
        assert_eq!(got.version, "8.4.3-esker");
        assert_eq!(got.connection_id, 77);
        assert_eq!(got.challenge, challenge);
        assert_eq!(got.capabilities, cap::SERVER);
        assert_eq!(got.plugin, "caching_sha2_password");
        for n in 0..out.len() - 30 {
            assert!(parse_greeting(&out[..n]).is_err());
        }
    }
}
