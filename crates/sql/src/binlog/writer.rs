//! The binlog writer: a thread that follows the durable log and writes the files of the binary log behind it.
//!
//! Neighbours: the engine hands over attachments; `esker_binlog::files` has the files; [`service`](super::service)
//! starts the thread and sends commands.
//! **Invariants**
//! - Nothing is written that is not durable in the log, and the log stays from where the files are synced.
//! - Nobody waits for the writer but those who ask what the files have.
//! - A full disk makes it wait, and commits go on until the log that is kept for it has reached its limit; meanwhile it
//!   obeys what makes room. Any other error of a file ends the process, and the next start derives again.

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

use esker_binlog::derive::Writer as Author;
use esker_binlog::event::Checksum;
use esker_binlog::files::{Config, FileNumber, FileSet, Names, Published};
use esker_binlog::gtid::{GtidSet, Sid, Source};
use esker_binlog::spool::Spools;
use esker_engine::{Charge, Engine, Follower, MemoryUse, Seq};
use esker_sql_catalog::exec_error::engine_error;
use esker_sql_catalog::variables::Globals;
use esker_types::{SqlError, SqlResult, errors};
use esker_vfs::Clock;

use super::figures::Figures;
use super::semi_sync::SemiSync;

/// The name under which the log is kept.
pub(crate) const FOLLOWER: &str = "binlog";
/// The files are synced this often while events come.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// Events that have not been synced yet, at most; bytes of log likewise.
const SYNC_BYTES: u64 = 64 << 20;
/// The writer lets commits gather for this long.
const GATHER: Duration = Duration::from_millis(1);
/// It looks for commands this often when nothing is committed.
const IDLE: Duration = Duration::from_millis(20);
/// It tries again this often on a full disk.
const STALLED: Duration = Duration::from_secs(1);
/// Files are looked at for their age this often.
const EXPIRE_EVERY: Duration = Duration::from_secs(60);

/// What the writer is told to do.
pub(super) enum Command {
    Rotate,
    PurgeTo(FileNumber),
    Reset,
    AddPurged(GtidSet),
    MaxSize(u64),
    Checksum(Checksum),
    GtidMode(bool),
    Expire(u32),
    SpaceLimit(u64),
    PinnedLimit(u64),
    Stop,
}

impl Command {
    /// Can it be obeyed on a full disk?
    fn makes_room(&self) -> bool {
        matches!(
            self,
            Self::PurgeTo(_) | Self::Expire(_) | Self::SpaceLimit(_) | Self::PinnedLimit(_)
        )
    }
}

pub(super) type Order = (Command, SyncSender<SqlResult<()>>);

/// What a start needs to know.
pub(crate) struct StartArgs<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) env: &'a esker_vfs::Env,
    pub(crate) data_dir: &'a std::path::Path,
    pub(crate) globals: &'a Globals,
}

/// 1598: what a file of the binary log ran into.
pub(super) fn failed(e: &esker_binlog::Error) -> SqlError {
    SqlError::new(
        1598,
        "HY000",
        format!("Binary logging not possible. Message: {e}"),
    )
}

/// 1021: the writer waits for space.
pub(super) fn disk_full() -> SqlError {
    errors::disk_full("binary log", "waiting for someone to free some space...")
}

/// Why the writer cannot go on.
pub(super) enum Trouble {
    Files(esker_binlog::Error),
    Log(esker_engine::EngineError),
}

