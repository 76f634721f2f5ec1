//! What others do to a data directory and to the process: files that go missing or are cut, foreign directories,
//! signals, variables of the environment. Each is told by name, and what the server advises leads to a database that
//! works.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{Ask, Server, free_port, patiently, serve_command};

const SMALL_LOG: &[&str] = &["--esker-log-segment-size=1048576"];

fn check(data: &Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_esker"))
        .arg("check")
        .arg(data)
        .output()
        .expect("the command runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code(), text)
}

/// A start that must fail: what it says.
fn refused(data: &Path, extra: &[&str], environment: &[(&str, &str)]) -> String {
    let output: Output = serve_command()
        .arg(format!("--port={}", free_port()))
        .arg(format!("--datadir={}", data.display()))
        .args(extra)
        .envs(environment.iter().copied())
        .output()
        .expect("the command runs");
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn files(dir: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir)
        .expect("it can be listed")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.to_string_lossy().ends_with(suffix))
        .collect();
    found.sort();
    found
}

fn cut(path: &Path, len: u64) {
    let file = fs::OpenOptions::new().write(true).open(path);
    file.and_then(|file| file.set_len(len)).expect("cut");
}

/// A database with a part of it flushed: the rows of `d.t` and of its two indexes, flushed at different times, and more
/// in the log. The server is killed.
fn filled(dir: &Path) -> (Server, PathBuf) {
    let args = [SMALL_LOG, &["--esker-memtable-size=262144"]].concat();
    let mut server = Server::start(dir, &args);
    let mut c = server.connect();
    c.run("CREATE DATABASE d");
    c.run(
        "CREATE TABLE d.t (id INT PRIMARY KEY, a INT NOT NULL, b VARCHAR(200) NOT NULL, UNIQUE KEY a (a), KEY b (b))",
    );
    for batch in 0..60 {
        let rows: Vec<String> = (0..100)
            .map(|n| batch * 100 + n)
            .map(|id| format!("({id},{},REPEAT('{id}-',20))", id * 7))
            .collect();
        c.run(&format!("INSERT INTO d.t VALUES {}", rows.join(",")));
        c.run(&format!(
            "UPDATE d.t SET a = a + 1000000 WHERE id < {}",
            batch * 50
        ));
    }
    drop(c);
    server.kill();
    (server, dir.join("data"))
}

/// Every index of `d.t` has the same rows as the table.
fn indexes_agree(server: &Server) -> i64 {
    let mut c = server.connect();
    let count = |c: &mut esker_server::client::Client, index: &str| {
        let rows = c.rows(&format!(
            "SELECT COUNT(*), SUM(id), SUM(a), MIN(b) FROM d.t FORCE INDEX ({index}) WHERE a > -1 AND b > ''"
        ));
        rows[0].clone()
    };
    let by_primary = count(&mut c, "PRIMARY");
    assert_eq!(count(&mut c, "a"), by_primary);
    assert_eq!(count(&mut c, "b"), by_primary);
    let checked = c.rows("CHECK TABLE d.t");
    assert_eq!(
        checked[0].last().unwrap().as_deref(),
        Some("OK"),
        "{checked:?}"
    );
    c.run("INSERT INTO d.t VALUES (-1, -1, 'new')");
    c.run("DELETE FROM d.t WHERE id = -1");
    by_primary[0]
        .as_deref()
        .expect("a number")
        .parse()
        .expect("a number")
}

#[test]
fn a_missing_or_cut_newest_segment_is_refused_and_the_advice_gives_a_sound_database() {
    for is_cut in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut server, data) = filled(dir.path());
        let newest = files(&data.join("wal"), ".wal").pop().expect("a segment");
        match is_cut {
            true => cut(&newest, 20_000),
            false => fs::remove_file(&newest).expect("removed"),
        }
        let name = newest
            .file_name()
            .expect("named")
            .to_string_lossy()
            .into_owned();
        let (code, text) = check(&data);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(&name), "{text}");
        let error = refused(&data, SMALL_LOG, &[]);
        for part in [&*name, "LSN", "lost", "--force-recovery=point-in-time"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        // effect: esker_force_recovery
        let forced = [SMALL_LOG, &["--force-recovery=point-in-time"]].concat();
        server.set_args(&forced);
        server.restart();
        let rows = indexes_agree(&server);
        assert!((1..=6000).contains(&rows), "{rows}");
        server.stop();
        let (code, text) = check(&data);
        assert_eq!(code, Some(0), "{text}");
        server.set_args(SMALL_LOG);
        server.restart();
        assert_eq!(indexes_agree(&server), rows);
    }
}

