//! The binary log under power loss: transactions with attachments, crashes at random I/O; either files are derived from
//! the log (one sync), or they decide about what is prepared (two-phase), stage by stage. Some transactions are
//! branches of a client's (XA): prepared first, and decided later, perhaps in another life. Some bring extents.
//!
//! Neighbours: the engine and `esker-binlog`'s files are driven by hand on one simulated disk; the kill -9 test of the
//! `esker` binary does the same over the protocol; `decoded` reads the files; `points` crashes at every operation.
//! **Invariants checked** after every crash:
//! what the files say, applied to nothing, is what a scan of the table gives; every transaction that could be told is
//! in the files, once, in the order of commits, with the GTIDs 1, 2, 3 and so on; what was in synced files before is
//! still there; prepared is what the files say is prepared, and not decided.

mod decoded;
pub mod points;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use esker_binlog::attachment::{Head, Numbering, What, head_bytes, push_event};
use esker_binlog::derive::Writer;
use esker_binlog::event::group::XaPrepare;
use esker_binlog::event::query::Query;
use esker_binlog::event::{Checksum, EventType};
use esker_binlog::files::{Commits, Config, FileSet, GroupedFiles, Names, Published};
use esker_binlog::gtid::{Sid, Source};
use esker_engine::{
    CommitStage, DecidedEntry, DecidingLog, Direction, Engine, EngineConfig, EngineError, Follower,
    Harden, Isolation, LockMode, Mode, Namespace, PendingCommit, PreparedId, Seq, Tree, Txn, View,
    WaitPolicy,
};
use esker_vfs::sim::{SimEnv, SimRng};
use parking_lot::Mutex;

use decoded::Decoded;

/// The name under which the log is kept.
const FOLLOWER: &str = "binlog";
const KEYS: u64 = 24;
/// Power goes within this many disk operations of a life.
const LIFE_OPS: u64 = 300;
/// Largest value, bytes: memtables fill, files rotate.
const MAX_VALUE: u64 = 500;
/// What a transaction keeps in memory, bytes; some change more.
const TXN_MEMORY: u64 = 4 << 10;
/// Changes of a transaction that does not fit there.
const MANY_CHANGES: u64 = 20;
/// A file is followed by another one from this size on.
const MAX_FILE: u64 = 3000;
/// Steps of a life whose power does not go.
const STEPS: u32 = 120;

/// What a run did, for tests that want to know that something happened.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Transactions in the files at the end.
    pub transactions: u64,
    /// Files at the end.
    pub files: u64,
    /// Transactions that have brought extents, over all lives.
    pub ingests: u64,
}

type Table = BTreeMap<u8, Vec<u8>>;

fn engine_config(commits: Commits) -> EngineConfig {
    let mut config = EngineConfig::new("/db");
    config.mode = Mode::Manual;
    config.memory_limit = 1 << 20;
    config.memtable_bytes = 8 << 10;
    config.log_segment_bytes = 64 << 10;
    config.log_buffer_bytes = 64 << 10;
    config.log_limit_bytes = 256 << 10;
    config.txn_memory_bytes = TXN_MEMORY;
    config.on_fatal = Arc::new(|_| {});
    config.followers = match commits {
        Commits::OneSync => vec![FOLLOWER],
        Commits::TwoPhase => Vec::new(),
    };
    config
}

fn files_config(commits: Commits) -> Config {
    Config {
        names: Names::new(PathBuf::from("/db/binlog"), "binlog"),
        writer: Writer {
            source: Source::untagged(Sid([9; 16])),
            server_id: 1,
            server_version: 80_400,
            gtid_mode: true,
        },
        version: "8.4.0".to_owned(),
        max_size: MAX_FILE,
        checksum: Checksum::Crc32,
        commits,
    }
}

/// Why a life ends early.
enum Stop {
    Engine(EngineError),
    Files(esker_binlog::Error),
}

impl From<EngineError> for Stop {
    fn from(e: EngineError) -> Self {
        Self::Engine(e)
    }
}

impl From<esker_binlog::Error> for Stop {
    fn from(e: esker_binlog::Error) -> Self {
        Self::Files(e)
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Engine(e) => e.fmt(f),
            Self::Files(e) => e.fmt(f),
        }
    }
}

