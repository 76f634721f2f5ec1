//! The four comparisons.
//!
//! Neighbours: `scale` has the points; `commit` and `logbuf` measure one.
//!
//! **Invariants**
//! - Sides are measured in turns, and the median counts: a machine whose speed drifts treats them alike. How far the
//!   turns lie apart is shown.
//! - Sides of a comparison differ in what is compared and in nothing else; the ablation, which differs in all
//!   of it, says so.

use std::path::Path;
use std::time::Duration;

use esker_wal::LogBufferKind;

use super::scale::Scale;
use super::{Chapter, Trust};
use crate::commit::{self, Load, Measured, Settings, show_latency};
use crate::logbuf::{self, Case, Preemption, Sizes, Turns};
use crate::plot::{Axis, Plot, Series};
use crate::report::{Table, Value};
use crate::spread::Spread;
use crate::workload::Mix;
use crate::{Progress, Result};

/// Threads of the sweep over sizes: as many as the smallest machine has cores.
const SIZE_SWEEP_THREADS: u64 = 2;

/// Record size of the sweep over threads: the paper's mean.
const THREAD_SWEEP_SIZE: Sizes = Sizes::Fixed(120);

/// Lines of one plot, in the order in which their names come up.
#[derive(Default)]
struct Lines(Vec<Series>);

impl Lines {
    fn add(&mut self, name: &str, x: f64, y: f64) {
        match self.0.iter_mut().find(|s| s.name == name) {
            Some(series) => series.points.push((x, y)),
            None => self.0.push(Series {
                name: name.to_owned(),
                points: vec![(x, y)],
            }),
        }
    }

    fn plot(self, title: &str, x: Axis, y: Axis) -> Plot {
        Plot {
            title: title.to_owned(),
            x,
            y,
            series: self.0,
        }
    }
}

fn add_rates(lines: &mut Lines, x: f64, rates: &[(LogBufferKind, Turns)]) {
    for (kind, turns) in rates {
        lines.add(&kind.to_string(), x, turns.rate.payload_bytes / 1e6);
    }
}

fn percents(rates: &[(LogBufferKind, Turns)]) -> impl Iterator<Item = f64> {
    rates.iter().map(|(_, turns)| turns.inserts.percent())
}

/// Variants of the log buffer over threads and sizes, without and with preempted holders.
pub(super) fn log_buffer(scale: &Scale, progress: Progress<'_>) -> Result<Chapter> {
    let mut tables = Vec::new();
    let mut plots = Vec::new();
    let mut trust = Trust {
        method: format!(
            "Variants take turns; each figure is the median of five turns of {:.0} ms.",
            scale.log_time.as_secs_f64() * 200.0
        ),
        ..Trust::default()
    };
    for preemption in [None, Some(Preemption::default())] {
        let (state, end) = match preemption {
            None => ("undisturbed", ""),
            Some(_) => ("with preempted holders", "-preempted"),
        };
        let mut table = logbuf::table(&format!("Log buffer, {state}"));
        let (by_threads, by_size) = sweep(scale, preemption, &mut table, &mut trust, &|case| {
            progress(&format!("log buffer, {state}: {case}"));
        })?;
        tables.push(table);
        let rate = || Axis::log("payload MB/s");
        let title = format!("Records of {THREAD_SWEEP_SIZE} bytes, {state}");
        let plot = by_threads.plot(&title, Axis::log("threads"), rate());
        plots.push((format!("threads{end}"), plot));
        let title = format!("{SIZE_SWEEP_THREADS} threads, {state}");
        let plot = by_size.plot(&title, Axis::log("bytes of a record"), rate());
        plots.push((format!("sizes{end}"), plot));
    }
    let (table, plot) = by_preemption(scale, &mut trust, progress)?;
    tables.push(table);
    plots.push(("preemption".to_owned(), plot));
    let Preemption { one_in, time } = Preemption::default();
    Ok(Chapter {
        name: "log-buffer",
        title: "The log buffer",
        words: format!(
            "Records are inserted into a log without a disk by threads that do nothing else. A preempted holder \
             sleeps {} in one of {one_in} critical sections (or as often as the table says), as if the scheduler \
             had taken its core: what many cores do to each other at a lock, a few show only so. 'mixed' is 48 bytes to 12 KiB with a mean of \
             about 120, 'skewed' is 48 bytes and 12 KiB in one of 60.",
            show_latency(time)
        ),
        trust,
        tables,
        plots,
    })
}

