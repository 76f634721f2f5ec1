//! Files of the server's users, beside the database: what LOAD DATA reads and SELECT … INTO OUTFILE writes.
//!
//! Neighbours: whoever serves users decides which paths are allowed; [`crate::Fs`] is for the database's own files.
//!
//! **Invariants**
//! - These files are read and written from front to back by one thread, and never synced: nothing of the database
//!   depends on them. They are on the real disk also where the database is on a simulated one.
//! - [`OutsideFile::create`] never opens a file that is there already, nor follows a link in its last part.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Who may read a file that the server has written: its owner and its group, and nobody else.
const CREATED_MODE: u32 = 0o640;

/// A file outside the database.
#[derive(Debug)]
pub struct OutsideFile {
    file: File,
}

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutsideKind {
    /// A regular file.
    Regular,
    /// Anything else: a directory, a device, a pipe (opening one may block for ever).
    Other,
}

impl OutsideFile {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: File::open(path)?,
        })
    }

    /// Makes a new file.
    ///
    /// # Errors
    /// `AlreadyExists`, and others of the operating system.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(CREATED_MODE)
            .open(path)?;
        Ok(Self { file })
    }

    /// Reads up to the buffer's length; 0 at the end of the file.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read(buf) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
                result => return result,
            }
        }
    }

    /// Appends.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// What the path names, links followed.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn kind(path: &Path) -> io::Result<OutsideKind> {
        Ok(match fs::metadata(path)?.is_file() {
            true => OutsideKind::Regular,
            false => OutsideKind::Other,
        })
    }

    /// The path without links and `..`; the last part need not exist.
    ///
    /// # Errors
    /// Those of the operating system: above all a directory that is not there.
    pub fn real_path(path: &Path) -> io::Result<PathBuf> {
        match fs::canonicalize(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => (),
            result => return result,
        }
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        Ok(fs::canonicalize(dir)?.join(name))
    }

    /// Removes a file.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn remove(path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_seen_through_and_files_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        let path = base.join("a");
        OutsideFile::create(&path)
            .unwrap()
            .write_all(b"xy")
            .unwrap();
        let again = OutsideFile::create(&path).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        fs::create_dir(base.join("sub")).unwrap();
        std::os::unix::fs::symlink(&base, base.join("sub/out")).unwrap();
        assert_eq!(
            OutsideFile::real_path(&base.join("sub/out/a")).unwrap(),
            path
        );
        assert_eq!(
            OutsideFile::real_path(&base.join("sub/../b")).unwrap(),
            base.join("b")
        );
        assert!(OutsideFile::real_path(&base.join("none/b")).is_err());
        assert_eq!(OutsideFile::kind(&base).unwrap(), OutsideKind::Other);
        assert_eq!(OutsideFile::kind(&path).unwrap(), OutsideKind::Regular);
        let mut buf = [0; 8];
        assert_eq!(OutsideFile::open(&path).unwrap().read(&mut buf).unwrap(), 2);
        OutsideFile::remove(&path).unwrap();
        assert!(OutsideFile::open(&path).is_err());
    }
}
