//! A worker: takes groups from its queue, and runs each in a session until it is committed or has failed for good.
//!
//! ```text
//! idle ─▶ applying ─▶ its turn ─▶ committed ─▶ idle
//!            ▲  │ wounded, lost a deadlock, wrong before its turn
//!            └──┘ rolled back                        └─▶ failed: the channel stops
//! ```
//! Neighbours: `feed` fills the queue; `order` says whose turn it is; [`Session`] does the work. **Invariants**
//! - An error counts when everything before the group has ended; before that the group is undone and waits for its
//!   turn, and so does one that was in an earlier one's way: nobody is in the way of the same group twice.
//! - A group whose connection is killed, or that stands behind one that failed, is rolled back and not reported.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use esker_binlog::Origin;
use esker_binlog::apply::progress::Done;
use esker_binlog::apply::{Group, Id, Part, PartKind, RowKind, Shape, state};
use esker_binlog::event::query::{Query, Settings};
use esker_binlog::event::rows::Rows;
use esker_binlog::event::table_map::TableMap;
use esker_sql_catalog::accounts::Account;
use esker_sql_catalog::catalog::ChannelRow;
use esker_types::{SqlError, errors};

use super::context::{set_statement, set_variable};
use super::keys::event_type;
use super::order::{Runner, Turn};
use super::{Failure, Shared};
use crate::dml::apply::ApplyMode;
use crate::session::{Applying, ClientInfo, RowStatement, Session, TableCache};

/// Errors after which a transaction may go well when it is run again: deadlock, lock wait timeout, and a table that was
/// changed meanwhile.
const TRANSIENT: [u16; 3] = [1213, 1205, 1412];
/// An event that this server cannot apply.
const NOT_APPLICABLE: u16 = 1235;
/// The server goes down.
const SHUTDOWN: u16 = 1053;
/// Errors of XA identifiers that were done already: their record and the channel's state are two, so the server may
/// have gone down between them.
const REPEATED: [u16; 2] = [1397, 1440];
/// Pause before a retry, times their number.
const RETRY_PAUSE: Duration = Duration::from_millis(10);
/// The longest of these pauses.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Why an attempt has not ended in a commit.
enum Trouble {
    Error(Failure),
    Wounded,
    Stopped,
}

/// Stops the channel when the worker panics, for those that wait for its group.
struct Survivor {
    shared: Arc<Shared>,
    number: usize,
    ordinal: u64,
}

impl Drop for Survivor {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let failure = Failure {
                code: 1105,
                text: "Unknown error: a worker has panicked; the server's log says where"
                    .to_owned(),
                micros: self.shared.instance.now_micros(),
            };
            self.shared.failed(self.number, self.ordinal, failure);
        }
    }
}

/// A worker's thread.
pub(super) struct Worker {
    shared: Arc<Shared>,
    number: usize,
    session: Session,
    runner: Arc<Runner>,
    tables: TableCache,
    /// The settings that the session has now.
    settings: String,
}

impl Worker {
    /// Works until the queue is closed.
    pub(super) fn run(shared: &Arc<Shared>, number: usize, queue: &Receiver<Box<Group>>) {
        let id = (shared.settings.connection_ids)();
        let client = ClientInfo {
            user: "system user".to_owned(),
            peer: String::new(),
            ..ClientInfo::inside(id, Account::root(Vec::new()))
        };
        let session = Session::new(shared.instance.clone(), client);
        let mut worker = Self {
            shared: shared.clone(),
            number,
            runner: Runner::new(session.wait_canceller()),
            session,
            tables: TableCache::default(),
            settings: String::new(),
        };
        worker.prepare();
        while let Ok(group) = queue.recv() {
            worker.take(&group);
        }
    }

    /// What all groups have in common.
    fn prepare(&mut self) {
        let mut sql = "SET autocommit = 1".to_owned();
        if !self.shared.rules.logs {
            sql.push_str(", sql_log_bin = 0");
        }
        if let Err(e) = self.session.apply_text(sql.as_bytes()) {
            tracing::warn!("replication: {sql}: {}", e.message);
        }
    }

