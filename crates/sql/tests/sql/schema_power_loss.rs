//! Power loss and kill at every step of online schema changes under load, on a simulated disk.
//!
//! One run makes an index, converts a column and changes the primary key while rows change, and keeps what crashes at
//! many moments would leave of the disk, with what was acknowledged by then. Each is opened and held against the
//! promises: the schema is the one before or after a change, as the binary log says; the rows are those after so many
//! writes as the binary log has; every index says what the rows say; no tree is left over.
//!
//! `ESKER_SIM_SEEDS` runs (default 1) from `ESKER_SIM_FIRST_SEED` on; of their disk operations every
//! `ESKER_SIM_STRIDE`th (default 16) is a crash.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use crate::common;
use crate::common::ask::Client;
use esker_sql::Instance;
use esker_vfs::sim::{CrashImage, SimEnv, SimRng};
use parking_lot::Mutex;

const VARIABLES: [(&str, &str); 6] = [
    ("log_bin", "ON"),
    ("gtid_mode", "ON"),
    ("enforce_gtid_consistency", "ON"),
    ("esker_memtable_size", "1048576"),
    ("esker_log_segment_size", "1048576"),
    ("esker_log_buffer_size", "1048576"),
];
const ROWS: u64 = 200;
/// Writes that are certain to come before a change may end.
const WRITES_WITHIN: u32 = 15;
/// Most writes beside one change.
const MAX_WRITES: u32 = 60;

const CHANGES: [&str; 4] = [
    "ALTER TABLE t ADD INDEX i (v, s), ADD UNIQUE INDEX u (id, v), ADD FULLTEXT INDEX f (s)",
    "ALTER TABLE t MODIFY v BIGINT NOT NULL DEFAULT 7, DROP INDEX u",
    "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (n, id), LOCK=NONE",
    "ALTER TABLE t DROP INDEX i, ADD COLUMN g INT AS (n + 1) STORED, ADD INDEX g (g)",
];

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// What a client knows, in the order in which it came to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    WriteSent,
    WriteAcknowledged,
    ChangeSent,
    ChangeAcknowledged,
}

type Journal = Arc<Mutex<Vec<Known>>>;
/// `v` and `n` by `id`.
type Rows = BTreeMap<u64, (u64, u64)>;

/// A run, and what the table was after each write and each change.
struct Run {
    seed: u64,
    dice: SimRng,
    journal: Journal,
    rows: Vec<Rows>,
    schemas: Vec<String>,
    /// Transactions of the binary log, and trees without a table, before the first write.
    logged: usize,
    nameless: Vec<String>,
}

fn session(instance: &Arc<Instance>, id: u64) -> Client {
    let mut client = Client::new(instance, id);
    client.ok("USE d");
    client
}

const TREES: &str = "SELECT COUNT(*) FROM information_schema.ESKER_TREES WHERE TABLE_NAME";

impl Run {
    fn begin(seed: u64, instance: &Arc<Instance>) -> Self {
        let mut c = Client::new(instance, 1);
        for sql in [
            "CREATE DATABASE d",
            "USE d",
            "CREATE TABLE t (id INT PRIMARY KEY, v INT, n INT NOT NULL, s VARCHAR(40), KEY s (s))",
            "SET GLOBAL esker_ddl_window = 5",
        ] {
            c.ok(sql);
        }
        c.ok(&format!(
            "INSERT INTO t WITH RECURSIVE r (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < {ROWS}) \
             SELECT i, i, 0, CONCAT('row ', i) FROM r"
        ));
        let logged = Logged::read(&mut c);
        Self {
            seed,
            dice: SimRng::new(seed ^ 0x5C4E),
            journal: Journal::default(),
            rows: vec![(1..=ROWS).map(|id| (id, (id, 0))).collect()],
            schemas: vec![schema(&mut c)],
            logged: logged.transactions,
            nameless: c.ok(&format!("{TREES} IS NULL")),
        }
    }

    fn note(&self, known: Known) {
        self.journal.lock().push(known);
    }

    /// Writes one row, one of three ways.
    fn write(&mut self, c: &mut Client) {
        let mut rows = self.rows.last().expect("the first").clone();
        let (id, value) = (1 + self.dice.below(2 * ROWS), self.dice.below(30_000));
        let sql = match rows.get_mut(&id) {
            None => {
                rows.insert(id, (value, 1));
                format!("INSERT INTO t (id, v, n, s) VALUES ({id}, {value}, 1, 'new {id}')")
            }
            Some(_) if self.dice.chance(25) => {
                rows.remove(&id);
                format!("DELETE FROM t WHERE id = {id}")
            }
            Some((v, n)) => {
                (*v, *n) = (value, *n + 1);
                format!(
                    "UPDATE t SET v = {value}, n = n + 1, s = 'row {id} now {value}' WHERE id = {id}"
                )
            }
        };
        self.rows.push(rows);
        self.note(Known::WriteSent);
        c.ok(&sql);
        self.note(Known::WriteAcknowledged);
    }

