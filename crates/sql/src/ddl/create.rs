//! CREATE TABLE.
//!
//! Neighbours: `draft` checks the definition, `catalog` makes it known, `alter` shares the assembly.
//! **Invariant**: a table that exists already is never touched, whatever the statement says.

use std::sync::Arc;

use esker_sql_catalog::catalog::{
    ColumnDef, HIDDEN_INDEX_NAME, IndexDef, NewTrees, ShownOption, ShownOptions, StorageEngine,
    TableDef, TableId, TableRuntime, VisibleFrom,
};
use esker_sql_catalog::codec::{ElementCodec, KeyCodec, LayoutVersion, RowLayout, WordCodec};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::MdlMode;
use esker_sql_syntax::ast::{ColumnPosition, CreateTable, ObjectName, TableOption};
use esker_types::collation::Collation;
use esker_types::{SqlError, SqlResult, errors};

use super::draft::Draft;
use super::draft_finish::{Built, BuiltIndex};
use super::foreign::{self, Shape, Wanted};
use super::innodb_names;
use super::names::{self, TableName, resolve};
use super::options::{Options, OptionsOf, choose_engine};
use super::{DdlCtx, DdlDone, checks, generated_key, partitions, tablespace};
use crate::dml::validate;

pub(super) fn check_supported(create: &CreateTable) -> SqlResult<()> {
    if create.or_replace {
        return Err(SqlError::not_supported("CREATE OR REPLACE TABLE"));
    }
    match create.temporary && create.partition_by.is_some() {
        true => Err(errors::partitioned_temporary()),
        false => Ok(()),
    }
}

/// The partitioning that the statement asks for.
pub(super) fn partition(
    ctx: &DdlCtx<'_>,
    (create, name): (&CreateTable, &TableName),
    built: &mut Built,
    engine: Option<StorageEngine>,
) -> SqlResult<()> {
    let Some(by) = &create.partition_by else {
        return Ok(());
    };
    let table = partitions::Table {
        eval: ctx.eval,
        schema: &name.schema,
        name: &name.name,
        built,
        engine: engine.unwrap_or_default(),
        has_engine: create
            .options
            .iter()
            .any(|o| matches!(o, TableOption::Engine(_))),
    };
    built.partitioning = Some(partitions::define(&table, by)?);
    Ok(())
}

/// The draft of a table that is to be like another.
fn copied(
    source: &TableDef,
    create: &CreateTable,
    name: &TableName,
) -> SqlResult<(Draft, Options)> {
    if create.temporary && source.partitioning.is_some() {
        return Err(errors::partitioned_temporary());
    }
    let mut draft = Draft::of(source);
    draft.become_copy(&name.name);
    Ok((draft, options_of(source)))
}

pub(super) fn create_table(
    ctx: &mut DdlCtx<'_>,
    create: &CreateTable,
) -> Result<DdlDone, ExecError> {
    let name = resolve(&create.name, ctx.database)?;
    names::check_any_table(&name, create.temporary, ctx.user)?;
    check_supported(create)?;
    // As in MySQL the table that LIKE names comes first, even if there is a table of the new one's name.
    let like = create.like.as_ref();
    let source = like.map(|like| source_of(ctx, like, &name)).transpose()?;
    if !claim(ctx, create, &name)? {
        return already_exists(ctx, create, &name);
    }
    let around = names::collation_around(ctx.catalog, &name, create.temporary)?;
    let mut inherited = None;
    let (mut draft, options) = match source {
        Some(source) => {
            inherited.clone_from(&source.partitioning);
            copied(&source, create, &name)?
        }
        None => drawn(ctx, create, &name, around)?,
    };
    let is_keyed = draft.generate_key(ctx, create, options.engine)?;
    let collation = draft.collation;
    let next_column_id = draft.next_column_id;
    draft.check_fulltext(create.temporary, options.engine.unwrap_or_default())?;
    draft.cut_key_parts(ctx, options.row_format.as_deref().unwrap_or_default(), true)?;
    let mut built = draft.finish()?;
    built.partitioning = inherited;
    partition(ctx, (create, &name), &mut built, options.engine)?;
    tablespace::check_partitioned(&built, &options.shown_over(&ShownOptions::default()))?;
    innodb_names::check(&built, None)?;
    ctx.warn_of_indexes(&name, &built);
    if ctx.require_primary_key && !built.has_primary() && !built.has_row_key() {
        return Err(without_primary_key().into());
    }
    let kept = match create.like.is_some() {
        true => built.checks.len(),
        false => 0,
    };
    validate(ctx.eval, &name.name, &built.columns, &built.checks, kept)?;
    check_constraints(ctx, create, &name, &built)?;
    if !create.temporary {
        foreign::spell_parents(ctx, &name, &mut built);
        foreign::check_cascades(&name, &built)?;
        foreign::check_new_keys(ctx, (&name, &name.schema), &built)?;
        foreign::check_own_columns(ctx, &name, &built)?;
        foreign::check_as_parent(ctx, &ctx.catalog.snapshot(), &Shape::built(&name, &built))?;
    }
    let mut trees = NewTrees::new(ctx.catalog.engine());
    let meta = Meta {
        collation,
        next_column_id,
        options: &options,
    };
    let mut def = assemble(ctx, &mut trees, &name, built, meta)?;
    if create.temporary {
        begin_numbers(&mut def, &options);
        ctx.temporary.borrow_mut().add(def, trees)?;
        return Ok(DdlDone::default());
    }
    if is_keyed {
        generated_key::log_definition(ctx, create, &def)?;
    }
    publish(ctx, def, trees, options.auto_increment)
}

