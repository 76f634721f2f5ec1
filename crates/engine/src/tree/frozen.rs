//! All trees as the manifest could say it at one moment, with handles that keep the extents.
//!
//! Neighbours: `backup` copies them; `manifest` writes what they consist of.
//!
//! **Invariants**
//! - No edit of the manifest comes between the content, the extents and what `make_durable` does: together with the
//!   log that is durable then, this is what a crash at that moment would have left.
//! - The slots of these extents are not used again while this exists.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_vfs::Fs;

use super::change::Change;
use super::{Trees, Uuid, content, manifest};
use crate::Result;
use crate::extent::Extent;

/// The trees at one moment.
pub(crate) struct Frozen {
    pub(crate) uuid: Uuid,
    /// Each extent once, in the order of the data files.
    pub(crate) extents: Vec<Arc<Extent>>,
    content: Vec<Change>,
}

impl Trees {
    /// The trees as they are when `make_durable` runs, which is told from where on a restart needs the log.
    ///
    /// # Errors
    /// Those of `make_durable`; the engine has stopped.
    pub(crate) fn freeze(&self, make_durable: impl FnOnce(u64) -> Result<()>) -> Result<Frozen> {
        let meta = self.inner.meta.lock();
        self.inner.health.check()?;
        make_durable(meta.log.from)?;
        let trees = self.inner.trees.read().clone();
        let (counters, staged) = (&meta.counters, &meta.staged);
        let content = content(&trees, counters, staged, meta.next_tree, meta.log).collect();
        let mut extents = Vec::new();
        for tree in trees.values() {
            let version = Arc::clone(&tree.superversion().version);
            extents.extend(version.levels().extents().map(|(_, e)| Arc::clone(e)));
        }
        extents.extend(meta.staged.values().flatten().map(|(_, e)| Arc::clone(e)));
        extents.sort_unstable_by_key(|extent| extent.meta().id);
        let pairs = extents.iter().zip(extents.iter().skip(1));
        for (a, b) in pairs {
            assert!(a.meta().id < b.meta().id, "an extent has one place");
        }
        Ok(Frozen {
            uuid: self.inner.uuid,
            extents,
            content,
        })
    }
}

impl Frozen {
    /// Writes the manifest of a database that consists of this; its file.
    ///
    /// # Errors
    /// Of the system.
    pub(crate) fn write_manifest(&self, fs: &dyn Fs, dir: &Path) -> Result<PathBuf> {
        manifest::write_copy(fs, dir, self.uuid, self.content.clone())
    }
}
