//! Histories of a server with a binary log, applied in others on simulated disks: in every mode, over crashes, and with
//! what cannot be applied.

use std::collections::VecDeque;
use std::time::Instant;

use esker_binlog::apply::{Group, Id, Incoming, Shape};
use esker_binlog::files::Scan;
use esker_sql_catalog::accounts::Account;
use esker_vfs::sim::{Fault, Op, SimEnv, SimRng};

use super::*;
use crate::testing::{self, Rows};
use crate::{ClientInfo, Mode, OutcomeKind, Request, Session, Step};

/// Nothing takes this long.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
const CHANNEL: &str = "";
pub(super) const MODES: [&str; 5] = [
    "SERIAL",
    "DATABASE",
    "COMMIT-GROUP",
    "WRITESET",
    "OPTIMISTIC",
];

/// A server on a simulated machine.
pub(super) struct Server {
    pub(super) machine: SimEnv,
    pub(super) instance: Arc<Instance>,
}

pub(super) struct Client(pub(super) Session);

impl Client {
    pub(super) fn ask(&mut self, sql: &str) -> Result<Vec<String>, u16> {
        self.0.start(Request::Query(sql.as_bytes()));
        let outcome = loop {
            match self.0.step(Mode::Thread) {
                Step::Done(outcome) => break outcome,
                Step::NeedThread => {}
                _ => panic!("nothing to wait for in {sql}"),
            }
        };
        let mut rows = Rows::default();
        let mut depends_on = outcome.depends_on;
        match outcome.result {
            OutcomeKind::Err(e) => return Err(e.code),
            OutcomeKind::Ok(_) => {}
            OutcomeKind::Rows(_) => loop {
                let batch = self.0.next_rows(&mut rows, usize::MAX).expect("rows");
                depends_on = depends_on.max(batch.depends_on);
                if !batch.more {
                    break;
                }
            },
        }
        if let Some(durable) = self.0.wait_durable(depends_on, || false) {
            durable.block().expect("durable");
        }
        Ok(rows.0.iter().map(|row| row.join("|") + "|").collect())
    }

    pub(super) fn ok(&mut self, sql: &str) -> Vec<String> {
        self.ask(sql)
            .unwrap_or_else(|code| panic!("{sql}: error {code}"))
    }
}

impl Server {
    pub(super) fn open(machine: SimEnv, id: u32, settings: &[(&str, &str)]) -> Self {
        let id = id.to_string();
        let basics = [
            ("gtid_mode", "ON"),
            ("enforce_gtid_consistency", "ON"),
            ("server_id", &id),
        ];
        let settings: Vec<_> = basics.iter().chain(settings).copied().collect();
        let instance = testing::open(&machine, &settings);
        Self { machine, instance }
    }

    pub(super) fn source() -> Self {
        Self::open(SimEnv::new(1), 1, &[("log_bin", "ON")])
    }

    pub(super) fn replica(settings: &[(&str, &str)]) -> Self {
        Self::open(SimEnv::new(2), 2, settings)
    }

    pub(super) fn client(&self, id: u64) -> Client {
        let client = ClientInfo::inside(id, Account::root(Vec::new()));
        let mut client = Client(Session::new(self.instance.clone(), client));
        client.ok("SET NAMES utf8mb4");
        client
    }

    /// All events of its binary log, as a relay log has them.
    pub(super) fn events(&self) -> Vec<Incoming> {
        self.client(99).ok("FLUSH BINARY LOGS");
        let fs = self.machine.env().fs;
        let mut events = Vec::new();
        let files = self.client(99).ok("SHOW BINARY LOGS");
        for file in &files[..files.len() - 1] {
            let name = file.split('|').next().expect("a name");
            let path = std::path::Path::new("/db/binlog").join(name);
            let mut scan = Scan::open(&*fs, &path, None).expect("a file");
            while let Some((_, event)) = scan.next_event().expect("an event") {
                events.push(Incoming {
                    header: event.header,
                    body: event.body.to_vec(),
                    relay: RelayPlace {
                        file: 1,
                        offset: events.len() as u64 + 1,
                    },
                });
            }
        }
        events
    }

    pub(super) fn start(&self, events: &[Incoming]) -> Applier {
        self.start_with(events, settings())
    }

    pub(super) fn start_with(&self, events: &[Incoming], settings: Settings) -> Applier {
        self.start_channel(CHANNEL, events, settings)
    }

