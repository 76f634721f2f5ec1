//! Full-text indexes in the catalog: what is stored of them beside other indexes.
//!
//! Neighbours: `store` has the rows of tables, of which this is an extension. **Invariant**: the rules by which an
//! index was filled are stored with it, so the settings of a later start change nothing in it.

use esker_types::fulltext::{MAX_WORD_CHARS, WordRules};
use esker_types::{SqlResult, TypeKind};

use super::bytes::{Reader, Writer};
use super::def::TableDef;
use crate::codec::{WordCodec, damaged};

/// What is stored of a table's full-text indexes; `None`: it has none.
pub(super) fn extension_of(def: &TableDef) -> Option<Vec<u8>> {
    let indexes = def.fulltext();
    if indexes.is_empty() {
        return None;
    }
    let mut w = Writer::default();
    w.int(indexes.len() as u64);
    for words in indexes.iter().filter_map(|index| index.words.as_ref()) {
        let rules = words.words().rules();
        w.byte(rules.min_chars);
        w.byte(rules.max_chars);
        w.flag(rules.stopwords);
    }
    Some(w.out)
}

/// Gives a table what [`extension_of`] it was stored: the last indexes are full-text indexes.
pub(super) fn read_extension(bytes: &[u8], def: &mut TableDef) -> SqlResult<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut r = Reader::new(bytes);
    let all = r.list(|r| {
        Ok(WordRules {
            min_chars: r.byte()?,
            max_chars: r.byte()?,
            stopwords: r.flag()?,
        })
    })?;
    r.end()?;
    let first = def
        .indexes
        .len()
        .checked_sub(all.len())
        .filter(|at| *at > 0);
    let first = first.ok_or_else(|| damaged("catalog row: full-text indexes"))?;
    let columns = &def.columns;
    for (index, rules) in def.indexes[first..].iter_mut().zip(all) {
        let is_text =
            |col: usize| columns[col].ty.is_string() && columns[col].ty.kind != TypeKind::Json;
        let is_sound =
            rules.max_chars <= MAX_WORD_CHARS && !index.unique && !index.parts.is_empty();
        if !is_sound || !index.parts.iter().all(|part| is_text(part.col)) {
            return Err(damaged("catalog row: full-text index"));
        }
        index.words = Some(WordCodec::new(columns, &index.parts, rules));
    }
    Ok(())
}
