//! kill -9 at random moments under a mixed load, also while the server recovers, again and again: everything that was
//! acknowledged is there, nothing else is, and every way to recover finds the same.
//!
//! The load: transactions over several tables with secondary indexes, values of more than a megabyte, XA transactions
//! that are decided at once, later or after the crash, identifiers used again, AUTO_INCREMENT, and meanwhile clients
//! that change tables ([`shapes`]) or rows that refer to each other ([`families`]). Each client writes rows that nobody
//! else writes, so it knows what they must be: what was acknowledged, and the one statement without an answer whole or
//! not at all.
//!
//! Settings of the environment: `ESKER_MIX_ROUNDS` (default 4) lives, each with up to `ESKER_MIX_NESTED` (default 3)
//! kills during the recovery behind it; `ESKER_MIX_WAYS_EVERY` (default 4): after so many rounds a copy of the
//! directory is recovered in every way; `ESKER_MIX_SEED` (default 1); `ESKER_MIX_LIFE` (default 1400): milliseconds of
//! the longest life; `ESKER_MIX_REST_EVERY` (default 0: never): after so many rounds one in which the load stops and
//! the server is killed about when trees at rest are moved down. A long run by hand:
//!
//! ```text
//! ESKER_MIX_ROUNDS=100 ESKER_MIX_NESTED=10 ESKER_MIX_REST_EVERY=20 ESKER_MIX_SEED=7 cargo test -p esker --test server crash_mix::
//! ```

mod families;
mod shapes;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use esker_server::client::{Client, ClientError};

use crate::common::{Ask, Dice, Server, eventually, setting};
use families::Families;
use shapes::{LoadFiles, Shapes};

const CLIENTS: u64 = 5;
/// Rows of each client in each of its tables.
const KEYS: u64 = 30;
/// XIDs of each client.
const XIDS: u64 = 3;
/// 32 bytes each: up to 1.6 MB.
const BIG_REPEATS: u64 = 50_000;

/// Small, so that flushes, compactions, and log recycling happen all the time.
const SETTINGS: [&str; 7] = [
    "--skip-ssl",
    // Whatever is counted is counted twice: from metadata and by reading.
    "--esker-verify-metadata-answers=ON",
    "--esker-parallel-scan-rows=0",
    "--esker-memtable-size=1M",
    "--esker-log-segment-size=2M",
    "--esker-log-buffer-size=1M",
    "--esker-log-live-size=16M",
];
/// A tree is at rest 10 s after its last flush.
const REST: Duration = Duration::from_secs(9);
const REST_SPREAD_MILLIS: u64 = 6000;

const MEMORY: &str = "--esker-memory-limit=256M";

/// Settings that a restart may be given: mode, threads, memory, and those that change files of the log.
const RESTARTS: [&[&str]; 6] = [
    &[MEMORY, "--esker-recovery-threads=4"],
    &["--esker-memory-limit=64M"],
    &[MEMORY, "--esker-recovery-mode=SERIAL-SYNC"],
    &[MEMORY, "--esker-recovery-mode=SERIAL-ASYNC"],
    &[MEMORY, "--esker-log-segment-size=4M"],
    &[
        MEMORY,
        "--esker-log-buffer=B",
        "--esker-recovery-threads=1",
        "--esker-memtable-size=4M",
    ],
];

const SCHEMA: &str = "
    CREATE DATABASE mix; USE mix;
    CREATE TABLE t (id BIGINT PRIMARY KEY, v INT NOT NULL, s VARCHAR(60) NOT NULL, KEY v (v), UNIQUE KEY vs (v, id));
    CREATE TABLE big (id BIGINT PRIMARY KEY, v INT NOT NULL, times INT NOT NULL, b LONGTEXT NOT NULL, KEY v (v));
    CREATE TABLE done (id BIGINT PRIMARY KEY, client INT NOT NULL, KEY client (client));
    CREATE TABLE auto (id BIGINT AUTO_INCREMENT PRIMARY KEY, client INT NOT NULL, KEY client (client));
    CREATE DATABASE ddl; CREATE DATABASE seen";