impl Trouble {
    fn is_full_disk(&self) -> bool {
        matches!(self, Self::Files(esker_binlog::Error::Io(e))
            if matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
    }

    pub(super) fn into_sql(self) -> SqlError {
        match self {
            Self::Files(e) => failed(&e),
            Self::Log(e) => engine_error(&e),
        }
    }
}

impl From<esker_binlog::Error> for Trouble {
    fn from(e: esker_binlog::Error) -> Self {
        Self::Files(e)
    }
}

impl From<esker_engine::EngineError> for Trouble {
    fn from(e: esker_engine::EngineError) -> Self {
        Self::Log(e)
    }
}

/// The thread's state.
pub(super) struct FileWriter {
    set: FileSet,
    follower: Follower,
    clock: Arc<dyn Clock>,
    names: Names,
    fs: Arc<dyn esker_vfs::Fs>,
    /// Attachments that were read and are not in the files yet.
    read: Vec<(Seq, Vec<u8>)>,
    /// Of attachments and of events that are not written.
    memory: Charge,
    last_sync: Instant,
    last_expiry: Instant,
    /// binlog_expire_logs_seconds; 0: never.
    expires: u32,
    /// esker_binlog_space_limit; 0: none.
    space_limit: u64,
    /// esker_log_pinned_limit.
    pinned_limit: u64,
    figures: Arc<Figures>,
    engine: Engine,
    /// Looked after while the thread runs.
    semi_sync: Option<Arc<SemiSync>>,
}

impl FileWriter {
    pub(super) fn open(args: &StartArgs<'_>, names: Names) -> SqlResult<Self> {
        let globals = args.globals;
        let config = Config {
            names: names.clone(),
            writer: author(globals)?,
            version: globals.named("version").as_text().to_owned(),
            max_size: globals.named("max_binlog_size").as_u64(),
            checksum: checksum(globals.named("binlog_checksum").as_text()),
        };
        let clock = Arc::clone(&args.env.clock);
        let fs = Arc::clone(&args.env.fs);
        let now = seconds(&*clock);
        // A new set begins here: what was committed before belongs to no file.
        let end = args.engine.durable_seq();
        let set = FileSet::open(Arc::clone(&fs), config, end, now).map_err(|e| failed(&e))?;
        let follower = args
            .engine
            .follow(FOLLOWER, set.lsn())
            .map_err(|e| engine_error(&e))?;
        let expires = match globals.named("binlog_expire_logs_auto_purge").is_on() {
            true => globals.named("binlog_expire_logs_seconds").as_u64() as u32,
            false => 0,
        };
        Ok(Self {
            set,
            follower,
            clock,
            names,
            fs,
            read: Vec::new(),
            memory: Charge::new(args.engine.memory(), MemoryUse::Followers),
            last_sync: Instant::now(),
            last_expiry: Instant::now(),
            expires,
            space_limit: globals.named("esker_binlog_space_limit").as_u64(),
            pinned_limit: globals.named("esker_log_pinned_limit").as_u64(),
            figures: Arc::default(),
            engine: args.engine.clone(),
            semi_sync: None,
        })
    }

    /// The thread is to look after this, too.
    pub(super) fn serve(&mut self, semi_sync: Arc<SemiSync>) {
        self.semi_sync = Some(semi_sync);
    }

    /// What readers of the files see.
    pub(super) fn published(&self) -> Arc<Published> {
        self.set.published()
    }

    /// Where sessions put the events of large transactions.
    pub(super) fn spools(&self) -> Arc<Spools> {
        self.set.spools()
    }

    /// What it counts.
    pub(super) fn figures(&self) -> Arc<Figures> {
        Arc::clone(&self.figures)
    }

    pub(super) fn run(mut self, inbox: &Receiver<Order>) {
        loop {
            let next = match self.turn(inbox) {
                Ok(next) => next,
                Err(trouble) => self.bear(trouble, inbox),
            };
            if next.is_break() {
                return;
            }
        }
    }

