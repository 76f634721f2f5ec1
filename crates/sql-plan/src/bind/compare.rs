//! Comparisons: `=` and its kin, for values and for rows.
//!
//! Neighbours: `between` and `in_list` are comparisons, too; `esker_types::cmp` decides how two types compare,
//! `collation::aggregate` in which collation (error 1267).
//! **Invariants**: rows are taken apart here into conditions on their members; constants compared
//! with a column are converted to the column's type when that loses nothing, so that access paths
//! and comparisons see one type.

use esker_sql_syntax::ast::{self, BinaryOp};
use esker_types::cmp::{self, CmpKind, Operand};
use esker_types::collation::{self, Coercibility, Collation};
use esker_types::temporal::MAX_FSP;
use esker_types::{SqlResult, SqlType, Time, TypeKind, Value, cast, func};

use super::computed::Reading;
use super::expr::{bind_any, folded, negation, number_literal};
use super::scope::Scope;
use super::text_numbers::{Wanted, bind_side, number_of};
use super::{BindEnv, Params, computed, errors, json, numbers, parameter, subquery};
use crate::expr::{Cmp, CmpOp, Expr, ExprKind, Kept, bool_type, fold};

/// The comparison operator, if it is one.
pub(super) fn comparison(op: BinaryOp) -> Option<CmpOp> {
    Some(match op {
        BinaryOp::Eq => CmpOp::Eq,
        BinaryOp::NullSafeEq => CmpOp::NullSafeEq,
        BinaryOp::Ne => CmpOp::Ne,
        BinaryOp::Lt => CmpOp::Lt,
        BinaryOp::Le => CmpOp::Le,
        BinaryOp::Gt => CmpOp::Gt,
        BinaryOp::Ge => CmpOp::Ge,
        _ => return None,
    })
}

/// Does the type take part in collation aggregation?
pub(super) fn is_textual(ty: &SqlType) -> bool {
    ty.is_string() || matches!(ty.kind, TypeKind::Enum(_) | TypeKind::Set(_))
}

/// A text's collation and how strongly it insists on it.
fn claim(e: &Expr) -> (Collation, Coercibility) {
    (e.ty.collation, e.coer)
}

pub(super) fn operand(e: &Expr) -> Operand<'_> {
    let constant = matches!(e.kind, ExprKind::Const(_) | ExprKind::Param(_));
    Operand {
        ty: &e.ty,
        constant,
    }
}

/// [`adapt_value`], and error 1525 for a text compared with a date that it is not; in a strict change of rows 1292.
fn adapt(env: &BindEnv<'_>, constant: &mut Expr, column: &Expr) -> SqlResult<()> {
    adapt_value(env, constant, column, false);
    let ExprKind::Const(value) = &constant.kind else {
        return Ok(());
    };
    let strict = &env.ctx.diagnostics.strict_write;
    let around = strict.replace(env.changes_strictly.get());
    let checked = cmp::check_date_constant(env.ctx, value, &column.ty);
    strict.set(around);
    checked
}

/// Has the constant a say in the comparison's collation? COLLATE has; CAST and CONVERT ... USING as much as a column.
fn insists(constant: &Expr, column: &Expr) -> bool {
    match constant.coer {
        Coercibility::Explicit | Coercibility::None => true,
        Coercibility::Implicit => {
            is_textual(&constant.ty)
                && is_textual(&column.ty)
                && constant.ty.collation != column.ty.collation
        }
        _ => false,
    }
}

/// A constant compared with a column becomes one of the column's type when that changes nothing. `is_listed`: it is one
/// of several.
pub(super) fn adapt_value(env: &BindEnv<'_>, constant: &mut Expr, column: &Expr, is_listed: bool) {
    let ExprKind::Const(value) = &constant.kind else {
        return;
    };
    let is_column = matches!(column.kind, ExprKind::Column(_) | ExprKind::Outer { .. });
    if !is_column || insists(constant, column) {
        return;
    }
    // What the column's character set lacks is refused when the collation is looked for.
    if is_textual(&column.ty)
        && func::check_constant(value, &constant.ty, column.ty.collation).is_err()
    {
        return;
    }
    let as_column =
        |value| cmp::constant_as_column(env.ctx, value, &constant.ty, &column.ty, is_listed);
    let adapted = as_column(value).or_else(|| {
        let is_time = column.ty.kind == TypeKind::Time;
        is_time.then(|| cmp::constant_as_time(env.ctx, value, &constant.ty, &column.ty))?
    });
    if let Some(value) = adapted {
        *constant = Expr {
            kind: ExprKind::Const(value),
            ty: column.ty.clone().with_nullable(false),
            coer: Coercibility::Numeric,
        };
    }
}

