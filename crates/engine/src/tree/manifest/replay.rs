//! Reads a manifest: which file is in force, and the state that its records add up to.
//!
//! Neighbours: `record` knows the bytes, `state` applies the changes; the opening of the trees, `esker check` and
//! `esker inspect` ask for it.
//!
//! **Invariants**: a torn last record is an edit that never was; anything else that is not as it was written is damage,
//! named with its offset.

use std::path::{Path, PathBuf};

use esker_vfs::{Fs, OpenMode};

use super::record::{Kind, PAGE_BYTES, record_at};
use super::write::Written;
use super::{FORMAT_VERSION, Uuid, file_numbers, file_path};
use crate::codec::{Malformed, Reader};
use crate::tree::change::Change;
use crate::tree::state::State;
use crate::{EngineError, Result, extent};

/// What there is to do about a damaged manifest.
const NO_WAY_ON: &str = "; without it nobody knows which extents are in force, so there is no starting without it: bring \
                         the data directory back from a copy";

/// What replay found.
pub(crate) struct Replayed {
    pub(crate) uuid: Uuid,
    pub(crate) state: State,
    /// Number of the file that was read.
    pub(super) file_number: u64,
    /// Number for the next record.
    pub(super) next_record: u64,
}

impl Replayed {
    /// The file that was read. What of it came from the page cache is made durable: a crash must not bring back a state
    /// in which space is in use that is free in this one.
    pub(super) fn in_force(&self, fs: &dyn Fs, dir: &Path) -> Result<Written> {
        let path = file_path(dir, self.file_number);
        let opened = fs.open(&path, OpenMode::ReadWrite).and_then(|file| {
            file.sync_all()?;
            let bytes = file.len()?;
            Ok((file, bytes))
        });
        let (file, bytes) =
            opened.map_err(|e| EngineError::io(format!("making {} durable", path.display()), e))?;
        Ok(Written {
            file,
            bytes,
            length: bytes,
            next_record: self.next_record,
        })
    }

    /// The file that was read.
    pub(crate) fn file(&self, dir: &Path) -> PathBuf {
        file_path(dir, self.file_number)
    }

    /// Number of the last record that is in force.
    pub(crate) fn last_record(&self) -> u64 {
        self.next_record - 1
    }
}

/// Reads the manifest in force; `None` if there has never been one.
pub(crate) fn replay(fs: &dyn Fs, dir: &Path) -> Result<Option<Replayed>> {
    let Some(file_number) = file_numbers(fs, dir)?.into_iter().max() else {
        return Ok(None);
    };
    let path = file_path(dir, file_number);
    let name = path.display().to_string();
    let context = || format!("reading {name}");
    let file = fs
        .open(&path, OpenMode::Read)
        .map_err(|e| EngineError::io(context(), e))?;
    let length = file.len().map_err(|e| EngineError::io(context(), e))?;
    let mut bytes = vec![0; usize::try_from(length).expect("a file in memory")];
    file.read_exact_at(&mut bytes, 0)
        .map_err(|e| EngineError::io(context(), e))?;
    replay_bytes(&bytes, file_number)
        .map(Some)
        .map_err(|error| match error {
            Unreadable::Damage(offset, what) => {
                EngineError::corruption(name, offset as u64, what + NO_WAY_ON)
            }
            Unreadable::Format(part, found, known) => EngineError::OtherFormat {
                file: name.into(),
                part,
                found,
                known,
            },
        })
}

/// Where the damage is and what, in a file that says so.
type Damage = (usize, String);

/// Why the bytes of a file are no manifest.
enum Unreadable {
    Damage(usize, String),
    /// What has another format, which it has, and which could be read.
    Format(&'static str, u16, u16),
}

impl From<Damage> for Unreadable {
    fn from((offset, what): Damage) -> Self {
        Unreadable::Damage(offset, what)
    }
}

fn replay_bytes(bytes: &[u8], file_number: u64) -> Result<Replayed, Unreadable> {
    let header = record_at(bytes, 0)
        .filter(|record| record.kind == Kind::Header)
        .ok_or_else(|| {
            (
                0,
                "the manifest does not begin with a valid header".to_owned(),
            )
        })?;
    let uuid = read_header(header.payload)?;
    let mut state = State::default();
    let (mut at, mut next_record) = (header.end, header.number + 1);
    let mut checkpoint_is_whole = false;
    while let Some(record) = record_at(bytes, at).filter(|r| r.number == next_record) {
        match (record.kind, checkpoint_is_whole) {
            (Kind::Checkpoint | Kind::CheckpointEnd, false) | (Kind::Edit, true) => {
                let changes = Change::decode_all(record.payload);
                changes
                    .and_then(|changes| state.apply(changes))
                    .map_err(|what| (at, format!("record {next_record}: {what}")))?;
                checkpoint_is_whole |= record.kind == Kind::CheckpointEnd;
            }
            _ => return Err((at, format!("record {next_record} is of the wrong kind")).into()),
        }
        (at, next_record) = (record.end, next_record + 1);
    }
    let len = bytes.len();
    if !checkpoint_is_whole {
        let what = match at < len {
            true => "the checkpoint is damaged".to_owned(),
            false => {
                format!("the file is cut short: it has {len} bytes and ends within its checkpoint")
            }
        };
        return Err((at, what).into());
    }
    check_end(bytes, at)?;
    if (len as u64) < state.length {
        let what = format!(
            "the file is cut short: it has {len} bytes and had at least {}; what was recorded last is lost",
            state.length
        );
        return Err((len, what).into());
    }
    Ok(Replayed {
        uuid,
        state,
        file_number,
        next_record,
    })
}

/// Tells a torn last record from damage: behind the end there must be no valid record.
fn check_end(bytes: &[u8], end: usize) -> Result<(), Damage> {
    let lost = (end..bytes.len())
        .step_by(PAGE_BYTES)
        .filter(|at| record_at(bytes, *at).is_some());
    match lost.count() {
        0 => Ok(()),
        lost => Err((
            end,
            format!("a record is damaged; {lost} later edits would be lost"),
        )),
    }
}

fn read_header(payload: &[u8]) -> Result<Uuid, Unreadable> {
    let damage = |what: Malformed| Unreadable::Damage(0, what.to_owned());
    let mut reader = Reader::new(payload);
    for (part, known) in [
        ("manifest", FORMAT_VERSION),
        ("extent", extent::FORMAT_VERSION),
    ] {
        let found = reader.u16().map_err(damage)?;
        if found != known {
            return Err(Unreadable::Format(part, found, known));
        }
    }
    reader.array().map_err(damage)
}
