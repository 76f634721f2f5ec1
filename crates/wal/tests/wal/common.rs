//! What the log's tests share: a log on a simulated disk, and records that can be told apart.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use esker_vfs::Env;
use esker_vfs::sim::{SimEnv, SimRng};
use esker_wal::{
    Draft, FlushMode, FlushPolicy, LogBufferKind, Lsn, MIN_BUFFER_BYTES, MIN_SEGMENT_BYTES, Record,
    RecordKind, Recovered, Replay, Wal, WalConfig, WalError,
};

pub const DIR: &str = "/wal";
pub const CLUSTER: [u8; 16] = [7; 16];

/// How often the log said that it is dead.
#[derive(Clone, Default)]
pub struct Fatals(Arc<AtomicUsize>);

impl Fatals {
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

thread_local! {
    /// The log buffer of logs that this thread opens.
    static LOG_BUFFER: Cell<LogBufferKind> = Cell::new(LogBufferKind::default());
}

/// Runs a test again with every log buffer but the one it runs with anyway.
pub fn on_other_log_buffers(test: fn()) {
    for kind in LogBufferKind::ALL {
        if kind != LogBufferKind::default() {
            LOG_BUFFER.set(kind);
            test();
        }
    }
}

/// The smallest log that is possible, so that small tests see many segments.
pub fn config(mode: FlushMode, fatals: &Fatals) -> WalConfig {
    let fatals = fatals.clone();
    WalConfig {
        segment_bytes: MIN_SEGMENT_BYTES,
        buffer_bytes: MIN_BUFFER_BYTES,
        log_buffer: LOG_BUFFER.get(),
        mode,
        cluster: CLUSTER,
        on_fatal: Box::new(move |_| {
            fatals.0.fetch_add(1, Ordering::SeqCst);
        }),
        ..WalConfig::new(DIR)
    }
}

/// A record that was read or is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    pub start: Lsn,
    pub end: Lsn,
    pub kind: RecordKind,
    pub trees: Vec<u32>,
    pub payload: Vec<u8>,
}

impl From<Record<'_>> for Owned {
    fn from(r: Record<'_>) -> Self {
        let (trees, payload) = (r.trees.to_vec(), r.payload.to_vec());
        Owned {
            start: r.start,
            end: r.end,
            kind: r.kind,
            trees,
            payload,
        }
    }
}

pub struct Opened {
    pub wal: Wal,
    pub records: Vec<Owned>,
    pub recovered: Recovered,
    pub fatals: Fatals,
}

pub fn open_from(sim: &SimEnv, mode: FlushMode, from: Lsn) -> Result<Opened, WalError> {
    let fatals = Fatals::default();
    let config = config(mode, &fatals);
    open_config(sim, config, fatals, from)
}

/// A log with a daemon of this policy.
pub fn open_policy(sim: &SimEnv, policy: FlushPolicy) -> Opened {
    let fatals = Fatals::default();
    let mut config = config(FlushMode::Daemon, &fatals);
    config.flush_policy = policy;
    open_config(sim, config, fatals, Lsn(0)).expect("the log opens")
}

/// The policy that lets groups overlap on every device.
pub fn overlapping() -> FlushPolicy {
    FlushPolicy {
        overlap_from: Duration::ZERO,
        ..FlushPolicy::default()
    }
}

/// Opens a log and reads it, one record after the other.
pub fn open_and_replay<R: Replay>(
    env: &Env,
    config: WalConfig,
    from: Lsn,
    replay: &mut R,
) -> Result<(Wal, Recovered), R::Error> {
    let (wal, log) = Wal::create_or_open(env, config, from)?;
    Ok((wal, log.replay(replay)?))
}

fn open_config(
    sim: &SimEnv,
    config: WalConfig,
    fatals: Fatals,
    from: Lsn,
) -> Result<Opened, WalError> {
    let mut records = Vec::new();
    let mut replay = |record: Record<'_>| {
        records.push(Owned::from(record));
        Ok::<(), WalError>(())
    };
    let (wal, recovered) = open_and_replay(&sim.env(), config, from, &mut replay)?;
    Ok(Opened {
        wal,
        records,
        recovered,
        fatals,
    })
}

pub fn open(sim: &SimEnv, mode: FlushMode) -> Opened {
    open_from(sim, mode, Lsn(0)).expect("the log opens")
}

/// Opens by hand-flushing mode, the usual one in tests without threads.
pub fn open_manual(sim: &SimEnv) -> Opened {
    open(sim, FlushMode::Manual)
}

/// Appends and returns what should be read back.
pub fn append(
    wal: &Wal,
    kind: RecordKind,
    trees: &[u32],
    payload: &[u8],
) -> Result<Owned, WalError> {
    let (a, b) = payload.split_at(payload.len() / 3);
    let place = wal.append(&Draft::new(kind, trees, &[a, &[], b]))?;
    let (trees, payload) = (trees.to_vec(), payload.to_vec());
    Ok(Owned {
        start: place.start,
        end: place.end,
        kind,
        trees,
        payload,
    })
}

pub fn commit(wal: &Wal, payload: &[u8]) -> Owned {
    append(wal, RecordKind::Commit, &[1], payload).expect("the append succeeds")
}

/// A record of random kind, trees and size; now and then one of several parts.
pub fn append_random(wal: &Wal, rng: &mut SimRng) -> Result<Owned, WalError> {
    use RecordKind::*;
    let kind = [
        Commit,
        Prepare,
        CommitPrepared,
        RollbackPrepared,
        CounterSet,
        Noop,
    ][rng.below(6) as usize];
    let trees: Vec<u32> = (0..rng.below(4))
        .map(|_| rng.next_u64() as u32 >> rng.below(32))
        .collect();
    let most = if rng.chance(5) { 100_000 } else { 600 };
    let mut payload = vec![0; rng.below(most) as usize];
    rng.fill(&mut payload);
    append(wal, kind, &trees, &payload)
}

/// Asserts that records lie behind each other without a gap.
pub fn assert_contiguous(records: &[Owned]) {
    for pair in records.windows(2) {
        assert_eq!(pair[0].end, pair[1].start);
    }
}

/// The segment files, oldest first.
pub fn segments(sim: &SimEnv) -> Vec<PathBuf> {
    let names = sim
        .env()
        .fs
        .list(Path::new(DIR))
        .expect("the directory exists");
    names
        .iter()
        .filter(|n| n.ends_with(".wal"))
        .map(|n| Path::new(DIR).join(n))
        .collect()
}
