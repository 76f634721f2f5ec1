//! A file system that counts and times what is done to each file: any other one, with figures.
//!
//! Neighbours: wraps an implementation of `fs`; the server's environment has one, and
//! `performance_schema.file_summary_by_…` shows its figures through [`Fs::figures`].
//!
//! **Invariants**
//! - Results are those of the file system below.
//! - An operation takes no lock for its figures; opening, renaming and removing a file takes one.
//! - Figures of a file live as long as its name or an open handle. Then they are added to those of its event, so sums
//!   of an event never go back, but for [`Fs::reset_figures`].
//! - At most [`MAX_FILES`] names are kept; files beyond are counted in their event once they are closed.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::fs::{DirLock, File, Fs, OpenMode};

/// Most files that have figures of their own.
const MAX_FILES: usize = 10_000;

/// How often something was done, to how many bytes, and how long it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IoFigures {
    /// Operations.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
    /// Nanoseconds of all operations.
    pub nanos: u64,
    /// Nanoseconds of the fastest one.
    pub min_nanos: u64,
    /// Nanoseconds of the slowest one.
    pub max_nanos: u64,
}

impl IoFigures {
    /// Adds what is counted elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.min_nanos = match (self.count, other.count) {
            (0, _) => other.min_nanos,
            (_, 0) => self.min_nanos,
            _ => self.min_nanos.min(other.min_nanos),
        };
        self.count += other.count;
        self.bytes += other.bytes;
        self.nanos += other.nanos;
        self.max_nanos = self.max_nanos.max(other.max_nanos);
    }
}

/// What was done to a file, or to all files of an event that are gone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileFigures {
    /// Name; `None` for files that are gone.
    pub path: Option<PathBuf>,
    /// What the file is for.
    pub event: &'static str,
    /// Handles that are open.
    pub open: u64,
    /// Reads.
    pub read: IoFigures,
    /// Writes.
    pub write: IoFigures,
    /// Everything else: opening, syncs, changes of length.
    pub misc: IoFigures,
}

#[derive(Debug)]
struct Meter {
    count: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
    min_nanos: AtomicU64,
    max_nanos: AtomicU64,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            count: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
            min_nanos: AtomicU64::new(u64::MAX),
            max_nanos: AtomicU64::new(0),
        }
    }
}

impl Meter {
    fn note(&self, bytes: u64, since: Instant) {
        let nanos = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.min_nanos.fetch_min(nanos, Ordering::Relaxed);
        self.max_nanos.fetch_max(nanos, Ordering::Relaxed);
    }

    fn figures(&self) -> IoFigures {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let count = load(&self.count);
        IoFigures {
            count,
            bytes: load(&self.bytes),
            nanos: load(&self.nanos),
            min_nanos: if count == 0 { 0 } else { load(&self.min_nanos) },
            max_nanos: load(&self.max_nanos),
        }
    }

