//! What a replica can only do right if events say it: definers, settings that change what a definition means, rows that
//! IGNORE has let go.

use super::{REPLICA, change, follow, pair, source, source_with};
use crate::common::{Ask, Server, eventually};
use esker_server::client::Client;

/// Waits until everything has come; both answer the same to these.
fn same(source: &mut Client, replica: &Server, questions: &[&str]) {
    let mut there = replica.connect();
    follow(source, &mut there);
    for question in questions {
        assert_eq!(source.lines(question), there.lines(question), "{question}");
    }
}

/// Types and sizes of the events of the last transaction about rows.
fn row_events(c: &mut Client, statement: &str) -> Vec<(String, u64)> {
    let position = |c: &mut Client| c.lines("SHOW BINARY LOG STATUS")[0].clone();
    let before = position(c);
    let mut parts = before.split('|');
    let mut next = || parts.next().expect("a column").to_owned();
    let (file, at) = (next(), next());
    c.run(statement);
    eventually("the events are there", || position(c) != before);
    let events = c.lines(&format!("SHOW BINLOG EVENTS IN '{file}' FROM {at}"));
    let row = |event: &String| {
        let columns: Vec<&str> = event.split('|').collect();
        let number = |nth: usize| columns[nth].parse::<u64>().expect("a number");
        columns[2]
            .ends_with("_rows")
            .then(|| (columns[2].to_owned(), number(4) - number(1)))
    };
    events.iter().filter_map(row).collect()
}

#[test]
fn views_keep_their_definer() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = pair(dir.path());
    let mut c = source.connect();
    c.run("CREATE USER app@localhost; GRANT ALL ON d.* TO app@localhost");
    let mut app = Client::connect("127.0.0.1", source.port, "app", "", None).expect("login");
    app.run(
        "USE d; CREATE VIEW v AS SELECT id FROM t; \
         CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY INVOKER VIEW d.w (a, b) AS SELECT id, v FROM d.t WITH LOCAL CHECK OPTION; \
         ALTER VIEW v AS SELECT id, v + 1 AS `more` FROM t WHERE v > 1",
    );
    let definers = "SELECT table_name, definer, security_type, check_option FROM information_schema.views \
                    WHERE table_schema = 'd' ORDER BY 1";
    assert!(c.lines(definers)[0].contains("app@localhost"));
    same(
        &mut c,
        &replica,
        &[definers, "SHOW CREATE VIEW d.v", "SHOW CREATE VIEW d.w"],
    );
    let logged = c.lines("SHOW BINLOG EVENTS").join("\n");
    for text in [
        "CREATE ALGORITHM=UNDEFINED DEFINER=`app`@`localhost` SQL SECURITY DEFINER VIEW `v` AS SELECT id FROM t",
        "CREATE OR REPLACE ALGORITHM=MERGE DEFINER=`app`@`localhost` SQL SECURITY INVOKER VIEW `w`(`a`, `b`) AS \
         SELECT id, v FROM d.t WITH LOCAL CHECK OPTION",
        "ALTER ALGORITHM=UNDEFINED DEFINER=`app`@`localhost` SQL SECURITY DEFINER VIEW `v` AS SELECT id, v + 1",
    ] {
        assert!(logged.contains(text), "{text}\n{logged}");
    }
}

