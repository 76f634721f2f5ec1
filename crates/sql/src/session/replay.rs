//! BINLOG: row events in a statement, as mysqlbinlog prints them.
//!
//! Neighbours: `esker_binlog` reads the events; `apply` makes the changes, as it does for a replica; `change` runs them
//! as one statement of the session's transaction. **Invariants**
//! - A format description comes first, and says how the events of all later statements of the session are written.
//! - A statement has whole events: maps of tables and the rows behind them. An error undoes all of them.

use esker_binlog::event::format::FormatDescription;
use esker_binlog::event::rows::Rows;
use esker_binlog::event::table_map::TableMap;
use esker_binlog::event::{Checksum, Event, EventType, peek_length};
use esker_sql_catalog::accounts::Privileges;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::{Mode, OkInfo};
use esker_types::ctx::{NoSession, Work};
use esker_types::func::{Padding, decode_base64};
use esker_types::{SqlError, SqlResult, errors};

use super::Session;
use super::apply::{RowStatement, TableCache};
use super::run::Done;
use crate::dml::DmlDone;
use crate::dml::apply::{ApplyMode, Conversions, RowApplier};

impl<'a> RowStatement<'a> {
    /// Reads the events of a statement. A format description among them is kept in `format`.
    ///
    /// # Errors
    /// 1149 for less than an event, 1609 without a format description, 1730 for events that change no rows, 1610.
    fn read(mut bytes: &'a [u8], format: &mut Option<Checksum>) -> SqlResult<Self> {
        if peek_length(bytes).is_none_or(|length| bytes.len() < length as usize) {
            return Err(errors::syntax_of_old());
        }
        let mut statement = Self::default();
        while !bytes.is_empty() {
            let checksum = format.unwrap_or_default();
            let event = Event::parse(bytes, checksum).map_err(errors::corrupt_event)?;
            bytes = &bytes[event.header.length as usize..];
            let kind = event.header.event_type();
            if kind == Some(EventType::FormatDescription) {
                let described =
                    FormatDescription::parse(event.body).map_err(errors::corrupt_event)?;
                *format = Some(described.checksum);
                continue;
            }
            let name = kind.map_or("Unknown", EventType::name);
            if format.is_none() {
                let text = format!(
                    "The BINLOG statement of type `{name}` was not preceded by a format description BINLOG statement."
                );
                return Err(SqlError::new(1609, "HY000", text));
            }
            statement.add(kind, name, event.body)?;
        }
        Ok(statement)
    }

    fn add(&mut self, kind: Option<EventType>, name: &str, body: &'a [u8]) -> SqlResult<()> {
        match kind {
            Some(EventType::TableMap) => {
                let map = TableMap::parse(body).map_err(errors::corrupt_event)?;
                self.maps.push((body, map));
            }
            Some(
                kind @ (EventType::WriteRows
                | EventType::UpdateRows
                | EventType::PartialUpdateRows
                | EventType::DeleteRows),
            ) => {
                let rows = Rows::parse(kind, body).map_err(errors::corrupt_event)?;
                let map = self
                    .maps
                    .iter()
                    .rposition(|(_, m)| m.table_id == rows.table_id);
                // Nothing changes tables without a map: the end of a statement that changed none.
                if let Some(map) = map {
                    self.rows.push((map, rows));
                }
            }
            // The text of the statement, which is for people.
            Some(EventType::RowsQuery) => {}
            _ => {
                let text = format!(
                    "Only Format_description_log_event and row events are allowed in BINLOG statements (but {name} \
                     was provided)"
                );
                return Err(SqlError::new(1730, "HY000", text));
            }
        }
        Ok(())
    }
}

impl Session {
    /// Runs a BINLOG statement; `coded` is its text in base64.
    pub(super) fn replay(&mut self, coded: &[u8]) -> Result<Done, ExecError> {
        self.context
            .require_any(&["SUPER", "BINLOG_ADMIN", "REPLICATION_APPLIER"])?;
        // Each event is a text of its own.
        let bytes = decode_base64(coded, Padding::Within, &mut Work::new(&NoSession))?
            .ok_or_else(|| SqlError::new(1575, "HY000", "Decoding of base64 string failed"))?;
        let statement = RowStatement::read(&bytes, &mut self.replayed)?;
        if !self
            .context
            .access
            .global()
            .meets(Privileges::of(&["SUPER", "BINLOG_ADMIN"]))
        {
            // REPLICATION_APPLIER gives no rights on tables.
            self.context.require_changes(&statement)?;
        }
        if statement.rows.is_empty() {
            return Ok(Done::Ok(OkInfo::default(), 0));
        }
        self.check_writable()?;
        self.use_transaction();
        let how = self.how_to_replay();
        let mut appliers = self.row_appliers(&statement, how, &mut TableCache::default())?;
        self.change_rows(&[], Mode::Thread, |env| {
            statement
                .run(&mut appliers, env)
                .map(|()| DmlDone::default())
        })
    }

    fn how_to_replay(&self) -> (ApplyMode, Conversions) {
        let globals = &self.context.instance.globals;
        let conversions = globals.named("replica_type_conversions");
        let mode = match self.values.named("rbr_exec_mode").as_text() {
            "IDEMPOTENT" => ApplyMode::Idempotent,
            _ => ApplyMode::Strict,
        };
        (mode, Conversions::of(conversions.as_text()))
    }

    /// For the table of a map.
    ///
    /// # Errors
    /// 1049, 1146, 1347: there is no such table; 1677.
    pub(super) fn applier(
        &self,
        map: &TableMap,
        how: (ApplyMode, Conversions),
    ) -> SqlResult<RowApplier> {
        let instance = &self.context.instance;
        let ctx = self.context.eval_ctx(&self.vars);
        let table = match self.filled(&map.schema, &map.table) {
            Some(table) => table,
            None if instance.catalog.view(&map.schema, &map.table).is_some() => {
                let (schema, view) = (&map.schema, &map.table);
                return Err(errors::wrong_object(schema, view, "BASE TABLE"));
            }
            None => instance.catalog.table_or_error(&map.schema, &map.table)?,
        };
        let lookup = |schema: &str, name: &str| instance.catalog.resolve(schema, name);
        RowApplier::new(&ctx, table, map, how, &lookup)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_binlog::event::{Stamp, frame};

    fn event(kind: EventType, body: &[u8]) -> Vec<u8> {
        let stamp = Stamp {
            timestamp: 1,
            server_id: 1,
            flags: 0,
        };
        let mut out = Vec::new();
        frame(kind, stamp, 4, body, Checksum::Crc32, &mut out);
        out
    }

    #[test]
    fn other_events_and_broken_ones_are_refused() {
        let code = |bytes: &[u8], format: Option<Checksum>| {
            let mut format = format;
            RowStatement::read(bytes, &mut format).err().map(|e| e.code)
        };
        let xid = event(EventType::Xid, &[0; 8]);
        let crc = Some(Checksum::Crc32);
        assert_eq!(code(&xid, None), Some(1609));
        assert_eq!(code(&xid, crc), Some(1730));
        assert_eq!(code(&event(EventType::RowsQuery, b"\x01x"), crc), None);
        assert_eq!(code(&xid[..xid.len() - 1], crc), Some(1149));
        let mut damaged = event(EventType::RowsQuery, b"\x01x");
        damaged[20] ^= 1;
        assert_eq!(code(&damaged, crc), Some(1610));
    }
}
