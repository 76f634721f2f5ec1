//! Where a run keeps its data: in memory or in a directory of its own.
//!
//! Neighbours: `commit`, `kv` and `scan` open engines on it.
//!
//! **Invariants**
//! - A directory that exists is never touched; one that was made is removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_vfs::{Fs, OsFs};

use crate::memory::MemoryFs;
use crate::{Error, Result};

/// Where a run keeps its data; gone afterwards.
pub(crate) enum Scratch {
    Memory(MemoryFs),
    Disk(PathBuf),
}

impl Scratch {
    /// Below this directory of the real disk, or in memory.
    pub(crate) fn new(below: Option<&Path>) -> Result<Scratch> {
        let Some(below) = below else {
            return Ok(Scratch::Memory(MemoryFs::default()));
        };
        let path = below.join(format!("esker-bench-{}", std::process::id()));
        let io = |source| Error::Io {
            path: path.clone(),
            source,
        };
        if OsFs.exists(&path).map_err(io)? {
            return Err(Error::Exists(path));
        }
        OsFs.create_dir_all(&path).map_err(io)?;
        Ok(Scratch::Disk(path))
    }

    /// The disk it is on.
    pub(crate) fn fs(&self) -> Arc<dyn Fs> {
        match self {
            Scratch::Memory(fs) => Arc::new(fs.clone()),
            Scratch::Disk(_) => Arc::new(OsFs),
        }
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Scratch::Memory(_) => Path::new("/bench"),
            Scratch::Disk(path) => path,
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Scratch::Disk(path) = self {
            // What cannot be removed is left for the user; the figures are good.
            let _ = OsFs.remove_dir_all(path);
        }
    }
}
