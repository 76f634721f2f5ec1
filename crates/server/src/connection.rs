//! One client, from greeting to goodbye.
//!
//! Neighbours: `login` authenticates, `dispatch` runs commands, `reply` writes answers.
//! **Invariants**
//! - Before login a client may send [`LOGIN_PACKET_LIMIT`] bytes per packet within `connect_timeout`;
//!   after it `max_allowed_packet` bounds a command, `wait_timeout` the silence before it,
//!   `net_read_timeout` a pause inside it, `net_write_timeout` a pause in taking the answer.
//! - Buffers shrink to [`IDLE_BUFFER`] between commands, so an idle connection is cheap.
//! - Of `max_connections` + 1 clients the last one is an administrator; so is everybody at `admin_port` (see `seats`).
//! - At shutdown a statement that runs is answered, an idle client is told at once.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use esker_sql::accounts::Identity;
use esker_sql::{ClientInfo, Counter, Mode, Session};
use esker_types::collation::Collation;
use esker_types::{SqlError, errors};
use esker_wire::auth::{CACHING_SHA2, CHALLENGE, challenge};
use esker_wire::compress::{Algorithm, Compressor};
use esker_wire::constants::{cap, status};
use esker_wire::frame::{FrameReader, FrameWriter, HEADER};
use esker_wire::handshake::{self, Greeting, Response};
use esker_wire::response::{OkPacket, write_err};
use esker_wire::{WireError, command};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

use crate::compressions::Compressions;
use crate::dispatch::{self, Next};
use crate::dump;
use crate::listener::{SHUTDOWN_GRACE, Shared};
use crate::login::{self, Proof, authenticate, must_change_password};
use crate::parameters::Parameters;
use crate::reply;
use crate::seats::{Door, Held};
use crate::silence::{Silence, TooLong};
use crate::socket::{Peer, Socket};
use crate::stream::Stream;
use crate::unseen;
use crate::watch::{self, Watching};
use crate::worker::{self, Watcher};

/// Longest packet before login.
const LOGIN_PACKET_LIMIT: usize = 64 * 1024;
/// Longest pause in taking what the server says before the session's own limit is known.
const LOGIN_WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest goodbye to a client.
const GOODBYE: Duration = Duration::from_millis(100);
/// Capacity a buffer keeps between commands.
pub(crate) const IDLE_BUFFER: usize = 16 * 1024;
/// Bytes that are compressed or uncompressed while other sessions of the thread wait: a few milliseconds.
const BRIEF: usize = 64 * 1024;
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

impl From<tokio::time::error::Elapsed> for Gone {
    fn from(_: tokio::time::error::Elapsed) -> Self {
        Gone
    }
}

/// Why there was no login.
enum NoLogin {
    /// The handshake broke or timed out.
    Broken,
    /// The client is told this.
    Denied(SqlError),
}

impl From<Gone> for NoLogin {
    fn from(_: Gone) -> Self {
        NoLogin::Broken
    }
}

/// Socket and packet state of one client.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) frames: FrameWriter,
    reader: FrameReader,
    /// What the handshake agreed on.
    agreed: Option<Algorithm>,
    /// Once the client that asked for it is logged in.
    compression: Option<Compressor>,
    pub(crate) capabilities: u32,
    parameters: Parameters,
    shared: Arc<Shared>,
    /// The end of the login exchange.
    login_end: Instant,
    write_timeout: Duration,
    /// Bytes not yet counted in the session's status.
    received: u64,
    sent: u64,
    /// Nothing runs: the client's next command is awaited.
    idle: Arc<AtomicBool>,
    watcher: Watcher,
}

