//! One command: hand it to the session, wait where it must wait, write the answer.
//!
//! Neighbours: `connection` reads commands; `reply` writes results; the `sql` crate's [`Session`] steps through
//! statements. **Invariants**: a worker thread never blocks here: waits are awaited, long statements (and, without
//! flush pipelining, waits for the log) run under `block_in_place`; bytes leave only when the log is durable up to what
//! they depend on.

use std::ops::ControlFlow;

use esker_sql::binlog::{Dump, DumpRequest};
use esker_sql::{Counter, Mode, OutcomeKind, Request, Session, Step, WaitFor};
use esker_types::{SqlError, SqlResult, Value};
use esker_wire::attributes::Attribute;
use esker_wire::command::{self, CURSOR_READ_ONLY, Command, refresh};
use esker_wire::row::Format;

use crate::connection::{Connection, Gone};
use crate::infile;
use crate::parameters::Parameters;
use crate::reply;

/// What remains to be done for a command once its packet has been read.
pub(crate) enum Next {
    /// The client leaves.
    Quit,
    /// COM_CHANGE_USER with its payload.
    ChangeUser(Vec<u8>),
    /// A statement was started; its rows go out in this format.
    Statement(Format, Mode),
    /// A statement was started whose rows stay behind a cursor of this statement id.
    Cursor(u32),
    /// A statement was prepared.
    Prepared(Box<esker_sql::Prepared>),
    /// Rows of a cursor.
    Fetch(u32, u32),
    /// COM_FIELD_LIST.
    Fields(Vec<esker_sql::ColumnMeta>),
    /// COM_STATISTICS.
    Text(String),
    /// The session has become a stream of the binary log.
    Dump(Box<Dump>),
    /// Done; an OK is due.
    Ok,
    /// An old-style EOF is due (COM_SET_OPTION, COM_DEBUG).
    Eof,
    /// No answer at all (COM_STMT_CLOSE, COM_STMT_SEND_LONG_DATA).
    Silence,
    /// It failed.
    Error(SqlError),
    /// It failed, and the connection ends.
    LastError(SqlError),
}

impl From<Result<(), SqlError>> for Next {
    fn from(r: Result<(), SqlError>) -> Self {
        r.map_or_else(Self::Error, |()| Self::Ok)
    }
}

/// Takes what it needs from the packet; nothing here waits.
pub(crate) fn begin(
    command: Command<'_>,
    session: &mut Session,
    statements: &mut Parameters,
    capabilities: u32,
) -> Next {
    if let Some(counter) = counter_of(&command) {
        session.count(counter, 1);
    }
    match command {
        Command::Quit => Next::Quit,
        Command::Query(text, attributes) => {
            session.start(Request::Query(text));
            attach(session, attributes);
            Next::Statement(Format::Text, first_mode(text))
        }
        Command::StmtExecute(execute) => {
            let decoded = statements.decode(session, &execute, capabilities);
            decoded.map_or_else(Next::Error, |with| {
                execute_prepared(session, &execute, with)
            })
        }
        Command::StmtPrepare(text) => prepare(session, text),
        Command::StmtSendLongData(id, param, data) => {
            statements.append(session, id, param, data);
            Next::Silence
        }
        Command::StmtClose(id) => {
            statements.forget(id);
            session.close_statement(id);
            Next::Silence
        }
        Command::StmtReset(id) => {
            statements.drop_long_data(id);
            session.reset_statement(id).into()
        }
        Command::StmtFetch(id, rows) => Next::Fetch(id, rows),
        Command::InitDb(name) => use_database(session, name).into(),
        Command::FieldList(table, _) => fields(session, table),
        Command::Refresh(what) => {
            session.start(Request::Query(flush_of(what).as_bytes()));
            Next::Statement(Format::Text, Mode::Thread)
        }
        Command::Shutdown => {
            session.start(Request::Query(b"SHUTDOWN"));
            Next::Statement(Format::Text, Mode::Inline)
        }
        Command::Ping => Next::Ok,
        Command::Statistics => Next::Text(session.statistics()),
        Command::Debug => Next::Eof,
        Command::ProcessKill(id) => session.kill(u64::from(id)).into(),
        Command::ResetConnection => {
            statements.clear();
            session.reset();
            Next::Ok
        }
        Command::SetOption(option @ 0..=1) => {
            session.set_multi_statements(option == 0);
            Next::Eof
        }
        Command::RegisterReplica(replica) => register_replica(session, &replica).into(),
        Command::Dump(request) => begin_dump(session, &request),
        Command::ChangeUser(payload) => Next::ChangeUser(payload.to_vec()),
        Command::SetOption(_) | Command::Unknown(_) => {
            Next::Error(SqlError::new(1047, "08S01", "Unknown command"))
        }
    }
}

