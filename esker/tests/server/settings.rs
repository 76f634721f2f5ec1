//! Variables that do what they say, CHECKSUM TABLE, status counters, dumps.

use esker_server::client::QueryResult;

use crate::common::{Ask, Server};

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    server.connect().run(
        "CREATE DATABASE d; USE d;
         CREATE TABLE t (id INT PRIMARY KEY, k INT, v INT, KEY k (k));
         INSERT INTO t VALUES (1,10,1),(2,20,2),(3,30,3),(4,40,4)",
    );
    (server, dir)
}

#[test]
fn select_limit_cuts_what_clients_get() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("USE d; SET sql_select_limit = 2");
    assert_eq!(c.lines("SELECT id FROM t ORDER BY id"), ["1", "2"]);
    assert_eq!(c.lines("SELECT id FROM t WHERE id = 3"), ["3"]);
    assert_eq!(c.rows("SELECT id FROM t LIMIT 3").len(), 3);
    assert_eq!(
        c.rows("SELECT id FROM t UNION ALL SELECT id FROM t").len(),
        2
    );
    assert_eq!(c.value("SELECT COUNT(*) FROM (SELECT id FROM t) x"), "4");
    c.run("CREATE TABLE u LIKE t; INSERT INTO u SELECT * FROM t");
    c.run("PREPARE s FROM 'SELECT id FROM u'");
    assert_eq!(c.rows("EXECUTE s").len(), 2);
    c.run("SET sql_select_limit = DEFAULT");
    assert_eq!(c.rows("EXECUTE s").len(), 4);
    assert_eq!(c.rows("SELECT * FROM u").len(), 4);
}

#[test]
fn safe_updates_want_a_key_or_a_limit() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("USE d; SET sql_safe_updates = 1");
    for sql in [
        "UPDATE t SET v = 0",
        "UPDATE t SET v = 0 WHERE v = 1",
        "DELETE FROM t",
        "DELETE FROM t WHERE v = 1",
        "UPDATE t, (SELECT 1 AS x) y SET t.v = 0",
    ] {
        assert_eq!(c.code(sql), Some(1175), "{sql}");
    }
    c.run("UPDATE t SET v = 0 WHERE id = 1; UPDATE t SET v = 0 WHERE k > 30");
    c.run("DELETE FROM t WHERE v = 2 LIMIT 1; INSERT INTO t VALUES (9,9,9)");
    assert_eq!(
        c.lines("SELECT id, v FROM t ORDER BY id"),
        ["1|0", "3|3", "4|0", "9|9"]
    );
    c.run("SET max_join_size = 3");
    assert_eq!(
        c.code("SELECT * FROM t a, t b WHERE a.v <> b.v"),
        Some(1104)
    );
    c.run("SET sql_big_selects = 1; SELECT * FROM t a, t b WHERE a.v <> b.v");
}

#[test]
fn variables_promise_nothing_that_does_not_happen() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("SET SESSION foreign_key_checks = 0, unique_checks = 0");
    c.run("SET sql_notes = 0; DROP TABLE IF EXISTS d.nope");
    assert_eq!(c.value("SELECT @@warning_count"), "0");
    c.run("SET sql_notes = 1; DROP TABLE IF EXISTS d.nope");
    assert_eq!(c.value("SELECT @@warning_count"), "1");
}

#[test]
fn insert_id_is_the_next_generated_value() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("USE d; CREATE TABLE numbered (id INT AUTO_INCREMENT PRIMARY KEY, v INT)");
    c.run("INSERT INTO numbered (v) VALUES (1); SET insert_id = 7");
    c.run("INSERT INTO numbered (v) VALUES (2), (3); INSERT INTO numbered (v) VALUES (4)");
    // A statement that needs none leaves it to the next.
    c.run("SET insert_id = 3; INSERT INTO numbered VALUES (20, 5)");
    c.run("INSERT INTO numbered (v) VALUES (6)");
    let rows = c.lines("SELECT id, v FROM numbered ORDER BY id");
    assert_eq!(rows, ["1|1", "3|6", "7|2", "8|3", "9|4", "20|5"]);
}