/// A server that is up.
struct Life {
    engine: Engine,
    table: Tree,
    files: Files,
}

/// How its transactions come into the files.
enum Files {
    Derived(Box<FileSet>, Box<Follower>),
    Deciding(Arc<Deciding>),
}

/// The files as the log that decides.
struct Deciding {
    files: GroupedFiles,
    failed: Mutex<Option<EngineError>>,
}

impl Deciding {
    /// An error of the files, after which the process would end, the simulation ends this life.
    fn refused(e: &esker_binlog::Error) -> EngineError {
        EngineError::Log(e.to_string().into())
    }
}

impl DecidingLog for Deciding {
    fn write(&self, group: &[DecidedEntry<'_>]) -> Result<(), EngineError> {
        let attachments = group.iter().map(|entry| entry.attachment);
        let appended = self.files.append(group[0].number, attachments);
        appended.map(drop).map_err(|e| Self::refused(&e))
    }

    fn sync(&self) -> Result<(), EngineError> {
        let synced = self.files.sync(1);
        synced.map(drop).map_err(|e| Self::refused(&e))
    }

    fn committed(&self, commits: &[Option<Seq>]) {
        if self.failed.lock().is_none() {
            self.files.committed(commits);
        }
    }

    fn wants_pause(&self) -> bool {
        self.files.is_full()
    }

    fn pause(&self, _: Seq) {}

    fn fail(&self, error: &EngineError) {
        self.failed.lock().get_or_insert_with(|| error.clone());
    }
}

impl Life {
    fn begin(sim: &SimEnv, commits: Commits) -> Result<Self, Stop> {
        let engine = Engine::open(sim.env(), engine_config(commits))?;
        let table = match engine.tree_ids().first() {
            Some(id) => engine.tree(*id).ok_or(EngineError::NoSuchTree(*id))?,
            None => engine.create_tree()?,
        };
        let fs = sim.env().fs;
        let set = FileSet::open(fs, files_config(commits), engine.durable_seq(), 100)?;
        let files = match commits {
            Commits::OneSync => {
                let follower = engine.follow(FOLLOWER, set.lsn())?;
                Files::Derived(Box::new(set), Box::new(follower))
            }
            Commits::TwoPhase => {
                let last = set.ordinal();
                engine.decide_prepared(last)?;
                let deciding = Arc::new(Deciding {
                    files: GroupedFiles::new(set),
                    failed: Mutex::default(),
                });
                engine.decide_by(deciding.clone(), last + 1, Harden::PerGroup);
                Files::Deciding(deciding)
            }
        };
        Ok(Self {
            engine,
            table,
            files,
        })
    }

    fn published(&self) -> Arc<Published> {
        match &self.files {
            Files::Derived(set, _) => set.published(),
            Files::Deciding(deciding) => deciding.files.published(),
        }
    }

    /// Brings the files to the end of what is durable; takes what is under way a step further.
    fn derive(&mut self, stage: CommitStage) -> Result<(), Stop> {
        match &mut self.files {
            Files::Derived(set, follower) => derive(set, follower),
            Files::Deciding(deciding) => {
                self.engine.run_commit_stage(stage);
                let failed = deciding.failed.lock().clone();
                failed.map_or(Ok(()), |e| Err(e.into()))
            }
        }
    }

    fn sync(&mut self) -> Result<(), Stop> {
        match &mut self.files {
            Files::Derived(set, follower) => {
                derive(set, follower)?;
                let lsn = set.sync()?;
                Ok(follower.release(lsn)?)
            }
            Files::Deciding(_) => {
                self.finish()?;
                match &self.files {
                    Files::Deciding(deciding) => Ok(deciding.files.note()?),
                    Files::Derived(..) => Ok(()),
                }
            }
        }
    }

    /// Everything that is under way ends.
    fn finish(&mut self) -> Result<(), Stop> {
        for stage in [CommitStage::Flush, CommitStage::Sync, CommitStage::Commit] {
            self.derive(stage)?;
        }
        Ok(())
    }

