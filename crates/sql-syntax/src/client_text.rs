//! Statements of clients whose character set is not UTF-8: read in that set, handed on in UTF-8.
//!
//! MySQL divides a statement while it is in the client's set: in a literal or quoted name a code of several bytes is
//! taken whole, a backslash escapes one byte, and only then the text is converted. A statement that is converted first
//! is another one where half of a code is a backslash or a quote, which lets an escaped text end its literal. So the
//! lexer runs over the client's bytes here, and each token is converted into one of UTF-8 that is read as the same.
//!
//! Neighbours: `lexer` divides, `session` asks for one statement after the other; everything behind sees UTF-8.
//! **Invariants**
//! - The lexer finds in the result the tokens that it found in the client's bytes, with the same ends.
//! - Of a code, no byte of ASCII is left outside of a literal that says so by an escape.
//! - Any bytes give a result; it is as long as a few times their number.

use std::fmt::Write as _;
use std::iter;

use esker_types::SqlMode;
use esker_types::collation::Charset;

use super::keyword::Kw;
use super::lexer::{Lexer, Tok, Token};
use super::literal::push_escaped;

/// Stands outside of literals for what is no character.
const NO_CHARACTER: char = char::REPLACEMENT_CHARACTER;

/// How a client writes.
#[derive(Debug, Clone, Copy)]
pub struct ClientText {
    /// `character_set_client`.
    pub charset: Charset,
    /// `character_set_connection`: bytes that are no text are kept where nothing is to be converted.
    pub connection: Charset,
    /// Quotes and backslashes.
    pub sql_mode: SqlMode,
    /// More statements may follow a `;`.
    pub multi: bool,
}

impl ClientText {
    /// The first statement of `raw` in UTF-8, with the `;` that ends it, and how many bytes of `raw` it is.
    pub fn first_statement(self, raw: &[u8]) -> (Vec<u8>, usize) {
        let mut reader = Reader {
            raw,
            how: self,
            out: Vec::with_capacity(raw.len() + raw.len() / 2),
        };
        let done = reader.statement();
        (reader.out, done)
    }
}

/// A piece of what stands between quotes.
#[derive(Debug, Clone, Copy)]
enum Unit<'a> {
    /// A code of several bytes.
    Code(&'a [u8]),
    /// A backslash and this byte.
    Escape(u8),
    /// The quote twice.
    Quote,
    /// A byte for itself.
    Byte(u8),
}

/// A literal that was read.
struct Literal {
    /// The bytes that it stands for, in the client's set.
    value: Vec<u8>,
    /// The same literal in UTF-8, piece by piece; None where a piece is no character.
    text: Option<String>,
}

impl Literal {
    fn is_text(&self, charset: Charset) -> bool {
        self.text.is_some() || charset.decode(&self.value).is_ok()
    }

    /// Does its text give the same bytes when it is converted back?
    fn is_faithful(&self, charset: Charset) -> bool {
        let text = charset.decode(&self.value);
        text.is_ok_and(|text| {
            charset
                .encode(&text)
                .is_ok_and(|bytes| *bytes == self.value)
        })
    }
}

struct Reader<'a> {
    raw: &'a [u8],
    how: ClientText,
    out: Vec<u8>,
}

/// Does CREATE with this word make something with a body?
fn begins_program(tok: Tok) -> bool {
    matches!(tok, Tok::Word(Kw::PROCEDURE | Kw::FUNCTION | Kw::TRIGGER))
}

impl<'a> Reader<'a> {
    /// Reads up to the end of the statement: its place.
    fn statement(&mut self) -> usize {
        let mut lexer = Lexer::new(self.raw, 0, self.how.sql_mode).in_charset(self.how.charset);
        let mut before = Tok::Eof;
        let mut done = 0;
        // Where the body of a stored program ends, the parser knows.
        let (mut creates, mut has_body) = (None, false);
        loop {
            let token = lexer.next_token();
            let creates = *creates.get_or_insert(token.tok == Tok::Word(Kw::CREATE));
            has_body |= creates && begins_program(token.tok);
            self.plain(&self.raw[done..token.start]);
            done = token.end;
            let bytes = &self.raw[token.start..token.end];
            match token.tok {
                Tok::Eof => {
                    self.plain(&self.raw[token.start..]);
                    return self.raw.len();
                }
                Tok::Semicolon if self.how.multi && !has_body => {
                    self.out.push(b';');
                    return done;
                }
                Tok::Str => done = self.literals(&mut lexer, token, before),
                Tok::NStr => {
                    self.out.push(bytes[0]);
                    let literal = self.literal(&bytes[1..]);
                    self.text(&literal, bytes[1]);
                }
                Tok::Quoted => {
                    self.quoted(bytes, false);
                    self.out.push(bytes[0]);
                }
                Tok::Bad if matches!(bytes[0], b'\'' | b'"' | b'`') => {
                    self.quoted(bytes, self.has_escapes(bytes[0]));
                }
                Tok::AtName => {
                    self.out.push(bytes[0]);
                    self.characters(&bytes[1..], NO_CHARACTER);
                }
                Tok::Word(_) | Tok::Bad => self.characters(bytes, NO_CHARACTER),
                _ => self.out.extend_from_slice(bytes),
            }
            before = token.tok;
        }
    }

