//! What a replica's own rules say of what its source has done: some hold here, too, others do not.

use super::{REPLICA, follow, pair};
use crate::common::{Ask, Server, eventually};
use esker_server::client::Client;

/// The error that has stopped the applier.
fn applier_error(replica: &mut Client) -> String {
    let failed = "SELECT last_error_number FROM performance_schema.replication_applier_status_by_worker \
                  WHERE last_error_number <> 0";
    eventually("the applier has stopped", || {
        !replica.lines(failed).is_empty()
    });
    replica.lines(failed)[0].clone()
}

#[test]
fn the_head_of_the_next_file_is_reached_without_a_transaction() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = pair(dir.path());
    let (mut there, mut here) = (source.connect(), replica.connect());
    there.run("INSERT INTO d.t (id) VALUES (10)");
    for _ in 0..2 {
        there.run("FLUSH BINARY LOGS");
        let log = there.lines("SHOW BINARY LOG STATUS")[0].clone();
        let mut place = log.split('|');
        let (file, position) = (
            place.next().expect("a file"),
            place.next().expect("a place"),
        );
        let wait = format!("SELECT SOURCE_POS_WAIT('{file}', {position}, 60)");
        let waited: i64 = here.value(&wait).parse().expect("a number");
        assert!(waited >= 0, "{file} {position}: {waited}");
    }
    // Files of other names never come.
    for file in ["other.000001", "binlog"] {
        let wait = format!("SELECT IFNULL(SOURCE_POS_WAIT('{file}', 4, 60), 'never')");
        assert_eq!(here.value(&wait), "never", "{file}");
    }
    // A restart goes on behind the last transaction.
    here.run("STOP REPLICA; START REPLICA");
    there.run("INSERT INTO d.t (id) VALUES (11)");
    follow(&mut there, &mut here);
    assert_eq!(
        here.lines("SELECT id FROM d.t WHERE id >= 10"),
        ["10", "11"]
    );
}

/// The source leaves out what the replica has, and says how far it is.
#[test]
fn what_is_known_already_is_behind_a_replica_at_once() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = pair(dir.path());
    let (mut there, mut here) = (source.connect(), replica.connect());
    let gtid = "SET gtid_next = 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:1'; BEGIN;";
    here.run(&format!(
        "STOP REPLICA; {gtid} COMMIT; SET gtid_next = AUTOMATIC; START REPLICA"
    ));
    there.run(&format!(
        "{gtid} INSERT INTO d.t (id) VALUES (10); COMMIT; SET gtid_next = AUTOMATIC"
    ));
    let log = there.lines("SHOW BINARY LOG STATUS")[0].clone();
    let mut place = log.split('|');
    let (file, position) = (
        place.next().expect("a file"),
        place.next().expect("a place"),
    );
    let wait = format!("SELECT SOURCE_POS_WAIT('{file}', {position}, 60) >= 0");
    assert_eq!(here.value(&wait), "1");
    assert_eq!(here.value("SELECT COUNT(*) FROM d.t WHERE id = 10"), "0");
    // It goes on from there.
    there.run("INSERT INTO d.t (id) VALUES (11)");
    follow(&mut there, &mut here);
    assert_eq!(here.value("SELECT COUNT(*) FROM d.t WHERE id = 11"), "1");
}

#[test]
fn a_replica_has_checks_of_its_own() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = pair(dir.path());
    let (mut there, mut here) = (source.connect(), replica.connect());
    there.run(
        "CREATE TABLE d.c (id INT PRIMARY KEY, n INT); INSERT INTO d.c VALUES (1, 10), (2, 20)",
    );
    follow(&mut there, &mut here);
    here.run("ALTER TABLE d.c ADD CHECK (n < 50)");
    there.run("UPDATE d.c SET n = 80 WHERE id = 1");
    assert_eq!(applier_error(&mut here), "3819");
    assert_eq!(here.lines("SELECT * FROM d.c"), ["1|10", "2|20"]);
    here.run("ALTER TABLE d.c DROP CHECK c_chk_1; START REPLICA");
    follow(&mut there, &mut here);
    assert_eq!(here.lines("SELECT * FROM d.c"), ["1|80", "2|20"]);
}

