//! A group in a session, up to its commit.
//!
//! Neighbours: `worker` says when, and whether the group's turn has come; [`Session`](crate::session::Session) makes
//! the changes; `context` has the settings of statements. **Invariants**
//! - What is to be skipped, or done anyway, counts in the group's turn only: before it, what is missing may be about to
//!   come.

use esker_binlog::Origin;
use esker_binlog::apply::{Group, Id, Part, PartKind, RowKind, Shape, state};
use esker_binlog::attachment::Numbering;
use esker_binlog::event::query::{Query, Settings};
use esker_binlog::event::rows::Rows;
use esker_binlog::event::table_map::TableMap;
use esker_sql_catalog::catalog::ChannelRow;
use esker_types::{SqlError, SqlMode, errors};

use super::checks::{changes_rows, not_in_row_format};
use super::context::{KeyCheck, own_mode, set_statement, set_variable};
use super::hands::Hand;
use super::keys::event_type;
use super::rules::Rules;
use super::shared::name_of;
use super::source_tables::session_of;
use super::{Failure, Shared};
use crate::dml::apply::ApplyMode;
use crate::session::{Applying, RowStatement, TableCache};

/// An event that this server cannot apply.
const NOT_APPLICABLE: u16 = 1235;
/// A value of an event cannot become one of the column, to a session and of an applier.
const CANNOT_CONVERT: u16 = 1677;
const CONVERSION_FAILED: u16 = 13146;
/// The tables of rows cannot be opened: there is none of this name, or it is a view's.
const NO_TABLE: [u16; 3] = [1049, 1146, 1347];
/// Errors of XA identifiers that were done already: their record and the channel's state are two, so the server may
/// have gone down between them.
const REPEATED: [u16; 2] = [1397, 1440];

/// How far a group has come.
pub(super) enum Ran {
    /// It is to be committed.
    Open,
    /// It has committed itself.
    Committed,
}

/// An attempt.
pub(super) struct Run<'a> {
    pub(super) shared: &'a Shared,
    pub(super) group: &'a Group,
    pub(super) hand: &'a mut Hand,
    pub(super) tables: &'a mut TableCache,
    /// Has everything before it ended?
    pub(super) is_turn: bool,
}

