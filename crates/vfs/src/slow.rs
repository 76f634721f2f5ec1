//! A file system whose syncs take longer: any other one, with a delay behind every sync.
//!
//! Neighbours: wraps an implementation of `fs`, the real one or the simulated one. Benchmarks use it to see
//! what a slower device would do.
//!
//! **Invariants**
//! - A sync returns at least `delay` after the sync below has; syncs of different threads overlap, as in a
//!   device with a queue.
//! - Nothing else is slower, and results are those of the file system below.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::fs::{DirLock, File, Fs, OpenMode};

/// A file system with slow syncs.
#[derive(Clone)]
pub struct SlowFs {
    below: Arc<dyn Fs>,
    delay: Duration,
}

impl SlowFs {
    /// `below`, with `delay` behind every sync of a file or directory. The operating system's timers add
    /// some 50 microseconds to a delay.
    pub fn new(below: Arc<dyn Fs>, delay: Duration) -> Self {
        Self { below, delay }
    }
}

/// Waits after a sync, also after a failed one.
fn after_sync<T>(delay: Duration, result: io::Result<T>) -> io::Result<T> {
    if !delay.is_zero() {
        thread::sleep(delay);
    }
    result
}

impl Fs for SlowFs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(SlowFile {
            below: self.below.open(path, mode)?,
            delay: self.delay,
        }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.below.exists(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.below.remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.below.rename(from, to)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.below.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.below.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        after_sync(self.delay, self.below.sync_dir(dir))
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
}

struct SlowFile {
    below: Arc<dyn File>,
    delay: Duration,
}

impl File for SlowFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.below.read_at(buf, offset)
    }

    fn will_read(&self, offset: u64, len: u64) {
        self.below.will_read(offset, len);
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.below.write_all_at(buf, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.below.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.below.allocate(offset, len)
    }

    fn fill_with_zeros(&self, offset: u64, len: u64) -> io::Result<()> {
        self.below.fill_with_zeros(offset, len)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<bool> {
        self.below.punch_hole(offset, len)
    }

    fn can_share_blocks(&self, source: &dyn File) -> io::Result<bool> {
        self.below.can_share_blocks(source)
    }

    fn share_blocks(&self, source: &dyn File, from: u64, to: u64, len: u64) -> io::Result<()> {
        self.below.share_blocks(source, from, to, len)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.below.descriptor()
    }

    fn sync_data(&self) -> io::Result<()> {
        after_sync(self.delay, self.below.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        after_sync(self.delay, self.below.sync_all())
    }

    fn len(&self) -> io::Result<u64> {
        self.below.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Fault, Op, SimFs};
    use std::time::Instant;

    #[test]
    fn syncs_take_the_delay_and_nothing_else_changes() {
        let sim = SimFs::new();
        let delay = Duration::from_millis(20);
        let fs = SlowFs::new(Arc::new(sim.clone()), delay);
        fs.create_dir_all(Path::new("/d")).expect("directory");
        let file = fs
            .open(Path::new("/d/f"), OpenMode::CreateNew)
            .expect("file");
        file.write_all_at(b"abc", 0).expect("writes");
        for sync in [File::sync_data, File::sync_all] {
            let start = Instant::now();
            sync(&*file).expect("syncs");
            assert!(start.elapsed() >= delay);
        }
        let start = Instant::now();
        fs.sync_dir(Path::new("/d")).expect("syncs");
        assert!(start.elapsed() >= delay);
        let crashed = sim.crash_with(crate::sim::CrashImage::DropUnsynced);
        assert_eq!(crashed.contents(Path::new("/d/f")).expect("there"), b"abc");
    }

    #[test]
    fn errors_pass_through() {
        let sim = SimFs::new();
        let fs = SlowFs::new(Arc::new(sim.clone()), Duration::ZERO);
        let file = fs.open(Path::new("/f"), OpenMode::CreateNew).expect("file");
        file.write_all_at(b"abc", 0).expect("writes");
        sim.inject(Fault::on(Op::Sync));
        assert!(file.sync_data().is_err());
        assert_eq!(file.len().expect("length"), 3);
        assert!(fs.exists(Path::new("/f")).expect("looks"));
        assert!(!fs.exists(Path::new("/g")).expect("looks"));
    }
}
