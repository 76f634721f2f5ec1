//! Settling the hints of a statement: which query block each belongs to, and which contradict an earlier one.
//!
//! Neighbours: `hint` hands over the comments when the statement is parsed; `ast::hint` has the result.
//! **Invariant**: of two hints that contradict each other the first counts, and the other leaves a warning.

use super::{Comment, Hint, shown};
use crate::ast::{HintSwitch, HintsOfBlock, Ident, JoinOrderHint, JoinOrderKind, StatementHints};

/// Errors of comments that cannot be read.
const SYNTAX: u16 = 1064;
const CONFLICT: u16 = 3126;

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
    /// Is the statement a query by itself?
    is_query: bool,
}

/// Finds the block of each hint, and drops those that contradict an earlier one.
pub(super) fn settle(comments: &[Comment], blocks: usize, is_query: bool) -> StatementHints {
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
