//! CREATE, ALTER and DROP TABLESPACE: names that tables may give.
//!
//! Neighbours: `options` asks whether a table may be in the tablespace that it names. Why they are nothing but names is
//! in `docs/decisions/tablespaces.md`.
//! **Invariants**: a tablespace that a table names stays; its name is locked while it comes or goes, and while a table
//! gets it.

use std::sync::Arc;

use esker_sql_catalog::catalog::{
    EngineChoice, FILE_PER_TABLE, FIRST_TABLESPACE, PAGE_BYTES, SYSTEM_TABLESPACE, ShownOption,
    ShownOptions, StorageEngine, TableDef, TablespaceDef, engine_choice,
};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::MdlMode;
use esker_sql_syntax::ast::{
    TableOption, TablespaceAction, TablespaceOptions, TablespaceStatement,
};
use esker_types::json::{self, JsonRef};
use esker_types::names::check_length;
use esker_types::{Level, SqlError, SqlResult, errors};

use super::draft_finish::Built;
use super::names::TableName;
use super::options::{OptionsOf, check_autoextend};
use super::schema::refuse_under_lock_tables;
use super::{DdlCtx, DdlDone};

/// What InnoDB takes for FILE_BLOCK_SIZE.
const BLOCK_SIZES: &[u64] = &[1 << 10, 2 << 10, 4 << 10, 8 << 10, PAGE_BYTES];
/// Names that InnoDB has itself, beside all that begin with `innodb_`.
const RESERVED: &[&str] = &["mysql", SYSTEM_TABLESPACE, FILE_PER_TABLE, TEMPORARY];
const TEMPORARY: &str = "innodb_temporary";

/// Runs the statement.
///
/// # Errors
/// 1813, 3510, 3119, 3120, 3121, 3184, 3185, 3606, 3629, 3980, 1533, 4023, 4025, 1149, 1286, 1478.
pub(super) fn run(
    ctx: &mut DdlCtx<'_>,
    statement: &TablespaceStatement,
) -> Result<DdlDone, ExecError> {
    let (name, options) = (&*statement.name.text, &statement.options);
    if let Some(engine) = &options.engine {
        check_engine(engine, statement)?;
    }
    check_name(name)?;
    refuse_under_lock_tables(ctx)?;
    ctx.announce()?;
    ctx.lock_tablespace(name, MdlMode::Exclusive)?;
    match &statement.action {
        TablespaceAction::Create(file) => create(ctx, name, file.as_deref(), options),
        TablespaceAction::Rename(to) => rename(ctx, name, &to.text),
        TablespaceAction::Alter => alter(ctx, name, options),
        TablespaceAction::Drop => drop(ctx, name),
        TablespaceAction::AddDatafile(_) => {
            find(ctx, name)?;
            Err(not_altered(name).into())
        }
        TablespaceAction::DropDatafile(file) => {
            find(ctx, name)?;
            let file = String::from_utf8_lossy(file);
            let text = format!("Tablespace '{name}' does not have a file named '{file}'");
            Err(SqlError::new(3629, "HY000", text).into())
        }
    }
}

fn create(
    ctx: &mut DdlCtx<'_>,
    name: &str,
    file: Option<&[u8]>,
    options: &TablespaceOptions,
) -> Result<DdlDone, ExecError> {
    if ctx.catalog.tablespace(name).is_some() {
        return Err(exists(name).into());
    }
    let file = match file {
        Some(file) => checked_file(file)?,
        None => format!("{name}.ibd"),
    };
    let block_size = options.block_size.unwrap_or(PAGE_BYTES);
    if !BLOCK_SIZES.contains(&block_size) {
        let text = format!("InnoDB does not support FILE_BLOCK_SIZE={block_size}");
        return Err(errors::option_not_supported(text).into());
    }
    check_options(options)?;
    let attribute = attribute(ctx, options)?;
    let mut change = ctx.change()?;
    if change
        .snapshot()
        .tablespaces()
        .any(|other| same_file(&other.file, &file))
    {
        let text = format!("Duplicate file name for tablespace '{name}'");
        return Err(SqlError::new(3606, "HY000", text).into());
    }
    let last = change.snapshot().tablespaces().map(|other| other.id).max();
    change.put_tablespace(TablespaceDef {
        name: name.into(),
        id: last.map_or(FIRST_TABLESPACE, |last| last.saturating_add(1)),
        file: file.into(),
        block_size,
        autoextend_size: options.autoextend_size.unwrap_or(0),
        attribute,
    })?;
    done(change.commit()?)
}

