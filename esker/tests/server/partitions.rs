//! Partitioned tables beyond single statements: crashes, replicas, dumps, files.
//!
//! Neighbours: `tests/sql/schema/partition_*.slt` have the statements themselves.

use std::process::Command;
use std::thread;
use std::time::Duration;

use esker_server::client::Client;

use crate::common::{
    Ask, Dice, Server, eventually, has_client, output, setting, source_and_replica,
};

/// Rows of `p`, in four partitions.
const ROWS: u64 = 2_000;

/// Two tables: `p` in four ranges, and `t`, which fits in the place of its first one.
fn tables() -> String {
    let series = |count: u64| {
        format!(
            "WITH RECURSIVE r (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < {count}) \
             SELECT i, i * 10 FROM r"
        )
    };
    let quarter = ROWS / 4;
    format!(
        "DROP DATABASE IF EXISTS d; CREATE DATABASE d; USE d; SET cte_max_recursion_depth = 100000; \
         CREATE TABLE p (a INT NOT NULL PRIMARY KEY, b INT, KEY (b)) PARTITION BY RANGE (a) \
         (PARTITION p0 VALUES LESS THAN ({}), PARTITION p1 VALUES LESS THAN ({}), \
         PARTITION p2 VALUES LESS THAN ({}), PARTITION p3 VALUES LESS THAN MAXVALUE); \
         CREATE TABLE t (a INT NOT NULL PRIMARY KEY, b INT, KEY (b)); \
         INSERT INTO p {}; INSERT INTO t {}; UPDATE t SET b = -a",
        quarter + 1,
        2 * quarter + 1,
        3 * quarter + 1,
        series(ROWS),
        series(quarter / 2)
    )
}

/// Definitions and sums of both tables, with and without their indexes.
fn state(c: &mut Client) -> Vec<String> {
    let mut all = c.lines("SHOW CREATE TABLE d.p");
    for table in ["p", "t"] {
        let sum = |index: &str| {
            format!("SELECT COUNT(*), SUM(a), SUM(b) FROM d.{table} {index} WHERE b IS NOT NULL")
        };
        let plain = c.lines(&sum("IGNORE INDEX (b)"));
        assert_eq!(c.lines(&sum("FORCE INDEX (b)")), plain, "{table}");
        all.extend(plain);
    }
    all
}

#[test]
fn kill_9_leaves_partitions_as_they_were_or_as_they_shall_be() {
    let changes = [
        "ALTER TABLE d.p DROP PARTITION p1",
        "ALTER TABLE d.p TRUNCATE PARTITION p1, p2",
        "ALTER TABLE d.p REORGANIZE PARTITION p0, p1 INTO (PARTITION n VALUES LESS THAN (1001))",
        "ALTER TABLE d.p EXCHANGE PARTITION p0 WITH TABLE d.t",
        "ALTER TABLE d.p PARTITION BY HASH (a) PARTITIONS 3",
    ];
    let rounds = setting("ESKER_PARTITION_ROUNDS", 4);
    let mut dice = Dice::new(setting("ESKER_SEED", 7));
    let dir = tempfile::tempdir().expect("folder");
    let mut server = Server::start(dir.path(), &["--skip-ssl", "--log-bin=ON"]);
    for change in changes {
        server.connect().run(&tables());
        let mut c = server.connect();
        let before = state(&mut c);
        c.run(change);
        let after = state(&mut c);
        assert_ne!(before, after, "{change}");
        for _ in 0..rounds {
            let mut c = server.connect();
            c.run(&tables());
            // Nobody hears how it ends.
            let run = thread::spawn(move || drop(c.query(change, &mut |_| ())));
            thread::sleep(Duration::from_micros(dice.roll(30_000)));
            server.kill();
            run.join().expect("the change");
            server.restart();
            let found = state(&mut server.connect());
            assert!(found == before || found == after, "{change}: {found:?}");
            assert_eq!(
                server.connect().lines("CHECK TABLE d.p, d.t"),
                ["d.p|check|status|OK", "d.t|check|status|OK"]
            );
        }
    }
}