/// [`adapt_value`] for a member of a list, or what is between columns: there two digits are no year.
pub(super) fn adapt_listed(env: &BindEnv<'_>, constant: &mut Expr, column: &Expr) {
    const FIRST_WRITTEN_OUT: i128 = 100;
    if column.ty.kind == TypeKind::Year
        && let Some(value) = constant.as_const()
        && cast::to_int(&env.ctx.quiet(), value).is_ok_and(|v| v < FIRST_WRITTEN_OUT)
    {
        return;
    }
    adapt_value(env, constant, column, true);
}

/// A text among several values that a TIME is compared with is the time at its beginning, and zero if there is none.
pub(super) fn adapt_listed_time(
    env: &BindEnv<'_>,
    constant: &mut Expr,
    time: &Expr,
) -> SqlResult<()> {
    if let (ExprKind::Const(text @ Value::Str(_)), TypeKind::Time) = (&constant.kind, &time.ty.kind)
    {
        let found = cast::to_time(env.ctx, text)?.unwrap_or(Time::ZERO);
        let ty = SqlType {
            decimals: MAX_FSP,
            ..SqlType::new(TypeKind::Time)
        };
        *constant = Expr::constant(Value::Time(found), ty.with_nullable(false));
    }
    Ok(())
}

/// [`adapt`] in both directions.
pub(super) fn adapt_pair(env: &BindEnv<'_>, a: &mut Expr, b: &mut Expr) -> SqlResult<()> {
    env.meets(a, &b.ty);
    env.meets(b, &a.ty);
    adapt(env, a, b)?;
    adapt(env, b, a)
}

/// A constant text in a comparison of doubles becomes a double once, with its warning, instead of
/// row by row. A statement that changes rows reads it while it runs: there the warning is an error. One
/// compared with JSON values becomes JSON.
pub(super) fn settle(env: &BindEnv<'_>, constant: &mut Expr, kind: CmpKind) -> SqlResult<()> {
    if let (ExprKind::Const(value), CmpKind::Json) = (&constant.kind, kind)
        && !matches!(value, Value::Null | Value::Json(_))
    {
        *constant = json::constant(value, &constant.ty)?;
        return Ok(());
    }
    let (ExprKind::Const(text @ Value::Str(_)), CmpKind::Double) = (&constant.kind, kind) else {
        return Ok(());
    };
    if env.describe_only || env.changes_rows.get() {
        return Ok(());
    }
    let ty = SqlType::new(TypeKind::Double).with_nullable(false);
    *constant = Expr::constant(Value::Double(cast::to_f64(env.ctx, text)?), ty);
    Ok(())
}

/// The collation in which texts compare.
///
/// # Errors
/// 1267 for collations that do not mix, 3854 for a constant that its character set lacks.
pub(super) fn common_collation(texts: &[&Expr], operation: &str) -> SqlResult<Collation> {
    let claims: Vec<_> = texts.iter().map(|e| claim(e)).collect();
    let (collation, _) = collation::aggregate_for(&claims, operation)?;
    for text in texts {
        if let Some(value) = text.as_const() {
            func::check_constant(value, &text.ty, collation)?;
        }
    }
    Ok(collation)
}

/// How two expressions compare.
///
/// # Errors
/// 1267 for strings whose collations do not mix, 3854.
pub(super) fn kind_of(a: &Expr, b: &Expr, operation: &str) -> SqlResult<CmpKind> {
    let mut collation = Collation::BINARY;
    if is_textual(&a.ty) && is_textual(&b.ty) {
        collation = common_collation(&[a, b], operation)?;
    } else if is_textual(&a.ty) {
        collation = a.ty.collation;
    } else if is_textual(&b.ty) {
        collation = b.ty.collation;
    }
    Ok(cmp::cmp_kind(operand(a), operand(b), collation))
}

