//! SHOW CREATE PROCEDURE and FUNCTION, SHOW PROCEDURE STATUS and FUNCTION STATUS.
//!
//! Neighbours: `objects` dispatches; `infoschema::routines` says who sees what.
//! **Invariant**: a routine that the account may not see does not exist for it.

use esker_sql_catalog::catalog::RoutineKey;
use esker_sql_syntax::ast::ObjectName;
use esker_types::program::RoutineKind;
use esker_types::{SqlResult, Value, errors};

use super::{Table, bare_names, of_program, t};
use crate::infoschema;
use crate::infoschema::routines::{status_row, visible};
use crate::infoschema::sys::procedures;
use crate::session::Session;

/// The kind that a word of SHOW means; None: it is no routine.
pub(super) fn kind_of(word: &str) -> Option<RoutineKind> {
    match word {
        "PROCEDURE" => Some(RoutineKind::Procedure),
        "FUNCTION" => Some(RoutineKind::Function),
        _ => None,
    }
}

/// SHOW CREATE.
pub(super) fn create(session: &Session, kind: RoutineKind, name: &ObjectName) -> SqlResult<Table> {
    let context = &session.context;
    let (schema, routine) = context.full_name(name)?;
    let viewer = context.viewer();
    let key = RoutineKey::new(kind, routine);
    let found = context
        .instance
        .catalog
        .routine(schema, &key)
        .or_else(|| procedures::find(schema, &key))
        .filter(|def| viewer.sees_routine(def))
        .ok_or_else(|| errors::does_not_exist(kind.text(), routine))?;
    let (word, create) = match kind {
        RoutineKind::Procedure => ("Procedure", "Create Procedure"),
        RoutineKind::Function => ("Function", "Create Function"),
    };
    let settings = &found.settings;
    let text = match viewer.sees_routine_text(&found) {
        true => t(found.create_text(bare_names(session))),
        false => Value::Null,
    };
    let own = vec![
        (word, t(&found.name)),
        ("sql_mode", t(&settings.sql_mode)),
        (create, text),
    ];
    Ok(of_program(own, settings))
}

/// SHOW … STATUS.
pub(super) fn status(session: &Session, kind: Option<RoutineKind>) -> SqlResult<Table> {
    let viewer = session.context.viewer();
    let all = visible(&viewer).into_iter();
    let of_kind = all.filter(|def| Some(def.kind) == kind);
    let rows = of_kind.map(|def| status_row(&viewer, &def)).collect();
    Ok(Table::typed(infoschema::shown("ROUTINES")?, &STATUS, rows))
}

/// Columns of ROUTINES and what SHOW … STATUS calls them: those of 8.4, where programs count on their places; 9.x has
/// `Language` between them.
const STATUS: [(&str, &str); 11] = [
    ("ROUTINE_SCHEMA", "Db"),
    ("ROUTINE_NAME", "Name"),
    ("ROUTINE_TYPE", "Type"),
    ("DEFINER", "Definer"),
    ("LAST_ALTERED", "Modified"),
    ("CREATED", "Created"),
    ("SECURITY_TYPE", "Security_type"),
    ("ROUTINE_COMMENT", "Comment"),
    ("CHARACTER_SET_CLIENT", "character_set_client"),
    ("COLLATION_CONNECTION", "collation_connection"),
    ("DATABASE_COLLATION", "Database Collation"),
];
