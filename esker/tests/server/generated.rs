//! Generated columns and functional key parts: what may be written, what is computed, what indexes serve, what stays
//! after a crash and a dump.

use esker_server::client::Client;

use crate::common::{Ask, Server};

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    server.connect().run("CREATE DATABASE d");
    (server, dir)
}

fn connect(server: &Server) -> Client {
    let mut c = server.connect();
    c.run("USE d");
    c
}

const TABLE: &str = "CREATE TABLE g (a INT, b INT AS (a + 1), c INT GENERATED ALWAYS AS (a * 2) STORED NOT NULL COMMENT 'cc',
    d VARCHAR(10) AS (CONCAT('x', a)) VIRTUAL UNIQUE, KEY (b))";

#[test]
fn values_are_computed_whatever_writes_the_row() {
    let (mut server, _dir) = server();
    let mut c = connect(&server);
    c.run(TABLE);
    c.run("INSERT INTO g (a) VALUES (1), (2); INSERT INTO g VALUES (3, DEFAULT, DEFAULT, DEFAULT)");
    c.run("INSERT INTO g (a) SELECT 4; REPLACE INTO g (a) VALUES (2); UPDATE g SET a = a + 20, b = DEFAULT WHERE b = 4");
    c.run("INSERT INTO g (a) VALUES (1) ON DUPLICATE KEY UPDATE a = 50");
    let all = "SELECT * FROM g ORDER BY a";
    let rows = ["2|3|4|x2", "4|5|8|x4", "23|24|46|x23", "50|51|100|x50"];
    assert_eq!(c.lines(all), rows);
    for sql in [
        "INSERT INTO g VALUES (3, 4, DEFAULT, DEFAULT)",
        "INSERT INTO g (a, b) SELECT 1, 2",
        "INSERT IGNORE INTO g (b) VALUES (5)",
        "UPDATE g SET b = 5",
        "INSERT INTO g (a) VALUES (2) ON DUPLICATE KEY UPDATE c = 1",
        "CREATE TABLE x (a INT AS (1)) SELECT 1 AS a",
    ] {
        assert_eq!(c.code(sql), Some(3105), "{sql}");
    }
    assert_eq!(c.code("INSERT INTO g (a) VALUES (4)"), Some(1062));
    assert_eq!(c.code("INSERT INTO g (a) VALUES (2147483647)"), Some(1264));
    assert_eq!(c.code("UPDATE g SET a = NULL"), Some(1048));
    for (key, wanted) in [("b", "b > 0"), ("d", "d > ''")] {
        let sql = format!("SELECT COUNT(*) FROM g FORCE INDEX ({key}) WHERE {wanted}");
        assert_eq!(c.value(&sql), "4");
    }
    assert!(c.lines("CHECK TABLE g")[0].ends_with("|OK"));
    assert_eq!(
        c.lines("SELECT COLUMN_NAME, EXTRA, GENERATION_EXPRESSION FROM information_schema.COLUMNS WHERE TABLE_NAME = 'g' \
                 ORDER BY ORDINAL_POSITION"),
        ["a||", "b|VIRTUAL GENERATED|(`a` + 1)", "c|STORED GENERATED|(`a` * 2)",
         "d|VIRTUAL GENERATED|concat(_utf8mb4\\'x\\',`a`)"]
    );
    let shown = c.rows("SHOW CREATE TABLE g")[0][1].clone().expect("text");
    assert!(shown.contains(
        "`c` int GENERATED ALWAYS AS ((`a` * 2)) STORED NOT NULL COMMENT 'cc',\n  \
         `d` varchar(10) GENERATED ALWAYS AS (concat(_utf8mb4'x',`a`)) VIRTUAL,"
    ));
    // What SHOW CREATE TABLE says makes the same table again.
    c.run(&format!("CREATE DATABASE e; USE e; {shown}; USE d"));
    assert_eq!(
        c.rows("SHOW CREATE TABLE e.g")[0][1].as_deref(),
        Some(shown.as_str())
    );
    server.kill();
    server.restart();
    let mut c = connect(&server);
    assert_eq!(c.lines(all), rows);
    c.run("UPDATE g SET a = 5 WHERE a = 4");
    assert_eq!(
        c.value("SELECT CONCAT(b, c, d) FROM g WHERE d = 'x5'"),
        "610x5"
    );
    assert_eq!(
        c.rows("SHOW CREATE TABLE g")[0][1].as_deref(),
        Some(shown.as_str())
    );
}

