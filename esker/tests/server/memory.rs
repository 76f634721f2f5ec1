//! Statements that ask for more memory than there is: an error for them, and nothing for anybody else.
//!
//! Neighbours: `spill` has operators that go to disk instead, `workers` user variables. Peaks are the system's
//! (VmHWM), so what no account of the server's knows is seen here.

use std::thread;

use esker_server::client::{Client, ClientError};

use crate::common::{Ask, Server, eventually};
use crate::hostile::Raw;

/// The least that a server may be given, MiB.
const LIMIT: &str = "--esker-memory-limit=64M";
/// Values beside all that is counted, the one that was refused last, and what the heap rounds up, KiB. Without a bound
/// each statement here takes several times as much.
const MOST_KIB: u64 = 256 * 1024;
const OUT_OF_MEMORY: u16 = 1041;

fn server(args: &[&str]) -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &[&["--skip-ssl", LIMIT], args].concat());
    server.connect().run(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT, s LONGTEXT);
         INSERT INTO d.t (v, s) VALUES (1, REPEAT('a', 3000000)), (2, REPEAT('b', 3000000))",
    );
    (server, dir)
}

fn status_kib(server: &Server, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("status");
    let line = status.lines().find(|l| l.starts_with(name));
    let number = line.and_then(|l| l.split_whitespace().nth(1));
    number.and_then(|n| n.parse().ok()).expect("a size")
}

/// KiB that the server grows by at most while `work` is done.
fn growth_kib(server: &Server, work: impl FnOnce()) -> u64 {
    std::fs::write(format!("/proc/{}/clear_refs", server.pid()), "5").expect("peaks are forgotten");
    let before = status_kib(server, "VmRSS:");
    work();
    status_kib(server, "VmHWM:").saturating_sub(before)
}

/// `item` so often that it takes `bytes`.
fn list(item: &str, bytes: usize) -> String {
    item.repeat(bytes / item.len())
}

#[test]
fn what_a_statement_works_on_is_bounded() {
    let (server, _dir) = server(&[]);
    let mut c = server.connect();
    let values = |n: usize| {
        let each = (0..n).map(|i| format!("REPEAT('{i}', 20000000)"));
        each.collect::<Vec<_>>().join(",")
    };
    let array = |item: &str, n: usize| format!("CONCAT('[', REPEAT('{item},', {n}), '1]')");
    let statements = [
        format!("SELECT {}", values(9)),
        format!("SELECT JSON_ARRAY({})", values(9)),
        format!("SELECT GREATEST({})", values(9)),
        format!("SELECT CAST({} AS JSON)", array("1", 20_000_000)),
        format!("SELECT JSON_LENGTH({})", array("[1]", 5_000_000)),
        format!("SELECT JSON_PRETTY({})", array("{\"a\":1}", 5_000_000)),
        format!("SELECT JSON_LENGTH({})", array("\"a\"", 10_000_000)),
    ];
    for sql in statements {
        let grown = growth_kib(&server, || {
            assert_eq!(c.code(&sql), Some(OUT_OF_MEMORY), "{sql}")
        });
        assert!(grown < MOST_KIB, "{grown} KiB for {sql}");
        assert_eq!(c.value("SELECT COUNT(*) FROM d.t"), "2");
    }
    // What they have taken is there again.
    let large = "SELECT LENGTH(REPEAT('a', 10000000))";
    eventually("there is memory", || c.code(large).is_none());
    assert_eq!(c.value("SELECT SUM(LENGTH(s)) FROM d.t"), "6000000");
}