    /// Runs a group, whatever comes of it.
    fn take(&mut self, group: &Group) {
        let order = &self.shared.order;
        if order.is_stopped(group.ordinal) {
            self.shared.dropped(group.ordinal);
            return;
        }
        order.begin(group.ordinal, self.runner.clone());
        self.shared.begins(self.number, group);
        let _survivor = Survivor {
            shared: self.shared.clone(),
            number: self.number,
            ordinal: group.ordinal,
        };
        match self.finish(group) {
            Ok(()) => {
                self.shared.committed(self.number, Done::from(group));
            }
            Err(Trouble::Error(failure)) => {
                self.shared.failed(self.number, group.ordinal, failure);
            }
            Err(Trouble::Wounded | Trouble::Stopped) => self.shared.dropped(group.ordinal),
        }
    }

    /// Tries until it is committed.
    fn finish(&mut self, group: &Group) -> Result<(), Trouble> {
        let mut retries = 0;
        loop {
            self.runner.take_wound();
            let is_turn = self.shared.order.is_turn(group.ordinal);
            let trouble = match self.attempt(group, is_turn) {
                Ok(()) => return Ok(()),
                Err(trouble) => trouble,
            };
            self.session.abandon_applied();
            let was_wounded = self.runner.take_wound();
            if self.shared.is_ending(group.ordinal) {
                return Err(Trouble::Stopped);
            }
            let failure = match trouble {
                Trouble::Stopped => return Err(Trouble::Stopped),
                Trouble::Error(failure) if failure.code == SHUTDOWN => {
                    self.shared.halt(group.ordinal);
                    return Err(Trouble::Stopped);
                }
                Trouble::Error(failure) if is_turn && !was_wounded => failure,
                // It ran too early, or was in an earlier one's way, where it would be again.
                Trouble::Error(_) | Trouble::Wounded => {
                    match self.shared.order.park(group.ordinal) {
                        true => continue,
                        false => return Err(Trouble::Stopped),
                    }
                }
            };
            if !TRANSIENT.contains(&failure.code) || retries >= self.shared.rules.retries {
                return Err(Trouble::Error(failure));
            }
            // Those behind it may be what it has met, and come to the same rows again and again.
            self.shared.order.clear_way(group.ordinal);
            retries += 1;
            self.shared.retried();
            std::thread::sleep((RETRY_PAUSE * retries.min(100) as u32).min(MAX_RETRY_PAUSE));
        }
    }

    fn attempt(&mut self, group: &Group, is_turn: bool) -> Result<(), Trouble> {
        let value = state::row(group.ordinal, &group.id, &group.end);
        let slot = state::slot(group.ordinal);
        let row = ChannelRow::applied(&self.shared.channel, slot, value);
        let origin = Origin {
            commit_micros: group.original_micros,
            server_version: group.original_version,
            server_id: group.server_id,
        };
        let gtid = match &group.id {
            Id::Gtid(gtid) => Some(gtid),
            Id::Maria(_) | Id::Position => None,
        };
        let applying = Applying::new(row, origin);
        let is_new = self.session.begin_applying(applying, gtid);
        let is_new = is_new.map_err(|e| self.trouble(group, None, &e))?;
        let shape = if is_new { group.shape } else { Shape::Empty };
        match shape {
            Shape::Empty => {
                self.session.open_applied();
                self.commit(group)
            }
            Shape::Transaction | Shape::CreateAndFill => {
                self.session.open_applied();
                self.parts(group, &group.parts, is_turn)?;
                self.commit(group)
            }
            Shape::Statement | Shape::Xa => {
                match self.parts(group, &group.parts, is_turn) {
                    Err(Trouble::Error(failure))
                        if REPEATED.contains(&failure.code)
                            && self.shared.may_repeat(group.ordinal) => {}
                    done => done?,
                }
                let settled = self.session.settle_applied();
                settled.map_err(|e| self.trouble(group, None, &e))
            }
        }
    }

