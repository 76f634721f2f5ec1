//! `ESKER_DISK`: what the server's files take on the disk, by what they are for.
//!
//! Neighbours: `infoschema` asks by table name; `folders` knows what the data directory's folders are for; `spill`, the
//! binary log and the channels say where their files lie when settings put them elsewhere.
//! **Invariants**: every file below the data directory is counted once, by its blocks, so the rows of the data
//! directory add up to what `du` says. A file that goes meanwhile is left out, and so is what lies in folders that the
//! server has not made: links there may lead anywhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use esker_types::Value;
use esker_vfs::Fs;

use super::folders::{BINLOG, FOLDERS, LOG, RELAY_LOGS, TEMPORARY};
use super::{Viewer, text};

/// How deep folders of the server lie in each other; what lies deeper was not made by it.
const MAX_DEPTH: usize = 6;

/// Areas that are no folder of their own.
const SPARE: &str = "spare segments of the log";
const OTHERS: &str = "others";
const FREE: &str = "free";

/// How the names of segments begin that are kept for later.
const SPARE_PREFIX: &str = "spare-";

#[derive(Default)]
struct Taken {
    files: u64,
    bytes: u64,
}

/// Sums by area and folder.
struct Survey<'a> {
    fs: &'a dyn Fs,
    areas: BTreeMap<(&'static str, PathBuf), Taken>,
}

impl Survey<'_> {
    /// Counts a file, or a folder with everything below it.
    fn count(&mut self, path: &Path, area: &'static str, folder: &Path, depth: usize) {
        let Ok(bytes) = self.fs.taken_bytes(path) else {
            return;
        };
        let below = match depth < MAX_DEPTH {
            true => self.fs.list(path).ok(),
            false => None,
        };
        let taken = self.areas.entry((area, folder.to_owned())).or_default();
        taken.bytes += bytes;
        taken.files += u64::from(below.is_none());
        for name in below.into_iter().flatten() {
            let area = match area == LOG && name.starts_with(SPARE_PREFIX) {
                true => SPARE,
                false => area,
            };
            self.count(&path.join(name), area, folder, depth + 1);
        }
    }

    /// Counts the data directory.
    fn count_data(&mut self, dir: &Path, is_binlog: impl Fn(&str) -> bool) {
        let own = self.fs.taken_bytes(dir).unwrap_or(0);
        self.areas
            .entry((OTHERS, dir.to_owned()))
            .or_default()
            .bytes += own;
        for name in self.fs.list(dir).unwrap_or_default() {
            let known = FOLDERS.iter().find(|folder| folder.name == name);
            let (area, folder) = match known {
                Some(folder) => (folder.area, dir.join(folder.name)),
                None if is_binlog(&name) => (BINLOG, dir.to_owned()),
                None => (OTHERS, dir.to_owned()),
            };
            let depth = if known.is_some() { 1 } else { MAX_DEPTH };
            self.count(&dir.join(name), area, &folder, depth);
        }
    }

    /// Counts the files of a log that lies elsewhere, and those only.
    fn count_log(&mut self, area: &'static str, base: &Path) {
        let (Some(dir), Some(name)) = (base.parent(), base.file_name()) else {
            return;
        };
        let name = name.to_string_lossy();
        for file in self.fs.list(dir).unwrap_or_default() {
            if is_of(&file, &name) {
                self.count(&dir.join(file), area, dir, MAX_DEPTH);
            }
        }
    }
}

/// Is this a file, or the index, of the log of this name?
fn is_of(file: &str, base: &str) -> bool {
    let ending = file.strip_prefix(base).and_then(|e| e.strip_prefix('.'));
    ending.is_some_and(|e| e == "index" || e.bytes().all(|b| b.is_ascii_digit()))
}

/// The rows of the table.
pub(super) fn rows(viewer: &Viewer) -> Vec<Vec<Value>> {
    let instance = &viewer.instance;
    let fs = &*instance.env.fs;
    // Where settings put files is said in whole paths.
    let dir = &std::path::absolute(instance.data_dir()).unwrap_or_default();
    let mut survey = Survey {
        fs,
        areas: BTreeMap::new(),
    };
    let path_of = |name| PathBuf::from(instance.variable_text(name));
    let binlog = path_of("log_bin_basename");
    let base = binlog.file_name().unwrap_or_default().to_string_lossy();
    let is_here = binlog.parent() == Some(dir.as_path());
    survey.count_data(dir, |name| is_here && is_of(name, &base));
    for (area, name) in [
        (BINLOG, "log_bin_basename"),
        (RELAY_LOGS, "relay_log_basename"),
    ] {
        let base = path_of(name);
        if base.is_absolute() && !base.starts_with(dir) {
            survey.count_log(area, &base);
        }
    }
    let temporary = instance.temp.dir();
    if !temporary.starts_with(dir) {
        survey.count(temporary, TEMPORARY, temporary, 1);
    }
    let row = |area: &str, folder: &Path, files: Option<u64>, bytes| {
        vec![
            text(area),
            text(folder.display().to_string()),
            files.map_or(Value::Null, Value::UInt),
            Value::UInt(bytes),
        ]
    };
    let areas = survey.areas.iter();
    let mut rows: Vec<_> = areas
        .map(|((area, folder), taken)| row(area, folder, Some(taken.files), taken.bytes))
        .collect();
    if let Ok(free) = fs.free_bytes(dir) {
        rows.push(row(FREE, dir, None, free));
    }
    rows
}
