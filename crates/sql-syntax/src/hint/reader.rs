//! Reading one comment of hints: a recursive descent over its tokens.
//!
//! Neighbours: `hint` gives the text between `/*+` and `*/`, and makes warnings of mistakes and complaints.
//! **Invariant**: what cannot be read is left at the first such token; the hints before it are kept.

use super::{Hint, shown};
use crate::ast::{HintKind, HintSwitch, Ident, JoinOrderHint, JoinOrderKind, Literal};
use crate::lexer::is_space;
use crate::parser::syntax_error;

/// Most hints of a comment; further ones are as if they were not there.
const MAX_HINTS: usize = 1024;

/// A hint's name, and what it is.
enum Named {
    Switch(HintKind, bool),
    Order(JoinOrderKind),
    FixedOrder,
    Strategies,
    Time,
    Variable,
    Group,
    Block,
}

#[rustfmt::skip] // one line each, to be read as a table
const NAMES: &[(&str, Named)] = {
    use HintKind as K;
    use Named::Switch as S;
    &[
        ("BKA", S(K::Bka, true)), ("NO_BKA", S(K::Bka, false)),
        ("BNL", S(K::Bnl, true)), ("NO_BNL", S(K::Bnl, false)),
        ("HASH_JOIN", S(K::HashJoin, true)), ("NO_HASH_JOIN", S(K::HashJoin, false)),
        ("MERGE", S(K::Merge, true)), ("NO_MERGE", S(K::Merge, false)),
        ("DERIVED_CONDITION_PUSHDOWN", S(K::ConditionPushdown, true)),
        ("NO_DERIVED_CONDITION_PUSHDOWN", S(K::ConditionPushdown, false)),
        ("MRR", S(K::Mrr, true)), ("NO_MRR", S(K::Mrr, false)),
        ("NO_ICP", S(K::ConditionInIndex, false)), ("NO_RANGE_OPTIMIZATION", S(K::Range, false)),
        ("INDEX_MERGE", S(K::IndexMerge, true)), ("NO_INDEX_MERGE", S(K::IndexMerge, false)),
        ("SKIP_SCAN", S(K::SkipScan, true)), ("NO_SKIP_SCAN", S(K::SkipScan, false)),
        ("INDEX", S(K::Index, true)), ("NO_INDEX", S(K::Index, false)),
        ("JOIN_INDEX", S(K::JoinIndex, true)), ("NO_JOIN_INDEX", S(K::JoinIndex, false)),
        ("GROUP_INDEX", S(K::GroupIndex, true)), ("NO_GROUP_INDEX", S(K::GroupIndex, false)),
        ("ORDER_INDEX", S(K::OrderIndex, true)), ("NO_ORDER_INDEX", S(K::OrderIndex, false)),
        ("SEMIJOIN", Named::Strategies), ("NO_SEMIJOIN", Named::Strategies), ("SUBQUERY", Named::Strategies),
        ("JOIN_ORDER", Named::Order(JoinOrderKind::Order)), ("JOIN_PREFIX", Named::Order(JoinOrderKind::Prefix)),
        ("JOIN_SUFFIX", Named::Order(JoinOrderKind::Suffix)), ("JOIN_FIXED_ORDER", Named::FixedOrder),
        ("MAX_EXECUTION_TIME", Named::Time), ("SET_VAR", Named::Variable), ("RESOURCE_GROUP", Named::Group),
        ("QB_NAME", Named::Block),
    ]
};

const SEMIJOINS: &[&str] = &["FIRSTMATCH", "LOOSESCAN", "MATERIALIZATION", "DUPSWEEDOUT"];
const SUBQUERIES: &[&str] = &["INTOEXISTS", "MATERIALIZATION"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token {
    Name,
    Quoted(u8),
    Number,
    Mark(u8),
    End,
}

/// Reads a comment.
pub(super) struct Reader<'a> {
    src: &'a [u8],
    end: usize,
    /// What comes next, and where it stands.
    token: Token,
    start: usize,
    stop: usize,
    /// Where it went wrong.
    pub(super) mistake: Option<usize>,
    /// What is wrong where the syntax is right.
    pub(super) complaint: Option<String>,
}

/// `Err`: at the current token nothing can be read any more.
struct Stuck;

