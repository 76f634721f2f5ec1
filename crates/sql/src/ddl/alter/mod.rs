//! ALTER TABLE, CREATE INDEX and DROP INDEX.
//!
//! In flow order: `edit` (the actions change a draft) · `plan` (what the change costs: definition
//! only, new indexes, or a copy of the table) · here, doing it.
//! Neighbours: `fill` copies rows, `draft` checks the result.
//!
//! **Invariants**
//! - Everything happens under the table's exclusive lock: no row changes meanwhile.
//! - New trees are filled before the catalog change begins; only that change makes them the table's,
//!   so a crash or an error leaves the table as it was.

mod edit;
mod plan;

use std::sync::Arc;

use esker_sql_catalog::catalog::{
    ColumnDef, IndexDef, NewTrees, StorageEngine, TableDef, TableRuntime, VisibleFrom,
    no_such_table, same_name,
};
use esker_sql_catalog::codec::{KeyCodec, LayoutVersion, MAX_LAYOUT_VERSIONS, RowLayout};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::MdlMode;
use esker_sql_syntax::ast::{
    AlterAction, AlterTable, CreateIndex, DdlOptions, DropIndex, ObjectName,
};
use esker_types::{SqlError, SqlResult};

use super::create::{self, EngineFor, Options};
use super::draft::Built;
use super::foreign::{self, Before, Shape, Wanted};
use super::names::{self, TableName, resolve};
use super::{DdlCtx, DdlDone, fill, table};
use crate::dml::validate;
pub(super) use edit::AlterContext;
use edit::Edit;
use plan::Plan;

pub(super) fn alter_table(ctx: &mut DdlCtx<'_>, alter: &AlterTable) -> Result<DdlDone, ExecError> {
    if alter.ignore {
        return Err(SqlError::not_supported("ALTER IGNORE TABLE").into());
    }
    let name = resolve(&alter.name, ctx.database)?;
    let Some(to) = rename_target(ctx, &alter.actions)? else {
        return run(
            ctx,
            &name,
            &name,
            &alter.actions,
            &alter.options,
            alter.if_exists,
        );
    };
    run(
        ctx,
        &name,
        &to,
        &alter.actions,
        &alter.options,
        alter.if_exists,
    )
}

pub(super) fn create_index(
    ctx: &mut DdlCtx<'_>,
    create: &CreateIndex,
) -> Result<DdlDone, ExecError> {
    let name = resolve(&create.table, ctx.database)?;
    let mut actions = Vec::with_capacity(2);
    if create.or_replace
        && let Some(name) = &create.index.name
    {
        actions.push(AlterAction::DropIndex {
            name: name.clone(),
            if_exists: true,
        });
    }
    actions.push(AlterAction::AddIndex(create.index.clone()));
    run(ctx, &name, &name, &actions, &create.options, false)
}

pub(super) fn drop_index(ctx: &mut DdlCtx<'_>, drop: &DropIndex) -> Result<DdlDone, ExecError> {
    let name = resolve(&drop.table, ctx.database)?;
    let action = AlterAction::DropIndex {
        name: drop.name.clone(),
        if_exists: drop.if_exists,
    };
    run(ctx, &name, &name, &[action], &drop.options, false)
}

/// The name that the last RENAME TO asks for.
fn rename_target(ctx: &DdlCtx<'_>, actions: &[AlterAction]) -> SqlResult<Option<TableName>> {
    let target = actions.iter().rev().find_map(|a| match a {
        AlterAction::RenameTo(name) => Some(name),
        _ => None,
    });
    target
        .map(|name: &ObjectName| resolve(name, ctx.database))
        .transpose()
}

