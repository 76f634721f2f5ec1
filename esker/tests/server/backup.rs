//! What backups rest on: locks that let others go on, and snapshots that know their position in the binary log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use esker_binlog::event::EventType;
use esker_binlog::event::rows::{RowChange, Rows};
use esker_binlog::event::table_map::TableMap;
use esker_binlog::files::Scan;
use esker_server::client::Client;
use esker_types::Value;
use esker_vfs::OsFs;

use crate::common::{Ask, Server};

const ARGS: [&str; 3] = ["--log-bin=ON", "--gtid-mode=ON", "--max-binlog-size=65536"];

#[test]
fn tables_are_flushed_and_locked_for_reading() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &[]);
    let (mut a, mut b) = (server.connect(), server.connect());
    a.run("CREATE DATABASE d; USE d; CREATE TABLE t (a INT PRIMARY KEY); CREATE TABLE u (a INT); INSERT INTO t VALUES (1)");
    a.run("CREATE VIEW v AS SELECT * FROM t");
    b.run("USE d; SET lock_wait_timeout = 1");
    for how in ["WITH READ LOCK", "FOR EXPORT"] {
        a.run(&format!("FLUSH TABLES t {how}"));
        assert_eq!(a.code("INSERT INTO t VALUES (2)"), Some(1099));
        assert_eq!(a.code("SELECT * FROM u"), Some(1100));
        assert_eq!(a.code(&format!("FLUSH TABLES u {how}")), Some(1192));
        assert_eq!(b.lines("SELECT * FROM t"), ["1"]);
        b.run("INSERT INTO u VALUES (1)");
        assert_eq!(b.code("INSERT INTO t VALUES (2)"), Some(1205));
        a.run("UNLOCK TABLES");
        assert_eq!(a.code(&format!("FLUSH TABLES v {how}")), Some(1347));
        assert_eq!(a.code(&format!("FLUSH TABLES nothing {how}")), Some(1146));
    }
    b.run("BEGIN; INSERT INTO t VALUES (2)");
    a.run("SET lock_wait_timeout = 1");
    assert_eq!(a.code("FLUSH TABLES t WITH READ LOCK"), Some(1205));
    b.run("COMMIT");
    a.run("FLUSH TABLES t WITH READ LOCK; UNLOCK TABLES");
}

#[test]
fn a_locked_instance_lets_rows_change_and_nothing_else() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &[]);
    let (mut a, mut b) = (server.connect(), server.connect());
    a.run("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY); CREATE USER u@localhost");
    b.run("BEGIN; INSERT INTO d.t VALUES (1)");
    a.run("LOCK INSTANCE FOR BACKUP; LOCK INSTANCE FOR BACKUP");
    b.run("COMMIT; INSERT INTO d.t VALUES (2); CREATE TEMPORARY TABLE d.own (a INT); SET lock_wait_timeout = 1");
    for change in [
        "CREATE TABLE d.u (a INT)",
        "ALTER TABLE d.t ADD COLUMN b INT",
        "TRUNCATE TABLE d.t",
        "DROP DATABASE d",
        "CREATE USER v@localhost",
    ] {
        assert_eq!(b.code(change), Some(1205), "{change}");
    }
    let shown = "SELECT object_type, lock_type, lock_status FROM performance_schema.metadata_locks \
                 WHERE object_type = 'BACKUP LOCK'";
    assert_eq!(a.lines(shown), ["BACKUP LOCK|SHARED|GRANTED"]);
    // The holder itself may, and another backup may begin.
    a.run("CREATE TABLE d.w (a INT)");
    b.run("LOCK INSTANCE FOR BACKUP; UNLOCK INSTANCE");
    a.run("UNLOCK INSTANCE");
    b.run("CREATE TABLE d.u (a INT); DROP DATABASE d");
    let mut u = esker_server::client::Client::connect("127.0.0.1", server.port, "u", "", None)
        .expect("connect");
    assert_eq!(u.code("LOCK INSTANCE FOR BACKUP"), Some(1227));
}

