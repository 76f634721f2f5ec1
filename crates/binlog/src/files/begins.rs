//! Where in the log the files begin: a text of lines `number LSN`, for people who want to know what a file covers.
//!
//! Neighbours: `set` writes it with the index of a new file; `view` shows it. **Invariants**: it changes by rename.
//! Nothing depends on it: what is missing, as of files of an earlier version, is not known.

use std::collections::BTreeMap;

use esker_vfs::Fs;

use super::index;
use super::names::{FileNumber, Names};
use super::start::read_text;
use crate::Result;

/// What the text's name ends with.
pub(super) const ENDING: &str = "lsns";

/// Of each file the LSN above which the transactions are that it begins with.
pub type Begins = BTreeMap<FileNumber, u64>;

/// Reads what is known of these files.
pub(super) fn read(fs: &dyn Fs, names: &Names, files: &[FileNumber]) -> Result<Begins> {
    let text = read_text(fs, &names.other(ENDING))?.unwrap_or_default();
    let begins = text.lines().filter_map(|line| {
        let (number, lsn) = line.split_once(' ')?;
        Some((FileNumber(number.parse().ok()?), lsn.parse().ok()?))
    });
    Ok(begins.filter(|(n, _)| files.contains(n)).collect())
}

/// Replaces it; durable on return.
pub(super) fn write(fs: &dyn Fs, names: &Names, begins: &Begins) -> Result<()> {
    let lines = begins.iter().map(|(n, lsn)| format!("{} {lsn}\n", n.0));
    let text: String = lines.collect();
    let new = names.other("lsns_new");
    index::replace(fs, names, &new, &names.other(ENDING), text.as_bytes())
}
