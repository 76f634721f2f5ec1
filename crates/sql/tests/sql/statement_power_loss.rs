//! Power loss and kill at every step of statements that commit themselves: about accounts, whose list is in a file;
//! CREATE TABLE … SELECT, whose rows are in trees; changes of rows whose foreign keys cascade, among generated columns.
//!
//! One run keeps what crashes at many moments would leave of the disk, with the number of statements that were
//! acknowledged by then. Each is opened: the accounts and tables are those after as many statements as the binary log
//! has, each in a transaction of its own. `ESKER_SIM_SEEDS` runs (default 1) from `ESKER_SIM_FIRST_SEED` on; of their
//! disk operations every `ESKER_SIM_STRIDE`th (default 3) is a crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common;
use crate::common::ask::Client;
use esker_vfs::sim::{CrashImage, SimEnv};

const VARIABLES: [(&str, &str); 5] = [
    ("log_bin", "ON"),
    ("gtid_mode", "ON"),
    ("enforce_gtid_consistency", "ON"),
    ("esker_log_segment_size", "1048576"),
    ("esker_log_buffer_size", "1048576"),
];

/// What a run does. The state is asked for after each statement, and again after each crash.
struct Scenario {
    setup: &'static [&'static str],
    /// Each a transaction of the binary log.
    statements: &'static [&'static str],
    state: fn(&mut Client) -> Vec<String>,
    /// One more, after a crash.
    later: &'static str,
}

const ACCOUNTS: Scenario = Scenario {
    setup: &[
        "CREATE DATABASE d",
        "CREATE TABLE d.s (id INT PRIMARY KEY, v VARCHAR(9))",
        "INSERT INTO d.s VALUES (1, 'one'), (2, 'two'), (3, NULL)",
    ],
    statements: &ABOUT_ACCOUNTS,
    state: accounts_and_tables,
    later: "CREATE USER later IDENTIFIED BY 'word'",
};

const FAMILIES: Scenario = Scenario {
    setup: &[
        "CREATE DATABASE d",
        "CREATE TABLE d.parent (id INT PRIMARY KEY, v INT NOT NULL, twice INT AS (v * 2) VIRTUAL, \
         name VARCHAR(20) AS (CONCAT('p', v)) STORED, KEY twice (twice), KEY name (name))",
        "CREATE TABLE d.child (id INT PRIMARY KEY, v INT NOT NULL, parent INT NOT NULL, below INT AS (parent + id) VIRTUAL, \
         more INT AS (v + id) STORED, KEY below (below), UNIQUE KEY more (more, id), \
         FOREIGN KEY (parent) REFERENCES d.parent (id) ON DELETE CASCADE ON UPDATE CASCADE)",
        "CREATE TABLE d.grandchild (id INT PRIMARY KEY, child INT NOT NULL, \
         FOREIGN KEY (child) REFERENCES d.child (id) ON DELETE CASCADE)",
        "CREATE TABLE d.friend (id INT PRIMARY KEY, parent INT, is_alone BOOLEAN AS (parent IS NULL) VIRTUAL, \
         KEY is_alone (is_alone), FOREIGN KEY (parent) REFERENCES d.parent (id) ON DELETE SET NULL ON UPDATE SET NULL)",
    ],
    statements: &[
        "INSERT INTO d.parent (id, v) VALUES (1, 10), (2, 20), (3, 30), (4, 40)",
        "INSERT INTO d.child (id, v, parent) VALUES (1, 1, 1), (2, 2, 1), (3, 3, 2), (4, 4, 3)",
        "INSERT INTO d.grandchild VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 4)",
        "INSERT INTO d.friend (id, parent) VALUES (1, 1), (2, 2), (3, 3), (4, NULL)",
        "UPDATE d.parent SET id = id + 10 WHERE id < 3",
        "UPDATE d.child SET v = v * 100",
        "DELETE FROM d.parent WHERE id = 11",
        "ALTER TABLE d.child ADD COLUMN late INT AS (v + 1) STORED, ADD INDEX late (late), FORCE",
        "UPDATE d.parent SET id = 5, v = 50 WHERE id = 12",
        "REPLACE INTO d.parent (id, v) VALUES (3, 33)",
        "INSERT INTO d.friend (id, parent) VALUES (5, 5), (6, 3) ON DUPLICATE KEY UPDATE id = id + 10",
        "DELETE FROM d.parent WHERE id > 3",
    ],
    state: families,
    later: "INSERT INTO d.parent (id, v) VALUES (100, 1)",
};

const ABOUT_ACCOUNTS: [&str; 12] = [
    "CREATE USER a IDENTIFIED BY 'first', b",
    "CREATE TABLE d.x SELECT * FROM d.s",
    "GRANT SELECT, INSERT ON d.* TO a",
    "CREATE ROLE r",
    "GRANT r TO a, b",
    "ALTER USER a IDENTIFIED BY 'second' ACCOUNT LOCK",
    "CREATE TABLE d.y (id INT AUTO_INCREMENT PRIMARY KEY, KEY (v)) SELECT v FROM d.s",
    "SET PASSWORD FOR b = 'third'",
    "REVOKE INSERT ON d.* FROM a",
    "RENAME USER b TO c",
    "CREATE TABLE d.z SELECT * FROM d.s WHERE id < 0",
    "DROP USER a",
];

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// Accounts with their rights, and tables with their rows.
fn accounts_and_tables(c: &mut Client) -> Vec<String> {
    let mut state = c.ok(
        "SELECT user, host, authentication_string, account_locked FROM mysql.user ORDER BY user, host",
    );
    state.extend(c.ok("SELECT * FROM information_schema.SCHEMA_PRIVILEGES ORDER BY 1, 4"));
    state.extend(c.ok("SELECT * FROM mysql.role_edges ORDER BY 1, 2, 3, 4"));
    state.extend(tables(c));
    state
}

