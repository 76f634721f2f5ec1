//! kill -9 in the middle of transfers between accounts, ordinary and XA ones: every acknowledged commit is there, none
//! is half there, what was prepared can be committed, the sum never changes.
//!
//! Settings of the environment: `ESKER_CRASH_ROUNDS` (default 50) and, for every combination of the commit switches,
//! `ESKER_CRASH_COMBINATION_ROUNDS` (default 2): how often the server is killed. `ESKER_CRASH_SEED` (default 1) decides
//! when, and what the clients transfer. A long run by hand:
//!
//! ```text
//! ESKER_CRASH_COMBINATION_ROUNDS=100 ESKER_CRASH_SEED=7 cargo test -p esker --test server crash::
//! ```

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Ask, PATIENCE, Server, setting};
use esker_server::client::{Client, ClientError};

const ACCOUNTS: u64 = 50;
const OPENING: i64 = 1000;
const CLIENTS: u64 = 6;
/// One transfer of so many is an XA transaction.
const XA_ONE_IN: u64 = 3;

/// xorshift64*, so that a seed repeats a run's choices.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % below
    }
}

/// What clients know.
#[derive(Default)]
struct Journal {
    /// Transfers whose commit was acknowledged, or whose preparation was: those are committed after a crash.
    promised: Vec<u64>,
    /// Transfers whose commit or preparation was sent without an answer.
    uncertain: Vec<u64>,
    /// How many of the promised were XA transactions.
    xa: usize,
}

/// How a statement ended.
enum Ended {
    Well,
    /// In a deadlock, which is part of the game.
    Deadlock,
    /// The server is gone.
    Gone,
}

fn run(c: &mut Client, sql: &str) -> Ended {
    match c.query(sql, &mut |_| ()) {
        Ok(()) => Ended::Well,
        Err(ClientError::Server(e)) if e.code == 1213 => Ended::Deadlock,
        Err(_) => Ended::Gone,
    }
}

/// Transfers until the server is gone.
fn transfer(server: &Server, client: u64, round: u64, seed: u64, journal: &Mutex<Journal>) {
    let Ok(mut c) = server.try_connect() else {
        return;
    };
    let mut dice = Dice(seed ^ (client + 1) << 32 ^ (round + 1) << 8 | 1);
    for n in 0.. {
        let id = (round * CLIENTS + client) * 1_000_000 + n;
        let (from, to) = (dice.roll(ACCOUNTS), dice.roll(ACCOUNTS));
        let amount = dice.roll(20) as i64;
        let xa = dice.roll(XA_ONE_IN) == 0;
        let begin = match xa {
            true => format!("XA START '{id}'"),
            false => "BEGIN".to_owned(),
        };
        let mut body = vec![
            begin,
            format!("UPDATE bank.account SET balance = balance - {amount} WHERE id = {from}"),
            format!("UPDATE bank.account SET balance = balance + {amount} WHERE id = {to}"),
            format!("INSERT INTO bank.transfer VALUES ({id}, {from}, {to}, {amount})"),
        ];
        if xa {
            body.push(format!("XA END '{id}'"));
        }
        let ended = body.iter().find_map(|sql| match run(&mut c, sql) {
            Ended::Well => None,
            other => Some(other),
        });
        match ended {
            None => (),
            Some(Ended::Deadlock) if !xa => continue,
            Some(Ended::Deadlock) => {
                // The answer of XA END is the deadlock's; the branch is rolled back.
                if c.query(&format!("XA END '{id}'"), &mut |_| ()).is_ok() {
                    return;
                }
                match run(&mut c, &format!("XA ROLLBACK '{id}'")) {
                    Ended::Well => continue,
                    _ => return,
                }
            }
            Some(_) => return,
        }
        let promise = match xa {
            true => format!("XA PREPARE '{id}'"),
            false => "COMMIT".to_owned(),
        };
        match run(&mut c, &promise) {
            Ended::Well => {
                let mut journal = journal.lock().expect("journal");
                journal.promised.push(id);
                journal.xa += usize::from(xa);
            }
            _ => {
                journal.lock().expect("journal").uncertain.push(id);
                return;
            }
        }
        if xa && !matches!(run(&mut c, &format!("XA COMMIT '{id}'")), Ended::Well) {
            return;
        }
    }
}

/// What a transaction manager does after a crash: decides about everything that is prepared.
fn commit_prepared(c: &mut Client) {
    for row in c.rows("XA RECOVER") {
        let id = row[3].as_ref().expect("identifier");
        c.run(&format!("XA COMMIT '{id}'"));
    }
    assert!(c.rows("XA RECOVER").is_empty());
}

