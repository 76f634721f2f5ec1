//! `esker sql` as people and scripts use it.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;

use crate::common::{Ask, PATIENCE, Server, eventually, has_client};

fn shell() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
    command.arg("sql");
    command
}

fn run(command: &mut Command, script: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the shell starts");
    let mut stdin = child.stdin.take().expect("piped");
    // A shell that ends at an error reads no more.
    let _ = stdin.write_all(script.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("the shell ends")
}

/// Sends SIGINT.
fn interrupt(process: u32) {
    let status = Command::new("kill")
        .args(["-INT", &process.to_string()])
        .status();
    assert!(status.expect("kill").success());
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_script_ends_at_its_first_error_and_names_the_line() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &[]);
    let port = format!("--port={}", server.port);
    let script = "CREATE DATABASE shop;\nUSE shop\nCREATE TABLE t (a INT);\n\
                  INSERT INTO t VALUES (1),\n (2);\n\nSELECT nothing\nFROM t;\nDROP TABLE t;\n";
    let out = run(shell().arg(&port), script);
    assert_eq!(out.status.code(), Some(1));
    let error = text(&out.stderr);
    assert!(
        error.starts_with("ERROR 1054 (42S22) at line 7: "),
        "{error}"
    );
    assert_eq!(server.connect().lines("SELECT * FROM shop.t"), ["1", "2"]);

    // With --force the rest runs, and the exit status still tells.
    let out = run(
        shell().args([&port, "--force", "shop"]),
        "SELECT nothing;\nSELECT 7;\n",
    );
    assert_eq!(
        (text(&out.stdout), out.status.code()),
        ("7\n7\n".to_owned(), Some(1))
    );
}

#[test]
fn a_connection_is_encrypted_unless_it_is_told_otherwise() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &[]);
    let port = format!("--port={}", server.port);
    let cipher = |args: &[&str]| {
        let mut command = shell();
        command.args([&port, "-N", "-e", "SHOW STATUS LIKE 'ssl_cipher'"]);
        let out = run(command.args(args), "");
        (text(&out.stdout), text(&out.stderr))
    };
    assert!(
        cipher(&[]).0.starts_with("Ssl_cipher\tTLS"),
        "{:?}",
        cipher(&[])
    );
    assert_eq!(cipher(&["--ssl-mode=DISABLED"]).0, "Ssl_cipher\t\n");
    let own = dir.path().join("data/server-cert.pem");
    let authority = format!("--ssl-ca={}", own.display());
    let checked = cipher(&["--ssl-mode=VERIFY_IDENTITY", "--host=localhost", &authority]);
    assert!(checked.0.starts_with("Ssl_cipher\tTLS"), "{checked:?}");

    // Another server's certificate does not do.
    let other_dir = tempfile::tempdir().expect("folder");
    let _other = Server::start(other_dir.path(), &[]);
    let authority = format!(
        "--ssl-ca={}",
        other_dir.path().join("data/server-cert.pem").display()
    );
    let refused = cipher(&["--ssl-mode=VERIFY_CA", &authority]);
    assert!(refused.1.contains("SSL connection error: "), "{refused:?}");
}

#[test]
fn a_password_comes_from_the_command_line_or_the_environment() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &[]);
    server.connect().run("CREATE USER app IDENTIFIED BY 'pw'");
    let port = format!("--port={}", server.port);
    let user = ["-u", "app", "-N", "-e", "SELECT USER()"];
    let out = run(shell().args([&port, "-ppw"]).args(user), "");
    assert_eq!(text(&out.stdout), "app@localhost\n");
    let out = run(
        shell().arg(&port).args(user).env("ESKER_PASSWORD", "pw"),
        "",
    );
    assert_eq!(text(&out.stdout), "app@localhost\n");
    let out = run(shell().args([&port, "-pother"]).args(user), "");
    assert!(text(&out.stderr).contains("1045"), "{}", text(&out.stderr));
}

