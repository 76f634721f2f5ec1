//! Full-text indexes in the catalog: what is stored of them beside other indexes.
//!
//! Neighbours: `store` has the rows of tables, of which this is an extension. **Invariant**: the rules by which an
//! index was filled are stored with it, so the settings of a later start change nothing in it.

use esker_types::fulltext::{MAX_NGRAM_CHARS, MAX_WORD_CHARS, Stopwords, WordRules};
use esker_types::{SqlResult, TypeKind};

use super::bytes::{Reader, Writer};
use super::def::TableDef;
use crate::codec::{WordCodec, damaged};

/// Bits of what is left out, and of what follows.
const DEFAULT: u8 = 1;
const OWN: u8 = 2;
const NGRAM: u8 = 4;

fn write_rules(w: &mut Writer, rules: &WordRules) {
    w.byte(rules.min_chars);
    w.byte(rules.max_chars);
    let stopwords = match &rules.stopwords {
        Stopwords::None => 0,
        Stopwords::Default => DEFAULT,
        Stopwords::Own(_) => OWN,
    };
    w.byte(stopwords | rules.ngram.map_or(0, |_| NGRAM));
    if let Some(size) = rules.ngram {
        w.byte(size);
    }
    if let Stopwords::Own(own) = &rules.stopwords {
        w.int(own.len() as u64);
        own.iter().for_each(|word| w.text(word));
    }
}

fn read_rules(r: &mut Reader<'_>) -> SqlResult<WordRules> {
    let (min_chars, max_chars, bits) = (r.byte()?, r.byte()?, r.byte()?);
    let ngram = match bits & NGRAM {
        0 => None,
        _ => Some(r.byte()?),
    };
    let stopwords = match bits & !NGRAM {
        0 => Stopwords::None,
        DEFAULT => Stopwords::Default,
        OWN => Stopwords::Own(r.list(|r| Ok(Box::from(r.text()?)))?.into()),
        _ => return Err(damaged("catalog row: stopwords")),
    };
    Ok(WordRules {
        min_chars,
        max_chars,
        ngram,
        stopwords,
    })
}

fn is_sound(rules: &WordRules) -> bool {
    let sizes = 1..=MAX_NGRAM_CHARS;
    rules.max_chars <= MAX_WORD_CHARS && rules.ngram.is_none_or(|size| sizes.contains(&size))
}

/// What is stored of a table's full-text indexes; `None`: it has none.
pub(super) fn extension_of(def: &TableDef) -> Option<Vec<u8>> {
    let indexes = def.fulltext();
    if indexes.is_empty() {
        return None;
    }
    let mut w = Writer::default();
    w.int(indexes.len() as u64);
    for words in indexes.iter().filter_map(|index| index.words.as_ref()) {
        write_rules(&mut w, words.words().rules());
    }
    Some(w.out)
}

/// Gives a table what [`extension_of`] it was stored: the last indexes are full-text indexes.
pub(super) fn read_extension(bytes: &[u8], def: &mut TableDef) -> SqlResult<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut r = Reader::new(bytes);
    let all = r.list(read_rules)?;
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
        let is_sound = is_sound(&rules) && !index.unique && !index.parts.is_empty();
        if !is_sound || !index.parts.iter().all(|part| is_text(part.col)) {
            return Err(damaged("catalog row: full-text index"));
        }
        index.words = Some(WordCodec::new(columns, &index.parts, rules));
    }
    Ok(())
}