#[test]
fn trees_of_long_texts_are_bounded() {
    const LONG: usize = 12 << 20;
    let (server, _dir) = server(&[]);
    let mut c = server.connect();
    let texts = [
        format!("SELECT 1 IN ({}1)", list("1,", LONG)),
        format!("SELECT {}1", list("1,", LONG)),
        format!("SELECT COUNT(*) FROM d.t WHERE 1{}", list(" AND v", LONG)),
        format!("INSERT INTO d.t (v) VALUES {}(1)", list("(1),", LONG)),
        format!("SELECT 1{}", list(" UNION SELECT 1", LONG)),
        format!("SELECT CASE 1{} END", list(" WHEN 2 THEN 3", LONG)),
        format!("SET @a = 1{}", list(", @a = 1", LONG)),
        format!("DROP TABLE IF EXISTS d.x{}", list(",d.x", LONG)),
    ];
    for text in texts {
        let grown = growth_kib(&server, || {
            assert_eq!(c.code(&text), Some(OUT_OF_MEMORY), "{}", &text[..60]);
        });
        assert!(grown < MOST_KIB, "{grown} KiB for {}", &text[..60]);
    }
    // A long text with a small tree is none of them.
    let text = format!("SELECT LENGTH('{}')", list("a", LONG / 4));
    eventually("there is memory", || c.code(&text).is_none());
    assert_eq!(c.value("SELECT COUNT(*) FROM d.t"), "2");
}

#[test]
fn parser_max_mem_size_bounds_a_tree() {
    let (server, _dir) = server(&["--esker-memory-limit=1G"]);
    let mut c = server.connect();
    let text = format!("SELECT 1 IN ({}1)", list("1,", 400_000));
    assert_eq!(c.value(&text), "1");
    // effect: parser_max_mem_size
    c.run("SET parser_max_mem_size = 10000000");
    match c.query(&text, &mut |_| ()) {
        Err(ClientError::Server(e)) => assert_eq!(
            (e.code, e.message.as_str()),
            (
                3170,
                "Memory capacity of 10000000 bytes for 'parser_max_mem_size' exceeded. \
                 Parser bailed out for this query."
            )
        ),
        other => panic!("{other:?}"),
    }
    assert_eq!(c.value("SELECT 1"), "1");
}

#[test]
fn many_sessions_at_once_are_bounded_together() {
    const SESSIONS: usize = 8;
    let (server, _dir) = server(&[]);
    let hostile = |mut c: Client, nth: usize| {
        c.run("SET max_execution_time = 60000");
        let values = (0..6).map(|i| format!("REPEAT('{i}', {})", 8_000_000 + nth));
        let sql = format!("SELECT {}", values.collect::<Vec<_>>().join(","));
        let results = (0..4).map(|_| c.code(&sql));
        assert!(results.flatten().all(|code| code == OUT_OF_MEMORY));
    };
    let grown = growth_kib(&server, || {
        let threads = (0..SESSIONS).map(|nth| {
            let c = server.connect();
            std::thread::spawn(move || hostile(c, nth))
        });
        let threads: Vec<_> = threads.collect();
        for thread in threads {
            thread.join().expect("no other error");
        }
    });
    // Unbounded it is as much as eight times six values and their packets: 768 MB.
    assert!(grown < MOST_KIB + 128 * 1024, "{grown} KiB");
    assert_eq!(server.connect().value("SELECT COUNT(*) FROM d.t"), "2");
}