#[test]
fn replicas_partition_as_their_source_does() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = source_and_replica(dir.path());
    let mut c = source.connect();
    c.run(&tables());
    for sql in [
        "UPDATE d.p SET a = a + 5000 WHERE a % 7 = 0",
        "DELETE FROM d.p PARTITION (p1) WHERE a % 3 = 0",
        "ALTER TABLE d.p EXCHANGE PARTITION p0 WITH TABLE d.t",
        "INSERT INTO d.p PARTITION (p0) VALUES (-5, 0)",
        "ALTER TABLE d.p DROP PARTITION p1",
        "ALTER TABLE d.p TRUNCATE PARTITION p2",
        "ALTER TABLE d.p REORGANIZE PARTITION p3 INTO (PARTITION n VALUES LESS THAN (9000), \
         PARTITION m VALUES LESS THAN MAXVALUE)",
        "ALTER TABLE d.p ANALYZE PARTITION n",
        "ALTER TABLE d.p OPTIMIZE PARTITION ALL",
        "CREATE TABLE d.h (a INT PRIMARY KEY) PARTITION BY KEY () PARTITIONS 3",
        "INSERT INTO d.h SELECT a FROM d.p",
        "ALTER TABLE d.h ADD PARTITION PARTITIONS 2",
        "ALTER TABLE d.h COALESCE PARTITION 1",
        "INSERT INTO d.t VALUES (-1, 99)",
    ] {
        c.run(sql);
    }
    eventually("the replica has caught up", || {
        let mut r = replica.connect();
        r.code("SELECT 1 FROM d.t").is_none()
            && r.value("SELECT COUNT(*) FROM d.t WHERE b = 99") == "1"
    });
    let mut r = replica.connect();
    assert_eq!(state(&mut r), state(&mut c));
    for sql in [
        "SHOW CREATE TABLE d.h",
        "SELECT * FROM d.h ORDER BY a",
        "SELECT * FROM d.p PARTITION (n) ORDER BY a",
        "SELECT a FROM d.h PARTITION (p1) ORDER BY a",
    ] {
        assert_eq!(r.lines(sql), c.lines(sql), "{sql}");
    }
}

#[test]
fn a_dump_of_partitioned_tables_makes_them_again() {
    let dump = || Command::new("mariadb-dump");
    if !has_client("mariadb-dump", dump().arg("--version")) {
        return;
    }
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut c = server.connect();
    c.run(
        "CREATE DATABASE d; USE d; \
         CREATE TABLE r (a INT, b DATE) PARTITION BY RANGE (TO_DAYS(b)) SUBPARTITION BY HASH (a) SUBPARTITIONS 2 \
         (PARTITION p0 VALUES LESS THAN (TO_DAYS('2020-01-01')) COMMENT = 'it''s old', \
         PARTITION `select` VALUES LESS THAN MAXVALUE); \
         INSERT INTO r VALUES (1, '2019-05-05'), (2, '2020-05-05'), (3, NULL); \
         CREATE TABLE l (a VARCHAR(10), b INT) PARTITION BY LIST COLUMNS (a, b) \
         (PARTITION p0 VALUES IN (('x', 1), ('y', NULL)), PARTITION p1 VALUES IN (('\\'', 3))); \
         INSERT INTO l VALUES ('x', 1), ('y', NULL), ('\\'', 3); \
         CREATE TABLE k (a INT PRIMARY KEY) PARTITION BY LINEAR KEY ALGORITHM = 1 (a) PARTITIONS 5; \
         INSERT INTO k VALUES (1), (2), (3); \
         CREATE TABLE h (a INT) PARTITION BY HASH (a) (PARTITION x MAX_ROWS = 5, PARTITION y)",
    );
    let dumped = |c: &mut Client| {
        let port = format!("--port={}", server.port);
        let options = [
            "--host=127.0.0.1",
            &port,
            "--user=root",
            "--skip-dump-date",
            "--compact",
            "d",
        ];
        let text = output(dump().args(options));
        assert!(!text.is_empty());
        let mut shown = Vec::new();
        for table in ["r", "l", "k", "h"] {
            shown.extend(c.lines(&format!("SHOW CREATE TABLE d.{table}")));
            shown.extend(c.lines(&format!("SELECT * FROM d.{table} ORDER BY 1")));
        }
        (text, shown)
    };
    let (text, shown) = dumped(&mut c);
    c.run("DROP DATABASE d; CREATE DATABASE d; USE d");
    c.run(&text);
    assert_eq!(dumped(&mut c), (text, shown));
}

