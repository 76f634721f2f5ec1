//! Point in time: runs what the binary log has behind a backup on the restored data directory.
//!
//! Neighbours: `mod` restores first; `esker_binlog` reads the files; the statements are those that mysqlbinlog prints,
//! and run in an embedded session.
//!
//! **Invariants**
//! - Transactions are run whole and in the order of the files, until the first that is not wanted.
//! - An error names file and offset, and nothing behind it is run.

use std::path::Path;

use esker_binlog::Error;
use esker_binlog::event::format::FormatDescription;
use esker_binlog::event::group::{GtidEvent, XaPrepare};
use esker_binlog::event::query::{NO_FOREIGN_KEY_CHECKS, Query, RELAXED_UNIQUE_CHECKS, Settings};
use esker_binlog::event::{Checksum, Event, EventType, frame, payload};
use esker_binlog::files::Scan;
use esker_binlog::gtid::{Gtid, GtidSet};
use esker_engine::BackupProgress;
use esker_server::embedded::Embedded;
use esker_types::func::encode_base64;
use esker_vfs::Env;

use super::until::Until;
use crate::bar::ByteBar;

/// The statement does not depend on the default database, which may not be there.
const SUPPRESS_USE: u16 = 0x8;
/// Flag of a row event: the last one of its statement.
const STATEMENT_END: u8 = 1;
/// Where the flags of row events are in their body.
const ROW_FLAGS_AT: usize = 6;
/// Version that the events are said to come from; nothing depends on it.
const SERVER_VERSION: &str = "8.4.0";

/// What was run.
#[derive(Default)]
pub(super) struct Ran {
    pub(super) transactions: u64,
    /// Those that have one.
    pub(super) gtids: GtidSet,
    /// Whether the end was reached that was asked for.
    pub(super) reached: bool,
}

/// Runs what is in the files from `from` on, which is a position in the first one.
pub(super) fn run(
    data: &Path,
    folder: &Path,
    (first, from): (&str, u64),
    until: Option<&Until>,
) -> Result<Ran, String> {
    let session = Embedded::open(data, None).map_err(|e| e.message)?;
    let mut player = Player {
        session,
        until,
        ran: Ran::default(),
        gtid: None,
        is_open: false,
        rows: Vec::new(),
    };
    player.describe()?;
    let mut bar = ByteBar::new("binary log");
    let mut progress = BackupProgress::default();
    let mut name = first.to_owned();
    let mut from = Some(from);
    let env = Env::os();
    loop {
        let path = folder.join(&name);
        if !path.exists() {
            match from {
                Some(_) => return Err(format!("{} is not there", path.display())),
                None => break,
            }
        }
        let mut scan = Scan::open(&*env.fs, &path, None).map_err(|e| e.to_string())?;
        progress.total += path.metadata().map_or(0, |about| about.len());
        bar.show(progress);
        let at_end = player.file(&mut scan, from.take());
        let at_end = at_end.map_err(|e| format!("{}: {e}", path.display()))?;
        if at_end == Flow::Stop {
            break;
        }
        progress.done = progress.total;
        name = next_name(&name).ok_or_else(|| format!("{name} is no name of a binary log"))?;
    }
    player.give_up_open()?;
    Ok(player.ran)
}