#[test]
fn definitions_are_checked_as_mysql_checks_them() {
    let (server, _dir) = server();
    let mut c = connect(&server);
    for (columns, code) in [
        ("a INT, b INT AS (RAND())", 3763),
        ("a INT, b INT AS (NOW())", 3763),
        ("a INT, b INT AS (@x)", 3772),
        ("a INT, b INT AS (@@version)", 3772),
        ("a INT, b INT AS ((SELECT 1))", 3102),
        ("a INT, b INT AS (c + 1), c INT AS (a)", 3107),
        ("a INT, b INT AS (b + 1)", 3107),
        ("b INT AS (a), a INT DEFAULT (5)", 3107),
        ("a INT AUTO_INCREMENT PRIMARY KEY, b INT AS (a)", 3109),
        ("a INT, b INT AS (nope)", 1054),
        ("a INT, b INT AS (SUM(a))", 1111),
        ("a INT, b INT AS (a) VIRTUAL PRIMARY KEY", 3106),
        ("a INT, b TIMESTAMP AS (a) ON UPDATE NOW()", 1221),
        ("a INT, b TEXT AS (a), KEY (b)", 1170),
        // DEFAULT expressions name later columns, but not those that are computed.
        ("a INT DEFAULT (b + 1), b INT DEFAULT (5)", 3767),
        ("a INT DEFAULT (b + 1), b INT AS (1)", 3767),
        ("a INT DEFAULT (a + 1)", 3767),
        (
            "a INT AUTO_INCREMENT PRIMARY KEY, b INT DEFAULT (a + 1)",
            3768,
        ),
        ("a INT, KEY ((a))", 3762),
        ("a INT, KEY ((RAND()))", 3758),
        ("a INT, PRIMARY KEY ((a + 1))", 3756),
        ("a TEXT, KEY ((CONCAT(a, 'x')))", 3757),
        ("a INT, KEY ((nope + 1))", 1054),
        ("a INT AUTO_INCREMENT PRIMARY KEY, KEY ((a + 1))", 3754),
        ("a INT, KEY ((@x))", 3772),
        ("a INT, KEY (((SELECT 1)))", 3758),
        ("a INT, KEY ((SUM(a)))", 1111),
    ] {
        assert_eq!(
            c.code(&format!("CREATE TABLE x ({columns})")),
            Some(code),
            "{columns}"
        );
    }
    c.run("CREATE TABLE later (a INT DEFAULT (b + 1), b INT DEFAULT 5, c INT AS (a + b)); INSERT INTO later () VALUES ();
           INSERT INTO later (b) VALUES (7)");
    assert_eq!(c.lines("SELECT * FROM later"), ["6|5|11", "8|7|15"]);
    c.run("CREATE TABLE s (a INT, b INT AS (a) STORED PRIMARY KEY, CHECK (b < 9)); INSERT INTO s (a) VALUES (1)");
    assert_eq!(c.code("INSERT INTO s (a) VALUES (1)"), Some(1062));
    assert_eq!(c.code("UPDATE s SET a = 10"), Some(3819));
}

#[test]
fn alter_computes_and_keeps_what_is_needed() {
    let (server, _dir) = server();
    let mut c = connect(&server);
    c.run("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2), (3, 4); ALTER TABLE t ADD COLUMN c INT AS (a + b),
           ADD COLUMN d INT AS (c * 2) STORED, ADD UNIQUE (d)");
    assert_eq!(c.lines("SELECT * FROM t WHERE c = 7"), ["3|4|7|14"]);
    for (change, code) in [
        ("DROP COLUMN a", 3108),
        ("RENAME COLUMN a TO z", 3108),
        ("CHANGE a z INT", 3108),
        ("DROP COLUMN c", 3108),
        ("MODIFY c INT AS (a + b) STORED", 3106),
        ("MODIFY c INT", 3106),
        ("MODIFY a INT AS (b)", 3106),
        ("ADD COLUMN e INT AS (f), ADD COLUMN f INT AS (1)", 3107),
        ("ADD COLUMN e TINYINT AS (a * 1000)", 1264),
    ] {
        assert_eq!(
            c.code(&format!("ALTER TABLE t {change}")),
            Some(code),
            "{change}"
        );
    }
    c.run("ALTER TABLE t DROP INDEX d, MODIFY a BIGINT, MODIFY c INT AS (a - b)");
    assert_eq!(
        c.lines("SELECT * FROM t ORDER BY a"),
        ["1|2|-1|-2", "3|4|-1|-2"]
    );
}

#[test]
fn cascades_and_generated_columns() {
    let (server, _dir) = server();
    let mut c = connect(&server);
    c.run("CREATE TABLE p (id INT PRIMARY KEY); INSERT INTO p VALUES (1), (2)");
    for (generated, key, code) in [
        ("(a) VIRTUAL", "(b) REFERENCES p (id)", 3733),
        (
            "(a) STORED",
            "(b) REFERENCES p (id) ON UPDATE CASCADE",
            3104,
        ),
        (
            "(a) STORED",
            "(b) REFERENCES p (id) ON DELETE SET NULL",
            3104,
        ),
        (
            "(a) STORED",
            "(a) REFERENCES p (id) ON UPDATE CASCADE",
            1215,
        ),
        (
            "(a) STORED",
            "(a) REFERENCES p (id) ON DELETE CASCADE",
            1215,
        ),
    ] {
        let sql = format!("CREATE TABLE x (a INT, b INT AS {generated}, FOREIGN KEY {key})");
        assert_eq!(c.code(&sql), Some(code), "{sql}");
    }
    c.run("CREATE TABLE k (a INT, b INT AS (a - 10) STORED, FOREIGN KEY (b) REFERENCES p (id) ON DELETE CASCADE); INSERT INTO k (a) VALUES (11), (12)");
    assert_eq!(c.code("INSERT INTO k (a) VALUES (13)"), Some(1452));
    assert_eq!(c.code("UPDATE k SET a = 20"), Some(1452));
    c.run("DELETE FROM p WHERE id = 1");
    assert_eq!(c.lines("SELECT * FROM k"), ["12|2"]);

    // VIRTUAL ones follow what a cascade gives the columns that they are computed from.
    c.run("INSERT INTO p VALUES (5), (6); CREATE TABLE v (a INT, b INT AS (a + 1) VIRTUAL, KEY (b),
             FOREIGN KEY (a) REFERENCES p (id) ON UPDATE CASCADE ON DELETE SET NULL);
           INSERT INTO v (a) VALUES (5), (6); UPDATE p SET id = 8 WHERE id = 5; DELETE FROM p WHERE id = 6");
    assert_eq!(c.lines("SELECT * FROM v ORDER BY a"), ["NULL|NULL", "8|9"]);
    assert_eq!(
        c.lines("SELECT a FROM v FORCE INDEX (b) WHERE b > 0"),
        ["8"]
    );
    assert!(c.lines("CHECK TABLE v")[0].ends_with("OK"));
}

#[test]
fn functional_key_parts_serve_conditions() {
    let (mut server, _dir) = server();
    let mut c = connect(&server);
    c.run("SET NAMES utf8mb4; CREATE TABLE f (a INT, b VARCHAR(20), KEY k1 ((a + 1)), UNIQUE KEY k2 ((UPPER(b))), KEY k3 (a, (a * 2) DESC, b),
             KEY ((ABS(a))));
           INSERT INTO f VALUES (1, 'x'), (-2, 'y'), (7, 'z')");
    assert_eq!(c.code("INSERT INTO f VALUES (5, 'X')"), Some(1062));
    let shown = c.rows("SHOW CREATE TABLE f")[0][1].clone().expect("text");
    assert!(shown.contains(
        "  UNIQUE KEY `k2` ((upper(`b`))),\n  KEY `k1` (((`a` + 1))),\n  KEY `k3` (`a`,((`a` * 2)) DESC,`b`),\n  \
         KEY `functional_index` ((abs(`a`)))\n"
    ), "{shown}");
    assert_eq!(c.rows("SHOW COLUMNS FROM f").len(), 2);
    assert_eq!(c.lines("SELECT * FROM f WHERE a = 7"), ["7|z"]);
    assert_eq!(
        c.lines("SELECT COLUMN_NAME, EXPRESSION FROM information_schema.STATISTICS WHERE INDEX_NAME = 'k3'"),
        ["a|NULL", "NULL|(`a` * 2)", "b|NULL"]
    );
    c.run(
        "INSERT INTO f WITH RECURSIVE q AS (SELECT 100 AS n UNION ALL SELECT n + 1 FROM q WHERE n < 500) SELECT n, n FROM q; ANALYZE TABLE f",
    );
    for (condition, key, rows) in [
        ("a + 1 = 2", "k1", "1"),
        ("a + 1 IN (2, 8)", "k1", "1,7"),
        ("UPPER(b) = 'Y'", "k2", "-2"),
        ("ABS(a) BETWEEN 2 AND 3", "functional_index", "-2"),
    ] {
        let plan = c.rows(&format!("EXPLAIN SELECT * FROM f WHERE {condition}"));
        assert_eq!(plan[0][6].as_deref(), Some(key), "{condition}: {plan:?}");
        let sql = format!("SELECT GROUP_CONCAT(a ORDER BY a) FROM f WHERE {condition}");
        assert_eq!(c.value(&sql), rows, "{condition}");
    }
    c.run("DELETE FROM f WHERE a >= 100");
    // A row that an outer join makes has NULL in every column, and the expression may be something else.
    c.run("CREATE TABLE o (a INT, KEY ((IFNULL(a, 0)))); CREATE TABLE one (a INT); INSERT INTO one VALUES (1)");
    assert_eq!(
        c.value("SELECT COUNT(*) FROM one LEFT JOIN o ON o.a = one.a WHERE IFNULL(o.a, 0) = 0"),
        "1"
    );
    assert_eq!(c.code("UPDATE f SET b = 'y' WHERE a + 1 = 2"), Some(1062));
    c.run("UPDATE f SET a = 9 WHERE a + 1 = 8; DELETE FROM f WHERE ABS(a) = 2");
    server.kill();
    server.restart();
    let mut c = connect(&server);
    assert_eq!(c.lines("SELECT * FROM f WHERE a + 1 = 10"), ["9|z"]);
    assert_eq!(
        c.value("SELECT COUNT(*) FROM f FORCE INDEX (functional_index) WHERE ABS(a) > 0"),
        "2"
    );
    assert!(c.lines("CHECK TABLE f")[0].ends_with("|OK"));
    for change in ["DROP COLUMN a", "RENAME COLUMN b TO c"] {
        assert_eq!(
            c.code(&format!("ALTER TABLE f {change}")),
            Some(3837),
            "{change}"
        );
    }
    c.run("ALTER TABLE f DROP INDEX k1, DROP INDEX k3, DROP INDEX functional_index, ADD INDEX k5 ((a % 4)), RENAME INDEX k2 TO k6;
           CREATE INDEX k7 ON f ((a - 1)); CREATE TABLE l LIKE f; INSERT INTO l SELECT * FROM f; ALTER TABLE f MODIFY a BIGINT");
    for table in ["f", "l"] {
        let sql = format!("SELECT a FROM {table} FORCE INDEX (k5) WHERE a % 4 = 1 ORDER BY a");
        assert_eq!(c.lines(&sql), ["1", "9"]);
        let sql = format!("SELECT a FROM {table} WHERE a - 1 = 8");
        assert_eq!(c.lines(&sql), ["9"]);
        assert!(c.lines(&format!("CHECK TABLE {table}"))[0].ends_with("|OK"));
    }
    c.run("ALTER TABLE l DROP INDEX k5, DROP INDEX k6, DROP INDEX k7, DROP COLUMN a");
    assert_eq!(c.lines("SELECT * FROM l ORDER BY b"), ["x", "z"]);
}
