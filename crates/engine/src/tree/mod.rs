//! The registry of LSM trees: which exist, what they consist of, and the manifest that records it.
//!
//! Neighbours: above, the engine creates, drops, rotates and looks up trees; `flush` and `compact` bring new extents
//! and go through `Trees::install`; below are `extent` (data files) and the manifest.
//!
//! Parts: `levels` (the shape, a value) → `version` (a shape of open extents, `run` walks it) → `handle` (a tree with
//! its memtables, and `tombstone_ranges`, where it has no rows) → `change`, `manifest`, `state` (what is remembered)
//! → [`Trees`], `ingest` (extents that come with a commit); `check` verifies it all without opening it; `frozen`
//! is all of it at one moment, for a backup; `work` counts what is done; `health` says whether the storage can still be
//! trusted.
//!
//! **Invariants**
//! - One lock (`meta`) orders all manifest edits. An edit is first checked as a pure change of shape, then made
//!   durable, then published: readers never see what a crash could take back.
//! - Slots of a removed extent are released after the edit is durable, by the drop of the last handle.
//! - Ids of trees ascend from 1 and are never given twice.

mod change;
pub(crate) mod check;
mod frozen;
mod handle;
mod ingest;
pub(crate) mod levels;
pub(crate) mod manifest;
mod run;
mod state;
mod tombstone_ranges;
mod version;
mod work;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use esker_vfs::{Clock, Env};
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::cache::BlockCache;
use crate::compact::Limits;
pub(crate) use crate::extent::Health;
use crate::extent::{Extent, ExtentId, ExtentOptions, HasMeta, Kept, Space, Store};
pub use crate::extent::{LEVELS, OnFatal, Run, RunId};
use crate::{EngineError, Result, Seq, TreeId};
use change::Change;
pub(crate) use frozen::Frozen;
pub(crate) use handle::Oldest;
pub use handle::{InMemory, SuperVersion, Tree};
use ingest::Staged;
pub(crate) use ingest::{IngestId, StagedExtents};
pub use levels::{Levels, RunAddress, ShapeEdit, Totals};
pub use manifest::Uuid;
use manifest::{Manifest, Site};
pub(crate) use run::RunIter;
pub(crate) use state::LogPoint;
use state::State;
pub(crate) use tombstone_ranges::Passage;
pub use version::Version;
pub use work::{RotationCounts, StorageStats, Work};

/// A tree that was not flushed for so long is at rest.
const REST: Duration = Duration::from_secs(10);

/// How trees are opened.
pub struct TreesConfig {
    /// Directory of the manifest and the data files (in directories of their own).
    pub dir: PathBuf,
    /// Keeps what is read.
    pub cache: Arc<BlockCache>,
    /// How extents are written.
    pub extents: ExtentOptions,
    /// When and how much is compacted, and when writers must wait.
    pub limits: Limits,
    /// Edits may take this many bytes of the manifest before a checkpoint.
    pub manifest_edit_bytes: u64,
    /// Called once when a failed write or sync makes it impossible to go on.
    pub on_fatal: OnFatal,
}

impl TreesConfig {
    /// The defaults, for this directory.
    pub fn new(dir: impl Into<PathBuf>, cache: Arc<BlockCache>, on_fatal: OnFatal) -> Self {
        TreesConfig {
            dir: dir.into(),
            cache,
            extents: ExtentOptions::default(),
            limits: Limits::default(),
            manifest_edit_bytes: 4 << 20,
            on_fatal,
        }
    }
}

/// What the manifest lock protects.
struct Meta {
    manifest: Manifest,
    next_tree: TreeId,
    log: LogPoint,
    /// The counters as the manifest has them.
    counters: BTreeMap<TreeId, u64>,
    /// Extents that wait for a commit.
    staged: Staged,
    /// What is published and not recorded yet: it comes before everything else.
    owed: Vec<Change>,
}

impl Meta {
    /// Records changes, and what is owed. After an error nothing has changed.
    fn record(&mut self, changes: Vec<Change>) -> Result<()> {
        let owed = self.owed.len();
        self.owed.extend(changes);
        let recorded = self.manifest.append(&self.owed);
        match recorded {
            Ok(()) => self.owed.clear(),
            Err(_) => self.owed.truncate(owed),
        }
        recorded
    }
}

