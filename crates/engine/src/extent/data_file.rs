//! One data file: a bitmap of used slots, and of the free ones that have disk space behind them.
//!
//! Neighbours: `space` has all the files under its lock, and does the I/O.
//!
//! **Invariants**
//! - A slot that is in use is not hollow. A free slot is hollow only if no disk space is behind it, as far as the file
//!   system gives any back.
//! - A sync that failed is not repeated, see `space`.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use esker_vfs::File;
use parking_lot::Mutex;

use super::{SLOT_BYTES, SLOTS_PER_FILE};

const WORD_BITS: u32 = u64::BITS;

/// An open data file.
pub(super) struct Handle {
    pub(super) file: Arc<dyn File>,
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

    pub(super) fn sync(&self) -> io::Result<()> {
        let mut failed = self.sync_failed.lock();
        if *failed {
            return Err(io::Error::other("an earlier sync of the file has failed"));
        }
        let result = self.file.sync_data();
        *failed = result.is_err();
        result
    }
}

/// Some slots of a file.
#[derive(Clone, Copy, Default)]
struct SlotSet([u64; (SLOTS_PER_FILE / WORD_BITS) as usize]);

impl SlotSet {
    fn has(&self, slot: u32) -> bool {
        self.0[(slot / WORD_BITS) as usize] & (1 << (slot % WORD_BITS)) != 0
    }

    fn insert(&mut self, slots: Range<u32>) {
        debug_assert!(slots.end <= SLOTS_PER_FILE);
        for slot in slots {
            self.0[(slot / WORD_BITS) as usize] |= 1 << (slot % WORD_BITS);
        }
    }

    fn remove(&mut self, slots: Range<u32>) {
        debug_assert!(slots.end <= SLOTS_PER_FILE);
        for slot in slots {
            self.0[(slot / WORD_BITS) as usize] &= !(1 << (slot % WORD_BITS));
        }
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether all slots of the word with this slot are in it.
    fn fills_word_of(&self, slot: u32) -> bool {
        self.0[(slot / WORD_BITS) as usize] == u64::MAX
    }
}

/// One data file.
pub(super) struct DataFile {
    pub(super) handle: Arc<Handle>,
    /// A sync has failed: no slot of the file is given out any more.
    pub(super) is_retired: bool,
    /// Its name may not be durable yet.
    pub(super) is_new: bool,
    used: SlotSet,
    /// Free slots without disk space.
    hollow: SlotSet,
    free: u32,
}

/// Free slots whose disk space is to be given back. Nobody may get one of [`Trim::withheld`] until that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trim {
    pub(super) slots: Range<u32>,
    /// Nothing behind them is in use: the file may end before them.
    pub(super) is_tail: bool,
}

impl Trim {
    /// The slots that nobody may get meanwhile. Where the file is to end before the tail these are all behind it, too:
    /// what somebody wrote there would be cut off.
    pub(super) fn withheld(&self) -> Range<u32> {
        match self.is_tail {
            true => self.slots.start..SLOTS_PER_FILE,
            false => self.slots.clone(),
        }
    }
}

impl DataFile {
    /// A file of this many bytes in which nothing is in use yet.
    pub(super) fn new(file: Arc<dyn File>, bytes: u64, is_new: bool) -> Self {
        let mut hollow = SlotSet::default();
        let covered = bytes.div_ceil(SLOT_BYTES).min(u64::from(SLOTS_PER_FILE));
        hollow.insert(covered as u32..SLOTS_PER_FILE);
        DataFile {
            handle: Handle::new(file),
            is_retired: false,
            is_new,
            used: SlotSet::default(),
            hollow,
            free: SLOTS_PER_FILE,
        }
    }

    pub(super) fn free(&self) -> u32 {
        self.free
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free == SLOTS_PER_FILE
    }

    /// Free slots without disk space.
    pub(super) fn hollow(&self) -> u32 {
        self.hollow.count()
    }

    /// Marks slots as used; `None` if one is in use already, else whether there may be disk space behind some of them.
    pub(super) fn take(&mut self, first: u32, count: u32) -> Option<bool> {
        let slots = first..SLOTS_PER_FILE.min(first + count);
        if slots.clone().any(|slot| self.used.has(slot)) {
            return None;
        }
        let has_space = slots.clone().any(|slot| !self.hollow.has(slot));
        self.free -= slots.end - slots.start;
        self.used.insert(slots.clone());
        self.hollow.remove(slots);
        self.validate();
        Some(has_space)
    }

