//! The binary log of an instance, as everybody but its writer sees it: start and stop, orders, what the files show.
//!
//! Neighbours: [`writer`](super::writer) is the thread that writes the files; [`admin`](super::admin) sends it commands
//! and waits for what the files show.
//!
//! **Invariants**
//! - Orders are answered, also while the writer waits for space, and when it is gone.
//! - Without [`Binlog::stop`] the files are left as a crash leaves them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use esker_binlog::files::{Commits, Home, Names, Published, View, left_executed, left_open};
use esker_binlog::gtid::GtidSet;
use esker_binlog::spool::Spools;
use esker_engine::{Engine, Seq};
use esker_sql_catalog::exec_error::engine_error;
use esker_sql_catalog::variables::{Globals, VarValue};
use esker_types::{SqlError, SqlResult};
use esker_vfs::Fs;
use parking_lot::Mutex;

use super::figures::Figures;
use super::owned::OwnedGtids;
use super::semi_sync::SemiSync;
use super::two_phase::{self, Keeper};
use super::writer::{Command, FOLLOWER, FileWriter, Order, StartArgs, failed};
use crate::capture::CaptureSettings;

/// Folder of the files in the data directory, and what they are called, where `log_bin` has no name for them.
const FOLDER: &str = "binlog";
const BASE: &str = "binlog";
/// How long a statement waits for the files to have what it is to show.
const SHOW_WAIT: Duration = Duration::from_secs(60);
/// It looks this often whether the writer waits for space itself.
const SHOW_STEP: Duration = Duration::from_millis(50);

/// The binary log of an instance.
#[derive(Default)]
pub(crate) struct Binlog {
    on: AtomicBool,
    running: Mutex<Option<Running>>,
    published: Option<Arc<Published>>,
    names: Option<Names>,
    /// Those of files that may be there from earlier, where there is no binary log now.
    names_left: OnceLock<Names>,
    figures: Arc<Figures>,
    capture_settings: Option<Arc<CaptureSettings>>,
    /// GTIDs that sessions have taken.
    pub(crate) owned: OwnedGtids,
    semi_sync: Arc<SemiSync>,
    /// The files have what the engine has, before it has it.
    decides: bool,
    engine: Option<Engine>,
}

/// The thread that serves the files.
enum Server {
    OneSync(Box<FileWriter>),
    TwoPhase(Box<Keeper>),
}

impl Server {
    fn open(
        args: &StartArgs<'_>,
        names: Names,
        commits: Commits,
        semi_sync: &Arc<SemiSync>,
    ) -> SqlResult<Self> {
        Ok(match commits {
            Commits::OneSync => {
                let mut writer = FileWriter::open(args, names)?;
                writer.serve(Arc::clone(semi_sync));
                Self::OneSync(Box::new(writer))
            }
            Commits::TwoPhase => {
                let mut keeper = Keeper::open(args, names)?;
                keeper.begin(args, Arc::clone(semi_sync));
                Self::TwoPhase(Box::new(keeper))
            }
        })
    }

    /// What readers of the files see.
    fn published(&self) -> Arc<Published> {
        match self {
            Self::OneSync(writer) => writer.published(),
            Self::TwoPhase(keeper) => keeper.files().published(),
        }
    }

    /// Where sessions put the events of large transactions.
    fn spools(&self) -> Arc<Spools> {
        match self {
            Self::OneSync(writer) => writer.spools(),
            Self::TwoPhase(keeper) => keeper.files().spools(),
        }
    }

    /// What it counts.
    fn figures(&self) -> Arc<Figures> {
        match self {
            Self::OneSync(writer) => writer.figures(),
            Self::TwoPhase(keeper) => keeper.figures(),
        }
    }

    fn run(self, inbox: &Receiver<Order>) {
        match self {
            Self::OneSync(writer) => writer.run(inbox),
            Self::TwoPhase(keeper) => keeper.run(inbox),
        }
    }
}

struct Running {
    orders: Sender<Order>,
    thread: JoinHandle<()>,
}

/// Does the engine have to keep its log for the writer until it comes?
pub(crate) fn follows(env: &esker_vfs::Env, data_dir: &Path, globals: &Globals) -> bool {
    let is_open = |names: &Names| {
        let left = left_open(&*env.fs, names);
        matches!(left, Ok(Some(Commits::OneSync)) | Err(_))
    };
    match home(&*env.fs, data_dir).known() {
        Err(_) => true,
        Ok(known) if known.iter().any(is_open) => true,
        Ok(_) => globals.named("log_bin").is_on() && wanted(globals) == Commits::OneSync,
    }
}

/// esker_binlog_commit.
fn wanted(globals: &Globals) -> Commits {
    match globals.named("esker_binlog_commit").as_text() {
        "TWO-PHASE" => Commits::TwoPhase,
        _ => Commits::OneSync,
    }
}

/// Ends files that were left open by a server that did it in another way, or has none now.
fn end_files(args: &StartArgs<'_>, names: Names, commits: Commits) -> SqlResult<()> {
    match commits {
        Commits::TwoPhase => Keeper::open(args, names)?.close(),
        Commits::OneSync => {
            let mut writer = FileWriter::open(args, names)?;
            writer.catch_up().map_err(|e| e.into_sql())?;
            writer.close()?;
            let unfollowed = args.engine.unfollow(FOLLOWER);
            unfollowed.map_err(|e| engine_error(&e))
        }
    }
}

fn home<'a>(fs: &'a dyn Fs, data_dir: &'a Path) -> Home<'a> {
    Home::new(fs, data_dir, Names::new(data_dir.join(FOLDER), BASE))
}