#[test]
fn a_server_whose_addresses_run_out_refuses_and_lives() {
    const SESSIONS: usize = 24;
    let dir = tempfile::tempdir().expect("folder");
    let mut server = Server::start(dir.path(), &["--skip-ssl", "--esker-memory-limit=8G"]);
    let most_kib = status_kib(&server, "VmSize:") + 900 * 1024;
    server.stop();
    server.restart_within(most_kib);
    let mut other = server.connect();
    other.run("CREATE DATABASE d; CREATE TABLE d.t (s LONGBLOB)");
    let long = "a".repeat(15_000_000);
    let statements = [
        "SET @v = REPEAT('a', 60000000)".to_owned(),
        format!("SET @w = '{long}'"),
        "SELECT LENGTH(CONCAT(REPEAT('a', 30000000), SPACE(20000000), LPAD('b', 10000000, 'c')))"
            .to_owned(),
        "SELECT LENGTH(HEX(REPEAT('a', 30000000))), LENGTH(TO_BASE64(REPEAT('a', 30000000)))"
            .to_owned(),
        "SELECT LENGTH(REPLACE(REPEAT('a', 20000000), 'a', 'bcd'))".to_owned(),
        format!("INSERT INTO d.t VALUES ('{long}')"),
    ];
    // A server that has no addresses left has none for their threads either.
    let clients: Vec<_> = (0..SESSIONS).map(|_| server.connect()).collect();
    let refused: usize = thread::scope(|scope| {
        let clients = clients.into_iter().enumerate().map(|(nth, mut c)| {
            let (server, statements) = (&server, &statements);
            scope.spawn(move || {
                let mut refused = 0;
                for turn in 0..statements.len() {
                    let sql = &statements[(nth + turn) % statements.len()];
                    match c.query(sql, &mut |_| ()) {
                        Ok(_) => (),
                        Err(ClientError::Server(e)) => {
                            assert_eq!(e.code, OUT_OF_MEMORY, "{e:?} for {}", &sql[..20]);
                            refused += 1;
                        }
                        // A packet that was refused has ended the connection, and so may what had no thread.
                        Err(_) => {
                            refused += 1;
                            match server.try_connect() {
                                Ok(again) => c = again,
                                Err(_) => break,
                            }
                        }
                    }
                }
                refused
            })
        });
        let clients: Vec<_> = clients.collect();
        clients
            .into_iter()
            .map(|c| c.join().expect("no other error"))
            .sum()
    });
    assert!(refused > 0, "there was enough");
    assert_eq!(other.value("SELECT 1 + 1"), "2");
    eventually("there is memory again", || {
        other.code("SELECT LENGTH(REPEAT('a', 60000000))").is_none()
    });
}

#[test]
fn unfinished_packets_are_bounded() {
    const CLIENTS: usize = 30;
    const MOST: usize = 0xff_fffe;
    let (server, _dir) = server(&[]);
    // A tree or value of as much is another matter.
    let whole = format!("/* {} */ DO 1", "a".repeat(MOST - 100));
    let answers_whole = || server.connect().code(&whole).is_none();
    assert!(answers_whole(), "one client may send as much");
    // All but the last MiB of a packet, whose header says how long it will be.
    let header = [0xfe, 0xff, 0xff, 0, 3];
    let most = [&header[..], &vec![b' '; MOST - (1 << 20)]].concat();
    let mut held = Vec::new();
    let grown = growth_kib(&server, || {
        for _ in 0..CLIENTS {
            let mut raw = Raw::root(&server);
            raw.send(&most);
            held.push(raw);
        }
        // One that only says so takes nothing.
        let mut raw = Raw::root(&server);
        raw.send(&header);
        held.push(raw);
        let mut c = server.connect();
        assert_eq!(c.value("SELECT LENGTH(REPEAT('a', 3000000))"), "3000000");
        // Those that were refused are gone.
        eventually("few have 15 MiB", || {
            let open = c.value("SELECT COUNT(*) FROM information_schema.PROCESSLIST");
            (3..=5).contains(&open.parse().expect("a number"))
        });
    });
    assert!(grown < MOST_KIB / 2, "{grown} KiB");
    drop(held);
    eventually("what they had is there again", answers_whole);
}

#[test]
fn long_data_are_bounded_for_all_clients() {
    const PART: usize = 6_000_000;
    let (server, _dir) = server(&[]);
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let mut raw = Raw::root(&server);
            let id = raw.prepare("DO LENGTH(?)");
            raw.long_data(id, 0, &vec![b'a'; PART]);
            raw.command(&[0x0e]);
            assert_eq!(raw.end(), 0, "the long data has come");
            (raw, id)
        })
        .collect();
    let codes = clients
        .into_iter()
        .map(|(mut raw, id)| raw.execute(id, b"\0\x01\xfc\0"));
    let codes: Vec<_> = codes.collect();
    assert_eq!(codes[0], 0, "{codes:?}");
    assert!(codes.contains(&OUT_OF_MEMORY), "{codes:?}");
}

