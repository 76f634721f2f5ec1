//! A small blocking client, for the built-in shell and for replicas.
//!
//! Neighbours: `esker_wire::client` knows the packets, [`transport`] is the stream; the shell prints what comes back.
//! **Invariants**: a password leaves only as a proof, over TLS or a Unix socket, or encrypted with the server's RSA
//! key; answers are checked like any input from the network.

mod transport;

pub use transport::{Endpoint, TlsMode};

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OaepPublicEncryptingKey, PublicEncryptingKey};
use esker_vfs::Env;
use esker_wire::auth::{CACHING_SHA2, CHALLENGE, NATIVE, native_response, sha2_response};
use esker_wire::client::{Answer, ServerError, parse_answer, parse_column, parse_err};
use esker_wire::client::{ServerGreeting, parse_greeting, parse_text_row};
use esker_wire::compress::{Algorithm, Compressor};
use esker_wire::constants::{cap, status};
use esker_wire::frame::{FrameReader, FrameWriter};
use esker_wire::handshake::{Response, write_response, write_ssl_request};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use thiserror::Error;

use crate::tls;
use transport::Transport;

/// Largest answer packet taken, bytes.
const MAX_ANSWER: usize = 1 << 30;
/// Largest packet announced to the server, bytes.
const MAX_PACKET: u32 = 1 << 26;
/// utf8mb4_general_ci, which every server knows.
const COLLATION: u16 = 45;

/// MySQL's text.
const INSECURE: &str = "Authentication requires secure connection.";
/// MySQL's text.
const NOT_OFFERED: &str = "SSL is required but the server doesn't support it";

/// What can go wrong.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The connection.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Nobody answers there.
    #[error("cannot connect to {0}: {1}")]
    Connect(Endpoint, io::Error),
    /// What came is not the protocol.
    #[error("{0}")]
    Wire(#[from] esker_wire::WireError),
    /// The server's error.
    #[error("ERROR {} ({}): {}", .0.code, .0.state, .0.message)]
    Server(ServerError),
    /// A login method this client does not have.
    #[error("the server asks for the authentication method {0}, which this shell does not have")]
    Method(String),
    /// No encrypted connection; with MySQL's words.
    #[error("SSL connection error: {0}")]
    Tls(String),
    /// The password cannot leave.
    #[error("Authentication plugin 'caching_sha2_password' reported error: {0}")]
    Insecure(String),
    /// No compressed connection.
    #[error("the server has none of the compression algorithms that the client takes")]
    Compression,
}

/// How to connect and as whom.
#[derive(Debug, Clone)]
pub struct Connect {
    /// Where the server is.
    pub endpoint: Endpoint,
    /// Account.
    pub user: String,
    /// Its password.
    pub password: String,
    /// Database to use.
    pub database: Option<String>,
    /// Encryption.
    pub tls: TlsMode,
    /// File of the certificate authorities, for the modes that check.
    pub authorities: Option<PathBuf>,
    /// Files of the client's own certificate and its key, for servers that ask for it.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// What of TLS may be used, and which certificates of servers are void.
    pub tls_limits: TlsLimits,
    /// File of the key that encrypts the password where the connection is not encrypted.
    pub public_key: Option<PathBuf>,
    /// Where the connection is not encrypted and there is no such file, the server may be asked for the key that
    /// encrypts the password.
    pub asks_public_key: bool,
    /// The address of this machine that the connection comes from; `None`: any.
    pub own_address: Option<String>,
    /// How the connection may be compressed.
    pub compressions: Compressions,
}

/// What a client takes of TLS; empty lists, and none of suites: everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsLimits {
    /// Versions, with commas.
    pub versions: String,
    /// Suites of TLS 1.2, with colons.
    pub ciphers: String,
    /// Suites of TLS 1.3, with colons.
    pub suites: Option<String>,
    /// Folder of certificate authorities, beside their file.
    pub authorities_folder: Option<PathBuf>,
    /// File of certificates that are void, though an authority has signed them.
    pub revoked: Option<PathBuf>,
    /// Folder of more of them.
    pub revoked_folder: Option<PathBuf>,
}