#[test]
fn definitions_mean_what_they_meant_at_the_source() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = pair(dir.path());
    let mut c = source.connect();
    for collation in ["utf8mb4_bin", "latin1_swedish_ci"] {
        let set = format!("SET default_collation_for_utf8mb4 = {collation}");
        assert_eq!(c.code(&set), Some(3721));
    }
    c.run(
        "SET default_collation_for_utf8mb4 = utf8mb4_general_ci, sql_mode = ''; \
         CREATE TABLE d.a (x VARCHAR(9) CHARACTER SET utf8mb4, y TEXT COLLATE utf8mb4_bin) CHARSET utf8mb4; \
         CREATE TABLE d.b (x VARCHAR(9)) CHARSET latin1; ALTER TABLE d.b CONVERT TO CHARACTER SET utf8mb4; \
         CREATE DATABASE e CHARACTER SET utf8mb4; \
         SET explicit_defaults_for_timestamp = OFF; \
         CREATE TABLE d.c (x TIMESTAMP(3), y TIMESTAMP, z TIMESTAMP NULL)",
    );
    let shown = c.value("SELECT collation_name FROM information_schema.columns WHERE table_name = 'a' AND column_name = 'x'");
    assert_eq!(shown, "utf8mb4_general_ci");
    let timestamps = c.lines("SHOW CREATE TABLE d.c").concat();
    for part in [
        "`x` timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)",
        "`y` timestamp NOT NULL DEFAULT '0000-00-00 00:00:00'",
        "`z` timestamp NULL DEFAULT NULL",
    ] {
        assert!(timestamps.contains(part), "{part}\n{timestamps}");
    }
    same(
        &mut c,
        &replica,
        &[
            "SHOW CREATE TABLE d.a",
            "SHOW CREATE TABLE d.b",
            "SHOW CREATE TABLE d.c",
            "SHOW CREATE DATABASE e",
        ],
    );
}

#[test]
fn columns_that_are_added_have_the_time_of_the_source() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = pair(dir.path());
    let mut c = source.connect();
    // One time has a fraction for certain, the other is of the clock.
    c.run("INSERT INTO d.t VALUES (1, 1); SET timestamp = 1600000000.123456");
    c.run("ALTER TABLE d.t ADD x TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6), ADD y DATETIME(3) DEFAULT (NOW(3))");
    assert!(c.value("SELECT x FROM d.t").ends_with(".123456"));
    c.run(
        "SET timestamp = DEFAULT; ALTER TABLE d.t ADD z DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6)",
    );
    same(&mut c, &replica, &["SELECT x, y, z FROM d.t"]);
}

#[test]
fn rows_that_ignore_lets_go_are_in_no_event() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = pair(dir.path());
    let mut c = source.connect();
    c.run(
        "CREATE TABLE d.parent (id INT PRIMARY KEY); INSERT INTO d.parent VALUES (1), (2); \
         CREATE TABLE d.child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES d.parent (id))",
    );
    let written = row_events(
        &mut c,
        "BEGIN; INSERT IGNORE INTO d.child VALUES (1, 7), (2, 1), (3, 9); UPDATE IGNORE d.child SET p = 8; \
         INSERT IGNORE INTO d.child VALUES (2, 1) ON DUPLICATE KEY UPDATE p = 9; COMMIT",
    );
    assert_eq!(written.len(), 1, "{written:?}");
    assert_eq!(c.lines("SELECT * FROM d.child"), ["2|1"]);
    same(&mut c, &replica, &["SELECT * FROM d.child"]);
    // More than a statement gathers, with rows that are let go all over it.
    let rows: Vec<String> = (0..4000)
        .map(|n| format!("({}, {})", n + 10, n % 3 + 1))
        .collect();
    c.run("ALTER TABLE d.child ADD COLUMN pad VARCHAR(100) DEFAULT 'ppppppppppppppppppppppppppppppppppppppppppppppppp'");
    c.run(&format!(
        "INSERT IGNORE INTO d.child (id, p) VALUES {}",
        rows.join(", ")
    ));
    assert_eq!(c.value("SELECT COUNT(*) FROM d.child"), "2668");
    same(&mut c, &replica, &["SELECT * FROM d.child ORDER BY id"]);
}