/// Many threads, by how often a holder of the lock is preempted.
fn by_preemption(
    scale: &Scale,
    trust: &mut Trust,
    progress: Progress<'_>,
) -> Result<(Table, Plot)> {
    let threads = most_threads(scale);
    let title = format!("{threads} threads, records of {THREAD_SWEEP_SIZE} bytes, by preemption");
    let mut table = logbuf::table(&title);
    let mut lines = Lines::default();
    for &one_in in &scale.preempted_one_in {
        progress(&format!("log buffer: one of {one_in} holders preempted"));
        let case = Case {
            threads,
            sizes: THREAD_SWEEP_SIZE,
            preemption: Some(Preemption {
                one_in,
                ..Preemption::default()
            }),
        };
        let rates = logbuf::compare(&LogBufferKind::ALL, &case, scale.log_time)?;
        logbuf::push_rows(&mut table, &case, &rates);
        trust.percents.extend(percents(&rates));
        add_rates(&mut lines, one_in as f64, &rates);
    }
    let x = Axis::log("critical sections per preemption");
    let plot = lines.plot(&title, x, Axis::log("payload MB/s"));
    Ok((table, plot))
}

fn most_threads(scale: &Scale) -> u64 {
    scale.log_threads.iter().max().copied().unwrap_or(1)
}

/// Over threads with one size, and over sizes with few and with many threads; the lines of the first and of
/// the second with few.
fn sweep(
    scale: &Scale,
    preemption: Option<Preemption>,
    table: &mut Table,
    trust: &mut Trust,
    progress: Progress<'_>,
) -> Result<(Lines, Lines)> {
    let mut one = |threads, sizes| -> Result<Vec<(LogBufferKind, Turns)>> {
        progress(&format!("{threads} threads, {sizes} bytes"));
        let case = Case {
            threads,
            sizes,
            preemption,
        };
        let rates = logbuf::compare(&LogBufferKind::ALL, &case, scale.log_time)?;
        logbuf::push_rows(table, &case, &rates);
        trust.percents.extend(percents(&rates));
        Ok(rates)
    };
    let mut by_threads = Lines::default();
    for &threads in &scale.log_threads {
        let rates = one(threads, THREAD_SWEEP_SIZE)?;
        add_rates(&mut by_threads, threads as f64, &rates);
    }
    let mut by_size = Lines::default();
    let most = most_threads(scale);
    for &sizes in &scale.log_sizes {
        let rates = one(SIZE_SWEEP_THREADS, sizes)?;
        if let Sizes::Fixed(bytes) = sizes {
            add_rates(&mut by_size, bytes as f64, &rates);
        }
        one(most, sizes)?;
    }
    Ok((by_threads, by_size))
}

fn tpcb(scale: &Scale, skew: f64) -> Load {
    Load::TpcB {
        branches: scale.branches,
        accounts: scale.accounts,
        skew,
    }
}

/// The runs of one side of a comparison, in the order of the turns.
struct Side(Vec<Measured>);

impl Side {
    /// The run with the median throughput.
    fn median(&self) -> &Measured {
        let mut runs: Vec<&Measured> = self.0.iter().collect();
        runs.sort_by(|a, b| a.tps().total_cmp(&b.tps()));
        runs[runs.len() / 2]
    }

    fn tps(&self) -> Spread {
        Spread::of(self.0.iter().map(Measured::tps))
    }

    /// How many times the throughput of `other`, turn by turn.
    fn over(&self, other: &Side) -> Spread {
        let pairs = self.0.iter().zip(&other.0);
        Spread::of(pairs.map(|(mine, other)| mine.tps() / other.tps().max(1.0)))
    }
}

/// Measures all sides of a comparison, one after the other, as often as the scale says.
fn compare<const N: usize>(
    scale: &Scale,
    sides: &[Settings; N],
    what: &str,
    trust: &mut Trust,
    progress: Progress<'_>,
) -> Result<[Side; N]> {
    let mut measured: [Side; N] = std::array::from_fn(|_| Side(Vec::new()));
    for _ in 0..scale.repeats {
        for (settings, side) in sides.iter().zip(&mut measured) {
            let tell = |line: &str| progress(&format!("{what}: {line}"));
            side.0.push(commit::measure(settings, &tell)?);
        }
    }
    if scale.repeats > 1 {
        let percents = measured.iter().map(|side| side.tps().percent());
        trust.percents.extend(percents);
    }
    Ok(measured)
}

