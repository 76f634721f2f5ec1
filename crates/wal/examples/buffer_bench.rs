//! Measures the variants of the log buffer against each other, in memory.
//!
//! `cargo run --release -p esker-wal --example buffer_bench -- [MILLISECONDS [KINDS...]]` prints, for each number of
//! threads and size of records, what each variant inserts, the processor time of an insert, how many processors the
//! threads had, and how many inserts were made in groups. Then the same for 64 threads that are put to sleep in the
//! midst of a reservation with some probability: what 64 processors would do to each other, few processors only show in
//! this way.

#![expect(clippy::print_stdout, reason = "a command that prints its result")]

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use esker_wal::{LogBufferKind, MemoryLog};

/// Fits in a second-level cache.
const BUFFER_BYTES: usize = 1 << 20;

const THREADS: [usize; 4] = [1, 2, 8, 64];

/// Payload bytes.
const SIZES: [Size; 5] = [
    Size::Fixed(48),
    Size::Fixed(120),
    Size::Fixed(1024),
    Size::Fixed(12_288),
    Size::Mixed,
];

/// Many short turns find moments in which the machine does nothing else.
const TURNS: usize = 60;

/// Where threads sleep, a turn takes long by itself.
const TURNS_WITH_PAUSES: usize = 4;

/// Inserts between two looks at the clock.
const BATCH: usize = 64;

/// Sleep of a holder that acts preempted. Timers add some 50 microseconds.
const PREEMPTED: Duration = Duration::from_micros(100);

#[derive(Clone, Copy)]
enum Size {
    Fixed(usize),
    /// 48 to 12,288 bytes, most of them small: the mean is near the paper's 120.
    Mixed,
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Size::Fixed(bytes) => f.pad(&bytes.to_string()),
            Size::Mixed => f.pad("mixed"),
        }
    }
}

thread_local! {
    static STATE: Cell<u64> = Cell::new({
        static SEED: AtomicU64 = AtomicU64::new(0);
        SEED.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed) | 1
    });
}

/// A random number of this thread (xorshift).
fn random() -> u64 {
    STATE.with(|state| {
        let mut x = state.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        state.set(x);
        x
    })
}

impl Size {
    fn next(self) -> usize {
        match self {
            Size::Fixed(bytes) => bytes,
            Size::Mixed => match random() % 256 {
                0 => 12_288,
                1..=4 => 1024,
                r => 48 + r as usize % 80,
            },
        }
    }
}

struct Rate {
    inserts: f64,
    payload_bytes: f64,
    /// Processor time of an insert.
    nanos: f64,
    /// Processors that the threads had.
    processors: f64,
    /// Part of the inserts that were made in groups.
    grouped: f64,
}

/// Processor time of this thread so far.
fn thread_nanos() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}

fn measure(log: &MemoryLog, threads: usize, size: Size, time: Duration) -> Rate {
    let stop = AtomicBool::new(false);
    let (inserts, bytes, nanos) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let payload = vec![7; 12_288];
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let (mut n, mut sum, before) = (0, 0, thread_nanos());
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..BATCH {
                        let payload = &payload[..size.next()];
                        log.insert(payload);
                        n += 1;
                        sum += payload.len() as u64;
                    }
                }
                inserts.fetch_add(n, Ordering::Relaxed);
                bytes.fetch_add(sum, Ordering::Relaxed);
                nanos.fetch_add(thread_nanos() - before, Ordering::Relaxed);
            });
        }
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    let seconds = begun.elapsed().as_secs_f64();
    let inserts = inserts.into_inner() as f64;
    let nanos = nanos.into_inner() as f64;
    Rate {
        inserts: inserts / seconds,
        nanos: nanos / inserts,
        processors: nanos / 1e9 / seconds,
        grouped: log.grouped() as f64 / inserts,
        payload_bytes: bytes.into_inner() as f64 / seconds,
    }
}

/// One line of the table: the kinds, measured in turns, and the best of each.
fn line(
    kinds: &[LogBufferKind],
    what: &str,
    turns: usize,
    mut measure: impl FnMut(LogBufferKind) -> Rate,
) {
    let mut best: Vec<Option<Rate>> = kinds.iter().map(|_| None).collect();
    for _ in 0..turns {
        for (kind, best) in kinds.iter().zip(&mut best) {
            let rate = measure(*kind);
            if best.as_ref().is_none_or(|b| b.inserts < rate.inserts) {
                *best = Some(rate);
            }
        }
    }
    print!("{what}");
    for rate in best.into_iter().flatten() {
        print!(
            " | {:>6.3} M/s {:>6.3} GB/s {:>5.0} ns {:>3.1} p {:>2.0} %",
            rate.inserts / 1e6,
            rate.payload_bytes / 1e9,
            rate.nanos,
            rate.processors,
            100.0 * rate.grouped
        );
    }
    println!();
}

fn main() {
    let mut args = std::env::args().skip(1);
    let millis = args.next().and_then(|s| s.parse().ok()).unwrap_or(5);
    let time = Duration::from_millis(millis);
    let mut kinds: Vec<LogBufferKind> = args.filter_map(|s| s.parse().ok()).collect();
    if kinds.is_empty() {
        kinds = LogBufferKind::ALL.into();
    }
    print!("threads  size");
    for kind in &kinds {
        print!(" | {kind:<37}");
    }
    println!();
    for threads in THREADS {
        for size in SIZES {
            line(&kinds, &format!("{threads:>7} {size:>5}"), TURNS, |kind| {
                measure(&MemoryLog::new(kind, BUFFER_BYTES), threads, size, time)
            });
        }
    }
    for one_in in [1, 4, 16, 64, 256, 4096] {
        let what = format!("   1/{one_in:<4}");
        line(&kinds, &what, TURNS_WITH_PAUSES, |kind| {
            let pause = move || {
                if random().is_multiple_of(one_in) {
                    std::thread::sleep(PREEMPTED);
                }
            };
            let log = MemoryLog::with_pause(kind, BUFFER_BYTES, Box::new(pause));
            measure(&log, 64, Size::Fixed(120), time)
        });
    }
}
