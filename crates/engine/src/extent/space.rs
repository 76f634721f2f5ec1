//! The data files and which of their slots are in use.
//!
//! Neighbours: `writer` asks for slots; every open extent holds its [`Slots`] and gives them back when the last reader
//! lets go of it; `tree` says which slots are in use when it opens, and whether an extent's slots are to be kept.
//!
//! **Invariants**
//! - A slot has one owner. Slots are given back only by the drop of their [`Slots`], and only if no durable manifest edit
//!   names them: that is what [`Slots::keep`] and [`Slots::release_on_drop`] record.
//! - After a failure that stops the engine no slot is given back: it is not known what the manifest on disk names.
//! - A sync of a data file that failed is not repeated: the kernel may have dropped what anybody had written there since the
//!   last one. Whoever syncs the file later gets the error, too, and nothing new is placed in it.
//! - The names of new data files are durable before their first extent can be named by the manifest: [`Space::sync`].

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use esker_vfs::{File, Fs, OpenMode};
use parking_lot::Mutex;

use super::{ExtentId, ExtentMeta, SLOT_BYTES, SLOTS_PER_FILE};
use crate::tree::Health;
use crate::{EngineError, Result};

/// Largest number of data files (4 PiB): beyond it extent ids would not fit.
const MAX_FILES: u32 = u32::MAX / SLOTS_PER_FILE;
const SUFFIX: &str = ".extents";

/// An open data file.
struct Handle {
    file: Arc<dyn File>,
    /// Whether a sync has failed. Held during a sync, so that nobody's succeeds after another's has failed.
    sync_failed: Mutex<bool>,
}

impl Handle {
    fn new(file: Arc<dyn File>) -> Arc<Self> {
        Arc::new(Handle {
            file,
            sync_failed: Mutex::new(false),
        })
    }

    fn sync(&self) -> io::Result<()> {
        let mut failed = self.sync_failed.lock();
        if *failed {
            return Err(io::Error::other("an earlier sync of the file has failed"));
        }
        let result = self.file.sync_data();
        *failed = result.is_err();
        result
    }
}

/// One data file.
struct DataFile {
    handle: Arc<Handle>,
    /// A sync has failed: no slot of the file is given out any more.
    is_retired: bool,
    used: [u64; SLOTS_PER_FILE as usize / 64],
    free: u32,
    /// Its name may not be durable yet.
    is_new: bool,
}

impl DataFile {
    fn new(file: Arc<dyn File>, is_new: bool) -> Self {
        DataFile {
            handle: Handle::new(file),
            is_retired: false,
            used: [0; SLOTS_PER_FILE as usize / 64],
            free: SLOTS_PER_FILE,
            is_new,
        }
    }

    fn is_used(&self, slot: u32) -> bool {
        self.used[slot as usize / 64] & (1 << (slot % 64)) != 0
    }

    /// Marks slots; false if one is in use already.
    fn take(&mut self, first: u32, count: u32) -> bool {
        let last = SLOTS_PER_FILE.min(first + count);
        if (first..last).any(|slot| self.is_used(slot)) {
            return false;
        }
        for slot in first..last {
            self.used[slot as usize / 64] |= 1 << (slot % 64);
        }
        self.free -= last - first;
        true
    }

    fn give_back(&mut self, first: u32, count: u32) {
        let last = SLOTS_PER_FILE.min(first + count);
        for slot in first..last {
            assert!(self.is_used(slot), "a slot is given back once");
            self.used[slot as usize / 64] &= !(1 << (slot % 64));
        }
        self.free += last - first;
    }

    /// First slot of the first run of `count` free slots.
    fn find(&self, count: u32) -> Option<u32> {
        if self.free < count.min(SLOTS_PER_FILE) {
            return None;
        }
        if count >= SLOTS_PER_FILE {
            return Some(0);
        }
        let mut run = 0;
        for slot in 0..SLOTS_PER_FILE {
            // Full words are skipped whole.
            if slot % 64 == 0 && self.used[slot as usize / 64] == u64::MAX {
                run = 0;
            }
            run = if self.is_used(slot) { 0 } else { run + 1 };
            if run == count {
                return Some(slot + 1 - count);
            }
        }
        None
    }
}

#[derive(Default)]
struct State {
    files: BTreeMap<u32, DataFile>,
    /// Files with at least one free slot.
    roomy: BTreeSet<u32>,
    used_slots: u64,
    /// A data file was created since the last sync of the directory.
    dir_changed: bool,
}

/// How much of the data files is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceStats {
    /// Data files.
    pub files: u64,
    /// Slots owned by extents.
    pub used_slots: u64,
    /// Slots of existing files that nobody owns.
    pub free_slots: u64,
}