/// A comparison of two bound values, folded.
pub(super) fn compare(
    env: &BindEnv<'_>,
    op: CmpOp,
    mut left: Expr,
    mut right: Expr,
) -> SqlResult<Expr> {
    adapt_pair(env, &mut left, &mut right)?;
    numbers::align(&mut left, &mut right);
    compare_adapted(env, op, left, right)
}

/// What CASE asks of its operand and of each WHEN: texts agree on one collation, and a text that is no
/// date is not refused.
pub(super) fn compare_case(
    env: &BindEnv<'_>,
    operand: &Expr,
    whens: impl IntoIterator<Item = Expr>,
) -> SqlResult<Vec<Expr>> {
    let whens: Vec<Expr> = whens.into_iter().collect();
    let mut common = Collation::BINARY;
    if is_textual(&operand.ty) {
        let texts = whens.iter().filter(|w| is_textual(&w.ty));
        let texts: Vec<_> = std::iter::once(operand).chain(texts).collect();
        common = common_collation(&texts, "case")?;
    }
    let kept = operand.is_volatile().then(|| env.subquery_id());
    let mut is_first = true;
    let compared = whens.into_iter().map(|mut when| {
        let mut operand = match kept {
            Some(id) => kept_operand(id, operand, std::mem::take(&mut is_first)),
            None => operand.clone(),
        };
        adapt_listed(env, &mut operand, &when);
        adapt_listed(env, &mut when, &operand);
        let kind = match is_textual(&operand.ty) && is_textual(&when.ty) {
            _ if is_json(&operand) || is_json(&when) => kind_of_json_in_case(&operand, &when),
            true => cmp::cmp_kind(self::operand(&operand), self::operand(&when), common),
            false => kind_of(&operand, &when, "case")?,
        };
        if kind == CmpKind::Int && operand.ty.unsigned != when.ty.unsigned {
            // As in MySQL their bits are compared: -1 is the largest BIGINT UNSIGNED.
            (operand, when) = (signed(operand), signed(when));
        }
        compare_as(env, CmpOp::Eq, kind, operand, when)
    });
    compared.collect()
}

/// An integer of 64 bits with a sign.
fn signed(e: Expr) -> Expr {
    let ty = SqlType::bigint(false).with_nullable(e.ty.nullable);
    let coer = e.coer;
    Expr {
        kind: ExprKind::Convert(Box::new(e)),
        ty,
        coer,
    }
}

/// The operand of a CASE beside one of its WHENs.
fn kept_operand(id: u32, operand: &Expr, computes: bool) -> Expr {
    Expr {
        kind: ExprKind::Kept(Box::new(Kept {
            id,
            expr: operand.clone(),
            computes,
        })),
        ty: operand.ty.clone(),
        coer: operand.coer,
    }
}

fn is_json(e: &Expr) -> bool {
    e.ty.kind == TypeKind::Json
}

/// Unlike `=`, CASE takes a JSON value for its text, or beside a number for a number.
fn kind_of_json_in_case(operand: &Expr, when: &Expr) -> CmpKind {
    match operand.ty.is_numeric() || when.ty.is_numeric() {
        true => CmpKind::Double,
        false => CmpKind::Str(Collation::UTF8MB4_BIN),
    }
}

fn compare_adapted(env: &BindEnv<'_>, op: CmpOp, left: Expr, right: Expr) -> SqlResult<Expr> {
    let kind = kind_of(&left, &right, op.text())?;
    compare_as(env, op, kind, left, right)
}

fn compare_as(
    env: &BindEnv<'_>,
    op: CmpOp,
    kind: CmpKind,
    mut left: Expr,
    mut right: Expr,
) -> SqlResult<Expr> {
    settle(env, &mut left, kind)?;
    settle(env, &mut right, kind)?;
    let nullable = op != CmpOp::NullSafeEq && (left.ty.nullable || right.ty.nullable);
    let cmp = Cmp {
        op,
        kind,
        left,
        right,
    };
    Ok(fold::fold(
        Expr::condition(ExprKind::Cmp(Box::new(cmp)), nullable),
        &env.fold_env(),
    ))
}

