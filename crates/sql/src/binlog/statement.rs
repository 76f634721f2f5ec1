//! Heads and statements for the binary log: what is said of a transaction when it commits, and statements that are
//! logged as text.
//!
//! Neighbours: `session` calls this where statements begin and transactions end; `capture` has the rows.
//! **Invariants**: the text of a statement is the client's own, in which only what must not be logged is replaced:
//! clauses about waiting, and passwords.

use esker_binlog::attachment::{Head, Origin, What, head_bytes, mark_change, push_event};
use esker_binlog::event::group::XaPrepare;
use esker_binlog::event::query::{self, Query, Settings};
use esker_binlog::event::{EventType, FLAG_SUPPRESS_USE};
use esker_engine::{Seq, Txn};
use esker_sql_catalog::catalog::{Catalog, StorageEngine, TableDef, show_create_table};
use esker_sql_catalog::exec_error::engine_error;
use esker_sql_syntax::ast::{Statement, Xid};
use esker_sql_syntax::{self as parse, AccountPlaces, ParseOptions};
use esker_types::collation::Charset;
use esker_types::{Level, SqlError, SqlResult};

use crate::capture::{Beginning, LoggedStatement, Start};
use crate::session::{Session, SessionContext};

/// Bytes that settings mostly take.
const USUAL_SETTINGS_BYTES: usize = 64;

/// What an event is about, which decides what of its session it depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// Rows.
    Rows,
    /// The table that the rows behind it fill. Readers can set nothing about defaults within its transaction.
    Filled,
    /// CREATE and ALTER TABLE.
    Table,
    /// Any other statement.
    Other,
}

impl Session {
    /// Is what this session does logged?
    pub(crate) fn logs(&self) -> bool {
        self.vars.log.on && self.context.instance.binlog.is_on()
    }

    /// Is a statement about this default database logged? One without default database is.
    fn logs_about(&self, database: Option<&str>) -> bool {
        let settings = self.context.instance.binlog.capture_settings();
        let is_left_out = |name: &str| settings.is_some_and(|s| s.filter().leaves_out(name));
        self.logs() && !database.is_some_and(is_left_out)
    }

    /// Is the text of this statement wanted for the log?
    pub(crate) fn logs_text(&self, statement: &Statement) -> bool {
        self.logs() && (self.vars.log.statements || !is_about_rows(statement))
    }

    /// Takes down the text of a statement that was parsed before.
    pub(crate) fn note_text(&mut self, statement: &Statement, sql: &[u8]) {
        if !self.logs_text(statement) {
            return;
        }
        let options = ParseOptions {
            sql_mode: self.vars.sql_mode,
            params: true,
            ..ParseOptions::default()
        };
        // It was parsed before, in perhaps another mode; what cannot be read again is not logged with its passwords.
        match parse::parse(sql, options) {
            Ok(parsed) => {
                self.statement_text = parsed.logged_text(sql);
                self.statement_accounts = parsed.accounts;
            }
            Err(_) => {
                self.statement_text.clear();
                self.statement_accounts = AccountPlaces::default();
            }
        }
    }

    /// A statement that changes rows begins.
    pub(crate) fn begin_capture(&mut self) {
        let settings = self.context.instance.binlog.capture_settings();
        let Some(settings) = settings.filter(|_| self.logs()) else {
            self.capture.skip_statement();
            return;
        };
        let (detail, event_bytes) = (settings.detail(), settings.event_bytes());
        self.capture.cache().open(settings);
        let time = self.statement_seconds();
        let text = self
            .vars
            .log
            .statements
            .then(|| self.statement_text.clone());
        if self.capture.beginning().is_none() {
            let beginning = Beginning {
                time,
                schema: self.context.database.clone(),
                settings: self.settings(&[], About::Rows),
            };
            *self.capture.beginning() = Some(beginning);
        }
        self.capture.tables().set_detail(detail);
        self.capture.begin_statement(Start {
            vars: &self.vars.log,
            event_bytes,
            time,
            text,
        });
    }

    /// When the statement has begun, microseconds since the epoch.
    fn statement_micros(&self) -> i64 {
        let begun = || self.context.statement_micros.get();
        self.vars.fixed_now.unwrap_or_else(begun)
    }

    fn statement_seconds(&self) -> u32 {
        u32::try_from(self.statement_micros().div_euclid(1_000_000)).unwrap_or(0)
    }

    /// The fraction of that second.
    fn statement_fraction(&self) -> u32 {
        self.statement_micros().rem_euclid(1_000_000) as u32
    }

