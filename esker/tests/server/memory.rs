//! Statements that ask for more memory than there is: an error for them, and nothing for anybody else.
//!
//! Neighbours: `spill` has operators that go to disk instead, `workers` user variables. Peaks are the system's
//! (VmHWM), so what no account of the server's knows is seen here.

use esker_server::client::{Client, ClientError};

use crate::common::{Ask, Server, eventually};

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
