//! The data directory as a whole: whether it is ours, what a start needs beside the engine's files, and what is mended
//! after a part of the log was given up.
//!
//! Neighbours: `instance` asks before and after it opens the engine; `esker check` asks without a start;
//! `accounts::store` reads the accounts; `catalog` finds the trees.
//!
//! **Invariants**
//! - Nothing is written into a directory that holds something else.
//! - Who may log in is never made up: a database without its accounts is refused unless it is told to make new ones.
//! - While the file [`MENDING`] is there, no session runs before every index agrees with the rows of its table.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_engine::TreeId;
use esker_sql_catalog::accounts;
use esker_sql_catalog::accounts::store::Stored;
use esker_sql_catalog::catalog::{TableDef, quoted};
use esker_sql_catalog::result::{Mode, OutcomeKind, Step};
use esker_types::{SqlError, SqlResult, errors};
use esker_vfs::{Env, OpenMode};

use crate::Instance;
use crate::session::{ClientInfo, Request, Session};

/// File of the data directory with the GTIDs that a restored backup has: a binary log that begins there goes on from
/// them.
pub const PURGED_GTIDS: &str = "binlog/binlog.purged";

/// What may stand in a directory that becomes a data directory: what file systems, operators and a first start that was
/// interrupted leave there.
const OURS: &[&str] = &[
    "LOCK",
    "accounts",
    "accounts.damaged",
    "accounts.new",
    "auto.cnf",
    "extents",
    "lost+found",
    "manifest",
    "mending",
    "tmp",
    "wal",
];
const HARMLESS_SUFFIXES: &[&str] = &[".cnf", ".err", ".log", ".pem", ".pem.new", ".pid", ".sock"];
/// So many foreign files are named.
const NAMED: usize = 3;

/// Is there while a start that gave up a part of the log has not made the indexes agree with the rows.
const MENDING: &str = "mending";

/// `--force-recovery=new-accounts`.
const NEW_ACCOUNTS: &str = "NEW-ACCOUNTS";
const DAMAGED_ACCOUNTS: &str = "accounts.damaged";

fn cannot(what: &str, path: &Path, e: &io::Error) -> SqlError {
    errors::storage_failed(format!("cannot {what} {}: {e}", path.display()))
}

/// Has a database ever been made here?
///
/// # Errors
/// The directory cannot be looked at.
pub fn has_database(env: &Env, dir: &Path) -> SqlResult<bool> {
    let manifests = dir.join("manifest");
    let is_there = env.fs.exists(&manifests);
    if !is_there.map_err(|e| cannot("look for", &manifests, &e))? {
        return Ok(false);
    }
    let names = env.fs.list(&manifests);
    let names = names.map_err(|e| cannot("list", &manifests, &e))?;
    Ok(names.iter().any(|name| name.ends_with(".manifest")))
}

/// Refuses a directory in which there is something, and no database.
pub(crate) fn refuse_foreign(env: &Env, dir: &Path) -> SqlResult<()> {
    if has_database(env, dir)?
        || !env
            .fs
            .exists(dir)
            .map_err(|e| cannot("look for", dir, &e))?
    {
        return Ok(());
    }
    let mut names = env.fs.list(dir).map_err(|e| cannot("list", dir, &e))?;
    names.retain(|name| {
        let is_harmless = name.starts_with('.')
            || OURS.contains(&name.as_str())
            || HARMLESS_SUFFIXES
                .iter()
                .any(|suffix| name.ends_with(suffix));
        !is_harmless
    });
    if names.is_empty() {
        return Ok(());
    }
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.truncate(NAMED);
    Err(errors::storage_failed(format!(
        "the data directory {} holds no database of Esker, but other files: {}{more}; nothing was changed. Give an empty \
             directory or one that Esker has made",
        dir.display(),
        names.join(", ")
    )))
}

/// The accounts; `None` if they are to be made. `mode` is `esker_force_recovery`.
pub(crate) fn accounts(
    env: &Env,
    dir: &Path,
    is_new: bool,
    mode: &str,
    root_password: Option<&str>,
) -> SqlResult<Option<Stored>> {
    let loaded = accounts::store::load(env, dir);
    let is_missing = matches!(loaded, Ok(None));
    if mode != NEW_ACCOUNTS {
        return match loaded {
            Ok(None) if !is_new => Err(no_accounts(dir, "it is missing")),
            Err(e) if e.code == accounts::store::DAMAGED => Err(no_accounts(dir, &e.message)),
            loaded => loaded,
        };
    }
    if let Ok(Some(stored)) = loaded {
        tracing::warn!("the accounts are whole: --force-recovery=new-accounts changes nothing");
        return Ok(Some(stored));
    }
    if root_password.is_none_or(str::is_empty) {
        let text = "--force-recovery=new-accounts makes root with the password in ESKER_ROOT_PASSWORD, and there is none";
        return Err(errors::storage_failed(text));
    }
    let (old, aside) = (dir.join("accounts"), dir.join(DAMAGED_ACCOUNTS));
    if !is_missing {
        let moved = env.fs.rename(&old, &aside);
        moved.map_err(|e| cannot("put aside", &old, &e))?;
        tracing::warn!("the damaged accounts are in {}", aside.display());
    }
    tracing::warn!("the only account is root@localhost now");
    Ok(None)
}

