//! Which keys a transaction changes: hashes of the primary and unique keys of its rows, from their images.
//!
//! Neighbours: the channel's thread asks before it places a transaction; the catalog knows the keys of our tables; row
//! workers never come here. **Invariants**
//! - Values that are equal in a key have equal hashes: texts by their collation, everything else by its bytes.
//! - Rows without a key that tells them apart, and tables with foreign keys, depend on everything.

use std::collections::HashMap;
use std::sync::Arc;

use esker_binlog::apply::filter::Filters;
use esker_binlog::apply::{Group, PartKind, RowKind};
use esker_binlog::event::EventType;
use esker_binlog::event::rows::{RawField, Rows};
use esker_binlog::event::table_map::TableMap;
use esker_binlog::writeset::{HISTORY_KEYS, WriteSet, key_hash};
use esker_sql_catalog::catalog::{Catalog, TableDef};
use esker_types::collation::{Charset, Collation};

/// Tables that are known at a time.
const MAX_TABLES: usize = 256;

/// How a part of a key is compared.
enum How {
    Bytes,
    Text(Collation, Charset, Option<u32>),
}

/// A key that tells rows apart: its number, and places of its columns in images.
struct Key {
    id: u64,
    parts: Vec<(usize, How)>,
}

/// The keys of a table of events.
struct Table {
    map: TableMap,
    /// `None`: its rows depend on everything.
    keys: Option<Vec<Key>>,
}

/// Computes write sets.
#[derive(Default)]
pub(super) struct KeyHasher {
    version: u64,
    tables: HashMap<Box<[u8]>, Arc<Table>>,
}

/// The event type of rows.
pub(super) fn event_type(change: RowKind) -> EventType {
    match change {
        RowKind::Write => EventType::WriteRows,
        RowKind::Update => EventType::UpdateRows,
        RowKind::Delete => EventType::DeleteRows,
        RowKind::PartialUpdate => EventType::PartialUpdateRows,
    }
}

impl KeyHasher {
    /// What a group changes.
    ///
    /// # Errors
    /// Damaged events.
    pub(super) fn writes(
        &mut self,
        group: &Group,
        catalog: &Catalog,
        filters: &Filters,
    ) -> esker_binlog::Result<WriteSet> {
        let version = catalog.version();
        if self.version != version || self.tables.len() >= MAX_TABLES {
            self.tables.clear();
            self.version = version;
        }
        let mut open: Vec<Arc<Table>> = Vec::new();
        let mut hashes = Vec::new();
        for part in &group.parts {
            let body = group.body(part);
            match part.kind {
                PartKind::TableMap => {
                    let table = self.table(body, catalog, filters)?;
                    open.retain(|other| other.map.table_id != table.map.table_id);
                    open.push(table);
                }
                PartKind::Rows { change, is_v1 } => {
                    let rows = Rows::parse_version(event_type(change), is_v1, body)?;
                    let table = open.iter().find(|t| t.map.table_id == rows.table_id);
                    let Some(table) = table else { continue };
                    let Some(keys) = &table.keys else {
                        return Ok(WriteSet::Everything);
                    };
                    let mut is_known = true;
                    rows.each_raw(&table.map, &mut |fields| {
                        let before = hashes.len();
                        hashes.extend(keys.iter().filter_map(|key| key.hash(fields)));
                        is_known &= hashes.len() > before;
                    })?;
                    if !is_known || hashes.len() > HISTORY_KEYS {
                        return Ok(WriteSet::Everything);
                    }
                }
                _ => return Ok(WriteSet::Everything),
            }
        }
        Ok(WriteSet::Keys(hashes))
    }

    fn table(
        &mut self,
        body: &[u8],
        catalog: &Catalog,
        filters: &Filters,
    ) -> esker_binlog::Result<Arc<Table>> {
        if let Some(table) = self.tables.get(body) {
            return Ok(table.clone());
        }
        let map = TableMap::parse(body)?;
        let own = catalog.resolve(filters.rewritten(&map.schema), &map.table);
        let keys = own.and_then(|own| keys_of(&own, &map));
        let table = Arc::new(Table { map, keys });
        self.tables.insert(body.into(), table.clone());
        Ok(table)
    }
}

impl Key {
    /// `None`: NULL tells nothing apart, and what is not in the image has not changed.
    fn hash(&self, fields: &[RawField<'_>]) -> Option<u64> {
        let mut hash = self.id;
        for (at, how) in &self.parts {
            let value = fields[*at]??;
            hash = match how {
                How::Bytes => key_hash(hash, value),
                How::Text(collation, charset, prefix) => {
                    let text = charset.decode_lossy(value);
                    let text = match prefix {
                        Some(chars) => first_chars(&text, *chars as usize),
                        None => &text,
                    };
                    key_hash(hash, &collation.hash64(text).to_le_bytes())
                }
            };
        }
        Some(hash)
    }
}

fn first_chars(text: &[u8], count: usize) -> &[u8] {
    let is_start = |byte: &u8| byte & 0xc0 != 0x80;
    let starts = text.iter().enumerate().filter(|(_, byte)| is_start(byte));
    match starts.map(|(at, _)| at).nth(count) {
        Some(end) => &text[..end],
        None => text,
    }
}

fn keys_of(own: &TableDef, map: &TableMap) -> Option<Vec<Key>> {
    if !own.foreign_keys.is_empty() || !own.referenced_by.is_empty() {
        return None;
    }
    let visible = own.columns.iter().enumerate();
    let visible = visible.filter(|(_, column)| !column.is_hidden());
    let places: Vec<usize> = visible.map(|(ordinal, _)| ordinal).collect();
    let mut keys = Vec::new();
    for index in own
        .indexes
        .iter()
        .filter(|index| index.unique || index.primary)
    {
        if index.primary && !own.has_primary_key() {
            continue;
        }
        let parts = index.parts.iter().map(|part| {
            let at = places.iter().position(|ordinal| *ordinal == part.col)?;
            let source = map.columns.get(at)?;
            let collation = own.columns[part.col].ty.collation;
            let is_text = source.form.is_character() && collation.charset() != Charset::Binary;
            let how = match is_text {
                false if part.prefix_len.is_some() => return None,
                false => How::Bytes,
                true => {
                    let charset = source.collation.and_then(Collation::by_id);
                    let charset = charset.unwrap_or(collation).charset();
                    How::Text(collation, charset, part.prefix_len)
                }
            };
            Some((at, how))
        });
        // A key that cannot be hashed is left to the locks: who runs too early is undone.
        if let Some(parts) = parts.collect::<Option<Vec<_>>>() {
            let id = u64::from(index.id.0);
            keys.push(Key { id, parts });
        }
    }
    (!keys.is_empty()).then_some(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_between_characters() {
        assert_eq!(first_chars("aäb".as_bytes(), 2), "aä".as_bytes());
        assert_eq!(first_chars(b"ab", 5), b"ab");
    }

    #[test]
    fn texts_are_hashed_by_their_collation() {
        let text = |collation| Key {
            id: 7,
            parts: vec![(1, How::Text(collation, Charset::Utf8mb4, None))],
        };
        let hash = |key: &Key, value: &[u8]| key.hash(&[None, Some(Some(value))]);
        let by_letter = text(Collation::UTF8MB4_0900_AI_CI);
        assert_eq!(hash(&by_letter, b"Abc"), hash(&by_letter, b"aBC"));
        assert_ne!(hash(&by_letter, b"Abc"), hash(&by_letter, b"Abd"));
        assert_eq!(by_letter.hash(&[None, Some(None)]), None);
        assert_eq!(by_letter.hash(&[None, None]), None);
    }
}