/// Which compressions a client takes; zstd with a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compressions {
    /// zlib.
    pub zlib: bool,
    /// zstd, with this level.
    pub zstd: Option<u8>,
    /// There must be one.
    pub is_required: bool,
}

impl Compressions {
    /// The first that the server has as well; of two, zlib, as servers choose.
    fn agreed(self, capabilities: u32) -> Option<Algorithm> {
        let has = |bit| capabilities & bit != 0;
        let zstd = self.zstd.filter(|_| has(cap::ZSTD_COMPRESSION));
        match self.zlib && has(cap::COMPRESS) {
            true => Some(Algorithm::Zlib),
            false => zstd.map(Algorithm::Zstd),
        }
    }
}

/// One result of a query.
#[derive(Debug, Clone)]
pub enum QueryResult {
    /// No rows: rows affected, warnings, text.
    Done(u64, u16, String),
    /// Rows.
    Rows {
        /// Column names and `MYSQL_TYPE_*` codes.
        columns: Vec<(String, u8)>,
        /// Cells; None is NULL.
        rows: Vec<Vec<Option<Vec<u8>>>>,
        /// Warnings.
        warnings: u16,
    },
}

/// A connection.
pub struct Client {
    stream: Transport,
    reader: FrameReader,
    frames: FrameWriter,
    /// After the login, if it was agreed on.
    compressor: Option<Compressor>,
    /// Version text of the server.
    pub server_version: String,
    /// The connection's id, for KILL.
    pub connection_id: u32,
    /// Is the connection encrypted?
    pub is_encrypted: bool,
}

