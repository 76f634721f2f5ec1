//! Visiting, comparing and rewriting expressions.
//!
//! Neighbours: `bind` (grouping), `plan` (which columns a condition reads).
//! **Invariant**: [`Expr::children`] and [`Expr::children_mut`] name every direct operand, so a walk
//! written with them misses nothing; plans of subqueries are reached through [`Expr::outer_slots`]
//! only.

use std::sync::Arc;

use esker_types::Value;

use super::fold::{is_foldable, is_pure, is_volatile, tells_time};
use super::{Expr, ExprKind, SubqueryForm};

/// The direct operands of an expression's kind, by `iter` to look at or by `iter_mut, mut` to rewrite.
macro_rules! operands {
    ($kind:expr, $iter:ident $(, $mutable:tt)?) => {
        match &$($mutable)? $kind {
            ExprKind::Const(_)
            | ExprKind::Column(_)
            | ExprKind::Outer { .. }
            | ExprKind::Param(_)
            | ExprKind::UserVar(_)
            | ExprKind::Aggregate(_)
            | ExprKind::Window(_)
            | ExprKind::Key(_) => Vec::new(),
            ExprKind::Assign(_, e)
            | ExprKind::Not(e)
            | ExprKind::Cast(e, _)
            | ExprKind::Convert(e)
            | ExprKind::Number(e, _)
            | ExprKind::Recollate(e)
            | ExprKind::SeededRand(_, e)
            | ExprKind::Is { arg: e, .. } => vec![e],
            ExprKind::Cmp(c) | ExprKind::NullIf(c) => {
                let c = &$($mutable)? **c;
                vec![&$($mutable)? c.left, &$($mutable)? c.right]
            }
            ExprKind::And(v)
            | ExprKind::Or(v)
            | ExprKind::Coalesce(v)
            | ExprKind::Row(v)
            | ExprKind::Grouping(v) => v.$iter().collect(),
            ExprKind::Xor(a) => a.$iter().collect(),
            ExprKind::Arith(a) => a.args.$iter().collect(),
            ExprKind::Unary(u) => vec![&$($mutable)? u.arg],
            ExprKind::Kept(k) => vec![&$($mutable)? k.expr],
            ExprKind::Between(b) => {
                let b = &$($mutable)? **b;
                vec![&$($mutable)? b.arg, &$($mutable)? b.low.0, &$($mutable)? b.high.0]
            }
            ExprKind::InList(l) => {
                let l = &$($mutable)? **l;
                std::iter::once(&$($mutable)? l.arg).chain(&$($mutable)? l.list).collect()
            }
            ExprKind::Match(m) => {
                let m = &$($mutable)? **m;
                std::iter::once(&$($mutable)? m.against).chain(&$($mutable)? m.columns).collect()
            }
            ExprKind::Like(l) => {
                let l = &$($mutable)? **l;
                vec![&$($mutable)? l.text, &$($mutable)? l.pattern]
            }
            ExprKind::Func(f) => f.args.$iter().collect(),
            ExprKind::Stored(f) => f.args.$iter().collect(),
            ExprKind::Case(c) => {
                let c = &$($mutable)? **c;
                let whens = c.whens.$iter().flat_map(|(when, then)| [when, then]);
                whens.chain(&$($mutable)? c.otherwise).collect()
            }
            ExprKind::Subquery(q) => match &$($mutable)? q.form {
                SubqueryForm::Compare { left, .. } => left.$iter().collect(),
                _ => Vec::new(),
            },
        }
    };
}

impl Expr {
    /// Direct operands.
    pub fn children(&self) -> Vec<&Expr> {
        operands!(self.kind, iter)
    }

    /// Direct operands, to rewrite.
    pub fn children_mut(&mut self) -> Vec<&mut Expr> {
        operands!(self.kind, iter_mut, mut)
    }

    /// Calls `f` for this expression and everything below it.
    pub fn visit<'e>(&'e self, f: &mut dyn FnMut(&'e Expr)) {
        f(self);
        for child in self.children() {
            child.visit(f);
        }
    }

