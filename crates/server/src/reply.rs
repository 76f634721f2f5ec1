//! Outcomes to packets.
//!
//! Neighbours: `dispatch` decides what to send; `esker_wire` knows the layouts.
//! **Invariants**: rows are pulled in batches of about [`BATCH`] bytes, so a result of any size
//! takes bounded memory; each batch leaves only when what it depends on is durable.

use std::sync::Arc;
use std::time::Duration;

use esker_engine::Seq;
use esker_sql::{ColumnMeta, OkInfo, Prepared, RowSink, Session, StateChange};
use esker_types::collation::{Charset, Collation};
use esker_types::{SqlError, SqlType, ValueRef};
use esker_wire::constants::{cap, status};
use esker_wire::response::{
    OkPacket, put_gtids, put_schema, put_state_changed, put_variable, write_eof, write_prepare_ok,
};
use esker_wire::row::{Format, RowEncoder};

use crate::connection::{Connection, Gone};
use crate::headers::definition;

/// Bytes of rows gathered before they are sent.
const BATCH: usize = 64 * 1024;
/// The longest that an answer waits for a GTID that it is to have; it goes without one then.
const LOGGED_LIMIT: Duration = Duration::from_secs(10);

/// Waits until the log is durable up to `seq`: as a future, or (`esker_flush_pipelining` off) with the
/// thread. A log that failed ends the process elsewhere; the connection must not answer.
pub(crate) fn durable(
    conn: &Connection,
    session: &Session,
    seq: Seq,
) -> impl Future<Output = Result<(), Gone>> + use<> {
    let wait = session.wait_durable(seq, || conn.is_alone());
    let pipelines = session.pipelines_flush();
    async move {
        let waited = match wait {
            None => Ok(()),
            Some(wait) if pipelines => wait.await,
            Some(wait) => tokio::task::block_in_place(|| wait.block()),
        };
        waited.map_err(|_| Gone)
    }
}

/// Waits until the binary log has what the session is to hear of it; not for ever, for the disk may be full.
pub(crate) fn logged(session: &Session) -> impl Future<Output = ()> + use<> {
    let wait = session.wait_logged();
    async move {
        if let Some(wait) = wait {
            let _ = tokio::time::timeout(LOGGED_LIMIT, wait).await;
        }
    }
}

fn warnings(session: &Session) -> u16 {
    u16::try_from(session.warning_count()).unwrap_or(u16::MAX)
}

fn deprecate_eof(conn: &Connection) -> bool {
    conn.capabilities & cap::DEPRECATE_EOF != 0
}

fn status_now(session: &Session) -> u16 {
    session.status()
        | if session.has_more() {
            status::MORE_RESULTS
        } else {
            0
        }
}

/// What the session's client hears of changes of its state with the next OK.
fn state(session: &mut Session) -> Vec<u8> {
    let mut out = Vec::new();
    for change in session.take_changes() {
        match change {
            StateChange::Variable(name, value) => put_variable(name, &value, &mut out),
            StateChange::Schema(name) => put_schema(&name, &mut out),
            StateChange::Any => put_state_changed(&mut out),
            StateChange::Gtids(set) => put_gtids(&set, &mut out),
        }
    }
    out
}

/// An OK for a command that is no statement.
pub(crate) fn done(conn: &mut Connection, session: &mut Session) {
    conn.put_ok(&OkPacket {
        status: session.status(),
        state: &state(session),
        ..OkPacket::default()
    });
}

/// An OK for a statement without rows.
pub(crate) fn ok(conn: &mut Connection, session: &mut Session, info: &OkInfo) {
    let state = state(session);
    conn.put_ok(&OkPacket {
        affected_rows: info.affected_rows,
        last_insert_id: info.last_insert_id,
        status: status_now(session),
        warnings: warnings(session),
        info: &info.info,
        state: &state,
    });
}

/// An error, in the character set of results.
pub(crate) fn error(conn: &mut Connection, session: &Session, error: &SqlError) {
    let charset = session.results_collation().map(Collation::charset);
    conn.put_error_in(charset.unwrap_or(Charset::Utf8mb4), error);
}

/// An old-style EOF, or the OK that replaced it at the end of rows.
fn end_of_rows(conn: &mut Connection, session: &Session, extra: u16) {
    let status = status_now(session) | extra;
    if deprecate_eof(conn) {
        let ok = OkPacket {
            status,
            warnings: warnings(session),
            ..OkPacket::default()
        };
        ok.write(true, conn.frames.begin());
        conn.frames.end();
    } else {
        write_eof(warnings(session), status, conn.frames.begin());
        conn.frames.end();
    }
}

/// An old-style EOF.
pub(crate) fn eof(conn: &mut Connection, session: &Session, extra: u16) {
    write_eof(
        warnings(session),
        status_now(session) | extra,
        conn.frames.begin(),
    );
    conn.frames.end();
}

fn column_list(conn: &mut Connection, session: &Session, columns: &[ColumnMeta]) {
    let results = session.results_collation();
    for meta in columns {
        definition(meta).write(results, conn.frames.begin());
        conn.frames.end();
    }
}

/// The number of columns, and their definitions.
fn header(conn: &mut Connection, session: &Session, columns: &Arc<[ColumnMeta]>) {
    let results = session.results_collation();
    conn.headers.put(columns, results, &mut conn.frames);
}

/// What to send of a result set.
pub(crate) struct Rows<'a> {
    pub(crate) columns: &'a Arc<[ColumnMeta]>,
    pub(crate) format: Format,
    /// The statement may block: pull on a thread of its own.
    pub(crate) threaded: bool,
}

