//! TRIGGERS.
//!
//! Neighbours: `objects` asks for each table that the account may see; `show::triggers` shows the same rows.
//! **Invariant**: only those who may make triggers of a table see what it has.

use esker_sql_catalog::accounts::Privileges;
use esker_sql_catalog::catalog::{TableDef, TriggerDef};
use esker_types::{DateTime, SqlType, TypeKind, Value};

use super::{Viewer, text};

/// Who may see triggers.
const TRIGGER: Privileges = Privileges::of(&["TRIGGER"]);

/// Microseconds of the last digit that CREATED shows.
const CENTISECOND: i64 = 10_000;

/// The triggers of a table.
pub(super) fn rows(viewer: &Viewer, table: &TableDef, out: &mut Vec<Vec<Value>>) {
    let may_see = || {
        viewer
            .access
            .on_table(&table.schema, &table.name)
            .contains(TRIGGER)
    };
    if table.triggers.is_empty() || !may_see() {
        return;
    }
    for (trigger, place) in table.listed_triggers() {
        let settings = &trigger.settings;
        let (user, host) = &settings.definer;
        out.push(vec![
            text("def"),
            text(&table.schema),
            text(&trigger.name),
            text(trigger.event.word()),
            text("def"),
            text(&table.schema),
            text(&table.name),
            Value::UInt(place),
            Value::Null,
            text(&trigger.body),
            text("ROW"),
            text(trigger.timing.word()),
            Value::Null,
            Value::Null,
            text("OLD"),
            text("NEW"),
            trigger_created(viewer, trigger).0,
            text(&settings.sql_mode),
            text(format!("{user}@{host}")),
            text(&settings.charset_client),
            text(&settings.collation_connection),
            text(&settings.database_collation),
        ]);
    }
}

/// When a trigger was made, as it is shown, and the type of that.
pub(crate) fn trigger_created(viewer: &Viewer, trigger: &TriggerDef) -> (Value, SqlType) {
    let shown = trigger.created_micros.div_euclid(CENTISECOND) * CENTISECOND;
    let local = DateTime::from_utc(shown, &viewer.instance.system_zone);
    let ty = SqlType {
        decimals: 2,
        ..SqlType::new(TypeKind::Timestamp)
    };
    (local.map_or(Value::Null, Value::DateTime), ty)
}
