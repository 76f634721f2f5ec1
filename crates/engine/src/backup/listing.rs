//! The listing of a backup: what it consists of, as text with a checksum.
//!
//! Neighbours: `take` writes it, `set` reads it. `docs/formats/backup.md` describes it.
//!
//! **Invariants**
//! - It is written whole, under a temporary name, and gets its name when everything that it names is durable.
//! - What is read is checked line by line; a line that is not understood is damage.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use esker_vfs::{Env, Fs, OpenMode};

use super::{damaged, io, open, read, refused};
use crate::extent::{self, ExtentId};
use crate::tree::{Uuid, manifest};
use crate::{EngineError, Result, Seq};

/// Name of the file.
const FILE: &str = "backup.manifest";
const NEW_FILE: &str = "backup.manifest.new";
const FORMAT_VERSION: u16 = 1;
/// Longest file that is read.
const MAX_BYTES: u64 = 2 << 30;

/// Identifies a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BackupId(pub [u8; 16]);

impl std::fmt::Display for BackupId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

fn hex(bytes: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*bytes))
}

fn unhex(text: &str) -> Option<[u8; 16]> {
    let number = u128::from_str_radix(text, 16).ok()?;
    (text.len() == 32).then(|| number.to_be_bytes())
}

/// Another backup that has extents of this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) id: BackupId,
    /// Where it was.
    pub(super) path: PathBuf,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileLine {
    /// Relative to the backup, and to the data directory that is made of it.
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) checksum: u32,
    /// The length that it gets there.
    pub(super) restored_bytes: u64,
}

/// An extent, and where its bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExtentLine {
    pub(super) id: ExtentId,
    pub(super) stamp: u64,
    pub(super) bytes: u64,
    pub(super) checksum: u32,
    /// 0: this backup, else the holder of this number, from 1 on.
    pub(super) holder: usize,
    pub(super) pack: u32,
    pub(super) offset: u64,
}

/// What a backup consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) id: BackupId,
    pub(super) database: Uuid,
    /// The backup that it was compared with.
    pub(super) base: Option<BackupId>,
    /// When it was begun.
    pub(super) micros: i64,
    /// The log of the restored database ends here.
    pub(super) log_to: Seq,
    /// What the layer above wants to know.
    pub(super) notes: Vec<(String, String)>,
    pub(super) holders: Vec<Holder>,
    pub(super) files: Vec<FileLine>,
    pub(super) extents: Vec<ExtentLine>,
}

impl Listing {
    fn text(&self) -> String {
        let mut out = format!("esker backup {FORMAT_VERSION}\n");
        // Writing into a string cannot fail.
        let mut line = |text: std::fmt::Arguments<'_>| writeln!(out, "{text}").expect("a string");
        line(format_args!("id {}", self.id));
        line(format_args!("database {}", hex(&self.database)));
        line(format_args!(
            "formats {} {}",
            manifest::FORMAT_VERSION,
            extent::FORMAT_VERSION
        ));
        if let Some(base) = self.base {
            line(format_args!("base {base}"));
        }
        line(format_args!("time {}", self.micros));
        line(format_args!("log {}", self.log_to));
        for (name, value) in &self.notes {
            debug_assert!(!name.contains([' ', '\n']) && !value.contains('\n'));
            line(format_args!("note {name} {value}"));
        }
        for holder in &self.holders {
            line(format_args!(
                "holder {} {}",
                holder.id,
                holder.path.display()
            ));
        }
        for f in &self.files {
            let (bytes, checksum, restored) = (f.bytes, f.checksum, f.restored_bytes);
            debug_assert!(!f.path.contains('\n'));
            line(format_args!(
                "file {bytes} {checksum:08x} {restored} {}",
                f.path
            ));
        }
        for e in &self.extents {
            debug_assert!(e.holder <= self.holders.len());
            line(format_args!(
                "extent {} {:016x} {} {:08x} {} {} {}",
                e.id.0, e.stamp, e.bytes, e.checksum, e.holder, e.pack, e.offset
            ));
        }
        let checksum = crc32c::crc32c(out.as_bytes());
        out + &format!("end {checksum:08x}\n")
    }

