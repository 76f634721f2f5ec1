//! The relevance of a document: tf * idf * idf, summed over the words that the query finds in it.
//!
//! tf is how often the document has the word, idf the logarithm of all documents by those that have it, as in InnoDB.
//! The operators of the query are evaluated in InnoDB's order: first the optional terms from left to right, then those
//! that must be there, then those that must not.
//! Neighbours: `sql-exec` counts the documents of each word of [`Query`] and hands the result over as [`Frequencies`];
//! it reads the documents of [`Search::leading_words`] where a condition asks for all that match.
//!
//! **Invariant**: a document that [`Search::relevance`] gives a value has one of the leading words.

use std::collections::{BTreeMap, HashMap};

use super::query::{Operator, Phrase, Query, Term, TermKind};
use super::tokens::Words;
use crate::SqlResult;
use crate::collation::{char_count, char_offset};
use crate::ctx::Work;

/// `log10` of this stands for idf where every document has the word.
const EVERYWHERE: f64 = 1.0001;
/// What `>` and `<` add to the relevance; it stays between their bounds.
const ADJUSTMENT: f32 = 1.0;

/// How many documents there are.
#[derive(Debug, Clone, Default)]
pub struct Frequencies {
    /// All documents.
    pub documents: u64,
    /// Documents with each word of the query; those of a prefix once for every word that begins with it.
    pub with_word: Vec<u64>,
}

/// A query with what is needed to judge documents.
#[derive(Debug)]
pub struct Search {
    query: Query,
    words: Words,
    /// idf of each word.
    idf: Vec<f64>,
    /// For each word the first of the same text: word and prefix are one to the ranking.
    firsts: Vec<usize>,
    with_word: Vec<u64>,
    /// What tokens of documents are looked up in: the number of every key that the query names.
    numbers: HashMap<Vec<u8>, usize>,
    has_prefixes: bool,
    has_phrases: bool,
}

/// What the query asks about a document.
#[derive(Default)]
struct Document {
    /// How often it has each word of the query.
    counts: Vec<u64>,
    /// For prefixes: the least key among the words that begin with it, whose count it is.
    least: Vec<Vec<u8>>,
    /// Its tokens, by the number that the query gives them.
    tokens: Vec<Option<usize>>,
    /// Where its columns end among them.
    ends: Vec<usize>,
}

impl Document {
    /// The tokens of each column.
    fn columns(&self) -> impl Iterator<Item = &[Option<usize>]> {
        debug_assert!(self.ends.is_sorted());
        let begins = std::iter::once(&0).chain(&self.ends);
        begins
            .zip(&self.ends)
            .map(|(&from, &to)| &self.tokens[from..to])
    }
}

/// How far a document has come.
#[derive(Default)]
struct Standing {
    is_in: bool,
    adjustment: f32,
    /// Words that count, some of them several times.
    words: Vec<usize>,
}

impl Search {
    /// A query over an index whose words these are.
    pub fn new(query: Query, words: Words, frequencies: &Frequencies) -> Self {
        debug_assert_eq!(query.words.len(), frequencies.with_word.len());
        // Prefix and word of the same text are one word to the ranking, and each time it is named it counts anew.
        let mut sums: HashMap<&[u8], u64> = HashMap::new();
        for (word, with) in query.words.iter().zip(&frequencies.with_word) {
            *sums.entry(&word.key).or_default() += with * word.times;
        }
        let all = frequencies.documents;
        let idf = query.words.iter().map(|word| match sums[&*word.key] {
            0 => 0.0,
            with if with == all => EVERYWHERE.log10(),
            with => (all as f64 / with as f64).log10(),
        });
        let idf = idf.collect();
        let firsts = (0..query.words.len()).map(|at| query.first_place(at));
        let firsts = firsts.collect();
        let mut search = Self {
            numbers: HashMap::new(),
            has_prefixes: query.words.iter().any(|w| w.is_prefix),
            has_phrases: has_phrases(&query.terms),
            with_word: frequencies.with_word.clone(),
            query,
            words,
            idf,
            firsts,
        };
        search.number();
        search
    }