#[test]
fn a_channel_that_runs_follows_replica_exec_mode() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = pair(dir.path());
    let (mut there, mut here) = (source.connect(), replica.connect());
    there.run("INSERT INTO d.t (id) VALUES (10), (11), (12)");
    follow(&mut there, &mut here);
    // effect: replica_exec_mode
    here.run("DELETE FROM d.t WHERE id >= 10; SET GLOBAL replica_exec_mode = IDEMPOTENT");
    there.run("DELETE FROM d.t WHERE id = 10");
    follow(&mut there, &mut here);
    here.run("SET GLOBAL replica_exec_mode = STRICT");
    there.run("DELETE FROM d.t WHERE id = 11");
    assert_eq!(applier_error(&mut here), "1032");
}

#[test]
fn what_the_source_let_pass_passes() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = pair(dir.path());
    let (mut there, mut here) = (source.connect(), replica.connect());
    // A database that is read only, on both sides.
    there.run(
        "CREATE DATABASE r; ALTER DATABASE r READ ONLY = 1; ALTER DATABASE r READ ONLY = 0 COLLATE utf8mb4_bin; \
         ALTER DATABASE r READ ONLY = 1",
    );
    follow(&mut there, &mut here);
    assert!(here.value("SHOW CREATE DATABASE r").contains("READ ONLY"));
    there.run("ALTER DATABASE r READ ONLY = 0; ALTER DATABASE r COLLATE utf8mb4_general_ci");
    // A foreign key to columns that are not unique.
    there.run(
        "SET restrict_fk_on_non_standard_key = OFF; CREATE TABLE d.p (a INT, KEY (a)); \
         CREATE TABLE d.k (a INT, FOREIGN KEY (a) REFERENCES d.p (a))",
    );
    // What modes have made of generated columns: one there is an error in others.
    there.run(
        "CREATE TABLE d.u (a INT UNSIGNED, b INT UNSIGNED, n BIGINT AS (a - b) VIRTUAL, KEY (n));
         SET sql_mode = 'NO_UNSIGNED_SUBTRACTION'; INSERT INTO d.u (a, b) VALUES (1, 2), (3, 1);
         UPDATE d.u SET a = 0 WHERE a = 1; DELETE FROM d.u WHERE a = 3",
    );
    follow(&mut there, &mut here);
    here.run("SET sql_mode = 'NO_UNSIGNED_SUBTRACTION'");
    assert_eq!(here.lines("SELECT n FROM d.u FORCE INDEX (n)"), ["-2"]);
    // What a lenient mode has made of them.
    there.run(
        "SET sql_mode = ''; \
         CREATE TABLE d.g (id INT PRIMARY KEY, s VARCHAR(9), n TINYINT AS (s) STORED, m INT AS (NULLIF(id, 2)) STORED NOT NULL); \
         INSERT IGNORE INTO d.g (id, s) VALUES (1, '12x'), (2, '999'); UPDATE d.g SET s = '7y' WHERE id = 1",
    );
    follow(&mut there, &mut here);
    assert_eq!(here.lines("SELECT * FROM d.g"), ["1|7y|7|1", "2|999|127|0"]);
    assert_eq!(
        there.lines("SELECT * FROM d.g"),
        here.lines("SELECT * FROM d.g")
    );
}