fn no_accounts(dir: &Path, what: &str) -> SqlError {
    errors::storage_failed(format!(
        "nobody knows who may log in: the file {} cannot be used ({what}). Bring it back from a copy, or start once with \
             `esker serve --force-recovery=new-accounts`: the only account then is root, with the password in ESKER_ROOT_PASSWORD",
        dir.join("accounts").display()
    ))
}

/// What a start needs beside the engine's files and does not find, or finds damaged: file and what is wrong.
pub fn check(env: &Env, dir: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let path = dir.join("accounts");
    match accounts::store::load(env, dir) {
        Ok(Some(_)) => {}
        Ok(None) => {
            let what = "the file is missing: nobody knows who may log in";
            found.push((path, what.to_owned()));
        }
        Err(e) => found.push((path, e.message)),
    }
    let mending = dir.join(MENDING);
    if env.fs.exists(&mending).unwrap_or(false) {
        let what = "a start that gave up a part of the log was interrupted: the next one makes the indexes anew";
        found.push((mending, what.to_owned()));
    }
    found
}

/// The names of the log's files: giving up a part of the log changes them.
pub(crate) fn log_files(env: &Env, dir: &Path) -> Vec<String> {
    env.fs.list(&dir.join("wal")).unwrap_or_default()
}

/// Notes that what comes may give up a part of the log.
pub(crate) fn begin_mending(env: &Env, dir: &Path) -> SqlResult<()> {
    if !has_database(env, dir)? {
        return Ok(());
    }
    let path = dir.join(MENDING);
    let made = env
        .fs
        .open(&path, OpenMode::CreateOrOpen)
        .and_then(|file| file.sync_all())
        .and_then(|()| env.fs.sync_dir(dir));
    made.map_err(|e| cannot("make", &path, &e))
}

/// Has a start that gave up a part of the log not been finished?
pub(crate) fn is_mending(env: &Env, dir: &Path) -> SqlResult<bool> {
    let path = dir.join(MENDING);
    env.fs
        .exists(&path)
        .map_err(|e| cannot("look for", &path, &e))
}

/// Everything agrees.
pub(crate) fn end_mending(env: &Env, dir: &Path) -> SqlResult<()> {
    let path = dir.join(MENDING);
    let removed = env.fs.remove_file(&path);
    removed
        .and_then(|()| env.fs.sync_dir(dir))
        .map_err(|e| cannot("remove", &path, &e))
}

/// Makes the indexes of tables anew whose trees may not agree: each tree was flushed up to a place of its own, and what
/// the log had behind the damage is in some of them only. The rows are those of the clustered tree, which by itself is
/// as it was at one moment. `ahead`: the trees that have more than the log; `None`: any. `replaced`: empty trees that
/// stand for missing ones.
pub(crate) fn mend(
    instance: &Arc<Instance>,
    ahead: Option<&[TreeId]>,
    replaced: &[TreeId],
) -> SqlResult<()> {
    let is_hurt = |table: &&Arc<TableDef>| {
        let has = |trees: &[TreeId]| table.indexes.iter().any(|i| trees.contains(&i.id));
        has(replaced) || (table.indexes.len() > 1 && ahead.is_none_or(has))
    };
    let snapshot = instance.catalog.snapshot().clone();
    let hurt: Vec<Arc<TableDef>> = snapshot.tables().filter(is_hurt).cloned().collect();
    if hurt.is_empty() {
        return Ok(());
    }
    tracing::warn!(
        "a part of the log was given up: making the indexes of {} tables anew",
        hurt.len()
    );
    let root = accounts::Account::root(Vec::new());
    let mut session = Session::new(instance.clone(), ClientInfo::inside(0, root));
    for table in hurt {
        if replaced.contains(&table.primary().id) {
            tracing::error!(
                "table {}.{} is empty: what was given up of the log said where its rows are",
                table.schema,
                table.name
            );
        }
        let (schema, name) = (quoted(&table.schema), quoted(&table.name));
        let statement = format!("ALTER TABLE {schema}.{name} FORCE");
        run(&mut session, &statement).map_err(|e| {
            let text = format!(
                "cannot make the indexes of {schema}.{name} anew: {}",
                e.message
            );
            SqlError::new(e.code, e.state, text)
        })?;
        tracing::info!("made the indexes of {schema}.{name} anew");
    }
    Ok(())
}

/// Runs a statement to its end on this thread. There are no other sessions for which it could wait.
fn run(session: &mut Session, statement: &str) -> SqlResult<()> {
    session.start(Request::Query(statement.as_bytes()));
    loop {
        match session.step(Mode::Thread) {
            Step::NeedThread => {}
            Step::Done(outcome) => {
                return match outcome.result {
                    OutcomeKind::Err(e) => Err(e),
                    OutcomeKind::Ok(_) | OutcomeKind::Rows(_) => Ok(()),
                };
            }
            Step::Wait(_) | Step::NeedFile(_) => {
                return Err(errors::internal("a start waits"));
            }
        }
    }
}
