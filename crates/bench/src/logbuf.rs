//! `esker bench log`: the variants of the log buffer against each other, into memory.
//!
//! Neighbours: `esker_wal::MemoryLog` is the log without a disk; `paper` calls [`measure`] for its curves.
//!
//! A machine with few cores cannot show by itself what many of them do to each other at a lock. So a holder of
//! the lock can be made to sleep now and then, as if the scheduler had taken its core.
//!
//! **Invariants**
//! - Variants that are compared insert the same sizes and take turns, so that a machine whose speed drifts
//!   treats them alike.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::BoolishValueParser;
use esker_vfs::sim::SimRng;
use esker_wal::{LogBufferKind, MemoryLog};

use crate::commit::parse_latency;
use crate::phase::Phase;
use crate::report::{Table, Value};
use crate::spread::Spread;
use crate::{Error, Progress, Result, parse_seconds};

/// Smallest and largest payload.
pub const MIN_BYTES: u64 = 48;
/// See [`MIN_BYTES`].
pub const MAX_BYTES: u64 = 12 * 1024;

/// Most threads of a run.
pub const MAX_THREADS: u64 = 1024;

/// The buffer's size: it fits in the second-level cache of most processors.
const BUFFER_BYTES: usize = 512 << 10;

/// Sizes each thread has drawn before it begins.
const DRAWN: usize = 4096;

/// Inserts between two looks at the phase.
const BATCH: usize = 64;

/// One of so many records is large where sizes are skewed.
const SKEWED_ONE_IN: u64 = 60;

/// How many bytes the records have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// All the same.
    Fixed(u64),
    /// 48 bytes times a power of two up to 12 KiB, each power 2.6 times rarer than the one before: about 120
    /// bytes in the mean, as the paper's.
    Mixed,
    /// Small ones, and one of 60 is as large as can be.
    Skewed,
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sizes::Fixed(bytes) => write!(f, "{bytes}"),
            Sizes::Mixed => f.write_str("mixed"),
            Sizes::Skewed => f.write_str("skewed"),
        }
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "mixed" => Ok(Sizes::Mixed),
            "skewed" => Ok(Sizes::Skewed),
            _ => match text.parse() {
                Ok(bytes @ MIN_BYTES..=MAX_BYTES) => Ok(Sizes::Fixed(bytes)),
                _ => Err(format!(
                    "{MIN_BYTES} to {MAX_BYTES} bytes, 'mixed' or 'skewed'"
                )),
            },
        }
    }
}

impl Sizes {
    fn draw(self, rng: &mut SimRng) -> usize {
        let bytes = match self {
            Sizes::Fixed(bytes) => bytes,
            Sizes::Mixed => {
                let mut bytes = MIN_BYTES;
                while bytes * 2 <= MAX_BYTES && rng.below(26) < 10 {
                    bytes *= 2;
                }
                bytes
            }
            Sizes::Skewed if rng.below(SKEWED_ONE_IN) == 0 => MAX_BYTES,
            Sizes::Skewed => MIN_BYTES,
        };
        bytes as usize
    }
}

/// A holder of the lock sleeps in one of so many critical sections, for so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preemption {
    /// One in how many.
    pub one_in: u64,
    /// How long.
    pub time: Duration,
}

impl Default for Preemption {
    fn default() -> Self {
        Preemption {
            one_in: 64,
            time: Duration::from_micros(100),
        }
    }
}

/// Arguments of `esker bench log`.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// Variants of the log buffer.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "B,C,D,CD,CDME",
        value_name = "NAMES"
    )]
    variants: Vec<LogBufferKind>,
    /// Threads that insert.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64", value_name = "NUMBERS",
          value_parser = clap::value_parser!(u64).range(1..=MAX_THREADS))]
    threads: Vec<u64>,
    /// Bytes of a record: 48 to 12288, 'mixed' (about 120 in the mean) or 'skewed' (48, and 12288 in one of
    /// 60).
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "48,120,1024,12288,mixed,skewed",
        value_name = "SIZES"
    )]
    sizes: Vec<Sizes>,
    /// With holders of the lock that are put to sleep as if they were preempted, or without: off, on, or
    /// both (off,on).
    #[arg(long, value_delimiter = ',', default_value = "off,on", value_name = "on|off",
          value_parser = BoolishValueParser::new())]
    preemption: Vec<bool>,
    /// One of so many critical sections is preempted.
    #[arg(long, default_value_t = Preemption::default().one_in, value_name = "NUMBER",
          value_parser = clap::value_parser!(u64).range(1..))]
    preempt_one_in: u64,
    /// How long a preempted holder sleeps; the timers of the operating system add some 50us.
    #[arg(long, default_value = "100us", value_name = "TIME", value_parser = parse_latency)]
    preempt_time: Duration,
    /// How long to measure each variant, in five turns.
    #[arg(long, default_value = "0.5", value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: Duration,
}

