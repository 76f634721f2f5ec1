//! IF EXISTS and IF NOT EXISTS of the single actions of ALTER TABLE, as MariaDB has them: which actions are left out.
//!
//! Neighbours: the parser makes [`AlterAction::Conditional`] of them, `edit` applies what is left.
//! **Invariants**
//! - Locks are taken for the actions without their conditions: which of them hold is known under the lock only.
//! - As in MariaDB, what counts is the table as it was before the statement: what the statement drops is still there
//!   for IF NOT EXISTS. Only what two actions drop, or add, counts once.

use std::borrow::Cow;

use esker_sql_catalog::catalog::{TableDef, same_name};
use esker_sql_syntax::ast::{
    AlterAction, ForeignKey, Ident, IndexKind, IndexSpec, KeyPartKind, PartitionAction,
};
use esker_types::{SqlError, errors};

use super::edit::cannot_drop;
use super::{DdlCtx, checks, foreign, index_named};
use crate::ddl::draft::PRIMARY;

/// The actions without their conditions.
pub(super) fn bare(actions: &[AlterAction]) -> Cow<'_, [AlterAction]> {
    match has_condition(actions) {
        true => actions.iter().map(|action| action.bare().clone()).collect(),
        false => actions.into(),
    }
}

/// The actions whose conditions hold for the table, without them; the others leave notes.
pub(super) fn settled<'a>(
    ctx: &DdlCtx<'_>,
    old: &TableDef,
    actions: &'a [AlterAction],
) -> Cow<'a, [AlterAction]> {
    if !has_condition(actions) {
        return actions.into();
    }
    let mut kept: Vec<AlterAction> = Vec::with_capacity(actions.len());
    for action in actions {
        let bare = action.bare();
        let objections = match action {
            AlterAction::Conditional(_) => objections(old, bare, &kept),
            _ => Vec::new(),
        };
        if objections.is_empty() {
            kept.push(bare.clone());
            continue;
        }
        for why in objections {
            ctx.note(why.code, why.message);
        }
        kept.extend(rest(old, bare));
    }
    kept.into()
}

fn has_condition(actions: &[AlterAction]) -> bool {
    let is_conditional = |action: &AlterAction| matches!(action, AlterAction::Conditional(_));
    actions.iter().any(is_conditional)
}

/// Why an action is left out behind those that are kept, if it is: what it is about does not exist, or what it adds
/// does.
fn objections(old: &TableDef, action: &AlterAction, kept: &[AlterAction]) -> Vec<SqlError> {
    let objection = match action {
        AlterAction::DropColumn(name)
        | AlterAction::DropIndex(name)
        | AlterAction::DropForeignKey(name)
        | AlterAction::DropConstraint(name) => {
            let part = dropped(old, action);
            let is_gone = part.is_none() || kept.iter().any(|other| dropped(old, other) == part);
            is_gone.then(|| cannot_drop(&name.text))
        }
        AlterAction::ModifyColumn { def, .. } => no_column(old, &def.name),
        AlterAction::ChangeColumn { old: name, .. }
        | AlterAction::RenameColumn { old: name, .. }
        | AlterAction::SetDefault { column: name, .. }
        | AlterAction::SetColumnVisible { column: name, .. }
        | AlterAction::DropDefault(name) => no_column(old, name),
        AlterAction::RenameIndex { old: name, .. }
        | AlterAction::SetIndexVisible { index: name, .. } => no_index(old, name),
        AlterAction::AddColumn { def, .. } => {
            let is_it = |other: &AlterAction| matches!(other, AlterAction::AddColumn { def: d, .. } if d.name.is(&def.name.text));
            let is_there = old.column_index(&def.name.text).is_some() || kept.iter().any(is_it);
            is_there.then(|| errors::duplicate_column(&def.name.text))
        }
        AlterAction::AddIndex(spec) => same_index(old, spec, kept),
        AlterAction::AddForeignKey(key) => same_foreign_key(old, key, kept),
        AlterAction::AddCheck(check) => {
            let name = check.name.as_ref().map(|name| &*name.text);
            let name = name.filter(|name| old.checks.iter().any(|c| same_name(&c.name, name)));
            name.map(checks::duplicate_name)
        }
        AlterAction::Partition(action) => return of_partitions(old, action),
        other => unreachable!("{other:?} has no condition"),
    };
    objection.into_iter().collect()
}

/// A part of the table as it was: its place among those of its kind.
#[derive(PartialEq)]
enum Part {
    Column(usize),
    Index(usize),
    ForeignKey(usize),
    Check(usize),
}

