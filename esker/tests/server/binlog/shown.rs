//! Files of the binary log as statements show and purge them, what of accounts is in them, and what they are called.

use crate::common::{Ask, Server};
use esker_server::client::Client;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::ARGS;

#[test]
fn files_are_shown_inspected_and_kept_within_a_limit() {
    let dir = tempfile::tempdir().expect("dir");
    let mut server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY, v TEXT)");
    for n in 0..8 {
        c.run(&format!("INSERT INTO d.t VALUES ({n}, REPEAT('x', 40000))"));
    }
    c.run("FLUSH BINARY LOGS");
    let shown = c.rows("SHOW BINARY LOGS");
    let table = c.rows("SELECT * FROM information_schema.ESKER_BINLOG");
    assert!(shown.len() > 3 && shown.len() == table.len());
    for (file, row) in shown.iter().zip(&table) {
        assert_eq!(file[..2], row[..2]);
    }
    let lsn = |row: usize, column: usize| -> u64 {
        let text = table[row][column].as_deref();
        text.expect("an LSN").parse().expect("a number")
    };
    for row in 1..table.len() {
        assert_eq!(lsn(row, 4), lsn(row - 1, 5));
        assert!(lsn(row - 1, 4) <= lsn(row - 1, 5));
    }
    assert!(lsn(0, 4) < lsn(0, 5));
    assert!(
        table[1][3]
            .as_deref()
            .expect("GTIDs")
            .ends_with(|c: char| c.is_ascii_digit())
    );
    let status = |c: &mut Client, name: &str| {
        let rows = c.rows(&format!("SHOW GLOBAL STATUS LIKE '{name}'"));
        rows[0][1].clone().expect("value")
    };
    assert_eq!(status(&mut c, "Binlog_cache_use"), "10");
    assert_ne!(status(&mut c, "Esker_binlog_syncs"), "0");
    let held = "SELECT BYTES > 0 FROM information_schema.ESKER_MEMORY WHERE AREA = 'binary log and its consumers'";
    assert_eq!(c.value(held), "1");
    let base = c.value("SELECT @@log_bin_basename");
    assert!(Path::new(&base).with_extension("000001").exists(), "{base}");
    assert!(Path::new(&c.value("SELECT @@log_bin_index")).exists());

    let file = dir.path().join("data/binlog/binlog.000001");
    let inspect = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
        let output = command
            .args(["inspect", "binlog"])
            .arg(&file)
            .args(more)
            .output();
        let output = output.expect("runs");
        (
            output.status.code(),
            String::from_utf8(output.stdout).expect("UTF-8"),
        )
    };
    let (code, text) = inspect(&[]);
    assert_eq!(code, Some(0));
    assert!(
        text.contains("CREATE TABLE d.t") && text.contains("Write_rows"),
        "{text}"
    );
    let mut bytes = std::fs::read(&file).expect("read");
    let place = bytes.len() - 100;
    bytes[place] ^= 1;
    std::fs::write(&file, bytes).expect("written");
    let (code, text) = inspect(&["--json"]);
    assert_eq!(code, Some(2));
    let last = text.lines().last().expect("a line");
    assert!(
        last.contains(r#""type":"damage","file":"binlog.000001","offset":"#),
        "{last}"
    );

    // effect: esker_binlog_space_limit
    c.run("SET GLOBAL esker_binlog_space_limit = 100000");
    let left = c.rows("SHOW BINARY LOGS");
    let total: u64 = left
        .iter()
        .map(|f| {
            f[1].as_deref()
                .expect("size")
                .parse::<u64>()
                .expect("number")
        })
        .sum();
    assert!(total <= 100_000 && left.len() < shown.len());
    assert_eq!(left.last(), shown.last());
    assert_ne!(c.value("SELECT @@GLOBAL.gtid_purged"), "");

    // A limit that the file which is written to exceeds leaves no other.
    c.run("FLUSH BINARY LOGS; INSERT INTO d.t VALUES (1000, REPEAT('x', 2000))");
    c.run("SET GLOBAL esker_binlog_space_limit = 1000");
    assert_eq!(c.rows("SHOW BINARY LOGS").len(), 1);
    // A time that events cannot have is later than all of them.
    c.run("SET GLOBAL esker_binlog_space_limit = 0; FLUSH BINARY LOGS");
    c.run("PURGE BINARY LOGS BEFORE '2200-01-01'");
    assert_eq!(c.rows("SHOW BINARY LOGS").len(), 1);
    server.stop();
}

/// A statement without the number of its transaction, which it must have.
fn unnumbered(info: &str) -> &str {
    let (statement, number) = info.rsplit_once(" /* xid=").expect(info);
    assert!(number.ends_with(" */"), "{info}");
    statement
}

/// A statement without the secrets that it has.
fn without_secrets(text: &str) -> String {
    /// Characters of the digest at the end; the salt before it may have quotes, and is escaped by the SQL mode.
    const DIGEST: usize = 43;
    let is_digest = |bytes: &[u8]| {
        let mut bytes = bytes.iter();
        bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'/'))
    };
    let mut parts = text.split(" AS '$A$");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut quotes = part.match_indices('\'').map(|(at, _)| at);
        let end = quotes.find(|&at| at >= DIGEST && is_digest(&part.as_bytes()[at - DIGEST..at]));
        let rest = end.expect("the secret ends");
        out += " AS secret";
        out += &part[rest + 1..];
    }
    out
}

