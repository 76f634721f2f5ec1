//! Measures how data files should be read and written: direct or buffered.
//!
//! `cargo run --release -p esker-vfs --example extent_io -- DIR [MIB]`. Writes a file in 2 MiB
//! extents and reads 16 KiB blocks of it at random; the figures behind `docs/decisions/data-io.md`
//! were taken with it.

#![expect(clippy::print_stdout, reason = "a command that prints its result")]

mod common;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use esker_vfs::sim::SimRng;
use rustix::fs::{Advice, OFlags, fadvise};
use rustix::param::page_size;

use common::{aligned, cpu_time};

const EXTENT: usize = 2 << 20;
const BLOCK: usize = 16 << 10;
const READS: u64 = 20_000;

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags(flags.bits() as i32).open(path)
}

fn write_extents(path: &Path, flags: OFlags, extents: u64, batch: u64) -> io::Result<()> {
    let file = open(path, flags)?;
    file.set_len(0)?;
    let mut backing = vec![0; EXTENT + page_size()];
    let extent = aligned(&mut backing, EXTENT);
    SimRng::new(1).fill(extent);
    for i in 0..extents {
        file.write_all_at(extent, i * EXTENT as u64)?;
        // A flush or a compaction syncs once for its extents.
        if i % batch == batch - 1 {
            file.sync_data()?;
        }
    }
    file.sync_data()
}

fn read_blocks(path: &Path, flags: OFlags, cached: bool, bytes: u64) -> io::Result<()> {
    let file = open(path, flags)?;
    if !cached {
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    // As a database reads: nothing near is read ahead.
    fadvise(&file, 0, None, Advice::Random)?;
    let mut backing = vec![0; BLOCK + page_size()];
    let block = aligned(&mut backing, BLOCK);
    let mut rng = SimRng::new(2);
    let reads = if cached { READS * 5 } else { READS };
    for _ in 0..reads {
        file.read_exact_at(block, rng.below(bytes / BLOCK as u64) * BLOCK as u64)?;
    }
    Ok(())
}

fn measure(name: &str, ops: u64, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let (begun, cpu) = (Instant::now(), cpu_time());
    work()?;
    let each = |d: Duration| d.as_secs_f64() * 1e6 / ops as f64;
    let (time, cpu) = (each(begun.elapsed()), each(cpu_time() - cpu));
    println!("{name:<44}{time:>10.1} us each{cpu:>10.1} us of processor time");
    Ok(())
}

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().unwrap_or_else(|| ".".to_owned()));
    let mib: u64 = args.next().and_then(|m| m.parse().ok()).unwrap_or(1024);
    let path = dir.join("extent_io.tmp");
    let (extents, bytes) = (mib / 2, mib << 20);
    for (name, flags) in [("buffered", OFlags::empty()), ("direct", OFlags::DIRECT)] {
        for batch in [1, 16] {
            let label = format!("write 2 MiB, sync every {batch}, {name}");
            measure(&label, extents, || {
                write_extents(&path, flags, extents, batch)
            })?;
        }
    }
    measure("read 16 KiB, buffered, not cached", READS, || {
        read_blocks(&path, OFlags::empty(), false, bytes)
    })?;
    measure("read 16 KiB, direct", READS, || {
        read_blocks(&path, OFlags::DIRECT, false, bytes)
    })?;
    // Fills the page cache first.
    std::fs::read(&path)?;
    measure("read 16 KiB, buffered, cached", READS * 5, || {
        read_blocks(&path, OFlags::empty(), true, bytes)
    })?;
    std::fs::remove_file(&path)
}
