//! DROP PROCEDURE, FUNCTION and EVENT.
//!
//! Neighbours: `ddl` dispatches.
//! **Invariant**: numbers and texts are MySQL's for a program that does not exist.

use esker_sql_catalog::exec_error::ExecError;
use esker_sql_syntax::ast::DropProgram;
use esker_types::program::RoutineKind;
use esker_types::{SqlResult, errors};

use super::names::{TableName, resolve};
use super::schema::refuse_under_lock_tables;
use super::{DdlCtx, DdlDone, event, routine};

pub(super) fn drop(ctx: &mut DdlCtx<'_>, drop: &DropProgram) -> Result<DdlDone, ExecError> {
    let name = resolve(&drop.name, ctx.database)?;
    let routine = match drop.kind {
        "PROCEDURE" => Some(RoutineKind::Procedure),
        "FUNCTION" => Some(RoutineKind::Function),
        _ => None,
    };
    if drop.kind != "TRIGGER" {
        refuse_under_lock_tables(ctx)?;
    }
    if let Some(kind) = routine
        && let Some(done) = routine::drop(ctx, kind, &name)?
    {
        return Ok(done);
    }
    if drop.kind == "EVENT"
        && let Some(done) = event::drop(ctx, &name)?
    {
        return Ok(done);
    }
    // What is not there is dropped in the binary log all the same.
    ctx.announce()?;
    Ok(missing(ctx, drop, &name)?)
}

/// What there is not: a note with IF EXISTS.
fn missing(ctx: &DdlCtx<'_>, drop: &DropProgram, name: &TableName) -> SqlResult<DdlDone> {
    let (note, error) = match drop.kind {
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
