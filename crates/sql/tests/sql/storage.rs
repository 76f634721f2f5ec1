//! What a client is told of the storage below its tables: CHECK TABLE, a disk that is full.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::common::rows::Rows;
use crate::common::{await_durable, client, open};
use esker_engine::{Direction, Isolation, Tree, TreeId, View};
use esker_sql::{Instance, Mode, OutcomeKind, Request, Session, Step};
use esker_types::SqlError;
use esker_vfs::sim::SimEnv;

const EXTENTS: &str = "/data/extents/000000.extents";
/// How often a test looks whether the background has done something, and the pause between.
const LOOKS: usize = 10_000;
const PAUSE: Duration = Duration::from_millis(10);

fn run(session: &mut Session, sql: &str) -> Result<Vec<String>, SqlError> {
    session.start(Request::Query(sql.as_bytes()));
    let Step::Done(outcome) = session.step(Mode::Thread) else {
        panic!("nothing to wait for in {sql}");
    };
    let mut rows = Rows::default();
    match outcome.result {
        OutcomeKind::Err(error) => return Err(error),
        OutcomeKind::Ok(_) => {}
        OutcomeKind::Rows(_) => while session.next_rows(&mut rows, usize::MAX)?.more {},
    }
    await_durable(session, outcome.depends_on);
    Ok(rows.joined("|"))
}

fn begin(machine: &SimEnv) -> (Arc<Instance>, Session) {
    let instance = open(machine, &[]);
    let session = Session::new(instance.clone(), client(1));
    (instance, session)
}

fn fill(session: &mut Session) {
    run(session, "CREATE DATABASE d").unwrap();
    let table = "CREATE TABLE d.t (a INT, b VARCHAR(20), c INT, PRIMARY KEY (a, b), KEY by_c (c), UNIQUE (c, a))";
    run(session, table).unwrap();
    for a in 0..50 {
        let row = format!("INSERT INTO d.t VALUES ({a}, 'row {a}', {})", a % 7);
        run(session, &row).unwrap();
    }
}

fn tree_of(instance: &Instance, session: &mut Session, index: &str) -> Tree {
    let query = format!(
        "SELECT TREE_ID FROM information_schema.ESKER_TREES WHERE TABLE_NAME = 't' AND INDEX_NAME = '{index}'"
    );
    let id = run(session, &query).unwrap()[0].parse().unwrap();
    instance.engine().tree(TreeId(id)).unwrap()
}

#[test]
fn check_table_finds_damage_and_says_where() {
    let machine = SimEnv::new(3);
    let (instance, mut s) = begin(&machine);
    fill(&mut s);
    instance.engine().flush_all().unwrap();
    assert_eq!(
        run(&mut s, "CHECK TABLE d.t").unwrap(),
        ["d.t|check|status|OK"]
    );
    // The rows are cached from here on, which must not hide what is on disk.
    run(&mut s, "SELECT COUNT(b) FROM d.t").unwrap();
    let engine = instance.engine();
    let primary = tree_of(&instance, &mut s, "PRIMARY");
    let version = Arc::clone(&primary.superversion().version);
    let (_, extent) = version.levels().extents().next().unwrap();
    let place = u64::from(extent.meta().id.0) * (2 << 20) + 300;
    machine.fs.flip_bit(Path::new(EXTENTS), place, 2).unwrap();
    for options in ["", " QUICK", " EXTENDED"] {
        let rows = run(&mut s, &format!("CHECK TABLE d.t{options}")).unwrap();
        assert_eq!(rows.len(), 2, "{rows:?}");
        for part in [
            "d.t|check|error|Index 'PRIMARY': 50 row versions with keys from (0,",
            "to (49,",
            "000000.extents",
        ] {
            assert!(rows[0].contains(part), "{rows:?}");
        }
        assert_eq!(rows[1], "d.t|check|error|Corrupt");
    }
    assert_eq!(engine.stats().storage.quarantined_extents, 1);
    machine.fs.flip_bit(Path::new(EXTENTS), place, 2).unwrap();
    assert_eq!(
        run(&mut s, "CHECK TABLE d.t").unwrap(),
        ["d.t|check|status|OK"]
    );
    let rows = run(&mut s, "CHECK TABLE d.nothing, d.t").unwrap();
    assert_eq!(
        rows[0],
        "d.nothing|check|Error|Table 'd.nothing' doesn't exist"
    );
    assert_eq!(rows.last().unwrap(), "d.t|check|status|OK");
}