#[test]
fn prepared_statements_are_bounded() {
    let (server, _dir) = server(&[]);
    let mut c = server.connect();
    c.run(&format!("SET @q = 'SELECT {}1'", "1+".repeat(150)));
    let prepare = |c: &mut Client, n: usize| c.code(&format!("PREPARE s{n} FROM @q"));
    let (refused, code) = (0..10_000)
        .find_map(|n| prepare(&mut c, n).map(|code| (n, code)))
        .expect("there is no memory for all of them");
    assert_eq!(code, OUT_OF_MEMORY);
    // Nor for those of another session, until some are gone.
    let mut other = server.connect();
    other.run(&format!("SET @q = 'SELECT {}1'", "1+".repeat(150)));
    assert!((0..100).any(|n| prepare(&mut other, n) == Some(OUT_OF_MEMORY)));
    for n in 0..refused / 2 {
        c.run(&format!("DEALLOCATE PREPARE s{n}"));
    }
    assert_eq!(prepare(&mut c, refused), None);
    drop(c);
    eventually("their memory is there again", || {
        prepare(&mut other, 0).is_none()
    });
    assert_eq!(other.value("SELECT COUNT(*) FROM d.t"), "2");
}

#[test]
fn rows_of_cursors_are_bounded() {
    let (server, _dir) = server(&[]);
    let mut raw = Raw::root(&server);
    let mut opened = 0;
    let refused = (0..100).find_map(|_| match raw.open_cursor("SELECT s FROM d.t") {
        0 => {
            opened += 1;
            None
        }
        code => Some(code),
    });
    assert_eq!(refused, Some(OUT_OF_MEMORY));
    assert!(opened > 0, "6 MB are there for one");
    drop(raw);
    let mut raw = Raw::root(&server);
    eventually("their memory is there again", || {
        raw.open_cursor("SELECT s FROM d.t") == 0
    });
    assert_eq!(server.connect().value("SELECT COUNT(*) FROM d.t"), "2");
}

#[test]
fn savepoints_are_bounded() {
    let (server, _dir) = server(&[]);
    let mut c = server.connect();
    c.run("BEGIN");
    let refused = (0..100).find_map(|part| {
        let names = (0..1000).map(|n| format!("SAVEPOINT s{}", part * 1000 + n));
        c.code(&names.collect::<Vec<_>>().join("; "))
    });
    assert_eq!(refused, Some(OUT_OF_MEMORY));
    c.run("SAVEPOINT s1; RELEASE SAVEPOINT s2; SAVEPOINT another; ROLLBACK");
    assert_eq!(c.value("SELECT COUNT(*) FROM d.t"), "2");
}

#[test]
fn rows_that_will_be_changed_go_to_disk() {
    const ROWS: u64 = 140_000;
    let (server, _dir) = server(&[]);
    let mut c = server.connect();
    c.run(
        "CREATE TABLE d.n (id INT PRIMARY KEY, v INT, s VARCHAR(200)); \
         SET cte_max_recursion_depth = 100000, max_execution_time = 0",
    );
    for part in 0..ROWS / 20_000 {
        c.run(&format!(
            "INSERT INTO d.n WITH RECURSIVE q AS (SELECT 1 n UNION ALL SELECT n+1 FROM q WHERE n<20000) \
             SELECT n + {part} * 20000, 1, REPEAT('a', 150) FROM q"
        ));
    }
    let mut tell = || c.value("SELECT CONCAT_WS(' ', COUNT(*), SUM(v), MIN(id), MAX(id)) FROM d.n");
    assert_eq!(tell(), format!("{ROWS} {ROWS} 1 {ROWS}"));
    let mut c = server.connect();
    c.run("UPDATE d.n SET v = v + 1");
    assert_eq!(tell(), format!("{ROWS} {} 1 {ROWS}", 2 * ROWS));
    c.run("DELETE FROM d.n WHERE v = 2 AND id > 10");
    assert_eq!(tell(), "10 20 1 10");
}