    fn reset(&self) {
        self.min_nanos.store(u64::MAX, Ordering::Relaxed);
        for counter in [&self.count, &self.bytes, &self.nanos, &self.max_nanos] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

/// Sums of files that are gone, by event.
type Gone = Mutex<HashMap<&'static str, FileFigures>>;

/// What is known of a file.
struct Stats {
    event: &'static str,
    open: AtomicU64,
    read: Meter,
    write: Meter,
    misc: Meter,
    gone: Arc<Gone>,
}

impl Stats {
    fn new(event: &'static str, gone: &Arc<Gone>) -> Arc<Self> {
        Arc::new(Self {
            event,
            open: AtomicU64::new(0),
            read: Meter::default(),
            write: Meter::default(),
            misc: Meter::default(),
            gone: Arc::clone(gone),
        })
    }

    fn figures(&self, path: Option<&Path>) -> FileFigures {
        FileFigures {
            path: path.map(Path::to_path_buf),
            event: self.event,
            open: self.open.load(Ordering::Relaxed),
            read: self.read.figures(),
            write: self.write.figures(),
            misc: self.misc.figures(),
        }
    }
}

impl Drop for Stats {
    fn drop(&mut self) {
        let own = self.figures(None);
        let mut gone = self.gone.lock();
        let sum = gone.entry(self.event).or_default();
        sum.event = self.event;
        sum.read.add(&own.read);
        sum.write.add(&own.write);
        sum.misc.add(&own.misc);
    }
}

/// A file system with figures.
pub struct MeasuredFs {
    below: Arc<dyn Fs>,
    event_of: fn(&Path) -> &'static str,
    files: Mutex<HashMap<PathBuf, Arc<Stats>>>,
    gone: Arc<Gone>,
}

impl MeasuredFs {
    /// `below`, with figures; `event_of` says what a file is for.
    pub fn new(below: Arc<dyn Fs>, event_of: fn(&Path) -> &'static str) -> Self {
        Self {
            below,
            event_of,
            files: Mutex::default(),
            gone: Arc::default(),
        }
    }

    /// The figures of a file that is being opened.
    fn stats_of(&self, path: &Path) -> Arc<Stats> {
        let mut files = self.files.lock();
        if let Some(stats) = files.get(path) {
            return Arc::clone(stats);
        }
        let stats = Stats::new((self.event_of)(path), &self.gone);
        if files.len() < MAX_FILES {
            files.insert(path.to_path_buf(), Arc::clone(&stats));
        }
        debug_assert!(files.len() <= MAX_FILES);
        stats
    }
}

impl Fs for MeasuredFs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let since = Instant::now();
        let below = self.below.open(path, mode)?;
        let stats = self.stats_of(path);
        stats.misc.note(0, since);
        stats.open.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(MeasuredFile { below, stats }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.below.exists(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.below.remove_file(path)?;
        let removed = self.files.lock().remove(path);
        // Its figures may end here, which takes another lock.
        drop(removed);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.below.rename(from, to)?;
        let mut files = self.files.lock();
        let replaced = match files.remove(from) {
            Some(stats) => files.insert(to.to_path_buf(), stats),
            None => files.remove(to),
        };
        drop(files);
        drop(replaced);
        Ok(())
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.below.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.below.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.below.sync_dir(dir)
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<Box<dyn DirLock>> {
        self.below.lock_dir(dir)
    }

    fn taken_bytes(&self, path: &Path) -> io::Result<u64> {
        self.below.taken_bytes(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.below.free_bytes(dir)
    }

    fn figures(&self) -> Vec<FileFigures> {
        let files = self.files.lock();
        let mut all: Vec<FileFigures> = files
            .iter()
            .map(|(path, s)| s.figures(Some(path)))
            .collect();
        drop(files);
        all.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let mut gone: Vec<FileFigures> = self.gone.lock().values().cloned().collect();
        gone.sort_unstable_by_key(|figures| figures.event);
        all.extend(gone);
        all
    }

    fn reset_figures(&self) {
        self.gone.lock().clear();
        for stats in self.files.lock().values() {
            for meter in [&stats.read, &stats.write, &stats.misc] {
                meter.reset();
            }
        }
    }
}

struct MeasuredFile {
    below: Arc<dyn File>,
    stats: Arc<Stats>,
}

impl MeasuredFile {
    /// Does something else than reading and writing.
    fn misc<T>(&self, act: impl FnOnce(&dyn File) -> io::Result<T>) -> io::Result<T> {
        let since = Instant::now();
        let result = act(&*self.below);
        self.stats.misc.note(0, since);
        result
    }

    fn write(&self, bytes: u64, act: impl FnOnce(&dyn File) -> io::Result<()>) -> io::Result<()> {
        let since = Instant::now();
        let result = act(&*self.below);
        let written = if result.is_ok() { bytes } else { 0 };
        self.stats.write.note(written, since);
        result
    }
}

impl Drop for MeasuredFile {
    fn drop(&mut self) {
        self.stats.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl File for MeasuredFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let since = Instant::now();
        let result = self.below.read_at(buf, offset);
        let read = result.as_ref().map_or(0, |n| *n as u64);
        self.stats.read.note(read, since);
        result
    }

    fn will_read(&self, offset: u64, len: u64) {
        self.below.will_read(offset, len);
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write(buf.len() as u64, |file| file.write_all_at(buf, offset))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.misc(|file| file.set_len(len))
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.misc(|file| file.allocate(offset, len))
    }

    fn fill_with_zeros(&self, offset: u64, len: u64) -> io::Result<()> {
        self.write(len, |file| file.fill_with_zeros(offset, len))
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<bool> {
        self.misc(|file| file.punch_hole(offset, len))
    }

    fn can_share_blocks(&self, source: &dyn File) -> io::Result<bool> {
        self.misc(|file| file.can_share_blocks(source))
    }

    fn share_blocks(&self, source: &dyn File, from: u64, to: u64, len: u64) -> io::Result<()> {
        self.misc(|file| file.share_blocks(source, from, to, len))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.below.descriptor()
    }

    fn sync_data(&self) -> io::Result<()> {
        self.misc(|file| file.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.misc(|file| file.sync_all())
    }

    fn len(&self) -> io::Result<u64> {
        self.below.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Fault, Op, SimFs};

    fn measured() -> (SimFs, MeasuredFs) {
        let sim = SimFs::new();
        let event_of = |path: &Path| match path.starts_with("/log") {
            true => "log",
            false => "data",
        };
        let fs = MeasuredFs::new(Arc::new(sim.clone()), event_of);
        fs.create_dir_all(Path::new("/log")).expect("folder");
        (sim, fs)
    }

    fn named<'f>(figures: &'f [FileFigures], path: &str) -> &'f FileFigures {
        let is_it = |f: &&FileFigures| f.path.as_deref() == Some(Path::new(path));
        figures.iter().find(is_it).expect(path)
    }

    #[test]
    fn operations_are_counted_with_their_bytes() {
        let (sim, fs) = measured();
        let file = fs
            .open(Path::new("/log/a"), OpenMode::CreateNew)
            .expect("file");
        file.write_all_at(b"abc", 0).expect("writes");
        file.write_all_at(b"defg", 3).expect("writes");
        let mut buf = [0; 16];
        assert_eq!(file.read_at(&mut buf, 2).expect("reads"), 5);
        file.sync_data().expect("syncs");
        sim.inject(Fault::on(Op::Write));
        assert!(file.write_all_at(b"lost", 0).is_err());
        let all = fs.figures();
        let figures = named(&all, "/log/a");
        assert_eq!((figures.event, figures.open), ("log", 1));
        let counts = [figures.read, figures.write, figures.misc].map(|f| (f.count, f.bytes));
        assert_eq!(counts, [(1, 5), (3, 7), (2, 0)]);
        assert!(figures.write.min_nanos <= figures.write.max_nanos);
        assert!(figures.write.nanos >= figures.write.max_nanos);
        drop(file);
        assert_eq!(named(&fs.figures(), "/log/a").open, 0);
        fs.reset_figures();
        assert_eq!(named(&fs.figures(), "/log/a").write, IoFigures::default());
    }

    #[test]
    fn what_is_gone_stays_in_the_sums() {
        let (_, fs) = measured();
        let write = |path: &str, bytes: &[u8]| {
            let file = fs
                .open(Path::new(path), OpenMode::CreateOrOpen)
                .expect("file");
            file.write_all_at(bytes, 0).expect("writes");
            file
        };
        let held = write("/log/a", b"12");
        drop(write("/log/b", b"345"));
        // `a` takes the place of `b`, whose figures end.
        fs.rename(Path::new("/log/a"), Path::new("/log/b"))
            .expect("renames");
        let all = fs.figures();
        assert_eq!(named(&all, "/log/b").write.bytes, 2);
        assert_eq!(all.len(), 2, "{all:?}");
        let gone = all.iter().find(|f| f.path.is_none()).expect("sum");
        assert_eq!((gone.event, gone.write.bytes), ("log", 3));
        // A file that is removed while it is open goes on.
        fs.remove_file(Path::new("/log/b")).expect("removes");
        held.write_all_at(b"6789", 0).expect("writes");
        drop(held);
        let all = fs.figures();
        assert_eq!(
            (all.len(), all[0].write.count, all[0].write.bytes),
            (1, 3, 9)
        );
    }
}
