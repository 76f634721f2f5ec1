//! Slot allocator: the data files, and which of their slots are in use.
//!
//! Neighbours: `writer` asks for slots; every open extent holds its [`Slots`] and gives them back when the last reader
//! lets go of it; `tree` says which slots are in use when it opens, and whether an extent's slots are to be kept.
//!
//! **Invariants**
//! - A slot has one owner. Slots are given back only by the drop of their [`Slots`], and only if no durable manifest
//!   edit names them: that is what [`Slots::keep`] and [`Slots::release_on_drop`] record.
//! - After a failure that stops the engine no slot is given back: it is not known what the manifest on disk names.
//! - A sync of a data file that failed is not repeated: the kernel may have dropped what anybody had written there
//!   since the last one. Whoever syncs the file later gets the error, too, and nothing new is placed in it.
//! - The names of new data files are durable before their first extent can be named by the manifest: [`Space::sync`].
//! - Disk space goes back to the file system only from slots that are free, which nobody gets meanwhile; nor does
//!   anybody get a slot behind them where the file is cut off there.

#[cfg(test)]
mod tests;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use esker_vfs::{File, Fs, OpenMode};
use parking_lot::Mutex;

use super::Health;
use super::data_file::{DataFile, Handle, Trim};
use super::{ExtentId, ExtentMeta, SLOT_BYTES, SLOTS_PER_FILE};
use crate::{EngineError, Result};

/// Largest number of data files (4 PiB): beyond it extent ids would not fit.
const MAX_FILES: u32 = u32::MAX / SLOTS_PER_FILE;
const SUFFIX: &str = ".extents";

/// Free slots that keep their disk space, for what is written soon: so many, ...
const KEPT_FREE_SLOTS: u64 = 16;
/// ... or one for so many that are in use.
const USED_PER_KEPT_SLOT: u64 = 8;
/// Most slots whose space is given back at a time.
const MAX_TRIM_SLOTS: u32 = 64;
/// Disk space behind the end of an extent, left by an earlier owner of its slots, that is worth giving back.
const MIN_REST_BYTES: u64 = 128 << 10;
/// Holes begin at multiples of this.
const HOLE_ALIGN: u64 = 4096;

/// Which free slots keep their disk space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// As many as are soon used again.
    ForSoon,
    /// None: nothing is going to be written.
    Nothing,
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

