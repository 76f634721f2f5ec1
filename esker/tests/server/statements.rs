//! Statements and what they answer, as MySQL 8.4 answers them, over the protocol.

use std::time::Duration;

use esker_server::client::ClientError;

use crate::common::{Ask, Server, eventually, serve_command};

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    server.connect().run("CREATE DATABASE d");
    (server, dir)
}

#[test]
fn windows_and_recursion() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run(
        "USE d;
         CREATE TABLE s (id INT PRIMARY KEY, who VARCHAR(10), amount DECIMAL(6,2), up INT);
         INSERT INTO s VALUES (1,'ann',5,NULL),(2,'bob',3,1),(3,'ann',2,1),(4,'bob',7,2)",
    );
    assert_eq!(
        c.lines(
            "SELECT id, SUM(amount) OVER w, ROW_NUMBER() OVER w, LAG(id) OVER w FROM s \
             WINDOW w AS (PARTITION BY who ORDER BY id) ORDER BY id"
        ),
        [
            "1|5.00|1|NULL",
            "2|3.00|1|NULL",
            "3|7.00|2|1",
            "4|10.00|2|2"
        ]
    );
    // Parameters of frames and offsets.
    c.run("PREPARE p FROM 'SELECT SUM(id) OVER (ORDER BY id ROWS ? PRECEDING), LEAD(id, ?) OVER (ORDER BY id) FROM s'");
    c.run("SET @a = 1, @b = 2");
    assert_eq!(
        c.lines("EXECUTE p USING @a, @b"),
        ["1|3", "3|4", "5|NULL", "7|NULL"]
    );
    assert_eq!(
        c.code("SELECT id FROM s WHERE RANK() OVER () = 1"),
        Some(3593)
    );
    c.run(
        "CREATE TABLE n (n INT PRIMARY KEY);
         INSERT INTO n WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r WHERE n < 10) SELECT n FROM r",
    );
    assert_eq!(c.value("SELECT COUNT(*), SUM(n) FROM n"), "10|55");
    c.run(
        "WITH RECURSIVE below AS (SELECT id FROM s WHERE id = 2 UNION ALL \
         SELECT s.id FROM below JOIN s ON s.up = below.id) \
         DELETE FROM n WHERE n IN (SELECT id FROM below)",
    );
    assert_eq!(
        c.value("SELECT GROUP_CONCAT(n ORDER BY n) FROM n WHERE n < 6"),
        "1,3,5"
    );
    let endless =
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r) SELECT COUNT(*) FROM r";
    assert_eq!(c.code(endless), Some(3636));
    c.run("SET cte_max_recursion_depth = 3");
    let four = "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT COUNT(*) FROM r";
    assert_eq!(c.code(four), Some(3636));
    c.run("SET cte_max_recursion_depth = 4");
    assert_eq!(c.value(four), "4");
}

#[test]
fn schema_changes() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run(
        "USE d; CREATE TABLE a (id INT PRIMARY KEY, x VARCHAR(10)); INSERT INTO a VALUES (1,'p')",
    );
    c.run("ALTER TABLE a ADD COLUMN z INT NOT NULL DEFAULT 5, ADD INDEX (x)");
    assert_eq!(c.lines("SELECT * FROM a WHERE x = 'p'"), ["1|p|5"]);
    c.run("CREATE UNIQUE INDEX u ON a (z); ALTER TABLE a MODIFY x VARCHAR(20) NOT NULL");
    assert_eq!(c.code("INSERT INTO a VALUES (2,'q',5)"), Some(1062));
    c.run("DROP INDEX u ON a; RENAME TABLE a TO b; TRUNCATE TABLE b");
    assert_eq!(c.value("SELECT COUNT(*) FROM b"), "0");
    assert_eq!(
        c.lines("SHOW CREATE TABLE b"),
        [
            "b|CREATE TABLE `b` (\n  `id` int NOT NULL,\n  `x` varchar(20) NOT NULL,\n  \
          `z` int NOT NULL DEFAULT '5',\n  PRIMARY KEY (`id`),\n  KEY `x` (`x`)\n) \
          ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci"
        ]
    );
    assert_eq!(c.code("CREATE TABLE b (id INT)"), Some(1050));
    assert_eq!(c.code("DROP TABLE nope"), Some(1051));
    c.run("DROP DATABASE d");
    assert_eq!(c.code("USE d"), Some(1049));
}

