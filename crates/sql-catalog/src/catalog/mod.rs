//! The catalog: which databases and tables exist, and what they look like.
//!
//! In flow order: `def` (definitions), `foreign` (foreign keys), `fulltext` (what is stored of full-text indexes),
//! `generated` (computed columns), `partitioning`, `routine` (stored routines), `trigger` (those of a table), `event`
//! (events) with `interval` (how often they run), `storage_engine` (what a table calls its engine) · `runtime` (what
//! outlives them in memory), `access_counts` (rows read and changed), `handler_calls` (as calls), `sample`, `histogram`
//! (statistics) · `shown_options` (table options without a meaning), `tablespace` (names that tables may give) ·
//! `bytes`, `store` (definitions as rows) · `change` ([`Change`]: an atomic edit) · `temporary` (tables of a session) ·
//! `rows` (what is not a definition) · `show` (SHOW CREATE text), `quotes` (names in it) · here [`Catalog`] and its
//! snapshots. Neighbours: `ddl` changes it, everything else reads it; `mdl` makes sure that a statement's tables do not
//! change under it.
//!
//! **Invariants**
//! - Readers take no lock: they load the current [`Snapshot`], which never changes.
//! - The version grows with every published change; a plan made at version v is valid while the
//!   tables it resolved have the same definitions, and certainly while the version is v.
//! - A change is one engine transaction: after a crash it is there as a whole or not at all. Trees
//!   that no definition names are dropped at the next start, and trees that a change stops naming
//!   only once the change is durable.
//! - The catalog tree is the first tree ever made in a data directory.

mod access_counts;
mod bytes;
mod change;
mod def;
mod event;
mod foreign;
mod fulltext;
mod generated;
mod handler_calls;
mod histogram;
mod interval;
mod partitioning;
mod quotes;
mod routine;
mod rows;
mod runtime;
mod sample;
mod show;
mod shown_options;
mod storage_engine;
mod store;
mod tablespace;
mod temporary;
#[cfg(test)]
mod tests;
mod trigger;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use esker_engine::{Direction, Engine, EngineError, Isolation, Tree, TreeId, Txn, View};
use esker_types::{SqlResult, errors};
use parking_lot::Mutex;

pub use access_counts::{AccessCounts, ReadCount, RowEvent, RowEvents};
pub use change::{Change, NewTrees};
pub use def::{
    CheckDef, CheckOption, ColumnDef, DefaultDef, GeneratedDef, HIDDEN_INDEX_NAME, IndexDef,
    IndexPart, MAX_COLUMNS, MAX_KEY_BYTES, MAX_KEY_PARTS, MAX_SECONDARY_INDEXES, ROW_ID, SchemaDef,
    TableDef, TableId, ViewColumn, ViewDef, VisibleFrom, same_name,
};
pub use event::{Due, EventDef, EventRuntime, Schedule, event_key, moment_in};
pub use foreign::{ForeignKeyDef, KeyIndex, ReferentialAction, Referrer, find_key_index};
pub use handler_calls::{
    Accesses, HandlerCall, HandlerCalls, Walk, Walked, note_call, note_examined, note_sorted,
    note_walk, take_accesses,
};
pub use histogram::{About, Bucket, Collector, Histogram, MAX_BUCKETS, USUAL_BUCKETS, Wanted};
pub use interval::EventInterval;
pub use partitioning::{
    Chosen, Counted, PartitionBound, PartitionDef, PartitionItem, PartitionKind, PartitionMethod,
    PartitionValue, Partitioning, Placing, description as partition_description,
};
pub use quotes::{Quotes, quoted};
pub use routine::{ProgramSettings, RoutineDef, RoutineKey};
pub use rows::{ChannelRow, ChannelRows};
pub use runtime::{AutoRange, AutoStep, PartitionSizes, TableRuntime, largest_stored, max_auto};
pub use sample::IndexSample;
pub use show::{
    Shown, quoted_literal, show_create_database, show_create_table, show_create_table_to,
    show_create_trigger, show_create_view, type_text,
};
pub use shown_options::{ShownOption, ShownOptions};
pub use storage_engine::{ENGINES, EngineChoice, StorageEngine, engine_choice};
pub use tablespace::{
    FILE_PER_TABLE, FIRST_TABLESPACE, PAGE_BYTES, SYSTEM_TABLESPACE, TablespaceDef,
};
pub use temporary::{TemporaryTables, drop_temporary_trees};
pub use trigger::TriggerDef;

