//! An atomic edit of the catalog.
//!
//! Neighbours: `ddl` collects edits here while it holds the metadata locks of everything it touches. **Invariants**:
//! nothing is seen before `commit`, everything after it; trees made for a change that is not committed are dropped
//! again (or are orphans after a crash); trees that the change abandons are dropped once it is durable, for until then
//! a crash would bring their table back; what was filled for the change is marked with its sequence before anybody can
//! see it; a table whose referrers change with it is published anew, so whoever edits foreign keys has locked the
//! parents, too.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use esker_engine::{Engine, Isolation, Seq, Tree, TreeId, Txn};
use esker_types::{SqlResult, errors};
use parking_lot::MutexGuard;

use super::def::{SchemaDef, TableDef, ViewDef, VisibleFrom};
use super::event::{self, EventDef, event_key};
use super::histogram::{Histogram, write_histogram};
use super::routine::{self, RoutineDef};
use super::tablespace::{self, TablespaceDef};
use super::{Inner, SchemaEntry, Snapshot, foreign, store};
use crate::exec_error::engine_error;

/// The transaction of a change.
enum ChangeTxn<'a> {
    Own(Box<Txn>),
    /// One that has written rows, which are committed with the definitions.
    Given(&'a mut Txn),
}

impl Deref for ChangeTxn<'_> {
    type Target = Txn;

    fn deref(&self) -> &Txn {
        match self {
            Self::Own(txn) => txn,
            Self::Given(txn) => txn,
        }
    }
}

impl DerefMut for ChangeTxn<'_> {
    fn deref_mut(&mut self) -> &mut Txn {
        match self {
            Self::Own(txn) => txn,
            Self::Given(txn) => txn,
        }
    }
}

/// An edit being collected.
pub struct Change<'a> {
    catalog: &'a Inner,
    _guard: MutexGuard<'a, ()>,
    txn: ChangeTxn<'a>,
    next: Snapshot,
    adopted: Vec<NewTrees>,
    abandoned: Vec<TreeId>,
    fresh: Vec<VisibleFrom>,
    /// Who refers to whom may be different from before.
    relates: bool,
}

impl<'a> Change<'a> {
    pub(super) fn new(catalog: &'a Inner) -> Self {
        let txn = catalog.engine.begin(Isolation::ReadCommitted);
        Self::with(catalog, ChangeTxn::Own(Box::new(txn)))
    }

    /// A change that is committed with what `txn` has written.
    pub(super) fn within(catalog: &'a Inner, txn: &'a mut Txn) -> Self {
        Self::with(catalog, ChangeTxn::Given(txn))
    }

    fn with(catalog: &'a Inner, txn: ChangeTxn<'a>) -> Self {
        let guard = catalog.changing.lock();
        let mut next = Snapshot::clone(&catalog.current.load());
        next.version += 1;
        Self {
            catalog,
            _guard: guard,
            txn,
            next,
            adopted: Vec::new(),
            abandoned: Vec::new(),
            fresh: Vec::new(),
            relates: false,
        }
    }

    /// The catalog as this change will leave it.
    pub fn snapshot(&self) -> &Snapshot {
        &self.next
    }

    /// Takes over trees that definitions of this change name; they stay if it is committed.
    pub fn adopt(&mut self, trees: NewTrees) {
        self.adopted.push(trees);
    }

    /// A tree that is not needed any more once the change is committed.
    pub fn abandon_tree(&mut self, id: TreeId) {
        self.abandoned.push(id);
    }

    /// Creates or replaces a database's definition.
    pub fn put_schema(&mut self, def: SchemaDef) -> SqlResult<()> {
        let key = store::schema_key(&def.name);
        self.put(&key, &store::schema_value(&def))?;
        let name = def.name.clone();
        let old = self.next.schemas.get(&name);
        let (tables, views) = old
            .map(|s| (s.tables.clone(), s.views.clone()))
            .unwrap_or_default();
        let (routines, events) = old
            .map(|s| (s.routines.clone(), s.events.clone()))
            .unwrap_or_default();
        self.next.schemas.insert(
            name,
            SchemaEntry {
                def: Arc::new(def),
                tables,
                views,
                routines,
                events,
            },
        );
        Ok(())
    }

    /// Removes a database with all its tables.
    pub fn drop_schema(&mut self, name: &str) -> SqlResult<()> {
        if let Some(entry) = self.next.schemas.remove(name) {
            for table in entry.tables.values() {
                self.relates |= !table.foreign_keys.is_empty();
                self.delete_table_row(table)?;
            }
            for view in entry.views.values() {
                self.delete(&store::view_key(&view.schema, &view.name))?;
            }
            for routine in entry.routines.values() {
                self.delete(&store::routine_key(&routine.schema, &routine.key()))?;
            }
            for event in entry.events.values() {
                self.delete_event_rows(event)?;
            }
        }
        self.delete(&store::schema_key(name))
    }

