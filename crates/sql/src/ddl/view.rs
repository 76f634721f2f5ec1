//! CREATE, ALTER, DROP and RENAME of views.
//!
//! Neighbours: `session::views` has bound the query and knows its columns; `catalog` for the change.
//! **Invariants**: a view and a table never share a name; a view is replaced as a whole, in one change.

use esker_sql_catalog::catalog::{Change, ViewDef};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_syntax::ast::{CreateView, DropTables};
use esker_types::{SqlError, SqlResult, errors};

use super::names::{self, TableName, resolve};
use super::schema::refuse_under_lock_tables;
use super::table::joined;
use super::{DdlCtx, DdlDone, released};

/// 1347.
pub fn wrong_object(name: &TableName, wanted: &str) -> SqlError {
    errors::wrong_object(&name.schema, &name.name, wanted)
}

/// What the statement makes of a name; `false`: nothing, it is there and IF NOT EXISTS was said.
///
/// # Errors
/// 1050, 1347, 1146, 1049, 1044.
pub fn check(ctx: &DdlCtx<'_>, create: &CreateView, name: &TableName) -> SqlResult<bool> {
    names::check_table(name, ctx.user)?;
    let now = ctx.catalog.snapshot();
    if now.schema(&name.schema).is_none() {
        return Err(errors::unknown_database(&name.schema));
    }
    if now.table(&name.schema, &name.name).is_some() && (create.alter || create.or_replace) {
        return Err(wrong_object(name, "VIEW"));
    }
    let exists = now.has_name(&name.schema, &name.name);
    if create.alter && !exists {
        return Err(errors::no_such_table(&name.schema, &name.name));
    }
    if exists && !create.alter && !create.or_replace {
        let exists = errors::table_exists(&name.name);
        if !create.if_not_exists {
            return Err(exists);
        }
        ctx.note(exists.code, exists.message);
        return Ok(false);
    }
    Ok(true)
}

/// Makes or replaces a view whose query has been bound.
pub fn create(
    ctx: &mut DdlCtx<'_>,
    create: &CreateView,
    name: &TableName,
    def: ViewDef,
) -> Result<DdlDone, ExecError> {
    let result = locked_create(ctx, create, name, def);
    released(ctx, result)
}

fn locked_create(
    ctx: &mut DdlCtx<'_>,
    create: &CreateView,
    name: &TableName,
    def: ViewDef,
) -> Result<DdlDone, ExecError> {
    refuse_under_lock_tables(ctx)?;
    ctx.lock_exclusive(std::slice::from_ref(name))?;
    if !check(ctx, create, name)? {
        return Ok(DdlDone::default());
    }
    let mut change = ctx.change()?;
    change.put_view(def)?;
    Ok(DdlDone {
        seq: change.commit()?,
        ..DdlDone::default()
    })
}

/// Gives a view another name, within a change. Views that name it find it no longer.
///
/// # Errors
/// 1450: a view stays in its database.
pub(super) fn rename(
    ctx: &DdlCtx<'_>,
    change: &mut Change<'_>,
    view: &ViewDef,
    to: &TableName,
) -> SqlResult<()> {
    if *view.schema != *to.schema {
        let (from, to) = (&view.schema, &to.schema);
        let text = format!("Changing schema from '{from}' to '{to}' is not allowed.");
        return Err(SqlError::new(1450, "HY000", text));
    }
    change.drop_view(view)?;
    change.put_view(ViewDef {
        name: to.name.as_str().into(),
        mdl: ctx.catalog.locks().table(&to.schema, &to.name),
        ..view.clone()
    })
}

pub(super) fn drop_views(ctx: &mut DdlCtx<'_>, drop: &DropTables) -> Result<DdlDone, ExecError> {
    refuse_under_lock_tables(ctx)?;
    let mut names: Vec<TableName> = Vec::with_capacity(drop.names.len());
    for name in &drop.names {
        let name = resolve(name, ctx.database)?;
        names::check_table(&name, ctx.user)?;
        if names.contains(&name) {
            return Err(errors::not_unique_table(&name.name).into());
        }
        names.push(name);
    }
    ctx.lock_exclusive(&names)?;
    let (mut going, mut missing) = (Vec::new(), Vec::new());
    let now = ctx.catalog.snapshot();
    for name in &names {
        let e = match now.view(&name.schema, &name.name) {
            Some(view) => {
                going.push(view.clone());
                continue;
            }
            None if now.has_name(&name.schema, &name.name) => {
                let e = wrong_object(name, "VIEW");
                match drop.if_exists {
                    true => e,
                    false => return Err(e.into()),
                }
            }
            None => {
                missing.push(name);
                errors::unknown_table(joined(&[name]))
            }
        };
        if drop.if_exists {
            ctx.note(e.code, e.message);
        }
    }
    if !missing.is_empty() && !drop.if_exists {
        return Err(errors::unknown_table(joined(&missing)).into());
    }
    if going.is_empty() {
        return Ok(DdlDone::default());
    }
    let mut change = ctx.change()?;
    for view in &going {
        change.drop_view(view)?;
    }
    Ok(DdlDone {
        seq: change.commit()?,
        ..DdlDone::default()
    })
}
