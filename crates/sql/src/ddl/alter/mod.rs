//! ALTER TABLE, CREATE INDEX and DROP INDEX.
//!
//! In flow order: `condition` (which actions are left out) · `edit` (the actions change a draft) · `plan` (what the
//! change costs: definition only, new indexes, or a copy of the table; and what it needs to keep others from
//! meanwhile) · `algorithm` (what ALGORITHM and LOCK ask for) · here, what is locked · `altered` (the new definition
//! and its trees) · `online` (their end beside those that change rows) · here, publishing it. Neighbours: `fill` makes
//! new trees of the rows, `catch_up` follows changes, `draft` checks the result.
//!
//! **Invariants**
//! - The definition changes under the table's exclusive lock. What takes long is done before it, beside readers and
//!   writers, or under it where [`Plan`] says that it cannot be done beside writers.
//! - New trees have their content before the catalog change begins; only that change makes them the table's, so a crash
//!   or an error leaves the table as it was.

mod algorithm;
#[cfg(test)]
mod algorithm_tests;
mod altered;
mod condition;
mod edit;
mod online;
#[cfg(test)]
mod operations_tests;
mod plan;

use std::sync::Arc;

use esker_engine::View;
use esker_sql_catalog::catalog::{ColumnDef, StorageEngine, TableDef, same_name};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::MdlMode;
use esker_sql_syntax::ast::{
    AlterAction, AlterTable, Check, CreateIndex, DdlOptions, DropIndex, Ident, ObjectName,
    PartitionAction, TableOption,
};
use esker_types::collation::Collation;
use esker_types::{SqlError, SqlResult, errors};

use super::draft_finish::Built;
use super::foreign::{self, Before, Shape, Wanted};
use super::names::{self, TableName, resolve};
use super::options::{Options, OptionsOf};
use super::{
    DdlCtx, DdlDone, checks, exchange, innodb_names, partitions, table, tablespace, trigger,
};
use crate::dml::{check_repeatable, validate};

use altered::{Altered, Made, Numbers};
pub(super) use edit::AlterContext;
use edit::Edit;
pub use online::PublishWait;
use plan::Plan;

pub(super) fn alter_table(ctx: &mut DdlCtx<'_>, alter: &AlterTable) -> Result<DdlDone, ExecError> {
    if alter.ignore {
        return Err(SqlError::not_supported("ALTER IGNORE TABLE").into());
    }
    if let [AlterAction::Partition(PartitionAction::Exchange(partition, with, validates))] =
        &*alter.actions
    {
        return exchange::exchange(ctx, &alter.name, (partition, with), *validates);
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
        actions.push(AlterAction::DropIndex(name.clone()).only_if(true));
    }
    actions.push(AlterAction::AddIndex(create.index.clone()).only_if(create.if_not_exists));
    run(ctx, &name, &name, &actions, &create.options, false)
}

