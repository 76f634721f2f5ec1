//! The first packets of a connection: greeting, SSL request, handshake response, auth switch.
//!
//! Neighbours: `server` sends the greeting and reads the response; `client` does the reverse;
//! `auth` checks the proofs.
//! **Invariants**: the greeting announces protocol 10 and a 20 byte challenge; a response without
//! `PROTOCOL_41` is refused.

use crate::WireError;
use crate::auth::CHALLENGE;
use crate::codec::{Reader, put_lenenc_bytes};
use crate::constants::cap;

/// Most connection attributes bytes accepted (MySQL: 64 KiB).
pub const MAX_ATTRIBUTES: usize = 64 * 1024;

/// What the server says first.
#[derive(Debug, Clone)]
pub struct Greeting<'a> {
    /// Version text.
    pub version: &'a str,
    /// Connection id (its low 32 bits go over the wire).
    pub connection_id: u64,
    /// Challenge.
    pub challenge: &'a [u8; CHALLENGE],
    /// Capabilities.
    pub capabilities: u32,
    /// Default collation id.
    pub collation: u8,
    /// Status bits.
    pub status: u16,
    /// Default authentication plugin.
    pub plugin: &'a str,
}

impl Greeting<'_> {
    /// Appends the packet's payload.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(10);
        out.extend_from_slice(self.version.as_bytes());
        out.push(0);
        out.extend_from_slice(&(self.connection_id as u32).to_le_bytes());
        out.extend_from_slice(&self.challenge[..8]);
        out.push(0);
        out.extend_from_slice(&(self.capabilities as u16).to_le_bytes());
        out.push(self.collation);
        out.extend_from_slice(&self.status.to_le_bytes());
        out.extend_from_slice(&((self.capabilities >> 16) as u16).to_le_bytes());
        out.push(CHALLENGE as u8 + 1);
        out.extend_from_slice(&[0; 10]);
        out.extend_from_slice(&self.challenge[8..]);
        out.push(0);
        out.extend_from_slice(self.plugin.as_bytes());
        out.push(0);
    }
}

/// A client's answer to the greeting (also the body of COM_CHANGE_USER in part).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// Capabilities the client wants, already cut to what it may have.
    pub capabilities: u32,
    /// Largest packet the client takes.
    pub max_packet: u32,
    /// Collation id of the connection.
    pub collation: u16,
    /// User name.
    pub user: String,
    /// Proof for the plugin named.
    pub auth: Vec<u8>,
    /// Initial database.
    pub database: Option<String>,
    /// Plugin that made `auth`.
    pub plugin: Option<String>,
    /// Connection attributes.
    pub attributes: Vec<(String, String)>,
    /// Level of zstd that the client wishes.
    pub zstd_level: u8,
}

fn text(bytes: &[u8], what: &'static str) -> Result<String, WireError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| WireError::Bad(what))
}

/// Is this payload an SSL request (the response's first 32 bytes with `SSL` set)?
pub fn is_ssl_request(payload: &[u8]) -> bool {
    payload.len() == 32
        && payload
            .first_chunk::<4>()
            .is_some_and(|c| u32::from_le_bytes(*c) & (cap::SSL | cap::PROTOCOL_41) > cap::SSL)
}

/// Parses the handshake response.
///
/// # Errors
/// Truncated or malformed packets, and clients older than the 4.1 protocol.
pub fn parse_response(payload: &[u8], server: u32) -> Result<Response, WireError> {
    let mut r = Reader::new(payload);
    let capabilities = r.u32("capabilities")?;
    if capabilities & cap::PROTOCOL_41 == 0 {
        return Err(WireError::Bad("client: protocol 4.1 is required"));
    }
    let mut response = Response {
        capabilities: capabilities & server,
        max_packet: r.u32("max packet size")?,
        collation: u16::from(r.u8("collation")?),
        ..Response::default()
    };
    r.take(23, "filler")?;
    response.user = text(r.nul_bytes("user name")?, "user name")?;
    response.auth = read_auth(&mut r, capabilities)?;
    read_tail(&mut r, capabilities, &mut response)?;
    Ok(response)
}

fn read_auth(r: &mut Reader<'_>, capabilities: u32) -> Result<Vec<u8>, WireError> {
    let auth = if capabilities & cap::PLUGIN_AUTH_LENENC != 0 {
        r.lenenc_bytes("authentication data")?
    } else if capabilities & cap::SECURE_CONNECTION != 0 {
        let n = r.u8("authentication data")?;
        r.take(usize::from(n), "authentication data")?
    } else {
        r.nul_bytes("authentication data")?
    };
    Ok(auth.to_vec())
}

fn read_tail(r: &mut Reader<'_>, capabilities: u32, to: &mut Response) -> Result<(), WireError> {
    if capabilities & cap::CONNECT_WITH_DB != 0 && !r.is_empty() {
        let db = text(r.nul_bytes("database")?, "database")?;
        to.database = (!db.is_empty()).then_some(db);
    }
    if capabilities & cap::PLUGIN_AUTH != 0 && !r.is_empty() {
        // Some clients leave the final NUL out.
        let name = match r.nul_bytes("plugin") {
            Ok(name) => name,
            Err(_) => r.take(r.rest().len(), "plugin")?,
        };
        to.plugin = Some(text(name, "plugin")?);
    }
    if capabilities & cap::CONNECT_ATTRS != 0 && !r.is_empty() {
        to.attributes = read_attributes(r)?;
    }
    if capabilities & cap::ZSTD_COMPRESSION != 0 && !r.is_empty() {
        to.zstd_level = r.u8("compression level")?;
    }
    Ok(())
}

