//! Foreign keys that a table gets while it has rows: none of them may be without a parent, whoever changes rows of
//! either table meanwhile.
//!
//! Neighbours: `ddl` reads the rows of the child, and in rounds what has changed since, and asks here; [`super::plan`]
//! says which tables and indexes are met.
//! **Invariant**: what holds at one snapshot and for every change up to a later one holds at the later one: a row of
//! the child that changes needs a parent, and a parent that goes needs to have had no children, or another one in its
//! place.

use std::sync::Arc;

use esker_engine::{Direction, Tree, Txn, View};
use esker_sql_catalog::catalog::TableDef;
use esker_sql_catalog::codec::{KeyRange, RowReader, UTC};
use esker_sql_catalog::exec_error::engine_error;
use esker_types::SqlResult;

use super::enforce::{has_null, key_of, same_fields};
use super::no_parent;
use super::plan::{ForeignKeyPlan, Lookup, ParentLink, RowEffects};

/// How a table is read.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'t> {
    pub(crate) txn: &'t Txn,
    pub(crate) view: View,
}

impl Seen<'_> {
    /// Is there an entry that begins like this?
    fn has(self, tree: &Tree, beginning: Vec<u8>) -> SqlResult<bool> {
        let range = KeyRange::prefix(beginning);
        let (lower, upper) = (range.lower(), range.upper());
        let entries = self
            .txn
            .scan(tree, lower, upper, Direction::Forward, self.view);
        let mut entries = entries.map_err(|e| engine_error(&e))?;
        Ok(entries.next().map_err(|e| engine_error(&e))?.is_some())
    }
}

/// New foreign keys of a table.
pub(crate) struct NewKeys<'n> {
    plan: ForeignKeyPlan,
    names: &'n [Box<str>],
}

impl<'n> NewKeys<'n> {
    /// The foreign keys of these names, of a table as it will be.
    pub(crate) fn new(lookup: &Lookup<'_>, child: Arc<TableDef>, names: &'n [Box<str>]) -> Self {
        let effects = RowEffects {
            inserts: true,
            ..RowEffects::default()
        };
        Self {
            plan: ForeignKeyPlan::new(lookup, vec![(child, effects)]),
            names,
        }
    }

    fn child(&self) -> &TableDef {
        &self.plan.nodes[0].table
    }

    fn links(&self) -> impl Iterator<Item = &ParentLink> {
        let node = &self.plan.nodes[0];
        let links = node.parents.iter();
        links.filter(|link| self.names.contains(&node.key(link.key).name))
    }

    /// The parents, once for every key that has one.
    pub(crate) fn parents(&self) -> impl Iterator<Item = &Arc<TableDef>> {
        let parents = self.links().filter_map(|link| link.parent.as_ref());
        parents.map(|(parent, _)| parent)
    }

    /// Checks a row of the child.
    ///
    /// # Errors
    /// 1452.
    pub(crate) fn check(&self, seen: Seen<'_>, stored: &[u8]) -> SqlResult<()> {
        let child = self.child();
        let row = RowReader::new(&child.layout, &UTC, stored)?;
        for link in self.links() {
            if has_null(&row, &link.columns) {
                continue;
            }
            let has_parent = match &link.parent {
                None => false,
                Some((parent, index)) => {
                    let index = &parent.indexes[index.at];
                    seen.has(&index.tree, key_of(index, &row, &link.columns)?)?
                }
            };
            if !has_parent {
                return Err(no_parent(child, &child.foreign_keys[link.key], true));
            }
        }
        Ok(())
    }

    /// Checks a row of `parent` that was `before` and is `after`: nobody may refer to what it was any more. Indexes of
    /// the child that are being made are read by `fresh`.
    ///
    /// # Errors
    /// 1452.
    pub(crate) fn check_parent(
        &self,
        parent: &Arc<TableDef>,
        (before, after): (&[u8], Option<&[u8]>),
        seen: Seen<'_>,
        fresh: Seen<'_>,
    ) -> SqlResult<()> {
        let row = |stored| RowReader::new(&parent.layout, &UTC, stored);
        let was = row(before)?;
        let is = after.map(row).transpose()?;
        for link in self.links() {
            let Some((_, index)) = link.parent.as_ref().filter(|p| Arc::ptr_eq(&p.0, parent))
            else {
                continue;
            };
            let child = self.child();
            let key = &child.foreign_keys[link.key];
            let Some(columns) = key.parent_ordinals(parent) else {
                continue;
            };
            let is_same = |is: &RowReader<'_>| same_fields(&was, is, &columns);
            if has_null(&was, &columns) || is.as_ref().is_some_and(is_same) {
                continue;
            }
            let index = &parent.indexes[index.at];
            if seen.has(&index.tree, key_of(index, &was, &columns)?)? {
                continue;
            }
            let own = child.key_index(&link.columns);
            let own = own.expect("a foreign key has an index in its child");
            let own = &child.indexes[own.at];
            let reader = match own.visible_from.is_fresh() {
                true => fresh,
                false => seen,
            };
            if reader.has(&own.tree, key_of(own, &was, &columns)?)? {
                return Err(no_parent(child, key, true));
            }
        }
        Ok(())
    }
}
