//! Measures how quickly a log is read and parsed, without an engine.
//!
//! `cargo run --release -p esker-wal --example wal_read -- write DIR MIB [RECORD_BYTES] [GROUP_BYTES] [DEAD_PERCENT]`
//! writes a log whose records have that many payload bytes, synced in groups of that size; so many percent of the
//! groups touch only tree 2, the others tree 1. `... -- read DIR [THREADS] [READ_AHEAD_KIB] [TREE]` reads it; with a
//! tree, only the blocks that touch it. To read from the device, let the system forget the files before: `dd if=FILE
//! iflag=nocache count=0`.

#![expect(clippy::print_stdout, reason = "a command that prints its result")]

use std::path::Path;
use std::time::Instant;

use esker_vfs::Env;
use esker_wal::{
    BlockSummary, Draft, Lsn, Record, RecordKind, Replay, TaskCounts, Wal, WalConfig, WalError,
};

struct Sink {
    tree: Option<u32>,
    payload: u64,
    check: u64,
}

impl Replay for Sink {
    type Error = WalError;

    fn wants_block(&mut self, block: &BlockSummary<'_>) -> bool {
        match (self.tree, block.trees) {
            (Some(tree), Some(trees)) => trees.contains(&tree),
            _ => true,
        }
    }

    fn record(&mut self, record: Record<'_>) -> Result<(), WalError> {
        self.payload += record.payload.len() as u64;
        let first = u64::from(record.payload[0]);
        self.check = self.check.wrapping_add(record.end.0 ^ first);
        Ok(())
    }
}

fn write(dir: &Path, args: &[u64]) -> Result<(), WalError> {
    let at = |i: usize, otherwise| args.get(i).copied().unwrap_or(otherwise);
    let (mib, record, group, dead) = (at(0, 256), at(1, 100), at(2, 4 << 20), at(3, 0));
    let (wal, _) = Wal::create_or_open(&Env::os(), WalConfig::new(dir), Lsn(0))?;
    let mut payload = vec![0_u8; record as usize];
    let mut groups = 0_u64;
    while wal.end().0 < mib << 20 {
        // Live groups are spread evenly among the dead ones.
        let is_dead = (groups * dead) % 100 < dead && dead > 0;
        let to = wal.end().0 + group;
        while wal.end().0 < to {
            for (i, byte) in payload.iter_mut().enumerate() {
                *byte = (wal.end().0 >> (i % 8)) as u8;
            }
            wal.append(&Draft::new(
                RecordKind::Commit,
                &[1 + u32::from(is_dead)],
                &[&payload],
            ))?;
        }
        wal.flush_now()?;
        groups += 1;
    }
    wal.shutdown()
}

fn read(dir: &Path, args: &[u64]) -> Result<(), WalError> {
    let threads = args.first().copied().unwrap_or(1);
    let mut config = WalConfig::new(dir);
    if let Some(kib) = args.get(1) {
        config.reading.read_ahead_bytes = kib << 10;
    }
    let tree = args.get(2).map(|tree| *tree as u32);
    let begun = Instant::now();
    let (wal, log) = Wal::create_or_open(&Env::os(), config, Lsn(0))?;
    println!("open: {:?}", begun.elapsed());
    let begun = Instant::now();
    let work = || -> Result<_, WalError> {
        let mut sink = Sink {
            tree,
            payload: 0,
            check: 0,
        };
        let mut counts = TaskCounts::default();
        while let Some(task) = log.next(&mut sink)? {
            counts += log.read(&task, &mut sink)?;
        }
        Ok((counts, sink))
    };
    let results = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| worker.join().expect("no panic");
        workers.into_iter().map(join).collect::<Result<Vec<_>, _>>()
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut counts = TaskCounts::default();
    let (mut payload, mut check) = (0, 0);
    for (count, sink) in results {
        counts += count;
        payload += sink.payload;
        check = u64::wrapping_add(check, sink.check);
    }
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "{threads} threads: {:.0} MiB of log in {seconds:.3} s: {:.0} MiB/s, {:.2} M records/s; {} records, {} blocks, {} skipped, {:.0} MiB of payload, check {check:x}",
        mib(log.bytes()),
        mib(log.bytes()) / seconds,
        counts.records as f64 / seconds / 1e6,
        counts.records,
        counts.blocks,
        counts.skipped_blocks,
        mib(payload),
    );
    drop(wal);
    Ok(())
}

fn main() -> Result<(), WalError> {
    let mut args = std::env::args().skip(1);
    let (Some(command), Some(dir)) = (args.next(), args.next()) else {
        return Err(WalError::Config("wal_read write|read DIR ...".to_owned()));
    };
    let numbers: Vec<u64> = args.filter_map(|arg| arg.parse().ok()).collect();
    match command.as_str() {
        "write" => write(Path::new(&dir), &numbers),
        _ => read(Path::new(&dir), &numbers),
    }
}
