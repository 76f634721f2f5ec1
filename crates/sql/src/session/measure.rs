//! Measuring statements for PERFORMANCE_SCHEMA and the logs of statements.
//!
//! Neighbours: the step loop says when a statement begins, waits, fails and ends; `statements` adds up, `querylog`
//! writes.
//! **Invariants**
//! - Times are differences of clock readings that the step loop takes anyway.
//! - A statement whose text is known by its plan's key costs no reading of its tokens.
//! - Sessions keep at most [`KNOWN`] digests.
//! - No password of a statement stays in what is kept of it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use esker_sql_syntax::digest::digest_text;
use esker_types::SqlError;

use super::Session;
use super::plans::{AsIsHasher, PlanKey, hash_of};
use crate::counts::Counter;
use crate::instruments::{DIGESTS, HISTORY, INSTRUMENTED, REMEMBERED};
use crate::querylog::{self, GeneralEntry, Whose};
use crate::slowlog::{Before, Extra, LeftOut, SlowEntry};
use crate::statements::{Digest, Measured, beginning};

/// Digests that a session keeps.
const KNOWN: usize = 256;

/// Spreads ids and bindings over the bits of a key.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// The statement that is being measured.
struct Current {
    command: Counter,
    digest: Option<u64>,
    lock_wait: Duration,
    sent: u64,
    examined: u64,
    error: Option<(u16, String)>,
    /// Profiles were wanted when it began.
    is_profiled: bool,
}

/// What a session has to measure its statements.
#[derive(Default)]
pub(super) struct Measure {
    current: Option<Current>,
    /// Text of the current statement.
    text: String,
    known: HashMap<u64, Arc<Digest>, AsIsHasher>,
    generation: u64,
    /// What had been counted when the statement began, if the slow query log asks.
    before: Option<Box<Before>>,
}

impl Measure {
    /// Rows were sent.
    pub(super) fn sent(&mut self, rows: u64) {
        if let Some(current) = &mut self.current {
            current.sent += rows;
        }
    }

    /// Rows sent so far.
    pub(super) fn rows_sent(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.sent)
    }

    /// So many rows were sent.
    pub(super) fn set_rows_sent(&mut self, rows: u64) {
        if let Some(current) = &mut self.current {
            current.sent = rows;
        }
    }

    /// Rows were read.
    pub(super) fn examined(&mut self, rows: u64) {
        if let Some(current) = &mut self.current {
            current.examined += rows;
        }
    }

    /// The statement has waited for a lock so long, in all.
    pub(super) fn waited(&mut self, time: Duration) {
        if let Some(current) = &mut self.current {
            current.lock_wait = time;
        }
    }

    /// The statement failed.
    pub(super) fn failed(&mut self, e: &SqlError) {
        if let Some(current) = &mut self.current {
            current.error = Some((e.code, e.message.clone()));
        }
    }
}

impl Session {
    /// The general log's entry of a command.
    pub(super) fn log_command(&self, now: i64, command: &str, text: &[u8]) {
        let instance = &self.context.instance;
        let log = &instance.query_logs.general;
        if log.is_on() && !self.values.named("sql_log_off").is_on() {
            let text = String::from_utf8_lossy(text);
            let entry = GeneralEntry {
                begun: now,
                whose: self.whose(),
                command,
                text: &querylog::without_secrets(&text, self.vars.sql_mode),
            };
            log.write(&instance.env, &entry);
        }
    }