    /// Words of the list have their places as numbers, other tokens of phrases those behind.
    fn number(&mut self) {
        for (at, word) in self.query.words.iter().enumerate() {
            if !word.is_prefix {
                self.numbers.insert(word.key.clone(), at);
            }
        }
        let mut next = self.query.words.len();
        each_phrase(&self.query.terms, &mut |phrase| {
            for key in &phrase.tokens {
                if !self.numbers.contains_key(key) {
                    self.numbers.insert(key.clone(), next);
                    next += 1;
                }
            }
        });
    }

    /// The query.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// The relevance of the document of these texts, one per column; 0: it does not match.
    ///
    /// # Errors
    /// The statement is killed or out of time.
    pub fn relevance(&self, texts: &[&[u8]], work: &mut Work<'_>) -> SqlResult<f32> {
        let document = self.read(texts, work)?;
        let mut standing = Standing::default();
        self.judge(&self.query.terms, &document, &mut standing);
        if !standing.is_in {
            return Ok(0.0);
        }
        let mut rank = standing.adjustment;
        // What stands for the same word counts once.
        let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
        for word in standing.words {
            let count = counts.entry(self.firsts[word]).or_default();
            *count = (*count).max(document.counts[word]);
        }
        for (word, count) in counts {
            let weight = count as f64 * self.idf[word];
            rank += (weight * self.idf[word]) as f32;
        }
        Ok(rank)
    }

    fn read(&self, texts: &[&[u8]], work: &mut Work<'_>) -> SqlResult<Document> {
        let words = self.query.words.len();
        let mut document = Document {
            counts: vec![0; words],
            least: vec![Vec::new(); if self.has_prefixes { words } else { 0 }],
            tokens: Vec::new(),
            ends: Vec::with_capacity(texts.len()),
        };
        for text in texts {
            for token in self.words.tokens(text) {
                work.done(token.text.len())?;
                let key = self.words.key(token.text);
                let number = self.numbers.get(&key).copied();
                if let Some(word) = number.filter(|n| *n < words) {
                    document.counts[word] += 1;
                }
                if self.has_phrases {
                    document.tokens.push(number);
                }
                if self.has_prefixes {
                    self.count_prefixes(token.text, key, &mut document);
                }
            }
            document.ends.push(document.tokens.len());
        }
        Ok(document)
    }

    /// Of the words that begin with a prefix the first one counts.
    fn count_prefixes(&self, text: &[u8], key: Vec<u8>, document: &mut Document) {
        if self.words.indexed_key(text).is_none() {
            return;
        }
        let collation = self.words.collation();
        for (at, word) in self.query.words.iter().enumerate() {
            let head = &text[..char_offset(text, char_count(&word.text))];
            if !word.is_prefix
                || !collation.eq(&self.words.folded(head), &self.words.folded(&word.text))
            {
                continue;
            }
            let least = &mut document.least[at];
            if document.counts[at] == 0 || key < *least {
                (document.counts[at], *least) = (1, key.clone());
            } else if key == *least {
                document.counts[at] += 1;
            }
        }
    }

    fn judge(&self, terms: &[Term], document: &Document, standing: &mut Standing) {
        for term in terms {
            match term.operator {
                Operator::Exist | Operator::Ignore => {}
                Operator::Negate if !standing.is_in => {}
                operator => {
                    if self.find(term, document, standing) {
                        standing.is_in = true;
                        standing.adjust(match operator {
                            Operator::Increase => ADJUSTMENT,
                            Operator::Negate | Operator::Decrease => -ADJUSTMENT,
                            _ => 0.0,
                        });
                    }
                }
            }
        }
        let mut needed = terms
            .iter()
            .filter(|t| t.operator == Operator::Exist)
            .peekable();
        if needed.peek().is_some() {
            standing.is_in = needed.all(|term| self.find(term, document, standing));
        }
        let mut refused = terms.iter().filter(|t| t.operator == Operator::Ignore);
        if standing.is_in {
            let mut aside = Standing::default();
            standing.is_in = !refused.any(|term| self.find(term, document, &mut aside));
        }
    }