#[test]
fn events_are_those_that_mysql_writes() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = pair(dir.path());
    let mut c = source.connect();
    c.run(
        "CREATE TABLE d.r (id INT PRIMARY KEY, u INT UNIQUE, v INT DEFAULT 5, \
         w VARCHAR(100) DEFAULT 'a long default that nobody asks for', b TEXT, at TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP); \
         INSERT INTO d.r (id, u) VALUES (1, 1), (2, 2)",
    );
    let kinds = |events: Vec<(String, u64)>| -> Vec<String> {
        events.into_iter().map(|(kind, _)| kind).collect()
    };
    // The last unique key is taken: an update, as in MySQL; another one: a row goes.
    let last = row_events(&mut c, "REPLACE INTO d.r (id, u) VALUES (7, 1)");
    assert_eq!(kinds(last), ["Update_rows"]);
    let first = row_events(&mut c, "REPLACE INTO d.r (id, u) VALUES (7, 9)");
    assert_eq!(kinds(first), ["Delete_rows", "Write_rows"]);
    let both = row_events(&mut c, "REPLACE INTO d.r (id, u) VALUES (7, 2)");
    assert_eq!(kinds(both), ["Delete_rows", "Update_rows"]);
    // Columns that an INSERT leaves to a constant default are in no minimal image.
    let full = row_events(&mut c, "INSERT INTO d.r (id, u) VALUES (20, 20)");
    // effect: binlog_row_image
    c.run("SET binlog_row_image = MINIMAL");
    let minimal = row_events(&mut c, "INSERT INTO d.r (id, u) VALUES (21, 21)");
    assert!(minimal[0].1 + 30 < full[0].1, "{minimal:?} {full:?}");
    c.run("SET binlog_row_image = NOBLOB");
    let without = row_events(&mut c, "INSERT INTO d.r (id, u) VALUES (22, 22)");
    assert_eq!(without[0].1, full[0].1, "what is NULL takes no room");
    same(&mut c, &replica, &["SELECT * FROM d.r ORDER BY id"]);
}

/// `REQUIRE_TABLE_PRIMARY_KEY_CHECK`, and generated keys that one of both servers has.
#[test]
fn a_replica_gives_tables_keys_of_its_own() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = pair(dir.path());
    let (mut c, mut there) = (source.connect(), replica.connect());
    let check = |there: &mut Client, how: &str| {
        there.run(&format!(
            "STOP REPLICA SQL_THREAD; \
             CHANGE REPLICATION SOURCE TO REQUIRE_TABLE_PRIMARY_KEY_CHECK = {how}; START REPLICA SQL_THREAD"
        ));
        let shown = "SELECT REQUIRE_TABLE_PRIMARY_KEY_CHECK \
                     FROM performance_schema.replication_applier_configuration";
        assert_eq!(there.value(shown), how);
    };
    let rows = ["SELECT a, b FROM d.k ORDER BY a"];
    let fill = "INSERT INTO k VALUES (1, 'x'), (2, 'y'), (3, 'z'); UPDATE k SET b = 'v' WHERE a = 2; \
                DELETE FROM k WHERE a = 1";
    same(&mut c, &replica, &[]);
    check(&mut there, "GENERATE");
    c.run("USE d; CREATE TABLE k (a INT, b TEXT)");
    c.run(fill);
    c.run("CREATE TABLE s SELECT a, b FROM k");
    same(&mut c, &replica, &rows);
    same(&mut c, &replica, &["SELECT a, b FROM d.s ORDER BY a"]);
    let keys = "SELECT my_row_id, a FROM d.k ORDER BY a";
    assert_eq!(there.lines(keys), ["2|2", "3|3"]);
    assert_eq!(there.lines("SELECT my_row_id FROM d.s"), ["1", "2"]);

    // The source has them, the replica does not.
    check(&mut there, "OFF");
    c.run("SET sql_log_bin = 0; DROP TABLE k, s; SET sql_generate_invisible_primary_key = 1");
    c.run("CREATE TABLE k (a INT, b TEXT); SET sql_log_bin = 1");
    there.run("SET sql_log_bin = 0; DROP TABLE d.k; CREATE TABLE d.k (a INT, b TEXT)");
    c.run(fill);
    same(&mut c, &replica, &rows);
    c.run("SET binlog_row_image = MINIMAL; UPDATE k SET my_row_id = 7 WHERE a = 3");
    same(&mut c, &replica, &rows);

    // The source's own setting, and one that overrides it.
    check(&mut there, "STREAM");
    c.run("SET sql_generate_invisible_primary_key = 0, sql_require_primary_key = 1");
    c.run("CREATE TABLE p (a INT PRIMARY KEY); SET sql_require_primary_key = 0");
    same(&mut c, &replica, &["SHOW CREATE TABLE d.p"]);
    check(&mut there, "ON");
    c.run("CREATE TABLE q (a INT)");
    eventually("the replica refuses it", || {
        super::status(&mut there)
            .iter()
            .any(|line| line.contains("without a primary key"))
    });
    assert_eq!(there.lines("SHOW TABLES FROM d LIKE 'q'"), [""; 0]);
}