/// Rows by table and key: `None` is a row that is not there.
type Rows = BTreeMap<(&'static str, u64), Option<String>>;

/// A transaction: its number is a row of `done`.
#[derive(Clone, Debug)]
struct Work {
    number: u64,
    rows: Rows,
}

/// A statement that was sent and not answered.
#[derive(Debug)]
enum Unanswered {
    Commit(Work),
    Prepare(String, Work),
    /// The decision about what was prepared.
    Decide(String, Work, bool),
}

/// What clients work on.
struct Load<'a> {
    server: &'a Server,
    stops: AtomicBool,
}

impl Load<'_> {
    fn goes_on(&self) -> bool {
        !self.stops.load(Ordering::Relaxed)
    }
}

/// What one client knows.
#[derive(Default)]
struct Memory {
    rows: Rows,
    done: BTreeSet<u64>,
    /// Prepared and not decided.
    waiting: BTreeMap<String, Work>,
    unanswered: Option<Unanswered>,
    next: u64,
}

/// What all clients know together.
#[derive(Default)]
struct Journal {
    /// AUTO_INCREMENT numbers that were shown to somebody.
    given: Mutex<HashSet<u64>>,
}

/// The server is gone.
struct Gone;

/// Runs a statement; the answer is the server's error, if it has one.
fn ask(c: &mut Client, sql: &str) -> Result<Option<(u16, String)>, Gone> {
    match c.query(sql, &mut |_| ()) {
        Ok(()) => Ok(None),
        Err(ClientError::Server(e)) if e.code != 1053 => Ok(Some((e.code, e.message))),
        Err(_) => Err(Gone),
    }
}

/// Runs a statement; the answer is whether the server has done it.
fn run(c: &mut Client, sql: &str) -> Result<bool, Gone> {
    Ok(ask(c, sql)?.is_none())
}

impl Memory {
    fn key(client: u64, dice: &mut Dice) -> u64 {
        client * 1_000_000 + dice.roll(KEYS)
    }

    /// Transactions until the server is gone or the load stops.
    fn live(&mut self, load: &Load<'_>, client: u64, journal: &Journal, dice: &mut Dice) {
        let Ok(mut c) = load.server.try_connect() else {
            return;
        };
        while load.goes_on() && self.step(&mut c, client, journal, dice).is_ok() {}
    }

    fn step(
        &mut self,
        c: &mut Client,
        client: u64,
        journal: &Journal,
        dice: &mut Dice,
    ) -> Result<(), Gone> {
        if !self.waiting.is_empty() && dice.roll(4) == 0 {
            let at = dice.roll(self.waiting.len() as u64) as usize;
            let xid = self.waiting.keys().nth(at).cloned().expect("one of them");
            return self.decide(c, &xid, dice.roll(3) > 0);
        }
        let mut names = (0..XIDS).map(|n| format!("{client}-{n}"));
        let free = names.find(|xid| !self.waiting.contains_key(xid));
        let xid = free.filter(|_| dice.roll(3) == 0);
        let work = self.compose(client, dice);
        let begin = match &xid {
            Some(xid) => format!("XA START '{xid}'"),
            None => "BEGIN".to_owned(),
        };
        let mut well = run(c, &begin)?;
        for sql in statements(&work, client) {
            well = well && run(c, &sql)?;
        }
        if well && dice.roll(2) == 0 {
            well = run(
                c,
                &format!("INSERT INTO mix.auto (client) VALUES ({client}), ({client})"),
            )?;
            if well {
                draw(c, journal)?;
            }
        }
        let Some(xid) = xid else {
            return self.commit(c, work, well && dice.roll(10) > 0);
        };
        well = run(c, &format!("XA END '{xid}'"))? && well;
        if !well || dice.roll(10) == 0 {
            let undone = run(c, &format!("XA ROLLBACK '{xid}'"))?;
            assert!(undone, "a branch can be rolled back");
            return Ok(());
        }
        self.unanswered = Some(Unanswered::Prepare(xid.clone(), work.clone()));
        let prepared = run(c, &format!("XA PREPARE '{xid}'"))?;
        self.unanswered = None;
        assert!(prepared, "{xid} is free");
        self.waiting.insert(xid.clone(), work);
        match dice.roll(3) {
            // Somebody decides later; a session that holds a prepared branch is free again.
            0 => Ok(()),
            n => self.decide(c, &xid, n == 1),
        }
    }

