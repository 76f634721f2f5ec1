//! The temporary tables of a session: their definitions, which no catalog has.
//!
//! Neighbours: `session` keeps them and resolves names here first; `ddl` makes, alters and drops them.
//! **Invariants**
//! - No other session ever sees a definition, so nothing of a temporary table is locked.
//! - No catalog row names their trees: after a crash they are orphans, which the next start drops.
//! - A tree goes only when no transaction of the session can write to it any more: until then it is `doomed`.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker_engine::{Engine, TreeId};
use esker_types::{SqlResult, errors};

use super::change::{NewTrees, drop_or_leave};
use super::def::TableDef;

/// Most temporary tables of a session.
const MAX_TEMPORARY_TABLES: usize = 1024;

/// The temporary tables of one session.
#[derive(Default)]
pub struct TemporaryTables {
    schemas: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Arc<TableDef>>>,
    count: usize,
    version: u64,
    doomed: Vec<TreeId>,
}

impl TemporaryTables {
    /// Are there none? Then no name needs to be looked up.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Grows with every change: what names were bound to before may be something else now.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A table.
    pub fn get(&self, schema: &str, name: &str) -> Option<&Arc<TableDef>> {
        if self.count == 0 {
            return None;
        }
        self.schemas.get(schema)?.get(name)
    }

    /// Adds a table whose name is free, with the trees that were made for it.
    ///
    /// # Errors
    /// 1041: there are too many.
    pub fn add(&mut self, mut def: TableDef, trees: NewTrees) -> SqlResult<()> {
        if self.count >= MAX_TEMPORARY_TABLES {
            return Err(errors::out_of_memory("too many temporary tables"));
        }
        debug_assert!(self.get(&def.schema, &def.name).is_none());
        trees.keep();
        def.temporary = true;
        // Whatever snapshot the session has: the rows are its own.
        let marks = def.indexes.iter().map(|i| &i.visible_from);
        marks.chain([&def.visible_from]).for_each(|m| m.set(0));
        def.announce_fields();
        self.version += 1;
        self.count += 1;
        let tables = self.schemas.entry(def.schema.clone()).or_default();
        tables.insert(def.name.clone(), Arc::new(def));
        Ok(())
    }

    /// Replaces a table, perhaps under another name.
    ///
    /// # Errors
    /// None where `old` is a table of these.
    pub fn replace(&mut self, old: &TableDef, def: TableDef, trees: NewTrees) -> SqlResult<()> {
        let kept: Vec<TreeId> = def.indexes.iter().map(|i| i.id).collect();
        let gone = old.indexes.iter().map(|i| i.id);
        self.doomed.extend(gone.filter(|id| !kept.contains(id)));
        self.forget(old);
        self.add(def, trees)
    }

    /// Removes a table.
    pub fn remove(&mut self, def: &TableDef) {
        self.doomed.extend(def.indexes.iter().map(|i| i.id));
        self.forget(def);
    }

    fn forget(&mut self, def: &TableDef) {
        let tables = self.schemas.get_mut(&def.schema);
        if tables.is_some_and(|tables| tables.remove(&def.name).is_some()) {
            self.count -= 1;
            self.version += 1;
        }
    }

    /// Removes all tables.
    pub fn clear(&mut self) {
        let schemas = std::mem::take(&mut self.schemas);
        for def in schemas.values().flat_map(BTreeMap::values) {
            self.doomed.extend(def.indexes.iter().map(|i| i.id));
        }
        self.version += 1;
        self.count = 0;
    }

    /// Takes those of `others` in. Of two under one name the other stays.
    pub fn absorb(&mut self, mut others: Self) {
        for def in others.schemas.values().flat_map(BTreeMap::values) {
            if let Some(own) = self.get(&def.schema, &def.name).cloned() {
                self.remove(&own);
            }
            let tables = self.schemas.entry(def.schema.clone()).or_default();
            tables.insert(def.name.clone(), def.clone());
            self.count += 1;
        }
        self.version += others.version + 1;
        self.doomed.append(&mut others.doomed);
    }

    /// Trees to be dropped now that no transaction writes to them.
    pub fn take_doomed(&mut self) -> Vec<TreeId> {
        std::mem::take(&mut self.doomed)
    }
}

/// Drops trees of temporary tables. One that stays is dropped by the next start.
pub fn drop_temporary_trees(engine: &Engine, trees: Vec<TreeId>) {
    for id in trees {
        drop_or_leave(engine, id);
    }
}