#[test]
fn account_statements_name_whom_they_change_and_hide_passwords() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    c.run("CREATE USER u IDENTIFIED BY 'pass1', v@localhost REQUIRE SSL WITH MAX_QUERIES_PER_HOUR 3 COMMENT 'x'");
    c.run("create user if not exists u identified by 'pass2'");
    c.run("ALTER USER u IDENTIFIED BY 'pass3' RETAIN CURRENT PASSWORD, v@localhost ACCOUNT LOCK");
    c.run("ALTER USER u DISCARD OLD PASSWORD");
    c.run("SET PASSWORD FOR u = 'pass4' RETAIN CURRENT PASSWORD");
    c.run("SET sql_mode = 'NO_BACKSLASH_ESCAPES'");
    c.run("ALTER USER IF EXISTS nobody IDENTIFIED BY 'pass5', u IDENTIFIED WITH mysql_native_password AS ''");
    c.run(
        "CREATE ROLE r; GRANT r TO CURRENT_USER(), u WITH ADMIN OPTION; revoke r from current_user",
    );
    c.run("ALTER USER USER() IDENTIFIED BY ''; RENAME USER u TO w; DROP USER w, v@localhost");
    assert_eq!(c.code("DROP USER w"), Some(1396));
    let rows = c.rows("SHOW BINLOG EVENTS");
    let statements = rows
        .into_iter()
        .filter(|row| row[2].as_deref() == Some("Query"));
    let texts: Vec<String> = statements
        .map(|row| without_secrets(unnumbered(row[5].as_deref().expect("info"))))
        .collect();
    let sha2 = "IDENTIFIED WITH 'caching_sha2_password'";
    assert_eq!(
        texts,
        [
            format!(
                "CREATE USER 'u'@'%' {sha2} AS secret,'v'@'localhost' {sha2} REQUIRE SSL WITH MAX_QUERIES_PER_HOUR 3 COMMENT 'x'"
            ),
            format!("CREATE USER IF NOT EXISTS 'u'@'%' {sha2} AS secret"),
            format!(
                "ALTER USER 'u'@'%' {sha2} AS secret RETAIN CURRENT PASSWORD,'v'@'localhost' ACCOUNT LOCK"
            ),
            "ALTER USER 'u'@'%' DISCARD OLD PASSWORD".to_owned(),
            format!("ALTER USER 'u'@'%' {sha2} AS secret RETAIN CURRENT PASSWORD"),
            format!(
                "ALTER USER IF EXISTS 'nobody'@'%' {sha2} AS secret,'u'@'%' IDENTIFIED WITH 'mysql_native_password' AS ''"
            ),
            "CREATE ROLE r".to_owned(),
            "GRANT r TO 'root'@'localhost', u WITH ADMIN OPTION".to_owned(),
            "revoke r from 'root'@'localhost'".to_owned(),
            format!("ALTER USER 'root'@'localhost' {sha2} AS ''"),
            "RENAME USER u TO w".to_owned(),
            "DROP USER w, v@localhost".to_owned(),
        ]
    );
}

#[test]
fn account_names_stay_names_whatever_is_in_them() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    c.run("CREATE USER u5@`%', 'evil'`, `a'b`@`h\\`");
    c.run("SET sql_mode = 'NO_BACKSLASH_ESCAPES'");
    c.run("ALTER USER `a'b`@`h\\` ACCOUNT LOCK");
    let rows = c.rows("SHOW BINLOG EVENTS");
    let statements = rows
        .into_iter()
        .filter(|row| row[2].as_deref() == Some("Query"));
    let texts: Vec<String> = statements
        .map(|row| unnumbered(row[5].as_deref().expect("info")).to_owned())
        .collect();
    let sha2 = "IDENTIFIED WITH 'caching_sha2_password'";
    assert_eq!(
        texts,
        [
            format!("CREATE USER 'u5'@'%\\', \\'evil\\'' {sha2},'a\\'b'@'h\\\\' {sha2}"),
            "ALTER USER 'a''b'@'h\\' ACCOUNT LOCK".to_owned(),
        ]
    );
}

#[test]
fn the_files_are_called_what_options_say_and_go_on_under_other_names() {
    let dir = tempfile::tempdir().expect("folder");
    let options = |names: &[&'static str]| {
        let basics = ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"];
        [&basics[..], names].concat()
    };
    let mut executed = String::new();
    for (nth, (names, base, index)) in [
        (&["--log-bin"][..], "binlog/binlog", "binlog/binlog.index"),
        (
            &["--log-bin=master-bin.log"],
            "master-bin",
            "master-bin.index",
        ),
        (
            &["--log-bin=logs/b", "--log-bin-index=list"],
            "logs/b",
            "list.index",
        ),
        (&["--log-bin"], "logs/b", "logs/b.index"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut server = Server::start(dir.path(), &options(names));
        let mut c = server.connect();
        assert_eq!(c.value("SELECT @@gtid_executed"), executed, "{names:?}");
        c.run(&format!("CREATE DATABASE d{nth}"));
        let data = dir.path().join("data");
        let shown =
            |c: &mut Client, name: &str| PathBuf::from(c.value(&format!("SELECT @@{name}")));
        assert_eq!(shown(&mut c, "log_bin_basename"), data.join(base));
        assert_eq!(shown(&mut c, "log_bin_index"), data.join(index));
        let files = c.rows("SHOW BINARY LOGS");
        for row in &files {
            let file = row[0].as_deref().expect("a name");
            let folder = data.join(base);
            let path = folder.parent().expect("a folder").join(file);
            assert!(path.exists(), "{}", path.display());
        }
        let listed = std::fs::read_to_string(data.join(index)).expect("the index");
        assert_eq!(listed.lines().count(), files.len(), "{listed}");
        assert!(c.rows("SHOW BINLOG EVENTS").len() > 2);
        executed = c.value("SELECT @@gtid_executed");
        server.stop();
    }
}
