//! Offline verification of the manifest and of every extent it names.
//!
//! Neighbours: `crate::check` adds the log.
//!
//! **Invariants**
//! - Nothing is written.
//! - A file that is damaged or missing does not hide what is wrong with others.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use esker_vfs::Env;

use super::manifest::{self, Uuid};
use super::state::LogPoint;
use crate::cache::BlockCache;
use crate::extent::Health;
use crate::extent::{Extent, ExtentMeta, ExtentOptions, Space, Store};
use crate::{EngineError, Result, Seq, TreeId};

/// Memory for what is read more than once.
const CACHE_BYTES: u64 = 8 << 20;

/// Takes what is damaged, with the extent that is hurt by it.
type Report<'r> = &'r mut dyn FnMut(Option<(TreeId, &ExtentMeta)>, EngineError);

/// What was found to check.
#[derive(Debug, Default)]
pub(crate) struct CheckedTrees {
    pub(crate) trees: u64,
    pub(crate) extents: u64,
    pub(crate) extent_bytes: u64,
    pub(crate) log: LogPoint,
    /// Up to where each tree needs nothing of the log.
    pub(crate) flushed_seqs: BTreeMap<TreeId, Seq>,
    pub(crate) uuid: Option<Uuid>,
}

/// Reads and checks the manifest and every extent of every tree. Damage of an extent is reported with it.
///
/// # Errors
/// The manifest is damaged, or the system refuses to read.
pub(crate) fn check(env: &Env, dir: &Path, report: Report<'_>) -> Result<CheckedTrees> {
    let manifest_dir = dir.join("manifest");
    let Some(replayed) = manifest::replay(&*env.fs, &manifest_dir)? else {
        return Err(EngineError::corruption(
            manifest_dir.display().to_string(),
            0,
            "there is no manifest here",
        ));
    };
    let mut checked = CheckedTrees {
        trees: replayed.state.trees.len() as u64,
        log: replayed.state.log,
        flushed_seqs: (replayed.state.trees.iter())
            .map(|(id, tree)| (*id, tree.flushed_seq))
            .collect(),
        uuid: Some(replayed.uuid),
        ..CheckedTrees::default()
    };
    // One data file after the other, and in each one extent behind the other.
    let mut files: BTreeMap<u32, Vec<(TreeId, &ExtentMeta)>> = BTreeMap::new();
    for (&id, tree) in &replayed.state.trees {
        if let Err(what) = tree.levels() {
            let what = format!("tree {}: {what}", id.0);
            let file = manifest_dir.display().to_string();
            report(None, EngineError::corruption(file, 0, what));
        }
        for meta in tree.metas() {
            checked.extents += 1;
            checked.extent_bytes += u64::from(meta.stored_bytes);
            files.entry(meta.id.file()).or_default().push((id, meta));
        }
    }
    for (tree, meta) in replayed.state.staged.values().flatten() {
        checked.extents += 1;
        checked.extent_bytes += u64::from(meta.stored_bytes);
        files.entry(meta.id.file()).or_default().push((*tree, meta));
    }
    for extents in files.values_mut() {
        extents.sort_unstable_by_key(|(_, meta)| meta.id.slot());
        check_file(env, &dir.join("extents"), extents, report);
    }
    Ok(checked)
}

/// Opens the data files in `dir` that hold these extents, to read them.
pub(crate) fn open_store<'m>(
    env: &Env,
    dir: &Path,
    metas: impl Iterator<Item = &'m ExtentMeta>,
) -> Result<Arc<Store>> {
    let health = Health::new(Arc::new(|_| {}));
    let space = Space::open(Arc::clone(&env.fs), dir, health, metas)?;
    let cache = BlockCache::new(CACHE_BYTES);
    let options = ExtentOptions::default();
    Ok(Store::new(space, cache, options, Arc::clone(&env.random)))
}

/// Checks the extents of one data file.
fn check_file(env: &Env, dir: &Path, extents: &[(TreeId, &ExtentMeta)], report: Report<'_>) {
    let whole = open_store(env, dir, extents.iter().map(|(_, meta)| *meta));
    for (tree, meta) in extents {
        // A file that is too short still has some of its extents.
        let store = match &whole {
            Ok(store) => Ok(Arc::clone(store)),
            Err(_) => open_store(env, dir, std::iter::once(*meta)),
        };
        let verified =
            store.and_then(|store| Extent::adopt(&store, *tree, (*meta).clone()).verify());
        if let Err(error) = verified {
            report(Some((*tree, meta)), error);
        }
    }
    if let Err(error) = whole
        && extents.len() > 1
    {
        report(None, error);
    }
}
