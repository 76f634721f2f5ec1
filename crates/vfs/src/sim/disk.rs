//! The state of the simulated disk, under one lock.
//!
//! Neighbours: `fs` holds the lock and the handles; `names` and `inode` hold the parts.
//!
//! **Invariants**
//! - `used` is the space of all inodes that have a name or an open handle.
//! - Every change takes the next stamp (`seq`); syncs cover the stamps given before they began.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::fault::{Op, Plan, no_space, power_is_off};
use super::inode::Inode;
use super::names::{InodeId, Names, Node};
use super::rng::SimRng;
use super::{CrashImage, Keep, SECTOR_BYTES};
use crate::fs::OpenMode;

/// The sectors that lie wholly in a range of bytes; an empty range if none does.
fn whole_sectors(start: u64, end: u64) -> (u64, u64) {
    let sector = SECTOR_BYTES as u64;
    let (start, end) = (start.next_multiple_of(sector), end / sector * sector);
    (start, end.max(start))
}

/// Asked before each change whether to keep what a crash would leave now; what it gives with that is kept, too.
pub(super) type Camera = Box<dyn FnMut(u64) -> Option<(CrashImage, usize)> + Send>;

/// Most disks that are kept.
const MAX_TAKEN: usize = 10_000;

/// A disk as a crash would have left it.
pub(super) struct Taken {
    pub(super) disk: Disk,
    pub(super) note: usize,
}

pub(super) struct Disk {
    names: Names,
    inodes: BTreeMap<InodeId, Inode>,
    next_inode: InodeId,
    next_seq: u64,
    capacity: u64,
    used: u64,
    /// Operations that changed the disk, so far.
    ops: u64,
    /// The power goes when this many changes were made.
    halt_at: u64,
    /// No more space can be had when this many changes were made.
    fill_at: u64,
    pub(super) plan: Plan,
    pub(super) locked_dirs: BTreeSet<PathBuf>,
    /// Syncs of files whose path contains this wait while it is set.
    pub(super) held_syncs: Option<String>,
    pub(super) waiting_syncs: usize,
    camera: Option<Camera>,
    taken: Vec<Taken>,
}

impl Disk {
    pub(super) fn new() -> Self {
        Self {
            names: Names::new(),
            inodes: BTreeMap::new(),
            next_inode: 1,
            next_seq: 1,
            capacity: u64::MAX,
            used: 0,
            ops: 0,
            halt_at: u64::MAX,
            fill_at: u64::MAX,
            plan: Plan::default(),
            locked_dirs: BTreeSet::new(),
            held_syncs: None,
            waiting_syncs: 0,
            camera: None,
            taken: Vec::new(),
        }
    }

    pub(super) fn watch(&mut self, camera: Camera) {
        self.camera = Some(camera);
    }

    /// Ends the watch; what was kept.
    pub(super) fn take_kept(&mut self) -> Vec<Taken> {
        self.camera = None;
        std::mem::take(&mut self.taken)
    }

    pub(super) fn ops(&self) -> u64 {
        self.ops
    }

    pub(super) fn halt_at(&mut self, ops: u64) {
        self.halt_at = ops;
    }

    pub(super) fn fill_at(&mut self, ops: u64) {
        self.fill_at = ops;
    }

    pub(super) fn has_power(&self) -> bool {
        self.ops < self.halt_at
    }

