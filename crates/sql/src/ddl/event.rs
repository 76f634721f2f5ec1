//! CREATE, ALTER and DROP of events in the catalog.
//!
//! Neighbours: the session has checked names and privileges and computed the schedule; the scheduler is told when the
//! catalog has changed. **Invariant**: an event's database is locked against being dropped while the event comes or
//! goes, and its name against others that change it. What runs already takes no lock, as in MySQL: it runs to its end.

use esker_sql_catalog::catalog::{EventDef, event_key};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::{MdlDuration, MdlMode};
use esker_types::{SqlResult, errors};

use super::names::{self, TableName};
use super::schema::refuse_under_lock_tables;
use super::{DdlCtx, DdlDone, released};

/// Makes an event; None: of a time that has passed, so it is gone already.
///
/// # Errors
/// 1537, 1049, 1044.
pub fn create(
    ctx: &mut DdlCtx<'_>,
    name: &TableName,
    def: Option<EventDef>,
    if_not_exists: bool,
) -> Result<DdlDone, ExecError> {
    let result = locked_create(ctx, name, def, if_not_exists);
    released(ctx, result)
}

fn locked_create(
    ctx: &mut DdlCtx<'_>,
    name: &TableName,
    def: Option<EventDef>,
    if_not_exists: bool,
) -> Result<DdlDone, ExecError> {
    begin(ctx, &[name])?;
    if ctx.catalog.schema(&name.schema).is_none() {
        return Err(errors::unknown_database(&name.schema).into());
    }
    let Some(def) = def else {
        return Ok(DdlDone::default());
    };
    if ctx.catalog.event(&name.schema, &name.name).is_some() {
        let exists = errors::event_exists(&name.name);
        if !if_not_exists {
            return Err(exists.into());
        }
        ctx.note(exists.code, exists.message);
        return Ok(DdlDone::default());
    }
    let mut change = ctx.change()?;
    change.put_event(def)?;
    Ok(DdlDone {
        seq: change.commit()?,
        ..DdlDone::default()
    })
}

/// Replaces an event by what `altered` makes of it.
///
/// # Errors
/// 1539, 1537, 1049; those of `altered`.
pub fn alter(
    ctx: &mut DdlCtx<'_>,
    name: &TableName,
    rename: Option<&TableName>,
    altered: &mut dyn FnMut(&EventDef) -> SqlResult<EventDef>,
) -> Result<DdlDone, ExecError> {
    let result = locked_alter(ctx, name, rename, altered);
    released(ctx, result)
}

fn locked_alter(
    ctx: &mut DdlCtx<'_>,
    name: &TableName,
    rename: Option<&TableName>,
    altered: &mut dyn FnMut(&EventDef) -> SqlResult<EventDef>,
) -> Result<DdlDone, ExecError> {
    let mut names = vec![name];
    names.extend(rename);
    names.sort_by_key(|name| (name.schema.clone(), event_key(&name.name)));
    begin(ctx, &names)?;
    if let Some(new) = rename {
        if ctx.catalog.schema(&new.schema).is_none() {
            return Err(errors::unknown_database(&new.schema).into());
        }
        if ctx.catalog.event(&new.schema, &new.name).is_some() {
            return Err(errors::event_exists(&new.name).into());
        }
    }
    let before = ctx.catalog.event(&name.schema, &name.name);
    let before = before.ok_or_else(|| errors::unknown_event(&name.name))?;
    let mut def = altered(&before)?;
    let mut change = ctx.change()?;
    if let Some(new) = rename {
        change.drop_event(&before)?;
        def.schema = new.schema.as_str().into();
        def.name = new.name.as_str().into();
    }
    change.put_event(def)?;
    Ok(DdlDone {
        seq: change.commit()?,
        ..DdlDone::default()
    })
}

/// Drops an event; None: there is none.
pub(super) fn drop(ctx: &mut DdlCtx<'_>, name: &TableName) -> Result<Option<DdlDone>, ExecError> {
    if ctx.catalog.event(&name.schema, &name.name).is_none() {
        return Ok(None);
    }
    begin(ctx, &[name])?;
    let Some(def) = ctx.catalog.event(&name.schema, &name.name) else {
        return Ok(None);
    };
    let mut change = ctx.change()?;
    change.drop_event(&def)?;
    Ok(Some(DdlDone {
        seq: change.commit()?,
        ..DdlDone::default()
    }))
}

fn begin(ctx: &mut DdlCtx<'_>, names: &[&TableName]) -> Result<(), ExecError> {
    for name in names {
        names::check_not_system(&name.schema, ctx.user)?;
    }
    refuse_under_lock_tables(ctx)?;
    ctx.announce()?;
    for name in names {
        ctx.lock_schema(&name.schema, MdlMode::IntentionExclusive)?;
    }
    for name in names {
        let object = ctx.catalog.locks().event(&name.schema, &name.name);
        let (mode, until) = (MdlMode::Exclusive, MdlDuration::Statement);
        ctx.locks.acquire(&object, mode, until)?;
    }
    Ok(())
}