/// The table that LIKE names, locked.
///
/// # Errors
/// 1066: it is the new one.
fn source_of(
    ctx: &mut DdlCtx<'_>,
    like: &ObjectName,
    new: &TableName,
) -> Result<Arc<TableDef>, ExecError> {
    let source = resolve(like, ctx.database)?;
    if source == *new {
        return Err(errors::not_unique_table(&new.name).into());
    }
    names::check_source(&source)?;
    if ctx.temporary(&source).is_none() {
        ctx.lock_table(&source, MdlMode::Shared)?;
    }
    let source = ctx.existing(&source)?;
    if let Some(space) = source.shown_options.get(ShownOption::Tablespace) {
        ctx.lock_tablespace(space, MdlMode::IntentionExclusive)?;
    }
    Ok(source)
}

/// The options that a copy of a table has.
fn options_of(source: &TableDef) -> Options {
    Options {
        comment: Some(source.comment.clone()),
        row_format: Some(source.row_format.clone()),
        engine: Some(source.engine),
        shown: source.shown_options.all(),
        ..Options::default()
    }
}

/// Puts the table into the catalog; `first`: its AUTO_INCREMENT option.
fn publish(
    ctx: &mut DdlCtx<'_>,
    mut def: TableDef,
    trees: NewTrees,
    first: Option<u64>,
) -> Result<DdlDone, ExecError> {
    let mut change = ctx.change()?;
    change.adopt(trees);
    if let Some(first) = first.filter(|v| *v > 1)
        && def.auto_column.is_some()
    {
        def.runtime = Arc::new(TableRuntime::new(first - 1));
        change.bump_counter(def.counter_tree(), first - 1);
    }
    change.put_table(def)?;
    let seq = change.commit()?;
    Ok(DdlDone {
        seq,
        ..DdlDone::default()
    })
}

/// [`checks::check_names`] of a table that is made.
pub(super) fn check_constraints(
    ctx: &DdlCtx<'_>,
    create: &CreateTable,
    name: &TableName,
    built: &Built,
) -> SqlResult<()> {
    if create.temporary {
        return Ok(());
    }
    let snapshot = ctx.catalog.snapshot();
    checks::check_names(&snapshot, (&name.schema, None), built.checks.iter())
}

/// Makes sure that nobody else makes the table; false if there is one of that name.
pub(super) fn claim(
    ctx: &mut DdlCtx<'_>,
    create: &CreateTable,
    name: &TableName,
) -> Result<bool, ExecError> {
    if !create.temporary {
        return lock_new(ctx, name, create);
    }
    names::collation_around(ctx.catalog, name, true)?;
    if !create.foreign_keys.is_empty() {
        return Err(foreign::cannot_add().into());
    }
    Ok(ctx.temporary(name).is_none())
}

