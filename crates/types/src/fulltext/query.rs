//! What AGAINST says: words, phrases and groups, each with how it counts.
//!
//! Neighbours: `boolean` reads the operators of IN BOOLEAN MODE and adds what it finds here; `search` evaluates.
//! **Invariants**: a word is listed once, with how often it was named, however many terms name it; a term refers to
//! words by their place in the list.

use std::collections::HashMap;

use super::boolean;
use super::tokens::{Token, Words, tokens};
use crate::SqlResult;

/// Most terms of one query, those of an expansion included; what comes behind is not looked for.
const MAX_TERMS: usize = 100_000;

/// How AGAINST is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MatchMode {
    /// IN NATURAL LANGUAGE MODE.
    Natural,
    /// IN BOOLEAN MODE.
    Boolean,
    /// WITH QUERY EXPANSION.
    Expansion,
}

/// How a term counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    /// It brings documents in.
    Any,
    /// `+`: a document must have it.
    Exist,
    /// `-`: it must not.
    Ignore,
    /// `~`: it counts against documents that are in already.
    Negate,
    /// `>`: it counts more.
    Increase,
    /// `<`: it counts less.
    Decrease,
}

/// A part of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) operator: Operator,
    /// What it looks for.
    pub(super) kind: TermKind,
}

/// What a term looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TermKind {
    /// A word of the list; `None`: one that no index has.
    Word(Option<usize>),
    /// Words that follow one another, or stand close together.
    Phrase(Phrase),
    /// Terms in parentheses.
    Group(Vec<Term>),
}

/// Words in double quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Phrase {
    /// The keys of its tokens from the first one on that an index has, also of those that no index has.
    pub(super) tokens: Vec<Vec<u8>>,
    /// Those of them that an index may have, by their place in the list.
    pub(super) words: Vec<usize>,
    /// `@n`: in any order, in a run of so many tokens.
    pub(super) distance: Option<usize>,
}

/// A word that a query looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryWord {
    /// Its sort key.
    pub key: Vec<u8>,
    /// Its text.
    pub text: Vec<u8>,
    /// `word*`.
    pub is_prefix: bool,
    /// How often the query names it.
    pub times: u64,
}

/// A parsed query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Its words.
    pub words: Vec<QueryWord>,
    /// Its terms.
    pub(super) terms: Vec<Term>,
    /// Where the list has a word, or a prefix.
    places: HashMap<(Vec<u8>, bool), usize>,
    /// Words of terms and phrases so far.
    named: usize,
}

impl Query {
    /// Reads the text of AGAINST.
    ///
    /// # Errors
    /// 1064 for operators where they cannot stand.
    pub fn parse(text: &[u8], mode: MatchMode, words: &Words) -> SqlResult<Self> {
        match mode {
            MatchMode::Boolean => boolean::parse(text, words),
            MatchMode::Natural | MatchMode::Expansion => Ok(Self::natural(text, words)),
        }
    }

    fn natural(text: &[u8], words: &Words) -> Self {
        let mut query = Self::default();
        if words.are_ngrams() {
            query.natural_ngrams(text, words);
            return query;
        }
        // Every second piece stands between quotes; a last one that is not closed does not.
        let pieces: Vec<&[u8]> = text.split(|byte| *byte == b'"').collect();
        let last = pieces.len() - 1;
        for (at, piece) in pieces.into_iter().enumerate() {
            let terms = match at % 2 == 1 && at < last {
                true => vec![query.phrase(piece, None, words)],
                false => query.term(piece, false, words),
            };
            query.terms.extend(terms.into_iter().map(|kind| Term {
                operator: Operator::Any,
                kind,
            }));
        }
        query
    }

    /// Quotes mean nothing beside n-grams.
    fn natural_ngrams(&mut self, text: &[u8], words: &Words) {
        for token in words.query_tokens(text) {
            if self.is_full() {
                break;
            }
            let key = words.indexed_key(token.text);
            let word = key.map(|key| self.add_word(key, token.text, false));
            self.terms.push(Term {
                operator: Operator::Any,
                kind: TermKind::Word(word),
            });
        }
    }