/// `binlog.000007` → `binlog.000008`.
fn next_name(name: &str) -> Option<String> {
    let (base, number) = name.rsplit_once('.')?;
    let next = number.parse::<u64>().ok()? + 1;
    Some(format!("{base}.{next:06}"))
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
    /// Of the transaction that is run.
    gtid: Option<Gtid>,
    /// A transaction has begun and not ended.
    is_open: bool,
    /// Events of a statement that changes rows.
    rows: Vec<u8>,
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
        let stamp = esker_binlog::event::Stamp {
            timestamp: 0,
            server_id: 0,
            flags: 0,
        };
        description.write(stamp, 4, &mut event);
        self.binlog(&event)
    }

    /// Runs a file, from an offset on.
    fn file(&mut self, scan: &mut Scan, from: Option<u64>) -> Result<Flow, String> {
        // The format description says how to read the rest.
        scan.next_event().map_err(|e| e.to_string())?;
        if let Some(from) = from {
            scan.skip_to(from);
        }
        loop {
            let offset = scan.offset();
            let event = match scan.next_event() {
                Ok(Some((_, event))) => event,
                Ok(None) => return Ok(Flow::Go),
                Err(e) => return Err(e.to_string()),
            };
            let flow = self.event(&event);
            if flow.map_err(|e| format!("offset {offset}: {e}"))? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
    }

    fn event(&mut self, event: &Event<'_>) -> Result<Flow, String> {
        let text = |e: Error| e.to_string();
        let Some(kind) = event.header.event_type() else {
            return Ok(Flow::Go);
        };
        match kind {
            EventType::Gtid | EventType::GtidTagged | EventType::AnonymousGtid => {
                return self.begin(&GtidEvent::parse(kind, event.body).map_err(text)?);
            }
            EventType::Query => return self.query(event),
            EventType::TableMap => self.keep(kind, event),
            EventType::WriteRows | EventType::UpdateRows | EventType::DeleteRows => {
                self.keep(kind, event);
                let flags = event.body.get(ROW_FLAGS_AT).copied().unwrap_or_default();
                if flags & STATEMENT_END != 0 {
                    let events = std::mem::take(&mut self.rows);
                    self.binlog(&events)?;
                }
            }
            EventType::Xid => {
                self.say(b"COMMIT")?;
                return Ok(self.end());
            }
            EventType::XaPrepare => {
                let xid = XaPrepare::parse(event.body).map_err(text)?;
                let statement = match xid.one_phase {
                    true => format!("XA COMMIT {xid} ONE PHASE"),
                    false => format!("XA PREPARE {xid}"),
                };
                self.say(statement.as_bytes())?;
                return Ok(self.end());
            }
            EventType::TransactionPayload => {
                let events = payload::parse(event.body).map_err(text)?;
                let mut rest = &*events;
                while !rest.is_empty() {
                    let inner = Event::parse(rest, Checksum::None).map_err(text)?;
                    rest = &rest[inner.header.length as usize..];
                    if self.event(&inner)? == Flow::Stop {
                        return Ok(Flow::Stop);
                    }
                }
            }
            _ => {}
        }
        Ok(Flow::Go)
    }

    /// A transaction begins, unless it is not wanted.
    fn begin(&mut self, event: &GtidEvent) -> Result<Flow, String> {
        if let Some(Until::Micros(micros)) = self.until
            && event.commit_micros > *micros
        {
            self.ran.reached = true;
            return Ok(Flow::Stop);
        }
        self.give_up_open()?;
        self.gtid.clone_from(&event.gtid);
        Ok(Flow::Go)
    }

    /// A transaction has ended.
    fn end(&mut self) -> Flow {
        self.is_open = false;
        self.ran.transactions += 1;
        let Some(gtid) = self.gtid.take() else {
            return Flow::Go;
        };
        self.ran.gtids.add(&gtid);
        match self.until {
            Some(Until::Gtid(last)) if *last == gtid => {
                self.ran.reached = true;
                Flow::Stop
            }
            _ => Flow::Go,
        }
    }

    /// What has not ended in the files never happened.
    fn give_up_open(&mut self) -> Result<(), String> {
        self.rows.clear();
        match std::mem::take(&mut self.is_open) {
            true => self.say(b"ROLLBACK"),
            false => Ok(()),
        }
    }

    fn keep(&mut self, kind: EventType, event: &Event<'_>) {
        let stamp = event.header.stamp;
        frame(kind, stamp, 0, event.body, Checksum::None, &mut self.rows);
    }

    fn query(&mut self, event: &Event<'_>) -> Result<Flow, String> {
        let query = Query::parse(event.body).map_err(|e| e.to_string())?;
        if query.text == b"BEGIN" {
            self.is_open = true;
            self.say(b"BEGIN")?;
            return Ok(Flow::Go);
        }
        let settings = Settings::parse(query.settings).map_err(|e| e.to_string())?;
        let stamp = event.header.stamp;
        if !query.schema.is_empty() && stamp.flags & SUPPRESS_USE == 0 {
            let mut statement = b"USE `".to_vec();
            statement.extend(query.schema.iter().flat_map(|&byte| match byte {
                b'`' => vec![b'`'; 2],
                byte => vec![byte],
            }));
            statement.push(b'`');
            self.say(&statement)?;
        }
        self.say(set_statement(&settings, stamp.timestamp).as_bytes())?;
        self.say(query.text)?;
        let is_within = self.is_open && query.text != b"COMMIT";
        let begins = query.text.starts_with(b"XA START") || query.text.starts_with(b"XA END");
        Ok(match is_within || begins {
            true => Flow::Go,
            false => self.end(),
        })
    }
}

/// SET of what a statement depends on, as mysqlbinlog prints it.
fn set_statement(settings: &Settings, timestamp: u32) -> String {
    let mut items = vec![match settings.micros {
        Some(micros) => format!("timestamp = {timestamp}.{micros:06}"),
        None => format!("timestamp = {timestamp}"),
    }];
    if let Some(flags) = settings.flags2 {
        let is_on = |flag: u32| u32::from(flags & flag == 0);
        items.push(format!(
            "foreign_key_checks = {}",
            is_on(NO_FOREIGN_KEY_CHECKS)
        ));
        items.push(format!("unique_checks = {}", is_on(RELAXED_UNIQUE_CHECKS)));
    }
    if let Some(mode) = settings.sql_mode {
        items.push(format!("sql_mode = {mode}"));
    }
    if let Some((increment, offset)) = settings.auto_increment {
        items.push(format!("auto_increment_increment = {increment}"));
        items.push(format!("auto_increment_offset = {offset}"));
    }
    if let Some((client, connection, server)) = settings.charset {
        items.push(format!("character_set_client = {client}"));
        items.push(format!("collation_connection = {connection}"));
        items.push(format!("collation_server = {server}"));
    }
    if let Some(zone) = &settings.time_zone {
        items.push(format!("time_zone = '{}'", zone.replace('\'', "''")));
    }
    if let Some(explicit) = settings.explicit_defaults {
        items.push(format!(
            "explicit_defaults_for_timestamp = {}",
            u32::from(explicit)
        ));
    }
    if let Some(collation) = settings.utf8mb4_collation {
        items.push(format!("default_collation_for_utf8mb4 = {collation}"));
    }
    let items: Vec<_> = items
        .iter()
        .map(|item| format!("@@session.{item}"))
        .collect();
    format!("SET {}", items.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_follow_each_other() {
        assert_eq!(next_name("binlog.000009").as_deref(), Some("binlog.000010"));
        assert_eq!(next_name("a.b.999999").as_deref(), Some("a.b.1000000"));
        assert_eq!(next_name("binlog"), None);
    }
}
