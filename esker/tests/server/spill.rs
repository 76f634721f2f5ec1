//! Transactions whose writes do not fit in memory: their memory is bounded, they can be rolled back in part and as a
//! whole, and the server is killed at random moments of their life: all of their rows are there, or none.
//!
//! Settings of the environment: `ESKER_SPILL_ROUNDS` (default 12): how often the server is killed; `ESKER_SPILL_SEED`.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Ask, Server, setting};
use esker_server::client::Client;

/// Rows of a batch: about 15 MB with its index.
const ROWS: u64 = 100_000;
/// Writes beyond this go to extents.
const MEMORY: &str = "--esker-transaction-memory=1048576";

fn server(args: &[&str]) -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let mut all = vec![MEMORY];
    all.extend(args);
    let server = Server::start(dir.path(), &all);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; USE d; CREATE TABLE src (id INT PRIMARY KEY); INSERT INTO src VALUES (0)");
    let mut rows = 1;
    while rows < ROWS {
        let more = rows.min(ROWS - rows);
        c.run(&format!(
            "INSERT INTO d.src SELECT id + {rows} FROM d.src WHERE id < {more}"
        ));
        rows += more;
    }
    c.run(
        "CREATE TABLE d.big (batch INT, id INT, version INT NOT NULL, k INT NOT NULL, s VARCHAR(90), \
         PRIMARY KEY (batch, id), KEY k (k))",
    );
    (server, dir)
}

fn insert(batch: u64) -> String {
    format!(
        "INSERT INTO d.big SELECT {batch}, id, 1, (id * 7919) % 100003, REPEAT('x', id % 90) FROM d.src"
    )
}

fn status(c: &mut Client, name: &str) -> u64 {
    let mut row = c.rows(&format!("SHOW GLOBAL STATUS LIKE '{name}'"));
    let value = row.remove(0).remove(1).expect("a value");
    value.parse().expect("a number")
}

fn memory(c: &mut Client, area: &str) -> u64 {
    let sql = format!("SELECT BYTES FROM information_schema.ESKER_MEMORY WHERE AREA = '{area}'");
    c.value(&sql).parse().expect("a number")
}

#[test]
fn the_memory_of_a_large_transaction_is_bounded() {
    let (mut server, dir) = server(&["--secure-file-priv="]);
    let mut c = server.connect();
    let mut other = server.connect();
    let logged = status(&mut c, "Esker_log_bytes");
    c.run(&format!("BEGIN; {}", insert(1)));
    assert!(memory(&mut other, "transactions") < 4 << 20);
    assert_eq!(other.value("SELECT COUNT(*) FROM d.big"), "0");
    let count = "SELECT COUNT(*), SUM(k) FROM d.big FORCE INDEX (k)";
    let full = c.value(count);
    assert!(full.starts_with("100000|"), "{full}");
    // A part of it is undone: a statement that fails at its end, and a savepoint.
    let duplicate = "INSERT INTO d.big SELECT 2 - (id = 99999), id, 1, 1, '' FROM d.src";
    assert_eq!(c.code(duplicate), Some(1062));
    assert_eq!(c.value(count), full);
    c.run("SAVEPOINT a; UPDATE d.big SET k = k + 1, s = ''; DELETE FROM d.big WHERE id % 2 = 0");
    assert_eq!(c.value("SELECT COUNT(*) FROM d.big"), "50000");
    c.run("ROLLBACK TO a");
    assert_eq!(c.value(count), full);
    assert_eq!(c.value("SELECT COUNT(*) FROM d.big WHERE s = ''"), "1112");
    c.run("ROLLBACK");
    assert_eq!(c.value(count), "0|NULL");
    let ingests = status(&mut c, "Esker_ingested_transactions");
    c.run(&format!("BEGIN; {}; COMMIT", insert(1)));
    assert_eq!(other.value(count), full);
    assert_eq!(status(&mut c, "Esker_ingested_transactions"), ingests + 1);
    // LOAD DATA, and what it reads into.
    let file = dir.path().join("rows");
    let lines = (0..ROWS).map(|id| format!("2\t{id}\t1\t{}\t{}\n", id % 77, "y".repeat(50)));
    fs::write(&file, lines.collect::<String>()).expect("file");
    let load = format!("LOAD DATA INFILE '{}' INTO TABLE d.big", file.display());
    c.run(&load);
    assert_eq!(status(&mut c, "Esker_ingested_transactions"), ingests + 2);
    assert_eq!(c.code(&load), Some(1062));
    assert_eq!(
        other.value("SELECT COUNT(*) FROM d.big WHERE batch = 2"),
        "100000"
    );
    let logged = status(&mut c, "Esker_log_bytes") - logged;
    assert!(logged < 1 << 20, "{logged} bytes were logged");
    // What will be prepared stays in memory.
    c.run("XA START 'x'; UPDATE d.big SET k = k + 1 WHERE batch = 1 AND id < 20000; XA END 'x'; XA PREPARE 'x'");
    server.kill();
    server.restart();
    let mut c = server.connect();
    c.run("XA COMMIT 'x'");
    assert_eq!(c.value("SELECT COUNT(*) FROM d.big"), "200000");
    c.run("DELETE FROM d.big");
    assert_eq!(c.value(count), "0|NULL");
    assert_eq!(c.lines("CHECK TABLE d.big")[0], "d.big|check|status|OK");
}