    /// The settings that a statement of this session depends on. Readers keep those of the statement before for what is
    /// not said, so the zone is named, even as SYSTEM, wherever it may matter: not with rows, which are in UTC.
    fn settings(&self, databases: &[String], about: About) -> Vec<u8> {
        // autocommit is not among them: every event is in a transaction of its own, and a consumer that took it over
        // would have one open behind a statement that commits nothing.
        let mut flags2 = 0;
        let mut flag = |bit, is_set: bool| flags2 |= if is_set { bit } else { 0 };
        flag(
            query::NO_FOREIGN_KEY_CHECKS,
            self.vars.log.flags.no_foreign_key_checks,
        );
        flag(
            query::RELAXED_UNIQUE_CHECKS,
            self.vars.log.flags.relaxed_unique_checks,
        );
        let step = (
            self.vars.auto_increment_increment as u16,
            self.vars.auto_increment_offset as u16,
        );
        let log = &self.vars.log;
        let zone = || self.values.named("time_zone").as_text().to_owned();
        // Texts are logged in UTF-8, whatever the client wrote.
        let client = match self.vars.charset_client {
            charset if charset.stores_utf8() => charset,
            _ => Charset::Utf8mb4,
        };
        let client = client.default_collation();
        let settings = Settings {
            flags2: Some(flags2),
            sql_mode: Some(self.vars.sql_mode.0),
            auto_increment: (step != (1, 1)).then_some(step),
            charset: Some((
                client.0,
                self.vars.collation_connection.0,
                log.server_collation.map_or(0, |c| c.0),
            )),
            time_zone: (about != About::Rows || log.names_zone).then(zone),
            updated_databases: databases.to_vec(),
            // What CURRENT_TIMESTAMP(6) is in the rows of a column that is added.
            micros: (about == About::Table).then(|| self.statement_fraction()),
            explicit_defaults: matches!(about, About::Table | About::Other)
                .then_some(log.explicit_defaults),
            utf8mb4_collation: Some(log.utf8mb4_collation.0),
            require_primary_key: matches!(about, About::Filled | About::Table)
                .then(|| self.requires_primary_key()),
            ..Settings::default()
        };
        let mut bytes = Vec::with_capacity(USUAL_SETTINGS_BYTES);
        settings.write(&mut bytes);
        bytes
    }

    /// Gives the transaction that is to be committed its head, if it has events.
    ///
    /// # Errors
    /// It is too large with it.
    pub(crate) fn seal(&mut self) -> SqlResult<()> {
        // A schema statement ends what is open before it begins, which is nothing of the transaction it stands for.
        let has_changed = self.txn.has_writes() && !self.context.instance.binlog.is_on();
        let is_one = self.in_transaction() || has_changed;
        if is_one {
            self.mark_applied()?;
        }
        let takes_gtid = is_one && self.context.gtid_next.owned().is_some();
        match (self.txn.attachment_bytes() == 0, takes_gtid) {
            (false, _) => self.seal_as(What::Transaction, None),
            (true, true) => self.seal_as(What::Empty, None),
            (true, false) => Ok(()),
        }
    }

    /// May CREATE TABLE … SELECT fill this table? With GTIDs it has to be one transaction in the log, which a replica
    /// of MySQL refuses where the engine has none (3979).
    ///
    /// # Errors
    /// 1786.
    pub(crate) fn admit_filling(&mut self, table: &TableDef) -> SqlResult<()> {
        let globals = &self.context.instance.globals;
        let has_gtids = globals.named("gtid_mode").as_text().starts_with("ON");
        let consistency = globals.named("enforce_gtid_consistency");
        let is_consistent =
            table.engine == StorageEngine::InnoDb || !self.logs_about(Some(&table.schema));
        let text = "Statement violates GTID consistency: CREATE TABLE ... SELECT.";
        match consistency.as_text() {
            _ if is_consistent => {}
            "WARN" if !has_gtids => self.warn(Level::Warning, 1786, text.to_owned()),
            "OFF" if !has_gtids => {}
            _ => return Err(SqlError::new(1786, "HY000", text)),
        }
        Ok(())
    }

    /// CREATE TABLE … SELECT is about to fill its table: logged as the CREATE TABLE that makes it, and its rows.
    /// The definition does not say in which database, so that is the default one of the statement.
    pub(crate) fn begin_filling(&mut self, table: &TableDef) {
        self.begin_capture();
        let schema = &*table.schema;
        if self.logs_about(Some(schema)) {
            let definition = show_create_table(table, &self.vars.time_zone);
            let settings = self.settings(&[], About::Filled);
            let event = self.query_event(schema, definition.as_bytes(), &settings, true);
            self.capture.push_statement(&event);
        }
    }

