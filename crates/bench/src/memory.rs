//! A disk that costs next to nothing: files in memory, so that what is measured is the engine's.
//!
//! The simulated disk of `esker_vfs::sim` keeps every sector's history for its crashes, which takes more processor time
//! than the log; and a preallocated segment holds its lock for a long while. This one forgets all that.
//!
//! Neighbours: `commit` runs on it, behind `SlowFs` where the device is to be slow.
//!
//! **Invariants**
//! - What is written is read by everybody from then on; there are no crashes, so syncs do nothing.
//! - A file without a name lives as long as it is open somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_vfs::{DirLock, File, Fs, OpenMode};
use parking_lot::{Mutex, RwLock};

/// Files grow by pieces of this size, so that growing copies nothing.
const CHUNK_BYTES: usize = 1 << 20;

/// What it says is free: more than any benchmark writes.
const FREE_BYTES: u64 = 1 << 40;

/// A file system in memory. Clones are handles of the same one.
#[derive(Clone, Default)]
pub(crate) struct MemoryFs {
    names: Arc<Mutex<Names>>,
}

#[derive(Default)]
struct Names {
    files: BTreeMap<PathBuf, Arc<MemoryFile>>,
    dirs: BTreeSet<PathBuf>,
}

impl Names {
    fn is_dir(&self, path: &Path) -> bool {
        path.parent().is_none() || self.dirs.contains(path)
    }
}

impl Fs for MemoryFs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut names = self.names.lock();
        let there = names.files.get(path).cloned();
        let file = match (there, mode) {
            (Some(_), OpenMode::CreateNew) => return Err(ErrorKind::AlreadyExists.into()),
            (Some(file), _) => file,
            (None, OpenMode::Read | OpenMode::ReadWrite) => {
                return Err(ErrorKind::NotFound.into());
            }
            (None, OpenMode::CreateNew | OpenMode::CreateOrOpen) => {
                if !path.parent().is_some_and(|dir| names.is_dir(dir)) {
                    return Err(ErrorKind::NotFound.into());
                }
                let file = Arc::new(MemoryFile::default());
                names.files.insert(path.to_owned(), Arc::clone(&file));
                file
            }
        };
        Ok(file)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let names = self.names.lock();
        Ok(names.files.contains_key(path) || names.is_dir(path))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let removed = self.names.lock().files.remove(path);
        removed.map(drop).ok_or(ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = self.names.lock();
        let file = names.files.remove(from).ok_or(ErrorKind::NotFound)?;
        names.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut names = self.names.lock();
        let dirs = path.ancestors().map(Path::to_owned);
        names.dirs.extend(dirs);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let names = self.names.lock();
        if !names.is_dir(dir) {
            return Err(ErrorKind::NotFound.into());
        }
        let mut list: Vec<String> = names
            .files
            .keys()
            .chain(&names.dirs)
            .filter(|path| path.parent() == Some(dir))
            .filter_map(|path| path.file_name()?.to_str().map(str::to_owned))
            .collect();
        list.sort_unstable();
        Ok(list)
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock_dir(&self, _dir: &Path) -> io::Result<Box<dyn DirLock>> {
        // One engine for each disk: there is nobody else.
        Ok(Box::new(NobodyElse))
    }

    fn taken_bytes(&self, path: &Path) -> io::Result<u64> {
        let file = self.names.lock().files.get(path).cloned();
        file.map_or(Ok(0), |file| file.len())
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        Ok(FREE_BYTES)
    }
}

struct NobodyElse;

impl DirLock for NobodyElse {}

#[derive(Default)]
struct MemoryFile {
    bytes: RwLock<Bytes>,
}

#[derive(Default)]
struct Bytes {
    /// Enough for `len`; zeros where nothing was written.
    chunks: Vec<Box<[u8]>>,
    len: u64,
}

impl Bytes {
    fn set_len(&mut self, len: u64) {
        let chunk = CHUNK_BYTES as u64;
        let (last, within) = ((len / chunk) as usize, (len % chunk) as usize);
        // What is cut off reads as zeros if the file grows again.
        self.chunks.truncate(len.div_ceil(chunk) as usize);
        if len < self.len && within > 0 {
            self.chunks[last][within..].fill(0);
        }
        while (self.chunks.len() as u64 * chunk) < len {
            self.chunks.push(vec![0; CHUNK_BYTES].into());
        }
        self.len = len;
    }
}

