//! Measures how a log should reach the disk: direct or buffered, preallocated how, padded to what.
//!
//! `cargo run --release -p esker-vfs --example io_mode -- DIR [ROUNDS]`. Each line is one way of
//! making `ROUNDS` successive writes durable one after the other; the figures behind
//! `docs/decisions/log-io.md` were taken with it.

#![expect(clippy::print_stdout, reason = "a command that prints its result")]

mod common;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::param::page_size;

use common::{aligned, cpu_time};

/// Long enough that no run reaches the end of the prepared file.
const FILE_BYTES: u64 = 64 << 20;

#[derive(Clone, Copy)]
enum Prepared {
    /// The file grows with every write.
    Growing,
    /// Space reserved, extents unwritten.
    Reserved,
    /// Written once with zeros, as a recycled segment is.
    Zeroed,
}

struct Way {
    name: &'static str,
    prepared: Prepared,
    flags: OFlags,
    sync: bool,
}

fn ways() -> Vec<Way> {
    let way = |name, prepared, flags, sync| Way {
        name,
        prepared,
        flags,
        sync,
    };
    let both = OFlags::DIRECT | OFlags::DSYNC;
    vec![
        way(
            "buffered, growing",
            Prepared::Growing,
            OFlags::empty(),
            true,
        ),
        way(
            "buffered, reserved",
            Prepared::Reserved,
            OFlags::empty(),
            true,
        ),
        way("buffered, zeroed", Prepared::Zeroed, OFlags::empty(), true),
        way("direct, growing", Prepared::Growing, OFlags::DIRECT, true),
        way("direct, reserved", Prepared::Reserved, OFlags::DIRECT, true),
        way("direct, zeroed", Prepared::Zeroed, OFlags::DIRECT, true),
        way("direct+dsync, zeroed", Prepared::Zeroed, both, false),
        way(
            "buffered+dsync, zeroed",
            Prepared::Zeroed,
            OFlags::DSYNC,
            false,
        ),
    ]
}

fn prepare(path: &Path, prepared: Prepared) -> io::Result<()> {
    let file = File::create(path)?;
    match prepared {
        Prepared::Growing => {}
        Prepared::Reserved => fallocate(&file, FallocateFlags::empty(), 0, FILE_BYTES)?,
        Prepared::Zeroed => {
            let zeros = vec![0; 1 << 20];
            for at in (0..FILE_BYTES).step_by(zeros.len()) {
                file.write_all_at(&zeros, at)?;
            }
        }
    }
    file.sync_all()
}

/// Sorted times of the writes, and the processor time of all of them.
fn measure(
    path: &Path,
    way: &Way,
    bytes: usize,
    rounds: u64,
) -> io::Result<(Vec<Duration>, Duration)> {
    prepare(path, way.prepared)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(way.flags.bits() as i32)
        .open(path)?;
    let mut backing = vec![7; bytes + page_size()];
    let block = aligned(&mut backing, bytes);
    let mut times = Vec::new();
    let cpu = cpu_time();
    for round in 0..rounds.min(FILE_BYTES / bytes as u64) {
        let start = Instant::now();
        file.write_all_at(block, round * bytes as u64)?;
        if way.sync {
            file.sync_data()?;
        }
        times.push(start.elapsed());
    }
    let cpu = cpu_time() - cpu;
    times.sort_unstable();
    Ok((times, cpu))
}

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().unwrap_or_else(|| ".".to_owned()));
    let rounds = args.next().and_then(|r| r.parse().ok()).unwrap_or(1000);
    let path = dir.join("io_mode.tmp");
    println!(
        "{:<24}{:>9}{:>10}{:>10}{:>10}{:>10}",
        "way", "bytes", "p50 us", "p95 us", "mean", "cpu us"
    );
    for bytes in [512, 4096, 16384, 131_072, 1_048_576] {
        for way in ways() {
            let (times, cpu) = match measure(&path, &way, bytes, rounds) {
                Ok(result) => result,
                Err(error) => {
                    println!("{:<24}{bytes:>9}  {error}", way.name);
                    continue;
                }
            };
            let n = times.len();
            let micros = |d: Duration| d.as_secs_f64() * 1e6;
            let mean = times.iter().sum::<Duration>() / n as u32;
            println!(
                "{:<24}{bytes:>9}{:>10.0}{:>10.0}{:>10.0}{:>10.1}",
                way.name,
                micros(times[n / 2]),
                micros(times[n * 95 / 100]),
                micros(mean),
                micros(cpu / n as u32),
            );
        }
    }
    std::fs::remove_file(&path)
}
