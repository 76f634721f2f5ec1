//! The binary log read back: what mysqlbinlog prints of one server's files gives another server the same tables, and
//! the same GTIDs; gtid_next.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use esker_binlog::event::group::{GtidEvent, XaPrepare};
use esker_binlog::event::query::{Query, Settings};
use esker_binlog::event::{Checksum, Event};
use esker_binlog::event::{EventType, FLAG_SUPPRESS_USE, Stamp, frame, payload};
use esker_server::client::Client;
use esker_types::func::encode_base64;

use crate::binlog::for_each_event;
use crate::common::{Ask, Server};

const ARGS: [&str; 2] = ["--log-bin=ON", "--gtid-mode=ON"];

/// Every type, every kind of change, and statements of every kind.
const WORK: &str = r#"
CREATE DATABASE d; USE d;
CREATE TABLE ints (id INT PRIMARY KEY AUTO_INCREMENT, a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT, d INT UNSIGNED,
  e BIGINT, f BIGINT UNSIGNED, g BIT(13), y YEAR, bo BOOL);
INSERT INTO ints (a, b, c, d, e, f, g, y, bo) VALUES
  (-128, 65535, -8388608, 4294967295, -9223372036854775808, 18446744073709551615, b'1010101010101', 2024, true),
  (126, 0, 8388607, 0, 9223372036854775807, 0, 0, 0, false), (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE nums (k INT NOT NULL, f FLOAT, d DOUBLE, n DECIMAL(30,10), m DECIMAL(5,5), z DECIMAL(65,0), UNIQUE (k));
INSERT INTO nums VALUES (1, 1.5, 1e300, -12345678901234567890.1234567891, -0.99999, 123),
  (2, -0.1, -1e-300, 0, 0.00001, -1), (3, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE times (d DATE, t TIME, t3 TIME(3), dt DATETIME, dt6 DATETIME(6), ts TIMESTAMP NULL, ts4 TIMESTAMP(4) NULL,
  KEY (d));
SET time_zone = '+03:00';
INSERT INTO times VALUES ('2024-02-29', '-838:59:59', '-01:02:03.456', '9999-12-31 23:59:59',
  '1000-01-01 00:00:00.000001', '2038-01-19 03:14:07', '1970-01-01 03:00:01.1234'),
  (NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  ('2000-01-01', '00:00:00', '00:00:00.001', '2000-01-01', '2000-01-01 00:00:00.5', '2000-01-01', '2000-01-01');
SET time_zone = 'SYSTEM';
CREATE TABLE strs (c CHAR(10), v VARCHAR(300), b BINARY(8), vb VARBINARY(20), tt TINYTEXT, t TEXT, mb MEDIUMBLOB,
  lt LONGTEXT, l CHAR(5) CHARACTER SET latin1, lv VARCHAR(20) CHARACTER SET latin1, e ENUM('a','ü','c'),
  s SET('x','y','z'), j JSON, cb CHAR(255));
INSERT INTO strs VALUES ('abc  ', 'värchär 😀', x'0102', '\0\0', 'tiny', 'text', x'ff00fe', REPEAT('long', 100), 'äöü',
  'latin1 ß', 'ü', 'x,z', '{"a":[1,2.5,"x",null,true,{"b":-1}],"d":"2024-01-01"}', REPEAT('😀', 200)),
  (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  ('', '', '', '', '', '', '', '', '', '', 'a', '', '[]', '');
UPDATE ints SET a = a + 1, g = 7 WHERE id = 2; UPDATE nums SET f = 2.25 WHERE k = 1; DELETE FROM nums WHERE k = 2;
UPDATE times SET t = '10:00:00' WHERE d = '2000-01-01'; DELETE FROM times WHERE d IS NULL;
UPDATE strs SET v = 'new' WHERE c = 'abc'; DELETE FROM strs WHERE c IS NULL;
CREATE TABLE nokey (a INT, b VARCHAR(20)); INSERT INTO nokey VALUES (1,'x'), (1,'x'), (2,'y'), (NULL,NULL), (3,'z');
DELETE FROM nokey WHERE a = 1 LIMIT 1; UPDATE nokey SET b = 'q' WHERE a IS NULL; UPDATE nokey SET a = a + 10;
CREATE TABLE gen (id INT PRIMARY KEY, a INT, v INT AS (a * 2) VIRTUAL, s VARCHAR(20) AS (CONCAT('s', a)) STORED,
  INDEX ((a + 1)));
INSERT INTO gen (id, a) VALUES (1,1), (2,2); UPDATE gen SET a = 5 WHERE id = 1; DELETE FROM gen WHERE id = 2;
ALTER TABLE gen ADD COLUMN z INT DEFAULT 4, ADD INDEX (z); INSERT INTO gen (id, a) VALUES (3, 3);
UPDATE gen SET z = 9 WHERE a + 1 = 4;
CREATE TABLE p (id INT PRIMARY KEY, n INT);
CREATE TABLE ch (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p(id) ON DELETE CASCADE ON UPDATE CASCADE);
INSERT INTO p VALUES (1,1), (2,2); INSERT INTO ch VALUES (1,1), (2,2), (3,2); DELETE FROM p WHERE id = 1;
UPDATE p SET id = 5 WHERE id = 2;
BEGIN; INSERT INTO p VALUES (10,1); SAVEPOINT a; INSERT INTO p VALUES (11,1); ROLLBACK TO a;
INSERT INTO p VALUES (12,1); COMMIT; BEGIN; INSERT INTO p VALUES (20,1); ROLLBACK;
XA START 'x1'; INSERT INTO p VALUES (30,1); XA END 'x1'; XA PREPARE 'x1'; XA COMMIT 'x1';
XA START 'x2'; INSERT INTO p VALUES (31,1); XA END 'x2'; XA PREPARE 'x2'; XA ROLLBACK 'x2';
XA START 'x3'; INSERT INTO p VALUES (32,1); XA END 'x3'; XA COMMIT 'x3' ONE PHASE;
CREATE TABLE sel AS SELECT id, n * 2 AS m FROM p; CREATE TABLE lk LIKE ints; INSERT INTO lk SELECT * FROM ints;
REPLACE INTO lk (id, a) VALUES (1,5), (9,9); INSERT INTO lk (id, a) VALUES (1,6) ON DUPLICATE KEY UPDATE a = 7;
RENAME TABLE nokey TO nokey2; TRUNCATE TABLE sel; CREATE INDEX ix ON p (n); ALTER TABLE p DROP INDEX ix;
SET binlog_row_image = MINIMAL; UPDATE p SET n = n + 100 WHERE id < 20; DELETE FROM p WHERE id = 12;
UPDATE strs SET t = 'm' WHERE c = ''; INSERT INTO nokey2 VALUES (7,'seven'); UPDATE nokey2 SET b = 'sieben' WHERE a = 7;
UPDATE gen SET a = 6 WHERE id = 1; SET binlog_row_image = NOBLOB; UPDATE strs SET c = 'n' WHERE c = '';
SET binlog_row_image = FULL; SET binlog_transaction_compression = ON;
INSERT INTO strs (v) VALUES (REPEAT('compress', 30)), (REPEAT('c2', 100)); SET binlog_transaction_compression = OFF;
SET binlog_rows_query_log_events = ON; INSERT INTO p VALUES (40,40); SET binlog_rows_query_log_events = OFF;
CREATE USER u1 IDENTIFIED BY 'pw'; GRANT SELECT ON d.* TO u1;
SET foreign_key_checks = 0; INSERT INTO ch VALUES (99, 999); SET foreign_key_checks = 1;
SET sql_mode = 'ANSI_QUOTES'; CREATE TABLE "q t" ("a b" INT); INSERT INTO "q t" VALUES (1); SET sql_mode = DEFAULT;
CREATE TEMPORARY TABLE tmp (a INT); INSERT INTO tmp VALUES (1); DROP TEMPORARY TABLE tmp;
DROP TABLE IF EXISTS nothing; DROP DATABASE IF EXISTS nothing;
"#;

/// The statements that mysqlbinlog prints for the files of a server.
#[derive(Default)]
struct Printed {
    statements: Vec<Vec<u8>>,
    /// Events for a BINLOG statement.
    rows: Vec<u8>,
}

impl Printed {
    fn of(dir: &Path) -> Self {
        let mut printed = Self::default();
        for_each_event(dir, |event| printed.event(event));
        printed.add("SET gtid_next = AUTOMATIC");
        printed
    }

    fn add(&mut self, statement: impl Into<Vec<u8>>) {
        if !self.rows.is_empty() {
            let coded = encode_base64(&std::mem::take(&mut self.rows), 76);
            let coded = String::from_utf8(coded).expect("ASCII");
            self.statements.push(format!("BINLOG '\n{coded}\n'").into());
        }
        self.statements.push(statement.into());
    }

    fn keep(&mut self, kind: EventType, event: &Event<'_>) {
        let stamp = Stamp {
            flags: 0,
            ..event.header.stamp
        };
        frame(kind, stamp, 4, event.body, Checksum::Crc32, &mut self.rows);
    }

    fn event(&mut self, event: &Event<'_>) {
        let kind = event.header.event_type().expect("known");
        match kind {
            EventType::FormatDescription
            | EventType::TableMap
            | EventType::WriteRows
            | EventType::UpdateRows
            | EventType::DeleteRows => self.keep(kind, event),
            EventType::Gtid | EventType::GtidTagged => {
                let gtid = GtidEvent::parse(kind, event.body).expect("GTID").gtid;
                self.add(format!("SET gtid_next = '{}'", gtid.expect("a number")));
            }
            EventType::Query => self.query(event),
            EventType::Xid => self.add("COMMIT"),
            EventType::XaPrepare => {
                let xid = XaPrepare::parse(event.body).expect("XA");
                self.add(format!("XA PREPARE {xid}"));
            }
            EventType::TransactionPayload => {
                let inner = payload::parse(event.body).expect("payload");
                let mut at = 0;
                while at < inner.len() {
                    let event = Event::parse(&inner[at..], Checksum::None).expect("sound");
                    at += event.header.length as usize;
                    self.event(&event);
                }
            }
            _ => {}
        }
    }

    fn query(&mut self, event: &Event<'_>) {
        let query = Query::parse(event.body).expect("query");
        let settings = Settings::parse(query.settings).expect("settings");
        let mode = settings.sql_mode.unwrap_or(0);
        let zone = settings.time_zone.unwrap_or("SYSTEM".to_owned());
        self.add(format!("SET sql_mode = {mode}, time_zone = '{zone}'"));
        let schema = String::from_utf8_lossy(query.schema);
        if event.header.stamp.flags & FLAG_SUPPRESS_USE == 0 && !schema.is_empty() {
            self.add(format!("USE `{schema}`"));
        }
        self.add(query.text);
    }

    fn run(&self, c: &mut Client) {
        for statement in &self.statements {
            let text = String::from_utf8_lossy(statement);
            c.query(&*text, &mut |_| ())
                .unwrap_or_else(|e| panic!("{text}: {e:?}"));
        }
    }
}

/// All rows of all tables of the database, sorted.
fn tables(c: &mut Client) -> HashMap<String, Vec<String>> {
    c.run("SET time_zone = '+00:00'");
    let names = c.lines(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'd' AND table_type = 'BASE TABLE'",
    );
    let mut tables = HashMap::new();
    for name in names {
        let mut rows = c.lines(&format!("SELECT * FROM d.`{name}`"));
        rows.sort();
        rows.push(c.lines(&format!("SHOW CREATE TABLE d.`{name}`")).concat());
        tables.insert(name, rows);
    }
    c.run("SET time_zone = 'SYSTEM'");
    tables
}

fn work(c: &mut Client) {
    for statement in WORK.replace('\n', " ").split(';') {
        let statement = statement.trim();
        if !statement.is_empty() {
            c.run(statement);
        }
    }
}

#[test]
fn events_give_another_server_the_same_tables_and_gtids() {
    let dir = tempfile::tempdir().expect("dir");
    let mut server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    work(&mut c);
    let expected = tables(&mut c);
    assert!(expected.len() > 10);
    let gtids = c.value("SELECT @@GLOBAL.gtid_executed");
    server.stop();

    let copy_dir = tempfile::tempdir().expect("dir");
    let mut copy = Server::start(copy_dir.path(), &ARGS);
    let mut other = copy.connect();
    let printed = Printed::of(dir.path());
    printed.run(&mut other);
    assert_eq!(tables(&mut other), expected);
    assert_eq!(other.value("SELECT @@GLOBAL.gtid_executed"), gtids);
    // What is executed is skipped.
    printed.run(&mut other);
    assert_eq!(tables(&mut other), expected);
    assert_eq!(other.value("SELECT @@GLOBAL.gtid_executed"), gtids);
    // And the copy's own events say the same.
    copy.stop();
    let third_dir = tempfile::tempdir().expect("dir");
    let third = Server::start(third_dir.path(), &ARGS);
    let mut third_client = third.connect();
    Printed::of(copy_dir.path()).run(&mut third_client);
    assert_eq!(tables(&mut third_client), expected);
    assert_eq!(third_client.value("SELECT @@GLOBAL.gtid_executed"), gtids);
}

/// The same with MySQL's and MariaDB's programs, where they are installed.
#[test]
fn programs_of_others_print_what_a_server_takes() {
    let dir = tempfile::tempdir().expect("dir");
    let mut server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    // MariaDB's program does not read compressed transactions.
    for statement in WORK.replace('\n', " ").split(';') {
        let statement = statement.trim();
        if !statement.is_empty() && !statement.contains("binlog_transaction_compression") {
            c.run(statement);
        }
    }
    let expected = tables(&mut c);
    server.stop();
    for program in ["mysqlbinlog", "mariadb-binlog"] {
        let file = dir.path().join("data/binlog/binlog.000001");
        let Ok(printed) = Command::new(program).arg(&file).output() else {
            continue;
        };
        assert!(
            printed.status.success(),
            "{program}: {}",
            String::from_utf8_lossy(&printed.stderr)
        );
        let copy_dir = tempfile::tempdir().expect("dir");
        let copy = Server::start(copy_dir.path(), &ARGS);
        let port = copy.port.to_string();
        // MariaDB's program sets variables of MariaDB.
        let client = Command::new("mariadb")
            .args([
                "-h127.0.0.1",
                "-uroot",
                "--force",
                "--binary-mode",
                "-P",
                &port,
            ])
            .stdin(Stdio::piped())
            .spawn();
        let Ok(mut client) = client else { continue };
        let mut input = client.stdin.take().expect("stdin");
        input.write_all(&printed.stdout).expect("written");
        drop(input);
        client.wait().expect("ends");
        assert_eq!(tables(&mut copy.connect()), expected, "{program}");
    }
}

const OTHER: &str = "11111111-1111-1111-1111-111111111111";

#[test]
fn gtid_next_numbers_a_transaction_and_skips_what_is_executed() {
    let dir = tempfile::tempdir().expect("dir");
    let server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; USE d; CREATE TABLE t (a INT PRIMARY KEY)");
    let next = |n: u32| format!("SET gtid_next = '{OTHER}:{n}'");
    assert_eq!(c.code("SET gtid_next = 'xyz'"), Some(1774));
    assert_eq!(c.code("SET gtid_next = ANONYMOUS"), Some(1782));
    assert_eq!(c.code("SET GLOBAL gtid_next = AUTOMATIC"), Some(1228));
    c.run(&next(1));
    assert_eq!(c.code(&next(2)), Some(1790));
    c.run(&next(1));
    assert_eq!(c.value("SELECT @@gtid_owned"), format!("{OTHER}:1"));
    c.run("INSERT INTO t VALUES (1)");
    assert_eq!(c.value("SELECT @@gtid_owned"), "");
    assert_eq!(c.code("INSERT INTO t VALUES (2)"), Some(1837));
    assert_eq!(c.code("CREATE TABLE u (a INT)"), Some(1837));
    c.run("BEGIN; COMMIT");
    // Executed: everything is skipped.
    c.run(&next(1));
    c.run(
        "INSERT INTO t VALUES (3); CREATE TABLE u (a INT); BEGIN; INSERT INTO t VALUES (4); COMMIT",
    );
    // A change of nothing takes no GTID, an empty transaction does.
    c.run(&next(2));
    c.run("UPDATE t SET a = 5 WHERE a = 99");
    assert_eq!(c.value("SELECT @@gtid_owned"), format!("{OTHER}:2"));
    c.run("COMMIT");
    c.run(&next(4));
    c.run("BEGIN");
    assert_eq!(c.code("CREATE TABLE u (a INT)"), Some(1778));
    assert_eq!(c.code("SET gtid_next = AUTOMATIC"), Some(1766));
    c.run("INSERT INTO t VALUES (6); COMMIT");
    // An error gives it back.
    c.run(&next(5));
    assert_eq!(c.code("INSERT INTO t VALUES (6)"), Some(1062));
    assert_eq!(c.code("INSERT INTO t VALUES (7)"), Some(1837));
    c.run("SET gtid_next = 'AUTOMATIC:Blue'");
    c.run("INSERT INTO t VALUES (8)");
    c.run("SET gtid_next = AUTOMATIC");
    assert_eq!(c.lines("SELECT a FROM t"), ["1", "6", "8"]);
    let executed = c.value("SELECT @@GLOBAL.gtid_executed");
    assert!(executed.contains(&format!("{OTHER}:1-2:4")), "{executed}");
    assert!(executed.contains(":blue:1"), "{executed}");

    // Another session waits for a GTID that is taken, and skips when it is used.
    c.run(&next(9));
    let mut waiting = server.connect();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            waiting.run(&next(9));
            waiting.run("INSERT INTO d.t VALUES (100); SET gtid_next = AUTOMATIC");
        });
        while c.value(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SET gtid_next%'",
        ) == "0"
        {
            std::thread::yield_now();
        }
        c.run("INSERT INTO t VALUES (9); SET gtid_next = AUTOMATIC");
        waiter.join().expect("done");
    });
    assert_eq!(c.lines("SELECT a FROM t"), ["1", "6", "8", "9"]);
}

