//! Whatever bytes come in, the parser answers.

use esker_types::SqlMode;
use proptest::prelude::*;

use super::corpus::lines;
use crate::digest::{Digest, digest_text};
use crate::lexer::{Lexer, Tok};
use crate::{ParseOptions, parse, parse_at};

const MODES: [SqlMode; 4] = [
    SqlMode::DEFAULT,
    SqlMode::ANSI_QUOTES,
    SqlMode(SqlMode::PIPES_AS_CONCAT.0 | SqlMode::NO_BACKSLASH_ESCAPES.0),
    SqlMode(SqlMode::HIGH_NOT_PRECEDENCE.0 | SqlMode::IGNORE_SPACE.0),
];

/// Feeds `sql` to everything that reads statement text.
fn swallow(sql: &[u8]) {
    for (i, sql_mode) in MODES.into_iter().enumerate() {
        let mut lex = Lexer::new(sql, 0, sql_mode);
        let mut end = 0;
        loop {
            let token = lex.next_token();
            assert!(token.start >= end && token.end <= sql.len(), "{token:?}");
            if token.tok == Tok::Eof {
                break;
            }
            assert!(token.end > token.start, "{token:?}");
            end = token.end;
        }
        let options = ParseOptions {
            sql_mode,
            params: i % 2 == 0,
            multi: true,
            lift: None,
            watch: None,
            ..ParseOptions::default()
        };
        let mut next = Some(0);
        while let Some(start) = next {
            match parse_at(sql, start, options) {
                Ok(parsed) => {
                    assert!(parsed.span.end <= sql.len());
                    assert!(parsed.rest.is_none_or(|rest| rest > start));
                    next = parsed.rest;
                }
                Err(error) => {
                    assert!(error.state.len() == 5 && !error.message.is_empty());
                    next = None;
                }
            }
        }
        digest_text(sql, sql_mode);
        let mut digest = Digest::new();
        if digest.read(sql, sql_mode) {
            for param in digest.params() {
                param.literal(sql, sql_mode);
            }
            let offsets = digest.offsets();
            let options = ParseOptions {
                sql_mode,
                lift: Some(&offsets),
                ..Default::default()
            };
            if let Ok(parsed) = parse(sql, options) {
                assert!(parsed.params as usize <= offsets.len());
            }
        }
    }
}

/// Pieces that make statements go wrong in interesting ways.
const PIECES: &[&str] = &[
    "(", ")", ",", ".", "'", "\"", "`", "/*", "*/", "/*!", "/*!99999", "--", "#", "\n", ";", "@",
    "@@", "0x", "x'", "b'", "1e", "?", "{", "}", "\\", "\0", "\u{e9}", "SELECT", "FROM",
    "INTERVAL", "NOT", "VALUES", "AS", "UNION", "CASE", "JOIN", "ON", ":=", "->", "_utf8mb4",
    "COUNT(", "WITH",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        swallow(&bytes);
    }

    #[test]
    fn random_pieces(picks in proptest::collection::vec(0..PIECES.len(), 0..40)) {
        let text: Vec<&str> = picks.iter().map(|&i| PIECES[i]).collect();
        swallow(text.join(" ").as_bytes());
        swallow(text.concat().as_bytes());
    }

    #[test]
    fn mutated_statements(
        which in 0..10_000usize,
        edits in proptest::collection::vec((any::<u16>(), 0..4u8, 0..PIECES.len()), 1..6),
    ) {
        let all: Vec<&str> = lines().collect();
        let mut sql = all[which % all.len()].as_bytes().to_vec();
        for (place, kind, piece) in edits {
            let at = usize::from(place) % (sql.len() + 1);
            match kind {
                0 => sql.truncate(at),
                1 => { sql.splice(at..at, PIECES[piece].bytes()); }
                2 => { let end = (at + 3).min(sql.len()); sql.drain(at..end); }
                _ => if let Some(b) = sql.get_mut(at) { *b ^= 1 << (piece % 8); },
            }
        }
        swallow(&sql);
    }
}

#[test]
fn every_prefix_of_the_corpus() {
    for line in lines().filter(|l| l.len() < 300) {
        for end in 0..=line.len() {
            let _ = parse(&line.as_bytes()[..end], ParseOptions::default());
        }
    }
}
