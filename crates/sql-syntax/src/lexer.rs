//! Bytes to tokens, as MySQL's lexer splits them: version comments, quotes, `1a` names, `@` forms.
//!
//! Neighbours: the parser pulls tokens one by one and re-reads by copying the lexer; `digest` runs it
//! alone; `client_text` reads with it what clients send in other character sets than UTF-8.
//! **Invariants**: a token is a byte range of the source, nothing is copied; `next` never panics on
//! any bytes and at the end returns `Eof` for ever; what MySQL's lexer aborts on (open quotes, open
//! comments, bad hex strings, names with a NUL) is a `Bad` token, which no grammar rule takes.

use esker_types::SqlMode;
use esker_types::collation::Charset;

use super::keyword::{Kw, is_charset};

/// Version comments `/*!NNNNN … */` up to this version are executed.
pub const VERSION_ID: u32 = 80_407;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "punctuation is its own documentation")]
pub enum Tok {
    Eof,
    /// An unquoted word: a keyword, or a name (`Kw::OTHER`).
    Word(Kw),
    /// `_charset` in front of a string; no name.
    Introducer,
    /// `` `name` `` (or `"name"` under ANSI_QUOTES).
    Quoted,
    /// `'text'` (or `"text"`).
    Str,
    /// `N'text'`.
    NStr,
    /// `x'4D'`.
    HexStr,
    /// `b'01'`.
    BitStr,
    /// `0x4D`.
    HexNum,
    /// `0b01`.
    BitNum,
    Int,
    Decimal,
    Float,
    /// `@` before a quote.
    At,
    /// `@name`; the range covers the `@`. The name may be empty.
    AtName,
    AtAt,
    Param,
    LParen,
    RParen,
    LBrace,
    RBrace,
    Comma,
    Dot,
    Semicolon,
    Star,
    Plus,
    Minus,
    Slash,
    Percent,
    Caret,
    Tilde,
    Bang,
    Amp,
    AmpAmp,
    Pipe,
    PipePipe,
    Eq,
    NullSafeEq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Shl,
    Shr,
    Assign,
    /// Behind a label.
    Colon,
    Arrow,
    ArrowText,
    /// What no statement can contain.
    Bad,
}

/// A token with its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// Kind.
    pub tok: Tok,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// The lexer: cheap to copy, so that a parser looks ahead by running a copy.
#[derive(Debug, Clone, Copy)]
pub struct Lexer<'a> {
    src: &'a [u8],
    pos: usize,
    ansi_quotes: bool,
    no_backslash: bool,
    /// The multi-byte character set of the source: half of a code is neither a quote nor a backslash there.
    codes: Option<Charset>,
    /// Inside an executed version comment: `*/` ends it.
    in_comment: bool,
    /// The next word is a name even if it looks like a keyword or number (directly after a dot).
    force_name: bool,
    /// The last token was a word that ends where a dot follows.
    word_dot: bool,
    /// The last token allows a hint comment.
    hint_ok: bool,
    /// The last `/*+ … */` passed that stood directly after SELECT, INSERT, REPLACE, UPDATE, DELETE.
    hint: Option<(usize, usize)>,
}

/// Bit of [`CLASSES`]: part of a name.
const NAME: u8 = 1;
/// Bit of [`CLASSES`]: white space, or may begin or end a comment.
const BLANK: u8 = 2;

/// What each byte may be, so that most tokens take one look-up per byte.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut b = 0;
    while b < 256 {
        let byte = b as u8;
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80 {
            classes[b] = NAME;
        } else if matches!(byte, b' ' | 0x09..=0x0d | b'#' | b'-' | b'*' | b'/') {
            classes[b] = BLANK;
        }
        b += 1;
    }
    classes
};

#[inline]
fn is_name_byte(b: u8) -> bool {
    CLASSES[usize::from(b)] & NAME != 0
}

