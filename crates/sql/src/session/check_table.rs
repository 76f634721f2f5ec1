//! CHECK TABLE: is what is stored whole, and do the indexes say what the rows say?
//!
//! Neighbours: `maintain` hands tables over and makes rows of the findings; `Extent::verify` reads one extent.
//! **Invariants**
//! - Other sessions go on reading and writing meanwhile; the table cannot be dropped, its metadata lock is held.
//! - Extents are read from the device, whatever is cached. Rows and index entries are compared at one snapshot.
//! - A finding names the index and the keys it is about.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Bound;
use std::sync::Arc;

use esker_engine::{Cursor, Direction, Isolation, Txn, View};
use esker_sql_catalog::catalog::{IndexDef, TableDef};
use esker_sql_catalog::codec::{RowReader, UTC};
use esker_sql_catalog::exec_error::engine_error;
use esker_types::SqlResult;
use esker_types::cast::write_text;
use esker_types::hex::lower_hex;

use super::SessionContext;

/// Entries between two looks whether the statement was killed.
const ENTRIES_PER_LOOK: u64 = 4096;
/// Wrong index entries that are shown one by one.
const SHOWN_ENTRIES: usize = 10;
/// Bytes of a key part that are shown where it cannot be decoded.
const SHOWN_BYTES: usize = 32;

/// A line of the answer: `Warning` or `error`, and its text.
pub(super) type Finding = (&'static str, String);

/// Number of entries and a sum over them that does not depend on their order.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    entries: u64,
    total: u64,
}

impl Sum {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        let mut hasher = DefaultHasher::new();
        (key, value).hash(&mut hasher);
        self.entries += 1;
        self.total = self.total.wrapping_add(hasher.finish());
    }
}

impl SessionContext {
    /// Checks one table; `quick`: not whether index entries and rows match.
    pub(super) fn check_table(&self, table: &TableDef, quick: bool) -> SqlResult<Vec<Finding>> {
        let mut findings = Vec::new();
        for index in &table.indexes {
            self.check_extents(index, &mut findings)?;
        }
        if !quick && findings.is_empty() {
            self.check_entries(table, &mut findings)?;
        }
        Ok(findings)
    }

    fn look_for_kill(&self) -> SqlResult<()> {
        self.check()
    }

    /// Reads and checks every extent of an index.
    fn check_extents(&self, index: &IndexDef, findings: &mut Vec<Finding>) -> SqlResult<()> {
        let version = Arc::clone(&index.tree.superversion().version);
        for (_, extent) in version.levels().extents() {
            self.look_for_kill()?;
            if let Err(error) = extent.verify() {
                let meta = extent.meta();
                let text = format!(
                    "Index '{}': {} row versions with keys from {} to {} cannot be read: {error}",
                    index.name,
                    meta.entries,
                    shown_key(index, &meta.first.key),
                    shown_key(index, &meta.last.key),
                );
                findings.push(("error", text));
            }
        }
        Ok(())
    }