use crate::codec::damaged;
use crate::exec_error::engine_error;
use crate::mdl::MetadataLocks;

/// Databases that belong to the server: never created, dropped or written by users.
pub const SYSTEM_SCHEMAS: &[&str] = &["information_schema", "mysql", "performance_schema", "sys"];

/// Is this one of the server's own databases?
pub fn is_system_schema(name: &str) -> bool {
    SYSTEM_SCHEMAS.iter().any(|s| s.eq_ignore_ascii_case(name))
}

/// A database and its tables.
#[derive(Debug, Clone)]
pub struct SchemaEntry {
    /// The database.
    pub def: Arc<SchemaDef>,
    /// Its tables by name.
    pub tables: Arc<BTreeMap<Arc<str>, Arc<TableDef>>>,
    /// Its views by name; no table has the name of a view.
    pub views: Arc<BTreeMap<Arc<str>, Arc<ViewDef>>>,
    /// Its routines.
    pub routines: Arc<BTreeMap<RoutineKey, Arc<RoutineDef>>>,
    /// Its events, by their names in lower case.
    pub events: Arc<BTreeMap<Box<str>, Arc<EventDef>>>,
}

/// The catalog at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    version: u64,
    schemas: BTreeMap<Arc<str>, SchemaEntry>,
    tablespaces: Arc<BTreeMap<Arc<str>, Arc<TablespaceDef>>>,
}

impl Snapshot {
    /// Version; grows with every change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A database.
    pub fn schema(&self, name: &str) -> Option<&SchemaEntry> {
        self.schemas.get(name)
    }

    fn has_read_only(&self) -> bool {
        self.schemas.values().any(|schema| schema.def.read_only)
    }

    /// A table.
    pub fn table(&self, schema: &str, name: &str) -> Option<&Arc<TableDef>> {
        self.schemas.get(schema)?.tables.get(name)
    }

    /// A view.
    pub fn view(&self, schema: &str, name: &str) -> Option<&Arc<ViewDef>> {
        self.schemas.get(schema)?.views.get(name)
    }

    /// A routine.
    pub fn routine(&self, schema: &str, key: &RoutineKey) -> Option<&Arc<RoutineDef>> {
        self.schemas.get(schema)?.routines.get(key)
    }

    /// All routines of all databases.
    pub fn routines(&self) -> impl Iterator<Item = &Arc<RoutineDef>> {
        self.schemas.values().flat_map(|s| s.routines.values())
    }

    /// An event.
    pub fn event(&self, schema: &str, name: &str) -> Option<&Arc<EventDef>> {
        self.schemas.get(schema)?.events.get(&event_key(name))
    }

    /// All events of all databases.
    pub fn events(&self) -> impl Iterator<Item = &Arc<EventDef>> {
        self.schemas.values().flat_map(|s| s.events.values())
    }

    /// A tablespace.
    pub fn tablespace(&self, name: &str) -> Option<&Arc<TablespaceDef>> {
        self.tablespaces.get(name)
    }

    /// All tablespaces by name.
    pub fn tablespaces(&self) -> impl Iterator<Item = &Arc<TablespaceDef>> {
        self.tablespaces.values()
    }

    /// Is there a table or a view of this name?
    pub fn has_name(&self, schema: &str, name: &str) -> bool {
        self.table(schema, name).is_some() || self.view(schema, name).is_some()
    }

    /// Creates or replaces a table whose database is there.
    fn insert(&mut self, def: Arc<TableDef>) {
        if let Some(entry) = self.schemas.get_mut(&def.schema) {
            Arc::make_mut(&mut entry.tables).insert(def.name.clone(), def);
        }
    }

    /// All databases by name.
    pub fn schemas(&self) -> impl Iterator<Item = &SchemaEntry> {
        self.schemas.values()
    }

    /// All views of all databases.
    pub fn views(&self) -> impl Iterator<Item = &Arc<ViewDef>> {
        self.schemas.values().flat_map(|s| s.views.values())
    }

    /// All tables of all databases.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableDef>> {
        self.schemas.values().flat_map(|s| s.tables.values())
    }
}

struct Inner {
    engine: Engine,
    tree: Tree,
    locks: MetadataLocks,
    current: ArcSwap<Snapshot>,
    /// The version of `current`, written after it.
    version: AtomicU64,
    /// Is one of its databases read only? Written after it, too.
    has_read_only: AtomicBool,
    /// One change at a time.
    changing: Mutex<()>,
}

