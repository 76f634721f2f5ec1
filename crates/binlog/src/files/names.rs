//! Names of files: `binlog.000001`, `binlog.000002`, and so on.
//!
//! Neighbours: `index` lists them.
//! **Invariants**: numbers never come back within the life of a set of files; they have at least six digits.

use std::path::{Path, PathBuf};

/// Number of a file of the binary log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileNumber(pub u32);

impl FileNumber {
    /// The file that all begins with, if nothing else is said.
    pub const FIRST: Self = Self(1);
}

/// Where files are, and what they are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    dir: PathBuf,
    base: String,
    /// Elsewhere than beside the files.
    index: Option<PathBuf>,
}

impl Names {
    /// Files in `dir`.
    pub fn new(dir: PathBuf, base: &str) -> Self {
        Self {
            dir,
            base: base.to_owned(),
            index: None,
        }
    }

    /// The same with an index elsewhere.
    pub fn with_index(mut self, path: PathBuf) -> Self {
        self.index = Some(path);
        self
    }

    /// Do the files have the same names?
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        (&self.dir, &self.base) == (&other.dir, &other.base)
    }

    /// What the names begin with.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Name of a file, without folder.
    pub fn name(&self, number: FileNumber) -> String {
        format!("{}.{:06}", self.base, number.0)
    }

    /// Its path.
    pub fn path(&self, number: FileNumber) -> PathBuf {
        self.dir.join(self.name(number))
    }

    /// Path of the index.
    pub fn index(&self) -> PathBuf {
        let beside = || self.dir.join(format!("{}.index", self.base));
        self.index.clone().unwrap_or_else(beside)
    }

    /// Path of a file that belongs to the set and has another ending.
    pub(super) fn other(&self, ending: &str) -> PathBuf {
        self.dir.join(format!("{}.{ending}", self.base))
    }

    /// The number of the file that somebody names, whatever the folder before it: there is one alone.
    pub fn number_of_path(&self, path: &str) -> Option<FileNumber> {
        self.number(path.rsplit_once('/').map_or(path, |(_, name)| name))
    }

    /// The number of the file of this name.
    pub fn number(&self, name: &str) -> Option<FileNumber> {
        let digits = name.strip_prefix(&*self.base)?.strip_prefix('.')?;
        let is_number = digits.len() >= 6 && digits.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| digits.parse().ok().map(FileNumber))?
    }
}