    /// This session, as the logs name it.
    fn whose(&self) -> Whose<'_> {
        Whose {
            user: &self.context.user,
            host: &self.context.host,
            address: self.context.process.address(),
            connection: self.context.process.id,
            server_id: self.context.instance.variable_u64("server_id"),
        }
    }

    /// A statement begins, of which the slow query log may want to say what it has counted.
    pub(super) fn note_before(&mut self) {
        let logs = &self.context.instance.query_logs;
        let wanted = logs.slow.is_on() && logs.slow_extra.load(Ordering::Relaxed);
        let counts = &self.context.process.counts;
        self.measure.before = wanted.then(|| Box::new(Before::of(counts)));
    }

    /// Does a statement that has taken so long count as slow? One that reads a table without an index may, however
    /// quick it was.
    pub(super) fn is_slow(&self, taken: i64) -> bool {
        let is_slow = taken > self.vars.slow_after_micros || self.wants_an_index();
        let examined = self.measure.current.as_ref().map_or(0, |m| m.examined);
        is_slow && examined >= self.vars.slow_from_rows
    }

    /// Is it one of those that `log_queries_not_using_indexes` is about?
    fn wants_an_index(&self) -> bool {
        let globals = &self.context.instance.globals;
        self.no_index_used && globals.named("log_queries_not_using_indexes").is_on()
    }

    /// Is the statement logged, slow as it is?
    fn goes_into_slow_log(&self) -> bool {
        let globals = &self.context.instance.globals;
        let command = self.measure.current.as_ref().map(|m| m.command);
        let is_left_out = command.is_some_and(is_administrative)
            && !globals.named("log_slow_admin_statements").is_on();
        let is_replicated = self.context.process.is_applier()
            && !globals.named("log_slow_replica_statements").is_on();
        self.context.instance.query_logs.slow.is_on() && !is_left_out && !is_replicated
    }

    /// The slow query log's entry of a statement that has taken so long, while it is measured still.
    pub(super) fn log_slow(&self, now: i64, taken: i64) {
        if !self.goes_into_slow_log() {
            return;
        }
        let instance = &self.context.instance;
        let logs = &instance.query_logs;
        let measured = self.measure.current.as_ref();
        let lock_micros = measured.map_or(0, |m| m.lock_wait.as_micros() as u64);
        if self.wants_an_index() {
            let limit = instance.variable_u64("log_throttle_queries_not_using_indexes");
            let verdict = logs.index_throttle.admit(limit, now, (taken, lock_micros));
            if let Some(left_out) = verdict.left_out {
                self.log_left_out(now, &left_out);
            }
            if !verdict.logs {
                return;
            }
        }
        let info = self.context.process.detail().info.unwrap_or_default();
        let error = measured.and_then(|m| m.error.as_ref());
        let error = error.map(|(code, message)| (*code, message.len()));
        let before = self.measure.before.as_deref();
        let counts = &self.context.process.counts;
        let entry = SlowEntry {
            ended: now,
            whose: self.whose(),
            query_micros: taken,
            lock_micros,
            rows_sent: measured.map_or(0, |m| m.sent),
            rows_examined: measured.map_or(0, |m| m.examined),
            database: self.context.database.as_deref(),
            text: &querylog::without_secrets(&info, self.vars.sql_mode),
            extra: before.map(|before| Extra::since(before, counts, error)),
        };
        logs.slow.write(&instance.env, &entry);
    }

    /// The slow query log's entry of statements that it has left out.
    fn log_left_out(&self, now: i64, left_out: &LeftOut) {
        let instance = &self.context.instance;
        let entry = SlowEntry {
            ended: now,
            whose: Whose {
                user: "",
                host: "",
                address: "",
                ..self.whose()
            },
            query_micros: left_out.query_micros,
            lock_micros: left_out.lock_micros,
            rows_sent: 0,
            rows_examined: 0,
            database: None,
            text: &left_out.text(),
            extra: None,
        };
        instance.query_logs.slow.write(&instance.env, &entry);
    }

    /// A statement begins that is known by the key of its plan.
    pub(super) fn measure_planned(&mut self, key: PlanKey, command: Counter, text: &[u8]) {
        let key = match key {
            PlanKey::Text(hash) => hash,
            PlanKey::Prepared(id) => u64::from(id).wrapping_mul(MIX),
        };
        self.measure(command, Some(key), text);
    }

    /// A statement begins that is known by its text only.
    pub(super) fn measure_text(&mut self, command: Counter, text: &[u8]) {
        self.measure(command, Some(hash_of(text)), text);
    }

    /// A statement begins; without a key it has no digest.
    pub(super) fn measure(&mut self, command: Counter, key: Option<u64>, text: &[u8]) {
        let digests = &self.context.instance.digests;
        let is_profiled = self.vars.profiles > 0;
        let is_measured = self.is_measured();
        if !is_measured && !is_profiled {
            self.measure.current = None;
            return;
        }
        let generation = digests.generation();
        if generation != self.measure.generation || self.measure.known.len() > KNOWN {
            self.measure.known.clear();
            self.measure.generation = generation;
        }
        let wants_digest = is_measured && self.context.instance.instruments.flags() & DIGESTS != 0;
        let key = key.filter(|_| wants_digest);
        let key = key.map(|key| key ^ self.context.binding.wrapping_mul(MIX));
        if let Some(key) = key
            && !self.measure.known.contains_key(&key)
        {
            let text = digest_text(text, self.vars.sql_mode);
            let digest = digests.digest(self.context.database.as_ref(), &text);
            self.measure.known.insert(key, digest);
        }
        self.keep_text(command, text);
        self.measure.current = Some(Current {
            command,
            digest: key,
            lock_wait: Duration::ZERO,
            sent: 0,
            examined: 0,
            error: None,
            is_profiled,
        });
    }

    /// Keeps the beginning of the current statement's text, without passwords.
    fn keep_text(&mut self, command: Counter, text: &[u8]) {
        let text = match std::str::from_utf8(text) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(text),
        };
        let text = beginning(&text);
        self.measure.text.clear();
        match is_about_rows(command) {
            true => self.measure.text.push_str(text),
            false => {
                let shown = querylog::without_secrets(text, self.vars.sql_mode);
                self.measure.text.push_str(&shown);
            }
        }
    }

    /// The statement has ended at `now`; what it did on disk.
    pub(super) fn end_measure(&mut self, now: i64, disk_tables: u64, merge_passes: u64) {
        let Some(current) = self.measure.current.take() else {
            return;
        };
        let began = self.context.statement_micros.get();
        let (error, message) = current.error.map_or((0, None), |(e, m)| (e, Some(m)));
        let measured = Measured {
            command: current.command,
            began,
            micros: now.saturating_sub(began).max(0) as u64,
            lock_micros: current.lock_wait.as_micros() as u64,
            error,
            warnings: self.diagnostics.total(),
            affected: self.context.row_count.get().max(0) as u64,
            sent: current.sent,
            examined: current.examined,
            disk_tables,
            merge_passes,
            no_index_used: self.no_index_used,
        };
        // As in MySQL, the statement that turns profiles on or off has none.
        if current.is_profiled && self.vars.profiles > 0 {
            let took = (measured.micros, measured.lock_micros);
            self.profiles
                .add(&self.measure.text, took, self.vars.profiles);
        }
        if !self.is_measured() {
            return;
        }
        let digest = current.digest.and_then(|key| self.measure.known.get(&key));
        let text = &self.measure.text;
        if let Some(digest) = digest {
            digest.add(self.context.process.id, &measured, &|| text.clone());
        }
        let schema = self.context.database.as_ref();
        let mut history = self.context.process.history().lock();
        match self.is_remembered() {
            true => history.add(&measured, text, schema, message.as_deref(), digest),
            false => history.count(&measured),
        }
    }

    /// Are its statements measured?
    fn is_measured(&self) -> bool {
        let own = self.context.process.measured();
        self.context.instance.digests.is_on() && own & INSTRUMENTED != 0
    }

    /// Are its last statements kept?
    fn is_remembered(&self) -> bool {
        let own = self.context.process.measured();
        self.context.instance.instruments.flags() & HISTORY != 0 && own & REMEMBERED != 0
    }
}

/// Is it one of the frequent statements that set no password?
fn is_about_rows(command: Counter) -> bool {
    matches!(
        command,
        Counter::ComBegin
            | Counter::ComCommit
            | Counter::ComDelete
            | Counter::ComDeleteMulti
            | Counter::ComExecuteSql
            | Counter::ComInsert
            | Counter::ComInsertSelect
            | Counter::ComReplace
            | Counter::ComReplaceSelect
            | Counter::ComRollback
            | Counter::ComSelect
            | Counter::ComUpdate
            | Counter::ComUpdateMulti
    )
}

/// Is it one of those that `log_slow_admin_statements` is about?
fn is_administrative(command: Counter) -> bool {
    matches!(
        command,
        Counter::ComAlterTable
            | Counter::ComAnalyze
            | Counter::ComCheck
            | Counter::ComCreateIndex
            | Counter::ComDropIndex
            | Counter::ComOptimize
            | Counter::ComRepair
    )
}
