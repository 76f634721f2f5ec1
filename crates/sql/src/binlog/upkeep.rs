//! The upkeep of the files, whoever writes them: what commands change, which files are too old or too many.
//!
//! Neighbours: [`writer`](super::writer) and [`two_phase`](super::two_phase) call this from the thread that serves the
//! files; [`admin`](super::admin) sends the commands. **Invariants**: files go from the oldest on, and never the one
//! that is written.

use std::sync::Arc;
use std::time::{Duration, Instant};

use esker_binlog::Result;
use esker_binlog::derive::Writer as Author;
use esker_binlog::event::Checksum;
use esker_binlog::files::{Commits, Config, FileNumber, FileSet, Names};
use esker_binlog::gtid::{Sid, Source};
use esker_engine::Gathering;
use esker_sql_catalog::mdl::{LockSet, MdlDuration, MdlMode, MdlObject};
use esker_sql_catalog::variables::Globals;
use esker_types::{SqlResult, errors};
use esker_vfs::{Clock, Fs};

use super::writer::{Command, StartArgs};

/// Files are looked at for their age this often.
const EXPIRE_EVERY: Duration = Duration::from_secs(60);

/// What is to be kept of the files.
pub(super) struct Upkeep {
    clock: Arc<dyn Clock>,
    fs: Arc<dyn Fs>,
    names: Names,
    locks: LockSet,
    /// LOCK INSTANCE FOR BACKUP: the files are copied.
    backup: Arc<MdlObject>,
    last_expiry: Instant,
    /// binlog_expire_logs_seconds; 0: never.
    expires: u32,
    /// esker_binlog_space_limit; 0: none.
    space_limit: u64,
}

impl Upkeep {
    pub(super) fn new(args: &StartArgs<'_>, names: Names) -> Self {
        let globals = args.globals;
        let expires = match globals.named("binlog_expire_logs_auto_purge").is_on() {
            true => globals.named("binlog_expire_logs_seconds").as_u64() as u32,
            false => 0,
        };
        Self {
            clock: Arc::clone(&args.env.clock),
            fs: Arc::clone(&args.env.fs),
            names,
            locks: LockSet::new(args.locks),
            backup: Arc::clone(args.locks.backup()),
            last_expiry: Instant::now(),
            expires,
            space_limit: globals.named("esker_binlog_space_limit").as_u64(),
        }
    }

    /// The time for events of the files themselves.
    pub(super) fn now(&self) -> u32 {
        seconds(&*self.clock)
    }

    pub(super) fn now_micros(&self) -> i64 {
        self.clock.wall_micros()
    }

    /// Does what a command says about the files.
    pub(super) fn obey(&mut self, set: &mut FileSet, command: Command) -> Result<()> {
        let now = self.now();
        match command {
            Command::Rotate => {
                set.rotate(now)?;
                self.expire(set)?;
            }
            Command::PurgeTo(number) => set.purge_to(number)?,
            Command::Reset(first) => set.reset(now, first)?,
            Command::AddPurged(gtids) => set.add_purged(&gtids, now)?,
            Command::MaxSize(bytes) => set.set_max_size(bytes),
            Command::Checksum(checksum) => set.set_checksum(checksum, now)?,
            Command::GtidMode(on) => set.set_gtid_mode(on, now)?,
            Command::ServerId(id) => set.set_server_id(id, now)?,
            Command::Expire(seconds) => self.expires = seconds,
            Command::SpaceLimit(bytes) => {
                self.space_limit = bytes;
                self.keep_space_limit(set)?;
            }
            // Of the thread.
            Command::PinnedLimit(_)
            | Command::SyncEvery(_)
            | Command::Gather(_)
            | Command::Stop => {}
        }
        Ok(())
    }

    /// Removes the oldest files where all together have more bytes than they may.
    pub(super) fn keep_space_limit(&mut self, set: &mut FileSet) -> Result<()> {
        if self.space_limit == 0 {
            return Ok(());
        }
        let view = set.published().view();
        let mut total: u64 = view.files.iter().map(|f| f.size).sum();
        let mut keep = view.files.iter().peekable();
        // Never the last one, which is written to.
        while total > self.space_limit
            && keep.len() > 1
            && let Some(oldest) = keep.next()
        {
            total -= oldest.size;
        }
        match keep.peek() {
            Some(first) if first.number != view.files[0].number => self.purge(set, first.number),
            _ => Ok(()),
        }
    }

    /// Now and then removes what is too old.
    pub(super) fn expire_if_due(&mut self, set: &mut FileSet) -> Result<()> {
        match self.last_expiry.elapsed() < EXPIRE_EVERY {
            true => Ok(()),
            false => self.expire(set),
        }
    }

    /// Removes files whose last event is older than `binlog_expire_logs_seconds`.
    fn expire(&mut self, set: &mut FileSet) -> Result<()> {
        if self.expires == 0 {
            return Ok(());
        }
        self.last_expiry = Instant::now();
        let before = self.now().saturating_sub(self.expires);
        let view = set.published().view();
        match super::admin::first_younger(&*self.fs, &self.names, &view, before)? {
            Some(number) => self.purge(set, number),
            None => Ok(()),
        }
    }

    /// Removes the files before this one; not while a backup copies them, but the next time then.
    fn purge(&mut self, set: &mut FileSet, first: FileNumber) -> Result<()> {
        let (mode, duration) = (MdlMode::IntentionExclusive, MdlDuration::Statement);
        if !self.locks.try_acquire(&self.backup, mode, duration) {
            return Ok(());
        }
        let purged = set.purge_to(first);
        self.locks.release_statement();
        purged
    }
}

/// What a sync of TWO-PHASE waits for.
pub(super) fn gathering(globals: &Globals) -> Gathering {
    let delay = globals.named("binlog_group_commit_sync_delay");
    let count = globals.named("binlog_group_commit_sync_no_delay_count");
    Gathering {
        at_most: Duration::from_micros(delay.as_u64()),
        transactions: count.as_u64() as usize,
    }
}

/// The time as events have it.
pub(super) fn seconds(clock: &dyn Clock) -> u32 {
    u32::try_from(clock.wall_micros().div_euclid(1_000_000)).unwrap_or(0)
}

/// What the files are to be like.
pub(super) fn files_config(globals: &Globals, names: Names, commits: Commits) -> SqlResult<Config> {
    Ok(Config {
        names,
        writer: author(globals)?,
        version: globals.named("version").as_text().to_owned(),
        max_size: globals.named("max_binlog_size").as_u64(),
        checksum: checksum(globals.named("binlog_checksum").as_text()),
        commits,
    })
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
