//! Temporary tables: what only their session sees, what hides what, transactions, and that they go.

use esker_server::client::Client;

use crate::common::{Ask, Server};

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    server
        .connect()
        .run("CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 10)");
    (server, dir)
}

fn connect(server: &Server) -> Client {
    let mut c = server.connect();
    c.run("USE d");
    c
}

#[test]
fn it_hides_a_table_from_its_session_only() {
    let (server, _dir) = server();
    let (mut c, mut other) = (connect(&server), connect(&server));
    // A statement whose plan is kept, by its text and prepared.
    c.run("PREPARE q FROM 'SELECT * FROM t WHERE id = 1'; PREPARE i FROM 'INSERT INTO t VALUES (?, ?)'");
    for _ in 0..3 {
        assert_eq!(c.lines("SELECT v FROM t WHERE id = 1"), ["10"]);
        assert_eq!(c.lines("EXECUTE q"), ["1|10"]);
    }
    c.run("CREATE TEMPORARY TABLE t (id INT PRIMARY KEY, v VARCHAR(9), KEY (v)); INSERT INTO t VALUES (1, 'mine')");
    for _ in 0..3 {
        assert_eq!(c.lines("SELECT v FROM t WHERE id = 1"), ["mine"]);
        assert_eq!(c.lines("EXECUTE q"), ["1|mine"]);
        assert_eq!(other.lines("SELECT v FROM t WHERE id = 1"), ["10"]);
    }
    c.run(
        "SET @a = 7, @b = 'seven'; EXECUTE i USING @a, @b; UPDATE t SET v = 'other' WHERE id = 1",
    );
    assert_eq!(
        c.lines("SELECT * FROM t x WHERE v > 'o' OR id IN (SELECT id FROM t)"),
        ["1|other", "7|seven"]
    );
    assert_eq!(other.lines("SELECT * FROM t"), ["1|10"]);
    // Lists show the stored table, and SHOW of the name the temporary one.
    assert_eq!(c.lines("SHOW TABLES"), ["t"]);
    let sql =
        "SELECT GROUP_CONCAT(COLUMN_TYPE) FROM information_schema.COLUMNS WHERE TABLE_NAME = 't'";
    assert_eq!(c.value(sql), "int,int");
    assert!(c.lines("SHOW CREATE TABLE t")[0].contains("CREATE TEMPORARY TABLE `t` ("));
    assert_eq!(
        c.lines("SHOW COLUMNS FROM t LIKE 'v'"),
        ["v|varchar(9)|YES|MUL|NULL|"]
    );
    assert_eq!(c.rows("SHOW INDEX FROM t").len(), 2);
    assert_eq!(c.code("CREATE TEMPORARY TABLE t (a INT)"), Some(1050));
    assert_eq!(c.code("CREATE TABLE t (a INT)"), Some(1050));
    assert_eq!(c.code("CREATE VIEW v AS SELECT * FROM t"), Some(1352));
    // Nobody waits for it.
    c.run("BEGIN; SELECT * FROM t");
    other.run("ALTER TABLE t ADD COLUMN late INT; LOCK TABLES t WRITE");
    assert_eq!(c.value("SELECT COUNT(*) FROM t"), "2");
    other.run("UNLOCK TABLES; CREATE VIEW v AS SELECT id FROM t");
    // A view reads the stored table.
    assert_eq!(c.lines("SELECT * FROM v"), ["1"]);
    c.run("COMMIT; DROP TABLE t");
    assert_eq!(c.lines("EXECUTE q"), ["1|10|NULL"]);
    assert_eq!(c.code("DROP TEMPORARY TABLE t"), Some(1051));
    assert_eq!(c.lines("SELECT v FROM t WHERE id = 1"), ["10"]);
}

