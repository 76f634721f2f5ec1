//! The parser's core: the current token, what it may be, and the one syntax error.
//!
//! Neighbours: `lexer` below; `terminals` reads names, texts and numbers; `expr`, `query`, `dml`, `ddl`, … are further
//! `impl Parser` blocks.
//! **Invariants**: an error points at the first token that cannot continue the statement, as MySQL's
//! does; recursion goes through [`Parser::nested`], so depth is bounded; `params` counts the `?` seen.

use esker_types::{SqlError, SqlMode, SqlResult, errors};

use super::ast::{LockWait, Span};
use super::deprecated::Deprecation;
use super::hint::Hinting;
use super::keyword::Kw;
use super::lexer::{Lexer, Tok, Token, is_space};
use super::program::ProgramScope;
use super::{AccountPlaces, MAX_NESTING, ParseOptions};

/// Longest excerpt of the statement in a syntax error, in bytes.
const NEAR_BYTES: usize = 80;

/// After so many tokens the reader of a long text asks whether it may go on.
const TOKENS_PER_LOOK: u32 = 4096;
/// What a token takes in the tree, about: a literal in a list is two of them.
const TREE_BYTES_PER_TOKEN: u64 = 128;

/// A recursive descent parser over one statement.
#[derive(Clone)]
pub(super) struct Parser<'a> {
    pub(super) src: &'a [u8],
    /// Where the statement begins in `src`: line 1 of its errors.
    pub(super) begin: usize,
    pub(super) opts: ParseOptions<'a>,
    lex: Lexer<'a>,
    /// The token to be consumed next.
    pub(super) cur: Token,
    /// End of the token consumed last.
    pub(super) prev_end: usize,
    /// `?` seen so far.
    pub(super) params: u32,
    /// Those among them that are numbers of LIMIT.
    pub(super) limits: Vec<u32>,
    /// Literals replaced by parameters so far.
    pub(super) lifted: u32,
    /// Open levels of recursion.
    depth: u32,
    /// Query blocks around.
    pub(super) selects: u32,
    /// Height of the tallest subexpression parsed so far at this level (see `expr`).
    pub(super) height: u32,
    /// INTO may follow the select list here.
    pub(super) into_ok: bool,
    /// The next parenthesis begins the statement: INTO may stand before its end.
    pub(super) is_leading: bool,
    /// The next SELECT is the first one of the statement's own query.
    pub(super) is_outermost: bool,
    /// An error that MySQL finds only after the whole statement proved to be well-formed.
    pub(super) deferred: Option<SqlError>,
    /// INTO found before FROM.
    pub(super) early_into: Option<super::ast::Into>,
    /// Where that ended.
    pub(super) into_end: usize,
    /// Parts of the text that the binary log does not get: clauses about waiting.
    pub(super) unlogged: Vec<Span>,
    /// Where the text names accounts.
    pub(super) accounts: AccountPlaces,
    /// Places in the text of a view's query.
    pub(super) places: Option<Box<Places>>,
    /// What is known of the body of a stored program that is being read.
    pub(super) program: Option<Box<ProgramScope>>,
    /// Optimizer hints.
    pub(super) hinting: Hinting,
    /// Deprecated syntax so far.
    pub(super) deprecations: Vec<Deprecation>,
    /// ON DUPLICATE KEY UPDATE is being read.
    pub(super) in_on_duplicate: bool,
    /// A subquery is a syntax error here.
    pub(super) no_subqueries: bool,
    /// Tokens consumed so far.
    tokens: u32,
    /// Why the text was not read to its end.
    pub(super) stopped: Option<SqlError>,
}

/// What is to be known of a query that is stored: where it names something without a database, its `*`, variables.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    /// Where the name of a table without database begins, and the name.
    pub(super) tables: Vec<(usize, Box<str>)>,
    /// Names of common table expressions.
    pub(super) ctes: Vec<Box<str>>,
    /// Begin and end of each `*` in a select list, and how deep it is nested.
    pub(super) stars: Vec<(u32, usize, usize)>,
    /// Something in it is a variable, or a parameter of a prepared statement.
    pub(super) has_variables: bool,
}

impl<'a> Parser<'a> {
    pub(super) fn new(src: &'a [u8], start: usize, opts: ParseOptions<'a>) -> Self {
        let mut lex = Lexer::new(src, start, opts.sql_mode);
        let cur = lex.next_token();
        Self {
            src,
            begin: start,
            opts,
            lex,
            cur,
            prev_end: start,
            params: 0,
            limits: Vec::new(),
            lifted: 0,
            depth: 0,
            selects: 0,
            height: 0,
            into_ok: false,
            is_leading: false,
            is_outermost: false,
            deferred: None,
            early_into: None,
            into_end: 0,
            unlogged: Vec::new(),
            accounts: AccountPlaces::default(),
            places: None,
            program: None,
            hinting: Hinting::default(),
            deprecations: Vec::new(),
            in_on_duplicate: false,
            no_subqueries: false,
            tokens: 0,
            stopped: None,
        }
    }

