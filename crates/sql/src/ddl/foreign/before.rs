//! Foreign keys around a table that is altered: what they need of it stays, and they follow new names of columns.
//!
//! Neighbours: `alter` has drawn up the new definition and asks here before it publishes; [`super`] checks the foreign
//! keys that the table gets.
//! **Invariant**: a key that an ALTER TABLE does not name has its indexes on both sides and columns of compatible types
//! behind it, as it had before.

use esker_sql_catalog::catalog::{ColumnDef, ForeignKeyDef, TableDef};
use esker_types::{SqlError, SqlResult, TypeKind};

use super::super::DdlCtx;
use super::super::draft_finish::Built;
use super::super::names::TableName;
use super::{Shape, are_compatible, error, incompatible, keys_to};

/// A table before and after an ALTER TABLE.
pub(in crate::ddl) struct Before<'a> {
    pub(in crate::ddl) old: &'a TableDef,
    pub(in crate::ddl) name: &'a TableName,
    pub(in crate::ddl) built: &'a Built,
}

impl Before<'_> {
    /// The column that a column of the old table has become.
    fn now(&self, old: usize) -> Option<&ColumnDef> {
        let id = self.old.columns[old].id;
        self.built.columns.iter().find(|c| c.id == id)
    }

    /// A column that is stored otherwise than before, where rows would have to be looked at again.
    fn is_converted(&self, old: usize) -> bool {
        let before = &self.old.columns[old].ty;
        self.now(old).is_some_and(|now| {
            let is_longer = before.kind == TypeKind::VarChar
                && now.ty.kind == TypeKind::VarChar
                && now.ty.length >= before.length
                && now.ty.collation == before.collation;
            now.ty.clone().with_nullable(before.nullable) != *before && !is_longer
        })
    }

    fn dropped_index(&self, columns: &[usize]) -> SqlError {
        let index = self.old.key_index(columns);
        let name = index.map_or("", |i| &*self.old.indexes[i.at].name);
        let text = format!("Cannot drop index '{name}': needed in a foreign key constraint");
        error(1553, text)
    }

    /// Checks that the foreign keys which the table has keep what they need.
    ///
    /// # Errors
    /// 1553, 1832, 3780.
    pub(in crate::ddl) fn check_own_keys(&self, ctx: &DdlCtx<'_>) -> SqlResult<()> {
        let shape = Shape::built(self.name, self.built);
        let is_old = |k: &&ForeignKeyDef| !self.built.new_keys.contains(&k.name);
        for key in self.built.foreign_keys.iter().filter(is_old) {
            let before = key.child_columns(self.old);
            if shape.key_index(&shape.ordinals(&key.columns)).is_none() {
                return Err(self.dropped_index(&before));
            }
            let parent = ctx.catalog.resolve(&key.parent.0, &key.parent.1);
            let is_own = key.refers_to(self.old);
            if !is_own && let Some(parent) = &parent {
                self.check_types(key, &shape, &Shape::of(parent), &key.parent_columns)?;
            }
            let converted = before.iter().find(|c| self.is_converted(**c));
            if let Some(&col) = converted.filter(|_| ctx.foreign_key_checks) {
                let text = format!(
                    "Cannot change column '{}': used in a foreign key constraint '{}'",
                    self.old.columns[col].name, key.name
                );
                return Err(error(1832, text));
            }
            if is_own {
                let names = self.renamed_columns(key);
                self.check_types(key, &shape, &shape, &names)?;
                self.check_parent_index(key)?;
            }
        }
        Ok(())
    }

    fn check_types(
        &self,
        key: &ForeignKeyDef,
        child: &Shape<'_>,
        parent: &Shape<'_>,
        names: &[Box<str>],
    ) -> SqlResult<()> {
        let columns = child.ordinals(&key.columns);
        for (&col, name) in columns.iter().zip(names) {
            let to = parent.position(name).map(|at| &parent.columns[at]);
            let from = &child.columns[col];
            if let Some(to) = to.filter(|to| !are_compatible(&from.ty, &to.ty)) {
                return Err(incompatible(from, to, key));
            }
        }
        Ok(())
    }

    fn check_parent_index(&self, key: &ForeignKeyDef) -> SqlResult<()> {
        let Some(before) = key.parent_ordinals(self.old) else {
            return Ok(());
        };
        let shape = Shape::built(self.name, self.built);
        let ids: Vec<u32> = before.iter().map(|&c| self.old.columns[c].id).collect();
        let now = shape.key_index(&shape.ordinals(&ids));
        let was_whole = self.old.key_index(&before).map(|i| i.is_whole_unique);
        match (was_whole, now) {
            (None, _) => Ok(()),
            (Some(was_whole), Some(now)) if now.is_whole_unique || !was_whole => Ok(()),
            _ => Err(self.dropped_index(&before)),
        }
    }

    /// Checks that children of the table keep what they need of it.
    ///
    /// # Errors
    /// 1829, 1553, 3780, 1833.
    pub(in crate::ddl) fn check_children(&self, ctx: &DdlCtx<'_>) -> SqlResult<()> {
        let shape = Shape::built(self.name, self.built);
        for (child, key) in keys_to(ctx, self.old) {
            let Some(columns) = key.parent_ordinals(self.old) else {
                continue;
            };
            if let Some(&gone) = columns.iter().find(|c| self.now(**c).is_none()) {
                let text = format!(
                    "Cannot drop column '{}': needed in a foreign key constraint '{}' of table '{}'",
                    self.old.columns[gone].name, key.name, child.name
                );
                return Err(error(1829, text));
            }
            let names = self.renamed_columns(&key);
            self.check_types(&key, &Shape::of(&child), &shape, &names)?;
            self.check_parent_index(&key)?;
            let converted = columns.iter().find(|c| self.is_converted(**c));
            if let Some(&col) = converted.filter(|_| ctx.foreign_key_checks) {
                let text = format!(
                    "Cannot change column '{}': used in a foreign key constraint '{}' of table '{}.{}'",
                    self.old.columns[col].name, key.name, child.schema, child.name
                );
                return Err(error(1833, text));
            }
        }
        Ok(())
    }

    /// The parent's columns of a key to this table, as they are called now.
    fn renamed_columns(&self, key: &ForeignKeyDef) -> Vec<Box<str>> {
        let now = |name: &str| {
            let now = self.old.column_index(name).and_then(|c| self.now(c));
            now.map_or(name, |c| &c.name).into()
        };
        key.parent_columns.iter().map(|name| now(name)).collect()
    }

    /// Children whose foreign keys have to follow new names of columns, edited.
    pub(in crate::ddl) fn renamed_children(&self, ctx: &DdlCtx<'_>) -> Vec<TableDef> {
        let mut out: Vec<TableDef> = Vec::new();
        for (child, key) in keys_to(ctx, self.old) {
            let names = self.renamed_columns(&key);
            if names == key.parent_columns {
                continue;
            }
            let at = match out.iter().position(|c| c.id == child.id) {
                Some(at) => at,
                None => {
                    out.push(TableDef::clone(&child));
                    out.len() - 1
                }
            };
            if let Some(key) = out[at].foreign_keys.iter_mut().find(|k| k.name == key.name) {
                key.parent_columns = names;
            }
        }
        out
    }

    /// The table's foreign keys to itself follow new names of columns.
    pub(in crate::ddl) fn rename_own(&self, keys: &mut [ForeignKeyDef]) {
        let is_old = |k: &ForeignKeyDef| !self.built.new_keys.contains(&k.name);
        let own = keys.iter_mut();
        for key in own.filter(|k| is_old(k) && k.refers_to(self.old)) {
            key.parent_columns = self.renamed_columns(key);
        }
    }
}
