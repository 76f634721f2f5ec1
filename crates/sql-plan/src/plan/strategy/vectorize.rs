//! Vectorized or row-at-a-time evaluation of what a task reads: decided by the form and the types of conditions, keys
//! and aggregates.
//!
//! Neighbours: `strategy` decides with it; `exec::parallel::vectorized` compiles the program that was decided for.
//! `docs/decisions/vectorized-execution.md` says what only the values decide.
//! **Invariant**: whatever can be compiled is found here. Constants and parameters whose values do not fit a batch are
//! not: then execution goes row at a time all the same.

use esker_types::arith::{BinOp, UnOp};
use esker_types::{SqlType, TypeKind};

use super::super::{BlockPlan, ScanPlan, Source};
use super::SinkKind;
use super::parallel_safe::has_queries;
use super::probe::ProbePipeline;
use crate::bind::AggCall;
use crate::expr::{Expr, ExprKind, Test};

/// How the rows that a task reads of a table are evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evaluation {
    /// Each by itself.
    RowAtATime,
    /// In batches, column by column.
    Vectorized {
        /// The aggregates too, and not only conditions.
        folds: bool,
    },
}

impl Evaluation {
    /// What EXPLAIN says of it.
    pub(in crate::plan) fn word(self) -> Option<&'static str> {
        match self {
            Self::RowAtATime => None,
            Self::Vectorized { folds: false } => Some("vectorized filter"),
            Self::Vectorized { folds: true } => Some("vectorized"),
        }
    }

    /// That of a block whose rows go to a sink.
    pub(super) fn of_block(block: &BlockPlan, probe: &ProbePipeline<'_>, sink: SinkKind) -> Self {
        let is_folded = sink == SinkKind::Group
            && probe.stages.is_empty()
            && probe.source.conds.iter().all(is_boolean)
            && block.group.as_ref().is_some_and(|group| {
                !group.keys.iter().any(has_queries) && group.aggs.iter().all(is_summed)
            });
        Self::of_scan(probe.source, is_folded)
    }

    /// That of a table whose rows are only filtered, or aggregated too.
    pub(super) fn of_scan(scan: &ScanPlan, folds: bool) -> Self {
        let Source::Base { access, .. } = &scan.source else {
            return Self::RowAtATime;
        };
        let has_columns = access.index == 0 || access.covering;
        let filters = scan.conds.first().is_some_and(is_boolean);
        match has_columns && (folds || filters) {
            true => Self::Vectorized { folds },
            false => Self::RowAtATime,
        }
    }
}

/// May a batch have the condition as a column of booleans?
fn is_boolean(expr: &Expr) -> bool {
    if refers_elsewhere(expr) {
        return false;
    }
    if slots(expr) <= 1 {
        return true;
    }
    match &expr.kind {
        ExprKind::And(_) | ExprKind::Or(_) | ExprKind::Xor(_) | ExprKind::Not(_) => {
            expr.children().into_iter().all(is_boolean)
        }
        ExprKind::Is { arg, test, .. } => match test {
            Test::Null => is_number(arg),
            Test::True | Test::False => is_boolean(arg),
        },
        ExprKind::Cmp(_) | ExprKind::Between(_) | ExprKind::InList(_) => {
            expr.children().into_iter().all(is_number)
        }
        ExprKind::Column(_) | ExprKind::Arith(_) | ExprKind::Case(_) => is_number(expr),
        _ => false,
    }
}

/// May a batch have the expression as a column of numbers?
fn is_number(expr: &Expr) -> bool {
    if refers_elsewhere(expr) {
        return false;
    }
    match slots(expr) {
        // A constant: its value decides.
        0 => return true,
        1 if has_numbers(&expr.ty) => return true,
        _ => {}
    }
    match &expr.kind {
        ExprKind::Arith(arith) => {
            let ops = [
                BinOp::Add,
                BinOp::Sub,
                BinOp::Mul,
                BinOp::IntDiv,
                BinOp::Mod,
            ];
            ops.contains(&arith.op) && arith.args.iter().all(is_number)
        }
        ExprKind::Unary(unary) => unary.op == UnOp::Neg && is_number(&unary.arg),
        ExprKind::Case(case) => {
            let mut values = case
                .whens
                .iter()
                .map(|(_, then)| then)
                .chain(&case.otherwise);
            has_numbers(&expr.ty)
                && case.whens.iter().all(|(when, _)| is_boolean(when))
                && values.all(is_number)
        }
        ExprKind::Coalesce(_) | ExprKind::NullIf(_) | ExprKind::Convert(_) => {
            has_numbers(&expr.ty) && expr.children().into_iter().all(is_number)
        }
        _ => slots(expr) > 1 && is_boolean(expr),
    }
}

/// Is the aggregate a count, a sum or an extreme of numbers?
fn is_summed(call: &AggCall) -> bool {
    match &call.args[..] {
        [] => true,
        [_] if call.distinct => false,
        [arg] => match call.def.name {
            "count" => arg.as_column().is_some() || is_number(arg),
            "sum" | "avg" => call.types.ret.kind == TypeKind::Decimal && is_number(arg),
            "min" | "max" => is_number(arg),
            _ => false,
        },
        _ => false,
    }
}

/// Do values of the type go into 64 bits, in their order?
fn has_numbers(ty: &SqlType) -> bool {
    use TypeKind::{Date, DateTime, Decimal, Time, Timestamp, Year};
    ty.is_integer() || matches!(ty.kind, Year | Decimal | Date | DateTime | Timestamp | Time)
}

/// Does it need an enclosing row, or rows of a query?
fn refers_elsewhere(expr: &Expr) -> bool {
    expr.any(&mut |e| matches!(e.kind, ExprKind::Outer { .. } | ExprKind::Subquery(_)))
}

/// How many columns it reads; two stand for all above one.
fn slots(expr: &Expr) -> usize {
    let (mut first, mut count) = (None, 0);
    expr.slots(&mut |slot| {
        if first != Some(slot) && count < 2 {
            first = first.or(Some(slot));
            count += 1;
        }
    });
    count
}