    /// Does the document have it? What counts is noted.
    fn find(&self, term: &Term, document: &Document, standing: &mut Standing) -> bool {
        match &term.kind {
            TermKind::Word(None) => false,
            TermKind::Word(Some(word)) => {
                let has_it = document.counts[*word] > 0;
                if has_it {
                    standing.words.push(*word);
                }
                has_it
            }
            TermKind::Phrase(phrase) => {
                let has_it = self.has_phrase(phrase, document);
                if has_it {
                    standing.words.extend(&phrase.words);
                }
                has_it
            }
            TermKind::Group(terms) => {
                let mut inner = Standing::default();
                self.judge(terms, document, &mut inner);
                if inner.is_in {
                    standing.words.append(&mut inner.words);
                    standing.adjust(inner.adjustment);
                }
                inner.is_in
            }
        }
    }

    fn has_phrase(&self, phrase: &Phrase, document: &Document) -> bool {
        if phrase.words.is_empty() || phrase.words.iter().any(|w| document.counts[*w] == 0) {
            return false;
        }
        match phrase.distance {
            None => {
                let wanted = phrase
                    .tokens
                    .iter()
                    .map(|key| self.numbers.get(key).copied());
                let wanted: Vec<Option<usize>> = wanted.collect();
                let has_run = |column: &[Option<usize>]| {
                    let mut runs = column.windows(wanted.len());
                    runs.any(|run| run == wanted)
                };
                document.columns().any(has_run)
            }
            // Columns follow each other as if they were one text.
            Some(distance) => is_near(&phrase.words, &document.tokens, distance),
        }
    }

    /// Has a text this word of the query?
    #[cfg(test)]
    pub(super) fn has_word(&self, word: usize, text: &[u8]) -> bool {
        let session = crate::ctx::NoSession;
        let read = self.read(&[text], &mut Work::new(&session));
        read.is_ok_and(|document| document.counts[word] > 0)
    }

    /// Words of which every document that matches has one.
    pub fn leading_words(&self) -> Vec<usize> {
        let mut words = self.leading(&self.query.terms);
        words.sort_unstable();
        words.dedup();
        words
    }

    fn leading(&self, terms: &[Term]) -> Vec<usize> {
        let of = |term: &Term| match &term.kind {
            TermKind::Word(word) => word.iter().copied().collect(),
            TermKind::Phrase(phrase) => {
                let rarest = phrase.words.iter().min_by_key(|w| self.with_word[**w]);
                rarest.into_iter().copied().collect()
            }
            TermKind::Group(terms) => self.leading(terms),
        };
        let documents = |words: &Vec<usize>| words.iter().map(|w| self.with_word[*w]).sum::<u64>();
        let needed = terms.iter().filter(|t| t.operator == Operator::Exist);
        if let Some(rarest) = needed.map(of).min_by_key(documents) {
            return rarest;
        }
        let brings = |t: &&Term| !matches!(t.operator, Operator::Ignore | Operator::Negate);
        terms.iter().filter(brings).flat_map(of).collect()
    }
}

impl Standing {
    fn adjust(&mut self, by: f32) {
        self.adjustment = (self.adjustment + by).clamp(-ADJUSTMENT, ADJUSTMENT);
    }
}

/// Does a run of `distance` tokens have all the words?
fn is_near(words: &[usize], tokens: &[Option<usize>], distance: usize) -> bool {
    let mut last: Vec<Option<usize>> = vec![None; words.len()];
    for (at, token) in tokens.iter().enumerate() {
        let mut is_wanted = false;
        for (word, last) in words.iter().zip(&mut last) {
            if *token == Some(*word) {
                *last = Some(at);
                is_wanted = true;
            }
        }
        if is_wanted
            && let Some(first) = last.iter().copied().min().flatten()
            && at - first < distance
        {
            return true;
        }
    }
    false
}

fn each_phrase(terms: &[Term], f: &mut impl FnMut(&Phrase)) {
    for term in terms {
        match &term.kind {
            TermKind::Word(_) => {}
            TermKind::Phrase(phrase) => f(phrase),
            TermKind::Group(terms) => each_phrase(terms, f),
        }
    }
}

fn has_phrases(terms: &[Term]) -> bool {
    let mut found = false;
    each_phrase(terms, &mut |_| found = true);
    found
}