    fn commit(&mut self, c: &mut Client, work: Work, wanted: bool) -> Result<(), Gone> {
        if !wanted {
            return run(c, "ROLLBACK").map(|_| ());
        }
        self.unanswered = Some(Unanswered::Commit(work.clone()));
        let committed = run(c, "COMMIT")?;
        self.unanswered = None;
        assert!(committed, "a commit is not refused");
        self.apply(work);
        Ok(())
    }

    fn decide(&mut self, c: &mut Client, xid: &str, commits: bool) -> Result<(), Gone> {
        let work = self.waiting.remove(xid).expect("it waits");
        self.unanswered = Some(Unanswered::Decide(xid.to_owned(), work.clone(), commits));
        let verb = if commits { "COMMIT" } else { "ROLLBACK" };
        let decided = run(c, &format!("XA {verb} '{xid}'"))?;
        self.unanswered = None;
        assert!(decided, "{xid} can be decided");
        if commits {
            self.apply(work);
        }
        Ok(())
    }

    fn apply(&mut self, work: Work) {
        self.rows.extend(work.rows);
        self.done.insert(work.number);
    }

    /// A transaction on rows that no prepared one has locked.
    fn compose(&mut self, client: u64, dice: &mut Dice) -> Work {
        let locked: BTreeSet<_> = self.waiting.values().flat_map(|w| w.rows.keys()).collect();
        let mut rows = Rows::new();
        for _ in 0..1 + dice.roll(6) {
            let table = if dice.roll(8) == 0 { "big" } else { "t" };
            let place = (table, Self::key(client, dice));
            if locked.contains(&place) {
                continue;
            }
            let value = dice.roll(1_000_000);
            let row = (dice.roll(5) > 0).then(|| match table {
                "big" => format!("{value}|{}", 1 + dice.roll(BIG_REPEATS)),
                _ => format!("{value}|s{value}"),
            });
            rows.insert(place, row);
        }
        self.next += 1;
        Work {
            number: client * 1_000_000 + self.next,
            rows,
        }
    }

    /// After a crash: what became of the statement without an answer, by what is found.
    fn settle(&mut self, done: &BTreeSet<u64>, prepared: &BTreeSet<String>) {
        match self.unanswered.take() {
            Some(Unanswered::Commit(work)) if done.contains(&work.number) => self.apply(work),
            Some(Unanswered::Prepare(xid, work)) if prepared.contains(&xid) => {
                self.waiting.insert(xid, work);
            }
            // Nothing was under way, or nothing is left of it.
            None | Some(Unanswered::Commit(_) | Unanswered::Prepare(..)) => {}
            Some(Unanswered::Decide(xid, work, commits)) => {
                if prepared.contains(&xid) {
                    self.waiting.insert(xid, work);
                } else if commits {
                    self.apply(work);
                }
            }
        }
    }
}

/// The statements of a transaction.
fn statements(work: &Work, client: u64) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for ((table, key), row) in &work.rows {
        all.push(match row.as_ref().and_then(|row| row.split_once('|')) {
            None => format!("DELETE FROM mix.{table} WHERE id = {key}"),
            Some((value, times)) if *table == "big" => {
                format!("REPLACE INTO mix.big VALUES ({key}, {value}, {times}, REPEAT(MD5({value}), {times}))")
            }
            Some((value, text)) => format!(
                "INSERT INTO mix.t VALUES ({key}, {value}, '{text}')
                 ON DUPLICATE KEY UPDATE v = {value}, s = '{text}'"
            ),
        });
    }
    all.push(format!(
        "INSERT INTO mix.done VALUES ({}, {client})",
        work.number
    ));
    all
}