#[test]
fn rows_are_transactional_and_definitions_are_not() {
    let (server, _dir) = server();
    let mut c = connect(&server);
    c.run("CREATE TEMPORARY TABLE x (a INT PRIMARY KEY); BEGIN; INSERT INTO x VALUES (1); INSERT INTO t VALUES (2, 2);
           CREATE TEMPORARY TABLE y SELECT * FROM x; SAVEPOINT s; INSERT INTO y VALUES (5); ROLLBACK TO s");
    assert_eq!(
        c.lines("SHOW WARNINGS"),
        ["Warning|1751|The creation of some temporary tables could not be rolled back."]
    );
    assert_eq!(c.lines("SELECT * FROM y"), ["1"]);
    c.run("DROP TEMPORARY TABLE x; ROLLBACK");
    assert_eq!(c.rows("SHOW WARNINGS").len(), 2);
    assert_eq!(c.rows("SELECT * FROM y").len(), 0);
    assert_eq!(c.value("SELECT COUNT(*) FROM t"), "1");
    assert_eq!(c.code("SELECT * FROM x"), Some(1146));
    // Another DROP commits, and so does what rewrites a table.
    for sql in [
        "DROP TABLE y",
        "ALTER TABLE z ADD COLUMN b INT DEFAULT 3",
        "TRUNCATE TABLE z",
    ] {
        c.run("DELETE FROM t WHERE id = 9; CREATE TEMPORARY TABLE IF NOT EXISTS z (a INT)");
        c.run(&format!(
            "BEGIN; INSERT INTO t VALUES (9, 9); INSERT INTO z (a) VALUES (1); {sql}; ROLLBACK"
        ));
        assert_eq!(c.value("SELECT COUNT(*) FROM t WHERE id = 9"), "1", "{sql}");
    }
    c.run("DROP TABLE z; START TRANSACTION READ ONLY");
    assert_eq!(c.code("CREATE TEMPORARY TABLE ro (a INT)"), Some(1792));
    c.run("COMMIT; CREATE TEMPORARY TABLE ro (a INT); START TRANSACTION READ ONLY; INSERT INTO ro VALUES (1); UPDATE ro SET a = 2");
    assert_eq!(c.code("INSERT INTO t VALUES (8, 8)"), Some(1792));
    assert_eq!(c.code("UPDATE ro, t SET t.v = 1"), Some(1792));
    c.run("COMMIT");
    assert_eq!(c.lines("SELECT * FROM ro"), ["2"]);
    // Its trees may go only when nothing of the transaction can be on its way to them.
    c.run("BEGIN; INSERT INTO ro VALUES (3); INSERT INTO t VALUES (30, 3); DROP TEMPORARY TABLE ro; COMMIT");
    assert_eq!(c.value("SELECT v FROM t WHERE id = 30"), "3");
    c.run("CREATE TEMPORARY TABLE xt (a INT); XA START 'x'");
    assert_eq!(c.code("INSERT INTO xt VALUES (1)"), Some(4091));
    assert_eq!(c.code("SELECT * FROM xt WHERE a = 1"), Some(4091));
}

#[test]
fn every_way_of_making_and_altering() {
    let (server, _dir) = server();
    let mut c = connect(&server);
    c.run("CREATE TEMPORARY TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, s VARCHAR(5) DEFAULT 'x', CHECK (s <> 'no')) AUTO_INCREMENT = 50;
           INSERT INTO a (s) VALUES ('one'), ('two')");
    assert_eq!(c.lines("SELECT id FROM a"), ["50", "51"]);
    assert_eq!(c.code("INSERT INTO a VALUES (99, 'no')"), Some(3819));
    c.run("ALTER TABLE a MODIFY s TEXT, ADD COLUMN n INT DEFAULT 4 FIRST, ADD UNIQUE u (n, id)");
    c.run("CREATE INDEX i ON a (n DESC); ALTER TABLE a RENAME TO b");
    assert_eq!(
        c.lines("SELECT * FROM b USE INDEX (i) WHERE n = 4 ORDER BY id DESC"),
        ["4|51|two", "4|50|one"]
    );
    assert_eq!(c.code("SELECT * FROM a"), Some(1146));
    c.run("DROP INDEX i ON b; CREATE TEMPORARY TABLE c LIKE b; CREATE TABLE lasting LIKE b; INSERT INTO c SELECT * FROM b");
    assert!(c.lines("SHOW CREATE TABLE lasting")[0].contains("CREATE TABLE `lasting` ("));
    assert!(c.lines("SHOW CREATE TABLE c")[0].contains("UNIQUE KEY `u` (`n`,`id`)"));
    for check in ["CHECK", "ANALYZE", "OPTIMIZE"] {
        assert!(
            c.lines(&format!("{check} TABLE c"))
                .iter()
                .any(|l| l.ends_with("|OK")),
            "{check}"
        );
    }
    c.run("TRUNCATE c; INSERT INTO c (s) VALUES ('again')");
    assert_eq!(c.lines("SELECT id, s FROM c"), ["1|again"]);
    c.run("CREATE TEMPORARY TABLE m (a INT) ENGINE=MEMORY; INSERT INTO m VALUES (1); RENAME TABLE lasting TO lasting2");
    assert_eq!(c.code("RENAME TABLE m TO m2"), Some(1146));
    assert_eq!(c.code("CREATE TEMPORARY TABLE nodb.x (a INT)"), Some(1049));
    assert_eq!(
        c.code("CREATE TEMPORARY TABLE f (a INT, FOREIGN KEY (a) REFERENCES t (id))"),
        Some(1215)
    );
    assert_eq!(c.code("DROP TABLE m, nope"), Some(1051));
    assert_eq!(c.value("SELECT a FROM m"), "1");
    // A large one, beyond the memory of a transaction.
    c.run("SET cte_max_recursion_depth = 300000; CREATE TEMPORARY TABLE big (PRIMARY KEY (n)) WITH RECURSIVE q AS
             (SELECT 1 AS n, REPEAT('x', 200) AS s UNION ALL SELECT n + 1, s FROM q WHERE n < 60000) SELECT * FROM q");
    assert_eq!(
        c.value("SELECT COUNT(*), SUM(n) FROM big"),
        "60000|1800030000"
    );
    // LOCK TABLES says nothing about it.
    c.run("LOCK TABLES t READ; INSERT INTO m VALUES (2); SELECT * FROM m WHERE a = 2; UNLOCK TABLES; LOCK TABLES m WRITE; SELECT * FROM t; UNLOCK TABLES");
}

#[test]
fn it_needs_one_privilege() {
    let (server, _dir) = server();
    let mut c = connect(&server);
    c.run("CREATE USER u; GRANT SELECT ON d.t TO u");
    let mut u = Client::connect("127.0.0.1", server.port, "u", "", None).expect("connect");
    u.run("USE d");
    assert_eq!(u.code("CREATE TEMPORARY TABLE x (a INT)"), Some(1044));
    c.run("GRANT CREATE TEMPORARY TABLES ON d.* TO u");
    u.run("USE d; CREATE TEMPORARY TABLE x (a INT); INSERT INTO x VALUES (1); UPDATE x SET a = 2; ALTER TABLE x ADD b INT;
           CREATE INDEX i ON x (a); TRUNCATE x; INSERT INTO x SELECT * FROM t; CREATE TEMPORARY TABLE y SELECT * FROM t");
    assert_eq!(u.lines("SELECT * FROM x WHERE a = 1"), ["1|10"]);
    assert_eq!(u.rows("SHOW COLUMNS FROM x").len(), 2);
    assert!(u.lines("SHOW CREATE TABLE x")[0].contains("TEMPORARY"));
    u.run("DELETE FROM x; DROP TABLE x");
    assert_eq!(u.code("INSERT INTO t VALUES (5, 5)"), Some(1142));
}

#[test]
fn it_goes_with_its_session_and_in_a_crash() {
    let (mut server, _dir) = server();
    let make = "CREATE TEMPORARY TABLE x (a INT PRIMARY KEY, b INT, KEY (b)); INSERT INTO x VALUES (1, 1), (2, 2)";
    let mut c = connect(&server);
    c.run(make);
    drop(c);
    let mut c = connect(&server);
    assert_eq!(c.code("SELECT * FROM x"), Some(1146));
    c.run(make);
    c.run("BEGIN; INSERT INTO x VALUES (3, 3); INSERT INTO t VALUES (3, 3); COMMIT; BEGIN; INSERT INTO x VALUES (4, 4)");
    server.kill();
    server.restart();
    let mut c = connect(&server);
    assert_eq!(c.code("SELECT * FROM x"), Some(1146));
    assert_eq!(c.lines("SELECT * FROM t"), ["1|10", "3|3"]);
    c.run(make);
    server.stop();
    server.restart();
    let mut c = connect(&server);
    assert_eq!(c.code("SELECT * FROM x"), Some(1146));
    c.run(make);
    assert_eq!(c.value("SELECT COUNT(*) FROM x"), "2");
}