#[test]
fn binlog_statements_need_rows_that_are_there() {
    let dir = tempfile::tempdir().expect("dir");
    let mut server = Server::start(dir.path(), &ARGS);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY, b INT)");
    c.run("INSERT INTO d.t VALUES (1, 1); UPDATE d.t SET b = 2");
    server.stop();
    let printed = Printed::of(dir.path());
    let statements: Vec<String> = printed
        .statements
        .iter()
        .map(|s| String::from_utf8_lossy(s).into_owned())
        .filter(|s| s.starts_with("BINLOG"))
        .collect();
    server.restart();
    let mut c = server.connect();
    assert_eq!(c.code("BINLOG 'x'"), Some(1575));
    // Nothing, three bytes, and the header of an event of 64 bytes.
    for less in ["", "AAAA", "AAAAAAAAAAAAQAAAAAAAAAAAAAAA"] {
        assert_eq!(c.code(&format!("BINLOG '{less}'")), Some(1149), "{less}");
    }
    assert_eq!(c.code(&statements[1]), Some(1609));
    c.run(&statements[0]);
    assert_eq!(c.code(&statements[1]), Some(1062));
    c.run("DELETE FROM d.t");
    assert_eq!(c.code(&statements[2]), Some(1032));
    // effect: rbr_exec_mode
    c.run("SET rbr_exec_mode = IDEMPOTENT");
    c.run(&statements[2]);
    c.run("INSERT INTO d.t VALUES (1, 7)");
    c.run(&statements[1]);
    assert_eq!(c.lines("SELECT * FROM d.t"), ["1|1"]);
    c.run("SET rbr_exec_mode = STRICT; ALTER TABLE d.t MODIFY b BIGINT");
    assert_eq!(c.code(&statements[2]), Some(1677));
    // effect: replica_type_conversions
    c.run("SET GLOBAL replica_type_conversions = 'ALL_NON_LOSSY'");
    c.run(&statements[2]);
    assert_eq!(c.lines("SELECT * FROM d.t"), ["1|2"]);
    c.run("CREATE USER plain; SET GLOBAL replica_type_conversions = ''");
    let mut plain = Client::connect("127.0.0.1", server.port, "plain", "", None).expect("connect");
    assert_eq!(plain.code(&statements[0]), Some(1227));
}