/// The chunks that `[offset, offset + len)` touches, with the range in each.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
    let mut at = offset;
    let end = offset + len as u64;
    std::iter::from_fn(move || {
        let (chunk, from) = (
            (at / CHUNK_BYTES as u64) as usize,
            at as usize % CHUNK_BYTES,
        );
        let bytes = (CHUNK_BYTES - from).min((end - at) as usize);
        at += bytes as u64;
        (bytes > 0).then_some((chunk, from..from + bytes))
    })
}

impl File for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.bytes.read();
        let len = (buf.len() as u64).min(bytes.len.saturating_sub(offset)) as usize;
        let mut rest = &mut buf[..len];
        for (chunk, range) in pieces(offset, len) {
            let (part, behind) = rest.split_at_mut(range.len());
            part.copy_from_slice(&bytes.chunks[chunk][range]);
            rest = behind;
        }
        Ok(len)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut bytes = self.bytes.write();
        let end = offset + buf.len() as u64;
        if end > bytes.len {
            bytes.set_len(end);
        }
        let mut rest = buf;
        for (chunk, range) in pieces(offset, buf.len()) {
            let (part, behind) = rest.split_at(range.len());
            bytes.chunks[chunk][range].copy_from_slice(part);
            rest = behind;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes.write().set_len(len);
        Ok(())
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut bytes = self.bytes.write();
        if offset + len > bytes.len {
            bytes.set_len(offset + len);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.read().len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(fs: &MemoryFs, name: &str) -> Arc<dyn File> {
        fs.open(Path::new(name), OpenMode::CreateOrOpen)
            .expect("opens")
    }

    #[test]
    fn bytes_are_read_back_across_chunks_and_what_was_cut_off_is_zero() {
        let fs = MemoryFs::default();
        let file = file(&fs, "/f");
        let text: Vec<u8> = (0..CHUNK_BYTES + 100).map(|i| i as u8 | 1).collect();
        let offset = CHUNK_BYTES as u64 - 50;
        file.write_all_at(&text, offset).expect("writes");
        assert_eq!(file.len().expect("length"), offset + text.len() as u64);
        let mut back = vec![7; text.len() + 10];
        assert_eq!(file.read_at(&mut back, offset).expect("reads"), text.len());
        assert_eq!(back[..text.len()], text);
        let mut before = [7; 4];
        file.read_exact_at(&mut before, offset - 4).expect("reads");
        assert_eq!(before, [0; 4]);
        file.set_len(offset + 3).expect("cuts");
        file.allocate(offset, 8).expect("grows");
        let mut cut = [7; 8];
        file.read_exact_at(&mut cut, offset).expect("reads");
        assert_eq!(cut, [text[0], text[1], text[2], 0, 0, 0, 0, 0]);
        assert!(file.read_exact_at(&mut cut, offset + 1).is_err());
    }

    #[test]
    fn names_are_those_of_a_file_system() {
        let fs = MemoryFs::default();
        let path = |name: &str| PathBuf::from(name);
        let missing = |mode| fs.open(&path("/d/f"), mode).err().map(|e| e.kind());
        for mode in [OpenMode::Read, OpenMode::CreateNew] {
            assert_eq!(missing(mode), Some(ErrorKind::NotFound));
        }
        fs.create_dir_all(&path("/d/e")).expect("makes");
        file(&fs, "/d/f").write_all_at(b"x", 0).expect("writes");
        file(&fs, "/d/e/inner");
        assert_eq!(fs.list(&path("/d")).expect("lists"), ["e", "f"]);
        assert_eq!(missing(OpenMode::CreateNew), Some(ErrorKind::AlreadyExists));
        let open = file(&fs, "/d/f");
        fs.rename(&path("/d/f"), &path("/d/g")).expect("renames");
        assert!(!fs.exists(&path("/d/f")).expect("looks"));
        assert_eq!(file(&fs, "/d/g").len().expect("length"), 1);
        fs.remove_file(&path("/d/g")).expect("removes");
        assert!(fs.remove_file(&path("/d/g")).is_err());
        assert_eq!(open.len().expect("still open"), 1);
    }
}
