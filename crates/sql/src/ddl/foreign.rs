//! Foreign keys of tables that are made or altered: what they need on either side, and which tables are locked for
//! them.
//!
//! Neighbours: `draft` keeps them while a table is drawn up ([`super::draft_keys`]), `create`, `alter` and `table` ask
//! here before they publish, `alter` asks [`before`] what becomes of those that are there; `dml::foreign` keeps the
//! constraints when rows change.
//! **Invariants**
//! - Whoever adds, drops or renames one side holds the other exclusively, because its definition is published anew;
//!   whoever only relies on the other side's definition holds it shared.
//! - A constraint whose parent exists has an index on both sides and columns of the same types. Without
//!   `foreign_key_checks` a parent may be missing, and rows without parents may stay.

mod before;

use std::collections::BTreeMap;

use esker_sql_catalog::catalog::{
    Change, ColumnDef, ForeignKeyDef, IndexPart, KeyIndex, ReferentialAction, Snapshot,
    StorageEngine, TableDef, TableId, find_key_index, same_name,
};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::MdlMode;
use esker_types::{Level, SqlError, SqlResult, SqlType, TypeKind};

use super::DdlCtx;
use super::draft_finish::Built;
use super::names::{self, TableName};
use crate::dml::columns_of_stored;

pub(super) use before::Before;

/// Names to lock.
pub(super) type Wanted = BTreeMap<TableName, MdlMode>;

/// Wants a table locked, in the stronger mode of two.
pub(super) fn want(wanted: &mut Wanted, schema: &str, name: &str, mode: MdlMode) {
    let name = TableName {
        schema: schema.to_owned(),
        name: name.to_owned(),
    };
    let kept = wanted.entry(name).or_insert(mode);
    if mode.covers(*kept) {
        *kept = mode;
    }
}

/// Wants the parents of a table locked.
pub(super) fn want_parents(wanted: &mut Wanted, def: &TableDef, mode: MdlMode) {
    for key in &def.foreign_keys {
        want(wanted, &key.parent.0, &key.parent.1, mode);
    }
}

/// Wants the children of a table locked.
pub(super) fn want_children(wanted: &mut Wanted, def: &TableDef, mode: MdlMode) {
    for child in &def.referenced_by {
        want(wanted, &child.schema, &child.table, mode);
    }
}

/// A table as it is, or will be.
pub(super) struct Shape<'a> {
    schema: &'a str,
    name: &'a str,
    columns: &'a [ColumnDef],
    indexes: Vec<(bool, &'a [IndexPart])>,
    is_partitioned: bool,
}

impl<'a> Shape<'a> {
    pub(super) fn of(def: &'a TableDef) -> Self {
        let indexes = def.ordered().iter();
        Self {
            schema: &def.schema,
            name: &def.name,
            columns: &def.columns,
            is_partitioned: def.partitioning.is_some(),
            indexes: indexes.map(|i| (i.unique, &*i.parts)).collect(),
        }
    }

    pub(super) fn built(name: &'a TableName, built: &'a Built) -> Self {
        let indexes = built
            .indexes
            .iter()
            .filter(|i| i.fulltext.is_none() && !i.multi_valued);
        Self {
            schema: &name.schema,
            name: &name.name,
            columns: &built.columns,
            is_partitioned: built.partitioning.is_some(),
            indexes: indexes.map(|i| (i.unique, &*i.parts)).collect(),
        }
    }

    fn is(&self, schema: &str, name: &str) -> bool {
        self.schema == schema && self.name == name
    }

    fn key_index(&self, columns: &[usize]) -> Option<KeyIndex> {
        find_key_index(self.indexes.iter().copied(), columns)
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| same_name(&c.name, name))
    }

    fn ordinals(&self, ids: &[u32]) -> Vec<usize> {
        let ordinal = |id: &u32| self.columns.iter().position(|c| c.id == *id);
        ids.iter().filter_map(ordinal).collect()
    }
}

fn error(code: u16, text: String) -> SqlError {
    SqlError::new(code, "HY000", text)
}

fn incompatible(child: &ColumnDef, parent: &ColumnDef, key: &ForeignKeyDef) -> SqlError {
    let text = format!(
        "Referencing column '{}' and referenced column '{}' in foreign key constraint '{}' are incompatible.",
        child.name, parent.name, key.name
    );
    error(3780, text)
}