    /// Brings the files to the end of what is durable, obeys one command or does what is due, and waits for more.
    fn turn(&mut self, inbox: &Receiver<Order>) -> Result<ControlFlow<()>, Trouble> {
        self.catch_up()?;
        self.end_stall()?;
        match inbox.try_recv() {
            Ok((Command::Stop, reply)) => {
                let _ = reply.send(self.close());
                return Ok(ControlFlow::Break(()));
            }
            Ok((command, reply)) => {
                let done = self.obey(command).and_then(|()| self.sync());
                let _ = reply.send(done.map_err(Trouble::into_sql));
                return Ok(ControlFlow::Continue(()));
            }
            Err(TryRecvError::Disconnected) => return Ok(ControlFlow::Break(())),
            Err(TryRecvError::Empty) => {}
        }
        self.sync_if_due()?;
        self.expire_if_due()?;
        self.tell_sessions();
        match self.follower.wait().block_for(IDLE) {
            Ok(true) => std::thread::sleep(GATHER),
            Ok(false) => {}
            // The log has ended; whoever ended it says why.
            Err(_) => return Ok(ControlFlow::Break(())),
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Replies that wait for replicas go on as far as those are.
    fn tell_sessions(&self) {
        if let Some(semi_sync) = &self.semi_sync {
            semi_sync.advance(&self.engine, &self.set.published());
        }
    }

    /// Brings the files to the end of what is durable.
    pub(super) fn catch_up(&mut self) -> Result<(), Trouble> {
        // What could not be written before comes first.
        self.set.write()?;
        self.put()?;
        loop {
            let read = &mut self.read;
            let more = self.follower.next(&mut |record| {
                read.push((record.seq, record.attachment.to_vec()));
                Ok(())
            })?;
            if !more {
                break;
            }
            self.put()?;
        }
        self.set.skip_to(self.follower.at().max(self.set.lsn()));
        self.set.write()?;
        self.count_memory();
        self.set.caught_up();
        let now = self.clock.wall_micros();
        self.figures.caught_up.store(now, Ordering::Relaxed);
        Ok(())
    }

    fn count_memory(&mut self) {
        let read: usize = self.read.iter().map(|(_, bytes)| bytes.capacity()).sum();
        self.memory.set(read + self.set.buffer_bytes());
    }

    /// Puts what was read into the files. After an error what is left is put the next time.
    fn put(&mut self) -> Result<(), Trouble> {
        self.count_memory();
        let mut done = 0;
        let mut result = Ok(());
        for (seq, attachment) in &self.read {
            done += 1;
            result = self.set.append(*seq, attachment);
            if result.is_err() {
                break;
            }
            Figures::add(&self.figures.transactions);
        }
        self.read.drain(..done);
        Ok(result?)
    }

    fn sync_if_due(&mut self) -> Result<(), Trouble> {
        let behind = self.set.lsn() - self.set.synced_lsn();
        let is_due = !self.set.is_synced() && self.last_sync.elapsed() >= SYNC_EVERY;
        // Streams send only what is synced.
        let is_awaited = !self.set.is_synced() && self.set.published().has_streams();
        if is_due || is_awaited || behind >= SYNC_BYTES {
            self.sync()?;
            self.keep_space_limit()?;
        }
        Ok(())
    }

    /// Removes the oldest files where all together have more bytes than they may.
    fn keep_space_limit(&mut self) -> Result<(), Trouble> {
        if self.space_limit == 0 {
            return Ok(());
        }
        let view = self.set.published().view();
        let mut total: u64 = view.files.iter().map(|f| f.size).sum();
        let mut keep = view.files.iter().peekable();
        while total > self.space_limit
            && let Some(oldest) = keep.next()
            && keep.peek().is_some()
        {
            total -= oldest.size;
        }
        match keep.peek() {
            Some(first) if first.number != view.files[0].number => {
                Ok(self.set.purge_to(first.number)?)
            }
            _ => Ok(()),
        }
    }

    fn sync(&mut self) -> Result<(), Trouble> {
        let lsn = self.set.sync()?;
        Figures::add(&self.figures.syncs);
        self.last_sync = Instant::now();
        Ok(self.follower.release(lsn)?)
    }

    fn obey(&mut self, command: Command) -> Result<(), Trouble> {
        let now = seconds(&*self.clock);
        match command {
            Command::Rotate => self.set.rotate(now)?,
            Command::PurgeTo(number) => self.set.purge_to(number)?,
            Command::Reset => self.set.reset(now)?,
            Command::AddPurged(gtids) => self.set.add_purged(&gtids, now)?,
            Command::MaxSize(bytes) => self.set.set_max_size(bytes),
            Command::Checksum(checksum) => self.set.set_checksum(checksum, now)?,
            Command::GtidMode(on) => self.set.set_gtid_mode(on, now)?,
            Command::Expire(seconds) => self.expires = seconds,
            Command::SpaceLimit(bytes) => {
                self.space_limit = bytes;
                self.keep_space_limit()?;
            }
            Command::PinnedLimit(bytes) => self.pinned_limit = bytes,
            Command::Stop => {}
        }
        Ok(())
    }

    pub(super) fn close(&mut self) -> SqlResult<()> {
        let now = seconds(&*self.clock);
        let lsn = self.set.close(now).map_err(|e| failed(&e))?;
        let lsn = lsn.min(self.follower.at());
        self.follower.release(lsn).map_err(|e| engine_error(&e))
    }

    /// Removes files whose last event is older than `binlog_expire_logs_seconds`.
    fn expire_if_due(&mut self) -> Result<(), Trouble> {
        if self.expires == 0 || self.last_expiry.elapsed() < EXPIRE_EVERY {
            return Ok(());
        }
        self.last_expiry = Instant::now();
        let before = seconds(&*self.clock).saturating_sub(self.expires);
        let view = self.set.published().view();
        match super::admin::first_younger(&*self.fs, &self.names, &view, before)? {
            Some(number) => Ok(self.set.purge_to(number)?),
            None => Ok(()),
        }
    }

    /// Waits where the disk is full, and ends the process otherwise: what the files have is not known any more.
    fn bear(&mut self, trouble: Trouble, inbox: &Receiver<Order>) -> ControlFlow<()> {
        if !trouble.is_full_disk() {
            let e = trouble.into_sql();
            tracing::error!(
                "{}; the server ends, and derives the files again when it starts",
                e.message
            );
            std::process::abort();
        }
        if self.figures.begin_stall() {
            tracing::warn!(
                "the disk is full: the binary log waits; commits go on until {} bytes of the log are kept for it",
                self.pinned_limit
            );
        }
        self.limit_log();
        self.tell_sessions();
        match self.wait_for_space(inbox) {
            Ok(next) => next,
            Err(trouble) if trouble.is_full_disk() => ControlFlow::Continue(()),
            Err(trouble) => self.bear(trouble, inbox),
        }
    }

    /// The log may grow up to its limit while it is kept.
    fn limit_log(&self) {
        let ceiling = self.set.synced_lsn().saturating_add(self.pinned_limit);
        self.engine.limit_log(Some(ceiling));
    }

    /// Obeys for a while what can be done on a full disk.
    fn wait_for_space(&mut self, inbox: &Receiver<Order>) -> Result<ControlFlow<()>, Trouble> {
        match inbox.recv_timeout(STALLED) {
            Ok((Command::Stop, reply)) => {
                // The next start derives what is missing.
                let _ = reply.send(Err(disk_full()));
                return Ok(ControlFlow::Break(()));
            }
            Ok((command, reply)) => {
                let done = match command.makes_room() {
                    true => self.obey(command).map_err(Trouble::into_sql),
                    false => Err(disk_full()),
                };
                let _ = reply.send(done);
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(ControlFlow::Break(())),
            Err(RecvTimeoutError::Timeout) => self.expire_if_due()?,
        }
        Ok(ControlFlow::Continue(()))
    }

    /// There is space again, if a sync goes well.
    fn end_stall(&mut self) -> Result<(), Trouble> {
        if self.figures.is_stalled() {
            self.sync()?;
            self.engine.limit_log(None);
            self.figures.end_stall();
            tracing::info!("the binary log goes on");
        }
        Ok(())
    }
}

fn seconds(clock: &dyn Clock) -> u32 {
    u32::try_from(clock.wall_micros().div_euclid(1_000_000)).unwrap_or(0)
}

pub(super) fn checksum(name: &str) -> Checksum {
    match name {
        "NONE" => Checksum::None,
        _ => Checksum::Crc32,
    }
}

/// Do new transactions get GTIDs in this gtid_mode?
pub(super) fn gives_gtids(mode: &str) -> bool {
    matches!(mode, "ON" | "ON_PERMISSIVE")
}

/// Who writes the files.
fn author(globals: &Globals) -> SqlResult<Author> {
    let uuid = globals.named("server_uuid");
    let sid: Sid = uuid
        .as_text()
        .parse()
        .map_err(|_| errors::wrong_setting("server_uuid is no UUID"))?;
    let version = globals.named("version");
    Ok(Author {
        source: Source::untagged(sid),
        server_id: globals.named("server_id").as_u64() as u32,
        server_version: version_number(version.as_text()),
        gtid_mode: gives_gtids(globals.named("gtid_mode").as_text()),
    })
}

/// `8.4.0-x` as 80400.
fn version_number(version: &str) -> u32 {
    let mut parts = version
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    next() * 10_000 + next() * 100 + next()
}
