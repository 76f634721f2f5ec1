//! Sessions that append to lists and read them, on a real server that is killed meanwhile.
//!
//! Neighbours: `history` is what comes of it.
//!
//! A list is a row; its numbers are a text. Lists begin as rows that are not there, get about twenty numbers, and are
//! left alone: there are always some that are new. They are found by the primary key, by a secondary one, and by ranges
//! of either.
//!
//! **Invariant**: what was sent and not answered is written down as [`End::Unknown`] if it was a COMMIT, and is a
//! rollback otherwise.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use esker_server::client::{Client, ClientError, QueryResult};

use super::history::{End, History, How, Key, Level, Number, Op, Txn};
use crate::common::{Ask, Dice, Server, patiently};

/// Lists that are appended to at the same time.
const LISTS: u64 = 10;
/// Numbers of a list, about.
const NUMBERS: u64 = 20;
/// Lists that a range reads.
const RANGE: u64 = 4;
const MOST_OPS: u64 = 5;

/// Errors that end a transaction and nothing else: deadlock, lock wait timeout, shutdown.
const HARMLESS: [u16; 3] = [1213, 1205, 1053];

const SCHEMA: &str = "DROP DATABASE IF EXISTS histories; CREATE DATABASE histories;
    CREATE TABLE histories.lists (k INT PRIMARY KEY, s INT NOT NULL, v TEXT NOT NULL, KEY s (s))";

/// How much is done.
pub struct Scale {
    pub transactions: u64,
    pub kills: u64,
    pub sessions: u64,
    pub seed: u64,
    /// A server that runs already; 0: none.
    pub port: u16,
}

/// What the sessions share.
struct Load {
    port: u16,
    level: Level,
    transactions: u64,
    begun: AtomicU64,
    appended: AtomicU32,
    /// No session must give up before all have.
    failed: AtomicBool,
    txns: Mutex<Vec<Txn>>,
}

/// The connection is gone.
struct Gone;

/// The transaction is over: the server has rolled it back, or the session has.
enum Broken {
    RolledBack,
    Gone,
}

/// Runs the load at one level and reads all lists in the end.
pub fn drive(level: Level, scale: &Scale) -> History {
    let dir = tempfile::tempdir().expect("folder");
    let settings = [
        "--skip-ssl",
        "--innodb-lock-wait-timeout=2",
        "--esker-memtable-size=1M",
        "--esker-log-segment-size=2M",
    ];
    let mut server = (scale.port == 0).then(|| Server::start(dir.path(), &settings));
    let load = Load {
        port: server.as_ref().map_or(scale.port, |server| server.port),
        level,
        transactions: scale.transactions,
        begun: AtomicU64::new(0),
        appended: AtomicU32::new(0),
        failed: AtomicBool::new(false),
        txns: Mutex::default(),
    };
    load.connect().run(SCHEMA);
    std::thread::scope(|scope| {
        for session in 0..scale.sessions {
            let (load, seed) = (&load, scale.seed * 1000 + session);
            scope.spawn(move || load.session(session, &mut Dice::new(seed)));
        }
        if let Some(server) = &mut server {
            for kill in 1..=scale.kills {
                let at = scale.transactions * kill / (scale.kills + 1);
                while load.begun.load(Ordering::Relaxed) < at && !load.is_over() {
                    std::thread::sleep(Duration::from_millis(5));
                }
                server.kill();
                server.restart();
            }
        }
    });
    let mut c = load.connect();
    let mut history = History {
        txns: load.txns.into_inner().expect("no session has panicked"),
        last: BTreeMap::new(),
    };
    for row in c.rows("SELECT k, v FROM histories.lists ORDER BY k") {
        let (key, list) = list_of(&row);
        history.last.insert(key, list);
    }
    if scale.port != 0 {
        c.run("DROP DATABASE histories");
    }
    history
}

fn list_of(row: &[Option<String>]) -> (Key, Vec<Number>) {
    let cell = |n: usize| row[n].as_deref().expect("neither is NULL");
    let numbers = cell(1).split(',').map(|n| n.parse().expect("a number"));
    (cell(0).parse().expect("a key"), numbers.collect())
}

impl Load {
    fn is_over(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
            || self.begun.load(Ordering::Relaxed) >= self.transactions
    }

    /// A session, as soon as the server is there.
    fn connect(&self) -> Client {
        patiently(|| Client::connect("127.0.0.1", self.port, "root", "", None))
    }

    fn session(&self, session: u64, dice: &mut Dice) {
        let alarm = Alarm(&self.failed);
        let mut own = Vec::new();
        let mut client: Option<Client> = None;
        while !self.is_over() {
            self.begun.fetch_add(1, Ordering::Relaxed);
            let c = client.get_or_insert_with(|| {
                let mut c = self.connect();
                let set = format!(
                    "SET SESSION TRANSACTION ISOLATION LEVEL {}",
                    self.level.sql()
                );
                // A server that is killed at this moment is noticed by the next statement.
                let _ = c.query(&format!("USE histories; {set}"), &mut |_| ());
                c
            });
            let mut txn = Txn {
                session,
                ops: Vec::new(),
                end: End::RolledBack,
            };
            if self.transaction(c, &mut txn, dice).is_err() {
                client = None;
            }
            own.push(txn);
        }
        self.txns.lock().expect("no panic").append(&mut own);
        std::mem::forget(alarm);
    }