/// The numbers that the last INSERT has drawn are nobody else's, ever.
fn draw(c: &mut Client, journal: &Journal) -> Result<(), Gone> {
    let mut first = None;
    let asked = c.query("SELECT LAST_INSERT_ID()", &mut |result| {
        if let esker_server::client::QueryResult::Rows { rows, .. } = result {
            let cell = rows[0][0].clone().expect("a number");
            first = String::from_utf8_lossy(&cell).parse::<u64>().ok();
        }
    });
    asked.map_err(|_| Gone)?;
    let first = first.expect("a number");
    let mut given = journal.given.lock().expect("journal");
    for number in [first, first + 1] {
        assert!(given.insert(number), "number {number} was given twice");
    }
    Ok(())
}

/// Everything the server has must follow from what the clients know.
fn verify(
    c: &mut Client,
    clients: &mut [Memory],
    shapes: &mut [Shapes],
    families: &mut [Families],
) {
    let numbers = |lines: Vec<String>| -> BTreeSet<u64> {
        lines.iter().map(|n| n.parse().expect("a number")).collect()
    };
    let done = numbers(c.lines("SELECT id FROM mix.done"));
    let recovered = c.lines("XA RECOVER");
    let xid = |line: &String| line.rsplit('|').next().expect("an identifier").to_owned();
    let prepared: BTreeSet<String> = recovered.iter().map(xid).collect();
    let (mut expected, mut waiting, mut all_done) = (Rows::new(), BTreeSet::new(), BTreeSet::new());
    for memory in clients.iter_mut() {
        memory.settle(&done, &prepared);
        expected.extend(memory.rows.iter().map(|(k, v)| (*k, v.clone())));
        waiting.extend(memory.waiting.keys().cloned());
        all_done.extend(&memory.done);
    }
    assert_eq!(done, all_done, "transactions that are there");
    assert_eq!(prepared, waiting, "transactions that wait");
    let mut found = Rows::new();
    for (table, columns) in [("t", "CONCAT(v, '|', s)"), ("big", "CONCAT(v, '|', times)")] {
        for row in rows_in_the_end(c, &format!("SELECT id, {columns} FROM mix.{table}")) {
            let id = row[0].as_ref().expect("id").parse().expect("a number");
            found.insert((table, id), row[1].clone());
        }
    }
    expected.retain(|_, row| row.is_some());
    for place in expected.keys().chain(found.keys()) {
        assert_eq!(found.get(place), expected.get(place), "{place:?}");
    }
    let torn = "SELECT COUNT(*) FROM mix.big WHERE b <> REPEAT(MD5(v), times)";
    let halves = rows_in_the_end(c, torn);
    assert_eq!(halves, [[Some("0".to_owned())]], "a value is half there");
    indexes_agree(c);
    // Rows of prepared transactions are locked.
    let locked = clients.iter().flat_map(|m| m.waiting.values());
    for ((table, key), _) in locked.filter_map(|work| work.rows.iter().next()) {
        let sql = format!("DELETE FROM mix.{table} WHERE id = {key}");
        c.run("SET innodb_lock_wait_timeout = 1");
        // A row that is not there is not locked by a DELETE that finds nothing.
        if found.contains_key(&(*table, *key)) {
            assert_eq!(c.code(&sql), Some(1205), "{table} {key} is not locked");
            break;
        }
    }
    for shapes in shapes {
        shapes.verify(c);
    }
    families::promises_hold(c);
    for families in families {
        families.verify(c);
    }
}