    pub(super) fn give_back(&mut self, first: u32, count: u32) {
        let slots = first..SLOTS_PER_FILE.min(first + count);
        for slot in slots.clone() {
            assert!(self.used.has(slot), "a slot is given back once");
        }
        self.free += slots.end - slots.start;
        self.used.remove(slots);
        self.validate();
    }

    /// In builds with debug assertions: free slots are counted, and no slot in use counts as without space.
    fn validate(&self) {
        debug_assert_eq!(self.free, SLOTS_PER_FILE - self.used.count());
        debug_assert!(
            self.used
                .0
                .iter()
                .zip(&self.hollow.0)
                .all(|(used, hollow)| used & hollow == 0),
            "slots in use have space"
        );
    }

    /// As [`DataFile::give_back`], of slots whose disk space was given back.
    pub(super) fn give_back_hollow(&mut self, slots: Range<u32>) {
        self.give_back(slots.start, slots.end - slots.start);
        self.hollow.insert(slots);
    }

    /// First slot of the first run of `count` free slots.
    pub(super) fn find(&self, count: u32) -> Option<u32> {
        debug_assert!(count > 0);
        if self.free < count.min(SLOTS_PER_FILE) {
            return None;
        }
        if count >= SLOTS_PER_FILE {
            return Some(0);
        }
        let mut run = 0;
        for slot in 0..SLOTS_PER_FILE {
            if slot.is_multiple_of(WORD_BITS) && self.used.fills_word_of(slot) {
                run = 0;
            }
            run = if self.used.has(slot) { 0 } else { run + 1 };
            if run == count {
                return Some(slot + 1 - count);
            }
        }
        None
    }

    /// The last free slots that may have disk space, at most so many: slots near the start of a file are used again
    /// first.
    pub(super) fn last_backed(&self, most: u32) -> Option<Trim> {
        debug_assert!(most > 0);
        let is_backed = |slot: u32| !self.used.has(slot) && !self.hollow.has(slot);
        let last = (0..SLOTS_PER_FILE).rev().find(|slot| is_backed(*slot))?;
        let first = (0..=last)
            .rev()
            .take_while(|slot| is_backed(*slot))
            .take(most as usize)
            .last()?;
        Some(Trim {
            slots: first..last + 1,
            is_tail: (last + 1..SLOTS_PER_FILE).all(|slot| !self.used.has(slot)),
        })
    }
}

#[cfg(test)]
mod tests {
    use esker_vfs::OpenMode;
    use esker_vfs::sim::SimEnv;

    use super::*;

    fn file(bytes: u64) -> DataFile {
        let fs = SimEnv::new(1).env().fs;
        let file = fs.open(std::path::Path::new("/f"), OpenMode::CreateNew);
        DataFile::new(file.unwrap(), bytes, true)
    }

    #[test]
    fn free_slots_are_trimmed_from_the_end_and_only_where_there_is_space() {
        let trim = |slots, is_tail| Some(Trim { slots, is_tail });
        let mut file = file(9 * SLOT_BYTES + 1);
        assert_eq!((file.free(), file.hollow()), (512, 502));
        assert_eq!(file.take(2, 2), Some(true));
        assert_eq!(file.take(3, 1), None);
        assert_eq!(file.last_backed(512), trim(4..10, true));
        assert_eq!(file.last_backed(2), trim(8..10, true));
        assert_eq!(file.take(20, 1), Some(false));
        assert_eq!(file.last_backed(512), trim(4..10, false));
        file.take(4, 6);
        file.give_back_hollow(4..10);
        assert_eq!(file.last_backed(512), trim(0..2, false));
        // What was in use has space.
        file.give_back(20, 1);
        assert_eq!(file.last_backed(512), trim(20..21, true));
        file.take(20, 1);
        file.give_back_hollow(20..21);
        file.give_back(2, 2);
        assert_eq!(file.last_backed(512), trim(0..4, true));
        file.take(0, 4);
        file.give_back_hollow(0..4);
        assert_eq!(file.last_backed(512), None);
        assert!(file.is_empty());
    }
}