    fn rotate(&mut self) -> Result<(), Stop> {
        self.finish()?;
        match &mut self.files {
            Files::Derived(set, _) => Ok(set.rotate(100)?),
            Files::Deciding(deciding) => {
                let end = self.engine.visible_seq();
                let rotated = self
                    .engine
                    .while_all_is_decided(|| deciding.files.paused(end, |set| set.rotate(100)));
                Ok(rotated??)
            }
        }
    }

    /// The engine's commit, or its beginning.
    fn commit(&self, txn: &mut Txn) -> Result<Committed, Stop> {
        Ok(match self.files {
            Files::Derived(..) => Committed::At(txn.commit()?.seq.unwrap_or(0)),
            Files::Deciding(_) => Committed::Pending(txn.enter_commit()?),
        })
    }

    /// The same for a branch that is prepared.
    fn prepare(&self, txn: &mut Txn, branch: u64) -> Result<Committed, Stop> {
        let id = branch_id(branch);
        Ok(match self.files {
            Files::Derived(..) => Committed::At(txn.prepare(&id)?),
            Files::Deciding(_) => Committed::Pending(txn.enter_prepare(&id)?),
        })
    }

    /// The same for the decision about it.
    fn decide(&self, branch: u64, commits: bool, attachment: &[u8]) -> Result<Committed, Stop> {
        let id = branch_id(branch);
        let decided = match (&self.files, commits) {
            (Files::Deciding(_), _) => {
                let pending = self.engine.enter_decision(&id, commits, attachment)?;
                return Ok(Committed::Pending(pending));
            }
            (Files::Derived(..), true) => self.engine.commit_prepared(&id, attachment)?,
            (Files::Derived(..), false) => self.engine.rollback_prepared(&id, attachment)?,
        };
        Ok(Committed::At(decided.seq.unwrap_or(0)))
    }

    /// The branches that are prepared.
    fn branches(&self) -> BTreeSet<u64> {
        let prepared = self.engine.prepared().into_iter();
        let branches = prepared.map(|(id, _)| {
            assert_eq!(id.namespace(), Namespace::Xa, "all else is decided");
            u64::from_le_bytes(id.bytes().try_into().expect("eight bytes"))
        });
        branches.collect()
    }
}

fn branch_id(branch: u64) -> PreparedId {
    PreparedId::xa(&branch.to_le_bytes())
}

/// What the files get of a transaction without its events.
fn head(what: What, number: u64, xid: Option<XaPrepare>) -> Vec<u8> {
    head_bytes(&Head {
        what,
        commit_micros: 100_000_000 + number,
        begin_time: 100,
        thread_id: 1,
        numbering: Numbering::default(),
        origin: None,
        xid,
        schema: b"d",
        settings: b"",
        has_statements: what == What::Statement,
        compressed: None,
        spooled: None,
        write_set: None,
    })
}

fn derive(set: &mut FileSet, follower: &mut Follower) -> Result<(), Stop> {
    loop {
        let mut read: Vec<(Seq, Vec<u8>)> = Vec::new();
        let more = follower.next(&mut |record| {
            read.push((record.seq, record.attachment.to_vec()));
            Ok(())
        })?;
        for (seq, attachment) in read {
            set.append(seq, &attachment)?;
        }
        if !more {
            break;
        }
    }
    set.skip_to(follower.at().max(set.lsn()));
    Ok(set.write()?)
}

/// How far the commit of a transaction is.
enum Committed {
    /// Its record is at this place.
    At(Seq),
    Pending(PendingCommit),
    /// It may be told.
    Told,
}

impl Committed {
    fn is_told(&mut self, durable: Seq) -> bool {
        let is_told = match self {
            Self::At(seq) => *seq <= durable,
            Self::Pending(pending) => matches!(pending.result(), Some(Ok(_))),
            Self::Told => true,
        };
        if is_told {
            *self = Self::Told;
        }
        is_told
    }
}

/// One database over several lives.
struct World {
    commits: Commits,
    dice: SimRng,
    /// Number of the next transaction.
    next: u64,
    /// Transactions that were committed, in the order of the log.
    committed: Vec<(Committed, u64)>,
    /// How many of them could be told at some time.
    told: usize,
    /// What synced files had.
    synced: Vec<u64>,
    /// Branches that are prepared, or soon will be, and that nobody has decided about.
    branches: Vec<u64>,
    /// Commits that brought extents.
    ingests: u64,
}

/// Runs one seed with `lives` crashes.
///
/// # Panics
/// When a promise is broken; the message has the seed.
pub fn run(seed: u64, lives: u32, commits: Commits) -> Report {
    let mut sim = SimEnv::new(seed);
    let mut world = World::new(seed, commits);
    let context = seed.to_string();
    let mut report = Report::default();
    for life in 0..lives {
        let ops = sim.fs.ops();
        sim.fs.halt_at(ops + 1 + world.dice.below(LIFE_OPS));
        world.live(&sim, &context);
        sim = sim.crash(seed.wrapping_mul(31) + u64::from(life));
        if world.dice.chance(40) {
            // The power goes again while the first crash is repaired.
            let ops = sim.fs.ops();
            sim.fs.halt_at(ops + 1 + world.dice.below(60));
            if let Ok(mut repaired) = Life::begin(&sim, commits) {
                let _ = repaired.sync();
            }
            sim = sim.crash(seed.wrapping_mul(37) + u64::from(life));
        }
        report = world.recover(&sim, &context);
        sim = sim.crash(seed.wrapping_mul(41) + u64::from(life));
    }
    report
}

impl World {
    fn new(seed: u64, commits: Commits) -> Self {
        Self {
            commits,
            dice: SimRng::new(seed ^ 0xB109),
            next: 1,
            committed: Vec::new(),
            told: 0,
            synced: Vec::new(),
            branches: Vec::new(),
            ingests: 0,
        }
    }