/// Starts a prepared statement with its parameters.
fn execute_prepared(
    session: &mut Session,
    execute: &command::Execute<'_>,
    (params, attributes): (Vec<Value>, Vec<Attribute>),
) -> Next {
    let statement = execute.statement;
    session.start(Request::Execute { statement, params });
    attach(session, attributes);
    if execute.flags & CURSOR_READ_ONLY != 0 && session.may_keep_rows() {
        Next::Cursor(statement)
    } else {
        Next::Statement(Format::Binary, Mode::Inline)
    }
}

fn prepare(session: &mut Session, text: &[u8]) -> Next {
    let prepared = session.prepare(text);
    // One that there is no room for does not count, as in MySQL.
    let is_counted = !matches!(&prepared, Err(e) if e.code == TOO_MANY_PREPARED);
    if is_counted {
        session.count(Counter::ComStmtPrepare, 1);
    }
    prepared.map_or_else(Next::Error, |prepared| Next::Prepared(Box::new(prepared)))
}

fn use_database(session: &mut Session, name: &[u8]) -> SqlResult<()> {
    let name = session.to_utf8(name);
    let used = session.use_database(&String::from_utf8_lossy(&name));
    if let Err(e) = &used {
        session.audit_command("init_db", &name, e);
    }
    used
}

fn fields(session: &mut Session, table: &[u8]) -> Next {
    let table = session.to_utf8(table);
    let columns = session.field_list(&String::from_utf8_lossy(&table));
    columns.map_or_else(Next::Error, Next::Fields)
}

fn register_replica(
    session: &mut Session,
    replica: &command::RegisterReplica<'_>,
) -> SqlResult<()> {
    let host = String::from_utf8_lossy(replica.host).into_owned();
    session.register_replica(replica.server_id, host, replica.port)
}

fn begin_dump(session: &mut Session, request: &command::Dump<'_>) -> Next {
    if let Err(e) = session.admit_dump() {
        return Next::Error(e);
    }
    let begin = || session.begin_dump(dump_request(request));
    match tokio::task::block_in_place(begin) {
        Ok(dump) => Next::Dump(Box::new(dump)),
        Err(e) => Next::LastError(e),
    }
}

/// Tells the session what the client says of the statement that it has started.
fn attach(session: &mut Session, attributes: Vec<Attribute>) {
    if !attributes.is_empty() {
        let named = attributes.into_iter().map(|a| (a.name, a.value));
        session.attach_attributes(named);
    }
}

fn dump_request(request: &command::Dump<'_>) -> DumpRequest {
    DumpRequest {
        server_id: request.server_id,
        file: String::from_utf8_lossy(request.file).into_owned(),
        position: request.position,
        gtids: request.gtids.map(<[u8]>::to_vec),
        ends: request.flags & command::dump::NON_BLOCK != 0,
        heartbeat_v2: request.flags & command::dump::HEARTBEAT_V2 != 0,
    }
}

/// The statement that does what COM_REFRESH asks for.
fn flush_of(bits: u8) -> String {
    // FLUSH TABLES does what FLUSH LOGS does, and cannot stand in a list.
    let known = [
        (refresh::GRANT, "PRIVILEGES"),
        (refresh::LOG | refresh::TABLES, "LOGS"),
        (refresh::HOSTS, "HOSTS"),
        (refresh::STATUS, "STATUS"),
    ];
    let named = known.iter().filter(|(bit, _)| bits & bit != 0);
    let what: Vec<_> = named.map(|(_, name)| *name).collect();
    match what.is_empty() {
        true => "FLUSH TABLES".to_owned(),
        false => format!("FLUSH {}", what.join(", ")),
    }
}

/// The error of a prepare beyond `max_prepared_stmt_count`.
const TOO_MANY_PREPARED: u16 = 1461;

/// Which protocol command it is, for SHOW STATUS; statements are counted by their kind elsewhere, and what is prepared
/// when that is done.
fn counter_of(command: &Command<'_>) -> Option<Counter> {
    Some(match command {
        Command::StmtExecute(_) => Counter::ComStmtExecute,
        Command::StmtSendLongData(..) => Counter::ComStmtSendLongData,
        Command::StmtClose(_) => Counter::ComStmtClose,
        Command::StmtReset(_) => Counter::ComStmtReset,
        Command::StmtFetch(..) => Counter::ComStmtFetch,
        _ => return None,
    })
}

/// Reading a long command takes long, which a shared worker has no time for.
pub(crate) fn first_mode(text: &[u8]) -> Mode {
    /// About a millisecond of reading.
    const LONG_TEXT: usize = 64 * 1024;
    if text.len() > LONG_TEXT {
        Mode::Thread
    } else {
        Mode::Inline
    }
}

