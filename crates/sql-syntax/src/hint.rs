//! Optimizer hints: reading `/*+ … */` behind SELECT, INSERT, REPLACE, UPDATE and DELETE.
//!
//! In flow order: [`Hinting`] gathers the hints of a statement's query blocks while it is parsed; [`Reader`] reads one
//! comment; [`settle`] finds the block of each hint and drops those that contradict an earlier one. Neighbours: `query`
//! and `dml` begin blocks, `ast::hint` has the result.
//! **Invariants**: a hint never makes a statement fail, what is wrong with it is a warning; what stands before a
//! mistake in a comment counts, what stands behind it does not.

use std::sync::{Arc, OnceLock};

use super::ast::{
    BlockHints, HintKind, HintSwitch, HintsOfBlock, Ident, JoinOrderHint, JoinOrderKind, Literal,
    StatementHints,
};
use super::lexer::is_space;
use super::parser::{Parser, syntax_error};

/// Most hints of a statement; further ones are as if they were not there.
const MAX_HINTS: usize = 1024;
/// Errors of comments that cannot be read.
const SYNTAX: u16 = 1064;
const CONFLICT: u16 = 3126;

/// The hints found so far.
#[derive(Clone, Default)]
pub(super) struct Hinting {
    /// Query blocks that have begun.
    begun: usize,
    /// Does the text hold a hint, perhaps? `None`: nobody has looked yet.
    possible: Option<bool>,
    /// The next SELECT belongs to the block that has begun already (INSERT … SELECT).
    continues: bool,
    comments: Vec<Comment>,
    all: Option<Arc<OnceLock<StatementHints>>>,
}

/// The hints of one comment.
#[derive(Clone)]
struct Comment {
    block: usize,
    hints: Vec<Hint>,
    mistake: Option<String>,
}

/// A hint as it is written. Blocks are named by `@name`.
#[derive(Clone, Debug)]
enum Hint {
    Name(Ident),
    Switch(HintSwitch, Option<Ident>),
    FixedOrder(Option<Ident>),
    Order(JoinOrderHint, Option<Ident>),
    Time(u32),
    Variable(Ident, Literal, String),
    Group(Ident),
    /// Something about its number of arguments is wrong.
    Wrong(String),
}

impl Parser<'_> {
    /// Begins a query block, whose first word has just been read.
    pub(super) fn block_hints(&mut self) -> Option<Box<BlockHints>> {
        if !std::mem::take(&mut self.hinting.continues) {
            self.hinting.begun += 1;
        }
        let from = self.prev_end;
        let is_possible = || self.src[from..].windows(3).any(|w| w == b"/*+");
        if !*self.hinting.possible.get_or_insert_with(is_possible) {
            return None;
        }
        let block = self.hinting.begun - 1;
        if let Some((start, end)) = self.hint_comment() {
            let mut reader = Reader::new(self.src, start, end);
            let hints = reader.hints();
            let mistake = reader.mistake.map(|at| self.mistake(at, end));
            self.hinting.comments.push(Comment {
                block,
                hints,
                mistake: mistake.or(reader.complaint.take()),
            });
        }
        let all = self.hinting.all.get_or_insert_with(Arc::default).clone();
        Some(Box::new(BlockHints { block, all }))
    }

    /// The same for INSERT and REPLACE, whose block is that of the SELECT behind them.
    pub(super) fn insert_hints(&mut self) -> Option<Box<BlockHints>> {
        self.hint_comment()?;
        let hints = self.block_hints();
        self.hinting.continues = true;
        hints
    }

    fn mistake(&self, at: usize, end: usize) -> String {
        let near = syntax_error(&self.src[self.begin..], at - self.begin).message;
        match near.split_once("near ") {
            Some((_, near)) if at < end => format!("Optimizer hint syntax error near {near}"),
            // The end of the comment stands alone.
            Some((_, near)) => {
                let line = near.rsplit_once(" at line ").map_or("1", |(_, line)| line);
                format!("Optimizer hint syntax error near '*/' at line {line}")
            }
            None => near,
        }
    }

    /// Completes the hints of the statement, which has been parsed.
    pub(super) fn settle_hints(&mut self, is_query: bool) {
        if let Some(all) = self.hinting.all.take() {
            let comments = std::mem::take(&mut self.hinting.comments);
            let settled = settle(&comments, self.hinting.begun, is_query);
            all.set(settled).expect("a statement ends once");
        }
    }
}

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
struct Reader<'a> {
    src: &'a [u8],
    end: usize,
    /// What comes next, and where it stands.
    token: Token,
    start: usize,
    stop: usize,
    /// Where it went wrong.
    mistake: Option<usize>,
    /// What is wrong where the syntax is right.
    complaint: Option<String>,
}