#[test]
fn a_delete_keeps_the_keys_alone_of_large_rows() {
    let (server, _dir) = server(&[]);
    let mut c = server.connect();
    c.run(
        "CREATE TABLE d.large (id INT PRIMARY KEY, s LONGTEXT, k INT, KEY (k)); \
         CREATE TABLE d.gone (id INT)",
    );
    for id in 1..=120 {
        c.run(&format!(
            "INSERT INTO d.large VALUES ({id}, REPEAT('abcdefgh', 40000), {id} % 7)"
        ));
    }
    let on_disk = "SELECT VARIABLE_VALUE FROM performance_schema.session_status \
                   WHERE VARIABLE_NAME = 'Created_tmp_disk_tables'";
    let before = c.value(on_disk);
    c.run("DELETE FROM d.large WHERE k <> 3 ORDER BY k LIMIT 100");
    c.run(
        "CREATE TRIGGER d.g AFTER DELETE ON d.large FOR EACH ROW INSERT INTO d.gone VALUES (OLD.id)",
    );
    c.run("DELETE FROM d.large WHERE id BETWEEN 10 AND 100");
    assert_eq!(c.value(on_disk), before);
    let left = c.lines("SELECT COUNT(*) FROM d.large UNION ALL SELECT COUNT(*) FROM d.gone");
    let sum: u32 = left
        .iter()
        .map(|n| n.parse::<u32>().expect("a number"))
        .sum();
    assert_eq!(
        (
            sum,
            c.value("SELECT COUNT(*) FROM d.large FORCE INDEX (k) WHERE k >= 0")
        ),
        (20, left[0].clone())
    );
}

/// Rows of an INSERT whose keys come in no order: `count` from the `from`th on.
fn scattered_rows(from: u64, count: u64) -> String {
    let rows = (from..from + count).map(|n| format!("({}, {n})", scattered(n)));
    format!(
        "INSERT INTO d.n VALUES {}",
        rows.collect::<Vec<_>>().join(",")
    )
}

/// An even number below 800,000, another one for each `n` below 400,000.
fn scattered(n: u64) -> u64 {
    2 * (n * 7919 % 400_000)
}

const NOT_NOW: Option<u16> = Some(3572);

fn lock_now(c: &mut Client, id: u64) -> Option<u16> {
    c.code(&format!(
        "SELECT id FROM d.n WHERE id = {id} FOR UPDATE NOWAIT"
    ))
}

#[test]
fn row_locks_of_a_large_transaction_grow_coarser() {
    const EACH: u64 = 10_000;
    const STATEMENTS: u64 = 20;
    const BETWEEN: u64 = 400_001;
    let (server, _dir) = server(&[]);
    let (mut c, mut other, mut third) = (server.connect(), server.connect(), server.connect());
    c.run("CREATE TABLE d.n (id INT PRIMARY KEY, v INT)");
    other.run(&format!("BEGIN; INSERT INTO d.n VALUES ({BETWEEN}, 0)"));
    c.run("BEGIN; SAVEPOINT s");
    for nth in 0..STATEMENTS {
        c.run(&scattered_rows(nth * EACH, EACH));
    }
    let ranges = "SELECT COUNT(*) BETWEEN 10 AND 256 FROM performance_schema.data_locks \
                  WHERE OBJECT_NAME = 'n' AND LOCK_MODE = 'X'";
    assert_eq!(third.value(ranges), "1");
    let bytes = "SELECT PEAK_BYTES < 10000000 FROM information_schema.ESKER_MEMORY \
                 WHERE AREA = 'row locks'";
    assert_eq!(third.value(bytes), "1");
    // What another has changed is no part of them, what lies between the rows may be, and other keys are not.
    other.run(&format!("UPDATE d.n SET v = 2 WHERE id = {BETWEEN}"));
    assert_eq!(lock_now(&mut c, BETWEEN), NOT_NOW);
    for n in [0, 1, EACH, STATEMENTS * EACH - 1] {
        assert_eq!(lock_now(&mut third, scattered(n)), NOT_NOW, "{n}");
    }
    third.run("INSERT INTO d.n VALUES (900000, 0)");
    c.run("ROLLBACK TO s");
    c.run(&scattered_rows(0, 1));
    other.run("COMMIT");
    c.run("COMMIT");
    assert_eq!(
        third.value("SELECT GROUP_CONCAT(v ORDER BY id) FROM d.n"),
        "0,2,0"
    );
    assert_eq!(lock_now(&mut third, scattered(5)), None);
}

