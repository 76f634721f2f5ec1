//! The system's page cache: what of a directory is in it, and how fast the device gives what is not.
//!
//! Neighbours: `recovery` and `scan` measure with cold files.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use esker_vfs::{Fs, OpenMode, OsFs};

use crate::{Error, Result};

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;
/// The engine's lock file, which belongs to whoever has the directory open.
const LOCK_FILE: &str = "LOCK";

/// Every file below `dir`, relative to it.
pub(crate) fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
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

pub(crate) fn in_dir(dir: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io {
        path: dir.to_owned(),
        source,
    }
}

/// Drops what the page cache has of a data directory.
pub(crate) fn drop_cached(dir: &Path) -> Result<()> {
    let drop = || -> io::Result<()> {
        files(dir)?
            .iter()
            .try_for_each(|path| OsFs.drop_cached(&dir.join(path)))
    };
    drop().map_err(in_dir(dir))
}

/// Reads what is below a directory once, as `dd` would, and gives the bytes of a second. Holes of files are left out:
/// they are not on the device.
pub(crate) fn read_rate(dir: &Path) -> Result<f64> {
    let read = || -> io::Result<f64> {
        let mut buffer = vec![0; CHUNK];
        let (start, mut bytes) = (Instant::now(), 0);
        for path in files(dir)? {
            let path = dir.join(path);
            let file = OsFs.open(&path, OpenMode::Read)?;
            for range in OsFs.data_ranges(&path)? {
                bytes += range.end - range.start;
                for at in range.clone().step_by(CHUNK) {
                    let rest = (range.end - at).min(CHUNK as u64);
                    file.read_exact_at(&mut buffer[..rest as usize], at)?;
                }
            }
        }
        Ok(bytes as f64 / start.elapsed().as_secs_f64())
    };
    read().map_err(in_dir(dir))
}
