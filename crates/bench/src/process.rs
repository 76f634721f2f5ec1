//! What the threads of this process have used: CPU time and context switches, from `/proc`.
//!
//! Neighbours: the runner looks before and after a measurement, while all its threads live.
//!
//! **Invariants**
//! - Only threads that live at both looks are compared; a missing `/proc` gives zeros, never an error.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use esker_vfs::{Fs, OpenMode, OsFs};

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

    #[cfg(target_os = "linux")]
    #[test]
    fn sleeping_is_a_voluntary_switch() {
        let (begin, started) = std::sync::mpsc::channel();
        let (slept, done) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let sleeper = thread::Builder::new()
            .name("napper-1".to_owned())
            .spawn(move || {
                begin.send(()).expect("listens");
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
        done.recv().expect("naps");
        let (nappers, _) = Look::now().since(&before, "napper-");
        drop(end);
        sleeper.join().expect("ends");
        assert!(nappers.voluntary >= 3, "{nappers:?}");
    }
}