#[test]
fn files_are_loaded_into_partitions() {
    let dir = tempfile::tempdir().expect("folder");
    let file = dir.path().join("rows");
    std::fs::write(&file, "1\t10\n12\t20\n").expect("a file");
    let private = format!("--secure-file-priv={}", dir.path().display());
    let server = Server::start(&dir.path().join("data"), &["--skip-ssl", &private]);
    let mut c = server.connect();
    c.run(
        "CREATE DATABASE d; USE d; CREATE TABLE p (a INT, b INT) PARTITION BY RANGE (a) \
         (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))",
    );
    let load = |how: &str| format!("LOAD DATA INFILE '{}' {how}", file.display());
    assert_eq!(c.code(&load("INTO TABLE p PARTITION (p0)")), Some(1748));
    assert_eq!(c.value("SELECT COUNT(*) FROM p"), "0");
    c.run(&load("IGNORE INTO TABLE p PARTITION (p0)"));
    assert_eq!(c.lines("SELECT * FROM p"), ["1|10"]);
    c.run(&load("INTO TABLE p PARTITION (p0, p1)"));
    assert_eq!(c.lines("SELECT a FROM p PARTITION (p1)"), ["12"]);
    assert_eq!(c.code(&load("INTO TABLE p (b, a)")), Some(1526));
}

#[test]
fn partitions_need_the_privileges_that_mysql_asks_for() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut c = server.connect();
    c.run(&tables());
    c.run("CREATE USER u IDENTIFIED BY ''; GRANT ALTER ON d.p TO u; GRANT ALTER ON d.t TO u");
    let mut u = Client::connect("127.0.0.1", server.port, "u", "", None).expect("connect");
    let exchange = "ALTER TABLE d.p EXCHANGE PARTITION p0 WITH TABLE d.t";
    for denied in [
        "ALTER TABLE d.p DROP PARTITION p1",
        "ALTER TABLE d.p TRUNCATE PARTITION p1",
        "ALTER TABLE d.p ANALYZE PARTITION p1",
        "ALTER TABLE d.p OPTIMIZE PARTITION p1",
        "ALTER TABLE d.p REPAIR PARTITION p1",
        exchange,
    ] {
        assert_eq!(u.code(denied), Some(1142), "{denied}");
    }
    u.run("ALTER TABLE d.p REBUILD PARTITION p1");
    c.run("GRANT INSERT, CREATE, DROP ON d.p TO u");
    assert_eq!(u.code(exchange), Some(1142));
    c.run("GRANT INSERT, CREATE, DROP ON d.t TO u");
    u.run(exchange);
    u.run("ALTER TABLE d.p DROP PARTITION p1");
    // DROP alone is enough to empty one.
    c.run("REVOKE ALTER ON d.p FROM u");
    u.run("ALTER TABLE d.p TRUNCATE PARTITION p2");
    assert_eq!(u.code(exchange), Some(1142));
}

