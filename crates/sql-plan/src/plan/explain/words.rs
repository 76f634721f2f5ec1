//! What EXPLAIN FORMAT=TREE calls grouping, windows and set operations: MySQL's words, which people and tools look for.
//!
//! Neighbours: `tree` puts them into lines.
//! **Invariant**: every step of a set operation is named; a line says what is computed, not how.

use esker_sql_syntax::ast::SetOp;

use super::text::Names;
use crate::bind::LimitSpec;
use crate::expr::{Expr, ExprKind};
use crate::plan::block::limit_value;
use crate::plan::window::KeyPlan;
use crate::plan::{GroupPlan, QueryPlan, SetOpsPlan, SortPlan, WindowPlan, WindowRun};

/// What finds equal rows by keeping them.
pub(super) const DISTINCT: &str = "Temporary table with deduplication";

/// Groups and their functions.
pub(super) fn group(group: &GroupPlan, names: &Names<'_>) -> String {
    let calls = group.aggs.iter().map(|call| names.slot(call.slot));
    let calls: Vec<String> = calls.collect();
    let word = match (group.keys.is_empty(), group.rollup, group.is_streaming) {
        (true, ..) => "Aggregate",
        (false, Some(_), _) => "Group aggregate with rollup",
        (false, None, true) if calls.is_empty() => return "Group (no aggregates)".to_owned(),
        (false, None, true) => "Group aggregate",
        (false, None, false) => return "Aggregate using temporary table".to_owned(),
    };
    match calls.is_empty() {
        true => word.to_owned(),
        false => format!("{word}: {}", calls.join(", ")),
    }
}

/// What becomes of the operands.
pub(super) fn set_operation(ops: &SetOpsPlan) -> String {
    let steps = || ops.steps.iter().map(|(op, all, _)| (*op, *all));
    let first = steps().next();
    debug_assert!(first.is_some(), "an operation has two operands");
    match first.filter(|first| steps().all(|step| step == *first)) {
        Some((SetOp::Union, true)) => "Append".to_owned(),
        Some((SetOp::Union, false)) => "Union materialize with deduplication".to_owned(),
        Some((SetOp::Intersect, false)) => "Intersect materialize with deduplication".to_owned(),
        Some((SetOp::Except, false)) => "Except materialize with deduplication".to_owned(),
        Some((SetOp::Intersect, true)) => "Intersect all materialize".to_owned(),
        Some((SetOp::Except, true)) => "Except all materialize".to_owned(),
        None => {
            let words: Vec<&str> = steps().map(|(op, all)| word(op, all)).collect();
            format!("Set operations: {}", words.join(", "))
        }
    }
}

fn word(op: SetOp, all: bool) -> &'static str {
    match (op, all) {
        (SetOp::Union, false) => "union",
        (SetOp::Union, true) => "union all",
        (SetOp::Except, false) => "except",
        (SetOp::Except, true) => "except all",
        (SetOp::Intersect, false) => "intersect",
        (SetOp::Intersect, true) => "intersect all",
    }
}

/// LIMIT of a set operation.
pub(super) fn set_limit(limit: &LimitSpec) -> String {
    let number = |e: &Expr| limit_value(e).map_or_else(|| "?".to_owned(), |n| n.to_string());
    let count = number(&limit.count);
    match &limit.offset {
        None => format!("Limit: {count} row(s)"),
        Some(offset) => format!("Limit/Offset: {count}/{} row(s)", number(offset)),
    }
}

/// Keys of an ORDER BY of a set operation: its columns, by name.
pub(super) fn set_order(plan: &QueryPlan, ops: &SetOpsPlan) -> String {
    let keys = ops.order.iter().map(|key| {
        let text = match &key.expr.kind {
            ExprKind::Column(slot) => plan.columns.get(*slot as usize),
            _ => None,
        };
        let text = text.map_or_else(|| "?".to_owned(), |column| column.name.to_string());
        if key.desc { text + " DESC" } else { text }
    });
    keys.collect::<Vec<_>>().join(", ")
}

/// The windows over rows in one order, with their functions.
pub(super) fn windows(plan: &WindowPlan, sort: &SortPlan, names: &Names<'_>) -> String {
    let slot = |at: usize| names.slot(plan.kept[at]);
    let of_window = |window: &WindowRun| {
        let over = over(sort, window, &slot);
        let calls = window.calls.iter().map(|call| {
            let args = call.args.iter().map(|at| slot(*at));
            let number = call.number.iter().map(|number| names.text(number));
            let args: Vec<String> = args.chain(number).collect();
            format!("{}({}) OVER ({over})", call.func.name(), args.join(","))
        });
        calls.collect::<Vec<_>>().join(", ")
    };
    let all: Vec<String> = sort.windows.iter().map(of_window).collect();
    format!("Window aggregate: {}", all.join(", "))
}

/// PARTITION BY and ORDER BY of a window.
fn over(sort: &SortPlan, window: &WindowRun, slot: &dyn Fn(usize) -> String) -> String {
    let partition = &sort.keys[..window.partition];
    let order = &sort.keys[window.partition..window.ordered];
    let parts = [("PARTITION BY", partition), ("ORDER BY", order)];
    let parts = parts.into_iter().filter(|(_, keys)| !keys.is_empty());
    let parts = parts.map(|(word, of)| format!("{word} {}", keys(of, slot)));
    parts.collect::<Vec<_>>().join(" ")
}

/// The keys that rows are sorted by for windows.
pub(super) fn window_order(plan: &WindowPlan, sort: &SortPlan, names: &Names<'_>) -> String {
    keys(&sort.keys, &|at| names.slot(plan.kept[at]))
}

fn keys(of: &[KeyPlan], slot: &dyn Fn(usize) -> String) -> String {
    let texts = of.iter().map(|key| {
        let text = slot(key.at);
        if key.desc { text + " DESC" } else { text }
    });
    texts.collect::<Vec<_>>().join(", ")
}
