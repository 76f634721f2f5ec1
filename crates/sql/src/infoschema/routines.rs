//! Rows about stored routines and their parameters.
//!
//! Neighbours: `source` asks by table name; `program` reads parameters out of the text that the catalog keeps.
//! **Invariant**: who has no privilege on a routine does not hear of it, and its text is for its definer and for those
//! that may read everything.

use std::sync::Arc;

use esker_sql_catalog::accounts::Privileges;
use esker_sql_catalog::catalog::RoutineDef;
use esker_sql_syntax::ParseOptions;
use esker_types::program::RoutineKind;
use esker_types::{SqlType, Value};

use super::columns::type_cells;
use super::objects::created;
use super::source::Source;
use super::{Viewer, optional, text, yes_no};
use crate::program::stored::{Signature, collation_of, read, signature};

pub(super) static SOURCES: &[Source] = &[
    Source::new("ROUTINES", ROUTINES, routines),
    Source::new("PARAMETERS", PARAMETERS, parameters),
];

const ROUTINES: &[&str] = &[
    "SPECIFIC_NAME",
    "ROUTINE_CATALOG",
    "ROUTINE_SCHEMA",
    "ROUTINE_NAME",
    "ROUTINE_TYPE",
    "DATA_TYPE",
    "CHARACTER_MAXIMUM_LENGTH",
    "CHARACTER_OCTET_LENGTH",
    "NUMERIC_PRECISION",
    "NUMERIC_SCALE",
    "DATETIME_PRECISION",
    "CHARACTER_SET_NAME",
    "COLLATION_NAME",
    "DTD_IDENTIFIER",
    "ROUTINE_BODY",
    "ROUTINE_DEFINITION",
    "EXTERNAL_LANGUAGE",
    "PARAMETER_STYLE",
    "IS_DETERMINISTIC",
    "SQL_DATA_ACCESS",
    "SECURITY_TYPE",
    "CREATED",
    "LAST_ALTERED",
    "SQL_MODE",
    "ROUTINE_COMMENT",
    "DEFINER",
    "CHARACTER_SET_CLIENT",
    "COLLATION_CONNECTION",
    "DATABASE_COLLATION",
];

const PARAMETERS: &[&str] = &[
    "SPECIFIC_CATALOG",
    "SPECIFIC_SCHEMA",
    "SPECIFIC_NAME",
    "ORDINAL_POSITION",
    "PARAMETER_MODE",
    "PARAMETER_NAME",
    "DATA_TYPE",
    "CHARACTER_MAXIMUM_LENGTH",
    "CHARACTER_OCTET_LENGTH",
    "NUMERIC_PRECISION",
    "NUMERIC_SCALE",
    "DATETIME_PRECISION",
    "CHARACTER_SET_NAME",
    "COLLATION_NAME",
    "DTD_IDENTIFIER",
    "ROUTINE_TYPE",
];

impl Viewer {
    /// May the account see that there is this routine?
    pub(crate) fn sees_routine(&self, def: &RoutineDef) -> bool {
        const ANY: Privileges = Privileges::of(&["EXECUTE", "CREATE ROUTINE", "ALTER ROUTINE"]);
        let held = self.access.on_routine(def.kind, &def.schema, &def.name);
        self.sees_routine_text(def) || held.meets(ANY)
    }

    /// May it see what the routine does?
    pub(crate) fn sees_routine_text(&self, def: &RoutineDef) -> bool {
        const ALL: Privileges = Privileges::of(&["SELECT", "SHOW_ROUTINE"]);
        let (user, host) = &def.settings.definer;
        self.access.is_of(user, host) || self.access.global().meets(ALL)
    }
}

/// The routines that the account may see.
pub(crate) fn visible(viewer: &Viewer) -> Vec<Arc<RoutineDef>> {
    let snapshot = viewer.instance.catalog.snapshot();
    let seen = snapshot.routines().filter(|def| viewer.sees_routine(def));
    seen.cloned().collect()
}

/// Parameters and result; one that this version cannot read has none to show.
fn signature_of(def: &RoutineDef) -> Option<Signature> {
    let create = read(def, ParseOptions::default()).ok()?;
    signature(&create, collation_of(def)).ok()
}

/// DATA_TYPE to DTD_IDENTIFIER.
fn cells(ty: &SqlType) -> impl Iterator<Item = Value> {
    type_cells(ty).into_iter().skip(1)
}

fn routines(viewer: &Viewer) -> Vec<Vec<Value>> {
    visible(viewer)
        .iter()
        .map(|def| routine(viewer, def))
        .collect()
}

fn routine(viewer: &Viewer, def: &RoutineDef) -> Vec<Value> {
    let (user, host) = &def.settings.definer;
    let mut row = vec![
        text(&def.name),
        text("def"),
        text(&def.schema),
        text(&def.name),
        text(def.kind.text()),
    ];
    let returns = match def.kind {
        RoutineKind::Function => signature_of(def).and_then(|s| s.returns),
        RoutineKind::Procedure => None,
    };
    match returns {
        Some(ty) => row.extend(cells(&ty)),
        None => {
            row.push(text(""));
            row.extend(std::iter::repeat_n(Value::Null, 8));
        }
    }
    row.extend([
        text("SQL"),
        optional(viewer.sees_routine_text(def).then_some(&def.body)),
        text("SQL"),
        text("SQL"),
        yes_no(def.deterministic),
        text(def.access.text()),
        text(security(def)),
        created(viewer, def.created_micros),
        created(viewer, def.altered_micros),
        text(&def.settings.sql_mode),
        text(&def.comment),
        text(format!("{user}@{host}")),
        text(&def.settings.charset_client),
        text(&def.settings.collation_connection),
        text(&def.settings.database_collation),
    ]);
    row
}

fn security(def: &RoutineDef) -> &'static str {
    match def.settings.invoker {
        true => "INVOKER",
        false => "DEFINER",
    }
}

fn parameters(viewer: &Viewer) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for def in visible(viewer) {
        let Some(signature) = signature_of(&def) else {
            continue;
        };
        let returned = signature.returns.map(|ty| (0, None, ty));
        let listed = signature.parameters.into_iter().enumerate();
        let listed = listed.map(|(nth, (mode, name, ty))| (nth as u64 + 1, Some((mode, name)), ty));
        for (position, parameter, ty) in returned.into_iter().chain(listed) {
            let mut row = vec![
                text("def"),
                text(&def.schema),
                text(&def.name),
                Value::UInt(position),
                optional(parameter.as_ref().map(|p| p.0.text())),
                optional(parameter.as_ref().map(|p| &p.1)),
            ];
            row.extend(cells(&ty));
            row.push(text(def.kind.text()));
            rows.push(row);
        }
    }
    rows
}

/// A row of SHOW PROCEDURE STATUS and SHOW FUNCTION STATUS.
pub(crate) fn status_row(viewer: &Viewer, def: &RoutineDef) -> Vec<Value> {
    let (user, host) = &def.settings.definer;
    vec![
        text(&def.schema),
        text(&def.name),
        text(def.kind.text()),
        text(format!("{user}@{host}")),
        created(viewer, def.altered_micros),
        created(viewer, def.created_micros),
        text(security(def)),
        text(&def.comment),
        text(&def.settings.charset_client),
        text(&def.settings.collation_connection),
        text(&def.settings.database_collation),
    ]
}
