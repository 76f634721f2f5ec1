//! Foreign keys of a table being drawn up.
//!
//! Neighbours: [`super::draft`] has the table; `super::foreign` checks the finished keys against other tables.
//! **Invariants**: every key brings an index of its own, made for it; when the draft is finished, such an index goes if
//! another one begins with the same columns; keys without a name are numbered behind those the table has.

use std::sync::Arc;

use esker_sql_catalog::catalog::{
    ForeignKeyDef, IndexPart, ReferentialAction, TableDef, same_name,
};
use esker_sql_syntax::ast::{self, RefAction};
use esker_types::{SqlError, SqlResult};

use super::draft::{Draft, DraftIndex, DraftPart, PartColumn};
use super::foreign::{cannot_add, duplicate_name};
use super::names::{self, TableName};

/// A foreign key of a draft.
#[derive(Debug, Clone)]
pub(super) struct DraftKey {
    /// `None`: numbered when the draft is finished.
    pub(super) name: Option<Box<str>>,
    columns: Vec<PartColumn>,
    parent: (Arc<str>, Arc<str>),
    parent_columns: Vec<Box<str>>,
    on_delete: ReferentialAction,
    on_update: ReferentialAction,
    is_new: bool,
    /// One of its columns is written with the length of a prefix.
    has_prefix: bool,
}

fn action_of(action: Option<RefAction>) -> ReferentialAction {
    match action {
        None | Some(RefAction::NoAction) => ReferentialAction::NoAction,
        Some(RefAction::Restrict) => ReferentialAction::Restrict,
        Some(RefAction::Cascade) => ReferentialAction::Cascade,
        Some(RefAction::SetNull) => ReferentialAction::SetNull,
        Some(RefAction::SetDefault) => ReferentialAction::SetDefault,
    }
}

/// The greatest number of a generated name of a foreign key.
pub(super) fn last_key(def: &TableDef) -> u64 {
    let prefix = format!("{}_ibfk_", def.name);
    let number = |key: &ForeignKeyDef| {
        let number = key.name.strip_prefix(&prefix)?;
        number.parse().ok().filter(|_| !number.starts_with('0'))
    };
    def.foreign_keys
        .iter()
        .filter_map(number)
        .max()
        .unwrap_or(0)
}

impl DraftKey {
    /// A key to what the table is to be called is one to itself.
    pub(super) fn turn_to_itself(&mut self, to: &TableName, old: &TableDef) {
        if *self.parent.0 == *to.schema && *self.parent.1 == *to.name {
            self.parent = (old.schema.clone(), old.name.clone());
        }
    }

    /// A key that a table has.
    pub(super) fn of(key: &ForeignKeyDef) -> Self {
        Self {
            name: Some(key.name.clone()),
            columns: key.columns.iter().map(|id| PartColumn::Id(*id)).collect(),
            parent: key.parent.clone(),
            parent_columns: key.parent_columns.clone(),
            on_delete: key.on_delete,
            on_update: key.on_update,
            is_new: false,
            has_prefix: false,
        }
    }
}

impl Draft {
    /// Adds a foreign key as written in a statement about a table of `schema`.
    pub(super) fn add_foreign_key(&mut self, key: &ast::ForeignKey, schema: &str) -> SqlResult<()> {
        let name = key.name.as_ref().map(|n| n.text.clone());
        for name in [&key.name, &key.index].into_iter().flatten() {
            names::check_index(&name.text)?;
        }
        if key.columns.len() != key.ref_columns.len() {
            let name = name.as_deref().unwrap_or("foreign key without name");
            let text = format!(
                "Incorrect foreign key definition for '{name}': Key reference and table reference don't match"
            );
            return Err(SqlError::new(1239, "42000", text));
        }
        let part = |(column, prefix_len): &(ast::Ident, Option<u64>)| DraftPart {
            column: PartColumn::Name(column.text.clone()),
            prefix_len: *prefix_len,
            desc: false,
        };
        let parts: Vec<DraftPart> = key.columns.iter().map(part).collect();
        let columns = parts.iter().map(|part| part.column.clone()).collect();
        let has_prefix = parts.iter().any(|part| part.prefix_len.is_some());
        let index_name = name.as_deref().or(key.index.as_ref().map(|i| &*i.text));
        self.indexes.push(DraftIndex {
            name: index_name.map(Into::into),
            unique: false,
            primary: false,
            invisible: false,
            generated: true,
            parts,
            comment: Box::default(),
            using: None,
            fulltext: None,
            spatial: false,
            is_outdated: false,
            is_written: false,
            existing: None,
        });
        let of_parent = key.table.schema.as_ref().map_or(schema, |s| &*s.text);
        self.foreign_keys.push(DraftKey {
            name,
            columns,
            parent: (of_parent.into(), (&*key.table.name.text).into()),
            parent_columns: key.ref_columns.iter().map(|c| c.text.clone()).collect(),
            on_delete: action_of(key.on_delete),
            on_update: action_of(key.on_update),
            is_new: true,
            has_prefix,
        });
        Ok(())
    }

