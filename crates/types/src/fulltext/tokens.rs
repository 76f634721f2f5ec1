//! The tokenizer: letters, digits and `_` make words, and everything else stands between them; or, for languages
//! without spaces, every run of so many characters is a word (n-grams).
//!
//! Neighbours: `query` asks for the words of terms and phrases, `search` for those of documents; the catalog keeps the
//! [`WordRules`] of every index.
//! **Invariant**: what is a word depends on the text, the collation and the rules alone, so an entry can be derived
//! again to be removed.

use std::collections::HashSet;
use std::sync::Arc;

use crate::collation::{Collation, char_count, char_len};

/// Longest word that an index may be made to have, in characters.
pub const MAX_WORD_CHARS: u8 = 84;

/// Longest n-gram, in characters.
pub const MAX_NGRAM_CHARS: u8 = 10;

/// The words of `INFORMATION_SCHEMA.INNODB_FT_DEFAULT_STOPWORD`, in its order.
pub const DEFAULT_STOPWORDS: [&str; 36] = [
    "a", "about", "an", "are", "as", "at", "be", "by", "com", "de", "en", "for", "from", "how",
    "i", "in", "is", "it", "la", "of", "on", "or", "that", "the", "this", "to", "was", "what",
    "when", "where", "who", "will", "with", "und", "the", "www",
];

/// Words that an index leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopwords {
    /// None.
    None,
    /// [`DEFAULT_STOPWORDS`].
    Default,
    /// Those of a table, when the index was made.
    Own(Arc<[Box<str>]>),
}

/// Which words an index has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordRules {
    /// Characters of the shortest word.
    pub min_chars: u8,
    /// Characters of the longest word.
    pub max_chars: u8,
    /// Words are all runs of so many characters without a space, and have no other bounds.
    pub ngram: Option<u8>,
    /// What is left out: these words, and n-grams that have one of them within.
    pub stopwords: Stopwords,
}

/// How texts of one index become words.
#[derive(Debug, Clone)]
pub struct Words {
    collation: Collation,
    rules: WordRules,
    /// Sort keys of the stopwords.
    stopwords: Arc<HashSet<Box<[u8]>>>,
}

/// A word as it stands in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'t> {
    pub(super) text: &'t [u8],
    /// Where it begins in the text, in bytes.
    pub(super) at: usize,
}

impl Words {
    /// Words of texts of a collation.
    pub fn new(collation: Collation, rules: WordRules) -> Self {
        let mut words = Self {
            collation,
            rules,
            stopwords: Arc::default(),
        };
        let keys = match &words.rules.stopwords {
            Stopwords::None => HashSet::new(),
            Stopwords::Default => words.keys(&DEFAULT_STOPWORDS),
            Stopwords::Own(own) => words.keys(own),
        };
        words.stopwords = Arc::new(keys);
        words
    }

    fn keys(&self, words: &[impl AsRef<str>]) -> HashSet<Box<[u8]>> {
        let keys = words
            .iter()
            .map(|word| self.key(word.as_ref().as_bytes()).into_boxed_slice());
        keys.collect()
    }

    /// The rules.
    pub fn rules(&self) -> &WordRules {
        &self.rules
    }

    /// Are words n-grams?
    pub(super) fn are_ngrams(&self) -> bool {
        self.rules.ngram.is_some()
    }

    /// The collation.
    pub fn collation(&self) -> Collation {
        self.collation
    }

    /// A word in lower case, unless its collation tells cases apart by code.
    pub fn folded(&self, word: &[u8]) -> Vec<u8> {
        match self.collation.is_bin() {
            true => word.to_vec(),
            false => self.collation.lower(word),
        }
    }

    /// A word as it is compared and stored: the sort key of what [`Self::folded`] gives.
    pub(super) fn key(&self, word: &[u8]) -> Vec<u8> {
        let mut key = Vec::new();
        self.write_key(word, &mut key);
        key
    }

    fn write_key(&self, word: &[u8], out: &mut Vec<u8>) {
        out.clear();
        self.collation.sort_key(&self.folded(word), out);
    }

    /// Is a word of this length in the index?
    pub(super) fn has_length(&self, word: &[u8]) -> bool {
        let chars = char_count(word);
        match self.rules.ngram {
            Some(size) => chars == usize::from(size),
            None => {
                let bounds = usize::from(self.rules.min_chars)..=usize::from(self.rules.max_chars);
                bounds.contains(&chars)
            }
        }
    }

