//! CREATE and DROP TRIGGER.
//!
//! Neighbours: `session::triggers` knows the definer and the body; the catalog keeps triggers with their table.
//! **Invariants**: the table is locked exclusively, so no statement meets it with other triggers than it was planned
//! for; whether a name is free is decided within the change, where no other change can take it.

use std::sync::Arc;

use esker_sql_catalog::catalog::{Change, TableDef, TriggerDef, is_system_schema};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_syntax::ast::{CreateTrigger, DropProgram, TriggerPlace};
use esker_types::names::check_table;
use esker_types::{SqlError, SqlResult, errors};

use super::names::{TableName, resolve};
use super::{DdlCtx, DdlDone, released};

/// Triggers that one table may have: every change of the table writes all of them.
const MAX_TRIGGERS: usize = 1 << 12;

/// The table that a trigger is for: in the trigger's database, if only that is named.
///
/// # Errors
/// 1046, 1049, 1435 and 1465: the trigger cannot be there.
pub fn table_of(create: &CreateTrigger, database: Option<&str>) -> SqlResult<TableName> {
    let own = create.name.schema.as_ref().map(|s| &*s.text);
    let name = resolve(&create.table, own.or(database))?;
    check_table(&create.name.name.text)?;
    for schema in [Some(&*name.schema), own].into_iter().flatten() {
        if is_system_schema(schema) && !schema.eq_ignore_ascii_case("information_schema") {
            let text = "Triggers can not be created on system tables";
            return Err(SqlError::new(1465, "HY000", text));
        }
    }
    Ok(name)
}

/// Makes a trigger; `check` looks at its body beside the table's columns.
pub fn create(
    ctx: &mut DdlCtx<'_>,
    create: &CreateTrigger,
    table: &TableName,
    def: TriggerDef,
    check: &dyn Fn(&TableDef) -> SqlResult<()>,
) -> Result<DdlDone, ExecError> {
    let result = locked_create(ctx, create, table, def, check);
    released(ctx, result)
}

fn locked_create(
    ctx: &mut DdlCtx<'_>,
    create: &CreateTrigger,
    table: &TableName,
    def: TriggerDef,
    check: &dyn Fn(&TableDef) -> SqlResult<()>,
) -> Result<DdlDone, ExecError> {
    check_schemas(ctx, create, table)?;
    ctx.lock_exclusive(std::slice::from_ref(table))?;
    if ctx.temporary(table).is_some() {
        let text = format!("Trigger's '{}' is view or temporary table", table.name);
        return Err(SqlError::new(1361, "HY000", text).into());
    }
    let base = ctx.existing(table)?;
    if let Some((owner, _)) = ctx.catalog.snapshot().trigger(&table.schema, &def.name) {
        already_exists(ctx, create, owner, table)?;
        return Ok(DdlDone::default());
    }
    check(&base)?;
    let at = place_among(&base, &def, create.place.as_ref())?;
    let mut change = ctx.change()?;
    if change
        .snapshot()
        .trigger(&table.schema, &def.name)
        .is_some()
    {
        return Err(trigger_exists().into());
    }
    let mut changed = TableDef::clone(&base);
    changed.triggers.insert(at, Arc::new(def));
    change.put_table(changed)?;
    commit(change)
}

/// The trigger's database exists and is that of its table.
fn check_schemas(ctx: &DdlCtx<'_>, create: &CreateTrigger, table: &TableName) -> SqlResult<()> {
    let own = create.name.schema.as_ref().map(|own| &*own.text);
    if ctx.catalog.schema(&table.schema).is_none() {
        return Err(errors::unknown_database(&table.schema));
    }
    match own.or(ctx.database) {
        None => Err(errors::no_database()),
        Some(schema) if *schema == *table.schema => Ok(()),
        Some(_) => Err(wrong_schema()),
    }
}

