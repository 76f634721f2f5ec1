//! A client of an instance, whose questions are answered by one thread or by tasks.

use std::sync::Arc;

use esker_sql::{Instance, Mode, OutcomeKind, Request, RowSink, Session, Step};
use esker_types::cast::write_text;
use esker_types::{SqlType, ValueRef};

use crate::common::{await_durable, client};

/// Rows as text.
#[derive(Default)]
struct Texts(Vec<String>);

impl RowSink for Texts {
    fn begin_row(&mut self) {
        self.0.push(String::new());
    }
    fn value(&mut self, v: ValueRef<'_>, ty: &SqlType) {
        let mut text = Vec::new();
        match v {
            ValueRef::Null => text.extend_from_slice(b"NULL"),
            v => write_text(v, ty, &mut text),
        }
        let row = self.0.last_mut().expect("a row was begun");
        row.push_str(&String::from_utf8_lossy(&text));
        row.push('|');
    }
    fn end_row(&mut self) {}
    fn bytes(&self) -> usize {
        0
    }
}

/// What a client sees: rows, or the number of the error.
pub type Answer = Result<Vec<String>, u16>;

/// A session that asks.
pub struct Client(pub Session);

impl Client {
    pub fn new(instance: &Arc<Instance>, id: u64) -> Self {
        let mut client = Client(Session::new(instance.clone(), client(id)));
        client.ok("SET NAMES utf8mb4");
        client
    }

    /// Rows of a statement, or the number of its error.
    pub fn ask(&mut self, sql: &str) -> Answer {
        self.0.start(Request::Query(sql.as_bytes()));
        let Step::Done(outcome) = self.0.step(Mode::Thread) else {
            panic!("nothing to wait for in {sql}");
        };
        let mut depends_on = outcome.depends_on;
        let mut rows = Texts::default();
        match outcome.result {
            OutcomeKind::Err(e) => return Err(e.code),
            OutcomeKind::Rows(_) => loop {
                let batch = self
                    .0
                    .next_rows(&mut rows, usize::MAX)
                    .map_err(|e| e.code)?;
                depends_on = depends_on.max(batch.depends_on);
                if !batch.more {
                    break;
                }
            },
            _ => {}
        }
        await_durable(&self.0, depends_on);
        Ok(rows.0)
    }

    pub fn ok(&mut self, sql: &str) -> Vec<String> {
        self.ask(sql)
            .unwrap_or_else(|code| panic!("{sql}: error {code}"))
    }

    /// The answer with one thread, without tasks.
    pub fn serial(&mut self, sql: &str) -> Answer {
        self.ok("SET esker_parallel_scan_rows = 18446744073709551615");
        self.ask(sql)
    }

    /// The answer of tasks, however few rows there are.
    pub fn parallel(&mut self, sql: &str) -> Answer {
        self.ok("SET esker_parallel_scan_rows = 0, parallel_read_threads = 8");
        self.ask(sql)
    }

    /// Both must be the same.
    pub fn same(&mut self, sql: &str) {
        let (parallel, serial) = (self.parallel(sql), self.serial(sql));
        assert_eq!(parallel, serial, "{sql}");
    }
}
