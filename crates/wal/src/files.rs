//! The segment files: preparing, beginning, recycling and removing them.
//!
//! Neighbours: `flush` writes into the current segment, `daemon` prepares spares ahead of need,
//! `recover` reads what a former life left.
//!
//! **Invariants**
//! - A file gets a segment's name only when its header is durable, and everything in earlier
//!   segments is.
//! - A segment becomes a spare durably (directory sync) before its bytes are overwritten.
//! - A segment that is pinned or being read (`live`) is neither recycled nor removed.
//! - A spare has all its space reserved.
//! - Of two segments the first says that there is a second, from before anything in that is acknowledged until it is
//!   released.
//! - One more, the reserve, is kept for the next opening, and a log that was opened with it takes no
//!   records before there is another: however full the disk is, the log can be opened.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_vfs::{Env, File, Fs, OpenMode};

use crate::buffer::sync::Mutex;
use crate::config::{Sizes, WalConfig};
use crate::error::WalError;
use crate::format::{BlockHeader, PAGE_BYTES, SegmentHeader, parse_segment_name, segment_name};
use crate::live::{LiveSegment, LiveSegments, LogPin};
use crate::lsn::Lsn;

/// Copied at a time when a segment is put aside.
const COPY_BYTES: usize = 1 << 20;

/// Below it is what was given up because the log was damaged.
const LOST_DIR: &str = "lost";

const SPARE_SUFFIX: &str = ".tmp";
const SPARE_PREFIX: &str = "spare-";

/// A file that can become a segment.
struct Spare {
    path: PathBuf,
    file: Arc<dyn File>,
    /// Its length: that of a segment, or less if the disk had no room for more.
    bytes: u64,
}

struct State {
    /// Segments by start, the current one last.
    live: LiveSegments,
    spares: Vec<Spare>,
    /// Kept for the next opening, which needs a fresh segment even if the disk is full.
    reserve: Option<Spare>,
    next_spare: u64,
    /// The segment before the current one, until it says that there is another.
    unclosed: Option<Unclosed>,
}

impl State {
    /// Keeps a prepared file, first of all as the reserve. Its length if it is a spare.
    fn keep(&mut self, spare: Spare) -> Option<u64> {
        debug_assert!(spare.bytes.is_multiple_of(PAGE_BYTES));
        if self.reserve.is_none() {
            self.reserve = Some(spare);
            return None;
        }
        let bytes = spare.bytes;
        self.spares.push(spare);
        Some(bytes)
    }

    /// The longest spare.
    fn take_spare(&mut self) -> Option<Spare> {
        let longest = (0..self.spares.len()).max_by_key(|&at| self.spares[at].bytes)?;
        Some(self.spares.swap_remove(longest))
    }
}

pub(crate) struct SegmentFiles {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    segment_bytes: u64,
    /// Shortest file that becomes a segment.
    least_bytes: u64,
    /// Released segments are kept for reuse up to this many; more are removed.
    spares_kept: u64,
    state: Mutex<State>,
}

/// The files of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSpace {
    /// Where the oldest segment begins: everything from here on is kept.
    pub first: Lsn,
    /// Segments that hold the log.
    pub segments: u64,
    /// Segments prepared for what is to come.
    pub spares: u64,
    /// Length of a segment that is begun now.
    pub segment_bytes: u64,
    /// The pin that keeps most of the log, if it keeps more than is needed without pins.
    pub pin: Option<LogPin>,
    /// Bytes of records that are kept only because of pins.
    pub pinned_bytes: u64,
}

/// Open files of one segment, one for each group that is on its way.
///
/// Not one for all: the kernel tells each open file once of an error of writing back, so of two
/// groups that sync through the same one only one would hear of it, and the other could be
/// acknowledged and lost.
pub(crate) struct Handles {
    path: PathBuf,
    free: Mutex<Vec<Arc<dyn File>>>,
}

impl Handles {
    pub(crate) fn new(path: PathBuf, file: Arc<dyn File>) -> Self {
        let free = Mutex::new(vec![file]);
        Self { path, free }
    }