    /// Creates a table, or replaces the definition with the same id. The schema exists. The
    /// definition's version is set here.
    pub fn put_table(&mut self, mut def: TableDef) -> SqlResult<Arc<TableDef>> {
        debug_assert!(def.indexes[0].primary && def.layout.columns() == def.columns.len());
        self.put(&store::table_key(def.id), &store::table_value(&def))?;
        let before = self.next.table(&def.schema, &def.name);
        let had_keys = before.is_none_or(|before| !before.foreign_keys.is_empty());
        self.relates |= had_keys || !def.foreign_keys.is_empty();
        let histograms = std::mem::take(&mut def.histograms);
        for histogram in histograms {
            if def.columns.iter().any(|c| histogram.is_of(c)) {
                def.histograms.push(histogram);
            } else {
                // Its column is gone or of another type.
                self.delete(&store::histogram_key(def.id, histogram.column))?;
            }
        }
        let marks = def
            .indexes
            .iter()
            .map(|i| &i.visible_from)
            .chain([&def.visible_from]);
        self.fresh.extend(marks.filter(|m| m.is_fresh()).cloned());
        def.announce_fields();
        Ok(self.publish(def))
    }

    fn publish(&mut self, mut def: TableDef) -> Arc<TableDef> {
        def.version = self.next.version;
        let def = Arc::new(def);
        self.next.insert(def.clone());
        def
    }

    /// Publishes the definition anew with its statistics, which makes every plan for it void: `made` replaces the
    /// histograms of the same columns, those of the columns with the ids in `dropped` go. The caller holds
    /// the table's metadata lock.
    ///
    /// # Errors
    /// 1146 when the table is gone.
    pub fn renew_statistics(
        &mut self,
        table: &TableDef,
        made: Vec<Histogram>,
        dropped: &[u32],
    ) -> SqlResult<()> {
        let now = self.next.table(&table.schema, &table.name);
        let now = now.filter(|now| now.id == table.id);
        let mut def = match now {
            Some(now) => TableDef::clone(now),
            None => return Err(errors::no_such_table(&table.schema, &table.name)),
        };
        for &column in dropped {
            self.delete(&store::histogram_key(def.id, column))?;
        }
        let replaced = |h: &Arc<Histogram>| {
            dropped.contains(&h.column) || made.iter().any(|m| m.column == h.column)
        };
        def.histograms.retain(|h| !replaced(h));
        for histogram in made {
            let key = store::histogram_key(def.id, histogram.column);
            self.put(&key, &write_histogram(&histogram))?;
            def.histograms.push(Arc::new(histogram));
        }
        def.histograms.sort_by_key(|h| h.column);
        self.publish(def);
        Ok(())
    }

    /// Creates or replaces a view. The schema exists and has no table of this name.
    pub fn put_view(&mut self, def: ViewDef) -> SqlResult<()> {
        let key = store::view_key(&def.schema, &def.name);
        self.put(&key, &store::view_value(&def))?;
        if let Some(entry) = self.next.schemas.get_mut(&def.schema) {
            Arc::make_mut(&mut entry.views).insert(def.name.clone(), Arc::new(def));
        }
        Ok(())
    }

    /// Removes a view.
    pub fn drop_view(&mut self, def: &ViewDef) -> SqlResult<()> {
        if let Some(entry) = self.next.schemas.get_mut(&def.schema) {
            Arc::make_mut(&mut entry.views).remove(&def.name);
        }
        self.delete(&store::view_key(&def.schema, &def.name))
    }

    /// Creates or replaces a routine. The schema exists.
    pub fn put_routine(&mut self, def: RoutineDef) -> SqlResult<()> {
        let key = store::routine_key(&def.schema, &def.key());
        self.put(&key, &routine::value(&def))?;
        if let Some(entry) = self.next.schemas.get_mut(&def.schema) {
            Arc::make_mut(&mut entry.routines).insert(def.key(), Arc::new(def));
        }
        Ok(())
    }

    /// Removes a routine.
    pub fn drop_routine(&mut self, def: &RoutineDef) -> SqlResult<()> {
        if let Some(entry) = self.next.schemas.get_mut(&def.schema) {
            Arc::make_mut(&mut entry.routines).remove(&def.key());
        }
        self.delete(&store::routine_key(&def.schema, &def.key()))
    }

    /// Creates or replaces an event. The schema exists.
    pub fn put_event(&mut self, def: EventDef) -> SqlResult<()> {
        let key = store::event_row_key(&def.schema, &def.name);
        self.put(&key, &event::value(&def))?;
        if let Some(ran) = def.last_run() {
            let key = store::event_ran_key(&def.schema, &def.name);
            self.put(&key, &event::ran_value(ran))?;
        }
        if let Some(entry) = self.next.schemas.get_mut(&def.schema) {
            Arc::make_mut(&mut entry.events).insert(event_key(&def.name), Arc::new(def));
        }
        Ok(())
    }

    /// Removes an event.
    pub fn drop_event(&mut self, def: &EventDef) -> SqlResult<()> {
        if let Some(entry) = self.next.schemas.get_mut(&def.schema) {
            Arc::make_mut(&mut entry.events).remove(&event_key(&def.name));
        }
        self.delete_event_rows(def)
    }

