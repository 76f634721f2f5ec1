//! CREATE TABLE … SELECT: the columns it makes, keys and duplicates, and that it is there as a whole or not at all.

use esker_server::client::Client;

use crate::common::{Ask, Server, eventually};

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    server.connect().run(
        "CREATE DATABASE d; USE d;
         CREATE TABLE s (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY COMMENT 'hey', n INT DEFAULT 5,
           d DECIMAL(10,2) NOT NULL, v VARCHAR(20) CHARACTER SET latin1, e ENUM('x','y') NOT NULL DEFAULT 'y',
           dt DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), inv INT INVISIBLE);
         INSERT INTO s (d, v, e, dt) VALUES (1.5, 'abc', 'x', 20200101), (2.5, NULL, 'y', 20210101)",
    );
    (server, dir)
}

fn connect(server: &Server) -> Client {
    let mut c = server.connect();
    c.run("USE d");
    c
}

/// The definition of a table's columns and keys.
fn definition(c: &mut Client, table: &str) -> String {
    let text = &c.rows(&format!("SHOW CREATE TABLE {table}"))[0][1];
    let text = text.as_deref().expect("text");
    let inside = text.split_once("(\n").expect("columns").1;
    inside
        .split_once("\n) ENGINE")
        .expect("options")
        .0
        .lines()
        .map(str::trim)
        .collect::<Vec<_>>()
        .join(" ")
}

/// What a binary log has of such a statement, as mysqlbinlog prints it; the answers are those of MySQL 9.7.
#[test]
fn a_table_that_starts_a_transaction_is_there_when_it_is_committed() {
    let (server, _dir) = server();
    let (mut c, mut other) = (connect(&server), connect(&server));
    let shown = "SHOW TABLES LIKE 'f%'";
    c.run("CREATE TABLE f (a INT PRIMARY KEY) START TRANSACTION ENGINE = InnoDB");
    for sql in [
        "SELECT 1",
        "INSERT INTO f VALUES (1)",
        "SET @a = 1",
        "CREATE TABLE g (a INT)",
        "BEGIN",
    ] {
        assert_eq!(c.code(sql), Some(3977), "{sql}");
    }
    assert!(other.rows(shown).is_empty());
    c.run("ROLLBACK");
    assert!(c.rows(shown).is_empty());
    c.run("BEGIN; INSERT INTO s (d, v) VALUES (9, 'kept'); CREATE TABLE f (a INT) START TRANSACTION; COMMIT");
    assert_eq!(
        other.lines("SELECT COUNT(*), (SELECT COUNT(*) FROM s WHERE d = 9) FROM f"),
        ["0|1"]
    );
    c.run("CREATE TABLE IF NOT EXISTS f (a INT) START TRANSACTION; COMMIT");
    assert_eq!(
        c.code("CREATE TABLE f (a INT) START TRANSACTION"),
        Some(1050)
    );
    let foreign =
        "CREATE TABLE g (a INT UNSIGNED, FOREIGN KEY (a) REFERENCES s (id)) START TRANSACTION";
    assert_eq!(c.code(foreign), Some(3978));
    assert_eq!(c.value("SELECT 1"), "1");
    // A client that leaves takes it with it.
    let mut leaves = connect(&server);
    leaves.run("CREATE TABLE fx (a INT) START TRANSACTION");
    drop(leaves);
    eventually("the name is free", || {
        c.code("CREATE TABLE fx (a INT)").is_none()
    });
}