    /// Gives the transaction that has filled a table its head.
    ///
    /// # Errors
    /// It is too large with it.
    pub(crate) fn seal_filled(&mut self) -> SqlResult<()> {
        self.mark_applied()?;
        self.context.use_gtid_unlogged();
        match self.txn.attachment_bytes() == 0 {
            true => Ok(()),
            false => self.seal_as(What::CreateAndFill, None),
        }
    }

    /// The same for a transaction that is prepared. One without events is not logged, nor is its end: a replica of
    /// MySQL stops at a transaction that is prepared and has changed nothing (3898). True: it is logged.
    pub(crate) fn seal_prepared(&mut self, xid: &Xid) -> SqlResult<bool> {
        let has_events = self.txn.attachment_bytes() > 0;
        if has_events {
            self.seal_as(What::XaPrepare, Some(event_xid(xid)))?;
        }
        Ok(has_events)
    }

    /// Commits a transaction that is nothing but its GTID.
    ///
    /// # Errors
    /// Of the engine.
    pub(crate) fn log_empty(&mut self) -> SqlResult<Option<Seq>> {
        self.seal_as(What::Empty, None)?;
        let commit = self.txn.commit().map_err(|e| engine_error(&e))?;
        Ok(commit.seq)
    }

    fn seal_as(&mut self, what: What, xid: Option<XaPrepare>) -> SqlResult<()> {
        let numbering = self.number_transaction();
        if !self.context.instance.binlog.is_on() {
            return Ok(());
        }
        let spooled = self.capture.cache().seal(&mut self.txn)?;
        let beginning = self.capture.beginning().take().unwrap_or_default();
        let schema = beginning.schema.as_deref().unwrap_or("");
        let commit_micros = self.context.instance.now_micros().max(0) as u64;
        let thread_id = self.connection_id() as u32;
        let compressed = self.vars.log.compressed;
        let head = Head {
            what,
            commit_micros,
            begin_time: beginning.time,
            thread_id,
            numbering,
            origin: self.origin(),
            xid,
            schema: schema.as_bytes(),
            settings: &beginning.settings,
            has_statements: false,
            compressed,
            spooled,
            write_set: match what {
                // As with every statement, all that comes behind it may need what it makes.
                What::CreateAndFill => None,
                _ => self.capture.write_set(),
            },
        };
        let head = head_bytes(&head);
        self.txn
            .set_attachment_head(&head)
            .map_err(|e| engine_error(&e))
    }

    /// Where the transaction was committed first, if the session says so.
    fn origin(&self) -> Option<Origin> {
        if let Some(origin) = self.applied_origin() {
            return Some(origin);
        }
        let (commit_micros, server_version) = self.vars.log.origin?;
        let server_id = self.context.instance.variable_u64("server_id");
        Some(Origin {
            commit_micros,
            server_version,
            server_id: server_id as u32,
        })
    }

    /// A statement that commits itself, for the log; `None` if it is not logged.
    pub(crate) fn logged(
        &self,
        text: &[u8],
        databases: &[String],
        uses: bool,
    ) -> Option<LoggedStatement> {
        let (schema, about) = (self.context.database.as_deref(), About::Other);
        self.logged_about((schema, about), text, databases, uses)
    }

    /// The same for a statement about a database, whatever the default database is: the event has it as its default
    /// database, for those who look at some databases only.
    pub(super) fn logged_about(
        &self,
        (schema, about): (Option<&str>, About),
        text: &[u8],
        databases: &[String],
        uses: bool,
    ) -> Option<LoggedStatement> {
        let mark = self.applied_mark();
        if !self.logs_about(schema) {
            self.context.use_gtid_unlogged();
            return mark.map(|mark| LoggedStatement {
                mark: Some(mark),
                ..LoggedStatement::default()
            });
        }
        let settings = self.settings(databases, about);
        let schema = schema.unwrap_or("");
        let head = Head {
            what: What::Statement,
            commit_micros: self.context.instance.now_micros().max(0) as u64,
            begin_time: self.statement_seconds(),
            thread_id: self.connection_id() as u32,
            numbering: self.number_transaction(),
            origin: self.origin(),
            xid: None,
            schema: schema.as_bytes(),
            settings: &settings,
            has_statements: true,
            compressed: None,
            spooled: None,
            write_set: None,
        };
        Some(LoggedStatement {
            head: head_bytes(&head),
            events: self.query_event(schema, text, &settings, uses),
            mark,
        })
    }