/// D1: a schema change waits for the transactions that use the table, and times out with 1205.
#[test]
fn metadata_locks_hold_off_schema_changes() {
    let (server, _dir) = server();
    let (mut a, mut b) = (server.connect(), server.connect());
    a.run("USE d; CREATE TABLE t (id INT PRIMARY KEY); BEGIN; SELECT * FROM t");
    b.run("USE d; SET lock_wait_timeout = 1");
    assert_eq!(b.code("ALTER TABLE t ADD COLUMN x INT"), Some(1205));
    a.run("COMMIT");
    b.run("ALTER TABLE t ADD COLUMN x INT");
    a.run("LOCK TABLES t WRITE");
    assert_eq!(b.code("SELECT * FROM t"), Some(1205));
    assert_eq!(a.code("SELECT * FROM d.u"), Some(1100));
    a.run("UNLOCK TABLES");
    b.run("SELECT * FROM t");
}

/// The plan of a text outlives the wait for a table's lock, and the change it waits for makes it stale.
#[test]
fn a_kept_plan_that_waited_for_a_schema_change_is_made_again() {
    const ROUNDS: usize = 10;
    const MOST_ROWS: u32 = 200_000;
    let (server, _dir) = server();
    let (mut a, mut b) = (server.connect(), server.connect());
    a.run("USE d; CREATE TABLE done (id INT PRIMARY KEY, v INT NOT NULL)");
    b.run("USE d");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut rows = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) && rows < MOST_ROWS {
                a.run(&format!("INSERT INTO done (id, v) VALUES ({rows}, 1)"));
                rows += 1;
            }
            (a, rows)
        });
        let mut equal = Vec::new();
        for round in 0..ROUNDS {
            std::thread::sleep(Duration::from_millis(50));
            let kind = ["BIGINT", "INT"][round % 2];
            b.run(&format!("ALTER TABLE done MODIFY COLUMN v {kind} NOT NULL"));
            b.run("CREATE INDEX more ON done (v)");
            std::thread::sleep(Duration::from_millis(20));
            let counts = "SELECT (SELECT COUNT(*) FROM done FORCE INDEX (more) WHERE v > 0)
                = (SELECT COUNT(*) FROM done FORCE INDEX (PRIMARY) WHERE v + 0 > 0)";
            equal.push(b.value(counts));
            b.run("DROP INDEX more ON done");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let (mut a, rows) = writing.join().expect("no panic");
        assert_eq!(equal, ["1"; ROUNDS]);
        assert_eq!(a.value("SELECT COUNT(*) FROM done"), rows.to_string());
    });
}

#[test]
fn kill_ends_statements_and_sessions() {
    let (server, _dir) = server();
    let mut killer = server.connect();
    killer.run("CREATE TABLE d.t (a INT); INSERT INTO d.t VALUES (1), (2)");
    let mut victim = server.connect();
    let id = victim.value("SELECT CONNECTION_ID()");
    let sleeping = std::thread::spawn(move || {
        let code = victim.code("SELECT SLEEP(60) FROM d.t, d.t AS u WHERE SLEEP(60)");
        (victim, code)
    });
    let runs = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND command = 'Query'"
    );
    eventually("it runs", || killer.value(&runs) == "1");
    killer.run(&format!("KILL QUERY {id}"));
    let (mut victim, code) = sleeping.join().expect("no panic");
    assert_eq!(code, Some(1317));
    assert_eq!(victim.value("SELECT 1"), "1");
    killer.run(&format!("KILL {id}"));
    let there = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id}");
    eventually("it ends", || killer.value(&there) == "0");
    assert!(victim.query("SELECT 1", &mut |_| ()).is_err());
    assert_eq!(killer.code("KILL 4000000000"), Some(1094));
}

