//! Searches over a few documents, with the relevance that MySQL 9.7 gave them.

use super::*;
use crate::collation::Collation;
use crate::ctx::NoSession;
use crate::ctx::Work;

const DOCUMENTS: [&str; 10] = [
    "apple banana cherry",
    "apple apple grape",
    "banana",
    "cherry melon don't stop",
    "the quick brown fox",
    "apple banana",
    "melon_seed apple-pie",
    "apple applet applesauce",
    "zebra",
    "yak",
];

fn words() -> Words {
    let rules = WordRules {
        min_chars: 3,
        max_chars: MAX_WORD_CHARS,
        ngram: None,
        stopwords: Stopwords::Default,
    };
    Words::new(Collation::UTF8MB4_0900_AI_CI, rules)
}

/// How many entries an index over the documents would have for each word.
fn frequencies(query: &Query, words: &Words) -> Frequencies {
    let collation = words.collation();
    let mut with_word = vec![0; query.words.len()];
    for document in DOCUMENTS {
        let mut all = std::collections::BTreeSet::new();
        words.each(document.as_bytes(), |key, _| {
            all.insert(key.to_vec());
        });
        for (word, with) in query.words.iter().zip(&mut with_word) {
            let mut prefix = Vec::new();
            collation.prefix_key(&collation.lower(&word.text), &mut prefix);
            let is_it = |key: &&Vec<u8>| match word.is_prefix {
                true => key.starts_with(&prefix),
                false => **key == word.key,
            };
            *with += all.iter().filter(is_it).count() as u64;
        }
    }
    Frequencies {
        documents: DOCUMENTS.len() as u64,
        with_word,
    }
}

/// Number of the document, from 1, and relevance, of those that match.
fn found(text: &str, mode: MatchMode) -> Vec<(usize, f32)> {
    let words = words();
    let query = Query::parse(text.as_bytes(), mode, &words).expect("parses");
    let frequencies = frequencies(&query, &words);
    let search = Search::new(query, words.clone(), &frequencies);
    let leading = search.leading_words();
    let mut work = Work::new(&NoSession);
    let mut out = Vec::new();
    for (at, document) in DOCUMENTS.iter().enumerate() {
        let rank = search
            .relevance(&[document.as_bytes()], &mut work)
            .expect("goes on");
        if rank != 0.0 {
            let leads = leading
                .iter()
                .any(|word| search.has_word(*word, document.as_bytes()));
            assert!(leads, "{text}: {document} has none of the leading words");
            out.push((at + 1, rank));
        }
    }
    out
}

fn check(text: &str, mode: MatchMode, wanted: &[(usize, f32)]) {
    let found = found(text, mode);
    let is_near = |(a, b): (&(usize, f32), &(usize, f32))| a.0 == b.0 && (a.1 - b.1).abs() < 1e-6;
    let same = found.len() == wanted.len() && found.iter().zip(wanted).all(is_near);
    assert!(same, "{text}: {found:?}, not {wanted:?}");
}

#[test]
fn words_are_letters_digits_and_underscores_without_stopwords() {
    let all = |text: &str| {
        let mut all = Vec::new();
        let each = |_: &[u8], word: &[u8]| all.push(String::from_utf8_lossy(word).into_owned());
        words().each(text.as_bytes(), each);
        all.join(" ")
    };
    assert_eq!(
        all("The quick-brown fox_2, isn't in it"),
        "quick brown fox_2 isn"
    );
    assert_eq!(
        all("ab abc Über naïve 日本語 x1y"),
        "abc Über naïve 日本語 x1y"
    );
    assert_eq!(all(&"x".repeat(84)).len(), 84);
    assert_eq!(all(&"x".repeat(85)), "");
    let mut malformed = 0;
    words().each(b"abc\xff\xfedef \xe6\x97", |_, _| malformed += 1);
    assert_eq!(malformed, 2);
}

#[test]
fn natural_language_has_mysqls_relevance() {
    let natural = MatchMode::Natural;
    let apple = [
        (1, 0.090619),
        (2, 0.181238),
        (6, 0.090619),
        (7, 0.090619),
        (8, 0.090619),
    ];
    check("apple", natural, &apple);
    check("APPLE", natural, &apple);
    check(
        "apple banana cherry melon",
        natural,
        &[
            (1, 0.85258),
            (2, 0.181238),
            (3, 0.273402),
            (4, 1.488559),
            (6, 0.364021),
            (7, 0.090619),
            (8, 0.090619),
        ],
    );
    // Named twice, it counts as in twice as many documents: in all of them.
    let twice = found("apple apple", natural);
    assert_eq!(twice[1], (2, 3.771_856_6e-9));
    check("\"apple banana\"", natural, &[(1, 0.364021), (6, 0.364021)]);
    check("appl*", natural, &[]);
    check("the", natural, &[]);
    check("", natural, &[]);
}

