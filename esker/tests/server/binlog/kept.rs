//! What stays in the files: the rows of statements that fail inside of others, and what a damaged file had.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::process::Command;

use esker_server::client::Client;

use super::{ARGS, Replayed};
use crate::common::{Ask, Server, free_port, serve_command};

#[test]
fn rows_before_one_that_fails_are_logged_if_they_stay() {
    let dir = tempfile::tempdir().expect("dir");
    let mut server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; USE d");
    c.run("CREATE TABLE o (what VARCHAR(20), PRIMARY KEY (what))");
    c.run("CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE, w MEDIUMTEXT)");
    c.run(
        "CREATE TRIGGER oi AFTER INSERT ON o FOR EACH ROW BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET @failed = 1; \
         IF NEW.what LIKE 'insert%' THEN INSERT INTO t VALUES (1, 1, ''), (2, 2, ''), (3, 1, ''), (4, 4, ''); \
         ELSEIF NEW.what = 'large' THEN INSERT INTO t VALUES (11, 11, REPEAT('x', 100000)), (12, 12, ''), (13, 1, ''); \
         ELSEIF NEW.what = 'update' THEN UPDATE t SET u = IF(id = 2, 11, u + 20) ORDER BY id; \
         ELSE REPLACE INTO t VALUES (21, 21, ''), (2, 22, ''), (23, 23, 1 + REPEAT('y', 3)); END IF; END",
    );
    for what in ["insert", "large", "update", "replace"] {
        c.run(&format!("SET @failed = 0; INSERT INTO o VALUES ('{what}')"));
        assert_eq!(c.value("SELECT @failed"), "1", "{what}");
    }
    // Something before and behind in one statement; and what is taken back with the statement around.
    c.run("DELETE FROM t WHERE id = 2");
    c.run("INSERT INTO o VALUES ('insert 1'), ('insert 2')");
    assert_eq!(
        c.code("INSERT INTO o VALUES ('insert 3'), ('insert')"),
        Some(1062)
    );
    assert_eq!(
        c.lines("SELECT id, u FROM t ORDER BY id"),
        ["1|1", "2|2", "11|11", "12|12", "21|21"]
    );
    server.stop();
    let replayed = Replayed::of(dir.path());
    server.restart();
    replayed.assert_is(&mut server.connect(), &["d.o", "d.t"]);
}

/// What the files have, event by event.
fn events(c: &mut Client) -> Vec<String> {
    let files = c.rows("SHOW BINARY LOGS");
    let names = files.iter().map(|row| row[0].clone().expect("a name"));
    let names: Vec<String> = names.collect();
    let all = names
        .iter()
        .flat_map(|name| c.lines(&format!("SHOW BINLOG EVENTS IN '{name}'")));
    all.collect()
}

#[test]
fn a_damaged_file_is_derived_again_as_far_as_the_log_has_it() {
    let dir = tempfile::tempdir().expect("dir");
    let mut server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY, v TEXT)");
    c.run("FLUSH BINARY LOGS");
    for n in 0..20 {
        c.run(&format!("INSERT INTO d.t VALUES ({n}, REPEAT('x', {n}00))"));
    }
    c.run("CREATE TABLE d.u (a INT)");
    // It is synced, and the position noted.
    c.run("SET GLOBAL max_binlog_size = 1048576");
    let before = events(&mut c);
    server.kill();
    let file = dir.path().join("data/binlog/binlog.000002");
    flip(&file, fs::metadata(&file).expect("there").len() / 2);
    server.restart();
    let mut c = server.connect();
    c.run("INSERT INTO d.t VALUES (100, '')");
    let after = events(&mut c);
    assert_eq!(after[..before.len()], before);
    assert!(after.len() > before.len());
    c.run("SET GLOBAL max_binlog_size = 65536");
    // The head of a file is nowhere else: the error says which file it is, where, and what to do.
    server.kill();
    flip(&file, 60);
    let said = refused(&dir.path().join("data"));
    for part in [
        "binlog.000002",
        "damaged at offset 4",
        "move the files of the binary log away",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    fs::rename(
        dir.path().join("data/binlog"),
        dir.path().join("data/before"),
    )
    .expect("move");
    server.restart();
    let mut c = server.connect();
    assert_eq!(c.value("SELECT COUNT(*) FROM d.t"), "21");
    assert_eq!(c.rows("SHOW BINARY LOGS").len(), 1);
}

fn flip(file: &PathBuf, at: u64) {
    use std::os::unix::fs::FileExt;
    let file = OpenOptions::new().read(true).write(true).open(file);
    let file = file.expect("open");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 1], at).expect("write");
}

/// A start that must fail: what it says.
fn refused(data: &std::path::Path) -> String {
    let mut command: Command = serve_command();
    command
        .arg(format!("--port={}", free_port()))
        .arg(format!("--datadir={}", data.display()))
        .args(ARGS);
    let output = command.output().expect("the command runs");
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}