/// KILL QUERY ends a SLEEP. Where that is all that a statement does it is an answer, and a program goes on; in a
/// condition it is an error; EXPLAIN ANALYZE shows what was done.
#[test]
fn a_sleep_that_is_killed_is_an_answer() {
    let (server, _dir) = server();
    let mut killer = server.connect();
    killer.run("USE d; CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2); CREATE TABLE went_on (n INT)");
    for (name, sleeps) in [
        ("p", "SELECT SLEEP(60)"),
        ("q", "DO SLEEP(60)"),
        ("r", "SELECT SLEEP(60) INTO @s"),
    ] {
        killer.run(&format!(
            "CREATE PROCEDURE d.{name}() BEGIN {sleeps}; INSERT INTO d.went_on VALUES (1); END"
        ));
    }
    for (sql, code) in [
        ("CALL d.p()", None),
        ("CALL d.q()", None),
        ("CALL d.r()", None),
        ("EXPLAIN ANALYZE SELECT SLEEP(60) FROM d.t", None),
        (
            "CREATE TABLE d.more SELECT SLEEP(60) AS s FROM d.t",
            Some(1317),
        ),
        ("UPDATE d.t SET a = 5 WHERE SLEEP(60) = 0", Some(1317)),
        (
            "DELETE FROM d.t WHERE SLEEP(60) = 5 ORDER BY a LIMIT 3",
            Some(1317),
        ),
    ] {
        let mut victim = server.connect();
        let id = victim.value("SELECT CONNECTION_ID()");
        let sleeping = std::thread::spawn(move || {
            let code = victim.code(sql);
            (code, victim.lines("SHOW WARNINGS"))
        });
        let sleeps = format!(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND state = 'User sleep'"
        );
        eventually(sql, || killer.value(&sleeps) == "1");
        killer.run(&format!("KILL QUERY {id}"));
        let (answer, warnings) = sleeping.join().expect("no panic");
        assert_eq!(answer, code, "{sql}");
        if sql.starts_with("EXPLAIN") {
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(warnings[0].contains("1317"), "{warnings:?}");
        }
    }
    assert_eq!(killer.value("SELECT COUNT(*) FROM d.went_on"), "3");
    assert_eq!(killer.lines("SELECT a FROM d.t ORDER BY a"), ["1", "2"]);
}

/// KILL of a connection while its statement runs: no answer, so that no driver takes the connection for a live one.
#[test]
fn a_killed_connection_is_not_answered() {
    let (server, _dir) = server();
    let mut killer = server.connect();
    killer.run("CREATE TABLE d.t (a INT); INSERT INTO d.t VALUES (1), (2); DO GET_LOCK('held', 0)");
    for sql in [
        "SELECT SLEEP(60)",
        "DO SLEEP(60)",
        "SELECT SLEEP(60) FROM d.t",
        "UPDATE d.t SET a = SLEEP(60)",
        "SELECT GET_LOCK('held', 60)",
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n FROM r) SELECT COUNT(*) FROM r",
    ] {
        let mut victim = server.connect();
        victim.run("SET cte_max_recursion_depth = 4294967295");
        let id = victim.value("SELECT CONNECTION_ID()");
        let running = std::thread::spawn(move || victim.query(sql, &mut |_| ()));
        let runs = format!(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND command = 'Query'"
        );
        eventually(sql, || killer.value(&runs) == "1");
        killer.run(&format!("KILL {id}"));
        let ended = running.join().expect("no panic");
        assert!(matches!(ended, Err(ClientError::Io(_))), "{sql}: {ended:?}");
    }
    // Whoever ends its own connection hears of it.
    let mut own = server.connect();
    assert_eq!(own.code("KILL CONNECTION_ID()"), Some(1317));
}