/// May a column of one type refer to one of the other? Values that they share have the same keys; they need not share
/// any: see `dml::foreign`.
fn are_compatible(child: &SqlType, parent: &SqlType) -> bool {
    let is_text = |ty: &SqlType| matches!(ty.kind, TypeKind::Char | TypeKind::VarChar);
    if is_text(child) && is_text(parent) {
        return child.collation == parent.collation;
    }
    match (&child.kind, &parent.kind) {
        (TypeKind::Enum(a), TypeKind::Enum(b)) => enum_bytes(a.len()) == enum_bytes(b.len()),
        (TypeKind::Set(a), TypeKind::Set(b)) => set_bytes(a.len()) == set_bytes(b.len()),
        (TypeKind::Decimal, TypeKind::Decimal) => {
            (child.length, child.decimals) == (parent.length, parent.decimals)
        }
        (TypeKind::Float, TypeKind::Float) | (TypeKind::Double, TypeKind::Double) => true,
        (a, b) => a == b && child.unsigned == parent.unsigned,
    }
}

/// Bytes in which MySQL stores an ENUM of so many labels.
fn enum_bytes(labels: usize) -> usize {
    match labels {
        ..256 => 1,
        _ => 2,
    }
}

/// Those of a SET.
fn set_bytes(labels: usize) -> usize {
    match labels.div_ceil(8) {
        5.. => 8,
        bytes => bytes,
    }
}

/// 3733 for a column at either end that is computed when it is read.
fn check_not_virtual(key: &ForeignKeyDef, column: &ColumnDef) -> SqlResult<()> {
    let generated = column.generated.as_ref();
    match generated.is_some_and(|generated| !generated.stored) {
        true => {
            let text = format!(
                "Foreign key '{}' uses virtual column '{}' which is not supported.",
                key.name, column.name
            );
            Err(error(3733, text))
        }
        false => Ok(()),
    }
}

/// Checks a foreign key of `child` against its parent.
///
/// # Errors
/// 3734 for a column that the parent has not, 3733, 3780, and 6125 or 1822 without an index.
fn check_parent(
    ctx: &DdlCtx<'_>,
    child: &Shape<'_>,
    key: &ForeignKeyDef,
    parent: &Shape<'_>,
) -> SqlResult<KeyIndex> {
    let columns = child.ordinals(&key.columns);
    let mut of_parent = Vec::with_capacity(columns.len());
    for (&col, name) in columns.iter().zip(&key.parent_columns) {
        let at = parent.position(name).ok_or_else(|| {
            let text = format!(
                "Failed to add the foreign key constraint. Missing column '{name}' for constraint '{}' in the \
                 referenced table '{}'",
                key.name, parent.name
            );
            error(3734, text)
        })?;
        let (from, to) = (&child.columns[col], &parent.columns[at]);
        check_not_virtual(key, to)?;
        if !are_compatible(&from.ty, &to.ty) {
            return Err(incompatible(from, to, key));
        }
        of_parent.push(at);
    }
    let refers_to_itself = parent.is(child.schema, child.name) && of_parent == columns;
    let found = parent.key_index(&of_parent).filter(|_| !refers_to_itself);
    match found {
        Some(index) if index.is_whole_unique || !ctx.standard_parent_keys => Ok(index),
        _ if ctx.standard_parent_keys => {
            let text = format!(
                "Failed to add the foreign key constraint. Missing unique key for constraint '{}' in the referenced \
                 table '{}'",
                key.name, parent.name
            );
            Err(error(6125, text))
        }
        _ => {
            let text = format!(
                "Failed to add the foreign key constraint. Missing index for constraint '{}' in the referenced table \
                 '{}'",
                key.name, parent.name
            );
            Err(error(1822, text))
        }
    }
}

