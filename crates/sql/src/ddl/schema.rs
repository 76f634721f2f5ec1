//! CREATE, ALTER and DROP DATABASE.
//!
//! Neighbours: `catalog` for the change.
//! **Invariant**: a database is locked exclusively while it comes or goes, and with it every one of its
//! tables, so nobody finds a table whose database is gone.

use esker_sql_catalog::catalog::{SchemaDef, is_system_schema};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::MdlMode;
use esker_sql_plan::bind::types::{charset_by_name, collation_by_name, pick_collation};
use esker_sql_syntax::ast::{DatabaseOption, Ident};
use esker_types::collation::Collation;
use esker_types::{SqlError, SqlResult, errors};

use super::foreign::{self, Wanted};
use super::names::{self, TableName};
use super::{DdlCtx, DdlDone, routine};

/// The collation that the options ask for.
fn collation(options: &[DatabaseOption], default: Collation) -> SqlResult<Collation> {
    let (mut charset, mut named) = (None, None);
    for option in options {
        match option {
            DatabaseOption::Charset(name) if name.eq_ignore_ascii_case("default") => {
                charset = Some(default.charset());
            }
            DatabaseOption::Charset(name) => charset = Some(charset_by_name(name)?),
            DatabaseOption::Collate(name) if name.eq_ignore_ascii_case("default") => {
                named = Some(default);
            }
            DatabaseOption::Collate(name) => named = Some(collation_by_name(name)?),
            DatabaseOption::Encryption(value) if value.eq_ignore_ascii_case(b"N") => {}
            DatabaseOption::Encryption(value) if value.eq_ignore_ascii_case(b"Y") => {
                return Err(errors::no_master_key());
            }
            DatabaseOption::Encryption(value) => {
                let value = String::from_utf8_lossy(value);
                return Err(errors::incorrect_value(
                    "argument (should be Y or N)",
                    value,
                ));
            }
            DatabaseOption::ReadOnly(_) => {}
            DatabaseOption::Comment(_) => {
                return Err(SqlError::not_supported("COMMENT of a database"));
            }
        }
    }
    pick_collation(charset, named, default)
}

/// Whether the database is read only from now on; `was`: it is so far; `applies`: a source has done it already.
///
/// # Errors
/// 1302; 3989: it is, and shall be changed and stay so, but for what a source has done.
fn read_only(name: &str, options: &[DatabaseOption], was: bool, applies: bool) -> SqlResult<bool> {
    let mut asked = None;
    for option in options {
        let DatabaseOption::ReadOnly(on) = option else {
            continue;
        };
        if asked.is_some_and(|before| before != *on) {
            let [before, now] = [!on, *on].map(u8::from);
            let text =
                format!("Conflicting declarations: 'READ ONLY={before}' and 'READ ONLY={now}'");
            return Err(SqlError::new(1302, "HY000", text));
        }
        asked = Some(*on);
    }
    let only_that = options
        .iter()
        .all(|option| matches!(option, DatabaseOption::ReadOnly(_)));
    match was && !applies && !only_that && asked != Some(false) {
        true => Err(errors::schema_is_read_only(name)),
        false => Ok(asked.unwrap_or(was)),
    }
}

pub(super) fn create(
    ctx: &mut DdlCtx<'_>,
    name: &Ident,
    options: &[DatabaseOption],
    or_replace: bool,
    if_not_exists: bool,
) -> Result<DdlDone, ExecError> {
    let name = &*name.text;
    // Dumps of all databases begin with CREATE DATABASE IF NOT EXISTS of `mysql`.
    match name {
        "information_schema" | "performance_schema" => {
            return Err(names::denied(name, ctx.user).into());
        }
        "mysql" if !if_not_exists => return Err(errors::schema_rejected(name).into()),
        _ => (),
    }
    let collation = collation(options, ctx.server_collation)?;
    refuse_under_lock_tables(ctx)?;
    ctx.announce()?;
    ctx.lock_schema(name, MdlMode::Exclusive)?;
    let exists = is_system_schema(name) || ctx.catalog.schema(name).is_some();
    if exists && (!or_replace || is_system_schema(name)) {
        let text = format!("Can't create database '{name}'; database exists");
        if !if_not_exists {
            return Err(SqlError::new(1007, "HY000", text).into());
        }
        ctx.note(1007, text);
        return Ok(DdlDone {
            affected_rows: 1,
            ..DdlDone::default()
        });
    }
    if exists {
        ctx.check_writable(name)?;
        lock_tables_of(ctx, name)?;
    }
    let mut change = ctx.change()?;
    if exists {
        change.drop_schema(name)?;
    }
    change.put_schema(SchemaDef {
        name: name.into(),
        collation,
        read_only: false,
    })?;
    let seq = change.commit()?;
    Ok(DdlDone {
        affected_rows: 1,
        seq,
        ..DdlDone::default()
    })
}

