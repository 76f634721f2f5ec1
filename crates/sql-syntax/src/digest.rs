//! Statement text without its literals: the plan cache's key for text queries, and digest texts.
//!
//! Neighbours: the session reads every text query through [`Digest::read`] before anything else; on
//! a miss it parses with [`ParseOptions::lift`](super::ParseOptions) set to [`Digest::offsets`].
//! **Invariants**: two texts have the same key only if they parse to the same tree but for the values
//! of the listed literals, whose classes (integer, unsigned, DECIMAL(p,s), DOUBLE, string) are part
//! of the key. Lifting is by context, decided on tokens alone: only where a literal is an ordinary
//! operand (WHERE, ON, HAVING, SET, VALUES, LIMIT), never in a select list (it names the column), in
//! GROUP BY or ORDER BY (a number there is a position), or in a call (results' types may depend on
//! it). Where that guess is wrong the parser lifts fewer literals than listed, and
//! [`Parsed::params`](super::Parsed) tells. A reused `Digest` does not allocate once it has grown.

use std::borrow::Cow;

use esker_types::SqlMode;

use super::ast::Literal;
use super::keyword::Kw;
use super::lexer::{Lexer, Tok, find_either};
use super::{literal, trim};

/// Most literals lifted out of one statement; a bulk INSERT beyond is not worth a cached plan.
pub const MAX_DIGEST_PARAMS: usize = 128;

/// Longest key, in bytes.
pub const MAX_DIGEST_KEY: usize = 8 * 1024;

/// Deepest parentheses followed.
const MAX_DIGEST_DEPTH: usize = 32;

/// Starts a literal's class in the key; no statement contains it outside quotes.
const MARK: u8 = 0;

/// A lifted literal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DigestParam {
    /// First byte in the statement.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// What it is.
    pub kind: DigestKind,
}

/// Class of a lifted literal, with its value where that is cheap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DigestKind {
    /// An integer that fits 64 bits, without sign.
    Int(u64),
    /// Digits with a point, or more digits than an integer has.
    Decimal,
    /// With exponent.
    Double,
    /// A string.
    Str,
}

impl DigestParam {
    /// The literal's value; `sql` and `mode` are those it was read with.
    pub fn literal(&self, sql: &[u8], mode: SqlMode) -> Literal {
        let raw = &sql[self.start..self.end];
        match self.kind {
            DigestKind::Int(v) => Literal::Int(v),
            DigestKind::Decimal => literal::number(Tok::Decimal, raw),
            DigestKind::Double => literal::number(Tok::Float, raw),
            DigestKind::Str => Literal::Str {
                bytes: self.text(sql, mode).into_owned(),
                charset: None,
            },
        }
    }

    /// Contents of a string, borrowed when it has no escapes; the source text of a number.
    pub fn text<'a>(&self, sql: &'a [u8], mode: SqlMode) -> Cow<'a, [u8]> {
        let raw = &sql[self.start..self.end];
        if self.kind != DigestKind::Str {
            return Cow::Borrowed(raw);
        }
        let inner = &raw[1..raw.len() - 1];
        if find_either(inner, b'\\', raw[0]).is_some() {
            return Cow::Owned(literal::unescape(
                raw,
                mode.has(SqlMode::NO_BACKSLASH_ESCAPES),
            ));
        }
        Cow::Borrowed(inner)
    }
}

/// A statement's key and literals; meant to be reused.
#[derive(Debug, Clone, Default)]
pub struct Digest {
    key: Vec<u8>,
    params: Vec<DigestParam>,
}

impl Digest {
    /// An empty digest.
    pub fn new() -> Self {
        Self::default()
    }

    /// The statement without its literals.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The literals, in source order.
    pub fn params(&self) -> &[DigestParam] {
        &self.params
    }

    /// Where the literals start: what the parser is to lift.
    pub fn offsets(&self) -> Vec<usize> {
        self.params.iter().map(|p| p.start).collect()
    }

