//! Frames of windows: ROWS and RANGE, and how far their bounds are away.
//!
//! Neighbours: `window` binds the rest of a window; `exec::window::frame` finds the rows.
//! **Invariants**: a bound that is accepted is a distance of the kind that its frame and its order key
//! call for; literals are checked here, parameters when they have values.

use esker_sql_syntax::ast;
use esker_types::arith::{self, ArithFacts, BinOp};
use esker_types::collation::Coercibility;
use esker_types::func::{self, RetCtx};
use esker_types::temporal::IntervalUnit;
use esker_types::{SqlResult, SqlType, TypeKind, Value};

use super::block::{Bound, Frame, Offset, OrderKey};
use super::call::arg_types;
use super::errors::window as wrong;
use super::expr::bind_expr;
use super::scope::Scope;
use super::window::whole_number;
use super::{BindEnv, compare, errors};
use crate::expr::{Arith, Expr, ExprKind, FuncCall};

/// What is wrong with a frame before any name is looked up.
pub(super) fn check_frame(name: &str, frame: &ast::WindowFrame) -> SqlResult<()> {
    use ast::FrameBound as B;
    let backwards = matches!(
        (&frame.start, &frame.end),
        (B::CurrentRow, B::Preceding(..)) | (B::Following(..), B::Preceding(..) | B::CurrentRow)
    );
    match (&frame.start, &frame.end) {
        (B::UnboundedFollowing, _) => Err(wrong::start_illegal(name)),
        (_, B::UnboundedPreceding) => Err(wrong::end_illegal(name)),
        _ if backwards => Err(wrong::frame_illegal(name)),
        _ => Ok(()),
    }
}

pub(super) fn bind_frame(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    name: &str,
    frame: &ast::WindowFrame,
    order: &[OrderKey],
) -> SqlResult<Frame> {
    let bound = |bound: &ast::FrameBound| -> SqlResult<Bound> {
        use ast::FrameBound as B;
        let (amount, unit, back) = match bound {
            B::UnboundedPreceding | B::UnboundedFollowing => return Ok(Bound::Unbounded),
            B::CurrentRow => return Ok(Bound::Current),
            B::Preceding(amount, unit) => (amount, unit, true),
            B::Following(amount, unit) => (amount, unit, false),
        };
        let amount = bind_expr(env, scope, amount)?;
        if varies(&amount) {
            return Err(wrong::frame_not_constant(name));
        }
        let unit = unit.as_deref();
        let offset = Box::new(match frame.range {
            true => range_offset(env, name, amount, unit, order, back)?,
            false => rows_offset(env, name, amount, unit)?,
        });
        Ok(match back {
            true => Bound::Preceding(offset),
            false => Bound::Following(offset),
        })
    };
    Ok(Frame {
        range: frame.range,
        start: bound(&frame.start)?,
        end: bound(&frame.end)?,
    })
}

fn rows_offset(
    env: &BindEnv<'_>,
    name: &str,
    amount: Expr,
    unit: Option<&str>,
) -> SqlResult<Offset> {
    if unit.is_some() {
        return Err(wrong::rows_interval(name));
    }
    env.meets(&amount, &SqlType::bigint(true));
    if amount.as_const().is_some_and(|v| whole_number(v).is_none()) && !env.describe_only {
        return Err(wrong::frame_illegal(name));
    }
    let shifted = None;
    Ok(Offset { amount, shifted })
}

fn range_offset(
    env: &BindEnv<'_>,
    name: &str,
    amount: Expr,
    unit: Option<&str>,
    order: &[OrderKey],
    back: bool,
) -> SqlResult<Offset> {
    let [key] = order else {
        return Err(wrong::range_order_type(name));
    };
    let ty = &key.expr.ty;
    let temporal = ty.is_temporal() && ty.kind != TypeKind::Year;
    if !key.expr.is_row_independent() && changes(&key.expr) || !(temporal || ty.is_numeric()) {
        return Err(wrong::range_order_type(name));
    }
    match unit {
        None if temporal => return Err(wrong::range_temporal(name)),
        Some(_) if !temporal => return Err(wrong::range_numeric(name)),
        _ => {}
    }
    if amount.as_const().is_some_and(is_below_zero) && !env.describe_only {
        return Err(wrong::frame_illegal(name));
    }
    let current = Expr::column(0, ty.clone());
    let distance = Expr::column(1, amount.ty.clone());
    // With DESC what precedes is larger.
    let minus = back != key.desc;
    let shifted = match unit {
        Some(unit) => shift_by_interval(env, current, distance, unit, minus)?,
        None => {
            let op = if minus { BinOp::Sub } else { BinOp::Add };
            let ty = arith::result_type(op, ty, &amount.ty, &ArithFacts::of(env.ctx));
            let text = format!("(… {} …)", op.symbol()).into();
            let args = [current, distance];
            let kind = ExprKind::Arith(Box::new(Arith { op, args, text }));
            let coer = Coercibility::Numeric;
            Expr { kind, ty, coer }
        }
    };
    let kind = compare::kind_of(&Expr::column(0, ty.clone()), &shifted, "=")?;
    let shifted = Some((shifted, kind));
    Ok(Offset { amount, shifted })
}

/// Might each row have a bound of its own?
fn varies(amount: &Expr) -> bool {
    changes(amount)
        || amount.any(&mut |e| match &e.kind {
            ExprKind::Column(_) | ExprKind::Outer { .. } => true,
            ExprKind::Aggregate(_) | ExprKind::Window(_) => true,
            ExprKind::Subquery(query) => query.correlated,
            _ => false,
        })
}

/// May the expression give another value when it is asked again?
fn changes(e: &Expr) -> bool {
    e.any(&mut |e| match &e.kind {
        ExprKind::SeededRand(..) | ExprKind::Assign(..) | ExprKind::Stored(_) => true,
        ExprKind::Func(call) => crate::expr::fold::is_volatile(call.def),
        _ => false,
    })
}

/// A temporal value shifted by an interval.
fn shift_by_interval(
    env: &BindEnv<'_>,
    from: Expr,
    amount: Expr,
    unit: &str,
    minus: bool,
) -> SqlResult<Expr> {
    let unit = IntervalUnit::by_name(unit).ok_or_else(|| errors::syntax(unit))?;
    let verb = if minus { "sub" } else { "add" };
    let name = format!("date_{verb}_{}", unit.name());
    let def = func::lookup(&name).ok_or_else(|| errors::unknown_function(&name))?;
    let args = vec![from, amount];
    let signature = def.bind(&arg_types(&args), &RetCtx::of(env.ctx))?;
    let arg_types = args.iter().map(|a| a.ty.clone()).collect();
    let ty = signature.ret.clone();
    let coer = Coercibility::of_column(&ty);
    let kind = ExprKind::Func(Box::new(FuncCall {
        def,
        args,
        arg_types,
        signature,
    }));
    Ok(Expr { kind, ty, coer })
}

/// Is it a distance that no frame may have: NULL or negative?
pub fn is_below_zero(v: &Value) -> bool {
    use Value as V;
    match v {
        V::Null => true,
        V::Int(v) => *v < 0,
        V::Double(v) => *v < 0.0,
        V::Decimal(d) => d.is_negative(),
        V::Str(s) => s.trim_ascii_start().first() == Some(&b'-'),
        _ => false,
    }
}