/// What an action drops, if it exists.
fn dropped(old: &TableDef, action: &AlterAction) -> Option<Part> {
    let index = |name: &str| index_named(old, name).map(Part::Index);
    let foreign_key = |name: &Ident| foreign_key_named(old, name).map(Part::ForeignKey);
    let check = |name: &Ident| {
        let mut checks = old.checks.iter();
        checks
            .position(|check| same_name(&check.name, &name.text))
            .map(Part::Check)
    };
    match action {
        AlterAction::DropColumn(name) => old.column_index(&name.text).map(Part::Column),
        AlterAction::DropIndex(name) => index(&name.text),
        AlterAction::DropPrimaryKey => index(PRIMARY),
        AlterAction::DropForeignKey(name) => foreign_key(name),
        AlterAction::DropCheck(name) => check(name),
        AlterAction::DropConstraint(name) => {
            let unique = index_named(old, &name.text).filter(|at| old.indexes[*at].unique);
            let unique = unique.map(Part::Index);
            unique.or_else(|| foreign_key(name)).or_else(|| check(name))
        }
        _ => None,
    }
}

fn foreign_key_named(old: &TableDef, name: &Ident) -> Option<usize> {
    let mut keys = old.foreign_keys.iter();
    keys.position(|key| same_name(&key.name, &name.text))
}

fn no_column(old: &TableDef, name: &Ident) -> Option<SqlError> {
    let is_there = old.column_index(&name.text).is_some();
    (!is_there).then(|| errors::unknown_column(&name.text, &old.name))
}

fn no_index(old: &TableDef, name: &Ident) -> Option<SqlError> {
    let is_there = index_named(old, &name.text).is_some();
    (!is_there).then(|| errors::unknown_key(&name.text, &old.name))
}

/// An index without a name counts as one with that of its first column.
fn same_index(old: &TableDef, spec: &IndexSpec, kept: &[AlterAction]) -> Option<SqlError> {
    let name = name_of_index(spec)?;
    let is_it = |other: &AlterAction| matches!(other, AlterAction::AddIndex(other) if name_of_index(other).is_some_and(|n| same_name(n, name)));
    let is_there = index_named(old, name).is_some() || kept.iter().any(is_it);
    is_there.then(|| match spec.kind {
        IndexKind::Primary => errors::multiple_primary_keys(),
        _ => errors::duplicate_key_name(name),
    })
}

fn name_of_index(spec: &IndexSpec) -> Option<&str> {
    match (&spec.name, spec.parts.first().map(|part| &part.what)) {
        _ if spec.kind == IndexKind::Primary => Some(PRIMARY),
        (Some(name), _) | (None, Some(KeyPartKind::Column(name, _))) => Some(&name.text),
        _ => None,
    }
}

fn same_foreign_key(old: &TableDef, key: &ForeignKey, kept: &[AlterAction]) -> Option<SqlError> {
    let name = name_of_key(key)?;
    let is_it = |other: &AlterAction| matches!(other, AlterAction::AddForeignKey(other) if name_of_key(other).is_some_and(|n| n.is(&name.text)));
    let is_there = foreign_key_named(old, name).is_some() || kept.iter().any(is_it);
    is_there.then(|| foreign::duplicate_name(&name.text))
}

/// As in MariaDB the name behind FOREIGN KEY counts before that of the constraint, and without both that of the first
/// column.
fn name_of_key(key: &ForeignKey) -> Option<&Ident> {
    let first = || key.columns.first().map(|(name, _)| name);
    key.index.as_ref().or(key.name.as_ref()).or_else(first)
}

/// One of several partitions that is there already stands for all that are added; of those that are dropped each one
/// that is not there is named.
fn of_partitions(old: &TableDef, action: &PartitionAction) -> Vec<SqlError> {
    if old.partitioning.is_none() {
        // That is an error, whatever the condition.
        return Vec::new();
    }
    match action {
        PartitionAction::Add(specs, _) => {
            let mut names = specs.iter().map(|spec| &spec.name);
            let there = names.find(|name| has_partition(old, name));
            there
                .map(|name| errors::duplicate_partition(&name.text))
                .into_iter()
                .collect()
        }
        PartitionAction::Drop(names) => {
            let missing = names.iter().filter(|name| !has_partition(old, name));
            missing
                .map(|_| errors::partitions_not_found("DROP"))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// What is left of an action that is not done as it is written: partitions that are there are dropped without the rest.
fn rest(old: &TableDef, action: &AlterAction) -> Option<AlterAction> {
    let AlterAction::Partition(PartitionAction::Drop(names)) = action else {
        return None;
    };
    let found = names.iter().filter(|name| has_partition(old, name));
    let found: Vec<Ident> = found.cloned().collect();
    (!found.is_empty()).then_some(AlterAction::Partition(PartitionAction::Drop(found)))
}

fn has_partition(old: &TableDef, name: &Ident) -> bool {
    let mut partitions = old.partitioning.iter().flat_map(|p| &p.partitions);
    partitions.any(|partition| same_name(&partition.item.name, &name.text))
}

#[cfg(test)]
mod tests;
