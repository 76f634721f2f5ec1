//! CREATE, ALTER and DROP of procedures and functions in the catalog.
//!
//! Neighbours: the session has checked names and privileges and compiled the body.
//! **Invariants**: a routine's database is locked against being dropped while the routine comes or goes; a routine is
//! made, changed and dropped, alone or with its database, when no transaction has called it that is still open.

use esker_sql_catalog::catalog::{RoutineDef, RoutineKey};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::{MdlDuration, MdlMode};
use esker_types::errors;
use esker_types::program::RoutineKind;

use super::names::{self, TableName};
use super::schema::refuse_under_lock_tables;
use super::{DdlCtx, DdlDone, released};

/// Makes a routine.
///
/// # Errors
/// 1304, 1049, 1044.
pub fn create(
    ctx: &mut DdlCtx<'_>,
    def: RoutineDef,
    if_not_exists: bool,
) -> Result<DdlDone, ExecError> {
    let result = locked_create(ctx, def, if_not_exists);
    released(ctx, result)
}

fn locked_create(
    ctx: &mut DdlCtx<'_>,
    def: RoutineDef,
    if_not_exists: bool,
) -> Result<DdlDone, ExecError> {
    begin(ctx, &def.schema)?;
    if ctx.catalog.schema(&def.schema).is_none() {
        return Err(errors::unknown_database(&def.schema).into());
    }
    lock_unused(ctx, def.kind, (&def.schema, &def.name))?;
    if ctx.catalog.routine(&def.schema, &def.key()).is_some() {
        let exists = errors::already_exists(def.kind.text(), &def.name);
        if !if_not_exists {
            return Err(exists.into());
        }
        ctx.note(exists.code, exists.message);
        return Ok(DdlDone {
            was_there: true,
            ..DdlDone::default()
        });
    }
    put(ctx, def)
}

/// Replaces a routine.
///
/// # Errors
/// 1305.
pub fn alter(ctx: &mut DdlCtx<'_>, def: RoutineDef) -> Result<DdlDone, ExecError> {
    let result = locked_alter(ctx, def);
    released(ctx, result)
}

fn locked_alter(ctx: &mut DdlCtx<'_>, def: RoutineDef) -> Result<DdlDone, ExecError> {
    begin(ctx, &def.schema)?;
    lock_unused(ctx, def.kind, (&def.schema, &def.name))?;
    if ctx.catalog.routine(&def.schema, &def.key()).is_none() {
        let name = format!("{}.{}", def.schema, def.name);
        return Err(errors::does_not_exist(def.kind.text(), name).into());
    }
    put(ctx, def)
}

/// Drops a routine; false: there is none.
pub(super) fn drop(
    ctx: &mut DdlCtx<'_>,
    kind: RoutineKind,
    name: &TableName,
) -> Result<Option<DdlDone>, ExecError> {
    let key = RoutineKey::new(kind, &name.name);
    if ctx.catalog.routine(&name.schema, &key).is_none() {
        return Ok(None);
    }
    begin(ctx, &name.schema)?;
    lock_unused(ctx, kind, (&name.schema, &name.name))?;
    let Some(def) = ctx.catalog.routine(&name.schema, &key) else {
        return Ok(None);
    };
    let mut change = ctx.change()?;
    change.drop_routine(&def)?;
    Ok(Some(DdlDone {
        seq: change.commit()?,
        ..DdlDone::default()
    }))
}

fn begin(ctx: &mut DdlCtx<'_>, schema: &str) -> Result<(), ExecError> {
    names::check_not_system(schema, ctx.user)?;
    refuse_under_lock_tables(ctx)?;
    ctx.announce()?;
    ctx.lock_schema(schema, MdlMode::IntentionExclusive)
}

/// Waits for the transactions that have called one of the routines of a database, which is locked.
pub(super) fn lock_unused_of(ctx: &mut DdlCtx<'_>, schema: &str) -> Result<(), ExecError> {
    let snapshot = ctx.catalog.snapshot();
    let routines = snapshot.schema(schema).map(|s| s.routines.values());
    for def in routines.into_iter().flatten() {
        lock_unused(ctx, def.kind, (schema, &def.name))?;
    }
    Ok(())
}

/// Waits for the transactions that have called it.
fn lock_unused(
    ctx: &mut DdlCtx<'_>,
    kind: RoutineKind,
    (schema, name): (&str, &str),
) -> Result<(), ExecError> {
    let object = ctx.catalog.locks().routine(kind, schema, name);
    let (mode, until) = (MdlMode::Exclusive, MdlDuration::Statement);
    ctx.locks.acquire(&object, mode, until)
}

fn put(ctx: &mut DdlCtx<'_>, def: RoutineDef) -> Result<DdlDone, ExecError> {
    let mut change = ctx.change()?;
    change.put_routine(def)?;
    Ok(DdlDone {
        seq: change.commit()?,
        ..DdlDone::default()
    })
}