    /// One that nobody uses, opened if there is none.
    pub(crate) fn take(&self, fs: &dyn Fs) -> Result<Arc<dyn File>, WalError> {
        if let Some(file) = self.free.lock().pop() {
            return Ok(file);
        }
        fs.open(&self.path, OpenMode::ReadWrite)
            .map_err(|e| WalError::io("open", &self.path, e))
    }

    /// Takes back one that was not used.
    pub(crate) fn give_back(&self, file: Arc<dyn File>) {
        self.free.lock().push(file);
    }

    /// Writes a group to its place and syncs it. Only then the handle can be used again; after an
    /// error it must not be.
    pub(crate) fn write_and_sync(
        &self,
        file: Arc<dyn File>,
        bytes: &[u8],
        offset: u64,
    ) -> Result<(), WalError> {
        assert!(offset >= PAGE_BYTES, "blocks stand behind the header");
        debug_assert!(!bytes.is_empty());
        file.write_all_at(bytes, offset)
            .map_err(|e| WalError::io("write", &self.path, e))?;
        file.sync_data()
            .map_err(|e| WalError::io("sync", &self.path, e))?;
        self.give_back(file);
        Ok(())
    }
}

/// A segment in which it is still to be written that the log goes on in another one.
pub(crate) struct Unclosed {
    pub(crate) start: Lsn,
    pub(crate) id: u64,
    pub(crate) handles: Arc<Handles>,
    /// Where its last block with records ends.
    pub(crate) offset: u64,
    /// Where its records end and the next segment starts.
    pub(crate) end: Lsn,
}

/// The segment that is being written.
pub(crate) struct CurrentSegment {
    pub(crate) start: Lsn,
    pub(crate) handles: Arc<Handles>,
    pub(crate) id: u64,
    /// Where the next block goes.
    pub(crate) offset: u64,
    pub(crate) file_bytes: u64,
}

impl CurrentSegment {
    /// As the one before a segment that starts at `end`.
    pub(crate) fn unclosed(&self, end: Lsn) -> Unclosed {
        Unclosed {
            start: self.start,
            id: self.id,
            handles: Arc::clone(&self.handles),
            offset: self.offset,
            end,
        }
    }
}

impl SegmentFiles {
    /// Opens the directory, makes its names durable, and finds segments and spares.
    pub(crate) fn open(env: &Env, config: &WalConfig, sizes: &Sizes) -> Result<Self, WalError> {
        let (fs, dir) = (env.fs.clone(), config.dir.clone());
        fs.create_dir_all(&dir)
            .map_err(|e| WalError::io("create", &dir, e))?;
        // Names that a crashed process gave may be in the cache only.
        fs.sync_dir(&dir)
            .map_err(|e| WalError::io("sync", &dir, e))?;
        let names = fs.list(&dir).map_err(|e| WalError::io("list", &dir, e))?;
        let segment = |name: &String| {
            let start = parse_segment_name(name)?;
            Some(LiveSegment::new(start, dir.join(name)))
        };
        let live = names.iter().filter_map(segment).collect();
        let state = State {
            live: LiveSegments::new(live, &config.pins),
            spares: Vec::new(),
            reserve: None,
            next_spare: 0,
            unclosed: None,
        };
        let (segment_bytes, spares_kept) = (sizes.segment, sizes.spares_kept());
        let least_bytes = sizes.least_segment();
        assert!(
            least_bytes <= segment_bytes,
            "the shortest segment is no longer than a full one"
        );
        debug_assert!(segment_bytes.is_multiple_of(PAGE_BYTES));
        let files = Self {
            fs,
            dir,
            segment_bytes,
            least_bytes,
            spares_kept,
            state: Mutex::new(state),
        };
        for name in names {
            if name.starts_with(SPARE_PREFIX) && name.ends_with(SPARE_SUFFIX) {
                files.adopt_spare(&name)?;
            }
        }
        Ok(files)
    }