/// The highest number in `d.t` that the files say is there before a position.
fn logged(dir: &std::path::Path, file: &str, offset: u64) -> Vec<i64> {
    let folder = dir.join("data/binlog");
    let index = std::fs::read_to_string(folder.join("binlog.index")).expect("index");
    let names = index.lines().map(|name| name.trim_start_matches("./"));
    let mut numbers = Vec::new();
    for name in names.take_while(|name| *name <= file) {
        let end = (name == file).then_some(offset);
        let mut scan = Scan::open(&OsFs::new(), &folder.join(name), end).expect("opens");
        let mut map = None;
        while let Some((_, event)) = scan.next_event().expect("sound") {
            match event.header.event_type() {
                Some(EventType::TableMap) => map = Some(TableMap::parse(event.body).expect("map")),
                Some(kind @ EventType::WriteRows) => {
                    let rows = Rows::parse(kind, event.body).expect("rows");
                    for change in rows.rows(map.as_ref().expect("map")).expect("rows") {
                        let RowChange::Insert(row) = change else {
                            continue;
                        };
                        if let Some(Some(Value::Int(n))) = row.first() {
                            numbers.push(*n);
                        }
                    }
                }
                _ => {}
            }
        }
    }
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_snapshot_knows_its_position_without_a_lock() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for client in 0..3 {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                let mut c = server.connect();
                let mut n = client;
                while !is_over.load(Ordering::Relaxed) {
                    c.run(&format!("INSERT INTO d.t VALUES ({n})"));
                    n += 3;
                }
            });
        }
        let (mut last, mut looks) = (0, 0);
        while looks < 20 || last <= 20 {
            looks += 1;
            std::thread::sleep(Duration::from_millis(10));
            c.run("START TRANSACTION WITH CONSISTENT SNAPSHOT");
            let status = c.rows("SHOW STATUS LIKE 'binlog_snapshot%'");
            let value = |at: usize| status[at][1].clone().expect("a value");
            let (file, gtids, offset) = (value(0), value(1), value(2));
            // Others go on meanwhile.
            std::thread::sleep(Duration::from_millis(5));
            let seen: Vec<i64> = c
                .lines("SELECT id FROM d.t ORDER BY id")
                .iter()
                .map(|id| id.parse().expect("a number"))
                .collect();
            assert_eq!(c.rows("SHOW STATUS LIKE 'binlog_snapshot%'"), status);
            c.run("COMMIT");
            let offset = offset.parse().expect("a number");
            assert_eq!(logged(dir.path(), &file, offset), seen, "{file} {offset}");
            // CREATE DATABASE, CREATE TABLE, and one for every row.
            let count = gtids.rsplit_once(':').expect("GTIDs").1;
            assert_eq!(count, format!("1-{}", seen.len() + 2));
            last = seen.len();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    // This one waits until the files have all that was committed.
    let status = c.lines("SHOW BINARY LOG STATUS");
    let now = c.lines("SHOW STATUS LIKE 'binlog_snapshot_file'");
    assert_eq!(now[0].split('|').nth(1), status[0].split('|').next());
    let local = c.value("SELECT JSON_UNQUOTE(JSON_EXTRACT(local, '$.binary_log_file')) FROM performance_schema.log_status");
    assert_eq!(Some(&*local), status[0].split('|').next());
}

#[test]
fn log_status_has_what_is_committed_for_whoever_may_back_up() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)");
    let executed = "SELECT local->>'$.gtid_executed' FROM performance_schema.log_status";
    for id in 0..200 {
        c.run(&format!("INSERT INTO d.t VALUES ({id})"));
        let last = format!(":1-{}", id + 3);
        assert!(c.value(executed).ends_with(&last), "{last}");
    }
    c.run("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1 FOR CHANNEL 'c\"1'");
    let channel = "SELECT CONCAT_WS('|', replication->>'$.channels[0].channel_name', \
                   replication->>'$.channels[0].relay_log_position', JSON_LENGTH(replication, '$.channels')) \
                   FROM performance_schema.log_status";
    let place: Vec<String> = c.value(channel).split('|').map(str::to_owned).collect();
    assert_eq!((&*place[0], &*place[2]), ("c\"1", "1"));
    assert!(place[1].parse::<u64>().expect("a position") >= 4);

    c.run("CREATE USER u IDENTIFIED BY 'p'; GRANT SELECT ON performance_schema.* TO u");
    let connect = || Client::connect("127.0.0.1", server.port, "u", "p", None).expect("u");
    assert_eq!(connect().code(executed), Some(1227));
    c.run("GRANT BACKUP_ADMIN ON *.* TO u");
    connect().run(executed);
}

#[test]
fn a_snapshot_is_in_no_file_that_is_purged() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (1)");
    let place = |c: &mut Client| {
        c.run("START TRANSACTION WITH CONSISTENT SNAPSHOT");
        let status = c.rows("SHOW STATUS LIKE 'binlog_snapshot%'");
        let value = |at: usize| status[at][1].clone().expect("a value");
        (value(0), value(2))
    };
    let executed = c.value("SELECT @@GLOBAL.gtid_executed");
    c.run("FLUSH BINARY LOGS; FLUSH BINARY LOGS; PURGE BINARY LOGS TO 'binlog.000003'");
    assert_eq!(place(&mut c), ("binlog.000003".to_owned(), "4".to_owned()));
    let gtids = "SHOW STATUS LIKE 'binlog_snapshot_gtid_executed'";
    assert!(c.lines(gtids)[0].ends_with(&executed));
    // What others write then is behind it.
    server.connect().run("INSERT INTO d.t VALUES (2)");
    c.run("COMMIT");
    assert_ne!(place(&mut c).1, "4");
}