/// What the consumer of a stream says.
pub(crate) enum Said {
    /// Nothing more.
    Nothing,
    /// It has everything before this position of a file.
    Acknowledged(String, u64),
    /// It leaves.
    Leaves,
    /// Something that has no meaning here.
    Other,
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
        let limit = self.write_timeout;
        let mut rest = match &mut self.compression {
            Some(compression) => {
                let bytes = self.frames.bytes();
                at_leisure(bytes.len(), || compression.pack(bytes))
            }
            None => self.frames.bytes(),
        };
        self.sent += rest.len() as u64;
        while !rest.is_empty() {
            let taken = match self.stream.write_now(rest) {
                Some(taken) => taken,
                None => timeout(limit, self.stream.write(rest)).await??,
            };
            if taken == 0 {
                return Err(Gone);
            }
            rest = &rest[taken..];
        }
        // TLS buffers records; TCP has nothing to flush.
        if self.stream.is_tls() {
            timeout(limit, self.stream.flush()).await??;
        }
        self.frames.clear(IDLE_BUFFER);
        Ok(())
    }

    /// Counts what was sent for the session's status.
    pub(crate) fn count_sent(&mut self, session: &Session) {
        session.count(Counter::BytesSent, std::mem::take(&mut self.sent));
    }

    /// Gives the login exchange its time, and `more` for a wait that is not the client's fault.
    pub(crate) fn extend_login(&mut self, more: Duration) {
        self.login_end += more;
    }

    /// Is this the only connection with a command that runs?
    pub(crate) fn is_alone(&self) -> bool {
        self.shared.activity.is_alone()
    }

    fn begin_login(&mut self) {
        let limit = self.shared.instance.variable_u64("connect_timeout");
        self.login_end = Instant::now() + Duration::from_secs(limit);
    }

    /// Resolves when the client has closed its end; it need not be listened to otherwise.
    pub(crate) async fn hung_up(&self) {
        self.stream.hung_up().await;
    }

    /// While the guard lives and a statement has a thread for itself: the session is killed if the
    /// client hangs up.
    pub(crate) fn watch(&self, session: &Session) -> Option<Watching> {
        // Without a second descriptor the statement runs unwatched.
        let socket = self.stream.duplicate().ok()?;
        watch::until_dropped(socket, session.killer())
    }

    /// What a session of this connection does where it leaves its worker: from then on its client is watched.
    fn leave_worker(
        &self,
        killer: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>,
    ) -> Box<dyn Fn() + Send + Sync> {
        let watcher = self.watcher.clone();
        let stream = self.stream.descriptor();
        Box::new(move || {
            watcher.begin(|| {
                let fd = stream?;
                // SAFETY: the session that calls this is dropped before the connection that the descriptor belongs to,
                // and a connection keeps its descriptor when it becomes an encrypted one.
                let socket = unsafe { BorrowedFd::borrow_raw(fd) };
                let socket = socket.try_clone_to_owned().ok()?;
                let killer = killer.clone();
                let end = move || {
                    if let Some(kill) = killer.get() {
                        kill();
                    }
                };
                watch::until_dropped(socket, Box::new(end))
            });
            worker::leave();
        })
    }

    /// Writes an error packet (not yet sent).
    pub(crate) fn put_error(&mut self, error: &SqlError) {
        write_err(error, self.frames.begin());
        self.frames.end();
    }

    /// Writes an OK packet (not yet sent).
    pub(crate) fn put_ok(&mut self, ok: &OkPacket<'_>) {
        ok.write(false, self.frames.begin());
        self.frames.end();
    }

    /// Appends what the client has sent to what is there.
    pub(crate) async fn receive(&mut self) -> Result<(), Gone> {
        if self.compression.is_some() {
            return self.receive_compressed().await;
        }
        let buffer = self.reader.buffer();
        buffer.reserve(READ_CHUNK);
        let got = self.stream.read_buf(buffer).await?;
        self.received += got as u64;
        if got == 0 { Err(Gone) } else { Ok(()) }
    }

    /// Takes one compressed packet.
    async fn receive_compressed(&mut self) -> Result<(), Gone> {
        while let Some(compression) = &mut self.compression {
            let received = compression.buffer().len();
            let to = self.reader.buffer();
            match at_leisure(received, || compression.unpack(to)) {
                Ok(true) => break,
                Ok(false) => {
                    let buffer = compression.buffer();
                    buffer.reserve(READ_CHUNK);
                    let got = self.stream.read_buf(buffer).await?;
                    self.received += got as u64;
                    if got == 0 {
                        return Err(Gone);
                    }
                }
                Err(e) => return self.protocol_error(&e).await,
            }
        }
        Ok(())
    }

    /// Has the client sent the beginning of a command?
    fn has_begun(&self) -> bool {
        let packed = self.compression.as_ref();
        self.reader.has_pending() || packed.is_some_and(Compressor::has_pending)
    }

    /// From here on both sides send compressed packets.
    fn compress(&mut self, algorithm: Algorithm) {
        self.compression = Some(Compressor::new(algorithm));
        self.reader.ignore_order();
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
                Ok(None) => timeout_at(self.login_end, self.receive_login_bytes()).await??,
                Err(e) => return self.protocol_error(&e).await,
            }
        }
    }

    /// Takes the next packet of the command that runs: its payload goes to `payload`. False if more has to be received
    /// first.
    ///
    /// # Errors
    /// A packet out of order, or of more than `limit` bytes.
    pub(crate) fn take_packet(
        &mut self,
        limit: usize,
        payload: &mut Vec<u8>,
    ) -> Result<bool, WireError> {
        let expected = self.frames.seq();
        let Some((bytes, seq)) = self.reader.next(expected, limit)? else {
            return Ok(false);
        };
        payload.extend_from_slice(bytes);
        self.frames.set_seq(seq);
        Ok(true)
    }

    /// What the consumer of a stream has sent meanwhile.
    ///
    /// # Errors
    /// A packet out of order, or a long one.
    pub(crate) async fn said(&mut self) -> Result<Said, Gone> {
        match self.reader.next(0, LOGIN_PACKET_LIMIT) {
            Ok(Some((packet, _))) => Ok(match command::parse_acknowledgement(packet) {
                Some((position, file)) => {
                    Said::Acknowledged(String::from_utf8_lossy(file).into_owned(), position)
                }
                None if packet.first() == Some(&command::QUIT) => Said::Leaves,
                None => Said::Other,
            }),
            Ok(None) => Ok(Said::Nothing),
            Err(e) => self.protocol_error(&e).await,
        }
    }

    pub(crate) async fn protocol_error<T>(&mut self, e: &WireError) -> Result<T, Gone> {
        let error = match e {
            WireError::TooLarge { .. } => errors::packet_too_large(),
            WireError::OutOfOrder { .. } => {
                SqlError::new(1156, "08S01", "Got packets out of order")
            }
            WireError::Compressed => {
                SqlError::new(1157, "08S01", "Couldn't uncompress communication packet")
            }
            _ => errors::malformed_packet(),
        };
        self.put_error(&error);
        self.flush().await?;
        Err(Gone)
    }

    /// Waits for one command and hands its payload to `run`, which is called with the payload
    /// borrowed from the read buffer.
    async fn command(
        &mut self,
        session: &mut Session,
        idle: Duration,
        silence: &mut Silence,
    ) -> Result<Next, Gone> {
        let limit = session.max_allowed_packet();
        loop {
            match self.reader.next(0, limit) {
                Ok(Some((payload, seq))) => {
                    let (start, capabilities) = (seq, self.capabilities);
                    let parsed = command::parse(payload, capabilities);
                    self.frames.set_seq(start);
                    return Ok(match parsed {
                        Ok(cmd) => {
                            let mode = dispatch::first_mode(payload);
                            let parameters = &mut self.parameters;
                            let mut begin =
                                || dispatch::begin(cmd, session, parameters, capabilities);
                            match mode {
                                Mode::Inline => begin(),
                                Mode::Thread => tokio::task::block_in_place(begin),
                            }
                        }
                        Err(_) => Next::Error(errors::malformed_packet()),
                    });
                }
                Ok(None) => {
                    self.reader.shrink(IDLE_BUFFER);
                    if let Some(compression) = &mut self.compression {
                        compression.shrink(IDLE_BUFFER);
                    }
                    let begun = self.has_begun();
                    let limit = if begun {
                        session.net_read_timeout()
                    } else {
                        idle
                    };
                    match silence.at_most(limit, self.receive()).await {
                        Ok(received) => received?,
                        Err(TooLong) => return self.silent_too_long(begun).await,
                    }
                }
                Err(e) => return self.protocol_error(&e).await,
            }
        }
    }

    /// `begun`: inside a packet.
    async fn silent_too_long(&mut self, begun: bool) -> Result<Next, Gone> {
        // MySQL 8 tells the client why, with sequence number 0.
        self.frames.set_seq(0);
        self.put_error(&if begun {
            SqlError::new(1159, "08S01", "Got timeout reading communication packets")
        } else {
            SqlError::new(
                4031,
                "HY000",
                "The client was disconnected by the server because of inactivity. \
                 See wait_timeout and interactive_timeout for configuring this behavior.",
            )
        });
        self.flush().await?;
        Err(Gone)
    }
}