    /// Writes it; then the directory is a backup.
    pub(super) fn write(&self, fs: &dyn Fs, dir: &Path) -> Result<()> {
        let new = dir.join(NEW_FILE);
        let write = || {
            let file = fs.open(&new, OpenMode::CreateNew)?;
            file.write_all_at(self.text().as_bytes(), 0)?;
            file.sync_all()?;
            fs.rename(&new, &dir.join(FILE))?;
            fs.sync_dir(dir)
        };
        write().map_err(|e| io("writing", &new, e))
    }

    /// Reads that of the backup in this directory.
    pub(super) fn read(env: &Env, dir: &Path) -> Result<Listing> {
        let path = dir.join(FILE);
        let there = env.fs.exists(&path);
        if !there.map_err(|e| io("looking for", &path, e))? {
            let dir = dir.display();
            return Err(refused(format!(
                "{dir} holds no complete backup: {FILE} is missing"
            )));
        }
        let file = open(&*env.fs, &path)?;
        let length = file.len().map_err(|e| io("reading", &path, e))?;
        if length > MAX_BYTES {
            return Err(damaged(&path, 0, "the file is too long"));
        }
        let mut bytes = vec![0; length as usize];
        read(&*file, &path, &mut bytes, 0)?;
        Parser::new(&path, &bytes)?.listing()
    }
}

/// Reads lines.
struct Parser<'a> {
    path: &'a Path,
    text: &'a str,
    /// Where the line begins that is read.
    at: usize,
}

impl<'a> Parser<'a> {
    /// Checks the checksum, and the version.
    fn new(path: &'a Path, bytes: &'a [u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes)
            .map_err(|e| damaged(path, e.valid_up_to() as u64, "this is no text"))?;
        let version = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("esker backup "));
        let version: u16 = version
            .and_then(|version| version.parse().ok())
            .ok_or_else(|| damaged(path, 0, "this is no listing of a backup"))?;
        if version != FORMAT_VERSION {
            return Err(other_format(path, "backup", version, FORMAT_VERSION));
        }
        let end = text
            .trim_end_matches('\n')
            .rfind('\n')
            .map_or(0, |at| at + 1);
        let checksum = text[end..].strip_prefix("end ").and_then(|sum| {
            let sum = sum.strip_suffix('\n').unwrap_or(sum);
            u32::from_str_radix(sum, 16).ok()
        });
        match checksum {
            None => Err(damaged(path, end as u64, "the file is cut short")),
            Some(sum) if sum != crc32c::crc32c(&bytes[..end]) => {
                Err(damaged(path, 0, "the checksum is wrong"))
            }
            Some(_) => Ok(Self {
                path,
                text: &text[..end],
                at: 0,
            }),
        }
    }

    fn wrong(&self) -> EngineError {
        damaged(self.path, self.at as u64, "a line cannot be understood")
    }

    fn listing(mut self) -> Result<Listing> {
        let mut listing = Listing {
            id: BackupId([0; 16]),
            database: Uuid::default(),
            base: None,
            micros: 0,
            log_to: 0,
            notes: Vec::new(),
            holders: Vec::new(),
            files: Vec::new(),
            extents: Vec::new(),
        };
        for line in self.text.split_inclusive('\n').skip(1) {
            self.at = line.as_ptr() as usize - self.text.as_ptr() as usize;
            let line = line.trim_end_matches('\n');
            let (kind, rest) = line.split_once(' ').ok_or_else(|| self.wrong())?;
            match kind {
                "formats" => self.formats(rest)?,
                _ => add(&mut listing, kind, rest).ok_or_else(|| self.wrong())?,
            }
        }
        Ok(listing)
    }

    fn formats(&self, rest: &str) -> Result<()> {
        let mut numbers = rest.split(' ').map(str::parse);
        let known = [
            ("manifest", manifest::FORMAT_VERSION),
            ("extent", extent::FORMAT_VERSION),
        ];
        for (part, known) in known {
            match numbers.next() {
                Some(Ok(found)) if found == known => {}
                Some(Ok(found)) => return Err(other_format(self.path, part, found, known)),
                _ => return Err(self.wrong()),
            }
        }
        Ok(())
    }
}