/// The data files.
pub(crate) struct Space {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    health: Arc<Health>,
    state: Mutex<State>,
}

impl Space {
    /// Opens the data files that hold `extents` and checks that those do not overlap and are all there.
    pub(crate) fn open<'a>(
        fs: Arc<dyn Fs>,
        dir: &Path,
        health: Arc<Health>,
        extents: impl Iterator<Item = &'a ExtentMeta>,
    ) -> Result<Arc<Space>> {
        let mut state = State::default();
        let mut ends: BTreeMap<u32, u64> = BTreeMap::new();
        for meta in extents {
            let number = meta.id.file();
            let file = match state.files.entry(number) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let path = file_path(dir, number);
                    let file = fs.open(&path, OpenMode::ReadWrite);
                    entry.insert(DataFile::new(
                        file.map_err(|e| missing_or_io(&path, e))?,
                        false,
                    ))
                }
            };
            if !file.take(meta.id.slot(), meta.slots) {
                let path = file_path(dir, number);
                let what = "the manifest gives this slot to two extents";
                return Err(EngineError::corruption(name(&path), meta.id.offset(), what));
            }
            state.used_slots += u64::from(meta.slots);
            let end = ends.entry(number).or_default();
            *end = (*end).max(meta.id.offset() + u64::from(meta.stored_bytes));
        }
        for (number, end) in ends {
            let path = file_path(dir, number);
            let length = state.files[&number]
                .handle
                .file
                .len()
                .map_err(|e| EngineError::io(name(&path), e))?;
            if length < end {
                let what = format!("the file ends here, extents need it up to {end}");
                return Err(EngineError::corruption(name(&path), length, what));
            }
        }
        state.roomy = state
            .files
            .iter()
            .filter(|(_, f)| f.free > 0)
            .map(|(n, _)| *n)
            .collect();
        Ok(Arc::new(Space {
            fs,
            dir: dir.to_path_buf(),
            health,
            state: Mutex::new(state),
        }))
    }

    /// Removes data files that no extent needs. To be called once after opening.
    pub(crate) fn remove_strays(&self) -> Result<()> {
        let names = self
            .fs
            .list(&self.dir)
            .map_err(|e| EngineError::io(name(&self.dir), e))?;
        let state = self.state.lock();
        for stray in names {
            let number = stray
                .strip_suffix(SUFFIX)
                .and_then(|digits| digits.parse().ok());
            if number.is_some_and(|number: u32| !state.files.contains_key(&number)) {
                let path = self.dir.join(&stray);
                self.fs
                    .remove_file(&path)
                    .map_err(|e| EngineError::io(name(&path), e))?;
            }
        }
        Ok(())
    }

    /// Takes `count` slots that follow each other.
    pub(crate) fn allocate(self: &Arc<Self>, count: u32) -> Result<Slots> {
        assert!(count > 0);
        let mut state = self.state.lock();
        let found = state.roomy.iter().find_map(|number| {
            let file = &state.files[number];
            file.find(count).map(|slot| (*number, slot))
        });
        let (number, slot) = match found {
            Some(place) => place,
            None => (self.create_file(&mut state)?, 0),
        };
        let file = state
            .files
            .get_mut(&number)
            .expect("found or created above");
        assert!(file.take(slot, count), "the slots were free");
        let is_full = file.free == 0;
        let handle = Arc::clone(&file.handle);
        if is_full {
            state.roomy.remove(&number);
        }
        state.used_slots += u64::from(count);
        Ok(self.slots(ExtentId::new(number, slot), count, handle, false))
    }

    /// The slots of an extent that the manifest names and [`Space::open`] has marked.
    pub(crate) fn adopt(self: &Arc<Self>, meta: &ExtentMeta) -> Slots {
        let state = self.state.lock();
        let handle = Arc::clone(&state.files[&meta.id.file()].handle);
        self.slots(meta.id, meta.slots, handle, true)
    }

    fn slots(self: &Arc<Self>, id: ExtentId, count: u32, handle: Arc<Handle>, kept: bool) -> Slots {
        Slots {
            id,
            count,
            handle,
            space: Arc::clone(self),
            kept: AtomicBool::new(kept),
        }
    }

    fn create_file(&self, state: &mut State) -> Result<u32> {
        let number = (0..MAX_FILES)
            .find(|number| !state.files.contains_key(number))
            .ok_or_else(|| EngineError::DiskFull("all data file numbers are in use".into()))?;
        let path = file_path(&self.dir, number);
        let file = self
            .fs
            .open(&path, OpenMode::CreateOrOpen)
            .map_err(|e| EngineError::io(format!("creating {}", path.display()), e))?;
        state.files.insert(number, DataFile::new(file, true));
        state.roomy.insert(number);
        state.dir_changed = true;
        Ok(number)
    }

    /// Makes what was written to these slots durable, with the names of new files. After an error of a data file what was
    /// written must be written again, which will be to another file; an error of the directory stops the engine.
    pub(crate) fn sync<'a>(&self, slots: impl Iterator<Item = &'a Slots>) -> Result<()> {
        let files: BTreeMap<u32, &Arc<Handle>> = slots
            .map(|slots| (slots.id.file(), &slots.handle))
            .collect();
        for (number, handle) in &files {
            self.health.check()?;
            handle.sync().map_err(|e| {
                self.retire(*number);
                let path = file_path(&self.dir, *number);
                EngineError::write_failed(format!("sync of {}", path.display()), e)
            })?;
        }
        let mut state = self.state.lock();
        if files.keys().any(|number| state.files[number].is_new) || state.dir_changed {
            self.fs.sync_dir(&self.dir).map_err(|e| {
                self.health.stop(format!(
                    "sync of directory {} failed: {e}",
                    self.dir.display()
                ))
            })?;
            state.dir_changed = false;
            for file in state.files.values_mut() {
                file.is_new = false;
            }
        }
        Ok(())
    }

    fn retire(&self, number: u32) {
        let mut state = self.state.lock();
        if let Some(file) = state.files.get_mut(&number) {
            file.is_retired = true;
        }
        state.roomy.remove(&number);
    }

    /// The path of the data file of an extent, for messages.
    pub(crate) fn path(&self, id: ExtentId) -> PathBuf {
        file_path(&self.dir, id.file())
    }

    pub(crate) fn stats(&self) -> SpaceStats {
        let state = self.state.lock();
        SpaceStats {
            files: state.files.len() as u64,
            used_slots: state.used_slots,
            free_slots: state.files.values().map(|file| u64::from(file.free)).sum(),
        }
    }

    fn give_back(&self, id: ExtentId, count: u32) {
        if self.health.check().is_err() {
            return;
        }
        let mut state = self.state.lock();
        let number = id.file();
        let file = state
            .files
            .get_mut(&number)
            .expect("a file with slots in use is there");
        file.give_back(id.slot(), count);
        let is_empty = file.free == SLOTS_PER_FILE;
        let is_retired = file.is_retired;
        state.used_slots -= u64::from(count);
        if !is_retired {
            state.roomy.insert(number);
        }
        if is_empty {
            let path = file_path(&self.dir, number);
            match self.fs.remove_file(&path) {
                Ok(()) => {
                    state.files.remove(&number);
                    state.roomy.remove(&number);
                }
                // The file stays and its slots are used again.
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "cannot remove data file")
                }
            }
        }
    }
}