#[test]
fn checksums_depend_on_rows_only() {
    let (mut server, _dir) = server();
    let mut c = server.connect();
    c.run(
        "USE d; SET time_zone = '+00:00';
         CREATE TABLE x (id INT PRIMARY KEY, s VARCHAR(20), d DECIMAL(10,2), ts TIMESTAMP NULL, KEY (s));
         INSERT INTO x VALUES (1,'a',1.5,'2024-01-01 00:00:00'),(2,NULL,NULL,NULL),(3,'c',-3,NULL);
         CREATE TABLE y (id INT NOT NULL, s VARCHAR(20), d DECIMAL(10,2), ts TIMESTAMP NULL);
         INSERT INTO y SELECT * FROM x ORDER BY id DESC",
    );
    let sums = |c: &mut dyn Ask| c.lines("CHECKSUM TABLE x, y, nope");
    let first = sums(&mut c);
    let of = |lines: &[String], i: usize| lines[i].split('|').nth(1).expect("sum").to_owned();
    assert_eq!(of(&first, 0), of(&first, 1));
    assert_eq!(first[2], "d.nope|NULL");
    c.run("SET time_zone = '+05:00', NAMES latin1; FLUSH TABLES; OPTIMIZE TABLE x");
    assert_eq!(sums(&mut c), first);
    c.run("BEGIN; UPDATE x SET s = 'b' WHERE id = 1");
    assert_ne!(of(&sums(&mut c), 0), of(&first, 0));
    let mut other = server.connect();
    other.run("USE d");
    assert_eq!(sums(&mut other), first);
    c.run("ROLLBACK");
    drop((c, other));
    server.kill();
    server.restart();
    let mut c = server.connect();
    c.run("USE d");
    assert_eq!(sums(&mut c), first);
    assert_eq!(c.lines("CHECKSUM TABLE x QUICK"), ["d.x|NULL"]);
}

#[test]
fn status_counts_what_happened() {
    let (server, _dir) = server();
    let mut c = server.connect();
    let value = |c: &mut dyn Ask, scope: &str, name: &str| -> u64 {
        let line = c.value(&format!("SHOW {scope} STATUS LIKE '{name}'"));
        line.rsplit('|')
            .next()
            .and_then(|n| n.parse().ok())
            .expect("a number")
    };
    c.run("USE d; SELECT 1; SELECT * FROM t; UPDATE t SET v = 0 WHERE id = 1; BEGIN; ROLLBACK");
    for (name, n) in [
        ("Com_select", 2),
        ("Com_update", 1),
        ("Com_begin", 1),
        ("Com_rollback", 1),
    ] {
        assert_eq!(value(&mut c, "SESSION", name), n, "{name}");
    }
    let before = value(&mut c, "GLOBAL", "Com_delete");
    let mut other = server.connect();
    other.run("DELETE FROM d.t WHERE id = 4");
    assert_eq!(value(&mut c, "GLOBAL", "Com_delete"), before + 1);
    drop(other);
    assert_eq!(value(&mut c, "GLOBAL", "Com_delete"), before + 1);
    assert_eq!(value(&mut c, "SESSION", "Com_delete"), 0);
    assert!(value(&mut c, "SESSION", "Bytes_sent") > 100);
    assert!(value(&mut c, "SESSION", "Bytes_received") > 100);
    assert!(value(&mut c, "GLOBAL", "Questions") >= 10);
    c.run("SET long_query_time = 0; SELECT SLEEP(0.01)");
    assert!(value(&mut c, "SESSION", "Slow_queries") > 0);
    c.run("FLUSH STATUS");
    assert_eq!(value(&mut c, "SESSION", "Com_select"), 0);
    c.run("BEGIN; UPDATE d.t SET v = 1 WHERE id = 1");
    let mut other = server.connect();
    let open = "SELECT user, state FROM information_schema.esker_transactions";
    assert_eq!(other.lines(open), ["root|IDLE"]);
    c.run("COMMIT");
    assert!(other.lines(open).is_empty());
}