    /// Whether a file of this length can become a segment.
    fn is_usable(&self, bytes: u64) -> bool {
        (self.least_bytes..=self.segment_bytes).contains(&bytes) && bytes.is_multiple_of(PAGE_BYTES)
    }

    /// Keeps a spare of an earlier life if it is one of today's sizes, and removes it otherwise.
    fn adopt_spare(&self, name: &str) -> Result<(), WalError> {
        let path = self.dir.join(name);
        let mut state = self.state.lock();
        if let Some(number) = name.strip_prefix(SPARE_PREFIX)
            && let Ok(number) = u64::from_str_radix(number.trim_end_matches(SPARE_SUFFIX), 16)
        {
            state.next_spare = state.next_spare.max(number.saturating_add(1));
        }
        let usable = || -> io::Result<Option<(Arc<dyn File>, u64)>> {
            let file = self.fs.open(&path, OpenMode::ReadWrite)?;
            let bytes = file.len()?;
            if !self.is_usable(bytes) {
                return Ok(None);
            }
            // The reservation may not have survived; nor the length, if the sync of it failed and
            // the cache hides that. Changing the length makes it part of the next sync again.
            file.set_len(bytes - PAGE_BYTES)?;
            match file.allocate(0, bytes) {
                Ok(()) => Ok(Some((file, bytes))),
                Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(None),
                Err(error) => Err(error),
            }
        };
        match usable().map_err(|e| WalError::io("open", &path, e))? {
            Some((file, bytes)) if (state.spares.len() as u64) < self.spares_kept => {
                state.keep(Spare { path, file, bytes });
                Ok(())
            }
            _ => self
                .fs
                .remove_file(&path)
                .map_err(|e| WalError::io("remove", &path, e)),
        }
    }