#[test]
fn columns_may_differ_as_the_replica_allows() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = pair(dir.path());
    let (mut there, mut here) = (source.connect(), replica.connect());
    there.run("CREATE TABLE d.n (id INT PRIMARY KEY, a INT, s VARCHAR(9)); CREATE TABLE d.w (id INT PRIMARY KEY, v TINYINT)");
    follow(&mut there, &mut here);
    // NULL becomes what the column has instead, and a channel that runs follows the variable.
    here.run(
        "ALTER TABLE d.n MODIFY a INT NOT NULL DEFAULT 7, MODIFY s VARCHAR(9) NOT NULL; \
         ALTER TABLE d.w MODIFY v BIGINT; SET GLOBAL replica_type_conversions = 'ALL_NON_LOSSY'",
    );
    there.run(
        "INSERT INTO d.n VALUES (1, NULL, NULL), (2, 3, 'x'); UPDATE d.n SET a = NULL WHERE id = 2",
    );
    there.run("INSERT INTO d.w VALUES (1, -5); UPDATE d.n SET s = 'y' WHERE id = 1");
    follow(&mut there, &mut here);
    assert_eq!(here.lines("SELECT * FROM d.n"), ["1|7|y", "2|7|x"]);
    assert_eq!(here.lines("SELECT * FROM d.w"), ["1|-5"]);
    here.run("SET GLOBAL replica_type_conversions = ''");
    there.run("INSERT INTO d.w VALUES (2, 5)");
    assert_eq!(applier_error(&mut here), "13146");
}

/// As in MySQL: what is lost is lost by permission, and a partition of the replica must take a row.
#[test]
fn values_are_cut_by_permission_and_rows_need_a_partition() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = pair(dir.path());
    let (mut there, mut here) = (source.connect(), replica.connect());
    there.run(
        "CREATE TABLE d.c (id INT PRIMARY KEY, n INT, s VARCHAR(20), b BLOB);
         CREATE TABLE d.p (id INT PRIMARY KEY, v INT); INSERT INTO d.p VALUES (1, 1)",
    );
    follow(&mut there, &mut here);
    here.run(
        "ALTER TABLE d.c MODIFY n TINYINT, MODIFY s VARCHAR(3), MODIFY b TINYBLOB;
         SET GLOBAL replica_type_conversions = 'ALL_LOSSY,ALL_NON_LOSSY';
         ALTER TABLE d.p PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (5))",
    );
    there.run(
        "INSERT INTO d.c VALUES (1, 1000, 'abcdef', REPEAT('x', 300)), (2, -1000, 'ab', 'y');
         UPDATE d.c SET s = 'uvwxyz' WHERE id = 1; UPDATE d.c SET n = -200 WHERE id = 2",
    );
    follow(&mut there, &mut here);
    assert_eq!(
        here.lines("SELECT id, n, s, LENGTH(b) FROM d.c"),
        ["1|127|uvw|255", "2|-128|ab|1"]
    );
    there.run("INSERT INTO d.p VALUES (2, 2); UPDATE d.p SET id = 20 WHERE id = 1");
    assert_eq!(applier_error(&mut here), "1526");
    eventually("what was before it is there", || {
        here.lines("SELECT id FROM d.p") == ["1", "2"]
    });
}

#[test]
fn a_stop_that_waits_for_locks_can_be_killed() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = pair(dir.path());
    let (mut there, mut here) = (source.connect(), replica.connect());
    let (mut locker, mut stopper) = (replica.connect(), replica.connect());
    locker.run("FLUSH TABLES WITH READ LOCK");
    let id = stopper.value("SELECT CONNECTION_ID()");
    there.run("INSERT INTO d.t (id) VALUES (10)");
    let waits =
        "SELECT 1 FROM information_schema.processlist WHERE state = 'Waiting for global read lock'";
    eventually("the applier waits", || !here.lines(waits).is_empty());
    let stop = std::thread::spawn(move || stopper.code("STOP REPLICA"));
    let stops = "SELECT 1 FROM information_schema.processlist WHERE info = 'STOP REPLICA'";
    eventually("it is to stop", || !here.lines(stops).is_empty());
    here.run(&format!("KILL QUERY {id}"));
    assert_eq!(stop.join().expect("a thread"), Some(1317));
    locker.run("UNLOCK TABLES");
    here.run("STOP REPLICA; START REPLICA");
    follow(&mut there, &mut here);
    assert_eq!(here.lines("SELECT id FROM d.t"), ["10"]);
}

