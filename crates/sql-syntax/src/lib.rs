//! SQL text to syntax trees: our own lexer and recursive descent parser for MySQL 8.4 with a few
//! MariaDB extras.
//!
//! Neighbours: `session` calls [`parse`] and [`digest`](digest::digest); `bind`, `ddl`, `dml` read the
//! [`ast`]. Knows no catalog and no session beyond the SQL mode and
//! the [`Watch`] on long texts.
//!
//! Flow: `client_text` (what is not sent in UTF-8) → `lexer` (with `keyword` and `literal`) → `parser` (token helpers)
//! and `terminals` (names, texts, numbers) → `statement` (dispatch) → `query` (with `item_name`), `table_ref`, `dml`,
//! `ddl`, `index`, `table_option`, `column`, `partition`, `alter`, `tablespace`, `account`, `set`, `transaction`, `xa`,
//! `admin` (server control), `explain`, `show`, `replication`, `program` (stored programs), `trigger`, `event`,
//! `handler` → `expr`, `operand`, `call`, `json`, `window`;
//! `hint` reads optimizer hints, `deprecated` says what MySQL warns of. Why our own: `docs/decisions/parser.md`.
//!
//! **Invariants**: no input makes it panic or overflow the stack ([`MAX_NESTING`],
//! [`MAX_EXPR_HEIGHT`]); a syntax error is MySQL's 1064 with the same `near` text and line; a
//! statement is either parsed whole or refused whole.

mod account;
mod admin;
mod alter;
pub mod ast;
mod call;
mod client_text;
mod column;
mod ddl;
mod deprecated;
pub mod digest;
mod dml;
mod event;
mod explain;
mod expr;
mod handler;
mod hint;
mod index;
mod item_name;
mod json;
pub mod keyword;
pub mod lexer;
mod literal;
mod operand;
mod parser;
mod partition;
mod program;
mod query;
mod replication;
mod set;
mod show;
mod statement;
mod table_option;
mod table_ref;
mod tablespace;
mod terminals;
#[cfg(test)]
mod tests;
mod transaction;
mod trigger;
mod window;
mod xa;

use std::fmt;
use std::ops::Range;

use esker_types::collation::Charset;
use esker_types::ctx::SessionInfo;
use esker_types::{SqlError, SqlMode, SqlResult, errors};

use ast::{Span, Statement};
pub use client_text::ClientText;
pub use deprecated::Deprecation;
use lexer::Tok;
use parser::Parser;

/// Deepest nesting of parentheses, subqueries, calls and prefix operators.
pub const MAX_NESTING: u32 = 300;

/// Most query blocks inside one another, as in MySQL: the outermost one and 63 in it.
pub const MAX_SELECT_NESTING: u32 = 64;

/// Tallest expression tree: also bounds chains such as `1+1+1+…`, which nest to the left.
pub const MAX_EXPR_HEIGHT: u32 = 512;

/// How to read a statement.
#[derive(Debug, Clone, Copy, Default)]
pub struct ParseOptions<'a> {
    /// SQL mode: quotes, `||`, NOT, backslashes, spaces before `(`.
    pub sql_mode: SqlMode,
    /// `?` is a parameter (PREPARE); otherwise it is a syntax error.
    pub params: bool,
    /// More statements may follow a `;` (CLIENT_MULTI_STATEMENTS); otherwise they are an error.
    pub multi: bool,
    /// Replace the literals that start at these offsets (ascending, as
    /// [`digest`](digest::digest) lists them) by parameters numbered in this order.
    pub lift: Option<&'a [usize]>,
    /// The character set in which the client wrote the statement, which is read in UTF-8.
    pub client: Charset,
    /// Who is asked whether a long text may be read on.
    pub watch: Option<Watch<'a>>,
}

/// Who bounds the reading of a long text.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Knows whether the statement may go on, and whether there is memory for its tree.
    pub session: &'a dyn SessionInfo,
    /// parser_max_mem_size: bytes of the tree.
    pub most_bytes: u64,
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch({})", self.most_bytes)
    }
}

/// One parsed statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The statement.
    pub stmt: Statement,
    /// Number of parameters: `?` seen, or literals replaced. With `lift`, a number below its length
    /// means that some literal was part of the syntax: the plan must not be shared.
    pub params: u32,
    /// Those among them that are numbers of LIMIT.
    pub limits: Vec<u32>,
    /// The statement's text, without the `;`.
    pub span: Span,
    /// Where the next statement starts, if there is one.
    pub rest: Option<usize>,
    /// Parts of the text that the binary log does not get.
    pub unlogged: Vec<Span>,
    /// Where the text names accounts, from its own beginning on.
    pub accounts: AccountPlaces,
    /// What the tree takes in memory, about.
    pub tree_bytes: u64,
    /// Deprecated syntax, in the order of the text.
    pub deprecations: Vec<Deprecation>,
}