/// The catalog. A handle; clones are the same catalog.
#[derive(Clone)]
pub struct Catalog {
    inner: Arc<Inner>,
}

impl Catalog {
    /// Reads the catalog, makes it in a new data directory, and drops trees nobody names.
    pub fn open(engine: &Engine) -> SqlResult<Catalog> {
        Self::open_with(engine, &mut |id| {
            engine
                .tree(id)
                .ok_or_else(|| damaged(&format!("catalog: tree {} of an index is missing", id.0)))
        })
    }

    /// As [`Catalog::open`], where a part of the log was given up: that may have named other trees. An empty tree
    /// stands for each that is missing; those are told.
    pub fn open_mending(engine: &Engine) -> SqlResult<(Catalog, Vec<TreeId>)> {
        let mut replaced = Vec::new();
        let catalog = Self::open_with(engine, &mut |id| {
            if let Some(tree) = engine.tree(id) {
                return Ok(tree);
            }
            let tree = engine.create_tree().map_err(|e| engine_error(&e))?;
            replaced.push(tree.id());
            Ok(tree)
        })?;
        Ok((catalog, replaced))
    }

    fn open_with(engine: &Engine, trees: &mut store::FindTree<'_>) -> SqlResult<Catalog> {
        let locks = MetadataLocks::new();
        let tree = match engine.tree_ids().first() {
            Some(&id) => engine.tree(id).ok_or_else(|| damaged("catalog: no tree"))?,
            None => engine.create_tree().map_err(|e| engine_error(&e))?,
        };
        initialise(engine, &tree)?;
        let snapshot = load(engine, &tree, trees, &locks)?;
        drop_orphans(engine, &tree, &snapshot)?;
        let inner = Inner {
            engine: engine.clone(),
            tree,
            locks,
            version: AtomicU64::new(snapshot.version),
            has_read_only: AtomicBool::new(snapshot.has_read_only()),
            current: ArcSwap::from_pointee(snapshot),
            changing: Mutex::new(()),
        };
        Ok(Catalog {
            inner: Arc::new(inner),
        })
    }

    /// The engine below.
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// The metadata locks that tables of this catalog hang on.
    pub fn locks(&self) -> &MetadataLocks {
        &self.inner.locks
    }

    /// The catalog now. Cheap; hold it for the time of a statement, not longer.
    #[inline]
    pub fn snapshot(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.inner.current.load()
    }

    /// The version now. Whoever holds a table's metadata lock sees the version of the last change of
    /// that table, or a later one.
    #[inline]
    pub fn version(&self) -> u64 {
        self.inner.version.load(Ordering::Acquire)
    }

    /// A table, if it exists.
    pub fn resolve(&self, schema: &str, name: &str) -> Option<Arc<TableDef>> {
        self.snapshot().table(schema, name).cloned()
    }

    /// Is there a table of this engine?
    pub fn has_table_of(&self, engine: StorageEngine) -> bool {
        self.snapshot().tables().any(|t| t.engine == engine)
    }

    /// A view, if it exists.
    pub fn view(&self, schema: &str, name: &str) -> Option<Arc<ViewDef>> {
        self.snapshot().view(schema, name).cloned()
    }

    /// A routine, if it exists.
    pub fn routine(&self, schema: &str, key: &RoutineKey) -> Option<Arc<RoutineDef>> {
        self.snapshot().routine(schema, key).cloned()
    }

    /// An event, if it exists.
    pub fn event(&self, schema: &str, name: &str) -> Option<Arc<EventDef>> {
        self.snapshot().event(schema, name).cloned()
    }

    /// A tablespace, if it exists.
    pub fn tablespace(&self, name: &str) -> Option<Arc<TablespaceDef>> {
        self.snapshot().tablespace(name).cloned()
    }

    /// A database, if it exists.
    pub fn schema(&self, name: &str) -> Option<Arc<SchemaDef>> {
        self.snapshot().schema(name).map(|s| s.def.clone())
    }

    /// May things in a database be changed? To be asked under a lock that keeps the database from being altered.
    ///
    /// # Errors
    /// 3989: it is read only.
    #[inline]
    pub fn check_writable(&self, schema: &str) -> SqlResult<()> {
        match self.inner.has_read_only.load(Ordering::Acquire) {
            true if self.schema(schema).is_some_and(|s| s.read_only) => {
                Err(errors::schema_is_read_only(schema))
            }
            _ => Ok(()),
        }
    }