#[test]
fn a_directory_is_only_made_when_it_is_asked_for() {
    let dir = tempfile::tempdir().expect("folder");
    let data = dir.path().join("data");
    let embedded = |args: &[&str]| {
        let mut command = shell();
        command.args(["-N", "-e", "SELECT 1", "--datadir"]);
        run(command.arg(&data).args(args), "")
    };
    let refused = embedded(&[]);
    assert!(
        text(&refused.stderr).contains("no Esker database in"),
        "{refused:?}"
    );
    assert!(!data.exists());
    assert_eq!(text(&embedded(&["--create"]).stdout), "1\n");
    assert_eq!(text(&embedded(&[]).stdout), "1\n");
}

#[test]
fn bytes_come_out_as_they_are_stored() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &[]);
    server
        .connect()
        .run("CREATE DATABASE d; CREATE TABLE d.t (b BLOB); INSERT INTO d.t VALUES (x'00fffe27')");
    let port = format!("--port={}", server.port);
    let printed = |args: &[&str]| {
        let mut command = shell();
        command.args([&port, "-N", "-e", "SELECT b FROM d.t"]);
        run(command.args(args), "").stdout
    };
    assert_eq!(printed(&["--batch"]), b"\\0\xff\xfe'\n");
    assert_eq!(printed(&["--format=csv"]), b"\0\xff\xfe'\r\n");
    let json = b"[\n{\"b\": \"base64:type252:AP/+Jw==\"}\n]\n";
    assert_eq!(printed(&["--format=json"]), json);
    let table = text(&printed(&["--table"]));
    assert!(table.contains("| 0x00FFFE27 |"), "{table}");
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_script() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &[]);
    let port = format!("--port={}", server.port);
    let out = run(shell().args([&port, "-N"]), "\u{feff}SELECT 1;\n");
    assert_eq!(text(&out.stdout), "1\n", "{}", text(&out.stderr));
    // Before a command of the shell, too, and in every file.
    let file = dir.path().join("marked.sql");
    std::fs::write(&file, "\u{feff}SELECT 2;\n").expect("file");
    let script = format!("\u{feff}source {}\n", file.display());
    let out = run(shell().args([&port, "-N"]), &script);
    assert_eq!(text(&out.stdout), "2\n", "{}", text(&out.stderr));
    // Only at the beginning.
    let out = run(
        shell().args([&port, "-N"]),
        "SELECT 3;\n\u{feff}SELECT 4;\n",
    );
    assert_eq!(text(&out.stdout), "3\n");
    let error = text(&out.stderr);
    assert!(
        error.starts_with("ERROR 1064 (42000) at line 2: "),
        "{error}"
    );
}

#[test]
fn results_that_cannot_be_written_end_the_shell() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &[]);
    let mut client = server.connect();
    client.run("CREATE DATABASE d; CREATE TABLE d.t (a INT)");
    let port = format!("--port={}", server.port);
    let script = "SELECT 1; INSERT INTO d.t VALUES (1)";
    let ends = |how: &str, stdout: Stdio| {
        let mut command = shell();
        command.args([&port, how, "-e", script]).stdout(stdout);
        let child = command.stderr(Stdio::piped()).spawn();
        let out = child.expect("the shell starts").wait_with_output();
        let out = out.expect("the shell ends");
        (out.status.code(), text(&out.stderr))
    };
    for how in ["--batch", "--format=csv", "--format=json", "--force"] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let (status, error) = ends(how, full.expect("/dev/full").into());
        assert_eq!(status, Some(1), "{how}: {error}");
        let message = "esker: cannot write the results: No space left on device";
        assert!(error.starts_with(message), "{how}: {error}");
    }
    // A reader that has gone ends it silently.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    assert_eq!(ends("--batch", writer.into()), (Some(0), String::new()));
    assert_eq!(client.value("SELECT COUNT(*) FROM d.t"), "0");
}