    /// Reads `sql`: one SELECT, INSERT, REPLACE, UPDATE or DELETE. False for anything else and
    /// beyond the limits: then parse the text as it is.
    pub fn read(&mut self, sql: &[u8], mode: SqlMode) -> bool {
        self.key.clear();
        self.params.clear();
        let (begin, end) = trim(sql, 0);
        let src = &sql[..end];
        let mut lex = Lexer::new(src, begin, mode);
        let first = lex.next_token();
        if !matches!(
            first.tok,
            Tok::Word(Kw::SELECT | Kw::INSERT | Kw::REPLACE | Kw::UPDATE | Kw::DELETE)
        ) {
            return false;
        }
        let mut context = Context::default();
        let mut copied = first.start;
        let mut prev = first.tok;
        let mut prev_end = first.end;
        loop {
            let token = lex.next_token();
            match token.tok {
                Tok::Eof => break,
                Tok::Semicolon | Tok::Bad | Tok::Colon | Tok::Param => return false,
                Tok::Str if prev == Tok::Str => return false,
                Tok::Int | Tok::Decimal | Tok::Float | Tok::Str => {
                    // The parser has an error for a number beyond all doubles.
                    if token.tok == Tok::Float && literal::is_infinite(&src[token.start..token.end])
                    {
                        return false;
                    }
                    if context.lifts() && operand_after(prev) {
                        self.key.extend_from_slice(&src[copied..token.start]);
                        copied = token.end;
                        self.lift(src, token.tok, token.start, token.end);
                        if self.params.len() > MAX_DIGEST_PARAMS || self.key.len() > MAX_DIGEST_KEY
                        {
                            return false;
                        }
                    }
                }
                tok => {
                    if !context.step(tok, prev) {
                        return false;
                    }
                }
            }
            prev = token.tok;
            prev_end = token.end;
        }
        self.key.extend_from_slice(&src[copied..prev_end]);
        self.key.len() <= MAX_DIGEST_KEY
    }

    fn lift(&mut self, src: &[u8], tok: Tok, start: usize, end: usize) {
        let raw = &src[start..end];
        let kind = match tok {
            Tok::Str => DigestKind::Str,
            Tok::Float => DigestKind::Double,
            Tok::Int => literal::int(raw).map_or(DigestKind::Decimal, DigestKind::Int),
            _ => DigestKind::Decimal,
        };
        let class = match kind {
            DigestKind::Str => b's',
            DigestKind::Double => b'f',
            DigestKind::Int(v) if v > i64::MAX as u64 => b'u',
            DigestKind::Int(_) => b'i',
            DigestKind::Decimal => b'd',
        };
        self.key.extend_from_slice(&[MARK, class]);
        if kind == DigestKind::Decimal {
            // Precision and scale are part of the type.
            let scale = raw
                .iter()
                .position(|&b| b == b'.')
                .map_or(0, |p| raw.len() - p - 1);
            let digits = raw.len().min(usize::from(u8::MAX)) as u8;
            self.key
                .extend_from_slice(&[digits, scale.min(usize::from(u8::MAX)) as u8]);
        }
        self.params.push(DigestParam { start, end, kind });
    }
}

/// May a literal after this token be lifted? Not where it would be part of a syntax, or where its
/// value decides the plan (a LIKE prefix).
fn operand_after(prev: Tok) -> bool {
    match prev {
        Tok::Word(kw) => matches!(
            kw,
            Kw::AND
                | Kw::OR
                | Kw::XOR
                | Kw::NOT
                | Kw::BETWEEN
                | Kw::WHERE
                | Kw::ON
                | Kw::HAVING
                | Kw::LIMIT
                | Kw::OFFSET
                | Kw::DIV
                | Kw::MOD
                | Kw::WHEN
                | Kw::THEN
                | Kw::ELSE
                | Kw::CASE
                | Kw::INTERVAL
        ),
        Tok::Arrow | Tok::ArrowText | Tok::At | Tok::NStr | Tok::Quoted | Tok::Introducer => false,
        _ => true,
    }
}

