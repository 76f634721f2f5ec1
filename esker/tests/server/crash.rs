//! kill -9 in the middle of transfers between accounts: every acknowledged commit is there, none is
//! half there, the sum never changes.
//!
//! Rounds: 50, or `ESKER_CRASH_ROUNDS`. Seed: 1, or `ESKER_CRASH_SEED`; it decides when the server is
//! killed and what the clients transfer.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{Ask, Server};

const ACCOUNTS: u64 = 50;
const OPENING: i64 = 1000;
const CLIENTS: u64 = 6;

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

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(default)
}

/// What clients know: transfer ids acknowledged, and ids whose commit was sent without an answer.
#[derive(Default)]
struct Journal {
    acknowledged: Vec<u64>,
    uncertain: Vec<u64>,
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
        let body = [
            "BEGIN".to_owned(),
            format!("UPDATE bank.account SET balance = balance - {amount} WHERE id = {from}"),
            format!("UPDATE bank.account SET balance = balance + {amount} WHERE id = {to}"),
            format!("INSERT INTO bank.transfer VALUES ({id}, {from}, {to}, {amount})"),
        ];
        let mut failed = false;
        for sql in &body {
            match c.query(sql, &mut |_| ()) {
                Ok(()) => (),
                // Deadlocks are part of the game; the transaction is gone.
                Err(esker_server::client::ClientError::Server(e)) if e.code == 1213 => {
                    failed = true;
                    break;
                }
                Err(_) => return,
            }
        }
        if failed {
            continue;
        }
        match c.query("COMMIT", &mut |_| ()) {
            Ok(()) => journal.lock().expect("journal").acknowledged.push(id),
            Err(_) => {
                journal.lock().expect("journal").uncertain.push(id);
                return;
            }
        }
    }
}

/// Everything the database says must follow from the transfers it holds, and those must contain
/// every acknowledged one.
fn verify(server: &Server, journal: &Journal) {
    let mut c = server.connect();
    let mut balance: HashMap<u64, i64> = (0..ACCOUNTS).map(|id| (id, OPENING)).collect();
    let mut present = std::collections::HashSet::new();
    for row in c.rows("SELECT id, src, dst, amount FROM bank.transfer") {
        let n: Vec<i64> = row
            .iter()
            .map(|c| c.as_ref().expect("cell").parse().expect("number"))
            .collect();
        assert!(present.insert(n[0] as u64), "transfer {} twice", n[0]);
        *balance.get_mut(&(n[1] as u64)).expect("account") -= n[3];
        *balance.get_mut(&(n[2] as u64)).expect("account") += n[3];
    }
    for id in &journal.acknowledged {
        assert!(present.contains(id), "acknowledged transfer {id} is lost");
    }
    for id in &present {
        assert!(
            journal.acknowledged.contains(id) || journal.uncertain.contains(id),
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

#[test]
fn acknowledged_commits_survive_kill_9() {
    let rounds = setting("ESKER_CRASH_ROUNDS", 50);
    let seed = setting("ESKER_CRASH_SEED", 1);
    let dir = tempfile::tempdir().expect("folder");
    // Small memtables, so that flushes and compactions are hit as well.
    let mut server = Server::start(dir.path(), &["--esker-memtable-size=1M", "--skip-ssl"]);
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
    drop(c);
    let journal = Mutex::new(Journal::default());
    let mut dice = Dice(seed | 1);
    for round in 0..rounds {
        let life = Duration::from_millis(20 + dice.roll(280));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (server, journal) = (&server, &journal);
                scope.spawn(move || transfer(server, client, round, seed, journal));
            }
            let pid = server.pid().to_string();
            let stop = &stop;
            scope.spawn(move || {
                std::thread::sleep(life);
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
        verify(&server, &journal.lock().expect("journal"));
    }
    let acknowledged = journal.lock().expect("journal").acknowledged.len() as u64;
    assert!(
        acknowledged > rounds,
        "only {acknowledged} commits in {rounds} rounds"
    );
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