    pub(super) fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes;
    }

    pub(super) fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.used)
    }

    /// What a name takes; a directory nothing.
    pub(super) fn taken(&self, path: &Path) -> io::Result<u64> {
        if !self.has_power() {
            return Err(power_is_off());
        }
        match self.names.get(path) {
            Some(Node::Dir) => Ok(0),
            Some(Node::File(inode)) => Ok(self.inodes[&inode].space.total()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Counts an operation and decides whether it fails. A change that fails is counted too.
    pub(super) fn begin(&mut self, op: Op, path: &Path) -> io::Result<()> {
        if !self.has_power() {
            return Err(power_is_off());
        }
        if op.is_change() {
            if self.ops == self.fill_at {
                self.capacity = self.used;
            }
            if let Some((image, note)) = self.camera.as_mut().and_then(|look| look(self.ops)) {
                assert!(self.taken.len() < MAX_TAKEN, "a test keeps too many disks");
                let disk = self.after_crash(image);
                self.taken.push(Taken { disk, note });
            }
            self.ops += 1;
        }
        self.plan.check(op, path)
    }

    /// As [`Disk::begin`], for an operation on an open file: the fault plan sees the name that the
    /// file has now, or the one it was opened by if it has none.
    pub(super) fn begin_on(&mut self, op: Op, inode: InodeId, opened_as: &Path) -> io::Result<()> {
        let named = if self.plan.is_empty() {
            None
        } else {
            self.names.path_of(inode)
        };
        self.begin(op, named.as_deref().unwrap_or(opened_as))
    }

    /// Whether a sync of this open file has to wait.
    pub(super) fn is_held(&self, inode: InodeId, opened_as: &Path) -> bool {
        self.held_syncs.as_ref().is_some_and(|part| {
            let named = self.names.path_of(inode);
            named
                .as_deref()
                .unwrap_or(opened_as)
                .to_string_lossy()
                .contains(part)
        })
    }

    fn stamp(&mut self) -> u64 {
        self.next_seq += 1;
        self.next_seq - 1
    }

    /// The stamp that the next change will get: a sync that begins now covers what is below.
    pub(super) fn next_stamp(&self) -> u64 {
        self.next_seq
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    pub(super) fn create_dirs(&mut self, path: &Path) -> io::Result<()> {
        if !self.has_power() {
            return Err(power_is_off());
        }
        if self.names.create_dirs(path) {
            Ok(())
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    }

    pub(super) fn open(&mut self, path: &Path, mode: OpenMode) -> io::Result<InodeId> {
        if !self.has_power() {
            return Err(power_is_off());
        }
        let inode = match (self.names.get(path), mode) {
            (Some(Node::Dir), _) => return Err(io::ErrorKind::IsADirectory.into()),
            (Some(Node::File(_)), OpenMode::CreateNew) => {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            (Some(Node::File(inode)), _) => inode,
            (None, OpenMode::Read | OpenMode::ReadWrite) => {
                return Err(io::ErrorKind::NotFound.into());
            }
            (None, OpenMode::CreateNew | OpenMode::CreateOrOpen) => self.create(path)?,
        };
        self.inode_mut(inode).open_count += 1;
        Ok(inode)
    }

    fn create(&mut self, path: &Path) -> io::Result<InodeId> {
        self.begin(Op::Create, path)?;
        if path.parent().and_then(|dir| self.names.get(dir)) != Some(Node::Dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inode = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(inode, Inode::new());
        let seq = self.stamp();
        self.names.set(path, inode, seq);
        Ok(inode)
    }

    /// The inode of an open file or of a name.
    pub(super) fn inode(&self, id: InodeId) -> &Inode {
        self.inodes
            .get(&id)
            .expect("names and handles keep their inodes")
    }

    pub(super) fn inode_mut(&mut self, id: InodeId) -> &mut Inode {
        self.inodes
            .get_mut(&id)
            .expect("names and handles keep their inodes")
    }

    pub(super) fn lookup_file(&self, path: &Path) -> io::Result<InodeId> {
        match self.names.get(path) {
            Some(Node::File(inode)) => Ok(inode),
            Some(Node::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        self.begin(Op::Remove, path)?;
        let inode = self.lookup_file(path)?;
        let seq = self.stamp();
        self.names.remove(path, seq);
        self.unlink(inode);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.begin(Op::Rename, from)?;
        let inode = self.lookup_file(from)?;
        let replaced = match self.names.get(to) {
            Some(Node::Dir) => return Err(io::ErrorKind::IsADirectory.into()),
            Some(Node::File(old)) if old != inode => Some(old),
            _ => None,
        };
        if to.parent().and_then(|dir| self.names.get(dir)) != Some(Node::Dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let seq = self.stamp();
        self.names.rename(from, to, inode, seq);
        if let Some(old) = replaced {
            self.unlink(old);
        }
        Ok(())
    }

    /// The inode has lost its name.
    fn unlink(&mut self, id: InodeId) {
        let inode = self.inode_mut(id);
        inode.linked = false;
        if inode.open_count == 0 {
            self.used -= self.inode(id).space.total();
            self.collect(id);
        }
    }

    pub(super) fn close(&mut self, id: InodeId) {
        let inode = self.inode_mut(id);
        inode.open_count -= 1;
        if inode.open_count == 0 && !inode.linked {
            self.used -= self.inode(id).space.total();
            self.collect(id);
        }
    }

    /// Forgets an inode without name and handle unless a crash could bring its name back.
    fn collect(&mut self, id: InodeId) {
        if !self.names.mentions(id) {
            self.inodes.remove(&id);
        }
    }

    pub(super) fn sync_dir(&mut self, dir: &Path, before: u64) {
        self.names.sync_dir(dir, before);
        let orphans: Vec<InodeId> = self
            .inodes
            .iter()
            .filter(|(_, inode)| !inode.linked && inode.open_count == 0)
            .map(|(&id, _)| id)
            .collect();
        for id in orphans {
            self.collect(id);
        }
    }

    /// Writes as much as fits; a write that does not fit whole is an error.
    pub(super) fn write(&mut self, id: InodeId, buf: &[u8], offset: u64) -> io::Result<()> {
        let fits = self.reserve_prefix(id, offset, buf.len() as u64);
        let seq = self.stamp();
        if fits > 0 {
            self.inode_mut(id).write(&buf[..fits as usize], offset, seq);
        }
        if fits < buf.len() as u64 {
            Err(no_space())
        } else {
            Ok(())
        }
    }

    /// Reserves space for as long a prefix of the range as the disk has room for.
    fn reserve_prefix(&mut self, id: InodeId, offset: u64, len: u64) -> u64 {
        let free = self.free();
        let inode = self.inode_mut(id);
        let mut fits = len;
        while inode.space.missing(offset, offset + fits) > free {
            fits = fits.saturating_sub(SECTOR_BYTES as u64);
        }
        let added = inode.space.missing(offset, offset + fits);
        inode.space.add(offset, offset + fits);
        self.used += added;
        fits
    }

    pub(super) fn allocate(&mut self, id: InodeId, offset: u64, len: u64) -> io::Result<()> {
        let missing = self.inode(id).space.missing(offset, offset + len);
        if missing > self.free() {
            return Err(no_space());
        }
        let seq = self.stamp();
        let inode = self.inode_mut(id);
        inode.space.add(offset, offset + len);
        inode.grow_to(offset + len, seq);
        self.used += missing;
        Ok(())
    }

    pub(super) fn set_len(&mut self, id: InodeId, len: u64) {
        let seq = self.stamp();
        let inode = self.inode_mut(id);
        inode.set_len(len, seq);
        self.used -= self.inode_mut(id).space.truncate(len);
    }

    pub(super) fn punch(&mut self, id: InodeId, offset: u64, len: u64) {
        let seq = self.stamp();
        let inode = self.inode_mut(id);
        let (start, end) = whole_sectors(offset, offset + len);
        inode.clear(start, end, seq);
        self.used -= self.inode_mut(id).space.remove(start, end);
    }

    /// Whether anything on the disk waits for a sync of its file.
    pub(super) fn has_unsynced_bytes(&self) -> bool {
        self.inodes
            .values()
            .any(|inode| inode.linked && inode.is_dirty())
    }

    pub(super) fn drop_caches(&mut self) {
        for inode in self.inodes.values_mut() {
            inode.drop_lost();
        }
    }

    /// The disk as a power loss leaves it.
    pub(super) fn after_crash(&self, image: CrashImage) -> Disk {
        let mut rng = SimRng::new(match image {
            CrashImage::Random(seed) => seed,
            CrashImage::DropUnsynced | CrashImage::KeepUnsynced => 0,
        });
        let keep = Keep::decide(image, self.next_seq, &mut rng);
        let mut disk = Disk::new();
        disk.names = self.names.after_crash(&keep, &mut rng);
        disk.capacity = self.capacity;
        disk.next_inode = self.next_inode;
        disk.next_seq = self.next_seq;
        for id in disk.names.inodes() {
            let inode = self.inode(id).after_crash(&keep, &mut rng);
            disk.used += inode.space.total();
            disk.inodes.insert(id, inode);
        }
        disk
    }
}