/// Runs what takes long when there are many bytes of it without holding up the other sessions of this thread.
fn at_leisure<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes > BRIEF {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

/// Serves a client until it leaves.
pub(crate) async fn serve(shared: Arc<Shared>, socket: Socket, peer: Peer, door: Door) {
    let idle = Arc::new(AtomicBool::new(false));
    let mut conn = Connection {
        stream: Stream::Plain(socket),
        frames: FrameWriter::default(),
        reader: FrameReader::default(),
        agreed: None,
        compression: None,
        capabilities: cap::SERVER,
        parameters: Parameters::default(),
        shared: shared.clone(),
        login_end: Instant::now(),
        write_timeout: LOGIN_WRITE_TIMEOUT,
        received: 0,
        sent: 0,
        idle: idle.clone(),
        watcher: Watcher::default(),
    };
    let entered = match admit(&shared, peer, door) {
        Ok(entered) => entered,
        Err(e) => {
            conn.put_error(&e);
            // The client may be gone already; nothing to do then.
            let _ = timeout(GOODBYE, conn.flush()).await;
            return;
        }
    };
    let id = shared.next_connection_id();
    let host = peer.host();
    conn.begin_login();
    let (response, identity, must_change_password) =
        match login(&mut conn, &shared, id, &host).await {
            Ok(known) => known,
            Err(why) => return refuse(&mut conn, &shared, peer, why).await,
        };
    if let Some(ip) = peer.ip() {
        shared.throttle.completed(ip);
    }
    let kill = Arc::new(Notify::new());
    drop(entered);
    let who = Newcomer {
        id,
        peer,
        door,
        response,
        identity,
        must_change_password,
    };
    let Some((mut session, seat)) = open_session(&mut conn, &shared, who, &kill).await else {
        return;
    };
    let mut stop = shared.shutdown.clone();
    let ended = {
        let mut work = std::pin::pin!(serve_commands(&mut conn, &mut session));
        tokio::select! {
            biased;
            ended = &mut work => ended,
            () = kill.notified() => Err(Gone),
            () = stopped(&mut stop) => {
                if idle.load(Ordering::Relaxed) {
                    Err(Gone)
                } else {
                    // What runs has been interrupted and is answered; a commit takes its time.
                    timeout(SHUTDOWN_GRACE, work).await.unwrap_or(Err(Gone))
                }
            }
        }
    };
    if shared.is_stopping() {
        conn.frames.set_seq(0);
        conn.frames.abandon();
        conn.put_error(&errors::shutdown_in_progress());
        let _ = timeout(GOODBYE, conn.flush()).await;
    } else if ended.is_err() {
        shared.instance.count_aborted_client();
    }
    // Rolling back a large transaction may take a while.
    tokio::task::block_in_place(|| drop(session));
    drop(seat);
    let _ = timeout(Duration::from_secs(1), conn.stream.shutdown()).await;
}

/// Is there room for one more, and has the address behaved?
fn admit(shared: &Shared, peer: Peer, door: Door) -> Result<Option<Held<'_>>, SqlError> {
    let limit = shared.instance.variable_u64("max_connections") as usize;
    let entered = shared.seats.enter(limit);
    if entered.is_none() && door == Door::Main {
        shared.instance.count_refused_connection();
        return Err(errors::too_many_connections());
    }
    let allowed = shared.instance.variable_u64("max_connect_errors");
    let flushes = shared.instance.host_flushes();
    let ip = peer.ip().map(|ip| ip.to_canonical());
    if let Some(ip) = ip
        && shared.throttle.is_blocked(ip, allowed, flushes)
    {
        let text = format!(
            "Host '{ip}' is blocked because of many connection errors; unblock with FLUSH HOSTS"
        );
        return Err(SqlError::new(1129, "HY000", text));
    }
    Ok(entered)
}

