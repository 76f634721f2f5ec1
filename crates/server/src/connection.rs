//! One client, from greeting to goodbye.
//!
//! Neighbours: `login` authenticates, `dispatch` runs commands, `reply` writes answers.
//! **Invariants**: before login a client may send [`LOGIN_PACKET_LIMIT`] bytes per packet within
//! [`LOGIN_TIMEOUT`]; after it `max_allowed_packet` bounds a command; buffers shrink to
//! [`IDLE_BUFFER`] between commands, so an idle connection is cheap.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use esker_sql::accounts::Account;
use esker_sql::{ClientInfo, Session};
use esker_types::SqlError;
use esker_types::collation::Collation;
use esker_wire::auth::{CACHING_SHA2, CHALLENGE, challenge};
use esker_wire::constants::{cap, status};
use esker_wire::frame::{FrameReader, FrameWriter, HEADER};
use esker_wire::handshake::{self, Greeting, Response};
use esker_wire::response::{OkPacket, write_err};
use esker_wire::{WireError, command};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::dispatch::{self, Next};
use crate::listener::Shared;
use crate::login::{Proof, authenticate};
use crate::parameters::Parameters;
use crate::stream::Stream;

/// Longest packet before login.
const LOGIN_PACKET_LIMIT: usize = 64 * 1024;
/// Longest login (MySQL's `connect_timeout`).
const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Capacity a buffer keeps between commands.
pub(crate) const IDLE_BUFFER: usize = 16 * 1024;
/// Least free space offered to one read.
const READ_CHUNK: usize = 4 * 1024;

/// The connection is over: closed, timed out, killed or broken.
#[derive(Debug)]
pub(crate) struct Gone;

impl From<std::io::Error> for Gone {
    fn from(_: std::io::Error) -> Self {
        Gone
    }
}

/// Socket and packet state of one client.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) frames: FrameWriter,
    reader: FrameReader,
    pub(crate) capabilities: u32,
    parameters: Parameters,
    shared: Arc<Shared>,
}

impl Connection {
    /// A challenge never used before.
    pub(crate) fn fresh_challenge(&self) -> [u8; CHALLENGE] {
        let mut random = [0; CHALLENGE];
        self.shared.instance.fill_random(&mut random);
        challenge(random)
    }

    /// Sends everything written so far.
    pub(crate) async fn flush(&mut self) -> Result<(), Gone> {
        self.stream.write_all(self.frames.bytes()).await?;
        // TLS buffers records; TCP has nothing to flush.
        if self.stream.is_tls() {
            self.stream.flush().await?;
        }
        self.frames.clear(IDLE_BUFFER);
        Ok(())
    }

    /// Writes an error packet (not yet sent).
    pub(crate) fn put_error(&mut self, error: &SqlError) {
        write_err(error, self.frames.begin());
        self.frames.end();
    }

    /// Writes an OK packet (not yet sent).
    pub(crate) fn put_ok(&mut self, ok: &OkPacket<'_>) {
        let capabilities = self.capabilities;
        ok.write(capabilities, false, self.frames.begin());
        self.frames.end();
    }

    async fn receive(&mut self) -> Result<(), Gone> {
        let buffer = self.reader.buffer();
        buffer.reserve(READ_CHUNK);
        if self.stream.read_buf(buffer).await? == 0 {
            return Err(Gone);
        }
        Ok(())
    }

    /// Reads no further than the end of the packet that has begun: what follows a request for TLS
    /// belongs to TLS, and a client need not wait before it sends it.
    async fn receive_login_bytes(&mut self) -> Result<(), Gone> {
        let buffer = self.reader.buffer();
        let end = match buffer.first_chunk() {
            None => HEADER,
            Some(&[low, middle, high, _]) => {
                HEADER + u32::from_le_bytes([low, middle, high, 0]) as usize
            }
        };
        let missing = end.saturating_sub(buffer.len());
        let mut bounded = (&mut self.stream).take(missing as u64);
        if bounded.read_buf(buffer).await? == 0 {
            return Err(Gone);
        }
        Ok(())
    }

    /// A packet of the login exchange, in sequence.
    pub(crate) async fn read_login_packet(&mut self) -> Result<Vec<u8>, Gone> {
        loop {
            let expected = self.frames.seq();
            match self.reader.next(expected, LOGIN_PACKET_LIMIT) {
                Ok(Some((payload, seq))) => {
                    let payload = payload.to_vec();
                    self.frames.set_seq(seq);
                    return Ok(payload);
                }
                Ok(None) => self.receive_login_bytes().await?,
                Err(e) => return self.protocol_error(&e).await,
            }
        }
    }

