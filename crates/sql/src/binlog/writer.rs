//! The binlog writer: a thread that follows the durable log and writes the files of the binary log behind it.
//!
//! Neighbours: the engine hands over attachments; `esker_binlog::files` has the files; [`service`](super::service)
//! starts the thread and sends commands.
//! **Invariants**
//! - Nothing is written that is not durable in the log, and the log stays from where the files are synced.
//! - Nobody waits for the writer but those who ask what the files have.
//! - A full disk makes it wait, and commits go on until the log that is kept for it has reached its limit; meanwhile it
//!   obeys what makes room. Any other error of a file ends the process, and the next start derives again.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

use crate::capture::DatabaseFilter;
pub(super) use crate::capture::disk_full;
use esker_binlog::event::Checksum;
use esker_binlog::files::{Commits, FileNumber, FileSet, Names, Published};
use esker_binlog::gtid::GtidSet;
use esker_binlog::spool::Spools;
use esker_engine::{Charge, Engine, Follower, Gathering, MemoryUse, Seq};
use esker_sql_catalog::exec_error::engine_error;
use esker_sql_catalog::mdl::MetadataLocks;
use esker_sql_catalog::variables::Globals;
use esker_types::{SqlError, SqlResult, errors};

use super::figures::Figures;
use super::repair::repair;
use super::semi_sync::SemiSync;
use super::upkeep::{Upkeep, files_config};

/// The name under which the log is kept.
pub(crate) const FOLLOWER: &str = "binlog";
/// The files are synced this often while events come.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// Events that have not been synced yet, at most; bytes of log likewise.
const SYNC_BYTES: u64 = 64 << 20;
/// The writer lets commits gather for this long if somebody waits for them to be in the files.
const GATHER: Duration = Duration::from_millis(1);
/// It goes on gathering for this long while nobody does: each turn costs as much as deriving many transactions.
const GATHER_UNAWAITED: Duration = Duration::from_millis(9);
/// Memory for attachments that the writer keeps from one block of the log to the next.
const KEPT_BYTES: usize = 256 << 10;
/// It looks for commands this often when nothing is committed.
const IDLE: Duration = Duration::from_millis(20);
/// It tries again this often on a full disk.
const STALLED: Duration = Duration::from_secs(1);

/// What the writer is told to do.
pub(super) enum Command {
    Rotate,
    PurgeTo(FileNumber),
    /// The files begin again with this one.
    Reset(FileNumber),
    AddPurged(GtidSet),
    MaxSize(u64),
    Checksum(Checksum),
    GtidMode(bool),
    ServerId(u32),
    Expire(u32),
    SpaceLimit(u64),
    PinnedLimit(u64),
    SyncEvery(u64),
    Gather(Gathering),
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

