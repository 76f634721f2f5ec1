//! Copies of the data directory, in the page cache or out of it.
//!
//! Neighbours: `recovery` restarts on a fresh copy each time.
//!
//! **Invariants**
//! - A copy is on the disk when it is used: writing it back disturbs no measurement.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use esker_vfs::{Fs, OpenMode, OsFs};

use crate::{Error, Result};

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;
/// The engine's lock file, which a copy makes for itself.
const LOCK_FILE: &str = "LOCK";

/// Where the log is, below a data directory.
pub(super) const LOG_DIR: &str = "wal";

/// Every file below `dir`, relative to it.
fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(place) = open.pop() {
        for name in OsFs.list(&dir.join(&place))? {
            let path = place.join(&name);
            // Only a directory can be listed.
            match OsFs.list(&dir.join(&path)) {
                Ok(_) => open.push(path),
                Err(_) if name != LOCK_FILE => found.push(path),
                Err(_) => {}
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn in_dir(dir: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io {
        path: dir.to_owned(),
        source,
    }
}

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

/// Drops what the page cache has of a data directory.
pub(super) fn drop_cached(dir: &Path) -> Result<()> {
    let drop = || -> io::Result<()> {
        files(dir)?
            .iter()
            .try_for_each(|path| OsFs.drop_cached(&dir.join(path)))
    };
    drop().map_err(in_dir(dir))
}

/// Reads the log of a data directory once, as `dd` would, and gives the bytes of a second.
pub(super) fn read_rate(dir: &Path) -> Result<f64> {
    let log = dir.join(LOG_DIR);
    let read = || -> io::Result<f64> {
        let mut buffer = vec![0; CHUNK];
        let (start, mut bytes) = (Instant::now(), 0);
        for path in files(&log)? {
            let file = OsFs.open(&log.join(path), OpenMode::Read)?;
            let mut at = 0;
            loop {
                let read = file.read_at(&mut buffer, at)?;
                if read == 0 {
                    break;
                }
                at += read as u64;
            }
            bytes += at;
        }
        Ok(bytes as f64 / start.elapsed().as_secs_f64())
    };
    read().map_err(in_dir(&log))
}
