//! One client: its socket, packets and limits.
//!
//! In flow order: `serve` (from the seat to the goodbye), `handshake` (greeting, TLS, authentication), this file
//! (packets of commands and answers), `received` (memory for what has come). Neighbours: `login` authenticates,
//! `dispatch` runs commands, `reply` writes answers.
//!
//! **Invariants**
//! - Before login a client may send [`LOGIN_PACKET_LIMIT`] bytes per packet within `connect_timeout`;
//!   after it `max_allowed_packet` bounds a command, `wait_timeout` the silence before it,
//!   `net_read_timeout` a pause inside it, `net_write_timeout` a pause in taking the answer.
//! - Buffers shrink to [`IDLE_BUFFER`] between commands, so an idle connection is cheap.
//! - Of `max_connections` + 1 clients the last one is an administrator; so is everybody at `admin_port` (see `seats`).
//! - At shutdown a statement that runs is answered, an idle client is told at once.

mod handshake;
pub(crate) mod received;
mod serve;

use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use esker_sql::{Counter, Mode, Session};
use esker_types::collation::Charset;
use esker_types::{SqlError, errors};
use esker_wire::auth::{CHALLENGE, challenge};
use esker_wire::compress::{Algorithm, Compressor};
use esker_wire::frame::{FrameReader, FrameWriter, HEADER};
use esker_wire::response::{OkPacket, write_err};
use esker_wire::{WireError, command};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

pub(crate) use serve::serve;

use self::received::Sent;
use crate::dispatch::{self, Next};
use crate::headers::Headers;
use crate::listener::Shared;
use crate::parameters::Parameters;
use crate::silence::{Silence, TooLong};
use crate::stream::Stream;
use crate::watch::{self, Watching};
use crate::worker::{self, Watcher};

/// Longest packet before login.
const LOGIN_PACKET_LIMIT: usize = 64 * 1024;
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

/// Socket and packet state of one client.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) frames: FrameWriter,
    /// It has become a stream of the binary log.
    is_streaming: bool,
    /// What its last results began with.
    pub(crate) headers: Headers,
    reader: FrameReader,
    /// What the handshake agreed on.
    agreed: Option<Algorithm>,
    /// Once the client that asked for it is logged in.
    compression: Option<Compressor>,
    /// What the client says that it can do; nothing before it has answered the greeting.
    pub(crate) capabilities: u32,
    parameters: Parameters,
    shared: Arc<Shared>,
    /// The end of the login exchange.
    login_end: Instant,
    write_timeout: Duration,
    /// Bytes not yet counted in the session's status.
    received: u64,
    sent: u64,
    /// Bytes that are counted and not sent.
    ahead: u64,
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
        self.sent += (rest.len() as u64).saturating_sub(std::mem::take(&mut self.ahead));
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

    /// Counts what has come and gone.
    fn count_traffic(&mut self, session: &Session) {
        session.count(Counter::BytesReceived, std::mem::take(&mut self.received));
        self.count_sent(session);
    }

    /// Counts what a statement's answer is, before it has left: what is told of the statement then is all of it.
    pub(crate) fn count_answer(&mut self, session: &Session) {
        self.count_sent(session);
        // How many bytes become of it by compression is not known yet.
        if self.compression.is_none() {
            let waiting = self.frames.bytes().len() as u64;
            session.count(Counter::BytesSent, waiting.saturating_sub(self.ahead));
            self.ahead = self.ahead.max(waiting);
        }
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

    /// Writes an error packet (not yet sent) to a client that has no session yet, or not any more.
    pub(crate) fn put_error(&mut self, error: &SqlError) {
        self.put_error_in(Charset::Utf8mb4, error);
    }

    /// Writes an error packet (not yet sent) with its message in this character set.
    pub(crate) fn put_error_in(&mut self, charset: Charset, error: &SqlError) {
        write_err(error, charset, self.capabilities, self.frames.begin());
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
        let budget = self.shared.instance.engine().memory();
        let room = &mut self.parameters.room;
        if let Err(e) = room.make_room(buffer, READ_CHUNK, 0, budget) {
            return self.give_up(&e).await;
        }
        let got = self.stream.read_buf(self.reader.buffer()).await?;
        self.received += got as u64;
        if got == 0 { Err(Gone) } else { Ok(()) }
    }

    /// There is no memory for what the client sends: it hears so, and its connection ends, for what follows has no
    /// beginning.
    async fn give_up(&mut self, error: &SqlError) -> Result<(), Gone> {
        self.put_error(error);
        self.flush().await?;
        Err(Gone)
    }

    /// Takes one compressed packet.
    async fn receive_compressed(&mut self) -> Result<(), Gone> {
        while let Some(compression) = &mut self.compression {
            let received = compression.buffer().len();
            let to = self.reader.buffer();
            match at_leisure(received, || compression.unpack(to)) {
                Ok(true) => {
                    let budget = self.shared.instance.engine().memory();
                    let held = received + self.reader.capacity();
                    let room = &mut self.parameters.room;
                    match room.hold(Sent::Packets, held, budget) {
                        Ok(()) => break,
                        Err(e) => return self.give_up(&e).await,
                    }
                }
                Ok(false) => {
                    let others = self.reader.capacity();
                    let buffer = compression.buffer();
                    let budget = self.shared.instance.engine().memory();
                    let room = &mut self.parameters.room;
                    if let Err(e) = room.make_room(buffer, READ_CHUNK, others, budget) {
                        return self.give_up(&e).await;
                    }
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
        buffer.reserve(missing.min(READ_CHUNK));
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
        if let WireError::TooLarge { seq: Some(seq), .. } = e {
            self.frames.set_seq(*seq);
        }
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
        let limit = session.longest_command();
        loop {
            match self.reader.next(0, limit) {
                Ok(Some((payload, seq))) => {
                    let (start, capabilities) = (seq, self.capabilities);
                    let parsed = command::parse(payload, capabilities);
                    self.frames.set_seq(start);
                    let next = match parsed {
                        Ok(cmd) => {
                            let mode = dispatch::first_mode(payload);
                            let parameters = &mut self.parameters;
                            let begin = || dispatch::begin(cmd, session, parameters, capabilities);
                            match mode {
                                Mode::Inline => begin(),
                                Mode::Thread => tokio::task::block_in_place(begin),
                            }
                        }
                        Err(WireError::NotRegistered(why)) => {
                            Next::Error(errors::unknown_error(why))
                        }
                        Err(_) if command::asks_for_stream(payload) => {
                            Next::LastError(errors::malformed_packet())
                        }
                        Err(_) => Next::Error(errors::malformed_packet()),
                    };
                    // The session has a copy of a large command.
                    self.shrink_buffers();
                    return Ok(next);
                }
                Ok(None) => {
                    self.shrink_buffers();
                    let begun = self.has_begun();
                    let limit = if begun {
                        session.net_read_timeout()
                    } else {
                        idle
                    };
                    // What an answer begins with that comes before the command is whole.
                    self.frames.set_seq(1);
                    match silence.at_most(limit, self.receive()).await {
                        Ok(received) => received?,
                        Err(TooLong) => return self.silent_too_long(begun).await,
                    }
                }
                Err(e) => return self.protocol_error(&e).await,
            }
        }
    }

    /// Gives back what large commands have left.
    fn shrink_buffers(&mut self) {
        self.reader.shrink(IDLE_BUFFER);
        let packed = self.compression.as_mut().map_or(0, |compression| {
            compression.shrink(IDLE_BUFFER);
            compression.buffer().capacity()
        });
        let held = packed + self.reader.capacity();
        self.parameters.room.keep(Sent::Packets, held);
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
