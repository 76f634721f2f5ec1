//! The index: a text that lists the files, one to a line, in MySQL's form.
//!
//! Neighbours: `set` changes it; tools that copy files read it.
//! **Invariants**: it changes by rename, so it is whole at any time; numbers ascend without gaps.

use std::sync::Arc;

use esker_vfs::{Fs, OpenMode};

use super::names::{FileNumber, Names};
use crate::{Error, Result};

/// Reads the index; empty if there is none.
pub(super) fn read(fs: &dyn Fs, names: &Names) -> Result<Vec<FileNumber>> {
    let path = names.index();
    if !fs.exists(&path)? {
        return Ok(Vec::new());
    }
    let file = fs.open(&path, OpenMode::Read)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_exact_at(&mut bytes, 0)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut files = Vec::new();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let name = line.trim_end().trim_start_matches("./");
        let number = names.number(name);
        let follows = |n: FileNumber| {
            files
                .last()
                .is_none_or(|last: &FileNumber| last.0 + 1 == n.0)
        };
        match number {
            Some(number) if follows(number) => files.push(number),
            _ => {
                return Err(Error::DamagedFile {
                    file: path.display().to_string(),
                    offset,
                    what: format!("unexpected entry '{name}'"),
                });
            }
        }
        offset += line.len() as u64;
    }
    Ok(files)
}

/// Replaces the index; durable on return.
pub(crate) fn write(
    fs: &dyn Fs,
    names: &Names,
    files: impl Iterator<Item = FileNumber>,
) -> Result<()> {
    let text: String = files.map(|n| format!("./{}\n", names.name(n))).collect();
    let path = names.index();
    let new = path.with_extension("index_new");
    replace(fs, names, &new, &path, text.as_bytes())
}

/// Writes `bytes` as `path`, by way of `new`; durable on return.
pub(super) fn replace(
    fs: &dyn Fs,
    names: &Names,
    new: &std::path::Path,
    path: &std::path::Path,
    bytes: &[u8],
) -> Result<()> {
    let file: Arc<dyn esker_vfs::File> = fs.open(new, OpenMode::CreateOrOpen)?;
    file.set_len(0)?;
    file.write_all_at(bytes, 0)?;
    crate::synced(file.sync_all())?;
    fs.rename(new, path)?;
    let dir = path.parent().unwrap_or(names.dir());
    crate::synced(fs.sync_dir(dir))?;
    Ok(())
}