#[test]
fn boolean_operators_have_mysqls_relevance() {
    let check = |text, wanted: &[(usize, f32)]| check(text, MatchMode::Boolean, wanted);
    check("+apple +banana", &[(1, 0.364021), (6, 0.364021)]);
    check(
        "apple +banana",
        &[(1, 0.364021), (3, 0.273402), (6, 0.364021)],
    );
    check(
        "apple -banana",
        &[(2, 0.181238), (7, 0.090619), (8, 0.090619)],
    );
    check(
        "+apple >banana",
        &[
            (1, 1.364021),
            (2, 0.181238),
            (6, 1.364021),
            (7, 0.090619),
            (8, 0.090619),
        ],
    );
    check(
        "<apple <banana <cherry",
        &[
            (1, -0.14742),
            (2, -0.818762),
            (3, -0.726598),
            (4, -0.511441),
            (6, -0.635979),
            (7, -0.909381),
            (8, -0.909381),
        ],
    );
    // Against what is in already; terms with + come later.
    check(
        "+apple ~banana",
        &[
            (1, 0.090619),
            (2, 0.181238),
            (6, 0.090619),
            (7, 0.090619),
            (8, 0.090619),
        ],
    );
    check(
        "+apple cherry ~banana",
        &[
            (1, -0.14742),
            (2, 0.181238),
            (6, 0.090619),
            (7, 0.090619),
            (8, 0.090619),
        ],
    );
    check("~apple", &[]);
    check("-apple", &[]);
    // Of the words of a prefix the first one counts.
    check(
        "appl*",
        &[
            (1, 0.0239946),
            (2, 0.0479892),
            (6, 0.0239946),
            (7, 0.0239946),
            (8, 0.0239946),
        ],
    );
    check(
        "+apple +(>banana <grape)",
        &[(1, 1.364021), (2, 0.181238), (6, 1.364021)],
    );
    check(
        "+(+apple -banana) zebra",
        &[(2, 0.181238), (7, 0.090619), (8, 0.090619)],
    );
    // A word that no index has is never there.
    check("+apple +the", &[]);
    check("+apple +zz", &[]);
    check(
        "apple the",
        &[
            (1, 0.090619),
            (2, 0.181238),
            (6, 0.090619),
            (7, 0.090619),
            (8, 0.090619),
        ],
    );
}

#[test]
fn phrases_are_runs_of_all_words_and_distances_count_them() {
    let check = |text, wanted: &[(usize, f32)]| check(text, MatchMode::Boolean, wanted);
    check("\"apple pie\"", &[(7, 1.090619)]);
    check("\"the quick\"", &[(5, 1.0)]);
    check("\"don't\"", &[(4, 1.0)]);
    check("\"quick lazy brown\"", &[]);
    check("\"quick the brown\"", &[]);
    check("\"banana apple\"", &[]);
    check("\"banana apple\"@2", &[(1, 0.364021), (6, 0.364021)]);
    check("\"apple cherry\"@2", &[]);
    check("\"apple cherry\" @3", &[(1, 0.579178)]);
    check("\"\"", &[]);
    check(
        "-\"apple banana\" apple",
        &[(2, 3.77e-9), (7, 1.8e-9), (8, 1.8e-9)],
    );
}

#[test]
fn operators_that_stand_where_they_cannot_are_errors() {
    let refused = |text: &str| {
        let parsed = Query::parse(text.as_bytes(), MatchMode::Boolean, &words());
        parsed.expect_err("is refused").message
    };
    assert_eq!(refused("++apple"), "syntax error, unexpected '+'");
    assert_eq!(refused("apple(banana"), "syntax error, unexpected $end");
    assert_eq!(
        refused("apple@3"),
        "syntax error, unexpected '@', expecting $end"
    );
    let star = "syntax error, unexpected $end, expecting FTS_TERM or FTS_NUMB or '*'";
    assert_eq!(refused("*"), star);
    refused(&"(".repeat(100_000));
}
