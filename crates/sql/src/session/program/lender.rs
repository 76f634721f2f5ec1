//! The session as expressions see it while it is lent to the functions that they call.
//!
//! Neighbours: `function` makes one for each step of a statement; the answers are those of the session's context.
//! **Invariant**: nothing of the session stays borrowed behind an answer, so a function may change it between two of
//! them; what answers lend (the database, the version) is the statement's own copy.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use esker_engine::Engine;
use esker_sql_plan::expr::UserVars;
use esker_types::ctx::{GtidFunctions, RegexpLimits, SourceWait};
use esker_types::{SessionInfo, SqlResult, SqlType, Value};

use super::super::{Session, SessionContext};
use crate::instance::Instance;

/// A session that is lent.
pub(super) struct Lender<'l, 's> {
    session: &'l RefCell<&'s mut Session>,
    instance: Arc<Instance>,
    database: Option<Arc<str>>,
}

impl<'l, 's> Lender<'l, 's> {
    pub(super) fn new(session: &'l RefCell<&'s mut Session>) -> Self {
        let lent = session.borrow();
        Self {
            instance: lent.context.instance.clone(),
            database: lent.context.database.clone(),
            session,
        }
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.instance.engine
    }

    /// Fails when the statement was killed or ran out of time.
    pub(super) fn check(&self) -> SqlResult<()> {
        self.ask(SessionContext::check)
    }

    fn ask<R>(&self, f: impl FnOnce(&SessionContext) -> R) -> R {
        f(&self.session.borrow().context)
    }
}

impl SessionInfo for Lender<'_, '_> {
    fn wall_micros(&self) -> i64 {
        self.ask(SessionInfo::wall_micros)
    }
    fn connection_id(&self) -> u64 {
        self.ask(SessionInfo::connection_id)
    }
    fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }
    fn user(&self) -> String {
        self.ask(SessionInfo::user)
    }
    fn current_user(&self) -> String {
        self.ask(SessionInfo::current_user)
    }
    fn current_role(&self) -> String {
        self.ask(SessionInfo::current_role)
    }
    fn version(&self) -> &str {
        self.instance.version()
    }
    fn last_insert_id(&self) -> u64 {
        self.ask(SessionInfo::last_insert_id)
    }
    fn set_last_insert_id(&self, id: u64) {
        self.ask(|c| c.set_last_insert_id(id));
    }
    fn row_count(&self) -> i64 {
        self.ask(SessionInfo::row_count)
    }
    fn found_rows(&self) -> u64 {
        self.ask(SessionInfo::found_rows)
    }
    fn random(&self) -> u64 {
        self.ask(SessionInfo::random)
    }
    fn seeded(&self) -> Option<f64> {
        self.ask(SessionInfo::seeded)
    }
    fn killed(&self) -> bool {
        self.ask(SessionInfo::killed)
    }
    fn pause(&self, time: Duration) {
        self.ask(|c| c.pause(time));
    }
    fn may_hear_of(&self, schema: &str, table: &str) -> bool {
        self.ask(|c| c.may_hear_of(schema, table))
    }
    fn go_on(&self, bytes: usize) -> SqlResult<()> {
        self.ask(|c| c.go_on(bytes))
    }
    fn may_make(&self, bytes: usize) -> SqlResult<()> {
        self.ask(|c| c.may_make(bytes))
    }
    fn regexp_limits(&self) -> RegexpLimits {
        self.ask(SessionInfo::regexp_limits)
    }
    fn get_lock(&self, name: &str, timeout_secs: f64) -> SqlResult<Option<bool>> {
        self.ask(|c| c.get_lock(name, timeout_secs))
    }
    fn release_lock(&self, name: &str) -> Option<bool> {
        self.ask(|c| c.release_lock(name))
    }
    fn lock_holder(&self, name: &str) -> Option<u64> {
        self.ask(|c| c.lock_holder(name))
    }
    fn release_all_locks(&self) -> u64 {
        self.ask(SessionInfo::release_all_locks)
    }
    fn has_connection(&self, id: u64) -> bool {
        self.ask(|c| c.has_connection(id))
    }
    fn connection_account(&self, id: u64) -> Option<String> {
        self.ask(|c| c.connection_account(id))
    }
    fn collects(&self, consumer: &str) -> Option<bool> {
        self.ask(|c| c.collects(consumer))
    }
    fn load_file(&self, name: &[u8], most: u64) -> SqlResult<Option<Vec<u8>>> {
        self.ask(|c| c.load_file(name, most))
    }
    fn digest_text(&self, statement: &[u8]) -> SqlResult<String> {
        self.ask(|c| c.digest_text(statement))
    }
    fn user_variable(&self, name: &str) -> Option<(Value, SqlType)> {
        self.ask(|c| c.user_variable(name))
    }
    fn query_attribute(&self, name: &[u8]) -> Option<Vec<u8>> {
        self.ask(|c| c.query_attribute(name))
    }
    fn roles_graphml(&self) -> String {
        self.ask(SessionInfo::roles_graphml)
    }
    fn wait_for_source(&self, wait: &SourceWait) -> SqlResult<Option<i64>> {
        self.ask(|c| c.wait_for_source(wait))
    }
    fn gtids(&self) -> Option<&dyn GtidFunctions> {
        Some(self)
    }
}

impl GtidFunctions for Lender<'_, '_> {
    fn is_subset(&self, a: &str, b: &str) -> SqlResult<bool> {
        self.ask(|c| c.is_subset(a, b))
    }
    fn subtract(&self, a: &str, b: &str) -> SqlResult<String> {
        self.ask(|c| c.subtract(a, b))
    }
    fn wait_for_executed(&self, set: &str, at_most_secs: Option<f64>) -> SqlResult<bool> {
        self.ask(|c| c.wait_for_executed(set, at_most_secs))
    }
}

impl UserVars for Lender<'_, '_> {
    fn get(&self, name: &str) -> Option<(Value, SqlType)> {
        self.ask(|c| UserVars::get(c, name))
    }
    fn set(&self, name: &str, value: Value, ty: SqlType) {
        self.ask(|c| UserVars::set(c, name, value, ty));
    }
}