/// All tables with their rows.
fn tables(c: &mut Client) -> Vec<String> {
    let names = c
        .ok("SELECT table_name FROM information_schema.tables WHERE table_schema = 'd' ORDER BY 1");
    let rows = names.iter().map(|name| {
        let name = name.trim_end_matches('|');
        let rows = c.ok(&format!("SELECT * FROM d.{name} ORDER BY 1"));
        format!("{name}: {rows:?}")
    });
    rows.collect()
}

/// The tables of a family, of which what has to be true always is.
fn families(c: &mut Client) -> Vec<String> {
    const BROKEN: [&str; 6] = [
        "parent WHERE NOT (twice <=> v * 2 AND name <=> CONCAT('p', v))",
        "child WHERE NOT (below <=> parent + id AND more <=> v + id)",
        "friend WHERE NOT (is_alone <=> (parent IS NULL))",
        "child WHERE parent NOT IN (SELECT id FROM d.parent)",
        "grandchild WHERE child NOT IN (SELECT id FROM d.child)",
        "friend WHERE parent NOT IN (SELECT id FROM d.parent)",
    ];
    for broken in BROKEN {
        let rows = c.ok(&format!("SELECT * FROM d.{broken}"));
        assert_eq!(rows, Vec::<String>::new(), "{broken}");
    }
    // Every index has what its table has.
    for table in ["parent", "child", "grandchild", "friend"] {
        let checked = c.ok(&format!("CHECK TABLE d.{table}"));
        assert_eq!(checked, [format!("d.{table}|check|status|OK|")]);
    }
    tables(c)
}

/// Statements that the binary log has behind the first `before`.
fn logged(c: &mut Client, before: usize) -> usize {
    // The writer follows the log: FLUSH waits until it has written all that is durable.
    c.ok("FLUSH BINARY LOGS");
    let executed = c.ok("SELECT @@GLOBAL.gtid_executed").concat();
    let last = executed.trim_end_matches('|').rsplit(['-', ':']).next();
    last.and_then(|n| n.parse::<usize>().ok())
        .expect("a number")
        - before
}

#[test]
fn accounts_and_filled_tables_are_what_the_binary_log_says() {
    survives_crashes(&ACCOUNTS);
}

#[test]
fn cascades_and_generated_columns_are_what_the_binary_log_says() {
    survives_crashes(&FAMILIES);
}

#[expect(clippy::print_stdout, reason = "the figures of a long run by hand")]
fn survives_crashes(scenario: &Scenario) {
    let first = setting("ESKER_SIM_FIRST_SEED", 1);
    let stride = setting("ESKER_SIM_STRIDE", 3);
    for seed in first..first + setting("ESKER_SIM_SEEDS", 1) {
        let machine = SimEnv::new(seed);
        let instance = common::open(&machine, &VARIABLES);
        let mut c = Client::new(&instance, 1);
        for sql in scenario.setup {
            c.ok(sql);
        }
        let before = logged(&mut c, 0);
        let mut states = vec![(scenario.state)(&mut c)];
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let (known, first_op) = (acknowledged.clone(), machine.fs.ops() + seed % stride);
        machine.fs.keep_crashes(move |ops| {
            let is_due = ops >= first_op && (ops - first_op).is_multiple_of(stride);
            let image = match (ops / stride) % 3 {
                // A killed process loses nothing that it has written.
                0 => CrashImage::KeepUnsynced,
                _ => CrashImage::Random(seed.wrapping_mul(31) + ops),
            };
            is_due.then(|| (image, known.load(Ordering::SeqCst)))
        });
        for sql in scenario.statements {
            c.ok(sql);
            acknowledged.fetch_add(1, Ordering::SeqCst);
            states.push((scenario.state)(&mut c));
        }
        assert_eq!(
            logged(&mut c, before),
            scenario.statements.len(),
            "a transaction each"
        );
        let mut seen = vec![0; states.len()];
        let kept = machine.fs.kept_crashes();
        let crashes = kept.len();
        for (fs, known) in kept {
            let after = common::open(&SimEnv::with_fs(fs, seed), &VARIABLES);
            let mut c = Client::new(&after, 1);
            let done = logged(&mut c, before);
            let context = format!("seed {seed}, {known} acknowledged, {done} logged");
            assert!(known <= done && done <= known + 1, "{context}");
            assert_eq!((scenario.state)(&mut c), states[done], "{context}");
            // And life goes on.
            c.ok(scenario.later);
            assert_eq!(logged(&mut c, before), done + 1, "{context}");
            seen[done] += 1;
        }
        println!("seed {seed}: {crashes} crashes, by statements done: {seen:?}");
        let reached = seen.iter().filter(|n| **n > 0).count();
        assert!(2 * reached > seen.len(), "seed {seed}: {seen:?}");
    }
}
