//! Moments among texts where a number is wanted: `IF(c, date, text) + 0`.
//!
//! IF and CASE of a date and a text are texts, but MySQL asks the chosen operand itself for a number, and a date is one
//! (20200101), a JSON value the number in it, a label of an ENUM or SET its own; LEAST and GREATEST compare moments and
//! give the number of the one that they found, or, of a TIME and a text, compare numbers. IFNULL and COALESCE give the
//! number at the beginning of the text (2020), and so do IF and CASE in CAST to an integer.
//!
//! Neighbours: `expr`, `call` and `aggregates` bind what computes with numbers.
//! **Invariants**: the type of an expression does not change, only its text: it becomes the digits of the number; a
//! choice is looked at before it is folded to a text.

use esker_sql_syntax::ast::{self, UnaryOp};
use esker_types::collation::Coercibility;
use esker_types::sqltype::NOT_FIXED_DECIMALS;
use esker_types::temporal::MAX_FSP;
use esker_types::{SqlResult, SqlType, TypeKind};

use super::expr::folded;
use super::scope::Scope;
use super::{BindEnv, call};
use crate::expr::{Case, Expr, ExprKind, FuncCall};

/// Digits of a moment, sign and point.
const MOST_CHARS: u32 = 24;
/// Digits of a moment without its fraction.
const WHOLE_DIGITS: u32 = 14;

/// An operand of a calculation that chooses among others. `is_cast`: it is cast to an integer.
pub(super) fn bind_choice(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    arg: &ast::Expr,
    is_cast: bool,
) -> SqlResult<Option<Expr>> {
    let is = |call: &ast::Call, names: &[&str]| names.iter().any(|n| call.name.is(n));
    let chosen = match arg {
        ast::Expr::Call(c) if is(c, &["greatest", "least"]) => call::bind_call(env, scope, c)?,
        ast::Expr::Call(c) if !is_cast && is(c, &["if"]) => call::bind_call(env, scope, c)?,
        ast::Expr::Case {
            operand,
            whens,
            otherwise,
        } if !is_cast => {
            call::bind_case(env, scope, operand.as_deref(), whens, otherwise.as_deref())?
        }
        ast::Expr::Unary { op, expr } if *op == UnaryOp::Plus => {
            return bind_choice(env, scope, expr, is_cast);
        }
        _ => return Ok(None),
    };
    Ok(Some(folded(env, scope, as_number(env, chosen))))
}

fn as_number(env: &BindEnv<'_>, e: Expr) -> Expr {
    if !e.ty.is_string() {
        return e;
    }
    let Expr { kind, ty, coer } = e;
    let kind = match kind {
        ExprKind::Case(case) => ExprKind::Case(Box::new(of_choice(env, *case))),
        ExprKind::Func(call) if is_extreme(&call) => return of_extreme(env, *call, ty, coer),
        kind => kind,
    };
    Expr { kind, ty, coer }
}

fn of_choice(env: &BindEnv<'_>, case: Case) -> Case {
    let text = || SqlType::varchar(MOST_CHARS, env.ctx.collation_connection);
    let chosen = |e: Expr| match e.ty.kind {
        _ if e.ty.is_temporal() => digits(env, e),
        // The number of its label.
        TypeKind::Enum(_) | TypeKind::Set(_) => {
            convert(convert(e, SqlType::double(NOT_FIXED_DECIMALS)), text())
        }
        TypeKind::Json => convert(convert(e, SqlType::double(NOT_FIXED_DECIMALS)), text()),
        _ => as_number(env, e),
    };
    let whens = case.whens.into_iter();
    Case {
        whens: whens.map(|(when, then)| (when, chosen(then))).collect(),
        otherwise: case.otherwise.map(chosen),
    }
}

/// GREATEST or LEAST of texts and moments?
fn is_extreme(call: &FuncCall) -> bool {
    let is_it = matches!(call.def.name, "greatest" | "least");
    is_it && call.args.iter().any(|a| a.ty.is_temporal())
}

fn of_extreme(env: &BindEnv<'_>, mut call: FuncCall, ty: SqlType, coer: Coercibility) -> Expr {
    let has = |kinds: &[TypeKind]| call.args.iter().any(|a| kinds.contains(&a.ty.kind));
    let moment = match has(&[TypeKind::DateTime, TypeKind::Timestamp]) {
        true => Some(SqlType {
            decimals: MAX_FSP,
            ..SqlType::new(TypeKind::DateTime)
        }),
        false => has(&[TypeKind::Date]).then(|| SqlType::new(TypeKind::Date)),
    };
    if let Some(moment) = moment {
        let kind = ExprKind::Func(Box::new(call));
        let text = Expr { kind, ty, coer };
        return digits(env, cast(text, moment));
    }
    // Numbers are compared.
    let double = |arg: Expr| {
        let arg = match arg.ty.is_temporal() {
            true => digits(env, arg),
            false => arg,
        };
        convert(arg, SqlType::double(NOT_FIXED_DECIMALS))
    };
    call.args = call.args.into_iter().map(double).collect();
    call.arg_types = call.args.iter().map(|a| a.ty.clone()).collect();
    call.signature.ret = SqlType::double(NOT_FIXED_DECIMALS);
    let ret = call.signature.ret.clone();
    let kind = ExprKind::Func(Box::new(call));
    let number = Expr {
        kind,
        ty: ret,
        coer,
    };
    convert(number, ty)
}

/// The text of the number that a moment is.
fn digits(env: &BindEnv<'_>, moment: Expr) -> Expr {
    let decimals = moment.ty.decimals.min(MAX_FSP);
    let number = SqlType::decimal(WHOLE_DIGITS + u32::from(decimals), decimals);
    let text = SqlType::varchar(MOST_CHARS, env.ctx.collation_connection);
    convert(convert(moment, number), text)
}

fn cast(text: Expr, ty: SqlType) -> Expr {
    Expr {
        kind: ExprKind::Cast(Box::new(text), "".into()),
        ty,
        coer: Coercibility::Numeric,
    }
}

fn convert(e: Expr, ty: SqlType) -> Expr {
    let ty = ty.with_nullable(e.ty.nullable);
    Expr {
        kind: ExprKind::Convert(Box::new(e)),
        ty,
        coer: Coercibility::Coercible,
    }
}