struct Inner {
    store: Arc<Store>,
    limits: Limits,
    health: Arc<Health>,
    uuid: Uuid,
    meta: Mutex<Meta>,
    clock: Arc<dyn Clock>,
    /// Compactions that are under way end.
    is_cancelled: AtomicBool,
    /// Changed only under `meta`.
    trees: RwLock<BTreeMap<TreeId, Tree>>,
    work: Mutex<Work>,
}

/// The trees of a database. Cheap to clone.
#[derive(Clone)]
pub struct Trees {
    inner: Arc<Inner>,
}

/// What a flush or a compaction wants to install.
pub(crate) struct Installation {
    pub(crate) edit: ShapeEdit<Arc<Extent>>,
    /// Whether the edit makes the oldest tier in memory that is not active superfluous.
    pub(crate) flushed: bool,
    pub(crate) flushed_seq: Option<Seq>,
}

/// What recovery begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The log before this place is not needed.
    pub log_from: u64,
    /// The counters, ascending by tree.
    pub counters: Vec<(TreeId, u64)>,
    /// They contain every change up to this sequence.
    pub counters_as_of: Seq,
}

/// Times a flush or compaction is tried when the device does not take its extents.
const WRITE_ATTEMPTS: u32 = 3;

fn make_dir(env: &Env, dir: &Path) -> Result<()> {
    let context = || format!("creating directory {}", dir.display());
    let made = env.fs.create_dir_all(dir);
    made.map_err(|e| EngineError::io(context(), e))
}

/// What is to identify a database that is made in a directory without extents.
fn new_database(env: &Env, extents_dir: &Path) -> Result<Uuid> {
    refuse_orphans(env, extents_dir)?;
    let mut uuid = Uuid::default();
    env.random.fill(&mut uuid);
    Ok(uuid)
}

impl Trees {
    /// Opens the trees, or makes an empty database.
    pub fn open(env: &Env, config: TreesConfig) -> Result<Trees> {
        let TreesConfig {
            dir,
            cache,
            extents,
            mut limits,
            manifest_edit_bytes,
            on_fatal,
        } = config;
        limits.assert_sane();
        // Else it would be for nothing.
        limits.repacks &= extents.compression[..2]
            .iter()
            .any(|c| *c != extents.compression[2]);
        let manifest_dir = dir.join("manifest");
        let extents_dir = dir.join("extents");
        make_dir(env, &manifest_dir)?;
        make_dir(env, &extents_dir)?;
        let health = Health::new(on_fatal);
        let replayed = manifest::replay(&*env.fs, &manifest_dir)?;
        let (uuid, state) = match &replayed {
            Some(replayed) => (replayed.uuid, replayed.state.clone()),
            None => (new_database(env, &extents_dir)?, State::default()),
        };
        debug_assert!(
            state.trees.keys().all(|id| *id < state.next_tree),
            "ids are given once"
        );
        let metas = state.metas();
        let fs = Arc::clone(&env.fs);
        let space = Space::open(Arc::clone(&fs), &extents_dir, Arc::clone(&health), metas)?;
        let random = Arc::clone(&env.random);
        let store = Store::new(space, cache, extents, random);
        let trees = open_trees(&store, &state, &manifest_dir)?;
        let counters = state.counters();
        let staged = ingest::adopt(&store, &state);
        let content = content(&trees, &counters, &staged, state.next_tree, state.log);
        let site = Site {
            fs,
            dir: manifest_dir,
            health: Arc::clone(&health),
            edit_bytes: manifest_edit_bytes,
        };
        let manifest = Manifest::create(site, uuid, replayed.as_ref(), content)?;
        if !manifest.is_overdue() {
            store.space.remove_strays()?;
        }
        let meta = Mutex::new(Meta {
            manifest,
            next_tree: state.next_tree,
            log: state.log,
            counters,
            staged,
            owed: Vec::new(),
        });
        let trees = RwLock::new(trees);
        Ok(Trees {
            inner: Arc::new(Inner {
                store,
                limits,
                health,
                uuid,
                meta,
                clock: Arc::clone(&env.clock),
                is_cancelled: AtomicBool::new(false),
                trees,
                work: Mutex::default(),
            }),
        })
    }

    /// Identifies the database.
    pub fn uuid(&self) -> Uuid {
        self.inner.uuid
    }