/// As in MySQL 9.7. New rows take the place of those in their way, and leave what only the replica has.
#[test]
fn what_other_rows_do_not_admit_is_passed_over() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = pair(dir.path());
    let (mut there, mut here) = (source.connect(), replica.connect());
    there.run(
        "USE d; CREATE TABLE own (id INT PRIMARY KEY, n INT);
         CREATE TABLE keyed (id INT PRIMARY KEY, a INT UNIQUE, b INT UNIQUE);
         CREATE TABLE parent (id INT PRIMARY KEY, n INT);
         CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id));
         INSERT INTO keyed VALUES (1, 1, 1), (2, 2, 2);
         INSERT INTO parent VALUES (1, 1), (2, 2)",
    );
    follow(&mut there, &mut here);
    here.run("STOP REPLICA; SET GLOBAL replica_exec_mode = IDEMPOTENT; START REPLICA");
    here.run(
        "USE d; ALTER TABLE own ADD x INT DEFAULT 42, ADD y VARCHAR(9) AS (x + 1);
         INSERT INTO own (id, n, x) VALUES (1, 1, 7);
         INSERT INTO keyed VALUES (10, 10, 10), (11, 11, 11);
         INSERT INTO child VALUES (1, 1), (2, 2)",
    );
    // A key that is taken, a parent that is wanted, a parent that is missing.
    there.run(
        "INSERT INTO own VALUES (1, 100), (2, 200);
         UPDATE keyed SET a = 11 WHERE id = 1;
         UPDATE keyed SET a = 20 WHERE id = 2;
         INSERT INTO keyed VALUES (12, 10, 11);
         DELETE FROM parent WHERE id = 1;
         UPDATE parent SET id = 20 WHERE id = 2;
         INSERT INTO parent VALUES (3, 3)",
    );
    follow(&mut there, &mut here);
    here.run("DELETE FROM parent WHERE id = 3");
    there.run("INSERT INTO child VALUES (3, 3), (4, NULL)");
    follow(&mut there, &mut here);
    let rows =
        |c: &mut Client, table: &str| c.lines(&format!("SELECT * FROM d.{table} ORDER BY id"));
    assert_eq!(rows(&mut here, "own"), ["1|100|7|8", "2|200|42|43"]);
    assert_eq!(rows(&mut here, "keyed"), ["1|1|1", "2|20|2", "12|10|11"]);
    assert_eq!(rows(&mut here, "parent"), ["1|1", "2|2"]);
    assert_eq!(rows(&mut here, "child"), ["1|1", "2|2", "4|NULL"]);
}

#[test]
fn rows_of_a_table_whose_name_a_view_has_are_not_applied() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = pair(dir.path());
    let (mut there, mut c) = (source.connect(), replica.connect());
    there.run("CREATE TABLE d.v (id INT PRIMARY KEY, v INT)");
    follow(&mut there, &mut c);
    let failed = "SELECT CONCAT(last_error_number, ' ', SUBSTRING_INDEX(last_error_message, '; ', -1)) \
                  FROM performance_schema.replication_applier_status_by_worker WHERE last_error_number <> 0";
    let instead = "STOP REPLICA; SET sql_log_bin = 0; DROP TABLE d.v; CREATE VIEW d.v AS SELECT * FROM d.t; \
                   START REPLICA";
    let nothing = "STOP REPLICA; SET sql_log_bin = 0; DROP VIEW d.v; START REPLICA";
    let again = "STOP REPLICA; SET sql_log_bin = 0; CREATE TABLE d.v (id INT PRIMARY KEY, v INT); START REPLICA";
    c.run(instead);
    there.run("INSERT INTO d.v VALUES (1, 1)");
    for (then, text) in [
        (
            nothing,
            "1347 Error executing row event: ''d.v' is not BASE TABLE'",
        ),
        (
            again,
            "1146 Error executing row event: 'Table 'd.v' doesn't exist'",
        ),
    ] {
        eventually("it stops", || c.lines(failed).len() == 1);
        assert_eq!(c.lines(failed), [text]);
        c.run(then);
    }
    follow(&mut there, &mut c);
    assert_eq!(c.lines("SELECT * FROM d.v"), ["1|1"]);
}

