//! LOCK TABLES, UNLOCK TABLES, FLUSH TABLES WITH READ LOCK and LOCK INSTANCE FOR BACKUP.
//!
//! Neighbours: `session` runs these and asks [`check_locked`] before a statement touches a table.
//! **Invariants**: under LOCK TABLES a session uses only the tables it locked, in the mode it locked
//! them; taking new locks gives up the old ones first, as in MySQL.

use std::sync::Arc;
use std::time::Duration;

use esker_sql_catalog::catalog::Catalog;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::{LockSet, MdlDuration, MdlMode, MdlObject};
use esker_sql_syntax::ast::LockTable;
use esker_types::{SqlResult, errors};

use super::names::{self, TableName};
use crate::dml::foreign::{ForeignKeyPlan, RowEffects};

/// LOCK TABLES, with what is below the views among the tables. The caller has committed the open transaction, and keeps
/// the locks, which are the statement's, if the views are still what they were.
pub fn lock(
    catalog: &Catalog,
    locks: &mut LockSet,
    tables: &[LockTable],
    below: &[(TableName, bool)],
    database: Option<&str>,
) -> Result<(), ExecError> {
    if !locks.statement_has_locks() {
        locks.release_explicit();
    }
    let result = lock_all(catalog, locks, tables, below, database);
    if let Err(ExecError::Sql(_)) = &result {
        locks.release_statement();
    }
    result
}

fn lock_all(
    catalog: &Catalog,
    locks: &mut LockSet,
    tables: &[LockTable],
    below: &[(TableName, bool)],
    database: Option<&str>,
) -> Result<(), ExecError> {
    let mut wanted: Vec<(TableName, bool)> = Vec::with_capacity(tables.len());
    for (at, table) in tables.iter().enumerate() {
        let name = names::resolve(&table.name, database)?;
        let alias = |t: &LockTable| {
            t.alias
                .as_ref()
                .map_or_else(|| t.name.name.text.clone(), |a| a.text.clone())
        };
        if tables[..at].iter().any(|t| alias(t) == alias(table)) {
            return Err(errors::not_unique_table(alias(table)).into());
        }
        check_exists(catalog, &name)?;
        want(&mut wanted, &name, table.write);
    }
    for (name, write) in below {
        want(&mut wanted, name, *write);
    }
    add_relatives(catalog, &mut wanted);
    wanted.sort();
    if wanted.iter().any(|(_, write)| *write) {
        announce_write(catalog, locks, MdlDuration::Statement)?;
    }
    for (name, write) in &wanted {
        let mode = if *write {
            MdlMode::SharedNoReadWrite
        } else {
            MdlMode::SharedReadOnly
        };
        let object = catalog.locks().table(&name.schema, &name.name);
        locks.acquire(&object, mode, MdlDuration::Statement)?;
        if *write {
            catalog.check_writable(&name.schema)?;
        }
        // It may have been dropped while we waited.
        check_exists(catalog, name)?;
    }
    Ok(())
}

/// Tables that foreign keys tie to those locked for writing are locked, too: for writing if their rows may change.
fn add_relatives(catalog: &Catalog, wanted: &mut Vec<(TableName, bool)>) {
    let lookup = |schema: &str, name: &str| catalog.resolve(schema, name);
    let written = wanted.iter().filter(|(_, write)| *write);
    let written = written.filter_map(|(name, _)| catalog.resolve(&name.schema, &name.name));
    let targets = written.map(|def| (def.clone(), RowEffects::everything(&def)));
    let plan = ForeignKeyPlan::new(&lookup, targets.collect());
    for relative in plan.relatives() {
        let name = TableName {
            schema: relative.table.schema.to_string(),
            name: relative.table.name.to_string(),
        };
        want(wanted, &name, relative.is_changed);
    }
}

/// A table that is wanted several times, under aliases or by views, is locked once, in the strongest mode.
fn want(wanted: &mut Vec<(TableName, bool)>, name: &TableName, writes: bool) {
    match wanted.iter_mut().find(|(n, _)| n == name) {
        Some((_, write)) => *write |= writes,
        None => wanted.push((name.clone(), writes)),
    }
}