    /// Takes out indexes that were made for a foreign key and are not needed beside another one. `parts` are those of
    /// all indexes.
    pub(super) fn drop_redundant(&mut self, parts: &mut Vec<Vec<IndexPart>>) {
        let mut is_redundant = vec![false; self.indexes.len()];
        for at in 0..self.indexes.len() {
            for earlier in 0..at {
                let (a, b) = (&self.indexes[earlier], &self.indexes[at]);
                let is_either_fulltext = a.fulltext.is_some() || b.fulltext.is_some();
                if is_redundant[earlier] || is_either_fulltext || !(a.generated || b.generated) {
                    continue;
                }
                let begins = |short: usize, long: usize| parts[long].starts_with(&parts[short]);
                // Of two that were made for keys the longer one stays, or the later one.
                if a.generated && begins(earlier, at) {
                    is_redundant[earlier] = true;
                } else if b.generated && begins(at, earlier) {
                    is_redundant[at] = true;
                    break;
                }
            }
        }
        let mut redundant = is_redundant.iter();
        parts.retain(|_| !redundant.next().is_some_and(|r| *r));
        let mut redundant = is_redundant.iter();
        self.indexes
            .retain(|_| !redundant.next().is_some_and(|r| *r));
    }

    /// The finished keys, and the names of the new ones.
    ///
    /// # Errors
    /// 1215 for a prefix of a column, 1826 for a new name that comes twice.
    pub(super) fn finish_keys(&self) -> SqlResult<(Vec<ForeignKeyDef>, Vec<Box<str>>)> {
        let prefix = format!("{}_ibfk_", self.name);
        let mut last = self.last_key;
        let mut keys: Vec<ForeignKeyDef> = Vec::with_capacity(self.foreign_keys.len());
        let mut new: Vec<Box<str>> = Vec::new();
        if self.foreign_keys.iter().any(|key| key.has_prefix) {
            return Err(cannot_add());
        }
        for key in &self.foreign_keys {
            let name = key.name.clone().unwrap_or_else(|| {
                last = last.saturating_add(1);
                format!("{prefix}{last}").into()
            });
            if key.is_new {
                if new.iter().any(|n| same_name(n, &name)) {
                    return Err(duplicate_name(&name));
                }
                new.push(name.clone());
            }
            let columns = key.columns.iter();
            keys.push(ForeignKeyDef {
                name,
                columns: columns.filter_map(|c| self.column_id(c)).collect(),
                parent: key.parent.clone(),
                parent_columns: key.parent_columns.clone(),
                on_delete: key.on_delete,
                on_update: key.on_update,
            });
        }
        debug_assert!(
            keys.iter()
                .all(|k| k.columns.len() == k.parent_columns.len())
        );
        Ok((keys, new))
    }

    /// 1828 for a column of the old table that is gone, while a foreign key needs it.
    pub(super) fn check_dropped_columns(&self, old: &TableDef) -> SqlResult<()> {
        for key in &self.foreign_keys {
            let gone = key.columns.iter().find_map(|column| match column {
                PartColumn::Id(id) if self.column_id(column).is_none() => Some(*id),
                _ => None,
            });
            if let Some(id) = gone {
                let column = old.columns.iter().find(|c| c.id == id);
                let text = format!(
                    "Cannot drop column '{}': needed in a foreign key constraint '{}'",
                    column.map_or("", |c| &*c.name),
                    key.name.as_deref().unwrap_or_default()
                );
                return Err(SqlError::new(1828, "HY000", text));
            }
        }
        Ok(())
    }

    /// Position of the foreign key of this name that the table has.
    pub(super) fn key_position(&self, name: &str) -> Option<usize> {
        let has_name = |n: &str| same_name(n, name);
        let is_it = |k: &DraftKey| !k.is_new && k.name.as_deref().is_some_and(has_name);
        self.foreign_keys.iter().position(is_it)
    }

    /// Tables of some engines keep no foreign keys; the indexes stay.
    pub(super) fn forget_new_keys(&mut self) {
        self.foreign_keys.retain(|key| !key.is_new);
    }
}
