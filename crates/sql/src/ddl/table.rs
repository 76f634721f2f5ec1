//! DROP TABLE, TRUNCATE TABLE and RENAME TABLE; MEMORY tables at a start.
//!
//! Neighbours: `catalog` for the change.
//! **Invariants**: each statement is one change, so all of its tables or none are affected; a
//! truncated table has new trees and begins AUTO_INCREMENT anew.

use std::sync::Arc;

use esker_sql_catalog::catalog::{
    Catalog, Change, NewTrees, Snapshot, StorageEngine, TableDef, TableRuntime, VisibleFrom,
};
use esker_sql_catalog::codec::{LayoutVersion, RowLayout};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::{LockSet, MdlDuration, MdlMode};
use esker_sql_syntax::ast::{DropTables, ObjectName};
use esker_types::{SqlResult, errors};
use tracing::{info, warn};

use super::draft::Draft;
use super::draft_finish::BuiltIndex;
use super::foreign::{self, Shape, Wanted};
use super::names::{self, TableName, resolve};
use super::{DdlCtx, DdlDone, checks, create};

pub(super) fn joined(names: &[&TableName]) -> String {
    let texts: Vec<String> = names
        .iter()
        .map(|n| format!("{}.{}", n.schema, n.name))
        .collect();
    texts.join(",")
}

pub(super) fn drop_tables(ctx: &mut DdlCtx<'_>, drop: &DropTables) -> Result<DdlDone, ExecError> {
    let mut names: Vec<TableName> = Vec::with_capacity(drop.names.len());
    for name in &drop.names {
        let name = resolve(name, ctx.database)?;
        if names.contains(&name) {
            return Err(errors::not_unique_table(&name.name).into());
        }
        let is_temporary = drop.temporary || ctx.temporary(&name).is_some();
        names::check_any_table(&name, is_temporary, ctx.user)?;
        names.push(name);
    }
    let temporary: Vec<Arc<TableDef>> = names.iter().filter_map(|n| ctx.temporary(n)).collect();
    let mut stored = names.clone();
    stored.retain(|n| !drop.temporary && ctx.temporary(n).is_none());
    if !stored.is_empty() {
        foreign::lock_related(ctx, &stored, &|ctx| to_lock(ctx, &stored))?;
    }
    let exists = |n: &&TableName| {
        let stored = || !drop.temporary && ctx.catalog.resolve(&n.schema, &n.name).is_some();
        ctx.temporary(n).is_some() || stored()
    };
    let missing: Vec<&TableName> = names.iter().filter(|n| !exists(n)).collect();
    if !missing.is_empty() && !drop.if_exists {
        return Err(errors::unknown_table(joined(&missing)).into());
    }
    for name in &missing {
        ctx.note(1051, errors::unknown_table(joined(&[name])).message);
    }
    let resolved = |name: &TableName| ctx.catalog.resolve(&name.schema, &name.name);
    let going: Vec<Arc<TableDef>> = stored.iter().filter_map(resolved).collect();
    for def in &going {
        let goes = |t: &TableDef| {
            going
                .iter()
                .any(|d| d.name == t.name && d.schema == t.schema)
        };
        foreign::check_unreferenced(ctx, def, &goes)?;
    }
    let mut done = DdlDone::default();
    // A statement that drops nothing has no record of its own.
    if !going.is_empty() {
        let mut change = ctx.change()?;
        for def in &going {
            // What went before may have changed it.
            let def = change.snapshot().table(&def.schema, &def.name).cloned();
            if let Some(def) = def {
                change.drop_table(&def)?;
            }
        }
        done.seq = change.commit()?;
        let locks = ctx.catalog.locks();
        let gone = stored.iter().map(|n| locks.table(&n.schema, &n.name));
        ctx.locks.forget_explicit(&gone.collect::<Vec<_>>());
    }
    for table in &temporary {
        ctx.temporary.borrow_mut().remove(table);
    }
    Ok(done)
}

