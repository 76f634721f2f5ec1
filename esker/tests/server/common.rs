//! A real server process for tests: started, asked, killed, started again on the same files.

use std::fmt::Debug;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::{Duration, Instant};

use esker_server::client::{Client, ClientError, QueryResult};

use crate::watchdog;

/// Longest wait for what must come, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// First port tried; all stay below the ephemeral range, where a redialling client could take the
/// port of a killed server.
const FIRST_PORT: u16 = 24_000;
const PORTS: u16 = 6_000;

/// A setting of the tests from the environment.
pub fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// Random numbers of a seed: xorshift64*.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % below
    }
}

/// Waits until `holds`.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Tries until it works.
pub fn patiently<T, E: Debug>(mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let begun = Instant::now();
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(e) => assert!(begun.elapsed() < PATIENCE, "{e:?}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Keeps every processor busy while `work` runs.
pub fn beside_busy_threads(work: impl FnOnce()) {
    let (over, begun) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..2 * std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) && begun.elapsed() < 2 * PATIENCE {
                    std::hint::spin_loop();
                }
            });
        }
        work();
        over.store(true, Ordering::Relaxed);
    });
}

/// A port nobody listens on now, and that no other test is given while this process lives: a killed server finds its
/// port free again.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    static OURS: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    let salt = (std::process::id() % u32::from(PORTS)) as u16;
    for _ in 0..PORTS {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST_PORT + (salt.wrapping_mul(17).wrapping_add(step)) % PORTS;
        // Abstract names belong to the network namespace, like ports, and go with their process.
        let name = SocketAddr::from_abstract_name(format!("esker-test-port-{port}"));
        let Ok(claim) = UnixListener::bind_addr(&name.expect("a short name")) else {
            continue;
        };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            OURS.lock().expect("ports").push(claim);
            return port;
        }
    }
    panic!("no free port");
}

/// A source and a replica that follows it, below `dir`.
pub fn source_and_replica(dir: &Path) -> (Server, Server) {
    let start = |name: &str, id| {
        let id = format!("--server-id={id}");
        Server::start(&dir.join(name), &["--log-bin=ON", "--gtid-mode=ON", &id])
    };
    let (source, replica) = (start("source", 1), start("replica", 2));
    let account =
        "CREATE USER repl IDENTIFIED BY 'secret-word'; GRANT REPLICATION SLAVE ON *.* TO repl";
    source.connect().run(account);
    replica.connect().run(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {}, SOURCE_USER = 'repl', \
         SOURCE_PASSWORD = 'secret-word', SOURCE_CONNECT_RETRY = 1, SOURCE_AUTO_POSITION = 1, \
         GET_SOURCE_PUBLIC_KEY = 1; START REPLICA",
        source.port
    ));
    (source, replica)
}

/// A running server.
pub struct Server {
    child: Child,
    /// Port it listens on.
    pub port: u16,
    dir: PathBuf,
    args: Vec<String>,
}

impl Server {
    /// Starts a server on `dir` with extra settings.
    pub fn start(dir: &Path, args: &[&str]) -> Self {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        let port = free_port();
        let child = spawn(dir, port, &args);
        watchdog::begin(child.id(), port, dir);
        Self {
            child,
            port,
            dir: dir.to_owned(),
            args,
        }
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
        watchdog::end(self.pid());
    }

    /// kill -9 of a server that others still talk to; [`Server::kill`] must follow.
    pub fn kill_from_outside(&self) {
        let killed = Command::new("kill")
            .args(["-9", &self.pid().to_string()])
            .status();
        assert!(killed.expect("kill").success());
    }

    /// What the next start is given.
    pub fn set_args(&mut self, args: &[&str]) {
        self.args = args.iter().map(|a| (*a).to_owned()).collect();
    }

    /// Starts again, and kills it so long after that, whatever it is doing then.
    pub fn live_for(&mut self, life: Duration) {
        self.child = launch(&self.dir, self.port, &self.args);
        std::thread::sleep(life);
        self.kill();
    }

