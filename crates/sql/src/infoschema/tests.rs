//! The log as a client sees it: figures, policy, and a log disk that is full.
//!
//! Neighbours: `log` makes the rows; a session on a simulated disk reads them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use esker_engine::{FlushPolicy, Seq};
use esker_sql_catalog::accounts::{Account, GrantEntry, GrantScope, Privileges};
use esker_sql_catalog::exec_error::interrupted;
use esker_types::ctx::{NoSession, SessionInfo};
use esker_types::{SqlResult, errors};
use esker_vfs::sim::{CrashImage, SimEnv};

use super::partition_rows;
use crate::testing::{self, Rows};
use crate::{ClientInfo, Instance, Mode, OutcomeKind, Request, Session, Step};

fn session(instance: &Arc<Instance>, privileges: Privileges) -> Session {
    let grant = GrantEntry {
        scope: GrantScope::Global,
        privileges,
        grant_option: false,
    };
    let account = Account {
        user: "u".into(),
        grants: vec![grant],
        ..Account::root(Vec::new())
    };
    let client = ClientInfo::inside(1, account);
    Session::new(instance.clone(), client)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}

/// Runs a statement; what it depends on is not awaited.
fn start(session: &mut Session, sql: &str) -> SqlResult<(Vec<Vec<String>>, Seq)> {
    session.start(Request::Query(sql.as_bytes()));
    let outcome = loop {
        match session.step(Mode::Thread) {
            Step::Done(outcome) => break outcome,
            Step::Wait(wait) => {
                let waited = block_on(wait.ready);
                session.waited(Some(waited));
            }
            Step::NeedThread => (),
            Step::NeedFile(_) => panic!("a client without files"),
        }
    };
    let mut rows = Rows::default();
    let mut depends_on = outcome.depends_on;
    match outcome.result {
        OutcomeKind::Err(error) => return Err(error),
        OutcomeKind::Ok(_) => {}
        OutcomeKind::Rows(_) => loop {
            let batch = session.next_rows(&mut rows, usize::MAX)?;
            depends_on = depends_on.max(batch.depends_on);
            if !batch.more {
                break;
            }
        },
    }
    Ok((rows.0, depends_on))
}

/// Runs a statement as a client does: its answer comes when it is durable.
fn run(session: &mut Session, sql: &str) -> SqlResult<Vec<Vec<String>>> {
    let (rows, depends_on) = start(session, sql)?;
    if let Some(wait) = session.wait_durable(depends_on, || false) {
        block_on(wait).map_err(errors::storage_failed)?;
    }
    Ok(rows)
}

fn number(session: &mut Session, sql: &str) -> u64 {
    let rows = run(session, sql).expect("a query that works");
    rows[0][0].parse().expect("a number")
}

fn status(session: &mut Session, name: &str) -> u64 {
    let rows = run(session, &format!("SHOW GLOBAL STATUS LIKE '{name}'")).expect("SHOW works");
    assert_eq!(rows.len(), 1, "{name}");
    rows[0][1].parse().expect("a number")
}

fn with_table(session: &mut Session) {
    run(session, "CREATE DATABASE d").unwrap();
    run(
        session,
        "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(9000))",
    )
    .unwrap();
}