impl Run<'_> {
    /// Makes the changes of the group.
    pub(super) fn attempt(mut self) -> Result<Ran, Failure> {
        let group = self.group;
        let value = state::row(group.ordinal, &group.id, &group.end);
        let slot = state::slot(group.ordinal);
        let row = ChannelRow::applied(&self.shared.channel, slot, value);
        let origin = Origin {
            commit_micros: group.original_micros,
            server_version: group.original_version,
            server_id: group.server_id,
        };
        let numbering = match &group.id {
            Id::Gtid(gtid) => Numbering::Given(gtid.clone()),
            Id::Maria(_) => Numbering::default(),
            // Nothing is logged.
            Id::Position if group.shape == Shape::Empty => Numbering::default(),
            Id::Position => self.shared.settings.anonymous.numbering(),
        };
        let applying = Applying::new(row, origin);
        let is_new = self.hand.session.begin_applying(applying, &numbering);
        let is_new = is_new.map_err(|e| self.trouble(None, &e))?;
        let shape = if is_new { group.shape } else { Shape::Empty };
        match shape {
            Shape::Empty => {
                self.hand.session.open_applied();
                Ok(Ran::Open)
            }
            Shape::Transaction | Shape::CreateAndFill => {
                self.hand.enter(session_of(group));
                self.hand.session.open_applied();
                self.parts().map(|()| Ran::Open)
            }
            Shape::Statement | Shape::Xa => {
                self.hand.enter(session_of(group));
                match self.parts() {
                    Err(failure)
                        if REPEATED.contains(&failure.code)
                            && self.shared.may_repeat(group.ordinal) => {}
                    done => done?,
                }
                let settled = self.hand.session.settle_applied();
                settled.map_err(|e| self.trouble(None, &e))?;
                self.hand.leave();
                Ok(Ran::Committed)
            }
        }
    }

    /// Commits them.
    pub(super) fn commit(self) -> Result<(), Failure> {
        let committed = self.hand.session.commit_applied();
        committed.map_err(|e| self.trouble(None, &e))?;
        self.hand.leave();
        Ok(())
    }

    /// Everything between BEGIN and COMMIT.
    fn parts(&mut self) -> Result<(), Failure> {
        let (group, shared) = (self.group, self.shared);
        let mut open = Open::default();
        open.statement.checks_user = shared.settings.checks_user.as_ref();
        open.statement.sql_mode = group.sql_mode.map(SqlMode::known);
        // Bounded by the group's bytes.
        let mut file: Option<Vec<u8>> = None;
        for part in &group.parts {
            let body = group.body(part);
            match part.kind {
                PartKind::TableMap => {
                    let map = TableMap::parse(body).map_err(|e| self.damaged(part, &e))?;
                    open.add_map(body, map, self.shared);
                }
                PartKind::Rows { change, is_v1 } => {
                    let rows = Rows::parse_version(event_type(change), is_v1, body);
                    let rows = rows.map_err(|e| self.damaged(part, &e))?;
                    if open.add_rows(rows, (change, part)) {
                        self.rows(&mut open)?;
                    }
                }
                PartKind::Query => {
                    self.rows(&mut open)?;
                    self.hand.session.load_applied_file(file.take());
                    let done = self.query(part);
                    self.hand.session.load_applied_file(None);
                    done?;
                }
                PartKind::FileBlock { begins } => {
                    let file = file.get_or_insert_default();
                    if begins {
                        file.clear();
                    }
                    file.extend_from_slice(body);
                }
                PartKind::IntVar | PartKind::Rand | PartKind::UserVar => {
                    if self.shared.settings.row_format {
                        return Err(self.trouble(Some(part), &not_in_row_format()));
                    }
                    self.rows(&mut open)?;
                    let set = set_variable(part.kind, body);
                    let set = set.and_then(|sql| self.hand.session.apply_text(&sql));
                    set.map_err(|e| self.trouble(Some(part), &e))?;
                }
                PartKind::Refused => {
                    let why = String::from_utf8_lossy(body);
                    return Err(self.failure(NOT_APPLICABLE, &why));
                }
            }
        }
        self.rows(&mut open)
    }

    /// Makes the changes of the statement that has come to its end.
    fn rows(&mut self, open: &mut Open<'_>) -> Result<(), Failure> {
        let Some((change, part)) = open.last.take() else {
            open.statement.maps.clear();
            return Ok(());
        };
        let rules = &self.shared.rules;
        // Before its turn, what is missing may be about to come.
        let mode = if self.is_turn {
            Rules::mode(&self.shared.instance)
        } else {
            ApplyMode::Strict
        };
        open.statement.time = part.time;
        let how = (mode, Rules::conversions(&self.shared.instance));
        self.hand.show(match change {
            RowKind::Write => "Applying batch of row changes (write)",
            RowKind::Update | RowKind::PartialUpdate => "Applying batch of row changes (update)",
            RowKind::Delete => "Applying batch of row changes (delete)",
        });
        let session = &mut self.hand.session;
        let applied = session.apply_rows(&open.statement, how, self.tables);
        let applied = match applied {
            Err(e) if rules.skips(e.code) && self.is_turn => Ok(()),
            Err(e) => Err(match e.code {
                CANNOT_CONVERT => self.failure_at(part, CONVERSION_FAILED, &e.message),
                code if NO_TABLE.contains(&code) => {
                    let text = format!("Error executing row event: '{}'", e.message);
                    self.failure_at(part, code, &text)
                }
                code => {
                    let text = format!(
                        "Could not execute {} event on table {}; {}, Error_code: {code}; handler error {}; \
                         the event's source log {}, end_log_pos {}",
                        event_type(change).name(),
                        open.table_name(),
                        e.message,
                        handler_error(code),
                        self.group.end.source_file,
                        part.end
                    );
                    self.failure_at(part, code, &text)
                }
            }),
            Ok(()) => Ok(()),
        };
        open.statement.maps.clear();
        open.statement.rows.clear();
        applied
    }

    fn query(&mut self, part: &Part) -> Result<(), Failure> {
        match run_query(self.hand, self.shared, self.group, part) {
            Err(failure) if self.shared.rules.skips(failure.code) && self.is_turn => Ok(()),
            done => done,
        }
    }

    fn damaged(&self, part: &Part, e: &esker_binlog::Error) -> Failure {
        self.trouble(Some(part), &errors::corrupt_event(e))
    }

    fn trouble(&self, part: Option<&Part>, e: &SqlError) -> Failure {
        let at = part.map_or(String::new(), |part| {
            format!(
                "; the event's source log {}, end_log_pos {}",
                self.group.end.source_file, part.end
            )
        });
        let text = format!("{}{at}", e.message);
        match part {
            Some(part) => self.failure_at(part, e.code, &text),
            None => self.failure(e.code, &text),
        }
    }

    /// An error of one of the events.
    fn failure_at(&self, part: &Part, code: u16, text: &str) -> Failure {
        let end = u64::from(part.end);
        failure(
            (self.shared, self.hand.worker),
            (self.group, end),
            code,
            text,
        )
    }

    fn failure(&self, code: u16, text: &str) -> Failure {
        let end = self.group.end.source_pos;
        failure(
            (self.shared, self.hand.worker),
            (self.group, end),
            code,
            text,
        )
    }
}