    pub(super) fn start_channel(
        &self,
        channel: &str,
        events: &[Incoming],
        settings: Settings,
    ) -> Applier {
        let state = load(&self.instance, channel).expect("state");
        let from = state.end.relay;
        let events = events.iter().filter(|event| event.relay > from).cloned();
        let source = Script(events.collect());
        Applier::start(&self.instance, channel, state, Box::new(source), settings)
            .expect("a thread")
    }

    /// Applies everything, and stops.
    pub(super) fn apply(&self, events: &[Incoming]) -> Status {
        let applier = self.start(events);
        let last = events.last().map_or(0, |event| event.relay.offset);
        await_status(&applier, |s| {
            s.read.relay.offset >= last && s.in_flight == 0
        });
        applier.stop();
        applier.status()
    }

    /// What is in all tables of the tests.
    pub(super) fn dump(&self) -> Vec<(String, Vec<String>)> {
        let mut client = self.client(98);
        let tables = client.ok(
            "SELECT table_schema, table_name FROM information_schema.tables \
             WHERE table_schema IN ('a', 'b') ORDER BY 1, 2",
        );
        let names = tables.iter().map(|row| {
            let mut parts = row.split('|');
            let mut next = || parts.next().expect("a name");
            format!("{}.{}", next(), next())
        });
        names
            .collect::<Vec<_>>()
            .into_iter()
            .map(|name| {
                let mut rows = client.ok(&format!("SELECT * FROM {name}"));
                rows.sort();
                let definition = client.ok(&format!("SHOW CREATE TABLE {name}"));
                // Numbers of rows that were rolled back are given out only where they were tried.
                let words = definition[0]
                    .split(' ')
                    .filter(|w| !w.starts_with("AUTO_INCREMENT="));
                rows.push(words.collect::<Vec<_>>().join(" "));
                (name, rows)
            })
            .collect()
    }
}

/// Events that are there already.
struct Script(VecDeque<Incoming>);

impl EventSource for Script {
    fn next(&mut self, wait: Duration) -> esker_binlog::Result<Option<Incoming>> {
        let next = self.0.pop_front();
        if next.is_none() {
            std::thread::sleep(wait.min(Duration::from_millis(1)));
        }
        Ok(next)
    }
}

pub(super) fn settings() -> Settings {
    let next = std::sync::atomic::AtomicU64::new(1000);
    Settings {
        skips: 0,
        filters: Filters::default(),
        delay: Duration::ZERO,
        until: None,
        ignored_servers: Vec::new(),
        key_check: super::KeyCheck::default(),
        row_format: false,
        checks_user: None,
        anonymous: Anonymous::Off,
        temporary: Arc::default(),
        overtaken: super::Overtaken::default(),
        retries: Arc::default(),
        connection_ids: Arc::new(move || next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)),
    }
}

/// A group that does nothing.
pub(super) fn group(ordinal: u64) -> Group {
    Group {
        ordinal,
        id: Id::Position,
        clock: None,
        server_id: 1,
        original_micros: 0,
        commit_micros: 0,
        original_version: 0,
        sql_mode: None,
        shape: Shape::Empty,
        parts: Vec::new(),
        data: Vec::new(),
        end: Place::default(),
    }
}