/// RELEASE ends the connection behind the reply, which waits for the commit like every other, and drops what follows.
#[test]
fn a_commit_that_releases_is_answered_first() {
    let (server, _dir) = server();
    let mut other = server.connect();
    other.run("CREATE TABLE d.t (a INT)");
    for (a, sql) in [
        "COMMIT RELEASE",
        "SET completion_type = 'RELEASE'; COMMIT",
        "COMMIT AND NO CHAIN RELEASE; INSERT INTO d.t VALUES (100)",
        "ROLLBACK RELEASE",
    ]
    .into_iter()
    .enumerate()
    {
        let mut c = server.connect();
        c.run(&format!("BEGIN; INSERT INTO d.t VALUES ({a})"));
        c.run(sql);
        let ended = c.query("SELECT 1", &mut |_| ());
        assert!(matches!(ended, Err(ClientError::Io(_))), "{sql}: {ended:?}");
    }
    // A program ends there.
    other.run("CREATE PROCEDURE d.p() BEGIN INSERT INTO d.t VALUES (7); COMMIT RELEASE; INSERT INTO d.t VALUES (8); END");
    let mut c = server.connect();
    c.run("SET autocommit = 0");
    assert_eq!(c.code("CALL d.p()"), Some(1317));
    assert!(matches!(
        c.query("SELECT 1", &mut |_| ()),
        Err(ClientError::Io(_))
    ));
    assert_eq!(
        other.value("SELECT GROUP_CONCAT(a ORDER BY a) FROM d.t"),
        "0,1,2,7"
    );
}

/// Below REPEATABLE READ rows that a subquery of WHERE leaves out stay free, whether it is asked or joined.
#[test]
fn rows_that_a_subquery_leaves_out_are_not_locked() {
    let (server, _dir) = server();
    let mut a = server.connect();
    a.run(
        "USE d;
         CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT);
         CREATE TABLE u (a INT);
         INSERT INTO t WITH RECURSIVE r AS (SELECT 1 i UNION ALL SELECT i + 1 FROM r WHERE i < 300) SELECT i, i, 0 FROM r;
         INSERT INTO u SELECT id * 2 FROM t;
         ANALYZE TABLE t, u;
         SET transaction_isolation = 'READ-COMMITTED'",
    );
    let mut b = server.connect();
    b.run("USE d; SET transaction_isolation = 'READ-COMMITTED'");
    for sql in [
        "UPDATE t SET b = b + 1 WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a)",
        "DELETE FROM t WHERE a IN (SELECT a FROM u)",
        "SELECT COUNT(*) FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a) FOR UPDATE",
    ] {
        a.run("BEGIN");
        a.run(sql);
        let free = b.value("SELECT COUNT(*) FROM (SELECT id FROM t FOR UPDATE SKIP LOCKED) q");
        assert_eq!(free, "150", "{sql}");
        a.run("ROLLBACK");
    }
}

/// GET_LOCK that is killed, or late, is an error; so is a wait that would close a cycle.
#[test]
fn waits_for_user_locks_end() {
    let (server, _dir) = server();
    let (mut a, mut b) = (server.connect(), server.connect());
    assert_eq!(a.value("SELECT GET_LOCK('a', 0)"), "1");
    assert_eq!(b.value("SELECT GET_LOCK('b', 0)"), "1");
    let id = b.value("SELECT CONNECTION_ID()");
    let waiting = std::thread::spawn(move || {
        let code = b.code("SELECT GET_LOCK('a', 60)");
        (b, code)
    });
    let waits = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND command = 'Query'"
    );
    eventually("it waits", || {
        a.value(&waits) == "1" && a.code("SELECT GET_LOCK('b', 0.01)") == Some(3058)
    });
    assert_eq!(a.code("SELECT GET_LOCK('b', 60)"), Some(3058));
    a.run(&format!("KILL QUERY {id}"));
    let (mut b, code) = waiting.join().expect("no panic");
    assert_eq!(code, Some(1317));
    b.run("SET max_execution_time = 50");
    assert_eq!(b.code("SELECT GET_LOCK('a', 60)"), Some(3024));
}