impl<'a> Reader<'a> {
    pub(super) fn new(src: &'a [u8], start: usize, end: usize) -> Self {
        let mut reader = Self {
            src,
            end,
            token: Token::End,
            start,
            stop: start,
            mistake: None,
            complaint: None,
        };
        reader.advance();
        reader
    }

    fn advance(&mut self) {
        let text = &self.src[..self.end];
        let blank = text[self.stop..]
            .iter()
            .take_while(|b| is_space(**b))
            .count();
        self.start = self.stop + blank;
        let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'$' || b >= 0x80;
        let rest = &text[self.start..];
        let run = rest.iter().take_while(|b| is_name(**b)).count();
        let (token, len) = match rest.first() {
            None => (Token::End, 0),
            Some(quote @ (b'`' | b'"' | b'\'')) => {
                match rest[1..].iter().position(|b| b == quote) {
                    Some(end) => (Token::Quoted(*quote), end + 2),
                    None => (Token::Mark(*quote), 1),
                }
            }
            Some(b) if is_name(*b) => {
                let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
                let is_number = digits > 0 && digits == run;
                (
                    if is_number {
                        Token::Number
                    } else {
                        Token::Name
                    },
                    run,
                )
            }
            Some(mark) => (Token::Mark(*mark), 1),
        };
        self.token = token;
        self.stop = self.start + len;
    }

    fn word(&self) -> String {
        String::from_utf8_lossy(&self.src[self.start..self.stop]).into_owned()
    }

    fn eat(&mut self, mark: u8) -> bool {
        let found = self.token == Token::Mark(mark);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, mark: u8) -> Result<(), Stuck> {
        if self.eat(mark) { Ok(()) } else { Err(Stuck) }
    }

    fn name(&mut self) -> Result<Ident, Stuck> {
        let word = self.word();
        let (text, quoted) = match self.token {
            Token::Name => (word, false),
            Token::Quoted(b'`') => (word[1..word.len() - 1].to_owned(), true),
            _ => return Err(Stuck),
        };
        self.advance();
        Ok(Ident {
            text: text.into(),
            quoted,
        })
    }

    /// `@block`, if it is there.
    fn block(&mut self) -> Result<Option<Ident>, Stuck> {
        if self.eat(b'@') {
            self.name().map(Some)
        } else {
            Ok(None)
        }
    }

    pub(super) fn hints(&mut self) -> Vec<Hint> {
        let mut hints = Vec::new();
        if self.token == Token::End {
            self.mistake = Some(self.start);
        }
        while self.token != Token::End && hints.len() < MAX_HINTS && self.complaint.is_none() {
            if self.hint(&mut hints).is_err() {
                self.mistake = Some(self.start);
                break;
            }
        }
        hints
    }

    fn hint(&mut self, out: &mut Vec<Hint>) -> Result<(), Stuck> {
        let word = self.word();
        let is_name = self.token == Token::Name;
        let found = NAMES
            .iter()
            .find(|(name, _)| is_name && name.eq_ignore_ascii_case(&word));
        let (name, what) = found.ok_or(Stuck)?;
        self.advance();
        self.expect(b'(')?;
        match what {
            Named::Switch(kind, on) if kind.is_of_indexes() => {
                self.index_hint(name, *kind, *on, out)?
            }
            Named::Switch(kind, on) => self.table_hint(name, *kind, *on, out)?,
            Named::Strategies => self.strategies(name, out)?,
            Named::FixedOrder => out.push(Hint::FixedOrder(self.block()?)),
            Named::Order(kind) => {
                let block = self.block()?;
                let tables = self.tables()?;
                let tables = tables.into_iter().map(|(table, _)| table).collect();
                let hint = JoinOrderHint {
                    name,
                    kind: *kind,
                    tables,
                };
                out.push(Hint::Order(hint, block));
            }
            Named::Time => {
                let digits = self.word();
                if self.token != Token::Number {
                    return Err(Stuck);
                }
                self.advance();
                match digits.parse() {
                    Ok(millis) => out.push(Hint::Time(millis)),
                    Err(_) => {
                        let near = syntax_error(self.src, self.start).message;
                        let near = near.split_once("near ").map_or("", |(_, near)| near);
                        self.complaint =
                            Some(format!("Unsupported MAX_EXECUTION_TIME near {near}"));
                        return Ok(());
                    }
                }
            }
            Named::Variable => self.variable(out)?,
            Named::Group => out.push(Hint::Group(self.name()?)),
            Named::Block => out.push(Hint::Name(self.name()?)),
        }
        self.expect(b')')
    }

