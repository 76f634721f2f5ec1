//! Runs the steps of a script on a server, and sees which of them wait.
//!
//! Neighbours: `script` has the steps and what they must bring.

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use esker_server::client::{Client, ClientError, QueryResult};

use super::script::{Brought, Case, File, Outcome, Part, Played, Recorded, Table, shown};
use crate::common::{Ask, PATIENCE};

const PAUSE: Duration = Duration::from_millis(2);
/// A recorded wait was seen so many times, one after the other.
const SIGHTINGS: u32 = 8;

/// Sessions that wait for a lock.
const MYSQL_WAITS: &str = "SELECT t.PROCESSLIST_ID FROM performance_schema.data_lock_waits w
    JOIN performance_schema.threads t ON t.THREAD_ID = w.REQUESTING_THREAD_ID";
const ESKER_WAITS: &str =
    "SELECT ID FROM information_schema.ESKER_TRANSACTIONS WHERE STATE = 'LOCK WAIT'";

/// A server on which scripts are played.
pub struct Stage {
    port: u16,
    waits: &'static str,
    observer: Client,
    /// What the parts since have said.
    setup: Vec<String>,
    levels: Vec<String>,
}

/// A session on a thread of its own: its statements go in, their outcomes come out.
struct Session {
    id: u64,
    asked: Sender<String>,
    answered: Receiver<Outcome>,
    waits: bool,
}

impl Session {
    fn open(port: u16, level: &str) -> Session {
        let mut client = connect(port);
        client.run(&format!(
            "USE locking; SET SESSION TRANSACTION ISOLATION LEVEL {level}; BEGIN"
        ));
        let id = client
            .value("SELECT CONNECTION_ID()")
            .parse()
            .expect("a number");
        let (asked, statements) = mpsc::channel::<String>();
        let (outcomes, answered) = mpsc::channel();
        std::thread::spawn(move || {
            for sql in statements {
                if outcomes.send(outcome_of(&mut client, &sql)).is_err() {
                    break;
                }
            }
        });
        Session {
            id,
            asked,
            answered,
            waits: false,
        }
    }

    fn begin(&self, sql: &str) {
        self.asked
            .send(sql.to_owned())
            .expect("its thread waits for statements");
    }

    /// The outcome of what was begun last, which must come.
    fn end(&mut self) -> Outcome {
        self.waits = false;
        self.answered
            .recv_timeout(PATIENCE)
            .expect("the statement ends")
    }
}

fn connect(port: u16) -> Client {
    Client::connect("127.0.0.1", port, "root", "", None).expect("connect")
}

fn outcome_of(client: &mut Client, sql: &str) -> Outcome {
    let mut outcome = Outcome::Ok(0);
    let answer = client.query(sql, &mut |result| {
        outcome = match result {
            QueryResult::Done(changed, ..) => Outcome::Ok(changed),
            QueryResult::Rows { rows, .. } => {
                let cell = |c: Option<Vec<u8>>| {
                    let text = c.map(|c| String::from_utf8_lossy(&c).into_owned());
                    text.unwrap_or_else(|| "NULL".into())
                };
                let line = |row: Vec<_>| row.into_iter().map(cell).collect::<Vec<_>>().join("|");
                Outcome::Rows(rows.into_iter().map(line).collect())
            }
        };
    });
    match answer {
        Ok(()) => outcome,
        Err(ClientError::Server(e)) => Outcome::Error(e.code),
        Err(e) => panic!("{sql}: {e}"),
    }
}

impl Stage {
    pub fn mysql(port: u16) -> Stage {
        Stage::on(port, MYSQL_WAITS)
    }

    pub fn esker(port: u16) -> Stage {
        Stage::on(port, ESKER_WAITS)
    }

    fn on(port: u16, waits: &'static str) -> Stage {
        let mut observer = connect(port);
        observer.run("DROP DATABASE IF EXISTS locking; CREATE DATABASE locking; USE locking");
        Stage {
            port,
            waits,
            observer,
            setup: Vec::new(),
            levels: Vec::new(),
        }
    }