#[test]
fn columns_are_those_of_the_query() {
    let (server, _dir) = server();
    let mut c = connect(&server);
    c.run("CREATE TABLE a AS SELECT * FROM s");
    assert_eq!(
        definition(&mut c, "a"),
        "`id` int unsigned NOT NULL DEFAULT '0' COMMENT 'hey', `n` int DEFAULT '5', \
         `d` decimal(10,2) NOT NULL, \
         `v` varchar(20) CHARACTER SET latin1 COLLATE latin1_swedish_ci DEFAULT NULL, \
         `e` enum('x','y') NOT NULL DEFAULT 'y', \
         `dt` datetime(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)"
    );
    assert_eq!(
        c.lines("SELECT * FROM a"),
        [
            "1|5|1.50|abc|x|2020-01-01 00:00:00.000",
            "2|5|2.50|NULL|y|2021-01-01 00:00:00.000"
        ]
    );
    c.run(
        "SET NAMES utf8mb4;
         CREATE TABLE b SELECT 1 AS i, 12345678901 AS big, 1.5 AS de, 'abc' AS s, NULL AS nu, DATE'2020-01-01' AS da,
           n + 1 AS plus, CONCAT(v, 'x') AS cat, COUNT(*) AS many, AVG(n) AS av FROM s GROUP BY n, v",
    );
    assert_eq!(
        definition(&mut c, "b"),
        "`i` int NOT NULL DEFAULT '0', `big` bigint NOT NULL DEFAULT '0', `de` decimal(2,1) NOT NULL DEFAULT '0.0', \
         `s` varchar(3) NOT NULL DEFAULT '', `nu` varbinary(0) DEFAULT NULL, `da` date NOT NULL, \
         `plus` bigint DEFAULT NULL, `cat` varchar(21) CHARACTER SET latin1 DEFAULT NULL, \
         `many` bigint NOT NULL DEFAULT '0', `av` decimal(14,4) DEFAULT NULL"
    );
    // Written columns first, those that the query has, too, where the query has them.
    c.run("CREATE TABLE w (a INT, b BIGINT, KEY (b)) SELECT 2 AS c, 3 AS B");
    assert_eq!(
        definition(&mut c, "w"),
        "`a` int DEFAULT NULL, `c` int NOT NULL DEFAULT '0', `B` bigint DEFAULT NULL, KEY `B` (`B`)"
    );
    assert_eq!(c.lines("SELECT * FROM w"), ["NULL|2|3"]);
    c.run("CREATE TABLE au (id INT AUTO_INCREMENT PRIMARY KEY) AUTO_INCREMENT = 7 SELECT v FROM s ORDER BY s.id");
    assert_eq!(c.lines("SELECT * FROM au"), ["7|abc", "8|NULL"]);
    c.run("INSERT INTO au (v) VALUES ('z')");
    // Rows of a query draw numbers in blocks of 1, 2, 4, …
    assert_eq!(c.value("SELECT MAX(id) FROM au"), "10");
    c.run("PREPARE p FROM 'CREATE TABLE pr SELECT ? AS a, id FROM s WHERE id > ?'; SET @a = 'x', @b = 1");
    for _ in 0..2 {
        c.run("EXECUTE p USING @a, @b");
        assert_eq!(c.lines("SELECT * FROM pr"), ["x|2"]);
        c.run("DROP TABLE pr");
    }
}