/// Everything the database says must follow from the transfers it holds, and those must contain
/// every promised one.
fn verify(server: &Server, journal: &Journal) {
    let mut c = server.connect();
    commit_prepared(&mut c);
    let mut balance: HashMap<u64, i64> = (0..ACCOUNTS).map(|id| (id, OPENING)).collect();
    let mut present = HashSet::new();
    for row in c.rows("SELECT id, src, dst, amount FROM bank.transfer") {
        let n: Vec<i64> = row
            .iter()
            .map(|c| c.as_ref().expect("cell").parse().expect("number"))
            .collect();
        assert!(present.insert(n[0] as u64), "transfer {} twice", n[0]);
        *balance.get_mut(&(n[1] as u64)).expect("account") -= n[3];
        *balance.get_mut(&(n[2] as u64)).expect("account") += n[3];
    }
    let promised: HashSet<u64> = journal.promised.iter().copied().collect();
    for id in &promised {
        assert!(present.contains(id), "promised transfer {id} is lost");
    }
    for id in &present {
        assert!(
            promised.contains(id) || journal.uncertain.contains(id),
            "transfer {id} was never committed by anybody"
        );
    }
    for row in c.rows("SELECT id, balance FROM bank.account") {
        let id: u64 = row[0].as_ref().expect("id").parse().expect("number");
        let is: i64 = row[1].as_ref().expect("balance").parse().expect("number");
        assert_eq!(
            is, balance[&id],
            "account {id} does not follow from the transfers"
        );
    }
    let sum = c.value("SELECT SUM(balance) FROM bank.account");
    assert_eq!(sum, (ACCOUNTS as i64 * OPENING).to_string());
    // The secondary index tells the same as the table.
    let by_index = c.value("SELECT COUNT(*) FROM bank.transfer FORCE INDEX (src) WHERE src >= 0");
    assert_eq!(by_index, present.len().to_string());
}

/// A bank on a fresh server.
fn open_bank(dir: &Path, args: &[&str]) -> Server {
    // Small memtables, so that flushes and compactions are hit as well.
    let mut all = vec!["--esker-memtable-size=1M", "--skip-ssl"];
    // Whatever is counted is counted twice: from metadata and by reading.
    all.extend([
        "--esker-verify-metadata-answers=ON",
        "--esker-parallel-scan-rows=0",
    ]);
    all.extend(args);
    let server = Server::start(dir, &all);
    let mut c = server.connect();
    c.run(
        "CREATE DATABASE bank;
         CREATE TABLE bank.account (id INT PRIMARY KEY, balance BIGINT NOT NULL);
         CREATE TABLE bank.transfer (id BIGINT PRIMARY KEY, src INT, dst INT, amount INT,
                                     KEY src (src), KEY dst (dst, amount))",
    );
    let values: Vec<String> = (0..ACCOUNTS)
        .map(|id| format!("({id}, {OPENING})"))
        .collect();
    c.run(&format!(
        "INSERT INTO bank.account VALUES {}",
        values.join(",")
    ));
    server
}

/// One life of the server: transfers, kill -9, restart.
fn live_and_die(
    server: &mut Server,
    life: Duration,
    round: u64,
    seed: u64,
    journal: &Mutex<Journal>,
) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let server = &*server;
            scope.spawn(move || transfer(server, client, round, seed, journal));
        }
        let pid = server.pid().to_string();
        let stop = &stop;
        scope.spawn(move || {
            let begun = Instant::now();
            // At least one XA transaction is promised in a server's first life, however slow the machine is.
            while begun.elapsed() < life
                || (journal.lock().expect("journal").xa == 0 && begun.elapsed() < PATIENCE)
            {
                std::thread::sleep(Duration::from_millis(2));
            }
            std::process::Command::new("kill")
                .args(["-9", &pid])
                .status()
                .expect("kill");
            stop.store(true, Ordering::Release);
        });
    });
    assert!(stop.load(Ordering::Acquire));
    server.kill();
    server.restart();
}

/// Kills a bank `rounds` times and looks at it after each.
fn crash_rounds(args: &[&str], rounds: u64, seed: u64) {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = open_bank(dir.path(), args);
    let journal = Mutex::new(Journal::default());
    let mut dice = Dice(seed | 1);
    for round in 0..rounds {
        let life = Duration::from_millis(20 + dice.roll(280));
        live_and_die(&mut server, life, round, seed, &journal);
        verify(&server, &journal.lock().expect("journal"));
    }
    let journal = journal.into_inner().expect("journal");
    let (promised, xa) = (journal.promised.len() as u64, journal.xa);
    assert!(
        xa > 0,
        "{promised} commits, none of them XA, in {rounds} rounds with {args:?}"
    );
}

