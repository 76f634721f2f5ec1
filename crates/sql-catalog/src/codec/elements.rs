//! Entries of a multi-valued index: one for each different element of a row's array.
//!
//! ```text
//! key    element (JSON's sort key) ++ clustered key
//! value  length of the element, u32 little-endian
//! ```
//! of a UNIQUE one
//! ```text
//! key    element ++ the other parts (++ clustered key, if one of them is NULL)
//! value  clustered key
//! ```
//! Neighbours: `esker_types::json` makes keys of elements; [`IndexDef::entries`](crate::catalog::IndexDef::entries) is
//! where every entry of every index comes from; `sql-exec` reads the entries of an element.
//! **Invariants**: the encoding is frozen, it is on disk; a row has at most one entry per element; a document that is
//! NULL or an empty array has none.

use esker_types::json::{JsonRef, element_keys};
use esker_types::{SqlResult, ValueRef};

use super::damaged;
use super::key::{KeyCodec, KeyRange};
use super::row::RowReader;
use crate::catalog::{ColumnDef, IndexPart};

/// How entries of a multi-valued index are made and read.
#[derive(Debug, Clone)]
pub struct ElementCodec {
    column: usize,
    /// The other parts, if the index is UNIQUE.
    others: Option<KeyCodec>,
}

impl ElementCodec {
    /// The codec of an index over these columns; none if it is not multi-valued. Other parts beside the array are in
    /// the entries only if it is UNIQUE.
    pub fn new(columns: &[ColumnDef], parts: &[IndexPart], unique: bool) -> Option<Self> {
        let (arrays, others): (Vec<&IndexPart>, Vec<&IndexPart>) =
            parts.iter().partition(|part| columns[part.col].is_array());
        let part = arrays.first()?;
        debug_assert!(arrays.len() == 1, "a second array is refused");
        let others: Vec<IndexPart> = others.into_iter().cloned().collect();
        Some(Self {
            column: part.col,
            others: unique.then(|| KeyCodec::new(columns, &others, true, false)),
        })
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
        if let Some(others) = &self.others {
            let mut behind = Vec::new();
            if others.encode_row_parts(row, &mut behind)? {
                behind.extend_from_slice(clustered);
            }
            for mut key in element_keys(JsonRef::new(document)) {
                key.extend_from_slice(&behind);
                f(&key, clustered)?;
            }
            return Ok(());
        }
        for mut key in element_keys(JsonRef::new(document)) {
            let len = key.len() as u32;
            key.extend_from_slice(clustered);
            f(&key, &len.to_le_bytes())?;
        }
        Ok(())
    }

    /// May no other row have one of this row's keys? So it is in a UNIQUE index, unless another part is NULL.
    pub fn claims(&self, row: &RowReader<'_>) -> bool {
        let is_null = |col: usize| matches!(row.field(col), ValueRef::Null);
        let parts = self.others.as_ref().map(KeyCodec::parts);
        parts.is_some_and(|parts| !parts.iter().any(|part| is_null(part.col)))
    }

    /// The entries of an element.
    pub fn element_range(&self, element: &[u8]) -> KeyRange {
        KeyRange::prefix(element.to_vec())
    }

    /// The clustered key of an entry.
    pub fn clustered_of<'e>(&self, key: &'e [u8], value: &'e [u8]) -> SqlResult<&'e [u8]> {
        if self.others.is_some() {
            return match value {
                [] => Err(damaged("entry of a multi-valued index")),
                clustered => Ok(clustered),
            };
        }
        let len = value.try_into().map(u32::from_le_bytes).ok();
        match len.map(|len| len as usize).filter(|len| *len < key.len()) {
            Some(len) => Ok(&key[len..]),
            None => Err(damaged("entry of a multi-valued index")),
        }
    }
}