/// Where the text of a statement names accounts, for those who say it in other words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccountPlaces {
    /// CURRENT_USER and USER().
    pub own: Vec<Range<usize>>,
    /// Where the list of CREATE USER, ALTER USER and SET PASSWORD ends: accounts, and how they prove themselves.
    pub list_end: usize,
}

impl AccountPlaces {
    /// The same, in a text that begins at `start`.
    fn from(mut self, start: usize) -> Self {
        for place in &mut self.own {
            *place = place.start - start..place.end - start;
        }
        self.list_end = self.list_end.saturating_sub(start);
        self
    }
}

impl Parsed {
    /// The statement's text for the binary log; `sql` is what was parsed.
    pub fn logged_text(&self, sql: &[u8]) -> Vec<u8> {
        let mut text = sql[self.span.start..self.span.end].to_vec();
        for part in &self.unlogged {
            let part = part.start - self.span.start..part.end - self.span.start;
            text[part.clone()].fill(b' ');
            // In a list, one of its commas goes with it.
            let is_text = |b: &u8| !lexer::is_space(*b);
            let before = text[..part.start].iter().rposition(is_text);
            let behind = text[part.end..].iter().position(is_text);
            let commas = [before, behind.map(|at| part.end + at)];
            if let Some(comma) = commas.into_iter().flatten().find(|at| text[*at] == b',') {
                text[comma] = b' ';
            }
        }
        text
    }
}

/// Parses the first statement of `sql`.
pub fn parse(sql: &[u8], opts: ParseOptions<'_>) -> SqlResult<Parsed> {
    parse_at(sql, 0, opts)
}

/// Parses the statement that starts at byte `start` of `sql`: the next one of a multi-statement.
///
/// Like MySQL, drops white space in front and white space and `;` at the end before anything else:
/// error texts and line numbers see the rest only.
pub fn parse_at(sql: &[u8], start: usize, opts: ParseOptions<'_>) -> SqlResult<Parsed> {
    let (begin, end) = trim(sql, start);
    let src = &sql[..end];
    if begin == end {
        return Err(SqlError::new(1065, "42000", "Query was empty"));
    }
    let mut parser = Parser::new(src, begin, opts);
    let stmt = parser.statement();
    if let Some(error) = parser.stopped.take() {
        return Err(error);
    }
    let stmt = stmt?;
    let stop = parser.cur.start;
    let mut rest = None;
    if parser.is(Tok::Semicolon) {
        let after = parser.cur.end;
        if opts.multi && !opts.params {
            rest = (after < end).then_some(after);
        } else {
            parser.advance();
        }
    }
    if rest.is_none() && !matches!(parser.cur.tok, Tok::Eof | Tok::Semicolon) {
        return parser.fail();
    }
    if let Some(error) = parser.deferred {
        return Err(error);
    }
    parser.settle_hints(matches!(stmt, Statement::Query(_) | Statement::Explain(_)));
    let span = Span {
        start: begin,
        end: begin + src[begin..stop].trim_ascii_end().len(),
    };
    let params = if opts.lift.is_some() {
        parser.lifted
    } else {
        parser.params
    };
    let tree_bytes = parser.tree_bytes();
    Ok(Parsed {
        stmt,
        params,
        limits: parser.limits,
        span,
        rest,
        unlogged: parser.unlogged,
        accounts: parser.accounts.from(begin),
        tree_bytes,
        deprecations: parser.deprecations,
    })
}

/// The part of `sql` from `start` on that MySQL parses.
fn trim(sql: &[u8], start: usize) -> (usize, usize) {
    let lead = sql[start..]
        .iter()
        .take_while(|&&b| lexer::is_space(b))
        .count();
    let begin = start + lead;
    let drop = |b: &&u8| **b == b';' || lexer::is_space(**b);
    let trail = sql[begin..].iter().rev().take_while(drop).count();
    (begin, sql.len() - trail)
}

/// Reads an expression that a table keeps: it means the same in every SQL mode.
///
/// # Errors
/// 1064: that is no expression.
pub fn parse_expression(text: &str) -> SqlResult<ast::Expr> {
    let statement = format!("DO {text}");
    let options = ParseOptions {
        sql_mode: SqlMode::default(),
        ..ParseOptions::default()
    };
    match parse(statement.as_bytes(), options)?.stmt {
        ast::Statement::Do(mut exprs) if exprs.len() == 1 => Ok(exprs.remove(0)),
        _ => Err(errors::syntax(text, 1)),
    }
}
