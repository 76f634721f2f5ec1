//! Full-text search: a tokenizer, a query language and a ranking, as InnoDB's built-in parser has them.
//!
//! In flow order: `tokens` (the words of a text) · `query` (what AGAINST says, parsed) · `boolean` (its operators) ·
//! `search` ([`Search`]: the relevance of a document). Neighbours: the key codec of `sql-catalog` stores words as
//! entries of an index; `sql-exec` counts documents in it and evaluates MATCH with a [`Search`].
//!
//! **Invariants**: the words that an index stores and those that a query looks for come out of the same function under
//! the same [`WordRules`]; a word is a sort key of the collation, which is frozen for ever; nothing here panics on
//! malformed UTF-8.

mod boolean;
mod query;
mod search;
#[cfg(test)]
mod tests;
mod tokens;

pub use query::{MatchMode, Query, QueryWord};
pub use search::{Frequencies, Search};
pub use tokens::{DEFAULT_STOPWORDS, MAX_NGRAM_CHARS, MAX_WORD_CHARS, Stopwords, WordRules, Words};