    /// When and how much is compacted.
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.inner.clock
    }

    /// Ends the compactions that are under way; none begins any more.
    pub(crate) fn cancel_compactions(&self) {
        self.inner.is_cancelled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.inner.is_cancelled.load(Ordering::Relaxed)
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.inner.store
    }

    /// An error once a failure has stopped the engine.
    pub fn check_health(&self) -> Result<()> {
        self.inner.health.check()
    }

    /// Makes a tree. On return it survives a crash. `flushed_seq`: the log up to here has nothing for it.
    pub fn create(&self, flushed_seq: Seq) -> Result<Tree> {
        let mut meta = self.recording()?;
        let id = meta.next_tree;
        let following =
            id.0.checked_add(1)
                .ok_or_else(|| EngineError::Stopped("all tree ids were given".into()))?;
        meta.record(vec![Change::CreateTree {
            tree: id,
            flushed_seq,
        }])?;
        meta.next_tree = TreeId(following);
        let budget = self.inner.store.cache.budget();
        let tree = Tree::new(id, flushed_seq, Arc::default(), budget);
        let before = self.inner.trees.write().insert(id, tree.clone());
        debug_assert!(before.is_none(), "ids are given once");
        self.checkpoint_if_due(&mut meta);
        Ok(tree)
    }

    /// Removes a tree. Readers that hold a superversion go on; its space is free when the last of them is gone.
    pub fn drop_tree(&self, id: TreeId) -> Result<()> {
        let mut meta = self.recording()?;
        let tree = self.get(id).ok_or(EngineError::NoSuchTree(id))?;
        meta.record(vec![Change::DropTree { tree: id }])?;
        meta.counters.remove(&id);
        let removed = self.inner.trees.write().remove(&id);
        debug_assert!(removed.is_some(), "the manifest lock orders drops");
        for (_, extent) in tree.superversion().version.levels().extents() {
            extent.slots().release_on_drop();
        }
        tree.mark_dropped();
        self.checkpoint_if_due(&mut meta);
        Ok(())
    }

    /// The tree with this id.
    pub fn get(&self, id: TreeId) -> Option<Tree> {
        self.inner.trees.read().get(&id).cloned()
    }

    /// All trees, ascending by id.
    pub fn all(&self) -> Vec<Tree> {
        self.inner.trees.read().values().cloned().collect()
    }

    /// Where recovery begins, as the manifest has it.
    pub fn recovered(&self) -> Recovered {
        let meta = self.inner.meta.lock();
        Recovered {
            log_from: meta.log.from,
            counters: meta
                .counters
                .iter()
                .map(|(id, value)| (*id, *value))
                .collect(),
            counters_as_of: meta.log.counters_as_of,
        }
    }

    /// Records where the log is needed from, and the counters with every change up to `counters_as_of`. Counters of
    /// trees that do not exist are left out.
    pub fn checkpoint(
        &self,
        log_from: u64,
        counters_as_of: Seq,
        counters: &[(TreeId, u64)],
    ) -> Result<()> {
        let mut meta = self.recording()?;
        debug_assert!(
            log_from >= meta.log.from,
            "what is not needed of the log is gone"
        );
        debug_assert!(counters_as_of >= meta.log.counters_as_of);
        let mut changed = counters.to_vec();
        let known = self.inner.trees.read();
        changed.retain(|(id, value)| {
            known.contains_key(id) && meta.counters.get(id).copied().unwrap_or(0) != *value
        });
        drop(known);
        let log = LogPoint {
            from: log_from,
            counters_as_of,
        };
        let mut changes = vec![Change::Log {
            from: log_from,
            counters_as_of,
        }];
        changes.extend(
            changed
                .iter()
                .map(|&(tree, value)| Change::Counter { tree, value }),
        );
        meta.record(changes)?;
        meta.log = log;
        meta.counters.extend(changed);
        self.checkpoint_if_due(&mut meta);
        Ok(())
    }

    /// Makes the result of a flush or a compaction durable and publishes it. The data of added extents is synced by
    /// now. After an error everything is as it was. False if the tree was dropped meanwhile: the result is not wanted.
    pub(crate) fn install(&self, tree: &Tree, installation: Installation) -> Result<bool> {
        let Installation {
            edit,
            flushed,
            flushed_seq,
        } = installation;
        let id = tree.id();
        debug_assert!(
            !flushed || edit.removed.is_empty(),
            "a flush only adds extents"
        );
        let mut meta = self.recording()?;
        if tree.is_dropped() {
            return Ok(false);
        }
        let old = Arc::clone(&tree.superversion().version);
        let levels = old
            .levels()
            .apply(&edit)
            .expect("jobs make possible changes");
        let mut changes: Vec<Change> = Vec::new();
        let removed = edit.removed.iter();
        changes.extend(removed.map(|&extent| Change::RemoveExtent { tree: id, extent }));
        changes.extend(edit.added.iter().map(|(place, extent)| Change::AddExtent {
            tree: id,
            place: *place,
            meta: extent.meta().clone(),
        }));
        changes.extend(flushed_seq.map(|seq| Change::FlushedSeq { tree: id, seq }));
        meta.record(changes)?;
        mark_slots(&old, &edit);
        tree.publish(Version::new(levels), flushed);
        if let Some(seq) = flushed_seq {
            tree.set_recovery_point(seq);
        }
        if flushed {
            tree.note_flush(self.inner.clock.mono_nanos());
        }
        self.checkpoint_if_due(&mut meta);
        Ok(true)
    }

    /// The manifest, in a state in which edits can be recorded: what a full disk has put off is done first.
    fn recording(&self) -> Result<MutexGuard<'_, Meta>> {
        let mut meta = self.inner.meta.lock();
        if meta.manifest.is_overdue() {
            self.write_checkpoint(&mut meta)?;
            self.inner.store.space.remove_strays()?;
            tracing::info!("there is room on the device again");
        }
        Ok(meta)
    }

    /// Refuses while nothing may be written to data files: after a failure, or as long as the manifest on disk is one
    /// that this engine has not written, for slots may be in use there that are free here.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_health()?;
        self.recording().map(drop)
    }

    /// Whether nothing was flushed to the tree for a while.
    pub(crate) fn is_at_rest(&self, tree: &Tree) -> bool {
        let rested = self.clock().mono_nanos().saturating_sub(tree.flushed_at());
        rested >= REST.as_nanos() as u64
    }

    /// Gives disk space that is not soon used again back to the file system; false if there was none.
    pub(crate) fn trim(&self) -> Result<bool> {
        let kept = match self.all().iter().all(|tree| self.is_at_rest(tree)) {
            true => Kept::Nothing,
            false => Kept::ForSoon,
        };
        self.inner.store.space.trim(kept)
    }

    /// Gives all disk space that is free back to the file system.
    pub(crate) fn trim_all(&self) -> Result<()> {
        while self.inner.store.space.trim(Kept::Nothing)? {}
        Ok(())
    }

    /// A checkpoint that fails (a full disk) is tried again later: the edits go on in the old file.
    fn checkpoint_if_due(&self, meta: &mut Meta) {
        if !meta.manifest.checkpoint_is_due() {
            return;
        }
        if let Err(error) = self.write_checkpoint(meta) {
            tracing::warn!(%error, "manifest checkpoint failed");
        }
    }

    fn write_checkpoint(&self, meta: &mut Meta) -> Result<()> {
        let trees = self.inner.trees.read().clone();
        let Meta {
            manifest,
            next_tree,
            log,
            counters,
            staged,
            owed,
        } = meta;
        manifest.checkpoint(content(&trees, counters, staged, *next_tree, *log))?;
        // It is in the trees.
        owed.clear();
        Ok(())
    }

    /// Reads and checks every extent of every tree; passes what is damaged to `report`. The number of extents checked.
    pub fn verify(&self, mut report: impl FnMut(EngineError)) -> u64 {
        let mut checked = 0;
        for tree in self.all() {
            let version = Arc::clone(&tree.superversion().version);
            for (_, extent) in version.levels().extents() {
                checked += 1;
                extent.verify().unwrap_or_else(&mut report);
            }
        }
        checked
    }

    /// Numbers about the storage.
    pub fn stats(&self) -> StorageStats {
        StorageStats {
            space: self.inner.store.space.stats(),
            manifest_bytes: self.inner.meta.lock().manifest.bytes(),
            quarantined_extents: self.inner.store.quarantined.load(Ordering::Relaxed),
            work: *self.inner.work.lock(),
        }
    }

    /// Adds to the numbers about background work.
    pub(crate) fn note(&self, add: impl FnOnce(&mut Work)) {
        add(&mut self.inner.work.lock());
    }

    /// Does a job that writes extents; if they cannot be written, again from its beginning, which writes new ones at
    /// other places. When that does not help either, the engine stops.
    pub(crate) fn write_persistently<T>(
        &self,
        job: &str,
        tree: TreeId,
        mut attempt: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let mut attempts = 1;
        loop {
            let error = match attempt() {
                Err(error @ EngineError::WriteFailed { .. }) => error,
                result => return result,
            };
            if attempts == WRITE_ATTEMPTS {
                let reason = format!(
                    "{job} of tree {} failed {attempts} times, at last: {error}",
                    tree.0
                );
                return Err(self.inner.health.stop(reason));
            }
            debug_assert!(attempts < WRITE_ATTEMPTS);
            attempts += 1;
            tracing::error!(job, tree = tree.0, %error, "extents cannot be written, trying elsewhere");
            self.note(|work| work.write_retries += 1);
        }
    }
}