fn run(
    ctx: &mut DdlCtx<'_>,
    name: &TableName,
    to: &TableName,
    actions: &[AlterAction],
    options: &DdlOptions,
    if_exists: bool,
) -> Result<DdlDone, ExecError> {
    names::check_not_system(&name.schema, ctx.user)?;
    names::check_not_system(&to.schema, ctx.user)?;
    let exists =
        ctx.temporary(name).is_some() || ctx.catalog.snapshot().has_name(&name.schema, &name.name);
    if !exists && if_exists {
        ctx.note(1146, no_such_table(&name.schema, &name.name).message);
        return Ok(DdlDone::default());
    }
    let old = lock_old(ctx, name, to, actions)?;
    if name != to && ctx.catalog.schema(&to.schema).is_none() {
        return Err(esker_sql_catalog::catalog::unknown_database(&to.schema).into());
    }
    let table_options = actions.iter().filter_map(|a| match a {
        AlterAction::Option(option) => Some(option),
        _ => None,
    });
    let table_options = Options::read(ctx, EngineFor::Existing(&name.name), table_options)?;
    let mut edit = Edit::new(ctx, &old);
    edit.table_collation(&table_options)?;
    for action in actions {
        edit.apply(action)?;
    }
    edit.check_dependents()?;
    if edit.draft.columns.is_empty() {
        let text = "You can't delete all columns with ALTER TABLE; use DROP TABLE instead";
        return Err(SqlError::new(1090, "42000", text).into());
    }
    let only_names = actions.iter().all(|a| {
        matches!(
            a,
            AlterAction::RenameTo(_) | AlterAction::DisableKeys | AlterAction::EnableKeys
        )
    });
    let context = edit.context.clone();
    let next_column_id = edit.draft.next_column_id;
    let collation = edit.draft.collation;
    let engine = table_options.engine.unwrap_or(old.engine);
    foreign::check_engine(&old, engine)?;
    if engine == StorageEngine::Memory {
        edit.draft.forget_new_keys();
    }
    edit.draft.check_dropped_columns(&old)?;
    let mut built = edit.draft.finish()?;
    validate(ctx.eval, &name.name, &built.columns, &built.checks)?;
    let children = keep_foreign_keys(ctx, (name, to), &old, &mut built)?;
    refuse_unchecked(ctx, options, &built)?;
    // A unique key is not enough here, unlike in CREATE TABLE: as in MySQL.
    if ctx.require_primary_key && !only_names && !built.has_primary() {
        return Err(super::create::without_primary_key().into());
    }
    let plan = plan::plan(&old, &built, &context);
    check_algorithm(options, plan)?;
    let altered = Altered {
        old: &old,
        built,
        collation,
        next_column_id,
        options: &table_options,
    };
    let done = altered.make(ctx, plan, &context)?;
    let mut done = publish(ctx, name, to, &old, done, children)?;
    // MySQL counts rows only where it has looked at the table's inside.
    if only_names {
        done.info.clear();
    }
    Ok(done)
}

/// The table, locked with the name that it gets and what foreign keys tie to it.
fn lock_old(
    ctx: &mut DdlCtx<'_>,
    name: &TableName,
    to: &TableName,
    actions: &[AlterAction],
) -> Result<Arc<TableDef>, ExecError> {
    let mut old = ctx.existing(name)?;
    if !old.temporary {
        let both = [name.clone(), to.clone()];
        let own = if name == to { &both[..1] } else { &both[..] };
        foreign::lock_related(ctx, own, &|ctx| to_lock(ctx, own, actions))?;
        old = ctx.existing(name)?;
    }
    let is_taken = match old.temporary {
        true => ctx.temporary(to).is_some(),
        false => ctx.catalog.snapshot().has_name(&to.schema, &to.name),
    };
    if name != to && is_taken {
        let text = format!("Table '{}' already exists", to.name);
        return Err(SqlError::new(1050, "42S01", text).into());
    }
    Ok(old)
}