/// The rows of a query behind a restart. What a replay has read is no value of a statement, but it is resident: large
/// values are refused (1041) meanwhile. Asked once more, they can be refused again: the answer that came counts.
fn rows_in_the_end(c: &mut Client, query: &str) -> Vec<Vec<Option<String>>> {
    let mut rows = None;
    eventually(query, || match c.try_rows(query) {
        Err(ClientError::Server(e)) if e.code == 1041 => false,
        answer => {
            rows = Some(answer.expect(query));
            true
        }
    });
    rows.expect("an answer")
}

/// Every secondary index has what its table has.
fn indexes_agree(c: &mut Client) {
    for table in ["t", "big", "done", "auto"] {
        let whole = c.value(&format!("SELECT CONCAT(COUNT(*), ' ', COALESCE(SUM(id), 0)) FROM mix.{table} FORCE INDEX (PRIMARY)"));
        for index in c.rows(&format!(
            "SHOW INDEX FROM mix.{table} WHERE Seq_in_index = 1"
        )) {
            let (name, column) = (
                index[2].as_ref().expect("a name"),
                index[4].as_ref().expect("a column"),
            );
            let by_index = c.value(&format!(
                "SELECT CONCAT(COUNT(*), ' ', COALESCE(SUM(id), 0)) FROM mix.{table} FORCE INDEX ({name}) WHERE {column} >= 0"
            ));
            assert_eq!(by_index, whole, "index {name} of {table}");
        }
    }
}

/// All there is, as text.
fn dump(c: &mut Client) -> Vec<String> {
    let mut all = c.lines("XA RECOVER CONVERT XID");
    all.extend(c.lines(
        "SELECT table_name, view_definition FROM information_schema.views ORDER BY table_name",
    ));
    for schema in ["mix", "ddl"] {
        for table in c.lines(&format!("SHOW TABLES FROM {schema}")) {
            let columns = match &*table {
                "big" => "id, v, times, LENGTH(b), CRC32(b)",
                _ => "*",
            };
            // With the AUTO_INCREMENT counter.
            all.extend(c.lines(&format!("SHOW CREATE TABLE {schema}.{table}")));
            let query = format!("SELECT {columns} FROM {schema}.{table} ORDER BY id");
            let rows = rows_in_the_end(c, &query);
            all.extend(rows.iter().map(|row| format!("{row:?}")));
        }
    }
    all
}

