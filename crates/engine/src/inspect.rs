//! Dump of a database's files for people: the manifest, and the extents it names.
//!
//! Neighbours: `check` looks for damage only and locks the directory with what is here; `esker_wal::LogView` shows the
//! log; the command `esker inspect` prints.
//!
//! **Invariants**
//! - Nothing is changed.
//! - One extent at a time is in memory.

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use esker_vfs::{DirLock, Env};

use crate::extent::{Extent, ExtentMeta, ExtentParts};
use crate::tree::{self, Levels, RunAddress, Uuid, manifest};
use crate::{EngineError, Result, Seq, TreeId, extent};

/// What a manifest says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ManifestView {
    /// The file in force.
    pub file: PathBuf,
    /// Its format.
    pub format: u16,
    /// The format of the extents it names.
    pub extent_format: u16,
    /// Identifies the database.
    pub uuid: Uuid,
    /// Number of the last record, counted over all files there have been.
    pub last_record: u64,
    /// The next tree gets this id.
    pub next_tree: TreeId,
    /// A restart reads the log from here on.
    pub log_from: u64,
    /// The counters contain every change up to here.
    pub counters_as_of: Seq,
    /// The trees by id.
    pub trees: Vec<TreeView>,
}

/// What a manifest says of a tree.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TreeView {
    /// Which one.
    pub id: TreeId,
    /// What the log has up to here is in extents.
    pub flushed_seq: Seq,
    /// Its counter.
    pub counter: u64,
    /// Its extents.
    pub levels: Levels<ExtentMeta>,
}

/// An extent and what is in it.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExtentView<'v> {
    /// The tree it belongs to.
    pub tree: TreeId,
    /// Where it hangs in the tree.
    pub place: RunAddress,
    /// What the manifest says of it.
    pub meta: &'v ExtentMeta,
    /// The data file it is in.
    pub file: PathBuf,
    /// What is in it, and what is damaged.
    pub parts: ExtentParts,
}

/// Reads the manifest of the database in this directory. A server may be using it: the manifest is as it is now.
///
/// # Errors
/// There is no database, its manifest is damaged or of another format, or the system refuses to read.
pub fn manifest(env: &Env, dir: &Path) -> Result<ManifestView> {
    let manifest_dir = dir.join("manifest");
    must_exist(env, dir, &manifest_dir)?;
    let Some(replayed) = manifest::replay(&*env.fs, &manifest_dir)? else {
        let file = manifest_dir.display().to_string();
        let what = "there is no manifest here";
        return Err(EngineError::corruption(file, 0, what));
    };
    let file = replayed.file(&manifest_dir);
    let trees = replayed.state.trees.iter().map(|(&id, tree)| {
        let levels = tree.levels().map_err(|what| {
            let what = format!("tree {}: {what}", id.0);
            EngineError::corruption(file.display().to_string(), 0, what)
        })?;
        Ok(TreeView {
            id,
            flushed_seq: tree.flushed_seq,
            counter: tree.counter,
            levels,
        })
    });
    Ok(ManifestView {
        trees: trees.collect::<Result<_>>()?,
        format: manifest::FORMAT_VERSION,
        extent_format: extent::FORMAT_VERSION,
        uuid: replayed.uuid,
        last_record: replayed.last_record(),
        next_tree: replayed.state.next_tree,
        log_from: replayed.state.log.from,
        counters_as_of: replayed.state.log.counters_as_of,
        file,
    })
}

/// Reads and verifies the extents that are `wanted`, tree after tree, newest data first, until `show` breaks off.
/// Nobody may have the database open, because what a compaction has replaced is written over.
///
/// # Errors
/// As [`manifest`], and if somebody has it open. A damaged extent is shown as far as it can be read.
pub fn extents(
    env: &Env,
    dir: &Path,
    wanted: &dyn Fn(TreeId, &ExtentMeta) -> bool,
    show: &mut dyn FnMut(&ExtentView<'_>) -> ControlFlow<()>,
) -> Result<()> {
    let _lock = lock(env, dir)?;
    let extent_dir = dir.join("extents");
    for tree in &manifest(env, dir)?.trees {
        let metas = tree.levels.extents();
        for (place, meta) in metas.filter(|(_, meta)| wanted(tree.id, meta)) {
            let store = tree::check::open_store(env, &extent_dir, std::iter::once(meta));
            let parts = match store {
                Ok(store) => Extent::adopt(&store, tree.id, meta.clone()).inspect(),
                Err(error) => ExtentParts {
                    damage: vec![error],
                    ..ExtentParts::default()
                },
            };
            let view = ExtentView {
                tree: tree.id,
                place,
                meta,
                file: extent::file_path(&extent_dir, meta.id.file()),
                parts,
            };
            if show(&view).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Keeps everybody else from opening the database meanwhile.
///
/// # Errors
/// There is no database, or somebody has it open.
pub(crate) fn lock(env: &Env, dir: &Path) -> Result<Box<dyn DirLock>> {
    must_exist(env, dir, &dir.join("manifest"))?;
    env.fs.lock_dir(dir).map_err(|e| match e.kind() {
        ErrorKind::WouldBlock => EngineError::InUse(dir.display().to_string().into()),
        _ => cannot_open(dir, e),
    })
}

fn must_exist(env: &Env, dir: &Path, part: &Path) -> Result<()> {
    match exists(env, dir, part)? {
        true => Ok(()),
        false => Err(cannot_open(dir, ErrorKind::NotFound.into())),
    }
}

/// Whether this part of the database is there.
pub(crate) fn exists(env: &Env, dir: &Path, part: &Path) -> Result<bool> {
    env.fs.exists(part).map_err(|e| cannot_open(dir, e))
}

fn cannot_open(dir: &Path, e: std::io::Error) -> EngineError {
    EngineError::io(format!("opening the data directory {}", dir.display()), e)
}