    /// Is it too long for the index?
    pub(super) fn is_too_long(&self, word: &[u8]) -> bool {
        char_count(word) > usize::from(self.rules.max_chars)
    }

    /// Is it a word that no index has?
    fn is_left_out(&self, word: &[u8], key: &[u8]) -> bool {
        match self.are_ngrams() {
            false => self.stopwords.contains(key),
            true => !self.stopwords.is_empty() && self.has_stopword(word),
        }
    }

    /// Is a part of the word a stopword?
    fn has_stopword(&self, word: &[u8]) -> bool {
        let mut key = Vec::new();
        let starts = char_starts(word);
        let mut ends = starts.clone().skip(1).chain([word.len()]);
        ends.any(|end| {
            let mut parts = starts.clone().take_while(|start| *start < end);
            parts.any(|start| {
                self.write_key(&word[start..end], &mut key);
                self.stopwords.contains(&*key)
            })
        })
    }

    /// The key of a word, if an index has such words.
    pub(super) fn indexed_key(&self, word: &[u8]) -> Option<Vec<u8>> {
        let key = self.has_length(word).then(|| self.key(word))?;
        (!self.is_left_out(word, &key)).then_some(key)
    }

    /// Calls `f` with the key of each word of a text that an index has, and with the word.
    pub fn each(&self, text: &[u8], mut f: impl FnMut(&[u8], &[u8])) {
        let mut key = Vec::new();
        for token in self.tokens(text) {
            if !self.has_length(token.text) {
                continue;
            }
            self.write_key(token.text, &mut key);
            if !self.is_left_out(token.text, &key) {
                f(&key, token.text);
            }
        }
    }

    /// The words of a document, also those that no index has.
    pub(super) fn tokens<'t>(&self, text: &'t [u8]) -> impl Iterator<Item = Token<'t>> {
        let size = self.rules.ngram;
        let (runs, ngrams) = match size {
            None => (text, &[][..]),
            Some(_) => (&[][..], text),
        };
        tokens(runs).chain(grams(ngrams, size.unwrap_or(1)))
    }

    /// The words of a part of a query: an n-gram that is too short for any document stands for itself.
    pub(super) fn query_tokens<'t>(&self, text: &'t [u8]) -> Vec<Token<'t>> {
        let mut all: Vec<Token<'t>> = self.tokens(text).collect();
        if all.is_empty() && self.are_ngrams() {
            let at = text.iter().rposition(|b| *b == b' ').map_or(0, |at| at + 1);
            let rest = &text[at..];
            all.extend((!rest.is_empty()).then_some(Token { text: rest, at }));
        }
        all
    }
}

/// Where characters begin.
fn char_starts(text: &[u8]) -> impl Iterator<Item = usize> + Clone {
    let following = |at: &usize| {
        let next = at + step(&text[*at..]);
        (next < text.len()).then_some(next)
    };
    std::iter::successors((!text.is_empty()).then_some(0), following)
}

/// All runs of `size` characters without a space.
fn grams(text: &[u8], size: u8) -> impl Iterator<Item = Token<'_>> {
    debug_assert!(size > 0);
    let mut at = 0;
    std::iter::from_fn(move || {
        let (mut end, mut chars) = (at, 0);
        while chars < size {
            if end == text.len() {
                return None;
            }
            if text[end] == b' ' {
                (at, end, chars) = (end + 1, end + 1, 0);
            } else {
                end += step(&text[end..]);
                chars += 1;
            }
        }
        let gram = Token {
            text: &text[at..end],
            at,
        };
        at += step(&text[at..]);
        Some(gram)
    })
}

/// All runs of letters, digits and `_` of a text, however long.
pub(super) fn tokens(text: &[u8]) -> impl Iterator<Item = Token<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < text.len() && !is_word_char(&text[at..]) {
            at += step(&text[at..]);
        }
        let start = at;
        while at < text.len() && is_word_char(&text[at..]) {
            at += step(&text[at..]);
        }
        (start < at).then(|| Token {
            text: &text[start..at],
            at: start,
        })
    })
}

/// Bytes of the character at the beginning of `text`, which is not empty.
fn step(text: &[u8]) -> usize {
    char_len(text).clamp(1, text.len())
}

fn is_word_char(text: &[u8]) -> bool {
    let first = text[0];
    if first.is_ascii() {
        return first.is_ascii_alphanumeric() || first == b'_';
    }
    let decoded = std::str::from_utf8(&text[..step(text)]);
    let decoded = decoded.ok().and_then(|text| text.chars().next());
    decoded.is_some_and(char::is_alphanumeric)
}
