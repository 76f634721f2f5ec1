//! ALTER TABLE, CREATE INDEX and DROP INDEX.
//!
//! In flow order: `edit` (the actions change a draft) · `plan` (what the change costs: definition only, new indexes,
//! or a copy of the table; and what it needs to keep others from meanwhile) · `algorithm` (what ALGORITHM and LOCK ask
//! for) · here, doing it · `online` (doing it beside those that change rows). Neighbours: `fill` makes new trees of
//! the rows, `catch_up` follows changes, `draft` checks the result.
//!
//! **Invariants**
//! - The definition changes under the table's exclusive lock. What takes long is done before it, beside readers and
//!   writers, or under it where [`Plan`] says that it cannot be done beside writers.
//! - New trees have their content before the catalog change begins; only that change makes them the table's, so a crash
//!   or an error leaves the table as it was.

mod algorithm;
#[cfg(test)]
mod algorithm_tests;
mod edit;
mod online;
#[cfg(test)]
mod operations_tests;
mod plan;

use std::sync::Arc;

use esker_sql_catalog::catalog::{
    ColumnDef, IndexDef, NewTrees, StorageEngine, TableDef, TableRuntime, VisibleFrom,
    largest_stored, same_name,
};
use esker_sql_catalog::codec::{KeyCodec, LayoutVersion, RowLayout};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::MdlMode;
use esker_sql_syntax::ast::{
    AlterAction, AlterTable, CreateIndex, DdlOptions, DropIndex, ObjectName,
};
use esker_types::{SqlError, SqlResult, errors};

use super::catch_up::{CatchUp, Derived};
use super::convert::Conversion;
use super::create;
use super::draft_finish::Built;
use super::fill::{Building, Checks, Rows};
use super::foreign::{self, Before, Shape, Wanted};
use super::names::{self, TableName, resolve};
use super::options::{Options, OptionsOf};
use super::{DdlCtx, DdlDone, fill, table};
use crate::dml::foreign::NewKeys;
use crate::dml::validate;
use esker_engine::{Isolation, View};

pub(super) use edit::AlterContext;
use edit::Edit;
pub use online::PublishWait;
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
        ctx.note(
            1146,
            errors::no_such_table(&name.schema, &name.name).message,
        );
        return Ok(DdlDone::default());
    }
    algorithm::check_options(options)?;
    let is_temporary = ctx.temporary(name).is_some();
    let is_alone =
        is_temporary || name != to || changes_others(actions) || ctx.locks.has_explicit();
    let may_be_online = !is_alone && options.lock.as_deref() != Some("EXCLUSIVE");
    let mode = match may_be_online {
        true => MdlMode::SharedUpgradable,
        false => MdlMode::Exclusive,
    };
    let (old, tables) = lock_old(ctx, (name, to), actions, mode)?;
    if name != to && ctx.catalog.schema(&to.schema).is_none() {
        return Err(errors::unknown_database(&to.schema).into());
    }
    let table_options = actions.iter().filter_map(|a| match a {
        AlterAction::Option(option) => Some(option),
        _ => None,
    });
    let table_options = Options::read(ctx, OptionsOf::Existing(&old), table_options)?;
    let mut edit = Edit::new(ctx, &old, actions);
    edit.table_collation(&table_options)?;
    // What goes makes room for what comes, whatever stands first.
    let (gone, rest): (Vec<_>, Vec<_>) = actions.iter().partition(|a| removes(a));
    for action in gone.into_iter().chain(rest) {
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
    let mut context = edit.context.clone();
    // Who asks for a copy gets one, and hears how many rows it has.
    context.force_copy |= options.algorithm.as_deref() == Some("COPY") && !only_names;
    let next_column_id = edit.draft.next_column_id;
    let collation = edit.draft.collation;
    let engine = table_options.engine.unwrap_or(old.engine);
    foreign::check_engine(&old, engine)?;
    if engine == StorageEngine::Memory {
        edit.draft.forget_new_keys();
    }
    edit.draft.check_dropped_columns(&old)?;
    edit.draft.check_fulltext(is_temporary, engine)?;
    let mut built = edit.draft.finish()?;
    validate(ctx.eval, &name.name, &built.columns, &built.checks)?;
    let children = keep_foreign_keys(ctx, (name, to), &old, &mut built)?;
    // A unique key is not enough here, unlike in CREATE TABLE: as in MySQL.
    if ctx.require_primary_key && !only_names && !built.has_primary() {
        return Err(super::create::without_primary_key().into());
    }
    let plan = plan::plan(&old, &built, &context);
    let asked = algorithm::Asked {
        old: &old,
        built: &built,
        context: &context,
        actions,
        foreign_key_checks: ctx.foreign_key_checks,
    };
    algorithm::check(options, plan, &asked)?;
    let is_online = engine == old.engine && plan::is_online(&old, &built, plan);
    let checks_keys = asked.checks_new_keys();
    let others = match (may_be_online, plan) {
        (false, _) => Others::StayOut,
        (true, Plan::DefinitionOnly) if !checks_keys => Others::StayOut,
        (true, _) if is_online && options.lock.as_deref() != Some("SHARED") => Others::Write,
        (true, _) if checks_keys => Others::StayOut,
        (true, _) => Others::Read,
    };
    lock_for_change(ctx, name, &tables, others)?;
    let altered = Altered {
        old: &old,
        built,
        collation,
        next_column_id,
        options: &table_options,
    };
    let done = altered.make(ctx, plan, &context, (&tables, others))?;
    let mut done = publish(ctx, name, to, &old, done, children)?;
    // MySQL counts rows only where it has looked at the table's inside.
    if only_names {
        done.info.clear();
    }
    Ok(done)
}