    fn delete_event_rows(&mut self, def: &EventDef) -> SqlResult<()> {
        self.delete(&store::event_row_key(&def.schema, &def.name))?;
        self.delete(&store::event_ran_key(&def.schema, &def.name))
    }

    /// Creates or replaces a tablespace.
    pub fn put_tablespace(&mut self, def: TablespaceDef) -> SqlResult<()> {
        self.put(&store::tablespace_key(&def.name), &tablespace::value(&def))?;
        Arc::make_mut(&mut self.next.tablespaces).insert(def.name.clone(), Arc::new(def));
        Ok(())
    }

    /// Removes a tablespace.
    pub fn drop_tablespace(&mut self, name: &str) -> SqlResult<()> {
        Arc::make_mut(&mut self.next.tablespaces).remove(name);
        self.delete(&store::tablespace_key(name))
    }

    /// Removes a table and abandons its trees.
    pub fn drop_table(&mut self, def: &TableDef) -> SqlResult<()> {
        self.forget_name(def);
        self.delete_table_row(def)
    }

    /// Takes a table's name away while its row stays (a rename puts it back under another one).
    pub fn forget_name(&mut self, def: &TableDef) {
        self.relates |= !def.foreign_keys.is_empty();
        if let Some(entry) = self.next.schemas.get_mut(&def.schema) {
            Arc::make_mut(&mut entry.tables).remove(&def.name);
        }
    }

    fn delete_table_row(&mut self, def: &TableDef) -> SqlResult<()> {
        self.abandoned.extend(def.indexes.iter().map(|i| i.id));
        for histogram in &def.histograms {
            self.delete(&store::histogram_key(def.id, histogram.column))?;
        }
        self.delete(&store::table_key(def.id))
    }

    /// What the record of the change carries for those who follow the log.
    pub fn attach(&mut self, head: &[u8], body: &[u8]) -> SqlResult<()> {
        self.txn
            .attach(body)
            .and_then(|()| self.txn.set_attachment_head(head))
            .map_err(|e| engine_error(&e))
    }

    /// Raises the persistent counter of a tree with this change.
    pub fn bump_counter(&mut self, tree: TreeId, value: u64) {
        self.txn.bump_counter(tree, value);
    }

    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> SqlResult<()> {
        self.txn
            .put(&self.catalog.tree, key, value)
            .map_err(|e| engine_error(&e))
    }

    fn delete(&mut self, key: &[u8]) -> SqlResult<()> {
        self.txn
            .delete(&self.catalog.tree, key)
            .map_err(|e| engine_error(&e))
    }

    /// Commits and publishes. Blocks until the change is durable and every new snapshot sees it, then
    /// drops the abandoned trees. Once the change is durable it is a success: a tree that cannot be
    /// dropped takes space until the next start.
    pub fn commit(mut self) -> SqlResult<Seq> {
        if self.relates {
            for def in foreign::unrelated(&self.next) {
                self.publish(def);
            }
        }
        if !self.abandoned.is_empty() {
            self.txn.set_makes_room();
        }
        let commit = self.txn.commit().map_err(|e| engine_error(&e))?;
        self.adopted.iter_mut().for_each(|trees| trees.made.clear());
        // Statistics of which no row is kept may be renewed: then there is nothing to wait for.
        let seq = commit.seq.unwrap_or(0);
        self.fresh.drain(..).for_each(|mark| mark.set(seq));
        let (version, has_read_only) = (self.next.version, self.next.has_read_only());
        self.catalog
            .current
            .store(Arc::new(std::mem::take(&mut self.next)));
        self.catalog.version.store(version, Ordering::Release);
        let read_only = &self.catalog.has_read_only;
        read_only.store(has_read_only, Ordering::Release);
        let abandoned = std::mem::take(&mut self.abandoned);
        let engine = self.catalog.engine.clone();
        drop(self);
        engine
            .wait_durable(seq)
            .block()
            .map_err(|e| engine_error(&e))?;
        for id in abandoned {
            drop_or_leave(&engine, id);
        }
        Ok(seq)
    }
}

/// Trees made for a change that is not committed yet: dropped with this value.
pub struct NewTrees {
    engine: Engine,
    made: Vec<TreeId>,
}

impl NewTrees {
    /// No trees yet.
    pub fn new(engine: &Engine) -> Self {
        Self {
            engine: engine.clone(),
            made: Vec::new(),
        }
    }

    /// They stay: something names them now.
    pub fn keep(mut self) {
        self.made.clear();
    }

    /// Makes a tree.
    pub fn create(&mut self) -> SqlResult<Tree> {
        let tree = self.engine.create_tree().map_err(|e| engine_error(&e))?;
        self.made.push(tree.id());
        Ok(tree)
    }
}

impl Drop for NewTrees {
    fn drop(&mut self) {
        for id in self.made.drain(..) {
            drop_or_leave(&self.engine, id);
        }
    }
}

/// Drops a tree that no definition names. If that fails it is an orphan, which the next start drops.
pub(super) fn drop_or_leave(engine: &Engine, id: TreeId) {
    if let Err(e) = engine.drop_tree(id) {
        tracing::warn!(
            tree = id.0,
            "a tree that no table names stays until restart: {e}"
        );
    }
}