/// Makes a pair of two operands; a hexadecimal literal is a number when the other side is one. Members of rows are
/// pairs each.
pub(super) fn pair(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    (left, mut l): (&ast::Expr, Expr),
    (right, mut r): (&ast::Expr, Expr),
) -> SqlResult<(Expr, Expr)> {
    if let (ast::Expr::Row(left), ast::Expr::Row(right)) = (left, right)
        && let (ExprKind::Row(ls), ExprKind::Row(rs)) = (&mut l.kind, &mut r.kind)
    {
        let written = left.iter().zip(right);
        for ((l, r), (left, right)) in ls.iter_mut().zip(rs).zip(written) {
            let bound = [&mut *l, r].map(|side| std::mem::replace(side, Expr::null()));
            let [bound_left, bound_right] = bound;
            (*l, *r) = pair(env, scope, (left, bound_left), (right, bound_right))?;
        }
        return Ok((l, r));
    }
    if r.ty.is_numeric() {
        l = number_of(scope, l, Wanted::Double);
    } else if l.ty.is_numeric() {
        r = number_of(scope, r, Wanted::Double);
    }
    (l, r) = (folded(env, scope, l), folded(env, scope, r));
    if l.ty.kind == TypeKind::Json {
        r = json::as_compared_truth(env, scope, right, r)?;
    } else if r.ty.kind == TypeKind::Json {
        l = json::as_compared_truth(env, scope, left, l)?;
    }
    if let (Some(number), true) = (number_literal(left), r.ty.is_numeric()) {
        l = number;
    }
    if let (Some(number), true) = (number_literal(right), l.ty.is_numeric()) {
        r = number;
    }
    Ok((l, r))
}

/// The side of a comparison with a parameter that says, in a condition, whether the comparison is NULL: as in MySQL the
/// parameter is not looked at there, so that one that is no date does not count as NULL.
pub(super) fn bind_tested_side(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    comparison: &ast::Expr,
) -> SqlResult<Option<Expr>> {
    let ast::Expr::Binary { op, left, right } = comparison else {
        return Ok(None);
    };
    let is_plain = self::comparison(*op).is_some_and(|op| op != CmpOp::NullSafeEq);
    let (param, other) = match (&**left, &**right) {
        (ast::Expr::Param(nth), other) | (other, ast::Expr::Param(nth)) => (*nth, other),
        _ => return Ok(None),
    };
    let Params::Values(values) = env.params else {
        return Ok(None);
    };
    let is_null = values.get(param as usize).is_none_or(Value::is_null);
    if is_null || !is_plain || !scope.clause.get().is_condition() {
        return Ok(None);
    }
    let other = bind_any(env, scope, other)?;
    Ok(other.ty.is_temporal().then_some(other))
}

/// `left op right`.
pub(super) fn bind_comparison(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    op: CmpOp,
    left: &ast::Expr,
    right: &ast::Expr,
) -> SqlResult<Expr> {
    // Taken in any case: what is bound later is no condition of its own.
    let reading = scope.reads_computed.take();
    match (left, right) {
        (ast::Expr::Row(_), ast::Expr::Subquery(q)) => {
            return subquery::bind_row_comparison(env, scope, left, op, q);
        }
        (ast::Expr::Subquery(q), ast::Expr::Row(members)) => {
            if members.iter().any(|m| matches!(m, ast::Expr::Row(_))) {
                return Err(errors::operand_columns(1));
            }
            return subquery::bind_row_comparison(env, scope, right, op.flip(), q);
        }
        _ => {}
    }
    let bind = |side: &ast::Expr| {
        if reading != Reading::Never && matches!(side, ast::Expr::Binary { .. }) {
            scope.reads_computed.set(Reading::Plain.of(side));
        }
        bind_side(env, scope, side)
    };
    let (mut l, mut r) = (bind(left)?, bind(right)?);
    if reading.compares_by(op) {
        computed::read_operand(env, scope, &mut l, &[&r])?;
        computed::read_operand(env, scope, &mut r, &[&l])?;
    }
    let (mut l, mut r) = pair(env, scope, (left, l), (right, r))?;
    let left_is_null = parameter::compare_with(env, left, &mut l, &r.ty, false)?;
    let right_is_null = parameter::compare_with(env, right, &mut r, &l.ty, false)?;
    // What is no date is not equal to a date that is NULL.
    if op == CmpOp::NullSafeEq && (left_is_null || right_is_null) {
        return Ok(Expr::constant(Value::bool(false), bool_type(false)));
    }
    numbers::exact_text(scope, &mut l, &r);
    numbers::exact_text(scope, &mut r, &l);
    // Members of rows may be any, as in MySQL.
    if op.is_order() {
        func::refuse_geometries([&l.ty, &r.ty], op.text())?;
    }
    compare_any(env, op, l, r)
}