/// Does an opening parenthesis after this token hold operands, rather than a call's arguments?
fn groups_operands(prev: Tok) -> bool {
    match prev {
        Tok::Word(kw) => matches!(
            kw,
            Kw::IN
                | Kw::VALUES
                | Kw::VALUE
                | Kw::ROW
                | Kw::AND
                | Kw::OR
                | Kw::XOR
                | Kw::NOT
                | Kw::BETWEEN
                | Kw::WHERE
                | Kw::ON
                | Kw::HAVING
                | Kw::EXISTS
                | Kw::ANY
                | Kw::SOME
                | Kw::ALL
                | Kw::WHEN
                | Kw::THEN
                | Kw::ELSE
                | Kw::CASE
                | Kw::DIV
        ),
        Tok::Quoted => false,
        _ => true,
    }
}

/// Where in a statement the reader is: per open parenthesis, whether literals are operands.
#[derive(Default)]
struct Context {
    lifting: u64,
    depth: usize,
}

const _: () = assert!(MAX_DIGEST_DEPTH < u64::BITS as usize);

impl Context {
    fn lifts(&self) -> bool {
        self.lifting >> self.depth & 1 == 1
    }

    fn set(&mut self, on: bool) {
        self.lifting = self.lifting & !(1 << self.depth) | u64::from(on) << self.depth;
    }

    /// Takes note of a token; false when parentheses are too deep or unbalanced.
    fn step(&mut self, tok: Tok, prev: Tok) -> bool {
        match tok {
            Tok::LParen => {
                let on = self.lifts() && groups_operands(prev);
                self.depth += 1;
                if self.depth > MAX_DIGEST_DEPTH {
                    return false;
                }
                self.set(on);
            }
            Tok::RParen => {
                if self.depth == 0 {
                    return false;
                }
                self.depth -= 1;
            }
            Tok::Word(
                Kw::WHERE | Kw::ON | Kw::HAVING | Kw::SET | Kw::VALUES | Kw::VALUE | Kw::LIMIT,
            ) => self.set(true),
            Tok::Word(
                Kw::SELECT
                | Kw::FROM
                | Kw::GROUP
                | Kw::ORDER
                | Kw::WINDOW
                | Kw::FOR
                | Kw::LOCK
                | Kw::INTO
                | Kw::RETURNING,
            ) => self.set(false),
            Tok::Word(Kw::AS) if self.depth > 0 => self.set(false),
            _ => {}
        }
        true
    }
}

/// Lists of values, and of rows of values, in a digest text.
const VALUES: &str = "?, ...";
const ROW1: &str = "(?)";
const ROW: &str = "(...)";
const ROW1_LIST: &str = "(?) /* , ... */";
const ROW_LIST: &str = "(...) /* , ... */";

/// MySQL's digest text: keywords in capitals, names in backticks, literals as `?`, lists shortened.
pub fn digest_text(sql: &[u8], mode: SqlMode) -> String {
    print(sql, mode, false)
}

/// A digest text without the names that stand where a password is expected: it may not be one that can be read.
pub fn digest_without_secrets(sql: &[u8], mode: SqlMode) -> String {
    print(sql, mode, true)
}

/// Is a secret expected behind this token, or may there be the rest of one?
fn precedes_secret(tok: Tok) -> bool {
    match tok {
        Tok::Eq | Tok::Str | Tok::Bad | Tok::HexStr | Tok::HexNum => true,
        Tok::Word(kw) => matches!(
            kw,
            Kw::BY | Kw::AS | Kw::REPLACE | Kw::IDENTIFIED | Kw::PASSWORD
        ),
        _ => false,
    }
}