/// `Err`: at the current token nothing can be read any more.
struct Stuck;

impl<'a> Reader<'a> {
    fn new(src: &'a [u8], start: usize, end: usize) -> Self {
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

    fn hints(&mut self) -> Vec<Hint> {
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

/// A hint as warnings show it.
fn shown(hint: &HintSwitch) -> String {
    let quoted = |name: &Ident| format!("`{}`", name.text);
    let table = hint.table.as_ref().map(quoted).unwrap_or_default();
    let indexes: Vec<_> = match hint.kind {
        HintKind::Subquery => hint.indexes.iter().map(|i| i.text.to_uppercase()).collect(),
        _ => hint.indexes.iter().map(quoted).collect(),
    };
    let gap = if hint.indexes.is_empty() || hint.kind == HintKind::Subquery {
        " "
    } else {
        "  "
    };
    format!("{}({table}{gap}{})", hint.name, indexes.join(", "))
}

fn same(a: &Ident, b: &Ident) -> bool {
    a.text.to_lowercase() == b.text.to_lowercase()
}

/// Does an earlier hint say something of the same?
fn contradicts(earlier: &HintSwitch, later: &HintSwitch) -> bool {
    if !earlier.kind.overlaps(later.kind) {
        return false;
    }
    match (&earlier.table, &later.table) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(a), Some(b)) => {
            let shares = |i: &Ident| later.indexes.iter().any(|j| same(i, j));
            same(a, b)
                && (later.kind.is_compound()
                    || earlier.indexes.is_empty()
                    || earlier.indexes.iter().any(shares))
        }
    }
}

/// The blocks of a statement while their hints are sorted out.
struct Settling {
    done: StatementHints,
    /// Texts of variables that are set.
    is_query: bool,
}

fn settle(comments: &[Comment], blocks: usize, is_query: bool) -> StatementHints {
    let blocks = (1..=blocks).map(|n| HintsOfBlock {
        name: format!("select#{n}").into(),
        ..HintsOfBlock::default()
    });
    let mut settling = Settling {
        done: StatementHints {
            blocks: blocks.collect(),
            ..StatementHints::default()
        },
        is_query,
    };
    for comment in comments {
        settling.name_blocks(comment);
    }
    for comment in comments {
        for hint in &comment.hints {
            settling.take(hint, comment.block);
        }
        if let Some(mistake) = &comment.mistake {
            settling.note(comment.block, SYNTAX, mistake.clone());
        }
    }
    settling.done
}

impl Settling {
    fn note(&mut self, block: usize, code: u16, text: String) {
        self.done.blocks[block].notes.push((code, text));
    }

    fn conflict(&mut self, block: usize, hint: &str) {
        self.note(
            block,
            CONFLICT,
            format!("Hint {hint} is ignored as conflicting/duplicated"),
        );
    }

