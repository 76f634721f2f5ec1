//! The body of an event: a procedure without parameters that nobody calls.
//!
//! Neighbours: the scheduler's `worker` has made a session of the definer's account; `machine` runs the body.
//! **Invariants**: the session is for this one run; EVENT on the database is asked for when the event runs, as in
//! MySQL; no procedure has the name that the body goes by, so it may call one with the name of the event.

use std::sync::Arc;

use esker_sql_catalog::catalog::{EventDef, ProgramSettings, RoutineDef};
use esker_sql_catalog::variables::VarId;
use esker_types::program::{DataAccess, RoutineKind};
use esker_types::{Level, SqlResult, Value};

use super::super::Session;
use super::machine::{Frame, Machine};

/// What the body goes by: names of procedures do not end in a space.
const NAME: &str = "event ";

/// USER() in the body, as in MySQL.
const CALLER: &str = "event_scheduler@localhost";

impl Session {
    /// Runs the body of an event to its end; its rows go nowhere.
    ///
    /// # Errors
    /// 1044, 1049; those of the body.
    pub(crate) fn run_event(&mut self, def: &EventDef) -> SqlResult<()> {
        self.context.require_in("EVENT", &def.schema)?;
        self.use_database(&def.schema)?;
        self.context.caller = Some(CALLER);
        let zone = Value::Str(def.time_zone.as_bytes().to_vec());
        let id = VarId::find("time_zone")?;
        self.values
            .set(&self.context.instance.globals, id, Some(&zone))?;
        self.refresh_vars()?;
        let mut loaded = self.loaded(&Arc::new(as_routine(def)))?;
        self.enter_routine(&mut loaded)?;
        let frame = Frame::new(&loaded, Vec::new(), Vec::new());
        self.start_program("Connect", def.body.as_bytes(), Machine::new(frame));
        loop {
            self.finish_statement()?;
            if !self.start_next() {
                return Ok(());
            }
        }
    }
}

impl Session {
    /// What the last statement has warned of.
    pub(crate) fn warnings_left(&self) -> impl Iterator<Item = &str> {
        let conditions = self.diagnostics.conditions().iter();
        let warnings = conditions.filter(|w| w.level != Level::Error);
        warnings.map(|w| &*w.message)
    }
}

fn as_routine(def: &EventDef) -> RoutineDef {
    RoutineDef {
        kind: RoutineKind::Procedure,
        schema: def.schema.clone(),
        name: NAME.into(),
        parameters: "".into(),
        returns: "".into(),
        body: def.body.clone(),
        deterministic: false,
        access: DataAccess::ContainsSql,
        comment: "".into(),
        // The session is the definer's already.
        settings: ProgramSettings {
            invoker: true,
            ..def.settings.clone()
        },
        created_micros: def.created_micros,
        altered_micros: def.altered_micros,
    }
}