/// What the files are called from now on: as `log_bin` says, or as before.
fn names(args: &StartArgs<'_>) -> SqlResult<Names> {
    let globals = args.globals;
    let home = home(&*args.env.fs, args.data_dir);
    let named = globals.named("log_bin_basename");
    let wanted = (!named.as_text().is_empty()).then(|| Names::of(args.data_dir, named.as_text()));
    let names = home.settle(wanted).map_err(|e| failed(&e))?;
    let index = globals.named("log_bin_index");
    let index = (!index.as_text().is_empty()).then(|| {
        let named = Names::of(args.data_dir, index.as_text());
        named.dir().join(format!("{}.index", named.base()))
    });
    home.indexed(names, index).map_err(|e| failed(&e))
}

impl Binlog {
    /// Opens the files and starts the writer, if log_bin is on; if it was on before a crash, brings the files to
    /// their end.
    ///
    /// # Errors
    /// Damaged files.
    pub(crate) fn start(args: &StartArgs<'_>) -> SqlResult<Self> {
        let names = names(args)?;
        let fs = &args.env.fs;
        let is_on = args.globals.named("log_bin").is_on();
        let commits = wanted(args.globals);
        let left = left_open(&**fs, &names).map_err(|e| failed(&e))?;
        if let Some(left) = left
            && !(is_on && left == commits)
        {
            end_files(args, names.clone(), left)?;
        }
        if !(is_on && commits == Commits::TwoPhase) {
            // Those of a backup, of which the files know nothing: it is of a moment before they were decided.
            two_phase::decide(args.engine, 0)?;
        }
        if !is_on {
            let off = Self::default();
            off.names_left.get_or_init(|| names);
            return Ok(off);
        }
        let semi_sync = Arc::new(SemiSync::default());
        let server = Server::open(args, names.clone(), commits, &semi_sync)?;
        let (published, spools) = (server.published(), server.spools());
        let (transactions, _) = published.look(|view| view.ordinal);
        semi_sync.configure(args.globals, args.engine, transactions);
        let figures = server.figures();
        let capture_settings = CaptureSettings::new(spools, args.globals, args.filter.clone());
        let tell = |name, path: PathBuf| {
            let text = path.display().to_string();
            args.globals.tell(name, VarValue::Text(text.into()));
        };
        tell("log_bin_basename", names.dir().join(names.base()));
        tell("log_bin_index", names.index());
        let (orders, inbox) = channel();
        let thread = std::thread::Builder::new()
            .name("binlog".into())
            .spawn(move || server.run(&inbox))
            .map_err(|e| failed(&e.into()))?;
        Ok(Self {
            on: AtomicBool::new(true),
            running: Mutex::new(Some(Running { orders, thread })),
            published: Some(published),
            names: Some(names),
            names_left: OnceLock::new(),
            figures,
            capture_settings: Some(capture_settings),
            owned: OwnedGtids::default(),
            semi_sync,
            decides: commits == Commits::TwoPhase,
            engine: Some(args.engine.clone()),
        })
    }

    /// Is there a binary log?
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Do the files decide about transactions? They have at once what the engine has.
    pub(crate) fn decides(&self) -> bool {
        self.decides
    }

    /// What the writer has counted.
    pub(super) fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Where sessions gather their events, and what those look like; none without binary log.
    pub(super) fn capture_settings(&self) -> Option<&Arc<CaptureSettings>> {
        self.capture_settings.as_ref()
    }

    /// The names of its files.
    pub(super) fn names(&self) -> Option<&Names> {
        self.names.as_ref()
    }

    /// What the files say is executed of a time when there was a binary log; nothing where there is one now.
    ///
    /// # Errors
    /// Damaged files.
    pub(super) fn left_executed(&self, fs: &dyn Fs) -> SqlResult<GtidSet> {
        let left = self.names_left.get().map(|names| left_executed(fs, names));
        left.transpose()
            .map(Option::unwrap_or_default)
            .map_err(|e| failed(&e))
    }

    /// Figures of semi-synchronous replication.
    pub(crate) fn semi_sync_status(&self) -> Vec<(&'static str, String)> {
        self.semi_sync.status()
    }

    /// FLUSH STATUS.
    pub(crate) fn flush_status(&self) {
        self.semi_sync.flush_status();
    }

    /// What replicas acknowledge.
    pub(super) fn semi_sync(&self) -> &Arc<SemiSync> {
        &self.semi_sync
    }

    /// What readers of the files see.
    pub(crate) fn published(&self) -> Option<Arc<Published>> {
        self.published.clone()
    }

    /// What the files show now.
    pub(crate) fn view(&self) -> Option<View> {
        self.published.as_ref().map(|p| p.view())
    }

    /// What the files have executed; nothing without a binary log.
    pub(crate) fn executed(&self) -> Arc<GtidSet> {
        let published = self.published.as_ref();
        published.map(|p| p.executed()).unwrap_or_default()
    }

    /// What the files show once they have everything up to `seq`, which is durable. Less, if the writer waits for
    /// space or does not get there in time.
    pub(super) fn view_at(&self, seq: Seq) -> Option<View> {
        let published = self.published.as_ref()?;
        if let Some(engine) = self.engine.as_ref().filter(|_| self.decides) {
            engine.await_decisions();
            let mut view = published.view();
            view.lsn = view.lsn.max(seq);
            return Some(view);
        }
        let begun = Instant::now();
        loop {
            let view = published.wait(SHOW_STEP, |view| view.lsn >= seq);
            if view.lsn >= seq || self.figures.is_stalled() || begun.elapsed() >= SHOW_WAIT {
                return Some(view);
            }
        }
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
    pub(crate) fn release_replies(&self) {
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