/// AUTO_INCREMENT = n of a temporary table, whose counter nobody needs after a restart.
pub(super) fn begin_numbers(def: &mut TableDef, options: &Options) {
    if let Some(first) = options.auto_increment.filter(|v| *v > 1)
        && def.auto_column.is_some()
    {
        def.runtime = Arc::new(TableRuntime::new(first - 1));
    }
}

/// Locks the name of a new table, and its parents; false if there is a table or view of that name.
fn lock_new(
    ctx: &mut DdlCtx<'_>,
    name: &TableName,
    create: &CreateTable,
) -> Result<bool, ExecError> {
    if ctx.locks.has_explicit() {
        return match ctx.catalog.snapshot().has_name(&name.schema, &name.name) {
            true => Ok(false),
            false => Err(errors::table_not_locked(&name.name).into()),
        };
    }
    ctx.announce()?;
    ctx.lock_schema(&name.schema, MdlMode::IntentionExclusive)?;
    tablespace::lock_named(ctx, &create.options)?;
    if ctx.catalog.schema(&name.schema).is_none() {
        return Err(errors::unknown_database(&name.schema).into());
    }
    // A table in use must not hold up CREATE TABLE IF NOT EXISTS.
    if !ctx.catalog.snapshot().has_name(&name.schema, &name.name) {
        ctx.lock_all(&[], &wanted(name, create))?;
    }
    Ok(!ctx.catalog.snapshot().has_name(&name.schema, &name.name))
}

/// The table and its parents: each is told who refers to it.
fn wanted(name: &TableName, create: &CreateTable) -> Wanted {
    let mut wanted = Wanted::new();
    let (schema, exclusive) = (&*name.schema, MdlMode::Exclusive);
    foreign::want(&mut wanted, schema, &name.name, exclusive);
    for key in &create.foreign_keys {
        let of_parent = key.table.schema.as_ref().map_or(schema, |s| &*s.text);
        foreign::want(&mut wanted, of_parent, &key.table.name.text, exclusive);
    }
    wanted
}

/// sql_require_primary_key.
pub(super) fn without_primary_key() -> SqlError {
    let text = "Unable to create or change a table without a primary key, when the system variable \
                'sql_require_primary_key' is set. Add a primary key to the table or unset this variable to avoid \
                this message. Note that tables without a primary key can cause performance problems in row-based \
                replication, so please consult your DBA before changing this setting.";
    SqlError::new(3750, "HY000", text)
}

pub(super) fn already_exists(
    ctx: &DdlCtx<'_>,
    create: &CreateTable,
    name: &TableName,
) -> Result<DdlDone, ExecError> {
    let exists = errors::table_exists(&name.name);
    if !create.if_not_exists {
        return Err(exists.into());
    }
    ctx.note(exists.code, exists.message);
    Ok(DdlDone::default())
}

/// The draft of the statement's own definition.
pub(super) fn drawn(
    ctx: &DdlCtx<'_>,
    create: &CreateTable,
    name: &TableName,
    default: Collation,
) -> SqlResult<(Draft, Options)> {
    let table = OptionsOf::New {
        name: &name.name,
        temporary: create.temporary,
    };
    let mut options = Options::read(ctx, table, &create.options)?;
    if options.engine.is_none() {
        let default = match create.temporary {
            true => &ctx.engines.default_temporary,
            false => &ctx.engines.default,
        };
        options.engine = choose_engine(ctx, table, default)?;
    }
    let mut draft = Draft::new(&name.name, options.collation(default)?);
    let inline = create.columns.iter().flat_map(|c| &c.checks);
    let mut written: Vec<_> = inline.chain(&create.checks).collect();
    written.sort_by_key(|check| check.at);
    draft.check_forms(written.into_iter())?;
    for column in &create.columns {
        draft.add_column(ctx.eval, column, &ColumnPosition::Unchanged)?;
    }
    let mut keys = create.foreign_keys.iter().peekable();
    for (at, index) in create.indexes.iter().enumerate() {
        while let Some(key) = keys.next_if(|key| key.follows <= at) {
            draft.add_foreign_key(key, &name.schema)?;
        }
        draft.add_index(ctx.eval, index, ctx.rules_of(index)?)?;
    }
    for key in keys {
        draft.add_foreign_key(key, &name.schema)?;
    }
    ctx.fit_to_engine(&mut draft, options.engine.unwrap_or_default())?;
    if options.is_ascending_only(None) {
        draft.check_ascending()?;
    }
    for check in &create.checks {
        draft.add_check(check, None)?;
    }
    let inline = create.columns.iter().flat_map(|c| &c.checks);
    draft.order_checks(inline.chain(&create.checks).map(|c| c.at));
    Ok((draft, options))
}