#[test]
fn a_manifest_that_is_missing_or_cut_is_named_and_nothing_goes_on_without_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut server, data) = filled(dir.path());
    let manifest = files(&data.join("manifest"), ".manifest")
        .pop()
        .expect("a manifest");
    let whole = fs::read(&manifest).expect("readable");
    let name = manifest.display().to_string();
    let lengths = [0, 100, 4096, 8192, whole.len() / 2, whole.len() - 1];
    for len in lengths {
        cut(&manifest, len as u64);
        for mode in [&[][..], &["--force-recovery=point-in-time"]] {
            let error = refused(&data, mode, &[]);
            assert!(error.contains(&name), "{len}: {error}");
            assert!(error.contains("from a copy"), "{len}: {error}");
        }
        let (code, text) = check(&data);
        assert_eq!(code, Some(2), "{len}: {text}");
        assert!(text.contains(&name), "{len}: {text}");
        fs::write(&manifest, &whole).expect("written");
    }
    // Nothing was given up, so nothing is to be mended.
    assert_eq!(check(&data), (Some(0), check(&data).1));
    fs::remove_file(&manifest).expect("removed");
    let error = refused(&data, &[], &[]);
    assert!(error.contains("no manifest"), "{error}");
    fs::write(&manifest, &whole).expect("written");
    server.restart();
    assert_eq!(indexes_agree(&server), 6000);
}

#[test]
fn a_database_without_its_accounts_is_refused_until_new_ones_are_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = Server::start(dir.path(), &[]);
    server.connect().run("CREATE DATABASE d");
    server.stop();
    let data = dir.path().join("data");
    let accounts = data.join("accounts");
    let new = ["--force-recovery=new-accounts"];
    for is_missing in [true, false] {
        match is_missing {
            true => fs::remove_file(&accounts).expect("removed"),
            false => cut(&accounts, 30),
        }
        let (code, text) = check(&data);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("accounts"), "{text}");
        let error = refused(&data, &[], &[]);
        for part in [
            "accounts",
            "who may log in",
            "--force-recovery=new-accounts",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        // Without a password everybody would be root.
        let error = refused(&data, &new, &[]);
        assert!(error.contains("ESKER_ROOT_PASSWORD"), "{error}");
        let port = free_port();
        let mut child = serve_command()
            .arg(format!("--port={port}"))
            .arg(format!("--datadir={}", data.display()))
            .args(new)
            .env("ESKER_ROOT_PASSWORD", "secret")
            .spawn()
            .expect("starts");
        let connect = |password| {
            esker_server::client::Client::connect("127.0.0.1", port, "root", password, None)
        };
        let mut client = patiently(|| connect("secret"));
        assert!(connect("").is_err());
        let names = client.rows("SHOW DATABASES");
        assert!(names.contains(&vec![Some("d".to_owned())]), "{names:?}");
        child.kill().expect("kill");
        child.wait().expect("wait");
        assert_eq!(check(&data).0, Some(0));
    }
    assert!(data.join("accounts.damaged").exists());
}

#[test]
fn a_broken_certificate_is_found_before_the_start() {
    let dir = tempfile::tempdir().expect("a directory");
    Server::start(dir.path(), &[]).stop();
    let data = dir.path().join("data");
    assert_eq!(check(&data).0, Some(0));
    for name in ["server-key.pem", "server-cert.pem"] {
        let path = data.join(name);
        let whole = fs::read(&path).expect("readable");
        cut(&path, 40);
        let (code, text) = check(&data);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(name), "{text}");
        assert!(refused(&data, &[], &[]).contains(name));
        fs::write(&path, whole).expect("written");
    }
}

#[test]
fn a_foreign_directory_is_refused_and_stays_as_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    fs::create_dir(&data).expect("made");
    for name in ["ibdata1", "ib_logfile0", "mysql.ibd", "undo_001"] {
        fs::write(data.join(name), "of others").expect("written");
    }
    let error = refused(&data, &[], &[]);
    for part in [
        "ib_logfile0",
        "ibdata1",
        "and 1 more",
        "nothing was changed",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(fs::read_dir(&data).expect("listed").count(), 4);
    // What every file system and operator leaves there is no database.
    fs::remove_dir_all(&data).expect("removed");
    fs::create_dir_all(data.join("lost+found")).expect("made");
    fs::create_dir(data.join(".snapshot")).expect("made");
    fs::write(data.join("my.cnf"), "[mysqld]\n").expect("written");
    Server::start(dir.path(), &[]).stop();
}

#[test]
fn signals_and_the_environment_of_others_do_not_end_the_server() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let port = free_port();
    let mut child = serve_command()
        .arg(format!("--port={port}"))
        .arg(format!("--datadir={}", data.display()))
        .env("ESKER_PASSWORD", "of the shell")
        .env("ESKER_PORT", "tcp://10.1.2.3:3306")
        .env("ESKER_SERVICE_HOST", "10.1.2.3")
        .env("ESKER_PORT_3306_TCP_ADDR", "10.1.2.3")
        .spawn()
        .expect("starts");
    let connect = || esker_server::client::Client::connect("127.0.0.1", port, "root", "", None);
    let mut client = patiently(connect);
    for signal in ["-HUP", "-USR1", "-USR2"] {
        let sent = Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status();
        assert!(sent.expect("kill").success());
        assert_eq!(client.rows("SELECT 1"), [[Some("1".to_owned())]]);
        assert!(connect().is_ok(), "{signal}");
    }
    child.kill().expect("kill");
    child.wait().expect("wait");
}