/// What mariadb-dump and mysqldump wrap around a table.
const DUMP: &str = r#"
/*M!999999\- enable the sandbox mode */
-- MariaDB dump 10.19  Distrib 10.11.19-MariaDB, for debian-linux-gnu (x86_64)
/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET @OLD_CHARACTER_SET_RESULTS=@@CHARACTER_SET_RESULTS */;
/*!40101 SET @OLD_COLLATION_CONNECTION=@@COLLATION_CONNECTION */;
/*!50503 SET NAMES utf8mb4 */;
/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!50606 SET @OLD_INNODB_STATS_AUTO_RECALC=1 */;
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;
CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci */ /*!80016 DEFAULT ENCRYPTION='N' */;
USE `shop`;
DROP TABLE IF EXISTS `people`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `people` (
  `id` int(10) unsigned NOT NULL AUTO_INCREMENT,
  `name` varchar(100) NOT NULL,
  `balance` decimal(12,2) NOT NULL DEFAULT 0.00,
  `created` timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp(),
  `kind` enum('new','old') DEFAULT 'new',
  `photo` mediumblob DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `name` (`name`(20))
) ENGINE=InnoDB AUTO_INCREMENT=8 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci ROW_FORMAT=DYNAMIC COMMENT='who; \'buys\'';
/*!40101 SET character_set_client = @saved_cs_client */;
LOCK TABLES `people` WRITE;
/*!40000 ALTER TABLE `people` DISABLE KEYS */;
INSERT INTO `people` VALUES
(0,'Zero',0.00,'2024-01-01 00:00:00','old',NULL),
(7,'Bob\'s; -- \"x\"',1.50,'2024-01-01 00:00:00','new',0x00FF275C);
/*!40000 ALTER TABLE `people` ENABLE KEYS */;
UNLOCK TABLES;
/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;
/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
/*!40014 SET UNIQUE_CHECKS=@OLD_UNIQUE_CHECKS */;
/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;
/*!40101 SET CHARACTER_SET_RESULTS=@OLD_CHARACTER_SET_RESULTS */;
/*!40101 SET COLLATION_CONNECTION=@OLD_COLLATION_CONNECTION */;
/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */
-- Dump completed"#;

#[test]
fn a_dump_loads() {
    let (server, _dir) = server();
    let mut c = server.connect();
    for _ in 0..2 {
        c.run(DUMP);
        assert_eq!(
            c.value("SELECT COUNT(*), SUM(id), MAX(HEX(photo)) FROM people"),
            "2|7|00FF275C"
        );
    }
    c.run("INSERT INTO people (name) VALUES ('next')");
    assert_eq!(
        c.value("SELECT LAST_INSERT_ID(), @@sql_notes, @@unique_checks"),
        "8|1|1"
    );
    // What the dumpers ask for themselves.
    for sql in [
        "SET SQL_QUOTE_SHOW_CREATE=1/*!40102 ,SQL_MODE=concat(@@sql_mode, _utf8 ',NO_KEY_OPTIONS,NO_TABLE_OPTIONS,NO_FIELD_OPTIONS') */",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION /*!40100 WITH CONSISTENT SNAPSHOT */",
        "SHOW VARIABLES LIKE 'gtid\\_mode'",
        "SELECT LOGFILE_GROUP_NAME FROM INFORMATION_SCHEMA.FILES WHERE FILE_TYPE = 'UNDO LOG'",
        "SHOW CREATE DATABASE IF NOT EXISTS `shop`",
        "SAVEPOINT sp",
        "show table status like 'people'",
        "SET SESSION character_set_results = 'binary'",
        "show create table `people`",
        "SET SESSION character_set_results = 'utf8mb4'",
        "show fields from `people`",
        "SELECT /*!40001 SQL_NO_CACHE */ * FROM `people`",
        "show triggers like 'people'",
        "ROLLBACK TO SAVEPOINT sp",
        "RELEASE SAVEPOINT sp",
        "SET SESSION information_schema_stats_expiry=0",
    ] {
        let code = c.code(sql);
        assert!(code.is_none() || code == Some(1231), "{sql}: {code:?}");
    }
}

/// With character_set_results = NULL each text is sent in the character set of its column, as MySQL does.
#[test]
fn results_that_are_not_converted_have_their_column_s_character_set() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut c = server.connect();
    c.run(
        "CREATE DATABASE d; USE d;
         CREATE TABLE t (a VARCHAR(9) CHARACTER SET latin1, b VARCHAR(9) CHARACTER SET utf8mb4,
           c VARCHAR(9) CHARACTER SET ucs2, d VARBINARY(9), e ENUM('é') CHARACTER SET latin1, j JSON, n INT);
         INSERT INTO t VALUES ('é', 'é', 'é', x'E9', 'é', '\"é\"', 1)",
    );
    let mut cells = |sql: &str| {
        let mut found = Vec::new();
        let asked = c.query(sql, &mut |result| {
            if let QueryResult::Rows { rows, .. } = result {
                found = rows.concat();
            }
        });
        asked.expect(sql);
        found.into_iter().map(Option::unwrap).collect::<Vec<_>>()
    };
    for set in ["NULL", "'binary'"] {
        let sql = format!(
            "SET character_set_results = {set}; SELECT t.*, CONCAT(a, 'x'), CONCAT(n), 'é' FROM t"
        );
        let wanted: [&[u8]; 10] = [
            b"\xE9",
            b"\xC3\xA9",
            b"\x00\xE9",
            b"\xE9",
            b"\xE9",
            b"\"\xC3\xA9\"",
            b"1",
            b"\xE9x",
            b"1",
            b"\xC3\xA9",
        ];
        assert_eq!(cells(&sql), wanted, "{set}");
    }
}

