//! Writes a whole manifest file: a header and a checkpoint, with space for edits behind it.
//!
//! Neighbours: the open manifest asks for it when it begins and at a checkpoint, `frozen` for a backup's copy.
//!
//! **Invariants**: a file gets its name once it is whole and durable. A failure after which the directory is not known
//! stops the engine; a full disk leaves things as they were.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_vfs::{File, Fs, OpenMode};

use super::record::{Kind, PAGE_BYTES, put_record};
use super::{FORMAT_VERSION, NEW_SUFFIX, RESERVE_BYTES, SPARE, Uuid, file_path};
use crate::extent::Health;
use crate::tree::change::Change;
use crate::{EngineError, Result, extent};

/// Checkpoint records are closed when they are larger than this.
pub(super) const CHECKPOINT_RECORD_BYTES: usize = 1 << 20;

/// A manifest file that stands.
pub(super) struct Written {
    pub(super) file: Arc<dyn File>,
    /// Bytes of records.
    pub(super) bytes: u64,
    /// Length of the file: more if space for edits is reserved.
    pub(super) length: u64,
    pub(super) next_record: u64,
}

/// Writes a manifest file of this content and gives it its name; on a full disk into the space that is kept for that.
pub(super) fn write_file(
    fs: &dyn Fs,
    dir: &Path,
    health: &Health,
    uuid: Uuid,
    number: u64,
    first_record: u64,
    content: Vec<Change>,
) -> Result<Written> {
    let new_path = dir.join(format!("{number:06}{NEW_SUFFIX}"));
    let naming = |e| EngineError::io(format!("creating {}", new_path.display()), e);
    let write = |file: Arc<dyn File>| {
        let at = (dir, &*new_path, number);
        write_content(fs, at, health, file, uuid, first_record, &content)
    };
    let fresh = fs
        .open(&new_path, OpenMode::CreateOrOpen)
        .and_then(|file| file.set_len(0).map(|()| file));
    let full = match fresh.map_err(naming).and_then(write) {
        Err(EngineError::DiskFull(what)) => what,
        written => return written,
    };
    let spare = dir.join(SPARE);
    if !fs.exists(&spare).map_err(naming)? {
        return Err(EngineError::DiskFull(full));
    }
    // It is all zeros, so what is behind the records is no record of an older manifest.
    fs.rename(&spare, &new_path).map_err(naming)?;
    let file = fs.open(&new_path, OpenMode::ReadWrite).map_err(naming)?;
    write(file)
}

/// Writes the first manifest of a copy of the database into a directory of its own. A failure there is none of the
/// database's.
pub(crate) fn write_copy(
    fs: &dyn Fs,
    dir: &Path,
    uuid: Uuid,
    content: Vec<Change>,
) -> Result<PathBuf> {
    let health = Health::new(Arc::new(|_| {}));
    write_file(fs, dir, &health, uuid, 1, 1, content)?;
    Ok(file_path(dir, 1))
}

/// Writes the records into `file`, which has a temporary name, syncs it and gives it its name.
fn write_content(
    fs: &dyn Fs,
    (dir, new_path, number): (&Path, &Path, u64),
    health: &Health,
    file: Arc<dyn File>,
    uuid: Uuid,
    first_record: u64,
    content: &[Change],
) -> Result<Written> {
    let name = new_path.display();
    let mut header = FORMAT_VERSION.to_le_bytes().to_vec();
    header.extend_from_slice(&extent::FORMAT_VERSION.to_le_bytes());
    header.extend_from_slice(&uuid);
    let mut buffer = Vec::new();
    put_record(&mut buffer, Kind::Header, first_record, &header);
    let (mut bytes, mut next_record) = (0, first_record + 1);
    let mut write = |buffer: &mut Vec<u8>| {
        let result = file.write_all_at(buffer, bytes);
        bytes += buffer.len() as u64;
        buffer.clear();
        result.map_err(|e| EngineError::io(format!("writing {name}"), e))
    };
    let mut payload = Vec::new();
    for change in content {
        change.encode(&mut payload);
        if payload.len() > CHECKPOINT_RECORD_BYTES {
            put_record(&mut buffer, Kind::Checkpoint, next_record, &payload);
            next_record += 1;
            payload.clear();
            write(&mut buffer)?;
        }
    }
    if !payload.is_empty() {
        put_record(&mut buffer, Kind::Checkpoint, next_record, &payload);
        next_record += 1;
    }
    write(&mut buffer)?;
    let end = bytes + PAGE_BYTES as u64;
    let length = match reserve_edits(&*file, end) {
        Ok(length) => length,
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            tracing::warn!("no space for edits of the manifest ahead of time");
            end
        }
        Err(error) => return Err(EngineError::io(format!("growing {name}"), error)),
    };
    payload.clear();
    Change::Length { bytes: length }.encode(&mut payload);
    put_record(&mut buffer, Kind::CheckpointEnd, next_record, &payload);
    next_record += 1;
    assert_eq!(
        buffer.len(),
        PAGE_BYTES,
        "the end of a checkpoint is a page"
    );
    debug_assert!(end <= length);
    file.write_all_at(&buffer, bytes)
        .map_err(|e| EngineError::io(format!("writing {name}"), e))?;
    publish(fs, dir, (new_path, &file_path(dir, number)), health, &*file)?;
    Ok(Written {
        file,
        bytes: end,
        length,
        next_record,
    })
}

/// Makes a file that is written durable under its final name.
fn publish(
    fs: &dyn Fs,
    dir: &Path,
    (new_path, path): (&Path, &Path),
    health: &Health,
    file: &dyn File,
) -> Result<()> {
    debug_assert_ne!(new_path, path, "the file has a temporary name");
    let name = new_path.display();
    file.sync_all().map_err(|error| match error.kind() {
        // The file has not got its name yet.
        io::ErrorKind::StorageFull => EngineError::io(format!("sync of {name}"), error),
        _ => health.stop(format!("sync of {name} failed: {error}")),
    })?;
    fs.rename(new_path, path)
        .map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull => EngineError::io(format!("renaming {name}"), error),
            // Whether the new name is there is not known, so neither file may be appended to.
            _ => health.stop(format!("renaming {name} failed: {error}")),
        })?;
    fs.sync_dir(dir)
        .map_err(|e| health.stop(format!("sync of directory {} failed: {e}", dir.display())))
}

/// Reserves space behind a checkpoint that ends at `end`. The length that the file has then.
fn reserve_edits(file: &dyn File, end: u64) -> io::Result<u64> {
    let length = (end + RESERVE_BYTES / 2).next_multiple_of(RESERVE_BYTES);
    file.allocate(0, length)?;
    if file.len()? > length {
        // It was the spare one, and the next spare one needs the space.
        file.set_len(length)?;
    }
    Ok(length)
}
