//! Where a set of files is, also after the server was told to call them otherwise.
//!
//! ```text
//! record  name of the files now \n [name that they are being given \n]      relative to the data directory, or a path
//! ```
//! Neighbours: `set` and the relay log open what is settled here. **Invariants**
//! - Files keep their numbers under every name, so a set goes on where it was: what counts GTIDs and positions goes
//!   along.
//! - The record changes by rename. A move that was interrupted is finished before another one.
//! - Files of another set are not written over.

use std::path::{Path, PathBuf};

use esker_vfs::{Fs, OpenMode};

use super::begins;
use super::index;
use super::names::{FileNumber, Names};
use crate::{Error, Result};

/// Endings of files that belong to a set, besides numbers and the index.
const ENDINGS: [&str; 4] = ["position", "purged", "reset", begins::ENDING];

/// The place of a set of files in a data directory.
pub struct Home<'a> {
    fs: &'a dyn Fs,
    root: &'a Path,
    /// Where the files are if there is no record.
    first: Names,
}

/// The names of a set, and those that a move has not finished giving it.
#[derive(Debug, PartialEq, Eq)]
struct Recorded {
    now: Names,
    next: Option<Names>,
}

impl<'a> Home<'a> {
    /// In the data directory `root`; a set that was never moved is at `first`.
    pub fn new(fs: &'a dyn Fs, root: &'a Path, first: Names) -> Self {
        Self { fs, root, first }
    }

    /// The names that the files may have.
    ///
    /// # Errors
    /// Of the disk.
    pub fn known(&self) -> Result<Vec<Names>> {
        let Recorded { now, next } = self.recorded()?;
        Ok([Some(now), next].into_iter().flatten().collect())
    }

    /// Gives the files the wanted names, if they have others. `None`: they keep those that they have.
    ///
    /// # Errors
    /// Files of another set are there; of the disk.
    pub fn settle(&self, wanted: Option<Names>) -> Result<Names> {
        let Recorded { now, next } = self.recorded()?;
        let settled = match next {
            None => now,
            Some(next) => {
                self.relocate(&now, &next)?;
                next
            }
        };
        let Some(wanted) = wanted.filter(|wanted| !wanted.is_same_as(&settled)) else {
            return Ok(settled);
        };
        if self.fs.exists(&wanted.index())? {
            return Err(Error::DamagedFile {
                file: wanted.index().display().to_string(),
                offset: 0,
                what: "there are other files of this name".to_owned(),
            });
        }
        self.record(&settled, Some(&wanted))?;
        self.relocate(&settled, &wanted)?;
        Ok(wanted)
    }

    /// The names with the index at `path`, made of the files that are there, or beside them.
    ///
    /// # Errors
    /// Of the disk.
    pub fn indexed(&self, names: Names, path: Option<PathBuf>) -> Result<Names> {
        let beside = names.index();
        let is_there = self.fs.exists(&beside)?;
        let Some(path) = path else {
            if !is_there && self.fs.exists(&self.path())? {
                self.list(&names)?;
            }
            return Ok(names);
        };
        let names = names.with_index(path);
        self.list(&names)?;
        if is_there && beside != names.index() {
            self.fs.remove_file(&beside)?;
        }
        Ok(names)
    }

    /// Writes an index of the files that are there, if there are any.
    fn list(&self, names: &Names) -> Result<()> {
        if !self.fs.exists(names.dir())? {
            return Ok(());
        }
        let found = self.fs.list(names.dir())?;
        let mut numbers: Vec<FileNumber> =
            found.iter().filter_map(|name| names.number(name)).collect();
        numbers.sort_unstable();
        match numbers.is_empty() {
            true => Ok(()),
            false => index::write(self.fs, names, numbers.into_iter()),
        }
    }

    fn relocate(&self, from: &Names, to: &Names) -> Result<()> {
        self.fs.create_dir_all(to.dir())?;
        let is_there = self.fs.exists(from.dir())?;
        let found = is_there.then(|| self.fs.list(from.dir())).transpose()?;
        for name in found.unwrap_or_default() {
            if let Some(ending) = from.ending(&name) {
                let path = to.dir().join(format!("{}.{ending}", to.base()));
                self.fs.rename(&from.dir().join(&name), &path)?;
            }
        }
        self.list(to)?;
        if from.index() != to.index() && self.fs.exists(&from.index())? {
            self.fs.remove_file(&from.index())?;
        }
        crate::synced(self.fs.sync_dir(to.dir()))?;
        if is_there {
            crate::synced(self.fs.sync_dir(from.dir()))?;
        }
        self.record(to, None)
    }