#[test]
fn check_table_compares_index_entries_with_rows() {
    let machine = SimEnv::new(4);
    let (instance, mut s) = begin(&machine);
    fill(&mut s);
    let by_c = tree_of(&instance, &mut s, "by_c");
    let engine = instance.engine();
    // One entry is lost, another one points to a row that is not there.
    let mut txn = engine.begin(Isolation::ReadCommitted);
    let all = std::ops::Bound::Unbounded;
    let (forward, view) = (Direction::Forward, View::Latest);
    let mut cursor = txn.scan(&by_c, all, all, forward, view).unwrap();
    let first = cursor.next().unwrap().unwrap().0.to_vec();
    let mut stray = cursor.next().unwrap().unwrap().0.to_vec();
    drop(cursor);
    txn.delete(&by_c, &first).unwrap();
    let last = stray.len() - 1;
    stray[last] ^= 1;
    txn.put(&by_c, &stray, &[]).unwrap();
    let seq = txn.commit().unwrap().seq.unwrap();
    engine.wait_durable(seq).block().unwrap();
    let rows = run(&mut s, "CHECK TABLE d.t").unwrap();
    assert_eq!(
        rows,
        [
            "d.t|check|Warning|Index 'by_c' has an entry (0) for which there is no row",
            "d.t|check|error|Index 'by_c' does not match the rows",
            "d.t|check|error|Corrupt",
        ]
    );
    assert_eq!(
        run(&mut s, "CHECK TABLE d.t QUICK").unwrap(),
        ["d.t|check|status|OK"]
    );
    let mut txn = engine.begin(Isolation::ReadCommitted);
    txn.delete(&by_c, &stray).unwrap();
    let seq = txn.commit().unwrap().seq.unwrap();
    engine.wait_durable(seq).block().unwrap();
    let rows = run(&mut s, "CHECK TABLE d.t").unwrap();
    let short = "d.t|check|Warning|Index 'by_c' contains 49 entries, should be 50.";
    assert_eq!((rows.len(), &*rows[0]), (3, short));
}

#[test]
fn analyze_and_optimize_work_on_the_table_they_are_given() {
    let machine = SimEnv::new(5);
    let (instance, mut s) = begin(&machine);
    fill(&mut s);
    instance.engine().flush_all().unwrap();
    assert_eq!(
        run(&mut s, "ANALYZE TABLE d.t").unwrap(),
        ["d.t|analyze|status|OK"]
    );
    assert_eq!(
        run(&mut s, "OPTIMIZE TABLE d.t").unwrap(),
        [
            "d.t|optimize|note|Table does not support optimize, doing recreate + analyze instead",
            "d.t|optimize|status|OK"
        ]
    );
    let levels = "SELECT SUM(LEVEL0_EXTENTS), SUM(LEVEL1_EXTENTS), SUM(LEVEL2_EXTENTS) \
                  FROM information_schema.ESKER_TREES WHERE TABLE_NAME = 't'";
    assert_eq!(run(&mut s, levels).unwrap(), ["0|0|3"]);
    assert_eq!(
        run(&mut s, "SELECT COUNT(*) FROM d.t WHERE c = 3").unwrap(),
        ["7"]
    );
}

#[test]
fn a_server_starts_on_a_full_disk_and_goes_on_when_there_is_room() {
    let machine = SimEnv::new(6);
    let (instance, mut s) = begin(&machine);
    fill(&mut s);
    instance.engine().flush_all().unwrap();
    run(&mut s, "UPDATE d.t SET c = c + 1 WHERE a < 10").unwrap();
    drop(s);
    instance.shutdown().unwrap();
    drop(instance);
    let fs = machine.env().fs;
    machine.fs.set_capacity(machine.fs.used_bytes());
    assert_eq!(fs.free_bytes(Path::new("/data")).unwrap(), 0);
    let (instance, mut s) = begin(&machine);
    assert_eq!(run(&mut s, "SELECT SUM(c) FROM d.t").unwrap(), ["157"]);
    assert_eq!(
        run(&mut s, "CHECK TABLE d.t").unwrap(),
        ["d.t|check|status|OK"]
    );
    // There may be room for it in what is held back for changes that make room.
    if let Err(error) = run(&mut s, "CREATE TABLE d.u (a INT)") {
        assert_eq!(error.code, 1021, "{error:?}");
    }
    machine.fs.set_capacity(u64::MAX);
    let mut looks = 0;
    while let Err(error) = run(&mut s, "CREATE TABLE IF NOT EXISTS d.u (a INT)") {
        assert!(looks < LOOKS, "{error:?}");
        looks += 1;
        thread::sleep(PAUSE);
    }
    run(&mut s, "INSERT INTO d.u VALUES (1)").unwrap();
    instance.engine().flush_all().unwrap();
    assert_eq!(run(&mut s, "SELECT * FROM d.u").unwrap(), ["1"]);
}