/// `--replicate-…` of a start: for new channels, and over what known ones have kept.
#[test]
fn rules_of_a_start_say_what_is_applied() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let mut c = source.connect();
    c.run("CREATE DATABASE left_out; USE left_out; CREATE TABLE t (id INT PRIMARY KEY)");
    c.run("CREATE DATABASE old; USE old; CREATE TABLE t (id INT PRIMARY KEY)");
    c.run("INSERT INTO t VALUES (1); INSERT INTO left_out.t VALUES (1)");
    let there = dir.path().join("replica");
    let args = [
        &REPLICA[..],
        &[
            "--replicate-ignore-db=left_out",
            "--replicate-rewrite-db=old->renamed",
        ],
    ]
    .concat();
    let replica = Server::start(&there, &args);
    let mut r = replica.connect();
    change(&mut r, source.port, "SOURCE_AUTO_POSITION = 1");
    r.run("CREATE DATABASE renamed; START REPLICA");
    same(&mut c, &replica, &["SELECT * FROM d.t"]);
    assert_eq!(r.lines("SHOW DATABASES LIKE 'left_out'"), [""; 0]);
    assert_eq!(r.lines("SELECT id FROM renamed.t"), ["1"]);
    let rules = "SELECT FILTER_NAME, FILTER_RULE, CONFIGURED_BY FROM performance_schema.replication_applier_filters \
                 WHERE FILTER_RULE != '' ORDER BY FILTER_NAME";
    let shown = r.lines(rules);
    assert_eq!(
        shown,
        [
            "REPLICATE_IGNORE_DB|left_out|STARTUP_OPTIONS",
            "REPLICATE_REWRITE_DB|(old,renamed)|STARTUP_OPTIONS",
        ]
    );
    drop((r, replica));

    let args = [
        &REPLICA[..],
        &["--replicate-ignore-db=d", "--skip-replica-start"],
    ]
    .concat();
    let replica = Server::start(&there, &args);
    let mut r = replica.connect();
    assert_eq!(
        r.lines(rules),
        [
            "REPLICATE_IGNORE_DB|d|STARTUP_OPTIONS",
            "REPLICATE_REWRITE_DB|(old,renamed)|CHANGE_REPLICATION_FILTER",
        ]
    );
    r.run("CHANGE REPLICATION FILTER REPLICATE_IGNORE_DB = ()");
    assert_eq!(r.lines(rules).len(), 1);
}