    fn recorded(&self) -> Result<Recorded> {
        let path = self.path();
        let mut recorded = Recorded {
            now: self.first.clone(),
            next: None,
        };
        if !self.fs.exists(&path)? {
            return Ok(recorded);
        }
        let file = self.fs.open(&path, OpenMode::Read)?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.lines().map(|line| Names::of(self.root, line));
        recorded.now = lines.next().unwrap_or(recorded.now);
        recorded.next = lines.next();
        Ok(recorded)
    }

    fn record(&self, now: &Names, next: Option<&Names>) -> Result<()> {
        let line = |names: &Names| {
            let path = names.dir().join(names.base());
            let path = path.strip_prefix(self.root).unwrap_or(&path);
            format!("{}\n", path.display())
        };
        let text = line(now) + &next.map(line).unwrap_or_default();
        self.fs.create_dir_all(self.first.dir())?;
        let (path, new) = (self.path(), self.first.dir().join("names_new"));
        index::replace(self.fs, &self.first, &new, &path, text.as_bytes())
    }

    fn path(&self) -> PathBuf {
        self.first.dir().join("names")
    }
}

impl Names {
    /// What an option says: a base name, or a path that ends in one, in the data directory `root` if it is not
    /// absolute. An ending is left out, as in MySQL.
    pub fn of(root: &Path, option: &str) -> Self {
        let path = root.join(option);
        let base = path.file_name().unwrap_or_default().to_string_lossy();
        let base = base.rsplit_once('.').map_or(&*base, |(base, _)| base);
        Self::new(path.parent().unwrap_or(root).to_owned(), base)
    }

    /// What stands behind the base name of a file of the set; the index is none.
    fn ending<'n>(&self, name: &'n str) -> Option<&'n str> {
        let ending = name.strip_prefix(self.base())?.strip_prefix('.')?;
        let belongs = ENDINGS.contains(&ending) || self.number(name).is_some();
        belongs.then_some(ending)
    }
}

#[cfg(test)]
mod tests {
    use esker_vfs::sim::SimEnv;

    use super::*;

    const ROOT: &str = "/db";

    fn put(fs: &dyn Fs, path: &str) {
        let file = fs
            .open(Path::new(path), OpenMode::CreateOrOpen)
            .expect("a file");
        file.write_all_at(path.as_bytes(), 0).expect("written");
    }

    fn home(fs: &dyn Fs) -> Home<'_> {
        Home::new(
            fs,
            Path::new(ROOT),
            Names::new("/db/binlog".into(), "binlog"),
        )
    }

    #[test]
    fn an_option_is_a_name_or_a_path_and_its_ending_does_not_count() {
        for (option, dir, base) in [
            ("mysql-bin", "/db", "mysql-bin"),
            ("master-bin.log", "/db", "master-bin"),
            ("logs/b", "/db/logs", "b"),
            ("/var/b.x.000001", "/var", "b.x"),
        ] {
            assert_eq!(
                Names::of(Path::new(ROOT), option),
                Names::new(dir.into(), base)
            );
        }
    }

    #[test]
    fn files_go_along_with_their_numbers_and_a_move_is_finished() {
        let env = SimEnv::new(1).env();
        let fs = &*env.fs;
        fs.create_dir_all(Path::new("/db/binlog"))
            .expect("a folder");
        for ending in ["000007", "000008", "position", "purged", "lsns", "index"] {
            put(fs, &format!("/db/binlog/binlog.{ending}"));
        }
        put(fs, "/db/binlog/other.000001");
        put(fs, "/db/b.txt");
        let wanted = || Some(Names::of(Path::new(ROOT), "b"));
        assert_eq!(home(fs).settle(None).expect("settled"), home(fs).first);
        let settled = home(fs).settle(wanted()).expect("moved");
        assert_eq!(settled, Names::new(ROOT.into(), "b"));
        let listed = index::read(fs, &settled).expect("an index");
        assert_eq!(listed, [FileNumber(7), FileNumber(8)]);
        let there = |path: &str| fs.exists(Path::new(path)).expect("asked");
        assert!(there("/db/b.position") && there("/db/b.purged") && there("/db/b.lsns"));
        assert!(!there("/db/binlog/binlog.index") && !there("/db/binlog/binlog.000007"));
        assert!(there("/db/binlog/other.000001") && there("/db/b.txt"));
        // Without a name they stay, and with another one they move on.
        assert_eq!(home(fs).settle(None).expect("settled"), settled);
        let next = Names::of(Path::new(ROOT), "c");
        home(fs).record(&settled, Some(&next)).expect("begun");
        assert_eq!(home(fs).known().expect("known"), [settled, next.clone()]);
        assert_eq!(home(fs).settle(Some(next.clone())).expect("moved"), next);
        assert!(there("/db/c.000008") && !there("/db/b.000008"));
        put(fs, "/db/d.index");
        assert!(
            home(fs)
                .settle(Some(Names::of(Path::new(ROOT), "d")))
                .is_err()
        );
        assert_eq!(home(fs).settle(None).expect("settled"), next);
    }
}
