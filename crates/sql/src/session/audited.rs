//! Audit records of a session: logins, refusals and statements; logins in the general log.
//!
//! Neighbours: `audit` writes; `step` tells how statements ended, `prepared` what could not be prepared, the server
//! when a client has logged in and when it leaves.
//! **Invariant**: a statement is told once, when its outcome is known, however often it waited before.

use esker_sql_catalog::result::{Outcome, OutcomeKind};
use esker_sql_catalog::variables::VarId;
use esker_types::SqlError;
use esker_types::ctx::SessionInfo;

use super::request::Running;
use super::{Session, SessionContext};
use crate::audit::{Class, Line, is_denied};
use crate::counts::Counter;
use crate::counts::NAMES;
use crate::instance::Instance;
use crate::querylog::{masked, without_secrets};

impl Session {
    /// The client is logged in: `event` says how.
    pub fn note_login(&self, event: &str) {
        self.log_login(event);
        if self.context.instance.audit.wants(Class::Connect) {
            let mut line = self.context.audit_line(event);
            if let Some(user) = &self.context.proxy_user {
                line.text("proxy_user", user);
            }
            self.context.write_audit(line);
        }
    }

    /// The general log's entry of a login.
    fn log_login(&self, event: &str) {
        let context = &self.context;
        if !context.instance.query_logs.general.is_on() {
            return;
        }
        let command = match event {
            "change_user" => "Change user",
            _ => "Connect",
        };
        let transport = context.process.connection().transport().unwrap_or("TCP/IP");
        let database = context.database.as_deref().unwrap_or_default();
        let text = format!(
            "{}@{} on {database} using {transport}",
            context.user, context.host
        );
        self.log_command(context.instance.now_micros(), command, text.as_bytes());
    }

    /// The client leaves.
    pub fn note_logout(&self) {
        self.log_command(self.context.instance.now_micros(), "Quit", b"");
        if self.context.instance.audit.wants(Class::Connect) {
            self.context
                .write_audit(self.context.audit_line("disconnect"));
        }
    }

    /// A command of the protocol was answered with an error.
    pub fn audit_command(&self, command: &str, text: &[u8], error: &SqlError) {
        let audit = &self.context.instance.audit;
        if audit.wants(Class::Denied) && is_denied(error.code) {
            let text = String::from_utf8_lossy(text);
            self.context.write_audit(self.statement_line(
                Class::Denied,
                command,
                &text,
                Err(error),
            ));
        }
    }

    /// A statement has ended, or begins to send rows.
    pub(super) fn audit_statement(&self, running: &Running, outcome: &Outcome) {
        let audit = &self.context.instance.audit;
        if !audit.is_on() {
            return;
        }
        let command = running.command.unwrap_or(Counter::EskerComError);
        let result = match &outcome.result {
            OutcomeKind::Err(e) => Err(e),
            OutcomeKind::Ok(info) => Ok(Some(info.affected_rows)),
            OutcomeKind::Rows(_) => Ok(None),
        };
        let class = Class::of(command);
        let denied = result.is_err_and(|e| is_denied(e.code));
        let class = match denied && audit.wants(Class::Denied) {
            true => Class::Denied,
            false => class,
        };
        if !audit.wants(class) {
            return;
        }
        let text = self.context.statement_said(running);
        let command = NAMES[command as usize];
        let command = command.strip_prefix("Com_").unwrap_or("other");
        self.context
            .write_audit(self.statement_line(class, command, &text, result));
    }

    fn statement_line(
        &self,
        class: Class,
        command: &str,
        text: &str,
        result: Result<Option<u64>, &SqlError>,
    ) -> Line {
        let event = match class {
            Class::Denied => "denied",
            _ => "statement",
        };
        let mut line = self.context.audit_line(event);
        line.text("class", class.name());
        line.text("command", command);
        let text = text.trim();
        // What could not be parsed may be a password behind a word that is not spelled right.
        let is_parsed = !result.is_err_and(|e| e.code == 1064);
        let shown = match is_parsed {
            true => without_secrets(text, self.vars.sql_mode),
            false => masked(text, self.vars.sql_mode),
        };
        match result {
            Ok(affected) => {
                line.number("code", 0);
                if let Some(affected) = affected {
                    line.number("affected_rows", affected);
                }
            }
            Err(e) => {
                line.number("code", e.code.into());
                // It may cite what was taken out.
                if is_parsed && shown == text {
                    line.text("message", &e.message);
                }
            }
        }
        line.statement(&shown);
        line
    }
}

impl SessionContext {
    /// A variable of the log itself has a new value, which does not count yet.
    pub(super) fn audit_setting(&self, id: VarId) {
        let instance = &self.instance;
        let name = id.def().name;
        if !name.starts_with("esker_audit_log") || !instance.audit.is_on() {
            return;
        }
        let value = instance.globals.get(id).print();
        let mut line = self.audit_line("audit_log");
        line.text("variable", name);
        line.text("value", &value);
        self.write_audit(line);
        let account = self.current_user();
        tracing::warn!("{account} sets {name} = {value} while the audit log is on");
    }

    /// The text of the statement that runs.
    pub(super) fn statement_said(&self, running: &Running) -> String {
        match running.text.get(running.begin..running.next) {
            Some(text) if !text.is_empty() => String::from_utf8_lossy(text).into_owned(),
            // A prepared statement.
            _ => self.process.detail().info.unwrap_or_default(),
        }
    }

    /// A line with what every line about a session has.
    fn audit_line(&self, event: &str) -> Line {
        let mut line = Line::new(self.instance.now_micros(), event);
        line.number("connection", self.process.id);
        line.text("user", &self.user);
        line.text("host", &self.host);
        line.text("account", &self.current_user());
        if let Some(database) = &self.database {
            line.text("database", database);
        }
        line
    }

    fn write_audit(&self, line: Line) {
        let instance = &self.instance;
        instance.audit.write(&instance.env, line);
    }
}

impl Instance {
    /// A client at `peer` was not let in.
    pub fn audit_refusal(&self, peer: &str, error: &SqlError) {
        if self.audit.wants(Class::Connect) {
            let mut line = Line::new(self.now_micros(), "refused");
            line.text("peer", peer);
            line.number("code", error.code.into());
            line.text("message", &error.message);
            self.audit.write(&self.env, line);
        }
    }
}
