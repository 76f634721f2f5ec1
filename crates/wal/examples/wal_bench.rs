//! Measures the log by itself: appends without waiting, commits that wait, and the cost of being
//! idle.
//!
//! `cargo run --release -p esker-wal --example wal_bench -- DIR [SECONDS] [THREADS,...] [THINK_US]
//! [IN_FLIGHT] [OVERLAP_FROM_US]`. On a file system in memory it shows the buffer and the flush
//! without a device, on a disk group commit. With a list of thread counts only commits are measured.
//! `THINK_US` is how long a thread sleeps between two commits (between half of it and one and a
//! half), as a session does whose client thinks. The last two are fields of the flush policy.

#![expect(clippy::print_stdout, reason = "a command that prints its result")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use esker_vfs::Env;
use esker_vfs::sim::SimRng;
use esker_wal::{Draft, FlushPolicy, Lsn, Record, RecordKind, Wal, WalConfig, WalError};

const PAYLOAD: [u8; 190] = [7; 190];

/// Flushed segments are released while a measurement runs, so that it measures recycling and not
/// the disk's size.
const RELEASE_EVERY: Duration = Duration::from_millis(50);

/// Appends take less time than reading the clock, so their time is taken for this many at once.
const APPENDS_AT_ONCE: u32 = 16;

fn open(dir: &Path, from: Lsn) -> Result<Wal, WalError> {
    let mut ignore = |_: Record<'_>| Ok::<(), WalError>(());
    let (wal, log) = Wal::create_or_open(&Env::os(), WalConfig::new(dir), from)?;
    log.replay(&mut ignore)?;
    Ok(wal)
}

fn commit(wal: &Wal) -> Result<(), WalError> {
    let place = wal.append(&Draft::new(RecordKind::Commit, &[1], &[&PAYLOAD]))?;
    wal.wait_durable(place.end).block()
}

/// How a measurement is run.
#[derive(Clone, Copy)]
struct Load {
    threads: usize,
    time: Duration,
    think: Duration,
}

/// Runs `work` on threads until the time is over. Returns operations (calls times `at_once`) and
/// the latencies of the calls.
fn measure(
    wal: &Wal,
    load: Load,
    at_once: u32,
    work: impl Fn(&Wal) -> Result<(), WalError> + Sync,
) -> Result<(u64, Vec<Duration>), WalError> {
    let stop = AtomicBool::new(false);
    let count = AtomicU64::new(0);
    let latencies = std::thread::scope(|scope| {
        let (work, stop, count) = (&work, &stop, &count);
        let workers: Vec<_> = (0..load.threads)
            .map(|thread| {
                scope.spawn(move || {
                    let mut rng = SimRng::new(thread as u64);
                    let mut latencies = Vec::new();
                    let half = load.think.as_micros() as u64 / 2;
                    while !stop.load(Ordering::Relaxed) {
                        if half > 0 {
                            std::thread::sleep(Duration::from_micros(half + rng.below(2 * half)));
                        }
                        let start = Instant::now();
                        for _ in 0..at_once {
                            work(wal)?;
                        }
                        latencies.push(start.elapsed() / at_once);
                    }
                    let done = latencies.len() as u64 * u64::from(at_once);
                    count.fetch_add(done, Ordering::Relaxed);
                    Ok(latencies)
                })
            })
            .collect();
        let begun = Instant::now();
        while begun.elapsed() < load.time {
            std::thread::sleep(RELEASE_EVERY.min(load.time));
            wal.release_below(wal.durable())?;
        }
        stop.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.join().expect("a worker never panics")?);
        }
        all.sort_unstable();
        Ok(all)
    })?;
    Ok((count.load(Ordering::Relaxed), latencies))
}

/// Processor time of this process so far.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks: Vec<u64> = stat
        .split(' ')
        .skip(13)
        .take(2)
        .filter_map(|t| t.parse().ok())
        .collect();
    Duration::from_millis(ticks.iter().sum::<u64>() * 10)
}

