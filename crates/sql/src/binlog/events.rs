//! SHOW BINLOG EVENTS and SHOW RELAYLOG EVENTS: the events of a file as rows.
//!
//! Neighbours: [`admin`](super::admin) knows the files of the binary log, `show` those of relay logs.
//! **Invariants**: what is gathered is within the memory of all statements.

use esker_binlog::event::info::info;
use esker_binlog::event::{Checksum, Event, EventType, payload};
use esker_binlog::files::Scan;
use esker_sql_catalog::exec_error::engine_error;
use esker_sql_exec::Reserved;
use esker_types::{SqlError, SqlResult, Value, errors};

use super::writer::failed;
use crate::session::SessionContext;
use crate::show::{Table, t};

/// Where SHOW BINLOG EVENTS begins, as in MySQL: the first event.
const FIRST: u64 = 4;
/// No file has as many bytes: that of ext4's largest.
const LARGEST_FILE: u64 = 16 << 40;

impl SessionContext {
    /// SHOW BINLOG EVENTS.
    ///
    /// # Errors
    /// 1381; 1220: no such file.
    pub(crate) fn show_binlog_events(
        &self,
        file: Option<&[u8]>,
        position: Option<u64>,
        limit: Option<(u64, u64)>,
    ) -> SqlResult<Table> {
        let refused = |why: &str| errors::show_events_failed("SHOW BINLOG EVENTS", why);
        let view = self.instance.binlog_files()?;
        let names = self.binlog_names()?;
        let found = match file {
            None => view.files.first(),
            Some(name) => {
                let number = names.number_of_path(&String::from_utf8_lossy(name));
                view.files.iter().find(|f| Some(f.number) == number)
            }
        };
        let found = found.ok_or_else(|| refused("Could not find target log"))?;
        let path = names.path(found.number);
        let fs = &self.instance.env.fs;
        let scan = Scan::open(&**fs, &path, Some(found.size)).map_err(|e| failed(&e))?;
        let name = names.name(found.number);
        show_events(self, scan, &name, position, limit, &refused)
    }
}

/// The events of a file from `position` on, as SHOW BINLOG EVENTS has them: the first one is the first that does not
/// begin before.
///
/// # Errors
/// A position that no file can have, which `refused` says; damaged files; not enough memory for all of them.
pub(crate) fn show_events(
    context: &SessionContext,
    mut scan: Scan,
    name: &str,
    position: Option<u64>,
    limit: Option<(u64, u64)>,
    refused: &dyn Fn(&str) -> SqlError,
) -> SqlResult<Table> {
    let position = position.unwrap_or(FIRST).max(FIRST);
    if position >= LARGEST_FILE {
        return Err(refused(&format!(
            "Error reading Log_event at position {position}: Failed decoding event: I/O error reading log event"
        )));
    }
    let mut rows = Rows::new(context, limit);
    while let Some((offset, event)) = scan.next_event().map_err(|e| failed(&e))? {
        if offset < position {
            continue;
        }
        let end = offset + u64::from(event.header.length);
        if !rows.put(event_row(name, (offset, end), &event))? {
            break;
        }
        if event.header.event_type() == Some(EventType::TransactionPayload) {
            // What is in it has no place of its own.
            let inner = payload::parse(event.body).map_err(|e| failed(&e))?;
            let mut rest = &inner[..];
            while !rest.is_empty() {
                let one = Event::parse(rest, Checksum::None).map_err(|e| failed(&e))?;
                rest = &rest[one.header.length as usize..];
                if !rows.put(event_row(name, (end, end), &one))? {
                    break;
                }
            }
        }
        context.check()?;
    }
    Ok(table(rows.gathered))
}

/// The answer where there are no files.
pub(crate) fn no_events() -> Table {
    table(Vec::new())
}

fn table(rows: Vec<Vec<Value>>) -> Table {
    let columns = [
        "Log_name",
        "Pos",
        "Event_type",
        "Server_id",
        "End_log_pos",
        "Info",
    ];
    let numbers = ["Pos", "Server_id", "End_log_pos"];
    Table::mixed(&columns, &numbers, rows)
}

/// Rows that are gathered, within LIMIT and the server's memory.
struct Rows<'a> {
    context: &'a SessionContext,
    skip: u64,
    most: u64,
    nth: u64,
    gathered: Vec<Vec<Value>>,
    bytes: u64,
    reserved: Reserved,
}

impl<'a> Rows<'a> {
    fn new(context: &'a SessionContext, limit: Option<(u64, u64)>) -> Self {
        // LIMIT 0 is none, as in MySQL.
        let limit = limit.filter(|limit| *limit != (0, 0));
        let (skip, most) = limit.unwrap_or((0, u64::MAX));
        Self {
            context,
            skip,
            most,
            nth: 0,
            gathered: Vec::new(),
            bytes: 0,
            reserved: Reserved::default(),
        }
    }

    /// False: that was the last one.
    fn put(&mut self, row: Vec<Value>) -> SqlResult<bool> {
        let upto = self.skip.saturating_add(self.most);
        self.nth += 1;
        if self.nth > self.skip && self.nth <= upto {
            self.bytes += bytes_of(&row);
            let budget = self.context.instance.engine().memory();
            self.reserved
                .raise(self.bytes, budget)
                .map_err(|e| engine_error(&e))?;
            self.gathered.push(row);
        }
        Ok(self.nth < upto)
    }
}

fn bytes_of(row: &[Value]) -> u64 {
    let texts = row.iter().map(|value| match value {
        Value::Str(text) => text.capacity(),
        _ => 0,
    });
    (size_of_val(row) + texts.sum::<usize>()) as u64
}

fn event_row(file: &str, (offset, end): (u64, u64), event: &Event<'_>) -> Vec<Value> {
    let header = &event.header;
    let kind = header.event_type();
    vec![
        t(file),
        Value::UInt(offset),
        t(kind.map_or("Unknown", EventType::name)),
        Value::UInt(header.stamp.server_id.into()),
        Value::UInt(end),
        t(info(event).unwrap_or_default()),
    ]
}
