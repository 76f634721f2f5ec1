//! Triggers in the catalog: what a table runs when its rows change, and how that is stored beside the table.
//!
//! Neighbours: `store` writes the extension; `ddl::trigger` makes the definitions, `session::firing` runs them.
//! **Invariants**: a trigger is stored with its table, so it is made, renamed and dropped with it in one change; those
//! of the same timing and event run in the order of the list; a name is there once in a database.

use std::sync::Arc;

use esker_types::SqlResult;
use esker_types::trigger::{TriggerEvent, TriggerTiming};

use super::Snapshot;
use super::bytes::{Reader, Writer};
use super::def::{TableDef, same_name};
use super::routine::ProgramSettings;
use crate::codec::damaged;

/// A trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerDef {
    /// Name.
    pub name: Arc<str>,
    /// BEFORE or AFTER.
    pub timing: TriggerTiming,
    /// The change of a row that it runs for.
    pub event: TriggerEvent,
    /// Source text of its body.
    pub body: Box<str>,
    /// What it runs under.
    pub settings: ProgramSettings,
    /// When it was created, microseconds since the epoch.
    pub created_micros: i64,
}

impl TableDef {
    /// The triggers of a timing and an event, in the order in which they run.
    pub fn triggers_of(
        &self,
        timing: TriggerTiming,
        event: TriggerEvent,
    ) -> impl Iterator<Item = &Arc<TriggerDef>> {
        let is_one = move |t: &&Arc<TriggerDef>| t.timing == timing && t.event == event;
        self.triggers.iter().filter(is_one)
    }

    /// Does a change of rows of this kind run any trigger?
    pub fn has_triggers_for(&self, event: TriggerEvent) -> bool {
        self.triggers.iter().any(|t| t.event == event)
    }

    /// Its triggers as they are listed, with their places among those of the same timing and event, from 1 on.
    pub fn listed_triggers(&self) -> Vec<(&Arc<TriggerDef>, u64)> {
        let mut listed: Vec<(&Arc<TriggerDef>, u64)> = Vec::with_capacity(self.triggers.len());
        for trigger in &self.triggers {
            let kind = |t: &TriggerDef| (t.event, t.timing);
            let same = listed.iter().filter(|(t, _)| kind(t) == kind(trigger));
            let place = same.count() as u64 + 1;
            listed.push((trigger, place));
        }
        listed.sort_by_key(|(t, place)| (t.event, t.timing, *place));
        listed
    }
}

impl Snapshot {
    /// A trigger by its name (case-insensitive), with its table.
    pub fn trigger(&self, schema: &str, name: &str) -> Option<(&Arc<TableDef>, &Arc<TriggerDef>)> {
        let tables = self.schema(schema).map(|s| s.tables.values());
        let mut all = tables
            .into_iter()
            .flatten()
            .flat_map(|table| table.triggers.iter().map(move |t| (table, t)));
        all.find(|(_, trigger)| same_name(&trigger.name, name))
    }
}

/// The extension of a table; None: it has no trigger.
pub(super) fn extension_of(table: &TableDef) -> Option<Vec<u8>> {
    if table.triggers.is_empty() {
        return None;
    }
    let mut w = Writer::default();
    w.int(table.triggers.len() as u64);
    for trigger in &table.triggers {
        write_trigger(&mut w, trigger);
    }
    Some(w.out)
}

fn write_trigger(w: &mut Writer, trigger: &TriggerDef) {
    w.text(&trigger.name);
    w.byte(trigger.timing.to_byte());
    w.byte(trigger.event.to_byte());
    w.text(&trigger.body);
    w.int(trigger.created_micros as u64);
    trigger.settings.write(w);
}

/// What an extension says; nothing if there is none.
pub(super) fn read_extension(content: &[u8]) -> SqlResult<Vec<Arc<TriggerDef>>> {
    if content.is_empty() {
        return Ok(Vec::new());
    }
    let mut r = Reader::new(content);
    let triggers = r.list(read_trigger)?;
    r.end()?;
    Ok(triggers)
}

fn read_trigger(r: &mut Reader<'_>) -> SqlResult<Arc<TriggerDef>> {
    let bad = || damaged("catalog row: trigger");
    Ok(Arc::new(TriggerDef {
        name: r.text()?.into(),
        timing: TriggerTiming::from_byte(r.byte()?).ok_or_else(bad)?,
        event: TriggerEvent::from_byte(r.byte()?).ok_or_else(bad)?,
        body: r.text()?.into(),
        created_micros: r.int()? as i64,
        settings: ProgramSettings::read(r)?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger(name: &str, timing: TriggerTiming, event: TriggerEvent) -> TriggerDef {
        TriggerDef {
            name: name.into(),
            timing,
            event,
            body: "SET NEW.`näme` = 1".into(),
            settings: ProgramSettings {
                definer: ("u".into(), "%".into()),
                invoker: false,
                sql_mode: "ANSI".into(),
                charset_client: "utf8mb4".into(),
                collation_connection: "utf8mb4_bin".into(),
                database_collation: "latin1_swedish_ci".into(),
            },
            created_micros: -1,
        }
    }

    #[test]
    fn a_definition_comes_back_and_damage_is_an_error() {
        let written = trigger("t`r", TriggerTiming::After, TriggerEvent::Delete);
        let mut w = Writer::default();
        w.int(1);
        write_trigger(&mut w, &written);
        let read = read_extension(&w.out).expect("it is sound");
        assert_eq!(read, [Arc::new(written)]);
        assert!(read_extension(&[]).expect("there is none").is_empty());
        for cut in 1..w.out.len() {
            assert!(read_extension(&w.out[..cut]).is_err(), "{cut} bytes of it");
        }
        let timing_at = 2 + "t`r".len();
        assert_eq!(w.out[timing_at..timing_at + 2], [1, 2]);
        for place in [timing_at, timing_at + 1] {
            let mut damaged = w.out.clone();
            damaged[place] = 3;
            assert!(read_extension(&damaged).is_err(), "no such timing or event");
        }
    }
}