#[test]
fn arguments_of_waits_are_checked_one_after_the_other() {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(&dir.path().join("data"), &REPLICA);
    let mut c = server.connect();
    let set = "00000000-0000-0000-0000-000000000001:1";
    let wrong = |function: &str| format!("1210: Incorrect arguments to {function}.");
    let malformed = |set: &str| format!("1772: Malformed GTID set specification '{set}'.");
    let gtids = wrong("WAIT_FOR_EXECUTED_GTID_SET");
    for (arguments, expected) in [
        ("NULL", malformed("NULL")),
        ("NULL, NULL", malformed("NULL")),
        ("NULL, -1", malformed("NULL")),
        ("'x', NULL", gtids.clone()),
        ("'x', -1", gtids.clone()),
        ("'x', 0", malformed("x")),
        ("'', NULL", gtids.clone()),
        ("'', (SELECT NULL)", gtids.clone()),
        ("'', -0.0000001", gtids.clone()),
        ("'', '-1'", gtids.clone()),
        ("'', 1e300", "0".to_owned()),
        ("''", "0".to_owned()),
        (&format!("'{set}', NULL"), gtids.clone()),
        (&format!("'{set}', 0.01"), "1".to_owned()),
    ] {
        let asked = format!("SELECT WAIT_FOR_EXECUTED_GTID_SET({arguments})");
        assert_eq!(told(&mut c, &asked), expected, "{arguments}");
    }
    let place = wrong("SOURCE_POS_WAIT");
    let nothing = || "NULL".to_owned();
    let cases = [
        ("NULL, 4, -1", nothing()),
        ("'', 4, -1", nothing()),
        ("'b.000001', 4, -1", place.clone()),
        ("'b.000001', NULL, -0.1", place.clone()),
        ("'b.000001', 4, -1, NULL", place.clone()),
        ("'b.000001', 4, NULL", nothing()),
        ("'b.000001', 4, 0.01, NULL", nothing()),
        ("'b.000001', 4, 0.01, 'no'", nothing()),
        ("'b.000001', 4, 0.01", nothing()),
    ];
    for (arguments, expected) in &cases {
        let asked = format!("SELECT SOURCE_POS_WAIT({arguments})");
        assert_eq!(told(&mut c, &asked), *expected, "{arguments}");
    }
    c.run("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1' FOR CHANNEL 'other'");
    let several =
        "3079: Multiple channels exist on the replica. Please provide channel name as an argument.";
    for (arguments, expected) in [
        ("NULL, 4", "NULL"),
        ("'b.000001', 4, -1", place.as_str()),
        ("'b.000001', NULL", several),
        ("'b.000001', 4, 0.01, 'other'", "NULL"),
        ("'b.000001', 4, 0.01, ''", "NULL"),
    ] {
        let asked = format!("SELECT SOURCE_POS_WAIT({arguments})");
        assert_eq!(told(&mut c, &asked), expected, "{arguments}");
    }
}

/// The value that comes, or the error.
fn told(c: &mut Client, sql: &str) -> String {
    match c.code(sql) {
        Some(code) => format!("{code}: {}", c.error(sql)),
        None => c.rows(sql)[0][0].clone().unwrap_or("NULL".to_owned()),
    }
}
