//! What an event says, in a line for people: the last column of SHOW BINLOG EVENTS.
//!
//! Neighbours: `sql` shows it, `esker inspect binlog` prints it. **Invariants**: the words are MySQL's; nothing is
//! decompressed.

use super::control::{Rotate, parse_rows_query};
use super::format::FormatDescription;
use super::group::{GtidEvent, XaPrepare, parse_previous_gtids, parse_xid};
use super::payload;
use super::query::{Query, Settings};
use super::rows::Rows;
use super::table_map::TableMap;
use super::{Event, EventType, FLAG_SUPPRESS_USE};
use crate::Result;

/// The flags of a row event, in the order of their bits.
fn flags(rows: &Rows<'_>) -> String {
    let names = [
        (rows.ends_statement, " STMT_END_F"),
        (rows.flags.no_foreign_key_checks, " NO_FOREIGN_KEY_CHECKS_F"),
        (rows.flags.relaxed_unique_checks, " RELAXED_UNIQUE_CHECKS_F"),
        (rows.flags.sql_foreign_keys, " USE_SQL_FOREIGN_KEY_F"),
    ];
    let set = names.iter().filter(|(is_set, _)| *is_set);
    let set: String = set.map(|(_, name)| *name).collect();
    match set.is_empty() {
        true => set,
        false => format!(" flags:{set}"),
    }
}

/// What an event says.
///
/// # Errors
/// It is damaged.
pub fn info(event: &Event<'_>) -> Result<String> {
    let body = event.body;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let Some(kind) = event.header.event_type() else {
        return Ok(String::new());
    };
    Ok(match kind {
        EventType::FormatDescription => {
            let format = FormatDescription::parse(body)?;
            format!("Server ver: {}, Binlog ver: 4", format.server_version)
        }
        EventType::PreviousGtids => parse_previous_gtids(body)?.to_string(),
        EventType::Gtid | EventType::GtidTagged | EventType::AnonymousGtid => {
            let next = match GtidEvent::parse(kind, body)?.gtid {
                Some(gtid) => gtid.to_string(),
                None => "ANONYMOUS".to_owned(),
            };
            format!("SET @@SESSION.GTID_NEXT= '{next}'")
        }
        EventType::Query => {
            let query = Query::parse(body)?;
            let uses =
                event.header.stamp.flags & FLAG_SUPPRESS_USE == 0 && !query.schema.is_empty();
            let shown = match uses {
                true => format!("use `{}`; {}", text(query.schema), text(query.text)),
                false => text(query.text),
            };
            match Settings::parse(query.settings)?.ddl_xid {
                Some(xid) => format!("{shown} /* xid={xid} */"),
                None => shown,
            }
        }
        EventType::TableMap => {
            let map = TableMap::parse(body)?;
            format!("table_id: {} ({}.{})", map.table_id, map.schema, map.table)
        }
        EventType::WriteRows
        | EventType::UpdateRows
        | EventType::PartialUpdateRows
        | EventType::DeleteRows => {
            let rows = Rows::parse(kind, body)?;
            format!("table_id: {}{}", rows.table_id, flags(&rows))
        }
        EventType::TransactionPayload => match payload::plain_bytes(body)? {
            Some(bytes) => format!("compression='ZSTD', decompressed_size={bytes} bytes"),
            None => format!(
                "compression='NONE', decompressed_size={} bytes",
                payload::parse(body)?.len()
            ),
        },
        EventType::RowsQuery => format!("# {}", text(parse_rows_query(body)?)),
        EventType::Xid => format!("COMMIT /* xid={} */", parse_xid(body)?),
        EventType::XaPrepare => format!("XA PREPARE {}", XaPrepare::parse(body)?),
        EventType::Rotate => {
            let rotate = Rotate::parse(body)?;
            format!("{};pos={}", text(rotate.file), rotate.position)
        }
        _ => String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Header, Stamp};
    use super::*;

    #[test]
    fn a_payload_is_described_without_decompressing_it() {
        let mut body = Vec::new();
        assert!(payload::write(&[7; 1000], 3, &mut body).expect("compresses"));
        // What is compressed is cut off.
        body.truncate(body.len() - 4);
        assert!(payload::parse(&body).is_err());
        let header = Header {
            stamp: Stamp {
                timestamp: 0,
                server_id: 1,
                flags: 0,
            },
            kind: EventType::TransactionPayload as u8,
            length: 0,
            end: 0,
        };
        let event = Event {
            header,
            body: &body,
        };
        let text = info(&event).expect("is described");
        assert_eq!(text, "compression='ZSTD', decompressed_size=1000 bytes");
    }
}
