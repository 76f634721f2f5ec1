//! A client of an instance, which asks and sees rows or an error.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use esker_sql::{Instance, Mode, OutcomeKind, Request, Session, Step};

use super::rows::Rows;
use super::{await_durable, client};

/// What a client sees: rows, or the number of the error.
pub type Answer = Result<Vec<String>, u16>;

/// Waits for a lock of another thread.
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
        let outcome = loop {
            match self.0.step(Mode::Thread) {
                Step::Done(outcome) => break outcome,
                Step::Wait(wait) => self.0.waited(Some(block_on(wait.ready))),
                Step::NeedThread | Step::NeedFile(_) => panic!("{sql} has all it needs"),
            }
        };
        let mut depends_on = outcome.depends_on;
        let mut rows = Rows::default();
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
        self.0.start_next();
        Ok(rows.rows.iter().map(|row| row.join("|") + "|").collect())
    }

    pub fn ok(&mut self, sql: &str) -> Vec<String> {
        self.ask(sql)
            .unwrap_or_else(|code| panic!("{sql}: error {code}"))
    }
}
