//! Full-text searches: documents are counted in the index, and rows that may match are found in it.
//!
//! Neighbours: `esker_types::fulltext` parses the query and judges a document; expressions come here by
//! [`Queries::search`](esker_sql_plan::expr::Queries), scans by [`found_keys`]; the states of calls keep both.
//! **Invariants**: a search is made once in an execution of a statement; the keys are those of all rows that have a
//! leading word of the query, so MATCH, evaluated for each of these rows, misses none; what is kept is charged to the
//! statement.

use std::ops::Bound;
use std::sync::Arc;

use esker_engine::scan::KeySpan;
use esker_engine::{Direction, View};
use esker_sql_catalog::codec::{RowReader, UTC, WordCodec};
use esker_sql_catalog::exec_error::{ExecResult, engine_error};
use esker_sql_plan::expr::{FoundKeys, Match};
use esker_types::cast::to_str;
use esker_types::ctx::Work;
use esker_types::fulltext::{Frequencies, MatchMode, Query, QueryWord, Search};
use esker_types::{SqlError, SqlResult, Value, ValueRef};

use super::memory::{Purpose, charge};
use crate::{ExecCtx, ExecEnv};

/// What a kept key takes beyond its bytes.
const KEY_BYTES: u64 = 32;
/// Kept keys are charged in portions of so many bytes.
const CHARGED_BYTES: u64 = 64 * 1024;

/// A call of MATCH, with what it reads.
struct Reader<'a> {
    call: &'a Match,
    words: &'a WordCodec,
    exec: &'a ExecCtx<'a>,
    view: View,
    env: &'a ExecEnv<'a>,
}

impl<'a> Reader<'a> {
    fn new(call: &'a Match, view: View, env: &'a ExecEnv<'a>) -> SqlResult<Self> {
        let exec = env.exec.ok_or_else(unreadable)?;
        let index = &call.def.indexes[call.index];
        if view == View::Snapshot {
            call.def.check_visible(index, exec.txn().snapshot())?;
        }
        Ok(Self {
            call,
            words: index
                .words
                .as_ref()
                .expect("MATCH is bound to a full-text index"),
            exec,
            view,
            env,
        })
    }

    /// Calls `f` with key and value of each entry of a word.
    fn each_entry(
        &self,
        word: &QueryWord,
        mut f: impl FnMut(&[u8], &[u8]) -> SqlResult<()>,
    ) -> ExecResult<()> {
        let range = match word.is_prefix {
            true => self.words.prefix_range(&word.text),
            false => self.words.word_range(&word.key),
        };
        let tree = &self.call.def.indexes[self.call.index].tree;
        let (lower, upper) = (range.lower(), range.upper());
        let txn = self.exec.txn();
        let entries = txn.scan(tree, lower, upper, Direction::Forward, self.view);
        let mut entries = entries.map_err(|e| engine_error(&e))?;
        while let Some((key, value)) = entries.next().map_err(|e| engine_error(&e))? {
            self.exec.tick()?;
            debug_assert!(
                !value.is_empty(),
                "entries say how often a row has the word"
            );
            f(key, value)?;
        }
        Ok(())
    }

    fn frequencies(&self, query: &Query) -> ExecResult<Frequencies> {
        let mut with_word = Vec::with_capacity(query.words.len());
        for word in &query.words {
            let mut entries = 0;
            self.each_entry(word, |_, _| {
                entries += 1;
                Ok(())
            })?;
            with_word.push(entries);
        }
        debug_assert_eq!(with_word.len(), query.words.len());
        Ok(Frequencies {
            documents: self.documents()?,
            with_word,
        })
    }

    /// Rows of the table.
    fn documents(&self) -> ExecResult<u64> {
        let all = KeySpan::new(Bound::Unbounded, Bound::Unbounded);
        let tree = &self.call.def.primary().tree;
        let count = self.exec.txn().parallel_count(tree, vec![all], 1);
        let count = count.map_err(|e| engine_error(&e))?;
        let mut rows = count.counted();
        let mut go_on = || (self.exec.check_killed)().is_ok();
        for task in 0..count.tasks() {
            let counted = count.count(task, &mut go_on);
            rows += counted.map_err(|e| engine_error(&e))?.map_or(0, |c| c.rows);
        }
        debug_assert!(rows >= count.counted());
        (self.exec.check_killed)()?;
        Ok(rows)
    }

