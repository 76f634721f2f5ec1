//! The directory tree of the simulated disk: names that readers see, and names that are durable.
//!
//! **Invariants**
//! - A create, rename or remove survives a crash for certain only after a sync of its directory.
//! - A rename is atomic: a crash keeps the old name or the new one, never none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::Keep;
use super::rng::SimRng;

/// Number of an inode.
pub(super) type InodeId = u64;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    File(InodeId),
    Dir,
}

type Map = BTreeMap<PathBuf, Node>;

/// A change of names that no sync has covered yet.
#[derive(Debug, Clone)]
enum Change {
    Set {
        path: PathBuf,
        inode: InodeId,
    },
    Remove {
        path: PathBuf,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
        inode: InodeId,
    },
}

impl Change {
    fn apply(&self, map: &mut Map) {
        match self {
            Change::Set { path, inode } => {
                map.insert(path.clone(), Node::File(*inode));
            }
            Change::Remove { path } => {
                map.remove(path);
            }
            Change::Rename { from, to, inode } => {
                // A crash may have dropped the creation of `from`, or kept a later file there.
                if map.get(from) == Some(&Node::File(*inode)) {
                    map.remove(from);
                }
                map.insert(to.clone(), Node::File(*inode));
            }
        }
    }

    fn dirs(&self) -> impl Iterator<Item = &Path> {
        let (a, b) = match self {
            Change::Set { path, .. } | Change::Remove { path } => (path, None),
            Change::Rename { from, to, .. } => (from, Some(to)),
        };
        [Some(a), b]
            .into_iter()
            .flatten()
            .filter_map(|p| p.parent())
    }

    fn inode(&self) -> Option<InodeId> {
        match self {
            Change::Set { inode, .. } | Change::Rename { inode, .. } => Some(*inode),
            Change::Remove { .. } => None,
        }
    }
}

/// All names, by normalised absolute path.
#[derive(Debug, Clone)]
pub(super) struct Names {
    current: Map,
    durable: Map,
    pending: Vec<(u64, Change)>,
}

/// Makes a path absolute and removes `.` and `..`.
pub(super) fn normalised(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    clean
}

impl Names {
    pub(super) fn new() -> Self {
        let root = Map::from([(PathBuf::from("/"), Node::Dir)]);
        Self {
            current: root.clone(),
            durable: root,
            pending: Vec::new(),
        }
    }

    pub(super) fn get(&self, path: &Path) -> Option<Node> {
        self.current.get(path).copied()
    }

    /// A name that leads to this inode now.
    pub(super) fn path_of(&self, inode: InodeId) -> Option<PathBuf> {
        let found = self
            .current
            .iter()
            .find(|(_, node)| **node == Node::File(inode));
        found.map(|(path, _)| path.clone())
    }

    /// Names directly inside a directory.
    pub(super) fn list(&self, dir: &Path) -> Vec<String> {
        self.current
            .range(dir.to_path_buf()..)
            .take_while(|(path, _)| path.starts_with(dir))
            .filter(|(path, _)| path.parent() == Some(dir))
            .filter_map(|(path, _)| path.file_name()?.to_str().map(str::to_owned))
            .collect()
    }

    /// Creates a directory and its parents, durable at once. `false` if a file is in the way.
    pub(super) fn create_dirs(&mut self, path: &Path) -> bool {
        if path
            .ancestors()
            .any(|p| matches!(self.get(p), Some(Node::File(_))))
        {
            return false;
        }
        for dir in path.ancestors() {
            self.current.insert(dir.to_path_buf(), Node::Dir);
            self.durable.insert(dir.to_path_buf(), Node::Dir);
        }
        true
    }

    pub(super) fn set(&mut self, path: &Path, inode: InodeId, seq: u64) {
        self.change(
            Change::Set {
                path: path.to_path_buf(),
                inode,
            },
            seq,
        );
    }

    pub(super) fn remove(&mut self, path: &Path, seq: u64) {
        self.change(
            Change::Remove {
                path: path.to_path_buf(),
            },
            seq,
        );
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path, inode: InodeId, seq: u64) {
        let (from, to) = (from.to_path_buf(), to.to_path_buf());
        self.change(Change::Rename { from, to, inode }, seq);
    }

    fn change(&mut self, change: Change, seq: u64) {
        change.apply(&mut self.current);
        self.pending.push((seq, change));
    }

    /// Makes durable what happened in `dir` before `before`, and what that depends on.
    pub(super) fn sync_dir(&mut self, dir: &Path, before: u64) {
        let mut dirs = BTreeSet::from([dir.to_path_buf()]);
        let mut covered = vec![false; self.pending.len()];
        // Backwards, because a rename between directories drags earlier changes of both along.
        for (i, (seq, change)) in self.pending.iter().enumerate().rev() {
            if *seq < before && change.dirs().any(|d| dirs.contains(d)) {
                covered[i] = true;
                dirs.extend(change.dirs().map(Path::to_path_buf));
            }
        }
        let mut covered = covered.into_iter();
        let durable = &mut self.durable;
        self.pending.retain(|(_, change)| {
            let settled = covered.next().unwrap_or(false);
            if settled {
                change.apply(durable);
            }
            !settled
        });
    }

    /// Whether a crash could still bring this inode back.
    pub(super) fn mentions(&self, inode: InodeId) -> bool {
        self.pending
            .iter()
            .any(|(_, change)| change.inode() == Some(inode))
            || self.durable.values().any(|node| *node == Node::File(inode))
            || self.current.values().any(|node| *node == Node::File(inode))
    }

    /// The inodes that have a name.
    pub(super) fn inodes(&self) -> impl Iterator<Item = InodeId> {
        self.current.values().filter_map(|node| match node {
            Node::File(inode) => Some(*inode),
            Node::Dir => None,
        })
    }

    /// The names as a crash leaves them.
    pub(super) fn after_crash(&self, keep: &Keep, rng: &mut SimRng) -> Names {
        let mut map = self.durable.clone();
        for (seq, change) in &self.pending {
            if keep.choose(std::iter::once(*seq), rng).is_some() {
                change.apply(&mut map);
            }
        }
        Names {
            current: map.clone(),
            durable: map,
            pending: Vec::new(),
        }
    }
}
