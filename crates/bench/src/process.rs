//! What the threads of this process have used: CPU time and context switches, from `/proc`; and what others have.
//!
//! Neighbours: the runner looks before and after a measurement, while all its threads live.
//!
//! **Invariants**
//! - Only threads that live at both looks are compared; a missing `/proc` gives zeros, never an error.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use esker_vfs::{Fs, OpenMode, OsFs, machine};

/// Longest file of `/proc` that is read.
const MAX_PROC_BYTES: usize = 8 * 1024;

/// What threads have used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Switches because the thread waited.
    pub voluntary: u64,
    /// Switches because others wanted the core.
    pub involuntary: u64,
    /// Nanoseconds on a core.
    pub cpu_nanos: u64,
}

impl Usage {
    fn add(&mut self, other: Usage) {
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
        self.cpu_nanos += other.cpu_nanos;
    }

    fn since(self, before: Usage) -> Usage {
        Usage {
            voluntary: self.voluntary.saturating_sub(before.voluntary),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
            cpu_nanos: self.cpu_nanos.saturating_sub(before.cpu_nanos),
        }
    }
}

/// All threads at one moment, by their number, with their names.
#[derive(Debug, Default)]
pub struct Look {
    threads: HashMap<String, (String, Usage)>,
}

impl Look {
    /// Now.
    pub fn now() -> Look {
        let mut look = Look::default();
        for id in OsFs.list(Path::new("/proc/self/task")).unwrap_or_default() {
            // A thread may end meanwhile.
            if let Ok(thread) = read_thread(&id) {
                look.threads.insert(id, thread);
            }
        }
        look
    }

    /// What was used since `before`, by the threads whose names begin with `prefix`, and by the others.
    pub fn since(&self, before: &Look, prefix: &str) -> (Usage, Usage) {
        let (mut named, mut others) = (Usage::default(), Usage::default());
        for (id, (name, usage)) in &self.threads {
            let Some((_, earlier)) = before.threads.get(id) else {
                continue;
            };
            let sum = if name.starts_with(prefix) {
                &mut named
            } else {
                &mut others
            };
            sum.add(usage.since(*earlier));
        }
        (named, others)
    }
}

/// What all processes and this one have used of the machine, in ticks of the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Machine {
    /// Of all processors, idle or not.
    all: u64,
    busy: u64,
    own: u64,
}

impl Machine {
    /// Since it and this process were started.
    pub fn now() -> Machine {
        let read = |path| read_proc(path).unwrap_or_default();
        let (all, busy) = parse_cpu_line(&read("/proc/stat"));
        let own = parse_own_ticks(&read("/proc/self/stat"));
        Machine { all, busy, own }
    }

    /// How much of the machine others have used since `before`, from 0 to 1. Time that the hypervisor took away
    /// counts as theirs.
    pub fn used_by_others_since(&self, before: &Machine) -> f64 {
        let busy = self.busy.saturating_sub(before.busy);
        let others = busy.saturating_sub(self.own.saturating_sub(before.own));
        others as f64 / self.all.saturating_sub(before.all).max(1) as f64
    }
}

/// All and busy ticks of all processors: user, nice, system, idle, iowait, irq, softirq, steal.
fn parse_cpu_line(stat: &str) -> (u64, u64) {
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .take(8)
        .filter_map(|word| word.parse().ok())
        .collect();
    let all = ticks.iter().sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    (all, all - idle)
}

/// User and system ticks: the 12th and 13th field behind the name, which is in parentheses.
fn parse_own_ticks(stat: &str) -> u64 {
    let fields = stat.rsplit(')').next().unwrap_or_default();
    fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|word| word.parse::<u64>().ok())
        .sum()
}

fn read_proc(path: &str) -> io::Result<String> {
    let file = OsFs.open(Path::new(path), OpenMode::Read)?;
    let mut bytes = vec![0; MAX_PROC_BYTES];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn read_thread(id: &str) -> io::Result<(String, Usage)> {
    let status = read_proc(&format!("/proc/self/task/{id}/status"))?;
    let (name, voluntary, involuntary) = parse_status(&status);
    let scheduled = read_proc(&format!("/proc/self/task/{id}/schedstat"))?;
    let usage = Usage {
        voluntary,
        involuntary,
        cpu_nanos: first_number(&scheduled),
    };
    Ok((name, usage))
}

/// Clock ticks of a second in `/proc/self/stat`: Linux shows all its users this many.
const TICKS: f64 = 100.0;

/// CPU seconds that all threads of this process have used, also those that have ended.
pub fn cpu_seconds() -> f64 {
    let stat = read_proc("/proc/self/stat").unwrap_or_default();
    // The name, in parentheses, may have spaces. Behind it user and system time are the 12th and 13th field.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2).map(first_number);
    ticks.sum::<u64>() as f64 / TICKS
}

/// The most memory this process ever had resident, in bytes.
pub fn peak_bytes() -> u64 {
    machine::resident().map_or(0, |resident| resident.peak)
}

fn first_number(text: &str) -> u64 {
    text.split_whitespace()
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(0)
}

fn parse_status(text: &str) -> (String, u64, u64) {
    let field = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key))
            .unwrap_or_default()
            .trim()
    };
    (
        field("Name:").to_owned(),
        first_number(field("voluntary_ctxt_switches:")),
        first_number(field("nonvoluntary_ctxt_switches:")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn fields_are_found() {
        let text = "Name:\tesker x\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(parse_status(text), ("esker x".to_owned(), 12, 3));
    }

    #[test]
    fn what_others_use_is_what_is_busy_without_us() {
        let stat = "cpu  100 20 30 1000 50 5 5 40 7 7\ncpu0 1 2 3\n";
        assert_eq!(parse_cpu_line(stat), (1250, 200));
        assert_eq!(parse_cpu_line(""), (0, 0));
        let own = "77 (a ) b) R 1 2 3 4 5 6 7 8 9 10 30 12 0 0 20 0 9";
        assert_eq!(parse_own_ticks(own), 42);
        let machine = |all, busy, own| Machine { all, busy, own };
        let used = machine(1100, 260, 90).used_by_others_since(&machine(1000, 200, 50));
        assert!((used - 0.2).abs() < 1e-9);
        assert_eq!(
            Machine::default().used_by_others_since(&machine(9, 9, 9)),
            0.0
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_and_time_add_up() {
        let before = (peak_bytes(), cpu_seconds());
        const BYTES: usize = 64 << 20;
        let used = std::hint::black_box(vec![1_u8; BYTES]);
        assert!(peak_bytes() >= BYTES as u64, "{} before", before.0);
        drop(used);
        assert!(peak_bytes() >= BYTES as u64 && cpu_seconds() >= before.1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn sleeping_is_a_voluntary_switch() {
        let (begin, started) = std::sync::mpsc::channel();
        let (go, told) = std::sync::mpsc::channel();
        let (slept, done) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let sleeper = thread::Builder::new()
            .name("napper-1".to_owned())
            .spawn(move || {
                begin.send(()).expect("listens");
                // Naps before the first look would not count.
                told.recv().expect("tells");
                for _ in 0..5 {
                    thread::sleep(Duration::from_millis(2));
                }
                slept.send(()).expect("listens");
                // The sender goes: then it is over.
                assert!(ended.recv().is_err());
            })
            .expect("starts");
        started.recv().expect("starts");
        let before = Look::now();
        go.send(()).expect("listens");
        done.recv().expect("naps");
        let (nappers, _) = Look::now().since(&before, "napper-");
        drop(end);
        sleeper.join().expect("ends");
        assert!(nappers.voluntary >= 3, "{nappers:?}");
    }
}