/// Position of the first `a` or `b` in `text`; eight bytes at a time, for long strings.
pub(super) fn find_either(text: &[u8], a: u8, b: u8) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // A zero byte makes its high bit borrow; bits above the first one may be wrong.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let (words, rest) = text.as_chunks::<8>();
    for (nth, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let (not_a, not_b) = (word ^ (ONES * u64::from(a)), word ^ (ONES * u64::from(b)));
        let hit = zero(not_a) | zero(not_b);
        if hit != 0 {
            return Some(nth * 8 + hit.trailing_zeros() as usize / 8);
        }
    }
    let in_rest = rest.iter().position(|&c| c == a || c == b)?;
    Some(words.len() * 8 + in_rest)
}

/// MySQL's white space.
pub fn is_space(b: u8) -> bool {
    matches!(b, b' ' | 0x09..=0x0d)
}

impl<'a> Lexer<'a> {
    /// A lexer at byte `pos` of `src`.
    pub fn new(src: &'a [u8], pos: usize, mode: SqlMode) -> Self {
        Self {
            src,
            pos,
            ansi_quotes: mode.has(SqlMode::ANSI_QUOTES),
            no_backslash: mode.has(SqlMode::NO_BACKSLASH_ESCAPES),
            codes: None,
            in_comment: false,
            force_name: false,
            word_dot: false,
            hint_ok: false,
            hint: None,
        }
    }

    /// The same for a source in another character set than UTF-8, one of those that clients may have.
    pub(super) fn in_charset(self, charset: Charset) -> Self {
        assert!(charset.of_clients());
        Self {
            codes: charset.is_of_several_bytes().then_some(charset),
            ..self
        }
    }

    fn at(&self, pos: usize) -> u8 {
        self.src.get(pos).copied().unwrap_or(0)
    }

    fn token(&mut self, tok: Tok, start: usize, end: usize) -> Token {
        self.pos = end;
        Token { tok, start, end }
    }

    /// Where the text of the hint comment stands that starts in `from..to`.
    pub fn hint_between(&self, from: usize, to: usize) -> Option<(usize, usize)> {
        self.hint
            .filter(|(start, _)| from <= *start && *start <= to)
    }

    /// The next token.
    #[inline]
    pub fn next_token(&mut self) -> Token {
        let hint_ok = std::mem::take(&mut self.hint_ok);
        if let Err(token) = self.skip_blank(hint_ok) {
            return token;
        }
        let start = self.pos;
        let word_dot = std::mem::take(&mut self.word_dot);
        let force = std::mem::take(&mut self.force_name);
        let Some(&b) = self.src.get(start) else {
            return self.token(Tok::Eof, start, start);
        };
        match b {
            // Some clients send the NUL that ends their string.
            0 if start + 1 == self.src.len() => Token {
                tok: Tok::Eof,
                start,
                end: start,
            },
            b'0'..=b'9' if !force => self.number_or_name(start),
            b'x' | b'X' if !force && self.at(start + 1) == b'\'' => self.hex_string(start),
            b'b' | b'B' if !force && self.at(start + 1) == b'\'' => self.bit_string(start),
            b'n' | b'N' if !force && self.at(start + 1) == b'\'' => {
                self.quoted(start, start + 1, Tok::NStr)
            }
            _ if is_name_byte(b) => self.word(start, start, force),
            b'\'' => self.quoted(start, start, Tok::Str),
            b'"' if self.ansi_quotes => self.quoted_name(start),
            b'"' => self.quoted(start, start, Tok::Str),
            b'`' => self.quoted_name(start),
            b'.' => self.dot(start, word_dot),
            b'@' => self.at_sign(start),
            _ => self.punctuation(b, start),
        }
    }

    /// Skips white space and comments; `Err` carries the bad token of an open comment. Before a hint comment there may
    /// be white space only.
    fn skip_blank(&mut self, mut hint_ok: bool) -> Result<(), Token> {
        loop {
            let p = self.pos;
            let b = self.at(p);
            if CLASSES[usize::from(b)] & BLANK == 0 {
                return Ok(());
            }
            match b {
                b if is_space(b) => {
                    self.pos += 1;
                    continue;
                }
                b'#' => self.skip_line(),
                b'-' if self.at(p + 1) == b'-' => {
                    let c = self.at(p + 2);
                    if !is_space(c) && !c.is_ascii_control() {
                        return Ok(());
                    }
                    self.skip_line();
                }
                b'*' if self.in_comment && self.at(p + 1) == b'/' => {
                    self.in_comment = false;
                    self.pos += 2;
                }
                b'/' if self.at(p + 1) == b'*' => {
                    if hint_ok && self.at(p + 2) == b'+' && !self.in_comment {
                        self.hint = find(self.src, p + 3, b"*/").map(|end| (p + 3, end));
                    }
                    self.comment(p)?;
                }
                _ => return Ok(()),
            }
            hint_ok = false;
        }
    }

