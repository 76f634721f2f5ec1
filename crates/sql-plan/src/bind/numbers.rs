//! Operands of comparisons that MySQL takes for other numbers than their types say.
//!
//! Neighbours: `compare` asks before it chooses the domain of a comparison, `esker_types::cmp` makes the comparison.
//! **Invariants**: a column stays what an index finds, but for YEAR beside a date and for a FLOAT with fixed decimals
//! beside another kind of number.

use esker_types::arith::BinOp;
use esker_types::collation::Coercibility;
use esker_types::decimal::{EXACT_IN_DOUBLE, MAX_PRECISION, ParseStatus};
use esker_types::sqltype::NOT_FIXED_DECIMALS;
use esker_types::{Decimal, SqlType, TypeKind, Value};

use super::scope::Scope;
use crate::expr::{Arith, Expr, ExprKind};

/// In a condition a text beside an integer is the number that it holds, also one that no double has. (Elsewhere MySQL
/// compares both as doubles.)
pub(super) fn exact_text(scope: &Scope<'_>, text: &mut Expr, other: &Expr) {
    let is_condition = scope.clause.get().is_condition();
    if !is_condition || other.as_const().is_some() {
        return;
    }
    if is_fixed_float(&other.ty) {
        fixed_text(text);
        fixed_value(text, &other.ty);
        return;
    }
    let (ExprKind::Const(Value::Str(digits)), true) = (&text.kind, other.ty.is_integer()) else {
        return;
    };
    let (number, status) = Decimal::parse(digits);
    if status == ParseStatus::Exact && number.abs() > Decimal::from(EXACT_IN_DOUBLE as i64) {
        let ty = SqlType::decimal(number.precision().max(1), number.scale());
        *text = Expr::constant(Value::Decimal(number), ty.with_nullable(false));
    }
}

/// A constant text or double beside a FLOAT(M,D) as the number that it is written as.
fn fixed_text(constant: &mut Expr) {
    let number = match &constant.kind {
        ExprKind::Const(Value::Str(digits)) => Some(Decimal::parse(digits))
            .filter(|(_, status)| *status == ParseStatus::Exact)
            .map(|(number, _)| number),
        ExprKind::Const(Value::Double(v)) => Some(Decimal::from_f64(*v))
            .filter(|(_, is_clamped)| !is_clamped)
            .map(|(number, _)| number),
        _ => None,
    };
    if let Some(number) = number {
        let ty = SqlType::decimal(number.precision().max(1), number.scale());
        *constant = Expr::constant(Value::Decimal(number), ty.with_nullable(false));
    }
}

/// A constant number with no more decimals than the FLOAT(M,D) beside it is the value that it becomes there, however
/// far that is from it.
fn fixed_value(constant: &mut Expr, float: &SqlType) {
    debug_assert!(is_fixed_float(float));
    let number = match constant.as_const() {
        Some(Value::Int(n)) => *n as f64,
        Some(Value::UInt(n)) => *n as f64,
        Some(Value::Decimal(n)) if n.normalized().scale() <= float.decimals => n.to_f64(),
        _ => return,
    };
    let digits = float.length as i32 - i32::from(float.decimals);
    if number.abs() < 10f64.powi(digits) {
        let stored = f64::from(number as f32);
        *constant = Expr::constant(Value::Double(stored), float.clone().with_nullable(false));
    }
}

/// Makes two operands comparable as MySQL compares them.
pub(super) fn align(left: &mut Expr, right: &mut Expr) {
    if left.ty.kind == TypeKind::Year {
        year_beside(left, &right.ty);
    } else if right.ty.kind == TypeKind::Year {
        year_beside(right, &left.ty);
    }
    if is_fixed_float(&left.ty) && has_fixed_decimals(&right.ty) {
        fix(left, right);
    } else if is_fixed_float(&right.ty) && has_fixed_decimals(&left.ty) {
        fix(right, left);
    }
}

/// A year beside a date is its month 0: 1998 is 19980000, or 19980000000000 beside a date with time.
fn year_beside(year: &mut Expr, other: &SqlType) {
    const MONTH_AND_DAY: i64 = 10_000;
    const WITH_TIME: i64 = 10_000_000_000;
    let factor = match other.kind {
        TypeKind::Date => MONTH_AND_DAY,
        TypeKind::DateTime | TypeKind::Timestamp => WITH_TIME,
        _ => return,
    };
    let nullable = year.ty.nullable;
    let ty = SqlType::bigint(false);
    let factor = Expr::constant(Value::Int(factor), ty.clone().with_nullable(false));
    let whole = std::mem::replace(year, Expr::null());
    let arith = Arith {
        op: BinOp::Mul,
        args: [whole, factor],
        text: "".into(),
    };
    *year = Expr {
        kind: ExprKind::Arith(Box::new(arith)),
        ty: ty.with_nullable(nullable),
        coer: Coercibility::Numeric,
    };
}

/// FLOAT(M,D)?
fn is_fixed_float(ty: &SqlType) -> bool {
    ty.kind == TypeKind::Float && ty.decimals < NOT_FIXED_DECIMALS
}

/// A number of another kind than FLOAT with fixed decimals?
fn has_fixed_decimals(ty: &SqlType) -> bool {
    match ty.kind {
        TypeKind::Double | TypeKind::Decimal => ty.decimals < NOT_FIXED_DECIMALS,
        _ => ty.is_integer(),
    }
}

/// Both as DECIMAL with the decimals of the one that has more.
fn fix(float: &mut Expr, other: &mut Expr) {
    let decimals = float.ty.decimals.max(other.ty.decimals);
    for e in [float, other] {
        if matches!(e.ty.kind, TypeKind::Float | TypeKind::Double) {
            let ty = SqlType::decimal(MAX_PRECISION, decimals).with_nullable(e.ty.nullable);
            let inner = std::mem::replace(e, Expr::null());
            *e = Expr {
                kind: ExprKind::Convert(Box::new(inner)),
                ty,
                coer: Coercibility::Numeric,
            };
        }
    }
}
