//! Data directories of earlier builds are opened by this one, and those of later ones are refused.
//!
//! The directories are archives in `datadirs/`, each made by the build of its day with
//! `ESKER_WRITE_DATADIR=NAME cargo test -p esker --test server upgrade`; none is ever made anew. What is asked of each
//! is the same, so a new one has to answer like the old ones.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{Ask, Server, output};

/// Small files: the archive is kept in the repository.
const ARGS: [&str; 4] = [
    "--esker-log-segment-size=1048576",
    "--esker-log-live-size=4194304",
    "--log-bin=ON",
    "--gtid-mode=ON",
];

/// What the directories are made with, up to where everything is written to extents.
const BEFORE_FLUSH: &str = "
    CREATE DATABASE d; USE d;
    CREATE TABLE kinds (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, i INT, d DECIMAL(20,5), f DOUBLE, c CHAR(5),
        v VARCHAR(40), t TEXT, b BLOB, dt DATETIME(6), ts TIMESTAMP NULL, y YEAR, e ENUM('a','b'), s SET('x','y'),
        j JSON, bits BIT(12), g INT AS (i * 2) STORED, KEY by_v (v), UNIQUE KEY by_i (i), KEY by_lower ((LOWER(v))));
    SET time_zone = '+00:00';
    INSERT INTO kinds (i, d, f, c, v, t, b, dt, ts, y, e, s, j, bits) VALUES
        (1, 1.5, 2.25, 'ab', 'Wort', REPEAT('lang ', 900), X'00FF', '2024-02-29 12:00:00.000001', '2024-02-29 12:00:00',
         2024, 'b', 'x,y', '{\"a\": [1, 2.5, null]}', b'101'),
        (-2, -99999.99999, -0.125, '', 'ÄÖ漢字', NULL, '', '1000-01-01', NULL, 1999, 'a', '', '[]', 0);
    INSERT INTO kinds (i, v) WITH RECURSIVE r AS (SELECT 10 n UNION ALL SELECT n + 1 FROM r WHERE n < 800)
        SELECT n, MD5(n) FROM r;
    CREATE TABLE parent (id INT PRIMARY KEY); CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p)
        REFERENCES parent (id) ON DELETE CASCADE);
    INSERT INTO parent VALUES (1), (2); INSERT INTO child VALUES (1, 1), (2, 2);
    CREATE VIEW w AS SELECT i, v FROM kinds WHERE i < 12;
    CREATE TABLE gone (a INT); DROP TABLE gone;
    CREATE USER app@localhost IDENTIFIED BY 'secret' PASSWORD EXPIRE NEVER; CREATE ROLE reader;
    GRANT SELECT ON d.* TO reader; GRANT reader TO app@localhost; GRANT UPDATE (v) ON d.kinds TO app@localhost;
    SET PERSIST long_query_time = 7;
    DELETE FROM kinds WHERE i BETWEEN 700 AND 720";

/// What stays in the log.
const AFTER_FLUSH: &str = "
    UPDATE kinds SET v = 'changed' WHERE i = 15; DELETE FROM parent WHERE id = 2;
    ALTER TABLE child ADD COLUMN note VARCHAR(10) DEFAULT 'later';
    XA START 'waits'; INSERT INTO parent VALUES (77); XA END 'waits'; XA PREPARE 'waits'";

/// What is asked, and the answer.
const ANSWERS: &[(&str, &str)] = &[
    (
        "SELECT COUNT(*), SUM(i), SUM(g), MAX(id) FROM d.kinds",
        "772|305444|610888|793",
    ),
    (
        "SELECT d, f, c, LENGTH(t), HEX(b), dt, ts, y, e, s, j, bits + 0 FROM d.kinds WHERE i = 1",
        "1.50000|2.25|ab|4500|00FF|2024-02-29 12:00:00.000001|2024-02-29 12:00:00|2024|b|x,y|{\"a\": [1, 2.5, null]}|5",
    ),
    (
        "SELECT v, d, dt FROM d.kinds WHERE LOWER(v) = 'äö漢字'",
        "ÄÖ漢字|-99999.99999|1000-01-01 00:00:00.000000",
    ),
    (
        "SELECT i FROM d.kinds FORCE INDEX (by_v) WHERE v = 'changed'",
        "15",
    ),
    ("SELECT GROUP_CONCAT(i ORDER BY i) FROM d.w", "-2,1,10,11"),
    ("SELECT GROUP_CONCAT(id, note) FROM d.child", "1later"),
    ("SELECT GROUP_CONCAT(id) FROM d.parent", "1"),
    ("SELECT @@global.long_query_time + 0", "7.000000"),
    ("XA RECOVER", "1|5|0|waits"),
    (
        "SELECT COUNT(*) FROM mysql.role_edges WHERE TO_USER = 'app'",
        "1",
    ),
    ("SELECT @@global.gtid_executed <> ''", "1"),
];