    async fn protocol_error<T>(&mut self, e: &WireError) -> Result<T, Gone> {
        let error = match e {
            WireError::TooLarge { .. } => SqlError::new(
                1153,
                "08S01",
                "Got a packet bigger than 'max_allowed_packet' bytes",
            ),
            WireError::OutOfOrder { .. } => {
                SqlError::new(1156, "08S01", "Got packets out of order")
            }
            _ => SqlError::new(1835, "HY000", "Malformed communication packet"),
        };
        self.put_error(&error);
        self.flush().await?;
        Err(Gone)
    }

    /// Waits for one command and hands its payload to `run`, which is called with the payload
    /// borrowed from the read buffer.
    async fn command(&mut self, session: &mut Session, idle: Duration) -> Result<Next, Gone> {
        let limit = session.max_allowed_packet();
        loop {
            match self.reader.next(0, limit) {
                Ok(Some((payload, seq))) => {
                    let (start, capabilities) = (seq, self.capabilities);
                    let parsed = command::parse(payload, capabilities);
                    self.frames.set_seq(start);
                    return Ok(match parsed {
                        Ok(cmd) => {
                            dispatch::begin(cmd, session, &mut self.parameters, capabilities)
                        }
                        Err(_) => Next::Error(SqlError::new(
                            1835,
                            "HY000",
                            "Malformed communication packet",
                        )),
                    });
                }
                Ok(None) => {
                    self.reader.shrink(IDLE_BUFFER);
                    match timeout(idle, self.receive()).await {
                        Ok(received) => received?,
                        Err(_) => return self.idle_too_long().await,
                    }
                }
                Err(e) => return self.protocol_error(&e).await,
            }
        }
    }

    async fn idle_too_long(&mut self) -> Result<Next, Gone> {
        // MySQL 8 tells the client why, with sequence number 0.
        self.frames.set_seq(0);
        self.put_error(&SqlError::new(
            4031,
            "HY000",
            "The client was disconnected by the server because of inactivity. \
             See wait_timeout and interactive_timeout for configuring this behavior.",
        ));
        self.flush().await?;
        Err(Gone)
    }
}

/// Serves a client until it leaves.
pub(crate) async fn serve(shared: Arc<Shared>, stream: TcpStream, peer: SocketAddr) {
    let mut conn = Connection {
        stream: Stream::Plain(stream),
        frames: FrameWriter::default(),
        reader: FrameReader::default(),
        capabilities: cap::SERVER,
        parameters: Parameters::default(),
        shared: shared.clone(),
    };
    let limit = shared.instance.variable_u64("max_connections") as usize;
    if shared
        .connections
        .load(std::sync::atomic::Ordering::Acquire)
        > limit
    {
        conn.put_error(&SqlError::new(1040, "08004", "Too many connections"));
        // The client may be gone already; nothing to do then.
        let _ = conn.flush().await;
        return;
    }
    let id = shared.next_connection_id();
    let host = host_name(peer);
    let login = timeout(LOGIN_TIMEOUT, login(&mut conn, &shared, id, &host)).await;
    let Ok(Ok((response, account))) = login else {
        return;
    };
    let kill = Arc::new(Notify::new());
    let Some(mut session) =
        open_session(&mut conn, &shared, id, peer, &response, account, &kill).await
    else {
        return;
    };
    let mut stop = shared.shutdown.clone();
    tokio::select! {
        _ = serve_commands(&mut conn, &mut session) => (),
        () = kill.notified() => (),
        () = stopped(&mut stop) => {
            conn.frames.set_seq(0);
            conn.frames.abandon();
            conn.put_error(&SqlError::new(1053, "08S01", "Server shutdown in progress"));
            let _ = timeout(Duration::from_millis(100), conn.flush()).await;
        }
    }
    // Rolling back a large transaction may take a while.
    tokio::task::block_in_place(|| drop(session));
    let _ = timeout(Duration::from_secs(1), conn.stream.shutdown()).await;
}

/// Resolves when the server goes down.
async fn stopped(stop: &mut tokio::sync::watch::Receiver<bool>) {
    // An error means that the listener is gone, which is the same.
    let _ = stop.wait_for(|stopping| *stopping).await;
}

fn host_name(peer: SocketAddr) -> String {
    if peer.ip().is_loopback() {
        "localhost".into()
    } else {
        peer.ip().to_canonical().to_string()
    }
}