    /// Starts again on the same directory.
    pub fn restart(&mut self) {
        self.child = spawn(&self.dir, self.port, &self.args);
        watchdog::begin(self.pid(), self.port, &self.dir);
    }

    /// Starts again, with so many KiB of addresses at most.
    pub fn restart_within(&mut self, most_kib: u64) {
        let mut limited = Command::new("sh");
        let most_kib = most_kib.to_string();
        limited.args(["-c", "ulimit -v \"$0\" && exec \"$@\"", &most_kib, ESKER]);
        let child = launch_by(serve_by(limited), &self.dir, self.port, &self.args);
        self.child = ready(child, &self.dir);
        watchdog::begin(self.pid(), self.port, &self.dir);
    }

    /// Starts again, and [stops](Self::stop) it as soon as it listens.
    pub fn stop_early(&mut self) {
        self.child = launch(&self.dir, self.port, &self.args);
        watchdog::begin(self.pid(), self.port, &self.dir);
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let ended = self.child.try_wait().expect("wait");
            assert_eq!(ended, None, "the server ended before it listened");
            std::thread::sleep(Duration::from_millis(1));
        }
        self.stop();
    }

    /// Waits for a clean end that something else has caused.
    pub fn wait(&mut self) {
        let status = self.child.wait().expect("wait");
        watchdog::end(self.pid());
        assert!(status.success(), "the server ended with {status}");
    }

    /// SIGTERM, and waits for a clean end.
    pub fn stop(&mut self) {
        let status = Command::new("kill")
            .arg(self.pid().to_string())
            .status()
            .expect("kill");
        assert!(status.success());
        self.wait();
    }

    /// A session as root.
    pub fn connect(&self) -> Client {
        self.try_connect().expect("connect")
    }

    /// A session as root, if the server is there.
    pub fn try_connect(&self) -> Result<Client, ClientError> {
        Client::connect("127.0.0.1", self.port, "root", "", None)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already dead after a kill; nothing else to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
        watchdog::end(self.pid());
    }
}

/// `esker serve` without the settings of the tests, which are not settings of the server.
pub fn serve_command() -> Command {
    serve_by(Command::new(ESKER))
}

const ESKER: &str = env!("CARGO_BIN_EXE_esker");

/// The same by a command that runs `esker`.
fn serve_by(mut command: Command) -> Command {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ESKER_")) {
        command.env_remove(name);
    }
    command.arg("serve");
    command
}

fn launch(dir: &Path, port: u16, args: &[String]) -> Child {
    launch_by(serve_command(), dir, port, args)
}

fn launch_by(mut command: Command, dir: &Path, port: u16, args: &[String]) -> Child {
    command
        .arg(format!("--port={port}"))
        .arg(format!("--datadir={}", dir.join("data").display()))
        // A login with a key to make and a password to hash is long on a busy machine.
        .arg(format!("--connect-timeout={}", PATIENCE.as_secs()))
        .args(args)
        .stdout(Stdio::piped())
        .stderr(log_file(dir))
        .spawn()
        .expect("start the server")
}

fn spawn(dir: &Path, port: u16, args: &[String]) -> Child {
    ready(launch(dir, port, args), dir)
}

/// The server when it is ready.
fn ready(mut child: Child, dir: &Path) -> Child {
    let stdout = child.stdout.take().expect("stdout");
    let mut line = String::new();
    BufReader::new(stdout)
        .read_line(&mut line)
        .expect("ready line");
    if !line.contains("ready for connections") {
        let log = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
        panic!("the server did not start: {line}{log}");
    }
    // It listens. To try would leave a connection behind that tests see in lists and counters.
    child
}

fn log_file(dir: &Path) -> Stdio {
    std::fs::create_dir_all(dir).expect("test folder");
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.join("log"))
        .expect("log file");
    Stdio::from(file)
}