/// The table, and those that foreign keys tie to it: exclusively if their definitions change with it.
fn to_lock(ctx: &DdlCtx<'_>, own: &[TableName], actions: &[AlterAction]) -> Wanted {
    let mut wanted = Wanted::new();
    let name = &own[0];
    for own in own {
        foreign::want(&mut wanted, &own.schema, &own.name, MdlMode::Exclusive);
    }
    let (mut keys_change, mut names_change) = (own.len() > 1, own.len() > 1);
    for action in actions {
        match action {
            AlterAction::AddForeignKey(key) => {
                keys_change = true;
                let schema = key.table.schema.as_ref();
                let schema = schema.map_or(&*name.schema, |s| &*s.text);
                let parent = &key.table.name.text;
                foreign::want(&mut wanted, schema, parent, MdlMode::Exclusive);
            }
            AlterAction::DropForeignKey(_) | AlterAction::DropConstraint(_) => keys_change = true,
            AlterAction::RenameColumn { .. } | AlterAction::ChangeColumn { .. } => {
                names_change = true;
            }
            _ => {}
        }
    }
    let mode = |changes| match changes {
        true => MdlMode::Exclusive,
        false => MdlMode::Shared,
    };
    if let Some(def) = ctx.catalog.resolve(&name.schema, &name.name) {
        foreign::want_parents(&mut wanted, &def, mode(keys_change));
        foreign::want_children(&mut wanted, &def, mode(names_change));
    }
    wanted
}

/// Checks the foreign keys around a table as it will be, and lets them follow new names of columns. Gives children
/// whose definitions change with that.
fn keep_foreign_keys(
    ctx: &DdlCtx<'_>,
    (name, to): (&TableName, &TableName),
    old: &TableDef,
    built: &mut Built,
) -> SqlResult<Vec<TableDef>> {
    if old.temporary {
        return match built.new_keys.is_empty() {
            true => Ok(Vec::new()),
            false => Err(foreign::cannot_add()),
        };
    }
    foreign::check_own_columns(ctx, name, built)?;
    let before = Before { old, name, built };
    before.check_own_keys(ctx)?;
    before.check_children(ctx)?;
    foreign::check_new_keys(ctx, name, built)?;
    if name != to {
        foreign::check_as_parent(ctx, &Shape::built(to, built))?;
    }
    let children = before.renamed_children(ctx);
    let mut keys = built.foreign_keys.clone();
    before.rename_own(&mut keys);
    built.foreign_keys = keys;
    Ok(children)
}

/// 1846: rows are checked against new foreign keys only where the table is copied.
fn refuse_unchecked(ctx: &DdlCtx<'_>, options: &DdlOptions, built: &Built) -> SqlResult<()> {
    match options.algorithm.as_deref() {
        Some(asked @ ("INPLACE" | "INSTANT"))
            if ctx.foreign_key_checks && !built.new_keys.is_empty() =>
        {
            let text = format!(
                "ALGORITHM={asked} is not supported. Reason: Adding foreign keys needs foreign_key_checks=OFF. Try \
                 ALGORITHM=COPY."
            );
            Err(SqlError::new(1846, "0A000", text))
        }
        _ => Ok(()),
    }
}

/// Refuses an ALGORITHM or LOCK that asks for more than the change can give.
fn check_algorithm(options: &DdlOptions, plan: Plan) -> SqlResult<()> {
    let refuse = |what: &str, instead: &str| {
        let text = format!("{what} is not supported for this operation. Try {instead}.");
        Err(SqlError::new(1845, "0A000", text))
    };
    let instant = plan == Plan::DefinitionOnly;
    match options.algorithm.as_deref() {
        Some("INSTANT") if !instant => {
            return refuse("ALGORITHM=INSTANT", "ALGORITHM=COPY/INPLACE");
        }
        Some("INPLACE") if plan == Plan::Copy => {
            return refuse("ALGORITHM=INPLACE", "ALGORITHM=COPY");
        }
        _ => {}
    }
    match options.lock.as_deref() {
        Some("NONE") if !instant => refuse("LOCK=NONE", "LOCK=EXCLUSIVE"),
        Some("SHARED") if !instant => refuse("LOCK=SHARED", "LOCK=EXCLUSIVE"),
        _ => Ok(()),
    }
}

/// A table after its draft was finished.
struct Altered<'a> {
    old: &'a Arc<TableDef>,
    built: Built,
    collation: esker_types::collation::Collation,
    next_column_id: u32,
    options: &'a Options,
}