    /// A table, or error 1146 or 1049.
    pub fn table_or_error(&self, schema: &str, name: &str) -> SqlResult<Arc<TableDef>> {
        self.resolve(schema, name)
            .ok_or_else(|| match self.schema(schema) {
                Some(_) => errors::no_such_table(schema, name),
                None => errors::unknown_database(schema),
            })
    }

    /// Begins a change; others wait until it is committed or dropped.
    pub fn change(&self) -> Change<'_> {
        Change::new(&self.inner)
    }

    /// Begins a change that is committed together with what `txn` has written.
    pub fn change_in<'a>(&'a self, txn: &'a mut Txn) -> Change<'a> {
        Change::within(&self.inner, txn)
    }

    /// At shutdown, when no session can write: sets counters back to what was really given, so that
    /// a clean restart leaves no gap.
    pub fn settle_counters(&self) -> SqlResult<()> {
        for table in self.snapshot().tables() {
            if let Some(last) = table.runtime.unused_reservation() {
                let set = self.inner.engine.set_counter(table.counter_tree(), last);
                set.map_err(|e| engine_error(&e))?;
            }
        }
        Ok(())
    }
}

/// Writes the format row of a new catalog.
fn initialise(engine: &Engine, tree: &Tree) -> SqlResult<()> {
    let mut txn = engine.begin(Isolation::ReadCommitted);
    let to_sql = |e| engine_error(&e);
    match txn
        .get(tree, store::VERSION_KEY, View::Latest)
        .map_err(to_sql)?
    {
        Some(bytes) => store::check_version(&bytes),
        None => {
            txn.put(tree, store::VERSION_KEY, &store::version_value())
                .map_err(to_sql)?;
            let _ = txn.commit().map_err(to_sql)?;
            Ok(())
        }
    }
}

/// Calls `each` with the rest of the key and the value of every row whose key begins with `prefix`.
fn scan_prefix(
    engine: &Engine,
    tree: &Tree,
    prefix: &[u8],
    mut each: impl FnMut(&[u8], &[u8]) -> SqlResult<()>,
) -> SqlResult<()> {
    let range = crate::codec::KeyRange::prefix(prefix.to_vec());
    let txn = engine.begin(Isolation::ReadCommitted);
    let mut rows = txn
        .scan(
            tree,
            range.lower(),
            range.upper(),
            Direction::Forward,
            View::Latest,
        )
        .map_err(|e| engine_error(&e))?;
    while let Some((key, value)) = rows.next().map_err(|e| engine_error(&e))? {
        each(&key[prefix.len()..], value)?;
    }
    Ok(())
}

fn load(
    engine: &Engine,
    tree: &Tree,
    trees: &mut store::FindTree<'_>,
    locks: &MetadataLocks,
) -> SqlResult<Snapshot> {
    let mut snapshot = Snapshot {
        version: 1,
        ..Snapshot::default()
    };
    scan_prefix(engine, tree, &[store::SCHEMA_PREFIX], |name, value| {
        let def = store::read_schema(name, value)?;
        let entry = SchemaEntry {
            def: Arc::new(def),
            tables: Arc::default(),
            views: Arc::default(),
            routines: Arc::default(),
            events: Arc::default(),
        };
        snapshot.schemas.insert(entry.def.name.clone(), entry);
        Ok(())
    })?;
    let mut tables = Loaded::new();
    scan_prefix(engine, tree, &[store::TABLE_PREFIX], |id, value| {
        let id = <[u8; 4]>::try_from(id).map_err(|_| damaged("catalog row: table id"))?;
        let id = TableId(u32::from_be_bytes(id));
        let def = store::read_table(id, value, snapshot.version, engine, trees, locks)?;
        if !snapshot.schemas.contains_key(&def.schema) {
            return Err(damaged("catalog: a table without its database"));
        }
        tables
            .entry(def.schema.clone())
            .or_default()
            .insert(def.name.clone(), Arc::new(def));
        Ok(())
    })?;
    load_histograms(engine, tree, &mut tables)?;
    for (schema, tables) in tables {
        if let Some(entry) = snapshot.schemas.get_mut(&schema) {
            entry.tables = Arc::new(tables);
        }
    }
    scan_prefix(engine, tree, &[store::VIEW_PREFIX], |_, value| {
        let def = store::read_view(value, locks)?;
        let entry = snapshot.schemas.get_mut(&def.schema);
        let entry = entry.ok_or_else(|| damaged("catalog: a view without its database"))?;
        Arc::make_mut(&mut entry.views).insert(def.name.clone(), Arc::new(def));
        Ok(())
    })?;
    scan_prefix(engine, tree, &[store::ROUTINE_PREFIX], |_, value| {
        let def = routine::read(value)?;
        let entry = snapshot.schemas.get_mut(&def.schema);
        let entry = entry.ok_or_else(|| damaged("catalog: a routine without its database"))?;
        Arc::make_mut(&mut entry.routines).insert(def.key(), Arc::new(def));
        Ok(())
    })?;
    load_events(engine, tree, &mut snapshot)?;
    scan_prefix(engine, tree, &[store::TABLESPACE_PREFIX], |_, value| {
        let def = tablespace::read(value)?;
        Arc::make_mut(&mut snapshot.tablespaces).insert(def.name.clone(), Arc::new(def));
        Ok(())
    })?;
    for def in foreign::unrelated(&snapshot) {
        snapshot.insert(Arc::new(def));
    }
    Ok(snapshot)
}