/// Tables that are dropped or renamed, and those that foreign keys tie to them.
fn to_lock(ctx: &DdlCtx<'_>, names: &[TableName]) -> Wanted {
    let mut wanted = Wanted::new();
    for name in names {
        foreign::want(&mut wanted, &name.schema, &name.name, MdlMode::Exclusive);
        if let Some(def) = ctx.catalog.resolve(&name.schema, &name.name) {
            foreign::want_parents(&mut wanted, &def, MdlMode::Exclusive);
            foreign::want_children(&mut wanted, &def, MdlMode::Exclusive);
        }
    }
    wanted
}

pub(super) fn truncate(ctx: &mut DdlCtx<'_>, name: &ObjectName) -> Result<DdlDone, ExecError> {
    let name = resolve(name, ctx.database)?;
    names::check_table(&name, ctx.user)?;
    let old = ctx.existing(&name)?;
    if old.temporary {
        let mut trees = NewTrees::new(ctx.catalog.engine());
        let def = emptied(&mut trees, &old)?;
        ctx.temporary.borrow_mut().replace(&old, def, trees)?;
        return Ok(DdlDone::default());
    }
    ctx.lock_exclusive(std::slice::from_ref(&name))?;
    let old = ctx.existing(&name)?;
    foreign::check_truncate(ctx, &old)?;
    let mut change = ctx.change()?;
    empty(&mut change, ctx.catalog, &old)?;
    let seq = change.commit()?;
    Ok(DdlDone {
        seq,
        ..DdlDone::default()
    })
}

/// Gives a table new trees with a change that may do more.
fn empty(change: &mut Change<'_>, catalog: &Catalog, old: &TableDef) -> SqlResult<()> {
    let mut trees = NewTrees::new(catalog.engine());
    let def = emptied(&mut trees, old)?;
    change.adopt(trees);
    old.indexes.iter().for_each(|i| change.abandon_tree(i.id));
    change.put_table(def)?;
    Ok(())
}

/// At a start, before there are sessions: rows of MEMORY tables are gone. A table that a prepared transaction has
/// locked keeps its rows, which that transaction may go on to change; `locks` is an empty set. `log` hears of each
/// table before it is empty: if the server goes down in between, the next start does both again.
///
/// # Errors
/// Of the engine and of `log`; the rows are still there then.
pub fn empty_memory_tables(
    catalog: &Catalog,
    locks: &mut LockSet,
    log: impl Fn(&TableDef) -> SqlResult<()>,
) -> SqlResult<()> {
    let snapshot = catalog.snapshot().clone();
    let is_memory = |t: &&Arc<TableDef>| t.engine == StorageEngine::Memory;
    let mut change = catalog.change();
    let mut emptied = 0;
    for table in snapshot.tables().filter(is_memory) {
        if locks.try_acquire(&table.mdl, MdlMode::Exclusive, MdlDuration::Statement) {
            log(table)?;
            empty(&mut change, catalog, table)?;
            emptied += 1;
        } else {
            warn!(
                "a prepared transaction keeps the rows of {}.{}",
                table.schema, table.name
            );
        }
    }
    if emptied > 0 {
        change.commit()?;
        info!(tables = emptied, "MEMORY tables are empty");
    }
    locks.release_all();
    Ok(())
}

/// The same table with new trees.
pub(super) fn emptied(trees: &mut NewTrees, old: &TableDef) -> SqlResult<TableDef> {
    let mut columns = old.columns.clone();
    columns.iter_mut().for_each(|c| c.instant_default = None);
    let built: Vec<BuiltIndex> = Draft::of(old).finish()?.indexes;
    Ok(TableDef {
        indexes: create::new_indexes(trees, &columns, &built)?,
        layout: RowLayout::new(&columns, vec![LayoutVersion::of(&columns)]),
        columns,
        visible_from: VisibleFrom::fresh(),
        runtime: Arc::new(TableRuntime::new(0)),
        ..old.clone()
    })
}

