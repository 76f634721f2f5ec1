//! SHOW TRIGGERS and SHOW CREATE TRIGGER.
//!
//! Neighbours: `objects` dispatches; `infoschema::triggers` makes the rows.
//! **Invariant**: a trigger is shown to those who may make triggers of its table.

use esker_sql_catalog::catalog::show_create_trigger;
use esker_sql_catalog::result::ColumnMeta;
use esker_sql_syntax::ast::{Ident, ObjectName};
use esker_types::{SqlResult, errors};

use super::objects::schema_of;
use super::{Table, of_program, read, shown, t};
use crate::infoschema::{self, Wanted};
use crate::session::Session;

/// Columns of TRIGGERS and what SHOW TRIGGERS calls them.
const SHOWN: [(&str, &str); 11] = [
    ("TRIGGER_NAME", "Trigger"),
    ("EVENT_MANIPULATION", "Event"),
    ("EVENT_OBJECT_TABLE", "Table"),
    ("ACTION_STATEMENT", "Statement"),
    ("ACTION_TIMING", "Timing"),
    ("CREATED", "Created"),
    ("SQL_MODE", "sql_mode"),
    ("DEFINER", "Definer"),
    ("CHARACTER_SET_CLIENT", "character_set_client"),
    ("COLLATION_CONNECTION", "collation_connection"),
    ("DATABASE_COLLATION", "Database Collation"),
];
/// The column that LIKE is about.
pub(super) const LIKE_COLUMN: usize = 2;

pub(super) fn list(session: &Session, schema: Option<&Ident>) -> SqlResult<Table> {
    let schema = schema_of(session, schema)?;
    let spec = infoschema::shown("TRIGGERS")?;
    let wanted = Wanted {
        schema: Some(schema),
        table: None,
    };
    let rows = read(session, spec, &wanted)?;
    Ok(Table::picked(spec, &SHOWN, rows))
}

/// SHOW CREATE TRIGGER.
///
/// # Errors
/// 1360, 1227.
pub(super) fn create(session: &Session, name: &ObjectName) -> SqlResult<Table> {
    let context = &session.context;
    let (schema, name) = context.full_name(name)?;
    let now = context.instance.catalog.snapshot();
    let (table, trigger) = now
        .trigger(schema, name)
        .ok_or_else(errors::no_such_trigger)?;
    let denied = |_| errors::privilege_needed("TRIGGER");
    context
        .require_on(&["TRIGGER"], &table.schema, &table.name)
        .map_err(denied)?;
    let settings = &trigger.settings;
    let text = show_create_trigger(table, trigger, shown(session).quotes);
    let own = vec![
        ("Trigger", t(&trigger.name)),
        ("sql_mode", t(&settings.sql_mode)),
        ("SQL Original Statement", t(text)),
    ];
    let mut shown = of_program(own, settings);
    let (created, ty) = infoschema::trigger_created(&context.viewer(), trigger);
    let mut columns = shown.columns.to_vec();
    columns.push(ColumnMeta::computed("Created", ty));
    shown.columns = columns.into();
    shown.rows[0].push(created);
    Ok(shown)
}