/// The batches and their versions.
type Batches = BTreeMap<u64, u64>;

/// The batches as both indexes have them: every one whole, and of one version.
fn batches(c: &mut Client) -> Batches {
    let by = |c: &mut Client, index: &str| -> Batches {
        let sql = format!(
            "SELECT batch, COUNT(*), MIN(version), MAX(version), SUM(k - version) \
             FROM d.big FORCE INDEX ({index}) WHERE batch > 0 GROUP BY batch"
        );
        let sum: u64 = (0..ROWS).map(|id| (id * 7919) % 100_003).sum();
        let rows = c.lines(&sql);
        let parse = |row: &String| {
            let cells: Vec<u64> = row.split('|').map(|c| c.parse().expect("number")).collect();
            assert_eq!(cells[1], ROWS, "{row}");
            assert_eq!(cells[2], cells[3], "{row}");
            assert_eq!(cells[4], sum - ROWS, "{row}");
            (cells[0], cells[2])
        };
        rows.iter().map(parse).collect()
    };
    let found = by(c, "PRIMARY");
    assert_eq!(by(c, "k"), found);
    found
}

/// A change of a whole batch, and what is there after it.
fn next_change(dice: &mut u64, before: &Batches) -> (String, Batches) {
    let mut roll = |below: u64| {
        *dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*dice >> 33) % below
    };
    let mut after = before.clone();
    let batch = 1 + roll(3);
    let sql = match after.get_mut(&batch) {
        None => {
            after.insert(batch, 1);
            insert(batch)
        }
        Some(version) if roll(3) > 0 => {
            *version += 1;
            format!("UPDATE d.big SET version = version + 1, k = k + 1 WHERE batch = {batch}")
        }
        Some(_) => {
            after.remove(&batch);
            format!("DELETE FROM d.big WHERE batch = {batch}")
        }
    };
    (sql, after)
}

/// Large transactions and small ones go on in the same table until the server is killed.
#[test]
fn a_killed_transaction_is_whole_or_gone() {
    let (mut server, _dir) = server(&["--esker-memtable-size=1048576"]);
    let mut dice = setting("ESKER_SPILL_SEED", 1);
    let mut known = Batches::new();
    let mut longest = Duration::from_secs(2);
    // Rows of batch 0, one by one.
    let small = AtomicU64::new(0);
    let acknowledged = AtomicU64::new(0);
    let rounds = setting("ESKER_SPILL_ROUNDS", 12);
    for round in 1..=rounds {
        let mut doubtful = None;
        let over = AtomicBool::new(false);
        let writer = server.connect();
        let mut c = server.connect();
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let life = Duration::from_millis((dice >> 33) % (2 * longest.as_millis() as u64 + 1));
        std::thread::scope(|scope| {
            scope.spawn(|| insert_one_by_one(writer, &small, &over));
            scope.spawn(|| {
                std::thread::sleep(life);
                // The last server lives until something was done, however slow the machine is.
                let is_last = round == rounds;
                while is_last
                    && acknowledged.load(Ordering::Relaxed) == 0
                    && !over.load(Ordering::Relaxed)
                {
                    std::thread::sleep(Duration::from_millis(10));
                }
                server.kill_from_outside();
            });
            loop {
                let (sql, after) = next_change(&mut dice, &known);
                let begun = Instant::now();
                doubtful = Some(after);
                if c.query(&sql, &mut |_| ()).is_err() {
                    break;
                }
                known = doubtful.take().expect("set above");
                longest = longest.max(begun.elapsed()).min(Duration::from_secs(20));
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            over.store(true, Ordering::Relaxed);
        });
        server.kill();
        server.restart();
        let mut c = server.connect();
        let found = batches(&mut c);
        assert!(
            found == known || Some(&found) == doubtful.as_ref(),
            "round {round}: {found:?}, before {known:?}, then {doubtful:?}"
        );
        known = found;
        let rows: u64 = c
            .value("SELECT COUNT(*) FROM d.big WHERE batch = 0")
            .parse()
            .expect("number");
        let told = small.load(Ordering::Relaxed);
        assert!((told..=told + 1).contains(&rows), "{rows} of {told}");
        small.store(rows, Ordering::Relaxed);
    }
    assert!(acknowledged.into_inner() > 0 && small.load(Ordering::Relaxed) > 0);
    assert_eq!(
        server.connect().lines("CHECK TABLE d.big")[0],
        "d.big|check|status|OK"
    );
}

/// Rows of batch 0, until the server is gone; `count` are acknowledged.
fn insert_one_by_one(mut c: Client, count: &AtomicU64, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let id = count.load(Ordering::Relaxed);
        let sql = format!("INSERT INTO d.big VALUES (0, {id}, 0, {id}, NULL)");
        if c.query(&sql, &mut |_| ()).is_err() {
            return;
        }
        count.store(id + 1, Ordering::Relaxed);
    }
}
