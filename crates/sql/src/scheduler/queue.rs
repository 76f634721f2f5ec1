//! When each event is due: the scheduler's view of the catalog.
//!
//! Neighbours: the scheduler's thread asks, `catalog::event` computes.
//! **Invariants**: a time once planned stays until the event has run or its definition is another one, so a scheduler
//! that wakes late runs it late and not at all twice; an event is known by its definition, not by its name.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker_sql_catalog::catalog::{Due, EventDef, Snapshot, event_key};
use esker_sql_catalog::variables::hot::time_zone;
use esker_types::SqlResult;
use esker_types::program::EventStatus;
use esker_types::temporal::MICROS_PER_SEC;
use jiff::tz::TimeZone;

use crate::instance::Instance;

/// What an event waits for.
#[derive(Clone, Copy)]
enum When {
    /// This second.
    At(i64),
    /// Nothing: its times are over, and it is to be ended.
    Over,
    /// It has ended.
    Never,
}

struct Planned {
    def: Arc<EventDef>,
    when: When,
}

impl Planned {
    /// The second at which there is something to do.
    fn at(&self) -> Option<i64> {
        match self.when {
            When::At(at) => Some(at),
            When::Over => Some(0),
            When::Never => None,
        }
    }
}

/// What is to be done with an event that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    /// Its body runs.
    pub(super) runs: bool,
    /// It is dropped behind that.
    pub(super) ends: bool,
}

/// The events that are enabled.
#[derive(Default)]
pub(super) struct Queue {
    version: u64,
    planned: BTreeMap<(Arc<str>, Box<str>), Planned>,
}

impl Queue {
    /// Takes over what the catalog has now.
    pub(super) fn renew(&mut self, instance: &Instance) {
        let now: Arc<Snapshot> = Arc::clone(&instance.catalog.snapshot());
        if self.version == now.version() {
            return;
        }
        self.version = now.version();
        let mut before = std::mem::take(&mut self.planned);
        let seconds = instance.now_micros().div_euclid(MICROS_PER_SEC);
        for def in now.events() {
            if def.status != EventStatus::Enabled {
                continue;
            }
            let key = (def.schema.clone(), event_key(&def.name));
            let known = before.remove(&key).filter(|p| Arc::ptr_eq(&p.def, def));
            let planned = known.unwrap_or_else(|| Planned {
                def: def.clone(),
                when: match def.due(seconds, &zone_of(instance, def)) {
                    Due::At(at) => When::At(at),
                    Due::Never => When::Over,
                },
            });
            self.planned.insert(key, planned);
        }
    }

    /// The earliest second at which there is something to do.
    pub(super) fn next(&self) -> Option<i64> {
        self.planned.values().filter_map(Planned::at).min()
    }

    /// An event that is due, the one that has waited longest first.
    pub(super) fn due(&self, now_micros: i64) -> Option<Arc<EventDef>> {
        let now = now_micros.div_euclid(MICROS_PER_SEC);
        let times = self.planned.values().filter_map(|p| Some((p.at()?, p)));
        let due = times.filter(|(at, _)| *at <= now);
        due.min_by_key(|(at, _)| *at).map(|(_, p)| p.def.clone())
    }

    /// The event has its turn: keeps when that was, and plans the next one. None: it is another one meanwhile.
    ///
    /// # Errors
    /// Of the engine; the event is not due again then before it is changed.
    pub(super) fn begin(
        &mut self,
        instance: &Instance,
        def: &Arc<EventDef>,
    ) -> SqlResult<Option<Turn>> {
        let key = (def.schema.clone(), event_key(&def.name));
        let planned = self.planned.get_mut(&key);
        let Some(planned) = planned.filter(|p| Arc::ptr_eq(&p.def, def)) else {
            return Ok(None);
        };
        let when = std::mem::replace(&mut planned.when, When::Never);
        let runs = matches!(when, When::At(_));
        let now = instance.now_micros();
        if runs && !instance.catalog.keep_event_run(def, now)? {
            return Ok(None);
        }
        let seconds = now.div_euclid(MICROS_PER_SEC);
        if let Due::At(next) = def.due(seconds, &zone_of(instance, def)) {
            planned.when = When::At(next);
            return Ok(Some(Turn { runs, ends: false }));
        }
        if def.preserve {
            instance.catalog.disable_event(def)?;
        }
        let ends = !def.preserve;
        Ok(Some(Turn { runs, ends }))
    }
}

/// The time zone of an event; one that is not known any more is the server's.
pub(crate) fn zone_of(instance: &Instance, def: &EventDef) -> TimeZone {
    match &*def.time_zone {
        "SYSTEM" => instance.system_zone.clone(),
        name => time_zone(name).unwrap_or_else(|_| instance.system_zone.clone()),
    }
}
