//! WHERE, and what MySQL makes of `IS NULL` there for columns that are never NULL.
//!
//! ODBC has no zero date, so programs look for one with `date IS NULL`: as a conjunct of WHERE it finds
//! `0000-00-00` in a DATE or DATETIME column that is NOT NULL; in OR, ON, HAVING and select lists it does not. With
//! sql_auto_is_null, `counter IS NULL` alone finds the row that was inserted last. `ISNULL(…)` is the same.
//!
//! Neighbours: `select` and changes of rows bind their WHERE here, `expr` the condition itself.
//! **Invariant**: where an outer join adds rows of NULL, these are found as well.

use std::borrow::Cow;

use esker_sql_syntax::ast;
use esker_types::cmp;
use esker_types::temporal::{Date, DateTime};
use esker_types::{SqlResult, TypeKind, Value};

use super::computed::Reading;
use super::expr::{bind_condition, bind_expr};
use super::scope::{ColumnAt, Scope};
use super::{BindEnv, compare};
use crate::expr::{CmpOp, Expr, ExprKind, Test};

/// Binds WHERE.
///
/// # Errors
/// As [`bind_condition`].
pub fn bind_filter(env: &BindEnv<'_>, scope: &Scope<'_>, expr: &ast::Expr) -> SqlResult<Expr> {
    let expr = not_in(expr);
    scope.reads_computed.set(Reading::Plain.of(&expr));
    let mut bound = bind_condition(env, scope, &expr)?;
    if let Some(last) = find_last_number(env, scope, &bound)? {
        return Ok(last);
    }
    find_zero_dates(env, scope, &mut bound)?;
    if !env.describe_only {
        refuse_no_dates(env, &bound)?;
    }
    Ok(bound)
}

/// 1525 for a user variable that a date is said to be equal to, and which is no date: such a condition is as good as
/// one with a constant. Below NOT and in other comparisons it only warns.
fn refuse_no_dates(env: &BindEnv<'_>, cond: &Expr) -> SqlResult<()> {
    let cmp = match &cond.kind {
        ExprKind::And(conds) | ExprKind::Or(conds) => {
            return conds.iter().try_for_each(|c| refuse_no_dates(env, c));
        }
        ExprKind::Cmp(cmp) if cmp.op == CmpOp::Eq => cmp,
        _ => return Ok(()),
    };
    let (name, other) = match (&cmp.left.kind, &cmp.right.kind) {
        (ExprKind::UserVar(name), ExprKind::Column(_)) => (name, &cmp.right),
        (ExprKind::Column(_), ExprKind::UserVar(name)) => (name, &cmp.left),
        _ => return Ok(()),
    };
    match env.vars.get(name) {
        Some((value, _)) => cmp::check_date_constant(env.ctx, &value, &other.ty),
        None => Ok(()),
    }
}

/// With sql_auto_is_null, the condition that `counter IS NULL` alone stands for.
fn find_last_number(env: &BindEnv<'_>, scope: &Scope<'_>, cond: &Expr) -> SqlResult<Option<Expr>> {
    match null_test(cond) {
        Some(arg) if env.ctx.auto_is_null && is_counter(scope, arg) => {
            let last = ast::Call::plain(ast::Ident::new("last_insert_id"), Vec::new());
            let last = bind_expr(env, scope, &ast::Expr::Call(Box::new(last)))?;
            compare::compare(env, CmpOp::Eq, arg.clone(), last).map(Some)
        }
        _ => Ok(None),
    }
}

/// What `… IS NULL` or `ISNULL(…)` tests.
fn null_test(cond: &Expr) -> Option<&Expr> {
    match &cond.kind {
        ExprKind::Is {
            arg,
            test: Test::Null,
            negated: false,
        } => Some(arg),
        ExprKind::Func(call) if call.def.name == "isnull" => call.args.first(),
        _ => None,
    }
}

/// The condition with `NOT IN (SELECT …)` for `IN (SELECT …) IS FALSE`, as views have it: as a conjunct the two are the
/// same, and the former can become a join.
fn not_in(expr: &ast::Expr) -> Cow<'_, ast::Expr> {
    match expr {
        ast::Expr::Is {
            expr: inner,
            negated: false,
            test: ast::IsTest::False,
        } => match &**inner {
            ast::Expr::InSubquery {
                expr,
                query,
                negated: false,
            } => Cow::Owned(ast::Expr::InSubquery {
                expr: expr.clone(),
                query: query.clone(),
                negated: true,
            }),
            _ => Cow::Borrowed(expr),
        },
        ast::Expr::And(all) => {
            let new: Vec<_> = all.iter().map(not_in).collect();
            match new.iter().any(|e| matches!(e, Cow::Owned(_))) {
                true => Cow::Owned(ast::Expr::And(
                    new.into_iter().map(Cow::into_owned).collect(),
                )),
                false => Cow::Borrowed(expr),
            }
        }
        _ => Cow::Borrowed(expr),
    }
}

fn find_zero_dates(env: &BindEnv<'_>, scope: &Scope<'_>, cond: &mut Expr) -> SqlResult<()> {
    if let ExprKind::And(conds) = &mut cond.kind {
        return conds
            .iter_mut()
            .try_for_each(|cond| find_zero_dates(env, scope, cond));
    }
    let Some(arg) = null_test(cond) else {
        return Ok(());
    };
    let zero = match arg.ty.kind {
        TypeKind::Date => Value::Date(Date::ZERO),
        TypeKind::DateTime => Value::DateTime(DateTime::ZERO),
        _ => return Ok(()),
    };
    if !is_never_null(scope, arg) {
        return Ok(());
    }
    debug_assert!(arg.ty.is_temporal());
    let zero = Expr {
        kind: ExprKind::Const(zero),
        ..arg.clone()
    };
    let is_zero = compare::compare(env, CmpOp::Eq, arg.clone(), zero)?;
    let is_added = arg.ty.nullable;
    if is_added {
        let ty = cond.ty.clone();
        let is_null = std::mem::replace(cond, is_zero.clone());
        cond.kind = ExprKind::Or(vec![is_null, is_zero]);
        cond.ty = ty;
    } else {
        *cond = is_zero;
    }
    Ok(())
}

/// Is it an AUTO_INCREMENT column that no outer join makes NULL?
fn is_counter(scope: &Scope<'_>, e: &Expr) -> bool {
    let ExprKind::Column(slot) = e.kind else {
        return false;
    };
    let is_counter = |at: ColumnAt| {
        let def = scope.tables[at.table].base_def();
        def.is_some_and(|def| def.columns[at.column].auto_increment)
    };
    !e.ty.nullable && scope.column_of_slot(slot).is_some_and(is_counter)
}

/// Is it a column that is NOT NULL in its table?
fn is_never_null(scope: &Scope<'_>, e: &Expr) -> bool {
    match e.kind {
        ExprKind::Outer { .. } => !e.ty.nullable,
        ExprKind::Column(slot) => scope.column_of_slot(slot).is_some_and(|at| {
            let def = scope.tables[at.table].base_def();
            def.is_some_and(|def| !def.columns[at.column].ty.nullable)
        }),
        _ => false,
    }
}
