//! Point in time: runs what the binary log has behind a backup on the restored data directory.
//!
//! Neighbours: `mod` restores first; `esker_binlog` reads the files and makes transactions of their events, as it does
//! for replicas; the statements are those that mysqlbinlog prints, and run in an embedded session.
//!
//! **Invariants**
//! - Transactions are run whole and in the order of the files, until the first that is not wanted.
//! - An error names file and offset, and nothing behind it is run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use esker_binlog::apply::assemble::Assembler;
use esker_binlog::apply::{Group, Id, Incoming, Part, PartKind, Place, RelayPlace, RowKind, Shape};
use esker_binlog::event::format::FormatDescription;
use esker_binlog::event::query::{Query, Settings};
use esker_binlog::event::{Checksum, EventType, Stamp, frame};
use esker_binlog::files::Scan;
use esker_binlog::gtid::GtidSet;
use esker_engine::BackupProgress;
use esker_server::embedded::Embedded;
use esker_sql::applier::{KeyCheck, set_statement};
use esker_types::func::encode_base64;
use esker_vfs::Env;

use super::until::Until;
use crate::bar::ByteBar;

/// Flag of a row event: the last one of its statement.
const STATEMENT_END: u8 = 1;
/// Where the flags of row events are in their body.
const ROW_FLAGS_AT: usize = 6;
/// Version that the events are said to come from; nothing depends on it.
const SERVER_VERSION: &str = "8.4.0";
/// There is no such database.
const UNKNOWN_DATABASE: u16 = 1049;
/// Largest transaction, bytes: what this server lets one be.
const MAX_TRANSACTION: usize = 4 << 30;

/// What was run.
#[derive(Default)]
pub(super) struct Ran {
    pub(super) transactions: u64,
    /// Those that have one.
    pub(super) gtids: GtidSet,
    /// Whether the end was reached that was asked for.
    pub(super) reached: bool,
}

/// The files of the binary log in a folder, from one on: they are all there, up to the last.
pub(super) fn files(folder: &Path, first: &str) -> Result<Vec<PathBuf>, String> {
    let number = |name: &str, base: &str| {
        let (found, number) = name.rsplit_once('.')?;
        number.parse::<u64>().ok().filter(|_| found == base)
    };
    let no_name = || format!("{first} is no name of a binary log");
    let (base, _) = first.rsplit_once('.').ok_or_else(no_name)?;
    let begin = number(first, base).ok_or_else(no_name)?;
    let mut there = BTreeMap::new();
    let unread = |e| format!("cannot read the folder {}: {e}", folder.display());
    for entry in folder.read_dir().map_err(unread)? {
        let name = entry.map_err(unread)?.file_name();
        if let Some(number) = name.to_str().and_then(|name| number(name, base)) {
            there.insert(number, name);
        }
    }
    let last = there.last_key_value().map_or(begin, |(last, _)| *last);
    let path = |at| match there.get(&at) {
        Some(name) => Ok(folder.join(name)),
        None => Err(format!(
            "{} is not there; the backup needs the binary log from {first} on",
            folder.join(format!("{base}.{at:06}")).display()
        )),
    };
    (begin..=last.max(begin)).map(path).collect()
}

/// Runs what is in the files from `from` on, which is a position in the first one.
pub(super) fn run(
    data: &Path,
    files: &[PathBuf],
    from: u64,
    until: Option<&Until>,
) -> Result<Ran, String> {
    let session = Embedded::open(data, None).map_err(|e| e.message)?;
    let mut player = Player {
        session,
        until,
        ran: Ran::default(),
        assembler: Assembler::new(1, Place::default(), MAX_TRANSACTION),
        files: 0,
    };
    player.describe()?;
    let mut bar = ByteBar::new("binary log");
    let mut progress = BackupProgress::default();
    let mut from = Some(from);
    let env = Env::os();
    for path in files {
        let mut scan = Scan::open(&*env.fs, path, None).map_err(|e| e.to_string())?;
        progress.total += path.metadata().map_or(0, |about| about.len());
        bar.show(progress);
        let at_end = player.file(&mut scan, from.take());
        let at_end = at_end.map_err(|e| format!("{}: {e}", path.display()))?;
        if at_end == Flow::Stop {
            break;
        }
        progress.done = progress.total;
    }
    Ok(player.ran)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Go,
    /// What comes is not wanted.
    Stop,
}