pub(super) fn rename(
    ctx: &mut DdlCtx<'_>,
    pairs: &[(ObjectName, ObjectName)],
    if_exists: bool,
) -> Result<DdlDone, ExecError> {
    let mut resolved: Vec<(TableName, TableName)> = Vec::with_capacity(pairs.len());
    let mut names: Vec<TableName> = Vec::with_capacity(pairs.len() * 2);
    let mut own: Vec<TableName> = Vec::with_capacity(pairs.len());
    for (from, to) in pairs {
        let (from, to) = (resolve(from, ctx.database)?, resolve(to, ctx.database)?);
        for name in [&from, &to] {
            names::check_table(name, ctx.user)?;
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        // LOCK TABLES knows a table by the name that it has before the statement.
        if resolved.iter().all(|(_, earlier)| *earlier != from) {
            own.push(from.clone());
        }
        resolved.push((from, to));
    }
    foreign::lock_related(ctx, &own, &|ctx| to_lock(ctx, &names))?;
    let mut change = ctx.change()?;
    let mut renamed = Vec::with_capacity(resolved.len());
    for (from, to) in &resolved {
        if if_exists && !change.snapshot().has_name(&from.schema, &from.name) {
            let missing = errors::no_such_table(&from.schema, &from.name);
            ctx.note(missing.code, missing.message);
            continue;
        }
        rename_one(ctx, &mut change, from, to)?;
        renamed.push((from, to));
    }
    let seq = change.commit()?;
    for (from, to) in renamed {
        ctx.locks_follow(from, to);
    }
    Ok(DdlDone {
        seq,
        ..DdlDone::default()
    })
}

/// Renames one table within a change that may have renamed others before.
pub(super) fn rename_one(
    ctx: &DdlCtx<'_>,
    change: &mut Change<'_>,
    from: &TableName,
    to: &TableName,
) -> SqlResult<()> {
    if change.snapshot().schema(&from.schema).is_none() {
        return Err(errors::unknown_database(&from.schema));
    }
    if change.snapshot().schema(&to.schema).is_none() {
        return Err(errors::unknown_database(&to.schema));
    }
    // As in MySQL the new name is looked at first.
    if change.snapshot().has_name(&to.schema, &to.name) {
        return Err(errors::table_exists(&to.name));
    }
    if !change.snapshot().has_name(&from.schema, &from.name) {
        return Err(errors::no_such_table(&from.schema, &from.name));
    }
    if let Some(view) = change.snapshot().view(&from.schema, &from.name).cloned() {
        return super::view::rename(ctx, change, &view, to);
    }
    let def = change.snapshot().table(&from.schema, &from.name).cloned();
    let def = def.ok_or_else(|| errors::no_such_table(&from.schema, &from.name))?;
    super::trigger::check_rename(&def, to)?;
    change.forget_name(&def);
    let renamed = renamed(ctx, &def, to);
    check_constraint_names(change.snapshot(), &def, &renamed)?;
    foreign::check_as_parent(ctx, change.snapshot(), &Shape::of(&renamed))?;
    foreign::follow_rename(change, &def, &renamed)?;
    change.put_table(renamed)?;
    Ok(())
}

/// Checks the names that constraints of a table get with its own.
///
/// # Errors
/// 3822 and 1826 for one that another constraint of the database has, 1059 for one that is too long.
fn check_constraint_names(
    snapshot: &Snapshot,
    def: &TableDef,
    renamed: &TableDef,
) -> SqlResult<()> {
    let place = (&*renamed.schema, Some(def.id));
    checks::check_distinct(renamed.checks.iter())?;
    checks::check_names(snapshot, place, renamed.checks.iter())?;
    foreign::check_names(snapshot, place, &renamed.foreign_keys)
}

/// The definition under another name; generated names of constraints follow.
fn renamed(ctx: &DdlCtx<'_>, def: &TableDef, to: &TableName) -> TableDef {
    let mut out = moved(ctx, def, to);
    checks::rename(&mut out.checks, &def.name, &to.name);
    out
}

/// The definition under another name that its CHECKs follow already.
pub(super) fn moved(ctx: &DdlCtx<'_>, def: &TableDef, to: &TableName) -> TableDef {
    let mut out = def.clone();
    foreign::rename_keys(&mut out.foreign_keys, def, to);
    out.schema = to.schema.as_str().into();
    out.name = to.name.as_str().into();
    out.mdl = ctx.catalog.locks().table(&to.schema, &to.name);
    out
}