    /// Plays everything and writes down what comes.
    pub fn record(mut self, file: &mut File) {
        for part in &mut file.0 {
            match part {
                Part::Comment(_) => {}
                Part::Setup(setup) => self.setup.clone_from(setup),
                Part::Levels(levels) => self.levels.clone_from(levels),
                Part::Case(case) => {
                    let levels = self.levels.clone();
                    let play = |level: &String| {
                        let (steps, end) = self.play(case, level, None);
                        Played {
                            level: level.clone(),
                            steps: steps.into_iter().map(Recorded::new).collect(),
                            end: Recorded::new(end),
                        }
                    };
                    case.outcomes = levels.iter().map(play).collect();
                }
                Part::Table(table) => {
                    let levels = self.levels.clone();
                    let play = |level: &String| {
                        let rows = self.fill(table, level, None);
                        let row = |row: Vec<_>| row.into_iter().map(Recorded::new).collect();
                        (level.clone(), rows.into_iter().map(row).collect())
                    };
                    table.outcomes = levels.iter().map(play).collect();
                }
            }
        }
        self.observer.run("DROP DATABASE locking");
    }

    /// Plays everything; what comes otherwise than it was recorded, in words. It is marked as open.
    pub fn replay(mut self, file: &mut File) -> Vec<String> {
        let mut differences = Vec::new();
        for part in &mut file.0 {
            match part {
                Part::Comment(_) | Part::Levels(_) => {}
                Part::Setup(setup) => self.setup.clone_from(setup),
                Part::Case(case) => self.replay_case(case, &mut differences),
                Part::Table(table) => self.replay_table(table, &mut differences),
            }
        }
        differences
    }

    fn replay_case(&mut self, case: &mut Case, differences: &mut Vec<String>) {
        let mut outcomes = std::mem::take(&mut case.outcomes);
        for Played { level, steps, end } in &mut outcomes {
            let (brought, last) = self.play(case, level, Some(steps));
            for ((is, should), (session, sql)) in brought.iter().zip(steps).zip(&case.steps) {
                if should.expected().is_some_and(|should| is != should) {
                    should.is_open = true;
                    let (name, is, should) = (&case.name, shown(is), shown(&should.answer));
                    differences.push(format!(
                        "{name}, {level}: T{session} {sql}: {is}; MySQL: {should}"
                    ));
                }
            }
            if end.expected().is_some_and(|end| last != *end) {
                end.is_open = true;
                let (name, should) = (&case.name, &end.answer);
                differences.push(format!("{name}, {level}: end {last:?}; MySQL: {should:?}"));
            }
        }
        case.outcomes = outcomes;
    }

    fn replay_table(&mut self, table: &mut Table, differences: &mut Vec<String>) {
        let mut outcomes = std::mem::take(&mut table.outcomes);
        for (level, expected) in &mut outcomes {
            let rows = self.fill(table, level, Some(expected));
            for ((is, should), hold) in rows.iter().zip(expected).zip(&table.holds) {
                for ((is, should), wanted) in is.iter().zip(should).zip(&table.tries) {
                    if should.expected().is_some_and(|should| is != should) {
                        should.is_open = true;
                        let should = &should.answer;
                        differences
                            .push(format!("{level}: {hold} / {wanted}: {is}; MySQL: {should}"));
                    } else if should.is_open && *is == should.answer {
                        differences.push(format!("{level}: {hold} / {wanted}: open no more"));
                    }
                }
            }
        }
        table.outcomes = outcomes;
    }

    fn set_up(&mut self) {
        for sql in &self.setup {
            self.observer.run(sql);
        }
    }

