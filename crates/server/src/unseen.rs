//! Statements that the server runs for itself: `init_file` and `init_connect`.
//!
//! Neighbours: `listener` runs the file before anybody is let in, `connection` greets with the rest.
//! **Invariants**: rows go nowhere; a statement has succeeded only when it is durable; the first error ends it.

use std::path::Path;
use std::sync::Arc;

use esker_engine::Seq;
use esker_sql::accounts::Account;
use esker_sql::{ClientInfo, Instance, Mode, OutcomeKind, Request, RowSink, Session, Step};
use esker_types::{SqlError, SqlResult, SqlType, ValueRef, errors};
use esker_vfs::{Env, OpenMode};

use crate::dispatch;

/// Longest `init_file`, bytes.
const MAX_FILE: u64 = 64 << 20;
/// Rows pulled at a time, bytes.
const BATCH: usize = 64 * 1024;

/// Runs one or more statements for their effects.
pub(crate) async fn run(session: &mut Session, text: &[u8]) -> SqlResult<()> {
    session.start(Request::Query(text));
    loop {
        let outcome = loop {
            match tokio::task::block_in_place(|| session.step(Mode::Thread)) {
                Step::Done(outcome) => break outcome,
                Step::Wait(wait) => {
                    let waited = dispatch::wait_out(session, wait).await;
                    session.waited(waited);
                }
                Step::NeedThread => (),
                Step::NeedFile(_) => {
                    return Err(SqlError::not_supported("LOAD DATA LOCAL without a client"));
                }
            }
        };
        durable(session, outcome.depends_on).await?;
        match outcome.result {
            OutcomeKind::Err(e) => return Err(e),
            OutcomeKind::Ok(_) => (),
            OutcomeKind::Rows(_) => loop {
                let batch = tokio::task::block_in_place(|| session.next_rows(&mut Nowhere, BATCH))?;
                durable(session, batch.depends_on).await?;
                if !batch.more {
                    break;
                }
            },
        }
        if !session.start_next() {
            return Ok(());
        }
    }
}

/// The session is not borrowed while it waits: it may not be shared between threads.
fn durable(session: &Session, seq: Seq) -> impl Future<Output = SqlResult<()>> + use<> {
    let wait = session.wait_durable(seq, || true);
    async move {
        let waited = match wait {
            Some(wait) => wait.await,
            None => return Ok(()),
        };
        waited.map_err(errors::storage_failed)
    }
}

/// Runs the statements of `init_file` as an administrator. A relative path begins at the data directory.
pub(crate) async fn init_file(
    instance: &Arc<Instance>,
    env: &Env,
    data_dir: &Path,
    file: &str,
) -> Result<(), String> {
    let path = data_dir.join(file);
    let fail = |e: &dyn std::fmt::Display| format!("init_file {}: {e}", path.display());
    let read = || {
        let file = env.fs.open(&path, OpenMode::Read)?;
        let len = file.len()?;
        if len > MAX_FILE {
            return Err(std::io::Error::other("the file is too long"));
        }
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    };
    let text = read().map_err(|e| fail(&e))?;
    let client = ClientInfo {
        multi_statements: true,
        peer: "init_file".to_owned(),
        ..ClientInfo::inside(0, Account::root(Vec::new()))
    };
    let mut session = Session::new(instance.clone(), client);
    let ran = run(&mut session, &text).await;
    tokio::task::block_in_place(|| drop(session));
    ran.map_err(|e| fail(&e))
}

/// Takes rows and keeps none.
struct Nowhere;

impl RowSink for Nowhere {
    fn begin_row(&mut self) {}
    fn value(&mut self, _: ValueRef<'_>, _: &SqlType) {}
    fn end_row(&mut self) {}
    fn bytes(&self) -> usize {
        0
    }
}