/// The words of MySQL around an error of a worker, in an event that ends at `end` of the source's file.
fn failure(
    (shared, number): (&Shared, usize),
    (group, end): (&Group, u64),
    code: u16,
    text: &str,
) -> Failure {
    let id = name_of(&group.id);
    let text = format!(
        "Worker {} failed executing transaction '{id}' at source log {}, end_log_pos {}; {text}",
        number + 1,
        group.end.source_file,
        end
    );
    Failure {
        code,
        text,
        micros: shared.instance.now_micros(),
    }
}

/// What MySQL's storage engines call an error of rows.
fn handler_error(code: u16) -> &'static str {
    match code {
        1032 => "HA_ERR_KEY_NOT_FOUND",
        1062 => "HA_ERR_FOUND_DUPP_KEY",
        1205 => "HA_ERR_LOCK_WAIT_TIMEOUT",
        1213 => "HA_ERR_LOCK_DEADLOCK",
        1451 => "HA_ERR_ROW_IS_REFERENCED",
        1452 => "HA_ERR_NO_REFERENCED_ROW",
        _ => "No Error!",
    }
}

/// Runs a statement with what it depends on.
fn run_query(hand: &mut Hand, shared: &Shared, group: &Group, part: &Part) -> Result<(), Failure> {
    let (worker, session) = (hand.worker, &mut hand.session);
    let fail = |e: &SqlError, query: Option<&Query<'_>>| {
        let text = match query {
            None => e.message.clone(),
            Some(query) => format!(
                "Error '{}' on query. Default database: '{}'. Query: '{}'",
                e.message,
                (shared.settings.filters).rewritten(&String::from_utf8_lossy(query.schema)),
                String::from_utf8_lossy(query.text)
            ),
        };
        failure((shared, worker), (group, part.end.into()), e.code, &text)
    };
    let damaged = |e: esker_binlog::Error| fail(&errors::corrupt_event(&e), None);
    let query = Query::parse(group.body(part)).map_err(damaged)?;
    let mut settings = Settings::parse(query.settings).map_err(damaged)?;
    if let Some(bits) = &mut settings.sql_mode {
        let own = own_mode(*bits, group.original_version);
        *bits = own.map_err(|e| fail(&e, Some(&query)))?;
    }
    if let Some(account) = &shared.settings.checks_user
        && needs_rights(&shared.settings, &settings)
    {
        let admitted = session.admit_settings_of(account);
        admitted.map_err(|e| fail(&e, Some(&query)))?;
    }
    let set = set_statement(&settings, shared.settings.key_check);
    if hand.settings != set {
        session
            .apply_text(set.as_bytes())
            .map_err(|e| fail(&e, Some(&query)))?;
        hand.settings = set;
    }
    session.fix_time(part.time, settings.micros.unwrap_or(0));
    let schema = String::from_utf8_lossy(query.schema);
    let schema = shared.settings.filters.rewritten(&schema);
    session.use_applied_database(schema);
    if shared.settings.row_format && changes_rows(query.text) {
        return Err(fail(&not_in_row_format(), Some(&query)));
    }
    let done = match &shared.settings.checks_user {
        None => session.apply_statement(query.text),
        Some(account) => session.apply_statement_as(account, query.text),
    };
    done.map_err(|e| fail(&e, Some(&query)))
}

/// Must PRIVILEGE_CHECKS_USER be allowed to set variables, for a statement with these settings? With
/// REQUIRE_ROW_FORMAT none comes that concerns others, such as `pseudo_thread_id`.
fn needs_rights(channel: &super::Settings, settings: &Settings) -> bool {
    let follows = channel.key_check == KeyCheck::Stream;
    !channel.row_format || (follows && settings.require_primary_key.is_some())
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
