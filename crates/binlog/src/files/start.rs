//! What a start finds in the folder besides the files: the index with what a crash has left of it, the mark of a reset
//! that was begun, GTIDs that were set as purged.
//!
//! Neighbours: `set` opens and resets with these. **Invariants**: what a crash can have left is told from what counts,
//! and removed; anything else is damage, and an error.

use std::path::Path;

use esker_vfs::{Fs, OpenMode};

use super::begins;
use super::group::Commits;
use super::index;
use super::names::{FileNumber, Names};
use super::position::{Positions, State};
use super::scan::summarise;
use crate::gtid::GtidSet;
use crate::{Error, Result};

/// How transactions came into the files that were being written when the server ended, if there are any.
pub fn left_open(fs: &dyn Fs, names: &Names) -> Result<Option<Commits>> {
    if !fs.exists(&names.other("position"))? {
        return Ok(None);
    }
    let (_, position) = Positions::open(fs, names)?;
    Ok(position.and_then(|position| match position.state {
        State::Open => Some(Commits::OneSync),
        State::TwoPhase => Some(Commits::TwoPhase),
        State::Closed => None,
    }))
}

/// The files of the index up to the last one that counts; what a crash left besides is removed.
pub(super) fn listed_files(
    fs: &dyn Fs,
    names: &Names,
    last: FileNumber,
) -> Result<Vec<FileNumber>> {
    let listed = index::read(fs, names)?;
    let mut numbers: Vec<_> = listed.iter().copied().filter(|n| *n <= last).collect();
    // A purge removes files before it changes the index.
    while let [first, _, ..] = numbers[..]
        && !fs.exists(&names.path(first))?
    {
        numbers.remove(0);
    }
    if numbers.last() != Some(&last) {
        return Err(Error::DamagedFile {
            file: names.index().display().to_string(),
            offset: 0,
            what: format!("it does not list '{}'", names.name(last)),
        });
    }
    if numbers.len() != listed.len() {
        index::write(fs, names, numbers.iter().copied())?;
    }
    for name in fs.list(names.dir())? {
        let is_listed = |n: FileNumber| numbers.contains(&n);
        if names.number(&name).is_some_and(|n| !is_listed(n)) {
            fs.remove_file(&names.dir().join(name))?;
        }
    }
    crate::synced(fs.sync_dir(names.dir()))?;
    Ok(numbers)
}

/// What the files of a server that has closed them say is executed; nothing where there are none.
///
/// # Errors
/// Damaged files; of the disk.
pub fn left_executed(fs: &dyn Fs, names: &Names) -> Result<GtidSet> {
    let mut executed = read_purged(fs, names)?;
    if let Some(last) = index::read(fs, names)?.last() {
        executed.union(&summarise(fs, &names.path(*last), None)?.executed);
    }
    Ok(executed)
}

/// GTIDs that were set as purged.
pub(super) fn read_purged(fs: &dyn Fs, names: &Names) -> Result<GtidSet> {
    let text = read_text(fs, &names.other("purged"))?.unwrap_or_default();
    text.parse()
        .map_err(|_| damaged_text(names, "purged", "it is no set of GTIDs"))
}

/// Where files begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Begin {
    /// What is in the log behind here belongs into them.
    pub(super) lsn: u64,
    /// Transactions before.
    pub(super) ordinal: u64,
    /// The first of them.
    pub(super) first: FileNumber,
}

/// From where a reset that was begun is to go on.
pub(super) fn begun_reset(fs: &dyn Fs, names: &Names) -> Result<Option<Begin>> {
    let Some(text) = read_text(fs, &names.other("reset"))? else {
        return Ok(None);
    };
    let numbers: Vec<u64> = text.split(' ').filter_map(|n| n.parse().ok()).collect();
    // A mark without a file is of an earlier version.
    let begin = match numbers[..] {
        [lsn, ordinal] => Some((lsn, ordinal, FileNumber::FIRST)),
        [lsn, ordinal, first] => {
            let first = u32::try_from(first).ok();
            first.map(|first| (lsn, ordinal, FileNumber(first)))
        }
        _ => None,
    };
    match begin {
        Some((lsn, ordinal, first)) => Ok(Some(Begin {
            lsn,
            ordinal,
            first,
        })),
        None => Err(damaged_text(names, "reset", "it is no mark of a reset")),
    }
}

/// The text of a small file; `None`: it is not there.
pub(super) fn read_text(fs: &dyn Fs, path: &Path) -> Result<Option<String>> {
    if !fs.exists(path)? {
        return Ok(None);
    }
    let file = fs.open(path, OpenMode::Read)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn damaged_text(names: &Names, ending: &str, what: &str) -> Error {
    Error::DamagedFile {
        file: names.other(ending).display().to_string(),
        offset: 0,
        what: what.into(),
    }
}

/// Removes all files but the mark of a reset.
pub(super) fn remove_all(fs: &dyn Fs, names: &Names) -> Result<()> {
    let other = ["index", "position", "purged", begins::ENDING].map(|ending| names.other(ending));
    for name in fs.list(names.dir())? {
        let path = names.dir().join(&name);
        if names.number(&name).is_some() || other.contains(&path) {
            fs.remove_file(&path)?;
        }
    }
    crate::synced(fs.sync_dir(names.dir()))
}