    /// Notes a `*` in a select list.
    pub(super) fn note_star(&mut self, start: usize) {
        let (depth, end) = (self.depth, self.prev_end);
        if let Some(places) = &mut self.places {
            places.stars.push((depth, start, end));
        }
    }

    /// Notes a variable or a parameter in an expression.
    pub(super) fn note_variable(&mut self) {
        if let Some(places) = &mut self.places {
            places.has_variables = true;
        }
    }

    pub(super) fn mode(&self, mode: SqlMode) -> bool {
        self.opts.sql_mode.has(mode)
    }

    // Tokens.

    #[inline]
    pub(super) fn advance(&mut self) -> Token {
        let token = self.cur;
        self.prev_end = token.end;
        if self.src.get(token.start) == Some(&b'$') {
            self.deprecate(Deprecation::Dollar);
        }
        self.cur = self.lex.next_token();
        self.tokens += 1;
        if self.tokens.is_multiple_of(TOKENS_PER_LOOK) {
            self.look();
        }
        token
    }

    /// What the tree of what was read takes in memory, about.
    pub(super) fn tree_bytes(&self) -> u64 {
        u64::from(self.tokens) * TREE_BYTES_PER_TOKEN
    }

    /// May the text be read on? If not, it ends here.
    #[cold]
    fn look(&mut self) {
        let Some(watch) = self.opts.watch else {
            return;
        };
        let bytes = self.tree_bytes();
        let asked = match bytes > watch.most_bytes {
            true => Err(errors::parser_memory_exceeded(watch.most_bytes)),
            false => {
                let more = u64::from(TOKENS_PER_LOOK) * TREE_BYTES_PER_TOKEN;
                watch.session.go_on(more as usize)
            }
        };
        if let Err(error) = asked {
            self.stopped.get_or_insert(error);
            self.lex = Lexer::new(self.src, self.src.len(), self.opts.sql_mode);
            self.cur = self.lex.next_token();
        }
    }

    /// The token after the current one.
    pub(super) fn peek(&self) -> Token {
        let mut lex = self.lex;
        lex.next_token()
    }

    /// The two tokens after the current one.
    pub(super) fn peek2(&self) -> (Token, Token) {
        let mut lex = self.lex;
        (lex.next_token(), lex.next_token())
    }