/// Ends a login that came to nothing.
async fn refuse(conn: &mut Connection, shared: &Shared, peer: Peer, why: NoLogin) {
    shared.instance.count_aborted_connect();
    match why {
        NoLogin::Broken => {
            let allowed = shared.instance.variable_u64("max_connect_errors");
            if let Some(ip) = peer.ip() {
                shared.throttle.interrupted(ip, allowed);
            }
        }
        NoLogin::Denied(e) => {
            shared.refusals.tell(peer, &e);
            conn.put_error(&e);
            let _ = conn.flush().await;
        }
    }
}

/// Resolves when the server goes down.
async fn stopped(stop: &mut tokio::sync::watch::Receiver<bool>) {
    // An error means that the listener is gone, which is the same.
    let _ = stop.wait_for(|stopping| *stopping).await;
}

/// Greeting, TLS, authentication. The flag: the password has to be changed.
async fn login(
    conn: &mut Connection,
    shared: &Shared,
    id: u64,
    host: &str,
) -> Result<(Response, Identity, bool), NoLogin> {
    let mut offered = cap::SERVER | compressions(shared).capabilities();
    if shared.tls.load().is_some() {
        offered |= cap::SSL;
    }
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
        let Some(acceptor) = shared.tls.load_full() else {
            return Err(NoLogin::Broken);
        };
        // Else bytes that came in clear would be taken for encrypted ones.
        assert!(
            !conn.reader.has_pending(),
            "read beyond the request for TLS"
        );
        timeout_at(conn.login_end, conn.stream.upgrade(&acceptor))
            .await
            .map_err(Gone::from)?
            .map_err(Gone::from)?;
        packet = conn.read_login_packet().await?;
    }
    let response = match handshake::parse_response(&packet, offered) {
        Ok(response) => response,
        Err(_) => {
            conn.put_error(&SqlError::new(1043, "08S01", "Bad handshake"));
            conn.flush().await?;
            return Err(NoLogin::Broken);
        }
    };
    conn.capabilities = response.capabilities;
    let chosen = compressions(shared).choose(&response);
    conn.agreed = chosen.map_err(NoLogin::Denied)?;
    let proof = Proof {
        user: response.user.clone(),
        plugin: response.plugin.clone(),
        data: response.auth.clone(),
        challenge,
    };
    let account = authenticate(conn, shared, proof, host)
        .await?
        .map_err(NoLogin::Denied)?;
    if shared.instance.variable_is_on("require_secure_transport") && !conn.stream.is_private() {
        let text = "Connections using insecure transport are prohibited while \
                    --require_secure_transport=ON.";
        return Err(NoLogin::Denied(SqlError::new(3159, "HY000", text)));
    }
    let must_change_password =
        must_change_password(shared, &account, response.capabilities).map_err(NoLogin::Denied)?;
    Ok((
        response,
        login::acting(shared, account),
        must_change_password,
    ))
}