    fn name_blocks(&mut self, comment: &Comment) {
        let own = format!("select#{}", comment.block + 1);
        for hint in &comment.hints {
            let Hint::Name(name) = hint else {
                continue;
            };
            let blocks = &self.done.blocks;
            let is_new = *blocks[comment.block].name == *own;
            let is_taken = blocks
                .iter()
                .any(|b| b.name.eq_ignore_ascii_case(&name.text));
            match is_new && !is_taken {
                true => self.done.blocks[comment.block].name = name.text.clone(),
                false => self.conflict(comment.block, &format!("QB_NAME(`{}`)", name.text)),
            }
        }
    }

    /// The block that a hint is about.
    fn block(&mut self, named: Option<&Ident>, within: usize, hint: &str) -> Option<usize> {
        let Some(named) = named else {
            return Some(within);
        };
        let number = named
            .text
            .strip_prefix("select#")
            .and_then(|n| n.parse::<usize>().ok());
        let by_name = |b: &HintsOfBlock| b.name.eq_ignore_ascii_case(&named.text);
        let found = self.done.blocks.iter().position(by_name);
        let found = found.or_else(|| {
            number?
                .checked_sub(1)
                .filter(|n| *n < self.done.blocks.len())
        });
        if found.is_none() {
            let text = format!(
                "Query block name `{}` is not found for {hint} hint",
                named.text
            );
            self.note(within, 3127, text);
        }
        found
    }

    fn take(&mut self, hint: &Hint, within: usize) {
        match hint {
            Hint::Name(_) => {}
            Hint::Wrong(why) => self.note(within, 3614, why.clone()),
            Hint::Switch(switch, block) => {
                let Some(block) = self.block(block.as_ref(), within, switch.name) else {
                    return;
                };
                let known = &self.done.blocks[block].switches;
                match known.iter().any(|earlier| contradicts(earlier, switch)) {
                    true => self.conflict(within, &shown(switch)),
                    false => self.done.blocks[block].switches.push(switch.clone()),
                }
            }
            Hint::FixedOrder(block) => {
                let Some(block) = self.block(block.as_ref(), within, "JOIN_FIXED_ORDER") else {
                    return;
                };
                let own = &mut self.done.blocks[block];
                match own.fixed_order || !own.orders.is_empty() {
                    true => self.conflict(within, "JOIN_FIXED_ORDER( )"),
                    false => own.fixed_order = true,
                }
            }
            Hint::Order(order, block) => self.take_order(order, block.as_ref(), within),
            Hint::Time(millis) => self.take_time(*millis, within),
            Hint::Variable(name, value, shown) => {
                let known = &mut self.done.variables;
                match known.iter().any(|(other, _)| same(other, name)) {
                    true => self.conflict(within, shown),
                    false => known.push((name.clone(), value.clone())),
                }
            }
            Hint::Group(group) => match self.done.resource_group.is_some() {
                true => self.conflict(within, &format!("RESOURCE_GROUP(`{}`)", group.text)),
                false => self.done.resource_group = Some(group.clone()),
            },
        }
    }

    fn take_order(&mut self, order: &JoinOrderHint, block: Option<&Ident>, within: usize) {
        let Some(block) = self.block(block, within, order.name) else {
            return;
        };
        let own = &mut self.done.blocks[block];
        let is_once = order.kind != JoinOrderKind::Order;
        let is_double = is_once && own.orders.iter().any(|o| o.kind == order.kind);
        if !own.fixed_order && !is_double {
            own.orders.push(order.clone());
            return;
        }
        let names: Vec<_> = order
            .tables
            .iter()
            .map(|t| format!("`{}`", t.text))
            .collect();
        self.conflict(within, &format!("{}( {})", order.name, names.join(",")));
    }

    fn take_time(&mut self, millis: u32, within: usize) {
        if !self.is_query || within > 0 {
            let text = "MAX_EXECUTION_TIME hint is supported by top-level standalone SELECT statements only";
            return self.note(within, 3125, text.to_owned());
        }
        match self.done.max_execution_millis {
            Some(_) => self.conflict(within, &format!("MAX_EXECUTION_TIME({millis})")),
            None => self.done.max_execution_millis = Some(millis),
        }
    }
}