/// Extents that come are named by the manifest from now on, those that go are not. What has moved stays.
fn mark_slots(old: &Version, edit: &ShapeEdit<Arc<Extent>>) {
    let added: HashSet<ExtentId> = edit.added.iter().map(|(_, e)| e.meta().id).collect();
    for (_, extent) in &edit.added {
        extent.slots().keep();
    }
    let gone: HashSet<ExtentId> = edit
        .removed
        .iter()
        .filter(|id| !added.contains(id))
        .copied()
        .collect();
    if gone.is_empty() {
        return;
    }
    let removed = old.levels().extents();
    let removed = removed.filter(|(_, e)| gone.contains(&e.meta().id));
    let mut released = 0;
    for (_, extent) in removed {
        extent.slots().release_on_drop();
        released += 1;
    }
    debug_assert_eq!(released, gone.len(), "what goes was there");
}

/// The content of a checkpoint.
fn content<'a>(
    trees: &'a BTreeMap<TreeId, Tree>,
    counters: &'a BTreeMap<TreeId, u64>,
    staged: &'a Staged,
    next_tree: TreeId,
    log: LogPoint,
) -> impl Iterator<Item = Change> + 'a {
    let per_tree = trees.iter().flat_map(|(&id, tree)| {
        let version = Arc::clone(&tree.superversion().version);
        let extents: Vec<Change> = version
            .levels()
            .extents()
            .map(|(place, e)| Change::AddExtent {
                tree: id,
                place,
                meta: e.meta().clone(),
            })
            .collect();
        let counter = counters.get(&id).filter(|value| **value != 0);
        let create = Change::CreateTree {
            tree: id,
            flushed_seq: tree.flushed_seq(),
        };
        std::iter::once(create)
            .chain(counter.map(|&value| Change::Counter { tree: id, value }))
            .chain(extents)
    });
    let LogPoint {
        from,
        counters_as_of,
    } = log;
    [
        Change::NextTree { tree: next_tree },
        Change::Log {
            from,
            counters_as_of,
        },
    ]
    .into_iter()
    .chain(per_tree)
    .chain(ingest::content(staged))
}