#[test]
fn groups_and_histograms_are_counted() {
    let machine = SimEnv::new(1);
    let instance = testing::open(&machine, &[]);
    let s = &mut session(&instance, Privileges::ALL);
    with_table(s);
    let (flushes, records) = (
        status(s, "Esker_log_flushes"),
        status(s, "Esker_log_records"),
    );
    for i in 0..20 {
        run(s, &format!("INSERT INTO d.t VALUES ({i}, 'x')")).unwrap();
    }
    // One client that waits for each: a group and a record each.
    assert_eq!(status(s, "Esker_log_flushes") - flushes, 20);
    assert_eq!(status(s, "Esker_log_records") - records, 20);
    let groups = number(s, "SELECT FLUSHES FROM information_schema.ESKER_LOG");
    for histogram in ["flush, nanoseconds", "flush, records", "flush, bytes"] {
        let sql = format!(
            "SELECT SUM(COUNT) FROM information_schema.ESKER_LOG_HISTOGRAMS WHERE HISTOGRAM = '{histogram}'"
        );
        assert_eq!(number(s, &sql), groups, "{histogram}");
    }
    let sql =
        "SELECT COUNT(*) FROM information_schema.ESKER_LOG_HISTOGRAMS WHERE FROM_VALUE > TO_VALUE";
    assert_eq!(number(s, sql), 0);
    let space = run(
        s,
        "SELECT DURABLE_LSN, END_LSN, NEEDED_FROM_LSN, FIRST_LSN, SEGMENTS FROM information_schema.ESKER_LOG",
    )
    .unwrap();
    let space: Vec<u64> = space[0].iter().map(|v| v.parse().unwrap()).collect();
    assert_eq!(space[0], instance.engine().durable_seq());
    assert!(space[3] <= space[2] && space[2] <= space[0] && space[0] <= space[1]);
    assert!(space[4] >= 1);
    instance.shutdown().unwrap();
}

#[test]
fn waits_are_told_apart_by_cause() {
    let machine = SimEnv::new(2);
    let instance = testing::open(&machine, &[]);
    let s = &mut session(&instance, Privileges::ALL);
    with_table(s);
    let waits = |s: &mut Session, cause: &str| {
        let sql = format!(
            "SELECT SUM(COUNT) FROM information_schema.ESKER_LOG_WAITS WHERE DELAY = '{cause}'"
        );
        number(s, &sql)
    };
    let (a, c) = (waits(s, "A"), waits(s, "C"));
    // A commit that is awaited: (A), and with it a moment of the simulated clock.
    machine.fs.hold_syncs_of(".wal");
    let (_, seq) = start(s, "INSERT INTO d.t VALUES (1, 'x')").unwrap();
    let mut wait = pin!(
        s.wait_durable(seq, || false)
            .expect("the device does not answer")
    );
    let mut context = Context::from_waker(Waker::noop());
    assert!(wait.as_mut().poll(&mut context).is_pending());
    machine.clock.advance(Duration::from_millis(7));
    machine.fs.release_syncs();
    block_on(wait).unwrap();
    assert_eq!(waits(s, "A"), a + 1);
    assert_eq!(waits(s, "C"), c, "no thread was given away");
    let nanos = number(
        s,
        "SELECT NANOSECONDS FROM information_schema.ESKER_LOG_WAITS WHERE DELAY = 'A'",
    );
    assert!(nanos >= 7_000_000, "{nanos}");
    // One that blocks its thread: (C), too. When the thread comes to it late there is nothing to wait
    // for any more, so it may take more than one attempt.
    let mut attempts = 2..100;
    while waits(s, "C") == c {
        let id = attempts.next().expect("a thread that waits goes to sleep");
        machine.fs.hold_syncs_of(".wal");
        let (_, seq) = start(s, &format!("INSERT INTO d.t VALUES ({id}, 'x')")).unwrap();
        let blocks = s
            .wait_durable(seq, || false)
            .expect("the device does not answer");
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| blocks.block());
            std::thread::sleep(Duration::from_millis(id));
            machine.fs.release_syncs();
            thread.join().expect("no panic").unwrap();
        });
    }
    let a = waits(s, "A");
    assert_eq!(
        status(s, "Esker_log_waits_c_switches"),
        waits(s, "C"),
        "SHOW STATUS says the same"
    );
    assert_eq!(status(s, "Esker_log_waits_a_device"), a);
    instance.shutdown().unwrap();
}

#[test]
fn the_log_is_shown_to_who_may_see_processes() {
    let machine = SimEnv::new(3);
    let instance = testing::open(&machine, &[]);
    let all = &mut session(&instance, Privileges::ALL);
    let few = &mut session(&instance, Privileges::named("SELECT").unwrap());
    for table in [
        "ESKER_COMPACTIONS",
        "ESKER_DISK",
        "ESKER_LOG",
        "ESKER_LOG_WAITS",
        "ESKER_MEMORY",
        "ESKER_STALLS",
        "ESKER_TREES",
    ] {
        let sql = format!("SELECT * FROM information_schema.{table}");
        assert!(!run(all, &sql).unwrap().is_empty(), "{table}");
        assert!(run(few, &sql).unwrap().is_empty(), "{table}");
    }
    instance.shutdown().unwrap();
}

