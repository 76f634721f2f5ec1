//! Power loss and kill at every step of statements that commit themselves: about accounts, whose list is in a file, and
//! CREATE TABLE … SELECT, whose rows are in trees.
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

const STATEMENTS: [&str; 12] = [
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
fn state(c: &mut Client) -> Vec<String> {
    let mut state = c.ok(
        "SELECT user, host, authentication_string, account_locked FROM mysql.user ORDER BY user, host",
    );
    state.extend(c.ok("SELECT * FROM information_schema.SCHEMA_PRIVILEGES ORDER BY 1, 4"));
    state.extend(c.ok("SELECT * FROM mysql.role_edges ORDER BY 1, 2, 3, 4"));
    for table in
        c.ok("SELECT table_name FROM information_schema.tables WHERE table_schema = 'd' ORDER BY 1")
    {
        let name = table.trim_end_matches('|');
        state.push(format!(
            "{name}: {:?}",
            c.ok(&format!("SELECT * FROM d.{name} ORDER BY 1"))
        ));
    }
    state
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
#[expect(clippy::print_stdout, reason = "the figures of a long run by hand")]
fn accounts_and_filled_tables_are_what_the_binary_log_says() {
    let first = setting("ESKER_SIM_FIRST_SEED", 1);
    let stride = setting("ESKER_SIM_STRIDE", 3);
    for seed in first..first + setting("ESKER_SIM_SEEDS", 1) {
        let machine = SimEnv::new(seed);
        let instance = common::open(&machine, &VARIABLES);
        let mut c = Client::new(&instance, 1);
        c.ok("CREATE DATABASE d");
        c.ok("CREATE TABLE d.s (id INT PRIMARY KEY, v VARCHAR(9))");
        c.ok("INSERT INTO d.s VALUES (1, 'one'), (2, 'two'), (3, NULL)");
        let before = logged(&mut c, 0);
        let mut states = vec![state(&mut c)];
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
        for sql in STATEMENTS {
            c.ok(sql);
            acknowledged.fetch_add(1, Ordering::SeqCst);
            states.push(state(&mut c));
        }
        assert_eq!(
            logged(&mut c, before),
            STATEMENTS.len(),
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
            assert_eq!(state(&mut c), states[done], "{context}");
            // And life goes on.
            c.ok("CREATE USER later IDENTIFIED BY 'word'");
            assert_eq!(logged(&mut c, before), done + 1, "{context}");
            seen[done] += 1;
        }
        println!("seed {seed}: {crashes} crashes, by statements done: {seen:?}");
        let reached = seen.iter().filter(|n| **n > 0).count();
        assert!(2 * reached > seen.len(), "seed {seed}: {seen:?}");
    }
}