/// What `protocol_compression_algorithms` allows.
fn compressions(shared: &Shared) -> Compressions {
    Compressions::named(
        &shared
            .instance
            .variable_text("protocol_compression_algorithms"),
    )
}

/// Gives the client its seat; None: it came through a door where none is needed.
fn seat<'s>(
    shared: &'s Shared,
    session: &Session,
    door: Door,
) -> Result<Option<Held<'s>>, SqlError> {
    let is_administrator = session.is_administrator();
    if door == Door::Admin {
        let denied = || errors::privilege_needed("SERVICE_CONNECTION_ADMIN");
        return is_administrator.then_some(None).ok_or_else(denied);
    }
    let limit = shared.instance.variable_u64("max_connections") as usize;
    let Some(seat) = shared.seats.take(limit, is_administrator) else {
        shared.instance.count_refused_connection();
        return Err(errors::too_many_connections());
    };
    Ok(Some(seat))
}

/// Begins to count for the account, and takes its first database.
fn admit_account(session: &mut Session, database: Option<&str>) -> Result<(), SqlError> {
    session.begin_counting()?;
    database.map_or(Ok(()), |db| session.use_database(db))
}

/// A client that has proved who it is.
struct Newcomer {
    id: u64,
    peer: Peer,
    door: Door,
    response: Response,
    identity: Identity,
    /// The password has expired.
    must_change_password: bool,
}