/// New foreign keys name their parents' columns as the parents do.
pub(super) fn spell_parents(ctx: &DdlCtx<'_>, name: &TableName, built: &mut Built) {
    let mut keys = std::mem::take(&mut built.foreign_keys);
    for key in keys.iter_mut().filter(|k| built.new_keys.contains(&k.name)) {
        let parent = ctx.catalog.resolve(&key.parent.0, &key.parent.1);
        let columns = match &parent {
            _ if key.is_parent(&name.schema, &name.name) => &built.columns,
            Some(parent) => &parent.columns,
            None => continue,
        };
        for written in &mut key.parent_columns {
            if let Some(column) = columns.iter().find(|c| same_name(&c.name, written)) {
                *written = (&*column.name).into();
            }
        }
    }
    built.foreign_keys = keys;
}

/// Checks foreign keys that a table gets, which is to be in `schema`.
///
/// # Errors
/// 1059, 1826, 1824, and those of [`check_parent`].
pub(super) fn check_new_keys(
    ctx: &DdlCtx<'_>,
    (name, schema): (&TableName, &str),
    built: &Built,
) -> SqlResult<()> {
    let child = Shape::built(name, built);
    let is_new = |k: &&ForeignKeyDef| built.new_keys.contains(&k.name);
    for key in built.foreign_keys.iter().filter(is_new) {
        check_name(&ctx.catalog.snapshot(), (schema, None), key)?;
        let parent = ctx.catalog.resolve(&key.parent.0, &key.parent.1);
        let parent = parent.filter(|parent| parent.engine != StorageEngine::Memory);
        if parent.as_ref().is_some_and(|p| p.partitioning.is_some()) {
            return Err(esker_types::errors::partitioned_foreign_key());
        }
        let index = match &parent {
            _ if key.is_parent(&name.schema, &name.name) => check_parent(ctx, &child, key, &child)?,
            Some(parent) => check_parent(ctx, &child, key, &Shape::of(parent))?,
            None if !ctx.foreign_key_checks => continue,
            None => {
                let text = format!("Failed to open the referenced table '{}'", key.parent.1);
                return Err(error(1824, text));
            }
        };
        if !index.is_whole_unique {
            let text = format!(
                "Foreign key '{}' refers to non-unique key or partial key. This is deprecated and will be removed in a \
                 future release.",
                key.name
            );
            ctx.eval.warn(Level::Warning, 6124, text);
        }
    }
    Ok(())
}

/// Checks the names that foreign keys get; the table is `own`, and to be in the database.
///
/// # Errors
/// 1826 for one that comes twice, or that a foreign key of another table has, 1059 for one that is too long.
pub(super) fn check_names(
    snapshot: &Snapshot,
    place: (&str, Option<TableId>),
    keys: &[ForeignKeyDef],
) -> SqlResult<()> {
    if let Some(name) = names::first_twin(keys.iter().map(|key| &*key.name)) {
        return Err(duplicate_name(name));
    }
    let mut keys = keys.iter();
    keys.try_for_each(|key| check_name(snapshot, place, key))
}

/// 1826 for a name that a foreign key of another table than `own` has in the database; 1059 for one that was generated
/// and is too long.
fn check_name(
    snapshot: &Snapshot,
    (schema, own): (&str, Option<TableId>),
    key: &ForeignKeyDef,
) -> SqlResult<()> {
    names::check_length(&key.name)?;
    let Some(entry) = snapshot.schema(schema) else {
        return Ok(());
    };
    let mut others = entry.tables.values().filter(|t| Some(t.id) != own);
    match others.any(|t| t.foreign_key(&key.name).is_some()) {
        true => Err(duplicate_name(&key.name)),
        false => Ok(()),
    }
}

/// 1215.
pub(super) fn cannot_add() -> SqlError {
    error(1215, "Cannot add foreign key constraint".to_owned())
}

/// 3776 for a table that gets an engine without foreign keys, and is at one end of one.
pub(super) fn check_engine(old: &TableDef, engine: StorageEngine) -> SqlResult<()> {
    let is_related = !old.foreign_keys.is_empty() || !old.referenced_by.is_empty();
    match is_related && engine != old.engine && engine == StorageEngine::Memory {
        true => {
            let text = "Cannot change table's storage engine because the table participates in a foreign key constraint.";
            Err(error(3776, text.to_owned()))
        }
        false => Ok(()),
    }
}

/// 1826.
pub(super) fn duplicate_name(name: &str) -> SqlError {
    error(
        1826,
        format!("Duplicate foreign key constraint name '{name}'"),
    )
}

