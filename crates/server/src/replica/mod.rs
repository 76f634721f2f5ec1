//! Receivers: the binary logs of sources, into relay logs.
//!
//! ```text
//! Off ─START─▶ Connecting ─▶ Handshake ─▶ Registered ─▶ Streaming ─┐
//!  ▲               ▲                                                │ anything fails
//!  └─ STOP, attempts used up, fatal ── Backoff (SOURCE_CONNECT_RETRY) ◀┘
//! ```
//! `source` asks a source for its stream, `modes` whether its transactions fit to this server's `gtid_mode`.
//! Neighbours: `esker_sql` has the channels and starts receivers through [`Host`](esker_sql::Host); the
//! [`client`](crate::client) logs in. **Invariants**
//! - A receiver is a thread that waits for nothing longer than `replica_net_timeout`, and ends when its connection is
//!   shut down from outside.
//! - Attempts are at most SOURCE_RETRY_COUNT since the last event.
//! - A write to a full disk makes a receiver wait, and loses nothing: what could not be written is kept, or comes
//!   again. A sync that fails is fatal, whatever the reason: nobody knows what it has lost.

mod modes;
mod source;

use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use esker_binlog::event::control::{Rotate, parse_heartbeat_v2};
use esker_binlog::event::format::FormatDescription;
use esker_binlog::event::{Event, EventType};
use esker_sql::replica::{GoesOver, ReceiverState, Reception};
use esker_wire::client::parse_err;

use crate::client::{Client, ClientError, Compressions, Connect, Endpoint, TlsLimits, TlsMode};
use source::Source;

/// The source says that it cannot send what was asked for.
const SOURCE_FATAL: u16 = 1236;
/// The same, as the replica tells it.
const GOT_FATAL: u16 = 13114;
/// Source and replica do not fit together.
const FATAL: u16 = 13117;
/// The relay log cannot be written.
const RELAY_WRITE: u16 = 13122;
/// Pause between two attempts to write to a full disk.
const SPACE_PAUSE: Duration = Duration::from_secs(1);
/// An event is damaged.
const BAD_CHECKSUM: u16 = 1743;
/// Source and replica have no compression in common.
const NO_COMPRESSION: u16 = 2066;
/// The connection cannot be encrypted as it is to be.
const NO_TLS: u16 = 2026;
/// The way to log in does not do.
const BAD_LOGIN: u16 = 2061;
/// Nobody is there.
const CANNOT_CONNECT: u16 = 2003;

/// Why a connection has ended.
enum Ended {
    /// Another attempt may do better.
    Lost(u16, String),
    /// It would be the same again.
    Fatal(u16, String),
    /// There is no space on the disk.
    FullDisk(String),
}

impl From<ClientError> for Ended {
    fn from(e: ClientError) -> Self {
        let code = match &e {
            ClientError::Server(e) => e.code,
            ClientError::Compression => NO_COMPRESSION,
            ClientError::Tls(_) => NO_TLS,
            ClientError::Insecure(_) => BAD_LOGIN,
            _ => CANNOT_CONNECT,
        };
        let text = match &e {
            ClientError::Server(e) => e.message.clone(),
            e => e.to_string(),
        };
        Self::Lost(code, text)
    }
}

/// Begins a receiver.
///
/// # Errors
/// There is no thread.
pub(crate) fn begin(reception: Arc<Reception>) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("receiver".to_owned());
    thread.spawn(move || run(&reception)).map(drop)
}

/// Tells the channel that the receiver is gone, also if it panics.
struct Leaves<'a>(&'a Reception);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.has_ended();
    }
}