    fn commit(&mut self, group: &Group) -> Result<(), Trouble> {
        if self.shared.rules.in_order {
            match self.shared.order.wait_turn(group.ordinal, &self.runner) {
                Turn::Mine => {}
                Turn::Wounded => return Err(Trouble::Wounded),
                Turn::Stopped => return Err(Trouble::Stopped),
            }
        }
        let committed = self.session.commit_applied();
        committed
            .map(drop)
            .map_err(|e| self.trouble(group, None, &e))
    }

    /// Everything between BEGIN and COMMIT.
    fn parts(&mut self, group: &Group, parts: &[Part], is_turn: bool) -> Result<(), Trouble> {
        let mut open = Open::default();
        for part in parts {
            let body = group.body(part);
            match part.kind {
                PartKind::TableMap => {
                    let map = TableMap::parse(body).map_err(|e| self.damaged(group, part, &e))?;
                    open.add_map(body, map, &self.shared);
                }
                PartKind::Rows { change, is_v1 } => {
                    let rows = Rows::parse_version(event_type(change), is_v1, body);
                    let rows = rows.map_err(|e| self.damaged(group, part, &e))?;
                    if open.add_rows(rows, (change, part)) {
                        self.rows(group, &mut open, is_turn)?;
                    }
                }
                PartKind::Query => {
                    self.rows(group, &mut open, is_turn)?;
                    self.query(group, part)?;
                }
                PartKind::IntVar | PartKind::Rand | PartKind::UserVar => {
                    self.rows(group, &mut open, is_turn)?;
                    let set = set_variable(part.kind, body);
                    let set = set.and_then(|sql| self.session.apply_text(&sql));
                    set.map_err(|e| self.trouble(group, Some(part), &e))?;
                }
                PartKind::Refused => {
                    let why = String::from_utf8_lossy(body);
                    return Err(Trouble::Error(self.failure(group, NOT_APPLICABLE, &why)));
                }
            }
        }
        self.rows(group, &mut open, is_turn)
    }

    /// Makes the changes of the statement that has come to its end.
    fn rows(&mut self, group: &Group, open: &mut Open<'_>, is_turn: bool) -> Result<(), Trouble> {
        let Some((change, part)) = open.last.take() else {
            open.statement.maps.clear();
            return Ok(());
        };
        let rules = &self.shared.rules;
        // Before its turn, what is missing may be about to come.
        let mode = if is_turn {
            rules.mode
        } else {
            ApplyMode::Strict
        };
        open.statement.time = part.time;
        let how = (mode, rules.conversions);
        let applied = self
            .session
            .apply_rows(&open.statement, how, &mut self.tables);
        let applied = match applied {
            Err(e) if rules.skips(e.code) && is_turn => Ok(()),
            Err(e) => {
                let table = open.table_name();
                let handler = match e.code {
                    1032 => " handler error HA_ERR_KEY_NOT_FOUND;",
                    1062 => " handler error HA_ERR_FOUND_DUPP_KEY;",
                    _ => "",
                };
                let text = format!(
                    "Could not execute {} event on table {table}; {}, Error_code: {};{handler} \
                     the event's source log {}, end_log_pos {}",
                    event_type(change).name(),
                    e.message,
                    e.code,
                    group.end.source_file,
                    part.end
                );
                Err(self.failure(group, e.code, &text))
            }
            Ok(()) => Ok(()),
        };
        open.statement.maps.clear();
        open.statement.rows.clear();
        applied.map_err(Trouble::Error)
    }

    fn query(&mut self, group: &Group, part: &Part) -> Result<(), Trouble> {
        let shared = self.shared.clone();
        let done = run_query(&mut self.session, &mut self.settings, &shared, group, part);
        match done {
            Ok(()) => Ok(()),
            Err(failure) if shared.rules.skips(failure.code) => Ok(()),
            Err(failure) => Err(Trouble::Error(failure)),
        }
    }

