//! Copies of the data directory.
//!
//! Neighbours: `recovery` restarts on a fresh copy each time.
//!
//! **Invariants**
//! - A copy is on the disk when it is used: writing it back disturbs no measurement.

use std::io;
use std::path::Path;

use esker_vfs::{Fs, OpenMode, OsFs};

use crate::Result;
use crate::page_cache::{files, in_dir};

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;
/// Where the log is, below a data directory.
pub(super) const LOG_DIR: &str = "wal";

/// Copies a data directory to a place where nothing is.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    let copy = || -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        for path in files(from)? {
            let target = to.join(&path);
            OsFs.create_dir_all(target.parent().unwrap_or(to))?;
            let source = OsFs.open(&from.join(&path), OpenMode::Read)?;
            let target = OsFs.open(&target, OpenMode::CreateNew)?;
            let mut at = 0;
            loop {
                let read = source.read_at(&mut buffer, at)?;
                if read == 0 {
                    break;
                }
                target.write_all_at(&buffer[..read], at)?;
                at += read as u64;
            }
            target.sync_all()?;
        }
        Ok(())
    };
    copy().map_err(in_dir(to))
}
