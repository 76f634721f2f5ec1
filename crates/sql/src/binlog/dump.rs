//! A session that has become a stream of the binary log.
//!
//! Neighbours: the server takes COM_REGISTER_SLAVE, COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID to here, and sends what
//! [`Dump`] hands out; `esker_binlog::stream` makes it; [`replicas`](super::replicas) knows all consumers.
//!
//! **Invariants**
//! - A consumer has REPLICATION SLAVE when its stream begins.
//! - One consumer has one stream: a second one under the same identity ends the first.
//! - A KILL, of the statement or of the connection, ends the stream.
//! - After a stream, or none for it was refused, the connection ends.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use esker_binlog::event::Checksum;
use esker_binlog::files::FileInfo;
use esker_binlog::gtid::{GtidSet, Sid};
use esker_binlog::stream::{From, Leaves, Log, Progress, Refused, Stream};
use esker_engine::{Charge, MemoryUse};
use esker_sql_catalog::variables::VarValue;
use esker_sql_plan::expr::UserVars;
use esker_types::{SqlError, SqlResult, Value};

use super::replicas::{Consumer, Registered, Streaming};
use super::semi_sync::Member;
use crate::instance::Instance;
use crate::session::registry::Process;
use crate::session::{Session, SessionContext};

pub use esker_binlog::stream::PacketSink;

/// States in the process list.
const SENDING: &str = "Sending binlog event to replica";
const WAITING: &str = "Source has sent all binlog to replica; waiting for more updates";

/// Characters of a UUID with its hyphens.
const UUID_LENGTH: usize = 36;

/// How long a stream that ends waits for the files to be synced.
const SYNC_WAIT: Duration = Duration::from_secs(10);

/// A request for a stream.
#[derive(Debug)]
pub struct DumpRequest {
    /// Its server_id.
    pub server_id: u32,
    /// The file to begin with.
    pub file: String,
    /// Where to begin in it.
    pub position: u64,
    /// What it has, encoded, if it counts in GTIDs.
    pub gtids: Option<Vec<u8>>,
    /// The stream ends where the log ends.
    pub ends: bool,
    /// It understands HEARTBEAT_V2.
    pub heartbeat_v2: bool,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpStep {
    /// What has gathered is to be sent; then there is more.
    Send,
    /// What has gathered is to be sent; then there is nothing for now.
    Wait,
    /// What has gathered is to be sent; that was all.
    End,
    /// The connection is killed, or the server stops: nothing is sent any more.
    Cut,
}

/// A stream to one consumer.
pub struct Dump {
    stream: Stream,
    process: Arc<Process>,
    ends: bool,
    /// The view of the files that was sent last.
    view: u64,
    instance: Arc<Instance>,
    /// Of what is read and not sent.
    memory: Charge,
    /// Set for a replica that acknowledges.
    member: Option<Member>,
    /// What it had without being asked.
    had: Option<FileInfo>,
    streaming: Streaming,
}

/// What `gtid_mode` says of transactions that are to leave.
fn leaves(instance: &Arc<Instance>) -> Arc<dyn Fn() -> Leaves + Send + Sync> {
    let instance = Arc::downgrade(instance);
    Arc::new(move || {
        let instance = instance.upgrade();
        let mode = instance.map(|instance| instance.globals.named("gtid_mode"));
        match mode.as_ref().map(VarValue::as_text) {
            Some("ON") => Leaves::Named,
            Some("OFF") => Leaves::Anonymous,
            _ => Leaves::All,
        }
    })
}

impl Session {
    /// COM_REGISTER_SLAVE.
    ///
    /// # Errors
    /// 1045, as in MySQL.
    pub fn register_replica(&mut self, server_id: u32, host: String, port: u16) -> SqlResult<()> {
        self.context.check_password_is_fresh()?;
        self.context.renew_rights();
        self.context
            .require("REPLICATION SLAVE")
            .map_err(|_| self.context.access_denied())?;
        let replica = Registered {
            server_id,
            host,
            port,
            uuid: self.context.announced_uuid(),
        };
        let id = self.connection_id();
        self.context.instance.replicas.register(id, replica);
        Ok(())
    }

    /// May this session become a stream?
    ///
    /// # Errors
    /// 1227, after which it goes on.
    pub fn admit_dump(&mut self) -> SqlResult<()> {
        self.context.check_password_is_fresh()?;
        self.context.renew_rights();
        self.context.require("REPLICATION SLAVE")
    }