fn run(reception: &Reception) {
    let _leaves = Leaves(reception);
    let settings = &reception.settings;
    let mut attempts = 0;
    let mut had_events = false;
    loop {
        if reception.is_stopping() {
            return;
        }
        attempts += 1;
        let ended = receive(reception, &mut attempts);
        had_events |= attempts == 0;
        if reception.is_stopping() {
            return;
        }
        let (code, text) = match ended {
            Ok(()) => return,
            Err(Ended::Fatal(code, text)) => return reception.gives_up(code, &text),
            Err(Ended::FullDisk(text)) => match wait_for_space(reception, &text) {
                Ok(()) => {
                    attempts = 0;
                    continue;
                }
                Err(e) => return reception.gives_up(RELAY_WRITE, &write_failure(&e)),
            },
            Err(Ended::Lost(code, text)) => (code, text),
        };
        let (delay, (host, port)) = (settings.connect_retry, reception.target());
        let what = match had_events {
            true => "reconnecting",
            false => "connecting",
        };
        let text = format!(
            "Error {what} to source '{}@{host}:{port}'. This was attempt {attempts}/{}, with a delay of {delay} \
             seconds between attempts. Message: {text}",
            settings.user, settings.retry_count
        );
        if settings.retry_count > 0 && attempts >= settings.retry_count {
            match reception.goes_over() {
                Ok(GoesOver::ToAnother) => {
                    reception.failed(code, &text);
                    attempts = 0;
                    continue;
                }
                // All are gone: each is asked once between two pauses.
                Ok(GoesOver::Round) => attempts = 0,
                Ok(GoesOver::Nowhere) => return reception.gives_up(code, &text),
                Err(e) => return reception.gives_up(e.code, &e.message),
            }
        }
        reception.failed(code, &text);
        reception.enter(match had_events {
            true => ReceiverState::Backoff,
            false => ReceiverState::Connecting,
        });
        if reception.pause(Duration::from_secs(delay.into())) {
            return;
        }
    }
}