/// A format description, and a row of `rpl_priv.t1`, as mysqlbinlog prints them.
const DESCRIPTION: &str = "jbMGXQ8BAAAAeAAAAHwAAAAAAAQAOC4wLjE4LXRyLWRlYnVnAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n\
    AAAAAAAAAAAAAAAAAACNswZdEwANAAgAAAAABAAEAAAAYAAEGggAAAAICAgCAAAACgoKKioAEjQA\nCgGQNwbk";
const ROW: &str = "g2YSXRMBAAAANAAAAG0BAAAAAJoAAAAAAAEACHJwbF9wcml2AAJ0MQABAwABAQEAdXCMmg==\n\
    g2YSXR4BAAAAMgAAAJ8BAAAAAJoAAAAAAAEAAgAB/wAKAAAAAAsAAAAADAAAAGmCVP4=";

#[test]
fn binlog_statements_give_no_rights_on_tables() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(&dir.path().join("data"), &[]);
    server.connect().run(
        "CREATE DATABASE rpl_priv; CREATE TABLE rpl_priv.t1 (a INT); CREATE USER u; \
         GRANT REPLICATION_APPLIER ON *.* TO u",
    );
    let (description, row) = (format!("BINLOG '{DESCRIPTION}'"), format!("BINLOG '{ROW}'"));
    for (grant, code) in [
        ("DO 1", Some(1142)),
        ("GRANT INSERT ON rpl_priv.t1 TO u", None),
        ("REVOKE INSERT ON rpl_priv.t1 FROM u", Some(1142)),
        ("GRANT BINLOG_ADMIN ON *.* TO u", None),
    ] {
        server.connect().run(grant);
        let u = esker_server::client::Client::connect("127.0.0.1", server.port, "u", "", None);
        let mut u = u.expect("connect");
        u.run(&description);
        assert_eq!(u.code(&row), code, "{grant}");
    }
    let count = "SELECT COUNT(*) FROM rpl_priv.t1";
    assert_eq!(server.connect().lines(count), ["6"]);
    // A right that a role gives counts while the role is active.
    server.connect().run(
        "CREATE USER v; CREATE ROLE replays; GRANT BINLOG_ADMIN ON *.* TO replays; GRANT replays TO v",
    );
    let v = esker_server::client::Client::connect("127.0.0.1", server.port, "v", "", None);
    let mut v = v.expect("connect");
    assert_eq!(v.code(&description), Some(1227));
    assert_eq!(
        v.error(&description),
        "Access denied; you need (at least one of) the SUPER, BINLOG_ADMIN or REPLICATION_APPLIER privilege(s) for \
         this operation"
    );
    v.run("SET ROLE replays");
    v.run(&description);
    v.run(&row);
    v.run("SET ROLE NONE");
    assert_eq!(v.code(&row), Some(1227));
}
