//! Statements that take longer than anybody foresaw: other sessions go on, on a server with one worker thread.
//!
//! Neighbours: `hostile` has clients that break the protocol. Here they only ask for much.
//! Nothing is timed: a statement that held the worker would come to its time limit first, and its error tells.

use std::io::Read;
use std::net::TcpStream;

use esker_server::client::{Client, ClientError};

use crate::common::{Ask, Server, eventually};
use crate::hostile::Raw;

/// Each looks small to the optimizer, and has no end to speak of.
const ENDLESS: [&str; 21] = [
    "WITH RECURSIVE q AS (SELECT 1 n UNION ALL SELECT n+1 FROM q WHERE n<900) SELECT COUNT(*) \
     FROM q a,q b,q c,q d WHERE MD5(CONCAT(a.n,b.n,c.n)) LIKE '%zz'",
    "WITH RECURSIVE q AS (SELECT 1 n UNION ALL SELECT n+1 FROM q WHERE n<900) SELECT a.n, COUNT(*) \
     FROM q a JOIN q b ON b.n<=a.n JOIN q c ON c.n<=b.n JOIN q d ON d.n<=c.n GROUP BY a.n",
    "WITH RECURSIVE q AS (SELECT 1 n UNION ALL SELECT n+1 FROM q WHERE n<900) SELECT 1 FROM q a,q b,q c,q d \
     ORDER BY a.n*b.n*c.n LIMIT 1",
    "WITH RECURSIVE q AS (SELECT 1 n UNION ALL SELECT n+1 FROM q WHERE n<900) SELECT COUNT(*) FROM q a,q b \
     WHERE SHA2(REPEAT('x', 1000000 + a.n), 512) = b.n",
    "WITH RECURSIVE q AS (SELECT 1 n UNION ALL SELECT n+1 FROM q WHERE n<900) SELECT COUNT(*) FROM q a,q b \
     WHERE REGEXP_LIKE(REPEAT('ab', 10000 + a.n * b.n), '(a|b)*c')",
    "SELECT BENCHMARK(1000000000000, MD5('x'))",
    // Hash joins, groups, distinct rows, set operations, windows, correlated subqueries, documents, changes.
    "WITH RECURSIVE q AS (SELECT 1 n UNION ALL SELECT n+1 FROM q WHERE n<900) SELECT COUNT(*) FROM q a \
     JOIN q b ON a.n % 3 = b.n % 3 JOIN q c ON b.n % 5 = c.n % 5 JOIN q d ON c.n % 7 = d.n % 7",
    "WITH RECURSIVE q AS (SELECT 1 n UNION ALL SELECT n+1 FROM q WHERE n<900) SELECT DISTINCT (a.n*b.n+c.n*d.n) % 9 \
     FROM q a,q b,q c,q d ORDER BY 1",
    "WITH RECURSIVE q AS (SELECT 1 n UNION ALL SELECT n+1 FROM q WHERE n<900) SELECT a.n FROM q a,q b,q c,q d \
     UNION SELECT 0",
    "WITH RECURSIVE q AS (SELECT 1 n UNION ALL SELECT n+1 FROM q WHERE n<900) SELECT MAX(x) FROM (SELECT \
     RANK() OVER (ORDER BY SHA2(REPEAT('x', 200000 + a.n), 512), b.n) x FROM q a,q b) y",
    "WITH RECURSIVE q AS (SELECT 1 n UNION ALL SELECT n+1 FROM q WHERE n<900) SELECT (SELECT COUNT(*) FROM q b \
     WHERE (SELECT COUNT(*) FROM q c,q d WHERE c.n <> b.n AND d.n <> a.n) > 0) FROM q a",
    "WITH RECURSIVE q AS (SELECT 1 n UNION ALL SELECT n+1 FROM q WHERE n<900) SELECT COUNT(*) FROM q a,q b \
     WHERE JSON_LENGTH(CONCAT('[', REPEAT('[1],', 10000 + a.n), b.n, ']'), '$**[0]') = 0",
    "INSERT INTO d.t WITH RECURSIVE q AS (SELECT 1 n UNION ALL SELECT n+1 FROM q WHERE n<900) SELECT COUNT(*) \
     FROM q a,q b,q c,q d WHERE a.n <> b.n",
    "UPDATE d.t SET id = (WITH RECURSIVE q AS (SELECT 1 n UNION ALL SELECT n+1 FROM q WHERE n<900) SELECT COUNT(*) \
     FROM q a,q b,q c,q d WHERE a.n <> b.n) WHERE id < 0 OR SLEEP(0) = 0",
    "DELETE FROM d.t WHERE id = (WITH RECURSIVE q AS (SELECT 1 n UNION ALL SELECT n+1 FROM q WHERE n<900) \
     SELECT COUNT(*) FROM q a,q b,q c,q d WHERE a.n <> b.n)",
    "CREATE TABLE d.made WITH RECURSIVE q AS (SELECT 1 n UNION ALL SELECT n+1 FROM q WHERE n<900) SELECT COUNT(*) \
     FROM q a,q b,q c,q d WHERE a.n <> b.n",
    // Joins within the tasks of a scan; rows that are no table's.
    "SELECT COUNT(*) FROM d.many a JOIN d.many b ON a.s <> b.s JOIN d.many c ON b.s <> c.s",
    "SELECT COUNT(*) FROM d.many WHERE id > (SELECT COUNT(*) FROM d.many a JOIN d.many b ON a.s <> b.s \
     WHERE a.id <> (SELECT COUNT(*) FROM d.many c JOIN d.many e ON c.s <> e.s JOIN d.many f ON f.s <> e.s))",
    "SELECT COUNT(*) FROM (VALUES ROW(1), ROW(2), ROW(3)) v JOIN d.many a ON a.id <> v.column_0 \
     JOIN d.many b ON a.s <> b.s JOIN d.many c ON b.s <> c.s",
    "SELECT COUNT(*) FROM JSON_TABLE(CONCAT('[', REPEAT('1,', 30000), '1]'), '$[*]' COLUMNS (a INT PATH '$')) x \
     JOIN JSON_TABLE(CONCAT('[', REPEAT('2,', 30000), '2]'), '$[*]' COLUMNS (a INT PATH '$')) y ON x.a <> y.a \
     JOIN d.many ON d.many.id <> x.a",
    // Searches of a large text.
    "SELECT COUNT(*) FROM d.words w, d.many a, d.many b \
     WHERE MATCH (w.s) AGAINST ('+words -nothing' IN BOOLEAN MODE) + a.id + b.id < 0",
];