/// Checks what a table's own columns promise its foreign keys.
///
/// # Errors
/// 1830 for NOT NULL columns that are to become NULL, 3823 for columns that a CHECK uses and a cascade changes.
pub(super) fn check_own_columns(
    ctx: &DdlCtx<'_>,
    name: &TableName,
    built: &Built,
) -> SqlResult<()> {
    let child = Shape::built(name, built);
    for key in &built.foreign_keys {
        let columns = child.ordinals(&key.columns);
        let actions = [key.on_delete, key.on_update];
        if actions.contains(&ReferentialAction::SetNull)
            && let Some(&col) = columns.iter().find(|&&c| !built.columns[c].ty.nullable)
        {
            let text = format!(
                "Column '{}' cannot be NOT NULL: needed in a foreign key constraint '{}' SET NULL",
                built.columns[col].name, key.name
            );
            return Err(error(1830, text));
        }
        check_generated(ctx, name, built, key, &columns)?;
        // A default is refused beside a CHECK, too, although nothing sets it.
        let sets = [ReferentialAction::SetNull, ReferentialAction::SetDefault];
        let changes = sets.contains(&key.on_delete)
            || sets.contains(&key.on_update)
            || key.on_update == ReferentialAction::Cascade;
        for check in built.checks.iter().filter(|_| changes) {
            let used = columns_of_stored(ctx.eval, &name.name, &built.columns, &check.text)?;
            if let Some(&col) = columns.iter().find(|c| used.contains(c)) {
                let text = format!(
                    "Column '{}' cannot be used in a check constraint '{}': needed in a foreign key constraint '{}' \
                     referential action.",
                    built.columns[col].name, check.name, key.name
                );
                return Err(error(3823, text));
            }
        }
    }
    Ok(())
}

/// 3104: a cascade gives no value to a generated column.
pub(super) fn check_cascades(name: &TableName, built: &Built) -> SqlResult<()> {
    let child = Shape::built(name, built);
    for key in &built.foreign_keys {
        let clause = match (key.on_update, key.on_delete) {
            (action, _) if action.changes_children() => format!("ON UPDATE {}", action.word()),
            (_, ReferentialAction::SetNull) => "ON DELETE SET NULL".to_owned(),
            _ => continue,
        };
        let columns = child.ordinals(&key.columns);
        if columns
            .iter()
            .any(|&c| built.columns[c].generated.is_some())
        {
            let text =
                format!("Cannot define foreign key with {clause} clause on a generated column.");
            return Err(error(3104, text));
        }
    }
    Ok(())
}

/// A generated column of a key is STORED, and computed from no column that a cascade changes: 3733, 1215.
fn check_generated(
    ctx: &DdlCtx<'_>,
    name: &TableName,
    built: &Built,
    key: &ForeignKeyDef,
    columns: &[usize],
) -> SqlResult<()> {
    for &col in columns {
        check_not_virtual(key, &built.columns[col])?;
    }
    let cascades = key.on_update.changes_children() || key.on_delete.changes_children();
    let generated = built.columns.iter().filter_map(|c| c.generated.as_ref());
    for stored in generated.filter(|g| g.stored && cascades) {
        let used = columns_of_stored(ctx.eval, &name.name, &built.columns, &stored.text)?;
        if columns.iter().any(|c| used.contains(c)) {
            return Err(cannot_add());
        }
    }
    Ok(())
}

/// Checks that a table which comes under this name suits the foreign keys of `snapshot` that wait for it.
///
/// # Errors
/// 1506; 1215 with `foreign_key_checks`, but for 6125; else those of [`check_parent`].
pub(super) fn check_as_parent(
    ctx: &DdlCtx<'_>,
    snapshot: &Snapshot,
    parent: &Shape<'_>,
) -> SqlResult<()> {
    for child in snapshot.tables() {
        let shape = Shape::of(child);
        let is_of_parent = |k: &&ForeignKeyDef| k.is_parent(parent.schema, parent.name);
        if parent.is(&child.schema, &child.name) {
            continue;
        }
        for key in child.foreign_keys.iter().filter(is_of_parent) {
            if parent.is_partitioned {
                return Err(esker_types::errors::partitioned_foreign_key());
            }
            check_parent(ctx, &shape, key, parent).map_err(|e| {
                let has_index = || {
                    let names = key.parent_columns.iter();
                    let columns: Option<Vec<usize>> = names.map(|n| parent.position(n)).collect();
                    columns.is_some_and(|c| parent.key_index(&c).is_some())
                };
                match ctx.foreign_key_checks && !(e.code == 6125 && has_index()) {
                    true => cannot_add(),
                    false => e,
                }
            })?;
        }
    }
    Ok(())
}