fn read_attributes(r: &mut Reader<'_>) -> Result<Vec<(String, String)>, WireError> {
    let bytes = r.lenenc_bytes("connection attributes")?;
    if bytes.len() > MAX_ATTRIBUTES {
        return Err(WireError::TooLarge {
            got: bytes.len(),
            limit: MAX_ATTRIBUTES,
            seq: None,
        });
    }
    let mut r = Reader::new(bytes);
    let mut out = Vec::new();
    while !r.is_empty() {
        let key = String::from_utf8_lossy(r.lenenc_bytes("attribute")?).into_owned();
        let value = String::from_utf8_lossy(r.lenenc_bytes("attribute")?).into_owned();
        out.push((key, value));
    }
    Ok(out)
}

/// Parses COM_CHANGE_USER's payload after the command byte.
///
/// # Errors
/// Truncated or malformed packets.
pub fn parse_change_user(payload: &[u8], capabilities: u32) -> Result<Response, WireError> {
    let mut r = Reader::new(payload);
    let mut response = Response {
        capabilities,
        ..Response::default()
    };
    response.user = text(r.nul_bytes("user name")?, "user name")?;
    let n = r.u8("authentication data")?;
    response.auth = r.take(usize::from(n), "authentication data")?.to_vec();
    let db = text(r.nul_bytes("database")?, "database")?;
    response.database = (!db.is_empty()).then_some(db);
    if !r.is_empty() {
        response.collation = r.u16("collation")?;
    }
    read_tail(&mut r, capabilities & !cap::CONNECT_WITH_DB, &mut response)?;
    Ok(response)
}

/// Appends the payload of the request for TLS: the beginning of a response.
pub fn write_ssl_request(capabilities: u32, max_packet: u32, collation: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&capabilities.to_le_bytes());
    out.extend_from_slice(&max_packet.to_le_bytes());
    out.push(collation as u8);
    out.extend_from_slice(&[0; 23]);
}

/// Writes the client's side: a handshake response.
pub fn write_response(response: &Response, out: &mut Vec<u8>) {
    let r = response;
    write_ssl_request(r.capabilities, r.max_packet, r.collation, out);
    out.extend_from_slice(response.user.as_bytes());
    out.push(0);
    put_lenenc_bytes(out, &response.auth);
    if let Some(db) = &response.database {
        out.extend_from_slice(db.as_bytes());
        out.push(0);
    }
    if let Some(plugin) = &response.plugin {
        out.extend_from_slice(plugin.as_bytes());
        out.push(0);
    }
}

/// Appends an auth switch request's payload.
pub fn write_auth_switch(plugin: &str, challenge: &[u8; CHALLENGE], out: &mut Vec<u8>) {
    out.push(0xfe);
    out.extend_from_slice(plugin.as_bytes());
    out.push(0);
    out.extend_from_slice(challenge);
    out.push(0);
}

/// Appends an auth-more-data payload.
pub fn write_auth_more(data: &[u8], out: &mut Vec<u8>) {
    out.push(1);
    out.extend_from_slice(data);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Response {
        Response {
            capabilities: cap::PROTOCOL_41
                | cap::SECURE_CONNECTION
                | cap::PLUGIN_AUTH
                | cap::PLUGIN_AUTH_LENENC
                | cap::CONNECT_WITH_DB,
            max_packet: 1 << 24,
            collation: 45,
            user: "root".into(),
            auth: vec![1, 2, 3],
            database: Some("d".into()),
            plugin: Some("mysql_native_password".into()),
            attributes: Vec::new(),
            zstd_level: 0,
        }
    }

    #[test]
    fn response_round_trips() {
        let mut out = Vec::new();
        write_response(&sample(), &mut out);
        assert_eq!(parse_response(&out, cap::SERVER).unwrap(), sample());
    }

    #[test]
    fn every_truncation_is_an_error_or_shorter() {
        let mut out = Vec::new();
        write_response(&sample(), &mut out);
        // The final NUL may be missing.
        for n in 0..out.len() - 1 {
            // Never a panic; a cut in the optional tail may still parse.
            if let Ok(r) = parse_response(&out[..n], cap::SERVER) {
                assert_ne!(r, sample(), "cut at {n}");
            }
        }
    }

    #[test]
    fn old_clients_are_refused() {
        assert!(parse_response(&[0; 64], cap::SERVER).is_err());
    }

    #[test]
    fn ssl_request_is_recognised() {
        let mut p = vec![0; 32];
        p[..4].copy_from_slice(&(cap::SSL | cap::PROTOCOL_41).to_le_bytes());
        assert!(is_ssl_request(&p));
        p[..4].copy_from_slice(&cap::PROTOCOL_41.to_le_bytes());
        assert!(!is_ssl_request(&p));
    }
}
