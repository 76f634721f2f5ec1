//! Classic two-phase commit: the files are the log that decides, and a thread keeps them up beside the commits.
//!
//! Neighbours: sessions lead the stages in the engine's ordered commit, which calls [`Deciding`];
//! `esker_binlog::files::GroupedFiles` has the files; [`service`](super::service) starts the thread and sends commands.
//! **Invariants**
//! - What changes the last file (rotation, RESET, another checksum) waits until nothing is under way, and all decisions
//!   are durable: so a start needs the last file alone.
//! - A write that fails is the session's error, and its transaction is rolled back. After a sync that failed nobody
//!   knows what the file has: the process ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use esker_binlog::Error;
use esker_binlog::files::{Commits, FileSet, GroupedFiles, Names};
use esker_engine::{DecidedEntry, DecidingLog, Engine, EngineError, Gathering, Harden, Seq};
use esker_sql_catalog::exec_error::engine_error;
use esker_types::SqlResult;
use esker_vfs::Clock;
use parking_lot::Mutex;

use super::figures::Figures;
use super::semi_sync::SemiSync;
use super::upkeep::{Upkeep, files_config, gathering, seconds};
use super::writer::{Command, Order, StartArgs, failed};

/// The thread looks this often whether something is due.
const IDLE: Duration = Duration::from_millis(20);
/// How far the files are synced is noted this often.
const NOTE_EVERY: Duration = Duration::from_secs(1);

/// The files, as the engine's stages see them.
struct Deciding {
    files: GroupedFiles,
    /// sync_binlog.
    sync_every: AtomicU64,
    /// What a sync waits for.
    gathering: Mutex<Gathering>,
    figures: Arc<Figures>,
    clock: Arc<dyn Clock>,
}

impl DecidingLog for Deciding {
    fn write(&self, group: &[DecidedEntry<'_>]) -> Result<(), EngineError> {
        let attachments = group.iter().map(|entry| entry.attachment);
        match self.files.append(group[0].number, attachments) {
            Ok(_) => Ok(()),
            Err(e @ Error::Sync(_)) => give_up(&e),
            Err(e) => Err(refused(&e)),
        }
    }

    fn gathers(&self) -> Gathering {
        match self
            .files
            .is_sync_due(self.sync_every.load(Ordering::Relaxed))
        {
            true => *self.gathering.lock(),
            false => Gathering::default(),
        }
    }

    fn sync(&self) -> Result<(), EngineError> {
        let every = self.sync_every.load(Ordering::Relaxed);
        match self.files.sync(every) {
            Ok(true) => Figures::add(&self.figures.syncs),
            Ok(false) => {}
            Err(e) => give_up(&e),
        }
        Ok(())
    }

    fn committed(&self, commits: &[Option<Seq>]) {
        self.files.committed(commits);
        let count = commits.len() as u64;
        self.figures
            .transactions
            .fetch_add(count, Ordering::Relaxed);
    }

    fn wants_pause(&self) -> bool {
        self.files.is_full()
    }

    fn pause(&self, visible: Seq) {
        let now = seconds(&*self.clock);
        let rotated = self.files.paused(visible, |set| match set.is_full() {
            // Another leader may have done it.
            true => set.rotate(now),
            false => Ok(()),
        });
        match rotated {
            Ok(()) => {}
            Err(e @ Error::Sync(_)) => give_up(&e),
            // The next group tries again, and is refused if it is in vain.
            Err(e) => tracing::warn!("the binary log could not begin its next file: {e}"),
        }
    }

    fn fail(&self, error: &EngineError) {
        tracing::error!(
            "a transaction in the binary log cannot be committed: {error}; the server ends, and commits it when it starts"
        );
        std::process::abort();
    }
}

impl Deciding {
    /// Does something while nothing is under way.
    fn paused(
        &self,
        engine: &Engine,
        f: impl FnOnce(&mut FileSet) -> esker_binlog::Result<()>,
    ) -> SqlResult<()> {
        let paused = engine
            .while_all_is_decided(|| self.files.paused(engine.visible_seq(), f))
            .map_err(|e| engine_error(&e))?;
        match paused {
            Ok(()) => Ok(()),
            Err(e @ Error::Sync(_)) => give_up(&e),
            Err(Error::Io(e)) if is_full(e.kind()) => Err(super::writer::disk_full()),
            Err(e) => Err(failed(&e)),
        }
    }
}

/// After a sync that failed nobody knows what the file has.
fn give_up(e: &Error) -> ! {
    tracing::error!("{e}; the server ends, and looks what the binary log has when it starts");
    std::process::abort();
}

/// The session's error where its transaction cannot be written.
fn refused(e: &Error) -> EngineError {
    match e {
        Error::Io(io) if is_full(io.kind()) => EngineError::DiskFull("the binary log".into()),
        _ => EngineError::SecondLog(e.to_string().into()),
    }
}

fn is_full(kind: std::io::ErrorKind) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(kind, StorageFull | QuotaExceeded)
}

/// What looks after the files.
pub(super) struct Keeper {
    /// The engine has it, too, so it has no handle of the engine itself.
    deciding: Arc<Deciding>,
    engine: Engine,
    upkeep: Upkeep,
    semi_sync: Option<Arc<SemiSync>>,
    last_note: Instant,
}