impl Client {
    /// Connects over TCP without encryption, and logs in.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn connect(
        host: &str,
        port: u16,
        user: &str,
        password: &str,
        database: Option<&str>,
    ) -> Result<Self, ClientError> {
        Self::open(&Connect {
            endpoint: Endpoint::Tcp(host.to_owned(), port),
            user: user.to_owned(),
            password: password.to_owned(),
            database: database.map(str::to_owned),
            tls: TlsMode::Disabled,
            authorities: None,
            identity: None,
            tls_limits: TlsLimits::default(),
            public_key: None,
            asks_public_key: true,
            own_address: None,
            compressions: Compressions::default(),
        })
    }

    /// Logs in over a socket that is open.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub(crate) fn over(
        stream: UnixStream,
        user: &str,
        password: &str,
    ) -> Result<Self, ClientError> {
        let target = Connect {
            endpoint: Endpoint::Socket(PathBuf::new()),
            user: user.to_owned(),
            password: password.to_owned(),
            database: None,
            tls: TlsMode::Disabled,
            authorities: None,
            identity: None,
            tls_limits: TlsLimits::default(),
            public_key: None,
            asks_public_key: true,
            own_address: None,
            compressions: Compressions::default(),
        };
        Self::greet(Transport::Socket(stream), &target)
    }

    /// Connects and logs in over TCP; nothing is waited for longer than `patience`. `on_open` gets the stream as soon
    /// as there is one, to end it from outside.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub(crate) fn open_within(
        target: &Connect,
        patience: Duration,
        on_open: &dyn Fn(TcpStream),
    ) -> Result<Self, ClientError> {
        let stream =
            Transport::open_within(&target.endpoint, target.own_address.as_deref(), patience)?;
        on_open(stream.try_clone()?);
        Self::greet(Transport::Tcp(stream), target)
    }

    /// Connects and logs in.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn open(target: &Connect) -> Result<Self, ClientError> {
        let stream = Transport::open(&target.endpoint);
        let stream = stream.map_err(|e| ClientError::Connect(target.endpoint.clone(), e))?;
        Self::greet(stream, target)
    }

    fn greet(stream: Transport, target: &Connect) -> Result<Self, ClientError> {
        let mut client = Self {
            stream,
            reader: FrameReader::default(),
            frames: FrameWriter::default(),
            compressor: None,
            server_version: String::new(),
            connection_id: 0,
            is_encrypted: false,
        };
        let packet = client.read()?;
        if packet.first() == Some(&0xff) {
            return Err(ClientError::Server(parse_err(&packet)?));
        }
        let greeting = parse_greeting(&packet)?;
        let mut wanted = cap::LONG_PASSWORD
            | cap::PROTOCOL_41
            | cap::SECURE_CONNECTION
            | cap::PLUGIN_AUTH
            | cap::PLUGIN_AUTH_LENENC
            | cap::EXPIRED_PASSWORDS
            | cap::MULTI_STATEMENTS
            | cap::MULTI_RESULTS
            | cap::TRANSACTIONS
            | cap::DEPRECATE_EOF;
        if target.database.is_some() {
            wanted |= cap::CONNECT_WITH_DB;
        }
        let algorithm = target.compressions.agreed(greeting.capabilities);
        wanted |= match algorithm {
            Some(Algorithm::Zlib) => cap::COMPRESS,
            Some(Algorithm::Zstd(_)) => cap::ZSTD_COMPRESSION,
            None if target.compressions.is_required => return Err(ClientError::Compression),
            None => 0,
        };
        if client.encrypt(target, &greeting, wanted)? {
            wanted |= cap::SSL;
        }
        client.login(&greeting, target, wanted)?;
        if let Some(algorithm) = algorithm {
            client.compressor = Some(Compressor::new(algorithm));
            client.reader.ignore_order();
        }
        client.server_version = greeting.version;
        client.connection_id = greeting.connection_id;
        Ok(client)
    }

    /// Goes on with TLS, if the mode wants it and the server can. Says whether it did.
    fn encrypt(
        &mut self,
        target: &Connect,
        greeting: &ServerGreeting,
        wanted: u32,
    ) -> Result<bool, ClientError> {
        let Endpoint::Tcp(host, _) = &target.endpoint else {
            return Ok(false);
        };
        match target.tls {
            TlsMode::Disabled => return Ok(false),
            TlsMode::Preferred if greeting.capabilities & cap::SSL == 0 => return Ok(false),
            _ if greeting.capabilities & cap::SSL == 0 => {
                return Err(ClientError::Tls(NOT_OFFERED.to_owned()));
            }
            _ => (),
        }
        write_ssl_request(
            wanted | cap::SSL,
            MAX_PACKET,
            COLLATION,
            self.frames.begin(),
        );
        self.send()?;
        self.stream = self.stream.encrypt(host, target)?;
        self.is_encrypted = true;
        Ok(true)
    }

    fn login(
        &mut self,
        greeting: &ServerGreeting,
        target: &Connect,
        capabilities: u32,
    ) -> Result<(), ClientError> {
        let mut method = greeting.plugin.clone();
        let mut challenge = greeting.challenge;
        let password = target.password.as_str();
        let response = Response {
            capabilities,
            max_packet: MAX_PACKET,
            collation: COLLATION,
            user: target.user.clone(),
            auth: proof(&method, password, &challenge)?,
            database: target.database.clone(),
            plugin: Some(method.clone()),
            attributes: Vec::new(),
            zstd_level: target.compressions.zstd.unwrap_or(0),
        };
        write_response(&response, self.frames.begin());
        self.send()?;
        loop {
            let packet = self.read()?;
            match packet.first() {
                Some(0xfe) => {
                    let rest = &packet[1..];
                    let end = rest.iter().position(|b| *b == 0).unwrap_or(rest.len());
                    method = String::from_utf8_lossy(&rest[..end]).into_owned();
                    let data = rest.get(end + 1..).unwrap_or_default();
                    challenge = *data
                        .first_chunk::<CHALLENGE>()
                        .ok_or(esker_wire::WireError::Truncated("challenge"))?;
                    let proof = proof(&method, password, &challenge)?;
                    self.frames.begin().extend_from_slice(&proof);
                    self.send()?;
                }
                Some(1) if packet.get(1) == Some(&4) => {
                    self.full_login(target, &challenge)?;
                }
                Some(1) => (),
                Some(0xff) => return Err(ClientError::Server(parse_err(&packet)?)),
                _ => return Ok(()),
            }
        }
    }

    /// Sends the password itself: as it is where nobody can listen, else encrypted with the server's public key.
    fn full_login(&mut self, target: &Connect, challenge: &[u8]) -> Result<(), ClientError> {
        let password = &target.password;
        if self.stream.is_private() {
            let out = self.frames.begin();
            out.extend_from_slice(password.as_bytes());
            out.push(0);
            return self.send();
        }
        let pem = match &target.public_key {
            Some(path) => tls::read(&Env::os(), path)
                .map_err(|e| ClientError::Insecure(format!("{}: {e}", path.display())))?,
            None if !target.asks_public_key => {
                return Err(ClientError::Insecure(INSECURE.to_owned()));
            }
            None => {
                self.frames.begin().push(2);
                self.send()?;
                self.read()?.get(1..).unwrap_or_default().to_vec()
            }
        };
        let bad = || ClientError::Wire(esker_wire::WireError::Bad("public key"));
        let der = SubjectPublicKeyInfoDer::from_pem_slice(&pem).map_err(|_| bad())?;
        let key = PublicEncryptingKey::from_der(&der).map_err(|_| bad())?;
        let key = OaepPublicEncryptingKey::new(key).map_err(|_| bad())?;
        let clear: Vec<u8> = password
            .bytes()
            .chain([0])
            .zip(challenge.iter().cycle())
            .map(|(a, b)| a ^ b)
            .collect();
        let mut out = vec![0; key.ciphertext_size()];
        let cipher = key
            .encrypt(&OAEP_SHA1_MGF1SHA1, &clear, &mut out, None)
            .map_err(|_| bad())?;
        self.frames.begin().extend_from_slice(cipher);
        self.send()
    }

    fn send(&mut self) -> Result<(), ClientError> {
        self.frames.end();
        match &mut self.compressor {
            None => self.stream.write_all(self.frames.bytes())?,
            Some(compressor) => {
                let packed = compressor.pack(self.frames.bytes());
                self.stream.write_all(packed)?;
            }
        }
        self.frames.clear(1 << 16);
        Ok(())
    }

    fn read(&mut self) -> Result<Vec<u8>, ClientError> {
        loop {
            if let Some(packet) = self.received()? {
                return Ok(packet);
            }
            self.receive()?;
        }
    }

    /// The next packet, if all of it has come.
    pub(crate) fn received(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        let expected = self.frames.seq();
        let Some((payload, seq)) = self.reader.next(expected, MAX_ANSWER)? else {
            return Ok(None);
        };
        let payload = payload.to_vec();
        self.frames.set_seq(seq);
        Ok(Some(payload))
    }

    /// Packets have any numbers from now on: those of acknowledgements begin anew in between.
    pub(crate) fn take_any_order(&mut self) {
        self.reader.ignore_order();
        if let Some(compressor) = &mut self.compressor {
            compressor.ignore_order();
        }
    }

    /// Waits for more bytes.
    pub(crate) fn receive(&mut self) -> Result<(), ClientError> {
        let mut chunk = [0; 16 * 1024];
        if let Some(compressor) = &mut self.compressor
            && compressor.unpack(self.reader.buffer())?
        {
            return Ok(());
        }
        let n = self.stream.read(&mut chunk)?;
        if n == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        match &mut self.compressor {
            None => self.reader.buffer().extend_from_slice(&chunk[..n]),
            Some(compressor) => {
                compressor.buffer().extend_from_slice(&chunk[..n]);
                compressor.unpack(self.reader.buffer())?;
            }
        }
        Ok(())
    }

    /// Sends a command; its answer is up to the caller.
    pub(crate) fn command(&mut self, payload: &[u8]) -> Result<(), ClientError> {
        self.begin_command();
        self.frames.begin().extend_from_slice(payload);
        self.send()
    }

    /// Packets are numbered anew, and compressed ones as well.
    fn begin_command(&mut self) {
        self.frames.set_seq(0);
        if let Some(compressor) = &mut self.compressor {
            compressor.restart();
        }
    }

    /// Sends a command that is answered with OK.
    pub(crate) fn acknowledged(&mut self, payload: &[u8]) -> Result<(), ClientError> {
        self.command(payload)?;
        match parse_answer(&self.read()?)? {
            Answer::Err(e) => Err(ClientError::Server(e)),
            _ => Ok(()),
        }
    }

    /// The first cell of the first row of a query; `None`: no row, or NULL.
    pub(crate) fn value(&mut self, sql: &str) -> Result<Option<String>, ClientError> {
        let mut found = None;
        self.query(sql, &mut |result| {
            if let QueryResult::Rows { mut rows, .. } = result {
                found = (!rows.is_empty())
                    .then(|| rows.swap_remove(0))
                    .and_then(|row| row.into_iter().next()?);
            }
        })?;
        Ok(found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Runs one or more statements; stops at the first error.
    ///
    /// # Errors
    /// The server's error or a broken connection. `on_result` has seen what came before.
    pub fn query(
        &mut self,
        sql: &(impl AsRef<[u8]> + ?Sized),
        on_result: &mut dyn FnMut(QueryResult),
    ) -> Result<(), ClientError> {
        self.begin_command();
        let out = self.frames.begin();
        out.push(3);
        out.extend_from_slice(sql.as_ref());
        self.send()?;
        loop {
            let packet = self.read()?;
            let more = match parse_answer(&packet)? {
                Answer::Err(e) => return Err(ClientError::Server(e)),
                Answer::Ok {
                    affected_rows,
                    status,
                    warnings,
                    info,
                    ..
                } => {
                    on_result(QueryResult::Done(affected_rows, warnings, info));
                    status & status::MORE_RESULTS != 0
                }
                Answer::Columns(count) => {
                    let (result, more) = self.rows(count)?;
                    on_result(result);
                    more
                }
            };
            if !more {
                return Ok(());
            }
        }
    }

    fn rows(&mut self, count: u64) -> Result<(QueryResult, bool), ClientError> {
        let count =
            usize::try_from(count).map_err(|_| esker_wire::WireError::Bad("column count"))?;
        let mut columns = Vec::new();
        for _ in 0..count {
            columns.push(parse_column(&self.read()?)?);
        }
        let mut rows = Vec::new();
        loop {
            let packet = self.read()?;
            match packet.first() {
                Some(0xff) => return Err(ClientError::Server(parse_err(&packet)?)),
                Some(0xfe) if packet.len() < 0xff_ffff => {
                    let Answer::Ok {
                        status, warnings, ..
                    } = parse_answer(&packet)?
                    else {
                        return Err(esker_wire::WireError::Bad("end of rows").into());
                    };
                    let more = status & status::MORE_RESULTS != 0;
                    return Ok((
                        QueryResult::Rows {
                            columns,
                            rows,
                            warnings,
                        },
                        more,
                    ));
                }
                _ => {
                    let row = parse_text_row(&packet, count)?;
                    rows.push(row.into_iter().map(|c| c.map(<[u8]>::to_vec)).collect());
                }
            }
        }
    }
}

fn proof(method: &str, password: &str, challenge: &[u8]) -> Result<Vec<u8>, ClientError> {
    match method {
        NATIVE => Ok(native_response(password.as_bytes(), challenge)),
        CACHING_SHA2 => Ok(sha2_response(password.as_bytes(), challenge)),
        other => Err(ClientError::Method(other.to_owned())),
    }
}