/// How [`compare`] comes to its figures.
fn trust_of_runs(scale: &Scale) -> Trust {
    let seconds = scale.commit_time.as_secs_f64();
    let method = match scale.repeats {
        1 => format!("Each figure is one run of {seconds} s or more."),
        n => format!(
            "Sides take turns; each figure is that of the run with the median throughput of {n}, of {seconds} s or \
             more each. A ratio is the median of the ratios turn by turn, with the lowest and the highest beside it."
        ),
    };
    Trust {
        method,
        ..Trust::default()
    }
}

/// The columns of [`early_lock_release`].
const LOCK_RELEASE_COLUMNS: &[&str] = &[
    "sync latency",
    "skew",
    "tps on",
    "+-% on",
    "tps off",
    "+-% off",
    "speedup",
    "lowest",
    "highest",
    "commits/flush on",
    "commits/flush off",
    "p95 ms on",
    "p95 ms off",
];

/// Early lock release on and off over skew and latency of the device.
pub(super) fn early_lock_release(scale: &Scale, progress: Progress<'_>) -> Result<Chapter> {
    let mut table = Table::new("Early lock release, TPC-B", LOCK_RELEASE_COLUMNS);
    let mut trust = trust_of_runs(scale);
    let (mut speedups, mut rates) = (Lines::default(), Lines::default());
    for &latency in &scale.latencies {
        for &skew in &scale.skews {
            let name = show_latency(latency);
            let what = format!("early lock release, {name}, skew {skew}");
            let mut settings = Settings::new(tpcb(scale, skew));
            settings.measure = scale.time_for(latency);
            settings.sessions = scale.elr_sessions;
            settings.sync_latency = latency;
            let mut without = settings.clone();
            without.elr = false;
            let [on, off] = compare(scale, &[settings, without], &what, &mut trust, progress)?;
            let (speedup, on_tps, off_tps) = (on.over(&off), on.tps(), off.tps());
            let (on, off) = (on.median(), off.median());
            speedups.add(&name, skew, speedup.median);
            rates.add(&format!("{name}, on"), skew, on.tps());
            rates.add(&format!("{name}, off"), skew, off.tps());
            table.push(vec![
                name.into(),
                Value::Number(skew, 2),
                Value::Number(on.tps(), 0),
                Value::Number(on_tps.percent(), 1),
                Value::Number(off.tps(), 0),
                Value::Number(off_tps.percent(), 1),
                Value::Number(speedup.median, 2),
                Value::Number(speedup.low, 2),
                Value::Number(speedup.high, 2),
                Value::Number(on.commits_per_flush(), 1),
                Value::Number(off.commits_per_flush(), 1),
                Value::Number(on.latency_millis(95.0), 2),
                Value::Number(off.latency_millis(95.0), 2),
            ]);
        }
    }
    let skew = || Axis::linear("exponent of Zipf's distribution");
    let title = "What early lock release is worth, by sync latency";
    let speedup = speedups.plot(title, skew(), Axis::log("speedup"));
    let title = "TPC-B with early lock release on and off";
    let rate = rates.plot(title, skew(), Axis::log("transactions per second"));
    Ok(Chapter {
        name: "early-lock-release",
        title: "Early lock release",
        words: format!(
            "TPC-B with {} branches of {} accounts, {} sessions on two threads, data in memory, with syncs \
             that take longer by the latency (and the some 50us that timers take). Branches and accounts are drawn with Zipf's \
             distribution. Only the switch differs between the two sides.",
            scale.branches, scale.accounts, scale.elr_sessions
        ),
        trust,
        tables: vec![table],
        plots: vec![("speedup".to_owned(), speedup), ("tps".to_owned(), rate)],
    })
}

/// How a session waits for its commit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Pipelined,
    Blocking,
    Asynchronous,
}

impl Waiting {
    const ALL: [Waiting; 3] = [Waiting::Asynchronous, Waiting::Pipelined, Waiting::Blocking];

