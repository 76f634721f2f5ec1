//! One run of an event, on a thread and in a session of its own.
//!
//! Neighbours: the scheduler's thread begins it; `session::program` has the interpreter.
//! **Invariants**: the session is the definer's; an error is logged with the event's name and ends the run alone; an
//! event that ends is dropped behind its body, whether that has failed or not, unless it is another one by then.

use std::sync::Arc;

use esker_sql_catalog::accounts::Account;
use esker_sql_catalog::catalog::{EventDef, quoted};
use esker_sql_catalog::exec_error::engine_error;
use esker_types::{SqlError, SqlResult, errors};

use super::STACK_BYTES;
use super::queue::Turn;
use crate::instance::Instance;
use crate::session::{ClientInfo, Session};

/// A run that has a place.
pub(super) struct Job {
    instance: Arc<Instance>,
    def: Arc<EventDef>,
}

impl Drop for Job {
    fn drop(&mut self) {
        self.instance.scheduler.give_place_back();
    }
}

impl Job {
    /// What takes over a place that was taken.
    pub(super) fn new(instance: &Arc<Instance>, def: &Arc<EventDef>) -> Self {
        Self {
            instance: instance.clone(),
            def: def.clone(),
        }
    }

    /// Begins it.
    pub(super) fn start(self, turn: Turn) {
        let def = self.def.clone();
        let thread = std::thread::Builder::new()
            .name("esker-event".to_owned())
            .stack_size(STACK_BYTES);
        if let Err(e) = thread.spawn(move || self.run(turn)) {
            log(&def, &errors::no_thread(e));
        }
    }

    fn run(&self, turn: Turn) {
        if turn.runs
            && let Err(e) = self.run_body()
        {
            log(&self.def, &e);
        }
        if turn.ends
            && let Err(e) = self.drop_event()
        {
            log(&self.def, &e);
        }
    }

    fn run_body(&self) -> SqlResult<()> {
        let (user, host) = &self.def.settings.definer;
        let account = self.instance.accounts().exact(user, host);
        let account = account.ok_or_else(|| errors::no_such_definer(user, host))?;
        let mut session = self.session(Account::clone(&account))?;
        let ran = session.run_event(&self.def);
        for warning in session.warnings_left() {
            let (user, host) = &self.def.settings.definer;
            let (schema, name) = (&self.def.schema, &self.def.name);
            tracing::warn!("Event Scheduler: [{user}@{host}][{schema}.{name}] {warning}");
        }
        // Whoever sees that the run is over sees what it has done.
        let engine = &self.instance.engine;
        let durable = engine.wait_durable(engine.visible_seq()).block();
        ran.and(durable.map_err(|e| engine_error(&e)))
    }

    /// As the server itself: the definer may have lost the privilege.
    fn drop_event(&self) -> SqlResult<()> {
        let def = &self.def;
        let now = self.instance.catalog.event(&def.schema, &def.name);
        if !now.is_some_and(|now| Arc::ptr_eq(&now, def)) {
            return Ok(());
        }
        let (schema, name) = (quoted(&def.schema), quoted(&def.name));
        let sql = format!("DROP EVENT IF EXISTS {schema}.{name}");
        let mut session = self.session(Account::root(Vec::new()))?;
        session.apply_text(sql.as_bytes())
    }

    fn session(&self, account: Account) -> SqlResult<Session> {
        let host = self.instance.host_slot.require("an event")?;
        let client = ClientInfo {
            peer: account.host.clone(),
            ..ClientInfo::inside(host.next_connection(), account)
        };
        Ok(Session::new(self.instance.clone(), client))
    }
}

/// Logs what has gone wrong with an event.
pub(super) fn log(def: &EventDef, e: &SqlError) {
    let (user, host) = &def.settings.definer;
    tracing::error!(
        "Event Scheduler: [{user}@{host}][{}.{}] {}",
        def.schema,
        def.name,
        e.message
    );
}