    /// One literal or adjacent ones behind a token `before`, of which the first was read: where they end.
    fn literals(&mut self, lexer: &mut Lexer<'a>, first: Token, before: Tok) -> usize {
        let quoted = |token: Token| &self.raw[token.start..token.end];
        let mut all = vec![(first, self.literal(quoted(first)))];
        loop {
            let mut ahead = *lexer;
            let token = ahead.next_token();
            if token.tok != Tok::Str {
                break;
            }
            all.push((token, self.literal(quoted(token))));
            *lexer = ahead;
        }
        let end = all.last().map_or(first.end, |(token, _)| token.end);
        let charset = self.how.charset;
        let mut literals = all.iter().map(|(_, literal)| literal);
        let as_bytes = match before {
            // As bytes they are the same wherever the statement is repeated: in the binary log, in the text of a view.
            Tok::Introducer => !literals.all(|l| l.value.is_ascii() && l.is_faithful(charset)),
            // A name.
            Tok::At => false,
            _ => charset == self.how.connection && !literals.all(|l| l.is_text(charset)),
        };
        if as_bytes {
            let value = all.iter().flat_map(|(_, literal)| &literal.value);
            self.hex(value, before == Tok::Introducer);
            return end;
        }
        let mut done = first.start;
        for (token, literal) in &all {
            self.plain(&self.raw[done..token.start]);
            self.text(literal, self.raw[token.start]);
            done = token.end;
        }
        end
    }

    /// Reads a literal with its quotes.
    fn literal(&self, quoted: &[u8]) -> Literal {
        let charset = self.how.charset;
        let mut value = Vec::with_capacity(quoted.len());
        let mut text = Some(String::with_capacity(quoted.len() + quoted.len() / 2));
        for unit in self.units(quoted, self.escapes()) {
            let piece = match unit {
                Unit::Code(code) => {
                    value.extend_from_slice(code);
                    let c = charset.decode_first(code).0;
                    c.filter(|c| !c.is_ascii()).map(|c| (None, c))
                }
                Unit::Escape(c) => {
                    push_escaped(c, &mut value);
                    let itself = charset.decode_first(&[c]).0 == Some(char::from(c));
                    (itself && c.is_ascii()).then_some((Some('\\'), char::from(c)))
                }
                Unit::Quote => {
                    value.push(quoted[0]);
                    Some((Some(char::from(quoted[0])), char::from(quoted[0])))
                }
                Unit::Byte(byte) => {
                    value.push(byte);
                    let c = charset.decode_first(&[byte]).0;
                    // In armscii8 there are more bytes for a quote than one.
                    let c = c.filter(|c| !c.is_ascii() || byte.is_ascii());
                    c.map(|c| (None, c))
                }
            };
            match (piece, &mut text) {
                (Some((before, c)), Some(text)) => text.extend(before.into_iter().chain([c])),
                _ => text = None,
            }
        }
        Literal { value, text }
    }

    /// Do backslashes escape in literals?
    fn escapes(&self) -> bool {
        !self.how.sql_mode.has(SqlMode::NO_BACKSLASH_ESCAPES)
    }

    /// Do they behind this quote?
    fn has_escapes(&self, quote: u8) -> bool {
        let ansi = self.how.sql_mode.has(SqlMode::ANSI_QUOTES);
        self.escapes() && (quote == b'\'' || (quote == b'"' && !ansi))
    }