    fn damaged(&self, group: &Group, part: &Part, e: &esker_binlog::Error) -> Trouble {
        self.trouble(group, Some(part), &errors::corrupt_event(e))
    }

    fn trouble(&self, group: &Group, part: Option<&Part>, e: &SqlError) -> Trouble {
        let at = part.map_or(String::new(), |part| {
            format!(
                "; the event's source log {}, end_log_pos {}",
                group.end.source_file, part.end
            )
        });
        let text = format!("{}{at}", e.message);
        Trouble::Error(self.failure(group, e.code, &text))
    }

    fn failure(&self, group: &Group, code: u16, text: &str) -> Failure {
        failure(&self.shared, self.number, group, code, text)
    }
}

/// The words of MySQL around an error of a worker.
fn failure(shared: &Shared, number: usize, group: &Group, code: u16, text: &str) -> Failure {
    let id = match &group.id {
        Id::Gtid(gtid) => gtid.to_string(),
        Id::Maria(gtid) => gtid.to_string(),
        Id::Position => "ANONYMOUS".to_owned(),
    };
    let text = format!(
        "Worker {} failed executing transaction '{id}' at source log {}, end_log_pos {}; {text}",
        number + 1,
        group.end.source_file,
        group.end.source_pos
    );
    Failure {
        code,
        text,
        micros: shared.instance.now_micros(),
    }
}

/// Runs a statement with what it depends on.
fn run_query(
    session: &mut Session,
    current: &mut String,
    shared: &Shared,
    group: &Group,
    part: &Part,
) -> Result<(), Failure> {
    let fail = |e: &SqlError, query: Option<&Query<'_>>| {
        let text = match query {
            None => e.message.clone(),
            Some(query) => format!(
                "Error '{}' on query. Default database: '{}'. Query: '{}'",
                e.message,
                String::from_utf8_lossy(query.schema),
                String::from_utf8_lossy(query.text)
            ),
        };
        failure(shared, 0, group, e.code, &text)
    };
    let damaged = |e: esker_binlog::Error| fail(&errors::corrupt_event(&e), None);
    let query = Query::parse(group.body(part)).map_err(damaged)?;
    let settings = Settings::parse(query.settings).map_err(damaged)?;
    let set = set_statement(&settings);
    if *current != set {
        session
            .apply_text(set.as_bytes())
            .map_err(|e| fail(&e, Some(&query)))?;
        *current = set;
    }
    session.fix_time(part.time, settings.micros.unwrap_or(0));
    let schema = String::from_utf8_lossy(query.schema);
    let schema = shared.settings.filters.rewritten(&schema);
    session.use_applied_database(schema);
    session
        .apply_text(query.text)
        .map_err(|e| fail(&e, Some(&query)))
}

/// The statement whose row events are being gathered.
#[derive(Default)]
struct Open<'a> {
    statement: RowStatement<'a>,
    last: Option<(RowKind, &'a Part)>,
}

impl<'a> Open<'a> {
    fn add_map(&mut self, body: &'a [u8], mut map: TableMap, shared: &Shared) {
        let schema = shared.settings.filters.rewritten(&map.schema);
        if schema != map.schema {
            map.schema = schema.to_owned();
        }
        self.statement.maps.push((body, map));
    }

    /// True: the statement ends with these.
    fn add_rows(&mut self, rows: Rows<'a>, what: (RowKind, &'a Part)) -> bool {
        let maps = &self.statement.maps;
        let ends = rows.ends_statement;
        // Nothing changes tables without a map: the end of a statement that changed none.
        if let Some(map) = maps
            .iter()
            .rposition(|(_, map)| map.table_id == rows.table_id)
        {
            self.statement.rows.push((map, rows));
            self.last = Some(what);
        }
        ends
    }

    fn table_name(&self) -> String {
        let last = self.statement.rows.last();
        let map = last.and_then(|(map, _)| self.statement.maps.get(*map));
        map.map_or(String::new(), |(_, map)| {
            format!("{}.{}", map.schema, map.table)
        })
    }
}
