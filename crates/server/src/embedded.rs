//! The database in this process, without a server: what `esker sql --datadir` uses.
//!
//! Neighbours: the same `Instance` and `Session` as behind the sockets; results come in the shape of
//! the `client` module.
//! **Invariant**: a result is given only when it is durable, exactly as over the network.

use std::path::Path;

use esker_sql::accounts::Account;
use esker_sql::{ClientInfo, Instance, InstanceConfig, Mode, OutcomeKind, Request, Session, Step};
use esker_sql::{RowSink, WaitFor};
use esker_types::cast::write_text;
use esker_types::{SqlResult, SqlType, ValueRef, errors};
use esker_vfs::Env;

use crate::client::QueryResult;

/// Rows pulled at a time, bytes.
const BATCH: usize = 1 << 20;
/// Connection id of the one session.
const SESSION: u64 = 1;

/// An opened data directory and one session on it.
pub struct Embedded {
    session: Option<Session>,
    instance: std::sync::Arc<Instance>,
}

impl Embedded {
    /// Opens a data directory, with recovery if it needs one.
    ///
    /// # Errors
    /// When it is in use, damaged, or the database does not exist.
    pub fn open(dir: &Path, database: Option<&str>) -> SqlResult<Self> {
        let instance = Instance::open(InstanceConfig {
            env: Env::os(),
            data_dir: dir.to_owned(),
            settings: Vec::new(),
            root_password: None,
            passwords: crate::login::HASHING,
        })?;
        let mut session = Session::new(instance.clone(), local_client());
        if let Some(name) = database {
            session.use_database(name)?;
        }
        Ok(Self {
            session: Some(session),
            instance,
        })
    }

    /// Ends the statement that runs, from another thread.
    pub fn interrupter(&self) -> impl Fn() + Send + 'static {
        let instance = self.instance.clone();
        move || instance.interrupt_statement(SESSION)
    }

    /// Runs one or more statements; stops at the first error.
    ///
    /// # Errors
    /// The statement's. `on_result` has seen what came before.
    pub fn query(&mut self, sql: &[u8], on_result: &mut dyn FnMut(QueryResult)) -> SqlResult<()> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        session.start(Request::Query(sql));
        loop {
            on_result(run(session)?);
            if !session.start_next() {
                return Ok(());
            }
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.session = None;
        // Nobody is left to tell; the log holds everything that was acknowledged.
        if let Err(e) = self.instance.shutdown() {
            tracing::error!("shutdown: {e}");
        }
    }
}

fn local_client() -> ClientInfo {
    ClientInfo {
        peer: "embedded".into(),
        multi_statements: true,
        local_files: false,
        interactive: true,
        ..ClientInfo::inside(SESSION, Account::root(Vec::new()))
    }
}

fn durable(session: &Session, seq: esker_engine::Seq) -> SqlResult<()> {
    match session.wait_durable(seq, || true) {
        None => Ok(()),
        Some(wait) => wait.block().map_err(errors::storage_failed),
    }
}

fn run(session: &mut Session) -> SqlResult<QueryResult> {
    let outcome = loop {
        match session.step(Mode::Thread) {
            Step::Done(outcome) => break outcome,
            Step::Wait(WaitFor { ready, .. }) => {
                let waited = block_on(ready);
                session.waited(Some(waited));
            }
            Step::NeedThread => (),
            // `local_client` says that it has no files.
            Step::NeedFile(_) => unreachable!("asked for a file"),
        }
    };
    durable(session, outcome.depends_on)?;
    let warnings = |s: &Session| u16::try_from(s.warning_count()).unwrap_or(u16::MAX);
    match outcome.result {
        OutcomeKind::Err(e) => Err(e),
        OutcomeKind::Ok(ok) => Ok(QueryResult::Done(
            ok.affected_rows,
            warnings(session),
            ok.info.to_string(),
        )),
        OutcomeKind::Rows(columns) => {
            let mut sink = TextRows::default();
            loop {
                let batch = session.next_rows(&mut sink, BATCH)?;
                durable(session, batch.depends_on)?;
                sink.pulled = 0;
                if !batch.more {
                    break;
                }
            }
            let code = esker_wire::response::type_code;
            let columns = columns
                .iter()
                .map(|c| (c.name.to_string(), code(&c.ty)))
                .collect();
            Ok(QueryResult::Rows {
                columns,
                rows: sink.rows,
                warnings: warnings(session),
            })
        }
    }
}

/// Runs a future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    use std::task::{Context, Poll, Wake, Waker};
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(std::sync::Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Collects rows as text.
#[derive(Default)]
struct TextRows {
    rows: Vec<Vec<Option<Vec<u8>>>>,
    row: Vec<Option<Vec<u8>>>,
    pulled: usize,
}

impl RowSink for TextRows {
    fn begin_row(&mut self) {
        self.row.clear();
    }
    fn value(&mut self, v: ValueRef<'_>, ty: &SqlType) {
        let cell = match v {
            ValueRef::Null => None,
            ValueRef::Str(s) | ValueRef::Label(_, s) => Some(s.to_vec()),
            v => {
                let mut out = Vec::new();
                write_text(v, ty, &mut out);
                Some(out)
            }
        };
        self.pulled += cell.as_ref().map_or(1, Vec::len);
        self.row.push(cell);
    }
    fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }
    fn bytes(&self) -> usize {
        self.pulled
    }
}