fn check_exists(catalog: &Catalog, name: &TableName) -> SqlResult<()> {
    match catalog.view(&name.schema, &name.name) {
        Some(_) => Ok(()),
        None => catalog.table_or_error(&name.schema, &name.name).map(drop),
    }
}

/// UNLOCK TABLES: also ends FLUSH TABLES WITH READ LOCK.
pub fn unlock(locks: &mut LockSet) {
    locks.release_explicit();
    locks.release_global();
}

/// FLUSH TABLES WITH READ LOCK.
pub fn lock_globally(catalog: &Catalog, locks: &mut LockSet) -> Result<(), ExecError> {
    if locks.has_explicit() {
        return Err(errors::has_locked_tables().into());
    }
    // A statement that ends in an error holds neither of them then.
    for scope in [catalog.locks().global(), catalog.locks().commit()] {
        locks.acquire(scope, MdlMode::ScopeShared, MdlDuration::Statement)?;
    }
    locks.keep_statement_locks(MdlDuration::Global);
    Ok(())
}

/// Waits for the statements that change something and for the commits that run, and keeps others from beginning until
/// the statement ends, or `at_most` has passed.
pub fn await_writers(
    catalog: &Catalog,
    locks: &mut LockSet,
    at_most: Duration,
) -> Result<(), ExecError> {
    for scope in [catalog.locks().global(), catalog.locks().commit()] {
        let lock = (MdlMode::ScopeShared, MdlDuration::Statement);
        locks.acquire_firmly(scope, lock, at_most)?;
    }
    Ok(())
}

/// LOCK INSTANCE FOR BACKUP: rows may change, what there is may not.
pub fn lock_instance(catalog: &Catalog, locks: &mut LockSet) -> Result<(), ExecError> {
    let backup = catalog.locks().backup().clone();
    locks.acquire(&backup, MdlMode::ScopeShared, MdlDuration::Instance)
}

/// Announces a change of what there is: waits while another session holds FLUSH TABLES WITH READ LOCK or LOCK INSTANCE
/// FOR BACKUP.
///
/// # Errors
/// 1223 while this session holds the global read lock.
pub fn announce_change(catalog: &Catalog, locks: &mut LockSet) -> Result<(), ExecError> {
    announce_write(catalog, locks, MdlDuration::Statement)?;
    admit_beside_backup(catalog, locks)
}

/// Announces changes of rows for that long: FLUSH TABLES WITH READ LOCK waits for them, and they for it.
///
/// # Errors
/// 1223 while this session holds the global read lock.
pub fn announce_write(
    catalog: &Catalog,
    locks: &mut LockSet,
    duration: MdlDuration,
) -> Result<(), ExecError> {
    if locks.has_global() {
        return Err(errors::conflicting_read_lock().into());
    }
    locks.acquire(
        catalog.locks().global(),
        MdlMode::IntentionExclusive,
        duration,
    )
}

/// Announces a commit for the statement's time: FLUSH TABLES WITH READ LOCK waits for it, and it for that.
///
/// # Errors
/// 1223 while this session holds the global read lock.
pub fn announce_commit(catalog: &Catalog, locks: &mut LockSet) -> Result<(), ExecError> {
    if locks.has_global() {
        return Err(errors::conflicting_read_lock().into());
    }
    let (mode, duration) = (MdlMode::IntentionExclusive, MdlDuration::Statement);
    locks.acquire(catalog.locks().commit(), mode, duration)
}

/// Waits while another session holds LOCK INSTANCE FOR BACKUP.
pub fn admit_beside_backup(catalog: &Catalog, locks: &mut LockSet) -> Result<(), ExecError> {
    let backup = catalog.locks().backup().clone();
    locks.acquire(&backup, MdlMode::IntentionExclusive, MdlDuration::Statement)
}

/// Under LOCK TABLES: is the table locked (1100), and for writing if that is wanted (1099)?
pub fn check_locked(
    locks: &LockSet,
    object: &Arc<MdlObject>,
    table: &str,
    write: bool,
) -> SqlResult<()> {
    match locks.explicit_mode(object) {
        None => Err(errors::table_not_locked(table)),
        Some(MdlMode::SharedReadOnly) if write => Err(errors::table_read_locked(table)),
        Some(_) => Ok(()),
    }
}