    fn name(self) -> &'static str {
        match self {
            Waiting::Pipelined => "pipelined",
            Waiting::Blocking => "blocking",
            Waiting::Asynchronous => "async (UNSAFE)",
        }
    }

    fn set(self, settings: &Settings) -> Settings {
        Settings {
            pipelining: self != Waiting::Blocking,
            async_commit: self == Waiting::Asynchronous,
            ..settings.clone()
        }
    }
}

/// The device of a run: the real disk where one is given and nothing is simulated.
fn device(settings: &mut Settings, latency: Duration, dir: Option<&Path>) -> String {
    settings.sync_latency = latency;
    match (latency.is_zero(), dir) {
        (true, Some(dir)) => {
            settings.dir = Some(dir.to_owned());
            "disk".to_owned()
        }
        (true, None) => "memory".to_owned(),
        (false, _) => format!("memory + {}", show_latency(latency)),
    }
}

/// A row of [`pipelining`], behind what it is about.
fn pipelining_figures(side: &Side, share: Spread) -> [Value; 10] {
    let measured = side.median();
    [
        Value::Number(measured.tps(), 0),
        Value::Number(side.tps().percent(), 1),
        Value::Number(share.median, 2),
        Value::Number(share.low, 2),
        Value::Number(share.high, 2),
        Value::Number(measured.commits_per_flush(), 1),
        Value::Number(measured.latency_millis(95.0), 2),
        Value::Number(measured.switches_per_transaction(), 3),
        Value::Number(measured.all_switches_per_transaction(), 3),
        Value::Number(measured.cpu_micros_per_transaction(), 1),
    ]
}

/// The columns of [`pipelining`].
const PIPELINING_COLUMNS: &[&str] = &[
    "device",
    "sessions",
    "commit",
    "tps",
    "+-%",
    "of async",
    "lowest",
    "highest",
    "commits/flush",
    "p95 ms",
    "switches/txn",
    "all switches/txn",
    "CPU us/txn",
];

/// Pipelined, blocking and asynchronous commit over the number of sessions.
pub(super) fn pipelining(
    scale: &Scale,
    dir: Option<&Path>,
    progress: Progress<'_>,
) -> Result<Chapter> {
    let mut table = Table::new("Flush pipelining, TPC-B", PIPELINING_COLUMNS);
    let mut trust = trust_of_runs(scale);
    let mut plots = Vec::new();
    let mut switches = Lines::default();
    for &latency in &scale.devices {
        let mut rates = Lines::default();
        let mut title = String::new();
        for &sessions in &scale.sessions {
            let mut settings = Settings::new(tpcb(scale, 0.0));
            settings.measure = scale.time_for(latency);
            settings.sessions = sessions;
            let device = device(&mut settings, latency, dir);
            title = format!("TPC-B, {device}");
            let sides = Waiting::ALL.map(|waiting| waiting.set(&settings));
            let what = format!("flush pipelining, {device}, {sessions} sessions");
            let sides = compare(scale, &sides, &what, &mut trust, progress)?;
            for (waiting, side) in Waiting::ALL.iter().zip(&sides) {
                // The first side is the asynchronous one.
                let (share, measured) = (side.over(&sides[0]), side.median());
                rates.add(waiting.name(), sessions as f64, measured.tps());
                if latency.is_zero() {
                    let per = measured.switches_per_transaction();
                    switches.add(waiting.name(), sessions as f64, per);
                }
                let mut row = vec![
                    device.clone().into(),
                    sessions.into(),
                    waiting.name().into(),
                ];
                row.extend(pipelining_figures(side, share));
                table.push(row);
            }
        }
        let axis = Axis::log("transactions per second");
        let end = format!("tps-{}", show_latency(latency));
        plots.push((end, rates.plot(&title, Axis::log("sessions"), axis)));
    }
    let title = "Voluntary context switches of the sessions' threads";
    let axis = Axis::log("per transaction");
    plots.push((
        "switches".to_owned(),
        switches.plot(title, Axis::log("sessions"), axis),
    ));
    Ok(Chapter {
        name: "flush-pipelining",
        title: "Flush pipelining",
        words: format!(
            "TPC-B with {} branches of {} accounts, drawn uniformly. Pipelined and asynchronous: two threads run \
             all sessions. Blocking: each session has a thread, which sleeps until its commit is durable. \
             Asynchronous commit acknowledges before the flush; it is UNSAFE, a crash loses what was acknowledged, \
             and stands here only as the bound. 'switches' are the voluntary ones of the threads that run \
             sessions, 'all switches' also those of the log and the engine.",
            scale.branches, scale.accounts
        ),
        trust,
        tables: vec![table],
        plots,
    })
}