    /// CREATE or ALTER TABLE for the log, behind the default database; `None` if it is not logged.
    pub(super) fn logged_table(&self, text: &[u8]) -> Option<LoggedStatement> {
        let about = (self.context.database.as_deref(), About::Table);
        self.logged_about(about, text, &[], true)
    }

    /// A statement with its default database as an event; `uses`: that matters.
    fn query_event(&self, schema: &str, text: &[u8], settings: &[u8], uses: bool) -> Vec<u8> {
        let mut body = Vec::with_capacity(text.len() + settings.len() + 32);
        let query = Query {
            thread_id: self.connection_id() as u32,
            seconds: 0,
            error: 0,
            schema: schema.as_bytes(),
            settings,
            text,
        };
        query.write(&mut body);
        let mut events = Vec::with_capacity(body.len() + 16);
        let flags = if uses { 0 } else { FLAG_SUPPRESS_USE as u8 };
        let time = self.statement_seconds();
        push_event(EventType::Query, flags, time, &body, &mut events);
        events
    }

    /// The current statement for the log.
    pub(crate) fn logged_as_written(&self, statement: &Statement) -> Option<LoggedStatement> {
        match statement {
            Statement::CreateDatabase { name, .. } | Statement::DropDatabase { name, .. } => {
                let about = (Some(&*name.text), About::Other);
                self.logged_about(about, &self.statement_text, &[], false)
            }
            Statement::AlterDatabase { name, .. } => {
                let named = name.as_ref().map(|name| &*name.text);
                let about = named.or(self.context.database.as_deref());
                self.logged_about((about, About::Other), &self.statement_text, &[], false)
            }
            Statement::CreateTable(_) | Statement::AlterTable(_) => {
                self.logged_table(&self.statement_text)
            }
            _ => self.logged(&self.statement_text, &[], true),
        }
    }

    /// `XA COMMIT` or `XA ROLLBACK` of a transaction that was prepared.
    pub(crate) fn logged_decision(&self, verb: &str, xid: &Xid) -> LoggedStatement {
        let text = format!("{verb} {}", event_xid(xid));
        self.logged(text.as_bytes(), &[], false).unwrap_or_default()
    }
}

impl SessionContext {
    /// Logs a statement that has changed nothing in the catalog's trees, or has changed it already.
    ///
    /// # Errors
    /// Of the engine.
    pub(crate) fn log_alone(&self, logged: Option<LoggedStatement>) -> SqlResult<Seq> {
        logged.map_or(Ok(0), |logged| logged.commit_alone(&self.instance.catalog))
    }
}

impl LoggedStatement {
    /// Logs the statement in a record that has nothing else.
    ///
    /// # Errors
    /// Of the engine.
    pub(crate) fn commit_alone(self, catalog: &Catalog) -> SqlResult<Seq> {
        if self.mark.is_some() {
            return self.commit_with(catalog.row_transaction(), catalog);
        }
        let noted = catalog.engine().note(&self.into_bytes());
        noted.map_err(|e| engine_error(&e))
    }

    /// Commits what `txn` has written, with the statement in its record.
    ///
    /// # Errors
    /// Of the engine.
    pub(crate) fn commit_with(self, mut txn: Txn, catalog: &Catalog) -> SqlResult<Seq> {
        if let Some(mark) = &self.mark {
            catalog.put_channel_row(&mut txn, mark.row())?;
        }
        if !self.head.is_empty() {
            let attached = txn.attach(&self.events);
            let attached = attached.and_then(|()| txn.set_attachment_head(&self.head));
            attached.map_err(|e| engine_error(&e))?;
        }
        let commit = txn.commit().map_err(|e| engine_error(&e))?;
        if let Some(mark) = &self.mark {
            mark.written();
        }
        Ok(commit.seq.unwrap_or(0))
    }

    /// For a record that has what the statement changes.
    pub(crate) fn with_its_change(mut self) -> Self {
        mark_change(&mut self.head);
        self
    }

    /// Head and events in one.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        [self.head, self.events].concat()
    }
}

fn event_xid(xid: &Xid) -> XaPrepare {
    XaPrepare {
        one_phase: false,
        format: xid.format as u32,
        gtrid: xid.gtrid.clone(),
        bqual: xid.bqual.clone(),
    }
}

/// Does the statement only read and change rows?
fn is_about_rows(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Query(_) | Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_)
    )
}