#[test]
fn documents_that_have_changed_little_come_as_edits() {
    let dir = tempfile::tempdir().expect("folder");
    for image in ["FULL", "MINIMAL"] {
        let folder = dir.path().join(image);
        std::fs::create_dir_all(&folder).expect("folder");
        let option = format!("--binlog-row-image={image}");
        let options = ["--binlog-row-value-options=PARTIAL_JSON", &option];
        let source = source_with(&folder, &options);
        let replica = Server::start(&folder.join("replica"), &REPLICA);
        let mut there = replica.connect();
        change(&mut there, source.port, "SOURCE_AUTO_POSITION = 1");
        there.run("START REPLICA");
        let mut c = source.connect();
        let long = "x".repeat(5000);
        c.run(&format!(
            "CREATE TABLE d.j (id INT PRIMARY KEY, a JSON, b JSON, v INT); \
             INSERT INTO d.j VALUES (1, '{{\"n\": 1, \"list\": [1, 2, 3], \"long\": \"{long}\"}}', '{{\"z\": 1}}', 0), \
             (2, '[1, {{\"k k\": \"{long}\"}}]', NULL, 0)"
        ));
        for set in [
            "v = 1",
            "a = JSON_SET(a, '$.n', v + 1)",
            "a = JSON_REMOVE(a, '$.list[0]'), b = JSON_SET(b, '$.z', 2)",
            "a = JSON_ARRAY_INSERT(a, '$[0]', 'new', '$[1]', JSON_OBJECT('y', NULL))",
            "a = JSON_MERGE_PATCH(a, '{\"list\": [9, 2, 3], \"n\": null, \"more\": {\"x\": 1.5}}') WHERE id = 1",
            "a = JSON_SET(a, '$[0]', 7), b = '[]' WHERE id = 2",
            "b = JSON_ARRAY_APPEND(b, '$', 1, '$', 2) WHERE id = 2",
            "a = NULL WHERE id = 2",
            "a = '{}' WHERE id = 2",
        ] {
            c.run(&format!("UPDATE d.j SET {set}"));
        }
        let rows = "SELECT id, MD5(a), b, v FROM d.j ORDER BY id";
        let expected = c.lines(rows);
        eventually("the replica has the documents", || {
            let mut there = replica.connect();
            there.code("SELECT 1 FROM d.j LIMIT 1").is_none() && there.lines(rows) == expected
        });
        let events = c.rows("SHOW BINLOG EVENTS");
        let sizes: Vec<u64> = events
            .iter()
            .filter(|row| row[2].as_deref() == Some("Update_rows_partial"))
            .filter_map(|row| {
                let number = |nth: usize| row[nth].as_deref()?.parse::<u64>().ok();
                Some(number(4)? - number(1)?)
            })
            .collect();
        assert!(sizes.len() >= 9, "{sizes:?}");
        // With FULL what the rows were is there as well, twice 5,000 bytes.
        let most = if image == "FULL" { 11_000 } else { 1000 };
        assert!(sizes.iter().all(|size| *size < most), "{image}: {sizes:?}");
    }
}

#[test]
fn generated_documents_come_whole() {
    let dir = tempfile::tempdir().expect("folder");
    let options = [
        "--binlog-row-value-options=PARTIAL_JSON",
        "--binlog-row-image=MINIMAL",
    ];
    let source = source_with(dir.path(), &options);
    let mut c = source.connect();
    c.run(&format!(
        "CREATE TABLE d.g (id INT PRIMARY KEY, a JSON, kept JSON AS (JSON_ARRAY(a, a)) STORED, \
         seen JSON AS (JSON_OBJECT('a', a)) VIRTUAL); \
         INSERT INTO d.g (id, a) VALUES (1, '{{\"n\": 1, \"long\": \"{}\"}}'); \
         UPDATE d.g SET a = JSON_SET(a, '$.n', 2)",
        "x".repeat(5000)
    ));
    let events = c.rows("SHOW BINLOG EVENTS");
    let edited = |row: &&Vec<Option<String>>| row[2].as_deref() == Some("Update_rows_partial");
    let event = events.iter().find(edited).expect("an update with edits");
    let number = |nth: usize| -> u64 {
        let text = event[nth].as_deref().expect("a number");
        text.parse().expect("a number")
    };
    let size = number(4) - number(1);
    // Two of the text in the one, one in the other; the column that was changed has an edit.
    assert!((15_000..16_000).contains(&size), "{size}");
}

