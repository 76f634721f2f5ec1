//! Damaged files, seen by the real command: what is said, what is refused, what going on without the damage gives.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{Ask, Server, free_port, serve_command};

fn esker(args: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_esker"))
        .args(args)
        .arg(dir)
        .output()
        .expect("the command runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir.join("data/wal"))
        .expect("there is a log")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "wal"))
        .collect();
    found.sort();
    found
}

fn flip(path: &Path, offset: usize) {
    let mut bytes = fs::read(path).expect("readable");
    bytes[offset] ^= 1;
    fs::write(path, bytes).expect("writable");
}

/// Rows that were committed one after the other, each in a block of its own; the server is gone.
fn filled(dir: &Path) -> PathBuf {
    let mut server = Server::start(dir, &["--esker-log-segment-size=1048576"]);
    let mut c = server.connect();
    c.run("CREATE DATABASE d");
    c.run("CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(100))");
    for id in 0..40 {
        c.run(&format!("INSERT INTO d.t VALUES ({id}, REPEAT('x', 50))"));
    }
    drop(c);
    server.kill();
    dir.join("data")
}

#[test]
fn a_whole_directory_is_found_whole_and_shown() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = filled(dir.path());
    let checked = esker(&["check"], &data);
    assert!(checked.status.success(), "{}", stdout(&checked));
    let text = stdout(&checked);
    assert!(text.ends_with("everything is whole\n"), "{text}");
    let replayed = text.lines().find_map(|line| {
        let rest = line.strip_prefix("the next start replays ")?;
        rest.split(' ').next()?.parse::<u64>().ok()
    });
    // It was killed: all rows are in the log only.
    assert!(replayed.is_some_and(|bytes| bytes > 40 * 50), "{text}");
    let json = stdout(&esker(&["check", "--json"], &data));
    assert!(json.contains("\"findings\":0}"), "{json}");

    let shown = esker(&["inspect", "wal"], &data);
    assert!(shown.status.success());
    let text = stdout(&shown);
    assert_eq!(text.matches("segment ").count(), segments(dir.path()).len());
    assert!(text.contains("the log ends at LSN "), "{text}");
    let records = stdout(&esker(&["inspect", "wal", "--records", "--json"], &data));
    let commits = records.matches("\"kind\":\"commit\"").count();
    assert!(commits >= 40, "{commits}");
    let blocks = stdout(&esker(&["inspect", "wal", "--blocks"], &data.join("wal")));
    assert!(blocks.contains("records, sequences "), "{blocks}");
    let nothing = esker(&["check"], &dir.path().join("nothing"));
    assert_eq!(nothing.status.code(), Some(1));
    assert!(!dir.path().join("nothing").exists(), "nothing is made");
}