/// A name that is taken: a note with IF NOT EXISTS.
fn already_exists(
    ctx: &DdlCtx<'_>,
    create: &CreateTrigger,
    owner: &TableDef,
    table: &TableName,
) -> SqlResult<()> {
    let (schema, name) = (&table.schema, &create.name.name.text);
    if !create.if_not_exists {
        return Err(trigger_exists());
    }
    if *owner.name != *table.name {
        let text = format!(
            "Trigger '{schema}'.'{name}' already exists on a different table. The 'IF NOT EXISTS' clause is only \
             supported for triggers associated with the same table."
        );
        return Err(SqlError::new(4100, "HY000", text));
    }
    let table = &table.name;
    ctx.note(
        4099,
        format!("Trigger '{name}' already exists on the table '{schema}'.'{table}'."),
    );
    Ok(())
}

/// Where the trigger goes in the table's list.
///
/// # Errors
/// 3011: there is no such trigger of the same timing and event. 1105: the table has too many.
fn place_among(
    table: &TableDef,
    def: &TriggerDef,
    place: Option<&TriggerPlace>,
) -> SqlResult<usize> {
    if table.triggers.len() >= MAX_TRIGGERS {
        let text = format!("Too many triggers; at most {MAX_TRIGGERS} are allowed");
        return Err(errors::unknown_error(text));
    }
    let Some(place) = place else {
        return Ok(table.triggers.len());
    };
    let other = &*place.other.text;
    let is_it = |t: &Arc<TriggerDef>| {
        (t.timing, t.event) == (def.timing, def.event) && t.name.eq_ignore_ascii_case(other)
    };
    match table.triggers.iter().position(is_it) {
        Some(at) => Ok(at + usize::from(!place.precedes)),
        None => {
            let text = format!(
                "Referenced trigger '{other}' for the given action time and event type does not exist."
            );
            Err(SqlError::new(3011, "HY000", text))
        }
    }
}

/// 1435 where a table with triggers would get into another database.
pub(super) fn check_rename(table: &TableDef, to: &TableName) -> SqlResult<()> {
    match table.triggers.is_empty() || *table.schema == *to.schema {
        true => Ok(()),
        false => Err(wrong_schema()),
    }
}

pub(super) fn drop(ctx: &mut DdlCtx<'_>, drop: &DropProgram) -> Result<DdlDone, ExecError> {
    let name = resolve(&drop.name, ctx.database)?;
    let missing = match ctx.catalog.schema(&name.schema) {
        None => errors::unknown_database(&name.schema),
        Some(_) => match owner_of(ctx, &name) {
            Some(table) => return drop_of(ctx, &name, &table),
            None => errors::no_such_trigger(),
        },
    };
    if !drop.if_exists {
        return Err(missing.into());
    }
    ctx.note(missing.code, missing.message);
    Ok(DdlDone::default())
}

/// The table that has the trigger.
fn owner_of(ctx: &DdlCtx<'_>, name: &TableName) -> Option<TableName> {
    let now = ctx.catalog.snapshot();
    let (table, _) = now.trigger(&name.schema, &name.name)?;
    Some(TableName {
        schema: table.schema.to_string(),
        name: table.name.to_string(),
    })
}

fn drop_of(
    ctx: &mut DdlCtx<'_>,
    name: &TableName,
    table: &TableName,
) -> Result<DdlDone, ExecError> {
    ctx.lock_exclusive(std::slice::from_ref(table))?;
    let mut change = ctx.change()?;
    // While the lock was waited for, it may have been dropped, and made again for another table.
    let found = change.snapshot().trigger(&name.schema, &name.name);
    let found = found.filter(|(owner, _)| *owner.name == *table.name);
    let (owner, trigger) = found.ok_or_else(errors::no_such_trigger)?;
    let mut changed = TableDef::clone(owner);
    let trigger = trigger.clone();
    changed.triggers.retain(|t| !Arc::ptr_eq(t, &trigger));
    change.put_table(changed)?;
    commit(change)
}

fn commit(change: Change<'_>) -> Result<DdlDone, ExecError> {
    Ok(DdlDone {
        seq: change.commit()?,
        ..DdlDone::default()
    })
}

/// 1359.
fn trigger_exists() -> SqlError {
    SqlError::new(1359, "HY000", "Trigger already exists")
}

/// 1435.
fn wrong_schema() -> SqlError {
    SqlError::new(1435, "HY000", "Trigger in wrong schema")
}