    fn search(&self) -> ExecResult<Search> {
        let against = &self.call.against;
        let text = match against.eval(&[], self.env)? {
            Value::Null => Vec::new(),
            value => to_str(&value, &against.ty).into_owned(),
        };
        let words = self.words.words();
        let query = Query::parse(&text, self.call.mode, words)?;
        let search = self.counted(query)?;
        match self.call.mode {
            MatchMode::Expansion => self.counted(self.expanded(&search)?),
            MatchMode::Natural | MatchMode::Boolean => Ok(search),
        }
    }

    fn counted(&self, query: Query) -> ExecResult<Search> {
        charge(self.env, query.bytes() as u64, Purpose::Hash)?;
        let frequencies = self.frequencies(&query)?;
        Ok(Search::new(query, self.words.words().clone(), &frequencies))
    }

    /// The query with the words of all documents that it finds.
    fn expanded(&self, search: &Search) -> ExecResult<Query> {
        debug_assert_eq!(self.call.mode, MatchMode::Expansion);
        let mut query = search.query().clone();
        let table = &self.call.def;
        let parts = &table.indexes[self.call.index].parts;
        let mut work = Work::new(self.env.ctx.session);
        for key in self.keys(search)?.iter() {
            self.exec.tick()?;
            let row = self.exec.txn().get(&table.primary().tree, key, self.view);
            let Some(row) = row.map_err(|e| engine_error(&e))? else {
                continue;
            };
            let row = RowReader::new(&table.layout, &UTC, &row)?;
            let text = |col: usize| match row.field(col) {
                ValueRef::Str(text) => text,
                _ => &[],
            };
            let texts: Vec<&[u8]> = parts.iter().map(|part| text(part.col)).collect();
            if search.relevance(&texts, &mut work)? == 0.0 {
                continue;
            }
            for text in texts {
                self.words
                    .words()
                    .each(text, |key, word| query.expand(key, word));
            }
        }
        Ok(query)
    }

    /// Clustered keys of the rows that may match.
    fn keys(&self, search: &Search) -> ExecResult<Vec<Box<[u8]>>> {
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        let mut held = 0;
        for word in search.leading_words() {
            self.each_entry(&search.query().words[word], |key, value| {
                let key = self.words.clustered_of(key, value)?;
                held += key.len() as u64 + KEY_BYTES;
                if held >= CHARGED_BYTES {
                    charge(self.env, std::mem::take(&mut held), Purpose::Hash)?;
                }
                keys.push(key.into());
                Ok(())
            })?;
        }
        debug_assert!(held < CHARGED_BYTES, "the rest is less than a portion");
        charge(self.env, held, Purpose::Hash)?;
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }
}

fn unreadable() -> SqlError {
    SqlError::not_supported("MATCH where no table is read")
}

/// The search of a call of MATCH.
pub(crate) fn search(call: &Match, view: View, env: &ExecEnv<'_>) -> ExecResult<Arc<Search>> {
    if let Some(search) = env.calls.search(call.id) {
        return Ok(search);
    }
    let search = Arc::new(Reader::new(call, view, env)?.search()?);
    env.calls.put_search(call.id, search.clone());
    Ok(search)
}

/// Clustered keys of the rows that MATCH may find, in their order.
pub(crate) fn found_keys(call: &Match, view: View, env: &ExecEnv<'_>) -> ExecResult<FoundKeys> {
    if let Some(keys) = env.calls.found(call.id) {
        return Ok(keys);
    }
    let search = search(call, view, env)?;
    let keys = Arc::new(Reader::new(call, view, env)?.keys(&search)?);
    debug_assert!(keys.windows(2).all(|two| two[0] < two[1]));
    env.calls.put_found(call.id, keys.clone());
    Ok(keys)
}