fn archives() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/datadirs")
}

fn check(args: &[&str], data: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
    command.arg("check").args(args).arg(data);
    command.output().expect("run")
}

fn ask_everything(place: &Path) {
    let server = Server::start(place, &ARGS);
    let mut client = server.connect();
    client.run("SET time_zone = '+00:00'");
    for (question, answer) in ANSWERS {
        assert_eq!(client.lines(question), [*answer], "{question}");
    }
    for table in ["kinds", "parent", "child"] {
        let checked = client.lines(&format!("CHECK TABLE d.{table} EXTENDED"));
        assert_eq!(checked, [format!("d.{table}|check|status|OK")]);
    }
    let port = server.port;
    let mut app = esker_server::client::Client::connect("127.0.0.1", port, "app", "secret", None)
        .expect("the account");
    app.run("SET ROLE reader; SELECT * FROM d.w");
    // It goes on: numbers, rows, the decision of the transaction that waits.
    client.run("INSERT INTO d.kinds (i) VALUES (5000); XA COMMIT 'waits'");
    assert_eq!(client.value("SELECT id FROM d.kinds WHERE i = 5000"), "794");
    assert_eq!(
        client.value("SELECT GROUP_CONCAT(id) FROM d.parent"),
        "1,77"
    );
}

#[test]
fn directories_of_earlier_builds_are_opened() {
    if let Some(name) = std::env::var_os("ESKER_WRITE_DATADIR") {
        write(Path::new(&name));
    }
    let found = std::fs::read_dir(archives()).expect("folder");
    let archives: Vec<PathBuf> = found.map(|entry| entry.expect("entry").path()).collect();
    assert!(!archives.is_empty());
    for archive in archives {
        let dir = tempfile::tempdir().expect("dir");
        let mut tar = Command::new("tar");
        output(tar.arg("-xzf").arg(&archive).arg("-C").arg(dir.path()));
        let data = dir.path().join("data");
        let checked = check(&["--upgrade"], &data);
        let said = String::from_utf8_lossy(&checked.stdout);
        assert!(checked.status.success(), "{}: {said}", archive.display());
        assert!(said.contains("nothing has to be converted"), "{said}");
        ask_everything(dir.path());
    }
}

/// Makes the archive of this build.
fn write(name: &Path) {
    let dir = tempfile::tempdir().expect("dir");
    let mut server = Server::start(dir.path(), &ARGS);
    let mut client = server.connect();
    client.run(BEFORE_FLUSH);
    client.run("FLUSH TABLES kinds FOR EXPORT; UNLOCK TABLES");
    client.run(AFTER_FLUSH);
    server.kill();
    let mut tar = Command::new("tar");
    let options = [
        "-czf",
        "--sparse",
        "--owner=0",
        "--group=0",
        "--mtime=2026-01-01",
    ];
    tar.arg(options[0])
        .arg(archives().join(name).with_extension("tar.gz"))
        .args(&options[1..])
        .args(["--exclude=*.pem", "--exclude=tmp"])
        .arg("-C")
        .arg(dir.path())
        .arg("data");
    output(&mut tar);
}

#[test]
fn directories_of_later_builds_are_refused() {
    let dir = tempfile::tempdir().expect("dir");
    let mut server = Server::start(dir.path(), &[]);
    server.stop();
    let data = dir.path().join("data");
    let manifests = std::fs::read_dir(data.join("manifest")).expect("folder");
    let manifests = manifests.map(|entry| entry.expect("entry").path());
    let manifest = manifests
        .filter(|path| path.extension().is_some_and(|e| e == "manifest"))
        .max()
        .expect("a manifest");
    let mut bytes = std::fs::read(&manifest).expect("read");
    // The version is the first field of the header's payload.
    assert_eq!(bytes[24..26], [2, 0]);
    bytes[24] = 3;
    let payload = 24..24 + 20;
    let covered = [&bytes[..20], &bytes[payload]].concat();
    let checksum = crc32c::crc32c(&covered);
    bytes[20..24].copy_from_slice(&checksum.to_le_bytes());
    std::fs::write(&manifest, &bytes).expect("write");
    let refused = check(&["--upgrade"], &data);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        said.contains("manifest format 3") && said.contains("newer version"),
        "{said}"
    );
    let mut serve = crate::common::serve_command();
    let started = serve
        .arg(format!("--datadir={}", data.display()))
        .arg(format!("--port={}", crate::common::free_port()))
        .output()
        .expect("run");
    let said = String::from_utf8_lossy(&started.stderr);
    assert!(
        !started.status.success() && said.contains("newer version"),
        "{said}"
    );
    assert_eq!(
        std::fs::read(&manifest).expect("read"),
        bytes,
        "nothing was changed"
    );
}