    /// COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID, which [`Self::admit_dump`] has let in.
    ///
    /// # Errors
    /// 1773: bad GTIDs; 1236: there is no such place, or not everything that the consumer lacks.
    pub fn begin_dump(&mut self, request: DumpRequest) -> SqlResult<Dump> {
        let instance = Arc::clone(&self.context.instance);
        let log = self.context.binlog_for_streams()?;
        let command = match request.gtids {
            Some(_) => "Binlog Dump GTID",
            None => "Binlog Dump",
        };
        let from = self.context.start_of(&request)?;
        let mut consumer = Consumer {
            server_id: request.server_id,
            uuid: self.context.announced(&["replica_uuid", "slave_uuid"]),
        };
        consumer.uuid.make_ascii_lowercase();
        let is_mariadb = !self
            .context
            .announced(&["mariadb_slave_capability"])
            .is_empty();
        let names = ["rpl_semi_sync_replica", "rpl_semi_sync_slave"];
        let acknowledges = !matches!(&*self.context.announced(&names), "" | "0");
        let request_of_stream = esker_binlog::stream::Request {
            from,
            checksum: self.context.announced_checksum(),
            heartbeat: self.context.announced_heartbeat(),
            acknowledges,
            is_mariadb,
            heartbeat_v2: request.heartbeat_v2 && !is_mariadb,
        };
        let process = Arc::clone(&self.context.process);
        let member = acknowledges.then(|| {
            instance
                .binlog
                .semi_sync()
                .join(process.id, request.server_id)
        });
        let (streaming, before) = instance.replicas.begin_stream(process.id, consumer);
        for id in before {
            // It may have gone by itself.
            if let Ok(process) = instance.registry.find(id) {
                process.kill(true);
            }
        }
        let published = Arc::clone(&log.published);
        let stream = Stream::open(log, request_of_stream).map_err(refused)?;
        // Whoever gives no id is no replica, and does not wait for what is to come.
        let ends = request.ends || request.server_id == 0;
        if ends {
            // Everything that is committed by now; the writer syncs for the stream.
            let end = instance.binlog_files()?.end();
            published.wait(SYNC_WAIT, |view| view.synced >= end);
        }
        process.clear_query_kill();
        process.begin(instance.now_micros(), command, b"");
        process.show_state(SENDING);
        Ok(Dump {
            stream,
            process,
            ends,
            view: 0,
            memory: Charge::new(instance.engine().memory(), MemoryUse::Followers),
            instance,
            member,
            had: None,
            streaming,
        })
    }

    /// The stream is over, and the session waits for a command again.
    pub fn end_dump(&mut self) {
        let now = self.context.instance.now_micros();
        self.context.process.idle(now, false);
    }
}

impl SessionContext {
    fn binlog_for_streams(&self) -> SqlResult<Log> {
        let instance = &self.instance;
        let server_id = instance.globals.named("server_id").as_u64() as u32;
        let sid = instance.globals.named("server_uuid").as_text().parse();
        match (instance.binlog.names(), instance.binlog.published(), sid) {
            (Some(names), Some(published), Ok(sid)) => Ok(Log {
                fs: Arc::clone(&instance.env.fs),
                names: names.clone(),
                published,
                server_id,
                sid,
                leaves: leaves(instance),
            }),
            _ => Err(fatal("Binary log is not open")),
        }
    }

    fn start_of(&self, request: &DumpRequest) -> SqlResult<From> {
        // MariaDB's replicas say in this variable what they have, when they count in GTIDs.
        if self.get("slave_connect_state").is_some() {
            let state = self.announced(&["slave_connect_state"]);
            let own = self.instance.variable_u64("server_id");
            return Ok(From::MariaDb(last_of_domain(&state, own)?));
        }
        let Some(gtids) = &request.gtids else {
            return Ok(From::Position {
                file: request.file.clone(),
                position: request.position,
            });
        };
        let known = GtidSet::decode(gtids)
            .map_err(|_| SqlError::new(1773, "HY000", "Malformed GTID set encoding."))?;
        let mode = self.instance.globals.named("gtid_mode");
        if mode.as_text() != "ON" {
            return Err(fatal(&format!(
                "The replication sender thread cannot start in AUTO_POSITION mode: this server has GTID_MODE = {} \
                 instead of ON.",
                mode.as_text()
            )));
        }
        Ok(From::Gtids {
            known,
            file: request.file.clone(),
            position: request.position,
        })
    }

    /// The first of these user variables that is set.
    fn announcement(&self, names: &[&str]) -> Option<Value> {
        let mut set = names.iter().filter_map(|name| self.get(name));
        set.find_map(|(value, _)| (!value.is_null()).then_some(value))
    }

    /// Its text; empty if none is.
    fn announced(&self, names: &[&str]) -> String {
        match self.announcement(names) {
            Some(Value::Str(text)) => String::from_utf8_lossy(&text).into_owned(),
            Some(Value::Int(n)) => n.to_string(),
            Some(Value::UInt(n)) => n.to_string(),
            Some(Value::Decimal(n)) => n.to_string(),
            _ => String::new(),
        }
    }

    /// Whatever it says, the consumer knows of checksums.
    fn announced_checksum(&self) -> Option<Checksum> {
        let names = ["source_binlog_checksum", "master_binlog_checksum"];
        let value = self.announcement(&names)?;
        Some(match value {
            Value::Str(text) if text.eq_ignore_ascii_case(b"CRC32") => Checksum::Crc32,
            _ => Checksum::None,
        })
    }

    /// It is announced in nanoseconds.
    fn announced_heartbeat(&self) -> Option<Duration> {
        let names = ["source_heartbeat_period", "master_heartbeat_period"];
        let nanos = whole_number(&self.announcement(&names)?);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }

    /// The UUID of the consumer in its usual form; empty if it gives none.
    fn announced_uuid(&self) -> String {
        let text = self.announced(&["replica_uuid", "slave_uuid"]);
        let sid: Option<Sid> = text.parse().ok();
        sid.filter(|_| text.len() == UUID_LENGTH)
            .map_or_else(String::new, |sid| sid.to_string())
    }
}

impl Dump {
    /// Gathers packets, about `enough` bytes.
    ///
    /// # Errors
    /// 1236, also where the consumer has begun another stream.
    pub fn fill(&mut self, sink: &mut dyn PacketSink, enough: usize) -> SqlResult<DumpStep> {
        if self.process.is_killed() {
            return self.ended();
        }
        let filled = self.stream.fill(sink, enough);
        self.memory
            .set(self.stream.buffer_bytes() + sink.gathered());
        self.note_had();
        if let Some(member) = &self.member {
            member.note_asked(self.stream.take_asked());
        }
        match filled.map_err(refused)? {
            Progress::More => {
                self.process.show_state(SENDING);
                Ok(DumpStep::Send)
            }
            Progress::CaughtUp(_) if self.ends => Ok(DumpStep::End),
            Progress::CaughtUp(view) => {
                self.view = view;
                self.process.show_state(WAITING);
                Ok(DumpStep::Wait)
            }
        }
    }

    /// How a stream ends that is killed.
    fn ended(&self) -> SqlResult<DumpStep> {
        if self.streaming.is_superseded() {
            return Err(refused(self.stream.superseded()));
        }
        self.process.clear_query_kill();
        Ok(match self.process.is_killed() {
            true => DumpStep::Cut,
            false => DumpStep::End,
        })
    }

    /// Resolves when there may be more, or the stream is killed.
    pub fn more(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut newer = self.stream.newer(self.view);
        let process = Arc::clone(&self.process);
        std::future::poll_fn(move |cx: &mut Context<'_>| {
            process.wake_on_kill(cx.waker());
            match process.is_killed() {
                true => Poll::Ready(()),
                false => Pin::new(&mut newer).poll(cx),
            }
        })
    }

    /// The consumer has everything before this position.
    pub fn acknowledge(&self, file: &str, position: u64) {
        if let Some(place) = self.stream.acknowledged(file, position) {
            self.note_place(place);
        }
    }

    /// A replica that comes back is not asked for what it has: it counts as acknowledged, as in MySQL.
    fn note_had(&mut self) {
        let had = self.stream.had();
        if self.member.is_some() && self.had != Some(had) {
            self.had = Some(had);
            self.note_place(had);
        }
    }

    fn note_place(&self, place: FileInfo) {
        let published = self.instance.binlog.published();
        if let (Some(member), Some(published)) = (&self.member, published) {
            let place = (self.stream.resets(), place);
            member.acknowledge(&self.instance.engine, &published, place);
        }
    }

    /// A heartbeat is due after this much silence.
    pub fn heartbeat(&self) -> Option<Duration> {
        self.stream.heartbeat()
    }

    /// Says that there is nothing.
    pub fn put_heartbeat(&self, sink: &mut dyn PacketSink) {
        self.stream.put_heartbeat(sink);
    }
}

/// As MySQL reads a variable that is to be a number: of a text the digits that it begins with.
fn whole_number(value: &Value) -> u64 {
    match value {
        Value::Int(n) => u64::try_from(*n).unwrap_or(u64::MAX),
        Value::UInt(n) => *n,
        Value::Double(n) => n.round() as u64,
        Value::Decimal(n) => n.to_i64().0.try_into().unwrap_or(0),
        Value::Str(text) => {
            let digits = text.iter().take_while(|b| b.is_ascii_digit());
            digits.fold(0, |n: u64, b| {
                n.saturating_mul(10).saturating_add(u64::from(b - b'0'))
            })
        }
        _ => 0,
    }
}

/// The number of the last transaction of domain 0 in a list of MariaDB's GTIDs, `domain-server-number` each. Those that
/// this server gives out all have its `own` id: numbers of another one say nothing here.
fn last_of_domain(state: &str, own: u64) -> SqlResult<Option<u64>> {
    let malformed = || fatal("Error in parsing of the connect state of the slave");
    let mut last = None;
    for gtid in state.split(',').map(str::trim).filter(|s| !s.is_empty()) {
        let numbers: Result<Vec<u64>, _> = gtid.split('-').map(str::parse).collect();
        match numbers.as_deref() {
            Ok([0, server, number]) if *server == own => last = Some(*number),
            Ok([0, ..]) => {
                return Err(fatal(&format!(
                    "Error: connecting slave requested to start from GTID {gtid}, which is not in the master's binlog"
                )));
            }
            Ok([_, _, _]) => {}
            _ => return Err(malformed()),
        }
    }
    Ok(last)
}

/// 1236.
fn fatal(why: &str) -> SqlError {
    SqlError::new(1236, "HY000", why)
}

fn refused(e: Refused) -> SqlError {
    fatal(&e.0)
}