struct Player<'u> {
    session: Embedded,
    until: Option<&'u Until>,
    ran: Ran,
    /// What has not ended in the files never happened: it stays in here.
    assembler: Assembler,
    /// Files that were begun.
    files: u64,
}

impl Player<'_> {
    fn say(&mut self, statement: &[u8]) -> Result<(), String> {
        let said = self.session.query(statement, &mut |_| ());
        said.map_err(|e| format!("ERROR {} ({}): {}", e.code, e.state, e.message))
    }

    fn binlog(&mut self, events: &[u8]) -> Result<(), String> {
        let mut statement = b"BINLOG '".to_vec();
        statement.extend(encode_base64(events, usize::MAX));
        statement.push(b'\'');
        self.say(&statement)
    }

    /// How all row events are written that come.
    fn describe(&mut self) -> Result<(), String> {
        let description = FormatDescription {
            server_version: SERVER_VERSION.to_owned(),
            created: 0,
            checksum: Checksum::None,
        };
        let mut event = Vec::new();
        let stamp = Stamp {
            timestamp: 0,
            server_id: 0,
            flags: 0,
        };
        description.write(stamp, 4, &mut event);
        self.binlog(&event)
    }

    /// Runs a file, from an offset on.
    fn file(&mut self, scan: &mut Scan, from: Option<u64>) -> Result<Flow, String> {
        self.files += 1;
        // The format description says how to read the rest, and whether the server was started anew.
        let mut is_first = true;
        loop {
            let offset = scan.offset();
            let event = match scan.next_event() {
                Ok(Some((_, event))) => (event.header, event.body.to_vec()),
                Ok(None) => return Ok(Flow::Go),
                Err(e) => return Err(e.to_string()),
            };
            let incoming = Incoming {
                header: event.0,
                body: event.1,
                relay: RelayPlace {
                    file: self.files,
                    offset: scan.offset(),
                },
            };
            let flow = self.event(&incoming);
            if flow.map_err(|e| format!("offset {offset}: {e}"))? == Flow::Stop {
                return Ok(Flow::Stop);
            }
            if std::mem::take(&mut is_first)
                && let Some(from) = from
            {
                scan.skip_to(from);
            }
        }
    }

    fn event(&mut self, event: &Incoming) -> Result<Flow, String> {
        match self.assembler.push(event).map_err(|e| e.to_string())? {
            Some(group) => self.group(&group),
            None => Ok(Flow::Go),
        }
    }

    /// Runs a transaction, unless it is not wanted.
    fn group(&mut self, group: &Group) -> Result<Flow, String> {
        if let Some(Until::Micros(micros)) = self.until
            && group.commit_micros > *micros
        {
            self.ran.reached = true;
            return Ok(Flow::Stop);
        }
        match group.shape {
            Shape::Empty => {}
            Shape::Statement | Shape::Xa => self.parts(group, &group.parts)?,
            Shape::Transaction | Shape::CreateAndFill => {
                self.say(b"BEGIN")?;
                self.parts(group, &group.parts)?;
                self.say(b"COMMIT")?;
            }
        }
        self.ran.transactions += 1;
        let Id::Gtid(gtid) = &group.id else {
            return Ok(Flow::Go);
        };
        self.ran.gtids.add(gtid);
        match self.until {
            Some(Until::Gtid(last)) if last == gtid => {
                self.ran.reached = true;
                Ok(Flow::Stop)
            }
            _ => Ok(Flow::Go),
        }
    }

    fn parts(&mut self, group: &Group, parts: &[Part]) -> Result<(), String> {
        // Events of the statement that is being gathered.
        let mut rows = Vec::new();
        for part in parts {
            let body = group.body(part);
            match part.kind {
                PartKind::Query => self.query(part, body)?,
                PartKind::TableMap => keep(EventType::TableMap, group, part, &mut rows),
                PartKind::Rows { change, .. } => {
                    keep(event_type(change), group, part, &mut rows);
                    let flags = body.get(ROW_FLAGS_AT).copied().unwrap_or_default();
                    if flags & STATEMENT_END != 0 {
                        self.binlog(&std::mem::take(&mut rows))?;
                    }
                }
                // This server writes none of them.
                PartKind::IntVar
                | PartKind::Rand
                | PartKind::UserVar
                | PartKind::FileBlock { .. }
                | PartKind::Refused => {
                    return Err("an event that only other servers write".to_owned());
                }
            }
        }
        Ok(())
    }

    fn query(&mut self, part: &Part, body: &[u8]) -> Result<(), String> {
        let query = Query::parse(body).map_err(|e| e.to_string())?;
        let settings = Settings::parse(query.settings).map_err(|e| e.to_string())?;
        if !query.schema.is_empty() {
            self.use_database(query.schema)?;
        }
        let set = format!(
            "{}, timestamp = {}.{:06}",
            set_statement(&settings, KeyCheck::default()),
            part.time,
            settings.micros.unwrap_or(0)
        );
        self.say(set.as_bytes())?;
        self.say(query.text)
    }

    /// A database that is not there is not needed: the statement makes it, or names all databases.
    fn use_database(&mut self, name: &[u8]) -> Result<(), String> {
        let mut statement = b"USE `".to_vec();
        let doubled = |byte: &u8| std::iter::repeat_n(*byte, 1 + usize::from(*byte == b'`'));
        statement.extend(name.iter().flat_map(doubled));
        statement.push(b'`');
        match self.session.query(&statement, &mut |_| ()) {
            Err(e) if e.code != UNKNOWN_DATABASE => {
                Err(format!("ERROR {} ({}): {}", e.code, e.state, e.message))
            }
            _ => Ok(()),
        }
    }
}

