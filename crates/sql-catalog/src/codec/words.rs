//! Entries of a full-text index: an inverted index, one entry for each word of a row.
//!
//! ```text
//! key    word (its sort key, with 00 escaped as 00 FF and 00 01 at the end) ++ clustered key
//! value  how often the row has the word, u32 little-endian
//! ```
//! Neighbours: `esker_types::fulltext` makes words of texts; [`IndexDef::entries`](crate::catalog::IndexDef::entries)
//! is where every entry of every index comes from; `sql-exec` reads the entries of a word.
//! **Invariants**: the encoding is frozen, it is on disk; a row has at most one entry per word; rows without words have
//! none.

use std::collections::BTreeMap;

use esker_types::fulltext::{WordRules, Words};
use esker_types::{SqlResult, ValueRef};

use super::damaged;
use super::key::{KeyRange, end_string, string_len};
use super::row::RowReader;
use crate::catalog::{ColumnDef, IndexPart};

/// Bytes of an entry's value.
const COUNT_BYTES: usize = 4;

/// How entries of a full-text index are made and read.
#[derive(Debug, Clone)]
pub struct WordCodec {
    words: Words,
    columns: Vec<usize>,
}

impl WordCodec {
    /// The codec of an index over these columns, which have one collation.
    pub fn new(columns: &[ColumnDef], parts: &[IndexPart], rules: WordRules) -> Self {
        debug_assert!(!parts.is_empty());
        let collation = columns[parts[0].col].ty.collation;
        Self {
            words: Words::new(collation, rules),
            columns: parts.iter().map(|part| part.col).collect(),
        }
    }

    /// How texts become words.
    pub fn words(&self) -> &Words {
        &self.words
    }

    /// Calls `f` with key and value of each entry of a row, in key order.
    pub fn entries(
        &self,
        row: &RowReader<'_>,
        clustered: &[u8],
        mut f: impl FnMut(&[u8], &[u8]) -> SqlResult<()>,
    ) -> SqlResult<()> {
        debug_assert!(!clustered.is_empty());
        let mut counts: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        for col in &self.columns {
            if let ValueRef::Str(text) = row.field(*col) {
                self.words.each(text, |key, _| match counts.get_mut(key) {
                    Some(count) => *count = count.saturating_add(1),
                    None => {
                        counts.insert(key.to_vec(), 1);
                    }
                });
            }
        }
        let mut key = Vec::new();
        for (word, count) in counts {
            key.clear();
            key.extend_from_slice(&word);
            end_string(0, &mut key);
            key.extend_from_slice(clustered);
            f(&key, &count.to_le_bytes())?;
        }
        Ok(())
    }

    /// The entries of a word.
    pub fn word_range(&self, word: &[u8]) -> KeyRange {
        let mut key = word.to_vec();
        end_string(0, &mut key);
        KeyRange::prefix(key)
    }

    /// The entries of words that begin with this text; where the collation has several levels, those of some others
    /// are among them.
    pub fn prefix_range(&self, text: &[u8]) -> KeyRange {
        let collation = self.words.collation();
        let mut key = Vec::new();
        collation.prefix_key(&self.words.folded(text), &mut key);
        end_string(0, &mut key);
        // The word goes on where its end mark would be.
        key.truncate(key.len() - 2);
        KeyRange::prefix(key)
    }

    /// The clustered key of an entry.
    pub fn clustered_of<'e>(&self, key: &'e [u8], value: &[u8]) -> SqlResult<&'e [u8]> {
        let len = string_len(key, 0).filter(|len| *len < key.len());
        match len {
            Some(len) if value.len() == COUNT_BYTES => Ok(&key[len..]),
            _ => Err(damaged("entry of a full-text index")),
        }
    }
}