fn load_events(engine: &Engine, tree: &Tree, snapshot: &mut Snapshot) -> SqlResult<()> {
    let mut by_key: HashMap<Vec<u8>, Arc<EventDef>> = HashMap::new();
    scan_prefix(engine, tree, &[store::EVENT_PREFIX], |key, value| {
        let def = Arc::new(event::read(value)?);
        let entry = snapshot.schemas.get_mut(&def.schema);
        let entry = entry.ok_or_else(|| damaged("catalog: an event without its database"))?;
        Arc::make_mut(&mut entry.events).insert(event_key(&def.name), def.clone());
        by_key.insert(key.to_vec(), def);
        Ok(())
    })?;
    scan_prefix(engine, tree, &[store::EVENT_RAN_PREFIX], |key, value| {
        let def = by_key.get(key);
        let def = def.ok_or_else(|| damaged("catalog: a run without its event"))?;
        def.runs_at(event::read_ran(value)?);
        Ok(())
    })
}

/// Tables by database and name.
type Loaded = BTreeMap<Arc<str>, BTreeMap<Arc<str>, Arc<TableDef>>>;

fn load_histograms(engine: &Engine, tree: &Tree, tables: &mut Loaded) -> SqlResult<()> {
    let all = tables.values_mut().flat_map(BTreeMap::values_mut);
    let mut by_id: HashMap<u32, &mut Arc<TableDef>> = all.map(|t| (t.id.0, t)).collect();
    scan_prefix(engine, tree, &[store::HISTOGRAM_PREFIX], |key, value| {
        let no_column = || damaged("catalog: a histogram without its column");
        let (ids, rest) = key.as_chunks::<4>();
        let (&[table, column], []) = (ids, rest) else {
            return Err(damaged("catalog row: key of a histogram"));
        };
        let table = by_id.get_mut(&u32::from_be_bytes(table));
        let table = Arc::get_mut(table.ok_or_else(no_column)?).expect("nobody else has it yet");
        let id = u32::from_be_bytes(column);
        let column = table.columns.iter().find(|c| c.id == id);
        let histogram = histogram::read_histogram(value, column.ok_or_else(no_column)?)?;
        table.histograms.push(Arc::new(histogram));
        Ok(())
    })
}

/// A crash between making a tree and committing the change that names it leaves an orphan.
fn drop_orphans(engine: &Engine, catalog_tree: &Tree, snapshot: &Snapshot) -> SqlResult<()> {
    let mut named: HashSet<TreeId> = HashSet::from([catalog_tree.id()]);
    named.extend(
        snapshot
            .tables()
            .flat_map(|t| t.indexes.iter().map(|i| i.id)),
    );
    for id in engine.tree_ids() {
        if !named.contains(&id) {
            tracing::info!(tree = id.0, "dropping a tree that no table names");
            match engine.drop_tree(id) {
                // Nobody names it; the next start tries again. What there is can be read meanwhile.
                Err(EngineError::DiskFull(what)) => {
                    tracing::warn!(tree = id.0, "the tree stays, the disk is full: {what}");
                }
                dropped => dropped.map_err(|e| engine_error(&e))?,
            }
        }
    }
    Ok(())
}