async fn open_session<'s>(
    conn: &mut Connection,
    shared: &'s Arc<Shared>,
    who: Newcomer,
    kill: &Arc<Notify>,
) -> Option<(Session, Option<Held<'s>>)> {
    let Newcomer {
        id,
        peer,
        door,
        response,
        identity,
        must_change_password,
    } = who;
    let killer = Arc::new(OnceLock::new());
    let leave_worker = conn.leave_worker(killer.clone());
    let on_kill = {
        let kill = kill.clone();
        Box::new(move || kill.notify_one())
    };
    let mut session = Session::new(
        shared.instance.clone(),
        ClientInfo {
            connection_id: id,
            user: response.user.clone(),
            host: peer.host(),
            peer: peer.to_string(),
            account: identity.account,
            proxy_user: identity.proxy_user,
            collation: Collation::by_id(response.collation),
            found_rows: response.capabilities & cap::FOUND_ROWS != 0,
            multi_statements: response.capabilities & cap::MULTI_STATEMENTS != 0,
            local_files: response.capabilities & cap::LOCAL_FILES != 0,
            interactive: response.capabilities & cap::INTERACTIVE != 0,
            attributes: response.attributes.clone(),
            tls: conn.stream.tls_info(),
            compression: conn.agreed.map(|a| (a.name(), a.level())),
            embedded: false,
            on_kill,
            leave_worker,
        },
    );
    // Nobody has set it.
    let _ = killer.set(session.killer());
    if conn.capabilities & cap::SESSION_TRACK != 0 {
        session.report_changes();
    }
    let opened = seat(shared, &session, door).and_then(|seat| {
        admit_account(&mut session, response.database.as_deref())?;
        Ok(seat)
    });
    let opened = match opened {
        Ok(seat) => greet(&mut session, shared, &response).await.map(|()| seat),
        Err(e) => Err(e),
    };
    let seat = match opened {
        Ok(seat) => seat,
        Err(e) => {
            // Whoever sees the error may come again at once.
            drop(session);
            shared.refusals.tell(peer, &e);
            shared.instance.count_aborted_connect();
            conn.put_error(&e);
            let _ = conn.flush().await;
            return None;
        }
    };
    // Not before: the database could not be taken, and init_connect could not run.
    if must_change_password {
        session.require_new_password();
    }
    reply::done(conn, &mut session);
    conn.flush().await.ok()?;
    if let Some(algorithm) = conn.agreed {
        conn.compress(algorithm);
    }
    Some((session, seat))
}

/// `init_connect`, which administrators are spared: a mistake in it must not keep out those who can mend it.
async fn greet(
    session: &mut Session,
    shared: &Shared,
    response: &Response,
) -> Result<(), SqlError> {
    let statements = shared.instance.variable_text("init_connect");
    if statements.is_empty() || session.is_administrator() {
        return Ok(());
    }
    session.set_multi_statements(true);
    let ran = unseen::run(session, statements.as_bytes()).await;
    session.set_multi_statements(response.capabilities & cap::MULTI_STATEMENTS != 0);
    ran.map_err(|e| {
        tracing::warn!("init_connect failed: {e}");
        let text = format!(
            "Aborted connection {} to db: '{}' user: '{}' host: '{}' (init_connect command failed)",
            session.connection_id(),
            response.database.as_deref().unwrap_or("unconnected"),
            response.user,
            session.host(),
        );
        SqlError::new(1184, "08S01", text)
    })
}

async fn serve_commands(conn: &mut Connection, session: &mut Session) -> Result<(), Gone> {
    let shared = conn.shared.clone();
    let mut silence = Silence::new();
    while !shared.is_stopping() {
        let idle = session.idle_timeout();
        conn.idle.store(true, Ordering::Relaxed);
        let next = conn.command(session, idle, &mut silence).await?;
        if let Next::Dump(stream) = next {
            // It is no command that runs: the end of the server does not wait for it, nor does a commit.
            conn.write_timeout = session.net_write_timeout();
            dump::serve(conn, session, stream).await?;
            conn.flush().await?;
            continue;
        }
        conn.idle.store(false, Ordering::Relaxed);
        let _running = shared.activity.begin();
        conn.write_timeout = session.net_write_timeout();
        match next {
            Next::Quit => return Ok(()),
            Next::ChangeUser(payload) => change_user(conn, session, &shared, &payload).await?,
            next => dispatch::finish(conn, session, next).await?,
        }
        conn.watcher.end();
        conn.flush().await?;
        session.count(Counter::BytesReceived, std::mem::take(&mut conn.received));
        session.count(Counter::BytesSent, std::mem::take(&mut conn.sent));
    }
    Ok(())
}

async fn change_user(
    conn: &mut Connection,
    session: &mut Session,
    shared: &Shared,
    payload: &[u8],
) -> Result<(), Gone> {
    let Ok(request) = handshake::parse_change_user(payload, conn.capabilities) else {
        conn.put_error(&errors::malformed_packet());
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
    conn.begin_login();
    let authenticated = authenticate(conn, shared, proof, &host).await?;
    let known = authenticated.and_then(|account| {
        let must_change = must_change_password(shared, &account, conn.capabilities)?;
        Ok((login::acting(shared, account), must_change))
    });
    match known {
        Ok((identity, must_change_password)) => {
            conn.parameters.clear();
            session.change_user(&request.user, identity, Collation::by_id(request.collation));
            let database = request.database.as_deref();
            match admit_account(session, database) {
                Ok(()) => {
                    if must_change_password {
                        session.require_new_password();
                    }
                    reply::done(conn, session);
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
