//! Actions on indexes, CHECK constraints and foreign keys.
//!
//! Neighbours: `edit` applies the others, and drops what goes with a column.
//! **Invariant**: an index or a constraint that goes with its column may be dropped by name in the same statement.

use esker_sql_syntax::ast::{self, AlterAction, Ident};
use esker_types::{SqlError, SqlResult, errors};

use super::super::super::draft::{DraftIndex, PRIMARY};
use super::super::super::names;
use super::super::index_named;
use super::{Edit, cannot_drop};
use esker_sql_catalog::catalog::same_name;

impl Edit<'_> {
    /// Draft position of an index that the table had before.
    fn index(&self, name: &str) -> Option<usize> {
        let old = &self.old.indexes[index_named(self.old, name)?];
        // One in which a new column has the place of another of its name is built anew, and still the same index.
        let is_it = |i: &DraftIndex| match i.existing {
            Some(id) => id == old.id,
            None => !i.is_written && i.name.as_ref() == Some(&old.name),
        };
        self.draft.indexes.iter().position(is_it)
    }

    /// Applies an action on an index or a constraint.
    pub(super) fn apply_to_keys(&mut self, action: &AlterAction) -> SqlResult<()> {
        match action {
            AlterAction::AddIndex(spec) => self.add_index(spec),
            AlterAction::AddCheck(check) => {
                self.context.new_checks.push(
                    check
                        .name
                        .as_ref()
                        .map_or_else(Box::default, |n| n.text.clone()),
                );
                self.draft.add_check(check, None)
            }
            AlterAction::DropIndex(name) => self.drop_index(&name.text),
            AlterAction::DropPrimaryKey => self.drop_index(PRIMARY),
            AlterAction::DropCheck(name) => self.drop_check(&name.text),
            AlterAction::DropConstraint(name) => self.drop_constraint(&name.text),
            AlterAction::RenameIndex { old, new } => self.rename_index(old, new),
            AlterAction::SetIndexVisible { index, visible } => {
                self.set_index_visible(&index.text, *visible)
            }
            AlterAction::SetEnforced { name, enforced } => self.set_enforced(&name.text, *enforced),
            AlterAction::DropForeignKey(name) => match self.draft.key_position(&name.text) {
                Some(at) => {
                    self.draft.foreign_keys.remove(at);
                    Ok(())
                }
                None => Err(cannot_drop(&name.text)),
            },
            AlterAction::AddForeignKey(key) => self.add_foreign_key(key),
            other => unreachable!("{other:?} is about no key"),
        }
    }

    /// Where the statement moves the table as well, parents without a database are of that one.
    fn add_foreign_key(&mut self, key: &ast::ForeignKey) -> SqlResult<()> {
        self.draft.add_foreign_key(key, &self.to.schema)?;
        // A name of its own that the table is only to get is not one for itself, as in MySQL.
        if *self.to.name == *self.old.name
            && let Some(key) = self.draft.foreign_keys.last_mut()
        {
            key.turn_to_itself(self.to, self.old);
        }
        Ok(())
    }

    fn add_index(&mut self, spec: &ast::IndexSpec) -> SqlResult<()> {
        // Functional parts are columns of their own.
        let first = self.draft.next_column_id;
        self.draft
            .add_index(self.ctx.eval, spec, self.ctx.rules_of(spec)?)?;
        self.context.added.extend(first..self.draft.next_column_id);
        Ok(())
    }

    fn drop_index(&mut self, name: &str) -> SqlResult<()> {
        match self.index(name) {
            Some(at) => {
                self.draft.indexes.remove(at);
                Ok(())
            }
            None if self.went_with_columns(name) => Ok(()),
            None => Err(cannot_drop(name)),
        }
    }

    /// Did the statement drop all columns of an index, and the index with them?
    fn went_with_columns(&self, name: &str) -> bool {
        let Some(at) = index_named(self.old, name) else {
            return false;
        };
        let is_gone = |col: usize| {
            let id = self.old.columns[col].id;
            self.draft.columns.iter().all(|c| c.def.id != id)
        };
        self.old.indexes[at].parts.iter().all(|p| is_gone(p.col))
    }

    pub(super) fn check_position(&self, name: &str) -> Option<usize> {
        self.draft
            .checks
            .iter()
            .position(|c| same_name(&c.name, name))
    }

    fn drop_check(&mut self, name: &str) -> SqlResult<()> {
        let at = self.check_position(name);
        let at = at.ok_or_else(|| errors::unknown_check(name))?;
        self.draft.checks.remove(at);
        Ok(())
    }

    fn drop_constraint(&mut self, name: &str) -> SqlResult<()> {
        let index = self.index(name);
        let is_unique = index.is_some_and(|at| self.draft.indexes[at].unique);
        let (check, key) = (self.check_position(name), self.draft.key_position(name));
        match (check, key, is_unique) {
            (None, None, false) => Err(errors::unknown_constraint(name)),
            (Some(_), None, false) => self.drop_check(name),
            (None, Some(at), false) => {
                self.draft.foreign_keys.remove(at);
                Ok(())
            }
            (None, None, true) => self.drop_index(name),
            _ => Err(errors::several_constraints(name, "DROP")),
        }
    }

    fn missing_key(&self, name: &str) -> SqlError {
        errors::unknown_key(name, &self.old.name)
    }

    /// Draft position of an index that the table had before, and that still has its name.
    ///
    /// # Errors
    /// 1176.
    fn named_index(&self, name: &str) -> SqlResult<usize> {
        let is_renamed = |at: &usize| {
            let now = self.draft.indexes[*at].name.as_deref();
            now.is_some_and(|now| !same_name(now, name))
        };
        let at = self.index(name).filter(|at| !is_renamed(at));
        at.ok_or_else(|| self.missing_key(name))
    }

    fn rename_index(&mut self, old: &Ident, new: &Ident) -> SqlResult<()> {
        names::check_index(&new.text)?;
        if old.is(PRIMARY) {
            return Err(errors::wrong_index_name("PRIMARY"));
        }
        let at = self.named_index(&old.text)?;
        let index = &mut self.draft.indexes[at];
        index.name = Some((&*new.text).into());
        // Who names it wants it: it does not make way for another one any more.
        index.generated = false;
        Ok(())
    }

    fn set_index_visible(&mut self, name: &str, visible: bool) -> SqlResult<()> {
        let at = self.named_index(name)?;
        if self.draft.indexes[at].primary && !visible {
            return Err(errors::invisible_primary_key());
        }
        self.draft.indexes[at].invisible = !visible;
        Ok(())
    }

    fn set_enforced(&mut self, name: &str, enforced: bool) -> SqlResult<()> {
        let at = self.check_position(name);
        let at = at.ok_or_else(|| errors::unknown_check(name))?;
        if enforced && !self.draft.checks[at].enforced {
            self.context
                .new_checks
                .push(self.draft.checks[at].name.clone());
        }
        self.draft.checks[at].enforced = enforced;
        Ok(())
    }
}