#[test]
fn the_recovery_is_shown_to_who_may_see_processes() {
    let machine = SimEnv::new(8);
    let instance = testing::open(&machine, &[]);
    let s = &mut session(&instance, Privileges::ALL);
    with_table(s);
    run(s, "INSERT INTO d.t VALUES (1, 'a'), (2, 'b'), (3, 'c')").unwrap();
    instance.engine().flush_log().unwrap();
    let after = SimEnv::with_fs(machine.fs.crash_with(CrashImage::DropUnsynced), 9);
    let restarted = testing::open(&after, &[]);
    restarted.engine().wait_built().block().unwrap();
    let s = &mut session(&restarted, Privileges::ALL);
    let row = &run(s, "SELECT * FROM information_schema.ESKER_RECOVERY").unwrap()[0];
    let shown = run(s, "SHOW STATUS LIKE 'Esker\\_recovery\\_%'").unwrap();
    assert_eq!(row.len(), shown.len());
    let status = |name: &str| {
        let name = format!("Esker_recovery_{name}");
        let line = shown.iter().find(|line| line[0] == name);
        line.unwrap_or_else(|| panic!("no {name}"))[1].clone()
    };
    assert_eq!(&row[..3], ["DONE", "PARALLEL", "0"].map(str::to_owned));
    assert_eq!(status("phase"), "DONE");
    assert_eq!(status("time_left"), "0");
    assert_eq!(status("flushes"), "0");
    let number = |name| status(name).parse::<u64>().expect("a number");
    assert!(number("rows") >= 3 && number("records") >= 1);
    assert!(number("bytes_total") > 0);
    assert_eq!(number("bytes_done"), number("bytes_total"));
    let few = &mut session(&restarted, Privileges::named("SELECT").unwrap());
    let seen = run(few, "SELECT * FROM information_schema.ESKER_RECOVERY").unwrap();
    assert!(seen.is_empty());
    restarted.shutdown().unwrap();
    instance.shutdown().unwrap();
}