/// What CLIENT_SESSION_TRACK adds to OK packets, byte by byte as MySQL 9.7 sends it.
const TRACKED: &str = r#"
import sys, pymysql
from pymysql import connections
seen = []
read = connections.Connection._read_packet
def spy(self, packet_type=connections.MysqlPacket):
    packet = read(self, packet_type)
    seen.append(packet._data)
    return packet
connections.Connection._read_packet = spy
def connect(flag, **more):
    return pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", ssl_disabled=True,
                           client_flag=flag, autocommit=None, **more)
TRACK = 1 << 23
c = connect(TRACK, database="d")
names = (b"\0\0\0\2@\0\0\0b\0\x1d\x14character_set_client\x07utf8mb4\0!\x18character_set_connection\x07utf8mb4"
         b"\0\x1e\x15character_set_results\x07utf8mb4")
assert seen[-2:] == [b"\0\0\0\2@\0\0\0\4\1\2\1d", names], seen[-2:]
quiet = b"\0\0\0\2\0\0\0"
for sql, wanted in [
    ("USE d", b"\0\0\0\2@\0\0\0\4\1\2\1d"),
    ("SET time_zone = '+01:00'", b"\0\0\0\2@\0\0\0\x13\0\x11\ttime_zone\6+01:00"),
    ("SET time_zone = '+01:00'", b"\0\0\0\2@\0\0\0\x13\0\x11\ttime_zone\6+01:00"),
    ("SET autocommit = 0", b"\0\0\0\0@\0\0\0\x11\0\x0f\nautocommit\3OFF"),
    ("SET autocommit = 1", b"\0\0\0\2@\0\0\0\x10\0\x0e\nautocommit\2ON"),
    ("SET NAMES utf8mb4", names),
    ("SET character_set_results = NULL", b"\0\0\0\2@\0\0\0\x19\0\x17\x15character_set_results\0"),
    ("SET CHARACTER SET utf8mb4", names),
    ("SET @a = 1", quiet),
    ("SET sql_mode = ''", quiet),
    ("SET GLOBAL time_zone = 'SYSTEM'", quiet),
    # effect: session_track_system_variables
    ("SET session_track_system_variables = '*'",
     b"\0\0\0\2@\0\0\0#\0!\x1esession_track_system_variables\1*"),
    # MySQL sends an empty list here.
    ("SET session_track_system_variables = 'sql_mode, time_zone'", None),
    ("SET time_zone = '+02:00', autocommit = 0",
     b"\0\0\0\0@\0\0\0\x13\0\x11\ttime_zone\6+02:00"),
    ("SET autocommit = 1", quiet),
    ("SET sql_mode = ''", b"\0\0\0\2@\0\0\0\x0c\0\n\x08sql_mode\0"),
    # effect: session_track_state_change
    ("SET session_track_state_change = ON", quiet),
    ("SET @b = 1", b"\0\0\0\2@\0\0\0\3\2\x011"),
    ("USE d", b"\0\0\0\2@\0\0\0\7\1\2\1d\2\x011"),
    ("PREPARE p FROM 'DO 1'", None),
    ("DEALLOCATE PREPARE p", b"\0\0\0\2@\0\0\0\3\2\x011"),
    # effect: session_track_schema
    ("SET session_track_schema = OFF", b"\0\0\0\2@\0\0\0\3\2\x011"),
    ("USE d", b"\0\0\0\2@\0\0\0\3\2\x011"),
    ("SET session_track_state_change = OFF, session_track_schema = ON", quiet),
    ("CREATE DATABASE e", b"\0\1\0\2\0\0\0"),
    ("USE e", b"\0\0\0\2@\0\0\0\4\1\2\1e"),
    ("DROP DATABASE e", b"\0\0\0\2@\0\0\0\3\1\1\0"),
    ("DO 1", quiet),
]:
    c.cursor().execute(sql)
    if wanted is None:
        continue
    got = seen[-1]
    if sql.startswith("DROP"):
        # MySQL sets another status bit here: a database was dropped.
        got = got.replace(b"A", b"@")
    assert got == wanted, (sql, got)
c.select_db("d")
assert seen[-1] == b"\0\0\0\2@\0\0\0\4\1\2\1d", seen[-1]
c = connect(0, database="d")
c.cursor().execute("SET time_zone = '+01:00'")
assert seen[-1] == quiet, "this client did not ask"
print("fine")
"#;