/// Schema changes that work long on each row.
const LONG_CHANGES: [&str; 2] = [
    "ALTER TABLE d.many ADD COLUMN hash CHAR(128) AS (SHA2(REPEAT(s, 100000), 512)) STORED",
    "ALTER TABLE d.many MODIFY s VARCHAR(41), ADD COLUMN hash CHAR(128) AS (SHA2(REPEAT(s, 100000), 512)) STORED, \
     ALGORITHM=COPY",
];

/// Values that are quickly made.
const LARGE_VALUES: &str = "SET @text = REPEAT('a', 16000000), @near = CONCAT(REPEAT('a', 20000), 'b'), \
     @one_last = CAST(CONCAT('[', REPEAT('[2],', 60000), '[1]]') AS JSON), \
     @ones = CAST(CONCAT('[', REPEAT('[1],', 60000), '[1]]') AS JSON), \
     @texts = CAST(CONCAT('[', REPEAT(CONCAT('\"', REPEAT('a', 10000), '\",'), 400), '1]') AS JSON)";

/// One call each that goes over large values again and again.
const OVER_LARGE_VALUES: [&str; 7] = [
    "SELECT @text LIKE CONCAT('%', @near, '%')",
    "SELECT BINARY @text LIKE CONCAT('%', @near, '%')",
    "SELECT @text COLLATE utf8mb4_general_ci LIKE CONCAT('%', REPEAT('_', 20000), 'b')",
    "SELECT LOCATE(@near, @text)",
    "SELECT INSTR(@text COLLATE utf8mb4_general_ci, @near)",
    "SELECT JSON_CONTAINS(@one_last, @ones)",
    "SELECT JSON_SEARCH(@texts, 'all', CONCAT('%', LEFT(@near, 5000), 'b%'))",
];