    /// Compares the entries of every secondary index with the rows.
    fn check_entries(&self, table: &TableDef, findings: &mut Vec<Finding>) -> SqlResult<()> {
        let txn = self.instance.engine.begin(Isolation::RepeatableRead);
        let secondary = &table.indexes[1..];
        let mut wanted = vec![Sum::default(); secondary.len()];
        let mut key = Vec::new();
        self.each_entry(&txn, table.primary(), |clustered, bytes| {
            let row = match RowReader::new(&table.layout, &UTC, bytes) {
                Ok(row) => row,
                Err(e) => {
                    let at = shown_key(table.primary(), clustered);
                    findings.push(("error", format!("The row with key {at}: {}", e.message)));
                    return Ok(());
                }
            };
            for (index, sum) in secondary.iter().zip(&mut wanted) {
                index.entries(&row, clustered, &mut key, |key, value| {
                    sum.add(key, value);
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        for (index, wanted) in secondary.iter().zip(wanted) {
            let mut found = Sum::default();
            self.each_entry(&txn, index, |key, value| {
                found.add(key, value);
                Ok(())
            })?;
            if found == wanted {
                continue;
            }
            if found.entries != wanted.entries {
                let text = format!(
                    "Index '{}' contains {} entries, should be {}.",
                    index.name, found.entries, wanted.entries
                );
                findings.push(("Warning", text));
            }
            self.name_wrong_entries(&txn, table, index, findings)?;
            findings.push((
                "error",
                format!("Index '{}' does not match the rows", index.name),
            ));
        }
        Ok(())
    }

    /// Finds entries to which no row belongs; the first few become findings.
    fn name_wrong_entries(
        &self,
        txn: &Txn,
        table: &TableDef,
        index: &IndexDef,
        findings: &mut Vec<Finding>,
    ) -> SqlResult<()> {
        let mut shown = 0;
        let mut buffer = Vec::new();
        self.each_entry(txn, index, |key, value| {
            if shown == SHOWN_ENTRIES {
                return Ok(());
            }
            let clustered = index.clustered_of(key, value)?;
            let row = txn
                .get(&table.primary().tree, clustered, View::Snapshot)
                .map_err(|e| engine_error(&e))?;
            let is_right = match &row {
                Some(bytes) => {
                    let row = RowReader::new(&table.layout, &UTC, bytes)?;
                    let mut is_wanted = false;
                    index.entries(&row, clustered, &mut buffer, |wanted, of_wanted| {
                        is_wanted |= (wanted, of_wanted) == (key, value);
                        Ok(())
                    })?;
                    is_wanted
                }
                None => false,
            };
            if !is_right {
                shown += 1;
                let text = format!(
                    "Index '{}' has an entry {} for which there is no row",
                    index.name,
                    shown_key(index, key)
                );
                findings.push(("Warning", text));
            }
            Ok(())
        })
    }

    fn each_entry(
        &self,
        txn: &Txn,
        index: &IndexDef,
        mut f: impl FnMut(&[u8], &[u8]) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let all = Bound::Unbounded;
        let mut cursor: Cursor = txn
            .scan(&index.tree, all, all, Direction::Forward, View::Snapshot)
            .map_err(|e| engine_error(&e))?;
        let mut entries = 0_u64;
        while let Some((key, value)) = cursor.next().map_err(|e| engine_error(&e))? {
            f(key, value)?;
            entries += 1;
            if entries.is_multiple_of(ENTRIES_PER_LOOK) {
                self.look_for_kill()?;
            }
        }
        Ok(())
    }
}

/// The parts of a key as text, those that cannot be decoded as bytes.
fn shown_key(index: &IndexDef, key: &[u8]) -> String {
    let mut shown = Vec::new();
    let mut rest = key;
    let parts = match index.is_inverted() {
        true => &[],
        false => index.codec.parts(),
    };
    for (nth, part) in parts.iter().enumerate() {
        let Some(len) = index.codec.part_len(nth, rest) else {
            break;
        };
        let (bytes, behind) = rest.split_at(len);
        let decoded = index.codec.is_reversible(nth);
        let decoded = decoded.then(|| index.codec.decode_part(nth, bytes, &UTC));
        shown.push(match decoded.flatten() {
            Some((esker_types::ValueRef::Null, _)) => "NULL".to_owned(),
            Some((value, _)) => {
                let mut text = Vec::new();
                write_text(value, &part.ty, &mut text);
                String::from_utf8_lossy(&text).into_owned()
            }
            None => hex(bytes),
        });
        rest = behind;
    }
    if shown.is_empty() {
        // A hidden row id.
        shown.push(hex(key));
    }
    format!("({})", shown.join(","))
}

fn hex(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let mut text = format!("0x{}", lower_hex(shown));
    if bytes.len() > SHOWN_BYTES {
        text.push_str("...");
    }
    text
}