pub(super) fn drop_index(ctx: &mut DdlCtx<'_>, drop: &DropIndex) -> Result<DdlDone, ExecError> {
    let name = resolve(&drop.table, ctx.database)?;
    let action = AlterAction::DropIndex(drop.name.clone()).only_if(drop.if_exists);
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

/// A statement that has its table locked.
struct Begun {
    old: Arc<TableDef>,
    /// What else is locked with it, for the change as well.
    tables: Vec<TableName>,
    is_temporary: bool,
    may_be_online: bool,
}

/// What the table is to be.
struct Drafted {
    built: Built,
    context: AlterContext,
    collation: Collation,
    next_column_id: u32,
    engine: StorageEngine,
    /// Rows that went with partitions are not told.
    uncounted: bool,
}

fn run(
    ctx: &mut DdlCtx<'_>,
    name: &TableName,
    to: &TableName,
    actions: &[AlterAction],
    options: &DdlOptions,
    if_exists: bool,
) -> Result<DdlDone, ExecError> {
    names::check_table(name, ctx.user)?;
    names::check_table(to, ctx.user)?;
    let exists =
        ctx.temporary(name).is_some() || ctx.catalog.snapshot().has_name(&name.schema, &name.name);
    if !exists && if_exists {
        ctx.note(
            1146,
            errors::no_such_table(&name.schema, &name.name).message,
        );
        return Ok(DdlDone::default());
    }
    let begun = begin(ctx, (name, to), &condition::bare(actions), options)?;
    let old = &begun.old;
    let actions = &*condition::settled(ctx, old, actions);
    tablespace::lock_named(ctx, table_options(actions))?;
    let table_options = Options::read(ctx, OptionsOf::Existing(old), table_options(actions))?;
    let mut drafted = draft(ctx, (&begun, to), actions, options, &table_options)?;
    check_result(ctx, (name, to), old, actions, &drafted, &table_options)?;
    let children = keep_foreign_keys(ctx, (name, to), old, &mut drafted.built)?;
    let Drafted { built, context, .. } = &drafted;
    // A unique key is not enough here, unlike in CREATE TABLE: as in MySQL.
    if ctx.require_primary_key && !only_names(actions) && !built.has_primary() {
        return Err(super::create::without_primary_key().into());
    }
    let plan = plan::plan(old, built, context);
    let asked = algorithm::Asked {
        old,
        built,
        context,
        actions,
        foreign_key_checks: ctx.foreign_key_checks,
    };
    algorithm::check(options, plan, &asked)?;
    if changes_nothing(actions, options) && name == to {
        return Ok(DdlDone::default());
    }
    let numbers = match asked.numbers_in_place(options, drafted.engine, plan) {
        true => Numbers::InPlace,
        false => Numbers::Drawn,
    };
    let others = others_during(&begun, &drafted, plan, &asked, options);
    lock_for_change(ctx, name, &begun.tables, others)?;
    let altered = Altered {
        old,
        collation: drafted.collation,
        next_column_id: drafted.next_column_id,
        options: &table_options,
        numbers: (numbers, ctx.auto_step),
        begins_anew: context.begins_anew,
        built: drafted.built,
    };
    let mut made = altered.make(ctx, plan, &drafted.context, (&begun.tables, others))?;
    if drafted.uncounted {
        made.rows = 0;
    }
    let mut done = publish(ctx, name, to, old, made, children)?;
    // MySQL counts rows only where it has looked at the table's inside.
    if only_names(actions) {
        done.info.clear();
    }
    Ok(done)
}

/// The options of the table among the actions.
fn table_options(actions: &[AlterAction]) -> impl Iterator<Item = &TableOption> {
    actions.iter().filter_map(|a| match a {
        AlterAction::Option(option) => Some(option),
        _ => None,
    })
}

/// What others may do while the table is changed.
fn others_during(
    begun: &Begun,
    drafted: &Drafted,
    plan: Plan,
    asked: &algorithm::Asked<'_>,
    options: &DdlOptions,
) -> Others {
    let is_online = begun.may_be_online
        && drafted.engine == begun.old.engine
        && drafted.context.discards.is_none()
        && plan::is_online(&begun.old, &drafted.built, plan);
    match (begun.may_be_online, plan, asked.checks_new_keys()) {
        (false, ..) | (true, Plan::DefinitionOnly, false) => Others::StayOut,
        _ if is_online && options.lock.as_deref() != Some("SHARED") => Others::Write,
        (true, _, true) => Others::StayOut,
        (true, _, false) => Others::Read,
    }
}

/// Locks the table, so that others may go on if the change may be one beside them.
fn begin(
    ctx: &mut DdlCtx<'_>,
    (name, to): (&TableName, &TableName),
    actions: &[AlterAction],
    options: &DdlOptions,
) -> Result<Begun, ExecError> {
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
    trigger::check_rename(&old, to)?;
    Ok(Begun {
        old,
        tables,
        is_temporary,
        may_be_online,
    })
}

/// Do the actions only rename, or nothing?
fn only_names(actions: &[AlterAction]) -> bool {
    let only_names = |a: &AlterAction| {
        matches!(
            a,
            AlterAction::RenameTo(_) | AlterAction::DisableKeys | AlterAction::EnableKeys
        )
    };
    actions.iter().all(only_names)
}

/// What the actions make of the table.
fn draft(
    ctx: &DdlCtx<'_>,
    (begun, to): (&Begun, &TableName),
    actions: &[AlterAction],
    options: &DdlOptions,
    table_options: &Options,
) -> SqlResult<Drafted> {
    let old = &*begun.old;
    let mut edit = Edit::new(ctx, (old, to), actions);
    edit.table_collation(table_options)?;
    // What goes makes room for what comes, whatever stands first.
    let (mut gone, rest): (Vec<_>, Vec<_>) = actions.iter().partition(|a| removes(a));
    // A column takes checks along that may be named, too.
    gone.sort_by_key(|a| !drops_constraint(a));
    for action in gone {
        edit.apply(action)?;
    }
    edit.draft.check_forms(written_checks(actions))?;
    for action in rest {
        edit.apply(action)?;
    }
    check_changed_once(old, actions)?;
    edit.check_dependents()?;
    if edit.draft.columns.is_empty() {
        let text = "You can't delete all columns with ALTER TABLE; use DROP TABLE instead";
        return Err(SqlError::new(1090, "42000", text));
    }
    let mut context = edit.context.clone();
    // Whoever asks for a copy gets one, and hears how many rows it has.
    context.force_copy |= options.algorithm.as_deref() == Some("COPY") && !only_names(actions);
    let (next_column_id, collation) = (edit.draft.next_column_id, edit.draft.collation);
    let engine = table_options.engine.unwrap_or(old.engine);
    foreign::check_engine(old, engine)?;
    ctx.fit_to_engine(&mut edit.draft, engine)?;
    if table_options.is_ascending_only(Some(old)) {
        edit.draft.check_ascending()?;
    }
    edit.draft.check_dropped_columns(old)?;
    edit.draft.check_altered_key(ctx, old)?;
    edit.draft.check_fulltext(begun.is_temporary, engine)?;
    let row_format = table_options.row_format_of(OptionsOf::Existing(old));
    let is_new = table_options.row_format.is_some();
    edit.draft.cut_key_parts(ctx, row_format, is_new)?;
    let mut built = edit.draft.finish()?;
    let managed = partition(ctx, old, &mut built, engine, actions)?;
    context.force_copy |= managed.copies || managed.discards.is_some();
    context.discards = managed.discards;
    context.begins_anew = managed.begins_anew;
    Ok(Drafted {
        built,
        context,
        collation,
        next_column_id,
        engine,
        uncounted: managed.uncounted,
    })
}

/// What may not be said of a table, or is better warned of, once all of it is known.
fn check_result(
    ctx: &DdlCtx<'_>,
    (name, to): (&TableName, &TableName),
    old: &TableDef,
    actions: &[AlterAction],
    drafted: &Drafted,
    table_options: &Options,
) -> SqlResult<()> {
    let built = &drafted.built;
    tablespace::check_partitioned(built, &table_options.shown_over(&old.shown_options))?;
    innodb_names::check(built, Some(old))?;
    ctx.warn_of_indexes(name, built);
    let orders = |a: &AlterAction| matches!(a, AlterAction::OrderBy(_));
    let is_innodb = drafted.engine == StorageEngine::InnoDb;
    if actions.iter().any(orders) && is_innodb && built.has_clustered() {
        ctx.warn_of_order(name);
    }
    validate(
        ctx.eval,
        &name.name,
        &built.columns,
        &built.checks,
        built.kept_checks,
    )?;
    if ctx.is_logged() {
        let is_new = |column: &ColumnDef| old.columns.iter().all(|had| had.id != column.id);
        check_repeatable(ctx.eval, &name.name, &built.columns, is_new)?;
    }
    if old.temporary {
        return Ok(());
    }
    let snapshot = ctx.catalog.snapshot();
    let (kept, added) = built.checks.split_at(built.kept_checks);
    checks::check_names(&snapshot, (&to.schema, Some(old.id)), added.iter())?;
    match name != to {
        true => checks::check_names(&snapshot, (&to.schema, Some(old.id)), kept.iter()),
        false => Ok(()),
    }
}

/// The CHECKs that actions add.
fn written_checks(actions: &[AlterAction]) -> impl Iterator<Item = &Check> {
    actions.iter().flat_map(|action| match action {
        AlterAction::AddCheck(check) => std::slice::from_ref(check),
        AlterAction::AddColumn { def, .. }
        | AlterAction::ModifyColumn { def, .. }
        | AlterAction::ChangeColumn { def, .. } => &def.checks,
        _ => &[],
    })
}

/// The partitioning after the statement, which becomes that of `built`.
fn partition(
    ctx: &DdlCtx<'_>,
    old: &TableDef,
    built: &mut Built,
    engine: StorageEngine,
    actions: &[AlterAction],
) -> SqlResult<partitions::Managed> {
    let table = partitions::Table {
        eval: ctx.eval,
        schema: &old.schema,
        name: &old.name,
        built,
        engine,
        has_engine: true,
    };
    let managed = partitions::manage(&table, old, actions)?;
    built.partitioning.clone_from(&managed.partitioning);
    Ok(managed)
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

impl Others {
    /// The state of the rows that the change is made from: as they are, unless others write meanwhile.
    fn view(self) -> View {
        match self {
            Self::Write => View::Snapshot,
            Self::StayOut | Self::Read => View::Latest,
        }
    }
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

/// Does the statement leave the table as it is, but for its name?
fn changes_nothing(actions: &[AlterAction], options: &DdlOptions) -> bool {
    let only_renames = actions
        .iter()
        .all(|a| matches!(a, AlterAction::RenameTo(_)));
    only_renames && options.algorithm.as_deref() != Some("COPY")
}

/// Does the action take something out of the table as it was?
fn removes(action: &AlterAction) -> bool {
    matches!(
        action,
        AlterAction::DropColumn(_)
            | AlterAction::DropIndex(_)
            | AlterAction::DropPrimaryKey
            | AlterAction::DropForeignKey(_)
            | AlterAction::DropCheck(_)
            | AlterAction::DropConstraint(_)
    )
}

fn drops_constraint(action: &AlterAction) -> bool {
    matches!(
        action,
        AlterAction::DropCheck(_) | AlterAction::DropConstraint(_)
    )
}

/// 1054 for a column that several actions change: behind the first one MySQL does not find it any more.
fn check_changed_once(old: &TableDef, actions: &[AlterAction]) -> SqlResult<()> {
    let mut changed: Vec<&Ident> = Vec::new();
    for action in actions {
        let column = match action {
            AlterAction::ModifyColumn { def, .. } => &def.name,
            AlterAction::ChangeColumn { old, .. } | AlterAction::RenameColumn { old, .. } => old,
            AlterAction::SetDefault { column, .. }
            | AlterAction::SetColumnVisible { column, .. }
            | AlterAction::DropDefault(column) => column,
            _ => continue,
        };
        if changed.iter().any(|c| c.is(&column.text)) {
            return Err(errors::unknown_column(&column.text, &old.name));
        }
        changed.push(column);
    }
    Ok(())
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
    let (name, to) = (&own[0], &own[own.len() - 1]);
    for own in own {
        foreign::want(&mut wanted, &own.schema, &own.name, mode);
    }
    let (mut keys_change, mut names_change) = (own.len() > 1, own.len() > 1);
    for action in actions {
        match action {
            AlterAction::AddForeignKey(key) => {
                keys_change = true;
                let schema = key.table.schema.as_ref();
                let schema = schema.map_or(&*to.schema, |s| &*s.text);
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
    foreign::spell_parents(ctx, name, built);
    foreign::check_cascades(name, built)?;
    foreign::check_own_columns(ctx, name, built)?;
    let before = Before { old, name, built };
    before.check_own_keys(ctx)?;
    before.check_children(ctx)?;
    foreign::check_new_keys(ctx, (name, &to.schema), built)?;
    if name != to {
        let mut renamed = built.foreign_keys.clone();
        foreign::rename_keys(&mut renamed, old, to);
        let place = (&*to.schema, Some(old.id));
        foreign::check_names(&ctx.catalog.snapshot(), place, &renamed)?;
        foreign::check_as_parent(ctx, &ctx.catalog.snapshot(), &Shape::built(to, built))?;
    }
    let children = before.renamed_children(ctx);
    let mut keys = built.foreign_keys.clone();
    before.rename_own(&mut keys);
    built.foreign_keys = keys;
    Ok(children)
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
        was_there: false,
    };
    if old.temporary {
        let def = table::moved(ctx, &made.def, to);
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
        let renamed = table::moved(ctx, &made.def, to);
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