    /// What stands between the quotes of `quoted`, or behind its first one where there is no other.
    fn units<'q>(
        &self,
        quoted: &'q [u8],
        escapes: bool,
    ) -> impl Iterator<Item = Unit<'q>> + use<'q> {
        let quote = quoted[0];
        let charset = self.how.charset;
        let mut rest = &quoted[1..];
        iter::from_fn(move || {
            let (unit, len) = match *rest {
                [] => return None,
                [b'\\', c, ..] if escapes => (Unit::Escape(c), 2),
                [first, second, ..] if first == quote && second == quote => (Unit::Quote, 2),
                [first] if first == quote => return None,
                [first, ..] => match charset.code_len(rest) {
                    0 => (Unit::Byte(first), 1),
                    len => (Unit::Code(&rest[..len]), len),
                },
            };
            rest = &rest[len..];
            Some(unit)
        })
    }

    /// A literal as text between quotes.
    fn text(&mut self, literal: &Literal, quote: u8) {
        self.out.push(quote);
        if let Some(text) = &literal.text {
            self.out.extend_from_slice(text.as_bytes());
        } else {
            let escapes = self.escapes();
            for byte in self.how.charset.decode_lossy(&literal.value).iter() {
                if *byte == quote || (escapes && *byte == b'\\') {
                    self.out.push(*byte);
                }
                self.out.push(*byte);
            }
        }
        self.out.push(quote);
    }

    /// Bytes that are no text, as a literal.
    fn hex<'v>(&mut self, value: impl Iterator<Item = &'v u8>, introduced: bool) {
        let mut literal = String::from(if introduced { " X'" } else { " _binary X'" });
        for byte in value {
            // Writing to a string does not fail.
            let _ = write!(literal, "{byte:02X}");
        }
        literal.push('\'');
        self.out.extend_from_slice(literal.as_bytes());
    }

    /// A quote and what stands behind it, as far as it goes: nothing in it closes the quote.
    fn quoted(&mut self, bytes: &[u8], escapes: bool) {
        let quote = bytes[0];
        self.out.push(quote);
        for unit in self.units(bytes, escapes) {
            match unit {
                Unit::Code(code) => self.characters(code, '?'),
                Unit::Escape(c) if c.is_ascii() => self.out.extend([b'\\', c]),
                Unit::Escape(_) => self.out.extend(b"\\?"),
                Unit::Quote => self.out.extend([quote, quote]),
                Unit::Byte(byte) => self.characters(&[byte], '?'),
            }
        }
    }

    /// White space, comments and punctuation: ASCII stays what it is.
    fn plain(&mut self, bytes: &[u8]) {
        if self.how.charset.keeps_ascii() {
            self.characters(bytes, '?');
        } else {
            let ascii = |b: &u8| if b.is_ascii() { *b } else { b'?' };
            self.out.extend(bytes.iter().map(ascii));
        }
    }

    /// Characters, and `none` for what is none. No code becomes ASCII, such as a quote or a backslash.
    fn characters(&mut self, bytes: &[u8], none: char) {
        let charset = self.how.charset;
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if first.is_ascii() && charset.keeps_ascii() {
                self.out.push(*first);
                rest = &rest[1..];
                continue;
            }
            let len = charset.code_len(rest).max(1);
            let c = charset.decode_first(&rest[..len]).0;
            let c = c.filter(|c| !c.is_ascii() || first.is_ascii());
            let c = c.unwrap_or(none);
            self.out
                .extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            rest = &rest[len..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn how(charset: Charset) -> ClientText {
        ClientText {
            charset,
            connection: charset,
            sql_mode: SqlMode::default(),
            multi: false,
        }
    }

    fn read(how: ClientText, raw: &[u8]) -> String {
        let (text, done) = how.first_statement(raw);
        assert_eq!(done, raw.len());
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn half_of_a_code_ends_no_literal() {
        let gbk = how(Charset::Gbk);
        assert_eq!(read(gbk, b"SELECT '\xBF\\', 1"), "SELECT '縗', 1");
        // What a client of latin1 would have escaped: the quote is not.
        assert_eq!(read(gbk, b"SELECT '\xBF\\' OR 1"), "SELECT '縗' OR 1");
        assert_eq!(read(gbk, b"SELECT 'a\\'\xD6\xD0'''"), "SELECT 'a\\'中'''");
        assert_eq!(
            read(how(Charset::Euckr), b"'\xBF\\' '"),
            " _binary X'BF2720'"
        );
        assert_eq!(read(gbk, b"`a\xBF``"), "`a縛`");
        assert_eq!(read(gbk, b"/* \xBF*/ 1 -- \xBF\n"), "/* ?*/ 1 -- ?\n");
    }

    #[test]
    fn another_byte_for_a_quote_ends_no_literal() {
        let armenian = how(Charset::Armscii8);
        assert_eq!(read(armenian, b"'a\xFF', 5 -- ')"), "'a''', 5 -- ')");
        assert_eq!(read(armenian, b"\"a\xFF\""), "\"a'\"");
    }

    #[test]
    fn literals_behind_introducers_are_bytes() {
        let gbk = how(Charset::Gbk);
        assert_eq!(read(gbk, b"_gbk'\xD6\xD0'"), "_gbk X'D6D0'");
        assert_eq!(
            read(how(Charset::Latin1), b"_latin1'\xE9'"),
            "_latin1 X'E9'"
        );
        assert_eq!(read(gbk, b"_gbk'a'"), "_gbk'a'");
    }

    /// From a client of UTF-8 they come as they are, and need be no text.
    #[test]
    fn introduced_bytes_of_utf8_stay() {
        use crate::ast::{Expr, Literal, QueryBody, SelectItem, Statement};
        let options = crate::ParseOptions::default();
        let parsed = crate::parse(b"SELECT _binary'\xff\xfe\x80a'", options).unwrap();
        let Statement::Query(query) = parsed.stmt else {
            panic!("a query");
        };
        let QueryBody::Select(select) = query.body else {
            panic!("a SELECT");
        };
        assert!(matches!(
            &select.items[..],
            [SelectItem::Expr { expr: Expr::Literal(Literal::Str { bytes, .. }), .. }]
                if bytes[..] == b"\xff\xfe\x80a"[..]
        ));
    }

    #[test]
    fn a_code_that_is_a_backslash_is_escaped() {
        let sjis = how(Charset::Sjis);
        assert_eq!(read(sjis, b"'\x81\x5F'"), r"'\\'");
        assert_eq!(read(sjis, b"'\x81\x5F"), "'?");
        let plain = ClientText {
            sql_mode: SqlMode::NO_BACKSLASH_ESCAPES,
            ..sjis
        };
        assert_eq!(read(plain, b"'\x81\x5F\\'"), r"'\\'");
        // As it is for the set that an introducer names.
        assert_eq!(read(sjis, b"_sjis'\x5C\x5C'"), r"_sjis'\\'");
        assert_eq!(read(sjis, b"_sjis'\x81\x5F'"), "_sjis X'815F'");
    }

    #[test]
    fn escapes_are_of_single_bytes() {
        let gbk = how(Charset::Gbk);
        assert_eq!(read(gbk, b"'\\\xBF\\\\n'"), "'縗n'");
        let other = ClientText {
            connection: Charset::Utf8mb4,
            ..gbk
        };
        assert_eq!(read(other, b"'\xFF\xFF\\''"), "'?'''");
        assert_eq!(read(gbk, b"_binary'\xFF' 'a'"), "_binary X'FF61'");
        assert_eq!(read(gbk, b"N'\xFF'"), "N'?'");
    }

    #[test]
    fn statements_are_read_one_by_one() {
        let multi = ClientText {
            multi: true,
            ..how(Charset::Gbk)
        };
        let raw = b"SELECT ';\xBF;'; SELECT 2";
        let (text, done) = multi.first_statement(raw);
        assert_eq!(text, b"SELECT  _binary X'3BBF3B';");
        assert_eq!(&raw[done..], b" SELECT 2");
    }

    /// Whatever the bytes: the tokens of the result end where those of the client's text end.
    #[test]
    fn tokens_stay_the_same() {
        const PIECES: &[&[u8]] = &[
            b"'",
            b"'",
            b"\"",
            b"`",
            b"\\",
            b"\\",
            b"\xBF",
            b"\x81",
            b"\x5F",
            b"\x8F",
            b"\xA1",
            b"\xFF",
            b"a",
            b"_gbk",
            b" ",
            b"/*",
            b"*/",
            b"/*!99999 ",
            b"-- ",
            b"\n",
            b";",
            b"n",
            b"@",
            b",",
        ];
        let mut seed = 1u64;
        let mut random = move |below: usize| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        let kinds = |lexer: Lexer<'_>| {
            let mut lexer = lexer;
            let tokens = iter::from_fn(move || Some(lexer.next_token().tok));
            // A literal of bytes is written in two tokens or one, and adjacent literals as one.
            let mut kinds: Vec<Tok> = Vec::new();
            for tok in tokens.take_while(|tok| *tok != Tok::Eof) {
                let tok = if tok == Tok::HexStr { Tok::Str } else { tok };
                match (kinds.last(), tok) {
                    (Some(Tok::Str | Tok::Introducer), Tok::Str) => {
                        kinds.pop();
                        kinds.push(Tok::Str);
                    }
                    _ => kinds.push(tok),
                }
            }
            kinds
        };
        for _ in 0..20_000 {
            let pieces: Vec<&[u8]> = (0..random(12))
                .map(|_| PIECES[random(PIECES.len())])
                .collect();
            let raw = pieces.concat();
            let charsets = [
                Charset::Gbk,
                Charset::Sjis,
                Charset::Ujis,
                Charset::Euckr,
                Charset::Armscii8,
                Charset::Latin1,
            ];
            let charset = charsets[random(charsets.len())];
            for sql_mode in [
                SqlMode::default(),
                SqlMode::ANSI_QUOTES,
                SqlMode::NO_BACKSLASH_ESCAPES,
            ] {
                let how = ClientText {
                    sql_mode,
                    ..how(charset)
                };
                let text = read(how, &raw);
                let before = Lexer::new(&raw, 0, sql_mode).in_charset(charset);
                let after = Lexer::new(text.as_bytes(), 0, sql_mode);
                assert_eq!(
                    kinds(before),
                    kinds(after),
                    "{raw:?} in {charset:?}: {text}"
                );
            }
        }
    }
}