/// Does the waiting part and writes the answer.
pub(crate) async fn finish(
    conn: &mut Connection,
    session: &mut Session,
    next: Next,
) -> Result<(), Gone> {
    match next {
        Next::Statement(format, mode) => statements(conn, session, format, mode).await?,
        Next::Cursor(id) => open_cursor(conn, session, id).await?,
        Next::Fetch(id, rows) => fetch(conn, session, id, rows)?,
        Next::Prepared(prepared) => reply::prepared(conn, session, &prepared),
        Next::Fields(columns) => reply::fields(conn, session, &columns),
        Next::Text(text) => {
            conn.frames.begin().extend_from_slice(text.as_bytes());
            conn.frames.end();
        }
        Next::Ok => reply::done(conn, session),
        Next::Eof => reply::eof(conn, session, 0),
        Next::Error(e) | Next::LastError(e) => reply::error(conn, session, &e),
        Next::Silence | Next::Quit | Next::ChangeUser(_) | Next::Dump(_) => (),
    }
    Ok(())
}

/// Runs the started statement to its outcome. The second value: did it need a thread?
async fn run(
    conn: &mut Connection,
    session: &mut Session,
    mut mode: Mode,
) -> Result<(esker_sql::Outcome, bool), Gone> {
    loop {
        let step = match mode {
            Mode::Inline => session.step(mode),
            Mode::Thread => {
                let _watching = conn.watch(session);
                tokio::task::block_in_place(|| session.step(mode))
            }
        };
        match step {
            Step::Done(outcome) => return Ok((outcome, mode == Mode::Thread)),
            Step::Wait(wait) => {
                // What a client holds must not be held for one that is gone.
                let waited = tokio::select! {
                    waited = wait_out(session, wait) => waited,
                    () = conn.hung_up() => return Err(Gone),
                };
                session.waited(waited);
            }
            Step::NeedThread => mode = Mode::Thread,
            Step::NeedFile(name) => {
                let outcome = infile::serve(conn, session, &name).await?;
                return Ok((outcome, true));
            }
        }
    }
}

/// Waits as a step asks for; None: it has taken too long.
pub(crate) async fn wait_out(session: &mut Session, mut wait: WaitFor) -> Option<SqlResult<()>> {
    loop {
        if let Ok(waited) = tokio::time::timeout(wait.timeout, &mut wait.ready).await {
            return Some(waited);
        }
        if let ControlFlow::Break(waited) = session.look(&mut wait) {
            return waited;
        }
    }
}

/// The statements of one COM_QUERY or COM_STMT_EXECUTE.
async fn statements(
    conn: &mut Connection,
    session: &mut Session,
    format: Format,
    mode: Mode,
) -> Result<(), Gone> {
    loop {
        let (outcome, threaded) = run(conn, session, mode).await?;
        let failed = match outcome.result {
            OutcomeKind::Ok(ok) => {
                reply::durable(conn, session, outcome.depends_on).await?;
                reply::logged(session).await;
                reply::ok(conn, session, &ok);
                false
            }
            OutcomeKind::Err(e) => {
                reply::durable(conn, session, outcome.depends_on).await?;
                reply::error(conn, session, &e);
                true
            }
            OutcomeKind::Rows(columns) => {
                let rows = reply::Rows {
                    columns: &columns,
                    format,
                    threaded,
                };
                reply::rows(conn, session, &rows, outcome.depends_on).await?
            }
        };
        conn.count_answer(session);
        if failed || !session.start_next() {
            return Ok(());
        }
    }
}

async fn open_cursor(conn: &mut Connection, session: &mut Session, id: u32) -> Result<(), Gone> {
    let (outcome, _) = run(conn, session, Mode::Inline).await?;
    reply::durable(conn, session, outcome.depends_on).await?;
    match outcome.result {
        OutcomeKind::Ok(ok) => reply::ok(conn, session, &ok),
        OutcomeKind::Err(e) => reply::error(conn, session, &e),
        OutcomeKind::Rows(columns) => {
            // The rows are kept with the statement until they are fetched.
            let watching = conn.watch(session);
            let kept = tokio::task::block_in_place(|| session.keep_rows(id));
            drop(watching);
            match kept {
                Ok(depends_on) => {
                    reply::durable(conn, session, depends_on).await?;
                    reply::cursor_opened(conn, session, &columns);
                }
                Err(e) => reply::error(conn, session, &e),
            }
        }
    }
    Ok(())
}

fn fetch(conn: &mut Connection, session: &mut Session, id: u32, rows: u32) -> Result<(), Gone> {
    if let Err(e) = reply::cursor_rows(conn, session, id, rows) {
        reply::error(conn, session, &e);
    }
    Ok(())
}