fn file_path(dir: &Path, number: u32) -> PathBuf {
    dir.join(format!("{number:06}{SUFFIX}"))
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

fn missing_or_io(path: &Path, error: std::io::Error) -> EngineError {
    if error.kind() == std::io::ErrorKind::NotFound {
        return EngineError::corruption(
            name(path),
            0,
            "the file is missing, the manifest names extents in it",
        );
    }
    EngineError::io(name(path), error)
}

/// Slots with an owner.
pub(crate) struct Slots {
    id: ExtentId,
    count: u32,
    handle: Arc<Handle>,
    space: Arc<Space>,
    /// A durable manifest edit names the extent.
    kept: AtomicBool,
}

impl Slots {
    pub(crate) fn id(&self) -> ExtentId {
        self.id
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn file(&self) -> &Arc<dyn File> {
        &self.handle.file
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.space.path(self.id)
    }

    /// The manifest names the extent from now on: it outlives this handle.
    pub(crate) fn keep(&self) {
        self.kept.store(true, Ordering::Release);
    }

    /// The manifest does not name the extent any more: the slots are free when the last handle goes.
    pub(crate) fn release_on_drop(&self) {
        self.kept.store(false, Ordering::Release);
    }

    /// Writes the bytes of the extent. The space is reserved first, so that a full disk shows here and never in a sync. Slots
    /// that cannot be written are not used again until the next start.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<()> {
        assert!(bytes.len() as u64 <= u64::from(self.count) * SLOT_BYTES);
        let offset = self.id.offset();
        let file = self.file();
        let written = file
            .allocate(offset, bytes.len() as u64)
            .and_then(|()| file.write_all_at(bytes, offset));
        written.map_err(|error| {
            let error =
                EngineError::write_failed(format!("writing {}", self.path().display()), error);
            if matches!(error, EngineError::WriteFailed { .. }) {
                self.keep();
            }
            error
        })
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        if !*self.kept.get_mut() {
            self.space.give_back(self.id, self.count);
        }
    }
}

#[cfg(test)]
mod tests {
    use esker_vfs::sim::{Fault, Op, SimEnv};

    use super::*;

    fn space() -> (SimEnv, Arc<Space>) {
        let sim = SimEnv::new(1);
        let fs = sim.env().fs;
        let dir = Path::new("/data/extents");
        fs.create_dir_all(dir).unwrap();
        let space = Space::open(fs, dir, Health::for_tests(), std::iter::empty()).unwrap();
        (sim, space)
    }

    #[test]
    fn freed_slots_are_used_again_and_empty_files_go() {
        let (sim, space) = space();
        let first = space.allocate(1).unwrap();
        let second = space.allocate(3).unwrap();
        let third = space.allocate(1).unwrap();
        let ids = [&first, &second, &third].map(|slots| slots.id().0);
        assert_eq!(ids, [0, 1, 4]);
        drop(second);
        assert_eq!(space.allocate(4).unwrap().id().0, 5);
        assert_eq!(space.allocate(2).unwrap().id().0, 1);
        let kept = space.allocate(2).unwrap();
        kept.keep();
        drop((first, third, kept));
        assert_eq!(
            space.stats(),
            SpaceStats {
                files: 1,
                used_slots: 2,
                free_slots: 510
            }
        );
        let released = space.slots(
            ExtentId(1),
            2,
            Arc::clone(&space.state.lock().files[&0].handle),
            false,
        );
        drop(released);
        assert_eq!(space.stats(), SpaceStats::default());
        assert!(
            sim.env()
                .fs
                .list(Path::new("/data/extents"))
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn runs_span_words_and_giants_get_a_file_of_their_own() {
        let (_sim, space) = space();
        let mut held: Vec<Slots> = (0..130).map(|_| space.allocate(1).unwrap()).collect();
        // Free 60..70: a run across the border of two words.
        held.drain(60..70);
        assert_eq!(space.allocate(10).unwrap().id().0, 60);
        assert_eq!(space.allocate(11).unwrap().id().0, 130);
        let giant = space.allocate(600).unwrap();
        assert_eq!(
            (giant.id().file(), giant.id().slot(), giant.count()),
            (1, 0, 600)
        );
        let next = space.allocate(400).unwrap();
        assert_eq!(next.id().file(), 2 - 2 * u32::from(next.id().file() == 0));
        drop(giant);
        assert!(space.allocate(512).unwrap().id().slot() == 0);
    }

    #[test]
    fn a_failed_sync_concerns_everybody_who_wrote_to_the_file() {
        let (sim, space) = space();
        let write = || {
            let slots = space.allocate(1).unwrap();
            slots.write(b"extent").unwrap();
            slots
        };
        let (first, second) = (write(), write());
        sim.fs.inject(Fault::on(Op::Sync).path(".extents"));
        assert!(matches!(
            space.sync([&first].into_iter()),
            Err(EngineError::WriteFailed { .. })
        ));
        // The device works again, but the bytes may be gone.
        assert!(space.sync([&second].into_iter()).is_err());
        let third = write();
        assert_eq!((third.id().file(), third.id().slot()), (1, 0));
        space.sync([&third].into_iter()).unwrap();
        // Slots that come back are not used again; the file goes when it is empty.
        drop(second);
        assert_eq!(space.allocate(1).unwrap().id().file(), 1);
        drop(first);
        assert_eq!(space.stats().files, 1);
        assert!(space.health.check().is_ok());
    }

    #[test]
    fn slots_that_cannot_be_written_are_left_alone() {
        let (sim, space) = space();
        let slots = space.allocate(1).unwrap();
        sim.fs.inject(Fault::on(Op::Write).path(".extents"));
        assert!(matches!(
            slots.write(b"x"),
            Err(EngineError::WriteFailed { .. })
        ));
        drop(slots);
        assert_eq!(space.allocate(1).unwrap().id().slot(), 1);
        // A full disk is nobody's fault.
        let slots = space.allocate(1).unwrap();
        sim.fs
            .inject(Fault::on(Op::Write).no_space().path(".extents"));
        assert!(matches!(slots.write(b"x"), Err(EngineError::DiskFull(_))));
        let slot = slots.id().slot();
        drop(slots);
        assert_eq!(space.allocate(1).unwrap().id().slot(), slot.min(1));
    }

    #[test]
    fn nothing_is_given_back_after_a_fatal_failure() {
        let (_sim, space) = space();
        let slots = space.allocate(1).unwrap();
        let _error = space.health.stop("test".to_owned());
        drop(slots);
        assert_eq!(space.stats().used_slots, 1);
    }
}
