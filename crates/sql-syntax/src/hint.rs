//! Optimizer hints: reading `/*+ … */` behind SELECT, INSERT, REPLACE, UPDATE and DELETE.
//!
//! In flow order: [`Hinting`] gathers the hints of a statement's query blocks while it is parsed; `reader` reads one
//! comment; `settle` finds the block of each hint and drops those that contradict an earlier one. Neighbours: `query`
//! and `dml` begin blocks, `ast::hint` has the result.
//! **Invariants**: a hint never makes a statement fail, what is wrong with it is a warning; what stands before a
//! mistake in a comment counts, what stands behind it does not.

mod reader;
mod settle;

use std::sync::{Arc, OnceLock};

use super::ast::{BlockHints, HintKind, HintSwitch, Ident, JoinOrderHint, Literal, StatementHints};
use super::parser::{Parser, syntax_error};
use reader::Reader;
use settle::settle;

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