    /// `t, t@block, …`
    fn tables(&mut self) -> Result<Vec<(Ident, Option<Ident>)>, Stuck> {
        let mut tables = Vec::new();
        loop {
            tables.push((self.name()?, self.block()?));
            if !self.eat(b',') {
                return Ok(tables);
            }
        }
    }

    fn table_hint(
        &mut self,
        name: &'static str,
        kind: HintKind,
        on: bool,
        out: &mut Vec<Hint>,
    ) -> Result<(), Stuck> {
        let block = self.block()?;
        let switch = |table| HintSwitch {
            name,
            kind,
            on,
            table,
            indexes: Vec::new(),
        };
        if self.token == Token::Mark(b')') {
            out.push(Hint::Switch(switch(None), block));
            return Ok(());
        }
        for (table, at) in self.tables()? {
            out.push(Hint::Switch(
                switch(Some(table)),
                at.or_else(|| block.clone()),
            ));
        }
        Ok(())
    }

    fn index_hint(
        &mut self,
        name: &'static str,
        kind: HintKind,
        on: bool,
        out: &mut Vec<Hint>,
    ) -> Result<(), Stuck> {
        let mut block = self.block()?;
        let table = Some(self.name()?);
        if block.is_none() {
            block = self.block()?;
        }
        let mut indexes = Vec::new();
        while self.token != Token::Mark(b')') {
            if !indexes.is_empty() {
                self.expect(b',')?;
            }
            indexes.push(self.name()?);
        }
        let switch = HintSwitch {
            name,
            kind,
            on,
            table,
            indexes,
        };
        // A merge takes two indexes at least.
        out.push(match kind {
            HintKind::IndexMerge if on && switch.indexes.len() == 1 => Hint::Wrong(format!(
                "Invalid number of arguments for hint {}",
                shown(&switch)
            )),
            _ => Hint::Switch(switch, block),
        });
        Ok(())
    }

    fn strategies(&mut self, name: &'static str, out: &mut Vec<Hint>) -> Result<(), Stuck> {
        let block = self.block()?;
        let known = if name == "SUBQUERY" {
            SUBQUERIES
        } else {
            SEMIJOINS
        };
        let mut indexes = Vec::new();
        while self.token != Token::Mark(b')') || (name == "SUBQUERY" && indexes.is_empty()) {
            if !indexes.is_empty() {
                self.expect(b',')?;
            }
            let word = self.word();
            let is_known = known.iter().any(|k| k.eq_ignore_ascii_case(&word));
            if self.token != Token::Name || !is_known {
                return Err(Stuck);
            }
            indexes.push(Ident::new(word));
            self.advance();
        }
        let switch = HintSwitch {
            name,
            kind: HintKind::Subquery,
            on: !name.starts_with("NO_"),
            table: None,
            indexes,
        };
        out.push(Hint::Switch(switch, block));
        Ok(())
    }

    /// `name = value`.
    fn variable(&mut self, out: &mut Vec<Hint>) -> Result<(), Stuck> {
        let name = self.name()?;
        self.expect(b'=')?;
        let word = self.word();
        let value = match self.token {
            Token::Number => word.parse().map(Literal::Int).map_err(|_| Stuck)?,
            Token::Name => match sized(&word) {
                Some(bytes) => Literal::Int(bytes),
                None => text(&word),
            },
            Token::Quoted(b'\'' | b'"') => text(&word[1..word.len() - 1]),
            _ => return Err(Stuck),
        };
        self.advance();
        let shown = format!("SET_VAR({}={word}) ", name.text);
        out.push(Hint::Variable(name, value, shown));
        Ok(())
    }
}

fn text(text: &str) -> Literal {
    Literal::Str {
        bytes: text.as_bytes().to_vec(),
        charset: None,
    }
}

/// A number with K, M or G behind it.
fn sized(word: &str) -> Option<u64> {
    let (digits, unit) = word.split_at_checked(word.len().checked_sub(1)?)?;
    let shift = match unit {
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}