/// Foreign keys of other tables to this one.
fn keys_to(ctx: &DdlCtx<'_>, parent: &TableDef) -> Vec<(std::sync::Arc<TableDef>, ForeignKeyDef)> {
    let mut out = Vec::new();
    for referrer in &parent.referenced_by {
        let child = ctx.catalog.resolve(&referrer.schema, &referrer.table);
        let Some(child) = child.filter(|child| child.id != parent.id) else {
            continue;
        };
        for key in child.foreign_keys.iter().filter(|k| k.refers_to(parent)) {
            out.push((child.clone(), key.clone()));
        }
    }
    out
}

/// 3730 where tables that stay refer to one that goes.
pub(super) fn check_unreferenced(
    ctx: &DdlCtx<'_>,
    def: &TableDef,
    goes: &dyn Fn(&TableDef) -> bool,
) -> SqlResult<()> {
    if !ctx.foreign_key_checks {
        return Ok(());
    }
    for (child, key) in keys_to(ctx, def) {
        if !goes(&child) {
            let text = format!(
                "Cannot drop table '{}' referenced by a foreign key constraint '{}' on table '{}'.",
                def.name, key.name, child.name
            );
            return Err(error(3730, text));
        }
    }
    Ok(())
}

/// 1701 where other tables refer to one that is to be emptied.
pub(super) fn check_truncate(ctx: &DdlCtx<'_>, def: &TableDef) -> SqlResult<()> {
    let referrers = keys_to(ctx, def);
    match referrers.first().filter(|_| ctx.foreign_key_checks) {
        None => Ok(()),
        Some((child, key)) => {
            let text = format!(
                "Cannot truncate a table referenced in a foreign key constraint (`{}`.`{}`, CONSTRAINT `{}`)",
                child.schema, child.name, key.name
            );
            Err(SqlError::new(1701, "42000", text))
        }
    }
}

/// Takes the locks, and again as long as `wanted` wants more: definitions may have changed meanwhile.
pub(super) fn lock_related(
    ctx: &mut DdlCtx<'_>,
    own: &[TableName],
    wanted: &dyn Fn(&DdlCtx<'_>) -> Wanted,
) -> Result<(), ExecError> {
    let mut before = Wanted::new();
    loop {
        let now = wanted(ctx);
        if now == before {
            return Ok(());
        }
        ctx.lock_all(own, &now)?;
        before = now;
    }
}

/// A table's foreign keys under a new name of it: generated names follow, and so do keys to itself.
pub(super) fn rename_keys(keys: &mut [ForeignKeyDef], table: &TableDef, to: &TableName) {
    let prefix = format!("{}_ibfk_", table.name);
    for key in keys {
        if let Some(number) = names::behind(&key.name, &prefix) {
            key.name = format!("{}_ibfk_{number}", to.name).into();
        }
        if key.is_parent(&table.schema, &table.name) {
            key.parent = (to.schema.as_str().into(), to.name.as_str().into());
        }
    }
}

/// Foreign keys of other tables follow a table to its new name.
pub(super) fn follow_rename(
    change: &mut Change<'_>,
    old: &TableDef,
    new: &TableDef,
) -> SqlResult<()> {
    let refers = |t: &TableDef| t.id != old.id && t.foreign_keys.iter().any(|k| k.refers_to(old));
    let children: Vec<_> = change
        .snapshot()
        .tables()
        .filter(|t| refers(t))
        .map(|t| TableDef::clone(t))
        .collect();
    for mut child in children {
        let keys = child.foreign_keys.iter_mut();
        for key in keys.filter(|k| k.refers_to(old)) {
            key.parent = (new.schema.clone(), new.name.clone());
        }
        change.put_table(child)?;
    }
    Ok(())
}
