//! BETWEEN: three operands that are compared as one domain where they are texts or numbers.
//!
//! Neighbours: `compare` has what every comparison does with its sides.
//! **Invariant**: a constant bound that loses nothing by it has the type of the column that it bounds.

use esker_sql_syntax::ast;
use esker_types::cmp::{self, CmpKind};
use esker_types::collation::Collation;
use esker_types::{SqlResult, TypeKind, func};

use super::compare::{
    adapt_listed, adapt_value, common_collation, is_textual, kind_of, moment_of, operand, pair,
    settle,
};
use super::computed::Reading;
use super::scope::Scope;
use super::text_numbers::{bind_side, read_once};
use super::{BindEnv, computed, errors, json, parameter};
use crate::expr::{Between, Expr, ExprKind, walk};

/// `arg [NOT] BETWEEN low AND high`.
pub(super) fn bind_between(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    arg: &ast::Expr,
    low_ast: &ast::Expr,
    high_ast: &ast::Expr,
    negated: bool,
) -> SqlResult<Expr> {
    let written = [arg, low_ast, high_ast];
    let operands = bind_operands(env, scope, written)?;
    if operands.iter().any(|e| matches!(e.kind, ExprKind::Row(_))) {
        return Err(errors::operand_columns(1));
    }
    func::refuse_geometries(operands.each_ref().map(|e| &e.ty), "between")?;
    let [mut bound, mut low, mut high] = without_json(env, written, operands);
    // Among several a text that is no date is not refused: it warns, and compares as zero.
    let are_equal = (low.as_const().is_some()) && walk::same(&low, &high);
    for bound_by in [&mut low, &mut high] {
        adapt_value(env, bound_by, &bound, !are_equal);
        adapt_listed(env, &mut bound, bound_by);
    }
    let (low_kind, high_kind) = between_kinds(&bound, &low, &high)?;
    settle(env, &mut low, low_kind)?;
    settle(env, &mut high, high_kind)?;
    if (low_kind, high_kind) == (CmpKind::Double, CmpKind::Double) {
        bound = read_once(bound);
    }
    let nullable = bound.ty.nullable || low.ty.nullable || high.ty.nullable;
    let between = Between {
        arg: bound,
        low: (low, low_kind),
        high: (high, high_kind),
        negated,
    };
    Ok(Expr::condition(
        ExprKind::Between(Box::new(between)),
        nullable,
    ))
}

/// Binds the operands, those that are parameters as what the others are.
fn bind_operands(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    [arg, low_ast, high_ast]: [&ast::Expr; 3],
) -> SqlResult<[Expr; 3]> {
    let reading = scope.reads_computed.take();
    let bind = |side| bind_side(env, scope, side);
    let (mut bound, low, high) = (bind(arg)?, bind(low_ast)?, bind(high_ast)?);
    if reading != Reading::Never {
        computed::read_operand(env, scope, &mut bound, &[&low, &high])?;
    }
    let (again, mut high) = pair(env, scope, (arg, bound.clone()), (high_ast, high))?;
    let (mut bound, mut low) = pair(env, scope, (arg, bound), (low_ast, low))?;
    if matches!(again.kind, ExprKind::Number(..)) {
        bound = again;
    }
    let beside = |other: &Expr| {
        let both = moment_of(&[bound.clone(), other.clone()]);
        both.unwrap_or_else(|| bound.ty.clone())
    };
    let (beside_low, beside_high) = (beside(&high), beside(&low));
    parameter::compare_with(env, low_ast, &mut low, &beside_low, true)?;
    parameter::compare_with(env, high_ast, &mut high, &beside_high, true)?;
    if let Some(moment) = moment_of(&[low.clone(), high.clone()]) {
        let is_bound = moment.kind == TypeKind::Time;
        parameter::compare_with(env, arg, &mut bound, &moment, is_bound)?;
    }
    Ok([bound, low, high])
}

/// JSON values are compared as numbers if one of the operands is a number, or else as texts.
fn without_json(
    env: &BindEnv<'_>,
    [arg, low, high]: [&ast::Expr; 3],
    operands: [Expr; 3],
) -> [Expr; 3] {
    if operands.iter().all(|e| e.ty.kind != TypeKind::Json) {
        return operands;
    }
    json::compared_otherwise(env, "BETWEEN operator");
    let has_numbers = operands.iter().any(|e| e.ty.is_numeric());
    let plain = |written: &ast::Expr, e: Expr| match has_numbers {
        true => json::number(written, e),
        false => json::text(e),
    };
    let [bound, low_value, high_value] = operands;
    [
        plain(arg, bound),
        plain(low, low_value),
        plain(high, high_value),
    ]
}

/// The domains of BETWEEN: its three operands are compared as one domain where they are texts, or
/// numbers and texts mixed, not bound by bound.
fn between_kinds(arg: &Expr, low: &Expr, high: &Expr) -> SqlResult<(CmpKind, CmpKind)> {
    let all = [arg, low, high];
    let pairs = |collation| [low, high].map(|b| cmp::cmp_kind(operand(arg), operand(b), collation));
    let [a, b] = if all.iter().all(|e| is_textual(&e.ty)) {
        pairs(common_collation(&all, "between")?)
    } else if all.iter().any(|e| e.ty.is_numeric()) {
        // Beside a number texts are none: their collations need not mix.
        pairs(Collation::BINARY)
    } else {
        [
            kind_of(arg, low, "between")?,
            kind_of(arg, high, "between")?,
        ]
    };
    let number = |k| matches!(k, CmpKind::Int | CmpKind::Decimal | CmpKind::Double);
    let common = match (a, b) {
        (CmpKind::Double, k) | (k, CmpKind::Double) if number(k) => CmpKind::Double,
        (CmpKind::Decimal, k) | (k, CmpKind::Decimal) if number(k) => {
            match all.iter().any(|e| e.ty.is_string()) {
                true => CmpKind::Double,
                false => CmpKind::Decimal,
            }
        }
        (CmpKind::Str(_), k) | (k, CmpKind::Str(_)) if number(k) => CmpKind::Double,
        // COLLATE on one of the bounds holds for both.
        (CmpKind::Str(_), CmpKind::Str(_)) => {
            let texts = all.into_iter().filter(|e| is_textual(&e.ty));
            let texts: Vec<_> = texts.collect();
            CmpKind::Str(common_collation(&texts, "between")?)
        }
        _ => return Ok((a, b)),
    };
    Ok((common, common))
}
