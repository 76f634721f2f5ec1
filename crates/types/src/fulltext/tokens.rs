//! The tokenizer: letters, digits and `_` make words; everything else stands between them.
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

/// The words of `INFORMATION_SCHEMA.INNODB_FT_DEFAULT_STOPWORD`, in its order.
pub const DEFAULT_STOPWORDS: [&str; 36] = [
    "a", "about", "an", "are", "as", "at", "be", "by", "com", "de", "en", "for", "from", "how",
    "i", "in", "is", "it", "la", "of", "on", "or", "that", "the", "this", "to", "was", "what",
    "when", "where", "who", "will", "with", "und", "the", "www",
];

/// Which words an index has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WordRules {
    /// Characters of the shortest word.
    pub min_chars: u8,
    /// Characters of the longest word.
    pub max_chars: u8,
    /// Stopwords are left out.
    pub stopwords: bool,
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
        if rules.stopwords {
            let keys = DEFAULT_STOPWORDS
                .iter()
                .map(|word| words.key(word.as_bytes()));
            words.stopwords = Arc::new(keys.map(Vec::into_boxed_slice).collect());
        }
        words
    }

    /// The rules.
    pub fn rules(&self) -> WordRules {
        self.rules
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
        (usize::from(self.rules.min_chars)..=usize::from(self.rules.max_chars)).contains(&chars)
    }

    /// Is it too long for the index?
    pub(super) fn is_too_long(&self, word: &[u8]) -> bool {
        char_count(word) > usize::from(self.rules.max_chars)
    }

    /// Is it a word that no index has?
    pub(super) fn is_stopword(&self, key: &[u8]) -> bool {
        self.stopwords.contains(key)
    }

    /// The key of a word, if an index has such words.
    pub(super) fn indexed_key(&self, word: &[u8]) -> Option<Vec<u8>> {
        let key = self.has_length(word).then(|| self.key(word))?;
        (!self.is_stopword(&key)).then_some(key)
    }

    /// Calls `f` with the key of each word of a text that an index has, and with the word.
    pub fn each(&self, text: &[u8], mut f: impl FnMut(&[u8], &[u8])) {
        let mut key = Vec::new();
        for token in tokens(text) {
            if !self.has_length(token.text) {
                continue;
            }
            self.write_key(token.text, &mut key);
            if !self.is_stopword(&key) {
                f(&key, token.text);
            }
        }
    }
}

/// All words of a text, however long.
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