/// Set by `.ci/run`, which installs every client: a missing one is a failure then.
const ALL_CLIENTS: &str = "ESKER_TEST_ALL_CLIENTS";

/// Can this machine run a client? `probe` is a command that succeeds where it can. Where it cannot, the
/// test must pass without it and says so here.
pub fn has_client(name: &str, probe: &mut Command) -> bool {
    let found = probe
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !found {
        assert!(
            std::env::var_os(ALL_CLIENTS).is_none(),
            "{name} is not usable here: {probe:?}"
        );
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let note =
            format!("test {test} is SKIPPED: {name} is not on this machine; .ci/run installs it\n");
        // Past the test harness, which shows nothing of a test that passes, and in one piece. A closed
        // stderr is no reason to fail.
        let _ = std::io::stderr().write_all(note.as_bytes());
    }
    found
}

/// A Python with PyMySQL: `ESKER_TEST_PYTHON`, or the one on the path.
pub fn python() -> Option<Command> {
    let python = std::env::var("ESKER_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
    let mut probe = Command::new(&python);
    probe.args(["-c", "import pymysql, cryptography"]);
    has_client("PyMySQL", &mut probe).then(|| Command::new(python))
}

/// Output of a command that must succeed.
pub fn output(command: &mut Command) -> String {
    let out = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        out.status.success(),
        "{command:?}\n{text}{}",
        String::from_utf8_lossy(&out.stderr)
    );
    text
}

/// What tests ask of a client.
pub trait Ask {
    /// The rows of the last result, or the server's error.
    fn try_rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, ClientError>;
    /// Runs statements and returns the rows of the last one as text.
    fn rows(&mut self, sql: &str) -> Vec<Vec<Option<String>>>;
    /// Runs a statement and returns its rows as lines, cells separated by `|`.
    fn lines(&mut self, sql: &str) -> Vec<String>;
    /// The single value of the single row.
    fn value(&mut self, sql: &str) -> String;
    /// Runs statements that must succeed.
    fn run(&mut self, sql: &str);
    /// Runs a statement that may fail with a server error: its number, or None.
    fn code(&mut self, sql: &str) -> Option<u16>;
    /// Runs a statement that must fail with a server error: its text.
    fn error(&mut self, sql: &str) -> String;
}

impl Ask for Client {
    fn try_rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, ClientError> {
        let mut last = Vec::new();
        let outcome = self.query(sql, &mut |r| {
            if let QueryResult::Rows { rows, .. } = r {
                last = rows
                    .into_iter()
                    .map(|row| {
                        row.into_iter()
                            .map(|c| c.map(|c| String::from_utf8_lossy(&c).into_owned()))
                            .collect()
                    })
                    .collect();
            }
        });
        outcome.map(|()| last)
    }

    fn rows(&mut self, sql: &str) -> Vec<Vec<Option<String>>> {
        self.try_rows(sql).unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    fn lines(&mut self, sql: &str) -> Vec<String> {
        self.rows(sql)
            .into_iter()
            .map(|row| {
                let cells: Vec<_> = row
                    .into_iter()
                    .map(|c| c.unwrap_or_else(|| "NULL".into()))
                    .collect();
                cells.join("|")
            })
            .collect()
    }

    fn value(&mut self, sql: &str) -> String {
        let mut lines = self.lines(sql);
        assert_eq!(lines.len(), 1, "{sql}");
        lines.remove(0)
    }

    fn run(&mut self, sql: &str) {
        self.query(sql, &mut |_| ())
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    fn code(&mut self, sql: &str) -> Option<u16> {
        match self.query(sql, &mut |_| ()) {
            Ok(()) => None,
            Err(ClientError::Server(e)) => Some(e.code),
            Err(e) => panic!("{sql}: {e}"),
        }
    }

    fn error(&mut self, sql: &str) -> String {
        match self.query(sql, &mut |_| ()) {
            Err(ClientError::Server(e)) => e.message,
            other => panic!("{sql}: {other:?}"),
        }
    }
}