/// Appends the event of a part.
fn keep(kind: EventType, group: &Group, part: &Part, out: &mut Vec<u8>) {
    let stamp = Stamp {
        timestamp: part.time,
        server_id: group.server_id,
        flags: 0,
    };
    frame(kind, stamp, 0, group.body(part), Checksum::None, out);
}

fn event_type(change: RowKind) -> EventType {
    match change {
        RowKind::Write => EventType::WriteRows,
        RowKind::Update => EventType::UpdateRows,
        RowKind::Delete => EventType::DeleteRows,
        RowKind::PartialUpdate => EventType::PartialUpdateRows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_follow_each_other_without_a_gap() {
        let dir = tempfile::tempdir().expect("folder");
        let folder = dir.path();
        let make = |name: &str| drop(std::fs::File::create(folder.join(name)).expect("a file"));
        let found = |first: &str| {
            let paths = files(folder, first)?;
            let names = paths.iter().map(|path| path.file_name().expect("a name"));
            let names: Vec<String> = names.map(|name| name.to_string_lossy().into()).collect();
            Ok::<_, String>(names.join(" "))
        };
        let refused = |first: &str, part: &str| {
            let why = found(first).expect_err("refused");
            assert!(why.contains(part), "{why}");
        };
        refused("log.000001", "log.000001 is not there");
        for name in [
            "log.999998",
            "log.999999",
            "log.1000000",
            "log.index",
            "other.1000002",
        ] {
            make(name);
        }
        assert_eq!(found("log.999999").as_deref(), Ok("log.999999 log.1000000"));
        make("log.1000002");
        refused(
            "log.999999",
            "log.1000001 is not there; the backup needs the binary log from log.999999 on",
        );
        refused("log", "no name of a binary log");
        let nowhere = files(&folder.join("none"), "log.000001").expect_err("refused");
        assert!(nowhere.contains("cannot read the folder"), "{nowhere}");
    }
}