/// Greeting, TLS, authentication.
async fn login(
    conn: &mut Connection,
    shared: &Shared,
    id: u64,
    host: &str,
) -> Result<(Response, Account), Gone> {
    let offered = cap::SERVER | if shared.tls.is_some() { cap::SSL } else { 0 };
    let challenge = conn.fresh_challenge();
    Greeting {
        version: shared.instance.version(),
        connection_id: id,
        challenge: &challenge,
        capabilities: offered,
        collation: Collation::UTF8MB4_0900_AI_CI.0 as u8,
        status: status::AUTOCOMMIT,
        plugin: CACHING_SHA2,
    }
    .write(conn.frames.begin());
    conn.frames.end();
    conn.flush().await?;
    let mut packet = conn.read_login_packet().await?;
    if handshake::is_ssl_request(&packet) {
        let Some(acceptor) = &shared.tls else {
            return Err(Gone);
        };
        // Else bytes that came in clear would be taken for encrypted ones.
        assert!(
            !conn.reader.has_pending(),
            "read beyond the request for TLS"
        );
        conn.stream.upgrade(acceptor).await?;
        packet = conn.read_login_packet().await?;
    }
    let response = match handshake::parse_response(&packet, offered) {
        Ok(response) => response,
        Err(_) => {
            conn.put_error(&SqlError::new(1043, "08S01", "Bad handshake"));
            conn.flush().await?;
            return Err(Gone);
        }
    };
    conn.capabilities = response.capabilities;
    let proof = Proof {
        user: response.user.clone(),
        plugin: response.plugin.clone(),
        data: response.auth.clone(),
        challenge,
    };
    match authenticate(conn, shared, proof, host).await? {
        Ok(account) => Ok((response, account)),
        Err(e) => {
            shared.instance.count_aborted_connect();
            conn.put_error(&e);
            conn.flush().await?;
            Err(Gone)
        }
    }
}

async fn open_session(
    conn: &mut Connection,
    shared: &Arc<Shared>,
    id: u64,
    peer: SocketAddr,
    response: &Response,
    account: Account,
    kill: &Arc<Notify>,
) -> Option<Session> {
    let on_kill = {
        let kill = kill.clone();
        Box::new(move || kill.notify_one())
    };
    let mut session = Session::new(
        shared.instance.clone(),
        ClientInfo {
            connection_id: id,
            user: response.user.clone(),
            host: host_name(peer),
            peer: peer.to_string(),
            account,
            collation: Collation::by_id(response.collation),
            found_rows: response.capabilities & cap::FOUND_ROWS != 0,
            multi_statements: response.capabilities & cap::MULTI_STATEMENTS != 0,
            interactive: response.capabilities & cap::INTERACTIVE != 0,
            attributes: response.attributes.clone(),
            tls: conn.stream.tls_info(),
            on_kill,
        },
    );
    if let Some(db) = &response.database
        && let Err(e) = session.use_database(db)
    {
        conn.put_error(&e);
        let _ = conn.flush().await;
        return None;
    }
    conn.put_ok(&OkPacket {
        status: session.status(),
        ..OkPacket::default()
    });
    conn.flush().await.ok()?;
    Some(session)
}

async fn serve_commands(conn: &mut Connection, session: &mut Session) -> Result<(), Gone> {
    let shared = conn.shared.clone();
    loop {
        let idle = session.idle_timeout();
        let next = conn.command(session, idle).await?;
        match next {
            Next::Quit => return Ok(()),
            Next::ChangeUser(payload) => change_user(conn, session, &shared, &payload).await?,
            next => dispatch::finish(conn, session, next).await?,
        }
        conn.flush().await?;
    }
}

async fn change_user(
    conn: &mut Connection,
    session: &mut Session,
    shared: &Shared,
    payload: &[u8],
) -> Result<(), Gone> {
    let Ok(request) = handshake::parse_change_user(payload, conn.capabilities) else {
        conn.put_error(&SqlError::new(
            1835,
            "HY000",
            "Malformed communication packet",
        ));
        return Ok(());
    };
    // The old challenge was seen on the wire: a switch request brings a fresh one.
    let proof = Proof {
        user: request.user.clone(),
        plugin: None,
        data: Vec::new(),
        challenge: conn.fresh_challenge(),
    };
    let host = session.host().to_owned();
    match authenticate(conn, shared, proof, &host).await? {
        Ok(account) => {
            conn.parameters.clear();
            session.change_user(&request.user, account, Collation::by_id(request.collation));
            let result = request
                .database
                .as_deref()
                .map_or(Ok(()), |db| session.use_database(db));
            match result {
                Ok(()) => {
                    conn.put_ok(&OkPacket {
                        status: session.status(),
                        ..OkPacket::default()
                    });
                    Ok(())
                }
                Err(e) => {
                    conn.put_error(&e);
                    conn.flush().await?;
                    Err(Gone)
                }
            }
        }
        Err(e) => {
            conn.put_error(&e);
            conn.flush().await?;
            Err(Gone)
        }
    }
}