/// What a new definition needs besides its parts.
pub(super) struct Meta<'a> {
    pub(super) collation: Collation,
    pub(super) next_column_id: u32,
    pub(super) options: &'a Options,
}

/// A definition with new trees for a table that does not exist yet.
pub(super) fn assemble(
    ctx: &DdlCtx<'_>,
    trees: &mut NewTrees,
    name: &TableName,
    built: Built,
    meta: Meta<'_>,
) -> SqlResult<TableDef> {
    let indexes = new_indexes(trees, &built.columns, &built.indexes)?;
    let layout = RowLayout::new(&built.columns, vec![LayoutVersion::of(&built.columns)]);
    Ok(TableDef {
        id: TableId(indexes[0].id.0),
        schema: name.schema.as_str().into(),
        name: name.name.as_str().into(),
        auto_column: built.columns.iter().position(|c| c.auto_increment),
        columns: built.columns,
        indexes,
        checks: built.checks,
        foreign_keys: built.foreign_keys,
        referenced_by: Vec::new(),
        triggers: Vec::new(),
        partitioning: built.partitioning,
        layout,
        collation: meta.collation,
        temporary: false,
        engine: meta.options.engine.unwrap_or_default(),
        comment: meta.options.comment.clone().unwrap_or_default(),
        row_format: meta.options.row_format.clone().unwrap_or_default(),
        shown_options: meta.options.shown_over(&ShownOptions::default()),
        create_time_micros: ctx.eval.now_micros,
        histograms: Vec::new(),
        next_column_id: meta.next_column_id,
        version: 0,
        visible_from: VisibleFrom::fresh(),
        mdl: ctx.catalog.locks().table(&name.schema, &name.name),
        runtime: Arc::new(TableRuntime::new(0)),
    })
}

/// New, empty trees for all indexes, the clustered one first.
pub(super) fn new_indexes(
    trees: &mut NewTrees,
    columns: &[ColumnDef],
    built: &[BuiltIndex],
) -> SqlResult<Vec<IndexDef>> {
    let mut indexes = Vec::with_capacity(built.len() + 1);
    if !built.first().is_some_and(|i| i.primary) {
        indexes.push(hidden_index(trees)?);
    }
    for index in built {
        indexes.push(new_index(trees, columns, index)?);
    }
    Ok(indexes)
}

fn hidden_index(trees: &mut NewTrees) -> SqlResult<IndexDef> {
    let tree = trees.create()?;
    Ok(IndexDef {
        id: tree.id(),
        name: HIDDEN_INDEX_NAME.into(),
        unique: true,
        primary: true,
        hidden: true,
        invisible: false,
        generated: false,
        parts: Vec::new(),
        comment: Box::default(),
        using: None,
        codec: KeyCodec::default(),
        words: None,
        elements: None,
        visible_from: VisibleFrom::default(),
        accesses: Arc::default(),
        tree,
    })
}

/// How a full-text index has its entries.
pub(super) fn word_codec(columns: &[ColumnDef], index: &BuiltIndex) -> Option<WordCodec> {
    let codec = |rules| WordCodec::new(columns, &index.parts, rules);
    index.fulltext.clone().map(codec)
}

/// An index with a new tree.
pub(super) fn new_index(
    trees: &mut NewTrees,
    columns: &[ColumnDef],
    index: &BuiltIndex,
) -> SqlResult<IndexDef> {
    let tree = trees.create()?;
    Ok(IndexDef {
        id: tree.id(),
        name: index.name.clone(),
        unique: index.unique,
        primary: index.primary,
        hidden: false,
        invisible: index.invisible,
        generated: index.generated,
        codec: KeyCodec::new(columns, &index.parts, index.unique, index.primary),
        words: word_codec(columns, index),
        elements: ElementCodec::new(columns, &index.parts, index.unique),
        parts: index.parts.clone(),
        comment: index.comment.clone(),
        using: index.using.clone(),
        visible_from: VisibleFrom::default(),
        accesses: Arc::default(),
        tree,
    })
}
