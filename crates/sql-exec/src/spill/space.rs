//! The directory of temporary files, and what sessions did in it.
//!
//! Neighbours: `instance` makes one [`TempSpace`] at start; every session has a [`TempFiles`] on it,
//! which the execution context lends to the operators.
//! **Invariants**: what an earlier process left in the directory is removed before the first file is
//! made; the bytes in use are those of open files.

use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker_engine::{Charge, MemoryBudget, MemoryUse};
use esker_types::{SqlResult, errors};
use esker_vfs::{Fs, OpenMode};

use super::file::SpillFile;

/// Name of the directory below the data directory.
const DIRECTORY: &str = "tmp";
/// How the name of a directory below `tmpdir` begins, which others use too.
const SHARED_PREFIX: &str = "esker-";
/// How names of temporary files end.
const SUFFIX: &str = ".tmp";

/// Where temporary files are made.
pub struct TempSpace {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    next: AtomicU64,
    /// Bytes of open temporary files.
    pub(super) used: AtomicU64,
    /// Where their buffers are counted.
    memory: Arc<MemoryBudget>,
}

impl TempSpace {
    /// The directory of a server: below `tmpdir` where that is set, under a name that no server on another
    /// data directory has; else below the data directory.
    pub fn folder(tmpdir: &str, data_dir: &Path) -> PathBuf {
        if tmpdir.is_empty() {
            return data_dir.join(DIRECTORY);
        }
        let absolute = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
        let mut hash = std::hash::DefaultHasher::new();
        absolute.hash(&mut hash);
        Path::new(tmpdir).join(format!("{SHARED_PREFIX}{:016x}", hash.finish()))
    }

    /// Where they are made.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes the directory, or empties the one that is there. Buffers are charged to `memory`.
    ///
    /// # Errors
    /// 1030 when the directory cannot be made, read or emptied.
    pub fn open(fs: Arc<dyn Fs>, dir: &Path, memory: &Arc<MemoryBudget>) -> SqlResult<Arc<Self>> {
        let dir = dir.to_owned();
        let fail = |e: std::io::Error| errors::storage_failed(format!("{}: {e}", dir.display()));
        if fs.exists(&dir).map_err(fail)? {
            for name in fs.list(&dir).map_err(fail)? {
                if name.ends_with(SUFFIX) {
                    fs.remove_file(&dir.join(name)).map_err(fail)?;
                }
            }
        } else {
            fs.create_dir_all(&dir).map_err(fail)?;
        }
        Ok(Arc::new(Self {
            fs,
            dir,
            next: AtomicU64::new(0),
            used: AtomicU64::new(0),
            memory: Arc::clone(memory),
        }))
    }

    /// Bytes in open temporary files.
    pub fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// A charge for a buffer, which is never refused: who was refused memory needs it to do without.
    pub(super) fn buffer_charge(&self) -> Charge {
        Charge::new(&self.memory, MemoryUse::TempFiles)
    }
}

/// What statements of a session spilled.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SpillCounts {
    /// Temporary files made.
    pub files: u64,
    /// Hash tables and materialised results that went to disk.
    pub tables: u64,
    /// Rounds of merging sorted runs.
    pub merge_passes: u64,
}

/// One session's temporary files.
pub struct TempFiles {
    space: Arc<TempSpace>,
    files: AtomicU64,
    tables: AtomicU64,
    merge_passes: AtomicU64,
}

impl TempFiles {
    /// Temporary files in `space`.
    pub fn new(space: Arc<TempSpace>) -> Self {
        Self {
            space,
            files: AtomicU64::new(0),
            tables: AtomicU64::new(0),
            merge_passes: AtomicU64::new(0),
        }
    }

    /// A new file, nameless from its first byte on.
    ///
    /// # Errors
    /// 1 (cannot create), 23 (no file descriptor), 1021 (disk full).
    pub(crate) fn create(&self) -> SqlResult<SpillFile> {
        let space = &self.space;
        let number = space.next.fetch_add(1, Ordering::Relaxed);
        let path = space.dir.join(format!("{number}{SUFFIX}"));
        let fail = |e: std::io::Error| super::file::io_error(1, "Can't create/write to file", &e);
        let file = space.fs.open(&path, OpenMode::CreateNew).map_err(fail)?;
        space.fs.remove_file(&path).map_err(fail)?;
        self.files.fetch_add(1, Ordering::Relaxed);
        Ok(SpillFile::new(file, space.clone()))
    }

    /// A hash table or a materialised result goes to disk.
    pub(crate) fn count_table(&self) {
        self.tables.fetch_add(1, Ordering::Relaxed);
    }

    /// Sorted runs are merged once.
    pub(crate) fn count_merge(&self) {
        self.merge_passes.fetch_add(1, Ordering::Relaxed);
    }

    /// What was counted since the last call; `None`: nothing. Asked after every request.
    pub fn take_counts(&self) -> Option<SpillCounts> {
        // Whatever is counted happens in a file, and whatever is merged was written before.
        if self.files.load(Ordering::Relaxed) == 0 && self.merge_passes.load(Ordering::Relaxed) == 0
        {
            return None;
        }
        Some(SpillCounts {
            files: self.files.swap(0, Ordering::Relaxed),
            tables: self.tables.swap(0, Ordering::Relaxed),
            merge_passes: self.merge_passes.swap(0, Ordering::Relaxed),
        })
    }
}