const LIMIT: &str = "SET max_execution_time = 60000";

fn server(args: &[&str]) -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let args = [&["--skip-ssl", "--esker-worker-threads=1"], args].concat();
    let server = Server::start(dir.path(), &args);
    (server, dir)
}

/// A server with a table `d.t` of one row and a table `d.many`.
fn server_with_table() -> (Server, tempfile::TempDir) {
    let (server, dir) = server(&[]);
    server.connect().run(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (7); \
         CREATE TABLE d.many (id INT PRIMARY KEY, s VARCHAR(40)); \
         INSERT INTO d.many WITH RECURSIVE q AS (SELECT 1 n UNION ALL SELECT n+1 FROM q WHERE n<900) \
         SELECT a.n*10+b.n, MD5(a.n*10+b.n) FROM q a, q b WHERE b.n<=10; \
         CREATE TABLE d.words (s LONGTEXT, FULLTEXT (s)); INSERT INTO d.words VALUES (REPEAT('some words ', 100000))",
    );
    (server, dir)
}

/// The ids of sessions that run a statement which begins so.
fn running(c: &mut Client, sql: &str) -> Vec<String> {
    let start = sql.chars().take(60).collect::<String>().replace('\'', "''");
    c.lines(&format!(
        "SELECT id FROM information_schema.processlist WHERE info LIKE '{start}%' \
         AND id <> CONNECTION_ID()"
    ))
}