/// What drivers set for the statements that follow.
#[test]
fn limits_of_rows_and_time() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("USE d; CREATE TABLE a (id INT PRIMARY KEY); INSERT INTO a VALUES (1), (2), (3), (4)");
    c.run("SET sql_select_limit = 2");
    assert_eq!(c.lines("SELECT id FROM a ORDER BY id"), ["1", "2"]);
    assert_eq!(c.lines("SELECT id FROM a WHERE id >= 2"), ["2", "3"]);
    assert_eq!(c.lines("SELECT id FROM a LIMIT 3"), ["1", "2", "3"]);
    assert_eq!(c.value("SELECT COUNT(*) FROM a"), "4");
    assert_eq!(
        c.value("SELECT COUNT(*) FROM (SELECT id FROM a) AS all_of_them"),
        "4"
    );
    c.run("PREPARE p FROM 'SELECT id FROM a WHERE id > ?'; SET @from = 0");
    assert_eq!(c.lines("EXECUTE p USING @from"), ["1", "2"]);
    c.run("SET sql_select_limit = DEFAULT");
    assert_eq!(c.lines("EXECUTE p USING @from").len(), 4);
    let slow = "COUNT(*) FROM a, a AS b, a AS c WHERE SLEEP(0.5) = 0";
    let hinted = format!("SELECT /*+ MAX_EXECUTION_TIME(50) */ {slow}");
    assert_eq!(c.code(&hinted), Some(3024));
    c.run("SET max_execution_time = 50");
    assert_eq!(c.code(&format!("SELECT {slow}")), Some(3024));
    assert_eq!(
        c.code("LOAD DATA LOCAL INFILE 'f' INTO TABLE a"),
        Some(3948)
    );
}

#[test]
fn bad_starts_are_one_clear_error() {
    let (server, dir) = server();
    let start = |args: &[&str]| {
        let out = serve_command().args(args).output().expect("run");
        assert!(!out.status.success());
        String::from_utf8_lossy(&out.stderr)
            .lines()
            .last()
            .unwrap_or_default()
            .to_owned()
    };
    let data = format!("--datadir={}", dir.path().join("data").display());
    assert!(
        start(&[&data, "--port=0"]).contains("in use"),
        "data directory in use"
    );
    let other = format!("--datadir={}", dir.path().join("other").display());
    let port = format!("--port={}", server.port);
    assert!(
        start(&[&other, &port]).contains("cannot listen on"),
        "port in use"
    );
    let unknown = start(&[&other, "--no-such-setting=1"]);
    assert!(
        unknown.contains("no_such_setting") && unknown.contains("command line"),
        "{unknown}"
    );
}

#[test]
fn commit_switches() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(
        dir.path(),
        &["--skip-ssl", "--skip-esker-early-lock-release"],
    );
    let mut c = server.connect();
    let switches = |c: &mut esker_server::client::Client| {
        c.value("SELECT @@esker_async_commit, @@esker_early_lock_release, @@esker_flush_pipelining")
    };
    assert_eq!(switches(&mut c), "0|0|1");
    assert_eq!(c.code("SET esker_async_commit = ON"), Some(1229));
    c.run("SET GLOBAL esker_early_lock_release = ON");
    assert_eq!(c.value("SHOW COUNT(*) WARNINGS"), "0");
    c.run("SET GLOBAL esker_async_commit = ON");
    assert!(
        c.value("SHOW WARNINGS")
            .starts_with("Warning|1105|Commits are acknowledged")
    );
    assert_eq!(switches(&mut c), "1|1|1");
    c.run("CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 0)");
    const EACH: usize = 10;
    for combination in 0..8 {
        let on = |bit: i32| ["OFF", "ON"][usize::from(combination & bit != 0)];
        c.run(&format!(
            "SET GLOBAL esker_early_lock_release = {}; SET GLOBAL esker_flush_pipelining = {}; \
             SET GLOBAL esker_async_commit = {}",
            on(1),
            on(2),
            on(4)
        ));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut c = server.connect();
                    c.run("USE d");
                    for _ in 0..EACH {
                        c.run("UPDATE t SET n = n + 1 WHERE id = 1");
                        // What a session has committed never stands in its own way.
                        c.run("BEGIN; SELECT n FROM t WHERE id = 1 FOR UPDATE; COMMIT");
                    }
                });
            }
        });
    }
    assert_eq!(c.value("SELECT n FROM t"), (8 * 3 * EACH).to_string());
}