    /// Lives until the steps are done or the power goes; `seed` is for messages.
    fn live(&mut self, sim: &SimEnv, seed: &str) {
        let ended = Life::begin(sim, self.commits).and_then(|mut life| {
            for _ in 0..STEPS {
                let ended = self.step(sim, &mut life);
                // What a stage has told before the power went counts, too.
                let durable = life.engine.durable_seq();
                let mut rest = self.committed[self.told..].iter_mut();
                while rest
                    .next()
                    .is_some_and(|(committed, _)| committed.is_told(durable))
                {
                    self.told += 1;
                }
                ended?;
                life.engine.validate();
            }
            Ok(())
        });
        if let Err(e) = ended {
            assert!(!sim.fs.has_power(), "seed {seed}: {e} with the power on");
        }
    }

    fn step(&mut self, sim: &SimEnv, life: &mut Life) -> Result<(), Stop> {
        match self.dice.below(14) {
            0..=5 => self.transaction(life, false)?,
            12 => self.transaction(life, true)?,
            13 => self.decide(life)?,
            6 | 7 => life.engine.flush_log()?,
            8 => {
                life.engine.maintain()?;
            }
            9 => {
                let stages = [CommitStage::Flush, CommitStage::Sync, CommitStage::Commit];
                life.derive(stages[self.dice.below(3) as usize])?;
            }
            10 => {
                life.sync()?;
                if self.dice.chance(20) {
                    self.synced = Decoded::read(sim, &life.published())?.numbers;
                }
            }
            _ => life.rotate()?,
        }
        Ok(())
    }

    /// Decides about a branch whose client knows that it is prepared.
    fn decide(&mut self, life: &Life) -> Result<(), Stop> {
        let mut told = self.committed.iter().filter_map(|(committed, number)| {
            matches!(committed, Committed::Told).then_some(*number)
        });
        let nth = self.branches.iter().position(|b| told.any(|t| t == *b));
        let Some(nth) = nth else {
            return Ok(());
        };
        let branch = self.branches.remove(nth);
        let (number, commits) = (self.next, self.dice.chance(70));
        self.next += 1;
        let mut body = Vec::new();
        let text = format!("DECIDE {number} {branch} {commits}");
        let query = Query {
            thread_id: 1,
            seconds: 0,
            error: 0,
            schema: b"",
            settings: b"",
            text: text.as_bytes(),
        };
        query.write(&mut body);
        let mut attachment = head(What::Statement, number, None);
        push_event(EventType::Query, 0, 100, &body, &mut attachment);
        let decided = life.decide(branch, commits, &attachment)?;
        self.committed.push((decided, number));
        Ok(())
    }