fn code(result: Result<(), ClientError>) -> u16 {
    match result {
        Ok(()) => 0,
        Err(ClientError::Server(e)) => e.code,
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn statements_without_end_take_no_worker_and_are_killed() {
    let (server, _dir) = server_with_table();
    let mut c = server.connect();
    let all = ENDLESS.into_iter().chain(OVER_LARGE_VALUES);
    for sql in all.chain(LONG_CHANGES) {
        let mut hostile = server.connect();
        hostile.run(&format!("{LIMIT}; {LARGE_VALUES}"));
        let ended = std::thread::spawn(move || code(hostile.query(sql, &mut |_| ())));
        eventually("it runs", || !running(&mut c, sql).is_empty());
        let mut other = server.connect();
        assert_eq!(other.value("SELECT id FROM d.t WHERE id = 7"), "7");
        for id in running(&mut c, sql) {
            c.run(&format!("KILL QUERY {id}"));
        }
        // 3024 would be its time limit: nobody else had a turn before.
        assert_eq!(ended.join().expect("no panic"), 1317, "{sql}");
    }
}

/// Who is killed lets the next one have its locks, so KILL meets statements that have just begun to wait.
#[test]
fn who_begins_to_wait_for_a_lock_is_killed() {
    const CHANGE: &str =
        "UPDATE d.many a JOIN d.many b ON a.s <> b.s SET a.s = REVERSE(a.s) WHERE b.id > 0";
    let (server, _dir) = server_with_table();
    let mut c = server.connect();
    for _ in 0..6 {
        let sessions = std::iter::repeat_with(|| {
            let mut hostile = server.connect();
            let id = hostile.value("SELECT CONNECTION_ID()");
            hostile.run("SET innodb_lock_wait_timeout = 60");
            let ended = std::thread::spawn(move || code(hostile.query(CHANGE, &mut |_| ())));
            (id, ended)
        });
        let sessions: Vec<_> = sessions.take(8).collect();
        eventually("all run", || running(&mut c, CHANGE).len() == 8);
        for (id, ended) in sessions {
            c.run(&format!("KILL QUERY {id}"));
            // 1205 would be the end of a wait that KILL has not found.
            assert_eq!(ended.join().expect("no panic"), 1317);
        }
    }
}

#[test]
fn computed_keys_of_handlers_take_no_worker() {
    let (server, _dir) = server_with_table();
    let mut c = server.connect();
    let mut hostile = server.connect();
    hostile.run("USE d; HANDLER t OPEN");
    let sql = "HANDLER t READ `PRIMARY` = (SLEEP(60))";
    let ended = std::thread::spawn(move || code(hostile.query(sql, &mut |_| ())));
    eventually("it runs", || !running(&mut c, sql).is_empty());
    for id in running(&mut c, sql) {
        c.run(&format!("KILL QUERY {id}"));
    }
    assert_eq!(ended.join().expect("no panic"), 1317);
}

#[test]
fn a_load_of_a_file_without_end_is_killed() {
    let dir = tempfile::tempdir().expect("folder");
    // A hole of 1 TiB, of which every byte ends a line.
    let file = dir.path().join("hole");
    let made = std::fs::File::create(&file).and_then(|f| f.set_len(1 << 40));
    made.expect("a file with a hole");
    let folder = dir.path().to_str().expect("UTF-8");
    let (server, _dir) = server(&[&format!("--secure-file-priv={folder}")]);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (s VARCHAR(10), KEY (s))");
    let load = format!(
        "LOAD DATA INFILE '{}' INTO TABLE d.t LINES TERMINATED BY '\\0'",
        file.display()
    );
    let mut hostile = server.connect();
    let text = load.clone();
    let ended = std::thread::spawn(move || code(hostile.query(&text, &mut |_| ())));
    eventually("it runs", || !running(&mut c, &load).is_empty());
    for id in running(&mut c, &load) {
        c.run(&format!("KILL QUERY {id}"));
    }
    assert_eq!(ended.join().expect("no panic"), 1317);
    assert_eq!(c.value("SELECT COUNT(*) FROM d.t"), "0");
}

#[test]
fn a_statement_whose_client_has_hung_up_ends() {
    let (server, _dir) = server_with_table();
    let mut c = server.connect();
    for sql in ENDLESS {
        let mut gone = Raw::root(&server);
        gone.command(&[b"\x03", sql.as_bytes()].concat());
        eventually("it runs", || !running(&mut c, sql).is_empty());
        drop(gone);
        eventually("it ends", || running(&mut c, sql).is_empty());
    }
}

#[test]
fn a_time_limit_ends_any_query() {
    let (server, _dir) = server_with_table();
    let mut c = server.connect();
    c.run(LARGE_VALUES);
    c.run("SET max_execution_time = 300");
    let queries = ENDLESS.into_iter().chain(OVER_LARGE_VALUES);
    for sql in queries.filter(|sql| sql.starts_with("WITH") || sql.starts_with("SELECT")) {
        assert_eq!(c.code(sql), Some(3024), "{sql}");
    }
    assert_eq!(c.value("SELECT id FROM d.t"), "7");
}

#[test]
fn the_server_ends_beside_a_hundred_statements_without_end() {
    let (mut server, _dir) = server_with_table();
    let mut c = server.connect();
    let endless = ENDLESS.into_iter().cycle().take(93);
    let mut hostile = Vec::new();
    for sql in OVER_LARGE_VALUES.into_iter().chain(endless) {
        let mut raw = Raw::root(&server);
        if sql.contains('@') {
            raw.command(&[b"\x03", LARGE_VALUES.as_bytes()].concat());
            assert_eq!(raw.end(), 0);
        }
        raw.command(&[b"\x03", sql.as_bytes()].concat());
        hostile.push(raw);
    }
    let busy = "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
                WHERE COMMAND = 'Query' AND INFO NOT LIKE 'SET %'";
    // This one is counted, too.
    eventually("all run", || c.value(busy) == "101");
    server.stop();
    for mut raw in hostile {
        raw.hear_the_end();
    }
}

/// As MySQL 9.7 sends it: who has not said what protocol it speaks gets no SQLSTATE.
#[test]
fn who_is_refused_before_the_greeting_gets_no_sqlstate() {
    let (server, _dir) = server(&["--max-connections=1"]);
    let _seats = [server.connect(), server.connect()];
    let mut refused = TcpStream::connect(("127.0.0.1", server.port)).expect("the port is open");
    let mut packet = Vec::new();
    refused.read_to_end(&mut packet).expect("all of it");
    assert_eq!(packet, b"\x17\0\0\0\xff\x10\x04Too many connections");
}

#[test]
fn administrators_have_a_port_of_their_own() {
    // effect: admin_address, admin_port, max_connections
    let port = crate::common::free_port();
    let (mut server, _dir) = server(&[
        "--max-connections=1",
        "--admin-address=127.0.0.1",
        &format!("--admin-port={port}"),
    ]);
    let mut root = server.connect();
    root.run("CREATE USER u@localhost");
    let admin = |user: &str| Client::connect("127.0.0.1", port, user, "", None);
    let last = server.connect();
    assert_eq!(code(server.try_connect().map(drop)), 1040);
    let mut served: Vec<_> = (0..3).map(|_| admin("root").expect("a seat")).collect();
    assert_eq!(code(admin("u").map(drop)), 1227);
    assert_eq!(served[2].value("SELECT @@admin_port"), port.to_string());
    drop((last, root, served));
    server.stop();
}

#[test]
fn regular_expressions_are_bounded() {
    let (server, _dir) = server(&[]);
    let mut c = server.connect();
    assert_eq!(
        c.value("SELECT @@regexp_time_limit, @@regexp_stack_limit"),
        "32|8000000"
    );
    assert_eq!(
        c.code("SELECT REGEXP_SUBSTR('%', LPAD(0.0, 20200101, 0.1))"),
        Some(3700)
    );
    assert_eq!(
        c.code("SELECT REGEXP_LIKE('a', '((a{1000}){1000}){1000}')"),
        Some(3698)
    );
    // effect: regexp_time_limit
    c.run("SET GLOBAL regexp_time_limit = 1");
    c.run("SET group_concat_max_len = 1000000");
    let long = "WITH RECURSIVE q AS (SELECT 1 n UNION ALL SELECT n + 1 FROM q WHERE n < 1000)
        SELECT REGEXP_LIKE(GROUP_CONCAT(MD5(n) SEPARATOR ''), '[0-7][0-9a-f]{300}x') FROM q";
    assert_eq!(c.code(long), Some(3699));
    c.run("SET GLOBAL regexp_time_limit = 0");
    c.run("SET max_execution_time = 1");
    assert_eq!(c.code(long), Some(3024));
    c.run("SET max_execution_time = 0");
    c.run("SET GLOBAL regexp_time_limit = DEFAULT");
    assert_eq!(
        c.value("SELECT 'Ж' REGEXP '[[:alpha:]]', REGEXP_REPLACE('ab', '(a)(b)', '$2$1')"),
        "1|ba"
    );
    assert_eq!(
        c.value("SELECT REGEXP_LIKE(REPEAT('ab', 100000), 'b{2}|(ab)+$')"),
        "1"
    );
    // effect: regexp_stack_limit
    c.run("SET GLOBAL regexp_stack_limit = 1000");
    assert_eq!(c.code("SELECT REGEXP_LIKE('a', '(a|b){900}')"), Some(3698));
}

#[test]
fn user_variables_are_bounded() {
    let (server, _dir) = server(&["--esker-memory-limit=64M"]);
    let mut c = server.connect();
    let filled = (0..60).find_map(|n| c.code(&format!("SET @v{n} = REPEAT('x', 8000000)")));
    assert_eq!(filled, Some(1041));
    // What is set anew takes its own place, and what is gone leaves it.
    c.run("SET @v0 = 'short', @v1 = 1");
    c.run("SET @w = REPEAT('x', 8000000)");
    assert_eq!(c.code("SELECT @x := REPEAT('x', 60000000)"), Some(1041));
    assert_eq!(c.value("SELECT LENGTH(@w), LENGTH(@v0)"), "8000000|5");
    let mut other = server.connect();
    assert_eq!(other.code("SET @v = REPEAT('x', 30000000)"), Some(1041));
    drop(c);
    eventually("room", || {
        other.code("SET @v = REPEAT('x', 8000000)").is_none()
    });
    // Values are never made larger than a packet may be.
    assert_eq!(other.value("SELECT REPEAT(@v, 9) IS NULL"), "1");
    assert!(other.lines("SHOW WARNINGS").concat().contains("1301"));
}
