//! What goes wrong, and when.
//!
//! **Invariants**
//! - Faults are decided under the disk's lock in operation order: one thread, one plan, one run.

use std::io;
use std::path::{Path, PathBuf};

/// Raw error number of a device error.
const EIO: i32 = 5;
/// Raw error number of a full disk.
const ENOSPC: i32 = 28;
/// Raw error number of a process that has too many files open.
const EMFILE: i32 = 24;

/// Kind of a file system operation, for fault plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// A file is created by opening it.
    Create,
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// A length is set.
    SetLen,
    /// Space is reserved.
    Allocate,
    /// Space in the middle of a file is given back.
    Punch,
    /// A file is synced.
    Sync,
    /// A directory is synced.
    SyncDir,
    /// A file is renamed.
    Rename,
    /// A name is removed.
    Remove,
}

impl Op {
    /// Whether the operation changes the disk, and so counts for [`super::SimFs::ops`].
    pub(super) fn is_change(self) -> bool {
        self != Op::Read
    }
}

/// One planned failure.
#[derive(Debug, Clone)]
pub struct Fault {
    op: Op,
    path_part: Option<String>,
    skip: u64,
    times: u64,
    errno: i32,
}

impl Fault {
    /// The next operation of this kind fails with EIO.
    pub fn on(op: Op) -> Self {
        Self {
            op,
            path_part: None,
            skip: 0,
            times: 1,
            errno: EIO,
        }
    }

    /// Lets `count` matching operations pass first.
    #[must_use]
    pub fn after(mut self, count: u64) -> Self {
        self.skip = count;
        self
    }

    /// Fails this many times instead of once.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// Fails for good.
    #[must_use]
    pub fn forever(self) -> Self {
        self.times(u64::MAX)
    }

    /// The error is that the process may not open another file.
    #[must_use]
    pub fn no_descriptor(mut self) -> Self {
        self.errno = EMFILE;
        self
    }

    /// Fails with "no space left on device" instead of EIO.
    #[must_use]
    pub fn no_space(mut self) -> Self {
        self.errno = ENOSPC;
        self
    }

    /// Only for paths that contain this text.
    #[must_use]
    pub fn path(mut self, part: &str) -> Self {
        self.path_part = Some(part.to_owned());
        self
    }

    fn matches(&self, op: Op, path: &Path) -> bool {
        let op_matches = self.op == op;
        let path_matches = self
            .path_part
            .as_ref()
            .is_none_or(|part| path.to_string_lossy().contains(part));
        op_matches && path_matches
    }
}

/// The failures still to come.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    faults: Vec<Fault>,
    hits: Vec<(Op, PathBuf)>,
}

impl Plan {
    pub(super) fn add(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.faults.clear();
    }

    /// Operations that were made to fail so far.
    pub(super) fn hits(&self) -> &[(Op, PathBuf)] {
        &self.hits
    }

    /// The error of this operation, if it is to fail.
    pub(super) fn check(&mut self, op: Op, path: &Path) -> io::Result<()> {
        for i in 0..self.faults.len() {
            let fault = &mut self.faults[i];
            if !fault.matches(op, path) {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                continue;
            }
            let errno = fault.errno;
            fault.times -= 1;
            if fault.times == 0 {
                self.faults.remove(i);
            }
            self.hits.push((op, path.to_path_buf()));
            return Err(io::Error::from_raw_os_error(errno));
        }
        Ok(())
    }
}

/// The error of every operation after the power has gone.
pub(super) fn power_is_off() -> io::Error {
    io::Error::other("the simulated machine has no power")
}

/// The error of a device that could not write.
pub(super) fn io_error() -> io::Error {
    io::Error::from_raw_os_error(EIO)
}

/// The error of a full disk.
pub(super) fn no_space() -> io::Error {
    io::Error::from_raw_os_error(ENOSPC)
}