    /// Does `f` hold for this expression or anything below it?
    pub fn any(&self, f: &mut dyn FnMut(&Expr) -> bool) -> bool {
        f(self) || self.children().into_iter().any(|c| c.any(f))
    }

    /// Calls `f` with every slot of the current row that evaluation may read, also from subqueries.
    pub fn slots(&self, f: &mut dyn FnMut(u32)) {
        self.visit(&mut |e| match &e.kind {
            ExprKind::Column(slot) => f(*slot),
            ExprKind::Subquery(q) => q.plan.outer_slots(1, f),
            _ => {}
        });
    }

    /// Calls `f` with every slot of the row `depth` levels up that evaluation may read.
    pub fn outer_slots(&self, depth: u16, f: &mut dyn FnMut(u32)) {
        self.visit(&mut |e| match &e.kind {
            ExprKind::Outer { depth: d, slot } if *d == depth => f(*slot),
            ExprKind::Subquery(q) => q.plan.outer_slots(depth + 1, f),
            _ => {}
        });
    }

    /// Reads no column, parameter, variable or subquery and gives the same value every time.
    pub fn is_constant(&self) -> bool {
        !self.any(&mut |e| match &e.kind {
            ExprKind::Column(_)
            | ExprKind::Outer { .. }
            | ExprKind::Param(_)
            | ExprKind::UserVar(_)
            | ExprKind::Assign(..)
            | ExprKind::Aggregate(_)
            | ExprKind::Window(_)
            | ExprKind::Key(_)
            | ExprKind::Grouping(_)
            | ExprKind::Stored(_)
            | ExprKind::Subquery(_) => true,
            ExprKind::Func(call) => !is_pure(call.def),
            _ => false,
        })
    }

    /// Can it be evaluated while the statement is planned, to estimate what it will find? It reads no row, does nothing
    /// and waits for nobody: made of constants, the statement's time and user variables.
    pub fn is_foreseeable(&self) -> bool {
        !self.any(&mut |e| match &e.kind {
            ExprKind::Func(call) if tells_time(call.def) => false,
            ExprKind::UserVar(_) => false,
            _ => !is_foldable(e),
        })
    }

    /// Gives the same value for all rows of one execution: no column of the current row, nothing
    /// volatile.
    pub fn is_row_independent(&self) -> bool {
        !self.any(&mut |e| match &e.kind {
            ExprKind::Column(_)
            | ExprKind::Aggregate(_)
            | ExprKind::Window(_)
            | ExprKind::Key(_)
            | ExprKind::Assign(..)
            | ExprKind::SeededRand(..) => true,
            ExprKind::Stored(call) => call.is_volatile(),
            ExprKind::UserVar(_) | ExprKind::Grouping(_) => true,
            ExprKind::Subquery(q) => q.correlated,
            ExprKind::Func(call) => is_volatile(call.def),
            _ => false,
        })
    }

    /// May it give another value each time it is computed for a row, or do something?
    pub fn is_volatile(&self) -> bool {
        self.any(&mut |e| match &e.kind {
            ExprKind::Assign(..) | ExprKind::SeededRand(..) | ExprKind::Kept(_) => true,
            ExprKind::Func(call) => super::fold::is_volatile(call.def),
            ExprKind::Stored(call) => call.is_volatile(),
            _ => false,
        })
    }

    /// Contains a window function that is not yet computed.
    pub fn has_window(&self) -> bool {
        self.any(&mut |e| matches!(e.kind, ExprKind::Window(_)))
    }

    /// Contains an aggregate that is not yet computed.
    pub fn has_aggregate(&self) -> bool {
        self.any(&mut |e| matches!(e.kind, ExprKind::Aggregate(_)))
    }
}

/// Do two values of one static type look the same?
fn same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::UInt(a), Value::UInt(b)) => a == b,
        (Value::Double(a), Value::Double(b)) => a.to_bits() == b.to_bits(),
        (Value::Decimal(a), Value::Decimal(b)) => a.to_string() == b.to_string(),
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Date(a), Value::Date(b)) => a == b,
        (Value::Time(a), Value::Time(b)) => a == b,
        (Value::DateTime(a), Value::DateTime(b)) => a == b,
        (Value::Bit(a, n), Value::Bit(b, m)) => (a, n) == (b, m),
        (Value::Label(a, _), Value::Label(b, _)) => a == b,
        (Value::Json(a), Value::Json(b)) => a == b,
        _ => false,
    }
}

