//! BACKUP SERVER and `esker backup`: what is restored is the server at one moment, whatever happened beside it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use esker_server::client::Client;

use crate::common::{Ask, Dice, PATIENCE, Server, beside_busy_threads, eventually};

const ARGS: [&str; 2] = ["--log-bin=ON", "--gtid-mode=ON"];
/// The same, but the binary log decides.
const TWO_PHASE: &[&str] = &["--esker-binlog-commit=TWO-PHASE"];
const WRITERS: u64 = 4;
/// Statements before the writers' first: CREATE DATABASE and two CREATE TABLE, and a row for each writer.
const FIRST_GTIDS: u64 = 3 + WRITERS;

fn esker(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
    command.args(args).output().expect("run")
}

/// Standard output of a command that must succeed.
fn said(args: &[&str]) -> String {
    let output = esker(args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

/// Standard error of a command that must fail.
fn complaint(args: &[&str]) -> String {
    let output = esker(args);
    assert!(!output.status.success(), "{args:?}");
    String::from_utf8(output.stderr).expect("text")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Transactions of one writer: row `n`, and the sum of all its rows so far.
fn write(port: u16, writer: u64, acknowledged: &AtomicU64, is_over: &AtomicBool) {
    let connected = Client::connect("127.0.0.1", port, "root", "", Some("d"));
    let mut client = connected.expect("connect");
    let mut n = acknowledged.load(Ordering::SeqCst);
    while !is_over.load(Ordering::SeqCst) {
        n += 1;
        let filler = "x".repeat(200);
        let statements = format!(
            "BEGIN; INSERT INTO t VALUES ({writer}, {n}, '{filler}');
             UPDATE s SET n = {n}, total = total + {n} WHERE writer = {writer}; COMMIT"
        );
        // The server may be killed meanwhile.
        if client.query(&statements, &mut |_| ()).is_err() {
            return;
        }
        acknowledged.store(n, Ordering::SeqCst);
    }
}

/// How many transactions of every writer there are; each must be there whole, without a gap.
fn counts(client: &mut Client) -> Vec<u64> {
    let rows = client.lines(
        "SELECT s.writer, s.n, s.total, COUNT(t.n), COALESCE(MAX(t.n), 0), COALESCE(SUM(t.n), 0)
         FROM d.s LEFT JOIN d.t USING (writer) GROUP BY s.writer ORDER BY s.writer",
    );
    let mut counts = Vec::new();
    for row in rows {
        let cells: Vec<u64> = row.split('|').map(|c| c.parse().expect("number")).collect();
        let (n, total) = (cells[1], cells[2]);
        assert_eq!(total, n * (n + 1) / 2, "{row}");
        assert_eq!(cells[3..], [n, n, total], "{row}");
        counts.push(n);
    }
    counts
}

/// The last number of a set of GTIDs of one server.
fn last_gtid(set: &str) -> u64 {
    let (_, last) = set.rsplit_once("1-").expect("a set from the first on");
    last.trim().parse().expect("a number")
}

/// Restores a backup, starts a server on it, and compares it with what the backup says and what writers have heard.
fn check_restored(dir: &Path, backup: &Path, before: &[u64], after: &[u64]) {
    let place = dir.join("restored").join(backup.file_name().expect("name"));
    let data = place.join("data");
    std::fs::create_dir_all(&place).expect("folder");
    let restored = said(&["restore", "--from", text(backup), "--to", text(&data)]);
    assert!(said(&["check", text(&data)]).contains("everything is whole"));
    let server = Server::start(&place, &ARGS);
    let mut client = server.connect();
    let counts = counts(&mut client);
    for (writer, n) in counts.iter().enumerate() {
        let range = before[writer]..=after[writer] + 1;
        assert!(range.contains(n), "writer {writer}: {n} of {range:?}");
    }
    let executed = client.value("SELECT @@global.gtid_executed");
    assert_eq!(client.value("SELECT @@global.gtid_purged"), executed);
    assert!(restored.contains(&executed), "{restored}");
    let transactions = counts.iter().sum::<u64>() + FIRST_GTIDS;
    assert_eq!(last_gtid(&executed), transactions);
    assert_eq!(
        client.value("SELECT COUNT(*) FROM mysql.user WHERE User = 'keeper'"),
        "1"
    );
    client.run("INSERT INTO d.t VALUES (99, 1, ''); DROP TABLE d.t");
}

#[test]
fn backups_under_load_are_of_one_moment() {
    under_load(&[]);
}

#[test]
fn backups_of_files_that_decide_are_of_one_moment() {
    under_load(TWO_PHASE);
}

fn under_load(more: &[&str]) {
    let dir = tempfile::tempdir().expect("dir");
    let source = dir.path().join("source");
    let mut args = [&ARGS[..], more].concat();
    // Flushes and compactions.
    args.extend([
        "--esker-memory-limit=67108864",
        "--esker-log-live-size=4194304",
        "--esker-log-segment-size=1048576",
    ]);
    let mut server = Server::start(&source, &args);
    let mut client = server.connect();
    client.run(
        "CREATE DATABASE d; CREATE TABLE d.t (writer INT, n INT, filler TEXT, PRIMARY KEY (writer, n));
         CREATE TABLE d.s (writer INT PRIMARY KEY, n INT, total BIGINT)",
    );
    for writer in 0..WRITERS {
        client.run(&format!("INSERT INTO d.s VALUES ({writer}, 0, 0)"));
    }
    // Accounts have a file of their own.
    client.run("SET sql_log_bin = 0; CREATE USER keeper; SET sql_log_bin = 1");
    let acknowledged: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let now = || -> Vec<u64> {
        acknowledged
            .iter()
            .map(|n| n.load(Ordering::SeqCst))
            .collect()
    };
    let is_over = AtomicBool::new(false);
    let mut taken: Vec<(PathBuf, Vec<u64>, Vec<u64>)> = Vec::new();
    std::thread::scope(|scope| {
        for (writer, acknowledged) in (0..).zip(&acknowledged) {
            let (port, is_over) = (server.port, &is_over);
            scope.spawn(move || write(port, writer, acknowledged, is_over));
        }
        let port = format!("--port={}", server.port);
        for (number, name) in ["full", "one", "two"].into_iter().enumerate() {
            let goal = 60 * (number as u64 + 1);
            while now().iter().any(|n| *n < goal) {
                std::thread::yield_now();
            }
            let (to, before) = (dir.path().join(name), now());
            let mut args = vec!["backup", &port, "--to", text(&to)];
            let base = taken.last().map(|(base, ..)| base.clone());
            if let Some(base) = &base {
                args.extend(["--base", text(base)]);
            }
            let answer = said(&args);
            assert!(answer.contains("backup id: "), "{answer}");
            taken.push((to, before, now()));
        }
        // The source is gone before anything is restored.
        server.kill_from_outside();
    });
    server.kill();
    std::fs::remove_dir_all(source.join("data")).expect("remove");
    for (backup, before, after) in &taken {
        assert!(said(&["backup", "verify", text(backup)]).contains("everything is whole"));
        check_restored(dir.path(), backup, before, after);
    }
}

#[test]
fn damage_in_a_backup_is_named() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &[]);
    let mut client = server.connect();
    client.run("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY, b TEXT)");
    client.run("INSERT INTO d.t WITH RECURSIVE r AS (SELECT 1 a UNION ALL SELECT a + 1 FROM r WHERE a < 900) SELECT a, REPEAT(MD5(a), 20) FROM r");
    client.run("FLUSH TABLES d.t FOR EXPORT; UNLOCK TABLES");
    let (full, next) = (dir.path().join("full"), dir.path().join("next"));
    let rows = client.rows(&format!("BACKUP SERVER TO '{}'", full.display()));
    assert_eq!(rows[0][0].as_ref().map(String::len), Some(32));
    client.run(&format!(
        "BACKUP SERVER TO '{}' BASE '{}'",
        next.display(),
        full.display()
    ));
    let mut files: Vec<PathBuf> = vec![full.join("accounts"), full.join("backup.manifest")];
    for folder in ["extents", "manifest", "wal"] {
        let found = std::fs::read_dir(full.join(folder)).expect("folder");
        files.extend(found.map(|entry| entry.expect("entry").path()));
    }
    assert!(files.len() > 4, "{files:?}");
    let mut dice = Dice::new(24);
    for file in files {
        let whole = std::fs::read(&file).expect("read");
        let place = dice.roll(whole.len() as u64) as usize;
        let mut changed = whole.clone();
        changed[place] ^= 1;
        for damaged in [&changed, &whole[..place]] {
            std::fs::write(&file, damaged).expect("write");
            let output = esker(&["backup", "verify", text(&full)]);
            let shown = [output.stdout, output.stderr].concat();
            let shown = String::from_utf8_lossy(&shown).into_owned();
            assert!(!output.status.success(), "{}", file.display());
            assert!(shown.contains(text(&file)), "{}: {shown}", file.display());
        }
        // The one that rests on it notices what it needs of it.
        if file.starts_with(full.join("extents")) {
            let into = dir.path().join("into");
            let said = complaint(&["restore", "--from", text(&next), "--to", text(&into)]);
            assert!(said.contains(text(&file)), "{said}");
            let refused = complaint(&[
                "serve",
                "--port=1",
                &format!("--datadir={}", into.display()),
            ]);
            assert!(!refused.is_empty());
        }
        std::fs::write(&file, &whole).expect("write");
    }
    assert!(said(&["backup", "verify", text(&next)]).contains("everything is whole"));
    // Both have moved.
    std::fs::create_dir(dir.path().join("moved")).expect("folder");
    for backup in [&full, &next] {
        let name = backup.file_name().expect("name");
        std::fs::rename(backup, dir.path().join("moved").join(name)).expect("move");
    }
    let moved = dir.path().join("moved/next");
    assert!(said(&["backup", "verify", text(&moved)]).contains("everything is whole"));
}

#[test]
fn backups_need_the_privilege_and_a_place_of_their_own() {
    let dir = tempfile::tempdir().expect("dir");
    let allowed = dir.path().join("allowed");
    std::fs::create_dir(&allowed).expect("folder");
    let setting = format!("--secure-file-priv={}", allowed.display());
    let server = Server::start(dir.path(), &[&setting]);
    let mut root = server.connect();
    root.run("CREATE USER u@localhost");
    let mut u = Client::connect("127.0.0.1", server.port, "u", "", None).expect("connect");
    let to = |path: &Path| format!("BACKUP SERVER TO '{}'", path.display());
    let fine = allowed.join("a");
    assert_eq!(u.code(&to(&fine)), Some(1227));
    root.run("GRANT BACKUP_ADMIN ON *.* TO u@localhost");
    u.run(&to(&fine));
    assert_eq!(u.code(&to(&fine)), Some(1030), "it is not empty");
    assert_eq!(u.code("BACKUP SERVER TO 'relative'"), Some(1105));
    assert_eq!(u.code(&to(&dir.path().join("nowhere/a"))), Some(1105));
    assert_eq!(u.code(&to(&dir.path().join("outside"))), Some(1290));
    let base = format!(" BASE '{}'", dir.path().join("outside").display());
    assert_eq!(u.code(&(to(&allowed.join("b")) + &base)), Some(1290));
    assert_eq!(u.code("BACKUP SERVER"), Some(1064));
    let backups = u.lines("SHOW GLOBAL STATUS LIKE 'Esker_backups'");
    assert_eq!(backups, ["Esker_backups|1"]);
    drop(server);
    let server = Server::start(dir.path(), &[]);
    let inside = dir.path().join("data/backup");
    assert_eq!(server.connect().code(&to(&inside)), Some(1105));
}

#[test]
fn a_limit_of_the_rate_holds_until_it_is_lifted() {
    let dir = tempfile::tempdir().expect("dir");
    // effect: esker_backup_rate_limit
    let server = Server::start(dir.path(), &["--esker-backup-rate-limit=1"]);
    let mut client = server.connect();
    // In an extent: the log is not limited.
    client.run("CREATE DATABASE d; CREATE TABLE d.t (a INT); INSERT INTO d.t VALUES (1)");
    client.run("FLUSH TABLES d.t FOR EXPORT; UNLOCK TABLES");
    let (to, again) = (dir.path().join("to"), dir.path().join("again"));
    let back_up = |to: &Path| {
        let (port, statement) = (server.port, format!("BACKUP SERVER TO '{}'", to.display()));
        std::thread::spawn(move || {
            let connected = Client::connect("127.0.0.1", port, "root", "", None);
            connected.expect("connect").code(&statement)
        })
    };
    let begun = "SELECT VARIABLE_VALUE > 0 FROM performance_schema.global_status
                 WHERE VARIABLE_NAME = 'Esker_backup_bytes_done'";
    let backup = back_up(&to);
    eventually("bytes are copied", || client.value(begun) == "1");
    let id =
        client.value("SELECT ID FROM information_schema.PROCESSLIST WHERE STATE = 'Backing up'");
    client.run(&format!("KILL QUERY {id}"));
    assert_eq!(backup.join().expect("end"), Some(1317));
    let backup = back_up(&again);
    eventually("bytes are copied", || client.value(begun) == "1");
    client.run("SET GLOBAL esker_backup_rate_limit = 0");
    assert_eq!(backup.join().expect("end"), None);
    assert!(said(&["backup", "verify", text(&again)]).contains("everything is whole"));
}

/// Where threads queue for processors a backup pauses, unless it may work all of the time.
#[test]
fn a_backup_gives_way_where_processors_are_short() {
    // A system that does not tell how long threads queue knows no pauses.
    if esker_vfs::threads::queued_time().is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &["--esker-backup-least-share=100"]);
    let mut client = server.connect();
    client.run("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY, b TEXT); SET cte_max_recursion_depth = 20000");
    client.run("INSERT INTO d.t WITH RECURSIVE r AS (SELECT 1 a UNION ALL SELECT a + 1 FROM r WHERE a < 20000) SELECT a, CONCAT(SHA2(a, 512), SHA2(-a, 512)) FROM r");
    client.run("FLUSH TABLES d.t FOR EXPORT; UNLOCK TABLES");
    let pauses = "SELECT VARIABLE_VALUE FROM performance_schema.global_status
                  WHERE VARIABLE_NAME = 'Esker_backup_pauses'";
    let mut backups = 0;
    let mut back_up = |client: &mut Client| {
        backups += 1;
        let to = dir.path().join(format!("to-{backups}"));
        client.run(&format!("BACKUP SERVER TO '{}'", to.display()));
        std::fs::remove_dir_all(to).expect("remove");
    };
    let (mut without, mut with) = (String::new(), String::new());
    beside_busy_threads(|| {
        let begun = Instant::now();
        back_up(&mut client);
        without = client.value(pauses);
        // effect: esker_backup_least_share
        client.run("SET GLOBAL esker_backup_least_share = 20");
        while client.value(pauses) == "0" && begun.elapsed() < PATIENCE {
            back_up(&mut client);
        }
        with = client.value(pauses);
    });
    assert_eq!(without, "0");
    assert_ne!(with, "0", "it never paused");
}