/// Copies of the directory, recovered in every way there is, are the same database.
fn every_way_finds_the_same(dir: &Path) {
    let ways: [&[&str]; 5] = [
        &[MEMORY, "--esker-recovery-threads=1"],
        &[MEMORY, "--esker-recovery-threads=4"],
        &[MEMORY, "--esker-recovery-mode=SERIAL-SYNC"],
        &[MEMORY, "--esker-recovery-mode=SERIAL-ASYNC"],
        &["--esker-memory-limit=64M"],
    ];
    let mut first: Option<Vec<String>> = None;
    for way in ways {
        let copy = tempfile::tempdir().expect("folder");
        let copied = Command::new("cp")
            .args(["-a", "--sparse=always"])
            .arg(dir.join("data"))
            .arg(copy.path())
            .status();
        assert!(copied.expect("cp").success());
        let args: Vec<&str> = SETTINGS.iter().chain(way).copied().collect();
        let server = Server::start(copy.path(), &args);
        let all = dump(&mut server.connect());
        let expected = first.get_or_insert_with(|| all.clone());
        let differ = all.iter().zip(&*expected).find(|(a, b)| a != b);
        assert!(
            *expected == all,
            "{way:?}: {} lines of {}, the first that differs: {differ:?}",
            all.len(),
            expected.len()
        );
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures of a long run by hand")]
fn a_mixed_load_survives_kills_also_during_recovery() {
    let rounds = setting("ESKER_MIX_ROUNDS", 4);
    let most_nested = setting("ESKER_MIX_NESTED", 3);
    let ways_every = setting("ESKER_MIX_WAYS_EVERY", 4).max(1);
    let longest_life = setting("ESKER_MIX_LIFE", 1400).max(200);
    let rest_every = setting("ESKER_MIX_REST_EVERY", 0);
    let seed = setting("ESKER_MIX_SEED", 1);
    let mut dice = Dice::new(seed);
    let dir = tempfile::tempdir().expect("folder");
    let files = LoadFiles::written(dir.path());
    let secure = files.setting();
    let with = |more: &[&'static str]| -> Vec<&str> {
        SETTINGS
            .iter()
            .chain(more)
            .copied()
            .chain([&*secure])
            .collect()
    };
    let mut server = Server::start(dir.path(), &with(&[MEMORY]));
    server
        .connect()
        .run(&format!("{SCHEMA}; {}", families::SCHEMA));
    let journal = Journal::default();
    let mut clients: Vec<Memory> = (0..CLIENTS).map(|_| Memory::default()).collect();
    let mut shapes = ["x", "y"].map(Shapes::new);
    let mut families = [0, 1].map(Families::new);
    let transactions = |clients: &[Memory]| -> u64 {
        let done = clients.iter().map(|memory| memory.done.len() as u64);
        done.sum()
    };
    let mut round = 0;
    // More of them where the machine is too busy to get anything done in their time.
    while round < rounds || (transactions(&clients) <= rounds && round < 10 * rounds) {
        round += 1;
        let life = Duration::from_millis(200 + dice.roll(longest_life - 199));
        let rest = rest_every > 0 && round % rest_every == 0;
        let rest = rest.then(|| REST + Duration::from_millis(dice.roll(REST_SPREAD_MILLIS)));
        let mut seed = || Dice::new(dice.roll(1 << 40));
        let load = Load {
            server: &server,
            stops: AtomicBool::new(false),
        };
        std::thread::scope(|scope| {
            let (load, journal, files) = (&load, &journal, &files);
            let mut at_work = Vec::new();
            for (client, memory) in clients.iter_mut().enumerate() {
                let mut dice = seed();
                at_work.push(
                    scope.spawn(move || memory.live(load, client as u64, journal, &mut dice)),
                );
            }
            for shapes in &mut shapes {
                let mut dice = seed();
                at_work.push(scope.spawn(move || shapes.live(load, files, &mut dice)));
            }
            for families in &mut families {
                let mut dice = seed();
                at_work.push(scope.spawn(move || families.live(load, &mut dice)));
            }
            std::thread::sleep(life);
            if let Some(rest) = rest {
                load.stops.store(true, Ordering::Relaxed);
                for client in at_work {
                    client.join().expect("a client");
                }
                std::thread::sleep(rest);
            }
            load.server.kill_from_outside();
        });
        server.kill();
        for _ in 0..dice.roll(most_nested + 1) {
            let restart = RESTARTS[dice.roll(RESTARTS.len() as u64) as usize];
            let life = Duration::from_micros(1000 + dice.roll(150_000));
            server.set_args(&with(restart));
            server.live_for(life);
        }
        if round % ways_every == 0 {
            every_way_finds_the_same(dir.path());
        }
        let restart = RESTARTS[dice.roll(RESTARTS.len() as u64) as usize];
        server.set_args(&with(restart));
        server.restart();
        verify(
            &mut server.connect(),
            &mut clients,
            &mut shapes,
            &mut families,
        );
    }
    let done = transactions(&clients);
    let given = journal.given.lock().expect("journal").len();
    println!("seed {seed}: {done} transactions, {given} numbers in {round} rounds");
    for shapes in &shapes {
        println!("{shapes}");
    }
    for families in &families {
        println!("{families}");
    }
    assert!(done > rounds, "{done}");
    server.stop();
    let log = std::fs::read_to_string(dir.path().join("log")).expect("the server's log");
    let panics: Vec<_> = log.lines().filter(|line| line.contains("panic")).collect();
    assert!(panics.is_empty(), "{panics:?}");
}
