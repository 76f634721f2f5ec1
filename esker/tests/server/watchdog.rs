//! Ends what hangs. A test whose server lives longer than any test needs would hold up the whole run without a word of
//! why; here the run says which test it is and what its server does, and the server is ended, so that the test fails
//! and the others go on. [`common::Server`](super::common::Server) says when a process begins and ends.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, Once, mpsc};
use std::time::{Duration, Instant};

use esker_server::client::Client;

use crate::common::Ask;

/// No test runs longer, on a busy machine either.
const LIMIT: Duration = Duration::from_secs(15 * 60);
/// From the end of the server to the end of the whole run, where that did not end the test.
const GRACE: Duration = Duration::from_secs(120);
/// Between two looks.
const STEP: Duration = Duration::from_secs(5);
/// How much of a log is shown.
const LOG_TAIL: usize = 4 << 10;
/// What is asked of a server that hangs.
const QUESTIONS: [&str; 3] = [
    "SHOW FULL PROCESSLIST",
    "SELECT * FROM performance_schema.metadata_locks",
    "SELECT * FROM performance_schema.data_lock_waits",
];

#[derive(Clone)]
struct Watched {
    pid: u32,
    port: u16,
    log: PathBuf,
    test: String,
    since: Instant,
    is_ended: bool,
}

static WATCHED: Mutex<Vec<Watched>> = Mutex::new(Vec::new());

/// A server of this test has begun.
pub fn begin(pid: u32, port: u16, dir: &Path) {
    static WATCHER: Once = Once::new();
    WATCHER.call_once(|| {
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(STEP);
                look();
            }
        });
    });
    let mut watched = WATCHED.lock().expect("watchdog");
    watched.push(Watched {
        pid,
        port,
        log: dir.join("log"),
        test: std::thread::current().name().unwrap_or("?").to_owned(),
        since: Instant::now(),
        is_ended: false,
    });
}

/// The process has ended, and was waited for.
pub fn end(pid: u32) {
    let mut watched = WATCHED.lock().expect("watchdog");
    watched.retain(|w| w.pid != pid);
}

fn look() {
    for server in overdue() {
        tell(&describe(&server));
        // Its core, where the machine keeps one, says more.
        let _ = Command::new("kill")
            .args(["-ABRT", &server.pid.to_string()])
            .status();
    }
}

/// Those that are to be ended now. Others may begin and end meanwhile.
fn overdue() -> Vec<Watched> {
    let mut watched = WATCHED.lock().expect("watchdog");
    let mut overdue = Vec::new();
    for server in &mut *watched {
        let age = server.since.elapsed();
        if age > LIMIT + GRACE {
            tell(&format!(
                "test {} hangs without its server: the run ends",
                server.test
            ));
            std::process::abort();
        }
        if age > LIMIT && !server.is_ended {
            server.is_ended = true;
            overdue.push(server.clone());
        }
    }
    overdue
}

/// Past the test harness, which keeps what tests print.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn describe(server: &Watched) -> String {
    let mut out = format!(
        "test {} hangs; its server, process {}, is ended\n",
        server.test, server.pid
    );
    for task in std::fs::read_dir(format!("/proc/{}/task", server.pid))
        .into_iter()
        .flatten()
        .flatten()
    {
        let file = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let _ = writeln!(
            out,
            "thread {} {}: {}",
            task.file_name().display(),
            file("comm").trim(),
            file("wchan")
        );
    }
    let log = std::fs::read(&server.log).unwrap_or_default();
    let tail = &log[log.len().saturating_sub(LOG_TAIL)..];
    let _ = writeln!(out, "log: {}", String::from_utf8_lossy(tail));
    // It may not answer, and is not waited for.
    let (answers, received) = mpsc::channel();
    let port = server.port;
    std::thread::spawn(move || {
        let Ok(mut c) = Client::connect("127.0.0.1", port, "root", "", None) else {
            return;
        };
        for question in QUESTIONS {
            let answer = c.lines(question).join("\n");
            if answers.send(format!("{question}:\n{answer}")).is_err() {
                return;
            }
        }
    });
    while let Ok(answer) = received.recv_timeout(STEP) {
        let _ = writeln!(out, "{answer}");
    }
    out
}
