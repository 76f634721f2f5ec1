//! Entries of a multi-valued index: one for each different element of a row's array.
//!
//! ```text
//! key    element (JSON's sort key) ++ clustered key
//! value  length of the element, u32 little-endian
//! ```
//! Neighbours: `esker_types::json` makes keys of elements; [`IndexDef::entries`](crate::catalog::IndexDef::entries) is
//! where every entry of every index comes from; `sql-exec` reads the entries of an element.
//! **Invariants**: the encoding is frozen, it is on disk; a row has at most one entry per element; a document that is
//! NULL or an empty array has none.

use esker_types::json::{JsonRef, element_keys};
use esker_types::{SqlResult, ValueRef};

use super::damaged;
use super::key::KeyRange;
use super::row::RowReader;
use crate::catalog::{ColumnDef, IndexPart};

/// How entries of a multi-valued index are made and read.
#[derive(Debug, Clone)]
pub struct ElementCodec {
    column: usize,
}

impl ElementCodec {
    /// The codec of an index over these columns; none if it is not multi-valued. Other parts beside the array are not
    /// in the entries.
    pub fn new(columns: &[ColumnDef], parts: &[IndexPart]) -> Option<Self> {
        let mut arrays = parts.iter().filter(|part| columns[part.col].is_array());
        let part = arrays.next()?;
        debug_assert!(arrays.next().is_none(), "a second array is refused");
        Some(Self { column: part.col })
    }

    /// The column that has the arrays.
    pub fn column(&self) -> usize {
        self.column
    }

    /// Calls `f` with key and value of each entry of a row, in key order.
    pub fn entries(
        &self,
        row: &RowReader<'_>,
        clustered: &[u8],
        mut f: impl FnMut(&[u8], &[u8]) -> SqlResult<()>,
    ) -> SqlResult<()> {
        debug_assert!(!clustered.is_empty());
        let ValueRef::Json(document) = row.field(self.column) else {
            return Ok(());
        };
        for mut key in element_keys(JsonRef::new(document)) {
            let len = key.len() as u32;
            key.extend_from_slice(clustered);
            f(&key, &len.to_le_bytes())?;
        }
        Ok(())
    }

    /// The entries of an element.
    pub fn element_range(&self, element: &[u8]) -> KeyRange {
        KeyRange::prefix(element.to_vec())
    }

    /// The clustered key of an entry.
    pub fn clustered_of<'e>(&self, key: &'e [u8], value: &[u8]) -> SqlResult<&'e [u8]> {
        let len = value.try_into().map(u32::from_le_bytes).ok();
        match len.map(|len| len as usize).filter(|len| *len < key.len()) {
            Some(len) => Ok(&key[len..]),
            None => Err(damaged("entry of a multi-valued index")),
        }
    }
}