fn other_format(path: &Path, part: &'static str, found: u16, known: u16) -> EngineError {
    EngineError::OtherFormat {
        file: path.display().to_string().into(),
        part,
        found,
        known,
    }
}

/// What a line says; `None` if it cannot be understood.
fn add(listing: &mut Listing, kind: &str, rest: &str) -> Option<()> {
    let id = |text| unhex(text).map(BackupId);
    match kind {
        "id" => listing.id = id(rest)?,
        "database" => listing.database = unhex(rest)?,
        "base" => listing.base = Some(id(rest)?),
        "time" => listing.micros = rest.parse().ok()?,
        "log" => listing.log_to = rest.parse().ok()?,
        "note" => {
            let (name, value) = rest.split_once(' ')?;
            listing.notes.push((name.to_owned(), value.to_owned()));
        }
        "holder" => {
            let (holder, path) = rest.split_once(' ')?;
            listing.holders.push(Holder {
                id: id(holder)?,
                path: path.into(),
            });
        }
        "file" => listing.files.push(file_line(rest)?),
        "extent" => listing
            .extents
            .push(extent_line(rest, listing.holders.len())?),
        _ => return None,
    }
    Some(())
}

fn file_line(rest: &str) -> Option<FileLine> {
    let mut parts = rest.splitn(4, ' ');
    let line = FileLine {
        bytes: parts.next()?.parse().ok()?,
        checksum: u32::from_str_radix(parts.next()?, 16).ok()?,
        restored_bytes: parts.next()?.parse().ok()?,
        path: parts.next()?.to_owned(),
    };
    // Nothing outside of the directory.
    let is_inside = !line.path.starts_with('/') && line.path.split('/').all(|part| part != "..");
    (is_inside && line.restored_bytes >= line.bytes).then_some(line)
}

fn extent_line(rest: &str, holders: usize) -> Option<ExtentLine> {
    let mut parts = rest.split(' ');
    let line = ExtentLine {
        id: ExtentId(parts.next()?.parse().ok()?),
        stamp: u64::from_str_radix(parts.next()?, 16).ok()?,
        bytes: parts.next()?.parse().ok()?,
        checksum: u32::from_str_radix(parts.next()?, 16).ok()?,
        holder: parts.next()?.parse().ok()?,
        pack: parts.next()?.parse().ok()?,
        offset: parts.next()?.parse().ok()?,
    };
    let is_sane = line.bytes <= u64::from(u32::MAX) && line.holder <= holders;
    is_sane.then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_every_change_is_found() {
        let line = |n: u64| ExtentLine {
            id: ExtentId(n as u32),
            stamp: n * 7,
            bytes: 100 + n,
            checksum: 9,
            holder: 1,
            pack: 2,
            offset: n << 21,
        };
        let listing = Listing {
            id: BackupId([7; 16]),
            database: [8; 16],
            base: Some(BackupId([9; 16])),
            micros: -5,
            log_to: 4711,
            notes: vec![
                ("gtid".into(), String::new()),
                ("server".into(), "a b".into()),
            ],
            holders: vec![Holder {
                id: BackupId([9; 16]),
                path: "/backups/of the day".into(),
            }],
            files: vec![FileLine {
                path: "wal/x y".into(),
                bytes: 3,
                checksum: 1,
                restored_bytes: 4,
            }],
            extents: vec![line(1), line(600)],
        };
        let (path, text) = (Path::new("l"), listing.text());
        let parsed = |bytes: &[u8]| Parser::new(path, bytes).and_then(Parser::listing);
        assert_eq!(parsed(text.as_bytes()).unwrap(), listing);
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            assert!(parsed(&changed).is_err(), "byte {at}");
            // Without the last end of line it is still whole.
            if at + 1 < text.len() {
                assert!(parsed(&text.as_bytes()[..at]).is_err(), "cut at {at}");
            }
        }
        let newer = text.replace("esker backup 1", "esker backup 2");
        let error = parsed(newer.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("newer version"), "{error}");
        assert_eq!(file_line("1 0 1 ../x"), None);
        assert_eq!(file_line("1 0 1 /x"), None);
    }
}
