//! Constant folding.
//!
//! Neighbours: the binder folds every node it makes; functions say themselves whether they are pure.
//! **Invariants**: folding gives the value evaluation would give in this statement; an expression
//! whose evaluation fails or warns is left as it is, so that the error or warning comes (or not) when
//! rows are evaluated, as often as MySQL's does.

use esker_types::Value;
use esker_types::func::{FuncDef, FuncFlags};

use super::{EvalEnv, Expr, ExprKind};

/// May the function be computed once when its arguments are constant?
pub fn is_pure(def: &FuncDef) -> bool {
    def.flags.has(FuncFlags::DETERMINISTIC) && !def.flags.has(FuncFlags::NEEDS_SESSION)
}

/// Functions that may give another value for the next row, or that do something.
const VOLATILE: &[&str] = &[
    "benchmark",
    "get_lock",
    "is_free_lock",
    "is_used_lock",
    "last_insert_id",
    "rand",
    "random_bytes",
    "release_all_locks",
    "release_lock",
    "sleep",
    "sysdate",
    "uuid",
    "uuid_short",
];

/// Functions that tell the time of the statement.
const CLOCKS: &[&str] = &[
    "now",
    "current_timestamp",
    "localtime",
    "localtimestamp",
    "utc_timestamp",
    "curdate",
    "current_date",
    "utc_date",
    "curtime",
    "current_time",
    "utc_time",
    "unix_timestamp",
];

/// Does the function tell the time of the statement, or make another form of it or of a time that it is given?
pub fn tells_time(def: &FuncDef) -> bool {
    CLOCKS.contains(&def.name)
}

/// May the function give another value for the next row?
pub fn is_volatile(def: &FuncDef) -> bool {
    !def.flags.has(FuncFlags::DETERMINISTIC) && VOLATILE.contains(&def.name)
}

/// Can an expression of this kind be computed once, if its operands are constants?
pub(super) fn is_foldable(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Func(call) => is_pure(call.def),
        ExprKind::Column(_)
        | ExprKind::Outer { .. }
        | ExprKind::Param(_)
        | ExprKind::UserVar(_)
        | ExprKind::Assign(..)
        | ExprKind::SeededRand(..)
        | ExprKind::Kept(_)
        | ExprKind::Aggregate(_)
        | ExprKind::Window(_)
        | ExprKind::Key(_)
        | ExprKind::Grouping(_)
        | ExprKind::Match(_)
        | ExprKind::Stored(_)
        | ExprKind::Subquery(_) => false,
        _ => true,
    }
}

/// Replaces a constant expression by its value.
pub fn fold(expr: Expr, env: &EvalEnv<'_>) -> Expr {
    if matches!(expr.kind, ExprKind::Const(_) | ExprKind::Row(_)) {
        return expr;
    }
    // Operands are folded already: only constants below make a constant.
    if !is_foldable(&expr)
        || !expr
            .children()
            .iter()
            .all(|c| matches!(c.kind, ExprKind::Const(_)))
    {
        return expr;
    }
    let mark = env.ctx.diagnostics.mark();
    match expr.eval(&[], env) {
        Ok(value) if !env.ctx.diagnostics.raised_since(mark) => Expr {
            kind: ExprKind::Const(value),
            ty: expr.ty,
            coer: expr.coer,
        },
        _ => {
            env.ctx.diagnostics.undo_to(mark);
            expr
        }
    }
}

/// Is this the constant TRUE or FALSE (as a condition)? NULL counts as FALSE where only TRUE keeps a
/// row.
pub fn constant_boolean(expr: &Expr) -> Option<bool> {
    match &expr.kind {
        ExprKind::Const(Value::Null) => Some(false),
        ExprKind::Const(Value::Int(v)) => Some(*v != 0),
        ExprKind::Const(Value::UInt(v)) => Some(*v != 0),
        _ => None,
    }
}