/// Sends a result set; true when it failed midway.
pub(crate) async fn rows(
    conn: &mut Connection,
    session: &mut Session,
    rows: &Rows<'_>,
    depends_on: Seq,
) -> Result<bool, Gone> {
    header(conn, session, rows.columns);
    if !deprecate_eof(conn) {
        eof(conn, session, 0);
    }
    let mut depends_on = depends_on;
    loop {
        let threaded = rows.threaded || session.has_left_worker();
        let watching = threaded.then(|| conn.watch(session));
        let mut sink = Sink::new(conn, session, rows);
        let pulled = if threaded {
            tokio::task::block_in_place(|| session.next_rows(&mut sink, BATCH))
        } else {
            session.next_rows(&mut sink, BATCH)
        };
        drop(watching);
        match pulled {
            Err(e) => {
                conn.frames.abandon();
                durable(conn, session, depends_on).await?;
                error(conn, session, &e);
                return Ok(true);
            }
            Ok(batch) => {
                depends_on = depends_on.max(batch.depends_on);
                durable(conn, session, depends_on).await?;
                if !batch.more {
                    end_of_rows(conn, session, 0);
                    return Ok(false);
                }
                conn.flush().await?;
            }
        }
    }
}

/// Rows into packets, in the client's character set.
struct Sink<'a> {
    rows: RowEncoder<'a>,
    convert: Conversion,
}

/// What text is converted to; values are UTF-8.
#[derive(Clone, Copy)]
enum Conversion {
    /// Nothing.
    None,
    /// This character set.
    To(Charset),
    /// The character set of its type: character_set_results is NULL or binary.
    Own,
}

impl Conversion {
    /// The character set in which a text of this type is sent, if that is not UTF-8.
    fn of(self, ty: &SqlType) -> Option<Charset> {
        match self {
            Self::None => None,
            Self::To(charset) => Some(charset),
            Self::Own => Some(ty.collation.charset()).filter(|c| is_encoded(*c)),
        }
    }
}

/// Is a text of this character set something else than its UTF-8?
fn is_encoded(charset: Charset) -> bool {
    !matches!(
        charset,
        Charset::Utf8mb4 | Charset::Utf8mb3 | Charset::Binary
    )
}

impl<'a> Sink<'a> {
    fn new(conn: &'a mut Connection, session: &Session, rows: &Rows<'_>) -> Self {
        let convert = match session.results_collation().map(Collation::charset) {
            None => Conversion::Own,
            Some(charset) if is_encoded(charset) => Conversion::To(charset),
            Some(_) => Conversion::None,
        };
        Self {
            rows: RowEncoder::new(&mut conn.frames, rows.format, rows.columns.len()),
            convert,
        }
    }
}

impl RowSink for Sink<'_> {
    fn begin_row(&mut self) {
        self.rows.begin_row();
    }

    fn value(&mut self, v: ValueRef<'_>, ty: &SqlType) {
        match (self.convert, v) {
            (Conversion::None, _) => self.rows.value(v, ty),
            (convert, ValueRef::Str(text) | ValueRef::Label(_, text))
                if ty.collation != Collation::BINARY =>
            {
                match convert.of(ty) {
                    None => self.rows.value(v, ty),
                    Some(charset) => {
                        let encoded = charset.encode_lossy(text);
                        self.rows.value(ValueRef::Str(&encoded), ty);
                    }
                }
            }
            (Conversion::To(charset), ValueRef::Json(_)) => {
                let text = esker_types::cast::to_str(v, ty);
                self.rows
                    .value(ValueRef::Str(&charset.encode_lossy(&text)), ty);
            }
            _ => self.rows.value(v, ty),
        }
    }

    fn end_row(&mut self) {
        self.rows.end_row();
    }

    fn bytes(&self) -> usize {
        self.rows.bytes()
    }
}

/// The answer to COM_STMT_PREPARE.
pub(crate) fn prepared(conn: &mut Connection, session: &Session, p: &Prepared) {
    let (columns, params) = (p.columns.len() as u16, p.params.len() as u16);
    write_prepare_ok(
        p.id,
        columns,
        params,
        warnings(session),
        conn.frames.begin(),
    );
    conn.frames.end();
    for list in [&p.params, &p.columns] {
        if !list.is_empty() {
            column_list(conn, session, list);
            if !deprecate_eof(conn) {
                eof(conn, session, 0);
            }
        }
    }
}

/// The answer to COM_FIELD_LIST.
pub(crate) fn fields(conn: &mut Connection, session: &Session, columns: &[ColumnMeta]) {
    let results = session.results_collation();
    for meta in columns {
        definition(meta).write(results, conn.frames.begin());
        // The default value: NULL.
        conn.frames.payload().push(0xfb);
        conn.frames.end();
    }
    end_of_rows(conn, session, 0);
}

/// The answer to an execution that opened a cursor.
pub(crate) fn cursor_opened(conn: &mut Connection, session: &Session, columns: &Arc<[ColumnMeta]>) {
    header(conn, session, columns);
    if deprecate_eof(conn) {
        end_of_rows(conn, session, status::CURSOR_EXISTS);
    } else {
        eof(conn, session, status::CURSOR_EXISTS);
    }
}

/// The answer to COM_STMT_FETCH.
pub(crate) fn cursor_rows(
    conn: &mut Connection,
    session: &mut Session,
    id: u32,
    limit: u32,
) -> Result<(), SqlError> {
    let columns = session.cursor_columns(id)?;
    let rows = Rows {
        columns: &columns,
        format: Format::Binary,
        threaded: false,
    };
    let mut sink = Sink::new(conn, session, &rows);
    let more = session.fetch(id, u64::from(limit), &mut sink)?;
    let extra = if more {
        status::CURSOR_EXISTS
    } else {
        status::LAST_ROW_SENT
    };
    end_of_rows(conn, session, extra);
    Ok(())
}