#[test]
fn acknowledged_commits_survive_kill_9() {
    let rounds = setting("ESKER_CRASH_ROUNDS", 50);
    crash_rounds(&[], rounds, setting("ESKER_CRASH_SEED", 1));
}

/// Every combination of the commit switches but asynchronous commit, which promises less.
#[test]
fn acknowledged_commits_survive_with_every_commit_switch() {
    let rounds = setting("ESKER_CRASH_COMBINATION_ROUNDS", 2);
    let mut seed = setting("ESKER_CRASH_SEED", 1);
    for buffer in ["B", "C", "D", "CD", "CDME"] {
        for early_release in ["ON", "OFF"] {
            for pipelining in ["ON", "OFF"] {
                let args = [
                    format!("--esker-log-buffer={buffer}"),
                    format!("--esker-early-lock-release={early_release}"),
                    format!("--esker-flush-pipelining={pipelining}"),
                ];
                // A failure shows the name of its thread.
                let name = format!("seed {seed} with {}", args.join(" "));
                let run = std::thread::Builder::new().name(name).spawn(move || {
                    crash_rounds(&args.each_ref().map(String::as_str), rounds, seed);
                });
                let ended = run.expect("a thread").join();
                assert!(
                    ended.is_ok(),
                    "the combination in the name of the thread above"
                );
                seed += 1;
            }
        }
    }
}

/// Without persistence a number comes again; with it again never, also of what was drawn without it.
#[test]
fn auto_increment_without_persistence_goes_on_behind_what_is_stored() {
    let dir = tempfile::tempdir().expect("folder");
    let args = ["--skip-ssl", "--esker-auto-increment-persistent=OFF"];
    let mut server = Server::start(dir.path(), &args);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)");
    c.run("CREATE TABLE d.down (v INT, n BIGINT UNSIGNED AUTO_INCREMENT, KEY (n DESC))");
    c.run("INSERT INTO d.t (v) VALUES (1), (2), (3); DELETE FROM d.t WHERE id >= 2");
    c.run("BEGIN; INSERT INTO d.down (v) VALUES (1), (2); COMMIT");
    server.kill();
    server.restart();
    let mut c = server.connect();
    c.run("INSERT INTO d.t (v) VALUES (4); INSERT INTO d.down (v) VALUES (3)");
    assert_eq!(c.value("SELECT MAX(id) FROM d.t"), "2");
    assert_eq!(c.value("SELECT MAX(n) FROM d.down"), "3");
    server.kill();
    server.set_args(&["--skip-ssl"]);
    server.restart();
    let mut c = server.connect();
    c.run("INSERT INTO d.t (v) VALUES (5); INSERT INTO d.down (v) VALUES (4)");
    assert_eq!(c.lines("SELECT id FROM d.t"), ["1", "2", "3"]);
    assert_eq!(c.value("SELECT MAX(n) FROM d.down"), "4");
}

#[test]
fn auto_increment_never_gives_a_number_twice() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)");
    c.run("INSERT INTO d.t (v) VALUES (1), (2), (3)");
    c.run("DELETE FROM d.t WHERE id >= 2");
    server.kill();
    server.restart();
    let mut c = server.connect();
    c.run("INSERT INTO d.t (v) VALUES (4)");
    assert_eq!(c.value("SELECT MAX(id) FROM d.t"), "4");
    // A number seen inside a transaction that the crash took back is not given again either.
    c.run("BEGIN; INSERT INTO d.t (v) VALUES (5)");
    let seen: u64 = c.value("SELECT LAST_INSERT_ID()").parse().expect("number");
    server.kill();
    server.restart();
    let mut c = server.connect();
    c.run("INSERT INTO d.t (v) VALUES (6)");
    let next: u64 = c.value("SELECT LAST_INSERT_ID()").parse().expect("number");
    assert!(next > seen, "{next} after {seen}");
    // A clean restart leaves no gap.
    c.run("DELETE FROM d.t");
    server.stop();
    server.restart();
    let mut c = server.connect();
    c.run("INSERT INTO d.t (v) VALUES (7)");
    assert_eq!(c.value("SELECT LAST_INSERT_ID()"), (next + 1).to_string());
}