fn alter(
    ctx: &mut DdlCtx<'_>,
    name: &str,
    options: &TablespaceOptions,
) -> Result<DdlDone, ExecError> {
    let old = find(ctx, name)?;
    check_options(options)?;
    let attribute = attribute(ctx, options)?;
    let changed = TablespaceDef {
        autoextend_size: options.autoextend_size.unwrap_or(old.autoextend_size),
        attribute: attribute.or_else(|| old.attribute.clone()),
        ..TablespaceDef::clone(&old)
    };
    let mut change = ctx.change()?;
    change.put_tablespace(changed)?;
    done(change.commit()?)
}

fn rename(ctx: &mut DdlCtx<'_>, name: &str, to: &str) -> Result<DdlDone, ExecError> {
    check_name(to)?;
    let old = find(ctx, name)?;
    ctx.lock_tablespace(to, MdlMode::Exclusive)?;
    if ctx.catalog.tablespace(to).is_some() {
        return Err(exists(to).into());
    }
    let inside = tables_of(ctx, name);
    let names: Vec<TableName> = inside
        .iter()
        .map(|table| TableName {
            schema: table.schema.to_string(),
            name: table.name.to_string(),
        })
        .collect();
    if !names.is_empty() {
        ctx.lock_exclusive(&names)?;
    }
    let mut change = ctx.change()?;
    for table in inside {
        let mut table = TableDef::clone(&table);
        table.shown_options.set(ShownOption::Tablespace, to);
        change.put_table(table)?;
    }
    change.drop_tablespace(name)?;
    change.put_tablespace(TablespaceDef {
        name: to.into(),
        ..TablespaceDef::clone(&old)
    })?;
    done(change.commit()?)
}

fn drop(ctx: &mut DdlCtx<'_>, name: &str) -> Result<DdlDone, ExecError> {
    find(ctx, name)?;
    if !tables_of(ctx, name).is_empty() {
        let text = format!("Tablespace `{name}` is not empty.");
        return Err(SqlError::new(3120, "HY000", text).into());
    }
    let mut change = ctx.change()?;
    change.drop_tablespace(name)?;
    done(change.commit()?)
}

fn done(seq: esker_engine::Seq) -> Result<DdlDone, ExecError> {
    Ok(DdlDone {
        seq,
        ..DdlDone::default()
    })
}

fn find(ctx: &DdlCtx<'_>, name: &str) -> SqlResult<Arc<TablespaceDef>> {
    let found = ctx.catalog.tablespace(name);
    found.ok_or_else(|| errors::no_such_tablespace(name))
}

/// Tables that name a tablespace, whose name is locked.
fn tables_of(ctx: &DdlCtx<'_>, name: &str) -> Vec<Arc<TableDef>> {
    let snapshot = ctx.catalog.snapshot();
    let is_inside = |t: &&Arc<TableDef>| t.shown_options.get(ShownOption::Tablespace) == Some(name);
    snapshot.tables().filter(is_inside).cloned().collect()
}

/// Locks the tablespaces that options of a table name against coming and going.
pub(super) fn lock_named<'a>(
    ctx: &mut DdlCtx<'_>,
    options: impl IntoIterator<Item = &'a TableOption>,
) -> Result<(), ExecError> {
    for option in options {
        if let TableOption::Other(option, name) = option
            && ShownOption::named(option) == Some(ShownOption::Tablespace)
            && is_general(name)
        {
            ctx.lock_tablespace(name, MdlMode::IntentionExclusive)?;
        }
    }
    Ok(())
}

/// Is the tablespace one that CREATE TABLESPACE makes?
pub(super) fn is_general(name: &str) -> bool {
    !RESERVED.contains(&name)
}

/// Does the table keep the name that TABLESPACE gives? A temporary one does not keep that of all of them.
///
/// # Errors
/// 3510, 1478.
pub(super) fn is_kept(ctx: &DdlCtx<'_>, table: OptionsOf<'_>, name: &str) -> SqlResult<bool> {
    let is_temporary = table.is_temporary();
    match name {
        TEMPORARY if is_temporary => {
            let text = "InnoDB: TABLESPACE=innodb_temporary option is ignored. All temporary tables are created in a \
                        session temporary tablespace. This option is deprecated and will be removed in a future \
                        release.";
            ctx.eval.warn(Level::Warning, 1478, text.to_owned());
            Ok(false)
        }
        TEMPORARY => {
            let text = "InnoDB: Tablespace `innodb_temporary` can only contain TEMPORARY tables.";
            Err(errors::option_not_supported(text))
        }
        FILE_PER_TABLE | SYSTEM_TABLESPACE => Ok(true),
        _ if !is_general(name) || ctx.catalog.tablespace(name).is_none() => {
            Err(errors::no_such_tablespace(name))
        }
        _ if is_temporary => Err(cannot_contain(name, "TEMPORARY tables.")),
        _ => Ok(true),
    }
}