fn measure_commits(wal: &Wal, load: Load) -> Result<(), WalError> {
    let (before, stats) = (cpu(), wal.stats());
    let (n, latencies) = measure(wal, load, 1, commit)?;
    let groups = wal.stats().flushes - stats.flushes;
    let overlapped = wal.stats().overlapped - stats.overlapped;
    let at = |percent: usize| latencies[latencies.len() * percent / 100];
    println!(
        "commit, {} threads: {:.0}/s, p10 {:?} p50 {:?} p99 {:?} max {:?}, {:.1} a group, {:.0} groups/s ({:.0} overlapped), {:.1} us of processor time each",
        load.threads,
        n as f64 / load.time.as_secs_f64(),
        at(10),
        at(50),
        at(99),
        latencies[latencies.len() - 1],
        n as f64 / groups as f64,
        groups as f64 / load.time.as_secs_f64(),
        overlapped as f64 / load.time.as_secs_f64(),
        (cpu() - before).as_micros() as f64 / n as f64,
    );
    Ok(())
}

fn measure_appends(wal: &Wal, load: Load) -> Result<(), WalError> {
    let before = cpu();
    let (n, _) = measure(wal, load, APPENDS_AT_ONCE, |wal| {
        wal.append(&Draft::new(RecordKind::Commit, &[1], &[&PAYLOAD]))
            .map(|_| ())
    })?;
    let rate = n as f64 / load.time.as_secs_f64();
    let cpu = (cpu() - before).as_nanos() as f64 / n as f64;
    println!(
        "append, {} threads: {:.2} M/s, {:.0} MB/s, {cpu:.0} ns of processor time each",
        load.threads,
        rate / 1e6,
        rate * 200.0 / 1e6
    );
    Ok(())
}

fn measure_replay(wal: Wal, dir: &Path) -> Result<Wal, WalError> {
    let from = wal.durable();
    for _ in 0..250_000 {
        wal.append(&Draft::new(RecordKind::Commit, &[1], &[&PAYLOAD]))?;
    }
    wal.shutdown()?;
    drop(wal);
    let begun = Instant::now();
    let wal = open(dir, from)?;
    println!("open and replay of 250,000 records: {:?}", begun.elapsed());
    Ok(wal)
}

fn main() -> Result<(), WalError> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().unwrap_or_else(|| "wal_bench.tmp".to_owned()));
    let seconds = args.next().and_then(|s| s.parse().ok()).unwrap_or(2.0);
    let time = Duration::from_secs_f64(seconds);
    let only: Option<Vec<usize>> = args
        .next()
        .map(|list| list.split(',').filter_map(|n| n.parse().ok()).collect());
    let think = args.next().and_then(|s| s.parse().ok()).unwrap_or(0);
    let mut policy = FlushPolicy::default();
    if let Some(in_flight) = args.next().and_then(|s| s.parse().ok()) {
        policy.in_flight = in_flight;
    }
    if let Some(micros) = args.next().and_then(|s| s.parse().ok()) {
        policy.overlap_from = Duration::from_micros(micros);
    }
    let load = |threads| Load {
        threads,
        time,
        think: Duration::from_micros(think),
    };
    let begun = Instant::now();
    let mut wal = open(&dir, Lsn(0))?;
    println!("open: {:?}", begun.elapsed());
    wal.set_flush_policy(&policy);

    // The first spare is being prepared meanwhile.
    std::thread::sleep(time);
    let before = cpu();
    std::thread::sleep(time);
    println!("idle: {:?} of processor time in {time:?}", cpu() - before);

    for threads in only.as_deref().unwrap_or(&[1, 4, 16, 64, 256]) {
        measure_commits(&wal, load(*threads))?;
    }
    if only.is_none() {
        for threads in [1, 2, 4] {
            measure_appends(&wal, load(threads))?;
        }
        wal = measure_replay(wal, &dir)?;
    }
    wal.shutdown()
}
