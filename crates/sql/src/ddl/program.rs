//! DROP PROCEDURE, FUNCTION, TRIGGER and EVENT: there are none, which IF EXISTS turns into a note.
//!
//! Neighbours: `ddl` dispatches.
//! **Invariant**: numbers and texts are MySQL's for a program that does not exist.

use esker_sql_syntax::ast::DropProgram;
use esker_types::{SqlResult, errors};

use super::names::resolve;
use super::{DdlCtx, DdlDone};

pub(super) fn drop(ctx: &mut DdlCtx<'_>, drop: &DropProgram) -> SqlResult<DdlDone> {
    let name = resolve(&drop.name, ctx.database)?;
    // Of triggers, the table's database is looked for first.
    if drop.kind == "TRIGGER" && ctx.catalog.schema(&name.schema).is_none() {
        let missing = errors::unknown_database(&name.schema);
        if !drop.if_exists {
            return Err(missing);
        }
        ctx.note(missing.code, missing.message);
        return Ok(DdlDone::default());
    }
    let (note, error) = match drop.kind {
        "TRIGGER" => {
            let missing = errors::no_such_trigger();
            (missing.clone(), missing)
        }
        "EVENT" => (
            errors::does_not_exist("Event", &name.name),
            errors::unknown_event(&name.name),
        ),
        kind => {
            let missing = errors::does_not_exist(kind, format!("{}.{}", name.schema, name.name));
            (missing.clone(), missing)
        }
    };
    if !drop.if_exists {
        return Err(error);
    }
    ctx.note(note.code, note.message);
    Ok(DdlDone::default())
}