/// Tables that are partitioned in all ways.
const KINDS: &str = "CREATE DATABASE d; USE d; \
     CREATE TABLE r (a INT, b INT) \
     PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20), \
     PARTITION p2 VALUES LESS THAN (30), PARTITION pm VALUES LESS THAN MAXVALUE); \
     INSERT INTO r VALUES (1,1),(11,1),(21,1),(31,1),(NULL,1); \
     CREATE TABLE ri (a INT NOT NULL, b INT, PRIMARY KEY (a), KEY (b, a)) \
     PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20), \
     PARTITION p2 VALUES LESS THAN (30)); \
     INSERT INTO ri VALUES (1,1),(2,1),(11,1),(12,1),(21,1),(22,3); \
     CREATE TABLE l (a INT) \
     PARTITION BY LIST (a) (PARTITION p0 VALUES IN (1,2,NULL), PARTITION p1 VALUES IN (3,4), \
     PARTITION p2 VALUES IN (5,6)); \
     INSERT INTO l VALUES (1),(3),(5),(NULL); \
     CREATE TABLE h (a INT, b INT) \
     PARTITION BY HASH (a) PARTITIONS 4; \
     INSERT INTO h VALUES (1,1),(2,1),(3,1),(4,1); \
     CREATE TABLE k (a INT, b INT) \
     PARTITION BY KEY (a, b) PARTITIONS 4; \
     INSERT INTO k VALUES (1,1),(2,1),(3,1),(4,1); \
     CREATE TABLE rc (a VARCHAR(10), b INT) \
     PARTITION BY RANGE COLUMNS (a, b) (PARTITION p0 VALUES LESS THAN ('b', 10), \
     PARTITION p1 VALUES LESS THAN ('b', 20), PARTITION p2 VALUES LESS THAN ('c', MAXVALUE), \
     PARTITION p3 VALUES LESS THAN (MAXVALUE, MAXVALUE)); \
     INSERT INTO rc VALUES ('a',1),('b',1),('b',15),('c',5),('z',1); \
     CREATE TABLE rd (d DATE) \
     PARTITION BY RANGE COLUMNS (d) (PARTITION p0 VALUES LESS THAN ('2000-01-01'), \
     PARTITION p1 VALUES LESS THAN ('2001-01-01'), PARTITION p2 VALUES LESS THAN (MAXVALUE)); \
     INSERT INTO rd VALUES ('1999-01-01'),('2000-05-05'),('2010-01-01'); \
     CREATE TABLE td (d DATE) \
     PARTITION BY RANGE (TO_DAYS(d)) (PARTITION p0 VALUES LESS THAN (TO_DAYS('2000-01-01')), \
     PARTITION p1 VALUES LESS THAN (TO_DAYS('2001-01-01')), PARTITION p2 VALUES LESS THAN MAXVALUE); \
     INSERT INTO td VALUES ('1999-01-01'),('2000-05-05'),('2010-01-01'); \
     CREATE TABLE y (d DATE) \
     PARTITION BY RANGE (YEAR(d)) (PARTITION p0 VALUES LESS THAN (2000), \
     PARTITION p1 VALUES LESS THAN (2001), PARTITION p2 VALUES LESS THAN MAXVALUE); \
     INSERT INTO y VALUES ('1999-01-01'),('2000-05-05'),('2010-01-01'); \
     CREATE TABLE s (a INT, b INT) \
     PARTITION BY RANGE (a) SUBPARTITION BY HASH (b) SUBPARTITIONS 2 (PARTITION p0 VALUES LESS THAN (10), \
     PARTITION p1 VALUES LESS THAN (20)); \
     INSERT INTO s VALUES (1,1),(2,2),(11,1),(12,2); \
     CREATE TABLE lc (a VARCHAR(10)) \
     PARTITION BY LIST COLUMNS (a) (PARTITION p0 VALUES IN ('x','y'), PARTITION p1 VALUES IN ('z', NULL)); \
     INSERT INTO lc VALUES ('x'),('z'); \
     CREATE TABLE e (a INT, b INT) \
     PARTITION BY HASH (a + b) PARTITIONS 3; \
     INSERT INTO e VALUES (1,1),(2,2),(3,3); \
     CREATE TABLE m (a INT, d DATETIME) \
     PARTITION BY RANGE (TO_DAYS(d)) (PARTITION p0 VALUES LESS THAN (TO_DAYS('2000-01-01')), \
     PARTITION p1 VALUES LESS THAN (TO_DAYS('2001-01-01'))); \
     INSERT INTO m VALUES (1,'1999-01-01'),(2,'2000-01-01')";