    /// One change, with writes beside it: a reader keeps it from ending before some of them are done.
    fn change(&mut self, instance: &Arc<Instance>, sql: &'static str) {
        let (mut reader, mut writer) = (session(instance, 2), session(instance, 3));
        let mut changer = session(instance, 4);
        reader.ok("BEGIN");
        reader.ok("SELECT COUNT(*) FROM t");
        self.note(Known::ChangeSent);
        let journal = self.journal.clone();
        let change = thread::spawn(move || {
            changer.ok(sql);
            journal.lock().push(Known::ChangeAcknowledged);
        });
        for nth in 0..MAX_WRITES {
            if nth == WRITES_WITHIN {
                reader.ok("COMMIT");
            }
            if change.is_finished() {
                break;
            }
            self.write(&mut writer);
        }
        change.join().expect("the change");
        self.schemas.push(schema(&mut writer));
    }

    /// Keeps the disks that crashes leave from here on.
    fn watch(&self, machine: &SimEnv, stride: u64) {
        let (journal, seed) = (self.journal.clone(), self.seed);
        let first = machine.fs.ops() + seed % stride;
        machine.fs.keep_crashes(move |ops| {
            let is_due = ops >= first && (ops - first).is_multiple_of(stride);
            let image = match (ops / stride) % 3 {
                // A killed process loses nothing that it has written.
                0 => CrashImage::KeepUnsynced,
                _ => CrashImage::Random(seed.wrapping_mul(31) + ops),
            };
            is_due.then(|| (image, journal.lock().len()))
        });
    }

    /// Opens what a crash has left, at which the client knew the first `known` of the journal. Was it in the middle of
    /// a change?
    fn check(&self, machine: &SimEnv, known: usize) -> bool {
        let journal = self.journal.lock()[..known].to_vec();
        let count = |what| journal.iter().filter(|k| **k == what).count();
        let instance = common::open(machine, &VARIABLES);
        let mut c = session(&instance, 1);
        let logged = Logged::read(&mut c);
        let context = format!("seed {}, {known} known", self.seed);
        let writes = logged.transactions - self.logged;
        let (acknowledged, sent) = (count(Known::WriteAcknowledged), count(Known::WriteSent));
        assert!(
            acknowledged <= writes && writes <= sent,
            "{context}: {writes} writes, {acknowledged} acknowledged, {sent} sent"
        );
        let changes = logged.changes;
        let (acknowledged, sent) = (count(Known::ChangeAcknowledged), count(Known::ChangeSent));
        assert!(
            acknowledged <= changes && changes <= sent,
            "{context}: {changes} changes, {acknowledged} acknowledged, {sent} sent"
        );
        assert_eq!(schema(&mut c), self.schemas[changes], "{context}");
        let line = |(id, (v, n)): (&u64, &(u64, u64))| format!("{id}|{v}|{n}|");
        let expected: Vec<String> = self.rows[writes].iter().map(line).collect();
        assert_eq!(
            c.ok("SELECT id, v, n FROM t ORDER BY id"),
            expected,
            "{context}"
        );
        assert_eq!(c.ok("CHECK TABLE t"), ["d.t|check|status|OK|"], "{context}");
        assert_eq!(
            c.ok(&format!("{TREES} IS NULL")),
            self.nameless,
            "{context}"
        );
        let indexes = "SELECT COUNT(DISTINCT INDEX_NAME) FROM information_schema.STATISTICS WHERE TABLE_NAME = 't'";
        assert_eq!(
            c.ok(&format!("{TREES} = 't'")),
            c.ok(indexes),
            "{context}: trees"
        );
        // And life goes on.
        c.ok("ALTER TABLE t ADD INDEX again (n, v)");
        assert_eq!(c.ok("CHECK TABLE t"), ["d.t|check|status|OK|"], "{context}");
        acknowledged < sent
    }
}

fn schema(c: &mut Client) -> String {
    c.ok("SHOW CREATE TABLE t").concat()
}

/// What the binary log has.
struct Logged {
    transactions: usize,
    changes: usize,
}

impl Logged {
    fn read(c: &mut Client) -> Self {
        // The writer follows the log: FLUSH waits until it has written all that is durable.
        c.ok("FLUSH BINARY LOGS");
        let mut events = Vec::new();
        for file in c.ok("SHOW BINARY LOGS") {
            let name = file.split('|').next().expect("a name");
            events.extend(c.ok(&format!("SHOW BINLOG EVENTS IN '{name}'")));
        }
        let count = |what: &str| events.iter().filter(|e| e.contains(what)).count();
        Self {
            transactions: count("|Xid|"),
            changes: count("ALTER TABLE t"),
        }
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures of a long run by hand")]
fn a_crash_leaves_the_schema_as_before_or_after() {
    let first = setting("ESKER_SIM_FIRST_SEED", 1);
    let seeds = setting("ESKER_SIM_SEEDS", 1);
    let stride = setting("ESKER_SIM_STRIDE", 16);
    for seed in first..first + seeds {
        let machine = SimEnv::new(seed);
        let instance = common::open(&machine, &VARIABLES);
        let mut run = Run::begin(seed, &instance);
        run.watch(&machine, stride);
        for sql in CHANGES {
            run.change(&instance, sql);
        }
        let kept = machine.fs.kept_crashes();
        let crashes = kept.len();
        let check = |(fs, known)| run.check(&SimEnv::with_fs(fs, seed), known);
        let within = kept.into_iter().map(check).filter(|is_within| *is_within);
        let within = within.count();
        println!("seed {seed}: {crashes} crashes, {within} of them within a change");
        assert!(within > 0, "seed {seed}: no change was interrupted");
    }
}