/// Waits until what has come is written, or the receiver is to stop: then the source is asked for what comes behind it.
fn wait_for_space(reception: &Reception, why: &str) -> esker_binlog::Result<()> {
    tracing::warn!("{why}; the receiver waits for space on the disk");
    reception.enter(ReceiverState::FullDisk);
    while !reception.pause(SPACE_PAUSE) {
        match reception.publish(true) {
            Ok(()) => {
                tracing::info!("there is space on the disk again: the receiver goes on");
                break;
            }
            Err(e) if e.is_full_disk() => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// One connection, until it ends; without error, if it was told to.
fn receive(reception: &Reception, attempts: &mut u64) -> Result<(), Ended> {
    let namespace = &reception.settings.network_namespace;
    if !namespace.is_empty() {
        let text = format!("Fatal error: failed to set network namespace '{namespace}'");
        return Err(Ended::Fatal(FATAL, text));
    }
    let client = open(reception)?;
    let source = Source::meet(client, reception)?;
    stream(reception, source, attempts)
}

fn open(reception: &Reception) -> Result<Client, Ended> {
    reception.enter(ReceiverState::Connecting);
    let settings = &reception.settings;
    let tls = match (
        settings.ssl,
        settings.ssl_verify,
        settings.ssl_ca.is_empty() && settings.ssl_capath.is_empty(),
    ) {
        (false, ..) => TlsMode::Disabled,
        (true, true, _) => TlsMode::VerifyIdentity,
        (true, false, false) => TlsMode::VerifyCa,
        (true, false, true) => TlsMode::Required,
    };
    let (host, port) = reception.target();
    let path = |name: &str| (!name.is_empty()).then(|| name.into());
    let target = Connect {
        endpoint: Endpoint::Tcp(host, port),
        user: settings.user.clone(),
        password: settings.password.clone(),
        database: None,
        tls,
        authorities: path(&settings.ssl_ca),
        identity: (!settings.ssl_cert.is_empty()).then(|| {
            (
                settings.ssl_cert.clone().into(),
                settings.ssl_key.clone().into(),
            )
        }),
        tls_limits: TlsLimits {
            versions: settings.tls_version.clone(),
            ciphers: settings.ssl_cipher.clone(),
            suites: settings.tls_ciphersuites.clone(),
            authorities_folder: path(&settings.ssl_capath),
            revoked: path(&settings.ssl_crl),
            revoked_folder: path(&settings.ssl_crlpath),
        },
        public_key: path(&settings.public_key_path),
        asks_public_key: settings.get_public_key,
        own_address: (!settings.bind.is_empty()).then(|| settings.bind.clone()),
        compressions: compressions(reception),
    };
    let seconds = reception.instance().variable_u64("replica_net_timeout");
    let opened = Client::open_within(&target, Duration::from_secs(seconds), &|stream| {
        reception.on_stop(Box::new(move || {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }));
    });
    opened.map_err(|e| match e {
        ClientError::Io(e) => {
            let why = e
                .raw_os_error()
                .map_or_else(|| e.to_string(), |n| n.to_string());
            let (host, port) = reception.target();
            let text = format!("Can't connect to MySQL server on '{host}:{port}' ({why})");
            Ended::Lost(CANNOT_CONNECT, text)
        }
        e => e.into(),
    })
}

/// SOURCE_COMPRESSION_ALGORITHMS; `replica_compressed_protocol` counts for more.
fn compressions(reception: &Reception) -> Compressions {
    let settings = &reception.settings;
    let has = |name: &str| {
        let mut names = settings.compression.split(',');
        names.any(|named| named.eq_ignore_ascii_case(name))
    };
    if reception
        .instance()
        .variable_is_on("replica_compressed_protocol")
    {
        return Compressions {
            zlib: true,
            ..Compressions::default()
        };
    }
    Compressions {
        zlib: has("zlib"),
        zstd: has("zstd").then_some(settings.zstd_level),
        is_required: !has("uncompressed"),
    }
}

/// Takes events until the connection ends.
fn stream(reception: &Reception, mut source: Source, attempts: &mut u64) -> Result<(), Ended> {
    reception.enter(ReceiverState::Streaming);
    while !reception.is_stopping() {
        match source.client.received()? {
            Some(packet) => {
                take(reception, &packet, &mut source)?;
                if std::mem::take(attempts) > 0 {
                    reception.has_come_over();
                }
            }
            None => {
                let is_owed = std::mem::take(&mut source.is_owed);
                reception.publish(is_owed).map_err(|e| not_written(&e))?;
                if is_owed {
                    source.acknowledge(&reception.relay)?;
                }
                source.client.receive()?;
            }
        }
    }
    Ok(())
}

fn write_failure(e: &esker_binlog::Error) -> String {
    format!("Relay log write failure: {e}")
}

fn not_written(e: &esker_binlog::Error) -> Ended {
    match e.is_full_disk() {
        true => Ended::FullDisk(write_failure(e)),
        false => Ended::Fatal(RELAY_WRITE, write_failure(e)),
    }
}

/// A packet of the stream: an event, the end, or an error.
fn take(reception: &Reception, packet: &[u8], source: &mut Source) -> Result<(), Ended> {
    let bytes = match packet.split_first() {
        Some((0, event)) => source.unwrapped(event)?,
        Some((0xff, _)) => return Err(source_error(packet)),
        _ => {
            let text = "the source has ended the stream".to_owned();
            return Err(Ended::Lost(CANNOT_CONNECT, text));
        }
    };
    let damaged = |e: esker_binlog::Error| {
        let text = format!("Replication event checksum verification failed: {e}");
        Ended::Lost(BAD_CHECKSUM, text)
    };
    let event = Event::parse(bytes, source.checksum).map_err(damaged)?;
    match event.header.event_type() {
        Some(kind @ (EventType::Heartbeat | EventType::HeartbeatV2)) => {
            reception.heartbeat();
            let place = match kind {
                EventType::HeartbeatV2 => parse_heartbeat_v2(event.body).map_err(damaged)?,
                _ => Rotate {
                    position: event.header.end.into(),
                    file: event.body,
                },
            };
            let advanced = reception.advance(event.header.stamp, place);
            return advanced.map_err(|e| not_written(&e));
        }
        Some(kind @ (EventType::Gtid | EventType::GtidTagged | EventType::AnonymousGtid)) => {
            modes::check_transaction(reception, kind)?;
        }
        Some(EventType::FormatDescription) => {
            let format = FormatDescription::parse(event.body).map_err(damaged)?;
            source.checksum = format.checksum;
        }
        _ => {}
    }
    let appended = reception.append(&event.header, event.body);
    appended.map_err(|e| not_written(&e))
}

fn source_error(packet: &[u8]) -> Ended {
    match parse_err(packet) {
        Ok(e) if e.code == SOURCE_FATAL => {
            let text = format!(
                "Got fatal error {SOURCE_FATAL} from source when reading data from binary log: '{}'",
                e.message
            );
            Ended::Fatal(GOT_FATAL, text)
        }
        Ok(e) => Ended::Lost(e.code, e.message),
        Err(e) => Ended::Lost(CANNOT_CONNECT, e.to_string()),
    }
}