/// A row of [`ablation`], behind what it is about.
fn ablation_figures(on: &Side, off: &Side) -> [Value; 13] {
    let (ratio, on_tps, off_tps) = (on.over(off), on.tps(), off.tps());
    let (on, off) = (on.median(), off.median());
    [
        Value::Number(on.tps(), 0),
        Value::Number(on_tps.percent(), 1),
        Value::Number(off.tps(), 0),
        Value::Number(off_tps.percent(), 1),
        Value::Number(ratio.median, 2),
        Value::Number(ratio.low, 2),
        Value::Number(ratio.high, 2),
        Value::Number(on.latency_millis(95.0), 2),
        Value::Number(off.latency_millis(95.0), 2),
        Value::Number(on.cpu_micros_per_transaction(), 1),
        Value::Number(off.cpu_micros_per_transaction(), 1),
        Value::Number(on.switches_per_transaction(), 3),
        Value::Number(off.switches_per_transaction(), 3),
    ]
}

/// The columns of [`ablation`].
const ABLATION_COLUMNS: &[&str] = &[
    "workload",
    "device",
    "sessions",
    "tps on",
    "+-% on",
    "tps off",
    "+-% off",
    "ratio",
    "lowest",
    "highest",
    "p95 ms on",
    "p95 ms off",
    "CPU us/txn on",
    "CPU us/txn off",
    "switches/txn on",
    "switches/txn off",
];

/// What [`ablation`] runs.
fn ablation_loads(scale: &Scale) -> [(&'static str, Load); 4] {
    let subscribers = scale.subscribers;
    [
        ("TPC-B, uniform", tpcb(scale, 0.0)),
        ("TPC-B, skew 0.85", tpcb(scale, 0.85)),
        (
            "TATP",
            Load::Tatp {
                subscribers,
                mix: Mix::Standard,
            },
        ),
        (
            "TATP, updates",
            Load::Tatp {
                subscribers,
                mix: Mix::Updates,
            },
        ),
    ]
}

/// Everything of the paper on against everything off.
pub(super) fn ablation(
    scale: &Scale,
    dir: Option<&Path>,
    progress: Progress<'_>,
) -> Result<Chapter> {
    let mut table = Table::new("All on against all off", ABLATION_COLUMNS);
    let mut trust = trust_of_runs(scale);
    for (name, load) in ablation_loads(scale) {
        let points = scale
            .devices
            .iter()
            .flat_map(|&latency| scale.ablation_sessions.iter().map(move |&n| (latency, n)));
        for (latency, sessions) in points {
            let mut settings = Settings::new(load.clone());
            settings.measure = scale.time_for(latency);
            settings.sessions = sessions;
            let device = device(&mut settings, latency, dir);
            let what = format!("all on and all off, {name}, {device}, {sessions} sessions");
            let all_off = Settings {
                elr: false,
                pipelining: false,
                log_buffer: LogBufferKind::B,
                ..settings.clone()
            };
            let sides = [settings, all_off];
            let [on, off] = compare(scale, &sides, &what, &mut trust, progress)?;
            let mut row = vec![name.into(), device.into(), sessions.into()];
            row.extend(ablation_figures(&on, &off));
            table.push(row);
        }
    }
    Ok(Chapter {
        name: "all-on-all-off",
        title: "All of Aether on against all off",
        words: format!(
            "On: early lock release, two threads that run all sessions, log buffer {}. Off: locks are \
             held until the commit is durable, each session has a thread that blocks, log buffer B. TPC-B has {} \
             branches of {} accounts, TATP {} subscribers. Where the device is slow and sessions are few, both sides \
             wait for it: sessions / latency bounds them.",
            LogBufferKind::default(),
            scale.branches,
            scale.accounts,
            scale.subscribers
        ),
        trust,
        tables: vec![table],
        plots: Vec::new(),
    })
}