#[test]
fn coarse_locks_of_a_branch_are_there_again_after_a_crash() {
    const ROWS: u64 = 60_000;
    let (mut server, _dir) = server(&[]);
    let mut c = server.connect();
    c.run("CREATE TABLE d.n (id INT PRIMARY KEY, v INT); XA START 'x'");
    for nth in 0..6 {
        c.run(&scattered_rows(nth * ROWS / 6, ROWS / 6));
    }
    c.run("XA END 'x'; XA PREPARE 'x'");
    server.kill();
    server.restart();
    let mut c = server.connect();
    for n in (0..ROWS).step_by(1000) {
        assert_eq!(lock_now(&mut c, scattered(n)), NOT_NOW, "{n}");
    }
    assert_eq!(lock_now(&mut c, 900_000), None);
    c.run("XA COMMIT 'x'");
    let told = c.value("SELECT CONCAT(COUNT(*), ' ', SUM(v)) FROM d.n");
    assert_eq!(told, format!("{ROWS} {}", ROWS * (ROWS - 1) / 2));
    assert_eq!(lock_now(&mut c, scattered(7)), None);
}

#[test]
fn what_aggregates_and_windows_keep_is_bounded() {
    let (server, _dir) = server(&[]);
    let mut c = server.connect();
    c.run(
        "CREATE TABLE d.many (id INT PRIMARY KEY); INSERT INTO d.many WITH RECURSIVE q AS \
         (SELECT 1 n UNION ALL SELECT n+1 FROM q WHERE n<900) SELECT n FROM q; \
         SET group_concat_max_len = 60000000, max_execution_time = 60000",
    );
    let statements = [
        "SELECT COUNT(x) FROM (SELECT a.id, GROUP_CONCAT(REPEAT('x', 100000)) x FROM d.many a \
         JOIN d.many b ON b.id<=20 GROUP BY a.id) y",
        "SELECT COUNT(x) FROM (SELECT a.id, JSON_ARRAYAGG(REPEAT('x', 100000)) x FROM d.many a \
         JOIN d.many b ON b.id<=20 GROUP BY a.id) y",
        "SELECT JSON_LENGTH(JSON_OBJECTAGG(CONCAT(a.id, '-', b.id), REPEAT('x', 100000))) FROM d.many a \
         JOIN d.many b ON b.id<=20",
        "SELECT COUNT(x) FROM (SELECT id, MAX(REPEAT('x', 500000 + id)) x FROM d.many GROUP BY id) y",
        "SELECT COUNT(x) FROM (SELECT JSON_ARRAYAGG(REPEAT('x', 1000)) OVER (ORDER BY id) x FROM d.many) y",
        "SELECT COUNT(x) FROM (SELECT FIRST_VALUE(REPEAT('x', 500000)) OVER (ORDER BY id) x FROM d.many) y",
    ];
    for sql in statements {
        let grown = growth_kib(&server, || {
            assert_eq!(c.code(sql), Some(OUT_OF_MEMORY), "{sql}")
        });
        assert!(grown < MOST_KIB, "{grown} KiB for {sql}");
    }
    assert_eq!(c.value("SELECT SUM(LENGTH(s)) FROM d.t"), "6000000");
}