impl Keeper {
    /// Opens the files and decides about what a crash has left prepared.
    pub(super) fn open(args: &StartArgs<'_>, names: Names) -> SqlResult<Self> {
        let config = files_config(args.globals, names.clone(), Commits::TwoPhase)?;
        let upkeep = Upkeep::new(args, names);
        let fs = Arc::clone(&args.env.fs);
        let end = args.engine.durable_seq();
        let set = FileSet::open(fs, config, end, upkeep.now()).map_err(|e| failed(&e))?;
        decide(args.engine, set.ordinal())?;
        let deciding = Deciding {
            files: GroupedFiles::new(set),
            sync_every: args.globals.named("sync_binlog").as_u64().into(),
            gathering: Mutex::new(gathering(args.globals)),
            figures: Arc::default(),
            clock: Arc::clone(&args.env.clock),
        };
        let keeper = Self {
            deciding: Arc::new(deciding),
            engine: args.engine.clone(),
            upkeep,
            semi_sync: None,
            last_note: Instant::now(),
        };
        // Everything that was committed before is behind what the files have.
        keeper.deciding.paused(args.engine, |_| Ok(()))?;
        Ok(keeper)
    }

    /// From now on the files decide.
    pub(super) fn begin(&mut self, args: &StartArgs<'_>, semi_sync: Arc<SemiSync>) {
        self.semi_sync = Some(semi_sync);
        let harden = match args.globals.named("esker_binlog_harden").as_text() {
            "PER-TRANSACTION" => Harden::PerTransaction,
            _ => Harden::PerGroup,
        };
        let next = self.deciding.files.published().view().ordinal + 1;
        args.engine.decide_by(self.deciding.clone(), next, harden);
    }

    pub(super) fn files(&self) -> &GroupedFiles {
        &self.deciding.files
    }

    /// What is counted.
    pub(super) fn figures(&self) -> Arc<Figures> {
        Arc::clone(&self.deciding.figures)
    }

    pub(super) fn run(mut self, inbox: &Receiver<Order>) {
        loop {
            match inbox.recv_timeout(IDLE) {
                Ok((Command::Stop, reply)) => {
                    let _ = reply.send(self.close());
                    return;
                }
                Ok((command, reply)) => {
                    let _ = reply.send(self.obey(command));
                }
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Err(e) = self.keep_up() {
                self.bear(&e);
            }
        }
    }

    fn obey(&mut self, command: Command) -> SqlResult<()> {
        let Self {
            deciding,
            engine,
            upkeep,
            ..
        } = self;
        match command {
            Command::SyncEvery(groups) => {
                deciding.sync_every.store(groups, Ordering::Relaxed);
                Ok(())
            }
            Command::Gather(gathering) => {
                *deciding.gathering.lock() = gathering;
                Ok(())
            }
            command if command.is_about_the_end() => {
                deciding.paused(engine, |set| upkeep.obey(set, command))
            }
            command => {
                let done = deciding.files.beside(|set| upkeep.obey(set, command));
                done.map_err(|e| failed(&e))
            }
        }
    }

    /// What is due now and then.
    fn keep_up(&mut self) -> esker_binlog::Result<()> {
        let Self {
            deciding, upkeep, ..
        } = self;
        if self.last_note.elapsed() >= NOTE_EVERY {
            self.last_note = Instant::now();
            // Whatever sync_binlog says, a second is enough.
            deciding.files.sync(1)?;
            deciding.files.note()?;
            deciding.files.beside(|set| upkeep.keep_space_limit(set))?;
        }
        deciding.files.beside(|set| upkeep.expire_if_due(set))?;
        self.tell_sessions();
        Ok(())
    }

    /// Replies that wait for replicas go on as far as those are.
    fn tell_sessions(&self) {
        let Some(semi_sync) = self.semi_sync.as_ref().filter(|s| s.is_enabled()) else {
            return;
        };
        let published = self.deciding.files.published();
        let shown = published.look(|view| view.lsn).0;
        if shown < self.engine.visible_seq() {
            // What is in no file counts with what was logged before it.
            let _ = self.deciding.paused(&self.engine, |_| Ok(()));
        }
        semi_sync.advance(&self.engine, &published);
    }

    /// A full disk is the sessions' affair; after anything else the process ends.
    fn bear(&self, e: &Error) {
        match e {
            Error::Io(io) if is_full(io.kind()) => {
                tracing::warn!("the disk is full: the binary log is not kept up");
            }
            e => give_up(e),
        }
    }

    /// Ends the last file, for the server stops, or goes on in the other way.
    pub(super) fn close(&self) -> SqlResult<()> {
        let now = self.upkeep.now();
        self.deciding
            .paused(&self.engine, |set| set.close(now).map(drop))
    }
}

/// Decides about what is prepared, where the files end with this transaction.
pub(super) fn decide(engine: &Engine, last: u64) -> SqlResult<()> {
    let decided = engine.decide_prepared(last);
    let (committed, rolled_back) = decided.map_err(|e| engine_error(&e))?;
    if committed + rolled_back > 0 {
        tracing::info!(
            committed,
            rolled_back,
            "prepared transactions were decided as the binary log says"
        );
    }
    Ok(())
}