/// 1478 for compressed rows, which are in tablespaces of their own.
pub(super) fn check_format(
    ctx: &DdlCtx<'_>,
    name: &str,
    format: &str,
    options: &ShownOptions,
) -> SqlResult<()> {
    let block_size = ctx.catalog.tablespace(name).map(|def| def.block_size);
    let holds_compressed = block_size.is_some_and(|size| size < PAGE_BYTES);
    let is_compressed = format == "COMPRESSED" || options.get(ShownOption::KeyBlockSize).is_some();
    match is_compressed && !holds_compressed {
        true => Err(cannot_contain(name, "a COMPRESSED table")),
        false => Ok(()),
    }
}

/// 1478 for a partitioned table.
pub(super) fn check_partitioned(built: &Built, options: &ShownOptions) -> SqlResult<()> {
    let name = options.get(ShownOption::Tablespace);
    match built.partitioning.is_some() && name.is_some_and(|name| name != FILE_PER_TABLE) {
        true => {
            let text = "InnoDB : A partitioned table is not allowed in a shared tablespace.";
            Err(errors::option_not_supported(text))
        }
        false => Ok(()),
    }
}

fn cannot_contain(name: &str, what: &str) -> SqlError {
    let text = format!("InnoDB: Tablespace `{name}` cannot contain {what}");
    errors::option_not_supported(text)
}

/// 1286, or 1478 for an engine without tablespaces; 1149 where MySQL takes none any more.
fn check_engine(name: &str, statement: &TablespaceStatement) -> SqlResult<()> {
    if !matches!(statement.action, TablespaceAction::Create(_)) {
        return Err(errors::syntax_of_old());
    }
    let engine = match engine_choice(name) {
        EngineChoice::Own(StorageEngine::InnoDb) => return Ok(()),
        EngineChoice::Own(engine) => engine.name(),
        EngineChoice::Substituted(name) => name,
        EngineChoice::Unknown => return Err(errors::unknown_engine(name)),
    };
    let text = format!(
        "Table storage engine '{engine}' does not support the create option 'CREATE TABLESPACE'"
    );
    Err(errors::option_not_supported(text))
}

/// 1059, 3119
fn check_name(name: &str) -> SqlResult<()> {
    check_length(name)?;
    let text = if RESERVED.contains(&name) {
        format!("InnoDB: `{name}` is a reserved tablespace name.")
    } else if name.starts_with("innodb_") {
        "InnoDB: Tablespace names starting with `innodb_` are reserved.".to_owned()
    } else if name.contains('/') {
        "InnoDB: A general tablespace name cannot contain '/'.".to_owned()
    } else {
        return Ok(());
    };
    Err(SqlError::new(3119, "42000", text))
}

fn same_file(one: &str, other: &str) -> bool {
    one.trim_start_matches("./") == other.trim_start_matches("./")
}

/// The file as it is told of: 3121.
fn checked_file(file: &[u8]) -> SqlResult<String> {
    let file = String::from_utf8_lossy(file);
    let name = file.strip_prefix("./").unwrap_or(&file);
    let text = match (name.ends_with(".ibd"), name.contains('/')) {
        (false, _) => "The ADD DATAFILE filepath must end with '.ibd'.",
        (true, true) => "The directory does not exist or is incorrect.",
        (true, false) => return Ok(file.into_owned()),
    };
    Err(SqlError::new(3121, "HY000", text))
}

/// 4023, 4025, 3185.
fn check_options(options: &TablespaceOptions) -> SqlResult<()> {
    if let Some(bytes) = options.autoextend_size {
        check_autoextend(&bytes.to_string())?;
    }
    match &options.encryption {
        None => Ok(()),
        Some(value) if value.eq_ignore_ascii_case(b"N") => Ok(()),
        Some(value) if value.eq_ignore_ascii_case(b"Y") => Err(errors::no_master_key()),
        Some(_) => Err(errors::invalid_encryption()),
    }
}

/// ENGINE_ATTRIBUTE as it is shown; 3980 if it is no document.
fn attribute(ctx: &DdlCtx<'_>, options: &TablespaceOptions) -> SqlResult<Option<Box<str>>> {
    let Some(text) = &options.attribute else {
        return Ok(None);
    };
    let document = json::parse(text, ctx.eval.session).map_err(|fault| fault.in_attribute(text))?;
    let mut shown = Vec::new();
    json::print(JsonRef::new(&json::encode(&document)?), &mut shown);
    Ok(Some(String::from_utf8_lossy(&shown).into()))
}

/// 1813
fn exists(name: &str) -> SqlError {
    SqlError::new(1813, "HY000", format!("Tablespace '{name}' exists."))
}

/// 1533
fn not_altered(name: &str) -> SqlError {
    SqlError::new(1533, "HY000", format!("Failed to alter: TABLESPACE {name}"))
}