fn print(sql: &[u8], mode: SqlMode, hides_secrets: bool) -> String {
    let (begin, end) = trim(sql, 0);
    let mut lex = Lexer::new(&sql[..end], begin, mode);
    let mut words: Vec<Cow<'_, str>> = Vec::new();
    let mut prev = Tok::Eof;
    loop {
        let token = lex.next_token();
        let raw = &sql[token.start..token.end];
        match token.tok {
            Tok::Eof | Tok::Semicolon => break,
            Tok::Str if prev == Tok::Str => {}
            // ORDER BY 1 names a column.
            Tok::Int if prev == Tok::Word(Kw::BY) => words.push(String::from_utf8_lossy(raw)),
            Tok::Int
            | Tok::Decimal
            | Tok::Float
            | Tok::Str
            | Tok::NStr
            | Tok::HexNum
            | Tok::HexStr
            | Tok::BitNum
            | Tok::BitStr
            | Tok::Param => push_value(&mut words),
            Tok::Word(Kw::OTHER) | Tok::Quoted if hides_secrets && precedes_secret(prev) => {
                push_value(&mut words);
                // And what follows it without a word of the grammar between them.
                prev = Tok::Str;
                continue;
            }
            // Elsewhere NULL is part of a syntax: IS NULL, NOT NULL, SET NULL.
            Tok::Word(Kw::NULL) if !matches!(prev, Tok::Word(_)) => push_value(&mut words),
            Tok::Word(Kw::OTHER) => {
                words.push(format!("`{}`", String::from_utf8_lossy(raw)).into());
            }
            Tok::Word(kw) => words.push(canonical(kw).into()),
            Tok::RParen => close_paren(&mut words),
            Tok::AtName => words.push("@?".into()),
            Tok::Introducer => words.push("(_charset)".into()),
            // Behind a quote that nothing closes there may be anything.
            Tok::Bad if raw.len() > 1 => push_value(&mut words),
            _ => words.push(String::from_utf8_lossy(raw)),
        }
        prev = token.tok;
    }
    words.join(" ")
}

/// The synonym MySQL's digests print for a keyword.
fn canonical(kw: Kw) -> &'static str {
    match kw {
        Kw::ANY => "SOME",
        Kw::BIGINT => "INT8",
        Kw::CHAR => "CHARACTER",
        Kw::COLUMNS => "FIELDS",
        Kw::CURRENT_TIMESTAMP | Kw::LOCALTIME | Kw::LOCALTIMESTAMP => "NOW",
        Kw::DATABASE => "SCHEMA",
        Kw::DATABASES => "SCHEMAS",
        Kw::DEC => "DECIMAL",
        Kw::DISTINCT => "DISTINCTROW",
        Kw::DOUBLE => "FLOAT8",
        Kw::INT => "INTEGER",
        Kw::REGEXP => "RLIKE",
        Kw::VARCHAR => "VARCHARACTER",
        other => other.text(),
    }
}

/// A value: joins a list of values before it; a sign without left operand is part of it.
fn push_value(words: &mut Vec<Cow<'_, str>>) {
    if let [.., before, sign] = &words[..] {
        let operand = before.starts_with(['`', '@'])
            || [")", "?", VALUES, ROW1, ROW]
                .iter()
                .any(|end| before == end);
        if (sign == "-" || sign == "+") && !operand {
            words.pop();
        }
    }
    if let [.., value, comma] = &words[..]
        && comma == ","
        && (value == "?" || value == VALUES)
    {
        words.truncate(words.len() - 2);
        words.push(VALUES.into());
        return;
    }
    words.push("?".into());
}

/// `)`: shortens a row of values, and a list of such rows.
fn close_paren(words: &mut Vec<Cow<'_, str>>) {
    let row = match &words[..] {
        [.., open, value] if open == "(" && value == "?" => ROW1,
        [.., open, values] if open == "(" && values == VALUES => ROW,
        _ => {
            words.push(")".into());
            return;
        }
    };
    words.truncate(words.len() - 2);
    let list = if row == ROW1 { ROW1_LIST } else { ROW_LIST };
    if let [.., before, comma] = &words[..]
        && comma == ","
        && (before == row || before == list)
    {
        words.truncate(words.len() - 2);
        words.push(list.into());
        return;
    }
    words.push(row.into());
}
