//! The binlog writer: a thread that follows the durable log and writes the files of the binary log behind it.
//!
//! Neighbours: the engine hands over attachments; `esker_binlog::files` has the files; [`admin`](super::admin) sends
//! commands and
//! waits for what the files show.
//! **Invariants**
//! - Nothing is written that is not durable in the log, and the log stays from where the files are synced.
//! - Nobody waits for the writer but those who ask what the files have.
//! - A full disk makes it wait; any other error of a file ends the process, and the next start derives again.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::semi_sync::SemiSync;
use esker_binlog::derive::Writer as Author;
use esker_binlog::event::Checksum;
use esker_binlog::files::{Config, FileNumber, FileSet, Names, Published, View, were_left_open};
use esker_binlog::gtid::{GtidSet, Sid, Source};
use esker_engine::{Engine, Follower, Seq};
use esker_sql_catalog::exec_error::engine_error;
use esker_sql_catalog::variables::{Globals, VarValue};
use esker_types::{SqlError, SqlResult};
use esker_vfs::Clock;
use parking_lot::Mutex;

use super::figures::Figures;
use super::owned::OwnedGtids;
/// The name under which the log is kept.
pub(crate) const FOLLOWER: &str = "binlog";
/// Folder of the files in the data directory, and what they are called.
const FOLDER: &str = "binlog";
const BASE: &str = "binlog";
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
/// How long a statement waits for the files to have what it is to show.
const SHOW_WAIT: Duration = Duration::from_secs(60);

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
    Stop,
}

type Order = (Command, SyncSender<SqlResult<()>>);

/// The binary log of an instance.
#[derive(Default)]
pub(crate) struct Binlog {
    on: AtomicBool,
    running: Mutex<Option<Running>>,
    published: Option<Arc<Published>>,
    names: Option<Names>,
    figures: Arc<Figures>,
    /// GTIDs that sessions have taken.
    pub(crate) owned: OwnedGtids,
    semi_sync: Arc<SemiSync>,
    engine: Option<Engine>,
}

struct Running {
    orders: Sender<Order>,
    thread: JoinHandle<()>,
}

/// What a start needs to know.
pub(crate) struct StartArgs<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) env: &'a esker_vfs::Env,
    pub(crate) data_dir: &'a std::path::Path,
    pub(crate) globals: &'a Globals,
}

/// Does the engine have to keep its log for the writer until it comes?
pub(crate) fn follows(env: &esker_vfs::Env, data_dir: &std::path::Path, globals: &Globals) -> bool {
    globals.named("log_bin").is_on() || were_left_open(&*env.fs, &names(data_dir)).unwrap_or(true)
}

fn names(data_dir: &std::path::Path) -> Names {
    Names::new(data_dir.join(FOLDER), BASE)
}

impl Binlog {
    /// Opens the files and starts the writer, if log_bin is on; if it was on before a crash, brings the files to
    /// their end.
    ///
    /// # Errors
    /// Damaged files.
    pub(crate) fn start(args: &StartArgs<'_>) -> SqlResult<Self> {
        let names = names(args.data_dir);
        let fs = &args.env.fs;
        let is_on = args.globals.named("log_bin").is_on();
        if !is_on {
            let left_open = were_left_open(&**fs, &names).map_err(|e| failed(&e))?;
            if left_open {
                let mut writer = FileWriter::open(args, names)?;
                writer.catch_up().map_err(|e| e.into_sql())?;
                writer.close()?;
                args.engine
                    .unfollow(FOLLOWER)
                    .map_err(|e| engine_error(&e))?;
            }
            return Ok(Self::default());
        }
        let semi_sync = Arc::new(SemiSync::default());
        semi_sync.configure(args.globals, args.engine);
        let mut writer = FileWriter::open(args, names.clone())?;
        writer.semi_sync = Some((Arc::clone(&semi_sync), args.engine.clone()));
        let published = writer.set.published();
        let figures = Arc::clone(&writer.figures);
        let tell = |name, path: PathBuf| {
            let text = path.display().to_string();
            args.globals.tell(name, VarValue::Text(text.into()));
        };
        tell("log_bin_basename", args.data_dir.join(FOLDER).join(BASE));
        tell("log_bin_index", names.index());
        let (orders, inbox) = channel();
        let thread = std::thread::Builder::new()
            .name("binlog".into())
            .spawn(move || writer.run(&inbox))
            .map_err(|e| failed(&e.into()))?;
        Ok(Self {
            on: AtomicBool::new(true),
            running: Mutex::new(Some(Running { orders, thread })),
            published: Some(published),
            names: Some(names),
            figures,
            owned: OwnedGtids::default(),
            semi_sync,
            engine: Some(args.engine.clone()),
        })
    }

    /// Is there a binary log?
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// What the writer has counted.
    pub(super) fn figures(&self) -> &Figures {
        &self.figures
    }

    /// The names of its files.
    pub(super) fn names(&self) -> Option<&Names> {
        self.names.as_ref()
    }

    /// Figures of semi-synchronous replication.
    pub(crate) fn semi_sync_status(&self) -> Vec<(&'static str, String)> {
        self.semi_sync.status()
    }

    /// What replicas acknowledge.
    pub(super) fn semi_sync(&self) -> &Arc<SemiSync> {
        &self.semi_sync
    }

    /// What readers of the files see.
    pub(super) fn published(&self) -> Option<Arc<Published>> {
        self.published.clone()
    }

    /// What the files show now.
    pub(crate) fn view(&self) -> Option<View> {
        self.published.as_ref().map(|p| p.view())
    }

