//! SHOW BINLOG EVENTS and SHOW RELAYLOG EVENTS: the events of a file as rows.
//!
//! Neighbours: [`admin`](super::admin) knows the files of the binary log, `show` those of relay logs.
//! **Invariants**: what is shown begins at an event, or is refused.

use esker_binlog::event::info::info;
use esker_binlog::event::{Checksum, Event, EventType, payload};
use esker_binlog::files::Scan;
use esker_types::{SqlError, SqlResult, Value, errors};

use super::writer::failed;
use crate::session::SessionContext;
use crate::show::{Table, t};

/// Where SHOW BINLOG EVENTS begins, as MySQL: the first event.
const FIRST: u64 = 4;

impl SessionContext {
    /// SHOW BINLOG EVENTS.
    ///
    /// # Errors
    /// 1381; 1220: no such file or position.
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
        show_events(self, scan, &name, position, limit, found.size, &refused)
    }
}

/// The events of a file from `position` on, as SHOW BINLOG EVENTS has them.
///
/// # Errors
/// No event begins there, which `refused` says; damaged files.
pub(crate) fn show_events(
    context: &SessionContext,
    mut scan: Scan,
    name: &str,
    position: Option<u64>,
    limit: Option<(u64, u64)>,
    size: u64,
    refused: &dyn Fn(&str) -> SqlError,
) -> SqlResult<Table> {
    let position = position.unwrap_or(FIRST).max(FIRST);
    let (skip, most) = limit.unwrap_or((0, u64::MAX));
    let mut rows = Vec::new();
    // Up to the place that is asked for, all is read to see whether an event begins there.
    let (mut nth, mut is_boundary) = (0, position >= size);
    let upto = skip.saturating_add(most);
    let mut show = |offset: u64, end: u64, event: &Event<'_>| {
        nth += 1;
        if nth > skip && nth <= upto {
            rows.push(event_row(name, (offset, end), event));
        }
        nth < upto
    };
    while let Some((offset, event)) = scan.next_event().map_err(|e| failed(&e))? {
        is_boundary |= offset == position;
        if offset < position {
            continue;
        }
        let end = offset + u64::from(event.header.length);
        if !show(offset, end, &event) {
            break;
        }
        if event.header.event_type() == Some(EventType::TransactionPayload) {
            // What is in it has no place of its own.
            let inner = payload::parse(event.body).map_err(|e| failed(&e))?;
            let mut rest = &inner[..];
            while !rest.is_empty() {
                let one = Event::parse(rest, Checksum::None).map_err(|e| failed(&e))?;
                rest = &rest[one.header.length as usize..];
                if !show(end, end, &one) {
                    break;
                }
            }
        }
        context.check()?;
    }
    if !is_boundary {
        return Err(refused("Wrong offset or I/O error"));
    }
    let columns = [
        "Log_name",
        "Pos",
        "Event_type",
        "Server_id",
        "End_log_pos",
        "Info",
    ];
    let numbers = ["Pos", "Server_id", "End_log_pos"];
    Ok(Table::mixed(&columns, &numbers, rows))
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