#[test]
fn keys_duplicates_and_errors() {
    let (server, _dir) = server();
    let mut c = connect(&server);
    let twice = "SELECT 1 AS id, 2 AS x UNION ALL SELECT 1, 3";
    c.run(&format!("CREATE TABLE i (PRIMARY KEY (id)) IGNORE {twice}"));
    assert_eq!(c.lines("SELECT * FROM i"), ["1|2"]);
    c.run(&format!(
        "CREATE TABLE r (PRIMARY KEY (id)) REPLACE {twice}"
    ));
    assert_eq!(c.lines("SELECT * FROM r"), ["1|3"]);
    c.run(&format!("CREATE TABLE IF NOT EXISTS r {twice}"));
    assert_eq!(
        c.lines("SHOW WARNINGS"),
        ["Note|1050|Table 'r' already exists"]
    );
    assert_eq!(c.lines("SELECT * FROM r"), ["1|3"]);
    for (sql, code) in [
        (format!("CREATE TABLE x (PRIMARY KEY (id)) {twice}"), 1062),
        ("CREATE TABLE x (a TINYINT) SELECT 300 AS a".into(), 1264),
        ("CREATE TABLE x (a INT NOT NULL) SELECT 1 AS b".into(), 1364),
        ("CREATE TABLE x (CHECK (a > 5)) SELECT 1 AS a".into(), 3819),
        ("CREATE TABLE x SELECT id, id FROM s".into(), 1060),
        ("CREATE TABLE x SELECT * FROM nope".into(), 1146),
        ("CREATE TABLE nodb.x SELECT 1".into(), 1049),
        ("CREATE TABLE r SELECT 1".into(), 1050),
    ] {
        assert_eq!(c.code(&sql), Some(code), "{sql}");
        assert_eq!(c.code("SELECT * FROM x"), Some(1146), "{sql}");
    }
    // It commits what is open, and is itself not undone.
    c.run("BEGIN; INSERT INTO i VALUES (5, 5); CREATE TABLE y SELECT * FROM i; ROLLBACK");
    assert_eq!(c.value("SELECT COUNT(*) FROM y"), "2");
    assert_eq!(c.value("SELECT COUNT(*) FROM i"), "2");
    // Whoever looks at an older snapshot does not find it empty.
    let mut old = connect(&server);
    old.run("START TRANSACTION WITH CONSISTENT SNAPSHOT");
    c.run("CREATE TABLE late SELECT * FROM i");
    assert_eq!(old.code("SELECT * FROM late"), Some(1412));
    // INSERT on the table and SELECT on the source are wanted.
    c.run("CREATE USER u; GRANT CREATE ON d.* TO u; CREATE TABLE secret SELECT 1 AS a");
    let mut u = Client::connect("127.0.0.1", server.port, "u", "", None).expect("connect");
    assert_eq!(u.code("CREATE TABLE d.mine SELECT 1 AS a"), Some(1142));
    c.run("GRANT INSERT ON d.* TO u");
    u.run("CREATE TABLE d.mine SELECT 1 AS a");
    assert_eq!(
        u.code("CREATE TABLE d.his SELECT * FROM d.secret"),
        Some(1142)
    );
}

#[test]
fn a_crash_leaves_all_of_it_or_nothing() {
    const ROWS: usize = 20_000;
    const COPY: &str = "CREATE TABLE copy (KEY (m), KEY (n)) SELECT * FROM big";
    let (mut server, _dir) = server();
    let mut c = connect(&server);
    c.run(&format!(
        "SET cte_max_recursion_depth = {ROWS};
         CREATE TABLE big (PRIMARY KEY (n), KEY (m)) WITH RECURSIVE q AS
           (SELECT 1 AS n UNION ALL SELECT n + 1 FROM q WHERE n < {ROWS}) SELECT n, n % 7 AS m FROM q"
    ));
    for pause in [0, 3, 9, 27, 81, 243] {
        let mut c = connect(&server);
        c.run("DROP TABLE IF EXISTS copy");
        std::thread::scope(|scope| {
            let copier = scope.spawn(move || c.query(COPY, &mut |_| ()));
            std::thread::sleep(std::time::Duration::from_millis(pause));
            server.kill_from_outside();
            let _ = copier.join().expect("thread");
        });
        server.kill();
        server.restart();
        let mut c = connect(&server);
        if c.code("SELECT 1 FROM copy LIMIT 1").is_none() {
            for key in ["n", "m"] {
                let sql = format!("SELECT COUNT(*) FROM copy FORCE INDEX ({key}) WHERE {key} >= 0");
                assert_eq!(c.value(&sql), ROWS.to_string());
            }
            assert!(
                c.lines("CHECK TABLE copy")
                    .iter()
                    .any(|l| l.ends_with("|OK"))
            );
        }
        assert_eq!(c.value("SELECT COUNT(*) FROM big"), ROWS.to_string());
    }
}