/// What there is, as lines.
fn state(client: &mut Client) -> Vec<String> {
    let mut lines = client.lines("SELECT * FROM d.t ORDER BY a");
    lines.extend(client.lines("SELECT * FROM d.later ORDER BY a"));
    lines.extend(client.lines("SELECT * FROM d.filled ORDER BY a"));
    lines.extend(client.lines("SHOW CREATE TABLE d.later"));
    lines.extend(client.lines("XA RECOVER"));
    lines
}

#[test]
fn a_restore_goes_on_with_the_binary_log() {
    restore(&[]);
}

#[test]
fn a_restore_goes_on_with_files_that_decide() {
    restore(TWO_PHASE);
}

fn restore(more: &[&str]) {
    let dir = tempfile::tempdir().expect("dir");
    let source = dir.path().join("source");
    let mut server = Server::start(&source, &[&ARGS[..], more].concat());
    let mut client = server.connect();
    client.run(
        "CREATE DATABASE d; USE d; CREATE TABLE t (a INT PRIMARY KEY, b TEXT, at TIMESTAMP DEFAULT NOW());
         INSERT INTO t (a, b) VALUES (1, 'before'), (2, 'gone')",
    );
    let backup = dir.path().join("backup");
    client.run(&format!("BACKUP SERVER TO '{}'", backup.display()));
    client.run(
        "INSERT INTO t (a, b) VALUES (3, 'später'); UPDATE t SET b = REPEAT('x', 3000) WHERE a = 1; DELETE FROM t WHERE a = 2;
         BEGIN; INSERT INTO t (a) VALUES (4); INSERT INTO t (a) VALUES (5); COMMIT;
         FLUSH BINARY LOGS; CREATE TABLE filled AS SELECT a, b FROM t WHERE a > 1;
         SET time_zone = '+05:00', sql_mode = 'ANSI_QUOTES';
         CREATE TABLE \"later\" (a INT PRIMARY KEY, at TIMESTAMP DEFAULT '2024-01-01 00:00:00');
         SET binlog_transaction_compression = ON; INSERT INTO later (a) VALUES (1), (2), (3);
         XA START 'x'; INSERT INTO t (a) VALUES (6); XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x';
         XA START 'y'; INSERT INTO later (a) VALUES (7); XA END 'y'; XA PREPARE 'y';
         SET time_zone = '+00:00', sql_mode = DEFAULT",
    );
    let expected = state(&mut client);
    let executed = client.value("SELECT @@global.gtid_executed");
    let time = client.value("SELECT DATE_FORMAT(UTC_TIMESTAMP(6), '%Y-%m-%dT%H:%i:%s.%fZ')");
    client.run("DROP TABLE d.t");
    // Waits until the files have it.
    client.run("FLUSH BINARY LOGS");
    server.kill();
    let (uuid, _) = executed.split_once(':').expect("a set");
    let last = format!("{uuid}:{}", last_gtid(&executed));
    let binlog = source.join("data/binlog");
    let restored_to = |name: &str, until: &[&str]| {
        let data = dir.path().join(name).join("data");
        std::fs::create_dir_all(dir.path().join(name)).expect("folder");
        let mut args = vec!["restore", "--from", text(&backup), "--to", text(&data)];
        args.extend(["--binlog", text(&binlog)]);
        args.extend(until);
        esker(&args)
    };
    for (name, until) in [("by-gtid", &*last), ("by-time", &*time)] {
        let output = restored_to(name, &["--until", until]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{until}: {error}");
        let restored = Server::start(&dir.path().join(name), &ARGS);
        let mut client = restored.connect();
        client.run("SET time_zone = '+00:00'");
        assert_eq!(state(&mut client), expected, "{until}");
        assert_eq!(client.value("SELECT @@global.gtid_executed"), executed);
    }
    assert!(restored_to("all", &[]).status.success());
    let restored = Server::start(&dir.path().join("all"), &ARGS);
    assert_eq!(restored.connect().code("SELECT * FROM d.t"), Some(1146));
    refuses_what_is_past(&backup, uuid, |until| {
        restored_to("past", &["--until", until])
    });
    assert!(!dir.path().join("past/data").exists());
    let nowhere = restored_to("nowhere", &["--until", &format!("{uuid}:4711")]);
    let error = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    assert!(
        !nowhere.status.success() && error.contains("4711"),
        "{error}"
    );
}

/// A time before the backup and a transaction that it has are refused, with the moment that it is of.
fn refuses_what_is_past(backup: &Path, uuid: &str, restore: impl Fn(&str) -> Output) {
    let listing = std::fs::read_to_string(backup.join("backup.manifest")).expect("listing");
    let micros = listing.lines().find_map(|l| l.strip_prefix("time "));
    let micros: i64 = micros.and_then(|m| m.parse().ok()).expect("a time");
    let moment = jiff::Timestamp::from_microsecond(micros).expect("a time");
    for until in ["2000-01-01", &*format!("{uuid}:1")] {
        let output = restore(until);
        let error = String::from_utf8_lossy(&output.stderr);
        let names_it = error.contains(&format!("the backup is of {moment}, and "));
        assert!(!output.status.success() && names_it, "{until}: {error}");
    }
}