/// The shell on a terminal of its own, which `script` makes.
struct Terminal {
    child: std::process::Child,
    output: mpsc::Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn open(port: u16, home: &Path) -> Self {
        // A shell between `script` and the program would get Ctrl-C too: dash waits for the program, then ends by it.
        let line = format!("exec {} sql --port={port}", env!("CARGO_BIN_EXE_esker"));
        let mut child = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("HOME", home)
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script");
        let mut stdout = child.stdout.take().expect("piped");
        let (read, output) = mpsc::channel();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(n @ 1..) = stdout.read(&mut chunk) {
                if read.send(chunk[..n].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            output,
            seen: String::new(),
        }
    }

    fn send(&mut self, keys: &str) {
        let stdin = self.child.stdin.as_mut().expect("piped");
        stdin.write_all(keys.as_bytes()).expect("keys");
        stdin.flush().expect("keys");
    }

    /// Reads until the text has appeared, and forgets what came before its end.
    fn expect(&mut self, wanted: &str) {
        loop {
            if let Some(at) = self.seen.find(wanted) {
                self.seen.drain(..at + wanted.len());
                return;
            }
            let Ok(chunk) = self.output.recv_timeout(PATIENCE) else {
                panic!("no {wanted:?} in {:?}", self.seen);
            };
            self.seen.push_str(&String::from_utf8_lossy(&chunk));
        }
    }
}

impl Terminal {
    /// Sends a signal to the shell, as Ctrl-C does while it does not read keys.
    fn interrupt(&self) {
        let id = self.child.id();
        let children = format!("/proc/{id}/task/{id}/children");
        let shell = std::fs::read_to_string(children).expect("the children of script");
        interrupt(shell.trim().parse().expect("one child"));
    }

    /// Reads to the end, and then waits. `script` hangs up on the shell as soon as its own input ends: that stays open
    /// until the shell has gone.
    fn ends(&mut self) -> std::process::ExitStatus {
        let keyboard = self.child.stdin.take();
        while self.output.recv_timeout(PATIENCE).is_ok() {}
        let status = self.child.wait().expect("ends");
        drop(keyboard);
        status
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Ended already, if all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn on_a_terminal_control_c_ends_the_statement_and_not_the_shell() {
    if !has_client("script", Command::new("script").arg("--version")) {
        return;
    }
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &[]);
    let mut terminal = Terminal::open(server.port, dir.path());
    terminal.expect("esker> ");
    terminal.send("select sleep(600);\r");
    let mut watcher = server.connect();
    let sleeps =
        "SELECT COUNT(*) FROM information_schema.processlist WHERE info = 'select sleep(600)'";
    while watcher.value(sleeps) == "0" {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    terminal.send("\x03");
    // SLEEP answers 1 when it is interrupted.
    terminal.expect("1 row in set");
    terminal.expect("esker> ");
    // A press that comes when the statement has just ended finds nothing to end.
    for _ in 0..5 {
        terminal.interrupt();
    }
    terminal.send("select concat('un', 'hurt');\r");
    terminal.expect("unhurt");
    terminal.expect("esker> ");
    // At the prompt, it forgets the statement that has begun.
    terminal.send("select\r");
    terminal.expect("-> ");
    terminal.send("\x03");
    terminal.expect("esker> ");
    terminal.send("select concat('al', 'ive')\\G\r");
    terminal.expect("alive");
    terminal.expect("esker> ");
    // An empty line and a USE without a semicolon disturb nothing.
    terminal.send("\ruse mysql\r");
    terminal.expect("esker> ");
    terminal.send("select concat('st', 'ill');\r");
    terminal.expect("still");
    terminal.expect("> ");
    terminal.send("exit\r");
    let status = terminal.ends();
    assert!(status.success(), "{status}");
    let history = std::fs::read_to_string(dir.path().join(".esker_history")).expect("history");
    assert!(history.contains("select sleep(600);"), "{history}");
}

#[test]
fn in_a_script_control_c_ends_the_statement_and_the_script() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &[]);
    let mut watcher = server.connect();
    // A statement that fails then, and one that does not.
    for sleeps in ["SELECT SLEEP(600)", "SELECT SLEEP(600) FROM mysql.user"] {
        let child = shell()
            .args([&format!("--port={}", server.port), "-N", "--force", "-e"])
            .arg(format!("{sleeps}; SELECT 'went on'"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the shell starts");
        let running =
            format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO = '{sleeps}'");
        eventually("the statement runs", || watcher.value(&running) == "1");
        interrupt(child.id());
        let out = child.wait_with_output().expect("the shell ends");
        assert_eq!(out.status.code(), Some(130), "{}", text(&out.stderr));
        assert!(!text(&out.stdout).contains("went on"));
    }
}