    fn skip_line(&mut self) {
        while self.pos < self.src.len() && self.src[self.pos] != b'\n' {
            self.pos += 1;
        }
    }

    /// A `/*` comment at `p`: opens a version comment or skips a whole one.
    fn comment(&mut self, p: usize) -> Result<(), Token> {
        if self.at(p + 2) == b'!' && !self.in_comment {
            if let Some(digits) = version_of(self.src, p + 3) {
                self.in_comment = true;
                self.pos = p + 3 + digits;
                return Ok(());
            }
            return match end_of_nested(self.src, p + 3) {
                Some(end) => {
                    self.pos = end;
                    Ok(())
                }
                None => Err(self.bad_rest(p)),
            };
        }
        match find(self.src, p + 2, b"*/") {
            Some(end) => {
                self.pos = end + 2;
                Ok(())
            }
            None => Err(self.bad_rest(p)),
        }
    }

    fn bad_rest(&mut self, start: usize) -> Token {
        self.token(Tok::Bad, start, self.src.len())
    }

    fn number_or_name(&mut self, start: usize) -> Token {
        let mut p = start;
        if self.src[p] == b'0' && matches!(self.at(p + 1), b'x' | b'b') {
            let hex = self.at(p + 1) == b'x';
            p += 2;
            while if hex {
                self.at(p).is_ascii_hexdigit()
            } else {
                matches!(self.at(p), b'0' | b'1')
            } {
                p += 1;
            }
            if p > start + 2 && !is_name_byte(self.at(p)) {
                return self.token(if hex { Tok::HexNum } else { Tok::BitNum }, start, p);
            }
            return self.word(start, p, true);
        }
        while self.at(p).is_ascii_digit() {
            p += 1;
        }
        if !is_name_byte(self.at(p)) {
            if self.at(p) != b'.' {
                return self.token(Tok::Int, start, p);
            }
            return self.fraction(start, p + 1);
        }
        if matches!(self.at(p), b'e' | b'E') {
            let q = if matches!(self.at(p + 1), b'+' | b'-') {
                p + 2
            } else {
                p + 1
            };
            if self.at(q).is_ascii_digit() {
                let end = self.digits(q);
                return self.token(Tok::Float, start, end);
            }
        }
        self.word(start, p, true)
    }

    fn digits(&self, mut p: usize) -> usize {
        while self.at(p).is_ascii_digit() {
            p += 1;
        }
        p
    }

    /// After the point of a number.
    fn fraction(&mut self, start: usize, p: usize) -> Token {
        let p = self.digits(p);
        if matches!(self.at(p), b'e' | b'E') {
            let q = if matches!(self.at(p + 1), b'+' | b'-') {
                p + 2
            } else {
                p + 1
            };
            if !self.at(q).is_ascii_digit() {
                return self.token(Tok::Bad, start, p + 1);
            }
            let end = self.digits(q);
            return self.token(Tok::Float, start, end);
        }
        self.token(Tok::Decimal, start, p)
    }

    /// A word whose bytes up to `p` are known to be name bytes.
    fn word(&mut self, start: usize, p: usize, force: bool) -> Token {
        let p = self.name_end(p);
        self.pos = p;
        let kw = if self.at(p) == b'.' && is_name_byte(self.at(p + 1)) {
            self.word_dot = true;
            Kw::OTHER
        } else if force {
            Kw::OTHER
        } else {
            Kw::lookup(&self.src[start..p])
        };
        if kw == Kw::OTHER
            && !force
            && self.src[start] == b'_'
            && !self.word_dot
            && is_charset(&self.src[start + 1..p])
        {
            return Token {
                tok: Tok::Introducer,
                start,
                end: p,
            };
        }
        self.hint_ok = matches!(
            kw,
            Kw::SELECT | Kw::INSERT | Kw::REPLACE | Kw::UPDATE | Kw::DELETE
        ) || kw.may_have_wait_hint();
        Token {
            tok: Tok::Word(kw),
            start,
            end: p,
        }
    }