#[test]
fn clients_that_ask_hear_of_their_session() {
    let Some(mut python) = crate::common::python() else {
        return;
    };
    let (server, _dir) = server();
    let out = crate::common::output(python.args(["-c", TRACKED]).arg(server.port.to_string()));
    assert_eq!(out, "fine\n");
}

#[test]
fn what_does_not_fit_goes_to_disk_and_is_counted() {
    let (mut server, dir) = server();
    let temporary = dir.path().join("data/tmp");
    let mut c = server.connect();
    c.run("USE d; CREATE TABLE big (id INT PRIMARY KEY, s VARCHAR(40)); SET cte_max_recursion_depth = 100000");
    c.run(
        "INSERT INTO big WITH RECURSIVE n (a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n WHERE a < 20000) \
         SELECT a, SHA1(a) FROM n",
    );
    let queries = [
        "SELECT SHA1(GROUP_CONCAT(s)) FROM (SELECT s FROM big ORDER BY s LIMIT 15000) x",
        "SELECT COUNT(*), MIN(n) FROM (SELECT s, COUNT(*) n FROM big GROUP BY s) x",
        "SELECT COUNT(*) FROM big a JOIN big b ON a.s = b.s",
        "SELECT COUNT(*) FROM (SELECT DISTINCT s FROM big) x",
    ];
    let counted = |c: &mut dyn Ask, name: &str| -> u64 {
        let line = c.lines(&format!("SHOW STATUS LIKE '{name}'"));
        let value = line[0].split('|').nth(1).expect("value");
        value.parse().expect("number")
    };
    let answers: Vec<String> = queries.iter().map(|q| c.lines(q)[0].clone()).collect();
    for name in [
        "Sort_merge_passes",
        "Created_tmp_disk_tables",
        "Created_tmp_files",
    ] {
        assert_eq!(counted(&mut c, name), 0, "{name}");
    }
    // effect: sort_buffer_size, join_buffer_size, tmp_table_size
    c.run("SET sort_buffer_size = 32768, join_buffer_size = 16384, tmp_table_size = 16384");
    for (query, answer) in queries.iter().zip(&answers) {
        assert_eq!(c.lines(query)[0], *answer, "{query}");
    }
    assert!(counted(&mut c, "Sort_merge_passes") >= 1);
    assert!(counted(&mut c, "Created_tmp_disk_tables") >= 3);
    assert!(counted(&mut c, "Created_tmp_files") >= 4);
    assert_eq!(counted(&mut c, "Esker_temporary_bytes"), 0);
    assert_eq!(std::fs::read_dir(&temporary).expect("folder").count(), 0);
    // What a crash left there is gone with the next start.
    server.kill();
    std::fs::write(temporary.join("17.tmp"), b"left over").expect("writes");
    server.restart();
    assert_eq!(
        server.connect().value("SELECT COUNT(*) FROM d.big"),
        "20000"
    );
    assert_eq!(std::fs::read_dir(&temporary).expect("folder").count(), 0);
}

/// With the setting on, a wrong answer would end the server; right ones come as ever.
#[test]
fn answers_from_metadata_can_be_verified() {
    let (server, _dir) = server();
    let mut c = server.connect();
    let rows = |from: u32| -> String {
        let rows: Vec<String> = (0..3000)
            .map(|n| format!("({}, {n})", n * 10 + from))
            .collect();
        rows.join(",")
    };
    c.run(&format!(
        "USE d; SET GLOBAL esker_verify_metadata_answers = ON;
         SET esker_parallel_scan_rows = 0, parallel_read_threads = 2;
         CREATE TABLE n (id INT PRIMARY KEY, v INT NOT NULL);
         INSERT INTO n VALUES {}; OPTIMIZE TABLE n; INSERT INTO n VALUES {};
         DELETE FROM n WHERE id IN (50, 105, 20005)",
        rows(10),
        rows(5)
    ));
    for _ in 0..2 {
        assert_eq!(c.value("SELECT COUNT(*) FROM n"), "5997");
        assert_eq!(
            c.value("SELECT COUNT(*) FROM n WHERE id > 50 AND id <= 300"),
            "49"
        );
        assert_eq!(
            c.value("SELECT SUM(id > 0) FROM n WHERE v BETWEEN 7 AND 9"),
            "6"
        );
    }
    assert_eq!(
        c.code("SET SESSION esker_verify_metadata_answers = ON"),
        Some(1229)
    );
    assert_eq!(
        c.code("SET GLOBAL esker_verify_metadata_answers = 7"),
        Some(1231)
    );
}