    /// A transaction; one that is a branch ends with its prepare.
    fn transaction(&mut self, life: &Life, is_branch: bool) -> Result<(), Stop> {
        let number = self.next;
        self.next += 1;
        let mut txn = life.engine.begin(Isolation::RepeatableRead);
        let mut events = Vec::new();
        let mut event = |body: &[u8]| push_event(EventType::RowsQuery, 0, 100, body, &mut events);
        event(&number.to_le_bytes());
        let changes = match !is_branch && self.dice.chance(12) {
            true => MANY_CHANGES,
            false => 1 + self.dice.below(3),
        };
        for _ in 0..changes {
            let key = self.dice.below(KEYS) as u8;
            let (mode, wait) = (LockMode::Exclusive, WaitPolicy::NoWait);
            match txn.lock(life.table.id(), &[key], mode, wait) {
                Err(EngineError::LockNotAvailable) => return Ok(()),
                locked => drop(locked?),
            }
            match self.dice.chance(25) {
                true => {
                    txn.delete(&life.table, &[key])?;
                    event(&[key, 0]);
                }
                false => {
                    let mut body = vec![key, 1];
                    body.extend_from_slice(&number.to_le_bytes());
                    body.resize(body.len() + self.dice.below(MAX_VALUE) as usize, b'.');
                    txn.put(&life.table, &[key], &body[2..])?;
                    event(&body);
                }
            }
        }
        if self.dice.chance(10) {
            txn.rollback();
            return Ok(());
        }
        txn.attach(&events)?;
        let committed = match is_branch {
            true => {
                let xid = XaPrepare {
                    one_phase: false,
                    format: 1,
                    gtrid: number.to_le_bytes().to_vec(),
                    bqual: Vec::new(),
                };
                txn.set_attachment_head(&head(What::XaPrepare, number, Some(xid)))?;
                self.branches.push(number);
                life.prepare(&mut txn, number)?
            }
            false => {
                txn.set_attachment_head(&head(What::Transaction, number, None))?;
                self.ingests += u64::from(txn.has_spilled());
                life.commit(&mut txn)?
            }
        };
        self.committed.push((committed, number));
        Ok(())
    }

    /// Opens with the power on, and compares.
    fn recover(&mut self, sim: &SimEnv, seed: &str) -> Report {
        let restarted = Life::begin(sim, self.commits).and_then(|mut life| {
            life.sync()?;
            let decoded = Decoded::read(sim, &life.published())?;
            Ok((life, decoded))
        });
        let restarted = restarted.unwrap_or_else(|e| panic!("seed {seed}: {e} at the restart"));
        let (life, decoded) = restarted;
        assert_eq!(decoded.table, scan(&life), "seed {seed}: files and table");
        let branches: BTreeSet<u64> = decoded.prepared.keys().copied().collect();
        assert_eq!(
            branches,
            life.branches(),
            "seed {seed}: what is prepared in the files and in the engine"
        );
        self.branches = branches.into_iter().collect();
        let numbers = &decoded.numbers;
        let committed: Vec<u64> = self.committed.iter().map(|(_, number)| *number).collect();
        assert!(
            committed.starts_with(numbers),
            "seed {seed}: {numbers:?} is no beginning of {committed:?}"
        );
        assert!(
            numbers.len() >= self.told,
            "seed {seed}: {} of {} transactions that were told",
            numbers.len(),
            self.told
        );
        assert!(
            numbers.starts_with(&self.synced),
            "seed {seed}: synced files have lost something"
        );
        let told = numbers.iter().map(|number| (Committed::Told, *number));
        self.committed = told.collect();
        self.told = numbers.len();
        self.synced.clone_from(numbers);
        Report {
            transactions: numbers.len() as u64,
            files: decoded.files,
            ingests: self.ingests,
        }
    }
}

fn scan(life: &Life) -> Table {
    let txn = life.engine.begin(Isolation::RepeatableRead);
    let (all, forward) = ((Bound::Unbounded, Bound::Unbounded), Direction::Forward);
    let cursor = txn.scan(&life.table, all.0, all.1, forward, View::Latest);
    let mut cursor = cursor.expect("scan");
    let mut table = Table::new();
    while let Some((key, value)) = cursor.next().expect("next") {
        table.insert(key[0], value.to_vec());
    }
    table
}