    pub(crate) fn fs(&self) -> &Arc<dyn Fs> {
        &self.fs
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The segments, oldest first. None of them goes away while it is kept.
    pub(crate) fn live(&self) -> Vec<LiveSegment> {
        self.state.lock().live.iter().cloned().collect()
    }

    pub(crate) fn segment_starts(&self) -> Vec<Lsn> {
        let state = self.state.lock();
        state.live.iter().map(|segment| segment.start).collect()
    }

    pub(crate) fn spare_count(&self) -> u64 {
        self.state.lock().spares.len() as u64
    }

    pub(crate) fn space(&self) -> LogSpace {
        let state = self.state.lock();
        LogSpace {
            first: state.live.first().map_or(Lsn::FIRST, |first| first.start),
            segments: state.live.len() as u64,
            spares: state.spares.len() as u64,
            segment_bytes: self.segment_bytes,
            pin: state.live.holding_pin(),
            pinned_bytes: state.live.pinned_bytes(),
        }
    }

    /// The segment that has this place; `None` if that part of the log is gone.
    pub(crate) fn segment_at(&self, lsn: Lsn) -> Option<LiveSegment> {
        self.state.lock().live.at(lsn).cloned()
    }

    /// The first segment that starts behind this place.
    pub(crate) fn segment_after(&self, lsn: Lsn) -> Option<LiveSegment> {
        self.state.lock().live.after(lsn).cloned()
    }

    /// Keeps the log from here on under this name, instead of from where it was pinned before.
    pub(crate) fn pin(&self, name: &'static str, from: Lsn) -> Result<(), WalError> {
        let pinned = self.state.lock().live.pin(name, from);
        pinned.map_err(|begins| WalError::Missing {
            dir: self.dir.clone(),
            begins: Some(begins),
            needed: from,
        })
    }

    /// Nothing is kept under this name any more.
    pub(crate) fn unpin(&self, name: &'static str) {
        self.state.lock().live.unpin(name);
    }

    /// The lengths of the spares.
    pub(crate) fn spare_lengths(&self) -> Vec<u64> {
        self.state.lock().spares.iter().map(|s| s.bytes).collect()
    }

    /// Creates a spare, and says how long it is: shorter than a segment only where the disk has no room for one, and
    /// somebody `needs` it.
    pub(crate) fn prepare_spare(&self, needs: bool) -> Result<u64, WalError> {
        let spare = match self.create(self.segment_bytes) {
            Err(WalError::NoSpace { .. }) if needs => self.create_short()?,
            created => created?,
        };
        let bytes = spare.bytes;
        self.state.lock().spares.push(spare);
        Ok(bytes)
    }

    /// Creates a spare of half the space that is left, at most: data files need some of it, or memory could not be
    /// flushed.
    fn create_short(&self) -> Result<Spare, WalError> {
        let free = self.fs.free_bytes(&self.dir);
        let free = free.map_err(|e| WalError::io("measure", &self.dir, e))?;
        let mut bytes = self.segment_bytes;
        loop {
            debug_assert!(bytes > 0, "the shortest segment has a page");
            bytes = bytes / 2 / PAGE_BYTES * PAGE_BYTES;
            if bytes < self.least_bytes {
                return Err(self.no_space());
            }
            if bytes > free / 2 {
                continue;
            }
            match self.create(bytes) {
                Err(WalError::NoSpace { .. }) => {}
                created => return created,
            }
        }
    }

    /// Creates the reserve if there is none and the disk has room for it.
    pub(crate) fn prepare_reserve(&self) -> Result<(), WalError> {
        if self.state.lock().reserve.is_some() {
            return Ok(());
        }
        // Any length does for the next opening.
        for bytes in [self.segment_bytes, self.least_bytes] {
            match self.create(bytes) {
                Ok(spare) => {
                    self.state.lock().reserve = Some(spare);
                    return Ok(());
                }
                Err(WalError::NoSpace { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Finds a spare without taking space from the disk: the last segment if it is empty (its
    /// records would begin at `end`), or the reserve. True if the reserve is still there.
    pub(crate) fn make_do(&self, end: Lsn) -> Result<bool, WalError> {
        let empty = {
            let mut state = self.state.lock();
            // Never the only one: a log without segments would be a lost one.
            let is_empty =
                state.live.len() > 1 && state.live.last().is_some_and(|last| last.start == end);
            if is_empty {
                state.live.pop_last()
            } else {
                None
            }
        };
        if let Some(segment) = empty {
            self.retire(&segment.path)?;
        }
        if self.spare_count() == 0 {
            let reserve = self.state.lock().reserve.take();
            let spare = self.halve(reserve.ok_or_else(|| self.no_space())?)?;
            self.state.lock().spares.push(spare);
        }
        Ok(self.state.lock().reserve.is_some())
    }

    /// Shortens the reserve that has to be used now, if it is long enough, so that there is room for another one.
    fn halve(&self, mut spare: Spare) -> Result<Spare, WalError> {
        let half = spare.bytes / 2 / PAGE_BYTES * PAGE_BYTES;
        if half < self.least_bytes {
            return Ok(spare);
        }
        debug_assert!(self.is_usable(half));
        let shortened = spare.file.set_len(half);
        shortened
            .and_then(|()| spare.file.sync_all())
            .map_err(|e| WalError::io("shorten", &spare.path, e))?;
        spare.bytes = half;
        match self.create(half) {
            Ok(reserve) => self.state.lock().reserve = Some(reserve),
            Err(WalError::NoSpace { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(spare)
    }

    fn no_space(&self) -> WalError {
        WalError::NoSpace {
            dir: self.dir.clone(),
        }
    }

    /// Creates a file for a segment of this length: space reserved, written with zeros once (see
    /// `docs/decisions/log-io.md`).
    fn create(&self, bytes: u64) -> Result<Spare, WalError> {
        debug_assert!(self.is_usable(bytes), "a spare of {bytes} bytes");
        let path = self.next_spare_path();
        let create = || -> io::Result<Arc<dyn File>> {
            let file = self.fs.open(&path, OpenMode::CreateNew)?;
            // First of all, so that a full disk is noticed before it is made fuller.
            file.allocate(0, bytes)?;
            file.fill_with_zeros(0, bytes)?;
            file.sync_all()?;
            // What is kept for a full disk must be there after a crash.
            self.fs.sync_dir(&self.dir)?;
            Ok(file)
        };
        match create() {
            Ok(file) => Ok(Spare { path, file, bytes }),
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                // Give back what was taken; the name may not even exist.
                let _ = self.fs.remove_file(&path);
                Err(self.no_space())
            }
            Err(error) => Err(WalError::io("prepare", &path, error)),
        }
    }

    fn next_spare_path(&self) -> PathBuf {
        let mut state = self.state.lock();
        let number = state.next_spare;
        state.next_spare += 1;
        self.dir
            .join(format!("{SPARE_PREFIX}{number:08x}{SPARE_SUFFIX}"))
    }

    /// Turns a spare into the segment with this header, behind `predecessor`. The caller has synced all earlier ones.
    pub(crate) fn begin_segment(
        &self,
        mut header: SegmentHeader,
        predecessor: Option<Unclosed>,
    ) -> Result<CurrentSegment, WalError> {
        let spare = self.state.lock().take_spare();
        let spare = spare.expect("admission counts the spares");
        header.file_bytes = spare.bytes;
        assert!(self.is_usable(spare.bytes), "only usable spares are kept");
        debug_assert!(header.start >= Lsn::FIRST);
        debug_assert!(predecessor.as_ref().is_none_or(|p| p.end <= header.start));
        let Spare {
            path: spare, file, ..
        } = spare;
        let path = self.dir.join(segment_name(header.start));
        let mut page = vec![0; PAGE_BYTES as usize];
        page[..SegmentHeader::BYTES].copy_from_slice(&header.encode());
        file.write_all_at(&page, 0)
            .map_err(|e| WalError::io("write", &spare, e))?;
        file.sync_data()
            .map_err(|e| WalError::io("sync", &spare, e))?;
        self.fs
            .rename(&spare, &path)
            .map_err(|e| WalError::io("rename", &spare, e))?;
        self.sync_dir()?;
        let mut state = self.state.lock();
        let segment = LiveSegment::new(header.start, path.clone());
        state.live.begin(segment);
        state.unclosed = predecessor;
        let (id, file_bytes) = (header.id, header.file_bytes);
        Ok(CurrentSegment {
            start: header.start,
            handles: Arc::new(Handles::new(path, file)),
            id,
            offset: PAGE_BYTES,
            file_bytes,
        })
    }

    /// Writes into the segment before the current one that the log goes on: the first records of the current one, up to
    /// `durable`, are. Before they are acknowledged, so that the loss of the current segment can be noticed.
    pub(crate) fn close_predecessor(&self, durable: Lsn) -> Result<(), WalError> {
        let (unclosed, _in_use) = {
            let mut state = self.state.lock();
            let Some(unclosed) = state.unclosed.take() else {
                return Ok(());
            };
            // Released meanwhile: a log that begins behind it needs no such word.
            let live = state.live.iter().find(|live| live.start == unclosed.start);
            let Some(live) = live.cloned() else {
                return Ok(());
            };
            (unclosed, live)
        };
        let page = BlockHeader::mark(unclosed.end, unclosed.id, durable);
        let file = unclosed.handles.take(&*self.fs)?;
        unclosed
            .handles
            .write_and_sync(file, &page, unclosed.offset)
    }

    /// Recycles or removes the segments that end at or below `lsn`, up to the first that is pinned or being read.
    /// Returns the lengths of those that became spares.
    pub(crate) fn release_below(&self, lsn: Lsn) -> Result<Vec<u64>, WalError> {
        self.state.lock().live.release_below(lsn);
        let mut recycled = Vec::new();
        while let Some(segment) = self.pop_released() {
            recycled.extend(self.retire(&segment.path)?);
        }
        Ok(recycled)
    }

    fn pop_released(&self) -> Option<LiveSegment> {
        self.state.lock().live.pop_released()
    }

    /// Makes a spare of a segment, or removes it if there are enough; a short one only where there is no other. Its
    /// length if it is a spare.
    fn retire(&self, path: &Path) -> Result<Option<u64>, WalError> {
        let (is_wanted, is_short_wanted) = {
            let state = self.state.lock();
            let is_urgent = state.reserve.is_none() || state.spares.is_empty();
            let is_wanted = is_urgent || (state.spares.len() as u64) < self.spares_kept;
            (is_wanted, is_urgent)
        };
        let open = || -> io::Result<Option<(Arc<dyn File>, u64)>> {
            let file = self.fs.open(path, OpenMode::ReadWrite)?;
            let bytes = file.len()?;
            let does = self.is_usable(bytes) && (bytes == self.segment_bytes || is_short_wanted);
            Ok(does.then_some((file, bytes)))
        };
        let file = match is_wanted {
            true => open().map_err(|e| WalError::io("open", path, e))?,
            false => None,
        };
        let Some((file, bytes)) = file else {
            self.fs
                .remove_file(path)
                .map_err(|e| WalError::io("remove", path, e))?;
            self.sync_dir()?;
            return Ok(None);
        };
        let spare = self.next_spare_path();
        self.fs
            .rename(path, &spare)
            .map_err(|e| WalError::io("rename", path, e))?;
        // Or a crash could give the old name back to a file that holds a new segment.
        self.sync_dir()?;
        let path = spare;
        debug_assert!(self.is_usable(bytes));
        Ok(self.state.lock().keep(Spare { path, file, bytes }))
    }

    /// Where files are put whose log was given up from `whole` on.
    pub(crate) fn lost_dir(&self, whole: Lsn) -> PathBuf {
        self.dir.join(LOST_DIR).join(format!("{:016x}", whole.0))
    }

    /// Copies a segment of which a part is given up, durably.
    pub(crate) fn copy_aside(&self, path: &Path, whole: Lsn) -> Result<(), WalError> {
        let to = self.make_lost_dir(whole)?.join(file_name(path));
        let copy = || -> io::Result<()> {
            let from = self.fs.open(path, OpenMode::Read)?;
            let copy = self.fs.open(&to, OpenMode::CreateOrOpen)?;
            copy.set_len(0)?;
            let mut bytes = vec![0; COPY_BYTES];
            let mut at = 0;
            loop {
                let n = from.read_at(&mut bytes, at)?;
                if n == 0 {
                    return copy.sync_all();
                }
                copy.write_all_at(&bytes[..n], at)?;
                at += n as u64;
            }
        };
        copy().map_err(|e| WalError::io("copy to", &to, e))?;
        let dir = self.lost_dir(whole);
        self.fs
            .sync_dir(&dir)
            .map_err(|e| WalError::io("sync", &dir, e))
    }

    /// Puts the segments aside that start in this range, at whose begin the log was given up.
    pub(crate) fn put_aside(&self, dead: &Range<Lsn>) -> Result<(), WalError> {
        debug_assert!(dead.start <= dead.end);
        loop {
            let segment = {
                let mut state = self.state.lock();
                state.live.remove(|segment| dead.contains(&segment.start))
            };
            let Some(LiveSegment { path, .. }) = segment else {
                return Ok(());
            };
            let dir = self.make_lost_dir(dead.start)?;
            self.fs
                .rename(&path, &dir.join(file_name(&path)))
                .map_err(|e| WalError::io("rename", &path, e))?;
            self.fs
                .sync_dir(&dir)
                .map_err(|e| WalError::io("sync", &dir, e))?;
            self.sync_dir()?;
        }
    }

    fn make_lost_dir(&self, whole: Lsn) -> Result<PathBuf, WalError> {
        let dir = self.lost_dir(whole);
        self.fs
            .create_dir_all(&dir)
            .map_err(|e| WalError::io("create", &dir, e))?;
        Ok(dir)
    }

    fn sync_dir(&self) -> Result<(), WalError> {
        self.fs
            .sync_dir(&self.dir)
            .map_err(|e| WalError::io("sync", &self.dir, e))
    }
}

/// The name of a file of ours.
fn file_name(path: &Path) -> &std::ffi::OsStr {
    path.file_name().expect("segments have names")
}