/// What others may do with the table while new trees are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    /// Nothing.
    StayOut,
    /// Read.
    Read,
    /// Everything.
    Write,
}

/// The lock under which new trees are made. What is made beside others is not begun if the lock for its end cannot be
/// had in the time that a clause gives.
fn lock_for_change(
    ctx: &mut DdlCtx<'_>,
    name: &TableName,
    tables: &[TableName],
    others: Others,
) -> Result<(), ExecError> {
    if others == Others::StayOut || ctx.fails_fast {
        for table in tables {
            ctx.lock_table(table, MdlMode::Exclusive)?;
        }
    }
    if others == Others::StayOut {
        return Ok(());
    }
    for table in tables {
        let object = ctx.catalog.locks().table(&table.schema, &table.name);
        ctx.locks.give_back(&object, MdlMode::Exclusive);
    }
    match others {
        Others::Read => ctx.lock_table(name, MdlMode::SharedReadOnly),
        _ => Ok(()),
    }
}

/// Does the action take something out of the table as it was?
fn removes(action: &AlterAction) -> bool {
    matches!(
        action,
        AlterAction::DropColumn { .. }
            | AlterAction::DropIndex { .. }
            | AlterAction::DropPrimaryKey
    )
}

/// Do the actions change the definitions of other tables, and nothing that takes long?
fn changes_others(actions: &[AlterAction]) -> bool {
    actions.iter().any(|a| {
        matches!(
            a,
            AlterAction::DropForeignKey(_) | AlterAction::DropConstraint(_)
        )
    })
}

/// The table, locked with the name that it gets and what foreign keys tie to it. Also gives what is locked upgradably:
/// the tables whose definitions change.
fn lock_old(
    ctx: &mut DdlCtx<'_>,
    (name, to): (&TableName, &TableName),
    actions: &[AlterAction],
    mode: MdlMode,
) -> Result<(Arc<TableDef>, Vec<TableName>), ExecError> {
    let mut old = ctx.existing(name)?;
    let mut tables = Vec::new();
    if !old.temporary {
        let both = [name.clone(), to.clone()];
        let own = if name == to { &both[..1] } else { &both[..] };
        foreign::lock_related(ctx, &own[..1], &|ctx| to_lock(ctx, own, actions, mode))?;
        old = ctx.existing(name)?;
        let wanted = to_lock(ctx, own, actions, mode).into_iter();
        let upgradable = wanted.filter(|(_, mode)| *mode == MdlMode::SharedUpgradable);
        tables.extend(upgradable.map(|(name, _)| name));
    }
    let is_taken = match old.temporary {
        true => ctx.temporary(to).is_some(),
        false => ctx.catalog.snapshot().has_name(&to.schema, &to.name),
    };
    if name != to && is_taken {
        return Err(errors::table_exists(&to.name).into());
    }
    Ok((old, tables))
}