/// Waits until the channel is there, or has failed; as long as it applies something.
pub(super) fn await_status(applier: &Applier, is_there: impl Fn(&Status) -> bool) -> Status {
    let mut last = (0, Instant::now());
    loop {
        let status = applier.status();
        if is_there(&status) || !status.is_running {
            return status;
        }
        if status.transactions != last.0 {
            last = (status.transactions, Instant::now());
        }
        assert!(last.1.elapsed() < LIMIT, "{status:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

const TABLES: [&str; 6] = [
    "CREATE DATABASE a",
    "CREATE DATABASE b",
    "CREATE TABLE a.t (id INT PRIMARY KEY, v INT, name VARCHAR(20), UNIQUE (name))",
    "CREATE TABLE b.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT, KEY (v))",
    "CREATE TABLE a.heap (v INT, at TIMESTAMP(3) NULL)",
    "CREATE TABLE b.child (id INT PRIMARY KEY, parent INT, \
     FOREIGN KEY (parent) REFERENCES b.t (id) ON DELETE CASCADE)",
];

fn statement(rng: &mut SimRng) -> String {
    let id = rng.below(30);
    let v = rng.below(1000);
    match rng.below(14) {
        0..3 => format!("INSERT INTO a.t VALUES ({id}, {v}, 'N{id}')"),
        3 | 4 => format!("UPDATE a.t SET v = {v} WHERE id = {id}"),
        5 => format!("UPDATE a.t SET name = 'n{v}' WHERE id = {id}"),
        6 => format!("UPDATE a.t SET id = id + 100, v = {v} WHERE id = {id}"),
        7 => format!("DELETE FROM a.t WHERE id IN ({id}, {id} + 100)"),
        8 => format!("INSERT INTO b.t (v) VALUES ({v}), ({id})"),
        9 => format!("UPDATE b.t SET v = v + 1 WHERE v < {v} LIMIT 3"),
        10 => format!("DELETE FROM b.t WHERE id = {id}"),
        11 => format!("INSERT INTO a.heap VALUES ({v}, NOW(3)), ({id}, NULL)"),
        12 => format!("UPDATE a.heap SET v = v + 1 WHERE v < {v} LIMIT 2"),
        _ => format!("INSERT INTO b.child VALUES ({v}, {id})"),
    }
}

/// A history of transactions, some of several statements, with schema changes between them.
pub(super) fn random_history(source: &Server, seed: u64, transactions: u64) {
    let mut rng = SimRng::new(seed);
    let mut client = source.client(1);
    for sql in TABLES {
        client.ok(sql);
    }
    for nth in 0..transactions {
        match rng.below(40) {
            0 => {
                client.ok(&format!(
                    "ALTER TABLE a.t ADD COLUMN c{nth} INT DEFAULT {nth}"
                ));
            }
            1 => {
                client.ok(&format!(
                    "CREATE TABLE b.x{nth} (id INT PRIMARY KEY) SELECT 1 AS id"
                ));
            }
            2 => {
                client.ok("TRUNCATE a.heap");
            }
            _ => {}
        }
        client.ok("BEGIN");
        for _ in 0..rng.below(4) + 1 {
            // Keys that are taken are no matter.
            let sql = statement(&mut rng).replace("a.t VALUES", "a.t (id, v, name) VALUES");
            let _ = client.ask(&sql);
        }
        client.ok(if rng.chance(90) { "COMMIT" } else { "ROLLBACK" });
    }
}

/// Seeds of histories, and of crashes: a few, or `ESKER_REPLICA_SEEDS` from `ESKER_REPLICA_FIRST_SEED` on.
pub(super) fn seeds(few: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let setting = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    match setting("ESKER_REPLICA_SEEDS") {
        None => few,
        Some(count) => {
            let first = setting("ESKER_REPLICA_FIRST_SEED").unwrap_or(1);
            first..first + count
        }
    }
}

#[test]
fn all_modes_give_what_serial_gives() {
    for seed in seeds(1..3) {
        let source = Server::source();
        random_history(&source, seed, 120);
        let (events, expected) = (source.events(), source.dump());
        for mode in MODES {
            for (workers, order) in [("1", "ON"), ("3", "ON"), ("8", "ON"), ("4", "OFF")] {
                let replica = Server::replica(&[
                    ("esker_replica_parallel_mode", mode),
                    ("replica_parallel_workers", workers),
                    ("replica_preserve_commit_order", order),
                ]);
                let status = replica.apply(&events);
                assert_eq!(status.failure, None, "{mode} {workers}, seed {seed}");
                assert_eq!(replica.dump(), expected, "{mode} {workers}, seed {seed}");
            }
        }
    }
}

/// Where commits need no order, whoever does not depend on one that waits goes on, whatever queue it is in.
#[test]
fn without_order_only_dependents_wait_for_one_that_waits() {
    let source = Server::source();
    let mut client = source.client(1);
    client.ok("CREATE DATABASE a");
    client.ok("CREATE TABLE a.t (id INT PRIMARY KEY, v INT)");
    client.ok("INSERT INTO a.t VALUES (1, 0), (2, 0), (3, 0)");
    let before = source.events();
    client.ok("UPDATE a.t SET v = 1 WHERE id = 1");
    client.ok("UPDATE a.t SET v = 1 WHERE id = 2");
    // It depends on both.
    client.ok("UPDATE a.t SET v = v + 10 WHERE id < 3");
    for nth in 0..40 {
        client.ok(&format!("UPDATE a.t SET v = 1 + {nth} WHERE id = 3"));
        client.ok(&format!("INSERT INTO a.t VALUES (100 + {nth}, 0)"));
    }
    let (events, expected) = (source.events(), source.dump());
    let replica = Server::replica(&[
        ("esker_replica_parallel_mode", "WRITESET"),
        ("replica_parallel_workers", "3"),
        ("replica_preserve_commit_order", "OFF"),
        // A failure ends.
        ("innodb_lock_wait_timeout", "30"),
        ("replica_transaction_retries", "0"),
    ]);
    assert_eq!(replica.apply(&before).failure, None);
    let mut local = replica.client(7);
    local.ok("BEGIN");
    local.ok("SELECT * FROM a.t WHERE id = 1 FOR UPDATE");
    let applier = replica.start(&events);
    let status = await_status(&applier, |s| s.transactions >= 81);
    assert_eq!(status.failure, None, "{status:?}");
    // Plain reads leave out what is not durable yet.
    let (mut other, start) = (replica.client(8), Instant::now());
    while other.ok("SELECT v FROM a.t WHERE id < 3") != ["0|", "1|"] {
        assert!(start.elapsed() < LIMIT, "{:?}", applier.status());
        std::thread::sleep(Duration::from_millis(1));
    }
    local.ok("COMMIT");
    let status = await_status(&applier, |s| s.transactions == 83);
    assert_eq!(status.failure, None);
    applier.stop();
    assert_eq!(replica.dump(), expected);
}

/// Rows whose keys follow each other are locked as one, as at their source: a large transaction has no lock for each.
#[test]
fn runs_of_rows_have_one_lock() {
    let source = Server::source();
    let mut client = source.client(1);
    client.ok("CREATE DATABASE a");
    client.ok("CREATE TABLE a.t (id INT PRIMARY KEY, v INT)");
    client.ok("CREATE TABLE a.bare (v INT)");
    client.ok("CREATE TABLE a.last (id INT PRIMARY KEY)");
    let before = source.events();
    let numbers =
        "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT i";
    for sql in [
        "BEGIN",
        &format!("INSERT INTO a.t {numbers}, 0 FROM n"),
        &format!("INSERT INTO a.bare {numbers} FROM n"),
        "UPDATE a.t SET v = v + 1",
        "UPDATE a.bare SET v = v + 1",
        "DELETE FROM a.t WHERE id > 500",
        "INSERT INTO a.last VALUES (1)",
        "COMMIT",
    ] {
        client.ok(sql);
    }
    let (events, expected) = (source.events(), source.dump());
    let replica = Server::replica(&[
        ("replica_parallel_workers", "1"),
        ("innodb_lock_wait_timeout", "30"),
        ("replica_transaction_retries", "0"),
    ]);
    assert_eq!(replica.apply(&before).failure, None);
    let mut local = replica.client(7);
    local.ok("BEGIN");
    local.ok("INSERT INTO a.last VALUES (1)");
    let applier = replica.start(&events);
    let mut other = replica.client(8);
    let waits = "SELECT COUNT(*) FROM performance_schema.data_lock_waits";
    let start = Instant::now();
    while other.ok(waits) != ["1|"] {
        assert!(start.elapsed() < LIMIT, "{:?}", applier.status());
        std::thread::sleep(Duration::from_millis(1));
    }
    let locks = other.ok("SELECT COUNT(*) FROM performance_schema.data_locks");
    let locks: u32 = locks[0].trim_end_matches('|').parse().expect("a number");
    assert!(locks < 200, "{locks} locks");
    local.ok("ROLLBACK");
    let status = await_status(&applier, |s| s.in_flight == 0 && s.transactions > 0);
    assert_eq!(status.failure, None);
    applier.stop();
    assert_eq!(replica.dump(), expected);
}

/// Transactions that take the same locks in opposite orders lose deadlocks to those behind them, which come back to the
/// same locks: nobody may lose often enough to stop the channel.
#[test]
fn opposite_orders_of_locks_stop_nobody() {
    let source = Server::source();
    let mut client = source.client(1);
    client.ok("CREATE DATABASE a");
    client.ok("CREATE TABLE a.t (id INT PRIMARY KEY, v INT)");
    client.ok("INSERT INTO a.t VALUES (1, 0), (2, 0), (3, 0)");
    for nth in 0..150 {
        let order = [[1, 2, 3], [3, 2, 1], [2, 3, 1]][nth % 3];
        client.ok("BEGIN");
        // Who has written more wins a deadlock.
        for more in 0..nth % 5 * 3 {
            client.ok(&format!(
                "INSERT INTO a.t VALUES ({}, 0)",
                100 + nth * 20 + more
            ));
        }
        for id in order {
            client.ok(&format!("UPDATE a.t SET v = v + 1 WHERE id = {id}"));
        }
        client.ok("COMMIT");
    }
    let (events, expected) = (source.events(), source.dump());
    for order in ["ON", "OFF"] {
        let replica = Server::replica(&[
            ("esker_replica_parallel_mode", "OPTIMISTIC"),
            ("replica_parallel_workers", "8"),
            ("replica_preserve_commit_order", order),
            // One loss is what a meeting may cost.
            ("replica_transaction_retries", "1"),
        ]);
        let status = replica.apply(&events);
        assert_eq!(status.failure, None, "{order}");
        assert_eq!(replica.dump(), expected, "{order}");
    }
}

#[test]
fn a_crash_leaves_every_transaction_applied_once() {
    for seed in seeds(3..4) {
        crashes(seed);
    }
}

fn crashes(seed: u64) {
    let source = Server::source();
    random_history(&source, seed, 80);
    let (events, expected) = (source.events(), source.dump());
    let mut rng = SimRng::new(seed + 4);
    let last = events.last().map_or(0, |event| event.relay.offset);
    for round in 0..8 {
        let order = if round % 2 == 0 { "OFF" } else { "ON" };
        let log_bin = if round % 4 < 2 { "OFF" } else { "ON" };
        let settings = [
            ("replica_preserve_commit_order", order),
            ("replica_parallel_workers", "4"),
            ("log_bin", log_bin),
        ];
        let mut replica = Server::replica(&settings);
        for life in 0..3 {
            let applier = replica.start(&events);
            let wanted = rng.below(40);
            await_status(&applier, |status| {
                let is_all = status.read.relay.offset >= last && status.in_flight == 0;
                status.transactions >= wanted || is_all
            });
            let machine = replica.machine.crash(rng.next_u64());
            applier.stop();
            assert_eq!(
                applier.status().failure,
                None,
                "seed {seed}, round {round}, life {life}"
            );
            drop(applier);
            replica = Server::open(machine, 2, &settings);
        }
        let status = replica.apply(&events);
        assert_eq!(status.failure, None, "seed {seed}, round {round}");
        assert_eq!(replica.dump(), expected, "seed {seed}, round {round}");
        if log_bin == "ON" {
            let executed = |server: &Server| server.client(9).ok("SELECT @@GLOBAL.gtid_executed");
            assert_eq!(
                executed(&replica),
                executed(&source),
                "seed {seed}, round {round}"
            );
        }
    }
}

#[test]
fn what_a_full_disk_has_taken_back_is_not_in_files_that_decide() {
    let settings = [("log_bin", "ON"), ("esker_binlog_commit", "TWO-PHASE")];
    let source = Server::open(SimEnv::new(1), 1, &settings);
    let mut client = source.client(1);
    client.ok("CREATE DATABASE a");
    client.ok("CREATE TABLE a.t (id INT PRIMARY KEY, v INT)");
    let mut refused = 0;
    for id in 0..30 {
        if id % 5 == 3 {
            let full = Fault::on(Op::Write).path("binlog.0").no_space();
            source.machine.fs.inject(full.times(1));
        }
        client.ok("BEGIN");
        client.ok(&format!("INSERT INTO a.t VALUES ({id}, 0)"));
        match client.ask("COMMIT") {
            Ok(_) => {}
            Err(code) => {
                assert_eq!(code, 1021);
                refused += 1;
            }
        }
        // It may come again.
        let _ = client.ask(&format!("INSERT INTO a.t VALUES ({id}, 1)"));
    }
    assert_eq!(refused, 6);
    assert_eq!(client.ok("SELECT COUNT(*), SUM(v) FROM a.t"), ["30|6|"]);
    let executed = client.ok("SELECT @@GLOBAL.gtid_executed");
    assert!(executed[0].ends_with(":1-32|"), "{executed:?}");
    let replica = Server::replica(&[("log_bin", "ON")]);
    assert_eq!(replica.apply(&source.events()).failure, None);
    assert_eq!(replica.dump(), source.dump());
    assert_eq!(
        replica.client(9).ok("SELECT @@GLOBAL.gtid_executed"),
        executed
    );
}

#[test]
fn what_is_logged_keeps_its_origin_and_does_not_come_back() {
    let source = Server::source();
    random_history(&source, 5, 20);
    let middle = Server::replica(&[("log_bin", "ON")]);
    assert_eq!(middle.apply(&source.events()).failure, None);
    let events = middle.events();
    let origins = events
        .iter()
        .filter(|e| e.header.event_type() == Some(esker_binlog::event::EventType::Xid));
    assert!(origins.clone().count() > 10);
    assert!(
        origins
            .clone()
            .all(|event| event.header.stamp.server_id == 1)
    );
    let last = Server::replica(&[("server_id", "3")]);
    assert_eq!(last.apply(&events).failure, None);
    assert_eq!(last.dump(), source.dump());
    // The first of the circle has executed all of it.
    let before = source.dump();
    let status = source.apply(&events);
    assert_eq!((status.failure, source.dump()), (None, before));
    assert!(status.transactions > 10);
    // Nothing is left for it to apply.
    let executed: GtidSet = source.client(1).ok("SELECT @@GLOBAL.gtid_executed")[0]
        .trim_end_matches('|')
        .parse()
        .expect("GTIDs");
    assert_eq!(status.gtids, executed);
}

/// A server that was made anew with its old number has none of what it has lost, and says so.
#[test]
fn what_names_this_server_is_neither_applied_nor_executed() {
    let source = Server::source();
    let mut there = source.client(1);
    there.ok("CREATE DATABASE a");
    there.ok("CREATE TABLE a.t (id INT PRIMARY KEY)");
    let anew = Server::open(SimEnv::new(2), 1, &[("log_bin", "ON")]);
    assert_eq!(anew.apply(&source.events()).failure, None);
    assert_eq!(anew.dump(), []);
    assert_eq!(anew.client(1).ok("SELECT @@GLOBAL.gtid_executed"), ["|"]);
}

#[test]
fn a_row_that_is_missing_stops_the_channel_behind_what_was_before() {
    let source = Server::source();
    let mut client = source.client(1);
    for sql in [
        "CREATE DATABASE a",
        "CREATE TABLE a.t (id INT PRIMARY KEY, v INT)",
    ] {
        client.ok(sql);
    }
    for id in 1..=20 {
        client.ok(&format!("INSERT INTO a.t VALUES ({id}, 0)"));
    }
    let first = source.events();
    client.ok("UPDATE a.t SET v = 1 WHERE id < 5");
    client.ok("DELETE FROM a.t WHERE id = 7");
    client.ok("UPDATE a.t SET v = 2 WHERE id > 10");
    let events = source.events();
    for mode in MODES {
        let settings = [
            ("esker_replica_parallel_mode", mode),
            ("replica_parallel_workers", "3"),
        ];
        let replica = Server::replica(&settings);
        assert_eq!(replica.apply(&first).failure, None);
        let mut there = replica.client(1);
        there.ok("DELETE FROM a.t WHERE id = 7");
        let status = replica.apply(&events);
        let failure = status.failure.expect("a failure");
        assert_eq!(failure.code, 1032, "{mode}");
        for part in [
            "Delete_rows",
            "a.t",
            "Can't find record in 't'",
            "end_log_pos",
            "binlog.00000",
        ] {
            assert!(failure.text.contains(part), "{part} in {}", failure.text);
        }
        let shown = status.workers.iter().filter_map(|w| w.applying.id.as_ref());
        let shown: Vec<String> = shown.map(name_of).collect();
        assert_eq!(shown.len(), 1, "{mode}: only the one that failed");
        assert!(failure.text.contains(&shown[0]), "{}", failure.text);
        assert_eq!(
            there.ok("SELECT COUNT(*) FROM a.t WHERE v = 1"),
            ["4|"],
            "{mode}"
        );
        assert_eq!(
            there.ok("SELECT COUNT(*) FROM a.t WHERE v = 2"),
            ["0|"],
            "{mode}"
        );
        // It is tried again from there, and goes on when the row is there.
        assert_eq!(replica.apply(&events).failure.map(|f| f.code), Some(1032));
        there.ok("INSERT INTO a.t VALUES (7, 0)");
        assert_eq!(replica.apply(&events).failure, None);
        assert_eq!(replica.dump(), source.dump());
    }
    for (name, value) in [
        // effect: replica_skip_errors
        ("slave_exec_mode", "IDEMPOTENT"),
        ("replica_skip_errors", "1032,1062"),
    ] {
        let replica = Server::replica(&[(name, value)]);
        assert_eq!(replica.apply(&first).failure, None);
        replica.client(1).ok("DELETE FROM a.t WHERE id = 7");
        assert_eq!(replica.apply(&events).failure, None, "{name}");
        assert_eq!(replica.dump(), source.dump(), "{name}");
    }
}

#[test]
fn channels_stop_where_they_are_told_and_pass_over_what_does_not_concern_them() {
    let source = Server::source();
    random_history(&source, 6, 10);
    let events = source.events();
    let uuid = source.client(1).ok("SELECT @@server_uuid")[0].replace('|', "");
    let gtids = |text: &str| format!("{uuid}:{text}").parse::<GtidSet>().expect("a set");
    for (until, applied) in [
        (Until::BeforeGtids(gtids("9")), "1-8"),
        (Until::AfterGtids(gtids("3-9")), "1-9"),
    ] {
        let replica = Server::replica(&[]);
        let until = Some(until);
        let applier = replica.start_with(
            &events,
            Settings {
                until,
                ..settings()
            },
        );
        let status = await_status(&applier, |_| false);
        assert_eq!((status.failure, status.gtids), (None, gtids(applied)));
    }
}

#[test]
fn what_filters_do_not_let_through_counts_as_applied() {
    let source = Server::source();
    let mut client = source.client(1);
    for sql in [
        "CREATE DATABASE a",
        "CREATE TABLE a.t (id INT PRIMARY KEY)",
        "CREATE TABLE a.heap (v INT)",
        "INSERT INTO a.t VALUES (1), (2)",
        "INSERT INTO a.heap VALUES (1), (2)",
        "CREATE DATABASE b",
        "USE b",
        "CREATE TABLE t (id INT)",
        "INSERT INTO t VALUES (1)",
        "CREATE DATABASE c",
        "CREATE TABLE c.t (id INT)",
        "INSERT INTO a.t VALUES (3)",
        "USE c",
        "CREATE TABLE u (id INT)",
        "INSERT INTO u VALUES (7)",
    ] {
        client.ok(sql);
    }
    let events = source.events();
    let replica = Server::replica(&[("replica_parallel_workers", "2")]);
    replica.client(1).ok("CREATE DATABASE d");
    let filters = Filters {
        ignore_db: vec!["b".to_owned()],
        wild_ignore_table: vec!["a.he%".to_owned()],
        rewrite_db: vec![("c".to_owned(), "d".to_owned())],
        ..Filters::default()
    };
    let applier = replica.start_with(
        &events,
        Settings {
            filters,
            ..settings()
        },
    );
    let last = events.last().map_or(0, |event| event.relay.offset);
    let status = await_status(&applier, |s| {
        s.read.relay.offset >= last && s.in_flight == 0
    });
    assert_eq!(status.failure, None);
    applier.stop();
    let executed = source.client(1).ok("SELECT @@GLOBAL.gtid_executed")[0].replace(['|', '\n'], "");
    assert_eq!(
        status.gtids.to_string().replace('\n', ""),
        executed,
        "what is passed over counts"
    );
    let mut there = replica.client(1);
    assert_eq!(there.ask("SELECT * FROM b.t"), Err(1049));
    assert_eq!(there.ask("SELECT * FROM a.heap"), Err(1146));
    assert_eq!(there.ok("SELECT COUNT(*) FROM a.t"), ["3|"]);
    assert_eq!(there.ok("SELECT * FROM d.u"), ["7|"]);
}

#[test]
fn an_applier_writes_where_others_may_not() {
    let source = Server::source();
    random_history(&source, 8, 5);
    let replica = Server::replica(&[("super_read_only", "ON")]);
    assert_eq!(replica.apply(&source.events()).failure, None);
    assert_eq!(replica.dump(), source.dump());
}
