//! Opening the set of files: the first file is made, the last one is opened again, or a reset that was begun is ended.
//!
//! Neighbours: `start` knows what a crash leaves in the folder; `position` and `group` say where the last file ends.
//! **Invariant**: the last file of a set that is opened has everything up to its position, and nothing behind it.

use std::collections::VecDeque;
use std::sync::Arc;

use esker_vfs::{File, Fs, OpenMode};

use super::super::begins::{self, Begins};
use super::super::copy::Copies;
use super::super::group::last_whole;
use super::super::head::{FIRST_FLAGS_AT, begin_file};
use super::super::index;
use super::super::names::{FileNumber, Names};
use super::super::places::Place;
use super::super::position::{Position, Positions, State};
use super::super::scan::{previous_gtids, summarise};
use super::super::start::{Begin, begun_reset, listed_files, read_purged, remove_all};
use super::super::view::FileInfo;
use super::{Config, FileSet};
use crate::derive::{Deriver, Numbers};
use crate::event::{Checksum, FLAG_IN_USE};
use crate::gtid::GtidSet;
use crate::{Error, Result};

/// What a set that is opened or made begins with.
struct Opened {
    /// The end of the last file.
    position: Position,
    files: VecDeque<FileInfo>,
    /// The last one.
    file: Arc<dyn File>,
    checksum: Checksum,
    executed: GtidSet,
    purged: GtidSet,
    begins: Begins,
}

/// Opens the last file, which has at least what was synced.
fn open_synced(fs: &dyn Fs, names: &Names, position: &Position) -> Result<Arc<dyn File>> {
    let file = fs.open(&names.path(position.file), OpenMode::ReadWrite)?;
    let length = file.len()?;
    if length < position.offset {
        return Err(Error::DamagedFile {
            file: names.name(position.file),
            offset: length,
            what: format!("it was synced up to {}", position.offset),
        });
    }
    Ok(file)
}

/// The files with their sizes; the last one ends at `position`.
fn sizes_of(
    fs: &dyn Fs,
    names: &Names,
    numbers: Vec<FileNumber>,
    position: &Position,
) -> Result<VecDeque<FileInfo>> {
    let sized = numbers.into_iter().map(|number| {
        let size = match number == position.file {
            true => position.offset,
            false => fs.open(&names.path(number), OpenMode::Read)?.len()?,
        };
        Ok(FileInfo { number, size })
    });
    sized.collect()
}

impl FileSet {
    /// Opens the files, or begins the first one. `first_lsn` is where the log begins for a new set; `now` is in seconds
    /// since the epoch.
    pub fn open(fs: Arc<dyn Fs>, config: Config, first_lsn: u64, now: u32) -> Result<Self> {
        fs.create_dir_all(config.names.dir())?;
        let copies = Copies::open(&fs, config.names.dir())?;
        if let Some(begin) = begun_reset(&*fs, &config.names)? {
            return Self::recreate(fs, config, copies, begin, now);
        }
        let (positions, position) = Positions::open(&*fs, &config.names)?;
        match position {
            None => {
                let begin = Begin {
                    lsn: first_lsn,
                    ordinal: 0,
                    first: FileNumber::FIRST,
                };
                Self::create(fs, config, (positions, copies), begin, now)
            }
            Some(position) => Self::resume(fs, config, (positions, copies), position, now),
        }
    }

    /// Ends a reset that was begun: all files go, the first one begins again, the mark goes last.
    pub(super) fn recreate(
        fs: Arc<dyn Fs>,
        config: Config,
        copies: Copies,
        begin: Begin,
        now: u32,
    ) -> Result<Self> {
        let names = config.names.clone();
        remove_all(&*fs, &names)?;
        let (positions, _) = Positions::open(&*fs, &names)?;
        let files = (positions, copies);
        let set = Self::create(Arc::clone(&fs), config, files, begin, now)?;
        fs.remove_file(&names.other("reset"))?;
        crate::synced(fs.sync_dir(names.dir()))?;
        Ok(set)
    }