/// Statements, and the partitions that MySQL 9.7 names.
const LOOKED_FOR: &[(&str, &str)] = &[
    ("SELECT * FROM r", "p0,p1,p2,pm"),
    ("SELECT * FROM r WHERE a = 5", "p0"),
    ("SELECT * FROM r WHERE a = 10", "p1"),
    ("SELECT * FROM r WHERE a < 10", "p0"),
    ("SELECT * FROM r WHERE a <= 10", "p0,p1"),
    ("SELECT * FROM r WHERE a > 9", "p1,p2,pm"),
    ("SELECT * FROM r WHERE a > 10 AND a < 25", "p1,p2"),
    ("SELECT * FROM r WHERE a BETWEEN 10 AND 19", "p1"),
    ("SELECT * FROM r WHERE a IN (1, 25)", "p0,p2"),
    ("SELECT * FROM r WHERE a IS NULL", "p0"),
    ("SELECT * FROM r WHERE a IS NOT NULL", "p0,p1,p2,pm"),
    ("SELECT * FROM r WHERE a = 5 OR a = 35", "p0,pm"),
    ("SELECT * FROM r WHERE b = 3", "p0,p1,p2,pm"),
    ("SELECT * FROM r WHERE a <> 5", "p0,p1,p2,pm"),
    ("SELECT * FROM r WHERE a = 5 AND b = 3", "p0"),
    ("SELECT * FROM r WHERE a < 10 OR b = 1", "p0,p1,p2,pm"),
    ("SELECT * FROM r WHERE NOT (a < 20)", "p2,pm"),
    ("SELECT * FROM r PARTITION (p1)", "p1"),
    ("SELECT * FROM r PARTITION (p1, pm) WHERE a > 5", "p1,pm"),
    ("SELECT * FROM ri WHERE a = 11", "p1"),
    ("SELECT * FROM ri WHERE a < 15", "p0,p1"),
    ("SELECT * FROM ri WHERE b = 1 AND a = 11", "p1"),
    ("SELECT * FROM ri WHERE b = 1 AND a > 15", "p1,p2"),
    ("SELECT * FROM ri WHERE b = 1", "p0,p1,p2"),
    ("SELECT * FROM ri WHERE a IN (1,2,21)", "p0,p2"),
    ("SELECT * FROM l WHERE a = 3", "p1"),
    ("SELECT * FROM l WHERE a IN (1,5)", "p0,p2"),
    ("SELECT * FROM l WHERE a > 4", "p2"),
    ("SELECT * FROM l WHERE a < 3", "p0"),
    ("SELECT * FROM l WHERE a IS NULL", "p0"),
    ("SELECT * FROM h WHERE a = 2", "p2"),
    ("SELECT * FROM h WHERE a IN (1,2)", "p1,p2"),
    ("SELECT * FROM h WHERE a BETWEEN 1 AND 2", "p1,p2"),
    ("SELECT * FROM h WHERE a > 5", "p0,p1,p2,p3"),
    ("SELECT * FROM h WHERE a IS NULL", "p0"),
    ("SELECT * FROM h WHERE a = 1 OR b = 1", "p0,p1,p2,p3"),
    ("SELECT * FROM h PARTITION (p2)", "p2"),
    ("SELECT * FROM k WHERE a = 1 AND b = 1", "p0"),
    ("SELECT * FROM k WHERE a = 1", "p0,p1,p2,p3"),
    ("SELECT * FROM k WHERE a = 1 AND b IN (1,2)", "p0"),
    ("SELECT * FROM rc WHERE a = 'b'", "p0,p1,p2"),
    ("SELECT * FROM rc WHERE a = 'b' AND b = 15", "p1"),
    ("SELECT * FROM rc WHERE a = 'b' AND b < 10", "p0"),
    ("SELECT * FROM rc WHERE a < 'b'", "p0"),
    ("SELECT * FROM rc WHERE a > 'b'", "p2,p3"),
    ("SELECT * FROM rc WHERE a >= 'c'", "p2,p3"),
    ("SELECT * FROM rc WHERE a > 'c'", "p3"),
    ("SELECT * FROM rc WHERE b = 5", "p0,p1,p2,p3"),
    ("SELECT * FROM rd WHERE d = '2000-05-05'", "p1"),
    ("SELECT * FROM rd WHERE d < '2000-01-01'", "p0"),
    ("SELECT * FROM rd WHERE d <= '2000-01-01'", "p0,p1"),
    (
        "SELECT * FROM rd WHERE d >= '2000-01-01' AND d < '2001-01-01'",
        "p1",
    ),
    ("SELECT * FROM td WHERE d = '2000-05-05'", "p1"),
    ("SELECT * FROM td WHERE d < '2000-01-01'", "p0"),
    ("SELECT * FROM td WHERE d <= '2000-01-01'", "p0,p1"),
    (
        "SELECT * FROM td WHERE d >= '2000-01-01' AND d < '2001-01-01'",
        "p0,p1",
    ),
    ("SELECT * FROM td WHERE d > '2000-12-31'", "p0,p2"),
    ("SELECT * FROM td WHERE d > '2000-12-30'", "p0,p1,p2"),
    ("SELECT * FROM td WHERE d IS NULL", "p0"),
    ("SELECT * FROM y WHERE d = '2000-05-05'", "p1"),
    ("SELECT * FROM y WHERE d < '2000-01-01'", "p0"),
    ("SELECT * FROM y WHERE d <= '1999-12-31'", "p0"),
    (
        "SELECT * FROM y WHERE d >= '2000-01-01' AND d < '2001-01-01'",
        "p1",
    ),
    (
        "SELECT * FROM y WHERE d BETWEEN '2000-01-01' AND '2000-12-31'",
        "p1",
    ),
    ("SELECT * FROM y PARTITION (p1)", "p1"),
    ("SELECT * FROM s", "p0_p0sp0,p0_p0sp1,p1_p1sp0,p1_p1sp1"),
    ("SELECT * FROM s WHERE a = 5", "p0_p0sp0,p0_p0sp1"),
    ("SELECT * FROM s WHERE b = 2", "p0_p0sp0,p1_p1sp0"),
    ("SELECT * FROM s WHERE a = 5 AND b = 2", "p0_p0sp0"),
    ("SELECT * FROM s PARTITION (p0)", "p0_p0sp0,p0_p0sp1"),
    ("SELECT * FROM s PARTITION (p0sp1)", "p0_p0sp1"),
    ("SELECT * FROM lc WHERE a = 'x'", "p0"),
    ("SELECT * FROM lc WHERE a = 'X'", "p0"),
    ("SELECT * FROM lc WHERE a > 'y'", "p1"),
    ("SELECT * FROM lc WHERE a IS NULL", "p1"),
    ("SELECT * FROM e WHERE a = 1 AND b = 1", "p2"),
    ("SELECT * FROM e WHERE a = 1", "p0,p1,p2"),
    ("SELECT * FROM m WHERE d < '2000-01-01'", "p0"),
    ("SELECT * FROM m WHERE d < '2000-01-01 00:00:01'", "p0,p1"),
    ("SELECT * FROM m WHERE d >= '2000-06-01'", "p0,p1"),
    ("UPDATE r SET b = 2 WHERE a = 5", "p0"),
    ("DELETE FROM r WHERE a < 10", "p0"),
    ("UPDATE h SET b = 3 WHERE a = 3", "p3"),
];

#[test]
fn explain_names_the_partitions_that_a_statement_looks_for() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut c = server.connect();
    c.run(KINDS);
    for (sql, expected) in LOOKED_FOR {
        let rows = c.rows(&format!("EXPLAIN FORMAT=TRADITIONAL {sql}"));
        assert_eq!(rows[0][3].as_deref(), Some(*expected), "{sql}");
    }
    c.run("SET explain_json_format_version = 1");
    let document = c.value("EXPLAIN FORMAT=JSON SELECT * FROM r WHERE a IN (1, 25)");
    let document: String = document.split_whitespace().collect();
    assert!(
        document.contains(r#""partitions":["p0","p2"]"#),
        "{document}"
    );
}