/// The table, and those that foreign keys tie to it: in the same mode as the parents, if their definitions change with
/// it; children exclusively.
fn to_lock(ctx: &DdlCtx<'_>, own: &[TableName], actions: &[AlterAction], mode: MdlMode) -> Wanted {
    let mut wanted = Wanted::new();
    let name = &own[0];
    for own in own {
        foreign::want(&mut wanted, &own.schema, &own.name, mode);
    }
    let (mut keys_change, mut names_change) = (own.len() > 1, own.len() > 1);
    for action in actions {
        match action {
            AlterAction::AddForeignKey(key) => {
                keys_change = true;
                let schema = key.table.schema.as_ref();
                let schema = schema.map_or(&*name.schema, |s| &*s.text);
                let parent = &key.table.name.text;
                foreign::want(&mut wanted, schema, parent, mode);
            }
            AlterAction::DropForeignKey(_) | AlterAction::DropConstraint(_) => keys_change = true,
            AlterAction::RenameColumn { .. } | AlterAction::ChangeColumn { .. } => {
                names_change = true;
            }
            _ => {}
        }
    }
    let changing = |changes, mode| match changes {
        true => mode,
        false => MdlMode::Shared,
    };
    if let Some(def) = ctx.catalog.resolve(&name.schema, &name.name) {
        foreign::want_parents(&mut wanted, &def, changing(keys_change, mode));
        foreign::want_children(
            &mut wanted,
            &def,
            changing(names_change, MdlMode::Exclusive),
        );
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
    fn make(
        self,
        ctx: &mut DdlCtx<'_>,
        plan: Plan,
        context: &AlterContext,
        (tables, others): (&[TableName], Others),
    ) -> SqlResult<Made> {
        let building = Building::of(ctx);
        let mut trees = NewTrees::new(ctx.catalog.engine());
        let copy = plan == Plan::Copy;
        let mut def = match copy {
            true => self.copied(&mut trees)?,
            false => self.edited(ctx, &mut trees, context)?,
        };
        let reader = ctx.catalog.engine().begin(Isolation::RepeatableRead);
        let rows = Rows {
            building,
            table: self.old,
            reader: &reader,
            view: match others {
                Others::Write => View::Snapshot,
                Others::StayOut | Others::Read => View::Latest,
            },
        };
        let added = self.built.columns.iter();
        let added: Vec<&ColumnDef> = added.filter(|c| context.added.contains(&c.id)).collect();
        fill::refuse_zero_dates(&rows, &added)?;
        let strict = copy && ctx.eval.sql_mode.is_strict();
        let strict = ctx.eval.diagnostics.strict_write.replace(strict);
        let keys = self.new_keys(ctx, &def);
        let followed_keys = keys.as_ref().filter(|_| others == Others::Write);
        let filled = self.fill(building, &rows, &def, (plan, context));
        let filled = filled.and_then(|(derived, count)| {
            let checked = followed_keys.map(|keys| fill::check_foreign_keys(&rows, keys));
            Ok((derived, count.max(checked.transpose()?.unwrap_or(0))))
        });
        let followed = filled.and_then(|(derived, count)| {
            let mut catch_up = (others == Others::Write)
                .then(|| CatchUp::new(building, self.old, derived, followed_keys, reader));
            if others != Others::StayOut {
                online::close(ctx, tables, catch_up.as_mut())?;
            }
            Ok(count)
        });
        ctx.eval.diagnostics.strict_write.set(strict);
        let count = followed?;
        // From here on the table's rows stay as they are.
        let reader = ctx.catalog.engine().begin(Isolation::ReadCommitted);
        let latest = |table| Rows {
            building,
            table,
            reader: &reader,
            view: View::Latest,
        };
        if others == Others::Write {
            fill::refuse_zero_dates(&latest(self.old), &added)?;
        }
        // ANALYZE may have come meanwhile.
        if let Some(now) = ctx.catalog.resolve(&self.old.schema, &self.old.name)
            && others != Others::StayOut
        {
            def.histograms.clone_from(&now.histograms);
        }
        let checked = match &keys {
            Some(keys) if followed_keys.is_none() => fill::check_foreign_keys(&latest(&def), keys)?,
            _ => 0,
        };
        if copy {
            let before = self.kept_counter(&def);
            def.runtime = Arc::new(TableRuntime::new(def.runtime.last_auto().max(before)));
        }
        let counter = self.counter(ctx, &mut def, copy)?;
        Ok(Made {
            def,
            trees,
            rows: count.max(checked),
            counter,
        })
    }

    /// The foreign keys that rows have to keep from now on.
    fn new_keys(&self, ctx: &DdlCtx<'_>, def: &TableDef) -> Option<NewKeys<'_>> {
        let names = &self.built.new_keys;
        let lookup = |schema: &str, name: &str| ctx.catalog.resolve(schema, name);
        let is_checked = ctx.foreign_key_checks && !names.is_empty();
        is_checked.then(|| NewKeys::new(&lookup, Arc::new(def.clone()), names))
    }

    /// Fills the new trees of `def` from the rows; how to make what they hold of a row, and the number of rows copied.
    fn fill<'a>(
        &'a self,
        building: Building<'a>,
        rows: &Rows<'_>,
        def: &'a TableDef,
        (plan, context): (Plan, &AlterContext),
    ) -> SqlResult<(Derived<'a>, u64)> {
        if plan == Plan::Copy {
            let conversion = Conversion::new(building, self.old, def, context)?;
            let count = fill::copy_table(rows, &conversion)?;
            return Ok((Derived::Copies(conversion), count));
        }
        let is_fresh = |at: &usize| def.indexes[*at].visible_from.is_fresh();
        let which: Vec<usize> = (1..def.indexes.len()).filter(is_fresh).collect();
        let checks = Checks::new(building, def, &context.new_checks)?;
        if let Some(checks) = &checks {
            checks.check_all(rows)?;
        }
        fill::fill_indexes(rows, def, &which)?;
        let derived = Derived::Entries {
            new: def,
            which,
            checks,
        };
        Ok((derived, 0))
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
            shown_options: options.shown_over(&self.old.shown_options),
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
        let asked = self.options.auto_increment.unwrap_or(0);
        let last = match self.keeps_auto_column(&def) {
            true => self.kept_counter(&def),
            false => asked.saturating_sub(1),
        };
        def.runtime = Arc::new(TableRuntime::new(last));
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
                    words: create::word_codec(&columns, built),
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
        versions.extend(plan::new_layout(self.old, &columns));
        let layout = RowLayout::new(&columns, versions);
        Ok(self.common(columns, indexes, layout))
    }

    /// Has the table the AUTO_INCREMENT column that it had?
    fn keeps_auto_column(&self, def: &TableDef) -> bool {
        let was_auto = self.old.auto_column.map(|c| self.old.columns[c].id);
        was_auto == def.auto_column.map(|c| def.columns[c].id)
    }

    /// The counter before the change; a column that becomes AUTO_INCREMENT begins anew.
    fn kept_counter(&self, def: &TableDef) -> u64 {
        match self.keeps_auto_column(def) {
            true => self.old.runtime.last_auto(),
            false => 0,
        }
    }

    /// AUTO_INCREMENT after the change: as asked for, but behind the largest value stored.
    fn counter(&self, ctx: &DdlCtx<'_>, def: &mut TableDef, copy: bool) -> SqlResult<Option<u64>> {
        if def.auto_column.is_none() {
            return Ok(None);
        }
        let asked = self.options.auto_increment.map(|v| v.saturating_sub(1));
        if asked.is_none() && self.keeps_auto_column(def) {
            return Ok(copy.then(|| self.old.runtime.last_auto()));
        }
        let largest = largest_stored(ctx.catalog.engine(), def)?;
        let last = asked.unwrap_or(0).max(largest);
        def.runtime = Arc::new(TableRuntime::new(last));
        Ok(Some(last))
    }
}

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
    if name != to {
        ctx.locks_follow(name, to);
    }
    Ok(done)
}

/// Position of an index of the table by name, as ALTER's actions mean it.
fn index_named(old: &TableDef, name: &str) -> Option<usize> {
    old.indexes
        .iter()
        .position(|i| !i.hidden && same_name(&i.name, name))
}