    /// One transaction; an error if the connection is gone.
    fn transaction(&self, c: &mut Client, txn: &mut Txn, dice: &mut Dice) -> Result<(), Gone> {
        match self.operations(c, txn, dice) {
            Ok(()) => {}
            Err(Broken::RolledBack) => {
                return match ask(c, "ROLLBACK") {
                    Ok(_) => Ok(()),
                    Err(_) => Err(Gone),
                };
            }
            Err(Broken::Gone) => return Err(Gone),
        }
        if dice.roll(20) == 0 {
            return match ask(c, "ROLLBACK") {
                Ok(_) => Ok(()),
                Err(_) => Err(Gone),
            };
        }
        txn.end = End::Unknown;
        match ask(c, "COMMIT") {
            Ok(_) => txn.end = End::Committed,
            // At the commit nothing is refused but by a server that goes down.
            Err(Broken::RolledBack | Broken::Gone) => return Err(Gone),
        }
        Ok(())
    }

    fn operations(&self, c: &mut Client, txn: &mut Txn, dice: &mut Dice) -> Result<(), Broken> {
        ask(c, "BEGIN")?;
        for _ in 0..=dice.roll(MOST_OPS) {
            // The window of lists moves on.
            let base = u64::from(self.appended.load(Ordering::Relaxed)) / NUMBERS;
            let key = (base + dice.roll(LISTS)) as Key;
            let op = match dice.roll(10) {
                0..5 => self.append(c, key, dice)?,
                5..8 => read(c, key, How::Plain, dice)?,
                _ => read(c, key, How::Locking, dice)?,
            };
            txn.ops.push(op);
        }
        Ok(())
    }

    fn append(&self, c: &mut Client, key: Key, dice: &mut Dice) -> Result<Op, Broken> {
        let number = self.appended.fetch_add(1, Ordering::Relaxed);
        let column = ["k", "s"][dice.roll(2) as usize];
        let update = format!("UPDATE lists SET v = CONCAT(v, ',{number}') WHERE {column} = {key}");
        let is_done = dice.roll(3) == 0 && ask(c, &update)?.0 > 0;
        if !is_done {
            ask(
                c,
                &format!(
                    "INSERT INTO lists VALUES ({key}, {key}, '{number}')
                     ON DUPLICATE KEY UPDATE v = CONCAT(v, ',{number}')"
                ),
            )?;
        }
        Ok(Op::Append(key, number))
    }
}

fn read(c: &mut Client, key: Key, how: How, dice: &mut Dice) -> Result<Op, Broken> {
    let (index, column) = [("PRIMARY", "k"), ("s", "s")][dice.roll(2) as usize];
    let last = match dice.roll(4) {
        0 => key + RANGE as Key - 1,
        _ => key,
    };
    let condition = match last == key {
        true => format!("{column} = {key}"),
        false => format!("{column} BETWEEN {key} AND {last}"),
    };
    let lock = match how {
        How::Plain => "",
        How::Locking => [" FOR UPDATE", " FOR SHARE"][dice.roll(2) as usize],
    };
    let sql = format!("SELECT k, v FROM lists FORCE INDEX ({index}) WHERE {condition}{lock}");
    let (_, rows) = ask(c, &sql)?;
    let mut lists: BTreeMap<Key, Vec<Number>> = (key..=last).map(|k| (k, Vec::new())).collect();
    for row in rows {
        let (key, list) = list_of(&row);
        assert!(
            lists.insert(key, list).is_some_and(|l| l.is_empty()),
            "{sql}: {key}"
        );
    }
    Ok(Op::Read(how, lists.into_iter().collect()))
}

type Cells = Vec<Option<String>>;

/// Rows that were changed, and rows that came.
fn ask(c: &mut Client, sql: &str) -> Result<(u64, Vec<Cells>), Broken> {
    let mut answer = (0, Vec::new());
    let outcome = c.query(sql, &mut |result| match result {
        QueryResult::Done(changed, ..) => answer.0 = changed,
        QueryResult::Rows { rows, .. } => {
            let text = |cell: Vec<u8>| String::from_utf8(cell).expect("digits");
            let cells = |row: Vec<_>| row.into_iter().map(|c: Option<_>| c.map(text)).collect();
            answer.1 = rows.into_iter().map(cells).collect();
        }
    });
    match outcome {
        Ok(()) => Ok(answer),
        Err(ClientError::Server(e)) if HARMLESS.contains(&e.code) => Err(Broken::RolledBack),
        Err(ClientError::Server(e)) => panic!("{sql}: {e:?}"),
        Err(_) => Err(Broken::Gone),
    }
}

/// Tells the others when its session panics.
struct Alarm<'l>(&'l AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