#[test]
fn trees_memory_and_flushes_are_shown() {
    let machine = SimEnv::new(5);
    let instance = testing::open(&machine, &[]);
    let s = &mut session(&instance, Privileges::ALL);
    with_table(s);
    let of_table = |what: &str| {
        format!(
            "SELECT {what} FROM information_schema.ESKER_TREES \
             WHERE TABLE_SCHEMA = 'd' AND TABLE_NAME = 't' AND INDEX_NAME = 'PRIMARY'"
        )
    };
    let flushes = "SELECT COUNT FROM information_schema.ESKER_COMPACTIONS WHERE KIND = 'flush'";
    let used = |area: &str| {
        format!("SELECT BYTES FROM information_schema.ESKER_MEMORY WHERE AREA = '{area}'")
    };
    assert_eq!(number(s, &of_table("VERSIONS")), 0);
    for i in 0..20 {
        run(s, &format!("INSERT INTO d.t VALUES ({i}, 'x')")).unwrap();
    }
    run(s, "DELETE FROM d.t WHERE id = 3").unwrap();
    assert!(number(s, &of_table("MEMTABLE_BYTES")) > 0);
    let before = number(s, flushes);
    // The deleted row goes with the flush, for nothing lies below.
    instance.engine().flush_all().unwrap();
    assert!(number(s, flushes) > before);
    assert_eq!(number(s, &of_table("VERSIONS")), 19);
    assert_eq!(number(s, &of_table("LEVEL0_EXTENTS")), 1);
    let extents = "FROM information_schema.ESKER_EXTENTS e JOIN information_schema.ESKER_TREES t USING (TREE_ID) \
         WHERE t.TABLE_SCHEMA = 'd' AND t.TABLE_NAME = 't' AND t.INDEX_NAME = 'PRIMARY'";
    let shown = format!(
        "SELECT e.TABLE_NAME, e.INDEX_NAME, e.LEVEL, e.VERSIONS, e.DELETES, e.ROWS, e.QUARANTINED, \
         e.STORED_BYTES = t.LEVEL0_BYTES, e.SMALLEST_SEQUENCE > 0 AND e.SMALLEST_SEQUENCE < e.LARGEST_SEQUENCE, \
         e.FIRST_KEY < e.LAST_KEY {extents}"
    );
    assert_eq!(
        run(s, &shown).unwrap(),
        [["t", "PRIMARY", "0", "19", "0", "19", "NO", "1", "1", "1"]]
    );
    assert!(number(s, &used("extent metadata")) > 0);
    let cached = number(s, &used("block cache"));
    run(s, "SELECT COUNT(v) FROM d.t").unwrap();
    assert!(number(s, &used("block cache")) > cached);
    assert_eq!(
        number(s, "SELECT SUM(COUNT) FROM information_schema.ESKER_STALLS"),
        status(s, "Esker_writer_stalls")
    );
    run(s, "DELETE FROM d.t WHERE id < 6").unwrap();
    assert_eq!(number(s, &of_table("MEMTABLE_DELETES")), 5);
    assert_eq!(number(s, &of_table("TOMBSTONES_SKIPPED")), 0);
    run(s, "SELECT id FROM d.t ORDER BY id LIMIT 1").unwrap();
    assert_eq!(number(s, &of_table("TOMBSTONES_SKIPPED")), 5);
    let all = "SELECT * FROM information_schema.ESKER_EXTENTS";
    assert!(!run(s, all).unwrap().is_empty());
    let few = &mut session(&instance, Privileges::named("SELECT").unwrap());
    assert!(run(few, all).unwrap().is_empty());
    instance.shutdown().unwrap();
}

#[test]
fn every_byte_on_the_disk_has_an_area() {
    let machine = SimEnv::new(12);
    let instance = testing::open(&machine, &[]);
    let s = &mut session(&instance, Privileges::ALL);
    with_table(s);
    run(s, "INSERT INTO d.t VALUES (1, 'a'), (2, 'b'), (3, 'c')").unwrap();
    instance.engine().flush_all().unwrap();
    let area = |area: &str| {
        format!("SELECT BYTES FROM information_schema.ESKER_DISK WHERE AREA = '{area}'")
    };
    for name in ["extents", "log", "manifest"] {
        assert!(number(s, &area(name)) > 0, "{name}");
    }
    let all = "SELECT SUM(BYTES) FROM information_schema.ESKER_DISK WHERE AREA <> 'free'";
    assert_eq!(number(s, all), machine.fs.used_bytes());
    machine.fs.set_capacity(machine.fs.used_bytes() + 4096);
    assert_eq!(number(s, &area("free")), 4096);
    instance.shutdown().unwrap();
}