/// Data files without a manifest are a damaged database, not a new one.
fn refuse_orphans(env: &Env, extents_dir: &std::path::Path) -> Result<()> {
    let context = || format!("listing {}", extents_dir.display());
    let names = env
        .fs
        .list(extents_dir)
        .map_err(|e| EngineError::io(context(), e))?;
    match names.first() {
        None => Ok(()),
        Some(name) => {
            let file = extents_dir.join(name).display().to_string();
            Err(EngineError::corruption(
                file,
                0,
                "there are data files but no manifest",
            ))
        }
    }
}

fn open_trees(
    store: &Arc<Store>,
    state: &State,
    manifest_dir: &std::path::Path,
) -> Result<BTreeMap<TreeId, Tree>> {
    let mut trees = BTreeMap::new();
    for (&id, recorded) in &state.trees {
        let levels = recorded.levels().map_err(|what| {
            let dir = manifest_dir.display().to_string();
            EngineError::corruption(dir, 0, format!("tree {}: {what}", id.0))
        })?;
        let levels = levels.map(|meta| Extent::adopt(store, id, meta.clone()));
        trees.insert(
            id,
            Tree::new(
                id,
                recorded.flushed_seq,
                Version::new(levels),
                store.cache.budget(),
            ),
        );
    }
    Ok(trees)
}

#[cfg(test)]
mod tests;