    /// What the files show once they have everything up to `seq`, which is durable.
    pub(super) fn view_at(&self, seq: Seq) -> Option<View> {
        let published = self.published.as_ref()?;
        Some(published.wait(SHOW_WAIT, |view| view.lsn >= seq))
    }

    /// Waits at most this long for a state of the files.
    pub(super) fn wait(&self, at_most: Duration, is_there: impl Fn(&View) -> bool) -> Option<View> {
        let published = self.published.as_ref()?;
        Some(published.wait(at_most, is_there))
    }

    /// Has the writer do something, and waits for it.
    ///
    /// # Errors
    /// 1381 without binary log; what came of the command.
    pub(super) fn order(&self, command: Command) -> SqlResult<()> {
        let (reply, answer) = sync_channel(1);
        match &*self.running.lock() {
            Some(running) if running.orders.send((command, reply)).is_ok() => {}
            _ => return Err(not_logging()),
        }
        answer.recv().unwrap_or_else(|_| Err(not_logging()))
    }

    /// The server stops: the files get what is in the log, and their end.
    pub(crate) fn stop(&self) {
        if !self.on.swap(false, Ordering::Relaxed) {
            return;
        }
        self.release_replies();
        if let Err(e) = self.order(Command::Stop) {
            tracing::warn!("the binary log was not closed: {}", e.message);
        }
        self.join();
    }

    /// Nobody waits for replicas any more.
    fn release_replies(&self) {
        if let Some(engine) = &self.engine {
            self.semi_sync.stop(engine);
        }
    }

    fn join(&self) {
        if let Some(running) = self.running.lock().take() {
            drop(running.orders);
            let _ = running.thread.join();
        }
    }
}

impl Drop for Binlog {
    /// Without [`Binlog::stop`] the files are left as a crash leaves them.
    fn drop(&mut self) {
        self.join();
    }
}

/// 1381.
pub(super) fn not_logging() -> SqlError {
    SqlError::new(1381, "HY000", "You are not using binary logging")
}

/// 1598: what a file of the binary log ran into.
pub(super) fn failed(e: &esker_binlog::Error) -> SqlError {
    SqlError::new(
        1598,
        "HY000",
        format!("Binary logging not possible. Message: {e}"),
    )
}

/// Why the writer cannot go on.
enum Trouble {
    Files(esker_binlog::Error),
    Log(esker_engine::EngineError),
}

impl Trouble {
    fn is_full_disk(&self) -> bool {
        matches!(self, Self::Files(esker_binlog::Error::Io(e))
            if matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
    }

    fn into_sql(self) -> SqlError {
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
struct FileWriter {
    set: FileSet,
    follower: Follower,
    clock: Arc<dyn Clock>,
    names: Names,
    fs: Arc<dyn esker_vfs::Fs>,
    /// Attachments that were read and are not in the files yet.
    read: Vec<(Seq, Vec<u8>)>,
    last_sync: Instant,
    last_expiry: Instant,
    /// binlog_expire_logs_seconds; 0: never.
    expires: u32,
    /// esker_binlog_space_limit; 0: none.
    space_limit: u64,
    figures: Arc<Figures>,
    /// Looked after while the thread runs.
    semi_sync: Option<(Arc<SemiSync>, Engine)>,
}

impl FileWriter {
    fn open(args: &StartArgs<'_>, names: Names) -> SqlResult<Self> {
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
            last_sync: Instant::now(),
            last_expiry: Instant::now(),
            expires,
            space_limit: globals.named("esker_binlog_space_limit").as_u64(),
            figures: Arc::default(),
            semi_sync: None,
        })
    }

    fn run(mut self, inbox: &Receiver<Order>) {
        loop {
            if let Err(trouble) = self.catch_up() {
                self.bear(trouble);
                continue;
            }
            match inbox.try_recv() {
                Ok((Command::Stop, reply)) => {
                    let _ = reply.send(self.close());
                    return;
                }
                Ok((command, reply)) => {
                    let done = self.obey(command);
                    let _ = reply.send(done.map_err(Trouble::into_sql));
                    continue;
                }
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => {}
            }
            let done = self.sync_if_due().and_then(|()| self.expire_if_due());
            if let Some((semi_sync, engine)) = &self.semi_sync {
                semi_sync.advance(engine, &self.set.published());
            }
            if let Err(trouble) = done {
                self.bear(trouble);
            }
            match self.follower.wait().block_for(IDLE) {
                Ok(true) => std::thread::sleep(GATHER),
                Ok(false) => {}
                // The log has ended; whoever ended it says why.
                Err(_) => return,
            }
        }
    }

    /// Brings the files to the end of what is durable.
    fn catch_up(&mut self) -> Result<(), Trouble> {
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
        let now = self.clock.wall_micros();
        self.figures.caught_up.store(now, Ordering::Relaxed);
        Ok(())
    }

    /// Puts what was read into the files. After an error what is left is put the next time.
    fn put(&mut self) -> Result<(), Trouble> {
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
            Command::Stop => {}
        }
        self.sync()
    }

    fn close(self) -> SqlResult<()> {
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
    fn bear(&mut self, trouble: Trouble) {
        if trouble.is_full_disk() {
            Figures::add(&self.figures.stalls);
            tracing::warn!("the disk is full: the binary log waits; commits go on");
            std::thread::sleep(STALLED);
            return;
        }
        let e = trouble.into_sql();
        tracing::error!(
            "{}; the server ends, and derives the files again when it starts",
            e.message
        );
        std::process::abort();
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
        .map_err(|_| SqlError::new(1236, "HY000", "server_uuid is no UUID"))?;
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