#[test]
fn memory_is_shown_by_cause_limited_and_refused() {
    let machine = SimEnv::new(6);
    let instance = testing::open(&machine, &[]);
    let s = &mut session(&instance, Privileges::ALL);
    let area = |what: &str, area: &str| {
        format!("SELECT {what} FROM information_schema.ESKER_MEMORY WHERE AREA = '{area}'")
    };
    assert_eq!(number(s, &area("BYTES", "log buffer")), 1 << 20);
    assert_eq!(number(s, &area("PEAK_BYTES", "log buffer")), 1 << 20);
    let parts = "SELECT SUM(BYTES) FROM information_schema.ESKER_MEMORY WHERE AREA NOT LIKE 'resident%' AND AREA <> 'all'";
    assert!(number(s, parts) > 1 << 20);
    // Every byte that is resident has a cause, were it only that nobody counts it; of what is counted some was not
    // touched yet.
    let resident = number(s, &area("BYTES", "resident"));
    let others = ["all", "not counted", "code and mapped files"];
    let explained: u64 = others.iter().map(|a| number(s, &area("BYTES", a))).sum();
    assert!(
        resident > 0 && explained + (8 << 20) >= resident,
        "{explained} of {resident}"
    );
    // The default is a share of the machine; what is set holds at once.
    assert_eq!(
        number(s, &area("LIMIT_BYTES", "all")),
        number(s, "SELECT @@esker_memory_limit")
    );
    // effect: esker_memory_limit
    run(s, "SET GLOBAL esker_memory_limit = 67108864").unwrap();
    assert_eq!(number(s, &area("LIMIT_BYTES", "all")), 64 << 20);
    assert!(number(s, &area("LIMIT_BYTES", "memtables")) < 32 << 20);
    assert_eq!(instance.engine().memory().limit(), 64 << 20);
    run(s, "CREATE DATABASE d").unwrap();
    run(s, "CREATE TABLE d.large (id INT PRIMARY KEY, v LONGTEXT)").unwrap();
    let insert = |i| format!("INSERT INTO d.large VALUES ({i}, REPEAT('x', 1000000))");
    // The writes of a branch are for the log and stay in memory, those of other transactions go to disk.
    run(s, "XA START 'branch'").unwrap();
    let refused = (0..60).find_map(|i| run(s, &insert(i)).err()).unwrap();
    assert_eq!((refused.code, refused.state), (1041, "HY000"));
    assert!(number(s, &area("BYTES", "transactions")) > 8 << 20);
    run(s, "XA END 'branch'").unwrap();
    run(s, "XA ROLLBACK 'branch'").unwrap();
    run(s, "BEGIN").unwrap();
    for i in 0..60 {
        run(s, &insert(i)).unwrap();
    }
    assert!(number(s, &area("BYTES", "transactions")) < 8 << 20);
    run(s, "ROLLBACK").unwrap();
    // The thread that spills gives back what it was writing when it comes to the end of it.
    let until = Instant::now() + Duration::from_secs(60);
    while number(s, &area("BYTES", "transactions")) >= 1 << 20 {
        assert!(Instant::now() < until, "a rollback keeps memory");
        std::thread::yield_now();
    }
    run(s, "INSERT INTO d.large VALUES (1, 'x')").unwrap();
    run(s, "SET GLOBAL esker_memory_limit = DEFAULT").unwrap();
    assert!(instance.engine().memory().limit() >= 256 << 20);
    instance.shutdown().unwrap();
}

#[test]
fn the_flush_policy_follows_its_variables() {
    // effect: esker_log_flush_interval, esker_log_flush_transactions, esker_log_flush_bytes
    // effect: esker_log_flush_in_flight, esker_log_flush_overlap
    let machine = SimEnv::new(4);
    let instance = testing::open(&machine, &[]);
    let policy = || instance.engine().flush_policy();
    assert_eq!(policy(), FlushPolicy::default());
    let s = &mut session(&instance, Privileges::ALL);
    run(
        s,
        "SET GLOBAL esker_log_flush_interval = 2000, GLOBAL esker_log_flush_transactions = 64, \
         GLOBAL esker_log_flush_bytes = 100000, GLOBAL esker_log_flush_in_flight = 2, \
         GLOBAL esker_log_flush_overlap = 750",
    )
    .unwrap();
    let wanted = FlushPolicy {
        transactions: 64,
        bytes: 100_000,
        interval: Duration::from_millis(2),
        in_flight: 2,
        overlap_from: Duration::from_micros(750),
    };
    assert_eq!(policy(), wanted);
    // Out of range is brought into it, as MySQL does.
    run(s, "SET GLOBAL esker_log_flush_in_flight = 99").unwrap();
    assert_eq!(policy().in_flight, esker_engine::MAX_FLUSHES_IN_FLIGHT);
    run(s, "SET GLOBAL esker_log_flush_interval = DEFAULT").unwrap();
    assert_eq!(policy().interval, Duration::ZERO);
    instance.shutdown().unwrap();
}