/// Compares values or rows.
pub(super) fn compare_any(
    env: &BindEnv<'_>,
    op: CmpOp,
    left: Expr,
    right: Expr,
) -> SqlResult<Expr> {
    match (left.kind, right.kind) {
        (ExprKind::Row(left), ExprKind::Row(right)) => compare_rows(env, op, left, right),
        (ExprKind::Row(members), _) => Err(errors::operand_columns(members.len())),
        (_, ExprKind::Row(_)) => Err(errors::operand_columns(1)),
        (l, r) => {
            let left = Expr {
                kind: l,
                ty: left.ty,
                coer: left.coer,
            };
            let right = Expr {
                kind: r,
                ty: right.ty,
                coer: right.coer,
            };
            compare(env, op, left, right)
        }
    }
}

/// `(a, b) op (c, d)` as conditions on the members.
fn compare_rows(
    env: &BindEnv<'_>,
    op: CmpOp,
    left: Vec<Expr>,
    right: Vec<Expr>,
) -> SqlResult<Expr> {
    if left.len() != right.len() {
        return Err(errors::operand_columns(left.len()));
    }
    let pairs = left.into_iter().zip(right);
    match op {
        CmpOp::Eq | CmpOp::NullSafeEq => {
            let conds = pairs.map(|(l, r)| compare_any(env, op, l, r));
            Ok(Expr::all_of(conds.collect::<SqlResult<_>>()?))
        }
        CmpOp::Ne => {
            let conds = pairs.map(|(l, r)| compare_any(env, CmpOp::Eq, l, r));
            let equal = Expr::all_of(conds.collect::<SqlResult<_>>()?);
            Ok(negation(equal))
        }
        // a < c OR (a = c AND b < d), from the last member to the first.
        CmpOp::Lt | CmpOp::Le | CmpOp::Gt | CmpOp::Ge => {
            let strict = if matches!(op, CmpOp::Lt | CmpOp::Le) {
                CmpOp::Lt
            } else {
                CmpOp::Gt
            };
            let mut result: Option<Expr> = None;
            for (l, r) in pairs.rev() {
                result = Some(match result {
                    None => compare_any(env, op, l, r)?,
                    Some(rest) => {
                        let ahead = compare_any(env, strict, l.clone(), r.clone())?;
                        let equal = compare_any(env, CmpOp::Eq, l, r)?;
                        let nullable = ahead.ty.nullable || rest.ty.nullable;
                        let tied = Expr::all_of(vec![equal, rest]);
                        Expr::condition(ExprKind::Or(vec![ahead, tied]), nullable)
                    }
                });
            }
            result.ok_or_else(|| errors::operand_columns(1))
        }
    }
}

/// What a parameter is that all of these are compared with, if they are temporal values of one kind or other.
pub(super) fn moment_of(others: &[Expr]) -> Option<SqlType> {
    let are = |kinds: &[TypeKind]| others.iter().all(|e| kinds.contains(&e.ty.kind));
    let kind = match () {
        () if others.is_empty() => return None,
        () if are(&[TypeKind::Time]) => TypeKind::Time,
        () if are(&[TypeKind::Date]) => TypeKind::Date,
        () if others
            .iter()
            .all(|e| e.ty.is_temporal() && e.ty.kind != TypeKind::Year) =>
        {
            TypeKind::DateTime
        }
        () => return None,
    };
    Some(SqlType::new(kind))
}