/// What a variant is measured with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// Threads that insert.
    pub threads: u64,
    /// How many bytes.
    pub sizes: Sizes,
    /// Whether holders are preempted.
    pub preemption: Option<Preemption>,
}

/// What a variant has done.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// Records inserted per second.
    pub inserts: f64,
    /// Payload inserted, in bytes per second.
    pub payload_bytes: f64,
    /// The same with heads and padding.
    pub log_bytes: f64,
}

/// What the turns of a variant have shown.
#[derive(Debug, Clone, Copy)]
pub struct Turns {
    /// The turn in the middle.
    pub rate: Rate,
    /// Inserts per second of all of them.
    pub inserts: Spread,
}

/// Runs `esker bench log`.
pub fn run(args: &LogArgs, progress: Progress<'_>) -> Result<Table> {
    let mut cases = Vec::new();
    for &preempted in &args.preemption {
        let preemption = preempted.then_some(Preemption {
            one_in: args.preempt_one_in,
            time: args.preempt_time,
        });
        for &sizes in &args.sizes {
            cases.extend(args.threads.iter().map(|&threads| Case {
                threads,
                sizes,
                preemption,
            }));
        }
    }
    let mut table = table("esker bench log");
    for (done, case) in cases.iter().enumerate() {
        progress(&format!(
            "log buffer: case {} of {}, {} threads, {} bytes",
            done + 1,
            cases.len(),
            case.threads,
            case.sizes
        ));
        let rates = compare(&args.variants, case, args.seconds)?;
        push_rows(&mut table, case, &rates);
    }
    Ok(table)
}

/// The table that [`push_rows`] fills.
pub(crate) fn table(title: &str) -> Table {
    Table::new(
        title,
        &[
            "size",
            "threads",
            "preempted",
            "variant",
            "inserts/s",
            "+-%",
            "MB/s",
            "log MB/s",
            "of the best",
        ],
    )
}

/// A line for each variant of a case.
pub(crate) fn push_rows(table: &mut Table, case: &Case, rates: &[(LogBufferKind, Turns)]) {
    let best = rates
        .iter()
        .map(|(_, t)| t.rate.inserts)
        .fold(0.0, f64::max);
    for (kind, turns) in rates {
        let rate = &turns.rate;
        table.push(vec![
            case.sizes.to_string().into(),
            case.threads.into(),
            match case.preemption {
                Some(Preemption { one_in, .. }) => format!("1/{one_in}").into(),
                None => "no".into(),
            },
            kind.to_string().into(),
            Value::Number(rate.inserts, 0),
            Value::Number(turns.inserts.percent(), 1),
            Value::Number(rate.payload_bytes / 1e6, 1),
            Value::Number(rate.log_bytes / 1e6, 1),
            Value::Number(rate.inserts / best.max(1.0), 2),
        ]);
    }
}

/// Measures the variants in turns, each for `time` in all; the turn in the middle counts.
pub(crate) fn compare(
    kinds: &[LogBufferKind],
    case: &Case,
    time: Duration,
) -> Result<Vec<(LogBufferKind, Turns)>> {
    const TURNS: u32 = 5;
    let mut turns: Vec<Vec<Rate>> = vec![Vec::new(); kinds.len()];
    for _ in 0..TURNS {
        for (kind, turns) in kinds.iter().zip(&mut turns) {
            turns.push(measure(*kind, case, time / TURNS)?);
        }
    }
    let shown = turns.into_iter().map(|mut turns| {
        let inserts = Spread::of(turns.iter().map(|rate| rate.inserts));
        turns.sort_by(|a, b| a.inserts.total_cmp(&b.inserts));
        let rate = turns[turns.len() / 2];
        Turns { rate, inserts }
    });
    Ok(kinds.iter().copied().zip(shown).collect())
}

fn memory_log(kind: LogBufferKind, preemption: Option<Preemption>) -> MemoryLog {
    let Some(Preemption { one_in, time }) = preemption else {
        return MemoryLog::new(kind, BUFFER_BYTES);
    };
    // Only the holder of the lock counts, so this is not another point of contention.
    let sections = AtomicU64::new(0);
    let pause = move || {
        if sections
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(one_in)
        {
            thread::sleep(time);
        }
    };
    MemoryLog::with_pause(kind, BUFFER_BYTES, Box::new(pause))
}