#[test]
fn a_full_log_disk_is_an_error_to_writers_only_and_a_restart_is_none() {
    let machine = SimEnv::new(5);
    let instance = testing::open(&machine, &[]);
    let s = &mut session(&instance, Privileges::ALL);
    with_table(s);
    // Room for two segments of the log, and for the small files beside it.
    machine.fs.set_capacity(machine.fs.used_bytes() + (5 << 19));
    let text = "x".repeat(9000);
    let mut rows = 0;
    let error = loop {
        match run(s, &format!("INSERT INTO d.t VALUES ({rows}, '{text}')")) {
            Ok(_) => rows += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(
        (error.code, error.state),
        (1021, "HY000"),
        "{}",
        error.message
    );
    assert!(rows > 100, "{rows}");
    let counted = |s: &mut Session| number(s, "SELECT COUNT(*) FROM d.t WHERE LENGTH(v) = 9000");
    for _ in 0..3 {
        assert_eq!(counted(s), rows, "readers go on");
        let refused = run(s, &format!("INSERT INTO d.t VALUES (-1, '{text}')"));
        assert_eq!(refused.unwrap_err().code, 1021);
    }
    // The machine dies, and starts on a disk that is as full as before; twice.
    let mut after = SimEnv::with_fs(machine.fs.crash_with(CrashImage::DropUnsynced), 6);
    drop(testing::open(&after, &[]));
    after = SimEnv::with_fs(after.fs.crash_with(CrashImage::DropUnsynced), 7);
    let restarted = testing::open(&after, &[]);
    let s = &mut session(&restarted, Privileges::ALL);
    assert_eq!(counted(s), rows);
    let insert = format!("INSERT INTO d.t VALUES (-1, '{text}')");
    assert_eq!(run(s, &insert).unwrap_err().code, 1021);
    after.fs.set_capacity(u64::MAX);
    // The attempt that was refused last may still be counted against the next one.
    while let Err(error) = run(s, &insert) {
        assert_eq!(error.code, 1021);
    }
    assert_eq!(counted(s), rows + 1);
    restarted.shutdown().unwrap();
    instance.shutdown().unwrap();
}

#[test]
fn a_snapshot_has_no_position_while_the_binary_log_waits_for_space() {
    let machine = SimEnv::new(8);
    let instance = testing::open(&machine, &[("log_bin", "ON"), ("server_id", "1")]);
    let s = &mut session(&instance, Privileges::ALL);
    with_table(s);
    let begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT";
    run(s, begin).unwrap();
    run(s, "COMMIT").unwrap();
    // The log has its segment; the file of the binary log cannot grow.
    machine.fs.set_capacity(machine.fs.used_bytes());
    let text = "x".repeat(9000);
    run(s, &format!("INSERT INTO d.t VALUES (1, '{text}')")).unwrap();
    assert_eq!(run(s, begin).unwrap_err().code, 1021);
    // No transaction is open.
    run(s, "SET TRANSACTION READ WRITE").unwrap();
    machine.fs.set_capacity(u64::MAX);
    while let Err(error) = run(s, begin) {
        assert_eq!(error.code, 1021);
    }
    run(s, "COMMIT").unwrap();
    instance.shutdown().unwrap();
}

/// A statement that was killed.
struct Killed;

impl SessionInfo for Killed {
    fn go_on(&self, _: usize) -> SqlResult<()> {
        Err(interrupted())
    }
}

#[test]
fn counting_the_rows_of_partitions_ends_when_it_is_killed() {
    let machine = SimEnv::new(7);
    let instance = testing::open(&machine, &[]);
    let s = &mut session(&instance, Privileges::ALL);
    run(s, "CREATE DATABASE d").unwrap();
    let sql = "CREATE TABLE d.p (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2";
    run(s, sql).unwrap();
    run(s, "INSERT INTO d.p VALUES (1), (2), (3)").unwrap();
    let table = instance.catalog.table_or_error("d", "p").unwrap();
    let sizes = |session: &dyn SessionInfo| partition_rows::sizes(&instance, &table, session);
    assert_eq!(sizes(&Killed).err(), Some(interrupted()));
    // Nothing of it was kept.
    let counted = sizes(&NoSession).unwrap().expect("can be told");
    assert_eq!(counted.counts, [1, 2]);
    instance.shutdown().unwrap();
}
