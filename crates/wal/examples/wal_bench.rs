//! Measures the log by itself: appends without waiting, commits that wait, and the cost of being
//! idle.
//!
//! `cargo run --release -p esker-wal --example wal_bench -- DIR [SECONDS [LOG_BUFFER]]`. On a file
//! system in memory the appends show the buffer and the flush without a device, on a disk the
//! commits show group commit. The buffer alone is measured by `buffer_bench`.

#![expect(clippy::print_stdout, reason = "a command that prints its result")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use esker_vfs::Env;
use esker_wal::{LogBufferKind, Lsn, Record, RecordKind, Wal, WalConfig, WalError};

const PAYLOAD: [u8; 190] = [7; 190];

/// Flushed segments are released while a measurement runs, so that it measures recycling and not
/// the disk's size.
const RELEASE_EVERY: Duration = Duration::from_millis(50);

fn open(dir: &Path, log_buffer: LogBufferKind, from: Lsn) -> Result<Wal, WalError> {
    let mut ignore = |_: Record<'_>| Ok::<(), WalError>(());
    let mut config = WalConfig::new(dir);
    config.log_buffer = log_buffer;
    let (wal, _) = Wal::create_or_open(&Env::os(), config, from, &mut ignore)?;
    Ok(wal)
}

/// Runs `work` on threads until the time is over; each call is one operation. Returns operations
/// and latencies.
fn measure(
    wal: &Wal,
    threads: usize,
    time: Duration,
    work: impl Fn(&Wal) -> Result<(), WalError> + Sync,
) -> Result<(u64, Vec<Duration>), WalError> {
    let stop = AtomicBool::new(false);
    let count = AtomicU64::new(0);
    let latencies = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut latencies = Vec::new();
                    let mut done = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let start = Instant::now();
                        for _ in 0..16 {
                            work(wal)?;
                        }
                        done += 16;
                        latencies.push(start.elapsed() / 16);
                    }
                    count.fetch_add(done, Ordering::Relaxed);
                    Ok(latencies)
                })
            })
            .collect();
        let begun = Instant::now();
        while begun.elapsed() < time {
            std::thread::sleep(RELEASE_EVERY);
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

fn main() -> Result<(), WalError> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().unwrap_or_else(|| "wal_bench.tmp".to_owned()));
    let seconds = args.next().and_then(|s| s.parse().ok()).unwrap_or(2);
    let time = Duration::from_secs(seconds);
    let log_buffer = match args.next() {
        Some(name) => name.parse()?,
        None => LogBufferKind::default(),
    };
    let begun = Instant::now();
    let wal = open(&dir, log_buffer, Lsn(0))?;
    println!("open: {:?}", begun.elapsed());

    // The first spare is being prepared meanwhile.
    std::thread::sleep(time);
    let before = cpu();
    std::thread::sleep(time);
    println!("idle: {:?} of processor time in {time:?}", cpu() - before);

    for threads in [1, 4, 16, 64, 256] {
        let (before, stats) = (cpu(), wal.stats());
        let (n, latencies) = measure(&wal, threads, time, |wal| {
            let place = wal.append(RecordKind::Commit, &[1], &[&PAYLOAD])?;
            wal.wait_durable(place.end).block()
        })?;
        let groups = wal.stats().flushes - stats.flushes;
        println!(
            "commit, {threads} threads: {:.0}/s, p50 {:?}, {:.1} a group, {:.0} groups/s, {:.1} us of processor time each",
            n as f64 / time.as_secs_f64(),
            latencies[latencies.len() / 2],
            n as f64 / groups as f64,
            groups as f64 / time.as_secs_f64(),
            (cpu() - before).as_micros() as f64 / n as f64,
        );
    }
    for threads in [1, 2, 4] {
        let before = cpu();
        let (n, _) = measure(&wal, threads, time, |wal| {
            wal.append(RecordKind::Commit, &[1], &[&PAYLOAD])
                .map(|_| ())
        })?;
        let rate = n as f64 / time.as_secs_f64();
        let cpu = (cpu() - before).as_nanos() as f64 / n as f64;
        println!(
            "append, {threads} threads: {:.2} M/s, {:.0} MB/s, {cpu:.0} ns of processor time each",
            rate / 1e6,
            rate * 200.0 / 1e6
        );
    }
    let from = wal.durable();
    for _ in 0..250_000 {
        wal.append(RecordKind::Commit, &[1], &[&PAYLOAD])?;
    }
    wal.shutdown()?;
    drop(wal);
    let begun = Instant::now();
    let wal = open(&dir, log_buffer, from)?;
    println!("open and replay of 250,000 records: {:?}", begun.elapsed());
    wal.shutdown()
}