#[test]
fn what_transactions_take_is_counted_in_both_logs() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let replica = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut there = replica.connect();
    change(&mut there, source.port, "SOURCE_AUTO_POSITION = 1");
    there.run("START REPLICA");
    let mut c = source.connect();
    let shown = "SELECT log_type, compression_type, transaction_counter, \
                 compressed_bytes_counter < uncompressed_bytes_counter, compression_percentage > 50, \
                 last_transaction_id = CONCAT(@@server_uuid, ':', transaction_counter + 4) \
                 FROM performance_schema.binary_log_transaction_compression_stats ORDER BY 1, 2 DESC";
    c.run("TRUNCATE TABLE performance_schema.binary_log_transaction_compression_stats");
    assert_eq!(c.lines(shown), [""; 0]);
    c.run(
        "CREATE TABLE d.z (id INT PRIMARY KEY, t TEXT); SET binlog_transaction_compression = ON; \
         INSERT INTO d.z VALUES (1, REPEAT('a', 3000)); INSERT INTO d.z VALUES (2, REPEAT('b', 3000))",
    );
    eventually("it is counted", || {
        c.lines(shown) == ["BINARY|ZSTD|2|1|1|0", "BINARY|NONE|1|0|0|1"]
    });
    eventually("it has come", || {
        let rows = there.lines(shown).into_iter();
        let relay: Vec<_> = rows.filter(|row| row.starts_with("RELAY")).collect();
        relay == ["RELAY|ZSTD|2|1|1|0", "RELAY|NONE|5|0|0|0"]
    });
}

/// What a statement wrote before its trigger's savepoint is not undone by going back there.
#[test]
fn savepoints_of_triggers_leave_the_rows_before_them() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = pair(dir.path());
    let mut c = source.connect();
    c.run("USE d; CREATE TABLE a (id INT PRIMARY KEY); CREATE TABLE b LIKE a; CREATE TABLE e (id INT)");
    c.run(
        "CREATE TRIGGER tr AFTER INSERT ON a FOR EACH ROW BEGIN \
           DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK TO s; INSERT INTO e VALUES (NEW.id); END; \
           INSERT INTO e VALUES (-NEW.id); \
           SAVEPOINT s; \
           INSERT INTO e VALUES (100); \
           INSERT INTO b VALUES (NEW.id); \
           RELEASE SAVEPOINT s; \
         END",
    );
    c.run("INSERT INTO b VALUES (2); INSERT INTO a VALUES (1), (2), (3)");
    c.run("BEGIN; INSERT INTO a VALUES (4); SAVEPOINT s; INSERT INTO a VALUES (5); ROLLBACK TO s; COMMIT");
    let questions = [
        "SELECT * FROM d.a",
        "SELECT * FROM d.b",
        "SELECT * FROM d.e ORDER BY id",
    ];
    assert_eq!(c.lines(questions[0]), ["1", "2", "3", "4"]);
    assert_eq!(
        c.lines(questions[2]),
        ["-4", "-3", "-2", "-1", "2", "100", "100", "100"]
    );
    same(&mut c, &replica, &questions);
}

/// What came before a statement of a trigger, or before its row that failed, stays if a handler goes on.
#[test]
fn errors_that_triggers_handle_leave_the_rows_before_them() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = pair(dir.path());
    let mut c = source.connect();
    c.run("USE d; CREATE TABLE a (id INT PRIMARY KEY); CREATE TABLE b LIKE a; CREATE TABLE e (id INT)");
    c.run(
        "CREATE TRIGGER tr AFTER INSERT ON a FOR EACH ROW BEGIN \
           DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; \
           INSERT INTO e VALUES (NEW.id); \
           INSERT INTO b VALUES (100 + NEW.id), (NEW.id); \
           INSERT INTO e VALUES (-NEW.id); \
         END",
    );
    c.run("INSERT INTO b VALUES (1), (3); INSERT INTO a VALUES (1), (2), (3)");
    let questions = [
        "SELECT * FROM d.a",
        "SELECT * FROM d.b",
        "SELECT * FROM d.e ORDER BY id",
    ];
    assert_eq!(c.lines(questions[0]), ["1", "2", "3"]);
    assert_eq!(c.lines(questions[1]), ["1", "2", "3", "101", "102", "103"]);
    assert_eq!(c.lines(questions[2]), ["-3", "-2", "-1", "1", "2", "3"]);
    same(&mut c, &replica, &questions);
}