    /// What a term of boolean mode looks for: n-grams that follow one another, if there are any.
    fn ngram_term(&mut self, text: &[u8], is_prefix: bool, words: &Words) -> Vec<TermKind> {
        let all: Vec<Token<'_>> = tokens(text).collect();
        let mut kinds = Vec::with_capacity(all.len());
        for (at, token) in all.iter().enumerate() {
            let has_star = is_prefix && at + 1 == all.len();
            kinds.push(match words.tokens(token.text).next() {
                Some(_) => self.phrase(token.text, None, words),
                None if has_star && !self.is_full() => {
                    let word = self.add_word(words.key(token.text), token.text, true);
                    TermKind::Word(Some(word))
                }
                None => TermKind::Word(None),
            });
        }
        kinds
    }

    /// The words of a text without operators; the last one may be a prefix.
    pub(super) fn term(&mut self, text: &[u8], is_prefix: bool, words: &Words) -> Vec<TermKind> {
        if words.are_ngrams() {
            return self.ngram_term(text, is_prefix, words);
        }
        let all: Vec<Token<'_>> = tokens(text).collect();
        let mut kinds = Vec::new();
        for (at, token) in all.iter().enumerate() {
            let has_star = is_prefix && at + 1 == all.len();
            let is_short = at > 0 && !has_star && !words.has_length(token.text);
            if is_short || words.is_too_long(token.text) || self.is_full() {
                continue;
            }
            let key = match has_star {
                true => Some(words.key(token.text)),
                false => words.indexed_key(token.text),
            };
            let word = key.map(|key| self.add_word(key, token.text, has_star));
            kinds.push(TermKind::Word(word));
        }
        kinds
    }

    /// What stood in double quotes.
    pub(super) fn phrase(
        &mut self,
        text: &[u8],
        distance: Option<usize>,
        words: &Words,
    ) -> TermKind {
        let mut phrase = Phrase {
            tokens: Vec::new(),
            words: Vec::new(),
            distance,
        };
        let all = tokens(text).flat_map(|run| words.query_tokens(run.text));
        for token in all {
            if self.is_full() {
                break;
            }
            match words.indexed_key(token.text) {
                Some(key) => {
                    phrase.tokens.push(key.clone());
                    phrase.words.push(self.add_word(key, token.text, false));
                }
                // A phrase begins with its first word that an index has: as in InnoDB, what stands before is not asked
                // for.
                None if phrase.words.is_empty() => {}
                None => phrase.tokens.push(words.key(token.text)),
            }
        }
        TermKind::Phrase(phrase)
    }

    /// Counts a word of the text; true if it is one too many.
    fn is_full(&mut self) -> bool {
        self.named += 1;
        self.named > MAX_TERMS
    }

    fn add_word(&mut self, key: Vec<u8>, text: &[u8], is_prefix: bool) -> usize {
        if let Some(&at) = self.places.get(&(key.clone(), is_prefix)) {
            self.words[at].times += 1;
            return at;
        }
        let at = self.words.len();
        self.places.insert((key.clone(), is_prefix), at);
        self.words.push(QueryWord {
            key,
            text: text.to_vec(),
            is_prefix,
            times: 1,
        });
        at
    }

    /// The first place of a word or prefix of the same text.
    pub(super) fn first_place(&self, at: usize) -> usize {
        let word = &self.words[at];
        let other = self.places.get(&(word.key.clone(), !word.is_prefix));
        other.map_or(at, |other| at.min(*other))
    }

    /// WITH QUERY EXPANSION: looks for a word of a document that was found, too.
    pub fn expand(&mut self, key: &[u8], text: &[u8]) {
        if self.places.contains_key(&(key.to_vec(), false)) || self.is_full() {
            return;
        }
        let word = self.add_word(key.to_vec(), text, false);
        self.terms.push(Term {
            operator: Operator::Any,
            kind: TermKind::Word(Some(word)),
        });
    }

    /// Bytes that it takes in memory, about.
    pub fn bytes(&self) -> usize {
        let words = self.words.iter();
        let words = words.map(|w| size_of::<QueryWord>() + 2 * w.key.len() + w.text.len());
        words.sum::<usize>() + self.terms.len() * size_of::<Term>()
    }
}