#[test]
fn a_damaged_log_is_refused_with_what_to_do_and_force_goes_on_before_the_damage() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = filled(dir.path());
    // The payload of a block in the middle.
    let blocks = stdout(&esker(&["inspect", "wal", "--blocks", "--json"], &data));
    let offsets: Vec<usize> = blocks
        .lines()
        .filter(|line| line.contains("\"type\":\"block\""))
        .map(|line| {
            let rest = line.split("\"offset\":").nth(1).expect("an offset");
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().expect("a number")
        })
        .collect();
    assert!(offsets.len() > 40, "{blocks}");
    let segment = &segments(dir.path())[0];
    flip(segment, offsets[offsets.len() - 20] + 300);

    let checked = esker(&["check"], &data);
    assert_eq!(checked.status.code(), Some(2));
    let text = stdout(&checked);
    let name = segment.file_name().expect("named").to_string_lossy();
    assert!(
        text.contains("damaged: the log, LSN ") && text.contains(&*name),
        "{text}"
    );
    assert!(text.ends_with("1 damaged places\n"), "{text}");
    let shown = esker(&["inspect", "wal", "--records"], &data);
    assert_eq!(shown.status.code(), Some(2));
    assert!(stdout(&shown).contains("DAMAGED "), "{}", stdout(&shown));

    // The server says what is wrong, what it would cost, and how to go on.
    let serve = |extra: &[&str]| {
        serve_command()
            .arg(format!("--port={}", free_port()))
            .arg(format!("--datadir={}", data.display()))
            .arg("--esker-log-segment-size=1048576")
            .args(extra)
            .output()
            .expect("the command runs")
    };
    let refused = serve(&[]);
    assert!(!refused.status.success());
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    for part in [
        &*name,
        " at offset ",
        "LSN",
        "records",
        "--force-recovery=point-in-time",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }

    let mut server = Server::start(
        dir.path(),
        &[
            "--esker-log-segment-size=1048576",
            "--force-recovery=point-in-time",
        ],
    );
    let count = server.connect().value("SELECT COUNT(*) FROM d.t");
    let count: u64 = count.parse().expect("a number");
    assert!((15..40).contains(&count), "{count}");
    // In the order of their commits, without a hole.
    let newest = server.connect().value("SELECT MAX(id) FROM d.t");
    assert_eq!(newest, (count - 1).to_string());
    let lost = data.join("wal/lost");
    assert!(lost.is_dir(), "what is given up is put aside");
    let log = fs::read_to_string(dir.path().join("log")).expect("a log");
    assert!(
        log.contains("are given up; the files that have them are in"),
        "{log}"
    );
    server
        .connect()
        .run("INSERT INTO d.t VALUES (1000, 'after')");
    server.stop();

    // From now on it is an ordinary database.
    let server = Server::start(dir.path(), &["--esker-log-segment-size=1048576"]);
    let again = server.connect().value("SELECT COUNT(*) FROM d.t");
    assert_eq!(again, (count + 1).to_string());
    drop(server);
    let checked = esker(&["check"], &data);
    assert!(checked.status.success(), "{}", stdout(&checked));
}

#[test]
fn a_damaged_extent_and_a_damaged_manifest_are_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = [
        "--esker-memtable-size=1048576",
        "--esker-memory-limit=33554432",
    ];
    let mut server = Server::start(dir.path(), &settings);
    let mut c = server.connect();
    c.run("CREATE DATABASE d");
    c.run("CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(8000))");
    for id in 0..400 {
        c.run(&format!(
            "INSERT INTO d.t VALUES ({id}, REPEAT(MD5({id}), 200))"
        ));
    }
    drop(c);
    server.stop();
    let data = dir.path().join("data");
    let whole = stdout(&esker(&["check"], &data));
    assert!(whole.ends_with("everything is whole\n"), "{whole}");
    assert!(
        !whole.contains(" 0 extents"),
        "something was flushed: {whole}"
    );

    let extents = fs::read_dir(data.join("extents")).expect("data files");
    let file = extents
        .map(|e| e.expect("readable").path())
        .max()
        .expect("one");
    flip(&file, 5000);
    let checked = esker(&["check"], &data);
    assert_eq!(checked.status.code(), Some(2));
    let text = stdout(&checked);
    assert!(
        text.contains("damaged: tree ") && text.contains("with keys 0x"),
        "{text}"
    );
    assert!(text.contains(&*file.file_name().expect("named").to_string_lossy()));
    let json = stdout(&esker(&["check", "--json"], &data));
    assert!(json.contains("\"part\":\"extent\",\"tree\":"), "{json}");

    let manifests = fs::read_dir(data.join("manifest")).expect("manifests");
    let file = manifests
        .map(|e| e.expect("readable").path())
        .filter(|file| !file.ends_with("spare"))
        .max()
        .expect("one");
    flip(&file, 30);
    let checked = esker(&["check"], &data);
    assert_eq!(checked.status.code(), Some(2));
    assert!(
        stdout(&checked).contains("damaged: the list of trees and extents"),
        "{}",
        stdout(&checked)
    );
}