/// A definition with its trees filled, ready to be published.
struct Made {
    def: TableDef,
    trees: NewTrees,
    /// Rows copied.
    rows: u64,
    /// The counter to persist with the change.
    counter: Option<u64>,
}

impl Altered<'_> {
    fn make(self, ctx: &DdlCtx<'_>, plan: Plan, context: &AlterContext) -> SqlResult<Made> {
        let added: Vec<&ColumnDef> = self
            .built
            .columns
            .iter()
            .filter(|c| context.added.contains(&c.id))
            .collect();
        fill::refuse_zero_dates(ctx, self.old, &added)?;
        let mut trees = NewTrees::new(ctx.catalog.engine());
        let copy = plan == Plan::Copy;
        let mut def = match copy {
            true => self.copied(&mut trees)?,
            false => self.edited(ctx, &mut trees, context)?,
        };
        let rows = if copy {
            fill::copy_table(ctx, self.old, &def, context)?
        } else {
            let fresh: Vec<usize> = (1..def.indexes.len())
                .filter(|&i| def.indexes[i].visible_from.is_fresh())
                .collect();
            fill::check_rows(ctx, &def, &context.new_checks)?;
            fill::fill_indexes(ctx, &def, &fresh)?;
            0
        };
        let checked = match ctx.foreign_key_checks {
            true => fill::check_foreign_keys(ctx, &def, &self.built.new_keys)?,
            false => 0,
        };
        let rows = rows.max(checked);
        let counter = self.counter(ctx, &mut def, copy)?;
        Ok(Made {
            def,
            trees,
            rows,
            counter,
        })
    }

    /// What every way of altering has in common.
    fn common(
        &self,
        columns: Vec<ColumnDef>,
        indexes: Vec<IndexDef>,
        layout: RowLayout,
    ) -> TableDef {
        let options = self.options;
        TableDef {
            auto_column: columns.iter().position(|c| c.auto_increment),
            columns,
            indexes,
            layout,
            checks: self.built.checks.clone(),
            foreign_keys: self.built.foreign_keys.clone(),
            collation: self.collation,
            engine: options.engine.unwrap_or(self.old.engine),
            comment: options
                .comment
                .clone()
                .unwrap_or_else(|| self.old.comment.clone()),
            row_format: options
                .row_format
                .clone()
                .unwrap_or_else(|| self.old.row_format.clone()),
            next_column_id: self.next_column_id,
            ..TableDef::clone(self.old)
        }
    }

    /// The table with new trees for everything.
    fn copied(&self, trees: &mut NewTrees) -> SqlResult<TableDef> {
        let mut columns = self.built.columns.clone();
        columns.iter_mut().for_each(|c| c.instant_default = None);
        let indexes = create::new_indexes(trees, &columns, &self.built.indexes)?;
        let layout = RowLayout::new(&columns, vec![LayoutVersion::of(&columns)]);
        let mut def = self.common(columns, indexes, layout);
        def.visible_from = VisibleFrom::fresh();
        def.runtime = Arc::new(TableRuntime::new(self.old.runtime.last_auto()));
        Ok(def)
    }

    /// The table with its rows where they are, and new trees for new indexes only.
    fn edited(
        &self,
        ctx: &DdlCtx<'_>,
        trees: &mut NewTrees,
        context: &AlterContext,
    ) -> SqlResult<TableDef> {
        let mut columns = self.built.columns.clone();
        for column in columns.iter_mut().filter(|c| context.added.contains(&c.id)) {
            column.instant_default = Some(fill::instant_default(ctx, column)?);
        }
        let mut indexes = Vec::with_capacity(self.built.indexes.len() + 1);
        if !self.old.has_primary_key() {
            indexes.push(self.old.indexes[0].clone());
        }
        for built in &self.built.indexes {
            let existing = built
                .existing
                .and_then(|id| self.old.indexes.iter().find(|i| i.id == id));
            let index = match existing {
                Some(old) if plan::same_key(self.old, old, &columns, built) => IndexDef {
                    name: built.name.clone(),
                    invisible: built.invisible,
                    comment: built.comment.clone(),
                    using: built.using.clone(),
                    codec: KeyCodec::new(&columns, &built.parts, built.unique, built.primary),
                    parts: built.parts.clone(),
                    ..old.clone()
                },
                _ => {
                    let mut index = create::new_index(trees, &columns, built)?;
                    index.visible_from = VisibleFrom::fresh();
                    index
                }
            };
            indexes.push(index);
        }
        let mut versions = self.old.layout.versions().to_vec();
        let now = LayoutVersion::of(&columns);
        let mut stored = versions
            .last()
            .map(|v| v.fields.clone())
            .unwrap_or_default();
        let mut wanted = now.fields.clone();
        stored.sort_by_key(|f| f.0);
        wanted.sort_by_key(|f| f.0);
        if stored != wanted {
            versions.push(now);
        }
        let layout = RowLayout::new(&columns, versions);
        Ok(self.common(columns, indexes, layout))
    }

    /// AUTO_INCREMENT after the change: as asked for, but behind the largest value stored.
    fn counter(&self, ctx: &DdlCtx<'_>, def: &mut TableDef, copy: bool) -> SqlResult<Option<u64>> {
        let Some(auto) = def.auto_column else {
            return Ok(None);
        };
        let asked = self.options.auto_increment.map(|v| v.saturating_sub(1));
        let was_auto = self.old.auto_column.map(|c| self.old.columns[c].id);
        let same_column = was_auto == Some(def.columns[auto].id);
        if asked.is_none() && same_column {
            return Ok(copy.then(|| self.old.runtime.last_auto()));
        }
        let largest = fill::largest_auto(ctx, def)?;
        let last = asked.unwrap_or(0).max(largest);
        def.runtime = Arc::new(TableRuntime::new(last));
        Ok(Some(last))
    }
}