/// Are two expressions the same expression, written alike?
pub fn same(a: &Expr, b: &Expr) -> bool {
    if a.ty.kind != b.ty.kind || a.ty.collation != b.ty.collation || !same_head(a, b) {
        return false;
    }
    let (left, right) = (a.children(), b.children());
    left.len() == right.len() && left.into_iter().zip(right).all(|(a, b)| same(a, b))
}

/// Are two nodes alike apart from their operands?
fn same_head(a: &Expr, b: &Expr) -> bool {
    match (&a.kind, &b.kind) {
        (ExprKind::Const(a), ExprKind::Const(b)) => same_value(a, b),
        (ExprKind::Column(a), ExprKind::Column(b)) => a == b,
        (ExprKind::Outer { depth: d, slot: s }, ExprKind::Outer { depth, slot }) => {
            (d, s) == (depth, slot)
        }
        (ExprKind::Param(a), ExprKind::Param(b)) => a == b,
        (ExprKind::UserVar(a), ExprKind::UserVar(b)) => a == b,
        (ExprKind::Assign(a, _), ExprKind::Assign(b, _)) => a == b,
        (ExprKind::Cmp(a), ExprKind::Cmp(b)) | (ExprKind::NullIf(a), ExprKind::NullIf(b)) => {
            a.op == b.op
        }
        (
            ExprKind::Is {
                test: t,
                negated: n,
                ..
            },
            ExprKind::Is { test, negated, .. },
        ) => (t, n) == (test, negated),
        (ExprKind::Between(a), ExprKind::Between(b)) => a.negated == b.negated,
        (ExprKind::InList(a), ExprKind::InList(b)) => a.negated == b.negated,
        (ExprKind::Like(a), ExprKind::Like(b)) => (a.negated, a.escape) == (b.negated, b.escape),
        (ExprKind::Arith(a), ExprKind::Arith(b)) => a.op == b.op,
        (ExprKind::Unary(a), ExprKind::Unary(b)) => a.op == b.op,
        (ExprKind::Func(a), ExprKind::Func(b)) => {
            a.def.name == b.def.name && !super::fold::is_volatile(a.def)
        }
        (ExprKind::Stored(a), ExprKind::Stored(b)) => {
            !a.is_volatile() && Arc::ptr_eq(&a.function.def, &b.function.def)
        }
        (ExprKind::Case(a), ExprKind::Case(b)) => {
            (a.whens.len(), a.otherwise.is_some()) == (b.whens.len(), b.otherwise.is_some())
        }
        (ExprKind::Cast(..), ExprKind::Cast(..)) | (ExprKind::Convert(_), ExprKind::Convert(_)) => {
            a.ty == b.ty
        }
        (ExprKind::Number(_, x), ExprKind::Number(_, y)) => x == y && a.ty == b.ty,
        (ExprKind::Aggregate(a), ExprKind::Aggregate(b))
        | (ExprKind::Window(a), ExprKind::Window(b))
        | (ExprKind::Key(a), ExprKind::Key(b)) => a == b,
        (ExprKind::Subquery(a), ExprKind::Subquery(b)) => {
            (a.id, a.form.column()) == (b.id, b.form.column())
        }
        (ExprKind::Match(a), ExprKind::Match(b)) => {
            (a.def.id, a.index, a.mode) == (b.def.id, b.index, b.mode)
        }
        (ExprKind::And(_), ExprKind::And(_))
        | (ExprKind::Or(_), ExprKind::Or(_))
        | (ExprKind::Xor(_), ExprKind::Xor(_))
        | (ExprKind::Not(_), ExprKind::Not(_))
        | (ExprKind::Coalesce(_), ExprKind::Coalesce(_))
        | (ExprKind::Row(_), ExprKind::Row(_))
        | (ExprKind::Grouping(_), ExprKind::Grouping(_))
        | (ExprKind::Recollate(_), ExprKind::Recollate(_)) => true,
        _ => false,
    }
}