#[test]
fn conditions_of_show_may_read_tables() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("USE d; CREATE TABLE t1 (a INT); CREATE TABLE t2 (name VARCHAR(64))");
    c.run("INSERT INTO t1 VALUES (1); INSERT INTO t2 VALUES ('t2')");
    assert_eq!(
        c.lines("SHOW TABLES WHERE 1 IN (SELECT a FROM t1)"),
        ["t1", "t2"]
    );
    let read = "SHOW TABLES WHERE EXISTS (SELECT 1 FROM t2 WHERE name = Tables_in_d)";
    assert_eq!(c.lines(read), ["t2"]);
    assert_eq!(
        c.code("SHOW STATUS WHERE 1 = (SELECT a FROM t9)"),
        Some(1146)
    );
    // What SET, DO and SHOW have read is not locked when they are over; a lock of another session is waited for.
    let mut other = server.connect();
    c.run("SET @a = (SELECT COUNT(*) FROM t1); DO (SELECT a FROM t1)");
    other.run("USE d; SET lock_wait_timeout = 1; ALTER TABLE t1 ADD COLUMN b INT");
    other.run("LOCK TABLES t1 WRITE");
    c.run("SET lock_wait_timeout = 1, @n = 1");
    for sql in [
        "SET @n = @n + 1, @a = (SELECT COUNT(*) FROM t1)",
        "DO (SELECT a FROM t1)",
        "SHOW TABLES WHERE 1 IN (SELECT a FROM t1)",
    ] {
        assert_eq!(c.code(sql), Some(1205), "{sql}");
    }
    assert_eq!(c.value("SELECT @n"), "1");
}

#[test]
fn lateral_tables_to_the_right_of_a_right_join_do_not_see_its_left_side() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("USE d; CREATE TABLE t (i INT); CREATE TABLE t1 (j INT)");
    c.run("INSERT INTO t VALUES (1), (3); INSERT INTO t1 VALUES (2), (5)");
    let on = "ON t.i > tt.j ORDER BY 1, 2";
    assert_eq!(
        c.lines(&format!(
            "SELECT * FROM t RIGHT JOIN LATERAL (SELECT * FROM t1) tt {on}"
        )),
        ["NULL|5", "3|2"]
    );
    for unseen in [
        "SELECT * FROM t RIGHT JOIN LATERAL (SELECT * FROM t1 WHERE j = t.i) tt ON TRUE",
        "SELECT * FROM t RIGHT JOIN LATERAL (SELECT i FROM t1) tt ON TRUE",
        "SELECT * FROM t RIGHT JOIN (t1 JOIN LATERAL (SELECT t.i) d) ON TRUE",
    ] {
        assert_eq!(c.code(unseen), Some(1054), "{unseen}");
    }
    let seen = "SELECT * FROM t o, t RIGHT JOIN LATERAL (SELECT o.i + 1 AS j) tt ON t.i > tt.j \
                ORDER BY 1, 2";
    assert_eq!(c.lines(seen), ["1|3|2", "3|NULL|4"]);
    let inner = "SELECT * FROM t RIGHT JOIN (t1 JOIN LATERAL (SELECT t1.j + 1) d) ON t.i > t1.j \
                 ORDER BY 2";
    assert_eq!(c.lines(inner), ["3|2|3", "NULL|5|6"]);
}