    /// Where the bytes of a name end that go on at `p`.
    #[inline]
    fn name_end(&self, mut p: usize) -> usize {
        let Some(charset) = self.codes else {
            let rest = self.src[p..].iter();
            return p + rest.take_while(|&&b| is_name_byte(b)).count();
        };
        while is_name_byte(self.at(p)) {
            p += charset.code_len(&self.src[p..]).max(1);
        }
        p
    }

    fn dot(&mut self, start: usize, word_dot: bool) -> Token {
        let next = self.at(start + 1);
        if !word_dot && next.is_ascii_digit() {
            return self.fraction(start, start + 1);
        }
        self.force_name = is_name_byte(next);
        self.token(Tok::Dot, start, start + 1)
    }

    fn at_sign(&mut self, start: usize) -> Token {
        match self.at(start + 1) {
            b'@' => {
                self.force_name = false;
                self.token(Tok::AtAt, start, start + 2)
            }
            b'\'' | b'"' | b'`' => self.token(Tok::At, start, start + 1),
            _ => {
                let mut p = self.name_end(start + 1);
                while self.at(p) == b'.' {
                    p = self.name_end(p + 1);
                }
                self.token(Tok::AtName, start, p)
            }
        }
    }

    /// A string whose opening quote is at `open`.
    fn quoted(&mut self, start: usize, open: usize, tok: Tok) -> Token {
        let quote = self.src[open];
        let escape = if self.no_backslash { quote } else { b'\\' };
        let mut p = open + 1;
        loop {
            let Some(found) = self.find_bare(p, quote, escape) else {
                return self.bad_rest(start);
            };
            p = found;
            if self.src[p] == quote && self.at(p + 1) != quote {
                return self.token(tok, start, p + 1);
            }
            // An escaped byte, or the quote twice.
            p += 2;
        }
    }

    /// Position of the first `a` or `b` from `p` on that is not half of a code.
    #[inline]
    fn find_bare(&self, mut p: usize, a: u8, b: u8) -> Option<usize> {
        let rest = self.src.get(p..).unwrap_or_default();
        let Some(charset) = self.codes else {
            return find_either(rest, a, b).map(|found| p + found);
        };
        while let Some(byte) = self.src.get(p) {
            if *byte == a || *byte == b {
                return Some(p);
            }
            p += charset.code_len(&self.src[p..]).max(1);
        }
        None
    }

    fn quoted_name(&mut self, start: usize) -> Token {
        let quote = self.src[start];
        let mut p = start + 1;
        loop {
            let Some(found) = self.find_bare(p, quote, quote) else {
                return self.bad_rest(start);
            };
            if self.at(found + 1) != quote {
                let tok = match self.src[start..found].contains(&0) {
                    true => Tok::Bad,
                    false => Tok::Quoted,
                };
                return self.token(tok, start, found + 1);
            }
            // The quote twice.
            p = found + 2;
        }
    }

    fn hex_string(&mut self, start: usize) -> Token {
        let mut p = start + 2;
        while self.at(p).is_ascii_hexdigit() {
            p += 1;
        }
        if self.at(p) != b'\'' || !(p - start - 2).is_multiple_of(2) {
            return self.token(Tok::Bad, start, p);
        }
        self.token(Tok::HexStr, start, p + 1)
    }

    fn bit_string(&mut self, start: usize) -> Token {
        let mut p = start + 2;
        while matches!(self.at(p), b'0' | b'1') {
            p += 1;
        }
        if self.at(p) != b'\'' {
            return self.token(Tok::Bad, start, p);
        }
        self.token(Tok::BitStr, start, p + 1)
    }

