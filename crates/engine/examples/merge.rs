//! What a merge of sorted runs costs for each entry: comparisons of two runs' keys, and time. Keys lie in the runs at
//! random, or in stretches of 100 as compaction leaves them. Run it with
//! `cargo run --release -p esker-engine --example merge`; arguments are numbers of runs.

#![expect(clippy::print_stdout, reason = "a report for people")]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use esker_engine::iter::{InternalIter, MergingIter};
use esker_engine::{Memtable, Op, Result, Seq};
use esker_vfs::sim::SimRng;

/// Entries of all runs together.
const ENTRIES: u64 = 200_000;
/// The runs that are merged if nobody says others.
const RUNS: [usize; 8] = [1, 2, 3, 4, 8, 16, 64, 256];

/// Counts how often its key is looked at.
struct Counting {
    iter: Box<dyn InternalIter>,
    looks: Arc<AtomicU64>,
}

impl InternalIter for Counting {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.iter.seek(key)
    }
    fn seek_to_first(&mut self) -> Result<()> {
        self.iter.seek_to_first()
    }
    fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        self.iter.seek_for_prev(key)
    }
    fn seek_to_last(&mut self) -> Result<()> {
        self.iter.seek_to_last()
    }
    fn next(&mut self) -> Result<()> {
        self.iter.next()
    }
    fn prev(&mut self) -> Result<()> {
        self.iter.prev()
    }
    fn valid(&self) -> bool {
        self.iter.valid()
    }
    fn key(&self) -> &[u8] {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.iter.key()
    }
    fn seq(&self) -> Seq {
        self.iter.seq()
    }
    fn op(&self) -> Op {
        self.iter.op()
    }
    fn value(&self) -> &[u8] {
        self.iter.value()
    }
}

/// Runs that together have all keys, each in stretches of `stretch` keys.
fn tables(runs: usize, stretch: u64) -> Vec<Arc<Memtable>> {
    let tables: Vec<_> = (0..runs).map(|_| Arc::new(Memtable::new())).collect();
    let mut dice = SimRng::new(runs as u64);
    let mut run = 0;
    for key in 0..ENTRIES {
        if key % stretch == 0 {
            run = dice.below(runs as u64) as usize;
        }
        assert!(tables[run].insert(&key.to_be_bytes(), key + 1, Op::Put, b"value"));
    }
    tables
}

fn walk(sources: Vec<Box<dyn InternalIter>>) -> Result<()> {
    let mut merge = MergingIter::new(sources);
    merge.seek_to_first()?;
    let mut entries = 0;
    while merge.valid() {
        black_box(merge.value());
        entries += 1;
        merge.next()?;
    }
    assert_eq!(entries, ENTRIES);
    Ok(())
}

/// Seeks to `seeks` keys, and looks at the entry found and at those behind it.
fn lookups(sources: Vec<Box<dyn InternalIter>>, seeks: u64, behind: u64) -> Result<()> {
    let mut merge = MergingIter::new(sources);
    for seek in 0..seeks {
        let key = seek.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (ENTRIES - behind);
        merge.seek(&key.to_be_bytes())?;
        for _ in 0..behind {
            merge.next()?;
        }
        assert!(merge.valid());
    }
    Ok(())
}

/// Comparisons and nanoseconds for each of `entries`.
fn measure(
    tables: &[Arc<Memtable>],
    entries: u64,
    body: impl Fn(Vec<Box<dyn InternalIter>>) -> Result<()>,
) -> Result<(f64, f64)> {
    let looks = Arc::new(AtomicU64::new(0));
    let plain = || {
        tables
            .iter()
            .map(|table| Box::new(table.iter()) as Box<dyn InternalIter>)
    };
    let counting = plain().map(|iter| {
        let looks = Arc::clone(&looks);
        Box::new(Counting { iter, looks }) as Box<dyn InternalIter>
    });
    body(counting.collect())?;
    // Two keys are looked at to compare them.
    let comparisons = looks.load(Ordering::Relaxed) as f64 / 2.0;
    let mut best = f64::MAX;
    for _ in 0..5 {
        let sources = plain().collect();
        let start = Instant::now();
        body(sources)?;
        best = best.min(start.elapsed().as_nanos() as f64);
    }
    Ok((comparisons / entries as f64, best / entries as f64))
}

fn main() -> Result<()> {
    let wanted: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|arg| arg.parse().ok())
        .collect();
    let runs = if wanted.is_empty() {
        RUNS.to_vec()
    } else {
        wanted
    };
    println!(
        "{:>5}  {:<30} {:>12} {:>9}",
        "runs", "walk", "comparisons", "ns"
    );
    for runs in runs {
        let (mixed, stretches) = (tables(runs, 1), tables(runs, 100));
        let seeks = ENTRIES / 20;
        let lines = [
            ("every entry, at random", measure(&mixed, ENTRIES, walk)?),
            (
                "every entry, in stretches",
                measure(&stretches, ENTRIES, walk)?,
            ),
            ("a seek", measure(&mixed, seeks, |s| lookups(s, seeks, 0))?),
            (
                "a seek and 10 entries",
                measure(&mixed, seeks, |s| lookups(s, seeks, 10))?,
            ),
        ];
        for (walk, (comparisons, nanos)) in lines {
            println!("{runs:>5}  {walk:<30} {comparisons:>12.2} {nanos:>9.0}");
        }
    }
    Ok(())
}