/// Most layout versions before a change copies the table instead of adding one.
pub(super) const COPY_AT_VERSIONS: usize = MAX_LAYOUT_VERSIONS;

fn publish(
    ctx: &mut DdlCtx<'_>,
    name: &TableName,
    to: &TableName,
    old: &TableDef,
    made: Made,
    children: Vec<TableDef>,
) -> SqlResult<DdlDone> {
    let warnings = ctx.eval.diagnostics.count();
    let mut done = DdlDone {
        affected_rows: made.rows,
        info: format!(
            "Records: {}  Duplicates: 0  Warnings: {warnings}",
            made.rows
        ),
        seq: 0,
    };
    if old.temporary {
        let def = table::renamed(ctx, &made.def, to);
        let mut tables = ctx.temporary.borrow_mut();
        tables.replace(old, def, made.trees)?;
        return Ok(done);
    }
    let mut change = ctx.change()?;
    change.adopt(made.trees);
    for index in &old.indexes {
        if !made.def.indexes.iter().any(|i| i.id == index.id) {
            change.abandon_tree(index.id);
        }
    }
    let counter_tree = made.def.counter_tree();
    for child in children {
        change.put_table(child)?;
    }
    if name == to {
        change.put_table(made.def)?;
    } else {
        change.forget_name(old);
        let renamed = table::renamed(ctx, &made.def, to);
        foreign::follow_rename(&mut change, old, &renamed)?;
        change.put_table(renamed)?;
    }
    if let Some(counter) = made.counter {
        // An exact value, which may be lower than before.
        ctx.catalog
            .engine()
            .set_counter(counter_tree, counter)
            .map_err(|e| esker_sql_catalog::exec_error::engine_error(&e))?;
    }
    done.seq = change.commit()?;
    Ok(done)
}

/// Position of an index of the table by name, as ALTER's actions mean it.
fn index_named(old: &TableDef, name: &str) -> Option<usize> {
    old.indexes
        .iter()
        .position(|i| !i.hidden && same_name(&i.name, name))
}