    fn punctuation(&mut self, b: u8, start: usize) -> Token {
        let next = self.at(start + 1);
        let third = self.at(start + 2);
        let (tok, len) = match (b, next) {
            (b'(', _) => (Tok::LParen, 1),
            (b')', _) => (Tok::RParen, 1),
            (b'{', _) => (Tok::LBrace, 1),
            (b'}', _) => (Tok::RBrace, 1),
            (b',', _) => (Tok::Comma, 1),
            (b';', _) => (Tok::Semicolon, 1),
            (b'*', _) => (Tok::Star, 1),
            (b'+', _) => (Tok::Plus, 1),
            (b'-', b'>') if third == b'>' => (Tok::ArrowText, 3),
            (b'-', b'>') => (Tok::Arrow, 2),
            (b'-', _) => (Tok::Minus, 1),
            (b'/', _) => (Tok::Slash, 1),
            (b'%', _) => (Tok::Percent, 1),
            (b'^', _) => (Tok::Caret, 1),
            (b'~', _) => (Tok::Tilde, 1),
            (b'&', b'&') => (Tok::AmpAmp, 2),
            (b'&', _) => (Tok::Amp, 1),
            (b'|', b'|') => (Tok::PipePipe, 2),
            (b'|', _) => (Tok::Pipe, 1),
            (b'<' | b'=' | b'>' | b'!', _) => comparison(b, next, third),
            (b':', b'=') => (Tok::Assign, 2),
            (b':', _) => (Tok::Colon, 1),
            (b'?', n) if !is_name_byte(n) => (Tok::Param, 1),
            _ => (Tok::Bad, 1),
        };
        self.token(tok, start, start + len)
    }
}

/// Comparison signs swallow each other, known combination or not: `=!` is an error, not `= !`.
fn comparison(first: u8, next: u8, third: u8) -> (Tok, usize) {
    let sign = |b: u8| matches!(b, b'=' | b'>' | b'!');
    if !sign(next) && next != b'<' {
        return match first {
            b'=' => (Tok::Eq, 1),
            b'<' => (Tok::Lt, 1),
            b'>' => (Tok::Gt, 1),
            _ => (Tok::Bang, 1),
        };
    }
    let third = if first == b'<' && sign(third) {
        third
    } else {
        0
    };
    match (first, next, third) {
        (b'<', b'=', b'>') => (Tok::NullSafeEq, 3),
        (b'<', b'=', 0) => (Tok::Le, 2),
        (b'<', b'>', 0) | (b'!', b'=', 0) => (Tok::Ne, 2),
        (b'<', b'<', 0) => (Tok::Shl, 2),
        (b'>', b'=', 0) => (Tok::Ge, 2),
        (b'>', b'>', 0) => (Tok::Shr, 2),
        // Two exclamation marks are two tokens.
        (b'!', b'!', _) => (Tok::Bang, 1),
        _ => (Tok::Bad, 2),
    }
}

pub(super) fn find(src: &[u8], from: usize, needle: &[u8; 2]) -> Option<usize> {
    let rest = src.get(from..)?;
    rest.windows(2).position(|w| w == needle).map(|i| from + i)
}

/// Digits of the version that begins at `start`, if a comment for that version is executed.
pub(super) fn version_of(src: &[u8], start: usize) -> Option<usize> {
    let at = |nth: usize| src.get(start + nth).copied().unwrap_or(0);
    let mut digits = (0..6).take_while(|nth| at(*nth).is_ascii_digit()).count();
    // A sixth digit belongs to the number only if a space follows.
    if digits == 6 && !is_space(at(6)) {
        digits = 5;
    }
    if digits < 5 {
        return Some(0);
    }
    let text = &src[start..start + digits];
    let version = text.iter().fold(0u32, |v, d| v * 10 + u32::from(d - b'0'));
    (version <= VERSION_ID).then_some(digits)
}

/// End of a skipped version comment, which may hold plain comments.
pub(super) fn end_of_nested(src: &[u8], from: usize) -> Option<usize> {
    let mut p = from;
    loop {
        match src.get(p..p + 2)? {
            b"*/" => return Some(p + 2),
            b"/*" => p = find(src, p + 2, b"*/")? + 2,
            _ => p += 1,
        }
    }
}