/// Measures one variant.
pub fn measure(kind: LogBufferKind, case: &Case, time: Duration) -> Result<Rate> {
    let log = memory_log(kind, case.preemption);
    let phase = Phase::new();
    thread::scope(|scope| {
        let mut handles = Vec::new();
        for id in 0..case.threads {
            let (log, phase) = (&log, &phase);
            let body = move || insert_until_over(log, phase, case.sizes, id);
            match thread::Builder::new().spawn_scoped(scope, body) {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    phase.end();
                    return Err(Error::Threads(error));
                }
            }
        }
        // All threads have begun by then.
        thread::sleep(time / 10);
        let (start, bytes_before) = (Instant::now(), log.bytes());
        phase.measure();
        thread::sleep(time);
        let log_bytes = log.bytes() - bytes_before;
        phase.end();
        // Whatever is counted was counted in this time, even if this thread was not run for a while.
        let elapsed = start.elapsed();
        let (mut inserts, mut payload) = (0, 0);
        for handle in handles {
            let (records, bytes) = handle.join().expect("inserting does not panic");
            inserts += records;
            payload += bytes;
        }
        let per_second = |count: u64| count as f64 / elapsed.as_secs_f64();
        Ok(Rate {
            inserts: per_second(inserts),
            payload_bytes: per_second(payload),
            log_bytes: per_second(log_bytes),
        })
    })
}

/// Records and bytes inserted while the measurement ran.
fn insert_until_over(log: &MemoryLog, phase: &Phase, sizes: Sizes, id: u64) -> (u64, u64) {
    let mut rng = SimRng::new(id);
    let drawn: Vec<usize> = (0..DRAWN).map(|_| sizes.draw(&mut rng)).collect();
    let payload = vec![7; MAX_BYTES as usize];
    let (mut records, mut bytes) = (0, 0);
    for batch in drawn.chunks_exact(BATCH).cycle() {
        if phase.is_over() {
            break;
        }
        for &size in batch {
            log.insert(&payload[..size]);
            // After each, because a preempted batch may outlast the measurement.
            let counts = u64::from(phase.is_measuring());
            records += counts;
            bytes += counts * size as u64;
        }
    }
    (records, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_drawn_as_described() {
        const DRAWS: usize = 200_000;
        let mut rng = SimRng::new(5);
        let mut mean = |sizes: Sizes| {
            let drawn: Vec<usize> = (0..DRAWS).map(|_| sizes.draw(&mut rng)).collect();
            let range = MIN_BYTES as usize..=MAX_BYTES as usize;
            assert!(drawn.iter().all(|bytes| range.contains(bytes)));
            let largest = drawn.iter().max().copied();
            assert!(sizes == Sizes::Fixed(120) || largest == Some(MAX_BYTES as usize));
            drawn.iter().sum::<usize>() as f64 / DRAWS as f64
        };
        assert_eq!(mean(Sizes::Fixed(120)), 120.0);
        assert!((100.0..140.0).contains(&mean(Sizes::Mixed)));
        assert!((238.0..267.0).contains(&mean(Sizes::Skewed)));
        for name in ["48", "12288", "mixed", "skewed"] {
            assert_eq!(name.parse::<Sizes>().expect("is good").to_string(), name);
        }
        for name in ["47", "12289", "", "big"] {
            assert!(name.parse::<Sizes>().is_err(), "{name}");
        }
    }

    #[test]
    fn every_variant_is_measured_with_and_without_preemption() {
        for preemption in [None, Some(Preemption::default())] {
            let case = Case {
                threads: 3,
                sizes: Sizes::Mixed,
                preemption,
            };
            let kinds = LogBufferKind::ALL;
            // On a busy machine a short time may pass without an insert.
            let mut times = [30, 300, 3000].map(Duration::from_millis).into_iter();
            let rates = times.find_map(|time| {
                let rates = compare(&kinds, &case, time).expect("runs");
                rates
                    .iter()
                    .all(|(_, turns)| turns.rate.inserts > 0.0)
                    .then_some(rates)
            });
            let rates = rates.expect("all variants insert");
            assert_eq!(
                rates.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(),
                kinds
            );
            for (kind, turns) in &rates {
                let rate = turns.rate;
                assert_eq!(turns.inserts.median, rate.inserts, "{kind}");
                assert!(rate.payload_bytes >= rate.inserts * MIN_BYTES as f64);
            }
            let mut table = table("t");
            push_rows(&mut table, &case, &rates);
            assert_eq!(table.len(), kinds.len());
        }
    }

    /// A holder that sleeps in every critical section lets no more records through than it has time for.
    #[test]
    fn a_preempted_holder_holds_up_the_others() {
        let time = Duration::from_millis(5);
        let case = Case {
            threads: 2,
            sizes: Sizes::Fixed(120),
            preemption: Some(Preemption { one_in: 1, time }),
        };
        let rate = measure(LogBufferKind::B, &case, Duration::from_millis(100)).expect("runs");
        assert!(rate.inserts <= 1.5 / time.as_secs_f64(), "{rate:?}");
    }
}