pub(super) fn alter(
    ctx: &mut DdlCtx<'_>,
    name: Option<&Ident>,
    options: &[DatabaseOption],
) -> Result<DdlDone, ExecError> {
    let name = match name {
        Some(name) => name.text.to_string(),
        None => ctx.database.ok_or_else(errors::no_database)?.to_owned(),
    };
    names::check_schema(&name, ctx.user)?;
    refuse_under_lock_tables(ctx)?;
    ctx.announce()?;
    ctx.lock_schema(&name, MdlMode::Exclusive)?;
    let old = ctx
        .catalog
        .schema(&name)
        .ok_or_else(|| errors::no_such_database(&name))?;
    // What a source has done is done here, whatever is read only.
    let read_only = read_only(&name, options, old.read_only, ctx.applies)?;
    let collation = collation(options, old.collation)?;
    if read_only != old.read_only {
        // Nobody is in the middle of changing it.
        lock_tables_of(ctx, &name)?;
    }
    let mut change = ctx.change()?;
    change.put_schema(SchemaDef {
        name: old.name.clone(),
        collation,
        read_only,
    })?;
    let seq = change.commit()?;
    Ok(DdlDone {
        affected_rows: 1,
        seq,
        ..DdlDone::default()
    })
}

pub(super) fn drop(
    ctx: &mut DdlCtx<'_>,
    name: &Ident,
    if_exists: bool,
) -> Result<DdlDone, ExecError> {
    let name = &*name.text;
    names::check_schema(name, ctx.user)?;
    refuse_under_lock_tables(ctx)?;
    ctx.announce()?;
    ctx.lock_schema(name, MdlMode::Exclusive)?;
    if ctx.catalog.schema(name).is_none() {
        let text = format!("Can't drop database '{name}'; database doesn't exist");
        if !if_exists {
            return Err(SqlError::new(1008, "HY000", text).into());
        }
        ctx.note(1008, text);
        return Ok(DdlDone::default());
    }
    ctx.check_writable(name)?;
    let tables = lock_tables_of(ctx, name)?;
    routine::lock_unused_of(ctx, name)?;
    let all = ctx
        .catalog
        .snapshot()
        .schema(name)
        .map(|s| s.tables.clone());
    for table in all.iter().flat_map(|tables| tables.values()) {
        foreign::check_unreferenced(ctx, table, &|t| &*t.schema == name)?;
    }
    let mut change = ctx.change()?;
    change.drop_schema(name)?;
    let seq = change.commit()?;
    Ok(DdlDone {
        affected_rows: tables,
        seq,
        ..DdlDone::default()
    })
}

/// Locks every table and view of a database exclusively, and what foreign keys tie to them; the database itself is
/// locked, so none is added.
fn lock_tables_of(ctx: &mut DdlCtx<'_>, schema: &str) -> Result<u64, ExecError> {
    let names: Vec<TableName> = match ctx.catalog.snapshot().schema(schema) {
        Some(entry) => entry
            .tables
            .keys()
            .chain(entry.views.keys())
            .map(|name| TableName {
                schema: schema.to_owned(),
                name: name.to_string(),
            })
            .collect(),
        None => Vec::new(),
    };
    let mut wanted = Wanted::new();
    for name in &names {
        foreign::want(&mut wanted, &name.schema, &name.name, MdlMode::Exclusive);
        if let Some(def) = ctx.catalog.resolve(&name.schema, &name.name) {
            foreign::want_parents(&mut wanted, &def, MdlMode::Exclusive);
            foreign::want_children(&mut wanted, &def, MdlMode::Shared);
        }
    }
    for (name, mode) in &wanted {
        if name.schema != schema {
            ctx.lock_schema(&name.schema, MdlMode::IntentionExclusive)?;
        }
        ctx.lock_table(name, *mode)?;
    }
    Ok(names.len() as u64)
}

/// 1192.
pub(super) fn refuse_under_lock_tables(ctx: &DdlCtx<'_>) -> SqlResult<()> {
    if ctx.locks.has_explicit() {
        return Err(errors::has_locked_tables());
    }
    Ok(())
}