    /// The steps of a case at a level, and what is there in the end.
    fn play(
        &mut self,
        case: &Case,
        level: &str,
        expected: Option<&Vec<Recorded<Brought>>>,
    ) -> (Vec<Brought>, Vec<String>) {
        self.set_up();
        let mut sessions: HashMap<usize, Session> = HashMap::new();
        let mut all = Vec::new();
        for (number, (who, sql)) in case.steps.iter().enumerate() {
            let open = || Session::open(self.port, level);
            let session = sessions.entry(*who).or_insert_with(open);
            if session.waits {
                all.push(vec![(*who, Outcome::Skipped)]);
                continue;
            }
            session.begin(sql);
            session.waits = true;
            let expected = expected.and_then(|steps| steps[number].expected());
            all.push(self.settle(&mut sessions, *who, expected));
        }
        let mut open: Vec<Session> = sessions.into_values().collect();
        while !open.is_empty() {
            let (waiting, ready): (Vec<_>, Vec<_>) = open.into_iter().partition(|s| s.waits);
            assert!(!ready.is_empty(), "{}: all sessions wait", case.name);
            for mut session in ready {
                session.begin("ROLLBACK");
                session.end();
            }
            open = waiting;
            // Somebody held what they wait for; of those that held it themselves, one comes after the other.
            let begun = Instant::now();
            while !open.is_empty() && open.iter().all(|s| s.waits) {
                for session in &mut open {
                    session.waits = session.answered.try_recv().is_err();
                }
                assert!(begun.elapsed() < PATIENCE, "{}: nobody goes on", case.name);
                std::thread::sleep(PAUSE);
            }
        }
        let end = self.observer.lines("SELECT * FROM test ORDER BY 1, 2");
        (all, end)
    }

    /// What a step has brought: the outcomes of all statements that were on their way, that of `who` first.
    fn settle(
        &mut self,
        sessions: &mut HashMap<usize, Session>,
        who: usize,
        expected: Option<&Brought>,
    ) -> Brought {
        let mut order: Vec<usize> = sessions
            .keys()
            .copied()
            .filter(|s| sessions[s].waits)
            .collect();
        order.sort_by_key(|session| (*session != who, *session));
        let mut brought = Vec::new();
        for session in order {
            // What must end is waited for; what must wait is seen to wait.
            let should = expected.and_then(|all| all.iter().find(|(s, _)| *s == session));
            let must_end = should.is_some_and(|(_, outcome)| *outcome != Outcome::Waits);
            let session_of = sessions.get_mut(&session).expect("it is open");
            match self.come(session_of, must_end) {
                Some(outcome) => brought.push((session, outcome)),
                None if session == who => brought.push((session, Outcome::Waits)),
                None => {}
            }
        }
        brought
    }

    /// The outcome of a statement, or `None` if it waits for a lock. One that must end is given time for that even if
    /// it seems to wait: it may have been let go a moment ago.
    fn come(&mut self, session: &mut Session, must_end: bool) -> Option<Outcome> {
        let begun = Instant::now();
        let mut sightings = 0;
        loop {
            if let Ok(outcome) = session.answered.recv_timeout(PAUSE) {
                session.waits = false;
                return Some(outcome);
            }
            let waiting = self.observer.lines(self.waits);
            match waiting.contains(&session.id.to_string()) {
                true => sightings += 1,
                false => sightings = 0,
            }
            if sightings >= SIGHTINGS && (!must_end || begun.elapsed() > PATIENCE / 6) {
                return None;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "a statement neither ends nor waits"
            );
        }
    }

    /// All statements of a table that try, against all that hold.
    fn fill(
        &mut self,
        table: &Table,
        level: &str,
        expected: Option<&Vec<Vec<Recorded<Outcome>>>>,
    ) -> Vec<Vec<Outcome>> {
        self.set_up();
        let mut rows = Vec::new();
        for (n, hold) in table.holds.iter().enumerate() {
            let mut row = Vec::new();
            for (m, wanted) in table.tries.iter().enumerate() {
                let mut holder = Session::open(self.port, level);
                holder.begin(hold);
                let held = holder.end();
                assert!(!matches!(held, Outcome::Error(_)), "{hold}: {held}");
                let mut other = Session::open(self.port, level);
                other.begin(wanted);
                other.waits = true;
                let expected = expected.and_then(|rows| rows[n][m].expected());
                let must_end = expected.is_some_and(|o| *o != Outcome::Waits);
                let outcome = self.come(&mut other, must_end);
                holder.begin("ROLLBACK");
                holder.end();
                if outcome.is_none() {
                    other.end();
                }
                other.begin("ROLLBACK");
                other.end();
                row.push(match outcome {
                    None => Outcome::Waits,
                    Some(Outcome::Rows(_)) => Outcome::Rows(Vec::new()),
                    Some(outcome) => outcome,
                });
            }
            rows.push(row);
        }
        rows
    }
}