impl State {
    /// In builds with debug assertions: only files that take extents are offered for them.
    fn validate(&self) {
        let offered = || self.roomy.iter().map(|number| &self.files[number]);
        debug_assert!(offered().all(|file| file.free() > 0 && !file.is_retired));
        debug_assert!(
            self.files.values().all(|file| file.hollow() <= file.free()),
            "slots without space are free"
        );
    }
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
    /// Those among them that have no disk space behind them.
    pub hollow_slots: u64,
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
                    let file = file.map_err(|e| missing_or_io(&path, e))?;
                    let bytes = file.len().map_err(|e| EngineError::io(name(&path), e))?;
                    entry.insert(DataFile::new(file, bytes, false))
                }
            };
            if file.take(meta.id.slot(), meta.slots).is_none() {
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
            .filter(|(_, f)| f.free() > 0)
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
        let is_stale = file.take(slot, count).expect("the slots were free");
        debug_assert!(count > SLOTS_PER_FILE || slot + count <= SLOTS_PER_FILE);
        let is_full = file.free() == 0;
        let handle = Arc::clone(&file.handle);
        if is_full {
            state.roomy.remove(&number);
        }
        state.used_slots += u64::from(count);
        let mut slots = self.slots(ExtentId::new(number, slot), count, handle, false);
        slots.is_stale = is_stale;
        state.validate();
        Ok(slots)
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
            is_stale: false,
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
        // It may be there, if no extent needs it.
        let bytes = file.len().map_err(|e| EngineError::io(name(&path), e))?;
        state.files.insert(number, DataFile::new(file, bytes, true));
        state.roomy.insert(number);
        state.dir_changed = true;
        Ok(number)
    }

    /// Makes what was written to these slots durable, with the names of new files. After an error of a data file what
    /// was written must be written again, which will be to another file; an error of the directory stops the engine.
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
        let sum = |count: fn(&DataFile) -> u32| {
            let files = state.files.values();
            files.map(|file| u64::from(count(file))).sum()
        };
        SpaceStats {
            files: state.files.len() as u64,
            used_slots: state.used_slots,
            free_slots: sum(DataFile::free),
            hollow_slots: sum(DataFile::hollow),
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
        assert!(
            state.used_slots >= u64::from(count),
            "slots in use are counted"
        );
        state.used_slots -= u64::from(count);
        self.has_more_room(&mut state, number);
    }

    /// What follows when slots of a file became free: they are given out again, or the file goes.
    fn has_more_room(&self, state: &mut State, number: u32) {
        let file = &state.files[&number];
        let is_empty = file.is_empty();
        if !file.is_retired {
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

    /// Gives the disk space behind some free slots back to the file system, where there is more than is kept;
    /// false if there is not. A file becomes shorter where nothing at its end is in use, and has holes elsewhere.
    pub(crate) fn trim(&self, kept: Kept) -> Result<bool> {
        self.health.check()?;
        let Some((number, trim, handle)) = self.begin_trim(kept) else {
            return Ok(false);
        };
        let start = ExtentId::new(number, trim.slots.start).offset();
        let bytes = u64::from(trim.slots.end - trim.slots.start) * SLOT_BYTES;
        let file = &handle.file;
        let given = match trim.is_tail {
            true => file.len().and_then(|length| match length > start {
                true => file.set_len(start),
                false => Ok(()),
            }),
            false => file.punch_hole(start, bytes).map(|_| ()),
        };
        if let Err(error) = given {
            // Not worth more: the slots are used again, and the next start tries again.
            let path = file_path(&self.dir, number);
            tracing::warn!(path = %path.display(), %error, "cannot give disk space back");
        }
        let mut state = self.state.lock();
        let file = state.files.get_mut(&number);
        file.expect("a file with slots in use is there")
            .give_back_hollow(trim.withheld());
        self.has_more_room(&mut state, number);
        Ok(true)
    }

    /// Takes the free slots that are trimmed next, and what has to stay free meanwhile, so that nobody gets them.
    fn begin_trim(&self, kept: Kept) -> Option<(u32, Trim, Arc<Handle>)> {
        let mut state = self.state.lock();
        let backed = |file: &DataFile| u64::from(file.free() - file.hollow());
        let all: u64 = state.files.values().map(backed).sum();
        let kept = match kept {
            Kept::ForSoon => KEPT_FREE_SLOTS.max(state.used_slots / USED_PER_KEPT_SLOT),
            Kept::Nothing => 0,
        };
        let most = all.checked_sub(kept).filter(|excess| *excess > 0)?;
        let most = MAX_TRIM_SLOTS.min(u32::try_from(most).unwrap_or(u32::MAX));
        let files = state.files.iter_mut().rev();
        let (number, file, trim) =
            files
                .filter(|(_, file)| !file.is_retired)
                .find_map(|(number, file)| {
                    let trim = file.last_backed(most)?;
                    Some((*number, file, trim))
                })?;
        debug_assert!(!trim.slots.is_empty() && trim.slots.end - trim.slots.start <= most);
        let withheld = trim.withheld();
        let taken = file.take(withheld.start, withheld.end - withheld.start);
        assert_eq!(taken, Some(true), "they are free and have space");
        let handle = Arc::clone(&file.handle);
        if file.free() == 0 {
            state.roomy.remove(&number);
        }
        state.validate();
        Some((number, trim, handle))
    }
}

pub(crate) fn file_path(dir: &Path, number: u32) -> PathBuf {
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
    /// There may be disk space behind them, left by an earlier owner.
    is_stale: bool,
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

    /// Writes the bytes of the extent. The space is reserved first, so that a full disk shows here and never in a sync.
    /// Slots that cannot be written are not used again until the next start.
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
        })?;
        if self.is_stale {
            self.give_back_rest(bytes.len() as u64);
        }
        Ok(())
    }

    /// Gives back the disk space that an earlier owner has left behind the end of this one.
    fn give_back_rest(&self, bytes: u64) {
        let end = bytes.next_multiple_of(HOLE_ALIGN);
        debug_assert!(end <= u64::from(self.count) * SLOT_BYTES);
        let rest = u64::from(self.count) * SLOT_BYTES - end;
        if rest < MIN_REST_BYTES {
            return;
        }
        if let Err(error) = self.file().punch_hole(self.id.offset() + end, rest) {
            tracing::warn!(path = %self.path().display(), %error, "cannot give disk space back");
        }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        if !*self.kept.get_mut() {
            self.space.give_back(self.id, self.count);
        }
    }
}
