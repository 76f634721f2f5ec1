//! SHOW EVENTS and SHOW CREATE EVENT.
//!
//! Neighbours: `objects` dispatches; `infoschema::events` makes the rows.
//! **Invariant**: both want EVENT on the database.

use esker_sql_syntax::ast::{Ident, ObjectName};
use esker_types::{SqlResult, Value, errors};

use super::{Table, of_program, read, shown, t};
use crate::infoschema::{self, Wanted};
use crate::scheduler::zone_of;
use crate::session::Session;

/// Columns of EVENTS and what SHOW EVENTS calls them.
const SHOWN: [(&str, &str); 15] = [
    ("EVENT_SCHEMA", "Db"),
    ("EVENT_NAME", "Name"),
    ("DEFINER", "Definer"),
    ("TIME_ZONE", "Time zone"),
    ("EVENT_TYPE", "Type"),
    ("EXECUTE_AT", "Execute at"),
    ("INTERVAL_VALUE", "Interval value"),
    ("INTERVAL_FIELD", "Interval field"),
    ("STARTS", "Starts"),
    ("ENDS", "Ends"),
    ("STATUS", "Status"),
    ("ORIGINATOR", "Originator"),
    ("CHARACTER_SET_CLIENT", "character_set_client"),
    ("COLLATION_CONNECTION", "collation_connection"),
    ("DATABASE_COLLATION", "Database Collation"),
];
/// The column that LIKE is about.
pub(super) const LIKE_COLUMN: usize = 1;

pub(super) fn list(session: &Session, schema: Option<&Ident>) -> SqlResult<Table> {
    let schema = match schema {
        Some(name) => &*name.text,
        None => session.context.current_schema()?,
    };
    session.context.require_in("EVENT", schema)?;
    let spec = infoschema::shown("EVENTS")?;
    let rows = read(session, spec, &Wanted::default())?;
    let mut shown = Table::picked(spec, &SHOWN, rows);
    let is_wanted =
        |row: &Vec<Value>| matches!(&row[0], Value::Str(s) if **s == *schema.as_bytes());
    shown.rows.retain(is_wanted);
    Ok(shown)
}

/// SHOW CREATE EVENT.
///
/// # Errors
/// 1044, 1539.
pub(super) fn create(session: &Session, name: &ObjectName) -> SqlResult<Table> {
    let context = &session.context;
    let (schema, event) = context.full_name(name)?;
    context.require_in("EVENT", schema)?;
    let found = context.instance.catalog.event(schema, event);
    let found = found.ok_or_else(|| errors::unknown_event(event))?;
    let settings = &found.settings;
    let quotes = shown(session).quotes;
    let text = found.create_text(&zone_of(&context.instance, &found), quotes);
    let own = vec![
        ("Event", t(&found.name)),
        ("sql_mode", t(&settings.sql_mode)),
        ("time_zone", t(&found.time_zone)),
        ("Create Event", t(text)),
    ];
    Ok(of_program(own, settings))
}