    fn create(
        fs: Arc<dyn Fs>,
        config: Config,
        (mut positions, copies): (Positions, Copies),
        begin: Begin,
        now: u32,
    ) -> Result<Self> {
        let Begin {
            lsn,
            ordinal,
            first: number,
        } = begin;
        // What a restored backup brings, before there is a file.
        let executed = read_purged(&*fs, &config.names)?;
        let purged = executed.clone();
        let (file, written) = begin_file(&*fs, &config, number, &executed, (now, now))?;
        index::write(&*fs, &config.names, std::iter::once(number))?;
        let begins = Begins::from([(number, lsn)]);
        begins::write(&*fs, &config.names, &begins)?;
        let numbers = Numbers {
            sequence: 0,
            ordinal,
        };
        let synced = Position {
            lsn,
            file: number,
            state: config.open_state(),
            offset: written,
            numbers,
            max_size: config.max_size,
        };
        positions.write(&synced)?;
        let info = FileInfo {
            number,
            size: written,
        };
        let opened = Opened {
            position: synced,
            files: VecDeque::from([info]),
            file,
            checksum: config.checksum,
            executed,
            purged,
            begins,
        };
        let mut set = Self::opened(fs, config, (positions, copies), opened);
        set.publish();
        Ok(set)
    }

    fn resume(
        fs: Arc<dyn Fs>,
        config: Config,
        (positions, copies): (Positions, Copies),
        mut position: Position,
        now: u32,
    ) -> Result<Self> {
        let names = &config.names;
        assert!(
            position.state == State::Closed || position.state == config.open_state(),
            "files that were left open are ended in the way they were written"
        );
        let numbers = listed_files(&*fs, names, position.file)?;
        let path = names.path(position.file);
        let file = open_synced(&*fs, names, &position)?;
        if position.state == State::TwoPhase {
            position = last_whole(&*fs, names, &position)?;
        }
        file.set_len(position.offset)?;
        if position.state != State::Closed {
            file.write_all_at(&FLAG_IN_USE.to_le_bytes(), FIRST_FLAGS_AT)?;
        }
        let summary = summarise(&*fs, &path, Some(position.offset))?;
        let mut purged = read_purged(&*fs, names)?;
        purged.union(&previous_gtids(&*fs, &names.path(numbers[0]), None)?);
        let begins = begins::read(&*fs, names, &numbers)?;
        let files = sizes_of(&*fs, names, numbers, &position)?;
        let opened = Opened {
            position,
            files,
            file,
            checksum: summary.checksum,
            executed: summary.executed,
            purged,
            begins,
        };
        let mut set = Self::opened(fs, config, (positions, copies), opened);
        match position.state {
            State::Open => {}
            State::Closed => set.next_file(now, now)?,
            State::TwoPhase => {
                // What the engine is to commit now stays there. No spool file is needed any more.
                set.caught_up();
                let end = set.sync_point();
                end.sync()?;
                set.note_synced(&end)?;
            }
        }
        set.publish();
        Ok(set)
    }

    /// The set at its last position, of which readers do not know yet.
    fn opened(
        fs: Arc<dyn Fs>,
        config: Config,
        (positions, copies): (Positions, Copies),
        opened: Opened,
    ) -> Self {
        let Opened {
            position,
            files,
            file,
            checksum,
            executed,
            purged,
            begins,
        } = opened;
        debug_assert!(
            files
                .back()
                .is_some_and(|last| last.number == position.file),
            "the position is in the last file"
        );
        let place = Place {
            lsn: position.lsn,
            file: position.file,
            offset: position.offset,
            gno: 0,
        };
        Self {
            deriver: Deriver::new(config.writer.clone(), position.numbers, executed),
            checksum,
            max_size: position.max_size,
            fs,
            config,
            positions,
            published: Arc::default(),
            files,
            file,
            written: position.offset,
            pending: Vec::new(),
            lsn: position.lsn,
            synced: position,
            purged,
            begins: Arc::new(begins),
            rotation: None,
            ended: false,
            resetting: None,
            resets: 0,
            places: vec![place],
            copies,
        }
    }
}