    pub(super) fn bytes(&self, token: Token) -> &'a [u8] {
        &self.src[token.start..token.end]
    }

    #[inline]
    pub(super) fn is(&self, tok: Tok) -> bool {
        self.cur.tok == tok
    }

    #[inline]
    pub(super) fn eat(&mut self, tok: Tok) -> bool {
        let hit = self.cur.tok == tok;
        if hit {
            self.advance();
        }
        hit
    }

    pub(super) fn expect(&mut self, tok: Tok) -> SqlResult<()> {
        if self.eat(tok) { Ok(()) } else { self.fail() }
    }

    /// The current token as a keyword (`NONE` for anything else).
    #[inline]
    pub(super) fn kw(&self) -> Kw {
        match self.cur.tok {
            Tok::Word(kw) => kw,
            _ => Kw::OTHER,
        }
    }

    #[inline]
    pub(super) fn at(&self, kw: Kw) -> bool {
        self.cur.tok == Tok::Word(kw)
    }

    /// Is the token after the current one this keyword?
    pub(super) fn peek_is(&self, kw: Kw) -> bool {
        self.peek().tok == Tok::Word(kw)
    }

    #[inline]
    pub(super) fn eat_kw(&mut self, kw: Kw) -> bool {
        self.eat(Tok::Word(kw))
    }

    /// Consumes the first of `kws` that is there.
    pub(super) fn eat_any(&mut self, kws: &[Kw]) -> Option<Kw> {
        let kw = self.kw();
        if kw != Kw::OTHER && kws.contains(&kw) {
            self.advance();
            return Some(kw);
        }
        None
    }

    /// Consumes `kws` if they are there in this order.
    pub(super) fn eat_seq(&mut self, kws: &[Kw]) -> bool {
        if !self.at(kws[0]) {
            return false;
        }
        let mut lex = self.lex;
        if !kws[1..]
            .iter()
            .all(|&kw| lex.next_token().tok == Tok::Word(kw))
        {
            return false;
        }
        for _ in kws {
            self.advance();
        }
        true
    }

    pub(super) fn expect_kw(&mut self, kw: Kw) -> SqlResult<()> {
        self.expect(Tok::Word(kw))
    }

    pub(super) fn expect_seq(&mut self, kws: &[Kw]) -> SqlResult<()> {
        kws.iter().try_for_each(|&kw| self.expect_kw(kw))
    }

    pub(super) fn expect_any(&mut self, kws: &[Kw]) -> SqlResult<Kw> {
        match self.eat_any(kws) {
            Some(kw) => Ok(kw),
            None => self.fail(),
        }
    }

    /// `=` or nothing.
    pub(super) fn eat_eq(&mut self) {
        self.eat(Tok::Eq);
    }

    /// `=` or `:=`.
    pub(super) fn expect_assign(&mut self) -> SqlResult<()> {
        if self.eat(Tok::Eq) || self.eat(Tok::Assign) {
            Ok(())
        } else {
            self.fail()
        }
    }

    pub(super) fn at_end(&self) -> bool {
        matches!(self.cur.tok, Tok::Eof | Tok::Semicolon)
    }

    /// Where the text of a hint comment between the last token and the current one stands.
    pub(super) fn hint_comment(&self) -> Option<(usize, usize)> {
        self.lex.hint_between(self.prev_end, self.cur.start)
    }

    /// `/*+ NO_WAIT() */` or `/*+ WAIT(n) */` behind the current token, and where it stands.
    pub(super) fn wait_hint(&self) -> Option<(LockWait, Span)> {
        let mut lex = self.lex;
        let next = lex.next_token();
        let (start, end) = lex.hint_between(self.cur.end, next.start)?;
        let text = std::str::from_utf8(self.src[start..end].trim_ascii()).ok()?;
        let (name, argument) = text.strip_suffix(')')?.split_once('(')?;
        let (name, argument) = (name.trim(), argument.trim());
        let wait = match argument.parse() {
            Ok(n) if name.eq_ignore_ascii_case("WAIT") => LockWait::Seconds(n),
            _ if argument.is_empty() && name.eq_ignore_ascii_case("NO_WAIT") => LockWait::NoWait,
            _ => return None,
        };
        let end = self.src[..next.start]
            .windows(2)
            .rposition(|w| w == b"*/")?
            + 2;
        let start = self.src[..end].windows(3).rposition(|w| w == b"/*+")?;
        Some((wait, Span { start, end }))
    }

    // Errors.

    /// The syntax error at the current token.
    pub(super) fn fail<T>(&self) -> SqlResult<T> {
        Err(self.error_at(self.cur.start))
    }

    pub(super) fn error_at(&self, pos: usize) -> SqlError {
        syntax_error(&self.src[self.begin..], pos - self.begin)
    }

    /// Remembers an error for the end of the statement; the first one counts.
    pub(super) fn defer(&mut self, error: SqlError) {
        self.deferred.get_or_insert(error);
    }

    /// Runs `f` one level deeper.
    pub(super) fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        if self.depth >= MAX_NESTING {
            return Err(too_deep());
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        result
    }

    // Lists.

    /// `item, item, …`
    pub(super) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(Tok::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// `(item, item, …)`
    pub(super) fn paren_list<T>(
        &mut self,
        item: impl FnMut(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<Vec<T>> {
        self.expect(Tok::LParen)?;
        let items = self.list(item)?;
        self.expect(Tok::RParen)?;
        Ok(items)
    }

    // Names.

    /// Does `(` follow the current word closely enough to make it a function?
    pub(super) fn paren_follows(&self) -> bool {
        let mut p = self.cur.end;
        if self.mode(SqlMode::IGNORE_SPACE) {
            while self.src.get(p).copied().is_some_and(is_space) {
                p += 1;
            }
        }
        self.src.get(p) == Some(&b'(')
    }
}

/// 1064 at byte `pos`.
pub(super) fn syntax_error(src: &[u8], pos: usize) -> SqlError {
    let (near, line) = near(src, pos);
    errors::syntax(&near, line)
}

/// What errors show of a place: the text there, cut off, and its line.
pub(super) fn near(src: &[u8], pos: usize) -> (String, usize) {
    let line = 1 + src[..pos].iter().filter(|&&b| b == b'\n').count();
    let rest = &src[pos..];
    // As in MySQL, a NUL ends it.
    let rest = rest.split(|b| *b == 0).next().unwrap_or_default();
    let mut cut = rest.len().min(NEAR_BYTES);
    if cut < rest.len() {
        while cut > 0 && rest[cut] & 0xc0 == 0x80 {
            cut -= 1;
        }
    }
    (String::from_utf8_lossy(&rest[..cut]).into_owned(), line)
}

pub(super) fn too_deep() -> SqlError {
    errors::too_deep(format!(
        "the statement nests deeper than {MAX_NESTING} levels"
    ))
}