    /// Does it end the file that is written?
    pub(super) fn is_about_the_end(&self) -> bool {
        matches!(
            self,
            Self::Rotate
                | Self::Reset(_)
                | Self::AddPurged(_)
                | Self::Checksum(_)
                | Self::GtidMode(_)
                | Self::ServerId(_)
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
    pub(crate) locks: &'a MetadataLocks,
    pub(crate) filter: DatabaseFilter,
}

/// 1598: what a file of the binary log ran into.
pub(super) fn failed(e: &esker_binlog::Error) -> SqlError {
    errors::binlog_failed(e)
}

/// Why the writer cannot go on.
pub(super) enum Trouble {
    Files(esker_binlog::Error),
    Log(esker_engine::EngineError),
}

impl Trouble {
    fn is_full_disk(&self) -> bool {
        matches!(self, Self::Files(e) if e.is_full_disk())
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

/// Attachments that were read from the log, one behind the other.
#[derive(Default)]
struct ReadAhead {
    bytes: Vec<u8>,
    /// Their sequences, and where they end.
    ends: Vec<(Seq, usize)>,
    /// How many were taken.
    taken: usize,
}

impl ReadAhead {
    fn push(&mut self, seq: Seq, attachment: &[u8]) {
        self.bytes.extend_from_slice(attachment);
        self.ends.push((seq, self.bytes.len()));
    }

    /// Takes the next one.
    fn take(&mut self) -> Option<(Seq, &[u8])> {
        let (seq, end) = *self.ends.get(self.taken)?;
        let start = match self.taken {
            0 => 0,
            n => self.ends[n - 1].1,
        };
        self.taken += 1;
        Some((seq, &self.bytes[start..end]))
    }

    /// Forgets all, which was taken.
    fn clear(&mut self) {
        debug_assert_eq!(self.taken, self.ends.len());
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.ends.clear();
        self.taken = 0;
    }
}

/// The thread's state.
pub(super) struct FileWriter {
    set: FileSet,
    follower: Follower,
    upkeep: Upkeep,
    /// Attachments that were read and are not in the files yet.
    read: ReadAhead,
    /// Of attachments and of events that are not written.
    memory: Charge,
    last_sync: Instant,
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
        let config = files_config(globals, names.clone(), Commits::OneSync)?;
        let upkeep = Upkeep::new(args, names);
        let fs = Arc::clone(&args.env.fs);
        // A new set begins here: what was committed before belongs to no file.
        let end = args.engine.durable_seq();
        let open = || FileSet::open(fs.clone(), config.clone(), end, upkeep.now());
        let set = match open() {
            Err(e @ esker_binlog::Error::DamagedFile { .. }) => {
                repair(args, &config.names, &e)?;
                open()
            }
            opened => opened,
        };
        let set = set.map_err(|e| failed(&e))?;
        let follower = args
            .engine
            .follow(FOLLOWER, set.lsn())
            .map_err(|e| engine_error(&e))?;
        Ok(Self {
            set,
            follower,
            upkeep,
            read: ReadAhead::default(),
            memory: Charge::new(args.engine.memory(), MemoryUse::Followers),
            last_sync: Instant::now(),
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
        self.upkeep.expire_if_due(&mut self.set)?;
        self.tell_sessions();
        match self.follower.wait().block_for(IDLE) {
            Ok(true) => {
                std::thread::sleep(GATHER);
                self.set.published().gather(GATHER_UNAWAITED);
            }
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
                read.push(record.seq, record.attachment);
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
        let now = self.upkeep.now_micros();
        self.figures.caught_up.store(now, Ordering::Relaxed);
        Ok(())
    }

    fn count_memory(&mut self) {
        self.memory
            .set(self.read.bytes.capacity() + self.set.buffer_bytes());
    }

    /// Puts what was read into the files. After an error what is left is put the next time.
    fn put(&mut self) -> Result<(), Trouble> {
        self.count_memory();
        while let Some((seq, attachment)) = self.read.take() {
            self.set.append(seq, attachment)?;
            Figures::add(&self.figures.transactions);
        }
        self.read.clear();
        Ok(())
    }

    fn sync_if_due(&mut self) -> Result<(), Trouble> {
        let behind = self.set.lsn() - self.set.synced_lsn();
        let is_due = !self.set.is_synced() && self.last_sync.elapsed() >= SYNC_EVERY;
        // Streams send only what is synced.
        let is_awaited = !self.set.is_synced() && self.set.published().has_streams();
        if is_due || is_awaited || behind >= SYNC_BYTES {
            self.sync()?;
            self.upkeep.keep_space_limit(&mut self.set)?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Trouble> {
        let lsn = self.set.sync()?;
        Figures::add(&self.figures.syncs);
        self.last_sync = Instant::now();
        Ok(self.follower.release(lsn)?)
    }

    fn obey(&mut self, command: Command) -> Result<(), Trouble> {
        match command {
            Command::PinnedLimit(bytes) => self.pinned_limit = bytes,
            command => self.upkeep.obey(&mut self.set, command)?,
        }
        Ok(())
    }

    pub(super) fn close(&mut self) -> SqlResult<()> {
        let lsn = self.set.close(self.upkeep.now()).map_err(|e| failed(&e))?;
        let lsn = lsn.min(self.follower.at());
        self.follower.release(lsn).map_err(|e| engine_error(&e))
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
            Err(RecvTimeoutError::Timeout) => self.upkeep.expire_if_due(&mut self.set)?,
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
